"""Every shape of a Haystack application that capturing knows, once each: exact question, contexts and answer.

Real pipelines, offline: in-memory store with BM25, deterministic generators. Each row runs through ``run`` and,
where the shape allows it, through ``run_async``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from haystack import Document, Pipeline, SuperComponent, component
from haystack.components.agents import Agent
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import AnswerJoiner, BranchJoiner, DocumentJoiner, ListJoiner
from haystack.components.rankers import LostInTheMiddleRanker, MetaFieldRanker
from haystack.components.retrievers import FilterRetriever
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.components.routers import ConditionalRouter
from haystack.components.writers import DocumentWriter
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage, ExtractedAnswer, ToolCall
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import ComponentTool, PipelineTool, Tool
from haystack_integrations.components.evaluators.ragmetrics import RagMetricsEvaluator, capture

from ragmetrics_core.model.sample import Sample

QUESTION = "When was the old lighthouse of Weser Island built?"
OTHER = "Which harbour has a crane?"
TEMPLATE = "{% for document in documents %}- {{ document.content }}\n{% endfor %}\nQuestion: {{ query }}"

STORE = InMemoryDocumentStore()
DOCUMENTS = [
    Document(
        id="built", content="The old lighthouse of Weser Island was built in 1856.", meta={"year": 1856, "lang": "en"}
    ),
    Document(id="keeper", content="Anna Brandt kept the lighthouse lamp until 1903.", meta={"year": 1903}),
    Document(id="crane", content="The harbour of Elsfleth has a crane of 1911.", meta={"year": 1911}),
    Document(id="ferry", content="A ferry to the island runs every old summer hour.", meta={"year": 1999}),
]
STORE.write_documents(DOCUMENTS)


def bm25(query: str = QUESTION, top_k: int = 3) -> list[Document]:
    return InMemoryBM25Retriever(STORE, top_k=top_k).run(query=query)["documents"]


def said(messages: list[ChatMessage]) -> str:
    """A reply that differs from prompt to prompt."""
    text = next((message.text for message in reversed(messages) if message.role == "user" and message.text), "")
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    return f"Reply from {len(lines)} lines: {lines[0][2:] if lines else 'nothing'}"


def first_sentence(documents: list[Document]) -> str:
    return f"Reply from {len(documents)} lines: {documents[0].content if documents else 'nothing'}"


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
    warned: str = ""


@dataclass
class Row:
    names: tuple[str, ...]
    app: Any
    inputs: dict[str, Any]
    expected: list[Expected]
    modes: tuple[str, ...] = ("run", "run_async")
    capture: dict[str, Any] = field(default_factory=dict)


ROWS: dict[str, Callable[[], Row]] = {}


def row(build: Callable[[], Row]) -> Callable[[], Row]:
    ROWS[build.__name__] = build
    return build


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
class Dropping:
    """Keeps what a caller's threshold keeps: nothing."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {"documents": []}


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
class Several:
    """A generator with n replies."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant(f"Variant {n}", meta={"model": "several"}) for n in range(3)]}


@component
class Swallowing:
    """A memory that stores replies and returns no text."""

    @component.output_types(stored=int)
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"stored": len(messages)}


@component
class Remembering:
    """Earlier turns, whose prompts hold old contexts."""

    @component.output_types(messages=list[ChatMessage])
    def run(self, key: str) -> dict[str, Any]:
        old = "- Anna Brandt kept the lighthouse lamp until 1903.\n\nQuestion: Who kept the lamp?"
        return {"messages": [ChatMessage.from_user(old), ChatMessage.from_assistant("Anna Brandt")]}


@component
class Validating:
    """Sends the first reply back, and lets the second one through."""

    @component.output_types(invalid=str, valid=str)
    def run(self, replies: list[ChatMessage]) -> dict[str, Any]:
        text = replies[0].text or ""
        return {"valid": text} if text.startswith("Corrected") else {"invalid": text}


def drafted(messages: list[ChatMessage]) -> str:
    text = messages[-1].text or ""
    return "Corrected: 1856." if "Improve:" in text else "A first draft that is not good enough."


@component
class Breaking:
    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        raise RuntimeError("the store is gone")


@component
class BreakingModel:
    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        raise RuntimeError("the model is gone")


@component
class Reading:
    """An extractive reader."""

    @component.output_types(answers=list[ExtractedAnswer])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        made = [
            ExtractedAnswer(query=query, score=0.9 - n / 10, data=(d.content or "")[-5:-1], document=d)
            for n, d in enumerate(documents)
        ]
        return {"answers": made}


@component
class Inner:
    """A component that runs a pipeline of its own."""

    def __init__(self) -> None:
        self.pipeline = connected(retriever=retriever())

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return self.pipeline.run({"retriever": {"query": query}})["retriever"]


# Straight pipelines


@row
def answer_builder() -> Row:
    app = rag(answers=AnswerBuilder())
    app.connect("llm.replies", "answers.replies")
    app.connect("retriever.documents", "answers.documents")
    return Row(
        ("answer builder",),
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def without_answer_builder() -> Row:
    return Row(
        ("replies only",),
        rag(),
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def flat_inputs() -> Row:
    return Row(("flat inputs",), rag(), {"query": QUESTION}, [Expected(bm25(), first_sentence(bm25()))])


@row
def chat_prompt_builder() -> Row:
    template = [ChatMessage.from_system("Answer in English."), ChatMessage.from_user(TEMPLATE)]
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        retriever=retriever(),
        prompt=ChatPromptBuilder(template),
        llm=llm(),
    )
    return Row(("chat prompt builder",), app, asked("retriever", "prompt"), [Expected(bm25(), first_sentence(bm25()))])


@row
def cited_documents_only() -> Row:
    app = rag(answers=AnswerBuilder(reference_pattern=r"(\d) lines"))
    app.connect("llm.replies", "answers.replies")
    app.connect("retriever.documents", "answers.documents")
    return Row(("citations",), app, asked("retriever", "prompt", "answers"), [Expected(bm25(), first_sentence(bm25()))])


@row
def answer_pattern() -> Row:
    app = rag(answers=AnswerBuilder(pattern=r"built in (\d+)"))
    app.connect("llm.replies", "answers.replies")
    return Row(("answer pattern",), app, asked("retriever", "prompt", "answers"), [Expected(bm25(), "1856")])


@row
def template_takes_two() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE.replace("in documents", "in documents[:2]")),
        llm=llm(),
    )
    expected = Expected(bm25()[:2], first_sentence(bm25()[:2]), retrieved=bm25(), warned="did not reach the prompt")
    return Row(("template slices",), app, asked("retriever", "prompt"), [expected])


@row
def shortened_documents() -> Row:
    short = TEMPLATE.replace("{{ document.content }}", "{{ document.content[:45] }}")
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=retriever(),
        prompt=PromptBuilder(short),
        llm=llm(),
    )
    answer = first_sentence([Document(content=(bm25()[0].content or "")[:45]), *bm25()[1:]])
    return Row(
        ("truncated documents",), app, asked("retriever", "prompt"), [Expected(bm25(), answer, warned="unverified")]
    )


@row
def documents_through_text() -> Row:
    app = connected(
        ("retriever.documents", "flatten.documents"),
        ("flatten", "prompt.context"),
        ("prompt", "llm"),
        retriever=retriever(),
        flatten=OutputAdapter("{% for d in documents %}- {{ d.content }}\n{% endfor %}", str),
        prompt=PromptBuilder("{{ context }}\nQuestion: {{ query }}"),
        llm=llm(),
    )
    return Row(
        ("output adapter",),
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def several_replies() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("llm.replies", "answers.replies"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=Several(),
        answers=AnswerBuilder(),
    )
    return Row(
        ("n replies",),
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(bm25(), f"Variant {n}") for n in range(3)],
    )


@row
def streamed() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    return Row(
        ("streaming",),
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()))],
        modes=("stream", "streaming_callback"),
    )


# Retrieval


@row
def reranked() -> Row:
    ranked = MetaFieldRanker(meta_field="year", weight=1.0, top_k=2)
    app = connected(
        ("retriever.documents", "ranker.documents"),
        ("ranker.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("llm.replies", "answers.replies"),
        ("retriever.documents", "answers.documents"),
        retriever=retriever(),
        ranker=ranked,
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
        answers=AnswerBuilder(),
    )
    kept = MetaFieldRanker(meta_field="year", weight=1.0, top_k=2).run(documents=bm25())["documents"]
    assert [d.id for d in kept] != [d.id for d in bm25()]
    return Row(
        ("rerankers", "wired before the reranker"),
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(kept, first_sentence(kept), retrieved=bm25())],
    )


@row
def reordered() -> Row:
    app = connected(
        ("retriever.documents", "ranker.documents"),
        ("ranker.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=retriever(),
        ranker=Reversing(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    kept = Reversing().run(documents=bm25())["documents"]
    return Row(
        ("custom reranker",),
        app,
        asked("retriever", "prompt"),
        [Expected(kept, first_sentence(kept), retrieved=bm25())],
    )


@row
def joined() -> Row:
    app = connected(
        ("first.documents", "joiner.documents"),
        ("second.documents", "joiner.documents"),
        ("joiner.documents", "prompt.documents"),
        ("prompt", "llm"),
        first=retriever(1),
        second=retriever(2),
        joiner=DocumentJoiner(join_mode="reciprocal_rank_fusion"),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    fused = DocumentJoiner(join_mode="reciprocal_rank_fusion").run(documents=[bm25(top_k=1), bm25(top_k=2)])[
        "documents"
    ]
    return Row(
        ("joiners",),
        app,
        asked("first", "second", "prompt"),
        [Expected(fused, first_sentence(fused), retrieved=bm25(top_k=2))],
    )


@row
def two_document_sockets() -> Row:
    part = "{{% for d in {name} %}}- {{{{ d.content }}}}\n{{% endfor %}}"
    template = part.format(name="manuals") + part.format(name="tickets") + "Question: {{ query }}"
    app = connected(
        ("one.documents", "prompt.manuals"),
        ("two.documents", "prompt.tickets"),
        ("prompt", "llm"),
        one=retriever(1),
        two=FilterRetriever(STORE, {"field": "meta.year", "operator": "==", "value": 1911}),
        prompt=PromptBuilder(template),
        llm=llm(),
    )
    both = [*bm25(top_k=1), DOCUMENTS[2]]
    return Row(
        ("two document sockets",), app, asked("one", "prompt"), [Expected(both, first_sentence(both), retrieved=both)]
    )


@row
def repeated_documents() -> Row:
    twice = "{% for d in a + b %}- {{ d.content }}\n{% endfor %}Question: {{ query }}"
    app = connected(
        ("one.documents", "prompt.a"),
        ("two.documents", "prompt.b"),
        ("prompt", "llm"),
        one=retriever(1),
        two=retriever(2),
        prompt=PromptBuilder(twice),
        llm=llm(),
    )
    both = [*bm25(top_k=1), *bm25(top_k=2)]
    return Row(
        ("duplicates in one prompt",),
        app,
        asked("one", "two", "prompt"),
        [Expected(both, first_sentence(both), retrieved=bm25(top_k=2))],
    )


@row
def nothing_found() -> Row:
    none = FilterRetriever(STORE, {"field": "meta.year", "operator": "==", "value": 1})
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=none,
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    return Row(("empty retrieval",), app, asked("prompt"), [Expected([], first_sentence([]), retrieved=[])])


@row
def all_filtered_out() -> Row:
    app = connected(
        ("retriever.documents", "filter.documents"),
        ("filter.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=retriever(),
        filter=Dropping(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    return Row(
        ("everything filtered out",),
        app,
        asked("retriever", "prompt"),
        [Expected([], first_sentence([]), retrieved=bm25())],
    )


@row
def no_retrieval() -> Row:
    app = connected(("prompt", "llm"), prompt=PromptBuilder("Question: {{ query }}"), llm=llm())
    return Row(("no retrieval",), app, asked("prompt"), [Expected([], first_sentence([]), retrieved=None)])


@row
def retrieval_only() -> Row:
    app = connected(("retriever.documents", "ranker.documents"), retriever=retriever(), ranker=LostInTheMiddleRanker())
    ranked = LostInTheMiddleRanker().run(documents=bm25())["documents"]
    return Row(("retrieval only",), app, asked("retriever"), [Expected(ranked, None, retrieved=bm25())])


@row
def indexing() -> Row:
    app = connected(
        ("filter.documents", "writer.documents"),
        filter=Reversing(),
        writer=DocumentWriter(InMemoryDocumentStore()),
    )
    return Row(("indexing",), app, {"filter": {"documents": DOCUMENTS}}, [])


@row
def documents_without_text() -> Row:
    store = InMemoryDocumentStore()
    store.write_documents([Document(id="image", content=None, meta={"year": 1856}), DOCUMENTS[0]])
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=FilterRetriever(store),
        prompt=PromptBuilder(TEMPLATE),
        llm=MockChatGenerator("1856"),
    )
    return Row(
        ("document without text",), app, asked("prompt"), [Expected([DOCUMENTS[0]], "1856", warned="without text")]
    )


@row
def extractive() -> Row:
    app = connected(("retriever.documents", "reader.documents"), retriever=retriever(), reader=Reading())
    return Row(("extractive reader",), app, asked("retriever", "reader"), [Expected(bm25(), "1856", retrieved=bm25())])


# Queries that are not the question


def searched(messages: list[ChatMessage]) -> str:
    return "old lighthouse Weser Island built year"


REWRITE = PromptBuilder("Write a search query for: {{ query }}")


@row
def rewritten_query() -> Row:
    app = connected(
        ("rewrite_prompt", "rewriter"),
        ("rewriter.replies", "adapter.replies"),
        ("adapter.output", "retriever.query"),
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        rewrite_prompt=PromptBuilder("Write a search query for: {{ query }}"),
        rewriter=MockChatGenerator(response_fn=searched),
        adapter=OutputAdapter("{{ replies[0].text }}", str),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    found = bm25(searched([]))
    return Row(
        ("rewritten query",),
        app,
        asked("rewrite_prompt", "prompt"),
        [Expected(found, first_sentence(found), retrieved=found)],
    )


@row
def rewritten_query_in_the_answer() -> Row:
    app = connected(
        ("rewrite_prompt", "rewriter"),
        ("rewriter.replies", "adapter.replies"),
        ("adapter.output", "retriever.query"),
        ("adapter.output", "prompt.query"),
        ("adapter.output", "answers.query"),
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("llm.replies", "answers.replies"),
        rewrite_prompt=PromptBuilder("Write a search query for: {{ query }}"),
        rewriter=MockChatGenerator(response_fn=searched),
        adapter=OutputAdapter("{{ replies[0].text }}", str),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
        answers=AnswerBuilder(),
    )
    found = bm25(searched([]))
    return Row(
        ("question as the user gave it",),
        app,
        asked("rewrite_prompt"),
        [Expected(found, first_sentence(found), standalone=searched([]))],
    )


@row
def hypothetical_document() -> Row:
    app = connected(
        ("hyde_prompt", "hyde"),
        ("hyde.replies", "adapter.replies"),
        ("adapter.output", "retriever.query"),
        hyde_prompt=PromptBuilder("Write a passage that answers: {{ query }}"),
        hyde=MockChatGenerator("The old lighthouse was built long ago."),
        adapter=OutputAdapter("{{ replies[0].text }}", str),
        retriever=retriever(2),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    app.connect("retriever.documents", "prompt.documents")
    app.connect("prompt", "llm")
    found = bm25("The old lighthouse was built long ago.", 2)
    return Row(("HyDE",), app, asked("hyde_prompt", "prompt"), [Expected(found, first_sentence(found))])


@row
def hypothetical_document_retrieval_only() -> Row:
    app = connected(
        ("hyde_prompt", "hyde"),
        ("hyde.replies", "adapter.replies"),
        ("adapter.output", "retriever.query"),
        hyde_prompt=PromptBuilder("Write a passage that answers: {{ query }}"),
        hyde=MockChatGenerator("The old lighthouse was built long ago."),
        adapter=OutputAdapter("{{ replies[0].text }}", str),
        retriever=retriever(2),
    )
    return Row(
        ("HyDE without answer",),
        app,
        asked("hyde_prompt"),
        [Expected(bm25("The old lighthouse was built long ago.", 2), None)],
    )


@row
def multi_query() -> Row:
    from haystack.components.query import QueryExpander
    from haystack.components.retrievers import MultiQueryTextRetriever

    def expanded(messages: list[ChatMessage]) -> str:
        return '{"queries": ["lighthouse lamp", "harbour crane"]}'

    settings = {"retriever": retriever(1)}
    app = connected(
        ("expander.queries", "multi.queries"),
        ("multi.documents", "prompt.documents"),
        ("prompt", "llm"),
        expander=QueryExpander(chat_generator=MockChatGenerator(response_fn=expanded), n_expansions=2),
        multi=MultiQueryTextRetriever(**settings),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    found = MultiQueryTextRetriever(**settings).run(queries=["lighthouse lamp", "harbour crane", QUESTION])["documents"]
    return Row(
        ("multi-query",), app, asked("expander", "prompt"), [Expected(found, first_sentence(found), retrieved=found)]
    )


@row
def multi_query_over_a_pipeline() -> Row:
    from haystack.components.retrievers import MultiQueryTextRetriever

    def made() -> MultiQueryTextRetriever:
        return MultiQueryTextRetriever(
            retriever=SuperComponent(
                connected(retriever=retriever(1)), {"query": ["retriever.query"]}, {"retriever.documents": "documents"}
            )
        )

    app = connected(
        ("multi.documents", "prompt.documents"),
        ("prompt", "llm"),
        multi=made(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    queries = ["lighthouse lamp", "harbour crane"]
    found = made().run(queries=queries)["documents"]
    inputs = {"multi": {"queries": queries}, "prompt": {"query": QUESTION}}
    return Row(
        ("pipeline in bare threads",),
        app,
        inputs,
        [Expected(found, first_sentence(found))],
        capture={"all_threads": True},
    )


# Branches, routers, loops


def routes(*conditions: tuple[str, str]) -> ConditionalRouter:
    return ConditionalRouter(
        [
            {"condition": condition, "output": "{{ query }}", "output_name": name, "output_type": str}
            for condition, name in conditions
        ]
    )


@row
def routed() -> Row:
    app = connected(
        ("router.island", "one.query"),
        ("router.other", "two.query"),
        ("one.documents", "joiner.value"),
        ("two.documents", "joiner.value"),
        ("joiner.value", "prompt.documents"),
        ("prompt", "llm"),
        router=routes(("{{ 'Island' in query }}", "island"), ("{{ True }}", "other")),
        one=retriever(2),
        two=retriever(1),
        joiner=BranchJoiner(list[Document]),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    found = bm25(top_k=2)
    return Row(
        ("routers", "branches", "branch joiner"),
        app,
        asked("router", "prompt"),
        [Expected(found, first_sentence(found), retrieved=found)],
    )


@row
def fallback_to_a_second_model() -> Row:
    """The first model says that it does not know; the reply of the second one is the answer."""
    check = ConditionalRouter(
        [
            {
                "condition": "{{ 'no_answer' in replies[0].text }}",
                "output": "{{ query }}",
                "output_name": "again",
                "output_type": str,
            },
            {"condition": "{{ True }}", "output": "{{ replies[0].text }}", "output_name": "answer", "output_type": str},
        ],
        unsafe=False,
    )
    app = connected(
        ("one.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("llm.replies", "check.replies"),
        ("check.again", "two.query"),
        ("check.again", "second_prompt.query"),
        ("two.documents", "second_prompt.documents"),
        ("second_prompt", "second"),
        one=retriever(1),
        prompt=PromptBuilder(TEMPLATE),
        llm=MockChatGenerator("no_answer"),
        check=check,
        two=retriever(3),
        second_prompt=PromptBuilder("Think again.\n" + TEMPLATE),
        second=llm(),
    )
    return Row(
        ("fallback branch",),
        app,
        asked("one", "prompt", "check"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def two_models() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "a"),
        ("prompt", "b"),
        ("a.replies", "answers_a.replies"),
        ("b.replies", "answers_b.replies"),
        ("answers_a.answers", "joiner.answers"),
        ("answers_b.answers", "joiner.answers"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        a=MockChatGenerator("It was 1856.", model="a"),
        b=MockChatGenerator("In 1856.", model="b"),
        answers_a=AnswerBuilder(),
        answers_b=AnswerBuilder(),
        joiner=AnswerJoiner(),
    )
    inputs = asked("retriever", "prompt", "answers_a", "answers_b")
    return Row(
        ("A/B models", "answer joiner"), app, inputs, [Expected(bm25(), "It was 1856."), Expected(bm25(), "In 1856.")]
    )


@row
def self_correcting_loop() -> Row:
    template = "{% if draft %}Improve: {{ draft }}{% else %}" + TEMPLATE + "{% endif %}"
    app = Pipeline(max_runs_per_component=5)
    for name, one in {
        "retriever": retriever(),
        "prompt": PromptBuilder(template, required_variables=["query"]),
        "llm": MockChatGenerator(response_fn=drafted),
        "check": Validating(),
    }.items():
        app.add_component(name, one)
    app.connect("retriever.documents", "prompt.documents")
    app.connect("prompt", "llm")
    app.connect("llm.replies", "check.replies")
    app.connect("check.invalid", "prompt.draft")
    expected = Expected(bm25(), "Corrected: 1856.", retrieved=bm25(), warned="unverified")
    return Row(("loops", "self-correction"), app, asked("retriever", "prompt"), [expected])


@row
def two_hops() -> Row:
    """The second round retrieves anew: the prompt of the last call counts, not the first round."""

    def hop(messages: list[ChatMessage]) -> str:
        text = messages[-1].text or ""
        return "Corrected: Elsfleth." if "crane" in text and "- The harbour" in text else "search again"

    again = ConditionalRouter(
        [
            {
                "condition": "{{ 'Corrected' in replies[0].text }}",
                "output": "{{ replies[0].text }}",
                "output_name": "done",
                "output_type": str,
            },
            {"condition": "{{ True }}", "output": OTHER, "output_name": "next", "output_type": str},
        ]
    )
    app = connected(
        ("first.value", "retriever.query"),
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("llm.replies", "again.replies"),
        ("again.next", "first.value"),
        first=BranchJoiner(str),
        retriever=retriever(1),
        prompt=PromptBuilder(TEMPLATE),
        llm=MockChatGenerator(response_fn=hop),
        again=again,
    )
    found = bm25(OTHER, 1)
    inputs = {"first": {"value": QUESTION}, "prompt": {"query": QUESTION}}
    return Row(("multi-hop loop",), app, inputs, [Expected(found, "Corrected: Elsfleth.", retrieved=found)])


@row
def other_models_around() -> Row:
    """A judge of documents before and follow-up questions after the answer are not the answer."""
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("llm.replies", "adapter.replies"),
        ("adapter.output", "more_prompt.answer"),
        ("more_prompt", "more"),
        ("llm.replies", "memory.messages"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
        adapter=OutputAdapter("{{ replies[0].text }}", str),
        more_prompt=PromptBuilder("Ask further questions after {{ answer }}"),
        more=MockChatGenerator("What else?"),
        memory=Swallowing(),
        answers=AnswerBuilder(),
    )
    app.connect("llm.replies", "answers.replies")
    return Row(
        ("follow-up questions",),
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(bm25(), first_sentence(bm25()))],
    )


# Memory and conversations


@row
def swallowed_by_a_writer() -> Row:
    app = rag(memory=Swallowing())
    app.connect("llm.replies", "memory.messages")
    return Row(("replies swallowed",), app, asked("retriever", "prompt"), [Expected(bm25(), first_sentence(bm25()))])


@row
def with_memory() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("memory.messages", "joiner.values"),
        ("prompt.prompt", "joiner.values"),
        ("joiner.values", "llm.messages"),
        memory=Remembering(),
        retriever=retriever(1),
        prompt=ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)]),
        joiner=ListJoiner(list[ChatMessage]),
        llm=llm(),
    )
    inputs = {**asked("retriever", "prompt"), "memory": {"key": "s1"}}
    found = bm25(top_k=1)
    return Row(("memory",), app, inputs, [Expected(found, first_sentence(found), retrieved=found)], modes=("run",))


@row
def conversation() -> Row:
    turns = [
        ChatMessage.from_user("Is there a lighthouse?"),
        ChatMessage.from_assistant("Yes."),
        ChatMessage.from_user(QUESTION),
    ]
    app = connected(("llm.replies", "answers.replies"), llm=llm(), answers=AnswerBuilder())
    return Row(
        ("messages of a conversation",),
        app,
        {"llm": {"messages": turns}, "answers": {"query": QUESTION}},
        [Expected([], first_sentence([]), history=2)],
    )


@row
def conversation_without_answer_builder() -> Row:
    turns = [
        ChatMessage.from_user("Is there a lighthouse?"),
        ChatMessage.from_assistant("Yes."),
        ChatMessage.from_user(QUESTION),
    ]
    return Row(
        ("history",), connected(llm=llm()), {"llm": {"messages": turns}}, [Expected([], first_sentence([]), history=2)]
    )


# Nested pipelines


@row
def whole_rag_in_a_super_component() -> Row:
    inner = rag(answers=AnswerBuilder())
    inner.connect("llm.replies", "answers.replies")
    outer = connected(
        rag=SuperComponent(
            inner, {"query": ["retriever.query", "prompt.query", "answers.query"]}, {"answers.answers": "answers"}
        )
    )
    return Row(("SuperComponents",), outer, asked("rag"), [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())])


@row
def retrieval_in_a_super_component() -> Row:
    inner = connected(("retriever.documents", "ranker.documents"), retriever=retriever(), ranker=Reversing())
    app = connected(
        ("search.documents", "prompt.documents"),
        ("prompt", "llm"),
        search=SuperComponent(inner, {"query": ["retriever.query"]}, {"ranker.documents": "documents"}),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    kept = Reversing().run(documents=bm25())["documents"]
    return Row(
        ("retrieval in a SuperComponent",),
        app,
        asked("search", "prompt"),
        [Expected(kept, first_sentence(kept), retrieved=bm25())],
    )


@row
def prompt_in_a_super_component() -> Row:
    inner = connected(
        ("retriever.documents", "prompt.documents"), retriever=retriever(), prompt=PromptBuilder(TEMPLATE)
    )
    app = connected(
        ("asking.prompt", "llm.messages"),
        asking=SuperComponent(inner, {"query": ["retriever.query", "prompt.query"]}, {"prompt.prompt": "prompt"}),
        llm=llm(),
    )
    return Row(
        ("prompt in a SuperComponent",),
        app,
        asked("asking"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def pipeline_in_a_component() -> Row:
    app = connected(
        ("inner.documents", "prompt.documents"),
        ("prompt", "llm"),
        inner=Inner(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    return Row(
        ("pipeline inside a component",),
        app,
        asked("inner", "prompt"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


# Agents and tools


def tool_caller(tool: str, **arguments: Any) -> Callable[[list[ChatMessage]], ChatMessage]:
    def reply(messages: list[ChatMessage]) -> ChatMessage:
        done = [result for message in messages for result in message.tool_call_results]
        if not done:
            return ChatMessage.from_assistant(tool_calls=[ToolCall(tool, arguments)])
        return ChatMessage.from_assistant(f"It was built in 1856, says {tool}.")

    return reply


def agent(tool: Any, **arguments: Any) -> Agent:
    return Agent(chat_generator=MockChatGenerator(response_fn=tool_caller(tool.name, **arguments)), tools=[tool])


def search_tool() -> ComponentTool:
    return ComponentTool(component=retriever(), name="search", description="Searches.")


USER = {"messages": [ChatMessage.from_user(QUESTION)]}


@row
def agent_with_component_tool() -> Row:
    app = connected(agent=agent(search_tool(), query=QUESTION))
    return Row(
        ("Agent", "component tool"),
        app,
        {"agent": USER},
        [Expected(bm25(), "It was built in 1856, says search.", retrieved=bm25())],
    )


@row
def bare_agent() -> Row:
    return Row(
        ("bare Agent.run",),
        agent(search_tool(), query=QUESTION),
        USER,
        [Expected(bm25(), "It was built in 1856, says search.", retrieved=bm25())],
    )


@row
def agent_with_pipeline_tool() -> Row:
    tool = PipelineTool(
        pipeline=connected(("retriever.documents", "ranker.documents"), retriever=retriever(), ranker=Reversing()),
        input_mapping={"query": ["retriever.query"]},
        output_mapping={"ranker.documents": "documents"},
        name="search",
        description="Searches.",
    )
    kept = Reversing().run(documents=bm25())["documents"]
    return Row(
        ("pipeline tool",),
        connected(agent=agent(tool, query=QUESTION)),
        {"agent": USER},
        [Expected(kept, "It was built in 1856, says search.", retrieved=bm25())],
    )


def looked_up(topic: Annotated[str, "what to look up"]) -> str:
    return f"About {topic}: built in 1856."


@row
def agent_with_function_tool() -> Row:
    tool = Tool(
        "lookup",
        "Looks up.",
        {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
        function=looked_up,
    )
    expected = Expected([Document(content=looked_up("the lighthouse"))], "It was built in 1856, says lookup.")
    return Row(("function tool",), connected(agent=agent(tool, topic="the lighthouse")), {"agent": USER}, [expected])


def failing(topic: str) -> str:
    raise ValueError("no such topic")


@row
def agent_with_failed_tool() -> Row:
    tool = Tool(
        "lookup",
        "Looks up.",
        {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
        function=failing,
    )
    return Row(
        ("failed tool",),
        connected(agent=agent(tool, topic="x")),
        {"agent": USER},
        [Expected([], "It was built in 1856, says lookup.")],
    )


@row
def agent_with_two_searches() -> Row:
    def twice(messages: list[ChatMessage]) -> ChatMessage:
        done = [result for message in messages for result in message.tool_call_results]
        if not done:
            calls = [ToolCall("search", {"query": QUESTION}), ToolCall("search", {"query": OTHER})]
            return ChatMessage.from_assistant(tool_calls=calls)
        return ChatMessage.from_assistant("Both found.")

    app = Agent(chat_generator=MockChatGenerator(response_fn=twice), tools=[search_tool()])
    ids: dict[str, Document] = {}
    for document in (*bm25(), *bm25(OTHER)):
        ids.setdefault(document.id, document)
    return Row(("parallel tool calls",), app, USER, [Expected(list(ids.values()), "Both found.")])


@row
def agent_after_a_prompt() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "agent.messages"),
        retriever=retriever(),
        prompt=ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)]),
        agent=Agent(chat_generator=llm()),
    )
    return Row(
        ("Agent behind a prompt builder",),
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())],
    )


@row
def llm_component() -> Row:
    from haystack.components.generators.chat import LLM

    app = connected(
        ("retriever.documents", "llm.documents"),
        retriever=retriever(),
        llm=LLM(chat_generator=llm(), user_prompt="{% message role='user' %}" + TEMPLATE + "{% endmessage %}"),
    )
    return Row(
        ("LLM component",), app, asked("retriever", "llm"), [Expected(bm25(), first_sentence(bm25()), retrieved=bm25())]
    )


# Runs that do not end well


@row
def broken_retriever() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=Breaking(),
        prompt=PromptBuilder(TEMPLATE),
        llm=llm(),
    )
    return Row(
        ("failing components", "failing retriever"),
        app,
        asked("retriever", "prompt"),
        [Expected([], None, error=True, complete=False)],
    )


@row
def broken_model() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=BreakingModel(),
    )
    return Row(
        ("failing model",),
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), None, error=True, complete=False, retrieved=bm25())],
    )


@row
def abandoned() -> Row:
    return Row(
        ("run_async_generator abandoned half-way",),
        rag(),
        asked("retriever", "prompt"),
        [Expected(bm25(), None, complete=False)],
        modes=("abandoned",),
    )


# What the user says, and what is no part of the application


@row
def with_the_evaluator_inside() -> Row:
    app = rag(answers=AnswerBuilder(), evaluator=RagMetricsEvaluator(["context_adherence"], judge="lexical"))
    app.connect("llm.replies", "answers.replies")
    app.connect("retriever.documents", "answers.documents")
    app.connect("answers.answers", "evaluator.answers")
    return Row(
        ("the evaluator in the pipeline",),
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(bm25(), first_sentence(bm25()))],
    )


@row
def overridden() -> Row:
    inner = rag(answers=AnswerBuilder())
    inner.connect("llm.replies", "answers.replies")
    outer = connected(
        rag=SuperComponent(
            inner, {"query": ["retriever.query", "prompt.query", "answers.query"]}, {"answers.answers": "answers"}
        )
    )
    places = {
        "contexts_from": "rag.retriever.documents",
        "answer_from": "rag.prompt.prompt",
        "question_from": "rag.query",
    }
    prompt = PromptBuilder(TEMPLATE).run(documents=bm25(), query=QUESTION)["prompt"]
    return Row(("places named by the user",), outer, asked("rag"), [Expected(bm25(), prompt)], capture=places)


@row
def generator_named() -> Row:
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        ("prompt", "shadow"),
        retriever=retriever(),
        prompt=PromptBuilder(TEMPLATE),
        llm=MockChatGenerator("In 1856."),
        shadow=MockChatGenerator("In 1856, I think."),
    )
    return Row(
        ("generator named by the user",),
        app,
        asked("retriever", "prompt"),
        [Expected(bm25(), "In 1856.")],
        capture={"generator": "llm"},
    )


NAMED = (
    *("loops", "branches", "joiners", "rerankers", "routers", "SuperComponents", "Agent", "bare Agent.run"),
    *("component tool", "pipeline tool", "function tool", "memory", "HyDE", "multi-query", "n replies", "streaming"),
    *("run_async_generator abandoned half-way", "failing components", "empty retrieval", "retrieval only"),
)


def test_every_named_shape_has_a_row() -> None:
    there = {name for build in ROWS.values() for name in build().names}
    assert set(NAMED) <= there


async def _abandon(app: Pipeline, inputs: dict[str, Any]) -> None:
    partial = app.run_async_generator(inputs, include_outputs_from={"retriever", "prompt"})
    async for output in partial:
        if "prompt" in output:
            break
    await partial.aclose()


async def _stream(app: Pipeline, inputs: dict[str, Any]) -> None:
    async for _ in app.stream(inputs):
        pass


def play(one: Row, mode: str) -> list[Sample]:
    with capture(**one.capture) as captured:
        try:
            if isinstance(one.app, Agent):
                one.app.run(**one.inputs) if mode == "run" else asyncio.run(one.app.run_async(**one.inputs))
            elif mode == "run":
                one.app.run(one.inputs)
            elif mode == "streaming_callback":
                one.app.run({**one.inputs, "llm": {"streaming_callback": lambda chunk: None}})
            elif mode == "stream":
                asyncio.run(_stream(one.app, one.inputs))
            elif mode == "abandoned":
                asyncio.run(_abandon(one.app, one.inputs))
            else:
                asyncio.run(one.app.run_async(one.inputs))
        except PipelineRuntimeError:
            assert any(expected.error for expected in one.expected)
    assert not captured.problems, captured.problems
    return list(captured.samples)


def shown(documents: list[Document]) -> list[tuple[str | None, str | None, float | None]]:
    """What must agree; documents without a store of their own, i.e. texts of tools, have no id."""
    known = {document.id for document in DOCUMENTS}
    return [(d.content, d.id if d.id in known else None, d.score) for d in documents]


CASES = [(name, mode) for name, build in ROWS.items() for mode in build().modes]


@pytest.mark.parametrize(("name", "mode"), CASES, ids=[f"{name}-{mode}" for name, mode in CASES])
def test_shape(name: str, mode: str) -> None:
    one = ROWS[name]()
    samples = play(one, mode)
    assert [sample.answer for sample in samples] == [expected.answer for expected in one.expected]
    for sample, expected in zip(samples, one.expected, strict=True):
        notes = sample.capture
        assert notes is not None
        assert sample.question == expected.question
        assert [(c.text, c.id, c.score) for c in sample.contexts] == shown(expected.contexts)
        assert [c.metadata.get("year") for c in sample.contexts] == [d.meta.get("year") for d in expected.contexts]
        if expected.retrieved is not None:
            assert sample.retrieved is not None
            assert {c.id for c in sample.retrieved} == {d.id for d in expected.retrieved}
        assert sample.standalone_question == expected.standalone
        assert len(sample.history) == expected.history
        assert notes.complete is expected.complete
        assert bool(sample.error) is expected.error
        if expected.warned:
            assert any(expected.warned in warning for warning in notes.warnings), notes.warnings
        else:
            assert notes.warnings == ()
