"""Reports as JSON lines.

A report is a header with the run's facts, one line per row, and a closing line when all
went well.

Every line stands alone, so that a run which crashes leaves everything it had measured.
The format is public: docs/results_format.md. Fields may be added under the same number;
what changes or leaves raises it, and every earlier number is read.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from ragmetrics_core.data import (
    PARTIAL,
    AtomicFile,
    InputError,
    RowError,
    SampleResult,
    SettingError,
    plain_data,
    read_own_lines,
    replace_surrogates,
)
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.results import Signature
from ragmetrics_core.reporting.run_facts import Input, RunFacts

FORMAT = 5
_KNOWS_MISSING = 4
"""From this number on ``[]`` says that nothing was found; before it also said nothing."""
_MAGIC = "ragmetrics_report"
# Written only where there is one: the others came under the same number, and contexts
# that were never recorded are told from none by this.
_WHERE_KNOWN = (
    "contexts",
    "shown_metadata",
    "ledger",
    "threshold",
    "expected_ids",
    "expected_contexts",
    "citations",
    "passages",
    "citations_unknown",
    "unread_texts",
    "prompt",
    "use",
    "appended",
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
    ``mark`` is a key of the header, by which a command knows its own files.

    Raises:
        InputError: If the file cannot be written.
    """

    def __init__(self, path: str | Path, run: RunFacts, mark: str = _MAGIC) -> None:
        self._file = AtomicFile(path, "the report")
        known_facts = {
            name: value
            for name, value in _fields_to_write(run).items()
            if name not in _UNFINISHED
        }
        self._header = json_line({_MAGIC: FORMAT, mark: FORMAT, "run": known_facts})
        self._closed = False

    @property
    def left(self) -> Path | None:
        """Where the rows of a run stand that was not finished.

        None if there are none, or all is well.
        """
        is_left = self._closed and not self._file.whole and self._file.written
        return self._file.partial if is_left else None

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
    (``capture.JsonlSink``). The rows are held against the run: those that are there twice count
    once, and a note says so. A broken line is a row that could not be read, as in any
    table. If rows are missing, lines are broken, or a sink's run was repeated,
    ``stopped`` of the run says why, so that no gate is decided on them. Example: a
    header, 3 rows and half a row give 3 rows, one whose ``problem`` names the line, and
    a run that was stopped.

    Raises:
        InputError: If the file cannot be read, is no report, or goes on behind its
            closing line; the message names the line.
        SettingError: If it is no path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise SettingError(
            f"one file of results is read, by its path; got a {type(path).__name__}."
            " Several are joined by the command: ragmetrics report FILE FILE"
        )
    unfinished = Path(f"{path}{PARTIAL}")
    if unfinished.is_file() and not Path(path).exists():
        raise InputError(
            f"there is no {path}: its run did not end, and {unfinished} is what it judged"
        )
    content = _ReportContent(Path(path).name)
    for place, value in read_own_lines(path, "the report"):
        content.take(place, value)
    if not content.first_place:
        raise InputError(
            f"{path} is empty: a sink has seen no run yet, or another file was meant"
        )
    run, rows = content.report()
    finished = Path(str(path).rpartition(PARTIAL)[0])
    if run.stopped and finished.is_file():
        stopped = f"{run.stopped}; {finished.name} beside this file is whole"
        run = run.model_copy(update={"stopped": stopped})
    return run, rows


