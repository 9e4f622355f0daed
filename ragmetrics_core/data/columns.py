"""Which column of a row holds which field of a sample.

What columns are called decides, never what their cells hold:

- Of the usual names of a field, the first whose cell the row fills names its column. An
  empty cell is as no column, so a table may be several joined by their columns. An empty
  list is filled: it says that nothing was found.
- Two filled columns that may hold one field and differ are refused, because nobody can
  say which is meant. Those that differ by a number behind the name are two of one field.
- A name that as often means something else, as ``references`` does an answer's sources,
  is no usual one.
- A column that is named for a field holds that field and no other, and what a path is
  named for stands in no other.
- A column whose name begins with two underscores is a program's own, as promptfoo's
  ``__expected`` is, and none of a field.
"""

import json
import re
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypedDict

from ragmetrics_core.data.cells import (
    as_list,
    conversation_name,
    data_in,
    follow_path,
    holds_prose,
    is_filled,
    looks_like_list,
    read_list,
    without_path,
)
from ragmetrics_core.data.citations import is_citations, numbering_in
from ragmetrics_core.data.errors import (
    AmbiguousColumns,
    NoSuchColumn,
    RowError,
    SettingError,
)
from ragmetrics_core.data.messages import (
    ANYONE,
    MEDIA_REFUSED,
    ROLES,
    SaidMessage,
    holds_media,
    known_role,
    last_said,
    messages_of_pair,
    oldest_first,
    said_messages,
    several_in_one_row,
    text_of_content,
    unknown_types_of_parts,
    unwrap_message,
)
from ragmetrics_core.data.name_matching import did_you_mean, names_in_words, plain_name
from ragmetrics_core.data.sample_parts import Turn
from ragmetrics_core.data.scalars import (
    composed_text,
    is_present,
    number_as_text,
    plain_data,
)

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

KNOWN_NAMES = frozenset(
    plain_name(name) for names in USUAL_NAMES.values() for name in names
)

# Fields that are texts: an object in such a column is searched for the names above and
# for these. Of messages the last one of this speaker is meant.
_INNER_NAMES = {
    "question": (),
    "answer": ("content", "text"),
    "reference": ("answer", "output", "response", "text"),
}
_SPEAKERS = {"question": "user", "answer": "assistant", "reference": "assistant"}
_MOST_COLUMNS_SHOWN = 50  # in a message
_MOST_PARTS = 1000  # of a cell that are looked through
_DEEPEST = 4  # objects in objects, or in JSON that stands in them as a text
# What an application may have answered, of which samples hold one. A list in any other
# column may be of the answers that are accepted.
_PLURALS_OF_ANSWER = ("responses", "predictedanswers", "replies")
# Columns of our own results, and a key that their objects have.
KEY_IN_OWN_RESULTS = {"ledger": "calls", "capture": "grade", "use": "passages"}
# Fields that two columns may claim.
_LISTS_WITH_RIVALS = (
    "contexts",
    "reference",
    "facts",
    "expected_ids",
    "expected_contexts",
)
_FIELDS_WITH_RIVALS = ("question", "answer", *_LISTS_WITH_RIVALS)
# Other names of the question may hold a whole prompt, or what was searched for.
_NAMES_OF_QUESTION = ("question", "userinput", "userquery", "userquestion")
# "context_2", "contexts[0]", "Context (2)"; pandas makes "context.1" of a header that
# stands there twice.
_NUMBER_BEHIND_NAME = re.compile(r"\W*\d+\W*\Z")
# of its data frames
_PHOENIX_MARKS = ("context.span_id", "context.trace_id", "document_position")

Column = str | Callable[[Mapping[str, Any]], Any]
"""A column's name, a dotted path through dicts and JSON, or a callable that gets the row."""


class Fields(TypedDict, total=False):
    """Per field of a sample, where rows have it."""

    question: Column | None
    contexts: Column | None
    answer: Column | None
    reference: Column | None
    retrieved: Column | None
    facts: Column | None
    expected_ids: Column | None
    expected_contexts: Column | None
    standalone_question: Column | None
    history: Column | None
    generator: Column | None
    error: Column | None
    id: Column | None
    ledger: Column | None
    capture: Column | None
    use: Column | None
    citations: Column | None
    metadata: Column | None


class Columns(TypedDict, total=False):
    """Where rows have the fields of a sample, as arguments of ``evaluate``.

    ``ground_truth_column`` is another name of ``reference_column``.
    """

    question_column: Column | None
    contexts_column: Column | None
    answer_column: Column | None
    ground_truth_column: Column | None
    reference_column: Column | None
    retrieved_column: Column | None
    facts_column: Column | None
    expected_ids_column: Column | None
    expected_contexts_column: Column | None
    standalone_question_column: Column | None
    history_column: Column | None
    generator_column: Column | None
    error_column: Column | None
    id_column: Column | None
    ledger_column: Column | None
    capture_column: Column | None
    use_column: Column | None
    citations_column: Column | None
    metadata_column: Column | None


