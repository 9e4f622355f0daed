"""From the spans of a run to the core's tree of calls: what each component, agent step and tool is. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from haystack_integrations.tracing.ragmetrics.nodes import (
    AGENT,
    AGENT_LLM,
    AGENT_TOOL,
    COMPONENT,
    Node,
    Run,
    Said,
)

from ragmetrics_core.capture import (
    Document,
    Message,
    ToolCall,
    add_provider_evidence,
    as_one_line,
    compact,
    documents_in,
    texts_in,
)
from ragmetrics_core.capture import Node as Call

_CALLS = (COMPONENT, AGENT_LLM, AGENT_TOOL)
_EVIDENCE = re.compile(r"document|context|passage|chunk|window|snippet")
T = TypeVar("T")
_ASKED = ("query", "text", "queries", "question")


class Calls:
    """The calls of a run, made of its spans.

    Attributes:
        run: The run.
        root: The outermost call, with all others inside.
        of: The call of each span.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.of: dict[Node, Call] = {}
        for node in run.nodes:
            self.of[node] = self._make_call(node)
        self.root = self.of[run.root]

    def _make_call(self, node: Node) -> Call:
        """Make the call of a span, with all that was recorded of it.

        A **span** is what Haystack records of a component, agent step or tool; a node
        holds it. The call becomes a child of the call of the span around it. A nested
        pipeline has no call of its own, but shares that of the component or tool around
        it.
        """
        # the calls by their spans: the one around has been made before
        parent = self.of[node.parent] if node.parent is not None else None
        if parent is not None and node.operation == AGENT:
            return self._of_agent(parent, node)
        if parent is not None and node.operation not in _CALLS:
            return parent
        kind = self._kind_of_call(node)
        call = Call(kind, node.path or "run", node.opened, node.closed or None)
        documents_taken: list[Document] = []
        for value in node.input.values():
            documents_taken += self._documents_of(value)
        call.input_documents = tuple(documents_taken)
        is_root = node is self.run.root
        if not is_root:
            # what the whole run gave is read elsewhere
            call.documents = self._documents_returned(node)
            call.error = node.error or ("no output" if node.output is None else None)
        if kind == "model":
            _fill_model(call, node)
        elif node.operation == AGENT_TOOL:
            self._fill_tool_call(call, node)
        elif not is_root:
            call.query = self._query_of(node)
            call.text = next(texts_in(node.sockets.get("last_message")), None)
        if parent is not None:
            parent.children.append(call)
        return call

    def _of_agent(self, enclosing: Call, node: Node) -> Call:
        """The call of an agent.

        It is the call of the component around it. Inside a tool a new call is made.
        """
        call = enclosing
        if enclosing.kind == "tool":
            call = Call("agent", enclosing.name, node.opened, node.closed or None)
            enclosing.children.append(call)
        agents = [span for span in self.run.nodes if span.operation == AGENT]
        call.agent = enclosing.name if len(agents) > 1 else None
        return call

    def _kind_of_call(self, node: Node) -> Any:
        """Tell what kind of call a span is, by what runs inside and what it passes on.

        The whole run is an agent, and so is a component inside of which models run. A
        component that takes documents and gives documents, and runs nothing inside, is
        a reranker. An evaluator is ignored. What fits nothing is a step.
        """
        if node is self.run.root:
            return "agent"
        if node.operation == AGENT_TOOL:
            return "tool"
        if self.is_model(node):
            return "model"
        if ".evaluators." in node.type:
            return "ignored"
        spans_inside = self.inside[node]
        for span in spans_inside:
            if span.operation == AGENT_LLM or "replies" in span.sockets:
                return "agent"
        takes_documents = any(documents_in(node.input))
        gives_documents = any(documents_in(node.sockets))
        if takes_documents and gives_documents and not spans_inside:
            return "reranker"
        return "retriever" if self.retrieves(node) else "step"

    def _fill_tool_call(self, call: Call, node: Node) -> None:
        """Write into the call of a tool what it was asked and what it returned.

        The result is taken as the model was shown it. In one step of an agent the model
        may call several tools; which of its calls a span ran is told by name and
        arguments. A tool only steers the run (``control``) if its result is the answer
        of the agent, or if it looks for other tools.

        Args:
            call: The call; it is changed.
            node: The span of the tool.
        """
        call.name = node.name
        call.query = _one_text(node.input)
        tools_of_step = [
            span
            for span in self.run.nodes
            if span.operation == AGENT_TOOL and span.parent is node.parent
        ]
        # Which of the model's calls did the span run? The candidate of a call is itself.
        calls_with_calls = [
            (tool_call, tool_call) for tool_call in self._calls_of_step(node)
        ]
        tool_calls = _candidate_of_span(node, tools_of_step, calls_with_calls)
        call.tool_call_id = tool_calls[0].id if tool_calls else None
        # Which of the results that the next model was shown is the span's?
        next_model = self._next_model(node)
        messages = () if next_model is None else prompt(next_model)
        calls_with_results = [
            (result.tool_calls[0], result)
            for result in _results_after_the_last_reply(messages)
        ]
        results = _candidate_of_span(node, tools_of_step, calls_with_results)
        result = results[0] if results else None
        if result is not None:
            call.text = result.text
        elif isinstance(node.output, str):
            call.text = node.output
        if _has_failed(node, result):
            _note_failure(call, node)
        is_answer = next_model is None and node.ends_agent and not call.documents
        # the one argument of Haystack's own tool that looks for tools
        looks_for_tools = "tool_keywords" in node.input
        call.is_control = is_answer or looks_for_tools

    def _calls_of_step(self, node: Node) -> list[ToolCall]:
        """The tools that the model called in the step of an agent in which a tool ran."""
        replies = [
            self.of[model].reply
            for model in self._models_of[node.agent]
            if model.parent is node.parent
        ]
        return [
            call for reply in replies if reply is not None for call in reply.tool_calls
        ]

    def _next_model(self, node: Node) -> Node | None:
        """The next call of the model of an agent, which is shown what a tool returned."""
        models = self._models_of[node.agent]
        return next((model for model in models if model.opened > node.opened), None)

    @cached_property
    def _models_of(self) -> Mapping[Node | None, list[Node]]:
        """Calls of the model of each agent, in their order."""
        models_of_agent = defaultdict[Node | None, list[Node]](list)
        for node in self.run.nodes:
            if node.operation == AGENT_LLM:
                models_of_agent[node.agent].append(node)
        return models_of_agent

    def _documents_returned(self, node: Node) -> tuple[Document, ...] | None:
        """Read the documents that a span returned.

        Documents made of texts that it was given are left out: they are nothing that
        was found. So are those of a component that was told to write its documents.

        Returns:
            The documents. Empty if it searched and found nothing; None if it says
            nothing of documents.
        """
        if self._is_told_to_write(node):
            return None
        texts_taken = {as_one_line(text) for text in texts_in(node.input)}
        documents = tuple(
            document
            for document in written(documents_in(node.output))
            if as_one_line(document.text) not in texts_taken
        )
        if documents:
            return documents
        gives_empty_list = any(
            value == () and "document" in name for name, value in node.sockets.items()
        )
        # a tool whose function searched and returned a bare list
        is_empty_result = node.operation == AGENT_TOOL and node.output == ()
        has_ended = node.output is not None
        gave_no_documents = _for_documents(node.gives) and has_ended
        if gives_empty_list or is_empty_result or gave_no_documents:
            return ()
        return None

    def _is_told_to_write(self, node: Node) -> bool:
        """Whether a component was told by a prompt to write what it returns.

        It was given no documents: a model wrote its documents, such as imagined pages.
        """
        if node.operation != COMPONENT or not isinstance(node.input.get("prompt"), str):
            return False
        # what the user gives under this name is a question to a retriever
        if not (node.takes.get("prompt") or {}).get("senders"):
            return False
        return not any(documents_in(node.input)) and not _for_documents(node.takes)

    def _documents_of(self, value: object) -> tuple[Document, ...]:
        """Documents in a value that a socket was given, or behind it.

        Behind a list of texts stand the documents that it was made of: components pass
        on bare texts of documents, or windows around them.
        """
        listed = (
            self._documents_by_texts.get(value, ())
            if isinstance(value, tuple) and _is_texts(value)
            else ()
        )
        return listed or written(documents_in(value))

    @cached_property
    def _documents_by_texts(self) -> dict[tuple[str, ...], tuple[Document, ...]]:
        """The documents behind each list of texts that a component gave.

        A component may give bare texts of documents, or windows around them. A list of
        texts counts if its component took documents, or if the name of the output says
        that it is evidence. Components that call a model are left out. Where each text
        holds the text of the document at its place, these documents stand behind the
        list; else the texts become documents.
        """
        documents_by_texts: dict[tuple[str, ...], tuple[Document, ...]] = {}
        for node in self.run.components():
            if any(self.is_model(span) for span in (node, *self.inside[node])):
                continue
            documents_taken = written(documents_in(node.input))
            for name, texts in node.sockets.items():
                if not isinstance(texts, tuple) or not _is_texts(texts):
                    continue
                if not documents_taken and not _EVIDENCE.search(name):
                    continue
                documents_by_texts[texts] = _documents_behind(texts, documents_taken)
        return documents_by_texts

    def _query_of(self, node: Node, steps: int = 3) -> str | None:
        """The text that a component was asked; None if it was asked none.

        Where it was given an embedding, it is the text that was embedded.
        """
        for name in _ASKED:
            if texts := list(texts_in(node.input.get(name))):
                return texts[0] if len(texts) == 1 else compact({name: texts})
        embedders = self._fed_by(node, "embedding") if steps else []
        return next(
            (
                self._query_of(embedder, steps - 1)
                for embedder in embedders
                if embedder.closed
            ),
            None,
        )

    @cached_property
    def inside(self) -> Mapping[Node, list[Node]]:
        """Spans inside each span."""
        spans_inside = defaultdict[Node, list[Node]](list)
        for node in self.run.nodes:
            for outer in node.ancestors if node.operation in _CALLS else ():
                spans_inside[outer].append(node)
        return spans_inside

    def is_model(self, node: Node) -> bool:
        """True if a span called a chat model itself.

        It takes a prompt and gives replies, and no such span stands inside it.
        """
        if node.operation == AGENT_LLM:
            return True
        speaks = "replies" in (node.gives or node.sockets)
        return (
            node.operation == COMPONENT
            and speaks
            and bool(prompt(node))
            and not self.inside[node]
        )

    def retrieves(self, node: Node) -> bool:
        """Whether a component searched: it gives documents and was given none.

        Where no document passed, the types of its inputs and outputs tell what it is
        for. A component around one that searched does not count, nor does one that was
        told to write its documents.
        """
        if node.operation != COMPONENT or self._is_told_to_write(node):
            return False
        if any(self.retrieves(span) for span in self.inside[node]):
            return False
        takes_documents = any(documents_in(node.input)) or _for_documents(node.takes)
        if takes_documents:
            return False
        if self._documents_returned(node):
            return True
        # one that found nothing has an output for documents with none in it
        return _for_documents(node.gives) and not any(documents_in(node.sockets))

    @property
    def models(self) -> list[Node]:
        """Spans that called a model, in the order in which they ended.

        Those still open come last.
        """
        models = [node for node in self.run.nodes if self.is_model(node)]
        return sorted(
            models, key=lambda node: (not node.closed, node.closed, node.opened)
        )

    def flow(
        self, node: Node, steps: int = 12
    ) -> tuple[tuple[Document, ...] | None, str]:
        """Find the documents that flowed into a call.

        They stand in the inputs of the call itself; if none stand there, in those of
        the components that fed it, and so on backwards.

        Args:
            node: The span of the call.
            steps: How many times it goes back to the components before.

        Returns:
            The documents, each once, and the names of the inputs that hold them. None
            and an empty text if no input holds any.
        """
        sockets: list[tuple[str, tuple[Document, ...]]] = []
        spans = [node]
        for _ in range(steps + 1):
            for span in spans:
                sockets += self._document_sockets(span)
            if sockets:
                break
            feeding_spans = dict.fromkeys(
                feeding for span in spans for feeding in self._fed_by(span)
            )
            spans = list(feeding_spans)
        if not sockets:
            return None, ""
        document_by_key = {}
        for _, documents in sockets:
            for document in documents:
                document_by_key[document.key] = document
        names = ", ".join(name for name, _ in sockets)
        return tuple(document_by_key.values()), names

    def _fed_by(self, node: Node, socket: str = "") -> list[Node]:
        """Find the spans of the components that feed a call.

        Of a component that ran several times the last run before the call counts. If no
        component feeds the call, the component around the call does.

        Args:
            node: The span of the call.
            socket: Only inputs whose name holds this count; empty for all.

        Returns:
            The spans; empty if there is no component around the call, either.
        """
        names_of_senders: set[str] = set()
        for name, description in node.takes.items():
            if socket in name:
                names_of_senders.update(description.get("senders") or ())
        last_run_by_name = {}
        for component in self.run.components():
            is_beside = component.parent is node.parent
            # a component that is still open has 0 as its end
            has_ended_before = 0 < component.closed < node.opened
            if is_beside and has_ended_before and component.name in names_of_senders:
                last_run_by_name[component.name] = component
        if last_run_by_name:
            return list(last_run_by_name.values())
        for ancestor in node.ancestors:
            if ancestor.operation == COMPONENT:
                return [ancestor]
        return []

    def _document_sockets(self, node: Node) -> list[tuple[str, tuple[Document, ...]]]:
        """Find the inputs of a component that hold lists of documents.

        An empty list counts if the input is one for documents, by its name or type.

        Returns:
            For each such input its path and the documents.
        """
        sockets = []
        for name, value in node.input.items():
            documents = self._documents_of(value)
            description = f"{name} {node.takes.get(name)}".lower()
            is_empty_list = value == () and "document" in description
            if documents or is_empty_list:
                sockets.append((f"{node.path}.{name}", documents))
        return sockets


