"""A SQLite file of our own, such as the file of stored replies.

Any thread may read it; one thread writes it. That thread commits all changes that wait
in one transaction. In WAL mode a commit survives a killed process without waiting for
the disk.

A file that is not ours is never opened for writing, renamed or changed, nor are the
journals beside it. Its header says whether it is ours. The header is read first,
without a lock.
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
    """A kind of file that we write.

    Attributes:
        holds: What such a file holds, for messages, e.g. "replies".
        application_id: The number in its header that says whose file it is.
        version: The version of its table; a file of another version is refused.
        table: The SQL statement that makes its table.
        made: The log message when a new file is made; %s is its path.
        without: What the run does if the file cannot be written, for the warning.
        journal: SQLite's journal mode. DELETE where processes of several machines use
            the file, since a WAL needs shared memory.
    """

    holds: str
    application_id: int
    version: int
    table: str
    made: str
    without: str
    journal: str = "WAL"


def check(path: Path, kind: Kind) -> None:
    """Raise an error for a file that is neither new nor of our kind; change nothing.

    Example: an empty file passes, and so does a store of an earlier run; a text file
    raises.

    Args:
        path: The file; a link is followed.
        kind: The kind of file that it is to be.

    Raises:
        ForeignFile: If the path is a link to itself, or a link by which a new file
            would be made in another folder; if it leads to something that is no file;
            if the file is not ours, or of another version; or if there is only the
            journal of a file that is gone.
    """
    if _leads_to_itself(path):
        raise ForeignFile(
            f"{path} is a link that leads to itself; name a file for {kind.holds}"
        )
    if not path.exists():
        _check_stays(path)
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ForeignFile(f"{path} is a folder or device; name a file for {kind.holds}")
    is_empty_or_missing = not path.exists() or path.stat().st_size == 0
    if not is_empty_or_missing:
        _check_header(path, kind)
    elif Path(f"{path}-wal").exists():
        raise ForeignFile(
            f"{path}-wal is the journal of a file that is gone; remove it or name"
            " another file"
        )


def _check_header(path: Path, kind: Kind) -> None:
    """Raise ``ForeignFile`` unless a file is of our kind, and of this version."""
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
    """Open a file that is ours or empty; give an empty file its table and header.

    The header gets the number of our application and the version of the table. Example:
    an empty "replies.sqlite" gets the table of replies. Other processes may open the
    same file at the same time.

    Args:
        path: The file.
        kind: What kind of file it is, such as the store of replies: the SQL statement
            of its table, the table's version and the number of our application.
    """
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        is_new = not _number(connection, "user_version")
        if is_new:
            # The header is written before the journal becomes a WAL, so that it stands
            # in the file itself, where ``check`` reads it.
            connection.execute("BEGIN IMMEDIATE")
            # Looked at again under the lock: another process may have been faster.
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

    The number is -1 if the file is no SQLite file. Example: (0, 0) for a SQLite file
    that another program made.
    """
    # SQLite is asked first: to open and close the file in another way would release the
    # locks that this process holds on it.
    try:
        with contextlib.closing(_connect_to_file(path)) as connection:
            application_id = _number(connection, "application_id")
            return application_id, _number(connection, "user_version")
    except sqlite3.DatabaseError:  # no database, or a damaged one
        with path.open("rb") as file:
            header = file.read(100).ljust(100)
        if not header.startswith(b"SQLite format 3\0"):
            return -1, 0
        # SQLite's file format has these two numbers at the bytes 68 and 60.
        (application_id,) = struct.unpack_from(">i", header, 68)
        (version,) = struct.unpack_from(">i", header, 60)
        return application_id, version


def _reason_without_texts(error: Exception, path: Path) -> str:
    """Say why a file cannot be written, in words that hold no text of a sample.

    Of an error that is not ours only its name is told: SQLite's name of it, the
    system's words, or its class.
    """
    if isinstance(error, ForeignFile):
        return str(error)
    name_of_error = (
        getattr(error, "sqlite_errorname", None)
        or getattr(error, "strerror", None)
        or type(error).__name__
    )
    return f"{path} cannot be written ({name_of_error})"


class OwnFile:
    """A file of ours in use; it is opened at the first use.

    While this process forks, the file is closed. SQLite's locks belong to a process: a
    child process that inherited the open file would wait for locks that nobody
    releases.

    Attributes:
        path: The file.
        trouble: Why the file cannot be written any more; None while it can.
    """

    def __init__(self, path: str | os.PathLike[str], kind: Kind) -> None:
        self.path = Path(path).expanduser()
        self._kind = kind
        # A file that cannot be read is reported when it is used.
        with contextlib.suppress(OSError):
            check(self.path, kind)
        self.begin()
        with _forking:
            _OPEN.add(self)

    def begin(self) -> None:
        """Begin with nothing open and no change waiting; again in a forked process."""
        self.trouble: Exception | None = None
        self._committing = threading.RLock()  # taken before the other lock
        self._lock = threading.RLock()
        self._is_readable = True
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._waiting_changes: list[Change] = []  # not written to the file yet
        # Done when the last change is committed or given up; None before any change.
        self._committed: Future[None] | None = None

    def read(self, query: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        """Return the first row that a query finds among committed rows; texts are bytes.

        None if there is none, or the file cannot be read. After an error of SQLite the
        file is neither read nor written any more, and a warning says so. Example: the
        query of a stored reply gives its one row; before it is stored, None.
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
                self._give_up(error)  # warns once
        return row

    def write(self, change: Change) -> None:
        """Have the writing thread make a change soon, together with others that wait.

        Nothing is done once the file cannot be written any more.
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
            # If the caller is cancelled, the changes are written all the same.
            await asyncio.wait([asyncio.wrap_future(self._committed)])

    def flush(self) -> None:
        """Wait until everything written so far is committed or given up; not async."""
        wait(filter(None, [self._committed]))

    def close(self) -> None:
        """Commit all changes that wait, and close the file; the next use opens it."""
        with self.hold_closed():
            return

    @contextlib.contextmanager
    def hold_closed(self) -> Iterator[None]:
        """Commit all changes that wait, and keep the file closed during the block."""
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
            # Texts are read as bytes, so that a damaged text raises nothing here.
            self._reader.text_factory = bytes

    def _commit(self) -> None:
        """Commit all changes that wait, in one transaction.

        If that fails, whatever the reason, the file is not written any more. Example:
        three changes wait: all three are in the file afterwards, or none.
        """
        with self._committing:
            with self._lock:
                if not self._waiting_changes:
                    return
                changes = self._waiting_changes
                self._waiting_changes = []
            # Replaced by None once the commit is done: any other end is a failure.
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
        """Write nothing any more, and warn of it once; move a damaged file aside.

        The warning says what the run does without the file.
        """
        if self.trouble is not None:
            return
        self.trouble = error
        self._waiting_changes = []
        reason = _reason_without_texts(error, self.path)
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
    """Close all files, so that no journal is left beside them."""
    for file in list(_OPEN):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_during_fork.close,
        after_in_child=_after_fork_in_child,
    )
