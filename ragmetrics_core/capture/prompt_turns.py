"""Reads the earlier turns of a conversation from the messages of a prompt. Pure.

Of the messages "When did it open?", "In 1874." and "And the ferry?" the first two are
the history, if the question of now is "And the ferry?".
"""

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
    """Return what user and assistant said before the question that a prompt asks.

    Args:
        prompt: The messages that a model was shown.
        question: What is asked now; None if that is not known.
        documents: What was found for the question. Messages in the user's name that
            only show these are no turns.

    Returns:
        The turns, oldest first: the messages before the last message of the user that
        holds the question. If no message holds it, all messages up to the assistant's
        last one.
    """
    question_line = as_one_line(question)
    n_earlier = 0
    for index, message in enumerate(prompt):
        if message.role == "assistant" and message.text.strip():
            n_earlier = index + 1
    for index, message in enumerate(prompt):
        if message.role == "user" and _holds_question(message, question_line):
            n_earlier = index
    return spoken(drop_shown_documents(prompt[:n_earlier], documents))


def _holds_question(message: Message, question_line: str) -> bool:
    """Return whether a message is a question, or holds a long one among other words.

    Args:
        message: The message.
        question_line: The question, in one line; empty if it is not known.
    """
    if not question_line:
        return False
    line = as_one_line(message.text)
    if line == question_line:
        return True
    return len(question_line) >= _SHORTEST and question_line in line


def messages_up_to_question(
    messages: Sequence[Message], question: str | None, passed_on: Sequence[Message]
) -> list[Message]:
    """Return the messages that a step returned, up to the one that asks the question.

    Messages behind it are of this turn: what was found, or a tool's call. Messages
    before it are earlier turns, and a memory may hold the same question among them. So
    the messages are gone through from the last to the first. The first message of the
    user counts that fulfils one of two:

        - The message is the question and nothing else, and it is among the messages that
          the step was given.
        - The message holds the question, and no message of the assistant stands behind
          it.

    Args:
        messages: The messages that the step returned.
        question: The question that is asked now; None if it is not known.
        passed_on: The messages that the step was given.

    Returns:
        The messages; all of them if none asks the question.
    """
    question_line = as_one_line(question)
    if not question_line:
        return list(messages)
    lines_given = [
        as_one_line(message.text) for message in passed_on if message.role == "user"
    ]
    is_assistant_behind = False
    for index in reversed(range(len(messages))):
        message = messages[index]
        line = as_one_line(message.text)
        if message.role == "user":
            is_question_given = line == question_line and line in lines_given
            holds_question = question_line in line
            if is_question_given or (holds_question and not is_assistant_behind):
                return list(messages[: index + 1])
        elif message.role == "assistant" and line:
            is_assistant_behind = True
    return list(messages)
