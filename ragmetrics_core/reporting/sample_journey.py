"""What became of the passages and facts of one sample, as far as that is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from ragmetrics_core.data import (
    CaptureNotes,
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
from ragmetrics_core.data.citations import UNREAD_FORM, may_name_more
from ragmetrics_core.data.unread import why_texts_are_unread
from ragmetrics_core.reporting.passage_matching import (
    parts_shown,
    ranks_with_uncited_words,
    sentences_by_context_rank,
)
from ragmetrics_core.reporting.shown_parts import (
    are_words_cut_away,
    join_pieces,
    with_small_gaps_filled,
)
from ragmetrics_core.reporting.unasked_texts import (
    UnaskedTexts,
    states_word_by_word,
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

WHOLE = 1.0
"""The share of a passage that is shown whole; one that lacks a word was cut."""

_NOT_RETRIEVED = (
    "what was retrieved was not recorded: give the column retrieved, or capture the run"
)
_NO_PROMPT_TELLS = (
    "no recorded prompt of the answer holds a retrieved text, so that no prompt tells what"
    " the model was shown; see whether the prompt has a place for the contexts"
)
_REWRITTEN = (
    "{} gave documents in other words than those that it took, so that it is not known"
    " what became of each"
)
_JUDGE_DOES_NOT_TELL = "of some passages the judge or the prompt does not tell"
_PART_WAS_NOT_ASKED = (
    "of some passages a part was shown, and nobody asked whether this part holds the"
    " facts"
)
_OF_USEFULNESS = "context_utilization"  # the metric that tells what is useful
_OF_FACTS = "retrieval_accuracy"  # the metric that tells which facts were retrieved
_NOBODY_JUDGED_USE = "no metric judged whether passages are useful"
_NOBODY_ASKED_FACTS = "no metric asked which facts of a reference were retrieved"
_NO_FACTS_GIVEN = (
    "nothing was retrieved, and nobody divided the reference into facts: give them as"
    " facts, and let RetrievalAccuracy ask"
)
_NO_RANK = 0  # of a passage that no context shows; ranks begin with 1
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
        may_be_whole: Of a passage shown in part: whether only a few words lack, in whose
            place the prompt may have others. Then it is not known that it was cut.
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
    may_be_whole: bool = False
    holds_uncited_words: bool = False

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
    """A fact of the reference.

    Args:
        number: Its number, from 1.
        lost: Where it was lost. ``cut``: the passages that hold it were shown in part,
            and its words stand in the part that was cut away. None: it was shown, or
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
    def knows_every_fact(self) -> bool:
        """True if facts were asked about, and it is known of each what became of it."""
        return bool(self.facts) and all(fact.known for fact in self.facts)

    @property
    def n_facts_unknown(self) -> int:
        """Of how many facts it is not known what became of them."""
        return sum(not fact.known for fact in self.facts)

    @property
    def n_passages_unknown(self) -> int:
        """Of how many retrieved passages it is not known whether the model was shown them.

        Passages that a step dropped are left out.
        """
        return sum(
            passage.rank is not None
            and passage.kept is not False
            and passage.shown is None
            for passage in self.passages
        )

    @property
    def stages_of_facts(self) -> Sequence[Loss]:
        """The losses that are told apart here: those of stages that were recorded."""
        if "retrieved" in self.unknown:
            return ("missing",)
        if "kept" in self.unknown:
            return ("not_retrieved", "not_shown", "cut")
        return ("not_retrieved", "not_kept", "not_shown", "cut")

    def stages_reached(self, fact: FactOnItsWay) -> Iterator[tuple[Loss, bool]]:
        """Yield the stages that a fact is known to have reached, and whether each lost it.

        Example: a retrieved passage holds the fact, and nobody knows whether it was
        shown: ("not_retrieved", False) alone.
        """
        for stage in self.stages_of_facts:
            is_lost = fact.lost == stage
            if not fact.known and not self._has_passed(fact, stage):
                return
            yield stage, is_lost
            if is_lost:
                return

    def _has_passed(self, fact: FactOnItsWay, stage: Loss) -> bool:
        """Whether a stage surely did not lose a fact whose end is not known."""
        holders = [
            passage for passage in self.passages if passage.rank in fact.passages
        ]
        if stage == "not_retrieved":
            return bool(holders)
        if stage == "not_kept":
            return any(passage.kept for passage in holders)
        if stage == "not_shown":
            return any(passage.was_shown for passage in holders)
        return False


