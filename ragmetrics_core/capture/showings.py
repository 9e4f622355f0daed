"""What each call of a model was shown of the documents that were there.

Each call is located once. A call **feeds** another if its reply stands in the other's
prompt: what it was shown then counts as shown to both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragmetrics_core.capture.calls import Calls, end_of
from ragmetrics_core.capture.locating import OWN, locate
from ragmetrics_core.capture.passages import stands_apart
from ragmetrics_core.capture.places import Located, Place, union
from ragmetrics_core.capture.plain_values import as_one_line, parse_json, texts_in
from ragmetrics_core.capture.tree import Document, DocumentKey, Message, Node

_MOST_OCCURRENCES = 50  # of a known text so many are told to locating


@dataclass(frozen=True)
class Shown:
    """What a call was shown, together with the calls that feed it.

    A call feeds another if its reply stands in the other's prompt.

    Attributes:
        found: The documents shown, in the order of their first showing.
        unknown: The documents of which the prompts do not tell.
        traces: Keys of those unknown ones of which some words stand there.
        order: Keys of those found. Unknown ones stand between their neighbours of one
            list.
        calls: The call and those that feed it, in the order in which they began.
        showing: Those of these calls whose own prompts show documents.
    """

    found: Mapping[DocumentKey, tuple[Document, Place]]  # in the order of first showing
    unknown: Mapping[DocumentKey, Document]  # the prompts do not tell of these
    traces: frozenset[DocumentKey]  # of these unknown ones some words stand there
    # of those found, and between their neighbours of one list those that are unknown
    order: tuple[DocumentKey, ...]
    # the call and those that feed it, in the order in which they began
    calls: tuple[Node, ...]
    showing: tuple[Node, ...]  # those of them whose own prompts show documents


@dataclass(frozen=True)
class _ShownAlone:
    """What one call was shown, without what feeds it.

    Attributes:
        found: The documents shown, in the order of the prompt.
        unknown: The documents of which the prompt does not tell.
        traces: Keys of those unknown ones of which some words stand there.
        feeding: Earlier calls whose replies it was shown.
    """

    found: Mapping[DocumentKey, tuple[Document, Place]]
    unknown: Mapping[DocumentKey, Document]
    traces: frozenset[DocumentKey]
    feeding: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Showings:
    """What the calls of models in a run were shown.

    Args:
        calls: The calls of the run.
        known: Texts that stand in prompts for another reason: question, history,
            instructions.
        question: What the user asked in this turn.
    """

    calls: Calls
    known: Sequence[str] = ()
    question: str | None = None
    _with_feeding: dict[Node, Shown] = field(default_factory=dict)
    _alone: dict[Node, _ShownAlone] = field(default_factory=dict)

    def of(self, call: Node) -> Shown:
        """What a call, and those that feed it, were shown."""
        if call not in self._with_feeding:
            self._with_feeding[call] = self._unite_feeding_calls(call)
        return self._with_feeding[call]

    def _unite_feeding_calls(self, call: Node) -> Shown:
        """What a call and those that feed it were shown, as one.

        Of several versions of a document the fullest count. Another version of a shown
        document is not unknown.
        """
        readers = self._feeding_and(call)
        parts = [self._of_one(reader) for reader in readers]
        showing_of = _unite_showings(parts)
        unknown: dict[DocumentKey, Document] = {}
        traces: set[DocumentKey] = set()
        for part in parts:
            unknown.update(part.unknown)
            traces.update(part.traces)
        settled = _best_versions(showing_of)
        ids = {document.id for document, _ in showing_of.values()} - {None}
        # another version of a document that is shown is not unknown
        still_unknown = {
            key: document
            for key, document in unknown.items()
            if key not in settled and document.id not in ids
        }
        lists = self.calls.lists(call.began)
        order = _with_unknown_between(settled, still_unknown, lists)
        showing = [reader for reader in readers if self._of_one(reader).found]
        return Shown(
            settled,
            still_unknown,
            frozenset(traces),
            tuple(order),
            tuple(readers),
            tuple(showing),
        )

    def _feeding_and(self, call: Node) -> list[Node]:
        """A call, the calls that feed it, and those that feed them, in their order."""
        readers = [call]
        # those that feed a feeding call are appended while the loop runs
        for reader in readers:  # grows
            for feeding in self._of_one(reader).feeding:
                if feeding not in readers:
                    readers.append(feeding)
        return sorted(readers, key=lambda node: node.began)

    def _of_one(self, call: Node) -> _ShownAlone:
        """What one call was shown by itself; located when it is first asked for."""
        if call not in self._alone:
            self._alone[call] = self._locate_in_call(call)
        return self._alone[call]

    def _locate_in_call(self, call: Node) -> _ShownAlone:
        """Locate what one call was shown: documents, and earlier replies.

        The documents are those of the lists that were there when it began. If there
        were none, those of all lists of the run are sought.
        """
        lists = self.calls.lists(call.began) or self.calls.lists()
        readable = self._readable(call)
        prompt = self._this_turn_first(call.prompt)
        candidates = _candidates(_latest(lists), prompt)
        texts = [
            *(candidate.text for candidate in candidates),
            *(text for _, text in readable),
        ]
        known_texts = _by_occurrences(self.known, prompt, self._asking_message(call))
        located = locate(texts, prompt, known=known_texts)
        arrived = list(
            {
                document.key: None
                for documents in reversed(lists)
                for document in documents
            }
        )
        showing_of = _documents_shown(candidates, located, arrived)
        untold = _untold(candidates, located, showing_of)
        unknown = {arrival.document.key: arrival.document for arrival, _ in untold}
        traces = frozenset(
            arrival.document.key for arrival, place in untold if place.traced
        )
        calls_read = _read(readable, located.places[len(candidates) :], showing_of)
        feeding = dict.fromkeys(
            [*calls_read, *self._authors(call), *self._beside(call)]
        )
        return _ShownAlone(showing_of, unknown, traces, tuple(feeding))

    def _this_turn_first(self, prompt: Sequence[Message]) -> list[str]:
        """The messages of a prompt, those of this turn before those of earlier turns.

        So what this turn's search found keeps its order where the conversation showed a
        text of it before. This turn begins with the last message of the user that holds
        the question.
        """
        asking = [
            place
            for place, message in enumerate(prompt)
            if message.role == "user" and self._holds_question(message)
        ]
        start = asking[-1] if asking else 0
        opening = next(
            (place for place, message in enumerate(prompt) if message.role != "system"),
            0,
        )
        ordered = (
            [*prompt[:opening], *prompt[start:], *prompt[opening:start]]
            if opening < start
            else prompt
        )
        return [message.text for message in ordered]

    def _asking_message(self, call: Node) -> str:
        """The message that asks the question of this turn; empty if there is none.

        It is also empty if the message is the question and nothing else.
        """
        asking = [
            message.text
            for message in call.prompt
            if message.role == "user" and self._holds_question(message)
        ]
        last_text = asking[-1] if asking else ""
        return "" if as_one_line(last_text) == as_one_line(self.question) else last_text

    def _holds_question(self, message: Message) -> bool:
        """Whether a message holds the question of this turn."""
        return bool(self.question) and as_one_line(self.question) in as_one_line(
            message.text
        )

    # Which calls feed one

    def _readable(self, call: Node) -> list[tuple[Node, str]]:
        """Earlier replies whose texts are sought in a prompt, each with one such text.

        Short texts are sought only if a tool gave them back, or if they stand apart
        like an earlier answer.
        """
        results = _results_shown(call)
        prompt = [message.text for message in call.prompt]
        earlier = [
            earlier_call
            for earlier_call in self._replies_that_are_read
            if earlier_call is not call and end_of(earlier_call) <= call.began
        ]
        return [
            (earlier_call, text)
            for earlier_call in earlier
            for text in self._texts_of(earlier_call)
            if len(text) >= OWN
            or as_one_line(text) in results
            or self._is_a_short_answer(earlier_call, text, prompt)
        ]

    def _is_a_short_answer(self, call: Node, text: str, prompt: Sequence[str]) -> bool:
        """Whether a reply of a few words stands apart in a prompt.

        There it is an earlier answer that is refined. A verdict is none.
        """
        if self.calls.replies[call].is_verdict or not text.strip():
            return False
        return any(stands_apart(text.strip(), message) for message in prompt)

    def _texts_of(self, call: Node) -> list[str]:
        """What a call wrote: its text, or the texts of its structure."""
        reply = self.calls.replies[call]
        return list(
            dict.fromkeys(filter(None, [reply.text, *texts_in([*reply.values])]))
        )

    @cached_property
    def _replies_that_are_read(self) -> list[Node]:
        """Calls that said something, chose no tool that ran and wrote no query."""
        tools = {node.name for node in self.calls.nodes if node.kind == "tool"}
        return [
            call
            for call in self.calls.models
            if call not in self.calls.query_writers
            and call.reply is not None
            and tools.isdisjoint(tool_call.name for tool_call in call.reply.calls)
        ]

    def _beside(self, call: Node) -> list[Node]:
        """Earlier calls of the step that was handed documents to answer from."""
        host = self.calls.step_with_documents(call)
        if host is None:
            return []
        return [
            other_call
            for other_call in self.calls.models
            if host in self.calls.paths[other_call] and end_of(other_call) <= call.began
        ]

    def _authors(self, call: Node) -> list[Node]:
        """Calls that wrote documents which the framework handed to the engine of a call."""
        engine = self._engine(call)
        steps = (
            node
            for node in self._handed_documents_of_authors
            if self._engine(node) is engine
        )
        handed = (
            document.author
            for node in steps
            if node.began < call.began
            for document in node.taken
        )
        authors = dict.fromkeys(author for author in handed if author is not None)
        inside = [
            [node for node in author.walk() if node in self._models]
            for author in authors
        ]
        return [calls[-1] for calls in inside if calls]

    @cached_property
    def _handed_documents_of_authors(self) -> list[Node]:
        """Calls that were handed documents which a call of the run wrote."""
        return [
            node
            for node in self.calls.nodes
            if any(document.author is not None for document in node.taken)
        ]

    @cached_property
    def _models(self) -> frozenset[Node]:
        return frozenset(self.calls.models)

    def _engine(self, node: Node) -> Node | None:
        """The innermost sub-run around a call."""
        return next(
            (
                around
                for around in reversed(self.calls.paths[node])
                if around.kind == "agent"
            ),
            None,
        )


def _results_shown(call: Node) -> set[str]:
    """Results of tools in a prompt, each in one line, with the texts inside of them."""
    results = [message.text for message in call.prompt if message.role == "tool"]
    return {
        as_one_line(text)
        for result in results
        for text in (result, *texts_in(parse_json(result)))
    }


def _latest(lists: Iterable[Sequence[Document]]) -> list[Document]:
    """Each document once, as the latest list holds it.

    It has the score of the last step that scored it. A text that was handed on without
    its id is left out beside the document that holds it.
    """
    latest: dict[DocumentKey, Document] = {}
    for document in (document for documents in lists for document in documents):
        latest_document = latest.setdefault(document.key, document)
        if latest_document.score is None and document.score is not None:
            latest[document.key] = replace(latest_document, score=document.score)
    named = {
        text
        for document in latest.values()
        if document.id is not None
        for text in document.texts
    }
    # handed on as bare texts
    return [
        document
        for document in latest.values()
        if document.id is not None or document.text not in named
    ]


def _by_occurrences(
    known_texts: Iterable[str], prompt: Sequence[str], asked_now: str
) -> list[str]:
    """Known texts, each as often as it stands in a prompt.

    Each explains one occurrence. A message of the history explains none of what is
    asked now in the same words.
    """
    repeated = []
    for text in dict.fromkeys(known_texts):
        if text.strip():
            count = max(1, sum(message.count(text) for message in prompt))
            is_asked_now = bool(asked_now) and text.strip() == asked_now.strip()
            repeated += [text] * min(_MOST_OCCURRENCES, count - is_asked_now)
    return repeated


def _read(
    readable: Sequence[tuple[Node, str]],
    places: Sequence[Place],
    showing_of: Mapping[DocumentKey, tuple[Document, Place]],
) -> list[Node]:
    """Calls of which a prompt shows what they wrote.

    A draft may be a document word for word: where that stands, the draft may.

    Args:
        readable: Calls, each with a text that it wrote.
        places: The places of these texts.
        showing_of: The documents that the prompt shows.
    """
    documents = {as_one_line(document.text) for document, _ in showing_of.values()}
    pairs = zip(readable, places, strict=True)
    return [
        call
        for (call, text), place in pairs
        if place.extent == "whole" or as_one_line(text) in documents
    ]


@dataclass(frozen=True)
class _Candidate:
    """A text that a document may be shown as.

    Attributes:
        document: The document.
        text: The text.
        repetition: Of a text that stands several times in one message, which time this
            is.
    """

    document: Document
    text: str
    # of a text that stands several times in one message, which time this is, from 0
    repetition: int = 0

    @property
    def key(self) -> DocumentKey:
        """The document's key; of a repetition one of its own."""
        return (
            (*self.document.key, f"again {self.repetition}")
            if self.repetition
            else self.document.key
        )


