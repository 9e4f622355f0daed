"""What a model of a run wrote is never evidence, whoever carries it; what was found beside it stays."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs_by_hand import QUESTION, Call, call, found, reads, says, tool

from ragmetrics_core.capture import Document, Message, ToolCall, samples_of
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.data import Sample

law = settings(max_examples=200, deadline=None)
WORDS = (
    *("keeper", "lamp", "harbour", "ferry", "bridge", "mill", "tower", "storm"),
    *("built", "lit", "sold", "lost", "painted", "counted", "1874", "12.5", "Ida"),
    *("café", "мост", "it's", "&", "old", "stone", "river", "north", "winter"),
)


def sentence(rng: random.Random) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randint(7, 14))]
    return " ".join([*words, f"of house {rng.randint(10**6, 10**7)}."])


def carried(sample: Sample) -> list[str]:
    """All texts of a sample that may count as evidence."""
    texts = [context.text for context in sample.known_contexts]
    texts += [context.text for context in sample.retrieved or ()]
    for each in sample.ledger.calls if sample.ledger else ():
        texts += [item.text for item in each.items if each.kind != "written"]
    return texts


def letters(text: str) -> str:
    return "".join(sign for sign in text.lower() if sign.isalnum())


# How a tool gives back what a model passed in, alone
REPEATED: dict[str, Callable[[str], str]] = {
    "echo": str,
    "label": lambda text: f"Saved to memory: {text}",
    "quoted": lambda text: f'Noted "{text}"',
    "repr": lambda text: f"Updated the list to {[text]}",
    "JSON": lambda text: json.dumps({"note": text}),
    "cut": lambda text: f"Saved: {text[:40]}...",
    "spaces and case": lambda text: "  ".join(text.upper().split()),
}
# the same beside other words
FRAMED: dict[str, Callable[[str], str]] = {
    "words behind": lambda text: f"{text} was stored as number 7 of 9 notes.",
    "words around": lambda text: f"I have stored {text} for you in the notes.",
    "record": lambda text: json.dumps({"note": text, "id": 7, "at": "2026-11-28"}),
    "in a list": lambda text: f"The list is {[{'text': text, 'done': False}]}",
    "numbered": lambda text: f"     1\t{text}",
    "dated": lambda text: f"[2026-11-28 10:04] {text}",
}


def remembered(way: str, text: str, page: str, number: int) -> tuple[list[Call], str]:
    """Calls by which a text goes into a tool, and what a prompt shows of that."""
    wish = Message("assistant", "", (ToolCall("note", {"text": text}, f"n{number}"),))
    noted: dict[str, Any] = {
        "name": "note",
        "query": text,
        "tool_call_id": f"n{number}",
    }
    note = Document(text, f"note-{number}")
    book = Document(page, f"page-{number}")
    asks = reads(QUESTION, wish)
    if way in REPEATED or way in FRAMED:
        shown = {**REPEATED, **FRAMED}[way](text)
        return [asks, tool(shown, **noted)], shown
    if way == "echoed before a result":
        shown = f'Results for "{text}":\n{page}'
        return [asks, tool(shown, **noted)], shown
    if way == "read back":
        shown = f"{text}\n{page}"
        stored = tool("Done.", **noted)
        return [asks, stored, tool(shown, name="read", query="{}")], shown
    shown = f"{text}\n\n{page}"
    if way == "documents of the tool":
        return [asks, tool(shown, documents=(note, book), **noted)], shown
    if way == "found in a store":
        stored = tool("Done.", **noted)
        return [asks, stored, found(note, book, query="house")], shown
    assert way == "documents of a reply"
    wrote = reads("Write a page.", text)
    return [wrote, found(book), call("step", documents=(note,))], shown


WAYS = (
    *REPEATED,
    *FRAMED,
    "echoed before a result",
    "read back",
    "documents of the tool",
    "found in a store",
    "documents of a reply",
)
BRINGS_PAGE = WAYS[-5:]


@law
@given(
    seed=st.integers(0, 2**32),
    ways=st.lists(st.sampled_from(WAYS), min_size=1, max_size=4),
    named=st.sampled_from([None, frozenset[str](), frozenset({"note", "read"})]),
)
def test_law_what_a_model_passed_in_never_comes_back_as_evidence(
    seed: int, ways: list[str], named: frozenset[str] | None
) -> None:
    rng = random.Random(seed)
    inventions = [sentence(rng) for _ in ways]
    pages = [sentence(rng) for _ in ways]
    calls: list[Call] = []
    shown: list[Message] = [Message("user", QUESTION)]
    for number, way in enumerate(ways):
        made, text = remembered(way, inventions[number], pages[number], number)
        calls += made
        shown.append(Message("tool", text))
    run = says(*calls, reads(shown), is_always_a_sample=True)
    (sample,) = samples_of(run, Overrides(context_tools=named))
    texts = list(map(letters, carried(sample)))
    for invention, way in zip(inventions, ways, strict=True):
        part = letters(invention[:40] if way == "cut" else invention)
        assert not any(part in text for text in texts), way
    for page, way in zip(pages, ways, strict=True):
        if way in BRINGS_PAGE:
            assert any(letters(page) in text for text in texts), way


@pytest.mark.parametrize("way", REPEATED)
def test_a_tool_that_returns_only_what_was_passed_in_brings_nothing(way: str) -> None:
    text = sentence(random.Random(1))
    calls, shown = remembered(way, text, "", 0)
    run = says(*calls, reads([Message("tool", shown)]), is_always_a_sample=True)
    (sample,) = samples_of(run)
    assert sample.capture is not None
    assert sample.contexts is None
    assert set(sample.capture.doubts) == {"no_search"}
