"""The embedded judge through its public interface: what it answers, where it is blind, what it survives."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from said import of, shown
from word_overlap import FACTS, USEFUL, adherent, ask, fact, recall, stated, useful

from ragmetrics_core import ContextAdherence, LexicalJudge, evaluate
from ragmetrics_core.data.asking import Instructions, Part, Question
from ragmetrics_core.data.errors import QuestionNotSupported
from ragmetrics_core.data.replies import NotAnswered
from ragmetrics_core.lexical import features
from ragmetrics_core.lexical.numerals import (
    find_unknown_numbers,
    normalise_number,
    numbers_of,
)
from ragmetrics_core.lexical.text import parse
from ragmetrics_core.metrics.context_recall import Rating
from ragmetrics_core.metrics.context_sufficiency import SufficientContexts

FRANCE_QUESTION = "Where is France and what is it's capital?"
FRANCE_ANSWER = "France is in western Europe and Paris is its capital."
FRANCE_LOW = (
    "The country is also renowned for its wines and sophisticated cuisine. Lascaux's"
    " ancient cave drawings, Lyon's Roman theater and the vast Palace of Versailles"
    " attest to its rich history."
)
FRANCE_HIGH = (
    "France, in Western Europe, encompasses medieval cities, alpine villages and"
    " Mediterranean beaches. Paris, its capital, is famed for its fashion houses,"
    " classical art museums including the Louvre and monuments like the Eiffel Tower."
)


class TestFrance:
    def test_each_chunk_is_judged_by_itself(self) -> None:
        verdicts = useful(
            FRANCE_LOW, FRANCE_HIGH, answer=FRANCE_ANSWER, question=FRANCE_QUESTION
        )
        assert [verdict.useful for verdict in verdicts] == [False, True]
        alone = useful(FRANCE_HIGH, answer=FRANCE_ANSWER, question=FRANCE_QUESTION)
        assert alone[0] == verdicts[1]

    def test_listwise_and_reversed(self) -> None:
        verdicts = useful(
            FRANCE_HIGH, FRANCE_LOW, answer=FRANCE_ANSWER, question=FRANCE_QUESTION
        )
        assert [verdict.useful for verdict in verdicts] == [True, False]

    def test_graded_agrees_with_the_verdict(self) -> None:
        verdicts = useful(
            FRANCE_HIGH,
            FRANCE_LOW,
            answer=FRANCE_ANSWER,
            question=FRANCE_QUESTION,
            graded=True,
        )
        assert [verdict.grade for verdict in verdicts] == [3, 0]

    def test_answer_is_adherent_with_evidence(self) -> None:
        poll = adherent(FRANCE_ANSWER, FRANCE_LOW, FRANCE_HIGH)
        assert poll.verdict == "yes"
        assert poll.sentences[0].rank == 2
        assert poll.sentences[0].coverage == 1.0
        assert poll.sentences[0].evidence.startswith("France, in Western Europe")

    def test_made_up_answer_is_not(self) -> None:
        poll = adherent(
            "Bananas grow best in tropical Ecuador.", FRANCE_LOW, FRANCE_HIGH
        )
        assert poll.verdict == "no"
        assert poll.unsupported == ("Bananas grow best in tropical Ecuador.",)
        assert "Bananas" in poll.reason
        assert "Ecuador" in poll.sentences[0].uncovered


class TestNumbers:
    CONTEXT = (
        "The bridge was built in 1932 and carries 160,000 cars a day over 1,149 metres."
    )

    def test_number_found_nowhere_vetoes(self) -> None:
        assert adherent("The bridge was built in 1932.", self.CONTEXT).verdict == "yes"
        poll = adherent("The bridge was built in 1923.", self.CONTEXT)
        assert poll.verdict == "no"
        assert poll.probability is not None
        assert poll.probability < 0.5
        assert "1923" in poll.reason
        assert poll.unsupported == ("The bridge was built in 1923.",)
        assert poll.sentences[0].numbers == ("1923",)

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
        assert (
            adherent("In the season 2018–19.", "In the season 2018–2019.").verdict
            == "yes"
        )
        assert (
            adherent("In the season 2018–2019.", "In the season 2018–19.").verdict
            == "yes"
        )

    def test_one_digit_counts(self) -> None:
        context = "The old stone bridge over the wide river has 3 tall arches."
        assert (
            adherent(
                "The old stone bridge over the wide river has 3 tall arches.", context
            ).verdict
            == "yes"
        )
        poll = adherent(
            "The old stone bridge over the wide river has 4 tall arches.", context
        )
        assert (poll.verdict, poll.reason) == (
            "no",
            "uncertain: number in no context: 4",
        )

    @pytest.mark.parametrize(
        ("answer", "context"),
        [
            ("1149", "1 149"),
            ("1 149", "1149"),
            ("1149", "1\u202f149"),
            ("1\u2009149", "1,149"),
            ("1149", "1'149"),
            ("12 345", "345 and 12"),  # two numbers as well as one
            ("53,000,000", "$53 million"),
            ("$53 million", "53,000,000"),
            ("53 million", "fifty-three million"),
            ("1.5 bn", "1,500,000,000"),
            ("12", "twelve"),
            ("3", "three"),
            ("3rd", "third"),
            ("21", "twenty-one"),
            ("250", "two hundred and fifty"),
            ("2005", "two thousand and five"),
            ("1990s", "nineties"),
            ("1990s", "1990's"),
            ("1990s", "1994"),
            ("90s", "1994"),
            ("1994-95", "1995 and 1994"),
            ("0", "zero"),
        ],
    )
    def test_other_spellings(self, answer: str, context: str) -> None:
        assert (
            list(
                find_unknown_numbers(
                    f"It was {answer} there.",
                    parse(f"They say {context} stood.").numbers,
                )
            )
            == []
        )

    @pytest.mark.parametrize(
        ("answer", "context", "numbers"),
        [
            ("1149", "1 194", ["1149"]),
            ("35 million", "53 million", ["35"]),
            ("1980s", "1994", ["1980"]),
            ("4", "three", ["4"]),
            ("11", "5 6 7", ["11"]),  # neighbours make no sum
            ("1994", "1990s", ["1994"]),
            ("9,5", "5,9", ["9,5"]),
        ],
    )
    def test_other_numbers(self, answer: str, context: str, numbers: list[str]) -> None:
        assert (
            list(
                find_unknown_numbers(
                    f"It was {answer} there.",
                    parse(f"They say {context} stood.").numbers,
                )
            )
            == numbers
        )

    @pytest.mark.parametrize(
        ("words", "numbers"),
        [
            ("twenty one boats", {"20", "21"}),
            ("twenty fifteen boats", {"20", "15"}),
            ("two hundred fifteen boats", {"2", "200", "215"}),
            ("fifteen two boats", {"15", "2"}),
        ],
    )
    def test_number_words_add_up_as_they_are_said(
        self, words: str, numbers: set[str]
    ) -> None:
        assert parse(f"They saw {words}.").numbers == numbers

    @pytest.mark.parametrize(
        "answer",
        [
            "Passage 3 says so.",
            "As said [3].",
            "1) one 2) two",
            "3. Look",
            "**3.** Look",
        ],
    )
    def test_numbers_that_point_or_count_claim_nothing(self, answer: str) -> None:
        assert list(find_unknown_numbers(answer, frozenset())) == []

    def test_number_of_another_context_counts(self) -> None:
        assert (
            adherent(
                "The bridge was built in 1932.",
                "The bridge was built long ago.",
                "In 1932.",
            ).verdict
            == "yes"
        )

    @pytest.mark.parametrize(
        ("written", "one"),
        [
            ("1,998", "1998"),
            ("02.50", "2.5"),
            ("1.000.000", "1000000"),
            ("3,5", "3.5"),
            ("0", "0"),
            ("0.5", "0.5"),
            ("007", "7"),
        ],
    )
    def test_one_spelling(self, written: str, one: str) -> None:
        assert normalise_number(written) == one

    def test_dates_are_no_spans_of_years(self) -> None:
        assert numbers_of("2018-11-05") == {"2018", "11", "5"}


class TestBlindSpots:
    """Documented: word overlap does not see these.

    A judge that does is no longer this one.
    """

    CONTEXT = (
        "Marie Curie discovered radium with Pierre Curie in Paris and was awarded the"
        " prize."
    )

    @pytest.mark.parametrize(
        "answer",
        [
            "Marie Curie was never considered worthy of the honour.",
            "Marie Curie missed the prize.",
            "Curie failed the prize.",
        ],
    )
    def test_negation_in_other_words(self, answer: str) -> None:
        assert adherent(answer, self.CONTEXT).reason.count("negated") == 0

    def test_swapped_name_beside_the_same_words(self) -> None:
        assert (
            adherent(
                "In Paris Pierre Curie was awarded the prize.", self.CONTEXT
            ).verdict
            == "yes"
        )

    def test_order_of_words(self) -> None:
        assert recall("Goliath beat David", "David beat Goliath").score == 1.0


class TestNegation:
    SAID = (
        "The bridge over the river was opened in May. Its arches were never repaired."
    )

    def test_where_the_contexts_negate_nothing(self) -> None:
        answer = "The bridge over the river was not opened in May."
        poll = adherent(answer, self.SAID)
        assert (poll.verdict, poll.unsupported) == ("no", (answer,))
        assert (
            poll.reason
            == "uncertain: negated in the answer, not in the contexts: opened"
        )
        assert adherent(answer.replace("not ", ""), self.SAID).verdict == "yes"

    def test_of_a_word_that_the_contexts_do_not_hold(self) -> None:
        assert (
            "negated"
            in adherent(
                "Marie Curie was not given the prize.", "Marie Curie won the prize."
            ).reason
        )

    @pytest.mark.parametrize(
        ("answer", "context"),
        [
            ("The arches were never repaired.", SAID),
            ("The arches weren't repaired.", SAID),
            ("The arches were not repaired.", "They failed to repair the arches."),
            # one of two denies it
            (
                "The bridge was not opened.",
                "The bridge was opened. The bridge was not opened.",
            ),
            (
                "The bridge was not only opened but paid.",
                "The bridge was opened and paid.",
            ),
            ("No. The bridge was opened.", "The bridge was opened."),
            ("The bridge over the river was opened in May, not June.", SAID),
            ("London is not the capital.", "Paris, not London, is the capital."),
            # too little in common
            ("It was not opened by a queen from the distant north.", "It was opened."),
        ],
    )
    def test_otherwise_it_denies_nothing(self, answer: str, context: str) -> None:
        assert "negated" not in adherent(answer, context).reason

    def test_it_lowers_and_never_raises(self) -> None:
        unlike = adherent(
            "Wizards not opened seven towers in distant Ghent.",
            "Seven doors opened wizards.",
        )
        assert unlike.probability is not None
        assert unlike.probability < 0.49


class TestNames:
    CONTEXTS = (
        "The old mill near the harbour was bought by Anna Berg in spring.",
        "In autumn Carl Voss painted the lighthouse.",
    )

    def test_a_name_from_elsewhere_costs(self) -> None:
        right = adherent(
            "The old mill near the harbour was bought by Anna Berg.", *self.CONTEXTS
        )
        wrong = adherent(
            "The old mill near the harbour was bought by Carl Voss.", *self.CONTEXTS
        )
        nowhere = adherent(
            "The old mill near the harbour was bought by Dora Zell.", *self.CONTEXTS
        )
        assert right.probability is not None
        assert wrong.probability is not None
        assert nowhere.probability is not None
        assert wrong.probability < right.probability
        assert nowhere.probability < right.probability
        assert wrong.reason.endswith(
            "; not where the rest of its sentence stands: Carl, Voss"
        )

    def test_the_features_by_hand(self) -> None:
        answer, contexts = (
            parse("The mill was bought by Carl Voss, not Dora."),
            [parse(it) for it in self.CONTEXTS],
        )
        matches = features.align(answer, contexts)
        # Beside "Carl Voss" stands none of mill, bought, Dora; elsewhere two do. Dora
        # stands nowhere.
        assert matches[0].misplaced_name == features.MisplacedName(
            frozenset({"carl", "vos"} if "vos" in answer.terms else {"carl", "voss"}),
            support=0.0,
        )
        assert features.adherence(answer, contexts, matches)[3:] == (0.0, 0.5)

    def test_a_part_of_a_name_is_not_the_name(self) -> None:
        answer = parse("The mill was bought by Carl Voss.")
        contexts = [
            parse("Carl Voss lives far away."),
            parse("The mill was bought by Carl Young."),
        ]
        matches = features.align(answer, contexts)
        # mill and bought stand beside "Carl" only, not beside "Carl Voss"
        assert matches[0].misplaced_name is not None
        assert matches[0].misplaced_name.support == 0.0

    def test_shares_are_of_what_is_sought(self) -> None:
        answer = parse("Copper roofs turn green.")
        context = parse("Copper roofs turn blue after many rainy winters.")
        matches = features.align(answer, [context])
        # Of the pairs copper-roof, roof-turn and turn-green the first two are there.
        assert features.adherence(answer, [context], matches)[1] == 2 / 3

        question = parse("What colour do copper roofs turn?")
        chunk = parse("Green copper covers old towers.")
        # Of the answer's terms only "green" is not in the question, and it is found.
        assert features.usefulness(question, answer, chunk)[0] == 1.0

    def test_an_answer_without_names_loses_nothing(self) -> None:
        answer, contexts = (
            parse("the old mill was bought"),
            [parse(it) for it in self.CONTEXTS],
        )
        assert features.adherence(answer, contexts, features.align(answer, contexts))[
            3:
        ] == (1.0, 1.0)


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


class TestRecall:
    def test_bounds_and_bands(self) -> None:
        assert recall(FRANCE_ANSWER, FRANCE_ANSWER) == recall(
            FRANCE_ANSWER, FRANCE_ANSWER
        )
        assert (
            recall(FRANCE_ANSWER, FRANCE_ANSWER).score,
            recall(FRANCE_ANSWER, FRANCE_ANSWER).band,
        ) == (
            1.0,
            "perfect",
        )
        assert (
            recall("Bananas", FRANCE_ANSWER).score,
            recall("Bananas", FRANCE_ANSWER).band,
        ) == (0.0, "none")
        assert recall("Paris", FRANCE_ANSWER).band == "minimal"

    def test_reason_says_what_is_missing(self) -> None:
        # The reference has the terms France, western, Europe, Paris, capital.
        rating = recall("Paris and Rome", FRANCE_ANSWER)
        assert rating.reason.startswith("1 of 5 terms of the reference found")
        assert "western" in rating.reason
        assert "the answer has 1 others" in rating.reason
        # By hand: coverage 1/5, F1 of {Paris, Rome} and the five terms 2·1/7; ¾ and ¼
        # of them.
        assert rating.score == pytest.approx(0.75 / 5 + 0.25 * 2 / 7)


def test_facts_are_sentences_and_clauses() -> None:
    facts = stated(f"{FRANCE_ANSWER} Dr. No likes wine and cheese. {FRANCE_ANSWER}")
    assert facts == (
        "France is in western Europe",
        "Paris is its capital.",
        "Dr. No likes wine and cheese.",
    )
    assert stated(" \n") == ()


def test_one_verdict_per_fact() -> None:
    asked = ask(
        shown(FACTS, context=FRANCE_HIGH, facts=("Paris is the capital", "Rome"))
    )
    assert [weight.p > 0.5 for weight in asked.weights] == [True, False]
    assert [item.covered for item in asked.reply.facts] == [True, False]


def test_standalone_question_is_preferred() -> None:
    part = Part("Question", "And there?", rewrite="Capital of France?")
    asked = ask(
        replace(
            shown(USEFUL, answer="yes", chunks=(FRANCE_HIGH,)),
            parts={
                "question": part,
                "answer": Part("Answer", "yes"),
                "chunks": Part("Chunk", (FRANCE_HIGH,), "letters"),
            },
        )
    )
    assert asked.reply.chunks[0].reason.startswith(("2 of 2", "uncertain: 2 of 2"))


class Unheard(Question[Rating]):
    """A question of somebody else's."""


