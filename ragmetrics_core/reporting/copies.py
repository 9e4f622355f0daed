"""Finds copies of judged rows, which are no further evidence."""

from ragmetrics_core.data import SampleResult


class KnownRows:
    """Finds copies of rows by their content."""

    def __init__(self) -> None:
        # by what tells most rows apart: the rows that have it
        self._rows_by_key: dict[tuple[object, ...], list[SampleResult]] = {}

    def add(self, row: SampleResult, *, index: int | None = None) -> None:
        """Know a row from now on, under its number or without one."""
        self._rows_by_key.setdefault(_key_of_content(row, index), []).append(row)

    def has(self, row: SampleResult, *, index: int | None = None) -> bool:
        """Whether a row with this sample and these results is known."""
        rows_alike = self._rows_by_key.get(_key_of_content(row, index), ())
        return any(
            (row.sample, row.results) == (known.sample, known.results)
            for known in rows_alike
        )


def _key_of_content(row: SampleResult, index: int | None) -> tuple[object, ...]:
    """Return what tells most rows apart, and can be looked up."""
    sample = row.sample
    if sample is None:
        return index, row.problem
    return index, sample.id, sample.question, sample.answer
