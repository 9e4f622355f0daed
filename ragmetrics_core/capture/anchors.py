"""Where texts run along in a prompt: anchors of the streams, looked up in one pass.

A **stream** is a text's letters and digits as bytes (``letters``). An **anchor** is a
piece of 16 bytes of it. A **showing** is a place at which the prompt shows a text. A
**candidate** is a text of which the caller asks whether the prompt shows it; a
**known** text stands in the prompt anyway, such as the question.

Three steps, each a class or a few functions:

    1. ``WholeTexts`` (``whole_texts``) finds the texts that stand whole and unbroken at
       a place. Nothing that another text has in common with them can hide them.
    2. ``Search`` looks the anchors up. Where one stands without its whole text, the
       match is **followed**: prompt and text are compared from there both ways, over
       small steps (``matching``): a line number, a mark, a word left out. What agrees
       is a **run** of spans.
    3. ``_showings_of_runs`` joins runs into showings, and leaves out what is no trace.

A text leaves a **trace** where so many of its bytes stand in the prompt that it is no
chance. Texts too short for an anchor are looked for one by one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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

SHARE_OF_WHOLE = (
    0.98  # of a text so much is all of it, also where pieces of it stand apart
)
# of a text that is shown from its first to its last letter so much is all of it
_WHOLE_IN_PIECES = 0.85
MOST_APART = 96  # parts of one text at most so far apart are one showing
# the least part at an edge of a text, and elsewhere; less is no trace
LEAST_AT_EDGE = 32
LEAST_ELSEWHERE = 48
# what a short text touches on one side: another letter; a space or the like; a quote, a
# tag, a bullet, or the end
LETTER, GAP, MARK = range(3)
MOST_TRIES = 64  # extensions for a text; more for duplicates
MOST_OCCURRENCES = 500  # of a short text so many are looked at in one message
LONG_PROMPT = 100_000  # in a longer prompt every third place is looked at
_MARKS = re.compile(
    r"""[\n\r\t"'`“”„«»‘’<>]|\\[nrt"']|&(?:amp;)*(?:quot|apos|lt|gt|\#39|\#34|\#x27);"""
)
_NUMBERED = re.compile(r"(?:^|\n|\\n)\W*\d{1,3}[.):\]]\s*$")
_LONGEST_NUMBERING = 20  # characters in which the number of a list's line stands
# A position in the texts is one number: the text's index, then so many bits of offset.
_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_NO_POSITION = -1  # of an anchor that only says that a text may begin here


