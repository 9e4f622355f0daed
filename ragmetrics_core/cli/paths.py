"""What a command reads and writes: no output may be an input, another output, or a link to one."""

import argparse
import os
import stat
from collections.abc import Hashable, Iterator
from contextlib import suppress
from pathlib import Path

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.files import PARTIAL
from ragmetrics_core.endpoints.store import default_path

# Every option and argument that names a path, by its place among the parsed options; a test holds it complete.
READ = ("files", "file", "corpus", "pairs", "results", "against", "labels", "first", "second", "set", "sets")
WRITTEN = {  # with the files beside them
    "out": ("", PARTIAL),
    "report": ("", PARTIAL),
    "store": ("", "-wal", "-shm"),
    "rate_file": ("", "-wal", "-shm"),
}
_OURS = ("store", "rate_file")  # opened where they are, if they are ours
_HEADER = b'{"ragmetrics_'  # how results, sets and facts begin
_REVIEWED = ("set", "sets")  # whose reviews are kept beside them


def check_paths(options: argparse.Namespace) -> None:
    """Refuse inputs named twice, and outputs that destroy something or cannot be written, before anything runs."""
    _check_doubles(options)
    outputs = list(_outputs(options))
    taken = {key: f"the input {path}" for path in _inputs(options) for key in _keys(path)} if outputs else {}
    taken = dict.fromkeys(_printed(), "where this command prints") | taken | dict.fromkeys(_keys(Path(os.devnull)), "")
    for name, path in outputs:
        shown, real = f"--{name.replace('_', '-')}", os.path.realpath(path)
        own = {key: end for end in WRITTEN[name] for key in _keys(Path(real + end))}
        for key, end in own.items():
            if met := taken.get(key):
                first = f" (written first to {path}{end})" if end else ""
                raise InputError(f"{shown} {path}{first} would overwrite {met}; name another file")
        taken = dict.fromkeys(own, shown) | taken
        if name not in _OURS:
            _check_place(f"{shown} {path}", path, options)


def _inputs(options: argparse.Namespace) -> Iterator[Path]:
    """Every file that is read, those in folders and beside others included."""
    for name in (name for name in READ if name in options):
        for path in _given(options, name):
            yield path
            if path.is_dir():
                yield from path.rglob("*")
            if name in _REVIEWED:
                yield path.with_suffix(".reviews.jsonl")


def _given(options: argparse.Namespace, name: str) -> list[Path]:
    """The paths that an option names; none if it is not given."""
    given = getattr(options, name, None)
    return list(map(Path, given if isinstance(given, list) else [given] if given else []))


def _check_doubles(options: argparse.Namespace) -> None:
    """Refuse a file that is named twice: its copies would pass for more evidence."""
    for name in READ:
        seen: dict[Hashable, Path] = {}
        for path in _given(options, name):
            if first := next((seen[key] for key in _keys(path) if key in seen), None):
                raise InputError(f"{path} is named twice" if path == first else f"{path} and {first} are one file")
            seen.update(dict.fromkeys(_keys(path), path))


def _outputs(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Every file that is written, by the name of its option; the usual store included."""
    for name in (name for name in WRITTEN if name in options):
        given = getattr(options, name)
        if given is not None:
            yield name, Path(given).expanduser() if name in _OURS else Path(given)
        elif name == "store" and not getattr(options, "no_store", False):
            yield name, default_path()


def _keys(path: Path) -> set[Hashable]:
    """What tells a file from all others: where its path leads, and if it is there, its number on its device."""
    keys: set[Hashable] = {os.path.normcase(os.path.realpath(path))}
    with suppress(OSError):
        found = path.stat()
        keys.add((found.st_dev, found.st_ino))
    return keys


def _printed() -> Iterator[Hashable]:
    """Files and pipes that standard output and standard error go to; a terminal takes everything."""
    for number in (1, 2):
        with suppress(OSError):
            told = os.fstat(number)
            if not stat.S_ISCHR(told.st_mode):
                yield told.st_dev, told.st_ino


def _check_place(shown: str, path: Path, options: argparse.Namespace) -> None:
    """Refuse what no file can be written to, and where something of others stands at its first place."""
    if str(path) == "-":
        raise InputError(f"{shown}: standard output is for the table; name a file")
    if path.is_dir():
        raise InputError(f"{shown} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(f"{shown} cannot be written: there is no folder {path.parent}")
    for folder in map(Path, getattr(options, "corpus", ())):
        if folder.is_dir() and folder.resolve() in path.resolve().parents:
            raise InputError(f"{shown} stands in the corpus, which would hold it the next time")
    partial = Path(os.path.realpath(path) + PARTIAL)
    ours = not os.path.lexists(partial)
    if partial.is_file():
        with suppress(OSError), partial.open("rb") as file:
            ours = file.read(len(_HEADER)) in (b"", _HEADER)
    if not ours:
        raise InputError(f"{shown} is written first to {partial}, which holds something else; name another file")
