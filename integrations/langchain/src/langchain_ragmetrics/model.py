"""Any chat model or runnable of LangChain as the model behind a judge.

A decision model of LangChain, which answers typed questions, is taken for what it is.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableBranch,
    RunnableConfig,
    RunnableParallel,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langsmith import tracing_context
from pydantic import BaseModel, TypeAdapter

from langchain_ragmetrics.recording.recorder import JUDGE_TAG
from langchain_ragmetrics.values import compact, message_of
from ragmetrics_core.data import errors
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.decision_forms import (
    no_answers,
    systemone_choices,
    systemone_fields,
    tokens_by_name,
)
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.framework_model import Exchange, FrameworkModel
from ragmetrics_core.models.openai_form import choice_of, parameters, reply_of

LangChainJudge = Judge | ChatModel | Runnable[Any, Any] | str | None

_CONFIG: RunnableConfig = {"callbacks": [], "tags": [JUDGE_TAG]}
_KINDS: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}
_LIMITS = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")


class LangChainModel(FrameworkModel):
    """A chat model or runnable of LangChain as a judge's model.

    A runnable takes messages and gives a message or text. The model is called in a
    thread of its own and in an empty context: neither your callbacks nor your tracing
    see the judge. A thread that hangs delays nothing.

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
        cache_key: str | None = None,
    ) -> None:
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
        self._model = model

    def _form(self) -> object:
        """As LangChain writes it to a file.

        Raises:
            ValueError: If it leaves out a part.
        """
        return _serialised(self._model)

    def _quiet(self) -> AbstractContextManager[object]:
        return tracing_context(enabled=False)

    def _exchange(self, request: ChatRequest) -> Exchange:
        """Return what sends a request, sync and async, and what reads the reply.

        Several replies are asked for at once only of a chat model. A request with a
        schema goes to the model's structured output where it has one.
        """
        messages: Any = [
            _KINDS[message.role](content=message.content)
            for message in request.messages
        ]
        model, extra = self._set(request)
        if request.n > 1 and isinstance(model, BaseChatModel):
            several = {"messages": [messages], **_CONFIG, **extra}
            return (
                partial(model.generate, **several),
                partial(model.agenerate, **several),
                self._generated,
            )
        if (bound := self._structured(request, model)) is not None:
            return (
                partial(bound.invoke, messages, _CONFIG),
                partial(bound.ainvoke, messages, _CONFIG),
                self._parsed,
            )
        calls = (
            partial(model.invoke, messages, _CONFIG, **extra),
            partial(model.ainvoke, messages, _CONFIG, **extra),
        )
        return *calls, lambda output: self._reply([_choice(output)], [output])

    def _generated(self, result: LLMResult) -> ChatReply:
        replies = [
            generation.message
            if isinstance(generation, ChatGeneration)
            else generation.text
            for generation in result.generations[0]
        ]
        return self._reply(map(_choice, replies), replies, result.llm_output)

    def _parsed(self, output: Any) -> ChatReply:
        """What was parsed, else the raw text, which may be JSON all the same."""
        raw, parsed = (
            (output.get("raw"), output.get("parsed"))
            if isinstance(output, Mapping)
            else (None, output)
        )
        choice = _choice("" if raw is None else raw)
        return self._reply(
            [choice if parsed is None else Choice(compact(parsed), choice.finish)],
            [raw],
        )

    def _reply(
        self,
        choices: Iterable[Choice],
        replies: Sequence[object],
        llm_output: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """The reply with its usage.

        Of several replies the usage of all together counts, where that is told.
        """
        messages = [reply for reply in replies if isinstance(reply, AIMessage)]
        counted = [
            message.usage_metadata
            for message in messages
            if message.usage_metadata is not None
        ]
        totals = (llm_output or {}).get("token_usage") if len(replies) > 1 else None
        usage = {
            "prompt_tokens": sum(
                usage_of_message["input_tokens"] for usage_of_message in counted
            ),
            "completion_tokens": sum(
                usage_of_message["output_tokens"] for usage_of_message in counted
            ),
            **(totals if isinstance(totals, Mapping) else {}),
        }
        models = [
            facts.get("model_name")
            for facts in (
                *(message.response_metadata for message in messages),
                llm_output or {},
            )
        ]
        return reply_of(self.name, choices, usage=usage, models=models)

    def _set(self, request: ChatRequest) -> tuple[Runnable[Any, Any], dict[str, Any]]:
        """Apply a request's settings to the model.

        Returns:
            The model, copied if settings became its fields, and the settings for which
            it has no field. These are given with the call.
        """
        if not isinstance(self._model, BaseChatModel):
            return self._model, {}
        fields = type(self._model).model_fields
        limit = next((name for name in _LIMITS if name in fields), None)
        settings = parameters(replace(request, schema=None, max_tokens=None))
        if request.max_tokens is not None and limit is not None:
            settings[limit] = request.max_tokens
        settings_with_fields = {
            name: value for name, value in settings.items() if name in fields
        }
        model = (
            self._model.model_copy(update=settings_with_fields)
            if settings_with_fields
            else self._model
        )
        return model, {
            name: value for name, value in settings.items() if name not in fields
        }

    def _structured(
        self, request: ChatRequest, model: Runnable[Any, Any]
    ) -> Runnable[Any, Any] | None:
        """The model bound to the schema of the reply.

        None where the prompt alone asks for JSON.
        """
        unable = (
            request.schema is None
            or request.top_logprobs
            or self._capabilities.json_schema is False
        )
        if unable or not isinstance(model, BaseChatModel):
            return None
        schema = {"title": "reply", "description": "The reply.", **request.own_schema()}
        try:
            return model.with_structured_output(schema, include_raw=True)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise errors.UnsupportedParameter(
                f"{self.name} cannot be bound to a json_schema"
            ) from error


class LangChainDecisionModel(DecisionModel, FrameworkModel):
    """A decision model of LangChain, a ``BaseDecisionModel``, as a judge's model.

    It is called as chat models are, in a thread of its own and in an empty context.

    Args:
        model: The model.
        name: Name in results; by default the model's own.
        judge_async: Await the model's async API on the judges' event loop instead.
        cache_key: What beside the name changes its answers, for stored ones; by default
            LangChain's own serialised form of it, without secrets.
        most_questions: Most questions that one request may hold.
    """

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        name: str | None = None,
        judge_async: bool = False,
        cache_key: str | None = None,
        most_questions: int = 128,
    ) -> None:
        super().__init__(
            model,
            name or _name_of_decision_model(model),
            Capabilities(),
            judge_async,
            cache_key,
        )
        self._model = model
        self.most_questions = most_questions

    def _form(self) -> object:
        """As LangChain writes it to a file; ValueError if that leaves out a part."""
        return _serialised(self._model)

    def _quiet(self) -> AbstractContextManager[object]:
        return tracing_context(enabled=False)

    def _exchange(self, request: ChatRequest) -> Exchange:
        """Return the calls that ask the questions, and what reads the answers.

        The calls are the sync and the async one.
        """
        text = request.messages[0].content
        asked = systemone_fields(text)
        types = sys.modules["langchain_core.decisions.types"]
        question: TypeAdapter[Any] = TypeAdapter(types.Question)
        typed = {
            name: question.validate_python(fields)
            for name, fields in asked["questions"].items()
        }
        given = {"state": asked["state"], "questions": typed}
        return (
            partial(self._model.invoke, given, _CONFIG),
            partial(self._model.ainvoke, given, _CONFIG),
            partial(self._answers, text),
        )

    def _answers(self, text: str, output: Any) -> ChatReply:
        if not isinstance(output, BaseModel):
            raise no_answers(self.name, "systemone")
        # with the fields of an answer's own class, which may say that it was cut
        answered = output.model_dump(mode="json", serialize_as_any=True)
        return reply_of(
            self.name,
            systemone_choices(self.name, text, answered),
            usage=tokens_by_name(answered),
            models=[answered.get("model")],
        )


