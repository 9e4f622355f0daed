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

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice

from ragmetrics_core.capture.letters import Prompt
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
    """The words of a prompt in its free passages, where no text is located.

    Args:
        prompt: The prompt.
        taken: For each byte of the prompt's letters 1 if a located text has taken it,
            else 0.
    """

    def __init__(self, prompt: Prompt, taken: bytearray) -> None:
        self._prompt = prompt
        self._taken = taken

    def may_hold(self, raw: str) -> bool:
        """Whether a free passage has many words of a text; the module says how many.

        Words beyond ASCII are also looked for in ASCII letters.
        """
        return self._holds_words(raw) or self._holds_transliterated(raw)

    def _holds_words(self, raw: str) -> bool:
        """Whether many words of a text stand near each other.

        Example: the text "The keeper Brandt lit 14 lamps" has six words. A prompt with
        "The keeper [NAME] lit [N] lamps" holds four of them in their order: True.
        """
        if not self._word_numbers_by_stem:
            return False
        # first letters of the words: "the", "keepe", "brand", "lit", "14", "lamps"
        stems = _stems_without_labels(raw[:_MOST_CHARACTERS])
        different_stems = set(stems)
        if len(different_stems) < _LEAST_STEMS:
            return False
        # in the stretch of the prompt that has most of the stems
        places = _places_of(different_stems, self._word_numbers_by_stem)
        window = _densest_window(places, width=_WIDTH_IN_TEXTS * len(stems))
        n_needed: float = len(different_stems)
        if len(different_stems) >= _FEW_STEMS:
            n_needed = _SHARE_IN_ANY_ORDER * len(different_stems)
        if len(set(window)) >= n_needed:
            return True
        n_in_order = _n_in_order(stems, window)
        return n_in_order >= max(_LEAST_IN_ORDER, _SHARE_IN_ORDER * len(stems))

    @cached_property
    def _word_numbers_by_stem(self) -> dict[str, list[int]]:
        """By a stem the numbers of its words in the free passages."""
        return self._index_words(_stems)

    def _holds_transliterated(self, raw: str) -> bool:
        """Whether most words beyond ASCII stand near each other in ASCII letters.

        Example: the prompt has "Mayak Norvika byl otkryt 4 maya 1874 goda" for "Маяк
        Норвика был открыт 4 мая 1874 года".
        """
        if raw.isascii():
            return False
        foreign_words = list(islice(keys_of_foreign_words(raw), _MOST_FOREIGN))
        keys = list(dict.fromkeys(key for _, key in foreign_words))
        if len(keys) < _LEAST_FOREIGN:
            return False
        index_of_last, _ = foreign_words[-1]
        places = _places_of(set(keys), self._numbers_by_consonants)
        window = _densest_window(places, width=_WIDTH_IN_TEXTS * (index_of_last + 1))
        return _n_in_order(keys, window) >= _SHARE_OF_FOREIGN * len(keys)

    @cached_property
    def _numbers_by_consonants(self) -> dict[str, list[int]]:
        """By the key of a word in ASCII letters the numbers of such words."""
        return self._index_words(keys_of_ascii_words)

    def _index_words(
        self, stems_of: Callable[[str], Iterable[str]]
    ) -> dict[str, list[int]]:
        """Number the words of the free passages, and list the numbers by stem.

        A passage of the prompt is free if no text is located in it. Empty if the prompt
        has too many free bytes.

        Example: the only free passage "The keeper kept" gives ``{"keepe": [0], "kept":
        [1]}`` if words of four letters count.

        Args:
            stems_of: Returns the stems of the words that count.
        """
        word_numbers_by_stem: dict[str, list[int]] = defaultdict(list)
        n_free_bytes = self._taken.count(0)
        if n_free_bytes == 0 or n_free_bytes > _MOST_FREE_BYTES:
            return word_numbers_by_stem
        word_number = 0
        for passage in self._free_passages():
            for stem in stems_of(passage):
                word_numbers_by_stem[stem].append(word_number)
                word_number += 1
            # a gap in the numbers: words of two passages are not near each other
            word_number += _MOST_FREE_BYTES
        return word_numbers_by_stem

    def _free_passages(self) -> Iterator[str]:
        """Yield the passages of the messages, as written, where no text is located.

        Example: in "Read this. IRON" the document IRON is located: "Read this" is free.
        """
        # _taken has a byte for each letter and digit of the prompt: 0 if it is free
        message_starts = zip(
            self._prompt.messages, self._prompt.message_starts, strict=True
        )
        for message, message_start in message_starts:
            message_end = message_start + len(message.letters)
            taken = self._taken[message_start:message_end]
            for free_bytes in _FREE_BYTES.finditer(taken):
                start, end = message.offsets_of(free_bytes.start(), free_bytes.end())
                yield message.raw[start:end]


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


def _places_of(
    stems: Iterable[str], word_numbers_by_stem: Mapping[str, list[int]]
) -> list[tuple[int, str]]:
    """Return where stems stand in the free passages: sorted numbers of words.

    Example: "lamp" as word 2 and "keepe" as words 0 and 7 give
    ``[(0, "keepe"), (2, "lamp"), (7, "keepe")]``.
    """
    places: list[tuple[int, str]] = []
    for stem in stems:
        word_numbers = word_numbers_by_stem.get(stem, [])
        for word_number in word_numbers[:_MOST_PLACES]:
            places.append((word_number, stem))
    return sorted(places)


def _densest_window(places: list[tuple[int, str]], *, width: float) -> list[str]:
    """Return the stems of the window that has most different stems, in their order.

    Example: the places (0, "keepe"), (1, "lit"), (9, "lamp") and a window 4 words wide
    give ["keepe", "lit"].

    Args:
        places: Pairs, sorted: the number of a word in a passage, and its stem.
        width: How many words wide the window is.
    """
    counts: Counter[str] = Counter()  # of the stems in the window
    densest = (0, 0)  # where the places of the densest window begin and end
    most = 0  # different stems in it
    start = 0  # of the window that ends at the current place
    for end, (place, stem) in enumerate(places, start=1):
        counts[stem] += 1
        while places[start][0] < place - width:
            leaving_stem = places[start][1]
            counts[leaving_stem] -= 1
            if counts[leaving_stem] == 0:
                del counts[leaving_stem]
            start += 1
        if len(counts) > most:
            most = len(counts)
            densest = (start, end)
    return [stem for _, stem in places[densest[0] : densest[1]]]


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
