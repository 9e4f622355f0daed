"""A tool's result as passages, by its own structure. Pure.

Example: ``[{"content": "It fell.", "url": "a"}, {"content": "It is old."}]`` as JSON is
two passages. A text without such a structure is one, unless it holds blocks or a list.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragmetrics_core.capture.forms import SHORTEST, letters_of
from ragmetrics_core.capture.structures import (
    ANSWER_NAMES,
    ENDS_OF_QUESTION,
    as_json,
    long_lines,
    parse_json,
)
from ragmetrics_core.capture.tree import Document
from ragmetrics_core.data.scalars import is_prose

_TEXT_FIELDS = (
    "text",
    "content",
    "page_content",
    "snippet",
    "body",
    "passage",
    "chunk",
)
_LIST_FIELDS = (
    "results",
    "documents",
    "hits",
    "data",
    "matches",
    "items",
    "passages",
    "chunks",
    "content",  # of MCP: blocks of text
)
# beside the text of what was found, and not beside that of a task or a message
_FIELDS_OF_A_FIND = frozenset(
    (
        "score",
        "relevance_score",
        "similarity",
        "url",
        "uri",
        "link",
        "source",
        "file",
        "file_name",
        "path",
        "doc_id",
        "document_id",
        "metadata",
        "meta",
    )
)
_ID_FIELDS = ("id", "_id", "doc_id", "document_id")
_DEPTH = 4
# what parts blocks: a blank line, or a rule
_PARTED = re.compile(r"\n\s*(?:[-=*_]{3,}\s*)?\n")
_END_OF_SENTENCE = re.compile(r"[.!][\"'\u201d)\]]*(?=\s|\Z)|[\u3002\uff01]")
# at the head of a line: a bullet, "2.", "Source [2]:", "Title:", '{"text":', "<doc>"
_LABEL = re.compile(
    r"^\s*((?:[-*\u2022]|\W{0,4}(?:[^\W\d]{1,24}\W{0,2})?\d{1,3}[\])>.:]+)(?=\s)"
    r"|\W{0,4}\w{1,24}[\"']?[:=(>])",
    re.MULTILINE,
)


def divided(text: str, result: object = None) -> tuple[Document, ...] | None:
    """Divide what a tool that searches returned into its passages.

    Args:
        text: The tool's text, as the model sees it.
        result: What it returned, as plain values; None if the text is all of it.

    Returns:
        The passages; () for an empty list. A text is one, and so is a record, which holds
        no list. None where a text holds several parts, which may be passages, or a
        structure gives none.
    """
    in_text = parse_json(as_json(text))
    for value in (result, in_text):
        passages = None if isinstance(value, str) else _passages(value, _DEPTH)
        if passages is not None:
            return passages
    if in_text is None and isinstance(result, str | None):
        # blocks, long lines, or lines with one label or numbered may be passages
        stripped = text.strip()
        labels = [re.sub(r"\d+", "1", label) for label in _LABEL.findall(stripped)]
        is_list = len(set(labels)) < len(labels)
        has_parts = _PARTED.search(stripped) or len(long_lines(stripped)) > 1
        is_one = not is_list and not has_parts
    else:
        is_one = isinstance(in_text, Mapping) and not _holds_list(in_text)
    return (Document(text),) if is_one else None


def lists_passages(
    text: str, result: object = None, *, is_asked_query: bool = False
) -> bool:
    """Whether a tool's result tells by its structure that a search found it.

    It is a list of texts: alone, in a mapping, or in the one block of a message. Each is a
    mapping that has a score or says where the text is from, since tasks and messages have
    a text, too. Of several texts their titles are enough, and of a tool that was asked a
    query, that they are mappings with more than a text, or sentences: no headings or ids.
    One text alone may be a word on the search, such as that it found nothing.

    Args:
        text: The tool's text, as the model sees it.
        result: What it returned, as plain values; None if the text is all of it.
        is_asked_query: Whether it was asked a query.
    """
    for value in (result, parse_json(as_json(text))):
        listed = None if isinstance(value, str) else _listed(value)
        passages = None if listed is None else _passages(listed, _DEPTH)
        if passages:
            fields = [each.metadata.keys() for each in passages]
            if any(fields):
                are_texts = all(each and "role" not in each for each in fields)
            else:
                are_texts = all(_is_sentence(each.text) for each in passages)
            are_titled = all("title" in each for each in fields)
            are_found = are_titled or (is_asked_query and are_texts)
            are_sourced = not any(map(_FIELDS_OF_A_FIND.isdisjoint, fields))
            return are_sourced or (len(passages) > 1 and are_found)
    return False


def _listed(value: object) -> Sequence[object] | None:
    """Return the list that a result is or holds: under a usual name, in its one block."""
    if isinstance(value, Mapping):
        lists = [value[name] for name in _LIST_FIELDS if name in value]
        has_failed = bool(value.get("isError"))  # of MCP
        return _listed(lists[0]) if lists and not has_failed else None
    if not isinstance(value, (list, tuple)):
        return None
    text = _text_of_block(value[0]) if len(value) == 1 else None
    return value if text is None else _listed(parse_json(text))


def _is_sentence(text: str) -> bool:
    """Whether a text is one passage of a sentence or more, and neither asks nor announces."""
    if len(letters_of(text)) < SHORTEST or parse_json(text) is not None:
        return False
    is_followed = text.rstrip().endswith((*ENDS_OF_QUESTION, ":", "\uff1a"))
    has_end = _END_OF_SENTENCE.search(text) is not None and not is_followed
    return has_end and is_prose(text) and divided(text) is not None


def _text_of_block(value: object) -> str | None:
    """Return the text of a block of content; None for anything else."""
    fields = value if isinstance(value, Mapping) else {}
    text = fields.get("text") if fields.get("type") == "text" else None
    return text if isinstance(text, str) else None


def answers_beside(text: str, result: object = None) -> Iterator[str]:
    """Yield what a search wrote as its own answer, beside the list of what it found.

    Example: ``{"answer": "In 1874.", "results": [{"content": "It fell."}]}``.

    Args:
        text: The search's text, as the model sees it.
        result: What it returned, as plain values; None if the text is all of it.
    """
    values = [result, parse_json(as_json(text))]
    for value in values:  # the list grows while the loop runs
        if isinstance(value, str):  # a block of content
            values.append(parse_json(value))
        elif isinstance(value, (list, tuple)):
            values += map(_text_of_block, value)
        elif isinstance(value, Mapping):
            inner = [each for each in value.values() if not isinstance(each, str)]
            values += inner
            if any(isinstance(each, (list, tuple)) for each in inner):
                texts = map(value.get, ANSWER_NAMES)
                yield from (each for each in texts if isinstance(each, str))


def _holds_list(fields: Mapping[str, Any]) -> bool:
    return any(
        isinstance(value, (list, tuple))
        or (isinstance(value, Mapping) and _holds_list(value))
        for value in fields.values()
    )


def _passages(value: object, depth: int) -> tuple[Document, ...] | None:
    """Return the passages of a list, or of the list under a usual name of a mapping.

    A mapping without such a list is one passage. None where it has no text, or an element
    of the list is no passage.
    """
    if depth == 0:
        return None
    if isinstance(value, Mapping):
        for name in _LIST_FIELDS:
            if isinstance(value.get(name), (list, tuple)):
                return _passages(value[name], depth - 1)
        document = _document(value)
        return None if document is None else (document,)
    if not isinstance(value, (list, tuple)):
        return None
    documents: list[Document] = []
    for element in value:
        passages = _passages_of_element(element, depth)
        if passages is None:
            return None
        documents += passages
    return tuple(documents)


def _passages_of_element(element: object, depth: int) -> tuple[Document, ...] | None:
    """Return the passages of one element of a list: a text, a mapping with a text, JSON."""
    if isinstance(element, str):
        inside = _passages(parse_json(element), depth - 1)
        if inside is not None:
            return inside
        return (Document(element),) if element.strip() else ()
    if not isinstance(element, Mapping):
        return None
    text_of_block = _text_of_block(element)
    if text_of_block is not None:
        return _passages_of_element(text_of_block, depth)
    document = _document(element) or _document_inside(element)
    return None if document is None else (document,)


def _document_inside(fields: Mapping[str, Any]) -> Document | None:
    """Return the one mapping with a text field that a mapping holds, as a document.

    Example: {"key": "k", "value": {"content": "It fell."}}, an item of a store.
    """
    texts = [
        name
        for name, value in fields.items()
        if isinstance(value, Mapping) and _document(value) is not None
    ]
    if len(texts) != 1:
        return None
    others = {name: value for name, value in fields.items() if name != texts[0]}
    return _document({**others, **fields[texts[0]]})


def _document(fields: Mapping[str, Any]) -> Document | None:
    """Return a mapping with a text field as a document; None without such a field."""
    for name in _TEXT_FIELDS:
        text = fields.get(name)
        if isinstance(text, str) and text.strip():
            metadata = {key: value for key, value in fields.items() if key != name}
            ids = [metadata.get(key) for key in _ID_FIELDS]
            names = [str(each) for each in ids if isinstance(each, (str, int))]
            return Document.scored_by_metadata(text, next(iter(names), None), metadata)
    return None
