"""Samples from rows of tables.

The field's usual column names are found, so none needs to be configured.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from ragmetrics_core.data import cells
from ragmetrics_core.data.blank import is_present
from ragmetrics_core.data.cells import data_in, is_filled
from ragmetrics_core.data.citations import (
    NumberingRead,
    is_citations,
    numbering_in,
    numbering_of_column,
    numbering_of_texts,
    read_citations,
)
from ragmetrics_core.data.column_arguments import Columns
from ragmetrics_core.data.columns import (
    FoundValue,
    Row,
    find_fields,
)
from ragmetrics_core.data.conversation_names import conversation_in
from ragmetrics_core.data.errors import RowError, SettingError
from ragmetrics_core.data.marks import may_cite
from ragmetrics_core.data.messages import (
    MEDIA_REFUSED,
    holds_media,
    is_part,
    text_of_content,
)
from ragmetrics_core.data.nearest import did_you_mean
from ragmetrics_core.data.number_values import number_as_text, plain_data
from ragmetrics_core.data.sample import CaptureNotes, Sample

_NO_ERROR = ("false", "none", "null", "nan", "0")
_NEEDED = {
    **dict.fromkeys(
        ("contexts", "retrieved", "expected_contexts"),
        "a text, or a list of texts or of objects with a text",
    ),
    "reference": "a text or a list of texts",
    "expected_ids": "an id or a list of ids",
    "facts": "a list of texts",
    "history": "a list of texts or of messages with a content",
}
_Found = Mapping[str, FoundValue]
_NO_VALUE = FoundValue(None, "")


def sample_from_row(row: Row, columns: Mapping[str, Any]) -> Sample:
    """Return the sample of a row.

    Args:
        row: The row.
        columns: For a field, the column that the caller named for it, if any.

    Raises:
        RowError: If the row is no object, holds several answers, or cannot be read as a
            sample.
    """
    fields = fields_of_row(row)
    return _sample(fields, find_fields(fields, columns))


def fields_of_row(row: object) -> Row:
    """Return a mapping as it is, and of another object its fields.

    Such an object is a test case of another library.

    Raises ``RowError`` for what has no fields.
    """
    if isinstance(row, Mapping):
        return row
    fields = getattr(row, "__dict__", None)
    if not fields or isinstance(row, type):
        raise RowError(
            f"a row must be an object with named fields, got {type(row).__name__}"
        )
    return {name: value for name, value in fields.items() if name[:1] != "_"}


def columns_by_field(
    arguments: Mapping[str, Any], beside: Iterable[str] = ()
) -> dict[str, Any]:
    """Return what arguments such as ``question_column=`` say, by field of the sample.

    Example: ``question_column="query"`` gives ``{"question": "query"}``.

    Args:
        arguments: The arguments. An argument that is None is left out.
        beside: Other arguments that the function takes, which a wrong name may mean.

    Raises:
        SettingError: If an argument names no column; the message has the nearest name.
    """
    for name in arguments:
        if name not in Columns.__annotations__:
            near = did_you_mean(name, (*beside, *Columns.__annotations__))
            raise SettingError(
                f"unknown argument {name!r}{near}; columns are named like"
                " question_column="
            )
    column_by_field: dict[str, Any] = {}
    for name, column in arguments.items():
        if column is None:
            continue
        field = name.removesuffix("_column")
        if field == "ground_truth":  # another name of the reference
            field = "reference"
        column_by_field[field] = column
    return column_by_field


def _answer(value: Any) -> Any:
    """Return the answer of a row, also where it is the only one of a list.

    A list may be the parts of one message, whose thinking is left out.

    Raises ``RowError`` for several answers.
    """
    is_list = isinstance(value, (list, tuple)) and bool(value)
    if is_list and all(map(is_part, value)):
        if holds_media(value):
            raise RowError(f"answer: {MEDIA_REFUSED}")
        return text_of_content(value)
    if isinstance(value, (list, tuple)) and len(value) > 1:
        raise RowError(
            f"answer: {len(value)} answers in one row; write a row for each, with one"
            " conversation_id where they share their contexts"
        )
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    return number_as_text(value)


def _sample(row: Row, found_by_field: _Found) -> Sample:
    """Build the sample of a row from the values that were found for its fields.

    The cell ``citations`` is a list of citations, or a numbering such as
    ``{"1": "doc-a"}``, which says what marks such as [1] in the answer mean. If the
    cell is neither, it is metadata like any other.

    Args:
        row: The row.
        found_by_field: The value that was found for each field.

    Raises:
        RowError: If a value has a wrong type.
    """
    values = _values_by_field(found_by_field)
    numbering_cell = None
    if isinstance(values.get("citations"), Mapping):
        numbering_cell = values.pop("citations")
    metadata = _metadata(row, found_by_field, values.get("metadata", {}))
    try:
        sample = Sample(**{**values, "metadata": metadata})
    except ValidationError as error:
        raise RowError(_explain(error, found_by_field)) from None
    _refuse_ids_in_one_text(sample, found_by_field)
    if sample.citations is not None:  # the cell had a list
        return sample
    return _with_citations_of_marks(sample, numbering_cell)


def _refuse_ids_in_one_text(sample: Sample, found_by_field: _Found) -> None:
    """Refuse a text taken for one id whose pieces are ids of what was retrieved.

    Nobody can say of "k7 k9" alone whether it is one id.

    Raises ``RowError``.
    """
    cell = data_in(found_by_field.get("expected_ids", _NO_VALUE).value)
    retrieved = sample.known_contexts if sample.retrieved is None else sample.retrieved
    ids = {context.id.strip() for context in retrieved if context.id is not None}
    if not isinstance(cell, str):
        return
    pieces = [piece for piece in _BETWEEN_IDS.split(cell) if piece]
    if cell.strip() not in ids and len(pieces) > 1 and ids.intersection(pieces):
        raise RowError(
            "expected_ids: a text that is no id of what was retrieved, and its pieces"
            ' are; write ids as a JSON list (["one", "two"]; a single one as ["one"])'
        )


def _values_by_field(found_by_field: _Found) -> dict[str, Any]:
    """Read the cells of a row into the values that a sample takes.

    Example: the cell '["a", "b"]' of the field "contexts" becomes two contexts.
    Fields with an empty cell are left out.
    """
    value_by_field: dict[str, Any] = {}
    for field, found_value in found_by_field.items():
        if is_filled(found_value.value, field):
            read_cell = _READERS.get(field, plain_data)
            value_by_field[field] = read_cell(plain_data(found_value.value))
    return value_by_field


def _metadata(
    row: Row, found_by_field: _Found, metadata_cell: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the metadata of a row.

    It holds all columns from which no field was read, such as ``{"lang": "en"}`` beside
    question and answer, and what the metadata column holds. It also holds a
    conversation's id that stands beside the question or the answer, as in
    ``{"messages": [...], "conversation_id": ...}``.

    Args:
        row: The row.
        found_by_field: The value that was found for each field, with its column.
        metadata_cell: What the column of the field ``metadata`` holds.
    """
    used_columns = {
        _column_of(row, found_value.column) for found_value in found_by_field.values()
    }
    metadata: dict[str, Any] = {}
    for column, value in row.items():
        if column not in used_columns and is_present(value):
            metadata[str(column)] = value
    metadata.update(metadata_cell)
    if conversation_in(metadata) is None:
        metadata.update(_conversation_beside_texts(row, found_by_field))
    return metadata


