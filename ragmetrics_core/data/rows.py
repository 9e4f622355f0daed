"""Samples from rows of tables: the field's usual column names are found, none needs to be configured."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from pydantic import ValidationError

from ragmetrics_core.data import cells
from ragmetrics_core.data.cells import follow, number_as_text, plain_data, present, structured
from ragmetrics_core.data.errors import NoSuchColumn, RowError, SettingError
from ragmetrics_core.data.messages import messages_said
from ragmetrics_core.data.nearest import did_you_mean, plain_name
from ragmetrics_core.data.sample import Sample

# Per field of the sample, the column names in use; the first that the row has, wins. Compared without case,
# spaces, hyphens and underscores. A name with a dot is a column's name, or a path into a column. Where a column
# holds an object, the same names are looked for in it. In DeepEval, `context` is the ideal one and
# `retrieval_context` what was retrieved.
_COLUMNS: dict[str, list[str]] = json.loads(files("ragmetrics_core.data").joinpath("columns.json").read_text("utf-8"))
# Columns that may hold a whole request or reply, in which contexts and earlier turns stand, too.
_HOLDERS = ("outputs", "output", "response", "result", "prediction", "inputs", "input", "request")


def _with_paths(names: Sequence[str]) -> tuple[str, ...]:
    """The names, then the paths to each of them in the columns that hold a whole request or reply."""
    paths = (f"{holder}.{name}" for holder in _HOLDERS for name in names if "." not in name)
    return tuple(dict.fromkeys((*names, *paths)))


_HELD = ("contexts", "history")
USUAL_NAMES = {field: _with_paths(names) if field in _HELD else tuple(names) for field, names in _COLUMNS.items()}

# Fields that are texts: an object in such a column is searched for the names above and for these. Of messages the last
# one of this speaker is meant.
_INSIDE = {"question": (), "answer": ("content", "text"), "reference": ("answer", "output", "response", "text")}
_SPEAKERS = {"question": "user", "answer": "assistant", "reference": "assistant"}
_NESTED = 4  # objects in objects, or in JSON that stands in them as a text
_SEVERAL = ("answers", "responses", "predictedanswers", "replies")
_OWN = {"ledger": "calls", "capture": "evidence_from"}  # columns of our own results, and what their objects have
_NO_ERROR = ("false", "none", "null", "nan", "0")
_NEEDED = {
    **dict.fromkeys(("contexts", "retrieved"), "a text, or a list of texts or of objects with a text"),
    "reference": "a text or a list of texts",
    "facts": "a list of texts",
    "history": "a list of texts or of messages with a content",
}
Row = Mapping[str, Any]
_Found = dict[str, tuple[Any, str]]  # per field its value, and the column or path that it came from


def samples_from_row(row: Row, columns: Mapping[str, Any]) -> list[Sample]:
    """The samples of a row: one, or where the answer is a list of texts one per answer, with ids ``id#0``, ``id#1``, ….

    Arguments and errors are those of ``Sample.from_row``.
    """
    if not isinstance(row, Mapping):
        raise RowError(f"a row must be an object with named fields, got {type(row).__name__}")
    if set(row) == {"type", "init_parameters"} and isinstance(row["init_parameters"], Mapping):  # of Haystack
        row = {"answer" if name == "data" else name: value for name, value in row["init_parameters"].items()}
    found = _find(row, columns)
    answers = _answers(*found.get("answer", (None, "")))
    if len(answers) < 2:
        return [_sample(row, found, {"answer": answers[0]} if answers else {})]
    name = found.get("id", (None, ""))[0]
    ids = [f"{name}#{number}" if present(name) else None for number in range(len(answers))]
    return [_sample(row, found, {"answer": answer, "id": own}) for answer, own in zip(answers, ids, strict=True)]


def columns_by_field(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments such as ``question_column=`` by field of the sample; ``SettingError`` for other names."""
    for name in arguments:
        if not name.endswith("_column"):
            raise SettingError(f"unknown argument {name!r}; columns are named like question_column=")
    fields = {name.removesuffix("_column"): column for name, column in arguments.items() if column is not None}
    return {"reference" if name == "ground_truth" else name: column for name, column in fields.items()}


def _answers(value: Any, column: str) -> list[Any]:
    """Several answers, or the one in its list; [] where the answer is no list.

    An answer may itself be JSON: it is read as a list only in a column that is named for several.
    """
    data = structured(value) if plain_name(column) in _SEVERAL else plain_data(value)
    texts = isinstance(data, (list, tuple)) and all(isinstance(one, str) for one in data)
    return (list(data) or [None]) if texts else []


def _find(row: Row, columns: Mapping[str, Any]) -> _Found:
    unknown = set(columns) - set(USUAL_NAMES)
    if unknown:
        name = min(unknown)
        near, known = did_you_mean(name, USUAL_NAMES), ", ".join(USUAL_NAMES)
        raise SettingError(f"no such field of a sample: {name}{near}; known: {known}")
    plain = {plain_name(name): name for name in reversed(list(row)) if isinstance(name, str)}
    given = {name: column for name, column in columns.items() if column is not None}
    found = {name: _named(row, name, column) for name, column in given.items()}
    for name, (value, column) in found.items():
        if column in row:
            found[name] = _inside(value, name, plain_name(column))[0], column
    for name in USUAL_NAMES:
        if name not in found:
            taken = {column for value, column in found.values() if value is row.get(column)}
            for value, column, certain in _places(row, name, plain, taken):
                if certain or name not in found:  # an object without a known name, if there is nothing better
                    found[name] = value, column
                if certain:
                    break
    return found


