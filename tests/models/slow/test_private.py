"""Where secrets and prompts can leave: redirects, addresses that hold keys, tracebacks, endless replies."""

import contextlib
import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import pytest
import yarl
from hypothesis import example, given
from hypothesis import strategies as st
from lanes import crossed
from loopback import Fault
from one_loop import OneLoop

from ragmetrics_core import (
    ContextUtilization,
    LLMJudge,
    OpenAICompatibleModel,
    evaluate,
)
from ragmetrics_core.data import errors
from ragmetrics_core.models.addresses import public_address
from ragmetrics_core.models.chat import ChatModel, ChatRequest, Message
from ragmetrics_core.models.litellm_model import LiteLLMModel

KEY = "sk-secret-key"
TEXT = "a secret text"
REQUEST = ChatRequest((Message("user", TEXT),))
SAMPLE = {"question": TEXT, "contexts": [TEXT], "answer": TEXT}
RUNNER = OneLoop()
Make = Callable[[str], ChatModel]


def own(address: str) -> ChatModel:
    return OpenAICompatibleModel(address, "test", api_key=KEY)


def litellm_of(name: str) -> Make:
    return lambda address: LiteLLMModel(name, api_base=address, api_key=KEY)


@pytest.fixture(autouse=True, scope="module")
def _connections() -> Iterator[None]:
    yield
    RUNNER.close()


def raised(model: ChatModel) -> errors.JudgeError:
    async def work() -> Any:
        try:
            return await model.complete(REQUEST)
        finally:
            await model.aclose()

    with pytest.raises(errors.JudgeError) as caught:
        RUNNER.run(work())
    return caught.value


LITELLM = find_spec("litellm") is not None
THROUGH_LITELLM: dict[str, Make] = {
    "LiteLLM, openai": litellm_of("openai/test"),
    "LiteLLM, another client": litellm_of("mistral/test"),
    "LiteLLM, another protocol": litellm_of("anthropic/test"),
}
MODELS: dict[str, Make] = {"own client": own, **(THROUGH_LITELLM if LITELLM else {})}
OF_BOTH = list(MODELS.values())[:2]


@pytest.mark.parametrize(
    ("status", "name"), crossed([301, 302, 303, 307, 308], list(MODELS))
)
def test_a_redirect_is_refused_and_the_other_host_gets_nothing(
    name, status, loopback_server
):
    other = loopback_server()
    location = (
        f"{other.base_url.replace('127.0.0.1', 'localhost')}/chat/completions?{KEY}"
    )
    server = loopback_server(faults=lambda _: Fault(status, {"Location": location}))
    error = raised(MODELS[name](server.base_url))
    assert type(error) is errors.JudgeUnavailable
    assert "redirect, which was not followed" in str(error)
    assert KEY not in str(error)
    assert len(server.requests) == 1
    assert other.requests == []


@pytest.mark.nightly
@pytest.mark.skipif(not LITELLM, reason="LiteLLM is not installed")
@pytest.mark.parametrize("name", ["openai/test", "mistral/test", "anthropic/test"])
def test_litellm_follows_redirects_in_calls_of_others_and_never_in_ours(
    name, loopback_server
):
    """Whether the client that LiteLLM keeps was made in a call of others or in ours."""
    import httpx
    import litellm

    unchanged = (httpx.AsyncClient.send, httpx.Client.send)
    server = loopback_server()
    moving = loopback_server(
        faults=lambda _: Fault(307, {"Location": f"{server.base_url}/chat/completions"})
    )

    async def call_of_others() -> None:
        with contextlib.suppress(litellm.exceptions.APIConnectionError):
            await litellm.acompletion(
                name,
                [{"role": "user", "content": "Hi"}],
                api_base=moving.base_url,
                api_key=KEY,
            )

    # as LiteLLM is before our first call
    RUNNER.run(litellm.close_litellm_async_clients())
    litellm.in_memory_llm_clients_cache = type(litellm.in_memory_llm_clients_cache)()
    for reached in (1, 2):
        RUNNER.run(call_of_others())
        assert len(server.requests) == reached
        error = raised(litellm_of(name)(moving.base_url))
        assert type(error) is errors.JudgeUnavailable
        assert len(server.requests) == reached
        RUNNER.run(litellm.close_litellm_async_clients())
        litellm.in_memory_llm_clients_cache.flush_cache()
        error = raised(litellm_of(name)(moving.base_url))
        assert type(error) is errors.JudgeUnavailable
        assert len(server.requests) == reached
    assert (httpx.AsyncClient.send, httpx.Client.send) == unchanged
    assert not any(httpx.AsyncClient().event_hooks.values())


