"""Splits texts into sentences, by rules alone."""

import re
from collections.abc import Iterator

LONGEST_SENTENCE = 1000
"""Most characters of a sentence; a longer one is cut at white space.

So the work per sentence is bounded.
"""

_BREAK = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？｡।]+[」』”]*|\n+")
_ABBREVIATION = re.compile(
    r"(?:(?m:^)|[\s(.])(?:[A-Za-z]|Dr|Mr|Mrs|Ms|St|Prof|Jr|Sr|vs|No|Inc|Ltd|Co|approx|etc)\.$|(?m:^)["
    r" \t]*\d{1,2}\.$"
)
_LONGEST_ABBREVIATION = 12  # characters, with those around it


def split_sentences(text: str) -> list[str]:
    """Sentences of a text in order, none longer than ``LONGEST_SENTENCE``.

    Returns:
        Sentences without surrounding white space; [] for a blank text.
    """
    sentences: list[str] = []
    start = 0
    for end_sign in _BREAK.finditer(text):
        if _ends_abbreviation(end_sign, text, start):
            continue
        sentences += _cut_long_sentence(text[start : end_sign.end()])
        start = end_sign.end()
    sentences += _cut_long_sentence(text[start:])
    return [sentence for sentence in sentences if sentence]


def _ends_abbreviation(end_sign: re.Match[str], text: str, start: int) -> bool:
    """True for a full stop behind an abbreviation or the number of a list's item."""
    if end_sign[0] != ".":
        return False
    end = end_sign.end()
    longest_before = max(start, end - _LONGEST_ABBREVIATION)
    return _ABBREVIATION.search(text, longest_before, end) is not None


def _cut_long_sentence(sentence: str) -> Iterator[str]:
    """Cut a sentence that is too long at white space, or in a word where there is none.

    A short one is one piece. Pieces may be empty.
    """
    sentence = sentence.strip()
    start = 0
    while len(sentence) - start > LONGEST_SENTENCE:
        end = sentence.rfind(" ", start + 1, start + LONGEST_SENTENCE)
        if end <= start:  # no space
            end = start + LONGEST_SENTENCE
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()
