"""Where texts run along in a prompt: anchors of the streams, looked up in one pass, extended both ways.

Texts too short for an anchor are looked for one by one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from ragmetrics_core.capturing.forms import Prompt, Text, stream

ANCHOR = 16  # bytes of an anchor; candidates are tiled with them
COMMON = 8  # an anchor of more candidates is boilerplate and proves nothing
STEP = 24  # up to so many bytes put in or left out are stepped over
RESUMED = 12  # after a step at least so many bytes must agree; fewer do by chance
WORD = 4  # so many are enough where they are the end of the text, or stand between two marks
APART = 96  # parts of one text at most so far apart are one showing
EDGE, MIDDLE = 32, 48  # the least part at an edge of a text, and elsewhere; less is no trace
TRIES = 64  # extensions for a text; more for duplicates
OCCURRENCES = 500  # of a short text so many are looked at in one message
LONG = 100_000  # in a longer prompt every third place is looked at
FAR = 1 << 40  # behind the end of any prompt or text
_MARKS = re.compile(r"""[\n\r\t"'`“”„«»‘’<>]|\\[nrt"']|&(?:amp;)*(?:quot|apos|lt|gt|\#39|\#34|\#x27);""")
_NUMBERED = re.compile(r"(?:^|\n|\\n)\W*\d{1,3}[.):\]]\s*$")
_OFFSET = 40  # bits of a place that are the offset in the text
_INSIDE = bytes(range(0x80, 0xC0))  # bytes that go on with a letter beyond ASCII


class Span(NamedTuple):
    """Bytes that agree: their place in the prompt, their place in the text, how many."""

    at: int
    of: int
    size: int

    @property
    def end(self) -> int:
        """Behind them in the prompt."""
        return self.at + self.size

    @property
    def last(self) -> int:
        """Behind them in the text."""
        return self.of + self.size


@dataclass(slots=True, eq=False)
class Group:
    """Candidates and known texts of one stream: the first of them, the candidates' indexes, how many are known."""

    text: Text
    members: list[int] = field(default_factory=list)
    known: int = 0
    tries: int = TRIES
    shown: list[Showing] = field(default_factory=list)  # one candidate or known text after the other
    why: tuple[Literal["not shown", "unknown"], str] | None = None  # where more is to say than that it was not found

    @property
    def explains(self) -> bool:
        """Whether a known text has no occurrence yet."""
        return len(self.shown) < self.known


@dataclass(slots=True, eq=False)
class Showing:
    """Where a text stands in the prompt: spans in the prompt's order; without letters one of no bytes and offsets."""

    group: Group
    spans: list[Span]
    literal: tuple[int, int] | None = None

    @property
    def place(self) -> tuple[int, int]:
        """To be sorted by."""
        return self.spans[0].at, self.literal[0] if self.literal else 0

    @property
    def size(self) -> int:
        """How many bytes agree."""
        return size_of(self.spans)

    @property
    def complete(self) -> bool:
        """Whether nothing of the text is missing."""
        return self.size == len(self.group.text.stream)

    @property
    def whole(self) -> bool:
        """In one place 98 % of the text, or first to last with 85 % and no gap that is not stepped over."""
        total, pairs = len(self.group.text.stream), list(pairwise(self.spans))
        if any(after.at - before.end > APART + STEP or after.of < before.last for before, after in pairs):
            return False
        ends = self.spans[0].of == 0 and self.spans[-1].last == total
        stepped = all(after.of - before.last <= STEP for before, after in pairs)
        return self.size >= (0.85 if ends and stepped else 0.98) * total


def size_of(spans: Iterable[Span]) -> int:
    """How many bytes agree."""
    return sum(span.size for span in spans)


def within(spans: Iterable[Span], start: int = 0, end: int = FAR, first: int = 0, last: int = FAR) -> list[Span]:
    """What of spans stands between two places of the prompt, and between two of the text."""
    kept = []
    for at, of, size in spans:
        cut, upto = max(start - at, first - of, 0), min(size, end - at, last - of)
        if cut < upto:
            kept.append(Span(at + cut, of + cut, upto - cut))
    return kept


def runs_of(spans: Iterable[Span]) -> list[list[Span]]:
    """Spans in the order of the text, those together between which there are but small steps."""
    runs: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: span.of):
        before = runs[-1][-1] if runs else None
        if before and 0 <= span.at - before.end <= STEP and span.of - before.last <= STEP:
            runs[-1].append(span)
        else:
            runs.append([span])
    return runs


