"""Which of some texts stand in what a model was shown, where, in which order, and how much of each.

Letters and digits are compared, in whatever form the prompt holds them, and all places where candidates and prompt run
along are found in one pass (``matching.py``). Here the showings compete for the ground they stand on, the longest
first, because a text inside a shown text is explained by that text; what is left counts.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ragmetrics_core.capturing.forms import Prompt, Text, stream
from ragmetrics_core.capturing.matching import EDGE, RESUMED, STEP, Group, Search, Showing, runs_of, size_of, within

Outcome = Literal["shown", "not shown", "unknown"]
Extent = Literal["whole", "beginning", "end", "middle", "parts"]

OWN = 32  # bytes that a showing needs on ground that no better one has taken
ALONE = 16  # a text of fewer bytes must stand apart, since its words may be anybody's
WHOLE = 0.98  # of a text so much is all of it, also where pieces of it stand apart

_DOTTED = re.compile(r"(?:\.\.\.|…)(\W*\w.*)$", re.DOTALL)
_BEGUN = re.compile(r"\W(\w+)$")


@dataclass(frozen=True)
class Place:
    """What became of a candidate."""

    candidate: int  # its index
    outcome: Outcome  # unknown: the prompt does not tell
    coverage: float = 0.0  # the share of its letters and digits that is shown, 0 to 1
    extent: Extent | None = None  # which part of it is shown; None if none is
    part: int | None = None  # index of the message that shows it first; None if none does
    reason: str = ""  # why, in words
    _text: Text | None = field(default=None, repr=False, compare=False)
    _prompt: Prompt = field(default_factory=lambda: Prompt(()), repr=False, compare=False)
    _showing: Showing | None = field(default=None, repr=False, compare=False)

    @property
    def offsets(self) -> tuple[int, int] | None:
        """Where in that message the first letter shown there begins and the last one ends; None if nothing is shown."""
        if self._showing is None:
            return None
        ends = [span.end for span in self._showing.spans if self._prompt.message(span.at) == self.part]
        return self._showing.literal or self._prompt.span(self._showing.spans[0].at, ends[-1])

    @cached_property
    def text(self) -> str:
        """The shown part in the candidate's own characters, parts joined by `` … ``; empty if nothing is shown."""
        if self._text is None or self._showing is None:
            return ""
        raw, total, parts = self._text.raw, len(self._text.stream), []
        if self.extent == "whole":
            return raw
        for run in runs_of(self._showing.spans):
            last = max(run[-1].last - self._by_chance(run[-1].end), run[0].of + 1)
            start, end = self._text.span(run[0].of, last)
            parts.append(raw[start if run[0].of else 0 : end if run[-1].last < total else len(raw)])
        return " … ".join(parts)

    def _by_chance(self, behind: int) -> int:
        """How many letters before a place agree by chance: they stand behind dots, or begin a word that goes on."""
        number = self._prompt.message(behind - 1)
        message, own = self._prompt.messages[number], self._text.raw if self._text else ""
        end, on = message.gap(behind - self._prompt.starts[number])
        tail = message.raw[max(end - STEP, 0) : end]
        dots, begun = _DOTTED.search(tail), _BEGUN.search(tail) if end == on < len(message.raw) else None
        found = begun if dots is None or dots[0] in own else dots
        letters = len(stream(found[1])) if found else 0
        return letters if letters < RESUMED else 0


@dataclass(frozen=True)
class Located:
    """What became of all candidates."""

    places: tuple[Place, ...]  # one per candidate, in the same order
    order: tuple[int, ...]  # the candidates shown, in the order of the prompt


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
    return _Settling(candidates, Prompt([shown] if isinstance(shown, str) else shown), known).located()


