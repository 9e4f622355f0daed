"""Where replies are kept so that nothing is asked twice: the protocol, and a store in memory, bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.chat import Choice


@runtime_checkable
class ReplyStore(Protocol):
    """Keeps single replies under a key that names everything that changes them.

    Implementations inherit from it, for its defaults. ``get``, ``put`` and ``reject`` are called on the judges'
    event loop and return at once; none of them raises for want of space or permission.
    """

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if there is none."""

    def put(self, choices: Mapping[str, Choice], usage: Usage) -> None:
        """Keep the replies that one call gave, by key, all or none; ``usage`` is what that call cost."""

    def reject(self, key: str) -> None:
        """Mark a kept reply as unusable, so that it is asked again."""

    def adopt(self, key: str, source: str, choice: Choice) -> None:
        """Keep a repaired reply in place of the unusable one; by default without what it cost.

        Args:
            key: Of the unusable reply, which is set aside.
            source: Where the repaired reply was kept so far, with what it cost.
            choice: The repaired reply.
        """
        del source
        self.reject(key)
        self.put({key: choice}, Usage())

    async def settled(self) -> None:
        """Wait until everything put so far survives the end of the process; awaited before each call."""
        return

    def flush(self) -> None:
        """Wait in the same way, from any thread; called at the end of a run."""
        return


class MemoryStore(ReplyStore):
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

    def put(self, choices: Mapping[str, Choice], usage: Usage) -> None:
        """Keep replies, forgetting the least recently used ones beyond the bound."""
        del usage  # only stores that outlive a run tell what they saved
        for key, choice in choices.items():
            self._choices[key] = choice
            self._choices.move_to_end(key)
        while len(self._choices) > self._max_entries:
            self._choices.popitem(last=False)

    def reject(self, key: str) -> None:
        """Forget a reply that turned out unusable."""
        self._choices.pop(key, None)

    def adopt(self, key: str, source: str, choice: Choice) -> None:
        """Move a repaired reply to the place of the unusable one."""
        self.reject(source)
        self.put({key: choice}, Usage())


class FreshStore(ReplyStore):
    """Asks everything anew once, and keeps the new replies in another store.

    A run that was interrupted goes on with the other store itself; fresh again, everything is asked and paid again.

    Args:
        inner: Where replies are kept; what it held before is not used.
    """

    def __init__(self, inner: ReplyStore) -> None:
        self._inner = inner
        self._new: set[str] = set()

    def get(self, key: str) -> Choice | None:
        """Return a reply of this run; None if there is none."""
        return self._inner.get(key) if key in self._new else None

    def put(self, choices: Mapping[str, Choice], usage: Usage) -> None:
        """Keep replies in place of the old ones."""
        self._new.update(choices)
        self._inner.put(choices, usage)

    def reject(self, key: str) -> None:
        """Mark a reply of this run as unusable."""
        if key in self._new:
            self._inner.reject(key)

    def adopt(self, key: str, source: str, choice: Choice) -> None:
        """Keep a repaired reply of this run."""
        self._new.add(key)
        self._inner.adopt(key, source, choice)

    async def settled(self) -> None:
        """Wait for the inner store."""
        await self._inner.settled()

    def flush(self) -> None:
        """Wait for the inner store."""
        self._inner.flush()
