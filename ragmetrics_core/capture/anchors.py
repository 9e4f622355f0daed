"""Where texts stand in a prompt, whole or in parts: found by their anchors in one pass.

Prompt and texts are compared by their letters: letters and digits in lower case, as
bytes (``letters``). The texts are candidates, of which the caller asks whether the
prompt shows them, and known texts, which stand there anyway, such as the question.

1. An **anchor** is a piece of 16 bytes of a text. The anchors of all texts are kept in
   one mapping, and one pass over the prompt stops wherever an anchor stands.
2. At each stop, the texts that stand there whole and in one piece are noted
   (``whole_texts``).
3. The other texts with this anchor are compared with the prompt from the anchor on,
   forwards and backwards, over small differences: a line number, a mark, a word
   (``matching``). The equal bytes are a **run**.
4. Runs of one text that follow each other in the prompt are joined to one
   **occurrence**, a place at which the prompt shows the text.
5. Runs so short that they may be there by chance are left out.
6. Texts too short for an anchor are looked for one by one.

An example: ``Porto lies on the Douro, in the north of the country.`` in the prompt
``Porto lies on the Douro [1], in the north of the country. Where is it?`` The pass
stops at the anchor ``portoliesonthedo``. The text does not stand there in one piece.
From the anchor, the comparison goes on to ``uro``, steps over the ``1`` of the mark,
and goes on to ``country``: a run of two spans, which holds the whole text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Literal

from ragmetrics_core.capture.byte_spans import (
    LONGEST_STEP,
    EqualSpan,
    clip_spans,
    split_into_runs,
    total_size,
)
from ragmetrics_core.capture.letters import Prompt, Text, letters_of
from ragmetrics_core.capture.matching import (
    LINE_NUMBER,
    collect_equal_spans,
    without_half_letters,
)
from ragmetrics_core.capture.whole_texts import (
    ANCHOR_LENGTH,
    MOST_TEXTS_OF_ANCHOR,
    WholeTexts,
)

# with this share of its bytes a text counts as whole, also where its parts stand apart
SHARE_OF_WHOLE = 0.98
# a text that is shown from its first to its last byte counts as whole with this share
_SHARE_WITH_BOTH_ENDS = 0.85
MOST_APART = 96  # the most bytes between two parts of one occurrence
# The fewest bytes of a part that holds the beginning or end of its text, and of any
# other part. Fewer bytes may be equal by chance.
LEAST_AT_EDGE = 32
LEAST_ELSEWHERE = 48
# At how many places a text is compared: 64, and two more for each candidate and each
# known text with its letters, because equal texts stand at several places.
_MOST_TRIES = 64
_MORE_TRIES = 2
# a text that stands in more places of one message is looked for no longer
_MOST_OCCURRENCES = 500
_LONG_PROMPT = 100_000  # bytes; in a longer prompt only every third place is looked at
_MARKS = re.compile(
    r"""[\n\r\t"'`“”„«»‘’<>]|\\[nrt"']|&(?:amp;)*(?:quot|apos|lt|gt|\#39|\#34|\#x27);"""
)
_NUMBERED = re.compile(r"(?:^|\n|\\n)\W*\d{1,3}[.):\]]\s*$")
_LONGEST_NUMBERING = 20  # characters in which the number of a list's line stands
# A position packs the index of a text and an offset in it into one number: the index,
# then 40 bits for the offset.
_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_NO_POSITION = -1  # of an anchor that only says that a text may begin here


class Border(IntEnum):
    """What stands on one side of a short text. A larger number sets it off better."""

    LETTER = 0  # another letter touches it
    GAP = 1  # a space or the like
    MARK = 2  # a quote, a tag, a bullet, a line's end, or the end of the message


