"""The model on aiohttp: the contract of all chat models, its key, its connections, silence at the end."""

import asyncio
import json
import re
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from html import escape
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from string import ascii_letters, digits
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples
from loopback import Fault, LoopbackServer

from ragmetrics_core import (
    ContextAdherence,
    LiteLLMModel,
    LLMJudge,
    OpenAICompatibleModel,
    evaluate,
)
from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    ContentRefused,
    ContextWindowExceeded,
    JudgeError,
    JudgeUnavailable,
    MissingDependency,
    RateLimited,
    RequestRejected,
    SettingError,
    TransientJudgeError,
)
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.models.endpoint_errors import Fault as EndpointFault
from ragmetrics_core.models.endpoint_errors import error_of_client, judge_error
from ragmetrics_core.testing.chat_model_contract import PLAIN, ChatModelContract


class TestOpenAICompatible(ChatModelContract):
    def model(self, base_url: str, key: str, timeout: float) -> OpenAICompatibleModel:
        return OpenAICompatibleModel(base_url, "test", api_key=key, timeout=timeout)


def once(model: OpenAICompatibleModel) -> object:
    async def work() -> object:
        try:
            return await model.complete(PLAIN)
        finally:
            await model.aclose()

    return asyncio.run(work())


def test_the_key_comes_from_the_argument_or_the_variable_that_is_named(
    loopback_server, monkeypatch
):
    server = loopback_server()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    once(OpenAICompatibleModel(server.base_url, "test"))
    monkeypatch.setenv("RAGMETRICS_API_KEY", "from-variable")
    once(OpenAICompatibleModel(server.base_url, "test"))
    once(
        OpenAICompatibleModel(server.base_url, "test", api_key_env="RAGMETRICS_API_KEY")
    )
    once(OpenAICompatibleModel(server.base_url, "test", api_key="from-argument"))
    sent = [recorded.headers.get("authorization") for recorded in server.requests]
    assert sent == [None, None, "Bearer from-variable", "Bearer from-argument"]


def test_a_missing_key_names_its_variable(loopback_server, monkeypatch):
    monkeypatch.delenv("RAGMETRICS_API_KEY", raising=False)
    server = loopback_server(faults=lambda number: Fault(401))
    with pytest.raises(AuthenticationFailed, match="set RAGMETRICS_API_KEY"):
        once(
            OpenAICompatibleModel(
                server.base_url, "test", api_key_env="RAGMETRICS_API_KEY"
            )
        )
    with pytest.raises(
        AuthenticationFailed, match="set RAGMETRICS_API_KEY to the key of"
    ):
        once(OpenAICompatibleModel(server.base_url, "test"))
    with pytest.raises(AuthenticationFailed, match="check the key"):
        once(OpenAICompatibleModel(server.base_url, "test", api_key="wrong"))


def test_a_key_that_no_header_may_hold_is_said_to_be_wrong(loopback_server):
    server = loopback_server()
    once(OpenAICompatibleModel(server.base_url, "test", api_key="copied\n"))
    assert server.requests[0].headers["authorization"] == "Bearer copied"
    for key in ("two\nlines", "k\u00e9y"):
        with pytest.raises(AuthenticationFailed, match="copy it again") as caught:
            once(OpenAICompatibleModel(server.base_url, "test", api_key=key))
        assert key not in str(caught.value)


def in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def in_base64(key: str) -> str:
    """As the header of a user with a password holds it."""
    return b64encode(f"user:{key}".encode()).decode()


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "in capitals": str.upper,
    "in small letters": str.lower,
    "in the other case": str.swapcase,
    "in JSON": in_json,
    "in JSON twice": lambda key: in_json(in_json(key)),
    "in JSON's numbers": lambda key: "".join(f"\\u{ord(sign):04x}" for sign in key),
    "in Python": repr,
    "in an address": partial(quote, safe=""),
    "in an address twice": lambda key: quote(quote(key, safe=""), safe=""),
    "in HTML": escape,
    "in HTML's numbers": lambda key: "".join(f"&#{ord(sign)};" for sign in key),
    "in JSON in an address": lambda key: quote(in_json(key)),
    "in Base64": in_base64,
}


def of_error(status: int) -> Callable[[str], Fault]:
    return lambda said: Fault(status, body=json.dumps({"error": {"message": said}}))


