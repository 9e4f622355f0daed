"""LlamaIndex as instrumentations record it: a table of methods says what each call does.

Objects that were recorded as Python writes them, such as the events of a workflow, are
not read: what only they hold is told as *inferred* or *incomplete*.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from ragmetrics_core.capture import Document, Message, ToolCall
from ragmetrics_core.capture.plain_values import answer_text
from ragmetrics_core.capture.structures import find_instances
from ragmetrics_core.capture.tree import Kind
from ragmetrics_core.traces.dialects import Reading
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.values import (
    ToolMessage,
    mapping,
    messages_in,
    replies_in,
)

# What a call of each method does. An awaited method has its name without the "a":
# "aquery" counts as "query". Calls of other methods are looked through.
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("query", "chat", "stream_chat", "run", "predict_and_call"), "agent"
    ),
    **dict.fromkeys(("synthesize", "get_response"), "step"),
    **dict.fromkeys(("complete", "stream_complete"), "model"),
    **dict.fromkeys(
        ("postprocess_nodes", "_postprocess_nodes", "_apostprocess_nodes"), "reranker"
    ),
    **dict.fromkeys(("select", "_select"), "ignored"),
    **dict.fromkeys(("call", "__call__"), "tool"),
    "retrieve": "retriever",
}
# Traceloop's spans name no method: the keys of the input tell it, and with ">" the keys
# of the output. The first row counts whose keys are all there.
_METHODS_BY_KEYS = {
    ">tool_name >raw_output": "call",
    ">selections": "select",
    "query_bundle nodes": "postprocess_nodes",
    "query nodes": "synthesize",
    "text_chunks": "get_response",
    "str_or_query_bundle": "query",
    "message": "chat",
    "prompt_args": "predict",
    **dict.fromkeys(("messages", "prompt", "args"), "complete"),
}
_QUERY_KEYS = (
    "message",
    "user_msg",
    "query",
    "query_str",
    "query_bundle",
    "str_or_query_bundle",
)
_RESPONSE_KEYS = ("result", "response", "response_txt")
# what an index of tools holds of each
_TOOL_TEXT = "Tool name: {}\nTool description: "


def read(calls: Sequence[Call]) -> None:
    """Write into the readings of a trace what the rules of all frameworks read.

    Args:
        calls: The outermost calls of the trace.
    """
    all_calls = chain.from_iterable(call.walk() for call in calls)
    trace = _Trace.of([call for call in all_calls if call.reading is not None])
    for call in calls:
        trace.read(call, around=())


@dataclass
class _Trace:
    """The calls of one trace, whose readings are written.

    Attributes:
        inputs: What each call was given.
        outputs: What each call returned.
        methods: The method of each call, such as "retrieve"; "" if nothing tells it.
        nodes: The nodes (documents) with a text, by their ids.
    """

    inputs: dict[Call, Any] = field(default_factory=dict)
    outputs: dict[Call, Any] = field(default_factory=dict)
    methods: dict[Call, str] = field(default_factory=dict)
    nodes: dict[str | None, Document] = field(default_factory=dict)

    @staticmethod
    def of(calls: Sequence[Call]) -> "_Trace":
        """Collect what went into the calls and came out, and the nodes among that."""
        trace = _Trace()
        for call in calls:
            reading = call.reading or Reading()
            inputs, output = reading.input, reading.output
            trace.inputs[call] = inputs
            trace.outputs[call] = output
            trace.methods[call] = _method_of(call.span.name, inputs, output)
            listed = find_instances((reading.documents, output, inputs), Document)
            for node in listed:
                if node.text:
                    known = trace.nodes.setdefault(node.id, node)
                    # another span may hold the node without what is shown before it
                    if node.forms and not known.forms:
                        trace.nodes[node.id] = node
        return trace

    def read(self, call: Call, *, around: tuple[Call, ...]) -> None:
        """Write into the reading of a call, and of those inside, what LlamaIndex did.

        Args:
            call: The call.
            around: The calls around it, the outermost first, without those of no kind.
        """
        reading = call.reading
        if reading is not None:
            kind = self._kind(call, reading, around)
            # they are objects written out: the rules below know where the texts stand
            reading.input = None
            reading.output = None
            # a step of a workflow has no kind: only the calls inside it have one
            reading.kind = kind or "step"
            if kind is not None:
                self._read_as(kind, call, reading)
                around = (*around, call)
        for inner in call.inside:
            self.read(inner, around=around)

    def _read_as(self, kind: Kind, call: Call, reading: Reading) -> None:
        """Write into a reading what a call of its kind was given and returned."""
        match kind:
            case "model":
                self._read_model(call, reading)
            case "tool":
                self._read_tool(call, reading)
            case "retriever" | "reranker":
                self._read_retriever(call, reading)
            case "step":  # of LlamaIndex's methods only a synthesizer's are steps
                self._read_engine(call, reading)
                reading.input_documents = self._nodes_given_to(call)
            case "agent":
                self._read_engine(call, reading)

    def _kind(
        self, call: Call, reading: Reading, around: tuple[Call, ...]
    ) -> Kind | None:
        """Tell what a call does, e.g. "retriever" for the method ``retrieve``.

        Returns:
            "ignored" for work that answers no user. None for a call that is looked
            through: only the calls inside it are read.
        """
        method, inputs = self.methods[call], self.inputs[call]
        methods_around = {self.methods[outer] for outer in around}
        if "ev" in mapping(inputs):  # a step of a workflow, which is sent an event
            return None
        if method == "get_response" and methods_around & {"synthesize", "get_response"}:
            return None  # an inner method of a synthesizer, which returns its answer
        if reading.kind == "ignored" or _answers_no_user(method, call, inputs, around):
            return "ignored"
        is_chat = method in ("chat", "stream_chat")
        if is_chat and "message" not in mapping(inputs):
            return "model"  # a chat engine would be given a message
        kind = _KINDS.get(method)
        if kind != "tool":
            return kind
        is_tool = reading.kind == "tool" or "raw_output" in mapping(self.outputs[call])
        return "tool" if is_tool else None

    def _read_model(self, call: Call, reading: Reading) -> None:
        """Add the prompt and the replies to what was read of a model's call.

        One call of a model is recorded as several spans inside each other: ``complete``
        around ``chat``. What was read of the inner spans is dropped, so that the call
        counts once.
        """
        output = self.outputs[call]
        reading.prompt = reading.prompt or _prompt_in(self.inputs[call])
        if "message" in mapping(output) or not reading.replies:
            reading.replies = replies_in(output)
        for inner in call.walk():
            if inner is call or inner.reading is None:
                continue
            inner.reading = None

    def _read_tool(self, call: Call, reading: Reading) -> None:
        """Write into a tool's reading its name, its arguments and its result.

        The result is a message of the tool, with the nodes (documents) that it holds
        beside its text.
        """
        inputs = mapping(self.inputs[call])
        output = mapping(self.outputs[call])
        # arguments without a name have their place as key: 0, 1, …
        arguments: dict[Any, Any] = dict(enumerate(inputs.get("args") or ()))
        arguments.update(mapping(inputs.get("kwargs")))
        reading.input = arguments
        reading.tool = str(reading.tool or output.get("tool_name") or call.span.name)
        if not output:  # the result was not recorded
            return
        blocks = [mapping(block) for block in output.get("blocks") or ()]
        text = "".join(str(block.get("text") or "") for block in blocks)
        # a retriever's tool returns a list of nodes: lists of a span are read as tuples
        result = output.get("raw_output")
        nodes = self._nodes_in(result) if isinstance(result, tuple) else ()
        answered_call = ToolCall(reading.tool)  # the call that the result answers
        reading.output = ToolMessage("tool", text, (answered_call,), artifact=nodes)

    def _read_retriever(self, call: Call, reading: Reading) -> None:
        """Read a retriever or a postprocessor: what it was asked, given and returned.

        Its documents are None if nothing was recorded. A retriever that found tools,
        not texts, is ignored.
        """
        reading.query = _query_in(self.inputs[call])
        reading.input_documents = self._nodes_in(self.inputs[call])
        documents = self._nodes_in(reading.documents or self.outputs[call])
        nothing_recorded = self.outputs[call] is None and not documents
        reading.documents = None if nothing_recorded else documents
        if documents and all(map(_describes_tool, documents)):
            reading.kind = "ignored"

    def _read_engine(self, call: Call, reading: Reading) -> None:
        """Write into the reading of an engine or synthesizer question and answer."""
        inputs = self.inputs[call]
        reading.query = _query_in(inputs)
        reading.output = _answer_of(self.outputs[call])
        chat_history = mapping(inputs).get("chat_history")
        if reading.query or chat_history:
            reading.input = {"question": reading.query, "chat_history": chat_history}

    def _nodes_in(self, value: Any) -> tuple[Document, ...]:
        """The nodes in a value, with the texts that models are shown of them."""
        return tuple(map(self._as_shown, find_instances(value, Document)))

    def _as_shown(self, node: Document) -> Document:
        """Return a node with its metadata before its text, as models are shown it.

        A node that was cut to its id gets the text that stands in another span.
        """
        known = self.nodes.get(node.id, node)
        own_texts = (known.text, *known.forms)
        whole = known if not node.text or node.text in own_texts else node
        whole = replace(whole, score=node.score)
        lines = [
            f"{name}: {value}"
            for name, value in whole.metadata.items()
            if not (name == "score" and value == node.score)
        ]
        if whole.forms or not lines or not whole.text:
            return whole
        text = "\n".join(lines) + f"\n\n{whole.text}"
        return replace(whole, text=text, forms=(whole.text,))

    def _nodes_given_to(self, synthesizer: Call) -> tuple[Document, ...]:
        """The nodes from which a synthesizer answers; empty if it shows its model none."""
        if synthesizer.span.name.startswith("Generation."):
            return ()
        nodes = self._nodes_in(mapping(self.inputs[synthesizer]).get("nodes"))
        if nodes:
            return nodes
        for call in synthesizer.walk():
            chunks = mapping(self.inputs.get(call)).get("text_chunks")
            texts = [chunk for chunk in chunks or () if isinstance(chunk, str)]
            if texts:
                return tuple(map(self._node_of_text, texts))
        return ()

    def _node_of_text(self, text: str) -> Document:
        """The node that is shown as a text; one without an id where there is none."""
        shown_nodes = map(self._as_shown, self.nodes.values())
        nodes = (node for node in shown_nodes if text in (node.text, *node.forms))
        return next(nodes, Document(text))


def _method_of(name_of_span: str, inputs: Any, output: Any) -> str:
    """Tell which method of LlamaIndex a call is; "" if nothing tells it.

    Most spans are named OWNER.METHOD. ``aquery`` and the like count as ``query``.
    Traceloop names them OWNER.task, and the outermost OWNER.workflow.
    """
    owner, _, name = name_of_span.rpartition(".")
    if name not in ("task", "workflow"):
        is_awaited = name.startswith("a") and name[1:] in _KINDS
        return name[1:] if is_awaited else name
    keys = {*mapping(inputs), *(f">{key}" for key in mapping(output))}
    methods = (
        method
        for needed, method in _METHODS_BY_KEYS.items()
        if keys.issuperset(needed.split())
    )
    method = next(methods, "")
    returns_nodes = isinstance(output, tuple)
    if name == "workflow" and not (method or returns_nodes or isinstance(output, str)):
        return "run"
    # a retriever has the same input keys as a query engine
    is_retriever = returns_nodes or owner.endswith("Retriever")
    return "retrieve" if method == "query" and is_retriever else method


def _answers_no_user(
    method: str, call: Call, inputs: Any, around: tuple[Call, ...]
) -> bool:
    """Whether a call fills an index, or is the query of an evaluator.

    ``RetryQueryEngine`` has an evaluator judge each answer by a query of its own.
    """
    if method == "query" and not call.span.name.startswith("Retry"):
        return any(outer.span.name.startswith("Retry") for outer in around)
    return method == "run" and "documents" in mapping(inputs)


def _prompt_in(inputs: Any) -> tuple[Message, ...]:
    """The prompt in what a model was given; it may be the first argument of any name."""
    prompt = messages_in(inputs)
    fields = mapping(inputs)
    if prompt or "args" not in fields:
        return prompt
    arguments = [*(fields["args"] or ()), *mapping(fields.get("kwargs")).values()]
    return messages_in(tuple(arguments[:1]))


def _query_in(inputs: Any) -> str | None:
    """The question in what an engine, retriever or synthesizer was given."""
    while isinstance(inputs, Mapping):
        inputs = _first_entry(inputs, _QUERY_KEYS)
    return inputs if isinstance(inputs, str) else None


def _answer_of(output: Any) -> str | None:
    """The answer in what an engine, synthesizer or workflow returned; None without."""
    while not {"response_gen", *_RESPONSE_KEYS}.isdisjoint(mapping(output)):
        output = _first_entry(output, _RESPONSE_KEYS)
    return answer_text(output)


def _first_entry(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first of some entries that is there."""
    return next((value[name] for name in names if value.get(name) is not None), None)


def _describes_tool(document: Document) -> bool:
    """Whether a node holds only a tool's description, in an index of tools."""
    return _TOOL_TEXT.format(document.metadata.get("name")) in document.text
