"""``ragmetrics metrics``: what each metric needs, and what it costs in calls."""

import argparse
from typing import Any

from ragmetrics_core.cli.options import command
from ragmetrics_core.metrics.registry import METRICS

_CALLS = {
    "context_utilization": "1 per distinct chunk; 1 in all with judging=listwise",
    "context_adherence": "1 with n=polls where the model can, else 5 (polls); +1 below 0.5 for the cause",
    "context_recall": "1 per distinct reference",
    "retrieval_accuracy": "facts × contexts + 1; contexts + 1 with calls=per_context",
}


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    command(commands, "metrics", _run, "list the metrics, what they need and what they cost in calls")


def _run(_: argparse.Namespace) -> int:
    for name, kind in METRICS.items():
        metric = kind()
        needs = ", ".join(" or ".join(group) for group in metric.needs)
        print(f"{name}\n  {(kind.__doc__ or '').splitlines()[0]}\n  needs: {needs}\n  calls: {_CALLS[name]}")
        print(f"  signature: {metric.signature}\n")
    print("The embedded judge makes no calls. Settings: --set adherence.polls=3; formulas: docs/metrics.md.")
    return 0
