"""The page of a comparison: better, worse, same; the rows that moved; both answers."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from ragmetrics_core.data import SampleResult
from ragmetrics_core.data.display import one_line
from ragmetrics_core.page.render import write_html
from ragmetrics_core.page.sample_rows import cut
from ragmetrics_core.page.wordings import WORDINGS
from ragmetrics_core.reporting.changed_samples import Changed
from ragmetrics_core.reporting.comparison import Comparison
from ragmetrics_core.reporting.metric_change import MetricChange
from ragmetrics_core.statistics.stopping import ROUNDING

_LONGEST_DIFF = 4000
_MOST_SAMPLES = 15
_MOST_MOVED = 25
_LONGEST_QUESTION = 120
_LEAST_AXIS_LIMIT = 0.01
_SAYS_NOTHING = ("cannot tell", "not tested")

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
    def has_lost(self) -> bool:
        """Whether it scored less in some metric."""
        return any(change.second < change.first - ROUNDING for change in self.scores)

    @property
    def worst_change(self) -> float:
        """The change of the metric that lost most, or gained least."""
        return min(change.second - change.first for change in self.scores)

    @property
    def answers(self) -> tuple[list[Piece], list[Piece]]:
        """Both answers, with what stands in one of them only."""
        first, second = map(_answer_of, self.pair)
        return _pieces_of_answers(first, second)


def write_comparison(path: str | Path, comparison: Comparison) -> None:
    """Write a comparison of two runs as one HTML page.

    It shows what is better, worse and the same, and the rows that moved. Then come the
    differences of all metrics with their intervals (a forest plot), and the most changed
    samples with both answers side by side: first those that lost, then those that won.
    Example: 30 samples lost and 4 won: those that lost most, then the 4, the largest
    gain first.
    """
    metrics = comparison.metrics_in_order
    # the samples that changed most, from the largest loss to the largest gain
    changed_samples = _changed_samples(comparison, metrics)
    lost = [sample for sample in changed_samples if sample.has_lost]
    won = [sample for sample in changed_samples if not sample.has_lost]
    won.reverse()  # the largest gain first
    drawn_changes = _changes_to_draw(comparison, metrics)
    lost_to_show = _lost_samples_to_show(lost, comparison)
    won_to_show = won[:_MOST_SAMPLES]
    moved = comparison.moved
    data = {
        "comparison": comparison,
        "by_verdict": _changes_by_verdict(comparison),
        "moved": moved[:_MOST_MOVED],
        "n_moved": len(moved),
        "shown_rows": {
            sample.pair[1].index + 1 for sample in (*lost_to_show, *won_to_show)
        },
        "question_of": _question_of,
        "wordings": WORDINGS,
        "drawn_changes": drawn_changes,
        "axis_limit": _axis_limit(comparison, drawn_changes),
        # counts all samples that lost; ``lost`` is only a selection of them
        "n_lost": _count_lost(comparison, metrics),
        # those that lost most, and then further samples that the page links to
        "lost": lost_to_show,
        "won": won_to_show,
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


def _question_of(change: Changed) -> str:
    """How the question of a row begins."""
    sample = change.second.sample
    return one_line((sample and sample.question) or "", _LONGEST_QUESTION)


def _lost_samples_to_show(
    lost: Sequence[ChangedSample], comparison: Comparison
) -> list[ChangedSample]:
    """Return the samples that lost most, and then further ones that the page links to.

    The first lines of the page link to three rows of each metric. These rows must be on
    the page, even if others lost more.
    """
    linked_rows: set[int] = set()
    for metric in comparison.metrics_in_order:
        linked_rows.update(comparison.rows_to_open(metric))
    others = [
        sample
        for sample in lost[_MOST_SAMPLES:]
        if sample.pair[1].index + 1 in linked_rows
    ]
    return [*lost[:_MOST_SAMPLES], *others]


def _changed_samples(
    comparison: Comparison, metrics: Sequence[str]
) -> list[ChangedSample]:
    """List the samples whose scores changed most, from the worst loss to the best gain.

    Example: changes of one metric by +.4, -.2, +.1 and -.5 stand as -.5, -.2, +.1, +.4.
    A sample that lost in one metric and gained in another stands among the losses.

    Args:
        comparison: Both runs.
        metrics: The metrics whose scores are listed with each sample.
    """
    # By the sample's row in the second run. A sample whose scores changed in two
    # metrics stands in ``most_changed`` twice, and here once.
    sample_by_row: dict[int, ChangedSample] = {}
    for change in comparison.most_changed:
        pair = (change.first, change.second)
        sample = ChangedSample(_score_changes(pair, metrics), pair)
        sample_by_row[change.second.index] = sample
    losing_samples = []
    for change in comparison.lost_most:  # each sample once, the worst loss first
        losing_samples.append(sample_by_row.pop(change.second.index))
    gaining_samples = sorted(sample_by_row.values(), key=_gain_then_row)
    return [*losing_samples, *gaining_samples]


def _gain_then_row(sample: ChangedSample) -> tuple[float, int]:
    """Sort key: the smallest gain first; of equal gains the earlier row."""
    first_result, _ = sample.pair
    return sample.worst_change, first_result.index


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
        if change.slice is None or change.verdict not in _SAYS_NOTHING
    ]
    return sorted(changes, key=lambda change: metrics.index(change.metric))


def _axis_limit(comparison: Comparison, changes: Iterable[MetricChange]) -> float:
    """How far the axis of the forest plot reaches to either side of 0."""
    limit = max(comparison.margin, _LEAST_AXIS_LIMIT)
    for change in changes:
        if change.interval is not None:
            limit = max(limit, abs(change.interval.low), abs(change.interval.high))
    return limit


def _count_lost(comparison: Comparison, metrics: Sequence[str]) -> int:
    """Count the samples that scored less in some metric, of all samples."""
    n_lost = 0
    for pair in comparison.matched.pairs:
        sample = ChangedSample(_score_changes(pair, metrics), pair)
        n_lost += sample.has_lost
    return n_lost


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
