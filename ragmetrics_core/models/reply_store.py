"""Stores of replies, so that no call is paid twice.

A store keeps replies in memory, or in a SQLite file. The file is a cache for later
runs, and the journal from which a run that was killed goes on.

The file holds each reply under a digest of its request. It holds no API key and no
prompt, but a reply may quote texts of samples. A reply is committed as soon as it is
there. So a killed run loses no more than the calls that were in flight.

A file that is not ours is never opened for writing, renamed or changed, nor are the
journals beside it. Its header says whether it is ours. No library of caches does this:
they pickle what they keep, so that a file from somebody else could run code.
"""

import atexit
import contextlib
import json
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from pydantic import TypeAdapter

from ragmetrics_core.data import (
    ForeignFile,
    InputError,
    SettingError,
    check_leads_nowhere_else,
    sendable_text,
)
from ragmetrics_core.data.files import is_tracked_by_git
from ragmetrics_core.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Finish,
    Origin,
    TokenAlternatives,
)

T = TypeVar("T")

APPLICATION_ID = 0x52614D65  # "RaMe"
VERSION = 5
TABLE = (
    "CREATE TABLE replies (key BLOB PRIMARY KEY, choice TEXT NOT NULL, created REAL"
    " NOT NULL, model TEXT NOT NULL) WITHOUT ROWID"
)

# How long one change waits for a lock of another process. Judging waits with it.
_BUSY_SECONDS = 1.0
# How long a file that another process holds is left alone.
_SECONDS_LEFT_ALONE = 5.0
# A file that was changed so lately may still be made by another process.
_MAKING_SECONDS = 0.5
_MOST_IN_MEMORY = 10_000
_TROUBLE = (OSError, sqlite3.Error, ForeignFile)

_logger = logging.getLogger("ragmetrics_core")


@runtime_checkable
class ReplyStore(Protocol):
    """Keeps single replies, each under a key of everything that changes the reply.

    Implementations inherit from it, for its defaults. ``get``, ``put`` and ``reject``
    are called on the judges' event loop and return at once. None of them raises where
    space or permission is missing.

    A reply that cannot be used is not kept: the caller ``reject``s it, and the next run
    asks again.
    """

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if it is to be asked for."""

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep the replies that one call gave, by key, all or none.

        Once this has returned, they survive the end of the process.
        """

    def reject(self, key: str) -> None:
        """Forget a reply that turned out unusable."""

    def reply_from_batch(
        self, model: ChatModel, keys: Sequence[str], request: ChatRequest
    ) -> ChatReply | None:
        """Return what a request gets without a call.

        A store of a run in batches answers here in place of the endpoint.

        Args:
            model: The model that the request is for.
            keys: The keys of the replies that the request asks for.
            request: The request.

        Returns:
            The reply; None, the usual case, if the request is to be sent.
        """
        del model, keys, request  # a store that answers for a service overrides this
        return None


class MemoryStore(ReplyStore):
    """A store in memory that holds at most ten thousand replies.

    Beyond that it forgets the replies that were used least recently.
    """

    def __init__(self) -> None:
        self._choices: dict[str, Choice] = {}  # by key; the one used last is the last

    def __len__(self) -> int:
        return len(self._choices)

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if there is none."""
        choice = self._choices.pop(key, None)
        if choice is not None:
            self._choices[key] = choice  # as the one that was used last
        return choice

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep replies, forgetting the least recently used ones beyond the bound."""
        for key, choice in choices.items():
            self._choices.pop(key, None)
            self._choices[key] = choice
        while len(self._choices) > _MOST_IN_MEMORY:
            least_recently_used = next(iter(self._choices))
            self._choices.pop(least_recently_used, None)

    def reject(self, key: str) -> None:
        """Forget a reply that turned out unusable."""
        self._choices.pop(key, None)


_TokenRow = tuple[str, float, tuple[tuple[str, float], ...]]
_PARTS = TypeAdapter(tuple[str, Finish, int, tuple[_TokenRow, ...]])
# Texts are read as bytes, so that a damaged text raises nothing.
_GET = (
    "SELECT CAST(choice AS BLOB), CAST(model AS BLOB) FROM replies WHERE key = ? AND"
    " created >= ?"
)
_PUT = (
    "INSERT OR REPLACE INTO replies (key, choice, created, model) VALUES (?, ?, ?, ?)"
)
_REJECT = "DELETE FROM replies WHERE key = ?"


