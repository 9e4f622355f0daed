"""A LlamaIndex LLM as chat model: what it is asked, what is read from its replies, how its faults are told."""

import asyncio
import json
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, Literal

import pytest
from framework_model_contract import FrameworkModelContract
from keyed_endpoint import KEY, check_key_is_left_out, said
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    LogProb,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.evaluation.ragmetrics import (
    ContextAdherenceEvaluator,
    RetrievalAccuracyEvaluator,
)
from llama_index.evaluation.ragmetrics.model import (
    LlamaIndexModel,
    aligned,
    capabilities_of,
)
from pydantic import BaseModel, Field

from ragmetrics_core import evaluate
from ragmetrics_core.data.errors import (
    AuthenticationFailed,
    JudgeError,
    NoReplyInTime,
    RateLimited,
    SettingError,
    TransientJudgeError,
)
from ragmetrics_core.models.chat import Capabilities, ChatReply, ChatRequest, Message
from ragmetrics_core.models.judge_work import is_judge_work

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string"}},
    "required": ["verdict"],
}
REQUEST = ChatRequest(
    messages=(Message("system", "Judge {braces}."), Message("user", "This."))
)


class Full(CustomLLM):
    """An LLM with the fields that OpenAI-like ones have; it notes how it was called."""

    temperature: float = 0.7
    max_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int = 0
    reply: str = '{"covered": 1}'
    positions: list[list[LogProb]] | None = None
    raw: Any = None
    kwargs: dict[str, Any] = Field(default_factory=dict)
    error: Any = None
    seen: list[Any] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="full")

    def _answered(self, messages: Any) -> ChatResponse:
        self.seen.append(
            (
                self.temperature,
                self.max_tokens,
                self.logprobs,
                self.top_logprobs,
                messages,
            )
        )
        self.seen.append((threading.current_thread().name, is_judge_work()))
        if self.error is not None:
            raise self.error
        message = ChatMessage(role="assistant", content=self.reply)
        return ChatResponse(
            message=message,
            raw=self.raw,
            logprobs=self.positions,
            additional_kwargs=self.kwargs,
        )

    def chat(self, messages: Any, **_: Any) -> ChatResponse:
        return self._answered(messages)

    async def achat(self, messages: Any, **_: Any) -> ChatResponse:
        await asyncio.sleep(0)
        return self._answered(messages)

    def complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponse:
        raise NotImplementedError

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


def complete(llm: Any, request: ChatRequest = REQUEST, **settings: Any) -> ChatReply:
    return asyncio.run(LlamaIndexModel(llm, **settings).complete(request))


def test_capabilities(kit: ModuleType) -> None:
    assert capabilities_of(Full()) == Capabilities(
        n=False, logprobs=True, json_schema=False, temperature=True
    )
    assert capabilities_of(kit.ScriptedLLM()) == Capabilities(
        n=False, logprobs=False, json_schema=False, temperature=False
    )
    assert capabilities_of(kit.ToolLLM()).json_schema is True
    stated = Capabilities(temperature=False)
    assert LlamaIndexModel(Full(), capabilities=stated).capabilities() == stated


class AsksItsServer(Full):
    """As Ollama's: its server says what its window is."""

    model: str = "llama3.1"

    @property
    def metadata(self) -> LLMMetadata:
        raise ConnectionError("Failed to connect to Ollama")


def test_of_an_llm_whose_server_is_down_the_model_is_named(kit: ModuleType) -> None:
    class Ollama(kit.ToolLLM):  # type: ignore[name-defined, misc]
        metadata = AsksItsServer.metadata

    assert capabilities_of(Ollama()).json_schema is False
    judge = AsksItsServer(error=ConnectionError("Failed to connect to Ollama"))
    assert LlamaIndexModel(judge).name == "llama3.1"
    evaluator = ContextAdherenceEvaluator(judge=judge)
    result = evaluator.evaluate(query="Q?", contexts=["A."], response="A.")
    assert result.invalid_result
    assert "llama3.1" in (result.invalid_reason or "")


class Covered(BaseModel):
    covered: Literal["0", "1"]


