"""Whether a text stands in a prompt in other words than its own: a cleaner took words out, or changed their endings.

Such a text leaves no run of letters that is long enough to be a trace. Most of its
words, close to each other where nothing else is located, are the sign that the prompt
may show it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property

from ragmetrics_core.capture.letters import Prompt

_WORD = re.compile(r"[^\W_]{4,}")  # shorter words stand everywhere
# so many bytes of ground that nothing has taken hold words that count
_FREE = re.compile(rb"\0{16,}")
_STEM = 5  # letters of a word that cleaners seldom change
_LEAST_STEMS = 5  # fewer may be near each other by chance
_MOST_STEMS = 60  # of a text so many are looked for
_MOST_PLACES = 50  # of a stem so many are looked at
_ENOUGH = 0.7  # so many of its stems must be there
_NEAR = 1.5  # in so many times the words that the text has
# in more free ground nothing is looked for: it would take longer than locating
_MOST_GROUND = 100_000


class ChangedTexts:
    """The words of a prompt where no located text stands.

    Args:
        prompt: The prompt.
        ground: A byte for each byte of the prompt's stream: 0 where nothing is located.
    """

    def __init__(self, prompt: Prompt, ground: bytearray) -> None:
        self._prompt = prompt
        self._ground = ground

    def may_hold(self, raw: str) -> bool:
        """Whether most words of a text stand near each other."""
        if not self._places_by_stem:
            return False
        words = _stems(raw)
        stems = list(dict.fromkeys(words))[:_MOST_STEMS]
        if len(stems) < _LEAST_STEMS:
            return False
        places = []
        for stem in stems:
            for place in self._places_by_stem.get(stem, ())[:_MOST_PLACES]:
                places.append((place, stem))
        most_near = _most_within(sorted(places), width=_NEAR * len(words))
        return most_near >= _ENOUGH * len(stems)

    @cached_property
    def _places_by_stem(self) -> dict[str, list[int]]:
        """Of each stem, as which words of the free ground it stands there."""
        places_by_stem: dict[str, list[int]] = defaultdict(list)
        if self._ground.count(0) > _MOST_GROUND:
            return places_by_stem
        n_words = 0
        for passage in self._free_passages():
            for stem in _stems(passage):
                places_by_stem[stem].append(n_words)
                n_words += 1
            n_words += _MOST_GROUND  # nothing is near across a located text
        return places_by_stem

    def _free_passages(self) -> Iterator[str]:
        """Yield the passages of the messages where no located text stands.

        A passage of fewer than 16 bytes is left out: it holds no word that counts.
        """
        message_starts = zip(
            self._prompt.messages, self._prompt.message_starts, strict=True
        )
        for message, message_start in message_starts:
            message_end = message_start + len(message.letters)
            ground = self._ground[message_start:message_end]
            # runs of zeros: bytes of the message that no located text has taken
            for free_ground in _FREE.finditer(ground):
                first_byte, behind_bytes = free_ground.span()
                start, end = message.offsets_of(first_byte, behind_bytes)
                yield message.raw[start:end]


def _stems(text: str) -> list[str]:
    """The first letters of each word that counts, in lower case."""
    return [word[:_STEM].lower() for word in _WORD.findall(text)]


def _most_within(places: list[tuple[int, str]], *, width: float) -> int:
    """Return the largest number of different stems that stand near each other.

    A stem is the first letters of a word.

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
