"""What small applications after public ones are made of: texts, models that only say, and what is expected.

Each application is written anew; the decorator names the public file whose shape it
has. Only models and embeddings are fakes. What is expected of each was worked out by
hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.document_stores.in_memory import InMemoryDocumentStore

TUTORIALS, COOKBOOK = (
    "deepset-ai/haystack-tutorials: tutorials",
    "deepset-ai/haystack-cookbook: notebooks",
)
DOCS = "deepset-ai/haystack: docs-website/docs"
Q = "When was the east gate of Marburg walled up?"
A = "It was walled up in 1632."

TEXTS = {
    "gate": (
        "The east gate of Marburg was walled up in 1632, when the timbers of its tower"
        " had burned down; masons took the blocks for it from an old mill by the river."
    ),
    "mill": (
        "The old mill by the river Lahn ground flour for nine villages until a flood of"
        " 1628 broke its wheel, and nobody paid for another one."
    ),
    "siege": (
        "During the siege of 1631 two thousand soldiers camped in the vineyards, and"
        " the town council met every evening in the cellar of the hospital."
    ),
    "bridge": (
        "A wooden bridge led from the hospital to the market; carts paid two pennies"
        " for crossing it, and pilgrims paid nothing at all."
    ),
    "bell": (
        "The bell of the market church was cast in Frankfurt, cracked in its first"
        " winter, and has hung in the yard of the founder ever since."
    ),
}
SHORT = {
    "brother": "Jon Brant has three brothers: Aron, Balthasar and little Rik.",
    "sister": "Sanna Stern has no brother but two older sisters in Kassel.",
}


def _made(texts: dict[str, str]) -> list[Document]:
    """Documents that lie in this order from the query, whatever it is."""
    return [
        Document(
            id=name,
            content=text,
            meta={"title": name.title()},
            embedding=[math.cos(n / 5), math.sin(n / 5)],
        )
        for n, (name, text) in enumerate(texts.items())
    ]


@component
class FakeEmbedder:
    """Every query is the same to it."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        return {"embedding": [1.0, 0.0]}


def found(
    top_k: int = 3, texts: dict[str, str] | None = None
) -> InMemoryEmbeddingRetriever:
    """A retriever that returns the first texts, in their order."""
    store = InMemoryDocumentStore()
    store.write_documents(_made(TEXTS if texts is None else texts))
    return InMemoryEmbeddingRetriever(store, top_k=top_k)


def connected(*wires: tuple[str, str], **components: Any) -> Pipeline:
    made = Pipeline()
    for name, one in components.items():
        made.add_component(name, one)
    for sender, receiver in wires:
        made.connect(sender, receiver)
    return made


SEARCH = (("embedder.embedding", "retriever.query_embedding"),)


def search(top_k: int = 3, **more: Any) -> dict[str, Any]:
    return {"embedder": FakeEmbedder(), "retriever": found(top_k), **more}


def says(*replies: str | ChatMessage) -> MockChatGenerator:
    """A model that says one thing after the other."""
    return MockChatGenerator(list(replies))


def calls(tool: str, **arguments: Any) -> ChatMessage:
    return ChatMessage.from_assistant(tool_calls=[ToolCall(tool, arguments)])


def user(text: str = Q) -> list[ChatMessage]:
    return [ChatMessage.from_user(text)]


@dataclass(frozen=True)
class Expected:
    """What is expected of a sample: contexts by id, or as (id, text) where the text is not that of a document.

    Ids that the framework makes are None here. ``doubts``: the codes of all that is
    uncertain; ``hedged``: fields that may be wrong, and are told with a doubt.
    """

    contexts: Sequence[str | tuple[str | None, str]]
    answer: str | None = A
    question: str | None = Q
    retrieved: Sequence[str | None] | None = None
    history: Sequence[tuple[str, str]] = ()
    doubts: Sequence[str] = ()
    hedged: Sequence[str] = ()


@dataclass(frozen=True)
class App:
    source: str
    play: Callable[[], object]
    expected: tuple[Expected, ...]
    capture: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


APPS: dict[str, App] = {}


def app(
    source: str, *expected: Expected, problem: str = "", **capture: Any
) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Put an application into the table, by its name."""

    def added(play: Callable[[], object]) -> Callable[[], object]:
        assert play.__name__ not in APPS
        APPS[play.__name__] = App(source, play, expected, capture, problem)
        return play

    return added