def _documents_behind(
    texts: tuple[str, ...], documents: tuple[Document, ...]
) -> tuple[Document, ...]:
    """The documents of which texts were made, each with its text as another form.

    A text was made of the document at the same place where it holds the document's
    text. If that is not so at every place, the texts themselves become documents.
    """
    pairs = []
    if len(documents) == len(texts):
        pairs = list(zip(documents, texts, strict=True))
    holds_each = all(document.text.strip() in text for document, text in pairs)
    if pairs and holds_each:
        return written(replace(document, forms=(text,)) for document, text in pairs)
    return written(Document(text) for text in texts)


def _fill_model(call: Call, node: Node) -> None:
    """What a model was shown, and what it replied first."""
    call.prompt = prompt(node)
    messages = replies(node)
    if messages:
        call.reply = _with_ids(messages[0], node)
        call.model = messages[0].model
        add_provider_evidence(call, messages[0].found)


def _for_documents(sockets: Mapping[str, Any]) -> bool:
    """True if a socket is for documents."""
    return any("Document" in str(socket.get("type")) for socket in sockets.values())


def _is_texts(value: tuple[Any, ...]) -> bool:
    return bool(value) and all(isinstance(text, str) for text in value)


def written(documents: Iterable[Document]) -> tuple[Document, ...]:
    """Documents that hold a text."""
    return tuple(document for document in documents if document.text.strip())


