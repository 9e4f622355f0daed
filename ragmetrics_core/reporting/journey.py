"""The journey: where a run lost passages and facts on the way into the answers.

A passage is retrieved, kept by rerankers and filters, shown whole or in part, useful, and
cited. A fact of the reference is in a retrieved text or in none, and in a text that was
shown or in none. A stage's loss is its share of what the stage before held. What nobody
noted, and no judge looked at, is left out with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragmetrics_core.data import SampleResult
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

LOSS_IN_WORDS: Mapping[Loss, str] = {
    "not_retrieved": "in no retrieved text",
    "missing": "in no text that the model was shown",
    "not_kept": "dropped between search and prompt",
    "not_shown": "retrieved, and not shown to the model",
    "cut": "shown in part",
    "not_useful": "shown, and of no use",
    "not_cited": "shown, and not cited",
}
"""What happened to a passage or fact, in the order of the stages."""

_STAGES: tuple[tuple[Unit, Loss], ...] = (
    ("facts", "not_retrieved"),
    ("facts", "missing"),
    ("facts", "not_kept"),
    ("facts", "not_shown"),
    ("passages", "not_kept"),
    ("passages", "not_shown"),
    ("passages", "cut"),
    ("passages", "not_useful"),
    ("passages", "not_cited"),
)


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
            f"{self.unit} {LOSS_IN_WORDS[self.loss]}: {self.lost:,} of {self.of:,}"
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
        unknown: By stage and reason, in how many samples something is not known of it.
        facts_unknown: Of how many facts it is not known what became of them.
        passages_unknown: Of how many retrieved passages, that no step is known to have
            dropped, it is not known whether the model was shown them.
    """

    samples: int
    passages: int
    facts: int
    stages: tuple[StageLoss, ...]
    unknown: Mapping[tuple[str, str], int] = field(default_factory=dict)
    facts_unknown: int = 0
    passages_unknown: int = 0

    def of(self, loss: Loss, unit: Unit = "passages") -> StageLoss | None:
        """One stage's loss; None if nothing is known of it."""
        for stage in self.stages:
            if (stage.loss, stage.unit) == (loss, unit):
                return stage
        return None

    def __str__(self) -> str:
        """Return a heading, a line for each stage, and what is unknown.

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
    followed = [found for found in map(journey_of, rows) if found is not None]
    tallies = {stage: _StageTally() for stage in _STAGES}
    unknown = Counter[tuple[str, str]]()
    for number, sample in enumerate(followed):
        unknown.update(sample.unknown.items())
        for unit, loss, is_lost, name in _stages_reached(sample):
            tallies[unit, loss].add(is_lost, number, name)
    return Journey(
        samples=len(followed),
        passages=sum(
            passage.rank is not None
            for sample in followed
            for passage in sample.passages
        ),
        facts=sum(len(sample.facts) for sample in followed),
        stages=tuple(
            tally.stage_loss(unit, loss)
            for (unit, loss), tally in tallies.items()
            if tally.lost
        ),
        unknown=dict(sorted(unknown.items())),
        facts_unknown=sum(
            not fact.known for sample in followed for fact in sample.facts
        ),
        passages_unknown=sum(
            _is_showing_unknown(passage)
            for sample in followed
            for passage in sample.passages
        ),
    )


def _is_showing_unknown(passage: Passage) -> bool:
    is_retrieved_and_kept = passage.rank is not None and passage.kept is not False
    return is_retrieved_and_kept and passage.shown is None


class _StageTally:
    """One stage over samples: which units reached it, and which of them it lost."""

    def __init__(self) -> None:
        self.lost: list[bool] = []
        self._samples: list[int] = []
        self._lost_by_name = Counter[str]()

    def add(self, is_lost: bool, sample: int, name: str | None) -> None:
        """Count a fact or passage of a sample; ``name`` is the step that lost it."""
        self.lost.append(is_lost)
        self._samples.append(sample)
        if is_lost and name:
            self._lost_by_name[name] += 1

    def stage_loss(self, unit: Unit, loss: Loss) -> StageLoss:
        """Say how many reached the stage, and how many it lost; each sample is a cluster."""
        interval = mean_interval(
            [float(is_lost) for is_lost in self.lost], self._samples
        )
        assert interval is not None  # noqa: S101  # at least one reached the stage
        names = sorted(self._lost_by_name.items(), key=lambda item: (-item[1], item[0]))
        return StageLoss(
            loss=loss,
            unit=unit,
            lost=sum(self.lost),
            of=len(self.lost),
            interval=interval,
            samples=len(set(self._samples)),
            by=dict(names),
        )


def _stages_reached(
    sample: SampleJourney,
) -> Iterator[tuple[Unit, Loss, bool, str | None]]:
    """Yield each stage that a fact or passage is known to have reached, and whether it was lost there."""
    for fact in sample.facts:
        for loss, is_lost in _stages_of_fact(fact, "retrieved" not in sample.unknown):
            yield "facts", loss, is_lost, None
    for passage in sample.passages:
        for loss, is_lost in _stages_of_passage(passage):
            name = passage.dropped_by if loss == "not_kept" else None
            yield "passages", loss, is_lost, name


def _stages_of_fact(
    fact: FactOnItsWay, is_retrieval_known: bool
) -> Iterator[tuple[Loss, bool]]:
    """Yield the stages of which it is known whether they lost a fact, up to its loss."""
    if not is_retrieval_known:
        if fact.shown is not None:
            yield "missing", not fact.shown
        return
    if fact.retrieved is not None:
        yield "not_retrieved", not fact.retrieved
    if fact.kept is not None:
        yield "not_kept", not fact.kept
    if fact.shown is not None and fact.kept is not False:
        yield "not_shown", not fact.shown


def _stages_of_passage(passage: Passage) -> Iterator[tuple[Loss, bool]]:
    """Yield the stages of which it is known whether they lost a passage, up to its loss.

    Example: a passage that was kept, shown in part and useful counts as lost at "cut".
    """
    if passage.kept is not None:
        yield "not_kept", not passage.kept
    if passage.kept is False:
        return
    # without a rank it is a context of a sample whose retrieval was not recorded
    was_retrieved = passage.rank is not None
    if was_retrieved and passage.shown is not None:
        yield "not_shown", not passage.was_shown
    if not passage.was_shown:
        return
    if was_retrieved:
        yield "cut", passage.shown == "cut"
    if passage.useful is not None:
        yield "not_useful", not passage.useful
    # A useless passage needs no citation. If its usefulness is not known, it is counted.
    if passage.useful is not False and passage.cited is not None:
        yield "not_cited", not passage.cited
