"""Any LlamaIndex LLM as the chat model behind an LLM judge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from llama_index.core import Settings
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LogProb, MessageRole
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, ConfigDict, create_model

from ragmetrics_core.capturing import judge_context
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import Capabilities, ChatModel, ChatReply, ChatRequest, Choice, TokenAlternatives
from ragmetrics_core.endpoints.framework_model import FrameworkModel
from ragmetrics_core.endpoints.keys import installed
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge

JudgeOrLLM = Judge | ChatModel | LLM | str | None

_Copies = dict[tuple[tuple[str, object], ...], tuple[tuple[dict[str, Any], ...], LLM]]
_WATCHING = frozenset({"callback_manager", "rate_limiter"})  # how an LLM is called and watched, not what it replies
_FINISH = {"length": "length", "max_tokens": "length", "content_filter": "refused", "refusal": "refused"}


class LlamaIndexModel(FrameworkModel):
    """A LlamaIndex LLM, called through its sync API in a thread, where the framework's tracing does not see it.

    A function-calling LLM replies through a function with the reply's JSON schema, any other in JSON as the prompt
    describes it. Temperature and log-probabilities are used where the LLM has such fields.

    Args:
        llm: The LLM; it is copied, never changed.
        judge_async: Call its async API on the judges' event loop instead.
        capabilities: What the LLM can do, if you know better than its fields tell.
        cache_key: What beside the name changes its replies, for stored ones; by default what ``to_dict`` writes,
            without secrets. Where that leaves out a part, replies are kept for the process only.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        judge_async: bool = False,
        capabilities: Capabilities | None = None,
        cache_key: str | None = None,
    ) -> None:
        able = capabilities_of(llm) if capabilities is None else capabilities
        super().__init__(llm, name="", capabilities=able, judge_async=judge_async, cache_key=cache_key)
        self.llm = llm
        self._copies: WeakKeyDictionary[asyncio.AbstractEventLoop, _Copies] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """The model's name, or the class where the LLM does not know it."""
        name = self.llm.metadata.model_name
        return self.llm.class_name() if name == "unknown" else name

    def _form(self) -> object:
        """As LlamaIndex writes it to a file, and what this leaves out: functions by name, clients by their address.

        Raises:
            ValueError: If one of them is the user's own.
        """
        functions = {}
        for name, field in type(self.llm).model_fields.items():
            value = getattr(self.llm, name) if field.exclude and name not in _WATCHING else None
            if value is not None:
                module, label = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
                if not label or "<" in label or not installed(module):
                    raise ValueError(f"{name} has no serialised form")
                functions[name] = f"{module}.{label}"
        form = self.llm.to_dict()
        clients = [str(getattr(held, "base_url", "")) for held in (self.llm.__pydantic_private__ or {}).values()]
        addresses = {address.rstrip("/") for address in clients if address}
        return [form, functions, sorted(addresses - {str(form.get("api_base")).rstrip("/")})]

    def _context(self) -> Context:
        return judge_context()

    def _work(self, request: ChatRequest) -> Callable[[], ChatReply]:
        llm, messages, tools = self._fitted(request), _messages(request), _tools(request)

        def call() -> ChatReply:
            if tools and isinstance(llm, FunctionCallingLLM):
                response = llm.chat_with_tools(tools, chat_history=messages, tool_required=True)
            else:
                response = llm.chat(messages)
            return _reply(llm, response, structured=bool(tools), weighed=bool(request.top_logprobs))

        return call

    async def _acall(self, request: ChatRequest) -> ChatReply:
        llm, messages, tools = self._fitted(request), _messages(request), _tools(request)
        if tools and isinstance(llm, FunctionCallingLLM):
            response = await llm.achat_with_tools(tools, chat_history=messages, tool_required=True)
        else:
            response = await llm.achat(messages)
        return _reply(llm, response, structured=bool(tools), weighed=bool(request.top_logprobs))

    def _fitted(self, request: ChatRequest) -> LLM:
        """The LLM with the request's settings, where it has fields for them.

        A copy is kept for the next request, because it makes a client of its own, and that takes longer than a call.
        """
        known = type(self.llm).model_fields
        wanted: dict[str, object] = {}
        if request.temperature is not None:
            wanted["temperature"] = request.temperature
        if request.top_logprobs:
            wanted |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        own = getattr(self.llm, "max_tokens", None) if "max_tokens" in known else None
        if isinstance(own, int) and request.max_tokens is not None:
            wanted["max_tokens"] = max(own, request.max_tokens)
        update = {name: value for name, value in wanted.items() if name in known}
        held = (dict(vars(self.llm)), dict(self.llm.__pydantic_private__ or {}))
        copies = self._copies.setdefault(asyncio.get_running_loop(), {})
        kept, copy = copies.get(key := tuple(update.items()), (None, self.llm))
        if kept != held:  # none yet, or the user has changed the LLM
            copies[key] = (held, copy := self.llm.model_copy(update=update))
        return copy


