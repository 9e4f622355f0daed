"""Where texts run along in a prompt: anchors of the streams, looked up in one pass.

A **stream** is a text's letters and digits as bytes (``letters``). An **anchor** is a
piece of 16 bytes of it. A **showing** is a place at which the prompt shows a text.

Three steps, each a class or a few functions:

    1. ``WholeTexts`` (``whole_texts``) finds the texts that stand whole and unbroken at
       a place. Nothing that another text has in common with them can hide them.
    2. ``Search`` looks the anchors up. Where one stands without its whole text, the
       match is followed both ways, over small steps (``matching``): a line number, a
       mark, a word left out. What was followed is a **run** of spans.
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

from ragmetrics_core.capture.byte_spans import STEP, Span, clip, runs_of, size_of
from ragmetrics_core.capture.letters import Prompt, Text, stream
from ragmetrics_core.capture.matching import LINE_NUMBER, follow, whole_letters
from ragmetrics_core.capture.whole_texts import ANCHOR, COMMON, WholeTexts

WHOLE = 0.98  # of a text so much is all of it, also where pieces of it stand apart
# of a text that is shown from its first to its last letter so much is all of it
_WHOLE_IN_PIECES = 0.85
APART = 96  # parts of one text at most so far apart are one showing
# the least part at an edge of a text, and elsewhere; less is no trace
EDGE, MIDDLE = 32, 48
# what a short text touches on one side: another letter; a space or the like; a quote, a
# tag, a bullet, or the end
LETTER, GAP, MARK = range(3)
TRIES = 64  # extensions for a text; more for duplicates
OCCURRENCES = 500  # of a short text so many are looked at in one message
LONG = 100_000  # in a longer prompt every third place is looked at
_MARKS = re.compile(
    r"""[\n\r\t"'`“”„«»‘’<>]|\\[nrt"']|&(?:amp;)*(?:quot|apos|lt|gt|\#39|\#34|\#x27);"""
)
_NUMBERED = re.compile(r"(?:^|\n|\\n)\W*\d{1,3}[.):\]]\s*$")
_LONGEST_NUMBERING = 20  # characters in which the number of a list's line stands
# of the number that is a place of an anchor, these are the offset in the text
_OFFSET_BITS = 40
_OFFSETS = (1 << _OFFSET_BITS) - 1
_NOBODY = -1  # the place of an anchor that only says that a text may begin here


@dataclass(slots=True, eq=False)
class TextGroup:
    """The candidates and known texts of one stream, which are located together.

    Attributes:
        text: The first of them.
        members: The indexes of the candidates.
        n_known: How many of them are known to stand there for another reason.
        tries_left: How many more matches of an anchor may be followed.
        showings: Where they stand: one candidate or known text after the other.
        why_not_shown: Outcome and reason. None if there is no more to say than that it
            was not found.
        size: Bytes of the stream.
    """

    text: Text
    members: list[int] = field(default_factory=list)
    n_known: int = 0
    tries_left: int = TRIES
    showings: list[Showing] = field(default_factory=list)
    why_not_shown: tuple[Literal["not shown", "unknown"], str] | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the bytes once: they are asked for at each anchor."""
        self.size = len(self.text.stream)

    @property
    def needs_known_showing(self) -> bool:
        """Whether a known text has no showing yet, so that the next one explains it."""
        return len(self.showings) < self.n_known


@dataclass(slots=True, eq=False)
class Showing:
    """Where a text stands in the prompt.

    Attributes:
        group: The text, with those equal to it.
        spans: The bytes that agree, in the prompt's order. A text without letters has
            one span of no bytes.
        literal: Offsets of a text without letters; None for others.
        is_unbroken: Whether the whole text stands there, with nothing put in but the
            numbers of lines.
    """

    group: TextGroup
    spans: list[Span]
    literal: tuple[int, int] | None = None
    is_unbroken: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Where it begins; showings are sorted by this.

        The first number is a place of the stream. The second tells texts without
        letters apart, which stand at the same place of it.
        """
        literal_start = self.literal[0] if self.literal else 0
        return self.spans[0].start, literal_start

    @property
    def size(self) -> int:
        """How many bytes agree."""
        return size_of(self.spans)

    @property
    def share(self) -> float:
        """How much of the text agrees, 0 to 1."""
        return self.size / self.group.size

    @property
    def is_whole(self) -> bool:
        """Whether it shows the whole text.

        At one place 98 % of the text must agree. In several pieces 85 % are enough, if
        they reach from its first to its last letter and no gap is too large to be
        stepped over.
        """
        if len(self.spans) == 1:  # by far the most frequent
            return self.spans[0].size >= WHOLE * self.group.size
        largest_gap_in_text = 0
        for before, after in pairwise(self.spans):
            gap_in_text = after.text_start - before.text_end
            goes_back = gap_in_text < 0
            is_too_far = after.start - before.end > APART + STEP
            if goes_back or is_too_far:
                return False
            largest_gap_in_text = max(largest_gap_in_text, gap_in_text)
        begins_it = self.spans[0].text_start == 0
        ends_it = self.spans[-1].text_end == self.group.size
        if begins_it and ends_it and largest_gap_in_text <= STEP:
            return self.size >= _WHOLE_IN_PIECES * self.group.size
        return self.size >= WHOLE * self.group.size


