"""What the contexts say of an answer before any judge is asked.

The module finds answers without any context, and answers that hold their contexts
themselves.
"""

from collections.abc import Iterator, Mapping

from ragmetrics_core.data.cells import data_in
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.sample import Sample

# Characters of all contexts together; an honest answer may quote fewer as a whole.
_FEWEST_CHARACTERS = 100
_BLANKS = lazy_pattern(r"\s+")


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


def answer_holds_contexts(sample: Sample) -> bool:
    """Tell whether the answer contains each of its contexts whole.

    White space and the escapes of JSON do not count.

    Such an answer supports itself. Contexts of less than a hundred characters together
    are not looked for.
    """
    contexts = [
        _BLANKS.sub("", context.text)
        for context in sample.known_contexts
        if not context.blank
    ]
    n_characters = sum(len(context) for context in contexts)
    if sample.answer is None or n_characters < _FEWEST_CHARACTERS:
        return False
    # An answer that is JSON holds a context as one of its texts, without escapes.
    answer_texts = _texts_in(data_in(sample.answer))
    answer = _BLANKS.sub("", "".join(answer_texts))
    return all(context in answer for context in contexts)


def _texts_in(value: object) -> Iterator[str]:
    """Yield all texts in data, in order: of a mapping its values, not its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts_in(inner)
