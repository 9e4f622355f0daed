"""A search that finds nothing is a search, and what a tool returns of one is told once.

An engine behind a tool shows its documents to its own model only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from llama_index.core import SQLDatabase, SummaryIndex, get_response_synthesizer
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.indices.struct_store import SQLTableRetrieverQueryEngine
from llama_index.core.objects import (
    ObjectIndex,
    SQLTableNodeMapping,
    SQLTableSchema,
)
from llama_index.core.query_engine import (
    CustomQueryEngine,
    NLSQLTableQueryEngine,
    RetrieverQueryEngine,
)
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine
from sqlalchemy.pool import StaticPool

from ragmetrics_core.data.sample import Sample

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    pytest.mark.filterwarnings(
        "ignore:is_running called from within a step:DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.usefixtures("databases_let_go"),
]

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."


def retriever(kit: ModuleType) -> Any:
    return kit.FixedRetriever(
        lambda query: [kit.node("bridge", BRIDGE)] if "bridge" in query else []
    )


def of_the_framework(kit: ModuleType) -> Any:
    return RetrieverTool.from_defaults(
        retriever(kit), name="search", description="Searches."
    )


def with_a_retriever_inside(kit: ModuleType, said: str = "Nothing was found.") -> Any:
    # asynchronous: 0.14.0 runs a plain function in a thread that knows no parent
    async def search(input: str) -> str:  # noqa: A002  # the framework's name
        found = [one.get_content() for one in await retriever(kit).aretrieve(input)]
        return "\n".join(found) or said

    return FunctionTool.from_defaults(
        async_fn=search, name="search", description="Searches."
    )


def that_says_so_in_a_sentence(kit: ModuleType) -> Any:
    return with_a_retriever_inside(
        kit,
        "No documents matched. Try relaxing or removing the filters, or verify the"
        " filter values with the metadata tools.",
    )


def with_an_engine_inside(kit: ModuleType) -> Any:
    engine = RetrieverQueryEngine.from_args(retriever(kit), llm=kit.ScriptedLLM())
    return QueryEngineTool.from_defaults(engine, name="search", description="Asks.")


TOOLS = [
    of_the_framework,
    with_a_retriever_inside,
    that_says_so_in_a_sentence,
    with_an_engine_inside,
]


def asked(
    kit: ModuleType, tool: Any, *queries: str, answer: str, **settings: Any
) -> Sample:
    llm = kit.ToolLLM(
        calls=[(tool.metadata.name, {"input": query}) for query in queries], last=answer
    )

    async def run() -> None:
        await FunctionAgent(tools=[tool], llm=llm).run(user_msg=QUESTION)

    with capture(**settings) as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize(
    "settings", [{}, {"context_tools": set()}, {"context_tools": {"search"}}]
)
@pytest.mark.parametrize("made", TOOLS)
def test_a_search_that_found_nothing_is_a_search(
    kit: ModuleType,
    made: Callable[[ModuleType], Any],
    settings: dict[str, set[str]],
) -> None:
    made_tool = made(kit)
    answer = "I do not know."
    sample = asked(kit, made_tool, "opening year", answer=answer, **settings)
    assert (sample.retrieved, sample.contexts, sample.answer) == (
        (),
        (),
        "I do not know.",
    )
    assert sample.capture is not None
    assert sample.capture.evidence_from == "flow"
    # what a tool says that the user named may be found elsewhere
    is_named = settings.get("context_tools") == {"search"}
    says_more = is_named and made is not of_the_framework
    assert list(sample.capture.doubts) == ["undivided"] * says_more
    assert sample.ledger is not None
    (call,) = sample.ledger.calls
    assert (call.kind, call.items) == ("retrieval", ())
    # the framework's tool asks "input is opening year"
    assert (call.query or "").strip().endswith("opening year")


def as_nodes(found: list[NodeWithScore]) -> list[Any]:
    return found


def as_bare_nodes(found: list[NodeWithScore]) -> list[Any]:
    return [one.node for one in found]


def as_mappings(found: list[NodeWithScore]) -> list[Any]:
    return [
        {"text": one.get_content(), "source": one.node_id, "score": one.score}
        for one in found
    ]


@pytest.mark.parametrize("settings", [{}, {"context_tools": {"search"}}])
@pytest.mark.parametrize("returned", [as_nodes, as_bare_nodes, as_mappings])
def test_what_a_tool_returned_of_its_search_is_told_once(
    kit: ModuleType,
    returned: Callable[[list[NodeWithScore]], list[Any]],
    settings: dict[str, set[str]],
) -> None:
    """Also where the framework writes it as ``str`` does."""
    page = kit.node("bridge", BRIDGE, 0.37796447300922725, metadata={"page": 3})
    book = RelatedNodeInfo(node_id="book", hash="bd43ca38202d8612345f4898352b58704e")
    page.node.relationships[NodeRelationship.SOURCE] = book

    async def search(input: str) -> list[Any]:  # noqa: A002  # the framework's name
        return returned(await kit.FixedRetriever([page]).aretrieve(input))

    tool = FunctionTool.from_defaults(
        async_fn=search, name="search", description="Searches."
    )
    sample = asked(kit, tool, "opening year", answer="In 1874.", **settings)
    assert sample.capture is not None
    assert dict(sample.capture.doubts) == {}
    assert len(sample.known_contexts) == 1
    assert sample.ledger is not None
    (call,) = sample.ledger.calls
    assert (call.kind, call.shown) == ("retrieval", (0,))


def nodes_of_a_tool(kit: ModuleType, query: str) -> list[NodeWithScore]:
    """Nodes made of the rows that a tool returned."""

    def web(query: str) -> list[dict[str, str]]:
        """Search the web."""
        return [{"url": "bridge", "content": BRIDGE}]

    rows = FunctionTool.from_defaults(web).call(query=query).raw_output
    return [kit.node(row["url"], row["content"]) for row in rows]


def by_a_retriever(kit: ModuleType) -> None:
    asked = kit.FixedRetriever(lambda query: nodes_of_a_tool(kit, query))
    llm = kit.ScriptedLLM(script={"": "In 1874."})
    synthesizer = get_response_synthesizer(llm=llm)
    RetrieverQueryEngine(asked, synthesizer).query(QUESTION)


def by_a_step(kit: ModuleType) -> None:
    class Found(Event):
        nodes: list[NodeWithScore]

    class Asked(Workflow):
        @step
        async def search(self, ev: StartEvent) -> Found:
            return Found(nodes=nodes_of_a_tool(kit, ev.question))

        @step
        async def answer(self, ev: Found) -> StopEvent:
            prompt = f"{ev.nodes[0].get_content()}\n{QUESTION}"
            reply = await kit.ScriptedLLM(script={"": "In 1874."}).acomplete(prompt)
            return StopEvent(result=str(reply))

    async def run() -> None:
        await Asked().run(question=QUESTION)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("asked", "name"), [(by_a_retriever, None), (by_a_step, "web")]
)
def test_nodes_that_are_made_of_what_a_tool_returned_are_told_once(
    asked: Callable[[ModuleType], None], name: str | None, kit: ModuleType
) -> None:
    with capture() as captured:
        asked(kit)
    (sample,) = captured.samples
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    assert sample.ledger is not None
    (call,) = sample.ledger.calls
    assert (call.kind, call.name, call.query) == ("retrieval", name, QUESTION)
    assert ([item.text for item in call.items], call.shown) == ([BRIDGE], (0,))
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


@pytest.mark.parametrize("rows", [[], [{"year": 1874}]])
def test_a_list_of_rows_is_no_search_though_it_is_empty(
    kit: ModuleType, rows: list[Any]
) -> None:
    def query(input: str) -> list[dict[str, int]]:  # noqa: A002  # the framework's name
        return rows

    tool = FunctionTool.from_defaults(query, name="sql", description="Asks a table.")
    sample = asked(kit, tool, "SELECT year", answer="In 1874.")
    assert sample.ledger is not None
    assert [call.kind for call in sample.ledger.calls] == ["tool"]
    assert sample.retrieved is None


def engine_of_all_tables(tables: SQLDatabase, model: Any) -> Any:
    return NLSQLTableQueryEngine(tables, tables=["flights"], llm=model)


def engine_that_finds_tables(tables: SQLDatabase, model: Any) -> Any:
    found = ObjectIndex.from_objects(
        [SQLTableSchema(table_name="flights")],
        SQLTableNodeMapping(tables),
        index_cls=SummaryIndex,
    )
    return SQLTableRetrieverQueryEngine(tables, found.as_retriever(), llm=model)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("made", [engine_of_all_tables, engine_that_finds_tables])
def test_rows_that_an_engine_makes_a_node_of_are_what_it_retrieved(
    kit: ModuleType, is_async: bool, made: Callable[[SQLDatabase, Any], Any]
) -> None:
    """Such engines ask their retriever in a way that is not recorded.

    The tables that it finds are a part of its search, as where one retriever asks others.
    """
    engine = create_engine(
        "sqlite://",
        connect_args={"check_same_thread": False},
        poolclass=StaticPool,
    )
    table = Table(
        "flights", MetaData(), Column("airline", String), Column("n", Integer)
    )
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"airline": "Nordic", "n": 412}])
    model = kit.ScriptedLLM(
        script={"SQL Response:": "Nordic has.", "": "SELECT airline, n FROM flights"}
    )
    question = "Which airline has most flights?"
    asked = made(SQLDatabase(engine), model)
    with capture() as captured:
        if is_async:
            asyncio.run(asked.aquery(question))
        else:
            asked.query(question)
    engine.dispose()
    (sample,) = captured.samples
    rows = ["[('Nordic', 412)]"]
    assert [context.text for context in sample.known_contexts] == rows
    assert [context.text for context in sample.retrieved or ()] == rows
    assert sample.ledger is not None
    (call,) = sample.ledger.calls
    assert (call.kind, call.query, call.shown) == ("retrieval", question, (0,))
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


@pytest.mark.parametrize("is_async", [False, True])
def test_objects_that_a_model_is_shown_were_retrieved(
    kit: ModuleType, is_async: bool
) -> None:
    """An index of objects finds pages as well as tools."""
    pages = ObjectIndex.from_objects([BRIDGE], index_cls=SummaryIndex).as_retriever()
    model = kit.ScriptedLLM(script={"": "In 1874."})

    class OfObjects(CustomQueryEngine):
        def custom_query(self, query_str: str) -> Any:
            (page,) = pages.retrieve(query_str)
            return model.complete(f"{page}\n{query_str}").text

        async def acustom_query(self, query_str: str) -> Any:
            (page,) = await pages.aretrieve(query_str)
            return (await model.acomplete(f"{page}\n{query_str}")).text

    with capture() as captured:
        if is_async:
            asyncio.run(OfObjects().aquery(QUESTION))
        else:
            OfObjects().query(QUESTION)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "exact", sample.capture.doubts
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    assert sample.ledger is not None
    (call,) = sample.ledger.calls
    assert (call.kind, call.query, call.shown) == ("retrieval", QUESTION, (0,))


@pytest.mark.parametrize("given_to_the_run", [True, False])
def test_nodes_that_a_workflow_was_given_or_kept_are_not_what_it_retrieved(
    kit: ModuleType, given_to_the_run: bool
) -> None:
    kept = [kit.node("b", BRIDGE)]
    synthesizer = get_response_synthesizer(llm=kit.ScriptedLLM())

    class OfGivenNodes(CustomQueryEngine):
        def custom_query(self, query_str: str) -> Any:
            return synthesizer.synthesize(query_str, nodes=kept)

    class Asking(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            if given_to_the_run:
                return StopEvent(result=OfGivenNodes().query(QUESTION))
            found = await synthesizer.asynthesize(QUESTION, nodes=kept)
            return StopEvent(result=found)

    async def run() -> None:
        given = {"nodes": kept} if given_to_the_run else {}
        await Asking(timeout=20).run(query=QUESTION, **given)

    with capture() as captured:
        asyncio.run(run())
    (sample,) = captured.samples
    assert sample.retrieved is None
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    assert sample.ledger is not None
    assert all(call.kind != "retrieval" for call in sample.ledger.calls)


def test_a_search_by_hand_is_no_part_of_an_engine_that_finds_parts_of_its_texts(
    kit: ModuleType,
) -> None:
    facts = f"Facts from the provided text: Velm -> Bridge -> 1874. {BRIDGE}"
    by_hand = kit.FixedRetriever([kit.node("facts", facts)])
    engine = RetrieverQueryEngine.from_args(retriever(kit), llm=kit.ScriptedLLM())
    with capture() as captured:
        by_hand.retrieve(QUESTION)
        engine.query(QUESTION)
    answered, searched = sorted(captured.samples, key=lambda one: one.answer is None)
    assert answered.ledger is not None
    (call,) = answered.ledger.calls
    assert [item.text for item in call.items] == [BRIDGE]
    assert [context.text for context in searched.contexts or ()] == [facts]


def test_searches_of_tasks_that_the_block_started_are_of_its_turn(
    kit: ModuleType,
) -> None:
    """Beside each other, and answered by the task that waits for them."""
    pages = [BRIDGE, "The town of Velm lies on both banks of a slow river."]
    retrievers = [kit.FixedRetriever([kit.node(page, page)]) for page in pages]

    async def app() -> tuple[Sample, ...]:
        with capture() as captured:
            await asyncio.gather(*(each.aretrieve(QUESTION) for each in retrievers))
            prompt = "\n".join([*pages, f"Question: {QUESTION}"])
            await kit.ScriptedLLM(script={"": "In 1874."}).acomplete(prompt)
        return captured.samples

    (sample,) = asyncio.run(app())
    assert sample.capture is not None
    assert (sample.capture.grade, sample.answer) == ("exact", "In 1874.")
