"""Which steps wrote a text into the answering prompt that is nothing known, on a neutral tree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import pytest

from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of

QUESTION = "What does a cabin cost?"
FERRY = "The night ferry to Halmstad leaves the east quay at 22:40, except on Sundays."
ROWS = "A cabin for two costs 96 euros. A seat on the night ferry costs 38 euros."
ASKED_ELSEWHERE = "price of a cabin for two on board"


def finds(*texts: str, query: str = "ferries", at: float = 1.0) -> Node:
    documents = tuple(map(Document, texts or (FERRY,)))
    return Node("retriever", "search", at, at + 0.2, query=query, documents=documents)


def step(
    *texts: str,
    inside: Sequence[Node] = (),
    name: str = "prices",
    at: float = 2.0,
    ended: float = 3.0,
    kind: Literal["step", "agent"] = "step",
) -> Node:
    return Node(kind, name, at, ended, list(inside), new_texts=texts)


def says(text: str) -> Node:
    """A call of a model before the answering one."""
    plan = (Message("user", "Which table has the prices?"),)
    reply = Message("assistant", text)
    return Node("model", "planner", 1.5, 1.8, prompt=plan, reply=reply)


def answers(*messages: str) -> Node:
    prompt = tuple(Message("user", text) for text in messages)
    reply = Message("assistant", "It costs 96 euros for two.")
    return Node("model", "llm", 4.0, 4.5, prompt=prompt, reply=reply)


def prompt_with(text: str) -> Node:
    """The answering call, whose prompt shows a text beside the passage."""
    return answers(f"{FERRY}\n{text}\n{QUESTION}")


def names(*calls: Node) -> list[str]:
    """The steps of which the sample says that their texts may state a fact."""
    root = Node("step", "chain", 0.0, 99.0, children=list(calls))
    tree = Tree(root, question=QUESTION, question_place="input")
    (sample,) = samples_of(tree)
    return re.findall(r"the step (\w+) returned a text", sample.model_dump_json())


INNER = step(ROWS, name="sql", at=2.1, ended=2.2)


@pytest.mark.parametrize(
    ("calls", "named"),
    [
        pytest.param([step(ROWS), prompt_with(ROWS)], ["prices"], id="a step"),
        pytest.param(
            [step(ROWS, ended=4.0), prompt_with(ROWS)],
            ["prices"],
            id="that ended as the call began",
        ),
        pytest.param(
            [step(ROWS), answers("Be short.", f"{FERRY}\n{ROWS}\n{QUESTION}")],
            ["prices"],
            id="shown in the second message",
        ),
        pytest.param(
            [step(ROWS, inside=[INNER]), prompt_with(ROWS)],
            ["sql"],
            id="the inner one of two with the same text",
        ),
        pytest.param(
            [
                step(ROWS, inside=[step("No.", name="sql", at=2.1, ended=2.2)]),
                prompt_with(ROWS),
            ],
            ["prices"],
            id="the outer one of two with other texts",
        ),
        pytest.param(
            [
                step(ROWS, "Cabins have two beds and a desk."),
                prompt_with(f"{ROWS}\nCabins have two beds and a desk."),
            ],
            ["prices"],
            id="once, for two texts",
        ),
        pytest.param(
            [finds(FERRY, "two"), step(ROWS), prompt_with(ROWS)],
            ["prices"],
            id="beside a passage of few letters",
        ),
    ],
)
def test_a_step_whose_text_the_prompt_shows_is_named(
    calls: Sequence[Node], named: list[str]
) -> None:
    assert names(finds(), *calls) == named


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([step(ROWS)], id="no answering call"),
        pytest.param([step(ROWS, ended=4.2), prompt_with(ROWS)], id="ended later"),
        pytest.param([step(ROWS, kind="agent"), prompt_with(ROWS)], id="an agent"),
        pytest.param([step(ROWS), prompt_with("")], id="not shown"),
        pytest.param(
            [step(ROWS), answers(ROWS, f"{FERRY}\n{QUESTION}")], id="a whole message"
        ),
        pytest.param(
            [step(ROWS, inside=[finds(query="cabin", at=2.1)]), prompt_with(ROWS)],
            id="that searched",
        ),
        pytest.param(
            [
                step(ROWS, inside=[finds(at=2.1), step("No.", at=2.5, ended=2.6)]),
                prompt_with(ROWS),
            ],
            id="that searched, with a step inside",
        ),
        pytest.param(
            [step(f"See: {FERRY}"), prompt_with(f"See: {FERRY}")], id="a passage"
        ),
        pytest.param([step(FERRY[:60]), prompt_with("")], id="a part of a passage"),
        pytest.param(
            [step(f"You asked: {QUESTION}"), prompt_with(f"You asked: {QUESTION}")],
            id="the question",
        ),
        pytest.param(
            [
                finds(query=ASKED_ELSEWHERE, at=1.3),
                step(f"Searched: {ASKED_ELSEWHERE}"),
                prompt_with(f"Searched: {ASKED_ELSEWHERE}"),
            ],
            id="a query",
        ),
        pytest.param(
            [
                Node("tool", "db", 1.5, 1.8, query="cabin", text=ROWS),
                step(f"Rows: {ROWS}"),
                prompt_with(f"Rows: {ROWS}"),
            ],
            id="a tool's text",
        ),
        pytest.param(
            [says(ROWS), step(f"Rows: {ROWS}"), prompt_with(f"Rows: {ROWS}")],
            id="a model's reply",
        ),
    ],
)
def test_a_step_whose_text_is_known_or_was_not_shown_is_not_named(
    calls: Sequence[Node],
) -> None:
    assert names(finds(), *calls) == []
