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
    """Return what user and assistant said in a prompt before the current question.

    User "Open?", assistant "Yes.", user "And when?": the turns are "Open?" and "Yes."
    They end with the assistant's last message if no message holds the question.

    Args:
        prompt: The messages that a model was shown.
        question: What is asked now; None if that is not known.
        documents: What was found; messages that only show these are no turns.
    """
    question_line = as_one_line(question)
    n_earlier_messages = 0
    for index, message in enumerate(prompt):
        if message.role == "assistant" and message.text.strip():
            n_earlier_messages = index + 1
    # the last message that asks the question ends the earlier turns
    for index, message in enumerate(prompt):
        if message.role == "user" and _holds_question(message, question_line):
            n_earlier_messages = index
    return spoken(drop_shown_documents(prompt[:n_earlier_messages], documents))


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
    """Return the messages that a step returned, up to the user's current question.

    Example: an agent was given "Open?", and returned "Open?", "Let me look.", "Yes.":
    only "Open?" is returned. Messages before the question are returned, too. The
    question is the latest message of the user that is one of these:

    - the question itself, as the step was given it
    - a text that holds the question, "Context: … Question: Open?", if no reply follows

    If there is none, all messages are returned.

    Args:
        messages: The messages that the step returned.
        question: The question that is asked now; None if it is not known.
        passed_on: The messages that the step was given.
    """
    question_line = as_one_line(question)
    if not question_line:
        return list(messages)
    lines_given = [
        as_one_line(message.text) for message in passed_on if message.role == "user"
    ]
    was_question_given = question_line in lines_given
    is_reply_after = False  # whether the assistant replies after the message
    for index in reversed(range(len(messages))):
        message = messages[index]
        line = as_one_line(message.text)
        if message.role == "user":
            # "Open?" as the step was given it: replies after it are of this turn
            is_given_question = was_question_given and line == question_line
            # "Context: … Question: Open?" is how this turn asks; with a reply after it, an
            # earlier turn may have asked so
            holds_question = question_line in line and not is_reply_after
            if is_given_question or holds_question:
                return list(messages[: index + 1])
        elif message.role == "assistant" and line:
            is_reply_after = True
    return list(messages)
