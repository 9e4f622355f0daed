"""Results that were kept: files of runs, files of sinks, and Parquet folders."""

from pathlib import Path

from ragmetrics_core.reporting.report import Report


def results_at(path: Path) -> Report:
    """The report that a file or folder holds.

    A folder, or a ``.parquet`` file, is read as what a ``Scorer`` wrote; any other file
    as JSON lines, with or without a header.

    Raises:
        InputError: If it holds no results, or cannot be read.
        MissingDependency: If it is Parquet, and the extra ``parquet`` is missing.
    """
    if path.is_dir() or path.suffix.casefold() == ".parquet":
        return Report.from_parquet(path)
    return Report.from_jsonl(path)
