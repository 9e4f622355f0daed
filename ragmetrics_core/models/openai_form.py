"""The form of requests and replies of OpenAI's chat endpoint, and what they cost.

Endpoints that are compatible with it share the form.
"""

import importlib.util
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
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
from ragmetrics_core.models.endpoint_errors import message_in
from ragmetrics_core.models.endpoint_sentences import without_secret
from ragmetrics_core.models.features import topics_of

# Why a reply ended: the words of OpenAI, and of others that frameworks hand on.
_FINISH: dict[str, Finish] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos", "completed"), "stop"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(
        (
            "length",
            "max_tokens",
            "max_output_tokens",
            "model_length",
            "model_context_window_exceeded",
            "incomplete",
        ),
        "length",
    ),
    **dict.fromkeys(
        (
            "content_filter",
            "guardrail_intervened",
            "refusal",
            "refused",
            "safety",
            "blocklist",
            "prohibited_content",
        ),
        "refused",
    ),
}
# A choice that an error of the endpoint broke off.
_BROKEN_OFF = Choice("", "other")
# A model's name: a path of a provider or a file, with a version or tag. A text that
# begins like a key, e.g. with "sk-", is no name.
_MODEL_NAME = re.compile(
    r"(?!(?:sk|pk|rk|gsk|hf|xai|pplx)[-_]|AIza)[\w.][\w./:@+=-]{0,199}|/[\w./:@+=-]{1,199}"
)
# How variables of the environment that hold secrets are named.
_ENDS_OF_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
MOST_TOKENS = 2**53
"""The largest number of tokens that is believed.

A larger number is a mistake, and fits neither a float nor a column of a table.
"""
# A shorter value of such a variable is no secret: it would occur in too many names.
_SHORTEST_SECRET = 8


_LITELLM_TABLE = "model_prices_and_context_window_backup.json"


class Listed(NamedTuple):
    """One of OpenAI's own models: its prices per token sent and received, in US dollars.

    Also what it can do.
    """

    prices: tuple[float, float]
    capabilities: Capabilities


@cache
def _prices_file() -> Mapping[str, Any]:
    """Return the content of our dated file of prices."""
    file = files("ragmetrics_core.models").joinpath("openai_prices.json")
    content: Mapping[str, Any] = json.loads(file.read_text("utf-8"))
    return content


def decision_prices(model: str) -> tuple[float, float] | None:
    """Return US dollars per token read and given, of an OpenAI model of typed questions.

    None if our dated file does not know the model.
    """
    entry = _prices_file()["decisions"].get(model)
    return None if entry is None else (entry[0] / 1e6, entry[1] / 1e6)


@lru_cache(maxsize=64)
def prices_in_litellm(name: str) -> tuple[float, float] | None:
    """Return US dollars per token sent and received, by LiteLLM's table.

    The table is a file of LiteLLM's package, which is not imported. None if LiteLLM is
    not installed, or does not know the price.

    Args:
        name: The provider and the model, e.g. ``groq/llama-3.3-70b-versatile``.
    """
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return None
    table = Path(spec.origin).with_name(_LITELLM_TABLE)
    if not table.exists():
        return None
    entries = json.loads(table.read_text("utf-8"))
    entry = entries.get(name) or entries.get(name.partition("/")[2]) or {}
    price_sent = entry.get("input_cost_per_token")
    price_received = entry.get("output_cost_per_token")
    if price_sent is None or price_received is None:
        return None
    return float(price_sent), float(price_received)


def names_of_models() -> list[str]:
    """Return the names of OpenAI's models that our dated file knows."""
    return list(_prices_file()["models"])


def facts_of_listed_model(model: str) -> Listed | None:
    """Return what our dated file says of a model; None if it does not know the model.

    Args:
        model: The name without ``openai/``.
    """
    entry = _prices_file()["models"].get(model)
    if entry is None:
        return None
    # the prices are those of a million tokens
    price_sent, price_received, kind = entry
    capabilities = Capabilities(
        n=True,
        logprobs=True,
        json_schema=kind == "chat",
        temperature=True,
        reasoning=False,
    )
    if kind == "reasoning":
        capabilities = Capabilities(json_schema=True, temperature=False, reasoning=True)
    return Listed((price_sent / 1e6, price_received / 1e6), capabilities)