def _with_ids(reply: Said, node: Node) -> Said:
    """A reply whose calls of tools have ids, by which their order is told."""
    calls = (
        replace(call, id=call.id or f"{node.opened}.{place}")
        for place, call in enumerate(reply.tool_calls)
    )
    return replace(reply, tool_calls=tuple(calls))


def _one_text(arguments: Mapping[str, Any]) -> str:
    """The one text argument of a tool, else all of them as JSON."""
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return compact(arguments)


def _results_after_the_last_reply(messages: Sequence[Message]) -> list[Message]:
    """The results of tools behind the model's last reply, each with the call that it answers."""
    places_of_replies = [
        place for place, message in enumerate(messages) if message.role == "assistant"
    ]
    start = places_of_replies[-1] + 1 if places_of_replies else 0
    return [
        message
        for message in messages[start:]
        if message.role == "tool" and message.tool_calls
    ]


def _has_failed(node: Node, message: Message | None) -> bool:
    """Whether a tool failed, by its span or by the message that tells its result."""
    if node.failed or (isinstance(message, Said) and message.failed):
        return True
    # before Haystack 3.4 the span says no more
    return message is None and set(node.sockets) == {"error"}


def _note_failure(call: Call, node: Node) -> None:
    """A tool that failed tells its error, and no text or document is evidence."""
    error_text = call.text or next(texts_in(node.sockets.get("error")), None)
    call.error = error_text or "the tool failed"
    call.text = None
    call.documents = None


