"""``ragmetrics compare`` compares two runs; ``push`` puts scores onto traces.

The runs are over the same samples, and a gate can be set. The traces are those that the
scores judge.
"""

import argparse
from pathlib import Path
from shlex import quote
from typing import Any

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.kept_results import results_at
from ragmetrics_core.cli.options import add, command, flag, show
from ragmetrics_core.data import InputError
from ragmetrics_core.page.first_screen import date_of, short_question
from ragmetrics_core.reporting.comparison import MARGIN, Changed, Comparison
from ragmetrics_core.reporting.report import Report

_N_WORST = 3
_EXIT_CODES = (
    "Exit codes: 0 all well; 1 a metric fell by more than the margin"
    " (--fail-on-regression); 2 bad input, or runs that are not comparable; 3 undecided"
    " (--fail-on-regression)."
)


def add_to(commands: Any) -> None:
    """Add both commands to the parser."""
    parser = command(commands, "compare", _compare, epilog=_EXIT_CODES)
    add(parser, "first", "results of the run to compare with", "A.jsonl", Path)
    add(parser, "second", "results of the run in question", "B.jsonl", Path)
    add(
        parser,
        "--metrics",
        "separated by commas; by default all that both runs have",
        "NAMES",
    )
    add(parser, "--report", "write an HTML page", "FILE", Path)
    add(
        parser,
        "--margin",
        f"differences that do not matter ({MARGIN})",
        "D",
        float,
        MARGIN,
    )
    flag(parser, "--fail-on-regression", "hold a gate against the margin")
    shared.add_undecided(parser)
    shared.add_summary(parser)
    shared.add_cluster(parser)
    add(
        parser,
        "--slice",
        "compare within each value of this key of the metadata, too",
        "KEY",
    )
    flag(parser, "--anyway", "compare runs that were not measured in the same way")
    parser = command(commands, "push", _push)
    add(parser, "results", "results over traces", "R.jsonl", Path)
    help_text = (
        "otel, openinference, mlflow or langfuse; addresses and keys as their clients"
        " take them"
    )
    add(parser, "--to", help_text, "TARGET", required=True)


def _compare(options: argparse.Namespace) -> int:
    shared.settle_gates(
        options, "--fail-on-regression", holds_gate=options.fail_on_regression
    )
    first, second = map(results_at, (options.first, options.second))
    comparison = first.compare(
        second,
        metrics=options.metrics.split(",") if options.metrics else None,
        cluster=options.cluster,
        slices=options.slice,
        margin=options.margin,
        anyway=options.anyway,
    )
    titles = (_title(options.first, first), _title(options.second, second))
    comparison = comparison.model_copy(update={"titles": titles})
    lines = [f"First: {titles[0]}. Second: {titles[1]}."]
    lines += map(str, comparison.verdict_groups)
    lines.append(comparison.table())
    if options.report:
        comparison.to_html(options.report)
        lines.append(f"Report: {options.report}")
    decisions = (
        comparison.regressions(min_scored=options.min_scored)
        if options.fail_on_regression
        else ()
    )
    lines += map(str, decisions)
    shared.summarise(
        options, "\n".join(["## ragmetrics compare", "", "```", *lines, "```", ""])
    )
    # a job's summary, which others read, holds no texts of samples
    lines += _worst_lines(comparison)
    if not options.report:
        files = f"{quote(str(options.first))} {quote(str(options.second))}"
        lines.append(f"Next: ragmetrics compare {files} --report comparison.html")
    show("\n".join(lines))
    return shared.exit_code(decisions, options)


def _worst_lines(comparison: Comparison) -> list[str]:
    """The rows that lost most, each with its metric and its question."""
    lost = [change for change in comparison.most_changed if change.difference < 0]
    lost.sort(key=lambda change: change.difference)
    worst_by_row: dict[int, Changed] = {}
    for change in lost:
        worst_by_row.setdefault(change.second.index, change)
    lines = ["Lost most:"] if lost else []
    for change in list(worst_by_row.values())[:_N_WORST]:
        row = change.second
        question = short_question(row.sample) if row.sample else ""
        lines.append(
            f"  row {row.index + 1}: {change.metric} {change.difference:+.2f}:"
            f" {question or '(no question)'}"
        )
    return lines


def _title(path: Path, report: Report) -> str:
    """What a run is called: the name that it was given, its file and its date."""
    facts = ", ".join(filter(None, (path.name, date_of(report.run))))
    return f"{report.run.name} ({facts})" if report.run.name else facts


def _push(options: argparse.Namespace) -> int:
    report = results_at(options.results)
    sent = [row for row in report.results if row.sample is not None and row.results]
    if not sent:
        raise InputError(
            f"{options.results} holds no results of samples, so nothing was sent;"
            " evaluate samples first"
        )
    report.write_to(options.to)
    left_out = len(report.results) - len(sent)
    rest = (
        f"; not sent, because they hold no sample or no results: {left_out}"
        if left_out
        else ""
    )
    show(
        f"{sum(len(row.results) for row in sent)} results of {len(sent)} rows:"
        f" {options.to}{rest}"
    )
    return 0
