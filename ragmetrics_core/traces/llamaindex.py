"""LlamaIndex as instrumentations record it.

A call is known by its method, or by what went into it and came out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from ragmetrics_core.capture import (
    Document,
    Message,
    ToolCall,
    answer_text,
    as_one_line,
)
from ragmetrics_core.capture.plain_values import find_instances
from ragmetrics_core.capture.tree import Kind
from ragmetrics_core.traces.dialects import Reading
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.values import (
    ToolMessage,
    mapping,
    messages_in,
    parse_objects,
    replies_in,
)

# What a call of each method does. An awaited method has its name without the "a":
# "aquery" counts as "query". Calls of other methods are looked through.
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("query", "chat", "stream_chat", "run", "predict_and_call"), "agent"
    ),
    **dict.fromkeys(("synthesize", "get_response", "structured_predict"), "step"),
    **dict.fromkeys(("complete", "stream_complete"), "model"),
    **dict.fromkeys(
        ("postprocess_nodes", "_postprocess_nodes", "_apostprocess_nodes"), "reranker"
    ),
    **dict.fromkeys(("select", "_select", "build"), "ignored"),
    **dict.fromkeys(("call", "__call__"), "tool"),
    "retrieve": "retriever",
}
# If a span names no method, the keys of its input tell the method, and with ">" the
# keys of its output. The first row counts whose keys are all there.
_METHODS_BY_KEYS = {
    "ev": "step",
    ">tool_name >raw_output": "call",
    ">response >tool_calls": "run_agent_step",
    ">sources >is_dummy_stream": "predict_and_call",
    ">selections": "select",
    "query_bundle nodes": "postprocess_nodes",
    "query nodes": "synthesize",
    **dict.fromkeys(("nodes", "documents"), "build"),
    "text_chunks": "get_response",
    "str_or_query_bundle": "query",
    "query_bundle": "_query",
    "message": "chat",
    "prompt_args": "predict",
    **dict.fromkeys(("messages", "prompt", "args"), "complete"),
    ">messages": "_prepare_chat_with_tools",
}
# it tells the prompt where a model's own call was not recorded
_PREPARED = "_prepare_chat_with_tools"
# what the framework's own tool tells the next agent of a workflow
_HANDED_OVER = " is now handling the request due to the following reason: "
_QUERY_KEYS = (
    "message",
    "user_msg",
    "query",
    "query_str",
    "query_bundle",
    "str_or_query_bundle",
)
_QUESTION_FIELDS = ("query", "question", "input", "message")
_RESPONSE_KEYS = ("result", "response", "response_txt")
_THOUGHT = "Thought: "  # begins what a model writes for a ReAct agent
# the object whose method writes the answer of a streamed chat
_STREAM_WRITER = "StreamingAgentChatResponse."
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


def put_streams_into_chats(calls: Sequence[Call]) -> list[Call]:
    """Put the spans that write streamed answers inside the chats that they answer.

    A thread of LlamaIndex writes such an answer. Its span stands beside the
    chat's span if the thread begins after the chat has ended.

    Args:
        calls: The outermost calls of a trace, as ``read`` left them.

    Returns:
        The outermost calls now.
    """
    outermost: list[Call] = []
    unanswered_chats: list[Call] = []
    for call in calls:
        chat = _chat_of_writer(call, unanswered_chats)
        if chat is not None:
            chat.inside.append(call)
            unanswered_chats.remove(chat)
            continue
        outermost.append(call)
        if not _writes_stream(call) and _is_unanswered(call):
            unanswered_chats.append(call)
    return outermost


def _chat_of_writer(call: Call, unanswered_chats: Sequence[Call]) -> Call | None:
    """The only chat with whose question a writer's prompt ends; None for no writer."""
    if not _writes_stream(call):
        return None
    chats = [
        chat for chat in unanswered_chats if _prompt_ends_with_question(chat, call)
    ]
    return chats[0] if len(chats) == 1 else None


def _writes_stream(call: Call) -> bool:
    """Whether a call writes the answer of a streamed chat."""
    return call.span.name.startswith(_STREAM_WRITER)


