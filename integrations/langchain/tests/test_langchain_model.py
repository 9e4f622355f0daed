"""LangChain models behind a judge: what is asked of them, what is read from them, what their errors become."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import pytest
from keyed_endpoint import KEY, check_key_is_left_out, said
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import (
    ConfigurableField,
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_fakes import Speaker
from langchain_ragmetrics import LangChainModel
from langchain_ragmetrics.capturing import as_judge
from langsmith.run_helpers import get_tracing_context
from pydantic import Field, SecretStr

from ragmetrics_core import ContextAdherence, Sample, evaluate
from ragmetrics_core.data import errors
from ragmetrics_core.models.chat import Capabilities, ChatReply, ChatRequest, Message

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string"}},
    "required": ["verdict"],
}
YES = '{"reason": "It says so.", "supported": 1, "claims": 1, "unsupported": []}'
ASK = (
    Message("system", "Judge."),
    Message("user", "Is it?"),
    Message("assistant", "No."),
    Message("user", "Again!"),
)


class Provider(BaseChatModel):
    """A model that takes settings per call as providers do, and notes them."""

    model_name: str = "provider-1"
    temperature: float = 0.7
    max_tokens: int = 10
    n: int = 1
    logprobs: bool = False
    top_logprobs: int = 0
    replies: Any = YES
    meta: dict[str, Any] = Field(default_factory=dict)
    seen: list[dict[str, Any]] = Field(default_factory=list)
    honours_n: bool = True

    @property
    def _llm_type(self) -> str:
        return "provider"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: Any = None,
        run_manager: Any = None,
        **kw: Any,
    ) -> ChatResult:
        said = [(one.type, one.text) for one in messages]
        fields = {
            name: getattr(self, name)
            for name in ("temperature", "max_tokens", "logprobs", "top_logprobs", "n")
        }
        self.seen.append(
            {"said": said, "thread": threading.get_ident(), **fields, **kw}
        )
        if isinstance(self.replies, Exception):
            raise self.replies
        count = self.n if self.honours_n else 1
        usage: Any = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        message = AIMessage(
            self.replies,
            usage_metadata=usage,
            response_metadata={"model_name": "p-1-0613", **self.meta},
        )
        return ChatResult(
            generations=[ChatGeneration(message=message) for _ in range(count)]
        )


class Structured(Provider):
    """A model that can be bound to a schema, as providers' models are."""

    outcome: Any = None

    def with_structured_output(self, schema: Any, **kw: Any) -> Runnable[Any, Any]:
        assert not kw
        if isinstance(self.outcome, Exception):
            raise self.outcome
        self.seen.append({"schema": schema, "temperature": self.temperature})
        return RunnableLambda(lambda messages: self.outcome) | JsonOutputParser()


def complete(model: Any, **request: Any) -> ChatReply:
    model = model if isinstance(model, LangChainModel) else LangChainModel(model)
    return asyncio.run(model.complete(ChatRequest(ASK, **request)))


def test_the_core_says_what_makes_a_judge_of_a_model() -> None:
    with pytest.raises(
        errors.SettingError,
        match=r"langchain_core; give LangChainModel\(…\).*langchain_ragmetrics",
    ):
        evaluate([{"question": "Q?", "answer": "A."}], judge=Provider())  # type: ignore[arg-type]  # it is no judge


def test_messages_settings_and_usage() -> None:
    provider = Provider()
    reply = complete(provider, temperature=1.0, max_tokens=99, top_logprobs=5)
    assert [choice.text for choice in reply.choices] == [YES]
    (seen,) = provider.seen
    assert seen["said"] == [
        ("system", "Judge."),
        ("human", "Is it?"),
        ("ai", "No."),
        ("human", "Again!"),
    ]
    assert (
        seen["temperature"],
        seen["max_tokens"],
        seen["logprobs"],
        seen["top_logprobs"],
    ) == (1.0, 99, True, 5)
    assert seen["thread"] != threading.get_ident()
    assert (
        reply.usage.prompt_tokens,
        reply.usage.completion_tokens,
        reply.usage.cost,
    ) == (7, 3, None)
    assert reply.usage.models == ("p-1-0613",)


