"""Texts that a run found and a capture did not get: why nobody can look at them, in words."""

from collections.abc import Sequence

from ragmetrics_core.data.answered import is_captured_in_part
from ragmetrics_core.data.sample import Sample

TEXTS_NOT_RECORDED = "the text of {} retrieved documents was not recorded"
SEARCHES_NOT_ENDED = (
    "searches that had not ended when the run did: {}; what they found is not known"
)
HANDS_ON_NOTHING = "the framework hands on nothing of what it found"

_KNOWN_BY_IDS = (
    "of some retrieved documents only the ids were recorded; give their texts with"
    " resolve="
)
_TEXTS_MISSING = TEXTS_NOT_RECORDED.partition("{}")[2]
# The words by which a warning of a capture tells of texts that it did not get.
_SIGNS_OF_UNREAD_TEXTS = (
    _TEXTS_MISSING,
    SEARCHES_NOT_ENDED.partition("{}")[0],
    HANDS_ON_NOTHING,
)


def why_texts_are_unread(sample: Sample) -> str:
    """Say which texts the run may have found that the sample lacks; "" if none are known."""
    notes = sample.capture
    if notes is None:
        return ""
    reasons = [_KNOWN_BY_IDS] if notes.other else []
    telling_warnings = _warnings_from_first_sign(notes.warnings)
    if telling_warnings:
        reasons += _without_counts(telling_warnings)
    elif notes.other or _lacks_more_than_the_answer(sample):
        reasons += _without_counts(notes.warnings)
    else:
        return ""
    if not reasons:
        reasons.append("the texts of some retrieved documents were not recorded")
    return "; ".join(dict.fromkeys(reasons))


def _warnings_from_first_sign(warnings: Sequence[str]) -> Sequence[str]:
    """Return the first warning that tells of unread texts, and those behind it.

    Those behind it say what would return the texts.
    """
    for index, warning in enumerate(warnings):
        if any(sign in warning for sign in _SIGNS_OF_UNREAD_TEXTS):
            return warnings[index:]
    return ()


def _without_counts(warnings: Sequence[str]) -> list[str]:
    """Leave out warnings that count texts, so that samples give the same reason."""
    return [warning for warning in warnings if _TEXTS_MISSING not in warning]


def _lacks_more_than_the_answer(sample: Sample) -> bool:
    """Tell whether a capture broke, and not only has no answer since the run retrieved."""
    notes = sample.capture
    has_only_retrieved = notes is not None and notes.complete and sample.answer is None
    return is_captured_in_part(sample) and not has_only_retrieved
