"""Applications as the public writes them, each with the sample that it must give.

Written anew after the source that each names; only model and embeddings are fakes. The
expected samples were worked out by hand from the rules.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import ANY

import pytest
from llama_index.core import (
    Document,
    PromptTemplate,
    Settings,
    VectorStoreIndex,
    __version__,
    get_response_synthesizer,
)
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import ChatMessage
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.objects import ObjectIndex
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import (
    CustomQueryEngine,
)
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.workflow import (
    Context,
    Event,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from llama_index.evaluation.ragmetrics import capture
from packaging.version import Version
from pydantic import VERSION as PYDANTIC
from pydantic import BaseModel

pytestmark = [
    # The framework's workflows look at all members of an agent, deprecated pydantic
    # ones among them.
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    pytest.mark.filterwarnings(
        "ignore:is_running called from within a step:DeprecationWarning"
    ),
    # its dataset generator
    pytest.mark.filterwarnings("ignore:Call to deprecated class:DeprecationWarning"),
    pytest.mark.filterwarnings(
        "ignore:Skipping serialization of known unserializable key"
    ),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.usefixtures("databases_let_go"),
]

Q = "Which city is the capital?"
A = "The answer of the model."
P = {
    "paris": "Paris is the capital of France and lies on the river Seine.",
    "wine": "France is renowned for its wine, above all that of Bordeaux.",
    "lyon": "Lyon lies in the south-east, where Rhone and Saone flow together.",
    "nice": "Nice is a city on the Mediterranean coast, close to Italy.",
}
PARIS, WINE, LYON, NICE = ((name, text) for name, text in P.items())
ALL = [PARIS, WINE, LYON, NICE]
QA = "Use the context below.\n{context}\nQuestion: {question}\nAnswer:"


def sample(**fields: Any) -> dict[str, Any]:
    """An expected sample; the usual one is an answered question over the first two pages."""
    usual: dict[str, Any] = {
        "question": Q,
        "standalone": None,
        "contexts": [PARIS, WINE],
        "retrieved": [PARIS, WINE],
        "answer": A,
        "history": [],
        "doubts": [],
    }
    assert set(fields) <= set(usual)
    return usual | fields


@dataclass(frozen=True)
class App:
    """An application: what it is written after, what it does, what it must give."""

    source: str
    run: Callable[[ModuleType], Any]
    samples: tuple[dict[str, Any], ...]


APPS: dict[str, App] = {}


def app(name: str, source: str, *samples: dict[str, Any]) -> Callable[[Any], Any]:
    """Add an application that runs once."""

    def add(run: Any) -> Any:
        assert name not in APPS
        APPS[name] = App(source, run, samples)
        return run

    return add


DOCS = "run-llama/llama_index: docs/"


# -- one node, twice


# -- what was cut by hand


@app(
    "a function tool that returns one of four hits",
    "eddietal2/e-commerce-backend: hugging-face/Unit_3/retriever.py",
    sample(
        question="Who lives where?",
        contexts=[PARIS],
        retrieved=ALL,
        standalone="capital",
    ),
)
def _(kit: ModuleType) -> None:
    if Version(__version__) < Version("0.14.22"):
        pytest.skip(
            "before 0.14.22 a plain function as tool runs in a thread without the"
            " caller's context"
        )
    index = VectorStoreIndex(kit.pages())

    def guests(query: str) -> str:
        """Find guests."""
        hits = index.as_retriever(similarity_top_k=4).retrieve(query)
        return "\n\n".join(hit.text for hit in hits[:1]) if hits else "Nobody."

    llm = kit.Model(
        script=[("river Seine", A), ("Who lives", [("guests", {"query": "capital"})])]
    )
    asyncio.run(
        _asked(
            FunctionAgent(tools=[FunctionTool.from_defaults(guests)], llm=llm),
            "Who lives where?",
        )
    )


class StringEngine(CustomQueryEngine):
    """Writes its prompt itself, with the first hits, and returns a text."""

    retriever: Any
    llm: Any
    most: int = 2
    letters: int = 10_000

    def custom_query(self, query_str: str) -> str:
        hits = self.retriever.retrieve(query_str)[: self.most]
        context = "\n\n".join(hit.node.get_content()[: self.letters] for hit in hits)
        return str(self.llm.complete(QA.format(context=context, question=query_str)))


@app(
    "a custom query engine with a prompt of its own",
    f"{DOCS}examples/query_engine/custom_query_engine.ipynb",
    sample(contexts=[PARIS, WINE], retrieved=ALL),
)
def _(kit: ModuleType) -> None:
    retriever = VectorStoreIndex(kit.pages()).as_retriever(similarity_top_k=4)
    StringEngine(retriever=retriever, llm=kit.Model()).query(Q)


class DocumentsBeside(CustomQueryEngine):
    """Hands its hits to the model beside the messages, as Cohere's API takes them."""

    retriever: Any
    llm: Any

    def custom_query(self, query_str: str) -> str:
        hits = self.retriever.retrieve(query_str)
        documents = [{"id": hit.node_id, "text": hit.text} for hit in hits]
        asked = [ChatMessage(role="user", content=query_str)]
        return str(self.llm.chat(asked, documents=documents).message.content)


