"""Values of rows, read into the shapes that samples need.

The module knows what is missing, what was written as text, and the shapes of documents,
facts and earlier turns.
"""

import ast
import csv
import json
import math
import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple

from ragmetrics_core.data.errors import AmbiguousColumns, NotJson, RowError
from ragmetrics_core.data.files import json_value
from ragmetrics_core.data.messages import (
    MEDIA_REFUSED,
    UnwrappedMessage,
    is_of_parts,
    known_role,
    names_media,
    unwrap_message,
)
from ragmetrics_core.data.name_matching import plain_name
from ragmetrics_core.data.sample_parts import Context, fields_of_document
from ragmetrics_core.data.scalars import (
    composed_text,
    is_number,
    is_placeholder,
    is_present,
    is_prose,
    is_word_for_nothing,
    number_as_text,
    plain_data,
)

# Keys of a document, compared as names of columns are; with a dot they are Phoenix's.
_TEXT_KEYS = ("text", "page_content", "content")
_TEXT_KEYS_OF_DOCUMENT = (
    *_TEXT_KEYS,
    *("chunk", "passage", "passage_text", "context", "document", "document.content"),
)
_KEYS_OF_EXTRACTS = ("snippet", "body")  # of a search, where no other key has a text
# Where a document's text may stand. One without a text of its own may hold an object with
# one: LlamaIndex's node, Qdrant's payload, Elasticsearch's _source, LangChain's kwargs,
# Bedrock's content, Pinecone's metadata. Metadata of others may have a type as content.
_KEYS_OF_TEXT_BY_PLACE: dict[tuple[str, ...], Sequence[Sequence[str]]] = {
    (): (_TEXT_KEYS_OF_DOCUMENT, _KEYS_OF_EXTRACTS),
    **dict.fromkeys(
        (
            *(("node",), ("node", "text_resource"), ("text_resource",), ("payload",)),
            *(("_source",), ("data",), ("kwargs",), ("document",), ("content",)),
        ),
        (_TEXT_KEYS, _KEYS_OF_EXTRACTS),
    ),
    ("metadata",): (("text",),),
}
_ID_KEYS = (
    *("id", "node_id", "doc_id", "document_id", "chunk_id", "passage_id"),
    "document.id",
)
_SCORE_KEYS = ("score", "relevance_score", "similarity", "document.score")
_METADATA_KEYS = ("metadata", "meta", "document.metadata")
# A string, then blanks and the mark with which another one begins. One that is not closed
# goes on to the end of the text, so that no character is looked at for each mark before
# it.
_STRING = re.compile(
    r"""('(?:\\.|[^'\\])*+(?:'|\\?\Z)|"(?:\\.|[^"\\])*+(?:"|\\?\Z))(?=(\s*+)(['"]?))""",
    re.DOTALL,
)
# A text as JSON writes it: with an escaped quotation mark or letter, and without escapes
# that may be TeX or a path, as those of "\frac" and "C:\temp" are.
_JSON_STRING = re.compile(
    r"""\s*"(?=(?:[^"\\]|\\[^"u])*\\["u])(?:[^"\\]|\\["\\/n]|\\u[0-9a-fA-F]{4})*"\s*"""
)
# How a list of texts or objects begins: in brackets, in smart quotes, as an array of
# Postgres or numpy, as a tuple of texts, or as JSON that stands in JSON as a text.
_LIST_BEGINS = re.compile(
    r"""\s*(?:(?:array\()?\[\s*["'{“”„‘«]|\{\s*["']|\(\s*(["'])(?:(?!\1).)*+\1\s*,\s*["']|"\s*[\[{]\s*(?:\\|\{))""",
    re.DOTALL,
)
_MESSAGES_BEGIN = re.compile(
    r"""\s*(?:(?:\[\s*)?\{\s*"(?:role|messages)"|\[\s*\{\s*(["'])(?:role|content)\1)\s*:"""
)
_LIST_OF_TEXTS_BEGINS = re.compile(r'\s*\[\s*"')
_OBJECT_BEGINS = re.compile(r"""\s*(?:\[\s*)?\{\s*(?:"(?:[^"\\]|\\.)*+"|'\w+')\s*:""")
# What ``str()`` makes of an object, a list of some or a dictionary that holds some: a
# class with its fields, or, as pydantic does, fields alone. Its strings are cut to "''"
# before: no prose is left, so behind a blank stands the name of a field or of a class, or
# before it a comma or a bracket. Gemini's begins with a word.
_CLASS = r"(?:(?:response:\s*)?[A-Z][\w.]*|namespace)\("
_FIELDS_BEGIN = re.compile(
    rf"\s*(?:[\[(]*(?:{_CLASS}\s*\w+=|\w+=(?:['\"\[{{<\d]|True|False|None|[A-Z]\w*\())"
    r"|\{['\"])"
)
_FIELDS_OF_OBJECT = re.compile(
    rf"[\s\[({{':,]*(?:{_CLASS}\s*)?\w+="
    r"(?:[,:(\[{]\s+|\S|\s+(?=[\w.]+[=(]|[)\]}]))*+\s*"
)
# Python's default; a method that was not called, a class; bytes; a document of Haystack,
# Document(id=7, content: 'Its beginning...'); a node of LlamaIndex, "Node ID: 7\nText: Its
# beginning..."; a reply of Gemini or of OpenAI's agents; one field, as of LangChain's
# documents; objects of JavaScript, Java and .NET
_OBJECT_WRITTEN = re.compile(
    r"""\s*(?:
    [\[(]*<[^\n]+\bat[ ]0x[0-9A-Fa-f]+>+[\s\])]*
    |<(?:bound[ ]method[ ][\w.]+[ ]of[ ]|class[ ]['"]|Response[ ]\[|Task[ ]\w+[ ]name=).*>\s*
    |b(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\s*
    |[A-Z]\w*\(\w+=[^\s,]+,[ ]\w+:[ ]['"].*\)\s*
    |(?:(?:Node|Doc)[ ]ID:[ ]\S+\s*\nText:[ ]|candidates[ ]\{\n|RunResult\w*:\n-[ ]).*
    |(?:page_content|content|text|answer|response|output|result)=(?P<mark>['"]).*(?P=mark)\s*
    |(?:OrderedDict\(\[\(|np\.str_\()['"].*\)\s*
    |(?:(?:\[object[ ]\w+\]|\[L[\w.$]++;@[0-9a-f]++
        |System(?:\.[A-Z]\w*+)++(?:`\d)?+(?:\[[\w.]*+\])++)[,;|\s]*+)++
    )""",
    re.DOTALL | re.VERBOSE,
)
_CLOSING = {"[": "]", "{": "}"}
# before each passage of a question on several, in a test set made by ragas
_HOP_OF_RAGAS = re.compile(r"<\d+-hop>\s*")
_NAME = re.compile(r"[\w.:-]{1,40}")  # what looks like a name, not like a text
_MOST_PATHS = 3  # in a message
_DEEPEST = 4  # objects in objects
_MOST_ENCODINGS = 4  # how often JSON may stand in JSON as a text

