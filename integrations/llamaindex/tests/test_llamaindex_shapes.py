"""Every shape of application stands here once, with the sample that it must give."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import ANY

import pytest
from llama_index.core import StorageContext, VectorStoreIndex, get_response_synthesizer
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.evaluation import FaithfulnessEvaluator
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from llama_index.core.indices.query.query_transform.base import (
    HyDEQueryTransform,
    StepDecomposeQueryTransform,
)
from llama_index.core.llms import ChatMessage, LLMMetadata
from llama_index.core.node_parser import SentenceWindowNodeParser
from llama_index.core.postprocessor import (
    LLMRerank,
    MetadataReplacementPostProcessor,
    SimilarityPostprocessor,
)
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    FLAREInstructQueryEngine,
    MultiStepQueryEngine,
    RetrieverQueryEngine,
    RetryQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
    RouterRetriever,
)
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    TextNode,
)
from llama_index.core.selectors import LLMMultiSelector, LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture, samples_from
from pydantic import BaseModel

from ragmetrics_core import Sample

QUESTION = "What is the capital of France?"
ANSWER = "The answer."
PARIS = ("paris", 0.9, "file: france.md\n\nParis is the capital of France.")
WINE = ("wine", 0.5, "France is renowned for wine.")
LYON = ("lyon", 0.2, "Lyon lies on the Rhône.")
ALL = (PARIS, WINE, LYON)
CONDENSED = "Which city is France's capital?"
HISTORY = (
    ChatMessage(role="user", content="Hello"),
    ChatMessage(role="assistant", content="Hi"),
)


pytestmark = [
    # The framework's workflows look at all members of an agent, deprecated pydantic
    # ones among them.
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    # Its agents ask for a deprecated property.
    pytest.mark.filterwarnings(
        "ignore:is_running called from within a step:DeprecationWarning"
    ),
    # Its chat memory never closes its database.
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.usefixtures("databases_let_go"),
]


@dataclass
class Expected:
    """What a sample must hold; contexts as (id, score, text).

    ``doubts`` are the codes of all that is uncertain, and ``hedged`` the fields that may
    be wrong for that reason.
    """

    question: str | None = QUESTION
    contexts: tuple[tuple[Any, float | None, str], ...] = ALL
    retrieved: tuple[tuple[Any, float | None, str], ...] | None = ALL
    answer: str | None = ANSWER
    standalone: str | None = None
    error: str | None = None
    complete: bool = True
    history: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    # doubts that the oldest releases, whose engines call otherwise, do not leave
    newer: tuple[str, ...] = ()
    hedged: tuple[str, ...] = ()

    def check(self, sample: Sample) -> None:
        """The sample is right, and says by code what is uncertain."""
        notes = sample.capture
        assert notes is not None
        assert (sample.error or "").startswith(self.error or "")
        assert (sample.error is None) == (self.error is None)
        assert notes.complete == self.complete
        of_oldest = {*self.doubts}.difference(self.newer)
        assert set(notes.doubts) in ({*self.doubts}, of_oldest)
        assert (notes.grade == "exact") == (not notes.doubts)
        assert sample.question == self.question
        if "contexts" not in self.hedged:
            assert _triples(sample.known_contexts) == self.contexts
        assert (
            None if sample.retrieved is None else _triples(sample.retrieved)
        ) == self.retrieved
        assert sample.answer == self.answer
        if "standalone" not in self.hedged:
            assert sample.standalone_question == self.standalone
        assert tuple(turn.content for turn in sample.history) == self.history


def _triples(contexts: Any) -> tuple[tuple[Any, float | None, str], ...]:
    return tuple((context.id, context.score, context.text) for context in contexts)


@dataclass
class Kit:
    """What the rows build applications of."""

    parts: ModuleType
    nodes: list[NodeWithScore] = field(default_factory=list)

    def __post_init__(self) -> None:
        make = self.parts.node
        self.nodes = [
            make(
                "paris",
                "Paris is the capital of France.",
                0.9,
                metadata={"file": "france.md"},
            ),
            make("wine", "France is renowned for wine.", 0.5),
            make("lyon", "Lyon lies on the Rhône.", 0.2),
        ]

    def llm(self, **script: Any) -> Any:
        return self.parts.ScriptedLLM(**script)

    def retriever(self, *places: int, **settings: Any) -> Any:
        return self.parts.FixedRetriever(
            [self.nodes[place] for place in places or (0, 1, 2)], **settings
        )

    def engine(
        self,
        *places: int,
        post: Any = (),
        llm: Any = None,
        mode: str = "compact",
        **settings: Any,
    ) -> Any:
        synthesizer = get_response_synthesizer(
            llm=llm or self.llm(), response_mode=ResponseMode(mode), **settings
        )
        return RetrieverQueryEngine(
            self.retriever(*places),
            response_synthesizer=synthesizer,
            node_postprocessors=list(post),
        )

    def tool(
        self, *places: int, name: str = "store", answer: str = ANSWER
    ) -> QueryEngineTool:
        engine = self.engine(*places, llm=self.llm(script={"": answer}))
        return QueryEngineTool.from_defaults(engine, name=name, description=name)


Row = tuple[Callable[[Kit], Any], list[Expected]]
TABLE: dict[str, Row] = {}


def row(
    name: str, *expected: Expected
) -> Callable[[Callable[[Kit], Any]], Callable[[Kit], Any]]:
    """Add a row: an application that runs once, and its samples."""

    def add(run: Callable[[Kit], Any]) -> Callable[[Kit], Any]:
        assert name not in TABLE
        TABLE[name] = (run, list(expected))
        return run

    return add


# -- query engines: response modes, sync, async, streamed

MODES: dict[str, dict[str, Any]] = {
    # it shows its model no nodes
    "generation": {"hedged": ("contexts",), "doubts": ("by_data_flow",)},
    "no_text": {"answer": None, "doubts": ("no_answer",)},
    "context_only": {"answer": None, "doubts": ("no_answer",)},
    "accumulate": {
        "answer": "\n---------------------\n".join(
            f"Response {n}: {ANSWER}" for n in (1, 2, 3)
        ),
    },
    "compact_accumulate": {"answer": f"Response 1: {ANSWER}"},
}
for mode in ResponseMode:
    row(f"response mode {mode.value}", Expected(**MODES.get(mode.value, {})))(
        lambda kit, mode=mode.value: kit.engine(mode=mode).query(QUESTION)
    )


def only_searching(kit: Kit, mode: str, *, in_workflow: bool = False) -> None:
    """An engine that asks no model, and a model that is shown what it found."""
    engine = kit.engine(mode=mode)

    def ask(question: str) -> str:
        response = engine.query(question)
        shown = str(response) if mode == "context_only" else _shown(response)
        return str(kit.llm().complete(f"{shown}\n\nQuestion: {question}"))

    class Asking(Workflow):
        @step
        async def ask(self, event: StartEvent) -> StopEvent:
            return StopEvent(result=ask(event.query))

    async def run() -> None:
        await Asking(timeout=20).run(query=QUESTION)

    if in_workflow:
        asyncio.run(run())
    else:
        ask(QUESTION)


def _shown(response: Any) -> str:
    found = response.source_nodes
    return "\n\n".join(each.get_content(MetadataMode.LLM) for each in found)


for mode in ("no_text", "context_only"):
    row(f"{mode}: an engine that only searches, and a model by itself", Expected())(
        partial(only_searching, mode=mode)
    )
    row(f"{mode}: an engine that only searches, in a workflow", Expected())(
        partial(only_searching, mode=mode, in_workflow=True)
    )


@row(
    "an engine asked what a model wrote and code changed",
    Expected(question=f"France: {QUESTION.lower()}", doubts=("which_turn",)),
)
def _(kit: Kit) -> None:
    written = kit.llm(script={"": QUESTION}).complete("Rewrite: capital pls")
    kit.engine().query(f"France: {str(written).lower()}")


@row("an engine that rewrites the question and only searches", Expected())
def _(kit: Kit) -> None:
    rewriting = HyDEQueryTransform(kit.llm(script={"": "Perhaps it is Lyon."}))
    engine = TransformQueryEngine(kit.engine(mode="context_only"), rewriting)
    shown = engine.query(QUESTION)
    kit.llm().complete(f"{shown}\n\nQuestion: {QUESTION}")


class Unrecorded(CustomQueryEngine):
    """Answers by a client that nothing records, from what another engine found."""

    inner: Any

    def custom_query(self, query_str: str) -> str:
        assert str(self.inner.query(query_str))
        return "It is Paris."


UNRECORDED = Expected(answer="It is Paris.", doubts=("by_data_flow",))


@row("an engine that only searches, inside one that answers", UNRECORDED)
def _(kit: Kit) -> None:
    Unrecorded(inner=kit.engine(mode="context_only")).query(QUESTION)


NEXT_QUESTION = "And for what is it renowned?"


@row(
    "an engine that only searches, and a chat of two turns",
    Expected(),
    Expected(question=NEXT_QUESTION, history=(QUESTION, ANSWER)),
)
def _(kit: Kit) -> None:
    talk: list[ChatMessage] = []
    for question in (QUESTION, NEXT_QUESTION):
        shown = kit.engine(mode="context_only").query(question)
        system = ChatMessage(role="system", content=f"Use this context:\n{shown}")
        asked = ChatMessage(role="user", content=question)
        reply = kit.llm().chat([system, *talk, asked])
        talk += [asked, reply.message]


CUT_OFF = SimilarityPostprocessor(similarity_cutoff=0.95)
NO_NODES = {"contexts": (), "answer": "Empty Response"}


@row("a cut-off that leaves no node: no model is asked", Expected(**NO_NODES))
def _(kit: Kit) -> None:
    kit.engine(post=[CUT_OFF]).query(QUESTION)


@row("a cut-off that leaves no node of a chat", Expected(**NO_NODES))
def _(kit: Kit) -> None:
    ContextChatEngine.from_defaults(
        kit.retriever(), llm=kit.llm(), node_postprocessors=[CUT_OFF]
    ).chat(QUESTION)


@row(
    "a cut-off that leaves no node of an engine that only searches",
    Expected(contexts=(), answer=None, doubts=("no_answer",)),
)
def _(kit: Kit) -> None:
    shown = kit.engine(mode="context_only", post=[CUT_OFF]).query(QUESTION)
    kit.llm().complete(f"{shown}\n\nQuestion: {QUESTION}")


@row("query", Expected())
def _(kit: Kit) -> None:
    kit.engine().query(QUESTION)


@row(
    "query of an index",
    Expected(
        contexts=(("a", ANY, "Paris is a capital"),),
        retrieved=(("a", ANY, "Paris is a capital"),),
    ),
)
def _(kit: Kit) -> None:
    index = VectorStoreIndex(
        [TextNode(id_="a", text="Paris is a capital"), TextNode(id_="b", text="wine")]
    )
    index.as_query_engine(similarity_top_k=1).query(QUESTION)


@row("query streamed, as text", Expected())
def _(kit: Kit) -> None:
    response = kit.engine(streaming=True).query(QUESTION)
    assert str(response) == response.get_response().response == ANSWER


class City(BaseModel):
    """A structured answer."""

    name: str


@row("structured answer", Expected(answer='{"name":"Paris"}'))
def _(kit: Kit) -> None:
    llm = kit.llm(script={"": '{"name": "Paris"}'}).as_structured_llm(City)
    assert kit.engine(llm=llm).query(QUESTION).response == City(name="Paris")


@row("an image among the nodes", Expected(contexts=(PARIS,), retrieved=(PARIS,)))
def _(kit: Kit) -> None:
    picture = ImageNode(id_="image", image_path="x.png", metadata={"file": "x.png"})
    image = NodeWithScore(node=picture, score=0.8)
    kit.nodes.append(image)
    kit.engine(0, 3).query(QUESTION)


# -- postprocessors and rerankers


@row(
    "postprocessor",
    Expected(
        contexts=(PARIS, WINE),
    ),
)
def _(kit: Kit) -> None:
    kit.engine(post=[SimilarityPostprocessor(similarity_cutoff=0.4)]).query(QUESTION)


RERANKED = (("lyon", 9.0, LYON[2]), ("paris", 7.0, PARIS[2]))
RANKING = {"A list of documents": "Doc: 3, Relevance: 9\nDoc: 1, Relevance: 7"}


@row(
    "reranker, then postprocessor",
    Expected(
        contexts=RERANKED[:1],
    ),
)
def _(kit: Kit) -> None:
    post = [
        LLMRerank(llm=kit.llm(script=RANKING), top_n=2),
        SimilarityPostprocessor(similarity_cutoff=8),
    ]
    kit.engine(post=post).query(QUESTION)


def reranked(kit: Kit, post: Any) -> None:
    """The framework makes no span of what a reranker does async."""
    asyncio.run(kit.engine(post=[post]).aquery(QUESTION))


row("an async reranker", Expected(contexts=RERANKED))(
    lambda kit: reranked(kit, LLMRerank(llm=kit.llm(script=RANKING), top_n=2))
)
row("an async reranker that asks for an order", Expected(contexts=(LYON, PARIS)))(
    lambda kit: reranked(
        kit, RankGPTRerank(llm=kit.llm(script={"passages": "[3] > [1]"}), top_n=2)
    )
)


# -- retrievers

WINDOW = "One is odd. Two is even. Three is odd."


@row(
    "sentence window",
    Expected(contexts=((ANY, 1.0, WINDOW),), retrieved=((ANY, 1.0, "Two is even."),)),
)
def _(kit: Kit) -> None:
    from llama_index.core import Document

    nodes = SentenceWindowNodeParser.from_defaults(
        window_size=1,
        sentence_splitter=lambda text: [
            f"{part.strip()}." for part in text.split(".") if part.strip()
        ],
    ).get_nodes_from_documents([Document(text=f"{WINDOW} Four is even.")])
    kit.nodes[0] = NodeWithScore(node=nodes[1], score=1.0)
    kit.engine(
        0, post=[MetadataReplacementPostProcessor(target_metadata_key="window")]
    ).query(QUESTION)


@row(
    "auto-merging retriever",
    Expected(
        contexts=(("parent", pytest.approx(0.7), "Both halves."),),
        retrieved=(("parent", pytest.approx(0.7), "Both halves."),),
    ),
)
def _(kit: Kit) -> None:
    parent = TextNode(id_="parent", text="Both halves.")
    halves = [TextNode(id_=name, text=f"{name} half.") for name in ("first", "second")]
    parent.relationships[NodeRelationship.CHILD] = [
        half.as_related_node_info() for half in halves
    ]
    for half in halves:
        half.relationships[NodeRelationship.PARENT] = parent.as_related_node_info()
    store = SimpleDocumentStore()
    store.add_documents([parent, *halves])
    inner = kit.parts.FixedRetriever(
        [
            NodeWithScore(node=half, score=score)
            for half, score in zip(halves, (0.9, 0.5), strict=True)
        ]
    )
    merging = AutoMergingRetriever(inner, StorageContext.from_defaults(docstore=store))
    RetrieverQueryEngine(
        merging, response_synthesizer=get_response_synthesizer(llm=kit.llm())
    ).query(QUESTION)


@row("recursive retriever", Expected(contexts=(WINE,), retrieved=(WINE,)))
def _(kit: Kit) -> None:
    root = kit.parts.FixedRetriever(
        [
            NodeWithScore(
                node=IndexNode(id_="pointer", text="see inner", index_id="inner"),
                score=0.3,
            )
        ]
    )
    recursive = RecursiveRetriever(
        "root", retriever_dict={"root": root, "inner": kit.retriever(1)}
    )
    RetrieverQueryEngine(
        recursive, response_synthesizer=get_response_synthesizer(llm=kit.llm())
    ).query(QUESTION)


@row(
    "fusion retriever",
    Expected(contexts=(PARIS, WINE, LYON), retrieved=(PARIS, WINE, LYON)),
)
def _(kit: Kit) -> None:
    fusion = QueryFusionRetriever(
        [kit.retriever(0, 2), kit.retriever(1)],
        llm=kit.llm(script={"generate": "other question"}),
        num_queries=2,
        similarity_top_k=3,
        use_async=False,
    )
    RetrieverQueryEngine(
        fusion, response_synthesizer=get_response_synthesizer(llm=kit.llm())
    ).query(QUESTION)


ONE = {"Some choices": json.dumps([{"choice": 2, "reason": "fits"}])}
TWO = {
    "Some choices": json.dumps(
        [{"choice": 1, "reason": "fits"}, {"choice": 2, "reason": "fits"}]
    )
}


@row("router retriever", Expected(contexts=(WINE,), retrieved=(WINE,)))
def _(kit: Kit) -> None:
    tools = [
        RetrieverTool.from_defaults(kit.retriever(place), description=str(place))
        for place in (0, 1)
    ]
    router = RouterRetriever(
        LLMSingleSelector.from_defaults(llm=kit.llm(script=ONE)), tools, llm=kit.llm()
    )
    RetrieverQueryEngine(
        router, response_synthesizer=get_response_synthesizer(llm=kit.llm())
    ).query(QUESTION)


# -- composed query engines


@row(
    "citation query engine",
    Expected(
        contexts=(
            (ANY, 0.9, "file: france.md\n\nSource 1:\nParis is the capital of France."),
            (ANY, 0.5, "Source 2:\nFrance is renowned for wine.\n"),
        ),
        retrieved=(PARIS, WINE),
        answer="Paris [1].",
    ),
)
def _(kit: Kit) -> None:
    synthesizer = get_response_synthesizer(
        llm=kit.llm(script={"Source 1": "Paris [1]."})
    )
    CitationQueryEngine(
        kit.retriever(0, 1),
        llm=kit.llm(),
        response_synthesizer=synthesizer,
        citation_chunk_size=512,
    ).query(QUESTION)


class TwoQuestions(BaseQuestionGenerator):
    """Always asks two questions of two tools."""

    def generate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return [
            SubQuestion(sub_question="Which city?", tool_name="cities"),
            SubQuestion(sub_question="Which drink?", tool_name="drinks"),
        ]

    async def agenerate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return self.generate(tools, query)

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass


def sub_questions(kit: Kit, *, use_async: bool) -> SubQuestionQueryEngine:
    return SubQuestionQueryEngine(
        question_gen=TwoQuestions(),
        response_synthesizer=get_response_synthesizer(
            llm=kit.llm(), use_async=use_async
        ),
        query_engine_tools=[
            kit.tool(0, name="cities", answer="City answer."),
            kit.tool(1, name="drinks", answer="Drink answer."),
        ],
        verbose=False,
        use_async=use_async,
    )


@row(
    "sub-question query engine",
    Expected(
        contexts=(PARIS, WINE),
        retrieved=(PARIS, WINE),
    ),
)
def _(kit: Kit) -> None:
    sub_questions(kit, use_async=False).query(QUESTION)


@row(
    "multi-step query engine",
    Expected(
        contexts=(PARIS, WINE, LYON),
        standalone="Step question?",
    ),
)
def _(kit: Kit) -> None:
    llm = kit.llm(script={"The original question": "Step question?"})
    MultiStepQueryEngine(
        query_engine=kit.engine(),
        query_transform=StepDecomposeQueryTransform(llm=llm, verbose=False),
        response_synthesizer=get_response_synthesizer(llm=kit.llm()),
        num_steps=2,
    ).query(QUESTION)


def router(kit: Kit, selector: Any, script: dict[str, str]) -> RouterQueryEngine:
    tools = [kit.tool(0, answer="Paris."), kit.tool(1, answer="Wine.")]
    return RouterQueryEngine(
        selector.from_defaults(llm=kit.llm(script=script)), tools, llm=kit.llm()
    )


@row(
    "router query engine with several choices",
    Expected(
        contexts=(PARIS, WINE),
        retrieved=(PARIS, WINE),
        # each engine's answer is a word
        doubts=("further_call",),
    ),
)
def _(kit: Kit) -> None:
    router(kit, LLMMultiSelector, TWO).query(QUESTION)


class SecondTime(BaseEvaluator):
    """Accepts the second answer; runs a hidden engine like the framework's own evaluators."""

    def __init__(self, hidden: Any) -> None:
        self.hidden = hidden
        self.calls = 0

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass

    async def aevaluate(
        self, query: Any = None, response: Any = None, contexts: Any = None, **_: Any
    ) -> EvaluationResult:
        await self.hidden.aquery("hidden")
        self.calls += 1
        passing = self.calls > 1
        return EvaluationResult(
            query=query,
            response=response,
            passing=passing,
            feedback="Try again.",
            score=1.0,
        )


