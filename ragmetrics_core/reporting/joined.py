"""One report over the rows of several, e.g. over the files of several processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ragmetrics_core.data import SampleResult
from ragmetrics_core.reporting.run_facts import RunFacts

if TYPE_CHECKING:
    from ragmetrics_core.reporting.report import Report

T = TypeVar("T")


class Joined(NamedTuple):
    """Several runs as one.

    Attributes:
        run: Their facts.
        rows: Their rows, numbered anew.
        warnings: How many questions stand in two files.
    """

    run: RunFacts
    rows: tuple[SampleResult, ...]
    warnings: tuple[str, ...]


def join_runs(reports: Sequence[Report], names: Sequence[str]) -> Joined:
    """Join several runs to one over all their rows, in their order.

    Example: runs of 2 and 3 rows make one of 5 rows, numbered 0 to 4.

    Args:
        reports: The runs, at least one.
        names: What each is called in a message, e.g. its file.
    """
    runs = [report.run for report in reports]
    asked = [_what_was_asked(report) for report in reports]
    differing = {
        key
        for key in chain.from_iterable(asked)
        if len({words[key] for words in asked if key in words}) > 1
    }
    rows: list[SampleResult] = []
    for report, words in zip(reports, asked, strict=True):
        own_details = {key: words[key] for key in differing & set(words)}
        for row in _with_details(report.results, own_details):
            rows.append(row.model_copy(update={"index": len(rows)}))

    # two runs over the same questions are no more evidence than one
    warnings = []
    earlier: set[str] = set()
    for report, name in zip(reports, names, strict=True):
        samples = [row.sample for row in report.results if row.sample is not None]
        questions = {sample.question for sample in samples if sample.question}
        n_repeated = len(questions & earlier)
        if n_repeated:
            warnings.append(
                f"{n_repeated:,} of {len(questions):,} questions of {name} stand in an"
                " earlier file, too. The ranges count a question's rows as one, unless"
                " --cluster says otherwise. Compare two runs by ragmetrics compare."
            )
        earlier |= questions
    return Joined(_join_facts(runs, names), tuple(rows), tuple(warnings))


def _what_was_asked(report: Report) -> dict[tuple[str, str], str]:
    """By judge: the addresses that were asked, and the models that replied, where known.

    Example: ``{("gpt", "model"): "gpt-2026-01"}``. Under one name, and at one address,
    another model may answer.
    """
    models_by_judge: dict[str, set[str]] = {}
    for row in report.results:
        for result in row.results.values():
            if result.signature is not None and result.usage.models:
                models = models_by_judge.setdefault(result.signature.judge, set())
                models.update(result.usage.models)
    endpoints = {judge: report.run.endpoints(judge) for judge in report.run.addresses}
    return {
        (judge, what): ", ".join(sorted(names))
        for what, names_by_judge in (("address", endpoints), ("model", models_by_judge))
        for judge, names in names_by_judge.items()
        if names
    }


def _with_details(
    rows: Iterable[SampleResult], differing: Mapping[tuple[str, str], str]
) -> Iterator[SampleResult]:
    """Name in the signatures what differs between the runs, by judge."""
    details_by_judge: dict[str, dict[str, str]] = {}
    for (judge, what), words in sorted(differing.items()):
        details_by_judge.setdefault(judge, {})[what] = words
    for row in rows:
        results = dict(row.results)
        for name, result in row.results.items():
            signature = result.signature
            if signature is None or signature.judge not in details_by_judge:
                continue
            details = {**signature.details, **details_by_judge[signature.judge]}
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
        notes=_drop_repeats(run.notes for run in runs),
    )


def _same(values: Sequence[T]) -> T | None:
    """What all values are; None if they differ."""
    return values[0] if len(set(values)) == 1 else None


def _drop_repeats(several: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Chain several tuples of words, and leave out words that came before."""
    return tuple(dict.fromkeys(chain.from_iterable(several)))
