"""Which column of a row holds which field of a sample.

What columns are called decides, never what their cells hold:

- Of the usual names of a field, the first that the row has names its column. An empty
  cell there is an empty field; no other column stands in for it.
- Two filled columns that may hold one field and differ are refused, because nobody can
  say which is meant.
- A column that is named for a field holds that field and no other.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from ragmetrics_core.data import cells
from ragmetrics_core.data.cells import (
    data_in,
    follow_path,
    is_filled,
    looks_like_list,
    number_as_text,
    plain_data,
)
from ragmetrics_core.data.citations import is_citations, is_numbering
from ragmetrics_core.data.errors import (
    AmbiguousColumns,
    NoSuchColumn,
    RowError,
    SettingError,
)
from ragmetrics_core.data.messages import said_messages
from ragmetrics_core.data.nearest import did_you_mean, names_in_words, plain_name
from ragmetrics_core.data.sample import Context

# Per field of the sample, the column names in use, the most specific first. Compared
# without case, spaces, hyphens and underscores. A name with a dot is a column's name,
# or a path into a column. Where a column holds an object, the same names are looked for
# in it. In DeepEval, `context` is the ideal one and `retrieval_context` what was
# retrieved.
_COLUMNS: dict[str, list[str]] = json.loads(
    files("ragmetrics_core.data").joinpath("columns.json").read_text("utf-8")
)
# Columns that may hold a whole request or reply, in which contexts and earlier turns
# stand, too.
_HOLDERS = (
    "outputs",
    "output",
    "response",
    "result",
    "prediction",
    "inputs",
    "input",
    "request",
)


def _with_paths(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, then the dotted paths to each of them.

    The paths lead into the columns that hold a whole request or reply.
    """
    paths = (
        f"{holder}.{name}" for holder in _HOLDERS for name in names if "." not in name
    )
    return tuple(dict.fromkeys((*names, *paths)))


_FIELDS_IN_REQUESTS = ("contexts", "history")
USUAL_NAMES = {
    field: _with_paths(names) if field in _FIELDS_IN_REQUESTS else tuple(names)
    for field, names in _COLUMNS.items()
}

# Fields that are texts: an object in such a column is searched for the names above and
# for these. Of messages the last one of this speaker is meant.
_INNER_NAMES = {
    "question": (),
    "answer": ("content", "text"),
    "reference": ("answer", "output", "response", "text"),
}
_SPEAKERS = {"question": "user", "answer": "assistant", "reference": "assistant"}
_SHOWN_COLUMNS = 50  # in a message
_DEEPEST = 4  # objects in objects, or in JSON that stands in them as a text
SEVERAL_ANSWERS = ("answers", "responses", "predictedanswers", "replies")
# columns of our own results, and what their objects have
_KEY_IN_OWN_RESULTS = {"ledger": "calls", "capture": "evidence_from"}
# Fields that two columns may claim. A question has one rank of names: what stands
# behind it holds a whole prompt, a request, or what was searched for.
_FIELDS_WITH_RIVALS = ("contexts", "answer", "reference")
# DeepEval's names: what was retrieved, and beside it the ideal
_DEEPEVAL_CONTEXTS = ("retrievalcontext", "context")
_DEEPEVAL_JOINS = "|"
_DEEPEVAL_OUTPUTS = ("actualoutput", "expectedoutput")
# of its data frames
_PHOENIX_MARKS = ("context.span_id", "context.trace_id", "document_position")

Row = Mapping[str, Any]


class Place(NamedTuple):
    """A column or path, and what it holds for a field.

    Not certain where that is an object without a known name.
    """

    value: Any
    column: str
    certain: bool = True


