"""Measures a judge on labelled samples: how well it agrees with people, and what sways it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

from card_edits import EDITS, ORDERS, edited, injected
from card_page import Card
from card_rows import LabelledSample

from ragmetrics_core.data import FactMatrix, JudgedChunks, MetricResult, Sample, Usage, wilson
from ragmetrics_core.endpoints.limits import Budget, Limits
from ragmetrics_core.endpoints.store import MemoryStore, StoreLike
from ragmetrics_core.engine.run import JudgeLike, Run, Show, stream
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import METRICS
from ragmetrics_core.reporting.run_facts import Input
from ragmetrics_core.statistics.agreement import Labelled, Measured, auroc, human_kappa, measure_all, measures, spearman

ASKING = dict(zip(("relevant", "adherent", "other", "present"), METRICS.values(), strict=True))
"""The metric that asks each question."""

_MEASURES = ("AUROC", "balanced accuracy", "kappa", "Brier", "slope", "intercept", "calibration error", "prevalence")
Ask = Callable[[Metric, Sequence[Sample], bool], Sequence[MetricResult | None]]
"""Gives a result per sample, None where a limit ended the run; if the flag is set, without stored replies."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A labelled sample with what the judge made of it.

    Args:
        item: The sample, from ``source``.
        result: The result; None if a limit ended the run before.
        verdicts: Per label the judge's score, and as the rival's minus the length of the text; () if there is none.
    """

    item: LabelledSample
    source: str
    result: MetricResult | None
    verdicts: tuple[Labelled, ...]

    @property
    def says(self) -> tuple[bool, ...]:
        """The verdicts."""
        return tuple(one.score >= 0.5 for one in self.verdicts)


def asking(
    judge: JudgeLike, *, store: StoreLike = None, concurrency: int = 32, limits: Limits | None = None,
    progress: Show = False,
) -> Ask:  # fmt: skip
    """A way to ask one judge everything, within common limits; arguments are those of ``evaluate``."""
    budget = Budget(limits)

    def ask(metric: Metric, samples: Sequence[Sample], again: bool) -> Sequence[MetricResult | None]:
        run = Run([metric], judge, concurrency, MemoryStore() if again else store, budget)
        rows = {row.index: row.results for row in stream(run, samples, progress=progress, columns={})}
        return [rows.get(at, {}).get(metric.name) for at in range(len(samples))]

    return ask


def judged(ask: Ask, metric: Metric, items: Sequence[LabelledSample], *, again: bool = False) -> list[Judged]:
    """The verdicts on all labels of a question, source by source."""
    found = []
    for source in dict.fromkeys(item.source for item in items):
        own = [item for item in items if item.source == source]
        results = ask(metric, [item.sample for item in own], again)
        others = ask(metric, [item.other for item in own if item.other is not None], again) or results
        for item, result, other in zip(own, results, others, strict=True):
            found.append(Judged(item, source, result, tuple(_verdicts(item, result, other))))
    return found


def measured(
    judge: JudgeLike, items: Sequence[LabelledSample], ask: Ask, *, draws: int = 500, inputs: Iterable[Input] = (),
    notes: tuple[str, ...] = (),
) -> Card:  # fmt: skip
    """The card of a judge, with intervals from so many bootstrap resamples, or Wilson's for shares."""
    metrics = {name: kind() for name, kind in ASKING.items() if any(item.question == name for item in items)}
    run = Run([*metrics.values()], judge, 1, MemoryStore())
    figures = {}
    for question, metric in metrics.items():
        started = time.monotonic()
        rows = judged(ask, metric, [item for item in items if item.question == question])
        seconds = time.monotonic() - started
        found = measure_all([row for row in rows if row.verdicts], _measures(), draws=draws)
        found += _shares(_outcomes(ask, metric, rows))
        found += _shares(_swayed(ask, metric, rows)) if question == "adherent" else []
        usage = sum((row.result.usage for row in rows if row.result is not None), Usage())
        for name, spent in (("seconds", seconds), ("calls", usage.calls), ("US dollars", usage.cost)):
            if spent is not None and not usage.stored:  # what the store answered tells nothing of time and money
                found.append(Measured(f"{name} per 1,000 samples", None, len(rows), 1000 * spent / len(rows), None))
        figures[question] = tuple(one for one in found if one.value is not None)
    return Card(
        judge=run.facts.judges[0], details=run.judges[0].details, version=run.facts.version, made=run.facts.started,
        signatures={name: metric.signature for name, metric in metrics.items()}, inputs=tuple(inputs), notes=notes,
        figures=figures,
    )  # fmt: skip


def band(rows: Sequence[Labelled], others: Sequence[Labelled], loss: float) -> str:
    """The band of scores in which a cascade should ask its strong judge, and what it does to other rows, in words.

    The one around one half, in hundredths, with the fewest scores, outside which at most this share of all rows, as
    the mean over sources, is decided wrongly: what is lost against a judge that is always right.
    """

    def lost(rows: Sequence[Labelled], low: float, high: float) -> float:
        wrong: dict[str, list[bool]] = {}
        for row in rows:
            outside = not low <= row.score <= high
            wrong.setdefault(row.source, []).append(outside and (row.score >= 0.5) != row.yes)
        return fmean(map(fmean, wrong.values()))

    ends = [(low / 100, high / 100) for low in range(51) for high in range(50, 101)]
    narrow = sorted(ends, key=lambda own: sum(own[0] <= row.score <= own[1] for row in rows))
    low, high = next(own for own in narrow if lost(rows, *own) <= loss)
    asked = fmean(low <= row.score <= high for row in others)
    return f"band=({low:g}, {high:g}) asks for {asked:.0%} of the verdicts and loses {lost(others, low, high):.3f}"