# fields that no word such as N/A fills; an answer may be one
_FIELDS_WITHOUT_WORDS_FOR_NOTHING = (
    "contexts",
    "retrieved",
    "facts",
    "expected_ids",
    "expected_contexts",
    "history",
    "standalone_question",
)


def is_filled(value: Any, field: str) -> bool:
    """Tell whether a cell holds something for a field of a sample.

    In a column of several texts, or of the question as rewritten, a word such as ``N/A``
    is nothing, too, as are dashes and dots, alone, in brackets (``[nan]``), or as all
    elements of a list. The word may be an answer or a reference.
    """
    if field not in _FIELDS_WITHOUT_WORDS_FOR_NOTHING:
        return is_present(value)
    data = data_in(value)
    elements = data if isinstance(data, (list, tuple)) and data else [value]
    for element in elements:
        is_text = isinstance(element, str)
        if is_text and (is_placeholder(element) or is_word_for_nothing(element)):
            continue
        if is_present(element):
            return True
    return False


def data_in(value: Any) -> Any:
    r"""Return the lists and objects that stand in a text as data, and JSON's own texts.

    The text may be JSON, JSON in JSON, or Python as data frames write it. Every other
    value stays as it is, as does a quotation without an escape.

    Examples:
        >>> data_in("['a', None]"), data_in("['a'\n 'b']"), data_in("[sic]")
        (['a', None], ['a', 'b'], '[sic]')
        >>> data_in("['It ' 'fell', 'b']")
        ['It fell', 'b']
        >>> data_in("('a', 'b')"), data_in('"[\\"a\\"]"'), data_in('"a"')
        (('a', 'b'), ['a'], '"a"')
        >>> data_in(r'"J\u00fcrgen \"J.\""')
        'Jürgen "J."'
    """
    plain_value = plain_data(value)
    data = plain_value
    for _ in range(_MOST_ENCODINGS):
        parsed = _parse(data) if isinstance(data, str) else data
        if parsed is data:
            break
        data = parsed
    if data is plain_value or not isinstance(data, str):
        return data
    return plain_value if _JSON_STRING.fullmatch(plain_value) is None else data


