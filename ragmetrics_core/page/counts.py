"""What the page says of each metric in a sentence that counts.

Each sentence holds for the rows that are counted, and for no others.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ragmetrics_core.data import (
    EMBEDDED,
    JudgedChunks,
    Polled,
    SampleResult,
    Scored,
    Undefined,
)
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.lexical.constants import ADHERENT, FACT, WITH_VECTORS
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.reporting.summary import MetricSummary
from ragmetrics_core.statistics.stopping import ROUNDING

_HALF = 0.5
_ON_ANSWERS = ("context_recall", "context_adherence")
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
    gloss: str = ""  # beside the name, where that misleads


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
        "the expected answer mostly or wholly",
        "Does the answer match the expected answer?",
        "The answer is rated by how much of the reference, the expected answer, it"
        " holds. Counted: a score from 0.65 on.",
        "scores the answer against the expected answer",
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
    "context_sufficiency": Wording(
        "retrieval",
        "shows",
        "show",
        "enough to answer",
        "Could the question be answered from the text that was shown?",
        "The judge reads the question and the texts that the application showed its"
        " model, and no answer; the score is the probability that they are enough."
        " Counted: a score over one half.",
    ),
    "answer_relevance": Wording(
        "answer",
        "addresses",
        "address",
        "the question at least in part",
        "Does the answer address the question?",
        "The answer is graded from 0 to 3 by how much of the question it addresses,"
        " whatever is true. Counted: a score of one half or more, as grade 2 has.",
    ),
    "retrieval_ranking": Wording(
        "retrieval",
        "ranks",
        "rank",
        "the expected passages high",
        "Does the search rank the expected passages high?",
        "The ranks of the passages that the data set expects are measured; no judge is"
        " asked. Counted: a score of one half or more.",
    ),
    "citation_quality": Wording(
        "answer",
        "has",
        "have",
        "citations that score one half or more",
        "Do the citations of the answer hold?",
        "Each sentence with a claim is held against the texts that it cites. The score"
        " is high where these support it and none of them is needless. Counted: a score"
        " of one half or more.",
    ),
}
"""The shipped metrics; any other is told by its score."""


def metric_with_gloss(metric: str) -> str:
    """The name of a metric, with what it scores where the name misleads."""
    wording = WORDINGS.get(metric)
    if wording is None or not wording.gloss:
        return metric
    return f"{metric} ({wording.gloss})"


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
    "context_sufficiency": _over_half,
}


def verdict_on(metric: str, result: Scored) -> bool | None:
    """Whether the sentence of a metric holds for a row; None where that is not known.

    For metrics without a sentence of their own it holds from a score of one half on.
    """
    return _HOLDS.get(metric, _half_or_more)(result)


def highest_of(result: Scored) -> float:
    """The highest score that the judge of a result could have given there.

    The embedded judge adds up what texts share, so that some of its scores end below 1:
    adherence, and retrieval accuracy where it split the reference itself.
    """
    if result.judge not in EMBEDDED:
        return 1.0
    evidence = result.evidence
    if isinstance(evidence, Polled):
        weights = ADHERENT if result.judge == "lexical" else WITH_VECTORS
        return weights.highest
    if isinstance(evidence, AccuracyEvidence) and evidence.combination == "soft":
        return FACT.highest
    return 1.0


def is_good_answer(row: SampleResult) -> bool:
    """Whether all that is known of a row's answer speaks for it.

    It matches the expected answer and rests on the retrieved text. If only one of the
    two was scored, that one decides. An answer that declines is not good, nor is an
    answer without any score.
    """
    for result in row.results.values():
        if isinstance(result, Undefined) and result.code == "abstained":
            return False
    verdicts = []
    for metric in _ON_ANSWERS:
        scored = row.results.get(metric)
        if isinstance(scored, Scored):
            verdicts.append(verdict_on(metric, scored))
    return bool(verdicts) and all(verdicts)


class MetricCounts:
    """What is counted of the scored rows of one metric."""

    def __init__(self) -> None:
        # for how many rows the metric's sentence holds, and for how many it does not
        self.verdicts = Counter[bool]()
        # of those for which it does not hold
        self.groups_against = Counter[str]()
        self._sum_of_highest = 0.0
        self._n_scored = 0

    def add(self, metric: str, result: Scored, groups: Iterable[str]) -> None:
        """Count the score of a row of one metric.

        Args:
            metric: Name of the metric.
            result: The score.
            groups: The groups in which the row stands.
        """
        self._sum_of_highest += highest_of(result)
        self._n_scored += 1
        verdict = verdict_on(metric, result)
        if verdict is None:
            return
        self.verdicts[verdict] += 1
        if not verdict:
            self.groups_against.update(groups)

    @property
    def highest_mean(self) -> float:
        """The highest mean that the judge could have given to these rows."""
        if not self._n_scored:
            return 1.0
        return min(1.0, self._sum_of_highest / self._n_scored)

    def sentences(self, numbers: MetricSummary) -> str:
        """Say what the metric found, and what its mean leaves out or cannot reach.

        A judge may be unable to give some samples a score of 1; then the highest mean
        that it can give is named. Example: "80 of 100 answers are supported. Not scored:
        2 failed. Highest mean this judge can give: 0.950."
        """
        # ``verdicts`` counts the rows whose verdict is a yes, and those where it is a
        # no
        rows = Counted(holds=self.verdicts[True], of=self.verdicts.total())
        words = sentence_of(numbers, rows)
        if has_too_few(numbers):
            words = f"{words.removesuffix('.')}: too few to say,"
            words += f" {numbers.limits.count:,} wanted."
        if numbers.count and numbers.unscored_in_words:
            words += f" Not scored: {numbers.unscored_in_words}."
        if self.highest_mean < 1 - ROUNDING:
            words += f" Highest mean this judge can give: {self.highest_mean:.3f}"
            interval = numbers.interval
            if interval is not None and interval.high > self.highest_mean + ROUNDING:
                words += " (the interval ignores that)"
            words += "."
        return words


def has_too_few(numbers: MetricSummary) -> bool:
    """Whether a metric scored some rows, and too few to say anything."""
    return 0 < numbers.count < numbers.limits.count


def sentence_of(numbers: MetricSummary, rows: Counted) -> str:
    """Say what a metric found, such as "80 of 100 answers are supported.".

    Args:
        numbers: The metric's numbers.
        rows: How many rows have a verdict (``of``), and how many of the verdicts are a
            yes (``holds``). If no row has a verdict, the sentence counts the scored
            rows.
    """
    if not numbers.count:
        why_unscored = numbers.unscored_in_words
        if why_unscored:
            return f"No row was scored: {why_unscored}."
        return "No row was scored."
    # a metric that ships has words of its own for what it counts
    wording = WORDINGS.get(numbers.metric)
    if not rows.of:
        noun = "row" if wording is None else wording.noun
        return f"{count_in_words(numbers.count, noun)} scored."
    if wording is None:
        verb = "scores" if rows.holds == 1 else "score"
        all_rows = count_in_words(rows.of, "row")
        return f"{rows.holds:,} of {all_rows} {verb} one half or more."
    verb = wording.one_does if rows.holds == 1 else wording.many_do
    nouns = count_in_words(rows.of, wording.noun)
    return f"{rows.holds:,} of {nouns} {verb} {wording.what}."
