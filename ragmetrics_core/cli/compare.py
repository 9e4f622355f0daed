"""``ragmetrics compare``: two runs over the same samples, with a gate against regressions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ragmetrics_core.cli.options import add_undecided, exit_code
from ragmetrics_core.cli.output import show
from ragmetrics_core.reporting.comparison import MARGIN
from ragmetrics_core.reporting.report import Report

_EXIT_CODES = (
    "Exit codes: 0 all well; 1 a metric fell by more than the margin (--fail-on-regression); 2 bad input, or runs "
    "that are not comparable; 3 undecided (--fail-on-regression)."
)


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compare", help="compare two runs over the same samples", epilog=_EXIT_CODES, allow_abbrev=False
    )
    parser.add_argument("first", type=Path, metavar="A.jsonl", help="results of the run to compare with")
    parser.add_argument("second", type=Path, metavar="B.jsonl", help="results of the run in question")
    parser.add_argument("--metrics", metavar="NAMES", help="separated by commas; by default all that both runs have")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write an HTML page")
    parser.add_argument(
        *("--margin",), type=float, default=MARGIN, metavar="D", help=f"differences that do not matter ({MARGIN})"
    )  # fmt: skip
    parser.add_argument("--fail-on-regression", action="store_true", help="hold a gate against the margin")
    add_undecided(parser)
    parser.add_argument("--cluster", metavar="KEY", default="auto", help="samples that belong together; none for none")
    parser.add_argument("--slice", metavar="KEY", help="compare within each value of this key of the metadata, too")
    parser.add_argument("--anyway", action="store_true", help="compare runs that were not measured in the same way")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare, print, and return the exit code."""
    first, second = (Report.from_jsonl(path) for path in (options.first, options.second))
    found = first.compare(
        second,
        metrics=options.metrics.split(",") if options.metrics else None,
        cluster=None if options.cluster == "none" else options.cluster,
        slices=options.slice,
        margin=options.margin,
        anyway=options.anyway,
    )
    lines = [found.table()]
    if options.report:
        found.to_html(options.report)
        lines.append(f"Report: {options.report}")
    decisions = found.regressions(min_scored=options.min_scored) if options.fail_on_regression else ()
    show("\n".join([*lines, *(f"{decision.outcome}: {decision.sentence}" for decision in decisions)]))
    return exit_code(decisions, options.undecided)
