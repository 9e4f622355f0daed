"""What the replies of a model are kept under.

That is the model's own name, its address and its settings, and no secret.

Whatever is sent and may change a reply counts. How a model is called and watched does
not, nor do the variables of the environment, except those that hold the address of the
model's own provider.
"""

import functools
import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

_logger = logging.getLogger("ragmetrics_core")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SECRET = frozenset(
    {
        "key",
        "keys",
        "token",
        "secret",
        "password",
        "passwd",
        "credential",
        "credentials",
        "headers",
    }
)
# kinds of tokens
_NO_SECRET = frozenset(
    {"bos", "eos", "pad", "unk", "sep", "stop", "start", "end", "mask", "cls"}
)
_NEUTRAL = frozenset(  # how a model is called, watched and named, not what it replies
    {
        *(
            "callbacks",
            "max_concurrency",
            "max_retries",
            "metadata",
            "name",
            "rate_limiter",
            "recursion_limit",
        ),
        *(
            "request_timeout",
            "reuse_client",
            "run_id",
            "run_name",
            "streaming_callback",
            "tags",
            "timeout",
            "verbose",
        ),
    }
)
# Below these, all names are of what is sent: a function called ``search``, a field
# called ``timeout``.
_SENT_AS_IT_IS = frozenset(
    {"extra_body", "functions", "properties", "response_format", "tool_choice", "tools"}
)
_USER = re.compile(r"//[^/@\s]*@")
_ADDRESS_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)_(?:BASE_URL|API_BASE|ENDPOINT|HOST)")
# that name a class in what frameworks write
_CLASS_FIELDS = frozenset({"_type", "class_name", "id", "type"})
_OF_NO_PROVIDER = frozenset(  # words of variables and of classes that name no provider
    {
        *(
            "api",
            "base",
            "chat",
            "community",
            "completion",
            "components",
            "core",
            "generator",
            "generators",
        ),
        *(
            "haystack",
            "index",
            "integrations",
            "langchain",
            "llama",
            "llm",
            "llms",
            "model",
            "models",
            "schema",
        ),
    }
)
_PROVIDER_ALIASES = {"hf": "huggingface"}
# characters, from which on a word may stand within another, as in ChatOpenAI
_LONG_WORD = 4


def endpoint_key(
    address: str, query: str, model: str, extra: Mapping[str, Any]
) -> str | None:
    """What an endpoint's replies are kept under.

    Args:
        address: The endpoint's address, without user, password and query.
        query: The query that is sent with each call.
        model: The model's own name there, whatever name results show.
        extra: Further arguments of calls; their order does not count.

    Returns:
        The address and a digest; None if an argument is no data of JSON.
    """
    try:
        settings = json.dumps([query, model, extra], sort_keys=True)
    except (TypeError, ValueError):
        return None
    return f"{address}#{_digest(settings)}"


def key_of(component: object, form: Callable[[], object]) -> str | None:
    """Return a digest of what the framework writes of a model object to a file.

    Secrets are left out. The digest is the same in every process.

    None if ``form`` gives no complete form, or the class of ``component``, or of an object
    in it, is defined outside an installed package.
    """
    if not _are_all_installed(component, set()):
        return None
    try:
        serialised = public_form(form())
        own_classes = [
            f"{kind.__module__}.{kind.__qualname__}" for kind in type(component).__mro__
        ]
        addresses = provider_addresses([*own_classes, *_class_names(serialised)])
        text = json.dumps([serialised, public_form(addresses)], sort_keys=True)
    except Exception as error:  # noqa: BLE001  # whatever a framework or a part of the user's raises: no key
        _logger.debug(
            "replies of %s are kept for the process only: %s",
            type(component).__name__,
            type(error).__name__,
        )
        return None
    return f"{type(component).__qualname__}#{_digest(text)}"


