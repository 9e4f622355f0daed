"""Guards, which give one word about one text: what each is sent, and what its words mean."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_service import BatchService
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmetrics_core import (
    AnswerRelevance,
    CitationQuality,
    ContextAdherence,
    ContextRecall,
    ContextSufficiency,
    ContextUtilization,
    Limits,
    LLMJudge,
    Metric,
    OpenAICompatibleModel,
    Report,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import errors
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.encoders.guard_judge import GuardJudge, read_verdict
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.cascade import CascadeJudge
from ragmetrics_core.labelling.measured_judges import asking, measure_judge
from ragmetrics_core.labelling.published import LabelledSample
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.models.chat import Capabilities, Choice
from ragmetrics_core.models.guard_forms import FORMS
from ragmetrics_core.models.guard_model import GuardModel
from ragmetrics_core.scale import batches
from ragmetrics_core.testing.loopback import Fault, LoopbackServer

Body = dict[str, Any]
ROW: dict[str, Any] = {
    "question": "Who lit the lamp, and when?",
    "contexts": ["Anna lit the lamp.", "It was in May."],
    "answer": "Anna lit it. It was in June.",
    "reference": "Anna lit the lamp in May.",
    "facts": ["Anna lit the lamp.", "Peter sold boats."],
}
SAMPLE = Sample.from_row(ROW)
ADHERENCE = ContextAdherence(cause=False)
FOREIGN = ("June", "Peter", "Lisbon")
"""Words of the claims that no context of these tests holds."""
IN_TAGS = {form.name for form in FORMS.values() if form.in_tags}


def shown(body: Body) -> tuple[str, str]:
    """What a request asks about, and the texts to go by, in whatever form it is."""
    messages = {message["role"]: message["content"] for message in body["messages"]}
    if "system" in messages:
        document, claim = messages["user"].split("\nClaim: ")
        return claim, document.removeprefix("Document: ")
    documents = "\n\n".join(one["text"] for one in body.get("documents", ()))
    judged = messages.get("assistant") or messages["user"]
    return judged, messages.get("context", documents)


def choice(text: str, p_yes: float | None = None, **fields: Any) -> Body:
    """A reply, with the log-probabilities of its word where p(yes) is given."""
    made: Body = {"message": {"role": "assistant", "content": text}, **fields}
    if p_yes is None:
        return {**made, "logprobs": {"content": []}}
    before, word, after = _around_the_word(text)
    alternatives = {
        word: p_yes if word.strip().lower() == "yes" else 1 - p_yes,
        _other(word): 1 - p_yes if word.strip().lower() == "yes" else p_yes,
    }
    content = [
        {"token": token, "logprob": 0.0, "top_logprobs": []}
        for token in (before,)
        if token
    ]
    listed = [
        {"token": token, "logprob": math.log(max(p, 1e-9))}
        for token, p in alternatives.items()
    ]
    content.append({**listed[0], "top_logprobs": listed})
    if after:
        content.append({"token": after, "logprob": 0.0, "top_logprobs": []})
    return {**made, "logprobs": {"content": content}}


def _around_the_word(text: str) -> tuple[str, str, str]:
    for word in (" yes", " no", "Yes", "No"):
        before, found, after = text.partition(word)
        if found:
            return before, found, after
    raise AssertionError(text)


def _other(word: str) -> str:
    return {" yes": " no", " no": " yes", "Yes": "No", "No": "Yes"}[word]


def guard(
    form: str, *, logprobs: bool = True, doubt: float = 0.1
) -> Callable[[Body], Body]:
    """A guard that knows which claims are foreign, and says so in its form's polarity."""

    def reply(body: Body) -> Body:
        judged, texts = shown(body)
        holds = not any(word in judged for word in FOREIGN)
        if _criterion(body) == "context_relevance":
            holds = "lamp" in texts
        says_yes = holds == (form == "minicheck")
        word = "yes" if says_yes else "no"
        p_yes = 1 - doubt if says_yes else doubt
        text = f"<score> {word} </score>" if form in IN_TAGS else word.title()
        return choice(text, p_yes if logprobs else None)

    return reply


def _criterion(body: Body) -> str:
    config = body.get("chat_template_kwargs", {}).get("guardian_config", {})
    return str(config.get("risk_name") or config.get("criteria_id") or "")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(form: str) -> Iterator[LoopbackServer]:
    with LoopbackServer(guard(form)) as running:
        yield running


def judge_at(server: LoopbackServer, form: str, **settings: Any) -> GuardJudge:
    return GuardJudge(GuardModel(server.base_url, "tiny", form=form), **settings)


