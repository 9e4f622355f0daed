"""What became of the passages and facts of one sample, as far as it was noted.

Capturing notes each passage's fate; metrics say which passages are useful and which hold a
fact; citations say what is cited. No text is matched here: of a row of a table, whose fates
nobody noted, ids are compared, else whole texts. What is not known is None, never a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragmetrics_core.data import (
    Cell,
    Context,
    FactMatrix,
    Failed,
    JudgedChunks,
    PassageNote,
    Sample,
    SampleResult,
    Undefined,
)
from ragmetrics_core.data.unread import why_texts_are_unread

Loss = Literal[
    "not_retrieved",
    "missing",
    "not_kept",
    "not_shown",
    "cut",
    "not_useful",
    "not_cited",
]
"""How a passage or a fact may be lost, in the order of the stages."""
Showing = Literal["whole", "cut", "not shown"]

COUNTS = (
    "passages_retrieved",
    "passages_kept",
    "passages_shown",
    "passages_cut",
    "passages_useful",
    "passages_cited",
    "facts_asked",
    "facts_retrieved",
    "facts_shown",
)
"""Names of the columns that a table has of the journey of each row."""

_NOT_RETRIEVED = (
    "what was retrieved was not recorded: give the column retrieved, or capture the run"
)
_NOT_SHOWN = "what the model was shown was not recorded"
_NO_PROMPT_TELLS = (
    "no recorded prompt of the answer holds a retrieved text; see whether the prompt has"
    " a place for the contexts"
)
_SOME_UNTOLD = "of some passages the prompt does not tell"
_NO_STEP = "no step between search and prompt was recorded"
_NOBODY_JUDGED_USE = "no metric judged whether passages are useful"
_NOBODY_ASKED_FACTS = "no metric asked which facts of a reference were retrieved"
_OTHER_TEXTS = "facts were judged over other texts than the sample holds"
_UNASKED = (
    "the model may have been shown texts of which nobody asked whether they hold the"
    " facts, such as a tool's, those of earlier turns, or contexts that were not retrieved"
)
_JUDGE_DOES_NOT_TELL = "of some passages the judge or the prompt does not tell"


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage on its way; None where something is not known.

    Args:
        rank: Among the retrieved, from 1; None if what was retrieved is not known, or
            for one that was found inside a retriever and that it did not hand on.
        id: The store's own id.
        retriever: The call that found it first.
        retriever_rank: Its rank there, from 1.
        kept: Whether rerankers and filters handed it on.
        rank_kept: Its rank behind the last of them, from 1.
        dropped_by: The name of the one that did not.
        shown: Whether the model was shown it, whole or cut.
        share: The share of its letters that was shown.
        context: Rank of the context that shows it, from 1.
        useful: Whether it was judged useful.
        cited: Whether the answer cites it.
    """

    rank: int | None = None
    id: str | None = None
    retriever: str | None = None
    retriever_rank: int | None = None
    kept: bool | None = None
    rank_kept: int | None = None
    dropped_by: str | None = None
    shown: Showing | None = None
    share: float | None = None
    context: int | None = None
    useful: bool | None = None
    cited: bool | None = None

    @property
    def was_shown(self) -> bool:
        """True if the model was shown it, or a part of it."""
        return self.shown in ("whole", "cut")

    @property
    def lost(self) -> Loss | None:
        """The stage that lost the passage; None if it passed all stages that are known.

        A passage that was cut is not lost.
        """
        if self.kept is False:
            return "not_kept"
        if self.shown == "not shown":
            return "not_shown"
        if self.useful is False:
            return "not_useful"
        if self.cited is False:
            return "not_cited"
        return None


@dataclass(frozen=True, slots=True)
class FactOnItsWay:
    """A fact of the reference; None where something is not known of it.

    Args:
        number: Its number, from 1.
        passages: Ranks of the passages that hold it, from 1.
        retrieved: Whether a search found it.
        kept: Whether rerankers and filters handed on a passage that holds it.
        shown: Whether the model was shown it.
    """

    number: int
    passages: tuple[int, ...] = ()
    retrieved: bool | None = None
    kept: bool | None = None
    shown: bool | None = None

    @property
    def lost(self) -> Loss | None:
        """The stage that lost it; None if it was shown, or too little is known."""
        if self.retrieved is False:
            return "not_retrieved"
        if self.kept is False:
            return "not_kept"
        if self.shown is False:
            return "not_shown" if self.retrieved else "missing"
        return None

    @property
    def known(self) -> bool:
        """Whether it is known what became of it."""
        return self.shown is True or self.lost is not None


