"""Endpoints as people run them: refusals in their own words, login pages, proxies, no system role."""

import asyncio
import gzip
import json
import os
import re
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from lanes import crossed
from loopback import Fault, LoopbackServer
from plausible import plausible_reply

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    LiteLLMModel,
    LLMJudge,
    Metric,
    OpenAICompatibleModel,
    Report,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import Usage
from ragmetrics_core.data.errors import (
    JudgeUnavailable,
    SettingError,
    TransientJudgeError,
)
from ragmetrics_core.engine import progress
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.models import attempts, compatible_model
from ragmetrics_core.models.addresses import NAME_A_KEY, is_on_this_machine, proxy_for
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.reporting.comparison import compare

KEY = "sk-abc123456789"
GOOD = '{"reason": "r", "score": 1.0}'


def row(number: int = 0) -> dict[str, str]:
    return {
        "question": "Who keeps the ferry at Marl?",
        "answer": f"Ida Voss keeps it, {number}.",
        "reference": "Ida Voss.",
    }


def judged(
    server: LoopbackServer, rows: int = 1, metric: Metric | None = None
) -> Report:
    model = OpenAICompatibleModel(server.base_url, "local", api_key=KEY)
    return evaluate(
        [{**row(number), "contexts": ["Ida Voss keeps it."]} for number in range(rows)],
        [metric or ContextRecall()],
        judge=LLMJudge(model),
    )


def refusal(status: int, message: str) -> Fault:
    return Fault(status, body=json.dumps({"error": {"message": message}}))


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (400, "Guardrail intervened: topic policy"),
        (400, "This model supports at most 512 completions"),
        (404, "Your organization must be verified to use the model"),
        (403, "Your plan does not include this endpoint"),
    ],
)
def test_the_endpoint_says_itself_why_it_refused(loopback_server, status, sentence):
    server = loopback_server(faults=lambda _: refusal(status, sentence))
    if status in (400, 403):  # the fault of this row
        error = judged(server).results[0].results["context_recall"].error
        assert error.raw == sentence
        said = error.message
    else:
        with pytest.raises(JudgeUnavailable) as caught:
            judged(server)
        said = str(caught.value)
    assert f'"{sentence}"' in said


def test_what_it_repeats_of_key_and_sample_is_left_out(loopback_server):
    sentence = f"Key {KEY} may not send 'Ida Voss' or: Ida Voss keeps it, 0. Sorry"
    server = loopback_server(faults=lambda _: refusal(400, sentence))
    error = judged(server).results[0].results["context_recall"].error
    assert error.raw == "Key … may not send '…' or: …. Sorry"
    assert error.raw in error.message


@pytest.mark.parametrize(
    "spelt",
    [
        str,
        str.upper,
        quote,
        lambda text: "".join(f"&#{ord(sign)};" for sign in text),
        lambda text: "".join(f"\\u{ord(sign):04x}" for sign in text),
        lambda text: text.replace(" ", "_"),
        lambda text: text.replace(" ", "\\n"),
        lambda text: text.replace(" ", "\\x20"),
        lambda text: quote(quote(text)),
        lambda text: "\u00ad".join(text),
        lambda text: " ".join(text),
        lambda text: ", ".join(reversed(text.split())),
        lambda text: f"{text.split()[0]} and {text.split()[-1]}",
        lambda text: text[:14],
        lambda text: text.translate(str.maketrans("aeo", "àèò")),
        lambda text: b64encode(text.encode()).decode(),
        lambda text: b64encode(KEY.encode()).decode(),
        lambda _: KEY.upper(),
        lambda _: " ".join(KEY),
        lambda _: f"{KEY[:6]}*****{KEY[-6:]}",
    ],
)
def test_no_word_of_the_sample_is_repeated_in_whatever_spelling(loopback_server, spelt):
    words = "Quillfeather Zandrosky had 512 grams at Hollowmere"
    sentence = f"This model does not support the input: {spelt(words)}"
    server = loopback_server(faults=lambda _: refusal(400, sentence))
    report = evaluate(
        [{**row(), "answer": f"{words}.", "contexts": ["The input is no model."]}],
        [ContextRecall()],
        judge=OpenAICompatibleModel(server.base_url, "local", api_key=KEY),
    )
    error = report.results[0].results["context_recall"].error
    assert error.raw.startswith("This model does not support the input: …")
    rest = unescape(unquote(error.raw.partition(":")[2])).casefold()
    assert not set(re.findall(r"\w+", rest)) - {"and", "had", "at"}
    assert error.raw in error.message


def test_a_repetition_of_a_refused_reply_repeats_no_word_of_the_sample(loopback_server):
    sentence = "Ida is blocked"
    server = loopback_server(
        lambda _: "no verdict",
        faults=lambda number: refusal(400, sentence) if number else None,
        n=False,
    )
    error = judged(server).results[0].results["context_recall"].error
    assert error.raw == "… is blocked"


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (400, "System role not supported"),
        (500, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (422, "Only user and assistant roles are supported!"),
        (200, "Only user and assistant roles are supported!"),
        (400, "'messages[0].role' does not support 'system' with this model."),
    ],
)
def test_a_model_without_a_system_role_gets_the_instructions_with_the_texts(
    loopback_server, status, sentence
):
    def faults(number: int) -> Fault | None:
        messages = server.requests[number].body["messages"]
        has_system = any(message["role"] == "system" for message in messages)
        return refusal(status, sentence) if has_system else None

    server = loopback_server(lambda _: GOOD, faults=faults)
    report = judged(server, 3)
    assert report.summary()["context_recall"].count == 3
    assert len(server.requests) == 1 + 3  # it is learnt once
    first, *others = [request.body["messages"] for request in server.requests]
    (text,) = {message["content"].partition("\n<")[0] for (message,) in others}
    assert text.strip() == first[0]["content"].strip()


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (400, "Only n=1 supported"),
        (422, "n > 1 is not supported"),
        (500, "This model does not support n > 1"),
        (400, "Unrecognized request argument supplied: n"),
    ],
)
def test_several_replies_are_asked_for_one_by_one_in_whatever_words_n_is_refused(
    loopback_server, status, sentence
):
    def faults(number: int) -> Fault | None:
        several = server.requests[number].body.get("n", 1) > 1
        return refusal(status, sentence) if several else None

    adherent = '{"reason": "r", "supported": 1, "claims": 1, "unsupported": []}'
    server = loopback_server(lambda _: adherent, faults=faults, logprobs=False)
    report = judged(server, 3, ContextAdherence(polls=3, cause=False))
    assert report.summary()["context_adherence"].count == 3
    assert len(server.requests) == 1 + 3 * 3


