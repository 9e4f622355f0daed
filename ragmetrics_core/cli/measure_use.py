"""``ragmetrics measure-use``: what each passage did to the answers of kept prompts."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

from ragmetrics_core.cli import chosen_judges
from ragmetrics_core.cli import options as shared
from ragmetrics_core.cli.printing import show
from ragmetrics_core.cli.run_folders import report_at
from ragmetrics_core.data import Sample, SampleResult, Usage
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.engine.dry_run import Estimate
from ragmetrics_core.engine.progress import Display
from ragmetrics_core.measured_use import calls_needed, measure_use
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.reporting.jsonl import JsonlWriter
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.use_in_words import agreement_lines, use_in_one_line

_REASONS_SHOWN = 3
_ASSUMPTIONS = (
    "About: tokens of 3.5 characters; replies as long as the answers.",
    "Not counted: a second call for each used passage, calls without several, questions"
    " to the judge, retries, hidden reasoning.",
    "Rows that cannot be measured take no call; stored replies are not deducted.",
)


def run(options: argparse.Namespace) -> int:
    """Measure the samples of a results file, or of traces, and write them with it.

    Returns:
        The exit code: 0, or 1 if no row was measured.

    Raises:
        SettingError: If options are missing or invalid.
    """
    shared.needs_out(options)
    if options.traces:
        # a results file does without
        from ragmetrics_core.traces import samples_from_spans

        samples_of_traces = samples_from_spans(options.file, keep_prompts=True)
        report = Report(
            SampleResult(index=index, sample=sample)
            for index, sample in enumerate(samples_of_traces)
        )
    else:
        report = report_at(options.file)
    samples = [row.sample for row in report.results if row.sample is not None]
    model = chosen_judges.judge_from(options.model, options)
    if options.dry_run:
        usage = calls_needed(samples, model=model, repeats=options.repeats)
        estimate = Estimate(len(samples), usage, assumptions=_ASSUMPTIONS)
        show(*estimate.text("rows").splitlines())
        return 0
    with Display(len(samples), options.progress or False) as display:

        def count(sample: Sample) -> None:
            usage = Usage() if sample.use is None else sample.use.usage
            display.add(SampleResult(index=0, sample=sample, unfinished=usage))

        measured = iter(
            measure_use(
                samples,
                model=model,
                judge=options.judge,
                repeats=options.repeats,
                temperature=options.temperature,
                concurrency=options.concurrency,
                store=shared.store(options),
                limits=shared.settings_from(options, Limits),
                on_measured=count,
            )
        )
    rows = [
        row if row.sample is None else row.model_copy(update={"sample": next(measured)})
        for row in report.results
    ]
    is_any_measured = any(
        row.sample and row.sample.use and row.sample.use.why_not is None for row in rows
    )
    if is_any_measured:
        with JsonlWriter(options.out, report.run, mark=options.replaces) as writer:
            for row in rows:
                writer.write(row)
            writer.close(report.run, whole=True)
    show(*_lines(rows))
    if not is_any_measured:
        return 1
    show(
        f"Rows with what was measured: {options.out}",
        f"Each row: ragmetrics report {options.out}",
    )
    return 0


def _lines(rows: list[SampleResult]) -> Iterator[str]:
    """What was measured, what it cost, why rows were not, and what to do next."""
    usage = Usage()
    whys: Counter[str] = Counter()
    for row in rows:
        use = row.sample.use if row.sample else None
        if use is None:
            continue
        usage += use.usage
        if use.why_not is not None:
            yield f"! {row.label}: {use.why_not}"
        whys.update(each.why for each in use.passages if each.verdict == "cannot tell")
    yield use_in_one_line(rows) or "Nothing was measured."
    for why, n_passages in whys.most_common(_REASONS_SHOWN):
        yield f"! {count_in_words(n_passages, 'passage')}: {why}"
    yield from agreement_lines(rows)
    yield shared.spent(usage)
