"""Reports as JSON lines: a header with the run's facts, one line per row, a closing line when all went well.

Every line stands alone, so that a run which crashes leaves everything it had measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from ragmetrics_core.data.cells import plain_data
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.files import Aside
from ragmetrics_core.data.frozen import clean
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.reporting.run_facts import RunFacts

FORMAT = 1
_MAGIC = "ragmetrics_report"
_DEEPEST = 100
_UNFINISHED = {"interrupted": True, "stopped": "the report has no closing line: the run was killed or still goes on"}

M = TypeVar("M", bound=BaseModel)


class JsonlWriter:
    """Writes a report while the run goes on, bounded in memory; each row is on disk when ``write`` returns.

    Until ``close`` the rows stand in ``PATH.partial``, which says that the run was interrupted; what a process that
    dies leaves is a report, too. An existing file is replaced only by a finished run.

    Args:
        path: The file to write.
        run: What is known of the run at its start.

    Raises:
        InputError: If the file cannot be written.
    """

    def __init__(self, path: str | Path, run: RunFacts) -> None:
        self._file = Aside(path, "the report")
        self._header = _json_line({_MAGIC: FORMAT, "run": run.model_copy(update=_UNFINISHED)})
        self._closed = False

    @property
    def left(self) -> Path | None:
        """Where the rows of a run stand that was not finished; None if there are none, or all is well."""
        return self._file.partial if self._closed and not self._file.whole and self._file.written else None

    def write(self, result: SampleResult) -> None:
        """Write one row; rows may come in any order."""
        self._line(result)

    def close(self, run: RunFacts | None = None, *, whole: bool | None = None) -> None:
        """End the file.

        Args:
            run: The facts of the run; None leaves the report marked as interrupted.
            whole: Whether the report takes its place; by default if the run was not interrupted.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if run is not None and (whole or self._file.written or not run.interrupted):
                self._line({"run": run})
            if whole if whole is not None else run is not None and not run.interrupted:
                self._file.finish()
        finally:
            self._file.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _line(self, value: object) -> None:
        header, self._header = self._header, ""
        self._file.write(header + _json_line(value))


def write_report(path: str | Path, run: RunFacts, results: Iterable[SampleResult]) -> None:
    """Write a finished report.

    Args:
        path: The file to write; an existing one is replaced.
        run: The run's facts.
        results: One result per row.

    Raises:
        InputError: If the file cannot be written.
    """
    with JsonlWriter(path, run) as writer:
        for result in results:
            writer.write(result)
        writer.close(run, whole=True)


def read_report(path: str | Path) -> tuple[RunFacts, tuple[SampleResult, ...]]:
    """Read a report; fields that a newer version added are ignored.

    Args:
        path: A file written by ``JsonlWriter`` or ``write_report``.

    Returns:
        The run's facts and the rows as they stand in the file. A last line that was cut off by a crash is
        left out and named in the run's notes.

    Raises:
        InputError: If the file cannot be read, is no report, or a line is broken; the message names the line.
    """
    path = Path(path)
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"the report {path} cannot be read: {error.strerror}") from error
    run = _header(path, lines[0])
    results: list[SampleResult] = []
    closed_at = 0
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        if closed_at:
            raise InputError(f"{place}: nothing may follow the closing line {closed_at}")
        try:
            row = _object(line, place)
        except InputError:
            if number < len(lines):
                raise
            note = f"line {number} of the report was cut off and is left out"
            run = run.model_copy(update={"notes": (*run.notes, note)})
            continue
        if "run" in row and "index" not in row:
            run, closed_at = _validated(RunFacts, row["run"], place), number
        else:
            results.append(_validated(SampleResult, row, place))
    return run, tuple(results)


def _header(path: Path, line: bytes) -> RunFacts:
    wanted = f'its first line must be {{"{_MAGIC}": {FORMAT}, "run": {{…}}}}'
    try:
        header = _object(line, f"{path}, line 1")
    except InputError as error:
        raise InputError(f"{path}, line 1: this is no report of ragmetrics; {wanted}") from error
    if _MAGIC not in header:
        raise InputError(f"{path}, line 1: this is no report of ragmetrics; {wanted}")
    if header[_MAGIC] != FORMAT:
        raise InputError(f"{path}, line 1: this version reads format {FORMAT}; read the report with a newer ragmetrics")
    return _validated(RunFacts, header.get("run", {}), f"{path}, line 1")


def _object(line: bytes, place: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: this is no complete JSON") from error
    if not isinstance(value, dict):
        raise InputError(f"{place}: a JSON object is needed, got {type(value).__name__}")
    return value


def _validated(model: type[M], value: Any, place: str) -> M:
    """Validate what was read, leaving out fields that this version does not know.

    ``extra="ignore"`` would also empty the evidence of foreign metrics, which may hold any field.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_context=False, include_input=False):
            if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
                _drop(value, problem["loc"])
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise InputError(f"{place}: {where or model.__name__}: {problem['msg']}") from error


def _drop(value: Any, location: tuple[int | str, ...]) -> None:
    """Delete what a validation error points to; tags of unions in the location name no key."""
    for part in location[:-1]:
        if isinstance(value, dict):
            value = value.get(part, value)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
    if isinstance(value, dict):
        value.pop(location[-1], None)


def _json_line(value: object) -> str:
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: object, above: frozenset[int] = frozenset()) -> object:
    """Anything as JSON data: NaN and infinity become null, what JSON cannot hold becomes its text.

    Args:
        value: A model, a data class, or anything that metadata may hold.
        above: Identities of the values that hold this one, so that circles end.
    """
    value = plain_data(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, str):
        return clean(str.__str__(value))
    if id(value) in above or len(above) > _DEEPEST:
        return f"<{type(value).__name__}>"
    above = above | {id(value)}
    if isinstance(value, BaseModel):
        value = {**value.__dict__, **(value.__pydantic_extra__ or {})}
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(clean(str(key))): plain(item, above) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, above) for item in value]
    return clean(str(value))