class Alias(Provider):
    """As ``ChatOpenAI``: of several replies none names the model, and the call its alias."""

    def _generate(self, *args: Any, **kw: Any) -> ChatResult:
        result = super()._generate(*args, **kw)
        for generation in result.generations if self.n > 1 else ():
            generation.message.response_metadata = {}
        return result

    def _combine_llm_outputs(self, _: list[Any]) -> dict[str, Any]:
        return {"model_name": self.model_name}


def test_an_alias_is_not_the_model_that_replied() -> None:
    """Else rows with a further question, asked alone, are measured in another way."""
    assert complete(Alias(), n=3).usage.models == ()
    assert complete(Alias()).usage.models == ("p-1-0613",)
    no = '{"claims": 1, "unsupported": ["b"], "reason": "It says nothing of b."}'
    samples = [Sample(question="c?", contexts=["a"], answer="b")]
    reports = [
        evaluate(samples, ["adherence"], judge=LangChainModel(model), progress=False)
        for model in (Alias(), Alias(replies=no))
    ]
    assert reports[0].compare(reports[1]).differing == ()


@pytest.mark.parametrize(("honours", "expected"), [(True, 3), (False, 1)])
def test_several_replies_in_one_request(honours: bool, expected: int) -> None:
    """Where `n` is ignored there are fewer; the core then asks one by one."""
    provider = Provider(honours_n=honours)
    reply = complete(provider, n=3)
    assert len(reply.choices) == expected
    assert len(provider.seen) == 1
    report = evaluate(
        [Sample(contexts=["a"], answer="b")],
        [ContextAdherence(polls=5)],
        judge=LangChainModel(provider),
        progress=False,
    )
    assert report.scores("context_adherence") == [1.0]


def called(**arguments: Any) -> AIMessage:
    call: Any = {"name": "reply", "args": arguments, "id": "1"}
    return AIMessage("Let me see.", tool_calls=[call])


def test_structured_output() -> None:
    model = Structured(outcome=called(supported=1, claims=1, unsupported=[]))
    assert (
        complete(model, schema=SCHEMA, temperature=1.0).choices[0].text
        == 'Let me see.\n{"supported": 1, "claims": 1, "unsupported": []}'
    )
    assert model.seen[0]["temperature"] == 1.0
    assert model.temperature == 0.7  # the user's own model stays as it is
    assert model.seen[0]["schema"]["properties"] == SCHEMA["properties"]
    assert model.seen[0]["schema"]["title"]


@pytest.mark.parametrize("text", [YES, "no JSON", '{"supported": 1', ""])
def test_a_structured_reply_that_is_a_text_is_read_as_it_is(text: str) -> None:
    """LangChain's parser would take a part of it, or complete it."""
    model = Structured(outcome=AIMessage(text))
    assert complete(model, schema=SCHEMA).choices[0].text == text


def test_of_a_structured_model_no_step_after_the_model_is_taken() -> None:
    """That of OpenAI raises at a refusal."""

    class Own(Structured):
        def with_structured_output(self, schema: Any, **kw: Any) -> Any:
            refusal = AIMessage("", additional_kwargs={"refusal": "I will not."})
            asked: Any = RunnableLambda(lambda messages: refusal)
            return asked | RunnableLambda(itemgetter("no")) | JsonOutputParser()

    (choice,) = complete(Own(), schema=SCHEMA).choices
    assert (choice.finish, choice.text) == ("refused", "I will not.")


def test_a_structured_model_whose_parser_stays_is_asked_without_a_schema() -> None:
    """NVIDIA's completes a reply that was cut off."""

    class Own(Structured):
        def with_structured_output(self, schema: Any, **kw: Any) -> Any:
            return RunnableLambda(lambda messages: {"useful": 1})

    with pytest.raises(errors.RequestRejected, match="json_schema"):
        complete(Own(), schema=SCHEMA)
    assert complete(Own()).choices[0].text == YES


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ({"stop_reason": "tool_use"}, 'Let me see.\n{"useful": 1}\n{"useful": 0}'),
        ({"finish_reason": "TOOL_CALL"}, 'Let me see.\n{"useful": 1}\n{"useful": 0}'),
        ({"stop_reason": "max_tokens"}, ""),
        ({"stop_reason": "model_context_window_exceeded"}, ""),
        ({"stopReason": "max_tokens"}, ""),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, ""),
    ],
)
def test_calls_are_read_all_and_only_where_the_reply_has_ended(
    ends: dict[str, Any], text: str
) -> None:
    """LangChain hands on the first call, also where its arguments were cut off."""
    calls: Any = [
        {"name": "reply", "args": {"useful": useful}, "id": str(useful)}
        for useful in (1, 0)
    ]
    raw = AIMessage("Let me see.", tool_calls=calls, response_metadata=ends)
    (choice,) = complete(Structured(outcome=raw), schema=SCHEMA).choices
    assert choice.text == text
    assert (choice.finish == "length") == (text == "")