def request_body(request: ChatRequest) -> dict[str, Any]:
    """Return the body of a request: its messages and parameters, by OpenAI's names.

    Parameters that the request does not use are left out. Example: 5 polls at
    temperature 1 give ``{"messages": […], "temperature": 1.0, "n": 5}``. Thousands of requests share the
    schema: a client that may change it in place is given a copy.
    """
    messages = [
        {"role": message.role, "content": message.content}
        for message in request.messages
    ]
    response_format: dict[str, Any] | None = None
    if request.json_mode:
        response_format = {"type": "json_object"}
    if request.schema is not None:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
        response_format = {"type": "json_schema", "json_schema": schema}
    name_of_limit = "max_completion_tokens" if request.newer_limit else "max_tokens"
    optional = {
        "messages": messages,
        "temperature": request.temperature,
        name_of_limit: request.max_tokens,
        "n": request.n if request.n > 1 else None,
        "logprobs": True if request.top_logprobs else None,
        "top_logprobs": request.top_logprobs or None,
        "response_format": response_format,
    }
    return {name: value for name, value in optional.items() if value is not None}


def chat_reply(
    model: str,
    body: Any,
    prices: tuple[float, float] | None,
    secrets: tuple[str, ...] = (),
) -> ChatReply:
    """Read a reply of a chat endpoint from its body.

    Example: ``{"choices": [{"message": {"content": "Yes"}}]}`` has one choice, "Yes";
    ``{"choices": []}`` is an error.

    Args:
        model: Name of the model that was asked, for messages.
        body: The body, as parsed from JSON.
        prices: US dollars per token sent and received; None if they are unknown.
        secrets: The API keys that were sent. Should the body's name of the model contain
            one, that name is left out.

    Raises:
        TransientJudgeError: If the body is no chat reply.
    """
    listed_choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(listed_choices, list) or not listed_choices:
        is_of_other = not (
            isinstance(body, dict) and {"choices", "error"} & body.keys()
        )
        checked = "address, up to and with /v1" if is_of_other else "endpoint"
        error = errors.TransientJudgeError(
            f"{model} sent a body without any reply; check the {checked}"
        )
        error.is_of_other = is_of_other
        error.raw = message_in(body)
        for secret in secrets:
            error.raw = without_secret(error.raw, secret)
        error.topics = topics_of(error.raw)
        raise error
    # an error beside the choices says that they are not whole
    choices = [
        _BROKEN_OFF if body.get("error") else _choice(model, choice)
        for choice in listed_choices
    ]
    return reply_of(
        model,
        choices,
        usage=body.get("usage"),
        models=[body.get("model")],
        prices=prices,
        secrets=secrets,
    )


def add_price(reply: ChatReply, prices: tuple[float, float] | None) -> ChatReply:
    """Return the reply with its cost; None if prices or tokens are unknown.

    Every request has tokens, and so has every reply with a text: 0 is then no number.
    """
    if prices is not None:
        price_sent, price_received = prices
        has_text = any(choice.text for choice in reply.choices)
        lacks_sent = price_sent and reply.usage.prompt_tokens == 0
        lacks_received = (
            price_received and reply.usage.completion_tokens == 0 and has_text
        )
        if lacks_sent or lacks_received:
            prices = None
    return ChatReply(reply.choices, priced(reply.usage, prices), reply.failures)


def priced(usage: Usage, prices: tuple[float, float] | None) -> Usage:
    """Return a usage with what its tokens cost; None if the prices are unknown."""
    if prices is None:
        return replace(usage, cost=None)
    price_sent, price_received = prices
    cost_sent = price_sent * usage.prompt_tokens
    return replace(usage, cost=cost_sent + price_received * usage.completion_tokens)


