"""Citations of structured answers: sources that are named by an id, or by a quote. Pure.

Marks in the text of an answer are read by ``citations_of_marks``.
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

    A number is looked up in the numbering first, then the id among those of the
    contexts. Where several contexts have the id, the one that holds the quote counts,
    else all of them. A quote alone names the context that holds it.

    Args:
        answer: The text of the answer.
        sources: What the answer names, in order.
        contexts: What the model was shown.
        numbering: By number, or other label, the place of the context that the prompt
            showed under it.

    Returns:
        A citation for each source; one that names nothing shown is dangling, with its
        id or the beginning of its quote. Those of a statement that does not stand in
        the answer count for all of the answer.

    Examples:
        >>> shown = [Context(text="It is old.", id="a"), Context(text="It fell.", id="b")]
        >>> cited = citations_of_sources("It fell.", [CitedSource("b"), CitedSource("z")], shown)
        >>> [(one.contexts, one.dangling) for one in cited]
        [((1,), ()), ((), ('z',))]
    """
    text = answer or ""
    holders = holders_of_quotes([source.quote for source in sources], contexts)
    citations: list[Citation] = []
    for source, holder in zip(sources, holders, strict=True):
        start, end = span_of_source(source, text)
        places = _places(source, holder, contexts, numbering or {})
        label = str(source.id) if source.id is not None else source.quote or ""
        citations.append(
            Citation(
                start=start,
                end=end,
                contexts=places,
                dangling=() if places else (label[:_LONGEST_LABEL],),
            )
        )
    return tuple(citations)


def _places(
    source: CitedSource,
    holder: int | None,
    contexts: Sequence[Context],
    numbering: Numbering,
) -> tuple[int, ...]:
    """Places of the contexts that a source names; () if it names none."""
    if source.id is None:
        return () if holder is None else (holder,)
    name = str(source.id).strip()
    for label in (name, plain_label(name)):
        if label in numbering:
            return places_of(label, numbering)
    places = tuple(place for place, one in enumerate(contexts) if one.id == name)
    return (holder,) if holder is not None and holder in places else places


def holders_of_quotes(
    quotes: Sequence[str | None], contexts: Sequence[Context]
) -> list[int | None]:
    """For each quote the first context that holds it; None for none."""
    texts = [context.text for context in contexts]
    holders: list[int | None] = []
    for quote in quotes:
        if not (quote or "").strip() or not texts:
            holders.append(None)
            continue
        (place,) = locate([quote or ""], texts).findings
        is_there = place.outcome == "shown" and place.coverage >= _WHOLE
        holders.append(place.message_index if is_there else _holder(quote or "", texts))
    return holders


def _holder(quote: str, texts: Sequence[str]) -> int | None:
    """The first text that holds a few words as whole words: too short to be located."""
    words = r"\s+".join(map(re.escape, quote.split()))
    pattern = re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)
    return next(
        (place for place, text in enumerate(texts) if pattern.search(text)), None
    )


def span_of_source(source: CitedSource, answer: str) -> tuple[int, int]:
    """The part of an answer that a source is named for; all of it if that is not known."""
    if source.start is not None and source.end is not None:
        if 0 <= source.start <= source.end <= len(answer):
            return source.start, source.end
        return 0, len(answer)
    statement = source.statement
    start = answer.find(statement) if statement else -1
    if statement is None or start < 0:
        return 0, len(answer)
    return start, start + len(statement)
