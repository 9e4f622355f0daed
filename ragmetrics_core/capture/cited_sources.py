"""Citations of structured answers: sources that are named by an id, or by a quote. Pure.

The answer ``{"answer": "It fell.", "citations": [{"id": "b"}]}`` cites the context with
the id "b", for all of its text. Marks in the text of an answer are read by
``citations_of_marks``.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.data import Citation, Context
from ragmetrics_core.data.citations import places_of
from ragmetrics_core.data.marks import Numbering, plain_label

_WHOLE = 0.9  # of a quote's letters; a model may leave out a word, or change one
_LONGEST_LABEL = 80
# of a quote that joins parts of several texts; a shorter one stands anywhere by chance
_FEWEST_LETTERS_OF_A_PART = 12


@dataclass(frozen=True, slots=True)
class QuotedContexts:
    """The contexts that a quote comes from; both tuples are empty if none is known.

    Args:
        holding_all: The indexes of the contexts that hold the whole quote.
        making_up: Where none does: the indexes of the contexts whose parts, one after
            the other, are the quote.
    """

    holding_all: tuple[int, ...] = ()
    making_up: tuple[int, ...] = ()

    @property
    def cited(self) -> tuple[int, ...]:
        """The contexts that the quote cites: of several that hold it the first one."""
        return self.holding_all[:1] or self.making_up

    def among(self, indexes: Collection[int]) -> "QuotedContexts":
        """Return the contexts that the quote comes from, out of the given ones."""
        holding_all = tuple(index for index in self.holding_all if index in indexes)
        is_made_up_of_them = set(self.making_up).issubset(indexes)
        making_up = self.making_up if is_made_up_of_them else ()
        return QuotedContexts(holding_all, making_up)


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
        numbering: For each label in the prompt, such as "2", the index of its context.

    Returns:
        A citation for each source. ``start`` and ``end`` span the statement in the
        answer that the source belongs to; if the answer has no such statement, they span
        the whole answer. If no context has the source's id or quote, ``dangling`` holds
        the id, or the beginning of the quote.

    Examples:
        >>> shown = [Context(text="It is old.", id="a"), Context(text="It fell.", id="b")]
        >>> cited = citations_of_sources("It fell.", [CitedSource("b"), CitedSource("z")], shown)
        >>> [(one.contexts, one.dangling) for one in cited]
        [((1,), ()), ((), ('z',))]
    """
    text = answer or ""
    quotes = [source.quote for source in sources]
    quoted_contexts = contexts_of_quotes(quotes, contexts)
    citations: list[Citation] = []
    for source, quoted in zip(sources, quoted_contexts, strict=True):
        start, end = span_of_source(source, text)
        indexes = _indexes_of_source(source, quoted, contexts, numbering or {})
        dangling: tuple[str, ...] = ()
        if not indexes:
            # no context has the id "z", or the quote
            name = str(source.id) if source.id is not None else source.quote or ""
            dangling = (name[:_LONGEST_LABEL],)
        citations.append(
            Citation(start=start, end=end, contexts=indexes, dangling=dangling)
        )
    return tuple(citations)


def _indexes_of_source(
    source: CitedSource,
    quoted: QuotedContexts,
    contexts: Sequence[Context],
    numbering: Numbering,
) -> tuple[int, ...]:
    """Find the indexes of the contexts that a source of a structured answer names.

    ``{"id": 2}`` names the context that the prompt shows as "[2]", and ``{"id": "b"}``
    the context with the id "b". ``{"quote": "It fell."}`` names the context that holds
    this quote. () if the source names no context.

    Args:
        source: The source.
        quoted: Where the source's quote stands: ``cited`` are the indexes of these
            contexts, () without a quote.
        contexts: What the model was shown.
        numbering: For each label in the prompt, such as "2", the indexes of its
            contexts: one index, or several for the name of a file.
    """
    if source.id is None:
        return quoted.cited  # a source with a quote alone
    name = str(source.id).strip()
    for label in (name, plain_label(name)):  # "Source 2", then "2"
        if label in numbering:
            return places_of(label, numbering)
    indexes = tuple(
        index for index, context in enumerate(contexts) if context.id == name
    )
    # several contexts may have the id, as chunks of one file: the quote tells which
    return quoted.among(indexes).cited or indexes


