"""How well judges and metrics agree with the labels of a set, as a table."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from ragmetrics_core.data import MetricResult, Sample, Usage
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.engine.evaluation import iter_results
from ragmetrics_core.engine.resolve import JudgeLike, resolve_judge
from ragmetrics_core.labelling.reviews import Reviews, labels_of, review_items
from ragmetrics_core.labelling.sets import (
    AnySet,
    CombinationPoint,
    ContinuousSet,
    DiscretePoint,
    DiscreteSet,
)
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
"""Score and label of each point, both from 0 to 1."""
Statistic = Callable[[Rows], float | None]

DRAWS = 500
_FEW_DOCUMENTS = 20
_CAVEAT_MARK = "†"


@dataclass(frozen=True)
class Score:
    """One judge with one metric on one set.

    Attributes:
        judge: Name of the judge.
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
    metric: str
    points: int
    missing: int
    documents: int
    usage: Usage
    values: dict[str, Measured]


def samples_to_judge(labelled_set: AnySet, metric: Metric) -> list[Sample]:
    """Return the samples to judge: one for each point of the set.

    Only retrieval accuracy on a continuous set gets one sample for each document, with
    all its contexts; see ``_scores_by_documents``.
    """
    if isinstance(labelled_set, DiscreteSet):
        return [point.sample for point in labelled_set.points]
    if isinstance(metric, RetrievalAccuracy):
        return [document.sample() for document in labelled_set.documents]
    document_by_id = {document.id: document for document in labelled_set.documents}
    return [
        document_by_id[point.document].sample(point.contexts)
        for point in labelled_set.points
    ]


def score_set(
    labelled_set: AnySet,
    reviews: Reviews | None,
    metric: Metric,
    judge: JudgeLike,
    *,
    threshold: float = 0.5,
    concurrency: int = 32,
    store: ReplyStore | None = None,
    progress: Any = False,
    draws: int = DRAWS,
) -> Score:
    """Measure how well a judge's scores agree with the labels of a set.

    A set has points: an answer with some contexts of a document, and a label. Scores
    .9, .8 and .2 for the labels 1, 0 and 0 are right in two of three: accuracy 2/3.

    Args:
        labelled_set: The set.
        reviews: What people decided; None for the labels as they were made.
        metric: The metric.
        judge: A judge, or a name as in ``evaluate``.
        threshold: The judge calls a point of a discrete set positive if its score is
            above this.
        concurrency: Most calls in flight.
        store: Where replies are kept.
        progress: As in ``evaluate``.
        draws: How many resamples of the documents the intervals rest on.

    Returns:
        The statistics that suit the kind of set, e.g. accuracy.

    Raises:
        JudgeUnavailable: If the judge can answer none of the questions.
        KeyboardInterrupt: If the run was interrupted: a part of the set gives no score.
    """
    judge = resolve_judge(judge, metric_model=metric.model)
    samples = samples_to_judge(labelled_set, metric)
    rows = iter_results(
        samples,
        [metric],
        judge=judge,
        concurrency=concurrency,
        store=store,
        progress=progress,
    )
    outcomes: list[MetricResult] = []
    usage = Usage()
    for row in rows:
        (outcome,) = row.results.values()
        outcomes.append(outcome)
        usage += outcome.usage
    # Retrieval accuracy on a continuous set has one outcome for each document, other
    # metrics have one for each point; see ``samples_to_judge``.
    scores: Sequence[float | None] = [outcome.value for outcome in outcomes]
    if isinstance(labelled_set, ContinuousSet) and isinstance(
        metric, RetrievalAccuracy
    ):
        scores = _scores_by_documents(labelled_set, outcomes)
    labels = labels_of(labelled_set, reviews)
    pairs_by_document, n_missing = _pairs_by_document(labelled_set, scores, labels)
    statistics = _statistics(labelled_set, threshold)
    return Score(
        judge=judge.name,
        metric=metric.name,
        points=sum(map(len, pairs_by_document)),
        missing=n_missing,
        documents=len(pairs_by_document),
        usage=usage,
        values={
            name: _measure(name, pairs_by_document, statistic, draws)
            for name, statistic in statistics.items()
        },
    )


def _pairs_by_document(
    labelled_set: AnySet, scores: Sequence[float | None], labels: Sequence[float | None]
) -> tuple[list[list[tuple[float, float]]], int]:
    """Group the pairs of score and label by document; count points without a score.

    Scores and labels stand in the order of the set's points. A point whose label is
    None is ambiguous: it is left out and not counted. Example: the scores .9, None and
    .4 with the labels 1, 1 and None give the pair (.9, 1), and 1 point without a score.

    Returns:
        A list of pairs for each document, and the number of points without a score.
    """
    pairs_by_id: dict[str, list[tuple[float, float]]] = {}
    n_missing = 0
    points: Sequence[DiscretePoint | CombinationPoint] = labelled_set.points
    for point, score, label in zip(points, scores, labels, strict=True):
        if label is None:
            continue
        if score is None:
            n_missing += 1
        else:
            pairs_by_id.setdefault(point.document, []).append((score, label))
    return list(pairs_by_id.values()), n_missing


