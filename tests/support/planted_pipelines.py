"""Parts of applications into which losses are planted, and what their journeys must name.

Three passages are found; the last holds what the question needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from haystack import Document as HaystackDocument
from haystack import component
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core import PromptTemplate, get_response_synthesizer
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from losses import losses

from ragmetrics_core import (
    ContextUtilization,
    Report,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.data import Fact, SampleResult
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.reporting.journey import Journey, Loss

QUESTION = "When was the Velm bridge opened?"
ANSWER = "It was opened in 1874."
FACT = "opened at last in 1874"
TEXTS = (
    "The Velm is a river of the north; it rises in the hills and ends in a wide lake.",
    "Bridges are built of stone, of iron or of wood, and some of them carry a railway.",
    "After years of quarrels in the council of the town the Velm bridge was opened at"
    " last in 1874, by the mayor.",
)
CUT = 60  # signs of each passage that a prompt shows where it cuts


@dataclass(frozen=True)
class Expected:
    """What the journey must name: of facts, of passages without a judge, and by which step."""

    loss: Loss | None  # None where nobody knows what became of the facts
    without_judge: Loss | None
    by: str = ""
    unknown: str = ""  # a stage of which it must say that nothing is known
    is_hedged: bool = False  # the passages may tell nothing


def in_prompt(texts: Sequence[str], fault: str) -> str:
    """The passages as a pipeline's own function writes them into the prompt."""
    if fault == "cut":
        texts = [text[:CUT] for text in texts]
    if fault == "not shown":
        texts = texts[:2]
    return "\n\n".join(texts)


# LangChain

PROMPT = ChatPromptTemplate.from_template("Use only:\n{context}\n\nAsked: {question}")


class Found(BaseRetriever):
    texts: tuple[str, ...] = TEXTS

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return [Document(text, id=f"d{place}") for place, text in enumerate(self.texts)]


class FirstTwo(BaseDocumentCompressor):
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        return documents[:2]


def langchain(find: Any, fault: str) -> list[Sample]:
    """A chain that writes into its prompt what ``find`` brings."""

    def format_docs(documents: list[Document]) -> str:
        return in_prompt([one.page_content for one in documents], fault)

    chain = (
        {"context": find | format_docs, "question": RunnablePassthrough()}
        | PROMPT
        | FakeListChatModel(responses=[ANSWER])
        | StrOutputParser()
    )
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    return list(captured.samples)


# LlamaIndex


class Says(CustomLLM):
    """Says its answer, and ranks the first two passages best where it is asked to rank."""

    answer: str = ANSWER

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", context_window=8192, num_output=256)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        is_ranking = "Relevance" in prompt or "relevance" in prompt
        ranked = "Doc: 1, Relevance: 9\nDoc: 2, Relevance: 8"
        return CompletionResponse(text=ranked if is_ranking else self.answer)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        yield self.complete(prompt)


class Nodes(LlamaRetriever):
    def __init__(
        self, texts: Sequence[str] = TEXTS, scores: Sequence[float] = (0.9, 0.8, 0.3)
    ) -> None:
        self.texts = texts
        self.scores = scores
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=f"d{place}", text=text), score=self.scores[place]
            )
            for place, text in enumerate(self.texts)
        ]


def synthesizer(fault: str) -> Any:
    """Writes the prompt by a function of its own."""

    def shown(**fields: Any) -> str:
        return in_prompt(fields["context_str"].split("\n\n"), fault)

    template = PromptTemplate(
        "Use only:\n{context_str}\n\nAsked: {query_str}",
        function_mappings={"context_str": shown},
    )
    return get_response_synthesizer(llm=Says(), text_qa_template=template)


# Haystack


@component
class Finds:
    """A retriever of some of the texts."""

    def __init__(self, places: tuple[int, ...], texts: tuple[str, ...] = TEXTS) -> None:
        self.places = places
        self.texts = texts

    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        found = [
            HaystackDocument(
                id=f"d{place}",
                content=self.texts[place],
                score=0.9 - place / 4,
                meta={"year": -place},
            )
            for place in self.places
        ]
        return {"documents": found}


# Journeys

JUDGE = ScriptedJudge(
    {
        Useful: lambda asked: {"useful": FACT in asked["chunk"]},
        FactInContext: lambda asked: {"covered": asked["fact"] in asked["context"]},
    }
)


def journeys(sample: Sample) -> tuple[Journey, Journey]:
    """The journey where facts are asked about, and that without a judge."""
    asked = sample.model_copy(update={"facts": (Fact(text=FACT),)})
    metrics = [ContextUtilization(), RetrievalAccuracy()]
    judged = evaluate([asked], metrics=metrics, judge=JUDGE)
    unjudged = Report([SampleResult(index=0, sample=sample, results={})])
    return judged.journey(), unjudged.journey()


def check(sample: Sample, expected: Expected) -> Journey:
    """Assert that the journey names the expected loss; return that with facts asked about."""
    judged, unjudged = journeys(sample)
    facts = losses(judged)
    assert facts <= {expected.loss}, judged
    # of a passage that was cut nobody tells whether the fact is left
    is_fact_lost = expected.loss == "not_shown"
    assert facts or judged.facts_unknown or not is_fact_lost
    of_passages = losses(unjudged, "passages")
    assert of_passages & {"not_kept", "not_shown", "cut"} <= {expected.without_judge}
    assert expected.is_hedged or expected.without_judge in {None, *of_passages}
    kept = unjudged.of("not_kept")
    droppers = [] if kept is None else list(kept.by)
    assert droppers == ([expected.by] if expected.by else [])
    unknown = {stage for stage, _ in judged.unknown}
    assert not expected.unknown or expected.unknown in unknown
    return judged