class _Settling:
    """Showings compete for ground; each goes to a candidate, to a known text, or to several that it fits alike."""

    def __init__(self, candidates: Sequence[str], prompt: Prompt, known: Sequence[str]) -> None:
        self.prompt, self.ground = prompt, bytearray(len(prompt.stream))
        self.texts = [Text(raw) for raw in (*candidates, *known)]
        groups: dict[bytes | str, Group] = {}  # texts without letters are told apart by their characters
        self.of = [groups.setdefault(text.stream or text.raw.strip(), Group(text)) for text in self.texts]
        self.groups = list(groups.values())
        self.search = Search(prompt, self.groups)
        for index, group in enumerate(self.of):
            group.tries += 2
            if index < len(candidates):
                group.members.append(index)
            else:
                group.known += 1
        self.shared: dict[frozenset[Group], list[list[Showing]]] = defaultdict(list)
        """Parts that fit several groups alike: of these groups, what fits at each place."""

    def located(self) -> Located:
        """Settle everything."""
        self._settle()
        for group in sorted(self.groups, key=lambda group: -len(group.text.stream)):
            if len(group.text.stream) < EDGE and group.text.raw.strip():
                self._settle_short(group)
        shown: dict[int, Showing] = {}
        for group in self.groups:
            group.shown.sort(key=lambda showing: showing.place)
            shown.update(zip(group.members, group.shown[group.known :], strict=False))
        self._share(shown)
        members = range(sum(len(group.members) for group in self.groups))
        places = [self._shown(one, shown[one]) if one in shown else self._missing(one, bool(shown)) for one in members]
        return Located(tuple(places), tuple(sorted(shown, key=lambda one: shown[one].place)))

    def _settle(self) -> None:
        """Give each showing its ground and its text, the longest first."""
        found = list(self.search.showings())
        wholes = bytearray(len(self.ground))
        rivals: dict[tuple[object, ...], list[Showing]] = defaultdict(list)
        for showing in found:
            rivals[showing.place, showing.size].append(showing)
            if showing.whole:
                _mark(wholes, showing)
        for showing in sorted(found, key=lambda one: _rank(one, wholes)):
            group, alike = showing.group, rivals[showing.place, showing.size]
            if sum(self.ground.count(0, span.at, span.end) for span in showing.spans) < OWN:
                group.why = group.why or ("not shown", "another text explains the trace of it")
            elif len(alike) > 1 and not any(one.complete or one.group.explains for one in alike):
                _mark(self.ground, showing)
                self.shared[frozenset(one.group for one in alike)].append(alike)
            elif group.members or group.explains:
                _mark(self.ground, showing)
                self._give(showing)

    def _give(self, showing: Showing) -> None:
        """A whole showing is one more; a part joins parts that it does not repeat; beside a whole one it is a title.

        In another message it also joins parts that it overlaps: a long text is cut into pieces that overlap.
        """
        others, message = showing.group.shown, self.prompt.message(showing.spans[0].at)
        if not showing.whole and any(other.whole for other in others):
            return
        for other in others if not showing.whole else ():
            new = showing.spans
            for span in other.spans:
                new = [*within(new, last=span.of), *within(new, first=span.last)]
            elsewhere = all(self.prompt.message(span.at) != message for span in other.spans)
            if elsewhere or size_of(new) == showing.size:
                other.spans = sorted([*other.spans, *new])
                return
        others.append(showing)

    def _share(self, shown: dict[int, Showing]) -> None:
        """Parts that fit several: as many showings as candidates, then in their order; else nobody knows whose."""
        for groups, places in self.shared.items():
            members = sorted((member, group) for group in groups for member in group.members)
            places.sort(key=lambda fitting: min(one.place for one in fitting))
            whole = any(showing.whole for fitting in places for showing in fitting)
            title = not whole and any(member in shown and shown[member].whole for member, _ in members)
            for index, (member, group) in enumerate(members):
                if member not in shown and len(places) >= len(members):
                    shown[member] = next(one for one in places[index] if one.group is group)
                elif title:
                    group.why = "not shown", "what fits it fits another candidate, which is shown whole"
                else:
                    group.why = "unknown", "what fits it fits other candidates as well"

    def _settle_short(self, group: Group) -> None:
        """Find a short text where it touches no other letter and, if it is very short, stands apart."""
        size, covered = len(group.text.stream), False
        among: list[Showing] = []
        for showing, left, right in self.search.occurrences(group):
            at = showing.spans[0].at
            if 1 in (self.ground[at : at + size] if size else self.ground[max(at - 1, 0) : at + 1]):
                covered = True
            elif min(left, right) >= (2 if size < ALONE else 1):
                group.shown.append(showing)
                _mark(self.ground, showing)
            elif size >= ALONE or left + right >= 2:
                among.append(showing)
        for showing in among:
            if group.explains:
                group.shown.append(showing)
                _mark(self.ground, showing)
            else:
                group.why = "unknown", "short, and its words stand among others"
        if group.tries <= 0:
            group.why = "unknown", "its few letters stand in too many places"
        elif covered and group.why is None:
            group.why = "not shown", "its words stand inside another text"

    def _shown(self, one: int, showing: Showing) -> Place:
        text, runs = self.texts[one], runs_of(showing.spans)
        first, last = runs[0][0].of == 0, runs[-1][-1].last == len(text.stream)
        agreeing = b"".join(text.stream[span.of : span.last] for run in runs for span in run)
        coverage = len(agreeing.decode("utf-8", "ignore")) / len(text.stream.decode()) if text.stream else 1.0
        extent: Extent = "beginning" if first else "end" if last else "middle"
        if showing.literal or showing.whole or coverage >= WHOLE:
            extent = "whole"
        elif len(runs) > 1 or (first and last):
            extent = "parts"
        reason = "its whole text stands there" if extent == "whole" else f"{coverage:.0%} of it stands there"
        part = self.prompt.message(showing.spans[0].at)
        return Place(one, "shown", coverage, extent, part, reason, text, self.prompt, showing)

    def _missing(self, one: int, located: bool) -> Place:
        group = self.of[one]
        if not group.text.raw.strip():
            return Place(one, "not shown", reason="blank")
        if not any(message.raw.strip() for message in self.prompt.messages):
            return Place(one, "unknown", reason="no prompt")
        outcome, reason = group.why or ("not shown", "no trace of it")
        if group.shown:
            outcome, reason = "not shown", "a text of the same words explains what stands there"
        elif group.tries <= 0:
            outcome, reason = "unknown", "its phrases stand in too many places"
        short = len(group.text.stream) < EDGE and group.why is not None
        if outcome == "not shown" and not located and not short:
            outcome, reason = "unknown", f"{reason}, and no other candidate is located"
        return Place(one, outcome, reason=reason)


def _mark(ground: bytearray, showing: Showing) -> None:
    for run in runs_of(showing.spans):
        ground[run[0].at : run[-1].end] = b"\1" * (run[-1].end - run[0].at)


def _rank(showing: Showing, wholes: bytearray) -> tuple[object, ...]:
    """The longest first, less for parts and steps: neighbours fit by chance; then coverage, known texts, place.

    Last come parts that whole showings of other texts fill: a parent's part is then its children.
    """
    group, spans, size, whole = showing.group, showing.spans, showing.size, showing.whole
    filled = not whole and wholes.count(1, spans[0].at, spans[-1].end) >= size - STEP
    longest = max(map(size_of, runs_of(spans))) - (0 if whole and len(spans) == 1 else STEP)
    return filled, -longest, -size, -size / len(group.text.stream), not group.known, group.members[:1], showing.place
