"""Any chat model or runnable of LangChain as the model behind a judge."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Literal, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langsmith import tracing_context

from langchain_ragmetrics.capturing.recorder import JUDGE_TAG
from langchain_ragmetrics.values import compact, said
from ragmetrics_core.capturing import as_judge_work
from ragmetrics_core.judging.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Choice, TokenAlternatives
from ragmetrics_core.judging.endpoint_errors import Fault, judge_error
from ragmetrics_core.model import errors
from ragmetrics_core.model.questions import Usage

T = TypeVar("T")
_CONFIG: RunnableConfig = {"callbacks": [], "tags": [JUDGE_TAG]}
_KINDS: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
_LIMITS = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")
_FINISHES: dict[str, Literal["stop", "length", "refused", "other"]] = {
    **dict.fromkeys(("stop", "end_turn", "tool_calls", "tool_use", "stop_sequence", "eos", "completed"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "incomplete"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "refused", "safety", "blocklist", "prohibited_content"), "refused"),
}


class LangChainModel(ChatModel):
    """A chat model of LangChain, or any runnable from messages to a message or text, as a judge's model.

    The model is called in a thread of its own and in an empty context: neither your callbacks nor your tracing
    see the judge. A thread that hangs delays nothing.

    Args:
        model: The model. Settings that it carries (temperature, key, …) stay; a judge asks for its own
            temperature where the model takes one per call.
        name: Name in results; by default the model's own.
        capabilities: What the model can do, where you know better than ``capabilities`` finds out.
        judge_async: Await the model's async API on the judges' event loop instead of calling it in threads.

    Raises:
        TypeError: If it is no runnable.

    Example:
        >>> from langchain_core.runnables import RunnableLambda
        >>> LangChainModel(RunnableLambda(lambda messages: '{"verdict": "yes"}'), name="always-yes").name
        'always-yes'
    """

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        name: str | None = None,
        capabilities: Capabilities | None = None,
        judge_async: bool = False,
    ) -> None:
        if not isinstance(model, Runnable):
            raise TypeError(f"LangChainModel needs a chat model or runnable of LangChain, got {type(model).__name__}")
        self._model = model
        self._name = name or _name_of(model)
        self._capabilities = capabilities or _capabilities(model)
        self._async = judge_async

    @property
    def name(self) -> str:
        """Name of the model, for results."""
        return self._name

    def __repr__(self) -> str:
        return f"LangChainModel({self._name!r})"

    def capabilities(self) -> Capabilities:
        """What the model can do, as far as known without a call."""
        return self._capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Send one request.

        Returns:
            The reply. With several replies or log-probabilities asked for, the JSON schema is left to the prompt:
            a reply through a tool call would have neither.

        Raises:
            JudgeError: Mapped from whatever the model's client raised.
        """
        task = asyncio.ensure_future(self._acall(request) if self._async else _in_thread(lambda: self._call(request)))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, Exception) or isinstance(error, errors.RagMetricsError):
            raise error
        raise _judge_error(error, self._name) from error

    def _call(self, request: ChatRequest) -> ChatReply:
        messages = _messages(request)
        if request.n > 1 and isinstance(self._model, BaseChatModel):
            result = self._model.generate([messages], callbacks=[], tags=[JUDGE_TAG], **self._settings(request))
            replies = [getattr(generation, "message", generation.text) for generation in result.generations[0]]
            return _reply(replies, result.llm_output)
        structured = self._structured(request)
        if structured is not None:
            return _structured_reply(structured.invoke(messages, _CONFIG))
        return _reply([self._bound(request).invoke(messages, _CONFIG)])

    async def _acall(self, request: ChatRequest) -> ChatReply:
        work = asyncio.get_running_loop().create_task(
            self._marked(self._acall_here(request)), context=contextvars.Context()
        )
        return await work

    async def _marked(self, work: Coroutine[Any, Any, ChatReply]) -> ChatReply:
        with as_judge_work(), tracing_context(enabled=False):
            return await work

    async def _acall_here(self, request: ChatRequest) -> ChatReply:
        messages = _messages(request)
        if request.n > 1 and isinstance(self._model, BaseChatModel):
            settings = self._settings(request)
            result = await self._model.agenerate([messages], callbacks=[], tags=[JUDGE_TAG], **settings)
            replies = [getattr(generation, "message", generation.text) for generation in result.generations[0]]
            return _reply(replies, result.llm_output)
        structured = self._structured(request)
        if structured is not None:
            return _structured_reply(await structured.ainvoke(messages, _CONFIG))
        return _reply([await self._bound(request).ainvoke(messages, _CONFIG)])

    def _settings(self, request: ChatRequest) -> dict[str, Any]:
        """Parameters of one call, as far as the model takes them."""
        if not isinstance(self._model, BaseChatModel):
            return {}
        settings: dict[str, Any] = {}
        if request.temperature is not None and self._capabilities.temperature is not False:
            settings["temperature"] = request.temperature
        limit = next((name for name in _LIMITS if name in type(self._model).model_fields), None)
        if request.max_tokens is not None and limit is not None:
            settings[limit] = request.max_tokens
        if request.top_logprobs:
            settings |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.n > 1:
            settings["n"] = request.n
        return settings

    def _bound(self, request: ChatRequest) -> Runnable[Any, Any]:
        settings = self._settings(request)
        return self._model.bind(**settings) if settings else self._model

    def _structured(self, request: ChatRequest) -> Runnable[Any, Any] | None:
        """The model bound to the schema of the reply; None where the prompt alone asks for JSON."""
        unable = request.schema is None or request.top_logprobs or self._capabilities.json_schema is False
        if unable or not isinstance(self._model, BaseChatModel):
            return None
        schema = {"title": "reply", "description": "The reply.", **(request.schema or {})}
        try:
            return self._model.with_structured_output(schema, include_raw=True, **self._settings(request))
        except (NotImplementedError, TypeError, ValueError):  # the model, or this version of it, cannot
            return None


