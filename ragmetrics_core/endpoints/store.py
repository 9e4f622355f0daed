"""Replies that are kept, so that nothing is paid twice: in memory, or in a SQLite file, cache and crash journal in one.

The file holds replies under digests of what was asked: no key and no prompt; but replies may quote texts of samples.
Reads happen on the caller's thread; one thread commits all that waits together. A call is only sent once every reply
received before it is committed (``settled``), so a killed run loses no more than the calls that were in flight.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import safe
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints import own_file
from ragmetrics_core.endpoints.chat import Choice, Origin, TokenAlternatives
from ragmetrics_core.endpoints.database import Database


@runtime_checkable
class ReplyStore(Protocol):
    """Keeps single replies under a key that names everything that changes them.

    Implementations inherit from it, for its defaults. ``get``, ``put``, ``reject`` and ``adopt`` are called on the
    judges' event loop and return at once; none of them raises for want of space or permission.

    **Unusable replies.** Whoever cannot use a reply calls ``reject``; for the rest of the run ``get`` returns None
    under its key, so that it may be asked again. A store that outlives the run counts the runs that rejected what they
    got, a run being what lies between two calls of ``flush``: after one, the next run asks again; after two, ``get``
    returns the last such reply with ``choice.origin.unusable`` set. To read it tells once more why it cannot be used;
    it is neither asked again nor repaired until a fresh run asks everything anew.
    """

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if it is to be asked for."""

    def put(self, choices: Mapping[str, Choice], usage: Usage) -> None:
        """Keep the replies that one call gave, by key, all or none; ``usage`` is what that call cost."""

    def reject(self, key: str) -> None:
        """Mark a kept reply as unusable."""

    def adopt(self, key: str, source: str, choice: Choice) -> None:
        """Keep a repaired reply in place of the unusable one; by default without what it cost.

        Args:
            key: Of the unusable reply.
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
    """A store in memory that forgets the least recently used replies, and unusable ones.

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


REPLIES = own_file.Kind(
    holds="replies",
    application_id=0x52614D65,  # "RaMe"
    steps=(
        ("CREATE TABLE replies (key BLOB PRIMARY KEY, choice TEXT NOT NULL, created REAL NOT NULL) WITHOUT ROWID",),
        (
            "ALTER TABLE replies ADD COLUMN model TEXT NOT NULL DEFAULT ''",
            "ALTER TABLE replies ADD COLUMN tokens REAL NOT NULL DEFAULT 0",
            "ALTER TABLE replies ADD COLUMN cost REAL",
            "CREATE TABLE rejected "
            "(key BLOB NOT NULL, choice TEXT NOT NULL, created REAL NOT NULL, model TEXT NOT NULL)",
            "CREATE TABLE saved (model TEXT PRIMARY KEY, replies INTEGER NOT NULL, tokens REAL NOT NULL, "
            "cost REAL NOT NULL, unpriced INTEGER NOT NULL) WITHOUT ROWID",
        ),
        (
            "ALTER TABLE replies ADD COLUMN unusable INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE replies ADD COLUMN rejections INTEGER NOT NULL DEFAULT 0",
            "INSERT OR IGNORE INTO replies (key, choice, created, model, unusable, rejections) "
            "SELECT key, choice, created, model, 1, 1 FROM rejected",
            "DROP TABLE rejected",
        ),
    ),
    unnumbered=2,
    made="replies are kept in %s, so that none is paid twice; 'ragmetrics store' shows them",
)
_GET = "SELECT choice, model, tokens, cost, unusable, rejections FROM replies WHERE key = ?"
_PUT = """INSERT INTO replies (key, choice, created, model, tokens, cost) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET choice = excluded.choice, created = excluded.created, model = excluded.model,
tokens = excluded.tokens, cost = excluded.cost, unusable = 0"""
_REJECT = "UPDATE replies SET unusable = 1, rejections = rejections + ? WHERE key = ?"
_MOVE = "UPDATE OR REPLACE replies SET key = ? WHERE key = ?"
_SAVED = """INSERT INTO saved VALUES (?, ?, ?, ?, ?) ON CONFLICT (model) DO UPDATE SET
replies = replies + excluded.replies, tokens = tokens + excluded.tokens,
cost = cost + excluded.cost, unpriced = unpriced + excluded.unpriced"""
_RUNS = 2  # that could not use what they got, until it is known
_FINISHES = frozenset({"stop", "length", "refused", "other"})


