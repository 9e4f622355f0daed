"""The embedded judge through its public interface: a table of what it answers, and what it does not."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judge_replies import of, shown
from word_overlap import FACTS, USEFUL, adherent, ask, fact, recall, stated, useful

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    LexicalJudge,
    evaluate,
)
from ragmetrics_core.data.asking import Instructions, Part, Question
from ragmetrics_core.data.errors import QuestionNotSupported
from ragmetrics_core.metrics.context_recall import Rating
from ragmetrics_core.metrics.context_sufficiency import SufficientContexts

# Each line: the kind of question, what the row shows, the texts, and what is answered.
# Probabilities have six places, so that a change of features or weights shows.
TABLE = Path(__file__).parent / "golden" / "embedded_judge" / "answers.jsonl"
ROWS = [json.loads(line) for line in TABLE.read_text("utf-8").splitlines()]
HIGH = "France, in Western Europe, encompasses medieval cities. Paris, its capital, is famed."
RIVER = "The bridge over the river was opened in May. Its arches were never repaired."


def rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 6)


def answered(kind: str, texts: dict[str, Any]) -> list[Any]:
    """What the embedded judge answers, in the form of a row of the table."""
    if kind == "adherent":
        poll = adherent(texts["answer"], *texts["contexts"], question=texts["question"])
        unsupported = list(poll.unsupported)
        return [poll.verdict, rounded(poll.probability), poll.reason, unsupported]
    if kind == "fact":
        return [rounded(fact(texts["fact"], texts["context"]))]
    if kind == "recall":
        rating = recall(texts["answer"], texts["reference"])
        return [rounded(rating.score), rating.reason]
    if kind == "facts of a reference":
        return [list(stated(texts["reference"]))]
    chunks: Sequence[Any] = useful(
        *texts["chunks"], answer=texts["answer"], question=texts["question"]
    )
    return [
        [chunk.useful for chunk in chunks],
        [rounded(chunk.probability) for chunk in chunks],
        [chunk.reason for chunk in chunks],
    ]


def test_a_sentence_that_the_contexts_deny_is_named():
    poll = adherent(
        "Carl bought the mill. The mill is not old.",
        "Carl bought the mill. The mill is old.",
    )
    assert (poll.verdict, poll.unsupported) == ("no", ("The mill is not old.",))


@pytest.mark.parametrize(
    "row", ROWS, ids=[f"{number} {row[0]}" for number, row in enumerate(ROWS, 1)]
)
def test_what_it_answers(row):
    kind, _, texts, *expected = row
    assert answered(kind, texts) == expected


def test_the_table_says_what_it_is_about():
    """Held against what a row claims to show, so that no wrong row can be recorded."""
    verdicts = {
        "only declines": {"abstains"},
        "says more, or something else": {"yes", "no"},
        "a number found nowhere is not adherent": {"yes", "no"},
        "nothing to compare with": {"no"},
    }
    for about, allowed in verdicts.items():
        found = {row[3] for row in ROWS if row[:2] == ["adherent", about]}
        assert found <= allowed
    for about, is_in_no_context in (
        ("the same number", False),
        ("another number", True),
    ):
        reasons = [row[5] for row in ROWS if row[1] == about]
        assert {"in no context" in reason for reason in reasons} == {is_in_no_context}
    denying_nothing = [
        row for row in ROWS if row[1] == "a negation that denies nothing"
    ]
    assert not any("negated" in row[5] for row in denying_nothing)


@pytest.mark.parametrize("answer", ["N/A.", "Which lamp?", "I do not know.", "Hello!"])
def test_an_answer_that_claims_nothing_has_a_score_of_no_metric(answer):
    row = {"question": "Who lit the lamp?", "contexts": ["Anna lit the lamp."]}
    metrics = ["utilization", ContextUtilization(relevance="probability"), "adherence"]
    for metric in metrics:
        report = evaluate([{**row, "answer": answer}], metric, judge="lexical")
        (outcome,) = report.results[0].results.values()
        assert (outcome.status, outcome.code) == ("undefined", "declined")


def test_one_verdict_per_fact():
    asked = ask(shown(FACTS, context=HIGH, facts=("Paris is the capital", "Rome")))
    assert [weight.p > 0.5 for weight in asked.weights] == [True, False]
    assert [item.covered for item in asked.reply.facts] == [True, False]


def test_the_evidence_of_a_sentence():
    (sentence,) = adherent("Anna lit 3 red lamps.", "Fog.", "Anna lit lamps.").sentences
    assert (sentence.rank, sentence.evidence) == (2, "Anna lit lamps.")
    assert (sentence.uncovered, sentence.numbers) == (("3", "red"), ("3",))


def test_standalone_question_is_preferred():
    part = Part("Question", "And there?", rewrite="Capital of France?")
    asked = ask(
        replace(
            shown(USEFUL, answer="yes", chunks=(HIGH,)),
            parts={
                "question": part,
                "answer": Part("Answer", "yes"),
                "chunks": Part("Chunk", (HIGH,), "letters"),
            },
        )
    )
    assert asked.reply.chunks[0].reason.startswith(("2 of 2", "uncertain: 2 of 2"))


class Unheard(Question[Rating]):
    """A question of somebody else's."""


@pytest.mark.parametrize("kind", [SufficientContexts, Unheard])
def test_unknown_question(kind):
    part = {"answer": Part("Answer", "secret text")}
    answer = asyncio.run(
        LexicalJudge().answer(
            kind(parts=part, instructions=Instructions(""), Reply=Rating)
        )
    )
    assert isinstance(answer.reply.error, QuestionNotSupported)
    assert kind.__name__ in str(answer.reply.error)
    assert "gpt-4o-mini" in str(answer.reply.error)
    assert "secret" not in str(answer.reply.error) + repr(answer)


def test_polled_once_however_many_are_asked():
    asked = ask(
        shown(of(ContextAdherence(polls=7), contexts=["c"], answer="a"), answer="Paris")
    )
    assert (len(asked.replies), len(asked.failures)) == (1, 0)


def test_a_report_counts_the_scores_of_which_it_is_uncertain(tmp_path):
    rows = [
        {"answer": answer, "contexts": [RIVER]}
        for answer in ("The bridge was not opened.", "Wizards.")
    ]
    report = evaluate(rows, ["context_adherence"], judge="lexical")
    assert [
        row.results["context_adherence"].reason.startswith("uncertain")
        for row in report.results
    ] == [True, False]
    assert report.summary()["context_adherence"].uncertain == 1
    path = tmp_path / "report.html"
    report.to_html(path)
    page = path.read_text(encoding="utf-8")
    assert "The judge is uncertain of 1 of 2 scores." in page