Row = Mapping[str, Any]


class FoundValue(NamedTuple):
    """A value that a row holds for a field of a sample, and where it was found.

    Args:
        value: The value.
        column: The column, or the dotted path into it; "" for what a callable gives.
        messages: The messages of which it is one; () if it stands alone.
        beside: What other columns of usual names are to it, in words: that the first one
            is empty, or that another holds something else; or what is odd about its own.
    """

    value: Any
    column: str
    messages: tuple[SaidMessage, ...] = ()
    beside: tuple[str, ...] = ()


class _Place(NamedTuple):
    """Where a table may hold a field: in a column, or at a path of keys into it."""

    column: str
    path: tuple[str, ...] = ()


def find_fields(row: Row, columns: Mapping[str, Any]) -> dict[str, FoundValue]:
    """Find the value that a row holds for each field of a sample.

    Example: ``{"query": "Q?", "final": "A."}`` and the columns ``{"answer": "final"}``.
    The answer is "A.", as the caller says. The question is "Q?", as "query" is a usual
    name for it. A field that the row does not have is left out.

    Args:
        row: The row.
        columns: For a field, the column or path that holds it, or a function of the row.
            None: look for the usual names.

    Raises:
        SettingError: If ``columns`` names a field that samples do not have, or one
            column as the answer and as what the answer is compared with.
        NoSuchColumn: If the row lacks a column that was named.
        AmbiguousColumns: If two columns may hold one field, and differ.
    """
    unknown = set(columns) - set(USUAL_NAMES)
    if unknown:
        name = min(unknown)
        hint = did_you_mean(name, USUAL_NAMES)
        fields = ", ".join(USUAL_NAMES)
        raise SettingError(f"no such field of a sample: {name}{hint}; known: {fields}")
    for field, column in columns.items():
        if not (column is None or isinstance(column, str) or callable(column)):
            raise SettingError(
                f"the column of {field} is a name or a function of the row; got"
                f" {column!r}: of several make one, e.g."
                ' contexts_column=lambda row: [row["a"], row["b"]]'
            )
    for field in ("contexts", "reference", "facts"):
        column = columns.get(field)
        if column is not None and column == columns.get("answer"):
            raise SettingError(
                f"{column!r} cannot be the column of both answer and {field}, which are"
                " compared; name two columns, or two paths into it such as output.text"
            )
    found_by_field: dict[str, FoundValue] = {}
    # What was named for one field serves no second one, be it a column or a part of one.
    columns_named = {name for name in columns.values() if isinstance(name, str)}
    rest = row
    for field, column in columns.items():
        if column is not None:
            found_by_field[field] = _value_named_by_caller(row, field, column)
        is_path = isinstance(column, str) and column not in row
        if is_path and not column.startswith("metadata."):
            rest = without_path(rest, column.split("."))
    named_by_caller = set(found_by_field)
    columns_in_part = {name for name in rest if rest[name] is not row[name]}
    names_of_columns = tuple(name for name in rest if isinstance(name, str))
    cell_as_data = cache(lambda column: data_in(rest[column]))
    for field, places in _places_by_field(names_of_columns).items():
        if field in named_by_caller or not places:
            continue
        # a text, such as a question, may stand beside the part that was named
        is_text = field in _INNER_NAMES
        taken = columns_named if is_text else columns_named | columns_in_part
        free_places = [
            place for place in places if place.path or place.column not in taken
        ]
        found = _find_field(rest, field, free_places, cell_as_data)
        if found is None and is_text:  # an object without a text is an error
            for name, path in free_places:
                if not path and name not in columns_in_part:
                    found = FoundValue(row[name], name)
                    break
        if found is not None:
            found_by_field[field] = found
    texts_found = _INNER_NAMES.keys() & found_by_field.keys() - named_by_caller
    _note_unread_objects(texts_found, found_by_field, names_of_columns, cell_as_data)
    _add_from_messages(found_by_field, named_by_caller)
    if "answer" not in named_by_caller and "answer" in found_by_field:
        _refuse_accepted_answers(row, found_by_field["answer"].column)
    return found_by_field


@lru_cache(maxsize=1000)
def may_hold_answers(column: str) -> bool:
    """Whether a column may hold answers by its name, as "rag_answer" and "answer_new" do."""
    usual = tuple(map(plain_name, _COLUMNS["answer"]))
    name = plain_name(column)
    return name.startswith(usual) or name.endswith(usual)


def may_be_of_application(column: str, cell: object, answer: object = None) -> bool:
    """Whether a cell may hold what an application found or said, at any depth.

    That is a text of three words or more; under a name of answers any text, and a number
    beside an answer that is one.
    """
    for is_named, part in _parts(cell, is_named=may_hold_answers(column)):
        if isinstance(part, str):
            if holds_prose(part) or (is_named and part.strip()):
                return True
        elif is_named and type(part) in (int, float) and _number(answer) is not None:
            return True
    return False


