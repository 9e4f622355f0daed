"""What the calls of one turn brought in, and what of it a model call was shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragmetrics_core.capturing.locating import OWN, locate
from ragmetrics_core.capturing.places import Place, union
from ragmetrics_core.capturing.reading import ANSWER_KEYS, one_line, parsed, texts_in
from ragmetrics_core.capturing.tree import Document, Node, Tree
from ragmetrics_core.capturing.written import Written, is_written

_STEERING = {
    *("binary_score", "score", "grade", "verdict", "relevant", "is_relevant", "datasource", "route", "next", "action"),
    *("destination", "decision", "query", "queries", "search_query", "search_queries", "steps", "plan"),
}
_NUMBER = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s")
_LABEL = re.compile(r"\W*\w+(?:\W+\w+)?\W*")
_ALWAYS = float("inf")
_STRUCTURED = 2  # the weight of a structured answer; less have labels, verdicts, queries and calls of tools

Key = tuple[str, ...]


def end_of(node: Node) -> float:
    """When a call ended; when it began if it never did."""
    return node.began if node.ended is None else node.ended


@dataclass
class Shown:
    """What calls were shown: documents in the order of first showing, those of which prompts do not tell, the calls."""

    found: dict[Key, tuple[Document, Place]] = field(default_factory=dict)
    unknown: dict[Key, Document] = field(default_factory=dict)
    traces: set[Key] = field(default_factory=set)  # of these unknown ones some words stand there
    calls: list[Node] = field(default_factory=list)


class Calls:
    """The calls of one turn, as the rules look at them."""

    def __init__(self, tree: Tree, tools: Collection[str]) -> None:
        self.tree, self.tools = tree, tools
        self.paths = {path[-1]: path for path in tree.root.paths()}
        self.nodes = [*self.paths]

    @cached_property
    def models(self) -> list[Node]:
        """Calls of models that replied, in the order in which they began; of nested ones the innermost."""
        models = (node for node in self.nodes if node.kind == "model")
        replied = {node for node in models if node.reply is not None and node.error is None}
        return [one for one in self.prompted if one in replied and replied.isdisjoint([*one.walk()][1:])]

    @property
    def last(self) -> Node | None:
        """The last call of a model, whether it replied or not: what a broken run had shown until then."""
        return next((node for node in self.prompted[::-1] if node.prompt), None)

    @cached_property
    def prompted(self) -> list[Node]:
        """Calls of models, without those that only make documents or queries for a retriever or reranker."""
        models = (node for node in self.nodes if node.kind == "model")
        return [node for node in models if not any(one.kind in ("retriever", "reranker") for one in self.paths[node])]

    @property
    def rerankers(self) -> list[str]:
        """What put documents in order: the models that rerankers asked, and rerankers that asked none by their name."""
        found = [[one.model or one.name for one in node.walk() if one.kind == "model"] or [node.name]
                 for node in self.nodes if node.kind == "reranker"]  # fmt: skip
        return list(dict.fromkeys(name for names in found for name in names))

    def weight(self, call: Node) -> int:
        """How much a reply looks like an answer: 3 a free text, 2 a structured answer, 1 a label, 0 none."""
        reply, ran = call.reply, {node.name for node in self.nodes if node.kind == "tool"}
        if reply is None or any(one.name in ran for one in reply.calls) or (reply.calls and self._steers(call)):
            return 0
        text = reply.text
        value = parsed(text) if text.strip() else next((one.arguments for one in reply.calls[::-1]), None)
        if isinstance(value, Mapping):
            return 2 if any(key in value for key in ANSWER_KEYS) else int(not _STEERING & set(value))
        if value is not None or not text.strip() or self._steers(call):
            return int(value is not None)
        return 1 if len(text) <= 24 and _LABEL.fullmatch(text) else 3

    @cached_property
    def likely(self) -> list[Node]:
        """Calls that look most like answering, in their order."""
        weights = [(self.weight(call), call) for call in self.models]
        best = max((weight for weight, _ in weights), default=0)
        return [call for weight, call in weights if weight == best] if best else []

    def asked(self, question: str | None, among: Sequence[Node] | None = None) -> list[Node]:
        """Those of them, or of others, that were shown the question."""
        calls = self.likely if among is None else among
        return [one for one in calls if question and any(question in message.text for message in one.prompt)]

    def _steers(self, call: Node) -> bool:
        """Whether a later call was asked what this one wrote."""
        return is_asked_later(call, self.nodes)

    @cached_property
    def retrievals(self) -> dict[Node, tuple[Document, ...]]:
        """What outermost retrievals brought and tools returned beside them, else what steps introduced."""
        found: dict[Node, tuple[Document, ...]] = {}
        for node, path in self.paths.items():
            documents = node.documents if node.kind in ("retriever", "tool") and node.error is None else None
            if documents is None or any(one.kind == "retriever" for one in path[:-1]):
                continue
            if node.kind == "tool":
                below = {one.text for inner in node.walk() if inner is not node for one in inner.documents or ()}
                documents = tuple(one for one in documents if one.text not in below)
            if documents or node.kind == "retriever":
                found[node] = documents
        steps = {node: tuple(self.found_in(node.documents or (), end_of(node))) for node in self.reworking}
        return found or {node: documents for node, documents in steps.items() if documents}

    @property
    def reworking(self) -> list[Node]:
        """Steps that gave documents, in the order in which they ended; the root only where it is the one call."""
        steps = [node for node in self.nodes if node.kind in ("step", "agent", "reranker") and node.documents]
        return sorted((node for node in steps if node is not self.tree.root or not node.children), key=end_of)

    @cached_property
    def texts_of_tools(self) -> list[Node]:
        """Tools that returned text behind which no documents stand."""
        tools = [one for one in self.nodes if one.kind == "tool" and not one.error and (one.text or "").strip()]
        return [node for node in tools if not any(one.documents for one in node.walk())]

    @cached_property
    def tool_texts(self) -> list[Node]:
        """Those of them that are named as tools whose text is a context."""
        return [node for node in self.texts_of_tools if node.name in self.tools]

    @property
    def tried(self) -> bool:
        """Whether anything was retrieved, or a retriever ran and found nothing."""
        return bool(self.retrievals or self.tool_texts) or any(node.kind == "retriever" for node in self.nodes)

    def lists(self, before: float = _ALWAYS) -> list[tuple[Document, ...]]:
        """Lists of documents that were there before a moment, the latest first, of one moment in the calls' order."""
        held: list[tuple[float, Sequence[Document]]] = []
        for node in self.nodes:
            if node.taken:
                held.append((node.began, self.found_in(node.taken, node.began)))
            if node.documents and node.ended is not None:
                held.append((node.ended, self.found_in(node.documents, node.ended)))
            if node in self.tool_texts:
                held.append((end_of(node), [Document(node.text or "")]))
        held.sort(key=lambda one: one[0], reverse=True)
        return [tuple(some) for time, some in held if some and time <= before]

    @cached_property
    def _originals(self) -> list[str]:
        """Texts that were found: of documents that retrievers and tools gave, of tools inside which no model wrote."""
        texts = []
        for node in self.nodes:
            if node.kind in ("retriever", "tool"):
                texts += [text for document in node.documents or () for text in (document.text, *document.forms)]
            if node.kind == "tool" and node.text and not any(one.kind in ("model", "agent") for one in node.walk()):
                texts += [node.text, *texts_in(parsed(node.text))]
        return list(dict.fromkeys(texts))

    @cached_property
    def _replies(self) -> list[tuple[float, str]]:
        """What models and nested engines answered, and when; no queries, verdicts, routes and plans."""
        answering = [node for node in self.models if not self._is_only_a_step(node)]
        replies = [(end_of(node), text_of(node)) for node in answering]
        return replies + [(end_of(node), node.text or "") for node in self.nodes[1:] if node.kind == "agent"]

    @cached_property
    def _asked(self) -> list[str]:
        """Questions and queries, and what models said that steered the run."""
        queries = [node.query for node in self.nodes if node.query]
        steering = [text_of(node) for node in self.models if self._is_only_a_step(node)]
        return [*queries, *steering, *([self.tree.question] if self.tree.question else [])]

    def _is_only_a_step(self, call: Node) -> bool:
        """Whether a reply steers the run: a query that is asked later, a verdict or a route, a tool's arguments."""
        return self._steers(call) or self.weight(call) < _STRUCTURED

    def found_in(self, documents: Sequence[Document], before: float) -> list[Document]:
        """Documents without those that a model of this run wrote: answers to sub-questions, summaries."""
        replies = [text for ended, text in self._replies if ended <= before and len(text) >= OWN]
        found = [one for one in documents if one.author is None]
        if not replies:
            return found
        run = Written(list(dict.fromkeys(replies)), self._asked, self._originals)
        return [one for one in found if not is_written(one.text, run)]

    # What a call was shown

    def shown(self, call: Node, known: Sequence[str]) -> Shown:
        """What a call, and those that feed it, were shown; known texts stand in prompts for another reason."""
        result, each = Shown(calls=[call]), dict[Node, Shown]()
        for one in result.calls:  # grows
            each[one] = self._shown(one, known)
            result.calls += [node for node in each[one].calls if node not in result.calls]
        result.calls.sort(key=lambda node: node.began)
        for part in map(each.__getitem__, result.calls):
            result.unknown |= part.unknown
            result.traces |= part.traces
            for key, (document, place) in part.found.items():
                if key not in result.found:
                    result.found[key] = document, place
                    continue
                before, place_before = result.found[key]
                if place.is_of_the_text_of(place_before):
                    result.found[key] = before, union([place_before, place])
                elif place.coverage > place_before.coverage:
                    result.found[key] = document, place
        _settle_versions(result)
        return result

    def _shown(self, call: Node, known: Sequence[str]) -> Shown:
        """The same for one call alone, and the calls that feed it."""
        lists = self.lists(call.began) or self.lists()
        documents = _latest(lists)
        texts = [(document, text) for document in documents for text in dict.fromkeys((document.text, *document.forms))]
        earlier = [one for one in self.models if end_of(one) <= call.began and self._feeds(one, call)]
        prompt = [message.text for message in call.prompt]
        counts = {text: sum(message.count(text) for message in prompt) for text in known if text.strip()}
        often = [text for text, count in counts.items() for _ in range(min(50, max(1, count)))]
        located = locate([*(text for _, text in texts), *map(text_of, earlier)], prompt, known=often)
        result, there = Shown(), [index for index in located.order if index < len(texts)]
        arrived = {one.key: None for some in reversed(lists) for one in some}
        rank = {key: number for number, key in enumerate(arrived)}
        came = sorted(there, key=lambda index: rank[texts[index][0].key])
        for index in there:  # of several documents of one text the first to come is the first one shown
            alike = next(other for other in came if texts[other][1] == texts[index][1])
            came.remove(alike)
            document, place = texts[alike][0], located.places[index]
            if document.key not in result.found or len(result.found[document.key][1].text) < len(place.text):
                result.found[document.key] = document, place
        for (document, _), place in zip(texts, located.places, strict=False):
            if place.outcome == "unknown" and document.key not in result.found:
                result.unknown[document.key] = document
                if place.traced:
                    result.traces.add(document.key)
        read = zip(earlier, located.places[len(texts) :], strict=True)
        told = [*(one for one, place in read if place.extent == "whole"), *self._authors(call), *self._beside(call)]
        result.calls = list({id(one): one for one in told}.values())
        return result

    def taken_out(self, call: Node) -> bool:
        """Whether all results that earlier calls of a tool loop were shown are gone from this one's prompt."""
        outer = [node for node, path in self.paths.items() if not any(one.kind == "tool" for one in path[:-1])]
        given = {one_line(node.text) for node in outer if node.kind == "tool"}
        loop = [one for one in self.models if one in outer and one.began < call.began]
        before = {one_line(said.text) for one in loop for said in one.prompt if said.role == "tool"} & given
        now = {one_line(said.text) for said in call.prompt if said.role == "tool"}
        return call in outer and bool(now and before) and not before & now

    def _beside(self, call: Node) -> list[Node]:
        """Earlier calls of the step that was handed documents to answer from: refine, trees, one call per document."""
        host = next((one for one in self.paths[call][::-1] if one.kind == "step" and one.taken), None)
        return [one for one in self.models if host in self.paths[one] and end_of(one) <= call.began]

    def _authors(self, call: Node) -> list[Node]:
        """Calls that wrote documents which the framework handed to the engine of a call."""
        engine = self._engine(call)
        steps = (node for node in self.nodes if node.began < call.began and self._engine(node) is engine)
        authors = {id(one.author): one.author for node in steps for one in node.taken if one.author is not None}
        inside = [[one for one in author.walk() if one in self.models] for author in authors.values()]
        return [calls[-1] for calls in inside if calls]

    def _engine(self, node: Node) -> Node | None:
        """The innermost sub-run around a call."""
        return next((one for one in self.paths[node][::-1] if one.kind == "agent"), None)

    def _feeds(self, one: Node, call: Node) -> bool:
        """Whether a reply may be part of what a later call reads: a free text, or what a tool or agent gave back."""
        text = text_of(one)
        if one is call or not text or (one.reply is not None and one.reply.calls) or self._steers(one):
            return False
        results = [message.text for message in call.prompt if message.role == "tool"]
        given = (said for result in results for said in (result, *texts_in(parsed(result))))
        return len(text) >= OWN or any(one_line(said) == one_line(text) for said in given)


