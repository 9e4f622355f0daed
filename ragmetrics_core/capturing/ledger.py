"""The evidence ledger of one turn: each call that brought something, in the order of the model's own calls. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ragmetrics_core.capturing.evidence import Calls, Key, text_of
from ragmetrics_core.capturing.locating import OWN, locate
from ragmetrics_core.capturing.reading import one_line, parsed, texts_in
from ragmetrics_core.capturing.tree import JOINED, Document, Node
from ragmetrics_core.data.sample import Context, EvidenceCall

_LAST = 1 << 30
_MOST_OF_IT = 0.5  # less may be the words that all summaries begin with
Kind = Literal["retrieval", "tool", "given", "written"]
Path = tuple[Node, ...]


@dataclass(frozen=True)
class Arrival:
    """One time that evidence arrived, whatever the answer was shown of it."""

    kind: Kind
    path: Path
    documents: tuple[Document, ...] = ()
    text: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Seen:
    """What one answer of the turn was shown.

    Args:
        contexts: Its contexts, by the keys of the documents behind them; by number where the user named them.
        prompts: The messages of the answering call and those that feed it; None if no call is known.
        known: Texts that stand there for another reason.
    """

    contexts: Mapping[Key, Context]
    prompts: Sequence[str] | None = None
    known: Sequence[str] = ()

    def stand(self, texts: Sequence[str]) -> list[bool]:
        """Which texts stand in the prompts, most of each, or among the contexts; equal ones alike."""
        own = {context.text for context in self.contexts.values()}
        asked = [text for text in dict.fromkeys(texts) if text not in own]
        places = locate(asked, self.prompts or (), known=[*self.known, *own]).places if asked else ()
        there = own.union(asked[one.candidate] for one in places if one.coverage >= _MOST_OF_IT)
        return [text in there for text in texts]

    def items(self, documents: Sequence[Document]) -> tuple[tuple[Context, ...], tuple[int, ...] | None]:
        """Documents as contexts, in the words that were shown of them, and the places of those shown."""
        contexts = list(self.contexts.values())
        texts = {one.text: one for one in reversed(contexts)}
        by_id = {one.id or "": one for one in reversed(contexts) if one.id}
        found = [self.contexts.get(one.key) or by_id.get(one.id or "") or texts.get(one.text) for one in documents]
        lost = [place for place, one in enumerate(found) if one is None]
        for place, there in zip(lost, locate([documents[at].text for at in lost], [*texts]).places, strict=True):
            if there.part is not None:  # a later step cut or rewrote it, and kept no id
                found[place] = [*texts.values()][there.part]
        items = tuple(one or document.context() for one, document in zip(found, documents, strict=True))
        shown = tuple(place for place, one in enumerate(found) if one is not None)
        return items, shown if shown or self.prompts is not None else None


class Arrivals:
    """All evidence that arrived in one turn.

    Args:
        calls: The calls of the turn.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._paths = list(_paths(calls.tree.root))
        made = [call.id for node in calls.nodes if node.reply is not None for call in node.reply.calls]
        self._rank = {name: place for place, name in reversed([*enumerate(made)])}
        outer = ("model", "retriever", "reranker")
        self._models = [
            path
            for path in self._paths
            if path[-1].kind == "model" and not path[-1].error and not any(one.kind in outer for one in path[:-1])
        ]
        self._agents = {_agent(path) for path in self._models}
        self._made = {id(node) for node in calls.nodes if node.kind == "tool" and _is_made_of_documents(node)}

    def told(self, seen: Seen, turn: int, answer: str | None, earlier: Sequence[EvidenceCall]) -> list[EvidenceCall]:
        """The calls of the ledger: those of earlier turns, and those of this one."""
        known = {item.text for call in earlier if call.kind == "written" for item in call.items}
        stand = iter(seen.stand([item.text for call in earlier for item in call.items]))
        told = []
        for call in earlier:
            places = tuple([place for place, there in zip(range(len(call.items)), stand, strict=False) if there])
            told.append(call.model_copy(update={"shown": None if seen.prompts is None else places}))
        found = [one for one in self.found if one.kind != "written" or one.text not in known]
        found = [one for one in found if one.kind != "written" or one_line(one.text) != one_line(answer)]
        there = seen.stand([one.text or "" for one in found])
        for one, stands in zip(found, there, strict=True):
            items, shown = seen.items(one.documents)
            if one.text is not None:
                items, shown = (Context(text=one.text),), None if seen.prompts is None else (0,) * stands
            told.append(self._call(one, turn, items, shown))
        return told

    def _call(self, one: Arrival, turn: int, items: tuple[Context, ...], shown: tuple[int, ...] | None) -> EvidenceCall:
        node, host = one.path[-1], next(reversed(_tools(one.path)), None)
        given = one.kind == "given"
        return EvidenceCall(
            kind=one.kind,
            turn=turn,
            step=0 if given else self._order(one.path)[0][0],
            name=None if given or host is None else host.name,
            query=None if given or node.kind == "model" else node.query,
            items=items,
            shown=shown,
            agent=_agent(one.path) if len(self._agents) > 1 else None,
            error=one.error,
        )

    @cached_property
    def found(self) -> list[Arrival]:
        """What arrived, in order: documents handed in first, then by step and the model's own order of its calls."""
        brought = sorted((one for path in self._paths for one in self._of(path)), key=lambda one: self._order(one.path))
        held = {key for one in brought for doc in one.documents for key in (doc.key, doc.text)}
        given = []
        root = self._calls.tree.root
        for top in root.children if root.name in JOINED else [root]:
            taken = [one for one in top.taken if one.author is None and not {one.key, one.text} & held]
            if taken and top.kind in ("step", "agent"):
                given.append(Arrival("given", (top,), tuple(taken)))
        return [*given, *brought]

    def _order(self, path: Path) -> list[tuple[int, int, str, float]]:
        """For each tool around a call, and the call: its step there, its place among the model's calls, its start."""
        found = []
        for at, node in enumerate(path):
            if node.kind == "tool" or at == len(path) - 1:
                around = _tools(path[:at])
                step = sum(one[-1].began < node.began for one in self._models if _tools(one) == around)
                branch = next((one.branch for one in reversed(path[: at + 1]) if one.branch), "")
                found.append((step, self._rank.get(node.call, _LAST), branch, node.began))
        return found

    def _of(self, path: Path) -> Iterator[Arrival]:
        """What one call brought by itself."""
        node, hosts = path[-1], _tools(path[:-1])
        if any(id(host) in self._made for host in hosts) or any(one.kind == "retriever" for one in path[:-1]):
            return
        if node.kind == "tool":
            yield from () if node.control or self._is_run_again(path) else self._of_tool(path)
        elif node.kind == "retriever" and (node.error or node.documents is not None):
            yield Arrival("retrieval", path, self._own(node.documents), error=node.error)
        elif node.kind == "agent" and len(path) > 1 and node.text and not _says(path[:-1], node.text):
            yield Arrival("written", path, text=node.text)
        elif node.kind == "model":
            held = {one.text: None for one in node.prompt if one.role == "summary"}
            first = {one.text for other in self._models if other[-1].began < node.began for one in other[-1].prompt}
            yield from (Arrival("written", path, text=text) for text in held if text not in first)
        elif node.documents and any(one.node is node for one in self._calls.retrievals):
            before = [one for one in self._calls.retrievals if one.node.began < node.began]
            known = {key for one in before for doc in one.documents for key in (doc.id or doc.key, doc.text)}
            fresh = tuple(one for one in node.documents if not {one.id or one.key, one.text} & known)
            yield from (Arrival("retrieval", path, self._own(fresh)),) * bool(fresh)

    def _own(self, documents: Sequence[Document] | None) -> tuple[Document, ...]:
        """Documents that no call of the run wrote."""
        return tuple(one for one in documents or () if one.author is None)

    def _of_tool(self, path: Path) -> Iterator[Arrival]:
        node = path[-1]
        text = node.text if (node.text or "").strip() else None
        inner = [one for one in node.walk() if one.kind == "retriever"]
        named = node.name in self._calls.tools
        if node.error:
            searched = named or bool(inner) or node.documents is not None
            yield Arrival("retrieval" if searched else "tool", path, error=node.error)
        elif id(node) in self._made:
            yield Arrival("retrieval", path, self._own(_documents(node)))
        elif node in self._calls.tool_texts:
            yield Arrival("retrieval", path, (Document(node.text or ""),))
        elif node.ended is not None:
            kind: Kind = "written" if _is_written(node) else "retrieval" if named and text is None else "tool"
            yield Arrival(kind, path, text=_repeats(node) or text)
            known = {one.text for some in [*node.walk()][1:] for one in some.documents or ()}
            fresh = tuple(one for one in self._own(node.documents) if one.text not in known)
            yield from (Arrival("retrieval", path, fresh),) * bool(fresh)

    def _is_run_again(self, path: Path) -> bool:
        """Whether a run that was resumed made the same call of a tool again."""
        later = (other for other in self._paths if other[0].name in JOINED and other[1:2] != path[1:2])
        same = (one[-1] for one in later if one[-1].kind == "tool" and one[-1].call == path[-1].call is not None)
        return any(one.began > path[-1].began and one.query == path[-1].query for one in same)


