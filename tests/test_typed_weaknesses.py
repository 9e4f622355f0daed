"""A card's lines for the weaknesses of judges of typed questions.

The models are scripted, each with a weakness that is known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmetrics_core import ContextUtilization, LexicalJudge, Sample
from ragmetrics_core.cli.main import main
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.labelling.measured_judges import asking, measure_judge
from ragmetrics_core.labelling.published import LabelledSample
from ragmetrics_core.labelling.typed_weaknesses import (
    COMPANY,
    LOST,
    NAME_OF_ACCEPTED,
    NEGATION,
    ORDER,
    PADDED,
    PADDED_CHARACTERS,
    ROUNDED,
    measure_weaknesses,
)
from ragmetrics_core.models.decision_model import OpenAIDecisionModel
from ragmetrics_core.reporting.judge_card import Card
from ragmetrics_core.statistics.rater_agreement import Measured
from ragmetrics_core.testing.decision_loopback import Chance, DecisionServer
from ragmetrics_core.testing.loopback import Fault

Body = dict[str, Any]
TOPICS = ("lamps", "boats", "wolves", "tides")
LINES = (NEGATION, COMPANY, ORDER, ROUNDED, PADDED)


@dataclass
class Model:
    """What a model says of a predicate that is true, and where it is weak.

    Args:
        certainty: p of what is true, and of the denial of what is not.
        accepts_all: Whether it takes what is foreign for true.
        first_option: Whether it takes the first option of a choice, whatever it says.
        negation_off: What its denial of a predicate is too high by.
        company_off: What its p is lower by beside other questions.
        reads_all: Whether it answers texts of any length; else these are refused.
    """

    certainty: float = 0.9
    accepts_all: bool = False
    first_option: bool = False
    negation_off: float = 0.0
    company_off: float = 0.0
    reads_all: bool = False
    in_company: bool = False

    def __call__(self, state: Any, question: Body) -> Chance:
        wording = question["instructions"]
        is_true = "makes a claim" in wording or self._is_true(state)
        chance = self.certainty if is_true else 1 - self.certainty
        if question["type"] == "choice":
            return self._choice(question, chance)
        if question["type"] == "score":
            n_levels = len(question["levels"])
            return [1.0, *[0.0] * (n_levels - 1)]
        if wording.startswith("It is not the case"):
            return 1 - chance + self.negation_off
        return chance - (self.company_off if self.in_company else 0.0)

    def _is_true(self, state: Any) -> bool:
        """Whether all texts are about one topic."""
        text = json.dumps(state)
        return self.accepts_all or sum(topic in text for topic in TOPICS) == 1

    def _choice(self, question: Body, chance: float) -> list[float]:
        meanings = [choice["description"] for choice in question["choices"]]
        if self.first_option or "the statement is true" not in meanings:
            return [1.0, *[0.0] * (len(meanings) - 1)]
        return [
            chance if meaning == "the statement is true" else 1 - chance
            for meaning in meanings
        ]


class Server(DecisionServer):
    """Asks a model; what is longer than half the padding is refused."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.model = model

    def _outcome(self, number: int, body: Body) -> Fault:
        if len(json.dumps(body)) > PADDED_CHARACTERS / 2 and not self.model.reads_all:
            error = {"message": "too long", "code": "context_length_exceeded"}
            return Fault(400, body=json.dumps({"error": error}))
        self.model.in_company = len(body["questions"]) > 1
        return super()._outcome(number, body)


def row(question: str, topic: str) -> LabelledSample:
    sample = Sample.from_row(
        {
            "id": topic,
            "question": f"What of {topic}?",
            "contexts": [f"All {topic} are old."],
            "answer": f"The {topic} are old.",
            "facts": [f"{topic.title()} are old: {topic}."],
            "reference": f"{topic} are old.",
        }
    )
    return LabelledSample(question, "scripted", sample, (True,))


def rows(question: str) -> list[LabelledSample]:
    return [row(question, topic) for topic in TOPICS]


def lines_of(
    model: Model, question: str = "relevant", asked: Any = None
) -> dict[str, Measured]:
    with Server(model) as server:
        judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))
        ask = asking(judge, concurrency=1)
        metric = asked or typed_metric(question)
        figures = measure_weaknesses(question, metric, rows(question), ask)
    return {figure.measure: figure for figure in figures if figure.source is None}


def typed_metric(question: str) -> Any:
    from ragmetrics_core.labelling.measured_judges import ASKING

    return ASKING[question]()


def value(model: Model, line: str, **others: Any) -> float | None:
    return lines_of(model, **others)[line].value


