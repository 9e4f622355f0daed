"""Checks of the files that a command reads and writes.

No output may be an input, another output, or a link to one.
"""

import argparse
import os
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from ragmetrics_core.data import (
    PARTIAL,
    InputError,
    as_input_error,
    check_leads_nowhere_else,
)
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
    uses: dict[Hashable, str] = {}
    for name in READ:
        _check_named_once(_paths_of(options, name))
        uses |= _taken_by_input(options, name)
    for name, endings in WRITTEN.items():
        for path in _outputs_of(options, name):
            uses |= _taken_by_output(name, path, endings, uses)
            if name not in _OURS:
                _check_place(f"{_option(name)} {path}", path, options)
    _check_added_to(options, uses)
    _check_replaced(options)


def _option(name: str) -> str:
    """An option as people write it, by its name among the parsed ones."""
    return f"--{name.replace('_', '-')}"


def _check_named_once(paths: Iterable[Path]) -> None:
    """Refuse a file that is named twice: its copies would pass for more evidence."""
    earlier: dict[Hashable, Path] = {}
    for path in paths:
        keys = _keys(path)
        same_file = next((earlier[key] for key in keys if key in earlier), None)
        if same_file is not None:
            problem = (
                "is named twice"
                if path == same_file
                else f"and {same_file} are one file"
            )
            raise InputError(f"{path} {problem}")
        earlier |= dict.fromkeys(keys, path)


def _taken_by_input(options: argparse.Namespace, name: str) -> dict[Hashable, str]:
    """What no output may be because of an input: the file, those in it, its reviews."""
    uses: dict[Hashable, str] = {}
    for path in _paths_of(options, name):
        files = [path]
        if path.is_dir():
            files += path.rglob("*")
        if name in _REVIEWED:
            files.append(path.with_suffix(REVIEWS))
        for file in files:
            uses |= dict.fromkeys(_keys(file), f"the input {file}")
    return uses


def _outputs_of(options: argparse.Namespace, name: str) -> list[Path]:
    """The paths that an option writes to; the store has a place also where it has no name."""
    paths = _paths_of(options, name)
    has_default = name == "store" and name in options
    if not paths and has_default and not getattr(options, "no_store", False):
        return [default_path()]
    return paths


def _taken_by_output(
    name: str, path: Path, endings: Iterable[str], uses: Mapping[Hashable, str]
) -> dict[Hashable, str]:
    """What no other output may be because of this one: the file and those beside it.

    Raises:
        InputError: If one of them is an input or another output.
    """
    option = _option(name)
    real_path = os.path.realpath(path.expanduser() if name in _OURS else path)
    keys: dict[Hashable, str] = {}
    for ending in endings:
        for key in _keys(Path(real_path + ending)):
            keys[key] = option
            if key in uses:
                detour = f" (written first to {path}{ending})" if ending else ""
                raise InputError(
                    f"{option} {path}{detour} would overwrite {uses[key]}; name"
                    " another file"
                )
    return keys


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
    with as_input_error(f"{path} cannot be read"), path.open("rb") as file:
        start = file.read(_START)
    if f'"{options.replaces}"'.encode() not in start:
        raise InputError(
            f"{path} exists, and no earlier output of this command stands there; name"
            " another file"
        )


def _check_added_to(options: argparse.Namespace, uses: Mapping[Hashable, str]) -> None:
    """Refuse a job's summary where it is an input or another output.

    The environment names that summary.
    """
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if "summary" not in options or options.summary or not place:
        return
    for key in _keys(Path(place)):
        if met := uses.get(key):
            raise InputError(
                f"GITHUB_STEP_SUMMARY names {met}, which would be added to; name"
                " another file with --summary"
            )


def _paths_of(options: argparse.Namespace, name: str) -> list[Path]:
    """The paths that an option names; none if it is not there."""
    value = getattr(options, name, None)
    if isinstance(value, list):
        return [Path(path) for path in value]
    return [Path(value)] if value else []


def _keys(path: Path) -> set[Hashable]:
    """Return what tells a file from all others.

    That is where its path leads and, if it is there, its number on its device.
    """
    keys: set[Hashable] = {os.path.normcase(os.path.realpath(path))}
    with suppress(OSError):
        status = path.stat()
        keys.add((status.st_dev, status.st_ino))
    return keys


def _check_place(argument: str, path: Path, options: argparse.Namespace) -> None:
    """Refuse what no file can be written to."""
    if str(path) == "-":
        raise InputError(f"{argument}: standard output is for the table; name a file")
    if path.is_dir():
        raise InputError(f"{argument} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(
            f"{argument} cannot be written: there is no folder {path.parent}"
        )
    check_leads_nowhere_else(path, argument)
    # what is no file cannot be put aside
    partial = Path(os.path.realpath(path) + PARTIAL)
    if partial.is_symlink():
        raise InputError(
            f"{argument} is written first to {partial}, which is a link; remove it, or"
            " name another file"
        )
    if os.path.lexists(partial) and not partial.is_file():
        raise InputError(
            f"{argument} is written first to {partial}, which is no file; name another one"
        )
    for name in ("corpus", "data"):
        if any(
            folder.is_dir() and folder.resolve() in path.resolve().parents
            for folder in _paths_of(options, name)
        ):
            raise InputError(
                f"{argument} stands in the {name}, which would hold it the next time"
            )
