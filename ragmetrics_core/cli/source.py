"""The samples of all files of a command, with what is wrong with each file."""

import argparse
import hashlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Self

from ragmetrics_core.data.errors import InputError, RowError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.datasets.reading import check_readable, read_samples
from ragmetrics_core.reporting.run_facts import Input, RunFacts
from ragmetrics_core.traces import SpanSamples

COLUMNS = ("question", "contexts", "answer", "reference", "retrieved", "facts", "id")
_SHOWN_PROBLEMS = 5
_LARGE = 100_000_000  # bytes that are not read twice
_SHOWN_COLUMNS = 12


@dataclass
class _File:
    """What is known of a file so far."""

    path: Path
    rows: int = 0
    bad: int = 0
    whole: bool = False  # read to its end
    applied: bool = False  # whether any metric applied to a row
    unread: dict[str, None] = field(default_factory=dict)
    missing: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)  # what traces gave no sample

    @property
    def columns(self) -> str:
        """The columns that no field of a sample was made of, in words."""
        more = ", …" if len(self.unread) > _SHOWN_COLUMNS else ""
        return f"columns that were not recognised: {', '.join(islice(self.unread, _SHOWN_COLUMNS))}{more}"


class Source:
    """The samples of all files; bad rows are reported on standard error, or with ``--strict`` raised.

    ``undefined`` says per metric why it was so, the first time that it was.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        for path in () if options.traces else options.files:
            check_readable(path)
        resolve = pkgutil.resolve_name(options.resolve) if options.resolve else None
        self._traces = options.traces and partial(SpanSamples, resolve=resolve, dialect=options.dialect)
        self._files = [_File(path) for path in options.files]
        self._limit, self._strict = options.limit, options.strict
        self._columns = {name: own for name in COLUMNS if (own := getattr(options, f"{name}_column")) is not None}
        self._count = 0
        self.undefined: dict[str, str] = {}

    def counted(self, *, always: bool = False) -> Self | Iterator[Sample | RowError]:
        """The samples, after a first reading of files that are not large, from which on their number is known.

        What makes a file unreadable, and with ``--strict`` a row that is no sample, is found before a call is paid.
        """
        if not always and sum(file.path.stat().st_size for file in self._files) > _LARGE:
            return iter(self)
        for item in (item for file in self._files for item in self._items(file)):
            if self._strict and isinstance(item, RowError):
                raise item
            self._count += 1
        return self

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample | RowError]:
        self._files = [_File(file.path) for file in self._files]
        for file in self._files:
            for item in self._items(file):
                file.rows += 1
                if isinstance(item, RowError):
                    if self._strict:
                        raise item
                    file.bad += 1
                    if file.bad <= _SHOWN_PROBLEMS + 1:
                        more = f"{file.path}: further bad rows are only counted"
                        print(f"ragmetrics: {item if file.bad <= _SHOWN_PROBLEMS else more}", file=sys.stderr)
                yield item
            file.whole = True

    def _items(self, file: _File) -> Iterator[Sample | RowError]:
        """The rows of a file, or the samples of its traces."""
        if not self._traces:
            yield from read_samples(file.path, self._columns, self._limit, file.unread, file.missing)
            return
        found = self._traces(file.path)
        yield from islice(found, self._limit)
        told = [f"{count} {code}" for code, count in Counter(code for _, code in found.notes.without).items()]
        file.notes = [f"{file.path}: traces that gave no sample: {', '.join(told)}"] if told else []
        file.notes += [f"{file.path}: {len(found.notes.bad)} lines hold no spans"] if found.notes.bad else []

    def described(self, facts: RunFacts) -> RunFacts:
        """The facts of a run with the files that it reads, and their rows as far as they are read."""
        rows = [file.rows if file.whole else None for file in self._files]
        inputs = tuple(one.model_copy(update={"rows": n}) for one, n in zip(self._digests, rows, strict=True))
        return facts.model_copy(update={"inputs": inputs})

    @cached_property
    def _digests(self) -> list[Input]:
        found = []
        for path in (file.path for file in self._files):
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise InputError(f"{path} cannot be read: {error.strerror}") from None
            found.append(Input(name=path.name, sha256=digest))
        return found

    def saw(self, result: SampleResult) -> None:
        """Note whether any metric applied to the result's file, and why others did not."""
        left = result.index
        for file in self._files:
            if left < file.rows or not file.whole:
                break
            left -= file.rows
        for name, outcome in result.results.items():
            if outcome.status == "undefined":
                self.undefined.setdefault(name, outcome.reason)
            else:
                file.applied = True

    def idle(self) -> list[str]:
        """For each file to no row of which any metric applied, why; call it at the end."""
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.undefined.items())
        found = []
        for file in (file for file in self._files if not file.applied):
            unused = f"; {file.columns}; name them with --question-column etc." if file.unread else ""
            why = f"no metric applies to {file.path} ({reasons}){unused}"
            if file.bad == file.rows:
                none = f"{file.path}: none of its {file.bad} rows is a sample"
                why = none if file.rows else f"{file.path} has no rows"
            found.append(why)
        return found

    @property
    def remarks(self) -> list[str]:
        """For each file, the columns that no field of a sample was made of, and cells without a value."""
        lines = [f"{file.path}: {file.columns}, kept as metadata" for file in self._files if file.unread]
        lines += [note for file in self._files for note in file.notes]
        for file in (file for file in self._files if file.missing):
            gaps = ", ".join(f"{count} in {name}" for name, count in file.missing.items())
            lines.append(f"{file.path}: cells that read nan or null are taken as missing: {gaps}")
        return lines