def test_tokens_that_stand_in_the_total_alone_are_counted() -> None:
    tokens: Any = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 1_120}
    reply = complete(RunnableLambda(lambda _: AIMessage(YES, usage_metadata=tokens)))
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (100, 1_020)


def test_a_call_is_read_as_its_model_wrote_it() -> None:
    """A dictionary has the second of two equal keys alone, and none that is cut off."""
    twice = '{"useful": 0, "useful": 1}'
    kept = {"tool_calls": [{"function": {"name": "reply", "arguments": twice}}]}
    call: Any = {"name": "reply", "args": {"useful": 1}, "id": "1"}
    cut: Any = {"name": "reply", "args": '{"useful": 1', "id": "1", "error": None}
    for reply, text in (
        (AIMessage("", additional_kwargs=kept, tool_calls=[call]), twice),
        (AIMessage("", invalid_tool_calls=[cut]), cut["args"]),
    ):
        outcome = complete(Structured(outcome=reply), schema=SCHEMA)
        assert outcome.choices[0].text == text


def test_a_model_that_cannot_be_bound_is_asked_without_a_schema() -> None:
    model = LangChainModel(Structured(outcome=NotImplementedError()))
    with pytest.raises(errors.RequestRejected, match="json_schema"):
        complete(model, schema=SCHEMA)
    metric = ContextAdherence(polls=1, template="{contexts}\n{answer}")
    report = evaluate(
        [Sample(contexts=["a"], answer="b")], [metric], judge=model, progress=False
    )
    assert report.scores("context_adherence") == [1.0]
    assert "json_schema" in report.usage.fallbacks


@pytest.mark.parametrize("kind", [TypeError, ValueError])
def test_what_fails_before_a_schema_is_bound_is_no_word_of_the_schema(
    kind: type[Exception],
) -> None:
    class Uncopied(Structured):
        def model_copy(self, **settings: Any) -> Any:
            if "temperature" in settings.get("update", ()):
                raise kind("no copy")
            return super().model_copy(**settings)

    with pytest.raises(errors.RequestRejected, match="json_schema"):
        complete(Structured(outcome=kind("no schema")), schema=SCHEMA)
    with pytest.raises(Exception, match=r"^(?!.*json_schema)"):
        complete(Uncopied(), schema=SCHEMA, temperature=1.0)


def test_schema_is_left_to_the_prompt_where_log_probabilities_are_asked() -> None:
    model = Structured()
    assert complete(model, schema=SCHEMA, top_logprobs=3).choices[0].text == YES


@pytest.mark.parametrize(
    "function",
    [
        lambda said: YES,
        lambda said: AIMessage(YES),
        lambda said: {
            "reason": "It says so.",
            "supported": 1,
            "claims": 1,
            "unsupported": [],
        },
    ],
)
def test_any_runnable(function: Any) -> None:
    model = LangChainModel(RunnableLambda(function), name="mine")
    known = model.capabilities()
    assert (known.n, known.json_schema, known.temperature) == (False, False, False)
    report = evaluate(
        [Sample(contexts=["a"], answer="b")],
        [ContextAdherence(polls=3)],
        judge=model,
        progress=False,
    )
    assert report.scores("context_adherence") == [1.0]
    assert report.run.judges == ("mine",)


class Streams(Provider):
    """As ``ChatOpenAI(streaming=True)``: several replies of one stream become one."""

    streaming: bool = True

    def _generate(self, *args: Any, **kw: Any) -> ChatResult:
        result = super()._generate(*args, **kw)
        first, *_ = result.generations
        text = "".join(each.text for each in result.generations)
        first.message = first.message.model_copy(update={"content": text})
        return ChatResult(generations=[first])


