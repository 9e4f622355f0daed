"""A model object of a framework as the model behind a judge: how it is called, and what its replies are kept under.

That is the object in the framework's own serialised form. No code is read. Where the form leaves out a part, or the
code is somebody's own, there is no key: replies are then kept for the process only, and whoever wants more gives
``cache_key=``.
"""

import asyncio
import functools
import hashlib
import json
import logging
import os
import re
import sys
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ragmetrics_core.endpoints.attempts import typed
from ragmetrics_core.endpoints.chat import Capabilities, ChatModel, ChatReply, ChatRequest
from ragmetrics_core.endpoints.threads import in_thread

Exchange = tuple[Callable[[], Any], Callable[[], Awaitable[Any]], Callable[[Any], ChatReply]]
_logger = logging.getLogger("ragmetrics_core")
_active: ContextVar[bool] = ContextVar("ragmetrics_judge_work", default=False)


@contextmanager
def as_judge_work() -> Iterator[None]:
    """Mark everything started inside as work of judges; tasks and copied contexts inherit the mark."""
    token = _active.set(True)
    try:
        yield
    finally:
        _active.reset(token)


def judge_context() -> Context:
    """An empty context that is marked: for calls of a judge's model, where no tracer of the application is set."""
    context = Context()
    context.run(_active.set, True)
    return context


def is_judge_work() -> bool:
    """True inside the work of a judge: a recorder looks away."""
    return _active.get()


class FrameworkModel(ChatModel):
    """A framework's own model object.

    It is called through its sync API in a daemon thread of its own, in a context where neither the framework's
    tracing nor our capture sees it. A thread that hangs delays nothing.

    Args:
        held: The object.
        name: Name in results.
        capabilities: What it can do, as far as known.
        judge_async: Await its async API on the judges' event loop instead.
        cache_key: What beside the name changes its replies; by default its own serialised form, without secrets.
    """

    name = ""

    def __init__(
        self, held: object, name: str, capabilities: Capabilities, judge_async: bool, cache_key: str | None
    ) -> None:
        self._held, self.name, self._capabilities = held, name, capabilities
        self._async, self._cache_key = judge_async, cache_key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def cache_key(self) -> str | None:
        """As given, else a digest of the object's own serialised form; None if it has no complete one."""
        return self._cache_key if self._cache_key is not None else key_of(self._held, self._form)

    def capabilities(self) -> Capabilities:
        """What the model can do, as far as known without a call."""
        return self._capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request; ``JudgeError`` by what the object raised says of the endpoint, else by its class."""
        return await typed(self.name, self._answered, request)

    async def _answered(self, request: ChatRequest) -> ChatReply:
        call, acall, read = self._exchange(request)

        def called() -> ChatReply:
            with self._quiet():
                return read(call())

        async def awaited() -> ChatReply:
            with self._quiet():
                return read(await acall())

        task: asyncio.Future[ChatReply]
        if self._async:
            task = asyncio.get_running_loop().create_task(awaited(), context=judge_context())
        else:
            task = asyncio.wrap_future(in_thread(called, context=judge_context(), name="ragmetrics-model"))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        return task.result()

    def _quiet(self) -> AbstractContextManager[object]:
        """Around a call: whatever else the framework needs to be told so that its tracing looks away."""
        return nullcontext()

    @abstractmethod
    def _exchange(self, request: ChatRequest) -> Exchange:
        """A request, made ready on the loop: the call for a thread, that for the loop, how their result is read."""

    @abstractmethod
    def _form(self) -> object:
        """What the framework writes of the object to a file: data of JSON."""


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
