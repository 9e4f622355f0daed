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
_SECRET_WORDS = frozenset(
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
# what stands before "token" in the name of a token of a text, which is no secret
_KINDS_OF_TOKENS = frozenset(
    {"bos", "eos", "pad", "unk", "sep", "stop", "start", "end", "mask", "cls"}
)
_FIELDS_WITHOUT_EFFECT = (
    frozenset(  # how a model is called, watched and named, not what it replies
        {
            "callbacks",
            "max_concurrency",
            "max_retries",
            "metadata",
            "name",
            "rate_limiter",
            "recursion_limit",
            "request_timeout",
            "reuse_client",
            "run_id",
            "run_name",
            "streaming_callback",
            "tags",
            "timeout",
            "verbose",
        }
    )
)
# Below these, all names are of what is sent: a function called ``search``, a field
# called ``timeout``.
_FIELDS_SENT = frozenset(
    {"extra_body", "functions", "properties", "response_format", "tool_choice", "tools"}
)
_USER_IN_ADDRESS = re.compile(r"//[^/@\s]*@")
_ADDRESS_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)_(?:BASE_URL|API_BASE|ENDPOINT|HOST)")
# that name a class in what frameworks write
_CLASS_FIELDS = frozenset({"_type", "class_name", "id", "type"})
_WORDS_OF_NO_PROVIDER = (
    frozenset(  # words of variables and of classes that name no provider
        {
            "api",
            "base",
            "chat",
            "community",
            "completion",
            "components",
            "core",
            "generator",
            "generators",
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
        }
    )
)
_PROVIDER_ALIASES = {"hf": "huggingface"}
# characters, from which on a word may stand within another, as in ChatOpenAI
_LEAST_LENGTH_WITHIN = 4


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
    """Return the key under which the replies of a framework's model object are kept.

    It is a digest of what the framework writes of the object to a file, without what is
    secret. It is the same in every process.

    Args:
        component: The model object.
        form: Gives what the framework writes of it, e.g. a mapping of its settings.

    Returns:
        None where replies must not be kept beyond the process: ``form`` gives no
        complete form, or the class of the object, or of an object in it, is defined
        outside of installed packages, so that its code may change.
    """
    if not _are_all_installed(component, set()):
        return None
    try:
        serialised = public_form(form())
        names_of_classes = [
            f"{base.__module__}.{base.__qualname__}" for base in type(component).__mro__
        ]
        # a provider's address in the environment changes replies as a setting does
        addresses = provider_addresses([*names_of_classes, *_class_names(serialised)])
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
    """Return the variables of the environment that hold the address of a provider.

    A variable such as ``OPENAI_BASE_URL`` or ``OLLAMA_HOST`` counts if each word before
    its ending names the provider. A word does so if it is a word of ``names``, or long
    enough to be found within one, as ``openai`` in ``ChatOpenAI``. Words such as
    ``api``, ``chat`` or ``model`` name none. So ``DB_HOST`` and ``LANGSMITH_ENDPOINT``
    are the address of no provider.

    Args:
        names: Names of classes, or of providers.

    Returns:
        The value of each such variable, by its name.
    """
    all_names = " ".join(names).lower()
    searched_text = f"{all_names} {all_names.replace('_', '')}"
    words_of_names = (
        frozenset(re.split(r"[\W_]+", searched_text)) - _WORDS_OF_NO_PROVIDER
    )

    def names_the_provider(word: str) -> bool:
        word = _PROVIDER_ALIASES.get(word, word)
        is_within_a_name = len(word) >= _LEAST_LENGTH_WITHIN and word in searched_text
        return word in words_of_names or is_within_a_name

    addresses = {}
    for variable, value in os.environ.items():
        match = _ADDRESS_VARIABLE.fullmatch(variable)
        if match is None:
            continue
        words = match[1].lower().split("_")  # those before the ending
        telling_words = [word for word in words if word not in _WORDS_OF_NO_PROVIDER]
        if telling_words and all(map(names_the_provider, telling_words)):
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


def public_form(form: object, *, is_sent: bool = False) -> object:
    """Return a form of a model's settings without what is secret.

    Headers, fields that hold secrets, and the user in addresses are left out. So are
    fields without a value, and those that say how the model is called, watched and
    named, such as ``timeout``: they change no reply.

    Args:
        form: Data such as JSON has: what a framework writes of the model.
        is_sent: Whether it is part of the request itself, such as the schema of a tool.
            There a field called ``timeout`` is not a setting, and all fields but
            secrets are kept.
    """
    if isinstance(form, Mapping):
        public_fields = {}
        for name, value in form.items():
            if not is_sent and (value is None or name in _FIELDS_WITHOUT_EFFECT):
                continue
            if not _is_secret(name, value, is_sent=is_sent):
                public_fields[name] = public_form(
                    value, is_sent=is_sent or name in _FIELDS_SENT
                )
        return public_fields
    if isinstance(form, (list, tuple)):
        return [public_form(value, is_sent=is_sent) for value in form]
    return _USER_IN_ADDRESS.sub("//", form) if isinstance(form, str) else form


def _is_secret(name: object, value: object, *, is_sent: bool) -> bool:
    """Whether a field holds a secret, as far as its name tells.

    True for names such as ``api_key``, ``openaiApiKey`` or ``default_headers``; False
    for ``eos_token`` and the like, which are no tokens of access, and for numbers.

    Args:
        name: The field's name.
        value: What it holds.
        is_sent: Whether it is part of the request itself. There a field called ``key``
            may belong to the schema of a tool: it is a secret only if it holds a text,
            while headers are always secret.
    """
    words = [word.lower() for word in _WORD.findall(str(name))]
    if isinstance(value, (int, float)) or _SECRET_WORDS.isdisjoint(words):
        return False
    if is_sent and words[-1] != "headers" and not isinstance(value, str):
        return False
    is_special_token = (
        words[-1] == "token" and len(words) > 1 and words[-2] in _KINDS_OF_TOKENS
    )
    return not is_special_token


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
    """Whether an object and the objects in it are of classes of installed packages.

    Of an object of pydantic, a mapping or a list, the parts are looked at too. The
    class of any other object inside does not count.

    Args:
        component: The object.
        visited: Ids of the objects looked at so far; this one is added. Empty for the
            outermost object.
    """
    if id(component) in visited or isinstance(component, (str, bytes)):
        return True
    visited.add(id(component))
    is_of_installed_class = is_installed(type(component).__module__)
    parts: Iterable[object]
    if isinstance(component, Mapping):
        parts = component.values()
    elif isinstance(component, BaseModel):
        if not is_of_installed_class:
            return False
        parts = vars(component).values()
    elif isinstance(component, Sequence):
        parts = component
    else:
        is_inside = len(visited) > 1
        return is_inside or is_of_installed_class
    return all(_are_all_installed(part, visited) for part in parts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
