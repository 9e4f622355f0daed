"""Scores of judges on a set as a table for people, under a heading that says what the labels are, with caveats."""

from collections.abc import Sequence

from ragmetrics_core.datasets.reviews import Reviews, labelled_combinations, labelled_points, review_items
from ragmetrics_core.datasets.scoring import Score, Value
from ragmetrics_core.datasets.sets import AnySet, ContinuousSet, DiscreteSet
from ragmetrics_core.page.biases import family

_FEW = 20
_NOT_EVIDENCE = "†"
_FAMILY = "‡"


def score_table(given: AnySet, reviews: Reviews | None, scores: Sequence[Score], *, name: str = "") -> str:
    """The table of scores with its heading, which names the set, and its caveats."""
    rows = [("judge", "metric", "prompt", *(scores[0].values if scores else ()), "points", "calls", "cost")]
    rows += [_row(score, _marks(given, reviews, score)) for score in scores]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(
        [f"{name}: {heading(given, reviews)}".removeprefix(": "), *lines, *caveats(given, reviews, scores)]
    )


def heading(given: AnySet, reviews: Reviews | None) -> str:
    """What agreement with the set's labels means."""
    kind, unit = ("discrete", "points") if isinstance(given, DiscreteSet) else ("continuous", "cells")
    total, done = len(review_items(given)), len(reviews.first) if reviews is not None else 0
    if done == total:
        return f"{kind} set, agreement with reviewed labels"
    against = "with the labelling model" if unit == "cells" else "with the retriever's ranks"
    seen = f"no {unit} reviewed" if not done else f"only {done} of {total} {unit} reviewed"
    return f"{kind} set, agreement {against}, not accuracy ({seen})"


def _row(score: Score, marks: str) -> tuple[str, ...]:
    cost = "unknown" if score.usage.cost is None else f"${score.usage.cost:.4f}"
    calls = f"{score.usage.calls}" + (f" + {score.usage.stored} stored" if score.usage.stored else "")
    shown = f"{score.points}" + (f" ({score.missing} missing)" if score.missing else "")
    cells = map(_cell, score.values.values())
    return (f"{score.judge}{marks}", score.metric, score.prompt or "-", *cells, shown, calls, cost)


def _cell(value: Value) -> str:
    bounds = "" if value.interval is None else " [{:.3f}, {:.3f}]".format(*value.interval)
    return ("undefined" if value.value is None else f"{value.value:.3f}") + bounds


def _marks(given: AnySet, reviews: Reviews | None, score: Score) -> str:
    """Signs of a judge that word overlap with BM25's ranks, or its family, favours."""
    whole = reviews is not None and len(reviews.first) == len(review_items(given))
    circular = isinstance(given, DiscreteSet) and given.header.parameters.get("retriever") == "bm25" and not whole
    related = given.header.model and family(given.header.model) == family(score.judge) != ""
    return _NOT_EVIDENCE * (circular and score.judge.startswith("lexical")) + _FAMILY * bool(related)


def caveats(given: AnySet, reviews: Reviews | None, scores: Sequence[Score]) -> list[str]:
    """What must stand under the table."""
    marks = "".join(_marks(given, reviews, score) for score in scores)
    documents = max((score.documents for score in scores), default=0)
    few = f" {documents} documents are few: the intervals are too narrow." if documents < _FEW else ""
    lines = [composition(given, reviews), f"Intervals (95 %) resample the {documents} documents.{few}"]
    if documents < 2:
        lines[1] = "One document: no intervals, because the points of a document hang together."
    if _NOT_EVIDENCE in marks:
        lines.append(
            f"{_NOT_EVIDENCE} not evidence: the judge counts words, and so do the BM25 ranks that are the labels."
        )
    if _FAMILY in marks:
        made = "labelled the set" if isinstance(given, ContinuousSet) else "wrote the questions and answers"
        lines.append(f"{_FAMILY} of the same family as {given.header.model}, which {made}: it may favour its own.")
    if isinstance(given, ContinuousSet):
        lines.append(
            "MAE to tags: against the share of the response's sentences whose chunk is there, as their writer says."
        )
    else:
        lines.append("Accuracy and F1: a point counts as positive from the threshold on, 0.5 if none was given.")
    return lines


def composition(given: AnySet, reviews: Reviews | None) -> str:
    """How many points there are, and how skewed they are."""
    if isinstance(given, DiscreteSet):
        verdicts = [label for _, label in labelled_points(given, reviews)]
        yes, left = sum(verdicts), len(given.points) - len(verdicts)
        return f"{len(verdicts)} points: {yes} positive, {len(verdicts) - yes} negative; {left} left out as ambiguous."
    labels, skew = [label for _, label in labelled_combinations(given, reviews)], given.skew()
    full, left = max((document.golden for document in given.documents), default=0), len(given.points) - len(labels)
    spread = ", ".join(f"{golden}: {count}" for golden, count in skew.items())
    return (
        f"{len(given.points)} points of {len(given.documents)} documents, skewed: {skew.get(0, 0)} hold no golden "
        f"chunk, {skew.get(full, 0)} all of them (points by golden chunks: {spread}); "
        f"{labels.count(1)} are labelled 1, {labels.count(0)} are labelled 0, {left} left out."
    )
