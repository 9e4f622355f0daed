"""Texts, JSON and the usual names of fields in it: what is read without types of a tree. Pure.

A **structure** is a text's JSON, or what a tool or model was given or returned as
mappings and sequences: ``{"answer": "At ten.", "sources": [1]}``.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ragmetrics_core.data.sentences import whole_sentences

_Kind = TypeVar("_Kind")
_SHORTEST_VECTOR = 8  # items; a list of more numbers is a vector
_LONGEST_READ = 10_000  # items
_LONGEST_HEADING = 48  # letters
# names of an answer and of nothing else, such as a verdict; then others of an answer
ANSWER_NAMES = ("answer", "final_answer", "response", "generation")
ANSWER_KEYS = (*ANSWER_NAMES, "result", "output_text", "output", "text", "content")
# those of a structure that can hold nothing but its answer
_ANSWER_ALONE_KEYS = ("answer", "response")
ENDS_OF_QUESTION = ("?", "\uff1f", "\u061f")
# the beginning of what ``repr`` writes of a list or a mapping, and its escapes
_LITERAL = re.compile(r"""[\[({]+['"]""")
_ESCAPE = re.compile(r"""\\[\\'"nrtxuU]""")
# a label, a number or a mark of a list
_BEFORE_TEXT = re.compile(
    r"^[\s*#>-]*(?:\d+[.)]|[^\W\d][^\n:\uff1a]{0,23}[:\uff1a])?[\s*]*"
)


def as_one_line(text: str | None) -> str:
    """Return a text with each run of white space as one space: texts are compared so."""
    return " ".join((text or "").split())


def only_asks(text: str) -> bool:
    """Whether each sentence of a text is a question."""
    return all(each.endswith(ENDS_OF_QUESTION) for each in whole_sentences(text))


def lines_without_labels(text: str) -> list[str]:
    r"""Return the lines of a text without what stands before theirs: a label, a number.

    Examples:
        >>> lines_without_labels("Question: Who?\n- 2. Anna.")
        ['Who?', 'Anna.']
    """
    return [_BEFORE_TEXT.sub("", line).strip() for line in text.splitlines()]


def find_instances(
    value: object, *kinds: type[_Kind], depth: int = 8
) -> Iterator[_Kind]:
    """Yield the objects of some types in a value and in its mappings and sequences.

    Args:
        value: The value.
        kinds: The types.
        depth: How many mappings and sequences inside of each other are looked into.
    """
    if isinstance(value, kinds):
        yield value
    elif depth and isinstance(value, (Mapping, list, tuple)):
        for element in value.values() if isinstance(value, Mapping) else value:
            yield from find_instances(element, *kinds, depth=depth - 1)


def is_bulk(value: Sequence[object]) -> bool:
    """Whether a list is too long to be read while the application waits, and no evidence.

    It is a vector, such as an embedding, or has more than 10,000 items.
    """
    if len(value) <= _SHORTEST_VECTOR:
        return False
    ends = (type(value[0]), type(value[-1]))
    return len(value) > _LONGEST_READ or all(kind in (int, float) for kind in ends)


def parse_json(text: str) -> object:
    """Return the value of a text that is JSON, perhaps in a fence; None for other texts."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.strip("`").partition("\n")[2]
    if stripped[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(stripped)
    return None


def as_json(text: str) -> str:
    """Return what ``str`` made of lists and mappings as JSON; other texts as they are.

    Examples:
        >>> as_json("[{'text': 'It fell.', 'score': 0.5}]")
        '[{"text": "It fell.", "score": 0.5}]'
    """
    stripped = text.strip()
    # what an escape that ``repr`` never writes makes the parser print is left unread
    is_literal = _LITERAL.match(stripped) and "\\" not in _ESCAPE.sub("", stripped)
    unreadable = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)
    if is_literal and parse_json(text) is None:
        with suppress(*unreadable):
            return compact(ast.literal_eval(stripped))
    return text


def long_lines(text: str, n_letters: int = _LONGEST_HEADING) -> list[str]:
    """List the lines of a text, or of all in its JSON, of some words and more letters.

    A text in JSON may be JSON itself, such as that of a block of content.
    """
    values: list[Any] = [text]
    lines: list[str] = []
    while values:
        value = values.pop()
        if isinstance(value, str):
            value = parse_json(value) or value
        if isinstance(value, dict):
            values += [*value, *value.values()]
        elif isinstance(value, list):
            values += value
        else:
            lines += str(value).splitlines()
    of_words = [line for line in lines if " " in line.strip(" ,;:'\"")]
    return [line for line in of_words if sum(map(str.isalnum, line)) > n_letters]


def compact(value: object) -> str:
    """Return a structured value as JSON."""
    return json.dumps(
        value,
        ensure_ascii=False,
        default=lambda other: dict(other) if isinstance(other, Mapping) else str(other),
    )


def query_of_tool(arguments: Mapping[Any, Any]) -> str | None:
    """Return what a tool was asked: its one text argument, else all of them as JSON.

    None where they hold no plain value. Example: ``search("Rome", limit=3)`` was asked
    "Rome".
    """
    if next(find_instances(arguments, str, int, float), None) is None:
        return None
    texts = [
        value
        for value in arguments.values()
        if isinstance(value, str) and value.strip()
    ]
    return texts[0] if len(texts) == 1 else compact(arguments)


def texts_of_query(query: str | None) -> list[str]:
    """Return what a call was asked, and each text in it if it is JSON."""
    return [query or "", *find_instances(parse_json(query or ""), str)]


def has_no_answer(value: object) -> bool:
    """Return whether a structured reply leaves all its fields for an answer empty.

    The model found no answer then.

    Examples:
        >>> has_no_answer({"answer": None, "citations": []})
        True
        >>> has_no_answer({"answer": None, "response": "At ten."})
        False
        >>> has_no_answer({"sql": "SELECT 1"})
        False
    """
    if not isinstance(value, Mapping):
        return False
    answers = [value[key] for key in _ANSWER_ALONE_KEYS if key in value]
    are_blank = [
        answer is None or (isinstance(answer, str) and not answer.strip())
        for answer in answers
    ]
    return bool(are_blank) and all(are_blank)