def is_asked_later(call: Node, nodes: Iterable[Node]) -> bool:
    """Whether one of some calls was asked what a model wrote before: a query that it rewrote, a tool's argument."""
    return any(wrote(call, node.query) for node in nodes if node.query and node.began >= call.began)


def wrote(call: Node, query: str | None) -> bool:
    """Whether a model's reply is a query, one of its lines, numbered and quoted or not, or a tool's argument in it."""
    lines = (*text_of(call).splitlines(), text_of(call), *chosen(call))
    return bool(query) and _bare(query or "") in map(_bare, lines)


def chosen(call: Node) -> list[str]:
    """Texts among the arguments that a model calls tools with."""
    return [] if call.reply is None else list(texts_in([one.arguments for one in call.reply.calls]))


def _bare(line: str) -> str:
    return one_line(_NUMBER.sub("", line)).strip("\"'`* ")


def text_of(node: Node) -> str:
    """What a model said; empty where it said nothing."""
    return node.reply.text if node.reply is not None else ""


def _latest(lists: Iterable[Sequence[Document]]) -> list[Document]:
    """Each document once: as the latest list holds it, with the score of the last step that scored it."""
    kept: dict[Key, Document] = {}
    for document in (one for some in lists for one in some):
        known = kept.setdefault(document.key, document)
        if known.score is None and document.score is not None:
            kept[document.key] = replace(known, score=document.score)
    named = {text for one in kept.values() if one.id is not None for text in (one.text, *one.forms)}
    return [one for one in kept.values() if one.id is not None or one.text not in named]  # handed on as bare texts