def _parts(cell: object, *, is_named: bool) -> Iterator[tuple[bool, Any]]:
    """Yield texts, numbers and the like in a cell, at any depth.

    With each goes whether its key, or one around it, may hold answers by its name.
    """
    parts: list[tuple[bool, object]] = [(is_named, cell)]
    for is_part_named, part in parts:  # the list grows
        data = plain_data(data_in(part))
        if isinstance(data, (Mapping, list, tuple)) and len(parts) < _MOST_PARTS:
            pairs = data.items() if isinstance(data, Mapping) else enumerate(data)
            parts += [
                (is_part_named or may_hold_answers(str(key)), value)
                for key, value in pairs
            ]
        else:
            yield is_part_named, data


@lru_cache(maxsize=64)
def columns_with_usual_names(columns: tuple[str, ...]) -> Collection[str]:
    """Return those columns of a table whose names are usual for a field with rivals.

    In rows of some tools one is of no field: DeepEval's ``context``.
    """
    places_by_field = _places_by_field(columns)
    usual, names = set[str](), set[str]()
    for field in _FIELDS_WITH_RIVALS:
        usual |= {place.column for place in places_by_field[field] if not place.path}
        names |= set(map(plain_name, _COLUMNS[field]))
    return usual | {
        column
        for column in columns
        if plain_name(column) in names and not column.startswith("__")
    }


@lru_cache(maxsize=64)  # the rows of one file have the same columns
def _places_by_field(columns: tuple[str, ...]) -> Mapping[str, Sequence[_Place]]:
    """Return for each field where a table with these columns may hold it.

    The places stand in the order of the field's usual names; of the columns with one
    such name the one of exactly this name stands first. Case, spaces, hyphens and
    underscores do not matter. Of a field with rivals a numbered name stands beside the
    same one without a number, or beside another number: a lone "result_1" is no answer.
    Example: the table has the columns "inputs" and "output".
    For the contexts there is the path ``inputs.docs`` among others; there is no path
    into a column that is a place by itself.
    """
    columns_by_plain_name: dict[str, list[str]] = {}
    numbered_by_name: dict[str, list[str]] = {}
    for column in columns:
        if column.startswith("__"):
            continue
        name = plain_name(column)
        columns_by_plain_name.setdefault(name, []).append(column)
        if _name_alone(column) != name:
            numbered_by_name.setdefault(_name_alone(column), []).append(column)
    places_by_field: dict[str, Sequence[_Place]] = {}
    for field, names in _usual_names_of_writing_tool(columns).items():
        places: list[_Place] = []
        has_rivals = field in _FIELDS_WITH_RIVALS
        is_named = any(plain_name(name) in columns_by_plain_name for name in names)
        for name in names:
            columns_named_so = columns_by_plain_name.get(plain_name(name), [])
            numbered = numbered_by_name.get(plain_name(name), []) if has_rivals else []
            if columns_named_so or (len(numbered) > 1 and not is_named):
                columns_named_so = [*columns_named_so, *numbered]
            exact_first = sorted(columns_named_so, key=lambda column: column != name)
            places += map(_Place, exact_first)
            if not exact_first:
                # a dotted name without a column is a path into that of its first part
                outer_name, *path = name.split(".")
                outer_columns = columns_by_plain_name.get(plain_name(outer_name), [])
                places += [_Place(column, tuple(path)) for column in outer_columns[:1]]
        whole_columns = {place.column for place in places if not place.path}
        places_by_field[field] = [
            place
            for place in places
            if not place.path or place.column not in whole_columns
        ]
    return places_by_field


def _name_alone(column: str) -> str:
    """Return the plain name of a column without a number behind it."""
    return _NUMBER_BEHIND_NAME.sub("", plain_name(column))


def _usual_names_of_writing_tool(
    columns: Collection[str],
) -> Mapping[str, Sequence[str]]:
    """Return all usual names of each field, as the tool that wrote the columns uses them.

    In rows of DeepEval ``context`` is the ideal one, also where an export left out what
    was retrieved; it is one of Opik's where the row has ``output``. In data frames of
    Phoenix ``reference`` is the retrieved text.
    """
    names_by_field: dict[str, Sequence[str]] = dict(USUAL_NAMES)
    plain_names = {plain_name(column) for column in columns}
    is_golden = {"input", "expectedoutput"} <= plain_names and (
        "output" not in plain_names
    )
    if is_golden or plain_names & {"actualoutput", "retrievalcontext"}:
        names_by_field["contexts"] = _without(USUAL_NAMES["contexts"], "context")
    if not set(columns).isdisjoint(_PHOENIX_MARKS):
        names_by_field["contexts"] = (*names_by_field["contexts"], "reference")
        names_by_field["reference"] = _without(USUAL_NAMES["reference"], "reference")
    return names_by_field


