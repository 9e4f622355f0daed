"""Judges of typed questions: OpenAI's decisions and System One, at a server on this machine."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from decision_loopback import Chance, DecisionServer, by_digest
from hypothesis import given, settings
from hypothesis import strategies as st
from typed_rows import CITING, FORMS, FURTHER_METRICS, GOLDEN, METRICS, ROW, SAMPLE

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Limits,
    LLMJudge,
    Metric,
    Report,
    RetrievalAccuracy,
    Sample,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import (
    Asked,
    Instructions,
    NotAnswered,
    Part,
    Question,
    SettingError,
    errors,
)
from ragmetrics_core.data.asking import Option, TypedQuestion
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.engine.loop import wait_for
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.metrics.declined import Declined, DeclinedJudgement
from ragmetrics_core.models.chat import Choice
from ragmetrics_core.models.decision_forms import chances_of
from ragmetrics_core.models.decision_model import (
    OpenAIDecisionModel,
    SystemOneModel,
)
from ragmetrics_core.testing.loopback import Fault

Body = dict[str, Any]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def claiming(state: Any, question: Body) -> Chance:
    """By digest, but an answer claims something, and the chunks are useful for it."""
    if '"claims"' in question["instructions"] or '"useful"' in question["instructions"]:
        return 0.9
    return by_digest(state, question)


@pytest.fixture
def server() -> Iterator[DecisionServer]:
    with DecisionServer(claiming) as running:
        yield running


def judge_at(server: DecisionServer, form: str = "decisions") -> DecisionJudge:
    return DecisionJudge(FORMS[form](server.base_url))


def judged(
    judge: DecisionJudge,
    metrics: Sequence[Metric] = METRICS,
    rows: Sequence[Sample] = (SAMPLE,),
    **settings: Any,
) -> Report:
    return evaluate(rows, metrics, judge=judge, **{"store": False, **settings})


def state_of(body: Body) -> Body:
    state: Body = json.loads(body["input"]) if "input" in body else body["state"]
    return state


def questions_of(body: Body) -> list[Body]:
    questions = body["questions"]
    return list(questions.values() if isinstance(questions, dict) else questions)


def bodies(server: DecisionServer) -> list[Body]:
    return [recorded.body for recorded in server.requests]


def asks_if_declined(question: Body) -> bool:
    return '"declined"' in question["instructions"]


# What is sent


def test_the_four_metrics_are_scored_in_each_form_and_send_what_the_golden_file_holds(
    form, server
):
    report = judged(judge_at(server, form))
    results = report.results[0].results
    assert [result.status for result in results.values()] == ["scored"] * 4
    assert report.usage.calls == len(server.requests)
    sent = sorted(bodies(server), key=json.dumps)
    golden = json.loads((GOLDEN / f"{form}.json").read_text("utf-8"))
    assert sent == golden


def test_the_other_metrics_are_scored_and_send_what_the_golden_file_holds():
    def answering(state: Any, question: Body) -> Chance:
        return 0.1 if asks_if_declined(question) else claiming(state, question)

    with DecisionServer(answering) as server:
        report = judged(judge_at(server), FURTHER_METRICS, [CITING])
        sent = sorted(bodies(server), key=json.dumps)
    results = report.results[0].results
    assert {result.status for result in results.values()} == {"scored"}
    assert sent == json.loads((GOLDEN / "further.json").read_text("utf-8"))


def test_both_forms_give_equal_scores_to_equal_answers():
    def by_wording(state: Any, question: Body) -> Chance:
        return by_digest("", {**question, "instructions": question["instructions"]})

    values = {}
    for form in FORMS:
        with DecisionServer(by_wording) as server:
            results = judged(judge_at(server, form)).results[0].results
            values[form] = {name: result.value for name, result in results.items()}
    assert values["decisions"] == values["systemone"]


WORDS = ("quartz", "fjord", "vexed", "nymph", "jumbo", "glyph", "waltz", "zephyr")


@settings(max_examples=15, deadline=None)
@given(words=st.permutations(WORDS), n_contexts=st.integers(1, 3))
def test_law_no_request_shows_what_its_question_does_not_name(words, n_contexts):
    question, answer, reference, fact, *contexts = words
    sample = Sample.from_row(
        {
            "question": question,
            "answer": answer,
            "reference": reference,
            "facts": [fact],
            "contexts": contexts[:n_contexts],
        }
    )
    shown_contexts = set(contexts[:n_contexts])
    may_show: dict[Metric, set[str]] = {
        ContextUtilization(judging="listwise"): {question, answer, *shown_contexts},
        ContextAdherence(): {question, answer, *shown_contexts},
        ContextRecall(): {question, answer, reference, *shown_contexts},
        RetrievalAccuracy(): {question, fact, *shown_contexts},
        ContextUtilization(): {question, answer, *shown_contexts},
    }
    of_one_chunk = (RetrievalAccuracy(), ContextUtilization())
    with DecisionServer() as server:
        judge = judge_at(server)
        for asking, texts in may_show.items():
            server.requests.clear()
            judged(judge, [asking], [sample])
            for body in bodies(server):
                shown = {word for word in words if word in json.dumps(state_of(body))}
                assert shown <= texts
                if asking in of_one_chunk:  # or of none: whether the answer declines
                    assert len(shown & shown_contexts) <= 1
                instructions = json.dumps(body["questions"])
                assert not [word for word in words if word in instructions]


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(3)))
def test_law_permuted_contexts_have_permuted_verdicts(order):
    contexts = [ROW["contexts"][place] for place in order]
    permuted = Sample.from_row({**ROW, "contexts": contexts})
    metrics = [
        ContextUtilization(judging="listwise"),
        ContextAdherence(cause=False),
        ContextRecall(),
    ]
    with DecisionServer() as server:
        judge = judge_at(server)
        before = judged(judge, metrics).results[0].results
        after = judged(judge, metrics, [permuted]).results[0].results
    chunks_before = before["context_utilization"].evidence.chunks
    chunks_after = after["context_utilization"].evidence.chunks
    assert [chunk.probability for chunk in chunks_after] == [
        chunks_before[place].probability for place in order
    ]
    for name in ("context_adherence", "context_recall"):
        assert after[name].value == before[name].value


# What is read


def scripted(**chances: Chance) -> Callable[[Any, Body], Chance]:
    """Answers by a word of the instructions."""

    def answer(state: Any, question: Body) -> Chance:
        for word, chance in chances.items():
            if word in question["instructions"]:
                return chance
        raise AssertionError(question["instructions"])

    return answer


def test_the_weakest_sentence_decides_adherence(form):
    with DecisionServer(scripted(claims=0.9, S1=0.8, S2=0.3)) as server:
        report = judged(judge_at(server, form), [ContextAdherence(cause=False)])
    result = report.results[0].results["context_adherence"]
    assert result.value == 0.3
    assert result.evidence.unsupported == ("It was in May.",)
    weakest = 'The weakest of 2 sentences has p = 0.30: "It was in May."'
    assert result.reason == weakest


@pytest.mark.parametrize(
    ("chances", "band", "score"),
    [
        ([0, 0, 0, 0, 1], "perfect", 1.0),
        ([1, 0, 0, 0, 0], "none", 0.0),
        ([0, 0, 0.4, 0.6, 0], "mostly", pytest.approx(0.695)),
        ([0, 0, 0.6, 0, 0.4], "partial", pytest.approx(0.65, abs=1e-9)),
    ],
)
def test_recall_is_the_expected_score_within_the_likeliest_band(
    form, chances, band, score
):
    with DecisionServer(lambda *_: chances) as server:
        report = judged(judge_at(server, form), [ContextRecall()])
    result = report.results[0].results["context_recall"]
    assert (result.evidence.band, result.value) == (band, score)


LEDGER_ROW = {
    "question": "And when?",
    "history": [
        {"role": "user", "content": "Who lit the lamp?"},
        {"role": "assistant", "content": "Anna did."},
    ],
    "contexts": ["It was in May."],
    "answer": "In May. She is tall.",
    "ledger": {"turn": 1, "calls": []},
}


def test_with_a_ledger_the_verdict_is_asked_and_no_labels_of_claims(form):
    """A judge that writes nothing lists no claims, of which it could say what holds them."""
    sample = Sample.from_row(LEDGER_ROW)
    assert sample.ledger is not None
    with DecisionServer(scripted(claims=0.9, S1=0.9, S2=0.3)) as server:
        report = judged(
            judge_at(server, form), [ContextAdherence(cause=False)], [sample]
        )
    result = report.results[0].results["context_adherence"]
    assert result.value == 0.3
    assert result.evidence.ledger.note.endswith("without labels.")
    assert len(server.requests) == 1


def test_a_cause_is_asked_below_one_half_only():
    def answer(state: Any, question: Body) -> Chance:
        if '"grade"' in question["instructions"]:
            return [0.0, 0.0, 0.0, 1.0]
        return scripted(S=0.2, missing=0.1, claims=0.9)(state, question)

    with DecisionServer(answer) as server:
        report = judged(judge_at(server), [ContextAdherence()])
    assert report.results[0].results["context_adherence"].evidence.cause == (
        "insufficient_context"
    )


# What cannot be asked


def test_facts_cannot_be_listed_and_the_error_says_what_to_do(server):
    sample = Sample.from_row({**ROW, "facts": None})
    result = (
        judged(judge_at(server), [RetrievalAccuracy()], [sample])
        .results[0]
        .results["retrieval_accuracy"]
    )
    assert (result.status, result.error.type) == ("failed", "QuestionNotSupported")
    for words in ("ExtractFacts", '"facts"', "facts=", "gpt-4o-mini"):
        assert words in result.reason
    assert not server.requests


def test_a_template_of_ones_own_is_asked_by_its_own_words(server):
    template = "Rate it as teachers do.\n{answer}\n{reference}\nBe strict."
    server.answer = fixed([0.0, 0.0, 0.0, 0.0, 1.0])
    own = ContextRecall(template=template, examples="")
    result = judged(judge_at(server), [own]).results[0].results["context_recall"]
    assert result.value == 1.0
    (body,) = bodies(server)
    assert state_of(body)["rules"] == "Rate it as teachers do.\nBe strict."


# Answers that cannot be used


def fixed(chance: Any) -> Callable[[Any, Body], Any]:
    return lambda state, question: chance


def answering(change: Callable[[Body], Any]) -> Callable[[], DecisionServer]:
    """A server that changes each answer of OpenAI's form."""

    class Changing(DecisionServer):
        def completion(self, body: Body) -> Body:
            reply = super().completion(body)
            return {**reply, "answers": [*map(change, reply["answers"])]}

    return Changing