class SqliteStore(ReplyStore):
    """A store of replies in a SQLite file.

    The file is opened at the first use. If there is none, it is made, readable for its
    owner alone. Any thread may use the store, one at a time.

    If the file cannot be written (it is read-only, the disk is full), the run goes on
    with a warning: its replies are still read, and new ones are kept in memory. Where
    another process holds its lock, they are written later. A file that cannot be read
    is not used any more.

    Args:
        path: The file.
        fresh: Ignore the replies that the file holds at first: each request is asked
            anew, and its new reply replaces the old one. To go on with a fresh run that
            was interrupted, leave ``fresh`` out: with it everything is asked and paid
            again.

    Attributes:
        trouble: Why the file is not written any more; None while it is.

    Raises:
        ForeignFile: If there is a file that is not ours, or that git tracks: whoever
            commits could choose the replies, and so the scores. With the usual file,
            in the user's cache folder, the run goes on with a warning.

    Examples:
        >>> SqliteStore("replies.sqlite")
        SqliteStore('replies.sqlite')
    """

    # of the class, too, since a store whose file is refused is closed as well
    _connection: sqlite3.Connection | None = None

    def __init__(self, path: str | os.PathLike[str], *, fresh: bool = False) -> None:
        if str(path).startswith((":", "file:")):  # SQLite's names of what is no file
            raise SettingError(
                f"a store is a file, and {path} names none: --no-store (in Python"
                " store=False) keeps replies in memory"
            )
        self.path = Path(path).expanduser()
        named_path = Path(path)
        # The usual file need not be one that anybody named: a run goes on without it.
        if named_path != _own_path():
            # A file that cannot be read is reported when it is used.
            with contextlib.suppress(OSError):
                check(self.path)
            if is_tracked_by_git(named_path):
                raise ForeignFile(
                    f"{named_path} is tracked by git, so whoever commits it chooses the"
                    " replies; name a store that git does not track, or run: git rm"
                    f" --cached {named_path}"
                )
        self.fresh = fresh
        # Replies of this time and later are read, in seconds since 1970.
        self._read_from = time.time() if fresh else 0.0
        # Goes on where the file cannot be used.
        self._memory = MemoryStore()
        self.trouble: Exception | None = None
        self._is_readable = True
        # Unusable replies that stay in the file, as it cannot be written.
        self._rejected_keys: set[str] = set()
        # Until when the file is left alone, and the rows that are written then, by key.
        self._busy_until = 0.0
        self._unwritten: dict[bytes, tuple[bytes, str, float, str]] = {}
        with _lock:
            _stores.add(self)

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def __del__(self) -> None:
        self.close()

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if it is to be asked for."""
        choice = self._memory.get(key)
        if choice is not None or key in self._rejected_keys:
            return choice
        row = self.read(_GET, (bytes.fromhex(key), self._read_from))
        if row is None:
            return None
        # JSON of the reply's text, of why it ended, of how many replies came together,
        # and of its tokens; then the model's name. A damaged row is none.
        text, model = row
        try:
            parts = _PARTS.validate_python(json.loads(text))
            content, finish, n_together, token_rows = parts
            origin = Origin(model.decode(), n_together)
        except (ValueError, TypeError, AttributeError, RecursionError):
            return None
        tokens = tuple(TokenAlternatives(*token_row) for token_row in token_rows)
        return Choice(content, finish, tokens, origin)

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep the replies of one call, by key, in one transaction.

        Example: a call with ``n=3`` brought three replies: three rows, each under its
        own key.
        """
        now = time.time()
        rows: dict[bytes, tuple[bytes, str, float, str]] = {}
        for key, choice in choices.items():
            tokens = [
                [token.token, token.logprob, token.alternatives]
                for token in choice.tokens
            ]
            parts = [choice.text, choice.finish, choice.origin.together, tokens]
            text = json.dumps(parts, separators=(",", ":"))
            model = sendable_text(choice.origin.model)
            digest = bytes.fromhex(key)
            rows[digest] = (digest, text, now, model)
        self._memory.put(choices)
        with _lock:  # several threads may use the store
            self._unwritten |= rows
            if time.monotonic() >= self._busy_until:
                self._write_rows()

    def reject(self, key: str) -> None:
        """Forget a reply that turned out unusable."""
        self._memory.reject(key)
        digest = bytes.fromhex(key)
        with _lock:
            self._unwritten.pop(digest, None)
        if self.write(methodcaller("execute", _REJECT, (digest,)), later=True) is None:
            self._rejected_keys.add(key)

    def _write_rows(self) -> None:
        """Write the replies that are not in the file yet, unless it is still held.

        Called with the lock.
        """
        rows = list(self._unwritten.values())
        put = methodcaller("executemany", _PUT, rows)
        if self.write(put, later=True) is not None or self.trouble is not None:
            self._unwritten.clear()

    def read(self, query: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        """Return the first row that a query finds.

        None if there is none, or the file cannot be used. Example: the query of a
        stored reply gives its one row; before it is stored, None.
        """
        return self._use(
            lambda connection: connection.execute(query, values).fetchone(),
            writes=False,
        )

    def write(
        self, change: Callable[[sqlite3.Connection], T], *, later: bool = False
    ) -> T | None:
        """Make a change in one transaction; it is committed when this returns.

        In WAL mode a commit takes some 20 microseconds, and survives a killed process
        without waiting for the disk.

        Args:
            change: What to do.
            later: Whether the caller makes it again, if another process holds the file.

        Returns:
            What the change returns; None if the file cannot be written.
        """

        def commit(connection: sqlite3.Connection) -> T:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                return change(connection)

        return self._use(commit, writes=True, later=later)

    def _use(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        writes: bool,
        later: bool = False,
    ) -> T | None:
        """Do work on the file.

        After an error of SQLite or of the system a warning says so: a change that fails
        is the last one, unless it is made later, as another process holds the file, and
        after a failed look the file is not used any more.
        """
        with _lock:
            if not self._is_readable or (writes and self.trouble is not None):
                return None
            try:
                if self._connection is None:
                    self._connection = connect(self.path)
                return work(self._connection)
            except _TROUBLE as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if later and self._connection and code == sqlite3.SQLITE_BUSY:
                    if not self._busy_until:
                        _logger.warning(
                            "another process holds %s; new replies are written there"
                            " when it is free",
                            self.path,
                        )
                    self._busy_until = time.monotonic() + _SECONDS_LEFT_ALONE
                    return None
                if not writes or self._connection is None:
                    self._is_readable = False
                    self.close()
                is_damaged = isinstance(
                    error, sqlite3.DatabaseError
                ) and not isinstance(error, sqlite3.OperationalError)
                advice = "make room or name another file"
                if is_damaged:
                    advice = "it is damaged: move it away, and a new one is begun"
                # no text of a sample: SQLite's name of the error, the system's words, or
                # the class
                name_of_error = (
                    getattr(error, "sqlite_errorname", None)
                    or getattr(error, "strerror", None)
                    or type(error).__name__
                )
                _logger.warning(
                    "%s: %s",
                    "new replies are kept in memory only"
                    if self.trouble is None
                    else "stored replies are not read any more",
                    str(error)  # which says what to do
                    if isinstance(error, ForeignFile)
                    else f"{self.path} cannot be used ({name_of_error}); {advice}",
                )
                self.trouble = error
                return None

    def close(self) -> None:
        """Close the file; the next use opens it."""
        with _lock:
            if self._connection is not None and self._unwritten:
                self._write_rows()
            if self._connection is not None:
                self._connection.close()
            self._connection = None


_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
# Held while any store is used, so that no file is open while this process forks:
# SQLite's locks belong to a process, and a child that inherited the open file would wait
# for locks that nobody releases.
_lock = threading.RLock()


@atexit.register
def _close_all() -> None:
    """Close all files, so that no journal is left beside them."""
    with _lock:
        for store in list(_stores):
            store.close()


def _before_fork() -> None:
    _lock.acquire()
    _close_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release
    )


