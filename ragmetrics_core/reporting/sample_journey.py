"""What became of the passages and facts of one sample, as far as that is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ragmetrics_core.data import (
    Cell,
    FactMatrix,
    Failed,
    JudgedChunks,
    Sample,
    SampleResult,
    Undefined,
)
from ragmetrics_core.reporting import fact_fates
from ragmetrics_core.reporting.fact_fates import (
    Fate,
    PassageDroppedOrCut,
    fate_in_contexts,
    fate_of_retrieved,
    fate_of_unretrieved,
    passages_dropped_or_cut,
)
from ragmetrics_core.reporting.passage_matching import (
    ranks_with_uncited_words,
    sentences_by_context_rank,
)
from ragmetrics_core.reporting.recorded_passages import (
    NO_RANK,
    Loss,
    Passage,
    recorded_passages,
    rewriters_of,
)
from ragmetrics_core.reporting.unasked_texts import (
    UnaskedTexts,
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
    passages_on_record = recorded_passages(sample, why_unknown)
    verdicts = _Verdicts(
        useful_by_rank=_useful_by_rank(row, why_unknown),
        ranks_cited=_ranks_cited(sample, why_unknown),
        sentences_by_rank=sentences_by_context_rank(row),
    )
    # contexts whose words the answer uses without a citation
    ranks_of_uncited_words = ranks_with_uncited_words(sample, verdicts.ranks_cited)
    passages = [
        _with_verdicts(passage, verdicts, ranks_of_uncited_words)
        for passage in passages_on_record
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
    rank = passage.context or NO_RANK
    is_useful = None
    is_cited = None
    if passage.was_shown:
        is_useful = verdicts.useful_by_rank.get(rank)
        # only contexts are cited: another call may have been shown the passage
        if verdicts.ranks_cited is not None and rank != NO_RANK:
            is_cited = rank in verdicts.ranks_cited
    return replace(
        passage,
        useful=is_useful,
        cited=is_cited,
        sentences=verdicts.sentences_by_rank.get(rank, ()),
        holds_uncited_words=is_cited is False and rank in ranks_of_uncited_words,
    )


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


class _AskedFact(NamedTuple):
    """A fact, and in which texts it stands.

    Attributes:
        text: The fact in words.
        cells: For each retrieved passage, whether it holds the fact. If the retrieved
            passages are not known, for each context.
        dropped_or_cut: The passages that were found inside retrievers, and that these
            dropped or cut; and whether each holds the fact.
    """

    text: str
    cells: Sequence[Cell]
    dropped_or_cut: Sequence[PassageDroppedOrCut]


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
        why_unknown: By stage, such as "shown", why something is not known of it. If
            something is not known of a fact, the reason is added, as "facts".
    """
    # for each fact, whether each text that the judge was asked about holds it
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
    why_prompt_unknown = why_unknown.get("shown", _JUDGE_DOES_NOT_TELL)
    facts: list[FactOnItsWay] = []
    for number, asked_fact in enumerate(_asked_facts(matrix, sample), start=1):
        fact = _fact(number, asked_fact, recorded)
        facts.append(fact)
        # of several unknown facts the first one gives the reason
        if not fact.known and "facts" not in why_unknown:
            why_unknown["facts"] = _why_fact_unknown(
                fact, asked_fact, recorded, why_prompt_unknown
            )
    return tuple(facts)


def _asked_facts(matrix: FactMatrix, sample: Sample) -> Iterator[_AskedFact]:
    """Yield each fact with what is known of the texts that hold it."""
    for fact, text_cells in zip(matrix.facts, matrix.cells, strict=True):
        dropped_or_cut = passages_dropped_or_cut(fact.text, sample)
        yield _AskedFact(fact.text, text_cells, dropped_or_cut)


def _is_about_texts_of(sample: Sample, matrix: FactMatrix) -> bool:
    """Whether facts were looked for in as many texts as the sample has."""
    texts = sample.known_contexts if sample.retrieved is None else sample.retrieved
    return all(len(cells) == len(texts) for cells in matrix.cells)


def _unasked_texts_of(sample: Sample, passages: Sequence[Passage]) -> UnaskedTexts:
    """The texts of a sample that no metric asked about, where passages were asked about.

    A context that shows a passage was asked about with it.
    """
    ranks_showing_passages = {passage.context or NO_RANK for passage in passages}
    return UnaskedTexts(sample, ranks_showing_passages)


def _why_fact_unknown(
    fact: FactOnItsWay,
    asked_fact: _AskedFact,
    recorded: _Recorded,
    why_prompt_unknown: str,
) -> str:
    """Why it is not known what became of a fact, in words.

    Args:
        fact: The fact.
        asked_fact: The fact in words, and which texts hold it.
        recorded: The sample with its passages and its texts nobody asked about.
        why_prompt_unknown: Why it is not known which passages the model was shown.
    """
    is_in_no_passage = not fact.passages
    if is_in_no_passage:
        if any(
            passage.holds_fact and passage.cut_passage
            for passage in asked_fact.dropped_or_cut
        ):
            return _PART_WAS_NOT_ASKED
        why_another_text_may_hold_it = _why_another_text_may_hold_it(
            asked_fact, recorded
        )
        if why_another_text_may_hold_it:
            return why_another_text_may_hold_it
    return _why_holders_do_not_tell(fact, recorded.passages, why_prompt_unknown)


