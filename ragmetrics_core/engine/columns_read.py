"""Makes samples of the rows of one table, and says which field no row has."""

from collections.abc import Mapping
from typing import Any

from ragmetrics_core.data import RowError, Sample, SampleResult, sample_from_row
from ragmetrics_core.data.cells import data_in
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.name_matching import names_in_words
from ragmetrics_core.data.sample import fields_of_row, why_undivided

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


class ColumnsRead:
    """Makes samples of the rows of one table, and notes which columns it has.

    Args:
        columns: The columns that the user names, by field of the sample. The other
            fields are read from the columns with their usual names.

    Attributes:
        columns: The names of the table's columns, in order, as the keys.
        unread: Those of them that no field was made of, as the keys.
    """

    def __init__(self, columns: Mapping[str, Any] | None = None) -> None:
        self._columns = columns or {}
        self.columns: dict[str, None] = {}
        self.unread: dict[str, None] = {}
        # needed fields that at least one sample has, such as {"contexts", "answer"}
        self._fields_of_any_sample: set[str] = set()
        # whether one sample has all fields that a shipped metric needs
        self._a_metric_may_apply = False
        # Rows that have contexts in one text, and what that is taken for, in words. A
        # column may have been named for its name alone, so this is said, too.
        self._n_in_one_text = 0
        self._one_text_in_words = ""

    def read_sample(self, row: Any) -> Sample | RowError:
        """Return the sample of one row, or the error that says why there is none.

        Args:
            row: A row of a table; a sample or an error, which is returned as it is; or
                a result of a report, whose sample is to be judged again.
        """
        if isinstance(row, SampleResult):
            row = row.sample or RowError(row.problem)
        if isinstance(row, (Sample, RowError)):
            return row
        try:
            fields = fields_of_row(row)
            sample = sample_from_row(fields, self._columns)
        except RowError as error:
            return error

        # which columns the row has, and which needed fields its sample has
        for column in map(str, fields):
            if len(self.columns) <= _MOST_NAMES:
                self.columns[column] = None
            # What no field was read from has become metadata of the sample.
            if column in sample.metadata and len(self.unread) <= _MOST_NAMES:
                self.unread[column] = None
        words = why_undivided(sample)
        named = self._columns.get("contexts")
        if isinstance(named, str) and isinstance(data_in(fields.get(named)), str):
            words = f"each text in {named} is one context (several: write a list)"
        if words:
            self._n_in_one_text += 1
            self._one_text_in_words = self._one_text_in_words or words
        fields_held = {
            field
            for field, substitute in _SUBSTITUTE_BY_NEEDED_FIELD.items()
            if not (sample.missing(field) and sample.missing(substitute))
        }
        self._fields_of_any_sample.update(fields_held)
        if len(fields_held) >= _FIELDS_PER_METRIC:
            self._a_metric_may_apply = True
        return sample

    @property
    def sentences(self) -> list[str]:
        """What people should know of the table, a sentence each; [] for nothing."""
        sentences = []
        # A column that was not recognised may hold a field that all rows lack. A missing
        # reference is told only where no shipped metric can apply, since many tables
        # have none.
        absent_fields = [
            field
            for field in _SUBSTITUTE_BY_NEEDED_FIELD  # its keys: the needed fields
            if field not in self._fields_of_any_sample
        ]
        reference_alone = self._a_metric_may_apply and absent_fields == ["reference"]
        if absent_fields and self.unread and not reference_alone:
            columns = names_in_words(self.unread, most=_MOST_NAMES)
            options = ", ".join(f"--{field}-column" for field in absent_fields)
            arguments = ", ".join(f"{field}_column=" for field in absent_fields)
            sentences.append(
                f"no row has {' or '.join(absent_fields)}; name the column by"
                f" {options} (in Python {arguments}); not recognised: {columns}"
            )
        if self._n_in_one_text:
            rows = count_in_words(self._n_in_one_text, "row")
            sentences.append(f"{rows}: {self._one_text_in_words}")
        return sentences