def _is_unanswered(call: Call) -> bool:
    """Whether an engine was asked, returned no answer, and nothing inside wrote one."""
    reading = call.reading
    if reading is None or reading.kind != "agent":
        return False
    if any(_writes_stream(inner) for inner in call.walk()):
        return False
    return bool(reading.query) and reading.output is None


def _prompt_ends_with_question(chat: Call, writer: Call) -> bool:
    """Whether the question of a chat ends a prompt inside the writer of a stream.

    Questions of earlier turns stand in the prompt as well, and do not end it.
    """
    if chat.reading is None:
        return False
    question = as_one_line(chat.reading.query)
    for call in writer.walk():
        prompt = call.reading.prompt if call.reading is not None else ()
        asked = _last_text_of_user(prompt)
        # where a chat is shown as one text, this begins the reply
        text = as_one_line(asked).removesuffix("assistant:").rstrip()
        if text.endswith(question):
            return True
    return False


def _nodes_with_metadata(
    nodes: Iterable[Document],
) -> dict[tuple[str | None, str], Document]:
    """The nodes that were recorded with their metadata before their text.

    Other spans may have recorded such a node with its text alone: the keys are the id
    and the text alone, which is its first other form.
    """
    nodes_with_metadata = {}
    for node in nodes:
        if node.forms:
            text_alone = node.forms[0]
            nodes_with_metadata[node.id, text_alone] = node
    return nodes_with_metadata


def _likely_question(texts: Mapping[str, str], inner_query: str | None) -> str | None:
    """Choose the likely question among the texts that a workflow began with.

    Example: {"topic": "Who?", "tone": "kind"} with the inner query "Who?" gives "Who?".
    Without an equal text a usual name such as "query" counts, or a single text.

    Args:
        texts: The texts by their names.
        inner_query: What the first engine inside was asked: a text that was handed on
            to it unchanged is the question.
    """
    if inner_query in texts.values():
        return inner_query
    for name in _QUESTION_FIELDS:
        if name in texts:
            return texts[name]
    if len(texts) == 1:
        (only_text,) = texts.values()
        return only_text
    return None


def _prompt_in(inputs: Any) -> tuple[Message, ...]:
    """The prompt in what a model was given; it may be the first argument of any name."""
    prompt = messages_in(inputs)
    fields = mapping(inputs)
    if prompt or "args" not in fields:
        return prompt
    arguments = [*(fields["args"] or ()), *mapping(fields.get("kwargs")).values()]
    first_argument = tuple(arguments[:1])  # empty if there is none
    return messages_in(first_argument)