def _candidate_of_span(
    node: Node,
    siblings: Sequence[Node],
    candidates_by_call: Sequence[tuple[ToolCall, T]],
) -> list[T]:
    """Choose the candidate of that tool call which a span ran.

    In one step of an agent the model may call several tools, and each call is run by a
    span. The call that a span ran has the span's name and arguments; if no call has
    both, it has the span's name. Several calls may be alike, and as many spans: then
    the first span ran the first of these calls, and so on.

    Args:
        node: The span of the tool.
        siblings: The spans of all tools of the same step, in their order.
        candidates_by_call: The calls of the model in that step, each with a candidate.

    Returns:
        The candidate of the span's call; empty if that is not known.
    """
    of_same_name = []
    of_same_arguments = []
    for call, candidate in candidates_by_call:
        if call.name == node.name:
            of_same_name.append(candidate)
            if call.arguments == node.input:
                of_same_arguments.append(candidate)
    matching_candidates = of_same_arguments or of_same_name
    compares_arguments = bool(of_same_arguments)
    like_spans = []  # those with which the span shares these candidates
    for sibling in siblings:
        has_same_arguments = sibling.input == node.input
        is_alike = has_same_arguments or not compares_arguments
        if sibling.name == node.name and is_alike:
            like_spans.append(sibling)
    index = like_spans.index(node)
    return matching_candidates[index : index + 1]  # empty if there are fewer


def prompt(node: Node) -> tuple[Message, ...]:
    """The messages that a call was shown; blank ones that call no tool are left out.

    A prompt that is a text is a message of the user. What a model's provider found
    while it wrote a message is shown again with that message.
    """
    values: list[Any] = []
    for name in ("messages", "prompt"):
        value = node.input.get(name)
        values += value if isinstance(value, tuple) else (value,)
    messages: list[Message] = []
    for value in values:
        if not value:
            continue
        message = value if isinstance(value, Message) else Message("user", value)
        messages.append(message)
        found_with_it = _found_with(message)
        if found_with_it is not None:
            messages.append(found_with_it)
    return tuple(
        message for message in messages if message.text.strip() or message.tool_calls
    )


def _found_with(message: Message) -> Message | None:
    """What a provider found while a model wrote a message: it is shown again with it."""
    return message.found.message if isinstance(message, Said) else None


def replies(node: Node) -> tuple[Said, ...]:
    """What a call returned, as messages of the assistant."""
    value = node.sockets.get("replies")
    listed = value if isinstance(value, tuple) else (value,)
    messages = (
        Said("assistant", message) if isinstance(message, str) else message
        for message in listed
    )
    return tuple(message for message in messages if isinstance(message, Said))
