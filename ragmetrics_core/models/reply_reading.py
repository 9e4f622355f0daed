"""Reads the replies of a chat model; says how to ask again for an unusable one.

An error that reaches the user names the model and says what to do.
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ragmetrics_core.data import errors
from ragmetrics_core.models.chat import ChatModel, ChatRequest, Choice, Message
from ragmetrics_core.models.threads import call_in_thread, compute_beside_loop

T = TypeVar("T")
Outcome = Choice | errors.JudgeError

# A reply that was cut off is asked for again with so many times the tokens.
_LONGER = 4
# So many characters of an unusable reply are shown to the model that is asked again.
_MOST_SHOWN = 20_000


async def read_reply(
    outcome: Outcome, read: Callable[[Choice], T], *, own_reader: bool
) -> T | errors.JudgeError:
    """Read a reply as ``read_outcome`` does, a long one in a thread beside the event loop.

    Args:
        outcome: The reply, or why there is none.
        read: Reads a reply; raises ``UnusableReply`` if the reply cannot be used.
        own_reader: Whether ``read`` is code of a user's own. It gets a thread of its
            own, so that one that never ends holds up nobody.
    """
    read_here = partial(read_outcome, outcome, read)
    if own_reader:
        result = call_in_thread(
            read_here, context=copy_context(), name="ragmetrics reader"
        )
        return await asyncio.wrap_future(result)
    n_characters = len(outcome.text) if isinstance(outcome, Choice) else 0
    return await compute_beside_loop(read_here, size=n_characters)


def read_outcome(
    outcome: Outcome, read: Callable[[Choice], T]
) -> T | errors.JudgeError:
    """Read a reply; return an error if there is none, or it cannot be used."""
    if isinstance(outcome, errors.JudgeError):
        return outcome
    try:
        return read(outcome)
    except errors.JudgeError as error:
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
    if _is_cut_off(outcome) and request.max_tokens is not None:
        limit_tried = request.max_tokens * _LONGER
        advice = (
            f"{limit_tried:,} tokens, where a reply is asked for again, were not enough:"
            f" raise the limit by LLMJudge(model, max_tokens={limit_tried * _LONGER})"
        )
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


def _is_cut_off(outcome: Outcome) -> bool:
    """Whether a reply ended at the token limit."""
    return isinstance(outcome, Choice) and outcome.finish == "length"


def request_for_repair(
    request: ChatRequest, reply: Choice, problem: errors.UnusableReply
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
        conversation.append(Message("assistant", problem.raw[:_MOST_SHOWN]))
    conversation.append(Message("user", complaint))
    limit = request.max_tokens
    if _is_cut_off(reply) and limit is not None:
        limit *= _LONGER
    return replace(request, messages=tuple(conversation), max_tokens=limit)