def _scores_by_documents(
    labelled_set: ContinuousSet, outcomes: Sequence[MetricResult]
) -> list[float | None]:
    """Return retrieval accuracy of each point, from the outcomes on whole documents.

    A point holds some contexts of a document, such as the first and the third. The
    evidence says of each context which facts it holds, so that no selection of contexts
    is asked about again. A score is None if its document has none.
    """
    verdicts_by_document: dict[str, AccuracyEvidence] = {}
    for document, outcome in zip(labelled_set.documents, outcomes, strict=True):
        evidence = outcome.evidence
        if outcome.status == "scored" and isinstance(evidence, AccuracyEvidence):
            verdicts_by_document[document.id] = evidence
    scores: list[float | None] = []
    for point in labelled_set.points:
        verdicts = verdicts_by_document.get(point.document)
        scores.append(None if verdicts is None else verdicts.combine(point.contexts))
    return scores


def _measure(
    name: str, documents: Sequence[Rows], compute: Statistic, draws: int
) -> Measured:
    """Return a statistic over the points of all documents.

    Its interval resamples documents.
    """

    def compute_over(drawn_documents: Iterable[Rows]) -> float | None:
        return compute(list(chain.from_iterable(drawn_documents)))

    interval = bootstrap([documents], compute_over, draws=draws)
    n_points = sum(map(len, documents))
    return Measured(name, None, n_points, compute_over(documents), interval)


def _statistics(labelled_set: AnySet, threshold: float) -> dict[str, Statistic]:
    """Return the statistics that suit a set, by name.

    Each is a function of rows, which are pairs of a score and a label, such as (.7, 1).
    Labels of a continuous set are shares, and are compared with the scores as they are.
    Labels of a discrete set are 0 or 1: with a threshold of .5 a score of .7 is a yes.
    """
    if isinstance(labelled_set, ContinuousSet):
        return {
            "MAE": mean_error,
            "Spearman": spearman,
            "slope": partial(_slope_or_intercept, 0),
            "intercept": partial(_slope_or_intercept, 1),
        }

    def verdicts_and_labels(rows: Rows) -> list[tuple[bool, bool]]:
        return [(score > threshold, label == 1) for score, label in rows]

    return {
        "accuracy": lambda rows: accuracy(verdicts_and_labels(rows)),
        "AUROC": lambda rows: auroc([(score, label == 1) for score, label in rows]),
        "F1": lambda rows: f1(verdicts_and_labels(rows)),
    }


def _slope_or_intercept(index: int, rows: Rows) -> float | None:
    fitted = line(rows)
    return None if fitted is None else fitted[index]


def score_table(
    labelled_set: AnySet,
    reviews: Reviews | None,
    scores: Sequence[Score],
    *,
    name: str = "",
) -> str:
    """Lay out the scores of judges on a set as a table in plain text.

    A heading says whether people reviewed the labels. Below it stand the names of the
    columns, a ruler of dashes, a line for each score such as "lexical  context_recall
    …", and the caveats.

    Args:
        labelled_set: The set.
        reviews: What people decided about its labels, if anything.
        scores: The scores; each is a row of the table.
        name: Name of the set, for the heading.
    """
    statistic_names = tuple(scores[0].values) if scores else ()
    rows = [("judge", "metric", *statistic_names, "points", "calls", "cost")]
    marks = [_caveat_mark(labelled_set, reviews, score) for score in scores]
    rows += map(_cells_of_row, scores, marks)
    # the cells of a column below each other
    columns = zip(*rows, strict=True)
    widths = [max(len(cell) for cell in column) for column in columns]
    table_lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    ruler = "-" * max(map(len, table_lines))
    names_of_columns, *lines_of_scores = table_lines
    title = heading(labelled_set, reviews)
    if name:
        title = f"{name}: {title}"
    lines = [title, names_of_columns, ruler, *lines_of_scores]
    return "\n".join([*lines, *caveats(labelled_set, reviews, scores)])


def heading(labelled_set: AnySet, reviews: Reviews | None) -> str:
    """Return the heading of a table of scores: with whose labels a judge was compared.

    Agreement with the labels is accuracy only if people reviewed all of them. Until
    then the heading names who made the labels, and how many were reviewed: "(only 3 of
    10 points reviewed)".
    """
    kind, unit, labeller = "continuous", "cells", "the labelling model"
    if isinstance(labelled_set, DiscreteSet):
        kind, unit, labeller = "discrete", "points", "the retriever's ranks"
    total = len(review_items(labelled_set))
    n_reviewed = 0 if reviews is None else len(reviews.first)
    if n_reviewed == total:
        return f"{kind} set, agreement with reviewed labels"
    progress = f"no {unit} reviewed"
    if n_reviewed:
        progress = f"only {n_reviewed} of {total} {unit} reviewed"
    return f"{kind} set, agreement with {labeller}, not accuracy ({progress})"


