"""Replies in a SQLite file: cache and crash journal in one, shared by runs and processes.

Reads happen on the caller's thread; one thread commits all writes that wait together: in WAL mode a commit
survives a killed process without waiting for the disk. A call is only sent once every reply received before it is
committed (``settled``), so a killed run loses no more than the calls that were in flight.

The file holds replies under digests of what was asked: no key, and no prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints import store_file
from ragmetrics_core.endpoints.chat import Choice, Origin, TokenAlternatives
from ragmetrics_core.endpoints.store import MemoryStore, ReplyStore
from ragmetrics_core.endpoints.store_writer import Change, Hits, Writer

logger = logging.getLogger("ragmetrics_core")


class SqliteStore(ReplyStore):
    """A store in a file; it is opened at the first use, and made if need be.

    A file that cannot be written costs a warning, not the run: new replies are then kept in memory.

    Args:
        path: The file.

    Example:
        >>> SqliteStore("replies.sqlite")
        SqliteStore('replies.sqlite')
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._reader: sqlite3.Connection | None = None
        self._writer: Writer | None = None
        self._memory: MemoryStore | None = None
        self._hits: Hits = Counter()

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if there is none."""
        with self._here():
            if self._memory is not None and (choice := self._memory.get(key)) is not None:
                return choice  # later than what could not be written
            if self._writer is not None and (unwritten := self._writer.unwritten(key)) is not None:
                return unwritten[0]
            return self._read(key)

    def put(self, choices: Mapping[str, Choice], usage: Usage) -> None:
        """Keep the replies of one call; they are committed together, soon."""
        share = max(len(choices), 1)
        tokens = (usage.prompt_tokens + usage.completion_tokens) / share
        cost = None if usage.cost is None else usage.cost / share
        with self._here():
            if (writer := self._writable()) is not None:
                writer.add([Change(key, choice, tokens, cost) for key, choice in choices.items()])
            elif self._memory is not None:
                self._memory.put(choices, usage)

    def reject(self, key: str) -> None:
        """Set a reply aside: it is kept for inspection and asked again."""
        with self._here():
            if self._memory is not None:
                self._memory.reject(key)
            if (writer := self._writable()) is not None:
                writer.add([Change(key, None)])

    def adopt(self, key: str, source: str, choice: Choice) -> None:
        """Move a repaired reply, with what it cost, to the place of the unusable one, which is set aside."""
        with self._here():
            if (writer := self._writable()) is not None:
                writer.add([Change(key, choice, source=source)])
            elif self._memory is not None:
                self._memory.adopt(key, source, choice)

    async def settled(self) -> None:
        """Wait until everything put so far is committed."""
        with self._here():
            future = None if self._writer is None else self._writer.committed()
        if future is not None:
            await asyncio.shield(asyncio.wrap_future(future))

    def flush(self) -> None:
        """Wait until everything put so far is committed, and what it saved is counted."""
        with self._here():
            if self._hits and (writer := self._writable()) is not None:
                writer.add([Change("", None)], self._hits)
                self._hits = Counter()
            future = None if self._writer is None else self._writer.committed()
        if future is not None:
            future.result()

    def close(self) -> None:
        """Commit what waits and let go of the file; the next use opens it again."""
        self.flush()
        with self._here():
            writer, reader = self._writer, self._reader
            self._begin()
        if writer is not None:
            writer.close()
        if reader is not None:
            reader.close()

    def _here(self) -> AbstractContextManager[object]:
        """The lock, made anew in a forked process, where the parent's connections and threads are of no use."""
        if self._process != os.getpid():
            self._begin()
        return self._lock

    def _read(self, key: str) -> Choice | None:
        if (reader := self._opened()) is None:
            return None
        try:
            found = reader.execute(
                "SELECT choice, model, tokens, cost FROM replies WHERE key = ?", (bytes.fromhex(key),)
            ).fetchone()
        except sqlite3.Error as error:
            self._reader = None
            self._give_up(error)
            return None
        choice = None if found is None else _loaded(found[0], found[1])
        if choice is not None:
            _, model, tokens, cost = found
            self._hits[model, "replies"] += 1
            self._hits[model, "tokens"] += tokens
            self._hits[model, "cost"] += cost or 0.0  # type: ignore[assignment]  # counters add floats as well
            self._hits[model, "unpriced"] += cost is None
        return choice

    def _opened(self) -> sqlite3.Connection | None:
        """The connection to read with; opened at the first use, None if the file cannot be used."""
        if self._reader is None and self._memory is None:
            try:
                self._reader = store_file.connect(self.path)
            except (OSError, sqlite3.Error, store_file.NewerFileError) as error:
                with contextlib.suppress(OSError, sqlite3.Error):
                    self._reader = store_file.connect_to_read(self.path)
                self._give_up(error)
        return self._reader

    def _writable(self) -> Writer | None:
        """What to write with; None if new replies are kept in memory."""
        if self._opened() is None or self._memory is not None:
            return None
        if self._writer is None:
            self._writer = Writer(self.path, partial(_warn, self.path))
            weakref.finalize(self, self._writer.close)
        if self._writer.error is not None:
            self._memory = MemoryStore()
            return None
        return self._writer

    def _give_up(self, error: Exception) -> None:
        """From here on keep new replies in memory."""
        if self._memory is None:
            self._memory = MemoryStore()
            _warn(self.path, error)


def _warn(path: Path, error: BaseException) -> None:
    """Say that nothing can be written any more; a damaged file is moved aside."""
    name = getattr(error, "sqlite_errorname", None) or getattr(error, "strerror", None) or type(error).__name__
    why = str(error) if isinstance(error, store_file.NewerFileError) else f"{path} cannot be written ({name})"
    logger.warning("new replies are kept in memory only: %s; make room or name another file with store=", why)
    if isinstance(error, sqlite3.Error) and store_file.damaged(error):
        with contextlib.suppress(OSError):
            store_file.move_aside(path)


def _loaded(text: str, model: str) -> Choice | None:
    """A reply from JSON; None if it is none, e.g. on a damaged page."""
    try:
        content, finish, together, tokens = json.loads(text)
        listed = tuple(
            TokenAlternatives(token, logprob, tuple((other, value) for other, value in alternatives))
            for token, logprob, alternatives in tokens
        )
    except (ValueError, TypeError):
        return None
    return Choice(content, finish, listed, Origin(model, together))
