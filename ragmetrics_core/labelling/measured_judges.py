"""Measures a judge on labelled samples: how well it agrees with people, and what sways it."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from ragmetrics_core.data import (
    EMBEDDED,
    FactMatrix,
    JudgedChunks,
    MetricResult,
    Sample,
    Usage,
    wilson,
)
from ragmetrics_core.data.errors import InputError, JudgeUnavailable
from ragmetrics_core.engine.run import JudgeLike, Run, Show, stream
from ragmetrics_core.labelling.edits import EDITS, ORDERS, edited, injected
from ragmetrics_core.labelling.published import LabelledSample
from ragmetrics_core.metrics.context_adherence import AdherenceEvidence
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.registry import METRICS
from ragmetrics_core.models.limits import Budget, Limits
from ragmetrics_core.models.reply_store import MemoryStore, StoreLike
from ragmetrics_core.reporting.judge_card import Card
from ragmetrics_core.statistics.rater_agreement import (
    Labelled,
    Measured,
    auroc,
    human_kappa,
    measure_all,
    measures,
    spearman,
)

ASKING = dict(
    zip(("relevant", "adherent", "other", "present"), METRICS.values(), strict=True)
)
"""The metric that asks each question."""

Items = Sequence[LabelledSample]
Ask = Callable[[Metric, Sequence[Sample], bool], Sequence[MetricResult]]
"""Gives a result per sample; if the flag is set, without stored replies."""


def asking(
    judge: JudgeLike,
    *,
    store: StoreLike = None,
    limits: Limits | None = None,
    concurrency: int = 32,
    progress: Show = False,
) -> Ask:
    """A way to ask one judge everything, within common limits.

    Arguments are those of ``evaluate``.

    It raises ``JudgeUnavailable`` if a limit ends it, or a judge that answers no more:
    a part makes no card.
    """
    budget = Budget(limits)

    def ask(
        metric: Metric, samples: Sequence[Sample], again: bool
    ) -> Sequence[MetricResult]:
        run = Run(
            [metric], judge, concurrency, MemoryStore() if again else store, budget
        )
        run.check_prices()
        rows = list(stream(run, samples, progress=progress, columns={}))
        if run.interrupted:
            raise KeyboardInterrupt
        if run.stopped:
            raise JudgeUnavailable(
                f"not all was judged, and a part makes no card: {run.stopped}"
            )
        return [row.results[metric.name] for row in rows]

    return ask


def judged(
    ask: Ask, metric: Metric, items: Items, *, again: bool = False
) -> list[LabelledSample]:
    """The same with what the judge made of them, and what that cost."""
    sides = [ask(metric, [item.sample for item in items], again)]
    if others := [item.other for item in items if item.other]:
        sides.append(ask(metric, others, again))
    found = []
    for item, *own in zip(items, *sides, strict=True):
        usage = sum((one.usage for one in own), Usage())
        found.append(
            replace(
                item, result=own[0], usage=usage, verdicts=tuple(_verdicts(item, own))
            )
        )
    return found


def measured(judge: JudgeLike, items: Items, ask: Ask, *, draws: int = 500) -> Card:
    """The card of a judge, with intervals from so many bootstrap resamples, or Wilson's for shares.

    ``InputError`` if it scored nothing: a card of nothing would pass for a measurement.
    """
    metrics = {
        name: kind()
        for name, kind in ASKING.items()
        if any(item.question == name for item in items)
    }
    run, figures, everything = (
        Run([*metrics.values()], judge, 1, MemoryStore()),
        {},
        list[LabelledSample](),
    )
    for question, metric in metrics.items():
        started = time.monotonic()
        rows = judged(
            ask, metric, [item for item in items if item.question == question]
        )
        seconds = time.monotonic() - started
        scored, everything = [row for row in rows if row.verdicts], [*everything, *rows]
        found = measure_all([row.verdicts for row in scored], _MEASURES, draws=draws)
        people = [[Labelled(0, row.people, row.source)] for row in scored]
        found += measure_all(people, {"kappa of people": human_kappa}, draws=draws)
        found += _shares(_outcomes(ask, metric, rows))
        found += _shares(_swayed(ask, metric, rows)) if question == "adherent" else []
        figures[question] = tuple(
            one for one in (*found, *_spent(rows, seconds)) if one.value is not None
        )
    if not any(row.verdicts for row in everything):
        why = next(row.result.reason for row in everything if row.result)
        raise InputError(
            f"{run.facts.judges[0]} scored none of {len(items)} samples, which makes no"
            f" card: {why}"
        )
    return Card(
        judge=run.facts.judges[0],
        details=run.judges[0].details,
        version=run.facts.version,
        made=run.facts.started,
        signatures={name: metric.signature for name, metric in metrics.items()},
        figures=figures,
    )


def _spent(rows: Items, seconds: float) -> Iterator[Measured]:
    """Time, calls and money per 1,000 samples.

    Nothing if replies came from the store, which tell nothing of these.
    """
    usage = sum((row.usage for row in rows), Usage())
    for name, spent in (
        ("seconds", seconds),
        ("calls", usage.calls),
        ("US dollars", usage.cost),
    ):
        if spent is not None and not usage.stored:
            yield Measured(
                f"{name} per 1,000 samples",
                None,
                len(rows),
                1000 * spent / len(rows),
                None,
            )


def band(rows: Sequence[Labelled], others: Sequence[Labelled], loss: float) -> str:
    """The band of scores in which a cascade should ask its strong judge, and what it does to other rows, in words.

    The one around one half, in hundredths, that leaves most rows outside and, of these,
    at most this share of all decided wrongly: what is lost against a judge that is
    always right. All shares are means over sources.
    """
    kept, lost = _outside(rows), _outside(rows, wrong=True)
    ends = [(low / 100, high / 100) for low, high in product(range(51), range(50, 101))]
    low, high = max(
        (own for own in ends if lost(*own) <= loss), key=lambda own: kept(*own)
    )
    asked, missed = (
        1 - _outside(others)(low, high),
        _outside(others, wrong=True)(low, high),
    )
    over = ", means over sources" if len({row.source for row in others}) > 1 else ""
    return (
        f"band=({low:g}, {high:g}) asks for {asked:.0%} of the verdicts and loses"
        f" {missed:.3f}{over}"
    )


def _outside(
    rows: Sequence[Labelled], *, wrong: bool = False
) -> Callable[[float, float], float]:
    """The share of rows that are decided, or decided wrongly, outside a band, as the mean over sources."""
    sources = [
        [row for row in rows if row.source == source]
        for source in {row.source for row in rows}
    ]
    # as a cascade sees it
    sure = [[row for row in own if row.says() == (row.score >= 0.5)] for own in sources]
    scores = (
        sorted(row.score for row in own if not wrong or row.says() != row.yes)
        for own in sure
    )
    told = [(own, len(source)) for own, source in zip(scores, sources, strict=True)]
    return lambda low, high: fmean(
        (bisect_left(it, low) + len(it) - bisect_right(it, high)) / n for it, n in told
    )


def _verdicts(
    item: LabelledSample, results: Sequence[MetricResult]
) -> Iterator[Labelled]:
    scores = [result.value for result in results if result.value is not None]
    if len(scores) < len(results):
        return
    evidence, labels, sample, says = (
        results[0].evidence,
        item.labels,
        item.sample,
        list[bool | None](),
    )
    texts = [len(sample.answer or "")]
    if item.other is not None:
        texts, scores = (
            [len(item.other.answer or "") - texts[0]],
            [(1 + scores[1] - scores[0]) / 2],
        )
    elif isinstance(evidence, JudgedChunks):
        texts = [len(context.text) for context in sample.contexts]
        scores = [
            float(bool(it.useful)) if it.probability is None else it.probability
            for it in evidence.chunks
        ]
        says = [None if it.probability is None else it.useful for it in evidence.chunks]
    elif isinstance(evidence, FactMatrix):
        known = dict(
            zip((fact.text for fact in sample.facts or ()), labels, strict=True)
        )
        texts, labels = (
            [len(fact.text) for fact in evidence.facts],
            tuple(known[fact.text] for fact in evidence.facts),
        )
        scores = [
            max(cell.probability or 0.0 for cell in row) for row in evidence.cells
        ]
    elif isinstance(evidence, AdherenceEvidence) and evidence.probability is not None:
        # of an encoder that of the weakest sentence, and the score is their mean
        says = [evidence.yes > 0]
    for length, score, label, own in zip(
        texts, scores, labels, says or [None] * len(texts), strict=True
    ):
        yield Labelled(score, (label,), item.source, -length, sample.id or "-", own)


def _follows_length(rows: Sequence[Labelled]) -> float | None:
    """Spearman's ρ of score and length, mean of those among the texts labelled yes and no."""
    sides = [
        [(row.score, -(row.rival or 0.0)) for row in rows if row.yes is wanted]
        for wanted in (True, False)
    ]
    known = [
        value
        for side in sides
        if len(side) > 2 and (value := spearman(side)) is not None
    ]
    return fmean(known) if known else None


