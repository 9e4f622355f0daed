"""The embedded judge: answers questions by word overlap, and says why in a line; no model, no file, no network."""

from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    NotAnswered,
    Question,
    QuestionNotSupported,
    R,
    Weight,
)
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.lexical import features
from ragmetrics_core.lexical.constants import (
    ADHERENT,
    FACT,
    USEFUL,
    VETO,
    WITH_VECTORS,
    Features,
    Weights,
)
from ragmetrics_core.lexical.declining import declines
from ragmetrics_core.lexical.features import MOST_SENTENCES, Match, model, nearness
from ragmetrics_core.lexical.numerals import strange
from ragmetrics_core.lexical.text import (
    Passage,
    holds,
    read,
    split_clauses,
    split_sentences,
    words,
)
from ragmetrics_core.metrics.context_recall import RateRecall, Rating, band_of
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext
from ragmetrics_core.metrics.polls import Adherent, Poll, PollVerdict, SentenceSupport
from ragmetrics_core.models.threads import check_wanted, computed

_UNCERTAIN = 0.1  # within this distance of one half
_UNSUPPORTED = 0.5  # a sentence with a smaller share of its terms found in the contexts
_MOST_LISTED = 5
_LONGEST_LISTED = 40


class LexicalJudge(Judge):
    """Judges by the words that texts share.

    It is free, instant, deterministic, and blind to meaning.

    It wires and tests pipelines without a key and catches gross failures; it is not for
    decisions. It sees half of the negations put in and a tenth of the names swapped.
    Facts of a reference are its sentences and clauses. An answer that only declines
    abstains. Probabilities come from logistic regressions fitted on human labels.

    Args:
        vectors: Compare sentences of the answer by vectors, too: the extra ``vectors``,
            and about 6 ms an answer.

    Raises:
        MissingDependency: If the extra is not installed.

    Source:
        ``benchmarks/fit_lexical.py`` fits the weights and prints how they do on sources
        left out; ``benchmarks/judge_quality.py`` measures the shipped judge.

    Examples:
        >>> from ragmetrics_core import RetrievalAccuracy
        >>> RetrievalAccuracy().score(facts=["Paris is big."], contexts=["Paris is big."], judge=LexicalJudge()).value
        1.0
    """

    name = "lexical"

    def __init__(self, *, vectors: bool = False) -> None:
        self._vectors = vectors
        if vectors:
            self.name = "lexical+vectors"
            model()

    @property
    def details(self) -> dict[str, str]:
        """Which fit of the weights answers."""
        return {"fit": "3"}

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        ``QuestionNotSupported`` for questions that need understanding.
        """
        answered = _ANSWERS.get(type(question))
        if answered is None:
            message = (
                "the embedded judge 'lexical' counts words and cannot answer questions"
                " of type "
                f"{type(question).__name__}; use a language model instead, e.g."
                ' judge="gpt-4o-mini"'
            )
            return Answer(NotAnswered(QuestionNotSupported(message)))
        given = {"vectors": True} if self._vectors and answered is _adherent else {}
        return Answer(
            await computed(partial(answered, question, **given), lane="judge")
        )


def _question(question: Question[Any]) -> str | None:
    """The user's question, in the application's own rewrite where there is one."""
    part = question.parts.get("question")
    return None if part is None else part.rewrite or "".join(part.texts) or None


def _adherent(question: Adherent, *, vectors: bool = False) -> Asked[Poll]:
    if declines(question["answer"], _question(question)):
        return Asked(
            (
                Poll(
                    verdict="abstains",
                    reason="The answer only declines to answer; it makes no claim.",
                ),
            )
        )
    text, contexts = question["answer"], [read(text) for text in question["contexts"]]
    answer, known = (
        read(text),
        frozenset[str]().union(*(context.numbers for context in contexts)),
    )
    if not answer.terms:
        return _adherent_by_wording(question)
    matches = features.align(answer, contexts)
    values = features.adherence(answer, contexts, matches)
    alien, probability = strange(text, known), ADHERENT.probability(values)
    if vectors:
        probability = WITH_VECTORS.probability((*values, nearness(answer, contexts)))
    if alien:
        probability *= VETO
    elif any(match.denied for match in matches):
        probability = min(probability, VETO)
    sentences = _support(answer, contexts, matches, known)
    covered = f"{round(values[0] * len(answer.terms))} of {len(answer.terms)}"
    return _polled(
        probability,
        _on_adherence(text, covered, sentences, matches, alien),
        sentences,
        matches,
    )


def _adherent_by_wording(question: Adherent) -> Asked[Poll]:
    """Judge an answer without a content term.

    It is adherent if a context holds it word for word.
    """
    rank = next(
        (
            place
            for place, text in enumerate(question["contexts"], 1)
            if holds(text, question["answer"])
        ),
        None,
    )
    held, wording = float(rank is not None), question["answer"].strip()
    reason = (
        f"no content terms; the answer {'stands' if held else 'does not stand'} in the"
        " contexts word for word"
    )
    sentence = SentenceSupport(
        sentence=wording, rank=rank, evidence=wording if held else "", coverage=held
    )
    return _polled(ADHERENT.probability((held,) * 5), reason, (sentence,), (Match(),))


def _polled(
    probability: float,
    reason: str,
    sentences: tuple[SentenceSupport, ...],
    matches: Sequence[Match],
) -> Asked[Poll]:
    """The poll, with the sentences that the contexts do not bear out.

    Of a negative verdict at least the weakest.
    """
    verdict: PollVerdict = "yes" if probability >= 0.5 else "no"
    pairs = zip(sentences, matches, strict=True)
    weak = tuple(
        it.sentence
        for it, match in pairs
        if it.coverage < _UNSUPPORTED or it.numbers or match.denied
    )
    if verdict == "no" and not weak:
        weak = (min(sentences, key=lambda item: item.coverage).sentence,)
    poll = Poll(
        verdict=verdict,
        reason=_hedged(probability, reason),
        unsupported=weak,
        sentences=sentences,
    )
    return Asked((poll,), weights=(Weight(probability, "lexical"),))


def _useful(question: Useful) -> Asked[Any]:
    asked, answer = read(_question(question) or ""), read(question["answer"])
    return _asked(
        question,
        "chunk",
        USEFUL,
        lambda text: _chunk(asked, answer, question["answer"], text),
    )


def _asked(
    question: Question[Any],
    kind: str,
    weights: Weights,
    look: Callable[[str], tuple[Features, str]],
) -> Asked[Any]:
    """Return the reply about one or several texts of a kind.

    For each text ``look`` gives features and a reason, and ``weights`` turn the
    features into a probability.
    """
    part = question.parts.get(f"{kind}s") or question.parts[kind]
    chances = []
    for text in part.texts:
        check_wanted()
        values, reason = look(text)
        probability = weights.probability(values)
        chances.append((probability, _hedged(probability, reason)))
    verdicts = [
        {
            "label": label,
            "useful": p >= 0.5,
            "covered": p >= 0.5,
            "grade": min(3, int(4 * p)),
            "reason": reason,
        }
        for label, (p, reason) in zip(part.labels, chances, strict=True)
    ]
    reply = question.read({**verdicts[0], f"{kind}s": verdicts})
    return Asked((reply,), weights=tuple(Weight(p, "lexical") for p, _ in chances))


def _chunk(
    asked: Passage, answer: Passage, wording: str, text: str
) -> tuple[Features, str]:
    """Return the features of a chunk with a reason; each is judged by itself.

    Judged against its neighbours, some chunk would always be crowned.
    """
    if not (answer.terms or asked.terms):
        return _by_wording("answer", wording, "chunk", text)
    chunk, new = read(text), answer.terms - asked.terms or asked.terms
    whose = (
        "terms that only the answer has"
        if answer.terms - asked.terms
        else "terms of the question"
    )
    reason = f"{len(new & chunk.terms)} of {len(new)} {whose} found in the chunk"
    return features.usefulness(asked, answer, chunk), reason


def _by_wording(
    whose: str, wording: str, where: str, text: str
) -> tuple[Features, str]:
    """Return features that are all 1 or all 0, with a reason.

    A wording without content terms can only be looked for word for word.
    """
    held = holds(text, wording)
    return (
        (float(held),) * 3,
        (
            f"no content terms; the {whose} {'stands' if held else 'does not stand'} in"
            f" the {where}"
        ),
    )


def _facts_in_context(question: FactInContext) -> Asked[Any]:
    context = read(question["context"])
    return _asked(
        question,
        "fact",
        FACT,
        lambda wording: _fact(question["context"], context, wording),
    )


def _fact(text: str, context: Passage, wording: str) -> tuple[Features, str]:
    fact = read(wording)
    if not fact.terms:
        return _by_wording("fact", wording, "context", text)
    return features.presence(fact, context), _on_coverage(
        "fact", wording, fact, features.absent(fact, context)
    )


def _rate_recall(question: RateRecall) -> Asked[Rating]:
    answer, reference = read(question["answer"]), read(question["reference"])
    if reference.terms:
        score = features.likeness(answer, reference)
        reason = _on_coverage(
            "reference",
            question["reference"],
            reference,
            reference.terms - answer.terms,
        )
        reason += f"; the answer has {len(answer.terms - reference.terms)} others"
    else:
        (score, *_), reason = _by_wording(
            "reference", question["reference"], "answer", question["answer"]
        )
    return Asked((Rating(score=score, reason=reason, band=band_of(score)),))


def _extract_facts(question: ExtractFacts) -> Asked[Any]:
    """Sentences and clauses; they are not made self-contained."""
    clauses = [
        clause
        for sentence in split_sentences(question["reference"])
        for clause in split_clauses(sentence)
    ]
    return Asked((question.read({"facts": clauses}),))


def _listed(terms: Iterable[str]) -> str:
    """The first few terms, and how many more there are."""
    terms = list(terms)
    shown = ", ".join(term[:_LONGEST_LISTED] for term in terms[:_MOST_LISTED])
    return shown + (
        f" and {len(terms) - _MOST_LISTED} more" if len(terms) > _MOST_LISTED else ""
    )


def _hedged(probability: float, reason: str) -> str:
    """Return a reason for a verdict of this probability.

    Near the threshold it says *uncertain*.
    """
    return f"uncertain: {reason}" if abs(probability - 0.5) < _UNCERTAIN else reason


def _support(
    answer: Passage,
    contexts: Sequence[Passage],
    matches: Sequence[Match],
    known: AbstractSet[str],
) -> tuple[SentenceSupport, ...]:
    """Return, per aligned sentence of the answer, what of it stands where.

    ``known`` are the numbers of the contexts.
    """
    found = frozenset[str]().union(
        *(answer.terms & context.terms for context in contexts)
    )
    return tuple(
        SentenceSupport(
            sentence=sentence.text,
            rank=None if match.context is None else match.context + 1,
            evidence=(
                ""
                if match.context is None
                else contexts[match.context].sentences[match.sentence].text
            ),
            coverage=len(found.intersection(sentence.terms)) / len(set(sentence.terms)),
            uncovered=words(sentence.text, frozenset(sentence.terms) - found),
            numbers=tuple(strange(sentence.text, known)),
        )
        for sentence, match in zip(
            answer.sentences[:MOST_SENTENCES], matches, strict=True
        )
    )


def _on_adherence(
    answer: str,
    covered: str,
    sentences: Sequence[SentenceSupport],
    matches: Sequence[Match],
    alien: Collection[str],
) -> str:
    """Return the reason of an adherence verdict.

    It names the numbers in no context, or what is denied. Else it says how much is
    found and what is not.
    """
    if alien:
        return (
            f"{'number' if len(alien) == 1 else 'numbers'} in no context:"
            f" {_listed(alien)}"
        )
    if denied := frozenset[str]().union(*(match.denied for match in matches)):
        return (
            "negated in the answer, not in the contexts:"
            f" {_listed(words(answer, denied))}"
        )
    missing = dict.fromkeys(word for item in sentences for word in item.uncovered)
    reason = f"{covered} terms found in the contexts" + (
        f"; not found: {_listed(missing)}" if missing else ""
    )
    apart = words(answer, frozenset[str]().union(*(match.apart for match in matches)))
    return (
        f"{reason}; not where the rest of its sentence stands: {_listed(apart)}"
        if apart
        else reason
    )


def _on_coverage(
    whose: str, text: str, passage: Passage, missing: frozenset[str]
) -> str:
    """Return a reason that counts the terms found and lists those that are not.

    The terms are those of a text such as the ``reference``.
    """
    reason = (
        f"{len(passage.terms) - len(missing)} of {len(passage.terms)} terms of the"
        f" {whose} found"
    )
    return (
        f"{reason}; not found: {_listed(words(text, missing))}" if missing else reason
    )


_ANSWERS: dict[type[Question[Any]], Callable[..., Asked[Any]]] = {
    Adherent: _adherent,
    Useful: _useful,
    FactInContext: _facts_in_context,
    RateRecall: _rate_recall,
    ExtractFacts: _extract_facts,
}
"""What answers all questions of a type."""