@row(
    "retry query engine",
    # the second prompt holds the first answer, whatever its length
    Expected(
        contexts=(PARIS, WINE),
        retrieved=(PARIS, WINE),
        doubts=("further_call",),
        hedged=("contexts",),
    ),
)
def _(kit: Kit) -> None:
    asked: list[str] = []

    def nodes(question: str) -> list[NodeWithScore]:
        asked.append(question)
        return [kit.nodes[len(asked) - 1]]

    engine = RetrieverQueryEngine(
        kit.parts.FixedRetriever(nodes),
        response_synthesizer=get_response_synthesizer(llm=kit.llm()),
    )
    RetryQueryEngine(engine, SecondTime(kit.engine(2))).query(QUESTION)
    assert len(asked) == 2


@row(
    "FLARE query engine",
    # No prompt of the engine's own shows a node.
    Expected(
        contexts=(PARIS,),
        retrieved=(PARIS,),
        answer="It is Paris. ",
        standalone="capital?",
        doubts=("further_call",),
        hedged=("standalone",),
    ),
)
def _(kit: Kit) -> None:
    script = {
        "Existing Answer:  It is Paris.": "done",
        "lookahead response": "It is Paris.",
        "Skill 1.": "It is [Search(capital?)].",
    }
    FLAREInstructQueryEngine(kit.engine(0), llm=kit.llm(script=script)).query(QUESTION)