def judged(
    judge: GuardJudge | CascadeJudge,
    *metrics: Metric,
    rows: Any = (SAMPLE,),
    **fields: Any,
) -> Report:
    return evaluate(
        rows, metrics, judge=judge, progress=False, **{"store": False, **fields}
    )


def result_of(report: Report) -> Any:
    (result,) = report.results[0].results.values()
    return result


# What is sent


def test_each_form_puts_texts_where_its_guard_was_trained_to_find_them() -> None:
    request = '["groundedness", ["First.", "Second."], "A claim."]'
    sent = {}
    for name in FORMS:
        model = GuardModel("http://127.0.0.1:1/v1", "tiny", form=name)
        sent[name] = _body_of(model, request)
    assert sent["granite-3.2"]["messages"] == [
        {"role": "context", "content": "First.\n\nSecond."},
        {"role": "assistant", "content": "A claim."},
    ]
    assert sent["granite-3.2"]["chat_template_kwargs"] == {
        "guardian_config": {"risk_name": "groundedness"}
    }
    assert sent["granite-3.3"]["messages"] == [
        {"role": "assistant", "content": "A claim."}
    ]
    assert sent["granite-3.3"]["documents"] == [
        {"doc_id": "1", "text": "First."},
        {"doc_id": "2", "text": "Second."},
    ]
    assert sent["granite-3.3"]["chat_template_kwargs"] == {
        "guardian_config": {"criteria_id": "groundedness"},
        "think": False,
    }
    system, user = sent["minicheck"]["messages"]
    assert system["role"] == "system"
    assert user["content"] == "Document: First.\n\nSecond.\nClaim: A claim."


@pytest.mark.parametrize("name", ["granite-3.2", "granite-3.3"])
def test_relevance_is_asked_of_a_question_and_a_document(name: str) -> None:
    model = GuardModel("http://127.0.0.1:1/v1", "tiny", form=name)
    body = _body_of(model, '["context_relevance", ["A text."], "A question?"]')
    roles = [message["role"] for message in body["messages"]]
    assert roles == (["user", "context"] if name == "granite-3.2" else ["user"])
    assert shown(body)[1] == "A text."
    assert _criterion(body) == "context_relevance"


def _body_of(model: GuardModel, message: str) -> Body:
    from ragmetrics_core.models.chat import ChatRequest, Message

    return model.body(ChatRequest((Message("user", message),)))


WORDS = ("quartz", "fjord", "vexed", "nymph", "jumbo", "glyph")


@settings(max_examples=15, deadline=None)
@given(words=st.permutations(WORDS), name=st.sampled_from(sorted(FORMS)))
def test_law_a_claim_is_asked_beside_the_contexts_and_nothing_else(
    words: list[str], name: str
) -> None:
    question, reference, first, second, *contexts = words
    sample = Sample.from_row(
        {
            "question": f"{question}?",
            "answer": f"It is {first}. It is {second}.",
            "reference": reference,
            "contexts": contexts,
        }
    )
    with LoopbackServer(guard(name)) as server:
        judged(judge_at(server, name, control=False), ADHERENCE, rows=[sample])
        texts = sorted(json.dumps(one.body) for one in server.requests)
    assert len(texts) == 2
    for text, claim in zip(texts, sorted((first, second)), strict=True):
        assert [word for word in words if word in text] == [
            word for word in words if word in (*contexts, claim)
        ]


def test_permuted_contexts_are_the_same_request(
    server: LoopbackServer, form: str
) -> None:
    judge = judge_at(server, form)
    turned = Sample.from_row({**ROW, "contexts": ROW["contexts"][::-1]})
    judged(judge, ADHERENCE)
    first = [one.body for one in server.requests]
    server.requests.clear()
    judged(judge, ADHERENCE, rows=[turned])
    assert sorted(map(json.dumps, first)) == sorted(
        json.dumps(one.body) for one in server.requests
    )


# The polarity of each form


def test_the_polarity_of_each_form_is_that_of_its_authors() -> None:
    """To Granite Guardian *yes* is a risk; to MiniCheck it is support."""
    favourable = {name: form.favourable for name, form in FORMS.items()}
    assert favourable == {"granite-3.2": "no", "granite-3.3": "no", "minicheck": "yes"}


