"""The hooks: one handler that copies what LangChain reports and hands each finished root on. It assembles nothing."""

import inspect
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables.config import ensure_config

from langchain_ragmetrics.recording.calls import Call, Recording
from ragmetrics_core.capture import (
    Listeners,
    current_task_or_thread,
    guard_hook,
    is_judge_work,
    words_of,
)

_MOST_OPEN = 10_000  # roots that never end are forgotten beyond this
# modules between a call and its recording
_REPORTING = ("langchain_core.callbacks", "langchain_ragmetrics", "ragmetrics_core")

# The retrievers, tools and old chains that go on in this context, the innermost last: the
# id of each, and of its parent, which is named as the parent of what they call, too.
_going_on: ContextVar[tuple[tuple[UUID, UUID | None], ...]] = ContextVar(
    "langchain_ragmetrics_going_on", default=()
)


class Recorder(BaseCallbackHandler):
    """Records what LangChain reports of runs, in line with the application, and never harms it.

    Args:
        listeners: Who gets the roots, and where internal errors are counted.

    Attributes:
        problems: Internal errors.
        open: All calls of roots that go on, by id.
    """

    run_inline = True
    ignore_retry = True
    ignore_custom_event = True

    def __init__(self, listeners: Listeners) -> None:
        self.problems = listeners.problems
        self._listeners = listeners
        self.open: dict[UUID | None, tuple[Recording, Call]] = {}
        # by the id of each open root, the oldest first
        self._roots: dict[UUID, Recording] = {}

    def __copy__(self, *_: object) -> "Recorder":
        return self  # a copy of a config shares its handlers

    __deepcopy__ = __copy__

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self._roots)} open runs, {len(self.problems)}"
            " problems)"
        )

    @guard_hook
    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_type: str | None = None,
        **details: Any,
    ) -> None:
        """Note what a step is given."""
        self._begin(run_type or "chain", serialized, inputs, **details)

    @guard_hook
    def on_chain_end(
        self, outputs: Any, *, run_id: UUID, inputs: Any = None, **_: Any
    ) -> None:
        """Note what a step returned, and what it was given if that was streamed in."""
        self._end(run_id, outputs, inputs=inputs)

    @guard_hook
    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, inputs: Any = None, **_: Any
    ) -> None:
        """Note the error of a call."""
        self._end(run_id, {}, words_of(error, repr), inputs)

    on_llm_error = on_tool_error = on_retriever_error = on_chain_error

    @guard_hook
    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,
        messages: list[list[BaseMessage]],
        *,
        invocation_params: dict[str, Any] | None = None,
        **details: Any,
    ) -> None:
        """Note the messages that a chat model is shown."""
        parameters = invocation_params or {}
        # a ChatOpenAI sends a part of its messages, and the provider adds what it kept
        settings = (serialized or {}).get("kwargs") or {}
        if settings.get("use_previous_response_id"):
            parameters = {**parameters, "previous_response_id": "the last response"}
        self._begin(
            "chat_model",
            serialized,
            {"messages": messages},
            invocation_params=parameters,
            **details,
        )

    @guard_hook
    def on_llm_start(
        self, serialized: dict[str, Any] | None, prompts: list[str], **details: Any
    ) -> None:
        """Note what a model of texts is shown."""
        self._begin("llm", serialized, {"prompts": prompts}, **details)

    @guard_hook
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Note what the model said: its texts, and its messages."""
        generations = [
            {"text": each.text, "message": getattr(each, "message", None)}
            for each in (response.generations or [[]])[0]
        ]
        self._end(run_id, {"generations": [generations]})

    @guard_hook
    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        inputs: dict[str, Any] | None = None,
        **details: Any,
    ) -> None:
        """Note what a tool is asked."""
        self._begin("tool", serialized, inputs or input_str, **details)

    @guard_hook
    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Note what a tool returned, the documents of its artifact included."""
        self._end(run_id, {"output": output})

    @guard_hook
    def on_retriever_start(
        self, serialized: dict[str, Any] | None, query: str, **details: Any
    ) -> None:
        """Note the query of a retriever."""
        self._begin("retriever", serialized, {"query": query}, **details)

    @guard_hook
    def on_retriever_end(
        self, documents: Sequence[Document], *, run_id: UUID, **_: Any
    ) -> None:
        """Note the documents of a retriever."""
        self._end(run_id, {"documents": documents})

    def _begin(
        self,
        run_type: str,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
        invocation_params: dict[str, Any] | None = None,
        tool_call_id: str | None = None,
        **_: Any,
    ) -> None:
        """Begin to record a call of a step, model, tool or retriever.

        Example: a chain begins as a root, and the retriever inside it as its child. It
        is not recorded a second time if the handler was attached twice, nor if nobody
        is to get the root.

        Args:
            run_type: What is called, such as "tool".
            serialized: LangChain's description of what is called.
            inputs: What it is given.
            run_id: The call's id.
            parent_run_id: The id of the call around it.
            name: Its name; by default that of what is called.
            tags: Its tags.
            metadata: Its metadata.
            invocation_params: The parameters of the request, of a model.
            tool_call_id: The call that it answers, of a tool.
        """
        if run_id in self.open:
            return
        named_parent = parent_run_id
        going_on = [each for each in _going_on.get() if each[0] in self.open]
        is_inside = any(parent == named_parent for _, parent in going_on)
        if is_inside and not is_judge_work():
            parent_run_id = going_on[-1][0]
        recording, around = self.open.get(parent_run_id, (None, None))
        if recording is None:
            # what a judge asks is no part of what is evaluated
            if is_judge_work():
                return
            # What names no parent may be called in a step, as ``tool.run(text)`` inside
            # a node of LangGraph.
            callbacks = ensure_config().get("callbacks")
            step_around = getattr(callbacks, "parent_run_id", None)
            recording, around = self.open.get(step_around, (None, None))
        if recording is None:
            listeners = self._listeners.begin()
            if not listeners:
                return
            receivers = [listener.record for listener in listeners]
            names = [listener.names_looked_up for listener in listeners]
            recording = Recording(
                current_task_or_thread(), receivers, frozenset[str]().union(*names)
            )
            self._roots[run_id] = recording
            if len(self._roots) > _MOST_OPEN:  # the oldest perhaps never ends
                self._forget(self._roots.pop(next(iter(self._roots))))
                self.problems.note(
                    f"more than {_MOST_OPEN} runs are open; the oldest are forgotten"
                )
        if not name:
            described = serialized or {}
            path_of_class = described.get("id") or ["Unnamed"]
            name = str(described.get("name") or path_of_class[-1])
        call = recording.begin(
            run_id,
            around,
            run_type,
            name,
            time.time(),
            tags=tags or (),
            metadata=metadata or {},
        )
        self.open[run_id] = recording, call
        # what is called alone may be given up without a word, and go on for ever
        is_search = run_type in ("retriever", "tool") and named_parent is not None
        if is_search or (run_type == "chain" and _is_old_chain()):
            _going_on.set((*going_on, (run_id, named_parent)))
        recording.give(call, inputs, invocation_params, tool_call_id)

    def _end(
        self,
        run_id: UUID,
        outputs: Any,
        error: str | None = None,
        inputs: Any = None,
    ) -> None:
        """Record the end of a call. A root is handed on then, and forgotten.

        Args:
            run_id: The call's id.
            outputs: What it returned.
            error: The words of the error that it ended with.
            inputs: Inputs that were streamed in; None if they were known at the start.
        """
        recording, call = self.open.get(run_id, (None, None))
        if recording is None or call is None:
            return
        going_on = _going_on.get()
        if going_on:
            _going_on.set(tuple(each for each in going_on if each[0] != run_id))
        is_root = call is recording.run.root
        if is_root:
            del self._roots[run_id]
            self._forget(recording)
        if inputs is not None:
            recording.give(call, inputs)
        recording.end(call, outputs, error, time.time())
        if is_root:
            for receive in recording.receivers:
                receive(recording.run)

    def _forget(self, recording: Recording) -> None:
        """Forget all calls of a root."""
        for run_id in recording.ids:
            self.open.pop(run_id, None)


def _is_old_chain() -> bool:
    """Whether it is a ``Chain`` of before LCEL that reports its begin here."""
    frame = inspect.currentframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith(_REPORTING):
            return module.endswith(".chains.base")
        frame = frame.f_back
    return False
