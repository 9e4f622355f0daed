"""The journey: where passages and facts were lost on the way into the answer.

A passage is retrieved, kept by rerankers and filters, shown whole or in part, useful,
and cited. A fact of the reference is in a retrieved text or in none, and in a text that
was shown or in none. All is read from what was recorded and judged; no judge is asked.
What nobody recorded, and no judge looked at, is left out with its reason.
"""

from __future__ import annotations

import tomllib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Literal, NamedTuple, get_args

from pydantic import Field, TypeAdapter

from ragmetrics_core.data import Frozen, SampleResult
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.reporting.recorded_passages import Loss, Passage
from ragmetrics_core.reporting.sample_journey import SampleJourney, journey_of
from ragmetrics_core.statistics.means import Interval, mean_interval

Unit = Literal["passages", "facts"]

_LOSSES: tuple[Loss, ...] = get_args(Loss)
_LOSSES_OF_PASSAGES: tuple[Loss, ...] = _LOSSES[2:]
_LOSSES_OF_FACTS: tuple[Loss, ...] = _LOSSES[:5]
_BY_PASSAGES = (
    "It is not known whether what was lost was needed: for that give references, or"
    " facts, and let RetrievalAccuracy ask."
)
_NO_STAGE_BY_FACTS = (
    "No stage is named to mend first: of {:,} of {} it is not known what became of them"
    "{}."
)
_NO_STAGE_BY_PASSAGES = (
    "No stage is named to mend first: of {:,} of {} it is not known whether the model"
    " was shown them{}."
)
_NOT_ALL_NEED_CITATIONS = (
    "Not all of these need a citation: an answer need not cite two passages that say the"
    " same, nor what it leaves out."
)


class Advice(Frozen):
    """A loss in words."""

    title: str = Field(description="what happened, in a few words")
    stage: str = Field(description="the stage of the pipeline to mend")
    remedy: str = Field(description="what to try")


ADVICE: Mapping[Loss, Advice] = TypeAdapter(dict[Loss, Advice]).validate_python(
    tomllib.loads(
        files("ragmetrics_core.reporting").joinpath("journey.toml").read_text("utf-8")
    )
)
"""What each loss means, and what to do about it."""