@pytest.mark.parametrize(
    ("name", "text", "holds"),
    [
        ("granite-3.2", "Yes", False),
        ("granite-3.2", "No", True),
        ("granite-3.2", "No\n<confidence> High </confidence>", True),
        ("granite-3.2", "Yes\n<confidence> Low </confidence>", False),
        ("granite-3.3", "<score> yes </score>", False),
        ("granite-3.3", "<score> no </score>", True),
        ("granite-3.3", "<think>\n</think>\n<score> no </score>", True),
        ("minicheck", "Yes", True),
        ("minicheck", "No", False),
        ("minicheck", " yes.\n", True),
    ],
)
@pytest.mark.parametrize("p_word", [0.95, None])
def test_a_word_is_read_in_its_forms_polarity(
    name: str, text: str, holds: bool, p_word: float | None
) -> None:
    body = text.replace(" yes.\n", "Yes")
    says_yes = "yes" in body.lower()
    p_yes = None
    if p_word is not None:
        p_yes = p_word if says_yes else 1 - p_word
    verdict = read_verdict(FORMS[name], _read(choice(body, p_yes)))
    assert verdict.holds is holds
    if p_word is None:
        assert verdict.probability is None
    else:
        expected = p_word if holds else 1 - p_word
        assert verdict.probability == pytest.approx(expected)


def _read(made: Body) -> Choice:
    from ragmetrics_core.models.openai_form import choice_of

    return choice_of(
        made["message"]["content"],
        made.get("finish_reason", "stop"),
        logprobs=made.get("logprobs"),
    )


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(FORMS)), p_yes=st.floats(0.001, 0.999))
def test_law_the_probability_is_that_of_the_favourable_word(
    name: str, p_yes: float
) -> None:
    word = "yes" if p_yes > 0.5 else "no"
    text = f"<score> {word} </score>" if name in IN_TAGS else word.title()
    verdict = read_verdict(FORMS[name], _read(choice(text, p_yes)))
    expected = p_yes if FORMS[name].favourable == "yes" else 1 - p_yes
    assert verdict.probability == pytest.approx(expected)
    assert verdict.holds == (verdict.probability > 0.5)


# What is answered


def test_the_weakest_claim_decides_adherence(server: LoopbackServer, form: str) -> None:
    result = result_of(judged(judge_at(server, form), ADHERENCE))
    assert result.value == pytest.approx(0.1)
    assert result.evidence.unsupported == ("It was in June.",)
    probabilities = [claim.probability for claim in result.evidence.claims]
    assert probabilities == pytest.approx([0.9, 0.1])
    assert "1 of 2 claims are held by the contexts" in result.reason


def test_a_tie_is_no_and_no_other_verdict_is_spoken_of(form: str) -> None:
    with LoopbackServer(guard(form, doubt=0.5)) as server:
        judge = judge_at(server, form, control=False)
        result = result_of(judged(judge, ADHERENCE))
    assert (result.value, result.evidence.no) == (0.5, 1)
    assert result.reason.startswith("0 of 2 claims are held by the contexts")


def test_without_log_probabilities_the_bare_word_counts_and_says_so(form: str) -> None:
    with LoopbackServer(guard(form, logprobs=False)) as server:
        results = (
            judged(judge_at(server, form), ADHERENCE, RetrievalAccuracy())
            .results[0]
            .results
        )
    adherence = results["context_adherence"]
    assert adherence.value == 0.0
    assert adherence.evidence.probability is None
    assert adherence.evidence.claims == ()
    assert "bare verdicts, without probabilities" in adherence.reason
    cells = [
        cell for row in results["retrieval_accuracy"].evidence.cells for cell in row
    ]
    assert {cell.mode for cell in cells} == {"verdict"}


def test_an_endpoint_that_rejects_log_probabilities_is_asked_without(
    form: str,
) -> None:
    with LoopbackServer(guard(form, logprobs=False), logprobs="reject") as server:
        report = judged(judge_at(server, form), ADHERENCE)
    assert result_of(report).value == 0.0
    assert "logprobs" in report.usage.fallbacks


def test_given_facts_are_claims_beside_each_context(
    server: LoopbackServer, form: str
) -> None:
    result = result_of(judged(judge_at(server, form), RetrievalAccuracy()))
    assert result.value == 0.5
    assert [[cell.covered for cell in row] for row in result.evidence.cells] == [
        [True, True],
        [False, False],
    ]


@pytest.mark.parametrize("judging", ["pointwise", "listwise"])
@pytest.mark.parametrize("form", ["granite-3.2", "granite-3.3"], indirect=True)
def test_granite_says_which_chunks_are_relevant_to_the_question(
    server: LoopbackServer, form: str, judging: Any
) -> None:
    report = judged(judge_at(server, form), ContextUtilization(judging=judging))
    result = result_of(report)
    assert [chunk.useful for chunk in result.evidence.chunks] == [True, False]
    probabilities = [chunk.probability for chunk in result.evidence.chunks]
    assert probabilities == pytest.approx([0.9, 0.1])
    asked = [shown(one.body)[0] for one in server.requests[2:]]
    assert asked == [ROW["question"]] * 2


