"""``ragmetrics evaluate``, which scores the rows of files.

It writes the results, and holds gates against the means.
"""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.options import add, command, flag, positive, show
from ragmetrics_core.cli.paths import RESULTS_MARK
from ragmetrics_core.cli.source import COLUMNS, Source
from ragmetrics_core.data import (
    PROJECT_FILE,
    JudgeUnavailable,
    ProjectSettings,
    SampleResult,
    SettingError,
    project_settings,
)
from ragmetrics_core.data.trust import printable
from ragmetrics_core.engine.dry_run import estimate, needed
from ragmetrics_core.engine.evaluation import report_of
from ragmetrics_core.engine.run import Run, stream
from ragmetrics_core.metrics.registry import full_name, metrics_set
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.page.render import check_page
from ragmetrics_core.reporting.gates import UntilDecided, decide, parse_gate
from ragmetrics_core.reporting.pairing import KeysSought
from ragmetrics_core.reporting.report import Folded, JsonlWriter
from ragmetrics_core.reporting.run_facts import Decision
from ragmetrics_core.reporting.summary import Summary, Tally
from ragmetrics_core.reporting.tables import markdown, text_table
from ragmetrics_core.traces.dialects import DIALECTS

_EXIT_CODES = (
    "Exit codes: 0 all well; 1 a gate failed or nothing was scored; 2 bad input, or a"
    " judge that cannot be used; 3 a gate is undecided; 4 batches are on their way; 130"
    " interrupted, what was done is written."
)
_LIMITS = "a cap that is reached ends the run with what is done until then"
_UNTIL = ("alpha", "seed", "max_samples", "against", "margin")
_UNHELD = "{}: a dry run judges nothing."


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = command(commands, "evaluate", _run, epilog=_EXIT_CODES)
    add(
        parser,
        "files",
        ".jsonl, .json, .csv, .tsv or .parquet",
        "FILE",
        Path,
        nargs="+",
    )
    flag(
        parser,
        "--traces",
        "the files hold recorded traces, e.g. OTLP JSON; the samples are found in them",
    )
    add(
        parser,
        "--dialect",
        "of traces whose spans bear the marks of several",
        "NAME",
        choices=tuple(DIALECTS),
    )
    add(
        parser,
        "--resolve",
        "of traces with ids alone: a mapping or function from ids to texts",
        "MODULE:NAME",
    )
    add(parser, "--metrics", "separated by commas; by default all that apply", "NAMES")
    shared.add_judge(parser)
    told = (
        "a setting of a metric, e.g. adherence.polls=3 or module:name.polls=3; may be"
        " repeated"
    )
    add(
        parser,
        "--set",
        told,
        "METRIC.SETTING=VALUE",
        default=[],
        action="append",
        dest="settings",
    )
    add(parser, "--out", "write samples and results to this JSONL file", "FILE", Path)
    parser.set_defaults(replaces=RESULTS_MARK)
    add(parser, "--report", "write an HTML page", "FILE", Path)
    shared.add_cluster(parser)
    add(parser, "--limit", "read at most N rows of each file", "N", positive)
    flag(parser, "--strict", "stop at the first row that is no sample")
    shared.add_calls(parser)
    flag(
        parser,
        "--batch",
        "ask in batches, answered within a day at half the price; the same command"
        " later goes on",
    )
    flag(parser, "--wait", "the same, and wait for the answers")
    shared.add_settings(parser.add_argument_group("limits", _LIMITS), Limits)
    gates = shared.add_gates(parser)
    flag(
        gates,
        "--until-decided",
        "judge rows in a drawn order, and stop when the gates are decided",
    )
    shared.add_settings(gates, UntilDecided, _UNTIL, "with --until-decided: ")
    parser.set_defaults(settle=settle)
    columns = parser.add_argument_group(
        "columns", "found by themselves; a name or a dotted path where not"
    )
    for name in COLUMNS:
        names = (
            ("--reference-column", "--ground-truth-column")
            if name == "reference"
            else (f"--{name}-column",)
        )
        columns.add_argument(*names, dest=f"{name}_column", metavar="NAME")


def _run(options: argparse.Namespace) -> int:
    """Evaluate, and say by the exit code what the gates decide."""
    holds_gate = bool(options.fail_under or options.against)
    shared.settle_gates(options, "--fail-under", holds_gate=holds_gate)
    return _evaluate_once(options, None)