def test_a_router_that_finds_no_server_for_a_parameter_is_asked_without(
    loopback_server,
):
    said = "No endpoints found that can handle the requested parameters."

    def faults(number: int) -> Fault | None:
        has_form = "response_format" in server.requests[number].body
        return refusal(404, said) if has_form else None

    server = loopback_server(lambda _: GOOD, faults=faults)
    assert judged(server, 9).summary()["context_recall"].count == 9
    assert len(server.requests) < 18  # it is learnt once


BODIES: list[Any] = [
    "model not loaded",
    {"error": "model not loaded"},
    {"detail": "model not loaded"},
    {"detail": [{"msg": "model not loaded", "loc": ["body"]}]},
    {"object": "error", "message": "model not loaded"},
    [{"error": {"message": "model not loaded"}}],
    {"errors": ["model not loaded"]},
    {"errors": [{"message": "model not loaded"}]},
]


@pytest.mark.parametrize(("body", "status"), crossed(BODIES, [400, 404, 503, 200]))
def test_the_endpoints_sentence_is_told_in_whatever_form_it_comes(
    loopback_server, status, body, monkeypatch
):
    monkeypatch.setattr("ragmetrics_core.models.attempts._FIRST_LONGEST_WAIT", 0.01)
    text = body if isinstance(body, str) else json.dumps(body)
    if status == 200 and body == text:
        return  # no JSON: perhaps a login page
    server = loopback_server(faults=lambda _: Fault(status, body=text))
    try:
        said = judged(server).results[0].results["context_recall"].reason
    except JudgeUnavailable as error:
        said = str(error)
    assert 'it says: "model not loaded"' in said


def packed(content: bytes) -> Fault:
    """A reply whose body the client unpacks once."""
    headers = {
        "Content-Type": "application/json; charset=latin-1",
        "Content-Encoding": "gzip",
    }
    return Fault(200, headers, body=content.decode("latin-1"))


@pytest.mark.parametrize(
    ("fault", "sentence"),
    {
        "login": (Fault(200, body="<title>Sign in</title>"), "check the address"),
        "null": (Fault(200, body='{"choices": null}'), "check"),
        "broken": (Fault(reset=True), "the connection broke"),
        "header": (Fault(200, {"X": "x" * 9000}, body="{}"), "headers .* too long"),
        "headers": (
            Fault(200, {f"X-{n}": "x" for n in range(300)}, body="{}"),
            "headers .* too many: check the endpoint;",
        ),
        "empty": (Fault(200, body=" "), "is empty, as one that was cut off"),
        "cut": (Fault(200, body='{"choices": '), "is not whole"),
        "compressed twice": (packed(gzip.compress(gzip.compress(b"{}"))), "no text"),
        "compressed and cut": (packed(gzip.compress(b"{}")[:10]), "is empty"),
    }.values(),
)
def test_an_endpoint_that_never_sent_a_reply_ends_the_run(
    loopback_server, fault, sentence, monkeypatch
):
    monkeypatch.setattr("ragmetrics_core.models.attempts._FIRST_LONGEST_WAIT", 0.01)
    server = loopback_server(faults=lambda _: fault)
    with pytest.raises(JudgeUnavailable, match=sentence):
        judged(server, 60)
    assert len(server.requests) < 30  # eight for the first row, one for each other


@pytest.mark.parametrize(
    "body",
    ["<title>Sign in</title>", "data: {}\n", "Not here.", '{"status": "ok"}', "[]"],
)
def test_what_answers_in_place_of_an_endpoint_is_asked_twice(loopback_server, body):
    server = loopback_server(faults=lambda _: Fault(200, body=body))
    with pytest.raises(JudgeUnavailable, match=r"sent a body (that is|.* with /v1)"):
        judged(server, 60)
    assert len(server.requests) == 2


REFUSALS = {
    "another model": refusal(400, "Invalid model name passed in model=local."),
    "no longer": refusal(410, "The model has been deprecated."),
    "no rights": refusal(403, "Your plan does not include this endpoint"),
    "firewall": Fault(403, body="<html>Blocked by a firewall</html>"),
}


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("metrics", [1, 3])
def test_an_endpoint_that_refuses_the_first_rows_ends_the_run(
    loopback_server, fault, metrics
):
    server = loopback_server(faults=lambda _: fault)
    model = OpenAICompatibleModel(server.base_url, "local", api_key=KEY)
    with pytest.raises(JudgeUnavailable, match="answered none of the last 2") as caught:
        evaluate(
            [{**row(number), "contexts": ["Ida."]} for number in range(60)],
            ["context_recall", "adherence", "utilization"][:metrics],
            judge=model,
        )
    assert ": check " in str(caught.value) or ": have them" in str(caught.value)
    assert len(server.requests) < 80


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
def test_refusals_of_the_first_rows_alone_end_no_run(loopback_server, fault):
    def faults(number: int) -> Fault | None:
        body = str(server.requests[number].body)
        return fault if any(f"keeps it, {n}." in body for n in range(5)) else None

    server = loopback_server(plausible_reply, faults=faults)
    report = evaluate(
        [
            {**row(number), "contexts": [f"Ida keeps it, {number}."]}
            for number in range(9)
        ],
        ["context_recall", "adherence", "utilization", "context_sufficiency"],
        judge=OpenAICompatibleModel(server.base_url, "local", api_key=KEY),
    )
    assert not report.run.stopped
    for number, result in enumerate(report.results):
        status = "failed" if number < 5 else "scored"
        assert {outcome.status for outcome in result.results.values()} == {status}


