"""How far two answers are from each other, and what that says of a passage. Pure."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Literal

from ragmetrics_core.lexical.text import canonical_words

Change = Literal["same", "other", "in doubt", "varies", "unknown"]
"""Whether an answer says the same as those to the whole prompt.

``in doubt`` is for a judge to decide, and ``unknown`` if there is no answer or verdict;
``varies``: the answer varies as much by itself.
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


def change_of(answer: str, whole_answers: Sequence[str], spread: float) -> Change:
    """Tell by words whether an answer says the same as those to the whole prompt.

    ``spread`` is how far these are from each other.

    Example: the answers to the whole prompt are equal. The same words and signs again
    are the same, an answer that shares fewer than half is another, and all between is in
    doubt. So is one whose words all stand in the other: it may only be longer.
    """
    distance = effect_on(answer, whole_answers)
    if spread >= _SURELY_ANOTHER or (spread and distance <= spread):
        return "varies"
    words = canonical_words(answer)
    words_of_whole = [canonical_words(whole) for whole in whole_answers]
    # "A beat B" and "B beat A" have the same words, "x > 3" and "x < 3" too
    if all(words == each for each in words_of_whole) and all(
        _signs(answer) == _signs(whole) for whole in whole_answers
    ):
        return "same"
    is_within = any(
        set(words) <= set(each) or set(each) <= set(words) for each in words_of_whole
    )
    return "other" if distance >= _SURELY_ANOTHER and not is_within else "in doubt"


def _signs(text: str) -> list[str]:
    """Return the signs that say something: of sums, currencies and pictures, % and #."""
    return [
        sign for sign in text if sign in "%#-" or unicodedata.category(sign)[0] == "S"
    ]


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