def journey_of(row: SampleResult) -> SampleJourney | None:
    """Follow the passages and facts of one row from the search to the answer.

    None for a row that is no sample, or whose application failed.
    Example: passage 1 shown, useful and cited; fact 2 lost as "not_retrieved".
    """
    sample = row.sample
    if sample is None or row.problem or sample.error is not None:
        return None
    why_unknown: dict[str, str] = {}  # by stage; the steps below add to it
    recorded_passages = _recorded_passages(sample, why_unknown)
    verdicts = _Verdicts(
        useful_by_rank=_useful_by_rank(row, why_unknown),
        ranks_cited=_ranks_cited(sample, why_unknown),
        sentences_by_rank=sentences_by_context_rank(row),
    )
    # contexts whose words the answer uses without a citation
    ranks_of_uncited_words = ranks_with_uncited_words(sample, verdicts.ranks_cited)
    passages = [
        _with_verdicts(passage, verdicts, ranks_of_uncited_words)
        for passage in recorded_passages
    ]
    facts = _facts(row, sample, passages, why_unknown)
    return SampleJourney(tuple(passages), facts, why_unknown)


class _Verdicts(NamedTuple):
    """What was judged of the contexts, by their ranks from 1.

    Attributes:
        useful_by_rank: Whether a context was judged useful; None if that is not known.
        ranks_cited: The contexts that the answer cites; None if that is not known.
        sentences_by_rank: Numbers of the answer's sentences that rest on a context.
    """

    useful_by_rank: Mapping[int, bool | None]
    ranks_cited: set[int] | None
    sentences_by_rank: Mapping[int, tuple[int, ...]]


def _with_verdicts(
    passage: Passage, verdicts: _Verdicts, ranks_of_uncited_words: set[int]
) -> Passage:
    """Add to a passage what was judged of the context that shows it."""
    rank = passage.context or _NO_RANK
    is_useful = None
    is_cited = None
    if passage.was_shown:
        is_useful = verdicts.useful_by_rank.get(rank)
        # only contexts are cited: another call may have been shown the passage
        if verdicts.ranks_cited is not None and rank != _NO_RANK:
            is_cited = rank in verdicts.ranks_cited
    return replace(
        passage,
        useful=is_useful,
        cited=is_cited,
        sentences=verdicts.sentences_by_rank.get(rank, ()),
        holds_uncited_words=is_cited is False and rank in ranks_of_uncited_words,
    )


# Of one sample: what was recorded


def _recorded_passages(sample: Sample, why_unknown: dict[str, str]) -> list[Passage]:
    """Collect the passages of a sample: how each was ranked, kept and shown.

    They are the retrieved passages. If these are not known, they are the contexts.
    Example: ranks 1 to 3, where a reranker kept 1 and 3, and the model was shown 3.

    Args:
        sample: The sample.
        why_unknown: Is filled: by stage ("retrieved", "kept" or "shown"), the reason why
            something is not known of the stage.
    """
    why_prompt_unknown = _why_prompt_unknown(sample)
    is_prompt_known = not why_prompt_unknown
    if not is_prompt_known:
        why_unknown["shown"] = why_prompt_unknown
    if sample.retrieved is None:
        why_retrieval_unknown = _why_retrieval_unknown(sample)
        why_unknown["retrieved"] = why_retrieval_unknown
        why_unknown["kept"] = why_retrieval_unknown
        return list(_passages_of_contexts(sample)) if is_prompt_known else []
    passages = _retrieved_passages(sample)
    if not is_prompt_known:
        passages = [_without_showing(passage) for passage in passages]
    if any(passage.shown is None for passage in passages) and is_prompt_known:
        # such as: a step between search and prompt has rewritten them
        why_unknown["shown"] = _why_showing_unknown(sample)
    passages = _with_passages_dropped_by_retrievers(passages, sample)
    if passages and all(passage.kept is None for passage in passages):
        why_unknown["kept"] = _why_dropping_unknown(sample)
    return passages


def _without_showing(passage: Passage) -> Passage:
    """A passage of which it is not known whether, and how much of it, was shown."""
    return replace(passage, shown=None, share=None)


def _retrieved_passages(sample: Sample) -> list[Passage]:
    """Make a passage of each retrieved document, as its note tells what became of it."""
    documents_and_notes = zip(sample.retrieved or (), _notes(sample), strict=True)
    passages = [
        _passage(rank, document, note)
        for rank, (document, note) in enumerate(documents_and_notes, start=1)
    ]
    return [
        replace(passage, may_be_whole=_may_be_whole(passage, sample))
        for passage in passages
    ]


