"""Stores of replies, so that no call is paid twice.

A store keeps replies in memory, or in a SQLite file. The file is a cache for later
runs, and the journal from which a run that was killed goes on.

The file holds each reply under a digest of its request. It holds no API key and no
prompt, but a reply may quote texts of samples. A call is only sent once every reply
received before it is committed (``settled``). So a killed run loses no more than the
calls that were in flight.
"""

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, Protocol, get_args, runtime_checkable
from uuid import uuid4

from ragmetrics_core.data import ForeignFile, SettingError, sendable_text
from ragmetrics_core.data.trust import is_tracked_by_git
from ragmetrics_core.models import own_file
from ragmetrics_core.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Finish,
    Origin,
    TokenAlternatives,
)
from ragmetrics_core.models.own_file import Kind, OwnFile

logger = logging.getLogger("ragmetrics_core")


_MOST_IN_MEMORY = 10_000


@runtime_checkable
class ReplyStore(Protocol):
    """Keeps single replies, each under a key of everything that changes the reply.

    Implementations inherit from it, for its defaults. ``get``, ``put`` and ``reject``
    are called on the judges' event loop and return at once. None of them raises where
    space or permission is missing.

    **Unusable replies.** A caller that cannot use a reply calls ``reject``. For the
    rest of the run ``get`` returns None under its key, so that the caller may ask
    again.

    A store that outlives the run counts the runs that rejected a reply under a key. A
    run is what lies between two calls of ``flush``. After one such run the next one
    asks again. After two ``get`` returns the last rejected reply, with
    ``choice.origin.unusable`` set: reading it says once more why it cannot be used. It
    is neither asked again nor repaired, until a fresh run asks everything anew.
    """

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if it is to be asked for."""

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep the replies that one call gave, by key, all or none."""

    def reject(self, key: str) -> None:
        """Mark a kept reply as unusable."""

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

    async def settled(self) -> None:
        """Wait until every reply put so far would survive the end of the process.

        The session awaits this before each call.
        """
        return

    def flush(self) -> None:
        """Wait as ``settled`` does, from any thread; called at the end of a run."""
        return


