"""Reads the samples of all files of a command, and notes what is wrong with each file."""

import argparse
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ragmetrics_core.cli.parsers import COLUMNS
from ragmetrics_core.data import (
    InputError,
    RowError,
    Sample,
    as_input_error,
    import_named_object,
    names_in_words,
)
from ragmetrics_core.data.display import as_line
from ragmetrics_core.engine.row_files import (
    check_readable,
    read_samples,
    reason_of_part,
)
from ragmetrics_core.engine.sample_sources import ColumnsRead
from ragmetrics_core.reporting.groups import KeysSought
from ragmetrics_core.reporting.run_facts import Input, RunFacts

if TYPE_CHECKING:
    from ragmetrics_core.traces import SpanSamples

_SHOWN_PROBLEMS = 5
_SHOWN_COLUMNS = 12
_TABLE_SUFFIXES = (".csv", ".tsv")


def _no_rows(path: Path) -> str:
    """Return the sentence that a file is empty, and what to do."""
    return (
        f"{path} holds no rows: write it again with a sample on each, or leave it out"
    )


@dataclass
class _File:
    """What is known of an input file so far.

    Attributes:
        path: The file.
        rows: How many rows were read.
        bad: How many of them are no samples.
        counted: How many rows it held at first; None until they are counted. What was
            appended since is left out.
        at_first: The digest of its bytes, and how many there were, at that time; None
            if they were not counted.
        is_read_to_its_end: Whether all of its rows were read.
        columns_read: Notes which columns the fields were read from.
        notes: Sentences on recorded traces that gave no sample, or no complete one.
        traces: Reads the file as recorded traces; None for a file of rows.
    """

    path: Path
    rows: int = 0
    bad: int = 0
    counted: int | None = None
    at_first: tuple[str, int] | None = None
    is_read_to_its_end: bool = False
    columns_read: ColumnsRead = field(default_factory=ColumnsRead)
    notes: list[str] = field(default_factory=list)
    traces: "SpanSamples | None" = None

    def digest(self, most_bytes: int = sys.maxsize) -> tuple[str, int]:
        """The digest of its first bytes, and how many they are.

        ``InputError`` if it cannot be read.
        """
        piped = self.traces and self.traces.lines.piped
        digest, n_bytes = hashlib.sha256(), 0
        with (
            as_input_error(f"{self.path} cannot be read"),
            nullcontext(piped) if piped else self.path.open("rb") as file,
        ):
            file.seek(0)
            while block := file.read(min(most_bytes - n_bytes, 2**20)):
                digest.update(block)
                n_bytes += len(block)
        return digest.hexdigest(), n_bytes