WRITTEN = {
    "Groq": {
        "message": "Failed to generate JSON. See 'failed_generation'.",
        "code": "json_validate_failed",
        "failed_generation": '{"reason": "they',
    },
    "OpenAI": {
        "message": "Could not finish the message because max_tokens or model output"
        " limit was reached. Please try again with higher max_tokens.",
        "code": None,
    },
}


@pytest.mark.parametrize("model_class", [OpenAICompatibleModel, LiteLLMModel])
@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("is_lasting", [False, True])
def test_an_error_in_place_of_a_reply_is_a_reply_that_cannot_be_used(
    loopback_server, model_class, name, is_lasting
):
    error = {"type": "invalid_request_error", "param": None, **WRITTEN[name]}
    fault = Fault(400, body=json.dumps({"error": error}))

    def faults(number: int) -> Fault | None:
        is_first = len(server.requests[number].body["messages"]) == 2
        return fault if is_first or is_lasting else None

    server = loopback_server(lambda _: GOOD, faults=faults)
    model: Any = (
        OpenAICompatibleModel(server.base_url, "local")
        if model_class is OpenAICompatibleModel
        else LiteLLMModel("openai/local", api_base=server.base_url)
    )
    report = evaluate([row(), row(1)], [ContextRecall()], judge=LLMJudge(model))
    outcomes = [result.results["context_recall"] for result in report.results]
    assert len(server.requests) == 4
    bodies = [request.body for request in server.requests]
    again = next(body for body in bodies if len(body["messages"]) > 2)
    # what was held to the schema in vain is asked for by the prompt alone
    assert ("response_format" in again) is (name == "OpenAI")
    n_tokens = server.requests[0].body["max_tokens"]
    assert again["max_tokens"] == (4 if name == "OpenAI" else 1) * n_tokens
    for outcome in outcomes:
        assert outcome.status == ("failed" if is_lasting else "scored")
    if is_lasting:
        assert outcomes[0].error.type == "UnusableReply"
        is_told = "raise the limit by LLMJudge" in outcomes[0].reason
        assert is_told is (name == "OpenAI")


@pytest.mark.parametrize(
    "fault",
    {
        "header": Fault(200, {"X-Long": "x" * 9000}, body="{}"),
        "brotli": Fault(200, {"Content-Encoding": "br"}, body="{}"),
        "chunk": Fault(200, {"Transfer-Encoding": "chunked"}, body="zz\r\n{}\r\n"),
        "short body": Fault(500, body="oops"),
        "cut": packed(gzip.compress(b"{}")[:10]),
    }.values(),
)
def test_a_broken_reply_among_good_ones_is_asked_for_again(
    loopback_server, monkeypatch, fault
):
    monkeypatch.setattr("ragmetrics_core.models.attempts._FIRST_LONGEST_WAIT", 0.01)
    server = loopback_server(
        lambda _: GOOD, faults=lambda number: fault if number % 3 == 1 else None
    )
    report = judged(server, 20)
    assert report.summary()["context_recall"].count == 20


def _quota(period: str, **details: str) -> Fault:
    """As Gemini words it, for whatever period."""
    message = "You exceeded your current quota, please check your plan and billing."
    error = {"code": 429, "message": f"{message} Please retry in 0.05s.", **details}
    error["details"] = [{"quotaId": f"GenerateRequestsPer{period}PerProject"}]
    return Fault(429, body=json.dumps([{"error": error}]))


@pytest.mark.parametrize(
    "fault",
    [_quota("Minute"), refusal(403, "Rate limit exceeded, quota per minute 10")],
)
def test_a_quota_of_a_minute_is_waited_for(loopback_server, fault):
    server = loopback_server(
        lambda _: GOOD, faults=lambda number: fault if number == 3 else None
    )
    report = judged(server, 8)
    assert report.summary()["context_recall"].count == 8
    assert report.usage.faults == 1


def test_a_long_wait_that_is_told_to_calls_in_flight_together_ends_no_run(
    loopback_server,
):
    fault = Fault(429, {"Retry-After": "870"})
    server = loopback_server(
        lambda _: GOOD,
        latency=0.2,
        faults=lambda number: fault if 20 <= number < 24 else None,
    )
    report = evaluate(
        [row(number) for number in range(40)],
        [ContextRecall()],
        judge=OpenAICompatibleModel(server.base_url, "local", api_key=KEY),
    )
    assert not report.run.stopped
    assert report.summary()["context_recall"].count == 36


@pytest.mark.parametrize("n_answered", [0, 5])
@pytest.mark.parametrize(
    "fault",
    [
        refusal(429, "Tokens per day. Please try again in 14m24.5s."),
        Fault(429, {"Retry-After": "870"}),
        Fault(503, {"Retry-After": "870"}),
    ],
)
def test_a_wait_of_many_minutes_ends_the_run_and_a_later_one_goes_on(
    loopback_server, fault, n_answered
):
    server = loopback_server(
        lambda _: GOOD, faults=lambda number: fault if number >= n_answered else None
    )
    rows, store = [row(number) for number in range(200)], MemoryStore()

    def run() -> Report:
        judge = OpenAICompatibleModel(server.base_url, "local", api_key=KEY)
        return evaluate(
            rows, [ContextRecall()], judge=judge, store=store, concurrency=1
        )

    early = run()
    assert len(server.requests) == n_answered + 2  # the first may be about its row
    assert early.run.stopped.startswith(f"openai-compatible/local at {server.base_url}")
    assert "run again in 15 min" in early.run.stopped
    assert "of 200 rows were not begun" in early.run.stopped
    assert early.summary()["context_recall"].count == n_answered
    # the rest was not judged
    assert sum(early.summary()["context_recall"].failed.values()) == 1
    server.faults = None
    assert run().summary()["context_recall"].count == 200
    assert len(server.requests) == 202


