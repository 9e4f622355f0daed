"""Texts that a model passes to tools, the ways in which tools give them back, and what must hold of a sample then."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from ragmetrics_core.data import Sample

WORDS = (
    *("keeper", "lamp", "harbour", "ferry", "bridge", "mill", "tower", "storm"),
    *("built", "lit", "sold", "lost", "painted", "counted", "1874", "12.5", "Ida"),
    *("café", "мост", "it's", "&", "old", "stone", "river", "north", "winter"),
)

# What a tool returns of a text that was passed in, alone
REPEATED: dict[str, Callable[[str], str]] = {
    "echo": str,
    "label": lambda text: f"Saved to memory: {text}",
    "quoted": lambda text: f'Noted "{text}"',
    "repr": lambda text: f"Updated the list to {[text]}",
    "JSON": lambda text: json.dumps({"note": text}),
    "cut": lambda text: f"Saved: {text[:40]}...",
    "spaces and case": lambda text: "  ".join(text.upper().split()),
}
# the same beside words of its own
FRAMED: dict[str, Callable[[str], str]] = {
    "words behind": lambda text: f"{text} was stored as number 7 of 9 notes.",
    "words around": lambda text: f"I have stored {text} for you in the notes.",
    "record": lambda text: json.dumps({"note": text, "id": 7, "at": "2026-11-28"}),
    "in a list": lambda text: f"The list is {[{'text': text, 'done': False}]}",
    "numbered": lambda text: f"     1\t{text}",
    "dated": lambda text: f"[2026-11-28 10:04] {text}",
}
# beside a page that was found: the page is evidence
FOUND: dict[str, Callable[[str, str], str]] = {
    "echoed before a result": lambda text, page: f'Results for "{text}":\n{page}',
    "noted beside a page": lambda text, page: f"{page}\nYour note: {text}",
}
# as documents: the tool returns both, or stores the text, and a search finds both
DOCUMENTS = ("documents", "store")
# what a user asks, what a model passes to a tool that finds a page, and this page, which
# no model wrote
_GUIDE = "https://docs.example.org/python/graph"
FOUND_PAGES = {
    "links to a neighbour": (
        "How do I build a graph?",
        f"{_GUIDE}/quickstart",
        f"Build it by create_graph, read [Memory]({_GUIDE}/memory) then, and pass a store.",
    ),
    "links at its end": (
        "Which pages are there?",
        f"{_GUIDE}/llms.txt",
        f"[Quickstart]({_GUIDE}/quickstart): a first graph, [Memory]({_GUIDE}/memory): a store.",
    ),
    "says its address": (
        "When was the lamp lit?",
        "https://archive.example.org/keepers/lamp",
        "Opened. Page (https://archive.example.org/keepers/lamp): Ida Berg lit it.",
    ),
    "begins with the question": (
        "Economic effects of the northern ferry lines",
        "Economic effects of the northern ferry lines",
        "Economic effects of the northern ferry lines: trade between the islands doubled.",
    ),
}
WAYS = (*REPEATED, *FRAMED, *FOUND, *DOCUMENTS)


@dataclass(frozen=True)
class Passed:
    """What a model passes to a tool, in which way it comes back, and a page that may be found beside it."""

    way: str
    text: str
    page: str

    @property
    def told(self) -> str:
        """The text that the tool returns."""
        if self.way in FOUND:
            return FOUND[self.way](self.text, self.page)
        if self.way == "page":
            return self.page
        if self.way == "documents":
            return f"{self.text}\n\n{self.page}"
        if self.way == "store":
            return "Done."
        return {**REPEATED, **FRAMED}[self.way](self.text)


def sentence(rng: random.Random, ending: str = "of house") -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randint(7, 14))]
    return " ".join([*words, f"{ending} {rng.randint(10**6, 10**7)}."])


def _made(seed: int, ways: Sequence[str]) -> list[Passed]:
    rng = random.Random(seed)
    # a page of the same ending may share a long run of words with a text by chance
    return [Passed(way, sentence(rng), sentence(rng, "in street")) for way in ways]


PASSED = st.builds(
    _made,
    st.integers(0, 2**32),
    st.lists(st.sampled_from(WAYS), min_size=1, max_size=4),
)
# the setting ``context_tools``
NAMED = st.sampled_from([None, frozenset[str](), frozenset({"note"})])


def letters(text: str) -> str:
    return "".join(sign for sign in text.lower() if sign.isalnum())


def check_evidence(sample: Sample, passed: Sequence[Passed]) -> None:
    """Check that nothing that was passed in is evidence, and that each page that was found is."""
    texts = [context.text for context in sample.known_contexts]
    texts += [context.text for context in sample.retrieved or ()]
    for call in sample.ledger.calls if sample.ledger else ():
        texts += [item.text for item in call.items if call.kind != "written"]
    carried = list(map(letters, texts))
    for each in passed:
        part = letters(each.text[:40] if each.way == "cut" else each.text)
        assert not any(part in text for text in carried), each
        if each.way in FOUND or each.way in DOCUMENTS:
            assert any(letters(each.page) in text for text in carried), each


def check_page(sample: Sample, page: str) -> None:
    """Check that a page which a named tool found is surely the one context, as it is."""
    assert [context.text for context in sample.known_contexts] == [page]
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    assert sample.ledger is not None
    assert [item.text for call in sample.ledger.calls for item in call.items] == [page]
