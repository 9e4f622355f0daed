"""Which of some texts a prompt shows, where, and how much of each.

1. Prompt and texts are compared by their letters and digits, so that quotes, escapes,
   spaces and markup make no difference (``letters``).
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
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal

from ragmetrics_core.capture.anchors import OccurrenceSearch
from ragmetrics_core.capture.byte_spans import (
    LONGEST_STEP,
    split_into_runs,
    subtract_spans,
    total_size,
)
from ragmetrics_core.capture.changed import ChangedTexts
from ragmetrics_core.capture.findings import Finding, LocateResult, finding_of_shown
from ragmetrics_core.capture.letters import Prompt, Text
from ragmetrics_core.capture.matching import RESUMED_LENGTH
from ragmetrics_core.capture.occurrences import Occurrence, SoughtText
from ragmetrics_core.capture.short_texts import (
    Border,
    borders_of,
    occurrences_of_short_text,
)

# A text of 32 bytes stands in a prompt by no chance. So an occurrence needs 32 bytes that
# no better occurrence has taken; a shorter text needs all its bytes.
DISTINCTIVE_LENGTH = 32
# a text of fewer bytes must stand apart, in a line or in quotes: its words may stand
# anywhere
_VERY_SHORT = 16

_IS_OF_ANOTHER_TEXT: tuple[Literal["not shown"], str] = (
    "not shown",
    "another text explains the trace of it",
)


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
        self.prompt = prompt
        # for each byte of the prompt: 1 where an accepted occurrence stands, else 0
        self.taken = bytearray(len(prompt.letters))
        self.candidate_indexes = range(len(candidates))
        # the candidates first, so that a candidate's index is its index here
        self.texts = [Text(raw) for raw in (*candidates, *known)]
        # texts with the same letters are sought as one
        self.sought_text_of: list[SoughtText] = []  # by the index of a text
        sought_by_letters: dict[bytes | str, SoughtText] = {}
        for index, text in enumerate(self.texts):
            # texts without letters are told apart by their characters
            letters = text.letters or text.raw.strip()
            sought_text = sought_by_letters.setdefault(letters, SoughtText(text))
            self.sought_text_of.append(sought_text)
            if index in self.candidate_indexes:
                sought_text.add_candidate(index)
            else:
                sought_text.add_known_text()
        self.sought_texts = list(sought_by_letters.values())
        self.search = OccurrenceSearch(prompt, self.sought_texts)
        # Parts that fit several texts alike. By these texts: a list for each place,
        # with one occurrence of each of the texts.
        self.shared_parts: dict[frozenset[SoughtText], list[list[Occurrence]]] = (
            defaultdict(list)
        )

    def result(self) -> LocateResult:
        """Decide what the prompt shows of each candidate.

        1. Texts of 32 bytes and more compete for the bytes of the prompt. Short texts,
           of fewer bytes, compete with them where they stand apart from other words.
        2. The other places of short texts, where letters touch them, are decided one
           text after the other, the longest first: the words of a short text may be a
           part of any sentence.
        3. Parts that fit several candidates alike are divided among them.
        """
        # Texts of 16 or 18 bytes and more. Still shorter texts have no anchor: they are
        # looked for in step 2.
        occurrences = list(self.search.occurrences_found_by_anchors())
        standing_apart = _short_that_stand_apart(occurrences, self.prompt)
        competing: list[Occurrence] = []
        not_apart: dict[SoughtText, list[Occurrence]] = defaultdict(list)
        for occurrence in occurrences:
            sought_text = occurrence.sought_text
            if not sought_text.is_short or occurrence in standing_apart:
                competing.append(occurrence)
            else:
                not_apart[sought_text].append(occurrence)
        self._accept_the_best(competing)
        longest_first = sorted(self.sought_texts, key=lambda sought: -sought.size)
        for sought_text in longest_first:
            is_blank = not sought_text.text.raw.strip()
            if sought_text.is_short and not is_blank:
                self._decide_short_text(sought_text, not_apart[sought_text])
        occurrence_of = self._occurrences_of_candidates()
        self._share_parts(occurrence_of)
        findings = self._findings(occurrence_of)
        order = sorted(occurrence_of, key=lambda index: occurrence_of[index].begins_at)
        return LocateResult(tuple(findings), tuple(order))

    def _findings(self, occurrence_of: Mapping[int, Occurrence]) -> list[Finding]:
        """Say of each candidate what the prompt shows of it, in their order.

        Args:
            occurrence_of: Where each shown candidate stands, by its index.
        """
        changed_texts = ChangedTexts(self.prompt, self.taken)
        any_is_shown = bool(occurrence_of)
        findings = []
        for index in self.candidate_indexes:
            occurrence = occurrence_of.get(index)
            if occurrence is not None:
                text = self.texts[index]
                finding = finding_of_shown(index, text, self.prompt, occurrence)
            else:
                finding = self._finding_of_missing(index, any_is_shown, changed_texts)
            findings.append(finding)
        return findings

    def _accept_the_best(self, occurrences: Sequence[Occurrence]) -> None:
        """Let occurrences compete for the bytes of the prompt, the best first.

        An accepted occurrence takes its bytes, and counts for its text. The text is a
        candidate, which the caller asks for, or a known text, such as the question,
        which stands in the prompt anyway. These occurrences are not accepted at once:

        - One whose bytes a better occurrence has taken: it does not count.
        - A part that fits several texts alike: it takes its bytes, but is divided among
          the texts at the end (``_share_parts``).
        - A part that repeats a longer part of its text: it comes after all others.
        - One more place of a known text that has all its places: it stays free.

        Args:
            occurrences: Places at which the prompt shows texts, whole or in parts.
        """
        occurrences_by_bytes: dict[tuple[object, int], list[Occurrence]] = defaultdict(
            list
        )
        for occurrence in occurrences:
            bytes_shown = occurrence.begins_at, occurrence.size
            occurrences_by_bytes[bytes_shown].append(occurrence)
        repetitions: list[Occurrence] = []
        for occurrence in self._best_first(occurrences):
            sought_text = occurrence.sought_text
            # this occurrence, and those of other texts at the same bytes
            rivals = occurrences_by_bytes[occurrence.begins_at, occurrence.size]
            n_needed = min(DISTINCTIVE_LENGTH, sought_text.size)
            # the text is the question, say, which already has its place
            is_only_known = not sought_text.candidate_indexes
            is_surplus = is_only_known and not sought_text.has_unplaced_known_text
            if self._n_free_bytes(occurrence) < n_needed:
                sought_text.why_not_shown = (
                    sought_text.why_not_shown or _IS_OF_ANOTHER_TEXT
                )
            elif _fits_several_texts(rivals):
                # The other rivals come later, and find these bytes taken. What becomes
                # of their texts is decided at the end as well.
                _take_bytes(self.taken, occurrence)
                rival_texts = frozenset(rival.sought_text for rival in rivals)
                self.shared_parts[rival_texts].append(rivals)
            elif _repeats_longer_part(occurrence):
                # The end of one chunk may be the beginning of the next chunk, which
                # may need these bytes.
                repetitions.append(occurrence)
            elif not is_surplus:
                # a surplus place stays free: a candidate may hold the question's words
                self._accept(occurrence)
        for occurrence in repetitions:
            if self._n_free_bytes(occurrence) >= DISTINCTIVE_LENGTH:
                self._accept(occurrence)

    def _best_first(self, occurrences: Sequence[Occurrence]) -> list[Occurrence]:
        """Sort occurrences: the longest first, and last those that fuller texts cover."""
        covered = _covered_by_fuller(occurrences, len(self.taken))

        def rank(occurrence: Occurrence) -> tuple[object, ...]:
            return occurrence in covered, *_rank(occurrence)

        return sorted(occurrences, key=rank)

    def _n_free_bytes(self, occurrence: Occurrence) -> int:
        """Count the bytes of an occurrence that no other occurrence has taken."""
        n_free = 0
        for span in occurrence.spans:
            n_free += self.taken.count(0, span.prompt_start, span.prompt_end)
        return n_free

    def _accept(self, occurrence: Occurrence) -> None:
        """Take the bytes of an occurrence, and count it for its text."""
        _take_bytes(self.taken, occurrence)
        self._count_for_its_text(occurrence)

    def _count_for_its_text(self, occurrence: Occurrence) -> None:
        """Count an accepted occurrence for its text, or join it to an earlier part.

        - A whole occurrence counts as a new one.
        - A part does not count if an earlier occurrence is whole: it may be a title.
        - A part is joined to an earlier part if they share no byte of the text.
        - A part is also joined to an earlier part in other messages: a long text may be
          cut into chunks that overlap.
        - Any other part counts as a new occurrence.
        """
        text_occurrences = occurrence.sought_text.occurrences
        if occurrence.is_whole:
            text_occurrences.append(occurrence)
            return
        if any(earlier.is_whole for earlier in text_occurrences):
            return
        for earlier in text_occurrences:
            new_spans = subtract_spans(occurrence.spans, earlier.spans)
            shares_no_byte = total_size(new_spans) == occurrence.size
            if shares_no_byte or self._are_in_other_messages(occurrence, earlier):
                earlier.spans = sorted([*earlier.spans, *new_spans])
                return
        text_occurrences.append(occurrence)

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

    def _decide_short_text(
        self, sought_text: SoughtText, not_apart: Iterable[Occurrence]
    ) -> None:
        """Decide at which of its places a text of fewer than 32 bytes counts as shown.

        Each place at which its letters stand is one of these:
        - Another text has taken its bytes: the place does not count.
        - The text stands by itself: the place counts. No letter may touch the text. A
          very short text, of fewer than 16 bytes, needs a mark on both sides, such as
          a quote.
        - The text is very short, and stands inside a word: the place does not count.
        - The text stands in a sentence. The same words may be both a known text, such
          as the question, and a candidate: the place counts if the known text has no
          place yet. Otherwise nobody can tell whether a candidate stands there, and
          the text is *unknown*.

        A text that stands in too many places is *unknown* as well: then the search has
        set its ``n_tries_left`` to 0.

        ``why_not_shown`` is the reason for a candidate that gets no place at all. A
        place that counts goes before it.

        Args:
            sought_text: The text. Places that count are added to its ``occurrences``.
            not_apart: Where the search by anchors found it, touching other letters.
                A text too short for an anchor is looked for here.
        """
        is_very_short = sought_text.size < _VERY_SHORT
        # borders grow: a letter, then a gap such as a space, then a mark
        border_needed = Border.MARK if is_very_short else Border.GAP
        is_covered = False
        in_sentences: list[Occurrence] = []
        for occurrence, left, right in self._with_borders(sought_text, not_apart):
            touches_letter = Border.LETTER in (left, right)
            has_mark = Border.MARK in (left, right)
            if self._is_covered(occurrence):
                is_covered = True
            elif left >= border_needed and right >= border_needed:
                self._accept_short(occurrence)
            elif is_very_short and touches_letter and not has_mark:
                # inside a word, as "art" in "party"; with a mark on one side, as in
                # "art"s, it may be the whole text, so that nobody can tell
                continue
            else:
                in_sentences.append(occurrence)
        for occurrence in in_sentences:
            if sought_text.has_unplaced_known_text:
                self._accept_short(occurrence)
            else:
                reason = "short, and its words stand among others"
                sought_text.why_not_shown = "unknown", reason
        if sought_text.n_tries_left <= 0:
            reason = "its few letters stand in too many places"
            sought_text.why_not_shown = "unknown", reason
        elif is_covered and sought_text.why_not_shown is None:
            reason = "its words stand inside another text"
            sought_text.why_not_shown = "not shown", reason

    def _with_borders(
        self, sought_text: SoughtText, not_apart: Iterable[Occurrence]
    ) -> Iterable[tuple[Occurrence, Border, Border]]:
        """Return where a short text stands, with what stands on its left and right.

        Args:
            sought_text: The text.
            not_apart: Where the pass over the prompt found it, touching letters.
        """
        was_found_by_pass = sought_text.size >= self.search.shortest_size
        if was_found_by_pass:
            return [
                (occurrence, Border.LETTER, Border.LETTER) for occurrence in not_apart
            ]
        return occurrences_of_short_text(sought_text, self.prompt)

    def _accept_short(self, occurrence: Occurrence) -> None:
        """Take the bytes of a short text, and count the place for the text."""
        occurrence.sought_text.occurrences.append(occurrence)
        _take_bytes(self.taken, occurrence)

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
        return 1 in self.taken[start:end]

    def _occurrences_of_candidates(self) -> dict[int, Occurrence]:
        """Return for each candidate that is shown where it stands, by its index.

        Several candidates and known texts may have the same letters. Where these letters
        stand at more places than there are texts, the best places are kept: whole ones
        first, then the longest. Of the places kept, in the prompt's order, the first
        ones belong to the known texts, and the next ones to the candidates.
        """
        occurrence_of: dict[int, Occurrence] = {}
        for sought_text in self.sought_texts:
            best = sorted(sought_text.occurrences, key=_whole_and_longest_first)
            best = best[: sought_text.n_texts]
            best.sort(key=lambda occurrence: occurrence.begins_at)
            of_candidates = best[sought_text.n_known_texts :]
            # the last candidates may have no place
            pairs = zip(sought_text.candidate_indexes, of_candidates, strict=False)
            occurrence_of.update(pairs)
        return occurrence_of

    def _share_parts(self, occurrence_of: dict[int, Occurrence]) -> None:
        """Divide the parts that fit several candidates alike.

        A candidate that is shown already gets none of them. If there are as many places
        as candidates, each candidate gets the place of its rank. Otherwise nobody knows
        whose parts they are, and the candidates are *unknown*. They are *not shown* if
        one of them is shown whole elsewhere: then the part is its title.

        Args:
            occurrence_of: Where each shown candidate stands, by its index. The places
                that are divided here are added.
        """
        for sought_texts, places in self.shared_parts.items():
            candidate_indexes: list[int] = []
            for sought_text in sought_texts:
                candidate_indexes += sought_text.candidate_indexes
            candidate_indexes.sort()
            # all occurrences at one place begin at the same byte
            places.sort(key=lambda occurrences: occurrences[0].begins_at)
            is_title = _is_title(candidate_indexes, places, occurrence_of)
            has_place_for_each = len(places) >= len(candidate_indexes)
            for rank, candidate_index in enumerate(candidate_indexes):
                sought_text = self.sought_text_of[candidate_index]
                if candidate_index in occurrence_of:
                    continue
                if has_place_for_each:
                    occurrence_of[candidate_index] = _occurrence_of_text(
                        sought_text, places[rank]
                    )
                elif is_title:
                    reason = "what fits it fits another candidate, which is shown whole"
                    sought_text.why_not_shown = "not shown", reason
                else:
                    reason = "what fits it fits other candidates as well"
                    sought_text.why_not_shown = "unknown", reason

    def _finding_of_missing(
        self, index: int, any_is_shown: bool, changed_texts: ChangedTexts
    ) -> Finding:
        """Return the finding of a candidate that got no place in the prompt.

        It is *not shown* if the search can tell so, and else *unknown*, with a reason.
        Candidates and known texts, such as the question, may have the same letters.
        They share their occurrences, so that a candidate may get none of them.

        Args:
            index: The index of the candidate.
            any_is_shown: Whether the prompt shows any other candidate. If it shows
                none, that nothing of this one is found proves nothing.
            changed_texts: Tells whether the prompt may hold the text with its words
                changed.
        """
        sought_text = self.sought_text_of[index]
        why_not_shown = sought_text.why_not_shown
        if not sought_text.text.raw.strip():
            return Finding(index, "not shown", reason="blank")
        if not any(message.raw.strip() for message in self.prompt.messages):
            return Finding(index, "unknown", reason="no prompt")
        if sought_text.occurrences:
            # its words stand there, but each place went to another text of these words:
            # to the question, say, or to a candidate before this one
            reason = "a text of the same words explains what stands there"
            return self._not_shown(index, reason, any_is_shown)
        if sought_text.n_tries_left <= 0 and why_not_shown is None:
            reason = "its phrases stand in too many places"
            return _unknown(index, reason)
        # Nothing of it was found, or only bytes that another text has taken. The
        # prompt may still show it in changed words.
        may_be_changed = why_not_shown in (None, _IS_OF_ANOTHER_TEXT)
        if may_be_changed and changed_texts.may_hold(sought_text.text.raw):
            reason = "most of its words stand there, but changed"
            return _unknown(index, reason)
        if why_not_shown is None:
            return self._not_shown(index, "no trace of it by itself", any_is_shown)
        outcome, reason = why_not_shown
        if outcome == "not shown":
            return self._not_shown(index, reason, any_is_shown)
        return _unknown(index, reason)

    def _not_shown(self, index: int, reason: str, any_is_shown: bool) -> Finding:
        """Return the finding of a candidate that is *not shown*.

        Where the prompt shows no candidate at all, the candidate is *unknown* instead.
        A short text with a reason stays *not shown*: it was looked for at every place.
        """
        sought_text = self.sought_text_of[index]
        has_reason = sought_text.why_not_shown is not None
        has_some_words = has_reason or bool(sought_text.occurrences)
        is_short_with_reason = sought_text.is_short and has_reason
        if any_is_shown or is_short_with_reason:
            return Finding(
                index, "not shown", reason=reason, has_some_words=has_some_words
            )
        reason = f"{reason}, and no other candidate is located"
        return Finding(index, "unknown", reason=reason, has_some_words=has_some_words)


def _unknown(index: int, reason: str) -> Finding:
    """Return the finding of a candidate of which some words stand there."""
    return Finding(index, "unknown", reason=reason, has_some_words=True)


def _take_bytes(taken: bytearray, occurrence: Occurrence) -> None:
    """Mark the bytes of an occurrence as taken, with the small steps between them.

    Args:
        taken: For each byte of the prompt 1 if it is taken, else 0. It is changed.
        occurrence: The occurrence.
    """
    for run in split_into_runs(occurrence.spans):
        start = run[0].prompt_start
        end = run[-1].prompt_end
        taken[start:end] = b"\1" * (end - start)


def _whole_and_longest_first(occurrence: Occurrence) -> tuple[object, ...]:
    """Return what occurrences of a text are sorted by: whole ones first, then the longest."""
    if occurrence.is_whole:
        return False, 0, occurrence.begins_at
    return True, -occurrence.size, occurrence.begins_at


def _fits_several_texts(rivals: Sequence[Occurrence]) -> bool:
    """Whether nothing tells which of several texts a part belongs to.

    Args:
        rivals: Occurrences of different texts at the same bytes of the prompt. It
            belongs to a text that has no other bytes, and to a known text that has no
            place yet.
    """
    if len(rivals) < 2:
        return False
    for rival in rivals:
        is_all_of_it = rival.size == rival.sought_text.size
        if is_all_of_it or rival.sought_text.has_unplaced_known_text:
            return False
    return True


def _repeats_longer_part(occurrence: Occurrence) -> bool:
    """Whether a part shows nothing but what a longer part of the same text shows."""
    earlier_occurrences = occurrence.sought_text.occurrences
    if occurrence.is_whole or any(earlier.is_whole for earlier in earlier_occurrences):
        return False
    return any(
        not subtract_spans(occurrence.spans, earlier.spans)
        for earlier in earlier_occurrences
    )


def _is_title(
    candidate_indexes: Sequence[int],
    places: Sequence[Sequence[Occurrence]],
    occurrence_of: Mapping[int, Occurrence],
) -> bool:
    """Whether a part that fits several candidates is a title of one of them.

    It is if one of them is shown whole elsewhere, and none of them is whole here.

    Args:
        candidate_indexes: The candidates.
        places: The occurrences of the candidates at each place of the part.
        occurrence_of: Where each shown candidate stands, by its index.
    """
    for occurrences in places:
        if any(occurrence.is_whole for occurrence in occurrences):
            return False
    shown_elsewhere = [
        occurrence_of[index] for index in candidate_indexes if index in occurrence_of
    ]
    return any(occurrence.is_whole for occurrence in shown_elsewhere)


def _occurrence_of_text(
    sought_text: SoughtText, occurrences: Sequence[Occurrence]
) -> Occurrence:
    """Return the occurrence of a text at a place that it shares with other texts."""
    return next(
        occurrence
        for occurrence in occurrences
        if occurrence.sought_text is sought_text
    )


def _rank(occurrence: Occurrence) -> tuple[object, ...]:
    """Return what occurrences are sorted by when they compete: the longest first.

    Of a part only its longest run counts, less 24 bytes: what stands around a text may
    be equal to the next bytes of another text by chance. Of equally long occurrences
    the one with most equal bytes comes first, then the one that shows most of its text,
    then a known text, then the first candidate.
    """
    sought_text = occurrence.sought_text
    size = occurrence.size
    if occurrence.is_whole:
        length = size
    else:
        runs = split_into_runs(occurrence.spans)
        length = max(total_size(run) for run in runs) - LONGEST_STEP
    is_candidate = not sought_text.n_known_texts
    first_candidate_index = sought_text.candidate_indexes[:1]
    return (
        -length,
        -size,
        -occurrence.share_of_text,
        is_candidate,
        first_candidate_index,
        occurrence.begins_at,
    )


def _covered_by_fuller(
    occurrences: Sequence[Occurrence], prompt_size: int
) -> set[Occurrence]:
    """Find the occurrences that fuller occurrences cover almost entirely.

    One occurrence is fuller than another if it shows more of its own text. Say a prompt
    shows two chunks of a page, each of them whole. Then the same bytes are also a part
    of the page. This part is covered, and competes last for its bytes: else it would
    win against the chunks, because it is longer. Likewise, an old version of a text
    must not win against its new versions.

    An occurrence is covered if fewer than 12 of its bytes lie outside of fuller whole
    ones. An unbroken occurrence, one of a whole text without anything put in, is never
    covered.

    Args:
        occurrences: The occurrences.
        prompt_size: The number of bytes of the prompt's letters.
    """
    covered: set[Occurrence] = set()
    if all(occurrence.is_unbroken for occurrence in occurrences):
        return covered
    taken_by_fuller = bytearray(prompt_size)
    fullest_first = sorted(occurrences, key=_fullness, reverse=True)
    for _, equally_full in groupby(fullest_first, key=_fullness):
        equals = list(equally_full)
        for occurrence in equals:
            if occurrence.is_unbroken:
                continue
            n_uncovered = 0
            for span in occurrence.spans:
                n_uncovered += taken_by_fuller.count(
                    0, span.prompt_start, span.prompt_end
                )
            # fewer than 12 bytes may be equal by chance
            if n_uncovered < RESUMED_LENGTH:
                covered.add(occurrence)
        # only now: an occurrence does not cover those that are as full
        for occurrence in equals:
            if occurrence.is_whole:
                _take_bytes(taken_by_fuller, occurrence)
    return covered


def _fullness(occurrence: Occurrence) -> tuple[float, bool]:
    """Return how full an occurrence is: its share of the text, then whether unbroken."""
    return occurrence.share_of_text, occurrence.is_unbroken


def _short_that_stand_apart(
    occurrences: Sequence[Occurrence], prompt: Prompt
) -> set[Occurrence]:
    """Find the occurrences of short texts that stand by themselves.

    They stand apart from other words on the left and on the right. A short text does so
    on a side on which no letter touches it. It also does so if the letter that touches
    it belongs to another whole text: to a long one, or to a short one that stands
    apart on its own far side. So two titles may touch each other.

    Args:
        occurrences: Where texts stand in the prompt.
        prompt: The prompt.
    """
    whole = [occurrence for occurrence in occurrences if occurrence.is_whole]
    whole.sort(key=lambda occurrence: occurrence.begins_at)
    short_occurrences = [each for each in whole if each.sought_text.is_short]
    long_occurrences = [each for each in whole if not each.sought_text.is_short]
    # the loops below add those of short texts
    starts_of_texts = {each.spans[0].prompt_start for each in long_occurrences}
    ends_of_texts = {each.spans[-1].prompt_end for each in long_occurrences}
    # from left to right: where one text is apart on its left, the text that begins at
    # its end may be as well
    apart_on_the_left = []
    for occurrence in short_occurrences:
        span = occurrence.spans[0]
        left, _ = borders_of(span, prompt)
        if left != Border.LETTER or span.prompt_start in ends_of_texts:
            apart_on_the_left.append(occurrence)
            ends_of_texts.add(span.prompt_end)
    # from right to left: likewise for the text that ends at its start
    apart_on_both_sides = set()
    for occurrence in reversed(apart_on_the_left):
        span = occurrence.spans[0]
        _, right = borders_of(span, prompt)
        if right != Border.LETTER or span.prompt_end in starts_of_texts:
            apart_on_both_sides.add(occurrence)
            starts_of_texts.add(span.prompt_start)
    return apart_on_both_sides
