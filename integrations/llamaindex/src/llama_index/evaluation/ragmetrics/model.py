"""Any LlamaIndex LLM as the chat model behind an LLM judge."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from llama_index.core import Settings
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    LLMMetadata,
    LogProb,
    MessageRole,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index_instrumentation.dispatcher import Dispatcher
from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from ragmetrics_core.capture import (
    Capabilities,
    FrameworkModel,
    JudgeLike,
    ReplacedMethods,
)

T = TypeVar("T")
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
JudgeOrLLM = JudgeLike | LLM

_Copies = dict[tuple[tuple[str, object], ...], tuple[tuple[dict[str, Any], ...], LLM]]
# how an LLM is called and watched, not what it replies
_CHANGE_NO_REPLY = frozenset({"callback_manager", "rate_limiter"})
# parameters of a request that are no setting of an LLM
_NOT_SET = ("max_tokens", "max_completion_tokens", "n", "response_format")


def _tell_nobody(*_: object, **__: object) -> None:
    """Take the place of a method that hands an event or a span to handlers."""


async def _atell_nobody(*_: object, **__: object) -> None:
    """Take the place of such an async method."""


# The handlers are the whole process's: the dispatchers hand them no call of a judge.
_HIDDEN_CALLS = ReplacedMethods(
    {
        (Dispatcher, "event"): lambda _: _tell_nobody,
        (Dispatcher, "aevent"): lambda _: _atell_nobody,
        (Dispatcher, "span_enter"): lambda _: _tell_nobody,
        (Dispatcher, "span_exit"): lambda _: _tell_nobody,
        (Dispatcher, "span_drop"): lambda _: _tell_nobody,
    }
)


class LlamaIndexModel(FrameworkModel):
    """A LlamaIndex LLM as a judge's model.

    It is called through its sync API in a thread. Neither its callbacks, nor handlers on
    LlamaIndex's dispatcher, nor an instrumentation by OpenTelemetry see it.

    A function-calling LLM replies through a function with the reply's JSON schema, any
    other in JSON as the prompt describes it. Temperature and log-probabilities are used
    where the LLM has such fields.

    Args:
        llm: The LLM; it is copied, never changed.
        judge_async: Call its async API on the judges' event loop instead.
        capabilities: What the LLM can do, if you know better than its fields tell.
        cache_key: What beside the name changes its replies, for stored ones; by default
            what ``to_dict`` writes, without secrets. Where that leaves out a part,
            replies are kept for the process only.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        judge_async: bool = False,
        capabilities: Capabilities | None = None,
        cache_key: str | None = None,
    ) -> None:
        """Take the LLM; see the class for the arguments."""
        name = _metadata(llm).model_name
        # the framework's word for no name
        name = llm.class_name() if name == "unknown" else name
        super().__init__(
            llm, name, capabilities or capabilities_of(llm), judge_async, cache_key
        )
        self.llm = llm
        # for each event loop: copies of the LLM, by the settings of a request
        self._copies: WeakKeyDictionary[asyncio.AbstractEventLoop, _Copies] = (
            WeakKeyDictionary()
        )

    def _form(self) -> object:
        """Describe the LLM, so that stored replies are used for an equal LLM only.

        The description is a list of three: what ``to_dict`` writes, and two things that
        it leaves out although they may change a reply. These are the names of functions
        that the LLM was given, and the addresses of its clients. Example:
        ``[{"model": "gpt-4o-mini", …}, {}, ["https://proxy.example/v1"]]``.

        Raises:
            ValueError: If a function is the user's own.
        """
        functions = {}
        for name, field in type(self.llm).model_fields.items():
            # ``to_dict`` leaves out the fields that are excluded: they hold functions
            if not field.exclude or name in _CHANGE_NO_REPLY:
                continue
            function = getattr(self.llm, name)
            if function is None:
                continue
            module = getattr(function, "__module__", "")
            full_name = getattr(function, "__qualname__", "")
            # such as "<lambda>" or one inside another
            if not full_name or "<" in full_name:
                raise ValueError(f"{name} has no serialised form")
            self._refuse_own_code(module)
            functions[name] = f"{module}.{full_name}"
        form = self.llm.to_dict()
        clients = (self.llm.__pydantic_private__ or {}).values()
        urls = [getattr(client, "base_url", "") for client in clients]
        addresses = {str(url).rstrip("/") for url in urls}
        addresses -= {"", str(form.get("api_base")).rstrip("/")}
        return [form, functions, sorted(addresses)]

    def _secrets(self) -> list[str]:
        key = getattr(self.llm, "api_key", None)
        return [key] if isinstance(key, str) else []

    def _quiet(self) -> AbstractContextManager[object]:
        return _HIDDEN_CALLS.hide()

    def _exchange(
        self, messages: list[dict[str, str]], settings: dict[str, Any]
    ) -> FrameworkModel.Exchange:
        """Make ready how a request is sent to the LLM and how its reply is read.

        Example: a request for JSON calls a function of a function-calling LLM, whose
        arguments are the reply. Any other LLM is sent the messages alone.
        """
        llm = self._with_settings(settings)
        shown = [
            ChatMessage(role=MessageRole(each["role"]), content=each["content"])
            for each in messages
        ]
        weighs_tokens = "top_logprobs" in settings
        schema = settings.get("response_format", {}).get("json_schema")
        # a reply whose tokens are to be weighed must be plain text
        if (
            schema is not None
            and not weighs_tokens
            and isinstance(llm, FunctionCallingLLM)
        ):
            arguments: dict[str, Any] = {
                "tools": [_function_of_schema(schema["schema"])],
                "chat_history": shown,
                "tool_required": True,
            }
            return (
                partial(llm.chat_with_tools, **arguments),
                partial(llm.achat_with_tools, **arguments),
                partial(_reply, calls_function_of=llm),
            )
        read_reply = partial(_reply, weighs_tokens=weighs_tokens)
        return partial(llm.chat, shown), partial(llm.achat, shown), read_reply

    def _with_settings(self, settings: Mapping[str, Any]) -> LLM:
        """Return a copy of the LLM with the settings of a request for which it has a field.

        Example: a request with the temperature 0.0 gets a copy, and a second request
        with the temperature 0.0 gets the same one. A copy makes a client, which takes
        longer than a call. So it is kept for further requests of this event loop, until
        the user changes the LLM. Callbacks of the LLM see none of its calls.

        The limit of the reply's length is set only if the LLM has one, and never
        lowered: 256 and a request of 512 give 512.
        """
        fields = type(self.llm).model_fields
        new_values = {
            name: value
            for name, value in settings.items()
            if name in fields and name not in _NOT_SET
        }
        own_limit = getattr(self.llm, "max_tokens", None)
        limit = settings.get("max_tokens", settings.get("max_completion_tokens"))
        if isinstance(own_limit, int) and limit is not None and "max_tokens" in fields:
            new_values["max_tokens"] = max(own_limit, limit)
        # all that the LLM holds, in its fields and its private attributes
        contents = (dict(vars(self.llm)), dict(self.llm.__pydantic_private__ or {}))
        copies = self._copies.setdefault(asyncio.get_running_loop(), {})
        key = tuple(new_values.items())
        if key in copies:
            contents_when_copied, copy = copies[key]
            if contents_when_copied == contents:
                return copy
        copy = _unwatched(self.llm, new_values)
        copies[key] = (contents, copy)
        return copy