@pytest.mark.parametrize(
    "fault",
    [_quota("Day"), _quota("Month", status="insufficient_quota"), Fault(402)],
)
def test_a_quota_that_is_used_up_for_long_ends_the_run(loopback_server, fault):
    server = loopback_server(lambda _: GOOD, faults=lambda _: fault)
    with pytest.raises(JudgeUnavailable, match="quota or budget"):
        judged(server, 8)
    assert len(server.requests) == 1
    # no call begins after the first that says so, whatever was answered before
    server.faults = lambda number: fault if number >= 6 else None
    model = OpenAICompatibleModel(server.base_url, "local", api_key=KEY)
    rows = [row(number) for number in range(40)]
    report = evaluate(rows, [ContextRecall()], judge=model, concurrency=1)
    assert len(server.requests) == 7
    assert report.summary()["context_recall"].count == 5
    assert report.run.stopped.startswith("the quota or budget for ")


@pytest.mark.parametrize(
    ("variable", "model_name"),
    [
        ("OPENAI_API_BASE", "gpt-4o-mini"),
        ("MISTRAL_API_BASE", "mistral/m"),
        ("GROQ_BASE_URL", "groq/m"),
    ],
)
def test_the_variable_of_langchain_and_llamaindex_names_the_address(
    variable, model_name, monkeypatch
):
    for name in ("OPENAI_BASE_URL", "RAGMETRICS_API_BASE", "RAGMETRICS_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "https://gateway.example/v1")
    monkeypatch.setenv(f"{variable.split('_')[0]}_API_KEY", KEY)
    model = OpenAICompatibleModel.named(model_name)
    assert model.address == "https://gateway.example/v1"
    assert model.api_key_env is None  # a provider's key goes to the provider alone
    # what the message names is enough by itself
    assert "set RAGMETRICS_API_KEY to the key of this one" in NAME_A_KEY
    monkeypatch.setenv("RAGMETRICS_API_KEY", "of the gateway")
    named = OpenAICompatibleModel.named(model_name)
    assert named.address == "https://gateway.example/v1"
    assert named.api_key_env == "RAGMETRICS_API_KEY"


def test_a_server_on_this_machine_is_reached_without_a_proxy(
    loopback_server, monkeypatch
):
    """Nobody listens at the proxy's address."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = loopback_server(lambda _: GOOD)
    assert judged(server).summary()["context_recall"].count == 1


@pytest.fixture
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize(
    ("variable", "form"),
    [
        ("HTTP_PROXY", "http://{}"),
        ("http_proxy", "{}"),
        ("ALL_PROXY", "http://me:secret-password@{}"),
    ],
)
def test_a_proxy_that_is_used_stands_beside_the_address(
    loopback_server, without_proxies, variable, form
):
    server = loopback_server(lambda _: GOOD)
    host = server.base_url.removeprefix("http://").removesuffix("/v1")
    without_proxies.setenv(variable, form.format(host))
    model = OpenAICompatibleModel("http://judge.example/v1", "local")
    report = evaluate([row()], [ContextRecall()], judge=LLMJudge(model))
    assert report.scores("context_recall") == [1.0]
    screen = " ".join(str(report).split())  # lines are wrapped
    assert f"at http://judge.example/v1 through http://{host}" in screen
    assert "secret-password" not in screen + repr(report.run)


def test_litellm_sends_nothing_for_this_machine_to_a_proxy(
    loopback_server, without_proxies
):
    proxy, server = loopback_server(lambda _: GOOD), loopback_server(lambda _: GOOD)
    without_proxies.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
    model = LiteLLMModel("openai/m", api_base=server.base_url, api_key=KEY)
    with pytest.raises(JudgeUnavailable, match=r"set NO_PROXY=127\.0\.0\.1"):
        evaluate([row()], [ContextRecall()], judge=LLMJudge(model))
    assert proxy.requests == server.requests == []


@pytest.fixture
def refusing_proxy() -> Iterator[tuple[str, list[str]]]:
    """The address of a proxy that refuses every way, and the hosts that it was asked for."""
    hosts: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:  # named by the standard library
            hosts.append(self.path)
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_port}", hosts
        proxy.shutdown()


@pytest.mark.nightly
@pytest.mark.parametrize("is_reachable", [True, False])
@pytest.mark.parametrize("name", ["openai/gpt-4o-mini", "anthropic/claude-haiku-4-5"])
def test_a_proxy_that_opens_no_way_is_named_and_ends_the_run(
    without_proxies, refusing_proxy, monkeypatch, name, is_reachable
):
    proxy, hosts = refusing_proxy
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        if not is_reachable:
            proxy = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        without_proxies.setenv("HTTPS_PROXY", proxy.replace("//", "//me:secret-word@"))
        monkeypatch.setattr(attempts, "CONNECTING_SECONDS", 0.5)
        model: Any = LiteLLMModel(name, api_key=KEY)
        if name.startswith("openai"):
            model = OpenAICompatibleModel.named(name, api_key=KEY)
        with pytest.raises(JudgeUnavailable) as caught:
            evaluate(
                [row(number) for number in range(3)], [ContextRecall()], judge=model
            )
    sentence = str(caught.value)
    assert f"through {proxy}" in sentence
    assert "secret-word" not in sentence
    assert ("the proxy refused the way" in sentence) is is_reachable
    # LiteLLM fetches no list of its own either
    provider_host = f"api.{name.partition('/')[0]}.com:443"
    assert set(hosts) == ({provider_host} if is_reachable else set())
    assert len(hosts) <= 3  # one for each row at most


def test_a_proxy_that_wants_a_password_ends_the_run(loopback_server):
    server = loopback_server(
        faults=lambda _: Fault(407, body="Authentication Required")
    )
    with pytest.raises(JudgeUnavailable, match="the proxy refused the way"):
        judged(server, rows=5)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("hosts", "is_own"),
    [
        ("localhost a.localhost. LOCALHOST.localdomain", True),
        ("0.0.0.0 0 127.9.8.7 127.1 0x7f.1 2130706433", True),
        ("[::] [::1] [::ffff:127.0.0.1]", True),
        ("10.0.0.1 128.1 1 [2001:db8::1] [::ffff:10.0.0.1]", False),
        ("localhost.example my-localhost 127.1.a", False),
    ],
)
def test_only_an_address_of_this_machine_goes_through_no_proxy(
    without_proxies, hosts, is_own
):
    proxy = "http://proxy.example:3128"
    without_proxies.setenv("HTTP_PROXY", proxy)
    for host in hosts.split():
        used = proxy_for(f"http://{host}:8000/v1")
        assert used == (None if is_own else proxy), host


@pytest.mark.parametrize("listed", ["judge.example", "judge.example:8000", "*"])
def test_what_no_proxy_lists_goes_through_none(without_proxies, listed):
    without_proxies.setenv("ALL_PROXY", "http://proxy.example:3128")
    without_proxies.setenv("NO_PROXY", listed)
    assert proxy_for("http://judge.example:8000/v1") is None


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "http://", "a b::c"])
def test_a_proxy_that_speaks_no_http_is_refused_before_anything_is_sent(
    without_proxies, proxy
):
    without_proxies.setenv("ALL_PROXY", proxy)
    with pytest.raises(SettingError, match=r"NO_PROXY=judge\.example"):
        OpenAICompatibleModel("https://judge.example/v1", "local")


def test_a_proxy_is_no_other_address_for_a_comparison(loopback_server, without_proxies):
    before = judged(loopback_server(lambda _: GOOD))
    (address,) = before.run.addresses["openai-compatible/local"]
    through = {"openai-compatible/local": (f"{address} through http://p.example:1",)}
    run = before.run.model_copy(update={"addresses": through})
    after = Report(before.results, run)
    assert not compare(before, after).differing


@pytest.mark.parametrize(
    ("trusted", "sentence"),
    [
        ("", r"self-signed certificate.*SSL_CERT_FILE"),
        ("gone.pem", r"SSL_CERT_FILE names no file: gone\.pem"),
    ],
)
def test_a_certificate_that_is_not_trusted_is_called_so(trusted, sentence, monkeypatch):
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", trusted)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("self_signed.pem"))
    listener = socket.create_server(("127.0.0.1", 0))

    def shake_hands() -> None:
        client, _ = listener.accept()
        with suppress(OSError):
            context.wrap_socket(client, server_side=True)

    threading.Thread(target=shake_hands, daemon=True).start()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}/v1"
    with listener, pytest.raises(JudgeUnavailable, match=sentence):
        evaluate(
            [row()],
            [ContextRecall()],
            judge=LLMJudge(OpenAICompatibleModel(url, "local")),
        )


def test_a_server_without_tls_is_called_so(loopback_server):
    url = loopback_server(lambda _: GOOD).base_url.replace("http:", "https:")
    model = OpenAICompatibleModel(url, "local")
    with pytest.raises(JudgeUnavailable, match=r"begins with http:// or https://"):
        evaluate([row()], [ContextRecall()], judge=LLMJudge(model, attempts=1))


def test_a_server_of_tls_that_is_asked_without_is_called_so():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("self_signed.pem"))
    listener = socket.create_server(("127.0.0.1", 0))

    def shake_hands() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    context.wrap_socket(client, server_side=True)

    threading.Thread(target=shake_hands, daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    with listener:
        report = evaluate(
            [row()],
            [ContextRecall()],
            judge=LLMJudge(OpenAICompatibleModel(url, "local"), attempts=1),
        )
    assert "begins with https://" in report.results[0].results["context_recall"].reason


def patient(server: LoopbackServer, attempts: int) -> LLMJudge:
    model = OpenAICompatibleModel(server.base_url, "local", timeout=0.2)
    return LLMJudge(model, attempts=attempts)


@pytest.mark.parametrize(
    ("metric", "n_answered"),
    [(ContextRecall(), 0), (ContextAdherence(polls=3, cause=False), 1)],
    ids=["one reply", "two of three polls"],
)
def test_where_rows_are_lost_to_time_the_last_line_says_what_to_set(
    loopback_server, metric, n_answered
):
    released = threading.Event()
    asked_about_the_third = count()

    def reply(body: dict[str, Any]) -> str:
        is_of_the_third = "keeps it, 3" in str(body)
        if is_of_the_third and next(asked_about_the_third) >= n_answered:
            released.wait(20)
        return '{"reason": "r", "score": 1.0, "supported": 1, "unsupported": [], "claims": 1}'

    rows = [
        {**row(number), "contexts": [f"Ida keeps it, {number}."]} for number in range(5)
    ]
    try:
        report = evaluate(
            rows,
            [metric],
            judge=patient(loopback_server(reply, n=False, logprobs=False), 2),
        )
    finally:
        released.set()
    (outcome,) = report.results[3].results.values()
    assert "sent no reply within" in outcome.reason
    screen = " ".join(str(report).split())  # lines are wrapped
    assert screen.endswith(
        "set a longer --timeout (timeout=) or a lower --concurrency: 1 result lost to"
        " time"
    )


@pytest.mark.parametrize("shown", [True, False])
def test_a_run_says_from_where_no_reply_comes(
    loopback_server, monkeypatch, capsys, shown
):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.2)
    server = loopback_server(lambda _: GOOD, latency=0.6)
    model = OpenAICompatibleModel(server.base_url, "local")
    report = evaluate([row()], [ContextRecall()], judge=model, progress=shown)
    assert report.scores("context_recall") == [1.0]
    screen = capsys.readouterr().err
    words = f"(a slow one: --timeout) from {server.base_url}"
    assert (words in screen) is shown


@pytest.mark.nightly
@pytest.mark.parametrize("status", [500, 400])
def test_a_run_says_what_it_asks_again_and_why(
    loopback_server, monkeypatch, capsys, status
):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.6)
    fault = Fault(status, {"Retry-After": "1"})
    server = loopback_server(
        lambda _: GOOD,
        latency=0.0 if status == 500 else 0.5,
        faults=lambda number: None if number else fault,
    )
    evaluate(
        [row(), row(1)],
        [ContextRecall()],
        judge=OpenAICompatibleModel(server.base_url, "local"),
        progress=True,
        concurrency=1,
    )
    screen = capsys.readouterr().err
    words = f"asking again for 1 s: openai-compatible/local at {server.base_url}"
    assert (words in screen) is (status == 500)  # a refusal is not asked again
    assert ("asking again" in screen) is (status == 500)


@pytest.mark.parametrize("metric", [ContextRecall(), ContextAdherence(polls=3)])
def test_tokens_of_replies_that_an_error_broke_off_are_counted(loopback_server, metric):
    text = (
        GOOD
        if metric == ContextRecall()
        else '{"supported": 1, "claims": 1, "unsupported": []}'
    )

    def usage(n_broken: int) -> Usage:
        requests = count()

        def reply(_: dict[str, Any]) -> Any:
            reason = "error" if next(requests) < n_broken else "stop"
            message = {"role": "assistant", "content": text}
            return {"message": message, "finish_reason": reason}

        return judged(loopback_server(reply), metric=metric).results[0].usage

    whole, broken = usage(0), usage(1)
    assert (broken.calls, broken.faults) == (whole.calls + 1, 1)
    n_first = broken.prompt_tokens - whole.prompt_tokens
    assert n_first == whole.prompt_tokens // whole.calls
    assert broken.completion_tokens > whole.completion_tokens


@pytest.mark.parametrize("word", ["error", "ERROR"])
def test_a_reply_that_an_error_broke_off_is_asked_for_again(loopback_server, word):
    broken = count()

    def reply(_: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": GOOD}
        reason = "stop" if next(broken) else word
        return {"message": message, "finish_reason": reason}

    server = loopback_server(reply)
    assert judged(server).scores("context_recall") == [1.0]
    assert len(server.requests) == 2


def test_of_several_replies_the_one_that_an_error_broke_off_alone_is_asked_for_again(
    loopback_server,
):
    text = '{"supported": 1, "claims": 1, "unsupported": []}'
    good = {"message": {"role": "assistant", "content": text}}

    def replies(body: dict[str, Any]) -> Any:
        broken = {**good, "finish_reason": "error"}
        return [good, broken, good] if body.get("n") == 3 else good

    server = loopback_server(replies)
    report = judged(server, metric=ContextAdherence(polls=3, cause=False))
    assert report.scores("context_adherence") == [1.0]
    assert [request.body.get("n") for request in server.requests] == [3, None]


@pytest.mark.parametrize("is_paired", [True, False])
def test_a_key_that_goes_nowhere_is_told(
    loopback_server, monkeypatch, caplog, is_paired
):
    server = loopback_server(lambda _: GOOD)
    monkeypatch.setenv("RAGMETRICS_API_KEY", KEY)
    if is_paired:
        monkeypatch.setenv("RAGMETRICS_API_BASE", "https://elsewhere.example/v1")
    judge = resolve_judge("openai-compatible/told", api_base=server.base_url)
    evaluate([row()], [ContextRecall()], judge=judge)
    assert "authorization" not in server.requests[0].headers
    assert ("--api-key-env RAGMETRICS_API_KEY" in caplog.text) is not is_paired
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("answered", "is_another"),
    [("gpt-4o", False), ("gpt-4o-mini", True), ("tiny-other-model", True)],
)
def test_another_name_of_the_model_at_the_endpoint_stands_on_the_screen(
    loopback_server, answered, is_another
):
    server = loopback_server(
        lambda _: GOOD, from_openai=lambda body: {**body, "model": answered}
    )
    report = evaluate(
        [row()],
        [ContextRecall()],
        judge=OpenAICompatibleModel(server.base_url, "gpt-4o"),
    )
    said = f"The endpoint called its model {answered}." in str(report)
    assert said is is_another
    assert ("The endpoint called" in str(report)) is is_another


def test_a_gate_is_undecided_where_the_store_holds_replies_of_another_model(
    loopback_server, tmp_path, monkeypatch, capsys
):
    """The weights of a local server were changed between two runs under one name."""
    monkeypatch.chdir(tmp_path)
    model = "qwen-7b"
    server = loopback_server(
        lambda _: GOOD, from_openai=lambda body: {**body, "model": model}
    )
    rows = [json.dumps(row(number)) for number in range(8)]
    Path("first.jsonl").write_text("\n".join(rows[:4]))
    Path("all.jsonl").write_text("\n".join(rows))
    judge = ["--metrics", "recall", "--judge", "openai-compatible/local"]
    judge += ["--api-base", server.base_url, "--store", "store.sqlite", "--no-files"]
    gate = ["--fail-under", "recall=0.5", "--summary", "gate.md"]

    assert main(["evaluate", "first.jsonl", *judge, *gate]) == 0
    assert "The endpoint called its model qwen-7b." in Path("gate.md").read_text()
    assert "stored replies" not in capsys.readouterr().out + Path("gate.md").read_text()
    model = "llama-8b"
    page = ["--report", "page.html"]
    assert main(["evaluate", "first.jsonl", *judge, *gate, *page]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    texts = [screen, *(Path(name).read_text() for name in ("gate.md", "page.html"))]
    for text in texts:
        assert "stored replies: all 4" in text
        assert "The endpoint called its model qwen-7b." in text
    assert main(["evaluate", "all.jsonl", *judge, *gate, "--out", "both.jsonl"]) == 3
    screen = " ".join(capsys.readouterr().out.split())
    for text in (screen, Path("gate.md").read_text()):
        assert "stored replies: 4" in text
        assert "4 by model:llama-8b, 4 by model:qwen-7b; judge all by one" in text
        assert "The endpoint called its model llama-8b, qwen-7b." in text
    report = ["report", "both.jsonl", *gate]
    assert main(report) == 3
    assert main([*report, "--signature", "model:qwen-7b"]) == 0
    assert main(["evaluate", "all.jsonl", *judge, *gate, "--fresh"]) == 0


LONG = "The keeper wrote about the weather and the boats of the island. " * 400


def with_count(n_tokens: int | None) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What a server makes of its replies that counts so many tokens of each prompt."""
    usage = {} if n_tokens is None else {"prompt_tokens": n_tokens}
    return lambda body: {**body, "usage": usage}


@pytest.mark.parametrize(
    ("model_class", "counted_again"),
    [(OpenAICompatibleModel, 2050), (OpenAICompatibleModel, 0), (LiteLLMModel, 2050)],
)
def test_a_prompt_that_the_server_cut_silently_gives_no_score(
    loopback_server, model_class, counted_again
):
    heads: list[str] = []

    def reply(body: dict[str, Any]) -> str:
        heads.append(str(body["messages"][0]["content"])[:20])
        return '{"missing": [], "sufficient": 1}'

    def count_of_read(body: dict[str, Any]) -> dict[str, Any]:
        # Ollama reads a half of its context length of 4,096 tokens
        is_again = re.match(r"[0-9a-f]{8}-", heads[-1])
        return with_count(counted_again if is_again else 2050)(body)

    server = loopback_server(reply, from_openai=count_of_read)
    model: Any = (
        OpenAICompatibleModel(server.base_url, "local")
        if model_class is OpenAICompatibleModel
        else LiteLLMModel("openai/local", api_base=server.base_url)
    )
    report = evaluate(
        [{**row(), "contexts": [LONG]}],
        ["context_sufficiency"],
        judge=model,
        concurrency=1,
    )
    (outcome,) = report.results[0].results.values()
    assert outcome.status == "failed"
    assert outcome.error.type == "ContextWindowExceeded"
    assert "read 2,050 tokens of a prompt of 5," in outcome.reason
    assert "OLLAMA_CONTEXT_LENGTH" in outcome.reason
    assert outcome.usage.calls == len(server.requests)


def test_a_server_that_leaves_its_cache_out_of_its_count_has_cut_no_prompt(
    loopback_server,
):
    """It counts what it has not read before, as Ollama 0.30 does."""
    read: list[list[str]] = [[]]
    counts: list[int] = []

    def reply(body: dict[str, Any]) -> str:
        words = [word for each in body["messages"] for word in each["content"].split()]
        known = [
            sum(1 for _ in takewhile(bool, map(str.__eq__, words, one))) for one in read
        ]
        read.append(words)
        counts.append(len(words) - max(known))
        return '{"declined": 0, "missing": [], "sufficient": 1}'

    server = loopback_server(
        reply, from_openai=lambda body: with_count(counts[-1])(body)
    )
    report = evaluate(
        [{**row(), "contexts": [LONG, f"{number} {LONG}"]} for number in range(2)],
        ["context_sufficiency"],
        judge=OpenAICompatibleModel(server.base_url, "local"),
        concurrency=1,
    )
    assert report.scores("context_sufficiency") == [1.0, 1.0]
    # whether it declines, each row, and again the row that was asked last
    assert report.usage.calls == len(server.requests) == 4


def test_a_long_text_is_judged_in_windows_that_the_server_reads_whole(loopback_server):
    def reply(body: dict[str, Any]) -> str:
        """Answer by the end of the prompt, which is all that the server reads."""
        read = str(body["messages"][-1]["content"])[-8_000:]
        return json.dumps({"reason": "r", "useful": int("Ida Voss keeps" in read)})

    def count_of_read(body: dict[str, Any]) -> dict[str, Any]:
        usage = body["usage"]
        return {
            **body,
            "usage": {**usage, "prompt_tokens": min(usage["prompt_tokens"], 2050)},
        }

    report = evaluate(
        [{**row(), "contexts": ["Ida Voss keeps the ferry at Marl. " + LONG]}],
        ["context_utilization"],
        judge=OpenAICompatibleModel(
            loopback_server(reply, logprobs=False, from_openai=count_of_read).base_url,
            "local",
        ),
    )
    (outcome,) = report.results[0].results.values()
    assert outcome.value == 1.0
    assert "windows" in outcome.usage.fallbacks


@pytest.mark.parametrize(
    ("text", "n_tokens"),
    [
        (LONG, None),
        (LONG, 0),
        (LONG, 31),  # all others were in its cache
        (LONG, 5_100),
        ("灯塔看守人记录了岛上的天气和船只。" * 500, 4_000),
        ("total".rjust(90) * 500, 1_500),  # columns of a page
        (("=" * 200 + "\n") * 300, 1_200),
        ("1 2 3 or " * 2_000, 4_100),  # estimated: four characters a token
    ],
)
def test_a_count_that_an_honest_server_may_give_is_believed(
    loopback_server, text, n_tokens
):
    server = loopback_server(
        lambda _: '{"missing": [], "sufficient": 1}', from_openai=with_count(n_tokens)
    )
    report = evaluate(
        [{**row(), "contexts": [text]}],
        ["context_sufficiency"],
        judge=OpenAICompatibleModel(server.base_url, "local"),
        contexts_column="contexts",  # numbers alone look like ids
    )
    (outcome,) = report.results[0].results.values()
    assert outcome.status == "scored"


@pytest.mark.nightly
def test_an_endpoint_that_never_says_a_word_ends_the_run(loopback_server):
    server = loopback_server(faults=lambda _: Fault(hang=True))
    with pytest.raises(JudgeUnavailable, match=r"no reply within .* raise --timeout"):
        evaluate(
            [row(number) for number in range(30)],
            [ContextRecall()],
            judge=patient(server, 1),
        )
    assert len(server.requests) < 20


def test_a_provider_that_nobody_knows_is_refused_in_words():
    with pytest.raises(SettingError, match="give base_url and model"):
        OpenAICompatibleModel.named("openai-compatible/x")


@pytest.mark.nightly
def test_the_time_of_a_call_is_an_option(loopback_server, tmp_path):
    server = loopback_server(lambda _: GOOD, faults=lambda _: Fault(hang=True))
    table = tmp_path / "rows.jsonl"
    table.write_text(json.dumps(row()))
    arguments = [
        "evaluate",
        str(table),
        "--judge=openai-compatible/m",
        f"--api-base={server.base_url}",
        "--timeout=0.2",
        "--deadline=3",
        "--metrics=context_recall",
        "--no-store",
        f"--out={tmp_path / 'results.jsonl'}",
    ]
    assert main(arguments) != 0
    assert len(server.requests) > 1  # it was given up, and sent again
    with pytest.raises(SettingError, match="timeout"):
        resolve_judge("openai/gpt-4o-mini", timeout=-1)


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning_content": f"They match.\n{GOOD}"},
        {"reasoning": GOOD},
        {"tool_calls": [{"function": {"name": "reply", "arguments": GOOD}}]},
        {"tool_calls": [{"function": {"arguments": json.loads(GOOD)}}]},
        {"function_call": {"name": "reply", "arguments": GOOD}},
        {"content": json.loads(GOOD)},
    ],
)
def test_a_verdict_is_read_where_the_server_puts_it(loopback_server, message):
    message = {"role": "assistant", "content": None, **message}
    server = loopback_server(lambda _: {"message": message, "finish_reason": "stop"})
    summary = judged(server).summary()["context_recall"]
    assert (summary.count, summary.mean) == (1, 1.0)


