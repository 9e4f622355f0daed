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
            self.of[node] = self._call(node)
        self.root = self.of[run.root]

    def _call(self, node: Node) -> Call:
        """Make the call of a span, with all that was recorded of it.

        A nested pipeline or agent shares the call of the component or tool around it.
        """
        parent = self.of[node.parent] if node.parent is not None else None
        if parent is not None and node.operation not in _CALLS:
            return self._of_agent(parent, node) if node.operation == AGENT else parent
        call = Call(
            self._kind(node), node.path or "run", node.opened, node.closed or None
        )
        call.taken = tuple(
            document
            for value in node.input.values()
            for document in self._documents_of(value)
        )
        if node is not self.run.root:
            call.documents = self._documents(node)
            call.error = node.error or ("no output" if node.output is None else None)
        if call.kind == "model":
            _fill_model(call, node)
        elif node.operation == AGENT_TOOL:
            self._tool(call, node)
        elif node is not self.run.root:
            call.query = self._asked(node)
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

    def _kind(self, node: Node) -> Any:
        """What kind of call a span of Haystack is.

        A component that runs models inside is an agent. One that takes documents and
        gives documents, and runs nothing inside, is a reranker.
        """
        if node is self.run.root:
            return "agent"
        if node.operation == AGENT_TOOL:
            return "tool"
        if self.is_model(node):
            return "model"
        if ".evaluators." in node.type:
            return "ignored"
        inside = self.inside[node]
        if any(
            inner.operation == AGENT_LLM or "replies" in inner.sockets
            for inner in inside
        ):
            return "agent"
        if (
            any(documents_in(node.input))
            and any(documents_in(node.sockets))
            and not inside
        ):
            return "reranker"
        return "retriever" if self.retrieves(node) else "step"

    def _tool(self, call: Call, node: Node) -> None:
        """Fill the call of a tool.

        It holds what the tool was asked, which call of the model it answers, and its
        result as the model saw it.
        """
        call.name = node.name
        call.query = _one_text(node.input)
        tools_of_step = [
            sibling
            for sibling in self.run.nodes
            if sibling.operation == AGENT_TOOL and sibling.parent is node.parent
        ]
        called = [(tool_call, tool_call) for tool_call in self._calls_of_step(node)]
        calls_answered = _ran(node, tools_of_step, called)
        call.call = calls_answered[0].id if calls_answered else None
        reader = self._next_model(node)
        results = _results_after_the_last_reply(
            () if reader is None else prompt(reader)
        )
        messages = _ran(
            node, tools_of_step, [(result.calls[0], result) for result in results]
        )
        message = messages[0] if messages else None
        if message is not None:
            call.text = message.text
        elif isinstance(node.output, str):
            call.text = node.output
        if _has_failed(node, message):
            _note_failure(call, node)
        hands_the_answer_in = reader is None and node.ends_agent and not call.documents
        # the one argument of Haystack's own tool that looks for tools
        looks_for_tools = "tool_keywords" in node.input
        call.control = hands_the_answer_in or looks_for_tools

    def _calls_of_step(self, node: Node) -> list[ToolCall]:
        """The tools that the model called in the step of an agent in which a tool ran."""
        replies = [
            self.of[model].reply
            for model in self._models_of[node.agent]
            if model.parent is node.parent
        ]
        return [call for reply in replies if reply is not None for call in reply.calls]

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

    def _documents(self, node: Node) -> tuple[Document, ...] | None:
        """The documents that a span returned; None where it says nothing of documents.

        Those made of texts that it was given are left out. Empty for a search that
        found nothing. None also for a component that was told to write its documents.
        """
        if self._is_told_to_write(node):
            return None
        given_texts = set(map(as_one_line, texts_in(node.input)))
        documents = tuple(
            document
            for document in written(documents_in(node.output))
            if as_one_line(document.text) not in given_texts
        )
        is_empty = any(
            value == () and "document" in name for name, value in node.sockets.items()
        )
        # a function that searched and returns a bare list
        is_empty |= node.operation == AGENT_TOOL and node.output == ()
        return (
            documents
            if documents
            or is_empty
            or (_for_documents(node.gives) and node.output is not None)
            else None
        )

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
            self._listed.get(value, ())
            if isinstance(value, tuple) and _is_texts(value)
            else ()
        )
        return listed or written(documents_in(value))

    @cached_property
    def _listed(self) -> dict[tuple[str, ...], tuple[Document, ...]]:
        """The documents behind each list of texts that a component gave.

        Such a list was made of documents, or stands in a socket named for evidence.
        """
        documents_of_texts: dict[tuple[str, ...], tuple[Document, ...]] = {}
        for node in self.run.components():
            given_documents = written(documents_in(node.input))
            lists = (
                ()
                if any(map(self.is_model, (node, *self.inside[node])))
                else node.sockets.items()
            )
            for name, texts in lists:
                if (
                    isinstance(texts, tuple)
                    and _is_texts(texts)
                    and (given_documents or _EVIDENCE.search(name))
                ):
                    pairs = (
                        [*zip(given_documents, texts, strict=False)]
                        if len(given_documents) == len(texts)
                        else []
                    )
                    around = pairs and all(
                        document.text.strip() in text for document, text in pairs
                    )
                    documents = (
                        (replace(document, forms=(text,)) for document, text in pairs)
                        if around
                        else map(Document, texts)
                    )
                    documents_of_texts[texts] = written(documents)
        return documents_of_texts

    def _asked(self, node: Node, steps: int = 3) -> str | None:
        """The text that a component was asked; None if it was asked none.

        Where it was given an embedding, it is the text that was embedded.
        """
        for name in _ASKED:
            if texts := list(texts_in(node.input.get(name))):
                return texts[0] if len(texts) == 1 else compact({name: texts})
        embedders = self._fed_by(node, "embedding") if steps else []
        return next(
            (
                self._asked(embedder, steps - 1)
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
        """True for a component that gives documents and was given none.

        A component around such a component does not count.
        """
        if node.operation != COMPONENT or any(
            self.retrieves(inner) for inner in self.inside[node]
        ):
            return False
        if self._is_told_to_write(node):
            return False
        takes_documents = any(documents_in(node.input)) or _for_documents(node.takes)
        gives_documents = bool(self._documents(node)) or (
            _for_documents(node.gives) and not any(documents_in(node.sockets))
        )
        return not takes_documents and gives_documents

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
        """The documents that flowed into a call, and the sockets in which they stood.

        They stand in the sockets of the call itself, else in those of the components
        that fed it, and so on. The documents are None where no socket holds any.
        """
        sockets: list[tuple[str, tuple[Document, ...]]] = []
        frontier = [node]
        for _ in range(steps + 1):
            sockets = sockets or [
                socket for fed in frontier for socket in self._sockets(fed)
            ]
            frontier = list(
                dict.fromkeys(
                    before for fed in frontier for before in self._fed_by(fed)
                )
            )
        document_by_key = {
            document.key: document for _, documents in sockets for document in documents
        }
        return (tuple(document_by_key.values()) if sockets else None), ", ".join(
            place for place, _ in sockets
        )

    def _fed_by(self, node: Node, socket: str = "") -> list[Node]:
        """The latest visits of the components that feed a call.

        If none does, it is the component around the call; empty if there is none
        either.
        """
        senders = {
            sender
            for name, described in node.takes.items()
            if socket in name
            for sender in described.get("senders") or ()
        }
        before = (
            visit
            for visit in self.run.components()
            if visit.parent is node.parent and 0 < visit.closed < node.opened
        )
        visits = {visit.name: visit for visit in before if visit.name in senders}
        return [*visits.values()] or [
            ancestor for ancestor in node.ancestors if ancestor.operation == COMPONENT
        ][:1]

    def _sockets(self, node: Node) -> list[tuple[str, tuple[Document, ...]]]:
        """Input sockets of a component that hold lists of documents, empty ones among them."""
        socket_values = [
            (name, value == (), self._documents_of(value))
            for name, value in node.input.items()
        ]
        empty = {
            name
            for name, none, _ in socket_values
            if none and "document" in f"{name} {node.takes.get(name)}".lower()
        }
        return [
            (f"{node.path}.{name}", documents)
            for name, _, documents in socket_values
            if documents or name in empty
        ]


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
        for place, call in enumerate(reply.calls)
    )
    return replace(reply, calls=tuple(calls))


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
        if message.role == "tool" and message.calls
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


def _ran(
    node: Node, siblings: Sequence[Node], calls: Sequence[tuple[ToolCall, T]]
) -> list[T]:
    """What belongs to the call of a tool that a span ran; nothing if that is not known.

    Args:
        node: The span of the tool.
        siblings: The spans of all tools of the same step.
        calls: The calls of the model in that step, each with what belongs to it.

    Among the calls with the span's arguments, else those with its name, it is the one at
    the span's place among its like.
    """
    named = [(call, candidate) for call, candidate in calls if call.name == node.name]
    exact = [candidate for call, candidate in named if call.arguments == node.input]
    like_this_call = [
        sibling
        for sibling in siblings
        if sibling.name == node.name and (not exact or sibling.input == node.input)
    ]
    return (exact or [candidate for _, candidate in named])[
        like_this_call.index(node) :
    ][:1]


def prompt(node: Node) -> tuple[Message, ...]:
    """The messages that a call was shown."""
    parts = (node.input.get(name) for name in ("messages", "prompt"))
    parts_shown = [
        message
        for value in parts
        for message in (value if isinstance(value, tuple) else (value,))
    ]
    messages = (
        message if isinstance(message, Message) else Message("user", message)
        for message in parts_shown
        if message
    )
    return tuple(
        shown
        for message in messages
        for shown in (message, _found_with(message))
        if shown is not None and (shown.text.strip() or shown.calls)
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
