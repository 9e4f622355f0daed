"""Features of the embedded judge: pure functions of texts taken apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import log1p

from ragmetrics_core.lexical.constants import Features
from ragmetrics_core.lexical.text import Passage, beginning

MOST_SENTENCES = 200
"""Sentences of an answer that are aligned; a longer answer is judged by its first ones and all of its terms."""

_MOST_PLACES = 500
_OPENING = 3
_COVERAGE = 0.75  # weight of the covered share of the reference in the recall rating; the rest is the F1 of the terms


@dataclass(frozen=True, slots=True)
class Match:
    """The context sentence that shares most terms with a sentence of the answer.

    Args:
        context: Index of the context; None if no term is found anywhere.
        sentence: Index of the sentence in it.
        share: Share of the answer sentence's terms in that one sentence, in [0, 1].
    """

    context: int | None = None
    sentence: int = 0
    share: float = 0.0


def _share(sought: AbstractSet[object], found: AbstractSet[object]) -> float:
    """Share of what is sought that is found; 0.0 if nothing is sought."""
    return len(sought & found) / len(sought) if sought else 0.0


def align(answer: Passage, contexts: Sequence[Passage]) -> tuple[Match, ...]:
    """For each of the first sentences of the answer the best context sentence, the earliest among equals."""
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for index, context in enumerate(contexts):
        for position, sentence in enumerate(context.sentences):
            for term in answer.terms.intersection(sentence.terms):
                if len(places[term]) < _MOST_PLACES:  # bounds the work for texts of a megabyte
                    places[term].append((index, position))
    matches = []
    for sentence in answer.sentences[:MOST_SENTENCES]:
        terms = set(sentence.terms)
        hits = Counter(place for term in terms for place in places.get(term, ()))
        if hits:
            (index, position), count = min(hits.items(), key=lambda item: (-item[1], item[0]))
            matches.append(Match(index, position, count / len(terms)))
        else:
            matches.append(Match())
    return tuple(matches)


def adherence(answer: Passage, contexts: Sequence[Passage], matches: Sequence[Match]) -> Features:
    """Features of an answer against its contexts.

    Args:
        answer: The answer; without a content term every feature is 0.
        contexts: The contexts.
        matches: The alignment of the two.

    Returns:
        Share of the answer's terms found in the contexts, share of its bigrams, mean over its sentences of the
        share in the best context sentence. An answer without bigrams takes the first for the second.
    """
    terms = frozenset[str]().union(*(context.terms for context in contexts))
    bigrams = frozenset[tuple[str, str]]().union(*(context.bigrams for context in contexts))
    covered = _share(answer.terms, terms)
    best = sum(match.share for match in matches) / len(matches) if matches else 0.0
    return covered, _share(answer.bigrams, bigrams) if answer.bigrams else covered, best


def usefulness(question: Passage, answer: Passage, chunk: Passage) -> Features:
    """Features of a chunk against a question and its answer; no other chunk is looked at.

    Args:
        question: The question.
        answer: The answer.
        chunk: The chunk.

    Returns:
        Share of the answer's terms that the question does not hold (of the question's terms if there are none)
        found in the chunk; how many bigrams of both it shares, on a logarithmic scale; share of its first
        three terms that stand in either, because texts tend to open with their subject.
    """
    new = answer.terms - question.terms or question.terms
    both = question.terms | answer.terms
    shared = len((question.bigrams | answer.bigrams) & chunk.bigrams)
    opening = chunk.sentences[0].terms[:_OPENING] if chunk.sentences else ()
    opened = sum(term in both for term in opening) / len(opening) if opening else 0.0
    return _share(new, chunk.terms), log1p(shared) / 3, opened


def presence(fact: Passage, context: Passage) -> Features:
    """Features of a fact against a context.

    Args:
        fact: The fact; without a content term every feature is 0.
        context: The context.

    Returns:
        Share of the fact's terms that the context holds, itself or another word that begins with the same four
        letters; share in the best sentence; share in the context, the terms themselves only.
    """
    if not fact.terms:
        return 0.0, 0.0, 0.0
    best = max((len(fact.terms.intersection(sentence.terms)) for sentence in context.sentences), default=0)
    alike = 1 - len(absent(fact, context)) / len(fact.terms)
    return alike, best / len(fact.terms), _share(fact.terms, context.terms)


def absent(fact: Passage, context: Passage) -> frozenset[str]:
    """Terms of a fact that a context does not hold, nor any word that begins alike."""
    return frozenset(term for term in fact.terms - context.terms if beginning(term) not in context.beginnings)


def likeness(answer: Passage, reference: Passage) -> float:
    """How much of the reference an answer covers, blended with the F1 of both term sets.

    Args:
        answer: The answer.
        reference: The expected answer.

    Returns:
        In [0, 1]; 0.0 if no term is shared, 1.0 if the term sets are equal.
    """
    shared = len(answer.terms & reference.terms)
    if not shared:
        return 0.0
    f1 = 2 * shared / (len(answer.terms) + len(reference.terms))
    return _COVERAGE * shared / len(reference.terms) + (1 - _COVERAGE) * f1
