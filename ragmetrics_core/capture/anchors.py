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
   **occurrence**, a place at which the prompt shows the text (``occurrences``).
5. Runs so short that they may be there by chance are left out.
6. Texts too short for an anchor are looked for one by one (``short_texts``).

An example: ``Porto lies on the Douro, in the north of the country.`` in the prompt
``Porto lies on the Douro [1], in the north of the country. Where is it?`` The pass
stops at the anchor ``portoliesonthedo``. The text does not stand there in one piece.
From the anchor, the comparison goes on to ``uro``, steps over the ``1`` of the mark,
and goes on to ``country``: a run of two spans, which holds the whole text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from ragmetrics_core.capture.byte_spans import EqualSpan
from ragmetrics_core.capture.letters import Prompt
from ragmetrics_core.capture.matching import (
    LINE_NUMBER,
    collect_equal_spans,
    without_half_letters,
)
from ragmetrics_core.capture.occurrences import (
    LEAST_AT_EDGE,
    MOST_OCCURRENCES,
    Occurrence,
    SoughtText,
    add_run,
    occurrences_of_runs,
    runs_outside,
)
from ragmetrics_core.capture.whole_texts import (
    ANCHOR_LENGTH,
    MOST_TEXTS_OF_ANCHOR,
    WholeTexts,
)

