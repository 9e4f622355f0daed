"""Where replies are kept so that nothing is asked twice; here in memory, bounded."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from ragmetrics_core.judging.chat import Choice


class ReplyStore(Protocol):
    """Keeps single replies under a key that names everything that changes them."""

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if there is none."""

    def put(self, key: str, choice: Choice) -> None:
        """Keep a reply."""

    def reject(self, key: str) -> None:
        """Mark a kept reply as unusable, so that it is asked again."""


class MemoryStore:
    """A store in memory that forgets the least recently used replies.

    Args:
        max_entries: Most replies kept.
    """

    def __init__(self, max_entries: int = 10_000) -> None:
        self._max_entries = max_entries
        self._choices: OrderedDict[str, Choice] = OrderedDict()

    def __len__(self) -> int:
        return len(self._choices)

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if there is none."""
        choice = self._choices.get(key)
        if choice is not None:
            self._choices.move_to_end(key)
        return choice

    def put(self, key: str, choice: Choice) -> None:
        """Keep a reply, forgetting the least recently used one beyond the bound."""
        self._choices[key] = choice
        self._choices.move_to_end(key)
        while len(self._choices) > self._max_entries:
            self._choices.popitem(last=False)

    def reject(self, key: str) -> None:
        """Forget a reply that turned out unusable."""
        self._choices.pop(key, None)