def _unwatched(llm: LLM, new_values: Mapping[str, Any]) -> LLM:
    """Copy an LLM without its callbacks, with the LLMs that it holds.

    Example: of ``llm.as_structured_llm(Reply)`` a copy that holds a copy of ``llm``.

    Args:
        llm: The LLM.
        new_values: Values of its own fields for the copy.
    """
    # also without the handler that is set for all of LlamaIndex
    no_callbacks = CallbackManager()
    no_callbacks.set_handlers([])
    changes = {**new_values, "callback_manager": no_callbacks}
    for name, value in vars(llm).items():
        if isinstance(value, LLM):
            changes[name] = _unwatched(value, {})
    return llm.model_copy(update=changes)


def capabilities_of(llm: LLM) -> Capabilities:
    """What an LLM can do, as far as its class and fields tell.

    The one place that probes.
    """
    fields = set(type(llm).model_fields)
    return Capabilities(
        n=False,
        logprobs={"logprobs", "top_logprobs"} <= fields,
        json_schema=isinstance(llm, FunctionCallingLLM)
        and _metadata(llm).is_function_calling_model,
        temperature="temperature" in fields,
    )


def _metadata(llm: LLM) -> LLMMetadata:
    """Return what an LLM says of itself; Ollama asks its server, which may be down."""
    try:
        return llm.metadata
    except Exception:  # noqa: BLE001  # nobody knows what a client raises
        return LLMMetadata(model_name=str(getattr(llm, "model", "unknown")))


def as_judge(judge: JudgeOrLLM) -> JudgeLike:
    """A LlamaIndex LLM as a judge; anything else as it is."""
    return LlamaIndexModel(judge) if isinstance(judge, LLM) else judge


def settings_judge() -> LlamaIndexModel | None:
    """The LLM that the user has set in ``Settings``; None if none is set."""
    llm = Settings._llm  # noqa: SLF001  # reading Settings.llm would make OpenAI's client where none is set
    return None if llm is None else LlamaIndexModel(llm)