class Source:
    """The samples of all input files of a command.

    Bad rows are reported on standard error, or raised with ``--stop-at-bad-row``.
    """

    def __init__(self, options: argparse.Namespace, keys: KeysSought) -> None:
        """Check the files, and prepare to read them; no row is read yet.

        Example: ``--answer-column out`` is kept as ``{"answer": "out"}``.

        Args:
            options: What was typed: the files, and how they are to be read.
            keys: Notes which of the keys for slices and clusters the samples have.

        Raises:
            InputError: If a file cannot be read, or is a table where ``--traces`` asks
                for recorded traces.
        """
        self.keys = keys
        self._limit = options.limit
        self._stops_at_bad_row = options.stop_at_bad_row
        # The columns that were named, by field of the sample.
        named = {name: getattr(options, f"{name}_column") for name in COLUMNS}
        self._columns: dict[str, str] = {
            name: column for name, column in named.items() if column is not None
        }
        self._n_rows = 0  # rows of all files; 0 until they are counted
        self._files = [_File(path) for path in options.files]
        if not options.traces:
            for path in options.files:
                check_readable(path)
            return
        for path in options.files:
            if path.suffix.casefold() in _TABLE_SUFFIXES:
                raise InputError(
                    f"{path} is a table, and --traces reads recorded traces (OTLP"
                    " JSON, Phoenix, MLflow, Langfuse, LangSmith): leave out --traces"
                )
        from ragmetrics_core.traces import samples_from_spans  # a table does without

        resolve = import_named_object(options.resolve) if options.resolve else None
        context_tools = options.context_tools and options.context_tools.split(",")
        for file in self._files:
            file.traces = samples_from_spans(
                file.path,
                resolve=resolve,
                dialect=options.dialect,
                context_tools=context_tools,
            )

    def count_samples(self) -> Self:
        """Count the rows of all files, and return the samples.

        All files are read to their ends, so that one that cannot be read is found
        before any call is paid.

        Raises:
            InputError: If a file cannot be read, holds no rows or is a copy of another,
                or no sample has a key of a slice or cluster.
            SettingError: If two columns of the first row may hold one field.
            RowError: With ``--stop-at-bad-row``, for the first row that is no sample.
        """
        self._n_rows = 0
        file_by_digest: dict[tuple[str, int], Path] = {}
        for file in self._files:
            file.at_first = file.digest()  # before its rows
            first = file_by_digest.setdefault(file.at_first, file.path)
            if first != file.path:
                raise InputError(f"{file.path} is a copy of {first}; name one of them")
            file.counted = sum(1 for _ in self._checked_rows(file))
            # notes say why a file of traces gave no sample
            if file.counted == 0 and not file.notes:
                raise InputError(_no_rows(file.path))
            self._n_rows += file.counted
        self.keys.check()
        return self

    @cached_property
    def why_part(self) -> str:
        """Which files are results of a run that did not judge all its samples, and why.

        "" if there is no such file.
        """
        paths = [file.path for file in self._files if file.traces is None]
        return "; ".join(filter(None, map(reason_of_part, paths)))

    def __len__(self) -> int:
        return self._n_rows

    def __iter__(self) -> Iterator[Sample | RowError]:
        for file in self._files:
            for row in self._checked_rows(file):
                if file.rows == file.counted:
                    continue
                file.rows += 1
                if isinstance(row, RowError):
                    file.bad += 1
                    # after a few rows of a file one line says that no more are told
                    sentence = str(row)
                    if file.bad > _SHOWN_PROBLEMS:
                        sentence = f"{file.path}: further bad rows are only counted"
                    if file.bad <= _SHOWN_PROBLEMS + 1:
                        print(f"ragmetrics: {sentence}", file=sys.stderr)
                yield row
            # it still begins with what it held at first
            if file.at_first and file.digest(file.at_first[1]) != file.at_first:
                raise InputError(
                    f"{file.path} was changed while it was read: run again when nothing"
                    " writes to it, or on a copy"
                )
            file.is_read_to_its_end = True

    def _checked_rows(self, file: _File) -> Iterator[Sample | RowError]:
        """Yield the samples of a file, and an error for each row that is none.

        With ``--stop-at-bad-row`` the first error is raised. The keys that the samples have are
        noted; at the end, so are the notes on traces.
        """
        rows: Iterable[Sample | RowError]
        if file.traces is None:
            file.columns_read = ColumnsRead(self._columns)
            rows = read_samples(file.path, file.columns_read, self._limit)
        else:
            rows = islice(file.traces.samples_and_bad_rows(), self._limit)
        for row in rows:
            if file.traces is not None and isinstance(row, RowError):
                row = RowError(f"{file.path}: {row}")
            if self._stops_at_bad_row and isinstance(row, RowError):
                raise row
            if isinstance(row, Sample):
                self.keys.look_in(row)
            yield row
        if file.traces is not None:
            sentences = file.traces.notes.sentences
            file.notes = [f"{sentence} ({file.path.name})" for sentence in sentences]

    def described(self, facts: RunFacts) -> RunFacts:
        """Return the facts of a run, with the files that it reads.

        The number of rows of a file is None until the file is read to its end.
        """
        inputs = tuple(
            Input(
                name=file.path.name,
                sha256=(file.at_first or file.digest())[0],
                rows=file.rows if file.is_read_to_its_end else None,
            )
            for file in self._files
        )
        left_out = tuple(
            f"no more than {self._limit:,} rows of {file.path.name} read, by --limit"
            for file in self._files
            if file.rows == self._limit
        )
        # fields whose column differs by row, and traces that gave no complete sample
        notes = [*facts.notes]
        for file in self._files:
            sentences = file.columns_read.sentences
            notes += [f"{sentence} ({file.path.name})" for sentence in sentences]
            notes += file.notes
        changes = {"inputs": inputs, "left_out": left_out, "notes": tuple(notes)}
        return facts.model_copy(update=changes)

    def say_why_idle(self, reasons: Mapping[str, str]) -> None:
        """Print for each file why no metric applies to its rows, and what to do.

        Example: "ragmetrics: no metric applies to rows.csv (rows: 9, bad: 0;
        context_adherence: no contexts); its columns are question, answer, chunks_found;
        name the one that holds it: --contexts-column chunks_found".

        Args:
            reasons: Why each metric is undefined, such as "no answer", by its name.
        """
        why_undefined = "".join(f"; {name}: {why}" for name, why in reasons.items())
        # a reason such as "no answer" names the field whose column was not found
        missing_fields = [name for name in COLUMNS if f"no {name}" in why_undefined]
        options = [f"--{name.replace('_', '-')}-column NAME" for name in missing_fields]
        which = "the one that holds it" if len(options) == 1 else "those that hold them"
        for file in self._files:
            columns = [*file.columns_read.columns, *file.columns_read.unread]
            hint = ""
            if columns and options:
                names = names_in_words(dict.fromkeys(columns), most=_SHOWN_COLUMNS)
                named = ", ".join(options)
                hint = f"; its columns are {names}; name {which}: {named}"
            sentence = (
                f"no metric applies to {file.path} (rows: {file.rows}, bad:"
                f" {file.bad}{why_undefined}){hint}"
            )
            if not file.rows and not file.notes:
                sentence = _no_rows(file.path)
            print(as_line(f"ragmetrics: {sentence}"), file=sys.stderr)
        for file in self._files:
            for note in file.notes:
                print(f"ragmetrics: {note}", file=sys.stderr)

    @property
    def remarks(self) -> list[str]:
        """Lines on columns that no field was made of."""
        lines = []
        for file in self._files:
            if file.columns_read.unread:
                names = names_in_words(file.columns_read.unread, most=_SHOWN_COLUMNS)
                lines.append(
                    f"{file.path}: columns that were not recognised: {names}, kept as"
                    " metadata"
                )
        return lines
