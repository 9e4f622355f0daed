"""Reports as JSON lines.

A report is a header with the run's facts, one line per row, and a closing line when all
went well.

Every line stands alone, so that a run which crashes leaves everything it had measured.
The format is public: docs/results_format.md. Fields may be added under the same number;
what changes or leaves raises it, and every earlier number is read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from ragmetrics_core.data import (
    AtomicFile,
    CutOffLine,
    InputError,
    RowError,
    Sample,
    SampleResult,
    plain_data,
    read_own_lines,
    replace_surrogates,
)
from ragmetrics_core.data.results import Signature
from ragmetrics_core.reporting.run_facts import Input, RunFacts

FORMAT = 3
_MAGIC = "ragmetrics_report"
# came under the same number, so they are written only where there is one
_LATER = (
    "ledger",
    "row_key",
    "citations",
    "passages",
    "dropped_inside",
    "passages_dropped_inside",
    "passages_cut_inside",
    "cells_inside",
    "citations_unknown",
    "unread_texts",
)
_DEEPEST = 100
_UNFINISHED = {
    "interrupted": True,
    "stopped": "the report has no closing line: the run was killed or still goes on",
}

M = TypeVar("M", bound=BaseModel)


class JsonlWriter:
    """Writes a report while the run goes on, bounded in memory.

    Each row is on disk when ``write`` returns.

    Until ``close`` the rows stand in ``PATH.partial``, which says that the run was
    interrupted; what a process that dies leaves is a report, too. An existing file is
    replaced only by a finished run. ``run`` says what is known of it at its start.

    Raises:
        InputError: If the file cannot be written.
    """

    def __init__(self, path: str | Path, run: RunFacts) -> None:
        self._file = AtomicFile(path, "the report")
        self._header = json_line(
            {_MAGIC: FORMAT, "run": run.model_copy(update=_UNFINISHED)}
        )
        self._closed = False

    @property
    def left(self) -> Path | None:
        """Where the rows of a run stand that was not finished.

        None if there are none, or all is well.
        """
        return (
            self._file.partial
            if self._closed and not self._file.whole and self._file.written
            else None
        )

    def write(self, result: SampleResult | Mapping[str, RunFacts]) -> None:
        """Write one row, or what closes the file; rows may come in any order."""
        # the header stands above the first row only
        header = self._header
        self._header = ""
        self._file.write(header + json_line(result))

    def close(self, run: RunFacts | None = None, *, whole: bool | None = None) -> None:
        """End the file with the facts of the run.

        Without them the report stays marked as interrupted.

        ``whole`` says whether the report takes its place, by default if the run was not
        interrupted.
        """
        if self._closed:
            return
        self._closed = True
        whole = run is not None and not run.interrupted if whole is None else whole
        try:
            if run is not None and (whole or self._file.written):
                self.write({"run": run})
            if whole:
                self._file.finish()
        finally:
            self._file.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_report(path: str | Path) -> tuple[RunFacts, tuple[SampleResult, ...]]:
    """Read a report from a file: the facts of the run, and its rows.

    The file has a header, the rows and a closing line (``JsonlWriter``), or rows alone
    (``JsonlSink``). A last line that a crash cut off is left out and named in the run's
    notes. Example: a header, 3 rows and half a row give 3 rows and a note.

    Raises:
        InputError: If the file cannot be read, is no report, or a line is broken; the
            message names the line.
    """
    lines: Iterator[tuple[str, Any]] = read_own_lines(path, "the report")
    place, first_line = next(lines, ("", None))
    is_empty = not place
    if is_empty:
        raise InputError(
            f"{path} is empty: a sink has seen no run yet, or another file was meant"
        )
    has_header = not is_row_of_results(first_line)
    if not has_header:
        content = _ReportContent(RunFacts())
        content.take_all(chain([(place, first_line)], lines))
        return _report_of_rows(content.results, content.run.notes, Path(path).name)
    content = _ReportContent(_run_of_header(first_line, place))
    content.take_all(lines)
    return content.run, tuple(content.results)


class _ReportContent:
    """What the lines of a report's file hold: the facts of the run, and its rows."""

    def __init__(self, run: RunFacts) -> None:
        self.run = run
        self.results: list[SampleResult] = []
        self._number_of_closing_line = ""  # as text; "" as long as none was read

    def take_all(self, lines: Iterable[tuple[str, Any]]) -> None:
        """Take the lines behind the header, each with its place in words."""
        for place, value in lines:
            self._take(place, value)

    def _take(self, place: str, value: object) -> None:
        """Take one line: a row, or the closing line with the facts at the run's end.

        Example: a row's line is appended to ``results``; the closing line sets ``run``;
        a line that was cut off in its middle adds a note.

        Args:
            place: The file and line, such as "results.jsonl, line 3".
            value: What the line holds, or the error that says why it is no JSON.

        Raises:
            InputError: If the line is broken, or stands behind the closing line.
        """
        line_number = place.rpartition(" ")[2]
        if self._number_of_closing_line:
            raise InputError(
                f"{place}: nothing may follow the closing line"
                f" {self._number_of_closing_line}"
            )
        if isinstance(value, CutOffLine):  # a RowError too, so it is asked first
            note = f"line {line_number} of the report was cut off and is left out"
            self.run = self.run.model_copy(update={"notes": (*self.run.notes, note)})
        elif isinstance(value, RowError):
            raise InputError(f"{place}: {value}")
        elif not isinstance(value, dict):
            kind = type(value).__name__
            raise InputError(f"{place}: a JSON object is needed, got {kind}")
        elif _is_closing_line(value):
            self.run = validate_data(RunFacts, value["run"], place)
            self._number_of_closing_line = line_number
        else:
            self.results.append(validate_data(SampleResult, value, place))


