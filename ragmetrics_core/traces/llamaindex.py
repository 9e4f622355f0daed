"""LlamaIndex as instrumentations record it.

A call is known by its method, or by what went into it and came out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from ragmetrics_core.capture import Document, Message, ToolCall
from ragmetrics_core.capture.tree import Kind
from ragmetrics_core.traces.dialects import Reading
from ragmetrics_core.traces.llamaindex_methods import KINDS
from ragmetrics_core.traces.llamaindex_nodes import ShownNodes
from ragmetrics_core.traces.llamaindex_records import Records
from ragmetrics_core.traces.llamaindex_values import answer_of, has_any, query_in
from ragmetrics_core.traces.llamaindex_workflows import (
    history_in_memory,
    last_answer,
    question_of_workflow,
)
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.values import (
    ToolMessage,
    mapping,
    messages_in,
    replies_in,
)

# it tells the prompt where a model's own call was not recorded
_PREPARED = "_prepare_chat_with_tools"
# what the framework's own tool tells the next agent of a workflow
_HANDED_OVER = " is now handling the request due to the following reason: "
# what an index of tools holds of each
_TOOL_TEXT = "Tool name: {}\nTool description: "


def read(calls: Sequence[Call]) -> None:
    """Write into the readings of a trace what the rules of all frameworks read.

    Args:
        calls: The outermost calls of the trace.
    """
    all_calls = chain.from_iterable(call.walk() for call in calls)
    trace = _Trace([call for call in all_calls if call.reading is not None])
    for call in calls:
        trace.read(call, around=(), sources=())


class _Trace:
    """The calls of one trace, whose readings are written.

    Args:
        calls: All calls of the trace that say something.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        """Collect what the rules for single calls need of the whole trace.

        Example: a query engine's trace: its calls with their methods ("query",
        "retrieve", "synthesize"), and the nodes (documents) by their ids.
        """
        self._records = Records(calls)
        self._nodes = ShownNodes(calls, self._records)
        self._tool_names = self._names_of_tool_calls(calls)  # by the call's id

    def _names_of_tool_calls(self, calls: Sequence[Call]) -> dict[Any, str]:
        """The names of tools by the ids of their calls, as workflows record them."""
        names = {}
        for call in calls:
            for record in (
                self._records.event_sent_to(call),
                mapping(self._records.outputs[call]),
            ):
                if "tool_id" in record:
                    names[record["tool_id"]] = str(record.get("tool_name") or "")
        return names

    def read(
        self, call: Call, *, around: tuple[Call, ...], sources: tuple[Document, ...]
    ) -> None:
        """Write into the reading of a call, and of those inside, what LlamaIndex did.

        A **reading** is what one span says. Example: the reading of ``engine.query``
        gets question and answer, the reading of ``retrieve`` inside gets the documents.
        A call that returned sources hands them to the calls inside it.

        Args:
            call: The call.
            around: The calls around it, the outermost first, without those of no kind.
            sources: The nodes that the innermost engine around it named as its sources.
        """
        reading = call.reading
        if reading is not None:
            kind = self._kind(call, reading, around)
            source_nodes = mapping(self._records.outputs[call]).get("source_nodes")
            sources = self._nodes.nodes_in(source_nodes) or sources
            _erase_written_objects(reading)
            # None for a step of a workflow, say: only the calls inside it have a kind
            if kind is None:
                self._read_step_of_workflow(call, reading)
            else:
                self._read_as(kind, call, reading, sources)
                around = (*around, call)
        for inner in call.inside:
            self.read(inner, around=around, sources=sources)

    def _read_as(
        self, kind: Kind, call: Call, reading: Reading, sources: tuple[Document, ...]
    ) -> None:
        """Write into a reading what a call of its kind was given and returned.

        Args:
            kind: What the call does.
            call: The call.
            reading: Its reading, which is changed.
            sources: The nodes that an engine around it returned as its sources.
        """
        reading.kind = kind
        if kind == "model":
            self._read_model(call, reading)
        elif kind == "tool":
            self._read_tool(call, reading)
        elif kind in ("retriever", "reranker"):
            self._read_retriever(call, reading)
        elif kind == "step":  # of LlamaIndex's methods only a synthesizer's are steps
            self._read_synthesizer(call, reading, sources)
        elif kind == "agent":
            # a workflow is started by ``run()``, an engine by ``query()`` or ``chat()``
            if self._records.methods[call] == "run":
                self._read_workflow(call, reading)
            else:
                self._read_engine(call, reading)

    def _kind(
        self, call: Call, reading: Reading, around: tuple[Call, ...]
    ) -> Kind | None:
        """Tell what a call does, e.g. "retriever" for the method ``retrieve``.

        Args:
            call: The call.
            reading: What its span says.
            around: The calls around it, the outermost first.

        Returns:
            "ignored" for work that answers no user. None for a call that is looked
            through: only the calls inside it are read.
        """
        method = self._records.methods[call]
        if self._is_inner_step(call, around):
            return None
        if reading.kind == "ignored" or self._answers_no_user(call, around):
            return "ignored"
        if method == "predict_and_call" and around:
            # the model picks a tool and runs it; the call around returns the result
            return None
        if self._is_model_by_input(call, reading):
            return "model"
        if KINDS.get(method) == "tool":
            # ``tool.call()`` has the method of many objects: it may be no tool
            return self._kind_of_called_object(call, reading, around)
        return KINDS.get(method)

    def _is_inner_step(self, call: Call, around: tuple[Call, ...]) -> bool:
        """Whether a call is a step of a workflow, or an inner method of a synthesizer."""
        is_step_of_workflow = has_any(self._records.inputs[call], "ev")  # an event
        method = self._records.methods[call]
        return is_step_of_workflow or self._is_part_of_synthesizer(method, around)

    def _answers_no_user(self, call: Call, around: tuple[Call, ...]) -> bool:
        """Whether a call fills an index, or is the query of an evaluator."""
        method = self._records.methods[call]
        if method == "query":
            # ``RetryQueryEngine`` has an evaluator judge each answer, and the evaluator
            # makes a query of its own
            return _is_inside_retry(call, around)
        # ``pipeline.run(documents=[…])`` fills an index; a workflow's ``run()`` answers
        return method == "run" and has_any(self._records.inputs[call], "documents")

    def _is_model_by_input(self, call: Call, reading: Reading) -> bool:
        """Whether a call is a model's, by its input, where its method leaves that open."""
        method = self._records.methods[call]
        if not method:
            # its arguments, which tell the method, could not be recorded
            return reading.kind == "model"
        is_chat = method in ("chat", "stream_chat")
        # a chat engine would be given a message
        return is_chat and not has_any(self._records.inputs[call], "message")

    def _is_part_of_synthesizer(self, method: str, around: tuple[Call, ...]) -> bool:
        """Whether a method is an inner one of a synthesizer, which returns its answer."""
        methods_around = {self._records.methods[outer] for outer in around}
        is_in_synthesizer = bool(methods_around & {"synthesize", "get_response"})
        return method == "get_response" and is_in_synthesizer

    def _kind_of_called_object(
        self, call: Call, reading: Reading, around: tuple[Call, ...]
    ) -> Kind | None:
        """What a call of an object does; None for a tool that the call around it tells."""
        is_tool = reading.kind == "tool" or has_any(
            self._records.outputs[call], "raw_output"
        )
        if not is_tool:
            return _kind_of_callable(self._records.inputs[call])
        is_inside_tool = (
            bool(around) and KINDS.get(self._records.methods[around[-1]]) == "tool"
        )
        return None if is_inside_tool else "tool"

    def _read_model(self, call: Call, reading: Reading) -> None:
        """Add the prompt and the replies to what was read of a model's call.

        One call of a model is recorded as several spans inside each other: ``complete``
        around ``chat``. What was read of the inner spans is dropped, so that the call
        counts once. Example: the prompt "Who?" and the reply "Anna".

        Args:
            call: The outermost span of the call.
            reading: What the span's attributes say; its prompt and replies are set.
        """
        output = self._records.outputs[call]
        reading.prompt = reading.prompt or _prompt_in(self._records.inputs[call])
        # An output with a "message" is the whole response: its replies replace those
        # that were read from the span's attributes.
        if has_any(output, "message") or not reading.replies:
            reading.replies = replies_in(output)
        if not reading.replies:
            reading.replies = self._replies_inside(call)
        reading.replies = tuple(map(self._add_names_of_tools, reading.replies))
        for inner in call.walk():
            if inner is not call:
                inner.reading = None

    def _replies_inside(self, call: Call) -> tuple[Message, ...]:
        """The replies of the first call inside that has any."""
        for inner in call.walk():
            if inner is call or inner.reading is None:
                continue
            # the output of a chat begins with a role: "assistant: Anna."
            replies = inner.reading.replies or replies_in(
                self._records.outputs.get(inner)
            )
            if replies:
                return replies
        return ()

    def _add_names_of_tools(self, reply: Message) -> Message:
        """A reply whose calls of tools have their names, which some spans tell elsewhere."""
        calls = []
        for call in reply.tool_calls:
            name = call.name or self._tool_names.get(call.id, "")
            calls.append(replace(call, name=name))
        return replace(reply, tool_calls=tuple(calls))

    def _read_step_of_workflow(self, call: Call, reading: Reading) -> None:
        """Read a step of a workflow: nothing of it but the reply of an agent's model."""
        reading.kind = "step"  # the core knows no call without a kind
        if self._records.methods[call] == "run_agent_step":
            self._read_agent_step(call)

    def _read_agent_step(self, call: Call) -> None:
        """Give the model in an agent's step the reply that the step returned, if it needs it.

        It does if the model's own span recorded no reply, or if the step returned calls
        of tools, which that span may lack. Example: the step returned a reply and the
        call ``search("Rome")``: the model gets the reply with this call.
        """
        output_of_step = mapping(self._records.outputs[call])
        reply = output_of_step.get("response")
        model = self._model_of_step(call)
        if model is None or model.reading is None or not isinstance(reply, Message):
            return
        tool_calls = tuple(map(_tool_call, output_of_step.get("tool_calls") or ()))
        lacks_reply = not model.reading.replies
        if tool_calls or lacks_reply:
            model.reading.replies = (replace(reply, tool_calls=tool_calls),)
            self._forget_own_reply(model)

    def _forget_own_reply(self, model: Call) -> None:
        """Forget the reply that a model's own span recorded, since its step told a better one.

        The model is read after its step: a reply in its own output would count then.
        """
        self._records.outputs[model] = None

    def _model_of_step(self, step: Call) -> Call | None:
        """Return the last call of a model in an agent's step; None if there is none.

        Example: a step with the calls ``chat`` and, inside it, another ``chat`` gives
        the outer one. If the step recorded no model, its last call that prepared a
        prompt (``_prepare_chat_with_tools``) is made a model's call.
        """
        models = self._outermost_models(step)
        if models:
            return models[-1]
        preparing_calls = [
            call for call in step.walk() if self._records.methods.get(call) == _PREPARED
        ]
        if not preparing_calls:
            return None
        self._make_model_of(preparing_calls[-1])
        return preparing_calls[-1]

    def _outermost_models(self, call: Call) -> list[Call]:
        """The calls of models at or below a call, without those inside other models."""
        if self._is_model(call):
            return [call]
        models = []
        for inner in call.inside:
            models += self._outermost_models(inner)
        return models

    def _make_model_of(self, preparing_call: Call) -> None:
        """Make a model's call of the call that returned the prompt of the model."""
        self._records.methods[preparing_call] = "complete"
        self._records.inputs[preparing_call] = self._records.outputs[preparing_call]
        self._records.outputs[preparing_call] = None

    def _is_model(self, call: Call) -> bool:
        """Whether a call is a model's."""
        if call.reading is None:
            return False
        return self._kind(call, call.reading, ()) == "model"

    def _read_tool(self, call: Call, reading: Reading) -> None:
        """Write into a tool's reading its name, its arguments and its result.

        The result is a message of the tool, with the nodes (documents) that it holds
        beside its text. Example: ``search("Rome")`` that returned two nodes: the
        arguments {0: "Rome"}, and a message with two nodes. A tool that hands the run
        over to another agent is marked so.
        """
        inputs = mapping(self._records.inputs[call])
        output = mapping(self._records.outputs[call])
        # arguments without a name have their place as key: 0, 1, …
        arguments: dict[Any, Any] = dict(enumerate(inputs.get("args") or ()))
        arguments.update(mapping(inputs.get("kwargs")))
        reading.input = arguments
        reading.tool = str(reading.tool or output.get("tool_name") or call.span.name)
        if not output:  # the result was not recorded
            return
        blocks = [mapping(block) for block in output.get("blocks") or ()]
        text = "".join(str(block.get("text") or "") for block in blocks)
        reading.hands_over = reading.tool == "handoff" and _HANDED_OVER in text
        # a retriever's tool returns a list of nodes: lists of a span are read as tuples
        result = output.get("raw_output")
        nodes = self._nodes.nodes_in(result) if isinstance(result, tuple) else ()
        answered_call = ToolCall(reading.tool)  # the call that the result answers
        reading.output = ToolMessage("tool", text, (answered_call,), artifact=nodes)

    def _read_retriever(self, call: Call, reading: Reading) -> None:
        """Read a retriever: what it was asked, was given and returned.

        Example: the query "Who?" and two documents. Its documents are None if nothing
        was recorded. A retriever that found tools, not texts, is ignored.
        """
        inputs = self._records.inputs[call]
        output = self._records.outputs[call]
        reading.query = query_in(inputs)
        reading.input_documents = self._nodes.nodes_in(inputs)
        documents = self._nodes.nodes_in(reading.documents or output)
        nothing_recorded = output is None and not documents
        reading.documents = None if nothing_recorded else documents
        if documents and all(map(_describes_tool, documents)):
            reading.kind = "ignored"

    def _read_engine(self, call: Call, reading: Reading) -> None:
        """Write into the reading of an engine what it was asked and answered.

        Example: ``engine.query("Who?")`` answered "Anna": the query "Who?", the output
        "Anna".
        """
        inputs = self._records.inputs[call]
        reading.query = query_in(inputs)
        reading.output = answer_of(self._records.outputs[call])
        chat_history = mapping(inputs).get("chat_history")
        reading.input = {"question": reading.query, "chat_history": chat_history}

    def _read_synthesizer(
        self, call: Call, reading: Reading, sources: tuple[Document, ...]
    ) -> None:
        """Read a call that answers from documents, like an engine, and its documents.

        Args:
            call: The call.
            reading: Its reading, which is changed.
            sources: The nodes that an engine around it returned as its sources.
        """
        self._read_engine(call, reading)
        reading.input_documents = self._nodes.nodes_given_to(call, sources)

    def _read_workflow(self, call: Call, reading: Reading) -> None:
        """Read a workflow like an engine, with what only its steps tell.

        Example: ``agent.run("Who?")``: the first step was given the question and the
        chat's history, and the last one returned "Anna".
        """
        self._read_engine(call, reading)
        reading.query = question_of_workflow(self._records, call)
        reading.output = reading.output or last_answer(self._records, call)
        chat_history = reading.input["chat_history"]
        if not chat_history:
            chat_history = history_in_memory(self._records, call)
        reading.input = {"question": reading.query, "chat_history": chat_history}