def as_judge(judge: LangChainJudge) -> Judge | ChatModel | str | None:
    """What the core takes for a judge; a runnable of LangChain is wrapped.

    Raises:
        SettingError: For a chain with a decision model in it, and for
            ``OpenAIDecisions``, which takes requests of a form of its own.
    """
    if not isinstance(judge, Runnable):
        return judge
    nature = _nature(judge)
    if nature == "openai":
        raise errors.SettingError(
            "OpenAIDecisions takes requests of OpenAI's own form: give its model by name"
            " instead, judge='decisions/MODEL'"
        )
    if nature == "mixed":
        raise errors.SettingError(
            "the judge is a chain with a decision model in it, which takes typed"
            " questions and gives probabilities, while the others take messages: give"
            " the decision model itself. Retries, settings, alternatives and fallbacks"
            " that are decision models, too, may stand around it"
        )
    if nature == "decision":
        return LangChainDecisionModel(judge)
    return LangChainModel(judge)


Nature = Literal["chat", "decision", "openai", "mixed"]
"""What a runnable takes and gives.

- ``chat``: messages, and a message or text;
- ``decision``: typed questions, and probabilities;
- ``openai``: requests of OpenAI's own form;
- ``mixed``: typed questions in one part and messages in another.
"""


def _nature(model: Runnable[Any, Any]) -> Nature:
    """What a runnable takes and gives, as far as its parts tell."""
    model = _unbound(model)
    if _is_decision_model(model):
        return "decision"
    if "OpenAIDecisions" in {kind.__name__ for kind in type(model).__mro__}:
        return "openai"
    natures = {_nature(part) for part in _alternatives(model)}
    if len(natures) == 1:
        return natures.pop()
    # what takes the input of a chain, and what gives its output
    natures |= {_nature(part) for part in _ends(model)}
    return "mixed" if natures - {"chat"} else "chat"


