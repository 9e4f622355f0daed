"""Measures a judge on labelled samples: how well it agrees with people, and what sways it."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import fmean
from typing import Any

from card_edits import EDITS, ORDERS, edited, injected
from card_rows import LabelledSample

from ragmetrics_core.data import FactMatrix, JudgedChunks, MetricResult, Sample, Usage, wilson
from ragmetrics_core.endpoints.limits import Budget, Limits
from ragmetrics_core.endpoints.store import MemoryStore, StoreLike
from ragmetrics_core.engine.run import JudgeLike, Run, Show, stream
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import METRICS
from ragmetrics_core.reporting.cards import Card
from ragmetrics_core.statistics.agreement import Labelled, Measured, auroc, human_kappa, measure_all, measures, spearman

ASKING = dict(zip(("relevant", "adherent", "other", "present"), METRICS.values(), strict=True))
"""The metric that asks each question."""

Items = Sequence[LabelledSample]
_MEASURES = ("AUROC", "balanced accuracy", "kappa", "Brier", "slope", "intercept", "calibration error", "prevalence")
Ask = Callable[[Metric, Sequence[Sample], bool], Sequence[MetricResult | None]]
"""Gives a result per sample, None where a limit ended the run; if the flag is set, without stored replies."""


def asking(
    judge: JudgeLike, *, store: StoreLike = None, concurrency: int = 32, limits: Limits | None = None,
    progress: Show = False,
) -> Ask:  # fmt: skip
    """A way to ask one judge everything, within common limits; arguments are those of ``evaluate``."""
    budget = Budget(limits)

    def ask(metric: Metric, samples: Sequence[Sample], again: bool) -> Sequence[MetricResult | None]:
        run = Run([metric], judge, concurrency, MemoryStore() if again else store, budget)
        run.check_prices()
        rows = {row.index: row.results for row in stream(run, samples, progress=progress, columns={})}
        if run.interrupted:
            raise KeyboardInterrupt  # what was done so far is no card
        return [rows.get(at, {}).get(metric.name) for at in range(len(samples))]

    return ask


def judged(ask: Ask, metric: Metric, items: Items, *, again: bool = False) -> list[LabelledSample]:
    """The same with what the judge made of them."""
    results = ask(metric, [item.sample for item in items], again)
    others = ask(metric, [item.other for item in items if item.other is not None], again) or results
    found = zip(items, results, others, strict=True)
    return [replace(item, result=own, verdicts=tuple(_verdicts(item, own, other))) for item, own, other in found]


def measured(judge: JudgeLike, items: Items, ask: Ask, *, draws: int = 500) -> Card:
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
        signatures={name: metric.signature for name, metric in metrics.items()}, figures=figures,
    )  # fmt: skip


def band(rows: Sequence[Labelled], others: Sequence[Labelled], loss: float) -> str:
    """The band of scores in which a cascade should ask its strong judge, and what it does to other rows, in words.

    The one around one half, in hundredths, with the fewest scores, outside which at most this share of all rows, as
    the mean over sources, is decided wrongly: what is lost against a judge that is always right.
    """
    scores, lost = sorted(row.score for row in rows), _lost(rows)
    ends = ((low / 100, high / 100) for low, high in product(range(51), range(50, 101)))
    narrow = sorted(ends, key=lambda own: bisect_right(scores, own[1]) - bisect_left(scores, own[0]))
    low, high = next(own for own in narrow if lost(*own) <= loss)
    asked = fmean(low <= row.score <= high for row in others)
    return f"band=({low:g}, {high:g}) asks for {asked:.0%} of the verdicts and loses {_lost(others)(low, high):.3f}"


def _lost(rows: Sequence[Labelled]) -> Callable[[float, float], float]:
    """The share of rows that are decided wrongly outside a band, as the mean over sources."""
    wrong: dict[str, list[float]] = {row.source: [] for row in rows}
    for row in rows:
        wrong[row.source] += [row.score] if (row.score >= 0.5) != row.yes else []
    sides = [(sorted(own), sum(row.source == source for row in rows)) for source, own in wrong.items()]
    return lambda low, high: fmean(
        (bisect_left(own, low) + len(own) - bisect_right(own, high)) / count for own, count in sides
    )


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


def _measures() -> dict[str, Callable[[Items], float | None]]:
    """The measures of agreement, over all verdicts on some samples, which are resampled whole."""

    def over(compute: Callable[[Sequence[Labelled]], float | None], rows: Items) -> float | None:
        return compute([verdict for row in rows for verdict in row.verdicts])

    known = {name: measures(0.5)[name] for name in _MEASURES} | {
        "AUROC of shortness alone": lambda rows: auroc([(row.rival or 0.0, row.yes) for row in rows]),
        "correlation with length": _follows_length,
    }
    found: dict[str, Any] = {name: partial(over, compute) for name, compute in known.items()}
    return found | {"kappa of people": lambda rows: human_kappa([Labelled(0, it.people) for it in rows])}


def _follows_length(rows: Sequence[Labelled]) -> float | None:
    """Spearman's ρ of score and length, mean of those among the texts labelled yes and no."""
    sides = [[(row.score, -(row.rival or 0.0)) for row in rows if row.yes is wanted] for wanted in (True, False)]
    known = [value for side in sides if len(side) > 2 and (value := spearman(side)) is not None]
    return fmean(known) if known else None


def _outcomes(ask: Ask, metric: Metric, rows: Items) -> Iterator[tuple[str, str, bool]]:
    """What became of each sample, and whether its verdicts are the same when it is asked again."""
    for row, again in zip(rows, judged(ask, metric, rows, again=True), strict=True):
        ended = getattr(row.result, "status", "not judged")
        ended = "abstained" if getattr(row.result, "code", "") == "abstained" else ended
        yield from ((name, row.source, ended == name) for name in ("abstained", "undefined", "failed", "not judged"))
        if row.says and again.says:
            yield "same when asked again", row.source, row.says == again.says


def _swayed(ask: Ask, metric: Metric, rows: Items) -> Iterator[tuple[str, str, bool]]:
    """Whether the verdict is another one: on wrong answers made of accepted ones, under orders, in another order."""
    changed: list[tuple[str, LabelledSample, Sample]] = []
    for row in rows:
        if row.result is None or not row.verdicts:
            continue
        sample, (says,) = row.sample, row.says
        yield "uncertain", row.source, row.result.reason.startswith("uncertain: ")
        for kind in EDITS if says and row.labels[0] else ():
            if (answer := edited(kind, sample)) is not None:
                changed.append((f"caught: {kind}", row, sample.model_copy(update={"answer": answer})))
        changed += [(f"flipped: {kind}", row, injected(kind, sample, says)) for kind in ORDERS]
        if len(sample.contexts) > 1:
            turned = sample.model_copy(update={"contexts": sample.contexts[::-1]})
            changed.append(("flipped: contexts reversed", row, turned))
    named = [sample.model_copy(update={"id": f"{sample.id} | {measure}"}) for measure, _, sample in changed]
    after = judged(ask, metric, [replace(row, sample=own) for (_, row, _), own in zip(changed, named, strict=True)])
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