# What an endpoint answers that says something; None for a good reply.
PLACES: dict[str, Callable[[str], Fault] | None] = {
    "401": of_error(401),
    "400": of_error(400),
    "500": of_error(500),
    "200": of_error(200),
    "code": lambda said: Fault(400, body=json.dumps({"error": {"code": said}})),
    "text": lambda said: Fault(400, body=said),
    "JSON cut off": lambda said: Fault(400, body=f'{{"error": "{in_json(said)}'),
    "header": lambda said: Fault(401, {"WWW-Authenticate": said}),
    "redirect": lambda said: Fault(307, {"Location": f"/{said}"}),
    "reason": None,
}
SIGNS = "".join(chr(number) for number in range(33, 127))


@st.composite
def keys(draw: st.DrawFn) -> tuple[str, str]:
    """A key, and the letters in it that nothing may show."""
    word = draw(st.text(ascii_letters + digits, min_size=12, max_size=24))
    before, after = (draw(st.text(SIGNS, max_size=6)) for _ in range(2))
    return f"p{before}{word}{after}", word


@pytest.mark.nightly
@given(keys(), st.sampled_from(list(SPELLINGS)), st.sampled_from(list(PLACES)))
@example(('p"w-7Hd82kLmQz41', "7Hd82kLmQz41"), "plain", "400")
@example(('p"w-7Hd82kLmQz41', "7Hd82kLmQz41"), "in JSON", "reason")
@example(("CORP\\nick-7Hd82kLmQz41", "7Hd82kLmQz41"), "in JSON twice", "400")
@example(("DOMAIN\\user7Hd82kLmQz41", "7Hd82kLmQz41"), "in JSON", "text")
@example(("geheim12", "geheim12"), "in capitals", "401")
@example(("p\\x41bcdefghijklm", "41bcdefghijklm"), "in the other case", "reason")
@example(("p&#000000000000", "000000000000"), "in an address", "reason")
@example(("sk-SEC/RET+KEY0123456789&abc", "KEY012345678"), "in HTML", "400")
@settings(max_examples=examples(50))
def test_no_spelling_of_the_key_is_told_or_kept(key_and_word, spelling, place):
    key, word = key_and_word
    said = SPELLINGS[spelling](key)
    fault = PLACES[place]
    reply = json.dumps(
        {
            "reason": f"It says {said}.",
            "supported": 1,
            "claims": 1,
            "unsupported": [],
        }
    )
    with (
        TemporaryDirectory() as folder,
        LoopbackServer(
            lambda _: reply, faults=lambda _: fault and fault(f"Bearer {said}")
        ) as server,
    ):
        model = OpenAICompatibleModel(server.base_url, "test", api_key=key)
        told = ""
        try:
            report = evaluate(
                [{"question": "q", "answer": "a", "contexts": ["c"]}],
                ["adherence"],
                judge=LLMJudge(model, attempts=1),
                store=Path(folder) / "store.sqlite",
                progress=False,
            )
        except JudgeError as error:
            told = f"{error} {error.raw}"
        else:
            outcome = report.results[0].results["context_adherence"]
            told = f"{outcome.reason} {outcome.model_dump_json()} {outcome!r}"
            assert (outcome.status == "scored") == (place == "reason"), outcome
        kept = b"".join(file.read_bytes() for file in Path(folder).iterdir())
    told += kept.decode(errors="replace")
    for secret in (key, word, in_json(key), in_base64(key)):
        assert secret.lower() not in told.lower()


@pytest.mark.parametrize(
    "part",
    ["eyJzdWIiOiIxMjM0NTY3ODkwIiw", "A1B2C3D4-5678", "QWxhZGRpbjpv"],
    ids=["token", "UUID in capitals", "Base64"],
)
def test_a_part_of_the_key_is_left_out(loopback_server, part):
    key = f"0x{part}-and/more==".replace("A1B2C3D4", "a1b2c3d4")
    server = loopback_server(faults=lambda _: of_error(400)(f"Bad {part[:14]} sent"))
    with pytest.raises(JudgeError) as caught:
        once(OpenAICompatibleModel(server.base_url, "test", api_key=key))
    assert caught.value.raw == "Bad … sent"


@pytest.mark.parametrize("key", ["abc", "EMPTY", "test", "none"])
def test_a_key_that_is_a_word_blanks_out_no_word(loopback_server, key):
    sentence = f"the test of abc found {key} and none"
    server = loopback_server(faults=lambda _: of_error(400)(sentence))
    with pytest.raises(JudgeError) as caught:
        once(OpenAICompatibleModel(server.base_url, "test", api_key=key))
    assert caught.value.raw == sentence


