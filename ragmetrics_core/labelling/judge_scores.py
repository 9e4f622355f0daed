"""How well judges and metrics agree with the labels of a set, and the table that says so to people."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ragmetrics_core.data import MetricResult, Sample, Usage
from ragmetrics_core.engine.evaluation import iter_results
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.engine.run import JudgeLike
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.labelling.reviews import Reviews, labels_of, review_items
from ragmetrics_core.labelling.sets import AnySet, DiscreteSet
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy
from ragmetrics_core.models.reply_store import ReplyStore
from ragmetrics_core.statistics.rater_agreement import (
    Measured,
    accuracy,
    auroc,
    bootstrap,
    f1,
    line,
    mean_error,
    spearman,
)

Rows = Sequence[tuple[float, float]]
"""Score and label of each point."""
Statistic = Callable[[Rows], float | None]

PROMPTS = ("io", "cot")
DRAWS = 500
_FEW = 20
_NOT_EVIDENCE = "†"


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
        values: The statistics by name. A value is None where it is undefined, e.g.
            without both classes; an interval with a single document, too, or where all
            resamples agree.
    """

    judge: str
    prompt: str
    metric: str
    points: int
    missing: int
    documents: int
    usage: Usage
    values: dict[str, Measured]


def variants(
    metrics: Sequence[Metric], judge: Judge, prompts: Sequence[str]
) -> list[tuple[Metric, str]]:
    """Metrics with the prompts to try, which only an LLM judge reads, and only retrieval accuracy has."""
    found: list[tuple[Metric, str]] = []
    for metric in metrics:
        several = isinstance(metric, RetrievalAccuracy) and isinstance(judge, LLMJudge)
        found += (
            [(metric.model_copy(update={"extraction": it}), it) for it in prompts]
            if several
            else [(metric, "")]
        )
    return found


def samples_of(given: AnySet, metric: Metric) -> list[Sample]:
    """The samples to judge: a continuous set's documents where the metric has a matrix, else the points."""
    if isinstance(given, DiscreteSet):
        return [point.sample for point in given.points]
    if isinstance(metric, RetrievalAccuracy):
        return [document.sample() for document in given.documents]
    known = {document.id: document for document in given.documents}
    return [known[point.document].sample(point.contexts) for point in given.points]


def score_set(
    given: AnySet,
    reviews: Reviews | None,
    metric: Metric,
    judge: JudgeLike,
    *,
    prompt: str = "",
    threshold: float = 0.5,
    concurrency: int = 32,
    store: ReplyStore | None = None,
    progress: Any = False,
    draws: int = DRAWS,
) -> Score:
    """Score a judge's metric against a set.

    Args:
        given: The set.
        reviews: What people decided; None for the labels as they were made.
        metric: The metric.
        judge: A judge, or a name as in ``evaluate``.
        prompt: Name of the prompt, for the table.
        threshold: A discrete point counts as positive from this score on.
        concurrency: Most calls in flight.
        store: Where replies are kept.
        progress: As in ``evaluate``.
        draws: Resamples of the intervals.

    Returns:
        Accuracy, AUROC and F1 on a discrete set; mean absolute error, Spearman's
        correlation, and slope and intercept of the calibration line on a continuous
        one. Intervals resample documents.

    Raises:
        JudgeUnavailable: If the judge cannot answer any question.
    """
    judge, samples = (
        resolve_judge(judge, metric_model=metric.model),
        samples_of(given, metric),
    )
    run = iter_results(
        samples,
        [metric],
        judge=judge,
        concurrency=concurrency,
        store=store,
        progress=progress,
    )
    outcomes = [next(iter(row.results.values())) for row in run]
    if len(outcomes) < len(samples):
        # the run ended early and gave what it had, which is no score
        raise KeyboardInterrupt
    clusters, missing = dict[str, list[tuple[float, float]]](), 0
    names, scores = (
        [point.document for point in given.points],
        _scores(given, metric, outcomes),
    )
    for name, score, label in zip(
        names, scores, labels_of(given, reviews), strict=True
    ):
        if label is not None and score is not None:
            clusters.setdefault(name, []).append((score, label))
        missing += label is not None and score is None
    rows, points = list(clusters.values()), sum(map(len, clusters.values()))
    return Score(
        *(judge.name, prompt, metric.name, points, missing, len(clusters)),
        usage=sum((outcome.usage for outcome in outcomes), Usage()),
        values={
            name: _measured(name, rows, one, draws)
            for name, one in _statistics(given, threshold).items()
        },
    )


def _scores(
    given: AnySet, metric: Metric, outcomes: Sequence[MetricResult]
) -> list[float | None]:
    """The score of each point; of a combination from its document's matrix, without further calls."""
    if isinstance(given, DiscreteSet) or not isinstance(metric, RetrievalAccuracy):
        return [outcome.value for outcome in outcomes]
    named = zip((document.id for document in given.documents), outcomes, strict=True)
    found = {
        name: outcome.evidence for name, outcome in named if outcome.status == "scored"
    }
    matrices = [(found.get(point.document), point.contexts) for point in given.points]
    return [
        matrix.combine(own) if isinstance(matrix, AccuracyEvidence) else None
        for matrix, own in matrices
    ]