def _candidates(
    documents: Sequence[Document], prompt: Sequence[str]
) -> list[_Candidate]:
    """The texts that documents may be shown as, each as often as it stands in one message."""
    candidates = [
        _Candidate(document, text) for document in documents for text in document.texts
    ]
    holders: dict[str, list[_Candidate]] = {}
    for candidate in candidates:
        holders.setdefault(candidate.text, []).append(candidate)
    for text, same in holders.items():
        times = (
            max((message.count(text) for message in prompt), default=0)
            if len(text) >= OWN
            else 0
        )
        repetitions = range(1, min(times, _MOST_OCCURRENCES) - len(same) + 1)
        candidates += [
            _Candidate(same[-1].document, text, repetition)
            for repetition in repetitions
        ]
    return candidates


def _documents_shown(
    candidates: Sequence[_Candidate], located: Located, arrived: Sequence[DocumentKey]
) -> dict[DocumentKey, tuple[Document, Place]]:
    """The documents that a prompt shows, in its order, each by its longest showing.

    Of several documents of one text the first to come is the first one shown.

    Args:
        candidates: Texts that documents may be shown as.
        located: The places of these texts, and perhaps of others behind them.
        arrived: The keys of the documents in the order in which they came.
    """
    rank = {key: number for number, key in enumerate(arrived)}
    places_shown = [index for index in located.order if index < len(candidates)]
    waiting: dict[str, list[_Candidate]] = {}
    for index in sorted(
        places_shown, key=lambda index: rank[candidates[index].document.key]
    ):
        waiting.setdefault(candidates[index].text, []).append(candidates[index])
    showing_of: dict[DocumentKey, tuple[Document, Place]] = {}
    for index in places_shown:
        candidate = waiting[candidates[index].text].pop(0)
        place = located.places[index]
        if candidate.key not in showing_of or len(
            showing_of[candidate.key][1].text
        ) < len(place.text):
            showing_of[candidate.key] = candidate.document, place
    return showing_of


