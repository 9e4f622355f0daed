"""Replies that are kept, so that nothing is paid twice.

They are in memory or in a SQLite file, which is cache and crash journal in one.

The file holds replies under digests of what was asked: no key and no prompt; but
replies may quote texts of samples. A call is only sent once every reply received before
it is committed (``settled``), so a killed run loses no more than the calls that were in
flight.
"""

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Protocol, get_args, runtime_checkable
from uuid import uuid4

from ragmetrics_core.data import ForeignFile, SettingError, safe
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


@runtime_checkable
class ReplyStore(Protocol):
    """Keeps single replies under a key that names everything that changes them.

    Implementations inherit from it, for its defaults. ``get``, ``put`` and ``reject``
    are called on the judges' event loop and return at once; none of them raises for
    want of space or permission.

    **Unusable replies.** Whoever cannot use a reply calls ``reject``; for the rest of
    the run ``get`` returns None under its key, so that it may be asked again. A store
    that outlives the run counts the runs that rejected what they got, a run being what
    lies between two calls of ``flush``: after one, the next run asks again; after two,
    ``get`` returns the last such reply with ``choice.origin.unusable`` set. To read it
    tells once more why it cannot be used; it is neither asked again nor repaired until
    a fresh run asks everything anew.
    """

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if it is to be asked for."""

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep the replies that one call gave, by key, all or none."""

    def reject(self, key: str) -> None:
        """Mark a kept reply as unusable."""

    def parked(
        self, model: ChatModel, keys: Sequence[str], request: ChatRequest
    ) -> ChatReply | None:
        """What a request for the replies under ``keys`` gets without a call.

        None, the usual case, to send it.
        """
        del model, keys, request  # a store that answers for a service overrides this
        return None

    async def settled(self) -> None:
        """Wait until everything put so far survives the end of the process.

        Awaited before each call.
        """
        return

    def flush(self) -> None:
        """Wait in the same way, from any thread; called at the end of a run."""
        return


class MemoryStore(ReplyStore):
    """A store in memory that keeps ten thousand replies at most.

    Beyond that it forgets the least recently used ones. It also forgets unusable
    replies.
    """

    def __init__(self) -> None:
        self._choices: dict[str, Choice] = {}

    def __len__(self) -> int:
        return len(self._choices)

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if there is none."""
        choice = self._choices.pop(key, None)
        if choice is not None:
            self._choices[key] = choice  # the last one now
        return choice

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep replies, forgetting the least recently used ones beyond the bound."""
        for key, choice in choices.items():
            self._choices.pop(key, None)
            self._choices[key] = choice
        while len(self._choices) > 10_000:
            self._choices.pop(next(iter(self._choices)), None)

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
_SHARED = REPLIES._replace(journal="DELETE")
# seconds after which a folder is looked through for files of other processes
_LISTED_FOR = 2.0
_RUNS = 2  # that could not use what they got, until it is known


class SqliteStore(OwnFile, ReplyStore):
    """A store of replies in a SQLite file.

    The file is opened at the first use. It is made if need be, for its owner alone.

    A file that cannot be written costs a warning, not the run: new replies are then
    kept in memory.

    Args:
        path: The file.
        fresh: Ask everything anew once, and keep the new replies in place of what the
            file held before. A run that was interrupted goes on without it; fresh
            again, everything is asked and paid again.

    Raises:
        ForeignFile: If there is a file that is not ours.

    Examples:
        >>> SqliteStore("replies.sqlite")
        SqliteStore('replies.sqlite')
    """

    def __init__(
        self, path: str | os.PathLike[str], *, fresh: bool = False, kind: Kind = REPLIES
    ) -> None:
        self.fresh, self._new = fresh, set[str]() if fresh else None
        super().__init__(path, kind)

    def begin(self) -> None:
        """Start anew: at first, and in a forked process."""
        super().begin()
        self._memory = MemoryStore()  # what is not committed yet, or cannot be
        # what this run rejected; False once there is another reply
        self._rejected: dict[str, bool] = {}

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key; None if it is to be asked for."""
        if self._rejected.get(key) or (self._new is not None and key not in self._new):
            return None
        if (choice := self._memory.get(key)) is not None:
            return choice
        row = self.read(_GET, (bytes.fromhex(key),))
        return None if row is None else _loaded(*row)

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep the replies of one call; they are committed together, soon."""
        now = time.time()
        rows = [
            (bytes.fromhex(key), _dumped(one), now, safe(one.origin.model))
            for key, one in choices.items()
        ]
        self._memory.put(choices)
        self._rejected.update((key, False) for key in choices if key in self._rejected)
        if self._new is not None:
            self._new.update(choices)
        self.write(methodcaller("executemany", _PUT, rows))

    def reject(self, key: str) -> None:
        """Mark a reply as unusable; counted once in a run."""
        first = key not in self._rejected
        self._rejected[key] = True
        self._memory.reject(key)
        self.write(methodcaller("execute", _REJECT, (first, bytes.fromhex(key))))

    def flush(self) -> None:
        """Wait until everything put so far is committed, and end the run."""
        super().flush()
        self._rejected.clear()


