"""What the simulations share: a measured share with its bound, and what an interval holds."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from ragmetrics_core.statistics.means import Interval

COVERAGE = 0.92
"""Least coverage of a 95 % interval anywhere on the grid, the bound that the methods page states for its grid."""

TYPE_ONE = 0.05
POWER = 0.8


@dataclass(frozen=True)
class Measured:
    """A simulated share, and whether it keeps its bound within the simulation's own error."""

    name: str
    share: float
    bound: float
    runs: int
    at_least: bool = True

    @property
    def kept(self) -> bool:
        """True if the bound is kept, give or take two standard errors of the simulation."""
        slack = 2 * sqrt(self.bound * (1 - self.bound) / self.runs)
        return (
            self.share >= self.bound - slack
            if self.at_least
            else self.share <= self.bound + slack
        )

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return (
            f"{self.name:62} {self.share:.3f}  {sign} {self.bound} "
            f" {'kept' if self.kept else 'BROKEN'}"
        )


def holds(interval: Interval | None, truth: float) -> bool:
    """True if an interval holds the truth."""
    return (
        interval is not None and interval.low - 1e-12 <= truth <= interval.high + 1e-12
    )
