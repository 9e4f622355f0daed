"""Losses planted into pipelines that cite: the journey names the stage, or says why it cannot.

These are six more pipelines of public shapes beside those of
``test_planted_losses.py``. Each finds three passages, numbers them, and asks for marks;
the last passage holds what the question needs. The answer cites all that is shown,
but where the fault is that it cites another passage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from haystack import Pipeline
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.rankers import LostInTheMiddleRanker, MetaFieldRanker
from haystack.dataclasses import ChatMessage
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core import PromptTemplate, get_response_synthesizer
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.schema import QueryBundle
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from planted_pipelines import (
    CUT,
    QUESTION,
    TEXTS,
    Expected,
    Finds,
    Found,
    Nodes,
    Says,
    check,
)

from ragmetrics_core import Sample

FAULTS = ("not in the index", "dropped", "cut", "left out", "not cited")


@dataclass(frozen=True)
class Plan:
    """What one fault changes in a pipeline."""

    fault: str

    @property
    def n_found(self) -> int:
        """How many of the passages the index holds."""
        return 2 if self.fault == "not in the index" else 3

    @property
    def n_kept(self) -> int:
        """How many the step behind the search hands on."""
        return 2 if self.fault == "dropped" else 3

    @property
    def n_written(self) -> int:
        """How many are written into the prompt."""
        return 2 if self.fault == "left out" else 3

    @property
    def answer(self) -> str:
        """The answer with its marks."""
        marks = "[1]" if self.fault == "not cited" else "[1][2][3]"
        return f"It was opened in 1874 {marks}."

    def written(self, texts: Sequence[str], label: str = "[{}] ") -> str:
        """The passages as the pipeline's own code writes them into the prompt."""
        if self.fault == "cut":
            texts = [text[:CUT] for text in texts]
        return "\n\n".join(
            label.format(number) + text
            for number, text in enumerate(texts[: self.n_written], start=1)
        )


# With facts; without a judge; the step that dropped it.
_MISSING = Expected("not_retrieved", None)
_CUT = Expected("cut", "cut")
_OUT = Expected("not_shown", "not_shown")
_CITED = Expected("not_cited", "not_cited")
_UNSEEN = Expected("not_shown", "not_shown", unknown="kept")


def _expected(dropped: Expected) -> dict[str, Expected]:
    return {
        "not in the index": _MISSING,
        "dropped": dropped,
        "cut": _CUT,
        "left out": _OUT,
        "not cited": _CITED,
    }


def _perhaps(expected: dict[str, Expected]) -> dict[str, Expected]:
    return {fault: replace(each, is_hedged=True) for fault, each in expected.items()}


EXPECTED: dict[str, dict[str, Expected]] = {
    "fusion": _expected(Expected("not_shown", "not_kept", by="fuse")),
    "agent": _expected(_UNSEEN),
    # it cuts passages into pieces: what became of a passage may be unknown
    "citation engine": _perhaps(
        _expected(Expected("not_shown", "not_kept", by="SimilarityPostprocessor"))
    ),
    "by hand": _expected(
        Expected("not_shown", "not_kept", by="SimilarityPostprocessor")
    ),
    "chat": _expected(Expected("not_shown", "not_kept", by="ranker")),
    "ranks": _expected(Expected("not_shown", "not_kept", by="join")),
}


# LangChain


PROMPT = ChatPromptTemplate.from_template("Cite.\n\n{context}\n\nAsked: {question}")


def fusion(plan: Plan) -> list[Sample]:
    """langchain-ai/rag-from-scratch, rag_from_scratch_5_to_9.ipynb: several queries, fused by rank in a function."""

    def fuse(lists: list[list[Document]]) -> list[Document]:
        by_id = {one.id: one for documents in lists for one in documents}
        return list(by_id.values())[: plan.n_kept]

    def write(documents: list[Document]) -> str:
        return plan.written([one.page_content for one in documents])

    found = Found(texts=TEXTS[: plan.n_found])
    queries = RunnableLambda(lambda question: [question, f"{question} Say."])
    chain = (
        {
            "context": queries | found.map() | RunnableLambda(fuse) | write,
            "question": RunnableLambda(lambda question: question),
        }
        | PROMPT
        | FakeListChatModel(responses=[plan.answer])
    )
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    return list(captured.samples)


