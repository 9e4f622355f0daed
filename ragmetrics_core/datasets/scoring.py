"""How well judges and metrics agree with the labels of a set."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ragmetrics_core.data.results import MetricResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.datasets.reviews import Reviews, labelled_combinations, labelled_points
from ragmetrics_core.datasets.sets import AnySet, ContinuousSet, DiscreteSet
from ragmetrics_core.endpoints.store import ReplyStore
from ragmetrics_core.engine.evaluation import iter_results
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.engine.run import JudgeLike
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy
from ragmetrics_core.statistics.agreement import accuracy, auroc, bootstrap, f1, line, mean_error, spearman

Prompt = Literal["io", "cot", "frozen"]
PROMPTS: tuple[Prompt, ...] = ("io", "cot", "frozen")
Scored = tuple[float, float, float]
"""Score, label, and the second label of a continuous set (share of the tagged sentences)."""
Rows = Sequence[Scored]
Variant = tuple[Metric, str]
Statistic = Callable[[Rows], float | None]

DRAWS = 500


@dataclass(frozen=True)
class Value:
    """A statistic with its 95 % interval.

    Attributes:
        value: None where it is undefined, e.g. without both classes.
        interval: None with a single document, or where all resamples agree.
    """

    value: float | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Score:
    """One judge with one metric and prompt on one set.

    Attributes:
        judge: Name of the judge.
        prompt: Prompt that extracts facts; "" where it makes no difference.
        metric: Name of the metric.
        points: Points with a score.
        missing: Points without one, because the metric failed or is undefined there.
        documents: What intervals resample.
        usage: What it cost.
        values: The statistics by name.
    """

    judge: str
    prompt: str
    metric: str
    points: int
    missing: int
    documents: int
    usage: Usage
    values: dict[str, Value]


def variants(given: AnySet, metrics: Sequence[Metric], judge: Judge, prompts: Sequence[Prompt]) -> list[Variant]:
    """Metrics with the prompts to try: only an LLM judge reads prompts, only a continuous set has facts of its own."""
    names: list[str] = [prompt for prompt in prompts if prompt != "frozen"]
    if names and not isinstance(judge, LLMJudge):
        names = [""]
    names += ["frozen"] if "frozen" in prompts and isinstance(given, ContinuousSet) else []
    found: list[Variant] = []
    for metric in metrics:
        for name in (names or [""]) if isinstance(metric, RetrievalAccuracy) else [""]:
            update = {"extraction": name} if name in ("io", "cot") else {}
            found.append((metric.model_copy(update=update), name))
    return found


def samples_of(given: AnySet, metric: Metric, prompt: str) -> list[Sample]:
    """The samples to judge: a continuous set's documents where the metric has a matrix, else the points."""
    if isinstance(given, DiscreteSet):
        return [point.sample for point in given.points]
    if isinstance(metric, RetrievalAccuracy):
        return [document.sample(frozen=prompt == "frozen") for document in given.documents]
    known = {document.id: document for document in given.documents}
    return [known[point.document].sample(point.contexts) for point in given.points]