def _may_be_whole(passage: Passage, sample: Sample) -> bool:
    """Whether a passage of which a part is shown may lack nothing but a few words.

    Example: of "It was opened on 4 May 1874 by Holm." the part "It was opened on … by
    Holm." is shown: the prompt may write the date in another form.
    """
    if passage.shown != "cut":
        return False
    text = _retrieved_text(passage, sample)
    shown_part = _shown_part(passage, sample)
    filled = with_small_gaps_filled(text, shown_part)
    return shown_part != text and filled.split() == text.split()


def _why_dropping_unknown(sample: Sample) -> str:
    """Why it is known of no passage whether it was kept between search and prompt."""
    rewriters = _rewriters(sample)
    if rewriters:
        return _REWRITTEN.format(rewriters[0])
    return "no step between search and prompt was recorded"


def _why_retrieval_unknown(sample: Sample) -> str:
    """Why it is not known which passages were retrieved."""
    notes = sample.capture
    if notes is not None and notes.evidence_from == "undivided":
        return "a tool returned one text, which nobody divided into passages"
    unread = why_texts_are_unread(sample)
    if unread:
        return f"what was found was not recorded: {unread}"
    if _has_searched_in_vain(sample):
        return "a search was recorded, and it brought no text"
    if notes is not None and notes.grade is not None:
        return "the run recorded no search"
    return _NOT_RETRIEVED


def _has_searched_in_vain(sample: Sample) -> bool:
    """Whether the ledger has searches of this turn, and none of them brought a text."""
    ledger = sample.ledger
    if ledger is None:
        return False
    searches = [
        call
        for call in ledger.calls
        if call.kind == "retrieval" and call.turn == ledger.turn
    ]
    return bool(searches) and not any(search.items for search in searches)


def _why_showing_unknown(sample: Sample) -> str:
    """Why it is not known of some passages whether they were shown."""
    rewriters = _rewriters(sample)
    if rewriters:
        return _REWRITTEN.format(rewriters[0])
    for note in _notes(sample):
        if note.why_unknown:
            return f"of some passages: {note.why_unknown}"
    return "of some passages the prompt does not tell"


def _why_prompt_unknown(sample: Sample) -> str:
    """Why it is not known what the model was shown, in words; "" if it is."""
    notes = sample.capture
    # a row of a table may have notes that hold no more than why its marks are not read
    if notes is None or (notes.grade is None and notes.evidence_from is None):
        recorded = "contexts" in sample.model_fields_set
        return "" if recorded else "what the model was shown was not recorded"
    if notes.evidence_from == "none_found":
        return ""
    if notes.evidence_from in _SEEN_IN_PROMPT or _is_nothing_shown(notes):
        return ""
    return _NO_PROMPT_TELLS


def _is_nothing_shown(notes: CaptureNotes) -> bool:
    """Whether the capture noted of each retrieved passage that no prompt shows it."""
    passages = notes.passages or ()
    return bool(passages) and all(passage.share == 0 for passage in passages)


def _passages_of_contexts(sample: Sample) -> Iterable[Passage]:
    """Make a passage of each context, for a sample whose retrieval is not known."""
    for rank, context in enumerate(sample.contexts, start=1):
        if not context.blank:
            yield Passage(id=context.id, shown="whole", context=rank)


def _notes(sample: Sample) -> Sequence[PassageNote]:
    """Return a note on each retrieved passage: which context shows it, and how much.

    The notes are those of the capture. Without any, ids and texts are compared.
    """
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


def _with_passages_dropped_by_retrievers(
    passages: Sequence[Passage], sample: Sample
) -> list[Passage]:
    """Add the passages that a retriever found inside itself and did not return.

    The passages that such a retriever returned are marked as kept. Example: "Fusion"
    returned 3 passages, and dropped 2 that "bm25" inside it had found: 3 with ``kept``
    True, then 2 of "bm25" with ``dropped_by`` "Fusion".
    """
    dropped_passages = list(_passages_dropped_inside(sample.capture))
    droppers = {passage.dropped_by for passage in dropped_passages}
    all_passages = []
    for passage in passages:
        if passage.kept is None and passage.retriever in droppers:
            all_passages.append(replace(passage, kept=True))
        else:
            all_passages.append(passage)
    return [*all_passages, *dropped_passages]


def _passages_dropped_inside(notes: CaptureNotes | None) -> Iterator[Passage]:
    """Yield the passages that retrievers found inside themselves and did not return.

    Older results files only hold their number.
    """
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