@pytest.mark.parametrize("kind", [SufficientContexts, Unheard])
def test_unknown_question(kind: type[Question[Any]]) -> None:
    part = {"answer": Part("Answer", "secret text")}
    answer = asyncio.run(
        LexicalJudge().answer(
            kind(parts=part, instructions=Instructions(""), Reply=Rating)
        )
    )
    assert isinstance(answer.reply, NotAnswered)
    assert isinstance(answer.reply.error, QuestionNotSupported)
    assert kind.__name__ in str(answer.reply.error)
    assert 'judge="gpt-4o-mini"' in str(answer.reply.error)
    assert "secret" not in str(answer.reply.error) + repr(answer)


def test_polled_once_however_many_are_asked() -> None:
    asked = ask(
        shown(of(ContextAdherence(polls=7), contexts=["c"], answer="a"), answer="Paris")
    )
    assert (len(asked.replies), len(asked.failures)) == (1, 0)


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
    (
        "Unfortunately, I do not have enough information to answer that. Please provide"
        " more context."
    ),
    (
        "Based on the provided documents, I am unable to determine when the Eiffel"
        " Tower was built."
    ),
    (
        "The provided context does not contain information about when the Eiffel Tower"
        " was built."
    ),
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
    poll = adherent(answer, "I don't know.", "Paris", question=ASKED)
    assert (poll.verdict, poll.probability) == ("abstains", None)
    result = ContextAdherence().score(
        question=ASKED, answer=answer, contexts=["Paris"], judge=LexicalJudge()
    )
    assert (result.status, result.value) == ("undefined", None)
    assert result.model_dump()["code"] == "declined"


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
    poll = adherent(answer, "Paris", question=ASKED)
    assert poll.verdict in ("yes", "no")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "Does the document contain a signature?",
            "The document does not contain a signature.",
        ),
        ("Do you have a car?", "I don't have a car."),
        ("Is it available?", "Not available."),
        ("Is it Paris or Lyon?", "I don't know, Paris."),
    ],
)
def test_a_negative_answer_does_not_decline(question: str, answer: str) -> None:
    poll = adherent(answer, "Paris", question=question)
    assert poll.verdict in ("yes", "no")


def test_a_report_counts_the_scores_of_which_it_is_uncertain(tmp_path: Path) -> None:
    rows = [
        {"answer": answer, "contexts": [TestNegation.SAID]}
        for answer in ("The bridge was not opened.", "Wizards.")
    ]
    report = evaluate(rows, ["context_adherence"], judge="lexical", progress=False)
    assert [
        row.results["context_adherence"].reason.startswith("uncertain")
        for row in report.results
    ] == [True, False]
    assert report.summary()["context_adherence"].uncertain == 1
    path = tmp_path / "report.html"
    report.to_html(path)
    page = path.read_text(encoding="utf-8")
    assert "The judge is uncertain of 1 of 2 scores of context_adherence." in page