def _with_citations_of_marks(
    sample: Sample, numbering_cell: Mapping[str, str] | None
) -> Sample:
    """Fill a sample's citations from the marks in its answer, or note why it has none.

    "Blue [1]." with the numbering ``{"1": "doc-a"}`` cites "doc-a". Without a numbering
    in the row, the contexts' own numbers count ("[1] The sky is blue."). If a numbering
    or the marks cannot be read, the reason is noted.

    Args:
        sample: The sample, whose citations are not known.
        numbering_cell: The numbering in the column ``citations``, such as
            ``{"1": "doc-a"}``; None if there is none.
    """
    if sample.answer is None:
        return sample
    numbering_read = _numbering(sample, numbering_cell)
    if numbering_read.numbering is not None:
        citations_read = read_citations(sample.answer, numbering_read.numbering)
        if citations_read.citations is not None:
            return sample.model_copy(update={"citations": citations_read.citations})
        return _with_reason(sample, citations_read.why_unknown)
    return _with_reason(sample, numbering_read.why_unknown)


def _with_reason(sample: Sample, why_unknown: str) -> Sample:
    """Note in a sample why its citations are unknown.

    Nothing is noted for the reason "", if the answer cites nothing, or if the sample has
    a reason already.
    """
    if not why_unknown or not may_cite(sample.answer or ""):
        return sample
    notes = sample.capture or CaptureNotes()
    if notes.citations_unknown is None:
        notes = notes.model_copy(update={"citations_unknown": why_unknown})
    return sample.model_copy(update={"capture": notes})