def _parse(text: str) -> Any:
    """Return what a text holds that is a list, an object or a JSON string.

    A list or object may be written as Python does. Returns the text itself if it is none
    of these, or JSON with one key twice.
    """
    is_list = text.lstrip(" \t\r\n\"'\\")[:1] in ("[", "{", "(")
    is_string = text.lstrip()[:1] == '"' and _JSON_STRING.fullmatch(text) is not None
    if not (is_list or is_string):
        return text
    try:
        # in a cell of Excel a text of a list may have several lines
        return json_value(text, strict=not is_list)
    except NotJson:
        if not is_list:
            return text  # else perhaps it is Python
    except RowError:
        return text
    python_text = text.strip()
    if python_text.startswith('"') and '""' in python_text:
        # quoted as in CSV, whose reader did not undo it, as behind a blank
        with suppress(csv.Error):  # it is too long
            fields = next(csv.reader([python_text]))
            return fields[0] if len(fields) == 1 else text
        return text
    if python_text[0] not in "\"'":
        # Numpy writes blanks between strings and no comma, and Python would join them.
        # Without a blank it is one string, with marks doubled as SQL and CSV write them.
        if any(string[3] and not string[2] for string in _STRING.finditer(python_text)):
            return text
        if "," not in _STRING.sub("", python_text):
            python_text = _STRING.sub(
                lambda string: f"{string[1]}," if string[3] else string[1], python_text
            )
    try:
        with warnings.catch_warnings():
            # a text is no code of ours: its escapes are nobody's mistake
            warnings.simplefilter("ignore")
            data = ast.literal_eval(python_text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return data if isinstance(data, (list, tuple, dict, set, str)) else text


def follow_path(value: Any, path: Sequence[str]) -> tuple[bool, Any]:
    """Follow a path of keys and indices through dicts, JSON strings and lists.

    A key may itself have dots, as flattened tables write them. So several steps of the
    path may be one key; the key of the most steps is tried first. A key leads through a
    list of objects to what they have there, as one list, in which a text in parts is one;
    None stands for an element without it. One must have it, unless the list is empty.

    Returns whether the path leads to something, and to what.

    Examples:
        >>> follow_path({"prediction": '{"contexts": ["a", "b"]}'}, ["prediction", "contexts", "1"])
        (True, 'b')
        >>> follow_path({"answers": ["a", "b"]}, ["answers", "-1"])
        (True, 'b')
        >>> follow_path({"trace": {"user.id": 7}}, ["trace", "user", "id"])
        (True, 7)
        >>> follow_path({"hits": [{"doc": {"text": "a"}}, {"doc": {"text": "b"}}]}, ["hits", "doc", "text"])
        (True, ['a', 'b'])
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
    if not isinstance(value, (list, tuple)):
        return False, None
    if path[0].removeprefix("-").isdecimal():
        index = int(path[0])
        is_inside = -len(value) <= index < len(value)
        return follow_path(value[index], path[1:]) if is_inside else (False, None)
    leaves: list[Any] = []
    is_there = not value
    for element in map(data_in, value):
        element_has_it, leaf = False, None
        if isinstance(element, Mapping):
            element_has_it, leaf = follow_path(element, path)
        is_there = is_there or element_has_it
        is_list = isinstance(leaf, (list, tuple)) and not is_of_parts(leaf)
        leaves += leaf if is_list else [leaf]
    return is_there, leaves if is_there else None


def without_path(data: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return an object without what a path leads to.

    A list of texts that it enters goes whole. One of objects stays: they hold more.

    Examples:
        >>> without_path({"reply": {"text": "a", "docs": ["b"]}}, ["reply", "docs"])
        {'reply': {'text': 'a'}}
        >>> without_path({"docs": [{"id": 7, "text": "b"}]}, ["docs", "id"])
        {'docs': [{'id': 7, 'text': 'b'}]}
    """
    for length in range(len(path), 0, -1):
        key, rest = ".".join(path[:length]), path[length:]
        if key in data and follow_path(data[key], rest)[0]:
            inner = data_in(data[key])
            if rest and isinstance(inner, Mapping):
                return {**data, key: without_path(inner, rest)}
            if rest and not all(isinstance(element, str) for element in inner):
                return dict(data)
            return {name: value for name, value in data.items() if name != key}
    return dict(data)


def _value_of_first_key(cell: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Return the value of the first key that has one; None if none has."""
    return next(iter(_values_of_keys(cell, keys).values()), None)


def _values_of_keys(cell: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return the value of each key that has one, in the order of the keys.

    Case, spaces, hyphens and underscores do not matter.
    """
    plain_names = [plain_name(key) for key in keys]
    values: list[tuple[int, Any, Any]] = []
    for key, value in cell.items():
        name = plain_name(str(key))
        if value is not None and name in plain_names:
            values.append((plain_names.index(name), key, value))
    return {key: value for _, key, value in sorted(values, key=itemgetter(0))}


def _texts_of_document(cell: Mapping[str, Any]) -> dict[tuple[str, ...], str]:
    """Return the texts that may be an object's, by the path to each.

    A text in parts is joined as that of a tool's message. Only where no key holds a text
    that is filled, the objects in it that may hold one are searched.
    """
    texts: dict[tuple[str, ...], str] = {}
    for path, keys_in_turn in _KEYS_OF_TEXT_BY_PLACE.items():
        data: Any = cell
        for key in path:
            data = data_in(data.get(key)) if isinstance(data, Mapping) else None
        for keys in keys_in_turn if isinstance(data, Mapping) else ():
            found: dict[tuple[str, ...], str] = {}
            for key, value in _values_of_keys(data, keys).items():
                if is_of_parts(value):
                    value = UnwrappedMessage("tool", {"content": value}).text or None
                if isinstance(value, str):
                    found[(*path, key)] = value
            texts |= found
            if any(map(is_present, found.values())):
                break
        if not path and any(map(is_present, texts.values())):
            break
    return texts


def holds_prose(value: Any) -> bool:
    """Tell whether a cell is a text of three words or more, or a list that holds one.

    The elements of a list may be documents.

    Examples:
        >>> holds_prose([{"text": "Anna lit it."}]), holds_prose("Anna Brandt")
        (True, False)
    """
    texts: list[Any] = []
    for element in as_list(value):
        is_object = isinstance(element, Mapping)
        texts += _texts_of_document(element).values() if is_object else [element]
    return any(isinstance(text, str) and is_prose(text) for text in texts)


def as_list(value: Any) -> list[Any]:
    """Return several things as a list; a single one as a list of one.

    A text that holds a list or an object, in JSON or as Python writes it, counts as
    that list or object. An object of lists becomes a list of objects.
    """
    data = data_in(value)
    if isinstance(data, (list, tuple)):
        return list(data)
    if not isinstance(data, Mapping):
        return [data]
    # Hugging Face writes [{"text": "a", "id": 1}, …] as {"text": ["a", "b"], "id": [1, 2]}
    values_by_key = {name: plain_data(cell) for name, cell in data.items()}
    texts = _value_of_first_key(values_by_key, _TEXT_KEYS_OF_DOCUMENT)
    if not isinstance(texts, list):
        return [data]
    objects: list[dict[str, Any]] = [{} for _ in texts]
    for key, values in values_by_key.items():
        if isinstance(values, list) and len(values) == len(texts):
            for object_of_text, value in zip(objects, values, strict=True):
                object_of_text[key] = value
    return objects


def read_contexts(value: Any, field: str, column: str = "") -> list[Any]:
    """Return the contexts of a row.

    An empty element, such as None, is one without a text, so that those behind it keep
    their rank; what is expected has no ranks.

    Raises ``RowError`` if a context has no text, or if a list cannot be read.
    """
    contexts = []
    for rank, element in enumerate(read_list(value, field), start=1):
        is_empty = not isinstance(element, str) and not is_present(element)
        cell = "" if is_empty and field != "expected_contexts" else element
        if isinstance(cell, str) and field == "expected_contexts":
            cell = _HOP_OF_RAGAS.sub("", cell)
        contexts.append(read_context(cell, field, rank, column))
    return contexts


def is_record(data: Any) -> bool:
    """Tell whether data is an object, and neither a document nor several of them."""
    if not isinstance(data, Mapping) or as_list(data) != [data]:
        return False
    return not (_texts_of_document(data) or names_media(data))


def looks_like_list(text: str) -> bool:
    """Tell whether a text looks like a list.

    Such a text begins as a list of texts or objects, or it stands in brackets with
    commas, as a list without quotes does.

    Examples:
        >>> looks_like_list('["one", "tw'), looks_like_list("[one, two]"), looks_like_list("[1] One, two.")
        (True, True, False)
    """
    if _LIST_BEGINS.match(text) is not None:
        return True
    # one pair of brackets holds all of the text, and it has a comma
    text = text.strip()
    opening = text[:1]
    closing = _CLOSING.get(opening)
    if closing is None or text[-1:] != closing or "," not in text:
        return False
    # before the first closing bracket inside there must be one that it closes
    before, is_inside, _ = text[1:-1].partition(closing)
    return not is_inside or opening in before


def refuse_what_was_cut(value: Any, field: str) -> None:
    """Refuse a text that begins as messages, or references as a list, and breaks off.

    Words may follow on JSON, as where somebody asks what is wrong with it.

    Raises ``RowError``.
    """
    begins = _LIST_OF_TEXTS_BEGINS if field == "reference" else _MESSAGES_BEGIN
    if not (isinstance(value, str) and begins.match(value)):
        return
    if isinstance(data_in(value), str):
        try:
            json.JSONDecoder().raw_decode(value.lstrip())
        except (ValueError, RecursionError):
            raise RowError(
                f"{field}: begins as JSON, and cannot be read as such; perhaps it was"
                " cut off, or written by str() of arrays"
            ) from None


def breaks_off(text: str) -> bool:
    """Tell whether a text begins as an object, of JSON or of Python, and is never closed.

    Examples:
        >>> breaks_off('{"answer": "Blue.", "sour'), breaks_off('{"a": 1} is an object.')
        (True, False)
    """
    return _OBJECT_BEGINS.match(text) is not None and text.count("{") > text.count("}")


def is_written_list(text: str) -> bool:
    """Tell whether a text is a list, or looks like one; one object is none.

    Examples:
        >>> is_written_list("['one', 'two']"), is_written_list('{"one": "two"}')
        (True, False)
    """
    data = data_in(text)
    is_text = isinstance(data, str)
    return looks_like_list(data) if is_text else not isinstance(data, Mapping)


def is_object_written(text: str) -> bool:
    """Tell whether a text is what Python's ``str()`` makes of an object.

    One of its fields is a string. One field alone, without a class, may be a setting.

    Examples:
        >>> is_object_written("content='Blue.' id='run-7'"), is_object_written("x='a'")
        (True, False)
        >>> is_object_written("[TextBlock(citations=None, text='Blue.')]")
        True
    """
    if _OBJECT_WRITTEN.fullmatch(text):
        return True
    if _FIELDS_BEGIN.match(text) is None:
        return False
    bare = _STRING.sub("''", text)
    is_string = "=''" in bare or ": ''" in bare
    has_text = is_string and ("(" in bare or " " in bare.strip())
    return has_text and _FIELDS_OF_OBJECT.fullmatch(bare) is not None


_BEGINNINGS_OF_LISTS = ("[", "{", "(", "'", '"', "set(", "array(")
# By which signs several ids may be joined to one.
_SIGNS_THAT_JOIN_IDS = "|;,\n\t"


def read_list(value: Any, field: str) -> list[Any]:
    """Return what a column of several things holds, as ``as_list`` does.

    A single text is one thing. In columns where it may be several nobody knows of, it is
    refused: any text of facts, a history in one text, ids with a sign that joins.

    Args:
        value: The cell.
        field: The field of the sample.

    Raises:
        AmbiguousColumns: For a text that may be several facts or ids.
        RowError: For a text that looks like a list but cannot be read as one; an id does
            if it begins with a bracket or a quotation mark, or is Python's text of a
            set. For a history in one text.
    """
    text = data_in(value)
    if isinstance(text, set):  # in no order, as a list of Postgres is read
        text = str(text)
    if not isinstance(text, str):
        return as_list(text)
    is_of_ids = field == "expected_ids"
    begins_as_list = is_of_ids and text.lstrip().startswith(_BEGINNINGS_OF_LISTS)
    if begins_as_list or looks_like_list(text):
        raise RowError(
            f"{field}: begins as a list and cannot be read as one; perhaps it was cut"
            " off, as Excel cuts a cell at 32,767 characters, written without its"
            " quotes, or by str() of Python objects; write the whole list as JSON, or a"
            " text that looks so as a list of one text"
        )
    has_sign = any(sign in text.strip() for sign in _SIGNS_THAT_JOIN_IDS)
    if field == "facts" or (is_of_ids and has_sign):
        raise AmbiguousColumns(
            f"{field}: one text, which may be several {field}; write a JSON list"
            ' (["one", "two"]; a single one as ["one"])'
        )
    if field == "history":
        raise RowError(
            f"{field}: needs a list of texts or of messages with a content, found a"
            ' single text; write [{"role": "user", "content": "…"}, …], or name the'
            " column otherwise"
        )
    return [text]


def option_of_column(field: str, column: str) -> str:
    """Say how a user names the column of a field, on the command line and in Python."""
    option = f"--{field.replace('_', '-')}-column"
    return f"{option} {shlex.quote(column)}, in Python {field}_column="


def prose_by_path(data: Mapping[Any, Any], depth: int = _DEEPEST) -> dict[str, str]:
    """Return the prose in an object by its paths, of which no key may be a text."""
    texts: dict[str, str] = {}
    for key, value in data.items():
        inner = data_in(value)
        if _NAME.fullmatch(str(key)) is None:
            continue
        if isinstance(inner, Mapping) and depth:
            for path, text in prose_by_path(inner, depth - 1).items():
                texts[f"{key}.{path}"] = text
        elif isinstance(inner, str) and is_prose(inner):
            texts[str(key)] = inner
    return texts


def are_documents(items: Sequence[Any]) -> bool:
    """Whether a list holds objects alone, each with a text."""
    are_objects = all(isinstance(item, Mapping) for item in items)
    return bool(items) and are_objects and all(map(_texts_of_document, items))


def read_context(cell: Any, field: str, rank: int, column: str = "") -> Any:
    """Return a context from a text or from an object with a text.

    "Blue." and ``{"page_content": "Blue.", "id": "a"}`` both have the text "Blue.": the
    usual shapes of documents, nodes and passages are known, and so are the documents of
    LangChain, Haystack and LlamaIndex themselves. Under several ids that differ, as those
    of a chunk and of its document, the context has none: nobody can say which is meant.
    A pair of a document and its score is that document.

    Args:
        cell: The text, the object or a context.
        field: The field that it was read for, such as "contexts", for messages.
        rank: Its number in the field, from 1, for messages.
        column: The column or path that holds it; "" if a user cannot name one.

    Raises:
        AmbiguousColumns: For an object with several texts that differ.
        RowError: For an object without a text, and for anything else.
    """
    if isinstance(cell, Context):
        return cell
    if isinstance(cell, str):
        return {"text": cell}
    if isinstance(cell, (list, tuple)) and len(cell) == 2:
        score = _score_of_context(cell[1])
        if score is not None:
            context = read_context(cell[0], field, rank)
            return {**dict(context), "score": score}
    if is_of_parts(cell):
        cell = {"content": cell}
    kind = type(cell).__name__
    document = cell
    if not isinstance(cell, Mapping):
        cell = fields_of_document(cell)
    if cell is None:
        raise RowError(
            f"{field}: number {rank} must be a text or an object with a text, found"
            f" {kind}; write it as a text, or leave it out"
        )
    message = unwrap_message(cell)
    # LangChain writes {"type": "ai", "content": "…"}; a passage may have another type
    is_of_langchain = message.fields.get("type") in ("ai", "AIMessageChunk")
    role = known_role(message.fields.get("role") or message.class_name)
    if role == "assistant" or is_of_langchain:
        raise RowError(
            f"{field}: number {rank} is a message of the assistant, and what a model said"
            " is no evidence; if it was retrieved, write its text alone"
        )
    texts = _texts_of_document(cell)
    filled = {path: text for path, text in texts.items() if is_present(text)}
    # where an object has no text, it may be what a search returned as a whole
    data_by_name = {} if texts else {str(key): data_in(cell[key]) for key in cell}
    lists = {
        name: items
        for name, items in data_by_name.items()
        if _NAME.fullmatch(name) and isinstance(items, list)
    }
    found = [
        name
        for name, items in lists.items()
        if are_documents(items)
        or (items and all(isinstance(it, str) and is_prose(it) for it in items))
    ]
    if not (filled or found) and names_media(document):
        raise RowError(f"{field}: number {rank}: {MEDIA_REFUSED}")
    if not texts:
        # a key that does not look like a name may be a text of the sample
        keys = [str(key) for key, value in cell.items() if value is not None]
        names = [key for key in keys if _NAME.fullmatch(key)]
        hint = ""
        prose = prose_by_path(cell)
        if column and len(found) == 1:
            option = option_of_column(field, f"{column}.{found[0]}")
            hint = f"; its texts stand in the list {found[0]}: name it by {option}"
        elif prose and (
            prose.keys() == set(keys)
            or len({re.sub(r"\d+", "", key) for key in keys}) < len(keys)
        ):  # texts by their ids
            hint = "; if each of them is one, write a list of their texts"
        elif (
            (column and isinstance(document, Mapping) and prose)
            # a list of other things may hold the texts
            and all(
                items and all(isinstance(it, str) for it in items)
                for items in lists.values()
            )
        ):
            paths = sorted(prose, key=lambda path: -len(prose[path]))[:_MOST_PATHS]
            option = option_of_column(field, f"{column}.{paths[0]}")
            hint = f"; write its .{' or .'.join(paths)}, e.g. by {option}"
        elif lists:
            hint = "; write a list of the texts that it holds"
        raise RowError(
            f"{field}: number {rank} is an object without a text (such as"
            f" {', '.join(_TEXT_KEYS)}), of {len(keys)} keys:"
            f" {', '.join(names) or 'none is a name'}{hint}"
        )
    first_path, text = next(iter((filled or texts).items()))
    for path, other_text in filled.items():
        differs = other_text != text  # most documents have one text
        if differs and composed_text(other_text) != composed_text(text):
            first_key, key = ".".join(map(str, first_path)), ".".join(map(str, path))
            raise AmbiguousColumns(
                f"{field}: number {rank}: {first_key!r} and {key!r} may both hold its"
                " text, and differ; leave one out"
            )
    # id, score and metadata stand beside the text, or around the object that holds it
    ids: set[str] = set()
    fields: dict[str, Any] = {}
    for key in first_path:
        fields = {**cell, **fields}
        for value in _values_of_keys(cell, _ID_KEYS).values():
            if is_present(value) and not isinstance(value, (Mapping, list, tuple)):
                ids.add(str(number_as_text(value)))
        cell = data_in(cell[key])
    return {
        "text": text,
        "id": ids.pop() if len(ids) == 1 else None,
        "score": _score_of_context(_value_of_first_key(fields, _SCORE_KEYS)),
        "metadata": read_metadata(_value_of_first_key(fields, _METADATA_KEYS) or {}),
    }


def _score_of_context(value: Any) -> float | None:
    """Return the score of a context; None where the value is no finite number."""
    number = plain_data(value)
    if not is_number(number):
        return None
    try:
        score = float(number)
    except OverflowError:  # a whole number larger than any float
        return None
    return score if math.isfinite(score) else None


def read_metadata(value: Any, field: str = "metadata") -> dict[str, Any]:
    """Metadata with texts for names; what is no object stands under the field's."""
    data = data_in(value)
    if not isinstance(data, Mapping):
        return {field: data}
    return {str(key): cell for key, cell in data.items()}


def read_facts(value: Any, field: str) -> list[Any] | None:
    """Return facts from texts or objects; None if there are none.

    An object has a ``text`` and perhaps a ``weight``.
    """
    facts: list[Any] = []
    for fact in read_list(value, field):
        if isinstance(fact, Mapping):
            # Other fields, e.g. of earlier results, are left out.
            fields = ("text", "weight")
            fact = {key: fact[key] for key in fields if fact.get(key) is not None}
        facts.append(fact)
    return facts or None


# The first name that a sample has counts. A session comes last: at LangSmith it is the
# project, elsewhere it may hold several conversations.
_USUAL_NAME_BY_END = {
    "conversationid": "conversation_id",
    "conversation.id": "conversation_id",
    "conversationuuid": "conversation_id",
    "threadid": "thread_id",  # `thread.id` is a thread of the operating system
    "chatid": "chat_id",
    "chat.id": "chat_id",
    "dialogid": "dialogue_id",
    "dialogueid": "dialogue_id",
    "sessionid": "session_id",
    "session.id": "session_id",
    "trace.session": "session_id",
}
_WHOLE_NAME = "conversation"  # too common a word to be known by it after a path
CONVERSATION_NAMES = (*dict.fromkeys(_USUAL_NAME_BY_END.values()), _WHOLE_NAME)
"""The names of conversations. Of two names in an object the earlier here counts."""

# Texts without these words hold no name, so they need not be read.
_MAY_HOLD_NAME = re.compile("conversation|thread|chat|dialog|session", re.IGNORECASE)


class NamedConversation(NamedTuple):
    """A conversation that a row or span names.

    Args:
        name: The usual name of such a column or key, e.g. ``thread_id``.
        path: The path under which it stands, e.g. ``metadata.threadId``.
        value: The conversation's own id.
    """

    name: str
    path: str
    value: object


def conversation_name(path: str) -> str | None:
    """Return the usual name of a conversation that a name or dotted path ends with.

    Case, spaces, hyphens and underscores do not matter. None for any other name.

    Examples:
        >>> conversation_name("attributes.session.id"), conversation_name("threadId")
        ('session_id', 'thread_id')
        >>> conversation_name("thread.id") is None
        True
    """
    parts = [plain_name(part) for part in path.removeprefix("metadata.").split(".")]
    if parts == [_WHOLE_NAME]:
        return _WHOLE_NAME
    last_part = parts[-1]
    last_two_parts = ".".join(parts[-2:])
    return _USUAL_NAME_BY_END.get(last_part) or _USUAL_NAME_BY_END.get(last_two_parts)


def conversation_in(data: Mapping[str, object]) -> NamedConversation | None:
    """Return the conversation that an object names, itself or in objects inside it.

    Example: ``{"metadata": {"session_id": "s1"}}`` names "s1" under the path
    ``metadata.session_id``. Texts of JSON are searched as well. Of several
    conversations that counts whose name comes first in ``CONVERSATION_NAMES``, then the
    one that stands least deep. None if no name has a value.
    """
    conversations: list[NamedConversation] = []
    objects: list[tuple[str, Mapping[str, object]]] = [("", data)]
    for _ in range(_DEEPEST):
        objects_inside = []
        for outer_path, fields in objects:
            for key, value in fields.items():
                path = f"{outer_path}{key}"
                # "thread_id" if the key is a name of a conversation, such as "threadId"
                usual_name = conversation_name(path)
                if isinstance(value, str) and _MAY_HOLD_NAME.search(value):
                    # a text such as '{"session_id": "s1"}' is read as what it holds
                    value = data_in(value)
                if isinstance(value, Mapping):
                    objects_inside.append((f"{path}.", value))
                elif usual_name is not None and is_present(value):
                    conversation = NamedConversation(usual_name, path, value)
                    conversations.append(conversation)
        objects = objects_inside
    return min(
        conversations,
        key=lambda conversation: CONVERSATION_NAMES.index(conversation.name),
        default=None,
    )
