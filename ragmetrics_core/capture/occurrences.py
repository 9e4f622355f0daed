"""The places at which a prompt shows a text, whole or in parts. Pure.

A **run** is a list of spans that are equal in prompt and text, with only small steps
between them. An **occurrence** is one run or several runs that follow each other: a
place at which the prompt shows the text.

Prompt and texts are compared by their normalized text (``normalized_text``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from ragmetrics_core.capture.byte_spans import (
    LONGEST_STEP,
    EqualSpan,
    clip_spans,
    split_into_runs,
    total_size,
)
from ragmetrics_core.capture.normalized_text import Text

# with this share of its bytes a text counts as whole, also where its parts stand apart
SHARE_OF_WHOLE = 0.98
# a text that is shown from its first to its last byte counts as whole with this share
_SHARE_WITH_BOTH_ENDS = 0.85
MOST_APART = 96  # the most bytes between two parts of one occurrence
# The fewest bytes of a part that holds the beginning or end of its text, and of any
# other part. Fewer bytes may be equal by chance.
LEAST_AT_EDGE = 32
LEAST_ELSEWHERE = 48
# At how many places a text is compared: 64, and two more for each candidate and each
# known text with its letters, because equal texts stand at several places.
MOST_TRIES = 64
_MORE_TRIES = 2
# a text that stands in more places of one message is looked for no longer
MOST_OCCURRENCES = 500


class WhyNotShown(NamedTuple):
    """Why a text that is looked for has no place of its own in a prompt.

    Attributes:
        outcome: ``unknown`` if the prompt does not tell whether it shows the text.
        reason: Why, in words.
        has_some_words: Whether some of its words stand there all the same.
    """

    outcome: Literal["not shown", "unknown"]
    reason: str
    has_some_words: bool = True


@dataclass(slots=True, eq=False)
class SoughtText:
    """A text that is looked for in a prompt.

    Several candidates and known texts may have the same normalized text: they are
    looked for together.

    Attributes:
        text: The first text with this normalized text.
        candidate_indexes: The indexes of the candidates with this normalized text.
        n_known_texts: How many known texts have it. They stand in the prompt
            for another reason, such as being the question.
        n_tries_left: At how many more places it may be compared with the prompt. 0 if
            it stands in too many places: then it is looked for no longer.
        occurrences: Where it was found to stand, in the order found.
        why_not_shown: Why a candidate with it has no place, if it has none.
            None if there is no more to say than that the text was not found.
        size: The number of bytes of its normalized text.
    """

    text: Text
    candidate_indexes: list[int] = field(default_factory=list)
    n_known_texts: int = 0
    n_tries_left: int = MOST_TRIES
    occurrences: list[Occurrence] = field(default_factory=list)
    why_not_shown: WhyNotShown | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the bytes once: they are asked for at each anchor."""
        self.size = len(self.text.normalized)

    def add_candidate(self, candidate_index: int) -> None:
        """Look for a candidate with this normalized text."""
        self.candidate_indexes.append(candidate_index)
        self.n_tries_left += _MORE_TRIES

    def add_known_text(self) -> None:
        """Look for a known text with this normalized text."""
        self.n_known_texts += 1
        self.n_tries_left += _MORE_TRIES

    @property
    def is_short(self) -> bool:
        """Whether it is too short to be shown in parts."""
        return self.size < LEAST_AT_EDGE

    @property
    def is_blank(self) -> bool:
        """Whether it has no characters but blanks."""
        return not self.text.raw.strip()

    @property
    def n_texts(self) -> int:
        """How many candidates and known texts have this normalized text."""
        return self.n_known_texts + len(self.candidate_indexes)

    @property
    def has_unplaced_known_text(self) -> bool:
        """Whether the next occurrence belongs to a known text, not to a candidate."""
        return len(self.occurrences) < self.n_known_texts


class LongerWords(NamedTuple):
    """At which edges of a text the prompt has a longer word or number than the text.

    Example: "behind" for the text "The fare is 12." and the prompt "The fare is 125.".

    Attributes:
        before: Whether it has one in the place of the text's first word.
        behind: Whether it has one in the place of the text's last word.
    """

    before: bool
    behind: bool


_NO_LONGER_WORDS = LongerWords(before=False, behind=False)


