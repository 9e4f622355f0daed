"""Haystack: sockets say what a component is; OpenInference writes objects as ``repr`` does, its own tracing as JSON."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core.capture.plain_values import each, question_in
from ragmetrics_core.capture.tree import Answer, Document, Kind, Message
from ragmetrics_core.traces.dialects import Reading
from ragmetrics_core.traces.span_trees import Call
from ragmetrics_core.traces.spans import Span
from ragmetrics_core.traces.values import (
    mapping,
    messages_in,
    parse_repr,
    plain,
    replies_in,
)

_DOCUMENT = re.compile(r"\bDocument\(id=([^,]{1,200}), ")
_ANSWER = re.compile(
    r"""GeneratedAnswer\(data=('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\")"""
)
_NAMED = ("last_message", "replies", "reply", "answer", "answers", "response")
# Objects as ``repr`` begins them, perhaps cut; "Document(s) required: ..." is a text.
_WRITTEN = re.compile(
    r"(?:ChatMessage|GeneratedAnswer|ExtractedAnswer|Document)\((?:\w*\Z|\w+=|[A-Z]\w*\()"
)
_DOCUMENTS = "haystack.dataclasses.document.Document"


def is_own(span: Span) -> bool:
    """Whether a span has attributes of Haystack's own tracing."""
    return any(key.startswith("haystack.") for key in span.attributes)


def read(calls: Sequence[Call]) -> None:
    """Say of the calls of a trace, by their sockets and whether they are outermost, what all rules read."""
    spans = [
        (one, one.said) for call in calls for one in call.walk() if one.said is not None
    ]
    for call, said in spans:
        said.input, said.output = _opened(said.input), _opened(said.output)
        # it held a function
        if isinstance(said.input, str) and said.input.startswith("{'"):
            said.input = _opened(parse_repr(said.input))
        said.kind = _kind(call, said)
    held = [
        one
        for _, said in spans[::-1]
        for one in each((said.documents or (), said.output), Document)
    ]
    known = {one.id: one for one in held if one.text.strip()}
    models = [said for _, said in spans if said.kind == "model"]
    answered = next(
        (some for _, said in spans[::-1] if (some := list(each(said.output, Answer)))),
        [],
    )
    listed = (mapping(said.output).get("documents") for _, said in spans)
    indexes = any("documents_written" in mapping(said.output) for _, said in spans)
    latest = [some for some in listed if isinstance(some, tuple)][-1:]
    for call, said in spans[::-1]:
        found = tuple(
            one if one.text else known.get(one.id, one)
            for one in each(said.output, Document)
        )
        given, made = dict(_sockets(said.input)), dict(_sockets(said.output))
        asked = question_in(
            {
                name: some[-1]
                for name, value in given.items()
                if (some := list(_texts(value)))
            }
        )
        if said.kind == "model":
            said.prompt = (
                messages_in((given.get("messages"), given.get("prompt"))) or said.prompt
            )
            said.replies = said.replies or replies_in(made.get("replies"))
            said.input = said.output = None
        elif said.kind in ("retriever", "reranker"):
            said.input, said.output = asked, None
            said.documents = (
                found
                if said.documents is None
                else tuple(one for one in said.documents if one.text)
            )
        elif call in calls and not models and indexes:
            said.kind = "ignored"  # the building of an index
        elif call in calls and not isinstance(said.output, str):
            said.documents = () if latest == [()] else None
            said.kind, said.input = (
                "agent" if models and asked is not None else said.kind,
                asked,
            )
            said.output = _written(made, answered, models) if models else found or None
        elif said.kind == "step":
            found += _windows(call, given, made)
            said.input, said.output = (
                None,
                None if "Builder" in _type(call) else found or None,
            )


def _written(
    made: Mapping[str, Any], answered: Sequence[Answer], models: Sequence[Reading]
) -> Any:
    """What a run answered: its answers, else the one text in what it returned; None where that does not tell."""
    named = [made[key] for key in _NAMED if key in made] or list(made.values())
    wrote = list(_texts(tuple(named[:1] if "last_message" in made else named)))
    if answered:
        return answered[0].text if len(answered) == 1 else tuple(answered)
    if len(wrote) == 1 and (len(models) < 2 or len(wrote[0].split()) > 1):
        return wrote[0]
    # several, a verdict, or a tool ended the run
    for one in models if wrote or len(models) > 1 else ():
        one.replies = ()
    return None


def _windows(
    call: Call, given: Mapping[str, Any], made: Mapping[str, Any]
) -> tuple[Document, ...]:
    """Documents with the texts around each that a component hands on."""
    spec = mapping(
        mapping(plain(call.span.attributes.get("haystack.component.output_spec"))).get(
            "context_windows"
        )
    )
    pairs = zip(each(given, Document), made.get("context_windows", ()), strict=False)
    return tuple(
        replace(one, text=text) for one, text in pairs if spec.get("receivers", True)
    )


def _type(call: Call) -> str:
    return str(call.span.attributes.get("haystack.component.type") or call.span.name)


def _kind(call: Call, said: Reading) -> Kind | None:
    """What a component is: by its name, else by what it takes and gives, of which its own tracing tells the types."""
    name, given, made = _type(call), dict(_sockets(said.input)), mapping(said.output)
    takes, gives = (
        str(call.span.attributes.get(f"haystack.component.{one}_spec", ""))
        for one in ("input", "output")
    )
    if "Evaluator" in name or said.kind == "ignored":
        return "ignored"
    if "Builder" in name:
        return "step"
    if given and ("replies" in made or '"replies": ' in gives):
        return "model"
    if not is_own(call.span):
        return said.kind
    finds = _DOCUMENTS in gives and _DOCUMENTS not in takes and "replies" not in given
    return (
        "tool"
        if name.endswith(".tool")
        else "reranker"
        if "Ranker" in name
        else "retriever"
        if finds
        else "step"
    )


def _sockets(given: Any) -> Iterator[tuple[str, Any]]:
    """Sockets and their values, however a run or component groups them."""
    for name, value in given.items() if isinstance(given, Mapping) else ():
        yield from _sockets(value) if isinstance(value, Mapping) else ((name, value),)


def _opened(value: Any) -> Any:
    """A value with its objects: messages, documents and answers, extracted ones left out."""
    if isinstance(value, tuple):
        return tuple(map(_opened, value))
    if isinstance(value, Mapping):
        if {"data", "query", "meta"} <= set(value):
            return Answer(
                str(value["data"] or ""), "answers", extracted="documents" not in value
            )
        return {key: _opened(one) for key, one in value.items()}
    if not isinstance(value, str) or not _WRITTEN.match(value):
        return value
    answer, document = _ANSWER.match(value), _DOCUMENT.match(value)
    if answer is not None:
        return Answer(str(ast.literal_eval(answer[1])), "answers")
    return (
        Document("", document[1])
        if document is not None
        else parse_repr(value)
        if value.startswith("Chat")
        else None
    )


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value, those of messages and answers included; each once."""
    found = (
        one if isinstance(one, str) else one.text
        for one in each(value, str, Message, Answer)
        if not _calls(one)
    )
    yield from (text for text in dict.fromkeys(found) if text and text.strip())


def _calls(one: Any) -> bool:
    return isinstance(one, Message) and (
        bool(one.calls) or one.role not in ("user", "assistant")
    )