_KEPT = (
    "AUROC",
    "balanced accuracy",
    "kappa",
    "Brier",
    "slope",
    "intercept",
    "calibration error",
    "prevalence",
)
_MEASURES = {name: measures(0.5)[name] for name in _KEPT} | {
    "AUROC of shortness alone": lambda rows: auroc(
        [(row.rival or 0.0, row.yes) for row in rows]
    ),
    "correlation with length": _follows_length,
}


def _outcomes(ask: Ask, metric: Metric, rows: Items) -> Iterator[tuple[str, str, bool]]:
    """What became of each sample, and whether its verdicts are the same when it is asked again."""
    for row, again in zip(rows, judged(ask, metric, rows, again=True), strict=True):
        ended = (
            "abstained"
            if getattr(row.result, "code", "") == "abstained"
            else getattr(row.result, "status", "")
        )
        yield from (
            (name, row.source, ended == name)
            for name in ("abstained", "undefined", "failed")
        )
        if row.says:
            yield "same when asked again", row.source, row.says == again.says


def _swayed(ask: Ask, metric: Metric, rows: Items) -> Iterator[tuple[str, str, bool]]:
    """Whether the verdict is another one: on wrong answers made of accepted ones, under orders, in another order."""
    changed: list[tuple[str, LabelledSample, Sample]] = []
    for row in rows:
        if row.result is None or not row.verdicts:
            continue
        sample, (says,) = row.sample, row.says
        if row.result.judge in EMBEDDED:
            yield "uncertain", row.source, row.result.uncertain
        for kind in EDITS if says and row.labels[0] else ():
            if (answer := edited(kind, sample)) is not None:
                changed.append(
                    (
                        f"caught: {kind}",
                        row,
                        sample.model_copy(update={"answer": answer}),
                    )
                )
        changed += [
            (f"flipped: {kind}", row, injected(kind, sample, says)) for kind in ORDERS
        ]
        if len(sample.contexts) > 1:
            turned = sample.model_copy(update={"contexts": sample.contexts[::-1]})
            changed.append(("flipped: contexts reversed", row, turned))
    named = [
        sample.model_copy(update={"id": f"{sample.id} | {measure}"})
        for measure, _, sample in changed
    ]
    after = judged(
        ask,
        metric,
        [
            replace(row, sample=own)
            for (_, row, _), own in zip(changed, named, strict=True)
        ],
    )
    for (measure, row, _), other in zip(changed, after, strict=True):
        # to lose the verdict is to be swayed, but catches nothing
        if other.says or measure.startswith("flipped"):
            yield measure, row.source, row.says != other.says
    if not all(other.says for other in after):
        yield from (
            ("no verdict after a change", other.source, not other.says)
            for other in after
        )


def _shares(outcomes: Iterable[tuple[str, str, bool]]) -> list[Measured]:
    """Shares per source and over all samples."""
    counted: dict[tuple[str, str | None], list[bool]] = {}
    for measure, source, holds in outcomes:
        for place in (None, source):
            counted.setdefault((measure, place), []).append(holds)
    return [
        Measured(name, at, len(own), fmean(own), wilson(sum(own), len(own)))
        for (name, at), own in counted.items()
    ]