# Of one sample: what was judged


def _useful_by_rank(
    row: SampleResult, why_unknown: dict[str, str]
) -> Mapping[int, bool | None]:
    """Return by rank of a context whether it was judged useful.

    Without a metric that says so it is empty, and ``why_unknown["useful"]`` gets the
    reason.
    """
    for result in row.results.values():
        if isinstance(result.evidence, JudgedChunks):
            return {chunk.rank: chunk.useful for chunk in result.evidence.chunks}
    why_unknown["useful"] = _why_not_scored(row, _OF_USEFULNESS) or _NOBODY_JUDGED_USE
    return {}


def _why_not_scored(row: SampleResult, metric: str) -> str:
    """Why a metric that was asked gave no score, in words; "" if it was not asked."""
    for result in row.results.values():
        if result.metric == metric and isinstance(result, Undefined):
            return f"{metric} gave no score: {result.reason}"
        if result.metric == metric and isinstance(result, Failed):
            return f"{metric} failed"
    return ""


def _ranks_cited(sample: Sample, why_unknown: dict[str, str]) -> set[int] | None:
    """Return the ranks of the contexts that the answer cites.

    None if that is not known; ``why_unknown["cited"]`` gets the reason.
    """
    if sample.citations is None:
        why_unknown["cited"] = sample.citations_unknown
        return None
    if may_name_more(sample.answer, sample.citations):
        why_unknown["cited"] = UNREAD_FORM
        return None
    ranks: set[int] = set()
    for citation in sample.citations:
        ranks.update(index + 1 for index in citation.contexts)
    return ranks


class _Recorded(NamedTuple):
    """What the fate of a sample's facts is read from, beside the judge's verdicts.

    Attributes:
        sample: The sample.
        passages: Its passages, with what became of each.
        unasked_texts: Texts that its run may have found, and no metric asked whether
            they hold the facts.
    """

    sample: Sample
    passages: Sequence[Passage]
    unasked_texts: UnaskedTexts


def _facts(
    row: SampleResult,
    sample: Sample,
    passages: Sequence[Passage],
    why_unknown: dict[str, str],
) -> tuple[FactOnItsWay, ...]:
    """Find out what became of each fact of the reference; empty if no metric asked.

    Example: fact 1 stood in passages 2 and 3, which a filter dropped: it is known, lost
    as "not_kept".

    Args:
        row: The results of the sample.
        sample: The sample.
        passages: Its passages, with what became of each.
        why_unknown: If something is not known of a fact, gets the reason, as "facts".
    """
    # a row for each fact: of each text that was asked about, whether it holds the fact
    matrix = _fact_matrix(row)
    if matrix is None:
        why_unknown["facts"] = _why_no_facts(row, sample)
        return ()
    if not _is_about_texts_of(sample, matrix):
        why_unknown["facts"] = (
            "facts were judged over other texts than the sample holds"
        )
        return ()
    recorded = _Recorded(sample, passages, _unasked_texts_of(sample, passages))
    facts: list[FactOnItsWay] = []
    rows_of_facts = zip(matrix.facts, matrix.cells, strict=True)
    for number, (fact, cells) in enumerate(rows_of_facts, start=1):
        followed = _fact(number, fact.text, cells, recorded)
        facts.append(followed)
        if not followed.known:
            why_fact_unknown = _why_fact_unknown(
                followed, fact.text, recorded, why_unknown
            )
            why_unknown.setdefault("facts", why_fact_unknown)
    return tuple(facts)


def _is_about_texts_of(sample: Sample, matrix: FactMatrix) -> bool:
    """Whether facts were looked for in as many texts as the sample has."""
    texts = sample.contexts if sample.retrieved is None else sample.retrieved
    return all(len(cells) == len(texts) for cells in matrix.cells)


def _unasked_texts_of(sample: Sample, passages: Sequence[Passage]) -> UnaskedTexts:
    """The texts of a sample that no metric asked about, where passages were asked about.

    A context that shows a passage was asked about with it.
    """
    ranks_showing_passages = {passage.context or _NO_RANK for passage in passages}
    return UnaskedTexts(sample, ranks_showing_passages)


def _why_fact_unknown(
    fact: FactOnItsWay, text: str, recorded: _Recorded, why_unknown: Mapping[str, str]
) -> str:
    """Why it is not known what became of a fact, in words.

    Args:
        fact: The fact.
        text: The fact in words.
        recorded: The sample with its passages and its texts nobody asked about.
        why_unknown: By stage why something is not known of it.
    """
    is_in_no_passage = not fact.passages
    if is_in_no_passage:
        why_it_may_be_found = _why_it_may_be_found(text, recorded)
        if why_it_may_be_found:
            return why_it_may_be_found
    return _why_holders_do_not_tell(fact, recorded.passages, why_unknown)


