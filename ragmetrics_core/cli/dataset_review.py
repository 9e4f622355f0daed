"""``ragmetrics dataset review``: decide about the labels of a set, in the terminal."""

from __future__ import annotations

import argparse
import getpass
from pathlib import Path
from typing import Any

from ragmetrics_core.cli.output import show
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.datasets.reviews import Reviews
from ragmetrics_core.datasets.set_files import read_set
from ragmetrics_core.datasets.walking import items_to_walk, review_summary, walk


def add_to(kinds: Any) -> None:
    """Add the command to the parser."""
    parser = kinds.add_parser(
        "review", help="decide about a set's labels: positive, negative, ambiguous", allow_abbrev=False
    )
    parser.add_argument("set", type=Path, metavar="SET", help="a set; decisions are kept beside it, SET.reviews.jsonl")
    parser.add_argument("--reviewer", metavar="NAME", help="who decides; by default your login")
    parser.add_argument(
        *("--second-reviewer",), action="store_true", help="decide independently on a part, for the agreement (kappa)"
    )
    parser.add_argument("--share", type=float, default=0.5, help="that part of what was decided (default 0.5)")
    parser.add_argument("--summary", action="store_true", help="only say what was decided so far")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Walk through what is not decided yet; the same command goes on where it was stopped."""
    given = read_set(options.set)
    reviews = Reviews(options.set, given)
    done = True
    if not options.summary:
        reviewer = options.reviewer or _login()
        if options.second_reviewer and any(review.reviewer == reviewer for review in reviews.first.values()):
            raise SettingError(f"{reviewer!r} is the first reviewer; the second one needs another --reviewer")
        items = items_to_walk(given, reviews, second=options.second_reviewer, share=options.share)
        try:
            done = walk(items, reviews, reviewer=reviewer, second=options.second_reviewer, ask=input, show=show)
        except KeyboardInterrupt:
            show("")
            done = False
    show("\n".join(review_summary(given, reviews)))
    if not done:
        show("Not all is decided; the same command goes on here.")
    return 0


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise SettingError("your login is unknown; name yourself with --reviewer") from None
