"""Models of typed questions behind endpoints: addresses, keys, names, and replies that are none."""

import json
import math
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from decision_loopback import DecisionServer
from pydantic import BaseModel
from typed_rows import FORMS

from ragmetrics_core import ContextRecall, ContextUtilization, evaluate
from ragmetrics_core.data import (
    Asked,
    Bit,
    Instructions,
    Part,
    Question,
    SettingError,
    errors,
)
from ragmetrics_core.engine.loop import wait_for
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.models.addresses import TYPESAFE, provider_endpoint
from ragmetrics_core.models.decision_model import DecisionModel, SystemOneModel
from ragmetrics_core.testing.loopback import Fault

Body = dict[str, Any]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Iterator[DecisionServer]:
    with DecisionServer(lambda *_: 0.9) as running:
        yield running


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("OPENAI", "TYPESAFE", "HOSTED_VLLM", "RAGMETRICS"):
        for ending in ("API_KEY", "API_BASE", "BASE_URL"):
            monkeypatch.delenv(f"{provider}_{ending}", raising=False)


class Polite(BaseModel):
    polite: Bit


class OfTwo(BaseModel):
    tone: Literal["A", "B"]


class Tone(Question[Any]):
    """Is an answer polite?"""


def tone(reply: type[BaseModel] = Polite) -> Tone:
    return Tone(
        parts={"answer": Part("Answer", "Thanks.")},
        instructions=Instructions("Is it polite?\n{answer}"),
        Reply=reply,
    )


def error_of(
    model: DecisionModel, reply_form: type[BaseModel] = Polite
) -> errors.JudgeError:
    """The error with which a question fails."""
    reply = wait_for(DecisionJudge(model).answer(tone(reply_form))).reply
    return reply.error


# Replies that are none


def says(body: Body, number: Any) -> None:
    """Give the answer to a statement this probability."""
    answers = body["answers"]
    answer = answers[0] if isinstance(answers, list) else answers["q1"]
    answer["probability" if "probability" in answer else "noul"] = number


def says_of_option(body: Body, number: Any) -> None:
    """Give the first of two options this probability."""
    answers = body["answers"]
    if isinstance(answers, list):
        answers[0]["probabilities"][0]["probability"] = number
    else:
        answers["q1"]["probabilities"]["A"] = number


def says_of_another_option(body: Body, number: Any) -> None:
    """Add an option that nobody asked about, or one that stands there before."""
    answers = body["answers"]
    if isinstance(answers, list):
        answers[0]["probabilities"].append({"value": "A", "probability": number})
    else:
        answers["q1"]["probabilities"]["C"] = 0.0


NO_NUMBERS = [None, "0.9", True, [0.9], {}, 10**400, math.nan, math.inf, -0.1, 1.2]


@pytest.mark.parametrize(
    ("spoil", "number", "chance"),
    [
        *((says, number, 0.9) for number in NO_NUMBERS),
        *((says_of_option, number, [0.5, 0.5]) for number in (None, "0.5", True)),
        (says_of_another_option, 0.5, [0.5, 0.5]),
    ],
)
def test_an_answer_without_the_numbers_that_were_asked_for_fails_at_once(
    form, spoil, number, chance
):
    class Wrong(DecisionServer):
        def completion(self, body: Body) -> Body:
            reply = super().completion(body)
            spoil(reply, number)
            return reply

    with Wrong(lambda *_: chance) as server:
        asked = Polite if spoil is says else OfTwo
        error = error_of(FORMS[form](server.base_url), asked)
        assert isinstance(error, errors.UnusableReply)
        assert len(server.requests) == 1


def test_two_answers_of_one_name_are_no_answer():
    answer = {"type": "predicate", "name": "q1", "probability": 0.9}
    other = {**answer, "probability": 0.1}
    with DecisionServer(lambda *_: 0.9, extra={"answers": [answer, other]}) as server:
        error = error_of(FORMS["decisions"](server.base_url))
    assert "two answers of one name" in str(error)


@pytest.mark.parametrize("answers", [None, "q1", 3, [], {}], ids=str)
def test_answers_that_are_none_fail_at_once(form, answers):
    with DecisionServer(lambda *_: 0.9, extra={"answers": answers}) as server:
        error = error_of(FORMS[form](server.base_url))
        assert isinstance(error, errors.UnusableReply)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body", ["<html>a proxy</html>", "", "[" * 9_000, '{"answers": ']
)
def test_a_body_that_cannot_be_read_was_a_reply_all_the_same(form, server, body):
    server.faults = lambda _: Fault(200, body=body)
    judge = DecisionJudge(FORMS[form](server.base_url), attempts=1)
    reply = wait_for(judge.answer(tone())).reply
    assert isinstance(reply.error, errors.TransientJudgeError)
    assert "could not be reached" not in str(reply.error)
    assert "HTTP 500" not in str(reply.error)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"error": {"code": 429, "message": "slow"}}, errors.RateLimited),
        ({"error": {"code": 401}}, errors.AuthenticationFailed),
    ],
)
def test_an_error_that_comes_as_a_success_is_that_error(form, server, said, kind):
    server.faults = lambda _: Fault(200, body=json.dumps(said))
    judge = DecisionJudge(FORMS[form](server.base_url), attempts=1)
    reply = wait_for(judge.answer(tone())).reply
    assert isinstance(reply.error, kind)