def _evaluate_once(options: argparse.Namespace, budget: Budget | None) -> int:
    """Evaluate once; a run that waits for batches goes over its samples again."""
    if options.progress is False:
        logging.getLogger("ragmetrics_core").setLevel(logging.WARNING)
    metrics = metrics_set(
        None if options.metrics is None else options.metrics.split(","),
        options.settings,
    )
    gates = [
        parse_gate(text, [metric.name for metric in metrics])
        for text in options.fail_under
    ]
    how: dict[str, Any] = {"on": options.gate, "min_scored": options.min_scored}
    until = _until(options)
    slices = {gate.by for gate in gates if gate.by}
    source = Source(options, KeysSought(slices, options.cluster))
    # Without a name each metric has its own judge, and then the usual one.
    named = options.judge or options.api_base or options.api_key_env
    judge = shared.judge_from(options.judge, options) if named else None
    if options.dry_run:
        found = estimate(source, metrics, judge)
        source.keys.check()
        undecided = [
            Decision(
                metric=gate.metric, outcome="undecided", sentence=_UNHELD.format(gate)
            )
            for gate in gates
        ]
        lines = needed(
            found, gates if found.samples else (), until or UntilDecided(**how)
        )
        show(
            "\n".join([found.text(live=options.max_live), *lines, *map(str, undecided)])
        )
        applies = len(found.left_out) < len(metrics) and found.samples
        return (
            shared.exit_code(undecided, options)
            if applies
            else source.idle(found.left_out)
        )
    if options.report:
        check_page(options.report)
    budget = budget or Budget(shared.settings_from(options, Limits))
    this = Run(
        metrics,
        judge,
        options.concurrency,
        shared.store(options),
        budget,
        until=until,
        gates=gates if until else (),
        batch=options.batch or options.wait,
    )
    this.check_prices()
    tally = Tally(
        [metric.name for metric in metrics], cluster=options.cluster, slices=slices
    )
    kept = Folded() if options.report else None
    _evaluate(this, source, tally, kept, options)
    if this.waiting:
        if this.waited(options.wait):
            return _evaluate_once(options, budget)
        show(this.stopped)
        return 4
    summary, reasons = (
        tally.summary(run=this.facts),
        {name: it.why for name, it in tally.metrics.items() if it.why},
    )
    if options.report:
        report = report_of(this, kept or Folded(), asked=options.metrics is not None)
        report.to_html(options.report, cluster=options.cluster)
    decisions = this.facts.decisions or [decide(gate, summary, **how) for gate in gates]
    if lines := [
        *_lines(this, summary, reasons, source, options),
        *map(str, decisions),
    ]:
        show("\n".join(lines))
    if this.interrupted:
        print(
            "ragmetrics: interrupted; what was done is counted above", file=sys.stderr
        )
        return 130
    shared.summarise(
        options, markdown(_applied(summary, options), this.facts, decisions)
    )
    if any(metric.count for metric in summary.metrics):
        return shared.exit_code(decisions, options)
    if any(metric.failed or metric.not_judged for metric in summary.metrics):
        print("ragmetrics: nothing was scored", file=sys.stderr)
        return 1
    return source.idle(reasons)


def _evaluate(
    this: Run,
    source: Source,
    tally: Tally,
    kept: Folded | None,
    options: argparse.Namespace,
) -> None:
    """Judge and count every sample.

    Results are on disk as soon as they are known, in memory only in ``kept``.
    """
    writer = (
        JsonlWriter(options.out, source.described(this.facts)) if options.out else None
    )
    try:
        with writer or nullcontext():
            rows = source.counted(always=this.decider is not None)
            this.why_part = source.why_part
            results = stream(this, rows, progress=options.progress, columns={})
            try:
                for result in results:
                    _take(result, writer, tally, kept)
            # between two results; one that comes while it waits ends the stream
            except KeyboardInterrupt:
                for result in this.interrupt():
                    _take(result, writer, tally, kept)
            if this.waiting:
                return
            if writer is not None:
                writer.close(source.described(this.facts))
    except JudgeUnavailable as error:
        raise JudgeUnavailable(f"the judge cannot be used: {error}") from None
    except KeyboardInterrupt:  # once more
        this.interrupted = True
    finally:
        if writer is not None and writer.left is not None and writer.left.is_file():
            told = (
                f"ragmetrics: {options.out} is as it was; what was judged stands in"
                f" {writer.left}"
            )
            writer.left.unlink() if this.parking else print(told, file=sys.stderr)


def _take(
    result: SampleResult, writer: JsonlWriter | None, tally: Tally, kept: Folded | None
) -> None:
    """Count a result, on disk first."""
    if writer is not None:
        writer.write(result)
    tally.add(result)
    if kept is not None:
        kept.append(result)


