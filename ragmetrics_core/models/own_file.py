"""A SQLite file of our own.

It is opened only if it is ours or new, read on any thread, and written by one.

A file that is not ours is never opened for writing, renamed or changed, nor are the
journals beside it: whose it is stands in its header, which is read without a lock
before anything else is done. One thread commits all that waits together; in WAL mode a
commit survives a killed process without waiting for the disk.
"""

import asyncio
import atexit
import contextlib
import errno
import logging
import os
import sqlite3
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from ragmetrics_core.data import ForeignFile, InputError, check_leads_nowhere_else

_logger = logging.getLogger("ragmetrics_core")
_TROUBLE = (OSError, sqlite3.Error, ForeignFile)
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY_SECONDS = 30.0

Change = Callable[[sqlite3.Connection], object]


class Kind(NamedTuple):
    """A kind of file that we write."""

    holds: str  # what it holds, for messages
    application_id: int  # in its header, by which it is known
    version: int  # of its form; a file of another one is refused
    table: str  # the statement that makes it
    made: str  # what is logged when a new one is made; %s is its place
    without: str  # what is so while it cannot be written, for the warning
    # DELETE where processes of several machines use the file: a WAL needs shared memory
    journal: str = "WAL"


def check(path: Path, kind: Kind) -> None:
    """Refuse a file that is neither new nor of our kind. Nothing is touched.

    Args:
        path: The file; a link is followed.
        kind: The kind of file that it is to be.

    Raises:
        ForeignFile: If the path leads nowhere or to what is no file; if the file is not
            ours, or of another version; or if a new file would stand beside the journal
            of one that is gone.
    """
    if _leads_to_itself(path):
        raise ForeignFile(
            f"{path} is a link that leads to itself; name a file for {kind.holds}"
        )
    if not path.exists():
        _check_stays(path)  # refuses a link that leads out of its folder
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ForeignFile(f"{path} is a folder or device; name a file for {kind.holds}")
    if path.exists() and path.stat().st_size:
        application_id, version = _read_header(path)
        if application_id != kind.application_id:
            raise ForeignFile(
                f"{path} is no file of ragmetrics' {kind.holds}, and is left as it is;"
                " name a new file"
            )
        if version != kind.version:
            raise ForeignFile(
                f"{path} was made by another version of ragmetrics; name another file"
            )
    elif Path(f"{path}-wal").exists():
        raise ForeignFile(
            f"{path}-wal is the journal of a file that is gone; remove it or name"
            " another file"
        )


def connect(path: Path, kind: Kind) -> sqlite3.Connection:
    """Open a file that is ours, making it as needed, for the owner alone.

    A damaged one is moved aside.
    """
    check(path, kind)
    path = path.resolve()
    _make(path, kind)
    number_of_file = path.stat().st_ino
    try:
        return _open_file(path, kind)
    except sqlite3.DatabaseError as error:
        if not _error_of_damage(error):
            raise
    if path.stat().st_ino == number_of_file:  # else another process was faster
        _move_aside(path, kind)
    _make(path, kind)
    return _open_file(path, kind)


def _check_stays(path: Path) -> None:
    """Refuse to make a file that a link leads out of its folder.

    Any other file that is written is refused likewise.
    """
    try:
        check_leads_nowhere_else(path, str(path))
    except InputError as error:
        raise ForeignFile(str(error)) from None


