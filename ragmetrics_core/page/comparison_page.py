"""The page of a comparison: better, worse, same; the rows that moved; both answers."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from ragmetrics_core.data import EMBEDDED, SampleResult
from ragmetrics_core.data.display import one_line
from ragmetrics_core.page.render import write_html
from ragmetrics_core.page.sample_rows import cut
from ragmetrics_core.reporting.comparison import Changed, Comparison
from ragmetrics_core.reporting.glance import question_of
from ragmetrics_core.reporting.metric_change import MetricChange

_LONGEST_DIFF = 4000
_MOST_SAMPLES = 15
_MOST_MOVED = 25
_LONGEST_QUESTION = 120
_LEAST_AXIS_LIMIT = 0.01

Piece = tuple[str, bool]
"""A piece of an answer, with whether it stands in one of the two answers only."""


class ScoreChange(NamedTuple):
    """The scores of one metric in both runs."""

    metric: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class ChangedSample:
    """A sample that both runs scored, with both answers in pieces."""

    scores: list[ScoreChange]
    pair: tuple[SampleResult, SampleResult]

    @property
    def answers(self) -> tuple[list[Piece], list[Piece]]:
        """Both answers, with what stands in one of them only."""
        first, second = map(_answer_of, self.pair)
        return _pieces_of_answers(first, second)


def write_comparison(path: str | Path, comparison: Comparison) -> None:
    """Write a comparison of two runs as one HTML page.

    It shows what is better, worse and the same, and the rows that moved. Then come the
    differences of all metrics with their intervals (a forest plot), and the rows that
    lost most and won most, with both answers side by side.
    """
    metrics = comparison.metrics_in_order
    moved = comparison.moved  # those that lost most first
    lost = [change for change in moved if change.difference < 0]
    won = [change for change in moved if change.difference > 0]
    drawn_changes = _changes_to_draw(comparison, metrics)
    shown = [*lost[:_MOST_SAMPLES], *won[:_MOST_SAMPLES]]
    data = {
        "comparison": comparison,
        "by_verdict": _changes_by_verdict(comparison),
        "moved": moved[:_MOST_MOVED],
        "n_moved": len(moved),
        "shown_rows": {change.second.number for change in shown},
        "question_of": _question_of,
        "asks": _questions_of(comparison),
        "drawn_changes": drawn_changes,
        "axis_limit": _axis_limit(comparison, drawn_changes),
        "n_lost": len(lost),
        "lost": [_changed_sample(change, metrics) for change in lost[:_MOST_SAMPLES]],
        "won": [_changed_sample(change, metrics) for change in won[:_MOST_SAMPLES]],
    }
    # () for no scripts
    write_html(path, "comparison.html.j2", (), data)


def _changes_by_verdict(comparison: Comparison) -> dict[str, list[MetricChange]]:
    """Sort the changes over all samples into worse, better and same.

    What cannot be told has a place only where there is such a change.
    """
    changes_by_verdict: dict[str, list[MetricChange]] = {
        "worse": [],
        "better": [],
        "same": [],
    }
    for change in comparison.over_all_samples:
        verdict = "same" if change.verdict == "identical" else change.verdict
        changes_by_verdict.setdefault(verdict, []).append(change)
    return changes_by_verdict


def _questions_of(comparison: Comparison) -> dict[str, str]:
    """By metric what it asks, as far as its judges can tell."""
    by_words = set(comparison.judges) == {EMBEDDED}
    return {
        metric: question_of(metric, {}, by_words=by_words)
        for metric in comparison.metrics_in_order
    }


def _changed_sample(change: Changed, metrics: Sequence[str]) -> ChangedSample:
    """A row that moved, with all its scores and both answers."""
    pair = (change.first, change.second)
    return ChangedSample(_score_changes(pair, metrics), pair)


def _question_of(change: Changed) -> str:
    """How the question of a row begins."""
    sample = change.second.sample
    return one_line((sample and sample.question) or "", _LONGEST_QUESTION)


def _score_changes(
    pair: tuple[SampleResult, SampleResult], metrics: Iterable[str]
) -> list[ScoreChange]:
    """The metrics that were scored in both runs, with both scores."""
    changes = []
    for metric in metrics:
        first, second = (_score(row, metric) for row in pair)
        if first is not None and second is not None:
            changes.append(ScoreChange(metric, first, second))
    return changes


def _score(row: SampleResult, metric: str) -> float | None:
    result = row.results.get(metric)
    return None if result is None else result.value


def _changes_to_draw(
    comparison: Comparison, metrics: Sequence[str]
) -> list[MetricChange]:
    """List the changes to draw: all metrics, and the slices with a verdict."""
    changes = [
        change
        for change in comparison.changes
        if change.slice is None or change.verdict != "cannot tell"
    ]
    return sorted(changes, key=lambda change: metrics.index(change.metric))


def _axis_limit(comparison: Comparison, changes: Iterable[MetricChange]) -> float:
    """How far the axis of the forest plot reaches to either side of 0."""
    limit = max(comparison.margin, _LEAST_AXIS_LIMIT)
    for change in changes:
        if change.interval is not None:
            limit = max(limit, abs(change.interval.low), abs(change.interval.high))
    return limit


def _answer_of(row: SampleResult) -> str:
    return (row.sample.answer if row.sample else None) or ""


def _pieces_of_answers(first: str, second: str) -> tuple[list[Piece], list[Piece]]:
    """Split two answers into pieces, to mark what only one of them says.

    Each piece comes with a truth value: True if the other answer lacks it. Example:
    "It is Porto." beside "It is Faro.": [("It is ", False), ("Porto.", True)] and its
    counterpart. Long answers are cut and not compared: each is a single piece.
    """
    is_long = max(len(first), len(second)) > _LONGEST_DIFF
    if is_long or first == second:
        return [(cut(first), False)], [(cut(second), False)]
    # each word with the white space behind it
    first_words = re.findall(r"\S+\s*|\s+", first)
    second_words = re.findall(r"\S+\s*|\s+", second)
    first_pieces: list[Piece] = []
    second_pieces: list[Piece] = []
    matcher = SequenceMatcher(None, first_words, second_words, autojunk=False)
    # each step is a range of words of the first answer and one of the second
    for kind, first_start, first_end, second_start, second_end in matcher.get_opcodes():
        is_in_one_only = kind != "equal"
        first_text = "".join(first_words[first_start:first_end])
        second_text = "".join(second_words[second_start:second_end])
        if first_text:
            first_pieces.append((first_text, is_in_one_only))
        if second_text:
            second_pieces.append((second_text, is_in_one_only))
    return first_pieces, second_pieces
