"""Results that were kept: files of runs, files of sinks, and Parquet folders."""

from pathlib import Path

from ragmetrics_core.data import InputError
from ragmetrics_core.reporting.report import Report

_PARQUET_ENDINGS = (".parquet", "")  # some engines write parts without an ending


def results_at(path: Path) -> Report:
    """Read the report that a file or folder holds.

    A folder, or a ``.parquet`` file, is read as what a ``Scorer`` wrote; any other file
    as JSON lines, with or without a header.

    Raises:
        InputError: If it holds no results, or cannot be read.
        MissingDependency: If it is Parquet, and the extra ``parquet`` is missing.
    """
    check_folder(path)
    if path.is_dir() or path.suffix.casefold() == ".parquet":
        return Report.from_parquet(path)
    return Report.from_jsonl(path)


def check_folder(path: Path) -> None:
    """Refuse a folder that no ``Scorer`` can have written.

    Raises:
        InputError: If the path is a folder without a file that may be Parquet.
    """
    if not path.is_dir():
        return
    names = (file for file in path.rglob("*") if not file.name.startswith("."))
    if not any(f.suffix.casefold() in _PARQUET_ENDINGS and f.is_file() for f in names):
        raise InputError(
            f"{path} is a folder without Parquet files; name a file of results, or the"
            " folder that a Scorer wrote"
        )