def _without(names: Sequence[str], left_out: str) -> list[str]:
    return [name for name in names if name != left_out]


def _find_field(
    row: Row, field: str, places: Sequence[_Place], cell_as_data: Callable[[str], Any]
) -> FoundValue | None:
    """Return the value that a row holds for a field; None if it has none.

    Args:
        row: The row.
        field: The field.
        places: Where the row may hold it, the most specific name first.
        cell_as_data: Returns the cell of a column; a text of JSON as what it holds.

    Raises:
        AmbiguousColumns: If two places hold values that differ.
    """
    candidates: list[FoundValue] = []
    for column, path in places:
        is_there, value = True, row[column]
        if path:  # into an object: a list under such a name is one of messages
            data = cell_as_data(column)
            is_there, value = isinstance(data, Mapping), None
            if is_there:
                is_there, value = follow_path(data, path)
        candidate = _value_in_column(value, field, ".".join((column, *path)))
        if is_there and candidate is not None:
            candidates.append(candidate)
    return _choose_value(field, candidates)


def _note_unread_objects(
    fields: Collection[str],
    found_by_field: dict[str, FoundValue],
    columns: tuple[str, ...],
    cell_as_data: Callable[[str], Any],
) -> None:
    """Note which objects may hold the text that is meant, too, and were not read.

    They stand in a column that has a usual name of the text, and hold none that can be
    read.

    Args:
        fields: The fields of the texts.
        found_by_field: What the row holds; the notes are for ``fields``.
        columns: The columns of the row.
        cell_as_data: Returns the cell of a column; a text of JSON as what it holds.
    """
    paths_read = [f"{each.column}." for each in found_by_field.values()]
    for field in fields:
        found = found_by_field[field]
        notes = []
        for column, path in _places_by_field(columns)[field]:
            is_read = any(read.startswith(f"{column}.") for read in paths_read)
            if path or is_read:
                continue
            if _may_be_prompt(field, column, _name_alone(found.column)):
                continue
            data = cell_as_data(column)
            if not isinstance(data, Mapping) or not may_be_of_application(column, data):
                continue
            if _value_in_column(data, field, column) is None:
                notes.append(f"while {column!r} holds none that can be read")
        found_by_field[field] = found._replace(beside=(*found.beside, *notes))


def unread_parts(row: Row, found_by_field: Mapping[str, FoundValue]) -> dict[str, Any]:
    """Return by path what is left of the objects of which a part was read.

    Example: ``{"outputs.error": "…"}`` of ``{"outputs": {"answer": "A.", "error": "…"}}``.
    What belongs to a message that was read is left out, but for its conversation; so are
    ids.
    """
    unread: dict[str, Any] = {}
    for column, cell in row.items():
        found = [
            each
            for each in found_by_field.values()
            if column_of(row, each.column) == column
        ]
        is_whole = any(each.value is cell for each in found)
        data = data_in(cell) if found and not is_whole else None
        if isinstance(data, Mapping):
            # a text is found by several names, a list by its path
            texts = {
                text
                for each in found
                if each.column == column
                for text in map(str, _content(each.value))
            }
            unread |= _unread_parts(data, column, found, texts, _DEEPEST)
    return unread


def _unread_parts(
    fields: Mapping[str, Any],
    path: str,
    found: Sequence[FoundValue],
    texts: Collection[str],
    depth: int,
) -> dict[str, Any]:
    """Return by path what is left of one object."""
    are_messages = any(each.messages for each in found)
    is_one = unwrap_message(fields).role is not None
    unread: dict[str, Any] = {}
    for key, value in fields.items():
        part = plain_data(data_in(value))
        path_of_part = f"{path}.{key}"
        is_object = isinstance(part, Mapping)
        is_read = any(
            each.column == path_of_part
            or (not is_object and each.column.startswith(f"{path_of_part}."))
            for each in found
        )
        is_message = is_one or (not is_object and any(said_messages(part)))
        is_of_message = are_messages and is_message
        if is_of_message and conversation_name(path_of_part) is None:
            continue
        is_id = key in USUAL_NAMES["id"]
        is_text_read = all(
            isinstance(text, str) and text in texts for text in _content(part)
        )
        if is_read or is_id or is_text_read or not is_present(part):
            continue
        # of a whole request or reply only what may be meant for a field is kept
        is_named = plain_name(str(key)) in KNOWN_NAMES or conversation_name(
            path_of_part
        )
        if is_object and depth:
            unread |= _unread_parts(part, path_of_part, found, texts, depth - 1)
        elif is_named or holds_prose(part):
            unread[path_of_part] = value
    return unread


