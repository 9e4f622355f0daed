"""The embedded judge: answers questions by word overlap, and says why in a line.

It needs no model, no file and no network.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    NotAnswered,
    Part,
    Question,
    QuestionNotSupported,
    R,
    Weight,
)
from ragmetrics_core.data.display import first_in_words
from ragmetrics_core.data.errors import LanguageNotMeasured
from ragmetrics_core.data.replies import states_something
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.lexical import features
from ragmetrics_core.lexical.claims import (
    claims_nothing,
    judge_declining,
    parts_of,
    without_sources,
)
from ragmetrics_core.lexical.declining import declines, user_question_of
from ragmetrics_core.lexical.features import (
    ADHERENT,
    FACT,
    MOST_SENTENCES,
    UNCERTAIN,
    UNCERTAIN_DISTANCE,
    USEFUL,
    VETO,
    Features,
    Match,
)
from ragmetrics_core.lexical.numerals import find_unknown_numbers
from ragmetrics_core.lexical.text import (
    Passage,
    holds_wording,
    is_english,
    parse,
    plain_text,
    split_clauses,
    words_with_terms,
)
from ragmetrics_core.metrics.citation_support import (
    EachSentence,
    MakesClaim,
    Supports,
)
from ragmetrics_core.metrics.context_recall import RateRecall, Rating
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext
from ragmetrics_core.metrics.polls import (
    AdherenceReply,
    Adherent,
    PollVerdict,
    SentenceSupport,
    adherence_reply,
)
from ragmetrics_core.models.threads import compute_beside_loop

_SUPPORTED = 0.5  # least share of a sentence's terms that the contexts hold
_LONGEST_LISTED = 40
_READ_OF_EACH = 500  # characters of a text that tell its language
_MOST_READ = 19  # texts of a part, spread over all: of shorter ones no words are whole
_READ_OF_ALL = 1_900  # and of many texts together, so that each of them is read
# what is quoted may be in the language of the evidence
_QUOTED = re.compile(
    r'"[^"\n]{1,300}"|“[^”\n]{1,300}”|„[^“”\n]{1,300}[“”]|«[^»\n]{1,300}»'
)
_PARTS_OF_EVIDENCE = {"contexts", "context", "chunks", "chunk", "passages"}
_ABSTENTION = adherence_reply(verdict="abstains", reason="The answer makes no claim.")


class LexicalJudge(Judge):
    """Judges by the words that texts share.

    It is free, instant, deterministic, and blind to meaning.

    It wires and tests pipelines without a key; it is not for decisions. It was measured
    on English alone: texts in other languages it leaves undecided. It misses
    subtle failures and some gross ones: it sees half of the negations put in, and a
    tenth of the names swapped.
    Facts of a reference are its sentences and clauses. An answer that claims
    nothing abstains. Its numbers are scores of words, and no probabilities: logistic regressions
    fitted on human labels, which fall on kinds of text that the fit never saw.
    ``adherence_worth`` in ``ragmetrics_core.data.display`` says how far.

    Source:
        ``benchmarks/fit_lexical.py`` fits the weights and prints how they do on sources
        left out; ``benchmarks/judge_quality.py`` measures the shipped judge.

    Examples:
        >>> from ragmetrics_core import RetrievalAccuracy
        >>> RetrievalAccuracy().score(facts=["Paris is big."], contexts=["Paris is big."], judge=LexicalJudge()).value
        1.0
    """

    name = "lexical"
    free = True

    @property
    def details(self) -> dict[str, str]:
        """Which fit of the weights answers, by which rules beside them."""
        return {"fit": "3", "rules": "7"}

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        ``QuestionNotSupported`` for questions that need understanding.
        """
        answer_to = _ANSWERS.get(type(question))
        if answer_to is None:
            message = (
                "the embedded judge 'lexical' compares words, which does not answer what"
                f" this metric asks ({type(question).__name__}); name a model as the"
                " judge, e.g. gpt-4o-mini"
            )
            return Answer(NotAnswered(QuestionNotSupported(message)))
        answer = partial(_answer, answer_to, question)
        return Answer(await compute_beside_loop(answer, lane="judge"))


