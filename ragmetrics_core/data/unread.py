"""Texts that a run found and a capture did not get: why nobody can look at them, in words."""

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
    """Say which texts the run may have found that the sample lacks; "" if none are known.

    The sentence says what returns them, where a warning of the capture says it. A run
    that only retrieved is incomplete because it has no answer. It lacks texts only if a
    warning says so.
    """
    notes = sample.capture
    if notes is None:
        return ""
    indexes_of_signs = [
        index
        for index, warning in enumerate(notes.warnings)
        if any(sign in warning for sign in _SIGNS_OF_UNREAD_TEXTS)
    ]
    has_only_retrieved = notes.complete and sample.answer is None
    is_in_part = is_captured_in_part(sample) and not has_only_retrieved
    if not indexes_of_signs and not notes.other and not is_in_part:
        return ""
    reasons = [_KNOWN_BY_IDS] if notes.other else []
    # What a provider's setting would return is said behind the sign. Where no warning
    # has a sign, all are said, since a reader of traces writes what is missing.
    first_index = min(indexes_of_signs, default=0)
    for warning in notes.warnings[first_index:]:
        # its number would tell samples apart that lack texts for the same reason
        if _TEXTS_MISSING not in warning:
            reasons.append(warning)
    if not reasons:
        reasons.append("the texts of some retrieved documents were not recorded")
    return "; ".join(dict.fromkeys(reasons))
