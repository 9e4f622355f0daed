"""Makes samples of the rows of one table, and says where they take a field from different columns.

A row is read by itself, since rows of JSON need not have the same keys. Where exports
leave out empty keys, or two tables were put together, rows may then differ in which
column holds the answer. Whoever reads the scores has to know.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ragmetrics_core.data import RowError, Sample, SampleResult, samples_from_row
from ragmetrics_core.data.cells import filled
from ragmetrics_core.data.columns import USUAL_NAMES
from ragmetrics_core.data.nearest import names_in_words, plain_name

_FIELDS = ("question", "contexts", "answer", "reference")
# Each shipped metric needs two of these; the second name may stand for the first.
_NEEDED = {"contexts": "retrieved", "answer": "answer", "reference": "facts"}
_MOST_NAMES = 12


class ColumnsRead:
    """Makes samples of the rows of one table, and notes which columns it read.

    Args:
        columns: Per field of the sample where rows have it; nothing is said of these
            fields. Fields that are not named are found by the usual names of columns.
    """

    def __init__(self, columns: Mapping[str, Any] | None = None) -> None:
        self._columns = columns or {}
        self._fields = [field for field in _FIELDS if field not in self._columns]
        self._rows_by_column: dict[str, Counter[str]] = defaultdict(Counter)
        self._rows_passed_over: Counter[tuple[str, str, str]] = Counter()
        self._unread: dict[str, None] = {}  # columns that no field was made of
        self._fields_held: set[str] = set()
        self._a_metric_may_apply = False

    def samples_of(self, row: Any) -> Iterator[Sample | RowError]:
        """The samples of one row, or the error why it has none.

        A result of a report stands for its sample, which is judged again.
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
        self.look(row, samples[0])
        yield from samples

    def look(self, row: Mapping[str, Any], sample: Sample) -> None:
        """Look at one more row and at the sample, or the first sample, made of it."""
        columns = frozenset(name for name in row if isinstance(name, str))
        # What no field was made of is kept as the sample's metadata.
        unread = columns.intersection(sample.metadata)
        self._look_for_needed_fields(sample, unread)
        for field in self._fields:
            column = _first_usual(field, columns - unread)
            if column is None:
                continue
            if not sample.missing(field):
                self._rows_by_column[field][column] += 1
                continue
            passed_over = _first_usual(field, unread)
            if passed_over is not None and filled(row[passed_over], field):
                self._rows_passed_over[field, column, passed_over] += 1

    def _look_for_needed_fields(self, sample: Sample, unread: Collection[str]) -> None:
        """Note what metrics need and the row holds, and its unread columns."""
        fields_held = {
            field
            for field, substitute in _NEEDED.items()
            if not (sample.missing(field) and sample.missing(substitute))
        }
        self._fields_held |= fields_held
        if len(fields_held) > 1:
            self._a_metric_may_apply = True
        for column in sorted(unread):
            if len(self._unread) <= _MOST_NAMES:
                self._unread[column] = None

    def _why_no_metric_applies(self) -> list[str]:
        """One sentence where no shipped metric can apply, and a column was not read."""
        if self._a_metric_may_apply or not self._unread:
            return []
        absent = [field for field in _NEEDED if field not in self._fields_held]
        names = names_in_words(self._unread, most=_MOST_NAMES)
        options = ", ".join(f"--{field}-column" for field in absent)
        arguments = ", ".join(f"{field}_column=" for field in absent)
        return [
            f"none of the four metrics applies: no row has {' or '.join(absent)};"
            f" columns that were not recognised: {names}; name the right ones with"
            f" {options} (in Python {arguments})"
        ]

    @property
    def sentences(self) -> list[str]:
        """What rows have different columns for, one sentence each."""
        sentences = self._why_no_metric_applies()
        for field, rows in self._rows_by_column.items():
            if len(rows) > 1:
                places = ", ".join(f"{name!r} in {n} rows" for name, n in rows.items())
                sentences.append(
                    f"the {field} was read from different columns: {places};"
                    f" {_what_to_do(field)}"
                )
        for (field, empty, filled_column), n in self._rows_passed_over.items():
            sentences.append(
                f"the {field} is missing in {n} rows where {empty!r} is empty and"
                f" {filled_column!r} is not; {_what_to_do(field)}"
            )
        return sentences


@lru_cache(maxsize=1024)  # the rows of one file have the same columns
def _first_usual(field: str, columns: frozenset[str]) -> str | None:
    """The column that comes first among the usual names of a field."""
    by_plain_name = {plain_name(column): column for column in sorted(columns)}
    for usual in USUAL_NAMES[field]:
        if plain_name(usual) in by_plain_name:
            return by_plain_name[plain_name(usual)]
    return None


def _what_to_do(field: str) -> str:
    return (
        f"put it into one column, or name it: --{field}-column (in Python"
        f" {field}_column=)"
    )
