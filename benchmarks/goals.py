"""Rows of a benchmark: what was measured, and whether its goal is met."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A bound of a figure.

    Args:
        bound: The bound in words, e.g. ``≤ 1.05``.
        met: Whether the figure keeps it.
    """

    bound: str
    met: bool

    def __str__(self) -> str:
        return f"goal {self.bound}: {'met' if self.met else 'MISSED'}"


def at_most(value: float, bound: float, unit: str = "") -> Goal:
    """The goal that a figure is not above a bound."""
    return Goal(f"≤ {bound:g}{unit}", value <= bound)


def at_least(value: float, bound: float, unit: str = "") -> Goal:
    """The goal that a figure is not below a bound."""
    return Goal(f"≥ {bound:g}{unit}", value >= bound)


def between(value: float, low: float, high: float) -> Goal:
    """The goal that a figure lies between two bounds."""
    return Goal(f"{low:.2f} to {high:.2f}", low <= value <= high)


class Rows:
    """Prints rows as they are measured.

    Attributes:
        missed: How many goals were missed so far.
    """

    def __init__(self) -> None:
        self.missed = 0

    def add(self, row: str, *goals: Goal) -> None:
        """Print one row, and whether its goals are met."""
        self.missed += sum(not goal.met for goal in goals)
        print("; ".join((row, *map(str, goals))), flush=True)

    @property
    def code(self) -> int:
        """Exit status of the benchmark: 1 if a goal was missed."""
        return int(self.missed > 0)
