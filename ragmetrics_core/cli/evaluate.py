"""``ragmetrics evaluate``, which scores the rows of files.

It writes the results, and holds gates against the means.
"""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.options import BAD_INPUT, add, command, flag, positive, show
from ragmetrics_core.cli.paths import RESULTS_MARK
from ragmetrics_core.cli.screen import lines_on_rows, next_command, screen_lines
from ragmetrics_core.cli.source import COLUMNS, Source
from ragmetrics_core.data import (
    PROJECT_FILE,
    JudgeUnavailable,
    ProjectSettings,
    SampleResult,
    SettingError,
    project_settings,
)
from ragmetrics_core.data.trust import make_printable
from ragmetrics_core.engine.dry_run import estimate, needed
from ragmetrics_core.engine.evaluation import report_of
from ragmetrics_core.engine.run import Run, stream
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import full_name, metrics_with_settings
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.page.first_screen import FirstScreen, ScreenTally
from ragmetrics_core.page.render import check_page, write_page_from
from ragmetrics_core.reporting.gates import Gate, UntilDecided, decide, parse_gate
from ragmetrics_core.reporting.pairing import KeysSought
from ragmetrics_core.reporting.report import Folded, JsonlWriter
from ragmetrics_core.reporting.run_facts import Decision, RunFacts
from ragmetrics_core.reporting.summary import Summary, Tally
from ragmetrics_core.reporting.tables import markdown
from ragmetrics_core.traces.dialects import DIALECTS

_EXIT_CODES = (
    "Exit codes: 0 all well; 1 a gate failed or nothing was scored; 2 bad input, or a"
    " judge that cannot be used; 3 a gate is undecided; 4 batches are on their way; 130"
    " interrupted, what was done is written."
)
_WAITS_FOR_BATCHES = 4  # exit codes, as _EXIT_CODES explains them
_INTERRUPTED = 130
_LIMITS = "a cap that is reached ends the run with what is done until then"
_UNTIL = ("alpha", "seed", "max_samples", "against", "margin")
_UNHELD = "{}: a dry run judges nothing."


