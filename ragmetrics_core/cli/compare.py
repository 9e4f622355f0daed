"""``ragmetrics compare``, which compares two runs over the same samples.

A gate can be set.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.printing import show
from ragmetrics_core.cli.run_folders import (
    FOLDER,
    last_two_results,
    report_at,
    results_named,
)
from ragmetrics_core.data import InputError
from ragmetrics_core.data.display import (
    count_in_words,
    markdown_block,
    markdown_text,
    one_line,
)
from ragmetrics_core.reporting.comparison import Comparison
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import Decision, date_of

_N_WORST = 3
_LONGEST = 100
_MOST_MOVED = 25  # rows that a comment names


def run(options: argparse.Namespace) -> int:
    """Compare two files of results, and return an exit code that says how gates end.

    The comparison is printed, added to the summary of a CI job, and written as a page
    if the options name one. Example: ``ragmetrics compare a.jsonl b.jsonl
    --fail-on-regression`` gives a failing exit code if the second run is worse.

    Raises:
        InputError: If the page, or the summary of the CI job, cannot be written.
    """
    paths = [results_named(path) for path in options.runs] or last_two_results()
    if len(paths) != 2 and options.runs:
        raise InputError(f"two files are compared; got {len(options.runs)}")
    if len(paths) != 2:
        raise InputError(
            f"{FOLDER} holds the results of {count_in_words(len(paths), 'run')} here;"
            " evaluate twice, or name two files"
        )
    options.first, options.second = paths
    if options.first.resolve() == options.second.resolve():
        raise InputError(f"{options.first} is named twice; compare two runs")
    comparison = _make_comparison(options)
    decisions: Sequence[Decision] = ()
    if options.fail_on_regression:
        decisions = comparison.regressions(strict=options.strict)
    outputs = shared.Outputs()
    if options.report:
        with outputs.written():
            comparison.to_html(options.report)
    exit_code = outputs.exit_code(shared.exit_code(decisions))
    first_title, second_title = comparison.titles
    numbers = [f"{first_title} → {second_title}", *comparison.table().splitlines()]
    # The summary of a CI job, which others read, holds no texts of samples.
    table = "".join(f"{line}\n" for line in _table_of_moved_rows(comparison))
    with outputs.written():
        verdict = _verdict(comparison, decisions, exit_code)
        block = markdown_block([*verdict, *numbers])
        summary = f"## ragmetrics compare\n\n{block}\n{table}"
        shared.write_job_summary(options, summary)
    exit_code = outputs.exit_code(exit_code)
    lines = [*_verdict(comparison, decisions, exit_code), *numbers]
    # From here on the lines hold questions of samples.
    losses = [change for change in comparison.moved if change.difference < 0]
    if losses:
        lines += ["", "Lost most:"]
    for loss in losses[:_N_WORST]:
        row = loss.second
        question = one_line((row.sample and row.sample.question) or "", _LONGEST)
        lines.append(
            f"  {one_line(row.label)}: {loss.metric} {loss.difference:+.3f}:"
            f" {question or '(no question)'}"
        )
    if options.report:
        lines.append(f"Report: {options.report}")
    else:
        files = f"{quote(str(options.first))} {quote(str(options.second))}"
        lines.append(f"Next: ragmetrics compare {files} --report comparison.html")
    show(*lines)
    outputs.end()
    return exit_code


def _make_comparison(options: argparse.Namespace) -> Comparison:
    """Compare the runs that the options name; the result has their titles."""
    first_report = report_at(options.first)
    second_report = report_at(options.second)
    try:
        comparison = first_report.compare(
            second_report,
            metrics=options.metrics.split(",") if options.metrics else None,
            cluster=options.cluster,
            slices=options.slice,
            margin=options.margin,
            anyway=options.anyway,
        )
    except InputError as error:
        raise InputError(f"{options.first} and {options.second}: {error}") from None
    titles = (
        _title_of_run(options.first, first_report),
        _title_of_run(options.second, second_report),
    )
    return comparison.model_copy(update={"titles": titles})


def _verdict(
    comparison: Comparison, decisions: Sequence[Decision], exit_code: int
) -> list[str]:
    """Sum up in one line what ``--fail-on-regression`` came to; no line without it.

    Example: "No metric is known to be worse; for 3 of 4 these rows are too few: exit 0,
    at which a CI job goes on."
    """
    if not decisions:
        return []
    n_worse = sum(decision.outcome == "failed" for decision in decisions)
    n_undecided = sum(decision.outcome == "undecided" for decision in decisions)
    n_unknown = sum(change.verdict == "cannot tell" for change in comparison.changes)
    n_all = len(decisions)
    if n_worse:
        words = f"Worse: {n_worse} of {n_all}"
    elif n_undecided == n_all:
        words = "Nothing is decided"
    elif n_unknown:
        words = "No metric is known to be worse"
    else:
        words = "No metric is worse"
    if n_unknown:
        are_clustered = any(change.clusters for change in comparison.changes)
        what = "rows, or their clusters (--cluster)," if are_clustered else "rows"
        words += f"; for {n_unknown} of {n_all} these {what} are too few"
    if 0 < n_undecided < n_all:
        words += f", {n_undecided} of {n_all} undecided"
    effect = "stops" if exit_code else "goes on"
    return [f"{words}: exit {exit_code}, at which a CI job {effect}."]


def _table_of_moved_rows(comparison: Comparison) -> list[str]:
    """Return a table in Markdown of the rows whose scores moved; empty if none did.

    It has ids and no texts of samples, and four narrow columns, so that a phone shows
    it.
    """
    moved = comparison.moved
    if not moved:
        return []
    lines = [
        "",
        f"{len(moved):,} of {count_in_words(len(comparison.matched.pairs), 'row')} moved:",
        "",
        "| row | metric | before | after |",
        "|:--|:--|--:|--:|",
    ]
    for change in moved[:_MOST_MOVED]:
        before = change.first.results[change.metric].value
        after = change.second.results[change.metric].value
        name = markdown_text(change.metric)
        row = markdown_text(change.second.label)
        lines.append(f"| {row} | {name} | {before:.2f} | {after:.2f} |")
    n_more = len(moved) - _MOST_MOVED
    if n_more > 0:
        lines += ["", f"{n_more:,} more stand in the comparison's page."]
    return lines


def _title_of_run(path: Path, report: Report) -> str:
    """Return the title of a run: its name, if it has one, with its file and its date."""
    file = f"run {path.parent.name}" if path.parent.parent == FOLDER else path.name
    facts = ", ".join(filter(None, (file, date_of(report.run))))
    return f"{report.run.name} ({facts})" if report.run.name else facts