@pytest.mark.parametrize("question", ["relevant", "present", "adherent"])
def test_a_model_without_weakness_has_none(question: str) -> None:
    lines = lines_of(Model(), question)
    assert {name: figure.value for name, figure in lines.items()} == {
        NAME_OF_ACCEPTED[question]: 0.0,
        NEGATION: pytest.approx(0.0),
        COMPANY: pytest.approx(0.0),
        ORDER: 0.0,
        ROUNDED: 0.0,
        PADDED: 0.0,
    }


@pytest.mark.parametrize("question", ["relevant", "present", "adherent"])
def test_a_model_that_must_choose_accepts_what_is_foreign(question: str) -> None:
    figure = lines_of(Model(accepts_all=True), question)[NAME_OF_ACCEPTED[question]]
    assert (figure.value, figure.count) == (1.0, len(TOPICS))
    assert figure.interval is not None
    assert figure.interval[0] > 0.4


def test_a_model_that_takes_the_first_option_flips() -> None:
    assert value(Model(first_option=True), ORDER) == 1.0


def test_a_tie_of_options_is_no_flip() -> None:
    assert value(Model(certainty=0.5), ORDER) == 0.0


def test_options_of_grades_are_turned_too() -> None:
    graded = ContextUtilization(relevance="graded")
    assert value(Model(first_option=True), ORDER, asked=graded) == 1.0


@settings(max_examples=6, deadline=None)
@given(off=st.floats(-0.1, 0.1))
def test_law_the_negation_line_is_what_p_and_its_denial_miss_one_by(
    off: float,
) -> None:
    line = value(Model(certainty=0.8, negation_off=off), NEGATION)
    assert line == pytest.approx(abs(off))


@settings(max_examples=6, deadline=None)
@given(off=st.floats(0.0, 0.19))
def test_law_the_company_line_is_the_change_beside_others(off: float) -> None:
    line = value(Model(certainty=0.8, company_off=off), COMPANY)
    assert line == pytest.approx(off)


def test_the_company_line_is_the_largest_change() -> None:
    class SomeChange(Model):
        def __call__(self, state: Any, question: Body) -> Chance:
            self.company_off = 0.3 if "boats" in json.dumps(state) else 0.0
            return super().__call__(state, question)

    assert value(SomeChange(), COMPANY) == pytest.approx(0.3)


@pytest.mark.parametrize(("certainty", "share"), [(1.0, 1.0), (0.5, 1.0), (0.51, 0.0)])
def test_rounded_probabilities_are_counted(certainty: float, share: float) -> None:
    assert value(Model(certainty=certainty), ROUNDED) == share


def test_a_model_that_answers_padded_texts_says_so() -> None:
    figure = lines_of(Model(reads_all=True))[PADDED]
    assert (figure.value, figure.count) == (1.0, 1)  # one row of each source


def test_one_padded_text_of_a_source_is_sent() -> None:
    with Server(Model(reads_all=True)) as server:
        judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))
        measure_weaknesses(
            "present", typed_metric("present"), rows("present"), asking(judge)
        )
        lengths = [len(json.dumps(one.body)) for one in server.requests]
    assert len([length for length in lengths if length > PADDED_CHARACTERS / 2]) == 1
    assert max(lengths) > 0.99 * PADDED_CHARACTERS


def test_a_dry_run_counts_probes_and_says_what_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "labelled.jsonl"
    data.write_text(json.dumps({**LABELLED, "source": "people"}) + "\n")
    arguments = ["card", "--judge", "decisions/tiny", "--data", str(data), "--dry-run"]
    assert main([*arguments, "--api-base", "http://127.0.0.1:1/v1"]) == 0
    printed = capsys.readouterr().out
    assert "nothing was called" in printed
    assert "Each of its typed questions is also asked alone." in printed


LABELLED: Body = {
    "question": "What of boats?",
    "contexts": ["All boats are old.", "Nothing is new."],
    "answer": "The boats are old.",
    "labels": {"relevant": [1, 0]},
}


def test_a_truncated_answer_to_a_padded_text_is_none() -> None:
    class Truncating(Server):
        def completion(self, body: Body) -> Body:
            is_long = len(json.dumps(body)) > PADDED_CHARACTERS / 2
            return {**super().completion(body), "truncated": is_long}

    with Truncating(Model(reads_all=True)) as server:
        judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))
        figures = measure_weaknesses(
            "relevant", ContextUtilization(), rows("relevant"), asking(judge)
        )
    assert [figure.value for figure in figures if figure.measure == PADDED] == [0, 0]


