"""What stored replies of a framework's model object are kept under: the object in the framework's own serialised form.

No code is read. Where the form leaves out a part, or the code is somebody's own, there is no key: replies are then
kept for the process only, and whoever wants more gives ``cache_key=``.
"""

import functools
import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

_logger = logging.getLogger("ragmetrics_core")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SECRET = frozenset({"key", "keys", "token", "secret", "password", "passwd", "credential", "credentials", "headers"})
_NO_SECRET = frozenset({"bos", "eos", "pad", "unk", "sep", "stop", "start", "end", "mask", "cls"})  # kinds of tokens
_ADDRESSES = ("_BASE_URL", "_API_BASE", "_ENDPOINT", "_HOST")  # variables that clients read where none is set
_NEUTRAL = frozenset(  # how a model is called, watched and named, not what it replies
    {
        *("callbacks", "max_concurrency", "max_retries", "metadata", "name", "rate_limiter", "recursion_limit"),
        *("request_timeout", "reuse_client", "run_id", "run_name", "streaming_callback", "tags", "timeout", "verbose"),
    }
)
_USER = re.compile(r"//[^/@\s]*@")


def key_of(thing: object, form: Callable[[], object]) -> str | None:
    """A digest of what the framework writes of a model object to a file, without secrets; the same in every process.

    None if ``form`` gives no complete form, or the class of ``thing``, or of an object in it, is defined outside an
    installed package.
    """
    if not _all_installed(thing, set()):
        return None
    addresses = {name: value for name, value in os.environ.items() if name.endswith(_ADDRESSES)}
    try:
        text = json.dumps([_public(form()), _public(addresses)], sort_keys=True)
    except Exception as error:  # noqa: BLE001  # whatever a framework or a part of the user's raises: no key
        _logger.debug("replies of %s are kept for the process only: %s", type(thing).__name__, type(error).__name__)
        return None
    return f"{type(thing).__qualname__}#{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@functools.lru_cache(maxsize=4096)
def installed(module: str) -> bool:
    """True for modules of Python itself and of installed packages: their names stand for what is in them."""
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _all_installed(thing: object, seen: set[int]) -> bool:
    """True if no object of pydantic that this one holds, itself included, has a class of the user's."""
    if id(thing) in seen or isinstance(thing, (str, bytes)):
        return True
    seen.add(id(thing))
    if isinstance(thing, (Mapping, BaseModel)):
        held = thing.values() if isinstance(thing, Mapping) else vars(thing).values()
        own = isinstance(thing, Mapping) or installed(type(thing).__module__)
        return own and all(_all_installed(value, seen) for value in held)
    if isinstance(thing, Sequence):
        return all(_all_installed(value, seen) for value in thing)
    return len(seen) > 1 or installed(type(thing).__module__)


def _public(form: object) -> object:
    """The form without fields that hold secrets, headers, and the user of addresses."""
    if isinstance(form, Mapping):
        shown = ((name, value) for name, value in form.items() if value is not None and name not in _NEUTRAL)
        return {name: _public(value) for name, value in shown if not _secret(name, value)}
    if isinstance(form, (list, tuple)):
        return [_public(value) for value in form]
    return _USER.sub("//", form) if isinstance(form, str) else form


def _secret(name: object, value: object) -> bool:
    """True for names such as ``api_key``, ``openaiApiKey`` or ``default_headers``; numbers are no secrets."""
    words = [word.lower() for word in _WORD.findall(str(name))]
    if isinstance(value, (int, float)) or _SECRET.isdisjoint(words):
        return False
    return not (words[-1] == "token" and len(words) > 1 and words[-2] in _NO_SECRET)
