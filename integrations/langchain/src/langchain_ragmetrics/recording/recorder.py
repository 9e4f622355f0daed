"""The hooks: one handler that copies what LangChain reports and hands each finished root on. It assembles nothing."""

import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables.config import ensure_config

from langchain_ragmetrics.recording.calls import Call, Recording, Run
from ragmetrics_core.capture import guard_hook
from ragmetrics_core.capture.hooks import Problems, current_task_or_thread, words_of
from ragmetrics_core.models.judge_work import is_judge_work

Receiver = Callable[[Run], object]
_MOST_OPEN = 10_000  # roots that never end are forgotten beyond this


class Recorder(BaseCallbackHandler):
    """Records what LangChain reports of runs, in line with the application, and never harms it.

    Args:
        problems: Where internal errors are counted.
        get_receivers: Called when a root begins; returns the functions that get the
            root when it has ended.

    Attributes:
        problems: Internal errors.
        open: All calls of roots that go on, by id.
    """

    run_inline = True
    ignore_retry = True
    ignore_custom_event = True

    def __init__(
        self, problems: Problems, get_receivers: Callable[[], tuple[Receiver, ...]]
    ) -> None:
        self.problems = problems
        self._get_receivers = get_receivers
        self.open: dict[UUID | None, Call] = {}
        # by the id of each open root, the oldest first: the functions that get it
        self._roots: dict[UUID, tuple[Receiver, ...]] = {}

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
        self, serialized: dict[str, Any], inputs: Any, *, run_id: UUID, **details: Any
    ) -> None:
        """Note what a step is given."""
        run_type = details.get("run_type") or "chain"
        if call := self._begun(run_type, serialized, run_id, details):
            call.recording.give(call, _named("input", inputs))

    @guard_hook
    def on_chain_end(
        self, outputs: Any, *, run_id: UUID, inputs: Any = None, **_: Any
    ) -> None:
        """Note what a step returned, and what it was given if that was streamed in."""
        self._end(run_id, _named("output", outputs), inputs=inputs)

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
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        **details: Any,
    ) -> None:
        """Note the messages that a chat model is shown."""
        if call := self._begun("chat_model", serialized, run_id, details):
            parameters = _parameters_sent(serialized, details)
            call.recording.give(call, {"messages": messages}, parameters)

    @guard_hook
    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        **details: Any,
    ) -> None:
        """Note what a model of texts is shown."""
        if call := self._begun("llm", serialized, run_id, details):
            parameters = _parameters_sent(serialized, details)
            call.recording.give(call, {"prompts": prompts}, parameters)

    @guard_hook
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Note what the model said first: its text, and its message."""
        # of several replies to the first batch, the first one
        first_generation = []
        if response.generations and response.generations[0]:
            generation = response.generations[0][0]
            message = getattr(generation, "message", None)
            first_generation = [{"text": generation.text, "message": message}]
        self._end(run_id, {"generations": [first_generation]})

    @guard_hook
    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        **details: Any,
    ) -> None:
        """Note what a tool is asked."""
        if call := self._begun("tool", serialized, run_id, details):
            arguments = _named("input", details.get("inputs") or input_str)
            call.recording.give(
                call, arguments, tool_call_id=details.get("tool_call_id")
            )

    @guard_hook
    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Note what a tool returned, the documents of its artifact included."""
        self._end(run_id, {"output": output})

    @guard_hook
    def on_retriever_start(
        self, serialized: dict[str, Any], query: str, *, run_id: UUID, **details: Any
    ) -> None:
        """Note the query of a retriever."""
        if call := self._begun("retriever", serialized, run_id, details):
            call.recording.give(call, {"query": query})

    @guard_hook
    def on_retriever_end(
        self, documents: Sequence[Document], *, run_id: UUID, **_: Any
    ) -> None:
        """Note the documents of a retriever."""
        self._end(run_id, {"documents": documents})

    def _begun(
        self,
        run_type: str,
        serialized: dict[str, Any] | None,
        run_id: UUID,
        details: dict[str, Any],
    ) -> Call | None:
        """Begin to record a call of a step, model, tool or retriever.

        Example: a chain begins as a root, and the retriever inside it as its child.
        Returns None if the call is recorded already, because the handler was attached
        twice, or if nobody is to get the root.

        Args:
            run_type: What is called, such as "tool".
            serialized: LangChain's description of what is called.
            run_id: The call's id.
            details: Further arguments of LangChain's callback.
        """
        if run_id in self.open:
            return None
        parent = self.open.get(details.get("parent_run_id"))
        receivers: tuple[Receiver, ...] = ()
        if parent is None:
            # what a judge asks is no part of what is evaluated
            if is_judge_work():
                return None
            parent = self.open.get(_step_around())
        if parent is None:
            receivers = self._get_receivers()
            if not receivers:
                return None
            recording = Recording(current_task_or_thread())
        else:
            recording = parent.recording
        call = recording.begin(
            run_id,
            parent,
            run_type,
            _name_of_run(serialized or {}, details),
            time.time(),
            tags=details.get("tags") or (),
            metadata=details.get("metadata") or {},
        )
        self.open[run_id] = call
        if receivers:
            self._roots[run_id] = receivers
            if len(self._roots) > _MOST_OPEN:
                self._forget_oldest()
        return call

    def _forget_oldest(self) -> None:
        """Forget the oldest of too many roots, which perhaps never end."""
        oldest_id = next(iter(self._roots))
        del self._roots[oldest_id]
        self._forget(self.open[oldest_id].recording)
        self.problems.note(
            f"more than {_MOST_OPEN} runs are open; the oldest are forgotten"
        )

    def _end(
        self,
        run_id: UUID,
        outputs: dict[str, Any],
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
        call = self.open.get(run_id)
        if call is None:
            return
        recording = call.recording
        receivers = self._roots.pop(run_id, ())
        if receivers:
            self._forget(recording)
        if inputs is not None:
            recording.give(call, _named("input", inputs))
        recording.end(call, outputs, error, time.time())
        if receivers:
            run = recording.run()
            for receive in receivers:
                receive(run)

    def _forget(self, recording: Recording) -> None:
        """Forget all calls of a root."""
        for run_id in list(recording.ids):
            self.open.pop(run_id, None)


def _step_around() -> UUID | None:
    """The id of the step in which the application calls something that names no parent.

    ``tool.run(text)`` inside a node of LangGraph is such a call.
    """
    callbacks = ensure_config().get("callbacks")
    return getattr(callbacks, "parent_run_id", None)


def _name_of_run(serialized: dict[str, Any], details: dict[str, Any]) -> str:
    """The name of a run: its own, else that of what runs, else its class's."""
    path_of_class = serialized.get("id") or ["Unnamed"]
    name = details.get("name") or serialized.get("name") or path_of_class[-1]
    return str(name)


def _parameters_sent(
    serialized: dict[str, Any] | None, details: dict[str, Any]
) -> dict[str, Any]:
    """The parameters of a request, with the setting that goes on from an earlier response.

    A ``ChatOpenAI`` with ``use_previous_response_id`` sends a part of its messages, and
    the provider adds what it kept.
    """
    parameters = dict(details.get("invocation_params") or {})
    settings = (serialized or {}).get("kwargs") or {}
    if settings.get("use_previous_response_id"):
        parameters["previous_response_id"] = "the last response"
    return parameters


def _named(name: str, value: Any) -> dict[str, Any]:
    """Inputs or outputs as LangSmith keeps them: anything but a dict is put under a name."""
    return value if isinstance(value, dict) else {name: value}
