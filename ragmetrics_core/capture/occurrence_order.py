"""In which order occurrences compete for the bytes of a prompt. Pure.

An occurrence is a place at which a prompt shows a text, whole or in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ragmetrics_core.capture.byte_spans import (
    LONGEST_STEP,
    split_into_runs,
    total_size,
)
from ragmetrics_core.capture.matching import RESUMED_LENGTH
from ragmetrics_core.capture.occurrences import (
    Occurrence,
    count_free_bytes,
    take_bytes,
)


def best_first(
    occurrences: Sequence[Occurrence], *, prompt_size: int
) -> list[Occurrence]:
    """Sort occurrences: the longest first, and last the ones that fuller ones cover.

    Args:
        occurrences: The occurrences.
        prompt_size: The number of bytes of the prompt's letters.
    """
    covered = _covered_by_fuller(occurrences, prompt_size)

    def rank(occurrence: Occurrence) -> tuple[object, ...]:
        return occurrence in covered, *_rank(occurrence)

    return sorted(occurrences, key=rank)


def _rank(occurrence: Occurrence) -> tuple[object, ...]:
    """Return what occurrences are sorted by: the longest first.

    Of equally long occurrences the one with most equal bytes comes first, then the one
    that shows most of its text, then a known text, then the first candidate.
    """
    sought_text = occurrence.sought_text
    is_candidate = not sought_text.n_known_texts
    first_candidate_index = sought_text.candidate_indexes[:1]
    return (
        -_competing_length(occurrence),
        -occurrence.size,
        -occurrence.share_of_text,
        is_candidate,
        first_candidate_index,
        occurrence.begins_at,
    )


def _competing_length(occurrence: Occurrence) -> int:
    """Count the bytes with which an occurrence competes: all bytes of a whole text.

    Of a part only its longest run counts, less 24 bytes: what stands around a text may
    be equal to the next bytes of another text by chance.
    """
    if occurrence.is_whole:
        return occurrence.size
    runs = split_into_runs(occurrence.spans)
    return max(total_size(run) for run in runs) - LONGEST_STEP


def _covered_by_fuller(
    occurrences: Sequence[Occurrence], prompt_size: int
) -> set[Occurrence]:
    """Find the occurrences whose bytes belong to texts that are shown more fully.

    Example: a page was divided into chunks, and a prompt shows two of these, each to
    100 %. The same bytes are 60 % of the page. So they belong to the chunks, and the
    occurrence of the page is covered.

    Of two texts shown to 100 %, the one into which nothing is put is shown more fully.
    """
    covered: set[Occurrence] = set()
    # each text stands there whole and unbroken: no text is fuller than another
    if all(occurrence.is_unbroken for occurrence in occurrences):
        return covered
    # 1 for each byte that belongs to a whole text, such as a chunk, that is shown more
    # fully than the occurrences which are still to come
    taken_by_fuller = bytearray(prompt_size)
    fullest_first = sorted(occurrences, key=_fullness, reverse=True)
    for _, equally_full in groupby(fullest_first, key=_fullness):
        equals = list(equally_full)
        # compare all of them before any takes its bytes: equals do not cover each other
        for occurrence in equals:
            n_left_by_fuller = count_free_bytes(taken_by_fuller, occurrence)
            # so few bytes, fewer than twelve, may stand beside the chunks by chance
            if n_left_by_fuller < RESUMED_LENGTH:
                covered.add(occurrence)
        for occurrence in equals:
            if occurrence.is_whole:
                take_bytes(taken_by_fuller, occurrence)
    return covered


def _fullness(occurrence: Occurrence) -> tuple[float, bool]:
    """Return how full an occurrence is: its share of the text, then whether unbroken."""
    return occurrence.share_of_text, occurrence.is_unbroken