class TextEngine(CustomQueryEngine):
    """Retrieves and answers by itself."""

    retriever: Any
    source: bool = False

    def custom_query(self, query_str: str) -> Any:
        nodes = self.retriever.retrieve(query_str)
        return (
            Response("Own answer.", source_nodes=nodes[:1])
            if self.source
            else "Own answer."
        )


EXAMPLES = ChatPromptTemplate(
    [
        ChatMessage(role="user", content="Context: Tea is hot. Is tea hot?"),
        ChatMessage(role="assistant", content="Yes, it is hot."),
        ChatMessage(role="user", content="Context: {context_str} {query_str}"),
    ]
)
for is_chat_model in (True, False):

    @row(f"examples in a template, a chat model: {is_chat_model}", Expected())
    def _(kit: Kit, is_chat_model: bool = is_chat_model) -> None:
        class Model(kit.parts.ScriptedLLM):  # type: ignore[name-defined, misc]
            @property
            def metadata(self) -> LLMMetadata:
                return LLMMetadata(context_window=8192, is_chat_model=is_chat_model)

        kit.engine(llm=Model(), text_qa_template=EXAMPLES).query(QUESTION)


@row(
    "custom query engine that returns a text",
    Expected(answer="Own answer.", doubts=("by_data_flow",)),
)
def _(kit: Kit) -> None:
    TextEngine(retriever=kit.retriever()).query(QUESTION)