class Search:
    """One pass over a prompt that finds where texts stand in it.

    A place of an anchor is one number, of the text and of the byte in it: small objects
    would take longer than the search. Each anchor's first place is in ``_first_place``;
    all of those that have several are in ``_all_places``.

    Args:
        prompt: The prompt.
        groups: The texts. A text's number is its index here.
    """

    def __init__(self, prompt: Prompt, groups: Sequence[TextGroup]) -> None:
        self.prompt = prompt
        self.groups = groups
        self._every = 3 if len(prompt.stream) > LONG else 1
        self._streams = [group.text.stream for group in groups]
        self._backwards = prompt.stream[::-1]
        self._first_place: dict[bytes, int] = {}
        self._all_places: dict[bytes, list[int]] = {}
        # the runs of each text
        self._runs: dict[int, list[list[Span]]] = defaultdict(list)
        # where each text stands whole and in one piece
        self._unbroken: dict[int, list[int]] = defaultdict(list)
        self._whole_texts = WholeTexts(prompt.stream, self._streams, every=self._every)
        self._add_anchors()
        self._drop_common()
        # stop at each beginning of a text, whatever else it is
        for anchor in self._whole_texts.anchors:
            self._first_place.setdefault(anchor, _NOBODY)

    @property
    def shortest(self) -> int:
        """Bytes of the shortest texts that the pass finds.

        Shorter ones are looked for one by one.
        """
        return ANCHOR + self._every - 1

    # Anchors

    def _add_anchors(self) -> None:
        """Note the anchors of each text that may be shown in parts.

        They are its pieces of 16 bytes, one behind the other, and its end. In long
        prompts, of which only every third place is looked at, its edges are shifted as
        well.
        """
        for number, text in enumerate(self._streams):
            if len(text) < EDGE:
                continue
            end = len(text) - ANCHOR
            tiles = range(0, end + 1, ANCHOR)
            edges = [end] if self._every == 1 else [1, 2, end - 2, end - 1, end]
            self._add(number, [*tiles, *edges])

    def _add(self, number: int, offsets: Iterable[int]) -> None:
        """Note where anchors of a text stand.

        An anchor's first place goes into ``_first_place``. If it has several, all go
        into ``_all_places``, at most two of one text.

        Args:
            number: The number of the text.
            offsets: Where in it the anchors begin.
        """
        text = self._streams[number]
        first_place = self._first_place
        for offset in offsets:
            anchor = text[offset : offset + ANCHOR]
            place = number << _OFFSET_BITS | offset
            if first_place.setdefault(anchor, place) == place:
                continue
            places = self._all_places.setdefault(anchor, [first_place[anchor]])
            has_two_of_text = len(places) >= 2 and _number(places[-2]) == number
            if not has_two_of_text:
                places.append(place)

    def _drop_common(self) -> None:
        """Drop anchors that too many texts share: boilerplate proves nothing.

        A text that loses anchors gets others, so that what is rarer in it is found in
        every phase. A text that has nothing rarer keeps its common ones.
        """
        dropped_offsets: dict[int, list[int]] = defaultdict(list)
        for anchor, places in list(self._all_places.items()):
            texts = {_number(place) for place in places}
            if len(texts) <= COMMON:
                continue
            del self._all_places[anchor]
            del self._first_place[anchor]
            for place in places:
                dropped_offsets[_number(place)].append(_offset(place))
        # all of them are chosen before the first is added: those would count as rare
        replacements = {}
        for number, common_offsets in dropped_offsets.items():
            replacements[number] = self._offsets_instead_of(common_offsets, number)
        for number, offsets in replacements.items():
            self._add(number, offsets)

    def _offsets_instead_of(self, common_offsets: list[int], number: int) -> list[int]:
        """Where new anchors of a text begin that replace its common ones.

        A common anchor is one that too many texts share. In a long prompt only every
        third place is looked at, so that the anchors that are left may all be missed.
        Shifted by a byte or two they are found at any place.

        Args:
            common_offsets: Where the text's common anchors begin.
            number: The number of the text.

        Returns:
            Offsets of shifted anchors; the common ones for a text that has no others.
            Empty if the others are found at any place anyway.
        """
        text = self._streams[number]
        end = len(text) - ANCHOR
        rare_offsets = []
        for offset in range(0, end + 1, ANCHOR):
            if text[offset : offset + ANCHOR] in self._first_place:
                rare_offsets.append(offset)
        if not rare_offsets:
            return common_offsets
        # with an anchor for each remainder, one of them is met wherever the text stands
        remainders = {offset % self._every for offset in rare_offsets}
        if len(remainders) == self._every:
            return []
        shifted_offsets = []
        for offset in rare_offsets:
            for shift in (-2, -1, 1, 2):
                if 0 <= offset + shift <= end:
                    shifted_offsets.append(offset + shift)
        return shifted_offsets

    # The pass

    def showings(self) -> Iterator[Showing]:
        """Find the showings of all texts that are not too short."""
        self._pass_over_prompt()
        for number, group in enumerate(self.groups):
            starts = self._unbroken.get(number, ())
            unbroken = [Span(start, 0, group.size) for start in starts]
            for span in unbroken:
                yield Showing(group, [span], is_unbroken=True)
            runs = _runs_outside(unbroken, self._runs.get(number, ()))
            for showing in _showings_of_runs(group, runs):
                showing.is_unbroken = self._has_nothing_put_in(showing)
                yield showing

    def _has_nothing_put_in(self, showing: Showing) -> bool:
        """Whether a whole text stands there with nothing put in but numbers of lines."""
        if showing.size < showing.group.size:
            return False
        for before, after in pairwise(showing.spans):
            put_in = self.prompt.stream[before.end : after.start]
            if not LINE_NUMBER.fullmatch(put_in):
                return False
        return True

    def _pass_over_prompt(self) -> None:
        """Go through the prompt once, and stop at each anchor.

        Where a whole candidate stands, the pass goes on at its end. Before that it
        looks at as many places as an anchor has bytes: several texts may begin there.
        """
        prompt = self.prompt.stream
        every = self._every
        behind = len(prompt) - ANCHOR + 1  # no anchor begins here or later
        place = 0
        skip_from = skip_to = 0
        while True:
            place = self._next_anchor(place, behind)
            if place == behind:
                return
            anchor = prompt[place : place + ANCHOR]
            end_of_candidate = self._note_whole_texts(place, anchor)
            if place >= skip_to:
                skip_from = place + every * ANCHOR
            skip_to = max(skip_to, end_of_candidate - self.shortest)
            self._follow_texts_of(place, anchor)
            place += every
            if skip_from <= place < skip_to:
                place = skip_to

    def _next_anchor(self, start: int, behind: int) -> int:
        """The first place from a start on at which an anchor stands.

        It is ``behind`` where none stands before that.
        """
        prompt = self.prompt.stream
        anchors = self._first_place
        for place in range(start, behind, self._every):
            if prompt[place : place + ANCHOR] in anchors:
                return place
        return behind

    def _note_whole_texts(self, place: int, anchor: bytes) -> int:
        """Note the texts that stand whole at an anchor, or begin just before it.

        A bucket holds texts that begin alike. If none of them stands whole, the match of
        those that agree farthest is followed as far as it goes.

        Returns:
            Where the longest whole candidate ends; 0 if there is none.
        """
        end_of_candidate = 0
        for start, bucket in self._whole_texts.beginnings(place, anchor):
            standing = self._whole_texts.standing_at(start, bucket)
            for number, size in standing:
                self._note_unbroken(number, start)
                if self.groups[number].members:
                    end_of_candidate = max(end_of_candidate, start + size)
            if not standing:
                for number in self._whole_texts.closest_at(start, bucket):
                    self._follow_from(number, start, offset=0)
        return end_of_candidate

    def _note_unbroken(self, number: int, start: int) -> None:
        """Note that a text stands at a place of the prompt whole and in one piece.

        A text that stands in too many places is looked for no longer: nobody knows
        which of them are its own.

        Args:
            number: The number of the text.
            start: The place.
        """
        starts = self._unbroken[number]
        group = self.groups[number]
        # its beginning repeats itself, as in "na na na"
        is_same_place = bool(starts) and start < starts[-1] + ANCHOR
        if is_same_place:
            return
        starts.append(start)
        if len(starts) >= OCCURRENCES + group.n_known + len(group.members):
            group.tries_left = 0
            group.why_not_shown = "unknown", "its words stand in too many places"
            self._whole_texts.forget(number)

    def _follow_texts_of(self, place: int, anchor: bytes) -> None:
        """Follow the match of each text that holds the anchor at a place.

        Texts whose tries are used up are forgotten, and so is an anchor that no text
        waits for.
        """
        first_place = self._first_place[anchor]
        if first_place != _NOBODY:
            text_places = self._all_places.get(anchor) or [first_place]
            waiting_places = []
            for text_place in text_places:
                self._follow_from(_number(text_place), place, _offset(text_place))
            for text_place in text_places:
                if self.groups[_number(text_place)].tries_left > 0:
                    waiting_places.append(text_place)
            if len(waiting_places) < len(text_places):
                self._all_places[anchor] = waiting_places
            if not waiting_places:
                self._first_place[anchor] = _NOBODY
        is_unused = self._first_place[anchor] == _NOBODY
        if is_unused and anchor not in self._whole_texts.anchors:
            del self._first_place[anchor]

    def _follow_from(self, number: int, place: int, offset: int) -> None:
        """Follow the match of a text both ways from one place, and note the run.

        Nothing is followed where the text is known to stand, nor for a text whose tries
        are used up or that is too short to be shown in parts.
        """
        group = self.groups[number]
        if group.tries_left <= 0 or group.size < EDGE:
            return
        if self._is_noted(number, place, offset):
            return
        group.tries_left -= 1
        run = self._run_around(place, self._streams[number], offset)
        _add_run(self._runs[number], run)

    def _is_noted(self, number: int, place: int, offset: int) -> bool:
        """Whether a text is known to stand at a place.

        It stands there in one piece, or this byte is in the last run that was followed.
        """
        starts = self._unbroken.get(number)
        if starts and starts[-1] <= place < starts[-1] + len(self._streams[number]):
            return True
        runs = self._runs.get(number)
        if not runs:
            return False
        for span in runs[-1]:
            runs_along = span.start - span.text_start == place - offset
            if runs_along and span.start <= place < span.end:
                return True
        return False

    def _run_around(self, place: int, text: bytes, offset: int) -> list[Span]:
        """The run around a place where an anchor agrees, in the prompt's order."""
        spans_before: list[Span] = []
        if offset and place:
            spans_before = self._spans_before(place, text, offset)
            if spans_before and spans_before[-1].end == place:
                # one span with what follows
                touching = spans_before.pop()
                place = touching.start
                offset = touching.text_start
        spans = spans_before + follow(self.prompt.stream, place, text, offset)
        if text.isascii():
            return spans
        cut_spans = [whole_letters(text, span) for span in spans]
        return [span for span in cut_spans if span.size]

    def _spans_before(self, place: int, text: bytes, offset: int) -> list[Span]:
        """The spans before a place, found by following both texts backwards."""
        end = len(self.prompt.stream)
        text_end = len(text)
        backward_spans = follow(
            self._backwards, end - place, text[::-1], text_end - offset
        )
        spans = []
        for span in reversed(backward_spans):
            spans.append(Span(end - span.end, text_end - span.text_end, span.size))
        return spans

    # Short texts

    def occurrences(self, group: TextGroup) -> Iterator[tuple[Showing, int, int]]:
        """Yield where a text stands that is too short for the pass.

        If it stands in too many places the rest is left out, and its ``tries_left``
        become 0.

        Yields:
            Where it stands, and what it touches on its left and its right, as
            ``_touching`` says.
        """
        letters = group.text.stream
        message_starts = zip(self.prompt.messages, self.prompt.starts, strict=True)
        for message, message_start in message_starts:
            if letters:
                showings = _showings_by_letters(group, message, message_start)
            else:
                showings = _showings_by_characters(group, message, message_start)
            for showing in showings:
                start = showing.spans[0].start - message_start
                end = start + len(letters)
                left, right = _touching(message, start, end, showing.literal)
                yield showing, left, right

    def touching(self, span: Span) -> tuple[int, int]:
        """What a text touches on its left and its right, as in ``occurrences``."""
        number = self.prompt.message(span.start)
        message_start = self.prompt.starts[number]
        return _touching(
            self.prompt.messages[number],
            span.start - message_start,
            span.end - message_start,
            None,
        )