class MemoryStore(ReplyStore):
    """A store in memory that holds at most ten thousand replies.

    Beyond that it forgets the replies that were used least recently. It also forgets
    unusable replies.
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


REPLIES = Kind(
    holds="replies",
    application_id=0x52614D65,  # "RaMe"
    version=4,
    table=(
        "CREATE TABLE replies (key BLOB PRIMARY KEY, choice TEXT NOT NULL, created REAL"
        " NOT NULL, model TEXT NOT NULL, unusable INTEGER NOT NULL DEFAULT 0,"
        " rejections INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID"
    ),
    made=(
        "replies are kept in %s, so that none is paid twice; 'ragmetrics store' shows"
        " them"
    ),
    without="new replies are kept in memory only",
)
_GET = "SELECT choice, model, unusable, rejections FROM replies WHERE key = ?"
_PUT = """INSERT INTO replies (key, choice, created, model) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
choice = excluded.choice, created = excluded.created, model = excluded.model, unusable = 0"""
_REJECT = "UPDATE replies SET unusable = 1, rejections = rejections + ? WHERE key = ?"
_SHARED_REPLIES = REPLIES._replace(journal="DELETE")
# After so many seconds a folder is looked through again for files of other processes.
_LISTING_SECONDS = 2.0
# A reply that so many runs could not use is not asked for again.
_RUNS_UNTIL_UNUSABLE = 2


class SqliteStore(OwnFile, ReplyStore):
    """A store of replies in a SQLite file.

    The file is opened at the first use. If there is none, it is made, readable for its
    owner alone.

    If the file cannot be written, the run goes on with a warning: new replies are then
    kept in memory.

    Args:
        path: The file.
        fresh: Ignore the replies that the file holds at first: each request is asked
            anew, and its new reply replaces the old one. To go on with a fresh run that
            was interrupted, leave ``fresh`` out: with it everything is asked and paid
            again.
        kind: The kind of file, for stores that other processes share.

    Raises:
        ForeignFile: If there is a file that is not ours, or that git tracks: whoever
            commits could choose the replies, and so the scores.

    Examples:
        >>> SqliteStore("replies.sqlite")
        SqliteStore('replies.sqlite')
    """

    def __init__(
        self, path: str | os.PathLike[str], *, fresh: bool = False, kind: Kind = REPLIES
    ) -> None:
        _refuse_tracked(Path(path))
        self.fresh = fresh
        # Keys of the replies that were put since a fresh store was made: only these are
        # read. Not used without ``fresh``.
        self._keys_put_since_fresh: set[str] = set()
        super().__init__(path, kind)

    def begin(self) -> None:
        """Start anew: when the store is made, and in a forked process."""
        super().begin()
        # Replies that are not committed yet, or cannot be.
        self._memory = MemoryStore()
        # keys under which this run has rejected a reply
        self._keys_ever_rejected: set[str] = set()
        # the keys among them without a new reply since
        self._keys_rejected_now: set[str] = set()

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if it is to be asked for."""
        if key in self._keys_rejected_now:
            return None
        if self.fresh and key not in self._keys_put_since_fresh:
            return None
        choice = self._memory.get(key)
        if choice is not None:
            return choice
        row = self.read(_GET, (bytes.fromhex(key),))
        return None if row is None else _choice_of_row(*row)

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep the replies of one call, by key.

        They can be read at once. They are written to the file soon, in one transaction.
        Example: a call with ``n=3`` brought three replies: three rows, each under its
        own key.
        """
        now = time.time()
        rows = [
            (
                bytes.fromhex(key),
                _text_of(choice),
                now,
                sendable_text(choice.origin.model),
            )
            for key, choice in choices.items()
        ]
        self._memory.put(choices)
        # A new reply replaces one that this run rejected.
        self._keys_rejected_now.difference_update(choices)
        # With ``fresh``, only replies that this run has kept are given again.
        if self.fresh:
            self._keys_put_since_fresh.update(choices)
        self.write(methodcaller("executemany", _PUT, rows))

    def reject(self, key: str) -> None:
        """Mark a reply as unusable.

        The file counts the runs that reject replies under the key. A run counts once,
        however often it rejects.
        """
        is_first_in_run = key not in self._keys_ever_rejected
        self._keys_ever_rejected.add(key)
        self._keys_rejected_now.add(key)
        self._memory.reject(key)
        values = (is_first_in_run, bytes.fromhex(key))
        self.write(methodcaller("execute", _REJECT, values))

    def flush(self) -> None:
        """Wait until everything put so far is committed, and end the run."""
        super().flush()
        self._keys_ever_rejected.clear()
        self._keys_rejected_now.clear()


class FolderStore(ReplyStore):
    """A folder of stores for processes on several machines.

    Each process writes a file of its own, and reads the files of the others. Later
    processes find the replies of a process that was killed. A reply that turns out
    unusable is marked in every file that holds it.

    All processes must see the folder, and its file system must have locks.

    Args:
        folder: The folder; it is made if need be.

    Examples:
        >>> FolderStore("replies/")
        FolderStore('replies')
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder).expanduser()
        # The number of a process, and its store. A forked process finds the number of
        # its parent here.
        self._store_of_process: tuple[int, SqliteStore] | None = None
        self._stores_of_other_processes: dict[Path, SqliteStore] = {}
        self._foreign_files: set[Path] = set()
        # When the folder was last looked through, by ``time.monotonic``.
        self._listed_at = 0.0

    def __repr__(self) -> str:
        return f"FolderStore({str(self._folder)!r})"

    def get(self, key: str) -> Choice | None:
        """Return the reply that any process keeps under a key; None if there is none."""
        for store in self._stores():
            choice = store.get(key)
            if choice is not None:
                return choice
        return None

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep the replies of one call in the file of this process."""
        self._own_store().put(choices)

    def reject(self, key: str) -> None:
        """Mark a reply as unusable wherever it is kept."""
        holding = [store for store in self._stores() if store.get(key) is not None]
        for store in holding:
            store.reject(key)

    async def settled(self) -> None:
        """Wait until everything put so far is committed."""
        await self._own_store().settled()

    def flush(self) -> None:
        """Wait as ``settled`` does, and end the run."""
        for store in self._stores():
            store.flush()

    def _own_store(self) -> SqliteStore:
        """Return the store of this process; a forked process gets another."""
        process = os.getpid()
        if self._store_of_process is not None:
            known_process, store = self._store_of_process
            if known_process == process:
                return store
        path = self._folder / f"{uuid4().hex}.sqlite"
        store = SqliteStore(path, kind=_SHARED_REPLIES)
        self._store_of_process = (process, store)
        # In a forked process, the parent's file now belongs to another process: the
        # folder is to be looked through at once.
        self._listed_at = -_LISTING_SECONDS
        return store

    def _stores(self) -> list[SqliteStore]:
        """Return the store of this process, then those of other processes in the folder.

        The folder is looked through for new files at most every two seconds. Example:
        with two other processes at work in ``replies/``, three stores.
        """
        own_store = self._own_store()
        now = time.monotonic()
        if now - self._listed_at >= _LISTING_SECONDS:
            for path in self._folder.glob("*.sqlite"):
                if path == own_store.path or path in self._stores_of_other_processes:
                    continue
                if self._is_reply_store(path):  # not a database of somebody else
                    store = SqliteStore(path, kind=_SHARED_REPLIES)
                    self._stores_of_other_processes[path] = store
            self._listed_at = now
        return [own_store, *self._stores_of_other_processes.values()]

    def _is_reply_store(self, path: Path) -> bool:
        """Whether a file in the folder holds stored replies; warn once if it does not."""
        if path in self._foreign_files:
            return False
        try:
            own_file.check(path, _SHARED_REPLIES)
            _refuse_tracked(path)
        except (ForeignFile, OSError) as error:
            logger.warning("%s is passed over: %s", path, error)
            self._foreign_files.add(path)
            return False
        return True


def _refuse_tracked(path: Path) -> None:
    """Raise ``ForeignFile`` for a file that git tracks, but for the user's own store."""
    if path != _own_path() and is_tracked_by_git(path):
        raise ForeignFile(
            f"{path} is tracked by git, so whoever commits it chooses the replies; name"
            f" a store that git does not track, or run: git rm --cached {path}"
        )