def test_a_function_that_a_client_does_not_take_is_not_called(
    kit: ModuleType,
) -> None:
    """Google's takes no enumerated numbers."""
    n_asked = []

    class Google(kit.ToolLLM):  # type: ignore[name-defined, misc]
        def chat_with_tools(self, *_: Any, **__: Any) -> Any:
            n_asked.append(1)
            return Covered.model_validate({"covered": 1})

    row = {"question": "Q?", "contexts": ["A."], "answer": "A."}
    yes = '{"reason": "r", "supported": 1, "claims": 1, "unsupported": []}'
    model = LlamaIndexModel(Google(last=yes))
    report = evaluate([row] * 2, ["adherence"], judge=model)
    assert report.scores("context_adherence") == [1.0, 1.0]
    assert len(n_asked) == 1
    assert "json_schema" in report.usage.fallbacks


def test_a_call_is_read_in_what_the_provider_sent(kit: ModuleType) -> None:
    """LlamaIndex keeps the first call alone, and its parser completes it, or raises."""

    class Function(BaseModel):
        arguments: str

    class Call(BaseModel):
        function: Function

    class Message(BaseModel):
        tool_calls: list[Call]

    class Choice(BaseModel):
        message: Message
        finish_reason: str = "tool_calls"

    class Tokens(BaseModel):
        prompt_tokens: int = 7
        completion_tokens: int = 2
        total_tokens: int = 12

    texts = ['{"covered": 1', '{"covered": 0}']
    calls = [Call(function=Function(arguments=text)) for text in texts]
    choice = Choice(message=Message(tool_calls=calls))
    raw = {"choices": [choice], "usage": Tokens()}

    class Mistral(kit.ToolLLM):  # type: ignore[name-defined, misc]
        def chat_with_tools(self, *_: Any, **__: Any) -> ChatResponse:
            return ChatResponse(message=ChatMessage(role="assistant"), raw=raw)

        def get_tool_calls_from_response(self, *_: Any, **__: Any) -> Any:
            return json.loads(texts[0])

    reply = complete(Mistral(), replace(REQUEST, schema=SCHEMA))
    assert reply.choices[0].text == "\n".join(texts)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (7, 5)


def test_a_call_is_read_in_its_block(kit: ModuleType) -> None:
    """The arguments of a reply that was cut off are completed by LlamaIndex' parsers."""
    if not hasattr(types, "ToolCallBlock"):
        pytest.skip("this LlamaIndex has no such blocks")
    block = types.ToolCallBlock(tool_name="reply", tool_kwargs='{"verdict": "y')

    class Blocks(kit.ToolLLM):  # type: ignore[name-defined, misc]
        def chat_with_tools(self, *_: Any, **__: Any) -> ChatResponse:
            message = ChatMessage(role="assistant", blocks=[block])
            message.additional_kwargs["tool_calls"] = [
                {"id": "1", "name": "reply", "arguments": '{"verdict": "y"}'}
            ]
            return ChatResponse(message=message)

    (choice,) = complete(Blocks(), replace(REQUEST, schema=SCHEMA)).choices
    assert choice.text == '{"verdict": "y'


def test_the_core_says_what_makes_a_judge_of_a_model() -> None:
    with pytest.raises(
        SettingError,
        match=r"llama_index; give LlamaIndexModel\(…\).*llama_index.evaluation",
    ):
        evaluate([{"question": "Q?", "answer": "A."}], judge=Full())  # type: ignore[arg-type]  # it is no judge


def test_names(kit: ModuleType) -> None:
    from llama_index.core.llms import MockLLM

    assert LlamaIndexModel(Full()).name == "full"
    assert LlamaIndexModel(MockLLM()).name == "MockLLM"
    assert LlamaIndexModel(MockLLM()).cache_key
    # a class of these tests
    assert LlamaIndexModel(kit.ScriptedLLM()).cache_key is None
    assert LlamaIndexModel(kit.ScriptedLLM(), cache_key="mine").cache_key == "mine"
    assert repr(LlamaIndexModel(Full())) == "LlamaIndexModel('full')"