def test_probes_that_are_not_answered_are_counted() -> None:
    class Refusing(Model):
        def __call__(self, state: Any, question: Body) -> Chance:
            if "wolves" in json.dumps(state):
                return None
            return super().__call__(state, question)

    lines = lines_of(Refusing())
    assert lines[LOST].value == pytest.approx(1 / 4)
    assert lines[ROUNDED].count == 3


def test_every_line_is_of_each_source_too() -> None:
    with Server(Model()) as server:
        judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))
        of_two = [
            LabelledSample(it.question, f"source {place % 2}", it.sample, it.labels)
            for place, it in enumerate(rows("relevant"))
        ]
        figures = measure_weaknesses(
            "relevant", ContextUtilization(), of_two, asking(judge)
        )
    for line in (*LINES, NAME_OF_ACCEPTED["relevant"]):
        sources = [figure.source for figure in figures if figure.measure == line]
        assert sources == [None, "source 0", "source 1"]


# On a card


def card_of(model: Model, question: str = "relevant") -> Card:
    with Server(model) as server:
        judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))
        return measure_judge(judge, rows(question), asking(judge), draws=2)


def test_a_card_of_typed_questions_has_a_line_for_each_weakness() -> None:
    card = card_of(Model(accepts_all=True, first_option=True))
    measures = {figure.measure for figure in card.figures["relevant"]}
    assert {*LINES, NAME_OF_ACCEPTED["relevant"]} <= measures


def test_a_card_that_is_made_anew_asks_only_the_padded_row_again(
    tmp_path: Path,
) -> None:
    with Server(Model()) as server:
        judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))
        cards: list[Card] = []
        n_requests: list[int] = []
        for _ in range(2):
            server.requests.clear()
            ask = asking(judge, store=tmp_path / "replies")
            cards.append(measure_judge(judge, rows("relevant"), ask, draws=2))
            n_requests.append(len(server.requests))
    first, again = (
        {figure.measure: figure.value for figure in card.figures["relevant"]}
        for card in cards
    )
    assert n_requests[1] == 1 < n_requests[0]
    assert {name: first[name] for name in LINES} == {
        name: again[name] for name in LINES
    }


def test_no_answer_of_another_company_is_taken_from_the_store(tmp_path: Path) -> None:
    with Server(Model(certainty=0.8, company_off=0.15)) as server:
        judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))
        ask = asking(judge, concurrency=1, store=tmp_path / "replies")
        card = measure_judge(judge, rows("relevant"), ask, draws=2)
    company = [
        figure.value for figure in card.figures["relevant"] if figure.measure == COMPANY
    ]
    assert company == [pytest.approx(0.15)] * 2


def test_a_card_of_another_judge_has_no_such_line() -> None:
    card = measure_judge(
        LexicalJudge(), rows("relevant"), asking(LexicalJudge()), draws=2
    )
    measures = {figure.measure for figure in card.figures["relevant"]}
    assert measures.isdisjoint({*LINES, *NAME_OF_ACCEPTED.values()})


def test_a_card_of_a_decision_judge_says_nothing_of_a_correction() -> None:
    card = card_of(Model(), "adherent")
    assert card.claim_correction is None
    assert card.notes == ()
    measures = [figure.measure for figure in card.figures["adherent"]]
    assert not [measure for measure in measures if "weakest claim" in measure]


def test_acceptance_14_the_command_makes_a_card_on_human_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "labelled.jsonl"
    labelled = [
        {
            "source": "people",
            "question": f"What of {topic}?",
            "contexts": [f"All {topic} are old.", "Nothing is new."],
            "answer": f"The {topic} are old.",
            "labels": {"relevant": [1, 0]},
        }
        for topic in TOPICS
    ]
    data.write_text("".join(json.dumps(one) + "\n" for one in labelled))
    out = tmp_path / "card.json"
    with Server(Model(first_option=True)) as server:
        arguments = ["card", "--judge", "decisions/tiny", "--data", str(data)]
        arguments += ["--api-base", server.base_url, "--no-store", "--draws", "2"]
        assert main([*arguments, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"{ORDER:44} 1.00" in printed
    figures = {
        figure.measure: figure.value
        for figure in Card.read(out).figures["relevant"]
        if figure.source is None
    }
    assert figures[ORDER] == 1.0
    assert figures[PADDED] == 0.0


def test_no_page_names_a_decision_model_as_good() -> None:
    """Before a card on human labels there is no figure of any model in the docs."""
    page = Path(__file__).parents[1].joinpath("docs", "judges.md").read_text("utf-8")
    table = [line for line in page.splitlines() if line.startswith("| a decision")]
    assert any("none was measured here" in line for line in table)