def score_set(
    given: AnySet, reviews: Reviews | None, metric: Metric, judge: JudgeLike, *, prompt: str = "",
    threshold: float = 0.5, concurrency: int = 32, store: ReplyStore | None = None, progress: Any = False,
    draws: int = DRAWS,
) -> Score:  # fmt: skip
    """Score a judge's metric against a set.

    Args:
        given: The set.
        reviews: What people decided; None for the labels as they were made.
        metric: The metric.
        judge: A judge, or a name as in ``evaluate``.
        prompt: Name of the prompt, for the table; ``frozen`` takes the set's own facts.
        threshold: A discrete point counts as positive from this score on.
        concurrency: Most calls in flight.
        store: Where replies are kept.
        progress: As in ``evaluate``.
        draws: Resamples of the intervals.

    Returns:
        Accuracy, AUROC and F1 on a discrete set; mean absolute error, Spearman's correlation, and slope and
        intercept of the calibration line on a continuous one. Intervals resample documents.

    Raises:
        JudgeUnavailable: If the judge cannot answer any question.
    """
    judge, samples = resolve_judge(judge, metric_model=metric.model), samples_of(given, metric, prompt)
    run = iter_results(samples, [metric], judge=judge, concurrency=concurrency, store=store, progress=progress)
    results = [(row.sample, next(iter(row.results.values()))) for row in run]
    if len(results) < len(samples):
        raise KeyboardInterrupt  # the run ended early and gave what it had, which is no score
    if isinstance(given, DiscreteSet):
        pairs, statistics = _discrete(given, reviews, results), _verdict_statistics(threshold)
    else:
        pairs, statistics = _continuous(given, reviews, results), _SHARE_STATISTICS
    clusters: dict[str, list[Scored]] = {}
    for document, score, label, other in pairs:
        if score is not None:
            clusters.setdefault(document, []).append((score, label, other))
    points = sum(map(len, clusters.values()))
    return Score(
        *(judge.name, prompt, metric.name, points, len(pairs) - points, len(clusters)),
        usage=sum((outcome.usage for _, outcome in results), Usage()),
        values={name: _value(list(clusters.values()), compute, draws) for name, compute in statistics.items()},
    )


_Outcomes = Sequence[tuple[Sample | None, MetricResult]]
_Pairs = list[tuple[str, float | None, float, float]]
"""Document, score (None without one), label and second label of each point."""


def _discrete(given: DiscreteSet, reviews: Reviews | None, results: _Outcomes) -> _Pairs:
    values = {point.id: outcome.value for point, (_, outcome) in zip(given.points, results, strict=True)}
    labelled = labelled_points(given, reviews)
    return [(point.document, values[point.id], float(label), 0.0) for point, label in labelled]


def _continuous(given: ContinuousSet, reviews: Reviews | None, results: _Outcomes) -> _Pairs:
    """From the documents' matrices, without further calls; else one score per point."""
    whole = all(outcome.evidence is None or isinstance(outcome.evidence, AccuracyEvidence) for _, outcome in results)
    scored = {sample.id: outcome.evidence for sample, outcome in results if sample and outcome.status == "scored"}
    values = {} if whole else {p: outcome.value for p, (_, outcome) in zip(given.points, results, strict=True)}
    pairs: _Pairs = []
    for point, label in labelled_combinations(given, reviews):
        matrix = scored.get(point.document)
        score = matrix.combine(point.contexts) if isinstance(matrix, AccuracyEvidence) else values.get(point)
        pairs.append((point.document, score, label, point.by_tags))
    return pairs


def _value(clusters: Sequence[Rows], compute: Statistic, draws: int) -> Value:
    def pooled(own: Iterable[Rows]) -> float | None:
        return compute([row for rows in own for row in rows])

    return Value(pooled(clusters), bootstrap([clusters], pooled, draws=draws) if len(clusters) > 1 else None)


def _verdict_statistics(threshold: float) -> dict[str, Statistic]:
    def verdicts(rows: Rows) -> list[tuple[bool, bool]]:
        return [(score >= threshold, label == 1) for score, label, _ in rows]

    return {
        "accuracy": lambda rows: accuracy(verdicts(rows)),
        "AUROC": lambda rows: auroc([(score, label == 1) for score, label, _ in rows]),
        "F1": lambda rows: f1(verdicts(rows)),
    }


def _labelled(rows: Rows) -> list[tuple[float, float]]:
    return [(score, label) for score, label, _ in rows]


_SHARE_STATISTICS: dict[str, Statistic] = {
    "MAE": lambda rows: mean_error(_labelled(rows)),
    "Spearman": lambda rows: spearman(_labelled(rows)),
    "slope": lambda rows: (line(_labelled(rows)) or (None, None))[0],
    "intercept": lambda rows: (line(_labelled(rows)) or (None, None))[1],
    "MAE to tags": lambda rows: mean_error([(score, other) for score, _, other in rows]),
}