def reply_of(
    model: str,
    choices: Iterable[Choice],
    *,
    usage: object,
    models: Iterable[object],
    prices: tuple[float, float] | None = None,
    secrets: tuple[str, ...] = (),
) -> ChatReply:
    """Make a reply of its choices, and of the endpoint's numbers of tokens and models.

    Example: one choice, and ``{"prompt_tokens": 90}``: 90 tokens sent, 0 received, one
    call. Where an error broke off each choice, but tokens
    were counted, the reply has none, and says so in its failures: they were paid for.

    Args:
        model: Name of the model that was asked, for messages.
        choices: The choices; at least one.
        usage: A mapping with ``prompt_tokens``, ``completion_tokens`` and
            ``total_tokens``. A number that is missing or impossible is unknown.
        models: Names of the models that answered, as the endpoint gives them. Anything
            that is no name, or contains a secret, is left out.
        prices: US dollars per token sent and received; None if they are unknown.
        secrets: The API keys that were sent: an endpoint may repeat them.

    Raises:
        TransientJudgeError: If there is no choice, or an error broke off each and no
            tokens were counted.
    """
    all_choices = tuple(choices)
    for secret in secrets:
        if len(secret) < _SHORTEST_SECRET:  # a number or a name of a model may be one
            continue
        texts = [without_secret(choice.text, secret) for choice in all_choices]
        all_choices = tuple(
            # pieces of the secret stand in the tokens
            choice if text == choice.text else replace(choice, text=text, tokens=())
            for choice, text in zip(all_choices, texts, strict=True)
        )
    if not all_choices:
        raise errors.TransientJudgeError(
            f"{model} returned no reply; check its endpoint"
        )
    counts = usage if isinstance(usage, Mapping) else {}
    usable_names = {
        name
        for name in models
        if isinstance(name, str) and _names_a_model(name, secrets)
    }
    prompt_tokens = _token_count(counts.get("prompt_tokens"))
    details = counts.get("prompt_tokens_details")
    if isinstance(details, Mapping):
        cached_tokens = _token_count(details.get("cached_tokens"))
        # they are among the prompt's, unless a proxy counts the new ones alone
        prompt_tokens += cached_tokens if cached_tokens > prompt_tokens else 0
    completion_tokens = _token_count(counts.get("completion_tokens"))
    total_tokens = _token_count(counts.get("total_tokens"))
    if prompt_tokens:  # some count the tokens of a reasoning in the total alone
        completion_tokens = max(completion_tokens, total_tokens - prompt_tokens)
    usage_of_call = Usage(
        calls=1,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost=None,
        models=tuple(sorted(usable_names)),
    )
    if any(choice is not _BROKEN_OFF for choice in all_choices):
        return add_price(ChatReply(all_choices, usage_of_call), prices)
    error = errors.TransientJudgeError(
        "the endpoint broke off its reply with an error: run again later or check"
        " the endpoint"
    )
    if not usage_of_call.prompt_tokens:  # it is not told that anything was paid
        raise error
    failures = (error,) * len(all_choices)
    return add_price(ChatReply((), usage_of_call, failures), prices)


def _token_count(count: object) -> int:
    """Return a number of tokens; 0 for anything that cannot be such a number."""
    if type(count) is int and 0 < count <= MOST_TOKENS:
        return count
    return 0


@lru_cache(maxsize=64)  # all replies of a model name it alike
def _names_a_model(name: str, keys: tuple[str, ...]) -> bool:
    """Whether a text has the form of a model's name, and contains no secret.

    Secrets are the keys that were sent, and the values of environment variables such as
    ``OPENAI_API_KEY``: an endpoint may echo them.
    """
    if _MODEL_NAME.fullmatch(name) is None:
        return False
    if any((key and key in name) or without_secret(name, key) != name for key in keys):
        return False
    secrets = [
        value
        for variable, value in os.environ.items()
        if variable.upper().endswith(_ENDS_OF_SECRETS)
        and len(value) >= _SHORTEST_SECRET
    ]
    return not any(secret.lower() in name.lower() for secret in secrets)