@dataclass(slots=True, eq=False)
class Occurrence:
    """A place at which the prompt shows a text, whole or in parts.

    Attributes:
        sought_text: The text.
        spans: The bytes that are equal in prompt and text, in the prompt's order. A
            text without letters has one span of no bytes.
        literal_offsets: Only of a text without letters, such as a row of dots: where it
            begins and ends in its message as written.
        is_unbroken: Whether the whole text stands there, with nothing put in but the
            numbers of lines.
        longer_words: At which edges the prompt has a longer word. The spans hold
            nothing of such a word.
    """

    sought_text: SoughtText
    spans: list[EqualSpan]
    literal_offsets: tuple[int, int] | None = None
    is_unbroken: bool = False
    longer_words: LongerWords = _NO_LONGER_WORDS

    @property
    def begins_at(self) -> tuple[int, int]:
        """Where it begins in the prompt; occurrences are sorted by this.

        The first number counts bytes of the normalized prompt. Texts without letters
        may begin at the same letter: the second number, where they begin in their
        message as written, tells them apart.
        """
        literal_start = self.literal_offsets[0] if self.literal_offsets else 0
        return self.spans[0].prompt_start, literal_start

    @property
    def size(self) -> int:
        """How many bytes are equal in prompt and text."""
        if len(self.spans) == 1:  # nearly always
            return self.spans[0].size
        return total_size(self.spans)

    @property
    def share_of_text(self) -> float:
        """How much of the text stands there, 0 to 1."""
        return self.size / self.sought_text.size

    @property
    def is_whole(self) -> bool:
        """Whether the whole text stands there, or nearly all of it: 98 % of its bytes.

        Between the text's first and last byte small gaps are allowed: then 85 % are
        enough. A text with a longer word at one of its edges is not whole.
        """
        if any(self.longer_words):
            return False
        least_share = SHARE_OF_WHOLE
        if len(self.spans) > 1:  # seldom
            if not self._goes_straight_on:
                return False
            if self._has_both_ends_and_small_gaps:
                least_share = _SHARE_WITH_BOTH_ENDS
        return self.size >= least_share * self.sought_text.size

    @property
    def _goes_straight_on(self) -> bool:
        """Whether the spans have the order of the text, and none is far from the next."""
        for before, after in pairwise(self.spans):
            goes_back = after.text_start < before.text_end
            n_put_in = after.prompt_start - before.prompt_end
            if goes_back or n_put_in > MOST_APART + LONGEST_STEP:
                return False
        return True

    @property
    def _has_both_ends_and_small_gaps(self) -> bool:
        """Whether it reaches from the text's first to its last byte over small gaps."""
        for before, after in pairwise(self.spans):
            if after.text_start - before.text_end > LONGEST_STEP:
                return False
        has_first_byte = self.spans[0].text_start == 0
        has_last_byte = self.spans[-1].text_end == self.sought_text.size
        return has_first_byte and has_last_byte


def take_bytes(is_byte_taken: bytearray, occurrence: Occurrence) -> None:
    """Mark the bytes of an occurrence as taken, with the small steps between them.

    Args:
        is_byte_taken: For each byte of the prompt 1 if it is taken, else 0. It is
            changed.
        occurrence: The occurrence.
    """
    for run in split_into_runs(occurrence.spans):
        start = run[0].prompt_start
        end = run[-1].prompt_end
        is_byte_taken[start:end] = b"\1" * (end - start)


def count_free_bytes(is_byte_taken: bytearray, occurrence: Occurrence) -> int:
    """Count the bytes of an occurrence that are not taken.

    Args:
        is_byte_taken: For each byte of the prompt 1 if it is taken, else 0.
        occurrence: The occurrence.
    """
    n_free = 0
    for span in occurrence.spans:
        n_free += is_byte_taken.count(0, span.prompt_start, span.prompt_end)
    return n_free


def add_run(runs: list[list[EqualSpan]], run: list[EqualSpan]) -> None:
    """Add a run of a text to its runs, so that no two of them overlap in the prompt.

    Of two runs that overlap, the worse is cut, perhaps to nothing. Example: a run of
    the prompt's bytes 0 to 100, and a worse one of 90 to 150: 0 to 100 and 100 to 150.

    Args:
        runs: The runs so far, in the prompt's order. They are changed.
        run: The new run: spans that are equal in prompt and text.
    """
    while runs and run and _overlap(runs[-1], run):
        if _is_better(run, runs[-1]):
            shortened_run = clip_spans(runs.pop(), prompt_end=run[0].prompt_start)
            if shortened_run:
                runs.append(shortened_run)
        else:
            run = clip_spans(run, prompt_start=runs[-1][-1].prompt_end)
    if run:
        runs.append(run)