@dataclass(frozen=True, slots=True)
class StageLoss:
    """What one stage lost, over a run.

    Args:
        loss: The kind of loss.
        unit: What is counted.
        lost: How many were lost; of ``cut``, how many were shown in part.
        of: How many the stage before held, as far as that is known.
        interval: 95 % interval of the share, clustered by sample.
        samples: In how many samples something is known of the stage.
        by: Of ``not_kept``, how many passages each named step dropped.
    """

    loss: Loss
    unit: Unit
    lost: int
    of: int
    interval: Interval
    samples: int
    by: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share that was lost, of what the stage before held."""
        return self.lost / self.of

    def __str__(self) -> str:
        """Such as "passages not kept: 3 of 20 (15%, 95 % interval 5% to 36%), 3 by rank".

        "rank" is the name of the step that dropped them.
        """
        low, high = self.interval.low, self.interval.high
        names = "".join(f", {count} by {name}" for name, count in self.by.items())
        return (
            f"{self.unit} {ADVICE[self.loss].title}: {self.lost:,} of {self.of:,}"
            f" ({self.share:.0%}, 95 % interval {low:.0%} to {high:.0%}){names}"
        )


@dataclass(frozen=True, slots=True)
class Journey:
    """Where a run lost passages and facts, stage by stage.

    Args:
        samples: How many samples were followed.
        passages: How many passages they retrieved, as far as that is known.
        facts: How many facts of references were asked about.
        stages: What each stage lost, facts first, in the order of the stages. A stage
            is left out if nothing is known of it.
        mend: The loss to mend first; None if nothing was lost, or if less is known to
            be lost than is unknown.
        mend_by: What was counted to name it: facts, which are needed, or passages, which
            may have been dropped for good reason; None without ``mend``.
        unknown: By stage and reason, in how many samples nothing is known of it.
        facts_unknown: Of how many facts it is not known what became of them.
        passages_unknown: Of how many retrieved passages, that no step is known to have
            dropped, it is not known whether the model was shown them.
    """

    samples: int
    passages: int
    facts: int
    stages: tuple[StageLoss, ...]
    mend: Loss | None
    mend_by: Unit | None = None
    unknown: Mapping[tuple[str, str], int] = field(default_factory=dict)
    facts_unknown: int = 0
    passages_unknown: int = 0

    @property
    def advice(self) -> Advice | None:
        """The stage to mend first, and how; None without ``mend``."""
        return None if self.mend is None else ADVICE[self.mend]

    def of(self, loss: Loss, unit: Unit = "passages") -> StageLoss | None:
        """One stage's loss; None if nothing is known of it."""
        for stage in self.stages:
            if (stage.loss, stage.unit) == (loss, unit):
                return stage
        return None

    @property
    def sentence(self) -> str:
        """The stage to mend first, with its numbers and remedy.

        Without ``mend`` it says of how many facts, else passages, too little is known
        to name one; "" if nothing was lost.
        """
        if self.mend is None:
            return self.why_no_stage
        advice = ADVICE[self.mend]
        words = f"Mend {advice.stage} first: {self.stage_to_mend}. {advice.remedy}"
        return f"{words} {self.caution}".rstrip()

    @property
    def why_no_stage(self) -> str:
        """Why no stage is named, where too much is unknown; "" with ``mend``."""
        if self.mend is not None:
            return ""
        if self.facts_unknown:
            facts = count_in_words(self.facts, "fact")
            reason = self._reason_of("shown", "facts")
            return _NO_STAGE_BY_FACTS.format(self.facts_unknown, facts, reason)
        if self.passages_unknown:
            passages = count_in_words(self.passages, "passage")
            reason = self._reason_of("shown")
            return _NO_STAGE_BY_PASSAGES.format(self.passages_unknown, passages, reason)
        return ""

    def _reason_of(self, *stages: str) -> str:
        """The most frequent reason why the first of some stages is unknown, in brackets."""
        for unknown_stage in stages:
            count_by_reason = {
                reason: count
                for (stage, reason), count in self.unknown.items()
                if stage == unknown_stage
            }
            if count_by_reason:
                return (
                    f" ({max(count_by_reason, key=lambda why: count_by_reason[why])})"
                )
        return ""

    @property
    def stage_to_mend(self) -> StageLoss | None:
        """The numbers of the stage to mend first; None without ``mend``."""
        if self.mend is None:
            return None
        return self.of(self.mend, self.mend_by or "passages")

    @property
    def caution(self) -> str:
        """That what was lost may not have been needed; "" where it is known that it was."""
        if self.mend is None or self.mend_by == "facts":
            return ""
        if self.mend == "not_cited":
            return _NOT_ALL_NEED_CITATIONS
        return "" if self._knows_every_fact else _BY_PASSAGES

    @property
    def _knows_every_fact(self) -> bool:
        """Whether facts were asked about, and it is known what became of each."""
        return bool(self.facts) and not any(
            stage == "facts" for stage, _ in self.unknown
        )

    def __str__(self) -> str:
        """Return a heading, a line for each stage, what to mend first, what is unknown.

        The heading is, for example, "Journey of 20 samples, 60 retrieved passages".
        """
        parts = [
            count_in_words(self.samples, "sample"),
            count_in_words(self.passages, "retrieved passage"),
        ]
        if self.facts:
            parts.append(count_in_words(self.facts, "fact"))
        lines = [f"Journey of {', '.join(parts)}"]
        lines += [f"  {stage}" for stage in self.stages]
        # such as "Mend the search first: …", or why no stage can be named
        what_to_mend_first = self.sentence
        if what_to_mend_first:
            lines.append(what_to_mend_first)
        lines += [
            f"Unknown in {count:,} of {count_in_words(self.samples, 'sample')}: {stage}"
            f" ({reason})"
            for (stage, reason), count in self.unknown.items()
        ]
        return "\n".join(lines)


def journey(rows: Iterable[SampleResult]) -> Journey:
    """Follow the passages and facts of a run.

    Args:
        rows: The results, in any order; each is looked at once.
    """
    tally = JourneyTally()
    for row in rows:
        tally.add(row)
    return tally.journey()