def add_to(commands: Any) -> None:
    """Add the command ``evaluate``, with its options.

    Args:
        commands: The commands of the command line (argparse), to which it is added.
    """
    parser = command(commands, "evaluate", _run, epilog=_EXIT_CODES)
    _add_input(parser)
    _add_metrics(parser)
    _add_output(parser)
    shared.add_clusters_of_samples(parser)
    add(
        parser,
        "--limit",
        "read at most N rows of each file",
        unit="N",
        convert=positive,
    )
    flag(parser, "--strict", "stop at the first row that is no sample")
    shared.add_calls(parser)
    _add_batches(parser)
    shared.add_settings(parser.add_argument_group("limits", _LIMITS), Limits)
    gates = shared.add_gates(parser)
    flag(
        gates,
        "--until-decided",
        "judge rows in a drawn order, and stop when the gates are decided",
    )
    shared.add_settings(
        gates, UntilDecided, only=_UNTIL, about="with --until-decided: "
    )
    # called before the command runs, to fill in options from the settings file
    parser.set_defaults(settle=settle)
    _add_columns(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    """Add what is read: files of rows, or recorded traces."""
    add(
        parser,
        "files",
        ".jsonl, .json, .csv, .tsv or .parquet",
        unit="FILE",
        convert=Path,
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
        unit="NAME",
        choices=tuple(DIALECTS),
    )
    add(
        parser,
        "--resolve",
        "of traces with ids alone: a mapping or function from ids to texts",
        unit="MODULE:NAME",
    )
    add(
        parser,
        "--context-tools",
        "of traces: tools whose text is evidence, separated by commas",
        unit="NAMES",
    )


def _add_metrics(parser: argparse.ArgumentParser) -> None:
    """Add what is measured, and by whom."""
    add(
        parser,
        "--metrics",
        "separated by commas; by default those of the four that apply; also"
        " context_sufficiency, answer_relevance, citation_quality",
        unit="NAMES",
    )
    shared.add_judge(parser)
    help_text = (
        "a setting of a metric, e.g. adherence.polls=3 or module:name.polls=3; may be"
        " repeated"
    )
    add(
        parser,
        "--set",
        help_text,
        unit="METRIC.SETTING=VALUE",
        default=[],
        action="append",
        dest="settings",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Add what is written."""
    add(
        parser,
        "--out",
        "write samples and results to this JSONL file",
        unit="FILE",
        convert=Path,
    )
    parser.set_defaults(replaces=RESULTS_MARK)
    add(parser, "--report", "write an HTML page", unit="FILE", convert=Path)
    shared.add_name(parser)


def _add_batches(parser: argparse.ArgumentParser) -> None:
    """Add that questions are asked in batches, which cost half."""
    flag(
        parser,
        "--batch",
        "ask in batches, answered within a day at half the price; the same command"
        " later goes on",
    )
    flag(parser, "--wait", "the same, and wait for the answers")


def _add_columns(parser: argparse.ArgumentParser) -> None:
    """Add where each field of a sample is, an option for each."""
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


@dataclass(frozen=True)
class _Plan:
    """What the options ask for, before anything is judged."""

    options: argparse.Namespace
    metrics: tuple[Metric, ...]
    gates: list[Gate]
    until: UntilDecided | None
    source: Source
    judge: Judge | None  # None: each metric has its own, and then the usual one

    @property
    def slices(self) -> set[str]:
        """Keys of the metadata of which each value is summed up by itself."""
        return {gate.by for gate in self.gates if gate.by}

    @property
    def how_gates_are_held(self) -> dict[str, Any]:
        """What a threshold is held against, and how many rows must be scored."""
        return {"on": self.options.gate, "min_scored": self.options.min_scored}


class _Measured:
    """What is counted while a run goes on.

    Results themselves are kept for a page only.
    """

    def __init__(self, plan: _Plan, run: Run) -> None:
        self.run = run
        cluster = plan.options.cluster
        names = [metric.name for metric in plan.metrics]
        self.tally = Tally(names, cluster=cluster, slices=plan.slices)
        self.screen_tally = ScreenTally(cluster)
        self.kept_results = Folded() if plan.options.report else None

    @property
    def reasons(self) -> dict[str, str]:
        """Of each metric that was undefined somewhere the first reason."""
        tallies = self.tally.metrics.items()
        return {
            name: tally.first_undefined_reason
            for name, tally in tallies
            if tally.first_undefined_reason
        }

    def take(self, result: SampleResult, writer: JsonlWriter | None) -> None:
        """Count a result; it is on disk first."""
        if writer is not None:
            writer.write(result)
        self.tally.add(result)
        self.screen_tally.add(result)
        if self.kept_results is not None:
            self.kept_results.append(result)


def _run(options: argparse.Namespace) -> int:
    """Evaluate the samples of files, and say by the exit code what the gates decide.

    With ``--dry-run`` the calls are only counted. With ``--batch`` the run ends as soon
    as its questions are sent, with exit code 4; with ``--wait`` it waits for the
    answers and judges anew with them.

    Returns:
        The exit code.
    """
    holds_gate = bool(options.fail_under or options.against)
    shared.settle_gates(options, "--fail-under", holds_gate=holds_gate)
    if options.progress is False:
        logging.getLogger("ragmetrics_core").setLevel(logging.WARNING)
    plan = _make_plan(options)
    if options.dry_run:
        return _dry_run(plan)
    if options.report:
        check_page(options.report)
    budget = Budget(shared.settings_from(options, Limits))
    measured = _measure(plan, budget)
    while measured.run.waiting:  # batches are on their way
        # it may if answers are there, for which ``wait`` waits, or if little is left
        may_run_again = measured.run.runs_again(wait=options.wait)
        if not may_run_again:
            show(measured.run.stopped)
            return _WAITS_FOR_BATCHES
        plan = _make_plan(options)  # its source is read from the start once more
        measured = _measure(plan, budget)
    return _finish(plan, measured)


def _make_plan(options: argparse.Namespace) -> _Plan:
    """Make of the options what a run needs: metrics, gates, samples and a judge.

    The judge is None if no option names one: then each metric has its own.
    """
    names = None if options.metrics is None else options.metrics.split(",")
    metrics = metrics_with_settings(names, options.settings)
    metric_names = [metric.name for metric in metrics]
    gates = [parse_gate(text, metric_names) for text in options.fail_under]
    until = _until(options)
    keys_of_slices = {gate.by for gate in gates if gate.by}
    source = Source(options, KeysSought(keys_of_slices, options.cluster))
    is_judge_named = bool(options.judge or options.api_base or options.api_key_env)
    judge = None
    if is_judge_named:
        judge = shared.judge_from(options.judge, options)
    return _Plan(options, tuple(metrics), gates, until, source, judge)


def _dry_run(plan: _Plan) -> int:
    """Print how many calls a run would take; nothing is asked and no gate is decided.

    Returns:
        The exit code. It is that of undecided gates; 2 if no metric applies to any
        sample, and then the reason is printed.
    """
    counted = estimate(plan.source, plan.metrics, plan.judge)
    plan.source.keys.check()
    undecided = [
        Decision(metric=gate.metric, outcome="undecided", sentence=_UNHELD.format(gate))
        for gate in plan.gates
    ]
    # how many rows each gate would take, which is not known without any sample
    gates_to_plan = plan.gates if counted.samples else ()
    until = plan.until or UntilDecided(**plan.how_gates_are_held)
    lines_on_rows_needed = needed(counted, gates_to_plan, until)
    text = counted.text(live=plan.options.max_live)
    show("\n".join([text, *lines_on_rows_needed, *map(str, undecided)]))
    # ``left_out``: for each metric that applies to no sample, why it does not
    does_any_metric_apply = len(counted.left_out) < len(plan.metrics)
    if counted.samples and does_any_metric_apply:
        return shared.exit_code(undecided, plan.options)
    plan.source.say_why_idle(counted.left_out)
    return BAD_INPUT


def _measure(plan: _Plan, budget: Budget) -> _Measured:
    """Judge and count every sample, as far as the run goes.

    Results are written to ``--out`` as they come. A run that is interrupted or stopped
    by a limit keeps what it has; where its results stand is printed.

    Args:
        plan: What the options ask for.
        budget: The limits on calls and costs, which several runs may share.

    Raises:
        JudgeUnavailable: If the judge cannot answer any question.
    """
    options = plan.options
    run = Run(
        plan.metrics,
        plan.judge,
        concurrency=options.concurrency,
        store=shared.store(options),
        limits=budget,
        until=plan.until,
        gates=plan.gates if plan.until else (),
        batch=options.batch or options.wait,
    )
    run.check_prices()
    measured = _Measured(plan, run)
    writer = None
    if options.out:
        writer = JsonlWriter(options.out, _facts(plan, run))
    try:
        with writer or nullcontext():
            _judge_all(plan, measured, writer)
    except JudgeUnavailable as error:
        raise JudgeUnavailable(f"the judge cannot be used: {error}") from None
    except KeyboardInterrupt:  # a second one, while the first was handled
        run.interrupted = True
    finally:
        if writer is not None:
            _tell_what_is_left(writer, options.out, run)
    return measured


def _judge_all(plan: _Plan, measured: _Measured, writer: JsonlWriter | None) -> None:
    """Judge every sample; each result is counted, and on disk as soon as it is known.

    After an interrupt the results that are known already are taken as well.

    Args:
        plan: What the options ask for.
        measured: Counts the results.
        writer: Writes them to a file, which it closes at the end; None without one. A
            run whose batches are on their way leaves the file open.
    """
    run = measured.run
    # a run until decided draws an order, so it must know the number of rows
    must_count = run.decider is not None
    rows = plan.source.count_samples(always=must_count)
    run.why_part = plan.source.why_part
    results = stream(run, rows, progress=plan.options.progress, columns={})
    try:
        for result in results:
            measured.take(result, writer)
    # Raised where a result was being taken. The stream itself handles an interrupt that
    # comes while it waits for a result: it ends, and nothing is raised.
    except KeyboardInterrupt:
        for result in run.interrupt():
            measured.take(result, writer)
    if writer is not None and not run.waiting:
        writer.close(_facts(plan, run))


def _facts(plan: _Plan, run: Run) -> RunFacts:
    """The facts of the run with the files that it reads and the name of the user's."""
    facts = plan.source.described(run.facts)
    return facts.model_copy(update={"name": plan.options.name or ""})


def _tell_what_is_left(writer: JsonlWriter, out: Path, run: Run) -> None:
    """Say where the results of a run stand that did not end."""
    if writer.left is None or not writer.left.is_file():
        return
    if run.parking:  # the run that has all answers writes them anew
        writer.left.unlink()
        return
    sentence = (
        f"ragmetrics: {out} is as it was; what was judged stands in {writer.left}"
    )
    print(sentence, file=sys.stderr)


def _finish(plan: _Plan, measured: _Measured) -> int:
    """End a run: decide the gates, write summary and page, print the first screen.

    The first screen is what a person should see first. A summary of the CI job that
    cannot be written is an error, which is raised after the screen is printed.

    Returns:
        The exit code.
    """
    options = plan.options
    run = measured.run
    facts = _facts(plan, run)
    summary = measured.tally.summary(run=facts)
    # a run until decided has decided its gates already
    decisions = facts.decisions or [
        decide(gate, summary, **plan.how_gates_are_held) for gate in plan.gates
    ]
    shown_summary = _only_metrics_that_apply(summary, options)
    exit_code = _exit_code(plan, run, summary, decisions)
    summary_failure = None
    if not run.interrupted:
        text = markdown(shown_summary, facts, decisions, exit_code)
        summary_failure = shared.summary_failure(options, text)
    if summary_failure:
        exit_code = BAD_INPUT
    screen = measured.screen_tally.screen(
        shown_summary, facts, decisions, exit_code=exit_code
    )
    _write_page(plan, measured, screen, shown_summary, facts)
    lines = _closing_lines(plan, measured, summary, shown_summary, screen, facts)
    if lines:
        show("\n".join(lines))
    if summary_failure:
        raise summary_failure
    _say_why_nothing_was_scored(plan, measured, summary)
    return exit_code


def _write_page(
    plan: _Plan,
    measured: _Measured,
    screen: FirstScreen,
    shown_summary: Summary,
    facts: RunFacts,
) -> None:
    """Write the page where one is asked for; the summary is of metrics that apply."""
    if measured.kept_results is None:
        return
    options = plan.options
    report = report_of(
        measured.run, measured.kept_results, asked=options.metrics is not None
    )
    facts_of_files = {"inputs": facts.inputs, "name": facts.name}
    page_facts = report.run.model_copy(update=facts_of_files)
    write_page_from(screen, options.report, report.results, shown_summary, page_facts)


def _exit_code(
    plan: _Plan, run: Run, summary: Summary, decisions: Sequence[Decision]
) -> int:
    """The exit code that the run and its gates lead to."""
    if run.interrupted:
        return _INTERRUPTED
    if any(metric.count for metric in summary.metrics):
        return shared.exit_code(decisions, plan.options)
    return 1 if _was_judged(summary) else BAD_INPUT


def _was_judged(summary: Summary) -> bool:
    """Whether a metric applies to some row, with or without a score."""
    return any(
        metric.count or metric.failed or metric.not_judged for metric in summary.metrics
    )


def _say_why_nothing_was_scored(
    plan: _Plan, measured: _Measured, summary: Summary
) -> None:
    """Say it on standard error, and that the run was interrupted; else nothing."""
    if measured.run.interrupted:
        sentence = "ragmetrics: interrupted; what was done is counted above"
        print(sentence, file=sys.stderr)
    elif not _was_judged(summary):
        plan.source.say_why_idle(measured.reasons)
    elif not any(metric.count for metric in summary.metrics):
        print("ragmetrics: nothing was scored", file=sys.stderr)


def _closing_lines(
    plan: _Plan,
    measured: _Measured,
    summary: Summary,
    shown_summary: Summary,
    screen: FirstScreen,
    facts: RunFacts,
) -> list[str]:
    """What is printed at the end of a run, line by line.

    First come the numbers, what was left out and what it cost; then the files that were
    written; then the rows to look at and what to do next.

    Args:
        plan: What the options ask for.
        measured: What was counted.
        summary: The numbers of all metrics.
        shown_summary: The numbers of those that apply to some row.
        screen: What a person should see first.
        facts: The facts of the run.
    """
    options = plan.options
    is_interrupted = measured.run.interrupted
    has_numbers = bool(shown_summary.metrics)
    lines = []
    if has_numbers:
        lines += screen_lines(screen, shown_summary, facts)
        lines += _lines_on_left_out_metrics(summary, shown_summary, measured.reasons)
        lines += plan.source.remarks
        seconds = f"{facts.seconds:.1f} s"
        lines.append(f"Spent: {shared.spent(summary.usage)}; {seconds}")
    if options.out and not is_interrupted:
        lines.append(f"Samples and results: {options.out}")
    if options.report:
        lines.append(f"Report: {options.report}")
    if has_numbers and not is_interrupted:
        lines += lines_on_rows(screen.to_look_at)
        if screen.worst:
            lines.append(next_command(options.out, options.report))
    return lines


def _lines_on_left_out_metrics(
    summary: Summary, shown_summary: Summary, reasons: Mapping[str, str]
) -> list[str]:
    """Of each metric that is not shown why it is not."""
    lines = []
    for numbers in summary.metrics:
        if numbers in shown_summary.metrics:
            continue
        why = f"undefined on every row ({reasons.get(numbers.metric, 'no samples')})"
        if numbers.not_judged and not numbers.undefined:
            why = "judged on no row before the run ended"
        lines.append(f"{numbers.metric} left out: {why}")
    return lines


def _only_metrics_that_apply(summary: Summary, options: argparse.Namespace) -> Summary:
    """The summary without metrics that nobody named and that applied to no row."""
    if options.metrics is not None:
        return summary
    applicable = tuple(
        numbers for numbers in summary.metrics if numbers.count or numbers.failed
    )
    return summary.model_copy(update={"metrics": applicable})


def _until(options: argparse.Namespace) -> UntilDecided | None:
    """How the run stops, if it is to; None if every row is to be judged."""
    settings = {
        name: value for name in _UNTIL if (value := getattr(options, name)) is not None
    }
    if not options.until_decided:
        if settings:
            raise SettingError(
                f"--{next(iter(settings)).replace('_', '-')} belongs to --until-decided"
            )
        return None
    return UntilDecided(
        on=options.gate,
        min_scored=options.min_scored,
        cluster=options.cluster,
        **settings,
    )


def settle(options: argparse.Namespace) -> None:
    """Fill in options that were not typed from the settings file of the project.

    The file stands in the working directory. What was typed counts before it.

    Raises:
        SettingError: If the file names code, which a dry run does not import; if a key
            was named that would go to an address of the file; or if the file names the
            column of a field that samples do not have.
    """
    # ``decided``: the settings that were typed, of which the file decides nothing
    file_settings = project_settings(Path.cwd(), decided=_settings_of_options(options))
    if file_settings != ProjectSettings():
        logging.getLogger("ragmetrics_core").info(
            "settings are taken from %s", PROJECT_FILE
        )
    if options.dry_run and file_settings.code:
        raise SettingError(
            f"{PROJECT_FILE} names code of its folder, which a dry run does not import:"
            " leave out --dry-run, or choose with --judge and --metrics yourself"
        )
    if file_settings.api_base and options.api_key_env:
        raise SettingError(
            f"no key goes to an address of {PROJECT_FILE}: name it with --api-base"
            " beside --api-key-env"
        )
    for name, value in _options_of_file(file_settings).items():
        if name not in options:  # samples have no such field, so there is no option
            field_name = make_printable(name.removesuffix("_column"))
            raise SettingError(
                f"{PROJECT_FILE} names the column of {field_name}, which samples lack"
            )
        was_typed = getattr(options, name) is not None
        if not was_typed:
            setattr(options, name, value)
    if not options.fail_under:
        options.fail_under = _gates_to_hold(
            file_settings.gates, options.metrics, metrics_of_file=file_settings.metrics
        )


def _options_of_file(file_settings: ProjectSettings) -> dict[str, Any]:
    """What a settings file chooses, by option, in the form of what is typed."""
    options: dict[str, Any] = {
        "metrics": None,
        "store": None,
        "judge": file_settings.judge,
        "api_base": file_settings.api_base,
    }
    if file_settings.metrics:
        options["metrics"] = ",".join(file_settings.metrics)
    if file_settings.store:
        options["store"] = Path(file_settings.store)
    for field_name, column in file_settings.columns.items():
        options[f"{field_name}_column"] = column
    return options


def _gates_to_hold(
    gates: Sequence[str],
    metrics: str | None,
    *,
    metrics_of_file: Sequence[str] | None,
) -> list[str]:
    """Choose the gates of the settings file that are to be held.

    A gate is left out if the command line names metrics without that of the gate; a
    warning says so. If the file itself names metrics without it, the gate stays, and is
    refused later like one on the command line.

    Args:
        gates: The gates of the file, such as "adherence=0.8".
        metrics: The metrics of the run, separated by commas; None for the usual ones.
        metrics_of_file: The metrics that the file names; None if it names none.
    """
    are_metrics_of_file = False
    if metrics_of_file is not None:
        # where none were typed, those of the file were taken, in this form
        are_metrics_of_file = metrics == ",".join(metrics_of_file)
    if metrics is None or are_metrics_of_file:
        return list(gates)
    names_measured = [_metric_name(name) for name in metrics.split(",")]
    held_gates = []
    for gate in gates:
        name = _metric_name(gate.partition("=")[0])
        # None: no shipped metric, so one of the user's own; it is looked up later
        # among all that are measured
        if name is None or name in names_measured:
            held_gates.append(gate)
        else:
            logging.getLogger("ragmetrics_core").warning(
                "the gate %s of %s is not held: --metrics leaves its metric out",
                gate,
                PROJECT_FILE,
            )
    return held_gates


def _metric_name(name: str) -> str | None:
    """The full name of a shipped metric; None for any other."""
    try:
        return full_name(name)
    except SettingError:
        return None


def _settings_of_options(options: argparse.Namespace) -> list[str]:
    """The settings that options decide, whatever a file says of them."""
    decided = [
        name
        for name in ("metrics", "judge", "api_base", "store")
        if getattr(options, name) is not None
    ]
    return [*decided, "store"] if options.no_store else decided
