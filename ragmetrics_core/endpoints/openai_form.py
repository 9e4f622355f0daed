"""The form of requests and replies that OpenAI's chat endpoint and those compatible with it share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ragmetrics_core.data import errors
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import ChatReply, ChatRequest, Choice, TokenAlternatives

_FINISH = {"stop": "stop", "length": "length", "content_filter": "refused"}


def endpoint_name(address: str, extra: Mapping[str, Any]) -> str:
    """An address, and a digest of the extra arguments of calls, which change replies."""
    if not extra:
        return address
    text = json.dumps(extra, sort_keys=True, default=repr)
    return f"{address}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def request_body(request: ChatRequest) -> dict[str, Any]:
    """Messages and parameters of a request; those that are not asked for are left out."""
    optional = {
        "temperature": request.temperature,
        "max_completion_tokens" if request.newer_limit else "max_tokens": request.max_tokens,
        "n": request.n if request.n > 1 else None,
        "logprobs": True if request.top_logprobs else None,
        "top_logprobs": request.top_logprobs or None,
        "response_format": _response_format(request.schema, in_object=request.schema_in_object),
    }
    return {
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        **{name: value for name, value in optional.items() if value is not None},
    }


def _response_format(schema: Mapping[str, Any] | None, *, in_object: bool) -> dict[str, Any] | None:
    if schema is None:
        return None
    if in_object:
        return {"type": "json_object", "schema": dict(schema)}
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(schema), "strict": True}}


def chat_reply(model: str, body: Any, prices: tuple[float, float] | None) -> ChatReply:
    """Narrow the body of a reply to what we read of it.

    Args:
        model: Name of the model, for messages.
        body: The body, as parsed from JSON.
        prices: US dollars per prompt token and per reply token; None if unknown.

    Raises:
        JudgeServerError: If the body is no chat reply.
    """
    listed = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(listed, list) or not listed:
        raise errors.JudgeServerError(f"{model} sent a body without any reply; check the endpoint")
    choices = tuple(_choice(model, choice) for choice in listed)
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    returned = body.get("model")
    sent, received = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return ChatReply(
        choices,
        Usage(
            calls=1,
            prompt_tokens=sent,
            completion_tokens=received,
            cost=None if prices is None else sent * prices[0] + received * prices[1],
            models=(returned,) if isinstance(returned, str) and returned else (),
        ),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _choice(model: str, choice: Any) -> Choice:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise errors.JudgeServerError(f"{model} sent a choice without a message; check the endpoint")
    content, refusal = message.get("content"), _refusal(message)
    text = content if isinstance(content, str) else ""
    said = choice.get("finish_reason") or "stop"
    finish = "refused" if refusal and not text else _FINISH.get(said if isinstance(said, str) else "", "other")
    return Choice(
        text=text or refusal,
        finish=finish,  # type: ignore[arg-type]  # the values of _FINISH are the literals
        tokens=tokens_of(choice.get("logprobs")),
    )


def _refusal(message: Mapping[str, Any]) -> str:
    """What the model refused with; LiteLLM hands it on among the fields of the provider."""
    own = message.get("provider_specific_fields")
    refusal = message.get("refusal") or (own.get("refusal") if isinstance(own, dict) else None)
    return refusal if isinstance(refusal, str) else ""


def tokens_of(logprobs: object) -> tuple[TokenAlternatives, ...]:
    """Log-probabilities of the tokens as OpenAI-like endpoints give them; none if they are not in that form."""
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    try:
        return tuple(
            TokenAlternatives(
                str(token["token"]),
                float(token["logprob"]),
                tuple((str(other["token"]), float(other["logprob"])) for other in token.get("top_logprobs") or ()),
            )
            for token in content or ()
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        return ()
