"""What comparisons of two runs decide, as tests read it."""

from ragmetrics_core.reporting.comparison import Comparison
from ragmetrics_core.reporting.run_facts import GateOutcome


def outcomes_of(
    comparison: Comparison, *, strict: bool = False
) -> dict[str, GateOutcome]:
    """By metric and slice, whether the second run is worse."""
    decisions = comparison.regressions(strict=strict)
    return {decision.metric: decision.outcome for decision in decisions}
