"""From the spans of a run to the core's tree of calls: what each component, agent step and tool is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from haystack_integrations.tracing.ragmetrics.nodes import AGENT, AGENT_LLM, AGENT_TOOL, COMPONENT, Node, Run, Said

from ragmetrics_core.capturing import Document, Message, compact, documents_in, one_line, texts_in
from ragmetrics_core.capturing import Node as Call

_CALLS = (COMPONENT, AGENT_LLM, AGENT_TOOL)
_STEPS = 12
_EVIDENCE = re.compile(r"document|context|passage|chunk|window|snippet")
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
            return parent
        made = Call(self._kind(node), node.path or node.type or "run", node.opened, node.closed or None)
        made.taken = tuple(one for value in node.input.values() for one in self._documents_of(value))
        if node is not self.run.root:
            made.documents, made.error = self._documents(node), "no output" if node.output is None else None
        if made.kind == "model":
            made.prompt = prompt(node)
            said = replies(node)
            made.reply, made.model = (said[0], said[0].model) if said else (None, None)
        elif node.operation == AGENT_TOOL:
            self._tool(made, node)
        elif node is not self.run.root:
            made.query = asked(node.input)
            made.text = next(texts_in(node.sockets.get("last_message")), None)
        if parent is not None:
            parent.children.append(made)
        return made

    def _kind(self, node: Node) -> Any:
        if node is self.run.root:
            return "agent"
        if node.operation == AGENT_TOOL:
            return "tool"
        if self.is_model(node):
            return "model"
        if ".evaluators." in str(node.tags.get("haystack.component.fully_qualified_type")):
            return "ignored"
        inside = self.inside(node)
        if any(inner.operation == AGENT_LLM or "replies" in inner.sockets for inner in inside):
            return "agent"
        if any(documents_in(node.input)) and any(documents_in(node.sockets)) and not inside:
            return "reranker"
        return "retriever" if self.retrieves(node) else "step"

    def _tool(self, made: Call, node: Node) -> None:
        """What a tool was asked, and its result as the model sees it."""
        arguments = node.input
        made.name = node.name
        one = next(iter(arguments.values()), None) if len(arguments) == 1 else None
        made.query = one if isinstance(one, str) else compact(arguments)
        shown = (one for later in self.run.nodes if later.operation == AGENT_LLM for one in prompt(later))
        for message in shown:
            if message.role == "tool" and (node.name, arguments) in [
                (one.name, one.arguments) for one in message.calls
            ]:
                made.text, made.call = message.text, message.calls[0].id
                node.failed = node.failed or (isinstance(message, Said) and message.failed)
        if node.failed:
            made.error, made.text = made.text or "the tool failed", None
            made.documents = None

    def _documents(self, node: Node) -> tuple[Document, ...] | None:
        """Documents that a span returned and did not make of its own texts; None where it returns none."""
        given = set(map(one_line, texts_in(node.input)))
        found = tuple(one for one in written(documents_in(node.output)) if one_line(one.text) not in given)
        return found if found or (emits_documents(node) and node.output is not None) else None

    def _documents_of(self, value: object) -> tuple[Document, ...]:
        """Documents in what a socket was given, or behind it: windows around documents, their bare texts."""
        listed = self._listed.get(value, ()) if isinstance(value, tuple) and _is_texts(value) else ()
        return listed or written(documents_in(value))

    @cached_property
    def _listed(self) -> dict[tuple[str, ...], tuple[Document, ...]]:
        """Lists of texts that components made of documents or gave in a socket named for such, as documents."""
        found: dict[tuple[str, ...], tuple[Document, ...]] = {}
        for node in self.run.components():
            given = written(documents_in(node.input))
            written_here = self.is_model(node) or any(map(self.is_model, self.inside(node)))
            for name, texts in node.sockets.items() if not written_here else ():
                if isinstance(texts, tuple) and _is_texts(texts) and (given or _EVIDENCE.search(name)):
                    around = len(given) == len(texts) and all(
                        map(lambda one, text: one.text.strip() in text, given, texts)
                    )
                    found[texts] = (
                        tuple(replace(one, forms=(text,)) for one, text in zip(given, texts, strict=True))
                        if around
                        else written(map(Document, texts))
                    )
        return found

    # What a span is

    @cached_property
    def _inside(self) -> dict[Node, list[Node]]:
        found: dict[Node, list[Node]] = {}
        for node in self.run.nodes:
            for outer in node.ancestors if node.operation in _CALLS else ():
                found.setdefault(outer, []).append(node)
        return found

    def inside(self, node: Node) -> list[Node]:
        """Spans inside a span."""
        return self._inside.get(node, [])

    def is_model(self, node: Node) -> bool:
        """True if a span called a chat model itself: a prompt in, replies out, and no such span inside it."""
        if node.operation == AGENT_LLM:
            return True
        speaks = "replies" in (node.tags.get("haystack.component.output_spec") or node.sockets)
        return node.operation == COMPONENT and speaks and bool(prompt(node)) and not self.inside(node)

    def retrieves(self, node: Node) -> bool:
        """True for a component that makes documents out of none, unless one inside it does."""
        if node.operation != COMPONENT or any(self.retrieves(inner) for inner in self.inside(node)):
            return False
        spec = node.tags.get("haystack.component.input_spec") or {}
        given = any(documents_in(node.input)) or any("Document" in str(socket.get("type")) for socket in spec.values())
        found = bool(self._documents(node)) or (emits_documents(node) and not any(documents_in(node.sockets)))
        return not given and found

    @property
    def models(self) -> list[Node]:
        """Spans that called a model, in the order in which they ended; those still open come last."""
        found = [node for node in self.run.nodes if self.is_model(node)]
        return sorted(found, key=lambda node: (not node.closed, node.closed, node.opened))

    # The framework's own data flow

    def flow(self, node: Node, steps: int = _STEPS) -> tuple[tuple[Document, ...] | None, str]:
        """Documents in the sockets of what wrote a call's prompt, or of what wrote its texts; and the sockets.

        Returns:
            None if there is no such socket, () if it held no documents.
        """
        own = self._sockets(node)
        agent = next((outer for outer in node.ancestors if outer.operation == AGENT), None)
        shown = (*prompt(node), *prompt(agent or node))
        frontier = [(message.text, (agent or node).opened) for message in shown]
        for _ in range(steps):
            if own or not frontier:
                break
            makers = list(dict.fromkeys(maker for text, end in frontier if (maker := self._maker(text, end))))
            own = [socket for maker in makers for socket in self._sockets(maker)]
            frontier = [(text, maker.opened) for maker in makers for text in dict.fromkeys(texts_in(maker.input))]
        once = {document.key: document for _, documents in own for document in documents}
        return (tuple(once.values()) if own else None), ", ".join(place for place, _ in own)

    def _maker(self, text: str, before: int) -> Node | None:
        """The latest component that ended before a position and wrote a text; the innermost of nested ones."""
        wanted = one_line(text)
        ended = [node for node in self.run.nodes if node.operation in _CALLS and 0 < node.closed < before]
        wrote = [node for node in ended if wanted and wanted in map(one_line, texts_in(node.output))]
        innermost = (node for node in wrote if not any(other in self.inside(node) for other in wrote))
        return max(innermost, key=lambda node: node.closed, default=None)

    def _sockets(self, node: Node) -> list[tuple[str, tuple[Document, ...]]]:
        """Input sockets of a component that hold lists of documents, empty ones among them."""
        spec = node.tags.get("haystack.component.input_spec") or {}
        found = [(name, value, self._documents_of(value)) for name, value in node.input.items()]
        empty = {name for name, value, _ in found if value == () and "document" in f"{name} {spec.get(name)}".lower()}
        return [(f"{node.path}.{name}", documents) for name, _, documents in found if documents or name in empty]


def emits_documents(node: Node) -> bool:
    """True if an output socket is for documents."""
    spec = node.tags.get("haystack.component.output_spec") or {}
    return any("Document" in str(socket.get("type")) for socket in spec.values())


def _is_texts(value: tuple[Any, ...]) -> bool:
    return bool(value) and all(isinstance(item, str) for item in value)


def written(documents: Iterable[Document]) -> tuple[Document, ...]:
    """Documents that hold a text."""
    return tuple(one for one in documents if one.text.strip())


def asked(sockets: Mapping[str, Any]) -> str | None:
    """The text that a component was asked."""
    found = (list(texts_in(sockets.get(name))) for name in _ASKED)
    return next((texts[0] for texts in found if len(texts) == 1), None)


def prompt(node: Node) -> tuple[Message, ...]:
    """The messages that a call was shown."""
    parts = (node.input.get(name) for name in ("messages", "prompt"))
    given = [item for part in parts for item in (part if isinstance(part, tuple) else (part,))]
    said = (one if isinstance(one, Message) else Message("user", one) for one in given if one)
    return tuple(one for one in said if one.text.strip() or one.calls)


def replies(node: Node) -> tuple[Said, ...]:
    """What a call returned, as messages of the assistant."""
    value = node.sockets.get("replies")
    given = value if isinstance(value, tuple) else (value,)
    found = (Said("assistant", one) if isinstance(one, str) else one for one in given)
    return tuple(one for one in found if isinstance(one, Said))
