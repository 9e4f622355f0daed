"""Rows in eight languages: words judge English alone, a right judge judges all of them."""

import asyncio
import random
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from judge_replies import shown
from word_overlap import ADHERENT, FACTS, RATED, STATED, USEFUL, adherent, fact, recall

from ragmetrics_core import (
    LexicalJudge,
    Report,
    Sample,
    Scored,
    ScriptedJudge,
    Undefined,
    evaluate,
)
from ragmetrics_core.data import SampleResult
from ragmetrics_core.data.errors import LanguageNotMeasured
from ragmetrics_core.lexical.text import is_english
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.reporting.diagnosis import diagnose
from ragmetrics_core.reporting.screen import screen_lines

TEMPLATES = tomllib.loads(
    (Path(__file__).parent / "golden" / "languages.toml").read_text("utf-8")
)
PLACES = (
    {"place": "Kampen", "year": "1856", "height": "38", "name": "Otto"},
    {"place": "Ghent", "year": "1902", "height": "24", "name": "Maria"},
    {"place": "Tonder", "year": "1733", "height": "51", "name": "Jonas"},
    {"place": "Vigo", "year": "1918", "height": "17", "name": "Clara"},
)
N_ENGLISH_FAULTS_NAMED = 9
"""As the judge before this test named them, of 13."""


def rows_of(language: str) -> Iterator[dict[str, Any]]:
    """Thirteen good rows of a language, and thirteen with a planted fault."""
    template = TEMPLATES[language]

    def row(
        question: str, answer: str, reference: str, context: str, **more: Any
    ) -> Any:
        return {
            "question": question,
            "answer": answer,
            "reference": reference,
            "contexts": [context],
            "metadata": {"language": language, **more},
        }

    for number, place in enumerate(PLACES):
        another = PLACES[number - 1]
        context = template["context"].format(**place)
        for kind, question in enumerate(template["questions"]):
            right = template["answers"][kind].format(**place)
            wrong = (
                template["answers"][kind].format(**another)
                if kind != 1
                else template["invented"]
            )
            question = question.format(**place)
            yield row(question, right, right, context, is_good=True)
            yield row(question, wrong, right, context, is_good=False)
    declines, in_vain = template["declines"], template["asked_in_vain"]
    yield row(in_vain, declines, declines, context, is_good=True)
    yield row(in_vain, template["invented"], declines, context, is_good=False)


ROWS = [row for language in TEMPLATES for row in rows_of(language)]


def faults(report: Report) -> Counter[tuple[bool, bool, bool]]:
    """Rows by whether they are English, good, and called a fault."""
    counts = Counter[tuple[bool, bool, bool]]()
    for row in report.results:
        assert row.sample is not None
        is_fault = diagnose(row).kind == "fault"
        facts = row.sample.metadata
        counts[facts["language"] == "English", facts["is_good"], is_fault] += 1
    return counts


@pytest.fixture(scope="module")
def by_words() -> Report:
    return evaluate(ROWS, judge="lexical")


@pytest.mark.nightly
def test_words_call_no_row_outside_english_a_fault(by_words):
    counts = faults(by_words)
    assert len(ROWS) == 208
    assert counts[False, True, True] == 0
    assert counts[False, False, True] == 0
    assert counts[True, True, True] <= 0.03 * 13
    assert counts[True, False, True] >= N_ENGLISH_FAULTS_NAMED


def test_rows_outside_english_end_unsure_and_the_screen_says_how_many(by_words):
    for row in by_words.results:
        assert row.sample is not None
        if row.sample.metadata["language"] != "English":
            assert diagnose(row).name in ("unsure", "declined")
            assert not any(
                isinstance(result, Undefined) and result.code == "missing"
                for result in row.results.values()
            )
    screen = "\n".join(screen_lines(by_words.glance()))
    assert "182 of 208 rows are not in English: words cannot judge them." in screen


def test_a_right_judge_names_every_fault_in_all_languages():
    rights = {(row["question"], row["reference"]) for row in ROWS}
    declining = {template["declines"] for template in TEMPLATES.values()}

    def is_right(asked: Any) -> bool:
        return (asked["question"], asked["answer"]) in rights

    judge = ScriptedJudge(
        {
            Adherent: lambda asked: {
                "reason": "",
                "claims": asked["answer"] not in declining,
                "supported": is_right(asked),
                "unsupported": [] if is_right(asked) else [asked["answer"]],
            },
            Declined: lambda asked: {"declined": asked["answer"] in declining},
            Useful: lambda asked: {"useful": is_right(asked)},
            ExtractFacts: lambda asked: {
                "facts": [] if asked["reference"] in declining else [asked["reference"]]
            },
            FactInContext: lambda asked: {"covered": True},
            RateRecall: lambda asked: {"score": float(is_right(asked))},
        }
    )
    counts = faults(evaluate(ROWS, judge=judge))
    assert counts == {
        (True, True, False): 13,
        (True, False, True): 13,
        (False, True, False): 91,
        (False, False, True): 91,
    }


