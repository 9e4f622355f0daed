"""Gates: is a mean score high enough? Three outcomes, because samples may be too few to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import Frozen, Share
from ragmetrics_core.reporting.run_facts import Decision
from ragmetrics_core.reporting.summary import MetricSummary, Summary
from ragmetrics_core.statistics.sequential import MIN_SCORED, ROUNDING, On, Outcome, check_shares

if TYPE_CHECKING:
    from ragmetrics_core.reporting.report import Report


VERBS: dict[Outcome, str] = {"passed": "reaches", "failed": "misses", "undecided": "may or may not reach"}


class Gate(Frozen):
    """A mean score to reach."""

    metric: str = Field(description="name of the metric")
    at_least: Share = Field(description="the lowest mean that is good enough")

    def __str__(self) -> str:
        return f"{self.metric}={self.at_least:g}"


def parse_gate(text: str, names: Sequence[str]) -> Gate:
    """A gate as it is written, ``metric=threshold``, on one of the named metrics or the last word of its name."""
    name, equals, threshold = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise SettingError(f"a gate is written metric=threshold, e.g. adherence=0.8; got {text!r}")
    short = {own.rpartition("_")[2]: own for own in names}
    full = name if name in names else short.get(name.lower())
    if full is None:
        raise SettingError(f"no metric {name!r} for a gate; there are: {', '.join(dict.fromkeys([*short, *names]))}")
    try:
        return Gate(metric=full, at_least=float(threshold))
    except ValueError:
        told = f"the threshold of a gate is a number from 0 to 1, e.g. {name}=0.8; got {threshold!r}"
        raise SettingError(told) from None


def decide(gate: Gate, measured: Report | Summary, *, on: On = "interval", min_scored: float = MIN_SCORED) -> Decision:
    """Hold a gate against what a run measured.

    Rows that failed or were not judged count as 0 and as 1: the gate is passed if the worst case reaches the
    threshold, failed if the best case misses it, else undecided.

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
    check_shares(min_scored=min_scored)
    outcome, why = _decided(gate, measured if isinstance(measured, Summary) else measured.summary(), on, min_scored)
    return Decision(metric=gate.metric, outcome=outcome, sentence=f"{gate.metric}{why}")


def _decided(gate: Gate, summary: Summary, on: str, min_scored: float) -> tuple[Outcome, str]:
    known = {numbers.metric: numbers for numbers in summary.metrics}
    if (found := known.get(gate.metric)) is None:
        return "failed", f" was not measured; this run has {', '.join(known) or 'no metric'}."
    missing = _missing(found, summary)
    if found.mean is None:
        return "failed", ": nothing was scored" + (f": {missing}." if missing else ".")
    if summary.stopped:
        return "undecided", f" was not measured to the end: {summary.stopped}."
    if found.count < min_scored * summary.rows - ROUNDING:
        few = f": {found.count} of {summary.rows} rows were scored, fewer than {min_scored:.0%}: {missing}."
        return "undecided", few
    if summary.decisions and (found.interval is None or on != summary.decisions[0].on):
        return "undecided", ": this run stopped when its gates were decided, and has no bounds that answer this."
    total, rows = found.count * found.mean, found.count + found.unknown
    low, high, interval = total / rows, (total + found.unknown) / rows, ""
    if (on == "interval" or summary.decisions) and found.interval and found.worst and found.best:
        own = found.interval
        low, high = min(own.low, found.worst.low), max(own.high, found.best.high)
        kind = "bounds" if summary.decisions else "95 % interval"
        interval = f", {kind} {own.low:.4f}–{own.high:.4f} ({own.method})"
    outcome = three_way(low, high, gate.at_least)
    words = f" {VERBS[outcome]} {gate.at_least:g}: mean {found.mean:.4f}{interval}"
    if found.unknown:
        words += f", {low:.4f}–{high:.4f} with the {found.unknown} that failed or were not judged at 0 and at 1"
    words += f", {found.count} scored" + (f", {missing}." if missing else ".")
    return outcome, words + (" More samples would decide." if outcome == "undecided" and not found.unknown else "")


def three_way(low: float, high: float, wanted: float) -> Outcome:
    """Passed if the lower bound reaches what is wanted, failed if the upper bound misses it, else undecided."""
    wanted -= ROUNDING
    return "passed" if low >= wanted else "failed" if high < wanted else "undecided"


def _missing(found: MetricSummary, summary: Summary) -> str:
    """Why rows have no score, with counts."""
    counts = (
        *((count, f"undefined ({code})") for code, count in found.undefined.items()),
        *((count, f"failed ({kind})") for kind, count in found.failed.items()),
        (found.not_judged, "not judged"),
        (summary.bad_rows, "bad row" if summary.bad_rows == 1 else "bad rows"),
    )
    return ", ".join(f"{count} {reason}" for count, reason in counts if count)
