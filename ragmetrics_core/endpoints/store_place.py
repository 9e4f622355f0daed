"""Which store a run uses: the argument, else ``RAGMETRICS_STORE``, else one in memory."""

from __future__ import annotations

import os
from pathlib import Path

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.endpoints.store import MemoryStore, ReplyStore

StoreLike = ReplyStore | str | os.PathLike[str] | bool | None
"""A store, the path of a file, True for the file in the user's cache folder, False for memory, None for the default."""


def default_path() -> Path:
    """The file of stored replies: ``RAGMETRICS_STORE``, else one in the user's cache folder."""
    if chosen := os.environ.get("RAGMETRICS_STORE"):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path  # only runs that keep replies need it

    return user_cache_path("ragmetrics", appauthor=False) / "replies.sqlite"


def resolve_store(store: StoreLike) -> ReplyStore:
    """Find the store to use.

    Args:
        store: A store; the path of a SQLite file; True for the file in the user's cache folder; False for a store
            in memory, for this run; None for the file that ``RAGMETRICS_STORE`` names, else memory.

    Returns:
        The store; a file is opened at its first use, so a judge that makes no calls leaves none behind.

    Raises:
        SettingError: If ``store`` is none of these.
    """
    if store is None:
        store = bool(os.environ.get("RAGMETRICS_STORE"))
    if store is False:
        return MemoryStore()
    if store is True:
        return _file(default_path())
    if isinstance(store, ReplyStore):
        return store
    if isinstance(store, (str, os.PathLike)) and str(store):
        return _file(Path(store))
    raise SettingError(f"store is a {type(store).__name__}; give a path, a ReplyStore, True or False")


def _file(path: Path) -> ReplyStore:
    if path.is_dir():
        raise SettingError(f"the store {path} is a folder; name a file, e.g. {path / 'replies.sqlite'}")
    from ragmetrics_core.endpoints.sqlite_store import SqliteStore  # sqlite3 is not needed for every run

    return SqliteStore(path)
