"""The hooks: one tracer that copies what LangChain reports and hands each finished root on. It assembles nothing."""

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, Generation, LLMResult
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from langchain_ragmetrics.capturing.trees import CALL, FLOW, HANDOFF, OBSERVED, PROMPT, WRAPPER, is_fallbacks
from langchain_ragmetrics.values import copied, is_command, kind_of, text_of
from ragmetrics_core.capturing import Problems, guarded, is_judge_work, strand

JUDGE_TAG = "ragmetrics-judge"
Sink = Callable[[Run], None]
_MOST_OPEN = 100_000  # runs that never end are forgotten beyond this


@dataclass(frozen=True)
class _Root:
    """A root that is being recorded: who gets it, and the task or thread that it began in."""

    sinks: tuple[Sink, ...]
    flow: str


_NO_ROOT = _Root((), "")


class Recorder(BaseTracer):
    """Records run trees, in line with the application, and never harms it.

    Args:
        problems: Where internal errors are counted.

    Attributes:
        problems: Internal errors.
    """

    run_inline = True
    raise_error = False
    log_missing_parent = False
    ignore_retry = True
    ignore_custom_event = True

    def __init__(self, problems: Problems | None = None) -> None:
        super().__init__()
        self.problems = Problems() if problems is None else problems
        self._roots: dict[UUID, _Root] = {}

    def sinks(self) -> tuple[Sink, ...]:
        """Who gets a root that starts now; nobody by default."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._roots)} open runs, {len(self.problems)} problems)"

    @guarded
    def on_chain_start(self, serialized: dict[str, Any], inputs: dict[str, Any], *, run_id: UUID, **kwargs: Any) -> Any:
        """Copy the inputs of a step."""
        root = self._begins(run_id, kwargs)
        if root is not None:
            super().on_chain_start({}, copied(inputs, messages=root), run_id=run_id, **_slim(serialized, kwargs))

    @guarded
    def on_chain_end(self, outputs: dict[str, Any], *, run_id: UUID, inputs: Any = None, **kwargs: Any) -> Any:
        """Copy the outputs of a step, and its inputs if they were streamed in."""
        if str(run_id) in self.run_map:
            late = None if inputs is None else copied(inputs, messages=run_id in self._roots)
            super().on_chain_end(copied(outputs), run_id=run_id, inputs=late, **kwargs)

    @guarded
    def on_chain_error(self, error: BaseException, *, run_id: UUID, inputs: Any = None, **kwargs: Any) -> Any:
        """Note the error of a step."""
        if str(run_id) in self.run_map:
            late = None if inputs is None else copied(inputs, messages=run_id in self._roots)
            super().on_chain_error(error, run_id=run_id, inputs=late, **kwargs)

    @guarded
    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> Any:
        """Keep what the model is shown, as text."""
        if self._begins(run_id, kwargs) is not None:
            run = super().on_llm_start({}, [], run_id=run_id, **_slim(serialized, kwargs))
            run.extra[PROMPT] = [
                (kind_of(message), text_of(message.content)) for batch in messages for message in batch
            ]

    @guarded
    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **kwargs: Any) -> Any:
        """Keep what the model is shown."""
        if self._begins(run_id, kwargs) is not None:
            super().on_llm_start({}, list(prompts), run_id=run_id, **_slim(serialized, kwargs))

    def on_llm_new_token(self, *args: Any, **kwargs: Any) -> Any:
        """Keep nothing of single tokens: the end holds the whole text."""

    @guarded
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> Any:
        """Keep what the model said."""
        if str(run_id) in self.run_map:
            first = [[_slim_generation(one) for one in batch[:1]] for batch in response.generations[:1]]
            super().on_llm_end(LLMResult(generations=first), run_id=run_id, **kwargs)

    @guarded
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> Any:
        """Note the error of a model call."""
        if str(run_id) in self.run_map:
            super().on_llm_error(error, run_id=run_id, **kwargs)

    @guarded
    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **kwargs: Any) -> Any:
        """Copy the inputs of a tool."""
        if self._begins(run_id, kwargs) is not None:
            kwargs["inputs"] = inputs = copied(kwargs.get("inputs"))
            run = super().on_tool_start({}, input_str, run_id=run_id, **_slim(serialized, kwargs))
            run.extra[CALL] = kwargs.get("tool_call_id")
            if isinstance(inputs, dict):  # older cores keep their text alone
                run.inputs = inputs

    @guarded
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> Any:
        """Copy what a tool returned, the documents of its artifact included."""
        if str(run_id) in self.run_map:
            self.run_map[str(run_id)].extra[HANDOFF] = is_command(output) and bool(output.goto)
            super().on_tool_end(_tool_output(output), run_id=run_id, **kwargs)

    @guarded
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> Any:
        """Note the error of a tool."""
        if str(run_id) in self.run_map:
            super().on_tool_error(error, run_id=run_id, **kwargs)

    def on_agent_action(self, *args: Any, **kwargs: Any) -> Any:
        """Keep nothing: the tool's own run holds it."""

    def on_agent_finish(self, *args: Any, **kwargs: Any) -> Any:
        """Keep nothing: the agent's own run holds it."""

    @guarded
    def on_retriever_start(self, serialized: dict[str, Any], query: str, *, run_id: UUID, **kwargs: Any) -> Any:
        """Keep the query of a retriever."""
        if self._begins(run_id, kwargs) is not None:
            super().on_retriever_start({}, query, run_id=run_id, **_slim(serialized, kwargs))
            _searching.set((run_id, _searching.get()))

    @guarded
    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **kwargs: Any) -> Any:
        """Copy the documents of a retriever."""
        if str(run_id) in self.run_map:
            _leave(run_id)
            super().on_retriever_end(copied(list(documents)), run_id=run_id, **kwargs)

    @guarded
    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> Any:
        """Note the error of a retriever."""
        if str(run_id) in self.run_map:
            _leave(run_id)
            super().on_retriever_error(error, run_id=run_id, **kwargs)

    def search_begins(self, run_id: UUID, query: str, name: str, parent: UUID | None) -> None:
        """A search that LangChain does not report; inside a retriever it belongs to that."""
        host = _searching.get()
        within = host[0] if host is not None and str(host[0]) in self.run_map else parent
        self.on_retriever_start({}, query, run_id=run_id, parent_run_id=within, tags=[OBSERVED], name=name)

    def _begins(self, run_id: UUID, kwargs: dict[str, Any]) -> bool | None:
        """True for a root, False for a run below one, None for a run that is not to be recorded."""
        if str(run_id) in self.run_map:  # the same handler is attached twice
            return None
        if kwargs.get("parent_run_id") in self.order_map:
            return False
        if is_judge_work() or JUDGE_TAG in (kwargs.get("tags") or ()):
            return None
        sinks = self.sinks()
        if not sinks:
            return None
        self._roots[run_id] = _Root(sinks, strand())
        if len(self.run_map) > _MOST_OPEN:
            self._forget(next(iter(self.run_map.values())))
            self.problems.note(f"more than {_MOST_OPEN} runs are open; the oldest are forgotten")
        return True

    def _persist_run(self, run: Run) -> None:
        """Hand a finished root on, and keep nothing of it."""
        root = self._roots.pop(run.id, _NO_ROOT)
        run.extra[FLOW] = root.flow
        if run.error:
            self._mark_alternative(run, root.flow)
        for below in _below(run):
            self.run_map.pop(str(below.id), None)
            self.order_map.pop(below.id, None)
        self.order_map.pop(run.id, None)
        for sink in root.sinks:
            sink(run)

    def _mark_alternative(self, run: Run, flow: str) -> None:
        """Remember the wrapper of fallbacks inside which a root failed: another alternative may succeed."""
        for name, other in list(self._roots.items()):
            wrapper = self.run_map.get(str(name)) if other.flow == flow else None
            if wrapper is not None and is_fallbacks(wrapper):
                run.extra[WRAPPER] = str(wrapper.id)

    def _forget(self, run: Run) -> None:
        for one in (run, *_below(run)):
            self._roots.pop(one.id, None)
            self.run_map.pop(str(one.id), None)
            self.order_map.pop(one.id, None)


