"""How far two answers are from each other, and what that says of a passage. Pure."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import combinations
from typing import Literal

from ragmetrics_core.data import Instructions, Part, Question, SilentData
from ragmetrics_core.data.replies import Bit, Comment
from ragmetrics_core.lexical.text import canonical_words

Change = Literal["same", "other", "in doubt", "varies", "unknown"]
"""Whether an answer says the same as those to the whole prompt.

``in doubt`` is for a judge to decide, and ``unknown`` if there is no answer or verdict;
``varies``: the answer varies as much by itself.
"""

_SURELY_ANOTHER = 0.5
_TEMPLATE = (
    files("ragmetrics_core.measured_use")
    .joinpath("same_answer.txt")
    .read_text(encoding="utf-8")
)


def effect(answer: str, other: str) -> float:
    """Return 1 - word F1 of two answers: 0 for the same words, 1 for none in common.

    Words are counted with their repetitions, whatever their order (SQuAD's F1).

    Examples:
        >>> effect("It opened in 1874.", "it opened in 1874"), effect("Yes.", "No.")
        (0.0, 1.0)
    """
    words, other_words = (
        Counter(canonical_words(answer)),
        Counter(canonical_words(other)),
    )
    n_words = words.total() + other_words.total()
    if n_words == 0:
        return 0.0 if answer.strip() == other.strip() else 1.0
    return 1 - 2 * (words & other_words).total() / n_words


@dataclass(frozen=True)
class Repeats:
    """The answers to the whole prompt, with which others are compared.

    What a passage that the model does not read does to them is bounded, whatever the
    model: of n + 2 answers to one prompt at most one choice of two lies farther from
    the others than these from each other. So two answers without such a passage are
    both ``other`` in at most 1 of (n + 2)(n + 1) / 2 cases.

    Attributes:
        answers: At least two answers to one prompt.
    """

    answers: tuple[str, ...]

    @cached_property
    def spread(self) -> float:
        """How far they are from each other at most."""
        return max(effect(*pair) for pair in combinations(self.answers, 2))

    @cached_property
    def are_alike(self) -> bool:
        """Whether all have the same words and signs."""
        first = self.answers[0]
        return all(_read_alike(first, answer) for answer in self.answers)

    @cached_property
    def are_by_turns(self) -> bool:
        """Whether some have the same words, and another is surely another answer.

        The model then chooses among few answers, and may by chance choose one again.
        """
        effects = [effect(*pair) for pair in combinations(self.answers, 2)]
        return min(effects) == 0 and max(effects) >= _SURELY_ANOTHER

    def effect_on(self, answer: str) -> float:
        """Return how far an answer is from the nearest of them."""
        return min(effect(answer, whole) for whole in self.answers)

    def change(self, answer: str) -> Change:
        """Tell by words whether an answer says the same as they do.

        Example: they are equal. The same words and signs again are the same, an answer
        that shares fewer than half is another, and all between is in doubt. So is one
        whose words all stand in the other: it may only be longer.
        """
        distance = self.effect_on(answer)
        if self.spread >= _SURELY_ANOTHER or (self.spread and distance <= self.spread):
            return "varies"
        if self.are_alike and _read_alike(answer, self.answers[0]):
            return "same"
        words = set(canonical_words(answer))
        words_of_whole = [set(canonical_words(whole)) for whole in self.answers]
        is_within = any(words <= each or each <= words for each in words_of_whole)
        return "other" if distance >= _SURELY_ANOTHER and not is_within else "in doubt"


def _read_alike(answer: str, other: str) -> bool:
    """Whether two answers have the same words in one order, and the same signs.

    Those that say something: of sums, currencies and pictures, %, # and -. "A beat B"
    and "B beat A" have the same words, "x > 3" and "x < 3", too.
    """

    def signs(text: str) -> list[str]:
        return [
            sign
            for sign in text
            if sign in "%#-" or unicodedata.category(sign)[0] == "S"
        ]

    are_same_words = canonical_words(answer) == canonical_words(other)
    return are_same_words and signs(answer) == signs(other)


class SameReply(SilentData, extra="ignore"):
    """Whether two answers say the same, behind the reason."""

    reason: Comment = ""
    same: Bit


class SameAnswer(Question[SameReply]):
    """Do two answers say the same, as to the question? Parts: question, answer, other."""


def same_answer(question: str | None, answer: str, other: str) -> SameAnswer:
    """Ask a judge whether two answers to a question say the same."""
    return SameAnswer(
        parts={
            "question": Part("Question", question),
            "answer": Part("First answer", answer),
            "other": Part("Second answer", other),
        },
        instructions=Instructions(_TEMPLATE),
        Reply=SameReply,
        example=SameReply(reason="Both name the year 1874.", same=True),
    )


def likeliest_pair(
    among: Collection[int], passages: Sequence[str], answer: str, other: str
) -> tuple[int, int]:
    """Return the two passages that most likely hold the same, which an answer rests on.

    They share most of the words that the answer loses without all of them.

    Args:
        among: The places of at least two passages to choose from.
        passages: The texts of all passages.
        answer: The answer to the whole prompt.
        other: The answer without all passages in ``among``.
    """
    lost = Counter(canonical_words(answer)) - Counter(canonical_words(other))
    words_of = {place: Counter(canonical_words(passages[place])) for place in among}

    def likelihood(pair: tuple[int, int]) -> tuple[int, float]:
        first, second = pair
        shared = words_of[first] & words_of[second]
        n_words = words_of[first].total() + words_of[second].total()
        # by the words lost that both hold, then by how alike they are
        return (shared & lost).total(), shared.total() / max(n_words, 1)

    return max(combinations(sorted(among), 2), key=likelihood)