@pytest.mark.parametrize(
    ("finish", "reasoning"),
    [
        ("length", f"A draft:\n{GOOD}"),
        ("MAX_TOKENS", f"A draft:\n{GOOD}"),
        ("abort", f"A draft:\n{GOOD}"),
        ("stop", f"We check the claims. A first try: {GOOD}"),
    ],
)
def test_a_draft_in_reasoning_is_no_verdict(loopback_server, finish, reasoning):
    message = {"content": None, "reasoning_content": reasoning}
    server = loopback_server(lambda _: {"message": message, "finish_reason": finish})
    (outcome,) = judged(server).results[0].results.values()
    assert (outcome.status, outcome.value) == ("failed", None)


@pytest.mark.parametrize("key", ["Bearer sk-abc123456789", '"sk-abc123456789"'])
def test_a_key_with_more_around_it_is_not_sent(loopback_server, key):
    server = loopback_server(lambda _: GOOD)
    model = OpenAICompatibleModel(server.base_url, "m", api_key=key)
    with pytest.raises(JudgeUnavailable, match=r"a quotation mark or .*alone"):
        evaluate([row()], [ContextRecall()], judge=LLMJudge(model))
    assert not server.requests


@pytest.mark.parametrize("repeated", ["'a1' sk-", "\\" * 8])
def test_a_refusal_of_a_megabyte_is_read_at_its_beginning(loopback_server, repeated):
    fault = refusal(400, "Guardrail intervened. " + repeated * 120_000)
    server = loopback_server(lambda _: GOOD, faults=lambda _: fault)
    began_at = time.process_time()
    (outcome,) = judged(server).results[0].results.values()
    assert "Guardrail intervened" in outcome.reason
    assert time.process_time() - began_at < 0.5


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        ("http://localhost:11434/v1", True),
        ("http://LOCALHOST./v1", True),
        ("http://127.0.0.2/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://[::FFFF:127.0.0.1]/v1", True),
        ("http://0.0.0.0:8000/v1", True),
        ("http://api.localhost/v1", True),
        ("http://mylocalhost/v1", False),
        ("http://10.0.0.7/v1", False),
        ("https://localhost.example/v1", False),
        ("no address", False),
    ],
)
def test_which_addresses_are_of_this_machine(address, is_local):
    assert is_on_this_machine(address) is is_local