def writing(once: str, twice: str) -> Callable[[], DecisionServer]:
    """A server that writes a part of its reply twice."""

    class Doubling(DecisionServer):
        def _outcome(self, number: int, body: Body) -> Fault:
            del number
            written = json.dumps(self.completion(body))
            assert once in written
            return Fault(200, body=written.replace(once, twice, 1))

    return lambda: Doubling(fixed(0.9))


def saying(answer: Any, **more: Any) -> Callable[[], DecisionServer]:
    return lambda: DecisionServer(fixed(answer), **more)


BOTH = tuple(FORMS)
FACTS, RECALL = RetrievalAccuracy(), ContextRecall()
TOO_LONG = "ContextWindowExceeded"
UNUSABLE: dict[str, tuple[Sequence[str], Metric, Callable[[], DecisionServer], str]] = {
    "refused": (BOTH[:1], FACTS, saying(None), "ContentRefused"),
    "left out": (BOTH[1:], RECALL, saying(None), "UnusableReply"),
    "a sum of 1.2": (BOTH, RECALL, saying([0.2, 0.2, 0.2, 0.2, 0.4]), "UnusableReply"),
    "a sum of .9": (BOTH, RECALL, saying([0.2, 0.2, 0.2, 0.2, 0.1]), "UnusableReply"),
    **{
        f"an answer to another question, {number}": (
            BOTH[:1],
            FACTS,
            answering(change),
            "UnusableReply",
        )
        for number, change in enumerate(
            (
                lambda answer: {**answer, "name": "other"},
                lambda answer: {**answer, "name": [answer["name"]]},
                lambda answer: {**answer, "name": None},
                lambda answer: {**answer, "type": "choice"},
                lambda answer: {"type": answer["type"], "name": answer["name"]},
                lambda answer: "yes",
            )
        )
    },
    **{
        f"twice: {once}": (
            BOTH[place:][:1],
            FACTS,
            writing(once, twice),
            "UnusableReply",
        )
        for place, once, twice in (
            (0, '"probability": 0', '"probability": 0.01, "probability": 0'),
            (0, '"answers": [', '"answers": [], "answers": ['),
            (1, '"q1": {', '"q1": {"type": "noul", "noul": 0.01}, "q1": {'),
            (1, '"noul": 0', '"noul": 0.01, "noul": 0'),
        )
    },
    **{
        f"cut: {extra}": (BOTH, RECALL, saying([0.2] * 5, extra=extra), TOO_LONG)
        for extra in (
            {"truncated": True},
            {"state_tokens_dropped": 7},
            {"truncated_questions": ["q1"]},
            {"state_truncated": True},
            {"metadata": {"input_truncated": 3}},
        )
    },
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_answer_that_cannot_be_used_fails_typed(name):
    forms, metric, make_server, kind = UNUSABLE[name]
    for form in forms:
        with make_server() as server:
            (row,) = judged(judge_at(server, form), [metric]).results
        result = row.results[metric.name]
        assert (result.status, result.error.type) == ("failed", kind)


@given(
    chances=st.lists(st.floats(0.01, 1), min_size=2, max_size=10),
    places=st.sampled_from([2, 3, 8]),
)
def test_law_rounded_probabilities_are_accepted(chances, places):
    total = sum(chances)
    rounded = [round(chance / total, places) for chance in chances]
    options = tuple(Option(str(place), "") for place in range(len(chances)))
    read = chances_of(
        TypedQuestion("choice", "?", options), Choice(json.dumps(rounded)), "tiny"
    )
    assert read == tuple(rounded)


def test_a_body_in_another_form_fails_at_once(server):
    body = json.dumps({"id": "x", "question": "?", "options": []})
    server.faults = lambda _: Fault(200, body=body)
    result = (
        judged(judge_at(server), [ContextRecall()]).results[0].results["context_recall"]
    )
    assert result.error.type == "UnusableReply"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "said", "kind", "n_requests"),
    [
        (400, {"detail": {"error_type": "max_tokens_exceeded"}}, "context", 1),
        (422, {"detail": {"error_type": "max_tokens_exceeded"}}, "context", 1),
        (422, [{"loc": ["questions"]}], "rejected", 1),
        (501, {"error": "no decision model"}, "unavailable", 1),
        (403, {"error": "no key"}, "unavailable", 1),
    ],
)
def test_statuses_have_their_meaning(server, status, said, kind, n_requests):
    server.faults = lambda _: Fault(status, body=json.dumps(said))
    reply = wait_for(judge_at(server).answer(a_question())).reply
    assert isinstance(reply, NotAnswered)
    kinds = {
        "context": errors.ContextWindowExceeded,
        "rejected": errors.RequestRejected,
        "unavailable": errors.JudgeUnavailable,
    }
    assert isinstance(reply.error, kinds[kind])
    assert len(server.requests) == n_requests


