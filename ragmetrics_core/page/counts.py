"""What the page says of each metric in a sentence that counts.

Each sentence holds for the rows that are counted, and for no others.
"""

from collections.abc import Callable
from typing import NamedTuple

from ragmetrics_core.data import JudgedChunks, Scored
from ragmetrics_core.reporting.summary import MetricSummary, counted
from ragmetrics_core.statistics.stopping import ROUNDING

_HALF = 0.5
_MOSTLY = 0.65  # where the rubric of the reference calls a match mostly right


class Counted(NamedTuple):
    """For how many scored rows a sentence holds, and of how many that can be said."""

    holds: int
    of: int


class Wording(NamedTuple):
    """How a metric is told: of what, that it does (one, many) what, and how it is seen."""

    noun: str
    one_does: str
    many_do: str
    what: str
    asks: str
    explanation: str


WORDINGS = {
    "context_utilization": Wording(
        "retrieval",
        "puts",
        "put",
        "a useful text first",
        "Do useful texts come first?",
        "Each retrieved text is judged useful or not to arrive at the answer; the score"
        " is high where the useful ones come first. Counted: a useful text in first"
        " place.",
    ),
    "context_adherence": Wording(
        "answer",
        "rests",
        "rest",
        "on the retrieved text",
        "Does the answer rest on the retrieved text?",
        "Each claim of the answer is held against the retrieved texts: does anything in"
        " them support it? Counted: a score over one half.",
    ),
    "context_recall": Wording(
        "answer",
        "matches",
        "match",
        "the reference mostly or wholly",
        "Does the answer match the reference?",
        "The answer is rated by how much of the reference it holds. Counted: a score"
        " from 0.65 on.",
    ),
    "retrieval_accuracy": Wording(
        "retrieval",
        "finds",
        "find",
        "at least half of what is needed",
        "Does the retrieved text hold what is needed?",
        "Each fact of the reference is looked for in the retrieved texts; a fact may"
        " weigh more than another. Counted: a score of one half or more.",
    ),
}
"""The shipped metrics; any other is told by its score."""


def _useful_text_first(result: Scored) -> bool | None:
    """Whether the first text was judged useful.

    None where no verdict on it is known.
    """
    evidence = result.evidence
    if not isinstance(evidence, JudgedChunks) or not evidence.chunks:
        return None
    return min(evidence.chunks, key=lambda chunk: chunk.rank).useful


def _over_half(result: Scored) -> bool:
    return result.value > _HALF + ROUNDING


def _mostly(result: Scored) -> bool:
    return result.value >= _MOSTLY - ROUNDING


def _half_or_more(result: Scored) -> bool:
    return result.value >= _HALF - ROUNDING


_HOLDS: dict[str, Callable[[Scored], bool | None]] = {
    "context_utilization": _useful_text_first,
    "context_adherence": _over_half,
    "context_recall": _mostly,
}


def verdict_on(metric: str, result: Scored) -> bool | None:
    """Whether the sentence of a metric holds for a row; None where that is not known.

    For metrics without a sentence of their own it holds from a score of one half on.
    """
    return _HOLDS.get(metric, _half_or_more)(result)


def sentence_of(numbers: MetricSummary, rows: Counted) -> str:
    """What a metric found, in a sentence that says what it counts."""
    if not numbers.count:
        return "No row was scored."
    wording = WORDINGS.get(numbers.metric)
    if not rows.of:
        noun = "row" if wording is None else wording.noun
        return f"{counted(numbers.count, noun)} scored."
    if wording is None:
        verb = "scores" if rows.holds == 1 else "score"
        all_rows = counted(rows.of, "row")
        return f"{rows.holds:,} of {all_rows} {verb} one half or more."
    verb = wording.one_does if rows.holds == 1 else wording.many_do
    nouns = counted(rows.of, wording.noun)
    return f"{rows.holds:,} of {nouns} {verb} {wording.what}."