class Calls(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def agent(plan: Plan) -> list[Sample]:
    """langchain-ai/docs, src/oss/langchain/rag.mdx: an agent's tool returns a text and its documents."""
    agents = pytest.importorskip("langchain.agents")

    @tool(response_format="content_and_artifact")
    def retrieve_context(query: str) -> tuple[str, list[Document]]:
        """Search."""
        documents = Found(texts=TEXTS[: plan.n_found]).invoke(query)
        texts = [one.page_content for one in documents[: plan.n_kept]]
        return plan.written(texts), documents

    call = ToolCall(name="retrieve_context", args={"query": "Velm bridge"}, id="call")
    replies = [AIMessage("", tool_calls=[call]), AIMessage(plan.answer)]
    made = agents.create_agent(Calls(messages=iter(replies)), tools=[retrieve_context])
    with capture_langchain() as captured:
        made.invoke({"messages": [{"role": "user", "content": QUESTION}]})
    return list(captured.samples)


# LlamaIndex


def _cutoff(plan: Plan) -> list[Any]:
    """A filter that drops the last passage where the plan says so."""
    cutoff = 0.5 if plan.fault == "dropped" else 0.1
    return [SimilarityPostprocessor(similarity_cutoff=cutoff)]


def _template(plan: Plan) -> PromptTemplate:
    """A prompt whose own function writes the numbered sources, cut or left out."""

    def shown(**fields: Any) -> str:
        texts = fields["context_str"].split("\n\n")
        bare = [text.partition(":\n")[2] or text for text in texts]
        return plan.written(bare, "Source {}:\n")

    return PromptTemplate(
        "Cite.\n\n{context_str}\n\nQuery: {query_str}\nAnswer: ",
        function_mappings={"context_str": shown},
    )


def citation_engine(plan: Plan) -> list[Sample]:
    """run-llama/llama_index, docs/examples/query_engine/citation_query_engine.ipynb."""
    llm = Says(answer=plan.answer)
    engine = CitationQueryEngine(
        retriever=Nodes(TEXTS[: plan.n_found]),
        llm=llm,
        response_synthesizer=get_response_synthesizer(
            llm=llm, text_qa_template=_template(plan)
        ),
        node_postprocessors=_cutoff(plan),
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    return list(captured.samples)


def by_hand(plan: Plan) -> list[Sample]:
    """A service that calls retriever, reranker and model by itself, and writes the prompt."""

    async def ask() -> None:
        found = await Nodes(TEXTS[: plan.n_found]).aretrieve(QUESTION)
        (step,) = _cutoff(plan)
        kept = step.postprocess_nodes(found, QueryBundle(QUESTION))
        texts = [one.node.get_content() for one in kept]
        prompt = (
            f"Cite.\n\n{plan.written(texts, '[Source {}]' + chr(10))}\n\n{QUESTION}"
        )
        await Says(answer=plan.answer).acomplete(prompt)

    with capture_llamaindex() as captured:
        asyncio.run(ask())
    return list(captured.samples)


# Haystack


def _loop(plan: Plan) -> str:
    documents = "documents[:2]" if plan.fault == "left out" else "documents"
    content = f"d.content[:{CUT}]" if plan.fault == "cut" else "d.content"
    return (
        f"Cite.\n\n{{% for d in {documents} %}}"
        f"[{{{{ loop.index }}}}] {{{{ {content} }}}}\n\n"
        "{% endfor %}Question: {{ query }}"
    )


def chat(plan: Plan) -> list[Sample]:
    """deepset-ai/haystack, docs of AnswerBuilder: a ranker, a chat prompt, references of the answer."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", Finds(tuple(range(plan.n_found))))
    pipeline.add_component("ranker", MetaFieldRanker("year", top_k=plan.n_kept))
    pipeline.add_component(
        "prompt",
        ChatPromptBuilder(
            [ChatMessage.from_user(_loop(plan))],
            required_variables=["documents", "query"],
        ),
    )
    pipeline.add_component("llm", MockChatGenerator(plan.answer))
    pipeline.add_component("answers", AnswerBuilder(reference_pattern=r"\[(\d+)\]"))
    pipeline.connect("retriever.documents", "ranker.documents")
    pipeline.connect("ranker.documents", "prompt.documents")
    pipeline.connect("ranker.documents", "answers.documents")
    pipeline.connect("prompt", "llm")
    pipeline.connect("llm.replies", "answers.replies")
    asked = {name: {"query": QUESTION} for name in ("retriever", "prompt", "answers")}
    with haystack_ragmetrics.capture() as captured:
        pipeline.run(asked)
    return list(captured.samples)


def ranks(plan: Plan) -> list[Sample]:
    """Two searches, fused by their ranks, and the best put at both ends of the prompt."""
    pipeline = Pipeline()
    pipeline.add_component("words", Finds((0, 1)))
    pipeline.add_component("vectors", Finds(tuple(range(plan.n_found))))
    join = DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=plan.n_kept)
    pipeline.add_component("join", join)
    prompt = PromptBuilder(_loop(plan), required_variables=["documents", "query"])
    pipeline.add_component("prompt", prompt)
    pipeline.add_component("llm", MockChatGenerator(plan.answer))
    pipeline.connect("words.documents", "join.documents")
    pipeline.connect("vectors.documents", "join.documents")
    if plan.fault == "left out":
        # the prompt leaves out the last ranks, so that they must not be moved
        pipeline.connect("join.documents", "prompt.documents")
    else:
        pipeline.add_component("ends", LostInTheMiddleRanker())
        pipeline.connect("join.documents", "ends.documents")
        pipeline.connect("ends.documents", "prompt.documents")
    pipeline.connect("prompt", "llm")
    asked = {name: {"query": QUESTION} for name in ("words", "vectors", "prompt")}
    with haystack_ragmetrics.capture() as captured:
        pipeline.run(asked)
    return list(captured.samples)


PIPELINES: dict[str, Callable[[Plan], list[Sample]]] = {
    "fusion": fusion,
    "agent": agent,
    "citation engine": citation_engine,
    "by hand": by_hand,
    "chat": chat,
    "ranks": ranks,
}


def test_every_pipeline_is_expected_to_do_something():
    assert EXPECTED.keys() == PIPELINES.keys()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_planted_loss_is_named_at_its_stage(name, fault):
    expected = EXPECTED[name][fault]
    (sample,) = PIPELINES[name](Plan(fault))
    assert sample.citations is not None, sample.citations_unknown
    check(sample, expected)
