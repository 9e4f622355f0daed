"""Which of some texts stand in what a model was shown, where, and how much of each.

Letters and digits are compared, in whatever form the prompt holds them. All places
where candidates and prompt run along are found in one pass (``anchors``). Here the
showings compete for the ground they stand on, the longest first: a text inside a shown
text is explained by that text. What is left counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal

from ragmetrics_core.capture.anchors import EDGE, RESUMED, Group, Search, Showing
from ragmetrics_core.capture.byte_spans import STEP, runs_of, size_of, subtract_spans
from ragmetrics_core.capture.changed import ChangedTexts
from ragmetrics_core.capture.letters import Prompt, Text
from ragmetrics_core.capture.places import Located, Place, place_of_showing

# bytes that a showing needs on ground that no better one has taken; a shorter text
# needs all of its ground
OWN = 32
ALONE = 16  # a text of fewer bytes must stand apart, since its words may be anybody's

_EXPLAINED: tuple[Literal["not shown"], str] = (
    "not shown",
    "another text explains the trace of it",
)


def locate(
    candidates: Sequence[str], shown: str | Sequence[str], *, known: Sequence[str] = ()
) -> Located:
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
        >>> [(place.outcome, place.extent) for place in found.places], found.order
        ([('shown', 'whole'), ('not shown', None)], (0,))
    """
    return _Settling(
        candidates, Prompt([shown] if isinstance(shown, str) else shown), known
    ).settle()


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
        self.ground = bytearray(len(prompt.stream))  # 1 where a showing has taken it
        self.candidates = range(len(candidates))
        self.texts = [Text(raw) for raw in (*candidates, *known)]
        # texts without letters are told apart by their characters
        groups: dict[bytes | str, Group] = {}
        self.group_of = [
            groups.setdefault(text.stream or text.raw.strip(), Group(text))
            for text in self.texts
        ]
        self.groups = list(groups.values())
        for index, group in enumerate(self.group_of):
            group.tries += 2
            if index in self.candidates:
                group.members.append(index)
            else:
                group.known += 1
        self.search = Search(prompt, self.groups)
        self.shared: dict[frozenset[Group], list[list[Showing]]] = defaultdict(list)
        """Parts that fit several groups alike: of these groups, what fits at each place."""

    def settle(self) -> Located:
        """Settle everything, and return what became of each candidate."""
        showings = list(self.search.showings())
        standing = _short_that_stand(showings, self.search)
        self._compete(
            [
                showing
                for showing in showings
                if showing.group.size >= EDGE or showing in standing
            ]
        )
        touching: dict[Group, list[Showing]] = defaultdict(list)
        for showing in showings:
            if showing.group.size < EDGE and showing not in standing:
                touching[showing.group].append(showing)
        for group in sorted(self.groups, key=lambda group: -group.size):
            if group.size < EDGE and group.text.raw.strip():
                self._settle_short(group, touching[group])
        showing_of = self._showings_of_candidates()
        self._share_parts(showing_of)
        changed = ChangedTexts(self.prompt, self.ground)
        places = [
            (
                place_of_showing(
                    index, self.texts[index], self.prompt, showing_of[index]
                )
                if index in showing_of
                else self._missing(index, bool(showing_of), changed)
            )
            for index in self.candidates
        ]
        return Located(
            tuple(places),
            tuple(sorted(showing_of, key=lambda index: showing_of[index].place)),
        )

    def _compete(self, showings: Sequence[Showing]) -> None:
        """Give each showing its ground and its text, the best first.

        A showing needs ground of its own. Parts that fit several texts alike are kept
        apart. A part that only repeats a longer part of its text comes last: the end of
        one chunk is the beginning of the next, which may need it.
        """
        rivals: dict[tuple[tuple[int, int], int], list[Showing]] = defaultdict(list)
        for showing in showings:
            rivals[showing.place, showing.size].append(showing)
        repeated: list[Showing] = []
        for showing in self._best_first(showings):
            equal_rivals = rivals[showing.place, showing.size]
            if self._free_bytes(showing) < min(OWN, showing.group.size):
                showing.group.why = showing.group.why or _EXPLAINED
            elif _share_their_place(equal_rivals):
                _mark(self.ground, showing)
                groups = frozenset(rival.group for rival in equal_rivals)
                self.shared[groups].append(equal_rivals)
            elif _is_repetition(showing):
                # the end of one chunk is the beginning of the next, which may need it
                repeated.append(showing)
            elif showing.group.members or showing.group.explains:
                self._take_ground(showing)
        for showing in repeated:
            if self._free_bytes(showing) >= OWN:
                self._take_ground(showing)

    def _best_first(self, showings: Sequence[Showing]) -> list[Showing]:
        """Showings by rank, behind them those that fuller texts fill."""
        filled = _showings_filled_by_parts(showings, len(self.ground))

        def rank(showing: Showing) -> tuple[object, ...]:
            return showing in filled, *_rank(showing)

        return sorted(showings, key=rank)

    def _take_ground(self, showing: Showing) -> None:
        """Give a showing the ground on which it stands, and to its text."""
        _mark(self.ground, showing)
        self._give(showing)

    def _free_bytes(self, showing: Showing) -> int:
        return sum(self.ground.count(0, span.at, span.end) for span in showing.spans)

    def _give(self, showing: Showing) -> None:
        """Count a showing for the texts of its group.

        A whole showing is one more. A part joins an earlier part that it does not
        repeat. In another message it also joins a part that it overlaps, because a long
        text may be cut into pieces that overlap. Beside a whole showing a part does not
        count: it may be a title.
        """
        showings = showing.group.shown
        if showing.whole:
            showings.append(showing)
            return
        if any(rival.whole for rival in showings):
            return
        message = self.prompt.message(showing.spans[0].at)
        for rival in showings:
            new = subtract_spans(showing.spans, rival.spans)
            elsewhere = all(
                self.prompt.message(span.at) != message for span in rival.spans
            )
            if elsewhere or size_of(new) == showing.size:
                rival.spans = sorted([*rival.spans, *new])
                return
        showings.append(showing)

    def _settle_short(self, group: Group, touching: Iterable[Showing]) -> None:
        """Settle where a short text stands.

        It counts where it touches no other letter and, if it is very short, stands
        apart. It is unknown if its words stand among others, or in too many places.
        """
        size = group.size
        covered = False
        among: list[Showing] = []
        occurrences = ((showing, 0, 0) for showing in touching)
        for showing, apart_left, apart_right in (
            occurrences
            if size >= self.search.shortest
            else self.search.occurrences(group)
        ):
            if self._is_covered(showing):
                covered = True
            elif min(apart_left, apart_right) >= (2 if size < ALONE else 1):
                group.shown.append(showing)
                _mark(self.ground, showing)
            elif size >= ALONE or apart_left + apart_right >= 2:
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

    def _is_covered(self, showing: Showing) -> bool:
        """Whether another text has taken the ground of a short one.

        For a text without letters the ground around its place counts.
        """
        span = showing.spans[0]
        start, end = (
            (span.at, span.end) if span.size else (max(span.at - 1, 0), span.at + 1)
        )
        return 1 in self.ground[start:end]

    def _showings_of_candidates(self) -> dict[int, Showing]:
        """For each candidate that is shown, by its index, where it stands.

        The first showings of a group explain its known texts, the next ones are its
        candidates'. Where there are more than these, whole ones count, then the
        longest.
        """
        showing_of: dict[int, Showing] = {}
        for group in self.groups:
            best = sorted(group.shown, key=_worth)[: group.known + len(group.members)]
            best.sort(key=lambda showing: showing.place)
            showing_of.update(zip(group.members, best[group.known :], strict=False))
        return showing_of

    def _share_parts(self, shown: dict[int, Showing]) -> None:
        """Divide the parts that fit several candidates alike.

        If there are as many places as candidates, each gets one, in their order.
        Otherwise nobody knows whose they are. A part of a candidate that is shown whole
        elsewhere is a title, and shows no other candidate.

        Args:
            shown: Where each candidate stands, by its index. What is divided is added.
        """
        for groups, places in self.shared.items():
            members = sorted(
                (member, group) for group in groups for member in group.members
            )
            places.sort(key=lambda fitting: min(showing.place for showing in fitting))
            is_whole = any(showing.whole for fitting in places for showing in fitting)
            title = not is_whole and any(
                member in shown and shown[member].whole for member, _ in members
            )
            for index, (member, group) in enumerate(members):
                if member not in shown and len(places) >= len(members):
                    shown[member] = next(
                        showing for showing in places[index] if showing.group is group
                    )
                elif title:
                    group.why = (
                        "not shown",
                        "what fits it fits another candidate, which is shown whole",
                    )
                else:
                    group.why = "unknown", "what fits it fits other candidates as well"

    def _missing(self, index: int, located: bool, changed: ChangedTexts) -> Place:
        """The place of a candidate that was not shown, with the reason in words.

        It is *not shown* or *unknown*. Where no candidate is located at all, a missing
        trace proves nothing, so that it is unknown.
        """
        group = self.group_of[index]
        if not group.text.raw.strip():
            return Place(index, "not shown", reason="blank")
        if not any(message.raw.strip() for message in self.prompt.messages):
            return Place(index, "unknown", reason="no prompt")
        if group.tries <= 0 and group.why is None and not group.shown:
            return Place(
                index,
                "unknown",
                reason="its phrases stand in too many places",
                traced=True,
            )
        outcome, reason = group.why or ("not shown", "no trace of it by itself")
        if group.shown:
            outcome, reason = (
                "not shown",
                "a text of the same words explains what stands there",
            )
        elif group.why in (None, _EXPLAINED) and changed.may_hold(group.text.raw):
            return Place(
                index,
                "unknown",
                reason="most of its words stand there, but changed",
                traced=True,
            )
        is_short_and_told = group.size < EDGE and group.why is not None
        if outcome == "not shown" and not located and not is_short_and_told:
            outcome, reason = "unknown", f"{reason}, and no other candidate is located"
        return Place(
            index,
            outcome,
            reason=reason,
            traced=group.why is not None or bool(group.shown),
        )