def find_places(row: Row, columns: Mapping[str, Any]) -> dict[str, Place]:
    """Per field of a sample its place in the row.

    A field whose column is empty has a place that holds nothing.

    Raises:
        SettingError: If ``columns`` names a field that samples do not have.
        NoSuchColumn: If the row lacks a column that was named.
        AmbiguousColumns: If two columns may hold one field, and differ.
    """
    _refuse_unknown_fields(columns)
    place_by_field: dict[str, Place] = {}
    for field, column in columns.items():
        if column is not None:
            place_by_field[field] = _named_place(row, field, column)
    cells_of_row = _Cells(row)
    for field, names in _usual_names_for_row(row).items():
        if field not in place_by_field:
            columns_in_use = {
                place.column
                for place in place_by_field.values()
                if place.value is row.get(place.column)
            }
            place = _choose_place(
                field,
                list(_possible_places(cells_of_row, field, names, columns_in_use)),
            )
            if place is not None:
                place_by_field[field] = place
    if "contexts" in place_by_field and columns.get("contexts") is None:
        _refuse_joined_contexts(place_by_field["contexts"], cells_of_row)
    return place_by_field


def _usual_names_for_row(row: Row) -> Mapping[str, Sequence[str]]:
    """The usual names of each field that lead to a column of this row."""
    return _usual_names_leading_to(
        frozenset(name for name in row if isinstance(name, str))
    )


@lru_cache(maxsize=64)  # the rows of one file have the same columns
def _usual_names_leading_to(columns: frozenset[str]) -> Mapping[str, Sequence[str]]:
    plain_columns = {plain_name(column) for column in columns}

    def leads_to_a_column(usual: str) -> bool:
        holder = usual.partition(".")[0]
        return not plain_columns.isdisjoint((plain_name(usual), plain_name(holder)))

    return {
        field: tuple(filter(leads_to_a_column, names))
        for field, names in _usual_names_of_dialect(columns).items()
    }