@row(
    "custom query engine that returns a node's text",
    Expected(answer="Paris is the capital of France."),
)
def _(kit: Kit) -> None:
    class Quoting(TextEngine):
        def custom_query(self, query_str: str) -> str:
            best, *_ = self.retriever.retrieve(query_str)
            return str(best.node.get_content())

    Quoting(retriever=kit.retriever()).query(QUESTION)


@row("custom query engine whose answer is put in other words", Expected())
def _(kit: Kit) -> None:
    class Polishing(TextEngine):
        def custom_query(self, query_str: str) -> str:
            llm = kit.llm(
                script={
                    "Say it well": ANSWER,
                    "": "It is Paris, the city on the Seine.",
                }
            )
            found = self.retriever.retrieve(query_str)
            shown = "\n".join(each.get_content(MetadataMode.LLM) for each in found)
            draft = llm.complete(f"{shown}\n{query_str}")
            return str(llm.complete(f"Say it well: {draft}"))

    Polishing(retriever=kit.retriever()).query(QUESTION)


@row(
    "response mode accumulate, replies of a word",
    Expected(
        answer="\n---------------------\n".join(
            f"Response {n}: Paris" for n in (1, 2, 3)
        )
    ),
)
def _(kit: Kit) -> None:
    kit.engine(mode="accumulate", llm=kit.llm(script={"": "Paris"})).query(QUESTION)


