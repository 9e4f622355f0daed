"""A SQLite file of our own: opened only if it is ours or new, brought up to date, moved aside if it is damaged.

A file that is not ours is never opened for writing, renamed or changed, nor are the journals beside it: whose it is
stands in its first 100 bytes, which are read before SQLite sees the file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import struct
import time
from pathlib import Path
from typing import NamedTuple

from ragmetrics_core.data.errors import ForeignFile

logger = logging.getLogger("ragmetrics_core")

TROUBLE = (OSError, sqlite3.Error, ForeignFile)
"""What opening and using such a file may raise."""

_BUSY_SECONDS = 30.0
_FILES = ("", "-wal", "-shm")
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class Kind(NamedTuple):
    """A kind of file that we write.

    Args:
        holds: What it holds, for messages.
        application_id: The number in its header by which it is known.
        steps: The statements that make it, one step per version. A released step is never edited.
        unnumbered: How many of the first versions carry no such number; a file without one is ours only if its
            tables are those of such a version, to the letter.
        made: What is logged when a new one is made; ``%s`` is its place.
    """

    holds: str
    application_id: int
    steps: tuple[tuple[str, ...], ...]
    unnumbered: int = 0
    made: str = "made %s"


def check(path: Path, kind: Kind) -> None:
    """Refuse a file that is neither new nor ours; nothing is touched.

    Raises:
        ForeignFile: If it is somebody else's, no file at all, or of a newer version.
        OSError: If it cannot be read.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ForeignFile(f"{path} is a folder or device; name a file for {kind.holds}")
    header = b""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        header = file.read(100)
    if not header:
        if Path(f"{path}-wal").exists():
            raise ForeignFile(f"{path}-wal is the journal of a file that is gone; remove it or name another file")
        return
    version, number = struct.unpack(">60xi4xi28x", header) if header[:16] == b"SQLite format 3\0" else (0, -1)
    if number == kind.application_id:
        if version > len(kind.steps):
            raise ForeignFile(f"{path} was made by a newer version of ragmetrics; name another file")
    elif number != 0 or not 0 < version <= kind.unnumbered or _tables(path) != _tables_of(kind, version):
        raise ForeignFile(f"{path} is no file of ragmetrics' {kind.holds}, and is left as it is; name a new file")


def connect(path: Path, kind: Kind) -> sqlite3.Connection:
    """Open the file, making or updating it as needed; a damaged one is moved aside with a warning.

    Args:
        path: The file. It and folders that are made for it are open to their owner alone.
        kind: What it is to be.

    Returns:
        A connection that any one thread at a time may use; it commits by itself.

    Raises:
        ForeignFile: If it is not ours, or of a newer version.
        OSError: If the file or its folder cannot be made or read.
        sqlite3.Error: If the file cannot be opened for writing.
    """
    path = path.resolve()
    check(path, kind)
    _make(path, kind)
    seen = _identity(path)
    try:
        return _opened(path, kind)
    except sqlite3.DatabaseError as error:
        if not damaged(error):
            raise
    if _identity(path) == seen:  # else another process was faster
        move_aside(path, kind)
    _make(path, kind)
    return _opened(path, kind)


def connect_to_read(path: Path, kind: Kind) -> sqlite3.Connection:
    """Open an existing file of ours that cannot be written; nothing is made beside it.

    Raises:
        ForeignFile: If it is not ours.
        OSError: If it cannot be read.
        sqlite3.Error: If there is none, or of an older version.
    """
    check(path, kind)
    connection = _immutable(path)
    if (version := _version(connection)) != len(kind.steps):
        connection.close()
        raise sqlite3.OperationalError(f"version {version} of the file cannot be read")
    return connection


def damaged(error: BaseException) -> bool:
    """True if an error says that the file is no database, or a broken one."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def move_aside(path: Path, kind: Kind) -> None:
    """Rename a damaged file of ours and say so.

    Raises:
        ForeignFile: If another file has come to its place meanwhile.
        OSError: If it cannot be renamed.
    """
    path = path.resolve()
    check(path, kind)
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    for ending in _FILES:
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{ending}").rename(f"{aside}{ending}")
    logger.warning("%s was damaged: it is kept as %s, and a new file is used", path, aside.name)


def _make(path: Path, kind: Kind) -> None:
    """Make the file and its folders, for the owner alone, and name it the first time."""
    missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.stat().st_size:
            with contextlib.suppress(PermissionError):
                path.chmod(0o600)
    else:
        logger.info(kind.made, path)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _opened(path: Path, kind: Kind) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        if _version(connection) != len(kind.steps):
            _update(connection, path, kind)  # before the journal is a WAL: whose the file is then stands in itself
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
    except (sqlite3.Error, ForeignFile):
        connection.close()
        raise
    return connection


def _update(connection: sqlite3.Connection, path: Path, kind: Kind) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        if version > len(kind.steps):
            raise ForeignFile(f"{path} was made by a newer version of ragmetrics; name another file")
        for statement in (statement for step in kind.steps[version:] for statement in step):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={kind.application_id}")
        connection.execute(f"PRAGMA user_version={len(kind.steps)}")
        connection.execute("COMMIT")
    except (sqlite3.Error, ForeignFile):
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _immutable(path: Path) -> sqlite3.Connection:
    """A connection that reads the file itself, and neither locks it nor looks at its journals."""
    place = f"{path.resolve().as_uri()}?immutable=1"
    return sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False)


def _tables(path: Path) -> list[str] | None:
    """How the tables of a file were made; None if SQLite cannot read it."""
    with contextlib.closing(_immutable(path)) as connection, contextlib.suppress(sqlite3.Error):
        return _schema(connection)
    return None


def _tables_of(kind: Kind, version: int) -> list[str]:
    """How the tables of a version were made."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in (statement for step in kind.steps[:version] for statement in step):
            connection.execute(statement)
        return _schema(connection)


def _schema(connection: sqlite3.Connection) -> list[str]:
    return [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY name")]