class _Trace:
    """What went into the calls of one trace and came out, and the nodes in these.

    A **node** is a document of LlamaIndex; some spans cut it to its id. **Chunks** are
    the texts, metadata included, that a synthesizer was given. A **synthesizer** answers
    a question from nodes.

    Args:
        calls: All calls of the trace that say something.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        """Collect what the rules for single calls need of the whole trace.

        Example: a query engine's trace: its calls with their methods ("query",
        "retrieve", "synthesize"), and the nodes (documents) by their ids.
        """
        # what each call was given, parsed, and below what it returned; a call
        # without a reading has no entry
        self._inputs: dict[Call, Any] = {}
        self._outputs: dict[Call, Any] = {}
        self._parse_inputs_and_outputs(calls)
        self._methods: dict[Call, str] = {}  # such as "retrieve"
        for call, inputs in self._inputs.items():
            self._methods[call] = _method(call, inputs, self._outputs[call])
        nodes = self._all_nodes(calls)
        # read backwards: of several nodes with the same id the first stays
        self._nodes_by_id = {node.id: node for node in reversed(nodes) if node.text}
        # by id and text alone, since another span may lack a node's metadata
        self._nodes_with_metadata = _nodes_with_metadata(nodes)
        # texts that synthesizers were given
        chunks = chain.from_iterable(self._chunks_given(call) for call in calls)
        self._chunks_shortest_first = sorted(chunks, key=len)
        self._tool_names = self._names_of_tool_calls(calls)  # by the call's id

    def _parse_inputs_and_outputs(self, calls: Sequence[Call]) -> None:
        """Parse what went into each call and came out, into ``_inputs`` and ``_outputs``."""
        for call in calls:
            if call.reading is None:
                continue
            inputs = call.reading.input
            output = call.reading.output
            # a step of a workflow is given an event as "ev", and returns objects of any
            # class; the workflow itself is given its "init_state"
            is_workflow = _has(inputs, "ev", "init_state")
            self._inputs[call] = parse_objects(inputs)
            self._outputs[call] = parse_objects(output, any_object=is_workflow)
        for call in calls:
            for step, following in pairwise(call.inside):
                self._fill_missing_output(step, following)

    def _fill_missing_output(self, step: Call, following: Call) -> None:
        """Take the output of an agent's step from the next one, to which it was sent."""
        parses_reply = following.span.name.endswith(".parse_agent_output")
        if parses_reply and step in self._outputs and not self._outputs[step]:
            self._outputs[step] = self._event_sent_to(following)

    def _all_nodes(self, calls: Sequence[Call]) -> list[Document]:
        """All nodes of the trace, in the order of the calls.

        For each call, the nodes that came out stand before the nodes that went in.
        """
        nodes: list[Document] = []
        for call in calls:
            documents = call.reading.documents if call.reading is not None else None
            values = (documents, self._outputs[call], self._inputs[call])
            nodes += find_instances(values, Document)
        return nodes

    def _names_of_tool_calls(self, calls: Sequence[Call]) -> dict[Any, str]:
        """The names of tools by the ids of their calls, as workflows record them."""
        names = {}
        for call in calls:
            for record in (self._event_sent_to(call), mapping(self._outputs[call])):
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
            around: The calls around it, the outermost first, without steps of workflows.
            sources: The nodes that the innermost engine around it named as its sources.
        """
        reading = call.reading
        if reading is not None and call in self._inputs:
            kind = self._kind(call, reading, around)
            source_nodes = mapping(self._outputs[call]).get("source_nodes")
            sources = self._nodes(source_nodes) or sources
            reading.input = None
            reading.output = None
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
        elif kind in ("agent", "step"):
            self._read_engine(call, reading, sources)

    def _kind(
        self, call: Call, reading: Reading, around: tuple[Call, ...]
    ) -> Kind | None:
        """Tell what a call does, e.g. "retriever" for the method ``retrieve``.

        Returns None for a call that is not read: a step of a workflow, or a call whose
        result the call around it returns as well. Returns "ignored" for work that
        answers no user, such as the building of an index.

        Args:
            call: The call.
            reading: What its span says.
            around: The calls around it, the outermost first.
        """
        method = self._methods[call]
        inputs = self._inputs[call]
        is_step_of_workflow = _has(inputs, "ev")  # steps are given events
        if is_step_of_workflow or self._is_part_of_synthesizer(method, around):
            return None
        # ``pipeline.run(documents=[…])`` fills an index; a workflow's ``run()`` answers
        builds_index = method == "run" and _has(inputs, "documents")
        if reading.kind == "ignored" or builds_index:
            return "ignored"
        if method == "predict_and_call" and around:
            # the model picks a tool and runs it; the call around returns the result
            return None
        is_chat = method in ("chat", "stream_chat")
        if is_chat and not _has(inputs, "message"):
            return "model"  # a chat engine would be given a message
        if method == "query" and _is_inside_retry(call, around):
            # ``RetryQueryEngine`` has an evaluator judge each answer, and the evaluator
            # makes a query of its own
            return "ignored"
        kind = _KINDS.get(method)
        if kind == "tool":
            # ``tool.call()`` has the method of many objects: it may be no tool
            return self._kind_of_called_object(call, reading, around)
        return kind

    def _is_part_of_synthesizer(self, method: str, around: tuple[Call, ...]) -> bool:
        """Whether a method is an inner one of a synthesizer, which returns its answer."""
        methods_around = {self._methods[outer] for outer in around}
        is_in_synthesizer = bool(methods_around & {"synthesize", "get_response"})
        return method == "get_response" and is_in_synthesizer

    def _kind_of_called_object(
        self, call: Call, reading: Reading, around: tuple[Call, ...]
    ) -> Kind | None:
        """What a call of an object does; None for a tool that the call around it tells."""
        is_tool = reading.kind == "tool" or _has(self._outputs[call], "raw_output")
        if not is_tool:
            return _kind_of_callable(self._inputs[call])
        is_inside_tool = (
            bool(around) and _KINDS.get(self._methods[around[-1]]) == "tool"
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
        output = self._outputs[call]
        reading.prompt = reading.prompt or _prompt_in(self._inputs[call])
        # An output with a "message" is the whole response: its replies replace those
        # that were read from the span's attributes.
        if _has(output, "message") or not reading.replies:
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
            replies = inner.reading.replies or replies_in(self._outputs.get(inner))
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
        if self._methods[call] == "run_agent_step":
            self._read_agent_step(call)

    def _read_agent_step(self, call: Call) -> None:
        """Give the model in an agent's step the reply that the step returned.

        The replies in the attributes of the model's own span may lack tool calls.
        Example: the step returned a reply and the call ``search("Rome")``: the model
        gets the reply with this call. Without a tool call the attributes' replies stay.
        """
        output = mapping(self._outputs[call])
        reply = output.get("response")
        model = self._model_of_step(call)
        if model is None or model.reading is None or not isinstance(reply, Message):
            return
        tool_calls = tuple(map(_tool_call, output.get("tool_calls") or ()))
        has_replies_in_attributes = bool(model.reading.replies)
        if tool_calls or not has_replies_in_attributes:
            model.reading.replies = (replace(reply, tool_calls=tool_calls),)
            self._outputs[model] = None  # so that ``_read_model`` keeps this reply

    def _model_of_step(self, step: Call) -> Call | None:
        """Find the last outermost call of a model in an agent's step.

        If the step recorded none, its last call that prepared a prompt
        (``_prepare_chat_with_tools``) is made a model's call, and returned. None if it
        recorded neither. Example: a step with the calls ``chat`` and, inside it,
        another ``chat`` gives the outer one.
        """
        calls = [call for call in step.walk() if call in self._inputs]
        models = [call for call in calls if self._is_model(call)]
        if models:
            nested = list(chain.from_iterable(model.inside for model in models))
            outermost = [model for model in models if model not in nested]
            return outermost[-1]
        preparing_calls = [call for call in calls if self._methods[call] == _PREPARED]
        if not preparing_calls:
            return None
        self._make_model_of(preparing_calls[-1])
        return preparing_calls[-1]

    def _make_model_of(self, preparing_call: Call) -> None:
        """Make a model's call of the call that returned the prompt of the model."""
        self._methods[preparing_call] = "complete"
        self._inputs[preparing_call] = self._outputs[preparing_call]
        self._outputs[preparing_call] = None

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
        inputs = mapping(self._inputs[call])
        output = mapping(self._outputs[call])
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
        nodes = self._nodes(result) if isinstance(result, tuple) else ()
        tool_call = ToolCall(reading.tool)
        reading.output = ToolMessage("tool", text, (tool_call,), nodes)

    def _read_retriever(self, call: Call, reading: Reading) -> None:
        """Read a retriever: what it was asked, was given and returned.

        Example: the query "Who?" and two documents. Its documents are None if nothing
        was recorded. A retriever that found tools, not texts, is ignored.
        """
        inputs = self._inputs[call]
        output = self._outputs[call]
        reading.query = _query(inputs)
        reading.input_documents = self._nodes(inputs)
        documents = self._nodes(reading.documents or output)
        nothing_recorded = output is None and not documents
        reading.documents = None if nothing_recorded else documents
        if documents and all(map(_describes_tool, documents)):
            reading.kind = "ignored"

    def _read_engine(
        self, call: Call, reading: Reading, sources: tuple[Document, ...]
    ) -> None:
        """Write into a reading what an engine was asked and answered.

        A workflow and a synthesizer, which answers from nodes, are read as well.
        Example: ``engine.query("Who?")`` answered "Anna": the query "Who?", the output
        "Anna".

        Args:
            call: The call.
            reading: Its reading, which is changed.
            sources: The nodes that an engine around it returned as its sources.
        """
        inputs = self._inputs[call]
        reading.query = _query(inputs)
        reading.output = _answer(self._outputs[call])
        # engines and workflows have the kind "agent" here; "step" is a synthesizer
        is_synthesizer = reading.kind == "step"
        if is_synthesizer:
            reading.input_documents = self._nodes_given(call, sources)
        chat_history = mapping(inputs).get("chat_history")
        is_workflow = self._methods[call] == "run"
        if is_workflow:
            # the calls inside a workflow hold its question, and often its answer
            inner_calls = [inner for inner in call.inside if inner in self._outputs]
            reading.query = self._question_of_workflow(call, inner_calls)
            reading.output = reading.output or self._last_answer(inner_calls)
            chat_history = chat_history or self._history_in_memory(inner_calls)
        reading.input = {"question": reading.query, "chat_history": chat_history}

    def _nodes_given(
        self, synthesizer: Call, sources: tuple[Document, ...]
    ) -> tuple[Document, ...]:
        """The nodes from which a synthesizer answers; empty if it shows its model none."""
        if synthesizer.span.name.startswith("Generation."):
            return ()
        nodes = self._nodes(mapping(self._inputs[synthesizer]).get("nodes"))
        return nodes or self._nodes_of_texts_given(synthesizer, sources)

    def _last_answer(self, steps: Sequence[Call]) -> str | None:
        """The answer of the last step that ended a workflow, or a turn of an agent."""
        for step in reversed(steps):
            output = self._outputs[step]
            if self._methods[step] == "run_agent_step" or _has(output, "result"):
                answer = _answer(output)
                if answer:
                    return answer
        return None

    def _question_of_workflow(self, call: Call, steps: Sequence[Call]) -> str | None:
        """Tell what a workflow was asked; None if nothing tells it.

        Args:
            call: The workflow.
            steps: Its steps, in their order.
        """
        texts = self._texts_of_start(call, steps)
        question = texts.get("user_msg") or _last_text_of_user(
            self._messages_to_agent(steps)
        )
        return question or _likely_question(texts, self._first_inner_query(call))

    def _texts_of_start(self, call: Call, steps: Sequence[Call]) -> dict[str, str]:
        """The texts that a workflow was started with.

        Some workflows tell these only to their first step.
        """
        start = mapping(self._inputs[call])
        if "init_state" in start and steps:
            start = self._event_sent_to(steps[0])
        texts = {}
        for name, value in start.items():
            if isinstance(value, str) and value:
                texts[name] = value
        return texts

    def _messages_to_agent(self, steps: Sequence[Call]) -> tuple[Message, ...]:
        """The messages that the first step of an agent was given: its memory.

        The memory holds the earlier turns, and the user's message.
        """
        for step in steps:
            for record in (mapping(self._outputs[step]), self._event_sent_to(step)):
                inputs = record.get("input")
                messages = messages_in(inputs) if isinstance(inputs, tuple) else ()
                if messages:
                    return messages
        return ()

    def _history_in_memory(self, steps: Sequence[Call]) -> tuple[Message, ...]:
        """The messages before the user's last one in an agent's memory.

        None of them is an example of a template, since a template adds its messages
        only where the prompt is made. The texts of a ReAct agent, which hold its
        thoughts beside the answer, tell no history.
        """
        messages = self._messages_to_agent(steps)
        if any(_is_reasoning(message) for message in messages):
            return ()
        for n_earlier in reversed(range(len(messages))):
            if messages[n_earlier].role == "user":
                return messages[:n_earlier]
        return ()

    def _first_inner_query(self, call: Call) -> str | None:
        """What the first engine or retriever inside a workflow was asked."""
        for inner in call.walk():
            if inner is call or self._methods.get(inner) not in ("query", "retrieve"):
                continue
            query = _query(self._inputs[inner])
            if query:
                return query
        return None

    def _nodes_of_texts_given(
        self, synthesizer: Call, sources: tuple[Document, ...]
    ) -> tuple[Document, ...]:
        """Return the nodes (documents) whose texts a synthesizer was given.

        The span of the synthesizer holds the texts without ids. The sources that the
        engine named are likely the same nodes in the same order. Example: the text
        "Rome is old." and the source with the id "n1" and this text give the node "n1".
        If the source's own text does not stand in the given text, the source does not
        fit: then a node of the trace that has the given text is taken.

        Args:
            synthesizer: The call.
            sources: The nodes that the engine around it returned as its sources.

        Returns:
            A node for each text; the sources if no text was recorded.
        """
        texts = self._first_chunks_given(synthesizer)
        if len(texts) > len(sources):
            # a source is missing: the first text may not be that of the first source
            return tuple(Document(text) for text in texts)
        nodes_by_text = self._shown_nodes_by_text()
        nodes: list[Document] = []
        # fewer texts than sources: the synthesizer was given the first sources
        for source, text in zip(sources, texts, strict=False):
            # a source without a text fits, unless a known node has the given text
            if _fits(source, text, nodes_by_text):
                nodes.append(replace(source, text=text))
            else:
                nodes.append(nodes_by_text.get(text, Document(text)))
        return tuple(nodes) or sources

    def _shown_nodes_by_text(self) -> dict[str, Document]:
        """The nodes of the trace by the texts that models are shown of them."""
        nodes_by_text = {}
        for node in self._nodes_by_id.values():
            shown_node = self._as_shown(node)
            nodes_by_text[shown_node.text] = shown_node
        return nodes_by_text

    def _first_chunks_given(self, synthesizer: Call) -> tuple[str, ...]:
        """Return the texts of a synthesizer, or of the first call inside that has any."""
        for call in synthesizer.walk():
            chunks = self._chunks_given(call)
            if chunks:
                return chunks
        return ()

    def _event_sent_to(self, call: Call) -> Mapping[str, Any]:
        """What a step of a workflow was sent."""
        return mapping(mapping(self._inputs.get(call)).get("ev"))

    def _chunks_given(self, call: Call) -> tuple[str, ...]:
        """The texts that a synthesizer was given."""
        chunks = mapping(self._inputs.get(call)).get("text_chunks")
        return tuple(chunk for chunk in chunks or () if isinstance(chunk, str))

    def _nodes(self, value: Any) -> tuple[Document, ...]:
        """The nodes in a value, with the texts that models are shown of them."""
        return tuple(map(self._as_shown, find_instances(value, Document)))

    def _as_shown(self, node: Document) -> Document:
        """Return a node (a document) with the text that models are shown of it.

        That is its metadata, followed by its own text: "page: 3", a blank line, "Rome
        is old.". If this node lacks its text or its metadata, they are taken from the
        same node in another span of the trace.
        """
        whole_node = node if node.text else self._nodes_by_id.get(node.id, node)
        shown_node = self._nodes_with_metadata.get(
            (whole_node.id, whole_node.text), whole_node
        )
        shown_node = replace(shown_node, score=node.score)
        # ``forms`` holds the own text of a node that was recorded with its metadata
        was_recorded_as_shown = bool(shown_node.forms)
        metadata = _metadata_without_score(whole_node, node.score)
        if was_recorded_as_shown or not metadata or not shown_node.text:
            return shown_node
        return self._with_metadata_in_text(shown_node, metadata)

    def _with_metadata_in_text(
        self, node: Document, metadata: Mapping[str, str]
    ) -> Document:
        """Put metadata before a node's text; the text alone becomes another form."""
        lines = "\n".join(self._metadata_lines(node.text, metadata))
        return Document(
            text=f"{lines}\n\n{node.text}",
            id=node.id,
            score=node.score,
            metadata=node.metadata,
            forms=(node.text,),
        )

    def _metadata_lines(self, text: str, metadata: Mapping[str, str]) -> list[str]:
        """The lines of metadata before a node's text.

        The shortest chunk that fits tells them; without one they are all metadata.
        """
        end = f"\n\n{text}"
        for chunk in self._chunks_shortest_first:
            if chunk.endswith(end):
                lines = chunk.removesuffix(end).splitlines()
                if all(_holds_any(line, metadata.values()) for line in lines):
                    return lines
        return [f"{name}: {value}" for name, value in metadata.items()]