def _named(row: Row, name: str, column: str | Callable[[Mapping[str, Any]], Any]) -> tuple[Any, str]:
    if callable(column):
        try:
            return column(row), ""
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RowError(f"the function for {name} raised {type(error).__name__} on this row") from error
    there, value = (True, row[column]) if column in row else follow(row, column.split("."))
    if not there:
        present_columns = [str(other) for other in row]
        near, listed = did_you_mean(column, present_columns), ", ".join(present_columns) or "no columns"
        raise NoSuchColumn(f"no column {column!r} for {name}{near}; the row has: {listed}")
    return value, column


def _places(row: Row, name: str, plain: Mapping[str, str], taken: set[str]) -> Iterator[tuple[Any, str, bool]]:
    """Where a field may be, by its usual names: value, column, and whether it is certainly what is looked for.

    A column that is the whole value of another field is no place.
    """
    for usual in USUAL_NAMES[name]:
        head, _, rest = usual.partition(".")
        column = usual if usual in row else plain.get(plain_name(usual))
        if column is not None:
            value, certain = _inside(row[column], name, plain_name(column))
            there = column not in taken
        else:
            column, certain = head if head in row else plain.get(plain_name(head), ""), True
            there, value = follow(row[column], rest.split(".")) if column and rest else (False, None)
        if there and present(value):
            yield value, column, certain


def _inside(value: Any, name: str, column: str) -> tuple[Any, bool]:
    """The value itself, or for a text the value in the object; False if the object has none."""
    if name in _OWN:  # a column of that name may hold anything else
        data = structured(value)
        return (data if isinstance(data, Mapping) and _OWN[name] in data else None), True
    if name not in _INSIDE:
        return value, True
    data = value if column == name else structured(value)  # in a column of the field's own name JSON is the text
    if name == "answer" and column in _SEVERAL:
        return (None, False) if isinstance(data, Mapping) else (value, True)  # SQuAD's are the expected ones
    text = _text_in(data, name)
    return (value, not isinstance(data, Mapping)) if text is None else (text, True)


def _text_in(data: Any, name: str, depth: int = _NESTED) -> Any:
    """The text of a field in an object or in messages, or its several texts; None where it is not known to hold any."""
    text = _text_under(data, USUAL_NAMES[name], name, depth)
    if text is not None:
        return text
    said = [message.text for message in messages_said(data) if message.role == _SPEAKERS[name]]
    return said[-1] if said else _text_under(data, _INSIDE[name], name, depth)


def _text_under(data: Any, names: Sequence[str], name: str, depth: int) -> Any:
    """What stands under the first of these names that holds a text, itself or in an object."""
    if not isinstance(data, Mapping):
        return None
    for usual in names:
        value = plain_data(data.get(usual))
        inner = _text_in(structured(value), name, depth - 1) if depth else None
        if inner is not None:
            return inner
        if present(value) and not isinstance(value, Mapping):
            return value
    return None


def _sample(row: Row, found: _Found, other: Mapping[str, Any]) -> Sample:
    values = {**{name: value for name, (value, _) in found.items()}, **other}
    values = {name: plain_data(value) for name, value in values.items() if present(value)}
    values = {name: _READERS.get(name, plain_data)(value) for name, value in values.items()}
    if "contexts" not in values and _has_column(row, "contexts"):
        values["contexts"] = ()  # recorded, and there were none
    used = {column if column in row else column.partition(".")[0] for _, column in found.values()}
    rest = {str(name): value for name, value in row.items() if name not in used and present(value)}
    try:
        return Sample(**{**values, "metadata": {**rest, **values.get("metadata", {})}})
    except ValidationError as error:
        raise RowError(_explain(error, found)) from None


def _has_column(row: Row, field: str) -> bool:
    usual = {plain_name(name) for name in USUAL_NAMES[field]}
    return any(isinstance(name, str) and plain_name(name) in usual for name in row)


def _texts(value: Any) -> list[Any]:
    """Reference texts; a text that holds a list of texts is that list."""
    data = structured(value)
    if isinstance(data, (list, tuple)) and (not isinstance(value, str) or all(isinstance(one, str) for one in data)):
        value = data
    return [number_as_text(item) for item in (value if isinstance(value, (list, tuple)) else [value]) if present(item)]


def _problem(value: Any) -> str | None:
    """The application's error as a text; False, also as tables write it, and empty objects say that there was none."""
    if isinstance(value, str):
        return None if value.strip().casefold() in _NO_ERROR else value
    return json.dumps(value, default=str, ensure_ascii=False) if value else None


# How fields are read from what a column holds; the others are taken as they are.
_READERS: dict[str, Callable[[Any], Any]] = {
    "contexts": lambda value: cells.contexts(value, "contexts"),
    "retrieved": lambda value: cells.contexts(value, "retrieved"),
    "facts": cells.facts,
    "history": cells.turns,
    "reference": _texts,
    "answer": number_as_text,
    "id": lambda value: str(number_as_text(value)),
    "error": _problem,
    "metadata": cells.metadata,
}


def _explain(error: ValidationError, found: _Found) -> str:
    """Which field needs what, and what was found: its type, never its text."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "row"
    number = next((f" number {part + 1}" for part in first["loc"][1:] if isinstance(part, int)), "")
    column = found.get(name, (None, ""))[1]
    place = f"{name}{number} (column {column!r})" if column and column != name else f"{name}{number}"
    if not first["type"].endswith("_type"):
        return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return f"{place}: needs {_NEEDED.get(name, 'a text')}, found {type(first['input']).__name__}"
