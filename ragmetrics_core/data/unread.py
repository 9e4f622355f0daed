"""Texts that a run found and a capture did not get: why nobody can look at them, in words."""

from ragmetrics_core.data.answered import is_captured_in_part
from ragmetrics_core.data.sample import CaptureNotes, Sample

_KNOWN_BY_IDS = (
    "of some retrieved documents only the ids were recorded; give their texts with"
    " resolve="
)
_SOME_TEXTS = "the texts of some retrieved documents were not recorded"


def why_texts_are_unread(sample: Sample) -> str:
    """Say which texts the run may have found that the sample lacks; "" if none are known.

    Example: a vector store was asked by ids, so its texts were never seen. The sentence
    says what returns them, where the capture noted it. A sample that is incomplete for
    another reason, such as a run that broke off, may lack texts as well: then all that
    the capture warns of is said.
    """
    notes = sample.capture
    if notes is None:
        return ""
    reasons = [_KNOWN_BY_IDS] if notes.other else []  # documents without texts
    reasons += notes.unread_texts or ()
    if reasons:
        return "; ".join(dict.fromkeys(reasons))
    if not _may_lack_texts(sample, notes):
        return ""
    return "; ".join(notes.warnings) or _SOME_TEXTS


def _may_lack_texts(sample: Sample, notes: CaptureNotes) -> bool:
    """Whether a sample whose capture names no text as unread may still lack some."""
    says_which_are_unread = notes.unread_texts is not None
    if notes.grade == "inferred" and not says_which_are_unread:
        return bool(notes.warnings)  # a result of an older version
    # A whole run without an answer is incomplete for that reason, and lacks no text.
    only_lacks_answer = notes.complete and sample.answer is None
    return is_captured_in_part(sample) and not only_lacks_answer