def _fits(node: Document, text: str, nodes_by_text: Mapping[str, Document]) -> bool:
    """Whether a text may be what a synthesizer was given of a node.

    Args:
        node: The node. Its own text must stand in the text; a node without a text fits,
            unless another node has the text.
        text: The text.
        nodes_by_text: The known nodes by the texts that models are shown of them.
    """
    own_text = node.forms[0] if node.forms else node.text
    if own_text:
        return own_text in text
    return text not in nodes_by_text


def _holds_any(line: str, values: Iterable[str]) -> bool:
    """Whether one of some texts stands in a line."""
    return any(value in line for value in values)


def _metadata_without_score(node: Document, score: float | None) -> dict[str, str]:
    """A node's metadata; some instrumentations write its score among them."""
    metadata = {}
    for name, value in node.metadata.items():
        is_score = name == "score" and value == score
        if not is_score:
            metadata[name] = str(value)
    return metadata


def _last_text_of_user(messages: Sequence[Message]) -> str | None:
    """The text of the user's last message; None if there is none."""
    for message in reversed(messages):
        if message.role == "user":
            return message.text
    return None


def _is_reasoning(message: Message) -> bool:
    """Whether a message is what a ReAct agent wrote: its thoughts, and an answer."""
    return message.role == "assistant" and message.text.startswith(_THOUGHT)


