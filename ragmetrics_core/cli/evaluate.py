"""``ragmetrics evaluate``: score the rows of files, write the results, hold gates against the means."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ragmetrics_core.cli.reading import read_samples
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.evaluation import Run, stream
from ragmetrics_core.judging.resolve import resolve_judge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import METRICS, chosen, full_name, metric_named
from ragmetrics_core.model.errors import InputError, JudgeUnavailable, RowError, SettingError
from ragmetrics_core.model.results import SampleResult
from ragmetrics_core.model.sample import Sample
from ragmetrics_core.reporting.gates import Decision, decide, parse_gate
from ragmetrics_core.reporting.report import JsonlWriter
from ragmetrics_core.reporting.summary import Summary, Tally
from ragmetrics_core.reporting.tables import text_table

_COLUMNS = ("question", "contexts", "answer", "ground_truth", "retrieved", "facts", "id")
_SHOWN_PROBLEMS = 5


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("evaluate", help="score the rows of JSONL, JSON, CSV or Parquet files")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--metrics", help="names, separated by commas; by default all that apply")
    parser.add_argument("--judge", help="lexical (embedded, the default), or a LiteLLM model, e.g. gpt-4o-mini")
    parser.add_argument("--api-base", help="base URL of the judge's endpoint, e.g. http://127.0.0.1:8000/v1")
    parser.add_argument("--set", action="append", default=[], metavar="METRIC.SETTING=VALUE", dest="settings")
    parser.add_argument("--out", type=Path, help="write samples and results to this JSONL file as they come")
    parser.add_argument("--limit", type=_positive, metavar="N", help="read at most N rows of each file")
    parser.add_argument("--concurrency", type=_positive, default=32, metavar="N", help="most model calls in flight")
    parser.add_argument("--strict", action="store_true", help="stop at the first row that is no sample")
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and price, and make no call")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    gates = parser.add_argument_group("gates")
    gates.add_argument("--fail-under", action="append", default=[], metavar="METRIC=MEAN", help="e.g. adherence=0.8")
    gates.add_argument(
        "--gate", choices=("interval", "point"), default="interval", help="what the threshold is held against"
    )
    gates.add_argument("--undecided", choices=("exit3", "pass", "fail"), default="exit3")
    columns = parser.add_argument_group("columns", "found by themselves; a name or a dotted path where not")
    for name in _COLUMNS:
        columns.add_argument(f"--{name.replace('_', '-')}-column", dest=f"{name}_column", metavar="NAME")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Evaluate, print the summary, and return the exit code."""
    metrics = _metrics(options)
    gates = [parse_gate(text, names=[metric.name for metric in metrics]) for text in options.fail_under]
    judge = None
    if options.judge or options.api_base:
        judge = resolve_judge(options.judge, api_base=options.api_base)
    source = Source(options)
    if options.dry_run:
        print(estimate(source, metrics, judge).text())
        return 0
    this = Run(metrics, judge, options.concurrency, None)
    tally = Tally([metric.name for metric in metrics])
    try:
        _judge(this, source, tally, options)
    except JudgeUnavailable as error:
        raise JudgeUnavailable(f"the judge cannot be used: {error}") from None
    return _conclude(this, tally, source, options, [decide(gate, tally.summary(), on=options.gate) for gate in gates])


def _judge(this: Run, source: Source, tally: Tally, options: argparse.Namespace) -> None:
    """Judge every sample, bounded in memory; results are on disk as soon as they are known."""
    writer = JsonlWriter(options.out, this.facts) if options.out else None
    with writer or nullcontext():
        for result in stream(this, source, progress=False if options.quiet else None, columns={}):
            tally.add(result)
            source.saw(result)
            if writer is not None:
                writer.write(result)
        if writer is not None:
            writer.close(this.facts)