class SqliteStore(Database, ReplyStore):
    """A store in a file; it is opened at the first use, and made if need be, for its owner alone.

    A file that cannot be written costs a warning, not the run: new replies are then kept in memory.

    Args:
        path: The file.
        fresh: Ask everything anew once, and keep the new replies in place of what the file held before. A run that
            was interrupted goes on without it; fresh again, everything is asked and paid again.

    Raises:
        ForeignFile: If there is a file that is not ours.

    Example:
        >>> SqliteStore("replies.sqlite")
        SqliteStore('replies.sqlite')
    """

    def __init__(self, path: str | os.PathLike[str], *, fresh: bool = False) -> None:
        self._new: set[str] | None = set() if fresh else None
        super().__init__(path, REPLIES)

    def begin(self) -> None:
        """Start anew: at first, and in a forked process."""
        super().begin()
        self._memory = MemoryStore()  # of what cannot be written
        self._rejected: dict[str, bool] = {}  # what this run rejected; False once there is another reply
        self._saved: dict[str, list[float]] = {}

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if it is to be asked for."""
        with self.lock:
            if (choice := self._memory.get(key)) is not None:
                return choice
            if self._rejected.get(key) or (self._new is not None and key not in self._new):
                return None
            unwritten = self.unwritten(key)
            return self._read(key) if unwritten is None else unwritten[0]

    def put(self, choices: Mapping[str, Choice], usage: Usage) -> None:
        """Keep the replies of one call; they are committed together, soon."""
        share, now = max(len(choices), 1), time.time()
        tokens = (usage.prompt_tokens + usage.completion_tokens) / share
        cost = None if usage.cost is None else usage.cost / share
        rows = [
            (bytes.fromhex(key), _dumped(choice), now, safe(choice.origin.model), tokens, cost)
            for key, choice in choices.items()
        ]
        with self.lock:
            self._rejected.update((key, False) for key in choices if key in self._rejected)
            if self._new is not None:
                self._new.update(choices)
            if not self.write(_PUT, rows, choices):
                self._memory.put(choices, usage)

    def reject(self, key: str) -> None:
        """Mark a reply as unusable; counted once in a run."""
        with self.lock:
            first = key not in self._rejected
            self._rejected[key] = True
            self._memory.reject(key)
            self.write(_REJECT, [(first, bytes.fromhex(key))], {key: None})

    def adopt(self, key: str, source: str, choice: Choice) -> None:
        """Move a repaired reply, with what it cost, to the place of the unusable one."""
        with self.lock:
            self._rejected.pop(key, None)
            if self._new is not None:
                self._new.add(key)
            if not self.write(_MOVE, [(bytes.fromhex(key), bytes.fromhex(source))], {key: choice, source: None}):
                self._memory.adopt(key, source, choice)

    async def settled(self) -> None:
        """Wait until everything put so far is committed."""
        if (done := self.committed()) is not None:
            await asyncio.wrap_future(done)

    def flush(self) -> None:
        """Wait until everything put so far is committed, and what it saved is counted."""
        with self.lock:
            self._rejected.clear()
            if self._saved:
                self.write(_SAVED, [(model, *counts) for model, counts in self._saved.items()], {})
                self._saved = {}
        if (done := self.committed()) is not None:
            done.result()

    def close(self) -> None:
        """Commit what waits and let go of the file; the next use opens it again."""
        self.flush()
        self.pause()
        self.resume()

    def lost(self, news: Mapping[str, Choice | None]) -> None:
        """Keep in memory what could not be written."""
        self._memory.put({key: choice for key, choice in news.items() if choice is not None}, Usage())

    def _read(self, key: str) -> Choice | None:
        row = self.read(_GET, (bytes.fromhex(key),))
        choice = None if row is None else _loaded(*row)
        if row is not None and choice is not None and not choice.origin.unusable:
            counts = self._saved.setdefault(choice.origin.model, [0, 0.0, 0.0, 0])
            for place, more in enumerate((1, row[2], row[3] or 0.0, row[3] is None)):
                counts[place] += more
        return choice


def _dumped(choice: Choice) -> str:
    """A reply as JSON."""
    tokens = [[token.token, token.logprob, token.alternatives] for token in choice.tokens]
    return json.dumps([choice.text, choice.finish, choice.origin.together, tokens], separators=(",", ":"))


def _loaded(text: bytes, model: bytes, tokens: float, cost: float | None, unusable: int, runs: int) -> Choice | None:
    """The reply in a row; None if it is to be asked again, or is none, e.g. on a damaged page."""
    try:
        content, finish, together, listed = json.loads(text)
        alternatives = tuple(
            TokenAlternatives(str(token), float(logprob), tuple((str(other), float(value)) for other, value in others))
            for token, logprob, others in listed
        )
        origin = Origin(model.decode(), int(together), unusable=bool(unusable))
        known = isinstance(content, str) and finish in _FINISHES and tokens + (cost or 0.0) >= 0
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return Choice(content, finish, alternatives, origin) if known and (not unusable or runs >= _RUNS) else None


StoreLike = ReplyStore | str | os.PathLike[str] | bool | None
"""A store, the path of a file, True for the file in the user's cache folder, False for memory, None for the default."""


def default_path() -> Path:
    """The file of stored replies: ``RAGMETRICS_STORE``, else one in the user's cache folder."""
    if chosen := os.environ.get("RAGMETRICS_STORE"):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path  # only runs that keep replies need it

    return user_cache_path("ragmetrics", appauthor=False) / "replies.sqlite"


def resolve_store(store: StoreLike) -> ReplyStore:
    """Find the store to use.

    Args:
        store: A store; the path of a SQLite file; True for the file in the user's cache folder; False for a store
            in memory, for this run; None for the file that ``RAGMETRICS_STORE`` names, else memory.

    Returns:
        The store; a file is opened at its first use, so a judge that makes no calls leaves none behind.

    Raises:
        SettingError: If ``store`` is none of these, or a file that is not ours (``ForeignFile``).
    """
    if store is None:
        store = bool(os.environ.get("RAGMETRICS_STORE"))
    if store is False:
        return MemoryStore()
    if store is True:
        return SqliteStore(default_path())
    if isinstance(store, ReplyStore):
        return store
    if isinstance(store, (str, os.PathLike)) and str(store):
        return SqliteStore(Path(store))
    raise SettingError(f"store is a {type(store).__name__}; give a path, a ReplyStore, True or False")