def test_a_copy_is_made_once_and_again_for_a_changed_llm() -> None:
    """Each makes a client of its own."""
    seen: list[Any] = []

    class Noting(Full):
        def chat(self, messages: Any, **_: Any) -> ChatResponse:
            seen.append(self)
            return super().chat(messages)

    llm = Noting()
    model = LlamaIndexModel(llm)
    warm = ChatRequest(messages=REQUEST.messages, temperature=1.0)

    async def ask() -> None:
        for request in (REQUEST, REQUEST, warm, warm):
            await model.complete(request)
        llm.reply = "changed"
        assert (await model.complete(REQUEST)).choices[0].text == "changed"

    asyncio.run(ask())
    first, again, other, other_again, changed = seen
    assert first is again is not other is other_again
    assert changed is not first
    assert all(one is not llm for one in seen)


@pytest.mark.parametrize("judge_async", [False, True])
def test_what_is_asked(judge_async: bool) -> None:
    llm = Full(
        seen=[],
        max_tokens=10,
        raw={"usage": {"prompt_tokens": 3, "completion_tokens": 4}, "model": "full-1"},
    )
    request = ChatRequest(
        messages=REQUEST.messages, temperature=1.0, top_logprobs=5, max_tokens=100
    )
    reply = complete(llm, request, judge_async=judge_async)
    (temperature, max_tokens, logprobs, top, messages), (thread, paused) = llm.seen
    assert (temperature, max_tokens, logprobs, top) == (1.0, 100, True, 5)
    assert [(message.role.value, message.content) for message in messages] == [
        ("system", "Judge {braces}."),
        ("user", "This."),
    ]
    assert (thread == "ragmetrics-model") is not judge_async
    assert paused
    assert (llm.temperature, llm.max_tokens) == (
        0.7,
        10,
    ), "the user's object is untouched"
    assert (
        reply.usage.calls,
        reply.usage.prompt_tokens,
        reply.usage.completion_tokens,
    ) == (1, 3, 4)
    assert (reply.usage.models, reply.usage.cost) == (("full-1",), None)


def test_a_function_calling_llm_replies_through_a_function(kit: ModuleType) -> None:
    seen: list[Any] = []

    class Calling(kit.ToolLLM):
        def chat_with_tools(self, tools: Any, **settings: Any) -> ChatResponse:
            seen.append(
                (
                    tools[0].metadata.name,
                    tools[0].metadata.get_parameters_dict(),
                    settings["tool_required"],
                )
            )
            return super().chat_with_tools(tools, **settings)

    request = ChatRequest(messages=REQUEST.messages, schema=SCHEMA)
    reply = complete(Calling(calls=[("reply", {"verdict": "ja – „yes“"})]), request)
    assert json.loads(reply.choices[0].text) == {"verdict": "ja – „yes“"}
    assert seen == [("reply", SCHEMA, True)]
    assert (
        complete(
            Calling(last='{"supported": 0, "claims": 1, "unsupported": ["it"]}'),
            request,
        )
        .choices[0]
        .text
        == '{"supported": 0, "claims": 1, "unsupported": ["it"]}'
    )
    weighed = ChatRequest(messages=REQUEST.messages, schema=SCHEMA, top_logprobs=5)
    assert (
        complete(Calling(calls=[("reply", {})], last="x"), weighed).choices[0].text
        == ""
    )
    assert isinstance(ToolSelection.model_fields, dict)


@pytest.mark.parametrize(
    ("raw", "finish"),
    [
        ({"choices": [{"finish_reason": "length"}]}, "length"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"done_reason": "stop"}, "stop"),
        ({"stopReason": "max_tokens"}, "length"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"choices": [{"finish_reason": "content_filter"}]}, "refused"),
        (None, "stop"),
    ],
)
def test_finish(raw: Any, finish: str) -> None:
    assert complete(Full(raw=raw)).choices[0].finish == finish


def positions(*spelled: tuple[str, ...]) -> list[list[LogProb]]:
    return [
        [LogProb(token=token, logprob=-0.1 * (n + 1)) for n, token in enumerate(tokens)]
        for tokens in spelled
    ]


def test_tokens_are_found_among_the_alternatives() -> None:
    found = aligned(
        '{"a": 1}',
        positions(
            ('{"', "{"), ("b", "a", "ab"), ('": ', '"'), ("0", "1", " 1"), ("}", "x")
        ),
    )
    assert [token["token"] for token in found] == ['{"', "a", '": ', "1", "}"]
    likeliest = found[3]["top_logprobs"][0]
    assert (likeliest["token"], likeliest["logprob"]) == ("0", -0.1)
    assert found[3]["logprob"] == pytest.approx(-0.2)
    assert aligned("ab", positions(("a", "ab"), ("b", "c"))) != []
    # no early choice is taken back: the judge is polled instead
    assert aligned("abc", positions(("ab", "a"), ("bc", "x"))) == []
    assert aligned("xyz", positions(("a",), ("b",))) == []
    assert aligned("abc", positions(("ab",))) == []


