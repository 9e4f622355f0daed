"""What is left of a passage that was cut on the way into the prompt.

The shown part of a passage is the text of its contexts: pieces of the passage, joined
by " … ".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ragmetrics_core.data.telling_words import telling_words
from ragmetrics_core.reporting.unasked_texts import states_word_by_word

BETWEEN_PIECES = " … "  # joins the pieces of a text in a context
# stand there if the prompt has other words than the text's first or last ones
_BEFORE_FIRST_PIECE = "… "
_BEHIND_LAST_PIECE = " …"
# So many characters of a passage at most may be said in other words where they lack
# before a piece of it. Where more lack, they were cut away.
_LONGEST_GAP = 120


def are_words_cut_away(text: str, shown_part: str, fact: str) -> bool:
    """Whether a cut text states a fact in words that stand in no shown part.

    Example: of "Opened in 1889. It is tall." only "It is tall." was shown: True for the
    fact "opened in 1889". It is True

    - if the text states the fact word by word, and the shown part does not;
    - if the shown part lacks a number that fact and text share;
    - if the shown part lacks half of the words that fact and text share.

    False if fewer words lack: the prompt may say the fact in other words. False also if
    fact and text share no word, or if the shown part is not recorded: nothing is
    known.

    Args:
        text: The text of the passage.
        shown_part: What is shown of it; "" if that is not recorded, since another call
            was shown it.
        fact: The fact.
    """
    if not shown_part:
        return False
    return lacks_words_of(text, with_small_gaps_filled(text, shown_part), fact)


def lacks_words_of(text: str, shown_part: str, fact: str) -> bool:
    """Whether a part of a text lacks words in which the text states a fact.

    The rules are those of ``are_words_cut_away``, but no gap between two pieces of the
    part counts as said in other words: it is known that nothing stood there.
    """
    if states_word_by_word(text, fact):
        return not states_word_by_word(shown_part, fact)
    shared_words = set(telling_words(fact)).intersection(telling_words(text))
    lacking_words = shared_words.difference(telling_words(shown_part))
    if any(word.isdigit() for word in lacking_words):
        return True
    return bool(shared_words) and len(lacking_words) >= len(shared_words) / 2


def with_small_gaps_filled(text: str, shown_part: str) -> str:
    """Add to the shown part of a text the few words that lack before its pieces.

    A prompt may say a date or a name in other words. These words of the text are then
    not found in the prompt, but they were not cut away. Examples for "It was opened on 4
    May 1874 by Holm.":

    - "It was opened on … by Holm." gives the whole text.
    - "was opened on 4 May 1874 by Holm." gives the whole text: the prompt may have the
      bridge's name for "It".
    - "It was opened on …" gives the whole text: by the "…" the prompt goes on in other
      words.
    - "It was opened on" stays as it is: the rest was cut off.

    A part that does not consist of pieces of the text is returned unchanged.

    Args:
        text: The text of the passage.
        shown_part: What is shown of it: pieces of the text, joined by " … ".
    """
    spans = _spans_of_pieces(text, shown_part)
    if spans is None:
        return shown_part
    filled = ""
    end = 0  # of the last piece so far, in the text
    for span in spans:
        lacking = text[end : span.start]
        if len(lacking) <= _LONGEST_GAP:
            filled += lacking
        elif filled:
            filled += BETWEEN_PIECES
        filled += text[span.start : span.end]
        end = span.end
    # Words behind the last piece count as shown only if a "…" stands for them.
    has_other_words_behind = shown_part.endswith(_BEHIND_LAST_PIECE)
    lacking_at_end = text[end:]
    if has_other_words_behind and len(lacking_at_end) <= _LONGEST_GAP:
        filled += lacking_at_end
    return filled


def _spans_of_pieces(text: str, shown_part: str) -> list[_Span] | None:
    """Find where the pieces of a shown part stand in the text, one behind the other.

    Example: "It … high" of "It is high": 0 to 2, and 6 to 10. None if there is another
    text among the pieces.
    """
    pieces = shown_part.removeprefix(_BEFORE_FIRST_PIECE)
    pieces = pieces.removesuffix(_BEHIND_LAST_PIECE)
    spans: list[_Span] = []
    end = 0
    for piece in pieces.split(BETWEEN_PIECES):
        start = text.find(piece, end)
        if start < 0:
            return None
        end = start + len(piece)
        spans.append(_Span(start, end))
    return spans


def join_pieces(text: str, pieces: Iterable[str]) -> str:
    """Join pieces of a text in its order; pieces that overlap or meet are one.

    Example: "was opened in 1874" and "The Velm bridge was opened" of "The Velm bridge was
    opened in 1874." give "The Velm bridge was opened in 1874".
    """
    spans: list[_Span] = []
    for start, piece in sorted((text.find(piece), piece) for piece in pieces if piece):
        end = start + len(piece)
        span_before = spans[-1] if spans else None
        # only white space lies between the two, or nothing
        if span_before is not None and not text[span_before.end : start].strip():
            spans[-1] = _Span(span_before.start, max(span_before.end, end))
        else:
            spans.append(_Span(start, end))
    return BETWEEN_PIECES.join(text[span.start : span.end] for span in spans)


class _Span(NamedTuple):
    """Where a part of a text begins and ends."""

    start: int
    end: int