def test_every_question_on_another_script_stays_undecided():
    answer, context = "北京是中国的首都。", "中国的首都是北京,人口众多。"
    for question in (
        shown(ADHERENT, answer=answer, contexts=(context,)),
        shown(USEFUL, answer=answer, chunks=(context,)),
        shown(FACTS, facts=(answer,), context=context),
        shown(RATED, answer=answer, reference=context),
        shown(STATED, reference=context),
    ):
        reply = asyncio.run(LexicalJudge().answer(question)).reply
        assert isinstance(reply.error, LanguageNotMeasured)


def test_an_answer_in_another_language_than_its_contexts_is_undecided():
    (result,) = evaluate(
        [
            {
                "question": "Wann wurde der Leuchtturm von den Leuten gebaut?",
                "answer": "Er wurde im Jahr 1856 von den Leuten des Dorfes mit Steinen aus dem nahen"
                " Fluss gebaut, wie alte Karten und mehrere Briefe zeigen.",
                "contexts": [TEMPLATES["English"]["context"].format(**PLACES[0])],
            }
        ],
        judge="lexical",
    ).results
    assert diagnose(result).name == "unsure"


@pytest.mark.parametrize("place", ["answer", "reference"])
def test_one_text_in_another_language_than_the_others_is_not_compared(place):
    english = (
        "The lighthouse was built in the year 1856 by the people of the village, with"
        " stones from the river, as old maps and several of their letters show."
    )
    other = (
        "Der Leuchtturm wurde im Jahr 1856 von den Leuten des Dorfes mit Steinen aus dem"
        " nahen Fluss gebaut, wie alte Karten und mehrere ihrer Briefe zeigen."
    )
    row = {"question": "When was the lighthouse built, and by whom was it built?"}
    row |= {"answer": english, "reference": english, place: other}
    quoting = f'{other} Quelle: "The history of the guild of the harbour, and its men."'
    for said in (row, {**row, place: quoting}):
        (result,) = evaluate([said], ["recall"], judge="lexical").results
        assert "not in English" in result.results["context_recall"].reason


def test_no_score_names_a_fault_in_a_row_of_another_language():
    row = SampleResult(
        index=0,
        sample=Sample(question="Wer?", answer="Otto", reference="Maria"),
        results={
            "context_recall": Scored(metric="context_recall", value=0, reason="0 of 1"),
            "context_adherence": Undefined(
                metric="context_adherence", reason="not in English", code="language"
            ),
        },
    )
    assert diagnose(row).name == "unsure"


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("The lighthouse burned.", "The light\u00adhouse burned."),
        ("The lighthouse burned.", "The light\u200bhouse burned."),
        ("The lighthouse burned.", "The light-\nhouse burned."),
        ("The light\u00adhouse burned.", "The lighthouse burned."),
        ("王", "The king (王) lived in the castle of the town."),
        ("50天", "It can be returned within 50天 of the day of the purchase."),
        ("天", "It can be returned within 50天内 of the day of the purchase."),
    ],
)
def test_what_nobody_sees_and_single_characters_match(text, context):
    assert adherent(text, context).verdict == "yes"
    assert fact(text, context) > 0.5
    assert recall(context, text).score > 0.5


CANNOT = "You cannot return a lamp once it was lit."
CAN = "You can return a lamp once it was lit."


@pytest.mark.parametrize(("said", "written"), [(CAN, CANNOT), (CANNOT, CAN)])
def test_a_negation_dropped_or_added_is_seen(said, written):
    assert adherent(said, written).probability < 0.5
    assert adherent(written, written).probability > 0.9
    assert recall(said, written).score == 0
    assert recall(written, written).score == 1
    others = "Lamps are free. They are lit at night."
    assert 0.4 < recall(f"{others} {said}", f"{others} {written}").score < 0.9


def test_sentences_that_only_resemble_each_other_deny_nothing():
    answer = "Any country of the area may be the one that you enter with your visa."
    context = "You need not enter the area by the country that issued your visa."
    assert "negated" not in adherent(answer, context).reason


SOURCES = (
    "Sources:\n- docs/lamps.md\n- https://example.org/help\n- [3] The old handbook"
)


