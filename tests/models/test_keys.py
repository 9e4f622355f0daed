"""Which model objects share stored replies in every process, and which have no key."""

import asyncio
import json
import sys
import types
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from loopback import Body, LoopbackServer
from pydantic import BaseModel, SecretStr

from ragmetrics_core import evaluate
from ragmetrics_core.models.cache_keys import key_of
from ragmetrics_core.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
)
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.models.session import Session


class Field(BaseModel):
    held: Any = None


QUESTION = ChatRequest((Message("user", "q"),))
Own = type("Own", (), {})
Installed = type("Installed", (), {"__module__": "json"})


def key(form: Any, thing: Any = None) -> str | None:
    return key_of(Installed() if thing is None else thing, lambda: form)


EQUAL: tuple[tuple[Any, Any], ...] = (
    ({"model": "m", "api_key": "a"}, {"model": "m", "api_key": "b"}),
    ({"model": "m", "apiKey": "a"}, {"model": "m"}),
    ({"hf_token": "a", "client_secret": "c", "password": "d"}, {}),
    ({"openai_api_key": SecretStr("a")}, {}),
    ({"default_headers": {"Authorization": "y"}}, {"extraHeaders": {"x-api-key": "z"}}),
    ({"default_headers": {"x-trace-id": "y"}}, {"default_headers": {}}),
    ({"headers": {"cookie": "y", "x": "1"}}, {"headers": {"x": "1"}}),
    ({"base": "https://me:word@host/v1"}, {"base": "https://host/v1"}),
    ({"a": [{"deep": {"token": "x"}}]}, {"a": [{"deep": {}}]}),
    ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
)
DIFFERENT: tuple[tuple[Any, Any], ...] = (
    ({"model": "m"}, {"model": "n"}),
    ({"max_tokens": 1}, {"max_tokens": 2}),
    ({"top_k": 1}, {"top_k": 2}),
    ({"eos_token": "a"}, {"eos_token": "b"}),
    ({"base": "https://a/v1"}, {"base": "https://b/v1"}),
    # a gateway chooses the model by it
    ({"headers": {"x-portkey-config": "a"}}, {"headers": {"x-portkey-config": "b"}}),
    ({"extra_headers": {"Target-Url": "a"}}, {}),
    ({"a": True}, {"a": 1}),
    ({"a": "1"}, {"a": 1}),
)
NONE: tuple[Any, ...] = (
    {"a": object()},
    {"a": {1, 2}},
    {"a": b"x"},
    {"a": print},
    {"client": SecretStr("a")},
)


@pytest.mark.parametrize("pair", EQUAL)
def test_what_is_equal(pair):
    assert key(pair[0]) == key(pair[1]) is not None


@pytest.mark.parametrize("pair", DIFFERENT)
def test_what_differs(pair):
    assert key(pair[0]) != key(pair[1])


@pytest.mark.parametrize("form", NONE)
def test_what_no_file_can_hold_has_no_key(form):
    assert key(form) is None


@pytest.mark.parametrize(
    "error", [ValueError, KeyError, RuntimeError, type("Theirs", (Exception,), {})]
)
def test_a_serialiser_that_fails_gives_no_key(error, caplog):
    def form() -> Any:
        raise error

    with caplog.at_level("DEBUG", logger="ragmetrics_core"):
        assert key_of(Installed(), form) is None
    assert caplog.messages == [
        f"replies of Installed are kept for the process only: {error.__name__}"
    ]


def test_a_class_outside_an_installed_package_has_no_key(tmp_path):
    assert key({}, Own()) is None
    assert key({}, Installed()) is not None
    installed = types.ModuleType("a_package_for_tests")
    installed.__file__ = str(tmp_path / "site-packages" / "a_package_for_tests.py")
    sys.modules[installed.__name__] = installed
    try:
        inner = type("Inner", (BaseModel,), {"__module__": installed.__name__})
        outer = type("Outer", (Field,), {"__module__": installed.__name__})
        assert key({}, outer()) is not None
        assert key({}, outer(held=[inner()])) is not None
        assert key({}, outer(held=[{"a": Field()}])) is None  # a class of this file
    finally:
        del sys.modules[installed.__name__]


@pytest.mark.parametrize(
    ("variable", "is_address"),
    [
        ("OPENAI_BASE_URL", True),
        ("OPENAI_API_BASE", True),
        ("MISTRALAI_API_BASE", True),
        ("AZURE_OPENAI_ENDPOINT", True),
        ("OLLAMA_HOST", True),
        ("HF_ENDPOINT", True),
        ("DB_HOST", False),
        ("LANGSMITH_ENDPOINT", False),
        ("OPENAI_LOG_HOSTS", False),
    ],
)
def test_of_the_environment_only_the_addresses_of_providers_count(
    variable, is_address, monkeypatch
):
    form = {"type": "ChatOpenAI"}
    before = key(form)
    monkeypatch.setenv(variable, "http://me:word@b/v1")
    after = key(form)
    assert None not in (before, after)
    assert (before != after) == is_address
    monkeypatch.setenv(variable, "http://me:other@b/v1")
    assert key(form) == after


def test_names_in_what_is_sent_as_it_is_are_no_settings_and_no_secrets():
    for field in ("tools", "functions", "response_format", "extra_body"):
        for name in ("name", "metadata", "timeout", "answer_key"):
            first, second = (
                {"deep": [{field: [{name: {"type": kind}}]}]}
                for kind in ("string", "number")
            )
            assert key(first) != key(second), (field, name)
    schema = {"type": "object", "properties": {"token": {"type": "string"}}}
    assert key({"schema": schema}) != key(
        {"schema": {**schema, "properties": {"tags": {"type": "string"}}}}
    )
    assert key({"tools": [{"api_key": "a"}]}) == key({"tools": [{"api_key": "b"}]})