def _cells_of_row(score: Score, caveat_mark: str) -> tuple[str, ...]:
    """Return the cells of a score's row in the table, in the order of the columns.

    Example: "gpt-4o†", "context_recall", the statistics, "30 (2 missing)",
    "64 + 3 stored", "$0.0120". ``caveat_mark`` is "" or, like this "†", refers to a
    caveat below the table.
    """
    points = str(score.points)
    if score.missing:
        points += f" ({score.missing} missing)"
    calls = str(score.usage.calls)
    if score.usage.stored:
        calls += f" + {score.usage.stored} stored"
    cost = "unknown" if score.usage.cost is None else f"${score.usage.cost:.4f}"
    statistic_cells = []
    for measured in score.values.values():
        cell = "undefined" if measured.value is None else f"{measured.value:.3f}"
        if measured.value is not None and measured.interval is not None:
            low, high = measured.interval
            cell += f" [{low:.3f}, {high:.3f}]"
        statistic_cells.append(cell)
    judge = f"{score.judge}{caveat_mark}"
    return (judge, score.metric, *statistic_cells, points, calls, cost)


def _caveat_mark(labelled_set: AnySet, reviews: Reviews | None, score: Score) -> str:
    """The mark of a score whose agreement with the labels is no evidence; "" for others.

    The lexical judge agrees with labels by BM25's ranks, because both count words.
    """
    n_reviewed = 0 if reviews is None else len(reviews.first)
    is_reviewed = n_reviewed == len(review_items(labelled_set))
    # of a discrete set alone
    is_ranked_by_words = labelled_set.header.parameters.get("retriever") == "bm25"
    is_judged_by_words = score.judge.startswith("lexical")
    is_no_evidence = is_ranked_by_words and is_judged_by_words and not is_reviewed
    return _CAVEAT_MARK if is_no_evidence else ""


def caveats(
    labelled_set: AnySet, reviews: Reviews | None, scores: Sequence[Score]
) -> list[str]:
    """Return what must stand under the table."""
    n_documents = max((score.documents for score in scores), default=0)
    on_intervals = (
        "One document: no intervals, because the points of a document hang together."
    )
    if n_documents > 1:
        on_intervals = f"Intervals (95 %) resample the {n_documents} documents."
        if n_documents < _FEW_DOCUMENTS:
            on_intervals += (
                f" {n_documents} documents are few: the intervals are too narrow."
            )
    lines = [composition(labelled_set, reviews), on_intervals]
    if any(_caveat_mark(labelled_set, reviews, score) for score in scores):
        lines.append(
            f"{_CAVEAT_MARK} not evidence: the judge counts words, and so do the BM25"
            " ranks that are the labels."
        )
    if isinstance(labelled_set, DiscreteSet):
        lines.append(
            "Accuracy and F1: a point counts as positive above the threshold, 0.5 if"
            " none was given."
        )
    return lines


def composition(labelled_set: AnySet, reviews: Reviews | None) -> str:
    """Say in a sentence how many points a set has, and how many of each label.

    Example: "30 points: 15 positive, 15 negative; 0 left out as ambiguous." A set of
    documents is called skewed: most of its chunks have the label 0, so that a judge
    often agrees by chance.

    Args:
        labelled_set: The set.
        reviews: What people decided about its labels, if anything.
    """
    labels = labels_of(labelled_set, reviews)
    n_ones = labels.count(1)
    n_zeros = labels.count(0)
    n_ambiguous = labels.count(None)
    if isinstance(labelled_set, DiscreteSet):
        return (
            f"{len(labels) - n_ambiguous} points: {n_ones} positive, {n_zeros} negative;"
            f" {n_ambiguous} left out as ambiguous."
        )
    documents = labelled_set.documents
    n_points_by_n_golden = labelled_set.skew()
    most_golden = max((document.golden for document in documents), default=0)
    n_without_golden = n_points_by_n_golden.get(0, 0)
    n_with_all_golden = n_points_by_n_golden.get(most_golden, 0)
    spread = ", ".join(
        f"{n_golden}: {n_points}" for n_golden, n_points in n_points_by_n_golden.items()
    )
    return (
        f"{len(labels)} points of {count_in_words(len(documents), 'document')}, skewed:"
        f" {n_without_golden} hold no golden chunk, {n_with_all_golden} all of them"
        f" (points by golden chunks: {spread}); {n_ones} are labelled 1, {n_zeros} are"
        f" labelled 0, {n_ambiguous} left out."
    )
