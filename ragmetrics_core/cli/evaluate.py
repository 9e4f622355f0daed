"""``ragmetrics evaluate``, which scores the rows of files.

It writes the results, and decides gates by the means.
"""

import argparse
import logging
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from ragmetrics_core.cli import chosen_judges
from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.options import BAD_INPUT
from ragmetrics_core.cli.printing import explain_lines, next_command, show, show_screen
from ragmetrics_core.cli.run_folders import (
    folder_of_run,
    keep_results,
    tidy,
    unless_unasked,
)
from ragmetrics_core.cli.source import Source
from ragmetrics_core.data import JudgeUnavailable, SampleResult, SettingError
from ragmetrics_core.data.display import judge_of_this_machine
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.project_file import (
    PROJECT_FILE,
    ProjectSettings,
    project_settings,
)
from ragmetrics_core.engine.run import Run, stream
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import full_name, metrics_with_settings
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.page.render import write_page
from ragmetrics_core.reporting.answering import answerings_of
from ragmetrics_core.reporting.gates import Gate, parse_gate
from ragmetrics_core.reporting.glance import Glance, GlanceTally
from ragmetrics_core.reporting.groups import KeysSought
from ragmetrics_core.reporting.report import JsonlWriter, Report
from ragmetrics_core.reporting.run_facts import Decision, RunFacts
from ragmetrics_core.reporting.screen import screen_lines
from ragmetrics_core.reporting.summary import Summary, Tally
from ragmetrics_core.reporting.tables import markdown

# Exit codes, as the help explains them.
_WAITS_FOR_BATCHES = 4
_INTERRUPTED = 130
# Why a metric is undefined where the row lacks what it needs.
_LACKING = {"missing", "undivided"}
# The sentence on a gate in a dry run.
_UNDECIDED = "{}: a dry run judges nothing."


@dataclass(frozen=True)
class _Plan:
    """What a run needs, as the options ask for it; nothing is judged yet.

    Args:
        options: What was typed.
        metrics: The metrics.
        gates: Means that must be reached, e.g. adherence=0.8.
        slices: Keys of the metadata: the samples with each value are also summed up
            alone.
        source: The samples.
        judge: The judge of all metrics; None for each metric's own, else the usual one.
    """

    options: argparse.Namespace
    metrics: tuple[Metric, ...]
    gates: list[Gate]
    slices: set[str]
    source: Source
    judge: Judge | None


class _Measured:
    """Counts the results of a run while it goes on; keeps them for a page only."""

    def __init__(self, plan: _Plan, run: Run) -> None:
        self.run = run
        self.options = plan.options
        self.outputs = shared.Outputs()
        cluster = plan.options.cluster
        names = [metric.name for metric in plan.metrics]
        self.score_tally = Tally(names, cluster=cluster, slices=plan.slices)
        self.glance_tally = GlanceTally(cluster)  # for the first screen
        self.kept_results: list[SampleResult] | None = None
        if plan.options.report:
            self.kept_results = []

    @property
    def applies(self) -> bool:
        """Whether some row has what a metric needs, also if it got no score.

        So it is where all answers decline.
        """
        return any(
            tally.scores
            or tally.n_failed_by_type
            or tally.n_not_judged
            or tally.n_undefined_by_code.keys() - _LACKING
            for tally in self.score_tally.metrics.values()
        )

    @property
    def is_bad_input(self) -> bool:
        """Whether no metric applies to a row of a run that came to its end."""
        return not (self.applies or self.run.interrupted or self.run.stopped)

    def take(self, result: SampleResult, writer: JsonlWriter | None) -> None:
        """Write a result to the file, if there is one, and then count it."""
        if writer is not None and self.options.out:
            with unless_unasked(self.options, "out"):
                writer.write(result)
        self.score_tally.add(result)
        self.glance_tally.add(result)
        if self.kept_results is not None:
            self.kept_results.append(result)


