"""Where texts run along in a prompt: anchors of the streams, looked up in one pass, extended both ways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
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
APART = 96
"""Parts of one text at most so far apart are one showing."""
EDGE, MIDDLE = 32, 48
"""The least part at an edge of a text, and elsewhere; less is no trace."""
TRIES = 64
"""Extensions for a text; more for duplicates."""
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
    def whole(self) -> bool:
        """98 % of the text, or first to last with 85 % and no gap that is not stepped over."""
        gaps = (after.first - before.last for before, after in pairwise(self.runs))
        ends = self.runs[0].first == 0 and self.runs[-1].last == self.total
        return self.size >= 0.98 * self.total or (
            ends and self.size >= 0.85 * self.total and max(gaps, default=0) <= STEP
        )


class Anchors:
    """Pieces of 16 bytes of all texts, and which texts they stand in.

    Args:
        groups: The texts; those too short for an anchor are left out.
        every: Which places of a prompt will be looked at: each, or every third.
    """

    def __init__(self, groups: Sequence[Group], every: int) -> None:
        self.every = every
        self.places: dict[bytes, list[tuple[int, int]]] = {}
        for number, group in enumerate(groups):
            stream = group.text.stream
            for of in self._tiles(len(stream)):
                self.places.setdefault(stream[of : of + ANCHOR], []).append((number, of))
        self._drop_common(groups)

    def _tiles(self, size: int) -> Iterator[int]:
        if size < EDGE:
            return
        yield from range(0, size - ANCHOR, ANCHOR)
        yield size - ANCHOR
        if self.every > 1:  # both edges are found in every phase
            yield from (1, 2, size - ANCHOR - 2, size - ANCHOR - 1)

    def _drop_common(self, groups: Sequence[Group]) -> None:
        """Drop boilerplate where a text has anything rarer."""
        dropped = defaultdict(list)
        for places in self.places.values():
            if len(places) > COMMON and len({number for number, _ in places}) > COMMON:
                for number, of in places:
                    dropped[number].append(of)
                places.clear()
        for number, common in dropped.items():
            stream = groups[number].text.stream
            rare = set(self._tiles(len(stream))).difference(common)
            if not rare:
                again = common
            elif len({of % self.every for of in rare}) < self.every:  # found in every phase
                again = [of + phase for of in rare for phase in (1, 2) if of + phase + ANCHOR <= len(stream)]
                again += [of - phase for of in rare for phase in (1, 2) if of >= phase]
            else:
                continue
            for of in again:
                self.places.setdefault(stream[of : of + ANCHOR], []).append((number, of))
        self.places = {anchor: places for anchor, places in self.places.items() if places}


def search(message: Text, groups: Sequence[Group], anchors: Anchors) -> dict[int, list[Run]]:
    """Find the runs of all texts in a message, by the number of the group, in the order of their ends."""
    stream, places, every = message.stream, anchors.places, anchors.every
    runs: dict[int, list[Run]] = defaultdict(list)
    at, behind = 0, len(stream) - ANCHOR + 1
    while places:
        for at in range(at, behind, every):  # noqa: B020  # from where it stands
            if stream[at : at + ANCHOR] in places:
                break
        else:
            break
        reach, window = at, min(at + every * ANCHOR, behind)
        for near in range(at, window, every):  # several texts may fit
            for number, of in places.get(stream[near : near + ANCHOR], ()):
                group, found = groups[number], runs[number]
                if (found and near < found[-1].end) or group.tries <= 0:
                    continue
                group.tries -= 1
                run = _extended(message, near, group.text, of)
                if run:
                    _add(found, run)
                    reach = max(reach, run.end)
        at = max(window, reach - ANCHOR + 1)
    return runs


def _add(found: list[Run], run: Run) -> None:
    """Add a run behind those found before; what both hold stays with the first, unless the new one holds it whole."""
    while found and found[-1].start >= run.start:
        found.pop()
    kept = run.behind(found[-1].end, 0) if found else run
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
        at, of = at + step[0], of + step[1]


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
    if len(shown) - at < RESUMED or len(text) - of < RESUMED:
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