@dataclass(slots=True, eq=False)
class SoughtText:
    """The candidates and known texts of one stream, which are located together.

    Attributes:
        text: The first of them.
        candidate_indexes: The indexes of the candidates.
        n_known_texts: How many of them are known to stand there for another reason.
        n_tries_left: How many more matches of an anchor may be followed.
        occurrences: Where they stand: one candidate or known text after the other.
        why_not_shown: Outcome and reason. None if there is no more to say than that it
            was not found.
        size: Bytes of the stream.
    """

    text: Text
    candidate_indexes: list[int] = field(default_factory=list)
    n_known_texts: int = 0
    n_tries_left: int = MOST_TRIES
    occurrences: list[Occurrence] = field(default_factory=list)
    why_not_shown: tuple[Literal["not shown", "unknown"], str] | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the bytes once: they are asked for at each anchor."""
        self.size = len(self.text.letters)

    @property
    def has_candidates(self) -> bool:
        """Whether the caller asks for the text; if not, it is a known one only."""
        return bool(self.candidate_indexes)

    @property
    def has_unplaced_known_text(self) -> bool:
        """Whether a known text has no showing yet, so that the next one explains it."""
        return len(self.occurrences) < self.n_known_texts


@dataclass(slots=True, eq=False)
class Occurrence:
    """Where a text stands in the prompt.

    Attributes:
        sought_text: The text, with those equal to it.
        spans: The bytes that agree, in the prompt's order. A text without letters has
            one span of no bytes.
        literal_offsets: Offsets of a text without letters; None for others.
        is_unbroken: Whether the whole text stands there, with nothing put in but the
            numbers of lines.
    """

    sought_text: SoughtText
    spans: list[EqualSpan]
    literal_offsets: tuple[int, int] | None = None
    is_unbroken: bool = False

    @property
    def begins_at(self) -> tuple[int, int]:
        """Where it begins; showings are sorted by this.

        The first number is a place of the stream. The second tells texts without
        letters apart, which stand at the same place of it.
        """
        literal_start = self.literal_offsets[0] if self.literal_offsets else 0
        return self.spans[0].prompt_start, literal_start

    @property
    def size(self) -> int:
        """How many bytes agree."""
        return total_size(self.spans)

    @property
    def share_of_text(self) -> float:
        """How much of the text agrees, 0 to 1."""
        return self.size / self.sought_text.size

    @property
    def is_whole(self) -> bool:
        """Whether this showing holds the whole text.

        It does if at least 98 % of the text's bytes agree with the prompt. If some
        bytes between the pieces are left out, 85 % are enough, provided that the pieces
        reach from the text's first byte to its last one and every gap is small.

        It does not if the pieces stand in another order than in the text, or too far
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
        begins_it = self.spans[0].text_start == 0
        ends_it = self.spans[-1].text_end == self.sought_text.size
        if begins_it and ends_it and largest_gap_in_text <= LONGEST_STEP:
            return self.size >= _WHOLE_IN_PIECES * self.sought_text.size
        return has_nearly_all