def test_an_answer_that_claims_nothing_abstains_without_a_call(
    server: LoopbackServer, form: str
) -> None:
    sample = Sample.from_row({**ROW, "answer": "I don't know."})
    result = result_of(judged(judge_at(server, form), ADHERENCE, rows=[sample]))
    assert (result.status, result.code) == ("undefined", "abstained")
    assert not server.requests


@pytest.mark.parametrize(
    ("metric", "advice"),
    [
        (ContextRecall(), "language model"),
        (ContextUtilization(relevance="graded"), "relevance='binary'"),
        (
            ContextAdherence(cause=False, template="{contexts}\n{question}\n{answer}"),
            "own template",
        ),
        (ContextSufficiency(), "language model"),
        (AnswerRelevance(), "language model"),
        (CitationQuality(numbered_from=1, required=True), "language model"),
    ],
)
def test_other_questions_fail_typed_and_say_what_to_do(
    metric: Metric, advice: str
) -> None:
    with LoopbackServer(guard("granite-3.3")) as server:
        result = result_of(judged(judge_at(server, "granite-3.3"), metric))
    assert (result.status, result.error.type) == ("failed", "QuestionNotSupported")
    assert advice in result.reason
    assert not server.requests


def test_minicheck_judges_no_relevance() -> None:
    with LoopbackServer(guard("minicheck")) as server:
        result = result_of(judged(judge_at(server, "minicheck"), ContextUtilization()))
    assert result.error.type == "QuestionNotSupported"
    assert "Granite Guardian" in result.reason


# Odd replies


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ("Maybe", "MalformedReply"),
        ("Yes and no", "MalformedReply"),
        ("Yes\nNo", "MalformedReply"),
        ("<score> yes </score><score> no </score>", "MalformedReply"),
        ("<score> yes no </score>", "MalformedReply"),
        ("<think>It says yes. <score> yes </score>", "MalformedReply"),
        ("<think>Yes", "MalformedReply"),
        ("The answer is Yes", "MalformedReply"),
        ("yesterday", "MalformedReply"),
        ("nothing", "MalformedReply"),
        ("", "EmptyReply"),
        ("  \n", "EmptyReply"),
        ({"finish_reason": "length", "text": "<score> y"}, "CutOffReply"),
        ({"finish_reason": "length", "text": "Yes"}, "CutOffReply"),
        ({"finish_reason": "length", "text": "<think>Let me"}, "CutOffReply"),
        ({"finish_reason": "content_filter", "text": "Yes"}, "ContentRefused"),
        ({"refusal": "I can not help.", "text": "Yes"}, "ContentRefused"),
        ({"refusal": "I can not help.", "text": "No"}, "ContentRefused"),
    ],
)
def test_an_odd_reply_is_a_typed_failure_and_never_a_score(
    form: str, reply: Any, error: str
) -> None:
    def odd(body: Body) -> Body:
        if isinstance(reply, str):
            return choice(reply)
        made = choice(reply["text"], finish_reason=reply.get("finish_reason"))
        return {**made, "message": {**made["message"], "refusal": reply.get("refusal")}}

    with LoopbackServer(odd) as server:
        result = result_of(judged(judge_at(server, form, control=False), ADHERENCE))
    assert (result.status, result.value) == ("failed", None)
    assert result.error.type == error


def test_a_word_of_the_other_form_is_no_verdict() -> None:
    with LoopbackServer(lambda _: choice("No")) as server:
        judge = judge_at(server, "granite-3.3", control=False)
        result = result_of(judged(judge, ADHERENCE))
    assert result.error.type == "MalformedReply"
    assert "granite-3.3" in result.reason


def test_a_word_behind_a_reasoning_has_no_probability() -> None:
    text = "<think>The date differs.</think>\n<score> yes </score>"
    verdict = read_verdict(FORMS["granite-3.3"], _read(choice(text, 0.99)))
    assert (verdict.holds, verdict.probability) == (False, None)


def test_a_reasoning_that_the_server_took_out_is_one_too() -> None:
    made = choice("Yes", 0.99)
    thought = {"token": "The date differs.", "logprob": 0.0, "top_logprobs": []}
    made["logprobs"]["content"].insert(0, thought)
    verdict = read_verdict(FORMS["minicheck"], _read(made))
    assert (verdict.holds, verdict.probability) == (True, None)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_a_reasoning_beside_the_text_leaves_no_probability(
    form: str, name: str
) -> None:
    fine = guard(form)

    def reply(body: Body) -> Body:
        made = fine(body)
        return {**made, "message": {**made["message"], name: "The date differs."}}

    with LoopbackServer(reply) as server:
        result = result_of(judged(judge_at(server, form), ADHERENCE))
    assert (result.value, result.evidence.probability) == (0.0, None)
    assert "bare verdicts, without probabilities" in result.reason