def _alternatives(model: Runnable[Any, Any]) -> list[Runnable[Any, Any]]:
    """The runnables of which one is called in place of this one; none of most."""
    if isinstance(model, RunnableWithFallbacks):
        return [model.runnable, *model.fallbacks]
    if not isinstance(model, DynamicRunnable):
        return []
    others: Mapping[str, Any] = getattr(model, "alternatives", {})
    return [
        model.default,
        *(other for other in others.values() if isinstance(other, Runnable)),
    ]


def _ends(model: Runnable[Any, Any]) -> list[Runnable[Any, Any]]:
    """The parts of a chain that take its input or give its output."""
    if isinstance(model, RunnableSequence):
        return [model.first, model.last]
    if isinstance(model, RunnableParallel):
        return list(model.steps__.values())
    if isinstance(model, RunnableBranch):
        return [model.default, *(branch for _, branch in model.branches)]
    return []


def _unbound(model: Runnable[Any, Any]) -> Any:
    """A model without the settings, retries and the like that are bound to it."""
    while isinstance(model, RunnableBindingBase):
        model = model.bound
    return model


def _is_decision_model(model: object) -> bool:
    """Whether it is one; where nobody has imported their module, there is none."""
    module = sys.modules.get("langchain_core.decisions.base")
    return module is not None and isinstance(model, module.BaseDecisionModel)


def _name_of_decision_model(model: Runnable[Any, Any]) -> str:
    """The name of a decision model, or of the first of several."""
    first = _unbound(model)
    while alternatives := _alternatives(first):
        first = _unbound(alternatives[0])
    return str(getattr(first, "model", "")) or str(first.get_name())


def _serialised(model: Runnable[Any, Any]) -> object:
    """As LangChain writes a model to a file.

    Raises:
        ValueError: If that leaves out a part.
    """
    form = dumpd(model)
    if "'not_implemented'" in repr(form):
        raise ValueError("a part has no serialised form")
    return form


def _capabilities(model: Runnable[Any, Any]) -> Capabilities:
    """What a model can do, as far as its class tells; the one place that probes."""
    if not isinstance(model, BaseChatModel):
        return Capabilities(
            n=False, logprobs=None, json_schema=False, temperature=False
        )
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
    """The name of a model as LangChain knows it.

    It is the name that the provider gives it, else LangChain's name for its class or
    kind.
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

    An output that is no message of LangChain is taken as text.
    """
    if not isinstance(reply, AIMessage):
        message = message_of(reply)
        return Choice(
            reply
            if isinstance(reply, str)
            else message.text
            if message is not None
            else compact(reply)
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
