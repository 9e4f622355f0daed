"""Tells that spans hold texts in part: cut by an SDK, or previews of documents. Pure.

Nothing is mended. A sample of such spans is *incomplete*, and what became of its
passages is unknown.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.tree import Document, Node
from ragmetrics_core.data import PassageNote, Sample
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.unread import with_unread_texts
from ragmetrics_core.traces.notes import (
    DOCUMENTS_ARE_IN_PART,
    DOCUMENTS_IN_PART,
    VALUES_CUT,
    VALUES_WERE_CUT,
)
from ragmetrics_core.traces.spans import Span

_SHORTEST_LIMIT = 64  # of a length at which an SDK cuts texts
# JSON and no text that begins with a bracket, such as "[1] The bridge"
_SURE_JSON_BEGINS = lazy_pattern(r'\s*(?:\{\s*"|\[\s*[\[{"])')
_LONGEST_TOKEN = 6  # "\\u00e9": behind its first letter JSON may break off within it

_FEWEST_LETTERS = 24  # a shorter text stands in a prompt by chance
_N_LAST_WORDS = 12  # a document is searched for by these
_N_NEXT_WORDS = 3  # they tell whether the words behind a document are another text's
_DOTS = lazy_pattern(r"\s*[\[(]?(?:\.{2,}|…)[\])]?\s*$")
_DOTS_FOLLOW = lazy_pattern(r"\s*[\[(]?(?:\.{2,}|…)")
_WORD = lazy_pattern(r"\w+")
_GOES_ON = lazy_pattern(r"[,;]?[ \t]*\w")


def cut_spans_of(spans: Sequence[Span]) -> set[str]:
    """Find the spans of a trace whose values were cut at a limit of their length.

    JSON that breaks off at its end was cut, so its length is the limit. Example: a text
    of 4096 characters ends with ``{"text": "Ro``: each span with a text of this length
    was cut.

    Args:
        spans: The spans of one trace.

    Returns:
        The ids of the spans; empty if nothing was cut.
    """
    limits = {
        len(text)
        for text in chain.from_iterable(map(_texts_of, spans))
        if len(text) >= _SHORTEST_LIMIT and _is_json_that_breaks_off(text)
    }
    if not limits:
        return set()
    return {
        span.id
        for span in spans
        if any(len(text) in limits for text in _texts_of(span))
    }


def _texts_of(span: Span) -> Iterator[str]:
    """Yield the texts that a span recorded, also those in lists."""
    for value in span.attributes.values():
        yield from _texts_in(value)


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the text that a value is, or the texts of a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            if isinstance(element, str):
                yield element


def _is_json_that_breaks_off(text: str) -> bool:
    """Whether a text is JSON up to its end, and lacks what should stand behind that."""
    if not _SURE_JSON_BEGINS.match(text):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        is_open_text = error.msg.startswith("Unterminated string")
        return is_open_text or error.pos >= len(text) - _LONGEST_TOKEN
    except (ValueError, RecursionError):
        return False  # a number that is too long, or too many brackets
    return False


def count_documents_in_part(root: Node) -> int:
    """Count the documents of a run that were recorded in part: its prompts show more.

    Such a document ends in dots or within a sentence, and in a prompt further words
    follow it in the same line that belong to no other document. Example: a span holds
    "Rome has been the capital of It", and a prompt shows "Rome has been the capital of
    Italy": 1.
    """
    documents = _documents_of(root)
    shown_texts = _texts_shown(root)
    in_part = []
    for document in documents:
        rest = _rest_of_line(document.text, shown_texts)
        if rest and not _is_known(rest, document, documents, root):
            in_part.append(document)
    return len(in_part)


def _documents_of(root: Node) -> list[Document]:
    """Collect the documents that the calls of a run took or gave, each text once."""
    document_by_text: dict[str, Document] = {}
    for node in root.walk():
        for document in (*(node.documents or ()), *node.input_documents):
            document_by_text.setdefault(document.text, document)
    return list(document_by_text.values())


def _texts_shown(root: Node) -> list[str]:
    """Collect the messages that models were shown and did not write, each once."""
    prompts = [node.prompt for node in root.walk() if node.kind == "model"]
    texts = {
        message.text: None
        for message in chain.from_iterable(prompts)
        if message.role != "assistant"
    }
    return list(texts)


def _rest_of_line(text: str, shown_texts: Sequence[str]) -> str:
    """Return the words that follow a document in its line of a prompt.

    Returns "" if the document ends with a sentence, stands in no prompt, or if some
    prompt shows it as it was recorded: then it was recorded whole.
    """
    beginning = _DOTS.sub("", text).rstrip()
    ends_in_dots = beginning != text.rstrip()
    ends_within_sentence = beginning[-1:].isalnum() or beginning.endswith(",")
    if len(beginning) < _FEWEST_LETTERS or not (ends_in_dots or ends_within_sentence):
        return ""
    last_words = beginning.split()[-_N_LAST_WORDS:]
    pattern = re.compile(r"\s+".join(map(re.escape, last_words)))
    rests = []
    for shown_text in shown_texts:
        for found in pattern.finditer(shown_text):
            rest, _, _ = shown_text[found.end() :].partition("\n")
            if not _WORD.search(rest) or _DOTS_FOLLOW.match(rest):
                return ""
            rests.append(rest)
    return next(filter(_GOES_ON.match, rests), "")


def _is_known(
    rest: str, document: Document, documents: Sequence[Document], root: Node
) -> bool:
    """Whether the words behind a document are those of another text of the run.

    That is another document, the text around the document, or a query.
    """
    next_words = letters_of(" ".join(_WORD.findall(rest)[:_N_NEXT_WORDS]))
    others = [other.text for other in documents if other is not document]
    around = [*document.forms, *map(str, document.metadata.values())]
    queries = [node.query or "" for node in root.walk()]
    return any(next_words in letters_of(text) for text in (*others, *around, *queries))


def with_unknown_fates(sample: Sample) -> Sample:
    """Make unknown what became of the passages of a sample of texts in part.

    A passage that is not found may stand behind the cut, in the prompt or in what a step
    returned. Such a sample is *incomplete*; any other is returned as it is.
    """
    notes = sample.capture
    if notes is None:
        return sample
    reasons = {VALUES_WERE_CUT: VALUES_CUT, DOCUMENTS_ARE_IN_PART: DOCUMENTS_IN_PART}
    for words, reason in reasons.items():
        if any(words in warning for warning in notes.warnings):
            unknown = tuple(PassageNote() for _ in sample.retrieved or ())
            changes = {"grade": "incomplete", "passages": unknown}
            notes = notes.model_copy(update=changes)
            notes = with_unread_texts(notes, reason.format("some"))
    return sample.model_copy(update={"capture": notes})