def column_of(row: Row, column_or_path: str) -> str:
    """Return the column of a path such as ``inputs.question``, or the column itself."""
    if column_or_path in row:
        return column_or_path
    return column_or_path.partition(".")[0]


def _add_from_messages(
    found_by_field: dict[str, FoundValue], named_by_caller: Collection[str]
) -> None:
    """Take what stands around a question or an answer that is one of several messages.

    The messages before the question, but for the system's, are the history, and the
    assistant's last one after it is the answer, where no column holds these.

    Raises:
        RowError: If a reply has parts of an unknown type, if messages end with several
            answers, if a column holds another answer, or one that the caller did not
            name holds other earlier turns.
    """
    nothing = FoundValue(None, "")
    for field in _SPEAKERS:
        for message in found_by_field.get(field, nothing).messages:
            _refuse_unread(message, field)
    for field in ("answer", "reference"):  # people say a thing in several messages
        texts = last_said(found_by_field.get(field, nothing).messages, _SPEAKERS[field])
        if len(texts) > 1:  # nobody knows which is meant
            raise RowError(several_in_one_row(field, len(texts)))
    for holder in ("question", "answer"):
        found = found_by_field.get(holder, nothing)
        column, messages = found.column, found.messages
        roles = {message.role for message in messages if message.text.strip()}
        others = sorted(roles - {*ROLES.values(), ANYONE})
        words = []
        if "contexts" not in found_by_field and any(
            message.shows_documents for message in messages
        ):
            words = ["whose messages show documents, which are no contexts here"]
        if others:
            words.append(f"of whose messages those by {', '.join(others)} are not read")
        if words:
            found_by_field[holder] = found._replace(beside=(*found.beside, *words))
        said = [
            message for message in messages if message.role not in ("system", *others)
        ]
        asked = [
            each.text for each in said if each.role == "user" and each.text.strip()
        ]
        if not asked:
            continue
        question = found_by_field.setdefault("question", FoundValue(asked[-1], column))
        answer = found_by_field.get("answer", nothing)
        turn_asked = _turn_asked(said, question)
        if turn_asked is None:
            continue  # a prompt may hold the question in other words
        place, end = turn_asked
        if end < len(said):
            said, answer = said[:end], answer._replace(value=None)
        turns = [
            {"role": turn.role, "content": turn.text}
            for turn in said[:place]
            if turn.text.strip()
        ]
        told = found_by_field.get("history", nothing)
        has_history = is_filled(told.value, "history") and bool(as_list(told.value))
        if turns and not has_history:
            found_by_field["history"] = FoundValue(turns, column)
        elif turns and "history" not in named_by_caller:
            talk = [*(turn.text for turn in said), *map(str, _content(answer.value))]
            found_by_field["history"] = _fuller_history(
                told, FoundValue(turns, column), talk
            )

        replies = last_said(said[place + 1 :], "assistant")
        if not replies:
            continue
        if not is_filled(answer.value, "answer"):
            if len(replies) > 1:
                raise RowError(several_in_one_row("answer", len(replies)))
            found_by_field["answer"] = FoundValue(replies[-1], column)
        elif _content(answer.value) != _content(replies[-1]):
            raise RowError(
                f"the messages of {column!r} go on with a reply after the last question,"
                f" and {answer.column!r} holds another answer; leave one of them out"
            )


def _turn_asked(
    said: Sequence[SaidMessage], question: FoundValue
) -> tuple[int, int] | None:
    """Return where in messages a question is asked, and where its turn ends.

    It is what the user asked last, or, in the row of an earlier turn beside the whole
    conversation, something that was answered. None if it is neither.

    Raises:
        RowError: If it was asked before, and answered in several ways.
    """
    places = [
        place
        for place, message in enumerate(said)
        if message.role == "user" and message.text.strip()
    ]
    turns = [
        turn
        for turn in pairwise([*places, len(said)])
        if _content(said[turn[0]].text) == _content(question.value)
    ]
    if turns and turns[-1][0] == places[-1]:
        return turns[-1]
    answers = {
        (start, end): texts[-1]
        for start, end in turns
        if (texts := last_said(said[start:end], "assistant"))
    }
    n_answers = len(set(answers.values()))
    if n_answers > 1:
        raise RowError(several_in_one_row("answer", n_answers))
    return max(answers, default=None)


def _refuse_unread(message: SaidMessage, field: str) -> None:
    """Raise ``RowError`` for a message of which a part is not read."""
    if message.unknown_types and message.role in ("user", "assistant", ANYONE):
        names = dict.fromkeys(message.unknown_types)
        raise RowError(
            f"{field}: parts of a message are not read"
            f" ({names_in_words(names, most=_MOST_COLUMNS_SHOWN)}), and may belong to"
            " what is said; write the whole as one text"
        )


