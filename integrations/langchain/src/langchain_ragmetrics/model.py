"""Any chat model or runnable of LangChain as the model behind a judge."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langsmith import tracing_context

from langchain_ragmetrics.capturing.recorder import JUDGE_TAG
from langchain_ragmetrics.identity import parts
from langchain_ragmetrics.replies import generated_reply, judge_error_of, reply_of, structured_reply
from ragmetrics_core.capturing import as_judge_work
from ragmetrics_core.data import errors
from ragmetrics_core.endpoints.chat import Capabilities, ChatModel, ChatReply, ChatRequest
from ragmetrics_core.endpoints.identity import apart, identity
from ragmetrics_core.endpoints.threads import in_thread

T = TypeVar("T")
_CONFIG: RunnableConfig = {"callbacks": [], "tags": [JUDGE_TAG]}
_KINDS: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
_LIMITS = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")


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
        self._apart = apart(model)

    @property
    def name(self) -> str:
        """Name of the model, for results."""
        return self._name

    @property
    def endpoint(self) -> str:
        """What makes up the model, in a digest without keys, to keep stored replies apart.

        It is the same in every process. Where a part cannot be described, it is this object's own: stored replies are
        then used by no other.
        """
        return identity(self._model, parts) or self._apart

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
        raise judge_error_of(error, self._name) from error

    def _call(self, request: ChatRequest) -> ChatReply:
        messages, model, extra = _messages(request), *self._set(request)
        if request.n > 1 and isinstance(model, BaseChatModel):
            return generated_reply(model.generate([messages], callbacks=[], tags=[JUDGE_TAG], **extra))
        structured = self._structured(request, model)
        if structured is not None:
            return structured_reply(structured.invoke(messages, _CONFIG))
        return reply_of([model.invoke(messages, _CONFIG, **extra)])

    async def _acall(self, request: ChatRequest) -> ChatReply:
        work = asyncio.get_running_loop().create_task(
            self._marked(self._acall_here(request)), context=contextvars.Context()
        )
        return await work

    async def _marked(self, work: Coroutine[Any, Any, ChatReply]) -> ChatReply:
        with as_judge_work(), tracing_context(enabled=False):
            return await work

    async def _acall_here(self, request: ChatRequest) -> ChatReply:
        messages, model, extra = _messages(request), *self._set(request)
        if request.n > 1 and isinstance(model, BaseChatModel):
            return generated_reply(await model.agenerate([messages], callbacks=[], tags=[JUDGE_TAG], **extra))
        structured = self._structured(request, model)
        if structured is not None:
            return structured_reply(await structured.ainvoke(messages, _CONFIG))
        return reply_of([await model.ainvoke(messages, _CONFIG, **extra)])

    def _set(self, request: ChatRequest) -> tuple[Runnable[Any, Any], dict[str, Any]]:
        """The model with the request's settings, and those that it has no field for, to be given with the call."""
        if not isinstance(self._model, BaseChatModel):
            return self._model, {}
        fields, able = type(self._model).model_fields, self._capabilities
        wanted: dict[str, Any] = {}
        if request.temperature is not None and able.temperature is not False:
            wanted["temperature"] = request.temperature
        limit = next((name for name in _LIMITS if name in fields), None)
        if request.max_tokens is not None and limit is not None:
            wanted[limit] = request.max_tokens
        if request.top_logprobs and able.logprobs is not False:
            wanted |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.n > 1 and able.n is not False:
            wanted["n"] = request.n
        known = {name: value for name, value in wanted.items() if name in fields}
        model = self._model.model_copy(update=known) if known else self._model
        return model, {name: value for name, value in wanted.items() if name not in fields}

    def _structured(self, request: ChatRequest, model: Runnable[Any, Any]) -> Runnable[Any, Any] | None:
        """The model bound to the schema of the reply; None where the prompt alone asks for JSON."""
        unable = request.schema is None or request.top_logprobs or self._capabilities.json_schema is False
        if unable or not isinstance(model, BaseChatModel):
            return None
        schema = {"title": "reply", "description": "The reply.", **request.own_schema()}
        try:
            return model.with_structured_output(schema, include_raw=True)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise errors.UnsupportedParameter(f"{self._name} cannot be bound to a json_schema") from error


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


def _in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """Call in a thread with an empty context, where it is not traced."""

    def work() -> T:
        with as_judge_work(), tracing_context(enabled=False):
            return call()

    return asyncio.wrap_future(in_thread(work, context=contextvars.Context(), name="ragmetrics-langchain"))
