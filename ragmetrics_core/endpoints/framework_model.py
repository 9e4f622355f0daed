"""A model object of a framework as the model behind a judge: how it is called, and what its exceptions mean."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any

from ragmetrics_core.data import errors
from ragmetrics_core.endpoints.chat import Capabilities, ChatModel, ChatReply, ChatRequest
from ragmetrics_core.endpoints.endpoint_errors import foreign
from ragmetrics_core.endpoints.keys import key_of
from ragmetrics_core.endpoints.threads import in_thread

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

    def __init__(
        self, held: object, *, name: str, capabilities: Capabilities, judge_async: bool, cache_key: str | None
    ) -> None:
        self._held, self._name, self._capabilities = held, name, capabilities
        self._async, self._cache_key = judge_async, cache_key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """Name of the model, for results."""
        return self._name

    @property
    def cache_key(self) -> str | None:
        """As given, else a digest of the object's own serialised form; None if it has no complete one."""
        return self._cache_key if self._cache_key is not None else key_of(self._held, self._form)

    def capabilities(self) -> Capabilities:
        """What the model can do, as far as known without a call."""
        return self._capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request; ``JudgeError`` by what the object raised says of the endpoint, else by its class."""
        task: asyncio.Future[ChatReply]
        if self._async:
            task = asyncio.get_running_loop().create_task(self._acall(request), context=judge_context())
        else:
            task = asyncio.wrap_future(in_thread(self._work(request), context=judge_context(), name="ragmetrics-model"))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, Exception) and not isinstance(error, errors.RagMetricsError):
            error = foreign(error, self.name)
        raise error

    @abstractmethod
    def _work(self, request: ChatRequest) -> Callable[[], ChatReply]:
        """What is to be done in a thread: a call of the object; made ready on the loop."""

    @abstractmethod
    def _acall(self, request: ChatRequest) -> Coroutine[Any, Any, ChatReply]:
        """Await the object's async API."""

    @abstractmethod
    def _form(self) -> object:
        """What the framework writes of the object to a file: data of JSON."""