def _untold(
    candidates: Sequence[_Candidate],
    located: Located,
    arrival: Mapping[DocumentKey, object],
) -> list[tuple[_Candidate, Place]]:
    """The candidates of which a prompt does not tell whether it shows them.

    A candidate is left out if another text of its document is shown.
    """
    pairs = zip(candidates, located.places, strict=False)
    return [
        (pair, place)
        for pair, place in pairs
        if place.outcome == "unknown" and pair.document.key not in arrival
    ]


def _unite_showings(
    parts: Iterable[_ShownAlone],
) -> dict[DocumentKey, tuple[Document, Place]]:
    """The showings of several prompts; of a document that several show, the union."""
    showing_of: dict[DocumentKey, tuple[Document, Place]] = {}
    for part in parts:
        for key, showing in part.found.items():
            if key in showing_of:
                showing_of[key] = _unite_showing(showing_of[key], showing)
            else:
                showing_of[key] = showing
    return showing_of


def _unite_showing(
    earlier: tuple[Document, Place], later: tuple[Document, Place]
) -> tuple[Document, Place]:
    """One document in the prompts of two calls.

    If both show the same text of it, what they show counts together. Otherwise the
    fuller showing counts.
    """
    document, place = earlier
    if later[1].is_of_the_text_of(place):
        return document, union([place, later[1]])
    return later if later[1].coverage > place.coverage else earlier


