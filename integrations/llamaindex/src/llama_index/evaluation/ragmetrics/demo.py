"""A LlamaIndex application over our own documentation, captured and scored by the embedded judge, offline."""

from __future__ import annotations

from typing import Any

from llama_index.core import VectorStoreIndex, get_response_synthesizer
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import TextNode
from llama_index.evaluation.ragmetrics.datasets import evaluate_query_engine

from ragmetrics_core import LexicalJudge, Report, Sample
from ragmetrics_core.demo.own_docs import QUESTIONS, corpus
from ragmetrics_core.lexical.sentences import split_sentences
from ragmetrics_core.lexical.text import content

_DIMENSIONS = 512
_RULE = "---------------------"  # around the contexts in the framework's prompts


class WordEmbedding(BaseEmbedding):
    """Embeds a text as counts of its hashed content words."""

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * _DIMENSIONS
        for term in set(content(text)):
            # The sum of code points stands in for a hash: Python's own differs from run to run.
            vector[sum(place * ord(letter) for place, letter in enumerate(term, start=1)) % _DIMENSIONS] += 1.0
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)


class QuotingLLM(CustomLLM):
    """Answers with the sentence of its prompt's context that shares most words with the question."""

    @property
    def metadata(self) -> LLMMetadata:
        """A name for the reports."""
        return LLMMetadata(model_name="extractive", context_window=16_384)

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        """Quote."""
        del formatted
        before, found, after = prompt.partition("Query: ")
        contexts = before.split(_RULE)[1] if found and _RULE in before else ""
        wanted = set(content(after.partition("\n")[0]))
        sentences = [sentence for part in contexts.split("\n\n") for sentence in split_sentences(part)]
        best = max(sentences, key=lambda sentence: len(wanted & set(content(sentence))), default="I don't know.")
        return CompletionResponse(text=best.strip())

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponseGen:
        """Quote, in one piece."""
        reply = self.complete(prompt, formatted)
        reply.delta = reply.text
        yield reply


def engine() -> RetrieverQueryEngine:
    """A query engine over the paragraphs of ragmetrics' documentation, with a vector index and a cut-off."""
    nodes = [TextNode(id_=paragraph.id or "", text=paragraph.text) for paragraph in corpus()]
    index = VectorStoreIndex(nodes, embed_model=WordEmbedding())
    return RetrieverQueryEngine(
        index.as_retriever(similarity_top_k=4),
        response_synthesizer=get_response_synthesizer(llm=QuotingLLM()),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.05)],
    )


def demo() -> Report:
    """Run the engine once per question, capture what it did, and score it with all four metrics.

    Returns:
        The report, one sample per question.
    """
    paragraphs = len(corpus())
    print(f"LlamaIndex: {len(QUESTIONS)} questions to a vector index of {paragraphs} paragraphs of our documentation.")
    questions = [Sample(question=question, reference=reference) for question, reference in QUESTIONS]
    return evaluate_query_engine(engine(), questions, judge=LexicalJudge(), progress=False)
