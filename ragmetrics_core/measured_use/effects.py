"""How far two answers are from each other, and what that says of a passage. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Literal

from ragmetrics_core.lexical.text import canonical_words

Change = Literal["same", "other", "in doubt", "unknown"]
"""Whether an answer says the same as those to the whole prompt.

``in doubt`` is for a judge to decide; ``unknown``: the answer varies as much by itself.
"""

_SURELY_ANOTHER = 0.5


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


def spread_of(answers: Sequence[str]) -> float:
    """Return how far answers to the same prompt are from each other, at most."""
    return max((effect(*pair) for pair in combinations(answers, 2)), default=0.0)


def effect_on(answer: str, whole_answers: Sequence[str]) -> float:
    """Return how far an answer is from the nearest of those to the whole prompt."""
    return min(effect(answer, whole) for whole in whole_answers)


def change_of(answer: str, whole_answers: Sequence[str]) -> Change:
    """Tell by words whether an answer says the same as those to the whole prompt.

    Example: the answers to the whole prompt are equal. The same words again are the
    same, an answer that shares fewer than half is another, and all between is in doubt.
    """
    spread = spread_of(whole_answers)
    distance = effect_on(answer, whole_answers)
    if spread and distance <= spread:
        return "unknown"
    if distance >= _SURELY_ANOTHER:
        return "other"
    words = canonical_words(answer)
    # "A beat B" and "B beat A" have the same words
    if any(words == canonical_words(whole) for whole in whole_answers):
        return "same"
    return "in doubt"


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
