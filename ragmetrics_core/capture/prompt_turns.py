"""Earlier turns that stand in a prompt as messages of user and assistant. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragmetrics_core.capture.plain_values import (
    as_one_line,
    drop_shown_documents,
    spoken,
)
from ragmetrics_core.capture.tree import Document, Message
from ragmetrics_core.data import Turn

# a question of fewer letters stands in other messages by chance
_SHORTEST = 8


def turns_before_question(
    prompt: Sequence[Message], question: str | None, documents: Iterable[Document]
) -> tuple[Turn, ...]:
    """What user and assistant said before the question that a prompt asks.

    Args:
        prompt: The messages that a model was shown.
        question: What is asked now; None if that is not known.
        documents: What was found for the question. Messages in the user's name that
            only show these are no turns.

    Returns:
        The turns, oldest first. Those before the last message of the user that holds
        the question; without such a message those up to the assistant's last words.
    """
    asked = as_one_line(question)
    end = 0
    for place, message in enumerate(prompt):
        if message.role == "assistant" and message.text.strip():
            end = place + 1
    for place, message in enumerate(prompt):
        if message.role == "user" and _holds_question(message, asked):
            end = place
    return spoken(drop_shown_documents(prompt[:end], documents))


def _holds_question(message: Message, asked: str) -> bool:
    """Whether a message is a question, or holds it among other words."""
    words = as_one_line(message.text)
    return bool(asked) and (
        words == asked or (len(asked) >= _SHORTEST and asked in words)
    )


def messages_up_to_question(
    messages: Sequence[Message], question: str | None, passed_on: Sequence[Message]
) -> list[Message]:
    """The messages that a step returned, up to the question, where it is among them.

    What stands behind the question is of this turn: what was found, or the call of a
    tool. A message with the words of the question is the question if the step was
    handed it as a message, or if the assistant did not answer it. Otherwise a memory
    holds the same question from an earlier turn.

    Args:
        messages: What the step returned.
        question: What is asked now; None if that is not known.
        passed_on: The messages that the step was handed.
    """
    asked = as_one_line(question)
    if not asked:
        return list(messages)
    lines_passed_on = [
        as_one_line(message.text) for message in passed_on if message.role == "user"
    ]
    is_answered = False
    for place in reversed(range(len(messages))):
        message = messages[place]
        words = as_one_line(message.text)
        is_passed_on = words == asked and words in lines_passed_on
        is_open = asked in words and not is_answered
        if message.role == "user" and (is_passed_on or is_open):
            return list(messages[: place + 1])
        is_answered |= message.role == "assistant" and bool(words)
    return list(messages)
