"""One report over the rows of several, e.g. over the files that a sink rotated."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

from ragmetrics_core.data import SettingError, names_in_words
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.reporting.copies import KnownRows
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import RunFacts

T = TypeVar("T")

_MOST_NAMES = 5  # of files, in a sentence


def join_reports(reports: Sequence[Report], names: Sequence[str]) -> Report:
    """Join several reports to one report over all their rows, in their order.

    A row of a report that stands in an earlier one, too, with the same sample and the
    same results, counts once, and a note says so. Example: reports of 2 and 3 rows make
    a report of 5 rows, numbered 0 to 4; two copies of one report make that report.

    Args:
        reports: The reports, at least one.
        names: What each is called in a message, e.g. its file.

    Returns:
        A single report unchanged; of several reports a new one with new row numbers.

    Raises:
        SettingError: If a metric was not measured in the same way in all of them. Or if
            a run stopped early, as soon as it was clear whether its mean scores reach
            their gates: the bounds of such a mean hold for the rows of that run alone.
    """
    if len(reports) == 1:
        return reports[0]
    _refuse_what_cannot_be_joined(reports, names)
    reports_without_copies = leave_out_copies(reports)
    rows = [
        row.model_copy(update={"index": new_index})
        for new_index, row in enumerate(chain.from_iterable(reports_without_copies))
    ]
    facts = _join_facts([report.run for report in reports_without_copies], names)
    notes = (*facts.notes, *warn_of_copies(reports, names))
    return Report(rows, facts.model_copy(update={"notes": notes}))


def leave_out_copies(reports: Sequence[Report]) -> list[Report]:
    """Leave out rows that stand in an earlier report with the same sample and results.

    A report that loses rows so is not held against the rows of its inputs any more.
    """
    known_rows = KnownRows()
    without_copies = []
    for report in reports:
        rows = [row for row in report if not known_rows.has(row)]
        for row in rows:
            known_rows.add(row)
        run = report.run
        if len(rows) < len(report.results):
            inputs = [source.model_copy(update={"rows": None}) for source in run.inputs]
            run = run.model_copy(update={"inputs": tuple(inputs)})
        without_copies.append(Report(rows, run))
    return without_copies


def warn_of_copies(reports: Sequence[Report], names: Sequence[str]) -> Iterator[str]:
    """Say in a sentence how many rows are copies, and of which files; none without any."""
    n_copies = 0
    names_of_copies = []
    for report, kept, name in zip(
        reports, leave_out_copies(reports), names, strict=True
    ):
        if len(kept.results) < len(report.results):
            n_copies += len(report.results) - len(kept.results)
            names_of_copies.append(name)
    if n_copies:
        yield (
            f"{count_in_words(n_copies, 'row')} of"
            f" {names_in_words(names_of_copies, most=_MOST_NAMES)} are copies of rows in"
            " an earlier file, and count once."
        )


def warn_of_repeated_questions(
    reports: Sequence[Report], names: Sequence[str]
) -> Iterator[str]:
    """Warn of each report that asks what earlier ones asked.

    Two runs over the same questions are no more evidence than one. Copies of rows are
    left out, as in the joined report.
    """
    earlier: set[str] = set()
    for report, name in zip(leave_out_copies(reports), names, strict=True):
        questions = _questions_of(report)
        n_repeated = len(questions & earlier)
        if n_repeated:
            yield (
                f"{n_repeated:,} of {len(questions):,} questions of {name} stand in an"
                " earlier file, too, so the ranges are too narrow: they count each as"
                " new evidence. Compare two runs by ragmetrics compare, or count a"
                " question's rows as one by --cluster question."
            )
        earlier |= questions


def _questions_of(report: Report) -> set[str]:
    """The questions that the samples of a report ask."""
    samples = (row.sample for row in report)
    return {sample.question for sample in samples if sample and sample.question}


def _refuse_what_cannot_be_joined(
    reports: Sequence[Report], names: Sequence[str]
) -> None:
    """Raise ``SettingError`` for reports that one page cannot show together.

    There are two kinds. A run stopped early, as soon as its gates (means to reach) were
    decided. Or two runs measured a metric in different ways, such as with a prompt of
    another version.

    Args:
        reports: The reports.
        names: What each is called in the message.
    """
    # the metric's signature, and the name of the report that had it first
    first_by_metric: dict[str, tuple[object, str]] = {}
    for report, name in zip(reports, names, strict=True):
        if report.decisions:
            raise SettingError(
                f"{name} stopped when its gates were decided, and its bounds speak for"
                " its own rows alone; make a page of it alone"
            )
        for metric, signature in report.run.metrics.items():
            first_signature, first_name = first_by_metric.setdefault(
                metric, (signature, name)
            )
            if signature != first_signature:
                raise SettingError(
                    f"{first_name} and {name} measured {metric} in different ways"
                    f" ({first_signature}; {signature}); make a page of each, or compare them"
                )


def _join_facts(runs: Sequence[RunFacts], file_names: Sequence[str]) -> RunFacts:
    """Join the facts of several runs to the facts of one run; times add up.

    Example: runs of 3 and 4 seconds took 7. If the first one was interrupted,
    ``stopped`` is "monday.jsonl: it was interrupted".
    """
    facts: dict[str, Any] = {"metrics": {}, "addresses": {}, "details": {}}
    for run in runs:
        facts["metrics"] |= run.metrics
        facts["addresses"] |= run.addresses
        facts["details"] |= run.details
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
        notes=_drop_repeats(run.notes for run in runs),
    )


def _same(values: Sequence[T]) -> T | None:
    """What all values are; None if they differ."""
    return values[0] if len(set(values)) == 1 else None


def _drop_repeats(several: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Chain several tuples of words, and leave out words that came before."""
    return tuple(dict.fromkeys(chain.from_iterable(several)))