def test_a_refused_key_is_told_before_an_answer_that_cannot_be_used():
    """Of several requests for one question the first may fail for itself alone."""
    sample = Sample.from_row({**ROW, "contexts": ["Anna lit the lamp."]})
    with DecisionServer(fixed(1.2)) as server:
        server.faults = {1: Fault(401)}.get
        judge = judge_at(server)
        judge.model.most_questions = 1
        (row,) = judged(judge, [RetrievalAccuracy(calls="per_context")], [sample])
        assert len(server.requests) == 2
    result = row.results["retrieval_accuracy"]
    assert (result.status, result.error.type) == ("failed", "AuthenticationFailed")


def a_question() -> Question[Any]:
    return Declined(
        parts={"question": Part("Question", "Who?"), "answer": Part("Answer", "Anna.")},
        instructions=Instructions("{question}\n{answer}"),
        Reply=DeclinedJudgement,
    )


def test_an_overloaded_endpoint_is_asked_again(server):
    server.faults = lambda number: Fault(529) if number == 0 else None
    answer = wait_for(judge_at(server).answer(a_question()))
    assert isinstance(answer.reply, Asked)
    assert (answer.usage.calls, answer.usage.faults) == (2, 1)


# What is paid, and kept


def test_usages_sum_to_what_the_endpoint_counted(form):
    with DecisionServer() as server:
        report = judged(judge_at(server, form))
        counted = sum(
            server.completion(body)["usage"]["input_tokens"] for body in bodies(server)
        )
    assert report.usage.prompt_tokens == counted
    assert report.usage.calls == len(server.requests)