def _is_closing_line(value: Mapping[str, object]) -> bool:
    """Whether a line holds the facts at the run's end, and is no row."""
    return "run" in value and "index" not in value


def is_row_of_results(value: object) -> bool:
    """Whether a line is one row of results, as ``JsonlSink`` writes them."""
    fields_of_every_row = {"index", "sample", "results", "problem"}
    return isinstance(value, Mapping) and value.keys() >= fields_of_every_row


def _report_of_rows(
    results: Iterable[SampleResult], notes: tuple[str, ...], name: str
) -> tuple[RunFacts, tuple[SampleResult, ...]]:
    """Return the facts and rows of a file without a header, as a sink writes it.

    The rows get new numbers in the order of the file, because each process that appends
    to it numbers its rows from 0. Example: rows 0, 1 and 0 become 0, 1 and 2.

    Args:
        results: The rows.
        notes: What a reader must know of how the file was read.
        name: The file's name.
    """
    rows = tuple(
        row.model_copy(update={"index": new_index})
        for new_index, row in enumerate(results)
    )
    file_facts = Input.of_samples(row.sample for row in rows)
    file_facts = file_facts.model_copy(update={"name": name})
    run_facts = facts_of_rows(rows)
    changes = {"inputs": (file_facts,), "notes": (*notes, *run_facts.notes)}
    return run_facts.model_copy(update=changes), rows


