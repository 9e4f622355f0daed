"""Whose key goes where: who names an address, who names a key, and what a server at that address is sent."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import crossed
from loopback import Fault, LoopbackServer
from one_loop import OneLoop

from ragmetrics_core import LiteLLMModel, LLMJudge, OpenAICompatibleModel
from ragmetrics_core.data.errors import AuthenticationFailed, JudgeError, SettingError
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.models.addresses import (
    OPENAI,
    PROVIDERS,
    provider_endpoint,
    variable_naming,
)
from ragmetrics_core.models.chat import ChatModel, ChatRequest, Message

RUNNER = OneLoop()
REQUEST = ChatRequest((Message("user", "a text"),))
LITELLM = find_spec("litellm") is not None

# Usual variables of providers, those that LiteLLM reads by itself included.
USUAL = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "COHERE_API_KEY",
    "CO_API_KEY",
    "AZURE_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "AZURE_AI_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHERAI_API_KEY",
    "TOGETHER_API_KEY",
    "FIREWORKS_API_KEY",
    "XAI_API_KEY",
    "HUGGINGFACE_API_KEY",
    "HF_TOKEN",
    "OLLAMA_API_KEY",
    "HOSTED_VLLM_API_KEY",
    "LM_STUDIO_API_KEY",
    "LITELLM_PROXY_API_KEY",
    "PERPLEXITYAI_API_KEY",
    "NVIDIA_NIM_API_KEY",
    "CEREBRAS_API_KEY",
    "DATABRICKS_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "OPENAI_ORGANIZATION",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "OPENAI_LIKE_API_KEY",
)
MARK = "usual-secret-of"
# Addresses that LiteLLM would take from the environment by itself.
ADDRESSES = {
    "openai/test": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic/test": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    "deepseek/test": ("DEEPSEEK_API_BASE",),
    "hosted_vllm/test": ("HOSTED_VLLM_API_BASE",),
    "gemini/test": ("GEMINI_API_BASE",),
    "azure/test": ("AZURE_API_BASE",),
}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "RAGMETRICS_API_BASE",
        "RAGMETRICS_API_KEY",
        "RAGMETRICS_JUDGE",
        "RAGMETRICS_TRUST",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in itertools.chain(*ADDRESSES.values()):
        monkeypatch.delenv(name, raising=False)
    for name in USUAL:
        monkeypatch.setenv(name, f"{MARK}-{name}")
    monkeypatch.setenv("MY_KEY", "the-key-that-was-named")
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")


@pytest.fixture(autouse=True, scope="module")
def _connections() -> Iterator[None]:
    yield
    RUNNER.close()


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """Refuses every request, so that what it was sent and what the refusal says can both be looked at."""
    with LoopbackServer(faults=lambda _: Fault(401)) as running:
        yield running


def asked(model: ChatModel) -> JudgeError:
    async def work() -> Any:
        try:
            return await model.complete(REQUEST)
        finally:
            await model.aclose()

    with pytest.raises(JudgeError) as caught:
        RUNNER.run(work())
    return caught.value


def model_of(judge: object) -> ChatModel:
    assert isinstance(judge, LLMJudge)
    return judge.model


def sent(server: LoopbackServer) -> str:
    """Everything that reached the server, as one text."""
    return "\n".join(
        f"{one.path} {dict(one.headers)} {one.body}" for one in server.requests
    )


OUR_CLIENT = (
    *("openai/test", "gpt-4o-mini", "openai-compatible/test", "azure/test"),
    *("deepseek/test", "gemini/test", "groq/test", "hosted_vllm/test"),
    *("mistral/test", "ollama/test", "openrouter/a/test", "together_ai/a/test"),
)
THROUGH_LITELLM = (
    *("anthropic/test", "ollama_chat/test", "xai/test", "azure_ai/test"),
    *("cohere_chat/test", "litellm_proxy/test", "bedrock/anthropic.claude-v2"),
)
NAMES = [*OUR_CLIENT, *(THROUGH_LITELLM if LITELLM else ())]

# Who names the address: options or arguments, or the environment. Who names the key:
# nobody; the same; the other.
Case = tuple[str, str, str]  # address, key, what follows
TABLE: tuple[Case, ...] = (
    ("here", "nobody", "no key"),
    ("here", "here", "the named key"),
    ("here", "environment", "no key"),
    ("environment", "nobody", "no key"),
    ("environment", "environment", "the named key"),
    ("environment", "here", "refused"),
)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "case"), crossed(NAMES, TABLE))
def test_another_address_gets_the_key_that_is_named_in_the_same_place_or_none(
    name, case, server, monkeypatch
):
    address, key, follows = case
    if address == "environment":
        monkeypatch.setenv("RAGMETRICS_API_BASE", server.base_url)
    if key == "environment":
        monkeypatch.setenv("RAGMETRICS_API_KEY", "the-key-that-was-named")
    here = {
        "api_base": server.base_url if address == "here" else None,
        "api_key_env": "MY_KEY" if key == "here" else None,
    }
    if follows == "refused":
        with pytest.raises(SettingError, match="name both in one place"):
            resolve_judge(name, **here)
        return
    error = asked(model_of(resolve_judge(name, **here)))
    assert MARK not in sent(server)
    # signs with keys of its own, which nobody names by one variable
    if name.startswith("bedrock/"):
        return
    assert server.requests, error
    assert ("the-key-that-was-named" in sent(server)) == (follows == "the named key")
    assert isinstance(error, AuthenticationFailed)
    assert ("--api-key-env" in str(error)) == (follows == "no key")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if not name.startswith(("bedrock/", "openai-compatible/"))],
)
def test_without_an_address_a_named_key_goes_to_the_provider(name, monkeypatch):
    given: list[str] = []

    def not_sent(
        session: aiohttp.ClientSession, method: str, url: str, **settings: Any
    ) -> Any:
        given.append(str(settings["headers"]))
        raise aiohttp.ClientConnectionError("nothing leaves a test")

    async def not_asked(**arguments: Any) -> Any:
        import litellm

        given.append(str(arguments))
        raise litellm.APIConnectionError(
            "nothing leaves a test", llm_provider="none", model=name
        )

    monkeypatch.setattr(aiohttp.ClientSession, "request", not_sent)
    model: Any = model_of(resolve_judge(name, api_key_env="MY_KEY"))
    RUNNER.run(model.prepare())
    if LITELLM:
        monkeypatch.setattr("litellm.acompletion", not_asked)
    asked(model)
    assert ["the-key-that-was-named" in one for one in given] == [True]
    assert MARK not in given[0]
    own = {provider.address for provider in PROVIDERS.values()}
    assert model.address in {"", *own, "https://mine.openai.azure.com/openai/v1"}


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        (name, variable)
        for name, variables in ADDRESSES.items()
        for variable in variables
    ],
)
@pytest.mark.skipif(not LITELLM, reason="LiteLLM is not installed")
def test_an_address_that_litellm_finds_in_the_environment_gets_no_usual_key(
    name, variable, server, monkeypatch
):
    monkeypatch.setenv(variable, server.base_url)
    error = asked(LiteLLMModel(name))
    assert MARK not in sent(server)
    assert not server.requests
    assert isinstance(error, AuthenticationFailed)


def test_the_address_of_openai_base_url_gets_our_key_and_never_the_usual_one(
    server, monkeypatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    assert "--api-key-env" in str(asked(OpenAICompatibleModel.named("gpt-4o-mini")))
    assert MARK not in sent(server)
    monkeypatch.setenv("RAGMETRICS_API_KEY", "the-key-that-was-named")
    asked(OpenAICompatibleModel.named("gpt-4o-mini"))
    assert "the-key-that-was-named" in sent(server)
    # then it is the key of that address
    monkeypatch.setenv("RAGMETRICS_API_BASE", "http://127.0.0.1:9/v1")
    server.requests.clear()
    asked(OpenAICompatibleModel.named("gpt-4o-mini"))
    assert "the-key-that-was-named" not in sent(server)
    with pytest.raises(SettingError, match="OPENAI_BASE_URL"):
        OpenAICompatibleModel.named("gpt-4o-mini", api_key="sk-mine")


OWN = (
    "https://api.openai.com/v1",
    "https://api.openai.com:443/v1",
    "HTTPS://API.OpenAI.com/v1/",
)
NOT_OWN = (
    "http://api.openai.com/v1",
    "https://api.openai.com.evil.example/v1",
    "https://evil.example/api.openai.com",
    "https://api.openai.com@evil.example/v1",
    "https://api.openai.com:8443/v1",
    "https://xapi.openai.com/v1",
    r"https://api.openai.com\@evil.example/v1",
    "https://evil.example#api.openai.com",
    "https://evil.example?x=@api.openai.com",
)


@pytest.mark.parametrize("address", [*OWN, *NOT_OWN])
def test_only_openai_is_openai(address):
    assert provider_endpoint(OPENAI, address, has_key=False).key_variable == (
        "OPENAI_API_KEY" if address in OWN else None
    )


SIGNS = st.sampled_from(["", "@", ".", "/", "\\", "#", "?", ":", "%2e", "\t"])


@given(st.text(max_size=20), SIGNS, st.text(max_size=20))
def test_the_host_that_is_asked_decides_whose_address_it_is(before, sign, after):
    """Whatever is written around OpenAI's host: its key goes there only if the request does."""
    address = f"https://{before}{sign}api.openai.com{sign}{after}"
    try:
        model = OpenAICompatibleModel.named("gpt-4o-mini", api_base=address)
    except SettingError:
        return
    reached = model.base_url.split("/")[2]
    assert (model.api_key_env == "OPENAI_API_KEY") <= (
        reached in ("api.openai.com", "api.openai.com:443")
    )