def test_a_model_that_streams_is_asked_for_one_reply_a_call() -> None:
    assert LangChainModel(Streams()).capabilities().n is False
    report = evaluate(
        [Sample(contexts=["a"], answer="b")],
        [ContextAdherence(polls=3)],
        judge=LangChainModel(Streams()),
        progress=False,
    )
    assert report.scores("context_adherence") == [1.0]
    assert "n" in report.results[0].usage.fallbacks


def test_names() -> None:
    assert LangChainModel(Provider()).name == "provider-1"
    assert LangChainModel(Speaker()).name == "speaker"
    assert (
        LangChainModel(
            RunnableLambda(lambda said: YES).with_config(run_name="judge")
        ).name
        == "judge"
    )
    assert (
        LangChainModel(Provider(), capabilities=Capabilities(n=False)).capabilities().n
        is False
    )
    with pytest.raises(TypeError, match="runnable"):
        LangChainModel("gpt-4o-mini")  # type: ignore[arg-type]


@pytest.mark.parametrize("judge_async", [False, True])
def test_tracing_does_not_see_the_judge(
    judge_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    enabled = []

    def look(said: Sequence[BaseMessage]) -> str:
        enabled.append(get_tracing_context()["enabled"])
        return YES

    complete(LangChainModel(RunnableLambda(look), judge_async=judge_async))
    assert enabled == [False]


def test_async_api() -> None:
    threads = []

    async def answer(said: Sequence[BaseMessage]) -> str:
        await asyncio.sleep(0)
        threads.append(threading.get_ident())
        return YES

    model = LangChainModel(
        RunnableLambda(lambda said: "sync", afunc=answer), judge_async=True
    )
    assert complete(model).choices[0].text == YES
    assert threads == [threading.get_ident()]
    assert len(complete(LangChainModel(Provider(), judge_async=True), n=2).choices) == 2


class StatusError(Exception):
    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(text)
        self.status_code = status


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (StatusError(401), errors.AuthenticationFailed),
        (StatusError(429, "insufficient_quota"), errors.JudgeUnavailable),
        (
            StatusError(400, "maximum context length exceeded"),
            errors.ContextWindowExceeded,
        ),
        (TimeoutError(), errors.NoReplyInTime),
        (ConnectionResetError(), errors.TransientJudgeError),
        (
            TypeError("unexpected keyword argument 'logprobs'"),
            errors.RequestRejected,
        ),
        (RuntimeError("secret sample text"), errors.JudgeError),
        (errors.ContentRefused("refused"), errors.ContentRefused),
    ],
)
@pytest.mark.parametrize("judge_async", [False, True])
def test_errors_become_ours(
    raised: Exception, expected: type[Exception], judge_async: bool
) -> None:
    with pytest.raises(errors.JudgeError) as caught:
        complete(LangChainModel(Provider(replies=raised), judge_async=judge_async))
    assert type(caught.value) is expected
    assert "secret" not in str(caught.value)


def test_a_decision_model_is_refused_with_the_name_that_asks_it() -> None:
    decisions = pytest.importorskip(
        "langchain_core.decisions",
        reason="decision models came with langchain-core 1.8",
    )

    class Classifier(decisions.BaseDecisionModel):  # type: ignore[misc]  # found at run time
        model: str = "tiny"

        @property
        def _provider(self) -> str:
            return "none"

        def _classify(self, state: Any, questions: dict[str, Any]) -> Any:
            raise AssertionError("it must not be asked")

    for model in (Classifier(), Classifier().with_config(tags=["mine"])):
        with pytest.raises(errors.SettingError, match="systemone/MODEL"):
            as_judge(model)


class Noted(BaseCallbackHandler):
    """Counts the calls of models that it is told of."""

    def __init__(self) -> None:
        self.n_calls = 0

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.n_calls += 1


