"""The law of grades: a sample that is not exact says why, and its words name what is in doubt."""

from __future__ import annotations

from ragmetrics_core.data import CaptureNotes

# what is said of every sample of its kind, beside what is peculiar to it
_OF_ITS_KIND = (
    "the run failed",
    "the run did not end",
    "no answer was found: ",
    "no contexts were found",
    "no prompt tells which texts",
    "which conversation this turn goes on with",
)
_FIELDS = (
    *("question", "answer", "context", "retrieved", "document", "passage"),
    *("conversation", "history", "earlier", "search", "tool", "text", "run"),
)


def warnings_of_its_own(notes: CaptureNotes) -> list[str]:
    """The warnings of a sample but for those that say its grade and nothing else."""
    if notes.grade != "exact":
        assert any(field in words for words in notes.warnings for field in _FIELDS), (
            notes.grade,
            notes.warnings,
        )
    return [words for words in notes.warnings if not words.startswith(_OF_ITS_KIND)]