def contexts_of_quotes(
    quotes: Sequence[str | None], contexts: Sequence[Context]
) -> list[QuotedContexts]:
    """Find for each quote the contexts that it comes from; none for None or a blank."""
    texts = [context.text for context in contexts]
    return [_contexts_of_quote(quote or "", texts) for quote in quotes]


def _contexts_of_quote(quote: str, texts: Sequence[str]) -> QuotedContexts:
    """Find the texts that hold a quote, else the texts that it joins.

    Example: "It is old.It fell." joins the texts "It is old." and "It fell.".
    """
    if not quote.strip() or not texts:
        return QuotedContexts()
    holding_all = tuple(
        index for index, text in enumerate(texts) if _has_words(text, quote)
    )
    holding_all = holding_all or _text_with_most_of(quote, texts)
    if holding_all:
        return QuotedContexts(holding_all)
    return QuotedContexts(making_up=_texts_making_up(quote, texts))


def _text_with_most_of(quote: str, texts: Sequence[str]) -> tuple[int, ...]:
    """Find the text that holds a quote up to a few words; () if none does.

    A model may leave out a word of a quote, or change one: "It opened in May 1874" for
    "It was opened in May 1874".
    """
    (place_among_all,) = locate([quote], texts).findings
    index = place_among_all.message_index
    if index is None:
        return ()
    # the finding may join parts of the quote from several texts
    (place_in_text,) = locate([quote], texts[index]).findings
    is_there = place_in_text.outcome == "shown" and place_in_text.coverage >= _WHOLE
    return (index,) if is_there else ()


def _texts_making_up(quote: str, texts: Sequence[str]) -> tuple[int, ...]:
    """Return the indexes of the texts that a quote joins, in the quote's order.

    Anthropic joins blocks: of "The bridge is old." and "It fell in 1874.", the quote is
    "The bridge is old.It fell in 1874." Each step takes the text that holds most of the
    quote's beginning. () if a rest of the quote stands in no text.
    """
    letters_of_texts = [letters_of(text) for text in texts]
    letters_left = letters_of(quote)  # in lower case, without blanks and signs
    indexes: list[int] = []
    while letters_left:
        sizes = [_size_begun(letters_left, letters) for letters in letters_of_texts]
        longest = max(sizes)
        if longest < _FEWEST_LETTERS_OF_A_PART:
            return ()  # so few letters stand in any text by chance
        indexes.append(sizes.index(longest))
        letters_left = letters_left[longest:]
    return tuple(dict.fromkeys(indexes))


def _size_begun(quote_letters: bytes, text_letters: bytes) -> int:
    """Count the letters of the longest beginning of a quote that stands in a text."""
    found, not_found = 0, len(quote_letters) + 1
    while not_found - found > 1:
        middle = (found + not_found) // 2
        if quote_letters[:middle] in text_letters:
            found = middle
        else:
            not_found = middle
    return found


def _has_words(text: str, quote: str) -> bool:
    """Whether a text holds a quote as whole words."""
    words = r"\s+".join(map(re.escape, quote.split()))
    return re.search(rf"(?<!\w){words}(?!\w)", text, re.IGNORECASE) is not None


def span_of_source(source: CitedSource, answer: str) -> tuple[int, int]:
    """Return start and end of the part of an answer that a source is cited for.

    The source gives offsets or a statement; otherwise it is cited for the whole answer.

    Examples:
        >>> span_of_source(CitedSource(statement="It fell."), "It is old. It fell.")
        (11, 19)
    """
    whole_answer = 0, len(answer)
    if source.start is not None and source.end is not None:
        lies_in_answer = 0 <= source.start <= source.end <= len(answer)
        return (source.start, source.end) if lies_in_answer else whole_answer
    statement = source.statement
    start = answer.find(statement) if statement else -1
    if statement is None or start < 0:
        return whole_answer
    return start, start + len(statement)
