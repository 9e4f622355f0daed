"""What changed in one metric between two runs, in numbers and in words."""

from typing import Literal, NamedTuple

from pydantic import Field

from ragmetrics_core.data import Frozen
from ragmetrics_core.statistics.means import Interval

Bounds = tuple[float, float]
Verdict = Literal["identical", "better", "worse", "same", "undecided", "not tested"]


class MetricChange(Frozen):
    """One metric in both runs, over all matched samples or those of one slice."""

    metric: str = Field(description="name of the metric")
    slice: str | None = Field(
        default=None, description="value of the slice; None for all samples"
    )
    rows: int = Field(
        default=0, description="all rows of either run, those without a partner too"
    )
    outcomes: dict[str, int] = Field(
        default={}, description="how often each pair occurs, e.g. scored/failed"
    )
    abstained: float = Field(
        default=1.0, description="McNemar's p-value for abstentions"
    )
    failed: float = Field(default=1.0, description="McNemar's p-value for failures")
    pairs: int = Field(default=0, description="samples scored in both")
    difference: float | None = Field(
        default=None, description="mean of second − first over them, if any"
    )
    interval: Interval | None = Field(default=None, description="its 95 % interval")
    p: float | None = Field(default=None, description="p-value of the permutation test")
    exact: bool = Field(
        default=False, description="true if every pattern of signs was tried"
    )
    detectable: float | None = Field(
        default=None,
        description="smallest true difference that this design finds with 80 %",
    )
    needed: int | None = Field(
        default=None,
        description="pairs needed to find a difference of the margin with 80 %",
    )
    one_sided: Bounds | None = Field(
        default=None,
        description="its one-sided 95 % bounds, failures at the worst and the best",
    )
    bounds: Bounds | None = Field(
        default=None,
        description="the difference with failures at the worst and at the best",
    )
    n_gained: int = Field(default=0, description="samples that scored more")
    n_lost: int = Field(default=0, description="samples that scored less")
    gain: float | None = Field(
        default=None, description="mean gain of those that scored more, if any"
    )
    loss: float | None = Field(
        default=None, description="mean loss of those that scored less, over 0, if any"
    )
    p_holm: float | None = Field(
        default=None, description="p-value adjusted for everything tested here"
    )
    verdict: Verdict = Field(
        default="undecided", description="what follows for the second run"
    )

    @property
    def name(self) -> str:
        """The metric, with its slice."""
        return self.metric if self.slice is None else f"{self.metric} [{self.slice}]"

    @property
    def line(self) -> str:
        """The change in one line: the verdict, the difference and its interval.

        Example: "context_recall: worse, -0.100 over 40 pairs, 95 % interval -0.150 to
        -0.050".
        """
        verdict = f"{self.name}: {self.verdict}"
        if not self.outcomes:
            return f"{verdict}, no row is in both runs"
        if self.difference is None:
            return f"{verdict}, no row is scored in both runs"
        words = f"{verdict}, {self.difference:+.3f} over {self.pairs} pairs"
        if self.interval is not None:
            low = self.interval.low
            high = self.interval.high
            words += f", 95 % interval {low:+.3f} to {high:+.3f}"
        return words

    @property
    def in_numbers(self) -> str:
        """The difference, its interval, and over how many rows; "" without one."""
        if self.difference is None:
            return ""
        words = f"{self.difference:+.3f} over {self.pairs:,} rows scored in both"
        if self.interval is not None:
            low = self.interval.low
            high = self.interval.high
            words += f", 95 % interval {low:+.3f} to {high:+.3f}"
        return words

    def hides_moves(self, margin: float) -> bool:
        """Whether gains and losses cancel each other, so that the mean hides both.

        Each must be able to move the mean by more than the margin. A metric that is
        called better or worse hides nothing: its mean shows that it moved.

        Args:
            margin: Differences of means up to this do not matter.
        """
        if self.gain is None or self.loss is None or not self.pairs:
            return False
        if self.verdict not in ("undecided", "same", "not tested"):
            return False
        moved_up = self.gain * self.n_gained / self.pairs
        moved_down = self.loss * self.n_lost / self.pairs
        return min(moved_up, moved_down) > margin

    @property
    def is_chance_of_many(self) -> bool:
        """Whether it is undecided only because much was tested at once."""
        return self.verdict == "undecided" and self.excludes_zero

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        if self.interval is None:
            return False
        return self.interval.low > 0 or self.interval.high < 0

    def lines(self, margin: float) -> list[str]:
        """Word the change in lines: the verdict, the outcomes, the difference, its tests.

        Args:
            margin: A difference that matters; a line says how many pairs would find it.
        """
        outcomes = ", ".join(f"{count} {kind}" for kind, count in self.outcomes.items())
        return [
            f"{self.name}: {self.verdict}",
            f"  outcomes (first/second): {outcomes or 'no row is in both runs'}",
            *self._lines_of_difference(margin),
            *self._lines_of_shifts(),
        ]

    def _lines_of_difference(self, margin: float) -> list[str]:
        """Word the mean difference, with its test where it was tested."""
        if self.verdict == "identical":
            return [
                "  all rows and all outcomes are equal in both runs, so there is"
                " nothing to estimate"
            ]
        if self.difference is None:
            return ["  no row is scored in both runs"]
        if self.interval is None or self.bounds is None:
            return [
                f"  mean difference {self.difference:+.4f} over {self.pairs} pairs of a"
                " run until decided"
            ]
        lines = self._lines_of_test(self.difference, self.interval, self.bounds)
        return [*lines, self._power_line(margin)]

    def _lines_of_shifts(self) -> list[str]:
        """Word the tests of how many rows declined and failed, if any rows changed."""
        lines = []
        if self.abstained < 1:
            lines.append(
                f"  declined in one run only: McNemar's p = {self.abstained:.4f}"
            )
        if self.failed < 1:
            lines.append(f"  failed in one run only: McNemar's p = {self.failed:.4f}")
        return lines

    def _lines_of_test(
        self, difference: float, interval: Interval, bounds: Bounds
    ) -> list[str]:
        """Word the difference, its interval and its test in lines.

        Example: "  difference +0.1000 over 40 pairs, 95 % interval +0.0400 to +0.1600".

        Args:
            difference: Mean of second − first over the pairs with two scores.
            interval: Its 95 % interval.
            bounds: The lowest and the highest difference that failed rows could make.
        """
        patterns = "every pattern" if self.exact else "9,999 random patterns"
        lines = [
            (
                f"  difference {difference:+.4f} over {self.pairs} pairs, 95 % interval"
                f" {interval.low:+.4f} to {interval.high:+.4f}"
            ),
            (
                f"  permutation test ({patterns} of signs): p = {self.p:.4f},"
                f" {self.p_holm:.4f} after Holm"
            ),
        ]
        # a third line, unless no row failed: then both bounds are the difference
        could_failed_rows_matter = bounds != (difference, difference)
        if could_failed_rows_matter:
            worst, best = bounds
            lines.append(
                "  with failures at the worst and the best:"
                f" {worst:+.4f} to {best:+.4f}"
            )
        return lines

    def _power_line(self, margin: float) -> str:
        """What this design can find, in words."""
        line = (
            "  as many pairs would find a true difference of"
            f" {self.detectable:.4f} 4 times in 5"
        )
        if self.needed:
            line += f"; to find one of {margin:g} as often takes {self.needed:,} pairs"
        return line


class VerdictGroup(NamedTuple):
    """The metrics of one verdict, each over all samples, with words that lead to them."""

    verdict: Verdict
    words: str
    changes: tuple[MetricChange, ...]

    def __str__(self) -> str:
        """The group in one sentence."""
        names = []
        for change in self.changes:
            name = change.metric
            if change.difference is not None and self.verdict != "identical":
                name += f" ({change.in_numbers})"
            names.append(name)
        return f"{self.words} {', '.join(names)}."
