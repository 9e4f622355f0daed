"""What capturing could not be sure of, over a run: each warning once, with its count."""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import Field

from ragmetrics_core.data import Frozen
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_MOST_KINDS = 100
_NUMBER = lazy_pattern(r"\d+(?:[.,]\d+)*")
_OTHER_KINDS = "other warnings; each opened row shows its own"


class CaptureWarning(Frozen):
    """A warning of captured samples; warnings that differ in numbers alone are one."""

    text: str = Field(description="the warning, as the first sample bears it")
    samples: int = Field(description="how many samples bear it")
    index: int = Field(description="place of the first of them in the input, from 0")
    has_other_numbers: bool = Field(
        default=False, description="true if it has other numbers in other samples"
    )

    @property
    def row(self) -> int:
        """The number of the first row that bears it as people count, from 1."""
        return self.index + 1

    @property
    def how_often(self) -> str:
        """In how many samples it stands, and that its numbers differ, if they do."""
        words = count_in_words(self.samples, "sample")
        return (
            f"{words}, with other numbers in some" if self.has_other_numbers else words
        )

    def __str__(self) -> str:
        """The warning in a line."""
        return f"{self.text} ({self.how_often}; the first is row {self.row})"


class _FirstSample(NamedTuple):
    """The first sample of the input that bears a kind of warning, and its words."""

    text: str
    row_index: int


class CaptureWarningTally:
    """Warnings that are counted row by row; keeps at most a hundred kinds of them.

    A kind is a warning without its numbers.
    """

    def __init__(self) -> None:
        self._first_by_kind: dict[str, _FirstSample] = {}
        self._n_samples_by_kind: dict[str, int] = {}
        # kinds that came with several numbers: "2 documents …", then "5 documents …"
        self._kinds_with_other_numbers: set[str] = set()

    def add(self, warnings: Iterable[str], index: int) -> None:
        """Count the warnings of one captured sample, each kind of warning once.

        A kind is a warning's text without its numbers: "3 of 5 documents have no id"
        and "1 of 2 documents have no id" are one kind. The text of the earliest sample
        is kept to be shown.

        Args:
            warnings: The warnings of the sample.
            index: Its place in the input, from 0. Samples may come in any order.
        """
        kinds_of_sample: set[str] = set()
        for text in warnings:
            kind = self._kind_of(text)
            self._keep_first_text(kind, text, index)
            kinds_of_sample.add(kind)
        for kind in kinds_of_sample:
            n_samples = self._n_samples_by_kind.get(kind, 0)
            self._n_samples_by_kind[kind] = n_samples + 1

    def _keep_first_text(self, kind: str, text: str, index: int) -> None:
        """Keep the text of the earliest sample, and note a text with other numbers.

        Args:
            kind: The kind of warning.
            text: The warning.
            index: The place of its sample in the input.
        """
        if kind == _OTHER_KINDS:
            text = _OTHER_KINDS  # beyond a hundred kinds no text of their own is kept
        first = self._first_by_kind.setdefault(kind, _FirstSample(text, index))
        if index < first.row_index:
            self._first_by_kind[kind] = _FirstSample(text, index)
        if text != first.text:  # texts of one kind differ in numbers only
            self._kinds_with_other_numbers.add(kind)

    def _kind_of(self, text: str) -> str:
        """Return the kind of a warning: its text without numbers.

        Once there are a hundred kinds, all further ones are one kind.
        """
        kind = _NUMBER.sub("#", text)
        is_new = kind not in self._first_by_kind
        if is_new and len(self._first_by_kind) >= _MOST_KINDS:
            return _OTHER_KINDS
        return kind

    @property
    def warnings(self) -> tuple[CaptureWarning, ...]:
        """All kinds, the most frequent first, of equal ones the earlier row."""
        warnings = [
            CaptureWarning(
                text=first.text,
                samples=self._n_samples_by_kind[kind],
                index=first.row_index,
                has_other_numbers=kind in self._kinds_with_other_numbers,
            )
            for kind, first in self._first_by_kind.items()
        ]
        warnings.sort(key=lambda warning: (-warning.samples, warning.index))
        return tuple(warnings)
