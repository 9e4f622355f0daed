"""``ragmetrics report``, which makes the page of results without judging again.

It also puts scores onto the traces that they judge.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.printing import explain_lines, next_command, show_screen
from ragmetrics_core.cli.run_folders import page_of_run, results_at, results_named
from ragmetrics_core.data import InputError
from ragmetrics_core.engine.project_file import project_settings
from ragmetrics_core.page.render import PAGE_MARK, write_page
from ragmetrics_core.reporting.answering import answerings_of
from ragmetrics_core.reporting.gates import parse_gate
from ragmetrics_core.reporting.glance import glance_of
from ragmetrics_core.reporting.joined import join_runs
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.screen import screen_lines
from ragmetrics_core.reporting.tables import markdown
from ragmetrics_core.reporting.use_in_words import agreement_lines

_NAMELESS = ("", "..")  # the name of the working folder, and of the one above


def fill_in(options: argparse.Namespace) -> None:
    """Find runs by their numbers, take the settings' gates, and name the page.

    Raises:
        InputError: If a file that is no page of ours stands where the page goes, or the
            results are a folder without a name to take.
    """
    options.files = [results_named(path) for path in options.files]
    if not options.fail_under:
        unused_settings = ("metrics", "judge", "api_base", "store", "columns")
        of_file = project_settings(Path.cwd(), settings_not_read=unused_settings)
        options.fail_under = list(of_file.gates)
    if options.report is not None:
        return
    results = options.files[0]
    if results.name in _NAMELESS:
        raise InputError(f"{results} has no name for the page to take; give --report")
    page = page_of_run(results) or results.with_suffix(".html")
    if page.is_file():
        with page.open("rb") as file:
            start = file.read(2000)
        if PAGE_MARK.encode() not in start:
            raise InputError(
                f"{page} exists, and is no page of ragmetrics; name another file with"
                " --report"
            )
    options.report = page


def run(options: argparse.Namespace) -> int:
    """Write the page of a report, print its numbers, and decide gates.

    The report is read from a file of results, or joined from several. Example:
    ``a.jsonl b.jsonl --report page.html`` makes one page of both files.

    Returns:
        The exit code, which says what the gates decide.

    Raises:
        InputError: If the summary of a CI job cannot be written.
    """
    reports = [results_at(path) for path in options.files]
    report, warnings = _report(reports, options)
    pushed = [_push(report, options.push)] if options.push else []
    gates = [parse_gate(text, report.metrics) for text in options.fail_under]
    keys_of_slices = {gate.by for gate in gates if gate.by}
    summary = report.summary(cluster=options.cluster, slices=keys_of_slices)
    decisions = shared.decide_gates(gates, summary, options)
    exit_code = shared.exit_code_of_run(summary, decisions)
    glance = glance_of(report, summary, report.run, decisions, warnings)
    shared.write_job_summary(options, markdown(summary, report.run, glance, exit_code))
    # A large report shows only some of its rows one by one; its numbers are of all rows.
    shown_report = report.shown()
    write_page(options.report, shown_report.results, summary, shown_report.run, glance)
    lines = screen_lines(
        glance,
        page=str(options.report),
        # a later run is compared with one file, not with several that were joined
        next_command=next_command(
            options.files[0] if len(options.files) == 1 else None,
            failed=glance.outcome == "failed" and not options.explain,
        ),
        exit_code=exit_code,
    )
    if options.explain:
        remarks = [*warnings]
        for answering in answerings_of(report.results, summary):
            remarks += str(answering).splitlines()
        remarks += agreement_lines(report.results)
        lines += explain_lines(glance, summary, report.run, remarks)
    show_screen([*lines, *pushed])
    return exit_code


def _report(
    reports: Sequence[Report], options: argparse.Namespace
) -> tuple[Report, tuple[str, ...]]:
    """Join the reports of all files into one, with the name that was typed.

    Returns:
        The report, and warnings of rows and questions that stand in two files.
    """
    report = reports[0]
    warnings: tuple[str, ...] = ()
    if len(reports) > 1:
        joined = join_runs(reports, [str(path) for path in options.files])
        report, warnings = Report(joined.rows, joined.run), joined.warnings
    if options.signature:
        report = report.with_signature(options.signature)
    name = options.name
    if not report.run.name and not any(source.name for source in report.run.inputs):
        # samples that a program gave: only the file says which run it is
        name = name or ", ".join(path.name for path in options.files)
    if name:
        report.run = report.run.model_copy(update={"name": name})
    return report, warnings


def _push(report: Report, target: str) -> str:
    """Send the results of traced samples to an observability tool; say what was sent.

    Example: 100 rows with two results each, 3 of the rows without a sample: "194
    results of 97 rows: mlflow; not sent, because …: 3".

    Raises:
        InputError: If there are no results of samples.
    """
    rows_sent = [
        row for row in report.results if row.sample is not None and row.results
    ]
    if not rows_sent:
        raise InputError(
            "the report holds no results of samples, so nothing was sent; evaluate"
            " samples first"
        )
    report.write_to(target)  # it skips rows without a sample or results by itself
    n_results = sum(len(row.results) for row in rows_sent)
    sentence = f"{n_results} results of {len(rows_sent)} rows: {target}"
    n_left_out = len(report.results) - len(rows_sent)
    if n_left_out:
        sentence += (
            f"; not sent, because they hold no sample or no results: {n_left_out}"
        )
    return sentence