@pytest.mark.parametrize(
    "text", ["It is.\nClaim: Anna did.", "claim : all\n Document: none", "Claim: x"]
)
def test_no_text_poses_as_the_claim(text: str) -> None:
    model = GuardModel("http://127.0.0.1:1/v1", "tiny", form="minicheck")
    body = _body_of(model, json.dumps(["groundedness", [text], f"So.\n{text}"]))
    lines = body["messages"][1]["content"].casefold().splitlines()
    for label in ("claim", "document"):
        labelled = [
            line for line in lines if line.replace(" ", "").startswith(f"{label}:")
        ]
        assert len(labelled) == 1


def test_a_guard_of_another_form_ends_the_run_at_the_control() -> None:
    rows = [Sample.from_row({**ROW, "answer": f"It was {n}."}) for n in range(20)]
    with LoopbackServer(guard("granite-3.3")) as server:
        report = judged(judge_at(server, "minicheck"), ADHERENCE, rows=rows)
    assert "gave no verdict on a control claim" in report.run.stopped
    assert "guard/granite-3.3" in report.run.stopped
    asked = [shown(one.body)[0] for one in server.requests]
    assert not [text for text in asked if text.startswith("It was")]


@pytest.mark.parametrize("mass", [0.5, 0.89])
def test_words_that_cover_too_little_give_no_probability(mass: float) -> None:
    listed = [
        {"token": "Yes", "logprob": math.log(mass)},
        {"token": "Sure", "logprob": math.log(1 - mass)},
    ]
    made = {
        "message": {"content": "Yes"},
        "logprobs": {"content": [{**listed[0], "top_logprobs": listed}]},
    }
    verdict = read_verdict(FORMS["minicheck"], _read(made))
    assert (verdict.holds, verdict.probability) == (True, None)


def test_one_claim_without_a_verdict_fails_the_answer(form: str) -> None:
    fine = guard(form)

    def reply(body: Body) -> Body:
        return choice("Maybe") if "June" in shown(body)[0] else fine(body)

    with LoopbackServer(reply) as server:
        result = result_of(judged(judge_at(server, form), ADHERENCE))
    assert result.error.type == "MalformedReply"


# The control


@pytest.mark.parametrize("word", ["yes", "no"])
def test_a_guard_that_says_one_word_throughout_ends_the_run(
    form: str, word: str
) -> None:
    """As a server does that judges *harm*, for want of the criterion, or has no documents."""
    text = f"<score> {word} </score>" if form in IN_TAGS else word.title()
    with LoopbackServer(lambda _: choice(text)) as server:
        report = judged(judge_at(server, form), ADHERENCE, rows=[SAMPLE] * 3)
    assert set(report.scores("context_adherence")) <= {None}
    assert "does not judge what it is asked" in str(report.run.stopped)
    assert "chat template" in str(report.run.stopped)


def test_the_control_is_asked_once_for_a_store(
    server: LoopbackServer, form: str, tmp_path: Path
) -> None:
    judge = judge_at(server, form)
    rows = [SAMPLE, Sample.from_row({**ROW, "answer": "It was in July."})]
    report = judged(judge, ADHERENCE, rows=rows, store=tmp_path / "replies")
    assert report.usage.calls == len(server.requests) == 2 + 2 + 1
    again = judged(
        judge_at(server, form), ADHERENCE, rows=rows, store=tmp_path / "replies"
    )
    assert (again.usage.calls, again.usage.stored) == (0, 3)


@pytest.mark.parametrize("claim", ["lamp on the tower", "Lisbon"])
def test_all_calls_of_a_control_that_ends_the_run_are_counted(
    form: str, claim: str
) -> None:
    fine = guard(form)

    def reply(body: Body) -> Body:
        return choice("Maybe") if claim in shown(body)[0] else fine(body)

    with LoopbackServer(reply) as server:
        report = judged(judge_at(server, form), ADHERENCE)
    assert "gave no verdict on a control claim" in report.run.stopped
    assert report.usage.calls == len(server.requests) > 1


# Store, limits, faults, windows, cascade


def test_a_run_ends_at_its_limit_and_goes_on_from_the_store(
    server: LoopbackServer, form: str, tmp_path: Path
) -> None:
    judge = judge_at(server, form)
    report = judged(
        judge,
        ADHERENCE,
        store=tmp_path / "replies",
        limits=Limits(max_calls=3),
        concurrency=1,
    )
    assert report.run.stopped
    assert len(server.requests) <= 3
    assert (
        result_of(judged(judge, ADHERENCE, store=tmp_path / "replies")).value
        is not None
    )
    assert len(server.requests) == 4