@app(
    "documents beside the messages",
    f"{DOCS}examples/chat_engine/chat_engine_context_citations_cohere.ipynb",
    sample(),
)
def _(kit: ModuleType) -> None:
    retriever = VectorStoreIndex(kit.pages()).as_retriever(similarity_top_k=2)
    DocumentsBeside(retriever=retriever, llm=kit.Model()).query(Q)


# -- what is no evidence: descriptions of tools, building, test data, evaluators


def engine_tools(kit: ModuleType, llm: Any) -> list[QueryEngineTool]:
    """Two engines with descriptions."""
    described = {"cities": ("paris", "wine"), "regions": ("lyon", "nice")}
    return [
        QueryEngineTool.from_defaults(
            VectorStoreIndex(kit.pages(*names)).as_query_engine(
                llm=llm, similarity_top_k=2
            ),
            name=name,
            description=f"Answers all questions that somebody may have about {name}.",
        )
        for name, names in described.items()
    ]


@app(
    "an agent whose tools are retrieved",
    "run-llama/cookbooks: markdowns/Agent/openai_agent_retrieval.md",
    sample(standalone="capital"),
)
def _(kit: ModuleType) -> None:
    found = ObjectIndex.from_objects(
        engine_tools(kit, kit.Model()), index_cls=VectorStoreIndex
    )
    llm = kit.Model(script=[("tool: ", A), (Q, [("cities", {"input": "capital"})])])
    agent = FunctionAgent(
        tool_retriever=found.as_retriever(similarity_top_k=2), llm=llm
    )
    asyncio.run(_asked(agent, Q))


class Reranked(Event):
    """Hits on their way to the synthesizer."""

    nodes: list[NodeWithScore]


class Rag(Workflow):
    """One workflow that ingests when it is given documents, and answers when it is given a query."""

    @step
    async def ingest(self, ctx: Context, ev: StartEvent) -> StopEvent | None:
        if not ev.get("dirname"):
            return None
        nodes = await IngestionPipeline(transformations=[SentenceSplitter()]).arun(
            documents=[
                Document(text=P[name], doc_id=name) for name in ("paris", "wine")
            ]
        )
        return StopEvent(result=VectorStoreIndex(nodes))

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> Reranked | None:
        query, index = ev.get("query"), ev.get("index")
        if not query:
            return None
        await ctx.store.set("query", query)
        nodes = await index.as_retriever(similarity_top_k=2).aretrieve(query)
        ranker = LLMRerank(choice_batch_size=5, top_n=2, llm=Settings.llm)
        return Reranked(nodes=ranker.postprocess_nodes(nodes, query_str=query))

    @step
    async def synthesize(self, ctx: Context, ev: Reranked) -> StopEvent:
        synthesizer = get_response_synthesizer(llm=Settings.llm, streaming=True)
        return StopEvent(
            result=await synthesizer.asynthesize(
                await ctx.store.get("query"), nodes=ev.nodes
            )
        )