# -- chat engines: four modes, sync, async, streamed

CONDENSING = {"standalone": CONDENSED, "Standalone": CONDENSED}


def chat_engine(kit: Kit, mode: ChatMode) -> Any:
    llm = kit.llm(script=CONDENSING)
    if mode == ChatMode.SIMPLE:
        return SimpleChatEngine.from_defaults(llm=llm)
    if mode == ChatMode.CONTEXT:
        return ContextChatEngine.from_defaults(retriever=kit.retriever(), llm=llm)
    if mode == ChatMode.CONDENSE_QUESTION:
        return CondenseQuestionChatEngine.from_defaults(
            query_engine=kit.engine(), llm=llm
        )
    return CondensePlusContextChatEngine.from_defaults(
        retriever=kit.retriever(), llm=llm
    )


def chatted(call: str) -> Callable[[Kit, ChatMode], None]:
    async def asynchronous(engine: Any) -> None:
        response = await getattr(engine, call)(QUESTION, chat_history=list(HISTORY))
        if call == "astream_chat":
            assert [token async for token in response.async_response_gen()] == [
                "The",
                " answer.",
            ]

    def run(kit: Kit, mode: ChatMode) -> None:
        engine = chat_engine(kit, mode)
        if call.startswith("a"):
            asyncio.run(asynchronous(engine))
            return
        response = getattr(engine, call)(QUESTION, chat_history=list(HISTORY))
        if call == "stream_chat":
            assert list(response.response_gen) == ["The", " answer."]

    return run


