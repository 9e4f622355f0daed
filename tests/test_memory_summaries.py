"""A memory sums up what a search found: nobody knows what its summary keeps of a passage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of
from ragmetrics_core.capture.sibling_calls import SUMMED_UP

QUESTION = "When does the ferry leave, and what does a cabin cost?"
FERRY = "The night ferry to Halmstad leaves the east quay at 22:40, except on Sundays."
FARES = "A seat on the night ferry costs 38 euros, and a cabin for two costs 96 euros."
DOGS = "Dogs travel free of charge in the kennels on deck five of every night ferry."
IN_OTHER_WORDS = "Ferry to Halmstad: 22:40 from the east quay, never on a Sunday."
TWO_LINES = "Ferry to Halmstad:\n22:40 from the east quay, never on a Sunday."
NOTE = "The ferry leaves the east quay at 22:40 at night on all days but one."


def finds(at: float, *texts: str) -> Node:
    documents = tuple(map(Document, texts))
    return Node("retriever", "search", at, at + 0.4, query="ferry", documents=documents)


def sums_up(
    at: float,
    *prompt: str,
    reply: str | None = IN_OTHER_WORDS,
    kind: Literal["ignored", "model"] = "ignored",
) -> Node:
    """A memory's call of a model; it answers nothing, so adapters mark it as ignored."""
    return Node(
        kind,
        "memory",
        at,
        at + 0.4,
        prompt=tuple(Message("user", text) for text in prompt),
        reply=None if reply is None else Message("assistant", reply),
    )


def answers(
    at: float, *shown: Message, reply: str = "At 22:40, and a cabin costs 96 euros."
) -> Node:
    return Node(
        "model",
        "llm",
        at,
        at + 0.4,
        prompt=(*shown, Message("user", QUESTION)),
        reply=Message("assistant", reply),
    )


def summary(text: str) -> Message:
    return Message("summary", text)


SEARCH = finds(1.0, FERRY)
LATER_SEARCH = finds(3.0, FARES)
FARES_SHOWN = Message("tool", FARES)
SUMMED_UP_AND_SHOWN = [(None, SUMMED_UP), (1.0, "")]
HIDDEN_AND_SHOWN = [(0.0, ""), (1.0, "")]
ANSWERING = answers(4.0, summary(f"Summary: {IN_OTHER_WORDS}"), FARES_SHOWN)


