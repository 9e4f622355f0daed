"""Asks typed questions through a session, and shares out what they cost.

A typed question is answered with probabilities. Each answer is stored under its own
key, so that only missing answers are asked for.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Generic, TypeVar

from ragmetrics_core.data import Usage, errors
from ragmetrics_core.models.chat import ChatRequest, Choice, Message
from ragmetrics_core.models.decision_forms import request_text
from ragmetrics_core.models.reply_reading import Outcome
from ragmetrics_core.models.session import Session

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Generic[T]):
    """The answer to a typed question as it was read, or an error; and its cost."""

    outcome: T | errors.JudgeError
    usage: Usage


async def decide(
    session: Session,
    state: str,
    questions: Sequence[str],
    read: Callable[[str, Choice], T],
) -> dict[str, Decision[T]]:
    """Ask typed questions about the same texts, in one request.

    An unusable answer is not asked for again: the same request would give the same
    answer. Example: of 4 questions 1 is stored; the request asks 3, which share its
    cost.

    Args:
        session: Sends the request.
        state: The texts that the questions are about, as JSON.
        questions: Different questions, each as JSON.
        read: Reads the answer to a question; raises ``JudgeError`` if the answer cannot
            be used.

    Returns:
        The answer and cost of each question, by the question. The costs sum to what the
        request cost.
    """
    await session.prepare()
    question_by_key = {
        session.digest(state, "typed", question): question for question in questions
    }

    def make_request(keys: Sequence[str]) -> ChatRequest:
        text = request_text(state, [question_by_key[key] for key in keys])
        return ChatRequest((Message("user", text),), n=len(keys), temperature=None)

    fetched = await session.fetch_typed(make_request, list(question_by_key))
    paid_questions = [
        question
        for key, question in question_by_key.items()
        if key in fetched.paid_keys
    ]
    cost_of_paid = share_usage(fetched.usage, paid_questions)
    cost_of_stored = Usage(stored=1, models=fetched.usage.models)
    decisions: dict[str, Decision[T]] = {}
    for (key, question), outcome in zip(
        question_by_key.items(), fetched.in_order(), strict=True
    ):
        result = _read(outcome, question, read)
        if isinstance(outcome, Choice) and isinstance(result, errors.JudgeError):
            session.reject([key])
        cost = cost_of_paid.get(question, cost_of_stored)
        decisions[question] = Decision(result, cost)
    return decisions


def _read(
    outcome: Outcome, question: str, read: Callable[[str, Choice], T]
) -> T | errors.JudgeError:
    """Read the answer to a typed question; return why it cannot be used if so."""
    if isinstance(outcome, errors.JudgeError):
        return outcome
    try:
        return read(question, outcome)
    except errors.JudgeError as error:
        return error


def share_usage(usage: Usage, questions: Collection[str]) -> dict[str, Usage]:
    """Share out what a request cost among its questions, by their length.

    The shares of tokens, calls and costs sum to the whole. Replies from the store are
    counted in no share. Example: 100 tokens and two questions of the lengths 1 and 3:
    25 and 75 tokens; the one call counts for the second.

    Args:
        usage: What the request cost.
        questions: The questions; each once.
    """
    count_by_field = {
        field.name: getattr(usage, field.name)
        for field in fields(usage)
        if field.type is int and field.name != "stored"
    }
    total_length = sum(map(len, questions))
    shares: dict[str, Usage] = {}
    start = 0.0  # where a question begins, as a share of the length of all
    for question, length_until_end in zip(
        questions, accumulate(map(len, questions)), strict=True
    ):
        end = length_until_end / total_length
        # Rounded ends, not rounded shares: so the shares sum to the whole count.
        part_by_field = {
            name: round(count * end) - round(count * start)
            for name, count in count_by_field.items()
        }
        cost = None if usage.cost is None else usage.cost * (end - start)
        shares[question] = replace(usage, **part_by_field, stored=0, cost=cost)
        start = end
    return shares
