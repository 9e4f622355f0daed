"""Where texts run along in a prompt: anchors of the streams, looked up in one pass.

A **stream** is a text's letters and digits as bytes (``letters``). An **anchor** is a
piece of 16 bytes of it. A **showing** is a place at which the prompt shows a text.

Three steps, each a class or a few functions below:

    1. ``Complete`` finds the texts that stand whole and unbroken at a place. Nothing
       that another text has in common with them can hide them.
    2. ``Search`` looks the anchors up. Where one stands without its whole text, the
       match is followed both ways, over small steps: a line number, a mark, a word
       left out.
    3. ``_chains`` joins what was followed into showings, and leaves out what is no
       trace.

Texts too short for an anchor are looked for one by one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from ragmetrics_core.capture.byte_spans import STEP, Span, runs_of, size_of, within
from ragmetrics_core.capture.letters import Prompt, Text, stream

ANCHOR = 16  # bytes of an anchor; candidates are tiled with them
COMMON = 8  # an anchor of more candidates is boilerplate and proves nothing
RESUMED = 12  # after a step at least so many bytes must agree; fewer do by chance
# so many are enough where they end the text, follow a line's number, or stand between
# two marks
WORD = 4
WHOLE = 0.98  # of a text so much is all of it, also where pieces of it stand apart
APART = 96  # parts of one text at most so far apart are one showing
# the least part at an edge of a text, and elsewhere; less is no trace
EDGE, MIDDLE = 32, 48
TRIES = 64  # extensions for a text; more for duplicates
OCCURRENCES = 500  # of a short text so many are looked at in one message
LONG = 100_000  # in a longer prompt every third place is looked at
# for each byte of a prompt at most so many bytes are compared with complete texts
_COMPARED = 32
_MARKS = re.compile(
    r"""[\n\r\t"'`“”„«»‘’<>]|\\[nrt"']|&(?:amp;)*(?:quot|apos|lt|gt|\#39|\#34|\#x27);"""
)
_NUMBERED = re.compile(r"(?:^|\n|\\n)\W*\d{1,3}[.):\]]\s*$")
_LINE_NUMBER = re.compile(rb"\d{1,4}")
# of the number that is a place of an anchor, these are the offset in the text
_OFFSET_BITS = 40
_OFFSETS = (1 << _OFFSET_BITS) - 1
_NOBODY = -1  # the place of an anchor that only says that a text may begin here
# of texts that begin with each other and stand at one place so many count, the longest
_NESTED = 4
_INSIDE = bytes(range(0x80, 0xC0))  # bytes that go on with a letter beyond ASCII


@dataclass(slots=True, eq=False)
class Group:
    """The candidates and known texts of one stream, which are located together.

    Attributes:
        text: The first of them.
        members: The indexes of the candidates.
        known: How many of them are known to stand there for another reason.
        tries: How many more matches of an anchor may be followed.
        shown: Where they stand: one candidate or known text after the other.
        why: Outcome and reason, where more is to say than that it was not found.
        size: Bytes of the stream.
    """

    text: Text
    members: list[int] = field(default_factory=list)
    known: int = 0
    tries: int = TRIES
    # one candidate or known text after the other
    shown: list[Showing] = field(default_factory=list)
    # where more is to say than that it was not found
    why: tuple[Literal["not shown", "unknown"], str] | None = None
    size: int = field(init=False)  # bytes of the stream

    def __post_init__(self) -> None:
        """Count the bytes once: they are asked for at each anchor."""
        self.size = len(self.text.stream)

    @property
    def explains(self) -> bool:
        """Whether a known text has no occurrence yet."""
        return len(self.shown) < self.known


