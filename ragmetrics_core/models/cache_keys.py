"""The keys under which the replies of a model are stored.

A key is made of the model's own name, its address and its settings, and of no secret.
All settings count, except secrets; the variables of the environment do not, except those
that hold the address of a provider.
"""

import functools
import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ragmetrics_core.models.addresses import public_address

_logger = logging.getLogger("ragmetrics_core")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SECRET_WORDS = frozenset(
    {"key", "keys", "secret", "password", "passwd", "credential", "credentials"}
)
# Words before "token" in the names of special tokens of a text, such as "eos_token".
# These are no secrets.
_KINDS_OF_TOKENS = frozenset(
    {"bos", "eos", "pad", "unk", "sep", "stop", "start", "end", "mask", "cls"}
)
# Headers that say who asks, or that differ from call to call or process to process.
_NO_SETTING = re.compile(
    r"(?:auth\w*|key|token|secret|cookie|credentials?|organi[sz]ation|project|\bid)$"
    r"|trace|session|user|baggage",
    re.IGNORECASE,
)
# Replies are stored as they were read. 2: what a framework completed does not count.
_READING = 2
_ADDRESS = re.compile(r"https?://\S+")
_USER_IN_ADDRESS = re.compile(r"//[^/@\s]*@")
# The variables by which SDKs of providers take another address.
_ADDRESS_VARIABLE = re.compile(
    r"[A-Z][A-Z0-9_]*_(?:BASE_URL|API_BASE)"
    r"|AZURE_OPENAI_ENDPOINT|HF_ENDPOINT|OLLAMA_HOST"
)


def endpoint_key(address: str, model: str, extra: Mapping[str, Any]) -> str | None:
    """Return the key under which the replies of an endpoint are stored.

    Args:
        address: The endpoint's address.
        model: The model's own name there, whatever name results show.
        extra: Further arguments of calls; their order does not count.

    Returns:
        The address and a digest; None if an argument cannot be written as JSON.
    """
    try:
        settings = json.dumps([model, extra], sort_keys=True)
    except (TypeError, ValueError):
        return None
    return f"{address}#{_digest(settings)}"


def key_of(component: object, form: Callable[[], object]) -> str | None:
    """Return the key under which the replies of a framework's model object are stored.

    It is a digest of the object's serialised settings without secrets, and is the same
    in every process. Example: "ChatOpenAI#3f2a…"; with another temperature the digits
    differ.

    Args:
        component: The model object.
        form: Serialises the object as its framework does, e.g. to a mapping of its
            settings.

    Returns:
        The key; None where replies must not be kept beyond the process, because two
        different models might get the same key: the settings cannot be serialised, or a
        class is not from an installed package, so that its code may change.
    """
    if not _are_all_installed(component, set()):
        return None
    try:
        settings = public_form(form())
        # A provider's address in the environment changes replies like a setting.
        text = json.dumps([settings, provider_addresses(), _READING], sort_keys=True)
    except Exception as error:  # noqa: BLE001  # the framework's or a user's code raised: no key
        _logger.debug(
            "replies of %s are kept for the process only: %s",
            type(component).__name__,
            type(error).__name__,
        )
        return None
    return f"{type(component).__qualname__}#{_digest(text)}"


def provider_addresses() -> dict[str, str]:
    """Return the variables of the environment that hold the address of a provider.

    All providers count, since nobody knows which of them a model object asks. So a
    changed address of another provider makes a model ask anew.

    Returns:
        The value of each such variable, by its name, without user and password.
    """
    return {
        variable: _USER_IN_ADDRESS.sub("//", value)
        for variable, value in os.environ.items()
        if _ADDRESS_VARIABLE.fullmatch(variable)
    }


@functools.lru_cache(maxsize=4096)
def is_installed(module: str) -> bool:
    """Whether a module belongs to Python itself or to an installed package.

    The code of such a module only changes with its version.
    """
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(
        Path(file).parts
    )


def public_form(settings: object) -> object:
    """Return a model's serialised settings without secrets.

    These are texts of fields such as ``api_key``, headers that say who asks or belong to
    one call, and the user in addresses. Another header may choose the model at a
    gateway. Example: ``{"model": "m", "api_key": "k"}`` gives ``{"model": "m"}``.

    Args:
        settings: The settings, or a part of them, as data of JSON.
    """
    if isinstance(settings, str):
        return _USER_IN_ADDRESS.sub("//", settings)
    if isinstance(settings, (list, tuple)):
        return [public_form(value) for value in settings]
    if not isinstance(settings, Mapping):
        return settings
    form: dict[object, object] = {}
    for name, value in settings.items():
        if _words_of(name)[-1:] != ["headers"]:  # such as ``default_headers``
            if not _is_secret(name, value):
                form[name] = public_form(value)
        elif isinstance(value, Mapping):
            kept = {
                header: str(text)
                for header, text in value.items()
                if not _NO_SETTING.search(str(header))
            }
            if kept:
                form[name] = kept
    return form


def address_in(form: object) -> str:
    """Return the first address of a form, without user, query or key; "" without one."""
    parts: Iterable[object] = ()
    if isinstance(form, str):
        return public_address(form) if _ADDRESS.fullmatch(form) else ""
    if isinstance(form, Mapping):
        parts = [part for name, part in form.items() if "proxy" not in str(name)]
    elif isinstance(form, (list, tuple)):
        parts = form
    return next(filter(None, map(address_in, parts)), "")


def _words_of(name: object) -> list[str]:
    """The words of a field's name in lower case: "api" and "key" of ``apiKey``."""
    return [word.lower() for word in _WORD.findall(str(name))]


def _is_secret(name: object, value: object) -> bool:
    """Whether a field holds a secret, by its name.

    True for names such as ``api_key`` or ``openaiApiKey``; False for ``eos_token`` and
    the like, which are tokens of a text, for numbers, and for what has parts, such as
    the schema of a tool's argument.
    """
    words = _words_of(name)
    if not words or isinstance(value, (int, float, Mapping, list, tuple)):
        return False
    if words[-1] == "token":
        return _KINDS_OF_TOKENS.isdisjoint(words)
    return not _SECRET_WORDS.isdisjoint(words)


def _are_all_installed(component: object, visited: set[int]) -> bool:
    """Whether a model object is made of classes of installed packages alone.

    The class of the outermost object and those of all pydantic objects in it count, in
    mappings and lists, too. Other objects in it, such as callbacks, pass.

    Args:
        component: The object.
        visited: Ids of the objects looked at so far; this object is added. Empty for
            the outermost object.
    """
    if id(component) in visited or isinstance(component, (str, bytes)):
        return True
    counts = isinstance(component, BaseModel) or not visited
    visited.add(id(component))
    parts: Iterable[object] = ()
    if isinstance(component, Mapping):
        parts = component.values()
    elif isinstance(component, Sequence):
        parts = component
    elif counts and not is_installed(type(component).__module__):
        return False
    elif isinstance(component, BaseModel):
        parts = vars(component).values()
    return all(_are_all_installed(part, visited) for part in parts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
