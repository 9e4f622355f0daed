"""A Haystack pipeline over a real corpus, evaluated: the documentation of ragmetrics, with reference answers.

    python examples/haystack_pipeline.py

Runs without key and network: BM25 retrieves, and a generator that only quotes stands in
for your chat model.
"""

from haystack import Document, Pipeline
from haystack.components.builders import AnswerBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.evaluators.ragmetrics import capture
from own_docs import QUESTIONS, answer, corpus

from ragmetrics_core import Sample, evaluate

TEMPLATE = """Quote the best sentence.
{% for document in documents %}
- {{ document.content }}{% endfor %}

Question: {{ query }}"""


def quote(messages: list[ChatMessage]) -> str:
    """The sentence of the prompt's documents that shares most with the question."""
    listed, _, question = (messages[-1].text or "").rpartition("\n\nQuestion: ")
    return answer(
        question, [line[2:] for line in listed.splitlines() if line.startswith("- ")]
    )


store = InMemoryDocumentStore()
store.write_documents(
    [Document(id=chunk.id or "", content=chunk.text) for chunk in corpus()]
)
pipeline = Pipeline()
pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=4))
pipeline.add_component("prompt", PromptBuilder(TEMPLATE))
pipeline.add_component(
    "generator", MockChatGenerator(response_fn=quote, model="quoting")
)
pipeline.add_component("answers", AnswerBuilder())
pipeline.connect("retriever.documents", "prompt.documents")
pipeline.connect("prompt.prompt", "generator.messages")
pipeline.connect("generator.replies", "answers.replies")
pipeline.connect("retriever.documents", "answers.documents")

samples: list[Sample] = []
for question, reference in QUESTIONS:
    with capture(reference=reference) as captured:
        pipeline.run({"query": question})
    samples += captured.samples

report = evaluate(
    samples,
    judge="lexical",  # or judge=HaystackModel(your_chat_generator)
    progress=False,
)
print(report.table())
