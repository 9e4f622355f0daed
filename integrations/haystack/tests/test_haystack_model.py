"""HaystackModel: a ChatGenerator as the model of a judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from haystack import component, tracing
from haystack.components.generators.chat import (
    FallbackChatGenerator,
    MockChatGenerator,
    OpenAIChatGenerator,
)
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.utils import Secret
from haystack_integrations.components.evaluators.ragmetrics import HaystackModel
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
from keyed_endpoint import KEY, check_key_is_left_out, said
from loopback import Fault, LoopbackServer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmetrics_core import ContextAdherence, LLMJudge, Sample, evaluate
from ragmetrics_core.data import errors
from ragmetrics_core.models.chat import Capabilities, ChatRequest, Message

SAMPLE = Sample(
    question="Capital?",
    contexts=("Paris is the capital of France.", "Wine."),
    answer="Paris.",
)
REQUEST = ChatRequest(
    (Message("system", "s"), Message("user", "u")), temperature=0.5, max_tokens=7
)


@pytest.fixture
def openai_model(
    loopback_server: Callable[..., LoopbackServer],
) -> Iterator[Callable[..., tuple[HaystackModel, LoopbackServer]]]:
    made: list[HaystackModel] = []

    def make(
        judge_async: bool = False, **settings: Any
    ) -> tuple[HaystackModel, LoopbackServer]:
        server = loopback_server(**settings)
        generator = OpenAIChatGenerator(
            api_key=Secret.from_token("sk-secret"),
            model="judge",
            api_base_url=server.base_url,
            max_retries=0,
        )
        made.append(HaystackModel(generator, judge_async=judge_async))
        return made[-1], server

    yield make
    for model in made:
        model.close()


def complete(model: HaystackModel, request: ChatRequest = REQUEST) -> Any:
    return asyncio.run(model.complete(request))


def test_the_core_says_what_makes_a_judge_of_a_model() -> None:
    with pytest.raises(
        errors.SettingError,
        match=r"haystack; give HaystackModel\(…\).*haystack_integrations",
    ):
        evaluate([{"question": "Q?", "answer": "A."}], judge=MockChatGenerator("A."))  # type: ignore[arg-type]  # it is no judge


@pytest.mark.parametrize("judge_async", [False, True])
def test_a_judge_on_it(openai_model: Callable[..., Any], judge_async: bool) -> None:
    model, _ = openai_model(judge_async=judge_async)
    outcome = ContextAdherence(cause=False).score(SAMPLE, judge=LLMJudge(model))
    assert outcome.status == "scored"
    assert outcome.judge == "judge"
    assert outcome.usage.calls == 1  # five polls in one request


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(status=401, code="invalid_api_key"), errors.AuthenticationFailed),
        (Fault(status=429, headers={"Retry-After": "3"}), errors.RateLimited),
        (
            Fault(status=400, code="context_length_exceeded"),
            errors.ContextWindowExceeded,
        ),
        (Fault(reset=True), errors.TransientJudgeError),
    ],
)
def test_errors_are_mapped(
    openai_model: Callable[..., Any], fault: Fault, expected: type[errors.JudgeError]
) -> None:
    model, _ = openai_model(faults=lambda number: fault)
    with pytest.raises(expected) as caught:
        complete(model)
    assert type(caught.value) is expected
    assert caught.value.__cause__ is None  # a client's words may hold keys and texts
    assert "sk-secret" not in str(caught.value)
    if expected is errors.RateLimited:
        assert caught.value.retry_after == 3  # type: ignore[attr-defined]


def test_a_missing_key_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(errors.AuthenticationFailed):
        complete(
            HaystackModel(
                OpenAIChatGenerator(
                    api_key=Secret.from_env_var("OPENAI_API_KEY", strict=False)
                )
            )
        )


class Plain:
    """The least that the protocol asks for."""

    def __init__(self, output: Any) -> None:
        self.output = output

    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        assert [message.role.value for message in messages] == ["system", "user"]
        return self.output  # type: ignore[no-any-return]


def test_a_generator_with_nothing_but_run() -> None:
    model = HaystackModel(
        Plain(
            {
                "replies": [
                    ChatMessage.from_assistant("x", meta={"finish_reason": "length"})
                ]
            }
        )
    )
    assert model.name == "Plain"
    assert model.capabilities() == Capabilities(
        n=False, logprobs=False, json_schema=False, temperature=False
    )
    (choice,) = complete(model).choices
    assert (choice.text, choice.finish, choice.tokens) == ("x", "length", ())


@pytest.mark.parametrize("output", [{}, {"replies": []}, {"replies": ["text"]}, []])
def test_no_reply_is_an_error(output: Any) -> None:
    with pytest.raises(errors.TransientJudgeError):
        complete(HaystackModel(Plain(output)))


@pytest.mark.parametrize("judge_async", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_streams_to_the_application_shows_it_no_reply_of_a_judge(
    depth: int, judge_async: bool
) -> None:
    streamed: list[str] = []

    def show(chunk: StreamingChunk) -> None:
        streamed.append(chunk.content)

    inner = MockChatGenerator("yes", streaming_callback=show)
    generator: Any = inner
    for _ in range(depth):
        generator = FallbackChatGenerator([generator, MockChatGenerator("no")])
    model = HaystackModel(generator, judge_async=judge_async)
    assert complete(model).choices[0].text == "yes"
    assert streamed == []
    assert inner.streaming_callback is show
    generator.run([ChatMessage.from_user("u")])
    assert "".join(streamed) == "yes", "the application streams as before"


@pytest.mark.parametrize("judge_async", [False, True])
def test_a_tracer_of_opentelemetry_sees_no_call_of_a_generator_inside_another(
    judge_async: bool,
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    generator = FallbackChatGenerator([MockChatGenerator("yes")])
    tracing.enable_tracing(OpenTelemetryTracer(provider.get_tracer("test")))
    try:
        complete(HaystackModel(generator, judge_async=judge_async))
        assert not exporter.get_finished_spans()
        # the lowest release opens no span for a generator
        with tracing.tracer.trace("application"):
            generator.run([ChatMessage.from_user("u")])
    finally:
        tracing.disable_tracing()
    assert exporter.get_finished_spans(), "the application's own calls are seen"


def test_a_generator_that_streams_to_nobody_is_called_itself() -> None:
    generator = FallbackChatGenerator([MockChatGenerator("yes")])
    assert HaystackModel(generator).chat_generator is generator


def test_names() -> None:
    mock = HaystackModel(MockChatGenerator("x", model="mock"))
    assert mock.name == "mock"
    assert HaystackModel(MockChatGenerator("x"), name="own").name == "own"
    assert (
        HaystackModel(FallbackChatGenerator([MockChatGenerator("x")])).name
        == "FallbackChatGenerator"
    )
    plain = HaystackModel(OpenAIChatGenerator(api_key=Secret.from_token("k")))
    assert plain.capabilities() == Capabilities()
    assert (
        HaystackModel(MockChatGenerator("x"), capabilities=Capabilities(n=True))
        .capabilities()
        .n
        is True
    )
    assert "secret" not in repr(
        HaystackModel(OpenAIChatGenerator(api_key=Secret.from_token("secret")))
    )


@component
class Keyed:
    """A generator that holds its key."""

    def __init__(self, *, is_refused: bool) -> None:
        self.api_key = Secret.from_token(KEY)
        self.is_refused = is_refused

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant(said(self.is_refused))]}


def test_a_key_that_the_endpoint_repeats_is_left_out() -> None:
    answering, refusing = (
        HaystackModel(Keyed(is_refused=is_refused)) for is_refused in (False, True)
    )
    check_key_is_left_out(answering, refusing)


def test_the_name_of_a_model_that_its_generator_keeps_for_itself() -> None:
    class Generator(MockChatGenerator):
        def __init__(self) -> None:
            super().__init__("yes")
            self.model = None
            self._model = "gemini-2.5-flash"

    assert HaystackModel(Generator()).name == "gemini-2.5-flash"