@dataclass(slots=True, eq=False)
class Showing:
    """Where a text stands in the prompt.

    Attributes:
        group: The text, with those equal to it.
        spans: The bytes that agree, in the prompt's order. A text without letters has
            one span of no bytes.
        literal: Offsets of a text without letters; None for others.
        unbroken: Whether the whole text stands there, with nothing put in but the
            numbers of lines.
    """

    group: Group
    spans: list[Span]
    literal: tuple[int, int] | None = None
    # the whole text stands there, with nothing put in but the numbers of lines
    unbroken: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """To be sorted by."""
        return self.spans[0].at, self.literal[0] if self.literal else 0

    @property
    def size(self) -> int:
        """How many bytes agree."""
        return size_of(self.spans)

    @property
    def share(self) -> float:
        """How much of the text agrees, 0 to 1."""
        return self.size / self.group.size

    @property
    def whole(self) -> bool:
        """Whether it shows the whole text.

        At one place 98 % of the text must agree. In several pieces 85 % are enough, if
        they reach from its first to its last letter and no gap is too large to be
        stepped over.
        """
        if len(self.spans) == 1:  # by far the most frequent
            return self.spans[0].size >= WHOLE * self.group.size
        steps = list(pairwise(self.spans))
        if any(
            after.at - before.end > APART + STEP or after.of < before.last
            for before, after in steps
        ):
            return False
        from_first_to_last = (
            self.spans[0].of == 0 and self.spans[-1].last == self.group.size
        )
        no_gap = all(after.of - before.last <= STEP for before, after in steps)
        least = 0.85 if from_first_to_last and no_gap else WHOLE
        return self.size >= least * self.group.size


class Complete:
    """The texts that stand whole and unbroken where one of their beginnings stands.

    Texts of one beginning are kept sorted. At a place, the one that is found by
    bisection is either there, or no text is but those that it begins with itself.
    """

    def __init__(self, prompt: bytes, streams: Sequence[bytes], *, every: int) -> None:
        self._prompt = prompt
        self._budget = _COMPARED * len(prompt)
        texts_by_beginning: dict[bytes, list[tuple[bytes, int]]] = defaultdict(list)
        for number, text in enumerate(streams):
            if len(text) >= ANCHOR:
                texts_by_beginning[text[:ANCHOR]].append((text, number))
        buckets = [_Bucket(texts) for texts in texts_by_beginning.values()]
        self._bucket_of = {
            number: bucket for bucket in buckets for number in bucket.waiting
        }
        self.anchors: dict[bytes, list[tuple[int, _Bucket]]] = {}
        """Where to stop: which texts may begin how many bytes before an anchor."""
        for bucket in buckets:
            for shift, anchor in bucket.anchors(every):
                self.anchors.setdefault(anchor, []).append((shift, bucket))
        self._every = every

    def beginnings(self, at: int, anchor: bytes) -> Iterator[tuple[int, _Bucket]]:
        """Where texts may begin that have an anchor at a place, and which texts."""
        if self._budget <= 0:
            self.anchors.clear()
        for shift, bucket in self.anchors.get(anchor, ()):
            start = at - shift
            # the beginning repeats itself
            is_repetition = abs(start - bucket.stood_at) < ANCHOR
            if (
                start >= 0
                and not is_repetition
                and self._prompt.startswith(bucket.beginning, start)
            ):
                yield start, bucket

    def at(self, start: int, bucket: _Bucket) -> Sequence[tuple[int, int]]:
        """Numbers and sizes of the texts of a bucket that stand at a place, the longest first."""
        self._budget -= bucket.longest
        standing = bucket.beginnings_of(self._prompt[start : start + bucket.longest])
        if standing:
            bucket.stood_at = start
        return standing

    def likest(self, start: int, bucket: _Bucket) -> Sequence[int]:
        """Numbers of the texts that agree with the prompt farthest from a place on.

        Empty where few texts begin alike: their anchors tell them apart.
        """
        if bucket.size <= COMMON:
            return ()
        self._budget -= COMMON * bucket.longest
        return bucket.likest(self._prompt[start : start + bucket.longest])

    def forget(self, number: int) -> None:
        """Look for a text no longer."""
        bucket = self._bucket_of[number]
        bucket.waiting.discard(number)
        if bucket.waiting:
            return
        for _, anchor in bucket.anchors(self._every):
            others = [
                (shift, other)
                for shift, other in self.anchors.pop(anchor, ())
                if other is not bucket
            ]
            if others:
                self.anchors[anchor] = others


