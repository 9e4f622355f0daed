"""What a question asks of a chat model: the messages, and the JSON schema of the reply.

The template's fixed text stays as it is. Each text of the sample stands in a tag, e.g.
``<context-3f9a1c27 id="2"> … </context-3f9a1c27>``.

The tags of a prompt end in the same eight hexadecimal digits: a digest of the first
text that the prompt shows, salted until no text of the prompt holds these digits. What
a text does not hold it cannot close or open. Quoted examples have tags in the same way,
with digits of their own. Equal questions give equal prompts. What
follows a shared text can vary without changing what stands before it. Replaced text is
never scanned again, and only ``{names}`` of parts are replaced.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import unescape
from itertools import chain
from typing import Any, NamedTuple
from unicodedata import normalize

from pydantic import BaseModel

from ragmetrics_core.data import (
    PLACEHOLDER,
    Part,
    Question,
    check_template,
    sendable_text,
)
from ragmetrics_core.models.chat import Message

# The line that separates the system message of a template from the user message.
_BREAK = re.compile(r"^---\r?(?:\n|\Z)", re.MULTILINE)
_SPACE = re.compile(r"\s+")
_NO_WORD = re.compile(r"[\W_]+")
# How many digits end each tag.
_DIGITS = 8
# Every run of so many digits in a text, overlapping ones, too.
_DIGITS_IN_TEXT = re.compile(rf"(?=([0-9a-f]{{{_DIGITS}}}))")
# What every endpoint with schemas knows; bounds of numbers and the like are checked
# when the reply is read.
_SCHEMA_KEYWORDS = ("type", "enum", "anyOf", "items", "description")
# signs without a shape: soft hyphens, joiners, directions, variation selectors
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)


def render(question: Question[Any]) -> tuple[Message, ...]:
    """Render a question into a system message and a user message.

    A line ``---`` in the template separates the two messages. Each text of the sample
    stands in a tag such as ``<context-52ae4fd5>``. No text has these digits, so none can
    close its tag.

    Raises:
        SettingError: If the template does not fit the parts; see ``check_template``.
    """
    instructions = question.instructions
    check_template(instructions, tuple(question.parts))
    messages = _taken_apart(instructions.template)
    # by the name of each part that the template shows: its texts, to be put into tags
    fenced_by_part = {
        piece.name: _fenced_texts(question.parts[piece.name])
        for piece in chain.from_iterable(messages)
        if isinstance(piece, _Placeholder) and piece.name in question.parts
    }
    sample_texts: list[str] = []
    for fenced_texts in fenced_by_part.values():
        sample_texts += [fenced.text for fenced in fenced_texts]

    examples = sendable_text(instructions.examples).strip()
    language = ""
    if instructions.language:
        language = (
            f"The language of your own words is {sendable_text(instructions.language)}."
            " Field names, labels, and what you take from the texts stay as they are."
        )
    text_by_placeholder = {"examples": examples, "language": language}
    digits = tag_digits([*sample_texts, examples])
    for name, fenced_texts in fenced_by_part.items():
        tagged_texts: list[str] = []
        for label, text, text_id in fenced_texts:
            tag = f"{_tag_name(label)}-{digits}"
            id_in_tag = "" if text_id is None else f' id="{text_id}"'
            tagged_texts.append(f"<{tag}{id_in_tag}>\n{text}\n</{tag}>\n")
        text_by_placeholder[name] = "".join(tagged_texts)

    system_text, user_text = (_filled(each, text_by_placeholder) for each in messages)
    # an empty message is not sent; the text of the other is then the user's
    if system_text and user_text:
        return (Message("system", system_text), Message("user", user_text))
    return (Message("user", system_text or user_text),)


class _FencedText(NamedTuple):
    """A text that stands in a tag of its own.

    Attributes:
        label: What the text is, in our words, e.g. ``Context``.
        text: The text.
        text_id: Which of several it is; None for a text that stands alone.
    """

    label: str
    text: str
    text_id: str | None = None


def _fenced_texts(part: Part) -> list[_FencedText]:
    """Say which texts of a part stand in a tag each, and which ids the tags have.

    Example: the contexts "Blue." and "Red." stand in two tags, with the ids 1 and 2. A
    user's question stands between the turns before it and its rewrite, which is the
    search query that the application made of it.
    """
    if isinstance(part.text, str):
        fenced_texts = [
            _FencedText(
                "Earlier turn", sendable_text(turn.content), _tag_name(turn.role)
            )
            for turn in part.history
        ]
        fenced_texts.append(_FencedText(part.label, sendable_text(part.text)))
        if part.rewrite and part.rewrite != part.text:
            rewrite = sendable_text(part.rewrite)
            fenced_texts.append(_FencedText("Stand-alone rewrite", rewrite))
        return fenced_texts

    labelled_texts = zip(part.labels, part.texts, strict=True)
    if part.marks == "lines" and part.texts:
        # "F1: Blue.", line break, "F2: Red." of two facts
        lines = [f"{label}: {_SPACE.sub(' ', text)}" for label, text in labelled_texts]
        return [_FencedText(part.label, sendable_text("\n".join(lines)))]
    return [
        _FencedText(part.label, sendable_text(text), label)
        for label, text in labelled_texts
    ]


@lru_cache(maxsize=64)
def _tag_name(label: str) -> str:
    """Return a label as the name of a tag, e.g. ``reference-answer``."""
    return _NO_WORD.sub("-", label.lower()).strip("-") or "text"


def tag_digits(texts: Sequence[str]) -> str:
    """Return eight hexadecimal digits that none of these texts contains.

    ``["The sky is blue."]`` gives "52ae4fd5". The tags around the texts end in these
    digits, so that no text can close its tag. They are a digest of the first text,
    changed until no text contains them in any spelling, e.g. full-width or upper case.
    """
    first_text = texts[0] if texts else ""
    digest = hashlib.sha256(first_text.encode())
    digits = digest.hexdigest()[:_DIGITS]
    # In lower case. A model may also read "&#60;" as "<", full-width letters as plain
    # ones, and skip invisible signs.
    texts_as_read: list[str] = []
    for text in texts:
        texts_as_read.append(text.lower())
        plain_text = text
        if "&#" in text:
            plain_text = unescape(text)
            texts_as_read.append(plain_text.lower())
        if not plain_text.isascii():
            plain_text = _INVISIBLE.sub("", normalize("NFKC", plain_text))
            texts_as_read.append(plain_text.lower())
    if not any(digits in text for text in texts_as_read):
        return digits

    # A text holds these digits. Other digits are tried until no text holds them; the
    # texts are read only once for that, however many have to be tried.
    taken_digits: set[str] = set()
    for text in texts_as_read:
        taken_digits.update(match[1] for match in _DIGITS_IN_TEXT.finditer(text))
    salt = 1
    while digits in taken_digits:
        salted_digest = digest.copy()
        salted_digest.update(f"\0{salt}".encode())
        digits = salted_digest.hexdigest()[:_DIGITS]
        salt += 1
    return digits


class _Placeholder(NamedTuple):
    """A placeholder of a template, and the line break behind one that stands alone."""

    name: str
    end: str


_Pieces = tuple[str | _Placeholder, ...]


@lru_cache(maxsize=64)
def _taken_apart(template: str) -> tuple[_Pieces, _Pieces]:
    """Return the pieces of a template's two messages, that of the system first.

    It stands above the line ``---``; without a line it has no pieces but "".
    """
    *above, below = _BREAK.split(template, maxsplit=1)
    messages: list[_Pieces] = []
    for text in ("".join(above), below):
        pieces: list[str | _Placeholder] = []
        end_of_last = 0
        for match in PLACEHOLDER.finditer(text):
            name = match["alone"] or match["inside"]
            pieces.append(text[end_of_last : match.start()])
            pieces.append(_Placeholder(name, match["end"] or ""))
            end_of_last = match.end()
        messages.append((*pieces, text[end_of_last:]))
    system, user = messages
    return system, user


def _filled(pieces: _Pieces, texts: Mapping[str, str]) -> str:
    """Return the text of a message, with texts in place of its placeholders."""
    written: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            written.append(piece)
        elif texts[piece.name]:
            written += [texts[piece.name].removesuffix("\n"), piece.end]
    return "".join(written).strip()


@lru_cache(maxsize=64)
def schema_of(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the strict JSON schema of a reply: all fields, no others."""
    schema = model.model_json_schema()
    return _make_strict(schema, schema.get("$defs", {}))


def _make_strict(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a JSON schema in the keywords that every endpoint knows.

    References are replaced by what they stand for. All fields of an object are
    required, and it has no others. Anything else, such as bounds of numbers, is left
    out. Example: ``{"$ref": "#/$defs/Verdict"}`` becomes the schema of "Verdict", and
    ``{"const": 1}`` becomes ``{"enum": [1]}``.

    Args:
        schema: The schema, or a part of it.
        definitions: What references stand for, by their names.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _make_strict(definitions[name], definitions)
    strict: dict[str, Any] = {
        key: schema[key] for key in _SCHEMA_KEYWORDS if key in schema
    }
    if "const" in schema:
        strict["enum"] = [schema["const"]]
    if "items" in schema:
        strict["items"] = _make_strict(schema["items"], definitions)
    if "anyOf" in schema:
        strict["anyOf"] = [
            _make_strict(option, definitions) for option in schema["anyOf"]
        ]
    if "properties" in schema:
        properties = {
            name: _make_strict(value, definitions)
            for name, value in schema["properties"].items()
        }
        strict.pop("description", None)  # the docstring of the model is for its readers
        strict["properties"] = properties
        strict["required"] = list(properties)
        strict["additionalProperties"] = False
    return strict