GATEWAY = "https://gw.example/v1/chat"


@pytest.mark.parametrize(
    ("address", "variable", "value", "named"),
    [
        (GATEWAY, "A_URL", "https://gw.example/other", "A_URL"),
        (GATEWAY, "HTTPS_PROXY", "https://gw.example", ""),
        (GATEWAY, "A_URL", "https://gw.example:8443", ""),
        ("https://api.anthropic.com/v1", "A_URL", "https://api.anthropic.com", ""),
        ("https://me.openai.azure.com/x", "A_URL", "https://me.openai.azure.com", ""),
    ],
)
def test_a_variable_names_an_address_only_if_it_is_no_known_provider_and_no_proxy(
    address, variable, value, named
):
    assert variable_naming(address, [(variable, value)]) == named


@pytest.mark.parametrize(
    "name", ["sk-proj-abc/def", "not set!", "", "A_NAME_THAT_IS_NOT_SET"]
)
def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated(name):
    with pytest.raises(SettingError) as caught:
        resolve_judge("gpt-4o-mini", api_base="http://127.0.0.1:9/v1", api_key_env=name)
    assert not name or name not in str(caught.value)


@pytest.mark.parametrize("variable", ["RAGMETRICS_API_BASE", "RAGMETRICS_JUDGE"])
@pytest.mark.parametrize("empty", ["", " "])
def test_a_variable_that_is_empty_stands_for_no_provider_and_no_other_judge(
    variable, empty, monkeypatch
):
    monkeypatch.setenv(variable, empty)
    judge = "gpt-4o-mini" if variable == "RAGMETRICS_API_BASE" else None
    with pytest.raises(
        SettingError, match=f"{variable} is empty, perhaps a variable that is not set"
    ):
        resolve_judge(judge)
    # what is said here wins
    named = resolve_judge("gpt-4o-mini", api_base="http://127.0.0.1:9/v1")
    assert isinstance(named, LLMJudge)


