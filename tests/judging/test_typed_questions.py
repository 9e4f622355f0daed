"""Typed questions: how they follow from the form of a reply, and how answers are read."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pytest
from citing import citing_sample
from decision_loopback import Chance, DecisionServer
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, create_model, model_validator

from ragmetrics_core import (
    AnswerRelevance,
    CitationQuality,
    ContextAdherence,
    ContextRecall,
    ContextSufficiency,
    ContextUtilization,
    Metric,
    RetrievalAccuracy,
    Sample,
    evaluate,
    metrics,
)
from ragmetrics_core.data import (
    Asked,
    Bit,
    Comment,
    Instructions,
    LabelProbability,
    Part,
    Question,
    QuestionNotSupported,
    UnusableReply,
)
from ragmetrics_core.data.replies import Bands, EachOnce, Findings, Texts, UnitNumber
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.loop import wait_for
from ragmetrics_core.judging.decision_judge import (
    ConvertedQuestion,
    DecisionJudge,
    convert_question,
)
from ragmetrics_core.metrics.answer_relevance import Addresses
from ragmetrics_core.metrics.citation_support import MakesClaim
from ragmetrics_core.models.chat import ChatReply, ChatRequest, Choice
from ragmetrics_core.models.decision_model import (
    DecisionModel,
    OpenAIDecisionModel,
    ServedDecisionModel,
    SystemOneModel,
)


@pytest.fixture
def server() -> Iterator[DecisionServer]:
    with DecisionServer(lambda *_: 0.9) as running:
        yield running


def judge_at(server: DecisionServer) -> DecisionJudge:
    return DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))


# What is derived of the form of a reply


class Labelled(BaseModel):
    label: str
    held: Bit


BANDS = Bands((("low", 0.0, 0.4), ("high", 0.4, 1.0)))
MANY = tuple(f"L{number}" for number in range(256))


def form(**fields: Any) -> type[BaseModel]:
    """The form of a reply with these fields."""
    return create_model("Form", **fields)


def tone(reply: type[BaseModel], **fields: Any) -> Question[Any]:
    parts = {
        "answer": Part("Answer", "Thanks. Sit, please."),
        "texts": Part("Text", ("One.", "Two."), "letters"),
    }
    settings: dict[str, Any] = {
        "parts": parts,
        "instructions": Instructions("Is it polite?\n{answer}\n{texts}"),
        "Reply": reply,
    }
    return Question(**{**settings, **fields})


# What a reply holds, the kind and the wordings of its typed questions, their options,
# and what a reply is read as if the first of two options is the likelier one.
DERIVED: dict[str, tuple[type[BaseModel], str, list[str], list[str], Any]] = {
    "a bit": (form(polite=(Bit, ...)), "predicate", ['"polite" is 1.'], [], True),
    "a bool": (form(polite=(bool, ...)), "predicate", ['"polite" is True.'], [], True),
    "an enumeration": (
        form(tone=(Literal["kind", "rude"], ...)),
        "choice",
        ['what is "tone"?'],
        ["kind", "rude"],
        "kind",
    ),
    "an enumeration of numbers": (
        form(grade=(Literal[0, 1, 2], ...)),
        "score",
        ['what is "grade"?'],
        ["0", "1", "2"],
        0,
    ),
    "a number with bands": (
        form(score=(Annotated[UnitNumber, BANDS], ...)),
        "score",
        ['what is "score"?'],
        ["low", "high"],
        pytest.approx(0.9 * 0.2 + 0.1 * 0.7),
    ),
    "a list that decides": (
        form(missing=(Annotated[Texts, Findings()], ...)),
        "predicate",
        ['"missing" is empty.'],
        [],
        (),
    ),
    "a list of a part's sentences": (
        form(rude=(Annotated[Texts, Findings("answer")], ...)),
        "predicate",
        ['"rude" is empty for `answer.S1`.', '"rude" is empty for `answer.S2`.'],
        [],
        (),
    ),
    "a verdict on each text": (
        form(texts=(EachOnce[Labelled], ...)),
        "predicate",
        ['"held" is 1 for `texts.A`.', '"held" is 1 for `texts.B`.'],
        [],
        (Labelled(label="A", held=True), Labelled(label="B", held=True)),
    ),
}


@pytest.mark.parametrize("name", DERIVED)
def test_typed_questions_follow_from_the_form_of_the_reply(name):
    reply, kind, wordings, options, value = DERIVED[name]
    converted = convert_question(tone(reply))
    assert isinstance(converted, ConvertedQuestion)
    typed = list(converted.typed_by_json.values())
    assert {one.kind for one in typed} == {kind}
    assert [one.wording for one in typed] == [f"By `rules`, {one}" for one in wordings]
    assert {tuple(option.label for option in one.options) for one in typed} == {
        tuple(options)
    }

    def answer(state: Any, question: dict[str, Any]) -> Chance:
        n_others = len(options) - 1
        return [0.9, *[0.1 / n_others] * n_others] if options else 0.9

    with DecisionServer(answer) as server:
        answered = wait_for(judge_at(server).answer(tone(reply))).reply
    assert isinstance(answered, Asked)
    (field,) = reply.model_fields
    assert getattr(answered.reply, field) == value
    is_sure = kind == "predicate"
    assert [weight.p for weight in answered.weights] == is_sure * (
        [0.9] * (2 if name == "a verdict on each text" else 1)
    )


def test_a_default_is_left_out_and_a_reason_says_the_probability(server):
    reply = form(reason=(Comment, ""), words=(list[str], []), polite=(Bit, ...))
    answered = wait_for(judge_at(server).answer(tone(reply))).reply
    assert isinstance(answered, Asked)
    assert answered.reply == reply(reason="p = 0.90", words=[], polite=True)
    assert len(server.requests) == 1


REFUSED: dict[str, tuple[type[BaseModel], str]] = {
    "a text": (form(word=(str, ...)), '"word"'),
    "a number": (form(share=(float, ...)), '"share"'),
    "texts": (form(facts=(Texts, ...)), '"facts"'),
    "objects that the judge lists": (form(claims=(tuple[Labelled, ...], ...)), "list"),
    "a reason alone": (form(reason=(Comment, "")), "no verdict"),
    "an enumeration of one": (form(tone=(Literal["kind"], ...)), '"tone"'),
    "too many labels": (form(tone=(Literal[MANY], ...)), '"tone"'),  # type: ignore[valid-type]  # made at run time
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_typed_question_decides_is_refused_and_names_a_judge(server, name):
    reply, words = REFUSED[name]
    refused = wait_for(judge_at(server).answer(tone(reply))).reply
    assert isinstance(refused.error, QuestionNotSupported)
    for said in (words, "Question", "gpt-4o-mini", "'lexical'"):
        assert said in str(refused.error)
    assert "Thanks" not in str(refused.error)
    assert not server.requests


def test_a_probability_of_what_is_not_asked_is_refused(server):
    reply = form(polite=(Bit, ...), word=(str, "-"))
    asked = tone(
        reply, wanted_probability=LabelProbability("word", "a", labels=("a", "b"))
    )
    refused = wait_for(judge_at(server).answer(asked)).reply
    assert '"word" has no probability' in str(refused.error)


@pytest.mark.parametrize(
    ("reply", "wanted", "chances", "p"),
    [
        (form(polite=(Bit, ...)), LabelProbability("polite"), 0.9, 0.9),
        (form(polite=(Bit, ...)), LabelProbability("polite", positive=0), 0.9, 0.1),
        (
            form(tone=(Literal["kind", "rude", "dull"], ...)),
            LabelProbability("tone", "rude", labels=("kind", "rude", "dull")),
            [0.2, 0.7, 0.1],
            0.7,
        ),
        # of two bits that of the one that is wanted
        (
            form(polite=(Bit, ...), short=(Bit, ...)),
            LabelProbability("short"),
            0.9,
            0.9,
        ),
    ],
)
def test_the_probability_of_the_label_that_is_wanted_is_given(
    reply, wanted, chances, p
):
    with DecisionServer(lambda *_: chances) as server:
        answered = wait_for(
            judge_at(server).answer(tone(reply, wanted_probability=wanted))
        ).reply
    assert isinstance(answered, Asked)
    assert [weight.p for weight in answered.weights] == [pytest.approx(p)]
    assert {weight.mode for weight in answered.weights} == {"decision"}


def test_of_two_bits_nothing_tells_which_probability_counts(server):
    reply = form(polite=(Bit, ...), short=(Bit, ...))
    answered = wait_for(judge_at(server).answer(tone(reply))).reply
    assert isinstance(answered, Asked)
    assert answered.weights == ()


@pytest.mark.parametrize("declines", [True, False])
def test_what_claims_nothing_that_is_supported_is_a_no_unless_it_declines(declines):
    def answer(state: Any, question: dict[str, Any]) -> Chance:
        # it claims nothing, and what it claims is not supported
        return 0.8 if declines and "decline" in str(question) else 0.2

    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": "Hello there."}
    with DecisionServer(answer) as server:
        result = ContextAdherence(cause=False).score(
            Sample.from_row(row), judge=judge_at(server)
        )
    assert result.value == (None if declines else 0.2)
    assert result.status == ("undefined" if declines else "scored")


class Contradicting(BaseModel):
    polite: Bit
    rude: Bit

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.polite and self.rude:
            raise ValueError("it cannot be both")
        return self


def test_bits_that_contradict_each_other_fail(server):
    reply = wait_for(judge_at(server).answer(tone(Contradicting))).reply
    assert isinstance(reply.error, UnusableReply)
    assert "contradict" in str(reply.error)


@pytest.mark.parametrize("name", ["rules", "note"])
def test_no_part_takes_the_place_of_what_is_asked(server, name):
    asked = tone(
        form(polite=(Bit, ...)),
        parts={name: Part("Text", "All is polite.")},
        instructions=Instructions(f"Is it polite?\n{{{name}}}"),
    )
    refused = wait_for(judge_at(server).answer(asked)).reply
    assert f"a part named {name}" in str(refused.error)
    assert not server.requests


@pytest.mark.parametrize(
    ("template", "rules"),
    [
        ("Is it polite?\n{answer}\n{texts}", "Is it polite?"),
        ("Be fair.\n---\n{answer}\n{texts}\nIs it polite?", "Be fair.\nIs it polite?"),
        (
            'Is it polite?\n1. The texts stand in tags.\n{language}\nReply so:\n{"polite": 1}'
            "\n{examples}\n---\n{answer}\n{texts}",
            "Is it polite?",
        ),
        (
            'Is it polite?\n{"polite": 1}\nBe fair.\n{answer}\n{texts}',
            "Is it polite?\nBe fair.",
        ),
        ("{answer}\nIs {it} polite?\n{texts}", ""),
        ("{answer}\nIs { it } polite?\n{texts}", "Is { it } polite?"),
    ],
)
def test_rules_are_what_is_told_without_texts_tags_and_the_form_of_a_reply(
    template, rules
):
    asked = tone(form(polite=(Bit, ...)), instructions=Instructions(template))
    converted = convert_question(asked)
    assert isinstance(converted, ConvertedQuestion)
    assert json.loads(converted.state)["rules"] == rules


def test_every_prompt_that_ships_leaves_rules_and_no_form_of_a_reply():
    for path in Path(metrics.__file__).parent.glob("prompts/*.txt"):
        if path.stem.endswith("_examples"):
            continue
        asked = tone(
            form(polite=(Bit, ...)), instructions=Instructions(path.read_text("utf-8"))
        )
        converted = convert_question(asked)
        assert isinstance(converted, ConvertedQuestion)
        rules = json.loads(converted.state)["rules"]
        assert rules.startswith("You ")
        assert len(rules.splitlines()) >= 4
        for left_out in ("Reply with", "{", "stand in tags"):
            assert left_out not in rules


# Answers that claim nothing

LEDGER: dict[str, Any] = {
    "history": [
        {"role": "user", "content": "Who lit the lamp?"},
        {"role": "assistant", "content": "Anna did."},
    ],
    "ledger": {"turn": 1, "calls": []},
}


@pytest.mark.parametrize("ledger", [{}, LEDGER], ids=["contexts", "ledger"])
def test_an_answer_that_only_declines_is_undefined(ledger):
    def answer(state: Any, question: dict[str, Any]) -> Chance:
        return 0.9 if '"declined"' in question["instructions"] else 0.1

    row = {"question": "Who?", "contexts": ["A."], "answer": "I don't know.", **ledger}
    with DecisionServer(answer) as server:
        report = evaluate([row], [ContextAdherence()], judge=judge_at(server))
    result = report.results[0].results["context_adherence"]
    assert (result.status, result.code) == ("undefined", "declined")


def test_an_answer_that_declines_and_claims_is_asked_about(server):
    row = {
        "question": "Who?",
        "contexts": ["Anna lit it."],
        "answer": "I don't know, but it may be Anna.",
    }
    judge = judge_at(server)
    report = evaluate([row], [ContextAdherence()], judge=judge)
    assert report.results[0].results["context_adherence"].value == 0.9


# One half is no


METRICS_OF_PREDICATES: list[Metric] = [
    AnswerRelevance(),
    CitationQuality(),
    ContextAdherence(),
    ContextSufficiency(),
    ContextUtilization(),
    RetrievalAccuracy(),
]
OF_ALL_METRICS = citing_sample(
    "Anna lit it [1][2]. It was in May.",
    ["Anna lit the lamp.", "Peter sold boats."],
    question="Who lit the lamp, and when?",
    facts=["Anna lit the lamp."],
)


class Constant(DecisionModel):
    """Gives every predicate one probability, and another to whether anything is claimed."""

    name = "constant"

    def __init__(self, chance: float, of_a_claim: float) -> None:
        self._chance, self._of_a_claim = chance, of_a_claim

    async def complete(self, request: ChatRequest) -> ChatReply:
        asked = json.loads(request.messages[-1].content)["questions"]
        choices: list[Choice] = []
        for kind, wording, options in asked:
            p = self._of_a_claim if '"claims"' in wording else self._chance
            chances = [p] if kind == "predicate" else [1.0, *[0.0] * (len(options) - 1)]
            choices.append(Choice(json.dumps(chances)))
        return ChatReply(tuple(choices))


def reply_at(
    question: Question[Any], chance: float, *, of_a_claim: float | None = None
) -> Asked[Any]:
    """The reply to a question if each of its predicates has this probability.

    ``of_a_claim`` is the probability that anything is claimed; None for the same.
    """
    model = Constant(chance, chance if of_a_claim is None else of_a_claim)
    answered = wait_for(DecisionJudge(model).answer(question)).reply
    assert isinstance(answered, Asked)
    return answered


def questions_of(metric: Metric, chance: float) -> list[Question[Any]]:
    """What a metric asks if each predicate has this probability, and all is a claim."""
    plan = metric.plan(OF_ALL_METRICS)
    questions: list[Question[Any]] = []
    try:
        batch = next(plan)
        while True:
            questions += batch
            batch = plan.send(
                tuple(reply_at(question, chance, of_a_claim=0.9) for question in batch)
            )
    except StopIteration:
        return questions


def verdicts_at(
    question: Question[Any], chance: float, of_a_claim: float | None
) -> dict[str, Any]:
    """All that a reply says but the probability itself."""
    asked = reply_at(question, chance, of_a_claim=of_a_claim)
    reply: dict[str, Any] = asked.reply.model_dump()
    reply.pop("encoder_claims", None)
    for judgement in (reply, *reply.get("contexts", ()), *reply.get("facts", ())):
        judgement.pop("reason", None)
    if "missing" in reply:  # its words hold the probability
        reply["missing"] = bool(reply["missing"])
    if isinstance(question, Addresses):  # a score, no predicate
        return {}
    return reply


@pytest.mark.parametrize("of_a_claim", [None, 0.9])
@pytest.mark.parametrize("metric", METRICS_OF_PREDICATES, ids=lambda one: one.name)
def test_law_one_half_is_no_in_every_predicate(metric, of_a_claim):
    for question in questions_of(metric, 0.3) + questions_of(metric, 0.8):
        at_one_half = verdicts_at(question, 0.5, of_a_claim)
        assert at_one_half == verdicts_at(question, 0.4, of_a_claim)
        is_on_claims_alone = isinstance(question, MakesClaim)
        if isinstance(question, Addresses):
            continue
        if of_a_claim is None or not is_on_claims_alone:
            just_above = math.nextafter(0.5, 1)
            assert at_one_half != verdicts_at(question, just_above, of_a_claim)


# What is shown


@pytest.mark.parametrize(
    ("rewrite", "shown"),
    [
        ("When was the lamp lit?", "When was the lamp lit?"),
        ("When?", None),  # the question itself, which is shown anyway
        (None, None),
    ],
)
def test_a_rewrite_is_shown_beside_the_question_where_they_differ(rewrite, shown):
    sample = Sample(
        question="When?",
        standalone_question=rewrite,
        contexts=["Anna lit the lamp in May."],
        answer="In May.",
    )
    (question,) = next(ContextUtilization().plan(sample))
    converted = convert_question(question)
    assert isinstance(converted, ConvertedQuestion)
    state = json.loads(converted.state)
    assert state["question"] == "When?"
    assert state.get("standalone_question") == shown


# Estimates

WORDS = st.text(max_size=30).map("of {}".format)  # none looks like an id
ASKING: tuple[Metric, ...] = (
    ContextUtilization(),
    ContextUtilization(judging="listwise"),
    ContextAdherence(cause=False),
    ContextRecall(),
    RetrievalAccuracy(calls="per_context"),
)
MODELS: dict[str, type[ServedDecisionModel]] = {
    "decisions": OpenAIDecisionModel,
    "systemone": SystemOneModel,
}


def evenly(state: Any, question: dict[str, Any]) -> Chance:
    """The answer of a model that knows nothing."""
    options = (
        question.get("choices") or question.get("levels") or question.get("criteria")
    )
    return [1 / len(options)] * len(options) if options else 0.9


@pytest.mark.parametrize("form", MODELS)
@settings(max_examples=20, deadline=None)
@given(
    texts=st.lists(WORDS, min_size=4, max_size=7),
    metric=st.sampled_from(ASKING),
    has_ledger=st.booleans(),
)
def test_law_what_is_sent_is_what_was_estimated_and_two_questions_on_a_low_score(
    form, texts, metric, has_ledger
):
    question, answer, reference, fact, *contexts = texts
    row = {
        "question": question,
        "answer": f"{answer} A.",
        "reference": reference,
        "facts": [fact],
        "contexts": contexts or [fact],
        **(LEDGER if has_ledger else {}),
    }
    sample = Sample.from_row(row)
    with DecisionServer(evenly) as server:
        judge = DecisionJudge(MODELS[form]("tiny", api_base=server.base_url))
        counted = estimate([sample], [metric], judge)
        spent = evaluate([sample], [metric], judge=judge).usage
    assert counted.usage.calls <= spent.calls <= counted.usage.calls + 2
    if spent.calls == counted.usage.calls > 0:
        assert 0.5 < counted.usage.prompt_tokens / spent.prompt_tokens < 2


def test_a_dry_run_says_which_metric_will_fail_and_what_to_do(server):
    rows = [
        Sample.from_row(
            {"question": "Who?", "answer": "A.", "contexts": ["B."], "reference": "C."}
        )
    ] * 3
    metrics = [ContextUtilization(), RetrievalAccuracy()]
    judge = judge_at(server)
    counted = estimate(rows, metrics, judge)
    assert list(counted.failing) == ["retrieval_accuracy"]
    text = counted.text()
    assert "retrieval_accuracy will fail on 3 of 3 samples: " in text
    assert "facts=" in text
    report = evaluate(rows, metrics, judge=judge)
    statuses = {
        name: {row.results[name].status for row in report.results}
        for name in ("context_utilization", "retrieval_accuracy")
    }
    assert statuses == {
        "context_utilization": {"scored"},
        "retrieval_accuracy": {"failed"},
    }