def test_a_second_run_and_one_metric_more_ask_for_what_is_new(tmp_path, form):
    store = tmp_path / "replies.sqlite"
    with DecisionServer() as server:
        judge = judge_at(server, form)
        judged(judge, METRICS[:2], store=store)
        n_before = len(server.requests)
        again = judged(judge, METRICS[:2], store=store)
        assert len(server.requests) == n_before
        assert again.usage.calls == 0
        assert again.usage.stored > 0
        judged(judge, METRICS[:3], store=store)
        new = bodies(server)[n_before:]
    assert len(new) == 1
    assert "reference" in state_of(new[0])


def test_an_answer_that_cannot_be_used_is_asked_for_again_by_the_next_run(
    tmp_path, form
):
    store = tmp_path / "replies.sqlite"
    metrics = [RetrievalAccuracy(calls="per_context")]
    sample = Sample.from_row({**ROW, "contexts": ["Anna lit the lamp."]})

    def half_bad(state: Any, question: Body) -> Any:
        return 1.2 if "F1" in question["instructions"] else 0.9

    with DecisionServer(half_bad) as server:
        judge = judge_at(server, form)
        first = judged(judge, metrics, [sample], store=store)
        server.answer = fixed(0.9)
        second = judged(judge, metrics, [sample], store=store)
        n_asked = [len(questions_of(body)) for body in bodies(server)]
    statuses = [
        report.results[0].results["retrieval_accuracy"].status
        for report in (first, second)
    ]
    assert statuses == ["failed", "scored"]
    assert n_asked == [2, 1]  # what was answered is not asked again