@pytest.mark.parametrize(
    "settings",
    [{"judge": ""}, {"judge": "gpt-4o-mini", "api_base": ""}, {"metric_model": ""}],
)
def test_an_empty_name_or_address_never_counts_as_one_that_is_left_out(settings):
    with pytest.raises(SettingError, match=r"is blank|is empty"):
        resolve_judge(
            settings.get("judge"),
            **{name: own for name, own in settings.items() if name != "judge"},
        )


@pytest.mark.skipif(not LITELLM, reason="LiteLLM is not installed")
@pytest.mark.parametrize(
    "name", ["huggingface/https://evil.example/x", "openai/http://evil.example"]
)
def test_a_model_name_holds_no_address(name):
    with pytest.raises(SettingError, match="holds no address"):
        resolve_judge(name)


@pytest.mark.skipif(not LITELLM, reason="LiteLLM is not installed")
def test_headers_that_the_caller_gives_are_sent(server):
    asked(
        LiteLLMModel(
            "openai/test",
            api_base=server.base_url,
            extra={"extra_headers": {"X-Api-Key": "mine"}},
        )
    )
    assert server.requests[0].headers["x-api-key"] == "mine"
    assert "authorization" not in server.requests[0].headers


DOTENV = """
import asyncio, os
from ragmetrics_core import LiteLLMModel
asyncio.run(LiteLLMModel("openai/test").prepare())
print(os.environ.get("OPENAI_API_BASE"), os.environ.get("LITELLM_MODE"))
"""


@pytest.mark.nightly
@pytest.mark.skipif(not LITELLM, reason="LiteLLM is not installed")
def test_a_dotenv_file_of_the_folder_is_not_read(tmp_path):
    (tmp_path / ".env").write_text("OPENAI_API_BASE=http://evil.example/v1\n")
    environment = {
        name: value for name, value in os.environ.items() if name != "LITELLM_MODE"
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DOTENV],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.stdout == "None None\n"


@pytest.mark.skipif(not LITELLM, reason="LiteLLM is not installed")
def test_a_client_that_cannot_be_guarded_is_refused():
    with pytest.raises(SettingError, match="name it openai/x"):
        LiteLLMModel("aiohttp_openai/x")
