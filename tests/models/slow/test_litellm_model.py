"""LiteLLM against a server on this machine: replies, capabilities, faults, silence.

The one file that imports it.
"""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from loopback import Fault, LoopbackServer
from one_loop import OneLoop

from ragmetrics_core.data import errors
from ragmetrics_core.engine import resolve
from ragmetrics_core.models.chat import ChatRequest, Message
from ragmetrics_core.models.endpoint_errors import Fault as EndpointFault
from ragmetrics_core.models.endpoint_errors import judge_error, seconds_of_retry_after
from ragmetrics_core.models.litellm_model import LiteLLMModel
from ragmetrics_core.testing.chat_model_contract import (
    KEY,
    REQUEST,
    TEXT,
    ChatModelContract,
)

if find_spec("litellm") is None:
    pytest.skip("LiteLLM is not installed", allow_module_level=True)
RUNNER = OneLoop()
"""One loop for all tests, as in a run: LiteLLM keeps its connections open as long as their loop lives."""


@pytest.fixture(autouse=True, scope="module")
def _connections() -> Iterator[None]:
    """The first call loads much of LiteLLM, for longer than a test waits for a reply on a busy machine."""
    with LoopbackServer(lambda _: TEXT) as server:
        RUNNER.run(model_of(server, timeout=200.0).complete(REQUEST))
    yield
    RUNNER.close()


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "ANTHROPIC_API_KEY",
        "RAGMETRICS_JUDGE",
    ):
        monkeypatch.delenv(name, raising=False)


def model_of(server: LoopbackServer, **settings: Any) -> LiteLLMModel:
    return LiteLLMModel(
        "openai/test", **{"api_base": server.base_url, "api_key": KEY, **settings}
    )


def raised(model: LiteLLMModel) -> errors.JudgeError:
    with pytest.raises(errors.JudgeError) as caught:
        RUNNER.run(model.complete(REQUEST))
    return caught.value


class TestLiteLLM(ChatModelContract):
    def model(self, base_url: str, key: str, timeout: float) -> LiteLLMModel:
        return LiteLLMModel(
            "openai/test", api_base=base_url, api_key=key, timeout=timeout
        )

    def run(self, work: Any) -> Any:
        return RUNNER.run(work)


def test_an_address_that_the_application_set_for_all_is_of_the_key(monkeypatch):
    import litellm

    keys = set()
    for address in (None, "http://127.0.0.1:1", "http://127.0.0.1:2"):
        monkeypatch.setattr(litellm, "api_base", address)
        keys.add(LiteLLMModel("anthropic/claude-haiku-4-5").cache_key)
    assert len(keys) == 3


def test_the_cache_of_an_application_neither_answers_nor_is_filled(monkeypatch):
    """It knows no addresses, and one reply of it would count as several polls."""
    import litellm

    monkeypatch.setattr(litellm, "cache", litellm.Cache(type="local"))
    with LoopbackServer(lambda _: TEXT) as first, LoopbackServer() as second:
        for server in (first, first, second):
            RUNNER.run(model_of(server).complete(REQUEST))
        assert (len(first.requests), len(second.requests)) == (2, 1)
    assert not {"cache", "caching"} & {*first.requests[0].body}
    assert not litellm.cache.cache.cache_dict


def test_a_request_and_its_reply():
    with LoopbackServer(lambda body: ['{"useful": 1}', '{"useful": 0}']) as server:
        reply = RUNNER.run(model_of(server, extra={"seed": 3}).complete(REQUEST))
    (recorded,) = server.requests
    assert recorded.path == "/v1/chat/completions"
    assert recorded.headers["authorization"] == f"Bearer {KEY}"
    assert recorded.body["model"] == "test"
    assert recorded.body["messages"] == [
        {"role": "system", "content": "Rules."},
        {"role": "user", "content": TEXT},
    ]
    sent = {
        name: recorded.body[name]
        for name in (
            "n",
            "temperature",
            "top_logprobs",
            "logprobs",
            "max_tokens",
            "seed",
        )
    }
    assert sent == {
        "n": 2,
        "temperature": 1.0,
        "top_logprobs": 5,
        "logprobs": True,
        "max_tokens": 50,
        "seed": 3,
    }
    assert recorded.body["response_format"]["json_schema"]["strict"] is True
    assert [choice.text for choice in reply.choices] == [
        '{"useful": 1}',
        '{"useful": 0}',
    ]
    assert "".join(token.token for token in reply.choices[0].tokens) == '{"useful": 1}'
    assert reply.usage.prompt_tokens > 0
    assert reply.usage.cost is None  # nobody knows the price of openai/test
    assert reply.usage.models == ("test",)


def test_a_known_model_has_a_price():
    with LoopbackServer() as server:
        model = LiteLLMModel(
            "openai/gpt-4o-mini", api_base=server.base_url, api_key=KEY
        )
        assert (RUNNER.run(model.complete(REQUEST)).usage.cost or 0) > 0


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "{'type': 'literal_error', 'loc': ('body', 'response_format', 'type')}",
            "RequestRejected",
        ),
        ("Extra inputs are not permitted: top_logprobs", "RequestRejected"),
        ("Input should be a list: messages", "TransientJudgeError"),
    ],
)
def test_a_server_that_sends_500_for_a_parameter_is_understood(text, kind):
    """Servers built on pydantic do.

    The first text is that of llama.cpp's Python server, shortened.
    """
    fault = EndpointFault(500, text=text)
    assert type(judge_error(fault, "m")).__name__ == kind


