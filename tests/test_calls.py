"""The index of a run's calls: what a reply is, and which documents were there at a moment."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragmetrics_core.capture.calls import Calls, Reply
from ragmetrics_core.capture.tree import Document, Message, Node, ToolCall, Tree

JUDGING = (
    *("binary_score", "score", "grade", "verdict", "relevant", "is_relevant"),
    *("grounded", "is_grounded", "supported", "useful", "is_useful"),
    *("issup", "isuse", "isrel"),
)


def reply(said: Any) -> Reply:
    return Reply(
        Message("assistant", said if isinstance(said, str) else json.dumps(said))
    )


@pytest.mark.parametrize("key", JUDGING)
def test_a_structure_with_a_field_for_a_verdict_and_none_for_an_answer_is_one(
    key: str,
) -> None:
    assert reply({key: "no", "explanation": "It says so."}).is_verdict
    assert not reply({key: "no", "answer": "It is Porto."}).is_verdict
    called = Message("assistant", "", (ToolCall("grade", {key: "no"}, "1"),))
    assert Reply(called).is_verdict


@pytest.mark.parametrize(
    ("said", "is_verdict"),
    [
        ("Yes.", True),
        (" no ", True),
        ("Not relevant!", True),
        ("Yes, it lies on the Douro.", False),
        ({"city": "Porto"}, False),
        ({}, False),
        ([{"score": 1}], False),
    ],
)
def test_what_is_a_verdict(said: Any, is_verdict: bool) -> None:
    assert reply(said).is_verdict == is_verdict


def test_lists_of_documents_are_there_from_a_moment_on_the_latest_first() -> None:
    first, second, third = (Document(name, name) for name in "abc")
    root = Node(
        "step",
        "chain",
        1,
        20,
        [
            Node("retriever", "one", 2, 9, documents=(first,)),  # the last to end
            Node("retriever", "two", 3, 4, documents=(second,)),
            Node("step", "three", 5, 6, input_documents=(third,)),
        ],
    )
    calls = Calls(Tree(root))
    assert calls.lists() == [(first,), (third,), (second,)]
    assert calls.lists(before=9) == [(first,), (third,), (second,)]
    assert calls.lists(before=8.9) == [(third,), (second,)]
    assert calls.lists(before=4) == [(second,)]
    assert calls.lists(before=3.9) == []
