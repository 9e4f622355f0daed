"""Reading what LangChain's models return and raise."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from langchain_ragmetrics.values import compact, message_of
from ragmetrics_core.data import errors
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import ChatReply, Choice
from ragmetrics_core.endpoints.openai_form import tokens_of

_FINISHES: dict[str, Literal["stop", "length", "refused", "other"]] = {
    **dict.fromkeys(("stop", "end_turn", "tool_calls", "tool_use", "stop_sequence", "eos", "completed"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "incomplete"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "refused", "safety", "blocklist", "prohibited_content"), "refused"),
}


def structured_reply(output: Any) -> ChatReply:
    """The reply of a model bound to a schema: what was parsed, else the raw text, which may be JSON all the same."""
    raw, parsed = (output.get("raw"), output.get("parsed")) if isinstance(output, Mapping) else (None, output)
    reply = reply_of([raw if raw is not None else ""])
    if parsed is None:
        return reply
    choice = Choice(compact(parsed), reply.choices[0].finish)
    return ChatReply((choice,), reply.usage)


def generated_reply(result: LLMResult) -> ChatReply:
    """Several replies of one request."""
    replies = [one.message if isinstance(one, ChatGeneration) else one.text for one in result.generations[0]]
    return reply_of(replies, result.llm_output)


def reply_of(replies: Sequence[object], llm_output: Mapping[str, Any] | None = None) -> ChatReply:
    """The reply to one request: messages or texts, and what they cost.

    Raises:
        JudgeServerError: If there is none.
    """
    if not replies:
        raise errors.JudgeServerError("the model returned no reply; check its endpoint")
    messages = [reply for reply in replies if isinstance(reply, AIMessage)]
    usage = [message.usage_metadata for message in messages if message.usage_metadata is not None]
    totals = (llm_output or {}).get("token_usage") if len(replies) > 1 else None
    sent = totals.get("prompt_tokens") if isinstance(totals, Mapping) else None
    received = totals.get("completion_tokens") if isinstance(totals, Mapping) else None
    metadata = (*(message.response_metadata for message in messages), llm_output or {})
    names = (facts.get("model_name") for facts in metadata)
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
        message = message_of(reply)
        return Choice(reply if isinstance(reply, str) else message.text if message is not None else compact(reply))
    facts = reply.response_metadata
    reason = str(facts.get("finish_reason") or facts.get("stop_reason") or facts.get("done_reason") or "stop")
    refusal = reply.additional_kwargs.get("refusal")
    finish = "refused" if refusal else _FINISHES.get(reason.lower(), "other")
    return Choice(str(reply.text) or str(refusal or ""), finish, tokens_of(facts.get("logprobs")))