def _mark(ground: bytearray, showing: Showing) -> None:
    for run in runs_of(showing.spans):
        ground[run[0].at : run[-1].end] = b"\1" * (run[-1].end - run[0].at)


def _worth(showing: Showing) -> tuple[object, ...]:
    return (
        (False, 0, showing.place)
        if showing.whole
        else (True, -showing.size, showing.place)
    )


def _share_their_place(rivals: Sequence[Showing]) -> bool:
    """Whether several texts have the same part at one place, and nothing tells whose it is."""
    if len(rivals) < 2:
        return False
    for rival in rivals:
        is_all_of_it = rival.size == rival.group.size
        if is_all_of_it or rival.group.explains:
            return False
    return True


def _is_repetition(showing: Showing) -> bool:
    """Whether a part shows nothing but what a longer part of the same text shows."""
    if showing.whole or any(rival.whole for rival in showing.group.shown):
        return False
    return any(
        not subtract_spans(showing.spans, rival.spans) for rival in showing.group.shown
    )


def _rank(showing: Showing) -> tuple[object, ...]:
    """What showings are sorted by: the longest first.

    Of a part only its longest run counts, since neighbours fit by chance. Of equal ones
    the fullest comes first, then a known text, then the first candidate.
    """
    group, size = showing.group, showing.size
    length = size if showing.whole else max(map(size_of, runs_of(showing.spans))) - STEP
    return (
        -length,
        -size,
        -size / group.size,
        not group.known,
        group.members[:1],
        showing.place,
    )


