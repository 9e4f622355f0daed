"""Sources that structured replies name: by number, id, quote, file and page."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.capture.structured_sources import sources_in
from ragmetrics_core.capture.tree import CitedSource

QUOTE = "opened at last in 1874 by the mayor"
STATED = [{"text": "It fell.", "citations": [1]}, {"text": "So.", "citations": []}]

REPLIES: dict[str, tuple[Any, list[CitedSource] | None]] = {
    "numbers": ({"answer": "a", "citations": [1, 2]}, [CitedSource(1), CitedSource(2)]),
    "ids": ({"answer": "a", "source_ids": ["x-1"]}, [CitedSource("x-1", "x-1")]),
    "used chunks": ({"answer": "a", "used_chunks": [0]}, [CitedSource(0)]),
    "one": ({"answer": "a", "citation": 3}, [CitedSource(3)]),
    "quotes": ({"answer": "a", "quotes": [QUOTE]}, [CitedSource(quote=QUOTE)]),
    "numbers and quotes": (
        {"answer": "a", "citations": [{"source_id": 0, "quote": QUOTE}]},
        [CitedSource(0, QUOTE)],
    ),
    "files and pages": (
        {"answer": "a", "citations": [{"pdf_path": "b.pdf", "page_number": 4}]},
        [CitedSource("b.pdf", page="4")],
    ),
    "clauses": (
        {"decision": "yes", "justification": [{"clause_id": 2, "text": QUOTE}]},
        [CitedSource(2, QUOTE)],
    ),
    "statements": (
        {"statements": STATED},
        [CitedSource(1, statement="It fell.")],
    ),
    "facts with quotes": (
        {"answer": [{"fact": "It fell.", "substring_quote": [QUOTE]}]},
        [CitedSource(quote=QUOTE, statement="It fell.")],
    ),
    "quotes of a document": (
        {"answer": "a", "found": [{"document": "The Travels", "quotes": [QUOTE]}]},
        None,
    ),
    "an empty list": ({"answer": "a", "citations": []}, []),
    "none, in a word": ({"answer": "a", "citations": ["None"]}, []),
    "elements": (
        f"<citations><citation><source_id>1</source_id><quote>{QUOTE}</quote>"
        "</citation></citations>",
        [CitedSource("1", QUOTE)],
    ),
    "no sources": ({"answer": "a", "confidence": 0.9}, None),
    "an explanation": ({"answer": "a", "justification": "Because it fell."}, None),
    "explanations": ({"answer": "a", "evidence": ["It fell as all things do."]}, None),
    "an unknown form": ({"answer": "a", "citations": [{"span": 3}]}, None),
    "a truth": ({"answer": "a", "citations": [True]}, None),
    "a text": ("It fell.", None),
}


@pytest.mark.parametrize("name", REPLIES)
def test_sources_of_a_reply(name: str) -> None:
    reply, expected = REPLIES[name]
    sources = sources_in(reply)
    assert (None if sources is None else list(sources)) == expected


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = st.sampled_from(["citations", "sources", "id", "quote", "text", "page", "a", ""])
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_reply_raises(reply: Any) -> None:
    for source in sources_in(reply) or ():
        assert source.id is not None or source.quote
