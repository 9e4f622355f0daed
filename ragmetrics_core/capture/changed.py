"""Whether a text stands in a prompt in other words than its own: a cleaner took words out, or changed their endings.

Such a text leaves no run of letters that is long enough to be a trace. The prompt may
show it where many of its words stand close to each other, in a passage where no other
text is located:

- most of its words, in any order, as in a row of a table whose fields were sorted; all of
  them, if it has only a few;
- half of its words in their order, as where names and numbers are masked, lines are
  numbered, or a table became a list;
- most of its words beyond ASCII in ASCII letters, as "Маяк" in "Mayak".
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from ragmetrics_core.capture.normalized_text import Prompt
from ragmetrics_core.capture.transliteration import (
    keys_of_ascii_words,
    keys_of_foreign_words,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# Words are compared by their stems, that is their first letters, which cleaners seldom
# change. Numbers count, and words of three letters; shorter ones stand everywhere.
_STEM_LENGTH = 5
_WORD = lazy_pattern(r"[0-9]+|[^\W\d_]{3,}")
# the label of a field, which the prompt may write in another way: "name:", '"name":'
_LABEL = lazy_pattern(r"""["']?[^\W\d]\w{0,30}["']?\s{0,3}[:=]""")
# a row of bytes that no located text has taken; a shorter one does not hold four words
_FREE_BYTES = lazy_pattern(rb"\0{8,}")
_MOST_CHARACTERS = 400  # of a text: only the words in these are looked for
_MOST_PLACES = 50  # the most places of a stem that are looked at
# the share of a text's stems that must be near each other in any order; all of them, if
# the text has fewer than five
_SHARE_IN_ANY_ORDER = 0.7
_FEW_STEMS = 5
_LEAST_STEMS = 2
# the share of a text's stems that must be near each other in their order, and how many
_SHARE_IN_ORDER = 0.45
_LEAST_IN_ORDER = 4
# Words beyond ASCII, which are looked for in ASCII letters: how many of a text at most,
# how many at least, and which share of them must stand there in their order.
_MOST_FOREIGN = 20
_LEAST_FOREIGN = 5
_SHARE_OF_FOREIGN = 0.7
# near means: within one and a half times as many words as the text has
_WIDTH_IN_TEXTS = 1.5
# with more free bytes nothing is looked for: it would take longer than locating
_MOST_FREE_BYTES = 100_000


class ChangedTexts:
    """Texts that a prompt may show in changed words, where no text is located.

    Args:
        prompt: The prompt.
        is_byte_taken: For each byte of the normalized prompt 1 if a located text has
            taken it, else 0. The other bytes are free.
    """

    def __init__(self, prompt: Prompt, is_byte_taken: bytearray) -> None:
        self._prompt = prompt
        self._is_byte_taken = is_byte_taken

    def may_hold(self, raw: str) -> bool:
        """Whether a free passage has many words of a text; the module says how many.

        Words beyond ASCII are also looked for in ASCII letters.
        """
        if not self._free_passages:
            return False
        if _holds_words(self._words, raw):
            return True
        return not raw.isascii() and _holds_transliterated(self._ascii_words, raw)

    @cached_property
    def _words(self) -> _WordIndex:
        """The words of the free passages, by their stems."""
        return _index_words(self._free_passages, _stems)

    @cached_property
    def _ascii_words(self) -> _WordIndex:
        """The words of the free passages in ASCII letters, by their consonants."""
        return _index_words(self._free_passages, keys_of_ascii_words)

    @cached_property
    def _free_passages(self) -> list[str]:
        """The passages of the messages, as written, where no text is located.

        Example: in "Read this. IRON" the document IRON is located: "Read this" is free.
        Empty if too much of the prompt is free.
        """
        if self._is_byte_taken.count(0) > _MOST_FREE_BYTES:
            return []
        passages = []
        message_starts = zip(
            self._prompt.messages, self._prompt.message_starts, strict=True
        )
        for message, message_start in message_starts:
            message_end = message_start + len(message.normalized)
            is_byte_taken = self._is_byte_taken[message_start:message_end]
            for free_bytes in _FREE_BYTES.finditer(is_byte_taken):
                start, end = message.offsets_of(free_bytes.start(), free_bytes.end())
                passages.append(message.raw[start:end])
        return passages


@dataclass(frozen=True)
class _WordIndex:
    """The words of some passages by their keys, such as their stems.

    Attributes:
        numbers_by_key: The numbers of the words with each key, in order.
    """

    numbers_by_key: Mapping[str, Sequence[int]]

    def densest_window(self, keys: Collection[str], *, n_words: float) -> list[str]:
        """Return the keys in the window of words that has most of some keys.

        Example: the passage "The keeper lit a fire, and the lamp fell." and a window of
        4 words: of the keys "keepe", "lit" and "lamp" it has ["keepe", "lit"].

        Args:
            keys: The different keys that are looked for.
            n_words: How many words wide the window is.

        Returns:
            Those of the keys in the window, in the order of the passage. A key that
            stands there twice is returned twice.
        """
        found = [
            _FoundWord(number, key)
            for key in keys
            for number in self.numbers_by_key.get(key, ())[:_MOST_PLACES]
        ]
        return _densest_window(sorted(found), n_words=n_words)


class _FoundWord(NamedTuple):
    """A word of the prompt with a key that is looked for.

    Attributes:
        number: The number of the word in the prompt.
        key: Its key, such as its stem.
    """

    number: int
    key: str


def _index_words(
    passages: Iterable[str], keys_of: Callable[[str], Iterable[str]]
) -> _WordIndex:
    """Number the words of some passages, and list the numbers by the keys of the words.

    Example: "The keeper kept" gives ``{"keepe": [0], "kept": [1]}`` if words of four
    letters count.

    Args:
        passages: The passages.
        keys_of: Returns the keys of the words that count in a passage, in its order.
    """
    numbers_by_key: dict[str, list[int]] = defaultdict(list)
    number = 0
    for passage in passages:
        for key in keys_of(passage):
            numbers_by_key[key].append(number)
            number += 1
        # a gap in the numbers: words of two passages are not near each other
        number += _MOST_FREE_BYTES
    return _WordIndex(numbers_by_key)


def _holds_words(words: _WordIndex, raw: str) -> bool:
    """Whether many words of a text stand near each other in a prompt.

    These are most of its words in any order, or about half of them in their order.
    Example: of the six words of "The keeper Brandt lit 14 lamps" a prompt with "The
    keeper [NAME] lit [N] lamps" holds four in their order: True.

    Args:
        words: The words of the prompt by their stems.
        raw: The text.
    """
    # first letters of the words: "the", "keepe", "brand", "lit", "14", "lamps"; without
    # labels of fields, such as "name" of "name: Brandt"
    stems = _stems_without_labels(raw[:_MOST_CHARACTERS])
    different_stems = set(stems)
    if len(different_stems) < _LEAST_STEMS:
        return False
    # near each other: six words within a window of nine words of the prompt
    window_width = _WIDTH_IN_TEXTS * len(stems)
    window = words.densest_window(different_stems, n_words=window_width)
    # of a text with few words all must stand there
    least_share = _SHARE_IN_ANY_ORDER if len(different_stems) >= _FEW_STEMS else 1
    if len(set(window)) >= least_share * len(different_stems):
        return True
    least_in_order = max(_LEAST_IN_ORDER, _SHARE_IN_ORDER * len(stems))
    return _n_in_order(stems, window) >= least_in_order


def _holds_transliterated(ascii_words: _WordIndex, raw: str) -> bool:
    """Whether most words beyond ASCII of a text stand near each other in ASCII letters.

    Example: the prompt has "Mayak Norvika byl otkryt 4 maya 1874 goda" for "Маяк
    Норвика был открыт 4 мая 1874 года".

    Args:
        ascii_words: The words of the prompt in ASCII letters.
        raw: The text.
    """
    foreign_words = list(islice(keys_of_foreign_words(raw), _MOST_FOREIGN))
    keys = list(dict.fromkeys(key for _, key in foreign_words))
    if len(keys) < _LEAST_FOREIGN:
        return False
    index_of_last, _ = foreign_words[-1]
    window = ascii_words.densest_window(
        keys, n_words=_WIDTH_IN_TEXTS * (index_of_last + 1)
    )
    return _n_in_order(keys, window) >= _SHARE_OF_FOREIGN * len(keys)


def _stems(text: str) -> list[str]:
    """Return the first letters of each word, in lower case, and each number.

    Example: "Keeper Brandt lit it in 1874" has the stems "keepe", "brand", "lit" and
    "1874".
    """
    words: list[str] = _WORD.findall(text.lower())
    return [word[:_STEM_LENGTH] for word in words]


def _stems_without_labels(text: str) -> list[str]:
    """Return the stems of a text without the labels of its fields.

    Example: '{"name": "Anna", "year": 1874}' has the stems "anna" and "1874". What looks
    like a label is a word where the text has fewer than two others: "keeper: Anna".
    """
    stems = _stems(_LABEL.sub(" ", text))
    return stems if len(stems) >= _LEAST_STEMS else _stems(text)


def _densest_window(found: Sequence[_FoundWord], *, n_words: float) -> list[str]:
    """Return the keys of the window that has most different keys, in their order.

    Example: "keepe" as word 0, "lit" as word 1, "lamp" as word 9, and a window 4 words
    wide: ["keepe", "lit"].

    Args:
        found: The words that were found, in the order of their numbers.
        n_words: How many words wide the window is.
    """
    counts: Counter[str] = Counter()  # of the keys in the window
    densest: Sequence[_FoundWord] = ()
    most = 0  # different keys in it
    start = 0  # of the window that ends at the current word
    for end, word in enumerate(found, start=1):
        counts[word.key] += 1
        while found[start].number < word.number - n_words:
            leaving_key = found[start].key
            counts[leaving_key] -= 1
            if counts[leaving_key] == 0:
                del counts[leaving_key]
            start += 1
        if len(counts) > most:
            most = len(counts)
            densest = found[start:end]
    return [word.key for word in densest]


def _n_in_order(stems: list[str], window: list[str]) -> int:
    """Count how many stems of a text stand in a window in the order of the text.

    This is the length of their longest common subsequence. Example: of "keeper Brandt
    lit lamp" the window "lamp keeper lit" has two in their order, "keeper" and "lit".

    Args:
        stems: The stems of the text, in its order.
        window: The stems of a part of the prompt, in its order.
    """
    # the highest index first, so that one stem of the window is counted once
    indexes_by_stem: dict[str, list[int]] = defaultdict(list)
    for index, stem in enumerate(stems):
        indexes_by_stem[stem].insert(0, index)
    # last_indexes[n]: the lowest index in the text at which n + 1 stems in order can end
    last_indexes: list[int] = []
    for stem in window:
        for index in indexes_by_stem[stem]:
            # this stem may follow ``rank`` stems that have lower indexes
            rank = bisect_left(last_indexes, index)
            last_indexes[rank : rank + 1] = [index]
    return len(last_indexes)
