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
from ragmetrics_core.data.citations import is_citations
from ragmetrics_core.data.errors import (
    AmbiguousColumns,
    NoSuchColumn,
    RowError,
    SettingError,
)
from ragmetrics_core.data.messages import said_messages
from ragmetrics_core.data.nearest import did_you_mean, names_in_words, plain_name
from ragmetrics_core.data.numberings import is_numbering, without_missing_labels
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
    names_without_path = [name for name in names if "." not in name]
    all_names = list(names)
    for holder in _HOLDERS:
        all_names += [f"{holder}.{name}" for name in names_without_path]
    return tuple(dict.fromkeys(all_names))


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
_MOST_COLUMNS_SHOWN = 50  # in a message
_DEEPEST = 4  # objects in objects, or in JSON that stands in them as a text
SEVERAL_ANSWERS = ("answers", "responses", "predictedanswers", "replies")
# Columns of our own results, and a key that their objects have.
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
    """Where a row has a field of a sample.

    Args:
        value: What the place holds for the field.
        column: The column, or the dotted path into it; "" for what a callable gives.
        certain: False if the value is an object without a known name in it, which may
            be anything.
    """

    value: Any
    column: str
    certain: bool = True


def find_places(row: Row, columns: Mapping[str, Any]) -> dict[str, Place]:
    """Find where a row holds each field of a sample.

    Places that the caller names come first; the other fields are looked for under their
    usual names. A field whose column is empty has a place that holds nothing. A field
    that the row does not have is left out.

    Raises:
        SettingError: If ``columns`` names a field that samples do not have.
        NoSuchColumn: If the row lacks a column that was named.
        AmbiguousColumns: If two columns may hold one field, and differ.
    """
    _refuse_unknown_fields(columns)
    place_by_field: dict[str, Place] = {}
    for field, column in columns.items():
        if column is not None:
            place_by_field[field] = _place_of_name(row, field, column)
    cells_of_row = _Cells(row)
    for field, names in _usual_names_for_row(row).items():
        if field in place_by_field:
            continue
        # A column that is another field as a whole cannot be this one. Of a column with
        # an object in it, another part may be.
        columns_in_use = set()
        for place in place_by_field.values():
            is_whole_column = place.value is row.get(place.column)
            if is_whole_column:
                columns_in_use.add(place.column)
        places = list(_possible_places(cells_of_row, field, names, columns_in_use))
        chosen_place = _choose_place(field, places)
        if chosen_place is not None:
            place_by_field[field] = chosen_place
    if "contexts" in place_by_field and columns.get("contexts") is None:
        _refuse_joined_contexts(place_by_field["contexts"], cells_of_row)
    return place_by_field


def _usual_names_for_row(row: Row) -> Mapping[str, Sequence[str]]:
    """The usual names of each field that lead to a column of this row."""
    columns = frozenset(name for name in row if isinstance(name, str))
    return _usual_names_leading_to(columns)


