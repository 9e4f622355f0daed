"""The embedded judge: answers questions by word overlap, with no model, no file and no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragmetrics_core.data.errors import QuestionNotSupported
from ragmetrics_core.data.questions import (
    Adherent,
    Answer,
    ChunkVerdict,
    ExtractFacts,
    FactInContext,
    FactVerdict,
    NotAnswered,
    Poll,
    Polls,
    Question,
    R,
    RateRecall,
    RecallRating,
    SentenceSupport,
    Useful,
)
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.lexical import features, reasons
from ragmetrics_core.lexical.constants import ADHERENT, FACT, USEFUL, VETO
from ragmetrics_core.lexical.declining import declines
from ragmetrics_core.lexical.numerals import long_numbers
from ragmetrics_core.lexical.sentences import split_clauses, split_sentences
from ragmetrics_core.lexical.text import Passage, holds, read


class LexicalJudge(Judge):
    """Judges by the words that texts share: free, instant, deterministic, and blind to meaning.

    It wires and tests pipelines without a key and catches gross failures; it is not for decisions. It does not
    see negations, swapped names, or single digits that were changed. Facts of a reference are its sentences and
    clauses. An answer that only declines abstains. Probabilities come from logistic regressions on three features
    each, fitted on human labels.

    Source:
        ``benchmarks/fit_lexical.py`` fits the weights and prints how they do on sources left out;
        ``benchmarks/judge_quality.py`` measures the shipped judge.

    Example:
        >>> import asyncio
        >>> from ragmetrics_core.data.questions import FactInContext, Instructions
        >>> question = FactInContext(instructions=Instructions(""), context="Paris is big.", facts=("Paris is big.",))
        >>> asyncio.run(LexicalJudge().answer(question)).reply[0].probability > 0.5
        True
    """

    name = "lexical"

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        Args:
            question: Any question of ``ragmetrics_core.data.questions``.

        Returns:
            The reply; ``NotAnswered`` with ``QuestionNotSupported`` for questions that need understanding.
        """
        reply = _REPLIES.get(type(question))
        if reply is None:
            return Answer(NotAnswered(_unsupported(question)), Usage())
        return Answer(reply(question), Usage())


def _unsupported(question: Question[Any]) -> QuestionNotSupported:
    return QuestionNotSupported(
        f"the embedded judge 'lexical' counts words and cannot answer questions of type {question.kind!r}; "
        'use a language model instead, e.g. judge="gpt-4o-mini"'
    )


def _adherent(question: Adherent) -> Polls:
    if declines(question.answer, question.standalone_question or question.question):
        return Polls(1, (Poll("abstains", "The answer only declines to answer; it makes no claim."),))
    answer, contexts = read(question.answer), [read(text) for text in question.contexts]
    known = frozenset[str]().union(*(context.numbers for context in contexts))
    alien = {key: written for key, written in long_numbers(question.answer).items() if key not in known}
    if not answer.terms:
        return _adherent_by_wording(question)
    matches = features.align(answer, contexts)
    values = features.adherence(answer, contexts, matches)
    probability = features.probability(ADHERENT, values) * (VETO if alien else 1.0)
    sentences = reasons.support(answer, contexts, matches, alien)
    reason = reasons.on_adherence(answer, sentences, values[0], tuple(alien.values()))
    return _polls(probability, reason if alien else reasons.hedged(probability, reason), sentences)


def _adherent_by_wording(question: Adherent) -> Polls:
    """An answer without a content term is adherent if a context holds it word for word."""
    index = features.held_by(question.contexts, question.answer)
    probability = features.probability(ADHERENT, (float(index is not None),) * 3)
    wording = question.answer.strip()
    evidence = "" if index is None else wording
    reason = f"no content terms; the answer {'stands' if evidence else 'does not stand'} in the contexts word for word"
    return _polls(probability, reason, (SentenceSupport(wording, index, evidence, float(index is not None)),))


def _polls(probability: float, reason: str, sentences: tuple[SentenceSupport, ...]) -> Polls:
    adherent = probability >= 0.5
    unsupported = reasons.unsupported(sentences, adherent=adherent)
    return Polls(1, (Poll("yes" if adherent else "no", reason, unsupported, probability, sentences),))


def _useful(question: Useful) -> tuple[ChunkVerdict, ...]:
    asked, answer = read(question.standalone_question or question.question or ""), read(question.answer)
    return tuple(_chunk(question, asked, answer, text) for text in question.chunks)


def _chunk(question: Useful, asked: Passage, answer: Passage, text: str) -> ChunkVerdict:
    """Each chunk is judged by itself: judged against its neighbours, some chunk would always be crowned."""
    chunk = read(text)
    if answer.terms or asked.terms:
        values = features.usefulness(asked, answer, chunk)
        new = answer.terms - asked.terms or asked.terms
        whose = "terms that only the answer has" if answer.terms - asked.terms else "terms of the question"
        reason = f"{len(new & chunk.terms)} of {len(new)} {whose} found in the chunk"
    else:
        values = (float(holds(text, question.answer)),) * 3
        reason = f"no content terms; the answer {'stands' if values[0] else 'does not stand'} in the chunk"
    probability = features.probability(USEFUL, values)
    grade = min(3, int(4 * probability)) if question.scale == "graded" else None
    return ChunkVerdict(probability >= 0.5, probability, grade, reasons.hedged(probability, reason), "lexical")


def _facts_in_context(question: FactInContext) -> tuple[FactVerdict, ...]:
    context = read(question.context)
    return tuple(_fact(question.context, context, text) for text in question.facts)


def _fact(text: str, context: Passage, wording: str) -> FactVerdict:
    fact = read(wording)
    if fact.terms:
        values = features.presence(fact, context)
        reason = reasons.on_coverage("fact", wording, fact, features.absent(fact, context))
    else:
        values = (float(holds(text, wording)),) * 3
        reason = f"no content terms; the fact {'stands' if values[0] else 'does not stand'} in the context"
    probability = features.probability(FACT, values)
    return FactVerdict(probability, "lexical", None, reasons.hedged(probability, reason))


def _rate_recall(question: RateRecall) -> RecallRating:
    answer, reference = read(question.answer), read(question.reference)
    if reference.terms:
        score = features.likeness(answer, reference)
        reason = reasons.on_coverage("reference", question.reference, reference, reference.terms - answer.terms)
        reason += f"; the answer has {len(answer.terms - reference.terms)} others"
    else:
        score = float(holds(question.answer, question.reference))
        reason = f"no content terms; the reference {'stands' if score else 'does not stand'} in the answer"
    band = next((name for name, lowest, highest in question.bands if lowest <= score <= highest), "")
    return RecallRating(score, reason, band)


def _extract_facts(question: ExtractFacts) -> tuple[str, ...]:
    """Sentences and clauses; they are not made self-contained."""
    clauses = (clause for sentence in split_sentences(question.reference) for clause in split_clauses(sentence))
    return tuple(dict.fromkeys(clauses))


_REPLIES: Mapping[type[Question[Any]], Callable[[Any], Any]] = {
    Adherent: _adherent,
    Useful: _useful,
    FactInContext: _facts_in_context,
    RateRecall: _rate_recall,
    ExtractFacts: _extract_facts,
}
