"""Any chat model or runnable of LangChain as the model behind a judge."""

import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langsmith import tracing_context
from pydantic import BaseModel

from langchain_ragmetrics.values import message_of, plain
from ragmetrics_core.capture.structures import compact
from ragmetrics_core.data import errors
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.framework_model import Exchange, FrameworkModel
from ragmetrics_core.models.openai_form import choice_of, parameters, reply_of

LangChainJudge = Judge | ChatModel | Runnable[Any, Any] | str | None

_CONFIG: RunnableConfig = {"callbacks": []}
_MESSAGE_CLASSES: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}
# the fields under which LangChain's models keep the limit of a reply's length
_LIMIT_FIELDS = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")


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
        >>> LangChainModel(RunnableLambda(lambda messages: '{"claims": 1, "unsupported": []}'), name="always-yes").name
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

    def _quiet(self) -> AbstractContextManager[object]:
        return tracing_context(enabled=False)

    def _exchange(self, request: ChatRequest) -> Exchange:
        """Make ready how a request is sent to the model and how its output is read.

        Example: the message "Who?" of the user calls ``model.invoke([HumanMessage(
        "Who?")])``. There are three ways: several replies at once, a reply in a JSON
        schema, a reply as text.

        Returns:
            The call that sends it, its async counterpart, and the function that makes a
            reply of what either of them returns.
        """
        messages: Any = [
            _MESSAGE_CLASSES[message.role](content=message.content)
            for message in request.messages
        ]
        model, settings_of_call = self._with_settings(request)
        if request.n > 1 and isinstance(model, BaseChatModel):
            return self._exchange_for_several_replies(model, messages, settings_of_call)
        structured_model = self._bound_to_schema(request, model)
        if structured_model is not None:
            # it takes no settings per call
            return (
                partial(structured_model.invoke, messages, _CONFIG),
                partial(structured_model.ainvoke, messages, _CONFIG),
                self._read_structured,
            )
        return (
            partial(model.invoke, messages, _CONFIG, **settings_of_call),
            partial(model.ainvoke, messages, _CONFIG, **settings_of_call),
            self._read_output,
        )

    def _exchange_for_several_replies(
        self, model: BaseChatModel, messages: Any, settings_of_call: Mapping[str, Any]
    ) -> Exchange:
        """Make ready how a chat model is asked for several replies at once."""
        # generate() takes the fields of a config as arguments of their own
        arguments = {"messages": [messages], **_CONFIG, **settings_of_call}
        return (
            partial(model.generate, **arguments),
            partial(model.agenerate, **arguments),
            self._read_generations,
        )

    def _read_output(self, output: Any) -> ChatReply:
        """The reply in what a plain call returned: one message, or a text."""
        return self._reply([_choice(output)], [output])

    def _read_generations(self, result: LLMResult) -> ChatReply:
        """The reply in what a call for several replies returned."""
        replies: list[object] = []
        for generation in result.generations[0]:
            if isinstance(generation, ChatGeneration):
                replies.append(generation.message)
            else:
                replies.append(generation.text)
        return self._reply(map(_choice, replies), replies, result.llm_output)

    def _read_structured(self, output: Any) -> ChatReply:
        """The reply of a structured model: what was parsed, else the raw text.

        The raw text may be JSON all the same.
        """
        raw = None
        parsed = output
        if isinstance(output, Mapping):
            raw = output.get("raw")
            parsed = output.get("parsed")
        choice = _choice("" if raw is None else raw)
        if parsed is not None:
            choice = Choice(compact(plain(parsed)), choice.finish)
        return self._reply([choice], [raw])

    def _reply(
        self,
        choices: Iterable[Choice],
        replies: Sequence[object],
        llm_output: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """Make the reply, with the tokens that it took and the models that gave it.

        Example: a message with ``usage_metadata`` of 12 input and 3 output tokens: the
        usage is 12 prompt tokens and 3 completion tokens. For several replies the usage
        of the whole call counts, if LangChain says it.

        Args:
            choices: The replies of the model, as the core takes them.
            replies: The same as LangChain gave them: messages, or anything else.
            llm_output: What LangChain says of the call as a whole; None for nothing.
        """
        messages = [reply for reply in replies if isinstance(reply, AIMessage)]
        facts_of_call = llm_output or {}
        usage: dict[str, Any] = {"prompt_tokens": 0, "completion_tokens": 0}
        for message in messages:
            # what comes from a cache may have a cost alone
            tokens: Mapping[str, Any] = message.usage_metadata or {}
            usage["prompt_tokens"] += tokens.get("input_tokens", 0)
            usage["completion_tokens"] += tokens.get("output_tokens", 0)
        # each of several messages may have only a part of the tokens
        if len(replies) > 1:
            usage_of_call = facts_of_call.get("token_usage")
            if isinstance(usage_of_call, Mapping):
                usage.update(usage_of_call)
        models = [message.response_metadata.get("model_name") for message in messages]
        models.append(facts_of_call.get("model_name"))
        return reply_of(self.name, choices, usage=usage, models=models)

    def _with_settings(
        self, request: ChatRequest
    ) -> tuple[Runnable[Any, Any], dict[str, Any]]:
        """Set a request's settings, such as its temperature, in a copy of the model.

        Example: a model with the field "temperature" is copied with 0.0 in the field;
        "n" becomes an argument of the call if the model has no field "n". A reply's
        limit of length is never an argument: without a field for it, it is left out.

        Returns:
            The model or its copy, and the settings for which it has no field, as
            arguments of the call. A runnable that is no chat model takes none.
        """
        if not isinstance(self._model, BaseChatModel):
            return self._model, {}
        fields = type(self._model).model_fields
        # without the schema, to which the model is bound elsewhere
        settings = parameters(replace(request, schema=None, max_tokens=None))
        # the limit under the model's own name, such as "num_predict" of ``ChatOllama``
        limit_fields = [name for name in _LIMIT_FIELDS if name in fields]
        if request.max_tokens is not None and limit_fields:
            settings[limit_fields[0]] = request.max_tokens
        settings_of_model = {}
        settings_of_call = {}
        for name, value in settings.items():
            if name in fields:
                settings_of_model[name] = value
            else:
                settings_of_call[name] = value
        model = self._model
        if settings_of_model:
            model = model.model_copy(update=settings_of_model)
        return model, settings_of_call

    def _bound_to_schema(
        self, request: ChatRequest, model: Runnable[Any, Any]
    ) -> Runnable[Any, Any] | None:
        """Bind the model to the JSON schema of the reply (structured output).

        Example: a reply {"claims": 1, "unsupported": [], "reason": "…"} has a schema with these two
        fields.

        Returns:
            The bound model. None if the request has no schema, needs log-probabilities,
            which structured output does not give, or is no chat model. The prompt alone
            asks for JSON then.

        Raises:
            RequestRejected: If the model refuses the schema.
        """
        if not isinstance(model, BaseChatModel):
            return None
        if request.schema is None or request.top_logprobs:
            return None
        # LangChain names the tool or format by these two
        schema = {"title": "reply", "description": "The reply.", **request.own_schema()}
        try:
            return model.with_structured_output(schema, include_raw=True)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise errors.RequestRejected(
                f"{self.name} cannot be bound to a json_schema"
            ) from error


def as_judge(judge: LangChainJudge) -> Judge | ChatModel | str | None:
    """What the core takes for a judge; a runnable of LangChain is wrapped.

    Raises:
        SettingError: If it is a decision model, which answers no prompt.
    """
    if not isinstance(judge, Runnable):
        return judge
    if _is_decision_model(judge):
        raise errors.SettingError(
            "a decision model of LangChain is no judge; name its model instead, as"
            ' judge="systemone/MODEL" or judge="decisions/MODEL"'
        )
    return LangChainModel(judge)


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


def _is_decision_model(model: Runnable[Any, Any]) -> bool:
    """Whether it is one, in whatever is bound to it.

    Where nobody has imported their module, there is none.
    """
    while isinstance(model, RunnableBindingBase):
        model = model.bound
    module = sys.modules.get("langchain_core.decisions.base")
    return module is not None and isinstance(model, module.BaseDecisionModel)


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
    return Capabilities(
        n=None if "n" in fields else False,
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
        for field in ("model_name", "model", "model_id", "deployment_name"):
            value = (
                getattr(model, field, None)
                if field in type(model).model_fields
                else None
            )
            if isinstance(value, str) and value:
                return value
        return model._llm_type  # noqa: SLF001  # LangChain's name of the kind of model
    if isinstance(model, RunnableBinding):
        return model.config.get("run_name") or _name_of(model.bound)
    return model.get_name()


def _choice(reply: object) -> Choice:
    """One reply of a model, with why it ended and its log-probabilities.

    Example: ``AIMessage("Yes", response_metadata={"finish_reason": "stop"})`` gives the
    text "Yes", which ended with "stop". An output that is no message of LangChain is
    taken as text.
    """
    if not isinstance(reply, AIMessage):
        message = message_of(reply)
        return Choice(
            reply
            if isinstance(reply, str)
            else message.text
            if message is not None
            else compact(plain(reply))
        )
    facts = reply.response_metadata
    reason = (
        facts.get("finish_reason")
        or facts.get("stop_reason")
        or facts.get("done_reason")
    )
    return choice_of(
        str(reply.text),
        reason,
        reply.additional_kwargs.get("refusal"),
        facts.get("logprobs"),
    )
