"""The samples of all files of a command, with what is wrong with each file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ragmetrics_core.cli.reading import check_readable, read_samples
from ragmetrics_core.data.errors import RowError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample import Sample

COLUMNS = ("question", "contexts", "answer", "reference", "retrieved", "facts", "id")
_SHOWN_PROBLEMS = 5
_LARGE = 100_000_000  # bytes that are not read twice
_SHOWN_COLUMNS = 12


class Source:
    """The samples of all files.

    Args:
        options: The command's options.

    Attributes:
        files: The files.
        undefined: Per metric why it was undefined, the first time that it was.
        failed: Per metric why it failed, the first time that it did.

    Raises:
        InputError: If a file is none that can be read; while iterating, if a file cannot be read, or with
            ``--strict`` a row is no sample.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.files: list[Path] = options.files
        for path in self.files:
            check_readable(path)
        self._limit, self._strict = options.limit, options.strict
        self._columns = _columns(options)
        self._ends: list[int] = []
        self._applied: set[int] = set()
        self._spare: dict[int, dict[str, None]] = {}
        self._bad: dict[int, int] = {}
        self.undefined: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def counted(self) -> Source | Counted:
        """Itself with its length, after a first reading of files that are not large.

        What makes a file unreadable, and with ``--strict`` a row that is no sample, is found before a call is paid.
        """
        if sum(path.stat().st_size for path in self.files) > _LARGE:
            return self
        count = 0
        for path in self.files:
            for item in read_samples(path, self._columns, self._limit):
                if self._strict and isinstance(item, RowError):
                    raise item
                count += 1
        return Counted(self, count)

    def __iter__(self) -> Iterator[Sample | RowError]:
        self._ends, self._bad, self._spare = [], {}, {}
        count = 0
        for number, path in enumerate(self.files):
            unread: dict[str, None] = {}
            for item in read_samples(path, self._columns, self._limit, unread):
                if isinstance(item, RowError):
                    self._report(item, number)
                else:
                    self._spare[number] = unread
                count += 1
                yield item
            self._ends.append(count)

    def _report(self, error: RowError, number: int) -> None:
        if self._strict:
            raise error
        self._bad[number] = self._bad.get(number, 0) + 1
        if self._bad[number] <= _SHOWN_PROBLEMS:
            print(f"ragmetrics: {error}", file=sys.stderr)
        elif self._bad[number] == _SHOWN_PROBLEMS + 1:
            print(f"ragmetrics: {self.files[number]}: further bad rows are only counted", file=sys.stderr)

    def saw(self, result: SampleResult) -> None:
        """Note whether any metric applied to the result's file, and why others did not."""
        number = sum(end <= result.index for end in self._ends)
        for name, outcome in result.results.items():
            if outcome.status == "undefined":
                self.undefined.setdefault(name, outcome.reason)
            else:
                self._applied.add(number)
            if outcome.status == "failed":
                self.failed.setdefault(name, outcome.reason)

    def idle(self) -> list[str]:
        """For each file to no row of which any metric applied, why; call it at the end."""
        return [self._why(number) for number in range(len(self.files)) if number not in self._applied]

    def _why(self, number: int) -> str:
        path, bad, spare = self.files[number], self._bad.get(number, 0), self._spare.get(number)
        if spare is None:
            return f"{path} has no rows" if not bad else f"{path}: none of its {bad} rows is a sample"
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.undefined.items())
        unused = f"; {_unread(spare)}; name them with --question-column etc." if spare else ""
        return f"no metric applies to {path} ({reasons}){unused}"

    @property
    def unread(self) -> list[str]:
        """For each file, the columns that no field of a sample was made of; call it at the end."""
        return [f"{self.files[number]}: {_unread(spare)}" for number, spare in sorted(self._spare.items()) if spare]


def _unread(names: Mapping[str, None]) -> str:
    found = ", ".join(islice(names, _SHOWN_COLUMNS)) + (", …" if len(names) > _SHOWN_COLUMNS else "")
    return f"columns that were not recognised: {found}"


class Counted:
    """Samples whose number is known, for a progress that knows how much is left.

    Args:
        source: The samples.
        count: Their number.
    """

    def __init__(self, source: Source, count: int) -> None:
        self._source, self._count = source, count

    def __iter__(self) -> Iterator[Sample | RowError]:
        return iter(self._source)

    def __len__(self) -> int:
        return self._count


def _columns(options: argparse.Namespace) -> Mapping[str, Any]:
    named = {name: getattr(options, f"{name}_column") for name in COLUMNS}
    return {name: column for name, column in named.items() if column is not None}
