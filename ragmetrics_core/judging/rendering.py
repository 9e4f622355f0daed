"""Turns a question into chat messages: the template's fixed text, with the sample's texts in fences.

A fence opens and closes with the same 128-bit digest of the text that it encloses, salted if the text should hold
it: no text can close its own fence, and equal questions give equal prompts. Replaced text is never scanned again,
and only known ``{names}`` are replaced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import count
from typing import Any

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import safe
from ragmetrics_core.data.questions import (
    Adherent,
    ExtractFacts,
    FactInContext,
    Instructions,
    Question,
    RateRecall,
    Sufficient,
    Useful,
)
from ragmetrics_core.data.writing import WriteQuestion
from ragmetrics_core.endpoints.chat import Message

_NAMES = "question|answer|contexts|chunk|chunks|context|reference|fact|facts|examples|language"
_PLACEHOLDER = re.compile(
    r"^[ \t]*\{(?P<alone>" + _NAMES + r")\}[ \t]*(?P<end>\n|\Z)|\{(?P<inside>" + _NAMES + r")\}", re.MULTILINE
)
_BREAK = re.compile(r"^---\r?(?:\n|\Z)", re.MULTILINE)
_SPACE = re.compile(r"\s+")
_DIGITS = 39  # 128 bits in decimal, which most tokenizers write three digits to a token; hexadecimal costs half more


def fenced(label: str, text: str) -> str:
    """Enclose a text in a fence that it cannot contain.

    Args:
        label: What the text is, in our words.
        text: A text of the sample.

    Returns:
        The opening line with the label and a 128-bit digest of the text, the text, the closing line with the same.
    """
    text = safe(text)
    digest = next(digest for salt in count() if (digest := _digest(text, salt)) not in text)
    return f"{label} <{digest}>\n{text}\n</{digest}>"


def _digest(text: str, salt: int) -> str:
    salted = f"{text}\0{salt}" if salt else text  # no text holds NUL
    return f"{int.from_bytes(hashlib.sha256(salted.encode()).digest()[:16]):0{_DIGITS}d}"


def labels(count: int) -> tuple[str, ...]:
    """Neutral labels for chunks: A, B to Z, then AA, AB and so on."""
    return tuple(_letters(number) for number in range(1, count + 1))


def _letters(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("A") + digit) + text
    return text


def fact_labels(count: int) -> tuple[str, ...]:
    """Labels for facts: F1, F2 and so on."""
    return tuple(f"F{number}" for number in range(1, count + 1))


def render(question: Question[Any]) -> tuple[Message, ...]:
    """Render a question into messages.

    Args:
        question: A question with its template.

    Returns:
        The system message, if the template has one, and the user message.

    Raises:
        SettingError: If the template has a placeholder that questions of this type do not fill.
    """
    above, below = _parts(question.instructions.template)
    head = _fixed(above, question.instructions) or Message("system", _fill(above, question).strip())
    body = _fill(below, question).strip()
    if head.content and body:
        return (head, Message("user", body))
    return (Message("user", head.content or body),)


@lru_cache(maxsize=64)
def _parts(template: str) -> tuple[str, str]:
    """What is above the line ``---`` and what is below; "" above if there is no such line."""
    parts = _BREAK.split(template, maxsplit=1)
    return (parts[0], parts[1]) if len(parts) == 2 else ("", template)


@lru_cache(maxsize=64)
def _fixed(part: str, instructions: Instructions) -> Message | None:
    """A system message that no sample changes, the same for thousands of questions; None if one does."""
    if {match["alone"] or match["inside"] for match in _PLACEHOLDER.finditer(part)} <= {"examples", "language"}:
        return Message("system", _fill(part, Question(instructions=instructions)).strip())
    return None


def _fill(template: str, question: Question[Any]) -> str:
    def replace(match: re.Match[str]) -> str:
        if (name := match["alone"]) is None:
            return _value(match["inside"], question)
        text = _value(name, question)
        return text + match["end"] if text else ""

    return _PLACEHOLDER.sub(replace, template)


def _value(name: str, question: Question[Any]) -> str:
    if name == "examples":
        return safe(question.instructions.examples).strip()
    if name == "language":
        language = question.instructions.language
        return f"Write explanations in {safe(language)}." if language else ""
    if name == "question":
        return _question(question)
    fill = _FILLERS.get((type(question), name))
    if fill is None:
        raise SettingError(
            f"the template of a {question.kind!r} question uses {{{name}}}, which such a question does not have; "
            "remove it from the template"
        )
    return fill(question)


def _question(question: Question[Any]) -> str:
    """The question as asked, under it the application's rewrite and the conversation, in one fence."""
    if question.question is None:
        return ""
    parts = [question.question]
    if question.standalone_question and question.standalone_question != question.question:
        parts.append(f"Stand-alone rewrite: {question.standalone_question}")
    if question.history:
        parts.append("Earlier turns, oldest first:")
        parts.extend(f"{turn.role}: {turn.content}" for turn in question.history)
    return fenced("Question", "\n".join(parts))


def _numbered(texts: tuple[str, ...]) -> str:
    return "\n".join(fenced(f"Context {number}", text) for number, text in enumerate(texts, 1))


def _lettered(texts: tuple[str, ...]) -> str:
    return "\n".join(fenced(f"Chunk {label}", text) for label, text in zip(labels(len(texts)), texts, strict=True))


def _listed(facts: tuple[str, ...]) -> str:
    """All facts in one fence, one line each, so that no fact can pose as another."""
    lines = (f"{label}: {_SPACE.sub(' ', fact)}" for label, fact in zip(fact_labels(len(facts)), facts, strict=True))
    return fenced("Facts", "\n".join(lines))


_FILLERS: dict[tuple[type[Question[Any]], str], Callable[[Any], str]] = {
    (Useful, "answer"): lambda question: fenced("Answer", question.answer),
    (Useful, "chunk"): lambda question: fenced("Chunk", question.chunks[0]),
    (Useful, "chunks"): lambda question: _lettered(question.chunks),
    (Adherent, "answer"): lambda question: fenced("Answer", question.answer),
    (Adherent, "contexts"): lambda question: _numbered(question.contexts),
    (RateRecall, "answer"): lambda question: fenced("Answer", question.answer),
    (RateRecall, "contexts"): lambda question: _numbered(question.contexts),
    (RateRecall, "reference"): lambda question: fenced("Reference answer", question.reference),
    (ExtractFacts, "reference"): lambda question: fenced("Reference answer", question.reference),
    (FactInContext, "context"): lambda question: fenced("Context", question.context),
    (FactInContext, "fact"): lambda question: fenced("Fact", question.facts[0]),
    (FactInContext, "facts"): lambda question: _listed(question.facts),
    (Sufficient, "answer"): lambda question: fenced("Answer", question.answer),
    (Sufficient, "contexts"): lambda question: _numbered(question.contexts),
    (WriteQuestion, "chunks"): lambda question: _lettered(question.chunks),
}
