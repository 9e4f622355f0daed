"""Which of some texts stand in what a model was shown, where, and how much of each.

Letters and digits are compared, in whatever form the prompt holds them. A **showing** is
a place where a candidate and the prompt run along; all of them are found in one pass
(``anchors``). Here the showings compete for the **ground**, the bytes of the prompt they
stand on, the longest first: a text inside a shown text is explained by that text. What
is left counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal

from ragmetrics_core.capture.anchors import (
    GAP,
    LEAST_AT_EDGE,
    LETTER,
    MARK,
    Occurrence,
    OccurrenceSearch,
    SoughtText,
)
from ragmetrics_core.capture.byte_spans import (
    LONGEST_STEP,
    split_into_runs,
    subtract_spans,
    total_size,
)
from ragmetrics_core.capture.changed import ChangedTexts
from ragmetrics_core.capture.letters import Prompt, Text
from ragmetrics_core.capture.matching import RESUMED_LENGTH
from ragmetrics_core.capture.places import Finding, LocateResult, finding_of_shown

# bytes that a showing needs on ground that no better one has taken; a shorter text
# needs all of its ground
DISTINCTIVE_LENGTH = 32
VERY_SHORT = (
    16  # a text of fewer bytes must stand apart, since its words may be anybody's
)

_EXPLAINED: tuple[Literal["not shown"], str] = (
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
            showing crosses messages.
        known: Texts that stand there for another reason (question, history,
            instructions): each explains one occurrence; a candidate of the same words
            needs another.

    Returns:
        A place for each candidate, and the order of those shown.

    Examples:
        >>> porto, faro = "Porto lies on the Douro, in the north.", "Faro is the southernmost city of the country."
        >>> found = locate([porto, faro], f"Use only this: {[porto]!r}. Where is Porto?", known=["Where is Porto?"])
        >>> [(finding.outcome, finding.extent) for finding in found.findings], found.shown_in_order
        ([('shown', 'whole'), ('not shown', None)], (0,))
    """
    messages = [shown] if isinstance(shown, str) else shown
    return _Settling(candidates, Prompt(messages), known).settle()


