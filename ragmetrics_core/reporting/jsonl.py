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
    "citations_unknown",
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
        header, self._header = self._header, ""
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
    """Read the run's facts and the rows of a file that ``JsonlWriter`` wrote.

    They are returned as they stand there. A file of rows alone, as ``JsonlSink`` writes
    it, is read as well: see ``facts_of_rows``.

    Fields that a newer version added are ignored; a last line that was cut off by a
    crash is left out and named in the run's notes.

    Raises:
        InputError: If the file cannot be read, is no report, or a line is broken; the
            message names the line.
    """
    lines: Iterator[tuple[str, Any]] = read_own_lines(path, "the report")
    place, first = next(lines, ("", None))
    if not place:
        raise InputError(
            f"{path} is empty: a sink has seen no run yet, or another file was meant"
        )
    if is_row_of_results(first):
        content = _ReportContent(RunFacts())
        content.take_all(chain([(place, first)], lines))
        return _report_of_rows(content.results, content.run.notes, Path(path).name)
    content = _ReportContent(_run_of_header(first, place))
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
        """Take one line: a row, or the closing line, which has the facts at the end."""
        number = place.rpartition(" ")[2]
        if self._number_of_closing_line:
            raise InputError(
                f"{place}: nothing may follow the closing line"
                f" {self._number_of_closing_line}"
            )
        # a process that crashed while it wrote leaves half a line
        if isinstance(value, CutOffLine):
            note = f"line {number} of the report was cut off and is left out"
            self.run = self.run.model_copy(update={"notes": (*self.run.notes, note)})
        elif isinstance(value, RowError):
            raise InputError(f"{place}: {value}")
        elif not isinstance(value, dict):
            kind = type(value).__name__
            raise InputError(f"{place}: a JSON object is needed, got {kind}")
        elif "run" in value and "index" not in value:
            self.run = validate_data(RunFacts, value["run"], place)
            self._number_of_closing_line = number
        else:
            self.results.append(validate_data(SampleResult, value, place))


def is_row_of_results(value: object) -> bool:
    """Whether a line is one row of results, as ``JsonlSink`` writes them."""
    fields_of_every_row = {"index", "sample", "results", "problem"}
    return isinstance(value, Mapping) and value.keys() >= fields_of_every_row


def _report_of_rows(
    results: Iterable[SampleResult], notes: tuple[str, ...], name: str
) -> tuple[RunFacts, tuple[SampleResult, ...]]:
    """The facts and rows of a file without a header.

    The rows are numbered anew in the order of the file: each process that appends to
    it numbers its own from 0.
    """
    rows = tuple(
        row.model_copy(update={"index": number}) for number, row in enumerate(results)
    )
    inputs = Input.of_samples(row.sample for row in rows)
    inputs = inputs.model_copy(update={"name": name})
    facts = facts_of_rows(rows)
    notes = (*notes, *facts.notes)
    return facts.model_copy(update={"inputs": (inputs,), "notes": notes}), rows


def facts_of_rows(rows: Iterable[SampleResult]) -> RunFacts:
    """What rows alone tell of the run, or the runs, that they come from.

    Judges, models and the signature of each metric are known. When it began and how
    long it took is not. A metric that was measured in several ways has a note.
    """
    judges: dict[str, None] = {}
    models: dict[str, None] = {}
    signatures: dict[str, dict[str, Signature]] = {}  # by metric, each by its line
    for row in rows:
        models.update(dict.fromkeys(row.usage.models))
        for name, result in row.results.items():
            if result.judge:
                judges[result.judge] = None
            if result.signature is not None:
                own_signature = result.signature.without_judge()
                signatures.setdefault(name, {})[str(own_signature)] = own_signature
    notes = [
        f"{name} was measured in {len(ways)} ways in these rows: its numbers are over"
        " all of them"
        for name, ways in signatures.items()
        if len(ways) > 1
    ]
    metrics = {name: next(iter(ways.values())) for name, ways in signatures.items()}
    return RunFacts(
        judges=tuple(judges), models=tuple(models), metrics=metrics, notes=tuple(notes)
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
    """The fields of a model; contexts that were never recorded are no empty list."""
    written = {**model.__dict__, **(model.__pydantic_extra__ or {})}
    for name in _LATER:
        if written.get(name) is None:
            written.pop(name, None)
    if isinstance(model, Sample) and "contexts" not in model.model_fields_set:
        del written["contexts"]
    return written


def plain(value: object, above: frozenset[int] = frozenset()) -> object:
    """Return anything as JSON data.

    NaN and infinity become null. What JSON cannot hold becomes its text. Circles end
    (``above``).
    """
    value = plain_data(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, str):
        return replace_surrogates(str.__str__(value))
    if id(value) in above or len(above) > _DEEPEST:
        return f"<{type(value).__name__}>"
    above = above | {id(value)}
    if isinstance(value, BaseModel):
        value = _fields_to_write(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {
            str(replace_surrogates(str(key))): plain(element, above)
            for key, element in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(element, above) for element in value]
    return replace_surrogates(str(value))
