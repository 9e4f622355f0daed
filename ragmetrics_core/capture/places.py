"""What became of a text that may stand in a prompt: shown or not, how much of it, and in which words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from ragmetrics_core.capture.anchors import SHARE_OF_WHOLE, Occurrence
from ragmetrics_core.capture.byte_spans import (
    LONGEST_STEP,
    EqualSpan,
    split_into_runs,
    subtract_spans,
)
from ragmetrics_core.capture.letters import Prompt, Text, letters_of
from ragmetrics_core.capture.matching import RESUMED_LENGTH

Outcome = Literal["shown", "not shown", "unknown"]
Extent = Literal["whole", "beginning", "end", "middle", "parts"]

# dots that cut a text, and what stands behind them
_CUT_BY_DOTS = re.compile(r"(?:\.\.\.|…)(\W*\w.*)$", re.DOTALL)
# the letters of a word that goes on behind them
_BEGUN_WORD = re.compile(r"\W(\w+)$")


@dataclass(frozen=True)
class Finding:
    """What became of a candidate text: shown or not, and how much of it."""

    candidate_index: int  # its index
    outcome: Outcome  # unknown: the prompt does not tell
    coverage: float = 0.0  # the share of its letters and digits that is shown, 0 to 1
    extent: Extent | None = None  # which part of it is shown; None if none is
    # index of the message that shows it first; None if none does
    message_index: int | None = None
    reason: str = ""  # why, in words
    # of a text that is not shown for sure: whether some of its words stand there all
    # the same
    has_some_words: bool = False
    # one for each prompt, if united
    shown_in_prompts: tuple[ShownInPrompt, ...] = field(
        default=(), repr=False, compare=False
    )

    @property
    def percentage(self) -> str:
        """The coverage in words that are never false; see ``percentage``."""
        return percentage(self.coverage)

    @property
    def offsets(self) -> tuple[int, int] | None:
        """Where in that message the text is shown; None if nothing of it is.

        They are the offsets of the first letter shown there, and behind the last one.
        """
        return self.shown_in_prompts[0].offsets if self.shown_in_prompts else None

    def is_of_same_text_as(self, other: Finding) -> bool:
        """Whether both are places of one text, so that ``union`` may be asked of them.

        A document may have several texts.
        """
        texts = {
            part.text.raw for part in (*self.shown_in_prompts, *other.shown_in_prompts)
        }
        return len(texts) == 1

    @cached_property
    def text(self) -> str:
        """The shown part in the candidate's own characters, parts joined by `` … ``.

        A text that counts as whole, from 98 % of its letters on, stands here whole.
        Empty if nothing is shown.
        """
        if not self.shown_in_prompts:
            return ""
        text = self.shown_in_prompts[0].text
        if self.extent == "whole":
            return text.raw
        pieces: list[_Piece] = []
        for part in self.shown_in_prompts:
            pieces += part.pieces
        merged = _merge_pieces(pieces)
        return " … ".join(_characters(text, piece) for piece in merged)


@dataclass(frozen=True)
class LocateResult:
    """What became of all candidates."""

    findings: tuple[Finding, ...]  # one per candidate, in the same order
    shown_in_order: tuple[int, ...]  # the candidates shown, in the order of the prompt


def finding_of_shown(
    candidate: int, text: Text, prompt: Prompt, showing: Occurrence
) -> Finding:
    """The place of a candidate that a prompt shows."""
    return _place(candidate, (ShownInPrompt(text, prompt, showing),))


def unite_findings(places: Sequence[Finding]) -> Finding:
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
        >>> findings = [locate([text], prompt).findings[0] for prompt in prompts]
        >>> [finding.percentage for finding in findings], unite_findings(findings).extent
        (['72%', '52%'], 'whole')
    """
    showing = [place for place in places if place.outcome == "shown"]
    if not showing:
        return places[0]
    parts: list[ShownInPrompt] = []
    for place in showing:
        parts += place.shown_in_prompts
    united = _place(showing[0].candidate_index, tuple(parts))
    return replace(united, message_index=showing[0].message_index)


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
class ShownInPrompt:
    """A text as one prompt shows it.

    Attributes:
        text: The text.
        prompt: The prompt.
        occurrence: Where the text stands in it.
    """

    text: Text
    prompt: Prompt
    occurrence: Occurrence

    @property
    def message_index(self) -> int:
        """The message that shows it first."""
        return self.prompt.message_index_at(self.occurrence.spans[0].prompt_start)

    @property
    def offsets(self) -> tuple[int, int]:
        """Where it stands in that message."""
        if self.occurrence.literal_offsets:
            return self.occurrence.literal_offsets
        spans = self.occurrence.spans
        end = spans[0].prompt_end
        for span in spans:
            if self.prompt.message_index_at(span.prompt_start) == self.message_index:
                end = span.prompt_end
        return self.prompt.offsets_in_message(spans[0].prompt_start, end)

    @property
    def pieces(self) -> list[_Piece]:
        """What is shown of the text, in pieces of its stream."""
        pieces = []
        for run in split_into_runs(self.occurrence.spans):
            start = run[0].text_start
            end = run[-1].text_end
            certain_end = end
            if end < len(self.text.letters):
                n_by_chance = self._letters_by_chance(run[-1].prompt_end)
                certain_end = max(end - n_by_chance, start + 1)
            pieces.append(_Piece(start, end, certain_end))
        return pieces

    def _letters_by_chance(self, behind: int) -> int:
        """How many letters before a place of the prompt agree by chance.

        They stand behind dots that cut a text, or begin a word that goes on otherwise.
        So many that they are no chance do not count.
        """
        number = self.prompt.message_index_at(behind - 1)
        message = self.prompt.messages[number]
        place_in_message = behind - self.prompt.message_starts[number]
        gap_start, gap_end = message.gap_at(place_in_message)
        last_characters = message.raw[max(gap_start - LONGEST_STEP, 0) : gap_start]
        word_goes_on = gap_start == gap_end < len(message.raw)
        dots = _CUT_BY_DOTS.search(last_characters)
        by_chance: re.Match[str] | None = None
        if dots is not None and dots[0] not in self.text.raw:
            by_chance = dots
        elif word_goes_on:
            by_chance = _BEGUN_WORD.search(last_characters)
        if by_chance is None:
            return 0
        n_letters = len(letters_of(by_chance[1]))
        return n_letters if n_letters < RESUMED_LENGTH else 0


