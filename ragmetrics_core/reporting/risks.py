"""Signs of high risk, as sentences: numbers at which a reader should look at the samples behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ragmetrics_core.data.frozen import Frozen, Share
from ragmetrics_core.statistics.means import FEWEST_CLUSTERS

if TYPE_CHECKING:
    from ragmetrics_core.reporting.summary import MetricSummary, Summary


class RiskThresholds(Frozen):
    """When a number counts as a sign of high risk. The defaults are conventions, not measurements.

    Args:
        mean: A mean below this is low.
        median: A median below this is low.
        sd: A standard deviation above this is high; scores in [0, 1] cannot exceed about 0.5.
        max: A highest score below this is low: not one sample went well.
        count: Fewer scores than this are too few to say.
        failed_share: A larger share of failed among the rows with an outcome is high.
    """

    mean: Share = 0.7
    median: Share = 0.7
    sd: Share = 0.3
    max: Share = 0.8
    count: Annotated[int, Field(ge=0)] = 30
    failed_share: Share = 0.05


def metric_signs(numbers: MetricSummary) -> tuple[str, ...]:
    """Signs of high risk of one metric, one sentence each, beginning with the metric's name."""
    limits, found = numbers.limits, (numbers.mean, numbers.median, numbers.sd, numbers.max)
    mean, median, sd, most = (own if own is not None else fine for own, fine in zip(found, (1, 1, 0, 1), strict=True))
    failed, undefined = sum(numbers.failed.values()), sum(numbers.undefined.values())
    outcomes, abstained = numbers.count + failed + undefined, numbers.undefined.get("abstained", 0)
    kinds = ", ".join(f"{count} {kind}" for kind, count in numbers.failed.items())
    clusters = (numbers.interval and numbers.interval.clusters) or FEWEST_CLUSTERS
    idle = f"{undefined} undefined, {failed} failed, {numbers.not_judged} not judged"
    outside = "they stand outside the mean, in which a system that abstains more looks better"
    signs = (
        (mean < limits.mean, f"low mean: {mean:.3f}, under {limits.mean:g}."),
        (median < limits.median, f"low median: {median:.3f}, under {limits.median:g}."),
        (sd > limits.sd, f"high standard deviation: {sd:.3f}, over {limits.sd:g}; quality varies widely."),
        (most < limits.max, f"low maximum: no sample scored over {most:.3f}."),
        (not numbers.count, f"nothing scored: {idle}."),
        (0 < numbers.count < limits.count, f"too few samples to say: {numbers.count} scored, {limits.count} wanted."),
        (clusters < FEWEST_CLUSTERS,
         f"few clusters: {clusters}, under {FEWEST_CLUSTERS}; the interval is a rough guide."),
        (abstained, f"abstaining answers: {abstained} of {outcomes}; {outside}."),
        (failed > limits.failed_share * outcomes,
         f"{failed / max(1, outcomes):.0%} failed ({kinds}); the mean does not speak for them."),
    )  # fmt: skip
    return tuple(f"{numbers.metric}: {sentence}" for holds, sentence in signs if holds)


def run_signs(numbers: Summary) -> tuple[str, ...]:
    """Signs of high risk that concern the run as a whole, one sentence each."""
    samples, broken = numbers.judged + numbers.not_judged, numbers.application_errors
    found = (
        (numbers.without_context, f"answers given without any context: {numbers.without_context} of {samples}."),
        (broken, f"the application itself failed: {broken} of {samples} samples."),
        (numbers.bad_rows, f"bad rows, not evaluated: {numbers.bad_rows} of {numbers.rows}."),
        (numbers.not_judged, f"samples not judged: {numbers.not_judged} of {samples}."),
    )
    return tuple(sentence for count, sentence in found if count)
