"""Any LlamaIndex LLM as the chat model behind an LLM judge."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from llama_index.core import Settings
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    LogProb,
    MessageRole,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, ConfigDict, create_model

from ragmetrics_core.data import follow_path
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.cache_keys import is_installed
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    TokenAlternatives,
)
from ragmetrics_core.models.framework_model import Exchange, FrameworkModel
from ragmetrics_core.models.openai_form import choice_of, parameters, reply_of

T = TypeVar("T")
JudgeOrLLM = Judge | ChatModel | LLM | str | None

_Copies = dict[tuple[tuple[str, object], ...], tuple[tuple[dict[str, Any], ...], LLM]]
# how an LLM is called and watched, not what it replies
_CHANGE_NO_REPLY = frozenset({"callback_manager", "rate_limiter"})


class LlamaIndexModel(FrameworkModel):
    """A LlamaIndex LLM as a judge's model.

    It is called through its sync API in a thread, where neither its callbacks nor an
    instrumentation by OpenTelemetry see it. Handlers that an application itself puts on
    LlamaIndex's dispatcher do: they are the whole process's.

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
        name = llm.metadata.model_name
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
            if function is not None:
                functions[name] = _name_of_installed(name, function)
        form = self.llm.to_dict()
        address_in_form = str(form.get("api_base")).rstrip("/")
        addresses = _addresses_of_clients(self.llm) - {address_in_form}
        return [form, functions, sorted(addresses)]

    def _exchange(self, request: ChatRequest) -> Exchange:
        """Make ready how a request is sent to the LLM and how its reply is read.

        Example: a request for JSON calls a function of a function-calling LLM, whose
        arguments are the reply. Any other LLM is sent the messages alone.

        Returns:
            The call that sends it, its async counterpart, and the function that makes a
            reply of what either of them returns.
        """
        llm = self._with_settings(request)
        messages = [
            ChatMessage(role=MessageRole(message.role), content=message.content)
            for message in request.messages
        ]
        read_reply = partial(_reply, llm, request)
        if _asks_for_function(request) and isinstance(llm, FunctionCallingLLM):
            arguments: dict[str, Any] = {
                "tools": [_function_of_schema(request.own_schema())],
                "chat_history": messages,
                "tool_required": True,
            }
            return (
                partial(llm.chat_with_tools, **arguments),
                partial(llm.achat_with_tools, **arguments),
                read_reply,
            )
        return partial(llm.chat, messages), partial(llm.achat, messages), read_reply

    def _with_settings(self, request: ChatRequest) -> LLM:
        """Return a copy of the LLM with the settings of a request.

        Example: a request with the temperature 0.0 gets a copy, and a second request
        with the temperature 0.0 gets the same one. A copy makes a client, which takes
        longer than a call. So it is kept for further requests of this event loop, until
        the user changes the LLM. Callbacks of the LLM see none of its calls.
        """
        new_values = self._settings_for(request)
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

    def _settings_for(self, request: ChatRequest) -> dict[str, Any]:
        """The settings of a request for which the LLM has a field.

        Example: {"temperature": 0.0}. The limit of the reply's length is set only if
        the LLM has one, and never lowered: 256 and a request of 512 give 512.
        """
        settings = parameters(replace(request, schema=None, n=1, max_tokens=None))
        own_limit = getattr(self.llm, "max_tokens", None)
        if isinstance(own_limit, int) and request.max_tokens is not None:
            settings["max_tokens"] = max(own_limit, request.max_tokens)
        fields = type(self.llm).model_fields
        return {name: value for name, value in settings.items() if name in fields}


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


def _addresses_of_clients(llm: LLM) -> set[str]:
    """The addresses that the clients of an LLM call, without a slash at the end."""
    addresses = set()
    for client in (llm.__pydantic_private__ or {}).values():
        address = str(getattr(client, "base_url", ""))
        if address:
            addresses.add(address.rstrip("/"))
    return addresses


def _name_of_installed(field: str, function: object) -> str:
    """The full name of a function or class of an installed package.

    Raises:
        ValueError: If it is the user's own, or has no name that tells what it is.
    """
    module = getattr(function, "__module__", "")
    name = getattr(function, "__qualname__", "")
    is_nameless = not name or "<" in name  # such as "<lambda>" or one inside another
    if is_nameless or not is_installed(module):
        raise ValueError(f"{field} has no serialised form")
    return f"{module}.{name}"


