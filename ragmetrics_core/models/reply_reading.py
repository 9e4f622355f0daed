"""Reads the replies of a chat model; says how to ask again for an unusable one.

An error that reaches the user names the model and says what to do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from typing import TypeVar

from ragmetrics_core.data import errors
from ragmetrics_core.models.chat import ChatModel, ChatRequest, Choice, Message
from ragmetrics_core.models.threads import call_in_thread, compute_beside_loop

T = TypeVar("T")
Outcome = Choice | errors.JudgeError

ReadAll = Callable[[Sequence[Outcome]], Awaitable[list[T | errors.JudgeError]]]
"""Reads several replies; gives an error for a reply that cannot be used."""

# A reply that was cut off is asked for again with so many times the tokens.
_LONGER = 4


async def read_all_here(
    outcomes: Sequence[Outcome], read: Callable[[Choice], T]
) -> list[T | errors.JudgeError]:
    """Read several replies; return an error for a reply that cannot be used.

    Long replies are read in a thread beside the event loop.
    """
    n_characters = sum(
        len(outcome.text) for outcome in outcomes if isinstance(outcome, Choice)
    )
    return await compute_beside_loop(
        lambda: [_read(outcome, read) for outcome in outcomes], size=n_characters
    )


async def read_all_in_thread(
    outcomes: Sequence[Outcome], read: Callable[[Choice], T]
) -> list[T | errors.JudgeError]:
    """Read several replies as ``read_all_here`` does, in a new thread.

    So a user's reader that never ends holds up nobody.
    """
    results = call_in_thread(
        lambda: [_read(outcome, read) for outcome in outcomes],
        context=copy_context(),
        name="ragmetrics reader",
    )
    return await asyncio.wrap_future(results)


def _read(outcome: Outcome, read: Callable[[Choice], T]) -> T | errors.JudgeError:
    if isinstance(outcome, errors.JudgeError):
        return outcome
    try:
        return read(outcome)
    except errors.UnusableReply as error:
        return error


def explain_error(
    result: T | errors.JudgeError,
    outcome: Outcome,
    model: ChatModel,
    request: ChatRequest,
) -> T | errors.JudgeError:
    """Return a result; an error then names the model, and says what to do.

    Example: the error "no JSON" becomes "the reply of gpt cannot be used: no JSON; read
    it in the results …".

    Args:
        result: What was read of a reply, or an error.
        outcome: The reply, or why there is none: such an error says already what to do.
        model: The model that replied.
        request: The request that was sent.
    """
    if not isinstance(result, errors.UnusableReply) or result is outcome:
        return result
    if is_cut_off(outcome) and request.max_tokens is not None:
        advice = _advice_on_limit(model, request.max_tokens)
    elif isinstance(result, errors.ContentRefused):
        advice = "read the row's texts, and judge it with another model or leave it out"
    elif not result.raw.strip():
        advice = "another model may answer"
    else:
        advice = (
            "read it in the results (raw reply), and take a model that keeps to a form"
        )
    return type(result)(
        f"the reply of {model.name} cannot be used: {result}; {advice}", raw=result.raw
    )


def is_cut_off(outcome: Outcome) -> bool:
    """Whether a reply ended at the token limit."""
    return isinstance(outcome, Choice) and outcome.finish == "length"


def _advice_on_limit(model: ChatModel, limit: int) -> str:
    """Say what the token limit of a judge is, how to raise it, and what that costs.

    The advice is for a reply that was cut off twice: at the limit, and at the higher
    limit of the retry. Example: the limit 1,000 was tried, then 4,000; the advice is
    ``LLMJudge(model, max_tokens=16000)``, and what such a reply costs.

    Args:
        model: The judge's model, whose prices are shown if they are known.
        limit: Most tokens of a reply, at the first call.
    """
    limit_tried = limit * _LONGER
    limit_advised = limit_tried * _LONGER
    advice = (
        f"the limit is {limit:,} tokens; {limit_tried:,}, where a reply is asked for"
        f" again, were not enough either; raise it by LLMJudge(model,"
        f" max_tokens={limit_advised})"
    )
    prices = model.prices()
    if prices is None:
        return f"{advice}; the price of {model.name} is not known"
    # dollars for each token of a prompt, and for each token of a reply
    _, price_received = prices
    return (
        f"{advice}: a reply of {limit_advised:,} tokens costs"
        f" ${limit_advised * price_received:.4f},"
        f" one of {limit:,} tokens ${limit * price_received:.4f}"
    )


def request_for_repair(
    request: ChatRequest, reply: Outcome, problem: errors.UnusableReply
) -> ChatRequest:
    """Return the request that asks again after an unusable reply.

    The conversation goes on, with the reply and what is wrong with it: an equal request
    would bring an equal reply. After a reply that was cut off, the limit of its length
    is raised, too.
    """
    complaint = (
        f"Your reply could not be used: {problem}. Reply again with only the JSON"
        " object."
    )
    conversation = list(request.messages)
    if problem.raw.strip():
        conversation.append(Message("assistant", problem.raw))
    conversation.append(Message("user", complaint))
    limit = request.max_tokens
    if is_cut_off(reply) and limit is not None:
        limit *= _LONGER
    return replace(request, messages=tuple(conversation), max_tokens=limit)
