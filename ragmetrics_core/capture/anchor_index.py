"""The anchors of texts: the pieces of 16 bytes by which texts are found in a prompt. Pure.

A **position** says where an anchor stands: in which text, and at which of its offsets.
It packs both into one number, because small objects would take longer than the search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ragmetrics_core.capture.occurrences import LEAST_AT_EDGE
from ragmetrics_core.capture.whole_texts import ANCHOR_LENGTH, MOST_TEXTS_OF_ANCHOR

# a position is the index of a text, then 40 bits for the offset
_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


class AnchorIndex:
    """The anchors of some texts, and where they stand in the texts.

    The anchors of a text are its pieces of 16 bytes, one after the other. Pieces that
    more than eight texts share are boilerplate, and are left out where others will do.

    Args:
        texts: The letters of the texts.
        stride: 3 if only every third place of the prompt is looked at, else 1.

    Attributes:
        first_position_by_anchor: Every anchor that is looked for, with a position of
            it. Whoever looks for anchors asks this mapping at each place of a prompt.
    """

    def __init__(self, texts: Sequence[bytes], stride: int) -> None:
        self._texts = texts
        self._stride = stride
        self.first_position_by_anchor: dict[bytes, int] = {}
        # only the anchors with several positions
        self._all_positions_by_anchor: dict[bytes, list[int]] = {}
        for text_index, text in enumerate(texts):
            if len(text) >= LEAST_AT_EDGE:
                self._add_anchors_at(self._first_offsets(text), text_index)
        self._replace_common_anchors()

    def positions_of(self, anchor: bytes) -> list[int]:
        """Return where an anchor stands in the texts; [] for other 16 bytes."""
        first_position = self.first_position_by_anchor.get(anchor)
        if first_position is None:
            return []
        return self._all_positions_by_anchor.get(anchor, [first_position])

    def forget(self, anchor: bytes) -> None:
        """Find no text by an anchor any longer."""
        self.first_position_by_anchor.pop(anchor, None)

    def _first_offsets(self, text: bytes) -> list[int]:
        """Return at which offsets of a text its anchors begin.

        In a long prompt an anchor may be missed, since only every third place is looked
        at. So three anchors begin at each edge of the text: one of them is met.
        """
        last_offset = len(text) - ANCHOR_LENGTH
        tiles = range(0, last_offset + 1, ANCHOR_LENGTH)
        if self._stride == 1:
            return [*tiles, last_offset]
        return [*tiles, 1, 2, last_offset - 2, last_offset - 1, last_offset]

    def _add_anchors_at(self, offsets: Iterable[int], text_index: int) -> None:
        """Add the anchors that begin at some offsets of a text."""
        text = self._texts[text_index]
        first_position_by_anchor = self.first_position_by_anchor
        start_of_text = text_index << _OFFSET_BITS  # the position of the offset 0
        for offset in offsets:
            anchor = text[offset : offset + ANCHOR_LENGTH]
            position = start_of_text | offset
            first_position = first_position_by_anchor.setdefault(anchor, position)
            if first_position != position:
                self._add_further_position(anchor, position, start_of_text)

    def _add_further_position(
        self, anchor: bytes, position: int, start_of_text: int
    ) -> None:
        """Add a position of an anchor that has one; at most two in the same text.

        A text that repeats itself must not fill the list. Example: two texts hold the
        anchor, the second one three times: three of the four positions are kept.

        Args:
            anchor: The anchor.
            position: The new position.
            start_of_text: The position at which the text begins. Those of the texts
                before it are lower.
        """
        positions = self._all_positions_by_anchor.get(anchor)
        if positions is None:
            first_position = self.first_position_by_anchor[anchor]
            self._all_positions_by_anchor[anchor] = [first_position, position]
        # if the last but one is a position of this text, so is the last one
        elif positions[-2] < start_of_text:
            positions.append(position)

    def _replace_common_anchors(self) -> None:
        """Replace the anchors that more than eight texts share by other ones."""
        common_offsets_by_text = self._remove_common_anchors()
        # Choose for all texts first: an anchor that one text gets back would count as
        # rare for the next text.
        new_offsets_by_text = {}
        for text_index, common_offsets in common_offsets_by_text.items():
            new_offsets_by_text[text_index] = self._offsets_instead_of(
                common_offsets, text_index
            )
        for text_index, offsets in new_offsets_by_text.items():
            self._add_anchors_at(offsets, text_index)

    def _remove_common_anchors(self) -> dict[int, list[int]]:
        """Remove the anchors that more than eight texts share.

        An anchor is a piece of 16 bytes by which a text is found in a prompt. Where ten
        pages begin with "Contoso handbook 2024", "contosohandbook2" finds no one page.

        Returns:
            For the index of each such text the offsets, in bytes, of its lost anchors:
            ``{0: [0], 1: [0], …}`` if each of the ten pages begins with the words.
        """
        common_offsets_by_text: dict[int, list[int]] = defaultdict(list)
        # a position is one number that packs a text's index and an offset in the text
        for anchor, positions in list(self._all_positions_by_anchor.items()):
            if len(positions) <= MOST_TEXTS_OF_ANCHOR:
                continue  # rare enough to find its texts by
            del self._all_positions_by_anchor[anchor]
            del self.first_position_by_anchor[anchor]
            for position in positions:
                common_offsets_by_text[text_index_of(position)].append(
                    offset_of(position)
                )
        return common_offsets_by_text

    def _offsets_instead_of(
        self, common_offsets: list[int], text_index: int
    ) -> list[int]:
        """Choose where new anchors begin in a text that lost its common anchors.

        Args:
            common_offsets: Where the common anchors began.
            text_index: The index of the text.

        Returns:
            No offsets if one of the anchors that are left is met wherever the text
            stands; else the common offsets themselves.
        """
        text = self._texts[text_index]
        rare_offsets = [
            offset
            for offset in self._first_offsets(text)
            if text[offset : offset + ANCHOR_LENGTH] in self.first_position_by_anchor
        ]
        return [] if self._is_one_met(rare_offsets) else common_offsets

    def _is_one_met(self, offsets: Iterable[int]) -> bool:
        """Whether one of these anchors is met wherever the text stands in the prompt.

        Where every third place is looked at, anchors at the offsets 0, 16 and 32 are
        enough: divided by 3 they leave all three remainders.
        """
        remainders = {offset % self._stride for offset in offsets}
        return len(remainders) == self._stride


def text_index_of(position: int) -> int:
    """The index of the text in a packed position."""
    return position >> _OFFSET_BITS


def offset_of(position: int) -> int:
    """The offset in the text in a packed position."""
    return position & _OFFSET_MASK
