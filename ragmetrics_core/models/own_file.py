"""The SQLite file in which replies are kept.

Each change is committed at once: in WAL mode a commit takes some 20 microseconds, and
survives a killed process without waiting for the disk.

A file that is not ours is never opened for writing, renamed or changed, nor are the
journals beside it. Its header says whether it is ours. The header is read first,
without a lock.

No library of caches does this: they pickle what they keep, so that a file from somebody
else could run code.
"""

import atexit
import contextlib
import errno
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ragmetrics_core.data import ForeignFile, InputError, check_leads_nowhere_else

APPLICATION_ID = 0x52614D65  # "RaMe"
VERSION = 5
TABLE = (
    "CREATE TABLE replies (key BLOB PRIMARY KEY, choice TEXT NOT NULL, created REAL"
    " NOT NULL, model TEXT NOT NULL) WITHOUT ROWID"
)

_logger = logging.getLogger("ragmetrics_core")
_TROUBLE = (OSError, sqlite3.Error, ForeignFile)
_BUSY_SECONDS = 30.0
_MAKING_SECONDS = 0.5
"""A file that was changed so lately may still be made by another process."""

T = TypeVar("T")


def check(path: Path) -> None:
    """Raise an error for a file that is neither new nor ours; change nothing.

    Example: an empty file passes, and so does a store of an earlier run; a text file
    raises.

    Args:
        path: The file; a link is followed.

    Raises:
        ForeignFile: If the path is a link to itself, or a link by which a new file
            would be made in another folder; if it leads to something that is no file;
            if the file is not ours, or of another version; or if there is only the
            journal of a file that is gone.
    """
    if _leads_to_itself(path):
        raise ForeignFile(
            f"{path} is a link that leads to itself; name a file for replies"
        )
    if not path.exists():
        try:
            check_leads_nowhere_else(path, str(path))
        except InputError as error:
            raise ForeignFile(str(error)) from None
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ForeignFile(f"{path} is a folder or device; name a file for replies")
    if path.exists() and path.stat().st_size > 0:
        _check_header(path)
    elif Path(f"{path}-wal").exists():
        raise ForeignFile(
            f"{path}-wal is the journal of a file that is gone; remove it or name"
            " another file"
        )


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


def _check_header(path: Path) -> None:
    """Raise ``ForeignFile`` unless a file is ours, and of this version."""
    application_id, version = _header(path)
    # Another process may be making the file at this moment: its header comes last.
    deadline = time.monotonic() + _MAKING_SECONDS
    while application_id != APPLICATION_ID and time.monotonic() < deadline:
        if time.time() - path.stat().st_mtime > _MAKING_SECONDS:
            break
        time.sleep(0.01)
        application_id, version = _header(path)
    if application_id != APPLICATION_ID:
        raise ForeignFile(
            f"{path} is no file of ragmetrics' replies, or is damaged; it is left as it"
            " is: name a new file"
        )
    if version != VERSION:
        raise ForeignFile(
            f"{path} was made by another version of ragmetrics; name another file"
        )


def _header(path: Path) -> tuple[int, int]:
    """Read who made a file, and its version; 0 and 0 of what is no database."""
    try:
        # Read by SQLite: to open and close the file in another way would release the
        # locks that this process holds on it. As an immutable file it is neither locked,
        # nor are its journals looked at.
        with contextlib.closing(
            sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
        ) as connection:
            return (
                _number(connection, "application_id"),
                _number(connection, "user_version"),
            )
    except sqlite3.DatabaseError:  # no database, or a damaged one
        return 0, 0


