"""Shapes of public applications that were once told wrongly: each gives the right sample, or the doubt that fits.

What a row expects was written by hand. A row without codes must be sure; a row with
codes must be hedged by these, and no field of it is told as sure.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from lanes import crossed
from llama_index.core import (
    Document,
    PromptTemplate,
    SummaryIndex,
    get_response_synthesizer,
)
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.postprocessor import (
    AutoPrevNextNodePostprocessor,
    MetadataReplacementPostProcessor,
    PrevNextNodePostprocessor,
)
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
)
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.selectors import PydanticSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.workflow import (
    Event,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from llama_index.evaluation.ragmetrics import capture, watch
from pydantic import BaseModel

from ragmetrics_core import Sample

QUESTION = "How often does the Osta ferry go?"
FERRY = "The Osta ferry crosses the lake every hour in summer."
FARES = "A ticket for the ferry costs four crowns, bicycles are free."
ANSWER = "It goes every hour in summer, for four crowns."
EARLIER = (
    ("user", "When was the Velm bridge opened?"),
    ("assistant", "It was opened in 1874, by the mayor."),
)
TALK = [ChatMessage(role=role, content=text) for role, text in EARLIER]

# The framework's own classes set these off.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    pytest.mark.filterwarnings("ignore:.*asyncio_module:DeprecationWarning"),
    pytest.mark.filterwarnings(
        "ignore:is_running called from within a step:DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.usefixtures("databases_let_go"),
]


@dataclass(frozen=True)
class Expected:
    """What a sample must hold; with codes, how it must be hedged."""

    contexts: tuple[str, ...] | None = (FERRY, FARES)
    retrieved: tuple[str, ...] | None = (FERRY, FARES)
    answer: str | None = ANSWER
    history: tuple[tuple[str, str], ...] = ()
    kinds: tuple[str, ...] = ("retrieval",)
    shown: tuple[int, ...] | None = None  # what the first call must show, if given
    codes: frozenset[str] = frozenset()

    def check(self, sample: Sample) -> None:
        notes = sample.capture
        assert notes is not None
        assert set(notes.doubts) == self.codes, notes.doubts
        assert (notes.grade == "exact") == (not self.codes)
        assert sample.ledger is not None
        assert sample.question == QUESTION
        assert texts(sample.contexts) == self.contexts
        assert texts(sample.retrieved) == self.retrieved
        assert sample.answer == self.answer
        assert tuple((turn.role, turn.content) for turn in sample.history) == (
            self.history
        )
        assert tuple(call.kind for call in sample.ledger.calls) == self.kinds
        if self.shown is not None:
            assert sample.ledger.calls[0].shown == self.shown
        told = [item.text for call in sample.ledger.calls for item in call.items]
        assert {*(self.retrieved or ())} <= {*told}


def texts(contexts: Any) -> tuple[str, ...] | None:
    return None if contexts is None else tuple(context.text for context in contexts)


@contextmanager
def seen_by(door: str, **settings: Any) -> Iterator[list[Sample]]:
    """The samples of a block, by ``capture`` or by ``watch``."""
    samples: list[Sample] = []
    if door == "capture":
        with capture(**settings) as captured:
            yield samples
        samples += captured.samples
    else:
        watching = watch([], **settings)
        yield samples
        assert watching.stop(timeout=20)
        samples += watching.samples


def nodes(kit: ModuleType) -> list[NodeWithScore]:
    return [kit.node("ferry", FERRY, 0.9), kit.node("fares", FARES, 0.5)]


def engine_of(kit: ModuleType, **settings: Any) -> RetrieverQueryEngine:
    model = kit.ScriptedLLM(script={"": ANSWER})
    return RetrieverQueryEngine.from_args(
        kit.FixedRetriever(nodes(kit)), llm=model, **settings
    )


# A question and an earlier talk under any names of a start event

KEYS = (
    *("msg", "message", "user_msg", "query", "question"),
    *("input", "prompt", "user_input", "text", "request"),
)


def talking(kit: ModuleType, **fields: Any) -> Workflow:
    """A workflow that searches, and asks its model with the talk before the question."""
    model = kit.ScriptedLLM(script={"": ANSWER})

    class Talking(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            found = await kit.FixedRetriever(nodes(kit)).aretrieve(QUESTION)
            shown = "\n\n".join(each.text for each in found)
            talk = fields.get("chat_history", fields.get("messages", []))
            earlier = [ChatMessage(role=role, content=text) for role, text in EARLIER]
            asked = ChatMessage(role="user", content=f"{shown}\n\n{QUESTION}")
            reply = await model.achat([*(earlier if talk else []), asked])
            return StopEvent(result=reply.message.content)

    return Talking(timeout=20)


@pytest.mark.parametrize(
    ("key", "history", "typed"),
    crossed(KEYS, ["chat_history", "messages"], [True, False]),
)
def test_the_field_beside_a_talk_is_the_question(
    kit: ModuleType, *, key: str, history: str, typed: bool
) -> None:
    talk = TALK if typed else [{"role": r, "content": t} for r, t in EARLIER]
    fields = {key: QUESTION, history: talk}

    async def run() -> None:
        await talking(kit, **fields).run(**fields)

    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    Expected(history=EARLIER).check(sample)


@pytest.mark.parametrize("key", ["query", "query_str", "question", "user_input"])
def test_a_field_of_a_usual_name_beside_another_text_is_the_question(
    kit: ModuleType, *, key: str
) -> None:
    """As the notebook of the corrective workflow starts it, with a key of a web search."""
    fields = {"web_search_key": "key-1234", key: QUESTION}

    async def run() -> None:
        await talking(kit, **fields).run(**fields)

    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    Expected().check(sample)


def test_a_field_that_names_the_question_alone_is_no_sure_question(
    kit: ModuleType,
) -> None:
    with capture() as captured:
        asyncio.run(run_of(talking(kit), session_id="8f3a"))
    (sample,) = captured.samples
    Expected(codes=frozenset({"question_guessed"})).check(sample)


# Nodes that a step makes of replies


class Asked(Event):
    query: str


class Replied(Event):
    nodes: list[NodeWithScore]
    sources: list[NodeWithScore]


SUB = "What does a ticket for the ferry cost?"
SUB_ANSWER = "A ticket of the ferry costs four crowns."


class MultiStep(Workflow):
    """The notebook ``workflow/multi_step_query_engine``: answers become nodes."""

    def __init__(self, kit: ModuleType, engine: RetrieverQueryEngine) -> None:
        super().__init__(timeout=20)
        self.kit, self.engine = kit, engine

    @step
    async def decompose(self, event: StartEvent) -> Asked:
        model = self.kit.ScriptedLLM(script={"": SUB})
        return Asked(query=(await model.acomplete(f"Next step of: {QUESTION}")).text)

    @step
    async def ask(self, event: Asked) -> Replied:
        response = await self.engine.aquery(event.query)
        text = f"\nQuestion: {event.query}\nAnswer: {response!s}"
        made = NodeWithScore(node=TextNode(text=text))
        return Replied(nodes=[made], sources=response.source_nodes)

    @step
    async def answer(self, event: Replied) -> StopEvent:
        model = self.kit.ScriptedLLM(script={"": ANSWER})
        synthesizer = get_response_synthesizer(llm=model)
        response = await synthesizer.asynthesize(
            query=QUESTION,
            nodes=event.nodes,
            additional_source_nodes=event.sources,
        )
        return StopEvent(result=response)


def multi_step(kit: ModuleType) -> Any:
    model = kit.ScriptedLLM(script={"": SUB_ANSWER})
    engine = RetrieverQueryEngine.from_args(kit.FixedRetriever(nodes(kit)), llm=model)
    return asyncio.run(run_of(MultiStep(kit, engine), query=QUESTION))


async def run_of(workflow: Workflow, **fields: Any) -> Any:
    return await workflow.run(**fields)


# What a retriever found, and what was put in its place


WINDOW = f"The timetable follows. {FERRY} In winter it rests."


def replaced(kit: ModuleType) -> Any:
    found = kit.node("ferry", FERRY, 0.9, metadata={"window": WINDOW})
    found.node.excluded_llm_metadata_keys = ["window"]
    return RetrieverQueryEngine.from_args(
        kit.FixedRetriever([found]),
        llm=kit.ScriptedLLM(script={"": ANSWER}),
        node_postprocessors=[MetadataReplacementPostProcessor("window")],
    ).query(QUESTION)


SOURCES = [f"Source 1:\n{FERRY}\n", f"Source 2:\n{FARES}\n"]
WORDS = 8  # of a piece
PIECES = [
    f"Source {number}:\n{piece}\n"
    for number, piece in enumerate(
        (
            " ".join(text.split()[first : first + WORDS])
            for text in (FERRY, FARES)
            for first in range(0, len(text.split()), WORDS)
        ),
        start=1,
    )
]


def cited(kit: ModuleType, *, in_pieces: bool = False) -> Any:
    """The engine writes each node, or pieces of it, into nodes of its own."""
    size = WORDS if in_pieces else 100
    return CitationQueryEngine(
        kit.FixedRetriever(nodes(kit)),
        llm=kit.ScriptedLLM(script={"": ANSWER}),
        text_splitter=TokenTextSplitter(
            chunk_size=size, chunk_overlap=0, tokenizer=str.split
        ),
    ).query(QUESTION)


BEFORE = "The timetable of the lake is printed each spring."


def widened(kit: ModuleType, *, by_a_model: bool = False) -> Any:
    before, after = TextNode(id_="b", text=BEFORE), TextNode(id_="f", text=FERRY)
    before.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="f")
    after.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id="b")
    store = SimpleDocumentStore()
    store.add_documents([before, after])
    chooses = kit.ScriptedLLM(script={"": "PREVIOUS"})
    widens = (
        AutoPrevNextNodePostprocessor(docstore=store, num_nodes=1, llm=chooses)
        if by_a_model
        else PrevNextNodePostprocessor(docstore=store, num_nodes=1, mode="previous")
    )
    return RetrieverQueryEngine.from_args(
        kit.FixedRetriever([NodeWithScore(node=after, score=0.9)]),
        llm=kit.ScriptedLLM(script={"": ANSWER}),
        node_postprocessors=[widens],
    ).query(QUESTION)


# What is found is put together to one text, and an index of the moment asked


class Joining(Workflow):
    def __init__(self, kit: ModuleType) -> None:
        super().__init__(timeout=20)
        self.kit = kit

    @step
    async def answer(self, event: StartEvent) -> StopEvent:
        return StopEvent(result=str(joined(self.kit)))


def joined(kit: ModuleType) -> Any:
    found = kit.FixedRetriever(nodes(kit)).retrieve(QUESTION)
    document = Document(text="\n".join(each.text for each in found))
    model = kit.ScriptedLLM(script={"": ANSWER})
    return (
        SummaryIndex.from_documents([document]).as_query_engine(model).query(QUESTION)
    )


def joined_in_workflow(kit: ModuleType) -> Any:
    return asyncio.run(run_of(Joining(kit), query=QUESTION))


JOINED = Expected(contexts=(f"{FERRY}\n{FARES}",), kinds=("retrieval", "given"))


def with_examples(kit: ModuleType) -> Any:
    """A function of the prompt searches for examples of how to answer."""
    examples = kit.FixedRetriever([kit.node("example", EXAMPLE, 0.9)])
    prompt = PromptTemplate(
        "{context_str}\nExamples:\n{examples}\n{query_str}",
        function_mappings={
            "examples": lambda **_: examples.retrieve("trains")[0].text,
        },
    )
    return engine_of(kit, text_qa_template=prompt).query(QUESTION)


EXAMPLE = "Q: When does the train go? A: In the night, as the first page says."


# Calls of tools that are none


def routed(kit: ModuleType) -> Any:
    """The model of the selector calls a function ``SingleSelection``."""
    choice = {"index": 0, "reason": "It is about the ferry."}
    model = kit.ToolLLM(calls=[("SingleSelection", choice)])
    tool = QueryEngineTool.from_defaults(engine_of(kit), name="lake", description="x")
    selector = PydanticSingleSelector.from_defaults(llm=model)
    return RouterQueryEngine(selector, [tool], llm=model).query(QUESTION)


def routed_agent(kit: ModuleType) -> Any:
    choice = {"index": 0, "reason": "It is about the ferry."}
    model = kit.ToolLLM(calls=[("SingleSelection", choice)])
    lake = QueryEngineTool.from_defaults(engine_of(kit), name="lake", description="x")
    selector = PydanticSingleSelector.from_defaults(llm=model)
    router = RouterQueryEngine(selector, [lake], llm=model)
    tool = QueryEngineTool.from_defaults(router, name="all", description="x")
    llm = kit.ToolLLM(calls=[("all", {"input": QUESTION})], last=ANSWER)
    agent = FunctionAgent(tools=[tool], llm=llm, streaming=False)
    return asyncio.run(run_of(agent, user_msg=QUESTION))


# what the postprocessor loaded is an item of a call of its own
WIDENED = Expected(
    contexts=(BEFORE, FERRY), retrieved=(FERRY,), kinds=("retrieval", "given")
)
ROWS: dict[str, tuple[Callable[[ModuleType], Any], Expected]] = {
    "nodes of replies": (multi_step, Expected(kinds=("written", "retrieval"))),
    "metadata replacement": (
        replaced,
        Expected(contexts=(WINDOW,), retrieved=(FERRY,)),
    ),
    "citing": (cited, Expected(contexts=tuple(SOURCES), shown=(0, 1))),
    "citing pieces": (
        partial(cited, in_pieces=True),
        Expected(contexts=tuple(PIECES), shown=(0, 1)),
    ),
    "previous nodes added": (widened, WIDENED),
    "previous nodes added by a model": (partial(widened, by_a_model=True), WIDENED),
    "an index of the moment": (joined, JOINED),
    "an index of the moment in a workflow": (joined_in_workflow, JOINED),
    "router": (routed, Expected()),
    "router in an agent": (routed_agent, Expected(kinds=("written", "retrieval"))),
}


@pytest.mark.parametrize("door", ["capture", "watch"])
@pytest.mark.parametrize("name", ROWS)
def test_a_shape_of_an_application(kit: ModuleType, name: str, door: str) -> None:
    run, expected = ROWS[name]
    with seen_by(door) as samples:
        run(kit)
    (sample,) = samples
    expected.check(sample)


def test_a_search_for_the_examples_of_a_prompt_is_in_doubt(kit: ModuleType) -> None:
    with capture() as captured:
        with_examples(kit)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert set(sample.capture.doubts) == {"by_data_flow"}
    with capture(contexts_from=lambda run: [FERRY, FARES]) as captured:
        with_examples(kit)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    assert texts(sample.contexts) == (FERRY, FARES)


# Tools of text that the user names

RESULTS: dict[str, Callable[[], Any]] = {
    "blocks of MCP": lambda: [TextBlock(text=FERRY), TextBlock(text=FARES)],
    "a reply of MCP": lambda: McpReply(
        content=[McpText(text=FERRY), McpText(text=FARES)]
    ),
    "a reply of MCP as data": lambda: {
        "content": [{"type": "text", "text": text} for text in (FERRY, FARES)],
        "isError": False,
    },
}


class McpText(BaseModel):
    """A block of text as the SDK of MCP has it."""

    type: str = "text"
    text: str
    annotations: None = None


class McpReply(BaseModel):
    """What a session of MCP returns, and so the framework's tool of it."""

    meta: None = None
    content: list[McpText]
    isError: bool = False  # noqa: N815  # the name of the protocol


