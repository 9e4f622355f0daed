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
    compact,
    documents_in,
    one_line,
    texts_in,
)
from ragmetrics_core.capture import Node as Call

_CALLS = (COMPONENT, AGENT_LLM, AGENT_TOOL)
_EVIDENCE = re.compile(r"document|context|passage|chunk|window|snippet")
T = TypeVar("T")
_ASKED = ("query", "text", "queries", "question")


class Calls:
    """The calls of a run: ``root`` is the outermost, with all others inside; ``of`` gives that of a span."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.of: dict[Node, Call] = {}
        for node in run.nodes:
            self.of[node] = self._call(node)
        self.root = self.of[run.root]

    def _call(self, node: Node) -> Call:
        """The call of a span; a nested pipeline or agent is one with the component or tool around it."""
        parent = self.of[node.parent] if node.parent is not None else None
        if parent is not None and node.operation not in _CALLS:
            return self._of_agent(parent, node) if node.operation == AGENT else parent
        made = Call(
            self._kind(node), node.path or "run", node.opened, node.closed or None
        )
        made.taken = tuple(
            one for value in node.input.values() for one in self._documents_of(value)
        )
        if node is not self.run.root:
            made.documents = self._documents(node)
            made.error = node.error or ("no output" if node.output is None else None)
        if made.kind == "model":
            made.prompt = prompt(node)
            said = replies(node)
            made.reply, made.model = (
                (_with_ids(said[0], node), said[0].model) if said else (None, None)
            )
        elif node.operation == AGENT_TOOL:
            self._tool(made, node)
        elif node is not self.run.root:
            made.query = self._asked(node)
            made.text = next(texts_in(node.sockets.get("last_message")), None)
        if parent is not None:
            parent.children.append(made)
        return made

    def _of_agent(self, around: Call, node: Node) -> Call:
        """The call of an agent: that of its component, named as that is, or one inside the tool that it is."""
        made = (
            around
            if around.kind != "tool"
            else Call("agent", around.name, node.opened, node.closed or None)
        )
        around.children += [made] if made is not around else []
        made.agent = (
            around.name
            if sum(one.operation == AGENT for one in self.run.nodes) > 1
            else None
        )
        return made

    def _kind(self, node: Node) -> Any:
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

    def _tool(self, made: Call, node: Node) -> None:
        """What a tool was asked in fact, which call of the model it answers, and its result as the model saw it."""
        made.name = node.name
        made.query = _one_text(node.input)
        beside = [
            other
            for other in self.run.nodes
            if other.operation == AGENT_TOOL and other.parent is node.parent
        ]
        asked = [(call, call) for call in self._calls_of_step(node)]
        answered = _ran(node, beside, asked)
        made.call = answered[0].id if answered else None
        reader = self._next_model(node)
        results = _results_after_the_last_reply(
            () if reader is None else prompt(reader)
        )
        messages = _ran(node, beside, [(result.calls[0], result) for result in results])
        message = messages[0] if messages else None
        if message is not None:
            made.text = message.text
        elif isinstance(node.output, str):
            made.text = node.output
        if _has_failed(node, message):
            said = made.text or next(texts_in(node.sockets.get("error")), None)
            made.error = said or "the tool failed"
            made.text, made.documents = None, None
        hands_the_answer_in = reader is None and node.ends_agent and not made.documents
        # the one argument of Haystack's own tool that looks for tools
        looks_for_tools = "tool_keywords" in node.input
        made.control = hands_the_answer_in or looks_for_tools

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
        found = defaultdict[Node | None, list[Node]](list)
        for node in self.run.nodes:
            if node.operation == AGENT_LLM:
                found[node.agent].append(node)
        return found

    def _documents(self, node: Node) -> tuple[Document, ...] | None:
        """Documents that a span returned and did not make of its own texts.

        None where it returns none.
        """
        given = set(map(one_line, texts_in(node.input)))
        found = tuple(
            one
            for one in written(documents_in(node.output))
            if one_line(one.text) not in given
        )
        empty = any(
            value == () and "document" in name for name, value in node.sockets.items()
        )
        # a function that searched and returns a bare list
        empty |= node.operation == AGENT_TOOL and node.output == ()
        return (
            found
            if found
            or empty
            or (_for_documents(node.gives) and node.output is not None)
            else None
        )

    def _documents_of(self, value: object) -> tuple[Document, ...]:
        """Documents in what a socket was given, or behind it: windows around documents, their bare texts."""
        listed = (
            self._listed.get(value, ())
            if isinstance(value, tuple) and _is_texts(value)
            else ()
        )
        return listed or written(documents_in(value))

    @cached_property
    def _listed(self) -> dict[tuple[str, ...], tuple[Document, ...]]:
        """Lists of texts that components made of documents or gave in a socket named for such, as documents."""
        found: dict[tuple[str, ...], tuple[Document, ...]] = {}
        for node in self.run.components():
            given = written(documents_in(node.input))
            lists = (
                ()
                if any(map(self.is_model, (node, *self.inside[node])))
                else node.sockets.items()
            )
            for name, texts in lists:
                if (
                    isinstance(texts, tuple)
                    and _is_texts(texts)
                    and (given or _EVIDENCE.search(name))
                ):
                    pairs = (
                        [*zip(given, texts, strict=False)]
                        if len(given) == len(texts)
                        else []
                    )
                    around = pairs and all(
                        one.text.strip() in text for one, text in pairs
                    )
                    made = (
                        (replace(one, forms=(text,)) for one, text in pairs)
                        if around
                        else map(Document, texts)
                    )
                    found[texts] = written(made)
        return found

    def _asked(self, node: Node, steps: int = 3) -> str | None:
        """The text that a component was asked.

        Where it was given an embedding, what was embedded.
        """
        for name in _ASKED:
            if texts := list(texts_in(node.input.get(name))):
                return texts[0] if len(texts) == 1 else compact({name: texts})
        embedders = self._fed_by(node, "embedding") if steps else []
        return next(
            (self._asked(one, steps - 1) for one in embedders if one.closed), None
        )

    @cached_property
    def inside(self) -> Mapping[Node, list[Node]]:
        """Spans inside each span."""
        found = defaultdict[Node, list[Node]](list)
        for node in self.run.nodes:
            for outer in node.ancestors if node.operation in _CALLS else ():
                found[outer].append(node)
        return found

    def is_model(self, node: Node) -> bool:
        """True if a span called a chat model itself: a prompt in, replies out, and no such span inside it."""
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
        """True for a component that makes documents out of none, unless one inside it does."""
        if node.operation != COMPONENT or any(
            self.retrieves(inner) for inner in self.inside[node]
        ):
            return False
        given = any(documents_in(node.input)) or _for_documents(node.takes)
        found = bool(self._documents(node)) or (
            _for_documents(node.gives) and not any(documents_in(node.sockets))
        )
        return not given and found

    @property
    def models(self) -> list[Node]:
        """Spans that called a model, in the order in which they ended.

        Those still open come last.
        """
        found = [node for node in self.run.nodes if self.is_model(node)]
        return sorted(
            found, key=lambda node: (not node.closed, node.closed, node.opened)
        )

    def flow(
        self, node: Node, steps: int = 12
    ) -> tuple[tuple[Document, ...] | None, str]:
        """Documents in the sockets of a call, else of what fed it, and so on; None without such a socket; and these."""
        own: list[tuple[str, tuple[Document, ...]]] = []
        frontier = [node]
        for _ in range(steps + 1):
            own = own or [socket for one in frontier for socket in self._sockets(one)]
            frontier = list(
                dict.fromkeys(
                    before for one in frontier for before in self._fed_by(one)
                )
            )
        once = {
            document.key: document for _, documents in own for document in documents
        }
        return (tuple(once.values()) if own else None), ", ".join(
            place for place, _ in own
        )

    def _fed_by(self, node: Node, socket: str = "") -> list[Node]:
        """The latest visits of the components that feed a call.

        The component around it where none does.
        """
        names = {
            sender
            for name, one in node.takes.items()
            if socket in name
            for sender in one.get("senders") or ()
        }
        before = (
            one
            for one in self.run.components()
            if one.parent is node.parent and 0 < one.closed < node.opened
        )
        visits = {one.name: one for one in before if one.name in names}
        return [*visits.values()] or [
            one for one in node.ancestors if one.operation == COMPONENT
        ][:1]

    def _sockets(self, node: Node) -> list[tuple[str, tuple[Document, ...]]]:
        """Input sockets of a component that hold lists of documents, empty ones among them."""
        found = [
            (name, value == (), self._documents_of(value))
            for name, value in node.input.items()
        ]
        empty = {
            name
            for name, none, _ in found
            if none and "document" in f"{name} {node.takes.get(name)}".lower()
        }
        return [
            (f"{node.path}.{name}", documents)
            for name, _, documents in found
            if documents or name in empty
        ]


def _for_documents(sockets: Mapping[str, Any]) -> bool:
    """True if a socket is for documents."""
    return any("Document" in str(socket.get("type")) for socket in sockets.values())


def _is_texts(value: tuple[Any, ...]) -> bool:
    return bool(value) and all(isinstance(item, str) for item in value)


def written(documents: Iterable[Document]) -> tuple[Document, ...]:
    """Documents that hold a text."""
    return tuple(one for one in documents if one.text.strip())


def _with_ids(reply: Said, node: Node) -> Said:
    """A reply whose calls of tools have ids, by which their order is told."""
    named = (
        replace(one, id=one.id or f"{node.opened}.{place}")
        for place, one in enumerate(reply.calls)
    )
    return replace(reply, calls=tuple(named))


def _one_text(arguments: Mapping[str, Any]) -> str:
    """The one text argument of a tool, else all of them as JSON."""
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return compact(arguments)


def _results_after_the_last_reply(messages: Sequence[Message]) -> list[Message]:
    """Results of tools behind what the model said last, each with the call that it answers."""
    replies = [
        place for place, message in enumerate(messages) if message.role == "assistant"
    ]
    start = replies[-1] + 1 if replies else 0
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


def _ran(
    node: Node, beside: Sequence[Node], calls: Sequence[tuple[ToolCall, T]]
) -> list[T]:
    """What belongs to the call that a span ran: of those with its arguments, else of its name, the one in its place."""
    named = [(call, one) for call, one in calls if call.name == node.name]
    exact = [one for call, one in named if call.arguments == node.input]
    same = [
        one
        for one in beside
        if one.name == node.name and (not exact or one.input == node.input)
    ]
    return (exact or [one for _, one in named])[same.index(node) :][:1]


def prompt(node: Node) -> tuple[Message, ...]:
    """The messages that a call was shown."""
    parts = (node.input.get(name) for name in ("messages", "prompt"))
    given = [
        item
        for part in parts
        for item in (part if isinstance(part, tuple) else (part,))
    ]
    said = (
        one if isinstance(one, Message) else Message("user", one)
        for one in given
        if one
    )
    return tuple(one for one in said if one.text.strip() or one.calls)


def replies(node: Node) -> tuple[Said, ...]:
    """What a call returned, as messages of the assistant."""
    value = node.sockets.get("replies")
    given = value if isinstance(value, tuple) else (value,)
    found = (Said("assistant", one) if isinstance(one, str) else one for one in given)
    return tuple(one for one in found if isinstance(one, Said))
