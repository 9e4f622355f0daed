"""Shapes of Haystack applications: what is retrieved, ranked, joined and dropped."""

from __future__ import annotations

from typing import Any

from haystack import Document, component
from haystack.components.builders import AnswerBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.rankers import LostInTheMiddleRanker, MetaFieldRanker
from haystack.components.retrievers import FilterRetriever
from haystack.components.writers import DocumentWriter
from haystack.dataclasses import ExtractedAnswer
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_rows import (
    DOCUMENTS,
    ONLY_SEARCHED,
    STORE,
    TEMPLATE,
    Build,
    Expected,
    Reversing,
    Row,
    adding_to,
    asked,
    bm25,
    connected,
    first_sentence,
    llm,
    retriever,
)

ROWS: dict[str, Build] = {}
row = adding_to(ROWS)


@component
class Reading:
    """An extractive reader."""

    @component.output_types(answers=list[ExtractedAnswer])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        made = [
            ExtractedAnswer(
                query=query,
                score=0.9 - n / 10,
                data=(d.content or "")[-5:-1],
                document=d,
            )
            for n, d in enumerate(documents)
        ]
        return {"answers": made}


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
    kept = MetaFieldRanker(meta_field="year", weight=1.0, top_k=2).run(
        documents=bm25()
    )["documents"]
    assert [d.id for d in kept] != [d.id for d in bm25()]
    return Row(
        app,
        asked("retriever", "prompt", "answers"),
        [Expected(kept, first_sentence(kept), retrieved=bm25())],
    )


@row
def two_document_sockets() -> Row:
    part = "{{% for d in {name} %}}- {{{{ d.content }}}}\n{{% endfor %}}"
    template = (
        part.format(name="manuals")
        + part.format(name="tickets")
        + "Question: {{ query }}"
    )
    app = connected(
        ("one.documents", "prompt.manuals"),
        ("two.documents", "prompt.tickets"),
        ("prompt", "llm"),
        one=retriever(1),
        two=FilterRetriever(
            STORE, {"field": "meta.year", "operator": "==", "value": 1911}
        ),
        prompt=PromptBuilder(template),
        llm=llm(),
    )
    both = [*bm25(top_k=1), DOCUMENTS[2]]
    return Row(
        app,
        asked("one", "prompt"),
        [Expected(both, first_sentence(both), retrieved=both)],
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
    return Row(
        app,
        asked("prompt"),
        [Expected([], first_sentence([]), retrieved=[])],
    )


@row
def no_retrieval() -> Row:
    app = connected(
        ("prompt", "llm"), prompt=PromptBuilder("Question: {{ query }}"), llm=llm()
    )
    return Row(
        app,
        asked("prompt"),
        [Expected([], first_sentence([]), doubts=("no_search",))],
    )


@row
def retrieval_only() -> Row:
    app = connected(
        ("retriever.documents", "ranker.documents"),
        retriever=retriever(),
        ranker=LostInTheMiddleRanker(),
    )
    ranked = LostInTheMiddleRanker().run(documents=bm25())["documents"]
    return Row(
        app,
        asked("retriever"),
        [Expected(ranked, None, retrieved=bm25(), doubts=ONLY_SEARCHED)],
    )


@row
def indexing() -> Row:
    app = connected(
        ("filter.documents", "writer.documents"),
        filter=Reversing(),
        writer=DocumentWriter(InMemoryDocumentStore()),
    )
    return Row(app, {"filter": {"documents": DOCUMENTS}}, [])


@row
def documents_without_text() -> Row:
    store = InMemoryDocumentStore()
    store.write_documents(
        [Document(id="image", content=None, meta={"year": 1856}), DOCUMENTS[0]]
    )
    app = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt", "llm"),
        retriever=FilterRetriever(store),
        prompt=PromptBuilder(TEMPLATE),
        llm=MockChatGenerator("1856"),
    )
    return Row(
        app,
        asked("prompt"),
        [Expected([DOCUMENTS[0]], "1856")],
    )


@row
def extractive() -> Row:
    app = connected(
        ("retriever.documents", "reader.documents"),
        retriever=retriever(),
        reader=Reading(),
    )
    return Row(
        app,
        asked("retriever", "reader"),
        [Expected(bm25(), "1856", retrieved=bm25())],
    )
