"""The form of requests and replies of OpenAI's chat endpoint, and what they cost.

Endpoints that are compatible with it share the form.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from ragmetrics_core.data import Usage, errors
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Choice,
    Finish,
    TokenAlternatives,
)

# The words of OpenAI, and of those that frameworks hand on.
_FINISH: dict[str, Finish] = {
    **dict.fromkeys(
        (
            "stop",
            "end_turn",
            "tool_calls",
            "tool_use",
            "stop_sequence",
            "eos",
            "completed",
        ),
        "stop",
    ),
    **dict.fromkeys(("length", "max_tokens", "model_length", "incomplete"), "length"),
    **dict.fromkeys(
        (
            "content_filter",
            "refusal",
            "refused",
            "safety",
            "blocklist",
            "prohibited_content",
        ),
        "refused",
    ),
}
# A name, a path of a provider or a file, with a version or tag. What begins like a
# usual key is none.
_MODEL_NAME = re.compile(
    r"(?!(?:sk|pk|rk|gsk|hf|xai|pplx)[-_]|AIza)[\w.][\w./:@+=-]{0,199}|/[\w./:@+=-]{1,199}"
)
# how variables that hold secrets are named
_ENDS_OF_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
MOST_TOKENS = 2**53
"""What no request or reply has.

A larger count is none, and fits neither a float nor a column of a table.
"""
_SHORTEST_SECRET = 8  # what is shorter stands in too many names


class Listed(NamedTuple):
    """One of OpenAI's own models.

    It has the US dollars per prompt token and per reply token, and what it can do.
    """

    prices: tuple[float, float]
    capabilities: Capabilities


@lru_cache(maxsize=64)
def listed(model: str) -> Listed | None:
    """What our dated file says of a model, named without ``openai/``.

    None if it is not in it.
    """
    text = (
        files("ragmetrics_core.models")
        .joinpath("openai_prices.json")
        .read_text("utf-8")
    )
    if (entry := json.loads(text)["models"].get(model)) is None:
        return None
    sent, received, kind = entry
    able = Capabilities(
        n=True,
        logprobs=True,
        json_schema=kind == "chat",
        temperature=True,
        reasoning=False,
    )
    if kind == "reasoning":
        able = Capabilities(
            n=None, logprobs=None, json_schema=True, temperature=False, reasoning=True
        )
    return Listed((sent / 1e6, received / 1e6), able)


def request_body(request: ChatRequest) -> dict[str, Any]:
    """Messages and parameters of a request."""
    messages = [
        {"role": message.role, "content": message.content}
        for message in request.messages
    ]
    return {"messages": messages, **parameters(request)}


def parameters(request: ChatRequest) -> dict[str, Any]:
    """What a request asks for beside its messages, by OpenAI's names.

    What it does not ask for is left out.
    """
    form: dict[str, Any] | None = None
    if request.schema is not None and request.schema_in_object:
        form = {"type": "json_object", "schema": request.own_schema()}
    elif request.schema is not None:
        schema = {"name": "reply", "schema": request.own_schema(), "strict": True}
        form = {"type": "json_schema", "json_schema": schema}
    optional = {
        "temperature": request.temperature,
        (
            "max_completion_tokens" if request.newer_limit else "max_tokens"
        ): request.max_tokens,
        "n": request.n if request.n > 1 else None,
        "logprobs": True if request.top_logprobs else None,
        "top_logprobs": request.top_logprobs or None,
        "response_format": form,
    }
    return {name: value for name, value in optional.items() if value is not None}


def chat_reply(
    model: str, body: Any, prices: tuple[float, float] | None, *, key: str = ""
) -> ChatReply:
    """Narrow the body of a reply, as parsed from JSON, to what is read.

    Raises ``JudgeServerError`` if it is no chat reply.

    ``key`` is the key that was sent; see ``reply_of``.
    """
    listed = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(listed, list) or not listed:
        raise errors.JudgeServerError(
            f"{model} sent a body without any reply; check the endpoint"
        )
    choices = [_choice(model, choice) for choice in listed]
    return priced(
        reply_of(
            model, choices, usage=body.get("usage"), models=[body.get("model")], key=key
        ),
        prices,
    )


def priced(reply: ChatReply, prices: tuple[float, float] | None) -> ChatReply:
    """The reply with what it cost.

    Unknown, not free, where prices or tokens are unknown.
    """
    cost = None
    if prices is not None and _tells_what_is_paid(reply, prices):
        cost = (
            prices[0] * reply.usage.prompt_tokens
            + prices[1] * reply.usage.completion_tokens
        )
    return replace(reply, usage=replace(reply.usage, cost=cost))


def _tells_what_is_paid(reply: ChatReply, prices: tuple[float, float]) -> bool:
    """Tell whether the reply names the tokens that cost something.

    Every request has some, and so has every reply with a text.
    """
    knows_prompt = reply.usage.prompt_tokens > 0 or not prices[0]
    is_empty = not any(choice.text for choice in reply.choices)
    return knows_prompt and (
        reply.usage.completion_tokens > 0 or is_empty or not prices[1]
    )


def reply_of(
    model: str,
    choices: Iterable[Choice],
    *,
    usage: object,
    models: Iterable[object],
    key: str = "",
) -> ChatReply:
    """Return a reply with the tokens and names that were told, where they are such.

    Raises ``JudgeServerError`` without a choice.

    ``usage`` is a mapping of ``prompt_tokens`` and ``completion_tokens``, as far as
    they were told. A name of a model may be an echo: it is left out if it holds ``key``
    or a secret of the environment, or has not the form of a name.
    """
    if not (made := tuple(choices)):
        raise errors.JudgeServerError(f"{model} returned no reply; check its endpoint")
    told = usage if isinstance(usage, Mapping) else {}
    counts = (told.get(f"{side}_tokens") for side in ("prompt", "completion"))
    asked, said = (
        count if type(count) is int and 0 < count <= MOST_TOKENS else 0
        for count in counts
    )
    named = tuple(
        sorted(
            {
                name
                for name in models
                if isinstance(name, str) and _names_a_model(name, key)
            }
        )
    )
    return ChatReply(
        made,
        Usage(
            calls=1,
            prompt_tokens=asked,
            completion_tokens=said,
            cost=None,
            models=named,
        ),
    )


def _names_a_model(name: str, key: str) -> bool:
    if _MODEL_NAME.fullmatch(name) is None or (key and key in name):
        return False
    secrets = [
        value
        for variable, value in os.environ.items()
        if variable.upper().endswith(_ENDS_OF_SECRETS)
    ]
    return not any(
        len(secret) >= _SHORTEST_SECRET and secret in name for secret in secrets
    )


def _choice(model: str, choice: Any) -> Choice:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise errors.JudgeServerError(
            f"{model} sent a choice without a message; check the endpoint"
        )
    reason, refusal = choice.get("finish_reason"), message.get("refusal")
    return choice_of(
        _text_of(message.get("content")), reason, refusal, choice.get("logprobs")
    )


def _text_of(content: object) -> object:
    """Return the text of a message that comes in parts.

    Parts of the model's reasoning are left out. Other content stays as it is.
    """
    if not isinstance(content, list):
        return content
    parts = [
        part
        for part in content
        if isinstance(part, dict) and part.get("type") in ("text", "output_text")
    ]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def choice_of(
    text: object, reason: object, refusal: object = None, logprobs: object = None
) -> Choice:
    """A choice from what was told of it; without a text what the model refused with."""
    said, refused = (one if isinstance(one, str) else "" for one in (text, refusal))
    finish = (
        "refused"
        if refused and not said
        else _FINISH.get(str(reason or "stop").lower(), "other")
    )
    return Choice(said or refused, finish, _tokens(logprobs))


def _tokens(logprobs: object) -> tuple[TokenAlternatives, ...]:
    """Log-probabilities of the tokens as OpenAI-like endpoints give them.

    None if they are not in that form.
    """
    content = (logprobs.get("content") or ()) if isinstance(logprobs, Mapping) else ()
    try:
        return tuple(
            TokenAlternatives(
                *_told(it), tuple(map(_told, it.get("top_logprobs") or ()))
            )
            for it in content
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        return ()


def _told(token: Any) -> tuple[str, float]:
    return str(token["token"]), float(token["logprob"])