class OccurrenceSearch:
    """One pass over a prompt that finds where texts stand in it.

    A **place** is an offset in the prompt's stream. A **position** says where a piece
    of a text stands: it packs the text's index and an offset in the text into one
    number, because small objects would take longer than the search.

    An **anchor** is a piece of 16 bytes of a text. The pass stops at every place of the
    prompt at which an anchor stands. To **follow** the match of a text is to compare
    prompt and text from there both ways, over small differences.

    Args:
        prompt: The prompt.
        sought_texts: The texts. A text's index is its index here.
    """

    def __init__(self, prompt: Prompt, groups: Sequence[SoughtText]) -> None:
        self.prompt = prompt
        self.sought_texts = groups
        # of a long prompt only every third place is looked at
        self._stride = 3 if len(prompt.letters) > LONG_PROMPT else 1
        self._text_streams = [group.text.letters for group in groups]
        self._reversed_prompt = prompt.letters[::-1]
        # Every anchor that is looked for has a first position here. All positions of
        # those that have several stand in the second mapping.
        self._first_position_by_anchor: dict[bytes, int] = {}
        self._all_positions_by_anchor: dict[bytes, list[int]] = {}
        # by the text's index: its runs, each a list of spans that agree
        self._runs_by_text: dict[int, list[list[EqualSpan]]] = defaultdict(list)
        # by the text's index: where in the prompt it stands whole and in one piece
        self._unbroken_starts_by_text: dict[int, list[int]] = defaultdict(list)
        self._whole_texts = WholeTexts(
            prompt.letters, self._text_streams, stride=self._stride
        )
        self._add_anchors()
        self._drop_common_anchors()
        # stop at each beginning of a text, even if no anchor of it is looked for
        for anchor in self._whole_texts.texts_alike_by_anchor:
            self._first_position_by_anchor.setdefault(anchor, _NO_POSITION)

    @property
    def shortest_size(self) -> int:
        """Bytes of the shortest texts that the pass finds.

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
        for text_index, text in enumerate(self._text_streams):
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
        text = self._text_streams[text_index]
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

    def _drop_common_anchors(self) -> None:
        """Stop looking for anchors that more than eight texts share.

        Such pieces are boilerplate: that one stands in the prompt does not prove that a
        certain text is shown. A text that loses anchors may get others instead; a text
        all of whose anchors are common keeps them.
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
        # Choose all of them before the first is added: what is added would count as
        # rare.
        new_offsets_by_text = {}
        for text_index, common_offsets in common_offsets_by_text.items():
            new_offsets_by_text[text_index] = self._offsets_instead_of(
                common_offsets, text_index
            )
        for text_index, offsets in new_offsets_by_text.items():
            self._add_anchors_at(offsets, text_index)

    def _offsets_instead_of(
        self, common_offsets: list[int], text_index: int
    ) -> list[int]:
        """Choose where new anchors of a text begin that replace its common ones.

        A common anchor is a piece of 16 bytes that too many texts share; the others are
        rare. In a long prompt only every third place is looked at. If the rare anchors
        stand at offsets with the same remainder modulo three, all of them may be
        missed. Pieces a byte or two before and behind them are met at any place.

        Args:
            common_offsets: Where the text's common anchors begin.
            text_index: The index of the text.

        Returns:
            Offsets beside the rare anchors. Empty if the rare anchors cannot all be
            missed. The common offsets themselves if the text has no rare anchor.
        """
        text = self._text_streams[text_index]
        last_offset = len(text) - ANCHOR_LENGTH
        rare_offsets = []
        for offset in range(0, last_offset + 1, ANCHOR_LENGTH):
            if text[offset : offset + ANCHOR_LENGTH] in self._first_position_by_anchor:
                rare_offsets.append(offset)
        if not rare_offsets:
            return common_offsets
        # with an anchor for each remainder, one of them is met wherever the text stands
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
        """Yield where the prompt shows the texts that are not too short for the pass.

        Of each text, first the places where it stands whole and in one piece, then
        those where parts of it stand elsewhere.
        """
        self._pass_over_prompt()
        for text_index, group in enumerate(self.sought_texts):
            starts = self._unbroken_starts_by_text.get(text_index, ())
            unbroken_spans = [EqualSpan(start, 0, group.size) for start in starts]
            for span in unbroken_spans:
                yield Occurrence(group, [span], is_unbroken=True)
            runs = self._runs_by_text.get(text_index, ())
            runs_elsewhere = _runs_outside(unbroken_spans, runs)
            for showing in _showings_of_runs(group, runs_elsewhere):
                showing.is_unbroken = self._has_nothing_put_in(showing)
                yield showing

    def _has_nothing_put_in(self, showing: Occurrence) -> bool:
        """Whether a whole text stands there, with nothing put in but line numbers."""
        if showing.size < showing.sought_text.size:
            return False
        for before, after in pairwise(showing.spans):
            put_in = self.prompt.letters[before.prompt_end : after.prompt_start]
            if not LINE_NUMBER.fullmatch(put_in):
                return False
        return True

    def _pass_over_prompt(self) -> None:
        """Go through the prompt once, stop at each anchor, and note the texts there.

        Where a whole candidate stands (a text that the caller asks for), what lies
        inside of it need not be looked at: the pass jumps to its end. Before the jump
        it still looks at the first 16 places, because several texts may begin there.
        """
        prompt = self.prompt.letters
        end_of_places = (
            len(prompt) - ANCHOR_LENGTH + 1
        )  # no anchor begins here or later
        place = 0
        # inside of a whole candidate: what lies between these two places is left out
        skip_from = 0
        skip_to = 0
        while True:
            place = self._next_anchor(place, end_of_places)
            if place == end_of_places:
                return
            anchor = prompt[place : place + ANCHOR_LENGTH]
            end_of_candidate = self._note_texts_beginning(place, anchor)
            if place >= skip_to:
                skip_from = place + self._stride * ANCHOR_LENGTH
            # a text that begins in the candidate's last bytes may go on behind it
            skip_to = max(skip_to, end_of_candidate - self.shortest_size)
            self._follow_texts_of(anchor, place)
            place += self._stride
            if skip_from <= place < skip_to:
                place = skip_to

    def _next_anchor(self, start: int, end_of_places: int) -> int:
        """The first place from ``start`` on at which an anchor stands.

        It is ``end_of_places`` if no anchor stands before that.
        """
        prompt = self.prompt.letters
        anchors = self._first_position_by_anchor
        for place in range(start, end_of_places, self._stride):
            if prompt[place : place + ANCHOR_LENGTH] in anchors:
                return place
        return end_of_places

    def _note_texts_beginning(self, place: int, anchor: bytes) -> int:
        """Note which texts begin at a place of the prompt, or just before it.

        Texts whose first 16 bytes are the same are looked up together. Those of them
        that stand there whole are noted. If none does, the texts that agree with the
        prompt farthest are followed: compared on, over small differences.

        Args:
            place: Where in the prompt an anchor stands.
            anchor: The anchor, the 16 bytes at the place.

        Returns:
            Where the longest whole candidate ends, a text that the caller asks for; 0
            if there is none.
        """
        end_of_candidate = 0
        # where texts may begin, and which: a group whose first 16 bytes are the same
        for start, texts_alike in self._whole_texts.beginnings(place, anchor):
            whole_texts = self._whole_texts.standing_at(start, texts_alike)
            for text_index, size in whole_texts:
                self._note_unbroken(text_index, start)
                if self.sought_texts[text_index].has_candidates:
                    end_of_candidate = max(end_of_candidate, start + size)
            if whole_texts:
                continue
            for text_index in self._whole_texts.closest_at(start, texts_alike):
                self._follow_text(text_index, start, offset=0)
        return end_of_candidate

    def _note_unbroken(self, text_index: int, start: int) -> None:
        """Note that a text stands whole and in one piece from a place of the prompt on.

        A text that stands in too many places is looked for no longer, and counts as
        unknown: nobody can say which of the places show it.
        """
        starts = self._unbroken_starts_by_text[text_index]
        group = self.sought_texts[text_index]
        # its beginning repeats itself, as in "na na na"
        is_same_place = bool(starts) and start < starts[-1] + ANCHOR_LENGTH
        if is_same_place:
            return
        starts.append(start)
        n_wanted = group.n_known_texts + len(group.candidate_indexes)
        if len(starts) >= MOST_OCCURRENCES + n_wanted:
            group.n_tries_left = 0
            group.why_not_shown = "unknown", "its words stand in too many places"
            self._whole_texts.forget(text_index)

    def _follow_texts_of(self, anchor: bytes, place: int) -> None:
        """Follow the match of each text that holds the anchor found at a place.

        To follow is to compare prompt and text from there both ways. Each text may be
        followed only so often; positions of texts that may no longer are forgotten,
        and with the last of them the anchor.
        """
        first_position = self._first_position_by_anchor[anchor]
        if first_position != _NO_POSITION:
            positions = self._all_positions_by_anchor.get(anchor) or [first_position]
            for position in positions:
                self._follow_text(_text_index(position), place, _offset(position))
            open_positions = []
            for position in positions:
                if self.sought_texts[_text_index(position)].n_tries_left > 0:
                    open_positions.append(position)
            if len(open_positions) < len(positions):
                self._all_positions_by_anchor[anchor] = open_positions
            if not open_positions:
                self._first_position_by_anchor[anchor] = _NO_POSITION
        is_open = self._first_position_by_anchor[anchor] != _NO_POSITION
        begins_texts = anchor in self._whole_texts.texts_alike_by_anchor
        if not is_open and not begins_texts:
            del self._first_position_by_anchor[anchor]

    def _follow_text(self, text_index: int, place: int, offset: int) -> None:
        """Compare prompt and text both ways from a match, and note the run that agrees.

        It does nothing if the text is already known to stand there, if it was followed
        too often, or if it is too short to be shown in parts.

        Args:
            text_index: The index of the text.
            place: Where in the prompt both agree.
            offset: Where in the text both agree.
        """
        group = self.sought_texts[text_index]
        if group.n_tries_left <= 0 or group.size < LEAST_AT_EDGE:
            return
        if self._is_noted(text_index, place, offset):
            return
        group.n_tries_left -= 1
        run = self._run_around(place, self._text_streams[text_index], offset)
        _add_run(self._runs_by_text[text_index], run)

    def _is_noted(self, text_index: int, place: int, offset: int) -> bool:
        """Whether it is noted already that a byte of a text stands at a place.

        The text stands there whole, or the last run that was followed holds this byte
        at this place.
        """
        starts = self._unbroken_starts_by_text.get(text_index)
        size = len(self._text_streams[text_index])
        if starts and starts[-1] <= place < starts[-1] + size:
            return True
        runs = self._runs_by_text.get(text_index)
        if not runs:
            return False
        for span in runs[-1]:
            pairs_them = span.prompt_start - span.text_start == place - offset
            if pairs_them and span.prompt_start <= place < span.prompt_end:
                return True
        return False

    def _run_around(self, place: int, text: bytes, offset: int) -> list[EqualSpan]:
        """Compare prompt and text both ways from where they agree.

        Args:
            place: Where in the prompt they agree.
            text: The text.
            offset: Where in the text they agree.

        Returns:
            The spans that agree, in the prompt's order. Halves of letters of several
            bytes are cut off at their ends.
        """
        spans_before: list[EqualSpan] = []
        if offset and place:
            spans_before = self._spans_before(place, text, offset)
            if spans_before and spans_before[-1].prompt_end == place:
                # it touches what follows: compare from its start, to get one span
                touching_span = spans_before.pop()
                place = touching_span.prompt_start
                offset = touching_span.text_start
        spans = spans_before + collect_equal_spans(
            self.prompt.letters, place, text, offset
        )
        if text.isascii():
            return spans
        cut_spans = [without_half_letters(text, span) for span in spans]
        return [span for span in cut_spans if span.size]

    def _spans_before(self, place: int, text: bytes, offset: int) -> list[EqualSpan]:
        """The spans that agree before a place of the prompt and an offset of a text.

        ``follow`` compares forwards only. So both are compared reversed, and the spans
        are turned round.
        """
        prompt_size = len(self.prompt.letters)
        text_size = len(text)
        reversed_spans = collect_equal_spans(
            self._reversed_prompt, prompt_size - place, text[::-1], text_size - offset
        )
        spans = []
        for span in reversed(reversed_spans):
            start = prompt_size - span.prompt_end
            text_start = text_size - span.text_end
            spans.append(EqualSpan(start, text_start, span.size))
        return spans

    # Short texts

    def occurrences_of_short_text(
        self, group: SoughtText
    ) -> Iterator[tuple[Occurrence, int, int]]:
        """Yield where a short text stands in the prompt, one message after the other.

        The pass over the prompt finds only texts long enough for an anchor; the others
        are looked for here. After too many places the rest is left out, and the group's
        ``tries_left`` become 0.

        Yields:
            The showing, and what stands on its left and on its right: ``LETTER`` if
            another letter touches it, ``GAP`` for a space or the like, ``MARK`` for a
            clear border such as a quote or the end.
        """
        letters = group.text.letters
        starts = self.prompt.message_starts
        for message, message_start in zip(self.prompt.messages, starts, strict=True):
            if letters:
                showings = _showings_by_letters(group, message, message_start)
            else:
                showings = _showings_by_characters(group, message, message_start)
            for showing in showings:
                start = showing.spans[0].prompt_start - message_start
                end = start + len(letters)
                left, right = _touching(message, start, end, showing.literal_offsets)
                yield showing, left, right

    def borders_of(self, span: EqualSpan) -> tuple[int, int]:
        """What stands on the left and the right of a text, as in ``occurrences``."""
        message_index = self.prompt.message_index_at(span.prompt_start)
        message_start = self.prompt.message_starts[message_index]
        return _touching(
            self.prompt.messages[message_index],
            span.prompt_start - message_start,
            span.prompt_end - message_start,
            None,
        )


