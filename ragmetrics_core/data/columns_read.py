"""Says where the rows of one table take a field from different columns.

A row is read by itself, since rows of JSON need not have the same keys. Where exports
leave out empty keys, or two tables were put together, rows may then differ in which
column holds the answer. Whoever reads the scores has to know.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from ragmetrics_core.data.cells import filled
from ragmetrics_core.data.columns import USUAL_NAMES
from ragmetrics_core.data.nearest import names_in_words, plain_name
from ragmetrics_core.data.sample import Sample

_FIELDS = ("question", "contexts", "answer", "reference")
# Each shipped metric needs two of these; the second name may stand for the first.
_NEEDED = {"contexts": "retrieved", "answer": "answer", "reference": "facts"}
_MOST_NAMES = 12


class ColumnsRead:
    """From which columns the fields of the rows of one table were read.

    Args:
        named: Fields whose column the caller named; nothing is said of these.
    """

    def __init__(self, named: Collection[str] = ()) -> None:
        self._fields = [field for field in _FIELDS if field not in named]
        self._rows_by_column: dict[str, Counter[str]] = defaultdict(Counter)
        self._rows_passed_over: Counter[tuple[str, str, str]] = Counter()
        self._unread: dict[str, None] = {}  # columns that no field was made of
        self._fields_held: set[str] = set()
        self._a_metric_may_apply = False

    def look(self, row: Mapping[str, Any], sample: Sample) -> None:
        """Look at one more row and at the sample, or the first sample, made of it."""
        columns = frozenset(name for name in row if isinstance(name, str))
        kept = columns.intersection(sample.metadata)
        self._look_for_needed_fields(sample, kept)
        for field in self._fields:
            read = _first_usual(field, columns - kept)
            if read is None:
                continue
            if not sample.missing(field):
                self._rows_by_column[field][read] += 1
                continue
            passed_over = _first_usual(field, kept)
            if passed_over is not None and filled(row[passed_over], field):
                self._rows_passed_over[field, read, passed_over] += 1

    def _look_for_needed_fields(self, sample: Sample, unread: Collection[str]) -> None:
        """Note what metrics need and the row holds, and its unread columns."""
        held = {
            field
            for field, other in _NEEDED.items()
            if not (sample.missing(field) and sample.missing(other))
        }
        self._fields_held |= held
        self._a_metric_may_apply = self._a_metric_may_apply or len(held) > 1
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
        for (field, empty, other), n in self._rows_passed_over.items():
            sentences.append(
                f"the {field} is missing in {n} rows where {empty!r} is empty and"
                f" {other!r} is not; {_what_to_do(field)}"
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