def _number(place: int) -> int:
    """The number of the text in an anchor's place."""
    return place >> _OFFSET_BITS


def _offset(place: int) -> int:
    """The byte of the text in an anchor's place."""
    return place & _OFFSETS


# From runs to showings


def _add_run(runs: list[list[Span]], run: list[Span]) -> None:
    """Add a run behind those found before.

    Ground that both claim goes to the longer, then to the denser one. The other is cut.
    """
    while runs and run and run[0].start < runs[-1][-1].end:
        last_run = runs[-1]
        if _length_and_density(last_run) >= _length_and_density(run):
            run = clip(run, start=last_run[-1].end)
            break
        runs.pop()
        shortened_run = clip(last_run, end=run[0].start)
        if shortened_run:
            runs.append(shortened_run)
    if run:
        runs.append(run)


def _length_and_density(run: list[Span]) -> tuple[int, int]:
    """How many bytes agree, and how few lie between them: a larger number is fewer."""
    extent = run[-1].end - run[0].start
    return size_of(run), -extent


def _runs_outside(
    unbroken: Sequence[Span], runs: Iterable[list[Span]]
) -> Iterator[list[Span]]:
    """The runs that do not reach into ground where the same text stands in one piece."""
    starts = [span.start for span in unbroken]
    for run in runs:
        index_before = bisect_left(starts, run[-1].end) - 1
        if index_before < 0 or unbroken[index_before].end <= run[0].start:
            yield run