def _kind_of_callable(inputs: Any) -> Kind | None:
    """What a call of an object is that is no tool.

    It is a postprocessor's, a program's, or nothing that counts.
    """
    if _has(inputs, "nodes"):
        return "ignored"
    if _has(inputs, "llm_kwargs"):
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


def _method(call: Call, inputs: Any, output: Any) -> str:
    """Tell which method of LlamaIndex a call is; "" if nothing tells it.

    Most spans are named OWNER.METHOD. ``aquery`` and the like count as ``query``.
    """
    owner, _, name = call.span.name.rpartition(".")
    if name in ("task", "workflow"):
        return _method_by_values(owner, name, inputs, output)
    is_awaited = name.startswith("a") and name[1:] in _KINDS
    return name[1:] if is_awaited else name


def _method_by_values(owner: str, name: str, inputs: Any, output: Any) -> str:
    """Tell the method of a span that Traceloop named OWNER.task or OWNER.workflow.

    Traceloop calls any outermost call a "workflow", also an engine or a retriever.

    Returns:
        The method; "" if nothing tells it.
    """
    method = _method_by_keys(inputs, output)
    returns_nodes = isinstance(output, tuple)
    returns_answer = isinstance(output, str)
    if name == "workflow" and not (method or returns_nodes or returns_answer):
        return "run"
    # a retriever has the same input keys as a query engine
    is_retriever = returns_nodes or owner.endswith("Retriever")
    return "retrieve" if method == "query" and is_retriever else method


