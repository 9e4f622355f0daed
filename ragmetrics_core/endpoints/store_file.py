"""The file of stored replies: how it is opened, brought up to date, and moved aside if it is damaged."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from pathlib import Path

logger = logging.getLogger("ragmetrics_core")

_BUSY_SECONDS = 30.0
_FILES = ("", "-wal", "-shm")
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# One step per version of the file. A released step is never edited: files in the field have taken it.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    ("CREATE TABLE replies (key BLOB PRIMARY KEY, choice TEXT NOT NULL, created REAL NOT NULL) WITHOUT ROWID",),
    (
        "ALTER TABLE replies ADD COLUMN model TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE replies ADD COLUMN tokens REAL NOT NULL DEFAULT 0",
        "ALTER TABLE replies ADD COLUMN cost REAL",
        "CREATE TABLE rejected (key BLOB NOT NULL, choice TEXT NOT NULL, created REAL NOT NULL, model TEXT NOT NULL)",
        "CREATE TABLE saved (model TEXT PRIMARY KEY, replies INTEGER NOT NULL, tokens REAL NOT NULL, "
        "cost REAL NOT NULL, unpriced INTEGER NOT NULL) WITHOUT ROWID",
    ),
)


class NewerFileError(Exception):
    """The file was made by a newer version of ragmetrics."""


def damaged(error: sqlite3.Error) -> bool:
    """True if an error says that the file is no database, or a broken one."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in _DAMAGED


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, making or updating it as needed; a damaged one is moved aside with a warning.

    Args:
        path: The file. Folders that are made for it are open to their owner alone, as is the file.

    Returns:
        A connection that any one thread at a time may use; it commits by itself.

    Raises:
        OSError: If the file or its folder cannot be made.
        sqlite3.Error: If the file cannot be opened for writing.
        NewerFileError: If a newer version made it.
    """
    _make(path)
    seen = _identity(path)
    try:
        return _opened(path)
    except sqlite3.DatabaseError as error:
        if not damaged(error):
            raise
    if _identity(path) == seen:  # else another process was faster
        move_aside(path)
    _make(path)
    return _opened(path)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open an existing file that cannot be written.

    Raises:
        sqlite3.Error: If there is none, or it is none of ours or of another version.
    """
    place = path.resolve().as_uri()
    connection = sqlite3.connect(f"{place}?immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    if version != len(MIGRATIONS):
        connection.close()
        raise sqlite3.OperationalError(f"version {version} of the file cannot be read")
    return connection


def move_aside(path: Path) -> None:
    """Rename a damaged file and say so."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    for ending in _FILES:
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{ending}").rename(f"{aside}{ending}")
    logger.warning("the store of replies %s was damaged: it is kept as %s, and a new one is used", path, aside.name)


def _make(path: Path) -> None:
    """Make the file and its folders, for the owner alone, and name it the first time."""
    if path.exists():
        return
    missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        logger.info("replies are kept in %s, so that none is paid twice; 'ragmetrics store' shows them", path)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        _migrate(connection, path)
    except (sqlite3.Error, NewerFileError):
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        if version > len(MIGRATIONS):
            raise NewerFileError(f"{path} was made by a newer version of ragmetrics; name another file")
        for statement in (statement for step in MIGRATIONS[version:] for statement in step):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except (sqlite3.Error, NewerFileError):
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
