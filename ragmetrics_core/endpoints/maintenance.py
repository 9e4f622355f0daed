"""Looking after a file of stored replies: what it holds and saved, and making it smaller."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.endpoints import own_file
from ragmetrics_core.endpoints.store import REPLIES


class Holding(Frozen):
    """What a store holds of one model, and what that saved.

    Args:
        model: Name of the model as its endpoint returned it; "" if it did not.
        replies: Replies that can be used again.
        rejected: Unusable ones: refused, cut off or malformed.
        spent: US dollars paid for the replies, as far as prices are known; None if no price is.
        reused: How often a reply was taken from the store instead of a call.
        tokens: Tokens that this saved.
        saved: US dollars that this saved, as far as prices are known.
        unpriced: How many of the reused replies have no known price.
    """

    model: str
    replies: int = 0
    rejected: int = 0
    spent: float | None = 0.0
    reused: int = 0
    tokens: float = 0.0
    saved: float = 0.0
    unpriced: int = 0


class Contents(Frozen):
    """What a store holds.

    Args:
        size: Bytes on disk.
        holdings: One entry per model.
    """

    size: int = 0
    holdings: tuple[Holding, ...] = Field(default=())


_PER_MODEL = {
    ("replies", "spent"): "SELECT model, count(*), sum(cost) FROM replies WHERE NOT unusable GROUP BY model",
    ("rejected",): "SELECT model, count(*) FROM replies WHERE unusable GROUP BY model",
    ("reused", "tokens", "saved", "unpriced"): "SELECT model, replies, tokens, cost, unpriced FROM saved",
}


def contents(path: Path) -> Contents:
    """Count what a store holds.

    Raises:
        ForeignFile: If the file is not ours.
        InputError: If it cannot be read.
    """
    if not path.exists():
        return Contents()
    found: dict[str, dict[str, float | None]] = {}
    with _connected(path) as connection:
        for names, query in _PER_MODEL.items():
            for model, *values in connection.execute(query):
                found.setdefault(model, {}).update(zip(names, values, strict=True))
    holdings = tuple(Holding.model_validate({"model": model, **found[model]}) for model in sorted(found))
    size = sum(file.stat().st_size for ending in ("", "-wal") if (file := Path(f"{path.resolve()}{ending}")).exists())
    return Contents(size=size, holdings=holdings)


def prune(path: Path, older_than: float) -> int:
    """Remove replies made more than ``older_than`` seconds ago; returns how many.

    Raises:
        ForeignFile: If the file is not ours.
        InputError: If it cannot be written.
    """
    return _remove(path, ("DELETE FROM replies WHERE created < ?", (time.time() - older_than,)))


def clear(path: Path) -> int:
    """Remove all replies, and what is known of money saved; returns how many replies there were.

    Raises:
        ForeignFile: If the file is not ours.
        InputError: If it cannot be written.
    """
    return _remove(path, ("DELETE FROM replies", ()), ("DELETE FROM saved", ()))


def _remove(path: Path, *statements: tuple[str, tuple[float, ...]]) -> int:
    """Execute statements; returns how many rows the first of them removed."""
    if not path.exists():
        return 0
    with _connected(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        counts = [connection.execute(statement, values).rowcount for statement, values in statements]
        connection.execute("COMMIT")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return counts[0]


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        connection = own_file.connect(path, REPLIES)
        try:
            yield connection
        finally:
            connection.close()
    except (OSError, sqlite3.Error) as error:
        raise InputError(f"the store {path} cannot be used ({type(error).__name__}: {error})") from error
