"""Which replies an object of the user's would give: a digest of all that makes it up, to keep stored replies apart.

Equal digests in different processes must mean equal replies (as far as a model repeats itself at all), so nothing is
guessed: an object with a part that cannot be described has no digest, and its stored replies are never taken for those
of another. What code reads while it runs, such as files and variables of the environment, is not seen.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from types import ModuleType
from uuid import UUID

from pydantic import BaseModel, SecretBytes, SecretStr

from ragmetrics_core.endpoints.described_code import code_parts, is_library, made_of_code

Parts = Callable[[object], Mapping[str, object] | None]

_MOST = 50_000  # values of one object; a larger one is not described
_DEEPEST = 60
_SECRET = re.compile(
    r"(?:.*[_-])?(?:api[_-]?keys?|secret|passw(?:or)?d|authorization|credentials?|cookie|connection[_-]string)"
    r"|(?:.*[_-])?(?:access|private|subscription)[_-]key(?:[_-]id)?|(?:.*[_-])?(?:hf|huggingface)[_-]token"
    r"|(?:.*[_-])?(?:access|auth|api|bearer|session|security|ad|id)[_-]?token|token|secret[_-]?key|.*token[_-]?provider",
    re.IGNORECASE,
)
_CLIENTS = (
    *("aiohttp", "anthropic", "azure.core", "azure.identity", "boto3", "botocore", "cohere", "google.auth"),
    *("google.genai.client", "google.oauth2", "groq", "httpx", "mistralai", "ollama", "openai", "requests"),
)
_ADDRESSES = ("base_url", "_client.base_url", "meta.endpoint_url")


class Undescribable(Exception):
    """Part of an object that cannot be described."""


def identity(thing: object, parts: Parts = lambda _: None) -> str | None:
    """Digest what makes up an object: its class, its fields, the code of what users wrote themselves.

    Keys and passwords are left out, as far as their type or name tells them; clients count by their address.

    Args:
        thing: A model, chain or generator of any framework.
        parts: What makes up an object of the framework, by name; None for what is no such object.

    Returns:
        The class's name and the digest, the same in every process; None if a part cannot be described.

    Example:
        >>> identity({"seed": 1}) == identity({"seed": 1}), identity({"seed": 1}) == identity({"seed": 2})
        (True, False)
    """
    try:
        text = json.dumps(_Description(parts).of(thing), sort_keys=True)
    except Exception:  # noqa: BLE001  # a part of the user's raised something when it was looked at: not described
        return None
    return f"{type(thing).__qualname__}#{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def apart(thing: object) -> str:
    """The class's name and a random number, for an object that cannot be described."""
    return f"{type(thing).__qualname__}#{secrets.token_hex(12)}"


def fields_of(model: BaseModel) -> dict[str, object]:
    """All that an object of pydantic holds: its fields, its private attributes, and extra ones."""
    return {**attributes_of(model), **(model.__pydantic_extra__ or {}), **(model.__pydantic_private__ or {})}


def attributes_of(thing: object) -> dict[str, object]:
    """What an object holds in attributes, apart from those with two underscores and from what it works out of them."""
    slots = (name for base in type(thing).__mro__ for name in _listed(base.__dict__.get("__slots__", ())))
    held = {name: getattr(thing, name) for name in slots if hasattr(thing, name)} | getattr(thing, "__dict__", {})
    kept: dict[str, object] = {}
    for name, value in held.items():
        made_from = next((vars(base)[name] for base in type(thing).__mro__ if name in vars(base)), None)
        if not name.startswith("__") and not isinstance(made_from, functools.cached_property):
            kept[name] = value
    return kept


