"""The journey: where passages and facts were lost on the way into the answer.

A passage is retrieved, kept by rerankers and filters, shown whole or in part, useful,
and cited. A fact of the reference is in a retrieved text or in none, and in a text that
was shown or in none. All is read from what was recorded and judged; no judge is asked.
What nobody recorded, and no judge looked at, is left out with its reason.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Literal, get_args

from pydantic import Field, TypeAdapter

from ragmetrics_core.data import Frozen, SampleResult
from ragmetrics_core.reporting.sample_journey import (
    FactOnItsWay,
    Loss,
    Passage,
    SampleJourney,
    journey_of,
)
from ragmetrics_core.reporting.summary import count_in_words
from ragmetrics_core.statistics.means import Interval, mean_interval

Unit = Literal["passages", "facts"]

_LOSSES: tuple[Loss, ...] = get_args(Loss)
_LOSSES_OF_PASSAGES: tuple[Loss, ...] = _LOSSES[2:]
_LOSSES_OF_FACTS: tuple[Loss, ...] = _LOSSES[:5]
_BY_PASSAGES = (
    " It is not known whether what was lost was needed: for that give references, or"
    " facts, and let RetrievalAccuracy ask."
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
        stage = self.of(self.mend, self.mend_by or "passages")
        caution = "" if self.mend_by == "facts" or self._is_settled else _BY_PASSAGES
        return f"Mend {advice.stage} first: {stage}. {advice.remedy}{caution}"

    @property
    def _is_settled(self) -> bool:
        """Whether it is known of all facts that none was lost."""
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
    followed = [sample for sample in map(journey_of, rows) if sample is not None]
    unknown = Counter(
        (stage, reason)
        for sample in followed
        for stage, reason in sample.unknown.items()
    )
    counts = _counts(followed)
    mend = first_to_mend(followed)
    by_facts = any(
        tallied.n_lost for (_, unit), tallied in counts.items() if unit == "facts"
    )
    mend_by: Unit = "facts" if by_facts else "passages"
    return Journey(
        samples=len(followed),
        passages=sum(
            passage.rank is not None
            for sample in followed
            for passage in sample.passages
        ),
        facts=sum(len(sample.facts) for sample in followed),
        stages=tuple(
            _stage(loss, unit, tallied) for (loss, unit), tallied in counts.items()
        ),
        mend=mend,
        mend_by=None if mend is None else mend_by,
        unknown=dict(sorted(unknown.items())),
    )


@dataclass(slots=True)
class _Tallied:
    """One stage over samples: of each unit whether it was lost, and its sample."""

    lost: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    by: Counter[str] = field(default_factory=Counter)

    @property
    def n_lost(self) -> int:
        return sum(self.lost)

    def add(self, is_lost: bool, sample: int, name: str | None = None) -> None:
        self.lost.append(int(is_lost))
        self.samples.append(sample)
        if is_lost and name:
            self.by[name] += 1


_Counts = Mapping[tuple[Loss, Unit], _Tallied]


def _counts(followed: Sequence[SampleJourney]) -> _Counts:
    """What each stage was given and lost, facts first; stages that nothing is known of are left out."""
    facts = {loss: _Tallied() for loss in _LOSSES_OF_FACTS}
    passages = {loss: _Tallied() for loss in _LOSSES_OF_PASSAGES}
    for number, sample in enumerate(followed):
        for fact in sample.facts:
            if fact.known:
                _add_fact(facts, fact, sample, number)
        for passage in sample.passages:
            _add_passage(passages, passage, number)
    counts: dict[tuple[Loss, Unit], _Tallied] = {}
    counts.update(
        {(loss, "facts"): tallied for loss, tallied in facts.items() if tallied.lost}
    )
    counts.update(
        {
            (loss, "passages"): tallied
            for loss, tallied in passages.items()
            if tallied.lost
        }
    )
    return counts


def _add_fact(
    tallies: Mapping[Loss, _Tallied],
    fact: FactOnItsWay,
    sample: SampleJourney,
    number: int,
) -> None:
    """Count a fact at each stage up to the one that lost it."""
    stages: list[Loss] = ["not_retrieved", "not_shown", "cut"]
    if "kept" not in sample.unknown:
        stages.insert(1, "not_kept")
    if "retrieved" in sample.unknown:
        stages = ["missing"]
    for stage in stages:
        is_lost = fact.lost == stage
        tallies[stage].add(is_lost, number)
        if is_lost:
            return


def _add_passage(
    tallies: Mapping[Loss, _Tallied], passage: Passage, number: int
) -> None:
    """Count a passage at each stage that it reached and that is known."""
    if passage.kept is not None:
        tallies["not_kept"].add(passage.kept is False, number, passage.dropped_by)
    if passage.kept is False:
        return
    if passage.shown is not None and passage.rank is not None:
        tallies["not_shown"].add(passage.shown == "not shown", number)
    if not passage.was_shown:
        return
    if passage.rank is not None:
        tallies["cut"].add(passage.shown == "cut", number)
    if passage.useful is not None:
        tallies["not_useful"].add(not passage.useful, number)
    if passage.useful is not False and passage.cited is not None:
        tallies["not_cited"].add(not passage.cited, number)


def _stage(loss: Loss, unit: Unit, tallied: _Tallied) -> StageLoss:
    interval = mean_interval(
        [float(is_lost) for is_lost in tallied.lost], tallied.samples
    )
    assert interval is not None  # noqa: S101  # only stages with a unit are counted
    return StageLoss(
        loss=loss,
        unit=unit,
        lost=tallied.n_lost,
        of=len(tallied.lost),
        interval=interval,
        samples=len(set(tallied.samples)),
        by=dict(
            sorted(
                tallied.by.items(),
                key=lambda name_and_count: (-name_and_count[1], name_and_count[0]),
            )
        ),
    )


def first_to_mend(followed: Sequence[SampleJourney]) -> Loss | None:
    """The loss to mend first; of equal ones that of the earlier stage.

    Where facts were lost, the stage that lost most of them. If it is settled that none
    was, no passage was lost that was needed, and only what is of no use or not cited
    counts. Else the stage that lost the largest share of its passages.
    """
    counts = _counts([_drop_doubtful_verdicts(sample) for sample in followed])
    settled = _are_settled(followed)
    n_lost_by_loss = {
        loss: tallied.n_lost
        for (loss, unit), tallied in counts.items()
        if unit == "facts"
    }
    if any(n_lost_by_loss.values()):
        return max(n_lost_by_loss, key=lambda loss: n_lost_by_loss[loss])
    share_by_loss = {
        loss: tallied.n_lost / len(tallied.lost)
        for (loss, unit), tallied in counts.items()
        if unit == "passages" and not (settled and loss in _LOSSES_OF_FACTS)
    }
    if not any(share_by_loss.values()):
        return None
    return max(share_by_loss, key=lambda loss: share_by_loss[loss])


def _are_settled(followed: Iterable[SampleJourney]) -> bool:
    """Whether facts were asked about, and it is known of each what became of it."""
    samples_with_facts = [sample for sample in followed if sample.facts]
    return bool(samples_with_facts) and all(
        sample.is_settled for sample in samples_with_facts
    )


def _drop_doubtful_verdicts(sample: SampleJourney) -> SampleJourney:
    """A sample without verdicts that may follow from an earlier loss.

    Where passages were lost on the way and none that was shown is useful, the useful
    ones may be among the lost.
    """
    lost_before = any(
        passage.lost in ("not_kept", "not_shown") for passage in sample.passages
    )
    is_useful = any(passage.useful for passage in sample.passages)
    if not lost_before or is_useful or sample.is_settled:
        return sample
    passages = (
        replace(passage, useful=None, cited=None) for passage in sample.passages
    )
    return replace(sample, passages=tuple(passages))