def _why_no_facts(row: SampleResult, sample: Sample) -> str:
    """Why no metric tells which facts were retrieved, in words."""
    why_not_scored = _why_not_scored(row, _OF_FACTS)
    if why_not_scored:
        return why_not_scored
    is_nothing_retrieved = sample.retrieved is not None and not sample.retrieved
    return _NO_FACTS_GIVEN if is_nothing_retrieved else _NOBODY_ASKED_FACTS


def _why_holders_do_not_tell(
    fact: FactOnItsWay, passages: Sequence[Passage], why_unknown: Mapping[str, str]
) -> str:
    """Why the passages that hold a fact do not tell whether it was shown, in words.

    Args:
        fact: The fact.
        passages: The passages of the sample.
        why_unknown: By stage why something is not known of it.
    """
    holders = [passage for passage in passages if passage.rank in fact.passages]
    if any(passage.shown == "cut" for passage in holders):
        return _PART_WAS_NOT_ASKED
    # the contexts are no passages where no prompt tells what the model was shown
    are_no_passages = bool(fact.passages) and not holders
    if are_no_passages or any(passage.shown is None for passage in holders):
        return why_unknown.get("shown", _JUDGE_DOES_NOT_TELL)
    return _JUDGE_DOES_NOT_TELL


def _fact_matrix(row: SampleResult) -> FactMatrix | None:
    """Which facts the texts hold, of the first metric that asked for it; else None."""
    for result in row.results.values():
        if isinstance(result.evidence, FactMatrix):
            return result.evidence
    return None


def _fact(
    number: int, text: str, cells: Sequence[Cell], recorded: _Recorded
) -> FactOnItsWay:
    """Find out at which stage one fact was lost, if it was.

    Example: passage 2 holds the fact, and a filter dropped it: lost is "not_kept". But
    if a web page that the model was shown states it as well, it is not lost.

    Args:
        number: The fact's number, from 1.
        text: The fact in words.
        cells: For each retrieved passage, whether it holds the fact. If the retrieved
            passages are not known, for each context.
        recorded: The sample with its passages and its texts nobody asked about.
    """
    ranks_of_holders = tuple(
        rank for rank, cell in enumerate(cells, start=1) if cell.covered
    )
    fate = _fate_by_verdicts(text, ranks_of_holders, cells, recorded)
    if fate.lost is not None and recorded.unasked_texts.state_to_model(text):
        fate = _SHOWN
    is_lost_as_no_text_holds_it = fate.lost in ("not_retrieved", "missing")
    if is_lost_as_no_text_holds_it and _why_it_may_be_found(text, recorded):
        fate = _UNKNOWN_FATE
    return FactOnItsWay(number, fate.lost, fate.is_known, ranks_of_holders)


def _fate_by_verdicts(
    text: str,
    ranks_of_holders: Sequence[int],
    cells: Sequence[Cell],
    recorded: _Recorded,
) -> _Fate:
    """Find out what became of a fact, by the texts that the judge was asked about.

    These are the retrieved passages; if it is not known what was retrieved, they are
    the contexts.

    Args:
        text: The fact in words.
        ranks_of_holders: The ranks of those texts that hold it, by the verdicts.
        cells: The judge's verdict on each of the texts.
        recorded: The sample with its passages.
    """
    is_judged_on_all = all(cell.probability is not None for cell in cells)
    if recorded.sample.retrieved is None:
        is_held = bool(ranks_of_holders)
        return _fate_in_contexts(recorded.sample, is_held, is_judged_on_all)
    if not ranks_of_holders:
        # a text on which the judge gave no answer may hold the fact
        return _NOT_RETRIEVED_FATE if is_judged_on_all else _UNKNOWN_FATE
    holders = [
        passage for passage in recorded.passages if passage.rank in ranks_of_holders
    ]
    return _fate_of_retrieved(text, holders, recorded.sample)


