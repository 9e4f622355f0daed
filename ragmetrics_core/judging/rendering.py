"""Turns a question into chat messages.

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
from typing import Any, NamedTuple
from unicodedata import normalize

from ragmetrics_core.data import (
    PLACEHOLDER,
    Instructions,
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
# signs without a shape: soft hyphens, joiners, directions, variation selectors
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)


def tag_digits(texts: Sequence[str]) -> str:
    """Return eight hexadecimal digits that none of these texts contains.

    ``["The sky is blue."]`` gives "52ae4fd5". The tags around the texts end in these
    digits, so that no text can close its tag. They are a digest of the first text,
    changed until no text contains them in any spelling, e.g. full-width or upper case.
    """
    first_text = texts[0] if texts else ""
    digest = hashlib.sha256(first_text.encode())
    digits = digest.hexdigest()[:_DIGITS]
    texts_as_read: list[str] = []  # in lower case, with plain letters and digits
    for text in texts:
        texts_as_read += _forms_as_read(text)
    if not any(digits in text for text in texts_as_read):
        return digits
    # A text holds these digits. Other digits are tried until no text holds them; the
    # texts are read only once for that, however many have to be tried.
    taken_digits = _all_eight_digits_in_a_row(texts_as_read)
    salt = 1
    while digits in taken_digits:
        salted_digest = digest.copy()
        salted_digest.update(f"\0{salt}".encode())
        digits = salted_digest.hexdigest()[:_DIGITS]
        salt += 1
    return digits


def _all_eight_digits_in_a_row(texts: Sequence[str]) -> set[str]:
    """Collect all eight hexadecimal digits that stand in a row anywhere in texts.

    Example: "id 0123456789" holds "01234567", "12345678" and "23456789".
    """
    eights: set[str] = set()
    for text in texts:
        eights.update(match[1] for match in _DIGITS_IN_TEXT.finditer(text))
    return eights


def _forms_as_read(text: str) -> list[str]:
    """Return a text in lower case, and as a model may read it.

    A model may read ``&#60;`` as ``<``, full-width letters as plain ones, and skip
    invisible signs.
    """
    forms = [text.lower()]
    # a sign alone is looked for much faster than two, and few texts hold it
    if "&" in text and "&#" in text:
        text = unescape(text)
        forms.append(text.lower())
    if not text.isascii():
        forms.append(_INVISIBLE.sub("", normalize("NFKC", text)).lower())
    return forms


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
    # by the name of each part that the template shows: its texts, to be put into tags
    fenced_by_part = _fenced_texts_of_shown_parts(question)
    sample_texts = [
        text
        for groups in fenced_by_part.values()
        for group in groups
        for text in group.texts
    ]

    examples_and_language = _examples_and_language(instructions)
    sample_digits = tag_digits([*sample_texts, examples_and_language["examples"]])
    text_by_placeholder = dict(examples_and_language)
    for name, groups in fenced_by_part.items():
        text_by_placeholder[name] = "".join(
            [_in_tags(group, sample_digits) for group in groups]
        )

    system_template, user_template = _split_messages(instructions.template)
    # made once for all samples, unless the template shows a sample's text above ``---``
    system_message = _fixed_system_message(system_template, instructions)
    if system_message is None:
        system_text = _fill_template(system_template, text_by_placeholder)
        system_message = Message("system", system_text)
    user_text = _fill_template(user_template, text_by_placeholder)
    return _without_empty_message(system_message, user_text)


def _without_empty_message(
    system_message: Message, user_text: str
) -> tuple[Message, ...]:
    """Return both messages; if one were empty, the text of the other as the user's."""
    if system_message.content and user_text:
        return (system_message, Message("user", user_text))
    return (Message("user", system_message.content or user_text),)


class _FencedTexts(NamedTuple):
    """Texts that stand in one tag each.

    Attributes:
        label: What the texts are, in our words, e.g. ``Context``.
        texts: The texts, in order.
        ids: Which of several each text is; None for a text that stands alone.
    """

    label: str
    texts: Sequence[str]
    ids: Sequence[str] | None = None


def _in_tags(fenced: _FencedTexts, digits: str) -> str:
    """Return the texts, each in a tag of its own, whose name ends in these digits."""
    name = f"{_tag_name(fenced.label)}-{digits}"
    if fenced.ids is None:
        return "".join([f"<{name}>\n{text}\n</{name}>\n" for text in fenced.texts])
    ids_and_texts = zip(fenced.ids, fenced.texts, strict=True)
    tagged_texts = [
        f'<{name} id="{text_id}">\n{text}\n</{name}>\n'
        for text_id, text in ids_and_texts
    ]
    return "".join(tagged_texts)