def _place(candidate: int, shown_in: tuple[ShownInPrompt, ...]) -> Finding:
    """The place of a candidate, with what some prompts show of it together."""
    text = shown_in[0].text
    coverage = _coverage(text, shown_in)
    extent = _extent(text, shown_in, coverage)
    if extent == "whole":
        reason = "its whole text stands there"
    else:
        reason = f"{percentage(coverage)} of it stands there"
    return Finding(
        candidate,
        "shown",
        coverage,
        extent,
        shown_in[0].message_index,
        reason,
        shown_in_prompts=shown_in,
    )


def _extent(text: Text, shown_in: tuple[ShownInPrompt, ...], coverage: float) -> Extent:
    """Which part of a text some prompts show together."""
    if coverage >= SHARE_OF_WHOLE:
        return "whole"
    pieces: list[_Piece] = []
    for part in shown_in:
        if part.occurrence.literal_offsets or part.occurrence.is_whole:
            return "whole"
        for run in split_into_runs(part.occurrence.spans):
            end = run[-1].text_end
            pieces.append(_Piece(run[0].text_start, end, end))
    merged = _merge_pieces(pieces)
    begins_it = merged[0].start == 0
    ends_it = merged[-1].end == len(text.letters)
    if len(merged) > 1 or (begins_it and ends_it):
        return "parts"
    if begins_it:
        return "beginning"
    if ends_it:
        return "end"
    return "middle"


def _coverage(text: Text, shown_in: Iterable[ShownInPrompt]) -> float:
    """The share of a text's letters that some prompts show, 0 to 1.

    A letter that several of them show counts once. A text without letters is shown
    whole.
    """
    if not text.letters:
        return 1.0
    spans_shown: list[EqualSpan] = []
    for part in shown_in:
        for span in part.occurrence.spans:
            spans_shown += subtract_spans([span], spans_shown)
    spans_shown.sort(key=lambda span: span.text_start)
    bytes_shown = b""
    for span in spans_shown:
        bytes_shown += text.letters[span.text_start : span.text_end]
    # a span may end inside a letter of several bytes, which does not count then
    n_letters_shown = len(bytes_shown.decode("utf-8", "ignore"))
    n_letters = len(text.letters.decode())
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
    start, end = text.offsets_of(piece.start, piece.certain_end)
    if piece.start == 0:
        start = 0
    if piece.certain_end == len(text.letters):
        end = len(text.raw)
    return text.raw[start:end]
