"""The texts that stand in a prompt whole and in one piece. Pure.

Texts that begin with the same 16 bytes are kept together and sorted: a **family**. At a
place of the prompt, bisection finds the longest text of a family that may stand there.
Each shorter text with which this text begins stands there as well. So nothing that
texts have in common can hide one of them.

An example: the family ``portoliesonthenorthbank``,
``portoliesonthenorthbankofthedouro`` and ``portoliesonthenortherncoast``. Where the
prompt goes on with ``portoliesonthenorthbankofthedouroand…``, the second text stands
there, and with it the first.

Prompt and texts are compared by their normalized text (``normalized_text``): "Porto
lies on the north bank." becomes ``portoliesonthenorthbank``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ragmetrics_core.capture.matching import LINE_NUMBER, count_equal_bytes

ANCHOR_LENGTH = 16  # bytes of an anchor, the piece of a text by which it is looked up
# an anchor of more texts is boilerplate, and does not tell which text stands there
MOST_TEXTS_OF_ANCHOR = 8
# the most bytes compared with whole texts, for each byte of the prompt; a hostile
# prompt ends the search so
_MOST_COMPARED_PER_BYTE = 32
# the most texts that count where several texts stand at one place, the longest first
_MOST_AT_ONE_PLACE = 4


class WholeTexts:
    """The texts that are looked for as a whole, by anchors in their first bytes.

    An **anchor** is a piece of 16 bytes by which a text is looked up. Texts that begin
    with the same 16 bytes are looked up together, as a **family**.

    The prompt is looked at in steps of ``stride`` bytes. If the 16 bytes there are an
    anchor of a family, the caller asks which texts of the family stand there whole.

    Args:
        prompt: The normalized prompt.
        texts: The normalized texts. A text's index is its index here.
        stride: 3 if only every third place of the prompt is looked at, 1 if every
            place. With 3, the pieces at the offsets 0, 1 and 2 of a text are anchors,
            so that one of them is met.

    Attributes:
        families_by_first_anchor: By an anchor, 16 bytes: the families of texts that
            begin with it. Each family is paired with the offset of the anchor in its
            texts: 0, or with a stride of 3 also 1 or 2.
    """

    def __init__(self, prompt: bytes, texts: Sequence[bytes], *, stride: int) -> None:
        """Index the texts by pieces of 16 bytes, the anchors, near their beginning.

        Example: ``portoliesonthenorthbank`` and ``portoliesonthenortherncoast`` begin
        with the same 16 bytes: they are one family, under ``portoliesontheno``.

        Args:
            prompt: The normalized prompt.
            texts: The normalized texts.
            stride: In which steps the prompt is looked at: 3 for every third byte. Then
                each text gets 3 anchors, at its offsets 0, 1 and 2: wherever the text
                stands, one of these anchors stands at a step.
        """
        self._prompt = prompt
        # a budget: a hostile prompt ends the search
        self._n_bytes_to_compare = _MOST_COMPARED_PER_BYTE * len(prompt)
        self.families_by_first_anchor: dict[bytes, list[tuple[int, TextFamily]]] = {}
        for family in _families_of(texts):
            # with a stride of 3, the anchors of a text: "portoliesontheno",
            # "ortoliesonthenor" and "rtoliesonthenort"
            for offset_in_text, anchor in family.first_anchors(n_anchors=stride):
                families = self.families_by_first_anchor.setdefault(anchor, [])
                families.append((offset_in_text, family))

    def families_beginning_near(
        self, prompt_offset: int, anchor: bytes
    ) -> Iterator[tuple[int, TextFamily]]:
        """Yield where a family of texts begins, at an anchor or just before it.

        Once too many bytes of the prompt were compared, nothing is yielded any longer.

        Example: in a long prompt the anchor "ortoliesonthenor" stands at 301. It has the
        offset 1 in the texts that begin with "portoliesontheno": they begin at 300.

        Args:
            prompt_offset: Where in the prompt the anchor stands.
            anchor: The anchor, a piece of 16 bytes.

        Yields:
            Where in the prompt the family begins, and the family.
        """
        if self._n_bytes_to_compare <= 0:
            self.families_by_first_anchor.clear()
        for offset_in_text, family in self.families_by_first_anchor.get(anchor, ()):
            start = prompt_offset - offset_in_text
            if start >= 0 and self._prompt.startswith(family.beginning, start):
                yield start, family

    def whole_texts_at(
        self, start: int, family: TextFamily
    ) -> Sequence[tuple[int, int]]:
        """Find the texts of a family that stand whole at a place of the prompt.

        Returns:
            The index and the size of each of these texts, the longest first.
        """
        self._n_bytes_to_compare -= family.longest_size
        part_of_prompt = self._prompt[start : start + family.longest_size]
        return family.prefixes_of(part_of_prompt)

    def closest_texts_at(self, start: int, family: TextFamily) -> Sequence[int]:
        """Find the texts of a family that equal the prompt farthest from a place on.

        Returns:
            The indexes of these texts. Empty for a family of at most eight texts: their
            other anchors tell them apart.
        """
        if family.n_texts <= MOST_TEXTS_OF_ANCHOR:
            return ()
        self._n_bytes_to_compare -= MOST_TEXTS_OF_ANCHOR * family.longest_size
        part_of_prompt = self._prompt[start : start + family.longest_size]
        return family.closest_to(part_of_prompt)


class TextFamily:
    """Texts that begin with the same 16 bytes, sorted.

    Args:
        texts_and_indexes: The normalized text of each text, with the text's index
            outside of the family. All texts begin with the same 16 bytes.

    Attributes:
        beginning: The 16 bytes with which all of them begin.
        longest_size: The number of bytes of the longest.
    """

    def __init__(self, texts_and_indexes: list[tuple[bytes, int]]) -> None:
        """Sort the texts, and note for each the longest other text that it begins with.

        Example: sorted, ``portoliesonthenorthbank`` has rank 0, and
        ``portoliesonthenorthbankofthedouro``, which begins with it, has rank 1.
        """
        texts_and_indexes.sort()
        self._sorted_texts = [text for text, _ in texts_and_indexes]
        self._text_index_by_rank = [text_index for _, text_index in texts_and_indexes]
        # by rank: [None, 0] in the example
        self._rank_of_longest_prefix = list(
            _ranks_of_longest_prefixes(self._sorted_texts)
        )
        # all texts of a family have the same first 16 bytes
        self.beginning = self._sorted_texts[0][:ANCHOR_LENGTH]
        self.longest_size = max(map(len, self._sorted_texts))

    @property
    def n_texts(self) -> int:
        """How many texts the family has."""
        return len(self._sorted_texts)

    def first_anchors(self, n_anchors: int) -> set[tuple[int, bytes]]:
        """Return the anchors at the first offsets of each text, with their offsets.

        An anchor is a piece of 16 bytes. Texts too short for all of them are left out.

        Args:
            n_anchors: How many offsets; 3 means the offsets 0, 1 and 2.
        """
        anchors = set()
        for text in self._sorted_texts:
            if len(text) >= ANCHOR_LENGTH + n_anchors - 1:
                for offset in range(n_anchors):
                    anchors.add((offset, text[offset : offset + ANCHOR_LENGTH]))
        return anchors

    def prefixes_of(self, part_of_prompt: bytes) -> list[tuple[int, int]]:
        """Find the texts with which a part of the prompt begins, the longest first.

        Example: the part ``portoliesonthenorthbankofthedouroand…`` begins with
        ``portoliesonthenorthbankofthedouro`` and with ``portoliesonthenorthbank``.

        Returns:
            The index and the number of bytes of each text; at most four texts.
        """
        fitting: list[tuple[int, int]] = []  # index and size
        # The text just before the part in sorted order. Each text with which the part
        # begins is this text, or a prefix of this text, since only texts with the same
        # prefix are sorted between a prefix and the part.
        rank_before = bisect_right(self._sorted_texts, part_of_prompt) - 1
        for rank in self._rank_and_its_prefixes(rank_before):
            text = self._sorted_texts[rank]
            # once the longest text fits, its prefixes need not be compared
            if fitting or part_of_prompt.startswith(text):
                fitting.append((self._text_index_by_rank[rank], len(text)))
            if len(fitting) == _MOST_AT_ONE_PLACE:
                break
        return fitting

    def _rank_and_its_prefixes(self, first_rank: int) -> Iterator[int]:
        """Yield the rank of a text, and of all texts with which it begins.

        The longest comes first. Nothing is yielded for the rank -1.
        """
        rank: int | None = first_rank if first_rank >= 0 else None
        while rank is not None:
            yield rank
            rank = self._rank_of_longest_prefix[rank]

    def closest_to(self, part_of_prompt: bytes) -> list[int]:
        """Find the texts with most first bytes in common with a part of the prompt.

        The number of a line in the prompt is stepped over. Example: of two texts the
        first has 19 bytes in common with the part, the second 23: the second.

        Returns:
            The indexes of these texts, at most eight: more would be boilerplate.
        """
        n_equal, closest_ranks = self._closest_ranks(part_of_prompt)
        line_number = LINE_NUMBER.match(part_of_prompt, n_equal)
        if line_number is not None:
            behind_number = part_of_prompt[line_number.end() :]
            without_number = part_of_prompt[:n_equal] + behind_number
            _, closest_ranks = self._closest_ranks(without_number)
        closest = [self._text_index_by_rank[rank] for rank in closest_ranks]
        return closest[:MOST_TEXTS_OF_ANCHOR]

    def _closest_ranks(self, part_of_prompt: bytes) -> tuple[int, list[int]]:
        """Find the texts with most first bytes in common with a part of the prompt.

        Example: the part ``portoliesonthenorthside`` has 19 bytes in common with
        ``portoliesonthenorthbank``, and as many with ``portoliesonthenortherncoast``.

        Returns:
            How many bytes are in common, and the ranks of the texts: their indexes in
            sorted order.
        """
        # Texts that begin like the part stand right before and after its place in
        # sorted order. At most eight texts are used, so eight on each side are enough.
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


def _families_of(texts: Sequence[bytes]) -> Iterator[TextFamily]:
    """Put texts that begin with the same 16 bytes together.

    Example: "portoliesonthenorthbank" and "portoliesonthenortherncoast" are a family.
    Shorter texts are left out.
    """
    texts_by_beginning: dict[bytes, list[tuple[bytes, int]]] = defaultdict(list)
    for text_index, text in enumerate(texts):
        if len(text) >= ANCHOR_LENGTH:
            texts_by_beginning[text[:ANCHOR_LENGTH]].append((text, text_index))
    for texts_and_indexes in texts_by_beginning.values():
        yield TextFamily(texts_and_indexes)


def _ranks_of_longest_prefixes(sorted_texts: Sequence[bytes]) -> Iterator[int | None]:
    """Yield for each of some sorted texts the index of its longest prefix among them.

    Yields None for a text that begins with no other text.
    """
    # indexes of the texts with which the current one begins, the longest last
    prefixes: list[int] = []
    for index, text in enumerate(sorted_texts):
        while prefixes and not text.startswith(sorted_texts[prefixes[-1]]):
            prefixes.pop()
        yield prefixes[-1] if prefixes else None
        prefixes.append(index)