def test_faults_are_tried_again(form: str) -> None:
    def faults(number: int) -> Fault | None:
        return Fault(429, {"Retry-After": "0"}) if number % 3 == 0 else None

    with LoopbackServer(guard(form), faults=faults) as server:
        report = judged(judge_at(server, form), ADHERENCE)
    assert result_of(report).value == pytest.approx(0.1)
    assert report.usage.faults > 0


def test_under_faults_every_outcome_is_the_right_one_or_typed() -> None:
    def faults(number: int) -> Fault | None:
        chance = random.Random(number).random()
        if chance < 0.1:
            return Fault(429, {"Retry-After": "0"})
        if chance < 0.15:
            return Fault(500)
        return Fault(200, body='{"choices": [') if chance < 0.17 else None

    fine = guard("granite-3.3")

    def reply(body: Body) -> Body:
        return choice("Maybe") if "row 7 " in shown(body)[0] else fine(body)

    answers = [
        f"Anna lit row {number} then." + " Peter sold it." * (number % 3 == 0)
        for number in range(100)
    ]
    rows = [Sample.from_row({**ROW, "answer": answer}) for answer in answers]
    with LoopbackServer(reply, faults=faults) as server:
        report = judged(judge_at(server, "granite-3.3"), ADHERENCE, rows=rows)
    for number, row in enumerate(report.results):
        result: Any = row.results["context_adherence"]
        if number == 7:
            assert result.error.type == "MalformedReply"
        else:
            expected = 0.1 if number % 3 == 0 else 0.9
            assert result.value == pytest.approx(expected)
    assert report.usage.calls == len(server.requests)


def test_contexts_that_are_too_long_are_asked_about_in_windows(form: str) -> None:
    fine = guard(form)
    longest = 1_500
    contexts = [f"{word} " * 200 for word in ("one", "two")] + ["It is Anna."]
    sample = Sample.from_row({**ROW, "contexts": contexts, "answer": "It is Anna."})

    class Small(LoopbackServer):
        def _outcome(self, number: int, body: Body) -> Fault:
            if len(shown(body)[1]) > longest:
                message = "maximum context length is 300 tokens"
                code = "context_length_exceeded"
                error = {"message": message, "code": code}
                return Fault(400, body=json.dumps({"error": error}))
            return super()._outcome(number, body)

    def held_where_it_stands(body: Body) -> Body:
        judged_text, texts = shown(body)
        if "Anna" in judged_text and "Anna" not in texts:
            return fine({**body, "messages": _foreign(body)})
        return fine(body)

    with Small(held_where_it_stands) as server:
        judge = judge_at(server, form)
        report = judged(judge, ADHERENCE, rows=[sample])
    result = result_of(report)
    assert result.value == pytest.approx(0.9)
    assert "windows" in report.usage.fallbacks
    assert result.evidence.windows == 2


@pytest.mark.parametrize(("claim", "status"), [("two", "scored"), ("June", "failed")])
def test_a_window_without_a_verdict_turns_no_yes_into_a_no(
    form: str, claim: str, status: str
) -> None:
    """What another window holds is held; else the missing verdict fails the answer."""
    contexts = [f"{word} " * 200 for word in ("one", "two")]
    answer = f"It is {claim}."
    sample = Sample.from_row({**ROW, "contexts": contexts, "answer": answer})
    fine = guard(form)

    class Small(LoopbackServer):
        def _outcome(self, number: int, body: Body) -> Fault:
            if len(shown(body)[1]) > 1_000:
                error = {"message": "too long", "code": "context_length_exceeded"}
                return Fault(400, body=json.dumps({"error": error}))
            return super()._outcome(number, body)

    def no_verdict_on_the_first(body: Body) -> Body:
        return choice("Maybe") if "one" in shown(body)[1] else fine(body)

    with Small(no_verdict_on_the_first) as server:
        judge = judge_at(server, form, control=False)
        result = result_of(judged(judge, ADHERENCE, rows=[sample]))
    assert result.status == status
    if status == "failed":
        assert result.error.type == "MalformedReply"


def _foreign(body: Body) -> list[Body]:
    return [
        {**message, "content": message["content"].replace("Anna", "Peter")}
        for message in body["messages"]
    ]


def test_a_cascade_passes_on_what_a_guard_is_unsure_of(form: str) -> None:
    strong = ScriptedJudge({Adherent: {"verdict": "yes", "reason": ""}})
    with LoopbackServer(guard(form, doubt=0.4)) as server:
        unsure = CascadeJudge(judge_at(server, form), strong, band=(0.2, 0.8))
        passed = judged(unsure, ADHERENCE)
        sure = CascadeJudge(judge_at(server, form), strong, band=(0.45, 0.8))
        spared = judged(sure, ADHERENCE)
    assert (passed.usage.passed, result_of(passed).value) == (1, 1.0)
    assert (spared.usage.spared, result_of(spared).value) == (1, pytest.approx(0.4))


