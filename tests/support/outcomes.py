"""Results of a metric by a word or a number, and what comparisons of two runs decide."""

from typing import Any

from ragmetrics_core.data.results import ErrorInfo, Failed, Scored, Undefined
from ragmetrics_core.reporting.comparison import Comparison
from ragmetrics_core.reporting.run_facts import GateOutcome

Outcome = float | str
"""A score; "failed"; or the code of an undefined result."""


def result_of(
    outcome: Outcome, metric: str = "m", **fields: Any
) -> Scored | Undefined | Failed:
    """The result of a metric that came to this."""
    fields = {"metric": metric, "reason": "because", **fields}
    if not isinstance(outcome, str):
        return Scored(value=outcome, **fields)
    if outcome == "failed":
        error = ErrorInfo(type="RateLimited", message="slow down")
        return Failed(error=error, **fields)
    return Undefined.model_validate({"code": outcome, **fields})


def outcomes_of(
    comparison: Comparison, *, strict: bool = False
) -> dict[str, GateOutcome]:
    """By metric and slice, whether the second run is worse."""
    decisions = comparison.regressions(strict=strict)
    return {decision.metric: decision.outcome for decision in decisions}
