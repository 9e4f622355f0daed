"""What comparing two runs gives: per metric the difference, its interval, the tests and what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.reporting.gates import MIN_SCORED, Decision, Outcome, check_share
from ragmetrics_core.statistics.statistics import Interval

Verdict = Literal["better", "worse", "same", "undecided"]

MARGIN = 0.02
"""Differences up to this do not matter, unless the user says otherwise."""

ROUNDING = 1e-9
"""Differences smaller than this are none."""


class MetricChange(Frozen):
    """One metric in both runs, over all matched samples or those of one slice.

    Args:
        metric: Name of the metric.
        slice: Value of the slice; None for all samples.
        rows: All rows of either run, those without a partner too.
        outcomes: How often each pair of outcomes occurs, e.g. ``"scored/failed"``.
        pairs: Samples scored in both.
        difference: Mean of second − first over them; None without any, like what follows.
        interval: Its 95 % interval.
        one_sided: Its lower and upper one-sided 95 % bounds, the lower one with failures set to the worst, the upper
            one with failures set to the best for the second run.
        bounds: The difference if failures are set to the worst and to the best for the second run.
        p: P-value of the permutation test.
        exact: True if every pattern of signs was tried.
        p_holm: P-value adjusted for everything tested in this comparison.
        abstained: McNemar's p-value for abstentions.
        failed: McNemar's p-value for failures.
        clusters: Number of clusters; of pairs, if each stands alone.
        detectable: Smallest true difference that this design finds with 80 %.
        needed: Pairs needed to find a difference of the margin with 80 %.
        verdict: What follows for the second run.
    """

    metric: str
    slice: str | None = None
    rows: int = 0
    outcomes: dict[str, int] = Field(default_factory=dict)
    pairs: int = 0
    difference: float | None = None
    interval: Interval | None = None
    one_sided: tuple[float, float] | None = None
    bounds: tuple[float, float] | None = None
    p: float | None = None
    exact: bool = False
    p_holm: float | None = None
    abstained: float = 1.0
    failed: float = 1.0
    clusters: int = 0
    detectable: float | None = None
    needed: int | None = None
    verdict: Verdict = "undecided"

    @property
    def name(self) -> str:
        """The metric, with its slice."""
        return self.metric if self.slice is None else f"{self.metric} [{self.slice}]"


class Side(Frozen):
    """A sample as one of the runs saw and scored it."""

    index: int
    sample: Sample
    value: float
    reason: str


class Changed(Frozen):
    """A sample whose score of one metric changed, as both runs saw it."""

    metric: str
    first: Side
    second: Side

    @property
    def difference(self) -> float:
        """Second − first."""
        return self.second.value - self.first.value


class Comparison(Frozen):
    """Two runs side by side; "second − first" everywhere.

    Args:
        changes: One entry per metric and slice.
        matched: Samples found in both runs.
        first_only: Rows of the first run without a partner.
        second_only: Rows of the second run without a partner.
        matched_by: ``id`` or ``question``.
        margin: Differences up to this do not matter.
        differing: In what the runs are not comparable; only with ``anyway``.
        most_changed: Per metric the samples whose score changed most, losses first.
        stopped: Why either run ended before all its rows were read; "" if neither did.
    """

    changes: tuple[MetricChange, ...]
    matched: int
    first_only: int
    second_only: int
    matched_by: Literal["id", "question"]
    margin: Annotated[float, Field(ge=0)]
    differing: tuple[str, ...] = ()
    most_changed: tuple[Changed, ...] = ()
    stopped: str = ""

    def __getitem__(self, name: str) -> MetricChange:
        """The change of a metric over all samples, or of one slice as ``"metric [slice]"``."""
        for change in self.changes:
            if change.name == name:
                return change
        raise SettingError(f"no {name!r} in this comparison; it has: {', '.join(c.name for c in self.changes)}")

    def regression(self, *, min_scored: float = MIN_SCORED) -> dict[str, Outcome]:
        """Per metric and slice: did the second run lose more than the margin?

        Args:
            min_scored: Share of all rows of either run that must be scored in both.

        Returns:
            ``passed`` if the one-sided 95 % lower bound of the difference, with failures set to the worst, lies
            above −margin; ``failed`` if the upper bound, with failures set to the best, lies below; else, or with
            fewer scored, or after a run that ended early, ``undecided``.
        """
        return {found.metric: found.outcome for found in self.regressions(min_scored=min_scored)}

    def regressions(self, *, min_scored: float = MIN_SCORED) -> tuple[Decision, ...]:
        """The outcomes of ``regression`` with their reasons in words."""
        check_share(min_scored)
        return tuple(self._regression(change, min_scored) for change in self.changes)

    def _regression(self, change: MetricChange, min_scored: float) -> Decision:
        outcome: Outcome = "undecided"
        words = f"{change.name} against a loss of {self.margin:g}"
        if self.stopped:
            words += f"; {self.stopped}"
        elif change.one_sided is None or change.pairs < min_scored * change.rows - ROUNDING:
            missing = {kind: count for kind, count in change.outcomes.items() if kind != "scored/scored"}
            missing["without a partner"] = change.rows - sum(change.outcomes.values())
            reasons = ", ".join(f"{count} {kind}" for kind, count in missing.items() if count)
            words += f"; {change.pairs} of {change.rows} rows were scored in both runs: {reasons}"
        else:
            low, high = change.one_sided
            words += f"; one-sided bounds {low:+.4f} and {high:+.4f}"
            if high < -self.margin - ROUNDING:
                outcome = "failed"
            elif low >= -self.margin - ROUNDING:
                outcome = "passed"
        return Decision(metric=change.name, outcome=outcome, sentence=words)

    def table(self) -> str:
        """The comparison as plain text."""
        from ragmetrics_core.reporting.compare_tables import text_table  # knows this module

        return text_table(self)

    def __str__(self) -> str:
        return self.table()

    def to_html(self, path: str | Path) -> None:
        """Write the comparison as one HTML page that opens offline; texts of changed samples are in it.

        Raises:
            MissingDependency: If Jinja2 is not installed.
            InputError: If the file cannot be written.
        """
        from ragmetrics_core.page.compared import write_comparison  # knows this module

        write_comparison(path, self)