T = ConfigurableField(id="t")
WRAPPERS: dict[str, Callable[[Any], Runnable[Any, Any]]] = {
    "bare": lambda model: model,
    "bound": lambda model: model.bind(stop=["x"]),
    "with retry": lambda model: model.with_retry(),
    "a first that works": lambda model: model.with_fallbacks([Provider()]),
    "a fallback": lambda model: Provider(replies=ValueError("no")).with_fallbacks(
        [model]
    ),
    "fields": lambda model: model.configurable_fields(temperature=T),
    "alternatives": lambda model: model.configurable_alternatives(T, other=Provider()),
    "an alternative": lambda model: (
        Provider()
        .configurable_alternatives(T, other=model)
        .with_config(configurable={"t": "other"})
    ),
    "a sequence": lambda model: (
        RunnablePassthrough() | model | RunnablePassthrough() | RunnablePassthrough()
    ),
    "parallel": lambda model: RunnableParallel(said=model) | itemgetter("said"),
    "a branch": lambda model: RunnableBranch((bool, model), Provider()),
    "to any depth": lambda model: (
        model.with_retry().with_fallbacks([Provider()]).with_config(tags=["a"])
    ),
}


@pytest.mark.parametrize("through", WRAPPERS)
def test_callbacks_and_caches_do_not_see_the_judge(through: str) -> None:
    noted = Noted()
    kept = InMemoryCache()
    model = Provider(callbacks=[noted], cache=kept)
    runnable = WRAPPERS[through](model)
    judge = LangChainModel(runnable)
    texts = [complete(judge).choices[0].text for _ in range(2)]
    assert texts == [YES, YES]
    assert len(model.seen) == 2, "a reply from a cache tells nothing of a second call"
    assert noted.n_calls == 0
    assert not kept._cache
    assert (model.callbacks, model.cache) == ([noted], kept)
    runnable.invoke("Who?")
    assert noted.n_calls == 1, "the application sees its own calls as before"
    assert len(kept._cache) == 1


@pytest.mark.parametrize("through", ["fields", "alternatives"])
def test_callbacks_in_the_config_of_a_configurable_do_not_see_the_judge(
    through: str,
) -> None:
    noted = Noted()
    runnable = WRAPPERS[through](Provider()).with_config(callbacks=[noted])
    assert complete(runnable).choices[0].text == YES
    assert noted.n_calls == 0


def test_listeners_do_not_see_the_judge() -> None:
    started: list[object] = []
    runnable = Provider().with_listeners(on_start=started.append)
    assert complete(runnable).choices[0].text == YES
    assert started == []
    runnable.invoke("Who?")
    assert len(started) == 1, "the application's own calls are heard as before"


def test_the_cache_of_all_of_langchain_does_not_answer_a_judge() -> None:
    everywhere = InMemoryCache()
    model = Provider()
    set_llm_cache(everywhere)
    try:
        for _ in range(2):
            complete(model)
            complete(model, n=2)
    finally:
        set_llm_cache(None)
    assert len(model.seen) == 4
    assert not everywhere._cache


def test_a_reply_from_a_cache_has_no_tokens() -> None:
    """What LangChain's cache gives has a cost of 0 and no more where the model says no usage."""
    usage: Any = {"total_cost": 0}
    cached = AIMessage.model_construct(content=YES, usage_metadata=usage)
    reply = complete(RunnableLambda(lambda said: cached))
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (0, 0)


class Keyed(BaseChatModel):
    """A model that holds its key, as LangChain's partners do."""

    api_key: SecretStr = SecretStr(KEY)
    is_refused: bool = False

    @property
    def _llm_type(self) -> str:
        return "keyed"

    def _generate(self, messages: Any, *args: Any, **settings: Any) -> ChatResult:
        message = AIMessage(said(self.is_refused))
        return ChatResult(generations=[ChatGeneration(message=message)])


@pytest.mark.parametrize("shape", ["model", "bound", "chain"])
def test_a_key_that_the_endpoint_repeats_is_left_out(shape: str) -> None:
    def model(*, is_refused: bool) -> LangChainModel:
        held: Any = Keyed(is_refused=is_refused)
        if shape == "bound":
            held = held.bind(stop=["x"])
        if shape == "chain":
            held = RunnableLambda(lambda messages: messages) | held
        return LangChainModel(held)

    check_key_is_left_out(model(is_refused=False), model(is_refused=True))