def tool_of(result: Callable[[], Any]) -> FunctionTool:
    def search(query: str) -> Any:
        """Searches the lake."""
        return result()

    return FunctionTool.from_defaults(search)


def agent_of(kit: ModuleType, result: Callable[[], Any]) -> Any:
    llm = kit.ToolLLM(calls=[("search", {"query": "ferry"})], last=ANSWER)
    agent = FunctionAgent(tools=[tool_of(result)], llm=llm, streaming=False)
    return asyncio.run(run_of(agent, user_msg=QUESTION))


@pytest.mark.parametrize("name", RESULTS)
def test_a_named_tool_is_divided_by_its_own_structure(
    kit: ModuleType, name: str
) -> None:
    with capture(context_tools={"search"}) as captured:
        agent_of(kit, RESULTS[name])
    (sample,) = captured.samples
    Expected().check(sample)


@pytest.mark.parametrize("written", ["Every hour.", ANSWER, None])
@pytest.mark.parametrize("texts_found", [(FERRY, FARES), ()])
def test_an_answer_that_a_search_wrote_beside_what_it_found_is_in_doubt(
    kit: ModuleType, texts_found: tuple[str, ...], written: str | None
) -> None:
    found = [{"content": text, "score": 0.9} for text in texts_found]
    result = json.dumps({"query": "ferry", "answer": written, "results": found})
    with capture(context_tools={"search"}) as captured:
        agent_of(kit, lambda: result)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert ("undivided" in sample.capture.doubts) is (written is not None)
    assert texts(sample.contexts) == texts_found


