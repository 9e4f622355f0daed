"""Which of some texts stand in what a model was shown, where, in which order, and how much of each.

Letters and digits are compared, in whatever form the prompt holds them (``forms.py``). All places where candidates and
prompt run along are found in one pass (``matching.py``). Here the showings compete for the ground they stand on, the
longest first, because a text inside a shown text is explained by that text; what is left counts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from ragmetrics_core.capturing.forms import Text, form, letters
from ragmetrics_core.capturing.matching import (
    EDGE,
    LONG,
    STEP,
    TRIES,
    Anchors,
    Group,
    Piece,
    Run,
    Showing,
    search,
    showings,
)

Outcome = Literal["shown", "not shown", "unknown"]
Extent = Literal["whole", "beginning", "end", "middle", "parts"]

OWN = 32
"""Bytes that a showing needs on ground that no better one has taken."""
ALONE = 16
"""A text of fewer bytes must stand apart, since its words may be anybody's."""
WHOLE = 0.98
"""Of a text so much is all of it, also where pieces of it stand apart."""
OCCURRENCES = 500
"""Occurrences of a short text that are looked at in one message."""

_MARKS = re.compile(r"""[\n\r\t"'`“”„«»‘’<>]|\\[nrt"']|&(?:amp;)*(?:quot|apos|lt|gt|\#39|\#34|\#x27);""")
_APOSTROPHES = ("'", "’")
_NUMBERED = re.compile(r"(?:^|\n|\\n)\W*\d{1,3}[.):\]]\s*$")


