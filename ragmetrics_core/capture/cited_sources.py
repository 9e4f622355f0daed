"""The quotes of a structured answer: which contexts each comes from, and what it is cited for. Pure."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.data import Context

_WHOLE = 0.9  # of a quote's letters; a model may leave out a word, or change one
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
        """The contexts that the quote may come from: all that hold it, else its parts."""
        return self.holding_all or self.making_up

    def among(self, context_indexes: Collection[int]) -> "QuotedContexts":
        """Return the contexts that the quote comes from, out of the given ones."""
        holding_all = tuple(
            index for index in self.holding_all if index in context_indexes
        )
        is_made_up_of_them = set(self.making_up).issubset(context_indexes)
        making_up = self.making_up if is_made_up_of_them else ()
        return QuotedContexts(holding_all, making_up)


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
    normalized_texts = [normalize_text(text) for text in texts]
    normalized_rest = normalize_text(quote)  # in lower case, without blanks and signs
    context_indexes: list[int] = []
    while normalized_rest:
        sizes = [
            _size_begun(normalized_rest, normalized) for normalized in normalized_texts
        ]
        longest = max(sizes)
        if longest < _FEWEST_LETTERS_OF_A_PART:
            return ()  # so few letters stand in any text by chance
        context_indexes.append(sizes.index(longest))
        normalized_rest = normalized_rest[longest:]
    return tuple(dict.fromkeys(context_indexes))


def _size_begun(normalized_quote: bytes, normalized_text: bytes) -> int:
    """Count the letters of the longest beginning of a quote that stands in a text."""
    found, not_found = 0, len(normalized_quote) + 1
    while not_found - found > 1:
        middle = (found + not_found) // 2
        if normalized_quote[:middle] in normalized_text:
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
