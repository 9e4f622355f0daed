"""Comparing two finished runs over the samples that both hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragmetrics_core.data import InputError, SampleResult, SettingError, find_metric
from ragmetrics_core.reporting.groups import GroupBy, KeysSought
from ragmetrics_core.reporting.pairing import (
    Matched,
    count_other_questions,
    differences,
    judges_elsewhere,
    match,
)

if TYPE_CHECKING:
    from ragmetrics_core.metrics.metric import Metric
    from ragmetrics_core.reporting.comparison import Comparison
    from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.stopping import MIN_SCORED

MARGIN = 0.0
"""A loss up to this does not matter; any counts unless the user says otherwise."""


def compare(
    before: Report,
    after: Report,
    *,
    metrics: Sequence[str | Metric] | None = None,
    cluster: GroupBy = "auto",
    slices: GroupBy = None,
    margin: float = MARGIN,
    anyway: bool = False,
) -> Comparison:
    """Compare two finished runs over the samples that both hold.

    Example: scores .5 and .7 before, .6 and .9 after: the difference is +.15, tested
    over the pairs.

    Args:
        before: The run to compare with.
        after: The run in question; differences are after − before.
        metrics: Names of metrics, or the metrics; None for all that both runs have.
        cluster: Which samples belong together, as in ``Report.summary``: by
            the first run, else by the second.
        slices: What splits the samples into slices, which are tested, too. P-values are
            adjusted for all tests (Holm). A sample belongs to the slice that the first
            run names, else to the slice in the second run.
        margin: A loss up to this does not matter.
        anyway: Compare runs although they were not measured in the same way.

    Raises:
        InputError: If no sample is in both runs, or the runs are not comparable.
        SettingError: If a metric is not in both runs, or ``after`` is not a finished
            run.
    """
    # Imported only here: ``Report.compare`` is this function, and most users of a report
    # never call it.
    from ragmetrics_core.reporting.comparison import Comparison
    from ragmetrics_core.reporting.metric_change import changes_of

    check_margin(margin)
    _check_finished(after)
    names = _names_in_both(before, after, metrics)
    _check_keys(before, after, slices, cluster)
    matched = match(before.results, after.results)
    differing = _differing(before, after, matched, names)
    if not anyway:
        _refuse_differing(differing)
    parts = list(matched.parts(slices))  # all pairs of rows, then those of each slice
    changes = changes_of(
        parts,
        names,
        cluster,
        margin,
        is_testable=not _were_rows_chosen_by_scores(before, after),
    )
    judges = tuple(dict.fromkeys((*before.run.judges, *after.run.judges)))
    # Where all metrics are compared, those that only one of the runs has are named.
    are_all_compared = metrics is None
    return Comparison(
        changes=tuple(changes),
        matched=matched,
        judges=judges,
        addresses={judge: _addresses(judge, before, after) for judge in judges},
        margin=margin,
        differing=tuple(differing),
        stopped=_why_stopped(before, after) or _why_rows_are_lost(matched),
        lacking=_lacking(after, before.metrics) if are_all_compared else (),
        added=_lacking(before, after.metrics) if are_all_compared else (),
    )


def _were_rows_chosen_by_scores(before: Report, after: Report) -> bool:
    """Whether a run stopped once its gates were decided, so that no test holds."""
    return bool(before.decisions) or bool(after.decisions)


def check_margin(margin: float) -> None:
    """Refuse a margin that is no difference of means."""
    if not 0 <= margin <= 1:
        raise SettingError(f"the margin lies between 0 and 1, e.g. 0.02; got {margin}")


def _check_finished(after: object) -> None:
    """Refuse rows where a finished run is needed."""
    if not hasattr(after, "results"):
        raise SettingError(
            "two finished runs are compared: judge the rows first, with evaluate(…)"
        )


def _refuse_differing(differing: Sequence[str]) -> None:
    """Refuse runs that were not measured in the same way; ``differing`` says in what."""
    if differing:
        raise InputError(
            f"the runs are not comparable: {'; '.join(differing)}. Measure both in the"
            " same way, or compare them anyway (anyway=True, --anyway)"
        )


def _lacking(report: Report, metrics: Sequence[str]) -> tuple[str, ...]:
    """Those of the metrics that a run lacks."""
    return tuple(name for name in metrics if name not in report.metrics)


def _names_in_both(
    before: Report, after: Report, metrics: Sequence[str | Metric] | None
) -> list[str]:
    """Return the full names of the metrics to compare, in the order asked for.

    Example: ["adherence"] gives ["context_adherence"].

    Args:
        before: The first run.
        after: The second run.
        metrics: Metrics, or their names; the last word of a name is enough. None for
            all metrics that both runs have.

    Raises:
        InputError: If the runs have no metric in common.
        SettingError: If a metric is not in both runs.
    """
    in_both = [name for name in before.metrics if name in after.metrics]
    if not in_both:
        raise InputError("the two runs have no metric in common")
    full_names: dict[str, None] = {}  # as an ordered set
    for metric in metrics or in_both:
        name = metric if isinstance(metric, str) else metric.name
        full_name = find_metric(name, in_both, place="in both runs")
        full_names[full_name] = None
    return list(full_names)


def _check_keys(
    before: Report, after: Report, slices: GroupBy, cluster: GroupBy
) -> None:
    """Raise ``SettingError`` for a key of slices or clusters that no sample has."""
    keys = KeysSought([slices] if isinstance(slices, str) else (), cluster)
    for row in (*before.results, *after.results):
        if row.sample is not None:
            keys.look_in(row.sample)
    keys.check()


def _differing(
    before: Report,
    after: Report,
    matched: Matched,
    names: Sequence[str],
) -> list[str]:
    """Say why two runs are not comparable, a phrase for each reason; empty if they are.

    Example: "judge gpt at http://a against http://b", "3 of 40 samples of one id have
    another question or reference".

    Args:
        before: The first run.
        after: The second run.
        matched: Their rows side by side.
        names: The metrics that are compared.
    """
    phrases = _differing_rows(after, matched)
    for name in names:
        phrases += differences(matched.pairs, name)  # of the metric's settings
    phrases += _differing_addresses(before, after, matched, names)
    return phrases


def _differing_addresses(
    before: Report, after: Report, matched: Matched, names: Sequence[str]
) -> list[str]:
    """Say which judges of these metrics the runs asked at different addresses.

    Example: "judge gpt at http://a against http://b". Another model may answer there.
    """
    judges: set[str] = set()
    for first_row, second_row in matched.pairs:
        judges |= _judges_of(first_row, names) | _judges_of(second_row, names)
    phrase_by_judge = judges_elsewhere(before.run.addresses, after.run.addresses)
    return [phrase for judge, phrase in phrase_by_judge.items() if judge in judges]


def _differing_rows(after: Report, matched: Matched) -> list[str]:
    """Say how many rows cannot be told apart, or changed between the runs.

    Example: "2 of 40 samples of one id have another question or reference".
    """
    n_pairs = len(matched.pairs)
    phrases = []
    n_alone = _n_rows_alone(after, matched)
    # matched by question alone, a row without partner may be an edited question
    if matched.by == "question" and n_alone:
        phrases.append(
            f"{n_alone} rows are in one run only, and without ids nothing else tells"
            " rows apart"
        )
    n_other_questions = count_other_questions(matched.pairs)
    if n_other_questions:
        phrases.append(
            f"{n_other_questions} of {n_pairs} samples of one id have another question"
            " or reference"
        )
    return phrases


def _n_rows_alone(after: Report, matched: Matched) -> int:
    """How many samples only one of two runs has."""
    rows_alone = list(matched.second_only)
    # a second run that stopped when its gates were decided needed no more rows
    if not after.decisions:
        rows_alone += matched.first_only
    return sum(row.sample is not None for row in rows_alone)


def _why_rows_are_lost(matched: Matched) -> str:
    """Why the second run says too little of the first one's rows; "" if it says enough."""
    n_lost = sum(row.sample is not None for row in matched.first_only)
    n_rows = len(matched.pairs) + n_lost
    if len(matched.pairs) >= MIN_SCORED * n_rows:
        return ""
    return (
        f"the second run has {len(matched.pairs):,} of the first one's {n_rows:,} rows,"
        f" and a gate needs {100 * MIN_SCORED:.0f} %"
    )


def _why_stopped(before: Report, after: Report) -> str:
    """Why either run ended before all its rows were read; "" if neither did."""
    reasons = []
    for which, report in (("first", before), ("second", after)):
        why = report.run.ended_early
        if not why and report.decisions:
            why = "its gates were decided"
        if why:
            reasons.append(f"the {which} run ended early: {why}")
    return "; ".join(reasons)


def _judges_of(row: SampleResult, metrics: Sequence[str]) -> set[str]:
    """Who judged a row for any of the metrics."""
    return {row.results[metric].judge for metric in metrics if metric in row.results}


def _addresses(judge: str, *reports: Report) -> tuple[str, ...]:
    """The addresses that a judge was asked at in any of the runs."""
    addresses = [
        address for report in reports for address in report.run.addresses.get(judge, ())
    ]
    return tuple(dict.fromkeys(addresses))
