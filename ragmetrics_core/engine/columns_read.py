"""Makes samples of the rows of one table, and says what is odd about its columns.

A row is read by itself, since rows of JSON need not have the same keys. Where exports
leave out empty keys, or two tables were put together, rows may then differ in which
column holds the answer. Whoever reads the scores has to know.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ragmetrics_core.data import RowError, Sample, SampleResult, samples_from_row
from ragmetrics_core.data.cells import is_filled
from ragmetrics_core.data.columns import USUAL_NAMES
from ragmetrics_core.data.nearest import names_in_words, plain_name

_FIELDS = ("question", "contexts", "answer", "reference")
# Each shipped metric needs two of the fields below.
_FIELDS_PER_METRIC = 2
# Beside each stands the field that may
# take its place; nothing takes the place of the answer.
_SUBSTITUTES = {"contexts": "retrieved", "answer": "answer", "reference": "facts"}
_MOST_NAMES = 12


class ColumnsRead:
    """Makes samples of the rows of one table, and notes which columns it read.

    Args:
        columns: Per field of the sample where rows have it; nothing is said of these
            fields. Fields that are not named are found by the usual names of columns.
    """

    def __init__(self, columns: Mapping[str, Any] | None = None) -> None:
        """Begin with no row read.

        Args:
            columns: Per field of the sample where the user says that rows have it;
                nothing is noted of these fields.
        """
        self._columns = columns or {}
        # Fields that are found by the usual names of columns.
        self._fields_not_named = [
            field for field in _FIELDS if field not in self._columns
        ]
        # By field and column: in how many rows the field was read from the column.
        self._n_rows_by_column: dict[str, Counter[str]] = defaultdict(Counter)
        # By field, column read and column passed over: in how many rows the column read
        # was empty, although the other one, which also has a usual name, was filled.
        self._n_rows_passed_over: Counter[tuple[str, str, str]] = Counter()
        # Columns that no field was made of, as a set in the order in which they came.
        self._unread_columns: dict[str, None] = {}
        # Fields that at least one sample has.
        self._fields_of_any_sample: set[str] = set()
        # Whether at least one sample has all fields that one of the metrics needs.
        self._a_metric_may_apply = False

    def read_samples(self, row: Any) -> Iterator[Sample | RowError]:
        """Give the samples of one row, or the error why it has none.

        A sample and an error are given as they are. A result of a report stands for its
        sample, which is judged again, or for the problem of its bad row.
        """
        if isinstance(row, SampleResult):
            row = row.sample or RowError(row.problem)
        if isinstance(row, (Sample, RowError)):
            yield row
            return
        try:
            samples = samples_from_row(row, self._columns)
        except RowError as error:
            yield error
            return
        self.note_columns(row, samples[0])
        yield from samples

    def note_columns(self, row: Mapping[str, Any], sample: Sample) -> None:
        """Note which columns one more row was read from.

        Args:
            row: The row.
            sample: The first sample made of it.
        """
        columns = frozenset(name for name in row if isinstance(name, str))
        # What no field was made of is kept as the sample's metadata.
        unread_columns = columns.intersection(sample.metadata)
        self._note_needed_fields(sample, unread_columns)
        for field in self._fields_not_named:
            column = _first_usual_column(field, columns - unread_columns)
            if column is None:
                continue
            if not sample.missing(field):
                self._n_rows_by_column[field][column] += 1
                continue
            # The column is empty here. Another one that nobody read may hold the field,
            # e.g. "response" beside an empty "answer".
            passed_over = _first_usual_column(field, unread_columns)
            if passed_over is not None and is_filled(row[passed_over], field):
                self._n_rows_passed_over[field, column, passed_over] += 1

    def _note_needed_fields(
        self, sample: Sample, unread_columns: Collection[str]
    ) -> None:
        """Note which needed fields a sample has, and which columns stay unread.

        Another field may take the place of a missing one, e.g. ``facts`` of
        ``reference``.

        Args:
            sample: A sample of the row.
            unread_columns: Columns of the row that no field was made of.
        """
        fields_held: set[str] = set()
        for field, substitute in _SUBSTITUTES.items():
            if not sample.missing(field) or not sample.missing(substitute):
                fields_held.add(field)
        self._fields_of_any_sample |= fields_held
        if len(fields_held) >= _FIELDS_PER_METRIC:
            self._a_metric_may_apply = True
        for column in sorted(unread_columns):
            # One more than are shown is kept: that more follow can then be said.
            if len(self._unread_columns) <= _MOST_NAMES:
                self._unread_columns[column] = None

    def _why_no_metric_applies(self) -> list[str]:
        """A list of one sentence if no shipped metric can apply, else an empty list.

        The sentence names the fields that no sample has, and how to say which column
        holds them. Where all columns were read, there is nothing to say.
        """
        if self._a_metric_may_apply or not self._unread_columns:
            return []
        # the keys of ``_SUBSTITUTES`` are the fields that metrics need
        absent_fields = [
            field for field in _SUBSTITUTES if field not in self._fields_of_any_sample
        ]
        columns = names_in_words(self._unread_columns, most=_MOST_NAMES)
        options = ", ".join(f"--{field}-column" for field in absent_fields)
        arguments = ", ".join(f"{field}_column=" for field in absent_fields)
        return [
            "none of the four metrics applies: no row has"
            f" {' or '.join(absent_fields)}; columns that were not recognised: {columns}; name the right ones with"
            f" {options} (in Python {arguments})"
        ]

    @property
    def sentences(self) -> list[str]:
        """What is odd about the columns, one sentence each.

        Three things may be odd. No metric applies; rows have one field in different
        columns; or a field was read from an empty column, although another column,
        whose name is also usual for the field, is filled.
        """
        sentences = self._why_no_metric_applies()
        for field, n_rows_by_column in self._n_rows_by_column.items():
            if len(n_rows_by_column) > 1:
                places = ", ".join(
                    f"{column!r} in {n_rows} rows"
                    for column, n_rows in n_rows_by_column.items()
                )
                sentences.append(
                    f"the {field} was read from different columns: {places};"
                    f" {_what_to_do(field)}"
                )
        for columns, n_rows in self._n_rows_passed_over.items():
            field, empty_column, filled_column = columns
            sentences.append(
                f"the {field} is missing in {n_rows} rows where {empty_column!r} is"
                f" empty and {filled_column!r} is not; {_what_to_do(field)}"
            )
        return sentences


@lru_cache(maxsize=1024)  # the rows of one file have the same columns
def _first_usual_column(field: str, columns: frozenset[str]) -> str | None:
    """The column that has the first of the usual names of a field; None if none has.

    Names are compared without case and separators: "Ground-Truth" is "ground_truth".
    """
    column_by_plain_name = {plain_name(column): column for column in sorted(columns)}
    for usual_name in USUAL_NAMES[field]:
        column = column_by_plain_name.get(plain_name(usual_name))
        if column is not None:
            return column
    return None


def _what_to_do(field: str) -> str:
    """What the user can do about a field that is in different columns."""
    return (
        f"put it into one column, or name it: --{field}-column (in Python"
        f" {field}_column=)"
    )
