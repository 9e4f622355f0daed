"""Where texts stand in a prompt, whole or in parts: found by their anchors in one pass.

Prompt and texts are compared by their letters and digits in lower case, as
bytes (``normalized_text``). Some texts are candidates: the caller asks whether the
prompt shows them. The others are known texts, which stand there anyway, such as the
question.

1. An **anchor** is a piece of 16 bytes of a text. The anchors of all texts are kept in
   one mapping, and one pass over the prompt stops wherever an anchor stands.
2. At each stop, the texts that stand there whole and in one piece are noted
   (``whole_texts``).
3. The other texts with this anchor are compared with the prompt from the anchor on,
   forwards and backwards, over small differences: a line number, a mark, a word
   (``matching``). The equal bytes are a **run**.
4. Runs of one text that follow each other in the prompt are joined to one
   **occurrence**, a place at which the prompt shows the text (``occurrences``).
5. Runs so short that they may be there by chance are left out.
6. Texts too short for an anchor are looked for one by one (``short_texts``).

An example: ``Porto lies on the Douro, in the north of the country.`` in the prompt
``Porto lies on the Douro [1], in the north of the country. Where is it?`` The scan
stops at the anchor ``portoliesonthedo``. The text does not stand there in one piece.
From the anchor, the comparison goes on to ``uro``, steps over the ``1`` of the mark,
and goes on to ``country``: a run of two spans, which holds the whole text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ragmetrics_core.capture.anchor_index import (
    AnchorIndex,
    offset_of,
    text_index_of,
)
from ragmetrics_core.capture.byte_spans import EqualSpan
from ragmetrics_core.capture.matching import (
    LINE_NUMBER,
    NormalizedPrompt,
    PromptComparison,
)
from ragmetrics_core.capture.normalized_text import Prompt
from ragmetrics_core.capture.occurrences import (
    Occurrence,
    SoughtText,
    add_run,
    occurrences_of_runs,
    runs_outside,
)
from ragmetrics_core.capture.whole_texts import ANCHOR_LENGTH, TextFamily, WholeTexts

_LONG_PROMPT = 100_000  # bytes; in a longer prompt only every third place is looked at


class OccurrenceSearch:
    """One pass over a prompt that finds where texts stand in it.

    An **anchor** is a piece of 16 bytes by which a text is found. The scan stops at
    every place of the prompt at which an anchor stands.

    Args:
        prompt: The prompt.
        sought_texts: The texts. A text's index is its index here.
    """

    def __init__(self, prompt: Prompt, sought_texts: Sequence[SoughtText]) -> None:
        """Index the texts by their anchors, to search the prompt later.

        An **anchor** is a piece of 16 bytes of a text: ``portoliesonthedo`` is the first
        anchor of "Porto lies on the Douro." and of "Porto lies on the Douro. It is
        old.". Texts with the same first anchor are a **family**.
        """
        self.prompt = prompt
        self.sought_texts = sought_texts
        # in a long prompt the scan looks only at every third byte
        self._stride = 3 if len(prompt.normalized) > _LONG_PROMPT else 1
        normalized_texts = [sought.text.normalized for sought in sought_texts]
        # finds the texts that stand in the prompt whole, by their first anchor
        self._whole_texts = WholeTexts(
            prompt.normalized, normalized_texts, stride=self._stride
        )
        # finds a part of a text, by any of the text's anchors
        self._anchors = AnchorIndex(normalized_texts, self._stride)
        # the first anchors of texts, and all their others: the scan stops where one of
        # these stands in the prompt
        self._anchors_to_stop_at = {
            *self._whole_texts.families_by_first_anchor,
            *self._anchors.first_position_by_anchor,
        }
        # says how far prompt and text are equal, before and behind an anchor
        self._comparison = PromptComparison(
            NormalizedPrompt(prompt.normalized, prompt.tag_ends)
        )
        # What the scan finds, by the index of a text: the runs of equal bytes, and the
        # offsets of the prompt at which the whole text begins.
        self._runs_by_text: dict[int, list[list[EqualSpan]]] = defaultdict(list)
        self._whole_starts_by_text: dict[int, list[int]] = defaultdict(list)

    @property
    def shortest_size(self) -> int:
        """The bytes of the shortest texts that the pass finds.

        Shorter ones are looked for one by one.
        """
        return ANCHOR_LENGTH + self._stride - 1

    # The scan

    def occurrences_found_by_anchors(self) -> Iterator[Occurrence]:
        """Search the prompt, and yield each place at which it shows a text.

        The search compares prompt and text where both have the same anchor, a piece of
        16 letters. Texts shorter than ``shortest_size`` bytes are left out.

        Example: a prompt holds a page, and further down a part of it. The page is
        yielded first, with ``is_unbroken=True``; then the part.
        """
        self._scan_prompt()  # fills the two mappings that are read below
        for text_index, sought_text in enumerate(self.sought_texts):
            starts = self._whole_starts_by_text.get(text_index, ())
            whole_spans = [EqualSpan(start, 0, sought_text.size) for start in starts]
            for span in whole_spans:
                yield Occurrence(sought_text, [span], is_unbroken=True)
            # runs of equal letters outside of these places: a part of the text, or all
            # of it with something put in
            equal_runs = self._runs_by_text.get(text_index, ())
            runs_of_parts = runs_outside(whole_spans, equal_runs)
            for occurrence in occurrences_of_runs(sought_text, runs_of_parts):
                # "1 It is old. 2 It fell.": all of the text, with only line numbers
                # put in, counts as unbroken too
                occurrence.is_unbroken = self._has_only_line_numbers_put_in(occurrence)
                yield occurrence

    def _has_only_line_numbers_put_in(self, occurrence: Occurrence) -> bool:
        """Whether a whole text stands there, with nothing put in but line numbers."""
        if occurrence.size < occurrence.sought_text.size:
            return False
        for before, after in pairwise(occurrence.spans):
            put_in = self.prompt.normalized[before.prompt_end : after.prompt_start]
            if not LINE_NUMBER.fullmatch(put_in):
                return False
        return True

    def _scan_prompt(self) -> None:
        """Stop at each anchor of the prompt, and note the texts that stand there.

        An anchor is a piece of 16 bytes of a text. Most of a text that stands whole is
        skipped.

        Example: a page of 2,000 bytes stands whole from byte 100 on. The scan stops at
        100, notes the page, looks at a few more places, and goes on near byte 2,100.
        """
        normalized = self.prompt.normalized
        place = self._next_anchor(0)
        while place is not None:
            anchor = normalized[place : place + ANCHOR_LENGTH]
            end_of_candidate = self._note_texts_beginning(place, anchor)
            self._compare_texts_with(anchor, place)
            # another text may begin in the last bytes of a candidate that stands here
            last_bytes = end_of_candidate - self.shortest_size
            place = self._next_anchor(max(place + self._stride, last_bytes))

    def _next_anchor(self, start: int) -> int | None:
        """Return the first place from ``start`` on at which an anchor stands."""
        normalized = self.prompt.normalized
        anchors_to_stop_at = self._anchors_to_stop_at
        end_of_places = len(normalized) - ANCHOR_LENGTH + 1
        for place in range(start, end_of_places, self._stride):
            if normalized[place : place + ANCHOR_LENGTH] in anchors_to_stop_at:
                return place
        return None

    def _note_texts_beginning(self, place: int, anchor: bytes) -> int:
        """Note the texts that begin at a place of the prompt, or just before it.

        Args:
            place: Where in the prompt an anchor stands.
            anchor: The anchor, the 16 bytes at the place.

        Returns:
            Where the longest candidate ends that stands here whole; 0 without one.
        """
        end_of_candidate = 0
        for start, family in self._whole_texts.families_beginning_near(place, anchor):
            end = self._note_texts_of_family(start, family)
            end_of_candidate = max(end_of_candidate, end)
        return end_of_candidate

    def _note_texts_of_family(self, start: int, family: TextFamily) -> int:
        """Note the texts that begin at a place, out of those with the same first bytes.

        If none stands there whole, the closest ones are compared with the prompt.

        Example: "Porto lies on the Douro." and "Porto lies on the Douro. It is old."
        begin alike. A prompt that shows the longer one shows both there: both are noted.

        Args:
            start: The place of the prompt.
            family: The texts with the same first bytes.

        Returns:
            Where the longest candidate ends that stands there whole; 0 without one.
        """
        whole_texts = self._whole_texts.whole_texts_at(start, family)
        if not whole_texts:
            for text_index in self._whole_texts.closest_texts_at(start, family):
                self._compare_text(text_index, start, text_offset=0)
        end_of_candidate = 0
        for text_index, size in whole_texts:
            self._whole_starts_by_text[text_index].append(start)
            sought_text = self.sought_texts[text_index]
            if sought_text.candidate_indexes and not sought_text.is_short:
                end_of_candidate = max(end_of_candidate, start + size)
        return end_of_candidate

    def _compare_texts_with(self, anchor: bytes, place: int) -> None:
        """Compare the prompt with each text that holds the anchor found at a place.

        A prompt may repeat an anchor, such as the first 16 bytes of a heading, a
        thousand times. So each text has a number of tries, and a comparison uses one. A
        text without tries is compared at this anchor no longer. Example: three pages
        begin with this heading, and the first has no tries left: two are compared next.
        """
        # A position is one number that packs a text's index and an offset in it: three
        # pages that begin with the same heading have three positions of its anchor.
        positions = self._anchors.positions_of(anchor)
        for position in positions:
            self._compare_text(text_index_of(position), place, offset_of(position))
        texts = [self.sought_texts[text_index_of(position)] for position in positions]
        if all(text.n_tries_left <= 0 for text in texts):
            self._compare_no_longer_at(anchor)

    def _compare_no_longer_at(self, anchor: bytes) -> None:
        """Compare no text at an anchor any longer; whole texts may still begin there."""
        self._anchors.forget(anchor)
        if anchor not in self._whole_texts.families_by_first_anchor:
            self._anchors_to_stop_at.discard(anchor)

    def _compare_text(
        self, text_index: int, prompt_offset: int, text_offset: int
    ) -> None:
        """Compare prompt and text both ways from an anchor, and note the equal bytes.

        It does nothing if the text is known to stand there, was compared too often, or
        is too short to be shown in parts.

        Example: at the anchor "portoliesonthedo" prompt and text are equal from 16 bytes
        before it to 40 after it: a run of 72 bytes is noted. The next anchor of the
        text lies in this run, and is not compared again.

        Args:
            text_index: The index of the text.
            prompt_offset: Where in the prompt the anchor stands.
            text_offset: Where in the text the anchor stands.
        """
        sought_text = self.sought_texts[text_index]
        if sought_text.n_tries_left <= 0 or sought_text.is_short:
            return
        if self._stands_whole_around(prompt_offset, text_index):
            return
        runs = self._runs_by_text[text_index]
        if runs and _pairs(runs[-1], prompt_offset, text_offset):
            return  # the last run holds this anchor
        sought_text.n_tries_left -= 1
        text = sought_text.text.normalized
        add_run(runs, self._comparison.run_around(prompt_offset, text, text_offset))

    def _stands_whole_around(self, prompt_offset: int, text_index: int) -> bool:
        """Whether a text was found to stand whole around a byte of the prompt.

        The scan goes from left to right, so that only the last place can reach so far.
        """
        whole_starts = self._whole_starts_by_text.get(text_index)
        if not whole_starts:
            return False
        end = whole_starts[-1] + self.sought_texts[text_index].size
        return whole_starts[-1] <= prompt_offset < end


def _pairs(run: list[EqualSpan], prompt_offset: int, text_offset: int) -> bool:
    """Whether a run says that a byte of the prompt and a byte of the text are equal."""
    # the last span that begins at the byte or before it
    span_index = bisect_right(run, prompt_offset, key=_prompt_start) - 1
    if span_index < 0:
        return False
    span = run[span_index]
    has_same_shift = span.prompt_start - span.text_start == prompt_offset - text_offset
    return has_same_shift and prompt_offset < span.prompt_end


def _prompt_start(span: EqualSpan) -> int:
    """Return where a span begins in the prompt: spans of a run are sorted by this."""
    return span.prompt_start