# What is suggested from a search for the answer

SUGGESTED = "What does a ticket for the ferry cost?"


@pytest.mark.parametrize(
    ("is_engine", "grades"), [(False, ["inferred"]), (True, ["exact", "inferred"])]
)
def test_what_is_suggested_from_a_search_for_the_answer_is_no_sure_answer(
    kit: ModuleType, is_engine: bool, grades: list[str]
) -> None:
    model = kit.ScriptedLLM(script={"Suggest": SUGGESTED, "": ANSWER})
    ferry = kit.FixedRetriever([kit.node("ferry", FERRY)])
    fares = kit.FixedRetriever([kit.node("fares", FARES)])
    with capture() as captured:
        if is_engine:
            engine = RetrieverQueryEngine.from_args(ferry, llm=model)
            answer = str(engine.query(QUESTION))
        else:
            found = ferry.retrieve(QUESTION)[0].text
            answer = str(model.complete(f"Use {found}\nQuestion: {QUESTION}"))
        found = fares.retrieve(answer)[0].text
        model.complete(f"Suggest more of {found}\n{QUESTION}\nAnswer: {answer}")
    assert [each.capture.grade for each in captured.samples if each.capture] == grades


# Engines that one reply of an agent's model calls


# Streamed answers that are read after the block


async def queried_async(kit: ModuleType) -> Any:
    response = await engine_of(kit, streaming=True).aquery(QUESTION)

    async def read() -> None:
        assert [token async for token in response.async_response_gen()]

    return read