def capabilities_of(llm: LLM) -> Capabilities:
    """What an LLM can do, as far as its class and fields tell; the one place that probes."""
    fields = set(type(llm).model_fields)
    return Capabilities(
        n=False,
        logprobs={"logprobs", "top_logprobs"} <= fields,
        json_schema=isinstance(llm, FunctionCallingLLM) and llm.metadata.is_function_calling_model,
        temperature="temperature" in fields,
    )


def as_judge(judge: JudgeOrLLM) -> Judge | ChatModel | str | None:
    """A LlamaIndex LLM as a judge; anything else as it is."""
    return LLMJudge(LlamaIndexModel(judge)) if isinstance(judge, LLM) else judge


def settings_llm() -> LLM | None:
    """The LLM that the user has set in ``Settings``; None if none is set, without making the default one."""
    return Settings._llm  # noqa: SLF001  # reading Settings.llm would make OpenAI's client


def _messages(request: ChatRequest) -> list[ChatMessage]:
    return [ChatMessage(role=MessageRole(message.role), content=message.content) for message in request.messages]


def _tools(request: ChatRequest) -> list[FunctionTool]:
    """A function for the reply; none where its tokens are to be weighed."""
    wanted = request.schema is not None and not request.top_logprobs
    return [_reply_tool(request.own_schema())] if wanted else []


def _reply_tool(schema: Mapping[str, Any]) -> FunctionTool:
    """A function whose parameters are the reply's schema."""

    def replaced(made: dict[str, Any]) -> None:
        made.clear()
        made.update(schema)

    parameters: type[BaseModel] = create_model(
        "Reply", __config__=ConfigDict(extra="allow", json_schema_extra=replaced)
    )

    def reply(**fields: Any) -> dict[str, Any]:
        return fields

    return FunctionTool.from_defaults(
        fn=reply, name="reply", description="Give your reply through this function.", fn_schema=parameters
    )


def _reply(llm: LLM, response: ChatResponse, *, structured: bool, weighed: bool) -> ChatReply:
    text = response.message.content or ""
    if structured and isinstance(llm, FunctionCallingLLM):
        calls = llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        text = json.dumps(calls[0].tool_kwargs, ensure_ascii=False) if calls else text
    tokens = aligned(text, response.logprobs or ()) if weighed else ()
    raw = response.raw.model_dump() if isinstance(response.raw, BaseModel) else response.raw
    finish, refusal, usage = _end(raw if isinstance(raw, Mapping) else {}, response.additional_kwargs)
    return ChatReply((Choice(text or refusal, "refused" if refusal else finish, tokens),), usage)


def aligned(text: str, positions: Sequence[Sequence[LogProb]]) -> tuple[TokenAlternatives, ...]:
    """Find the token at each position, of which LlamaIndex gives only the alternatives.

    Args:
        text: The reply.
        positions: Alternatives per position.

    Returns:
        One per position, such that together they spell the text; () if they cannot.
    """
    paths: list[dict[int, tuple[int, LogProb]]] = []
    reached = {0}
    for alternatives in positions:
        step: dict[int, tuple[int, LogProb]] = {}
        for start in reached:
            for one in sorted(alternatives, key=lambda a: -a.logprob):
                if one.token and text.startswith(one.token, start):
                    step.setdefault(start + len(one.token), (start, one))
        paths.append(step)
        reached = set(step)
    if len(text) not in reached:
        return ()
    found: list[TokenAlternatives] = []
    end = len(text)
    for step, alternatives in zip(reversed(paths), reversed(positions), strict=True):
        end, one = step[end]
        listed = tuple((other.token, other.logprob) for other in alternatives)
        found.append(TokenAlternatives(one.token, one.logprob, listed))
    return tuple(reversed(found))


def _end(raw: Mapping[str, Any], more: Mapping[str, Any]) -> tuple[Any, str, Usage]:
    """How a reply ended, the words of a refusal, and what it cost; LlamaIndex knows no prices."""
    choices, nested, model = raw.get("choices"), raw.get("usage"), raw.get("model")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    said = first.get("finish_reason") or raw.get("stop_reason") or raw.get("done_reason")
    message = first.get("message")
    refusal = message.get("refusal") if isinstance(message, Mapping) else None
    counts = {**(nested if isinstance(nested, Mapping) else {}), **more}
    sent, received = (
        next((counts[name] for name in names if isinstance(counts.get(name), int)), 0)
        for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
    )
    names = (model,) if isinstance(model, str) else ()
    usage = Usage(calls=1, prompt_tokens=sent, completion_tokens=received, cost=None, models=names)
    return _FINISH.get(str(said), "stop"), refusal if isinstance(refusal, str) else "", usage