def _numbering(sample: Sample, cell: Mapping[str, str] | None) -> NumberingRead:
    """Read which context each number means.

    That is read from the column ``citations``, else from the texts of the contexts.
    """
    if cell is None:
        return numbering_of_texts([context.text for context in sample.known_contexts])
    if sample.contexts is None:
        return NumberingRead(why_unknown="no contexts were recorded")
    return numbering_of_column(cell, [context.id for context in sample.known_contexts])


def _column_of(row: Row, column_or_path: str) -> str:
    """Return the column of a path such as ``inputs.question``, or the column itself."""
    if column_or_path in row:
        return column_or_path
    return column_or_path.partition(".")[0]


def _conversation_beside_texts(row: Row, found_by_field: _Found) -> dict[str, Any]:
    """Return path and value of a conversation's id beside the question or answer.

    It stands in the same column, which holds a whole request or reply and so is not
    copied to the metadata. Returns {} if there is none.
    """
    requests_and_replies = {}
    for field in ("question", "answer"):
        found_value = found_by_field.get(field, _NO_VALUE)
        column = _column_of(row, found_value.column)
        if column in row and row[column] is not found_value.value:
            requests_and_replies[column] = row[column]
    conversation = conversation_in(requests_and_replies)
    return {} if conversation is None else {conversation.path: conversation.value}


def _texts(value: Any) -> list[Any]:
    """Reference texts; a text that holds a list of texts is that list."""
    data = data_in(value)
    is_list = isinstance(data, (list, tuple))
    if is_list and isinstance(value, str):
        # a text that looks like a list is one only where it holds texts
        is_list = all(isinstance(text, str) for text in data)
    if is_list:
        value = data
    texts = value if isinstance(value, (list, tuple)) else [value]
    return [number_as_text(text) for text in texts if is_present(text)]


def _problem(value: Any) -> str | None:
    """Return the application's error as a text.

    False, also as tables write it, and empty objects say that there was none.
    """
    if isinstance(value, str):
        return None if value.strip().casefold() in _NO_ERROR else value
    return json.dumps(value, default=str, ensure_ascii=False) if value else None


def _citations_or_numbering(value: Any) -> Any:
    """Return a list of citations as data, or the id of a context for each number.

    Raises ``RowError`` for anything else.
    """
    data = data_in(value)
    if is_citations(data):
        return data
    numbering = numbering_in(data)
    if numbering is not None:
        return numbering
    raise RowError(
        "citations: needs {number: id of the context}, or a list of objects with start,"
        f" end and contexts; found {type(data).__name__}"
    )


# Signs other than those are part of an id: "doc-7", "a.b:c#3".
_BETWEEN_IDS = re.compile(r"[^\w.:#@-]+")
# How fields are read from what a column holds; the others are taken as they are.
_READERS: dict[str, Callable[[Any], Any]] = {
    "contexts": lambda value: cells.read_contexts(value, "contexts"),
    "retrieved": lambda value: cells.read_contexts(value, "retrieved"),
    "facts": cells.read_facts,
    "expected_ids": lambda value: _texts(cells.as_list_unbroken(value, "expected_ids")),
    "expected_contexts": lambda value: cells.read_contexts(value, "expected_contexts"),
    "history": cells.read_turns,
    "reference": _texts,
    "answer": _answer,
    "id": lambda value: str(number_as_text(value)),
    "error": _problem,
    "metadata": cells.read_metadata,
    "citations": _citations_or_numbering,
}


def _explain(error: ValidationError, found_by_field: _Found) -> str:
    """Describe the first problem: which field needs what, and the type that it has.

    Example: "question (column 'q'): needs a text, found int". The text of a value is
    never shown.
    """
    problem = error.errors(include_url=False)[0]
    location = problem["loc"]  # the field, then keys and indices within it
    field = str(location[0]) if location else "row"
    place = field
    indices = [part for part in location[1:] if isinstance(part, int)]
    if indices:
        place += f" number {indices[0] + 1}"
    column = found_by_field.get(field, _NO_VALUE).column
    if column and column != field:
        place += f" (column {column!r})"
    is_of_wrong_type = problem["type"].endswith("_type")
    if not is_of_wrong_type:
        message = problem["msg"]
        return f"{place}: {message[:1].lower()}{message[1:]}"
    needed = _NEEDED.get(field, "a text")
    return f"{place}: needs {needed}, found {type(problem['input']).__name__}"