class FolderStore(ReplyStore):
    """A folder of stores for processes on several machines.

    Each process writes a file of its own and reads the others'.

    What a killed process had kept, those that come after it find. A reply that turns
    out unusable is marked in every file that holds it. The folder must be one that all
    processes see, and whose file system has locks.

    Args:
        folder: The folder; it is made if need be.

    Examples:
        >>> FolderStore("replies/")
        FolderStore('replies')
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder).expanduser()
        self._own: tuple[int, SqliteStore] | None = None
        self._others: dict[Path, SqliteStore] = {}
        self._foreign: set[Path] = set()
        self._listed = 0.0

    def __repr__(self) -> str:
        return f"FolderStore({str(self._folder)!r})"

    def get(self, key: str) -> Choice | None:
        """Return the reply kept under a key, by whichever process.

        None if it is to be asked for.
        """
        return next(filter(None, (store.get(key) for store in self._stores())), None)

    def put(self, choices: Mapping[str, Choice]) -> None:
        """Keep the replies of one call in the file of this process."""
        self._mine().put(choices)

    def reject(self, key: str) -> None:
        """Mark a reply as unusable wherever it is kept."""
        for store in [store for store in self._stores() if store.get(key) is not None]:
            store.reject(key)

    async def settled(self) -> None:
        """Wait until everything put so far is committed."""
        await self._mine().settled()

    def flush(self) -> None:
        """Wait in the same way, and end the run."""
        for store in self._stores():
            store.flush()

    def _mine(self) -> SqliteStore:
        """The store of this process; a forked one has another."""
        if self._own is None or self._own[0] != os.getpid():
            self._own = (
                os.getpid(),
                SqliteStore(self._folder / f"{uuid4().hex}.sqlite", kind=_SHARED),
            )
            # what the process that forked wrote is another's
            self._listed = -_LISTED_FOR
        return self._own[1]

    def _stores(self) -> list[SqliteStore]:
        """The store of this process, then those of all others that there are by now."""
        own = self._mine()
        if (now := time.monotonic()) - self._listed >= _LISTED_FOR:
            for path in self._folder.glob("*.sqlite"):
                if (
                    path != own.path
                    and path not in self._others
                    and not self._is_foreign(path)
                ):
                    self._others[path] = SqliteStore(path, kind=_SHARED)
            self._listed = now
        return [own, *self._others.values()]

    def _is_foreign(self, path: Path) -> bool:
        """Whether a file that lies in the folder is none of ours.

        It is left as it is, and said once.
        """
        if path in self._foreign:
            return True
        try:
            own_file.check(path, _SHARED)
        except (ForeignFile, OSError) as error:
            logger.warning("%s is passed over: %s", path, error)
            self._foreign.add(path)
            return True
        return False


def _dumped(choice: Choice) -> str:
    tokens = [
        [token.token, token.logprob, token.alternatives] for token in choice.tokens
    ]
    return json.dumps(
        [choice.text, choice.finish, choice.origin.together, tokens],
        separators=(",", ":"),
    )


def _loaded(text: bytes, model: bytes, unusable: int, runs: int) -> Choice | None:
    """Return the reply in a row; None if there is none to use.

    None stands for a reply that is to be asked again. It also stands for a row that
    holds no reply, e.g. on a damaged page.
    """
    if unusable and runs < _RUNS:
        return None
    try:
        content, finish, together, listed = json.loads(text)
        tokens = tuple(
            TokenAlternatives(
                str(token),
                float(logprob),
                tuple((str(other), float(value)) for other, value in others),
            )
            for token, logprob, others in listed
        )
        choice = Choice(
            content,
            finish,
            tokens,
            Origin(model.decode(), int(together), unusable=bool(unusable)),
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return choice if isinstance(content, str) and finish in get_args(Finish) else None


StoreLike = ReplyStore | str | os.PathLike[str] | bool | None
"""A store, or what stands for one.

That is the path of a file, or with a slash at its end the path of a folder that several
processes share. True is the file in the user's cache folder, False is memory, None is
the default.
"""


def default_path() -> Path:
    """Return the path of the file of stored replies.

    It is that of ``RAGMETRICS_STORE``, else one in the user's cache folder.
    """
    if chosen := os.environ.get("RAGMETRICS_STORE"):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path  # only runs that keep replies need it

    return user_cache_path("ragmetrics", appauthor=False) / "replies.sqlite"


def resolve_store(store: StoreLike) -> ReplyStore:
    """Find the store to use.

    A store is used as it is. A path means its file or (``"replies/"``) folder, which is
    opened at its first use.

    True is the file in the user's cache folder, False memory, for this run, None the
    file that ``RAGMETRICS_STORE`` names, else memory. ``SettingError`` for anything
    else, and for a file that is not ours (``ForeignFile``).
    """
    named = os.environ.get("RAGMETRICS_STORE")
    if store is True or (store is None and named):
        store = named or default_path()
    if isinstance(store, ReplyStore):
        return store
    if store is None or store is False:
        return MemoryStore()
    if isinstance(store, (str, os.PathLike)) and store:
        return (
            FolderStore(store)
            if os.fspath(store).endswith(("/", os.sep))
            else SqliteStore(store)
        )
    raise SettingError(
        f"store is a {type(store).__name__}; give a path, a ReplyStore, True or False"
    )
