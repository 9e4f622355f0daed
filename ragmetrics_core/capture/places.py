"""What became of a text that may stand in a prompt: shown or not, how much of it, and in which words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from ragmetrics_core.capture.anchors import RESUMED, WHOLE, Showing
from ragmetrics_core.capture.byte_spans import STEP, Span, runs_of, subtract_spans
from ragmetrics_core.capture.letters import Prompt, Text, stream

Outcome = Literal["shown", "not shown", "unknown"]
Extent = Literal["whole", "beginning", "end", "middle", "parts"]

_DOTTED = re.compile(r"(?:\.\.\.|…)(\W*\w.*)$", re.DOTALL)
_BEGUN = re.compile(r"\W(\w+)$")


@dataclass(frozen=True)
class Place:
    """What became of a candidate text: shown or not, and how much of it."""

    candidate: int  # its index
    outcome: Outcome  # unknown: the prompt does not tell
    coverage: float = 0.0  # the share of its letters and digits that is shown, 0 to 1
    extent: Extent | None = None  # which part of it is shown; None if none is
    # index of the message that shows it first; None if none does
    part: int | None = None
    reason: str = ""  # why, in words
    # of a text that is not shown for sure: whether some of its words stand there all
    # the same
    traced: bool = False
    # one for each prompt, if united
    shown_in: tuple[ShownIn, ...] = field(default=(), repr=False, compare=False)

    @property
    def percentage(self) -> str:
        """The coverage in words that are never false; see ``percentage``."""
        return percentage(self.coverage)

    @property
    def offsets(self) -> tuple[int, int] | None:
        """Where in that message the text is shown; None if nothing of it is.

        They are the offsets of the first letter shown there, and behind the last one.
        """
        return self.shown_in[0].offsets if self.shown_in else None

    def is_of_the_text_of(self, other: Place) -> bool:
        """Whether both are places of one text, so that ``union`` may be asked of them.

        A document may have several texts.
        """
        texts = {part.text.raw for part in (*self.shown_in, *other.shown_in)}
        return len(texts) == 1

    @cached_property
    def text(self) -> str:
        """The shown part in the candidate's own characters, parts joined by `` … ``.

        Empty if nothing is shown.
        """
        if not self.shown_in:
            return ""
        text = self.shown_in[0].text
        if self.extent == "whole":
            return text.raw
        pieces = _merge_pieces(piece for part in self.shown_in for piece in part.pieces)
        return " … ".join(_characters(text, piece) for piece in pieces)


@dataclass(frozen=True)
class Located:
    """What became of all candidates."""

    places: tuple[Place, ...]  # one per candidate, in the same order
    order: tuple[int, ...]  # the candidates shown, in the order of the prompt


def place_of_showing(
    candidate: int, text: Text, prompt: Prompt, showing: Showing
) -> Place:
    """The place of a candidate that a prompt shows."""
    return _place(candidate, (ShownIn(text, prompt, showing),))


def union(places: Sequence[Place]) -> Place:
    """Unite what several prompts show of one text.

    A long text may be divided over the calls that feed one answer.

    Args:
        places: Places of the same text in several prompts, in the order of the calls;
            at least one.

    Returns:
        The first place that shows the text, with the coverage, extent and text of all
        of them together; the first place if none shows it.

    Examples:
        >>> from ragmetrics_core.capture.locating import locate
        >>> text = "Porto lies on the Douro, in the north of the country."
        >>> text += " Its bridges are made of iron."
        >>> prompts = (text[:60], text[40:])
        >>> places = [locate([text], prompt).places[0] for prompt in prompts]
        >>> [place.percentage for place in places], union(places).extent
        (['72%', '52%'], 'whole')
    """
    showing = [place for place in places if place.outcome == "shown"]
    if not showing:
        return places[0]
    parts = tuple(part for place in showing for part in place.shown_in)
    return replace(_place(showing[0].candidate, parts), part=showing[0].part)


def percentage(share: float) -> str:
    """Write a share of a text as a percentage that is never false.

    Something is not "0%", and less than all is not "100%".
    """
    rounded = f"{share:.0%}"
    if share > 0 and rounded == "0%":
        return "less than 1%"
    if share < 1 and rounded == "100%":
        return "more than 99%"
    return rounded


class _Piece(NamedTuple):
    """Letters of a text's stream that are shown together, small steps included.

    Attributes:
        first: The first of them.
        last: Behind the last letter that agrees.
        certain: Behind the last letter that does not agree by chance, as those of a
            word do that goes on otherwise.
    """

    first: int
    last: int  # behind the last letter that agrees
    # behind the last letter that does not agree by chance, as those of a word that goes
    # on otherwise
    certain: int


@dataclass(frozen=True)
class ShownIn:
    """A text as one prompt shows it.

    Attributes:
        text: The text.
        prompt: The prompt.
        showing: Where the text stands in it.
    """

    text: Text
    prompt: Prompt
    showing: Showing

    @property
    def part(self) -> int:
        """The message that shows it first."""
        return self.prompt.message(self.showing.spans[0].at)

    @property
    def offsets(self) -> tuple[int, int]:
        """Where it stands in that message."""
        spans = self.showing.spans
        ends = [span.end for span in spans if self.prompt.message(span.at) == self.part]
        return self.showing.literal or self.prompt.span(spans[0].at, ends[-1])

    @property
    def pieces(self) -> list[_Piece]:
        """What is shown of the text, in pieces of its stream."""
        pieces = []
        for run in runs_of(self.showing.spans):
            first, last = run[0].of, run[-1].last
            certain = last
            if last < len(self.text.stream):
                certain = max(last - self._by_chance(run[-1].end), first + 1)
            pieces.append(_Piece(first, last, certain))
        return pieces

    def _by_chance(self, behind: int) -> int:
        """How many letters before a place agree by chance.

        They stand behind dots that cut a text, or begin a word that goes on otherwise.
        """
        number = self.prompt.message(behind - 1)
        message = self.prompt.messages[number]
        end, following = message.gap(behind - self.prompt.starts[number])
        tail = message.raw[max(end - STEP, 0) : end]
        word_goes_on = end == following < len(message.raw)
        dots = _DOTTED.search(tail)
        if dots is not None and dots[0] not in self.text.raw:
            chance: re.Match[str] | None = dots
        else:
            chance = _BEGUN.search(tail) if word_goes_on else None
        letters = len(stream(chance[1])) if chance else 0
        return letters if letters < RESUMED else 0


def _place(candidate: int, shown: tuple[ShownIn, ...]) -> Place:
    """A place with what is shown in all of some prompts together."""
    text, part = shown[0].text, shown[0].part
    total = len(text.stream)
    coverage = _coverage(text, shown)
    runs = _merge_pieces(
        _Piece(run[0].of, run[-1].last, 0)
        for part in shown
        for run in runs_of(part.showing.spans)
    )
    from_first, to_last = runs[0].first == 0, runs[-1].last == total
    if coverage >= WHOLE or any(
        part.showing.literal or part.showing.whole for part in shown
    ):
        return Place(
            candidate,
            "shown",
            coverage,
            "whole",
            part,
            "its whole text stands there",
            shown_in=shown,
        )
    extent: Extent = "middle"
    if len(runs) > 1 or (from_first and to_last):
        extent = "parts"
    elif from_first:
        extent = "beginning"
    elif to_last:
        extent = "end"
    return Place(
        candidate,
        "shown",
        coverage,
        extent,
        part,
        f"{percentage(coverage)} of it stands there",
        shown_in=shown,
    )


def _coverage(text: Text, shown: Iterable[ShownIn]) -> float:
    """The share of a text's letters that agree somewhere."""
    if not text.stream:
        return 1.0
    agreeing: list[Span] = []
    for part in shown:
        for span in part.showing.spans:
            agreeing += subtract_spans([span], agreeing)
    letters = b"".join(
        text.stream[span.of : span.last]
        for span in sorted(agreeing, key=lambda span: span.of)
    )
    return len(letters.decode("utf-8", "ignore")) / len(text.stream.decode())


def _merge_pieces(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Pieces in the text's order, those as one that overlap or meet."""
    merged: list[_Piece] = []
    for piece in sorted(pieces):
        if not merged or piece.first > merged[-1].last:
            merged.append(piece)
        elif piece.last > merged[-1].last:
            merged[-1] = piece._replace(first=merged[-1].first)
    return merged


def _characters(text: Text, piece: _Piece) -> str:
    """A piece in the text's characters.

    At the text's ends with what stands beside its letters.
    """
    start, end = text.span(piece.first, piece.certain)
    if piece.first == 0:
        start = 0
    if piece.certain == len(text.stream):
        end = len(text.raw)
    return text.raw[start:end]