class _ReportContent:
    """What the lines of a report's file hold: the facts of the run, and its rows."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.first_place = ""  # "" as long as no line was read
        self._run: RunFacts | None = None  # None for a file of rows alone
        self._tells_missing = True
        self._rows: list[SampleResult] = []
        self._rows_by_place: defaultdict[object, list[SampleResult]] = defaultdict(list)
        self._n_copies = 0
        self._problems: list[str] = []  # of each line that holds no row: why
        self._number_of_closing_line = ""  # as text; "" as long as none was read

    def take(self, place: str, value: object) -> None:
        """Take one line: the header, a row, or the closing line.

        Args:
            place: The file and line, such as "results.jsonl, line 3".
            value: What the line holds, or the error that says why it is no JSON.

        Raises:
            InputError: If the line stands behind the closing line, or the first line is
                the header of a report that this version cannot read.
        """
        line_number = place.rpartition(" ")[2]
        if self._number_of_closing_line:
            raise InputError(
                f"{place}: nothing may follow the closing line"
                f" {self._number_of_closing_line}; give each file by itself"
            )
        is_first_line = not self.first_place
        # it holds the facts at the run's end, and is no row
        is_closing_line = (
            isinstance(value, Mapping) and "run" in value and "index" not in value
        )
        self.first_place = self.first_place or place
        if is_first_line and isinstance(value, Mapping) and _MAGIC in value:
            if value[_MAGIC] not in range(1, FORMAT + 1):
                raise InputError(
                    f"{place}: this version reads formats 1 to {FORMAT}; read the"
                    " report with a newer ragmetrics"
                )
            # the facts as far as they were known when the run began
            known_facts = _run_facts(value.get("run", {}), place)
            self._run = known_facts.model_copy(update=_UNFINISHED)
            self._tells_missing = value[_MAGIC] >= _KNOWS_MISSING
        elif isinstance(value, Mapping) and is_closing_line and self._run:
            self._run = _run_facts(value["run"], place)
            self._number_of_closing_line = line_number
        else:
            try:
                self._take_row(place, value)
            except InputError as problem:
                self._problems.append(str(problem))

    def _take_row(self, place: str, value: object) -> None:
        """Take a row; ``InputError`` if the line holds none."""
        if isinstance(value, RowError):
            raise InputError(f"{place}: {value}")
        if not isinstance(value, Mapping):
            kind = type(value).__name__
            raise InputError(f"{place}: a JSON object is needed, got {kind}")
        row = validate_data(SampleResult, value, place)
        sample = row.sample
        if sample is not None and not self._tells_missing:
            # an old file says "no contexts" also where they were not known
            found_nothing = sample.retrieved == ()
            if sample.contexts == () and not found_nothing:
                sample = sample.model_copy(update={"contexts": None})
                row = row.model_copy(update={"sample": sample})
        rows_of_place = self._rows_by_place[row.index, row.appended]
        if row in rows_of_place:
            self._n_copies += 1
        else:
            rows_of_place.append(row)
            self._rows.append(row)

    def _stands_again(self, index: int) -> bool:
        """Whether one sample stands twice in this place, as if two processes read it.

        By its id and question, if it has an id: the application may answer otherwise.
        """
        samples = [row.sample for row in self._rows if row.index == index]
        known = [
            (sample.id, sample.question)
            if sample is not None and sample.id is not None
            else json_line(sample)
            for sample in samples
        ]
        return len(set(known)) < len(known)

    def report(self) -> tuple[RunFacts, tuple[SampleResult, ...]]:
        """Return the facts of the run and its rows, held against each other.

        Raises:
            InputError: If no line is the header of a report or one of its rows, or all
                rows are broken.
        """
        if self._problems and not self._rows:
            if self._run is not None:
                raise InputError(self._problems[0])
            raise InputError(
                f"{self.first_place}: no results of ragmetrics begin here; judge rows"
                " or traces first: ragmetrics evaluate FILE --out results.jsonl"
            )
        rows = tuple(self._rows)
        if self._run is None:
            # A file without a header, as a sink writes it: each process that appends to
            # it numbers its rows from 0, so they are numbered anew.
            rows = tuple(
                row.model_copy(update={"index": new_index})
                for new_index, row in enumerate(rows)
            )
        # a broken line takes the place of a row that is missing
        numbers_of_rows = {row.index for row in rows}
        free_numbers = (number for number in count() if number not in numbers_of_rows)
        rows += tuple(
            SampleResult(index=number, sample=None, problem=problem)
            for problem, number in zip(self._problems, free_numbers, strict=False)
        )
        if self._run is None:
            file_facts = Input.of_samples(row.sample for row in rows)
            file_facts = file_facts.model_copy(update={"name": self._name})
            run = facts_of_rows(rows).model_copy(update={"inputs": (file_facts,)})
            reason = ""
            if not any(
                row.appended for row in rows
            ):  # the rows of a run, whose header was left out
                reason = "its file has no header, and rows may be missing"
            # Each process may begin with the same health check. Two rows are a run.
            elif self._stands_again(0) and self._stands_again(1):
                reason = (
                    "its first rows stand there again, as of a run that was repeated,"
                    " and rows may count twice; begin a new file for each run"
                )
        else:
            run = self._run
            reason = _why_not_whole(rows, run)
        left_out = run.left_out
        if self._n_copies:
            left_out += (
                f"{count_in_words(self._n_copies, 'row')} of {self._name}"
                " stood there before, and counted once",
            )
        if self._problems:
            lines = count_in_words(len(self._problems), "line")
            reason = f"{lines} could not be read: {self._problems[0]}"
        changes: dict[str, object] = {"left_out": left_out}
        if reason:
            changes["stopped"] = run.stopped or reason
        return run.model_copy(update=changes), rows


def _why_not_whole(rows: Sequence[SampleResult], run: RunFacts) -> str:
    """Say why rows are not all those of their run; "" if they are.

    Rows and their numbers are held against the rows of the run's inputs.
    """
    numbers_of_rows = {row.index for row in rows}
    if len(numbers_of_rows) < len(rows):
        return "different rows of its file have the same index"
    highest = max(numbers_of_rows, default=-1)
    n_rows = highest + 1
    rows_of_inputs = [source.rows for source in run.inputs if source.rows is not None]
    if run.inputs and len(rows_of_inputs) == len(run.inputs):
        n_rows = sum(rows_of_inputs)
    if highest >= n_rows:
        return f"its file has a row {highest + 1:,}, and the run had {n_rows:,} rows"
    if len(rows) < n_rows:
        return f"only {len(rows):,} of its {n_rows:,} rows are in the file"
    return ""


def is_line_of_results(value: object) -> bool:
    """Whether a line is the header of results, or a row as ``JsonlSink`` writes them."""
    if not isinstance(value, Mapping):
        return False
    fields_of_every_row = {"index", "sample", "results", "problem"}
    return _MAGIC in value or value.keys() >= fields_of_every_row


def facts_of_rows(rows: Iterable[SampleResult]) -> RunFacts:
    """Gather what rows alone tell of the run, or the runs, that they come from.

    Rows name the judges, the models and the signature of each metric, which says how
    the metric was measured. They do not say when the run began or how long it took. If
    a metric has several signatures, that of the earliest row counts.
    """
    judges: dict[str, None] = {}  # dictionaries of None: sets that keep the order
    models: dict[str, None] = {}
    signature_by_metric: dict[str, Signature] = {}
    for row in rows:
        models.update(dict.fromkeys(row.usage.models))
        for metric, result in row.results.items():
            if result.judge:
                judges[result.judge] = None
            signature = result.signature.without_judge()
            signature_by_metric.setdefault(metric, signature)
    return RunFacts(
        judges=tuple(judges), models=tuple(models), metrics=signature_by_metric
    )


def _run_facts(value: Any, place: str) -> RunFacts:
    """The facts of a run; up to number 4 a run could stop once its gates were decided."""
    run = validate_data(RunFacts, value, place)
    if not value.get("decisions") or run.stopped:
        return run
    why = "it stopped when its gates were decided, so its rows were chosen by scores"
    return run.model_copy(update={"stopped": why})


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
    """A line of a file of ours; see ``json_data``."""
    return json.dumps(json_data(value), ensure_ascii=False, allow_nan=False) + "\n"


def _fields_to_write(model: BaseModel) -> dict[str, object]:
    """Return the fields of a model, some of them only where they are known."""
    written = {**model.__dict__, **(model.__pydantic_extra__ or {})}
    for name in _WHERE_KNOWN:
        if written.get(name) is None:
            written.pop(name, None)
    return written


def json_data(value: object, holder_ids: frozenset[int] = frozenset()) -> object:
    """Turn any object into data that JSON can hold.

    Models and dataclasses become objects of their fields. NaN and infinity become null.
    Anything else that JSON cannot hold becomes its text. Example: ``(1, nan,
    Path("a"))`` becomes ``[1, None, "a"]``.

    An object whose own code raises is left out: a text in its place says so.

    Args:
        value: The object.
        holder_ids: The ``id()`` of each object that holds this one, directly or not. An
            object that holds itself, or is held by too many, becomes its class's name.
    """
    try:
        return _json_data(value, holder_ids)
    except Exception as error:  # noqa: BLE001  # a user's object: the rest of the file counts
        return f"<{type(value).__name__}, left out: {type(error).__name__}>"


def _json_data(value: object, holder_ids: frozenset[int]) -> object:
    """Turn an object into data, as ``json_data`` does, with whatever its code raises."""
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
            str(replace_surrogates(str(key))): json_data(element, holder_ids)
            for key, element in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_data(element, holder_ids) for element in value]
    return replace_surrogates(str(value))