def _fuller_history(
    told: FoundValue, turns: FoundValue, talk: Sequence[str]
) -> FoundValue:
    """Return that one of two histories which holds all that the other says, in order.

    Args:
        told: What stands in the column of the history.
        turns: The messages before a question that is the last of several.
        talk: The texts of these messages, of the question and of its answer. A history
            that was read after the answer may end with these.

    Raises:
        RowError: If each says something that the other lacks.
    """
    turns_told = map(dict, read_turns(told.value))
    texts_told = [
        str(turn["content"]) for turn in turns_told if turn["role"] != "system"
    ]
    if _holds_in_order(texts_told, [turn["content"] for turn in turns.value]):
        return told
    if _holds_in_order(talk, texts_told):
        return turns
    raise RowError(
        f"columns {turns.column!r} and {told.column!r} both hold earlier turns, and"
        " differ; leave one of them out, or name the right one: --history-column (in"
        " Python history_column=)"
    )


def _holds_in_order(texts: Iterable[str], others: Iterable[str]) -> bool:
    """Whether all of the other texts stand among the texts, in the same order."""
    texts_left = (composed_text(text).casefold() for text in texts)
    return all(composed_text(other).casefold() in texts_left for other in others)


def _refuse_accepted_answers(row: Row, column: str) -> None:
    """Refuse a list of texts in a column such as ``answer``, which nobody named.

    In data sets of questions it is of the answers that are accepted.

    Raises:
        AmbiguousColumns: If the column holds such a list.
    """
    texts = plain_data(row.get(column))
    # a list as data frames write it; a text of JSON may be what a model answered
    if isinstance(texts, str) and texts.lstrip().startswith("['"):
        texts = data_in(texts)
    is_list = isinstance(texts, (list, tuple)) and len(texts) > 0
    if plain_name(column) in _PLURALS_OF_ANSWER or not is_list:
        return
    if all(isinstance(text, str) for text in texts):
        raise AmbiguousColumns(
            f"answer (column {column!r}): a list of texts, which may be the accepted"
            " answers; name the column by --reference-column, or, if the application"
            " gave them, by --answer-column (in Python reference_column=,"
            " answer_column=)"
        )


def _value_named_by_caller(
    row: Row, field: str, column: str | Callable[[Mapping[str, Any]], Any]
) -> FoundValue:
    """Return the value that the caller's column, path or function gives for a field.

    Example: for the answer of ``{"final": {"text": "A."}}``, "final" and "final.text"
    both give "A."; a column "final" with the number 7 is taken as it is.

    Args:
        row: The row.
        field: The field of a sample.
        column: The name of a column, a dotted path into one, or a function of the row.

    Raises:
        RowError: If the callable raised.
        NoSuchColumn: If the row has no such column or path.
    """
    name = column if isinstance(column, str) else ""
    if callable(column):
        try:
            is_there, value = True, column(row)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RowError(
                f"the function for {field} raised {type(error).__name__} on this row"
            ) from error
    elif name in row:
        is_there, value = True, row[name]
    else:
        path = name.split(".")
        is_there, value = follow_path(row, path)
        # an empty cell on the way, as the outputs of a run that failed are
        ways = (follow_path(row, path[:length]) for length in range(1, len(path)))
        is_there = is_there or any(
            leads and not is_present(part) for leads, part in ways
        )
    if is_there:
        # it may wrap the text, as {"text": "A."} does; else the whole value is meant, as
        # is a text to which a path or a function leads
        may_wrap = name in row or not isinstance(value, str)
        found = _value_in_column(value, field, name) if may_wrap else None
        return found or FoundValue(value, name)
    columns_of_row = [str(name) for name in row]
    # "output.txt" is near the path "output.text", and to the column "output"
    paths: list[str] = []
    for outer_name, cell in row.items():
        data = data_in(cell)
        if isinstance(data, Mapping):
            paths += [f"{outer_name}.{key}" for key in data]
    hint = did_you_mean(name, [*columns_of_row, *paths])
    names = names_in_words(columns_of_row, most=_MOST_COLUMNS_SHOWN) or "no columns"
    raise NoSuchColumn(f"no column {name!r} for {field}{hint}; the row has: {names}")


