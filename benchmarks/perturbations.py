"""Small edits that make a supported answer wrong, of labelled rows: see ``labelling.measured_judges``."""

from __future__ import annotations

from labelled import Row, sample_of

from ragmetrics_core.labelling.measured_judges import EDITS as KINDS
from ragmetrics_core.labelling.measured_judges import edit_answer

__all__ = ["KINDS", "perturbed"]


def perturbed(kind: str, row: Row) -> str | None:
    """The answer of a row after one edit, the same at every call.

    None if the edit does not apply to it.
    """
    return edit_answer(kind, sample_of(row))