def _text_index(position: int) -> int:
    """The index of the text in a packed position."""
    return position >> _OFFSET_BITS


def _offset(position: int) -> int:
    """The offset in the text in a packed position."""
    return position & _OFFSET_MASK


# From runs to showings


def _add_run(runs: list[list[EqualSpan]], run: list[EqualSpan]) -> None:
    """Add a run of a text to its runs, so that no two of them overlap in the prompt.

    A run is a list of spans that agree between prompt and text. If the new run and the
    last one overlap, the better of them keeps the common part, and the other is cut,
    perhaps to nothing. Better is the one of which more bytes agree; if as many agree,
    the one that is spread over fewer bytes.

    Args:
        runs: The runs so far, in the prompt's order. They are changed.
        run: The new run.
    """
    while runs and run and _overlap(runs[-1], run):
        last_run = runs[-1]
        if _length_and_density(last_run) >= _length_and_density(run):
            run = clip_spans(run, start=last_run[-1].prompt_end)
            break
        # cut the last run instead, and look at the one before it
        runs.pop()
        shortened_run = clip_spans(last_run, end=run[0].prompt_start)
        if shortened_run:
            runs.append(shortened_run)
    if run:
        runs.append(run)


def _overlap(last_run: list[EqualSpan], run: list[EqualSpan]) -> bool:
    """Whether a run begins in the prompt before the end of the last one."""
    return run[0].prompt_start < last_run[-1].prompt_end


