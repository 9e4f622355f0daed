"""``ragmetrics report``, which makes the page of results without judging again.

It also puts scores onto the traces that they judge.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.paths import check_paths
from ragmetrics_core.cli.printing import explain_lines, next_command, show_screen
from ragmetrics_core.cli.run_folders import (
    FOLDER,
    PAGE,
    report_at,
    results_named,
    unless_unasked,
)
from ragmetrics_core.data import InputError, SampleResult, SettingError
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.engine.project_file import PROJECT_FILE, project_settings
from ragmetrics_core.page.render import write_page
from ragmetrics_core.reporting.answering import answerings_of
from ragmetrics_core.reporting.gates import Gate, parse_gate
from ragmetrics_core.reporting.glance import glance_of
from ragmetrics_core.reporting.groups import check_keys
from ragmetrics_core.reporting.jsonl import json_line
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import Decision, RunFacts
from ragmetrics_core.reporting.screen import screen_lines
from ragmetrics_core.reporting.tables import markdown
from ragmetrics_core.reporting.use_in_words import agreement_lines


def fill_in(options: argparse.Namespace) -> None:
    """Find runs by their numbers, and take the settings' gates where none was typed."""
    options.files = [results_named(path) for path in options.files]
    options.are_gates_of_file = not options.fail_under
    if options.are_gates_of_file:
        unused_settings = ("metrics", "judge", "api_base", "store", "columns")
        of_file = project_settings(Path.cwd(), settings_not_read=unused_settings)
        options.fail_under = of_file.gates
        if of_file.gates:
            log = logging.getLogger("ragmetrics_core")
            log.info("gates are taken from %s", PROJECT_FILE)


