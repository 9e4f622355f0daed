"""Features of the embedded judge: pure functions of texts taken apart."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from math import log1p
from pathlib import Path
from typing import Any

from ragmetrics_core.data import extra
from ragmetrics_core.lexical.constants import Features
from ragmetrics_core.lexical.text import Passage, Sentence, beginning, names, negated
from ragmetrics_core.models.threads import check_wanted

MOST_SENTENCES = 200
"""Sentences of an answer that are aligned.

A longer answer is judged by its first ones and all of its terms.
"""

Place = tuple[int, int]
_MOST_PLACES = 500
_MOST_NAMES = 10
_MOST_COMPARED = 5_000  # context sentences whose vectors are looked at
# A context sentence says nearly the same as a sentence of the answer if it shares this
# part of its terms, and this part of what the best context sentence shares.
_ALIGNED = 0.6
_NEAR_BEST = 0.9
_OPENING = 3
# weight of the covered share of the reference in the recall rating; the rest is the F1
# of the terms
_COVERAGE = 0.75


@dataclass(frozen=True, slots=True)
class Match:
    """The context sentence that shares most terms with a sentence of the answer.

    Args:
        context: Index of the context; None if no term is found anywhere.
        sentence: Index of the sentence in it.
        share: Share of the answer sentence's terms in that one sentence, in [0, 1].
        remaining: Share of the best overlap of its other terms that remains where the name
            ``apart`` stands, in [0, 1]; the least over its names, 1.0 if it has none.
        apart: The terms of that name; empty if all names stand where the rest of the
            sentence does.
        denied: Terms that it negates, while sentences that say nearly the same negate
            nothing.
    """

    context: int | None = None
    sentence: int = 0
    share: float = 0.0
    remaining: float = 1.0
    apart: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()


def _share(sought: AbstractSet[object], found: AbstractSet[object]) -> float:
    """Share of what is sought that is found; 0.0 if nothing is sought."""
    return len(sought & found) / len(sought) if sought else 0.0


def align(answer: Passage, contexts: Sequence[Passage]) -> tuple[Match, ...]:
    """Return the best context sentence for each sentence of the answer.

    Only the first sentences of the answer are aligned. Among equals the earliest
    context sentence is the best.
    """
    places: dict[str, list[Place]] = defaultdict(list)
    for index, context in enumerate(contexts):
        for position, sentence in enumerate(context.sentences):
            check_wanted()
            for term in answer.terms.intersection(sentence.terms):
                # bounds the work for texts of a megabyte
                if len(places[term]) < _MOST_PLACES:
                    places[term].append((index, position))
    return tuple(
        _match(sentence, contexts, places)
        for sentence in answer.sentences[:MOST_SENTENCES]
    )


def _match(
    sentence: Sentence,
    contexts: Sequence[Passage],
    places: Mapping[str, Sequence[Place]],
) -> Match:
    """The best context sentence, and what the others say of names and negations."""
    check_wanted()
    terms = frozenset(sentence.terms)
    n_shared = _shared_terms(terms, places)
    if not n_shared:
        return Match()
    best_place = min(n_shared, key=lambda place: (-n_shared[place], place))
    most_shared = n_shared[best_place]
    threshold = max(_ALIGNED * len(terms), _NEAR_BEST * most_shared)
    alike = [
        contexts[context].sentences[position]
        for (context, position), shared in n_shared.items()
        if shared >= threshold
    ]
    remaining, apart = _name_apart(sentence, n_shared, places)
    context, position = best_place
    return Match(
        context=context,
        sentence=position,
        share=most_shared / len(terms),
        remaining=remaining,
        apart=apart,
        denied=_denied(sentence, alike),
    )


def _shared_terms(
    terms: AbstractSet[str], places: Mapping[str, Sequence[Place]]
) -> Counter[Place]:
    """How many of the terms stand at each place."""
    n_shared: Counter[Place] = Counter()
    for term in terms:
        n_shared.update(places.get(term, ()))
    return n_shared


def _name_apart(
    sentence: Sentence,
    n_shared: Counter[Place],
    places: Mapping[str, Sequence[Place]],
) -> tuple[float, frozenset[str]]:
    """The name of a sentence that stands furthest from the rest of the sentence.

    Returns:
        Share of the best overlap of the other terms that remains where the name stands,
        and the name's terms; 1.0 and no terms if all names stand where the rest does.
    """
    remaining, apart = 1.0, frozenset[str]()
    for name in names(sentence.text)[:_MOST_NAMES]:
        n_of_name = _shared_terms(name, places)
        best_rest = max(shared - n_of_name[place] for place, shared in n_shared.items())
        rests_beside_name = [
            n_shared[place] - len(name)
            for place, shared in n_of_name.items()
            if shared == len(name)
        ]
        if rests_beside_name and max(rests_beside_name) < remaining * best_rest:
            remaining, apart = max(rests_beside_name) / best_rest, name
    return remaining, apart


def _denied(sentence: Sentence, alike: Sequence[Sentence]) -> frozenset[str]:
    """Terms that a sentence negates.

    There are none unless sentences say nearly the same, and none of these negates
    anything.
    """
    if not alike or any(negated(context.text) for context in alike):
        return frozenset()
    # "May, not June" affirms
    return negated(sentence.text.replace(", not ", ", "))


def adherence(
    answer: Passage, contexts: Sequence[Passage], matches: Sequence[Match]
) -> Features:
    """Features of an answer against its contexts, aligned in ``matches``.

    Returns:
        Share of the answer's terms found in the contexts, share of its bigrams, mean
        over its sentences of the share in the best context sentence, least share of
        such an overlap that remains where a name stands, share of its names found in
        the contexts. An answer without bigrams takes the first for the second.
    """
    terms = frozenset[str]().union(*(context.terms for context in contexts))
    bigrams = frozenset[tuple[str, str]]().union(
        *(context.bigrams for context in contexts)
    )
    term_share = _share(answer.terms, terms)
    bigram_share = term_share
    if answer.bigrams:
        bigram_share = _share(answer.bigrams, bigrams)
    sentence_share = _mean([match.share for match in matches], default=0.0)
    least_remaining = min((match.remaining for match in matches), default=1.0)
    is_name_found: list[bool] = []
    for sentence in answer.sentences[:MOST_SENTENCES]:
        is_name_found += [name <= terms for name in names(sentence.text)]
    name_share = _mean(is_name_found, default=1.0)
    return term_share, bigram_share, sentence_share, least_remaining, name_share


def _mean(values: Sequence[float], *, default: float) -> float:
    return sum(values) / len(values) if values else default


def usefulness(question: Passage, answer: Passage, chunk: Passage) -> Features:
    """Features of a chunk against a question and its answer.

    No other chunk is looked at.

    Returns:
        Share of the answer's terms that the question does not hold (of the question's
        terms if there are none) found in the chunk; how many bigrams of both it shares,
        on a logarithmic scale; share of its first three terms that stand in either,
        because texts tend to open with their subject.
    """
    sought = answer.terms - question.terms or question.terms
    terms = question.terms | answer.terms
    n_bigrams = len((question.bigrams | answer.bigrams) & chunk.bigrams)
    opening = chunk.sentences[0].terms[:_OPENING] if chunk.sentences else ()
    opening_share = _mean([term in terms for term in opening], default=0.0)
    return _share(sought, chunk.terms), log1p(n_bigrams) / 3, opening_share


def presence(fact: Passage, context: Passage) -> Features:
    """Features of a fact against a context, each 0 for a fact without a content term.

    Returns:
        Share of the fact's terms that the context holds, itself or another word that
        begins with the same four letters; share in the best sentence; share in the
        context, the terms themselves only.
    """
    if not fact.terms:
        return 0.0, 0.0, 0.0
    n_in_sentences = [
        len(fact.terms.intersection(sentence.terms)) for sentence in context.sentences
    ]
    best = max(n_in_sentences, default=0)
    share_alike = 1 - len(absent(fact, context)) / len(fact.terms)
    return share_alike, best / len(fact.terms), _share(fact.terms, context.terms)


def absent(fact: Passage, context: Passage) -> frozenset[str]:
    """Terms of a fact that a context does not hold, nor any word that begins alike."""
    return frozenset(
        term
        for term in fact.terms - context.terms
        if beginning(term) not in context.beginnings
    )


def likeness(answer: Passage, reference: Passage) -> float:
    """Return how much of the reference an answer covers, from 0.0 to 1.0.

    It is blended with the F1 of both term sets. It is 1.0 if these are equal.
    """
    shared = len(answer.terms & reference.terms)
    if not shared:
        return 0.0
    f1 = 2 * shared / (len(answer.terms) + len(reference.terms))
    return _COVERAGE * shared / len(reference.terms) + (1 - _COVERAGE) * f1


@cache
def model() -> Any:
    """The vectors, loaded once per process; ``MissingDependency`` without the extra."""
    package = extra("wordllama", "vectors", "The embedded judge with sentence vectors")
    return package.WordLlama.load(
        cache_dir=Path(package.__file__).parent, disable_download=True
    )


def nearness(answer: Passage, contexts: Sequence[Passage]) -> float:
    """Return the mean nearness of the answer's sentences to the contexts, in [0, 1].

    The nearness of a sentence is the cosine with the nearest context sentence. The mean
    is 0.0 if the answer or the contexts have no sentence.
    """
    answer_texts = [sentence.text for sentence in answer.sentences[:MOST_SENTENCES]]
    context_texts = [
        sentence.text for context in contexts for sentence in context.sentences
    ][:_MOST_COMPARED]
    if not answer_texts or not context_texts:
        return 0.0
    encodable = [
        text.encode("utf-8", "replace").decode()
        for text in answer_texts + context_texts
    ]
    vectors = model().embed(encodable, norm=True)
    answer_vectors = vectors[: len(answer_texts)]
    context_vectors = vectors[len(answer_texts) :]
    nearest = (answer_vectors @ context_vectors.T).max(axis=1)
    return min(1.0, max(0.0, float(nearest.mean())))