def provider_addresses(names: Iterable[str]) -> dict[str, str]:
    """The variables of the environment that hold the address of a provider.

    A variable such as ``OPENAI_BASE_URL`` or ``OLLAMA_HOST`` counts if the words before
    its ending stand in ``names``, which are those of classes or of providers.
    ``DB_HOST`` or ``LANGSMITH_ENDPOINT`` is the address of none.
    """
    named = " ".join(names).lower()
    searched = f"{named} {named.replace('_', '')}"
    words = frozenset(re.split(r"[\W_]+", searched)) - _OF_NO_PROVIDER

    def is_named(word: str) -> bool:
        word = _PROVIDER_ALIASES.get(word, word)
        return word in words or (len(word) >= _LONG_WORD and word in searched)

    addresses = {}
    for variable, value in os.environ.items():
        if (match := _ADDRESS_VARIABLE.fullmatch(variable)) is None:
            continue
        parts = [
            word for word in match[1].lower().split("_") if word not in _OF_NO_PROVIDER
        ]
        if parts and all(map(is_named, parts)):
            addresses[variable] = value
    return addresses


@functools.lru_cache(maxsize=4096)
def is_installed(module: str) -> bool:
    """Return True for modules of Python itself and of installed packages.

    The names of such modules stand for what is in them.
    """
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(
        Path(file).parts
    )


def public_form(form: object, *, as_it_is: bool = False) -> object:
    """Return a form of a model's settings without what is secret.

    Headers, fields that hold secrets, and the user in addresses are left out.

    Fields that say how the model is called and watched are left out too, unless
    ``as_it_is``.
    """
    if isinstance(form, Mapping):
        serialised = {}
        for name, value in form.items():
            if not as_it_is and (value is None or name in _NEUTRAL):
                continue
            if not _is_secret(name, value, as_it_is=as_it_is):
                serialised[name] = public_form(
                    value, as_it_is=as_it_is or name in _SENT_AS_IT_IS
                )
        return serialised
    if isinstance(form, (list, tuple)):
        return [public_form(value, as_it_is=as_it_is) for value in form]
    return _USER.sub("//", form) if isinstance(form, str) else form


def _is_secret(name: object, value: object, *, as_it_is: bool) -> bool:
    """True for names such as ``api_key``, ``openaiApiKey`` or ``default_headers``.

    Numbers are no secrets.

    In what is sent as it is, a field of a schema may be called ``key``: only a text is
    a secret there.
    """
    words = [word.lower() for word in _WORD.findall(str(name))]
    if isinstance(value, (int, float)) or _SECRET.isdisjoint(words):
        return False
    if as_it_is and words[-1] != "headers" and not isinstance(value, str):
        return False
    return not (words[-1] == "token" and len(words) > 1 and words[-2] in _NO_SECRET)


def _class_names(form: object) -> Iterator[str]:
    """What a form says of the classes of the objects in it."""
    if isinstance(form, Mapping):
        for name, value in form.items():
            if name in _CLASS_FIELDS:
                yield from [value] if isinstance(value, str) else []
                yield from (
                    (part for part in value if isinstance(part, str))
                    if isinstance(value, list)
                    else ()
                )
            yield from _class_names(value)
    elif isinstance(form, list):
        for value in form:
            yield from _class_names(value)


def _are_all_installed(component: object, visited: set[int]) -> bool:
    """Return True if no object of pydantic in this one has a class of the user's.

    The object itself counts, too.
    """
    if id(component) in visited or isinstance(component, (str, bytes)):
        return True
    visited.add(id(component))
    if isinstance(component, (Mapping, BaseModel)):
        if isinstance(component, Mapping):
            parts = component.values()
        elif is_installed(type(component).__module__):
            parts = vars(component).values()
        else:
            return False
        return all(_are_all_installed(value, visited) for value in parts)
    if isinstance(component, Sequence):
        return all(_are_all_installed(value, visited) for value in component)
    return len(visited) > 1 or is_installed(type(component).__module__)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
