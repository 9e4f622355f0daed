"""The evidence ledger of one turn: each call that brought something, in the order of the model's own calls. Pure."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice, pairwise
from math import inf
from typing import Literal

from ragmetrics_core.capturing.calls import Calls, Key, Reply, end_of, is_asked_later, text_of
from ragmetrics_core.capturing.locating import OWN, locate
from ragmetrics_core.capturing.origins import derives_from, shown_as, without_origin
from ragmetrics_core.capturing.reading import one_line, parsed, texts_in
from ragmetrics_core.capturing.tree import JOINED, Document, Node, Path
from ragmetrics_core.data import Context, EvidenceCall

_LAST = 1 << 30
_MARKS = " .!?\"'`)]}>"
_MOST_OF_IT = 0.5  # less may be the words that all summaries begin with
Kind = Literal["retrieval", "tool", "given", "written"]


@dataclass(frozen=True)
class Arrival:
    """One time that evidence arrived, whatever the answer was shown of it: documents, a text or an error."""

    kind: Kind
    node: Node
    documents: tuple[Document, ...] = ()
    text: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Seen:
    """What one answer of the turn was shown."""

    contexts: Mapping[Key, Context]  # by the keys of the documents behind them; by number where the user named them
    prompts: Sequence[str] | None = None  # of the answering call and those that feed it; None if no call is known
    known: Sequence[str] = ()  # texts that stand there for another reason

    def there(self, texts: Iterable[str]) -> set[str]:
        """Which texts stand in the prompts, most of each, or among the contexts."""
        own = {context.text for context in self.contexts.values()}
        asked = [text for text in dict.fromkeys(texts) if text not in own]
        places = locate(asked, self.prompts or (), known=[*self.known, *own]).places if asked else ()
        return own.union(asked[one.candidate] for one in places if one.coverage >= _MOST_OF_IT)

    def shown(self, items: Sequence[Context], there: set[str]) -> tuple[int, ...] | None:
        """The places of items whose texts are there."""
        return None if self.prompts is None else tuple([at for at, one in enumerate(items) if one.text in there])

    def items(
        self, documents: Sequence[Document], keys: Sequence[Key | None]
    ) -> tuple[tuple[Context, ...], tuple[int, ...] | None]:
        """Documents in the words that were shown of them, and the places of those shown.

        Args:
            documents: What one call brought, in its order.
            keys: For each the key of the context that shows it, else None.
        """
        items = tuple(self._item(document, key) for document, key in zip(documents, keys, strict=True))
        shown = tuple(place for place, key in enumerate(keys) if key is not None)
        return items, shown if shown or self.prompts is not None else None

    def _item(self, document: Document, key: Key | None) -> Context:
        """A document with its own id and, where a context shows it, the words shown."""
        if key is None:
            return document.context()
        context = self.contexts[key]
        is_same = key == document.key or context.id == document.id
        return context if is_same else document.context(context.text)


class Arrivals:
    """All evidence that arrived in one turn, by its calls."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self._paths = calls, calls.paths
        made = [call.id for node in calls.nodes if node.reply is not None for call in node.reply.calls]
        self._rank = {name: place for place, name in reversed([*enumerate(made)])}
        # The application's own calls of models: no part of another, of a retriever, of a reranker.
        inner = {node for model in calls.prompted for node in [*model.walk()][1:]}
        self._models = [node for node in calls.prompted if not node.error and node not in inner]
        self._agents = {_agent(self._paths[node]) for node in self._models}
        self._whole = {node for node in calls.nodes if node.kind == "tool" and _is_made_of_documents(node)}

    def retrieved(
        self, shown: Sequence[Key] = (), added: Mapping[Node, tuple[Document, ...]] | None = None
    ) -> tuple[Document, ...] | None:
        """What retrievers returned and steps ``added``, each document once; None if that is unknown.

        Of those that ran beside each other, in any order, comes first what was shown first, else the ledger's first.
        """
        found = {**self._calls.retrievals, **(added or {})}
        kept: dict[Key, Document] = {}
        texts: set[str] = set()

        began = self._began_with_those_beside(found)
        place_of = {key: place for place, key in reversed([*enumerate(shown)])}

        def order(node: Node) -> tuple[object, ...]:
            first = min((place_of.get(document.key, len(shown)) for document in found[node]), default=len(shown))
            return began[node], first, self._order(node)

        for node in sorted(found, key=order):
            fresh = [doc for doc in found[node] if node.kind == "retriever" or doc.text not in texts]
            for document in fresh:
                kept.setdefault(("id", document.id) if document.id is not None else document.key, document)
                texts.add(document.text)
        return tuple(kept.values()) if found else None

    def _began_with_those_beside(self, found: Iterable[Node]) -> dict[Node, float]:
        """For each of some calls when the first began of those that ran beside it, in branches that did."""
        branches: dict[Node, set[Node]] = defaultdict(set)  # of each call that holds some of them
        first_inside: dict[Node, float] = {}
        calls = list(found)
        for call in calls:
            path = self._paths[call]
            for node in path:
                first_inside[node] = min(first_inside.get(node, call.began), call.began)
            for parent, branch in pairwise(path):
                branches[parent].add(branch)
        first_beside: dict[Node, float] = {}
        for siblings in branches.values():
            first_beside |= _first_beside(sorted(siblings, key=lambda node: node.began), first_inside)
        ran = set(calls)
        began = {}
        for call in calls:
            around = [node.began for node in self._paths[call] if node in ran]  # the call, and those that it stands in
            beside = [first_beside.get(node, call.began) for node in self._paths[call]]
            began[call] = min([*around, *beside])
        return began

    def told(
        self,
        seen: Seen,
        turn: int,
        answer: str | None,
        earlier: Sequence[EvidenceCall],
        added: Mapping[Node, tuple[Document, ...]],
    ) -> list[EvidenceCall]:
        """The calls of the ledger: those of earlier turns, and those of this one."""
        known = {one_line(item.text) for one in earlier if one.kind == "written" for item in one.items}
        known.add(one_line(answer))
        found = [one for one in self.found if self._is_told(one) or one_line(one.text) not in known]
        found += [Arrival("retrieval", step, documents) for step, documents in added.items()]
        found.sort(key=lambda one: self._order(one.node))
        arrived = [document for one in found for document in one.documents]
        context_of = iter(shown_as(arrived, seen.contexts))
        texts = [item.text for call in earlier for item in call.items]
        there = seen.there([*texts, *(one.text for one in found if one.text is not None)])
        told = [call.model_copy(update={"shown": seen.shown(call.items, there)}) for call in earlier]
        for one in found:
            node, path = one.node, self._paths[one.node]
            items, shown = seen.items(one.documents, list(islice(context_of, len(one.documents))))
            if one.text is not None:
                items = (Context(text=one.text),)
                shown = seen.shown(items, there)
            told.append(
                EvidenceCall(
                    kind=one.kind,
                    turn=turn,
                    step=self._order(node)[0][0],
                    name=next((tool.name for tool in reversed(_tools(path))), None),
                    query=None if one.kind == "given" or node.kind == "model" else node.query,
                    items=items,
                    shown=shown,
                    agent=_agent(path) if len(self._agents) > 1 else None,
                    error=one.error,
                )
            )
        return told

    def brought_by_steps(self, contexts: Mapping[Key, Context]) -> dict[Node, tuple[Document, ...]]:
        """What steps put beside the retrieved, where contexts are among it: searches that no framework reports.

        ``store.similarity_search`` inside a node, or pages of the web made documents by one (LangGraph's CRAG).
        """
        arrived = [document for one in self.found for document in one.documents]
        missing = set(without_origin(arrived, contexts))
        brought: dict[Node, tuple[Document, ...]] = {}
        steps = (node for node in self._calls.reworking if node.kind in ("step", "reranker"))
        for step in steps if missing else ():
            if self._is_inside(self._paths[step]):
                continue
            documents = self._calls.found_in(_fresh(step.documents, arrived), end_of(step))
            if missing.isdisjoint(document.key for document in documents):
                continue
            new = [one for one in documents if one.key in missing or not derives_from(one.text, arrived)]
            brought[step] = tuple(new)
            arrived += new
            missing.difference_update(document.key for document in new)
        return brought

    def _is_inside(self, path: Path) -> bool:
        """Whether a retrieval, or a tool whose result is made of documents, tells of the calls inside it."""
        return any(one.kind == "retriever" or one in self._whole for one in path)

    def _is_told(self, one: Arrival) -> bool:
        """Whether it is no text of a model's, or one that a tool returned to another call."""
        node, around = one.node, _tools(self._paths[one.node][:-1])
        later = (it for it in self._models if it.began > node.began and _tools(self._paths[it]) == around)
        return one.kind != "written" or (node.kind == "tool" and any(later))

    @cached_property
    def found(self) -> list[Arrival]:
        """What arrived, in no order yet."""
        return [one for node, path in self._paths.items() for one in self._of(node, path[:-1])]

    def _order(self, call: Node) -> list[tuple[int, int, str, float]]:
        """For each tool around a call, and the call: its step there, its place among the model's calls, its start."""
        found, path = [], self._paths[call]
        for at, node in enumerate(path):
            if node.kind == "tool" or node is call:
                around = _tools(path[:at])
                step = bisect_left(self._began_inside.get(around, ()), node.began)
                branch = next((one.branch for one in reversed(path[: at + 1]) if one.branch), "")
                found.append((step, self._rank.get(node.call, _LAST), branch, node.began))
        return found

    @cached_property
    def _began_inside(self) -> dict[Path, list[float]]:
        """When the models began, in order, by the tools around them."""
        began: dict[Path, list[float]] = defaultdict(list)
        for model in self._models:
            began[_tools(self._paths[model])].append(model.began)
        return {around: sorted(times) for around, times in began.items()}

    def _of(self, node: Node, above: Path) -> Iterator[Arrival]:
        """What one call brought by itself."""
        retrievals = self._calls.retrievals
        if self._is_inside(above):
            return
        if node.kind in ("step", "agent") and (not above or (above[0].name in JOINED and len(above) == 1)):
            given = _fresh(node.taken, (doc for some in retrievals.values() for doc in some))
            yield from (Arrival("given", node, given),) * bool(given)
        if node.kind == "tool":
            yield from () if node.control or self._is_run_again(node) else self._of_tool(node)
        elif node.kind == "retriever" and (node.error or node.documents is not None):
            yield Arrival("retrieval", node, _fresh(node.documents), error=node.error)
        elif node.kind == "agent" and above and node.text:
            told = [*(one.text for one in above), *(_repeats(one) for one in above if one.kind == "tool")]
            if one_line(node.text) not in map(one_line, filter(None, told)):
                yield Arrival("written", node, text=node.text)
        elif node.kind == "model":
            for text in dict.fromkeys(one.text for one in node.prompt if one.role == "summary"):
                prompts = (one.prompt for one in self._models if one.began < node.began)
                if not any(text == one.text for prompt in prompts for one in prompt):
                    yield Arrival("written", node, text=text)
        elif node.documents and node in retrievals:
            before = (doc for one, found in retrievals.items() if one.began < node.began for doc in found)
            if fresh := _fresh(node.documents, before):
                yield Arrival("retrieval", node, fresh)

    def _of_tool(self, node: Node) -> Iterator[Arrival]:
        inner = [*node.walk()][1:]
        text = node.text if (node.text or "").strip() else None
        named, nodes = node.name in self._calls.context_tools, self._calls.nodes
        if node.error:
            searched = named or node.documents is not None or any(one.kind == "retriever" for one in inner)
            yield Arrival("retrieval" if searched else "tool", node, error=node.error)
        elif node in self._whole:
            yield Arrival("retrieval", node, _fresh(_documents(node)))
        elif node in self._calls.tool_texts:
            yield Arrival("retrieval", node, (Document(node.text or ""),))
        elif node.ended is not None:
            kind: Kind = "written" if _is_written(node, nodes) else "retrieval" if named and text is None else "tool"
            yield Arrival(kind, node, text=_repeats(node) or text)
            if fresh := _fresh(node.documents, (doc for one in inner for doc in one.documents or ())):
                yield Arrival("retrieval", node, fresh)

    def _is_run_again(self, node: Node) -> bool:
        """Whether a run that was resumed made the same call of a tool again."""
        run = self._paths[node][1:2]
        later = (one for one, path in self._paths.items() if path[0].name in JOINED and path[1:2] != run)
        same = (one for one in later if one.kind == "tool" and one.call == node.call is not None)
        return any(one.began > node.began and one.query == node.query for one in same)