def _paths(node: Node, above: Path = ()) -> Iterator[Path]:
    """Each call that counts, with those around it."""
    if node.kind != "ignored":
        yield (path := (*above, node))
        for child in node.children:
            yield from _paths(child, path)


def _tools(path: Path) -> Path:
    return tuple(node for node in path if node.kind == "tool")


def _agent(path: Path) -> str | None:
    return next((node.agent for node in reversed(path) if node.agent), None)


def _documents(tool: Node) -> tuple[Document, ...] | None:
    """Documents behind a tool's result: its own, else those of retrievers inside it; None if nothing was searched."""
    if tool.documents is not None:
        return tool.documents
    inner = [node.documents for node in tool.walk() if node.kind == "retriever" and node.documents is not None]
    return tuple({one.key: one for some in inner for one in some}.values()) if inner else None


def _is_made_of_documents(tool: Node) -> bool:
    """Whether documents stand behind a tool's result, or behind its failure, so that the two are one call."""
    documents = _documents(tool)
    if tool.error:
        return not any(one.kind == "model" for one in tool.walk())
    if documents is None or _repeats(tool):
        return False
    shown = locate([text for one in documents for text in (one.text, *one.forms)], tool.text or "").order
    return bool(shown) or not documents or not (tool.text or "").strip()


def _said(tool: Node) -> list[str]:
    """What models inside a tool wrote."""
    inner = [*tool.walk()][1:]
    return [text for one in inner if (text := text_of(one) or (one.text or "") * (one.kind == "agent")).strip()]


def _repeats(tool: Node) -> str | None:
    """What a model inside a tool wrote and the tool hands on word for word; None if there is nothing such."""
    text = tool.text or ""
    own = {one_line(text), *map(one_line, texts_in(parsed(text)))}
    return next((said for said in reversed(_said(tool)) if one_line(said) in own), None)


def _is_written(tool: Node) -> bool:
    said = [text for text in _said(tool) if len(text) >= OWN]
    return bool(_repeats(tool)) or any(place.extent == "whole" for place in locate(said, tool.text or "").places)


def _says(above: Path, text: str) -> bool:
    """Whether a call around another one gives the same text."""
    said = [one for node in above for one in (node.text, _repeats(node) if node.kind == "tool" else None) if one]
    return any(one_line(one) == one_line(text) for one in said)
