"""Values of rows, read into the shapes that samples need.

The module knows what is missing, what was written as text, and the shapes of documents,
facts and earlier turns.
"""

import ast
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ragmetrics_core.data.errors import NotJson, RowError
from ragmetrics_core.data.files import json_value
from ragmetrics_core.data.frozen import is_blank
from ragmetrics_core.data.sample import Context, Turn

# LangChain (page_content, under kwargs if serialised), Haystack (content), LlamaIndex
# (node), Phoenix (document.).
_TEXT_KEYS = (
    *(
        "text",
        "page_content",
        "content",
        "chunk",
        "passage",
        "passage_text",
        "context",
        "document",
        "node.text",
    ),
    *(
        "node.text_resource.text",
        "text_resource.text",
        "document.content",
        "kwargs.page_content",
    ),
)
_ID_KEYS = (
    *("id", "id_", "node_id", "doc_id", "document_id", "chunk_id", "passage_id"),
    *("node.id_", "document.id", "kwargs.id"),
)
_SCORE_KEYS = ("score", "relevance_score", "similarity", "document.score")
_METADATA_KEYS = (
    "metadata",
    "meta",
    "node.metadata",
    "document.metadata",
    "kwargs.metadata",
)
_SPEAKERS = {"human": "user", "ai": "assistant"}

# How str() writes lists of objects, and arrays with their middle left out.
_WRITTEN_OBJECTS = re.compile(
    r"\[?\s*array\(\[|\[\s*[A-Za-z_][\w.]*\(\w+=|\[\s*<[\w.]+ object at"
    r" |\[['\"].*['\"]\s*\.\.\.\s*['\"]",
    re.DOTALL,
)
# A string, and the mark with which another one begins behind it. One that is not closed
# goes on to the end of the text, so that no character is looked at for each mark before
# it.
_STRING = re.compile(
    r"""('(?:\\.|[^'\\])*+(?:'|\\?\Z)|"(?:\\.|[^"\\])*+(?:"|\\?\Z))(?=\s*+(['"]?))""",
    re.DOTALL,
)
# How a list of texts or objects begins: in brackets, in smart quotes, as an array of
# Postgres, as a tuple of texts, or as JSON that stands in JSON as a text.
_LIST_BEGINS = re.compile(
    r"""\s*(?:\[\s*["'{“”„‘«]|\{\s*["']|\(\s*(["'])(?:(?!\1).)*+\1\s*,\s*["']|"\s*[\[{]\s*(?:\\|\{))""",
    re.DOTALL,
)
_CLOSING = {"[": "]", "{": "}"}
_NAME = re.compile(r"[\w.:-]{1,40}")  # what looks like a name, not like a text
_ENCODINGS = 4  # JSON in JSON, so often

_LISTS = ("contexts", "retrieved", "facts", "history")  # fields of several texts
# What tables write for nothing: numpy, pandas, databases, Excel.
_NOTHING = ("nan", "none", "null", "na", "n/a", "#n/a", "<na>", "\\n", "nat")


def is_present(value: Any) -> bool:
    """False for None, NaN, NaT and texts that show nothing; an empty list is a value: nothing was retrieved."""
    value = plain_data(value)
    if isinstance(value, str):
        return not is_blank(value)
    # of pandas, which is not imported here
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return False
    return not (isinstance(value, float) and math.isnan(value))


def is_filled(value: Any, field: str) -> bool:
    """Whether a cell holds something for a field of a sample.

    In a column of several texts also what tables write for nothing is nothing, such as
    ``None`` or ``[nan]``.
    """
    if not is_present(value):
        return False
    return field not in _LISTS or not _means_nothing(value)


def _means_nothing(value: Any) -> bool:
    if isinstance(value, str):
        text = value.strip()
        if text[:1] in _CLOSING and text[-1:] == _CLOSING[text[:1]]:
            text = text[1:-1].strip()
        if text.casefold() in _NOTHING:
            return True
    data = data_in(value)
    if not isinstance(data, (list, tuple)) or len(data) != 1:
        return False
    (only,) = data
    return not is_present(only) or (
        isinstance(only, str) and only.strip().casefold() in _NOTHING
    )