def mixed_faults(number: int) -> Fault | None:
    """10 % asked to slow down, 5 % errors of the server, 2 % bodies that are cut off."""
    drawn = random.Random(number).random()
    if drawn < 0.10:
        return Fault(429, {"Retry-After": "0.1"})
    if drawn < 0.15:
        return Fault(500)
    return (
        Fault(200, body='{"model": "tiny", "answers": [{"ty') if drawn < 0.17 else None
    )


@pytest.mark.nightly
def test_under_faults_every_outcome_is_the_right_one_or_typed(form):
    rows = [
        Sample.from_row({**ROW, "question": f"Who lit lamp {number}?"})
        for number in range(60)
    ]

    def answer(state: Any, question: Body) -> Chance:
        is_refused = state["question"].endswith(("7?", "9?"))
        return None if is_refused and "S1" in question["instructions"] else 0.9

    with DecisionServer(answer, faults=mixed_faults) as server:
        report = judged(judge_at(server, form), METRICS[:2], rows)
        assert report.usage.calls == len(server.requests) > len(rows)
    refused = "ContentRefused" if form == "decisions" else "UnusableReply"
    for row in report.results:
        assert row.results["context_utilization"].value == 1.0
        adherence = row.results["context_adherence"]
        if row.sample is not None and row.sample.question.endswith(("7?", "9?")):
            assert adherence.error.type == refused
        else:
            assert adherence.value == 0.9