@pytest.mark.parametrize(
    "fault",
    [
        Fault(200, body="[" * 200_000),
        Fault(500, body="[" * 200_000),
        Fault(503, {"Retry-After": "Tue, 01 Jan 2030 00:00:07 +999999999999999"}),
    ],
    ids=["deep", "deep error", "date"],
)
def test_hostile_replies_are_typed_faults(loopback_server, fault):
    with pytest.raises(TransientJudgeError):
        once(
            OpenAICompatibleModel(
                loopback_server(faults=lambda _: fault).base_url, "test"
            )
        )


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (Fault(200, body='data: {"choices": []}\n\ndata: [DONE]\n'), "streamed"),
        (Fault(200, body="<html>Sign in</html>"), "check the address"),
        (Fault(200, body='{"choices": [{"mess'), "was cut off: run again"),
        (Fault(200, {"Set-Cookie": "x" * 70_000}), "too many: check the endpoint$"),
        (Fault(429, {"Retry-After": "3600"}), r"slow down \(HTTP 429.* in 60 min"),
        (Fault(429, {"Retry-After": "5"}), r"slow down \(HTTP 429.* later"),
        (Fault(403, body="<!DOCTYPE html>\n<p>Access denied</p>"), "let this address"),
        (Fault(403, body="<html>Blocked</html>"), "let this address"),
        (Fault(403, body='{"error": {"message": "no"}}'), "no key was given"),
        (
            Fault(403, body='{"error": {"message": "Country not supported"}}'),
            r"refused access \(HTTP 403\): check the key, its rights and the region",
        ),
        (
            Fault(403, body='{"error": {"message": "Invalid API key"}}'),
            "no key was given for",
        ),
        (
            Fault(404, body='{"error": {"message": "The model m does not exist"}}'),
            "there is no model",
        ),
        (
            Fault(404, body='{"error": {"message": "No way by your data policy"}}'),
            r"found no way to answer \(HTTP 404\): check",
        ),
        (
            Fault(
                403,
                body='{"error": {"code": 403, "message": "Moderation",'
                ' "metadata": {"reasons": ["violence"], "flagged_input": "x"}}}',
            ),
            "a content filter refused the request",
        ),
        (
            Fault(400, body='{"error": {"message": "x", "code": "invalid_prompt"}}'),
            "a content filter refused the request",
        ),
        (
            Fault(403, body='{"code": "x", "error": "It violates usage guidelines."}'),
            "a content filter refused the request",
        ),
    ],
)
def test_what_is_no_reply_of_an_endpoint_is_told_as_what_it_is(
    loopback_server, fault, advice
):
    server = loopback_server(faults=lambda _: fault)
    with pytest.raises(JudgeError, match=advice):
        once(OpenAICompatibleModel(server.base_url, "test"))


def test_an_end_of_no_known_form_is_another_end(loopback_server):
    server = loopback_server(
        reply=lambda _: {"message": {"content": "x"}, "finish_reason": ["stop"]}
    )
    reply = once(OpenAICompatibleModel(server.base_url, "test"))
    assert [choice.finish for choice in reply.choices] == ["other"]  # type: ignore[attr-defined]


def test_the_newer_name_of_the_limit_is_sent(loopback_server):
    """What OpenAI says for its reasoning models, and what it gets then."""
    said = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
        " 'max_completion_tokens' instead."
    )
    refusal = Fault(
        400,
        body=json.dumps({"error": {"message": said, "code": "unsupported_parameter"}}),
    )
    server = loopback_server(faults=lambda number: refusal if number == 0 else None)
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test"))
    outcome = ContextAdherence(polls=1).score(contexts=["c"], answer="c", judge=judge)
    assert outcome.status == "scored", outcome.reason
    first, second = (recorded.body for recorded in server.requests)
    assert (first["max_tokens"], second["max_completion_tokens"]) == (1024, 1024)
    assert "max_tokens" not in second


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens is too large: 1024. This model's maximum context length is 2048"
        " tokens and your request has 1500 input tokens (1024 > 2048 - 1500).",
        "This model's maximum context length is 2048 tokens. However, you requested 2524"
        " tokens (1500 in the messages, 1024 in the completion).",
        "`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1500 `inputs` tokens"
        " and 1024 `max_new_tokens`",
        "input length and `max_tokens` exceed context limit: 1500 + 1024 > 2048",
        "This endpoint's maximum context length is 2048 tokens. However, you requested"
        " about 2524 tokens (1500 of text input, 1024 in the output).",
        "Requested token count exceeds the model's maximum context length of 2048 tokens.",
    ],
)
def test_texts_that_leave_less_room_than_the_limit_are_judged(loopback_server, said):
    """Without the limit the reply takes the room that is left; other texts keep it."""
    refusal = Fault(400, body=json.dumps({"error": {"message": said}}))
    server = loopback_server(faults=lambda number: None if number % 2 else refusal)
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test"))
    for _ in range(2):
        outcome = ContextAdherence(polls=1).score(
            contexts=["c"], answer="c", judge=judge
        )
        assert outcome.status == "scored", outcome.reason
    limits = [recorded.body.get("max_tokens") for recorded in server.requests]
    assert limits == [1024, None, 1024, None]


