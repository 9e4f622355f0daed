"""Assertions for people's own test suites, with the three outcomes of a gate."""

import warnings
from typing import Literal

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.results import Failed, Scored, Undefined
from ragmetrics_core.reporting.gates import Gate, decide
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.sequential import MIN_SCORED


class UndecidedWarning(UserWarning):
    """Samples are too few, or too few of them scored, to say whether a mean reaches its threshold."""


def assert_score(
    measured: Scored | Undefined | Failed | Report,
    *,
    at_least: float,
    metric: str | None = None,
    undecided: Literal["warn", "fail", "pass"] = "warn",
    min_scored: float = MIN_SCORED,
) -> None:
    """Assert that a score, or a report's mean score, is high enough.

    A result must be scored and reach the threshold. Of a report the 95 % interval of the mean decides, with failed
    samples at 0 and at 1: passed if all of it reaches the threshold, failed if none of it does, else undecided.

    Args:
        measured: One result, or a report.
        at_least: The lowest score that is good enough, in [0, 1].
        metric: For a report, which metric; None for all that it has.
        undecided: What an undecided report means: a warning (``UndecidedWarning``), a failure or nothing.
        min_scored: Share of all rows that must be scored; a report with fewer is undecided.

    Raises:
        AssertionError: With the numbers, if the score is too low, there is none, or it is undecided and that
            means a failure.
        SettingError: If the threshold is not in [0, 1], or a report has no metric.

    Example:
        >>> from ragmetrics_core import ContextAdherence
        >>> result = ContextAdherence().score(contexts=["Paris is the capital."], answer="Paris is the capital.")
        >>> assert_score(result, at_least=0.8)
    """
    if not 0 <= at_least <= 1:
        raise SettingError(f"at_least lies in [0, 1], got {at_least}")
    if not isinstance(measured, Report):
        _assert_one(measured, at_least)
        return
    names = [metric] if metric is not None else measured.metrics
    if not names:
        raise SettingError("the report has no metric to assert anything of")
    decisions = [decide(Gate(metric=name, at_least=at_least), measured, min_scored=min_scored) for name in names]
    fatal = ("failed", "undecided") if undecided == "fail" else ("failed",)
    if wrong := [decision.sentence for decision in decisions if decision.outcome in fatal]:
        raise AssertionError("\n".join(wrong))
    if undecided == "warn":
        for decision in decisions:
            if decision.outcome == "undecided":
                warnings.warn(decision.sentence, UndecidedWarning, stacklevel=2)


def _assert_one(result: Scored | Undefined | Failed, at_least: float) -> None:
    if result.value is None:
        raise AssertionError(f"{result.metric} is {result.status}: {result.reason}")
    if result.value < at_least - 1e-9:
        raise AssertionError(f"{result.metric} is {result.value:.4f}, less than {at_least:g}; see its reason")
