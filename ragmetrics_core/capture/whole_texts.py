"""The texts that stand in a prompt whole and in one piece. Pure.

Texts that begin with the same 16 bytes are kept together and sorted (``TextsAlike``).
At a place of the prompt, bisection finds the only one that may stand there; with it
stand those that it begins with itself. So nothing that texts have in common can hide
one of them.

All texts are streams: letters and digits as bytes (``letters``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ragmetrics_core.capture.matching import LINE_NUMBER, count_equal_bytes

ANCHOR_LENGTH = 16  # bytes by which a text is looked up; candidates are tiled with them
MOST_TEXTS_OF_ANCHOR = (
    8  # an anchor of more candidates is boilerplate and proves nothing
)
# for each byte of a prompt at most so many bytes are compared with whole texts
_COMPARED = 32
# of texts that begin with each other and stand at one place so many count, the longest
_NESTED = 4


class WholeTexts:
    """The texts that are looked for as a whole, by the anchors in their first bytes.

    An **anchor** is a piece of 16 bytes. Texts whose first 16 bytes are the same are
    looked up together, as ``TextsAlike``.

    Args:
        prompt: The stream of the prompt.
        streams: The streams of the texts. A text's index is its index here.
        stride: Only every so many-th place of the prompt is looked at. So that one of
            them is met, the anchors at as many first bytes of each text are needed.

    Attributes:
        texts_alike_by_anchor: Which texts may begin at an anchor or just before it:
            how many bytes before it they begin, and the texts.
    """

    def __init__(self, prompt: bytes, streams: Sequence[bytes], *, stride: int) -> None:
        self._prompt = prompt
        self._stride = stride  # only every so many-th place of the prompt is looked at
        # bytes that may still be compared: hostile prompts end the search
        self._n_bytes_left = _COMPARED * len(prompt)
        # by the first 16 bytes: the texts that begin with them, each with its index
        texts_by_beginning: dict[bytes, list[tuple[bytes, int]]] = defaultdict(list)
        for text_index, text in enumerate(streams):
            if len(text) >= ANCHOR_LENGTH:
                texts_by_beginning[text[:ANCHOR_LENGTH]].append((text, text_index))
        # by the index of a text: all texts that begin like it
        self._texts_alike_by_text: dict[int, TextFamily] = {}
        # by a piece of 16 bytes: the texts that have it in their first bytes, each
        # group behind the number of bytes before the piece
        self.texts_alike_by_anchor: dict[bytes, list[tuple[int, TextFamily]]] = {}
        for texts in texts_by_beginning.values():
            texts_alike = TextFamily(texts)
            for text_index in texts_alike.wanted:
                self._texts_alike_by_text[text_index] = texts_alike
            for shift, anchor in texts_alike.first_anchors(stride):
                entries = self.texts_alike_by_anchor.setdefault(anchor, [])
                entries.append((shift, texts_alike))

    def beginnings(self, place: int, anchor: bytes) -> Iterator[tuple[int, TextFamily]]:
        """Yield where texts may begin, and which, by an anchor found in the prompt.

        Texts that begin with the same 16 bytes come together. They are left out where
        some of them were found only a few bytes before: there, their beginning merely
        repeats itself, as in "na na na". Once too many bytes of the prompt were
        compared, nothing is looked for any longer.

        Args:
            place: Where in the prompt the anchor stands.
            anchor: The anchor, a piece of 16 bytes.
        """
        if self._n_bytes_left <= 0:
            self.texts_alike_by_anchor.clear()
        for shift, texts_alike in self.texts_alike_by_anchor.get(anchor, ()):
            start = place - shift
            is_repetition = abs(start - texts_alike.last_found_at) < ANCHOR_LENGTH
            if start < 0 or is_repetition:
                continue
            if self._prompt.startswith(texts_alike.beginning, start):
                yield start, texts_alike

    def standing_at(
        self, start: int, texts_alike: TextFamily
    ) -> Sequence[tuple[int, int]]:
        """Find those of some texts that stand in the prompt whole from a place on.

        If there are any, the place is remembered in ``texts_alike``.

        Returns:
            The index and the size of each of them, the longest first.
        """
        self._n_bytes_left -= texts_alike.longest_size
        part_of_prompt = self._prompt[start : start + texts_alike.longest_size]
        whole_texts = texts_alike.texts_that_begin(part_of_prompt)
        if whole_texts:
            texts_alike.last_found_at = start
        return whole_texts

    def closest_at(self, start: int, texts_alike: TextFamily) -> Sequence[int]:
        """Find those of some texts that agree with the prompt farthest from a place on.

        Returns:
            The indexes of these texts. Empty where at most eight texts begin alike:
            their other anchors tell them apart.
        """
        if texts_alike.n_texts <= MOST_TEXTS_OF_ANCHOR:
            return ()
        self._n_bytes_left -= MOST_TEXTS_OF_ANCHOR * texts_alike.longest_size
        part_of_prompt = self._prompt[start : start + texts_alike.longest_size]
        return texts_alike.closest_to(part_of_prompt)

    def forget(self, text_index: int) -> None:
        """Look for a text no longer.

        It shares its anchors with the texts that begin with the same 16 bytes. They are
        dropped when no text of these is wanted any longer.
        """
        texts_alike = self._texts_alike_by_text[text_index]
        texts_alike.wanted.discard(text_index)
        if texts_alike.wanted:
            return
        for _, anchor in texts_alike.first_anchors(self._stride):
            # texts that begin otherwise may share the anchor
            remaining = []
            for shift, others in self.texts_alike_by_anchor.pop(anchor, ()):
                if others is not texts_alike:
                    remaining.append((shift, others))
            if remaining:
                self.texts_alike_by_anchor[anchor] = remaining


class TextFamily:
    """Texts that begin with the same 16 bytes, sorted.

    Attributes:
        beginning: The bytes with which all of them begin.
        longest_size: Bytes of the longest.
        last_found_at: Where in the prompt one of them was found last.
        wanted: The indexes of those that are still looked for.
    """

    def __init__(self, texts: list[tuple[bytes, int]]) -> None:
        texts.sort()
        # the texts, and at the same places what each is called outside: its index
        self._sorted_texts = [text for text, _ in texts]
        self._text_indexes = [text_index for _, text_index in texts]
        # for each text the place in this order of the longest other that it begins with
        self._longest_beginnings = list(_longest_beginnings(self._sorted_texts))
        self.beginning = self._sorted_texts[0][:ANCHOR_LENGTH]
        self.longest_size = max(map(len, self._sorted_texts))
        self.last_found_at = (
            -ANCHOR_LENGTH
        )  # nowhere yet: before the start of the prompt
        self.wanted = set(self._text_indexes)  # those still looked for

    @property
    def n_texts(self) -> int:
        """How many texts these are."""
        return len(self._sorted_texts)

    def first_anchors(self, n_anchors: int) -> set[tuple[int, bytes]]:
        """The anchors at the first ``n_anchors`` bytes of each text, and their offsets.

        An anchor is a piece of 16 bytes. Texts too short to have so many are left out.
        """
        anchors = set()
        for text in self._sorted_texts:
            if len(text) >= ANCHOR_LENGTH + n_anchors - 1:
                for shift in range(n_anchors):
                    anchors.add((shift, text[shift : shift + ANCHOR_LENGTH]))
        return anchors

    def texts_that_begin(self, part_of_prompt: bytes) -> list[tuple[int, int]]:
        """Find those of the texts with which a part of the prompt begins.

        The texts are sorted. So if one is the beginning of the part, the longest such
        text is found from the place where the part itself would stand in the order: it
        is the text before that place, or a beginning of this text.

        Returns:
            The index and the size of each of them, the longest first; the longest four.
        """
        found: list[tuple[int, int]] = []
        # where the part would stand, less one; below 0 if all texts come behind it
        rank: int | None = bisect_right(self._sorted_texts, part_of_prompt) - 1
        while rank is not None and rank >= 0 and len(found) < _NESTED:
            text = self._sorted_texts[rank]
            # with one text found, its own beginnings need not be compared again
            if found or part_of_prompt.startswith(text):
                found.append((self._text_indexes[rank], len(text)))
            rank = self._longest_beginnings[rank]
        return found

    def closest_to(self, part_of_prompt: bytes) -> list[int]:
        """Find the texts whose first bytes agree farthest with a part of the prompt.

        The prompt may number its lines. If digits stand where the two first differ, the
        part is compared once more without these digits.

        Returns:
            The indexes of these texts, at most eight: more would be boilerplate.
        """
        n_equal, closest_ranks = self._closest_ranks(part_of_prompt)
        line_number = LINE_NUMBER.match(part_of_prompt, n_equal)
        if line_number is not None:
            behind_number = part_of_prompt[line_number.end() :]
            without_number = part_of_prompt[:n_equal] + behind_number
            _, closest_ranks = self._closest_ranks(without_number)
        closest = [self._text_indexes[rank] for rank in closest_ranks]
        return closest[:MOST_TEXTS_OF_ANCHOR]

    def _closest_ranks(self, part_of_prompt: bytes) -> tuple[int, list[int]]:
        """Find the texts with most first bytes in common with a part of the prompt.

        In the sorted order they stand next to the place where the part itself would
        stand. So only eight texts before it and eight behind it are compared.

        Returns:
            How many bytes they have in common, and their places in the sorted order.
        """
        rank_of_part = bisect_right(self._sorted_texts, part_of_prompt)
        first_rank = max(rank_of_part - MOST_TEXTS_OF_ANCHOR, 0)
        end_rank = min(rank_of_part + MOST_TEXTS_OF_ANCHOR, self.n_texts)
        n_equal_by_rank = {}
        for rank in range(first_rank, end_rank):
            text = self._sorted_texts[rank]
            n_equal_by_rank[rank] = count_equal_bytes(part_of_prompt, 0, text, 0)
        most = max(n_equal_by_rank.values())
        closest = [rank for rank, n_equal in n_equal_by_rank.items() if n_equal == most]
        return most, closest


def _longest_beginnings(sorted_texts: Sequence[bytes]) -> Iterator[int | None]:
    """For each of some sorted texts the index of the longest other that it begins with.

    None for a text that begins with no other.
    """
    # indexes of the texts with which the current one begins, the longest last
    beginnings: list[int] = []
    for index, text in enumerate(sorted_texts):
        while beginnings and not text.startswith(sorted_texts[beginnings[-1]]):
            beginnings.pop()
        yield beginnings[-1] if beginnings else None
        beginnings.append(index)
