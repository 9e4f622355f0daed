"""Asks typed questions through a session.

A typed question is answered with probabilities. Each answer is stored under its own
key, so that only missing answers are asked for.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ragmetrics_core.data import Usage, errors
from ragmetrics_core.models.chat import ChatRequest, Choice, Message
from ragmetrics_core.models.decision_forms import request_text
from ragmetrics_core.models.reply_reading import Outcome
from ragmetrics_core.models.session import Session

T = TypeVar("T")


async def decide(
    session: Session,
    state: str,
    questions: Sequence[str],
    read: Callable[[str, Choice], T],
) -> tuple[dict[str, T | errors.JudgeError], Usage]:
    """Ask typed questions about the same texts, in one request.

    An unusable answer is not asked for again: the same request would give the same
    answer. Example: of 4 questions 1 is stored; the request asks 3.

    Args:
        session: Sends the request.
        state: The texts that the questions are about, as JSON.
        questions: Different questions, each as JSON.
        read: Reads the answer to a question; raises ``JudgeError`` if the answer cannot
            be used.

    Returns:
        By question the answer as it was read, or an error; and what all cost.
    """
    await session.prepare()
    question_by_key = {
        session.digest(state, "typed", question): question for question in questions
    }

    def make_request(keys: Sequence[str]) -> ChatRequest:
        text = request_text(state, [question_by_key[key] for key in keys])
        return ChatRequest((Message("user", text),), n=len(keys), temperature=None)

    fetched = await session.fetch_typed(make_request, list(question_by_key))
    answers: dict[str, T | errors.JudgeError] = {}
    for (key, question), outcome in zip(
        question_by_key.items(), fetched.in_order(), strict=True
    ):
        answers[question] = _read(outcome, question, read)
        is_unusable = isinstance(answers[question], errors.JudgeError)
        if isinstance(outcome, Choice) and is_unusable:
            session.reject([key])
    return answers, fetched.usage


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
