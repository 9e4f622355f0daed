"""Gates: is a mean score high enough? Three outcomes, because samples may be too few to say."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Literal

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.evidence import Share
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.reporting.summary import MetricSummary, Summary

if TYPE_CHECKING:
    from ragmetrics_core.reporting.report import Report

SHORT_NAMES = {
    "utilization": "context_utilization",
    "adherence": "context_adherence",
    "recall": "context_recall",
    "accuracy": "retrieval_accuracy",
}
"""Short names of the published metrics."""

Outcome = Literal["passed", "failed", "undecided"]

MIN_SCORED = 0.95
"""Share of all rows that must be scored for a gate to be decided."""

# Means such as (0.6 + 1 + 0.8) / 3 miss 0.8 by rounding alone.
_ROUNDING = 1e-9


class Gate(Frozen):
    """A mean score to reach.

    Args:
        metric: Name of the metric.
        at_least: The lowest mean that is good enough, in [0, 1].
    """

    metric: str
    at_least: Share

    def __str__(self) -> str:
        return f"{self.metric}={self.at_least:g}"


class Decision(Frozen):
    """What was decided of one metric.

    Args:
        metric: Its name.
        outcome: ``passed``, ``failed`` or ``undecided``.
        sentence: Why, with the numbers.
    """

    metric: str
    outcome: Outcome
    sentence: str

    def __repr__(self) -> str:
        return f"Decision({self.outcome!r}, {self.sentence!r})"


def parse_gate(text: str, *, names: Sequence[str] = tuple(SHORT_NAMES.values())) -> Gate:
    """Read a gate as it is written on a command line.

    Args:
        text: ``metric=threshold``; the metric by its name or, for the published ones, by its short name.
        names: Names of the metrics that the run measures.

    Returns:
        The gate, with the metric's full name.

    Raises:
        SettingError: If the form is another, the metric is not among the names, or the threshold is not in
            [0, 1].

    Example:
        >>> parse_gate("adherence=0.8")
        Gate(metric='context_adherence', at_least=0.8)
    """
    name, equals, threshold = (part.strip() for part in text.partition("="))
    full = name if name in names else SHORT_NAMES.get(name.lower(), name)
    if not equals or not name:
        raise SettingError(f"a gate is written metric=threshold, e.g. adherence=0.8; got {text!r}")
    if full not in names:
        short = [key for key, value in SHORT_NAMES.items() if value in names]
        raise SettingError(f"no metric {name!r} for a gate; there are: {', '.join([*short, *names])}")
    try:
        at_least = float(threshold)
    except ValueError:
        at_least = float("nan")
    if isnan(at_least) or not 0 <= at_least <= 1:
        raise SettingError(f"the threshold of a gate is a number from 0 to 1, e.g. {name}=0.8; got {threshold!r}")
    return Gate(metric=full, at_least=at_least)


def decide(
    gate: Gate,
    measured: Report | Summary,
    *,
    on: Literal["interval", "point"] = "interval",
    min_scored: float = MIN_SCORED,
) -> Decision:
    """Hold a gate against what a run measured.

    Failed samples count as 0 and as 1: the gate is passed if the worst case reaches the threshold, failed if the
    best case misses it, else undecided.

    Args:
        gate: The gate.
        measured: A report or its summary.
        on: What is held against the threshold: the 95 % ``interval`` of the mean, or the mean (``point``).
        min_scored: Share of all rows that must be scored; with fewer, or after a run that ended early, the gate is
            undecided, for whatever reason the scores are missing.

    Returns:
        The decision. A metric that was not measured, or not scored on any row, has failed.

    Raises:
        SettingError: If ``min_scored`` is not in [0, 1].
    """
    check_share(min_scored)
    summary = measured if isinstance(measured, Summary) else measured.summary()
    found = next((numbers for numbers in summary.metrics if numbers.metric == gate.metric), None)
    if found is None:
        names = ", ".join(numbers.metric for numbers in summary.metrics) or "no metric"
        return _decision(gate, "failed", f"{gate.metric} was not measured; this run has {names}.")
    missing = _missing(found, summary)
    if found.mean is None:
        return _decision(gate, "failed", f"{gate.metric}: nothing was scored{_listed(missing)}.")
    if summary.stopped:
        return _decision(gate, "undecided", f"{gate.metric} was not measured to the end: {summary.stopped}.")
    if found.count < min_scored * summary.rows - _ROUNDING:
        words = f"{gate.metric}: {found.count} of {summary.rows} rows were scored, fewer than {min_scored:.0%}"
        return _decision(gate, "undecided", f"{words}{_listed(missing)}.")
    low, high = _extremes(found, on)
    wanted = gate.at_least - _ROUNDING
    outcome: Outcome = "passed" if low >= wanted else "failed" if high < wanted else "undecided"
    return _decision(gate, outcome, _sentence(gate, found, outcome, on, missing))


def check_share(min_scored: float) -> None:
    """Raise ``SettingError`` unless a share of rows that must be scored lies in [0, 1]."""
    if not 0 <= min_scored <= 1:
        raise SettingError(f"min_scored is a share of all rows from 0 to 1, e.g. 0.95; got {min_scored}")


def _decision(gate: Gate, outcome: Outcome, sentence: str) -> Decision:
    return Decision(metric=gate.metric, outcome=outcome, sentence=sentence)


def _extremes(found: MetricSummary, on: str) -> tuple[float, float]:
    """Lowest and highest value to hold against the threshold, failed samples at 0 and at 1."""
    if on == "interval" and found.interval and found.worst and found.best:
        return min(found.interval.low, found.worst.low), max(found.interval.high, found.best.high)
    total, failed = found.count * (found.mean or 0.0), sum(found.failed.values())
    return total / (found.count + failed), (total + failed) / (found.count + failed)


def _missing(found: MetricSummary, summary: Summary) -> list[str]:
    """Why rows have no score, with counts."""
    counts = (
        *((count, f"undefined ({code})") for code, count in found.undefined.items()),
        *((count, f"failed ({kind})") for kind, count in found.failed.items()),
        (found.not_judged, "not judged"),
        (summary.bad_rows, "bad rows"),
    )
    return [f"{count} {reason}" for count, reason in counts if count]


def _listed(reasons: Sequence[str]) -> str:
    return f": {', '.join(reasons)}" if reasons else ""


def _sentence(gate: Gate, found: MetricSummary, outcome: Outcome, on: str, missing: Sequence[str]) -> str:
    """The decision in words, with the numbers it rests on."""
    verb = {"passed": "reaches", "failed": "misses", "undecided": "may or may not reach"}[outcome]
    words = f"{gate.metric} {verb} {gate.at_least:g}: mean {found.mean:.4f}"
    if on == "interval" and found.interval:
        words += f", 95 % interval {found.interval.low:.4f}–{found.interval.high:.4f} ({found.interval.method})"
    if found.failed:
        low, high = _extremes(found, on)
        words += f", {low:.4f}–{high:.4f} with failed samples at 0 and at 1"
    words += f", {found.count} scored" + (f", {', '.join(missing)}" if missing else "") + "."
    return words + (" More samples would decide." if outcome == "undecided" and not found.failed else "")
