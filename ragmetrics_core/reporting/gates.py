"""Gates: is a mean score high enough? Three outcomes, because samples may be too few to say."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Literal

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import Frozen, Share
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.summary import MetricSummary, Summary
from ragmetrics_core.statistics.statistics import Interval

SHORT_NAMES = {
    "utilization": "context_utilization",
    "adherence": "context_adherence",
    "recall": "context_recall",
    "accuracy": "retrieval_accuracy",
}
"""Short names of the published metrics."""

Outcome = Literal["passed", "failed", "undecided"]

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
    """What a gate says of a run.

    Args:
        gate: The gate.
        outcome: ``passed``, ``failed`` or ``undecided``.
        sentence: Why, with the numbers.
    """

    gate: Gate
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


def decide(gate: Gate, measured: Report | Summary, *, on: Literal["interval", "point"] = "interval") -> Decision:
    """Hold a gate against what a run measured.

    Args:
        gate: The gate.
        measured: A report or its summary.
        on: ``interval``: passed if the whole 95 % interval of the mean reaches the threshold, failed if none of
            it does, else undecided. ``point``: the mean alone decides.

    Returns:
        The decision. A metric that was not measured or not scored on any row has failed.
    """
    summary = measured.summary() if isinstance(measured, Report) else measured
    found = next((numbers for numbers in summary.metrics if numbers.metric == gate.metric), None)
    if found is None:
        names = ", ".join(numbers.metric for numbers in summary.metrics) or "no metric"
        return Decision(gate=gate, outcome="failed", sentence=f"{gate.metric} was not measured; this run has {names}.")
    if found.mean is None or found.interval is None:
        counts = f"{sum(found.undefined.values())} undefined, {sum(found.failed.values())} failed"
        return Decision(gate=gate, outcome="failed", sentence=f"{gate.metric}: nothing was scored ({counts}).")
    low, high = (found.mean, found.mean) if on == "point" else (found.interval.low, found.interval.high)
    wanted = gate.at_least - _ROUNDING
    outcome: Outcome = "passed" if low >= wanted else "failed" if high < wanted else "undecided"
    around = _interval_words(found.interval) if on == "interval" else ""
    return Decision(gate=gate, outcome=outcome, sentence=_sentence(gate, found, outcome, around))


def _interval_words(interval: Interval) -> str:
    return f", 95 % interval {interval.low:.4f}–{interval.high:.4f} ({interval.method})"


def _sentence(gate: Gate, found: MetricSummary, outcome: Outcome, around: str) -> str:
    """The decision in words, with the numbers it rests on."""
    verb = {"passed": "reaches", "failed": "misses", "undecided": "may or may not reach"}[outcome]
    words = f"{gate.metric} {verb} {gate.at_least:g}: mean {found.mean:.4f}{around}"
    missing = sum(found.undefined.values()) + sum(found.failed.values()) + found.not_judged
    words += f", {found.count} scored" + (f", {missing} not scored" if missing else "") + "."
    return words + (" More samples would decide." if outcome == "undecided" else "")