class JourneyTally:
    """A journey of rows that come one by one; keeps some 16 bytes per row and stage."""

    def __init__(self) -> None:
        self._n_samples = self._n_passages = self._n_facts = 0
        self._n_facts_unknown = self._n_passages_unknown = 0
        # By stage, and reason why nothing is known of it: the number of samples. Such as
        # ("cited", "the answer has no citations"): 3.
        self._n_samples_by_unknown_stage = Counter[tuple[str, str]]()
        self._stage_tallies = _StageTallies()
        self._stage_to_mend = _StageToMend()

    def add(self, row: SampleResult) -> SampleJourney | None:
        """Count what became of the passages and facts of one row, and return it.

        None for a row that cannot be followed, such as one that is no sample.
        """
        sample_journey = journey_of(row)
        if sample_journey is None:
            return None
        # Only these have a rank. Other passages were found by a search within a retriever,
        # which did not hand them on.
        retrieved = [
            passage for passage in sample_journey.passages if passage.rank is not None
        ]
        self._n_samples += 1
        self._n_passages += len(retrieved)
        self._n_facts += len(sample_journey.facts)
        self._n_facts_unknown += sample_journey.n_facts_unknown
        self._n_passages_unknown += sample_journey.n_passages_unknown
        for stage, why_unknown in sample_journey.unknown.items():
            self._n_samples_by_unknown_stage[stage, why_unknown] += 1
        self._stage_tallies.add(sample_journey)
        self._stage_to_mend.add(sample_journey)
        return sample_journey

    def journey(self) -> Journey:
        """Sum up where the rows so far lost facts and passages, and what to mend first.

        Example: 9 facts were not retrieved, and 2 were cut away. Then ``stages`` has
        the numbers of both losses, and ``mend`` is "not_retrieved", by "facts".
        """
        loss_to_mend = self._stage_to_mend.loss  # such as "not_kept"; None for none
        mend_by: Unit | None = None
        if loss_to_mend is not None:
            # The loss of most facts was chosen; of passages only if no fact was lost.
            mend_by = "facts" if self._stage_tallies.n_facts_lost > 0 else "passages"
        return Journey(
            samples=self._n_samples,
            passages=self._n_passages,
            facts=self._n_facts,
            stages=tuple(self._stage_tallies.losses_of_known_stages()),
            mend=loss_to_mend,
            mend_by=mend_by,
            unknown=dict(sorted(self._n_samples_by_unknown_stage.items())),
            facts_unknown=self._n_facts_unknown,
            passages_unknown=self._n_passages_unknown,
        )


class _StageTally:
    """One stage over samples: how many units it held in each, and how many it lost."""

    def __init__(self) -> None:
        self._held_by_sample = array("I")
        self._lost_by_sample = array("I")
        self._last_sample = -1
        self._lost_by_name = Counter[str]()

    @property
    def n_held(self) -> int:
        """How many units the stage before held."""
        return sum(self._held_by_sample)

    @property
    def n_lost(self) -> int:
        """How many of them this stage lost."""
        return sum(self._lost_by_sample)

    def add(self, is_lost: bool, sample: int, name: str | None = None) -> None:
        """Count a fact or passage of a sample; the caller gives sample after sample.

        ``name`` is the name of the step that lost the fact or passage, where known.
        """
        if sample != self._last_sample:
            self._last_sample = sample
            self._held_by_sample.append(0)
            self._lost_by_sample.append(0)
        self._held_by_sample[-1] += 1
        if is_lost:
            self._lost_by_sample[-1] += 1
            if name:
                self._lost_by_name[name] += 1

    def stage_loss(self, loss: Loss, unit: Unit) -> StageLoss:
        """Say how many facts or passages reached the stage, and how many it lost.

        Args:
            loss: The kind of loss that the stage stands for.
            unit: Whether facts or passages are counted. At least one reached the stage.
        """
        return StageLoss(
            loss=loss,
            unit=unit,
            lost=self.n_lost,
            of=self.n_held,
            interval=self._interval_of_lost_share(),
            samples=len(self._held_by_sample),
            by=dict(self._droppers_by_count()),
        )

    def _interval_of_lost_share(self) -> Interval:
        """The 95 % interval of the share that was lost; each sample is a cluster."""
        lost_flags = array("d")  # 1.0 for a lost one, else 0.0
        sample_numbers = array("q")
        counts = zip(self._lost_by_sample, self._held_by_sample, strict=True)
        for sample_number, (n_lost, n_held) in enumerate(counts):
            lost_flags.extend([1.0] * n_lost + [0.0] * (n_held - n_lost))
            sample_numbers.extend([sample_number] * n_held)
        interval = mean_interval(lost_flags, sample_numbers)
        assert interval is not None  # noqa: S101  # at least one reached the stage
        return interval

    def _droppers_by_count(self) -> list[tuple[str, int]]:
        """Named steps, such as a reranker, and how many each dropped, the most first."""
        return sorted(
            self._lost_by_name.items(),
            key=lambda name_and_count: (-name_and_count[1], name_and_count[0]),
        )


