"""A SQLite file of ours in use: read on any thread, written by one that commits all that waits together.

In WAL mode a commit survives a killed process without waiting for the disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ragmetrics_core.data.errors import ForeignFile
from ragmetrics_core.endpoints import own_file

logger = logging.getLogger("ragmetrics_core")

_LINGER = 0.02  # seconds that the writing thread waits for more before it ends


class _Batch:
    """Changes that are committed together: their statements, and what readers are told until then."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, tuple[object, ...]]] = []
        self.news: dict[str, Any] = {}
        self.done: Future[None] = Future()
        self.done.set_running_or_notify_cancel()  # shared by all who wait: none of them can take it back


class Database:
    """A file of ours in use: read on any thread, written by one that commits all that waits together.

    It is opened at the first use. While this process forks it is closed: SQLite's locks belong to a process, and a
    child that opens a file which it inherited open waits for locks that nobody gives back.

    Args:
        path: The file.
        kind: What it is.

    Attributes:
        lock: Held while anything here is read or changed.
        trouble: Why nothing can be written any more; None as long as it can.

    Raises:
        ForeignFile: If there is a file that is not ours.
    """

    def __init__(self, path: str | os.PathLike[str], kind: own_file.Kind) -> None:
        self.path = Path(path).expanduser()
        self._kind = kind
        with contextlib.suppress(OSError):  # what cannot be read is told when it is used
            own_file.check(self.path, kind)
        self.begin()
        with _forking:
            _OPEN.add(self)

    def begin(self) -> None:
        """Start anew, with nothing open and nothing waiting: at first, and in a forked process."""
        self.lock = threading.Condition()
        self.trouble: Exception | None = None
        self._reader: sqlite3.Connection | None = None
        self._thread: threading.Thread | None = None
        self._leaving = False
        self._gathering = _Batch()
        self._writing: _Batch | None = None

    def usable(self) -> bool:
        """True if the file can be written; it is opened for that."""
        if self._reader is None and self.trouble is None:
            try:
                self._reader = own_file.connect(self.path, self._kind)
            except own_file.TROUBLE as error:
                with contextlib.suppress(*own_file.TROUBLE):
                    self._reader = own_file.connect_to_read(self.path, self._kind)
                self._give_up(error)
            if self._reader is not None:
                self._reader.text_factory = bytes  # a text that is none is no error
                weakref.finalize(self, self._reader.close)
        return self.trouble is None

    def read(self, query: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        """The first row that is committed; None if there is none, or the file cannot be read. Texts are bytes."""
        self.usable()
        if self._reader is None:
            return None
        try:
            row: tuple[Any, ...] | None = self._reader.execute(query, values).fetchone()
        except sqlite3.Error as error:
            self._close_reader()
            self._give_up(error)
            return None
        return row

    def write(self, statement: str, rows: Iterable[tuple[object, ...]], news: Mapping[str, Any]) -> bool:
        """Have a statement executed with each row, soon; False if the file cannot be written.

        Args:
            statement: What to execute.
            rows: Its values.
            news: What ``unwritten`` tells of it until it is committed, by key.
        """
        if not self.usable():
            return False
        self._gathering.statements += [(statement, row) for row in rows]
        self._gathering.news.update(news)
        self._start()
        return True

    def unwritten(self, key: str) -> tuple[Any] | None:
        """The news of a key that are not committed yet, in a tuple; None if there are none."""
        for batch in (self._gathering, self._writing):
            if batch is not None and key in batch.news:
                return (batch.news[key],)
        return None

    def lost(self, news: Mapping[str, Any]) -> None:
        """Called once, with the news that could not be written."""

    def committed(self) -> Future[None] | None:
        """What to wait for until all changes are committed or given up; None if they are."""
        with self.lock:
            batch = self._gathering if self._gathering.statements else self._writing
            return None if batch is None else batch.done

    def pause(self) -> None:
        """Commit what waits, close the file, and let nobody use it until ``resume``."""
        self.lock.acquire()
        self._leaving = True
        self.lock.notify_all()
        self.lock.wait_for(lambda: self._thread is None)
        self._close_reader()

    def resume(self) -> None:
        """Go on, in the process that forked."""
        self._leaving = False
        self.lock.release()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _start(self) -> None:
        """Have what waits committed by the thread; here, where the process is too near its end to start one."""
        if self._thread is not None:
            self.lock.notify()
            return
        self._thread = threading.Thread(target=self._work, name="ragmetrics-database", daemon=False)
        try:
            self._thread.start()
        except RuntimeError:
            self._work()

    def _work(self) -> None:
        """Commit all that waits until nothing comes; whatever ends this, nobody waits for it any longer."""
        trouble: Exception | None = RuntimeError("unforeseen")
        try:
            with contextlib.closing(own_file.connect(self.path, self._kind)) as connection:
                while statements := self._next():
                    _commit(connection, statements)
            trouble = None
        except own_file.TROUBLE as error:
            trouble = error
        finally:
            with self.lock:
                self._thread = None
                self.lock.notify_all()
                if trouble is not None:
                    self._give_up(trouble)
                elif self._gathering.statements:
                    self._start()

    def _next(self) -> list[tuple[str, tuple[object, ...]]]:
        """All that waits, as soon as there is something; empty if nothing comes. What was taken before is done."""
        with self.lock:
            if self._writing is not None:
                self._writing.done.set_result(None)
                self._writing = None
            self.lock.wait_for(lambda: self._gathering.statements or self._leaving, _LINGER)
            if not self._gathering.statements:
                return []
            self._writing, self._gathering = self._gathering, _Batch()
            return self._writing.statements

    def _give_up(self, error: Exception) -> None:
        """Write nothing any more, and say so once; a damaged file is moved aside."""
        if self.trouble is not None:
            return
        self.trouble = error
        batches = [batch for batch in (self._writing, self._gathering) if batch is not None]
        self._writing, self._gathering = None, _Batch()
        self.lost({key: news for batch in batches for key, news in batch.news.items()})
        for batch in batches:
            batch.done.set_result(None)
        name = getattr(error, "sqlite_errorname", None) or getattr(error, "strerror", None) or type(error).__name__
        why = str(error) if isinstance(error, ForeignFile) else f"{self.path} cannot be written ({name})"
        logger.warning("new %s are kept in memory only: %s; make room or name another file", self._kind.holds, why)
        if own_file.damaged(error):
            with contextlib.suppress(OSError, ForeignFile):
                own_file.move_aside(self.path, self._kind)


def _commit(connection: sqlite3.Connection, statements: list[tuple[str, tuple[object, ...]]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement, values in statements:
            connection.execute(statement, values)
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_OPEN: weakref.WeakSet[Database] = weakref.WeakSet()
_forking = threading.RLock()


def _before_fork() -> None:
    _forking.acquire()
    for database in list(_OPEN):
        database.pause()


def _after_fork_in_parent() -> None:
    for database in list(_OPEN):
        database.resume()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking
    _forking = threading.RLock()
    for database in list(_OPEN):
        database.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