def run(options: argparse.Namespace) -> int:
    """Decide gates on a report, print its numbers, and write its page.

    The report is read from a file of results, or joined from several. Example:
    ``a.jsonl b.jsonl --report page.html`` makes one page of both files. A page that was
    not typed is left out if it cannot be written.

    Returns:
        The exit code, which says what the gates decide.

    Raises:
        InputError: If the page, or the summary of a CI job, cannot be written.
    """
    options.unasked = []
    if options.report is None:
        results = options.files[0]
        if results.name in ("", ".."):  # the working folder, and the one above
            results = results.resolve()
        is_of_run = results.parent.parent == FOLDER
        options.report = results.with_name(
            PAGE if is_of_run else f"{results.stem}.html"
        )
        options.unasked = ["report"]
        with unless_unasked(options, "report"):
            check_paths(options)

    reports = [report_at(path) for path in options.files]
    report, warnings = _joined_report(reports, options)
    pushed = [_push(report, options.push)] if options.push else []
    gates, undecided = _gates(options, report)
    keys_of_slices = {gate.by for gate in gates if gate.by}
    summary = report.summary(cluster=options.cluster, slices=keys_of_slices)
    decisions = [*shared.decide_gates(gates, summary, options), *undecided]
    outputs = shared.Outputs()
    glance = glance_of(report, summary, report.run, decisions, warnings)
    # A large report shows only some of its rows one by one; its numbers are of all rows.
    shown = report.shown()
    with outputs.written(), unless_unasked(options, "report"):
        if options.report:
            write_page(options.report, shown.results, summary, shown.run, glance)
    exit_code = outputs.exit_code(shared.exit_code_of_run(summary, decisions))
    with outputs.written():
        text = markdown(summary, report.run, glance, exit_code)
        shared.write_job_summary(options, text)
    exit_code = outputs.exit_code(exit_code)
    lines = screen_lines(
        glance,
        page=str(options.report or ""),
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
    outputs.end()
    return exit_code


def _gates(
    options: argparse.Namespace, report: Report
) -> tuple[list[Gate], list[Decision]]:
    """Return the gates; one of the settings file is undecided on what results lack.

    That is its metric, or its key of slices. So it hinders no page, and never seems to
    be held.
    """
    gates, undecided = list[Gate](), list[Decision]()
    for text in options.fail_under:
        try:
            gate = parse_gate(text, report.metrics)
            if options.are_gates_of_file and gate.by:
                check_keys(report.results, slices=[gate.by])
        except SettingError as error:
            if not options.are_gates_of_file:
                raise
            sentence = f"{text} of {PROJECT_FILE} cannot be decided: {error}"
            undecided.append(
                Decision(metric=text, outcome="undecided", sentence=sentence)
            )
        else:
            gates.append(gate)
    return gates, undecided


def _joined_report(
    reports: Sequence[Report], options: argparse.Namespace
) -> tuple[Report, tuple[str, ...]]:
    """Join the reports of all files into one, with the name that was typed.

    Returns:
        The report, and warnings of rows and questions that stand in two files.
    """
    report = reports[0]
    warnings: tuple[str, ...] = ()
    if len(reports) > 1:
        report, warnings = join_runs(reports, [str(path) for path in options.files])
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


T = TypeVar("T")


def join_runs(
    reports: Sequence[Report], names: Sequence[str]
) -> tuple[Report, tuple[str, ...]]:
    """Join several runs to one over all their rows, in their order.

    A row that stands in an earlier file, too, counts once. Example: runs of 2 and 3
    rows make one of 5 rows, numbered 0 to 4.

    Args:
        reports: The runs, at least one.
        names: What each is called in a message, e.g. its file.

    Returns:
        The report of all rows, numbered anew, and how many questions stand in two files.
    """
    runs = [report.run for report in reports]
    # at another address another model may answer under the name
    asked = [
        {judge: ", ".join(run.endpoints(judge)) for judge in run.addresses}
        for run in runs
    ]
    differing = {
        judge
        for judge in chain.from_iterable(asked)
        if len({addresses.get(judge, "") for addresses in asked} - {""}) > 1
    }
    joined: list[SampleResult] = []
    left_out, warnings = list[str](), list[str]()
    earlier_rows, earlier = set[bytes](), set[str]()
    for report, run, name, addresses in zip(reports, runs, names, asked, strict=True):
        told = {judge: addresses[judge] for judge in differing if addresses.get(judge)}
        rows, digests, n_copies = list[SampleResult](), set[bytes](), 0
        for row in _with_addresses(report.results, told):
            # equal rows of two runs, or two lines of a sink, are no copies
            origin = "" if row.appended else run.key
            line = json_line([origin, row.model_copy(update={"index": 0})])
            digest = hashlib.sha256(line.encode()).digest()
            digests.add(digest)
            if row.sample is not None and digest in earlier_rows:
                n_copies += 1
            else:
                rows.append(row.model_copy(update={"index": len(joined) + len(rows)}))
        joined += rows
        if n_copies:
            left_out.append(
                f"{count_in_words(n_copies, 'row')} of {name} stood in an earlier file,"
                " and counted once"
            )
        earlier_rows |= digests

        # two runs over the same questions are no more evidence than one
        samples = [row.sample for row in rows if row.sample is not None]
        questions = {sample.question for sample in samples if sample.question}
        n_repeated = len(questions & earlier)
        if n_repeated:
            warnings.append(
                f"{n_repeated:,} of {len(questions):,} questions of {name} stand in an"
                " earlier file, too. The ranges count a question's rows as one, unless"
                " --cluster says otherwise. Compare two runs by ragmetrics compare."
            )
        earlier |= questions
    run = _join_facts(runs, names)
    run = run.model_copy(update={"left_out": (*run.left_out, *left_out)})
    return Report(joined, run), tuple(warnings)


def _with_addresses(
    rows: Iterable[SampleResult], address_by_judge: Mapping[str, str]
) -> Iterator[SampleResult]:
    """Name in the signatures where a judge was asked."""
    for row in rows:
        results = dict(row.results)
        for name, result in row.results.items():
            signature = result.signature
            if signature.judge in address_by_judge:
                address = address_by_judge[signature.judge]
                details = {**signature.details, "address": address}
                signature = signature.with_judge(signature.judge, details)
                results[name] = result.model_copy(update={"signature": signature})
        yield row.model_copy(update={"results": results})


def _join_facts(runs: Sequence[RunFacts], file_names: Sequence[str]) -> RunFacts:
    """Join the facts of several runs to the facts of one run; times add up.

    Example: runs of 3 and 4 seconds took 7. If the first one was interrupted,
    ``stopped`` is "monday.jsonl: it was interrupted".
    """
    facts: dict[str, Any] = {}
    for name in ("metrics", "questions", "addresses", "details"):
        facts[name] = {}
        for run in runs:
            facts[name] |= getattr(run, name)
    reasons = [
        f"{file_name}: {run.ended_early}"
        for run, file_name in zip(runs, file_names, strict=True)
        if run.ended_early
    ]
    return RunFacts(
        **facts,
        name=", ".join(_drop_repeats((run.name,) for run in runs if run.name)),
        version=_same([run.version for run in runs]) or "",
        inputs=tuple(chain.from_iterable(run.inputs for run in runs)),
        judges=_drop_repeats(run.judges for run in runs),
        judge_chosen=_same([run.judge_chosen for run in runs]),
        models=_drop_repeats(run.models for run in runs),
        started=min((run.started for run in runs if run.started), default=""),
        seconds=sum(run.seconds for run in runs),
        stopped="; ".join(reasons),
        left_out=_drop_repeats(run.left_out for run in runs),
        notes=_drop_repeats(run.notes for run in runs),
    )


def _same(values: Sequence[T]) -> T | None:
    """What all values are; None if they differ."""
    return values[0] if len(set(values)) == 1 else None


def _drop_repeats(several: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Chain several tuples of words, and leave out words that came before."""
    return tuple(dict.fromkeys(chain.from_iterable(several)))