class _Settling:
    """Settles which texts a prompt shows: showings compete for the ground.

    Each place goes to a candidate, to a known text, or to several that fit it alike.

    Args:
        candidates: Texts that may stand there.
        prompt: The prompt.
        known: Texts that stand there for another reason.
    """

    def __init__(
        self, candidates: Sequence[str], prompt: Prompt, known: Sequence[str]
    ) -> None:
        self.prompt = prompt
        # a byte for each byte of the prompt: 1 where a showing has taken it
        self.ground = bytearray(len(prompt.letters))
        self.candidates = range(len(candidates))  # the indexes of the candidates
        # candidates first; an index of one is its index here
        self.texts = [Text(raw) for raw in (*candidates, *known)]
        self.group_of: list[SoughtText] = []  # of each text, with those equal to it
        group_by_letters: dict[bytes | str, SoughtText] = {}
        for index, text in enumerate(self.texts):
            # texts without letters are told apart by their characters
            letters = text.letters or text.raw.strip()
            group = group_by_letters.setdefault(letters, SoughtText(text))
            self.group_of.append(group)
            group.n_tries_left += 2
            if index in self.candidates:
                group.candidate_indexes.append(index)
            else:
                group.n_known_texts += 1
        self.groups = list(group_by_letters.values())
        self.search = OccurrenceSearch(prompt, self.groups)
        self.shared: dict[frozenset[SoughtText], list[list[Occurrence]]] = defaultdict(
            list
        )
        """Parts that fit several groups alike: of these groups, what fits at each place."""

    def settle(self) -> LocateResult:
        """Settle everything, and return what became of each candidate.

        Long texts, and short ones that stand by themselves, compete for the ground
        first. Other short texts get what is left: their words may be anybody's.
        """
        showings = list(self.search.occurrences_of_long_texts())
        standing_apart = _short_that_stand_apart(showings, self.search)
        competing: list[Occurrence] = []
        among_letters: dict[SoughtText, list[Occurrence]] = defaultdict(list)
        for showing in showings:
            is_long = showing.sought_text.size >= LEAST_AT_EDGE
            if is_long or showing in standing_apart:
                competing.append(showing)
            else:
                among_letters[showing.sought_text].append(showing)
        self._compete(competing)
        longest_first = sorted(self.groups, key=lambda group: -group.size)
        for group in longest_first:
            is_blank = not group.text.raw.strip()
            if group.size < LEAST_AT_EDGE and not is_blank:
                self._settle_short(group, among_letters[group])
        showing_of = self._showings_of_candidates()
        self._share_parts(showing_of)
        order = sorted(showing_of, key=lambda index: showing_of[index].begins_at)
        return LocateResult(tuple(self._places(showing_of)), tuple(order))

    def _places(self, showing_of: dict[int, Occurrence]) -> list[Finding]:
        """What became of each candidate, in their order.

        Args:
            showing_of: Where each shown candidate stands, by its index.
        """
        changed_texts = ChangedTexts(self.prompt, self.ground)
        any_is_shown = bool(showing_of)
        places = []
        for index in self.candidates:
            showing = showing_of.get(index)
            if showing is not None:
                text = self.texts[index]
                place = finding_of_shown(index, text, self.prompt, showing)
            else:
                place = self._place_of_missing(index, any_is_shown, changed_texts)
            places.append(place)
        return places

    def _compete(self, showings: Sequence[Occurrence]) -> None:
        """Let showings compete for the bytes of the prompt, the best first.

        Each showing that wins takes its ground, the bytes on which it stands, and
        counts for its text. Parts that fit several texts alike count for none of them
        yet.

        Args:
            showings: Where texts stand in the prompt.
        """
        rivals: dict[tuple[tuple[int, int], int], list[Occurrence]] = defaultdict(list)
        for showing in showings:
            rivals[showing.begins_at, showing.size].append(showing)
        repetitions: list[Occurrence] = []
        for showing in self._best_first(showings):
            group = showing.sought_text
            equal_rivals = rivals[showing.begins_at, showing.size]
            n_needed = min(DISTINCTIVE_LENGTH, group.size)
            if self._free_bytes(showing) < n_needed:
                # a better showing has its ground, and explains it
                group.why_not_shown = group.why_not_shown or _EXPLAINED
            elif _share_their_place(equal_rivals):
                _take_ground(self.ground, showing)
                rival_groups = frozenset(rival.sought_text for rival in equal_rivals)
                self.shared[rival_groups].append(equal_rivals)
            elif _is_repetition(showing):
                # the end of one chunk is the beginning of the next, which may need it
                repetitions.append(showing)
            elif group.candidate_indexes or group.has_unplaced_known_text:
                self._give(showing)
        for showing in repetitions:
            if self._free_bytes(showing) >= DISTINCTIVE_LENGTH:
                self._give(showing)

    def _best_first(self, showings: Sequence[Occurrence]) -> list[Occurrence]:
        """Showings by rank, behind them those that fuller texts fill."""
        filled = _showings_filled_by_fuller(showings, len(self.ground))

        def rank(showing: Occurrence) -> tuple[object, ...]:
            return showing in filled, *_rank(showing)

        return sorted(showings, key=rank)

    def _free_bytes(self, showing: Occurrence) -> int:
        """How many bytes of a showing no other has taken."""
        return sum(
            self.ground.count(0, span.prompt_start, span.prompt_end)
            for span in showing.spans
        )

    def _give(self, showing: Occurrence) -> None:
        """Give a showing the ground on which it stands, and count it for its text."""
        _take_ground(self.ground, showing)
        self._count_for_its_text(showing)

    def _count_for_its_text(self, showing: Occurrence) -> None:
        """Add a showing to those of its group, or join it to one of them.

        A whole showing is one more. A part joins an earlier part that it does not
        repeat. In another message it also joins a part that it overlaps, because a long
        text may be cut into pieces that overlap. Beside a whole showing a part does not
        count: it may be a title.
        """
        group_showings = showing.sought_text.occurrences
        if showing.is_whole:
            group_showings.append(showing)
            return
        if any(earlier.is_whole for earlier in group_showings):
            return
        for earlier in group_showings:
            new_spans = subtract_spans(showing.spans, earlier.spans)
            repeats_nothing = total_size(new_spans) == showing.size
            if repeats_nothing or self._are_in_other_messages(showing, earlier):
                earlier.spans = sorted([*earlier.spans, *new_spans])
                return
        group_showings.append(showing)

    def _are_in_other_messages(self, showing: Occurrence, earlier: Occurrence) -> bool:
        """Whether nothing of an earlier part stands in the message of a new one."""
        message = self.prompt.message_index_at(showing.spans[0].prompt_start)
        earlier_messages = {
            self.prompt.message_index_at(span.prompt_start) for span in earlier.spans
        }
        return message not in earlier_messages

    def _settle_short(
        self, group: SoughtText, among_letters: Iterable[Occurrence]
    ) -> None:
        """Settle where a short text stands.

        It counts where it touches no other letter and, if it is very short, stands
        apart. It is unknown if its words stand among others, or in too many places.

        Args:
            group: The text.
            among_letters: Where the pass found it beside other letters. Texts too short
                for the pass are looked for here.
        """
        # the least that it may touch on both sides
        is_very_short = group.size < VERY_SHORT
        least = MARK if is_very_short else GAP
        is_covered = False
        undecided: list[Occurrence] = []
        occurrences: Iterable[tuple[Occurrence, int, int]]
        if group.size >= self.search.shortest_size:
            occurrences = [(showing, LETTER, LETTER) for showing in among_letters]
        else:
            occurrences = self.search.occurrences_of_short_text(group)
        for showing, left, right in occurrences:
            if self._is_covered(showing):
                is_covered = True
            elif left >= least and right >= least:
                group.occurrences.append(showing)
                _take_ground(self.ground, showing)
            elif not is_very_short or left + right >= MARK:
                undecided.append(showing)
        for showing in undecided:
            if group.has_unplaced_known_text:
                group.occurrences.append(showing)
                _take_ground(self.ground, showing)
            else:
                reason = "short, and its words stand among others"
                group.why_not_shown = "unknown", reason
        if group.n_tries_left <= 0:
            reason = "its few letters stand in too many places"
            group.why_not_shown = "unknown", reason
        elif is_covered and group.why_not_shown is None:
            group.why_not_shown = "not shown", "its words stand inside another text"

    def _is_covered(self, showing: Occurrence) -> bool:
        """Whether another text has taken the ground of a short one.

        For a text without letters the ground around its place counts.
        """
        span = showing.spans[0]
        start = span.prompt_start
        end = span.prompt_end
        if span.size == 0:
            start = max(start - 1, 0)
            end += 1
        return 1 in self.ground[start:end]

    def _showings_of_candidates(self) -> dict[int, Occurrence]:
        """For each candidate that is shown, by its index, where it stands.

        Equal texts are one group: candidates, and known texts that stand in the prompt
        for another reason. The first places at which they stand are those of the known
        texts, the next ones those of the candidates. Where they stand at more places
        than they are, whole showings count first, then the longest.
        """
        showing_of: dict[int, Occurrence] = {}
        for group in self.groups:
            n_wanted = group.n_known_texts + len(group.candidate_indexes)
            best = sorted(group.occurrences, key=_whole_and_longest_first)[:n_wanted]
            best.sort(key=lambda showing: showing.begins_at)
            showings_of_members = best[group.n_known_texts :]
            # some candidates may be shown nowhere
            pairs = zip(group.candidate_indexes, showings_of_members, strict=False)
            showing_of.update(pairs)
        return showing_of

    def _share_parts(self, showing_of: dict[int, Occurrence]) -> None:
        """Divide the parts that fit several candidates alike.

        If there are as many places as candidates, each gets one, in their order.
        Otherwise nobody knows whose they are. A part of a candidate that is shown whole
        elsewhere is a title, and shows no other candidate.

        Args:
            showing_of: Where each candidate stands, by its index. What is divided is
                added.
        """
        for groups, places in self.shared.items():
            members: list[tuple[int, SoughtText]] = []
            for group in groups:
                members += [(member, group) for member in group.candidate_indexes]
            members.sort(key=lambda member_and_group: member_and_group[0])
            places.sort(
                key=lambda fitting: min(showing.begins_at for showing in fitting)
            )
            indexes = [member for member, _ in members]
            is_title = _is_title(indexes, places, showing_of)
            has_place_for_each = len(places) >= len(members)
            for index, (member, group) in enumerate(members):
                if member not in showing_of and has_place_for_each:
                    showing_of[member] = _showing_of_group(places[index], group)
                elif is_title:
                    reason = "what fits it fits another candidate, which is shown whole"
                    group.why_not_shown = "not shown", reason
                else:
                    reason = "what fits it fits other candidates as well"
                    group.why_not_shown = "unknown", reason

    def _place_of_missing(
        self, index: int, any_is_shown: bool, changed_texts: ChangedTexts
    ) -> Finding:
        """The place of a candidate that was not shown, with the reason in words.

        It is *not shown* or *unknown*. Where no candidate is located at all, a missing
        trace proves nothing, so that it is unknown.

        Args:
            index: The candidate.
            any_is_shown: Whether any candidate is located.
            changed_texts: The words of the prompt where nothing is located.
        """
        group = self.group_of[index]
        why_not_shown = group.why_not_shown
        if not group.text.raw.strip():
            return Finding(index, "not shown", reason="blank")
        if not any(message.raw.strip() for message in self.prompt.messages):
            return Finding(index, "unknown", reason="no prompt")
        if group.occurrences:
            # known texts or other candidates have them all
            reason = "a text of the same words explains what stands there"
            return self._not_shown(index, reason, any_is_shown)
        if group.n_tries_left <= 0 and why_not_shown is None:
            reason = "its phrases stand in too many places"
            return Finding(index, "unknown", reason=reason, has_some_words=True)
        is_left_or_explained = why_not_shown in (None, _EXPLAINED)
        if is_left_or_explained and changed_texts.may_hold(group.text.raw):
            reason = "most of its words stand there, but changed"
            return Finding(index, "unknown", reason=reason, has_some_words=True)
        if why_not_shown is None:
            return self._not_shown(index, "no trace of it by itself", any_is_shown)
        outcome, reason = why_not_shown
        if outcome == "not shown":
            return self._not_shown(index, reason, any_is_shown)
        return Finding(index, outcome, reason=reason, has_some_words=True)

    def _not_shown(self, index: int, reason: str, any_is_shown: bool) -> Finding:
        """The place of a candidate that is not shown.

        Where no candidate is located at all it is unknown, but for a short text of
        which the reason is known: that was looked for one by one.
        """
        group = self.group_of[index]
        has_reason = group.why_not_shown is not None
        is_traced = has_reason or bool(group.occurrences)
        is_short_with_reason = group.size < LEAST_AT_EDGE and has_reason
        if any_is_shown or is_short_with_reason:
            return Finding(index, "not shown", reason=reason, has_some_words=is_traced)
        reason = f"{reason}, and no other candidate is located"
        return Finding(index, "unknown", reason=reason, has_some_words=is_traced)