def chat_engine(kit: ModuleType) -> ContextChatEngine:
    model = kit.ScriptedLLM(script={"": ANSWER})
    return ContextChatEngine.from_defaults(kit.FixedRetriever(nodes(kit)), llm=model)


async def chatted_async(kit: ModuleType) -> Any:
    response = await chat_engine(kit).astream_chat(QUESTION)

    async def read() -> None:
        assert [token async for token in response.async_response_gen()]

    return read


class Returning(Workflow):
    """Returns what a function makes of the nodes found."""

    def __init__(self, kit: ModuleType, make: Callable[[Any, str], Any]) -> None:
        super().__init__(timeout=20)
        self.kit, self.make = kit, make

    @step
    async def answer(self, event: StartEvent) -> StopEvent:
        found = await self.kit.FixedRetriever(nodes(self.kit)).aretrieve(event.query)
        shown = "\n\n".join(each.text for each in found)
        thought = {"Think of lakes": "Lakes lie between hills, and freeze in winter."}
        model = self.kit.ScriptedLLM(script={**thought, "": ANSWER})
        return StopEvent(
            result=await self.make(model, f"{shown}\n\nQuestion: {QUESTION}")
        )


async def thought_over(model: Any, prompt: str) -> Any:
    """The model's whole response, after a thought that stands in no later prompt."""
    await model.acomplete("Think of lakes before you answer anything about them.")
    return await model.achat([ChatMessage(role="user", content=prompt)])