# Models behind an address.

TEXTS = st.sampled_from(["a", "b", "a,b"])
SENT = st.fixed_dictionaries(
    {
        "host": st.sampled_from(["http://a/v1", "http://b/v1"]),
        "model": TEXTS,
        "extra": st.dictionaries(
            st.sampled_from(["?", "seed", "model"]),
            st.sampled_from([1, 1.5, True, "v=1"]),
        ),
    }
)
NOT_SENT = st.fixed_dictionaries(
    {
        "api_key": st.sampled_from([None, "k", "l"]),
        "timeout": st.sampled_from([1.0, 60.0]),
        "prices": st.sampled_from([None, (1e-6, 1e-6)]),
        "api_key_env": st.sampled_from([None, "A_KEY", "B_KEY"]),
    }
)


def compatible(sent: dict[str, Any], other: dict[str, Any]) -> OpenAICompatibleModel:
    return OpenAICompatibleModel(
        sent["host"], sent["model"], extra=sent["extra"], name="judge", **other
    )


@given(SENT, SENT, NOT_SENT, NOT_SENT)
def test_models_share_stored_replies_if_they_send_the_same_to_the_same_address(
    first, second, here, there
):
    one, other = compatible(first, here), compatible(second, there)
    # What is sent, as JSON writes it: true is another value than 1.
    sent = [
        json.dumps([part["host"], made.body(QUESTION)], sort_keys=True)
        for part, made in ((first, one), (second, other))
    ]
    if one.cache_key == other.cache_key:
        assert sent[0] == sent[1]
    if first == second and json.dumps(first) == json.dumps(second):
        assert one.cache_key == other.cache_key


def test_two_models_under_one_name_have_stored_replies_of_their_own(tmp_path):
    rows = [{"question": "q", "answer": "a", "contexts": ["c"]}]
    asked = []

    def reply(body: Body) -> str:
        asked.append(body["model"])
        return (
            '{"reason": "", "supported": 1, "claims": 1, "unsupported": []}'
            if body["model"] == "good"
            else '{"reason": "", "supported": 0, "claims": 1, "unsupported": ["a"]}'
        )

    with LoopbackServer(reply) as server:
        values = []
        for model in ("good", "bad"):
            judge = OpenAICompatibleModel(server.base_url, model, name="judge")
            report = evaluate(
                rows, ["adherence"], judge=judge, store=tmp_path / "s.sqlite"
            )
            values.append(report.results[0].results["context_adherence"].value)
    assert set(asked) == {"good", "bad"}
    assert values == [1.0, 0.0]


def test_a_model_under_another_name_is_asked_anew(tmp_path):
    rows = [{"question": "q", "answer": "a", "contexts": ["c"]}]
    with LoopbackServer(
        lambda body: '{"reason": "", "supported": 1, "claims": 1, "unsupported": []}'
    ) as server:
        calls = []
        for name in ("one", "two", "one"):
            judge = OpenAICompatibleModel(server.base_url, "good", name=name)
            report = evaluate(
                rows, ["adherence"], judge=judge, store=tmp_path / "s.sqlite"
            )
            calls.append(report.summary().usage.calls)
    assert [count > 0 for count in calls] == [True, True, False]


# Requests.

OBJECT = {"type": "object"}
ASKED = st.fixed_dictionaries(
    {
        "messages": st.lists(
            st.tuples(st.sampled_from(["system", "user"]), TEXTS),
            min_size=1,
            max_size=3,
        ),
        "schema": st.sampled_from([None, OBJECT, {"a": 1, "b": 2}, {"b": 2, "a": 1}]),
        "temperature": st.sampled_from([None, 0.0, 1.0]),
        "top_logprobs": st.sampled_from([0, 5]),
        "max_tokens": st.sampled_from([None, 5, 50]),
        "poll": st.sampled_from([0, 1]),
        "name": TEXTS,
        "cache_key": TEXTS,
    }
)


class Echo(ChatModel):
    """A model that always says the same."""

    name = cache_key = ""

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply((Choice("x"),) * request.n)


def key_in_store(asked: dict[str, Any], **how: Any) -> str:
    """The key under which the reply to a request is kept."""
    keys: list[str] = []

    class Keys(MemoryStore):
        def put(self, choices: Mapping[str, Choice]) -> None:
            keys.extend(choices)

    model = Echo()
    model.name, model.cache_key = asked["name"], asked["cache_key"]
    request = ChatRequest(
        tuple(Message(role, text) for role, text in asked["messages"]),
        **{
            name: asked[name]
            for name in ("schema", "temperature", "top_logprobs", "max_tokens")
        },
    )
    session = Session(model, **how)
    run = session.during(store=Keys(), concurrency=3)
    asking = run.ask(request, lambda choice: choice.text, first_poll=asked["poll"])
    asyncio.run(asking)
    (key,) = keys
    return key


def as_sent(asked: dict[str, Any]) -> str:
    """What is asked in any order of its parts; within a part the order counts."""
    return json.dumps([[name, asked[name]] for name in sorted(asked)])


@pytest.mark.nightly
@given(ASKED, ASKED)
@settings(max_examples=examples(60))
def test_requests_share_a_stored_reply_if_and_only_if_nothing_that_is_sent_differs(
    first, second
):
    same = as_sent(first) == as_sent(second)
    assert (
        key_in_store(first) == key_in_store(second, attempts=3, timeout=7.0)
    ) == same
    for name in first:  # one difference is enough
        mixed = {**first, name: second[name]}
        assert (key_in_store(mixed) == key_in_store(first)) == (
            as_sent(mixed) == as_sent(first)
        ), name