def test_a_sentence_more_shares_the_request_of_the_others(server):
    judged(judge_at(server), [ContextAdherence(cause=False)])
    assert [len(questions_of(body)) for body in bodies(server)] == [3]


def test_401_questions_make_two_requests(server):
    facts = [f"Fact number {number}." for number in range(401)]
    sample = Sample.from_row({**ROW, "contexts": ["One."], "facts": facts})
    report = judged(
        judge_at(server), [RetrievalAccuracy(calls="per_context")], [sample]
    )
    assert report.results[0].results["retrieval_accuracy"].status == "scored"
    assert sorted(len(questions_of(body)) for body in bodies(server)) == [1, 400]


def test_a_text_that_is_too_long_is_judged_in_windows():
    class Short(DecisionServer):
        def completion(self, body: Body) -> Body:
            is_long = len(json.dumps(body)) > 2_500
            return {**super().completion(body), "truncated": is_long}

    sample = Sample.from_row({**ROW, "contexts": ["The lamp was lit. " * 200]})
    with Short(fixed(0.9)) as server:
        report = judged(judge_at(server), [ContextUtilization()], [sample])
    (chunk,) = report.results[0].results["context_utilization"].evidence.chunks
    assert chunk.useful
    assert chunk.windows is not None
    assert chunk.windows > 1


def test_money_can_be_capped_where_the_price_is_stated(server):
    model = OpenAIDecisionModel("tiny", api_base=server.base_url, prices=(1e-3, 0.0))
    report = judged(
        DecisionJudge(model), [ContextRecall()], limits=Limits(max_cost=10.0)
    )
    assert report.usage.cost == pytest.approx(1e-3 * report.usage.prompt_tokens)


def test_batches_are_refused_in_words(server, tmp_path):
    with pytest.raises(SettingError, match="batch"):
        judged(judge_at(server), batch=True, store=tmp_path / "replies.sqlite")
    assert not server.requests


# With others