def test_a_server_without_a_decision_model_ends_the_run_after_one_request(form, server):
    server.faults = lambda _: Fault(501, body='{"error": {"message": "no"}}')
    rows = [{"contexts": ["A."], "answer": f"{n}.", "question": "?"} for n in range(9)]
    judge = DecisionJudge(FORMS[form](server.base_url))
    with pytest.raises(
        errors.JudgeUnavailable, match="start that server with a decision"
    ):
        evaluate(rows, [ContextUtilization()], judge=judge)
    assert len(server.requests) == 1


@pytest.mark.parametrize("told", ["usage", "metadata", "answer"])
def test_texts_that_were_cut_are_too_long_wherever_that_is_told(form, told):
    class Cutting(DecisionServer):
        def completion(self, body: Body) -> Body:
            reply = super().completion(body)
            cut = {"state_tokens_dropped": 3, "truncated": True}
            if told != "answer":
                return {**reply, told: cut}
            answers = reply["answers"]
            answer = answers[0] if isinstance(answers, list) else answers["q1"]
            answer["truncated"] = {"state_tokens_dropped": 3}
            return reply

    with Cutting(lambda *_: 0.9) as server:
        error = error_of(FORMS[form](server.base_url))
    assert isinstance(error, errors.ContextWindowExceeded)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 529])
def test_errors_name_the_model_as_the_user_does(form, server, status):
    server.faults = lambda _: Fault(status)
    judge = DecisionJudge(FORMS[form](server.base_url), attempts=1)
    reply = wait_for(judge.answer(tone())).reply
    assert f"{form}/tiny" in str(reply.error)


# Addresses and keys


def test_an_address_may_leave_out_the_version_of_system_one(server):
    bare = server.base_url.removesuffix("/v1")
    for address in (bare, f"{bare}/", server.base_url, f"{server.base_url}/"):
        model = SystemOneModel("tiny", api_base=address)
        assert isinstance(wait_for(DecisionJudge(model).answer(tone())).reply, Asked)
    assert {request.path for request in server.requests} == {"/v1/systemone"}


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("decisions/gpt-6-luna", "OPENAI_API_KEY"),
        ("systemone/typesafe/jev-1.13.0", "TYPESAFE_API_KEY"),
    ],
)
def test_a_missing_key_names_its_variable_before_any_call(name, variable):
    judge = resolve_judge(name)
    with pytest.raises(errors.AuthenticationFailed, match=f"no key .* {variable}"):
        evaluate(
            [{"answer": "A.", "reference": "B.", "contexts": ["C."]}],
            [ContextRecall()],
            judge=judge,
        )


def test_typesafes_key_goes_to_its_own_address_only(server, monkeypatch):
    monkeypatch.setenv("TYPESAFE_API_KEY", "ts-secret")
    own = provider_endpoint(TYPESAFE, None, has_key=False)
    assert own[:2] == ("https://api.typesafe.ai/v1", "TYPESAFE_API_KEY")
    monkeypatch.setenv("TYPESAFE_BASE_URL", server.base_url)
    model = SystemOneModel("typesafe/jev-1.13.0")
    assert isinstance(wait_for(DecisionJudge(model).answer(tone())).reply, Asked)
    (request,) = server.requests
    assert "ts-secret" not in json.dumps(dict(request.headers))
    assert request.body["model"] == "jev-1.13.0"
    with pytest.raises(SettingError, match="TYPESAFE_BASE_URL"):
        SystemOneModel("typesafe/jev-1.13.0", api_key="secret")


def test_a_key_named_beside_its_address_is_sent(form, server, monkeypatch):
    monkeypatch.setenv("MINE", "my-secret")
    judge = resolve_judge(f"{form}/tiny", api_base=server.base_url, api_key_env="MINE")
    assert isinstance(wait_for(judge.answer(tone())).reply, Asked)
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer my-secret"


def test_typesafes_models_have_the_prices_of_our_dated_file(monkeypatch):
    model = SystemOneModel("typesafe/jev-1.13.0")
    assert model.prices() == (pytest.approx(4.2e-8), 0.0)
    at_another = SystemOneModel("typesafe/jev-1.13.0", api_base=HERE)
    assert at_another.prices() is None


# Names


HERE = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("decisions/", None),
        ("decisions/", HERE),
        ("systemone/", None),
        ("systemone/", HERE),
        ("systemone/typesafe/", None),
    ],
)
def test_a_name_without_a_model_says_so(name, address):
    with pytest.raises(SettingError, match=r"names no model: give .*MODEL"):
        resolve_judge(name, api_base=address)


def test_a_model_without_an_address_says_what_to_do():
    with pytest.raises(SettingError, match=r"^systemone/tiny needs .*--api-base.*/v1"):
        resolve_judge("systemone/tiny")


def test_a_name_with_slashes_is_sent_as_it_stands_to_ones_own_address(server):
    judge = resolve_judge("systemone/openai/oss", api_base=server.base_url)
    assert isinstance(wait_for(judge.answer(tone())).reply, Asked)
    assert server.requests[0].body["model"] == "openai/oss"
