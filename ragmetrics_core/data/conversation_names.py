"""The names under which columns, metadata and spans hold a conversation.

Tables and traces share this one list. Tools write the names with a path in front:
``attributes.session.id`` (Phoenix), ``extra.metadata.thread_id`` (LangSmith),
``mlflow.trace.session`` (MLflow). So a name is known by its end.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ragmetrics_core.data.blank import is_present
from ragmetrics_core.data.cells import data_in
from ragmetrics_core.data.nearest import plain_name

# The first name that a sample has counts. A session comes last: at LangSmith it is the
# project, elsewhere it may hold several conversations.
_USUAL_NAME_BY_END = {
    "conversationid": "conversation_id",
    "conversation.id": "conversation_id",
    "conversationuuid": "conversation_id",
    "threadid": "thread_id",  # `thread.id` is a thread of the operating system
    "chatid": "chat_id",
    "chat.id": "chat_id",
    "dialogid": "dialogue_id",
    "dialogueid": "dialogue_id",
    "sessionid": "session_id",
    "session.id": "session_id",
    "trace.session": "session_id",
}
_WHOLE_NAME = "conversation"  # too common a word to be known by it after a path
CONVERSATION_NAMES = (*dict.fromkeys(_USUAL_NAME_BY_END.values()), _WHOLE_NAME)
"""The names of conversations. Of two names in an object the earlier here counts."""

_DEEPEST = 4  # objects in objects
# Texts without these words hold no name, so they need not be read.
_MAY_HOLD_NAME = re.compile("conversation|thread|chat|dialog|session", re.IGNORECASE)


class NamedConversation(NamedTuple):
    """A conversation that a row or span names.

    Args:
        name: The usual name of such a column or key, e.g. ``thread_id``.
        path: The path under which it stands, e.g. ``metadata.threadId``.
        value: The conversation's own id.
    """

    name: str
    path: str
    value: object


def conversation_name(path: str) -> str | None:
    """Return the usual name of a conversation that a name or dotted path ends with.

    Case, spaces, hyphens and underscores do not matter. None for any other name.

    Examples:
        >>> conversation_name("attributes.session.id"), conversation_name("threadId")
        ('session_id', 'thread_id')
        >>> conversation_name("thread.id") is None
        True
    """
    parts = [plain_name(part) for part in path.removeprefix("metadata.").split(".")]
    if parts == [_WHOLE_NAME]:
        return _WHOLE_NAME
    last_part = parts[-1]
    last_two_parts = ".".join(parts[-2:])
    return _USUAL_NAME_BY_END.get(last_part) or _USUAL_NAME_BY_END.get(last_two_parts)


def conversation_in(data: Mapping[str, object]) -> NamedConversation | None:
    """Return the conversation that an object names, itself or in objects inside it.

    Of several the one whose name comes first in ``CONVERSATION_NAMES``, then the one
    that stands least deep. None if no name has a value.
    """
    candidates = list(_conversations_in(data, path="", depth=0))
    if not candidates:
        return None
    return min(candidates, key=_rank).conversation


class _Candidate(NamedTuple):
    """A conversation that an object names, and how many objects are around that one."""

    conversation: NamedConversation
    depth: int


def _rank(candidate: _Candidate) -> tuple[int, int]:
    """What is lowest for the candidate that counts: the place of its name, then depth."""
    return CONVERSATION_NAMES.index(candidate.conversation.name), candidate.depth


def _conversations_in(
    data: Mapping[str, object], *, path: str, depth: int
) -> Iterator[_Candidate]:
    """Yield the conversations that an object names, itself or in objects inside it.

    Example: ``{"metadata": {"session_id": "s1"}}`` names "s1" under the path
    ``metadata.session_id``. Texts of JSON are searched as well.

    Args:
        data: The object.
        path: Where it stands, such as "metadata."; "" for the outermost.
        depth: How many objects are around it.
    """
    for key, value in data.items():
        inner_path = f"{path}{key}"
        # "thread_id" if the key is a name of a conversation, such as "threadId"
        usual_name = conversation_name(inner_path)
        if usual_name is None:
            # another key, such as "metadata", may hold the text '{"session_id": "s1"}'
            value = _read_json_with_name(value)
        inner = []
        if isinstance(value, Mapping) and depth + 1 < _DEEPEST:
            inner = list(
                _conversations_in(value, path=f"{inner_path}.", depth=depth + 1)
            )
            yield from inner
        # Of {"thread": {"id": 7}} the inner name counts, not the object around it.
        if usual_name is not None and not inner and is_present(value):
            conversation = NamedConversation(usual_name, inner_path, value)
            yield _Candidate(conversation, depth)


def _read_json_with_name(value: object) -> object:
    """Return the data of a JSON text that may name a conversation; else the value."""
    if isinstance(value, str) and _MAY_HOLD_NAME.search(value):
        return data_in(value)
    return value
