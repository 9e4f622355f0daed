"""What a prompt shows of a text: whether it is shown, how much of it, and in which words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

from ragmetrics_core.capture.byte_spans import (
    LONGEST_STEP,
    EqualSpan,
    text_ranges,
)
from ragmetrics_core.capture.normalized_text import (
    Prompt,
    Text,
    decode_escapes,
    normalize_text,
)
from ragmetrics_core.capture.number_signs import NumberSigns
from ragmetrics_core.capture.occurrences import Occurrence
from ragmetrics_core.capture.replaced_edges import (
    NOTHING_REPLACED,
    ReplacedEdges,
    replaced_edges,
)
from ragmetrics_core.capture.word_differences import (
    MARKUP,
    intact_ranges,
    is_rest_of_last_word,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern

Outcome = Literal["shown", "not shown", "unknown"]
Extent = Literal["whole", "beginning", "end", "middle", "parts"]

# stands between the shown parts of a text
BETWEEN_PIECES = " … "
_AROUND = 3  # characters beside the first and last letter that may be such a sign
# the letters at the end of some characters, behind a sign or a blank
_LAST_LETTERS = lazy_pattern(r"\W(?P<letters>\w+)$")
_MOST_BY_CHANCE = LONGEST_STEP  # equal characters; more of them are equal by no chance


@dataclass(frozen=True)
class Finding:
    """What prompts show of one candidate text.

    Attributes:
        candidate_index: The index of the candidate.
        outcome: ``unknown`` if the prompt does not tell whether it shows the text.
        coverage: The share of its letters and digits that is shown, 0 to 1.
        extent: Which part of it is shown; None if none is.
        message_index: The index of the message that shows it first; None if none does.
        reason: Why the outcome is what it is, in words.
        has_some_words: Of a text that is not shown for sure: whether some of its words
            stand there all the same.
        shown_in_prompts: The text as each prompt shows it. Several prompts if findings
            were united; empty if it is not shown.
    """

    candidate_index: int
    outcome: Outcome
    coverage: float = 0.0
    extent: Extent | None = None
    message_index: int | None = None
    reason: str = ""
    has_some_words: bool = False
    shown_in_prompts: tuple[ShownInPrompt, ...] = field(
        default=(), repr=False, compare=False
    )

    @property
    def percentage(self) -> str:
        """The coverage in words that are never false; see ``percentage``."""
        return percentage(self.coverage)

    @property
    def offsets(self) -> tuple[int, int] | None:
        """Where the text begins and ends in the message that shows it first.

        None if nothing of it is shown.
        """
        return self.shown_in_prompts[0].offsets if self.shown_in_prompts else None

    def is_of_same_text_as(self, other: Finding) -> bool:
        """Whether both findings are of one text, so that they can be united.

        A document may have several texts.
        """
        texts = {
            shown.text.raw
            for shown in (*self.shown_in_prompts, *other.shown_in_prompts)
        }
        return len(texts) == 1

    def in_longer_text(self, text: Text) -> Finding | None:
        """What is shown, as a part of a longer text; None if that does not hold the text.

        Example: of "It is old. It fell." a prompt shows "It fell.", the second half. It
        is the last third of "file: a.md, It is old. It fell.".
        """
        if not self.shown_in_prompts:
            return None
        # all findings are of one text of the document
        start = text.normalized.find(self.shown_in_prompts[0].text.normalized)
        if start < 0:
            return None
        shown_in_prompts = tuple(
            shown.in_longer_text(text, start) for shown in self.shown_in_prompts
        )
        return _finding_in_prompts(self.candidate_index, shown_in_prompts)

    @cached_property
    def text(self) -> str:
        """The shown part in the candidate's own characters, parts joined by `` … ``.

        A text that is shown whole stands here whole, with its tags and marks. If the
        prompt replaced the text's beginning or end by other words, "…" stands there.
        Empty if nothing is shown.

        Example: "It was opened … by Holm." where the prompt has another date, and "… was
        opened on 4 May 1874." where it has a name instead of "It".
        """
        if not self.shown_in_prompts:
            return ""
        text = self.shown_in_prompts[0].text
        if self.extent == "whole":
            return text.raw
        pieces = _pieces_together(self.shown_in_prompts)
        joined = BETWEEN_PIECES.join(_characters(text, piece) for piece in pieces)
        before = "… " if self._is_beginning_replaced(pieces[0]) else ""
        behind = " …" if self._is_end_replaced(pieces[-1]) else ""
        return f"{before}{joined}{behind}"

    def _is_beginning_replaced(self, first_piece: _Piece) -> bool:
        """Whether a prompt has other words before the first piece that is shown.

        Example: "[PERSON] opened it." for "Elias Holm opened it." Not if a part that
        another prompt shows begins earlier.
        """
        # a first piece that starts at 0 has no words before it
        return any(
            shown.replaced.before and shown.starts_at == first_piece.start > 0
            for shown in self.shown_in_prompts
        )

    def _is_end_replaced(self, last_piece: _Piece) -> bool:
        """Whether a prompt has other words after the last piece that is shown.

        Example: "It opened on [DATE]." for "It opened on 4 May 1874." Not if a part that
        another prompt shows ends later.
        """
        return any(
            shown.replaced.behind
            and shown.ends_at == last_piece.end < len(shown.text.normalized)
            for shown in self.shown_in_prompts
        )


@dataclass(frozen=True)
class LocateResult:
    """What a prompt shows of all candidates.

    Attributes:
        findings: One for each candidate, in the same order.
        shown_in_order: The indexes of the candidates shown, in the prompt's order.
    """

    findings: tuple[Finding, ...]
    shown_in_order: tuple[int, ...]


def finding_of_shown(
    candidate_index: int,
    text: Text,
    prompt: Prompt,
    occurrence: Occurrence,
    *,
    is_byte_taken: bytearray,
) -> Finding:
    """Return the finding of a candidate that a prompt shows at one place.

    Args:
        candidate_index: The index of the candidate.
        text: The candidate.
        prompt: The prompt.
        occurrence: The place.
        is_byte_taken: For each byte of the normalized prompt 1 if a located text has
            taken it.
    """
    shown_in_prompt = ShownInPrompt(text, prompt, occurrence)
    finding = _finding_in_prompts(candidate_index, (shown_in_prompt,))
    if finding.extent == "whole":
        return finding
    replaced = replaced_edges(
        occurrence.spans, len(text.normalized), prompt, is_byte_taken
    )
    longer_words = occurrence.longer_words
    replaced = ReplacedEdges(
        before=replaced.before or longer_words.before,
        behind=replaced.behind or longer_words.behind,
    )
    return replace(
        finding, shown_in_prompts=(replace(shown_in_prompt, replaced=replaced),)
    )


def unite_findings(findings: Sequence[Finding]) -> Finding:
    """Unite what several prompts show of one text.

    A long text may be divided over the calls that lead to one answer.

    Args:
        findings: Findings of the same text in several prompts, in the order of the
            calls; at least one.

    Returns:
        The first finding that shows the text, with the coverage, extent and text of all
        of them together. The first finding if none shows it.

    Examples:
        >>> from ragmetrics_core.capture.locating import locate
        >>> text = "Porto lies on the Douro, in the north of the country."
        >>> text += " Its bridges are made of iron."
        >>> prompts = (text[:60], text[40:])
        >>> findings = [locate([text], prompt).findings[0] for prompt in prompts]
        >>> [finding.percentage for finding in findings], unite_findings(findings).extent
        (['72%', '52%'], 'whole')
    """
    findings_that_show = [finding for finding in findings if finding.outcome == "shown"]
    if not findings_that_show:
        return findings[0]
    shown_in_prompts: list[ShownInPrompt] = []
    for finding in findings_that_show:
        shown_in_prompts += finding.shown_in_prompts
    first = findings_that_show[0]
    united = _finding_in_prompts(first.candidate_index, tuple(shown_in_prompts))
    return replace(united, message_index=first.message_index)


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
    """A piece of a text that is shown, as offsets in the normalized text.

    Attributes:
        start: Where it begins.
        end: Where the bytes that are equal in prompt and text end.
        certain_end: Where the bytes end that are equal for certain. The last ones may
            be equal only by chance, as the first letters of another word.
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
        occurrence: Where the text stands in the prompt, whole or in parts.
        replaced: At which of its edges the prompt has other words.
    """

    text: Text
    prompt: Prompt
    occurrence: Occurrence
    replaced: ReplacedEdges = NOTHING_REPLACED

    def in_longer_text(self, text: Text, start: int) -> ShownInPrompt:
        """The same place of the prompt, with its bytes counted in a longer text.

        Args:
            text: The longer text.
            start: Where the text begins in the longer text, normalized.
        """
        spans = [
            span._replace(text_start=start + span.text_start)
            for span in self.occurrence.spans
        ]
        return replace(
            self, text=text, occurrence=replace(self.occurrence, spans=spans)
        )

    @property
    def starts_at(self) -> int:
        """Where its first part begins in the normalized text."""
        return min(span.text_start for span in self.occurrence.spans)

    @property
    def ends_at(self) -> int:
        """Where its last part ends in the normalized text."""
        return max(span.text_end for span in self.occurrence.spans)

    @property
    def message_index(self) -> int:
        """The index of the message that shows it first."""
        return self.prompt.message_index_at(self.occurrence.spans[0].prompt_start)

    @property
    def offsets(self) -> tuple[int, int]:
        """Where the text begins and ends in its message, counted in characters.

        Example: "It fell." in "Read: It fell." stands at (6, 14). If the text goes on
        in another message, only the part in the first message counts.
        """
        if self.occurrence.literal_offsets:
            return self.occurrence.literal_offsets
        spans = self.occurrence.spans
        end = spans[0].prompt_end
        for span in spans:
            message_index = self.prompt.message_index_at(span.prompt_start)
            if message_index == self.message_index:
                end = span.prompt_end
        return self.prompt.offsets_in_message(spans[0].prompt_start, end)

    @property
    def is_in_one_piece(self) -> bool:
        """Whether all letters of the text stand there, with no letter between them."""
        spans = self.occurrence.spans
        return len(spans) == 1 and spans[0].size == len(self.text.normalized)

    @property
    def extent(self) -> Extent:
        """Which part of the text this prompt shows by itself."""
        return _extent(self.text, (self,))

    @property
    def lacks_signs(self) -> bool:
        """Whether the prompt has fewer signs of numbers and comparisons than the text.

        Example: the text "It was -5 degrees" and the prompt "It was 5 degrees" have equal
        letters, but the prompt lacks the "-".
        """
        raw = self.text.raw
        has_digits = not self.text.normalized.isalpha()
        has_comparison = "=" in raw or "≠" in raw
        if not has_digits and not has_comparison:
            return False
        message = self.prompt.messages[self.message_index].raw
        # Nearly always the message holds the text as it is written, with its signs.
        if raw in message:
            return False
        # without marks such as "[12]", which a cleaner may take away
        signs = NumberSigns(MARKUP.sub(" ", decode_escapes(raw)))
        return bool(signs) and signs.lack_in(self._passage_in(message))

    def _passage_in(self, message: str) -> str:
        """Return where a message shows the text, with three characters on both sides.

        A sign such as "-" may stand there, before the first letter or behind the last.
        """
        start, end = self.offsets
        return decode_escapes(message[max(start - _AROUND, 0) : end + _AROUND])

    @property
    def pieces(self) -> list[_Piece]:
        """The pieces of the text that the prompt shows, without other words in them.

        Example: of "It lies on the Douro in the north", a prompt shows "It lies on the
        Douro inside". The equal bytes end after "in", but only those up to "Douro"
        are certain: the prompt's word "inside" begins like the text's word "in".
        """
        pieces = []
        for intact in intact_ranges(self.text, self.prompt, self.occurrence.spans):
            certain_end = intact.end
            is_cut = intact.end < len(self.text.normalized)
            if is_cut:
                n_by_chance = self._n_bytes_by_chance(intact.end_in_prompt)
                # a piece keeps one byte at least
                certain_end = max(intact.end - n_by_chance, intact.start + 1)
            pieces.append(_Piece(intact.start, intact.end, certain_end))
        return pieces

    def _n_bytes_by_chance(self, prompt_end: int) -> int:
        """Count the last equal letters that only begin a longer word of the prompt.

        Example: the text "the Douro in the north" and the prompt "the Douro inside" have
        "the Douro in" in common. The prompt's word is "inside": its first 2 letters are
        equal by chance.

        Args:
            prompt_end: Where the equal bytes end: an index in the normalized prompt.
        """
        message = self.prompt.message_at(prompt_end)
        # in the normalized message, ``thedouroin|side``: 10
        normalized_end = self.prompt.index_in_message(prompt_end)
        # in the message as written, "the Douro in|side": 12 and 12, as no blank stands
        # between "in" and the next letter
        equal_end = message.raw_end_before(normalized_end)
        next_start = message.raw_start_at(normalized_end)
        goes_on_within_word = next_start == equal_end < len(message.raw)
        if not goes_on_within_word:
            return 0  # "in" is a whole word of the prompt
        last_equal = message.raw[max(equal_end - _MOST_BY_CHANCE, 0) : equal_end]
        begun_word = _LAST_LETTERS.search(last_equal)  # "in"
        return 0 if begun_word is None else len(normalize_text(begun_word["letters"]))


def _finding_in_prompts(
    candidate_index: int, shown_in_prompts: tuple[ShownInPrompt, ...]
) -> Finding:
    """Return the finding of a candidate, from what some prompts show of it together.

    Example: one prompt shows the first half of a text, another the second half: the
    text is shown whole.
    """
    text = shown_in_prompts[0].text
    coverage = _coverage(text, shown_in_prompts)
    extent = _extent(text, shown_in_prompts)
    # the text has "-5" or "1.5", and the prompt only "5" or "15"
    if extent == "whole" and _lack_signs(shown_in_prompts):
        extent = "parts"
    if extent == "whole":
        reason = "its whole text stands there"
    else:
        # below 1, also where all letters are there and only a sign or words differ
        coverage = _share_of_a_part(coverage, n_bytes=len(text.normalized))
        reason = f"{percentage(coverage)} of it stands there"
    return Finding(
        candidate_index,
        "shown",
        coverage,
        extent,
        shown_in_prompts[0].message_index,
        reason,
        shown_in_prompts=shown_in_prompts,
    )


def _lack_signs(shown_in_prompts: Sequence[ShownInPrompt]) -> bool:
    """Whether every prompt that shows the whole text lacks a sign of it, such as "-".

    Example: the text "It was -5 degrees" and the prompt "It was 5 degrees" have equal
    letters. Such a prompt does not show the whole text. Prompts that show only parts of
    the text are not asked.
    """
    showing_all = shown_in_prompts
    if len(shown_in_prompts) > 1:
        showing_all = [each for each in shown_in_prompts if each.extent == "whole"]
    return bool(showing_all) and all(each.lacks_signs for each in showing_all)


def _share_of_a_part(coverage: float, *, n_bytes: int) -> float:
    """Return a share of less than 1 for a text in which the prompt has words put in.

    All letters of such a text may stand there, and yet it is not shown whole.
    """
    return min(coverage, (n_bytes - 1) / n_bytes)


def _extent(text: Text, shown_in_prompts: tuple[ShownInPrompt, ...]) -> Extent:
    """Return which part of a text some prompts show together.

    They show it whole if all its words stand there. Its tags and marks may be missing.
    Example: one prompt shows the bytes 0 to 40 of a normalized text of 100 bytes, and
    another 30 to 60: together they show its beginning.
    """
    if any(shown.is_in_one_piece for shown in shown_in_prompts):
        return "whole"
    pieces = _pieces_together(shown_in_prompts)
    n_bytes = len(text.normalized)
    first = pieces[0]
    is_complete = first.end == n_bytes or (
        is_rest_of_last_word(text, first.end)
        and not _end_in_longer_word(shown_in_prompts, first.end)
    )
    if len(pieces) == 1 and first.start == 0 and is_complete:
        return "whole"
    return _extent_of_pieces(pieces, n_bytes=n_bytes)


def _end_in_longer_word(shown_in_prompts: Iterable[ShownInPrompt], end: int) -> bool:
    """Whether a prompt has a longer word where a shown part of a text ends.

    Example: "red" is the last word of the text, and the prompt has "reddish" there.
    """
    return any(
        shown.occurrence.longer_words.behind and shown.ends_at == end
        for shown in shown_in_prompts
    )


def _extent_of_pieces(pieces: Sequence[_Piece], *, n_bytes: int) -> Extent:
    """Return which part of a text some pieces are that do not show it whole.

    Args:
        pieces: The pieces in the order of the text; they do not overlap.
        n_bytes: The number of bytes of the normalized text.
    """
    if len(pieces) > 1:
        return "parts"
    if pieces[0].start == 0:
        return "beginning"
    if pieces[0].end == n_bytes:
        return "end"
    return "middle"


def _coverage(text: Text, shown_in_prompts: Iterable[ShownInPrompt]) -> float:
    """Return the share of a text's letters that some prompts show, 0 to 1.

    Example: one prompt shows letters 0 to 40 of a text of 100 letters, another 30 to
    60: 0.6, since each letter counts once.
    """
    # this includes a text without letters, such as "..."
    if any(shown.is_in_one_piece for shown in shown_in_prompts):
        return 1.0
    spans_shown: list[EqualSpan] = []
    for shown in shown_in_prompts:
        spans_shown += shown.occurrence.spans
    bytes_shown = b"".join(
        text.normalized[start:end] for start, end in text_ranges(spans_shown)
    )
    # a span may end inside a letter of several bytes, which does not count then
    n_characters_shown = len(bytes_shown.decode("utf-8", "ignore"))
    n_characters = len(text.normalized.decode())
    return n_characters_shown / n_characters


def _pieces_together(shown_in_prompts: Iterable[ShownInPrompt]) -> list[_Piece]:
    """Return the pieces of a text that some prompts show together, in their order.

    Pieces that overlap are one, and also pieces of different prompts that meet. Where
    two pieces of one prompt meet, the prompt puts a word between them.
    """
    together: list[_Piece] = []
    for shown in shown_in_prompts:
        pieces = shown.pieces
        parted_at = _meetings(together) | _meetings(pieces)
        together = _merge_pieces([*together, *pieces], parted_at)
    return together


def _meetings(pieces: Sequence[_Piece]) -> set[int]:
    """Return where two pieces of one prompt meet."""
    return {
        before.end for before, after in pairwise(pieces) if before.end == after.start
    }


def _merge_pieces(pieces: Iterable[_Piece], parted_at: set[int]) -> list[_Piece]:
    """Sort pieces by their place in the text, and merge those that overlap or meet.

    Example: two prompts show the bytes 0 to 40 and 30 to 90 of a text. They become
    one piece, 0 to 90.

    Args:
        pieces: The pieces of one text that prompts show.
        parted_at: Offsets at which two pieces meet and stay apart: a prompt has a word
            between them that the text does not have.
    """
    merged: list[_Piece] = []
    for piece in sorted(pieces):
        last_end = merged[-1].end if merged else -1
        is_parted = piece.start == last_end and last_end in parted_at
        if piece.start > last_end or is_parted:
            merged.append(piece)
        elif piece.end > merged[-1].end:
            merged[-1] = piece._replace(start=merged[-1].start)
    return merged


def _characters(text: Text, piece: _Piece) -> str:
    """Return a piece of a text as it is written, up to its certain end.

    A piece with the text's first or last letter includes what stands before or after
    that letter, such as a quote.
    """
    start, end = text.offsets_of(piece.start, piece.certain_end)
    if piece.start == 0:
        start = 0
    if piece.certain_end == len(text.normalized):
        end = len(text.raw)
    return text.raw[start:end]
