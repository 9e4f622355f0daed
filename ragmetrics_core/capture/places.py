"""What became of a text that may stand in a prompt: shown or not, how much of it, and in which words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from ragmetrics_core.capture.anchors import WHOLE, Occurrence
from ragmetrics_core.capture.byte_spans import STEP, Span, runs_of, subtract_spans
from ragmetrics_core.capture.letters import Prompt, Text, stream
from ragmetrics_core.capture.matching import RESUMED

Outcome = Literal["shown", "not shown", "unknown"]
Extent = Literal["whole", "beginning", "end", "middle", "parts"]

# dots that cut a text, and what stands behind them
_CUT_BY_DOTS = re.compile(r"(?:\.\.\.|…)(\W*\w.*)$", re.DOTALL)
# the letters of a word that goes on behind them
_BEGUN_WORD = re.compile(r"\W(\w+)$")


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

        A text that counts as whole, from 98 % of its letters on, stands here whole.
        Empty if nothing is shown.
        """
        if not self.shown_in:
            return ""
        text = self.shown_in[0].text
        if self.extent == "whole":
            return text.raw
        pieces: list[_Piece] = []
        for part in self.shown_in:
            pieces += part.pieces
        merged = _merge_pieces(pieces)
        return " … ".join(_characters(text, piece) for piece in merged)


@dataclass(frozen=True)
class Located:
    """What became of all candidates."""

    places: tuple[Place, ...]  # one per candidate, in the same order
    order: tuple[int, ...]  # the candidates shown, in the order of the prompt


def place_of_showing(
    candidate: int, text: Text, prompt: Prompt, showing: Occurrence
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
    parts: list[ShownIn] = []
    for place in showing:
        parts += place.shown_in
    united = _place(showing[0].candidate, tuple(parts))
    return replace(united, part=showing[0].part)


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
        start: The first of them.
        end: Behind the last letter that agrees.
        certain_end: Behind the last letter that does not agree by chance, as those of a
            word do that goes on otherwise.
    """

    start: int
    end: int
    certain_end: int


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
    showing: Occurrence

    @property
    def part(self) -> int:
        """The message that shows it first."""
        return self.prompt.message(self.showing.spans[0].start)

    @property
    def offsets(self) -> tuple[int, int]:
        """Where it stands in that message."""
        if self.showing.literal:
            return self.showing.literal
        spans = self.showing.spans
        end = spans[0].end
        for span in spans:
            if self.prompt.message(span.start) == self.part:
                end = span.end
        return self.prompt.span(spans[0].start, end)

    @property
    def pieces(self) -> list[_Piece]:
        """What is shown of the text, in pieces of its stream."""
        pieces = []
        for run in runs_of(self.showing.spans):
            start = run[0].text_start
            end = run[-1].text_end
            certain_end = end
            if end < len(self.text.stream):
                n_by_chance = self._letters_by_chance(run[-1].end)
                certain_end = max(end - n_by_chance, start + 1)
            pieces.append(_Piece(start, end, certain_end))
        return pieces

    def _letters_by_chance(self, behind: int) -> int:
        """How many letters before a place of the prompt agree by chance.

        They stand behind dots that cut a text, or begin a word that goes on otherwise.
        So many that they are no chance do not count.
        """
        number = self.prompt.message(behind - 1)
        message = self.prompt.messages[number]
        place_in_message = behind - self.prompt.starts[number]
        gap_start, gap_end = message.gap(place_in_message)
        last_characters = message.raw[max(gap_start - STEP, 0) : gap_start]
        word_goes_on = gap_start == gap_end < len(message.raw)
        dots = _CUT_BY_DOTS.search(last_characters)
        by_chance: re.Match[str] | None = None
        if dots is not None and dots[0] not in self.text.raw:
            by_chance = dots
        elif word_goes_on:
            by_chance = _BEGUN_WORD.search(last_characters)
        if by_chance is None:
            return 0
        n_letters = len(stream(by_chance[1]))
        return n_letters if n_letters < RESUMED else 0


def _place(candidate: int, shown_in: tuple[ShownIn, ...]) -> Place:
    """The place of a candidate, with what some prompts show of it together."""
    text = shown_in[0].text
    coverage = _coverage(text, shown_in)
    extent = _extent(text, shown_in, coverage)
    if extent == "whole":
        reason = "its whole text stands there"
    else:
        reason = f"{percentage(coverage)} of it stands there"
    return Place(
        candidate,
        "shown",
        coverage,
        extent,
        shown_in[0].part,
        reason,
        shown_in=shown_in,
    )


def _extent(text: Text, shown_in: tuple[ShownIn, ...], coverage: float) -> Extent:
    """Which part of a text some prompts show together."""
    if coverage >= WHOLE:
        return "whole"
    pieces: list[_Piece] = []
    for part in shown_in:
        if part.showing.literal or part.showing.is_whole:
            return "whole"
        for run in runs_of(part.showing.spans):
            end = run[-1].text_end
            pieces.append(_Piece(run[0].text_start, end, end))
    merged = _merge_pieces(pieces)
    begins_it = merged[0].start == 0
    ends_it = merged[-1].end == len(text.stream)
    if len(merged) > 1 or (begins_it and ends_it):
        return "parts"
    if begins_it:
        return "beginning"
    if ends_it:
        return "end"
    return "middle"


def _coverage(text: Text, shown_in: Iterable[ShownIn]) -> float:
    """The share of a text's letters that some prompts show, 0 to 1.

    A letter that several of them show counts once. A text without letters is shown
    whole.
    """
    if not text.stream:
        return 1.0
    spans_shown: list[Span] = []
    for part in shown_in:
        for span in part.showing.spans:
            spans_shown += subtract_spans([span], spans_shown)
    spans_shown.sort(key=lambda span: span.text_start)
    bytes_shown = b""
    for span in spans_shown:
        bytes_shown += text.stream[span.text_start : span.text_end]
    # a span may end inside a letter of several bytes, which does not count then
    n_letters_shown = len(bytes_shown.decode("utf-8", "ignore"))
    n_letters = len(text.stream.decode())
    return n_letters_shown / n_letters


def _merge_pieces(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Pieces in the text's order, those as one that overlap or meet."""
    merged: list[_Piece] = []
    for piece in sorted(pieces):
        if not merged or piece.start > merged[-1].end:
            merged.append(piece)
        elif piece.end > merged[-1].end:
            merged[-1] = piece._replace(start=merged[-1].start)
    return merged


def _characters(text: Text, piece: _Piece) -> str:
    """A piece in the text's characters.

    At the text's ends with what stands beside its letters.
    """
    start, end = text.span(piece.start, piece.certain_end)
    if piece.start == 0:
        start = 0
    if piece.certain_end == len(text.stream):
        end = len(text.raw)
    return text.raw[start:end]