@pytest.mark.parametrize(
    "sources",
    [
        SOURCES,
        "**Sources:** lamps.md, handbook.pdf",
        "## References\n1. Lamps (https://example.org)\n2. Oil",
    ],
)
def test_a_list_of_sources_costs_nothing(sources):
    text = "The lamp was lit in the tower by Anna."
    with_sources = f"{text}\n\n{sources}"
    assert adherent(with_sources, text) == adherent(text, text)
    assert recall(with_sources, text).score == 1


def test_sentences_below_a_heading_are_judged():
    text = "The lamp was lit in the tower by Anna."
    made_up = f"{text}\n\nSources:\n- In 1999 wizards burned the village down."
    assert adherent(made_up, text).verdict == "no"
    assert adherent("Sources:\n- dragons.pdf", text).verdict == "no"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEMPLATES["German"]["context"], False),
        (
            "Die Rückgabe ist innerhalb von 30 Tagen möglich, wie unten und auf der"
            " nächsten Seite ausführlich beschrieben.",
            False,
        ),
        ("天空", False),
        ("The king (王) lived in the castle that was built by his father.", True),
        ("The library bar is available for guest use.", None),
        ("The king (王) lived in the castle.", None),
        ("Otto", None),
        # the same few words again and again
        ("Who lit lamp 1?\nSomebody else.\nAnna lit lamp 1.\nAnna lit lamp 1.", None),
        ("1856", None),
        ("王", None),
        ("Δx = 5", None),
    ],
)
def test_what_tells_the_language(text, expected):
    assert is_english(text) is expected


def test_the_order_of_contexts_tells_no_language():
    draw = random.Random(1)
    names = [
        " ".join("".join(draw.choices("abcdefgh", k=6)) for _ in range(80)) + "."
        for _ in range(5)
    ]
    english = (
        "There is a lamp in the tower of the old town, and it was lit by Anna when she"
        " came from her house with all that they had; but no one who saw it then would"
        " know what he or we should have done about them if it were not so, for this is"
        " how you can do as well as any other man could, because our lamps are more"
        " than some."
    )
    contexts = [english, *names]
    row = {"question": "Who lit the lamp?", "answer": "Anna lit the lamp in 1901."}
    outcomes = [
        evaluate(
            [{**row, "contexts": ordered}], ["context_adherence"], judge="lexical"
        )[0].results["context_adherence"]
        for ordered in (contexts, contexts[::-1])
    ]
    assert outcomes[0].status == outcomes[1].status


@pytest.mark.parametrize("language", ["German", "English"])
@pytest.mark.parametrize("count", [3, 30, 150])
def test_many_contexts_tell_their_language(language, count):
    sentences = {
        "German": (
            "Die Lampe {} wurde von Anna in der Nacht angezündet, und alle wissen das"
            " seit vielen Jahren, weil sie es selbst gesehen haben."
        ),
        "English": (
            "The lamp {} was lit by Anna in the night, and all of them have known that"
            " for many years, because they saw it."
        ),
    }
    contexts = [sentences[language].format(number) for number in range(count)]
    row = {"question": "Who lit it?", "contexts": contexts, "answer": "It was Anna."}
    report = evaluate([row], ["context_adherence"], judge="lexical")
    outcome = report[0].results["context_adherence"]
    assert (outcome.status == "scored") is (language == "English")


@pytest.mark.parametrize(
    ("question", "context", "answer", "status"),
    [
        (
            "¿Cuánto cuesta el envío?",
            "El envío a España cuesta 5 euros y tarda tres días.",
            "El envío cuesta 5 euros.",
            "undefined",
        ),
        (
            "Le gardien a-t-il allumé la lampe ?",
            "Le gardien n'a jamais allumé la lampe.",
            "Le gardien a allumé la lampe.",
            "undefined",
        ),
        # one English word, or hardly a word in small letters
        ("Shipping costs?", "Shipping costs five euros from here.", "Five", "scored"),
        ("Guy's Grocery Games?", "Guy's Grocery Games, aired 2013", "2013", "scored"),
    ],
)
def test_a_short_row_tells_its_language_by_having_no_english_word(
    question, context, answer, status
):
    row = {"question": question, "contexts": [context], "answer": answer}
    (result,) = evaluate([row], ["context_adherence"], judge="lexical")
    assert result.results["context_adherence"].status == status


def test_short_english_contexts_without_small_words_are_no_other_language():
    contexts = [
        "The harbour museum opens at ten and closes at six.",
        "Tickets cost nine euros; children under twelve enter free.",
        "The museum's cafe serves fish soup on Fridays.",
    ]
    row = {
        "question": "What does a ticket cost, and when does the museum open?",
        "answer": "A ticket costs nine euros, and the museum opens at ten.",
        "contexts": contexts,
    }
    (result,) = evaluate([row], judge="lexical")
    assert result.results["context_utilization"].status == "scored"
