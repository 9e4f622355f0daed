"""Reads samples from whatever holds them.

That is Samples, rows, a data frame or a Hugging Face dataset.
"""

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from ragmetrics_core.data import (
    AmbiguousColumns,
    NoSuchColumn,
    RowError,
    Sample,
    SampleResult,
    SettingError,
    repeated,
    samples_from_row,
)
from ragmetrics_core.data.arrow import rows_of
from ragmetrics_core.data.columns_read import ColumnsRead

_ID = (
    "the id of an earlier one; labels and comparisons need an id of its own for each,"
    " or none at all, and intervals count copies as evidence"
)
_CONTENT = (
    "the question, contexts and answer of an earlier one; intervals count copies as"
    " evidence"
)

# doubles are counted part by part, so that counting takes little memory, too
_PARTS = 16

logger = logging.getLogger("ragmetrics_core")

Samples = Iterable[Sample | Mapping[str, Any]] | Any
"""What holds samples.

That is samples, mappings, a pandas-like data frame, or a dataset that iterates over
mappings.
"""


def each_sample(
    samples: Samples,
    columns: Mapping[str, Any],
    *,
    widened: Callable[[int], None] = lambda _: None,
) -> Iterator[Sample | RowError]:
    """Iterate over samples, lazily; a row that is no sample comes as its error.

    A row may hold several samples: ``widened`` is told how many more than one, before
    the first of them comes.

    They are samples, mappings, a report, a data frame (pandas, Polars), an Arrow table,
    any iterable; ``columns`` say per field of the sample where rows have it, which is
    found by itself if not given.

    Raises:
        SettingError: If ``samples`` is one sample, one mapping, a text, or cannot be
            iterated, columns share a name, no row has a column that was named, or two
            columns of the first row may hold one field.
    """
    yield from refuse_wrong_columns(_of_all_rows(samples, columns, widened))


def _of_all_rows(
    samples: Samples, columns: Mapping[str, Any], widened: Callable[[int], None]
) -> Iterator[Sample | RowError]:
    columns_read = ColumnsRead(columns)
    for row in _rows(samples):
        several = list(samples_of_row(row, columns, columns_read))
        widened(len(several) - 1)
        yield from several
    for sentence in columns_read.sentences:
        logger.warning("%s", sentence)


def samples_of_row(
    row: Any, columns: Mapping[str, Any], columns_read: ColumnsRead
) -> Iterator[Sample | RowError]:
    """The samples of one row, or the error why it has none.

    ``columns_read`` notes which columns they were made of.
    """
    if isinstance(row, SampleResult):  # of a report, which is judged again
        row = row.sample or RowError(row.problem)
    if isinstance(row, (Sample, RowError)):
        yield row
        return
    try:
        samples = samples_from_row(row, columns)
    except RowError as error:
        yield error
        return
    columns_read.look(row, samples[0])
    yield from samples


def refuse_wrong_columns(
    items: Iterable[Sample | RowError],
) -> Iterator[Sample | RowError]:
    """Hand samples on, and refuse a table whose columns are wrong.

    Raises:
        SettingError: At the end, if each row lacked a column that was named for a
            field. Before the first sample, if two columns may hold one field; further
            down such a row is a bad row, so that nothing paid for is lost.
    """
    first: NoSuchColumn | None = None
    all_lack_it = True
    samples_came = False
    for item in items:
        if isinstance(item, AmbiguousColumns) and not samples_came:
            raise SettingError(str(item))
        samples_came = samples_came or isinstance(item, Sample)
        if isinstance(item, NoSuchColumn):
            first = first or item
        else:
            all_lack_it = False
        yield item
    if first is not None and all_lack_it:
        raise SettingError(f"{first}; no other row has it either")


def warn_of_doubles(
    samples: Iterable[Sample | RowError],
) -> Iterator[Sample | RowError]:
    """Hand samples on, and say once at the end how many are doubles.

    A double has the id of an earlier sample. One without an id has the content of an
    earlier sample.
    """
    # eight bytes each: memory stays flat over a million samples
    hashes = {_ID: array("q"), _CONTENT: array("q")}
    for item in samples:
        if isinstance(item, Sample):
            content = (
                item.question,
                tuple(context.text for context in item.contexts),
                item.answer,
            )
            if item.id is not None:
                hashes[_ID].append(hash(item.id))
            elif any(content):
                hashes[_CONTENT].append(hash(content))
        yield item
    for what, seen in hashes.items():
        different = sum(
            len({one for one in seen if one % _PARTS == part}) for part in range(_PARTS)
        )
        if count := len(seen) - different:
            logger.warning(
                "%s %s", "1 sample has" if count == 1 else f"{count} samples have", what
            )


def _rows(samples: Any) -> Iterator[Any]:
    if hasattr(samples, "samples_and_bad_rows"):  # recorded traces
        return iter(samples.samples_and_bad_rows())
    if hasattr(samples, "itertuples") and hasattr(samples, "columns"):  # pandas
        samples = _with_named_index(samples)
        names = [str(name) for name in samples.columns]
        _refuse_repeated(names, "data frame")
        return (
            dict(zip(names, values, strict=True))
            for values in samples.itertuples(index=False, name=None)
        )
    if hasattr(samples, "iter_rows") and hasattr(samples, "columns"):  # Polars
        return iter(samples.iter_rows(named=True))
    # an Arrow table or record batch
    if hasattr(samples, "to_pylist") and hasattr(samples, "column_names"):
        _refuse_repeated(samples.column_names, "Arrow table")
        return rows_of(samples)
    if hasattr(samples, "to_pylist"):  # an Arrow array of structs
        return iter(samples.to_pylist())
    if isinstance(samples, Iterable) and not isinstance(
        samples, (Sample, Mapping, str, bytes)
    ):
        return iter(samples)
    hint = (
        "; choose one of its splits"
        if isinstance(samples, Mapping) and "train" in samples
        else ""
    )
    if isinstance(samples, (str, PurePath)):
        hint = "; read the file first, or use the command: ragmetrics evaluate FILE"
    raise SettingError(
        "samples must be several: a list of Sample or rows, got one"
        f" {type(samples).__name__}{hint}"
    )


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
    if doubled := repeated(names):
        raise SettingError(
            f"several columns of the {what} are named {', '.join(doubled)}; rename all"
            " but one"
        )
