"""The handlers that the framework calls.

They only hand on to the recorder, which guards itself, because the framework swallows
what a handler raises.
"""

from typing import Any

from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatInProgressEvent,
    LLMCompletionEndEvent,
    LLMCompletionInProgressEvent,
)
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span.base import BaseSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import Field, PrivateAttr


class Spans(BaseSpanHandler[BaseSpan]):
    """Hands spans to the recorder; the framework's own bookkeeping is not used."""

    _recorder: Any = PrivateAttr()

    def __init__(self, recorder: Any) -> None:
        super().__init__()
        self._recorder = recorder

    def span_enter(self, *_: Any, **span: Any) -> None:
        """Hand on that a span began, and what its method was given."""
        self._recorder.on_span_begin(
            span["id_"],
            span["bound_args"].arguments,
            span.get("instance"),
            span.get("parent_id"),
        )

    def span_exit(self, *_: Any, **span: Any) -> None:
        """Hand on that a span ended with a result."""
        self._recorder.on_span_end(
            span["id_"], span.get("instance"), span.get("result"), None
        )

    def span_drop(self, *_: Any, **span: Any) -> None:
        """Hand on that a span ended with an exception."""
        self._recorder.on_span_end(
            span["id_"],
            span.get("instance"),
            None,
            span.get("err") or GeneratorExit(),
        )

    def new_span(self, *_: Any, **__: Any) -> None:
        """Make no span of the framework's own: nothing would read it."""

    prepare_to_exit_span = prepare_to_drop_span = new_span  # type: ignore[pydantic-field]  # methods, no fields


class Events(BaseEventHandler):
    """Hands to the recorder what no span shows: chunks and replies of streams."""

    recorder: Any = Field(repr=False)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Hand on a model's reply or a chunk of it."""
        if isinstance(event, (LLMChatInProgressEvent, LLMCompletionInProgressEvent)):
            self.recorder.on_model_chunk(event.span_id, event.response)
        elif isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)):
            self.recorder.on_model_reply(event.span_id, event.response)


def install(spans: Spans, events: Events) -> None:
    """Put the handlers on the root dispatcher, unless they are there."""
    root = get_dispatcher()
    # Handlers compare equal by value, so ours are looked for by identity; others may
    # have removed them.
    if not any(handler is spans for handler in root.span_handlers):
        root.add_span_handler(spans)
    if not any(handler is events for handler in root.event_handlers):
        root.add_event_handler(events)