def _choice(model: str, choice: Any) -> Choice:
    """Read one choice of a body; ``TransientJudgeError`` if it holds no message."""
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise errors.TransientJudgeError(
            f"{model} sent a choice without a message; check the endpoint"
        )
    text = message.get("content")
    if isinstance(text, list):  # parts; those of the model's reasoning are left out
        texts = [
            part.get("text")
            for part in text
            if isinstance(part, dict) and part.get("type") in ("text", "output_text")
        ]
        text = "".join(text for text in texts if isinstance(text, str))
    reason = choice.get("finish_reason")
    logprobs = choice.get("logprobs")
    arguments = _arguments(message)
    finish = _FINISH.get(str(reason or "stop").lower(), "other")
    if finish in ("length", "refused") and any(arguments):
        text = ""  # what stands in a call that was cut is a draft
    elif finish not in ("length", "refused"):
        written = [each for each in (_as_text(text), *arguments) if each.strip()]
        # a reasoning may hold a draft, too, unless it is known that it has ended
        if not written and finish != "other":
            written = [_object_in_reasoning(message)]
        if written != [text]:  # what is in a call may contradict what is beside it
            text, logprobs = "\n".join(written), None
    read = choice_of(text, reason, message.get("refusal"), logprobs)
    # not every server has a reason of its own for it
    calls_tool = read.finish == "stop" and message.get("tool_calls")
    return replace(read, finish="tool_calls") if calls_tool else read


def _arguments(message: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a message's calls of tools: a reply may stand there."""
    calls = message.get("tool_calls")
    functions = [
        call.get("function")
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict)
    ]
    return [
        _as_text(function.get("arguments"))
        for function in (*functions, message.get("function_call"))
        if isinstance(function, dict)
    ]


_LINE_OF_OBJECT = re.compile(r"^\s*\{", re.MULTILINE)


def _object_in_reasoning(message: Mapping[str, Any]) -> str:
    """Return the reasoning, as which some servers take a reply, if an object ends it.

    One that begins within a line, as in "A first try: {…}", is a draft.
    """
    for name in ("reasoning_content", "reasoning"):
        text = _as_text(message.get(name))
        if text.rstrip().endswith("}") and _LINE_OF_OBJECT.search(text):
            return text
    return ""


def _as_text(part: object) -> str:
    """A text, also of what the server has parsed; "" for anything else."""
    if isinstance(part, dict):
        return json.dumps(part, ensure_ascii=False)
    return part if isinstance(part, str) else ""


def choice_of(
    text: object, reason: object, refusal: object = None, logprobs: object = None
) -> Choice:
    """Make a choice of its parts, as an endpoint or a framework gives them.

    A choice with words of refusal counts as refused, also if it has a text. One that
    ended in an error of the endpoint has no text: it may lack what was to come.

    Args:
        text: The text that the model wrote; no text if it is None.
        reason: Why the model stopped, e.g. "length"; None counts as "stop".
        refusal: Words in which the model declines; None if it does not. They become the
            text where there is none.
        logprobs: Log-probabilities of the tokens in OpenAI's form; None without any.
    """
    word = str(reason or "stop").lower()
    if word == "error":
        return _BROKEN_OFF
    written_text = text if isinstance(text, str) else ""
    words_of_refusal = refusal if isinstance(refusal, str) else ""
    finish = _FINISH.get(word, "other")
    if words_of_refusal.strip():
        finish = "refused"

    tokens: list[TokenAlternatives] = []
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    try:
        for token in content or ():
            alternatives = tuple(
                map(_text_and_logprob, token.get("top_logprobs") or ())
            )
            tokens.append(TokenAlternatives(*_text_and_logprob(token), alternatives))
    except (TypeError, KeyError, ValueError, AttributeError):
        tokens = []  # they have another form
    return Choice(written_text or words_of_refusal, finish, tuple(tokens))


def _text_and_logprob(token: Any) -> tuple[str, float]:
    return str(token["token"]), float(token["logprob"])
