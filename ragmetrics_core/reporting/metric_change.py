"""How one metric changed between two runs, and whether chance could have done it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal, get_args

from pydantic import Field

from ragmetrics_core.data import Frozen, MetricResult, Scored
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.scalars import ROUNDING
from ragmetrics_core.reporting.groups import Clusters, GroupBy
from ragmetrics_core.reporting.pairing import Part
from ragmetrics_core.statistics import means
from ragmetrics_core.statistics.means import Interval

Bounds = tuple[float, float]
Verdict = Literal["worse", "cannot tell", "better", "same", "identical"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""In the order in which people want to read them."""

SAME = 0.02
"""A difference whose interval lies within this, or the margin, is the same."""

_ALPHA = 0.05

ResultPair = tuple[MetricResult | None, MetricResult | None]


class MetricChange(Frozen):
    """One metric in both runs, over all matched samples or those of one slice.

    Attributes:
        metric: Name of the metric.
        slice: Value of the slice; None for all samples.
        rows: All rows of either run, those without a partner too.
        outcomes: How often each pair occurs, e.g. scored/failed.
        lost_scores: Rows that the first run scored, and that the second leaves
            undefined.
        won_scores: Rows that only the second run scored.
        p_scores: McNemar's p-value of these two, after Holm.
        pairs: Samples scored in both.
        difference: Mean of second − first over them, if any.
        interval: Its 95 % interval.
        one_sided: Its one-sided 95 % bounds, failures at the worst and the best.
        p: P-value of the permutation test, after Holm.
        exact: True if every pattern of signs was tried.
        detectable: Smallest true difference that this design finds with 80 %.
        n_gained: Samples that scored more.
        n_lost: Samples that scored less.
        verdict: What follows for the second run.
    """

    metric: str
    slice: str | None = None
    rows: int = 0
    outcomes: dict[str, int] = Field(default={})
    lost_scores: int = 0
    won_scores: int = 0
    p_scores: float = 1.0
    pairs: int = 0
    difference: float | None = None
    interval: Interval | None = None
    one_sided: Bounds | None = None
    p: float | None = None
    exact: bool = False
    detectable: float | None = None
    n_gained: int = 0
    n_lost: int = 0
    verdict: Verdict = "cannot tell"

    @property
    def name(self) -> str:
        """The metric, with its slice."""
        return self.metric if self.slice is None else f"{self.metric} [{self.slice}]"

    @property
    def in_words(self) -> str:
        """The difference with its interval, and what moved; one line.

        Example: "-0.100 (-0.150 to -0.050) over 40 rows; 9 fell, 2 rose".
        """
        if self.difference is None or self.verdict == "identical":
            return self.moved_in_words
        words = f"{self.difference:+.3f}"
        if self.interval is not None:
            words += f" ({self.interval.low:+.3f} to {self.interval.high:+.3f})"
        rows = count_in_words(self.pairs, "row")
        if self.clusters is not None:
            rows += f" in {count_in_words(self.clusters, 'cluster')}"
        return f"{words} over {rows}; {self.moved_in_words}"

    @property
    def clusters(self) -> int | None:
        """The number of clusters of its rows; None where each stands alone."""
        return None if self.interval is None else self.interval.clusters

    @property
    def n_unknown(self) -> int:
        """Rows of which a run does not know the score: the metric failed, say."""
        is_known = {"scored", "undefined"}.issuperset
        return sum(
            count
            for kinds, count in self.outcomes.items()
            if not is_known(kinds.split("/"))
        )

    @property
    def moved_in_words(self) -> str:
        """How many rows fell and rose, and lost or won their score."""
        parts = []
        if self.verdict == "identical":
            parts.append(f"all {count_in_words(self.rows, 'outcome')} are equal")
            if "scored/scored" not in self.outcomes:
                parts.append("none is scored")
        elif self.difference is None:
            parts.append("no row is scored in both runs")
        else:
            parts.append(f"{self.n_lost:,} fell, {self.n_gained:,} rose")
        if self.lost_scores or self.won_scores:
            parts.append(
                f"{self.lost_scores:,} lost their score, {self.won_scores:,} won one"
            )
        if self.n_unknown:
            parts.append(f"{self.n_unknown:,} failed or were not judged")
        return "; ".join(parts)

    @property
    def details(self) -> list[str]:
        """What stands behind the verdict, a line each."""
        outcomes = ", ".join(f"{count} {kind}" for kind, count in self.outcomes.items())
        lines = [f"outcomes (first/second): {outcomes or 'no row is in both runs'}"]
        if self.p is not None:
            patterns = "every pattern" if self.exact else "9,999 random patterns"
            lines.append(
                f"permutation test ({patterns} of signs), after Holm: p = {self.p:.4f}"
            )
        if self.one_sided is not None:
            low, high = self.one_sided
            lines.append(
                "one-sided 95 % bounds, failures at the worst and at the best:"
                f" {low:+.4f} and {high:+.4f}"
            )
        if self.lost_scores or self.won_scores:
            lines.append(
                f"scored in one run only: McNemar's p after Holm = {self.p_scores:.4f}"
            )
        if self.detectable is not None:
            lines.append(
                "as many rows would find a true difference of"
                f" {self.detectable:.4f} 4 times in 5"
            )
        return lines


