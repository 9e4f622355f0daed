"""One report over the rows of several, e.g. over the files that a sink rotated."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ragmetrics_core.data import SettingError
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import RunFacts


def join_reports(reports: Sequence[Report], names: Sequence[str]) -> Report:
    """Return one report over the rows of several reports, in their order.

    Args:
        reports: At least one.
        names: What each is called in a message, e.g. its file.

    Returns:
        The only report as it is; of several a new one, whose rows are numbered anew.

    Raises:
        SettingError: If a metric was not measured in the same way in all of them, or
            one stopped when its gates were decided: its bounds speak for it alone.
    """
    if len(reports) == 1:
        return reports[0]
    _refuse_what_cannot_be_joined(reports, names)
    rows = [
        row.model_copy(update={"index": number})
        for number, row in enumerate(chain.from_iterable(reports))
    ]
    facts = _join_facts([report.run for report in reports], names)
    notes = (*facts.notes, _note_on_rows(reports, names))
    return Report(rows, facts.model_copy(update={"notes": notes}))


def _note_on_rows(reports: Sequence[Report], names: Sequence[str]) -> str:
    """Which numbers the rows of each report have."""
    parts = []
    n_before = 0
    for report, name in zip(reports, names, strict=True):
        n_rows = len(report.results)
        if n_rows:
            parts.append(
                f"{n_before + 1:,} to {n_before + n_rows:,} are those of {name}"
            )
        n_before += n_rows
    return f"Rows {', '.join(parts)}." if parts else "No file holds a row."


def warn_of_repeated_questions(
    reports: Sequence[Report], names: Sequence[str]
) -> Iterator[str]:
    """Warn of each report that asks what earlier ones asked.

    Two runs over the same questions are no more evidence than one.
    """
    earlier: set[str] = set()
    for report, name in zip(reports, names, strict=True):
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
    """Refuse reports that one page cannot show together.

    That is a run until decided beside another, and a metric that two runs measured in
    different ways.
    """
    # by metric its signature and the report that had it first
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


def _join_facts(runs: Sequence[RunFacts], names: Sequence[str]) -> RunFacts:
    """What holds of all runs together; what differs is left unsaid or listed."""
    stopped = [
        f"{name}: {run.ended_early}"
        for run, name in zip(runs, names, strict=True)
        if run.ended_early
    ]
    versions = {run.version for run in runs}
    start_times = [run.started for run in runs if run.started]
    facts = RunFacts(
        name=", ".join(_drop_repeats((run.name,) for run in runs if run.name)),
        version=versions.pop() if len(versions) == 1 else "",
        inputs=tuple(chain.from_iterable(run.inputs for run in runs)),
        metrics={name: value for run in runs for name, value in run.metrics.items()},
        started=min(start_times, default=""),
        seconds=sum(run.seconds for run in runs),
        concurrency=max(run.concurrency for run in runs),
        interrupted=any(run.interrupted for run in runs),
        stopped="; ".join(stopped),
        notes=_drop_repeats(run.notes for run in runs),
    )
    return facts.model_copy(update=_join_judges(runs))


def _join_judges(runs: Sequence[RunFacts]) -> dict[str, object]:
    """Who judged any of the runs, by field of the facts."""
    address_by_judge: dict[str, tuple[str, ...]] = {}
    settings_by_judge: dict[str, dict[str, str]] = {}
    for run in runs:
        address_by_judge.update(run.addresses)
        settings_by_judge.update(run.details)
    is_chosen = {run.judge_chosen for run in runs}
    return {
        "judges": _drop_repeats(run.judges for run in runs),
        "judge_chosen": is_chosen.pop() if len(is_chosen) == 1 else None,
        "models": _drop_repeats(run.models for run in runs),
        "addresses": address_by_judge,
        "details": settings_by_judge,
    }


def _drop_repeats(several: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """All words in their order, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(several)))