def _leads_to_itself(path: Path) -> bool:
    """Tell whether a path is a link that reaches no file.

    For such a path ``resolve`` raises errors of several kinds, or none. It depends on
    the version of Python.
    """
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _error_of_damage(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _move_aside(path: Path, kind: Kind) -> None:
    check(path, kind)  # another one may have come to its place
    aside = path.with_name(
        f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    )
    for ending in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{ending}").rename(f"{aside}{ending}")
    _logger.warning(
        "%s was damaged: it is kept as %s, and a new file is used", path, aside.name
    )


def _make(path: Path, kind: Kind) -> None:
    """Make the file and its folder, and name it the first time."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _logger.info(kind.made, path)
    if not path.stat().st_size:
        with contextlib.suppress(PermissionError):
            path.chmod(0o600)


def _open_file(path: Path, kind: Kind) -> sqlite3.Connection:
    """Open a file that is ours or empty; an empty one gets its table and its marks.

    The marks are the number of our application and the version of the table. Other
    processes may do the same at this moment.
    """
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        is_new = not _number(connection, "user_version")
        if is_new:
            # The marks are written before the journal becomes a WAL, so that they stand
            # in the file itself, where ``check`` reads them.
            connection.execute("BEGIN IMMEDIATE")
            # asked again under the lock: another process may have been faster
            if not _number(connection, "user_version"):
                connection.execute(kind.table)
                connection.execute(f"PRAGMA application_id={kind.application_id}")
                connection.execute(f"PRAGMA user_version={kind.version}")
            connection.execute("COMMIT")
        _set_journal(connection, kind)
        connection.execute("PRAGMA synchronous=NORMAL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _set_journal(connection: sqlite3.Connection, kind: Kind) -> None:
    """Set the journal's mode, and wait for other processes that set it now.

    SQLite itself does not wait for them.
    """
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode={kind.journal}")
        except sqlite3.OperationalError as error:
            if (
                error.sqlite_errorcode != sqlite3.SQLITE_BUSY
                or time.monotonic() > until
            ):
                raise
            time.sleep(0.01)
        else:
            return


def _number(connection: sqlite3.Connection, name: str) -> int:
    """Read a number of the file's header, by the name of its pragma."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _connect_to_file(path: Path) -> sqlite3.Connection:
    """Return a connection that reads the file itself.

    It neither locks the file nor looks at its journals.
    """
    return sqlite3.connect(
        f"{path.as_uri()}?immutable=1",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )


def _read_header(path: Path) -> tuple[int, int]:
    """Return the application's number and the version in a file's header.

    The number is -1 if the file is none of SQLite's.

    SQLite itself is asked first. Opening and closing the file in another way would take
    back the locks that this process holds on it. That is done only where SQLite
    cannot read the file.
    """
    try:
        with contextlib.closing(_connect_to_file(path)) as connection:
            application_id = _number(connection, "application_id")
            return application_id, _number(connection, "user_version")
    except sqlite3.DatabaseError:  # no database, or a damaged one
        with path.open("rb") as file:
            header = file.read(100).ljust(100)
        if not header.startswith(b"SQLite format 3\0"):
            return -1, 0
        # the places of both in the header, as SQLite's file format states them
        (application_id,) = struct.unpack_from(">i", header, 68)
        (version,) = struct.unpack_from(">i", header, 60)
        return application_id, version


class OwnFile:
    """A file of ours in use, opened at the first use.

    ``trouble`` says why it cannot be written any more.

    While this process forks it is closed: SQLite's locks belong to a process, and a
    child that opens a file which it inherited open waits for locks that nobody gives
    back.
    """

    def __init__(self, path: str | os.PathLike[str], kind: Kind) -> None:
        self.path = Path(path).expanduser()
        self._kind = kind
        # what cannot be read is told when it is used
        with contextlib.suppress(OSError):
            check(self.path, kind)
        self.begin()
        with _forking:
            _OPEN.add(self)

    def begin(self) -> None:
        """Start anew, with nothing open and nothing waiting.

        That is at first, and in a forked process.
        """
        # why the file cannot be written any more; None while it can
        self.trouble: Exception | None = None
        self._committing = threading.RLock()  # taken before the other lock
        self._lock = threading.RLock()
        self._is_readable = True
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._waiting_changes: list[Change] = []
        # done when the last change is committed, or was given up
        self._committed: Future[None] | None = None

    def read(self, query: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        """Return the first row that a query finds in what is committed.

        None if there is none, or the file cannot be read. After an error of SQLite the
        file is neither read nor written any more, and a warning says so. Texts are
        bytes.
        """
        row: tuple[Any, ...] | None = None
        with self._lock:
            if self._reader is None and self._is_readable:
                self._open_to_read()
            try:
                if self._reader is not None:
                    row = self._reader.execute(query, values).fetchone()
            except sqlite3.Error as error:
                if self._reader is not None:
                    self._reader.close()
                self._reader = None
                self._is_readable = False
                self._give_up(error)
        return row

    def write(self, change: Change) -> None:
        """Have a change made soon, in the writing thread.

        It is made in one transaction with others that wait.
        """
        with self._lock:
            if self.trouble is not None:
                return
            self._waiting_changes.append(change)
            if len(self._waiting_changes) > 1:
                return
            self._thread = self._thread or ThreadPoolExecutor(1, "ragmetrics-database")
            with contextlib.suppress(RuntimeError):  # the process is too near its end
                self._committed = self._thread.submit(self._commit)
                return
        self._commit()

    async def settled(self) -> None:
        """Wait until everything written so far is committed or given up."""
        if self._committed is not None and not self._committed.done():
            # who leaves does not take it back
            await asyncio.wait([asyncio.wrap_future(self._committed)])

    def flush(self) -> None:
        """Wait in the same way, from any thread."""
        wait(filter(None, [self._committed]))

    def close(self) -> None:
        """Commit what waits and let go of the file; the next use opens it again."""
        with self.hold_closed():
            return

    @contextlib.contextmanager
    def hold_closed(self) -> Iterator[None]:
        """Commit what waits, close the file, and let nobody use it meanwhile."""
        with self._committing:
            self._commit()
            with self._lock:
                for connection in filter(None, (self._reader, self._writer)):
                    connection.close()
                self._reader = self._writer = None
                yield

    def _connect(self) -> sqlite3.Connection:
        return self._close_in_the_end(connect(self.path, self._kind))

    def _close_in_the_end(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Have a connection closed with this object at the latest; return it.

        Python 3.13 warns of a connection that nobody closed.
        """
        weakref.finalize(self, connection.close).atexit = False
        return connection

    def _open_to_read(self) -> None:
        """Open the file, also one that cannot be written."""
        try:
            self._reader = self._connect()
        except _TROUBLE as error:
            self._is_readable = False
            with contextlib.suppress(*_TROUBLE):
                check(self.path, self._kind)
                self._reader = self._close_in_the_end(
                    _connect_to_file(self.path.resolve())
                )
            self._give_up(error)
        if self._reader is not None:
            self._reader.text_factory = bytes  # a text that is none is no error

    def _commit(self) -> None:
        """Commit all changes that wait, in one transaction.

        If that fails, whatever the reason, the file is not written any more.
        """
        with self._committing:
            with self._lock:
                if not self._waiting_changes:
                    return
                changes = self._waiting_changes
                self._waiting_changes = []
            # stands until the commit is done, so that no kind of failure is missed
            trouble: Exception | None = RuntimeError("unforeseen")
            try:
                self._writer = self._writer or self._connect()
                self._writer.execute("BEGIN IMMEDIATE")
                for change in changes:
                    change(self._writer)
                self._writer.execute("COMMIT")
                trouble = None
            except _TROUBLE as error:
                trouble = error
            finally:
                if trouble is not None:
                    if self._writer is not None:
                        self._writer.close()  # takes back what was begun
                    with self._lock:
                        self._give_up(trouble)

    def _give_up(self, error: Exception) -> None:
        """Write nothing any more, and say so once; a damaged file is moved aside.

        The warning begins with what the run does without the file, which its kind
        says. It names the class of the error, and not the error's words, which may hold
        texts; only those of our own ``ForeignFile`` are safe.
        """
        if self.trouble is not None:
            return
        self.trouble = error
        self._waiting_changes = []
        if isinstance(error, ForeignFile):
            reason = str(error)
        else:
            # SQLite's name of it, else the system's words, else its class
            name_of_error = (
                getattr(error, "sqlite_errorname", None)
                or getattr(error, "strerror", None)
                or type(error).__name__
            )
            reason = f"{self.path} cannot be written ({name_of_error})"
        _logger.warning(
            "%s: %s; make room or name another file", self._kind.without, reason
        )
        if _error_of_damage(error):
            with contextlib.suppress(OSError, ForeignFile):
                _move_aside(self.path.resolve(), self._kind)


_OPEN: weakref.WeakSet[OwnFile] = weakref.WeakSet()
_forking = threading.RLock()
_during_fork = contextlib.ExitStack()


def _before_fork() -> None:
    _during_fork.enter_context(_forking)
    for file in list(_OPEN):
        _during_fork.enter_context(file.hold_closed())


def _after_fork_in_child() -> None:
    _during_fork.close()
    for file in list(_OPEN):
        file.begin()


@atexit.register
def _at_exit() -> None:
    """Have all of it in the file itself, and no journal beside it.

    What comes later opens it again.
    """
    for file in list(_OPEN):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_during_fork.close,
        after_in_child=_after_fork_in_child,
    )