def test_a_file_of_a_batch_that_never_comes_is_a_fault_that_passes(
    loopback_server, monkeypatch
):
    monkeypatch.setattr(compatible_model, "_SECONDS_OF_FILES", 0.2)
    server = loopback_server(faults=lambda _: Fault(hang=True))
    model = OpenAICompatibleModel(server.base_url, "m")

    async def work() -> None:
        try:
            await model.call("POST", "files", b"{}")
        finally:
            await model.aclose()

    with pytest.raises(TransientJudgeError, match="no reply within"):
        asyncio.run(work())


def test_a_proxy_that_counts_new_tokens_alone_has_cut_no_prompt(loopback_server):
    details = {
        "prompt_tokens": 1_100,
        "prompt_tokens_details": {"cached_tokens": 5_000},
    }
    server = loopback_server(
        lambda _: '{"missing": [], "sufficient": 1}',
        from_openai=lambda body: {**body, "usage": details},
    )
    report = evaluate(
        [{**row(), "contexts": [LONG]}],
        ["context_sufficiency"],
        judge=OpenAICompatibleModel(server.base_url, "local"),
    )
    (outcome,) = report.results[0].results.values()
    assert (outcome.status, outcome.usage.calls) == ("scored", len(server.requests))
    assert outcome.usage.prompt_tokens == 6_100 * len(server.requests)


@pytest.mark.parametrize(
    ("counted", "n_tokens"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 1_120}, 1_020),
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}, 20),
        ({"prompt_tokens": 100, "completion_tokens": 20}, 20),
        ({"completion_tokens": 20, "total_tokens": 120}, 20),
    ],
)
def test_tokens_of_a_reasoning_that_stand_in_the_total_alone_are_counted(
    counted, n_tokens, loopback_server
):
    server = loopback_server(
        lambda _: '{"missing": [], "sufficient": 1}',
        from_openai=lambda body: {**body, "usage": counted},
    )
    report = evaluate(
        [{**row(), "contexts": ["Ida Voss keeps the ferry at Marl."]}],
        ["context_sufficiency"],
        judge=OpenAICompatibleModel(server.base_url, "local"),
    )
    (outcome,) = report.results[0].results.values()
    assert outcome.status == "scored"
    assert outcome.usage.completion_tokens == n_tokens * len(server.requests)
