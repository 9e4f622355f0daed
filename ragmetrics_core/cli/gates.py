"""The options of gates, and what they lead to: ``evaluate`` and ``compare`` have the same."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.reporting.gates import MIN_SCORED, Decision, Gate, check_share


def add_undecided(parser: Any) -> None:
    """Add when a gate is undecided and what that means."""
    parser.add_argument(
        *("--min-scored",), type=_share, default=MIN_SCORED, metavar="SHARE",
        help=f"share of all rows that must be scored; with fewer a gate is undecided ({MIN_SCORED})",
    )  # fmt: skip
    parser.add_argument(
        *("--undecided",), choices=("exit3", "pass", "fail"), default="exit3",
        help="what an undecided gate means: exit code 3 (the default), 0 or 1",
    )  # fmt: skip


def _share(text: str) -> float:
    try:
        share = float(text)
        check_share(share)
    except (ValueError, SettingError):
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, got {text!r}") from None
    return share


def parse_gate(text: str, names: Sequence[str]) -> Gate:
    """Read a gate as it is written on a command line.

    Args:
        text: ``metric=threshold``; the metric by its name or the last word of it, e.g. ``adherence=0.8``.
        names: Names of the metrics that the run measures.

    Raises:
        SettingError: If the form is another, the metric is not among the names, or the threshold is not in
            [0, 1].
    """
    name, equals, threshold = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise SettingError(f"a gate is written metric=threshold, e.g. adherence=0.8; got {text!r}")
    short = {own.rpartition("_")[2]: own for own in names}
    full = name if name in names else short.get(name.lower())
    if full is None:
        raise SettingError(f"no metric {name!r} for a gate; there are: {', '.join(dict.fromkeys([*short, *names]))}")
    try:
        at_least = float(threshold)
    except ValueError:
        at_least = float("nan")
    if not isfinite(at_least) or not 0 <= at_least <= 1:
        raise SettingError(f"the threshold of a gate is a number from 0 to 1, e.g. {name}=0.8; got {threshold!r}")
    return Gate(metric=full, at_least=at_least)


def exit_code(decisions: Iterable[Decision], undecided: str) -> int:
    """The exit code that decisions lead to."""
    outcomes = {decision.outcome for decision in decisions}
    if "failed" in outcomes:
        return 1
    return {"exit3": 3, "pass": 0, "fail": 1}[undecided] if "undecided" in outcomes else 0
