"""Evaluating many samples with several metrics: sync, async and streaming."""

from collections.abc import Iterator, Sequence, Sized
from typing import Literal, Unpack

from ragmetrics_core.data import (
    Columns,
    JudgeUnavailable,
    LimitReached,
    SampleResult,
    SettingError,
    columns_by_field,
)
from ragmetrics_core.engine.progress import Show
from ragmetrics_core.engine.resolve import JudgeLike
from ragmetrics_core.engine.run import Metrics, Run, astream, stream
from ragmetrics_core.engine.sample_sources import Samples
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.reply_store import StoreLike
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import Input


class RunSettings(Columns, total=False):
    """Arguments of ``evaluate`` that others hand on, for editors and type checkers."""

    concurrency: int
    store: StoreLike
    limits: Limits | None


def iter_results(
    samples: Samples,
    metrics: Metrics = None,
    *,
    judge: JudgeLike = None,
    concurrency: int = 32,
    store: StoreLike = None,
    limits: Limits | None = None,
    progress: Show = False,
    **columns: Unpack[Columns],  # all their names: editors complete them
) -> Iterator[SampleResult]:
    """Evaluate samples and yield their results in input order, in bounded memory.

    Arguments and errors are those of ``evaluate``. Samples are read while the caller
    consumes results, a bounded number ahead. A run that ends early raises why, behind
    the results of the rows that were judged whole; no other rows are given. Example:
    a million rows of a generator: once the first row is judged, its result comes before
    one more row is read, and the rows are never all in memory.

    Raises:
        LimitReached: At the end, if a cap ended the run.
        JudgeUnavailable: At the end, if anything else left samples out.
        KeyboardInterrupt: After an interrupt (Ctrl-C).
        Exception: What an iterator of samples raised.
    """
    budget = Budget(limits)
    run = Run(metrics, judge, concurrency, store, budget)
    run.ends_with_judge = True
    # For a misspelt argument the error suggests one of this function's own arguments.
    column_by_field = columns_by_field(columns, beside=iter_results.__annotations__)
    results = stream(run, samples, progress=progress, columns=column_by_field)

    def results_then_error() -> Iterator[SampleResult]:
        n_whole = 0
        for result in results:
            if result.unfinished is None:  # nothing of it was cut off
                n_whole += 1
                yield result
        if run.interrupted:
            raise KeyboardInterrupt
        if run.source_error is not None:
            raise run.source_error
        if run.stopped:
            kind = JudgeUnavailable if budget.reached is None else LimitReached
            raise kind(
                f"the run ended early, after {n_whole:,} rows: {run.stopped}. Run"
                " again; if a limit ended it, raise it before. With store= no reply is"
                " paid twice"
            )

    return results_then_error()


def evaluate(
    samples: Samples,
    metrics: Metrics = None,
    *,
    judge: JudgeLike = None,
    concurrency: int = 32,
    store: StoreLike = None,
    limits: Limits | None = None,
    progress: Show = None,
    batch: bool | Literal["wait"] = False,
    **columns: Unpack[Columns],  # all their names: editors complete them
) -> Report:
    """Score every sample with every metric.

    Args:
        samples: Samples, rows as mappings, a data frame, or a Hugging Face dataset.
            Columns with usual names, such as ``response``, are found by themselves.
        metrics: Metrics or their names; None for the usual ones.
        judge: A judge, a chat model, or a model's name such as ``"gpt-4o-mini"`` or
            ``"ollama/llama3.1"``; by default the metric's own ``model``, then
            ``RAGMETRICS_JUDGE``, then the embedded judge.
        concurrency: Most model calls in flight.
        store: Where replies are kept, so that nothing is paid twice and a killed run
            goes on where it ended. It is the path of a file, a store, True for a file in
            the user's cache folder, or False for memory. By default it is what ``RAGMETRICS_STORE``
            names, else memory.
        limits: Caps on calls, money and time, and calls and tokens per minute. A cap
            that is reached ends the run with everything done until then; what it cut
            off counts as not judged.
        progress: True or False; None shows a bar on a terminal and logs elsewhere; a
            callable gets the progress.
        batch: Ask in batches, which services such as OpenAI's answer within a day at
            half the price. What has no answer in ``store`` is submitted, and
            ``report.run.stopped`` says so. The same call goes on later; once all is
            answered, it returns the whole report. ``"wait"`` waits for that.
        **columns: For rows, where a field is: ``question_column=``,
            ``contexts_column=``, ``answer_column=``, ``ground_truth_column=``, … — a
            name, a dotted path or a callable.

    Returns:
        A report with one entry per sample that was judged, in input order. It holds all
        samples and results in memory; for more than memory holds use ``iter_results``.
        An interrupt (Ctrl-C) ends the run with what is done, and so does an iterator of
        samples that raises behind its first row. Once a judge answers no more, an iterator
        is read no further. ``report.run.stopped`` says why the run ended.

    Raises:
        SettingError: If a setting is invalid or a metric unknown.
        JudgeUnavailable: If the judge's first call shows that it will answer nothing,
            e.g. for a wrong key.

    Examples:
        >>> report = evaluate([{"question": "Capital?", "contexts": ["Paris."], "answer": "Paris"}])
        >>> report.scores("context_utilization")
        [1.0]
    """
    if batch and not isinstance(samples, Sized):
        raise SettingError(
            "batches need a list of samples, not an iterator: they are read again once"
            " all is answered"
        )
    column_by_field = columns_by_field(columns, beside=evaluate.__annotations__)
    budget = Budget(limits)
    # A usual run goes through the samples once. A run in batches goes through them
    # again until all is answered; without "wait" it ends as soon as batches are
    # submitted.
    while True:
        run = Run(metrics, judge, concurrency, store, budget, batch=bool(batch))
        results = list(stream(run, samples, progress=progress, columns=column_by_field))
        if not run.is_ready_for_next_pass(wait_for_batches=batch == "wait"):
            break
    return report_of(run, results)


async def aevaluate(
    samples: Samples,
    metrics: Metrics = None,
    *,
    judge: JudgeLike = None,
    concurrency: int = 32,
    store: StoreLike = None,
    limits: Limits | None = None,
    progress: Show = False,
    **columns: Unpack[Columns],  # all their names: editors complete them
) -> Report:
    """Score every sample with every metric, without blocking the caller's event loop.

    Arguments, result and errors are those of ``evaluate``. There is no ``batch``, and
    no progress is shown unless ``progress`` says so. Example: ``report = await
    aevaluate(rows, ["context_adherence"], judge="lexical")``.
    """
    column_by_field = columns_by_field(columns, beside=aevaluate.__annotations__)
    run = Run(metrics, judge, concurrency, store, limits)
    results = [
        result
        async for result in astream(
            run, samples, progress=progress, columns=column_by_field
        )
    ]
    return report_of(run, results)


def report_of(run: Run, results: Sequence[SampleResult]) -> Report:
    """Return the report of a run that has ended, with its results in input order."""
    run_input = Input.of_samples(row.sample for row in results)
    facts = run.facts.model_copy(update={"inputs": (run_input,)})
    return Report(results=results, run=facts)
