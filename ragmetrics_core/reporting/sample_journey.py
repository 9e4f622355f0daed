"""What became of the passages and facts of one sample, as far as it was recorded and judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ragmetrics_core.data import (
    Cell,
    Context,
    FactMatrix,
    JudgedChunks,
    PassageNote,
    Sample,
    SampleResult,
)
from ragmetrics_core.data.citations import UNREAD_FORM, cited_statements, may_name_more
from ragmetrics_core.reporting.passage_matching import (
    holds_most,
    parts_shown,
    sentences_resting,
    words_of,
)

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

WHOLE = 0.98
"""From this share of its letters on, a passage counts as shown whole."""

_NOT_RETRIEVED = (
    "what was retrieved was not recorded: give the column retrieved, or capture the run"
)
_ANEW = (
    "{} gave documents in other words than those that it took, so that it is not known"
    " what became of each"
)
# How contexts must be known for it to be known what was shown.
_SEEN_IN_PROMPT = ("prompt", "undivided", "named")


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage on its way; None where something is not known.

    Args:
        rank: Among the retrieved, from 1; None if what was retrieved is not known, or
            for one that a retriever found inside and did not hand on.
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
        sentences: Numbers of the answer's sentences that rest on it, from 1, where
            adherence was judged by words.
        holds_uncited_words: Whether it is not cited, and most words of a sentence of
            the answer stand in it and in no cited passage.
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
    sentences: tuple[int, ...] = ()
    holds_uncited_words: bool = False

    @property
    def was_shown(self) -> bool:
        """True if the model was shown it, or a part of it."""
        return self.shown in ("whole", "cut")

    @property
    def lost(self) -> Loss | None:
        """At which stage it was lost; None if it passed all of which something is known.

        One that was cut goes on.
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
    """A fact of the reference.

    Args:
        number: Its number, from 1.
        lost: Where it was lost: ``cut`` if only passages hold it of which a part was
            shown, and nobody asked whether that part holds it; None if it was shown, or
            nothing is known.
        known: Whether it is known what became of it.
        passages: Ranks of the passages that hold it, from 1.
    """

    number: int
    lost: Loss | None
    known: bool
    passages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleJourney:
    """What became of the passages and facts of one sample.

    Args:
        passages: The retrieved ones in order; where these are not known, the contexts.
        facts: Those that RetrievalAccuracy asked about; () if nobody asked.
        unknown: By stage why nothing is known of it: ``retrieved``, ``kept``,
            ``shown``, ``useful``, ``cited``, ``facts``.
    """

    passages: tuple[Passage, ...] = ()
    facts: tuple[FactOnItsWay, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        """True if facts were asked about, and it is known of each what became of it."""
        return bool(self.facts) and all(fact.known for fact in self.facts)


def journey_of(row: SampleResult) -> SampleJourney | None:
    """Follow the passages and facts of one row from the search to the answer.

    Returns:
        What became of each passage and fact, and why something is not known. None for
        a row that is no sample, or whose application failed.
    """
    sample = row.sample
    if sample is None or row.problem or sample.error is not None:
        return None
    unknown: dict[str, str] = {}
    passages = _on_their_way(sample, unknown)
    useful_by_rank = _useful_by_rank(row, unknown)
    ranks_cited = _ranks_cited(sample, unknown)
    ranks_with_uncited_words = _ranks_with_uncited_words(sample, ranks_cited)
    sentences_by_rank = sentences_resting(row)
    judged_passages = []
    for passage in passages:
        is_useful = None  # not known, like all of what the model was not shown
        is_cited = None
        if passage.was_shown:
            is_useful = useful_by_rank.get(passage.context)
            if ranks_cited is not None:
                is_cited = passage.context in ranks_cited
        context_rank = passage.context or 0  # ranks begin with 1: 0 is that of none
        sentences = sentences_by_rank.get(context_rank, ())
        judged_passages.append(
            replace(
                passage,
                useful=is_useful,
                cited=is_cited,
                sentences=sentences,
                holds_uncited_words=is_cited is False
                and context_rank in ranks_with_uncited_words,
            )
        )
    facts = _facts(row, sample, judged_passages, unknown)
    return SampleJourney(tuple(judged_passages), facts, unknown)


# Of one sample: what was recorded


def _on_their_way(sample: Sample, unknown: dict[str, str]) -> list[Passage]:
    """The passages of a sample: how each was ranked, kept and shown, where it is known.

    What is not known is added to ``unknown``: by stage ("retrieved", "kept", "shown"),
    why. Without retrieved passages they are those of the contexts.
    """
    why_not_seen = _why_not_seen(sample)
    if why_not_seen:
        unknown["shown"] = why_not_seen
    if sample.retrieved is None:
        reason = _why_not_retrieved(sample)
        unknown["retrieved"] = reason
        unknown["kept"] = reason
        return [] if why_not_seen else list(_passages_of_contexts(sample))
    numbered = enumerate(zip(sample.retrieved, _notes(sample), strict=True), start=1)
    passages = [_passage(rank, document, note) for rank, (document, note) in numbered]
    if why_not_seen:
        passages = [replace(passage, shown=None, share=None) for passage in passages]
    elif any(passage.shown is None for passage in passages):
        unknown["shown"] = _why_not_told(sample)
    passages = _with_dropped_inside(passages, sample)
    if passages and all(passage.kept is None for passage in passages):
        unknown["kept"] = "no step between search and prompt was recorded"
        writers = _writers(sample)
        if writers:
            unknown["kept"] = _ANEW.format(writers[0])
    return passages


def _why_not_retrieved(sample: Sample) -> str:
    """Why it is not known which passages were retrieved."""
    notes = sample.capture
    if notes is not None and notes.evidence_from == "undivided":
        return "a tool returned one text, which nobody divided into passages"
    if notes is not None and notes.grade is not None:
        return "the run recorded no search"
    return _NOT_RETRIEVED


def _why_not_told(sample: Sample) -> str:
    """Why it is not known of some passages whether they were shown."""
    writers = _writers(sample)
    if writers:
        return _ANEW.format(writers[0])
    return "of some passages the prompt does not tell"


def _why_not_seen(sample: Sample) -> str:
    """Why it is not known what the model was shown, in words; "" if it is."""
    notes = sample.capture
    # a row of a table may have notes that hold no more than why its marks are not read
    if notes is None or (notes.grade is None and notes.evidence_from is None):
        recorded = "contexts" in sample.model_fields_set
        return "" if recorded else "what the model was shown was not recorded"
    if notes.evidence_from == "none_found":
        return ""
    if notes.evidence_from not in _SEEN_IN_PROMPT:
        return "no prompt tells what the model was shown"
    return ""


def _passages_of_contexts(sample: Sample) -> Iterable[Passage]:
    """The contexts, which were shown in the words that they hold."""
    for rank, context in enumerate(sample.contexts, start=1):
        if not context.blank:
            yield Passage(id=context.id, shown="whole", context=rank)


def _notes(sample: Sample) -> Sequence[PassageNote]:
    """What is known of each retrieved passage: recorded, else read off the texts."""
    retrieved = sample.retrieved or ()
    recorded = sample.capture.passages if sample.capture is not None else None
    if recorded is not None and len(recorded) == len(retrieved):
        return recorded
    return [
        PassageNote(context=context, share=share)
        for context, share in parts_shown(retrieved, sample.contexts)
    ]


def _passage(rank: int, document: Context, note: PassageNote) -> Passage:
    showing = _showing(note.share)
    was_shown = showing in ("whole", "cut")
    return Passage(
        rank=rank,
        id=document.id,
        retriever=note.retriever,
        retriever_rank=note.rank,
        # what was shown was kept, whatever step dropped it on another way
        kept=True if was_shown and note.kept is not None else note.kept,
        rank_kept=note.rank_kept,
        dropped_by=None if was_shown else note.dropped_by,
        shown=showing,
        share=note.share,
        context=None if note.context is None else note.context + 1,
    )


def _showing(share: float | None) -> Showing | None:
    if share is None:
        return None
    if share == 0:
        return "not shown"
    return "whole" if share >= WHOLE else "cut"


def _with_dropped_inside(passages: Sequence[Passage], sample: Sample) -> list[Passage]:
    """The passages, and behind them those that a retriever's inner searches found only.

    The retriever did not hand these on, and nothing else is known of them. The
    passages that the same retriever gave are marked as kept.
    """
    notes = sample.capture
    # by name of the retriever, how many passages it did not hand on
    n_dropped_by_name: Mapping[str, int] = {}
    if notes is not None and notes.dropped_inside:
        n_dropped_by_name = notes.dropped_inside
    all_passages = []
    for passage in passages:
        was_handed_on = passage.retriever in n_dropped_by_name
        if passage.kept is None and was_handed_on:
            all_passages.append(replace(passage, kept=True))
        else:
            all_passages.append(passage)
    for name, n_dropped in n_dropped_by_name.items():
        all_passages += [Passage(kept=False, dropped_by=name)] * n_dropped
    return all_passages


# Of one sample: what was judged


def _useful_by_rank(
    row: SampleResult, unknown: dict[str, str]
) -> Mapping[int | None, bool | None]:
    """By rank of a context whether it was judged useful.

    Without such a metric it is empty, and ``unknown["useful"]`` says why.
    """
    for result in row.results.values():
        if isinstance(result.evidence, JudgedChunks):
            return {chunk.rank: chunk.useful for chunk in result.evidence.chunks}
    unknown["useful"] = "no metric judged whether passages are useful"
    return {}


def _ranks_cited(sample: Sample, unknown: dict[str, str]) -> set[int | None] | None:
    """Ranks of the contexts that the answer cites; None if that is not known."""
    if sample.citations is None:
        unknown["cited"] = sample.citations_unknown
        return None
    if may_name_more(sample.answer, sample.citations):
        unknown["cited"] = UNREAD_FORM
        return None
    return {place + 1 for citation in sample.citations for place in citation.contexts}


def _ranks_with_uncited_words(
    sample: Sample, ranks_cited: set[int | None] | None
) -> set[int]:
    """Ranks of contexts that hold a sentence of the answer which no cited one holds.

    Words of the question do not count, so that an answer that declines holds none.
    """
    if ranks_cited is None:
        return set()
    asked = set(words_of(sample.question or ""))
    words_by_rank = {
        rank: set(words_of(context.text))
        for rank, context in enumerate(sample.contexts, start=1)
    }
    ranks: set[int] = set()
    for statement in cited_statements(sample.answer, sample.citations or ()):
        words = set(words_of(statement.text)) - asked
        holders = {
            rank for rank, held in words_by_rank.items() if holds_most(words, held)
        }
        if ranks_cited.isdisjoint(holders):
            ranks |= holders
    return ranks


def _facts(
    row: SampleResult,
    sample: Sample,
    passages: Sequence[Passage],
    unknown: dict[str, str],
) -> tuple[FactOnItsWay, ...]:
    """What became of each fact of the reference.

    The facts come from a metric that asked of each passage which facts it holds. Where
    none did, or it asked of other texts, there are none, and ``unknown["facts"]`` says
    why.
    """
    matrix = _fact_matrix(row)
    if matrix is None:
        unknown["facts"] = "no metric asked which facts of a reference were retrieved"
        return ()
    searched = sample.contexts if sample.retrieved is None else sample.retrieved
    if any(len(cells) != len(searched) for cells in matrix.cells):
        unknown["facts"] = "facts were judged over other texts than the sample holds"
        return ()
    facts = [
        _fact(number, cells, sample, passages)
        for number, cells in enumerate(matrix.cells, start=1)
    ]
    if not all(fact.known for fact in facts):
        unknown["facts"] = _why_facts_are_unknown(sample, passages)
    return tuple(facts)


def _fact_matrix(row: SampleResult) -> FactMatrix | None:
    """Which facts the texts hold, of the first metric that asked for it; else None."""
    for result in row.results.values():
        if isinstance(result.evidence, FactMatrix):
            return result.evidence
    return None


def _fact(
    number: int, cells: Sequence[Cell], sample: Sample, passages: Sequence[Passage]
) -> FactOnItsWay:
    """What became of one fact, by the judge's verdict on each passage or context.

    Args:
        number: The fact's number, from 1.
        cells: For each retrieved passage (else for each context) whether it holds the
            fact.
        sample: The sample.
        passages: Its passages, with what became of each.
    """
    ranks_holding = tuple(
        rank for rank, cell in enumerate(cells, start=1) if cell.covered
    )
    answered = all(cell.probability is not None for cell in cells)
    if sample.retrieved is None:
        is_known, lost = _fate_in_contexts(sample, bool(ranks_holding), answered)
    else:
        holders = [passage for passage in passages if passage.rank in ranks_holding]
        is_known, lost = _through_stages(holders, answered)
        # it may stand in what a search found and nobody asked about
        may_be_found = _why_it_may_be_found(sample, passages) != ""
        if lost == "not_retrieved" and may_be_found:
            is_known, lost = False, None
    return FactOnItsWay(number, lost, is_known, ranks_holding)


def _why_facts_are_unknown(sample: Sample, passages: Sequence[Passage]) -> str:
    """Why it is not known of some fact what became of it."""
    return _why_it_may_be_found(sample, passages) or (
        "of some passages the judge or the prompt does not tell"
    )


def _why_it_may_be_found(sample: Sample, passages: Sequence[Passage]) -> str:
    """Why a fact that is in no retrieved text may have been found; "" if it was not."""
    droppers = _droppers_inside(passages)
    if droppers:
        return (
            "nobody asked whether a fact stood in what searches inside"
            f" {droppers[0]} found and it did not hand on"
        )
    writers = _writers(sample)
    if writers:
        return (
            f"{writers[0]} gave documents in other words than those that it took, and"
            " nobody asked which facts stand in either"
        )
    return ""


def _writers(sample: Sample) -> list[str]:
    """Names of steps that wrote documents anew, of which a passage may be one now."""
    names = [note.written_anew_by for note in _notes(sample)]
    return [name for name in dict.fromkeys(names) if name is not None]


def _droppers_inside(passages: Sequence[Passage]) -> list[str]:
    """Names of retrievers that did not hand on what searches inside them found."""
    return [
        passage.dropped_by
        for passage in passages
        if passage.rank is None and passage.dropped_by
    ]


def _fate_in_contexts(
    sample: Sample, is_held: bool, answered: bool
) -> tuple[bool, Loss | None]:
    """Whether it is known what became of a fact that was sought in the contexts, and its loss."""
    if _why_not_seen(sample) or not (is_held or answered):
        return False, None
    return True, None if is_held else "missing"


def _through_stages(
    holders: Sequence[Passage], answered: bool
) -> tuple[bool, Loss | None]:
    """Whether it is known what became of a fact, and at which stage it was lost.

    The most that any of the passages reached counts: one that was shown whole is
    enough. The loss is None if the fact was shown whole, or nothing is known.

    Args:
        holders: The retrieved passages that hold the fact.
        answered: Whether the judge said of each passage if it holds the fact. Else a
            fact without a holder may be in a passage that was not judged.
    """
    if not holders:
        if answered:
            return True, "not_retrieved"
        return False, None
    showings = {passage.shown for passage in holders}  # None: it is not known how
    if "whole" in showings:
        return True, None
    may_reach_prompt = any(passage.kept is not False for passage in holders)
    if None in showings and may_reach_prompt:
        return False, None
    if "cut" in showings:
        return True, "cut"
    if all(passage.kept is False for passage in holders):
        return True, "not_kept"
    return True, "not_shown"