def plain_data(value: Any) -> Any:
    """Arrays and scalars of numpy as lists and numbers; everything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def number_as_text(value: Any) -> Any:
    """Return a number as its text, and every other value as it is.

    A whole number has no decimals. Data frames add them to a column with gaps.
    """
    value = plain_data(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return (
        str(int(value)) if isinstance(value, int) or value.is_integer() else repr(value)
    )


def data_in(value: Any) -> Any:
    r"""Return the lists and objects that stand in a text as data.

    The text may be JSON, JSON in JSON, or Python as data frames write it. Every other
    value stays as it is.

    Examples:
        >>> data_in("['a', None]"), data_in("['a'\n 'b']"), data_in("[sic]")
        (['a', None], ['a', 'b'], '[sic]')
        >>> data_in("('a', 'b')"), data_in('"[\\"a\\"]"'), data_in('"a"')
        (('a', 'b'), ['a'], '"a"')
    """
    value = plain_data(value)
    data = value
    for _ in range(_ENCODINGS):
        if isinstance(data, str):
            data = _parse(data)
    return data if isinstance(data, (list, tuple, dict, set)) else value


def _parse(text: str) -> Any:
    """The value that a text holds as JSON or Python, if it may be a list or an object.

    Else None.
    """
    if text.lstrip(" \t\r\n\"'\\")[:1] not in ("[", "{", "("):
        return None
    try:
        return json_value(text)
    except NotJson:
        pass  # perhaps it is Python
    except RowError:
        return None
    try:
        with warnings.catch_warnings():
            # a text is no code of ours: its escapes are nobody's mistake
            warnings.simplefilter("ignore")
            return ast.literal_eval(_STRING.sub(_add_comma, text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _add_comma(string: re.Match[str]) -> str:
    """Return a string with a comma if another string follows it.

    Numpy writes no comma between strings, and Python would join them.
    """
    return f"{string[1]}," if string[2] else string[1]


def follow_path(value: Any, path: Sequence[str]) -> tuple[bool, Any]:
    """Follow a path of keys and indices through dicts, JSON strings and lists.

    A key may itself have dots, as flattened tables write them; the longest comes first.

    Returns whether something is there, and what.

    Examples:
        >>> follow_path({"prediction": '{"contexts": ["a", "b"]}'}, ["prediction", "contexts", "1"])
        (True, 'b')
        >>> follow_path({"trace": {"user.id": 7}}, ["trace", "user", "id"])
        (True, 7)
    """
    if not path:
        return True, value
    value = data_in(value)
    if isinstance(value, Mapping):
        for length in range(len(path), 0, -1):
            key = ".".join(path[:length])
            if key in value:
                is_there, leaf = follow_path(value[key], path[length:])
                if is_there:
                    return True, leaf
        return False, None
    is_index = path[0].isdecimal()
    if isinstance(value, (list, tuple)) and is_index and int(path[0]) < len(value):
        return follow_path(value[int(path[0])], path[1:])
    return False, None


def _keys_in_words(cell: Mapping[str, Any]) -> str:
    """The keys of an object, but for those that may be texts of a sample."""
    if not cell:
        return "nothing"
    if all(isinstance(plain_data(value), (int, float)) for value in cell.values()):
        return (
            "an object of texts and scores; write a list of objects such as"
            ' {"text": "…", "score": 0.9}'
        )
    names = [str(key) for key in cell if _NAME.fullmatch(str(key))]
    count = len(cell) - len(names)
    unnamed = [f"{count} key{'s' * (count > 1)} that may be texts"] if count else []
    return ", ".join([*names, *unnamed])


def _value_of_first_key(cell: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """The first value that is there and not None.

    Keys with dots are names, or else paths.
    """
    values = (
        cell[key] if key in cell else follow_path(cell, key.split("."))[1]
        for key in keys
    )
    return next((value for value in values if value is not None), None)


def as_list(value: Any) -> list[Any]:
    """Several things as a list; a single one as a list of one.

    A text that holds a list or an object, as JSON or Python, is that list or object. An
    object whose text is a list, as Hugging Face writes lists of objects, is one object
    per text.
    """
    data = data_in(value)
    if not isinstance(data, Mapping):
        return list(data) if isinstance(data, (list, tuple)) else [data]
    columns = {name: plain_data(cell) for name, cell in data.items()}
    texts = _value_of_first_key(columns, _TEXT_KEYS)
    if not isinstance(texts, list):
        return [data]
    lists = {
        name: value
        for name, value in columns.items()
        if isinstance(value, list) and len(value) == len(texts)
    }
    return [
        {name: value[index] for name, value in lists.items()}
        for index in range(len(texts))
    ]


def read_contexts(value: Any, field: str) -> list[Any]:
    """Return the contexts of a row.

    Raises ``RowError`` if a context has no text, or if Python objects were written as
    one text.
    """
    written = (
        isinstance(value, str)
        and value.rstrip()[-1:] in ("]", ")")
        and _WRITTEN_OBJECTS.match(value.lstrip())
    )
    if written and isinstance(data_in(value), str):
        raise RowError(
            f"{field}: Python objects that str() wrote as one text; write a list of"
            " their texts, or JSON"
        )
    _refuse_broken_list(value, field)
    return [
        read_context(cell, field, rank)
        for rank, cell in enumerate(as_list(value), start=1)
    ]


def looks_like_list(value: Any) -> bool:
    """Tell whether a text looks like a list.

    Such a text begins as a list of texts or objects, or it stands in brackets with
    commas, as a list without quotes does.

    Examples:
        >>> looks_like_list('["one", "tw'), looks_like_list("[one, two]"), looks_like_list("[1] One, two.")
        (True, True, False)
    """
    return isinstance(value, str) and bool(
        _LIST_BEGINS.match(value) or _is_unquoted_list(value.strip())
    )


def _is_unquoted_list(text: str) -> bool:
    """Whether a text stands as a whole in one pair of brackets, and has a comma."""
    opening, closing = text[:1], _CLOSING.get(text[:1])
    if closing is None or text[-1:] != closing or "," not in text:
        return False
    depth = 0
    for place, character in enumerate(text, start=1):
        depth += (character == opening) - (character == closing)
        if depth == 0:
            return place == len(text)
    return False


def _refuse_broken_list(value: Any, field: str) -> None:
    """Refuse a text that looks like a list but cannot be read as one.

    The error is a ``RowError``.
    """
    if not looks_like_list(value) or not isinstance(data_in(value), str):
        return
    raise RowError(
        f"{field}: begins as a list and cannot be read as one; perhaps it was cut off,"
        " as Excel cuts a cell at 32,767 characters, or written without its quotes;"
        " write the whole list as JSON, or a text that looks so as a list of one text"
    )


def read_context(cell: Any, field: str, rank: int) -> Any:
    """Return a context from a text or from an object with a text.

    The object may have the usual shapes of documents, nodes and passages. An object
    without a text raises ``RowError``.
    """
    if isinstance(cell, (str, Context)):
        return {"text": cell} if isinstance(cell, str) else cell
    if not isinstance(cell, Mapping):
        raise RowError(
            f"{field}: number {rank} must be a text or an object with a text, found"
            f" {type(cell).__name__}"
        )
    text = _value_of_first_key(cell, _TEXT_KEYS)
    if not isinstance(text, str):
        raise RowError(
            f"{field}: number {rank} is an object without a text (one of"
            f" {', '.join(_TEXT_KEYS)}): {_keys_in_words(cell)}"
        )
    name, score = (
        _value_of_first_key(cell, _ID_KEYS),
        plain_data(_value_of_first_key(cell, _SCORE_KEYS)),
    )
    number = (
        isinstance(score, (int, float))
        and not isinstance(score, bool)
        and abs(score) < math.inf
    )
    return {
        "text": text,
        "id": (
            None
            if isinstance(name, (Mapping, list, tuple)) or not is_present(name)
            else str(number_as_text(name))
        ),
        "score": float(score) if number else None,
        "metadata": read_metadata(_value_of_first_key(cell, _METADATA_KEYS) or {}),
    }


def read_metadata(value: Any) -> dict[str, Any]:
    """Metadata with texts for names."""
    data = data_in(value)
    return (
        {str(key): cell for key, cell in data.items()}
        if isinstance(data, Mapping)
        else {"metadata": data}
    )


def read_facts(value: Any) -> list[Any] | None:
    """Return facts from texts or objects; None if there are none.

    An object has a ``text`` and perhaps a ``weight``.
    """
    _refuse_broken_list(value, "facts")
    kept = ("text", "weight")
    return [
        (
            {key: cell[key] for key in kept if cell.get(key) is not None}
            if isinstance(cell, Mapping)
            else cell
        )
        for cell in as_list(value)
    ] or None


def read_turns(value: Any) -> list[Any]:
    """Return the earlier turns of a conversation.

    They come from messages, from pairs of question and answer, or from texts that take
    turns.

    Raises:
        RowError: For a single text, which is no history, and for a list that cannot be
            read.
    """
    _refuse_broken_list(value, "history")
    if isinstance(data_in(value), str):
        raise RowError(
            "history: needs a list of texts or of messages with a content, found a"
            " single text"
        )
    messages = as_list(value)
    if messages and all(
        isinstance(turn, (list, tuple)) and len(turn) == 2 for turn in messages
    ):
        messages = [text for pair in messages for text in pair]
    return [_read_turn(number, turn) for number, turn in enumerate(messages)]


def _read_turn(number: int, turn: Any) -> Any:
    if isinstance(turn, Mapping):
        speaker = str(_value_of_first_key(turn, ("role", "speaker", "type")) or "user")
        return {
            "role": _SPEAKERS.get(speaker, speaker),
            "content": _value_of_first_key(turn, ("content", "text", "message")),
        }
    return (
        turn
        if isinstance(turn, Turn)
        else {"role": ("user", "assistant")[number % 2], "content": turn}
    )
