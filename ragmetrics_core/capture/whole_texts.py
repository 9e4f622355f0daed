"""The texts that stand in a prompt whole and in one piece. Pure.

Texts that begin with the same 16 bytes are kept together and sorted. At a place of the
prompt, bisection finds the only one that may stand there; with it stand those that it
begins with itself. So nothing that texts have in common can hide one of them.

All texts are streams: letters and digits as bytes (``letters``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ragmetrics_core.capture.matching import LINE_NUMBER, count_equal_bytes

ANCHOR = 16  # bytes by which a text is looked up; candidates are tiled with them
COMMON = 8  # an anchor of more candidates is boilerplate and proves nothing
# for each byte of a prompt at most so many bytes are compared with whole texts
_COMPARED = 32
# of texts that begin with each other and stand at one place so many count, the longest
_NESTED = 4


class WholeTexts:
    """The texts that are looked for as a whole, by the anchors in their first bytes.

    Args:
        prompt: The stream of the prompt.
        streams: The streams of the texts. A text's number is its index here.
        every: Of the places of the prompt every so many are looked at, so that as many
            anchors of each beginning are needed.
    """

    def __init__(self, prompt: bytes, streams: Sequence[bytes], *, every: int) -> None:
        self._prompt = prompt
        self._every = every
        # bytes that may still be compared: hostile prompts end the search
        self._budget = _COMPARED * len(prompt)
        texts_by_beginning: dict[bytes, list[tuple[bytes, int]]] = defaultdict(list)
        for number, text in enumerate(streams):
            if len(text) >= ANCHOR:
                texts_by_beginning[text[:ANCHOR]].append((text, number))
        self._bucket_of: dict[int, Bucket] = {}
        self.anchors: dict[bytes, list[tuple[int, Bucket]]] = {}
        """Which texts may begin before an anchor, each bucket behind the bytes between."""
        for texts in texts_by_beginning.values():
            bucket = Bucket(texts)
            for number in bucket.waiting:
                self._bucket_of[number] = bucket
            for shift, anchor in bucket.anchors(every):
                self.anchors.setdefault(anchor, []).append((shift, bucket))

    def beginnings(self, place: int, anchor: bytes) -> Iterator[tuple[int, Bucket]]:
        """Yield where texts may begin that have an anchor at a place, and which texts.

        Where the texts of a bucket were found a few bytes before, their beginning only
        repeats itself. It is left out.
        """
        if self._budget <= 0:
            self.anchors.clear()
        for shift, bucket in self.anchors.get(anchor, ()):
            start = place - shift
            is_repetition = abs(start - bucket.last_found_at) < ANCHOR
            if start < 0 or is_repetition:
                continue
            if self._prompt.startswith(bucket.beginning, start):
                yield start, bucket

    def standing_at(self, start: int, bucket: Bucket) -> Sequence[tuple[int, int]]:
        """Numbers and sizes of the texts of a bucket that stand at a place.

        The longest comes first. The bucket remembers the place if there are any.
        """
        self._budget -= bucket.longest
        words = self._prompt[start : start + bucket.longest]
        standing = bucket.texts_that_begin(words)
        if standing:
            bucket.last_found_at = start
        return standing

    def closest_at(self, start: int, bucket: Bucket) -> Sequence[int]:
        """Numbers of the texts that agree with the prompt farthest from a place on.

        Empty where few texts begin alike: their anchors tell them apart.
        """
        if bucket.n_texts <= COMMON:
            return ()
        self._budget -= COMMON * bucket.longest
        return bucket.closest_to(self._prompt[start : start + bucket.longest])

    def forget(self, number: int) -> None:
        """Look for a text no longer.

        The anchors of its bucket, the texts of one beginning, go with the last of them.
        """
        bucket = self._bucket_of[number]
        bucket.waiting.discard(number)
        if bucket.waiting:
            return
        for _, anchor in bucket.anchors(self._every):
            # texts of other beginnings may share the anchor
            remaining = []
            for shift, other_bucket in self.anchors.pop(anchor, ()):
                if other_bucket is not bucket:
                    remaining.append((shift, other_bucket))
            if remaining:
                self.anchors[anchor] = remaining


class Bucket:
    """Texts that begin with the same bytes, sorted.

    Attributes:
        beginning: The bytes with which all of them begin.
        longest: Bytes of the longest.
        last_found_at: Where in the prompt one of them was found last.
        waiting: Numbers of those that are still looked for.
    """

    def __init__(self, texts: list[tuple[bytes, int]]) -> None:
        texts.sort()
        self._texts = [text for text, _ in texts]
        self._numbers = [number for _, number in texts]
        self._longest_beginning_of = list(_longest_beginnings(self._texts))
        self.beginning = self._texts[0][:ANCHOR]
        self.longest = max(map(len, self._texts))
        self.last_found_at = -ANCHOR
        self.waiting = set(self._numbers)

    @property
    def n_texts(self) -> int:
        """How many texts these are."""
        return len(self._texts)

    def anchors(self, every: int) -> set[tuple[int, bytes]]:
        """The anchors at each of the first bytes of the texts, each behind its offset.

        Texts that are too short to be found by them are left out.

        Args:
            every: How many first bytes are taken.
        """
        anchors = set()
        for text in self._texts:
            if len(text) >= ANCHOR + every - 1:
                for shift in range(every):
                    anchors.add((shift, text[shift : shift + ANCHOR]))
        return anchors

    def texts_that_begin(self, words: bytes) -> list[tuple[int, int]]:
        """Numbers and sizes of the texts that some words begin with, the longest first."""
        standing: list[tuple[int, int]] = []
        index: int | None = bisect_right(self._texts, words) - 1
        while index is not None and index >= 0 and len(standing) < _NESTED:
            # what a standing text begins with stands, too
            if standing or words.startswith(self._texts[index]):
                standing.append((self._numbers[index], len(self._texts[index])))
            index = self._longest_beginning_of[index]
        return standing

    def closest_to(self, words: bytes) -> list[int]:
        """Numbers of the texts whose beginnings agree farthest with words of a prompt.

        The prompt may number its lines. Where a number stands at the first difference,
        the words are compared again without it.

        Args:
            words: The words of the prompt, from the beginning of these texts on.

        Returns:
            The numbers, of a few texts at most: more would be boilerplate.
        """
        n_equal, closest = self._closest_indexes(words)
        line_number = LINE_NUMBER.match(words, n_equal)
        if line_number is not None:
            without_number = words[:n_equal] + words[line_number.end() :]
            _, closest = self._closest_indexes(without_number)
        return [self._numbers[index] for index in closest][:COMMON]

    def _closest_indexes(self, words: bytes) -> tuple[int, list[int]]:
        """Find the texts that have most first bytes in common with some words.

        Only neighbours in the sorted order are compared: the longest common beginnings
        are there.

        Returns:
            How many bytes they have in common, and the indexes of these texts.
        """
        index = bisect_right(self._texts, words)
        first_neighbour = max(index - COMMON, 0)
        behind_neighbours = min(index + COMMON, self.n_texts)
        n_equal_of = {}
        for neighbour in range(first_neighbour, behind_neighbours):
            text = self._texts[neighbour]
            n_equal_of[neighbour] = count_equal_bytes(words, 0, text, 0)
        most = max(n_equal_of.values())
        closest = [index for index, n_equal in n_equal_of.items() if n_equal == most]
        return most, closest


def _longest_beginnings(texts: Sequence[bytes]) -> Iterator[int | None]:
    """For each of some sorted texts the index of the longest other that it begins with.

    None for a text that begins with no other.
    """
    nested: list[int] = []
    for index, text in enumerate(texts):
        while nested and not text.startswith(texts[nested[-1]]):
            nested.pop()
        yield nested[-1] if nested else None
        nested.append(index)
