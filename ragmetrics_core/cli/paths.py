"""Checks of the files that a command reads and writes.

No output may be an input, another output, or a link to one.
"""

import argparse
import os
from collections.abc import Hashable, Mapping
from contextlib import suppress
from pathlib import Path

from ragmetrics_core.data import PARTIAL, InputError, check_stays, told
from ragmetrics_core.models.reply_store import default_path

# Every option and argument that names a path, by its place among the parsed options; a
# test holds it complete.
_NAMED = (
    "files file corpus data pairs results against template labels first second set sets"
)
READ = tuple(_NAMED.split())
_OURS = ("store", "rate_file")  # opened where they are, if they are ours
# What is written, with the files beside it.
_MADE = dict.fromkeys(("out", "report", "html", "summary"), ("", PARTIAL))
WRITTEN = _MADE | dict.fromkeys(_OURS, ("", "-wal", "-shm"))
REVIEWS = ".reviews.jsonl"
# How results and sets begin, and the bytes in which they do.
RESULTS_MARK, SET_MARK, _START = "ragmetrics_report", "ragmetrics_dataset", 100
_TABLES = (".csv", ".tsv", ".parquet")
_REVIEWED = ("set", "sets")  # whose reviews are kept beside them


def check_paths(options: argparse.Namespace) -> None:
    """Refuse inputs that are named twice, and outputs that do harm.

    Such an output destroys something or cannot be written. The check comes before
    anything runs.
    """
    taken: dict[Hashable, str] = {}
    for name in READ:
        # the copies of a file would pass for more evidence
        seen: dict[Hashable, Path] = {}
        for path in _given(options, name):
            if first := next((seen[key] for key in _keys(path) if key in seen), None):
                raise InputError(
                    f"{path} is named twice"
                    if path == first
                    else f"{path} and {first} are one file"
                )
            seen |= dict.fromkeys(_keys(path), path)
            beside = [path.with_suffix(REVIEWS)] if name in _REVIEWED else []
            for file in (path, *(path.rglob("*") if path.is_dir() else ()), *beside):
                taken |= dict.fromkeys(_keys(file), f"the input {file}")
    for name, ends in WRITTEN.items():
        unnamed = (
            name == "store"
            and name in options
            and not getattr(options, "no_store", False)
        )
        for path in _given(options, name) or ([default_path()] if unnamed else []):
            shown, real = (
                f"--{name.replace('_', '-')}",
                os.path.realpath(path.expanduser() if name in _OURS else path),
            )
            own = {key: end for end in ends for key in _keys(Path(real + end))}
            for key, end in own.items():
                if met := taken.get(key):
                    first_written = f" (written first to {path}{end})" if end else ""
                    raise InputError(
                        f"{shown} {path}{first_written} would overwrite {met}; name"
                        " another file"
                    )
            taken |= dict.fromkeys(own, shown)
            if name not in _OURS:
                _check_place(f"{shown} {path}", path, options)

    _check_added_to(options, taken)
    _check_replaced(options)


def _check_replaced(options: argparse.Namespace) -> None:
    """Refuse an output in whose place stands what a person wrote or reviewed.

    ``replaces`` says what the command may replace: files whose first line holds this
    mark, or None for none at all.
    """
    path: Path | None = getattr(options, "out", None)
    if path is not None and path.suffix.casefold() in _TABLES:
        raise InputError(
            f"--out {path} is written as JSON, which nobody reads from a {path.suffix}"
            " file; name it .jsonl"
        )
    writes_it = "replaces" in options and not getattr(options, "dry_run", False)
    if path is None or not writes_it or not path.is_file() or not path.stat().st_size:
        return
    if options.replaces is None:
        raise InputError(
            f"{path} exists, and may hold what a person edited; name another file"
        )
    reviews = path.with_suffix(REVIEWS)
    if options.replaces == SET_MARK and reviews.is_file():
        raise InputError(
            f"{path} exists, and people have reviewed it ({reviews}); name another file"
        )
    with told(f"{path} cannot be read"), path.open("rb") as file:
        start = file.read(_START)
    if f'"{options.replaces}"'.encode() not in start:
        raise InputError(
            f"{path} exists, and no earlier output of this command stands there; name"
            " another file"
        )


def _check_added_to(options: argparse.Namespace, taken: Mapping[Hashable, str]) -> None:
    """Refuse a job's summary where it is an input or another output.

    The environment names that summary.
    """
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if "summary" not in options or options.summary or not place:
        return
    for key in _keys(Path(place)):
        if met := taken.get(key):
            raise InputError(
                f"GITHUB_STEP_SUMMARY names {met}, which would be added to; name"
                " another file with --summary"
            )


def _given(options: argparse.Namespace, name: str) -> list[Path]:
    """The paths that an option names; none if it is not given."""
    given = getattr(options, name, None)
    return list(
        map(Path, given if isinstance(given, list) else [given] if given else [])
    )


def _keys(path: Path) -> set[Hashable]:
    """Return what tells a file from all others.

    That is where its path leads and, if it is there, its number on its device.
    """
    keys: set[Hashable] = {os.path.normcase(os.path.realpath(path))}
    with suppress(OSError):
        found = path.stat()
        keys.add((found.st_dev, found.st_ino))
    return keys


def _check_place(shown: str, path: Path, options: argparse.Namespace) -> None:
    """Refuse what no file can be written to."""
    if str(path) == "-":
        raise InputError(f"{shown}: standard output is for the table; name a file")
    if path.is_dir():
        raise InputError(f"{shown} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(f"{shown} cannot be written: there is no folder {path.parent}")
    check_stays(path, shown)
    # what is no file cannot be put aside
    partial = Path(os.path.realpath(path) + PARTIAL)
    if partial.is_symlink():
        raise InputError(
            f"{shown} is written first to {partial}, which is a link; remove it, or"
            " name another file"
        )
    if os.path.lexists(partial) and not partial.is_file():
        raise InputError(
            f"{shown} is written first to {partial}, which is no file; name another one"
        )
    for name in ("corpus", "data"):
        if any(
            folder.is_dir() and folder.resolve() in path.resolve().parents
            for folder in _given(options, name)
        ):
            raise InputError(
                f"{shown} stands in the {name}, which would hold it the next time"
            )
