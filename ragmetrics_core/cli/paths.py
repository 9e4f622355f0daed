"""Checks of the files that a command reads and writes.

No output may be an input, another output, or a link to one.
"""

import argparse
import os
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path

from ragmetrics_core.cli.parsers import options_of_type
from ragmetrics_core.data import InputError, as_input_error, check_leads_nowhere_else
from ragmetrics_core.data.files import AtomicFile

# The options that name outputs.
_MADE = tuple(options_of_type("output"))
REVIEWS = ".reviews.jsonl"
# A word within the first bytes of a data set.
_SET_MARK = "ragmetrics_dataset"
# What a page holds within its first bytes, and how a summary begins.
_PAGE_MARK = '<meta name="generator" content="ragmetrics">'
_SUMMARY_MARK = "## ragmetrics"
_BYTES_WITH_MARK = 2000
# What each output is written as, and the suffixes that say so, the usual one first.
_FORM_OF_OUTPUT = {
    "out": ("JSON", ".jsonl", ".json"),
    "report": ("HTML", ".html", ".htm"),
    "summary": ("Markdown", ".md"),
}
_KNOWN_SUFFIXES = {suffix for form in _FORM_OF_OUTPUT.values() for suffix in form[1:]}
_KNOWN_SUFFIXES |= {".csv", ".tsv", ".parquet", ".xlsx", ".gz", ".zip"}
# The options that name data sets, whose reviews are kept in a file beside them.
_REVIEWED = ("set", "sets")


def check_paths(options: argparse.Namespace) -> None:
    """Refuse files that are read or written by mistake, before anything runs.

    Example: ``--data rows.jsonl --out rows.jsonl`` would overwrite the input. The folders
    of outputs are made, but for ``--dry-run``. A ``--summary`` that is the file of the
    CI job is taken out of the options: the text is added to that file anyway.

    Args:
        options: What was typed.

    Raises:
        InputError: If an input is named twice; an output is also an input, the store or
            another output, cannot be written, or would replace what a person made.
    """
    file_of_job = os.environ.get("GITHUB_STEP_SUMMARY")
    for path in _paths_of(options, "summary"):
        if file_of_job and not _keys(path).isdisjoint(_keys(Path(file_of_job))):
            options.summary = None
    use_by_key: dict[Hashable, str] = {}  # of each file, in words
    for name in options_of_type("input"):
        keys_of_option: set[Hashable] = set()
        for path in _paths_of(options, name):
            # Rows of a file that is named twice would count twice, and pass for more
            # evidence. A run may be compared with itself.
            if name != "runs" and not keys_of_option.isdisjoint(_keys(path)):
                raise InputError(f"{path} is a file that is named twice")
            keys_of_option |= _keys(path)
            files = [path, *(path.rglob("*") if path.is_dir() else ())]
            if name in _REVIEWED:
                files.append(path.with_suffix(REVIEWS))
            for file in files:
                use_by_key |= dict.fromkeys(_keys(file), f"the input {file}")
    if "store" in options and not getattr(options, "no_store", False):
        from ragmetrics_core.models.reply_store import default_path  # few need it

        store = options.store or default_path()
        use_by_key |= dict.fromkeys(_keys(store), f"the store {store}")
    for name in _MADE:
        for path in _paths_of(options, name):
            for key in _keys(path):
                if key in use_by_key:
                    raise InputError(
                        f"{_option(name)} {path} would overwrite {use_by_key[key]};"
                        " name another file"
                    )
            use_by_key |= dict.fromkeys(_keys(path), _option(name))
            if path.is_dir():
                raise InputError(f"{_option(name)} {path} is a folder; name a file")
            check_leads_nowhere_else(path, f"{_option(name)} {path}")
    _refuse_to_overwrite(options)
    if getattr(options, "dry_run", False):
        return
    for name in _MADE:
        for path in _paths_of(options, name):
            with as_input_error(f"{_option(name)} {path} cannot be written"):
                path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_file() or not path.exists():
                AtomicFile(path, _option(name)).leave(keeps_part=False)


def _option(name: str) -> str:
    """Return an option as people type it, by its name among the parsed options."""
    return f"--{name.replace('_', '-')}"


def _refuse_to_overwrite(options: argparse.Namespace) -> None:
    """Refuse an output that would replace what a person wrote or reviewed.

    Example: ``--out scores.csv`` and ``--report results.jsonl`` are refused, and so is
    ``--summary README.md`` if that file is no summary.

    Raises:
        InputError: If the name is that of a file of another form, or if a file stands
            there that may not be replaced.
    """
    for name, (form, *suffixes) in _FORM_OF_OUTPUT.items():
        for output in _paths_of(options, name):
            if output.suffix.casefold() in _KNOWN_SUFFIXES.difference(suffixes):
                raise InputError(
                    f"{_option(name)} {output} is written as {form}, which nobody reads"
                    f" from a {output.suffix} file; name it {suffixes[0]}"
                )
            if getattr(options, "dry_run", False):
                continue  # it writes nothing
            if not output.is_file() or output.stat().st_size == 0:
                continue
            reviews = output.with_suffix(REVIEWS)
            if name == "out" and options.replaces == _SET_MARK and reviews.is_file():
                raise InputError(
                    f"{output} exists, and people have reviewed it ({reviews}); name"
                    " another file"
                )
            with as_input_error(f"{output} cannot be read"), output.open("rb") as file:
                beginning = file.read(_BYTES_WITH_MARK)
            if name == "out":  # ``replaces`` stands in the command's own outputs
                is_own = f'"{options.replaces}"'.encode() in beginning
            elif name == "report":
                is_own = _PAGE_MARK.encode() in beginning
            else:
                is_own = beginning.startswith(_SUMMARY_MARK.encode())
            if not is_own:
                raise InputError(
                    f"{output} exists, and no earlier output of this command stands"
                    f" there; name another file with {_option(name)}"
                )


def _paths_of(options: argparse.Namespace, name: str) -> list[Path]:
    """Return the paths that an option names; [] if the command has no such option."""
    value = getattr(options, name, None)
    if isinstance(value, list):
        return [Path(path) for path in value]
    return [Path(value)] if value else []


def _keys(path: Path) -> set[Hashable]:
    """Return the keys that identify a file: two paths with a common key are one file.

    They are its real path, without links, and its number on its device if it exists.
    """
    keys: set[Hashable] = {os.path.normcase(os.path.realpath(path))}
    with suppress(OSError):
        status = path.stat()
        keys.add((status.st_dev, status.st_ino))
    return keys