def _choose_value(field: str, candidates: Sequence[FoundValue]) -> FoundValue | None:
    """Return the first filled one of the values that may be a field's, else the first.

    None if there is none.

    Raises:
        AmbiguousColumns: If another one is filled, too, and differs. Lists and their
            JSON are equal, as are texts but for case.
    """
    if len(candidates) < 2:
        return next(iter(candidates), None)
    first = candidates[0]
    filled: list[FoundValue] = []
    empty: list[FoundValue] = []
    for candidate in candidates:
        (filled if is_filled(candidate.value, field) else empty).append(candidate)
    chosen, *rivals = filled or [first]
    if chosen is not first:
        chosen = chosen._replace(beside=(f"as {first.column!r} is empty",))
    elif field in ("answer", "contexts") and filled and empty:
        # what is expected may stand there, and the application gave none
        chosen = chosen._replace(beside=(f"while {empty[0].column!r} is empty",))
    if field not in _FIELDS_WITH_RIVALS:
        return chosen
    option = field.replace("_", "-")
    name = _name_alone(chosen.column)
    for rival in rivals:
        if _content(rival.value) == _content(chosen.value):
            continue
        if not _may_be_prompt(field, rival.column, name):
            raise AmbiguousColumns(
                f"columns {chosen.column!r} and {rival.column!r} may both hold the"
                f" {field}, and differ; name the right one: --{option}-column (in Python"
                f" {field}_column=), or leave the other out"
                f"{'; or make one list of both' if field in _LISTS_WITH_RIVALS else ''}"
            )
        # nobody knows which of two other names is the question's, unless one is a prompt
        texts = "".join(map(str, _content(rival.value)))
        is_prompt = all(str(text) in texts for text in _content(chosen.value))
        if name not in _NAMES_OF_QUESTION and not is_prompt:
            differs = f"while {rival.column!r} differs"
            chosen = chosen._replace(beside=(*chosen.beside, differs))
    return chosen


def _may_be_prompt(field: str, column: str, chosen: str) -> bool:
    """Whether a column may hold a whole prompt, beside another one of the question."""
    asked_as = {*_NAMES_OF_QUESTION, chosen}
    return field == "question" and _name_alone(column) not in asked_as


def _content(value: Any) -> list[Any]:
    """Return what a cell holds as a list, its texts as they are compared."""
    elements = map(number_as_text, as_list(value))
    return [
        composed_text(element).casefold() if isinstance(element, str) else element
        for element in elements
    ]


def _value_in_column(value: Any, field: str, column: str) -> FoundValue | None:
    """Return the value that a cell holds for a field; None if it cannot hold the field.

    Args:
        value: The cell; for a text field such as the answer a text, an object, messages,
            or the JSON of one.
        field: The field of a sample.
        column: The name of the column, or the path of the cell.
    """
    if field not in _INNER_NAMES:
        return FoundValue(value, column) if _may_hold(value, field, column) else None
    data = data_in(value)
    name = plain_name(column)
    whole_value = FoundValue(data if name in _PLURALS_OF_ANSWER else value, column)
    is_of_parts = unknown_types_of_parts(data) is not None
    if isinstance(value, str) and is_of_parts and not text_of_content(data):
        return whole_value  # JSON that is no message
    if name == field != "question" and isinstance(value, str):
        # A model may answer in JSON, so of a text in a column that is called "answer" or
        # "reference" only messages are read.
        found = _last_message(data, field) or whole_value
    else:
        text = _text_in(data, field)
        if text is None and isinstance(data, Mapping):
            return None
        found = text or whole_value
    return found._replace(column=column)


def _may_hold(value: Any, field: str, column: str) -> bool:
    """Tell whether a cell may be meant for a field, by whose name its column goes.

    Columns of these names hold other things, too: ``retrieved`` how many there were.
    """
    if field == "citations":  # web addresses, for one, are none
        citations = data_in(value)
        return is_citations(citations) or numbering_in(citations) is not None
    if field in KEY_IN_OWN_RESULTS:
        own_data = data_in(value)
        return isinstance(own_data, Mapping) and KEY_IN_OWN_RESULTS[field] in own_data
    if field in ("generator", "standalone_question"):
        return isinstance(data_in(value), str)
    if field == "error":  # a measure, such as a loss of 0.12, is none; a code is whole
        number = _number(value)
        return number is None or number.is_integer()
    if field == "retrieved":
        return _number(value) is None
    if field == "history":
        # The id of a conversation, in a column "conversation", is none. Any other text
        # is one, as the error of its row says how a history is written.
        is_word = len(str(value).split()) < 2 and conversation_name(column) is not None
        is_text = isinstance(value, str) and (looks_like_list(value) or not is_word)
        is_data = isinstance(data_in(value), (list, tuple, Mapping))
        return is_data or is_text or not is_filled(value, field)
    return True


def _number(value: Any) -> float | None:
    """Return the number that a cell holds or writes, True as 1; None for none."""
    cell = plain_data(value)
    if str(cell).strip().casefold() in ("true", "false"):
        return 1.0
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None


def _text_in(data: Any, field: str, depth: int = _DEEPEST) -> FoundValue | None:
    """Find the text of a field, or its several texts, in an object or in messages.

    Tried in this order: a usual name of the field; the last message of the field's
    speaker, such as the assistant for an answer; a general name such as ``content``.
    Returns None if nothing is found.

    ``depth`` is how many objects inside of each other are looked into.
    """
    if not isinstance(data, Mapping):
        return _last_message(data, field)
    text = _text_under(data, USUAL_NAMES[field], field, depth)
    if text is None or not is_filled(text.value, field):
        text = _last_message(data, field) or text
    role = unwrap_message(data).role
    if text is not None or role not in (None, _SPEAKERS[field]):
        return text
    return _text_under(data, _INNER_NAMES[field], field, depth)


