"""Reads samples from lists, data frames and Hugging Face datasets."""

import logging
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ragmetrics_core.data import (
    AmbiguousColumns,
    NoSuchColumn,
    RowError,
    Sample,
    SettingError,
)
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.engine.columns_read import ColumnsRead
from ragmetrics_core.engine.reasoning import leave_out_reasoning
from ragmetrics_core.engine.table_rows import table_rows
from ragmetrics_core.statistics.means import n_repeats

_SAME_ID = (
    "the id of an earlier one; labels and comparisons need an id of its own for each,"
    " or none at all"
)
_SAME_CONTENT = "the question, contexts and answer of an earlier one"

logger = logging.getLogger("ragmetrics_core")

Samples = Iterable[Sample | Mapping[str, Any]] | Any
"""What holds samples.

That is samples, mappings, a pandas-like data frame, or a dataset that iterates over
mappings.
"""


def iterate_samples(
    samples: Samples, columns: Mapping[str, Any]
) -> Iterator[Sample | RowError]:
    """Iterate over samples, lazily; a row that is no sample comes as its error.

    At the end it logs what is odd about the columns.

    Args:
        samples: Samples, mappings, a report, a data frame (pandas, Polars), an Arrow
            table, or any iterable of rows.
        columns: Per field of the sample where rows have it. Fields that are not named
            are found by the usual names of columns.

    Raises:
        SettingError: If ``samples`` is one sample, one mapping, a text, or cannot be
            iterated, columns share a name, no row has a column that was named, or two
            columns of the first row may hold one field.
    """
    columns_read = ColumnsRead(columns)
    rows = table_rows(samples)
    yield from refuse_wrong_columns(map(columns_read.read_sample, rows))
    for sentence in columns_read.sentences:
        logger.warning("%s", sentence)


def refuse_wrong_columns(
    rows: Iterable[Sample | RowError],
) -> Iterator[Sample | RowError]:
    """Yield the samples of a table, and refuse a table whose columns are wrong.

    A column that the user named may be missing, or two columns may hold one field. If
    only some rows have such a fault, they stay bad rows: what was paid for the other
    rows is not lost. Example: the named column "out" is missing in 2 of 9 rows: 7
    samples and 2 errors are yielded. It is missing in all 9: an error is raised.

    Raises:
        SettingError: At the end, if the named column is missing in every row. Before
            the first sample, if two columns may hold one field.
    """
    first_error: NoSuchColumn | None = None
    is_missing_everywhere = True
    has_yielded_sample = False
    for row in rows:
        if isinstance(row, AmbiguousColumns) and not has_yielded_sample:
            raise SettingError(str(row))
        if isinstance(row, Sample):
            has_yielded_sample = True
        if not isinstance(row, NoSuchColumn):
            is_missing_everywhere = False
        elif first_error is None:
            first_error = row
        yield row
    if first_error is not None and is_missing_everywhere:
        raise SettingError(f"{first_error}; no other row has it either")


def warn_of_oddities(
    rows: Iterable[Sample | RowError],
) -> Iterator[Sample | RowError]:
    """Yield samples, and log once at the end what was odd about them.

    That is that there are none, a model's reasoning in them, and doubles. A sample is a
    double if an earlier one has the same id; without an id, if an earlier one has the
    same question, contexts and answer. Example: of 10 samples two have the id "a", and
    the others have none and differ: all 10 are yielded, and one double is logged.
    """
    # Hashes take eight bytes each: memory stays small over a million samples.
    hashes_of_ids = array("q")
    hashes_of_contents = array("q")
    n_with_reasoning = n_rows = 0
    for row in rows:
        n_rows += 1
        if isinstance(row, Sample):
            n_with_reasoning += leave_out_reasoning(row) is not row
            contexts = tuple(context.text for context in row.known_contexts)
            content = (row.question, contexts, row.answer)
            if row.id is not None:
                hashes_of_ids.append(hash(row.id))
            elif any(content):  # samples without any text are not called doubles
                hashes_of_contents.append(hash(content))
        yield row
    if not n_rows:
        logger.warning("There is no row: nothing is evaluated.")
    if n_with_reasoning:
        logger.warning(
            "%s held a model's reasoning (<think>…</think>), which was left out; let"
            " the server parse it",
            count_in_words(n_with_reasoning, "sample"),
        )
    _log_doubles(n_repeats(hashes_of_ids), _SAME_ID)
    _log_doubles(n_repeats(hashes_of_contents), _SAME_CONTENT)


def _log_doubles(n_doubles: int, shared: str) -> None:
    """Log how many samples have something that an earlier one has; nothing for none."""
    if n_doubles == 1:
        logger.warning("1 sample has %s", shared)
    elif n_doubles > 1:
        logger.warning("%s samples have %s", n_doubles, shared)
