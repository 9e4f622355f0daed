"""Gates: is a mean score high enough?

Three outcomes, because samples may be too few to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from ragmetrics_core.data import (
    Frozen,
    SettingError,
    Settings,
    Share,
    did_you_mean,
    find_metric,
)
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.reporting.pairing import GroupBy
from ragmetrics_core.reporting.run_facts import Decision
from ragmetrics_core.reporting.summary import MetricSummary, Summary
from ragmetrics_core.statistics.means import Interval
from ragmetrics_core.statistics.stopping import (
    MIN_SCORED,
    ROUNDING,
    On,
    Outcome,
    SequentialGate,
    check_share,
)

if TYPE_CHECKING:
    from ragmetrics_core.reporting.report import Report


_NEAREST = 0.001  # distance of mean and threshold from which rows can decide
_SHOWN = 10  # slices that do not pass
_DECIMALS, _MOST_DECIMALS = 3, 18  # of numbers in sentences; a float has 17 digits

VERBS: dict[Outcome, str] = {
    "passed": "reaches",
    "failed": "misses",
    "undecided": "may or may not reach",
}

_SAID_OF_ONE: dict[Outcome, str] = {
    "passed": "passed",
    "failed": "failed",
    "undecided": "is undecided",
}


class Gate(Frozen):
    """A mean score to reach."""

    metric: str = Field(description="name of the metric")
    at_least: Share = Field(description="the lowest mean that is good enough")
    by: str | None = Field(
        default=None,
        description=(
            "key of the metadata; the mean of each of its values is to reach it"
        ),
    )

    def __str__(self) -> str:
        return f"{self.metric}={self.at_least:g}{f'@{self.by}' if self.by else ''}"


class UntilDecided(Settings):
    """How a run stops as soon as its gates are decided."""

    on: On = Field(
        default="interval",
        description=(
            "the gates speak of samples like these; or ``point``: of these rows"
        ),
    )
    alpha: float = Field(default=0.05, description="risk of a wrong decision")
    margin: Share = Field(
        default=0.0,
        description=(
            "a mean so far below its threshold may pass; with ``against``, so much"
            " worse than before"
        ),
    )
    min_samples: int = Field(default=10, description="samples scored before a decision")
    max_samples: int | None = Field(
        default=None, ge=1, description="end undecided after so many rows"
    )
    min_scored: Share = Field(
        default=MIN_SCORED,
        description="share of the rows looked at that must be scored",
    )
    seed: int = Field(
        default=0,
        description="of the order in which rows are taken; another one is another look",
    )
    against: Any = Field(
        default=None,
        repr=False,
        description="a finished run, or its file, to be no worse than",
    )
    cluster: GroupBy = Field(
        default="auto",
        repr=False,
        description="which samples belong together; with ``point`` each stands alone",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.gate(None)
        return self

    def gate(
        self,
        at_least: float | None,
        *,
        rows: int = 1,
        gates: int = 1,
        largest_cluster: int = 1,
    ) -> SequentialGate:
        """One gate of a run of so many rows.

        Without ``at_least`` that of an earlier run less the margin is meant.
        """
        return SequentialGate(
            (1 - self.margin) / 2 if at_least is None else at_least,
            margin=0.0 if at_least is None or self.against is not None else self.margin,
            alpha=self.alpha,
            population=rows if self.on == "point" else None,
            largest_cluster=largest_cluster,
            gates=gates,
            min_samples=self.min_samples,
            min_scored=self.min_scored,
        )


Until = UntilDecided | Literal["decided"] | None
"""Whether a run stops as soon as its gates are decided, and how; None judges all."""


def parse_gate(text: str, names: Sequence[str]) -> Gate:
    """Read a gate on one of the named metrics.

    A gate is written ``metric=threshold`` or ``metric=threshold@key``.

    The last word of a metric's name is enough, see ``find_metric``;
    ``adherence=0.8@metadata.language`` is a gate for each language.
    """
    name, equals, rest = (part.strip() for part in text.partition("="))
    threshold, at, by = (part.strip() for part in rest.partition("@"))
    if not equals or not name or (at and not by):
        raise SettingError(
            "a gate is written metric=threshold, e.g. adherence=0.8, or =0.8@language;"
            f" got {text!r}"
        )
    full = find_metric(name, names, place="for a gate")
    try:
        return Gate(
            metric=full,
            at_least=float(threshold),
            by=by.removeprefix("metadata.") or None,
        )
    except ValueError:
        message = (
            f"the threshold of a gate is a number from 0 to 1, e.g. {name}=0.8; got"
            f" {threshold!r}"
        )
        raise SettingError(message) from None


def decide(
    gate: Gate,
    measured: Report | Summary,
    *,
    on: On = "interval",
    min_scored: float = MIN_SCORED,
) -> Decision:
    """Hold a gate against what a run measured.

    Rows that failed or were not judged count as 0 and as 1: the gate is passed if the
    worst case reaches the threshold, failed if the best case misses it, else undecided.

    Args:
        gate: The gate.
        measured: A report or its summary.
        on: What is held against the threshold: the 95 % ``interval`` of the mean, or
            the mean (``point``).
        min_scored: Share of all rows that must be scored; with fewer, or after a run
            that ended early, the gate is undecided, for whatever reason the scores are
            missing.

    Returns:
        The decision. A metric that was not scored on any row has failed. A gate per
        slice is passed if each slice passes, and failed if any fails; samples without
        its key are a slice, bad rows are in all.

    Raises:
        SettingError: If ``min_scored`` is not in [0, 1], the metric was not measured,
            or no sample has the key of the slices.
    """
    check_share("min_scored", min_scored)
    if not isinstance(measured, Summary):
        measured = measured.summary(slices=[gate.by] if gate.by else ())
    names = [numbers.metric for numbers in measured.metrics]
    name = find_metric(gate.metric, names, place="of this run for a gate")
    gate = gate.model_copy(update={"metric": name})
    if gate.by is None:
        outcome, why = _decide(gate, measured, on, min_scored)
        sentence = f"{name}{why}"
        return Decision(
            metric=name, outcome=outcome, sentence=sentence, at_least=gate.at_least
        )
    if gate.by not in measured.slices:
        near = did_you_mean(gate.by, measured.slices)
        raise SettingError(
            f"the summary has no slices by {gate.by!r}{near}; make it with"
            f" slices=[{gate.by!r}]"
        )
    by_slice = {
        value: _decide(gate, summary, on, min_scored)
        for value, summary in sorted(measured.slices[gate.by].items())
    }
    return Decision(
        metric=name,
        outcome=_outcome_of_slices([outcome for outcome, _ in by_slice.values()]),
        sentence=_sentence_on_slices(gate, by_slice),
        at_least=gate.at_least,
    )


def all_in_words(decisions: Sequence[Decision], exit_code: int | None = None) -> str:
    """What all gates decide together, in one line.

    Args:
        decisions: What was decided of each gate.
        exit_code: That of the command which held the gates; None outside a command.

    Returns:
        The line; "" without gates, and for one gate outside a command, whose own
        sentence says it all.
    """
    if not decisions or (len(decisions) == 1 and exit_code is None):
        return ""
    outcomes = Counter(decision.outcome for decision in decisions)
    if len(decisions) == 1:
        words = f"The gate {_SAID_OF_ONE[decisions[0].outcome]}"
    else:
        words = f"{outcomes['passed']} of {len(decisions)} gates passed"
        if outcomes["failed"]:
            words += f", {outcomes['failed']} failed"
        if outcomes["undecided"]:
            words += f", {outcomes['undecided']} undecided"
    if exit_code is None:
        return f"{words}."
    effect = "stops" if exit_code else "goes on"
    return f"{words}: exit {exit_code}, at which a CI job {effect}."


def _outcome_of_slices(outcomes: Sequence[Outcome]) -> Outcome:
    """Passed if each slice passes; failed if any fails, or if there is none."""
    if not outcomes or "failed" in outcomes:
        return "failed"
    return "undecided" if "undecided" in outcomes else "passed"


def _sentence_on_slices(gate: Gate, by_slice: Mapping[str, tuple[Outcome, str]]) -> str:
    """How many slices reach the threshold, and why each of the first others does not."""
    not_passed = [
        f" {value}: {why.lstrip(': ')}"
        for value, (outcome, why) in by_slice.items()
        if outcome != "passed"
    ]
    n_passed = len(by_slice) - len(not_passed)
    sentence = (
        f"{gate.metric} by {gate.by}: {n_passed} of {len(by_slice)} slices reach"
        f" {gate.at_least:g}."
    )
    sentence += "".join(not_passed[:_SHOWN])
    if len(not_passed) > _SHOWN:
        sentence += f" And {len(not_passed) - _SHOWN} more."
    return sentence


def _decide(
    gate: Gate, summary: Summary, on: On, min_scored: float
) -> tuple[Outcome, str]:
    """What is decided of one metric in one summary, and why."""
    numbers = summary[gate.metric]
    missing = _missing(numbers, summary)
    if numbers.mean is None:
        why = f" cannot reach {gate.at_least:g}, since nothing was scored"
        return "failed", f"{why}: {missing}." if missing else f"{why}."
    why_not = _why_nothing_follows(numbers, summary, on, min_scored)
    if why_not:
        return "undecided", f" is not held against {gate.at_least:g}: {why_not}"
    return _decide_by_mean(gate, summary, numbers.mean, on)


def _decide_by_mean(
    gate: Gate, summary: Summary, mean: float, on: On
) -> tuple[Outcome, str]:
    """What follows from the mean of enough rows, and why."""
    numbers = summary[gate.metric]
    missing = _missing(numbers, summary)
    has_bounds = bool(summary.decisions) or on == "interval"
    interval = numbers.interval if has_bounds else None
    low, high = _bounds(numbers, mean, interval)
    outcome = three_way(low, high, gate.at_least)
    why = f" {_claim(outcome, mean, interval, gate.at_least)}:"
    why += f" mean {_number_in_words(mean, gate.at_least)} of"
    why += f" {count_in_words(numbers.count, 'scored row')}"
    if interval is not None:
        kind = "bounds" if summary.decisions else "95 % interval"
        why += f", {kind} {_range(interval.low, interval.high, gate.at_least)}"
    why += f".{_on_rows_without_a_score(gate, numbers, missing, (low, high))}"
    return outcome, f"{why}{_hint(outcome, numbers, interval, gate.at_least)}"


def _on_rows_without_a_score(
    gate: Gate, numbers: MetricSummary, missing: str, bounds: tuple[float, float]
) -> str:
    """Why rows have no score, and what they do to the bounds; "" if all have one."""
    if not missing:
        return ""
    if_known = _if_they_were(numbers.unknown, _range(*bounds, gate.at_least))
    return f" Not scored: {missing}{if_known}"


def _claim(
    outcome: Outcome, mean: float, interval: Interval | None, threshold: float
) -> str:
    """What follows from a mean, and why nothing does where the gate is undecided.

    Then the mean lies on one side of the threshold, and either chance or rows whose
    score is not known could have put it there.
    """
    if outcome != "undecided":
        return f"{VERBS[outcome]} {threshold:g}"
    verb = "reaches" if mean >= threshold - ROUNDING else "is below"
    is_by_chance = (
        interval is not None
        and three_way(interval.low, interval.high, threshold) == "undecided"
    )
    why = "rows without a score could change that"
    if is_by_chance:
        why = "chance could explain it"
    return f"{verb} {threshold:g}, but {why}"


def _if_they_were(n_unknown: int, bounds: str) -> str:
    """The end of the sentence on rows without a score.

    It says what those whose score is not known do to the bounds.
    """
    if not n_unknown:
        return "."
    verb = "was" if n_unknown == 1 else "were"
    return (
        f"; with the {n_unknown:,} that failed or {verb} not judged at 0 and at 1 the"
        f" bounds are {bounds}."
    )


def _range(low: float, high: float, threshold: float) -> str:
    """Two bounds as a reader sees them."""
    return f"{_number_in_words(low, threshold)}–{_number_in_words(high, threshold)}"


def _number_in_words(value: float, threshold: float) -> str:
    """The value with three decimals.

    There are more where three would put it on the other side of the threshold.
    """
    reaches = value >= threshold - ROUNDING
    text = ""
    for n_decimals in range(_DECIMALS, _MOST_DECIMALS):
        text = f"{value:.{n_decimals}f}"
        if (float(text) >= threshold - ROUNDING) == reaches:
            break
    return text


def _hint(
    outcome: Outcome,
    numbers: MetricSummary,
    interval: Interval | None,
    threshold: float,
) -> str:
    """How many rows would decide a gate that is undecided; "" if it is not known.

    The interval narrows about with the root of the rows, so their number follows from
    how far its end lies beyond the threshold. It is rough where the mean is near 0 or 1.
    """
    if outcome != "undecided" or numbers.unknown or numbers.mean is None:
        return ""
    distance = abs(numbers.mean - threshold)
    if interval is None or distance < _NEAREST:
        return (
            " The mean lies at the threshold, so that hardly any number would decide."
        )
    end = interval.high if numbers.mean < threshold else interval.low
    n_needed = ceil(numbers.count * (abs(end - numbers.mean) / distance) ** 2)
    n_needed = max(n_needed, numbers.count + 1)
    return (
        f" To decide it takes about {n_needed:,} rows in all"
        f" ({n_needed - numbers.count:,} more) with such scores, or still more."
    )


def _why_nothing_follows(
    numbers: MetricSummary, summary: Summary, on: On, min_scored: float
) -> str:
    """Why no mean of these rows answers a gate; "" if it does."""
    if summary.stopped:
        return f"the run ended early: {summary.stopped}."
    if numbers.count < min_scored * summary.rows - ROUNDING:
        return (
            f"{numbers.count} of {summary.rows} rows were scored (mean"
            f" {numbers.mean:.3f}), and a gate needs {100 * min_scored:.0f} %. Not"
            f" scored: {_missing(numbers, summary)}."
        )
    if not summary.decisions:
        return ""
    # all gates of a run are decided on the same thing
    if numbers.interval is None or on != summary.decisions[0].on:
        return (
            "this run stopped when its gates were decided, and has no bounds that"
            " answer this."
        )
    return ""


def _bounds(
    numbers: MetricSummary, mean: float, interval: Interval | None
) -> tuple[float, float]:
    """Bounds of the mean with the rows whose score is not known at 0 and at 1.

    Of the interval, where one is held against the threshold, else of the mean itself.
    """
    if interval is not None and numbers.worst is not None and numbers.best is not None:
        low = min(interval.low, numbers.worst.low)
        high = max(interval.high, numbers.best.high)
        return low, high
    total = numbers.count * mean
    n_rows = numbers.count + numbers.unknown
    return total / n_rows, (total + numbers.unknown) / n_rows


def three_way(low: float, high: float, threshold: float) -> Outcome:
    """Return whether bounds pass what is wanted, fail it, or leave it undecided.

    It is passed if the lower bound reaches what is wanted. It is failed if the upper
    bound misses it.
    """
    threshold -= ROUNDING
    if low >= threshold:
        return "passed"
    return "failed" if high < threshold else "undecided"


def _missing(numbers: MetricSummary, summary: Summary) -> str:
    """Why rows have no score, with counts."""
    bad = f"{summary.bad_rows} unreadable" if summary.bad_rows else ""
    return ", ".join(filter(None, (numbers.unscored_in_words, bad)))
