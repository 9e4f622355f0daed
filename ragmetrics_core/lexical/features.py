"""Features of the embedded judge, and the fitted weights that make a score of them.

Features are pure functions of texts taken apart. The weights are made by
``python benchmarks/fit_lexical.py DATA --write`` on the developer split (seed-free: the
fit is convex). Each source weighs the same; inside a source the two classes are weighed
to the prior given there. Positive verdicts begin at a probability of one half.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import exp, log1p

from ragmetrics_core.lexical.text import (
    Passage,
    Sentence,
    first_four_letters,
    negated_terms,
    terms_of_names,
)

Features = tuple[float, ...]

MOST_SENTENCES = 200
"""Sentences of an answer that are aligned.

A longer answer is judged by its first ones and all of its terms.
"""

# index of the context, index of the sentence in it
SentencePlace = tuple[int, int]
_MOST_PLACES = 500
_MOST_NAMES = 10
# A context sentence says nearly the same as a sentence of the answer if it shares this
# part of its terms, and this part of what the best context sentence shares.
_LEAST_SHARE_OF_TERMS = 0.6
_LEAST_SHARE_OF_BEST = 0.9
_LEAST_SHARE_OF_BOTH = 0.75
_OPENING = 3
# weight of the covered share of the reference in the recall rating; the rest is the F1
# of the terms
_COVERAGE = 0.75


@dataclass(frozen=True, slots=True)
class Match:
    """The context sentence that shares most terms with a sentence of the answer.

    A name is misplaced that the contexts mention in other sentences. Example: the answer
    says "Carl Voss bought the old mill.", the contexts say "Carl Voss lived in Kiel.
    Anna bought the old mill."

    Args:
        context: Index of the context; None if no term is found anywhere.
        sentence: Index of the sentence in it.
        share: Share of the answer sentence's terms in that one sentence, in [0, 1].
        misplaced_name: The terms of the misplaced name with least support, {"carl",
            "voss"}; empty if there is none.
        name_support: How much of the rest of the answer's sentence a context sentence
            with this name says, as a share of the most that any context sentence says
            of it: 0 of the 3 terms "bought old mill" is 0.0. Without such a name 1.
        denied_terms: Terms that it negates, while context sentences that say nearly the
            same negate nothing; or that those which say the same negate, while it
            negates nothing.
    """

    context: int | None = None
    sentence: int = 0
    share: float = 0.0
    misplaced_name: frozenset[str] = frozenset()
    name_support: float = 1.0
    denied_terms: frozenset[str] = frozenset()


def _share(sought: AbstractSet[object], found: AbstractSet[object]) -> float:
    """Share of what is sought that is found; 0.0 if nothing is sought."""
    if not sought:
        return 0.0
    return len(sought & found) / len(sought)


def align(answer: Passage, contexts: Sequence[Passage]) -> tuple[Match, ...]:
    """Return the best context sentence for each of the answer's first sentences.

    The best one shares most **terms**, which are the stems of the words that carry a
    meaning. Among equals it is the earliest.
    """
    # The context sentences that hold each term: "mill" only in the first context's second
    # sentence is {"mill": [(0, 1)]}. The limit bounds the work for texts of a megabyte.
    places: defaultdict[str, list[SentencePlace]] = defaultdict(list)
    for context_index, context in enumerate(contexts):
        for sentence_index, context_sentence in enumerate(context.sentences):
            for term in answer.terms.intersection(context_sentence.terms):
                if len(places[term]) < _MOST_PLACES:
                    places[term].append((context_index, sentence_index))
    aligned_sentences = answer.sentences[:MOST_SENTENCES]
    return tuple(
        _find_match(sentence, contexts, places) for sentence in aligned_sentences
    )


def _find_match(
    sentence: Sentence,
    contexts: Sequence[Passage],
    places: Mapping[str, Sequence[SentencePlace]],
) -> Match:
    """Find the context sentence that shares most terms with a sentence of the answer.

    Example: "Carl Voss bought the old mill." has five terms. Over "Carl Voss lived in
    Kiel. Anna bought the old mill." the second sentence shares 3 of them, .6.

    Args:
        sentence: The sentence of the answer.
        contexts: The contexts.
        places: The places of the context sentences that hold a term, by the term. A
            **place** is the index of the context and the sentence's index in it.
    """
    terms = frozenset(sentence.terms)
    n_shared_by_place = _count_shared_terms(terms, places)
    if not n_shared_by_place:
        return Match()
    most_shared = max(n_shared_by_place.values())
    # the first, in the order of the contexts
    context_index, sentence_index = min(
        place for place, n in n_shared_by_place.items() if n == most_shared
    )
    # The context sentences that say nearly the same: they share .6 of the sentence's
    # terms, and .9 of what the best one shares.
    least_shared = max(
        _LEAST_SHARE_OF_TERMS * len(terms), _LEAST_SHARE_OF_BEST * most_shared
    )
    similar = [
        contexts[place[0]].sentences[place[1]]
        for place, n_shared in n_shared_by_place.items()
        if n_shared >= least_shared
    ]
    # The name that the contexts mention farthest from the rest of its sentence: "Carl
    # Voss" in the example. None if each stands where that does, or is not mentioned.
    misplaced_name = frozenset[str]()
    name_support = 1.0
    for name_terms in terms_of_names(sentence.text)[:_MOST_NAMES]:
        support = _support_beside_name(name_terms, n_shared_by_place, places)
        if support < name_support:
            misplaced_name, name_support = name_terms, support
    return Match(
        context=context_index,
        sentence=sentence_index,
        share=most_shared / len(terms),
        misplaced_name=misplaced_name,
        name_support=name_support,
        # of "The mill is not old." over "The mill is old.": the term "old"
        denied_terms=_find_denied_terms(sentence, similar),
    )


def _count_shared_terms(
    terms: AbstractSet[str], places: Mapping[str, Sequence[SentencePlace]]
) -> Counter[SentencePlace]:
    """Count how many of the terms each context sentence holds, by its place."""
    n_shared_by_place: Counter[SentencePlace] = Counter()
    for term in terms:
        n_shared_by_place.update(places.get(term, ()))
    return n_shared_by_place


def _support_beside_name(
    name_terms: frozenset[str],
    n_shared_by_place: Mapping[SentencePlace, int],
    places: Mapping[str, Sequence[SentencePlace]],
) -> float:
    """Measure how far the contexts say the same of a name as a sentence of the answer.

    Other terms of that sentence are counted in each context sentence. Example for "Carl
    Voss bought the old mill in Kiel": a context sentence with "Carl Voss" holds only
    "Kiel", 1 term; another one, without the name, holds 4: 1 / 4 = .25. 1.0 if no
    context sentence holds the whole name.

    Args:
        name_terms: The terms of the name.
        n_shared_by_place: For each context sentence, how many terms of the answer's
            sentence it holds, the name's included.
        places: The places of the context sentences that hold a term, by the term.
    """
    n_of_name_by_place = _count_shared_terms(name_terms, places)
    most_anywhere = 0
    most_beside_name = -1
    for place, n_shared in n_shared_by_place.items():
        n_others = n_shared - n_of_name_by_place[place]
        most_anywhere = max(most_anywhere, n_others)
        holds_whole_name = n_of_name_by_place[place] == len(name_terms)
        if holds_whole_name:
            most_beside_name = max(most_beside_name, n_others)
    if most_beside_name < 0 or most_anywhere == 0:
        return 1.0
    return most_beside_name / most_anywhere


def _find_denied_terms(
    sentence: Sentence, similar: Sequence[Sentence]
) -> frozenset[str]:
    """Find the terms that either a sentence of the answer negates or the contexts do.

    Args:
        sentence: The sentence of the answer.
        similar: Context sentences that say nearly the same. Nothing counts as denied
            without any, or if they disagree.
    """
    if not similar:
        return frozenset()
    # "May, not June" affirms
    negated_here = negated_terms(sentence.text.replace(", not ", ", "))
    if negated_here:
        is_negated_there = any(negated_terms(context.text) for context in similar)
        return frozenset() if is_negated_there else negated_here
    # "You can return it" over "You cannot return it": the same but for that
    negated_there = [
        negated_terms(context.text)
        for context in similar
        if _say_the_same(sentence, context)
    ]
    if not negated_there or not all(negated_there):
        return frozenset()
    return frozenset(sentence.terms).intersection(*negated_there)


def _say_the_same(sentence: Sentence, other: Sentence) -> bool:
    """Whether two sentences share most of the terms of either."""
    terms, other_terms = set(sentence.terms), set(other.terms)
    n_most = max(len(terms), len(other_terms))
    return len(terms & other_terms) >= _LEAST_SHARE_OF_BOTH * n_most


def denials(reference: Passage, answer: Passage) -> list[frozenset[str]]:
    """The denied terms of each sentence of a reference that an answer denies.

    Example: "You cannot return it." and "You can return it.": one sentence, {"return"}.
    """
    return [
        match.denied_terms
        for sentence, match in zip(
            reference.sentences, align(reference, [answer]), strict=False
        )
        if match.denied_terms
        and _say_the_same(sentence, answer.sentences[match.sentence])
    ]


def adherence(
    answer: Passage, contexts: Sequence[Passage], matches: Sequence[Match]
) -> Features:
    """Measure in five numbers from 0 to 1 how far the contexts hold what an answer says.

    A **term** is the stem of a word that carries a meaning; a **bigram** is two terms
    one after the other.

    Args:
        answer: The answer, taken apart.
        contexts: The contexts, taken apart.
        matches: The nearest context sentence of each sentence of the answer.

    Returns:
        1. The share of the answer's terms that stand in the contexts.
        2. The share of its bigrams that stand there.
        3. The mean share of a sentence's terms in the nearest context sentence.
        4. How far the contexts say the same of a name as the answer; of several names
           the least value counts.
        5. The share of its names that the contexts hold.

        Example: "Carl Voss bought the old mill." over "Carl Voss lived in Kiel. Anna
        bought the old mill.": 1.0, .75, .6, 0.0 (of Carl Voss the contexts do not say
        that he bought the old mill), 1.0.
    """
    terms = frozenset[str]().union(*(context.terms for context in contexts))
    term_share = _share(answer.terms, terms)
    bigram_share = term_share
    if answer.bigrams:
        bigrams = frozenset[tuple[str, str]]().union(
            *(context.bigrams for context in contexts)
        )
        bigram_share = _share(answer.bigrams, bigrams)
    sentence_share = _mean([match.share for match in matches], default=0.0)
    # A name is misplaced if the context sentences with it say less of the answer's
    # sentence than others do: 1 term in place of 4 is .25.
    least_name_support = min((match.name_support for match in matches), default=1.0)
    is_name_found: list[bool] = []
    for sentence in answer.sentences[:MOST_SENTENCES]:
        is_name_found += [name <= terms for name in terms_of_names(sentence.text)]
    name_share = _mean(is_name_found, default=1.0)
    return term_share, bigram_share, sentence_share, least_name_support, name_share


def _mean(values: Sequence[float], *, default: float) -> float:
    if not values:
        return default
    return sum(values) / len(values)


def usefulness(question: Passage, answer: Passage, chunk: Passage) -> Features:
    """Measure in three numbers how useful a chunk is for an answer to a question.

    A **term** is the stem of a word that carries a meaning; a **bigram** is two terms
    one after the other.

    Returns:
        1. The share of the sought terms that the chunk holds. Sought are the terms that
           the answer adds to the question.
        2. How many bigrams of question and answer the chunk holds, on a logarithmic
           scale.
        3. The share of the chunk's first three terms, often its subject, that stand in
           question or answer.

        Example: "Which city lies on the Douro?" – "Porto lies on the Douro.", chunk
        "Porto is a city in Portugal.": 1.0 (Porto), 0.0, .67 (Porto, city).
    """
    # an answer that adds nothing: the question's terms are sought
    terms_of_answer_alone = answer.terms - question.terms
    sought = terms_of_answer_alone or question.terms
    sought_share = _share(sought, chunk.terms)
    terms = question.terms | answer.terms
    bigrams = question.bigrams | answer.bigrams
    n_shared_bigrams = len(bigrams & chunk.bigrams)
    first_terms: tuple[str, ...] = ()
    if chunk.sentences:  # the terms of a sentence are in the order of the text
        first_terms = chunk.sentences[0].terms[:_OPENING]
    opening_share = _mean([term in terms for term in first_terms], default=0.0)
    bigram_score = log1p(n_shared_bigrams) / 3  # on this scale the judge was fitted
    return sought_share, bigram_score, opening_share


def presence(fact: Passage, context: Passage) -> Features:
    """Measure in three numbers how far a context holds a fact.

    They are shares of the fact's terms: the share in the context, where a word that
    begins alike counts; the highest share in a single sentence; and the share held
    exactly. Example: "Porto lies on the Douro" in "Porto is a city. It lies in
    Portugal.": 2/3, 1/3, 2/3. Each is 0.0 for a fact without a term.
    """
    n_terms = len(fact.terms)
    if n_terms == 0:
        return 0.0, 0.0, 0.0
    n_absent = len(absent_terms(fact, context))
    share_alike = 1 - n_absent / n_terms
    most_in_sentence = 0
    for sentence in context.sentences:
        n_in_sentence = len(fact.terms.intersection(sentence.terms))
        most_in_sentence = max(most_in_sentence, n_in_sentence)
    share_in_sentence = most_in_sentence / n_terms
    return share_alike, share_in_sentence, _share(fact.terms, context.terms)


def absent_terms(fact: Passage, context: Passage) -> frozenset[str]:
    """Terms of a fact that a context does not hold, nor any word that begins alike."""
    missing = fact.terms - context.terms
    return frozenset(
        term
        for term in missing
        if first_four_letters(term) not in context.first_four_letters_of_words
    )


def rate_coverage(answer: Passage, reference: Passage) -> float:
    """Return how much of the reference an answer covers, from 0.0 to 1.0.

    It is blended with the F1 of both term sets. It is 1.0 if these are equal.
    """
    n_shared = len(answer.terms & reference.terms)
    if n_shared == 0:
        return 0.0
    n_answer = len(answer.terms)
    n_reference = len(reference.terms)
    f1 = 2 * n_shared / (n_answer + n_reference)
    weighted_recall = _COVERAGE * n_shared / n_reference
    return weighted_recall + (1 - _COVERAGE) * f1


_LARGEST = 700.0  # exp() overflows a little above


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic regression: log-odds where every feature is 0, and weights.

    There is one weight per feature, none negative.
    """

    intercept: float
    slopes: Features

    def probability(self, features: Features) -> float:
        """Probability of a positive verdict, in [0, 1].

        At one half the verdict turns.
        """
        logit = self.intercept + sum(
            slope * value for slope, value in zip(self.slopes, features, strict=True)
        )
        bounded = max(-_LARGEST, min(_LARGEST, logit))
        return 1 / (1 + exp(-bounded))


# fitted: begin
ADHERENT = Weights(intercept=-4.2449, slopes=(2.4527, 1.2979, 1.6788, 0.9662, 1.164))
USEFUL = Weights(intercept=-2.6009, slopes=(3.4432, 2.7402, 2.1507))
FACT = Weights(intercept=-2.712, slopes=(2.1539, 1.2418, 1.1303))
# fitted: end

UNCERTAIN = (0.27, 0.66)
"""Scores of adherence that the judge calls uncertain: from the first to the second.

Outside it decides 58 % of the answers, and of these at most 25 % wrongly, as the mean
over four developer sources, each judged with weights fitted on the others: the point of
25 % of its card (``docs/cards/lexical.json``, 404 answers, 2026-11-21). A source that
the card does not know may be worse.
"""
UNCERTAIN_DISTANCE = 0.1
"""Other verdicts are uncertain where they are nearer to one half than this."""

VETO = 0.49
"""A number found nowhere multiplies the probability by this.

An answer that denies the contexts has it at most.
"""