# Names


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("decisions/gpt-6-luna", OpenAIDecisionModel),
        ("systemone/typesafe/jev-1.13", SystemOneModel),
    ],
)
def test_names_resolve_to_judges_of_typed_questions(name, kind, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    judge = resolve_judge(name)
    assert isinstance(judge, DecisionJudge)
    assert isinstance(judge.model, kind)
    assert judge.name == name
    assert resolve_judge(name) is judge
    assert isinstance(resolve_judge(judge.model), DecisionJudge)


def test_a_key_goes_to_no_address_but_its_own(server, form, monkeypatch):
    for variable in ("OPENAI_API_KEY", "HOSTED_VLLM_API_KEY", "TYPESAFE_API_KEY"):
        monkeypatch.setenv(variable, "sk-secret")
    judge = resolve_judge(f"{form}/tiny", api_base=server.base_url)
    assert isinstance(judge, DecisionJudge)
    judged(judge, [ContextRecall()])
    (request,) = server.requests
    assert "sk-secret" not in json.dumps(dict(request.headers))
    assert request.path == ("/v1/decisions" if form == "decisions" else "/v1/systemone")


def test_a_decision_model_is_no_chat_model(server):
    model = OpenAIDecisionModel("tiny", api_base=server.base_url)
    with pytest.raises(SettingError, match="DecisionJudge"):
        LLMJudge(model)
    with pytest.raises(SettingError, match="LLMJudge"):
        DecisionJudge("tiny")  # type: ignore[arg-type]  # what a user may give


def test_openais_model_has_the_price_of_our_dated_file(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert OpenAIDecisionModel("gpt-6-luna").prices() == (pytest.approx(1e-7), 0.0)
    assert OpenAIDecisionModel("unlisted").prices() is None


# Requests of a run


def test_a_metric_alone_and_beside_three_gives_equal_scores(form):
    with DecisionServer() as server:
        judge = judge_at(server, form)
        together = judged(judge, METRICS).results[0].results
        reversed_order = judged(judge, METRICS[::-1]).results[0].results
        for metric in METRICS:
            alone = judged(judge, [metric]).results[0].results[metric.name]
            for other in (together[metric.name], reversed_order[metric.name]):
                assert (other.value, other.evidence) == (alone.value, alone.evidence)


def test_questions_of_a_metric_about_equal_texts_share_a_request(server):
    report = judged(judge_at(server))
    # usefulness, adherence, recall, and a request for each of three contexts
    assert len(server.requests) == report.usage.calls == 6
    results = report.results[0].results
    assert results["retrieval_accuracy"].usage.calls == 3
    assert all(result.usage.prompt_tokens > 0 for result in results.values())


def test_the_cause_of_a_low_score_waits_for_nobody():
    def low(state: Any, question: Body) -> Chance:
        if '"claims"' in question["instructions"]:
            return 0.9
        return by_digest(state, question) if "levels" in question else 0.1

    metrics = [*METRICS[:1], ContextAdherence(), *METRICS[2:]]
    with DecisionServer(low) as server:
        results = judged(judge_at(server), metrics).results[0].results
        assert results["context_adherence"].evidence.cause == "insufficient_context"
        assert len(server.requests) == 9  # one of them: does the answer decline?


def test_a_refusal_of_one_question_fails_its_metric_alone():
    def answer(state: Any, question: Body) -> Chance:
        return None if "answer.S1" in question["instructions"] else 0.9

    with DecisionServer(answer) as server:
        results = judged(judge_at(server), METRICS[:2]).results[0].results
    assert results["context_utilization"].status == "scored"
    assert results["context_adherence"].error.type == "ContentRefused"


# Estimates


def test_a_dry_run_counts_the_requests_of_a_run(server):
    model = OpenAIDecisionModel("tiny", api_base=server.base_url, prices=(1e-6, 0.0))
    judge = DecisionJudge(model)
    counted = estimate([SAMPLE, SAMPLE], METRICS, judge)
    assert not server.requests
    spent = judged(judge).usage
    assert counted.usage.calls == spent.calls
    assert 0.7 < counted.usage.prompt_tokens / spent.prompt_tokens < 1.4
    assert counted.usage.cost == pytest.approx(1e-6 * counted.usage.prompt_tokens)


def test_a_dry_run_counts_no_facts_that_cannot_be_listed(server):
    sample = Sample.from_row({**ROW, "facts": None})
    metrics = [ContextAdherence(), RetrievalAccuracy()]
    counted = estimate([sample], metrics, judge_at(server))
    assert counted.usage.calls == 1


def test_the_command_line_judges_by_typed_questions(server, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(ROW) + "\n")
    command = ["evaluate", str(rows), "--judge", "decisions/tiny"]
    command += ["--api-base", server.base_url, "--no-store"]
    assert main([*command, "--dry-run"]) == 0
    assert "nothing was called" in capsys.readouterr().out
    assert not server.requests
    assert main(command) == 0
    assert "decisions/tiny" in capsys.readouterr().out
    assert {request.path for request in server.requests} == {"/v1/decisions"}