def _text_under(
    data: Mapping[str, Any], names: Sequence[str], field: str, depth: int
) -> FoundValue | None:
    """Try some keys in an object, and choose a text for a field among the values.

    Example: ``{"output": {"content": "Blue."}}`` and the key "output" give "Blue." for
    the field "answer".

    Args:
        data: The object.
        names: The keys to try.
        field: The sample's field to fill.
        depth: How many objects inside of each other are looked into.
    """
    candidates: list[FoundValue] = []
    for name in names:
        if name not in data:
            continue
        value = plain_data(data[name])  # an array of numpy becomes a list
        # '{"content": "Blue."}' becomes an object
        text_inside = _text_in(data_in(value), field, depth - 1) if depth else None
        if text_inside is not None:
            candidates.append(text_inside._replace(column=name))
        elif not isinstance(value, Mapping):  # "Blue."; an object without text is none
            candidates.append(FoundValue(value, name))
    return _choose_value(field, candidates)


def _last_message(data: Any, field: str) -> FoundValue | None:
    """Return what the field's speaker said last in messages; None for no such message.

    What is said before a call of a tool is nothing. None, too, where a text stands among
    the messages, of which nobody knows who said it.

    Raises:
        RowError: If a message holds an image or a recording.
    """
    if isinstance(data, (list, tuple)) and any(isinstance(each, str) for each in data):
        return None
    messages = tuple(said_messages(data))
    if any(message.has_media for message in messages):
        raise RowError(f"{field}: {MEDIA_REFUSED}")
    speaker = _SPEAKERS[field]
    if {message.role for message in messages}.isdisjoint((speaker, ANYONE)):
        return None
    texts = last_said(messages, speaker)
    if texts:
        return FoundValue(texts[-1], "", messages)
    # as where the user thanks for it
    has_earlier = any(each.role == speaker and each.text.strip() for each in messages)
    told = ("whose messages end without one",) if has_earlier else ()
    return FoundValue(None, "", messages, told)


def read_turns(value: Any, field: str = "history") -> list[Any]:
    """Return the earlier turns of a conversation.

    The value is a list, or the JSON of a list. Its elements are messages, such as
    ``{"role": "user", "content": "Hi"}``, texts, in turn of the user and of the
    assistant: ``["Hi", "Hello"]``, or pairs of both, as a list or by the usual names:
    ``{"question": "Hi", "answer": "Hello"}``. Messages that say nothing are left out,
    such as those that only call a tool.

    Raises:
        RowError: If the value is a single text, or a list that cannot be read, or if an
            element is none of these.
    """
    turns: list[Any] = []
    data = data_in(value)
    is_request = isinstance(data, Mapping) and any(said_messages(data))
    elements = [data] if is_request else oldest_first(read_list(data, field))
    pairs = [messages_of_pair(element) or [element] for element in elements]
    for index, element in enumerate(chain.from_iterable(pairs)):
        if isinstance(element, Turn):
            turns.append(element)
        elif isinstance(element, Mapping):
            for message in _messages_of_object(element, field):
                if message.has_media:
                    raise RowError(f"{field}: {MEDIA_REFUSED}")
                _refuse_unread(message, field)
                if message.text not in (None, ""):
                    role = message.role or "user"
                    turns.append({"role": role, "content": message.text})
        else:
            role = "assistant" if index % 2 else "user"
            turns.append({"role": role, "content": element})
    return turns


def _messages_of_object(value: Mapping[str, Any], field: str) -> list[SaidMessage]:
    """Return the messages of one object of a history: one, those it holds, or a pair.

    Raises ``RowError`` for an object without any.
    """
    messages = list(said_messages(value))
    names_speakers = all(message.role != ANYONE for message in messages)
    if messages and names_speakers:
        return messages
    unwrapped = unwrap_message(value)
    content = unwrapped.content
    if content is not None and unwrapped.speaker:  # by another name
        has_media = holds_media(content)
        if isinstance(content, (list, tuple, Mapping)):
            content = text_of_content(content)
        return [SaidMessage(str(unwrapped.speaker), content, has_media)]
    pair = [SaidMessage(known_role(key) or "", text) for key, text in value.items()]
    asked, answered = _text_in(value, "question"), _text_in(value, "answer")
    if asked is not None and answered is not None:
        pair = [
            SaidMessage("user", asked.value),
            SaidMessage("assistant", answered.value),
        ]
    is_pair = [message.role for message in pair] == ["user", "assistant"]
    if not (is_pair and names_speakers):
        raise RowError(
            f"{field}: an object that is no message; write each as"
            ' {"role": "user", "content": "…"}, or in pairs as {"question": "…",'
            ' "answer": "…"}'
        )
    return pair