def _showings_of_runs(
    group: TextGroup, runs: Iterable[list[Span]]
) -> Iterator[Showing]:
    """Join runs of one text to showings.

    A run is joined if it goes on in prompt and text and stands at most 96 bytes behind.
    Of a showing that is not whole, runs that are no trace are left out.
    """
    chains: list[list[Span]] = []
    for run in runs:
        continuation = _continuation(chains[-1][-1], run) if chains else []
        if continuation:
            chains[-1] += continuation
        else:
            chains.append(run)
    for spans in chains:
        showing = Showing(group, spans)
        if not showing.is_whole:
            showing.spans = _spans_of_traces(spans, group.size)
        if showing.spans:
            yield showing


def _continuation(last_span: Span, run: list[Span]) -> list[Span]:
    """The part of a run that goes on where another run ended; empty if it does not.

    A run that begins with the text's first letter begins a new showing.
    """
    first_span = run[0]
    begins_anew = first_span.text_start == 0
    is_too_far = first_span.start - last_span.end > APART
    goes_back = first_span.text_start < last_span.text_end - STEP
    if begins_anew or is_too_far or goes_back:
        return []
    return clip(run, text_start=last_span.text_end)


def _spans_of_traces(spans: list[Span], text_size: int) -> list[Span]:
    """The spans of those runs that are long enough to be no chance.

    At an edge of the text 32 bytes are enough, elsewhere 48.
    """
    spans_of_traces: list[Span] = []
    for run in runs_of(spans):
        is_at_edge = run[0].text_start == 0 or run[-1].text_end == text_size
        least_size = EDGE if is_at_edge else MIDDLE
        if size_of(run) >= least_size:
            spans_of_traces += run
    return spans_of_traces


