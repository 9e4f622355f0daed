"""What the shapes of Haystack applications are made of: the store, parts, and what is expected of a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

QUESTION = "When was the old lighthouse of Weser Island built?"
OTHER = "Which harbour has a crane?"
TEMPLATE = (
    "{% for document in documents %}- {{ document.content }}\n{% endfor %}\nQuestion:"
    " {{ query }}"
)

ONLY_SEARCHED = ("no_answer",)

STORE = InMemoryDocumentStore()
DOCUMENTS = [
    Document(
        id="built",
        content="The old lighthouse of Weser Island was built in 1856.",
        meta={"year": 1856, "lang": "en"},
    ),
    Document(
        id="keeper",
        content="Anna Brandt kept the lighthouse lamp until 1903.",
        meta={"year": 1903},
    ),
    Document(
        id="crane",
        content="The harbour of Elsfleth has a crane of 1911.",
        meta={"year": 1911},
    ),
    Document(
        id="ferry",
        content="A ferry to the island runs every old summer hour.",
        meta={"year": 1999},
    ),
]
STORE.write_documents(DOCUMENTS)


def bm25(query: str = QUESTION, top_k: int = 3) -> list[Document]:
    return InMemoryBM25Retriever(STORE, top_k=top_k).run(query=query)["documents"]


def said(messages: list[ChatMessage]) -> str:
    """A reply that differs from prompt to prompt."""
    text = next(
        (
            message.text
            for message in reversed(messages)
            if message.role == "user" and message.text
        ),
        "",
    )
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    return f"Reply from {len(lines)} lines: {lines[0][2:] if lines else 'nothing'}"


def first_sentence(documents: list[Document]) -> str:
    return (
        f"Reply from {len(documents)} lines:"
        f" {documents[0].content if documents else 'nothing'}"
    )


@dataclass
class Expected:
    contexts: list[Document]
    answer: str | None
    question: str | None = QUESTION
    retrieved: list[Document] | None = None
    standalone: str | None = None
    history: int = 0
    complete: bool = True
    error: bool = False
    doubts: tuple[str, ...] = ()  # codes of all that is uncertain


@dataclass
class Row:
    """A pipeline or agent that is run in each mode, and the samples that it should give.

    Attributes:
        app: The pipeline or agent.
        inputs: What it is run with.
        expected: A sample each, in the order of their answers.
        modes: Ways to run it: "run", "run_async", or "abandoned" in the midst.
        runs_models_beside_each_other: Whether any of several models may end first in
            ``run_async``.
        capture: The arguments of ``capture()``.
    """

    app: Any
    inputs: dict[str, Any]
    expected: list[Expected]
    modes: tuple[str, ...] = ("run", "run_async")
    runs_models_beside_each_other: bool = False
    capture: dict[str, Any] = field(default_factory=dict)


Build = Callable[[], Row]


def adding_to(rows: dict[str, Build]) -> Callable[[Build], Build]:
    """A decorator that puts what builds a row into a table, by its name."""

    def row(build: Build) -> Build:
        rows[build.__name__] = build
        return build

    return row


def connected(*wires: tuple[str, str], **components: Any) -> Pipeline:
    made = Pipeline()
    for name, one in components.items():
        made.add_component(name, one)
    for sender, receiver in wires:
        made.connect(sender, receiver)
    return made


def retriever(top_k: int = 3, **settings: Any) -> InMemoryBM25Retriever:
    return InMemoryBM25Retriever(STORE, top_k=top_k, **settings)


def llm(**settings: Any) -> MockChatGenerator:
    return MockChatGenerator(response_fn=said, **settings)


def asked(*names: str, query: str = QUESTION, socket: str = "query") -> dict[str, Any]:
    return {name: {socket: query} for name in names}


def rag(**more: Any) -> Pipeline:
    return connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
        **more,
    )


# Components of a user's own


@component
class Reversing:
    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {
            "documents": [
                Document(id=d.id, content=d.content, meta=d.meta, score=1.0 / (n + 1))
                for n, d in enumerate(reversed(documents))
            ]
        }


@component
class Swallowing:
    """A memory that stores replies and returns no text."""

    @component.output_types(stored=int)
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"stored": len(messages)}