def run(options: argparse.Namespace) -> int:
    """Evaluate the samples of files, and return an exit code that says how the gates end.

    - With ``--dry-run`` the calls are only counted.
    - With ``--batch`` the run ends as soon as its questions are submitted, with exit
      code 4. The same command later takes in the answers.
    - With ``--wait`` it waits for the answers, and judges again with them.

    Example: the gate "adherence=0.8" passes: exit code 0.

    Returns:
        The exit code.
    """
    if options.progress is False:
        logging.getLogger("ragmetrics_core").setLevel(logging.WARNING)
    if options.dry_run:
        return _dry_run(_make_plan(options))
    folder = folder_of_run(options)
    try:
        plan = _make_plan(options)
        budget = Budget(shared.settings_from(options, Limits))
        measured = _measure(plan, budget)
        while measured.run.has_unanswered_batches:
            if not measured.run.is_ready_for_next_pass(wait_for_batches=options.wait):
                show(measured.run.stopped)
                return _WAITS_FOR_BATCHES
            plan = _make_plan(options)  # a new plan reads the files from their start
            measured = _measure(plan, budget)
        exit_code = _finish(plan, measured)
        is_whole = exit_code not in (_INTERRUPTED, BAD_INPUT)
        if folder is not None and is_whole:
            # so ``ragmetrics compare`` finds the last two runs
            keep_results(folder, options.out)
        return exit_code
    finally:
        tidy(folder)


def _make_plan(options: argparse.Namespace) -> _Plan:
    """Make the plan of a run from the options: metrics, gates, samples and judge.

    Example: ``--metrics context_adherence --fail-under context_adherence=0.8``: a plan
    with one metric and one gate.

    Raises:
        SettingError: If an option is invalid.
        InputError: If a file cannot be read.
    """
    names = None if options.metrics is None else options.metrics.split(",")
    metrics = metrics_with_settings(names, options.settings, options.criteria)
    metric_names = [metric.name for metric in metrics]
    gates = [parse_gate(text, metric_names) for text in options.fail_under]
    # A gate such as adherence=0.8@language is decided for each language by itself: its
    # ``by`` is "language", a key of the metadata. The source refuses a key that no
    # sample has.
    slices = {gate.by for gate in gates if gate.by}
    source = Source(options, KeysSought(slices, options.cluster))
    judge = None  # each metric's own
    if options.judge or options.api_base or options.api_key_env or options.timeout:
        judge = chosen_judges.judge_from(options.judge, options)
    return _Plan(options, tuple(metrics), gates, slices, source, judge)


def _dry_run(plan: _Plan) -> int:
    """Print how many calls a run would take; nothing is asked and no gate is decided.

    Example: 100 samples, one call each, and the gate "adherence=0.8": "100 calls", and
    that the gate is undecided.

    Returns:
        The exit code: that of undecided gates, or 2 if the run could score nothing.
    """
    # This also reads all samples, and notes the keys of their metadata.
    estimated = estimate(plan.source, plan.metrics, plan.judge)
    # Refuses a key of a slice or cluster that no sample has.
    plan.source.keys.check()
    undecided = [
        Decision(
            metric=gate.metric, outcome="undecided", sentence=_UNDECIDED.format(gate)
        )
        for gate in plan.gates
    ]
    show(*estimated.text().splitlines(), *map(str, undecided))
    if any(failure.is_crash for failure in estimated.failing.values()):
        return BAD_INPUT  # the lines above name the metric that crashes
    # ``left_out`` holds the metrics that apply to no sample.
    does_any_metric_apply = len(estimated.left_out) < len(plan.metrics)
    if not estimated.samples or not does_any_metric_apply:
        plan.source.say_why_idle(estimated.left_out)
        return BAD_INPUT
    return shared.exit_code(undecided)