def _overlap(last_run: list[EqualSpan], run: list[EqualSpan]) -> bool:
    """Whether a run begins in the prompt before the end of the last one."""
    return run[0].prompt_start < last_run[-1].prompt_end


def _is_better(run: list[EqualSpan], other: list[EqualSpan]) -> bool:
    """Whether a run has more equal bytes than another one.

    With as many, the run is better that is spread over fewer bytes of the prompt.
    """
    n_equal = total_size(run)
    n_equal_of_other = total_size(other)
    if n_equal != n_equal_of_other:
        return n_equal > n_equal_of_other
    return _extent(run) < _extent(other)


def _extent(run: list[EqualSpan]) -> int:
    """Return over how many bytes of the prompt a run is spread."""
    return run[-1].prompt_end - run[0].prompt_start


def runs_outside(
    whole_spans: Sequence[EqualSpan], runs: Iterable[list[EqualSpan]]
) -> Iterator[list[EqualSpan]]:
    """Leave out the runs of a text that overlap a place where it stands whole.

    Example: the text stands whole at the prompt's bytes 0 to 100. A run from 60 to 100
    is left out, a run from 300 to 350 is yielded.

    Args:
        whole_spans: Where in the prompt the text stands in one piece, in order.
        runs: Lists of spans that are equal in prompt and text.
    """
    starts = [span.prompt_start for span in whole_spans]
    for run in runs:
        # the last whole span that begins before the run ends: it reaches farthest
        last_index = bisect_left(starts, run[-1].prompt_end) - 1
        is_before_all = last_index < 0
        if is_before_all or whole_spans[last_index].prompt_end <= run[0].prompt_start:
            yield run


def occurrences_of_runs(
    sought_text: SoughtText, runs: Iterable[list[EqualSpan]]
) -> Iterator[Occurrence]:
    """Join the runs of one text to occurrences, places at which the prompt shows it.

    Runs of parts that may be there by chance are dropped.

    Args:
        sought_text: The text.
        runs: Lists of spans that are equal in prompt and text, in the prompt's order.
    """
    for spans in _join_runs(runs):
        occurrence = Occurrence(sought_text, spans)
        if not occurrence.is_whole:
            occurrence.spans = _without_runs_by_chance(spans, sought_text.size)
        if occurrence.spans:
            yield occurrence


def _join_runs(runs: Iterable[list[EqualSpan]]) -> list[list[EqualSpan]]:
    """Join each run to the run before it if prompt and text go on there.

    Example: the prompt shows the first half of a text, a remark, then the second half:
    both runs become one.
    """
    joined_runs: list[list[EqualSpan]] = []
    for run in runs:
        continuation = []
        if joined_runs:
            last_span = joined_runs[-1][-1]
            continuation = _continuation_of(last_span, run)
        if continuation:
            joined_runs[-1] += continuation
        else:
            joined_runs.append(run)
    return joined_runs


def _continuation_of(last_span: EqualSpan, run: list[EqualSpan]) -> list[EqualSpan]:
    """Return the part of a run that goes on where another run of the text ended.

    Example: the other run ended at the text's byte 200, and this one goes from 190 to
    400: the part from 200 on. Empty if the run shows the text anew, at another place.

    Args:
        last_span: The last span of the other run.
        run: The run.
    """
    first_span = run[0]
    begins_anew = first_span.text_start == 0
    is_too_far = first_span.prompt_start - last_span.prompt_end > MOST_APART
    goes_back = first_span.text_start < last_span.text_end - LONGEST_STEP
    if begins_anew or is_too_far or goes_back:
        return []
    return clip_spans(run, text_start=last_span.text_end)


def _without_runs_by_chance(spans: list[EqualSpan], text_size: int) -> list[EqualSpan]:
    """Drop the spans that may be equal to the text by chance.

    The spans are divided into runs, between which more than a small step lies. A run
    that holds the text's first or last byte must have 32 bytes, any other one 48.
    """
    spans_left: list[EqualSpan] = []
    for run in split_into_runs(spans):
        is_at_edge = run[0].text_start == 0 or run[-1].text_end == text_size
        least_size = LEAST_AT_EDGE if is_at_edge else LEAST_ELSEWHERE
        if total_size(run) >= least_size:
            spans_left += run
    return spans_left