@pytest.mark.parametrize("model", ["ollama_chat/x", "hosted_vllm/x"])
@pytest.mark.parametrize(
    "body", ["[]", '{"choices": [{"message": "x"}]}', '{"choices": [', "<html>"]
)
def test_a_reply_that_cannot_be_read_is_called_that(model, body):
    """LiteLLM calls some of them connection errors."""
    with LoopbackServer(faults=lambda number: Fault(200, body=body)) as server:
        found = LiteLLMModel(model, api_base=server.base_url, api_key="none")
        with pytest.raises(
            errors.TransientJudgeError, match=r"no valid reply|its whole reply"
        ):
            RUNNER.run(found.complete(ChatRequest(REQUEST.messages)))


def test_retry_after_as_seconds_or_date():
    now = datetime(2030, 1, 1, tzinfo=UTC)
    assert seconds_of_retry_after("1.5") == 1.5
    assert seconds_of_retry_after("-3") == 0.0
    assert seconds_of_retry_after("Tue, 01 Jan 2030 00:00:07 GMT", now) == 7.0
    assert seconds_of_retry_after("Tue, 01 Jan 2029 00:00:07 GMT", now) == 0.0
    assert [
        seconds_of_retry_after(header) for header in (None, "", "soon", "nan", "inf")
    ] == [None] * 5


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
        ("anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-flash", "GEMINI_API_KEY"),
    ],
)
def test_a_missing_key_names_its_variable(model, variable):
    with pytest.raises(errors.AuthenticationFailed) as caught:
        RUNNER.run(LiteLLMModel(model).complete(ChatRequest(REQUEST.messages)))
    error = caught.value
    assert variable in str(error)


@pytest.mark.parametrize("model", ["foo", "foo/bar"])
def test_an_unknown_provider_is_explained(model):
    error = raised(LiteLLMModel(model))
    assert type(error) is errors.JudgeUnavailable
    assert "openai/" in str(error)
    assert "ollama/" in str(error)


def test_the_repr_hides_the_key():
    model = LiteLLMModel(
        "openai/x", api_base="http://host/v1", api_key=KEY, extra={"a": KEY}
    )
    assert repr(model) == "LiteLLMModel('openai/x', api_base='http://host/v1')"
    assert KEY not in model.cache_key


def test_extra_arguments_keep_stored_replies_apart():
    plain, seeded = (
        LiteLLMModel("openai/x"),
        LiteLLMModel("openai/x", extra={"seed": 1}),
    )
    assert plain.cache_key != seeded.cache_key
    assert seeded.cache_key == LiteLLMModel("openai/x", extra={"seed": 1}).cache_key


def test_the_address_that_litellm_takes_from_the_environment_keeps_stored_replies_apart(
    monkeypatch,
):
    """Those of all providers count, and only where none was given."""

    def keys() -> list[str | None]:
        made = (
            LiteLLMModel("azure/x"),
            LiteLLMModel("ollama/x"),
            LiteLLMModel("azure/x", api_base="http://a/v1"),
        )
        return [model.cache_key for model in made]

    before = keys()
    monkeypatch.setenv("AZURE_API_BASE", "http://b")
    monkeypatch.setenv("DB_HOST", "db")
    assert [one == other for one, other in zip(before, keys(), strict=True)] == [
        False,
        False,
        True,
    ]


def test_keys_users_and_headers_do_not_keep_stored_replies_apart():
    plain = LiteLLMModel("azure/x", api_base="http://host/v1")
    same = LiteLLMModel(
        "azure/x",
        api_base="http://host/v1",
        api_key=KEY,
        timeout=1.0,
        extra={"extra_headers": {"Authorization": KEY}, "api_key": KEY},
    )
    assert plain.cache_key == same.cache_key
    assert (
        plain.cache_key != LiteLLMModel("azure/x", api_base="http://host/v2").cache_key
    )


MEANT = {
    "RequestRejected": (
        "ImageFetchError VectorStoreSearchError InvalidRequestError BadRequestError"
        " UnprocessableEntityError GuardrailRaisedException BlockedPiiEntityError LiteLLMUnknownProvider"
    ),
    "JudgeUnavailable": "NotFoundError PaymentRequiredError BudgetExceededError PermissionDeniedError",
    "ContextWindowExceeded": "ContextWindowExceededError",
    "ContentRefused": "ContentPolicyViolationError",
    "AuthenticationFailed": "AuthenticationError",
    "RateLimited": "RateLimitError",
    "JudgeError": "OpenAIError",  # says nothing of an endpoint
    "NoReplyInTime": "Timeout",
    "TransientJudgeError": (
        "APIConnectionError MidStreamFallbackError ServiceUnavailableError BadGatewayError"
        " InternalServerError APIResponseValidationError MockException APIError"
    ),
}


