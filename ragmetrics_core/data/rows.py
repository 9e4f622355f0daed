"""Samples from rows of tables: the field's usual column names are found, none needs to be configured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ragmetrics_core.data.cells import follow, number_as_text, plain_data, present, structured
from ragmetrics_core.data.columns import USUAL_NAMES, plain_name
from ragmetrics_core.data.errors import RowError, SettingError
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.shapes import context, fact, items, turns

Column = str | Callable[[Mapping[str, Any]], Any]

# Fields that are texts: an object in such a column is searched for the names above and for these.
_INSIDE = {"question": (), "answer": ("content", "text"), "reference": ("answer", "output", "response", "text")}
_SEVERAL = ("answers", "responses", "predictedanswers", "replies")
_NO_ERROR = ("false", "none", "null", "nan", "0")
_EXPORTED = ("inputs", "outputs", "referenceoutputs")  # LangSmith's, which may hold objects as JSON
_NEEDED = {
    "contexts": "a text, or a list of texts or of objects with a text",
    "retrieved": "a text, or a list of texts or of objects with a text",
    "reference": "a text or a list of texts",
    "facts": "a list of texts",
    "history": "a list of texts or of messages with a content",
}


@dataclass
class _Found:
    """Values of the sample's fields, with the columns that they came from.

    Args:
        values: Per field.
        places: Per field the column or path.
        used: Columns that hold a field's value, or part of them does.
        whole: Those of them that are a field's value, and serve no other field.
    """

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)


def samples_from_row(row: Mapping[str, Any], columns: Mapping[str, Any]) -> list[Sample]:
    """Make the samples of one row: one, or where the answer is a list of texts, one per answer.

    Args:
        row: Column names to values.
        columns: Per field of the sample a name, dotted path or callable; fields not named are found.

    Returns:
        At least one sample. Several answers give ids ``id#0``, ``id#1``, ….

    Raises:
        RowError: If the row is no mapping, a value has a wrong type, or a named column is not there.
        SettingError: If ``columns`` names a field that samples do not have.
    """
    if not isinstance(row, Mapping):
        raise RowError(f"a row must be an object with named fields, got {type(row).__name__}")
    row = _unwrapped(row)
    found = _find(row, columns)
    answers = _answers(found)
    if len(answers) < 2:
        values = {**found.values, "answer": answers[0]} if answers else found.values
        return [_sample(row, values, found)]
    name = found.values.get("id")
    ids = [f"{name}#{number}" if present(name) else None for number in range(len(answers))]
    return [
        _sample(row, {**found.values, "answer": answer, "id": own}, found)
        for answer, own in zip(answers, ids, strict=True)
    ]


def sample_from_row(row: Mapping[str, Any], columns: Mapping[str, Any]) -> Sample:
    """Make the one sample of a row; see ``Sample.from_row``."""
    samples = samples_from_row(row, columns)
    if len(samples) > 1:
        raise RowError(f"the row holds {len(samples)} answers; evaluate() makes one sample of each")
    return samples[0]


def _unwrapped(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row itself, or what Haystack's ``GeneratedAnswer.to_dict`` wraps."""
    inner = row.get("init_parameters")
    if not (isinstance(inner, Mapping) and set(row) == {"type", "init_parameters"}):
        return row
    return {"answer" if name == "data" else name: value for name, value in inner.items()}


def _answers(found: _Found) -> list[Any]:
    """Several answers, or the one in its list; [] where the answer is no list.

    An answer may itself be JSON: it is read as a list only in a column that is named for several.
    """
    value = found.values.get("answer")
    several = plain_name(found.places.get("answer", "")) in _SEVERAL
    data = structured(value) if several else plain_data(value)
    if isinstance(data, (list, tuple)) and all(isinstance(one, str) for one in data):
        return list(data) or [None]
    return []


def _find(row: Mapping[str, Any], columns: Mapping[str, Any]) -> _Found:
    unknown = set(columns) - set(USUAL_NAMES)
    if unknown:
        raise SettingError(f"no such field of a sample: {', '.join(sorted(unknown))}; known: {', '.join(USUAL_NAMES)}")
    plain = {plain_name(name): name for name in reversed(list(row)) if isinstance(name, str)}
    found = _Found()
    for name, column in columns.items():  # named columns first: what they hold serves no other field
        if column is not None:
            found.values[name] = _called(row, name, column) if callable(column) else _named(row, name, column)
            found.places[name] = "" if callable(column) else column
            if not callable(column):
                found.used.add(column if column in row else column.split(".")[0])
                found.whole.add(column)
    for name in USUAL_NAMES:
        if name not in found.values:
            _search(row, name, plain, found)
    return found


