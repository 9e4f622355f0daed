"""The hooks: one handler that copies what LangChain reports and hands each finished root on. It assembles nothing."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from langchain_ragmetrics.recording.run import TAGS_READ, Run
from langchain_ragmetrics.recording.tree import (
    CALL,
    METADATA_READ,
    PARAMETERS,
    TASK_OR_THREAD,
)
from langchain_ragmetrics.values import Copier
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
        open: All runs of roots that go on, by id.
    """

    run_inline = True
    ignore_retry = True
    ignore_custom_event = True

    def __init__(
        self, problems: Problems, get_receivers: Callable[[], tuple[Receiver, ...]]
    ) -> None:
        self.problems = problems
        self._get_receivers = get_receivers
        self.open: dict[UUID | None, Run] = {}
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
        """Copy the inputs of a step."""
        if run := self._run_began(
            details.get("run_type") or "chain", serialized, run_id, details
        ):
            run.inputs = _named("input", run.copier.copied(inputs))

    @guard_hook
    def on_chain_end(
        self, outputs: Any, *, run_id: UUID, inputs: Any = None, **_: Any
    ) -> None:
        """Copy the outputs of a step, and its inputs if they were streamed in."""
        if run := self._run_going(run_id, inputs):
            self._run_ended(run, _named("output", run.copier.copied(outputs)))

    @guard_hook
    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, inputs: Any = None, **_: Any
    ) -> None:
        """Note the error of a run."""
        if run := self._run_going(run_id, inputs):
            run.error = words_of(error, repr)
            self._run_ended(run, {})

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
        """Copy the messages that a chat model is shown."""
        if run := self._run_began("chat_model", serialized, run_id, details):
            run.inputs = {"messages": run.copier.copied(messages)}
            run.extra[PARAMETERS] = _parameters_sent(serialized, details)

    @guard_hook
    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        **details: Any,
    ) -> None:
        """Keep what the model is shown."""
        if run := self._run_began("llm", serialized, run_id, details):
            run.inputs = {"prompts": list(prompts)}
            run.extra[PARAMETERS] = _parameters_sent(serialized, details)

    @guard_hook
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Keep what the model said first: its text, and its message."""
        if run := self._run_going(run_id):
            # of several replies to the first batch, the first one
            first_generation = []
            if response.generations and response.generations[0]:
                generation = response.generations[0][0]
                message = run.copier.copied(getattr(generation, "message", None))
                first_generation = [{"text": generation.text, "message": message}]
            self._run_ended(run, {"generations": [first_generation]})

    @guard_hook
    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        **details: Any,
    ) -> None:
        """Copy the inputs of a tool."""
        if run := self._run_began("tool", serialized, run_id, details):
            arguments = details.get("inputs") or input_str
            run.inputs = _named("input", run.copier.copied(arguments))
            run.extra[CALL] = details.get("tool_call_id")

    @guard_hook
    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Copy what a tool returned, the documents of its artifact included."""
        if run := self._run_going(run_id):
            self._run_ended(run, {"output": run.copier.copied(output)})

    @guard_hook
    def on_retriever_start(
        self, serialized: dict[str, Any], query: str, *, run_id: UUID, **details: Any
    ) -> None:
        """Keep the query of a retriever."""
        if run := self._run_began("retriever", serialized, run_id, details):
            run.inputs = {"query": query}

    @guard_hook
    def on_retriever_end(
        self, documents: Sequence[Document], *, run_id: UUID, **_: Any
    ) -> None:
        """Copy the documents of a retriever."""
        if run := self._run_going(run_id):
            self._run_ended(run, {"documents": run.copier.copied(documents)})

    def _run_began(
        self,
        kind: str,
        serialized: dict[str, Any] | None,
        run_id: UUID,
        details: dict[str, Any],
    ) -> Run | None:
        """Begin to record a run: a call of a step, model, tool or retriever.

        Example: a chain begins as a root, and the retriever inside it as its child.
        Returns None if the run is recorded already, because the handler was attached
        twice, or if nobody is to get the root.

        Args:
            kind: What runs, such as "tool".
            serialized: LangChain's description of what runs.
            run_id: Its id.
            details: Further arguments of LangChain's callback.
        """
        if run_id in self.open:
            return None
        parent = self.open.get(details.get("parent_run_id"))
        tags = tuple(details.get("tags") or ())
        # Who gets the run once it has ended, such as a ``capture()`` block: nobody, if it
        # is the work of a judge, which is no part of what is evaluated.
        is_of_application = parent is None and not is_judge_work()
        receivers = self._get_receivers() if is_of_application else ()
        if parent is None and not receivers:
            return None
        metadata = details.get("metadata") or {}
        # a graph has many runs: of those inside it only what the rules read is kept
        if parent is not None:
            tags = tuple(tag for tag in tags if tag.startswith(TAGS_READ))
            metadata = {key: metadata[key] for key in METADATA_READ if key in metadata}
        run = Run(
            run_id,
            _name_of_run(serialized or {}, details),
            kind,
            tags,
            {"metadata": metadata} if metadata else {},
            Copier() if parent is None else parent.copier,
        )
        if parent is None:
            self._add_root(run, receivers)
        else:
            parent.child_runs.append(run)
        self.open[run_id] = run
        return run

    def _add_root(self, root: Run, receivers: tuple[Receiver, ...]) -> None:
        """Note who gets a root when it has ended; forget the oldest of too many."""
        self._roots[root.id] = receivers
        root.extra[TASK_OR_THREAD] = current_task_or_thread()
        if len(self._roots) > _MOST_OPEN:
            oldest_id = next(iter(self._roots))
            self._forget(self.open[oldest_id])
            self.problems.note(
                f"more than {_MOST_OPEN} runs are open; the oldest are forgotten"
            )

    def _run_going(self, run_id: UUID, inputs: Any = None) -> Run | None:
        """The run of this id, if it goes on; else None.

        Args:
            run_id: The id.
            inputs: Inputs that were streamed in, which become the run's; None if its
                inputs were known at the start.
        """
        run = self.open.get(run_id)
        if run is None or run.end_time is not None:
            return None
        if inputs is not None:
            run.inputs = _named("input", run.copier.copied(inputs))
        return run

    def _run_ended(self, run: Run, outputs: dict[str, Any]) -> None:
        """Record the end of a run. A root is handed on then, and forgotten."""
        run.outputs = outputs
        run.end_time = datetime.now(UTC)
        if run.id in self._roots:
            for receive in self._forget(run):
                receive(run)

    def _forget(self, root: Run) -> tuple[Receiver, ...]:
        """Forget a root and all runs inside it; return who was to get the root."""
        root.copier.forget()
        below = [root]
        while below:
            run = below.pop()
            self.open.pop(run.id, None)
            below += run.child_runs
        return self._roots.pop(root.id, ())


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
