"""The thread that writes stored replies: all changes that wait together are committed together."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from ragmetrics_core.data.frozen import safe
from ragmetrics_core.endpoints import store_file
from ragmetrics_core.endpoints.chat import Choice

_PUT = "INSERT OR REPLACE INTO replies (key, choice, created, model, tokens, cost) VALUES (?, ?, ?, ?, ?, ?)"
_COPY = "INSERT INTO rejected SELECT key, choice, created, model FROM replies WHERE key = ?"
_SET_ASIDE = """INSERT INTO rejected SELECT key, choice, created, model FROM replies WHERE key = ?
AND EXISTS (SELECT 1 FROM replies WHERE key = ?)"""
_MOVE = "UPDATE OR REPLACE replies SET key = ? WHERE key = ?"
_SAVED = """INSERT INTO saved VALUES (?, ?, ?, ?, ?) ON CONFLICT (model) DO UPDATE SET
replies = replies + excluded.replies, tokens = tokens + excluded.tokens,
cost = cost + excluded.cost, unpriced = unpriced + excluded.unpriced"""


class Change(NamedTuple):
    """One change of the store.

    Args:
        key: Of the reply, in hexadecimal.
        choice: The reply to keep; None sets the kept one aside as unusable.
        tokens: Tokens that it cost.
        cost: US dollars; None if unknown.
        source: Key from which the reply moves here with what it cost; the one kept here so far is set aside. Nothing
            happens in the file if there is no reply under it any more, e.g. because an equal change was faster.
    """

    key: str
    choice: Choice | None
    tokens: float = 0.0
    cost: float | None = None
    source: str = ""


Hits = Counter[tuple[str, str]]
"""What stored replies saved, by model and by ``replies``, ``tokens``, ``cost`` or ``unpriced``."""


class Writer:
    """Commits changes in a thread of its own, in order; whatever ends the thread, nobody waits for it any longer.

    Args:
        path: The file.
        failed: Told once, in the thread, that nothing can be written any more.

    Attributes:
        error: Why nothing can be written; None as long as it can.
    """

    def __init__(self, path: Path, failed: Callable[[BaseException], None]) -> None:
        self.error: BaseException | None = None
        self._path = path
        self._failed = failed
        self._wake = threading.Condition()
        self._queue: list[Change] = []
        self._unwritten: dict[str, tuple[int, Choice | None]] = {}
        self._hits: Hits = Counter()
        self._last = self._done = 0
        self._waiting: list[tuple[int, Future[None]]] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ragmetrics-store", daemon=True)
        self._thread.start()

    def add(self, changes: Iterable[Change], hits: Hits | None = None) -> None:
        """Queue changes, to be committed together."""
        with self._wake:
            if self.error is not None or self._closed:
                return
            self._hits.update(hits or {})
            for change in changes:
                self._queue.append(change)
                self._last += 1
                if change.key:
                    self._unwritten[change.key] = (self._last, change.choice)
                if change.source:
                    self._unwritten[change.source] = (self._last, None)
            self._wake.notify()

    def unwritten(self, key: str) -> tuple[Choice | None] | None:
        """The reply of a change that is not committed yet, in a tuple; None if there is no such change."""
        with self._wake:
            found = self._unwritten.get(key)
        return None if found is None else (found[1],)

    def committed(self) -> Future[None] | None:
        """What to wait for until the last change is committed or given up; None if it is."""
        with self._wake:
            if self._done >= self._last:
                return None
            future: Future[None] = Future()
            self._waiting.append((self._last, future))
            return future

    def close(self) -> None:
        """Commit what waits, and end the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        with ExitStack() as stack:
            stack.push(self._ended)
            connection: sqlite3.Connection | None = None
            while batch := self._next():
                if connection is None:
                    connection = stack.enter_context(closing(store_file.connect(self._path)))
                _commit(connection, *batch)
                self._finish(len(batch[0]))

    def _ended(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Leave nobody waiting; an error, whatever it is, is told once, and handed on to nobody else."""
        del kind, trace
        try:
            if error is not None:
                with self._wake:
                    self.error = error
                self._failed(error)
        finally:
            self._finish(None)
        return True

    def _next(self) -> tuple[list[Change], Hits] | None:
        """All that waits, as soon as there is something; None at the end."""
        with self._wake:
            self._wake.wait_for(lambda: self._queue or self._closed)
            if not self._queue:
                return None
            batch = self._queue, self._hits
            self._queue, self._hits = [], Counter()
            return batch

    def _finish(self, count: int | None) -> None:
        """Forget what is committed, and tell who waits; what could not be written stays in memory.

        Args:
            count: Changes that are done; None for all that there are.
        """
        with self._wake:
            self._done = self._last if count is None else self._done + count
            if self.error is None:
                self._unwritten = {key: it for key, it in self._unwritten.items() if it[0] > self._done}
            ready = [future for number, future in self._waiting if number <= self._done]
            self._waiting = [waiting for waiting in self._waiting if waiting[0] > self._done]
        for future in ready:
            if future.set_running_or_notify_cancel():
                future.set_result(None)


def _commit(connection: sqlite3.Connection, changes: list[Change], hits: Hits) -> None:
    now = time.time()
    connection.execute("BEGIN IMMEDIATE")
    try:
        for change in changes:
            _apply(connection, change, now)
        for model in sorted({model for model, _ in hits}):
            counts = [hits[model, name] for name in ("replies", "tokens", "cost", "unpriced")]
            connection.execute(_SAVED, (model, *counts))
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply(connection: sqlite3.Connection, change: Change, now: float) -> None:
    key, source = bytes.fromhex(change.key), bytes.fromhex(change.source)
    if source:
        connection.execute(_SET_ASIDE, (key, source))
        connection.execute(_MOVE, (key, source))
    elif change.choice is not None:
        row = (key, dumped(change.choice), now, safe(change.choice.origin.model), change.tokens, change.cost)
        connection.execute(_PUT, row)
    elif key:
        connection.execute(_COPY, (key,))
        connection.execute("DELETE FROM replies WHERE key = ?", (key,))


def dumped(choice: Choice) -> str:
    """A reply as JSON."""
    tokens = [[token.token, token.logprob, token.alternatives] for token in choice.tokens]
    return json.dumps([choice.text, choice.finish, choice.origin.together, tokens], separators=(",", ":"))