@lru_cache(maxsize=64)  # the rows of one file have the same columns
def _usual_names_leading_to(columns: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """The usual names of each field that are one of these columns, or a path into one."""
    plain_columns = {plain_name(column) for column in columns}

    def leads_to_a_column(usual_name: str) -> bool:
        holder = usual_name.partition(".")[0]
        is_column = plain_name(usual_name) in plain_columns
        return is_column or plain_name(holder) in plain_columns

    names_by_field: dict[str, Sequence[str]] = {}
    for field, names in _usual_names_of_dialect(columns).items():
        names_by_field[field] = tuple(filter(leads_to_a_column, names))
    return names_by_field


def _usual_names_of_dialect(columns: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """All usual names of each field, in the dialect of the tool that wrote the row.

    In data frames of Phoenix ``reference`` is the retrieved text. In rows of DeepEval
    ``context`` is the ideal one, also where an export left out what was retrieved.
    """
    if _is_of_deepeval(columns):
        _, ideal_context = _DEEPEVAL_CONTEXTS
        names = [name for name in USUAL_NAMES["contexts"] if name != ideal_context]
        return {**USUAL_NAMES, "contexts": names}
    if columns.isdisjoint(_PHOENIX_MARKS):
        return USUAL_NAMES
    references = [name for name in USUAL_NAMES["reference"] if name != "reference"]
    return {
        **USUAL_NAMES,
        "contexts": (*USUAL_NAMES["contexts"], "reference"),
        "reference": references,
    }


def _is_of_deepeval(columns: frozenset[str]) -> bool:
    """Whether a row has DeepEval's names: ``actual_output``, or ``input`` and the expected.

    A row with ``output`` has Opik's, whose ``context`` is what was retrieved.
    """
    names = {plain_name(column) for column in columns}
    actual_output, expected_output = _DEEPEVAL_OUTPUTS
    if actual_output in names:
        return True
    return {"input", expected_output} <= names and "output" not in names


def _refuse_joined_contexts(place: Place, row: "_Cells") -> None:
    """Raise ``RowError`` for contexts that DeepEval has joined to one text.

    They cannot be taken apart again: each could hold the sign between them itself.
    """
    is_joined = (
        isinstance(place.value, str)
        and _DEEPEVAL_JOINS in place.value
        and not looks_like_list(place.value)
    )
    retrieved_context, _ = _DEEPEVAL_CONTEXTS
    has_its_name = plain_name(place.column) == retrieved_context
    if not is_joined or not has_its_name:
        return
    if any(row.columns(name) for name in _DEEPEVAL_OUTPUTS):
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
        hint = did_you_mean(name, USUAL_NAMES)
        fields = ", ".join(USUAL_NAMES)
        raise SettingError(f"no such field of a sample: {name}{hint}; known: {fields}")


def _place_of_name(
    row: Row, field: str, column: str | Callable[[Mapping[str, Any]], Any]
) -> Place:
    """Return the place that the caller named for a field.

    The caller may name a column, or a path into a column, or give a function that takes
    the row. Of a column that holds an object, the place is the field's text in that
    object.

    Raises:
        RowError: If the callable raised.
        NoSuchColumn: If the row has no such column or path.
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
        columns_of_row = [str(name) for name in row]
        hint = did_you_mean(column, columns_of_row)
        names = names_in_words(columns_of_row, most=_MOST_COLUMNS_SHOWN) or "no columns"
        raise NoSuchColumn(
            f"no column {column!r} for {field}{hint}; the row has: {names}"
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
        if len(names) < 2:
            return names
        exact = [name for name in names if name == usual]
        others = [name for name in names if name != usual]
        return [*exact, *others]

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
    """Yield the places where a field may be, by its usual names in their order.

    A column that holds another field is no such place. A name with a dot means a column
    of that very name; only where the row has no such column, the name is a path into
    one.

    Args:
        row: The row.
        field: The field.
        names: The usual names of the field.
        columns_in_use: The columns that hold other fields.
    """
    for usual_name in names:
        columns = row.columns(usual_name)
        for column in columns:
            if column in columns_in_use:
                continue
            place = _place_in_column(row.value(column), field, column)
            if place is not None:
                yield place
        holder, _, path = usual_name.partition(".")
        if columns or not path:
            continue
        holders = row.columns(holder)
        if not holders:
            continue
        column = holders[0]  # a column of exactly that name comes first
        is_there, value = row.follow(column, path.split("."))
        if is_there:
            yield Place(value, f"{column}.{path}")


def _choose_place(field: str, places: Sequence[Place]) -> Place | None:
    """Choose the place that holds a field; None where there is none.

    It is the first certain one. Where no place is certain, or the first certain one is
    empty, it is the first of all.

    Args:
        field: The field.
        places: Where it may be; the most specific name comes first.

    Raises:
        AmbiguousColumns: If another certain place holds something else.
    """
    certain_places = [place for place in places if place.certain]
    if not certain_places:
        return places[0] if places else None
    chosen_place, *rivals = certain_places
    if not is_filled(chosen_place.value, field):
        return places[0]
    if field in _FIELDS_WITH_RIVALS:
        _refuse_rivals(field, chosen_place, rivals)
    return chosen_place


def _refuse_rivals(field: str, place: Place, rivals: Sequence[Place]) -> None:
    """Raise ``AmbiguousColumns`` if another place may hold the field and differs.

    Args:
        field: The field.
        place: The place that was chosen for the field.
        rivals: The other places that may hold the field. Places that are empty, or that
            are known not to hold this field, are passed over.
    """
    content = _comparable_content(field, place.value)
    if content is None:  # it cannot be read as this field, which is said elsewhere
        return
    for rival in rivals:
        if not is_filled(rival.value, field) or _is_no_rival(field, place, rival):
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

    It is a part of the first, DeepEval's ideal context beside the retrieved one, or the
    field ``retrieved`` beside the contexts.
    """
    if rival.column.startswith(f"{place.column}."):
        return True
    name = plain_name(place.column.rpartition(".")[2])
    rival_name = plain_name(rival.column.rpartition(".")[2])
    if (name, rival_name) == _DEEPEVAL_CONTEXTS:
        return True
    names_of_retrieved = {plain_name(name) for name in _COLUMNS["retrieved"]}
    return field == "contexts" and rival_name in names_of_retrieved


def _comparable_content(field: str, value: Any) -> object:
    """The texts by which the contents of two places of a field are compared.

    None for contexts that cannot be read.
    """
    texts: list[Any] = []
    if field == "contexts":
        try:
            contexts = cells.read_contexts(value, field)
        except RowError:
            return None
        for context in contexts:
            is_context = isinstance(context, Context)
            texts.append(context.text if is_context else context["text"])
        return texts
    data = data_in(value)
    elements = list(data) if isinstance(data, (list, tuple)) else [plain_data(value)]
    for element in elements:
        is_text = isinstance(element, str)
        texts.append(element.strip() if is_text else number_as_text(element))
    return texts


def _place_in_column(value: Any, field: str, column: str) -> Place | None:
    """Return the place of a field in a column; None if the column cannot hold the field.

    The place is the column's value or, if the value is an object, the field's text in
    that object. An object without a known name of a text is an uncertain place.
    """
    if field == "citations":  # a column of that name may hold addresses, or texts
        citations = without_missing_labels(data_in(value))
        is_known = is_citations(citations) or is_numbering(citations)
        return Place(citations, column) if is_known else None
    if field in _KEY_IN_OWN_RESULTS:
        # A column of that name may be somebody else's, and hold anything.
        own_data = data_in(value)
        if isinstance(own_data, Mapping) and _KEY_IN_OWN_RESULTS[field] in own_data:
            return Place(own_data, column)
        return None
    # A column named "conversation" may hold its id.
    if field == "history" and not _may_be_history(value):
        return None
    if field not in _INNER_NAMES:
        return Place(value, column)
    name = plain_name(column)
    # In a column of the field's own name a text that is JSON is the text itself: a
    # model may answer in JSON.
    data = value if name == field else data_in(value)
    is_object = isinstance(data, Mapping)
    if field == "answer" and name in SEVERAL_ANSWERS:
        # SQuAD's object in "answers" holds the expected ones.
        return None if is_object else Place(value, column)
    inner_place = _text_in(data, field)
    if inner_place is not None:
        return Place(inner_place.value, column)
    return Place(value, column, certain=not is_object)


def _may_be_history(value: Any) -> bool:
    """Whether a cell is empty, a list or an object, or a text that begins as one.

    A single text is no history.
    """
    is_data = isinstance(data_in(value), (list, tuple, Mapping))
    return is_data or looks_like_list(value) or not is_filled(value, "history")


def _text_in(data: Any, field: str, depth: int = _DEEPEST) -> Place | None:
    """Find the text of a field, or its several texts, in an object or in messages.

    It stands under a usual name of the field, else it is the last message of the one
    who says such texts, else it stands under a general name such as ``content``. None
    where it is not known to be there. ``depth`` is how many objects deep it may stand.
    """
    place = _text_under(data, USUAL_NAMES[field], field, depth)
    if place is not None:
        return place
    last_text: str | None = None
    for message in said_messages(data):
        if message.role == _SPEAKERS[field]:
            last_text = message.text
    if last_text is not None:
        return Place(last_text, "")
    return _text_under(data, _INNER_NAMES[field], field, depth)


def _text_under(
    data: Any, names: Sequence[str], field: str, depth: int
) -> Place | None:
    """Choose the place in an object where a field's text stands under one of the names.

    Under the name the text stands itself, or an object that holds the text. None if
    there is no such place.

    Args:
        data: The object; None for anything else.
        names: The names.
        field: The field.
        depth: How many objects inside of each other are looked into.
    """
    if not isinstance(data, Mapping):
        return None
    places: list[Place] = []
    for name in names:
        if name not in data:
            continue
        value = plain_data(data[name])
        inner_place = _text_in(data_in(value), field, depth - 1) if depth else None
        if inner_place is not None:
            places.append(Place(inner_place.value, name))
        elif not isinstance(value, Mapping):
            places.append(Place(value, name))
    return _choose_place(field, places)