def _called(row: Mapping[str, Any], name: str, column: Callable[[Mapping[str, Any]], Any]) -> Any:
    try:
        return column(row)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RowError(f"the function for {name} raised {type(error).__name__} on this row") from error


def _named(row: Mapping[str, Any], name: str, column: str) -> Any:
    if column in row:
        return row[column]
    there, value = follow(row, column.split("."))
    if not there:
        raise RowError(f"no column {column!r} for {name}; the row has: {', '.join(map(str, row)) or 'no columns'}")
    return value


def _search(row: Mapping[str, Any], name: str, plain: Mapping[str, str], found: _Found) -> None:
    """Find a field by its usual names; an object without any known name is kept if there is nothing better."""
    for usual in USUAL_NAMES[name]:
        column = usual if usual in row else plain.get(plain_name(usual))
        if column is not None:
            there, value = (
                _inside(row[column], name, plain_name(column)) if column not in found.whole else (False, None)
            )
        else:
            head, _, rest = usual.partition(".")
            column = head if head in row else plain.get(plain_name(head))
            there, value = follow(row[column], rest.split(".")) if column is not None and rest else (False, None)
        if column is None or not present(value) or not (there or name not in found.values):
            continue
        found.values[name], found.places[name] = value, column
        if there:
            found.used.add(column)
            if value is row[column]:
                found.whole.add(column)
            return
    if name in found.places:
        found.used.add(found.places[name])


def _inside(value: Any, name: str, column: str) -> tuple[bool, Any]:
    """The value itself, or for a text the value in the object; False if the object has none."""
    data = structured(value) if column in _EXPORTED else value
    if name not in _INSIDE or not isinstance(data, Mapping):
        return True, value
    if name == "answer" and column in _SEVERAL:  # as in SQuAD, where these are the expected ones
        return False, None
    for usual in (*USUAL_NAMES[name], *_INSIDE[name]):
        if present(data.get(usual)) and not isinstance(data[usual], Mapping):
            return True, data[usual]
    return False, value


def _sample(row: Mapping[str, Any], found_values: Mapping[str, Any], found: _Found) -> Sample:
    values = {name: plain_data(value) for name, value in found_values.items() if present(value)}
    for name in ("contexts", "retrieved"):
        if name in values:
            values[name] = [context(item, name, rank) for rank, item in enumerate(items(values[name]), start=1)]
    if "facts" in values:
        values["facts"] = [fact(item) for item in items(values["facts"])] or None
    if "history" in values:
        values["history"] = turns(values["history"])
    if "reference" in values:
        values["reference"] = [number_as_text(item) for item in _texts(values["reference"]) if present(item)]
    if "answer" in values:
        values["answer"] = number_as_text(values["answer"])
    if "id" in values:
        values["id"] = str(number_as_text(values["id"]))
    if "error" in values:
        values["error"] = _problem(values["error"])
    own = structured(values.pop("metadata", {}))
    rest = {str(name): value for name, value in row.items() if name not in found.used and present(value)}
    own = {str(key): value for key, value in own.items()} if isinstance(own, Mapping) else {"metadata": own}
    try:
        return Sample(**values, metadata={**rest, **own})
    except ValidationError as error:
        raise RowError(_explain(error, found)) from None


def _texts(value: Any) -> Sequence[Any]:
    """Reference texts; a text that holds a list of texts is that list."""
    data = structured(value)
    if isinstance(data, (list, tuple)) and (not isinstance(value, str) or all(isinstance(one, str) for one in data)):
        return data
    return [value]


def _problem(value: Any) -> str | None:
    """The application's error as a text; False, also as tables write it, and empty objects say that there was none."""
    if isinstance(value, str):
        return None if value.strip().casefold() in _NO_ERROR else value
    return json.dumps(value, default=str, ensure_ascii=False) if value else None


def _explain(error: ValidationError, found: _Found) -> str:
    """Which field needs what, and what was found: its type, never its text."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "row"
    number = next((f" number {part + 1}" for part in first["loc"][1:] if isinstance(part, int)), "")
    column = found.places.get(name)
    place = f"{name}{number} (column {column!r})" if column and column != name else f"{name}{number}"
    if not first["type"].endswith("_type"):
        return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return f"{place}: needs {_NEEDED.get(name, 'a text')}, found {type(first['input']).__name__}"