@dataclass(slots=True, eq=False)
class SoughtText:
    """A text that is looked for in a prompt.

    Several candidates and known texts may have the same letters: they are looked for
    together.

    Attributes:
        text: The first text with these letters.
        candidate_indexes: The indexes of the candidates with these letters.
        n_known_texts: How many known texts have these letters. They stand in the prompt
            for another reason, such as being the question.
        n_tries_left: At how many more places it may be compared with the prompt.
        occurrences: Where it was found to stand, in the order found.
        why_not_shown: Outcome and reason if it is not shown. None if there is no more
            to say than that it was not found.
        size: The number of bytes of its letters.
    """

    text: Text
    candidate_indexes: list[int] = field(default_factory=list)
    n_known_texts: int = 0
    n_tries_left: int = _MOST_TRIES
    occurrences: list[Occurrence] = field(default_factory=list)
    why_not_shown: tuple[Literal["not shown", "unknown"], str] | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the bytes once: they are asked for at each anchor."""
        self.size = len(self.text.letters)

    def add_candidate(self, candidate_index: int) -> None:
        """Look for a candidate with these letters."""
        self.candidate_indexes.append(candidate_index)
        self.n_tries_left += _MORE_TRIES

    def add_known_text(self) -> None:
        """Look for a known text with these letters."""
        self.n_known_texts += 1
        self.n_tries_left += _MORE_TRIES

    @property
    def is_short(self) -> bool:
        """Whether it is too short to be shown in parts."""
        return self.size < LEAST_AT_EDGE

    @property
    def n_texts(self) -> int:
        """How many candidates and known texts have these letters."""
        return self.n_known_texts + len(self.candidate_indexes)

    @property
    def has_unplaced_known_text(self) -> bool:
        """Whether the next occurrence belongs to a known text, not to a candidate."""
        return len(self.occurrences) < self.n_known_texts


@dataclass(slots=True, eq=False)
class Occurrence:
    """A place at which the prompt shows a text, whole or in parts.

    Attributes:
        sought_text: The text.
        spans: The bytes that are equal in prompt and text, in the prompt's order. A
            text without letters has one span of no bytes.
        literal_offsets: Only of a text without letters, such as a row of dots: where it
            begins and ends in its message as written.
        is_unbroken: Whether the whole text stands there, with nothing put in but the
            numbers of lines.
    """

    sought_text: SoughtText
    spans: list[EqualSpan]
    literal_offsets: tuple[int, int] | None = None
    is_unbroken: bool = False

    @property
    def begins_at(self) -> tuple[int, int]:
        """Where it begins in the prompt; occurrences are sorted by this.

        The first number counts letters of the prompt. Texts without letters may begin
        at the same letter: the second number, where they begin in their message as
        written, tells them apart.
        """
        literal_start = self.literal_offsets[0] if self.literal_offsets else 0
        return self.spans[0].prompt_start, literal_start

    @property
    def size(self) -> int:
        """How many bytes are equal in prompt and text."""
        return total_size(self.spans)

    @property
    def share_of_text(self) -> float:
        """How much of the text stands there, 0 to 1."""
        return self.size / self.sought_text.size

    @property
    def is_whole(self) -> bool:
        """Whether the whole text stands there, or nearly all of it.

        It does if at least 98 % of the text's bytes stand there. If some bytes between
        the spans are left out, 85 % are enough, provided that the spans reach from the
        text's first byte to its last one and every gap is small.

        It does not if the spans stand in another order than in the text, or too far
        apart in the prompt.
        """
        has_nearly_all = self.size >= SHARE_OF_WHOLE * self.sought_text.size
        if len(self.spans) == 1:  # by far the most frequent
            return has_nearly_all
        largest_gap_in_text = 0
        for before, after in pairwise(self.spans):
            gap_in_text = after.text_start - before.text_end
            goes_back = gap_in_text < 0
            is_too_far = (
                after.prompt_start - before.prompt_end > MOST_APART + LONGEST_STEP
            )
            if goes_back or is_too_far:
                return False
            largest_gap_in_text = max(largest_gap_in_text, gap_in_text)
        has_first_byte = self.spans[0].text_start == 0
        has_last_byte = self.spans[-1].text_end == self.sought_text.size
        has_both_ends = has_first_byte and has_last_byte
        if has_both_ends and largest_gap_in_text <= LONGEST_STEP:
            return self.size >= _SHARE_WITH_BOTH_ENDS * self.sought_text.size
        return has_nearly_all


class OccurrenceSearch:
    """One pass over a prompt that finds where texts stand in it.

    An **anchor** is a piece of 16 bytes by which a text is found. The pass stops at
    every place of the prompt at which an anchor stands.

    A **position** says where a piece of a text stands in the text. It packs the text's
    index and an offset into one number, because small objects would take longer than
    the search.

    Args:
        prompt: The prompt.
        sought_texts: The texts. A text's index is its index here.
    """

    def __init__(self, prompt: Prompt, sought_texts: Sequence[SoughtText]) -> None:
        self.prompt = prompt
        self.sought_texts = sought_texts
        # of a long prompt only every third place is looked at
        self._stride = 3 if len(prompt.letters) > _LONG_PROMPT else 1
        self._text_letters = [sought.text.letters for sought in sought_texts]
        self._reversed_prompt = prompt.letters[::-1]
        # An anchor may stand at several positions of the texts. The pass stops at the
        # anchors of the first mapping; those with several positions have all of them in
        # the second one.
        self._first_position_by_anchor: dict[bytes, int] = {}
        self._all_positions_by_anchor: dict[bytes, list[int]] = {}
        # by the text's index: its runs, each a list of spans that are equal
        self._runs_by_text: dict[int, list[list[EqualSpan]]] = defaultdict(list)
        # by the text's index: where in the prompt it begins whole and in one piece
        self._whole_starts_by_text: dict[int, list[int]] = defaultdict(list)
        self._whole_texts = WholeTexts(
            prompt.letters, self._text_letters, stride=self._stride
        )
        self._add_anchors()
        self._replace_common_anchors()
        # The pass also stops where a whole text may begin. Such an anchor may have been
        # dropped as common: then it has no position.
        for anchor in self._whole_texts.families_by_anchor:
            self._first_position_by_anchor.setdefault(anchor, _NO_POSITION)

    @property
    def shortest_size(self) -> int:
        """The bytes of the shortest texts that the pass finds.

        Shorter ones are looked for one by one.
        """
        return ANCHOR_LENGTH + self._stride - 1

    # Anchors

    def _add_anchors(self) -> None:
        """Look for the anchors of each text that may be shown in parts.

        The anchors are the text's pieces of 16 bytes, one behind the other, and its
        last 16 bytes. In a long prompt only every third place is looked at, so that an
        anchor may be missed: there, the text's edges are looked for at three offsets
        each, one of which is met.
        """
        for text_index, text in enumerate(self._text_letters):
            if len(text) < LEAST_AT_EDGE:
                continue
            last_offset = len(text) - ANCHOR_LENGTH
            tiles = range(0, last_offset + 1, ANCHOR_LENGTH)
            edges = [last_offset]
            if self._stride > 1:
                edges = [1, 2, last_offset - 2, last_offset - 1, last_offset]
            self._add_anchors_at([*tiles, *edges], text_index)

    def _add_anchors_at(self, offsets: Iterable[int], text_index: int) -> None:
        """Have the pass stop at the anchors that stand at these offsets of a text.

        An anchor is a piece of 16 bytes, and its position one number that packs the
        index of the text and the offset. Its first position is kept in one mapping. If
        it has more positions, all of them are kept in another mapping, at most two of
        the same text: a text that repeats itself must not fill the list.
        """
        text = self._text_letters[text_index]
        first_positions = self._first_position_by_anchor
        for offset in offsets:
            anchor = text[offset : offset + ANCHOR_LENGTH]
            position = text_index << _OFFSET_BITS | offset
            first_position = first_positions.setdefault(anchor, position)
            if first_position == position:
                continue
            positions = self._all_positions_by_anchor.setdefault(
                anchor, [first_position]
            )
            # the texts are added one after the other, so its positions stand last
            has_two_of_text = (
                len(positions) >= 2 and _text_index(positions[-2]) == text_index
            )
            if not has_two_of_text:
                positions.append(position)

    def _replace_common_anchors(self) -> None:
        """Replace the anchors that more than eight texts share.

        Such pieces are boilerplate: that one stands in the prompt does not tell which
        text is shown. A text gets other anchors instead where its rare anchors may be
        missed. A text that has no rare anchor gets its common ones back.
        """
        common_offsets_by_text = self._remove_common_anchors()
        # First choose the new anchors of all texts. An anchor that one text gets back
        # would count as rare for the next text.
        new_offsets_by_text = {}
        for text_index, common_offsets in common_offsets_by_text.items():
            new_offsets_by_text[text_index] = self._offsets_instead_of(
                common_offsets, text_index
            )
        for text_index, offsets in new_offsets_by_text.items():
            self._add_anchors_at(offsets, text_index)

    def _remove_common_anchors(self) -> dict[int, list[int]]:
        """Remove the anchors that more than eight texts share.

        Returns:
            By the index of a text: at which of its offsets the removed anchors stood.
        """
        common_offsets_by_text: dict[int, list[int]] = defaultdict(list)
        for anchor, positions in list(self._all_positions_by_anchor.items()):
            text_indexes = {_text_index(position) for position in positions}
            if len(text_indexes) <= MOST_TEXTS_OF_ANCHOR:
                continue
            del self._all_positions_by_anchor[anchor]
            del self._first_position_by_anchor[anchor]
            for position in positions:
                common_offsets_by_text[_text_index(position)].append(_offset(position))
        return common_offsets_by_text

    def _offsets_instead_of(
        self, common_offsets: list[int], text_index: int
    ) -> list[int]:
        """Choose the offsets of new anchors for a text that lost its common ones.

        A common anchor is a piece of 16 bytes that too many texts share; the others are
        rare. In a long prompt, the pass looks at the places 0, 3, 6 and so on. If all
        rare anchors stand at 1, 4 or 7 of it, it meets none of them. The pieces that
        begin one or two bytes before and behind a rare anchor cover the other two
        remainders: one of the three is met wherever the text stands.

        Args:
            common_offsets: Where the text's common anchors begin.
            text_index: The index of the text.

        Returns:
            The offsets one and two bytes before and behind each rare anchor.
            - Empty if the rare anchors already cover all remainders.
            - The common offsets themselves if the text has no rare anchor.
        """
        text = self._text_letters[text_index]
        last_offset = len(text) - ANCHOR_LENGTH
        rare_offsets = []
        for offset in range(0, last_offset + 1, ANCHOR_LENGTH):
            anchor = text[offset : offset + ANCHOR_LENGTH]
            if anchor in self._first_position_by_anchor:
                rare_offsets.append(offset)
        if not rare_offsets:
            return common_offsets
        remainders = {offset % self._stride for offset in rare_offsets}
        if len(remainders) == self._stride:
            return []
        shifted_offsets = []
        for offset in rare_offsets:
            for shift in (-2, -1, 1, 2):
                if 0 <= offset + shift <= last_offset:
                    shifted_offsets.append(offset + shift)
        return shifted_offsets

    # The pass

    def occurrences_of_long_texts(self) -> Iterator[Occurrence]:
        """Pass over the prompt once, and yield where it shows each text.

        Texts too short for an anchor are left out. Of each text, first come the places
        where it stands whole and in one piece, then those where parts of it stand.
        """
        self._pass_over_prompt()
        for text_index, sought_text in enumerate(self.sought_texts):
            starts = self._whole_starts_by_text.get(text_index, ())
            whole_spans = [EqualSpan(start, 0, sought_text.size) for start in starts]
            for span in whole_spans:
                yield Occurrence(sought_text, [span], is_unbroken=True)
            runs = self._runs_by_text.get(text_index, ())
            runs_elsewhere = _runs_outside(whole_spans, runs)
            for occurrence in _occurrences_of_runs(sought_text, runs_elsewhere):
                occurrence.is_unbroken = self._has_nothing_put_in(occurrence)
                yield occurrence

    def _has_nothing_put_in(self, occurrence: Occurrence) -> bool:
        """Whether a whole text stands there, with nothing put in but line numbers."""
        if occurrence.size < occurrence.sought_text.size:
            return False
        for before, after in pairwise(occurrence.spans):
            put_in = self.prompt.letters[before.prompt_end : after.prompt_start]
            if not LINE_NUMBER.fullmatch(put_in):
                return False
        return True

    def _pass_over_prompt(self) -> None:
        """Go through the prompt once, stop at each anchor, and note the texts there.

        A candidate is a text that the caller asks for. Inside of a whole candidate
        nothing need be looked for: the pass jumps to its end. Before the jump it still
        looks at the next 16 places, because other texts may begin there.
        """
        prompt = self.prompt.letters
        end_of_places = (
            len(prompt) - ANCHOR_LENGTH + 1
        )  # no anchor begins here or later
        place = 0
        # what lies between these two places is left out; nothing at first
        skip_from = 0
        skip_to = 0
        while True:
            place = self._next_anchor(place, end_of_places)
            if place == end_of_places:
                return
            anchor = prompt[place : place + ANCHOR_LENGTH]
            end_of_candidate = self._note_texts_beginning(place, anchor)
            if place >= skip_to:
                # it has an effect only if a candidate begins here and reaches farther
                skip_from = place + self._stride * ANCHOR_LENGTH
            # a text that begins in the candidate's last bytes may go on behind it
            skip_to = max(skip_to, end_of_candidate - self.shortest_size)
            self._compare_texts_with(anchor, place)
            place += self._stride
            if skip_from <= place < skip_to:
                place = skip_to

    def _next_anchor(self, start: int, end_of_places: int) -> int:
        """Return the first place from ``start`` on at which an anchor stands.

        It is ``end_of_places`` if no anchor stands before that.
        """
        prompt = self.prompt.letters
        anchors = self._first_position_by_anchor
        for place in range(start, end_of_places, self._stride):
            if prompt[place : place + ANCHOR_LENGTH] in anchors:
                return place
        return end_of_places

    def _note_texts_beginning(self, place: int, anchor: bytes) -> int:
        """Note which whole texts begin at a place of the prompt, or just before it.

        A family is the texts whose first 16 bytes are the same. If none of a family
        stands there whole, its texts that equal the prompt farthest are compared with
        it over small differences.

        Args:
            place: Where in the prompt an anchor stands.
            anchor: The anchor, the 16 bytes at the place.

        Returns:
            The farthest end in the prompt of a candidate that stands here whole, where
            a candidate is a text that the caller asks for. 0 if no candidate does.
        """
        end_of_candidate = 0
        for start, family in self._whole_texts.families_beginning_near(place, anchor):
            whole_texts = self._whole_texts.whole_texts_at(start, family)
            for text_index, size in whole_texts:
                self._note_whole_text(text_index, start)
                is_candidate = bool(self.sought_texts[text_index].candidate_indexes)
                if is_candidate:
                    end_of_candidate = max(end_of_candidate, start + size)
            if whole_texts:
                continue
            for text_index in self._whole_texts.closest_texts_at(start, family):
                self._compare_text(text_index, start, text_offset=0)
        return end_of_candidate

    def _note_whole_text(self, text_index: int, start: int) -> None:
        """Note that a text stands whole and in one piece from a place of the prompt on.

        A text that stands in hundreds of places is looked for no longer, and counts as
        unknown: nobody can say which of the places show it. One more place is allowed
        for each candidate and each known text with these letters.
        """
        starts = self._whole_starts_by_text[text_index]
        sought_text = self.sought_texts[text_index]
        # its beginning repeats itself, as in "na na na"
        is_same_place = bool(starts) and start < starts[-1] + ANCHOR_LENGTH
        if is_same_place:
            return
        starts.append(start)
        if len(starts) >= _MOST_OCCURRENCES + sought_text.n_texts:
            sought_text.n_tries_left = 0
            sought_text.why_not_shown = "unknown", "its words stand in too many places"
            self._whole_texts.forget(text_index)

    def _compare_texts_with(self, anchor: bytes, place: int) -> None:
        """Compare the prompt with each text that holds the anchor found at a place.

        A text that was compared too often is left out at its anchors from then on. An
        anchor without any text left is dropped, unless whole texts may begin with it.
        """
        positions = self._positions_of(anchor)
        for position in positions:
            self._compare_text(_text_index(position), place, _offset(position))
        open_positions = []
        for position in positions:
            if self.sought_texts[_text_index(position)].n_tries_left > 0:
                open_positions.append(position)
        if len(open_positions) < len(positions):
            self._all_positions_by_anchor[anchor] = open_positions
        if open_positions:
            return
        whole_texts_may_begin = anchor in self._whole_texts.families_by_anchor
        if whole_texts_may_begin:
            self._first_position_by_anchor[anchor] = _NO_POSITION
        else:
            del self._first_position_by_anchor[anchor]

    def _positions_of(self, anchor: bytes) -> list[int]:
        """Return where an anchor stands in the texts, as packed positions."""
        first_position = self._first_position_by_anchor[anchor]
        if first_position == _NO_POSITION:
            return []
        return self._all_positions_by_anchor.get(anchor, [first_position])

    def _compare_text(self, text_index: int, place: int, text_offset: int) -> None:
        """Compare prompt and text both ways from an anchor, and note the equal bytes.

        It does nothing if the text is already known to stand there, if it was compared
        too often, or if it is too short to be shown in parts.

        Args:
            text_index: The index of the text.
            place: Where in the prompt the anchor stands.
            text_offset: Where in the text the anchor stands.
        """
        sought_text = self.sought_texts[text_index]
        if sought_text.n_tries_left <= 0 or sought_text.is_short:
            return
        if self._is_known_to_stand_at(place, text_index, text_offset):
            return
        sought_text.n_tries_left -= 1
        run = self._run_around(place, self._text_letters[text_index], text_offset)
        _add_run(self._runs_by_text[text_index], run)

    def _is_known_to_stand_at(
        self, place: int, text_index: int, text_offset: int
    ) -> bool:
        """Whether a byte of a text was already found at a place of the prompt.

        Args:
            place: The place of the prompt.
            text_index: The index of the text.
            text_offset: The byte of the text.
        """
        starts = self._whole_starts_by_text.get(text_index)
        size = len(self._text_letters[text_index])
        if starts and starts[-1] <= place < starts[-1] + size:
            # The whole text stands around the place. Another byte of it may stand just
            # here, where the text repeats a phrase: that shows nothing more.
            return True
        runs = self._runs_by_text.get(text_index)
        if not runs:
            return False
        for span in runs[-1]:
            # the span pairs this place with this byte
            has_same_shift = span.prompt_start - span.text_start == place - text_offset
            if has_same_shift and span.prompt_start <= place < span.prompt_end:
                return True
        return False

    def _run_around(self, place: int, text: bytes, text_offset: int) -> list[EqualSpan]:
        """Compare prompt and text both ways from a place where they are equal.

        Args:
            place: Where in the prompt they are equal.
            text: The letters of the text.
            text_offset: Where in the text they are equal.

        Returns:
            The spans that are equal, in the prompt's order. They begin and end with
            whole letters, also with letters that take several bytes.
        """
        spans_before: list[EqualSpan] = []
        if text_offset and place:
            spans_before = self._spans_before(place, text, text_offset)
            if spans_before and spans_before[-1].prompt_end == place:
                # it touches what follows: compare from its start, to get one span
                touching_span = spans_before.pop()
                place = touching_span.prompt_start
                text_offset = touching_span.text_start
        spans_behind = collect_equal_spans(
            self.prompt.letters, place, text, text_offset
        )
        spans = [*spans_before, *spans_behind]
        if text.isascii():
            return spans
        shortened_spans = [without_half_letters(text, span) for span in spans]
        return [span for span in shortened_spans if span.size]

    def _spans_before(
        self, place: int, text: bytes, text_offset: int
    ) -> list[EqualSpan]:
        """Return the equal spans before a place of the prompt and an offset of a text.

        ``collect_equal_spans`` compares forwards only. So both are compared reversed,
        and the spans are turned round.
        """
        prompt_size = len(self.prompt.letters)
        text_size = len(text)
        reversed_spans = collect_equal_spans(
            self._reversed_prompt,
            prompt_size - place,
            text[::-1],
            text_size - text_offset,
        )
        spans = []
        for span in reversed(reversed_spans):
            prompt_start = prompt_size - span.prompt_end
            text_start = text_size - span.text_end
            spans.append(EqualSpan(prompt_start, text_start, span.size))
        return spans

    # Short texts

    def occurrences_of_short_text(
        self, sought_text: SoughtText
    ) -> Iterator[tuple[Occurrence, Border, Border]]:
        """Yield where a short text stands in the prompt, one message after the other.

        The pass over the prompt finds only texts long enough for an anchor; the others
        are looked for here. In a message in which the text stands too often, the other
        places are left out, and ``n_tries_left`` of the text is set to 0.

        Yields:
            The occurrence, and what stands on its left and on its right.
        """
        starts = self.prompt.message_starts
        for message, message_start in zip(self.prompt.messages, starts, strict=True):
            if sought_text.text.letters:
                occurrences = _occurrences_by_letters(
                    sought_text, message, message_start
                )
            else:
                occurrences = _occurrences_by_characters(
                    sought_text, message, message_start
                )
            for occurrence in occurrences:
                (span,) = occurrence.spans
                start = span.prompt_start - message_start
                left, right = _borders_in(
                    message, start, start + span.size, occurrence.literal_offsets
                )
                yield occurrence, left, right

    def borders_of(self, span: EqualSpan) -> tuple[Border, Border]:
        """Return what stands on the left and on the right of a span of the prompt."""
        message_index = self.prompt.message_index_at(span.prompt_start)
        message_start = self.prompt.message_starts[message_index]
        return _borders_in(
            self.prompt.messages[message_index],
            span.prompt_start - message_start,
            span.prompt_end - message_start,
            literal_offsets=None,
        )


def _text_index(position: int) -> int:
    """The index of the text in a packed position."""
    return position >> _OFFSET_BITS


def _offset(position: int) -> int:
    """The offset in the text in a packed position."""
    return position & _OFFSET_MASK


# From runs to occurrences


def _add_run(runs: list[list[EqualSpan]], run: list[EqualSpan]) -> None:
    """Add a run of a text to its runs, so that no two of them overlap in the prompt.

    A run is a list of spans that are equal in prompt and text. If the new run and the
    last one overlap, the better of them keeps the common part, and the other is cut,
    perhaps to nothing. Better is the run with more equal bytes; of two with as many,
    the run that is spread over fewer bytes of the prompt.

    Args:
        runs: The runs so far, in the prompt's order. They are changed.
        run: The new run.
    """
    while runs and run and _overlap(runs[-1], run):
        last_run = runs[-1]
        if _length_and_density(last_run) >= _length_and_density(run):
            run = clip_spans(run, prompt_start=last_run[-1].prompt_end)
            break
        # cut the last run instead, and look at the one before it
        runs.pop()
        shortened_run = clip_spans(last_run, prompt_end=run[0].prompt_start)
        if shortened_run:
            runs.append(shortened_run)
    if run:
        runs.append(run)


def _overlap(last_run: list[EqualSpan], run: list[EqualSpan]) -> bool:
    """Whether a run begins in the prompt before the end of the last one."""
    return run[0].prompt_start < last_run[-1].prompt_end


def _length_and_density(run: list[EqualSpan]) -> tuple[int, int]:
    """Return what runs are compared by: the equal bytes, then how dense they stand."""
    extent = run[-1].prompt_end - run[0].prompt_start
    return total_size(run), -extent


def _runs_outside(
    whole_spans: Sequence[EqualSpan], runs: Iterable[list[EqualSpan]]
) -> Iterator[list[EqualSpan]]:
    """Leave out the runs of a text that overlap a place where it stands whole.

    Args:
        whole_spans: Where in the prompt the text stands in one piece, in order.
        runs: Lists of spans that are equal in prompt and text.
    """
    starts = [span.prompt_start for span in whole_spans]
    for run in runs:
        # of those that begin before the run ends, the last one reaches farthest
        last_index = bisect_left(starts, run[-1].prompt_end) - 1
        is_before_all = last_index < 0
        if is_before_all or whole_spans[last_index].prompt_end <= run[0].prompt_start:
            yield run


def _occurrences_of_runs(
    sought_text: SoughtText, runs: Iterable[list[EqualSpan]]
) -> Iterator[Occurrence]:
    """Join the runs of one text to occurrences, places at which the prompt shows it.

    A run is a list of spans that are equal in prompt and text. It is joined to the run
    before it if both text and prompt go on there, with at most 96 bytes between. From
    an occurrence that does not hold the whole text, runs that may be there by chance
    are dropped. An occurrence without any run left is dropped.

    Args:
        sought_text: The text.
        runs: Its runs, in the prompt's order.
    """
    joined_runs: list[list[EqualSpan]] = []
    for run in runs:
        continuation = []
        if joined_runs:
            last_span = joined_runs[-1][-1]
            continuation = _continuation_of(last_span, run)
        if continuation:
            joined_runs[-1] += continuation
        else:
            joined_runs.append(run)
    for spans in joined_runs:
        occurrence = Occurrence(sought_text, spans)
        if not occurrence.is_whole:
            occurrence.spans = _without_runs_by_chance(spans, sought_text.size)
        if occurrence.spans:
            yield occurrence


def _continuation_of(last_span: EqualSpan, run: list[EqualSpan]) -> list[EqualSpan]:
    """Return the part of a run that goes on where another run of the text ended.

    It is empty, so that the run begins another occurrence, if the run begins with the
    text's first byte, stands too far behind in the prompt, or goes back in the text.

    Args:
        last_span: The last span of the other run.
        run: The run.
    """
    first_span = run[0]
    begins_anew = first_span.text_start == 0
    is_too_far = first_span.prompt_start - last_span.prompt_end > MOST_APART
    goes_back = first_span.text_start < last_span.text_end - LONGEST_STEP
    if begins_anew or is_too_far or goes_back:
        return []
    return clip_spans(run, text_start=last_span.text_end)


def _without_runs_by_chance(spans: list[EqualSpan], text_size: int) -> list[EqualSpan]:
    """Drop the spans that may be equal to the text by chance.

    The spans are divided into runs, between which more than a small step lies. A run
    that holds the text's first or last byte must have 32 bytes, any other one 48.
    """
    spans_left: list[EqualSpan] = []
    for run in split_into_runs(spans):
        is_at_edge = run[0].text_start == 0 or run[-1].text_end == text_size
        least_size = LEAST_AT_EDGE if is_at_edge else LEAST_ELSEWHERE
        if total_size(run) >= least_size:
            spans_left += run
    return spans_left


# Short texts


def _occurrences_by_letters(
    sought_text: SoughtText, message: Text, message_start: int
) -> Iterator[Occurrence]:
    """Yield where the letters of a short text stand in a message.

    After too many places it ends, and sets ``n_tries_left`` of the text to 0.

    Args:
        sought_text: The text.
        message: The message.
        message_start: Where the message begins in the prompt's letters.
    """
    letters = sought_text.text.letters
    start = -1
    for _ in range(_MOST_OCCURRENCES):
        start = message.letters.find(letters, start + 1)
        if start < 0:
            return
        span = EqualSpan(message_start + start, text_start=0, size=len(letters))
        yield Occurrence(sought_text, [span])
    sought_text.n_tries_left = 0


def _occurrences_by_characters(
    sought_text: SoughtText, message: Text, message_start: int
) -> Iterator[Occurrence]:
    """Yield where a text without letters, such as a row of dots, stands in a message.

    It is looked for as it is written. The letters of a prompt do not hold it, so its
    occurrence has an empty span, between the letters before it and those behind it, and
    its offsets in the message as written. After too many places the search ends, and
    sets ``n_tries_left`` of the text to 0.

    Args:
        sought_text: The text.
        message: The message.
        message_start: Where the message begins in the prompt's letters.
    """
    characters = sought_text.text.raw.strip()
    offset = -1
    for _ in range(_MOST_TRIES):
        offset = message.raw.find(characters, offset + 1)
        if offset < 0:
            return
        n_letters_before = len(letters_of(message.raw[:offset]))
        empty_span = EqualSpan(message_start + n_letters_before, text_start=0, size=0)
        literal_offsets = (offset, offset + len(characters))
        yield Occurrence(sought_text, [empty_span], literal_offsets)
    sought_text.n_tries_left = 0


def _borders_in(
    message: Text, start: int, end: int, literal_offsets: tuple[int, int] | None
) -> tuple[Border, Border]:
    """Return what stands on the left and on the right of a short text in a message.

    The number of a list's line, as in "3. text", sets the text off like a quote does.

    Args:
        message: The message that shows the text.
        start: Where the text begins in the letters of the message.
        end: Where it ends there.
        literal_offsets: Only for a text without letters: where it begins and ends in
            the message as written. None for others, whose offsets follow from ``start``
            and ``end``.
    """
    # The characters of the message as written, from the letter before the text to the
    # letter behind it: gap, text, gap.
    left_gap_start, text_start = message.gap_at(start)
    text_end, right_gap_end = message.gap_at(end)
    if literal_offsets:
        # a text without letters stands inside of a gap
        text_start, text_end = literal_offsets
    has_letters = literal_offsets is None
    before = message.raw[max(text_start - _LONGEST_NUMBERING, 0) : text_start]
    is_numbered = _NUMBERED.search(before) is not None
    left = _border(
        message.raw[left_gap_start:text_start],
        is_at_edge=start == 0 or is_numbered,
        has_letters=has_letters,
    )
    right = _border(
        message.raw[text_end:right_gap_end],
        is_at_edge=end == len(message.letters),
        has_letters=has_letters,
    )
    return left, right


def _border(between: str, *, is_at_edge: bool, has_letters: bool) -> Border:
    """Return what stands on one side of a short text.

    Args:
        between: The characters between the text and the next letter.
        is_at_edge: Whether there is no such letter, or a list's number instead.
        has_letters: Whether the text has letters; a row of dots touches no word.
    """
    # an apostrophe alone is no quote: it stands inside a word
    is_apostrophe = between in ("'", "’")
    is_marked = _MARKS.search(between) is not None and not is_apostrophe
    if is_at_edge or is_marked:
        return Border.MARK
    if between or not has_letters:
        return Border.GAP
    return Border.LETTER
