"""Citations of structured answers: sources that are named by an id, or by a quote. Pure.

The answer ``{"answer": "It fell.", "citations": [{"id": "b"}]}`` cites the context with
the id "b", for all of its text. Marks in the text of an answer are read by
``citations_of_marks``.
"""

import re
from collections.abc import Sequence

from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.data import Citation, Context
from ragmetrics_core.data.citations import places_of
from ragmetrics_core.data.marks import Numbering, plain_label

_WHOLE = 0.9  # of a quote's letters; a model may leave out a word, or change one
_LONGEST_LABEL = 80


def citations_of_sources(
    answer: str | None,
    sources: Sequence[CitedSource],
    contexts: Sequence[Context],
    numbering: Numbering | None = None,
) -> tuple[Citation, ...]:
    """Read the sources that a structured answer names as citations.

    Args:
        answer: The text of the answer.
        sources: What the answer names, in order.
        contexts: What the model was shown.
        numbering: By number, or other label, the index of the context that the prompt
            showed under it.

    Returns:
        A citation for each source. A source that names nothing shown is dangling, with
        its id or the beginning of its quote. A source is cited for its statement; if the
        statement does not stand in the answer, it is cited for the whole answer.

    Examples:
        >>> shown = [Context(text="It is old.", id="a"), Context(text="It fell.", id="b")]
        >>> cited = citations_of_sources("It fell.", [CitedSource("b"), CitedSource("z")], shown)
        >>> [(one.contexts, one.dangling) for one in cited]
        [((1,), ()), ((), ('z',))]
    """
    text = answer or ""
    quotes = [source.quote for source in sources]
    quoted_indexes = indexes_of_quoted_contexts(quotes, contexts)
    citations: list[Citation] = []
    for source, quoted_index in zip(sources, quoted_indexes, strict=True):
        start, end = span_of_source(source, text)
        indexes = _indexes_of_source(source, quoted_index, contexts, numbering or {})
        dangling: tuple[str, ...] = ()
        if not indexes:
            name = str(source.id) if source.id is not None else source.quote or ""
            dangling = (name[:_LONGEST_LABEL],)
        citations.append(
            Citation(start=start, end=end, contexts=indexes, dangling=dangling)
        )
    return tuple(citations)


def _indexes_of_source(
    source: CitedSource,
    quoted_index: int | None,
    contexts: Sequence[Context],
    numbering: Numbering,
) -> tuple[int, ...]:
    """Find the contexts that a source names; () if it names none.

    A source without an id is known by its quote alone.

    Args:
        source: The source.
        quoted_index: The index of the context that holds the source's quote; None if no
            context does.
        contexts: What the model was shown.
        numbering: By number, or other label, the index of the context that the prompt
            showed under it.
    """
    if source.id is None:
        return () if quoted_index is None else (quoted_index,)
    name = str(source.id).strip()
    for label in (name, plain_label(name)):
        if label in numbering:
            return places_of(label, numbering)
    indexes = tuple(
        index for index, context in enumerate(contexts) if context.id == name
    )
    # several contexts may have the id, as chunks of one file: the quote tells which
    if quoted_index is not None and quoted_index in indexes:
        return (quoted_index,)
    return indexes


def indexes_of_quoted_contexts(
    quotes: Sequence[str | None], contexts: Sequence[Context]
) -> list[int | None]:
    """Find for each quote the first context that holds it.

    Args:
        quotes: The quotes; None for a source without one.
        contexts: The contexts.

    Returns:
        For each quote the index of the context; None if no context holds it.
    """
    texts = [context.text for context in contexts]
    indexes: list[int | None] = []
    for quote in quotes:
        if quote is None or not quote.strip() or not texts:
            indexes.append(None)
            continue
        (finding,) = locate([quote], texts).findings
        if finding.outcome == "shown" and finding.coverage >= _WHOLE:
            indexes.append(finding.message_index)
        else:
            # a quote of a few words, such as "in 1874", is too short for ``locate``
            indexes.append(_index_of_text_with_words(quote, texts))
    return indexes


def _index_of_text_with_words(quote: str, texts: Sequence[str]) -> int | None:
    """Find the first text that holds a quote as whole words; None if none does."""
    words = r"\s+".join(map(re.escape, quote.split()))
    pattern = re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)
    for index, text in enumerate(texts):
        if pattern.search(text):
            return index
    return None


def span_of_source(source: CitedSource, answer: str) -> tuple[int, int]:
    """Find the part of an answer that a source is cited for; all of it if that is unknown."""
    if source.start is not None and source.end is not None:
        if 0 <= source.start <= source.end <= len(answer):
            return source.start, source.end
        return 0, len(answer)
    statement = source.statement
    start = answer.find(statement) if statement else -1
    if statement is None or start < 0:
        return 0, len(answer)
    return start, start + len(statement)