def _capabilities(model: Runnable[Any, Any]) -> Capabilities:
    """What a model can do, as far as its class tells; the one place that probes."""
    if not isinstance(model, BaseChatModel):
        return Capabilities(n=False, logprobs=None, json_schema=False, temperature=False)
    cls = type(model)
    structured = (
        cls.bind_tools is not BaseChatModel.bind_tools
        or cls.with_structured_output is not BaseChatModel.with_structured_output
    )
    fields = cls.model_fields
    return Capabilities(
        n=None if "n" in fields else False,
        logprobs=None if "logprobs" in fields or "top_logprobs" in fields else False,
        json_schema=None if structured else False,
        temperature=None if "temperature" in fields else False,
    )


def _name_of(model: Runnable[Any, Any]) -> str:
    if isinstance(model, BaseChatModel):
        for field in ("model_name", "model", "model_id", "deployment_name"):
            value = getattr(model, field, None) if field in type(model).model_fields else None
            if isinstance(value, str) and value:
                return value
        return model._llm_type  # noqa: SLF001  # LangChain's name of the kind of model
    if isinstance(model, RunnableBinding):
        return model.config.get("run_name") or _name_of(model.bound)
    return model.get_name()


def _messages(request: ChatRequest) -> list[BaseMessage]:
    return [_KINDS[message.role](content=message.content) for message in request.messages]


class _Handover(Generic[T]):
    """Hands what a thread ends with, result or exception, to whoever waits."""

    def __init__(self) -> None:
        self.future: Future[T] = Future()
        self.future.set_running_or_notify_cancel()  # whoever gives up waiting cannot take it back

    def __enter__(self) -> Future[T]:
        return self.future

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is not None:
            self.future.set_exception(error)
        return True