def _showings_filled_by_parts(showings: Sequence[Showing], ground: int) -> set[Showing]:
    """Find the showings of which whole ones of fuller texts leave hardly anything.

    A parent's part is then its children. These showings come last, else a text that
    fits two neighbours, or an old version of them, would hide both.
    """
    filled: set[Showing] = set()
    if all(showing.unbroken for showing in showings):
        return filled
    fuller = bytearray(ground)
    fullest_first = sorted(showings, key=_fullness, reverse=True)
    for _, group in groupby(fullest_first, key=_fullness):
        equal = list(group)
        for showing in equal:
            if showing.unbroken:
                continue
            bytes_left = sum(
                fuller.count(0, span.at, span.end) for span in showing.spans
            )
            if bytes_left < RESUMED:
                filled.add(showing)
        for showing in equal:
            if showing.whole:
                _mark(fuller, showing)
    return filled


def _fullness(showing: Showing) -> tuple[float, bool]:
    return showing.share, showing.unbroken


def _short_that_stand(found: Sequence[Showing], search: Search) -> set[Showing]:
    """Find the short texts that stand by themselves.

    They touch no letter, or only those of a text that stands right before or behind
    them.
    """
    in_order = sorted(found, key=lambda showing: showing.place)
    whole_showings = [showing for showing in in_order if showing.whole]
    sides = {
        showing: search.touching(showing.spans[0])
        for showing in whole_showings
        if showing.group.size < EDGE
    }
    ends = {showing.spans[-1].end for showing in whole_showings if showing not in sides}
    free_on_the_left = set()
    for showing in sides:
        if sides[showing][0] or showing.spans[0].at in ends:
            free_on_the_left.add(showing)
            ends.add(showing.spans[0].end)
    starts = {showing.spans[0].at for showing in whole_showings if showing not in sides}
    standing = set()
    for showing in reversed(sides):
        if showing in free_on_the_left and (
            sides[showing][1] or showing.spans[0].end in starts
        ):
            standing.add(showing)
            starts.add(showing.spans[0].at)
    return standing