def changes_of(
    parts: Iterable[Part], metrics: Sequence[str], cluster: GroupBy, margin: float
) -> list[MetricChange]:
    """Compute how each metric changed, over all pairs of rows and in each slice.

    Args:
        parts: All pairs of rows, then those of each slice.
        metrics: Names of the metrics.
        cluster: Which samples belong together.
        margin: A loss up to this does not matter.
    """
    changes: list[MetricChange] = []
    for part in parts:
        clusters = Clusters(cluster)
        cluster_numbers: list[int] = []
        for before, after in part.pairs:
            number = clusters.number(before.sample)
            if number < 0:  # the first run says nothing of it
                number = clusters.number(after.sample)
            cluster_numbers.append(number)
        changes += [_change_of(metric, part, cluster_numbers) for metric in metrics]
    # a look into slices takes no verdict of all rows back: they are corrected apart
    of_all = [change for change in changes if change.slice is None]
    return [
        *_with_verdicts(of_all, margin),
        *_with_verdicts(changes[len(of_all) :], margin),
    ]


def _change_of(metric: str, part: Part, cluster_numbers: Sequence[int]) -> MetricChange:
    """The outcomes of a metric in both runs, the difference, and its tests.

    It is "identical" where all outcomes are equal: nothing is tested then. The p-values
    are not yet corrected for how many are tested.
    """
    results = [
        (before.results.get(metric), after.results.get(metric))
        for before, after in part.pairs
    ]
    outcomes = Counter(
        "/".join("not judged" if one is None else one.status for one in pair)
        for pair in results
    )
    # the same score on each row, or undefined in both; what failed or was not judged is
    # not known, and equal to nothing
    is_identical = len(results) == part.n_rows
    for before, after in results:
        is_identical = (
            is_identical
            and before is not None
            and after is not None
            and before.status == after.status
            and before.status != "failed"
            and before.value == after.value
        )
    change = MetricChange(
        metric=metric,
        slice=part.slice,
        rows=part.n_rows,
        outcomes=dict(outcomes.most_common()),
        lost_scores=outcomes["scored/undefined"],
        won_scores=outcomes["undefined/scored"],
        verdict="identical" if is_identical else "cannot tell",
    )
    if is_identical:
        return change
    values, clusters = _differences(results, cluster_numbers, None, None)
    fields: dict[str, object] = {
        "p_scores": means.mcnemar(change.lost_scores, change.won_scores)
    }
    if values:
        test = means.permutation(values, clusters)
        low, high = means.one_sided_bounds(values, clusters)
        # failed rows could have scored worst, or best, in the second run
        worst = _differences(results, cluster_numbers, 1.0, 0.0)
        best = _differences(results, cluster_numbers, 0.0, 1.0)
        worst_low, _ = means.one_sided_bounds(*worst)
        _, best_high = means.one_sided_bounds(*best)
        fields |= {
            "pairs": len(values),
            "difference": fmean(values),
            "n_gained": sum(value > ROUNDING for value in values),
            "n_lost": sum(value < -ROUNDING for value in values),
            "interval": means.difference_interval(values, clusters),
            "one_sided": (min(low, worst_low), max(high, best_high)),
            "p": test.p,
            "exact": test.exact,
            "detectable": means.detectable(means.standard_error(values, clusters)),
        }
    return change.model_copy(update=fields)