class _StageTallies:
    """What each stage was given and lost over samples."""

    def __init__(self) -> None:
        self.of_facts = {loss: _StageTally() for loss in _LOSSES_OF_FACTS}
        self.of_passages = {loss: _StageTally() for loss in _LOSSES_OF_PASSAGES}
        self._n_samples = 0

    def add(self, sample: SampleJourney) -> None:
        """Count the facts and passages of one sample."""
        number = self._n_samples
        self._n_samples += 1
        for fact in sample.facts:
            for stage, is_lost in sample.stages_reached(fact):
                self.of_facts[stage].add(is_lost, number)
        for passage in sample.passages:
            _add_passage(self.of_passages, passage, number)

    @property
    def n_facts_lost(self) -> int:
        """How many facts the stages have lost together."""
        return sum(tally.n_lost for tally in self.of_facts.values())

    def losses_of_known_stages(self) -> Iterator[StageLoss]:
        """Yield what each stage lost of which something is known, facts first."""
        for loss, tally in self.of_facts.items():
            if tally.n_held:
                yield tally.stage_loss(loss, "facts")
        for loss, tally in self.of_passages.items():
            if tally.n_held:
                yield tally.stage_loss(loss, "passages")


class _StageToMend:
    """Chooses the loss to mend first, over samples that come one by one."""

    def __init__(self) -> None:
        self._stages = _StageTallies()
        self._n_samples_with_facts = 0
        self._n_samples_with_known_facts = 0  # it is known what became of each fact
        self._n_facts_unknown = self._n_passages_unknown = 0

    def add(self, sample: SampleJourney) -> None:
        """Count one sample, without verdicts that may follow from an earlier loss."""
        self._stages.add(_forgive_needless_citations(_drop_doubtful_verdicts(sample)))
        self._n_facts_unknown += sample.n_facts_unknown
        self._n_passages_unknown += sample.n_passages_unknown
        if sample.facts:
            self._n_samples_with_facts += 1
        if sample.knows_every_fact:
            self._n_samples_with_known_facts += 1

    @property
    def loss(self) -> Loss | None:
        """The loss to mend first; None if nothing was lost, or too little is known.

        Facts are needed, so they count first: it is the loss of most facts. If no fact
        was lost, it is the loss of the largest share of passages.
        """
        if self._stages.n_facts_lost > 0:
            return self._loss_of_most_facts()
        # a fact of which nothing is known may have been lost at any stage
        if self._n_facts_unknown > 0:
            return None
        return self._loss_of_most_passages()

    def _loss_of_most_facts(self) -> Loss | None:
        """The loss of most facts; of equal ones that of the earlier stage.

        Example: 5 facts not retrieved and 2 cut: "not_retrieved". None if more facts are
        unknown than it lost: of 6 unknown facts all may be "cut", which would be more.
        """
        n_by_loss = {
            loss: tally.n_lost for loss, tally in self._stages.of_facts.items()
        }
        most = max(n_by_loss, key=lambda loss: n_by_loss[loss])
        return most if n_by_loss[most] >= self._n_facts_unknown else None

    def _loss_of_most_passages(self) -> Loss | None:
        """The loss of the largest share of the passages that reached its stage.

        Example: 2 of 10 were not kept and 4 of 8 not shown: "not_shown". None if more
        passages are unknown than it lost: another stage may have lost more then.
        """
        share_by_loss = {
            loss: tally.n_lost / tally.n_held
            for loss, tally in self._stages.of_passages.items()
            if tally.n_held and not self._is_harmless(loss)
        }
        if not any(share_by_loss.values()):
            return None
        largest = max(share_by_loss, key=lambda loss: share_by_loss[loss])
        n_lost = self._stages.of_passages[largest].n_lost
        return largest if n_lost >= self._n_passages_unknown else None

    def _is_harmless(self, loss_of_passages: Loss) -> bool:
        """Whether passages lost on the way to the model were surely not needed.

        They were not, if it is known that all facts reached the model.
        """
        n_samples = self._n_samples_with_facts
        are_all_facts_known = self._n_samples_with_known_facts == n_samples > 0
        return are_all_facts_known and loss_of_passages in _LOSSES_OF_FACTS


def first_to_mend(followed: Iterable[SampleJourney]) -> Loss | None:
    """The loss of these samples to mend first; see ``Journey.mend``."""
    choice = _StageToMend()
    for sample in followed:
        choice.add(sample)
    return choice.loss


