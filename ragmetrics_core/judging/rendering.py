"""Turns a question into chat messages.

The template's fixed text stays as it is; the sample's texts stand in fences.

A text is opened and closed by lines that begin with the same fence: one for a whole
prompt, a 128-bit digest of the first text that it shows, salted until none of its texts
holds it. What closes a text opens the next, and the end of the message, which no text
can move, closes the last. So no text can close or open a fence, equal questions give
equal prompts, and what follows a shared text can vary without changing what stands
before it. Replaced text is never scanned again, and only ``{names}`` of parts are
replaced.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from ragmetrics_core.data import (
    PLACEHOLDER,
    Instructions,
    Part,
    Question,
    check_template,
    safe,
)
from ragmetrics_core.models.chat import Message

_BREAK = re.compile(r"^---\r?(?:\n|\Z)", re.MULTILINE)
_SPACE = re.compile(r"\s+")
# 128 bits in decimal, which most tokenizers write three digits to a token; hexadecimal
# costs half more
_DIGITS = 39


def fence(texts: Sequence[str]) -> str:
    """Return a number that none of these texts contains.

    It comes from a 128-bit digest of the first of them.
    """
    salted = first = texts[0] if texts else ""
    for salt in count(1):
        mark = f"{int.from_bytes(hashlib.sha256(salted.encode()).digest()[:16]):0{_DIGITS}d}"
        if all(mark not in text for text in texts):
            break
        salted = f"{first}\0{salt}"  # no text holds NUL
    return mark


def render(question: Question[Any]) -> tuple[Message, ...]:
    """Render a question into chat messages.

    They are the system message, if the template has one, and the user message.

    ``SettingError`` if the template does not fit the parts; see ``check_template``.
    """
    check_template(question.instructions, tuple(question.parts))
    above, below = _parts(question.instructions.template)
    names = _names(question.instructions.template)
    shown = {
        name: _blocks(question.parts[name]) for name in names if name in question.parts
    }
    mark = fence([text for blocks in shown.values() for _, text in blocks])
    texts = {
        name: "".join(f"{mark} {label}\n{text}\n{mark}\n" for label, text in it)
        for name, it in shown.items()
    }
    twice = f"{mark}\n{mark} "  # what closes a text opens the next
    texts |= _own(question.instructions)
    head = _fixed(above, question.instructions) or Message(
        "system", _fill(above, texts).replace(twice, f"{mark} ")
    )
    body = _fill(below, texts).replace(twice, f"{mark} ").removesuffix(f"\n{mark}")
    if head.content and body:
        return (head, Message("user", body))
    return (Message("user", head.content or body),)


@lru_cache(maxsize=64)
def _parts(template: str) -> tuple[str, str]:
    """What is above the line ``---`` and what is below; "" above if there is no such line."""
    parts = _BREAK.split(template, maxsplit=1)
    return (parts[0], parts[1]) if len(parts) == 2 else ("", template)


@lru_cache(maxsize=64)
def _names(template: str) -> tuple[str, ...]:
    """The placeholders, in order."""
    return tuple(
        dict.fromkeys(
            match["alone"] or match["inside"]
            for match in PLACEHOLDER.finditer(template)
        )
    )


@lru_cache(maxsize=64)
def _fixed(part: str, instructions: Instructions) -> Message | None:
    """A system message that no sample changes, the same for thousands of questions.

    None if one may.
    """
    if {"examples", "language"}.issuperset(_names(part)):
        return Message("system", _fill(part, _own(instructions)))
    return None


def _fill(template: str, texts: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        text = texts[match["alone"] or match["inside"]]
        return text and text.removesuffix("\n") + (match["end"] or "")

    return PLACEHOLDER.sub(replace, template).strip()


@lru_cache(maxsize=64)
def _own(instructions: Instructions) -> dict[str, str]:
    """What replaces placeholders in every prompt of a metric."""
    language = (
        f"Write explanations in {safe(instructions.language)}."
        if instructions.language
        else ""
    )
    return {"examples": safe(instructions.examples).strip(), "language": language}


def _blocks(part: Part) -> list[tuple[str, str]]:
    """What stands in each fence of a part: its label and the text."""
    if isinstance(part.text, str):
        return [(part.label, safe("\n".join([part.text, *_beside(part)])))]
    if part.marks == "lines" and part.texts:
        lines = (
            f"{label}: {_SPACE.sub(' ', text)}"
            for label, text in zip(part.labels, part.texts, strict=True)
        )
        return [(part.label, safe("\n".join(lines)))]
    return [
        (f"{part.label} {label}", safe(text))
        for label, text in zip(part.labels, part.texts, strict=True)
    ]


def _beside(part: Part) -> list[str]:
    """The application's rewrite and the conversation."""
    lines = (
        [f"Stand-alone rewrite: {part.rewrite}"]
        if part.rewrite and part.rewrite != part.text
        else []
    )
    if part.history:
        lines.append("Earlier turns, oldest first:")
        lines.extend(f"{turn.role}: {turn.content}" for turn in part.history)
    return lines