NEW = {  # of LiteLLM 1.109, with their bases
    "CallerCredentialAuthenticationError": "AuthenticationError",
    "CallerCredentialRateLimitError": "RateLimitError",
    "EndpointNotSupportedByModelError": "BadRequestError",
    "MalformedRequestFieldError": "BadRequestError",
    "UnsupportedEndpointError": "BadRequestError",
}


def test_every_exception_of_litellm_has_a_counterpart(monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    theirs = {
        name: value
        for name, value in vars(litellm.exceptions).items()
        if isinstance(value, type)
        and issubclass(value, Exception)
        and value.__module__ == "litellm.exceptions"
    }
    for name, base in NEW.items():
        theirs.setdefault(name, type(name, (theirs[base],), {}))
    meant = {name: ours for ours, names in MEANT.items() for name in names.split()}
    for name, kind in theirs.items():
        # One of a later release than those listed here is what its base is.
        wanted = next(
            (meant[base.__name__] for base in kind.__mro__ if base.__name__ in meant),
            "JudgeError",
        )
        raised = _instance(kind)

        async def fail(raised: Exception = raised, **_: object) -> None:
            raise raised

        monkeypatch.setattr(litellm, "acompletion", fail)
        with pytest.raises(errors.JudgeError) as caught:
            RUNNER.run(
                LiteLLMModel("openai/x", api_key="k").complete(
                    ChatRequest((Message("user", "x"),))
                )
            )
        assert type(caught.value).__name__ == wanted, name


def test_litellm_may_change_the_schema_that_it_is_given(monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    async def change(response_format: Any, **_: object) -> None:
        response_format["json_schema"]["schema"]["properties"].clear()
        raise ValueError

    monkeypatch.setattr(litellm, "acompletion", change)
    schema = {"type": "object", "properties": {"useful": {"type": "integer"}}}
    request = ChatRequest((Message("user", "x"),), schema=schema)
    with pytest.raises(errors.JudgeError):
        RUNNER.run(LiteLLMModel("openai/x", api_key="k").complete(request))
    assert schema["properties"] == {"useful": {"type": "integer"}}


def _instance(kind: type[Exception]) -> Exception:
    """An exception of LiteLLM's, whatever it wants to be made of."""
    known: dict[str, Any] = {
        "status_code": 500,
        "request": httpx.Request("POST", "http://x"),
        "response": httpx.Response(
            403 if "Permission" in kind.__name__ else 400,
            request=httpx.Request("POST", "http://x"),
        ),
        "current_cost": 1.0,
        "max_budget": 1.0,
        "request_data": {},
        "failures": (),
    }
    wanted = [
        parameter.name
        for parameter in inspect.signature(kind.__init__).parameters.values()
        if parameter.name != "self"
        and parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    return kind(**{name: known.get(name, "x") for name in wanted})


SILENT = """
import asyncio, socket, sys
asked = set()
connect, lookup = socket.socket.connect, socket.getaddrinfo
socket.socket.connect = lambda self, address: (asked.add(address[:2]), connect(self, address))[1]
def resolve(host, *rest, **options):
    asked.add((host, rest[0] if rest else None))
    return lookup(host, *rest, **options)
socket.getaddrinfo = resolve
sys.addaudithook(lambda event, args: asked.add(args[1][:2]) if event == "socket.connect" else None)

from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.models.litellm_model import LiteLLMModel
from ragmetrics_core.data.asking import Instructions, Part, Question
from ragmetrics_core.metrics.context_utilization import Usefulness
from ragmetrics_core.testing.chat_model_contract import ChatModelContract
from loopback import Fault, LoopbackServer
from one_loop import OneLoop
assert "litellm" not in sys.modules
assert "aiohttp.web" in sys.modules

question = Question(
    parts={"chunk": Part("Chunk", "c")}, instructions=Instructions('{"useful": 0|1}\\n{chunk}'), Reply=Usefulness
)
with LoopbackServer(faults=lambda number: Fault(500) if number % 2 else None) as server:
    async def run():
        for _ in range(4):
            judge = LLMJudge(LiteLLMModel("openai/test", api_base=server.base_url, api_key="k"), attempts=1)
            await judge.answer(question)
    asyncio.run(run())
    port = int(server.base_url.split(":")[2].split("/")[0])
assert {(host, int(to)) for host, to in asked} == {("127.0.0.1", port)}, asked
"""


@pytest.mark.nightly
def test_nothing_is_printed_and_no_other_host_is_asked():
    done = subprocess.run(
        [sys.executable, "-c", SILENT],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[3],
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Which judge


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lexcial", "'lexical'"),
        ("gpt-4o-mni", "'gpt-4o-mini'"),
        ("decision/tiny", "'decisions/tiny'"),
        ("system-one/tiny", "'systemone/tiny'"),
        ("systemon/a/b", "'systemone/a/b'"),
    ],
)
def test_a_misspelt_judge_is_asked_about(name, meant):
    """Only where LiteLLM knows no such name either, which it has to be loaded for."""
    with pytest.raises(errors.SettingError, match=f"did you mean {meant}"):
        resolve.resolve_judge(name)