def _take_ground(ground: bytearray, showing: Occurrence) -> None:
    """Mark the ground of a showing as taken, small steps included."""
    for run in split_into_runs(showing.spans):
        start = run[0].prompt_start
        end = run[-1].prompt_end
        ground[start:end] = b"\1" * (end - start)


def _whole_and_longest_first(showing: Occurrence) -> tuple[object, ...]:
    """What the showings of a text are sorted by: whole ones first, then the longest."""
    if showing.is_whole:
        return False, 0, showing.begins_at
    return True, -showing.size, showing.begins_at


def _share_their_place(rivals: Sequence[Occurrence]) -> bool:
    """Whether several texts have the same part at one place, and nothing tells whose it is."""
    if len(rivals) < 2:
        return False
    for rival in rivals:
        is_all_of_it = rival.size == rival.sought_text.size
        if is_all_of_it or rival.sought_text.has_unplaced_known_text:
            return False
    return True


def _is_repetition(showing: Occurrence) -> bool:
    """Whether a part shows nothing but what a longer part of the same text shows."""
    earlier_showings = showing.sought_text.occurrences
    if showing.is_whole or any(earlier.is_whole for earlier in earlier_showings):
        return False
    return any(
        not subtract_spans(showing.spans, earlier.spans) for earlier in earlier_showings
    )


