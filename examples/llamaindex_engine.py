"""A LlamaIndex query engine over a real corpus, evaluated: the documentation of ragmetrics, with reference answers.

    python examples/llamaindex_engine.py

Runs without key and network: `PagesRetriever` and `QuotingLLM` stand in for your index
and LLM.
"""

from typing import Any

from llama_index.core import get_response_synthesizer
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import (
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture
from own_docs import QUESTIONS, answer, corpus, retrieve

from ragmetrics_core import Sample, evaluate

RULE = "---------------------"  # around the contexts in the framework's prompts


class PagesRetriever(BaseRetriever):
    """Finds the paragraphs of our documentation that share most words with a query."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = retrieve(query_bundle.query_str, corpus())
        return [
            NodeWithScore(
                node=TextNode(id_=one.id or "", text=one.text), score=one.score
            )
            for one in found
        ]


class QuotingLLM(CustomLLM):
    """Answers with the sentence of its prompt's context that shares most words with the question."""

    @property
    def metadata(self) -> LLMMetadata:
        """A name for the reports."""
        return LLMMetadata(model_name="extractive", context_window=16_384)

    def complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponse:
        """Quote."""
        del formatted
        before, found, after = prompt.partition("Query: ")
        contexts = before.split(RULE)[1] if found and RULE in before else ""
        return CompletionResponse(
            text=answer(after.partition("\n")[0], contexts.split("\n\n")).strip()
        )

    def stream_complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponseGen:
        """Quote, in one piece."""
        reply = self.complete(prompt, formatted)
        reply.delta = reply.text
        yield reply


engine = RetrieverQueryEngine(
    PagesRetriever(),
    response_synthesizer=get_response_synthesizer(llm=QuotingLLM()),
    node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.3)],
)
samples: list[Sample] = []
for question, reference in QUESTIONS:
    with capture(reference=reference) as captured:
        engine.query(question)
    samples += captured.samples
# or judge=your_llm
report = evaluate(samples, judge="lexical", progress=False)
print(report.table())