def test_a_bare_word_is_passed_on_by_a_cascade(form: str) -> None:
    strong = ScriptedJudge({Adherent: {"verdict": "yes", "reason": ""}})
    with LoopbackServer(guard(form, logprobs=False)) as server:
        cascade = CascadeJudge(judge_at(server, form), strong, band=(0.2, 0.8))
        assert judged(cascade, ADHERENCE).usage.passed == 1


def test_a_batch_takes_the_requests_of_a_guard(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LOOK_SECONDS", 0.01)  # no test waits for a minute
    with BatchService(guard(form)) as service:
        report = judged(
            GuardJudge(GuardModel(service.base_url, "tiny", form=form)),
            ADHERENCE,
            store=tmp_path / "replies",
            batch="wait",
        )
    assert result_of(report).value == pytest.approx(0.1)
    assert not service.requests  # none live
    assert len(service.batches) == 2  # the control first


MANY = [
    Sample.from_row({**ROW, "answer": f"Anna lit it. It was {number}."})
    for number in range(12)
]


def test_a_dry_run_counts_what_a_run_sends(server: LoopbackServer, form: str) -> None:
    judge = judge_at(server, form)
    metrics = [ADHERENCE, RetrievalAccuracy()]
    counted = estimate(MANY, metrics, judge)
    assert not server.requests
    report = judged(judge, *metrics, rows=MANY)
    assert counted.low.calls == report.usage.calls == counted.high.calls - 2
    assert counted.low.completion_tokens == counted.high.completion_tokens


@pytest.mark.parametrize("control", [True, False])
@pytest.mark.parametrize("concurrency", [4, 32])
def test_a_dry_run_counts_what_an_endpoint_without_log_probabilities_rejects(
    control: bool, concurrency: int
) -> None:
    metrics = [ADHERENCE, RetrievalAccuracy()]
    with LoopbackServer(
        guard("minicheck", logprobs=False), logprobs="reject"
    ) as server:
        judge = judge_at(server, "minicheck", control=control)
        counted = estimate(MANY, metrics, judge)
        report = judged(judge, *metrics, rows=MANY, concurrency=concurrency)
    assert counted.low.calls < report.usage.calls == len(server.requests)
    assert report.usage.calls <= counted.high.calls
    if control:
        assert report.usage.calls == counted.high.calls


def test_where_the_endpoint_states_what_it_gives_the_number_is_exact(form: str) -> None:
    for gives in (True, False):
        with LoopbackServer(guard(form, logprobs=gives)) as server:
            stated = Capabilities(logprobs=gives)
            model = GuardModel(server.base_url, "tiny", form=form, capabilities=stated)
            counted = estimate(MANY, [ADHERENCE], GuardJudge(model))
            report = judged(GuardJudge(model), ADHERENCE, rows=MANY)
        assert counted.low.calls == counted.high.calls == report.usage.calls


def test_an_endpoint_that_gives_no_log_probabilities_is_asked_everything_once(
    form: str, tmp_path: Path
) -> None:
    """Also in the next run, which does not know it and finds all in the store."""
    with LoopbackServer(guard(form, logprobs=False)) as server:
        for is_kept in (False, True):
            judge = judge_at(server, form)
            kept = tmp_path / "kept"
            report = judged(judge, ADHERENCE, rows=MANY, concurrency=2, store=kept)
            assert (report.usage.calls == 0) == is_kept
        asked = [shown(request.body) for request in server.requests]
    assert len(asked) == len(set(asked)) > len(MANY)


def test_methods_say_what_a_guard_was_asked() -> None:
    metrics = [ADHERENCE, ContextUtilization(), RetrievalAccuracy()]
    with LoopbackServer(guard("granite-3.3")) as server:
        methods = judged(judge_at(server, "granite-3.3"), *metrics).methods()
    assert "By a guard, Context Adherence is the probability that" in methods
    assert "the answer was not shown" in methods
    assert "context_utilization by guard/granite-3.3/tiny: 2 from the token" in methods
    assert "share of polls" not in methods


def test_methods_leave_out_what_a_guard_refused_and_speak_of_no_polls() -> None:
    metrics = [ADHERENCE, ContextUtilization()]
    with LoopbackServer(guard("minicheck")) as server:
        report = judged(judge_at(server, "minicheck"), *metrics)
    methods = report.methods()
    assert "Context Utilization is" not in methods
    assert "Failed on every row that it applies to: context_utilization." in methods
    assert "By a guard, Context Adherence is" in methods
    for text in (methods, report.table()):
        assert "poll noise" not in text
        assert "this judge, which took no polls, on rows like these" in text


def test_a_card_of_a_guard_is_counted_with_the_least_below_the_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "labelled.jsonl"
    row = {**ROW, "source": "people", "labels": {"adherent": 1}}
    data.write_text(json.dumps(row) + "\n")
    arguments = ["card", "--judge", "guard/minicheck/m", "--data", str(data)]
    arguments += ["--api-base", "http://127.0.0.1:1/v1", "--dry-run"]
    assert main([*arguments, "--metric", "adherence"]) == 0
    printed = capsys.readouterr().out
    (calls,) = re.findall(r"calls: +(.*)", printed)
    least, most = map(int, calls.split(" to "))
    assert least == most - 2  # an endpoint may reject what the control asks first


# By name


def test_a_guard_is_resolved_by_its_name(form: str) -> None:
    judge = resolve_judge(f"guard/{form}/some/model", api_base="http://127.0.0.1:1/v1")
    assert isinstance(judge, GuardJudge)
    assert judge.model.form.name == form
    assert judge.model.model == "some/model"
    assert judge.name == f"guard/{form}/some/model"


@pytest.mark.parametrize(
    ("name", "address", "says"),
    [
        ("guard/granite/model", "http://127.0.0.1:1/v1", "granite-3.3"),
        ("guard/minicheck", "http://127.0.0.1:1/v1", "needs a form, a model"),
        ("guard/minicheck/model", None, "the address of its endpoint"),
    ],
)
def test_a_name_that_is_not_complete_says_what_is_missing(
    name: str, address: str | None, says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        resolve_judge(name, api_base=address)


@pytest.mark.parametrize("model", ["", "  "])
def test_a_guard_without_a_model_is_refused(form: str, model: str) -> None:
    with pytest.raises(SettingError, match="names no model"):
        GuardModel("http://127.0.0.1:1/v1", model, form=form)


@pytest.mark.parametrize("prefix", ["guards", "gaurd"])
def test_a_misspelt_guard_is_asked_about(prefix: str) -> None:
    with pytest.raises(SettingError, match="did you mean 'guard/minicheck/m'"):
        resolve_judge(f"{prefix}/minicheck/m", api_base="http://127.0.0.1:1/v1")


def test_the_command_line_takes_a_guard(
    tmp_path: Path, form: str, server: LoopbackServer
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(ROW) + "\n")
    out = tmp_path / "out.jsonl"
    arguments = ["evaluate", str(rows), "--judge", f"guard/{form}/tiny"]
    arguments += ["--api-base", server.base_url, "--metrics", "context_adherence"]
    assert main([*arguments, "--out", str(out), "--no-store"]) == 0
    report = Report.from_jsonl(out)
    result = report.results[0].results["context_adherence"]
    assert result.judge == f"guard/{form}/tiny"
    assert result.value == pytest.approx(0.1)


def test_only_a_guard_is_a_guards_model() -> None:
    with pytest.raises(SettingError, match="GuardModel"):
        GuardJudge(OpenAICompatibleModel("http://127.0.0.1:1/v1", "chat"))  # type: ignore[arg-type]


def test_a_guards_model_is_asked_as_a_guard(server: LoopbackServer, form: str) -> None:
    model = GuardModel(server.base_url, "tiny", form=form)
    assert isinstance(resolve_judge(model), GuardJudge)
    assert repr(model) == f"GuardModel({server.base_url!r}, 'tiny', form={form!r})"
    with pytest.raises(SettingError, match="GuardJudge"):
        LLMJudge(model)


@pytest.mark.parametrize("question", ["adherent", "present"])
def test_a_card_measures_a_guard(
    server: LoopbackServer, form: str, question: str
) -> None:
    labels = (False,) if question == "adherent" else (True, False)
    rows = [LabelledSample(question, "people", SAMPLE, labels)]
    judge = judge_at(server, form)
    card = measure_judge(judge, rows, asking(judge), draws=2)
    figures = {figure.measure: figure.value for figure in card.figures[question]}
    assert card.judge == f"guard/{form}/tiny"
    assert figures["same when asked again"] == 1.0
    assert figures["failed"] == 0.0
    assert card.claim_correction is None


def test_equal_texts_of_other_forms_have_other_keys() -> None:
    keys = {
        GuardModel("http://127.0.0.1:1/v1", "tiny", form=name).cache_key
        for name in FORMS
    }
    chat = OpenAICompatibleModel("http://127.0.0.1:1/v1", "tiny").cache_key
    assert len({*keys, chat}) == len(FORMS) + 1


def test_every_error_of_a_reply_is_typed(form: str) -> None:
    for text in ("", "both yes and no", "<think>"):
        with pytest.raises(errors.UnusableReply):
            read_verdict(FORMS[form], Choice(text))
