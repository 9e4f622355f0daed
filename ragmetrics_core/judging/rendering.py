"""Turns a question into chat messages: the template's fixed text, with the sample's texts in fences.

A fence opens and closes with the same 128-bit digest of the text that it encloses, salted if the text should hold
it: no text can close its own fence, and equal questions give equal prompts. Replaced text is never scanned again,
and only ``{names}`` of parts are replaced.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from itertools import count
from typing import Any

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.frozen import safe
from ragmetrics_core.data.questions import Instructions, Part, Question
from ragmetrics_core.endpoints.chat import Message

_PLACEHOLDER = re.compile(
    r"^[ \t]*\{(?P<alone>[a-z_]\w*)\}[ \t]*(?P<end>\n|\Z)|\{(?P<inside>[a-z_]\w*)\}", re.MULTILINE
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


def render(question: Question[Any]) -> tuple[Message, ...]:
    """Render a question into messages.

    Args:
        question: A question with its template.

    Returns:
        The system message, if the template has one, and the user message.

    Raises:
        SettingError: If a line of the template is a placeholder of which the question has no part.
    """
    above, below = _parts(question.instructions.template)
    head = _fixed(above, question.instructions) or Message("system", _fill(above, question.instructions, question))
    body = _fill(below, question.instructions, question)
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
    """A system message that no sample changes, the same for thousands of questions; None if one may."""
    if {match["alone"] or match["inside"] for match in _PLACEHOLDER.finditer(part)} <= {"examples", "language"}:
        return Message("system", _fill(part, instructions, None))
    return None


def _fill(template: str, instructions: Instructions, question: Question[Any] | None) -> str:
    def replace(match: re.Match[str]) -> str:
        alone = match["alone"]
        text = _value(alone or match["inside"], instructions, question)
        if text is None and alone is not None and question is not None:
            known = ", ".join(f"{{{name}}}" for name in question.parts)
            raise SettingError(f"the template shows {{{alone}}}, of which this question has no part; it has {known}")
        if text is None:
            return match[0]
        return text if alone is None else text and text + match["end"]

    return _PLACEHOLDER.sub(replace, template).strip()


def _value(name: str, instructions: Instructions, question: Question[Any] | None) -> str | None:
    """What replaces a placeholder; None if it is no name of ours."""
    if name == "examples":
        return safe(instructions.examples).strip()
    if name == "language":
        return f"Write explanations in {safe(instructions.language)}." if instructions.language else ""
    part = None if question is None else question.parts.get(name)
    return None if part is None else _shown(part)


def _shown(part: Part) -> str:
    if isinstance(part.text, str):
        return fenced(part.label, "\n".join([part.text, *_beside(part)]))
    if part.marks == "lines" and part.texts:
        lines = (f"{label}: {_SPACE.sub(' ', text)}" for label, text in zip(part.labels, part.texts, strict=True))
        return fenced(part.label, "\n".join(lines))
    return "\n".join(fenced(f"{part.label} {label}", text) for label, text in zip(part.labels, part.texts, strict=True))


def _beside(part: Part) -> list[str]:
    """The application's rewrite and the conversation."""
    lines = [f"Stand-alone rewrite: {part.rewrite}"] if part.rewrite and part.rewrite != part.text else []
    if part.history:
        lines.append("Earlier turns, oldest first:")
        lines.extend(f"{turn.role}: {turn.content}" for turn in part.history)
    return lines