CHAT_MODES = (
    ChatMode.SIMPLE,
    ChatMode.CONTEXT,
    ChatMode.CONDENSE_QUESTION,
    ChatMode.CONDENSE_PLUS_CONTEXT,
)
for mode in CHAT_MODES:
    for call in ("chat", "achat", "stream_chat", "astream_chat"):
        condenses = mode in (ChatMode.CONDENSE_QUESTION, ChatMode.CONDENSE_PLUS_CONTEXT)
        plain = mode == ChatMode.SIMPLE
        row(
            f"chat mode {mode.value}, {call}",
            Expected(
                contexts=() if plain else ALL,
                retrieved=None if plain else ALL,
                standalone=CONDENSED if condenses else None,
                history=("Hello", "Hi"),
                doubts=("no_search",) if plain else (),
            ),
        )(partial(lambda run, mode, kit: run(kit, mode), chatted(call), mode))


# -- agents and workflows


@row(
    "FunctionAgent",
    Expected(
        answer="The agent's answer.",
        standalone="capital",
    ),
)
def _(kit: Kit) -> None:
    agent = FunctionAgent(
        tools=[kit.tool()],
        llm=kit.parts.ToolLLM(calls=[("store", {"input": "capital"})]),
    )
    asyncio.run(_run_agent(agent))


@row(
    "FunctionAgent with a retriever tool",
    Expected(
        answer="The agent's answer.",
        contexts=RERANKED,
        standalone="capital",
        doubts=("further_call",),
        newer=("further_call",),
    ),
)
def _(kit: Kit) -> None:
    tool = RetrieverTool.from_defaults(
        kit.retriever(),
        name="store",
        description="store",
        node_postprocessors=[LLMRerank(llm=kit.llm(script=RANKING), top_n=2)],
    )
    agent = FunctionAgent(
        tools=[tool], llm=kit.parts.ToolLLM(calls=[("store", {"input": "capital"})])
    )
    asyncio.run(_run_agent(agent))


REACT = {
    "Observation": "Thought: I can answer.\nAnswer: The agent's answer.",
    "": 'Thought: I need a tool.\nAction: store\nAction Input: {"input": "capital"}',
}


@row(
    "ReActAgent",
    Expected(answer="The agent's answer.", standalone="capital"),
)
def _(kit: Kit) -> None:
    script = {"Observation: The answer.": REACT["Observation"], "": REACT[""]}
    asyncio.run(_run_agent(ReActAgent(tools=[kit.tool()], llm=kit.llm(script=script))))