class _Bucket:
    """Texts of one beginning."""

    def __init__(self, texts: list[tuple[bytes, int]]) -> None:
        texts.sort()
        self._texts = [text for text, _ in texts]
        self._numbers = [number for _, number in texts]
        self._shorter = list(_longest_beginnings(self._texts))
        self.beginning = self._texts[0][:ANCHOR]
        self.longest = max(map(len, self._texts))
        self.stood_at = -ANCHOR  # where one of them was found last
        self.waiting = set(self._numbers)  # those that are still looked for

    def anchors(self, every: int) -> set[tuple[int, bytes]]:
        """The anchors at each of the first bytes of the texts, each with its offset.

        Texts that are too short to be found by them are left out.

        Args:
            every: How many first bytes are taken.
        """
        texts = [text for text in self._texts if len(text) >= ANCHOR + every - 1]
        return {
            (shift, text[shift : shift + ANCHOR])
            for text in texts
            for shift in range(every)
        }

    def beginnings_of(self, words: bytes) -> list[tuple[int, int]]:
        """Numbers and sizes of the texts that some words begin with, the longest first."""
        standing: list[tuple[int, int]] = []
        index: int | None = bisect_right(self._texts, words) - 1
        while index is not None and index >= 0 and len(standing) < _NESTED:
            # what a standing text begins with stands, too
            if standing or words.startswith(self._texts[index]):
                standing.append((self._numbers[index], len(self._texts[index])))
            index = self._shorter[index]
        return standing

    @property
    def size(self) -> int:
        """How many texts these are."""
        return len(self._texts)

    def likest(self, words: bytes) -> list[int]:
        """Numbers of some texts whose beginnings agree farthest with some words.

        The number of a line is left out of the words where they differ.
        """
        most, likest = self._likest(words)
        number = _LINE_NUMBER.match(words, most)
        if number is not None:
            _, likest = self._likest(words[:most] + words[number.end() :])
        return [self._numbers[index] for index in likest][:COMMON]

    def _likest(self, words: bytes) -> tuple[int, list[int]]:
        """Find the texts that have most first bytes in common with some words.

        Only neighbours in the sorted order are compared: the longest common beginnings
        are there.

        Returns:
            How many bytes they have in common, and the indexes of these texts.
        """
        index = bisect_right(self._texts, words)
        around = range(max(index - COMMON, 0), min(index + COMMON, self.size))
        common = {
            near: _count_equal_bytes(words, 0, self._texts[near], 0) for near in around
        }
        most = max(common.values())
        return most, [near for near in around if common[near] == most]


def _longest_beginnings(texts: Sequence[bytes]) -> Iterator[int | None]:
    """For each of some sorted texts the place of the longest other that it begins with.

    None for a text that begins with no other.
    """
    nested: list[int] = []
    for index, text in enumerate(texts):
        while nested and not text.startswith(texts[nested[-1]]):
            nested.pop()
        yield nested[-1] if nested else None
        nested.append(index)


