"""Which document stands behind a context: the same, of the same id, of the same text, or one that was cut or merged."""

from __future__ import annotations

import pytest

from ragmetrics_core.capture.origins import (
    context_keys_of,
    derives_from,
    keys_of_unmatched_contexts,
)
from ragmetrics_core.capture.tree import Document
from ragmetrics_core.data import Context

PORTO = "Porto lies on the Douro, in the north of Portugal, near the sea."
FARO = "Faro is the southernmost city of the country and has an airport."
EVORA = "Evora keeps a Roman temple inside its walls, and a bone chapel!!"


def contexts_of(*documents: Document) -> dict[tuple[str, ...], Context]:
    return {document.key: document.context() for document in documents}


def test_a_document_stands_behind_the_context_of_the_same_key_id_or_text() -> None:
    first, second, third = (
        Document(PORTO, "p"),
        Document(FARO, "f"),
        Document(f"{EVORA} {PORTO[:30]}"),
    )
    contexts = contexts_of(first, second, third)
    asked = {
        "itself": (first, first),
        "its id, of another text": (Document("Faro, shortened.", "f"), second),
        "its text, without an id": (Document(FARO), second),
        "its text, of another id": (Document(PORTO, "other"), first),
        "held by a longer one": (Document(EVORA), third),
        "too short to be sure": (Document("Evora"), None),
        "nowhere": (Document("The tram crosses the upper deck of the bridge."), None),
    }
    shown = context_keys_of([document for document, _ in asked.values()], contexts)
    expected = [source and source.key for _, source in asked.values()]
    assert dict(zip(asked, shown, strict=True)) == dict(
        zip(asked, expected, strict=True)
    )


def test_an_id_goes_before_a_text() -> None:
    by_id, by_text = Document(PORTO, "p"), Document(FARO, "f")
    asked = Document(FARO, "p")
    assert context_keys_of([asked], contexts_of(by_id, by_text)) == [by_id.key]


# 50 letters each, so that each is exactly half of two of them
FIFTY = [
    "Porto lies on the Douro, in the north of Portugal, near the seas",
    "Faro is the southernmost city of the lands and has an airport",
    "Evora keeps a Roman temple inside its walls, and a bone chapel",
]
TWO = f"{FIFTY[0]}. {FIFTY[1]}."
LESS = (
    "A tram goes over the upper deck of the bridge, and a car over the lower one of it."
)


@pytest.mark.parametrize(
    ("arrived", "shown", "stands"),
    [
        (TWO, FIFTY[0], True),  # it was cut
        (FIFTY[0], f"{FIFTY[0]}. {FIFTY[2]}.", True),  # it was merged with another
        (TWO, f"{FIFTY[0]}. {FIFTY[2]}.", True),  # half of the one is half of the other
        (f"{TWO} a", f"{FIFTY[0]}. {FIFTY[2]}s.", False),  # a letter less than half
        # half of the context, but less of the document
        (f"{TWO} {LESS}", f"{FIFTY[0]}. {FIFTY[2]}.", True),
        # half of the document, but less of the context
        (TWO, f"{FIFTY[0]}. {FIFTY[2]}. {LESS}", True),
    ],
)
def test_a_document_that_was_cut_or_merged_stands_behind_what_is_half_of_it(
    arrived: str, shown: str, stands: bool
) -> None:
    document, context = Document(arrived), Document(shown)
    contexts = contexts_of(context)
    assert context_keys_of([document], contexts) == [context.key if stands else None]
    assert derives_from(shown, [document]) == stands
    assert keys_of_unmatched_contexts([document], contexts) == (
        [] if stands else [context.key]
    )
