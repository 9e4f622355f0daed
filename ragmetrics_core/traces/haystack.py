"""Haystack as OpenInference records it: sockets say what a component is, objects stand there as ``repr`` wrote them."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragmetrics_core.capturing.reading import question_in
from ragmetrics_core.capturing.tree import Document, Message
from ragmetrics_core.traces.dialects import Reading
from ragmetrics_core.traces.values import each

_ID = re.compile(r"\bDocument\(id=([^,]{1,200}), ")
_STRING = r"""('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\")"""
_TEXT = re.compile(rf"^ChatMessage\(_role=<ChatRole\.(?:USER|ASSISTANT).*?\bTextContent\(text={_STRING}", re.DOTALL)
_DATA = re.compile(rf"^GeneratedAnswer\(data={_STRING}", re.DOTALL)
_OBJECTS = ("ChatMessage(", "GeneratedAnswer(", "ExtractedAnswer(", "Document(")
_NAMED = ("last_message", "replies", "reply", "answer", "answers", "response")


def read(calls: Sequence[tuple[str, Reading, bool]]) -> None:
    """Say of the calls of a trace, by name and whether it is outermost, what the rules of all frameworks read."""
    known = {doc.id: doc for _, one, _ in calls[::-1] for doc in one.documents or () if doc.text.strip()}
    for name, one, _ in calls:
        emits = isinstance(one.output, Mapping) and "replies" in one.output and one.input
        one.kind = "ignored" if "Evaluator" in name else "step" if "Builder" in name else "model" if emits else one.kind
    models = [one for _, one, _ in calls if one.kind == "model"]
    answered = next((some for _, one, _ in calls[::-1] if (some := list(_texts(one.output, _DATA)))), [])
    for name, said, outermost in calls[::-1]:
        found = tuple(known.get(one) or Document("", one) for one in dict.fromkeys(_ID.findall(str(said.output))))
        texts = {name: some[-1] for name, value in _sockets(said.input) if (some := list(_texts(value)))}
        asked, sockets = question_in(texts), dict(_sockets(said.output))
        if said.kind == "model":
            shown = tuple(value for name, value in _sockets(said.input) if name in ("messages", "prompt"))
            prompt = tuple(Message("user", one) for one in each(shown, str))  # a text in a representation is found too
            said.kind, said.prompt, said.input, said.output = "model", prompt or said.prompt, None, None
            said.replies = said.replies or tuple(Message("assistant", one) for one in _texts(sockets.get("replies")))
        elif said.kind in ("retriever", "reranker"):
            said.input, said.output = asked, None
            said.documents = found if said.documents is None else tuple(one for one in said.documents if one.text)
        elif outermost and not isinstance(said.output, str):
            named = [sockets[key] for key in _NAMED if key in sockets] or list(sockets.values())
            wrote = answered or list(_texts(tuple(named[:1] if "last_message" in sockets else named)))
            told = len(wrote) == 1 and (len(models) < 2 or len(wrote[0].split()) > 1)
            said.query, said.input = asked if models else None, asked
            said.output = wrote[0] if told else None if models else found or None
            for one in () if told else models:  # several, a verdict, or a tool ended the run: the answer is not told
                one.replies = ()
        elif said.kind != "ignored":
            said.kind, said.input, said.output = "step", None, None if "Builder" in name else found or None


def _sockets(given: Any) -> Iterator[tuple[str, Any]]:
    """Sockets and their values, however a run or component groups them."""
    for name, value in given.items() if isinstance(given, Mapping) else ():
        yield from _sockets(value) if isinstance(value, Mapping) else ((name, value),)


def _texts(value: Any, form: re.Pattern[str] = _TEXT) -> Iterator[str]:
    """The texts in a value, those that ``repr`` wrote of messages or answers included; each once."""
    for one in dict.fromkeys(each(value, str)):
        found = form.match(one) if "ToolCall(" not in one else None
        text = str(ast.literal_eval(found[1])) if found else "" if form is _DATA or one.startswith(_OBJECTS) else one
        if text.strip():
            yield text