def _length_and_density(run: list[EqualSpan]) -> tuple[int, int]:
    """How many bytes agree, and how few lie between them: a larger number is fewer."""
    extent = run[-1].prompt_end - run[0].prompt_start
    return total_size(run), -extent


def _runs_outside(
    unbroken: Sequence[EqualSpan], runs: Iterable[list[EqualSpan]]
) -> Iterator[list[EqualSpan]]:
    """Leave out the runs of a text that overlap a place where it stands in one piece.

    Args:
        unbroken: Where in the prompt the text stands in one piece, in order.
        runs: Lists of spans that agree between prompt and text.
    """
    starts = [span.prompt_start for span in unbroken]
    for run in runs:
        # of those that begin before the run ends, the last one reaches farthest
        last_index = bisect_left(starts, run[-1].prompt_end) - 1
        is_first = last_index < 0
        if is_first or unbroken[last_index].prompt_end <= run[0].prompt_start:
            yield run


def _showings_of_runs(
    group: SoughtText, runs: Iterable[list[EqualSpan]]
) -> Iterator[Occurrence]:
    """Join the runs of one text to showings, places at which the prompt shows it.

    A run is a list of spans that agree between prompt and text. A run belongs to the
    showing of the run before it if both text and prompt go on there, with at most 96
    bytes between. Of a showing that does not hold the whole text, runs that are so
    short that they may agree by chance are left out; if none is left, so is the
    showing.

    Args:
        group: The text.
        runs: Its runs, in the prompt's order.
    """
    joined_runs: list[list[EqualSpan]] = []
    for run in runs:
        continuation = []
        if joined_runs:
            last_span = joined_runs[-1][-1]
            continuation = _continuation(last_span, run)
        if continuation:
            joined_runs[-1] += continuation
        else:
            joined_runs.append(run)
    for spans in joined_runs:
        showing = Occurrence(group, spans)
        if not showing.is_whole:
            showing.spans = _spans_of_traces(spans, group.size)
        if showing.spans:
            yield showing