@pytest.mark.skipif(not LITELLM, reason="LiteLLM is not installed")
@pytest.mark.parametrize(
    ("called_host", "is_sent"), [("127.0.0.1", True), ("localhost", False)]
)
def test_litellm_sends_a_given_key_to_the_given_host_alone(
    called_host, is_sent, loopback_server, monkeypatch
):
    """Some providers take no address: then LiteLLM calls their own."""
    import httpx
    import litellm

    server = loopback_server()
    called_address = server.base_url.replace("127.0.0.1", called_host)

    async def call(**arguments: Any) -> None:
        headers = {
            "Authorization": f"Bearer {arguments['api_key']}",
            "OpenAI-Organization": "given",
            "X-Api-Key": "of the environment",
        }
        async with httpx.AsyncClient() as client:
            litellm.in_memory_llm_clients_cache.set_cache("as LiteLLM does", client)
            await client.post(f"{called_address}/chat/completions", headers=headers)
        raise ValueError

    monkeypatch.setattr(litellm, "acompletion", call)
    extra = {"extra_headers": {"OpenAI-Organization": "given"}}
    raised(
        LiteLLMModel("mistral/m", api_base=server.base_url, api_key=KEY, extra=extra)
    )
    (request,) = server.requests
    names = {"authorization", "openai-organization", "x-api-key"}
    sent = names.intersection(request.headers)
    assert sent == ({"authorization", "openai-organization"} if is_sent else set())


@pytest.mark.parametrize("name", MODELS)
def test_a_traceback_holds_neither_key_nor_text(name, loopback_server):
    said = {
        "error": {
            "message": f"Incorrect API key provided: {KEY}. {TEXT}",
            "code": "invalid_api_key",
        }
    }
    server = loopback_server(faults=lambda _: Fault(401, body=json.dumps(said)))
    error = raised(MODELS[name](server.base_url))
    assert type(error) is errors.AuthenticationFailed
    assert "401" in str(error)
    assert error.__context__ is None
    shown = "".join(traceback.format_exception(error))
    assert KEY not in shown
    assert TEXT not in shown


@pytest.mark.parametrize(
    ("name", "status"), crossed(list(MODELS), [200, 400, 401, 500])
)
def test_a_sentence_is_repeated_without_the_key(name, status, loopback_server):
    said = {"error": {"message": f"Not with {KEY} here", "code": status}}
    server = loopback_server(faults=lambda _: Fault(status, body=json.dumps(said)))
    error = raised(MODELS[name](server.base_url))
    assert KEY not in f"{error} {error.raw}"


@pytest.mark.skipif(not LITELLM, reason="LiteLLM is not installed")
def test_of_the_headers_that_are_named_a_sentence_repeats_no_key(loopback_server):
    keys = {"X-Token": "Bearer q-7Hd82kLm", "X-Api-Key": "k-55Pq2mWx"}
    extra = {"extra_headers": {**keys, "X-Title": "ragmetrics"}}
    said = {"error": {"message": "Not with q-7Hd82kLm or k-55Pq2mWx for ragmetrics"}}
    server = loopback_server(faults=lambda _: Fault(400, body=json.dumps(said)))
    settings = {"api_key": KEY, "extra": extra}
    error = raised(LiteLLMModel("openai/test", api_base=server.base_url, **settings))
    assert error.raw.endswith("Not with … or … for ragmetrics")
    server = loopback_server(lambda _: said["error"]["message"])
    model = LiteLLMModel("openai/test", api_base=server.base_url, **settings)
    (choice,) = RUNNER.run(model.complete(REQUEST)).choices
    assert choice.text == "Not with … or … for ragmetrics"


