"""``ragmetrics store``: what the stored replies are worth, and making them fewer."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from ragmetrics_core.cli.output import show
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.endpoints import maintenance
from ragmetrics_core.endpoints.store import default_path

_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
_AGE = re.compile(r"(\d+)\s*([hdw])")


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "store", help="show, prune or clear the stored replies of models", allow_abbrev=False,
        description="Replies of models are kept so that nothing is paid twice.",
    )  # fmt: skip
    parser.add_argument(
        *("action",), nargs="?", choices=("show", "prune", "clear"), default="show",
        help="show entries, size and money saved (the default); prune old replies; clear all",
    )  # fmt: skip
    parser.add_argument("--store", type=Path, metavar="FILE", help="by default RAGMETRICS_STORE, else in the cache")
    parser.add_argument("--older-than", metavar="AGE", help="for prune: hours, days or weeks, e.g. 12h, 30d or 8w")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show, prune or clear the store."""
    if (options.action == "prune") != (options.older_than is not None):
        raise SettingError("prune needs --older-than, e.g. ragmetrics store prune --older-than 30d; nothing else does")
    path = options.store or default_path()
    if options.action == "show":
        show(_table(path, maintenance.contents(path)))
        return 0
    clear = options.action == "clear"
    removed = maintenance.clear(path) if clear else maintenance.prune(path, _age(options.older_than))
    show(f"{path}: {removed} replies removed")
    return 0


def _table(path: Path, contents: maintenance.Contents) -> str:
    if not path.exists():
        return f"{path}: no replies are stored yet"
    lines = [f"{path}: {contents.size / 1e6:.1f} MB"]
    for held in contents.holdings:
        spent = "price unknown" if held.spent is None else f"${held.spent:.4f}"
        saved = f" and ${held.saved:.4f}" if held.unpriced < held.reused or not held.reused else ""
        without = f" ({held.unpriced} of them without known price)" if held.unpriced else ""
        lines += [
            f"{held.model or 'unnamed model'}: {held.replies} replies ({spent}), {held.rejected} unusable ones",
            f"  reused {held.reused} times{without}: {held.tokens:.0f} tokens{saved} saved",
        ]
    return "\n".join(lines)


def _age(text: str) -> float:
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise SettingError(f"--older-than is a number of hours, days or weeks, e.g. 12h, 30d or 8w; got {text!r}")
    return float(match[1]) * _SECONDS[match[2]]