@app(
    "a workflow that ingests, and one that answers",
    f"{DOCS}examples/workflow/rag.ipynb",
    sample(
        contexts=[(ANY, P["wine"]), (ANY, P["paris"])],
        retrieved=[(ANY, P["paris"]), (ANY, P["wine"])],
    ),
)
def _(kit: ModuleType) -> None:
    Settings.llm = kit.Model(
        script=[("A list of documents", "Doc: 2, Relevance: 9\nDoc: 1, Relevance: 7")]
    )

    async def run() -> None:
        index = await Rag().run(dirname="data")
        result = await Rag().run(query=Q, index=index)
        assert "".join([token async for token in result.async_response_gen()]) == A

    asyncio.run(run())


# -- answers that no engine returns


def ask(kit: ModuleType, question: str, llm: Any, *, graded: bool = False) -> str:
    """Retrieval, prompt and model in plain Python."""
    hits = (
        VectorStoreIndex(kit.pages())
        .as_retriever(similarity_top_k=2)
        .retrieve(question)
    )
    if graded:
        hits = [
            hit
            for hit in hits
            if llm.complete(f"Relevant, yes or no?\n{hit.text}\n{question}").text
            == "yes"
        ]
    context = "\n\n".join(hit.get_content() for hit in hits)
    return str(llm.complete(QA.format(context=context, question=question)))


@app(
    "retriever and model in plain Python, two questions",
    "chziakas/Icarus: rag_openai.py",
    sample(),
    sample(question="What is drunk?", contexts=[WINE, PARIS], retrieved=[WINE, PARIS]),
)
def _(kit: ModuleType) -> None:
    llm = kit.Model()
    assert ask(kit, Q, llm) == ask(kit, "What is drunk?", llm) == A


class Sourced(BaseModel):
    """An answer with its sources."""

    answer: str
    sources: list[int]


@app(
    "retriever and structured_predict",
    f"{DOCS}docs/module_guides/querying/structured_outputs/index.md",
    sample(answer="Paris, by the first source."),
)
def _(kit: ModuleType) -> None:
    hits = VectorStoreIndex(kit.pages()).as_retriever(similarity_top_k=2).retrieve(Q)
    llm = kit.Model(
        script=[
            (
                "",
                [
                    (
                        "Sourced",
                        {"answer": "Paris, by the first source.", "sources": [1]},
                    )
                ],
            )
        ]
    )
    context = "\n".join(f"[{place}] {hit.text}" for place, hit in enumerate(hits, 1))
    made = llm.structured_predict(
        Sourced, PromptTemplate(QA), context=context, question=Q
    )
    assert made.sources == [1]


# -- conversations

AGAIN = "And what is drunk there?"
TURNS = [("user", Q), ("assistant", A)]
CONDENSED = "What is drunk in the capital of France?"


@app(
    "a chat that condenses the question",
    "tonykipkemboi/streamlit_pycon24_tutorial: step-by-step/step_5.py",
    sample(),
    sample(
        question=AGAIN,
        standalone=CONDENSED,
        contexts=[WINE, PARIS],
        retrieved=[WINE, PARIS],
        answer="Wine.",
        history=TURNS,
    ),
)
def _(kit: ModuleType) -> None:
    llm = kit.Model(script=[("standalone question", CONDENSED), (CONDENSED, "Wine.")])
    engine = VectorStoreIndex(kit.pages()).as_chat_engine(
        chat_mode="condense_question", llm=llm
    )
    assert [engine.chat(question).response for question in (Q, AGAIN)] == [A, "Wine."]


def _calling(kit: ModuleType) -> Any:
    """Calls the tool once per question."""
    return kit.Model(
        script=[
            ("rivers flow", "Rivers."),
            ("where the rivers are", [("store", {"input": "rivers"})]),
            ("river Seine", A),
            ("tool: ", A),
            (Q, [("store", {"input": "capital"})]),
        ]
    )


