"""Each run has a folder, ``.ragmetrics/runs/N``, for what no other path is given.

Only the owner can read them, git does not see them, and the last twenty are kept.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ragmetrics_core.reporting.report import Report

FOLDER = Path(".ragmetrics", "runs")
"""Below the working folder."""

RESULTS, PAGE = "results.jsonl", "page.html"
_KEPT = 20


def new_run_folder() -> Path | None:
    """Make the folder of this run.

    Folders of runs before the last twenty are removed.

    Returns:
        The folder; None where none can be written, which is said once on standard
        error.
    """
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
            shutil.rmtree(FOLDER / str(number), ignore_errors=True)
    except OSError as error:
        print(
            f"ragmetrics: nothing is kept in {FOLDER}: {error.strerror or error}"
            " (--no-files)",
            file=sys.stderr,
        )
        return None
    return folder


def keep_results(folder: Path, results: Path) -> None:
    """Keep the results of a run that ended, also where a path was given (``--out``).

    A later run may write to the same path.
    """
    if results.is_file():  # and no pipe
        with suppress(OSError):  # what cannot be kept is not compared later
            shutil.copyfile(results, folder / RESULTS)


def tidy(folder: Path | None) -> None:
    """Let nobody but the owner read what a run left; remove the folder if it is empty."""
    if folder is None:
        return
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
        InputError: If it holds no results, or cannot be read.
        MissingDependency: If it is Parquet, and the extra ``parquet`` is missing.
    """
    if path.is_dir() or path.suffix.casefold() == ".parquet":
        return Report.from_parquet(path)
    return Report.from_jsonl(path)


def page_of_run(results: Path) -> Path | None:
    """The page of the run that kept these results; None for a file of another folder."""
    return results.with_name(PAGE) if results.parent.parent == FOLDER else None


def last_two_results() -> list[Path]:
    """The results of the last two runs that have any, the earlier first."""
    if not FOLDER.is_dir():
        return []
    paths = [FOLDER / str(number) / RESULTS for number in sorted(_numbers())]
    return [path for path in paths if path.is_file()][-2:]
