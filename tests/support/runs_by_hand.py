"""Runs of an application, written by hand as trees of calls: what each call was given, and what it returned."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ragmetrics_core.capture import Answer, Document, Message, Node, ToolCall, Tree
from ragmetrics_core.data.sample_parts import Turn as Said

QUESTION = "Which city lies on the Douro?"
ANSWER = "It is Porto, in the north."
PORTO = (
    "Porto lies on the Douro, in the north of Portugal, and gave the country its name."
)
FARO = (
    "Faro is the southernmost city of Portugal; its airport serves the whole of the"
    " Algarve."
)
EVORA = (
    "Évora keeps a Roman temple and a chapel built of bones inside its medieval walls."
)
P, F, E = DOCS = (Document(PORTO, "p"), Document(FARO, "f"), Document(EVORA, "e"))
HALF = PORTO[:50]
LONGER = PORTO + " Its wine cellars stand across the river, in Gaia."
NOTE = "Porto is the city on the Douro; it lies in the north."
NOT_FARO = "Faro does not, being in the Algarve."
TITLE = "The city on the Douro, in short"
BETTER = "Which of the Portuguese cities lies on the banks of the river Douro?"
WEB = (
    f"{BETTER} Porto does, where the Douro meets the Atlantic, and so do its cellars,"
    " in Gaia."
)
ROW_OF_WEB = f"{PORTO}\nThe web knows nothing else about it."
CALL = Message("assistant", "", (ToolCall("search", {"query": "Douro"}, "1"),))
GRADED = Message("assistant", '{"binary_score": "yes"}')
RATED = (Document(EVORA, "e", 0.9), Document(FARO, "f", 0.8), Document(PORTO, "p", 0.7))
SAYS = (Answer(ANSWER),)
SAID = (Said(role="user", content="Hello?"), Said(role="assistant", content="Hi."))
STATUS = "Generated response with context"

# A run in the order of its calls. Each call begins and ends at moments of their own.

Call = Callable[["itertools.count[int]"], Node]


def call(kind: Any, *inside: Call, **fields: Any) -> Call:
    def make(clock: itertools.count[int]) -> Node:
        node = Node(kind, fields.get("name", kind), next(clock))
        for name, value in fields.items():
            setattr(node, name, value)
        node.children = [each(clock) for each in inside]
        node.ended = next(clock)
        return node

    return make


def found(*documents: Document, query: str = QUESTION, **fields: Any) -> Call:
    return call("retriever", query=query, documents=documents, **fields)


def reads(
    prompt: str | Sequence[Message], reply: str | Message = ANSWER, **fields: Any
) -> Call:
    """A call of a model: what it is shown, and what it replies."""
    shown = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
    said = Message("assistant", reply) if isinstance(reply, str) else reply
    return call("model", prompt=shown, reply=said, model="m", **fields)


def tool(text: str, *inside: Call, **fields: Any) -> Call:
    return call("tool", *inside, text=text, **fields)


def step(*documents: Document, inside: Sequence[Call] = (), **fields: Any) -> Call:
    return call("step", *inside, documents=documents or None, **fields)


def reranked(taken: tuple[Document, ...], *documents: Document) -> Call:
    return call("reranker", input_documents=taken, documents=documents)


def asked(*texts: str) -> str:
    context = "\n".join(texts)
    return f"Use only this:\n{context}\n\nQuestion: {QUESTION}"


def after_tool(text: str) -> list[Message]:
    return [Message("user", QUESTION), CALL, Message("tool", text)]


def tree(
    *calls: Call,
    taken: tuple[Document, ...] = (),
    query: str | None = None,
    **told: Any,
) -> Tree:
    """A chain around some calls; ``told`` is what the framework tells of it."""
    around = call("step", *calls, name="chain", input_documents=taken, query=query)
    return Tree(around(itertools.count(1)), **{"question": QUESTION, **told})


def says(*calls: Call, **told: Any) -> Tree:
    """A chain whose output is the answer, by the framework's word."""
    return tree(*calls, answers=SAYS, **told)


CLOCK = itertools.count(1)


def later(run: Tree) -> Tree:
    """A chain that begins after what was run before."""
    delay = float(next(CLOCK))
    for node in run.root.walk():
        node.began += delay
        node.ended = (node.ended or 0) + delay
        next(CLOCK)
    return run