def capabilities_of(llm: LLM) -> Capabilities:
    """What an LLM can do, as far as its class and fields tell.

    The one place that probes.
    """
    fields = set(type(llm).model_fields)
    return Capabilities(
        n=False,
        logprobs={"logprobs", "top_logprobs"} <= fields,
        json_schema=isinstance(llm, FunctionCallingLLM)
        and llm.metadata.is_function_calling_model,
        temperature="temperature" in fields,
    )


def as_judge(judge: JudgeOrLLM) -> Judge | ChatModel | str | None:
    """A LlamaIndex LLM as a judge; anything else as it is."""
    return LlamaIndexModel(judge) if isinstance(judge, LLM) else judge


def settings_judge() -> LlamaIndexModel | None:
    """The LLM that the user has set in ``Settings``; None if none is set."""
    llm = Settings._llm  # noqa: SLF001  # reading Settings.llm would make OpenAI's client where none is set
    return None if llm is None else LlamaIndexModel(llm)


def _asks_for_function(request: ChatRequest) -> bool:
    """Whether the reply is wanted as the call of a function, if the LLM can call any.

    A reply whose tokens are to be weighed must be plain text.
    """
    return request.schema is not None and not request.top_logprobs


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


def _reply(llm: LLM, request: ChatRequest, response: ChatResponse) -> ChatReply:
    """Read what an LLM replied, the tokens that it took, and why it ended.

    If the reply is a function's call, the call's arguments as JSON are the text.
    Example: a call ``verdict(holds=True)`` gives the text '{"holds": true}'.

    Args:
        llm: The LLM.
        request: What was asked.
        response: What the LLM returned.
    """
    text = response.message.content or ""
    if _asks_for_function(request) and isinstance(llm, FunctionCallingLLM):
        calls = llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        if calls:
            text = json.dumps(calls[0].tool_kwargs, ensure_ascii=False)
    tokens: tuple[TokenAlternatives, ...] = ()
    if request.top_logprobs:
        tokens = aligned(text, response.logprobs or ())
    raw = response.raw
    if isinstance(raw, BaseModel):
        raw = raw.model_dump()
    # each provider has its own names: OpenAI, Anthropic and Ollama are looked through
    facts = {"raw": raw, "more": response.additional_kwargs}
    finish_reason = _first_of_kind(
        str,
        facts,
        "raw.choices.0.finish_reason",
        "raw.stop_reason",
        "raw.done_reason",
    )
    refusal = _first_of_kind(str, facts, "raw.choices.0.message.refusal")
    choice = choice_of(text, finish_reason, refusal)
    return reply_of(
        llm.class_name(),
        [replace(choice, tokens=tokens)],
        usage={
            "prompt_tokens": _n_tokens(facts, "prompt", "input"),
            "completion_tokens": _n_tokens(facts, "completion", "output"),
        },
        models=[_first_of_kind(str, facts, "raw.model")],
    )


def _n_tokens(facts: object, *names: str) -> int | None:
    """A number of tokens, by the names that providers have for it; None if unknown."""
    paths = []
    for place in ("more", "raw.usage"):
        for name in names:
            paths.append(f"{place}.{name}_tokens")
    return _first_of_kind(int, facts, *paths)


def _first_of_kind(kind: type[T], data: object, *paths: str) -> T | None:
    """What the first path leads to that leads to something of this kind."""
    values = (follow_path(data, path.split("."))[1] for path in paths)
    return next((value for value in values if isinstance(value, kind)), None)


def aligned(
    text: str, positions: Sequence[Sequence[LogProb]]
) -> tuple[TokenAlternatives, ...]:
    """Find which token of a reply stands at each position.

    LlamaIndex gives the alternatives of each position, and does not say which of them
    was chosen. At each position it is the likeliest token with which the text goes on.
    Example: the text "Yes." and the alternatives "Yes" or "No", then "!" or ".": the
    tokens are "Yes" and ".".

    Args:
        text: The reply.
        positions: For each position its alternatives.

    Returns:
        The token at each position, with the alternatives; empty if these tokens do not
        spell the text.
    """
    rest = text
    tokens: list[TokenAlternatives] = []
    for alternatives in positions:
        listed = tuple((each.token, each.logprob) for each in alternatives)
        fitting = [each for each in listed if each[0] and rest.startswith(each[0])]
        if not fitting:
            return ()
        token, logprob = max(fitting, key=lambda each: each[1])
        rest = rest.removeprefix(token)
        tokens.append(TokenAlternatives(token, logprob, listed))
    return () if rest else tuple(tokens)
