"""``ragmetrics store``: what is stored, and making it less; batches that are on their way."""

import argparse
import sqlite3
import time
from contextlib import closing, suppress
from math import inf
from pathlib import Path

from ragmetrics_core.cli.printing import show
from ragmetrics_core.data import InputError, SettingError
from ragmetrics_core.engine.loop import wait_for
from ragmetrics_core.models.addresses import endpoint_of_arguments
from ragmetrics_core.models.compatible_model import OpenAICompatibleModel
from ragmetrics_core.models.reply_store import SqliteStore, connect, default_path
from ragmetrics_core.scale.batches import ParkingStore

_BATCH_ACTIONS = ("batches", "collect", "cancel")
_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
_REPLIES_BY_MODEL = """SELECT model, count(*), min(created), max(created) FROM replies
GROUP BY model ORDER BY model"""


def run(options: argparse.Namespace) -> int:
    """Show what is stored, or batches; remove old replies (``prune``) or all (``clear``).

    Example: ``ragmetrics store prune --older-than 30d`` prints "…: 120 replies
    removed".

    Returns:
        The exit code, 0.

    Raises:
        SettingError: If ``prune`` comes without an age, or an age without ``prune``, or
            the age is written in another form.
        InputError: If the store cannot be used.
    """
    if (options.action == "prune") != (options.older_than is not None):
        raise SettingError(
            "prune needs --older-than, e.g. ragmetrics store prune --older-than 30d;"
            " nothing else does"
        )
    if options.action in _BATCH_ACTIONS:
        return _batches(options)
    path = options.store or default_path()
    # replies from before this time are removed; from before infinity means all
    before = inf
    if options.older_than is not None:
        number = options.older_than[:-1]
        unit = options.older_than[-1:]
        if not number.isdecimal() or unit not in _SECONDS:
            raise SettingError(
                "--older-than is a number of hours, days or weeks, e.g. 12h, 30d or 8w;"
                f" got {options.older_than!r}"
            )
        before = time.time() - float(number) * _SECONDS[unit]
    if not path.exists():
        show(f"{path}: no replies are stored yet")
        return 0
    try:
        with closing(connect(path)) as connection:
            if options.action == "show":
                # with what is not yet merged into the file
                files = [path.resolve(), Path(f"{path.resolve()}-wal")]
                size = sum(file.stat().st_size for file in files if file.exists())
                lines = [f"{path}: {size / 1e6:.1f} MB"]
                for model, replies, *written in connection.execute(_REPLIES_BY_MODEL):
                    first, last = (
                        time.strftime("%Y-%m-%d", time.localtime(each))
                        for each in written
                    )
                    days = first if first == last else f"{first} to {last}"
                    name = model or "unnamed model"
                    lines.append(f"{name}: {replies} replies of {days}")
            else:
                lines = [f"{path}: {_remove(connection, before)} replies removed"]
    except (OSError, sqlite3.Error) as error:
        raise InputError(
            f"the store {path} cannot be used ({type(error).__name__}: {error})"
        ) from error
    show(*lines)
    return 0


def _batches(options: argparse.Namespace) -> int:
    """Say of each batch of a store whether it is done; collect or cancel them if asked.

    A batch is many requests that a provider answers together, within a day. Example: a
    line for each batch, or "…: no batch is on its way".

    Returns:
        The exit code, 0.

    Raises:
        InputError: If the store that was named does not exist.
    """
    path = options.store or default_path()
    if not path.exists():
        if options.store:
            raise InputError(f"there is no file {path}")
        show(f"{path}: no batch is on its way")
        return 0
    # OpenAI, and the address that is named here or in the environment; the file of
    # replies names none.
    endpoint = endpoint_of_arguments(options.api_base, options.api_key_env)
    if endpoint.address:
        services = [
            OpenAICompatibleModel.named("batches"),
            OpenAICompatibleModel.named(
                "batches", api_base=endpoint.address, api_key_env=endpoint.key_variable
            ),
        ]
    else:
        services = [
            OpenAICompatibleModel.named("batches", api_key_env=endpoint.key_variable)
        ]
    with closing(ParkingStore(SqliteStore(path), services)) as parking:
        look_at_batches = parking.look_at_batches(
            collect=options.action == "collect", cancel=options.action == "cancel"
        )
        state_by_batch = wait_for(look_at_batches)
        # Batches that were sent to another address than the one that the options name:
        # nothing is asked there, as its key is not known here.
        addresses_not_asked = list(parking.address_by_foreign_batch.values())
    lines = []
    for state in state_by_batch.values():
        counts = state["request_counts"].items()
        n_by_state = ", ".join(f"{count} {name}" for name, count in counts)
        name = state["id"] or "a batch"
        lines.append(f"{name}: {state['status']} {n_by_state}".rstrip())
    lines += [
        f"a batch: at {address}, which is not asked: name it with --api-base, and its"
        " key with --api-key-env"
        for address in addresses_not_asked
    ]
    show(*lines or [f"{path}: no batch is on its way"])
    return 0


def _remove(connection: sqlite3.Connection, before: float) -> int:
    """Remove the replies made before a time; returns how many there were."""
    connection.execute("BEGIN IMMEDIATE")
    n_removed = connection.execute(
        "DELETE FROM replies WHERE created < ?", (before,)
    ).rowcount
    with suppress(sqlite3.OperationalError):  # there were never batches
        connection.execute(
            "DELETE FROM parked WHERE result IS NOT NULL AND ?", (before == inf,)
        )
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return n_removed
