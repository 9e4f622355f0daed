"""Any chat model or runnable of LangChain as the model behind a judge."""

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any

from langchain_core.callbacks import BaseCallbackManager, CallbackManager
from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableSequence,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langsmith import tracing_context
from pydantic import BaseModel, SecretStr

from langchain_ragmetrics.values import message_of, plain
from ragmetrics_core.capture import (
    Capabilities,
    FrameworkModel,
    JudgeLike,
    ReplacedMethods,
)

LangChainJudge = JudgeLike | Runnable[Any, Any]

_CONFIG: RunnableConfig = {"callbacks": []}
_MESSAGE_CLASSES: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}
# the limit of a reply's length: in a request, and as a field of LangChain's models
_NAMES_OF_LIMIT = ("max_tokens", "max_completion_tokens")
_NAMES_OF_TOKENS = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "total_tokens": "total_tokens",
}
_LIMIT_FIELDS = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")


def _leaving_out_handlers_of_process(add: Callable[..., None]) -> Callable[..., None]:
    """Make an ``add_handler`` that adds no handler of the whole process.

    Such a handler, as that of ``set_debug(True)``, is known by its class: one is added
    where nothing is set, too. Others may be of a function that the judge is.
    """

    def add_other(manager: object, handler: object, *args: Any, **kwargs: Any) -> None:
        of_process = Context().run(CallbackManager.configure).handlers
        if type(handler) not in map(type, of_process):
            add(manager, handler, *args, **kwargs)

    return add_other


_HIDDEN_CALLS = ReplacedMethods(
    {(BaseCallbackManager, "add_handler"): _leaving_out_handlers_of_process}
)


class LangChainModel(FrameworkModel):
    """A chat model or runnable of LangChain as a judge's model.

    A runnable takes messages and gives a message or text. The model is called in a
    thread of its own and in an empty context, as a copy without its callbacks and
    without LangChain's cache: neither your callbacks nor your tracing see the judge.
    Only a model inside a function or a graph keeps its own, which cannot be copied. A
    thread that hangs delays nothing.

    Args:
        model: The model. Settings that it carries (temperature, key, …) stay; a judge
            asks for its own temperature where the model takes one per call.
        name: Name in results; by default the model's own.
        capabilities: What the model can do, where you know better than ``capabilities``
            finds out.
        judge_async: Await the model's async API on the judges' event loop instead of
            calling it in threads.
        cache_key: What beside the name changes its replies, for stored ones; by default
            LangChain's own serialised form of it, without secrets. Where that leaves
            out a part, replies are kept for the process only.

    Raises:
        TypeError: If it is no runnable.

    Examples:
        >>> from langchain_core.runnables import RunnableLambda
        >>> LangChainModel(RunnableLambda(lambda messages: '{"useful": 1}'), name="always-yes").name
        'always-yes'
    """

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        name: str | None = None,
        capabilities: Capabilities | None = None,
        judge_async: bool = False,
        cache_key: str | None = None,
    ) -> None:
        """Take the model; see the class for the arguments."""
        if not isinstance(model, Runnable):
            raise TypeError(
                "LangChainModel needs a chat model or runnable of LangChain, got"
                f" {type(model).__name__}"
            )
        super().__init__(
            model,
            name or _name_of(model),
            capabilities or _capabilities(model),
            judge_async,
            cache_key,
        )
        self._model = _unwatched(model)

    def _form(self) -> object:
        """As LangChain writes it to a file.

        Raises:
            ValueError: If it leaves out a part.
        """
        form = dumpd(self._model)
        if "'not_implemented'" in repr(form):
            raise ValueError("a part has no serialised form")
        return form

    def _secrets(self) -> list[str]:
        parts: list[Any] = [self._model]
        for part in parts:  # the list grows
            if isinstance(part, RunnableSequence):
                parts += part.steps
            elif isinstance(part, RunnableBindingBase):
                parts.append(part.bound)
        values = [value for part in parts for value in vars(part).values()]
        return [
            value.get_secret_value() for value in values if isinstance(value, SecretStr)
        ]

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        with tracing_context(enabled=False), _HIDDEN_CALLS.hide():
            yield

    def _exchange(
        self, messages: list[dict[str, str]], settings: dict[str, Any]
    ) -> FrameworkModel.Exchange:
        """Make ready how a request is sent to the model and how its output is read.

        Example: the message "Who?" of the user calls ``model.invoke([HumanMessage(
        "Who?")])``. There are three ways: several replies at once, a reply in a JSON
        schema, a reply as text. A runnable that is no chat model takes no settings.
        """
        shown: Any = [
            _MESSAGE_CLASSES[message["role"]](content=message["content"])
            for message in messages
        ]
        model = self._model
        if not isinstance(model, BaseChatModel):
            return (
                partial(model.invoke, shown, _CONFIG),
                partial(model.ainvoke, shown, _CONFIG),
                _read_output,
            )

        # without the schema, to which the model is bound below
        schema = settings.get("response_format", {}).get("json_schema")
        if schema is not None:
            del settings["response_format"]
        # the limit under the model's own name, such as "num_predict" of ``ChatOllama``,
        # and never as an argument of a call
        fields = type(model).model_fields
        limits = [settings.pop(name, None) for name in _NAMES_OF_LIMIT]
        limit_fields = [name for name in _LIMIT_FIELDS if name in fields]
        if limit_fields and any(limits):
            settings[limit_fields[0]] = next(filter(None, limits))
        # settings for which the model has a field are set in a copy of it
        settings_of_call = {k: v for k, v in settings.items() if k not in fields}
        settings_of_model = {k: v for k, v in settings.items() if k in fields}
        if settings_of_model:
            model = model.model_copy(update=settings_of_model)

        if settings.get("n", 1) > 1:
            # generate() takes the fields of a config as arguments of their own
            arguments = {"messages": [shown], **_CONFIG, **settings_of_call}
            return (
                partial(model.generate, **arguments),
                partial(model.agenerate, **arguments),
                _read_generations,
            )
        # structured output gives no log-probabilities: the prompt alone asks for JSON then
        if schema is not None and "top_logprobs" not in settings:
            # LangChain names the tool or format by these two
            named = {"title": "reply", "description": "The reply.", **schema["schema"]}
            # it takes no settings per call
            try:
                structured: Any = model.with_structured_output(named)
            except (TypeError, ValueError) as error:
                raise NotImplementedError("no structured output") from error
            # The model alone: what follows it completes a reply that was cut off, such as
            # ``{"score": 0`` of 0.9, or raises. With ``include_raw`` the call would be in
            # a thread for which Python's end waits.
            if not isinstance(structured, RunnableSequence):
                raise NotImplementedError("no model that can be asked alone")
            structured = structured.first
            return (
                partial(structured.invoke, shown, _CONFIG),
                partial(structured.ainvoke, shown, _CONFIG),
                _read_output,
            )
        return (
            partial(model.invoke, shown, _CONFIG, **settings_of_call),
            partial(model.ainvoke, shown, _CONFIG, **settings_of_call),
            _read_output,
        )


