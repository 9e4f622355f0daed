"""Where secrets and prompts can leave: redirects, addresses that hold keys, tracebacks, endless replies."""

import asyncio
import json
import traceback
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from loopback import Fault, LoopbackServer

from ragmetrics_core import ContextUtilization, LLMJudge, OpenAICompatibleModel, evaluate
from ragmetrics_core.data import errors
from ragmetrics_core.endpoints.chat import ChatModel, ChatRequest, Message
from ragmetrics_core.endpoints.endpoint_errors import public
from ragmetrics_core.endpoints.litellm_model import LiteLLMModel

KEY = "sk-secret-key"
TEXT = "a secret text"
REQUEST = ChatRequest((Message("user", TEXT),))
SAMPLE = {"question": TEXT, "contexts": [TEXT], "answer": TEXT}
RUNNER = asyncio.Runner()
Make = Callable[[str], ChatModel]


def own(address: str) -> ChatModel:
    return OpenAICompatibleModel(address, "test", api_key=KEY)


def litellm_of(name: str) -> Make:
    return lambda address: LiteLLMModel(name, api_base=address, api_key=KEY)


@pytest.fixture(autouse=True, scope="module")
def _connections() -> Iterator[None]:
    yield
    if LITELLM:
        import litellm

        RUNNER.run(litellm.close_litellm_async_clients())
        litellm.in_memory_llm_clients_cache.flush_cache()
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


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", MODELS)
def test_a_redirect_is_refused_and_the_other_host_gets_nothing(
    name: str, status: int, loopback_server: Callable[..., LoopbackServer]
) -> None:
    other = loopback_server()
    location = f"{other.base_url.replace('127.0.0.1', 'localhost')}/chat/completions?{KEY}"
    server = loopback_server(faults=lambda _: Fault(status, {"Location": location}))
    error = raised(MODELS[name](server.base_url))
    assert type(error) is errors.EndpointMoved
    assert other.base_url.replace("127.0.0.1", "localhost") in str(error)
    assert KEY not in str(error)
    assert len(server.requests) == 1
    assert other.requests == []


@pytest.mark.skipif(not LITELLM, reason="LiteLLM is not installed")
def test_clients_of_others_follow_redirects_as_before(loopback_server: Callable[..., LoopbackServer]) -> None:
    import httpx

    server = loopback_server()
    raised(litellm_of("openai/test")("http://127.0.0.1:9/v1"))
    moving = loopback_server(faults=lambda _: Fault(307, {"Location": f"{server.base_url}/chat/completions"}))

    async def post() -> int:
        async with httpx.AsyncClient(follow_redirects=True) as client:
            return (await client.post(f"{moving.base_url}/chat/completions", json={"messages": []})).status_code

    assert RUNNER.run(post()) == 200


@pytest.mark.parametrize("name", MODELS)
def test_a_traceback_holds_neither_key_nor_text(name: str, loopback_server: Callable[..., LoopbackServer]) -> None:
    said = {"error": {"message": f"Incorrect API key provided: {KEY}. {TEXT}", "code": "invalid_api_key"}}
    server = loopback_server(faults=lambda _: Fault(401, body=json.dumps(said)))
    error = raised(MODELS[name](server.base_url))
    assert type(error) is errors.AuthenticationFailed
    assert "401" in str(error)
    assert error.__context__ is None
    shown = "".join(traceback.format_exception(error))
    assert KEY not in shown
    assert TEXT not in shown


@pytest.mark.parametrize("name", [name for name in MODELS if name != "LiteLLM, another protocol"])
def test_an_endless_reply_is_not_read(name: str, loopback_server: Callable[..., LoopbackServer]) -> None:
    server = loopback_server(faults=lambda _: Fault(200, body=" " * (17 * 2**20)))
    error = raised(MODELS[name](server.base_url))
    assert type(error) is errors.MalformedReply
    assert "16 MB" in str(error)


# What somebody may give as an address, and what may be shown of it.
ADDRESSES = {
    "http://user:word@127.0.0.1:9/v1": "http://127.0.0.1:9/v1",
    "http://user:wo/rd@127.0.0.1:9/v1": None,
    "http://user:wo?rd@127.0.0.1:9/v1": None,
    "http://127.0.0.1:9/v1?key=word": "http://127.0.0.1:9/v1",
    "http://127.0.0.1:9/v1#word": "http://127.0.0.1:9/v1",
    "https://[::1]:9/v1?word": "https://[::1]:9/v1",
    "user:word@127.0.0.1:9/v1": None,
    "127.0.0.1:9/v1?key=word": None,
    "127.0.0.1/word": None,
    "word": None,
    "http://[word": None,
    "http://": None,
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_shown_without_what_it_may_hide(address: str) -> None:
    shown = ADDRESSES[address]
    assert public(address) == shown or (shown is None and "word" not in public(address))


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("make", [own, *([litellm_of("openai/test")] if LITELLM else [])])
def test_what_an_address_hides_reaches_no_file(address: str, make: Make, tmp_path: Path) -> None:
    """Reprs, names, errors with their tracebacks, results as JSONL."""
    shown, out = [], tmp_path / "results.jsonl"
    try:
        model = make(address)
        shown += [repr(model), model.name, "".join(traceback.format_exception(raised(model)))]
        judge = LLMJudge(model, attempts=1)
        evaluate([SAMPLE], ContextUtilization(), judge=judge, progress=False).to_jsonl(out)
        shown.append(out.read_text())
    except errors.RagMetricsError as error:
        shown.append("".join(traceback.format_exception(error)))
    assert shown
    assert "word" not in "".join(shown)


def test_user_and_query_of_an_address_are_sent(loopback_server: Callable[..., LoopbackServer]) -> None:
    server = loopback_server()
    model = OpenAICompatibleModel(server.base_url.replace("//", "//me:p%40ss@") + "?version=2", "test", api_key="")
    RUNNER.run(model.complete(REQUEST))
    RUNNER.run(model.aclose())
    assert server.requests[0].path == "/v1/chat/completions?version=2"
    assert server.requests[0].headers["authorization"] == "Basic bWU6cEBzcw=="
