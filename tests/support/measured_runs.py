"""Runs whose model reads exactly some of the passages that a search finds: what was planted is known."""

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import pytest

from ragmetrics_core.capture import Captured
from ragmetrics_core.data import MeasuredUse, PassageNote

QUESTION = "What is known?"

FACTS = {
    "amber": "The amber lantern was lit by Anna in the winter of 1874.",
    "birch": "Under the birch tree lies the older key of the harbour gate.",
    "cedar": "Boats of cedar leave the northern quay every second hour.",
    "daisy": 'The sign says "daisy", though nobody planted any here.',
    "ember": "Each ember of the forge was carried over in copper bowls.",
}
WORDS = list(FACTS)
PASSAGES = list(FACTS.values())
# answers share no word, so that words alone tell two of them apart
SUBSETS = [
    frozenset(subset)
    for size in range(6)
    for subset in itertools.combinations(WORDS, size)
]
ANSWERS = {subset: f"reply{number}" for number, subset in enumerate(SUBSETS)}

RENDERINGS: dict[str, Callable[[list[str]], list[tuple[str, str]]]] = {
    "listed": lambda texts: [
        ("user", "Context:\n" + "\n\n".join(texts) + "\n\nWhat is known?")
    ],
    "numbered": lambda texts: [
        (
            "user",
            "\n".join(f"[{n}] {text}" for n, text in enumerate(texts, 1))
            + "\nWhat is known?",
        )
    ],
    "json": lambda texts: [
        (
            "user",
            json.dumps([{"id": n, "text": text} for n, text in enumerate(texts)])
            + "\nWhat is known?",
        )
    ],
    "tags": lambda texts: [
        (
            "user",
            "".join(f"<doc>\n{text}\n</doc>\n" for text in texts) + "What is known?",
        )
    ],
    "system": lambda texts: [
        ("system", "Answer by:\n- " + "\n- ".join(texts) + "\n"),
        ("user", "What is known?"),
    ],
}


def one_search(
    places: Iterable[int | None], name: str = "search"
) -> tuple[PassageNote, ...]:
    """Notes of a search, by rank: the place of the context that shows each passage."""
    return tuple(
        PassageNote(retriever=name, rank=rank, context=place)
        for rank, place in enumerate(places, 1)
    )


def reply_to(prompt: str, read: Collection[str]) -> str:
    """What a model replies that reads the passages of some words, and no other."""
    return ANSWERS[frozenset(word for word in read if word in prompt)]


def verdicts_of(use: MeasuredUse) -> tuple[str, ...]:
    """The words of the passages that are used; all others must be unused."""
    assert use.why_not is None
    assert {each.verdict for each in use.passages} <= {"used", "not used"}
    pairs = zip(WORDS, use.passages, strict=False)
    return tuple(word for word, each in pairs if each.verdict == "used")


def _planted() -> Iterator[Any]:
    """All sets of words that a model may read, of one to five passages; a few by day."""
    for rendering in RENDERINGS:
        for k in range(1, 6):
            for size in range(k + 1):
                for read in itertools.combinations(WORDS[:k], size):
                    is_whole = rendering == "numbered" and k == 2
                    is_of_day = is_whole or (k == 5 and read == ("birch", "ember"))
                    marks = () if is_of_day else pytest.mark.nightly
                    yield pytest.param(rendering, k, read, marks=marks)


PLANTED = pytest.mark.parametrize(("rendering", "k", "read"), list(_planted()))


def check(
    captured: Captured[Any], outside: Captured[Any], model: object, read: object
) -> None:
    """Check what was measured in a block, and that it is nothing that anybody records."""
    samples = captured.samples
    measured = captured.measure_use(model=model)
    (sample,) = measured
    assert sample.use is not None
    assert verdicts_of(sample.use) == read
    assert sample.use.usage.calls >= len(sample.use.passages) + 2
    assert captured.samples == samples
    assert outside.samples == ()
