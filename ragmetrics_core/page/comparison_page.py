"""The page of a comparison: better, worse, same; the rows that moved; both answers."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from ragmetrics_core.data import EMBEDDED, SampleResult
from ragmetrics_core.data.display import one_line
from ragmetrics_core.page.render import write_html
from ragmetrics_core.page.sample_rows import cut
from ragmetrics_core.reporting.comparison import Changed, Comparison
from ragmetrics_core.reporting.metric_change import MetricChange
from ragmetrics_core.reporting.run_facts import question_of

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


class ChangedSample(NamedTuple):
    """A sample that both runs scored, with both answers in pieces."""

    scores: list[ScoreChange]
    pair: tuple[SampleResult, SampleResult]
    answers: tuple[list[Piece], list[Piece]]


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
    shown = [*lost[:_MOST_SAMPLES], *won[:_MOST_SAMPLES]]

    # what cannot be told has a place only where there is such a change
    by_verdict: dict[str, list[MetricChange]] = {"worse": [], "better": [], "same": []}
    for change in comparison.over_all_samples:
        verdict = "same" if change.verdict == "identical" else change.verdict
        by_verdict.setdefault(verdict, []).append(change)

    # drawn are all metrics, and the slices with a verdict
    drawn_changes = [
        change
        for change in comparison.changes
        if change.slice is None or change.verdict != "cannot tell"
    ]
    drawn_changes.sort(key=lambda change: metrics.index(change.metric))
    axis_limit = max(comparison.margin, _LEAST_AXIS_LIMIT)  # to either side of 0
    for change in drawn_changes:
        if change.interval is not None:
            ends = (abs(change.interval.low), abs(change.interval.high))
            axis_limit = max(axis_limit, *ends)

    by_words = set(comparison.judges) == {EMBEDDED}
    data = {
        "comparison": comparison,
        "by_verdict": by_verdict,
        "moved": moved[:_MOST_MOVED],
        "n_moved": len(moved),
        "shown_rows": {change.second.number for change in shown},
        "question_of": _question_of,
        "asks": {
            metric: question_of(metric, {}, by_words=by_words) for metric in metrics
        },
        "drawn_changes": drawn_changes,
        "axis_limit": axis_limit,
        "n_lost": len(lost),
        "lost": [_changed_sample(change, metrics) for change in lost[:_MOST_SAMPLES]],
        "won": [_changed_sample(change, metrics) for change in won[:_MOST_SAMPLES]],
    }
    # () for no scripts
    write_html(path, "comparison.html.j2", (), data)


def _changed_sample(change: Changed, metrics: Iterable[str]) -> ChangedSample:
    """A row that moved, with the scores that both runs have, and both answers."""
    pair = (change.first, change.second)
    scores = []
    for metric in metrics:
        first, second = change.first.score_of(metric), change.second.score_of(metric)
        if first is not None and second is not None:
            scores.append(ScoreChange(metric, first, second))
    first_answer, second_answer = [
        (row.sample and row.sample.answer) or "" for row in pair
    ]
    return ChangedSample(scores, pair, _pieces_of_answers(first_answer, second_answer))


def _question_of(change: Changed) -> str:
    """How the question of a row begins."""
    sample = change.second.sample
    return one_line((sample and sample.question) or "", _LONGEST_QUESTION)


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
