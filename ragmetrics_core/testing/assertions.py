"""Assertions for people's own test suites, with the three outcomes of a gate."""

import warnings
from collections.abc import Sequence
from typing import Literal, Unpack

from ragmetrics_core.data import (
    Failed,
    InputError,
    Sample,
    Scored,
    SettingError,
    Undefined,
)
from ragmetrics_core.engine.arguments import JudgedRunSettings
from ragmetrics_core.engine.evaluation import evaluate
from ragmetrics_core.engine.sample_sources import Samples, iterate_samples
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import choose_metrics
from ragmetrics_core.reporting.gates import Gate, UntilDecided, decide
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import Decision
from ragmetrics_core.statistics.stopping import MIN_SCORED


class UndecidedWarning(UserWarning):
    """Too few samples, or too few with a score, to say whether a mean is reached."""


def assert_score(
    measured: Scored | Undefined | Failed | Report | Samples,
    *,
    at_least: float,
    metric: Metric | str | None = None,
    undecided: Literal["warn", "fail", "pass"] = "warn",
    min_scored: float = MIN_SCORED,
    until_decided: UntilDecided | bool = False,
    **settings: Unpack[JudgedRunSettings],
) -> None:
    """Assert that a score, or a report's mean score, is high enough.

    A result must be scored and reach the threshold.

    Of a report the mean decides, and of rows the bounds of a run until decided. It is
    undecided where too few rows have a score, or too few answers say anything.

    Args:
        measured: One result, a report, or rows. Rows need ``until_decided``: they are
            judged until it is decided whether the mean is high enough.
        at_least: The lowest score that is good enough, in [0, 1].
        metric: Of a report or of rows, which metric; None for all that it has, or that
            apply to a row.
        undecided: What an undecided report means: a warning (``UndecidedWarning``), a
            failure or nothing.
        min_scored: Share of the rows that must be scored; a report with fewer is
            undecided.
        until_decided: True, or the settings of such a run.
        **settings: For rows, arguments of ``evaluate``, e.g. ``judge=``.

    Raises:
        AssertionError: If the score is too low, there is no score, or it is undecided
            and that means a failure. The message names the numbers.
        SettingError: If the threshold is not in [0, 1], or a report has no metric, or
            not this one.
        InputError: If there are no rows.

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
    decisions: Sequence[Decision]
    if isinstance(measured, Report):
        decisions = _decide_report(
            measured, at_least=at_least, metric=metric, min_scored=min_scored
        )
    elif until_decided:
        until = until_decided
        if not isinstance(until, UntilDecided):
            until = UntilDecided(min_scored=min_scored)
        decisions = _decide_rows(measured, at_least, metric, until, settings)
    else:
        raise SettingError("give a result, a report, or rows with until_decided=True")
    failures = _sentences_of(decisions, "failed")
    doubts = _sentences_of(decisions, "undecided")
    if undecided == "fail":
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


def _decide_report(
    report: Report,
    *,
    at_least: float,
    metric: Metric | str | None,
    min_scored: float,
) -> list[Decision]:
    """Decide a gate for one metric of a report, or for all that it has."""
    names = list(report.metrics)
    if metric is not None:
        names = [metric if isinstance(metric, str) else metric.name]
    if not names:
        raise SettingError("the report has no metric to assert anything of")
    gates = [Gate(metric=name, at_least=at_least) for name in names]
    return [decide(gate, report, min_scored=min_scored) for gate in gates]


def _decide_rows(
    rows: Samples,
    at_least: float,
    metric: Metric | str | None,
    until: UntilDecided,
    settings: JudgedRunSettings,
) -> list[Decision]:
    """Judge rows until it is decided whether means reach a threshold.

    Args:
        rows: The rows.
        at_least: The threshold of each mean, such as 0.8.
        metric: The metric; None for all that apply to at least one row.
        until: How the run stops.
        settings: Further arguments of ``evaluate``.

    Raises:
        InputError: If there are no rows.
    """
    metrics = choose_metrics(metric)
    if metric is None:
        # the columns are found by their usual names; a bad row comes as its error
        rows = list(iterate_samples(rows, columns={}))
        samples = [row for row in rows if isinstance(row, Sample)]
        metrics = [known for known in metrics if _applies_to_any(known, samples)]
    gates = [Gate(metric=judged.name, at_least=at_least) for judged in metrics]
    report = evaluate(rows, metrics, until=until, gates=gates, **settings)
    if not report.results:
        raise InputError("there are no rows to assert anything of")
    return list(report.decisions)


def _applies_to_any(metric: Metric, samples: Sequence[Sample]) -> bool:
    return any(metric.gap(sample) is None for sample in samples)