_LONG_PROMPT = 100_000  # bytes; in a longer prompt only every third place is looked at
# A position packs the index of a text and an offset in it into one number: the index,
# then 40 bits for the offset.
_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
# stands instead of a position: at this anchor only whole texts are looked for
_NO_POSITION = -1


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
        # By an anchor, 16 bytes by which texts are found: where it stands in the texts.
        # The first mapping has every anchor at which the pass over the prompt stops,
        # with its first position. The second one has only the anchors that stand at
        # several positions, each with all of them.
        self._first_position_by_anchor: dict[bytes, int] = {}
        self._all_positions_by_anchor: dict[bytes, list[int]] = {}
        # What the pass finds, by the index of a text. First its runs: a run is a list
        # of spans that are equal in prompt and text.
        self._runs_by_text: dict[int, list[list[EqualSpan]]] = defaultdict(list)
        # then where in the prompt the text begins whole and in one piece
        self._whole_starts_by_text: dict[int, list[int]] = defaultdict(list)
        self._whole_texts = WholeTexts(
            prompt.letters, self._text_letters, stride=self._stride
        )
        self._add_anchors()
        self._replace_common_anchors()
        self._add_anchors_of_whole_texts()

    def _add_anchors_of_whole_texts(self) -> None:
        """Have the pass stop also where a whole text may begin.

        An anchor may have no position yet, because too many texts share it, or because
        its text is too short to be shown in parts. At such an anchor the pass looks for
        whole texts only.
        """
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

    def occurrences_found_by_anchors(self) -> Iterator[Occurrence]:
        """Pass over the prompt once, and yield where it shows each text.

        Of each text, first come the places where it stands whole and in one piece, then
        those where parts of it stand. Texts of fewer bytes than ``shortest_size`` have
        no anchor, and are not found here.
        """
        self._pass_over_prompt()
        for text_index, sought_text in enumerate(self.sought_texts):
            starts = self._whole_starts_by_text.get(text_index, ())
            whole_spans = [EqualSpan(start, 0, sought_text.size) for start in starts]
            for span in whole_spans:
                yield Occurrence(sought_text, [span], is_unbroken=True)
            # A run is the equal spans around an anchor. One that overlaps a place where
            # the whole text stands adds nothing.
            runs = self._runs_by_text.get(text_index, ())
            runs_of_parts = runs_outside(whole_spans, runs)
            for occurrence in occurrences_of_runs(sought_text, runs_of_parts):
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

        A candidate is a text that the caller asks for. Where a candidate stands whole,
        nothing more need be looked for inside of it: the pass jumps to its end. Before
        the jump it still looks at 16 places or more, because other texts may begin
        there.
        """
        prompt = self.prompt.letters
        # an anchor of 16 bytes cannot begin here or later
        end_of_places = len(prompt) - ANCHOR_LENGTH + 1
        place = 0
        # the places from the first number up to the second are skipped; none at first
        skip_from = 0
        skip_to = 0
        while True:
            # ``end_of_places`` if no further anchor stands there, also after a jump beyond
            place = self._next_anchor(place, end_of_places)
            if place == end_of_places:
                return
            anchor = prompt[place : place + ANCHOR_LENGTH]
            # texts whose beginning the anchor is; 0 if no candidate stands here whole
            end_of_candidate = self._note_texts_beginning(place, anchor)
            is_outside_of_candidates = place >= skip_to
            if is_outside_of_candidates:
                # 16 places on; places are one byte apart, in a long prompt three
                skip_from = place + ANCHOR_LENGTH * self._stride
            # Stop short of the end: a text that begins in the candidate's last bytes
            # may go on behind it. Without a candidate ``skip_to`` stays as it is.
            skip_to = max(skip_to, end_of_candidate - self.shortest_size)
            # texts of which the anchor is any piece: a part of them may stand here
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
        starts.append(start)
        if len(starts) >= MOST_OCCURRENCES + sought_text.n_texts:
            sought_text.n_tries_left = 0
            sought_text.why_not_shown = "unknown", "its words stand in too many places"
            self._whole_texts.forget(text_index)

    def _compare_texts_with(self, anchor: bytes, place: int) -> None:
        """Compare the prompt with each text that holds the anchor found at a place.

        Afterwards, texts that may not be compared again are dropped from the anchor:
        their ``n_tries_left`` is 0. Once no text is left, the pass stops at the anchor
        no longer, unless a whole text may begin with it.
        """
        positions = self._positions_of(anchor)
        for position in positions:
            self._compare_text(_text_index(position), place, _offset(position))
        positions_left = []
        for position in positions:
            if self.sought_texts[_text_index(position)].n_tries_left > 0:
                positions_left.append(position)
        if not positions_left:
            self._drop_positions_of(anchor)
        elif len(positions_left) < len(positions):
            self._all_positions_by_anchor[anchor] = positions_left

    def _drop_positions_of(self, anchor: bytes) -> None:
        """Compare no text at an anchor any longer; whole texts may still begin there."""
        whole_texts_may_begin = anchor in self._whole_texts.families_by_anchor
        if whole_texts_may_begin:
            self._first_position_by_anchor[anchor] = _NO_POSITION
        else:
            # the pass does not stop here any longer, so the second mapping is not asked
            del self._first_position_by_anchor[anchor]

    def _positions_of(self, anchor: bytes) -> list[int]:
        """Return where an anchor stands in the texts, as packed positions.

        Empty for an anchor at which only whole texts are looked for.
        """
        first_position = self._first_position_by_anchor[anchor]
        if first_position == _NO_POSITION:
            return []
        return self._all_positions_by_anchor.get(anchor, [first_position])

    def _compare_text(
        self, text_index: int, prompt_offset: int, text_offset: int
    ) -> None:
        """Compare prompt and text both ways from an anchor, and note the equal bytes.

        It does nothing if the text is already known to stand there, if it was compared
        too often, or if it is too short to be shown in parts.

        Args:
            text_index: The index of the text.
            prompt_offset: Where in the prompt the anchor stands.
            text_offset: Where in the text the anchor stands.
        """
        sought_text = self.sought_texts[text_index]
        if sought_text.n_tries_left <= 0 or sought_text.is_short:
            return
        if self._is_known_to_stand_at(prompt_offset, text_index, text_offset):
            return
        sought_text.n_tries_left -= 1
        text = self._text_letters[text_index]
        run = self._run_around(prompt_offset, text, text_offset)
        add_run(self._runs_by_text[text_index], run)

    def _is_known_to_stand_at(
        self, prompt_offset: int, text_index: int, text_offset: int
    ) -> bool:
        """Whether a text need not be compared with the prompt at a place again.

        That is so if the whole text stands around the place, or if an earlier
        comparison has found there that this byte of prompt and text is equal.

        Args:
            prompt_offset: The place, a byte of the prompt.
            text_index: The index of the text.
            text_offset: The byte of the text.
        """
        # The pass goes through the prompt in order, so only the last place where the
        # whole text stands, and the last run of equal spans, can reach this far.
        whole_starts = self._whole_starts_by_text.get(text_index)
        size = len(self._text_letters[text_index])
        if whole_starts and whole_starts[-1] <= prompt_offset < whole_starts[-1] + size:
            # Any byte of the text: one that repeats a phrase may have the same anchor
            # at several offsets.
            return True
        runs = self._runs_by_text.get(text_index)
        if not runs:
            return False
        shift = prompt_offset - text_offset
        for span in runs[-1]:
            # the span pairs this byte of the prompt with this byte of the text
            has_same_shift = span.prompt_start - span.text_start == shift
            if has_same_shift and span.prompt_start <= prompt_offset < span.prompt_end:
                return True
        return False

    def _run_around(
        self, prompt_offset: int, text: bytes, text_offset: int
    ) -> list[EqualSpan]:
        """Compare prompt and text both ways from two offsets where they are equal.

        Args:
            prompt_offset: The byte of the prompt.
            text: The letters of the text, as UTF-8 bytes.
            text_offset: The byte of the text that is equal to it.

        Returns:
            The spans of equal bytes, in the prompt's order. No span begins or ends
            inside of a character of several bytes, such as "é".
        """
        spans_before: list[EqualSpan] = []
        # at offset 0 nothing stands before
        if text_offset > 0 and prompt_offset > 0:
            spans_before = self._spans_before(prompt_offset, text, text_offset)
            if spans_before and spans_before[-1].prompt_end == prompt_offset:
                # it touches what follows: compare from its start, to get one span
                touching_span = spans_before.pop()
                prompt_offset = touching_span.prompt_start
                text_offset = touching_span.text_start
        spans_behind = collect_equal_spans(
            self.prompt.letters, prompt_offset, text, text_offset
        )
        spans = [*spans_before, *spans_behind]
        if text.isascii():
            return spans
        shortened_spans = [without_half_letters(text, span) for span in spans]
        return [span for span in shortened_spans if span.size]

    def _spans_before(
        self, prompt_offset: int, text: bytes, text_offset: int
    ) -> list[EqualSpan]:
        """Return the equal spans before an offset of the prompt and one of a text.

        ``collect_equal_spans`` compares forwards only. So both are compared reversed,
        and the spans are turned round.
        """
        prompt_size = len(self.prompt.letters)
        text_size = len(text)
        reversed_spans = collect_equal_spans(
            self._reversed_prompt,
            prompt_size - prompt_offset,
            text[::-1],
            text_size - text_offset,
        )
        spans = []
        for span in reversed(reversed_spans):
            prompt_start = prompt_size - span.prompt_end
            text_start = text_size - span.text_end
            spans.append(EqualSpan(prompt_start, text_start, span.size))
        return spans


def _text_index(position: int) -> int:
    """The index of the text in a packed position."""
    return position >> _OFFSET_BITS


def _offset(position: int) -> int:
    """The offset in the text in a packed position."""
    return position & _OFFSET_MASK
