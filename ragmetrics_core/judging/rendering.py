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
    first_text = texts[0] if texts else ""
    mark = _digest(first_text)
    for salt in count(1):
        if all(mark not in text for text in texts):
            break
        mark = _digest(f"{first_text}\0{salt}")  # no text holds NUL
    return mark


def _digest(text: str) -> str:
    """A 128-bit digest of a text, in decimal."""
    first_bytes = hashlib.sha256(text.encode()).digest()[:16]
    return f"{int.from_bytes(first_bytes):0{_DIGITS}d}"


def render(question: Question[Any]) -> tuple[Message, ...]:
    """Render a question into chat messages.

    They are the system message, if the template has one, and the user message.

    Raises:
        SettingError: If the template does not fit the parts; see ``check_template``.
    """
    instructions = question.instructions
    check_template(instructions, tuple(question.parts))
    blocks_by_name = {
        name: _blocks(question.parts[name])
        for name in _names(instructions.template)
        if name in question.parts
    }
    mark = fence([text for blocks in blocks_by_name.values() for _, text in blocks])
    texts = {name: _fenced(blocks, mark) for name, blocks in blocks_by_name.items()}
    texts |= _own_words(instructions)

    above, below = _parts(instructions.template)
    system = _fixed(above, instructions)
    if system is None:
        system = Message("system", _without_double_marks(_fill(above, texts), mark))
    body = _without_double_marks(_fill(below, texts), mark)
    body = body.removesuffix(f"\n{mark}")  # the end of the message closes the last text
    if system.content and body:
        return (system, Message("user", body))
    return (Message("user", system.content or body),)


def _fenced(blocks: Sequence[tuple[str, str]], mark: str) -> str:
    return "".join(f"{mark} {label}\n{text}\n{mark}\n" for label, text in blocks)


def _without_double_marks(message: str, mark: str) -> str:
    """A message in which what closes a text opens the next."""
    return message.replace(f"{mark}\n{mark} ", f"{mark} ")


@lru_cache(maxsize=64)
def _parts(template: str) -> tuple[str, str]:
    """What is above the line ``---``, and what is below; without it all is below."""
    match = _BREAK.search(template)
    if match is None:
        return "", template
    return template[: match.start()], template[match.end() :]


@lru_cache(maxsize=64)
def _names(template: str) -> tuple[str, ...]:
    """The placeholders of a template, each once, in order."""
    names = map(_name, PLACEHOLDER.finditer(template))
    return tuple(dict.fromkeys(names))


def _name(placeholder: re.Match[str]) -> str:
    """The name in a placeholder, which stands alone on its line or inside one."""
    return placeholder["alone"] or placeholder["inside"]


@lru_cache(maxsize=64)
def _fixed(part: str, instructions: Instructions) -> Message | None:
    """A system message that no sample changes, the same for thousands of questions.

    None if one may.
    """
    words = _own_words(instructions)
    if words.keys() >= set(_names(part)):
        return Message("system", _fill(part, words))
    return None


def _fill(template: str, texts: Mapping[str, str]) -> str:
    """A template with texts in place of its placeholders."""

    def text_of(placeholder: re.Match[str]) -> str:
        text = texts[_name(placeholder)]
        if not text:
            return ""
        return text.removesuffix("\n") + (placeholder["end"] or "")

    return PLACEHOLDER.sub(text_of, template).strip()


@lru_cache(maxsize=64)
def _own_words(instructions: Instructions) -> dict[str, str]:
    """What replaces placeholders in every prompt of a metric: no text of a sample."""
    language = ""
    if instructions.language:
        language = f"Write explanations in {safe(instructions.language)}."
    return {"examples": safe(instructions.examples).strip(), "language": language}


def _blocks(part: Part) -> list[tuple[str, str]]:
    """What stands in each fence of a part: its label and the text."""
    if isinstance(part.text, str):
        text = "\n".join([part.text, *_lines_beside(part)])
        return [(part.label, safe(text))]
    labelled_texts = zip(part.labels, part.texts, strict=True)
    if part.marks == "lines" and part.texts:
        lines = [f"{label}: {_SPACE.sub(' ', text)}" for label, text in labelled_texts]
        return [(part.label, safe("\n".join(lines)))]
    return [(f"{part.label} {label}", safe(text)) for label, text in labelled_texts]


def _lines_beside(part: Part) -> list[str]:
    """The application's rewrite of a text, and the conversation before it."""
    lines = []
    if part.rewrite and part.rewrite != part.text:
        lines.append(f"Stand-alone rewrite: {part.rewrite}")
    if part.history:
        lines.append("Earlier turns, oldest first:")
        lines.extend(f"{turn.role}: {turn.content}" for turn in part.history)
    return lines
