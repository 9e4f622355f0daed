"""A tree that an adapter made wrongly is refused in words, or hedged; never quietly no sample."""

import dataclasses
import inspect
import re
from typing import Any

import pytest

from ragmetrics_core.capture import (
    Answer,
    Document,
    Message,
    Node,
    ToolCall,
    Tree,
    samples_of,
)
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.capture.turns import Turns
from ragmetrics_core.data import SettingError

FOUND = (Document("Paris is the capital of France."),)
SHOWN = (Message("user", "Paris is the capital of France.\n\nCapital?"),)


def tree(search: Any = None, model: Any = None, **fields: Any) -> Tree:
    """A run that searches and asks a model, with other values in some fields."""
    searched = {"kind": "retriever", "query": "Capital?", "documents": FOUND}
    asked = {"kind": "model", "prompt": SHOWN, "reply": Message("assistant", "Paris.")}
    calls = [
        Node(name="search", began=1.0, **{"ended": 2.0, **searched, **(search or {})}),
        Node(name="write", began=3.0, **{"ended": 4.0, **asked, **(model or {})}),
    ]
    return Tree(Node("step", "app", 0.0, 5.0, calls), "Capital?", **fields)


WRONG: list[tuple[Tree, str]] = [
    (tree({"kind": "retrieve"}), "the call 'search' .* kind 'retrieve': give one of"),
    (tree({"documents": ["Paris"]}), "documents that hold a str: give Document"),
    (
        tree({"input_documents": ("Paris",)}),
        "input_documents that hold a str: give Document",
    ),
    (tree(model={"prompt": "Paris?"}), "the call 'write' .* prompt that holds a str"),
    (tree(model={"reply": "Paris."}), "reply that is a str: give Message"),
    (tree(answers=("Paris.",)), "answers that hold a str: give Answer"),
    (tree(answers=Answer("Paris.")), "answers that are one Answer: give a t"),
    (tree({"documents": FOUND[0]}), "documents that are one Document: give a tuple"),
    (tree(model={"prompt": SHOWN[0]}), "a prompt that is one Message: give a tuple"),
    (
        tree({"ended": None}),
        "'search' .* returned something and has no end: give ended",
    ),
    (tree(model={"ended": None}), "'write' .* returned something and has no end"),
    (
        tree(model={"kind": "tool", "reply": None, "text": "It.", "ended": None}),
        "no end",
    ),
    (tree({"error": OSError()}), "'search' .* error that is a OSError: give its words"),
    (tree(error=OSError()), "the tree has an error that is a OSError: give its words"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_a_tree_says_what_is_wrong_with_it(wrong, words):
    with pytest.raises(SettingError, match=words):
        samples_of(wrong)


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_a_block_says_what_is_wrong_with_a_tree(wrong, words):
    turns: Turns[object] = Turns(lambda run: [wrong], Overrides())
    with pytest.raises(SettingError, match=words):
        turns.add("run")


def test_a_tree_that_is_returned_is_asked_to_be_yielded():
    turns: Turns[object] = Turns(lambda run: tree(), Overrides())  # type: ignore[arg-type, return-value]
    with pytest.raises(SettingError, match="returned a Tree: yield it"):
        turns.add("run")


def test_a_call_inside_a_call_is_looked_at():
    made = tree()
    made.root.children[0].children.append(Node("rerank", "inner"))  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="the call 'inner'"):
        samples_of(made)


@pytest.mark.parametrize(
    ("search", "doubts"),
    [
        ({}, set()),
        ({"ended": None, "documents": None}, {"not_recorded"}),
        ({"ended": None, "documents": None, "error": "TimeoutError"}, {"no_search"}),
        ({"documents": ()}, set()),
    ],
)
def test_a_search_that_never_ended_leaves_nothing_exact(search, doubts):
    (sample,) = samples_of(tree(search, answers=(Answer("Paris."),)))
    assert set(sample.capture.doubts) == doubts
    assert sample.capture.grade == ("incomplete" if doubts else "exact")


@pytest.mark.parametrize(
    "kind", [Answer, CitedSource, Document, Message, Node, ToolCall, Tree]
)
def test_help_explains_every_field_that_an_adapter_may_fill(kind):
    _, _, attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    explained = re.findall(r"^    (\w+): \S", attributes, re.MULTILINE)
    fields = [field.name for field in dataclasses.fields(kind)]
    assert sorted(explained) == sorted(fields)
