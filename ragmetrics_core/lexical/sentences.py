"""Sentences and clauses of a text."""

import re

LONGEST_SENTENCE = 1000
"""Characters; longer sentences are cut at white space, so that the work per sentence is bounded."""

_BREAK = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？｡।]+[」』”]*|\n+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(.])(?:[A-Za-z]|Dr|Mr|Mrs|Ms|St|Prof|Jr|Sr|vs|No|Inc|Ltd|Co|approx|etc)\.$|(?m:^)[ \t]*\d{1,2}\.$"
)
_VERB = "is|are|was|were|has|have|had|can|could|will|would|did|does"
_CLAUSE = re.compile(rf"; |,? (?:and|but|while|whereas|although) (?=(?:\w+ ){{1,4}}(?:{_VERB})\b)")


def split_sentences(text: str) -> list[str]:
    """Sentences of a text in order, none longer than ``LONGEST_SENTENCE``.

    Returns:
        Sentences without surrounding white space; [] for a blank text.
    """
    sentences: list[str] = []
    start = 0
    for found in _BREAK.finditer(text):
        if found[0] == "." and _ABBREVIATION.search(text, max(start, found.end() - 12), found.end()):
            continue
        sentences += _cut(text[start : found.end()])
        start = found.end()
    return sentences + _cut(text[start:])


def _cut(sentence: str) -> list[str]:
    """Cut a text without sentence ends at white space, or where it must be."""
    sentence = sentence.strip()
    pieces: list[str] = []
    start = 0
    while len(sentence) - start > LONGEST_SENTENCE:
        end = sentence.rfind(" ", start + 1, start + LONGEST_SENTENCE)
        end = end if end > start else start + LONGEST_SENTENCE
        pieces.append(sentence[start:end].strip())
        start = end
    return [piece for piece in (*pieces, sentence[start:].strip()) if piece]


def split_clauses(sentence: str) -> list[str]:
    """Clauses of a sentence in order; a piece of fewer than three words stays with its neighbour."""
    clauses: list[str] = []
    for piece in _CLAUSE.split(sentence):
        if clauses and min(len(piece.split()), len(clauses[-1].split())) < 3:
            clauses[-1] = f"{clauses[-1]} {piece.strip()}"
        elif piece.strip():
            clauses.append(piece.strip())
    return clauses
