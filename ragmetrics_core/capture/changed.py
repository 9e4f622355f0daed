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
        self._prompt, self._ground = prompt, ground

    def may_hold(self, raw: str) -> bool:
        """Whether most words of a text stand near each other."""
        if not self._places:
            return False
        words = _stems(raw)
        stems = list(dict.fromkeys(words))[:_MOST_STEMS]
        if len(stems) < _LEAST_STEMS:
            return False
        places = sorted(
            (at, stem)
            for stem in stems
            for at in self._places.get(stem, ())[:_MOST_PLACES]
        )
        return _most_within(places, width=_NEAR * len(words)) >= _ENOUGH * len(stems)

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Of each stem, as which words of the free ground it stands there."""
        places: dict[str, list[int]] = defaultdict(list)
        if self._ground.count(0) > _MOST_GROUND:
            return places
        at = 0
        for passage in self._free_passages():
            for stem in _stems(passage):
                places[stem].append(at)
                at += 1
            at += _MOST_GROUND  # nothing is near across a located text
        return places

    def _free_passages(self) -> Iterator[str]:
        """Yield the passages of the messages where no located text stands.

        A passage of fewer than 16 bytes is left out: it holds no word that counts.
        """
        for message, start in zip(
            self._prompt.messages, self._prompt.starts, strict=True
        ):
            ground = self._ground[start : start + len(message.stream)]
            for free in _FREE.finditer(ground):
                first, last = message.span(*free.span())
                yield message.raw[first:last]


def _stems(text: str) -> list[str]:
    return [word[:_STEM].lower() for word in _WORD.findall(text)]


def _most_within(places: list[tuple[int, str]], *, width: float) -> int:
    """The most different stems that stand within some words of each other."""
    counts: Counter[str] = Counter()
    most = first = 0
    for at, stem in places:
        counts[stem] += 1
        while places[first][0] < at - width:
            leaving = places[first][1]
            counts[leaving] -= 1
            if not counts[leaving]:
                del counts[leaving]
            first += 1
        most = max(most, len(counts))
    return most
