"""Whether a text stands in a prompt in other words than its own: a cleaner took words out, or changed their endings.

Such a text leaves no run of letters that is long enough to be a trace. The sign that the
prompt may show it: most of its words stand close to each other, in a passage of the
prompt where no other text is located.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from ragmetrics_core.capture.letters import Prompt

_WORD = re.compile(r"[^\W_]{4,}")  # shorter words stand everywhere
# a row of bytes that no located text has taken; a shorter one holds no word that counts
_FREE_BYTES = re.compile(rb"\0{16,}")
_STEM_LENGTH = 5  # the first letters of a word, which cleaners seldom change
_LEAST_STEMS = 5  # fewer may be near each other by chance
_MOST_STEMS = 60  # the most stems of a text that are looked for
_MOST_PLACES = 50  # the most places of a stem that are looked at
_SHARE_OF_STEMS = 0.7  # the share of a text's stems that must be near each other
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
        """Whether most words of a text stand near each other where no text is located.

        Words are compared by their stems, their first letters. A text of few words is
        not looked for.
        """
        if not self._word_numbers_by_stem:
            return False
        stems_of_text = _stems(raw)
        different_stems = list(dict.fromkeys(stems_of_text))[:_MOST_STEMS]
        if len(different_stems) < _LEAST_STEMS:
            return False
        n_words_near = _WIDTH_IN_TEXTS * len(stems_of_text)
        n_near = _most_within(self._places_of(different_stems), width=n_words_near)
        return n_near >= _SHARE_OF_STEMS * len(different_stems)

    def _places_of(self, stems: Iterable[str]) -> list[tuple[int, str]]:
        """Return where stems stand in the free passages: sorted numbers of words."""
        places: list[tuple[int, str]] = []
        for stem in stems:
            word_numbers = self._word_numbers_by_stem.get(stem, [])
            for word_number in word_numbers[:_MOST_PLACES]:
                places.append((word_number, stem))
        return sorted(places)

    @cached_property
    def _word_numbers_by_stem(self) -> dict[str, list[int]]:
        """By a stem: the numbers of the words of the free passages that have it.

        Words are numbered through all passages. Many numbers are left out between two
        passages, so that no words across them are near. Empty if there are too many
        free bytes.
        """
        word_numbers_by_stem: dict[str, list[int]] = defaultdict(list)
        if self._taken.count(0) > _MOST_FREE_BYTES:
            return word_numbers_by_stem
        word_number = 0
        for passage in self._free_passages():
            for stem in _stems(passage):
                word_numbers_by_stem[stem].append(word_number)
                word_number += 1
            word_number += _MOST_FREE_BYTES
        return word_numbers_by_stem

    def _free_passages(self) -> Iterator[str]:
        """Yield the passages of the messages, as written, where no text is located.

        A passage of fewer than 16 bytes is left out: it holds no word that counts.
        """
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
    """Return the first letters of each word, in lower case; short words are left out."""
    return [word[:_STEM_LENGTH].lower() for word in _WORD.findall(text)]


def _most_within(places: list[tuple[int, str]], *, width: float) -> int:
    """Return the largest number of different stems that stand near each other.

    Example: the stems "brid", "iron", "ferr" (the first letters of words) are words 3, 4
    and 40 of a text. Within 12 words there are at most two of them: 2.

    Args:
        places: Pairs, sorted: the number of a word in the text, and its stem.
        width: How many words apart stems are still near.
    """
    counts: Counter[str] = Counter()  # of the stems in the window
    most = 0
    window_start = 0
    for place, stem in places:
        counts[stem] += 1
        while places[window_start][0] < place - width:
            _, leaving_stem = places[window_start]
            counts[leaving_stem] -= 1
            if counts[leaving_stem] == 0:
                del counts[leaving_stem]
            window_start += 1
        most = max(most, len(counts))
    return most
