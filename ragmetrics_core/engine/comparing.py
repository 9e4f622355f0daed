"""Judges rows only until it is decided how they compare with a finished run."""

from collections.abc import Sequence
from typing import Literal, Unpack

from ragmetrics_core.engine.arguments import JudgedRunSettings
from ragmetrics_core.engine.evaluation import evaluate
from ragmetrics_core.engine.sample_sources import Samples
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.reporting.comparison import Comparison
from ragmetrics_core.reporting.gates import UntilDecided
from ragmetrics_core.reporting.pairing import GroupBy
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.two_runs import MARGIN, check_margin


def compare_until_decided(
    before: Report,
    rows: Samples,
    *,
    metrics: Sequence[Metric | str] | None = None,
    cluster: GroupBy = "auto",
    slices: GroupBy = None,
    margin: float = MARGIN,
    anyway: bool = False,
    until: UntilDecided | Literal["decided"] = "decided",
    **settings: Unpack[JudgedRunSettings],  # all their names: editors complete them
) -> Comparison:
    """Judge rows until it is decided whether their scores lose more than a margin.

    The scores are compared with those of a finished run over the same samples. Example:
    with ``margin=.05`` the run stops as soon as it is clear whether the mean fell by
    more than .05.

    Args:
        before: The finished run.
        rows: The rows to judge; those of a list are judged in a random order.
        metrics: Metrics or their names; None for all of the finished run.
        cluster: Which samples belong together, as in ``Report.summary``.
        slices: What splits the samples into slices, as in ``Report.compare``.
        margin: A loss up to this does not matter, from 0 to 1.
        anyway: Compare runs that were not measured in the same way.
        until: How the run stops; "decided" for the usual settings.
        **settings: The other arguments of ``evaluate``, e.g. ``judge=``.

    Returns:
        The comparison of what was judged, with ``decisions``.

    Raises:
        SettingError: If a setting is invalid, or a metric is not in both runs.
        InputError: If no sample is in both runs, or the runs are not comparable.
        JudgeUnavailable: If the judge will answer nothing.
    """
    check_margin(margin)
    if until == "decided":
        until = UntilDecided()
    until_compared = until.model_copy(
        update={"against": before, "margin": margin, "cluster": cluster}
    )
    report = evaluate(rows, metrics or before.metrics, until=until_compared, **settings)
    comparison = before.compare(
        report, cluster=cluster, slices=slices, margin=margin, anyway=anyway
    )
    return comparison.model_copy(update={"decisions": report.decisions})
