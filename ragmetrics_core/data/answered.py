"""Answers that were given without any context, as far as that is known."""

from ragmetrics_core.data.sample import Sample


def has_answer_without_context(sample: Sample) -> bool:
    """Whether there is an answer, and it is known that no text reached the generator."""
    return not sample.missing("answer") and lacks_context(sample)


def lacks_context(sample: Sample) -> bool:
    """Tell whether it is known that no text reached the generator.

    Contexts that were never recorded are not known: a table without their column, a
    trace that holds ids alone.
    """
    notes = sample.capture
    is_captured = notes is not None and notes.grade is not None
    # the calls of a row of a table are all that there is to tell
    is_told_by_ledger = sample.ledger is not None and not is_captured
    is_known = sample.contexts is not None or is_told_by_ledger
    return is_known and not sample.context_texts and sample.missing("ledger")


def why_contexts_are_unknown(sample: Sample) -> str:
    """Say why it is not known what the model was shown; "" where that is known.

    It is not known where the capture is incomplete, where contexts were not recorded,
    and where evidence stands in the ledger alone.
    """
    if is_captured_in_part(sample):
        return "the capture is incomplete, so what was shown is not known"
    if sample.context_texts or lacks_context(sample):
        return ""
    if not sample.missing("ledger"):
        return "no contexts, but other evidence that calls brought"
    return "no contexts were recorded"


def is_captured_in_part(sample: Sample) -> bool:
    """Tell whether a sample was captured, and its run broke or told only a part."""
    notes = sample.capture
    return notes is not None and (notes.grade == "incomplete" or not notes.complete)