StoreLike = ReplyStore | str | os.PathLike[str] | bool | None
"""A store, or a setting that names a store; ``resolve_store`` finds the store.

A path stands for a file. True is the file in the user's cache folder, False is memory,
None is the default.
"""


def default_path() -> Path:
    """Return the path of the file of stored replies.

    ``RAGMETRICS_STORE`` names it, else it is in the user's cache folder.
    """
    named_path = os.environ.get("RAGMETRICS_STORE")
    return Path(named_path).expanduser() if named_path else _own_path()


def _own_path() -> Path:
    """Return the path of the store in the user's cache folder."""
    from platformdirs import user_cache_path  # only runs that keep replies need it

    try:
        folder = user_cache_path("ragmetrics", appauthor=False).expanduser()
    except RuntimeError:  # the user has no home: a path that nothing can be kept at
        folder = Path(os.devnull)
    return folder / "replies.sqlite"


def resolve_store(store: StoreLike) -> ReplyStore:
    """Find the store to use.

    Example: "replies.sqlite" opens that file.

    Args:
        store: One of:

            - a store, which is used as it is;
            - the path of a file, which is opened at its first use;
            - True for the file that ``RAGMETRICS_STORE`` names, else the one in the
              user's cache folder;
            - False for memory, for this run alone;
            - None for the file that ``RAGMETRICS_STORE`` names, else memory.

    Raises:
        SettingError: If it is anything else.
        ForeignFile: If there is a file that is not ours.
    """
    if store is True or (store is None and os.environ.get("RAGMETRICS_STORE")):
        store = default_path()
    if isinstance(store, ReplyStore):
        return store
    if store is None or store is False:
        return MemoryStore()
    if isinstance(store, (str, os.PathLike)) and store:
        return SqliteStore(store)
    raise SettingError(
        f"store is a {type(store).__name__}; give a path, a ReplyStore, True or False"
    )


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
    # asked, not opened: to close the file would give up the locks of this process on it
    if not os.access(path, os.R_OK):
        raise ForeignFile(
            f"the store {path} cannot be read: Permission denied; name another file"
        )
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
        # An empty file gets its table and its header, in one transaction. The header is
        # written before the journal becomes a WAL, so that it stands in the file itself,
        # where ``check`` reads it.
        if not _number(connection, "user_version"):
            connection.execute("BEGIN IMMEDIATE")
            # looked at again under the lock: another process may have been faster
            if not _number(connection, "user_version"):
                connection.execute(TABLE)
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={VERSION}")
            connection.execute("COMMIT")
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