class Search:
    """One pass over a prompt.

    A place of an anchor is one number, of the text and of the byte in it: small objects would take longer than the
    search. Each anchor's first place is in ``first``; all of those that have several are in ``more``.
    """

    def __init__(self, prompt: Prompt, groups: Sequence[Group]) -> None:
        self.prompt, self.groups, self.every = prompt, groups, 3 if len(prompt.stream) > LONG else 1
        self.backwards, self.first = prompt.stream[::-1], dict[bytes, int]()
        self.more: dict[bytes, list[int]] = {}
        self.runs: dict[int, list[list[Span]]] = defaultdict(list)
        for number, group in enumerate(groups):
            end = len(group.text.stream) - ANCHOR
            if end + ANCHOR >= EDGE:
                edges = [end] if self.every == 1 else [1, 2, end - 2, end - 1, end]  # in every phase
                self._add(number, [*range(0, end + 1, ANCHOR), *edges])
        self._drop_common()

    def _add(self, number: int, offsets: Iterable[int]) -> None:
        stream, first = self.groups[number].text.stream, self.first
        for of in offsets:
            anchor, place = stream[of : of + ANCHOR], number << _OFFSET | of
            if first.setdefault(anchor, place) != place:
                again = self.more.setdefault(anchor, [first[anchor]])
                if len(again) < 2 or again[-2] >> _OFFSET != number:  # two of one text are enough
                    again.append(place)

    def _drop_common(self) -> None:
        """Drop boilerplate where a text has anything rarer, which is then to be found in every phase."""
        dropped: dict[int, list[int]] = defaultdict(list)
        for anchor, places in list(self.more.items()):
            if len({place >> _OFFSET for place in places}) > COMMON:
                del self.more[anchor], self.first[anchor]
                for place in places:
                    dropped[place >> _OFFSET].append(place & (1 << _OFFSET) - 1)
        for number, common in list(dropped.items()):
            stream = self.groups[number].text.stream
            end = len(stream) - ANCHOR
            rare = [of for of in range(0, end + 1, ANCHOR) if stream[of : of + ANCHOR] in self.first]
            shifted = (of + shift for of in rare for shift in (-2, -1, 1, 2))
            few = len({of % self.every for of in rare}) < self.every
            dropped[number] = [of for of in shifted if few and 0 <= of <= end] if rare else common
        for number, offsets in dropped.items():
            self._add(number, offsets)

    def showings(self) -> Iterator[Showing]:
        """Find the showings of all texts."""
        stream, every, known = self.prompt.stream, self.every, self.first
        at, behind = 0, len(stream) - ANCHOR + 1
        while at < behind:
            at = next((near for near in range(at, behind, every) if stream[near : near + ANCHOR] in known), behind)
            window = min(at + every * ANCHOR, behind)
            ends = [end for near in range(at, window, every) for end in self._extended(near)]  # several texts may fit
            at = max(window, min(ends, default=0) - ANCHOR + 1)
        for number, runs in self.runs.items():
            yield from _joined(self.groups[number], runs)

    def _extended(self, near: int) -> Iterator[int]:
        """Extend the match of each text that holds the anchor at a place, if one stands there; yield where runs end."""
        anchor, live = self.prompt.stream[near : near + ANCHOR], False
        if anchor not in self.first:
            return
        for place in self.more.get(anchor) or (self.first[anchor],):
            number, of = place >> _OFFSET, place & (1 << _OFFSET) - 1
            group, found = self.groups[number], self.runs[number]
            live = live or group.tries > 0
            same = found and any(one.at - one.of == near - of and one.at <= near < one.end for one in found[-1])
            if group.tries > 0 and not same:
                group.tries -= 1
                _add(found, self._run(near, group.text.stream, of))
            if found and found[-1][-1].end > near:
                yield found[-1][-1].end
        if not live:  # nobody is left who asks for it
            del self.first[anchor]

    def occurrences(self, group: Group) -> Iterator[tuple[Showing, int, int]]:
        """Where a short text stands, and what it touches there on its left and its right."""
        letters, literal, most = group.text.stream, group.text.raw.strip(), OCCURRENCES if group.text.stream else TRIES
        for message, begin in zip(self.prompt.messages, self.prompt.starts, strict=True):
            at = -1
            for _ in range(most):
                at = message.stream.find(letters, at + 1) if letters else message.raw.find(literal, at + 1)
                if at < 0:
                    break
                offsets = None if letters else (at, at + len(literal))
                place = at if letters else len(stream(message.raw[:at]))
                left, right = _touching(message, place, place + len(letters), offsets)
                yield Showing(group, [Span(begin + place, 0, len(letters))], offsets), left, right
            else:
                group.tries = 0

    def _run(self, at: int, text: bytes, of: int) -> list[Span]:
        """The run around a place where an anchor agrees."""
        end, last, before = len(self.prompt.stream), len(text), list[Span]()
        if of and at:
            back = _follow(self.backwards, end - at, text[::-1], last - of)
            before = [Span(end - one.end, last - one.last, one.size) for one in reversed(back)]
            if before and before[-1].end == at:  # one span with what follows
                at, of, _ = before.pop()
        spans = before + _follow(self.prompt.stream, at, text, of)
        return spans if text.isascii() else [kept for span in spans if (kept := _letters(text, span)).size]