def fates(*calls: Node) -> list[tuple[float | None, str]]:
    """The share of each passage that was shown, and why it is unknown."""
    root = Node("step", "chain", 0.0, 99.0, children=list(calls))
    tree = Tree(root, question=QUESTION, question_place="input")
    (sample,) = samples_of(tree)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    return [(note.share, note.why_unknown or "") for note in notes]


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([sums_up(2.0, FERRY), LATER_SEARCH, ANSWERING], id="a memory"),
        pytest.param(
            [
                Node("step", "middleware", 1.9, 2.9, [sums_up(2.0, FERRY)]),
                LATER_SEARCH,
                ANSWERING,
            ],
            id="inside a step",
        ),
        pytest.param(
            [
                Node("ignored", "middleware", 1.9, 2.9, [sums_up(2.0, FERRY)]),
                LATER_SEARCH,
                ANSWERING,
            ],
            id="inside a call that answers nothing",
        ),
        pytest.param(
            [sums_up(2.0, FERRY, "Sum it up."), LATER_SEARCH, ANSWERING],
            id="the first of two messages",
        ),
        pytest.param(
            [sums_up(2.0, "Sum it up.", FERRY), LATER_SEARCH, ANSWERING],
            id="the last of two messages",
        ),
        pytest.param(
            [sums_up(2.0, FERRY, reply=TWO_LINES), LATER_SEARCH, ANSWERING],
            id="a reply of two lines",
        ),
        pytest.param(
            [
                sums_up(2.0, FERRY),
                LATER_SEARCH,
                answers(4.0, summary(f"Summary: {TWO_LINES}"), FARES_SHOWN),
            ],
            id="a summary of two lines",
        ),
        pytest.param(
            [
                sums_up(2.0, FERRY),
                LATER_SEARCH,
                answers(4.0, summary("Hello."), summary(IN_OTHER_WORDS), FARES_SHOWN),
            ],
            id="the second of two summaries",
        ),
        pytest.param(
            [
                sums_up(2.0, FERRY),
                LATER_SEARCH,
                answers(4.0, summary(IN_OTHER_WORDS), FARES_SHOWN, reply=NOTE),
                answers(5.0, Message("user", NOTE), FARES_SHOWN),
            ],
            id="shown to a call whose reply the answering call was shown",
        ),
        pytest.param(
            [
                sums_up(2.0, FERRY),
                LATER_SEARCH,
                answers(4.0, FARES_SHOWN, reply=NOTE),
                answers(5.0, summary(IN_OTHER_WORDS), Message("user", NOTE)),
            ],
            id="shown to the answering call beside the reply of another call",
        ),
    ],
)
def test_it_is_unknown_how_much_was_shown_of_a_passage_that_a_memory_summed_up(
    calls: Sequence[Node],
) -> None:
    assert fates(SEARCH, *calls) == SUMMED_UP_AND_SHOWN


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([sums_up(2.0, FERRY, reply=None)], id="no reply"),
        pytest.param([sums_up(2.0, FERRY, reply="")], id="an empty reply"),
        pytest.param([sums_up(2.0, FERRY, reply=" \n")], id="a blank reply"),
        pytest.param([sums_up(2.0, FERRY, reply="Hello.")], id="another reply"),
        pytest.param([sums_up(2.0, "Sum it up.", reply=IN_OTHER_WORDS)], id="unseen"),
        # a grade says whether the passage is good, and is no summary of it
        pytest.param(
            [
                sums_up(
                    2.0, f"Is it about ferries? {FERRY}", reply="Ferry", kind="model"
                )
            ],
            id="a grade",
        ),
    ],
)
def test_a_passage_of_which_no_summary_was_shown_was_hidden(
    calls: Sequence[Node],
) -> None:
    assert fates(SEARCH, *calls, LATER_SEARCH, ANSWERING) == HIDDEN_AND_SHOWN


def test_a_word_of_a_memory_that_the_question_has_by_chance_is_no_summary() -> None:
    memory = sums_up(2.0, FERRY, reply="cabin")
    answering = answers(4.0, summary("They said hello."), FARES_SHOWN)
    assert fates(SEARCH, memory, LATER_SEARCH, answering) == HIDDEN_AND_SHOWN


def test_a_passage_that_was_found_after_the_summary_is_not_in_it() -> None:
    memory = sums_up(2.0, FERRY)
    assert fates(memory, finds(3.0, FERRY, FARES), ANSWERING) == HIDDEN_AND_SHOWN


def test_a_passage_beside_one_that_was_summed_up_was_hidden() -> None:
    calls = [finds(1.0, FERRY, DOGS), sums_up(2.0, FERRY), LATER_SEARCH, ANSWERING]
    assert fates(*calls) == [(None, SUMMED_UP), (0.0, ""), (1.0, "")]


def test_each_of_two_memories_sums_up_what_it_was_given() -> None:
    dogs_summed_up = sums_up(2.5, DOGS, reply="Dogs are free.")
    shown = [summary(IN_OTHER_WORDS), summary("Dogs are free."), FARES_SHOWN]
    calls = [
        finds(1.0, FERRY, DOGS),
        sums_up(2.0, FERRY),
        dogs_summed_up,
        LATER_SEARCH,
        answers(4.0, *shown),
    ]
    unknown = (None, SUMMED_UP)
    assert fates(*calls) == [unknown, unknown, (1.0, "")]
