"""``ragmetrics evaluate``, which scores the rows of files.

It writes the results, and decides gates by the means. ``Source`` reads the samples of
all files, and notes what is wrong with each.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ragmetrics_core.cli import chosen_judges
from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.options import BAD_INPUT
from ragmetrics_core.cli.parsers import COLUMNS
from ragmetrics_core.cli.printing import explain_lines, next_command, show, show_screen
from ragmetrics_core.cli.run_folders import (
    folder_of_run,
    keep_results,
    tidy,
    unless_unasked,
)
from ragmetrics_core.data import (
    InputError,
    JudgeUnavailable,
    RowError,
    Sample,
    SampleResult,
    SettingError,
    as_input_error,
    import_named_object,
    names_in_words,
)
from ragmetrics_core.data.display import as_line, judge_of_this_machine
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.project_file import (
    PROJECT_FILE,
    ProjectSettings,
    project_settings,
)
from ragmetrics_core.engine.row_files import (
    check_readable,
    read_samples,
    reason_of_part,
)
from ragmetrics_core.engine.run import Run, stream
from ragmetrics_core.engine.sample_sources import ColumnsRead
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import full_name, metrics_with_settings
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.page.render import write_page
from ragmetrics_core.reporting.answering import answerings_of
from ragmetrics_core.reporting.gates import Gate, parse_gate
from ragmetrics_core.reporting.glance import Glance, GlanceTally
from ragmetrics_core.reporting.groups import KeysSought
from ragmetrics_core.reporting.jsonl import JsonlWriter
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import Decision, Input, RunFacts
from ragmetrics_core.reporting.screen import screen_lines
from ragmetrics_core.reporting.summary import Summary, Tally
from ragmetrics_core.reporting.tables import markdown

if TYPE_CHECKING:
    from ragmetrics_core.traces import SpanSamples

# Exit codes, as the help explains them.
_WAITS_FOR_BATCHES = 4
_INTERRUPTED = 130
# Why a metric is undefined where the row lacks what it needs.
_LACKING = {"missing", "undivided"}
# The sentence on a gate in a dry run.
_UNDECIDED = "{}: a dry run judges nothing."
_SHOWN_PROBLEMS = 5
_SHOWN_COLUMNS = 12
_TABLE_SUFFIXES = (".csv", ".tsv")


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


def _no_rows(path: Path) -> str:
    """Return the sentence that a file is empty, and what to do."""
    return (
        f"{path} holds no rows: write it again with a sample on each, or leave it out"
    )


@dataclass
class _File:
    """What is known of an input file so far.

    Attributes:
        path: The file.
        rows: How many rows were read.
        bad: How many of them are no samples.
        counted: How many rows it held at first; None until they are counted. What was
            appended since is left out.
        at_first: The digest of its bytes, and how many there were, at that time; None
            if they were not counted.
        is_read_to_its_end: Whether all of its rows were read.
        columns_read: Notes which columns the fields were read from.
        notes: Sentences on recorded traces that gave no sample, or no complete one.
        traces: Reads the file as recorded traces; None for a file of rows.
    """

    path: Path
    rows: int = 0
    bad: int = 0
    counted: int | None = None
    at_first: tuple[str, int] | None = None
    is_read_to_its_end: bool = False
    columns_read: ColumnsRead = field(default_factory=ColumnsRead)
    notes: list[str] = field(default_factory=list)
    traces: SpanSamples | None = None

    def digest(self, most_bytes: int = sys.maxsize) -> tuple[str, int]:
        """The digest of its first bytes, and how many they are.

        ``InputError`` if it cannot be read.
        """
        piped = self.traces and self.traces.lines.piped
        digest, n_bytes = hashlib.sha256(), 0
        with (
            as_input_error(f"{self.path} cannot be read"),
            nullcontext(piped) if piped else self.path.open("rb") as file,
        ):
            file.seek(0)
            while block := file.read(min(most_bytes - n_bytes, 2**20)):
                digest.update(block)
                n_bytes += len(block)
        return digest.hexdigest(), n_bytes


class Source:
    """The samples of all input files of a command.

    Bad rows are reported on standard error, or raised with ``--stop-at-bad-row``.
    """

    def __init__(self, options: argparse.Namespace, keys: KeysSought) -> None:
        """Check the files, and prepare to read them; no row is read yet.

        Example: ``--answer-column out`` is kept as ``{"answer": "out"}``.

        Args:
            options: What was typed: the files, and how they are to be read.
            keys: Notes which of the keys for slices and clusters the samples have.

        Raises:
            InputError: If a file cannot be read, or is a table where ``--traces`` asks
                for recorded traces.
        """
        self.keys = keys
        self._limit = options.limit
        self._stops_at_bad_row = options.stop_at_bad_row
        # The columns that were named, by field of the sample.
        named = {name: getattr(options, f"{name}_column") for name in COLUMNS}
        self._columns: dict[str, str] = {
            name: column for name, column in named.items() if column is not None
        }
        self._n_rows = 0  # rows of all files; 0 until they are counted
        self._files = [_File(path) for path in options.files]
        if not options.traces:
            for path in options.files:
                check_readable(path)
            return
        for path in options.files:
            if path.suffix.casefold() in _TABLE_SUFFIXES:
                raise InputError(
                    f"{path} is a table, and --traces reads recorded traces (OTLP"
                    " JSON, Phoenix, MLflow, Langfuse, LangSmith): leave out --traces"
                )
        from ragmetrics_core.traces import samples_from_spans  # a table does without

        resolve = import_named_object(options.resolve) if options.resolve else None
        context_tools = options.context_tools and options.context_tools.split(",")
        for file in self._files:
            file.traces = samples_from_spans(
                file.path,
                resolve=resolve,
                dialect=options.dialect,
                context_tools=context_tools,
            )

    def count_samples(self) -> Self:
        """Count the rows of all files, and return the samples.

        All files are read to their ends, so that one that cannot be read is found
        before any call is paid.

        Raises:
            InputError: If a file cannot be read, holds no rows or is a copy of another,
                or no sample has a key of a slice or cluster.
            SettingError: If two columns of the first row may hold one field.
            RowError: With ``--stop-at-bad-row``, for the first row that is no sample.
        """
        self._n_rows = 0
        file_by_digest: dict[tuple[str, int], Path] = {}
        for file in self._files:
            file.at_first = file.digest()  # before its rows
            first = file_by_digest.setdefault(file.at_first, file.path)
            if first != file.path:
                raise InputError(f"{file.path} is a copy of {first}; name one of them")
            file.counted = sum(1 for _ in self._checked_rows(file))
            # notes say why a file of traces gave no sample
            if file.counted == 0 and not file.notes:
                raise InputError(_no_rows(file.path))
            self._n_rows += file.counted
        self.keys.check()
        return self

    @cached_property
    def why_part(self) -> str:
        """Which files are results of a run that did not judge all its samples, and why.

        "" if there is no such file.
        """
        paths = [file.path for file in self._files if file.traces is None]
        return "; ".join(filter(None, map(reason_of_part, paths)))

    def __len__(self) -> int:
        return self._n_rows

    def __iter__(self) -> Iterator[Sample | RowError]:
        for file in self._files:
            for row in self._checked_rows(file):
                if file.rows == file.counted:
                    continue
                file.rows += 1
                if isinstance(row, RowError):
                    file.bad += 1
                    # after a few rows of a file one line says that no more are told
                    sentence = str(row)
                    if file.bad > _SHOWN_PROBLEMS:
                        sentence = f"{file.path}: further bad rows are only counted"
                    if file.bad <= _SHOWN_PROBLEMS + 1:
                        print(f"ragmetrics: {sentence}", file=sys.stderr)
                yield row
            # it still begins with what it held at first
            if file.at_first and file.digest(file.at_first[1]) != file.at_first:
                raise InputError(
                    f"{file.path} was changed while it was read: run again when nothing"
                    " writes to it, or on a copy"
                )
            file.is_read_to_its_end = True

    def _checked_rows(self, file: _File) -> Iterator[Sample | RowError]:
        """Yield the samples of a file, and an error for each row that is none.

        With ``--stop-at-bad-row`` the first error is raised. The keys that the samples have are
        noted; at the end, so are the notes on traces.
        """
        rows: Iterable[Sample | RowError]
        if file.traces is None:
            file.columns_read = ColumnsRead(self._columns)
            rows = read_samples(file.path, file.columns_read, self._limit)
        else:
            rows = islice(file.traces.samples_and_bad_rows(), self._limit)
        for row in rows:
            if file.traces is not None and isinstance(row, RowError):
                row = RowError(f"{file.path}: {row}")
            if self._stops_at_bad_row and isinstance(row, RowError):
                raise row
            if isinstance(row, Sample):
                self.keys.look_in(row)
            yield row
        if file.traces is not None:
            sentences = file.traces.notes.sentences
            file.notes = [f"{sentence} ({file.path.name})" for sentence in sentences]

    def described(self, facts: RunFacts) -> RunFacts:
        """Return the facts of a run, with the files that it reads.

        The number of rows of a file is None until the file is read to its end.
        """
        inputs = tuple(
            Input(
                name=file.path.name,
                sha256=(file.at_first or file.digest())[0],
                rows=file.rows if file.is_read_to_its_end else None,
            )
            for file in self._files
        )
        left_out = tuple(
            f"no more than {self._limit:,} rows of {file.path.name} read, by --limit"
            for file in self._files
            if file.rows == self._limit
        )
        # fields whose column differs by row, and traces that gave no complete sample
        notes = [*facts.notes]
        for file in self._files:
            sentences = file.columns_read.sentences
            notes += [f"{sentence} ({file.path.name})" for sentence in sentences]
            notes += file.notes
        changes = {"inputs": inputs, "left_out": left_out, "notes": tuple(notes)}
        return facts.model_copy(update=changes)

    def say_why_idle(self, reasons: Mapping[str, str]) -> None:
        """Print for each file why no metric applies to its rows, and what to do.

        Example: "ragmetrics: no metric applies to rows.csv (rows: 9, bad: 0;
        context_adherence: no contexts); its columns are question, answer, chunks_found;
        name the one that holds it: --contexts-column chunks_found".

        Args:
            reasons: Why each metric is undefined, such as "no answer", by its name.
        """
        why_undefined = "".join(f"; {name}: {why}" for name, why in reasons.items())
        # a reason such as "no answer" names the field whose column was not found
        missing_fields = [name for name in COLUMNS if f"no {name}" in why_undefined]
        options = [f"--{name.replace('_', '-')}-column NAME" for name in missing_fields]
        which = "the one that holds it" if len(options) == 1 else "those that hold them"
        for file in self._files:
            columns = [*file.columns_read.columns, *file.columns_read.unread]
            hint = ""
            if columns and options:
                names = names_in_words(dict.fromkeys(columns), most=_SHOWN_COLUMNS)
                named = ", ".join(options)
                hint = f"; its columns are {names}; name {which}: {named}"
            sentence = (
                f"no metric applies to {file.path} (rows: {file.rows}, bad:"
                f" {file.bad}{why_undefined}){hint}"
            )
            if not file.rows and not file.notes:
                sentence = _no_rows(file.path)
            print(as_line(f"ragmetrics: {sentence}"), file=sys.stderr)
        for file in self._files:
            for note in file.notes:
                print(f"ragmetrics: {note}", file=sys.stderr)

    @property
    def remarks(self) -> list[str]:
        """Lines on columns that no field was made of."""
        lines = []
        for file in self._files:
            if file.columns_read.unread:
                names = names_in_words(file.columns_read.unread, most=_SHOWN_COLUMNS)
                lines.append(
                    f"{file.path}: columns that were not recognised: {names}, kept as"
                    " metadata"
                )
        return lines