class Search:
    """One pass over a prompt.

    A place of an anchor is one number, of the text and of the byte in it: small objects
    would take longer than the search. Each anchor's first place is in ``_first``; all
    of those that have several are in ``_more``.
    """

    def __init__(self, prompt: Prompt, groups: Sequence[Group]) -> None:
        self.prompt, self.groups = prompt, groups
        self._every = 3 if len(prompt.stream) > LONG else 1
        self._streams = [group.text.stream for group in groups]
        self._backwards = prompt.stream[::-1]
        self._first: dict[bytes, int] = {}
        self._more: dict[bytes, list[int]] = {}
        self._runs: dict[int, list[list[Span]]] = defaultdict(list)
        # where each text stands whole and in one piece
        self._unbroken: dict[int, list[int]] = defaultdict(list)
        self._complete = Complete(prompt.stream, self._streams, every=self._every)
        self._add_anchors()
        self._drop_common()
        # stop at each beginning of a text, whatever else it is
        for anchor in self._complete.anchors:
            self._first.setdefault(anchor, _NOBODY)

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
            end = len(text) - ANCHOR
            if len(text) >= EDGE:
                edges = [end] if self._every == 1 else [1, 2, end - 2, end - 1, end]
                self._add(number, [*range(0, end + 1, ANCHOR), *edges])

    def _add(self, number: int, offsets: Iterable[int]) -> None:
        """Note where anchors of a text stand.

        An anchor's first place goes into ``_first``. If it has several, all go into
        ``_more``, at most two of one text.

        Args:
            number: The number of the text.
            offsets: Where in it the anchors begin.
        """
        text, first = self._streams[number], self._first
        for of in offsets:
            anchor, place = text[of : of + ANCHOR], number << _OFFSET_BITS | of
            if first.setdefault(anchor, place) != place:
                again = self._more.setdefault(anchor, [first[anchor]])
                # two of one text are enough
                if len(again) < 2 or again[-2] >> _OFFSET_BITS != number:
                    again.append(place)

    def _drop_common(self) -> None:
        """Drop anchors that too many texts share: boilerplate proves nothing.

        A text that loses anchors gets others, so that what is rarer in it is found in
        every phase. A text that has nothing rarer keeps its common ones.
        """
        dropped: dict[int, list[int]] = defaultdict(list)
        for anchor, places in list(self._more.items()):
            if len({place >> _OFFSET_BITS for place in places}) > COMMON:
                del self._more[anchor], self._first[anchor]
                for place in places:
                    dropped[place >> _OFFSET_BITS].append(_offset(place))
        offsets = {
            number: self._instead_of(common, number)
            for number, common in dropped.items()
        }
        for number, rarer in offsets.items():
            self._add(number, rarer)

    def _instead_of(self, common: list[int], number: int) -> list[int]:
        """Where new anchors of a text begin that stand for its common ones.

        They are its rarer anchors, shifted by a byte or two. Empty if these are found
        at every place anyway. A text that has no rarer anchors keeps its common ones.
        """
        text = self._streams[number]
        end = len(text) - ANCHOR
        rare = [
            of
            for of in range(0, end + 1, ANCHOR)
            if text[of : of + ANCHOR] in self._first
        ]
        if not rare:
            return common
        phases = {of % self._every for of in rare}
        if len(phases) == self._every:
            return []
        shifted = [of + shift for of in rare for shift in (-2, -1, 1, 2)]
        return [of for of in shifted if 0 <= of <= end]

    # The pass

    def showings(self) -> Iterator[Showing]:
        """Find the showings of all texts that are not too short."""
        self._pass()
        for number, group in enumerate(self.groups):
            unbroken = [
                Span(start, 0, group.size) for start in self._unbroken.get(number, ())
            ]
            for span in unbroken:
                yield Showing(group, [span], unbroken=True)
            for showing in _chains(
                group, _apart_from(unbroken, self._runs.get(number, ()))
            ):
                showing.unbroken = self._is_unbroken(showing)
                yield showing

    def _is_unbroken(self, showing: Showing) -> bool:
        """Whether a whole text stands there with nothing put in but numbers of lines."""
        if showing.size < showing.group.size:
            return False
        between = (
            self.prompt.stream[before.end : after.at]
            for before, after in pairwise(showing.spans)
        )
        return all(_LINE_NUMBER.fullmatch(put_in) for put_in in between)

    def _pass(self) -> None:
        """Go through the prompt once, and stop at each anchor.

        Where a complete candidate stands, the pass goes on at its end.
        """
        prompt, every, anchors = self.prompt.stream, self._every, self._first
        behind = len(prompt) - ANCHOR + 1
        at = skip_from = skip_to = 0
        while at < behind:
            at = next(
                (
                    near
                    for near in range(at, behind, every)
                    if prompt[near : near + ANCHOR] in anchors
                ),
                behind,
            )
            if at == behind:
                break
            anchor = prompt[at : at + ANCHOR]
            end = self._note_complete(at, anchor)
            if at >= skip_to:
                skip_from = at + every * ANCHOR  # several may fit here
            skip_to = max(skip_to, end - self.shortest)
            self._extend(at, anchor)
            at += every
            if skip_from <= at < skip_to:
                at = skip_to

    def _note_complete(self, at: int, anchor: bytes) -> int:
        """Note the texts that stand complete at an anchor, or begin just before it.

        Returns:
            Where the longest complete candidate ends; 0 if there is none.
        """
        behind = 0
        for start, bucket in self._complete.beginnings(at, anchor):
            standing = self._complete.at(start, bucket)
            for number, size in standing:
                self._note_unbroken(number, start)
                if self.groups[number].members:
                    behind = max(behind, start + size)
            for number in () if standing else self._complete.likest(start, bucket):
                self._follow_from(number, start, 0)
        return behind

    def _note_unbroken(self, number: int, start: int) -> None:
        """Note that a text stands at a place whole and in one piece, unless it stands in too many."""
        starts, group = self._unbroken[number], self.groups[number]
        if starts and start < starts[-1] + ANCHOR:
            return
        starts.append(start)
        if len(starts) >= OCCURRENCES + group.known + len(group.members):
            group.tries = 0
            group.why = "unknown", "its words stand in too many places"
            self._complete.forget(number)

    def _extend(self, near: int, anchor: bytes) -> None:
        """Follow the match of each text that holds the anchor at a place, if one stands there."""
        first = self._first[anchor]
        if first != _NOBODY:
            places = self._more.get(anchor) or [first]
            for place in places:
                self._follow_from(place >> _OFFSET_BITS, near, _offset(place))
            waiting = [
                place
                for place in places
                if self.groups[place >> _OFFSET_BITS].tries > 0
            ]
            if len(waiting) < len(places):
                self._more[anchor] = waiting
            if not waiting:
                self._first[anchor] = _NOBODY
        if self._first[anchor] == _NOBODY and anchor not in self._complete.anchors:
            del self._first[anchor]

    def _follow_from(self, number: int, near: int, of: int) -> None:
        """Follow the match of a text both ways from one place."""
        group = self.groups[number]
        if (
            group.tries > 0
            and group.size >= EDGE
            and not self._is_found(number, near, of)
        ):
            group.tries -= 1
            _add_run(self._runs[number], self._run(near, self._streams[number], of))

    def _is_found(self, number: int, near: int, of: int) -> bool:
        """Whether a text is known to stand at a place.

        It stands there in one piece, or this byte is in the last run that was followed.
        """
        starts, runs = self._unbroken.get(number), self._runs.get(number)
        if starts and starts[-1] <= near < starts[-1] + len(self._streams[number]):
            return True
        return bool(runs) and any(
            span.at - span.of == near - of and span.at <= near < span.end
            for span in (runs or [[]])[-1]
        )

    def _run(self, at: int, text: bytes, of: int) -> list[Span]:
        """The run around a place where an anchor agrees."""
        end, last = len(self.prompt.stream), len(text)
        before: list[Span] = []
        if of and at:
            back = _follow(self._backwards, end - at, text[::-1], last - of)
            before = [
                Span(end - span.end, last - span.last, span.size)
                for span in reversed(back)
            ]
            if before and before[-1].end == at:  # one span with what follows
                at, of, _ = before.pop()
        spans = before + _follow(self.prompt.stream, at, text, of)
        if text.isascii():
            return spans
        letters = (_letters(text, span) for span in spans)
        return [span for span in letters if span.size]

    # Short texts

    def occurrences(self, group: Group) -> Iterator[tuple[Showing, int, int]]:
        """Yield where a text stands that is too short for the pass.

        If it stands in too many places no more matches are followed: its ``tries``
        become 0.

        Yields:
            Where it stands, and what it touches on its left and its right, as
            ``_touching`` says.
        """
        letters, literal = group.text.stream, group.text.raw.strip()
        most = OCCURRENCES if letters else TRIES
        for message, begin in zip(
            self.prompt.messages, self.prompt.starts, strict=True
        ):
            at = -1
            for _ in range(most):
                at = (
                    message.stream.find(letters, at + 1)
                    if letters
                    else message.raw.find(literal, at + 1)
                )
                if at < 0:
                    break
                offsets = None if letters else (at, at + len(literal))
                place = at if letters else len(stream(message.raw[:at]))
                left, right = _touching(message, place, place + len(letters), offsets)
                yield (
                    Showing(group, [Span(begin + place, 0, len(letters))], offsets),
                    left,
                    right,
                )
            else:
                group.tries = 0

    def touching(self, span: Span) -> tuple[int, int]:
        """What a text touches on its left and its right, as in ``occurrences``."""
        number = self.prompt.message(span.at)
        begin = self.prompt.starts[number]
        return _touching(
            self.prompt.messages[number], span.at - begin, span.end - begin, None
        )