def _usual_names_of_dialect(columns: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """All usual names of each field.

    In data frames of Phoenix ``reference`` is the retrieved text. In rows of DeepEval
    ``context`` is the ideal one, also where an export left out what was retrieved.
    """
    if _is_of_deepeval(columns):
        names = USUAL_NAMES["contexts"]
        retrieved = [name for name in names if name != _DEEPEVAL_CONTEXTS[1]]
        return {**USUAL_NAMES, "contexts": retrieved}
    if columns.isdisjoint(_PHOENIX_MARKS):
        return USUAL_NAMES
    references = [name for name in USUAL_NAMES["reference"] if name != "reference"]
    return {
        **USUAL_NAMES,
        "contexts": (*USUAL_NAMES["contexts"], "reference"),
        "reference": references,
    }


def _is_of_deepeval(columns: frozenset[str]) -> bool:
    """Whether a row has DeepEval's names.

    A row with ``output`` has Opik's, whose ``context`` is what was retrieved.
    """
    names = set(map(plain_name, columns))
    actual_output, expected_output = _DEEPEVAL_OUTPUTS
    if actual_output in names:
        return True
    return {"input", expected_output} <= names and "output" not in names


def _refuse_joined_contexts(place: Place, row: "_Cells") -> None:
    """Raise ``RowError`` for contexts that DeepEval has joined to one text.

    Each could hold the sign itself.
    """
    is_joined = (
        isinstance(place.value, str)
        and _DEEPEVAL_JOINS in place.value
        and not looks_like_list(place.value)
    )
    if (
        is_joined
        and plain_name(place.column) == _DEEPEVAL_CONTEXTS[0]
        and any(map(row.columns, _DEEPEVAL_OUTPUTS))
    ):
        raise RowError(
            f"contexts (column {place.column!r}): texts joined by {_DEEPEVAL_JOINS}, as"
            " DeepEval saves CSV and JSONL; "
            f'save the data set as JSON (save_as("json")), or take the cell as one'
            f" text: --contexts-column "
            f"{place.column} (in Python contexts_column=)"
        )


def _refuse_unknown_fields(columns: Mapping[str, Any]) -> None:
    unknown = set(columns) - set(USUAL_NAMES)
    if unknown:
        name = min(unknown)
        near, fields = did_you_mean(name, USUAL_NAMES), ", ".join(USUAL_NAMES)
        raise SettingError(f"no such field of a sample: {name}{near}; known: {fields}")


def _named_place(
    row: Row, field: str, column: str | Callable[[Mapping[str, Any]], Any]
) -> Place:
    """Return the place that the caller named for a field.

    It is what a callable gives, a column, or a path into a column.
    """
    if callable(column):
        try:
            return Place(column(row), "")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RowError(
                f"the function for {field} raised {type(error).__name__} on this row"
            ) from error
    if column in row:
        place = _place_in_column(row[column], field, column)
        return Place(row[column], column) if place is None else place
    is_there, value = follow_path(row, column.split("."))
    if not is_there:
        present_columns = [str(name) for name in row]
        near, listed = (
            did_you_mean(column, present_columns),
            names_in_words(present_columns, most=_SHOWN_COLUMNS) or "no columns",
        )
        raise NoSuchColumn(
            f"no column {column!r} for {field}{near}; the row has: {listed}"
        )
    return Place(value, column)


class _Cells:
    """A row's cells, found by the names that people write.

    What stands in a cell as text is read once.
    """

    def __init__(self, row: Row) -> None:
        self._row = row
        self._by_plain_name: dict[str, list[str]] = {}
        self._structured: dict[str, Any] = {}
        for name in row:
            if isinstance(name, str):
                self._by_plain_name.setdefault(plain_name(name), []).append(name)

    def columns(self, usual: str) -> Sequence[str]:
        """The columns that a usual name means; one of exactly that name comes first."""
        names = self._by_plain_name.get(plain_name(usual), ())
        return (
            names
            if len(names) < 2
            else sorted(names, key=lambda column: column != usual)
        )

    def value(self, column: str) -> Any:
        """What a column holds."""
        return self._row[column]

    def follow(self, column: str, path: Sequence[str]) -> tuple[bool, Any]:
        """What a path into a column leads to, and whether something is there."""
        if column not in self._structured:
            self._structured[column] = data_in(self._row[column])
        return follow_path(self._structured[column], path)


def _possible_places(
    row: _Cells, field: str, names: Sequence[str], columns_in_use: set[str]
) -> Iterator[Place]:
    """Where a field may be by its usual names, in their order.

    A column that is another field is no place.
    """
    for usual in names:
        holder, _, path = usual.partition(".")
        columns = row.columns(usual)
        for column in columns:
            place = (
                None
                if column in columns_in_use
                else _place_in_column(row.value(column), field, column)
            )
            if place is not None:
                yield place
        if columns or not path:
            continue
        for column in row.columns(holder)[:1]:
            is_there, value = row.follow(column, path.split("."))
            if is_there:
                yield Place(value, f"{column}.{path}")


def _choose_place(field: str, places: Sequence[Place]) -> Place | None:
    """The place that holds a field, by its rank; None where there is none."""
    certain = [place for place in places if place.certain]
    if not certain:
        return places[0] if places else None
    place, *rivals = certain
    if not is_filled(place.value, field):
        return places[0]
    if field in _FIELDS_WITH_RIVALS:
        _refuse_rivals(field, place, rivals)
    return place


def _refuse_rivals(field: str, place: Place, rivals: Sequence[Place]) -> None:
    """Raise ``AmbiguousColumns`` if another filled place holds something else."""
    content = _comparable_content(field, place.value)
    for rival in rivals:
        if (
            content is None
            or not is_filled(rival.value, field)
            or _is_no_rival(field, place, rival)
        ):
            continue
        rival_content = _comparable_content(field, rival.value)
        if rival_content is not None and rival_content != content:
            raise AmbiguousColumns(
                f"columns {place.column!r} and {rival.column!r} may both hold the"
                f" {field}, and differ; name the right one: --{field}-column (in Python"
                f" {field}_column=), or leave the other out"
            )


def _is_no_rival(field: str, place: Place, rival: Place) -> bool:
    """Tell whether the second place is known to be no rival of the first.

    It is then a part of the first, the ideal context, or another field.
    """
    if rival.column.startswith(f"{place.column}."):
        return True
    name = plain_name(place.column.rpartition(".")[2])
    rival_name = plain_name(rival.column.rpartition(".")[2])
    if (name, rival_name) == _DEEPEVAL_CONTEXTS:
        return True
    names_of_retrieved = map(plain_name, _COLUMNS["retrieved"])
    return field == "contexts" and rival_name in names_of_retrieved


def _comparable_content(field: str, value: Any) -> object:
    """What two places of a field are compared by.

    None for what cannot be read as this field.
    """
    if field == "contexts":
        try:
            contexts = cells.read_contexts(value, field)
        except RowError:
            return None
        return [
            context.text if isinstance(context, Context) else context["text"]
            for context in contexts
        ]
    data = data_in(value)
    texts = list(data) if isinstance(data, (list, tuple)) else [plain_data(value)]
    return [
        text.strip() if isinstance(text, str) else number_as_text(text)
        for text in texts
    ]


def _place_in_column(value: Any, field: str, column: str) -> Place | None:
    """Return the place that a column is for a field; None if it is none.

    The place is the column's value or, if that is an object, the value in it.
    """
    name = plain_name(column)
    if field == "citations":  # a column of that name may hold addresses, or texts
        data = data_in(value)
        is_known = is_citations(data) or is_numbering(data)
        return Place(data, column) if is_known else None
    if field in _KEY_IN_OWN_RESULTS:  # a column of that name may hold anything else
        data = data_in(value)
        return (
            Place(data, column)
            if isinstance(data, Mapping) and _KEY_IN_OWN_RESULTS[field] in data
            else None
        )
    # e.g. the id of the conversation
    if field == "history" and not _may_be_history(value):
        return None
    if field not in _INNER_NAMES:
        return Place(value, column)
    # in a column of the field's own name JSON is the text
    data = value if name == field else data_in(value)
    if field == "answer" and name in SEVERAL_ANSWERS:
        # SQuAD's object holds the expected ones
        return None if isinstance(data, Mapping) else Place(value, column)
    inner = _text_in(data, field)
    if inner is not None:
        return Place(inner.value, column)
    return Place(value, column, certain=not isinstance(data, Mapping))


def _may_be_history(value: Any) -> bool:
    """Whether a cell is empty, a list or an object, or a text that begins as one.

    A single text is no history.
    """
    is_data = isinstance(data_in(value), (list, tuple, Mapping))
    return is_data or looks_like_list(value) or not is_filled(value, "history")


def _text_in(data: Any, field: str, depth: int = _DEEPEST) -> Place | None:
    """The text of a field in an object or in messages, or its several texts.

    None where it is not known to hold any.
    """
    place = _text_under(data, USUAL_NAMES[field], field, depth)
    if place is not None:
        return place
    texts = [
        message.text
        for message in said_messages(data)
        if message.role == _SPEAKERS[field]
    ]
    return (
        Place(texts[-1], "")
        if texts
        else _text_under(data, _INNER_NAMES[field], field, depth)
    )


def _text_under(
    data: Any, names: Sequence[str], field: str, depth: int
) -> Place | None:
    """Return what stands in an object under the first of these names.

    It stands there itself, or in an object of its own.
    """
    if not isinstance(data, Mapping):
        return None
    places = []
    for usual in names:
        if usual not in data:
            continue
        value = plain_data(data[usual])
        inner = _text_in(data_in(value), field, depth - 1) if depth else None
        if inner is not None:
            places.append(Place(inner.value, usual))
        elif not isinstance(value, Mapping):
            places.append(Place(value, usual))
    return _choose_place(field, places)
