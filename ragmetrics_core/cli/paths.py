"""What a command reads and writes: no output may be an input, another output, or a link to one."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Hashable, Iterator
from pathlib import Path

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.files import PARTIAL
from ragmetrics_core.endpoints.store import default_path

# Every option and argument that names a path, by its place among the parsed options; a test holds it complete.
READ = ("files", "file", "corpus", "pairs", "results", "against", "labels", "first", "second", "set", "sets")
WRITTEN = {"out": ("", PARTIAL), "report": ("", PARTIAL), "store": ("", "-wal", "-shm")}  # with the files beside them
_REVIEWED = ("set", "sets")  # whose reviews are kept beside them


def check_paths(options: argparse.Namespace) -> None:
    """Refuse outputs that would destroy something, or that cannot be written, before anything runs.

    Args:
        options: The options of any command.

    Raises:
        InputError: If an output is an input, another output or a link to one, stands in a folder that is read, is
            where the command prints, or has no folder.
    """
    outputs = list(_outputs(options))
    taken = {key: f"the input {path}" for path in _inputs(options) for key in _keys(path)} if outputs else {}
    for key in _printed():
        taken.setdefault(key, "where this command prints")
    for key in _keys(Path(os.devnull)):
        taken[key] = ""
    for name, path in outputs:
        own = {key: end for end in WRITTEN[name] for key in _keys(Path(f"{path}{end}"))}
        for key, end in own.items():
            if met := taken.get(key):
                first = f" (written first to {path}{end})" if end else ""
                raise InputError(f"--{name} {path}{first} would overwrite {met}; name another file")
        taken.update({key: f"--{name}" for key in own if key not in taken})
        if name != "store":
            _check_place(f"--{name} {path}", path, options)


def _inputs(options: argparse.Namespace) -> Iterator[Path]:
    """Every file that is read, those in folders and beside others included."""
    for name in (name for name in READ if name in options):
        given = getattr(options, name)
        for path in map(Path, given if isinstance(given, list) else [given] if given else []):
            yield path
            if path.is_dir():
                yield from path.rglob("*")
            if name in _REVIEWED:
                yield path.with_suffix(".reviews.jsonl")


def _outputs(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Every file that is written, by the name of its option; the usual store included."""
    for name in (name for name in WRITTEN if name in options):
        given = getattr(options, name)
        if given is not None:
            yield name, Path(given).expanduser() if name == "store" else Path(given)
        elif name == "store" and not getattr(options, "no_store", False):
            yield name, default_path()


def _keys(path: Path) -> set[Hashable]:
    """What tells a file from all others: where its path leads, and if it is there, its number on its device."""
    keys: set[Hashable] = {os.path.normcase(os.path.realpath(path))}
    try:
        found = path.stat()
    except OSError:
        return keys
    return {*keys, (found.st_dev, found.st_ino)}


def _printed() -> set[Hashable]:
    """Files and pipes that standard output and standard error go to; a terminal takes everything."""
    found: set[Hashable] = set()
    for number in (1, 2):
        try:
            told = os.fstat(number)
        except OSError:
            continue
        if not stat.S_ISCHR(told.st_mode):
            found.add((told.st_dev, told.st_ino))
    return found


def _check_place(shown: str, path: Path, options: argparse.Namespace) -> None:
    if str(path) == "-":
        raise InputError(f"{shown}: standard output is for the table; name a file")
    if path.is_dir():
        raise InputError(f"{shown} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(f"{shown} cannot be written: there is no folder {path.parent}")
    for folder in map(Path, getattr(options, "corpus", ())):
        if folder.is_dir() and folder.resolve() in path.resolve().parents:
            raise InputError(f"{shown} stands in the corpus, which would hold it the next time")
