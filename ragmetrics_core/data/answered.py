"""What the contexts say of an answer before any judge is asked.

The module finds answers without any context, and answers that hold their contexts
themselves.
"""

import re
from collections.abc import Iterator, Mapping

from ragmetrics_core.data.cells import data_in
from ragmetrics_core.data.sample import Sample

# characters of all contexts together; an honest answer may quote less than that whole
_FEWEST = 100
_BLANKS = re.compile(r"\s+")


def answered_without_context(sample: Sample) -> bool:
    """Whether there is an answer, and it is known that no text reached the generator.

    Contexts that were never recorded are not known: a table without their column, a
    trace that holds ids alone.
    """
    if sample.missing("answer") or not (
        sample.missing("contexts") and sample.missing("ledger")
    ):
        return False
    notes = sample.capture
    if notes is not None and notes.grade is not None:
        return notes.evidence_from not in (None, "ids_only")
    return (
        "contexts" in sample.model_fields_set
        or sample.retrieved == ()
        or sample.ledger is not None
    )


def answer_holds_contexts(sample: Sample) -> bool:
    """Tell whether the answer contains each of its contexts whole.

    White space and the escapes of JSON do not count.

    Such an answer supports itself. Contexts of less than a hundred characters together
    are not looked for.
    """
    contexts = [
        _BLANKS.sub("", context.text)
        for context in sample.contexts
        if not context.blank
    ]
    if sample.answer is None or sum(map(len, contexts)) < _FEWEST:
        return False
    answer = _BLANKS.sub("", "".join(_texts_in(data_in(sample.answer))))
    return all(context in answer for context in contexts)


def _texts_in(value: object) -> Iterator[str]:
    """All texts in data, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts_in(inner)
