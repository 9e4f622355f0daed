"""Options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.reporting.gates import MIN_SCORED, Decision, check_share


def positive(text: str) -> int:
    """A whole number of at least 1.

    Raises:
        argparse.ArgumentTypeError: If it is none.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return number


def add_undecided(parser: Any) -> None:
    """Add when a gate is undecided and what that means, for every command with gates."""
    parser.add_argument(
        *("--min-scored",), type=_share, default=MIN_SCORED, metavar="SHARE",
        help=f"share of all rows that must be scored; with fewer a gate is undecided ({MIN_SCORED})",
    )  # fmt: skip
    parser.add_argument(
        *("--undecided",), choices=("exit3", "pass", "fail"), default="exit3",
        help="what an undecided gate means: exit code 3 (the default), 0 or 1",
    )  # fmt: skip


def exit_code(decisions: Iterable[Decision], undecided: str) -> int:
    """The exit code that gates lead to."""
    outcomes = {decision.outcome for decision in decisions}
    if "failed" in outcomes:
        return 1
    return {"exit3": 3, "pass": 0, "fail": 1}[undecided] if "undecided" in outcomes else 0


def _share(text: str) -> float:
    try:
        share = float(text)
        check_share(share)
    except (ValueError, SettingError):
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, got {text!r}") from None
    return share


def judge_from(name: str | None, api_base: str | None) -> Judge:
    """The judge that is named, else ``RAGMETRICS_JUDGE``, else the embedded one.

    Raises:
        SettingError: If an endpoint is given without a model.
    """
    judge = resolve_judge(name, api_base=api_base)
    if api_base and not isinstance(judge, LLMJudge):
        raise SettingError("--api-base needs a model, e.g. openai/MODEL; the embedded judge has no endpoint")
    return judge