def _measure(plan: _Plan, budget: Budget) -> _Measured:
    """Judge and count the samples until all are done, or the run is ended.

    Results are written as they come to a file beside ``--out``, which takes the place
    of ``--out`` at the end. If an interrupt or an error ends the run before,
    ``--out`` stays as it was, and a line names the file with the results. Example:
    Ctrl-C with ``--out run.jsonl``: the results so far are in ``run.jsonl.partial``.

    Args:
        plan: What the run needs.
        budget: The limits on calls and costs. A command that runs again for its batches
            has one budget for all of its runs.

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
        batch=options.batch or options.wait,  # --wait is --batch that waits
    )
    run.check_prices()
    measured = _Measured(plan, run)
    writer = None
    if options.out:
        with unless_unasked(options, "out"):
            writer = JsonlWriter(options.out, _facts(plan, run))
    try:
        with writer or nullcontext():
            _judge_all(plan, measured, writer)
    except JudgeUnavailable as error:
        raise JudgeUnavailable(f"the judge cannot be used: {error}") from None
    except KeyboardInterrupt:  # a second one, while the first was handled
        run.interrupted = True
    finally:
        left = None if writer is None else writer.left
        if left is not None and left.is_file():
            # Stored answers make the results again; rows that lack input make none.
            if run.batch_store or measured.is_bad_input:
                left.unlink()
            else:
                is_there = Path(options.out).exists()
                kept = f"{options.out} is as it was; " if is_there else ""
                sentence = f"ragmetrics: {kept}what was judged stands in {left}"
                print(sentence, file=sys.stderr)
    return measured


def _judge_all(plan: _Plan, measured: _Measured, writer: JsonlWriter | None) -> None:
    """Judge every sample; count each result, and write it as soon as it is known.

    Example: Ctrl-C after 40 of 100 samples: the 40 results are counted and written.
    """
    run = measured.run
    samples = plan.source.count_samples()
    # An input file may hold the results of an earlier run. If that run did not judge
    # all of its samples, this run's facts say why, such as "it was interrupted".
    run.why_part = plan.source.why_part
    # No column is named here: the source has made the samples of the columns.
    results = stream(run, samples, progress=plan.options.progress, columns={})
    try:
        for result in results:
            measured.take(result, writer)
    except KeyboardInterrupt:
        # It came while a result was taken; the iterator handles one that comes later.
        for result in run.interrupt():
            measured.take(result, writer)
    is_done = not run.has_unanswered_batches and not measured.is_bad_input
    if writer is not None and plan.options.out and is_done:
        with measured.outputs.written(), unless_unasked(plan.options, "out"):
            writer.close(_facts(plan, run))


def _facts(plan: _Plan, run: Run) -> RunFacts:
    """Return the facts of the run, with its input files and the name given to it."""
    facts = plan.source.described(run.facts)
    return facts.model_copy(update={"name": plan.options.name or ""})


def _finish(plan: _Plan, measured: _Measured) -> int:
    """End a run: decide the gates, write page and job summary, print the first screen.

    The first screen is what a person sees first: means, gates, faults. Example: a gate
    of .8 and a mean of .75: the screen and the exit code say it failed. Of bad input
    nothing is written, so that earlier files stay.

    Returns:
        The exit code.

    Raises:
        InputError: If results, page or the summary for the CI job were not written.
    """
    run, options = measured.run, plan.options
    if measured.is_bad_input:
        reasons = {
            name: tally.first_undefined_reason
            for name, tally in measured.score_tally.metrics.items()
            if tally.first_undefined_reason
        }
        plan.source.say_why_idle(reasons)
        return BAD_INPUT
    facts = _facts(plan, run)
    summary = measured.score_tally.summary(run=facts)
    decisions = shared.decide_gates(plan.gates, summary, options)
    if run.interrupted:
        exit_code = _INTERRUPTED
    else:
        exit_code = shared.exit_code_of_run(summary, decisions)
    glance = measured.glance_tally.glance(summary, facts, decisions)

    # The files come first: the screen names the exit code if one cannot be written.
    outputs = measured.outputs
    if measured.kept_results is not None and options.report:
        report = Report(measured.kept_results, facts)
        with outputs.written(), unless_unasked(options, "report"):
            write_page(options.report, report.results, summary, facts, glance)
    exit_code = outputs.exit_code(exit_code)
    if not run.interrupted:  # else the numbers are of a part of the samples
        with outputs.written():
            text = markdown(summary, facts, glance, exit_code)
            shared.write_job_summary(options, text)
    exit_code = outputs.exit_code(exit_code)

    if measured.applies:
        _show(plan, measured, glance, summary, exit_code)
    elif options.report:
        show(f"page   {options.report}")

    # why nothing, or not everything, was scored
    sentence = ""
    if run.interrupted:
        sentence = "interrupted; what was done is counted above"
    elif not measured.applies:
        sentence = f"nothing was scored: {run.stopped}"
    elif not any(metric.count for metric in summary.metrics):
        sentence = "nothing was scored"
    if sentence:
        print(f"ragmetrics: {sentence}", file=sys.stderr)
    outputs.end()
    return exit_code


def _show(
    plan: _Plan, measured: _Measured, glance: Glance, summary: Summary, exit_code: int
) -> None:
    """Print the first screen, and with ``--explain`` what stands behind it."""
    options = plan.options
    results = None if measured.run.interrupted else options.out
    next_step = next_command(results, failed=glance.outcome == "failed")
    judge = judge_of_this_machine() if glance.by_words else ""
    if judge and not plan.gates:
        files = shlex.join(map(str, options.files))
        next_step = f"ragmetrics evaluate {files} --judge {judge}"
    lines = screen_lines(
        glance,
        page=str(options.report or ""),
        next_command=next_step,
        exit_code=exit_code,
    )
    if options.explain:
        # the table of answered and declined questions, where rows were kept
        tables = map(str, answerings_of(measured.kept_results or (), summary))
        remarks = [
            *plan.source.remarks,
            *(line for table in tables for line in table.splitlines()),
            f"Spent: {shared.spent(summary.usage)}; {glance.seconds:.1f} s",
        ]
        lines += explain_lines(glance, summary, _facts(plan, measured.run), remarks)
    show_screen(lines)


def fill_in(options: argparse.Namespace) -> None:
    """Fill in, from the settings file of the project, options that were not typed.

    The file is in the working directory. Example: ``judge = "lexical"`` in the file
    counts unless ``--judge`` is typed.

    Raises:
        SettingError: If the file chooses what it may not choose.
    """
    # Of judge, metrics, address and store the file's value is not even read if one was
    # typed, so that a mistake there does not matter.
    settings_not_read = [
        name
        for name in ("metrics", "judge", "api_base", "store")
        if getattr(options, name) is not None
    ]
    if options.no_store:  # this decides the store as well
        settings_not_read.append("store")
    file_settings = project_settings(Path.cwd(), settings_not_read=settings_not_read)
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
    metrics_typed = options.metrics  # kept, since the loop may set options.metrics
    metrics, store = file_settings.metrics, file_settings.store
    columns = file_settings.columns.items()
    options_of_file = {
        "metrics": ",".join(metrics) if metrics else None,
        "store": Path(store) if store else None,
        "judge": file_settings.judge,
        "api_base": file_settings.api_base,
        **{f"{field}_column": column for field, column in columns},
    }
    for name, value in options_of_file.items():
        if name not in options:
            raise SettingError(
                f"{PROJECT_FILE} names the column of {name.removesuffix('_column')},"
                " which only Python and pytest take"
            )
        # Columns are always read. If --answer-column was typed, the file's is passed over.
        was_typed = getattr(options, name) is not None
        if not was_typed:
            setattr(options, name, value)
    options.criteria = options.criteria or file_settings.criteria
    if not options.fail_under:
        # Of the file's gates only those on metrics that were typed, if any were.
        options.fail_under = _gates_to_decide(file_settings.gates, metrics_typed)


def _gates_to_decide(gates: Sequence[str], metrics_typed: str | None) -> list[str]:
    """Choose the gates of the settings file that the run holds.

    If ``--metrics`` was typed, gates on other metrics are dropped, each with a warning.
    If it was not typed, all gates are decided. Example: the file has "adherence=0.8"
    and "recall=0.7", and ``--metrics adherence`` was typed: only the first is held.

    Args:
        gates: The gates of the file, such as "adherence=0.8".
        metrics_typed: The metrics that were typed, separated by commas; None if none
            were.
    """
    if metrics_typed is None:
        return list(gates)
    names_measured = [_metric_name(name) for name in metrics_typed.split(",")]
    held_gates = []
    for gate in gates:
        name = _metric_name(gate.partition("=")[0])
        # A metric of the user's own (None) is not known here. Its gate is held, and
        # refused later if the metric is not measured.
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
    """Return the full name of a shipped metric; None for any other metric."""
    try:
        return full_name(name)
    except SettingError:
        return None