def _answer(
    answer_to: Callable[..., Asked[Any]], question: Question[Any]
) -> Asked[Any] | NotAnswered:
    """Answer a question as a reader sees its texts; not if one is not in English.

    Everything that this judge was measured on is in English. Fixed wordings that
    decline are known in other languages, too.
    """
    # the parts as a reader sees them: no signs that nobody sees, no list of sources
    parts: dict[str, Part] = {}
    for name, part in question.parts.items():
        texts = tuple(map(plain_text, part.texts))
        if name == "answer":
            texts = tuple(map(without_sources, texts))
        parts[name] = part
        if texts != part.texts:
            text = texts if isinstance(part.text, tuple) else texts[0]
            parts[name] = replace(part, text=text)
    if parts != question.parts:
        question = replace(question, parts=parts)
    answer = parts.get("answer")
    is_answerable = _is_in_english(parts) or (
        answer is not None and declines("\n".join(answer.texts))
    )
    if not is_answerable:
        return NotAnswered(LanguageNotMeasured("not in English: words cannot judge it"))
    return answer_to(question)


def _is_in_english(parts: Mapping[str, Part]) -> bool:
    """Whether no text of a question is plainly in another language.

    What people asked, answered and expect is often short: where none of it does, it
    tells its language together, where need be with the evidence.
    """
    texts: list[str] = []
    spoken: list[str] = []
    for name, part in parts.items():
        # sorted, so that their order tells nothing
        read = sorted(part.texts)[:: 1 + len(part.texts) // _MOST_READ]
        length = min(_READ_OF_EACH, _READ_OF_ALL // max(1, len(read)))
        text = part.rewrite or "\n".join(text[:length] for text in read)
        if name in _PARTS_OF_EVIDENCE:
            texts.append(text)
        else:
            spoken.append(_QUOTED.sub(" ", text))
    together = "\n".join(dict.fromkeys(spoken))
    are_english = [is_english(text) for text in (*texts, *spoken, together)]
    if not any(are_english) and False not in are_english:
        are_english = [is_english("\n".join((*texts, together)), is_all=True)]
    return False not in are_english


def _judge_adherence(question: Adherent) -> Asked[AdherenceReply]:
    """Judge by shared words whether an answer rests on its contexts.

    "I do not know." and "Hello!" claim nothing: "abstains". "Yes." has no word with a meaning, and
    is looked for word for word. Any other answer is judged by its terms: "It opened in
    1901." over contexts without 1901 is "no".

    Args:
        question: Holds the answer and the contexts.
    """
    text = question["answer"]
    if claims_nothing(text, user_question_of(question)):
        return Asked((_ABSTENTION,))
    answer = parse(text)
    if not answer.terms:  # such as "Yes." or "It is."
        wording = question["answer"].strip()
        ranks_of_holders = [
            rank
            for rank, context in enumerate(question["contexts"], start=1)
            if holds_wording(context, wording)
        ]
        is_held = bool(ranks_of_holders)
        coverage = 1.0 if is_held else 0.0
        sentence = SentenceSupport(
            sentence=wording,
            rank=ranks_of_holders[0] if is_held else None,
            evidence=wording if is_held else "",
            coverage=coverage,
        )
        # The fitted regression wants several shares, such as of the terms found. Without
        # terms each of them is 1 where the wording is held, else 0.
        n_shares = len(ADHERENT.slopes)
        probability = ADHERENT.probability((coverage,) * n_shares)
        verb = "stands" if is_held else "does not stand"
        reason = f"no content terms; the answer {verb} in the contexts word for word"
        no_match = Match()  # without terms no context sentence is the nearest
        return _reply_with_poll(probability, reason, (sentence,), (no_match,))
    return _judge_adherence_by_terms(question, answer)


def _judge_adherence_by_terms(
    question: Adherent, answer: Passage
) -> Asked[AdherenceReply]:
    """Judge by the terms (stems of words) that an answer shares with its contexts.

    Example: "Carl lit the lamp in 1901." over "Carl lit the lamp." is "no". The context
    has 3 of the 4 terms, but not the number.

    Args:
        question: Holds the answer and the contexts.
        answer: The answer, taken apart; it has a term.
    """
    text = question["answer"]
    contexts = [parse(context) for context in question["contexts"]]
    context_numbers = _union(context.numbers for context in contexts)
    # for each sentence of the answer the context sentence that shares most terms
    matches = features.align(answer, contexts)
    # five shares, the first is: of the answer's terms those that the contexts hold
    feature_values = features.adherence(answer, contexts, matches)
    # for each sentence of the answer what of it the contexts hold
    supports = _support_of_sentences(answer, contexts, matches, context_numbers)
    probability = ADHERENT.probability(feature_values)
    unknown_numbers = find_unknown_numbers(text, context_numbers)
    # such as "open" of "It is not open." over "It is open.", or the other way round
    denied_terms = _union(match.denied_terms for match in matches)
    if unknown_numbers:
        # Halves every probability, and keeps the order of answers with such a number.
        probability *= VETO
        noun = "number" if len(unknown_numbers) == 1 else "numbers"
        reason = f"{noun} in no context: {_list_terms(unknown_numbers)}"
    elif denied_terms:
        # Leaves the probability of an answer that shares few words as low as it is.
        probability = min(probability, VETO)
        reason = _explain_denial(text, denied_terms)
    else:
        n_terms = len(answer.terms)
        n_found = round(feature_values[0] * n_terms)
        reason = f"{n_found} of {n_terms} terms found in the contexts"
        missing = dict.fromkeys(
            chain.from_iterable(support.uncovered for support in supports)
        )
        if missing:
            reason += f"; not found: {_list_terms(missing)}"
        # Names that the contexts mention, but not where they say the rest: "Carl Voss
        # bought the mill." over "Carl Voss lived in Kiel. Anna bought the mill."
        misplaced_terms = _union(match.misplaced_name for match in matches)
        names = words_with_terms(text, misplaced_terms)
        if names:
            listed = _list_terms(names)
            reason += f"; not where the rest of its sentence stands: {listed}"
    low, high = UNCERTAIN
    if low <= probability <= high:
        reason = f"uncertain: {reason}"
    return _reply_with_poll(probability, reason, supports, matches)


def _reply_with_poll(
    probability: float,
    reason: str,
    sentences: tuple[SentenceSupport, ...],
    matches: Sequence[Match],
) -> Asked[AdherenceReply]:
    """Make the reply of one poll: the verdict, and the sentences without support.

    Example: .3 gives "no" and at least one sentence without support; .6 gives "yes".

    Args:
        probability: That the answer rests on its contexts.
        reason: Of the verdict, in words.
        sentences: What the contexts hold of each sentence of the answer.
        matches: The context sentence nearest to each, in the same order.
    """
    verdict: PollVerdict = "yes" if is_yes(probability) else "no"
    unsupported = []
    for sentence, match in zip(sentences, matches, strict=True):
        is_weak = sentence.coverage < _SUPPORTED
        if is_weak or sentence.numbers or match.denied_terms:
            unsupported.append(sentence.sentence)
    if verdict == "no" and not unsupported:  # then the sentence with least support
        weakest = min(sentences, key=lambda sentence: sentence.coverage)
        unsupported = [weakest.sentence]
    poll = adherence_reply(
        verdict=verdict,
        reason=reason,
        unsupported=tuple(unsupported),
        sentences=sentences,
    )
    weight = Weight(probability, "lexical")
    return Asked((poll,), weights=(weight,))


def _judge_usefulness(question: Useful) -> Asked[Any]:
    """Judge by shared words which chunks were useful to arrive at the answer.

    None is useful to arrive at an answer that claims nothing.
    """
    answer_text = question["answer"]
    answer = parse(answer_text)
    question_text = user_question_of(question)
    user_question = parse(question_text or "")
    is_without_claim = claims_nothing(answer_text, question_text)
    # "It is so." to "Why?", or "..." to any question
    has_word = any(character.isalnum() for character in answer_text)
    has_terms = bool(answer.terms) or (has_word and bool(user_question.terms))
    # "Carl Voss" of the answer, where the question does not name him
    sought_terms = answer.terms - user_question.terms
    whose = "terms that only the answer has"
    if not sought_terms:
        sought_terms = user_question.terms
        whose = "terms of the question"

    def look(text: str) -> tuple[float, str]:
        if is_without_claim:
            return 0.0, "the answer makes no claim"
        if has_terms:
            chunk = parse(text)
            n_found = len(sought_terms & chunk.terms)
            shares = features.usefulness(user_question, answer, chunk)
            reason = f"{n_found} of {len(sought_terms)} {whose} found in the chunk"
        else:
            shares, reason = _look_for_wording("answer", answer_text, "chunk", text)
        return USEFUL.probability(shares), reason

    return _judge_each_text(question, "chunk", look)


def _judge_by_text(question: Question[Any], kind: str, context_text: str) -> Asked[Any]:
    """Judge facts or a statement by what a text holds of their words."""
    context = parse(context_text)

    def look(wording: str) -> tuple[float, str]:
        fact = parse(wording)
        if fact.terms:
            missing = features.absent_terms(fact, context)
            shares = features.presence(fact, context)
            reason = _explain_coverage("fact", wording, fact, missing)
        else:
            shares, reason = _look_for_wording("fact", wording, "context", context_text)
        return FACT.probability(shares), reason

    return _judge_each_text(question, kind, look)


def _judge_each_text(
    question: Question[Any], kind: str, look: Callable[[str], tuple[float, str]]
) -> Asked[Any]:
    """Judge the texts that a question shows, one by one, and return its reply.

    Example: a question about two chunks gets two verdicts, ``{"useful": True, …}`` and
    ``{"useful": False, …}``, and the probability of "useful" for each.

    Args:
        question: Its part "chunk" shows one text, its part "chunks" several; or "fact"
            and "facts".
        kind: "chunk" or "fact".
        look: Returns the probability of a yes for a text, and a reason in words.
    """
    part = question.parts.get(f"{kind}s") or question.parts[kind]
    verdicts: list[dict[str, object]] = []
    probabilities: list[Weight] = []
    for label, text in zip(part.labels, part.texts, strict=True):
        probability, reason = look(text)
        verdicts.append(_verdict(label, probability, reason))
        probabilities.append(Weight(probability, "lexical"))
    # A question about one text reads its verdict from the fields "useful" and so on, a
    # question about several from the list "chunks". What it does not know it ignores.
    reply = question.read({**verdicts[0], f"{kind}s": verdicts})
    return Asked((reply,), weights=tuple(probabilities))


def _verdict(label: str, probability: float, reason: str) -> dict[str, object]:
    """The fields of every reply that questions about chunks and facts have."""
    is_positive = is_yes(probability)
    is_near = abs(probability - 0.5) < UNCERTAIN_DISTANCE
    return {
        "label": label,
        "useful": is_positive,
        "covered": is_positive,
        "supported": is_positive,
        "reason": f"uncertain: {reason}" if is_near else reason,
    }


def _look_for_wording(
    whose: str, wording: str, where: str, text: str
) -> tuple[Features, str]:
    """Look for a wording without content terms, such as "It is so", word for word.

    Args:
        whose: The wording's part in the question, such as "answer"; for the reason.
        wording: The wording.
        where: The text's part in the question, such as "chunk"; for the reason.
        text: The text that may hold the wording.

    Returns:
        Three features, all 1.0 if the text holds the wording, else all 0.0; and a reason.
    """
    is_held = holds_wording(text, wording)
    value = 1.0 if is_held else 0.0
    verb = "stands" if is_held else "does not stand"
    return (value,) * 3, f"no content terms; the {whose} {verb} in the {where}"


def _rate_recall(question: RateRecall) -> Asked[Rating]:
    """Rate how much of a reference an answer holds, by the terms that they share."""
    text = question["reference"]
    reference = parse(text)
    if reference.terms:
        answer = parse(question["answer"])
        score = features.rate_coverage(answer, reference)
        missing = reference.terms - answer.terms
        n_others = len(answer.terms - reference.terms)
        reason = _explain_coverage("reference", text, reference, missing)
        reason += f"; the answer has {n_others} others"
        # a sentence that the answer denies is not recalled
        denials = features.denials(reference, answer)
        if denials:
            score *= 1 - len(denials) / len(reference.sentences)
            reason += f"; {_explain_denial(text, _union(denials))}"
    else:  # such as "It is so"
        values, reason = _look_for_wording(
            "reference", text, "answer", question["answer"]
        )
        score = values[0]
    return Asked((Rating(score=score, reason=reason),))


def _explain_denial(text: str, denied_terms: frozenset[str]) -> str:
    words = words_with_terms(text, denied_terms)
    return f"negated in one of the texts alone: {_list_terms(words)}"


def _extract_facts(question: ExtractFacts) -> Asked[Any]:
    """Take the sentences and clauses of a reference as its facts, word for word.

    A reference that declines states none.
    """
    reference = question["reference"]
    clauses: list[str] = []
    if not claims_nothing(reference, user_question_of(question)):
        for sentence in split_sentences(reference):
            clauses += split_clauses(sentence)
    facts = question.read({"facts": list(filter(states_something, clauses))})
    return Asked((facts,))


def _list_terms(terms: Collection[str]) -> str:
    """The first few terms, and how many more there are."""
    return first_in_words(term[:_LONGEST_LISTED] for term in terms)


def _support_of_sentences(
    answer: Passage,
    contexts: Sequence[Passage],
    matches: Sequence[Match],
    context_numbers: AbstractSet[str],
) -> tuple[SentenceSupport, ...]:
    """Say for each of an answer's first sentences what of it the contexts hold.

    Example: "Carl Voss bought 3 mills." over "Carl Voss bought mills.": coverage .8,
    ``uncovered`` and ``numbers`` hold the 3.

    Args:
        answer: The answer, taken apart.
        contexts: The contexts, taken apart.
        matches: The context sentence nearest to each of the answer's first sentences.
        context_numbers: The numbers that stand in the contexts.
    """
    shared_terms = _union(answer.terms & context.terms for context in contexts)
    support: list[SentenceSupport] = []
    aligned_sentences = answer.sentences[:MOST_SENTENCES]
    for sentence, match in zip(aligned_sentences, matches, strict=True):
        terms = frozenset(sentence.terms)
        n_covered = len(terms & shared_terms)
        rank = None  # of the nearest context, from 1
        evidence = ""
        if match.context is not None:
            rank = match.context + 1
            evidence = contexts[match.context].sentences[match.sentence].text
        sentence_support = SentenceSupport(
            sentence=sentence.text,
            rank=rank,
            evidence=evidence,
            coverage=n_covered / len(terms),  # a parsed sentence has a term at least
            uncovered=words_with_terms(sentence.text, terms - shared_terms),
            numbers=tuple(find_unknown_numbers(sentence.text, context_numbers)),
        )
        support.append(sentence_support)
    return tuple(support)


def _explain_coverage(
    whose: str, text: str, passage: Passage, missing: frozenset[str]
) -> str:
    """Return a reason that counts the terms found and lists the terms not found.

    The terms are those of a text such as the ``reference``.
    """
    n_terms = len(passage.terms)
    n_found = n_terms - len(missing)
    reason = f"{n_found} of {n_terms} terms of the {whose} found"
    if missing:
        missing_words = words_with_terms(text, missing)
        reason += f"; not found: {_list_terms(missing_words)}"
    return reason


def _union(sets: Iterable[AbstractSet[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)


def _judge_claims(question: MakesClaim) -> Asked[EachSentence]:
    """Judge which sentences claim something: all but those with known empty phrases."""
    part = question.parts["sentences"]
    user_question = user_question_of(question)
    verdicts = [
        {"label": label, "claims": bool(parts_of(text, user_question).claims)}
        for label, text in zip(part.labels, part.texts, strict=True)
    ]
    return Asked((question.read({"sentences": verdicts}),))


_ANSWERS: dict[type[Question[Any]], Callable[..., Asked[Any]]] = {
    Adherent: _judge_adherence,
    Declined: judge_declining,
    MakesClaim: _judge_claims,
    # passages are judged together
    Supports: lambda question: _judge_by_text(
        question, "statement", "\n".join(question["passages"])
    ),
    Useful: _judge_usefulness,
    FactInContext: lambda question: _judge_by_text(
        question, "fact", question["context"]
    ),
    RateRecall: _rate_recall,
    ExtractFacts: _extract_facts,
}
"""What answers all questions of a type."""