def _measured(
    name: str, clusters: Sequence[Rows], compute: Statistic, draws: int
) -> Measured:
    def pooled(own: Iterable[Rows]) -> float | None:
        return compute([row for rows in own for row in rows])

    interval = bootstrap([clusters], pooled, draws=draws) if len(clusters) > 1 else None
    return Measured(name, None, sum(map(len, clusters)), pooled(clusters), interval)


def _statistics(given: AnySet, threshold: float) -> dict[str, Statistic]:
    def verdicts(rows: Rows) -> list[tuple[bool, bool]]:
        return [(score >= threshold, label == 1) for score, label in rows]

    if isinstance(given, DiscreteSet):
        return {
            "accuracy": lambda rows: accuracy(verdicts(rows)),
            "AUROC": lambda rows: auroc([(score, label == 1) for score, label in rows]),
            "F1": lambda rows: f1(verdicts(rows)),
        }
    return {
        "MAE": mean_error,
        "Spearman": spearman,
        "slope": lambda rows: (line(rows) or (None, None))[0],
        "intercept": lambda rows: (line(rows) or (None, None))[1],
    }


def score_table(
    given: AnySet, reviews: Reviews | None, scores: Sequence[Score], *, name: str = ""
) -> str:
    """The table of scores with its heading, which names the set, and its caveats."""
    rows = [
        (
            "judge",
            "metric",
            "prompt",
            *(scores[0].values if scores else ()),
            "points",
            "calls",
            "cost",
        )
    ]
    rows += [_row(score, _mark(given, reviews, score)) for score in scores]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    title = f"{name}: {heading(given, reviews)}".removeprefix(": ")
    return "\n".join([title, *lines, *caveats(given, reviews, scores)])


def heading(given: AnySet, reviews: Reviews | None) -> str:
    """What agreement with the set's labels means."""
    kind, unit = (
        ("discrete", "points")
        if isinstance(given, DiscreteSet)
        else ("continuous", "cells")
    )
    total, done = (
        len(review_items(given)),
        len(reviews.first) if reviews is not None else 0,
    )
    if done == total:
        return f"{kind} set, agreement with reviewed labels"
    against = (
        "with the labelling model" if unit == "cells" else "with the retriever's ranks"
    )
    seen = (
        f"no {unit} reviewed" if not done else f"only {done} of {total} {unit} reviewed"
    )
    return f"{kind} set, agreement {against}, not accuracy ({seen})"


def _row(score: Score, marks: str) -> tuple[str, ...]:
    cost = "unknown" if score.usage.cost is None else f"${score.usage.cost:.4f}"
    calls = f"{score.usage.calls}" + (
        f" + {score.usage.stored} stored" if score.usage.stored else ""
    )
    shown = f"{score.points}" + (f" ({score.missing} missing)" if score.missing else "")
    cells = [
        ("undefined" if one.value is None else f"{one.value:.3f}")
        + ("" if one.interval is None else " [{:.3f}, {:.3f}]".format(*one.interval))
        for one in score.values.values()
    ]
    return (
        f"{score.judge}{marks}",
        score.metric,
        score.prompt or "-",
        *cells,
        shown,
        calls,
        cost,
    )


def _mark(given: AnySet, reviews: Reviews | None, score: Score) -> str:
    """The sign of a judge that word overlap with BM25's ranks favours; "" for others."""
    whole = reviews is not None and len(reviews.first) == len(review_items(given))
    labelled_by_words = (
        isinstance(given, DiscreteSet)
        and given.header.parameters.get("retriever") == "bm25"
        and not whole
    )
    judged_by_words = score.judge.startswith("lexical")
    return _NOT_EVIDENCE if labelled_by_words and judged_by_words else ""


def caveats(
    given: AnySet, reviews: Reviews | None, scores: Sequence[Score]
) -> list[str]:
    """What must stand under the table."""
    is_marked = any(_mark(given, reviews, score) for score in scores)
    documents = max((score.documents for score in scores), default=0)
    few = (
        f" {documents} documents are few: the intervals are too narrow."
        if documents < _FEW
        else ""
    )
    lines = [
        composition(given, reviews),
        f"Intervals (95 %) resample the {documents} documents.{few}",
    ]
    if documents < 2:
        lines[1] = (
            "One document: no intervals, because the points of a document hang"
            " together."
        )
    if is_marked:
        lines.append(
            f"{_NOT_EVIDENCE} not evidence: the judge counts words, and so do the BM25"
            " ranks that are the labels."
        )
    if isinstance(given, DiscreteSet):
        lines.append(
            "Accuracy and F1: a point counts as positive from the threshold on, 0.5 if"
            " none was given."
        )
    return lines


def composition(given: AnySet, reviews: Reviews | None) -> str:
    """How many points there are, and how skewed they are."""
    labels = labels_of(given, reviews)
    ones, zeros, left = labels.count(1), labels.count(0), labels.count(None)
    if isinstance(given, DiscreteSet):
        return (
            f"{len(labels) - left} points: {ones} positive, {zeros} negative; {left}"
            " left out as ambiguous."
        )
    skew, full = (
        given.skew(),
        max((document.golden for document in given.documents), default=0),
    )
    spread = ", ".join(f"{golden}: {count}" for golden, count in skew.items())
    return (
        f"{len(labels)} points of {len(given.documents)} documents, skewed:"
        f" {skew.get(0, 0)} hold no golden chunk, {skew.get(full, 0)} all of them"
        f" (points by golden chunks: {spread}); {ones} are labelled 1, {zeros} are"
        f" labelled 0, {left} left out."
    )
