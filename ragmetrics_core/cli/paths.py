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
_OPENED_IN_PLACE = ("store", "rate_file")  # databases, which are not written anew
# What is written, with the files beside it.
_MADE = dict.fromkeys(("out", "report", "html", "summary"), ("", PARTIAL))
WRITTEN = _MADE | dict.fromkeys(_OPENED_IN_PLACE, ("", "-wal", "-shm"))
REVIEWS = ".reviews.jsonl"
# How results and sets begin, and within how many bytes.
RESULTS_MARK = "ragmetrics_report"
SET_MARK = "ragmetrics_dataset"
_BYTES_WITH_MARK = 100
_TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
_REVIEWED = ("set", "sets")  # whose reviews are kept beside them


def check_paths(options: argparse.Namespace) -> None:
    """Refuse files that are read or written by mistake, before anything runs.

    That is an input that is named twice; an output that is an input or another output;
    one that cannot be written; and one that would replace what a person made.

    Raises:
        InputError: If there is such a file.
    """
    use_by_key: dict[Hashable, str] = {}  # what each file is used for, by its keys
    # READ and WRITTEN are the options of all commands that name inputs and outputs
    for name in READ:
        _check_named_once(_paths_of(options, name))
        use_by_key |= _taken_by_input(options, name)
    for name, endings in WRITTEN.items():
        for path in _outputs_of(options, name):
            use_by_key |= _taken_by_output(name, path, endings, use_by_key)
            if name not in _OPENED_IN_PLACE:
                _check_place(f"{_option(name)} {path}", path, options)
    _check_added_to(options, use_by_key)
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
            problem = "is named twice"
            if path != same_file:
                problem = f"and {same_file} are one file"
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
    name: str, path: Path, endings: Iterable[str], use_by_key: Mapping[Hashable, str]
) -> dict[Hashable, str]:
    """The files that an output takes: no further output may be one of them.

    They are the file itself and those beside it, such as the temporary file that is
    written first.

    Args:
        name: The option that names the output.
        path: The output.
        endings: The endings of the files; "" for the file itself.
        use_by_key: What inputs and earlier outputs take.

    Returns:
        The option, by each key of the files. A key tells a file from all others.

    Raises:
        InputError: If one of the files is an input or an earlier output.
    """
    option = _option(name)
    opened_path = path.expanduser() if name in _OPENED_IN_PLACE else path
    real_path = os.path.realpath(opened_path)
    option_by_key: dict[Hashable, str] = {}
    for ending in endings:
        # where the path leads, and the number of the file on its device
        for key in _keys(Path(real_path + ending)):
            option_by_key[key] = option
            if key in use_by_key:
                detour = f" (written first to {path}{ending})" if ending else ""
                raise InputError(
                    f"{option} {path}{detour} would overwrite {use_by_key[key]}; name"
                    " another file"
                )
    return option_by_key


def _check_replaced(options: argparse.Namespace) -> None:
    """Refuse an output (``--out``) that would replace what a person wrote or reviewed.

    A command says by ``replaces`` what it may replace: files that begin with this mark,
    as its own earlier outputs do, or None for no file at all. A command without
    ``replaces`` has no such output.

    Raises:
        InputError: If something else stands there, or the name is that of a table.
    """
    path: Path | None = getattr(options, "out", None)
    if path is None:
        return
    if path.suffix.casefold() in _TABLE_SUFFIXES:
        raise InputError(
            f"--out {path} is written as JSON, which nobody reads from a {path.suffix}"
            " file; name it .jsonl"
        )
    is_dry_run = getattr(options, "dry_run", False)  # which writes nothing
    may_replace = "replaces" in options and not is_dry_run
    if not may_replace or not path.is_file() or path.stat().st_size == 0:
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
        first_bytes = file.read(_BYTES_WITH_MARK)
    if f'"{options.replaces}"'.encode() not in first_bytes:
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
    """Refuse an output that cannot be written, or that the next run would read.

    Args:
        argument: The option with its path, as messages name it.
        path: The output.
        options: What was typed; its folders of inputs must not hold the output.

    Raises:
        InputError: If the path is "-", a folder, in no folder, a link or in an input;
            or if the temporary file that is written first cannot be.
    """
    if str(path) == "-":
        raise InputError(f"{argument}: standard output is for the table; name a file")
    if path.is_dir():
        raise InputError(f"{argument} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(
            f"{argument} cannot be written: there is no folder {path.parent}"
        )
    check_leads_nowhere_else(path, argument)
    _check_temporary_file(argument, path)
    for name in ("corpus", "data"):  # the options that may name folders
        for folder in _paths_of(options, name):
            if folder.is_dir() and folder.resolve() in path.resolve().parents:
                raise InputError(
                    f"{argument} stands in the {name}, which would hold it the next"
                    " time"
                )


def _check_temporary_file(argument: str, path: Path) -> None:
    """Refuse an output whose temporary file, which is written first, is none of ours."""
    temporary_path = Path(os.path.realpath(path) + PARTIAL)
    if temporary_path.is_symlink():
        raise InputError(
            f"{argument} is written first to {temporary_path}, which is a link; remove"
            " it, or name another file"
        )
    if os.path.lexists(temporary_path) and not temporary_path.is_file():
        raise InputError(
            f"{argument} is written first to {temporary_path}, which is no file; name"
            " another one"
        )