# Short texts


def _showings_by_letters(
    group: TextGroup, message: Text, message_start: int
) -> Iterator[Showing]:
    """Yield where the letters of a short text stand in a message.

    After too many places its ``tries_left`` become 0.

    Args:
        group: The text.
        message: The message.
        message_start: Where the message begins in the prompt's stream.
    """
    letters = group.text.stream
    place = -1
    for _ in range(OCCURRENCES):
        place = message.stream.find(letters, place + 1)
        if place < 0:
            return
        yield Showing(group, [Span(message_start + place, 0, len(letters))])
    group.tries_left = 0


def _showings_by_characters(
    group: TextGroup, message: Text, message_start: int
) -> Iterator[Showing]:
    """Yield where a text without letters stands in a message, as ``_showings_by_letters`` does."""
    characters = group.text.raw.strip()
    offset = -1
    for _ in range(TRIES):
        offset = message.raw.find(characters, offset + 1)
        if offset < 0:
            return
        place = len(stream(message.raw[:offset]))
        span = Span(message_start + place, 0, 0)
        yield Showing(group, [span], (offset, offset + len(characters)))
    group.tries_left = 0


def _touching(
    message: Text, start: int, end: int, literal: tuple[int, int] | None
) -> tuple[int, int]:
    """What a short text touches on its left and its right: ``LETTER``, ``GAP`` or ``MARK``.

    Args:
        message: The message that shows the text.
        start: Where the text begins in the message's stream.
        end: Behind its last letter there.
        literal: Offsets of a text without letters; None for others.
    """
    gap_start, text_start = message.gap(start)
    text_end, gap_end = message.gap(end)
    if literal:
        text_start, text_end = literal
    numbering = message.raw[max(text_start - _LONGEST_NUMBERING, 0) : text_start]
    begins_line_of_list = _NUMBERED.search(numbering) is not None
    left = _kind_of_side(
        message.raw[gap_start:text_start],
        is_at_edge=start == 0 or begins_line_of_list,
        has_letters=literal is None,
    )
    right = _kind_of_side(
        message.raw[text_end:gap_end],
        is_at_edge=end == len(message.stream),
        has_letters=literal is None,
    )
    return left, right


def _kind_of_side(between: str, *, is_at_edge: bool, has_letters: bool) -> int:
    """What stands on one side of a short text, by what is between it and the next letter.

    An apostrophe alone is no mark: it stands inside a word.
    """
    is_apostrophe = between in ("'", "’")
    is_marked = _MARKS.search(between) is not None and not is_apostrophe
    if is_at_edge or is_marked:
        return MARK
    if between or not has_letters:
        return GAP
    return LETTER
