"""``ragmetrics push``: scores onto the traces that they judge."""

import argparse
from pathlib import Path
from typing import Any

from ragmetrics_core.cli.options import add, command, show
from ragmetrics_core.reporting.report import Report


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = command(commands, "push", _push)
    add(parser, "results", "results over traces", "R.jsonl", Path)
    add(
        parser,
        "--to",
        "otel, openinference, mlflow or langfuse; addresses and keys as their clients take them",
        "TARGET",
        required=True,
    )


def _push(options: argparse.Namespace) -> int:
    report = Report.from_jsonl(options.results)
    report.write_to(options.to)
    show(f"{sum(len(row.results) for row in report.results)} results of {len(report.results)} rows: {options.to}")
    return 0
