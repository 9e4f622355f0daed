"""Which of some texts a prompt shows, where, and how much of each.

1. Prompt and texts are compared by their letters and digits, so that quotes, escapes,
   spaces and markup make no difference (``normalized_text``).
2. One pass over the prompt finds all **occurrences**: the places at which the prompt
   and a text are equal, over the whole text or parts of it (``anchors``).
3. Occurrences compete for the bytes of the prompt, the longest first. An accepted
   occurrence takes its bytes.
4. An occurrence that has fewer than 32 bytes of its own left is explained by another
   text, and does not count.
5. A **known** text, such as the question, takes an occurrence like a candidate does. So
   a candidate of the same words needs one more.
6. Where a part fits several candidates alike, it is divided last: if there is a place
   for each of them, each gets one; otherwise nobody knows whose part it is.

An example: a page ``Porto lies on the Douro. It has six bridges.`` and a sentence of it,
``Porto lies on the Douro.`` A prompt that holds the page shows the page, and not the
sentence: its words belong to the page. A prompt that holds the sentence once more, in a
line of its own, shows both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragmetrics_core.capture.anchors import OccurrenceSearch
from ragmetrics_core.capture.byte_spans import subtract_spans, total_size
from ragmetrics_core.capture.changed import ChangedTexts
from ragmetrics_core.capture.findings import Finding, LocateResult, finding_of_shown
from ragmetrics_core.capture.normalized_text import Prompt, Text
from ragmetrics_core.capture.occurrence_order import best_first
from ragmetrics_core.capture.occurrences import (
    Occurrence,
    SoughtText,
    WhyNotShown,
    count_free_bytes,
    take_bytes,
)
from ragmetrics_core.capture.shared_parts import (
    SharedParts,
    fits_several_texts,
    sought_text_by_candidate,
)
from ragmetrics_core.capture.short_texts import (
    borders_of,
    is_inside_of_word,
    occurrences_of_short_text,
    stands_by_itself,
)
from ragmetrics_core.capture.word_edges import cut_longer_words

# A text of 32 bytes stands in a prompt by no chance. So an occurrence needs 32 bytes that
# no better occurrence has taken; a shorter text needs all its bytes.
DISTINCTIVE_LENGTH = 32

_BLANK = WhyNotShown("not shown", "blank", has_some_words=False)
_NO_PROMPT = WhyNotShown("unknown", "no prompt", has_some_words=False)
_NO_TRACE = WhyNotShown("not shown", "no trace of it by itself", has_some_words=False)
_IS_OF_ANOTHER_TEXT = WhyNotShown("not shown", "another text explains the trace of it")
_INSIDE_ANOTHER_TEXT = WhyNotShown("not shown", "its words stand inside another text")
_PLACES_OF_SAME_WORDS = WhyNotShown(
    "not shown", "a text of the same words explains what stands there"
)
_AMONG_OTHER_WORDS = WhyNotShown("unknown", "short, and its words stand among others")
_FEW_LETTERS_EVERYWHERE = WhyNotShown(
    "unknown", "its few letters stand in too many places"
)
_PHRASES_EVERYWHERE = WhyNotShown("unknown", "its phrases stand in too many places")
_INSIDE_LONGER_WORDS = WhyNotShown(
    "unknown", "its first or last word stands there inside a longer word or number"
)
_CHANGED = WhyNotShown("unknown", "most of its words stand there, but changed")


def locate(
    candidates: Sequence[str], shown: str | Sequence[str], *, known: Sequence[str] = ()
) -> LocateResult:
    """Find which texts a model was shown.

    Args:
        candidates: Texts that may stand there, equal ones included.
        shown: A prompt, or the texts of its messages, results of tools included. No
            occurrence reaches from one message into the next.
        known: Texts that stand there for another reason (question, history,
            instructions): each explains one occurrence; a candidate of the same words
            needs another.

    Returns:
        A finding for each candidate, and the order of those shown.

    Examples:
        >>> porto, faro = "Porto lies on the Douro, in the north.", "Faro is the southernmost city of the country."
        >>> found = locate([porto, faro], f"Use only this: {[porto]!r}. Where is Porto?", known=["Where is Porto?"])
        >>> [(finding.outcome, finding.extent) for finding in found.findings], found.shown_in_order
        ([('shown', 'whole'), ('not shown', None)], (0,))
    """
    messages = [shown] if isinstance(shown, str) else shown
    return _Competition(candidates, Prompt(messages), known).result()


class _Competition:
    """Decides which text stands where in a prompt: occurrences compete for its bytes.

    An occurrence is a place at which the prompt shows a text, whole or in parts. A
    known text is sought like a candidate, because it explains an occurrence.

    Args:
        candidates: Texts that may stand there.
        prompt: The prompt.
        known: Texts that stand there for another reason, such as the question.
    """

    def __init__(
        self, candidates: Sequence[str], prompt: Prompt, known: Sequence[str]
    ) -> None:
        """Prepare the search; ``result()`` runs it.

        Candidates and known texts with equal letters are one ``SoughtText``. Example:
        the document "Iron." and the question "iron?" are searched for together.

        Args:
            candidates: The texts that may be shown, such as retrieved documents.
            prompt: The prompt that may show them.
            known: Texts that stand in the prompt for another reason, such as the
                question. Their places count for no candidate.
        """
        self.prompt = prompt
        self.candidates = [Text(raw) for raw in candidates]
        known_texts = [Text(raw) for raw in known]
        self.sought_texts = _group_by_normalized_text(self.candidates, known_texts)
        # by the index of the candidate: the sought text with its letters
        self.sought_text_of = sought_text_by_candidate(self.sought_texts)
        self.search = OccurrenceSearch(prompt, self.sought_texts)
        # for each byte of the prompt: 1 if an accepted occurrence has taken it, else 0
        self.is_byte_taken = bytearray(len(prompt.normalized))
        # places that fit several texts alike, such as the header of two pages
        self.shared_parts = SharedParts()

    def result(self) -> LocateResult:
        """Decide what the prompt shows of each candidate.

        Example: a prompt holds the document "Opened on 4 May 1874 by the mayor." The
        candidate with this text takes these words. The short candidate "4 May 1874" is
        decided about later: its words are taken by then, and it is not shown.
        """
        competing = list(self._competing_occurrences())
        self._accept_the_best(competing)
        self._decide_short_texts()
        self._cut_longer_words(competing)
        occurrence_of = self._occurrences_of_candidates()
        # last the parts that fit several candidates alike, as the header of two pages
        self.shared_parts.divide(occurrence_of)
        order = sorted(occurrence_of, key=lambda index: occurrence_of[index].begins_at)
        return LocateResult(tuple(self._findings(occurrence_of)), tuple(order))

    def _competing_occurrences(self) -> Iterator[Occurrence]:
        """Yield the occurrences of long texts, and those that set a short text apart.

        Example: the short text "Opened on 4 May 1874." in a line of its own competes with
        a page that begins like it, and wins this line.
        """
        for occurrence in self.search.occurrences_found_by_anchors():
            sought_text = occurrence.sought_text
            if not sought_text.is_short or stands_by_itself(
                sought_text.size, borders_of(occurrence, self.prompt)
            ):
                yield occurrence

    def _findings(self, occurrence_of: Mapping[int, Occurrence]) -> list[Finding]:
        """Say of each candidate what the prompt shows of it, in the order of candidates.

        Example: of [A, B] the prompt holds A: the findings are "shown" and "not shown".

        Args:
            occurrence_of: Where each shown candidate stands, by its index.
        """
        # it looks for changed words where no accepted occurrence has taken the bytes
        changed_texts = ChangedTexts(self.prompt, self.is_byte_taken)
        any_is_shown = bool(occurrence_of)
        findings = []
        for index, text in enumerate(self.candidates):
            occurrence = occurrence_of.get(index)
            if occurrence is not None:
                finding = finding_of_shown(
                    index,
                    text,
                    self.prompt,
                    occurrence,
                    is_byte_taken=self.is_byte_taken,
                )
            else:
                finding = self._finding_of_missing(index, any_is_shown, changed_texts)
            findings.append(finding)
        return findings

    def _accept_the_best(self, occurrences: Sequence[Occurrence]) -> None:
        """Give the bytes of the prompt to the texts that stand there, the best first.

        Example: a prompt holds a page. The page takes its bytes. A chunk of this page
        stands at the same place: none of its bytes are free, so it is not shown there.
        """
        occurrences_by_bytes = _group_by_bytes(occurrences)
        repetitions: list[Occurrence] = []
        for occurrence in best_first(occurrences, prompt_size=len(self.is_byte_taken)):
            # of all texts that show just these bytes, this one included
            occurrences_of_bytes = occurrences_by_bytes[_bytes_shown(occurrence)]
            if not self._has_enough_free_bytes(occurrence):  # the chunk
                occurrence.sought_text.why_not_shown = _IS_OF_ANOTHER_TEXT
            elif fits_several_texts(occurrences_of_bytes):
                # The header of two pages. Its bytes are taken now, and whose they are
                # is decided later.
                take_bytes(self.is_byte_taken, occurrence)
                self.shared_parts.add_place(occurrences_of_bytes)
            elif _repeats_longer_part(occurrence):
                # The end of chunk 1 stands here a second time. Chunk 2 may begin with
                # these words, and stand here: chunk 1 gets only what chunk 2 leaves free.
                repetitions.append(occurrence)
            elif _is_known_text_with_all_places(occurrence.sought_text):
                # The caller knows one place of the question in this prompt, and that one
                # was found. Its words stand here once more: perhaps as a document that
                # repeats the question. So these bytes stay free.
                continue
            else:
                self._accept(occurrence)
        for occurrence in repetitions:
            if self._has_enough_free_bytes(occurrence):
                self._accept(occurrence)

    def _has_enough_free_bytes(self, occurrence: Occurrence) -> bool:
        """Whether better occurrences have left it 32 bytes, or all of a shorter text."""
        n_needed = min(DISTINCTIVE_LENGTH, occurrence.sought_text.size)
        return count_free_bytes(self.is_byte_taken, occurrence) >= n_needed

    def _accept(self, occurrence: Occurrence) -> None:
        """Take the bytes of an occurrence, and count it for its text."""
        take_bytes(self.is_byte_taken, occurrence)
        self._count_for_its_text(occurrence)

    def _count_for_its_text(self, occurrence: Occurrence) -> None:
        """Count an accepted occurrence for its text, or join it to an earlier part.

        Example: the first half of a text was accepted, and now its second half, further
        down: both are one occurrence. A part of a text that stands whole elsewhere does
        not count: it may be a title.
        """
        text_occurrences = occurrence.sought_text.occurrences
        if occurrence.is_whole:
            text_occurrences.append(occurrence)
            return
        if any(earlier.is_whole for earlier in text_occurrences):
            return
        for earlier in text_occurrences:
            if self._continues(occurrence, earlier):
                new_spans = subtract_spans(occurrence.spans, earlier.spans)
                earlier.spans = sorted([*earlier.spans, *new_spans])
                return
        text_occurrences.append(occurrence)

    def _continues(self, part: Occurrence, earlier: Occurrence) -> bool:
        """Whether a part of a text shows other bytes of the text than an earlier part.

        In different messages the parts may overlap, as the chunks of a long text do.
        """
        new_spans = subtract_spans(part.spans, earlier.spans)
        has_no_byte_in_common = total_size(new_spans) == part.size
        return has_no_byte_in_common or self._are_in_other_messages(part, earlier)

    def _are_in_other_messages(
        self, occurrence: Occurrence, earlier: Occurrence
    ) -> bool:
        """Whether an earlier part stands only in other messages than a new part."""
        message_index_at = self.prompt.message_index_at
        message_index = message_index_at(occurrence.spans[0].prompt_start)
        earlier_messages = {
            message_index_at(span.prompt_start) for span in earlier.spans
        }
        return message_index not in earlier_messages

    def _decide_short_texts(self) -> None:
        """Decide where short texts count as shown, the longest text first."""
        longest_first = sorted(self.sought_texts, key=lambda sought: -sought.size)
        for sought_text in longest_first:
            has_all_places = len(sought_text.occurrences) >= sought_text.n_texts
            if sought_text.is_short and not sought_text.is_blank and not has_all_places:
                self._decide_short_text(sought_text)

    def _decide_short_text(self, sought_text: SoughtText) -> None:
        """Decide where in the prompt a text of fewer than 32 bytes counts as shown.

        Example: the text "art" is shown in '- "art"'; in "modern art" that is unknown;
        in "party" it is not shown.

        For a candidate that gets none of these places, it is noted why.
        """
        in_sentences: list[Occurrence] = []
        for occurrence in occurrences_of_short_text(sought_text, self.prompt):
            borders = borders_of(occurrence, self.prompt)
            if self._is_covered(occurrence):  # another document holds the words
                sought_text.why_not_shown = _INSIDE_ANOTHER_TEXT
            elif stands_by_itself(sought_text.size, borders):  # '- "art"'
                self._accept_short(occurrence)
            elif not is_inside_of_word(sought_text.size, borders):  # "modern art"
                in_sentences.append(occurrence)
        self._decide_in_sentences(sought_text, in_sentences)
        # "e" stands nearly everywhere: the search, which counts the tries down, gave up
        if sought_text.n_tries_left <= 0:
            sought_text.why_not_shown = _FEW_LETTERS_EVERYWHERE

    def _decide_in_sentences(
        self, sought_text: SoughtText, in_sentences: Iterable[Occurrence]
    ) -> None:
        """Decide about the places of a short text between the words of sentences.

        A known text, such as the question, gets its places. Whether a candidate of the
        same words stands at another place is *unknown*.
        """
        for occurrence in in_sentences:
            if sought_text.has_unplaced_known_text:
                self._accept_short(occurrence)
            else:
                sought_text.why_not_shown = _AMONG_OTHER_WORDS

    def _accept_short(self, occurrence: Occurrence) -> None:
        """Take the bytes of a short text, and count the place for the text."""
        occurrence.sought_text.occurrences.append(occurrence)
        take_bytes(self.is_byte_taken, occurrence)

    def _cut_longer_words(self, competing: Iterable[Occurrence]) -> None:
        """Leave out the words that are a part of a longer word in the prompt.

        Example: the prompt has "The fare for adults on this line is 125". Of the text
        "The fare for adults on this line is 12" all but its number is shown. A text of
        which too few letters are left has no place there.

        This is decided last, because the rest of a longer word may be another text, as
        where a page was put together from overlapping pieces. The other text may have
        lost this place to still another one.

        Args:
            competing: The occurrences among which the best were accepted.
        """
        is_of_text = bytearray(self.is_byte_taken)
        for occurrence in competing:
            take_bytes(is_of_text, occurrence)
        for sought_text in self.sought_texts:
            for occurrence in sought_text.occurrences:
                cut_longer_words(occurrence, self.prompt, is_of_text)
            distinctive = [
                occurrence
                for occurrence in sought_text.occurrences
                if not any(occurrence.longer_words)
                or occurrence.size >= DISTINCTIVE_LENGTH
            ]
            if sought_text.occurrences and not distinctive:
                sought_text.why_not_shown = _INSIDE_LONGER_WORDS
            sought_text.occurrences = distinctive

    def _is_covered(self, occurrence: Occurrence) -> bool:
        """Whether another text has taken the bytes of a short text.

        A text without letters has no bytes: the letters beside it count.
        """
        span = occurrence.spans[0]
        start = span.prompt_start
        end = span.prompt_end
        if span.size == 0:
            start = max(start - 1, 0)
            end += 1
        return 1 in self.is_byte_taken[start:end]

    def _occurrences_of_candidates(self) -> dict[int, Occurrence]:
        """Return for each candidate that is shown where it stands, by its index.

        Of several texts with the same letters, the known ones get the first places, and
        the candidates the next ones. The last candidates may get none.
        """
        occurrence_of: dict[int, Occurrence] = {}
        for sought_text in self.sought_texts:
            of_candidates = _best_places(sought_text)[sought_text.n_known_texts :]
            pairs = zip(sought_text.candidate_indexes, of_candidates, strict=False)
            occurrence_of.update(pairs)
        return occurrence_of

    def _finding_of_missing(
        self, index: int, any_is_shown: bool, changed_texts: ChangedTexts
    ) -> Finding:
        """Say why a candidate has no place in the prompt: "not shown" or "unknown".

        Example: of three documents the prompt shows two: the third is "not shown". If it
        shows none of the three, each is "unknown", for all may stand there reworded.

        Args:
            index: The index of the candidate.
            any_is_shown: Whether the prompt shows any other candidate.
            changed_texts: Finds texts whose words the prompt has changed.
        """
        why = self._why_missing(self.sought_text_of[index], changed_texts)
        outcome = why.outcome
        reason = why.reason
        may_be_reworded = why != _BLANK and not any_is_shown
        if outcome == "not shown" and may_be_reworded:
            outcome = "unknown"
            reason = f"{reason}, and no other candidate is located"
        return Finding(index, outcome, reason=reason, has_some_words=why.has_some_words)

    def _why_missing(
        self, sought_text: SoughtText, changed_texts: ChangedTexts
    ) -> WhyNotShown:
        """Say why a candidate with the letters of a text has no place in the prompt.

        Args:
            sought_text: The text; another candidate of its letters may have a place.
            changed_texts: Finds texts whose words the prompt has changed.
        """
        if sought_text.is_blank:
            return _BLANK
        if self.prompt.is_blank:
            return _NO_PROMPT
        if sought_text.occurrences:
            return _PLACES_OF_SAME_WORDS
        why = sought_text.why_not_shown
        if why is None and sought_text.n_tries_left <= 0:
            return _PHRASES_EVERYWHERE
        may_be_changed = why is None or why == _IS_OF_ANOTHER_TEXT
        if may_be_changed and changed_texts.may_hold(sought_text.text.raw):
            return _CHANGED
        return why or _NO_TRACE


def _group_by_normalized_text(
    candidates: Iterable[Text], known_texts: Iterable[Text]
) -> list[SoughtText]:
    """Group candidates and known texts with equal letters, to search for them once.

    Example: the documents "Iron." and "IRON", and the question "Iron?", are one group.
    """
    sought_by_normalized_text: dict[bytes | str, SoughtText] = {}
    for index, text in enumerate(candidates):
        # "..." and "---" have no letters: their characters tell them apart
        normalized = text.normalized or text.raw.strip()
        sought_text = sought_by_normalized_text.setdefault(normalized, SoughtText(text))
        sought_text.add_candidate(index)
    for text in known_texts:
        normalized = text.normalized or text.raw.strip()
        sought_text = sought_by_normalized_text.setdefault(normalized, SoughtText(text))
        sought_text.add_known_text()
    return list(sought_by_normalized_text.values())


def _group_by_bytes(
    occurrences: Iterable[Occurrence],
) -> dict[object, list[Occurrence]]:
    """Group the occurrences of different texts that show the same bytes of the prompt."""
    occurrences_by_bytes: dict[object, list[Occurrence]] = defaultdict(list)
    for occurrence in occurrences:
        occurrences_by_bytes[_bytes_shown(occurrence)].append(occurrence)
    return occurrences_by_bytes


def _bytes_shown(occurrence: Occurrence) -> object:
    """Return which bytes of the prompt an occurrence shows: its beginning and size."""
    return occurrence.begins_at, occurrence.size


def _is_known_text_with_all_places(sought_text: SoughtText) -> bool:
    """Whether a text is only a known one, such as the question, and has all its places.

    The caller says how often a known text stands in the prompt.
    """
    is_only_known = not sought_text.candidate_indexes
    return is_only_known and not sought_text.has_unplaced_known_text


def _repeats_longer_part(occurrence: Occurrence) -> bool:
    """Whether a part shows nothing but what a longer part of the same text shows.

    The next chunk may need its bytes: it may begin with the end of this one.
    """
    earlier_occurrences = occurrence.sought_text.occurrences
    if occurrence.is_whole or any(earlier.is_whole for earlier in earlier_occurrences):
        return False
    return any(
        not subtract_spans(occurrence.spans, earlier.spans)
        for earlier in earlier_occurrences
    )


def _best_places(sought_text: SoughtText) -> list[Occurrence]:
    """Return the best places of a text, in the prompt's order: one for each text.

    The best are whole ones, then the longest.
    """
    best = sorted(sought_text.occurrences, key=_whole_and_longest_first)
    best = best[: sought_text.n_texts]
    return sorted(best, key=lambda occurrence: occurrence.begins_at)


def _whole_and_longest_first(occurrence: Occurrence) -> tuple[object, ...]:
    """Return what occurrences of a text are sorted by: whole ones first, then the longest."""
    if occurrence.is_whole:
        return False, 0, occurrence.begins_at
    return True, -occurrence.size, occurrence.begins_at