@lru_cache(maxsize=64)
def _tag_name(label: str) -> str:
    """Return a label as the name of a tag, e.g. ``reference-answer``."""
    return _NO_WORD.sub("-", label.lower()).strip("-") or "text"


@lru_cache(maxsize=64)
def _split_messages(template: str) -> tuple[str, str]:
    """Return what is above the line ``---``, and what is below.

    Without the line all of the template is below.
    """
    match = _BREAK.search(template)
    if match is None:
        return "", template
    return template[: match.start()], template[match.end() :]


@lru_cache(maxsize=64)
def _names_of_placeholders(template: str) -> tuple[str, ...]:
    """Return the placeholders of a template, each once, in order."""
    names = map(_name_of_placeholder, PLACEHOLDER.finditer(template))
    return tuple(dict.fromkeys(names))


def _name_of_placeholder(placeholder: re.Match[str]) -> str:
    """The name in a placeholder, which stands alone on its line or inside one."""
    return placeholder["alone"] or placeholder["inside"]


@lru_cache(maxsize=64)
def _fixed_system_message(part: str, instructions: Instructions) -> Message | None:
    """Return the system message if it shows no text of a sample, else None.

    It is cached, as it is the same for thousands of questions.
    """
    words = _examples_and_language(instructions)
    if words.keys() >= set(_names_of_placeholders(part)):
        return Message("system", _fill_template(part, words))
    return None


def _fill_template(template: str, texts: Mapping[str, str]) -> str:
    """Return a template with texts in place of its placeholders."""

    def text_of(placeholder: re.Match[str]) -> str:
        text = texts[_name_of_placeholder(placeholder)]
        if not text:
            return ""
        return text.removesuffix("\n") + (placeholder["end"] or "")

    return PLACEHOLDER.sub(text_of, template).strip()


@lru_cache(maxsize=64)
def _examples_and_language(instructions: Instructions) -> dict[str, str]:
    """Return the text for {examples} and for {language}, the same for all samples."""
    language = ""
    if instructions.language:
        language = (
            f"The language of your own words is {sendable_text(instructions.language)}."
            " Field names, labels, and what you take from the texts stay as they are."
        )
    examples = sendable_text(instructions.examples).strip()
    return {"examples": examples, "language": language}


def _fenced_texts_of_shown_parts(
    question: Question[Any],
) -> dict[str, list[_FencedTexts]]:
    """Return, by name, the texts in tags of each part that the template shows."""
    fenced_by_part: dict[str, list[_FencedTexts]] = {}
    for name in _names_of_placeholders(question.instructions.template):
        if name in question.parts:
            fenced_by_part[name] = _fenced_texts_of_part(question.parts[name])
    return fenced_by_part


def _fenced_texts_of_part(part: Part) -> list[_FencedTexts]:
    """Say which texts of a part stand in a tag each, and which ids the tags have.

    Example: the contexts "Blue." and "Red." stand in two tags, with the ids 1 and 2. A
    user's question stands between the turns before it and its rewrite.
    """
    if isinstance(part.text, str):
        return _question_and_what_it_follows(part, part.text)
    if part.marks == "lines" and part.texts:
        return [_FencedTexts(part.label, [_as_labelled_lines(part)])]
    texts = [sendable_text(text) for text in part.texts]
    return [_FencedTexts(part.label, texts, ids=part.labels)]


def _as_labelled_lines(part: Part) -> str:
    """Join the texts of a part: "F1: Blue.", line break, "F2: Red." of two facts."""
    labelled_texts = zip(part.labels, part.texts, strict=True)
    lines = [f"{label}: {_SPACE.sub(' ', text)}" for label, text in labelled_texts]
    return sendable_text("\n".join(lines))


def _question_and_what_it_follows(part: Part, text: str) -> list[_FencedTexts]:
    """Return the turns before a user's question, the question, and its rewrite.

    The rewrite is the search query that the application made of the question. A part
    that is no question has neither turns nor a rewrite.
    """
    turns = [sendable_text(turn.content) for turn in part.history]
    roles = [_tag_name(turn.role) for turn in part.history]
    groups = [
        _FencedTexts("Earlier turn", turns, ids=roles),
        _FencedTexts(part.label, [sendable_text(text)]),
    ]
    if part.rewrite and part.rewrite != part.text:
        rewrite = sendable_text(part.rewrite)
        groups.append(_FencedTexts("Stand-alone rewrite", [rewrite]))
    return groups