def test_probabilities_from_log_probs(kit: ModuleType) -> None:
    listed = [
        [LogProb(token='{"covered": ', logprob=-0.01)],
        *positions(("1", "0")),
        [LogProb(token="}", logprob=-0.01)],
    ]
    listed[1] = [
        LogProb(token="1", logprob=math.log(0.8)),
        LogProb(token="0", logprob=math.log(0.2)),
    ]
    llm = Full(positions=listed)
    evaluator = RetrievalAccuracyEvaluator(llm=llm)
    sample_result = evaluator.metric.score(
        facts=["Paris is the capital."], contexts=["Paris."], judge=LlamaIndexModel(llm)
    )
    assert sample_result.status == "scored"
    cell = sample_result.evidence.cells[0][0]  # type: ignore[union-attr]
    assert cell.mode == "logprobs"
    assert cell.probability == pytest.approx(0.8)


class Status(Exception):
    def __init__(self, status: int) -> None:
        super().__init__("an endpoint's words")
        self.status_code = status


@pytest.mark.parametrize("judge_async", [False, True])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Status(401), AuthenticationFailed),
        (Status(429), RateLimited),
        (TimeoutError(), NoReplyInTime),
        (ConnectionResetError(), TransientJudgeError),
        (ZeroDivisionError("an endpoint's words"), JudgeError),
    ],
)
def test_faults(error: Exception, kind: type[Exception], judge_async: bool) -> None:
    with pytest.raises(kind) as caught:
        complete(Full(error=error), judge_async=judge_async)
    assert "endpoint's words" not in str(caught.value)


class Calling(Full):
    """An LLM that says or raises what a function does, and can do nothing else."""

    call: Any = None

    def _answered(self, messages: Any) -> ChatResponse:
        return ChatResponse(message=ChatMessage(role="assistant", content=self.call()))


class TestLLM(FrameworkModelContract):
    judge_async = False

    def model(self, call: Callable[[], str]) -> LlamaIndexModel:
        able = Capabilities(
            n=False, logprobs=False, json_schema=False, temperature=False
        )
        return LlamaIndexModel(
            Calling(call=call), capabilities=able, judge_async=self.judge_async
        )


def test_a_wrong_key_and_a_bug_are_invalid_results() -> None:
    fields: dict[str, Any] = {"query": "q", "response": "a", "contexts": ["c"]}
    refused = ContextAdherenceEvaluator(llm=Full(error=Status(401))).evaluate(**fields)
    assert refused.invalid_result
    assert "refused the key" in (refused.invalid_reason or "")
    broken = ContextAdherenceEvaluator(llm=Full(error=ZeroDivisionError())).evaluate(
        **fields
    )
    assert broken.invalid_result


def test_a_judge_over_json(kit: ModuleType) -> None:
    reply = (
        'I think.\n{"reason": "There.", "supported": 1, "claims": 1, "unsupported": []}'
    )
    evaluator = ContextAdherenceEvaluator(
        llm=kit.ScriptedLLM(script={"": reply}), polls=3
    )
    result = evaluator.evaluate(query="q", response="a", contexts=["c {x}"])
    assert (result.score, result.feedback) == (1.0, "There.")
    assert result.metric_result is not None
    assert "n" in result.metric_result.usage.fallbacks
    assert result.metric_result.usage.calls == 3


def test_a_key_that_the_endpoint_repeats_is_left_out() -> None:
    def model(*, is_refused: bool) -> LlamaIndexModel:
        keyed = Keyed(call=lambda: said(is_refused), api_key=KEY)
        able = Capabilities(False, False, False, False)
        return LlamaIndexModel(keyed, capabilities=able)

    check_key_is_left_out(model(is_refused=False), model(is_refused=True))


class Keyed(Calling):
    """An LLM that holds its key."""

    api_key: str