def _function_of_schema(schema: Mapping[str, Any]) -> FunctionTool:
    """Make a function for the LLM to call, whose parameters are the schema of a reply.

    Example: the schema of {"claims": 1, "unsupported": []}: the LLM calls ``reply(verdict="yes")``,
    and these arguments are its reply.
    """

    def replace_schema(generated_schema: dict[str, Any]) -> None:
        """Put our schema in the place of the one that pydantic generated."""
        generated_schema.clear()
        generated_schema.update(schema)

    def reply(**fields: Any) -> dict[str, Any]:
        """Never called: the arguments of the call are the reply."""
        return fields

    parameters_class: type[BaseModel] = create_model(
        "Reply",
        __config__=ConfigDict(extra="allow", json_schema_extra=replace_schema),
    )
    return FunctionTool.from_defaults(
        fn=reply,
        name="reply",
        description="Give your reply through this function.",
        fn_schema=parameters_class,
    )


def _reply(
    response: ChatResponse,
    *,
    calls_function_of: FunctionCallingLLM | None = None,
    weighs_tokens: bool = False,
) -> dict[str, Any]:
    """Read what an LLM replied, the tokens that it took, and why it ended.

    If the reply is a function's call, its arguments are the reply, as the model wrote
    them: LlamaIndex completes those that were cut off, ``{"score": 0`` of 0.9.

    Args:
        response: What the LLM returned.
        calls_function_of: The LLM that was asked to call a function; None if none was.
        weighs_tokens: Whether the log-probabilities of the tokens were asked for.
    """
    # as dictionaries and lists; a provider may send what its client's types do not say
    raw = _ANYTHING.dump_python(response.raw, warnings=False)
    # each provider has its own names: OpenAI, Anthropic and Ollama are looked through
    choices = raw.get("choices") if isinstance(raw, Mapping) else None
    first_choice = choices[0] if isinstance(choices, list) and choices else None
    facts = {"raw": raw, "choice": first_choice, "more": response.additional_kwargs}
    message: dict[str, Any] = {"content": response.message.content or ""}
    if calls_function_of is not None:
        message["tool_calls"] = _first_of_kind(
            list, facts, "choice.message.tool_calls"
        ) or [
            {"function": {"arguments": arguments}}
            for arguments in _arguments(response, calls_function_of)
        ]
    text = message["content"]
    tokens = aligned(text, response.logprobs or ()) if weighs_tokens else []
    finish_reason = _first_of_kind(
        str,
        facts,
        "choice.finish_reason",
        "raw.stop_reason",
        "raw.stopReason",
        "raw.done_reason",
        "raw.incomplete_details.reason",
    )
    message["refusal"] = _first_of_kind(str, facts, "choice.message.refusal")
    choice = {
        "message": message,
        "finish_reason": finish_reason,
        "logprobs": {"content": tokens},
    }
    return {
        "choices": [choice],
        "usage": {
            "prompt_tokens": _n_tokens(facts, "prompt", "input"),
            "completion_tokens": _n_tokens(facts, "completion", "output"),
            "total_tokens": _n_tokens(facts, "total"),
        },
        "model": _first_of_kind(str, facts, "raw.model"),
    }


def _arguments(response: ChatResponse, llm: FunctionCallingLLM) -> list[object]:
    """The arguments of the functions called, as written where LlamaIndex keeps that."""
    blocks = response.message.blocks
    written = [getattr(block, "tool_kwargs", None) for block in blocks]
    if any(written):
        return list(filter(None, written))
    calls = llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
    return [call.tool_kwargs for call in calls]


def _n_tokens(facts: object, *names: str) -> int | None:
    """A number of tokens, by the names that providers have for it; None if unknown."""
    paths = []
    for place in ("more", "raw.usage"):
        paths += [f"{place}.{name}_tokens" for name in names]
    return _first_of_kind(int, facts, *paths)


def _first_of_kind(kind: type[T], data: object, *paths: str) -> T | None:
    """What the first path leads to that leads to something of this kind."""
    for path in paths:
        value = data
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, kind):
            return value
    return None


def aligned(text: str, positions: Sequence[Sequence[LogProb]]) -> list[dict[str, Any]]:
    """Find which token of a reply stands at each position.

    LlamaIndex gives the alternatives of each position, and does not say which of them
    was chosen. At each position it is the likeliest token with which the text goes on.
    Example: the text "Yes." and the alternatives "Yes" or "No", then "!" or ".": the
    tokens are "Yes" and ".".

    Args:
        text: The reply.
        positions: For each position its alternatives.

    Returns:
        The token at each position, with the alternatives, in OpenAI's form; empty if
        these tokens do not spell the text.
    """
    rest = text
    tokens: list[dict[str, Any]] = []
    for alternatives in positions:
        fitting = [
            each for each in alternatives if each.token and rest.startswith(each.token)
        ]
        if not fitting:
            return []
        likeliest = max(fitting, key=lambda each: each.logprob)
        rest = rest.removeprefix(likeliest.token)
        listed = [vars(each) for each in alternatives]
        tokens.append({**vars(likeliest), "top_logprobs": listed})
    return [] if rest else tokens
