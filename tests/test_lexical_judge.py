"""The embedded judge through its public interface: what it answers, where it is blind, what it survives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ragmetrics_core.data.errors import QuestionNotSupported
from ragmetrics_core.data.questions import (
    Adherent,
    ChunkVerdict,
    ExtractFacts,
    FactInContext,
    Instructions,
    NotAnswered,
    Poll,
    Question,
    R,
    RateRecall,
    RecallRating,
    Sufficient,
    Useful,
)
from ragmetrics_core.lexical import LexicalJudge
from ragmetrics_core.lexical.numerals import number, numbers
from ragmetrics_core.metrics.context_adherence import ContextAdherence

NONE = Instructions(template="")
FRANCE_QUESTION = "Where is France and what is it's capital?"
FRANCE_ANSWER = "France is in western Europe and Paris is its capital."
FRANCE_LOW = (
    "The country is also renowned for its wines and sophisticated cuisine. Lascaux's ancient cave drawings, Lyon's "
    "Roman theater and the vast Palace of Versailles attest to its rich history."
)
FRANCE_HIGH = (
    "France, in Western Europe, encompasses medieval cities, alpine villages and Mediterranean beaches. Paris, its "
    "capital, is famed for its fashion houses, classical art museums including the Louvre and monuments like the "
    "Eiffel Tower."
)
BANDS = (("none", 0.0, 0.0), ("some", 0.001, 0.999), ("perfect", 1.0, 1.0))


def ask(question: Question[R]) -> R:
    reply = asyncio.run(LexicalJudge().answer(question)).reply
    assert not isinstance(reply, NotAnswered)
    return reply


def adherent(answer: str, *contexts: str) -> Poll:
    polls = ask(Adherent(instructions=NONE, answer=answer, contexts=contexts))
    assert polls.asked == 1
    assert not polls.failures
    (poll,) = polls.answers
    return poll


def useful(*chunks: str, answer: str, question: str | None = None, **settings: Any) -> tuple[ChunkVerdict, ...]:
    return ask(Useful(instructions=NONE, question=question, answer=answer, chunks=chunks, **settings))


def fact(text: str, context: str) -> float:
    (verdict,) = ask(FactInContext(instructions=NONE, context=context, facts=(text,)))
    assert verdict.mode == "lexical"
    return verdict.probability


def recall(answer: str, reference: str, bands: tuple[tuple[str, float, float], ...] = BANDS) -> RecallRating:
    return ask(RateRecall(instructions=NONE, contexts=(), answer=answer, reference=reference, bands=bands))


class TestFrance:
    def test_each_chunk_is_judged_by_itself(self) -> None:
        verdicts = useful(FRANCE_LOW, FRANCE_HIGH, answer=FRANCE_ANSWER, question=FRANCE_QUESTION)
        assert [verdict.useful for verdict in verdicts] == [False, True]
        alone = useful(FRANCE_HIGH, answer=FRANCE_ANSWER, question=FRANCE_QUESTION)
        assert alone[0] == verdicts[1]

    def test_listwise_and_reversed(self) -> None:
        verdicts = useful(FRANCE_HIGH, FRANCE_LOW, answer=FRANCE_ANSWER, question=FRANCE_QUESTION, listwise=True)
        assert [verdict.useful for verdict in verdicts] == [True, False]
        assert {verdict.mode for verdict in verdicts} == {"lexical"}

    def test_graded_agrees_with_the_verdict(self) -> None:
        verdicts = useful(FRANCE_HIGH, FRANCE_LOW, answer=FRANCE_ANSWER, question=FRANCE_QUESTION, scale="graded")
        assert [verdict.grade for verdict in verdicts] == [3, 0]
        assert useful(FRANCE_LOW, answer=FRANCE_ANSWER)[0].grade is None

    def test_answer_is_adherent_with_evidence(self) -> None:
        poll = adherent(FRANCE_ANSWER, FRANCE_LOW, FRANCE_HIGH)
        assert poll.verdict == "yes"
        assert poll.support[0].context == 1
        assert poll.support[0].coverage == 1.0
        assert poll.support[0].evidence.startswith("France, in Western Europe")

    def test_made_up_answer_is_not(self) -> None:
        poll = adherent("Bananas grow best in tropical Ecuador.", FRANCE_LOW, FRANCE_HIGH)
        assert poll.verdict == "no"
        assert poll.unsupported == ("Bananas grow best in tropical Ecuador.",)
        assert "Bananas" in poll.reason
        assert "Ecuador" in poll.support[0].uncovered


class TestNumbers:
    CONTEXT = "The bridge was built in 1932 and carries 160,000 cars a day over 1,149 metres."

    def test_number_found_nowhere_vetoes(self) -> None:
        assert adherent("The bridge was built in 1932.", self.CONTEXT).verdict == "yes"
        poll = adherent("The bridge was built in 1923.", self.CONTEXT)
        assert poll.verdict == "no"
        assert poll.probability is not None
        assert poll.probability < 0.5
        assert "1923" in poll.reason
        assert poll.unsupported == ("The bridge was built in 1923.",)
        assert poll.support[0].numbers == ("1923",)

    @pytest.mark.parametrize(
        "answer",
        [
            "The bridge carries 160000 cars a day.",
            "The bridge carries 160,000 cars [12].",
            "10. The bridge carries cars over 1149.0 metres.",
            "The bridge carries ١٦٠٠٠٠ cars a day.",
        ],
    )
    def test_spellings_citations_and_list_numbering_do_not(self, answer: str) -> None:
        assert adherent(answer, self.CONTEXT).verdict == "yes"

    def test_spelt_numbers_and_spans_of_years(self) -> None:
        assert adherent("It has 12 towers.", "It has twelve towers.").verdict == "yes"
        assert adherent("In the season 2018–19.", "In the season 2018–2019.").verdict == "yes"
        assert adherent("In the season 2018–2019.", "In the season 2018–19.").verdict == "yes"

    def test_one_digit_is_invisible_to_the_rule(self) -> None:
        context = "The old stone bridge over the wide river has 3 tall arches."
        assert adherent("The old stone bridge over the wide river has 4 tall arches.", context).verdict == "yes"

    def test_number_of_another_context_counts(self) -> None:
        assert adherent("The bridge was built in 1932.", "The bridge was built long ago.", "In 1932.").verdict == "yes"

    @pytest.mark.parametrize(
        ("written", "one"),
        [("1,998", "1998"), ("02.50", "2.5"), ("1.000.000", "1000000"), ("3,5", "3.5"), ("0", "0"), ("007", "7")],
    )
    def test_one_spelling(self, written: str, one: str) -> None:
        assert number(written) == one

    def test_dates_are_no_spans_of_years(self) -> None:
        assert numbers("2018-11-05") == {"2018", "11", "5"}


class TestBlindSpots:
    """Documented: word overlap does not see these. A judge that does is no longer this one."""

    CONTEXT = "Marie Curie discovered radium with Pierre Curie in Paris and was awarded the prize."

    def test_negation(self) -> None:
        assert adherent("Marie Curie was awarded the prize.", self.CONTEXT).verdict == "yes"
        assert adherent("Marie Curie was not awarded the prize.", self.CONTEXT).verdict == "yes"

    def test_swapped_name(self) -> None:
        assert adherent("Pierre Curie was awarded the prize.", self.CONTEXT).verdict == "yes"

    def test_order_of_words(self) -> None:
        assert recall("Goliath beat David", "David beat Goliath").score == 1.0


class TestWithoutContentTerms:
    @pytest.mark.parametrize("answer", ["It was.", "Yes", "🎉🎉", "!?", "…", "a"])
    def test_word_for_word(self, answer: str) -> None:
        assert adherent(answer, "Bananas.", f"Well: {answer} Indeed").verdict == "yes"
        assert adherent(answer, "Bananas.").verdict == "no"
        assert useful(f"{answer} Bananas", "Bananas", answer=answer)[0].useful
        assert not useful("Bananas", answer=answer)[0].useful
        assert fact(answer, f"Bananas {answer} Bananas") > 0.5 > fact(answer, "Bananas")
        assert recall(answer, answer).score == 1.0

    def test_no_is_not_part_of_not(self) -> None:
        assert recall("I do not think so.", "No").score == 0.0
        assert recall("No.", "Yes").score == 0.0
        assert recall("No, it is not.", "No").score == 1.0

    @pytest.mark.parametrize("text", ["", " \n", "\0", "\ud800", "...", "the"])
    def test_nothing_to_compare_with(self, text: str) -> None:
        assert adherent("Paris", text).verdict == "no"
        assert not useful(text, answer="Paris", question="Capital?")[0].useful
        assert fact("Paris", text) < 0.5
        assert recall(text, "Paris").score == 0.0
        assert adherent(text).verdict == "no"
        assert ask(Useful(instructions=NONE, answer=text, chunks=())) == ()


class TestRecall:
    def test_bounds_and_bands(self) -> None:
        assert recall(FRANCE_ANSWER, FRANCE_ANSWER) == recall(FRANCE_ANSWER, FRANCE_ANSWER)
        assert (recall(FRANCE_ANSWER, FRANCE_ANSWER).score, recall(FRANCE_ANSWER, FRANCE_ANSWER).band) == (
            1.0,
            "perfect",
        )
        assert (recall("Bananas", FRANCE_ANSWER).score, recall("Bananas", FRANCE_ANSWER).band) == (0.0, "none")
        assert recall("Paris", FRANCE_ANSWER).band == "some"
        assert recall("Paris", FRANCE_ANSWER, ()).band == ""

    def test_reason_says_what_is_missing(self) -> None:
        # The reference has the terms France, western, Europe, Paris, capital.
        rating = recall("Paris and Rome", FRANCE_ANSWER)
        assert rating.reason.startswith("1 of 5 terms of the reference found")
        assert "western" in rating.reason
        assert "the answer has 1 others" in rating.reason
        # By hand: coverage 1/5, F1 of {Paris, Rome} and the five terms 2·1/7; ¾ and ¼ of them.
        assert rating.score == pytest.approx(0.75 / 5 + 0.25 * 2 / 7)


def test_facts_are_sentences_and_clauses() -> None:
    facts = ask(
        ExtractFacts(instructions=NONE, reference=f"{FRANCE_ANSWER} Dr. No likes wine and cheese. {FRANCE_ANSWER}")
    )
    assert facts == ("France is in western Europe", "Paris is its capital.", "Dr. No likes wine and cheese.")
    assert ask(ExtractFacts(instructions=NONE, reference=" \n")) == ()


def test_one_verdict_per_fact() -> None:
    question = FactInContext(
        instructions=NONE, context=FRANCE_HIGH, facts=("Paris is the capital", "Rome"), together=True
    )
    assert [verdict.probability > 0.5 for verdict in ask(question)] == [True, False]


def test_standalone_question_is_preferred() -> None:
    question = Useful(
        instructions=NONE,
        question="And there?",
        standalone_question="Capital of France?",
        answer="yes",
        chunks=(FRANCE_HIGH,),
    )
    assert ask(question)[0].reason.startswith(("2 of 2", "uncertain: 2 of 2"))


@pytest.mark.parametrize("kind", ["sufficient", "unheard of"])
def test_unknown_question(kind: str) -> None:
    class Unheard(Question[str]):
        kind = "unheard of"

    known = Sufficient(instructions=NONE, contexts=("secret text",), answer="a")
    answer = asyncio.run(LexicalJudge().answer(known if kind == "sufficient" else Unheard(instructions=NONE)))
    assert isinstance(answer.reply, NotAnswered)
    assert isinstance(answer.reply.error, QuestionNotSupported)
    assert kind in str(answer.reply.error)
    assert 'judge="gpt-4o-mini"' in str(answer.reply.error)
    assert "secret" not in str(answer.reply.error) + repr(answer)


def test_polled_once_however_many_are_asked() -> None:
    polls = ask(Adherent(instructions=NONE, answer="Paris", contexts=("Paris",), polls=7))
    assert (polls.asked, len(polls.answers)) == (1, 1)


ASKED = "When was the Eiffel Tower built?"

ONLY_DECLINE = [
    "I don't know.",
    "I do not know",
    "Sorry, I don’t know.",
    "**I don't know.**",
    "I'm sorry, but I don't know the answer.",
    "I'm afraid I don't know.",
    "I don't know when the Eiffel Tower was built.",
    "I'm not sure.",
    "I have no idea!",
    "I'm unable to answer.",
    "As an AI language model, I cannot answer that.",
    "I cannot answer this question based on the given context.",
    "I don’t have access to that information.",
    "I could not find the answer in the documents. Could you rephrase the question?",
    "I don't know because the documents don't mention it.",
    "I apologize, but I couldn't find any information about that.",
    "Unfortunately, I do not have enough information to answer that. Please provide more context.",
    "Based on the provided documents, I am unable to determine when the Eiffel Tower was built.",
    "The provided context does not contain information about when the Eiffel Tower was built.",
    "The context does not say when it was built.",
    "The text doesn't specify.",
    "It is not mentioned in the context.",
    "There is not enough information to answer the question.",
    "The question cannot be answered from the given documents.",
    "No information.",
    "Unknown",
    "N/A",
    "Ich weiß es nicht.",
    "Je ne sais pas.",
    "No lo sé",
    "Не знаю.",
    "我不知道。",
]


@pytest.mark.parametrize("answer", ONLY_DECLINE)
def test_an_answer_that_only_declines_abstains(answer: str) -> None:
    question = Adherent(instructions=NONE, question=ASKED, answer=answer, contexts=("I don't know.", "Paris"))
    (poll,) = ask(question).answers
    assert (poll.verdict, poll.probability) == ("abstains", None)
    result = ContextAdherence().score(question=ASKED, answer=answer, contexts=["Paris"], judge=LexicalJudge())
    assert (result.status, result.value) == ("undefined", None)
    assert result.model_dump()["code"] == "abstained"


@pytest.mark.parametrize(
    "answer",
    [
        "I don't know, but it was built in 1889.",
        "I don't know the exact day, the tower opened in 1889.",
        "I don't know when it was built. It opened in 1889.",
        "I'm not sure, maybe 1889.",
        "The contexts do not say when it was built, although they name Gustave Eiffel.",
        "The context does not mention Gustave.",
        "The Eiffel Tower was not built in 1890.",
        "I do not know who the architect Sauvestre was.",
        "It is not known who built it.",
        "Sorry.",
        "No.",
        "None",
        "There is no cure.",
        "The policy does not cover theft.",
        "I don't think so.",
        "Nobody knows.",
    ],
)
def test_an_answer_that_says_anything_else_does_not(answer: str) -> None:
    (poll,) = ask(Adherent(instructions=NONE, question=ASKED, answer=answer, contexts=("Paris",))).answers
    assert poll.verdict in ("yes", "no")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Does the document contain a signature?", "The document does not contain a signature."),
        ("Do you have a car?", "I don't have a car."),
        ("Is it available?", "Not available."),
        ("Is it Paris or Lyon?", "I don't know, Paris."),
    ],
)
def test_a_negative_answer_does_not_decline(question: str, answer: str) -> None:
    (poll,) = ask(Adherent(instructions=NONE, question=question, answer=answer, contexts=("Paris",))).answers
    assert poll.verdict in ("yes", "no")