def _is_title(
    candidates: Sequence[int],
    places: Sequence[Sequence[Occurrence]],
    showing_of: dict[int, Occurrence],
) -> bool:
    """Whether a part that fits several candidates is a title of one.

    One of them is shown whole elsewhere, and here only parts stand.

    Args:
        candidates: The candidates, by their indexes.
        places: What fits them at each place.
        showing_of: Where each shown candidate stands.
    """
    for fitting in places:
        if any(showing.is_whole for showing in fitting):
            return False
    showings = [showing_of[index] for index in candidates if index in showing_of]
    return any(showing.is_whole for showing in showings)


def _showing_of_group(showings: Sequence[Occurrence], group: SoughtText) -> Occurrence:
    """Of the showings at one place the one of a group; there is one of each that fits."""
    return next(showing for showing in showings if showing.sought_text is group)


def _rank(showing: Occurrence) -> tuple[object, ...]:
    """What showings are sorted by: the longest first.

    Of a part only its longest run counts, since neighbours fit by chance. Of equal ones
    the fullest comes first, then a known text, then the first candidate.
    """
    group = showing.sought_text
    size = showing.size
    if showing.is_whole:
        length = size
    else:
        length = (
            max(total_size(run) for run in split_into_runs(showing.spans))
            - LONGEST_STEP
        )
    is_candidate = not group.n_known_texts
    first_member = group.candidate_indexes[:1]
    return (
        -length,
        -size,
        -size / group.size,
        is_candidate,
        first_member,
        showing.begins_at,
    )