@row(
    "an agent after a search by hand",
    Expected(answer="The agent's answer.", standalone="capital"),
)
def _(kit: Kit) -> None:
    async def run() -> None:
        found = await kit.retriever(0).aretrieve(QUESTION)
        agent = FunctionAgent(
            tools=[kit.tool(1, 2)],
            llm=kit.parts.ToolLLM(calls=[("store", {"input": "capital"})]),
            system_prompt=found[0].get_content(MetadataMode.LLM),
        )
        await _run_agent(agent)

    asyncio.run(run())


class InParts(Workflow):
    """A step runs an agent on a part of the question, and a model sums up what it said."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(timeout=10)
        self.kit = kit

    @step
    async def answer(self, ev: StartEvent) -> StopEvent:
        last = "Thought: I can answer.\nAnswer: Paris is the capital of France."
        script = {"Observation: The answer.": last, "": REACT[""]}
        agent = ReActAgent(tools=[self.kit.tool()], llm=self.kit.llm(script=script))
        said = str(await agent.run(user_msg=CONDENSED))
        prompt = f"Original question: {ev.question}\n{CONDENSED}\nAnswer: {said}"
        reply = self.kit.llm(script={"": "It is Paris."}).complete(prompt)
        return StopEvent(result=reply.text)


@row(
    "ReActAgent inside of a step",
    Expected(answer="It is Paris.", standalone="capital"),
)
def _(kit: Kit) -> None:
    async def run() -> None:
        await InParts(kit).run(question=QUESTION)

    asyncio.run(run())


@row(
    "AgentWorkflow",
    Expected(
        answer="The agent's answer.",
        standalone="capital",
    ),
)
def _(kit: Kit) -> None:
    llm = kit.parts.ToolLLM(calls=[("store", {"input": "capital"})])
    asyncio.run(
        _run_agent(AgentWorkflow.from_tools_or_functions([kit.tool()], llm=llm))
    )


@row(
    "AgentWorkflow that hands over",
    Expected(
        answer="The agent's answer.",
        standalone="capital",
    ),
)
def _(kit: Kit) -> None:
    first = FunctionAgent(
        name="first",
        description="first",
        llm=kit.parts.ToolLLM(
            calls=[("handoff", {"to_agent": "second", "reason": "knows"})]
        ),
        can_handoff_to=["second"],
    )
    # the handoff is a tool's message already
    calls = [("", {}), ("store", {"input": "capital"})]
    second = FunctionAgent(
        name="second",
        description="second",
        tools=[kit.tool()],
        llm=kit.parts.ToolLLM(calls=calls),
    )
    asyncio.run(_run_agent(AgentWorkflow(agents=[first, second], root_agent="first")))


async def _run_agent(agent: Any) -> None:
    output = await agent.run(user_msg=QUESTION)
    assert str(output) == "The agent's answer."


class Retrieved(Event):
    """Nodes on their way to the synthesizer."""

    nodes: list[NodeWithScore]


class Rag(Workflow):
    """Retrieve, then synthesize; the steps have the names of the framework's methods on purpose."""

    def __init__(
        self, kit: Kit, *, streaming: bool = False, custom: bool = False
    ) -> None:
        super().__init__(timeout=10)
        self.kit, self.streaming, self.custom = kit, streaming, custom

    @step
    async def retrieve(self, ev: StartEvent) -> Retrieved:
        self.question = ev.get("topic")
        return Retrieved(nodes=await self.kit.retriever().aretrieve(self.question))

    @step
    async def synthesize(self, ev: Retrieved) -> StopEvent:
        synthesizer = get_response_synthesizer(
            llm=self.kit.llm(), streaming=self.streaming
        )
        response = await synthesizer.asynthesize(self.question, ev.nodes[:2])
        return StopEvent(result={"answer": str(response)} if self.custom else response)


@row(
    "workflow of the user",
    # a word beside the one text that is searched for is no question
    Expected(contexts=(PARIS, WINE)),
)
def _(kit: Kit) -> None:
    async def run() -> None:
        await Rag(kit).run(topic=QUESTION, style="short")

    asyncio.run(run())


class Asked(StartEvent):
    """A declared start event."""

    wording: str
    language: str = "en"


class Done(StopEvent):
    """A declared stop event."""

    answer: str


class TypedRag(Workflow):
    """A workflow with declared start and stop events, around a query engine."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(timeout=10)
        self.kit = kit

    @step
    async def only(self, ev: Asked) -> Done:
        return Done(answer=str(await self.kit.engine().aquery(ev.wording)))


@row(
    "workflow with its own start and stop events",
    Expected(),
)
def _(kit: Kit) -> None:
    async def run() -> None:
        assert (
            await TypedRag(kit).run(start_event=Asked(wording=QUESTION))
        ).answer == ANSWER

    asyncio.run(run())


class RagOfAConversation(Workflow):
    """A workflow that is handed its question beside the conversation so far."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(timeout=10)
        self.kit = kit

    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=str(await self.kit.engine().aquery(ev.query)))