def _verdicts(item: LabelledSample, result: MetricResult | None, other: MetricResult | None) -> Iterator[Labelled]:
    if result is None or other is None or result.value is None or other.value is None:
        return
    evidence, labels, sample = result.evidence, item.labels, item.sample
    texts, scores = [len(sample.answer or "")], [result.value]
    if item.other is not None:
        texts, scores = [len(item.other.answer or "") - texts[0]], [(1 + other.value - result.value) / 2]
    elif isinstance(evidence, JudgedChunks):
        texts = [len(context.text) for context in sample.contexts]
        scores = [float(bool(it.useful)) if it.probability is None else it.probability for it in evidence.chunks]
    elif isinstance(evidence, FactMatrix):
        known = dict(zip((fact.text for fact in sample.facts or ()), labels, strict=True))
        texts, labels = [len(fact.text) for fact in evidence.facts], tuple(known[fact.text] for fact in evidence.facts)
        scores = [max(cell.probability or 0.0 for cell in row) for row in evidence.cells]
    for length, score, label in zip(texts, scores, labels, strict=True):
        yield Labelled(score, (label,), item.source, -length)


def _measures() -> dict[str, Callable[[Sequence[Judged]], float | None]]:
    """The measures of agreement, over all verdicts on some samples, which are resampled whole."""

    def over(compute: Callable[[Sequence[Labelled]], float | None], rows: Sequence[Judged]) -> float | None:
        return compute([verdict for row in rows for verdict in row.verdicts])

    known = {name: measures(0.5)[name] for name in _MEASURES} | {
        "AUROC of shortness alone": lambda rows: auroc([(row.rival or 0.0, row.yes) for row in rows]),
        "correlation with length": _follows_length,
    }
    found: dict[str, Any] = {name: partial(over, compute) for name, compute in known.items()}
    return found | {"kappa of people": lambda rows: human_kappa([Labelled(0, it.item.people) for it in rows])}


def _follows_length(rows: Sequence[Labelled]) -> float | None:
    """Spearman's ρ of score and length, mean of those among the texts labelled yes and no."""
    sides = [[(row.score, -(row.rival or 0.0)) for row in rows if row.yes is wanted] for wanted in (True, False)]
    known = [value for side in sides if len(side) > 2 and (value := spearman(side)) is not None]
    return fmean(known) if known else None


def _outcomes(ask: Ask, metric: Metric, rows: Sequence[Judged]) -> Iterator[tuple[str, str, bool]]:
    """What became of each sample, and whether its verdicts are the same when it is asked again."""
    for row, again in zip(rows, judged(ask, metric, [row.item for row in rows], again=True), strict=True):
        own = row.result
        ended: str = "not judged" if own is None else own.status
        if own is not None and own.status == "undefined" and own.code == "abstained":
            ended = "abstained"
        yield from ((name, row.source, ended == name) for name in ("abstained", "undefined", "failed", "not judged"))
        if row.says and again.says:
            yield "same when asked again", row.source, row.says == again.says


def _swayed(ask: Ask, metric: Metric, rows: Sequence[Judged]) -> Iterator[tuple[str, str, bool]]:
    """Whether the verdict is another one: on wrong answers made of accepted ones, under orders, in another order."""
    changed: list[tuple[str, Judged, Sample]] = []
    for row in rows:
        if row.result is None or not row.verdicts:
            continue
        sample, (says,) = row.item.sample, row.says
        yield "uncertain", row.source, row.result.reason.startswith("uncertain: ")
        for kind in EDITS if says and row.item.labels[0] else ():
            if (answer := edited(kind, sample)) is not None:
                changed.append((f"caught: {kind}", row, sample.model_copy(update={"answer": answer})))
        changed += [(f"flipped: {kind}", row, injected(kind, sample, says)) for kind in ORDERS]
        if len(sample.contexts) > 1:
            turned = sample.model_copy(update={"contexts": sample.contexts[::-1]})
            changed.append(("flipped: contexts reversed", row, turned))
    named = (sample.model_copy(update={"id": f"{sample.id} | {measure}"}) for measure, _, sample in changed)
    items = [replace(row.item, sample=sample) for (_, row, _), sample in zip(changed, named, strict=True)]
    after = judged(ask, metric, items)
    for (measure, row, _), other in zip(changed, after, strict=True):
        if other.says:
            yield measure, row.source, row.says != other.says


def _shares(outcomes: Iterable[tuple[str, str, bool]]) -> list[Measured]:
    """Shares per source and over all samples."""
    counted: dict[tuple[str, str | None], list[bool]] = {}
    for measure, source, holds in outcomes:
        for place in (None, source):
            counted.setdefault((measure, place), []).append(holds)
    return [Measured(name, at, len(own), fmean(own), wilson(sum(own), len(own))) for (name, at), own in counted.items()]