def _continuation(last_span: EqualSpan, run: list[EqualSpan]) -> list[EqualSpan]:
    """The part of a run that goes on where another run of the same text ended.

    It is empty, so that the run begins another showing, if the run begins with the
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


def _spans_of_traces(spans: list[EqualSpan], text_size: int) -> list[EqualSpan]:
    """Leave out the spans that may agree with the text by chance.

    The spans are divided into runs, between which more than a small step lies. A run
    that holds the text's first or last byte must have 32 bytes, any other one 48.
    """
    spans_of_traces: list[EqualSpan] = []
    for run in split_into_runs(spans):
        is_at_edge = run[0].text_start == 0 or run[-1].text_end == text_size
        least_size = LEAST_AT_EDGE if is_at_edge else LEAST_ELSEWHERE
        if total_size(run) >= least_size:
            spans_of_traces += run
    return spans_of_traces


# Short texts


def _showings_by_letters(
    group: SoughtText, message: Text, message_start: int
) -> Iterator[Occurrence]:
    """Yield where the letters of a short text stand in a message.

    After too many places it ends, and sets ``tries_left`` of the text to 0.

    Args:
        group: The text, with those equal to it.
        message: The message.
        message_start: Where the message begins in the prompt's stream.
    """
    letters = group.text.letters
    place = -1
    for _ in range(MOST_OCCURRENCES):
        place = message.letters.find(letters, place + 1)
        if place < 0:
            return
        yield Occurrence(group, [EqualSpan(message_start + place, 0, len(letters))])
    group.n_tries_left = 0


def _showings_by_characters(
    group: SoughtText, message: Text, message_start: int
) -> Iterator[Occurrence]:
    """Yield where a text without letters, such as a row of dots, stands in a message.

    It is looked for as it is written. Its showing has one span of no bytes, at the
    place of the stream where the text would stand, and its offsets in the message.
    After too many places it ends, and sets ``tries_left`` of the text to 0.

    Args:
        group: The text, with those equal to it.
        message: The message.
        message_start: Where the message begins in the prompt's stream.
    """
    characters = group.text.raw.strip()
    offset = -1
    for _ in range(MOST_TRIES):
        offset = message.raw.find(characters, offset + 1)
        if offset < 0:
            return
        n_letters_before = len(letters_of(message.raw[:offset]))
        empty_span = EqualSpan(message_start + n_letters_before, text_start=0, size=0)
        literal = (offset, offset + len(characters))
        yield Occurrence(group, [empty_span], literal)
    group.n_tries_left = 0


def _touching(
    message: Text, start: int, end: int, literal: tuple[int, int] | None
) -> tuple[int, int]:
    """What a short text touches on its left and its right in a message.

    On each side it is ``LETTER`` if another letter touches the text, ``MARK`` if a
    clear border does (a quote, a tag, a bullet, the end of the message), else ``GAP``.
    The number of a list's line, as in "3. text", is a border as well.

    Args:
        message: The message that shows the text.
        start: Where the text begins in the message's stream, which holds letters only.
        end: Behind its last letter there.
        literal: Of a text without letters, where in the message it begins and ends;
            None for others, whose offsets follow from ``start`` and ``end``.
    """
    # A gap holds what stands between two letters: spaces, quotes, bullets.
    left_gap_start, text_start = message.gap_at(start)
    text_end, right_gap_end = message.gap_at(end)
    if literal:
        # the text stands inside of the gap
        text_start, text_end = literal
    before = message.raw[max(text_start - _LONGEST_NUMBERING, 0) : text_start]
    is_numbered = _NUMBERED.search(before) is not None
    left = _kind_of_side(
        message.raw[left_gap_start:text_start],
        is_at_edge=start == 0 or is_numbered,
        has_letters=literal is None,
    )
    right = _kind_of_side(
        message.raw[text_end:right_gap_end],
        is_at_edge=end == len(message.letters),
        has_letters=literal is None,
    )
    return left, right


def _kind_of_side(between: str, *, is_at_edge: bool, has_letters: bool) -> int:
    """What stands on one side of a short text: ``LETTER``, ``GAP`` or ``MARK``.

    It is told by the characters between the text and the next letter. An apostrophe
    alone is no mark: it stands inside a word.
    """
    is_apostrophe = between in ("'", "’")
    is_marked = _MARKS.search(between) is not None and not is_apostrophe
    if is_at_edge or is_marked:
        return MARK
    if between or not has_letters:
        return GAP
    return LETTER