def _showings_filled_by_fuller(
    showings: Sequence[Occurrence], ground_size: int
) -> set[Occurrence]:
    """Find the showings of which whole ones of fuller texts leave hardly anything.

    A parent's part is then its children. These showings come last, else a text that
    fits two neighbours, or an old version of them, would hide both.
    """
    filled: set[Occurrence] = set()
    if all(showing.is_unbroken for showing in showings):
        return filled
    taken_by_fuller = bytearray(ground_size)
    fullest_first = sorted(showings, key=_fullness, reverse=True)
    for _, equally_full in groupby(fullest_first, key=_fullness):
        equals = list(equally_full)
        for showing in equals:
            if showing.is_unbroken:
                continue
            bytes_left = 0
            for span in showing.spans:
                bytes_left += taken_by_fuller.count(
                    0, span.prompt_start, span.prompt_end
                )
            if bytes_left < RESUMED_LENGTH:
                filled.add(showing)
        for showing in equals:
            if showing.is_whole:
                _take_ground(taken_by_fuller, showing)
    return filled


def _fullness(showing: Occurrence) -> tuple[float, bool]:
    """How full a showing is: the share of its text, then whether that is unbroken."""
    return showing.share_of_text, showing.is_unbroken


def _short_that_stand_apart(
    showings: Sequence[Occurrence], search: OccurrenceSearch
) -> set[Occurrence]:
    """Find the showings of short texts that stand by themselves.

    On each side such a text touches no letter, or only those of a whole text that ends
    or begins just there: a long one, or a short one that is itself free on that side.

    Args:
        showings: Where texts stand in the prompt.
        search: The search that found them; it tells what a text touches.
    """
    short_showings: list[Occurrence] = []
    ends_of_texts: set[int] = set()
    starts_of_texts: set[int] = set()
    for showing in sorted(showings, key=lambda showing: showing.begins_at):
        if not showing.is_whole:
            continue
        if showing.sought_text.size < LEAST_AT_EDGE:
            short_showings.append(showing)
        else:
            ends_of_texts.add(showing.spans[-1].prompt_end)
            starts_of_texts.add(showing.spans[0].prompt_start)
    free_on_the_left = []
    for showing in short_showings:
        touches_left, _ = search.borders_of(showing.spans[0])
        if touches_left != LETTER or showing.spans[0].prompt_start in ends_of_texts:
            free_on_the_left.append(showing)
            ends_of_texts.add(showing.spans[0].prompt_end)
    free_on_both_sides = set()
    for showing in reversed(free_on_the_left):
        _, touches_right = search.borders_of(showing.spans[0])
        if touches_right != LETTER or showing.spans[0].prompt_end in starts_of_texts:
            free_on_both_sides.add(showing)
            starts_of_texts.add(showing.spans[0].prompt_start)
    return free_on_both_sides
