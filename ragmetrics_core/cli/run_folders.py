"""Each run has a folder, ``.ragmetrics/runs/N``, for what no other path is given.

Only the owner can read them, git does not see them, and the last twenty are kept, with
earlier ones that hold anything else.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from ragmetrics_core.data import PARTIAL, InputError, MissingDependency
from ragmetrics_core.engine.row_files import holds_results
from ragmetrics_core.reporting.report import Report

FOLDER = Path(".ragmetrics", "runs")
"""Below the working folder."""

RESULTS, PAGE = "results.jsonl", "page.html"
_KEPT = 20
_MOST_NAMED = 5


def folder_of_run(options: argparse.Namespace) -> Path | None:
    """Make the folder of this run, and name files in it where no path was given.

    Folders of runs before the last twenty are removed. ``options.unasked`` gets the
    names of the options that nobody typed.

    Returns:
        The folder; None with ``--no-files``, and where none can be written, which is
        said once on standard error.
    """
    folder = None if options.no_files else _new_run_folder()
    options.unasked = []
    for name, file in (("out", RESULTS), ("report", PAGE)):
        if folder is not None and getattr(options, name, None) is None:
            setattr(options, name, folder / file)
            options.unasked.append(name)
    return folder


@contextmanager
def unless_unasked(options: argparse.Namespace, name: str) -> Iterator[None]:
    """Let a run go on where what nobody asked for cannot be written; say so once.

    Its option is None from then on, and so is that of the page behind results. A part
    that was written is removed.

    Args:
        options: The options, with their ``unasked``.
        name: The option that names what is written inside: out or report.
    """
    try:
        yield
    except InputError as error:
        if name not in options.unasked:
            raise
        path = getattr(options, name)
        with suppress(OSError):
            path.with_name(f"{path.name}{PARTIAL}").unlink()
        for unasked in options.unasked[options.unasked.index(name) :]:
            setattr(options, unasked, None)
        hint = " (--no-files)" if "no_files" in options else ""
        print(f"ragmetrics: {error}; the run goes on without it{hint}", file=sys.stderr)


def _new_run_folder() -> Path | None:
    """Make a folder with the next number; None where that fails."""
    try:
        FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignored = FOLDER.parent / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
        # the next number; of two runs at once each has its own
        number = max(_numbers(), default=0) + 1
        while True:
            folder = FOLDER / str(number)
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                break
            number += 1
        for number in sorted(_numbers())[:-_KEPT]:
            old = FOLDER / str(number)
            with suppress(OSError):
                names = {path.name.partition(PARTIAL)[0] for path in old.iterdir()}
                if names <= {RESULTS, PAGE}:
                    shutil.rmtree(old)
    except OSError as error:
        print(
            f"ragmetrics: nothing is kept in {FOLDER}: {error.strerror or error}"
            " (--no-files)",
            file=sys.stderr,
        )
        return None
    return folder


def keep_results(folder: Path, results: Path | None) -> None:
    """Keep the results of a run that ended, also where a path was given (``--out``).

    A later run may write to the same path.
    """
    kept = folder / RESULTS
    if results is None or results == kept or not results.is_file():  # as a pipe
        return
    try:
        shutil.copyfile(results, kept)
    except OSError:  # what cannot be kept as a whole is not compared later
        with suppress(OSError):
            kept.unlink()


def tidy(folder: Path | None) -> None:
    """Let nobody but the owner read what a run left; remove the folder if it is empty."""
    if folder is None:
        return
    with suppress(OSError):  # the folder went away, or may be written no more
        left = list(folder.iterdir())
        for path in left:
            path.chmod(0o600)
        if not left:
            folder.rmdir()


def _numbers() -> Iterator[int]:
    """The numbers of the runs that are kept, in no order."""
    for folder in FOLDER.iterdir():
        if folder.name.isdecimal() and folder.is_dir() and not folder.is_symlink():
            yield int(folder.name)


def results_named(path: Path) -> Path:
    """The results of a run by its number, where no file has that name; else the path.

    Example: "2" becomes ``.ragmetrics/runs/2/results.jsonl``.
    """
    kept = FOLDER / path / RESULTS
    is_number = str(path).isdecimal() and not path.exists()
    return kept if is_number and kept.is_file() else path


def report_at(path: Path) -> Report:
    """Read the report that a file or folder holds.

    A folder, or a ``.parquet`` file, is read as what a ``Scorer`` wrote; any other file
    as JSON lines, with or without a header.

    Raises:
        InputError: If it holds no results, or cannot be read; of a folder with other
            results it names these.
        MissingDependency: If it is Parquet, and the extra ``parquet`` is missing.
    """
    if not path.is_dir() and path.suffix.casefold() != ".parquet":
        return Report.from_jsonl(path)
    try:
        return Report.from_parquet(path)
    except (InputError, MissingDependency):
        files = map(str, islice(_results_below(path), _MOST_NAMED))
        names = ", ".join(files)
        if not names:
            raise
    raise InputError(f"{path} is a folder; name the results in it, such as {names}")


def _results_below(folder: Path) -> Iterator[Path]:
    """The files of a folder, and of those in it, that are results in JSON lines."""
    for file in sorted(folder.rglob("*.jsonl")):
        with suppress(InputError):  # some other file
            if file.is_file() and holds_results(file):
                yield file


def last_two_results() -> list[Path]:
    """The results of the last two runs that have any, the earlier first.

    Those of a run that was interrupted are partial.
    """
    if not FOLDER.is_dir():
        return []
    folders = [FOLDER / str(number) for number in sorted(_numbers())]
    return [path for folder in folders for path in folder.glob(f"{RESULTS}*")][-2:]