def test_texts_that_are_too_long_without_a_limit_are_told_so(loopback_server):
    said = (
        "This model's maximum context length is 2048 tokens; lower max_tokens or them."
    )
    refusal = Fault(400, body=json.dumps({"error": {"message": said}}))
    server = loopback_server(faults=lambda number: refusal)
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test"))
    outcome = ContextAdherence(polls=1).score(contexts=["c"], answer="c", judge=judge)
    assert outcome.error.type == "ContextWindowExceeded"
    limits = [recorded.body.get("max_tokens") for recorded in server.requests]
    # of the verdict, and of the claims, whose prompt is longer
    assert limits == [1024, None, 1024]


@pytest.mark.parametrize(
    "said",
    [
        "parameter.enable_thinking必须设置为false才能进行非流式调用",
        "指定されたモデルは現在このリージョンではご利用いただけませんので確認してください",
        "요청하신모델은현재사용할수없습니다관리자에게문의하여주시기바랍니다",
    ],
)
def test_a_sentence_of_a_script_without_spaces_is_no_key(loopback_server, said):
    key = "sk-7Hd82kLmQz41aVw0Tr"
    refusal = Fault(
        400, body=json.dumps({"error": {"message": f"{said}：密钥{key}无效"}})
    )
    server = loopback_server(faults=lambda number: refusal)
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test"))
    outcome = ContextAdherence(polls=1).score(contexts=["c"], answer="c", judge=judge)
    assert said in outcome.reason
    assert key[3:] not in outcome.reason


def test_the_sentence_of_a_provider_behind_a_gateway_is_told_without_keys(
    loopback_server,
):
    raw = json.dumps({"error": {"message": "No images with sk-7Hd82kLmQz41aVw0Tr."}})
    error = {"message": "Provider returned error", "metadata": {"raw": raw}}
    refusal = Fault(400, body=json.dumps({"error": error}))
    server = loopback_server(faults=lambda number: refusal)
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test"))
    outcome = ContextAdherence(polls=1).score(contexts=["c"], answer="c", judge=judge)
    assert 'it says: "No images with …."' in outcome.reason


def test_stated_prices_give_the_cost(loopback_server):
    server = loopback_server()
    model = OpenAICompatibleModel(server.base_url, "test", prices=(1.0, 100.0))
    usage = once(model).usage  # type: ignore[attr-defined]
    assert usage.cost == usage.prompt_tokens + 100 * usage.completion_tokens
    assert once(OpenAICompatibleModel(server.base_url, "test")).usage.cost is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/v 1", "/v\\1", "/v\t1"])
def test_an_address_with_a_sign_that_clients_read_differently_is_refused(path):
    with pytest.raises(SettingError, match="holds whitespace, a control character"):
        OpenAICompatibleModel(f"http://127.0.0.1:9{path}", "x")


@pytest.mark.parametrize("variable", ["api_base=", "OPENAI_BASE_URL"])
def test_blanks_around_an_address_are_no_part_of_it(variable, monkeypatch):
    for name in ("RAGMETRICS_API_BASE", "RAGMETRICS_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_BASE", " ")  # as if it was not set
    assert named_openai().address == "https://api.openai.com/v1"
    address = " http://127.0.0.1:9/v1/ \n"
    api_base: str | None = None
    if variable == "api_base=":
        api_base = address
    else:
        monkeypatch.setenv(variable, address)
    assert named_openai(api_base).address == "http://127.0.0.1:9/v1"


def named_openai(api_base: str | None = None) -> OpenAICompatibleModel:
    judge = resolve_judge("gpt-4o-mini", api_base=api_base)
    assert isinstance(judge, LLMJudge)
    assert isinstance(judge.model, OpenAICompatibleModel)
    return judge.model