def _offset(place: int) -> int:
    """The byte in its text of an anchor's place."""
    return place & _OFFSETS


# Following a match


def _follow(shown: bytes, at: int, text: bytes, of: int) -> list[Span]:
    """Spans from a place on in both, as long as steps lead on."""
    spans = []
    while True:
        size = _count_equal_bytes(shown, at, text, of)
        if size:
            spans.append(Span(at, of, size))
        at, of = at + size, of + size
        step = _step(shown, at, text, of)
        if step is None:
            return spans
        put_in, left_out = step
        between = (
            shown.find(text[of : of + left_out], at, at + put_in)
            if left_out >= WORD
            else -1
        )
        if between >= 0:  # not left out: both ends of it are marked
            spans.append(Span(between, of, left_out))
        at, of = at + put_in, of + left_out


def _count_equal_bytes(shown: bytes, at: int, text: bytes, of: int) -> int:
    """How many bytes agree from here on."""
    most = min(len(shown) - at, len(text) - of)
    agreed, size = 0, 64
    while agreed < most:
        upto = min(agreed + size, most)
        left, right = shown[at + agreed : at + upto], text[of + agreed : of + upto]
        if left != right:
            differing = int.from_bytes(left, "big") ^ int.from_bytes(right, "big")
            return agreed + len(left) - (differing.bit_length() + 7) // 8
        agreed, size = upto, 2 * size
    return most