class Source:
    """The samples of all files, with what is wrong with each file.

    Args:
        options: The command's options.

    Raises:
        InputError: While iterating, if a file cannot be read, or with ``--strict`` a row is no sample.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.files: list[Path] = options.files
        for path in self.files:
            if not path.exists():
                raise InputError(f"{path}: no such file")
        self._limit, self._strict = options.limit, options.strict
        named = {name: getattr(options, f"{name}_column") for name in _COLUMNS}
        self._columns = {"reference" if k == "ground_truth" else k: v for k, v in named.items() if v is not None}
        self._ends: list[int] = []
        self._applied: set[Path] = set()
        self.reasons: dict[str, str] = {}
        self._bad = 0

    def __iter__(self) -> Iterator[Sample | RowError]:
        self._ends = []
        count = 0
        for path in self.files:
            for item in read_samples(path, self._columns, self._limit):
                if isinstance(item, RowError):
                    self._report(item)
                count += 1
                yield item
            self._ends.append(count)

    def _report(self, error: RowError) -> None:
        if self._strict:
            raise error
        self._bad += 1
        if self._bad <= _SHOWN_PROBLEMS:
            print(f"ragmetrics: {error}", file=sys.stderr)
        elif self._bad == _SHOWN_PROBLEMS + 1:
            print("ragmetrics: further bad rows are counted only; the results file names each", file=sys.stderr)

    def saw(self, result: SampleResult) -> None:
        """Note whether any metric applied to the result's file, and why others did not."""
        path = self.files[sum(end <= result.index for end in self._ends)]
        for name, outcome in result.results.items():
            if outcome.status == "undefined":
                self.reasons.setdefault(name, outcome.reason)
            else:
                self._applied.add(path)

    @property
    def idle(self) -> list[Path]:
        """Files to no row of which any metric applied."""
        return [path for path in self.files if path not in self._applied]


def _conclude(
    this: Run, tally: Tally, source: Source, options: argparse.Namespace, decisions: Sequence[Decision]
) -> int:
    summary = tally.summary()
    shown = _applicable(summary) if options.metrics is None else summary
    print(text_table(shown, this.facts))
    for sign in shown.all_signs:
        print(f"! {sign}")
    for metric in summary.metrics:
        if metric not in shown.metrics and summary.judged:
            print(
                f"{metric.metric} left out: undefined on every row ({source.reasons.get(metric.metric, 'no samples')})"
            )
    usage = summary.usage
    price = "price unknown" if usage.cost is None else f"${usage.cost:.4f}"
    print(f"Judge: {', '.join(this.facts.judges)}; {usage.calls} calls, {price}; {this.facts.seconds:.1f} s")
    if options.out:
        print(f"Samples and results: {options.out}")
    for decision in decisions:
        print(f"{decision.outcome}: {decision.sentence}")
    return _exit_code(this, summary, source, decisions, options.undecided)


def _applicable(summary: Summary) -> Summary:
    """Without metrics that applied to no row."""
    kept = tuple(m for m in summary.metrics if m.count or m.failed)
    return summary.model_copy(update={"metrics": kept})


def _exit_code(this: Run, summary: Summary, source: Source, decisions: Sequence[Decision], undecided: str) -> int:
    if this.interrupted:
        print("ragmetrics: interrupted; what was done is counted above", file=sys.stderr)
        return 130
    if source.idle:
        why = "; ".join(f"{name}: {reason}" for name, reason in source.reasons.items()) or "no row is a sample"
        print(f"ragmetrics: no metric applies to {', '.join(map(str, source.idle))} ({why})", file=sys.stderr)
        return 2
    outcomes = {decision.outcome for decision in decisions}
    if "failed" in outcomes or not any(metric.count for metric in summary.metrics):
        return 1
    if "undecided" in outcomes:
        return {"exit3": 3, "pass": 0, "fail": 1}[undecided]
    return 0


def _metrics(options: argparse.Namespace) -> Sequence[Metric]:
    names = options.metrics.split(",") if options.metrics else list(METRICS)
    settings: dict[str, dict[str, Any]] = {full_name(name): {} for name in names}
    for text in options.settings:
        place, equals, value = text.partition("=")
        name, dot, setting = place.partition(".")
        if not equals or not dot:
            raise SettingError(f"--set is written METRIC.SETTING=VALUE, e.g. adherence.polls=3; got {text!r}")
        if full_name(name) not in settings:
            raise SettingError(f"--set {text}: {full_name(name)} is not among the metrics of this run")
        settings[full_name(name)][setting] = _value(value)
    return chosen([metric_named(name, **chosen_settings) for name, chosen_settings in settings.items()])


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number