def test_a_variable_of_blanks_holds_no_key(monkeypatch):
    monkeypatch.setenv("MY_KEY", " \t")
    with pytest.raises(SettingError, match="is not set"):
        resolve_judge(
            "openai-compatible/m",
            api_base="http://127.0.0.1:9/v1",
            api_key_env="MY_KEY",
        )


def test_it_is_chosen_by_its_name(monkeypatch):
    monkeypatch.delenv("RAGMETRICS_API_BASE", raising=False)
    judge = resolve_judge(
        "openai-compatible/org/model:7b", api_base="http://127.0.0.1:9/v1/"
    )
    assert isinstance(judge, LLMJudge)
    assert isinstance(judge.model, OpenAICompatibleModel)
    assert (judge.name, judge.model.base_url) == (
        "openai-compatible/org/model:7b",
        "http://127.0.0.1:9/v1",
    )
    with pytest.raises(SettingError, match="--api-base"):
        resolve_judge("openai-compatible/x")
    with pytest.raises(SettingError, match="http://127"):
        OpenAICompatibleModel("127.0.0.1:9", "x")
    with pytest.raises(SettingError, match="OpenAICompatibleModel names no model"):
        OpenAICompatibleModel("http://127.0.0.1:9/v1", " ")


@pytest.mark.parametrize(
    "name",
    [
        "azure_ai/phi",
        "anthropic/claude",
        "custom_openai/m",
        "openai-compatible",
        "a-name-in-no-list",
    ],
)
@pytest.mark.parametrize("api_base", [None, "http://127.0.0.1:9/v1"])
def test_every_other_name_goes_through_litellm(name, api_base, monkeypatch):
    if find_spec("litellm") is None:
        pytest.skip("LiteLLM is not installed")
    monkeypatch.delenv("RAGMETRICS_API_BASE", raising=False)
    judge = resolve_judge(name, api_base=api_base)
    assert isinstance(judge, LLMJudge)
    assert isinstance(judge.model, LiteLLMModel)
    assert (judge.model.model, judge.model.api_base) == (name, api_base)


