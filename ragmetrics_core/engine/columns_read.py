"""Makes samples of the rows of one table, and says what is odd about its columns.

A row is read by itself, since rows of JSON need not have the same keys. Where exports
leave out empty keys, or two tables were put together, rows may then differ in which
column holds the answer. Whoever reads the scores has to know.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ragmetrics_core.data import RowError, Sample, SampleResult, sample_from_row
from ragmetrics_core.data.cells import is_filled
from ragmetrics_core.data.columns import USUAL_NAMES
from ragmetrics_core.data.nearest import names_in_words, plain_name

_FIELDS = ("question", "contexts", "answer", "reference")
# The fields that the shipped metrics need, each with the field that may take its place;
# nothing takes the place of the answer.
_SUBSTITUTE_BY_NEEDED_FIELD = {
    "contexts": "retrieved",
    "answer": "answer",
    "reference": "facts",
}
# Any two of these three fields are enough for one of the shipped metrics.
_FIELDS_PER_METRIC = 2
# Most columns that a sentence names.
_MOST_NAMES = 12


class _EmptyAndFilled(NamedTuple):
    """A field was read from an empty column, while another column may hold it."""

    field: str
    empty_column_read: str
    filled_column_unread: str


class ColumnsRead:
    """Makes samples of the rows of one table, and notes which columns it read.

    A field is read from the column that the user names for it, else from a column with
    a usual name for the field: the answer e.g. from "answer" or "response".

    Attributes:
        columns: The names of the table's columns, in order, as the keys.
        _fields_not_named: Fields for which the user names no column.
        _n_rows_by_column: By field and column: in how many rows the field was read from
            the column.
        _n_rows_read_empty: In how many rows a field was read from an empty column,
            though another column may hold it.
        _unread_columns: Columns that no field was read from; the keys, in order.
        _fields_of_any_sample: Needed fields that at least one sample has.
        _a_metric_may_apply: Whether one sample has all that a shipped metric needs.
    """

    def __init__(self, columns: Mapping[str, Any] | None = None) -> None:
        """Begin with no row read.

        Args:
            columns: The columns that the user names, by field of the sample. Nothing is
                noted of these fields.
        """
        self._columns = columns or {}
        self._fields_not_named = [
            field for field in _FIELDS if field not in self._columns
        ]
        # {"answer": {"response": 90}}: in 90 rows "response" was read as the answer
        self._n_rows_by_column: dict[str, Counter[str]] = defaultdict(Counter)
        # {("answer", "answer", "response"): 3}: in 3 rows the field "answer" was read
        # from the empty column "answer", though the column "response" was filled
        self._n_rows_read_empty: Counter[_EmptyAndFilled] = Counter()
        # columns that no field was read from, such as "id"; only the keys count
        self._unread_columns: dict[str, None] = {}
        # fields that at least one sample has, such as {"contexts", "answer"}
        self._fields_of_any_sample: set[str] = set()
        # whether one sample has all fields that a shipped metric needs
        self._a_metric_may_apply = False
        # names of the table's columns, in order; only the keys count
        self.columns: dict[str, None] = {}

    def read_samples(self, row: Any) -> Iterator[Sample | RowError]:
        """Yield the sample of one row, or the error that says why there is none.

        Args:
            row: A row of a table; a sample or an error, which is yielded as it is; or a
                result of a report, whose sample is to be judged again.
        """
        if isinstance(row, SampleResult):
            row = row.sample or RowError(row.problem)
        if isinstance(row, (Sample, RowError)):
            yield row
            return
        try:
            sample = sample_from_row(row, self._columns)
        except RowError as error:
            yield error
            return
        self.note_columns(row, sample)
        yield sample

    def note_columns(self, row: Mapping[str, Any], sample: Sample) -> None:
        """Note what the row's columns say about the names of columns.

        - which of the fields that metrics need the row fills;
        - which columns no field was read from, such as "id";
        - for each field which column it was read from: "user_input" for the question.
          Nothing is noted of a field whose column the user named.

        Args:
            row: The row.
            sample: The sample made of it.
        """
        columns = frozenset(name for name in row if isinstance(name, str))
        if len(self.columns) <= _MOST_NAMES:
            self.columns.update(dict.fromkeys(map(str, row)))
        # Columns that no field was read from have become metadata of the sample.
        unread_columns = columns.intersection(sample.metadata)
        self._note_fields_that_metrics_need(sample)
        self._note_unread(unread_columns)
        for field in self._fields_not_named:
            # "user_input" is among the names that columns of questions usually have
            column_read = _column_with_usual_name(field, columns - unread_columns)
            if column_read is None:
                continue  # the row has no column for the field
            if not sample.missing(field):
                self._n_rows_by_column[field][column_read] += 1
            else:
                self._note_empty(field, column_read, row, unread_columns)

    def _note_empty(
        self,
        field: str,
        empty_column: str,
        row: Mapping[str, Any],
        unread_columns: frozenset[str],
    ) -> None:
        """Note that a field was read from an empty column, if another one may hold it.

        Example: of ``{"answer": "", "response": "Paris"}`` the answer was read from
        "answer", which is empty, and "response" was not read.
        """
        unread_column = _column_with_usual_name(field, unread_columns)
        if unread_column is not None and is_filled(row[unread_column], field):
            columns = _EmptyAndFilled(field, empty_column, unread_column)
            self._n_rows_read_empty[columns] += 1

    def _note_fields_that_metrics_need(self, sample: Sample) -> None:
        """Note which of the fields that metrics need a sample has.

        ``facts`` may take the place of ``reference``, and ``retrieved`` of
        ``contexts``.
        """
        needed_fields_held: set[str] = set()
        for field, substitute in _SUBSTITUTE_BY_NEEDED_FIELD.items():
            if not sample.missing(field) or not sample.missing(substitute):
                needed_fields_held.add(field)
        self._fields_of_any_sample.update(needed_fields_held)
        if len(needed_fields_held) >= _FIELDS_PER_METRIC:
            self._a_metric_may_apply = True

    def _note_unread(self, unread_columns: Collection[str]) -> None:
        """Note columns that no field was read from, one more than a sentence names."""
        for column in sorted(unread_columns):
            if len(self._unread_columns) <= _MOST_NAMES:
                self._unread_columns[column] = None

    def _why_no_metric_applies(self) -> list[str]:
        """Return a list of one sentence if no shipped metric can apply, else [].

        The sentence names the fields that no sample has, and the options that say which
        column holds them. If every column was recognised, there is no hint. Example:
        the columns "q" and "out" give "… no row has contexts or answer or reference".
        """
        if self._a_metric_may_apply or not self._unread_columns:
            return []
        absent_fields = [
            field
            for field in _SUBSTITUTE_BY_NEEDED_FIELD  # its keys: the needed fields
            if field not in self._fields_of_any_sample
        ]
        columns = names_in_words(self._unread_columns, most=_MOST_NAMES)
        options = ", ".join(f"--{field}-column" for field in absent_fields)
        arguments = ", ".join(f"{field}_column=" for field in absent_fields)
        return [
            "none of the four metrics applies: no row has"
            f" {' or '.join(absent_fields)}; columns that were not recognised:"
            f" {columns}; name the right ones with {options} (in Python {arguments})"
        ]

    @property
    def sentences(self) -> list[str]:
        """What is odd about the columns, one sentence each.

        Three things may be odd:

        - no metric applies, because no sample has the fields that it needs;
        - a field was read from different columns in different rows;
        - a field was read from an empty column, while another column with a usual name
          for the field is filled.

        Example of the second: "the answer was read from different columns: 'answer' in
        90 rows, 'response' in 10 rows; put it into one column, or name it: …".
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
        for columns, n_rows in self._n_rows_read_empty.items():
            sentences.append(
                f"the {columns.field} is missing in {n_rows} rows where"
                f" {columns.empty_column_read!r} is empty and"
                f" {columns.filled_column_unread!r} is not; {_what_to_do(columns.field)}"
            )
        return sentences


@lru_cache(maxsize=1024)  # the rows of one file have the same columns
def _column_with_usual_name(field: str, columns: frozenset[str]) -> str | None:
    """Return the column with the most usual name for a field; None if there is none.

    Names are compared without case and separators: "Ground-Truth" is "ground_truth".
    """
    column_by_plain_name = {plain_name(column): column for column in sorted(columns)}
    for usual_name in USUAL_NAMES[field]:
        column = column_by_plain_name.get(plain_name(usual_name))
        if column is not None:
            return column
    return None


def _what_to_do(field: str) -> str:
    """Say what to do about a field that is in different columns."""
    return (
        f"put it into one column, or name it: --{field}-column (in Python"
        f" {field}_column=)"
    )