def _first_beside(siblings: Sequence[Node], first_inside: Mapping[Node, float]) -> dict[Node, float]:
    """For each of some calls, sorted by their beginning, the first moment inside the others that ran at the same time.

    Infinite for a call that ran alone: what is inside it began when it did, and not all at once. Those that had begun
    before lie in a heap until they have ended. Of those that begin while it runs, only the smallest so far of each
    stretch are held, so that the smallest up to its end is found by bisection.
    """
    first: dict[Node, float] = {}
    running: list[tuple[float, int]] = []
    for number, node in enumerate(siblings):
        while running and end_of(siblings[running[0][1]]) <= node.began:
            heappop(running)
        first[node] = running[0][0] if running else inf
        heappush(running, (first_inside[node], number))
    begins: list[float] = []  # from the latest to the earliest, of those whose first moment is smaller than all between
    moments: list[float] = []
    for node in reversed(siblings):
        later = bisect_right(begins, -end_of(node))  # these begin when it has ended
        if later < len(moments):
            first[node] = min(first[node], moments[later])
        while moments and moments[-1] >= first_inside[node]:
            begins.pop()
            moments.pop()
        begins.append(-node.began)
        moments.append(first_inside[node])
    return first


def _tools(path: Path) -> Path:
    return tuple(node for node in path if node.kind == "tool")


