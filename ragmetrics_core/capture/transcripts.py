"""Earlier turns of a conversation, as an application hands them in. Pure.

Messages of a framework, mappings with a role, and pairs of question and answer have
turns. A text such as "User: Open? Assistant: Yes." is kept as the text that it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ragmetrics_core.data import Turn

_ASSISTANTS = frozenset(
    ["a", "agent", "ai", "aimessage", "assistant", "bot", "chatbot", "gpt", "model"]
)
_USERS = frozenset(
    [
        "customer",
        "human",
        "humanmessage",
        "input",
        "q",
        "query",
        "question",
        "user",
        "you",
    ]
)
# names before what was said in a history; before a draft some of them stand, too
_REPLIES = _ASSISTANTS | {"answer", "reply", "response"}


@dataclass(frozen=True)
class EarlierConversation:
    """Earlier turns of a conversation that a run was handed.

    Attributes:
        turns: The turns, oldest first.
        doubts: What is uncertain about them, in words.
        texts: What was handed in as an earlier talk, where no turns can be read from
            it. It is no evidence where a prompt shows it.
    """

    turns: tuple[Turn, ...] = ()
    doubts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def turns_of_fields(field_values: Mapping[str, object]) -> tuple[Turn, ...]:
    """Read the turns of a conversation in one mapping of a history.

    The mapping is a message with a role and a content, or a question with its answer.
    Any other mapping has no turns.

    Examples:
        >>> turns_of_fields({"question": "Open?", "answer": "Yes."})
        (Turn(role='user'), Turn(role='assistant'))
        >>> turns_of_fields({"role": "human", "content": "Open?"})
        (Turn(role='user'),)
    """
    role = field_values.get("role")
    content = field_values.get("content")
    if isinstance(role, str) and isinstance(content, str):
        return _turns_of_role(role.lower(), content)
    question = _first_text_of(_USERS, field_values)
    answer = _first_text_of(_REPLIES, field_values)
    if question is None or answer is None:
        return ()
    return (
        Turn(role="user", content=question),
        Turn(role="assistant", content=answer),
    )


def _turns_of_role(role: str, content: str) -> tuple[Turn, ...]:
    """Return a message as a turn; none for another role than user or assistant, or a blank text."""
    if not content.strip():
        return ()
    if role in _USERS:
        return (Turn(role="user", content=content),)
    if role in _ASSISTANTS:
        return (Turn(role="assistant", content=content),)
    return ()


def _first_text_of(
    names: Collection[str], field_values: Mapping[str, object]
) -> str | None:
    """Return the first text in a field with any of the names; None without one."""
    for name, text in field_values.items():
        if name.lower() not in names:
            continue
        if isinstance(text, str) and text.strip():
            return text
    return None