def _with_unknown_between(
    showing_of: Mapping[DocumentKey, object],
    unknown: Mapping[DocumentKey, object],
    lists: Sequence[Sequence[Document]],
) -> list[DocumentKey]:
    """The order of the documents shown, with unknown ones between their neighbours.

    An unknown document stands behind the one before it in the first list that holds a
    shown document.
    """
    order = list(showing_of)
    listed = ([document.key for document in documents] for documents in lists)
    keys: list[DocumentKey] = next(
        (
            documents
            for documents in listed
            if not showing_of.keys().isdisjoint(documents)
        ),
        [],
    )
    for place, key in enumerate(keys):
        if key in unknown and key not in order:
            before = next(
                (before for before in reversed(keys[:place]) if before in order), None
            )
            order.insert(0 if before is None else order.index(before) + 1, key)
    return order


def _best_versions(
    showing_of: Mapping[DocumentKey, tuple[Document, Place]],
) -> dict[DocumentKey, tuple[Document, Place]]:
    """The documents shown, without weaker versions of one id.

    Versions that are shown whole stay. If none is, the one stays of which most is
    shown.
    """
    by_id: dict[str, list[DocumentKey]] = {}
    for key, (document, _) in showing_of.items():
        if document.id is not None:
            by_id.setdefault(document.id, []).append(key)
    hidden: set[DocumentKey] = set()
    for keys in by_id.values():
        whole_keys = [key for key in keys if showing_of[key][1].extent == "whole"]
        best = whole_keys or [max(keys, key=lambda key: len(showing_of[key][1].text))]
        hidden.update(set(keys).difference(best))
    return {key: showing for key, showing in showing_of.items() if key not in hidden}