@dataclass(frozen=True, slots=True)
class SampleJourney:
    """What became of the passages and facts of one sample.

    Args:
        passages: The retrieved ones in order; where these are not known, the contexts.
        facts: Those that RetrievalAccuracy asked about; () if nobody asked.
        unknown: By stage why something is not known of it: ``retrieved``, ``kept``,
            ``shown``, ``useful``, ``cited``, ``facts``.
    """

    passages: tuple[Passage, ...] = ()
    facts: tuple[FactOnItsWay, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


def journey_of(row: SampleResult) -> SampleJourney | None:
    """Follow the passages and facts of one row from the search to the answer.

    None for a row that is no sample, or whose application failed.
    Example: passage 1 shown, useful and cited; fact 2 lost as "not_retrieved".
    """
    sample = row.sample
    if sample is None or row.problem or sample.error is not None:
        return None
    unknown: dict[str, str] = {}  # by stage; the steps below add to it
    judged = _Judged(_useful_by_rank(row, unknown), _ranks_cited(sample, unknown))
    passages = _passages(sample, judged, unknown)
    facts = tuple(_facts(row, sample, passages, unknown))
    return SampleJourney(tuple(passages), facts, unknown)


# What was judged of the contexts


@dataclass(frozen=True, slots=True)
class _Judged:
    """What was judged of the contexts, by their ranks from 1; None: not known.

    Attributes:
        useful_by_rank: Whether a context was judged useful.
        ranks_cited: The contexts that the answer cites.
    """

    useful_by_rank: Mapping[int, bool | None]
    ranks_cited: set[int] | None

    def is_useful(self, rank: int | None) -> bool | None:
        """Whether the context at a rank is useful."""
        return None if rank is None else self.useful_by_rank.get(rank)

    def is_cited(self, rank: int | None) -> bool | None:
        """Whether the answer cites the context at a rank."""
        if rank is None or self.ranks_cited is None:
            return None
        return rank in self.ranks_cited


def _useful_by_rank(
    row: SampleResult, unknown: dict[str, str]
) -> Mapping[int, bool | None]:
    """Return by rank of a context whether it was judged useful; {} if nobody judged."""
    for result in row.results.values():
        if isinstance(result.evidence, JudgedChunks):
            return {chunk.rank: chunk.useful for chunk in result.evidence.chunks}
    reason = _why_not_scored(row, "context_utilization")
    unknown["useful"] = reason or _NOBODY_JUDGED_USE
    return {}


def _why_not_scored(row: SampleResult, metric: str) -> str:
    """Why a metric that was asked gave no score, in words; "" if it was not asked."""
    for result in row.results.values():
        if result.metric == metric and isinstance(result, Undefined):
            return f"{metric} gave no score: {result.reason}"
        if result.metric == metric and isinstance(result, Failed):
            return f"{metric} failed"
    return ""


def _ranks_cited(sample: Sample, unknown: dict[str, str]) -> set[int] | None:
    """Return the ranks of the contexts that the answer cites; None if it is not known."""
    if sample.citations is None:
        unknown["cited"] = sample.citations_unknown
        return None
    ranks: set[int] = set()
    for citation in sample.citations:
        ranks.update(index + 1 for index in citation.contexts)
    return ranks


# The passages


def _passages(
    sample: Sample, judged: _Judged, unknown: dict[str, str]
) -> list[Passage]:
    """Make a passage of each retrieved text; where these are not known, of each context.

    What a retriever found inside itself and did not hand on comes last.
    """
    why_showing_unknown = _why_showing_unknown(sample)
    if why_showing_unknown:
        unknown["shown"] = why_showing_unknown
    if sample.retrieved is None:
        unknown["retrieved"] = unknown["kept"] = _why_retrieval_unknown(sample)
        contexts = () if why_showing_unknown else sample.known_contexts
        return [
            Passage(
                id=context.id,
                shown="whole",
                context=rank,
                useful=judged.is_useful(rank),
                cited=judged.is_cited(rank),
            )
            for rank, context in enumerate(contexts, start=1)
            if not context.blank
        ]
    notes = _notes(sample)
    passages = [
        _passage(rank, sample, notes[rank - 1], judged, bool(why_showing_unknown))
        for rank in range(1, len(notes) + 1)
    ]
    if any(passage.shown is None for passage in passages):
        unknown.setdefault("shown", _why_some_untold(notes))
    passages += _dropped_inside(sample)
    if passages and all(passage.kept is None for passage in passages):
        unknown["kept"] = _NO_STEP
    return passages


def _why_retrieval_unknown(sample: Sample) -> str:
    """Why it is not known which passages were retrieved."""
    unread = why_texts_are_unread(sample)
    if unread:
        return f"what was found was not recorded: {unread}"
    if sample.capture is not None and sample.capture.grade is not None:
        return "the run recorded no search that brought a text"
    return _NOT_RETRIEVED


def _why_showing_unknown(sample: Sample) -> str:
    """Why it is not known what the model was shown, in words; "" if it is."""
    notes = sample.capture
    # a row of a table may have notes that hold no more than why its marks are not read
    if notes is None or (notes.grade is None and notes.evidence_from is None):
        return _NOT_SHOWN if sample.contexts is None else ""
    if notes.evidence_from in ("prompt", "named"):
        return ""
    if notes.evidence_from == "flow" and not sample.contexts:
        return ""  # nothing was found, or nothing was kept
    is_nothing_shown = bool(notes.passages) and all(
        passage.share == 0 for passage in notes.passages or ()
    )
    return "" if is_nothing_shown else _NO_PROMPT_TELLS


def _why_some_untold(notes: Iterable[PassageNote]) -> str:
    """Why it is not known of some passages whether they were shown."""
    for note in notes:
        if note.why_unknown:
            return f"of some passages: {note.why_unknown}"
        if note.written_anew_by:
            return f"{note.written_anew_by} gave documents in other words than it took"
    return _SOME_UNTOLD


def _notes(sample: Sample) -> Sequence[PassageNote]:
    """Return a note on each retrieved passage: that of the capture, else by ids and texts."""
    retrieved = sample.retrieved or ()
    noted = None if sample.capture is None else sample.capture.passages
    if noted is not None and len(noted) == len(retrieved):
        return noted
    return _notes_by_equality(retrieved, sample.known_contexts)


def _notes_by_equality(
    retrieved: Sequence[Context], contexts: Sequence[Context]
) -> list[PassageNote]:
    """Compare retrieved passages with contexts by id, else by whole text.

    A passage of which no context has the id or text was not shown only if each context is
    another passage: else some context may be this passage in another form.
    """
    index_by_id = _index_by_unique_id(contexts)
    index_by_text: dict[str, int] = {}
    for index, context in enumerate(contexts):
        index_by_text.setdefault(context.text, index)
    ids_of_passages = _index_by_unique_id(retrieved)
    notes: list[PassageNote] = []
    for passage in retrieved:
        place = index_by_text.get(passage.text)
        if place is not None:
            notes.append(PassageNote(context=place, share=1.0))
        elif passage.id in ids_of_passages and passage.id in index_by_id:
            notes.append(PassageNote(context=index_by_id[passage.id]))
        else:
            notes.append(PassageNote())
    texts_of_passages = {passage.text for passage in retrieved}
    places_shown = {note.context for note in notes}
    if all(
        place in places_shown or context.text in texts_of_passages
        for place, context in enumerate(contexts)
    ):
        not_shown = PassageNote(share=0.0)
        return [not_shown if note.context is None else note for note in notes]
    return notes


def _index_by_unique_id(contexts: Sequence[Context]) -> dict[str | None, int]:
    """Return the index of each context by its id; an id that stands twice names nothing."""
    n_by_id = Counter(context.id for context in contexts)
    return {
        context.id: index
        for index, context in enumerate(contexts)
        if context.id is not None and n_by_id[context.id] == 1
    }


def _passage(
    rank: int,
    sample: Sample,
    note: PassageNote,
    judged: _Judged,
    is_showing_unknown: bool,
) -> Passage:
    """Make the passage of a retrieved text from the note on it, and what was judged."""
    retrieved = sample.retrieved or ()
    shown = None if is_showing_unknown else _showing(note, sample)
    was_shown = shown in ("whole", "cut")
    context = None if note.context is None else note.context + 1
    return Passage(
        rank=rank,
        id=retrieved[rank - 1].id,
        retriever=note.retriever,
        retriever_rank=note.rank,
        # what was shown was kept, whatever step dropped it on another way
        kept=True if was_shown and note.kept is not None else note.kept,
        rank_kept=note.rank_kept,
        dropped_by=None if was_shown else note.dropped_by,
        shown=shown,
        share=None if shown is None else note.share,
        context=context,
        useful=judged.is_useful(context) if was_shown else None,
        cited=judged.is_cited(context) if was_shown else None,
    )


def _showing(note: PassageNote, sample: Sample) -> Showing | None:
    """Say from a note how a passage was shown; None if that is not sure."""
    if note.share is None:
        return None
    if note.share == 0:
        return "not shown"
    if note.share >= 1:
        return "whole"
    # a doubt in_part says that the prompt may hold the rest in other words
    is_doubted = sample.capture is not None and "in_part" in sample.capture.doubts
    return None if is_doubted else "cut"


def _dropped_inside(sample: Sample) -> Iterator[Passage]:
    """Yield the passages that retrievers found inside themselves and did not hand on.

    Older results files only hold their number.
    """
    notes = sample.capture
    if notes is None:
        return
    for noted in notes.passages_dropped_inside or ():
        yield Passage(
            id=noted.id,
            retriever=noted.retriever,
            retriever_rank=noted.rank,
            kept=False,
            dropped_by=noted.dropped_by,
        )
    if not notes.passages_dropped_inside:
        for name, n_dropped in (notes.dropped_inside or {}).items():
            yield from [Passage(kept=False, dropped_by=name)] * n_dropped


# The facts


def _facts(
    row: SampleResult,
    sample: Sample,
    passages: Sequence[Passage],
    unknown: dict[str, str],
) -> Iterator[FactOnItsWay]:
    """Yield what became of each fact that was asked about; nothing if nobody asked.

    If something is not known of a fact, ``unknown`` gets the reason, as "facts".
    """
    matrix = _fact_matrix(row)
    if matrix is None:
        reason = _why_not_scored(row, "retrieval_accuracy")
        unknown["facts"] = reason or _NOBODY_ASKED_FACTS
        return
    asked = sample.known_contexts if sample.retrieved is None else sample.retrieved
    # behind the retrieved texts stand those of other contexts, which were asked as well
    n_further = min((len(cells) for cells in matrix.cells), default=0) - len(asked)
    if n_further < 0 or (n_further > 0 and sample.retrieved is None):
        unknown["facts"] = _OTHER_TEXTS
        return
    n_retrieved = len(asked)
    if n_further:
        asked = (*asked, *sample.known_contexts)
    why_unasked = why_texts_are_unread(sample) or _why_unasked(sample, passages, asked)
    for number, cells in enumerate(matrix.cells, start=1):
        if sample.retrieved is None:
            fact = _fact_in_contexts(number, cells, "shown" not in unknown)
        elif any(cell.covered for cell in cells[n_retrieved:]):
            # what was shown was found and kept
            fact = FactOnItsWay(number, retrieved=True, kept=True, shown=True)
        else:
            fact = _fact_in_retrieved(number, cells[:n_retrieved], sample, passages)
        if why_unasked and fact.lost is not None:
            fact = FactOnItsWay(number, fact.passages, fact.retrieved or None)
            unknown.setdefault("facts", why_unasked)
        if not fact.known:
            unknown.setdefault("facts", unknown.get("shown", _JUDGE_DOES_NOT_TELL))
        yield fact


def _fact_matrix(row: SampleResult) -> FactMatrix | None:
    """Which facts the texts hold, of the first metric that asked for it; else None."""
    for result in row.results.values():
        if isinstance(result.evidence, FactMatrix):
            return result.evidence
    return None


def _why_unasked(
    sample: Sample, passages: Iterable[Passage], asked: Iterable[Context]
) -> str:
    """Why a fact may stand in a text that nobody asked about; "" if there is no such text.

    A context that is a part of a retrieved passage was asked about with it.
    """
    asked = list(asked)
    texts = {context.text for context in asked}
    ids = {context.id for context in asked if context.id is not None}
    ranks_of_parts = {passage.context for passage in passages if passage.shown == "cut"}
    for rank, context in enumerate(sample.known_contexts, start=1):
        if context.text not in texts and rank not in ranks_of_parts:
            return _UNASKED
    ledger = sample.ledger
    for call in () if ledger is None else ledger.calls:
        if call.kind == "written":  # the words of a model are no evidence
            continue
        for index, item in enumerate(call.items):
            was_shown = call.shown is None or index in call.shown
            is_asked = item.text in texts or item.id in ids
            if was_shown and not is_asked:
                return _UNASKED
    return ""


def _fact_in_contexts(
    number: int, cells: Sequence[Cell], is_showing_known: bool
) -> FactOnItsWay:
    """Say whether the model was shown a fact, where the contexts are all that is known."""
    holders = _ranks_of_holders(cells)
    if not is_showing_known:
        return FactOnItsWay(number, holders)
    is_judged_on_all = all(cell.probability is not None for cell in cells)
    return FactOnItsWay(
        number,
        holders,
        shown=True if holders else (False if is_judged_on_all else None),
    )


def _fact_in_retrieved(
    number: int, cells: Sequence[Cell], sample: Sample, passages: Sequence[Passage]
) -> FactOnItsWay:
    """Say how far a fact came: as far as the passage that holds it and came farthest.

    A fact that no retrieved passage holds may stand in what a retriever found inside itself
    and did not hand on: nobody asks about that.
    """
    ranks = _ranks_of_holders(cells)
    if not ranks:
        is_judged_on_all = all(cell.probability is not None for cell in cells)
        is_all_asked = is_judged_on_all and not _has_kept_inside(sample)
        return FactOnItsWay(number, retrieved=False if is_all_asked else None)
    holders = [passage for passage in passages if passage.rank in ranks]
    return FactOnItsWay(
        number,
        ranks,
        retrieved=True,
        kept=_any_known(passage.kept for passage in holders),
        shown=_any_known(_shows_all(passage) for passage in holders),
    )


def _ranks_of_holders(cells: Sequence[Cell]) -> tuple[int, ...]:
    return tuple(rank for rank, cell in enumerate(cells, start=1) if cell.covered)


def _shows_all(passage: Passage) -> bool | None:
    """Whether the model was shown a passage whole; None of a part, which may hold a fact."""
    if passage.kept is False or passage.shown == "not shown":
        return False
    return True if passage.shown == "whole" else None


def _any_known(values: Iterable[bool | None]) -> bool | None:
    """True if any value is; None if none is, and one is not known; else False."""
    known = list(values)
    if True in known:
        return True
    return None if None in known else False


def _has_kept_inside(sample: Sample) -> bool:
    """Whether a retriever found more inside itself than it handed on."""
    notes = sample.capture
    if notes is None:
        return False
    return bool(notes.dropped_inside or notes.passages_dropped_or_cut)


# Counts for tables


def counts_of(row: SampleResult) -> dict[str, int | None]:
    """Count what passed each stage of one row, by ``COUNTS``; None: not known."""
    return counts_of_journey(journey_of(row))


def counts_of_journey(journey: SampleJourney | None) -> dict[str, int | None]:
    """Count what passed each stage of a journey, by ``COUNTS``; None: not known.

    Example: of 5 retrieved passages a filter dropped 2, and citations are not known:
    passages_retrieved 5, passages_kept 3, passages_cited None.
    """
    counts: dict[str, int | None] = dict.fromkeys(COUNTS)
    if journey is None:
        return counts
    passages = journey.passages
    retrieved = [passage for passage in passages if passage.rank is not None]
    shown = [passage for passage in passages if passage.was_shown]
    n_kept = sum(passage.kept is not False for passage in retrieved)
    n_cut = sum(passage.shown == "cut" for passage in shown)
    n_useful = sum(passage.useful is True for passage in shown)
    n_cited = sum(passage.cited is True for passage in shown)
    for name, count, stages in (
        ("passages_retrieved", len(retrieved), ("retrieved",)),
        ("passages_kept", n_kept, ("kept",)),
        ("passages_shown", len(shown), ("shown",)),
        ("passages_cut", n_cut, ("shown",)),
        ("passages_useful", n_useful, ("shown", "useful")),
        ("passages_cited", n_cited, ("shown", "cited")),
    ):
        # a count is known only if the stages that it rests on are
        if not any(stage in journey.unknown for stage in stages):
            counts[name] = count
    return {**counts, **_counts_of_facts(journey.facts)}


def _counts_of_facts(facts: Sequence[FactOnItsWay]) -> dict[str, int]:
    """Count the facts that were asked about, retrieved, and shown; what is known of each."""
    if not facts:
        return {}
    counts = {"facts_asked": len(facts)}
    if all(fact.retrieved is not None for fact in facts):
        counts["facts_retrieved"] = sum(fact.retrieved is True for fact in facts)
    if all(fact.known for fact in facts):
        counts["facts_shown"] = sum(fact.shown is True for fact in facts)
    return counts