def _why_no_facts(row: SampleResult, sample: Sample) -> str:
    """Why no metric tells which facts were retrieved, in words."""
    why_not_scored = _why_not_scored(row, _OF_FACTS)
    if why_not_scored:
        return why_not_scored
    is_nothing_retrieved = sample.retrieved is not None and not sample.retrieved
    return _NO_FACTS_GIVEN if is_nothing_retrieved else _NOBODY_ASKED_FACTS


def _why_holders_do_not_tell(
    fact: FactOnItsWay, passages: Sequence[Passage], why_prompt_unknown: str
) -> str:
    """Why the passages that hold a fact do not tell whether it was shown, in words.

    Args:
        fact: The fact.
        passages: The passages of the sample.
        why_prompt_unknown: Why it is not known which passages the model was shown.
    """
    holders = [passage for passage in passages if passage.rank in fact.passages]
    if any(passage.shown == "cut" for passage in holders):
        return _PART_WAS_NOT_ASKED
    # the contexts are no passages where no prompt tells what the model was shown
    are_no_passages = bool(fact.passages) and not holders
    if are_no_passages or any(passage.shown is None for passage in holders):
        return why_prompt_unknown
    return _JUDGE_DOES_NOT_TELL


def _fact_matrix(row: SampleResult) -> FactMatrix | None:
    """Which facts the texts hold, of the first metric that asked for it; else None."""
    for result in row.results.values():
        if isinstance(result.evidence, FactMatrix):
            return result.evidence
    return None


def _fact(number: int, asked_fact: _AskedFact, recorded: _Recorded) -> FactOnItsWay:
    """Find out at which stage one fact was lost, if it was.

    Example: passage 2 holds the fact, and a filter dropped it: lost is "not_kept". But
    if a web page that the model was shown states it as well, it is not lost.

    Args:
        number: The fact's number, from 1.
        asked_fact: The fact in words, and which texts hold it.
        recorded: The sample with its passages and its texts nobody asked about.
    """
    ranks_of_holders = tuple(
        rank for rank, cell in enumerate(asked_fact.cells, start=1) if cell.covered
    )
    fate = _fate_by_verdicts(asked_fact, ranks_of_holders, recorded)
    is_lost = fate.lost is not None
    if is_lost and recorded.unasked_texts.any_shown_text_states(asked_fact.text):
        fate = fact_fates.SHOWN  # such as a web page, which no metric asked about
    # "missing" stands for "not_retrieved" where only the contexts are known
    is_in_no_text_of_judge = fate.lost in ("not_retrieved", "missing")
    # The judge was not asked about all texts. Example: a reranker dropped a passage, and
    # nobody asked whether it holds the fact.
    if is_in_no_text_of_judge and _why_another_text_may_hold_it(asked_fact, recorded):
        fate = fact_fates.UNKNOWN
    return FactOnItsWay(number, fate.lost, fate.is_known, ranks_of_holders)


def _fate_by_verdicts(
    asked_fact: _AskedFact, ranks_of_holders: Sequence[int], recorded: _Recorded
) -> Fate:
    """Find out what became of a fact, by what the judge said of the texts.

    Example: of three retrieved passages the second holds the fact, says the judge. A
    filter dropped it: lost as "not_kept".

    Args:
        asked_fact: The fact in words, and the judge's verdict on each retrieved passage;
            on each context if it is not known what was retrieved.
        ranks_of_holders: The ranks of the passages, or contexts, that hold the fact.
        recorded: The sample with its passages.
    """
    sample = recorded.sample
    is_judged_on_all = all(cell.probability is not None for cell in asked_fact.cells)
    if sample.retrieved is None:  # the judge was asked about the contexts
        return fate_in_contexts(
            sample, is_held=bool(ranks_of_holders), is_judged_on_all=is_judged_on_all
        )
    if ranks_of_holders:
        holders = [
            passage for passage in recorded.passages if passage.rank in ranks_of_holders
        ]
        return fate_of_retrieved(asked_fact.text, holders, sample)
    if not is_judged_on_all:
        # a passage on which the judge gave no answer may hold the fact
        return fact_fates.UNKNOWN
    # No retrieved passage holds it. A passage that a retriever dropped may have held it.
    return fate_of_unretrieved(
        asked_fact.text, asked_fact.dropped_or_cut, recorded.passages, sample
    )


def _why_another_text_may_hold_it(asked_fact: _AskedFact, recorded: _Recorded) -> str:
    """Why a fact that is in no text that was asked about may have been found.

    Returns "" if it was not found: every text that could have brought it was asked about.

    Args:
        asked_fact: The fact in words, and which texts hold it.
        recorded: The sample with its passages and its texts nobody asked about.
    """
    for passage in asked_fact.dropped_or_cut:
        if passage.holds_fact is None:
            return (
                "nobody asked whether a fact stood in what searches inside"
                f" {passage.retriever} found and it did not hand on"
            )
    rewriters = rewriters_of(recorded.sample)
    if rewriters:
        return (
            f"{rewriters[0]} gave documents in other words than those that it took, and"
            " nobody asked which facts stand in either"
        )
    return recorded.unasked_texts.why_may_hold(asked_fact.text)