def _text_of(choice: Choice) -> str:
    """Return a reply as JSON, as the table holds it; its model has another column."""
    tokens = [
        [token.token, token.logprob, token.alternatives] for token in choice.tokens
    ]
    return json.dumps(
        [choice.text, choice.finish, choice.origin.together, tokens],
        separators=(",", ":"),
    )


def _choice_of_row(
    text: bytes, model: bytes, unusable: int, rejections: int
) -> Choice | None:
    """Return the reply in a row of the table; None if it is to be asked for again.

    - Usable reply: the reply.
    - Unusable reply, first time for its request (``rejections`` 1): None. The request
      is sent once more.
    - Unusable reply, second time for its request: the reply, marked as unusable. It is
      paid for no third time.
    - No reply in the row, e.g. on a damaged page of the file: None.

    Args:
        text: JSON of the reply's text, of why it ended, of how many replies came
            together, and of its tokens.
        model: Name of the model that wrote it.
        unusable: 1 if a run could not use this reply.
        rejections: How many times a run could not use a reply to this request, this
            reply or an earlier one under the same key.
    """
    if unusable and rejections < _RUNS_UNTIL_UNUSABLE:
        return None
    try:
        content, finish, n_together, token_rows = json.loads(text)
        tokens = tuple(_token_of(*token_row) for token_row in token_rows)
        origin = Origin(model.decode(), int(n_together), unusable=bool(unusable))
        choice = Choice(content, finish, tokens, origin)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    is_reply = isinstance(content, str) and finish in get_args(Finish)
    return choice if is_reply else None


def _token_of(token: object, logprob: Any, alternatives: Any) -> TokenAlternatives:
    """Make a token of the values in which a row holds it."""
    logprobs = tuple((str(label), float(value)) for label, value in alternatives)
    return TokenAlternatives(str(token), float(logprob), logprobs)


StoreLike = ReplyStore | str | os.PathLike[str] | bool | None
"""A store, or a setting that names a store; ``resolve_store`` finds the store.

A path stands for a file; with a slash at its end, for a folder that several processes
share. True is the file in the user's cache folder, False is memory, None is the
default.
"""


def default_path() -> Path:
    """Return the path of the file of stored replies.

    ``RAGMETRICS_STORE`` names it, else it is in the user's cache folder.
    """
    named_path = os.environ.get("RAGMETRICS_STORE")
    if named_path:
        return Path(named_path).expanduser()
    return _own_path()


def _own_path() -> Path:
    """Return the path of the store in the user's cache folder."""
    from platformdirs import user_cache_path  # only runs that keep replies need it

    return user_cache_path("ragmetrics", appauthor=False) / "replies.sqlite"


def resolve_store(store: StoreLike) -> ReplyStore:
    """Find the store to use.

    Example: "replies.sqlite" opens that file, and "replies/" makes files in that
    folder.

    Args:
        store: One of:

            - a store, which is used as it is;
            - the path of a file, which is opened at its first use;
            - the path of a folder, with a slash at its end (``"replies/"``);
            - True for the file that ``RAGMETRICS_STORE`` names, else the one in the
              user's cache folder;
            - False for memory, for this run alone;
            - None for the file that ``RAGMETRICS_STORE`` names, else memory.

    Raises:
        SettingError: If it is anything else.
        ForeignFile: If there is a file that is not ours.
    """
    named_path = os.environ.get("RAGMETRICS_STORE")
    if store is True or (store is None and named_path):
        store = named_path or default_path()
    if isinstance(store, ReplyStore):
        return store
    if store is None or store is False:
        return MemoryStore()
    if isinstance(store, (str, os.PathLike)) and store:
        is_folder = os.fspath(store).endswith(("/", os.sep))
        return FolderStore(store) if is_folder else SqliteStore(store)
    raise SettingError(
        f"store is a {type(store).__name__}; give a path, a ReplyStore, True or False"
    )
