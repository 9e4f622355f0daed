"""In how many rows the answer declined, or the judge failed, in each of two runs.

Scores of such rows are in no difference, so a change hides there.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ragmetrics_core.data import Failed, MetricResult, SampleResult, Scored, Undefined
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.reporting.pairing import Pair
from ragmetrics_core.statistics import paired
from ragmetrics_core.statistics.stopping import ROUNDING

_ALPHA = 0.05


class RowShift(NamedTuple):
    """In how many rows of each run something occurred.

    ``p`` is the p-value of McNemar's test; None where nothing is tested.
    ``newly_scored`` is a sentence on the rows that have the trait only in the first
    run: what mean scores they have in the second.
    """

    title: str
    first: int
    second: int
    p: float | None
    newly_scored: str = ""

    def __str__(self) -> str:
        """The shift in one sentence.

        Example: "Failed: 2 → 9 rows (p = 0.0391: more in the second run)."
        """
        words = f"{self.title}: {self.first:,} → {count_in_words(self.second, 'row')}"
        if self.p is None:
            words += " (not tested)."
        elif self.p > _ALPHA:
            words += f" (p = {self.p:.4f}: undecided, chance could explain it)."
        else:
            direction = "fewer" if self.second < self.first else "more"
            words += f" (p = {self.p:.4f}: {direction} in the second run)."
        return f"{words} {self.newly_scored}".rstrip()


def row_shifts(
    pairs: Sequence[Pair], metrics: Sequence[str], *, is_tested: bool
) -> tuple[RowShift, ...]:
    """Count in each of two runs the rows that declined, and the rows that failed.

    A shift is left out if the same rows declined (or failed) in both runs.

    Args:
        pairs: Each row as the first run has it, and as the second has it.
        metrics: Names of the metrics; one that says so of a row is enough.
        is_tested: Whether a p-value says if chance could explain the change.
    """
    shifts = [
        _shift("Declined", pairs, metrics, _is_declined, is_tested=is_tested),
        _shift("Failed", pairs, metrics, _has_failed, is_tested=is_tested),
    ]
    return tuple(shift for shift in shifts if shift is not None)


def _shift(
    title: str,
    pairs: Sequence[Pair],
    metrics: Sequence[str],
    has_trait: Callable[[MetricResult | None], bool],
    *,
    is_tested: bool,
) -> RowShift | None:
    """Count the rows with a trait in each run; None if these are the same rows.

    Example: rows 1, 2 and 3 declined in the first run, row 3 in the second: 3 and 1.
    Rows 1 and 2 have scores now, and a sentence names their means.

    Args:
        title: The trait in words, such as "Declined".
        pairs: Each row as the first run has it, and as the second has it.
        metrics: Names of the metrics; one that shows the trait of a row is enough.
        has_trait: Whether a metric's result shows the trait.
        is_tested: Whether a p-value says if chance could explain the change.
    """
    in_first = [_has_any(row, metrics, has_trait) for row, _ in pairs]
    in_second = [_has_any(row, metrics, has_trait) for _, row in pairs]
    if in_first == in_second:
        return None
    newly_scored_pairs = []  # they no longer have the trait: no longer decline or fail
    for pair, is_in_first, is_in_second in zip(pairs, in_first, in_second, strict=True):
        if is_in_first and not is_in_second:
            newly_scored_pairs.append(pair)
    # The sentence sets their means against the highest score of all rows in the second
    # run: a mean of .7 is no bad one where no row has more than .75.
    highest_by_metric = _highest_scores([after for _, after in pairs], metrics)
    return RowShift(
        title,
        first=sum(in_first),
        second=sum(in_second),
        p=_p_of_shift(in_first, in_second) if is_tested else None,
        newly_scored=_means_in_words(newly_scored_pairs, highest_by_metric),
    )


def _means_in_words(
    pairs: Sequence[Pair], highest_by_metric: Mapping[str, float]
) -> str:
    """Word the mean scores that rows have in the second run; "" if it scored none.

    Args:
        pairs: The rows in both runs.
        highest_by_metric: By the name of a metric, the highest score of any row of the
            second run, which each mean is set against.
    """
    means = []
    for metric, highest in highest_by_metric.items():
        mean = _mean_in_words(metric, pairs, highest)
        if mean:
            means.append(mean)
    if not means:
        return ""
    rows = f"The {len(pairs):,} rows that no longer do have"
    if len(pairs) == 1:
        rows = "The 1 row that no longer does has"
    return f"{rows} these means in the second run: {', '.join(means)}."


def _mean_in_words(metric: str, pairs: Sequence[Pair], highest: float) -> str:
    """Word a metric's mean over rows of the second run; "" if none of them is scored.

    For example "adherence 0.700 (before: 0.650; no row has more than 0.900)".

    Args:
        metric: Name of the metric.
        pairs: Each row as the first run has it, and as the second has it.
        highest: The highest score of any row in the second run.
    """
    scores: list[float] = []
    scores_before: list[float] = []
    for first_row, second_row in pairs:
        result = second_row.results.get(metric)
        if not isinstance(result, Scored):
            continue
        scores.append(result.value)
        result_before = first_row.results.get(metric)
        if isinstance(result_before, Scored):
            scores_before.append(result_before.value)
    if not scores:
        return ""
    notes = []
    if len(scores_before) == len(scores):
        notes.append(f"before: {fmean(scores_before):.3f}")
    if highest < 1 - ROUNDING:
        notes.append(f"no row has more than {highest:.3f}")
    words = f"{metric} {fmean(scores):.3f}"
    return f"{words} ({'; '.join(notes)})" if notes else words


def _highest_scores(
    rows: Sequence[SampleResult], metrics: Sequence[str]
) -> dict[str, float]:
    """The highest score of each metric that scored any of these rows."""
    highest: dict[str, float] = {}
    for metric in metrics:
        results = [row.results.get(metric) for row in rows]
        scores = [result.value for result in results if isinstance(result, Scored)]
        if scores:
            highest[metric] = max(scores)
    return highest


def p_of_shifts(
    results: Sequence[tuple[MetricResult | None, MetricResult | None]],
) -> dict[str, float]:
    """Compute p-values of one metric: does one run decline, or fail, more often?"""
    results_before = [before for before, _ in results]
    results_after = [after for _, after in results]
    return {
        "abstained": _p_of_shift(
            list(map(_is_declined, results_before)),
            list(map(_is_declined, results_after)),
        ),
        "failed": _p_of_shift(
            list(map(_has_failed, results_before)),
            list(map(_has_failed, results_after)),
        ),
    }


def _p_of_shift(in_first: Sequence[bool], in_second: Sequence[bool]) -> float:
    """P-value of McNemar's test: does one of the runs show a trait more often?

    Args:
        in_first: For each row whether it has the trait in the first run.
        in_second: The same in the second run.
    """
    traits = list(zip(in_first, in_second, strict=True))
    n_first_only = traits.count((True, False))
    n_second_only = traits.count((False, True))
    return paired.mcnemar(n_first_only, n_second_only)


def _is_declined(result: MetricResult | None) -> bool:
    """Whether the answer only declined, so that there was nothing to score."""
    return isinstance(result, Undefined) and result.code in ("abstained", "declined")


def _has_failed(result: MetricResult | None) -> bool:
    """Whether the judge was asked, and its reply cannot be used."""
    return isinstance(result, Failed)


def _has_any(
    row: SampleResult,
    metrics: Sequence[str],
    has_trait: Callable[[MetricResult | None], bool],
) -> bool:
    """Whether any of the metrics shows the trait in a row."""
    return any(has_trait(row.results.get(metric)) for metric in metrics)