def _listed(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


class _Description:
    """Describes one object in data that JSON can hold.

    Args:
        parts: As for ``identity``.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._path: list[int] = []
        self._count = 0

    def of(self, thing: object) -> object:
        """Describe a value and all that it holds.

        Raises:
            Undescribable: If that is not possible.
        """
        self._count += 1
        if self._count > _MOST or len(self._path) > _DEEPEST:
            raise Undescribable(type(thing).__name__)
        if isinstance(thing, Enum):
            return [_name(type(thing)), thing.name, self.of(thing.value)]
        if thing is None or isinstance(thing, (bool, int, str)):
            return thing if type(thing) in (type(None), bool, int, str) else [_name(type(thing)), str(thing)]
        if thing is ... or thing is NotImplemented:
            return repr(thing)
        if id(thing) in self._path:
            return {"again": len(self._path) - self._path.index(id(thing))}
        self._path.append(id(thing))
        try:
            return self._held(thing)
        finally:
            self._path.pop()

    def _held(self, thing: object) -> object:
        if isinstance(thing, (float, complex, bytes, Decimal, Fraction, UUID, date, time, timedelta, PurePath, range)):
            return [_name(type(thing)), str(thing)]
        if isinstance(thing, re.Pattern):
            return ["pattern", thing.pattern if isinstance(thing.pattern, str) else str(thing.pattern), thing.flags]
        named = self._parts(thing)
        if named is not None:
            return [self.of(type(thing)), self._named(named)]
        if made_of_code(thing):
            return [self.of(part) for part in code_parts(thing)]
        if isinstance(thing, functools.partial):
            return ["partial", self.of(thing.func), self.of(thing.args), self.of(thing.keywords)]
        return self._structure(thing)

    def _structure(self, thing: object) -> object:
        kind = type(thing)
        if isinstance(thing, Mapping):
            return [self.of(kind), self._mapping(thing)]
        if isinstance(thing, AbstractSet):
            return [self.of(kind), sorted(json.dumps(self.of(value), sort_keys=True) for value in thing)]
        if isinstance(thing, Sequence):
            return [self.of(kind), [self.of(value) for value in thing]]
        if isinstance(thing, BaseModel):
            return [self.of(kind), self._named(fields_of(thing))]
        if is_dataclass(thing):
            return [self.of(kind), self._named(attributes_of(thing))]
        if _is_client(kind):
            return ["client", _address(thing)]
        if isinstance(thing, logging.Logger):
            return "logger"
        if is_library(kind.__module__) or isinstance(thing, ModuleType):
            raise Undescribable(kind.__name__)
        return [self.of(kind), self._named(attributes_of(thing))]

    def _mapping(self, thing: Mapping[object, object]) -> object:
        if len(thing) > _MOST:
            raise Undescribable(type(thing).__name__)
        if all(isinstance(key, str) for key in thing):
            return self._named({str(key): value for key, value in thing.items()})
        return sorted(json.dumps([self.of(key), self.of(value)], sort_keys=True) for key, value in thing.items())

    def _named(self, parts: Mapping[str, object]) -> object:
        """Values by name: without those that are not set, without secrets, without clients at an address named."""
        told = {
            name: value
            for name, value in parts.items()
            if value is not None
            and not isinstance(value, (SecretStr, SecretBytes))
            and not ((isinstance(value, (str, bytes)) or callable(value)) and _SECRET.fullmatch(name))
        }
        addresses = {value.rstrip("/") for value in told.values() if isinstance(value, str)}
        clients = {name for name, value in told.items() if _is_client(type(value))}
        others = {_address(told[name]) for name in clients} - addresses - {""}
        described: dict[str, object] = {name: self.of(value) for name, value in told.items() if name not in clients}
        return [described, sorted(others)] if others else described


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_client(kind: type) -> bool:
    """True for clients of providers, which carry requests and change no replies, except by their address."""
    return not issubclass(kind, (BaseModel, Mapping)) and any(
        kind.__module__ == root or kind.__module__.startswith(f"{root}.") for root in _CLIENTS
    )


def _address(client: object) -> str:
    """Where a client sends requests; "" if it does not say."""
    for path in _ADDRESSES:
        found = functools.reduce(lambda holder, name: getattr(holder, name, None), path.split("."), client)
        if found is not None and str(found):
            return str(found).rstrip("/")
    return ""