@row(
    "workflow with a question beside a history",
    Expected(history=tuple(turn.content for turn in HISTORY)),
)
def _(kit: Kit) -> None:
    async def run() -> None:
        assert (
            await RagOfAConversation(kit).run(
                query=QUESTION, chat_history=list(HISTORY)
            )
            == ANSWER
        )

    asyncio.run(run())


# -- parts on their own


@row(
    "retriever and synthesizer called separately",
    Expected(
        contexts=(PARIS, WINE),
    ),
)
def _(kit: Kit) -> None:
    nodes = kit.retriever().retrieve(QUESTION)
    get_response_synthesizer(llm=kit.llm()).synthesize(QUESTION, nodes[:2])


@row("synthesizer alone", Expected(contexts=(PARIS, WINE), retrieved=None))
def _(kit: Kit) -> None:
    get_response_synthesizer(llm=kit.llm()).synthesize(QUESTION, kit.nodes[:2])


@row("retrieval alone", Expected(answer=None, doubts=("no_answer",)))
def _(kit: Kit) -> None:
    kit.retriever().retrieve(QUESTION)


# -- errors, broken streams


@row(
    "the model fails",
    Expected(
        answer=None,
        error="Broken: the model is down",
        complete=False,
        doubts=("no_answer",),
    ),
)
def _(kit: Kit) -> None:
    with pytest.raises(kit.parts.Broken):
        kit.engine(llm=kit.llm(fails=True)).query(QUESTION)


@row(
    "the stream is broken off",
    Expected(answer=None, complete=False, doubts=("no_answer",)),
)
def _(kit: Kit) -> None:
    response = kit.engine(streaming=True).query(QUESTION)
    next(response.response_gen)
    response.response_gen.close()


@row(
    "the stream is never read",
    Expected(
        answer=None,
        complete=False,
        doubts=("no_answer", "by_data_flow"),
        newer=("by_data_flow",),
    ),
)
def _(kit: Kit) -> None:
    kit.engine(streaming=True).query(QUESTION)


@row(
    "a task is cancelled",
    Expected(
        answer=None, error="CancelledError", complete=False, doubts=("no_answer",)
    ),
)
def _(kit: Kit) -> None:
    async def run() -> None:
        llm = kit.llm(delay=30)
        task = asyncio.create_task(kit.engine(llm=llm).aquery(QUESTION))
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


@row(
    "a sub-question fails",
    Expected(
        contexts=(PARIS,),
        retrieved=(PARIS,),
    ),
)
def _(kit: Kit) -> None:
    engine = sub_questions(kit, use_async=False)
    engine._query_engines["drinks"]._retriever._fails = True
    engine.query(QUESTION)


# -- judges are no application


@row("an evaluator of the framework", Expected())
def _(kit: Kit) -> None:
    response = kit.engine().query(QUESTION)
    FaithfulnessEvaluator(llm=kit.llm(script={"": "YES"})).evaluate_response(
        query=QUESTION, response=response
    )


@row(
    "FunctionAgent with a history",
    Expected(
        answer="The agent's answer.",
        standalone="capital",
        history=("Hello", "Hi"),
    ),
)
def _(kit: Kit) -> None:
    agent = FunctionAgent(
        tools=[kit.tool()],
        llm=kit.parts.ToolLLM(calls=[("store", {"input": "capital"})]),
    )
    history = [*HISTORY, ChatMessage(role="user", content=QUESTION)]

    async def run() -> None:
        await agent.run(chat_history=history)

    asyncio.run(run())


@row(
    "the async stream is broken off",
    Expected(answer=None, complete=False, doubts=("no_answer",)),
)
def _(kit: Kit) -> None:
    async def run() -> None:
        response = await kit.engine(streaming=True).aquery(QUESTION)
        stream = response.async_response_gen()
        assert await anext(stream) == "The"
        await response.response_gen.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("name", TABLE)
def test_shape(name: str, kit: ModuleType) -> None:
    run, expected = TABLE[name]
    with capture() as captured:
        run(Kit(kit))
    samples = captured.samples
    # a tool that returns text is named, with the setting that makes contexts of it
    problems = [
        text for text in captured.problems.counts if "context_tools" not in text
    ]
    assert not problems
    assert len(samples) == len(expected)
    for sample, one in zip(samples, expected, strict=True):
        one.check(sample)


@pytest.mark.parametrize("response", [Response(ANSWER), "text"])
def test_stored_response(response: Any) -> None:
    (sample,) = samples_from(response, question_from=lambda response: QUESTION)
    assert sample.question == QUESTION
    assert sample.answer == str(response)
    assert sample.retrieved is None