async def in_a_field(model: Any, prompt: str) -> Any:
    return {"response": await thought_over(model, prompt), "sources": []}


@pytest.mark.parametrize("make", [thought_over, in_a_field])
def test_a_response_of_a_model_that_a_workflow_returns_is_its_answer(
    kit: ModuleType, make: Callable[[Any, str], Any]
) -> None:
    with capture() as captured:
        asyncio.run(run_of(Returning(kit, make), query=QUESTION))
    (sample,) = captured.samples
    Expected().check(sample)


async def stream_of_tokens(model: Any, prompt: str) -> Any:
    stream = await model.astream_complete(prompt)
    return (chunk.delta async for chunk in stream)


async def returned_tokens(kit: ModuleType) -> Any:
    result = await Returning(kit, stream_of_tokens).run(query=QUESTION)

    async def read() -> None:
        assert [chunk async for chunk in result]

    return read


class Synthesizing(Workflow):
    """Returns the framework's streamed response."""

    def __init__(self, kit: ModuleType) -> None:
        super().__init__(timeout=20)
        self.kit = kit

    @step
    async def answer(self, event: StartEvent) -> StopEvent:
        engine = engine_of(self.kit, streaming=True)
        return StopEvent(result=await engine.aquery(event.query))


async def synthesized(kit: ModuleType) -> Any:
    response = await Synthesizing(kit).run(query=QUESTION)

    async def read() -> None:
        assert [token async for token in response.async_response_gen()]

    return read


# A stream of the application's own ends unseen.
UNSEEN = Expected(answer=None, codes=frozenset({"no_answer", "by_data_flow"}))
STREAMS: dict[str, tuple[Callable[[ModuleType], Any], Expected]] = {
    "aquery": (queried_async, Expected()),
    "astream_chat": (chatted_async, Expected()),
    "workflow, streamed response": (synthesized, Expected()),
    "workflow, stream of tokens": (returned_tokens, UNSEEN),
}


async def reading(read: Any) -> None:
    result = await asyncio.to_thread(read)
    if asyncio.iscoroutine(result):
        await result


@pytest.mark.parametrize("is_read_later", [False, True])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_is_read_after_the_block(
    kit: ModuleType, *, name: str, is_read_later: bool
) -> None:
    run, expected = STREAMS[name]

    async def play() -> list[Sample]:
        with capture() as captured:
            read = await run(kit)
            if not is_read_later:
                await reading(read)
        if is_read_later:
            await reading(read)
        return list(captured.samples)

    (sample,) = asyncio.run(play())
    expected.check(sample)
