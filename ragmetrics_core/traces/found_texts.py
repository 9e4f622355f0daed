"""Texts that a retriever's span records in a form of the application's own. Pure.

Frameworks record documents of their own classes. A retriever that was traced by hand
may return texts, or objects with a text in them: they are divided as a tool's result is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragmetrics_core.capture.divided import divided
from ragmetrics_core.capture.tree import Document

FORM_NOT_READ = (
    "a retriever's span holds what was found in a form that is not read; let it record a"
    " list of texts, or of objects with a field text, content or page_content"
)
# a list or an object as Python shows it
_LOOKS_LIKE_CODE = re.compile(r"\s*[\[{(<]|\w+\(")


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
    return value is not None and str(value).strip() != ""
