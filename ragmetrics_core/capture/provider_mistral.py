"""Which entries of a tool's result a reply of Mistral cites. Pure.

The application's tool returns its results as a JSON object, ``{"0": {"title": "Iron",
"snippets": [["It fell."]]}}``, and Mistral names the entry that a sentence rests on:
``{"type": "reference", "reference_ids": [0]}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragmetrics_core.capture.provider_calls import names_of_source, text_of_item
from ragmetrics_core.capture.provider_payloads import (
    DEEPEST,
    Fields,
    arguments_in,
    inner_object,
    is_list,
)
from ragmetrics_core.capture.tree import CitedSource, Message


def reference_ids_of(citation: Fields) -> list[str]:
    """The ids of the entries that a citation of Mistral names; [] for any other.

    LangChain may nest them: ``{"extras": {"reference_ids": [0, 2]}}`` gives ["0", "2"].
    """
    for fields in (citation, inner_object(citation, "extras")):
        ids = fields.get("reference_ids")
        if is_list(ids):
            return [str(one_id) for one_id in ids if isinstance(one_id, (int, str))]
    return []


def entries_of_tools(prompt: Iterable[Message]) -> dict[str, list[object]]:
    """List the entries of the JSON objects that tools returned, by their ids.

    Two results may have different entries of one id: then it has several.
    """
    entries_by_id: dict[str, list[object]] = {}
    for message in prompt:
        if message.role == "tool":
            for entry_id, entry in arguments_in(message.text).items():
                entries = entries_by_id.setdefault(entry_id, [])
                if entry not in entries:
                    entries.append(entry)
    return entries_by_id


def sources_of_reference(
    reference_id: str, entries: Sequence[object]
) -> Iterator[CitedSource]:
    """Yield a source for each text of the entry that an id names.

    Without such an entry, or with several, the source has a name that no context has:
    nobody knows what is cited.

    Args:
        reference_id: The id.
        entries: The entries of this id.
    """
    names: tuple[str, ...] = ()
    texts: list[str] = []
    if len(entries) == 1:
        (entry,) = entries
        names = names_of_source(entry) if isinstance(entry, Mapping) else ()
        texts = list(_texts_of_entry(entry))
    if not names and not texts:
        names = (f"reference {reference_id}",)
    for text in texts:
        yield CitedSource(names=names, quote=text)
    if not texts:
        yield CitedSource(names=names)


def _texts_of_entry(entry: object) -> Iterator[str]:
    """Yield the snippets of an entry, else its text."""
    if not isinstance(entry, Mapping):
        yield from _texts_inside(entry)
        return
    snippets = list(_texts_inside(entry.get("snippets", entry.get("snippet"))))
    yield from snippets or _texts_inside(text_of_item(entry))


def _texts_inside(value: object, depth: int = DEEPEST) -> Iterator[str]:
    """Yield a text, or the texts in lists inside each other, as ``[["It fell."]]``."""
    if isinstance(value, str) and value.strip():
        yield value
    elif is_list(value) and depth:
        for element in value:
            yield from _texts_inside(element, depth - 1)
