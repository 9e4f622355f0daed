"""Assertions for people's own test suites, with the three outcomes of a gate."""

import warnings
from typing import Literal, get_args

from ragmetrics_core.data import Failed, Scored, SettingError, Undefined, find_metric
from ragmetrics_core.data.frozen import check_share
from ragmetrics_core.metrics.registry import MetricLike
from ragmetrics_core.reporting.gates import MIN_SCORED, Gate, decide
from ragmetrics_core.reporting.report import Report

_Undecided = Literal["fail", "warn", "pass"]


class UndecidedWarning(UserWarning):
    """Too few samples, scores or polls to say whether a score is reached."""


def assert_score(
    measured: Scored | Undefined | Failed | Report,
    *,
    at_least: float,
    metric: MetricLike | None = None,
    undecided: _Undecided = "fail",
    min_scored: float = MIN_SCORED,
) -> None:
    """Assert that a score, or a report's mean score, is high enough.

    A result must be scored and reach the threshold. It is undecided where lost polls
    decide.

    Of a report the mean decides. It is undecided where too few rows have a score, or too
    few answers say anything.

    Args:
        measured: One result, or a report.
        at_least: The lowest score that is good enough, in [0, 1].
        metric: Of a report, which metric; None for all that it has.
        undecided: What an undecided score means: a failure, a warning
            (``UndecidedWarning``) or nothing.
        min_scored: Share of the rows that must be scored; a report with fewer is
            undecided.

    Raises:
        AssertionError: If a score is too low, a metric has none, or it is undecided
            and that means a failure. The message names the numbers.
        SettingError: If the threshold is not in [0, 1], or a report has no metric, or
            not this one.

    Examples:
        >>> from ragmetrics_core import ContextAdherence
        >>> result = ContextAdherence().score(contexts=["Paris is the capital."], answer="Paris is the capital.")
        >>> assert_score(result, at_least=0.8)
    """
    check_share("at_least", at_least)
    if undecided not in get_args(_Undecided):
        raise SettingError(
            f"undecided= is 'fail', 'warn' or 'pass'; got {undecided!r:.40}"
        )
    if isinstance(measured, Report):
        failures, doubts = _of_report(measured, at_least, metric, min_scored)
    elif isinstance(measured, (Scored, Undefined, Failed)):
        failures, doubts = _of_result(measured, at_least)
    else:
        raise SettingError("give a result or a report: assert_score(evaluate(rows), …)")
    if undecided == "fail":
        failures += doubts
    if failures:
        raise AssertionError("\n".join(failures))
    if undecided == "warn":
        for sentence in doubts:
            warnings.warn(sentence, UndecidedWarning, stacklevel=2)


def _of_report(
    report: Report, at_least: float, metric: MetricLike | None, min_scored: float
) -> tuple[list[str], list[str]]:
    """Return what fails, and what is undecided; a metric without any score fails."""
    names = report.metrics
    if not names:
        raise SettingError("the report has no metric to assert anything of")
    if metric is not None:
        names = (find_metric(metric, names, place="in this report"),)
    gates = [Gate(metric=name, at_least=at_least) for name in names]
    summary = report.summary()
    decisions = [decide(gate, summary, min_scored=min_scored) for gate in gates]
    failures, doubts = list[str](), list[str]()
    for decision in decisions:
        has_score = summary[decision.metric].count > 0
        if decision.outcome == "failed" or not has_score:
            failures.append(decision.sentence)
        elif decision.outcome == "undecided":
            doubts.append(decision.sentence)
    return failures, doubts


def _of_result(
    result: Scored | Undefined | Failed, at_least: float
) -> tuple[list[str], list[str]]:
    """Return what fails, and what is undecided: where lost polls decide it."""
    if not isinstance(result, Scored):
        return [f"{result.metric} is {result.status}: {result.reason}"], []
    is_reached = result.reaches(at_least)
    scored = f"{result.metric} is {result.value:.4f}"
    if is_reached is None:
        doubt = f"{scored}; with the polls that were lost it may or may not reach"
        return [], [f"{doubt} {at_least:g}: {result.reason}"]
    failure = f"{scored}, less than {at_least:g}: {result.reason}"
    return ([] if is_reached else [failure]), []
