"""Reads rows from whatever holds them: a data frame, an Arrow table, traces, any iterable."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from ragmetrics_core.data import Sample, SettingError, repeated
from ragmetrics_core.data.arrow import rows_of


def table_rows(samples: Any) -> Iterator[Any]:
    """Iterate over the rows of whatever holds them, lazily.

    ``SettingError`` if it is one row, or nothing that holds rows.
    """
    if hasattr(samples, "samples_and_bad_rows"):  # recorded traces
        return iter(samples.samples_and_bad_rows())
    if hasattr(samples, "itertuples") and hasattr(samples, "columns"):  # pandas
        return _of_pandas(_with_named_index(samples))
    if hasattr(samples, "iter_rows") and hasattr(samples, "columns"):  # Polars
        return iter(samples.iter_rows(named=True))
    # an Arrow table or record batch
    if hasattr(samples, "to_pylist") and hasattr(samples, "column_names"):
        _refuse_repeated(samples.column_names, "Arrow table")
        return rows_of(samples)
    if hasattr(samples, "to_pylist"):  # an Arrow array of structs
        return iter(samples.to_pylist())
    is_single = isinstance(samples, (Sample, Mapping, str, bytes))
    if isinstance(samples, Iterable) and not is_single:
        return iter(samples)
    raise SettingError(
        "samples must be several: a list of Sample or rows, got one"
        f" {type(samples).__name__}{_hint(samples)}"
    )


def _hint(samples: Any) -> str:
    """What to do about something that is no table."""
    if isinstance(samples, (str, PurePath)):
        return "; read the file first, or use the command: ragmetrics evaluate FILE"
    if isinstance(samples, Mapping) and "train" in samples:  # a Hugging Face dataset
        return "; choose one of its splits"
    return ""


def _of_pandas(frame: Any) -> Iterator[dict[str, Any]]:
    names = [str(name) for name in frame.columns]
    _refuse_repeated(names, "data frame")
    rows = frame.itertuples(index=False, name=None)
    return (dict(zip(names, values, strict=True)) for values in rows)


def _with_named_index(frame: Any) -> Any:
    """Return a data frame of pandas with the named levels of its index as columns.

    Phoenix names the ids of its spans in this way.
    """
    index_names = getattr(getattr(frame, "index", None), "names", ())
    levels = [
        name for name in index_names if name is not None and name not in frame.columns
    ]
    return frame.reset_index(level=levels) if levels else frame


def _refuse_repeated(names: Iterable[str], what: str) -> None:
    doubled = repeated(names)
    if doubled:
        raise SettingError(
            f"several columns of the {what} are named {', '.join(doubled)}; rename all"
            " but one"
        )