def facts_of_rows(rows: Iterable[SampleResult]) -> RunFacts:
    """Gather what rows alone tell of the run, or the runs, that they come from.

    Rows name the judges, the models and the signature of each metric, which says how
    the metric was measured. They do not say when the run began or how long it took. If
    a metric has several signatures, that of the earliest row counts, and a note says
    "context_recall was measured in 2 ways in these rows: …".
    """
    judges: dict[str, None] = {}  # dictionaries of None: sets that keep the order
    models: dict[str, None] = {}
    # by metric: its different signatures in the order of the rows, each by its text
    signatures_by_metric: dict[str, dict[str, Signature]] = {}
    for row in rows:
        models.update(dict.fromkeys(row.usage.models))
        for metric, result in row.results.items():
            if result.judge:
                judges[result.judge] = None
            if result.signature is not None:
                signature = result.signature.without_judge()
                signature_by_text = signatures_by_metric.setdefault(metric, {})
                signature_by_text[str(signature)] = signature
    notes = []
    first_signature_by_metric: dict[str, Signature] = {}
    for metric, signature_by_text in signatures_by_metric.items():
        different_signatures = list(signature_by_text.values())
        first_signature_by_metric[metric] = different_signatures[0]
        if len(different_signatures) > 1:
            notes.append(
                f"{metric} was measured in {len(different_signatures)} ways in these"
                " rows: its numbers are over all of them"
            )
    return RunFacts(
        judges=tuple(judges),
        models=tuple(models),
        metrics=first_signature_by_metric,
        notes=tuple(notes),
    )


def _run_of_header(header: object, place: str) -> RunFacts:
    """The facts of the run, as far as they were known when it began.

    Raises:
        InputError: If the line begins no report, or one of a newer version.
    """
    if not isinstance(header, dict) or _MAGIC not in header:
        raise InputError(
            f"{place}: no results of ragmetrics begin here; judge rows or traces first:"
            " ragmetrics evaluate FILE --out results.jsonl"
        )
    if header[_MAGIC] not in range(1, FORMAT + 1):
        raise InputError(
            f"{place}: this version reads formats 1 to {FORMAT}; read the report with a"
            " newer ragmetrics"
        )
    return validate_data(RunFacts, header.get("run", {}), place)


def validate_data(model: type[M], value: Any, place: str) -> M:
    """Check data of a file against a model; leave out fields unknown to this version.

    Raises ``InputError``, which names what is missing or wrong.
    """
    try:
        # evidence keeps the fields of foreign metrics
        return model.model_validate(value, extra="ignore")
    except ValidationError as error:
        problem = error.errors(
            include_url=False, include_context=False, include_input=False
        )[0]
        where = ".".join(map(str, problem["loc"]))
        raise InputError(
            f"{place}: {where or model.__name__}: {problem['msg']}"
        ) from error


def json_line(value: object) -> str:
    """A line of a file of ours; see ``plain``."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False) + "\n"


def _fields_to_write(model: BaseModel) -> dict[str, object]:
    """Return the fields of a model, without contexts that were never recorded."""
    written = {**model.__dict__, **(model.__pydantic_extra__ or {})}
    for name in _LATER:
        if written.get(name) is None:
            written.pop(name, None)
    if isinstance(model, Sample) and "contexts" not in model.model_fields_set:
        del written["contexts"]
    return written


def plain(value: object, holder_ids: frozenset[int] = frozenset()) -> object:
    """Turn any object into data that JSON can hold.

    Models and dataclasses become objects of their fields. NaN and infinity become null.
    Anything else that JSON cannot hold becomes its text. Example: ``(1, nan,
    Path("a"))`` becomes ``[1, None, "a"]``.

    Args:
        value: The object.
        holder_ids: The ``id()`` of each object that holds this one, directly or not. An
            object that holds itself, or is held by too many, becomes its class's name.
    """
    value = plain_data(value)  # numbers and arrays of numpy become numbers and lists
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, str):
        # A subclass of str may write itself otherwise. A lone surrogate is half of a
        # character, which no file can hold.
        return replace_surrogates(str.__str__(value))
    holds_itself = id(value) in holder_ids
    if holds_itself or len(holder_ids) > _DEEPEST:
        return f"<{type(value).__name__}>"
    holder_ids = holder_ids | {id(value)}
    if isinstance(value, BaseModel):
        value = _fields_to_write(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {
            str(replace_surrogates(str(key))): plain(element, holder_ids)
            for key, element in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(element, holder_ids) for element in value]
    return replace_surrogates(str(value))