def _step(shown: bytes, at: int, text: bytes, of: int) -> tuple[int, int] | None:
    """How many bytes to step over in the prompt and in the text.

    Behind them both agree again. None if they do not agree again within a step.
    """
    digits = _line_number(shown, at, text, of)
    if digits:
        return digits, 0
    rest = len(text) - of
    for left_out in range(min(STEP, rest - RESUMED) + 1):
        resumed = text[of + left_out : of + left_out + RESUMED]
        place = shown.find(resumed, at, at + STEP + RESUMED)
        if place >= 0:
            return place - at, left_out
    return None


def _line_number(shown: bytes, at: int, text: bytes, of: int) -> int:
    """How many digits stand in the prompt before the text goes on; 0 if it does not.

    The digits are the number of a line. The text goes on with a word, or to its end.
    """
    digits = _LINE_NUMBER.match(shown, at)
    following = text[of : of + WORD]
    if digits is None or not following:
        return 0
    sizes = range(1, digits.end() - at + 1)
    return next((size for size in sizes if shown.startswith(following, at + size)), 0)


def _letters(text: bytes, span: Span) -> Span:
    """A span without halves of letters at its ends."""
    part = text[span.of : span.last].lstrip(_INSIDE)
    cut = span.size - len(part)
    return Span(
        span.at + cut, span.of + cut, len(part.decode("utf-8", "ignore").encode())
    )


