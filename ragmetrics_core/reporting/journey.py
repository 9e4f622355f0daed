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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Literal, get_args

from pydantic import Field, TypeAdapter

from ragmetrics_core.data import Frozen, SampleResult
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.reporting.sample_journey import (
    FactOnItsWay,
    Loss,
    Passage,
    SampleJourney,
    journey_of,
)
from ragmetrics_core.statistics.means import Interval, mean_interval

Unit = Literal["passages", "facts"]

_LOSSES: tuple[Loss, ...] = get_args(Loss)
_LOSSES_OF_PASSAGES: tuple[Loss, ...] = _LOSSES[2:]
_LOSSES_OF_FACTS: tuple[Loss, ...] = _LOSSES[:5]
_BY_PASSAGES = (
    "It is not known whether what was lost was needed: for that give references, or"
    " facts, and let RetrievalAccuracy ask."
)
_FACTS_ARE_UNKNOWN = (
    "It is not known whether what was lost was needed: of some facts it is unknown what"
    " became of them."
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
            of which nothing is known is left out.
        mend: The loss to mend first; None if nothing was lost, or nothing is known.
        mend_by: What was counted to name it: facts, which are needed, or passages, which
            may have been dropped for good reason; None without ``mend``.
        unknown: By stage and reason, in how many samples nothing is known of it.
    """

    samples: int
    passages: int
    facts: int
    stages: tuple[StageLoss, ...]
    mend: Loss | None
    mend_by: Unit | None = None
    unknown: Mapping[tuple[str, str], int] = field(default_factory=dict)

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
        """The stage to mend first, with its numbers and remedy; "" without ``mend``."""
        if self.mend is None:
            return ""
        advice = ADVICE[self.mend]
        words = f"Mend {advice.stage} first: {self.stage_to_mend}. {advice.remedy}"
        return f"{words} {self.caution}".rstrip()

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
        if self._knows_every_fact:
            return ""
        return _FACTS_ARE_UNKNOWN if self.facts else _BY_PASSAGES

    @property
    def _knows_every_fact(self) -> bool:
        """Whether facts were asked about, and it is known what became of each."""
        return bool(self.facts) and not any(
            stage == "facts" for stage, _ in self.unknown
        )

    def __str__(self) -> str:
        parts = [
            count_in_words(self.samples, "sample"),
            count_in_words(self.passages, "retrieved passage"),
        ]
        if self.facts:
            parts.append(count_in_words(self.facts, "fact"))
        lines = [f"Journey of {', '.join(parts)}"]
        lines += [f"  {stage}" for stage in self.stages]
        if self.sentence:
            lines.append(self.sentence)
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
        self._unknown = Counter[tuple[str, str]]()
        self._stages = _StageTallies()
        self._choice = _StageToMend()

    def add(self, row: SampleResult) -> SampleJourney | None:
        """Follow one row; returns its journey, None for a row that has none."""
        sample = journey_of(row)
        if sample is None:
            return None
        self._n_samples += 1
        self._n_passages += sum(passage.rank is not None for passage in sample.passages)
        self._n_facts += len(sample.facts)
        self._unknown.update(sample.unknown.items())
        self._stages.add(sample)
        self._choice.add(sample)
        return sample

    def journey(self) -> Journey:
        """Sum up where the rows so far lost facts and passages, and what to mend first.

        The stage to mend first is the one that lost most facts, if any facts were lost.
        Else it is the one that lost the largest share of its passages. ``mend_by`` says
        which of the two units was counted.
        """
        loss_to_mend = self._choice.loss
        tallies = self._stages.known
        has_lost_facts = any(
            tally.n_lost for (_, unit), tally in tallies.items() if unit == "facts"
        )
        unit_to_mend: Unit = "facts" if has_lost_facts else "passages"
        return Journey(
            samples=self._n_samples,
            passages=self._n_passages,
            facts=self._n_facts,
            stages=tuple(
                tally.stage(loss, unit) for (loss, unit), tally in tallies.items()
            ),
            mend=loss_to_mend,
            mend_by=None if loss_to_mend is None else unit_to_mend,
            unknown=dict(sorted(self._unknown.items())),
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
        """Count a unit of a sample; those of one sample come one after the other.

        ``name`` is that of the step which lost it, where it is known.
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

    def stage(self, loss: Loss, unit: Unit) -> StageLoss:
        """Say how many facts or passages the stage lost, of those that reached it.

        The share of lost ones has an interval. For the interval, the facts or passages
        of one sample are a cluster, because they are not independent.

        Args:
            loss: The kind of loss that the stage stands for.
            unit: Whether facts or passages are counted. At least one reached the stage.
        """
        lost_flags = array("d")  # 1.0 for a lost one, else 0.0
        sample_numbers = array("q")
        counts = zip(self._lost_by_sample, self._held_by_sample, strict=True)
        for sample_number, (n_lost, n_held) in enumerate(counts):
            lost_flags.extend([1.0] * n_lost + [0.0] * (n_held - n_lost))
            sample_numbers.extend([sample_number] * n_held)
        interval = mean_interval(lost_flags, sample_numbers)
        assert interval is not None  # noqa: S101  # at least one reached the stage
        # named steps of the application, such as a reranker, with how many each dropped;
        # the steps that dropped most come first, equal ones by name
        steps = sorted(
            self._lost_by_name.items(),
            key=lambda name_and_count: (-name_and_count[1], name_and_count[0]),
        )
        return StageLoss(
            loss=loss,
            unit=unit,
            lost=self.n_lost,
            of=self.n_held,
            interval=interval,
            samples=len(self._held_by_sample),
            by=dict(steps),
        )


class _StageTallies:
    """What each stage was given and lost over samples."""

    def __init__(self) -> None:
        self._of_facts = {loss: _StageTally() for loss in _LOSSES_OF_FACTS}
        self._of_passages = {loss: _StageTally() for loss in _LOSSES_OF_PASSAGES}
        self._n_samples = 0

    def add(self, sample: SampleJourney) -> None:
        """Count the facts and passages of one sample."""
        number = self._n_samples
        self._n_samples += 1
        for fact in sample.facts:
            if fact.known:
                _add_fact(self._of_facts, fact, sample, number)
        for passage in sample.passages:
            _add_passage(self._of_passages, passage, number)

    @property
    def known(self) -> dict[tuple[Loss, Unit], _StageTally]:
        """The stages of which something is known, facts first, in their order."""
        known: dict[tuple[Loss, Unit], _StageTally] = {}
        for loss, tally in self._of_facts.items():
            if tally.n_held:
                known[loss, "facts"] = tally
        for loss, tally in self._of_passages.items():
            if tally.n_held:
                known[loss, "passages"] = tally
        return known


class _StageToMend:
    """Chooses the loss to mend first, over samples that come one by one."""

    def __init__(self) -> None:
        self._stages = _StageTallies()
        self._n_samples_with_facts = 0
        self._n_samples_with_known_facts = 0  # it is known what became of each fact

    def add(self, sample: SampleJourney) -> None:
        """Count one sample, without verdicts that may follow from an earlier loss."""
        self._stages.add(_drop_needless_citations(_drop_doubtful_verdicts(sample)))
        if sample.facts:
            self._n_samples_with_facts += 1
        if sample.knows_every_fact:
            self._n_samples_with_known_facts += 1

    @property
    def loss(self) -> Loss | None:
        """The loss to mend first; None if nothing was lost, or nothing is known.

        - If facts were lost, it is the stage that lost most facts.
        - Else it is the stage that lost the largest share of its passages.

        Of equal stages the earlier one is chosen.
        """
        tallies = self._stages.known
        n_facts_by_loss = {
            loss: tally.n_lost
            for (loss, unit), tally in tallies.items()
            if unit == "facts"
        }
        if any(n_facts_by_loss.values()):
            return max(n_facts_by_loss, key=lambda loss: n_facts_by_loss[loss])
        n_samples = self._n_samples_with_facts
        is_surely_no_fact_lost = (
            n_samples > 0 and self._n_samples_with_known_facts == n_samples
        )
        share_by_loss: dict[Loss, float] = {}
        for (loss, unit), tally in tallies.items():
            # If all facts reached the model, passages that did not reach it were not
            # needed, so their loss is harmless. Passages that reached the model and were
            # useless or not cited count all the same.
            was_harmless = is_surely_no_fact_lost and loss in _LOSSES_OF_FACTS
            if unit == "passages" and not was_harmless:
                share_by_loss[loss] = tally.n_lost / tally.n_held
        if not any(share_by_loss.values()):
            return None
        return max(share_by_loss, key=lambda loss: share_by_loss[loss])


def first_to_mend(followed: Iterable[SampleJourney]) -> Loss | None:
    """The loss of these samples to mend first; see ``Journey.mend``."""
    choice = _StageToMend()
    for sample in followed:
        choice.add(sample)
    return choice.loss


def _add_fact(
    tallies: Mapping[Loss, _StageTally],
    fact: FactOnItsWay,
    sample: SampleJourney,
    number: int,
) -> None:
    """Count a fact at each stage up to the stage that lost it.

    Args:
        tallies: The counts of the stages, which are changed.
        fact: The fact, of which it is known what became of it.
        sample: The journey of its sample.
        number: The number of the sample.
    """
    stages: list[Loss] = ["not_retrieved", "not_shown", "cut"]
    if "kept" not in sample.unknown:
        stages.insert(1, "not_kept")
    if "retrieved" in sample.unknown:
        # it is known only whether the texts that the model was shown hold the fact
        stages = ["missing"]
    for stage in stages:
        is_lost = fact.lost == stage
        tallies[stage].add(is_lost, number)
        if is_lost:
            return


def _add_passage(
    tallies: Mapping[Loss, _StageTally], passage: Passage, number: int
) -> None:
    """Count a passage at each stage that it reached, as far as its fate there is known.

    Args:
        tallies: The counts of the stages, which are changed.
        passage: The passage. Without a rank and not dropped, it is a context of a sample
            whose retrieval was not recorded. All that is known of it is that the model
            was shown it, so it does not count at the stages before.
        number: The number of its sample.
    """
    has_rank = passage.rank is not None
    if passage.kept is not None:
        tallies["not_kept"].add(passage.kept is False, number, passage.dropped_by)
    if passage.kept is False:
        return  # dropped: it did not reach the later stages
    if passage.shown is not None and has_rank:
        tallies["not_shown"].add(passage.shown == "not shown", number)
    if not passage.was_shown:
        return
    if has_rank:
        tallies["cut"].add(passage.shown == "cut", number)
    if passage.useful is not None:
        tallies["not_useful"].add(not passage.useful, number)
    if passage.useful is not False and passage.cited is not None:
        tallies["not_cited"].add(not passage.cited, number)


def _drop_doubtful_verdicts(sample: SampleJourney) -> SampleJourney:
    """Forget verdicts on shown passages that may follow from an earlier loss.

    If passages were lost before the model, and no shown passage is useful, the useful
    ones may be among the lost: the shown ones are not to blame. Where it is known what
    became of every fact, the verdicts stay.
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


def _drop_needless_citations(sample: SampleJourney) -> SampleJourney:
    """Do not count a passage as uncited where the passage needs no citation.

    A passage that is not cited may be noise, or say what a cited passage says, or the
    answer may leave the passage out. Such a passage gets ``cited=None``. Whether a
    passage needs a citation depends on what is known of the facts:

    - The passages of every fact are known, and this passage holds a fact: it needs a
      citation if no cited passage holds that fact, and if the answer uses words of this
      passage that no cited passage has.
    - The passages of every fact are known, and this passage holds no fact: it needs a
      citation if a metric judged it useful.
    - The passages of some fact are not known: this passage needs a citation if a metric
      judged it useful, or if the answer uses words that only this passage and no cited
      passage has.
    """
    ranks_with_facts, ranks_with_uncited_facts = _ranks_with_facts(sample)
    passages = []
    for number, passage in enumerate(sample.passages, start=1):
        # where what was retrieved is not known, the passages are the contexts
        rank = passage.rank or number
        is_useful = bool(passage.useful)
        if sample.knows_every_fact and rank in ranks_with_facts:
            holds_uncited_fact = rank in ranks_with_uncited_facts
            needs_citation = holds_uncited_fact and passage.holds_uncited_words
        elif sample.knows_every_fact:
            needs_citation = is_useful
        else:
            needs_citation = is_useful or passage.holds_uncited_words
        if passage.cited is False and not needs_citation:
            passages.append(replace(passage, cited=None))
        else:
            passages.append(passage)
    return replace(sample, passages=tuple(passages))


def _ranks_with_facts(sample: SampleJourney) -> tuple[set[int], set[int]]:
    """Return the ranks of passages with facts, in two sets.

    Returns:
        The ranks of all passages that hold a fact, and the ranks of passages that hold a
        fact of which no passage is cited.
    """
    ranks_cited = {
        passage.rank or number
        for number, passage in enumerate(sample.passages, start=1)
        if passage.cited
    }
    ranks: set[int] = set()
    ranks_uncited: set[int] = set()
    for fact in sample.facts:
        ranks.update(fact.passages)
        if ranks_cited.isdisjoint(fact.passages):
            ranks_uncited.update(fact.passages)
    return ranks, ranks_uncited