def _read_output(output: Any) -> dict[str, Any]:
    """The reply in what a plain call returned: one message, or a text."""
    return _reply([output])


def _read_generations(result: LLMResult) -> dict[str, Any]:
    """The reply in what a call for several replies returned."""
    replies = [
        generation.message
        if isinstance(generation, ChatGeneration)
        else generation.text
        for generation in result.generations[0]
    ]
    return _reply(replies, result.llm_output)


def _reply(
    replies: Sequence[object], llm_output: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Make the reply, with the tokens that it took and the model that gave it.

    Example: a message with ``usage_metadata`` of 12 input and 3 output tokens: the
    usage is 12 prompt tokens and 3 completion tokens. For several replies the usage
    of the whole call counts, if LangChain says it.

    Args:
        replies: What LangChain gave: messages, or anything else.
        llm_output: What LangChain says of the call as a whole; None for nothing.
    """
    messages = [reply for reply in replies if isinstance(reply, AIMessage)]
    facts_of_call = llm_output or {}
    usage: dict[str, Any] = dict.fromkeys(_NAMES_OF_TOKENS.values(), 0)
    for message in messages:
        # what comes from a cache may have a cost alone
        tokens: Mapping[str, Any] = message.usage_metadata or {}
        for name, openai_name in _NAMES_OF_TOKENS.items():
            usage[openai_name] += tokens.get(name, 0)
    # each of several messages may have only a part of the tokens
    if len(replies) > 1:
        usage_of_call = facts_of_call.get("token_usage")
        if isinstance(usage_of_call, Mapping):
            usage.update(usage_of_call)
    # of the whole call LangChain gives the model's configured name
    models = [message.response_metadata.get("model_name") for message in messages]
    model = next(filter(None, models), None)
    choices = list(map(_choice, replies))
    return {"choices": choices, "usage": usage, "model": model}


def _unwatched(part: Any) -> Any:
    """Copy a runnable without its callbacks, listeners and cache, to any depth.

    A reply from a cache tells nothing of a second call. Example: of
    ``ChatOpenAI(callbacks=[tracer]).with_fallbacks([other])`` a copy that tells no
    tracer, keeps no reply, and holds such a copy of ``other``.

    Args:
        part: A runnable, or what one holds in a field: anything, also a list, tuple or
            dictionary of runnables. Where there is nothing to leave out, the same
            object is returned.
    """
    if isinstance(part, list | tuple):
        items = [_unwatched(each) for each in part]
        same = all(map(operator.is_, items, part))
        return part if same else items
    is_model = isinstance(part, Runnable) and isinstance(part, BaseModel)
    if not (is_model or isinstance(part, dict)):
        return part
    changes: dict[str, Any] = {}
    for name, value in (part if isinstance(part, dict) else vars(part)).items():
        unwatched = _unwatched(value)
        if unwatched is not value:
            changes[name] = unwatched
    if isinstance(part, dict):
        return {**part, **changes} if changes else part
    if getattr(part, "callbacks", None):
        changes["callbacks"] = None
    if isinstance(part, BaseLanguageModel):
        changes["cache"] = False
    if isinstance(part, RunnableBindingBase | DynamicRunnable) and part.config:
        config = {k: v for k, v in part.config.items() if k != "callbacks"}
        changes["config"] = config
    if isinstance(part, RunnableBindingBase):
        changes["config_factories"] = []
    return part.model_copy(update=changes) if changes else part


def _capabilities(model: Runnable[Any, Any]) -> Capabilities:
    """Find out what a model can do, as far as its class tells.

    Example: a class without a field "temperature" cannot set it: False. For a class
    with the field the value is None, unknown until it is tried: the provider's model
    may refuse it.
    """
    if not isinstance(model, BaseChatModel):
        # Any other runnable, such as ``model.with_retry()``, takes messages and no
        # settings. But a model in it may be set to reply with log-probabilities.
        return Capabilities(
            n=False, logprobs=None, json_schema=False, temperature=False
        )
    fields = type(model).model_fields
    has_logprobs = "logprobs" in fields or "top_logprobs" in fields
    # of a stream LangChain joins several replies to one
    may_give_several = "n" in fields and not getattr(model, "streaming", False)
    return Capabilities(
        n=None if may_give_several else False,
        logprobs=None if has_logprobs else False,
        json_schema=None,  # a model that takes none refuses the first request
        temperature=None if "temperature" in fields else False,
    )


def _name_of(model: Runnable[Any, Any]) -> str:
    """The name of a model as LangChain knows it.

    Example: "gpt-4o-mini", the name that the provider gives it. Without one it is
    LangChain's name for its class or kind, such as "openai-chat".
    """
    if isinstance(model, BaseChatModel):
        fields = type(model).model_fields
        names = ("model_name", "model", "model_id", "deployment_name")
        values = [getattr(model, name, None) for name in names if name in fields]
        texts = [value for value in values if isinstance(value, str) and value]
        return texts[0] if texts else model._llm_type  # noqa: SLF001  # LangChain's name of the kind of model
    if isinstance(model, RunnableBinding):
        return model.config.get("run_name") or _name_of(model.bound)
    return model.get_name()


def _choice(reply: object) -> dict[str, Any]:
    """One reply of a model, with why it ended and its log-probabilities.

    Example: ``AIMessage("Yes", response_metadata={"finish_reason": "stop"})`` gives the
    text "Yes", which ended with "stop". An output that is no message of LangChain is
    taken as text.
    """
    if not isinstance(reply, AIMessage):
        message = message_of(reply)
        text = reply
        if not isinstance(reply, str):
            text = _as_json(reply) if message is None else message.text
        return {"message": {"content": text}}
    facts = reply.response_metadata
    names = ("finish_reason", "stop_reason", "stopReason", "done_reason")
    reasons = [facts.get(name) for name in names]
    reasons.append((facts.get("incomplete_details") or {}).get("reason"))
    refusal = reply.additional_kwargs.get("refusal")
    return {
        "message": {
            "content": str(reply.text),
            "refusal": refusal,
            # as the model wrote them where that is kept, else as LangChain parsed them
            "tool_calls": reply.additional_kwargs.get("tool_calls")
            or [
                {"function": {"arguments": call["args"]}}
                for call in (*reply.tool_calls, *reply.invalid_tool_calls)
            ],
        },
        "finish_reason": next(filter(None, reasons), None),
        "logprobs": facts.get("logprobs"),
    }


def _as_json(value: object) -> str:
    return json.dumps(plain(value), ensure_ascii=False, default=str)