def _in_thread(call: Callable[[], T]) -> Coroutine[Any, Any, T]:
    """Call in a daemon thread with an empty context: it neither is traced nor keeps the process from ending."""
    handover: _Handover[T] = _Handover()

    def work() -> None:
        with handover as done, as_judge_work(), tracing_context(enabled=False):
            done.set_result(call())

    threading.Thread(target=contextvars.Context().run, args=(work,), name="ragmetrics-langchain", daemon=True).start()

    async def wait() -> T:
        return await asyncio.wrap_future(handover.future)

    return wait()


def _structured_reply(output: Any) -> ChatReply:
    """The reply of a model bound to a schema: what was parsed, else the raw text, which may be JSON all the same."""
    raw, parsed = (output.get("raw"), output.get("parsed")) if isinstance(output, Mapping) else (None, output)
    reply = _reply([raw if raw is not None else ""])
    if parsed is None:
        return reply
    choice = Choice(compact(parsed), reply.choices[0].finish)
    return ChatReply((choice,), reply.usage)


def _reply(replies: Sequence[object], llm_output: Mapping[str, Any] | None = None) -> ChatReply:
    messages = [reply for reply in replies if isinstance(reply, AIMessage)]
    usage = [message.usage_metadata for message in messages if message.usage_metadata is not None]
    totals = (llm_output or {}).get("token_usage") if len(replies) > 1 else None
    sent = totals.get("prompt_tokens") if isinstance(totals, Mapping) else None
    received = totals.get("completion_tokens") if isinstance(totals, Mapping) else None
    names = (message.response_metadata.get("model_name") for message in messages)
    return ChatReply(
        tuple(_choice(reply) for reply in replies),
        Usage(
            calls=1,
            prompt_tokens=sent if isinstance(sent, int) else sum(one["input_tokens"] for one in usage),
            completion_tokens=received if isinstance(received, int) else sum(one["output_tokens"] for one in usage),
            cost=None,
            models=tuple(sorted({name for name in names if isinstance(name, str)})),
        ),
    )


def _choice(reply: object) -> Choice:
    if not isinstance(reply, AIMessage):
        message = said(reply)
        return Choice(reply if isinstance(reply, str) else message.text if message is not None else compact(reply))
    facts = reply.response_metadata
    reason = str(facts.get("finish_reason") or facts.get("stop_reason") or facts.get("done_reason") or "stop")
    finish = "refused" if reply.additional_kwargs.get("refusal") else _FINISHES.get(reason.lower(), "other")
    return Choice(str(reply.text), finish, _tokens(facts.get("logprobs")))


def _tokens(logprobs: object) -> tuple[TokenAlternatives, ...]:
    """Log-probabilities in the form that OpenAI-like endpoints give."""
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return tuple(
        TokenAlternatives(
            str(token["token"]),
            float(token["logprob"]),
            tuple((str(other["token"]), float(other["logprob"])) for other in token.get("top_logprobs") or ()),
        )
        for token in content or ()
    )


def _judge_error(error: Exception, name: str) -> errors.JudgeError:
    """Map an exception of any provider's client: by its status, else by its kind."""
    fault = Fault.of(error)
    if isinstance(error, TimeoutError):
        kind: type[errors.JudgeError] = errors.JudgeTimeout
    elif isinstance(error, ConnectionError):
        kind = errors.ConnectionFailed
    elif fault.status == 429:
        kind = errors.RateLimited
    elif isinstance(error, (TypeError, ValueError, NotImplementedError)) and fault.status is None:
        kind = errors.UnsupportedParameter  # a client that does not know a parameter
    elif fault.status is not None and 400 <= fault.status < 500 and fault.status not in _NARROWED:
        kind = errors.ContextWindowExceeded if "context" in fault.text.lower() else errors.RequestRejected
    else:
        kind = errors.JudgeServerError  # narrowed by its status and its causes
    return judge_error(kind, fault, name, None, ())


_NARROWED = frozenset({401, 402, 403, 404, 408, 429})