def _add_passage(
    tallies: Mapping[Loss, _StageTally], passage: Passage, number: int
) -> None:
    """Count a passage at each stage that it reached, as far as its fate there is known.

    Example: a passage that was kept, shown in part and useful counts as lost at "cut".

    Args:
        tallies: The counts of the stages, which are changed.
        passage: The passage.
        number: The number of its sample.
    """
    if passage.kept is not None:
        tallies["not_kept"].add(passage.kept is False, number, passage.dropped_by)
    if passage.kept is False:  # a dropped passage reached no later stage
        return
    # A passage without a rank is a context of a sample whose retrieval was not recorded:
    # nothing is known of whether it was left out of the prompt.
    was_retrieved = passage.rank is not None
    if was_retrieved and passage.shown is not None:
        tallies["not_shown"].add(passage.shown == "not shown", number)
    if not passage.was_shown:
        return
    # If the prompt may hold the whole passage in slightly other words, it is not known
    # whether it was cut.
    if was_retrieved and not passage.may_be_whole:
        tallies["cut"].add(passage.shown == "cut", number)
    if passage.useful is not None:
        tallies["not_useful"].add(not passage.useful, number)
    # A useless passage needs no citation. If its usefulness is not known, it is counted.
    if passage.useful is not False and passage.cited is not None:
        tallies["not_cited"].add(not passage.cited, number)


def _drop_doubtful_verdicts(sample: SampleJourney) -> SampleJourney:
    """Forget verdicts on shown passages that may follow from an earlier loss.

    If no shown passage is useful, the useful ones may be among those lost before the
    model: the shown ones are not to blame.
    """
    are_some_lost = any(
        passage.lost in ("not_kept", "not_shown") for passage in sample.passages
    )
    is_any_useful = any(passage.useful for passage in sample.passages)
    if not are_some_lost or is_any_useful or sample.knows_every_fact:
        return sample
    passages = (
        replace(passage, useful=None, cited=None) for passage in sample.passages
    )
    return replace(sample, passages=tuple(passages))


def _forgive_needless_citations(sample: SampleJourney) -> SampleJourney:
    """Forget that a passage is not cited, where the answer need not cite it.

    Example: passages 1 and 2 hold one fact, and 1 is cited. Then 2 need not be cited:
    its ``cited`` becomes None, so that it does not count as a loss.
    """
    ranks_with_facts = _ranks_with_facts(sample)
    passages = []
    for number, passage in enumerate(sample.passages, start=1):
        # Without a record of the retrieval a passage has no rank: it is a context, and
        # facts name it by its number.
        rank = passage.rank or number
        is_uncited = passage.cited is False
        if is_uncited and not _needs_citation(passage, rank, sample, ranks_with_facts):
            passages.append(replace(passage, cited=None))
        else:
            passages.append(passage)
    return replace(sample, passages=tuple(passages))


def _needs_citation(
    passage: Passage, rank: int, sample: SampleJourney, facts: _RanksWithFacts
) -> bool:
    """Whether an answer ought to cite a passage that it does not cite.

    Args:
        passage: The passage. It ``holds_uncited_words`` if a sentence of the answer
            stands in it, and in no cited passage.
        rank: Its rank.
        sample: The passages and facts of its sample.
        facts: The ranks of the passages that hold facts.
    """
    if not sample.knows_every_fact:
        return bool(passage.useful) or passage.holds_uncited_words
    if rank in facts.with_uncited_fact:
        # else the answer leaves the fact out
        return passage.holds_uncited_words
    if rank in facts.with_fact:  # cited passages say the same
        return False
    return bool(passage.useful)


class _RanksWithFacts(NamedTuple):
    """The ranks of the passages that hold facts.

    Attributes:
        with_fact: Of all that hold a fact.
        with_uncited_fact: Of those that hold a fact that no cited passage holds.
    """

    with_fact: set[int]
    with_uncited_fact: set[int]


def _ranks_with_facts(sample: SampleJourney) -> _RanksWithFacts:
    """Find the passages that hold facts, and those whose facts no cited passage holds.

    Example: fact A in passages 1 and 2, B in 3, only 1 is cited: {1, 2, 3} and {3}.
    """
    ranks_cited = {
        passage.rank or number
        for number, passage in enumerate(sample.passages, start=1)
        if passage.cited
    }
    with_fact: set[int] = set()
    with_uncited_fact: set[int] = set()
    for fact in sample.facts:
        with_fact.update(fact.passages)
        if ranks_cited.isdisjoint(fact.passages):
            with_uncited_fact.update(fact.passages)
    return _RanksWithFacts(with_fact, with_uncited_fact)