# From runs to showings


def _add_run(runs: list[list[Span]], run: list[Span]) -> None:
    """Add a run behind those found before.

    Ground that both claim goes to the longer, then to the denser one.
    """
    while runs and run and run[0].at < runs[-1][-1].end:
        if _weight(runs[-1]) >= _weight(run):
            run = within(run, start=runs[-1][-1].end)
            break
        shorter = within(runs.pop(), end=run[0].at)
        if shorter:
            runs.append(shorter)
    if run:
        runs.append(run)


def _weight(run: list[Span]) -> tuple[int, int]:
    """How many bytes agree, and how few lie between them."""
    return size_of(run), run[0].at - run[-1].end


def _apart_from(
    unbroken: Sequence[Span], runs: Iterable[list[Span]]
) -> Iterator[list[Span]]:
    """The runs that do not reach into ground where the same text stands in one piece."""
    starts = [span.at for span in unbroken]
    for run in runs:
        before = bisect_left(starts, run[-1].end) - 1
        if before < 0 or unbroken[before].end <= run[0].at:
            yield run


def _chains(group: Group, runs: Iterable[list[Span]]) -> Iterator[Showing]:
    """Join runs of one text to showings.

    A run is joined if it goes on in prompt and text and stands at most 96 bytes behind.
    Of a showing that is not whole, runs that are no trace are left out.
    """
    chains: list[list[Span]] = []
    for run in runs:
        continued = _continuing(chains[-1][-1], run) if chains else []
        if continued:
            chains[-1] += continued
        else:
            chains.append(run)
    for spans in chains:
        showing = Showing(group, spans)
        if not showing.whole:
            showing.spans = [
                span
                for run in runs_of(spans)
                if _is_trace(run, group.size)
                for span in run
            ]
        if showing.spans:
            yield showing


def _continuing(last: Span, run: list[Span]) -> list[Span]:
    """The part of a run that goes on where another run ended; empty if it does not.

    A run that begins with the text's first letter begins a new showing.
    """
    first = run[0]
    if first.of == 0 or first.at - last.end > APART or first.of < last.last - STEP:
        return []
    return within(run, first=last.last)


def _is_trace(run: list[Span], total: int) -> bool:
    """Whether a run is long enough to be no chance.

    At an edge of the text 32 bytes are enough, elsewhere 48.
    """
    at_edge = run[0].of == 0 or run[-1].last == total
    return size_of(run) >= (EDGE if at_edge else MIDDLE)


# What a short text touches


def _touching(
    message: Text, start: int, end: int, literal: tuple[int, int] | None
) -> tuple[int, int]:
    """What a short text touches on its left and its right, as a number for each side.

    It is 0 for another letter, and 2 for an end, a bullet, a quote or a tag.
    """
    (before, first), (last, after) = message.gap(start), message.gap(end)
    if literal:
        first, last = literal
    numbered = _NUMBERED.search(message.raw[max(first - 20, 0) : first]) is not None
    left = _side(message.raw[before:first], start == 0 or numbered, literal is not None)
    right = _side(
        message.raw[last:after], end == len(message.stream), literal is not None
    )
    return left, right


def _side(between: str, at_edge: bool, literal: bool) -> int:
    apostrophe = between in ("'", "’")
    if at_edge or (_MARKS.search(between) and not apostrophe):
        return 2
    return 1 if between or literal else 0