@pytest.mark.parametrize(
    "name", ["openai/gpt-4o-mini", "gpt-4o-mini", "openai/in-no-list", "openai/o3"]
)
@pytest.mark.parametrize("api_base", [None, "http://127.0.0.1:9/v1"])
def test_names_of_openai_go_through_our_client(name, api_base, monkeypatch):
    for variable in ("RAGMETRICS_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    judge = resolve_judge(name, api_base=api_base)
    assert isinstance(judge, LLMJudge)
    model = judge.model
    assert isinstance(model, OpenAICompatibleModel)
    assert (judge.name, model.model) == (name, name.removeprefix("openai/"))
    assert model.base_url == (api_base or "https://api.openai.com/v1")
    assert (model.prices() is None) == (name == "openai/in-no-list")
    known = api_base is None and name != "openai/in-no-list"
    assert model.capabilities().temperature is (
        not name.endswith("o3") if known else None
    )


@pytest.mark.parametrize(
    ("name", "address", "variable"),
    [
        ("groq/m", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        ("openrouter/a/m", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ("ollama/llama3.1:8b", "http://localhost:11434/v1", None),
        ("hosted_vllm/m", "http://localhost:8000/v1", None),
        ("azure/m", "https://mine.openai.azure.com/openai/v1", "AZURE_OPENAI_API_KEY"),
    ],
)
def test_providers_of_the_table_go_through_our_client(
    name, address, variable, monkeypatch
):
    for unset in ("RAGMETRICS_API_BASE", "OLLAMA_API_BASE", "HOSTED_VLLM_API_BASE"):
        monkeypatch.delenv(unset, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/")
    model = resolve_judge(name).models[0]
    assert isinstance(model, OpenAICompatibleModel)
    assert (model.name, model.model) == (name, name.partition("/")[2])
    assert (model.address, model.api_key_env) == (address, variable)


def test_an_address_without_a_path_gets_that_of_its_provider():
    judge = resolve_judge("ollama/m", api_base="http://127.0.0.1:11434")
    assert judge.models[0].address == "http://127.0.0.1:11434/v1"


def test_a_model_of_azure_needs_an_address(monkeypatch):
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(SettingError, match="AZURE_OPENAI_ENDPOINT"):
        resolve_judge("azure/m")


def test_a_price_that_litellm_lists_is_known_without_importing_it():
    if find_spec("litellm") is None:
        pytest.skip("LiteLLM is not installed")
    model = OpenAICompatibleModel.named("groq/openai/gpt-oss-120b")
    sent, received = model.prices() or (0, 0)
    assert 0 < sent < received


def test_a_name_that_needs_litellm_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        MissingDependency, match=r"pip install 'ragmetrics-core\[litellm\]'"
    ):
        resolve_judge("anthropic/one-that-nobody-asked-for")


def test_a_name_is_one_judge_until_the_key_changes(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one")
    one = resolve_judge("openai/gpt-4o-mini")
    assert resolve_judge("openai/gpt-4o-mini") is one
    assert (
        resolve_judge("openai/gpt-4o-mini", api_base="http://127.0.0.1:9/v1") is not one
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-two")
    two = resolve_judge("openai/gpt-4o-mini")
    assert two is not one
    addresses = [f"http://127.0.0.1:{port}/v1" for port in range(100, 132)]
    later = [resolve_judge(two.name, api_base=address) for address in addresses]
    # of more than 32 judges the first are forgotten
    assert resolve_judge(two.name, api_base=addresses[0]) is later[0]
    assert resolve_judge(two.name) is not two


def test_extra_fields_are_sent_and_keep_stored_replies_apart(loopback_server):
    server = loopback_server()
    seeded = OpenAICompatibleModel(server.base_url, "test", extra={"seed": 7})
    once(seeded)
    assert server.requests[0].body["seed"] == 7
    assert seeded.cache_key != OpenAICompatibleModel(server.base_url, "test").cache_key


SAID = [
    "maximum context length is 4096 tokens. However, you requested 5000 tokens",
    "Requested tokens (5000) exceed context window of 4096",
    "the request (5000 tokens) exceeds the available context size (4096 tokens)",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "The input token count (1200000) exceeds the maximum number of tokens allowed",
    "`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3000 `inputs` tokens",
    "Input validation error: `inputs` must have less than 2048 tokens. Given: 3000",
    "context_length_exceeded",
]


@pytest.mark.parametrize("text", SAID)
def test_what_endpoints_say_of_too_long_requests(text):
    error = judge_error(EndpointFault(400, text=text), "m")
    assert isinstance(error, ContextWindowExceeded)


def test_a_full_window_of_a_server_is_too_long_alone_or_beside_others():
    said = "Context size has been exceeded."  # llama.cpp
    error = judge_error(EndpointFault(500, sentence=said, text=said), "m")
    assert isinstance(error, ContextWindowExceeded)
    assert error.may_be_shared
    assert "lower concurrency" in str(error)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (HTTPStatus.TOO_MANY_REQUESTS, RateLimited),
        (503, TransientJudgeError),
        (403, JudgeUnavailable),
        (7, JudgeError),  # no status
    ],
)
def test_the_code_of_a_client_of_google_is_a_status(code, kind):
    raised = Exception("failed")
    vars(raised)["code"] = code
    told = error_of_client(raised, "m")
    assert isinstance(told, kind)
    assert (type(told) is JudgeError) is (code == 7)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "ThrottlingException", RateLimited),
        (503, "ServiceUnavailableException", TransientJudgeError),
        (403, "AccessDeniedException", JudgeUnavailable),
        (400, "ValidationException", RequestRejected),
    ],
)
def test_a_reply_that_the_client_of_aws_keeps_is_typed(status, code, kind):
    said = "Invocation of this model is not what it takes."
    raised = Exception("failed")
    vars(raised)["response"] = {
        "Error": {"Message": said, "Code": code},
        "ResponseMetadata": {
            "HTTPStatusCode": status,
            "HTTPHeaders": {"retry-after": "7"},
        },
    }
    told = judge_error(EndpointFault.of(raised), "m")
    assert isinstance(told, kind)
    assert code in str(told)
    assert told.raw == said
    if kind is RateLimited:
        assert told.retry_after == 7.0


@pytest.mark.parametrize(
    "kept",
    [
        {"error": "model requires more system memory (5.3 GiB) than is available"},
        {"details": {"error": {"code": 400, "message": "API key not valid."}}},
    ],
)
def test_the_sentence_that_a_client_keeps_is_told(kept):
    raised = Exception("failed")  # as Ollama's client raises it, and Google's
    vars(raised).update(kept, status_code=400)
    told = judge_error(EndpointFault.of(raised), "m")
    assert told.raw == kept.get("error", "")
    assert isinstance(told, AuthenticationFailed) is ("details" in kept)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (429, "Budget has been exceeded! Current cost: 2.1, Max budget: 2.0"),
        (429, "budget_exceeded\nUser: engineer-1, exceeded budget for model=m"),
        (400, "ExceededBudget: End User=u over budget"),
    ],
)
def test_what_proxies_say_of_a_budget_that_is_used_up(status, said):
    error = judge_error(EndpointFault(status, text=said, retry_after=5.0), "m")
    assert isinstance(error, JudgeUnavailable)
    assert "quota or budget" in str(error)


