"""Any LlamaIndex LLM as the chat model behind an LLM judge."""

import asyncio
import json
import logging
from collections.abc import Sequence
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
_logger = logging.getLogger("llama_index.evaluation.ragmetrics")
announced: set[str] = set()
JudgeOrLLM = Judge | ChatModel | LLM | str | None

_Copies = dict[tuple[tuple[str, object], ...], tuple[tuple[dict[str, Any], ...], LLM]]
# how an LLM is called and watched, not what it replies
_WATCHING = frozenset({"callback_manager", "rate_limiter"})


class LlamaIndexModel(FrameworkModel):
    """A LlamaIndex LLM as a judge's model.

    It is called through its sync API in a thread, where the framework's tracing does
    not see it.

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
        name = llm.metadata.model_name
        # the framework's word for no name
        name = llm.class_name() if name == "unknown" else name
        super().__init__(
            llm, name, capabilities or capabilities_of(llm), judge_async, cache_key
        )
        self.llm = llm
        self._copies: WeakKeyDictionary[asyncio.AbstractEventLoop, _Copies] = (
            WeakKeyDictionary()
        )

    def _form(self) -> object:
        """As LlamaIndex writes the LLM to a file, and what this leaves out.

        Functions are told by name, clients by their address.

        Raises:
            ValueError: If one of them is the user's own.
        """
        functions = {}
        for name, field in type(self.llm).model_fields.items():
            value = (
                getattr(self.llm, name)
                if field.exclude and name not in _WATCHING
                else None
            )
            if value is not None:
                module, label = (
                    getattr(value, "__module__", ""),
                    getattr(value, "__qualname__", ""),
                )
                if not label or "<" in label or not is_installed(module):
                    raise ValueError(f"{name} has no serialised form")
                functions[name] = f"{module}.{label}"
        form = self.llm.to_dict()
        clients = [
            str(getattr(client, "base_url", ""))
            for client in (self.llm.__pydantic_private__ or {}).values()
        ]
        addresses = {address.rstrip("/") for address in clients if address}
        return [
            form,
            functions,
            sorted(addresses - {str(form.get("api_base")).rstrip("/")}),
        ]

    def _exchange(self, request: ChatRequest) -> Exchange:
        """Return what sends a request, sync and async, and what reads the reply.

        A request with a schema is sent as the call of a function, where the LLM can
        call functions.
        """
        llm, tools = self._fitted(request), _tools(request)
        messages = [
            ChatMessage(role=MessageRole(message.role), content=message.content)
            for message in request.messages
        ]
        read_reply = partial(_reply, llm, request)
        if tools and isinstance(llm, FunctionCallingLLM):
            arguments: dict[str, Any] = {
                "tools": tools,
                "chat_history": messages,
                "tool_required": True,
            }
            return (
                partial(llm.chat_with_tools, **arguments),
                partial(llm.achat_with_tools, **arguments),
                read_reply,
            )
        return partial(llm.chat, messages), partial(llm.achat, messages), read_reply

    def _fitted(self, request: ChatRequest) -> LLM:
        """The LLM with the request's settings, where it has fields for them.

        A copy is kept for the next request, because it makes a client of its own, and
        that takes longer than a call.
        """
        fields = type(self.llm).model_fields
        settings_wanted = parameters(
            replace(request, schema=None, n=1, max_tokens=None)
        )
        own_limit = getattr(self.llm, "max_tokens", None)
        if isinstance(own_limit, int) and request.max_tokens is not None:
            settings_wanted["max_tokens"] = max(own_limit, request.max_tokens)
        update = {
            name: value for name, value in settings_wanted.items() if name in fields
        }
        llm_contents = (dict(vars(self.llm)), dict(self.llm.__pydantic_private__ or {}))
        copies = self._copies.setdefault(asyncio.get_running_loop(), {})
        contents_at_copy, copy = copies.get(
            key := tuple(update.items()), (None, self.llm)
        )
        if (
            contents_at_copy != llm_contents
        ):  # none yet, or the user has changed the LLM
            copies[key] = (llm_contents, copy := self.llm.model_copy(update=update))
        return copy


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
    """The LLM that the user has set in ``Settings``, announced once.

    None if none is set.
    """
    llm = Settings._llm  # noqa: SLF001  # reading Settings.llm would make OpenAI's client where none is set
    model_of_settings = None if llm is None else LlamaIndexModel(llm)
    if model_of_settings is not None and model_of_settings.name not in announced:
        announced.add(model_of_settings.name)
        _logger.info(
            "no judge was chosen: the LLM set in Settings answers (%s)",
            model_of_settings.name,
        )
    return model_of_settings


def _tools(request: ChatRequest) -> list[FunctionTool]:
    """A function whose parameters are the reply's schema.

    None where the reply's tokens are to be weighed.
    """
    if request.schema is None or request.top_logprobs:
        return []
    schema = request.own_schema()

    def replaced(json_schema: dict[str, Any]) -> None:
        json_schema.clear()
        json_schema.update(schema)

    def reply(**fields: Any) -> dict[str, Any]:
        return fields

    parameters: type[BaseModel] = create_model(
        "Reply", __config__=ConfigDict(extra="allow", json_schema_extra=replaced)
    )
    about = "Give your reply through this function."
    return [
        FunctionTool.from_defaults(
            fn=reply, name="reply", description=about, fn_schema=parameters
        )
    ]


def _reply(llm: LLM, request: ChatRequest, response: ChatResponse) -> ChatReply:
    """What an LLM replied, with its usage and why it ended where it tells these.

    Where the reply is a function's call, its arguments are the text.
    """
    text = response.message.content or ""
    if (
        request.schema is not None
        and not request.top_logprobs
        and isinstance(llm, FunctionCallingLLM)
    ):
        calls = llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        text = json.dumps(calls[0].tool_kwargs, ensure_ascii=False) if calls else text
    tokens = aligned(text, response.logprobs or ()) if request.top_logprobs else ()
    raw = (
        response.raw.model_dump()
        if isinstance(response.raw, BaseModel)
        else response.raw
    )
    reply_data = {"raw": raw, "more": response.additional_kwargs}
    finish_reason = _first_of_kind(
        str,
        reply_data,
        "raw.choices.0.finish_reason",
        "raw.stop_reason",
        "raw.done_reason",
    )
    places = ("more", "raw.usage")
    usage = {
        f"{usage_name}_tokens": _first_of_kind(
            int,
            reply_data,
            *(
                f"{place}.{name}_tokens"
                for place in places
                for name in (usage_name, other_name)
            ),
        )
        for usage_name, other_name in (("prompt", "input"), ("completion", "output"))
    }
    choice = replace(
        choice_of(
            text,
            finish_reason,
            _first_of_kind(str, reply_data, "raw.choices.0.message.refusal"),
        ),
        tokens=tokens,
    )
    models = [_first_of_kind(str, reply_data, "raw.model")]
    return reply_of(llm.class_name(), [choice], usage=usage, models=models)


def _first_of_kind(kind: type[T], reply_data: object, *paths: str) -> T | None:
    """What the first path leads to that leads to something of this kind."""
    values = (follow_path(reply_data, path.split("."))[1] for path in paths)
    return next((value for value in values if isinstance(value, kind)), None)


def aligned(
    text: str, positions: Sequence[Sequence[LogProb]]
) -> tuple[TokenAlternatives, ...]:
    """Find the token at each position of a reply.

    LlamaIndex gives only the alternatives of each.

    Returns:
        One token per position, such that together they spell the text; () if they
        cannot.
    """
    reached: dict[int, tuple[TokenAlternatives, ...]] = {0: ()}
    for alternatives in positions:
        listed = tuple(
            (alternative.token, alternative.logprob) for alternative in alternatives
        )
        before, reached = reached, {}
        for start, spelt in before.items():
            for token, logprob in sorted(
                listed, key=lambda alternative: -alternative[1]
            ):
                if token and text.startswith(token, start):
                    reached.setdefault(
                        start + len(token),
                        (*spelt, TokenAlternatives(token, logprob, listed)),
                    )
    return reached.get(len(text), ())
