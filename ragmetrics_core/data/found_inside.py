"""What searches inside a retriever found, and the retriever did not hand on whole.

Example: a search finds A, B and C, and the compressing retriever around it returns A and
the first half of B. It dropped C, and cut B. Only what it returned counts as retrieved.
"""

from __future__ import annotations

from ragmetrics_core.data.sample import CaptureNotes, CutPassage, DroppedPassage


def found_inside(
    notes: CaptureNotes | None,
) -> tuple[DroppedPassage | CutPassage, ...]:
    """List the passages that a retriever dropped, then those of which it handed on parts."""
    if notes is None:
        return ()
    return (*(notes.passages_dropped_inside or ()), *(notes.passages_cut_inside or ()))


def without_texts_found_inside(notes: CaptureNotes) -> CaptureNotes:
    """Take the texts of these passages out of the notes, and leave all else."""
    update: dict[str, object] = {}
    if notes.passages_dropped_inside:
        update["passages_dropped_inside"] = tuple(
            passage.model_copy(update={"text": None})
            for passage in notes.passages_dropped_inside
        )
    if notes.passages_cut_inside:
        update["passages_cut_inside"] = tuple(
            passage.model_copy(update={"text": None})
            for passage in notes.passages_cut_inside
        )
    return notes.model_copy(update=update)
