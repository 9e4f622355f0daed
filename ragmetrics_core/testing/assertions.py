"""Assertions for people's own test suites, with the three outcomes of a gate."""

import warnings
from collections.abc import Sequence
from typing import Literal

from ragmetrics_core.data import Failed, Scored, SettingError, Undefined
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.reporting.gates import MIN_SCORED, Gate, decide
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import Decision


class UndecidedWarning(UserWarning):
    """Too few samples, or too few with a score, to say whether a mean is reached."""


def assert_score(
    measured: Scored | Undefined | Failed | Report,
    *,
    at_least: float,
    metric: Metric | str | None = None,
    undecided: Literal["warn", "fail", "pass"] = "warn",
    min_scored: float = MIN_SCORED,
) -> None:
    """Assert that a score, or a report's mean score, is high enough.

    A result must be scored and reach the threshold.

    Of a report the mean decides. It is undecided where too few rows have a score, or too
    few answers say anything.

    Args:
        measured: One result, or a report.
        at_least: The lowest score that is good enough, in [0, 1].
        metric: Of a report, which metric; None for all that it has.
        undecided: What an undecided report means: a warning (``UndecidedWarning``), a
            failure or nothing.
        min_scored: Share of the rows that must be scored; a report with fewer is
            undecided.

    Raises:
        AssertionError: If the score is too low, nothing was scored, or it is undecided
            and that means a failure. The message names the numbers.
        SettingError: If the threshold is not in [0, 1], or a report has no metric, or
            not this one.

    Examples:
        >>> from ragmetrics_core import ContextAdherence
        >>> result = ContextAdherence().score(contexts=["Paris is the capital."], answer="Paris is the capital.")
        >>> assert_score(result, at_least=0.8)
    """
    if not 0 <= at_least <= 1:
        raise SettingError(f"at_least lies in [0, 1], got {at_least}")
    if isinstance(measured, (Scored, Undefined, Failed)):
        _assert_result(measured, at_least)
        return
    if not isinstance(measured, Report):
        raise SettingError("give a result or a report: assert_score(evaluate(rows), …)")
    names = list(measured.metrics)
    if metric is not None:
        names = [metric if isinstance(metric, str) else metric.name]
    if not names:
        raise SettingError("the report has no metric to assert anything of")
    gates = [Gate(metric=name, at_least=at_least) for name in names]
    summary = measured.summary()
    decisions = [decide(gate, summary, min_scored=min_scored) for gate in gates]
    failures = _sentences_of(decisions, "failed")
    doubts = _sentences_of(decisions, "undecided")
    is_nothing_scored = not any(summary[name].count for name in names)
    if undecided == "fail" or is_nothing_scored:
        failures += doubts
    if failures:
        raise AssertionError("\n".join(failures))
    if undecided == "warn":
        for sentence in doubts:
            warnings.warn(sentence, UndecidedWarning, stacklevel=2)


def _sentences_of(decisions: Sequence[Decision], outcome: str) -> list[str]:
    """Return the sentences of the decisions with this outcome."""
    return [decision.sentence for decision in decisions if decision.outcome == outcome]


def _assert_result(result: Scored | Undefined | Failed, at_least: float) -> None:
    if result.value is None:
        raise AssertionError(f"{result.metric} is {result.status}: {result.reason}")
    if result.value < at_least - 1e-9:
        raise AssertionError(
            f"{result.metric} is {result.value:.4f}, less than {at_least:g}:"
            f" {result.reason}"
        )
