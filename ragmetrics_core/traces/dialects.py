"""What a span says, by the names that its instrumentation uses.

These stand in ``dialects.toml``.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.resources import files
from typing import Any, cast

from ragmetrics_core.capture import Document, Message
from ragmetrics_core.capture.tree import Kind
from ragmetrics_core.data import number_as_text
from ragmetrics_core.data.conversation_names import conversation_in, conversation_name
from ragmetrics_core.traces.values import made, mapping, messages_in, plain

DIALECTS: dict[str, dict[str, Any]] = tomllib.loads(
    files(__package__).joinpath("dialects.toml").read_text("utf-8")
)
_PLACE = re.compile(r"-?\d+")
_KINDS = {
    name: cast("Kind", kind)
    for kind, names in DIALECTS.pop("kinds").items()
    for name in names
}


@dataclass(slots=True)
class Reading:
    """What one span says, in plain values.

    None, empty texts and tuples where it is silent.

    ``taken`` and ``documents`` are those that it was given and returned, ``given`` what
    the application said for us: ``metadata={"ragmetrics": …}``.
    """

    kind: Kind | None = None
    input: Any = None
    output: Any = None
    documents: tuple[Document, ...] | None = None
    taken: tuple[Document, ...] = ()
    prompt: tuple[Message, ...] = ()
    replies: tuple[Message, ...] = ()
    query: str | None = None
    tool: str | None = None
    call: str | None = None
    model: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)


def reading_of(
    attributes: Mapping[str, Any], dialect: str | None = None
) -> Reading | None:
    """What a span says; None if it bears no known mark."""
    merged: Reading | None = None
    for names in (DIALECTS[dialect],) if dialect else DIALECTS.values():
        others = tuple(names.get("others", ()))
        if names["mark"] in attributes or any(
            key.startswith(others) for key in attributes if others
        ):
            found = _read(attributes, names)
            for one in fields(found) if merged is not None else ():
                if getattr(merged, one.name) in (None, "", (), {}):
                    setattr(merged, one.name, getattr(found, one.name))
            merged = merged or found
    # messages of a whole run are what it was given and returned
    if merged is not None and merged.kind != "model":
        merged.input = merged.input or _plain_messages(merged.prompt)
        merged.output = merged.output or _plain_messages(merged.replies)
    return merged


def session_of(attributes: Mapping[str, Any]) -> str | None:
    """The conversation that a span names, by the names that tables have for it, too."""
    named = {
        key: plain(value) for key, value in attributes.items() if conversation_name(key)
    }
    metadata = mapping(plain(attributes.get("metadata")))
    conversation = conversation_in({**named, "metadata": metadata})
    return None if conversation is None else str(number_as_text(conversation.value))


def _plain_messages(messages: tuple[Message, ...]) -> Any:
    return (
        plain(messages[0].text)
        if len(messages) == 1 and messages[0].text
        else messages or None
    )


def _read(attributes: Mapping[str, Any], names: Mapping[str, Any]) -> Reading:
    def told(field: str) -> Iterator[Any]:
        return (
            found
            for name in names.get(field, ())
            if (found := plain(_value(attributes, name))) not in (None, "")
        )

    kind, metadata = (
        str(plain(attributes.get(names["mark"])) or "").lower(),
        mapping(plain(attributes.get("metadata"))),
    )
    single = {
        field: next(map(str, told(field)), None)
        for field in ("query", "tool", "call", "model")
    }
    return Reading(
        (
            "ignored"
            if "ragmetrics.judge" in attributes
            else _KINDS.get(kind, "step" if kind else None)
        ),
        _unwrapped(next(told("input"), None), "inputs"),
        _unwrapped(next(told("output"), None), "outputs"),
        _documents(attributes, names.get("documents", ())),
        _documents(attributes, names.get("taken", ())) or (),
        messages_in(tuple(told("prompt"))),
        messages_in(tuple(told("replies"))),
        given=metadata.get("ragmetrics") or next(told("given"), {}),
        **single,
    )


def _value(attributes: Mapping[str, Any], name: str) -> Any:
    """An attribute, or the value that is written as one attribute for each leaf: ``name.0.role``."""
    if not name.endswith("."):
        return attributes.get(name)
    leaves = {
        key.removeprefix(name): value
        for key, value in attributes.items()
        if key.startswith(name) and key != name
    }
    return _nested(leaves) or None


def _nested(leaves: Mapping[str, Any]) -> Any:
    if "" in leaves:
        return leaves[""]
    parts = defaultdict[str, dict[str, Any]](dict)
    for path, value in leaves.items():
        first, _, rest = path.partition(".")
        parts[first][rest] = value
    found = {key: _nested(part) for key, part in parts.items()}
    places = [key for key in found if key.isdecimal()]
    # a negative place is nobody's
    if places and all(_PLACE.fullmatch(key) for key in found):
        return [found[key] for key in sorted(places, key=int)]
    return found


def _documents(
    attributes: Mapping[str, Any], names: Sequence[str]
) -> tuple[Document, ...] | None:
    """Documents of fields; of conventions that name only ids the text is not recorded."""
    for listed in (_value(attributes, name) for name in names):
        listed = plain(listed) if isinstance(listed, str) else listed
        items = [
            one.get("document", one) for one in listed or () if isinstance(one, Mapping)
        ]
        if items or listed in ([], ()):
            return tuple(
                made(*map(one.get, ("content", "id", "score", "metadata")))
                for one in items
            )
    return None


def _unwrapped(value: Any, name: str) -> Any:
    """Traceloop puts a value into a mapping with what it knows of it."""
    return (
        value[name]
        if isinstance(value, Mapping)
        and name in value
        and {"kwargs", "tags"} & set(value)
        else value
    )
