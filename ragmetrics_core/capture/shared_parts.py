"""Parts of a prompt that fit several texts alike, such as a title that two pages share. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from ragmetrics_core.capture.occurrences import Occurrence, SoughtText, WhyNotShown

_PART_OF_SHOWN = WhyNotShown(
    "not shown", "what fits it fits another candidate, which is shown whole"
)
_PART_OF_SEVERAL = WhyNotShown("unknown", "what fits it fits other candidates as well")


class SharedParts:
    """The parts of a prompt that fit several texts alike.

    They are divided when all other occurrences are decided.
    """

    def __init__(self) -> None:
        # By the texts that a part fits: its places. A place is a list of occurrences,
        # one of each text.
        self._places_by_texts: dict[frozenset[SoughtText], list[list[Occurrence]]] = (
            defaultdict(list)
        )

    def add_place(self, rivals: list[Occurrence]) -> None:
        """Note one place of a part.

        Args:
            rivals: The occurrences at this place, one of each text that the part fits.
        """
        sought_texts = frozenset(rival.sought_text for rival in rivals)
        self._places_by_texts[sought_texts].append(rivals)

    def divide(self, occurrence_by_candidate: dict[int, Occurrence]) -> None:
        """Give each candidate a place of its part, if there are enough places.

        Otherwise nobody can tell whose part it is, and no candidate gets it.

        Args:
            occurrence_by_candidate: Where each shown candidate stands, by its index.
                The places that are divided here are added.
        """
        for sought_texts, places in self._places_by_texts.items():
            text_by_candidate = sought_text_by_candidate(sought_texts)
            if len(places) >= len(text_by_candidate):
                _give_places(places, text_by_candidate, occurrence_by_candidate)
            else:
                _give_to_nobody(places, text_by_candidate, occurrence_by_candidate)


def sought_text_by_candidate(
    sought_texts: Iterable[SoughtText],
) -> dict[int, SoughtText]:
    """Return the texts by the indexes of their candidates, in the indexes' order."""
    text_by_candidate: dict[int, SoughtText] = {}
    for sought_text in sought_texts:
        for candidate_index in sought_text.candidate_indexes:
            text_by_candidate[candidate_index] = sought_text
    return {index: text_by_candidate[index] for index in sorted(text_by_candidate)}


def fits_several_texts(rivals: Sequence[Occurrence]) -> bool:
    """Whether nothing tells which of several texts a part belongs to.

    Args:
        rivals: Occurrences of different texts at the same bytes of the prompt.
    """
    if len(rivals) < 2:
        return False
    return not any(_is_rightful_owner(rival) for rival in rivals)


def _is_rightful_owner(rival: Occurrence) -> bool:
    """Whether a place belongs to this text, and not to the others that fit it.

    It does if the text has no other bytes, or is a known text without a place, such as
    the question.
    """
    has_no_other_bytes = rival.size == rival.sought_text.size
    return has_no_other_bytes or rival.sought_text.has_unplaced_known_text


def _give_places(
    places: Iterable[Sequence[Occurrence]],
    text_by_candidate: Mapping[int, SoughtText],
    occurrence_by_candidate: dict[int, Occurrence],
) -> None:
    """Give the first candidate the first place of a part, the second the second.

    Example: the header "Contoso handbook" stands at two places, and fits the pages 3
    and 7: page 3 gets the first place, page 7 the second. The place of a candidate that
    is shown elsewhere stays unused.

    Args:
        places: The places, one for each candidate or more.
        text_by_candidate: The candidates that the part fits, by their indexes.
        occurrence_by_candidate: Where each shown candidate stands. Places are added.
    """
    # all occurrences at one place begin at the same byte
    in_order = sorted(places, key=lambda occurrences: occurrences[0].begins_at)
    pairs = zip(text_by_candidate.items(), in_order, strict=False)
    for (candidate_index, sought_text), occurrences in pairs:
        if candidate_index not in occurrence_by_candidate:
            occurrence = _occurrence_of_text(sought_text, occurrences)
            occurrence_by_candidate[candidate_index] = occurrence


def _give_to_nobody(
    places: Iterable[Sequence[Occurrence]],
    text_by_candidate: Mapping[int, SoughtText],
    occurrence_by_candidate: Mapping[int, Occurrence],
) -> None:
    """Note why the candidates that a part fits do not get it.

    The candidates are *unknown*; *not shown* if the part is the title of one of them.
    """
    is_title = _is_title(text_by_candidate, places, occurrence_by_candidate)
    for candidate_index, sought_text in text_by_candidate.items():
        if candidate_index not in occurrence_by_candidate:
            sought_text.why_not_shown = _PART_OF_SHOWN if is_title else _PART_OF_SEVERAL


def _is_title(
    candidate_indexes: Iterable[int],
    places: Iterable[Sequence[Occurrence]],
    occurrence_by_candidate: Mapping[int, Occurrence],
) -> bool:
    """Whether a part is a title of one of its candidates, which is whole elsewhere.

    A part that is itself a whole candidate is no title.

    Args:
        candidate_indexes: The candidates that the part fits.
        places: The occurrences at each place of the part.
        occurrence_by_candidate: Where each shown candidate stands, by its index.
    """
    if any(occurrence.is_whole for occurrence in chain(*places)):
        return False
    shown_elsewhere = [
        occurrence_by_candidate[index]
        for index in candidate_indexes
        if index in occurrence_by_candidate
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