def _why_it_may_be_found(fact: str, recorded: _Recorded) -> str:
    """Why a fact that is in no text that was asked about may have been found.

    Returns "" if it was not found: every text that could have brought it was asked about.

    Args:
        fact: The fact in words.
        recorded: The sample with its passages and its texts nobody asked about.
    """
    droppers = _droppers_inside(recorded.passages)
    if droppers:
        return (
            "nobody asked whether a fact stood in what searches inside"
            f" {droppers[0]} found and it did not hand on"
        )
    rewriters = _rewriters(recorded.sample)
    if rewriters:
        return (
            f"{rewriters[0]} gave documents in other words than those that it took, and"
            " nobody asked which facts stand in either"
        )
    return recorded.unasked_texts.why_may_hold(fact)


def _rewriters(sample: Sample) -> list[str]:
    """Names of steps that rewrote documents: a passage may be one of the new texts now."""
    names = [note.written_anew_by for note in _notes(sample)]
    return [name for name in dict.fromkeys(names) if name is not None]


def _droppers_inside(passages: Sequence[Passage]) -> list[str]:
    """Names of retrievers that did not hand on what searches inside them found."""
    return [
        passage.dropped_by
        for passage in passages
        if passage.rank is None and passage.dropped_by
    ]


class _Fate(NamedTuple):
    """What became of a fact.

    Attributes:
        is_known: Whether it is known.
        lost: The stage that lost it; None if it was shown whole, or nothing is known.
    """

    is_known: bool
    lost: Loss | None


_UNKNOWN_FATE = _Fate(is_known=False, lost=None)
_SHOWN = _Fate(is_known=True, lost=None)
_NOT_RETRIEVED_FATE = _Fate(is_known=True, lost="not_retrieved")


def _fate_in_contexts(sample: Sample, is_held: bool, is_judged_on_all: bool) -> _Fate:
    """Find out what became of a fact that was looked for in the contexts alone.

    Args:
        sample: The sample.
        is_held: Whether any context holds the fact.
        is_judged_on_all: Whether the judge said of each context if it holds the fact.
    """
    if _why_prompt_unknown(sample):
        return _UNKNOWN_FATE
    if is_held:
        return _SHOWN
    if is_judged_on_all:
        return _Fate(is_known=True, lost="missing")
    return _UNKNOWN_FATE


def _fate_of_retrieved(fact: str, holders: Sequence[Passage], sample: Sample) -> _Fate:
    """Find out at which stage a fact was lost that retrieved passages hold.

    The passage that came farthest decides. Example: of two holders a filter dropped
    both: "not_kept"; it dropped one, and the other was not shown: "not_shown".

    Args:
        fact: The fact in words.
        holders: The retrieved passages that hold the fact, at least one.
        sample: The sample.
    """
    if any(_is_shown_in(passage, fact, sample) for passage in holders):
        return _SHOWN
    if all(passage.kept is False for passage in holders):
        return _Fate(is_known=True, lost="not_kept")
    # such a passage may have been shown, and the fact with it
    if any(passage.shown is None for passage in holders):
        return _UNKNOWN_FATE
    cut_holders = [passage for passage in holders if passage.shown == "cut"]
    if not cut_holders:
        return _Fate(is_known=True, lost="not_shown")
    # The shown part of a cut passage may still say the fact in other words. Only if the
    # words of the fact are gone from all shown parts is the fact lost there.
    are_words_cut = all(
        are_words_cut_away(
            _retrieved_text(passage, sample), _shown_part(passage, sample), fact
        )
        for passage in cut_holders
    )
    return _Fate(is_known=True, lost="cut") if are_words_cut else _UNKNOWN_FATE


def _is_shown_in(passage: Passage, fact: str, sample: Sample) -> bool:
    """Whether a passage that holds a fact shows it: whole, or in the part that is left."""
    if passage.shown == "cut":
        return states_word_by_word(_shown_part(passage, sample), fact)
    return passage.shown == "whole"


def _shown_part(passage: Passage, sample: Sample) -> str:
    """The text of the contexts that show a passage; "" if it is not recorded.

    A step may have divided the passage. Then the contexts that are pieces of it are
    joined in the order of the passage.
    """
    rank = passage.context or _NO_RANK
    is_recorded = _NO_RANK < rank <= len(sample.contexts)
    if not is_recorded:
        return ""
    shown_text = sample.contexts[rank - 1].text
    text = _retrieved_text(passage, sample)
    pieces = [context.text for context in sample.contexts if context.text in text]
    if not text or shown_text not in pieces:
        return shown_text
    return join_pieces(text, pieces)


def _retrieved_text(passage: Passage, sample: Sample) -> str:
    """The text of a passage as it was retrieved; "" if it is not known."""
    retrieved = sample.retrieved or ()
    if passage.rank is None:
        return ""
    return retrieved[passage.rank - 1].text