@dataclass(frozen=True)
class Place:
    """What became of a candidate.

    Args:
        candidate: Its index.
        outcome: ``shown``, ``not shown``, or ``unknown`` where the prompt does not tell.
        coverage: The share of its letters and digits that is shown, 0 to 1.
        extent: Which part of it is shown; None if none is.
        part: Index of the message that shows it first; None if none does.
        reason: Why, in words.
    """

    candidate: int
    outcome: Outcome
    coverage: float = 0.0
    extent: Extent | None = None
    part: int | None = None
    reason: str = ""
    _text: Text | None = field(default=None, repr=False, compare=False)
    _message: Text | None = field(default=None, repr=False, compare=False)
    _showings: tuple[Showing, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def _span(self) -> tuple[int, int] | tuple[None, None]:
        if self._message is None:
            return None, None
        first = self._showings[0]
        return first.literal or self._message.span(first.runs[0].start, first.runs[-1].end)

    @property
    def start(self) -> int | None:
        """Offset in that message of the first letter shown there; None if nothing is shown."""
        return self._span[0]

    @property
    def end(self) -> int | None:
        """Offset in that message behind the last letter shown there; None if nothing is shown."""
        return self._span[1]

    @cached_property
    def text(self) -> str:
        """The shown part in the candidate's own characters, parts joined by `` … ``; empty if nothing is shown."""
        if self._text is None:
            return ""
        raw, total, parts = self._text.raw, len(self._text.stream), []
        if self.extent == "whole":
            return raw
        for run in sorted((run for one in self._showings for run in one.runs), key=lambda run: run.first):
            start, end = self._text.span(run.first, run.last)
            parts.append(raw[start if run.first else 0 : end if run.last < total else len(raw)])
        return " … ".join(parts)

    @cached_property
    def form(self) -> str | None:
        """The form in which the prompt holds it, for a reader (see ``forms.form``); None if it is not shown."""
        if self._text is None or self._message is None:
            return None
        if self._showings[0].literal:
            return "plain"
        run = max(self._showings[0].runs, key=lambda run: run.size)
        own, shown = self._text.span(run.first, run.last), self._message.span(run.start, run.end)
        return form(self._text.raw[slice(*own)], self._message.raw[slice(*shown)])


@dataclass(frozen=True)
class Located:
    """What became of all candidates.

    Args:
        places: One per candidate, in the same order.
        order: The candidates shown, in the order of the prompt.
    """

    places: tuple[Place, ...]
    order: tuple[int, ...]


def locate(candidates: Sequence[str], shown: str | Sequence[str], *, known: Sequence[str] = ()) -> Located:
    """Find which texts a model was shown.

    Args:
        candidates: Texts that may stand there, equal ones included.
        shown: A prompt, or the texts of its messages, results of tools included. No showing crosses messages.
        known: Texts that stand there for another reason (question, history, instructions): each explains one
            occurrence; a candidate of the same words needs another.

    Returns:
        A place for each candidate, and the order of those shown.

    Example:
        >>> porto, faro = "Porto lies on the Douro, in the north.", "Faro is the southernmost city of the country."
        >>> found = locate([porto, faro], f"Use only this: {[porto]!r}. Where is Porto?", known=["Where is Porto?"])
        >>> [(place.outcome, place.extent) for place in found.places], found.order
        ([('shown', 'whole'), ('not shown', None)], (0,))
    """
    messages = [Text(message) for message in ([shown] if isinstance(shown, str) else shown)]
    return _Settling(candidates, messages, known).located()


def _groups(texts: Sequence[Text], count: int) -> list[Group]:
    """Texts of one stream are one group; those without letters are told apart by their characters."""
    groups: dict[bytes | str, Group] = {}
    for index, text in enumerate(texts):
        group = groups.setdefault(text.stream or text.raw.strip(), Group(text, []))
        if index < count:
            group.members.append(index)
        else:
            group.known += 1
        group.tries += 2
    return list(groups.values())


class _Settling:
    """Showings compete for ground; each goes to a candidate, to a known text, or to several that it fits alike."""

    def __init__(self, candidates: Sequence[str], messages: Sequence[Text], known: Sequence[str]) -> None:
        self.messages = messages
        self.texts = [Text(raw) for raw in (*candidates, *known)]
        self.groups = _groups(self.texts, len(candidates))
        self.ground = [bytearray(len(message.stream)) for message in messages]
        self.slots: list[list[list[Showing]]] = [[] for _ in self.groups]
        """Of each group: what one candidate or known text after the other is shown by, a whole showing or parts."""
        self.shared: dict[frozenset[int], list[dict[int, Showing]]] = defaultdict(list)
        """Parts that fit several groups alike: of these groups, what fits at each place."""
        self.why: dict[int, tuple[Outcome, str]] = {}
        """Of groups: what there is to say beyond that they were not found."""

    def located(self) -> Located:
        """Settle everything."""
        self._settle()
        sizes = {number: len(group.text.stream) for number, group in enumerate(self.groups)}
        for number in sorted(sizes, key=lambda one: -sizes[one]):
            if sizes[number] < EDGE and self.groups[number].text.raw.strip():
                self._settle_short(number, self.groups[number])
        shown: dict[int, list[Showing]] = {}
        for group, slots in zip(self.groups, self.slots, strict=True):
            slots.sort(key=lambda slot: min(one.place for one in slot))
            shown.update(zip(group.members, slots[group.known :], strict=False))
        self._share(shown)
        numbers = {member: number for number, group in enumerate(self.groups) for member in group.members}
        places = []
        for one in sorted(numbers):
            if one in shown:
                places.append(self._shown(one, sorted(shown[one], key=lambda showing: showing.place)))
            else:
                places.append(self._missing(one, numbers[one], bool(shown)))
        order = sorted(shown, key=lambda one: min(showing.place for showing in shown[one]))
        return Located(tuple(places), tuple(order))

    def _settle(self) -> None:
        """Give each showing its ground and its text, the longest first."""
        found: list[Showing] = []
        anchors = Anchors(self.groups, 3 if any(len(message.stream) > LONG for message in self.messages) else 1)
        for index, message in enumerate(self.messages):
            for number, runs in search(message, self.groups, anchors).items():
                found += showings(number, self.groups[number], index, runs)
        wholes = [bytearray(len(ground)) for ground in self.ground]
        for showing in found:
            if showing.whole:
                _mark(wholes[showing.message], showing)
        rivals: dict[tuple[object, ...], dict[int, Showing]] = defaultdict(dict)
        for showing in found:
            rivals[showing.place, showing.size][showing.group] = showing
        for showing in sorted(found, key=lambda one: (self._filled(one, wholes[one.message]), *self._rank(one))):
            group, slots = self.groups[showing.group], self.slots[showing.group]
            alike = rivals[showing.place, showing.size]
            if self._own(showing) < OWN:
                self.why.setdefault(showing.group, ("not shown", "another text explains the trace of it"))
            elif len(alike) > 1 and not any(one.complete or self._explains(one.group) for one in alike.values()):
                _mark(self.ground[showing.message], showing)
                self.shared[frozenset(alike)].append(alike)
            elif group.members or self._explains(showing.group):
                _mark(self.ground[showing.message], showing)
                _give(slots, showing)

    def _explains(self, number: int) -> bool:
        """Whether a known text of the group has no occurrence yet."""
        return len(self.slots[number]) < self.groups[number].known

    def _filled(self, showing: Showing, wholes: bytearray) -> bool:
        """Whether whole showings of other texts fill a part: a parent's part is then its children."""
        return not showing.whole and wholes.count(1, showing.runs[0].start, showing.runs[-1].end) >= showing.size - STEP

    def _rank(self, showing: Showing) -> tuple[object, ...]:
        """The longest first, less for parts and steps: neighbours fit by chance; then coverage, known texts, place."""
        group = self.groups[showing.group]
        plain = showing.whole and len(showing.runs) == len(showing.runs[0].pieces) == 1
        longest = max(run.size for run in showing.runs) - (0 if plain else STEP)
        share = showing.size / showing.total
        return -longest, -showing.size, -share, not group.known, group.members[:1], showing.place

    def _own(self, showing: Showing) -> int:
        taken = self.ground[showing.message]
        return sum(taken.count(0, one.at, one.at + one.size) for run in showing.runs for one in run.pieces)

    def _share(self, shown: dict[int, list[Showing]]) -> None:
        """Parts that fit several: as many showings as candidates, then in their order; else nobody knows whose."""
        for numbers, places in self.shared.items():
            members = {member: number for number in numbers for member in self.groups[number].members}
            places.sort(key=lambda fitting: min(one.place for one in fitting.values()))
            title = any(showing.whole for member in members for showing in shown.get(member, ())) and not any(
                showing.whole for fitting in places for showing in fitting.values()
            )
            for index, (member, number) in enumerate(sorted(members.items())):
                if member not in shown and len(places) >= len(members):
                    shown[member] = [places[index][number]]
                elif title:
                    self.why[number] = "not shown", "what fits it fits another candidate, which is shown whole"
                else:
                    self.why[number] = "unknown", "what fits it fits other candidates as well"

    def _settle_short(self, number: int, group: Group) -> None:
        """Find a short text where it touches no other letter and, if it is very short, stands apart."""
        size, doubt, covered = len(group.text.stream), "", False
        among: list[tuple[Showing, bytearray]] = []
        for index, message in enumerate(self.messages):
            ground = self.ground[index]
            for at, literal in _occurrences(group, message):
                showing = Showing(number, index, [Run([Piece(at, 0, size)])], size, literal)
                if 1 in (ground[at : at + size] if size else ground[max(at - 1, 0) : at + 1]):
                    covered = True
                    continue
                alone = bool(literal) or _alone(message, at, size)
                sides = _apart(message, at, size, literal) if size < ALONE else 2
                if alone and sides == 2:
                    self.slots[number].append([showing])
                    _mark(ground, showing)
                elif alone or sides:
                    among.append((showing, ground))
        for showing, ground in among:
            if self._explains(number):
                self.slots[number].append([showing])
                _mark(ground, showing)
            else:
                doubt = "short, and its words stand among others"
        if group.tries <= 0:
            doubt = "its few letters stand in too many places"
        if doubt:
            self.why[number] = "unknown", doubt
        elif covered:
            self.why[number] = "not shown", "its words stand inside another text"

    def _shown(self, one: int, showings: list[Showing]) -> Place:
        text, first = self.texts[one], showings[0]
        runs = sorted((run for showing in showings for run in showing.runs), key=lambda run: run.first)
        agreeing = b"".join(text.stream[piece.of : piece.of + piece.size] for run in runs for piece in run.pieces)
        coverage = letters(agreeing) / letters(text.stream) if text.stream else 1.0
        if first.literal or (first.whole and len(showings) == 1) or coverage >= WHOLE:
            extent: Extent = "whole"
        elif len(runs) > 1 or (runs[0].first == 0 and runs[0].last == first.total):
            extent = "parts"
        elif runs[0].first == 0:
            extent = "beginning"
        else:
            extent = "end" if runs[0].last == first.total else "middle"
        reason = "its whole text stands there" if extent == "whole" else f"{coverage:.0%} of it stands there"
        message = self.messages[first.message]
        return Place(one, "shown", coverage, extent, first.message, reason, text, message, tuple(showings))

    def _missing(self, one: int, number: int, located: bool) -> Place:
        group = self.groups[number]
        if not group.text.raw.strip():
            return Place(one, "not shown", reason="blank")
        if not any(message.raw.strip() for message in self.messages):
            return Place(one, "unknown", reason="no prompt")
        outcome, reason = self.why.get(number, ("not shown", "no trace of it"))
        if self.slots[number]:
            outcome, reason = "not shown", "a text of the same words explains what stands there"
        elif group.tries <= 0:
            outcome, reason = "unknown", "its phrases stand in too many places"
        short = len(group.text.stream) < EDGE
        if outcome == "not shown" and not located and not (short and number in self.why):
            return Place(one, "unknown", reason=f"{reason}, and no other candidate is located")
        return Place(one, outcome, reason=reason)


def _mark(ground: bytearray, showing: Showing) -> None:
    for run in showing.runs:
        ground[run.start : run.end] = b"\1" * (run.end - run.start)


def _give(slots: list[list[Showing]], showing: Showing) -> None:
    """A whole showing is one more; a part joins parts that it does not repeat; beside a whole one it is a title.

    In another message it also joins parts that it overlaps: a long text is cut into pieces that overlap.
    """
    whole = any(slot[0].whole for slot in slots)
    if showing.whole or not slots:
        slots.append([showing])
    elif not whole:
        for slot in slots:
            runs = [run for one in slot for run in one.runs]
            elsewhere = all(one.message != showing.message for one in slot)
            new = [left for run in showing.runs if (left := _fresh(run, runs) if elsewhere else run)]
            if all(one.last <= run.first or run.last <= one.first for one in new for run in runs):
                if new:
                    slot.append(replace(showing, runs=new))
                return
        slots.append([showing])


def _fresh(new: Run, runs: Sequence[Run]) -> Run | None:
    """What of a run others do not hold; its ends are cut where they overlap."""
    left: Run | None = new
    for run in runs:
        if left is not None and run.first <= left.first < run.last:
            left = left.behind(0, run.last)
        elif left is not None and left.first < run.first < left.last <= run.last:
            left = Run(
                [Piece(one.at, one.of, min(one.size, run.first - one.of)) for one in left.pieces if one.of < run.first]
            )
    return left


def _occurrences(group: Group, message: Text) -> Iterator[tuple[int, tuple[int, int] | None]]:
    """Places of a short text in a message's stream, and its offsets in the message if it has no letters."""
    text, at = group.text, -1
    literal = text.raw.strip()
    for _ in range(OCCURRENCES if text.stream else TRIES):
        at = message.stream.find(text.stream, at + 1) if text.stream else message.raw.find(literal, at + 1)
        if at < 0:
            return
        yield (at, None) if text.stream else (message.at(at), (at, at + len(literal)))
    group.tries = 0


def _alone(message: Text, at: int, size: int) -> bool:
    """Whether a short text touches no other letter."""
    (before, start), (end, after) = message.gap(at), message.gap(at + size)
    return (at == 0 or before < start) and (at + size == len(message.stream) or end < after)


def _apart(message: Text, at: int, size: int, literal: tuple[int, int] | None) -> int:
    """On how many sides a very short text ends a line, or stands at a bullet, a quote or a tag."""
    (before, start), (end, after) = message.gap(at), message.gap(at + size)
    if literal:
        start, end = literal
    opening, closing = message.raw[before:start], message.raw[end:after]
    item = _NUMBERED.search(message.raw[max(start - 20, 0) : start])
    opened = at == 0 or item is not None or (opening not in _APOSTROPHES and _MARKS.search(opening) is not None)
    closed = at + size == len(message.stream) or (closing not in _APOSTROPHES and _MARKS.search(closing) is not None)
    return opened + closed