def _agent(path: Path) -> str | None:
    return next((node.agent for node in reversed(path) if node.agent), None)


def _fresh(documents: Sequence[Document] | None, before: Iterable[Document] = ()) -> tuple[Document, ...]:
    """Documents that no call of the run wrote, and that were not there before: the same id, else the same text."""
    known = {key for one in before for key in (one.id or one.key, one.text)}
    return tuple(one for one in documents or () if one.author is None and not {one.id or one.key, one.text} & known)


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
    """What models inside a tool wrote; no queries that a search inside it was asked: what was found quotes them."""
    inner = [*tool.walk()][1:]
    texts = []
    for node in inner:
        text = text_of(node) or (node.text or "" if node.kind == "agent" else "")
        if text.strip() and not is_asked_later(node, inner):
            texts.append(text)
    return texts


def _repeats(tool: Node) -> str | None:
    """What a model inside a tool wrote and the tool hands on word for word; None if there is nothing such."""
    text = tool.text or ""
    own = {one_line(text), *map(one_line, texts_in(parsed(text)))}
    return next((said for said in reversed(_said(tool)) if one_line(said) in own), None)


def _is_written(tool: Node, nodes: Iterable[Node]) -> bool:
    """Whether a tool's text is what a model wrote, in a frame: one inside it, or one that had chosen its arguments."""
    text, said = tool.text or "", _said(tool)
    whole, lines = one_line(text), {one_line(line) for line in text.splitlines()}
    inside = any(one in lines or (one in whole and 2 * len(one) > len(whole)) for one in map(one_line, said))
    rest = whole.rstrip(_MARKS)
    for one in (one_line(one) for node in nodes if node.began < tool.began for one in Reply(node.reply).arguments):
        rest = rest.replace(one.rstrip(_MARKS), "\0") if len(one) >= OWN else rest
    frame = rest.replace("\0", "").lstrip("0123456789 ")  # an echoed query ends no text, or a number stands beside it
    echo = rest.endswith("\0") and 2 * len(frame) <= len(whole) and not any(map(str.isdigit, frame))
    longer = [one for one in said if len(one) >= OWN]
    return bool(_repeats(tool)) or inside or echo or any(it.extent == "whole" for it in locate(longer, text).places)
