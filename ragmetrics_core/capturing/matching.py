"""Where texts run along in a prompt: anchors of the streams, looked up in one pass, extended both ways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from struct import iter_unpack
from typing import NamedTuple

from ragmetrics_core.capturing.forms import Text

ANCHOR = 16
"""Bytes of an anchor; candidates are tiled with them."""
COMMON = 8
"""An anchor of more candidates is boilerplate and proves nothing."""
STEP = 24
"""Up to so many bytes put in or left out are stepped over."""
RESUMED = 12
"""After a step at least so many bytes must agree; fewer do by chance."""
WORD = 4
"""So many are enough where they are the end of the text, or stand between two marks."""
APART = 96
"""Parts of one text at most so far apart are one showing."""
EDGE, MIDDLE = 32, 48
"""The least part at an edge of a text, and elsewhere; less is no trace."""
TRIES = 64
"""Extensions for a text; more for duplicates."""
OFFSET = 40
"""Bits of a place that are the offset in the text."""
LONG = 100_000
"""In a longer prompt every third place is looked at."""


class Piece(NamedTuple):
    """Bytes that agree: their place in the prompt, their place in the text, how many."""

    at: int
    of: int
    size: int


@dataclass(slots=True)
class Run:
    """Pieces one after the other, with small steps between them."""

    pieces: list[Piece]
    start: int = field(init=False)
    end: int = field(init=False)
    first: int = field(init=False)
    last: int = field(init=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        (self.start, self.first, _), (at, of, size) = self.pieces[0], self.pieces[-1]
        self.end, self.last = at + size, of + size
        self.size = sum(piece.size for piece in self.pieces)

    def holds(self, at: int, of: int) -> bool:
        """Whether a place in the prompt and one in the text are matched by this run already."""
        return any(piece.at - piece.of == at - of and piece.at <= at < piece.at + piece.size for piece in self.pieces)

    def before(self, at: int) -> Run | None:
        """The run without what stands from a place in the prompt on."""
        kept = [Piece(one.at, one.of, min(one.size, at - one.at)) for one in self.pieces if one.at < at]
        return Run(kept) if kept else None

    def behind(self, at: int, of: int) -> Run | None:
        """The run without what stands before a place in the prompt or in the text."""
        kept = []
        for piece in self.pieces:
            cut = max(at - piece.at, of - piece.of, 0)
            if cut < piece.size:
                kept.append(Piece(piece.at + cut, piece.of + cut, piece.size - cut))
        return Run(kept) if kept else None


@dataclass(slots=True)
class Group:
    """Candidates and known texts of one stream.

    Args:
        text: The first of them.
        members: The candidates' indexes.
        known: How many known texts have this stream.
    """

    text: Text
    members: list[int]
    known: int = 0
    tries: int = TRIES


@dataclass(slots=True)
class Showing:
    """Runs of one text near each other in one message.

    Args:
        group: Number of the text.
        message: Number of the message.
        runs: What agrees; a single run of no bytes for a text without letters.
        total: Bytes of the text's stream.
        literal: Offsets in the message of a text without letters.
    """

    group: int
    message: int
    runs: list[Run]
    total: int
    literal: tuple[int, int] | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """Message and place in it, to be sorted by."""
        return self.message, self.runs[0].start, self.literal[0] if self.literal else 0

    @property
    def size(self) -> int:
        """How many bytes agree."""
        return sum(run.size for run in self.runs)

    @property
    def complete(self) -> bool:
        """Whether nothing of the text is missing."""
        return self.size == self.total

    @property
    def whole(self) -> bool:
        """98 % of the text, or first to last with 85 % and no gap that is not stepped over."""
        gaps = (after.first - before.last for before, after in pairwise(self.runs))
        ends = self.runs[0].first == 0 and self.runs[-1].last == self.total
        return self.size >= 0.98 * self.total or (
            ends and self.size >= 0.85 * self.total and max(gaps, default=0) <= STEP
        )


class Anchors:
    """Pieces of 16 bytes of all texts, and where they stand in which text.

    A place is one number, the text's and the offset in it, because small objects for all of them would take longer
    than the search.

    Args:
        groups: The texts; those too short for an anchor are left out.
        every: Which places of a prompt will be looked at: each, or every third.
    """

    def __init__(self, groups: Sequence[Group], every: int) -> None:
        self.every = every
        self.first: dict[bytes, int] = {}
        self.more: dict[bytes, list[int]] = {}
        for number, group in enumerate(groups):
            stream = group.text.stream
            if len(stream) >= EDGE:
                tiles = iter_unpack("16s", stream[: len(stream) // ANCHOR * ANCHOR])
                for (anchor,), place in zip(tiles, count(number << OFFSET, ANCHOR), strict=False):
                    if self.first.setdefault(anchor, place) != place:
                        self._again(anchor, place)
                self._add(number, stream, _edges(len(stream), every))
        self._drop_common(groups)

    def _add(self, number: int, stream: bytes, offsets: Iterable[int]) -> None:
        for of in offsets:
            anchor, place = stream[of : of + ANCHOR], (number << OFFSET) + of
            if self.first.setdefault(anchor, place) != place:
                self._again(anchor, place)

    def _again(self, anchor: bytes, place: int) -> None:
        """Note one more place of an anchor; two of one text are enough."""
        places = self.more.setdefault(anchor, [self.first[anchor]])
        if len(places) < 2 or places[-2] >> OFFSET != place >> OFFSET:
            places.append(place)

    def _drop_common(self, groups: Sequence[Group]) -> None:
        """Drop boilerplate where a text has anything rarer."""
        dropped: dict[int, list[int]] = defaultdict(list)
        for anchor, places in list(self.more.items()):
            if len({place >> OFFSET for place in places}) > COMMON:
                del self.more[anchor], self.first[anchor]
                for place in places:
                    dropped[place >> OFFSET].append(place & (1 << OFFSET) - 1)
        rarer: dict[int, list[int]] = {}
        for number in dropped:
            stream = groups[number].text.stream
            tiles = range(0, len(stream) - ANCHOR + 1, ANCHOR)
            rarer[number] = [of for of in tiles if stream[of : of + ANCHOR] in self.first]
        for number, common in dropped.items():
            stream, rare = groups[number].text.stream, rarer[number]
            if not rare:
                self._add(number, stream, common)
            elif len({of % self.every for of in rare}) < self.every:  # to be found in every phase
                shifts = (of + shift for of in rare for shift in (-2, -1, 1, 2))
                self._add(number, stream, (of for of in shifts if 0 <= of <= len(stream) - ANCHOR))


def _edges(size: int, every: int) -> list[int]:
    """Offsets of anchors beside the tiles: the end, and where places are left out, both edges in every phase."""
    end = size - ANCHOR
    return [end] if every == 1 else [1, 2, end - 2, end - 1, end]


def search(message: Text, groups: Sequence[Group], anchors: Anchors) -> dict[int, list[Run]]:
    """Find the runs of all texts in a message, by the number of the group, in the order of the prompt."""
    stream, known, every = message.stream, anchors.first, anchors.every
    runs: dict[int, list[Run]] = defaultdict(list)
    at, behind = 0, len(stream) - ANCHOR + 1
    while True:
        for at in range(at, behind, every):  # noqa: B020  # goes on from where it stands
            if stream[at : at + ANCHOR] in known:
                break
        else:
            return runs
        window = min(at + every * ANCHOR, behind)
        ends = [
            end
            for near in range(at, window, every)  # several texts may fit
            if (anchor := stream[near : near + ANCHOR]) in known
            for end in _extend_all(message, near, groups, anchors, anchor, runs)
        ]
        at = max(window, min(ends, default=0) - ANCHOR + 1)


def _extend_all(
    message: Text, near: int, groups: Sequence[Group], anchors: Anchors, anchor: bytes, runs: dict[int, list[Run]]
) -> Iterator[int]:
    """Extend the match of each text that holds the anchor; yield where the runs here end."""
    live = False
    for place in anchors.more.get(anchor) or (anchors.first[anchor],):
        number, of = place >> OFFSET, place & (1 << OFFSET) - 1
        group, found = groups[number], runs[number]
        live = live or group.tries > 0
        if group.tries > 0 and not (found and found[-1].holds(near, of)):
            group.tries -= 1
            run = _extended(message, near, group.text, of)
            if run:
                _add(found, run)
        if found and found[-1].end > near:
            yield found[-1].end
    if not live:  # nobody is left who asks for it
        del anchors.first[anchor]


def _add(found: list[Run], run: Run) -> None:
    """Add a run behind those found before; ground that both claim goes to the longer one."""
    kept: Run | None = run
    while found and run.start < found[-1].end:
        if found[-1].size >= run.size:
            kept = run.behind(found[-1].end, 0)
            break
        shorter = found.pop().before(run.start)
        if shorter:
            found.append(shorter)
    if kept:
        found.append(kept)


def _extended(message: Text, at: int, text: Text, of: int) -> Run | None:
    """The run around a place where an anchor agrees."""
    pieces = _follow(message.stream, at, text.stream, of)
    if of and at:
        end, last = len(message.stream), len(text.stream)
        before = _follow(message.backwards, end - at, text.backwards, last - of)
        pieces = [Piece(end - i - size, last - j - size, size) for i, j, size in reversed(before)] + pieces
    if not text.stream.isascii():
        pieces = [kept for piece in pieces if (kept := _letters_only(message.stream, text.stream, piece)).size > 0]
    return Run(pieces) if pieces else None


def _letters_only(shown: bytes, text: bytes, piece: Piece) -> Piece:
    """A piece without halves of letters at its ends."""
    at, of, size = piece
    while size and text[of] & 0xC0 == 0x80:
        at, of, size = at + 1, of + 1, size - 1
    while size and any(
        side[end : end + 1] and side[end] & 0xC0 == 0x80 for side, end in ((shown, at + size), (text, of + size))
    ):
        size -= 1
    return Piece(at, of, size)


def _follow(shown: bytes, at: int, text: bytes, of: int) -> list[Piece]:
    """Pieces from a place on in both, as long as steps lead on."""
    pieces = []
    while True:
        size = _same(shown, at, text, of)
        if size:
            pieces.append(Piece(at, of, size))
        at, of = at + size, of + size
        step = _step(shown, at, text, of)
        if step is None:
            return pieces
        put_in, left_out = step
        between = shown.find(text[of : of + left_out], at, at + put_in) if left_out >= WORD else -1
        if between >= 0:  # not left out: both ends of it are marked
            pieces.append(Piece(between, of, left_out))
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
    if WORD <= rest < RESUMED:
        put_in = shown.find(text[of:], at, at + STEP + rest)
        return (put_in - at, 0) if put_in >= 0 else None
    if len(shown) - at < RESUMED or rest < RESUMED:
        return None
    put_in = shown.find(text[of : of + RESUMED], at, at + STEP + RESUMED)
    if put_in >= 0:
        return put_in - at, 0
    left_out = text.find(shown[at : at + RESUMED], of, of + STEP + RESUMED)
    if left_out >= 0:
        return 0, left_out - of
    for skipped in range(1, min(STEP, len(text) - of - RESUMED) + 1):
        instead = shown.find(text[of + skipped : of + skipped + RESUMED], at, at + STEP + RESUMED)
        if instead >= 0:
            return instead - at, skipped
    return None


def showings(number: int, group: Group, message: int, runs: list[Run]) -> Iterator[Showing]:
    """Join runs that rise in both at most 96 apart; leave out what is no trace."""
    chains: list[list[Run]] = []
    total = len(group.text.stream)
    for run in runs:
        last = chains[-1][-1] if chains else None
        near = last and run.start - last.end <= APART and run.first >= last.last - STEP
        joined = run.behind(0, last.last) if last and near else None
        if joined:
            chains[-1].append(joined)
        else:
            chains.append([run])
    for chain in chains:
        showing = Showing(number, message, chain, total)
        if not showing.whole:
            showing.runs = [
                run for run in chain if run.size >= (EDGE if run.first == 0 or run.last == total else MIDDLE)
            ]
        if showing.runs:
            yield showing
