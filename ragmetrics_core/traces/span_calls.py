"""The spans of one trace as calls inside one another.

A **call** is a span with what it says, and with the calls inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ragmetrics_core.data import InputError
from ragmetrics_core.traces.dialects import Reading, reading_of
from ragmetrics_core.traces.spans import Span
from ragmetrics_core.traces.unread import cut_spans_of

Resolve = Mapping[str, str] | Callable[[Sequence[str]], Mapping[str, str]]
_DEEPEST = 250  # levels of calls inside one another that are read
# what a function of the user may raise
_RESOLVE_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(eq=False)
class Call:
    """A span, what it says, and the calls inside it.

    Attributes:
        span: The span.
        reading: What it says; None if it bears no known mark.
        inside: The calls inside it, in the order in which they began.
        is_cut: Whether values of the span were cut at a limit of their length.
        lacks_spans: Of an outermost call: whether spans of its trace are missing.
        is_of_framework: Of an outermost call: whether its trace is one of LlamaIndex or
            Haystack, whose spans leave open who asked, and what a model was shown.
    """

    span: Span
    reading: Reading | None
    inside: list[Call] = field(default_factory=list)
    is_cut: bool = False
    lacks_spans: bool = False
    is_of_framework: bool = False

    def walk(self) -> Iterator[Call]:
        """Yield the call and all below it, in the order in which they began."""
        yield self
        for inner in self.inside:
            yield from inner.walk()


def calls_of(
    spans: Sequence[Span], dialect: str | None = None, resolve: Resolve | None = None
) -> list[Call]:
    """Put the spans of a trace inside each other, and return the outermost as calls.

    Example: the spans of a query and of the retriever that it calls become one call,
    the query, with the retriever's call inside. Each call gets a **reading**: what its
    span says, by the names of its dialect.

    Args:
        spans: The spans of one trace, in any order.
        dialect: The only dialect that is read; None for all.
        resolve: Texts of documents, by id, where the spans hold only ids.

    Raises:
        ValueError: If a span cannot be read, or spans stand inside each other in a
            circle or too deep.
        InputError: If ``resolve`` raises.
    """
    # spans that began first, and of these the longest, come first
    ordered = sorted(spans, key=lambda span: (span.start, -span.end, span.id))
    ids_of_cut_spans = cut_spans_of(ordered)
    calls: dict[str, Call] = {}
    for span in ordered:
        is_cut = span.id in ids_of_cut_spans
        reading = reading_of(span.attributes, dialect)
        calls[span.id] = Call(span, reading, is_cut=is_cut)
    has_unreadable_span = "" in calls  # such a span has no id
    if has_unreadable_span:
        raise ValueError("a span cannot be read")

    roots: list[Call] = []
    for call in calls.values():
        parent = calls.get(call.span.parent)
        # Traceloop puts a run of a batch inside the one before it.
        is_run_of_batch = (
            parent is not None
            and call.span.name == parent.span.name
            and call.span.name.endswith(".workflow")
            and not parent.inside
        )
        if parent is None or is_run_of_batch:
            roots.append(call)
        else:
            parent.inside.append(call)
    # calls in a circle, or too deep, are not reached from the roots
    n_reached = 0
    level = roots
    for _ in range(_DEEPEST):
        n_reached += len(level)
        level = list(chain.from_iterable(call.inside for call in level))
    if n_reached < len(calls):
        raise ValueError("spans stand inside each other in a circle or too deep")
    readings = [call.reading for call in calls.values() if call.reading is not None]
    if resolve is not None:
        _resolve_texts(readings, resolve, ordered[0].trace)
    return roots


def _resolve_texts(readings: Sequence[Reading], resolve: Resolve, trace: str) -> None:
    """Give retrieved documents the texts that the spans do not hold.

    Example: a document has the id "7" and no text, and ``resolve`` is {"7": "Rome is
    old."}: it gets this text.

    Args:
        readings: What the spans of a trace say; their documents are changed.
        resolve: What the user gives: texts by ids, or a function that returns them. It
            is called once a trace.
        trace: The id of the trace, for a message.

    Raises:
        InputError: If the function raises, or returns no mapping.
    """
    missing_ids: dict[str, None] = {}  # each once, in order; the values are unused
    for reading in readings:
        for document in reading.documents or ():
            if document.id and not document.text:
                missing_ids[document.id] = None
    if not missing_ids:
        return
    texts: object = resolve
    if not isinstance(resolve, Mapping):
        try:
            texts = resolve(list(missing_ids))
        except _RESOLVE_ERRORS as error:
            raise InputError(
                f"resolve= failed on trace {trace}: {type(error).__name__}: {error}"
            ) from error
    if not isinstance(texts, Mapping):
        raise InputError(
            f"resolve= failed on trace {trace}: it must return a mapping of ids to"
            f" texts, got {type(texts).__name__}"
        )
    for reading in readings:
        if reading.documents:
            documents = []
            for document in reading.documents:
                if document.id and not document.text:
                    text = str(texts.get(document.id) or "")
                    document = replace(document, text=text)
                documents.append(document)
            reading.documents = tuple(documents)
