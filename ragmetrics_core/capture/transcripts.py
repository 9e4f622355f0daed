"""Conversations that stand in a prompt as text: who said what. Pure.

Some applications write the history of the conversation into their prompt. Others write
a draft into it that is to be revised. Both hold an earlier answer of a model. The names
before and after that answer tell which of the two it is::

    User: When did it open?          an earlier turn: the user speaks again after it
    Assistant: In 1874.
    User: And the ferry?

    Question: When did it open?      perhaps a draft: nobody speaks after it
    Draft: In 1874.
    Make it longer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragmetrics_core.data import Turn
from ragmetrics_core.data.lazy_patterns import lazy_pattern

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
# the name of who speaks, right before a text: "User: ", "AIMessage(content='"
_NAME = lazy_pattern(
    r"([^\W\d_]+)(\W{1,12}(?:(?:content|end_header_id)\W{1,8})?)\Z", re.DOTALL
)
# a name at the head of a line or of a message, and what ends it
_SPEAKER = lazy_pattern(
    r"(?:^|[>|#*\[('\"{])[^\S\n]*([^\W\d_]+)(?:[^\w\s]|[^\S\n]*\n)", re.MULTILINE
)
# a name before what was said: "User: ", "[ai]:, ", "**Assistant**: "
_LABEL = lazy_pattern(
    rf"^\W{{0,3}}(?:(?P<assistant>{'|'.join(sorted(_REPLIES))})"
    rf"|(?:{'|'.join(sorted(_USERS))}))[^\w\s:]{{0,3}}:[^\w\s]{{0,3}}\s*",
    re.MULTILINE | re.IGNORECASE,
)
_LONGEST_NAME = 80


_NAMELESS = (
    "the history is a list of texts that do not say who speaks; they are taken in turn"
    " as the user's and the assistant's"
)


@dataclass(frozen=True)
class EarlierConversation:
    """Earlier turns of a conversation that were read from text.

    Attributes:
        turns: The turns, oldest first.
        doubts: What is uncertain about them, in words.
        texts: What was handed in as an earlier talk, where no turns can be read from
            it. It is no evidence where a prompt shows it.
    """

    turns: tuple[Turn, ...] = ()
    doubts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def read_conversation(texts: Sequence[str]) -> EarlierConversation:
    r"""The turns of a history that is a list of texts.

    Args:
        texts: What was said, the earliest first. A text may name who speaks, and may
            hold several turns.

    Returns:
        The turns, without the names. Where a text names nobody, all texts are taken in
        turn as the user's and the assistant's, whose is the last one.

    Examples:
        >>> talk = read_conversation(["Question: Open?\nAnswer: Yes.", "Question: When?\nAnswer: At ten."])
        >>> [f"{turn.role}: {turn.content}" for turn in talk.turns]
        ['user: Open?', 'assistant: Yes.', 'user: When?', 'assistant: At ten.']
        >>> len(read_conversation(["Open?", "Yes."]).doubts)
        1
    """
    texts = [text for text in texts if text.strip()]
    turns: list[Turn] = []
    is_labelled = True
    for text in texts:
        turns_of_text = list(_turns_by_label(text))
        turns += turns_of_text
        is_labelled = is_labelled and bool(turns_of_text)
    if is_labelled:
        return EarlierConversation(tuple(turns))
    return EarlierConversation(tuple(_turns_by_position(texts)), (_NAMELESS,))


def _turns_by_position(texts: Sequence[str]) -> Iterator[Turn]:
    """Yield texts as turns of user and assistant by turns; the last is the assistant's."""
    n_texts = len(texts)
    for number, text in enumerate(texts, start=1):
        n_texts_behind = n_texts - number
        is_assistant = n_texts_behind % 2 == 0
        yield Turn(role="assistant" if is_assistant else "user", content=text.strip())


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


def _turns_by_label(text: str) -> Iterator[Turn]:
    r"""Yield the turns of a conversation that was written as one text.

    Example: "User: Open?\nAssistant: Yes." has a turn of the user, "Open?", and a turn
    of the assistant, "Yes.".

    Nothing is yielded for a text that does not begin with the name of a speaker.
    """
    # each label is the match of a name, such as "User: ", at the head of a line
    labels = _labels_where_speaker_changes(text)
    if not labels or labels[0].start() != 0:
        return
    starts_of_later_labels = [label.start() for label in labels[1:]]
    turn_ends = [*starts_of_later_labels, len(text)]
    for label, turn_end in zip(labels, turn_ends, strict=True):
        words = text[label.end() : turn_end].strip()
        if words:
            yield Turn(role=_role_of_label(label), content=words)


def _labels_where_speaker_changes(text: str) -> list[re.Match[str]]:
    """Return the names of speakers in a text, where another speaker spoke before.

    "Answer:" inside of what the assistant says begins no other turn.
    """
    labels: list[re.Match[str]] = []
    for label in _LABEL.finditer(text):
        if not labels or _role_of_label(label) != _role_of_label(labels[-1]):
            labels.append(label)
    return labels


def _role_of_label(label: re.Match[str]) -> Literal["assistant", "user"]:
    """Return the role of the speaker whom a match of ``_LABEL`` names."""
    return "assistant" if label["assistant"] else "user"