def _lines(
    this: Run,
    summary: Summary,
    reasons: Mapping[str, str],
    source: Source,
    options: argparse.Namespace,
) -> list[str]:
    """What is printed at the end, line by line, but for the gates."""
    shown = _applied(summary, options)
    scored = shown.metrics
    lines = [text_table(shown, this.facts)] if scored else []
    lines += [f"! {sign}" for sign in shown.all_signs]
    for metric in (
        metric for metric in summary.metrics if scored and metric not in scored
    ):
        why = f"undefined on every row ({reasons.get(metric.metric, 'no samples')})"
        if metric.not_judged and not metric.undefined:
            why = "judged on no row before the run ended"
        lines.append(f"{metric.metric} left out: {why}")
    if scored:
        lines += source.remarks
        lines.append(
            f"Spent: {shared.spent(summary.usage)}; {this.facts.seconds:.1f} s"
        )
    lines += (
        [f"Samples and results: {options.out}"]
        if options.out and not this.interrupted
        else []
    )
    lines += [f"Report: {options.report}"] if options.report else []
    return lines


def _applied(summary: Summary, options: argparse.Namespace) -> Summary:
    """Without metrics that nobody named and that applied to no row."""
    kept = tuple(
        own
        for own in summary.metrics
        if own.count or own.failed or options.metrics is not None
    )
    return summary.model_copy(update={"metrics": kept})


def _until(options: argparse.Namespace) -> UntilDecided | None:
    """How the run stops, if it is to; None if every row is to be judged."""
    given = {
        name: own for name in _UNTIL if (own := getattr(options, name)) is not None
    }
    if not options.until_decided:
        if given:
            raise SettingError(
                f"--{next(iter(given)).replace('_', '-')} belongs to --until-decided"
            )
        return None
    return UntilDecided(
        on=options.gate, min_scored=options.min_scored, cluster=options.cluster, **given
    )


def settle(options: argparse.Namespace) -> None:
    """Take from the file of the working directory what ``evaluate`` was not told."""
    found = project_settings(Path.cwd(), decided=_decided(options))
    if found != ProjectSettings():
        logging.getLogger("ragmetrics_core").info(
            "settings are taken from %s", PROJECT_FILE
        )
    if options.dry_run and found.code:
        raise SettingError(
            f"{PROJECT_FILE} names code of its folder, which a dry run does not import:"
            " leave out --dry-run, or choose with --judge and --metrics yourself"
        )
    if found.api_base and options.api_key_env:
        raise SettingError(
            f"no key goes to an address of {PROJECT_FILE}: name it with --api-base"
            " beside --api-key-env"
        )
    given = {
        "metrics": found.metrics and ",".join(found.metrics),
        "store": found.store and Path(found.store),
        "judge": found.judge,
        "api_base": found.api_base,
        **{f"{name}_column": column for name, column in found.columns.items()},
    }
    for name, value in given.items():
        if name not in options:
            field = printable(name.removesuffix("_column"))
            raise SettingError(
                f"{PROJECT_FILE} names the column of {field}, which samples lack"
            )
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.fail_under = options.fail_under or _gates_to_hold(
        found.gates, options.metrics, of_file=found.metrics
    )


def _gates_to_hold(
    gates: Sequence[str], metrics: str | None, *, of_file: Sequence[str] | None
) -> list[str]:
    """Return the gates of the settings file that are to be held.

    A gate is left out where the command line leaves out its metric, and a warning says
    so.

    Where the file itself leaves a gate's metric out, the gate stays and is refused,
    like one on the command line.
    """
    if metrics is None or (of_file is not None and metrics == ",".join(of_file)):
        return list(gates)
    measured = [_metric_name(name) for name in metrics.split(",")]
    # A gate of no shipped metric is one of the user's own; it is looked up among all
    # that are measured.
    held = [
        gate
        for gate in gates
        if _metric_name(gate.partition("=")[0]) in (*measured, None)
    ]
    for gate in gates:
        if gate not in held:
            logging.getLogger("ragmetrics_core").warning(
                "the gate %s of %s is not held: --metrics leaves its metric out",
                gate,
                PROJECT_FILE,
            )
    return held


def _metric_name(name: str) -> str | None:
    """The full name of a shipped metric; None for any other."""
    try:
        return full_name(name)
    except SettingError:
        return None


def _decided(options: argparse.Namespace) -> list[str]:
    """The settings that options decide, whatever a file says of them."""
    decided = [
        name
        for name in ("metrics", "judge", "api_base", "store")
        if getattr(options, name) is not None
    ]
    return [*decided, "store"] if options.no_store else decided