def value_of(
    result: MetricResult | None, if_failed: float | None = None
) -> float | None:
    """The score of a result; None if the metric is undefined for the sample.

    Args:
        result: What a metric said; None if the sample was not judged.
        if_failed: The score to take if the sample was not judged or the metric failed,
            0 or 1. Of a score with lost polls it then is the lowest, or the highest,
            that these could have led to.
    """
    if result is None or result.status == "failed":
        return if_failed
    if if_failed is not None and isinstance(result, Scored) and result.bounds:
        low, high = result.bounds
        return high if if_failed else low
    return result.value


def _differences(
    results: Sequence[ResultPair],
    cluster_numbers: Sequence[int],
    first_failed: float | None,
    second_failed: float | None,
) -> tuple[list[float], list[int]]:
    """Subtract the first run's scores from the second run's, with each pair's cluster.

    A row that failed or was not judged counts with the score given; None leaves its pair
    out.
    """
    values: list[float] = []
    clusters: list[int] = []
    for (before, after), cluster_number in zip(results, cluster_numbers, strict=True):
        score_before = value_of(before, if_failed=first_failed)
        score_after = value_of(after, if_failed=second_failed)
        if score_before is not None and score_after is not None:
            values.append(score_after - score_before)
            clusters.append(cluster_number)
    return values, clusters


def _with_verdicts(
    changes: Sequence[MetricChange], margin: float
) -> list[MetricChange]:
    """Correct the p-values for what was tested together (Holm), and give verdicts."""
    p_values: list[float] = []
    for change in changes:
        p_values += [change.p_scores, 1.0 if change.p is None else change.p]
    # where no row moved there is nothing to test, and nothing to correct for
    tested = [p for p in p_values if p < 1]
    adjusted = iter(means.holm(tested))
    corrected = [next(adjusted) if p < 1 else 1.0 for p in p_values]
    judged = []
    for place, change in enumerate(changes):
        p_scores, p = corrected[2 * place : 2 * place + 2]
        fields: dict[str, object] = {"p_scores": p_scores}
        if change.p is not None:
            fields["p"] = p
        change = change.model_copy(update=fields)
        judged.append(change.model_copy(update={"verdict": _verdict(change, margin)}))
    return judged


def _verdict(change: MetricChange, margin: float) -> Verdict:
    """Say what follows for the second run.

    It is worse where its difference lies below the margin, or where it lost more scores
    than it won: answers that decline are no escape.
    """
    if change.verdict == "identical":
        return change.verdict
    lost_more = change.lost_scores > change.won_scores
    if lost_more and change.p_scores <= _ALPHA:
        return "worse"
    if change.one_sided is None or change.interval is None or change.p is None:
        return "cannot tell"
    low, high = change.one_sided
    is_significant = change.p <= _ALPHA
    if high < -margin and is_significant:
        return "worse"
    if low > margin and is_significant:
        return "better"
    band = max(margin, SAME)
    lowest = min(low, change.interval.low)
    highest = max(high, change.interval.high)
    if lowest >= -band and highest <= band:
        return "same"
    return "cannot tell"