def _settle_versions(shown: Shown) -> None:
    """Of several versions of one document, those that are whole count, else the one of which most is shown."""
    by_id: dict[str, list[Key]] = {}
    for key, (document, _) in shown.found.items():
        if document.id is not None:
            by_id.setdefault(document.id, []).append(key)
    for keys in by_id.values():
        whole = [key for key in keys if shown.found[key][1].extent == "whole"]
        best = whole or [max(keys, key=lambda key: len(shown.found[key][1].text))]
        for key in {*keys}.difference(best):
            del shown.found[key]
    shown.unknown = {key: one for key, one in shown.unknown.items() if key not in shown.found and one.id not in by_id}


def name_authors(root: Node) -> None:
    """Name the author of nodes that hold an answer of the run and that no retriever ever held."""
    nodes = list(root.walk())
    found = [one for node in nodes if node.kind in ("retriever", "reranker") for one in node.documents or ()]
    known, texts = {one.id for one in found}, {one.text for one in found}
    said = ((node, (node.text or "").strip()) for node in nodes[1:] if node.kind in ("agent", "step"))
    answers = {node: text for node, text in said if text}
    for node in nodes if answers else ():
        if node.kind == "tool" and node.text:  # it hands on what an engine inside of it answered, perhaps among else
            lines = (node.text.strip(), *node.text.splitlines())
            inner = (one for one in node.walk() if answers.get(one) in lines)
            node.taken = tuple(Document(node.text, author=one) for one in inner)
            continue
        before = [(text, by) for by, text in answers.items() if (by.ended or 0) < node.began]
        node.taken = tuple(
            one
            if one.id in known or any(text in one.text for text in texts)
            else replace(one, author=next((by for text, by in before if text in one.text), None))
            for one in node.taken
        )
