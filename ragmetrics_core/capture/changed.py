"""Whether a text stands in a prompt in other words than its own: a cleaner took words out, or changed their endings.

Such a text leaves no run of letters that is long enough to be a trace. There are four
signs that the prompt may show it, in a passage where no other text is located:

- most of its longer words stand close to each other;
- half of its words do so in their order, as where names and numbers are masked, lines are
  numbered, or a table became a list;
- most of its words beyond ASCII do so in ASCII letters, as "Маяк" in "Mayak";
- it is a row of a table, as "Anna | 1874", and all its words do so: "name: Anna, year: 1874".
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, islice

from ragmetrics_core.capture.letters import Prompt
from ragmetrics_core.capture.transliteration import (
    keys_of_ascii_words,
    keys_of_foreign_words,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# the stems of longer words, that is their first letters, which cleaners seldom change;
# shorter words stand everywhere
_STEM_LENGTH = 5
_LONG_STEM = lazy_pattern(r"([^\W_]{4,5})[^\W_]*")
# a row of bytes that no located text has taken; a shorter one holds no word that counts
_FREE_BYTES = lazy_pattern(rb"\0{16,}")
_ANY_FREE = lazy_pattern(rb"\0{8,}")  # a shorter row does not hold four words
_LEAST_STEMS = 5  # fewer may be near each other by chance
_MOST_STEMS = 60  # the most stems of a text that are looked for
_MOST_PLACES = 50  # the most places of a stem that are looked at
_SHARE_OF_STEMS = 0.7  # the share of a text's stems that must be near each other
# Numbers and words of three letters, which are compared in their order: this share of a
# text's words, and so many at least, must stand there.
_WORD_IN_ORDER = lazy_pattern(r"[0-9]+|[^\W\d_]{3,}")
_SHARE_IN_ORDER = 0.45
_LEAST_IN_ORDER = 4
_MOST_IN_ORDER = 60  # the most words of a text that are compared so
# Words beyond ASCII, which are looked for in ASCII letters: how many of a text at most,
# how many at least, and which share of them must stand there in their order.
_MOST_FOREIGN = 20
_LEAST_FOREIGN = 5
_SHARE_OF_FOREIGN = 0.7
# A row of a table: its labels ("name:", '"name":'), what divides its fields, how many
# there are, and how many words the longest has. In the prompt each may have a label.
_LABEL = lazy_pattern(r"""["']?[^\W\d]\w{0,30}["']?\s{0,3}[:=]""")
_BETWEEN_FIELDS = lazy_pattern(r"[^\w\s.'’-]|[\t\n]")
_FIELDS_OF_ROW = (2, 3, 4)
_MOST_WORDS_OF_FIELD = 3
_WIDTH_IN_ROWS = 2
_LONGEST_ROW = 200
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
        """Whether a free passage has most longer words of a text, or half in their order.

        Words are compared by their stems, their first letters. A text of few words is
        not looked for. Words beyond ASCII are also looked for in ASCII letters.
        """
        return (
            self._holds_most_stems(raw)
            or self._holds_half_in_order(raw)
            or self._holds_transliterated(raw)
            or self._holds_fields(raw)
        )

    def _holds_half_in_order(self, raw: str) -> bool:
        """Whether half of the words of a text stand near each other, in their order.

        Example: the text "The keeper Brandt lit 14 lamps" has six words. A prompt with
        "The keeper [NAME] lit [N] lamps" holds four of them in their order: True.
        """
        word_numbers_by_stem = self._numbers_by_stem_in_order
        if not word_numbers_by_stem:
            return False
        # first letters of the words: "the", "keepe", "brand", "lit", "14", "lamps"
        stems = list(islice(_stems_in_order(raw), _MOST_IN_ORDER))
        n_needed = max(_LEAST_IN_ORDER, _SHARE_IN_ORDER * len(stems))
        # in the stretch of the prompt that has most of the stems
        n_in_order = _n_near_in_order(stems, word_numbers_by_stem, len(stems))
        return n_in_order >= n_needed

    @cached_property
    def _numbers_by_stem_in_order(self) -> dict[str, list[int]]:
        """By a stem the numbers of its words, for words that are compared in order."""
        return self._index_words(_stems_in_order, _ANY_FREE)

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
        n_in_order = _n_near_in_order(
            keys, self._numbers_by_consonants, n_words=index_of_last + 1
        )
        return n_in_order >= _SHARE_OF_FOREIGN * len(keys)

    def _holds_fields(self, raw: str) -> bool:
        """Whether all words of a row's few short fields stand near each other.

        Example: the row "Anna | 1874" in a prompt with "1874: Anna".
        """
        words = _words_of_row(raw)
        word_numbers_by_stem = self._numbers_by_stem_in_order
        if not words or not words <= word_numbers_by_stem.keys():
            return False
        places = _places_of(words, word_numbers_by_stem)
        window = _densest_window(places, width=_WIDTH_IN_ROWS * len(words))
        return words == set(window)

    @cached_property
    def _numbers_by_consonants(self) -> dict[str, list[int]]:
        """By the key of a word in ASCII letters the numbers of such words."""
        return self._index_words(keys_of_ascii_words, _ANY_FREE)

    def _holds_most_stems(self, raw: str) -> bool:
        """Whether most longer words of a text stand near each other, in any order.

        Example: a text has ten different words of four letters and more. Seven of them
        in one passage of the prompt are enough.
        """
        if not self._word_numbers_by_stem:
            return False
        stems_of_text = _stems_of_long_words(raw)
        different_stems = list(dict.fromkeys(stems_of_text))[:_MOST_STEMS]
        if len(different_stems) < _LEAST_STEMS:
            return False
        n_words_near = _WIDTH_IN_TEXTS * len(stems_of_text)
        places = _places_of(different_stems, self._word_numbers_by_stem)
        stems_near = set(_densest_window(places, width=n_words_near))
        return len(stems_near) >= _SHARE_OF_STEMS * len(different_stems)

    @cached_property
    def _word_numbers_by_stem(self) -> dict[str, list[int]]:
        """By a stem the numbers of its words, for the longer words."""
        return self._index_words(_stems_of_long_words, _FREE_BYTES)

    def _index_words(
        self,
        stems_of: Callable[[str], Iterable[str]],
        free_run: re.Pattern[bytes],
    ) -> dict[str, list[int]]:
        """Number the words of the free passages, and list the numbers by stem.

        A passage of the prompt is free if no text is located in it. Empty if the prompt
        has too many free bytes.

        Example: the only free passage "The keeper kept" gives ``{"keepe": [0], "kept":
        [1]}`` if words of four letters count.

        Args:
            stems_of: Returns the stems of the words that count.
            free_run: Matches a run of zeros that is long enough for a passage; see
                ``_free_passages``.
        """
        word_numbers_by_stem: dict[str, list[int]] = defaultdict(list)
        n_free_bytes = self._taken.count(0)
        if n_free_bytes == 0 or n_free_bytes > _MOST_FREE_BYTES:
            return word_numbers_by_stem
        word_number = 0
        for passage in self._free_passages(free_run):
            for stem in stems_of(passage):
                word_numbers_by_stem[stem].append(word_number)
                word_number += 1
            # a gap in the numbers: words of two passages are not near each other
            word_number += _MOST_FREE_BYTES
        return word_numbers_by_stem

    def _free_passages(self, free_run: re.Pattern[bytes]) -> Iterator[str]:
        """Yield the passages of the messages, as written, where no text is located.

        Example: in "Read this. IRON" the document IRON is located: "Read this" is free.

        Args:
            free_run: A pattern. It matches a run of zeros in ``_taken``, if the run is
                long enough for a passage.
        """
        # _taken has a byte for each letter and digit of the prompt: 0 if it is free
        message_starts = zip(
            self._prompt.messages, self._prompt.message_starts, strict=True
        )
        for message, message_start in message_starts:
            message_end = message_start + len(message.letters)
            taken = self._taken[message_start:message_end]
            for free_bytes in free_run.finditer(taken):
                start, end = message.offsets_of(free_bytes.start(), free_bytes.end())
                yield message.raw[start:end]


def _stems_of_long_words(text: str) -> list[str]:
    """Return the first five letters of each longer word, in lower case.

    Example: "Keeper Brandt lit it" has the stems "keepe" and "brand".
    """
    stems: list[str] = _LONG_STEM.findall(text.lower())
    return stems


def _stems_in_order(text: str) -> Iterator[str]:
    """Yield the first letters of each word, in lower case, and of each number.

    Example: "Keeper Brandt lit it in 1874" has the stems "keepe", "brand", "lit" and
    "1874".
    """
    for match in _WORD_IN_ORDER.finditer(text.lower()):
        yield match[0][:_STEM_LENGTH]


def _words_of_row(text: str) -> set[str]:
    """Return the first letters of the words of a row of a table, without its labels.

    Example: "Anna | 1874" and '{"name": "Anna", "year": 1874}' have "anna" and "1874".
    What looks like a label is a field where the row has no two fields beside it: "keeper:
    Anna" has both words. Empty for a text that is no row of two to four short fields.
    """
    if len(text) > _LONGEST_ROW:
        return set()
    for row in (_LABEL.sub("|", text), text):
        fields = [list(_stems_in_order(field)) for field in _BETWEEN_FIELDS.split(row)]
        n_words = [len(stems) for stems in fields if stems]
        is_row = len(n_words) in _FIELDS_OF_ROW
        if is_row and max(n_words) <= _MOST_WORDS_OF_FIELD:
            return set(chain.from_iterable(fields))
    return set()


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


def _n_near_in_order(
    stems: list[str], word_numbers_by_stem: Mapping[str, list[int]], n_words: int
) -> int:
    """Count how many words of a text stand near each other in free passages, in order.

    Example: of "The keeper Brandt lit 14 lamps" the passage "The keeper [NAME] lit [N]
    lamps" has four words in their order.

    Args:
        stems: The stems of the text's words.
        word_numbers_by_stem: By a stem the numbers of its words in the free passages.
        n_words: The number of the text's words. The stretch of the prompt in which the
            stems are counted is a few times as long.
    """
    # pairs of a word's number in the prompt and its stem, sorted
    places = _places_of(dict.fromkeys(stems), word_numbers_by_stem)
    # the stretch of the prompt with most of the stems
    stems_in_window = _densest_window(places, width=_WIDTH_IN_TEXTS * n_words)
    return _n_in_order(stems, stems_in_window)


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
