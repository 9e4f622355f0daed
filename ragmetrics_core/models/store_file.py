"""The SQLite file in which replies are kept: whose it is, and how it is opened.

A file that is not ours is never opened for writing, renamed or changed, nor are the
journals beside it. Its header says whether it is ours.

No library of caches does this: they pickle what they keep, so that a file from somebody
else could run code.
"""

import contextlib
import logging
import os
import sqlite3
import time
from pathlib import Path

from ragmetrics_core.data import ForeignFile, InputError, check_leads_nowhere_else

APPLICATION_ID = 0x52614D65  # "RaMe"
VERSION = 5
TABLE = (
    "CREATE TABLE replies (key BLOB PRIMARY KEY, choice TEXT NOT NULL, created REAL"
    " NOT NULL, model TEXT NOT NULL) WITHOUT ROWID"
)

_logger = logging.getLogger("ragmetrics_core")
# How long one change waits for a lock of another process. Judging waits with it.
_BUSY_SECONDS = 1.0
# A file that was changed so lately may still be made by another process.
_MAKING_SECONDS = 0.5


def check(path: Path) -> None:
    """Raise an error for a file that is neither new nor ours; change nothing.

    Example: an empty file passes, and so does a store of an earlier run; a text file
    raises.

    Args:
        path: The file; a link is followed.

    Raises:
        ForeignFile: If the path cannot be followed, leads to something that is no file,
            or is a link by which a new file would be made in another folder; if the
            file is not ours, or of another version; or if there is only the journal of
            a file that is gone.
    """
    # Looked at before the file: another process may be making both, the file first.
    journal = _journal(path)
    try:
        has_journal = journal.exists()
        n_bytes = path.stat().st_size
    except FileNotFoundError:
        n_bytes = 0
    except OSError as error:  # e.g. a link that leads to itself, or a name too long
        raise ForeignFile(
            f"{path} cannot be used ({error.strerror}); name another file for replies"
        ) from None
    if not path.exists():
        try:
            check_leads_nowhere_else(path, str(path))
        except InputError as error:
            raise ForeignFile(str(error)) from None
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ForeignFile(f"{path} is a folder or device; name a file for replies")
    if n_bytes > 0:
        _check_header(path)
    elif has_journal:
        raise ForeignFile(
            f"{journal} is the journal of a file that is gone; remove it or name"
            " another file"
        )


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
            # A checkpoint that is cut, or under way, leaves a first page that speaks of
            # more pages than the file has; the rest stands in the journal. SQLite then
            # reads the header nonetheless, where this is on.
            connection.execute("PRAGMA writable_schema=ON")
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
    """Open a file that is ours, making it as needed, for the owner alone.

    A file in a folder that cannot be written is opened for reading.
    """
    check(path)
    path = path.resolve()
    _make(path)
    # Without a journal, a file that nobody can write is whole as it stands; SQLite would
    # make a journal to read it.
    is_sealed = not os.access(path.parent, os.W_OK) and not _journal(path).exists()
    connection = sqlite3.connect(
        f"{path.as_uri()}?immutable=1" if is_sealed else path,
        uri=is_sealed,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
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


def _journal(path: Path) -> Path:
    """Return the path of the journal beside a file; a link is followed."""
    return Path(f"{os.path.realpath(path)}-wal")


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
    """Give an empty file its table and its header, in one transaction.

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


def reason_without_texts(error: Exception, path: Path) -> str:
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