# With pydantic from 2.14 on the framework's contexts forget the memory.
A_KEPT_MEMORY: dict[str, Any] = {}
if Version(PYDANTIC) < Version("2.14"):
    A_KEPT_MEMORY["history"] = [("user", Q), ("assistant", A)]


@app(
    "an agent that remembers by its context",
    f"{DOCS}examples/agent/agent_workflow_basic.ipynb",
    sample(standalone="capital"),
    sample(
        question="Tell me where the rivers are.",
        standalone="rivers",
        contexts=[LYON, PARIS],
        retrieved=[LYON, PARIS],
        answer="Rivers.",
        **A_KEPT_MEMORY,
    ),
)
def _(kit: ModuleType) -> None:
    inner = kit.Model(
        script=[
            ("Query: rivers", "All rivers flow together."),
            ("", "It is on the river Seine."),
        ]
    )
    engine = VectorStoreIndex(kit.pages()).as_query_engine(
        llm=inner, similarity_top_k=2
    )
    tool = QueryEngineTool.from_defaults(
        engine, name="store", description="Knows the country."
    )
    agent = FunctionAgent(tools=[tool], llm=_calling(kit))

    async def run() -> None:
        ctx = Context(agent)
        assert str(await agent.run(Q, ctx=ctx)) == A
        assert (
            str(await agent.run("Tell me where the rivers are.", ctx=ctx)) == "Rivers."
        )

    asyncio.run(run())


def _choosing(
    kit: ModuleType, *queries: str
) -> tuple[Any, list[QueryEngineTool], list[Any]]:
    """A model that calls one tool over an engine for each query, the tool, and the engine."""
    llm = kit.Model(answer="The answer on wine.", script=[("Query: capital", A)])
    engine = VectorStoreIndex(kit.pages()).as_query_engine(llm=llm, similarity_top_k=2)
    tool = QueryEngineTool.from_defaults(
        engine, name="store", description="Knows the country."
    )
    calls = [("store", {"input": query}) for query in queries]
    return kit.Model(script=[(f"user: {Q}", calls)]), [tool], [engine]


@app(
    "a model calls an engine and its answer is the result",
    f"{DOCS}examples/workflow/function_calling_agent.ipynb",
    sample(standalone="capital"),
)
def _(kit: ModuleType) -> None:
    llm, tools, _ = _choosing(kit, "capital")
    assert str(llm.predict_and_call(tools, user_msg=Q)) == A


@app(
    "the same, awaited, with a conversation handed in",
    f"{DOCS}examples/llm/openai.ipynb",
    sample(
        standalone="capital",
        history=[("user", "Hello."), ("assistant", "Hello, what is it?")],
    ),
)
def _(kit: ModuleType) -> None:
    llm, tools, _ = _choosing(kit, "capital")
    told = [
        ChatMessage(role="user", content="Hello."),
        ChatMessage(role="assistant", content="Hello, what is it?"),
    ]
    assert (
        str(asyncio.run(llm.apredict_and_call(tools, chat_history=told, user_msg=Q)))
        == A
    )


# -- what a later call makes of an answer


async def _asked(agent: Any, question: str) -> None:
    assert str(await agent.run(question)) == A


@pytest.mark.parametrize("name", APPS)
def test_app(name: str, parts: ModuleType) -> None:
    """The sample is right, and says by code what is uncertain."""
    with capture() as captured:
        APPS[name].run(parts)
    assert not captured.problems
    assert len(captured.samples) == len(APPS[name].samples)
    for sample, expected in zip(captured.samples, APPS[name].samples, strict=True):
        assert sample.capture is not None
        seen = parts.read(sample)
        assert seen["doubts"] == expected["doubts"]
        assert (sample.capture.grade == "exact") == (not expected["doubts"])
        for field in ("question", "standalone", "answer", "retrieved"):
            assert seen[field] == expected[field]
        if "history_unread" not in expected["doubts"]:
            assert seen["history"] == expected["history"]
        # a text that is shown twice is one context
        texts = [text for _, text in seen["contexts"]]
        expected_texts = [text for _, text in expected["contexts"]]
        assert texts == list(dict.fromkeys(expected_texts))