def _method_by_keys(inputs: Any, output: Any) -> str:
    """The method of a call whose name tells none, as Traceloop writes it.

    It is "" if the keys do not tell it.
    """
    keys = {*mapping(inputs), *(f">{key}" for key in mapping(output))}
    for needed_keys, method in _METHODS_BY_KEYS.items():
        if keys.issuperset(needed_keys.split()):
            return method
    return ""


def _has(value: Any, *keys: str) -> bool:
    """Whether a value is a mapping with one of the keys."""
    return any(key in mapping(value) for key in keys)


def _query(inputs: Any) -> str | None:
    """The question in what an engine, retriever or synthesizer was given."""
    while isinstance(inputs, Mapping):
        inputs = _first_entry(inputs, _QUERY_KEYS)
    return inputs if isinstance(inputs, str) else None


def _first_entry(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first of some entries that is there."""
    for name in names:
        if value.get(name) is not None:
            return value[name]
    return None


def _answer(output: Any) -> str | None:
    """The answer in what an engine, synthesizer or workflow returned.

    None if it is not there, or not yet.
    """
    while _has(output, "response_gen", *_RESPONSE_KEYS):
        output = _first_entry(output, _RESPONSE_KEYS)
    text = answer_text(output)
    if text is None or not text.startswith(_THOUGHT):
        return text
    _, _, answer = text.partition("\nAnswer: ")
    return answer or text