def error_told(status: int, **error: object) -> JudgeError:
    """The judge error of a reply with such an error."""
    reply = json.dumps({"error": error}, ensure_ascii=False)
    return judge_error(EndpointFault.from_reply(status, reply), "m")


SPENT: list[tuple[int, dict[str, object]]] = [
    (429, {"message": "Please recharge.", "type": "exceeded_current_quota_error"}),
    (403, {"message": "Not active.", "type": "exceeded_current_quota_error"}),
    (429, {"code": "1113", "message": "Insufficient balance or no package."}),
    (429, {"code": "1113", "message": "您的账户余额不足,请充值。"}),
    (403, {"message": "Sorry, your account balance is insufficient"}),
    (429, {"message": "Rate limit exceeded: free-models-per-day. Add credits."}),
    (429, {"message": "No deployments available - crossed budget: Exceeded budget"}),
    (400, {"code": "Arrearage", "message": "Make sure your account is in order."}),
    (429, {"message": "Your team reached its monthly spending limit."}),
    (429, {"message": "you have reached your weekly usage limit"}),
    (403, {"message": "Your team doesn't have any credits or licenses yet."}),
    (401, {"message": "Insufficient balance. Manage your billing."}),
    (400, {"message": "You have reached your specified API usage limits."}),
    (412, {"message": "The account reached its monthly spending limit."}),
    (402, {"message": "Over budget.", "fallbacks": "content_policy_fallbacks"}),
    (
        429,
        {
            "message": "Provider returned error",
            "metadata": {"raw": '{"error": {"type": "exceeded_current_quota_error"}}'},
        },
    ),
]


@pytest.mark.parametrize(("status", "error"), SPENT)
def test_money_or_a_days_quota_that_is_spent_is_no_rate(status, error):
    told = error_told(status, **error)
    assert isinstance(told, JudgeUnavailable)
    assert "quota or budget" in str(told)


def test_a_refused_text_about_money_is_no_spent_quota():
    metadata = {"reasons": ["fraud"], "flagged_input": "an insufficient balance"}
    told = error_told(403, message="Your input was flagged", metadata=metadata)
    assert isinstance(told, ContentRefused)
    told = error_told(400, code="content_filter", message="credit balance is too low")
    assert isinstance(told, ContentRefused)


def test_a_rate_and_a_row_about_money_are_no_spent_quota():
    billing = "Rate limit reached. Try again in 2s. Upgrade in settings/billing."
    assert isinstance(error_told(429, message=billing), RateLimited)
    saved = error_told(429, message="You exceeded your current quota. Retry in 3s.")
    assert isinstance(saved, RateLimited)
    echo = "Value 'the card has an insufficient balance' is not valid."
    assert isinstance(error_told(400, message=echo), RequestRejected)
    plan = "Your plan allows 10 requests per minute and 200 requests per day."
    assert isinstance(error_told(429, message=plan), RateLimited)
    detail = [{"type": "string_too_long", "input": "What is a content_filter?"}]
    assert isinstance(error_told(422, detail=detail), RequestRejected)
    filtered = error_told(422, code="content_policy_violation", message="Not allowed.")
    assert isinstance(filtered, ContentRefused)


def test_a_router_that_quotes_a_refusal_of_another_row_asks_to_slow_down():
    quoted = "{'Exception Received': 'content management policy'}"
    told = error_told(429, message=f"Try again in 3 seconds. cooldown_list=[{quoted}]")
    assert isinstance(told, RateLimited)
    assert told.retry_after == 3


@pytest.mark.parametrize("status", [403, 503])
def test_a_connection_that_broke_behind_a_gateway_is_asked_for_again(status):
    said = "upstream connect error or disconnect/reset before headers"
    told = judge_error(EndpointFault.from_reply(status, said), "m")
    assert isinstance(told, TransientJudgeError)
    assert f"HTTP {status}" in str(told)
    echo = error_told(422, message="Not valid.", input=f"What is {said}?")
    assert isinstance(echo, RequestRejected)


