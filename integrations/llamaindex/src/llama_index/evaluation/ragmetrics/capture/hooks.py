"""The handlers that the framework calls. They hand on what they are told; their errors would be swallowed unseen."""

from __future__ import annotations

import inspect
from typing import Any, Protocol

from llama_index.core.instrumentation.events.chat_engine import StreamChatDeltaReceivedEvent
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMCompletionEndEvent
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span.base import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import PrivateAttr


class Listener(Protocol):
    """Who is told what happens; its methods never raise."""

    def enter(self, id_: str, bound: inspect.BoundArguments, instance: object, parent_id: str | None) -> None:
        """A span began."""

    def exit(self, id_: str, instance: object, result: object) -> None:
        """A span ended with a result."""

    def drop(self, id_: str, instance: object, error: BaseException | None) -> None:
        """A span ended with an exception."""

    def hear(self, id_: str | None, delta: str) -> None:
        """A piece of a streamed chat answer was written."""

    def said(self, id_: str | None, reply: object) -> None:
        """A model has said all that it says; a streamed reply is whole only now."""


class Spans(BaseSpanHandler[BaseSpan]):
    """The span handler that the framework calls."""

    _listener: Listener = PrivateAttr()

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener

    @classmethod
    def class_name(cls) -> str:
        """Name of the handler."""
        return "RagMetricsSpanHandler"

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,  # noqa: ARG002  # the framework's signature
        **_: Any,
    ) -> None:
        """A span began."""
        self._listener.enter(id_, bound_args, instance, parent_id)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002  # the framework's signature
        instance: Any | None = None,
        result: Any | None = None,
        **_: Any,
    ) -> None:
        """A span ended with a result."""
        self._listener.exit(id_, instance, result)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002  # the framework's signature
        instance: Any | None = None,
        err: BaseException | None = None,
        **_: Any,
    ) -> None:
        """A span ended with an exception."""
        self._listener.drop(id_, instance, err)

    def new_span(self, *_: Any, **__: Any) -> None:
        """The framework's own bookkeeping is not used."""

    def prepare_to_exit_span(self, *_: Any, **__: Any) -> None:
        """The framework's own bookkeeping is not used."""

    def prepare_to_drop_span(self, *_: Any, **__: Any) -> None:
        """The framework's own bookkeeping is not used."""


class Events(BaseEventHandler):
    """The event handler that the framework calls, for what no span shows: streamed pieces and whole replies."""

    _listener: Listener = PrivateAttr()

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener

    @classmethod
    def class_name(cls) -> str:
        """Name of the handler."""
        return "RagMetricsEventHandler"

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """An event."""
        if isinstance(event, StreamChatDeltaReceivedEvent):
            self._listener.hear(event.span_id, event.delta)
        elif isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)):
            self._listener.said(event.span_id, event.response)


def install(spans: Spans, events: Events) -> None:
    """Put the handlers on the root dispatcher, unless they are there."""
    root = get_dispatcher()
    # Handlers compare equal by value, so ours are looked for by identity; others may have removed them.
    if not any(handler is spans for handler in root.span_handlers):
        root.add_span_handler(spans)
    if not any(handler is events for handler in root.event_handlers):
        root.add_event_handler(events)
