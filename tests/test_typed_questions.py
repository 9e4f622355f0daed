"""Typed questions: what a form must be, which answers claim nothing, and when a label holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from citing import citing_sample
from decision_loopback import Chance, DecisionServer
from hypothesis import given, settings
from hypothesis import strategies as st

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
)
from ragmetrics_core.data import Asked, Instructions, NotAnswered, Part, Question
from ragmetrics_core.data.typed import Kind, Option, TypedForm, TypedQuestion
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.loop import run
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.metrics.citation_support import MakesClaim
from ragmetrics_core.metrics.polls import Poll
from ragmetrics_core.models.decision_model import (
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


# A form of a stranger


class Tone(Question[Poll]):
    """Is an answer polite?"""


POLITE = TypedQuestion("predicate", "`answer` is polite.")
FORM: TypedForm[Poll] = TypedForm(
    lambda question: {"answer": question["answer"]},
    lambda _: [POLITE],
    lambda question, _: Asked((question.read({"verdict": "yes", "reason": "p"}),)),
)
TWO = (Option("A", "one"), Option("B", "another"))


def options(count: int) -> tuple[Option, ...]:
    return tuple(Option(f"L{number}", "a level") for number in range(count))


def tone(typed_form: TypedForm[Poll]) -> Tone:
    return Tone(
        parts={"answer": Part("Answer", "Thanks.")},
        instructions=Instructions("Is it polite?\n{answer}"),
        Reply=Poll,
        typed_form=typed_form,
    )


def asking(typed: Any) -> TypedForm[Poll]:
    return replace(FORM, typed_questions=lambda _: typed)


def showing(state: Any) -> TypedForm[Poll]:
    return replace(FORM, state=lambda _: state)


def reading(reply: Any) -> TypedForm[Poll]:
    return replace(FORM, read_reply=lambda *_: reply)


CIRCLE: dict[str, Any] = {}
CIRCLE["circle"] = CIRCLE


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        (asking([]), "asks nothing"),
        (asking(["Is it polite?"]), "asks a str in place of a TypedQuestion"),
        (asking([TypedQuestion("noul", "?")]), "none of predicate, choice, score"),  # type: ignore[arg-type]  # what a stranger may write
        (asking([TypedQuestion("predicate", " ")]), "has no wording"),
        (
            asking([TypedQuestion("predicate", "?", TWO)]),
            "gives options to a predicate",
        ),
        (asking([TypedQuestion("choice", "?")]), "0 options in a choice, not 2 to 255"),
        (
            asking([TypedQuestion("choice", "?", options(256))]),
            "256 options in a choice",
        ),
        (asking([TypedQuestion("score", "?", options(11))]), "not 2 to 10"),
        (
            asking([TypedQuestion("choice", "?", (*TWO, TWO[0]))]),
            "one label to two options",
        ),
        (asking([TypedQuestion("choice", "?", ("A", "B"))]), "is no text"),  # type: ignore[arg-type]  # what a stranger may write
        (showing(["Thanks."]), "raised"),
        (showing("Thanks."), "raised"),
        (showing({"p": math.nan}), "raised"),
        (showing({"answer": {1}}), "raised"),
        (showing(CIRCLE), "raised"),
        (showing(1 / 1), "raised"),
    ],
)
def test_a_form_that_no_service_can_be_asked_says_what_is_wrong_and_asks_nobody(
    server: DecisionServer, form: TypedForm[Poll], problem: str
) -> None:
    reply = run(judge_at(server).answer(tone(form))).reply
    assert isinstance(reply, NotAnswered)
    said = str(reply.error)
    assert said.startswith("the typed form of questions of type Tone ")
    assert problem in said
    assert "Thanks" not in said
    assert not server.requests


@pytest.mark.parametrize("reply", [None, "yes", Asked(()), Asked(("yes",))], ids=repr)
def test_reads_that_gives_no_reply_is_the_forms_fault(
    server: DecisionServer, reply: Any
) -> None:
    answer = run(judge_at(server).answer(tone(reading(reply))))
    assert isinstance(answer.reply, NotAnswered)
    assert "has a read_reply that returns no reply" in str(answer.reply.error)
    assert answer.usage.calls == 1


def test_a_question_that_its_texts_settle_is_asked_of_nobody(
    server: DecisionServer,
) -> None:
    settled = Asked((Poll(verdict="no", reason="known"),))
    answer = run(
        judge_at(server).answer(tone(replace(FORM, known_reply=lambda _: settled)))
    )
    assert answer.reply == settled
    open_form = replace(FORM, known_reply=lambda _: None)
    assert isinstance(run(judge_at(server).answer(tone(open_form))).reply, Asked)
    assert len(server.requests) == 1
    wrong = run(
        judge_at(server).answer(tone(replace(FORM, known_reply=lambda _: "no")))
    )  # type: ignore[arg-type, return-value]  # what a stranger may write
    assert isinstance(wrong.reply, NotAnswered)


KINDS: dict[Kind, int] = {"predicate": 0, "choice": 7, "score": 4}


@pytest.mark.parametrize("kind", KINDS)
def test_a_form_that_is_right_is_asked(server: DecisionServer, kind: Kind) -> None:
    server.answer = lambda *_: 0.9 if kind == "predicate" else [1.0, *[0.0] * (n - 1)]
    n = KINDS[kind]
    reply = run(
        judge_at(server).answer(tone(asking([TypedQuestion(kind, "?", options(n))])))
    )
    assert isinstance(reply.reply, Asked)


# Answers that claim nothing

LEDGER: dict[str, Any] = {
    "history": [
        {"role": "user", "content": "Who lit the lamp?"},
        {"role": "assistant", "content": "Anna did."},
    ],
    "ledger": {"turn": 1, "calls": []},
}


@pytest.mark.parametrize("ledger", [{}, LEDGER], ids=["contexts", "ledger"])
@pytest.mark.parametrize(
    "answer", ["I don't know.", "The contexts do not say.", "我不知道"]
)
def test_an_answer_that_only_declines_is_undefined_and_asks_nobody(
    server: DecisionServer, answer: str, ledger: dict[str, Any]
) -> None:
    row = {"question": "Who?", "contexts": ["Anna lit it."], "answer": answer, **ledger}
    judge = judge_at(server)
    metrics = [ContextAdherence()]
    report = evaluate([row], metrics, judge=judge, store=False, progress=False)
    result = report.results[0].results["context_adherence"]
    assert (result.status, result.code) == ("undefined", "declined")
    assert not server.requests
    counted = estimate([Sample.from_row(row)], metrics, judge)
    assert counted.usage.calls == 0


def test_an_answer_that_declines_and_claims_is_asked_about(
    server: DecisionServer,
) -> None:
    row = {
        "question": "Who?",
        "contexts": ["Anna lit it."],
        "answer": "I don't know, but it may be Anna.",
    }
    judge = judge_at(server)
    report = evaluate(
        [row], [ContextAdherence()], judge=judge, store=False, progress=False
    )
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


def reply_at(
    question: Question[Any], chance: float, *, of_a_claim: float | None = None
) -> Asked[Any]:
    """The reply to a question if each of its predicates has this probability.

    ``of_a_claim`` is the probability that a sentence claims anything; None for the same.
    """
    assert question.typed_form is not None
    typed_questions = question.typed_form.typed_questions(question)
    assert {typed.kind for typed in typed_questions} == {"predicate"}
    chances = [
        (of_a_claim if of_a_claim and "makes a claim" in typed.wording else chance,)
        for typed in typed_questions
    ]
    return question.typed_form.read_reply(question, chances)


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
    return reply


@pytest.mark.parametrize("of_a_claim", [None, 0.9])
@pytest.mark.parametrize("metric", METRICS_OF_PREDICATES, ids=lambda one: one.name)
def test_law_one_half_is_no_in_every_predicate(
    metric: Metric, of_a_claim: float | None
) -> None:
    for question in questions_of(metric, 0.3) + questions_of(metric, 0.8):
        at_one_half = verdicts_at(question, 0.5, of_a_claim)
        assert at_one_half == verdicts_at(question, 0.4, of_a_claim)
        is_on_claims_alone = isinstance(question, MakesClaim)
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
def test_a_rewrite_is_shown_beside_the_question_where_they_differ(
    rewrite: str | None, shown: str | None
) -> None:
    sample = Sample(
        question="When?",
        standalone_question=rewrite,
        contexts=["Anna lit the lamp in May."],
        answer="In May.",
    )
    (question,) = next(ContextUtilization().plan(sample))
    assert question.typed_form is not None
    state: Any = question.typed_form.state(question)
    assert state["question"] == "When?"
    assert state.get("standalone_question") == shown


# Labels of the ledger: a forced choice


def labelled(*chances: Sequence[float]) -> Any:
    """The adherence of an answer whose sentences get these probabilities of labels."""
    sentences = [f"Sentence number {place}." for place in range(len(chances))]

    def answer(state: Any, question: dict[str, Any]) -> Chance:
        label = question["instructions"].partition("answer.S")[2].partition("`")[0]
        if not label:  # does the answer decline?
            return 0.1
        return chances[int(label) - 1]

    row = {
        "question": "Who?",
        "contexts": ["Anna lit it."],
        "answer": " ".join(sentences),
        **LEDGER,
    }
    with DecisionServer(answer) as server:
        report = evaluate(
            [row],
            [ContextAdherence(cause=False)],
            judge=judge_at(server),
            store=False,
            progress=False,
        )
    return report.results[0].results["context_adherence"]


@pytest.mark.parametrize(
    ("chances", "value"),
    [
        ([1 / 6] * 6, 0.5),
        ([0.3, 0, 0, 0, 0.45, 0.25], 0.3),
        ([0.17, 0.17, 0.16, 0.1, 0.3, 0.1], 0.5),
        ([0.3, 0.2, 0.1, 0.1, 0.2, 0.1], 0.6),
    ],
)
def test_a_label_holds_by_more_than_half_of_all(
    chances: list[float], value: float
) -> None:
    result = labelled(chances)
    assert result.value == pytest.approx(value)
    (poll,) = result.evidence.polls
    assert poll.verdict == ("yes" if value > 0.5 else "no")


HUNDREDTHS = st.lists(st.integers(0, 100), min_size=5, max_size=5).map(sorted)


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(HUNDREDTHS, min_size=1, max_size=3))
def test_law_verdict_and_probability_of_labels_agree(cuts: list[list[int]]) -> None:
    answers = []
    for places in cuts:
        bounds = [0, *places, 100]
        answers.append([(high - low) / 100 for low, high in pairwise(bounds)])
    result = labelled(*answers)
    judged = [chances for chances in answers if chances[4] <= 0.5]
    if not judged:
        assert result.status == "undefined"
        return
    in_hundredths = min(round(100 * sum(chances[:3])) for chances in judged)
    if result.status == "scored":
        (poll,) = result.evidence.polls
        assert result.value == pytest.approx(in_hundredths / 100)
        assert (poll.verdict == "yes") == (in_hundredths > 50)
    else:  # all rests on what the user says
        assert in_hundredths > 50


# Estimates

WORDS = st.text(min_size=1, max_size=30).filter(str.strip)
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


TYPED = st.one_of(
    st.builds(lambda wording: TypedQuestion("predicate", wording), WORDS),
    st.builds(
        lambda kind, wording, meanings: TypedQuestion(
            kind,
            wording,
            tuple(Option(f"L{place}", text) for place, text in enumerate(meanings)),
        ),
        st.sampled_from(["choice", "score"]),
        WORDS,
        st.lists(WORDS, min_size=2, max_size=6),
    ),
)


@pytest.mark.parametrize("form", MODELS)
@settings(max_examples=20, deadline=None)
@given(
    texts=st.lists(WORDS, min_size=4, max_size=7),
    metric=st.sampled_from(ASKING),
    has_ledger=st.booleans(),
)
def test_law_what_is_sent_is_what_was_estimated_and_two_questions_on_a_low_score(
    form: str, texts: list[str], metric: Metric, has_ledger: bool
) -> None:
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
        spent = evaluate(
            [sample], [metric], judge=judge, store=False, progress=False
        ).usage
    assert counted.usage.calls <= spent.calls <= counted.usage.calls + 2
    if spent.calls == counted.usage.calls > 0:
        assert 0.5 < counted.usage.prompt_tokens / spent.prompt_tokens < 2


def test_a_dry_run_says_which_metric_will_fail_and_what_to_do(
    server: DecisionServer,
) -> None:
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
    assert "give them (facts=" in text
    report = evaluate(rows, metrics, judge=judge, store=False, progress=False)
    statuses = {
        name: {row.results[name].status for row in report.results}
        for name in ("context_utilization", "retrieval_accuracy")
    }
    assert statuses == {
        "context_utilization": {"scored"},
        "retrieval_accuracy": {"failed"},
    }
