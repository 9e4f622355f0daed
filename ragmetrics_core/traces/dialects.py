"""What a span says, by the names of the attributes that its instrumentation uses.

A **dialect** is one set of such names. They stand in ``dialects.toml``.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.resources import files
from typing import Any, cast

from ragmetrics_core.capture import Document, Message
from ragmetrics_core.capture.divided import divided
from ragmetrics_core.capture.tree import Kind
from ragmetrics_core.data import number_as_text
from ragmetrics_core.data.cells import conversation_in, conversation_name
from ragmetrics_core.traces.span_values import (
    mapping,
    messages_in,
    plain,
    recorded_document,
    without_written_objects,
)

DIALECTS: dict[str, dict[str, Any]] = tomllib.loads(
    files(__package__).joinpath("dialects.toml").read_text("utf-8")
)
_HIDDEN = "__REDACTED__"  # OpenInference writes it in place of a text
_INDEX = re.compile(r"-?\d+")
FORM_NOT_READ = (
    "a retriever's span holds what was found in a form that is not read; let it record a"
    " list of texts, or of objects with a field text, content or page_content"
)
# a list or an object as Python shows it
_LOOKS_LIKE_CODE = re.compile(r"\s*[\[{(<]|\w+\(")
_KINDS = {
    mark: cast("Kind", kind)
    for kind, marks in DIALECTS.pop("kinds").items()
    for mark in marks
}


@dataclass(slots=True)
class Reading:
    """A **reading**: what one span says, in plain values.

    A field is None, "" or () if the span does not say it.

    Attributes:
        kind: What the call is: a model, a retriever, a tool, a step.
        kind_word: The instrumentation's own word for that, as it is written.
        input: What went into it.
        output: What came out.
        documents: Documents that the call returned; None where it names none.
        input_documents: Documents that the call was given.
        prompt: Messages that a model was shown.
        replies: What a model said.
        query: What a call was asked.
        tool: The name of a tool.
        call_id: The id of the tool call that a tool answers.
        model: The name of a model.
        user_fields: What the application said for us: ``metadata={"ragmetrics": …}``.
        has_unread_output: Whether an object as Python writes it stood in the output,
            which is not read.
    """

    kind: Kind | None = None
    kind_word: str = ""
    input: Any = None
    output: Any = None
    documents: tuple[Document, ...] | None = None
    input_documents: tuple[Document, ...] = ()
    prompt: tuple[Message, ...] = ()
    replies: tuple[Message, ...] = ()
    query: str | None = None
    tool: str | None = None
    call_id: str | None = None
    model: str | None = None
    user_fields: Mapping[str, Any] = field(default_factory=dict)
    has_unread_output: bool = False

    @property
    def says_nothing(self) -> bool:
        """Whether neither what went into the call nor what came out was recorded."""
        is_silent = self.input is None and self.output is None
        return is_silent and self.query is None


def reading_of(
    attributes: Mapping[str, Any], dialect: str | None = None
) -> Reading | None:
    """Read what a span says of its call; None if the span bears no known mark.

    A **dialect** is the set of names that an instrumentation has for things. A **mark**
    is an attribute that tells the dialect. Example: ``openinference.span.kind`` is the
    mark of OpenInference. A span may bear the marks of several: the first dialect is
    read, and the others fill in what it leaves open.

    Args:
        attributes: The attributes of the span.
        dialect: The only dialect that is read; None for each whose mark the span bears.
    """
    marked_dialects = [
        names
        for name, names in DIALECTS.items()
        if dialect in (None, name)
        if _has_mark(attributes, names) or _has_prefix(attributes, names)
    ]
    if not marked_dialects:
        return None
    reading = _read(attributes, marked_dialects[0])
    for names in marked_dialects[1:]:
        weaker = _read(attributes, names)
        for entry in fields(Reading):  # what the stronger one leaves open
            if getattr(reading, entry.name) in (None, "", (), {}, False):
                setattr(reading, entry.name, getattr(weaker, entry.name))
    if reading.kind != "model":
        # Messages on an agent's span are the agent's input and output, and no prompt.
        # Instructions of the system are no input.
        given = tuple(message for message in reading.prompt if message.role != "system")
        reading.input = reading.input or _text_or_messages(given)
        # without replies an empty list stays: a search that found nothing returns it
        if reading.replies:
            reading.output = reading.output or _text_or_messages(reading.replies)
    return reading


def dialects_of(attributes: Mapping[str, Any]) -> list[str]:
    """The names of the dialects that wrote a span.

    Traceloop's spans bear the mark of OpenTelemetry's as well, and only theirs have
    attributes that begin with ``traceloop.``.
    """
    return [
        dialect
        for dialect, names in DIALECTS.items()
        if (_has_prefix if "mark_prefixes" in names else _has_mark)(attributes, names)
    ]


def _has_mark(attributes: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """Whether a span bears the mark of a dialect, with a value that tells the call."""
    return attributes.get(names["mark"]) not in (None, "")


def _has_prefix(attributes: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """Whether a span has an attribute that begins as only those of a dialect do."""
    prefixes = tuple(names.get("mark_prefixes", ()))
    return any(key.startswith(prefixes) for key in attributes)


def attribute_names(*field_names: str) -> tuple[str, ...]:
    """The names of the attributes that may hold some fields, in any dialect, each once.

    Example: the input stands in "input.value", "mlflow.spanInputs" and others. A name
    that ends with a dot stands for all attributes that begin so.
    """
    names: dict[str, None] = {}
    for dialect in DIALECTS.values():
        for field_name in field_names:
            names.update(dict.fromkeys(dialect.get(field_name, ())))
    return tuple(names)


def session_of(attributes: Mapping[str, Any]) -> str | None:
    """Return the conversation that a span names, by the names that tables have for it.

    None if it names none.
    """
    names = filter(conversation_name, attributes)
    fields = {name: plain(attributes[name]) for name in names}
    fields["metadata"] = mapping(plain(attributes.get("metadata")))
    conversation = conversation_in(fields)
    if conversation is None:
        return None
    return str(number_as_text(conversation.value))


def _text_or_messages(messages: tuple[Message, ...]) -> Any:
    """The text of a single message, read as JSON if it is that; else the messages."""
    if len(messages) == 1 and messages[0].text:
        return plain(messages[0].text)
    return messages or None


def _read(attributes: Mapping[str, Any], names: Mapping[str, Any]) -> Reading:
    """Read a span by the attribute names of one dialect.

    Example: OpenInference writes ``{"openinference.span.kind": "RETRIEVER",
    "input.value": "Who?"}``: a reading of the kind "retriever" with the input "Who?".

    Args:
        attributes: The attributes of the span.
        names: The dialect: for each field of a ``Reading`` the names of the attributes
            that may hold the field. Under "mark" stands the name of the attribute by
            which the dialect is recognised; its value tells what kind of call it is.
    """
    fields = _Fields(attributes, names)
    # what the user said of a sample, such as {"ragmetrics": {"question": "Who?"}}
    metadata = mapping(plain(attributes.get("metadata")))
    user_fields = metadata.get("ragmetrics") or fields.first_value("user_fields")
    # Traceloop writes {"inputs": …, "tags": […]} where others write the input itself
    input_value = _without_wrapping(fields.first_value("input"), "inputs")
    output = _without_wrapping(fields.first_value("output"), "outputs")
    readable_output = without_written_objects(output)
    kind_word = str(plain(attributes.get(names["mark"])) or "")
    kind = _KINDS.get(kind_word.lower(), "step") if kind_word else None
    return Reading(
        kind=kind,
        kind_word=kind_word,
        input=without_written_objects(input_value) or _messages_given(fields) or None,
        output=readable_output,
        has_unread_output=readable_output != output,
        documents=fields.documents("documents"),
        input_documents=fields.documents("input_documents") or (),
        prompt=messages_in(fields.values("prompt")),
        replies=messages_in(fields.values("replies")),
        query=fields.text("query"),
        tool=fields.text("tool"),
        call_id=fields.text("call_id"),
        model=fields.text("model"),
        user_fields=mapping(user_fields),
    )


@dataclass(frozen=True)
class _Fields:
    """The fields of a reading, as a span holds them under the names of one dialect.

    Attributes:
        attributes: The attributes of the span.
        names: The names of the attributes that hold a field, by the field.
    """

    attributes: Mapping[str, Any]
    names: Mapping[str, Any]

    def values(self, field_name: str) -> tuple[Any, ...]:
        """The values of all attributes that may hold a field, without empty values."""
        values = []
        for name in self.names.get(field_name, ()):
            value = plain(value_of(self.attributes, name))
            if value not in (None, ""):
                values.append(value)
        return tuple(values)

    def first_value(self, field_name: str) -> Any:
        """The first value of a field; None if there is none."""
        values = self.values(field_name)
        return values[0] if values else None

    def text(self, field_name: str) -> str | None:
        """The first value of a field as a text; None if there is none."""
        value = self.first_value(field_name)
        return None if value is None else str(value)

    def documents(self, field_name: str) -> tuple[Document, ...] | None:
        """The documents of a field, by the first list of documents that a span holds.

        () if the list is empty, and None if there is no list. A document may have an id
        and no text.
        """
        for name in self.names.get(field_name, ()):
            # The list stands under "documents.0.content" and so on, or as JSON under
            # "documents".
            entries = value_of(self.attributes, name)
            if not entries:
                entries = self.attributes.get(name.removesuffix("."))
            if isinstance(entries, str):
                entries = plain(entries)
            if not isinstance(entries, (list, tuple)):
                continue
            read_entries = map(_document, entries)
            documents = [entry for entry in read_entries if entry is not None]
            if documents or not entries:
                return tuple(documents)
        return None


def _messages_given(fields: _Fields) -> tuple[Message, ...]:
    """The messages of a run's transcript up to the one in which the user asked.

    A transcript holds the messages of earlier turns, followed by those of the run.
    """
    transcript = messages_in(fields.values("transcript"))
    digits = str(fields.first_value("transcript_start"))
    n_earlier = int(digits) if digits.isdecimal() else 0
    for place, message in enumerate(transcript):
        if place >= n_earlier and message.role == "user" and message.text.strip():
            return tuple(transcript[: place + 1])
    return ()


def value_of(attributes: Mapping[str, Any], name: str) -> Any:
    """The value of an attribute.

    A name that ends with a dot is written as one attribute for each leaf:
    ``name.0.role``.
    """
    if not name.endswith("."):
        value = attributes.get(name)
        return None if value == _HIDDEN else value
    leaves = {}
    for key, value in attributes.items():
        path = key.removeprefix(name)
        if key.startswith(name) and path and value != _HIDDEN:
            leaves[path] = value
    return _nest(leaves) or None


def _nest(leaves: Mapping[str, Any]) -> Any:
    """Build a mapping or a list from its leaves.

    Example: ``{"0.role": "user", "0.content": "Hi"}`` becomes the list
    ``[{"role": "user", "content": "Hi"}]``. Elements with numbers below 0 are left out.

    Args:
        leaves: Each leaf by its path, such as ``0.role``. An empty path stands for the
            whole value.
    """
    if "" in leaves:
        return leaves[""]
    leaves_by_branch = defaultdict[str, dict[str, Any]](dict)
    for path, value in leaves.items():
        branch, _, rest = path.partition(".")
        leaves_by_branch[branch][rest] = value
    branches = {key: _nest(part) for key, part in leaves_by_branch.items()}
    indices = [key for key in branches if key.isdecimal()]  # "-1" is not decimal
    is_list = bool(indices) and all(_INDEX.fullmatch(key) for key in branches)
    if is_list:
        return [branches[key] for key in sorted(indices, key=int)]
    return branches


def _document(entry: object) -> Document | None:
    """The document of an entry of a list of documents; None for no such entry.

    Examples: the object ``{"id": "a", "content": "It is old."}``, the same in a field
    "document", and the bare text "It is old.". An object without any text gives a
    document with only its id.
    """
    if isinstance(entry, Mapping):
        entry = entry.get("document", entry)
    if not isinstance(entry, Mapping):
        return _document_in_any_form(entry)
    # The text is the field "content", which may hold another object: {"text": "It is
    # old."}. Without it the object is a framework's own, such as {"page_content": …}.
    text = entry.get("content")
    if not isinstance(text, str):
        inner = _document_in_any_form(text or entry)
        text = None if inner is None else inner.text
    return recorded_document(
        text,
        entry.get("id"),
        entry.get("score"),
        entry.get("metadata"),
    )


def _document_in_any_form(value: object) -> Document | None:
    """Read a value as one thing that a retriever returned; None if it cannot be read."""
    documents = found_texts([value])
    return documents[0] if documents else None


def _without_wrapping(value: Any, name: str) -> Any:
    """Take an input or output out of the mapping into which Traceloop puts it.

    Example: {"inputs": {"question": "Who?"}, "tags": []} with the name "inputs" gives
    {"question": "Who?"}. Any other value is returned as it is.
    """
    if not isinstance(value, Mapping) or name not in value:
        return value
    is_of_traceloop = "kwargs" in value or "tags" in value
    return value[name] if is_of_traceloop else value


def found_texts(output: object) -> tuple[Document, ...] | None:
    """Read what a retriever returned as documents.

    Example: ``["It fell."]``, ``[{"text": "It fell."}]`` and ``{"documents": ["It
    fell."]}`` are one document. A single text is one document as well.

    Returns:
        The documents; () if nothing was found. None if the output cannot be read.
    """
    if not _holds_anything(output):
        return ()
    if isinstance(output, str):
        return None if _LOOKS_LIKE_CODE.match(output) else (Document(output),)
    if isinstance(output, Mapping):
        lists = [entry for entry in output.values() if isinstance(entry, (list, tuple))]
        documents = divided("", output)
        return found_texts(lists[0]) if documents is None and lists else documents
    if not isinstance(output, (list, tuple)):
        return None
    found: list[Document] = []
    for element in output:
        is_document = isinstance(element, Document)
        passages = (element,) if is_document else divided("", [element])
        if passages is None:
            return None
        found += passages
    return tuple(found)


def holds_only_numbers(output: object) -> bool:
    """Whether an output is a number, or holds nothing but numbers: no text, no id."""
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, (list, tuple)):
        return bool(output) and all(map(holds_only_numbers, output))
    return isinstance(output, (int, float))


def _holds_anything(value: object) -> bool:
    """Whether a value holds a text, a number or an object, at any depth."""
    if isinstance(value, Mapping):
        return any(map(_holds_anything, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_holds_anything, value))
    if isinstance(value, Document):
        return True  # found, though its text was not recorded
    return value is not None and str(value).strip() != ""