# The retriever that is searching in this context, and the one around it.
_searching: ContextVar[Any] = ContextVar("langchain_ragmetrics_searching", default=None)


def _leave(run_id: UUID) -> None:
    current = _searching.get()
    if current is not None and current[0] == run_id:
        _searching.set(current[1])


def _below(run: Run) -> Iterator[Run]:
    for child in run.child_runs:
        yield child
        yield from _below(child)


_KEPT = ("tags", "parent_run_id", "metadata", "run_type", "name", "inputs")


def _slim(serialized: dict[str, Any] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a start hook: the name is all that is kept of the serialized component."""
    kept: dict[str, Any] = {key: kwargs[key] for key in _KEPT if key in kwargs}
    if kept.get("name") is None:
        path = (serialized or {}).get("id") or ["Unnamed"]
        kept["name"] = (serialized or {}).get("name") or path[-1]
    return kept


def _tool_output(output: Any) -> Any:
    """A snapshot of what a tool returned: of a command its update, of a message its artifact too."""
    if is_command(output):
        output = output.update
    if isinstance(output, ToolMessage):
        return output.model_copy(update={"artifact": copied(output.artifact)})
    if isinstance(output, dict):
        return {key: _tool_output(item) for key, item in output.items()}
    if isinstance(output, list):
        return [_tool_output(item) for item in output]
    return copied(output)


def _slim_generation(generation: Any) -> Generation:
    """The text of a generation and the tool calls of its message; the rest is not needed."""
    text = generation.text if isinstance(generation, Generation) else ""
    message = generation.message if isinstance(generation, ChatGeneration) else None
    calls = list(message.tool_calls) if isinstance(message, AIMessage) else []
    return Generation(text=text, generation_info={"ragmetrics_tool_calls": calls} if calls else None)