def _add(found: list[list[Span]], run: list[Span]) -> None:
    """Add a run behind those found before; ground that both claim goes to the longer one."""
    while found and run and run[0].at < found[-1][-1].end:
        if size_of(found[-1]) >= size_of(run):
            run = within(run, start=found[-1][-1].end)
            break
        shorter = within(found.pop(), end=run[0].at)
        if shorter:
            found.append(shorter)
    if run:
        found.append(run)


def _letters(text: bytes, span: Span) -> Span:
    """A span without halves of letters at its ends."""
    part = text[span.of : span.last].lstrip(_INSIDE)
    cut = span.size - len(part)
    return Span(span.at + cut, span.of + cut, len(part.decode("utf-8", "ignore").encode()))


def _follow(shown: bytes, at: int, text: bytes, of: int) -> list[Span]:
    """Spans from a place on in both, as long as steps lead on."""
    spans = []
    while True:
        size = _same(shown, at, text, of)
        if size:
            spans.append(Span(at, of, size))
        at, of = at + size, of + size
        step = _step(shown, at, text, of)
        if step is None:
            return spans
        put_in, left_out = step
        between = shown.find(text[of : of + left_out], at, at + put_in) if left_out >= WORD else -1
        if between >= 0:  # not left out: both ends of it are marked
            spans.append(Span(between, of, left_out))
        at, of = at + put_in, of + left_out


def _same(shown: bytes, at: int, text: bytes, of: int) -> int:
    """How many bytes agree from here on."""
    most, done, size = min(len(shown) - at, len(text) - of), 0, 64
    while done < most:
        left, right = shown[at + done : at + min(done + size, most)], text[of + done : of + min(done + size, most)]
        if left != right:
            differing = int.from_bytes(left, "big") ^ int.from_bytes(right, "big")
            return done + len(left) - (differing.bit_length() + 7) // 8
        done, size = done + size, 2 * size
    return most


def _step(shown: bytes, at: int, text: bytes, of: int) -> tuple[int, int] | None:
    """How many bytes to step over in the prompt and in the text, where both agree again."""
    rest = len(text) - of
    size = min(rest, RESUMED)
    if size >= WORD:
        for left_out in range(min(STEP, rest - size) + 1):
            put_in = shown.find(text[of + left_out : of + left_out + size], at, at + STEP + size) - at
            if put_in >= 0:
                return put_in, left_out
    return None


def _joined(group: Group, runs: Iterable[list[Span]]) -> Iterator[Showing]:
    """Join runs that rise in both at most 96 apart; leave out what is no trace."""
    chains: list[list[Span]] = []
    total = len(group.text.stream)
    for run in runs:
        last = chains[-1][-1] if chains else None
        near = last and run[0].at - last.end <= APART and run[0].of >= last.last - STEP
        joined = within(run, first=last.last) if last and near else []
        if joined:
            chains[-1] += joined
        else:
            chains.append(run)
    for spans in chains:
        showing = Showing(group, spans)
        if not showing.whole:
            least = [(run, EDGE if run[0].of == 0 or run[-1].last == total else MIDDLE) for run in runs_of(spans)]
            showing.spans = [span for run, enough in least if size_of(run) >= enough for span in run]
        if showing.spans:
            yield showing


def _touching(message: Text, start: int, end: int, literal: tuple[int, int] | None) -> list[int]:
    """What a short text touches on its left and its right: 0 another letter, 2 an end, a bullet, a quote or a tag."""
    (before, first), (last, after) = message.gap(start), message.gap(end)
    if literal:
        first, last = literal
    item = _NUMBERED.search(message.raw[max(first - 20, 0) : first])
    sides = (start == 0 or item, message.raw[before:first]), (end == len(message.stream), message.raw[last:after])
    return [
        2 if edge or (between not in ("'", "’") and _MARKS.search(between)) else int(bool(between or literal))
        for edge, between in sides
    ]