WORD = "Quetzalcoatl"  # of a sample
ECHOES: dict[str, Fault] = {
    **{
        f"{status}, {field} is the {what}": Fault(
            status, body=json.dumps({"error": {"message": "no", field: echo}})
        )
        for status in (400, 401)
        for field in ("code", "type", "param")
        for what, echo in (("key", KEY), ("word", WORD))
    },
    "at the top": Fault(
        422,
        body=json.dumps({"code": KEY, "type": WORD, "param": f"messages[0].{WORD}"}),
    ),
    **{
        f"redirect to {echo}": Fault(307, {"Location": location.format(echo)})
        for echo in (KEY, WORD)
        for location in (
            "/{}/chat/completions",
            "http://127.0.0.1:9/v1/{}",
            "/v1?{}",
            "http://{}/v1/chat/completions",
        )
    },
}


@pytest.mark.parametrize("echo", ECHOES)
def test_what_an_endpoint_echoes_reaches_neither_errors_nor_results(
    echo, loopback_server, tmp_path
):
    server, out = (
        loopback_server(faults=lambda _: ECHOES[echo]),
        tmp_path / "results.jsonl",
    )
    shown = "".join(traceback.format_exception(raised(own(server.base_url))))
    assert KEY not in shown
    assert WORD.casefold() not in shown.casefold()
    judge = LLMJudge(own(server.base_url), attempts=1)
    # e.g. for a refused key; there is no report then
    with suppress(errors.JudgeUnavailable):
        report = evaluate([SAMPLE], ContextUtilization(), judge=judge)
        report.to_jsonl(out)
        told = "\n".join([out.read_text(), report.table(), *report.summary().signs])
        assert KEY not in told
        assert WORD.casefold() not in told.casefold()


@pytest.mark.parametrize(
    "symbol",
    ["invalid_api_key", "unsupported_value", "max_tokens", "RESOURCE_EXHAUSTED"],
)
def test_the_codes_that_services_document_are_told(symbol, loopback_server):
    server = loopback_server(
        faults=lambda _: Fault(400, body=json.dumps({"error": {"code": symbol}}))
    )
    assert f"(HTTP 400, {symbol})" in str(raised(own(server.base_url)))


OF_THE_ENVIRONMENT = "a-key-of-the-environment"
# what a reply may say its model is, and whether that is repeated
NAMED: dict[str, bool] = {
    "gpt-4o-mini-2024-07-18": True,
    "accounts/fireworks/models/llama-v3p1-8b": True,
    "llama3.1:8b-instruct@q4": True,
    "/models/qwen.gguf": True,
    KEY: False,
    f"gpt-4o/{KEY}": False,
    "sk-another": False,
    OF_THE_ENVIRONMENT: False,
    OF_THE_ENVIRONMENT.upper(): False,
    "a secret text": False,
    "": False,
    "x" * 300: False,
}


@pytest.mark.parametrize("name", NAMED)
def test_a_reply_tells_its_model_where_that_is_a_name_and_no_key(
    name, loopback_server, monkeypatch
):
    monkeypatch.setenv("SOME_SERVICE_KEY", OF_THE_ENVIRONMENT)
    server = loopback_server(from_openai=lambda body: {**body, "model": name})

    async def work() -> tuple[str, ...]:
        model = own(server.base_url)
        try:
            return (await model.complete(REQUEST)).usage.models
        finally:
            await model.aclose()

    assert RUNNER.run(work()) == ((name,) if NAMED[name] else ())