def _prompt_in(inputs: Any) -> tuple[Message, ...]:
    """The prompt in what a model was given; it may be the first argument of any name."""
    prompt = messages_in(inputs)
    fields = mapping(inputs)
    if prompt or "args" not in fields:
        return prompt
    unnamed = fields["args"] or ()
    named = mapping(fields.get("kwargs"))
    arguments = [*unnamed, *named.values()]
    first_argument = tuple(arguments[:1])  # empty if there is none
    return messages_in(first_argument)


def _erase_written_objects(reading: Reading) -> None:
    """Erase input and output of a reading: LlamaIndex's are objects written out.

    Example: the input '{"query_bundle": {"query_str": "Who?"}}' would be taken for the
    question. ``Records`` has both still: the rules of each kind read "Who?" from it.
    """
    reading.input = None
    reading.output = None


def _kind_of_callable(inputs: Any) -> Kind | None:
    """What a call of an object is that is no tool.

    It is a postprocessor's, a program's, or nothing that counts.
    """
    if has_any(inputs, "nodes"):
        return "ignored"
    if has_any(inputs, "llm_kwargs"):
        return "step"
    return None


def _is_inside_retry(call: Call, around: tuple[Call, ...]) -> bool:
    """Whether an engine that asks again until an evaluator agrees is around a call."""
    if call.span.name.startswith("Retry"):
        return False
    return any(outer.span.name.startswith("Retry") for outer in around)


def _tool_call(record: Mapping[str, Any]) -> ToolCall:
    """The call of a tool, as a workflow records it."""
    return ToolCall(
        name=str(record.get("tool_name")),
        arguments=mapping(record.get("tool_kwargs")),
        id=record.get("tool_id"),
    )


def _describes_tool(document: Document) -> bool:
    """Whether a node holds only a tool's description, in an index of tools."""
    return _TOOL_TEXT.format(document.metadata.get("name")) in document.text