def _number(connection: sqlite3.Connection, name: str) -> int:
    """Read a number of the file's header, by the name of its pragma."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def connect(path: Path) -> sqlite3.Connection:
    """Open a file that is ours, making it as needed, for the owner alone."""
    check(path)
    path = path.resolve()
    _make(path)
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _make_table(connection)
        # Another process may be setting the same at this moment: it is busy then.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        # The disk is waited for once in 40 MB, and when the file is closed.
        connection.execute("PRAGMA wal_autocheckpoint=10000")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _make(path: Path) -> None:
    """Make the file and its folder, and name it the first time."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _logger.info(
            "replies are kept in %s, so that none is paid twice; 'ragmetrics store'"
            " shows them",
            path,
        )
    if not path.stat().st_size:
        with contextlib.suppress(PermissionError):
            path.chmod(0o600)


def _make_table(connection: sqlite3.Connection) -> None:
    """Give an empty file its table and its header.

    The header is written before the journal becomes a WAL, so that it stands in the
    file itself, where ``check`` reads it.
    """
    if _number(connection, "user_version"):
        return
    connection.execute("BEGIN IMMEDIATE")
    # Looked at again under the lock: another process may have been faster.
    if not _number(connection, "user_version"):
        connection.execute(TABLE)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
    connection.execute("COMMIT")


def _reason_without_texts(error: Exception, path: Path) -> str:
    """Say why a file cannot be used, in words that hold no text of a sample.

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
    return f"{path} cannot be used ({name_of_error})"


class OwnFile:
    """A file of ours in use; it is opened at the first use.

    Any thread may use it, one at a time. While this process forks, the file is closed.
    SQLite's locks belong to a process: a child process that inherited the open file
    would wait for locks that nobody releases.

    Attributes:
        path: The file.
        trouble: Why the file is not used any more; None while it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        # A file that cannot be read is reported when it is used.
        with contextlib.suppress(OSError):
            check(self.path)
        self.trouble: Exception | None = None
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        with _forking:
            _OPEN.add(self)

    def read(self, query: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        """Return the first row that a query finds; its texts are bytes.

        None if there is none, or the file cannot be used. Example: the query of a
        stored reply gives its one row; before it is stored, None.
        """

        def fetch(connection: sqlite3.Connection) -> tuple[Any, ...] | None:
            # Texts are read as bytes, so that a damaged text raises nothing.
            connection.text_factory = bytes
            try:
                row: tuple[Any, ...] | None = connection.execute(
                    query, values
                ).fetchone()
            finally:
                connection.text_factory = str
            return row

        return self._use(fetch)

    def write(self, change: Callable[[sqlite3.Connection], T]) -> T | None:
        """Make a change in one transaction; it is committed when this returns.

        Returns:
            What the change returns; None if the file cannot be used.
        """

        def commit(connection: sqlite3.Connection) -> T:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                return change(connection)

        return self._use(commit)

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do work on the file.

        After an error of SQLite or of the system, the file is neither read nor written
        any more, and a warning says so.
        """
        with self._lock:
            if self.trouble is not None:
                return None
            try:
                if self._connection is None:
                    self._connection = connect(self.path)
                    # Python 3.13 warns of a connection that nobody closed.
                    weakref.finalize(self, self._connection.close).atexit = False
                return work(self._connection)
            except _TROUBLE as error:
                self.close()
                self.trouble = error
                _logger.warning(
                    "new replies are kept in memory only: %s; make room or name another"
                    " file",
                    _reason_without_texts(error, self.path),
                )
                return None

    def close(self) -> None:
        """Close the file; the next use opens it."""
        with self.hold_closed():
            return

    @contextlib.contextmanager
    def hold_closed(self) -> Iterator[None]:
        """Keep the file closed during the block."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            yield


_OPEN: weakref.WeakSet[OwnFile] = weakref.WeakSet()
_forking = threading.RLock()
_during_fork = contextlib.ExitStack()


def _before_fork() -> None:
    _during_fork.enter_context(_forking)
    for file in list(_OPEN):
        _during_fork.enter_context(file.hold_closed())


@atexit.register
def _at_exit() -> None:
    """Close all files, so that no journal is left beside them."""
    for file in list(_OPEN):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_during_fork.close,
        after_in_child=_during_fork.close,
    )