@pytest.mark.parametrize(
    "name", [name for name in MODELS if name != "LiteLLM, another protocol"]
)
def test_an_endless_reply_is_not_read(name, loopback_server):
    server = loopback_server(faults=lambda _: Fault(200, body=" " * (17 * 2**20)))
    error = raised(MODELS[name](server.base_url))
    assert type(error) is errors.UnusableReply
    assert "16 MB" in str(error)


# What somebody may give as an address, and what may be shown of it.
ADDRESSES = {
    "http://user:qzhush@127.0.0.1:9/v1": "http://127.0.0.1:9/v1",
    "http://user:qz/hush@127.0.0.1:9/v1": None,
    "http://user:qz?hush@127.0.0.1:9/v1": None,
    "http://127.0.0.1:9/v1?key=qzhush": "http://127.0.0.1:9/v1",
    "http://127.0.0.1:9/v1#qzhush": "http://127.0.0.1:9/v1",
    "https://[::1]:9/v1?qzhush": "https://[::1]:9/v1",
    "user:qzhush@127.0.0.1:9/v1": None,
    "127.0.0.1:9/v1?key=qzhush": None,
    "127.0.0.1/qzhush": None,
    "qzhush": None,
    "http://[qzhush": None,
    "http://": None,
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_shown_without_what_it_may_hide(address):
    shown = ADDRESSES[address]
    assert public_address(address) == shown or (
        shown is None and "qzhush" not in public_address(address)
    )


@pytest.mark.parametrize(("address", "make"), crossed(list(ADDRESSES), OF_BOTH))
def test_what_an_address_hides_reaches_no_file(address, make, tmp_path):
    """Reprs, names, errors with their tracebacks, results as JSONL."""
    shown, out = [], tmp_path / "results.jsonl"
    try:
        model = make(address)
        shown += [
            repr(model),
            model.name,
            "".join(traceback.format_exception(raised(model))),
        ]
        judge = LLMJudge(model, attempts=1)
        evaluate([SAMPLE], ContextUtilization(), judge=judge).to_jsonl(out)
        shown.append(out.read_text())
    except errors.RagMetricsError as error:
        shown.append("".join(traceback.format_exception(error)))
    assert shown
    assert "qzhush" not in "".join(shown)


# Addresses that somebody may read as a host that is not theirs; {port} is of a server
# that none of them names.
FOR_ANOTHER_HOST = (
    "http://127.0.0.1:1{port}/@:{port}/v1",
    "http://127.0.0.1/@:{port}/v1",
    "http://127.0.0.1/a@127.0.0.1:{port}/v1",
    "http://localhost:9/v1@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@localhost:9/v1",
    "http://localhost:9\\@127.0.0.1:{port}/v1",
    "http://127.0.0.1:{port} @localhost:9/v1",
    "http://127.0.0.1:{port}\t@localhost:9/v1",
    " http://127.0.0.1:{port}/v1",
    "http://127.0.0.1:{port}/v1\n",
    "http:\\\\127.0.0.1:{port}/v1",
    "http://127.0.0.1\u200b:{port}/v1",
    "http://\uff11\uff12\uff17.0.0.1:{port}/v1",
    "http://127%2e0.0.1:{port}/v1",
    "http://[127.0.0.1]:{port}/v1",
    "http:127.0.0.1:{port}/v1",
    "//127.0.0.1:{port}/v1",
    "ftp://127.0.0.1:{port}/v1",
)


@pytest.mark.parametrize(("address", "make"), crossed(FOR_ANOTHER_HOST, OF_BOTH))
def test_an_address_that_can_be_read_in_two_ways_is_refused_and_nothing_is_sent(
    address, make, loopback_server
):
    server = loopback_server()
    address = address.format(port=urlsplit(server.base_url).port)
    with pytest.raises(
        errors.SettingError, match="an endpoint's address is one such as http://127"
    ) as caught:
        RUNNER.run(make(address).complete(REQUEST))
    assert str(urlsplit(server.base_url).port) not in str(caught.value)
    assert server.requests == []


@st.composite
def addresses(draw: st.DrawFn) -> str:
    """Addresses of all forms, right and wrong, whose secret parts hold "sesame"."""
    signs = st.text("aZ0@:/?#[]%.;\\ \tü", max_size=6)
    hosts = [
        "h",
        "H.Example",
        "127.0.0.1",
        "[::1]",
        "[v1.a]",
        "a_b",
        "xn--4ca.de",
        "ü.de",
        "h.",
        "h%2f",
        "",
        "a@b",
    ]
    ports = ["", ":", ":8000", ":0", ":65535", ":65536", ":x"]
    scheme = draw(st.sampled_from(["http", "https", "HTTP", "ftp", ""]))
    user = draw(
        st.sampled_from(["", "sesame@", "u:sesame@", "sesame@sesame@", "u:%40sesame@"])
    )
    path = draw(
        st.sampled_from(
            ["", "/", "/v1", "/a@b/v1", "/%40/v1", "//h2/v1", "/..//v1", "/v1;a=b"]
        )
        | signs
    )
    query = draw(
        st.sampled_from(
            ["", "?sesame", "?key=sesame@h2", "?#sesame", "#sesame", "#@h2/?sesame"]
        )
    )
    return f"{scheme}://{user}{draw(st.sampled_from(hosts))}{draw(st.sampled_from(ports))}{path}{query}"


@given(addresses())
@example("http://h/a@b/v1")
@example("http://user:1/sesame@h2/v1")
def test_the_host_that_is_asked_and_shown_is_the_one_that_the_address_names(address):
    try:
        model = OpenAICompatibleModel(address, "test")
    except errors.SettingError as error:
        assert "sesame" not in str(error)  # noqa: PT017 - most addresses raise none
        assert "sesame" not in public_address(address)
        return
    named = urlsplit(address)
    asked = yarl.URL(f"{model.base_url}/chat/completions")  # as aiohttp reads it
    shown = urlsplit(model.address)
    assert (asked.raw_host, asked.port) == (
        named.hostname,
        named.port or (443 if named.scheme == "https" else 80),
    )
    assert (shown.scheme, shown.hostname, shown.port) == (
        named.scheme,
        named.hostname,
        named.port,
    )
    assert shown.path == named.path.rstrip("/")
    assert "@" not in model.address
    assert not shown.query
    assert not shown.fragment
    assert "sesame" not in repr(model) + model.cache_key


ORDINARY = (
    "http://127.0.0.1:8000/v1",
    "https://[::1]:8443/v1",
    "http://[fe80::1%eth0]:8000/v1",
    "https://host.example",
    "HTTPS://Host.Example./v1/",
    "https://xn--4ca.example/deployments/gpt-4o",
    "http://model_server:8000/v1",
    "https://host.example/~me/a%40b;c=1/v1",
)


@pytest.mark.parametrize("address", ORDINARY)
def test_an_ordinary_address_is_taken(address):
    assert public_address(address) == OpenAICompatibleModel(
        address.rstrip("/"), "test"
    ).address + "/" * address.endswith("/")


def test_of_a_request_to_a_path_with_a_sign_of_users_the_server_is_shown():
    assert (
        public_address("https://api.example/run/@cf/model?key=word")
        == "https://api.example"
    )


@pytest.mark.parametrize("more", ["//me:p%40ss@", "?version=2", "#part"])
def test_an_address_that_holds_more_than_a_path_is_refused(more):
    address = "http://127.0.0.1:9/v1"
    address = address.replace("//", more) if "//" in more else address + more
    with pytest.raises(errors.SettingError, match="give the key by --api-key-env"):
        OpenAICompatibleModel(address, "test")
