"""Signs of high risk, as sentences: numbers at which a reader should look at the samples behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragmetrics_core.statistics.means import FEWEST_CLUSTERS

if TYPE_CHECKING:
    from ragmetrics_core.reporting.summary import MetricSummary, RiskThresholds, Summary


def metric_signs(numbers: MetricSummary, thresholds: RiskThresholds) -> tuple[str, ...]:
    """Signs of high risk of one metric.

    Args:
        numbers: The metric's summary.
        thresholds: When a number counts as a sign.

    Returns:
        One sentence per sign, each beginning with the metric's name; empty if there is none.
    """
    signs = [*_score_signs(numbers, thresholds), *_count_signs(numbers, thresholds)]
    return tuple(f"{numbers.metric}: {sign}" for sign in signs)


def _score_signs(numbers: MetricSummary, thresholds: RiskThresholds) -> list[str]:
    signs = []
    for name, value, bound in (
        ("mean", numbers.mean, thresholds.mean),
        ("median", numbers.median, thresholds.median),
    ):
        if value is not None and value < bound:
            signs.append(f"low {name}: {value:.3f}, under {bound:g}.")
    if numbers.sd is not None and numbers.sd > thresholds.sd:
        signs.append(f"high standard deviation: {numbers.sd:.3f}, over {thresholds.sd:g}; quality varies widely.")
    if numbers.max is not None and numbers.max < thresholds.max:
        signs.append(f"low maximum: no sample scored over {numbers.max:.3f}.")
    return signs


def _count_signs(numbers: MetricSummary, thresholds: RiskThresholds) -> list[str]:
    signs = []
    failed, undefined = sum(numbers.failed.values()), sum(numbers.undefined.values())
    outcomes = numbers.count + failed + undefined
    if not numbers.count:
        signs.append(f"nothing scored: {undefined} undefined, {failed} failed, {numbers.not_judged} not judged.")
    elif numbers.count < thresholds.count:
        signs.append(f"too few samples to say: {numbers.count} scored, {thresholds.count} wanted.")
    if numbers.clusters is not None and numbers.clusters < FEWEST_CLUSTERS:
        signs.append(f"few clusters: {numbers.clusters}, under {FEWEST_CLUSTERS}; the interval is a rough guide.")
    if abstained := numbers.undefined.get("abstained", 0):
        signs.append(
            f"abstaining answers: {abstained} of {outcomes}; they stand outside the mean, "
            "in which a system that abstains more looks better."
        )
    if outcomes and failed / outcomes > thresholds.failed_share:
        kinds = ", ".join(f"{count} {kind}" for kind, count in numbers.failed.items())
        signs.append(f"{failed / outcomes:.0%} failed ({kinds}); the mean does not speak for them.")
    return signs


def run_signs(numbers: Summary) -> tuple[str, ...]:
    """Signs of high risk that concern the run as a whole.

    Args:
        numbers: The run's summary.

    Returns:
        One sentence per sign; empty if there is none.
    """
    samples = numbers.judged + numbers.not_judged
    found = (
        (numbers.without_context, f"answers given without any context: {numbers.without_context} of {samples}."),
        (
            numbers.application_errors,
            f"the application itself failed: {numbers.application_errors} of {samples} samples.",
        ),
        (numbers.bad_rows, f"bad rows, not evaluated: {numbers.bad_rows} of {numbers.rows}."),
        (numbers.not_judged, f"samples not judged: {numbers.not_judged} of {samples}."),
    )
    return tuple(sentence for count, sentence in found if count)
