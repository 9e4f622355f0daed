"""Options of commands that call models: where replies are kept, and what a run may spend."""

from __future__ import annotations

import argparse
import atexit
from pathlib import Path
from typing import Any

from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints.limits import Limits
from ragmetrics_core.endpoints.store import MemoryStore, ReplyStore, SqliteStore, default_path

_LIMITS: tuple[tuple[str, type, str, str], ...] = (
    ("max_calls", int, "N", "most calls to models; then the run ends with what is done"),
    ("max_cost", float, "USD", "most US dollars; then the run ends with what is done"),
    ("deadline", float, "SECONDS", "most seconds; then the run ends with what is done"),
    ("requests_per_minute", float, "N", "most calls to each model in any minute"),
    ("tokens_per_minute", float, "N", "most tokens to and from each model in any minute"),
)


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command's parser."""
    add_store(parser)
    caps = parser.add_argument_group("limits")
    for name, kind, unit, text in _LIMITS:
        caps.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=unit, help=text)


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the options of stored replies to a command's parser."""
    kept = parser.add_argument_group("stored replies", "nothing is paid twice: replies of models are kept in a file")
    where = kept.add_mutually_exclusive_group()
    where.add_argument(
        "--store", type=Path, metavar="FILE", help="by default RAGMETRICS_STORE, else in the user's cache folder"
    )
    where.add_argument("--no-store", action="store_true", help="keep no replies after the run")
    kept.add_argument(
        "--fresh", action="store_true",
        help="ask everything anew, and keep the new replies in place of the old ones; after an interruption go on "
        "without --fresh, which takes what was paid for, and for the rest the old replies that there are",
    )  # fmt: skip


def store(options: argparse.Namespace) -> ReplyStore:
    """By default the file in the user's cache folder; it is made at the first call of a model, if there is one.

    Raises:
        SettingError: If the file is not ours.
    """
    if options.no_store:
        return MemoryStore()
    found = SqliteStore(options.store or default_path(), fresh=options.fresh)
    atexit.register(found.flush)  # what came last is on disk, too, when the command ends
    return found


def limits(options: argparse.Namespace) -> Limits:
    """What the run may spend.

    Raises:
        SettingError: If a limit is not positive.
    """
    given: dict[str, Any] = {name: getattr(options, name) for name, *_ in _LIMITS}
    return Limits(**given)


def calls(usage: Usage) -> str:
    """The number of calls, and what made them fewer or more."""
    more = [f"{usage.stored} replies from the store"] if usage.stored else []
    more += [f"{usage.faults} faults survived"] if usage.faults else []
    return ", ".join([f"{usage.calls} calls", *more])