def test_of_a_message_in_a_box_the_last_line_counts():
    cause = "Error: Jinja Exception: Conversation roles must alternate"
    told = error_told(500, message=f"\n------------\nWhile executing\n{cause}")
    assert told.raw == cause
    assert "system" in told.topics


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Busy. Please wait 43000 seconds before retrying."},
        {"message": "The quota will reset after 11h56m40s."},
        {"message": "Wait, and do not hurry: please wait 43000 seconds."},
        {
            "metadata": {
                "headers": {
                    "X-RateLimit-Remaining": "0",
                    "X-RateLimit-Reset": str(int(1000 * (time.time() + 43_000))),
                }
            }
        },
    ],
)
def test_a_wait_of_hours_is_read_and_told_without_advice_on_calls_at_once(error):
    told = error_told(429, **error)
    assert isinstance(told, RateLimited)
    assert told.retry_after == pytest.approx(43_000, abs=600)
    assert "raise the limit or run again in 7" in str(told)
    assert "concurrency" not in str(told)


@pytest.mark.parametrize("status", [400, 429])
@pytest.mark.parametrize("in_json", [True, False])
def test_what_the_provider_behind_a_gateway_says_is_told(status, in_json):
    cause = "This model takes at most 1 image."
    inner = {"error": {"message": cause, "code": "too_many_images"}}
    raw = json.dumps(inner) if in_json else cause
    metadata = {"raw": raw, "provider_name": "P"}
    told = error_told(status, message="Provider returned error", metadata=metadata)
    assert told.raw == cause
    assert ("too_many_images" in str(told)) is in_json


@settings(max_examples=examples(200))
@given(
    status=st.integers(400, 599),
    said=st.sampled_from(
        [
            "",
            "Request Entity Too Large",
            "content_filter",
            "rate limit",
            "<html>",
            *SAID,
        ]
    ),
)
@example(status=400, said="content_filter")
@example(status=405, said="")
@example(status=413, said="")
@example(status=413, said="content_filter")
def test_each_error_of_an_endpoint_says_what_to_do(status, said):
    error = judge_error(EndpointFault(status, text=said), "m")
    assert re.search(r": (?:[a-z]+ )+\w", str(error)), error
    if status == 413:
        assert "use shorter contexts" in str(error)


QUIET = """
from ragmetrics_core import evaluate
from loopback import LoopbackServer
with LoopbackServer(lambda _: '{"reason": "", "useful": 1}') as server:
    import os
    os.environ["RAGMETRICS_API_BASE"] = server.base_url
    rows = [{"question": "q", "contexts": ["c"], "answer": a} for a in "abc"]
    report = evaluate(rows, ["utilization"], judge="openai-compatible/test", progress=False)
    assert report.summary().judged == 3
import sys
assert "litellm" not in sys.modules
"""


@pytest.mark.nightly
def test_nothing_is_said_at_the_end_of_the_process():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", QUIET],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_lowest_status_of_no_success_is_an_error(loopback_server):
    """300: several addresses have the reply. It is no reply, whatever its body holds."""
    choice = {"message": {"content": "yes"}, "finish_reason": "stop"}
    fault = Fault(300, body=json.dumps({"choices": [choice]}))
    server = loopback_server(faults=lambda _: fault)
    with pytest.raises(JudgeError):
        once(OpenAICompatibleModel(server.base_url, "test"))


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"message": "upstream failed"}, "TransientJudgeError"),
        ("upstream failed", "TransientJudgeError"),
        ({"code": 429, "message": "slow"}, "RateLimited"),
    ],
)
def test_an_error_beside_a_reply_makes_it_a_failed_one(loopback_server, said, error):
    yes = '{"supported": 1, "claims": 1, "unsupported": []}'
    choice = {"message": {"content": yes}, "finish_reason": "stop"}
    bodies = [{"choices": [choice], "error": it} for it in (said, None)]
    faults = [Fault(200, body=json.dumps(body)) for body in bodies]
    outcomes = []
    for fault in faults:
        server = loopback_server(faults=lambda _, fault=fault: fault)
        model = OpenAICompatibleModel(server.base_url, "test")
        result = ContextAdherence(polls=1, cause=False).score(
            contexts=["c"], answer="a", judge=LLMJudge(model, attempts=1)
        )
        outcomes.append(
            result.error.type if result.status == "failed" else result.value
        )
    assert outcomes == [error, 1.0]
