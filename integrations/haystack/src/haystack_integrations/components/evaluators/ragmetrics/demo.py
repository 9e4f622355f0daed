"""A Haystack pipeline over the documentation of ragmetrics, evaluated with the embedded judge."""

from haystack import Document, Pipeline
from haystack.components.builders import AnswerBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.evaluators.ragmetrics.capturing import evaluate_pipeline

from ragmetrics_core.data.sample import Context
from ragmetrics_core.demo.own_docs import QUESTIONS, answer, corpus
from ragmetrics_core.reporting.report import Report

_TEMPLATE = """Quote the best sentence.
{% for document in documents %}
- {{ document.content }}{% endfor %}

Question: {{ query }}"""


def demo() -> Report:
    """Retrieve with BM25, answer by quoting, and score every turn with all metrics; no key, no network."""
    chunks = corpus()
    print(
        f"Haystack: BM25 retriever, prompt builder, a generator that only quotes, answer builder, over {len(chunks)} "
        "paragraphs of the documentation; captured by the tracer, judged by the embedded judge (shared words)."
    )
    inputs = [{"query": question} for question, _ in QUESTIONS]
    references = [reference for _, reference in QUESTIONS]
    return evaluate_pipeline(pipeline(chunks), inputs, references=references, judge="lexical", progress=False)


def pipeline(chunks: list[Context]) -> Pipeline:
    """A retrieval pipeline over these chunks, without any model."""
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=chunk.id or "", content=chunk.text) for chunk in chunks])
    made = Pipeline()
    made.add_component("retriever", InMemoryBM25Retriever(store, top_k=4))
    made.add_component("prompt", PromptBuilder(_TEMPLATE))
    made.add_component("generator", MockChatGenerator(response_fn=quote, model="quoting"))
    made.add_component("answers", AnswerBuilder())
    made.connect("retriever.documents", "prompt.documents")
    made.connect("prompt.prompt", "generator.messages")
    made.connect("generator.replies", "answers.replies")
    made.connect("retriever.documents", "answers.documents")
    return made


def quote(messages: list[ChatMessage]) -> str:
    """The sentence of the prompt's documents that shares most with the question."""
    listed, _, question = (messages[-1].text or "").rpartition("\n\nQuestion: ")
    return answer(question, [line[2:] for line in listed.splitlines() if line.startswith("- ")])
