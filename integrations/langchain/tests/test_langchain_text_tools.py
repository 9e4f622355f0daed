"""Agents whose tools return text: each answered run is a sample, and the text is evidence of the ledger."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from lanes import crossed
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import ToolException, tool
from langchain_ragmetrics import capture
from lighthouse_texts import ANSWER, FACT, QUESTION, ROOMS


class Scripted(GenericFakeChatModel):
    """Says its lines one after the other."""

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self


# What a tool that is named returns, and the passages in it; None where it is not divided
RECORDS = [
    {"content": FACT, "url": "https://lamp.example/1", "score": 0.9},
    {"content": ROOMS, "url": "https://lamp.example/2", "score": 0.4},
]
BOTH = [FACT, ROOMS]
RESULTS: dict[str, tuple[Any, list[str] | None]] = {
    "blocks of an MCP server": (
        [{"type": "text", "text": text} for text in BOTH],
        BOTH,
    ),
    "records": (RECORDS, BOTH),
    "records as JSON": (json.dumps(RECORDS), BOTH),
    "a mapping as Tavily's": (
        {"query": "lamp", "results": RECORDS, "response_time": 0.3},
        BOTH,
    ),
    "lines": (f"1. {FACT}\n2. {ROOMS}", None),
    "lists in a mapping": ({"lamps": [FACT], "rooms": [11]}, None),
}


def in_an_agent(made: Any) -> None:
    wish = {"name": "search_archive", "args": {"query": "lamp"}, "id": "1"}
    lines = [AIMessage("", tool_calls=[wish]), AIMessage(ANSWER)]
    agent = create_agent(Scripted(messages=iter(lines)), [made])
    agent.invoke({"messages": [("user", QUESTION)]})


def by_a_step(made: Any) -> None:
    def prompt(question: str) -> str:
        return f"Use this: {made.invoke({'query': question})}\nQuestion: {question}"

    (RunnableLambda(prompt) | Scripted(messages=iter([AIMessage(ANSWER)]))).invoke(
        QUESTION
    )


def by_run_in_a_step(made: Any) -> None:
    """``run`` hands no config on: LangChain names no step around the call."""

    def prompt(question: str) -> str:
        return f"Use this: {made.run({'query': question})}\nQuestion: {question}"

    chain = RunnableLambda(prompt) | Scripted(messages=iter([AIMessage(ANSWER)]))
    chain.invoke(QUESTION)


@pytest.mark.parametrize(
    ("name", "ask"), crossed([*RESULTS], [in_an_agent, by_a_step, by_run_in_a_step])
)
def test_the_result_of_a_named_tool_is_divided_by_its_own_structure(
    name: str, ask: Any
) -> None:
    result, passages = RESULTS[name]

    @tool
    def search_archive(query: str) -> Any:
        """Searches an archive."""
        return result

    with capture(context_tools={"search_archive"}) as captured:
        ask(search_archive)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert sample.capture is not None
    texts = [context.text for context in sample.known_contexts]
    if passages is None:
        assert list(sample.capture.doubts) == ["undivided"]
        assert len(texts) == 1
        assert FACT in texts[0]
    else:
        assert (texts, sample.capture.doubts) == (passages, {})
        assert [one.text for one in sample.retrieved or ()] == passages
    assert sample.ledger is not None
    (call,) = sample.ledger.calls
    assert (call.kind, call.shown) == ("retrieval", tuple(range(len(texts))))


@pytest.mark.parametrize(
    "name", [name for name, (_, passages) in RESULTS.items() if passages]
)
def test_a_list_of_texts_that_answers_a_query_needs_no_name(name: str) -> None:
    result, passages = RESULTS[name]

    @tool
    def search_archive(query: str) -> Any:
        """Searches an archive."""
        return result

    with capture() as captured:
        in_an_agent(search_archive)
    (sample,) = captured.samples
    texts = [context.text for context in sample.known_contexts]
    assert sample.capture is not None
    assert (texts, sample.capture.doubts) == (passages, {})


def test_a_tool_that_a_task_of_a_step_runs_belongs_to_the_step() -> None:
    """As in a node of LangGraph, which runs in a task of its own."""

    @tool
    def search_archive(query: str) -> str:
        """Searches an archive."""
        return FACT

    async def prompt(question: str) -> str:
        async def search() -> str:
            return str(search_archive.run({"query": question}))

        text = await asyncio.create_task(search())
        return f"Use this: {text}\nQuestion: {question}"

    chain = RunnableLambda(prompt) | Scripted(messages=iter([AIMessage(ANSWER)]))
    with capture(context_tools={"search_archive"}) as captured:
        asyncio.run(chain.ainvoke(QUESTION))
    (sample,) = captured.samples
    assert [context.text for context in sample.known_contexts] == [FACT]
    assert sample.capture is not None
    assert sample.capture.doubts == {}


@pytest.mark.parametrize("ask", [in_an_agent, by_a_step])
@pytest.mark.parametrize(
    ("is_block", "written"),
    [
        (False, "In May 1882."),
        (False, ROOMS),
        (False, None),
        (True, ROOMS),
        (True, None),
    ],
)
@pytest.mark.parametrize("records", [RECORDS[:1], []])
def test_an_answer_that_a_search_wrote_beside_what_it_found_is_in_doubt(
    is_block: bool, records: Any, written: str | None, ask: Any
) -> None:
    @tool
    def search_archive(query: str) -> Any:
        """Searches an archive."""
        found = {"query": query, "answer": written, "results": records}
        block = {"type": "text", "text": json.dumps(found)}
        return {"content": [block], "isError": False} if is_block else found

    with capture(context_tools={"search_archive"}) as captured:
        ask(search_archive)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert ("undivided" in sample.capture.doubts) is (written is not None)
    assert [each.text for each in sample.known_contexts] == [FACT][: len(records)]


def test_a_result_without_any_passage_is_a_search_that_found_nothing() -> None:
    @tool
    def search_archive(query: str) -> Any:
        """Searches an archive."""
        return {"results": []}

    with capture(context_tools={"search_archive"}) as captured:
        in_an_agent(search_archive)
    (sample,) = captured.samples
    assert (sample.contexts, sample.retrieved) == ((), ())


# Each of these was found by a search that nobody sees, or is the text of a tool that
# may have searched: no rule may take such a sample for sure.

TALKED = "The clock of the lighthouse says half past twelve."


def asks(*names: str) -> list[AIMessage]:
    calls = [{"name": name, "args": {}, "id": name} for name in names]
    return [AIMessage("", tool_calls=calls), AIMessage(ANSWER)]


@tool
def clock() -> str:
    """Tells the time."""
    return TALKED


@tool
def time() -> str:
    """Tells the time in a word."""
    return "12:30"


@tool
def search_web() -> str:
    """Searches, with what the agent's state holds in place of an argument."""
    return FACT


@tool
def broken_search() -> str:
    """Searches, and fails."""
    raise ToolException("the index is closed")


broken_search.handle_tool_error = True


@tool(response_format="content_and_artifact")
def search_books() -> Any:
    """Finds a document."""
    return ROOMS, [Document(ROOMS, id="rooms")]


@tool(response_format="content_and_artifact")
def load_books() -> Any:
    """Finds a document, and returns only the text of another source."""
    return FACT, [Document(ROOMS, id="rooms")]


HIDDEN: dict[str, tuple[list[Any], str | None, str]] = {
    # the tools called, the system message, the user's message
    "in the system message, beside a clock": ([clock], FACT, QUESTION),
    "in the user's message": ([clock], None, f"Context: {FACT}\n{QUESTION}"),
    "a search that fails, beside a word": ([broken_search, time], None, QUESTION),
    "a search without an argument": ([search_web], None, QUESTION),
    "a text beside a document": ([search_books, search_web], None, QUESTION),
    "in place of a tool's own document": ([load_books], None, QUESTION),
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_an_unseen_search_found_leaves_no_sample_sure(place: str) -> None:
    tools, system, asked = HIDDEN[place]
    names = [each.name for each in tools]
    agent = create_agent(
        Scripted(messages=iter(asks(*names))), tools, system_prompt=system
    )
    with capture() as captured:
        agent.invoke({"messages": [("user", asked)]})
    (sample,) = captured.samples
    assert sample.capture is not None
    texts = [context.text for context in sample.contexts or ()]
    assert sample.capture.grade != "exact" or FACT in texts


@pytest.mark.parametrize("place", [None, "structured_response.joke"])
def test_an_agents_answer_object_is_its_answer(place: str | None) -> None:
    """Also where a field that the model left out has a default."""
    from langchain.agents.structured_output import ToolStrategy
    from langgraph.checkpoint.memory import InMemorySaver

    @dataclass
    class Told:
        """What is told."""

        joke: str
        mood: str | None = None

    said = [{"joke": ANSWER, "mood": "dry"}, {"joke": "You are welcome, dear keeper."}]
    calls = [
        {"name": "Told", "args": each, "id": str(n)} for n, each in enumerate(said)
    ]
    agent = create_agent(
        Scripted(
            messages=iter(
                [
                    AIMessage("", tool_calls=[{"name": "now", "args": {}, "id": "t"}]),
                    *(AIMessage("", tool_calls=[call]) for call in calls),
                ]
            )
        ),
        [now],
        response_format=ToolStrategy(Told),
        checkpointer=InMemorySaver(),
    )
    with capture(answer_from=place, context_tools={"now"}) as captured:
        for asked in (QUESTION, "Thank you!"):
            agent.invoke(
                {"messages": [("user", asked)]}, {"configurable": {"thread_id": "t"}}
            )
    full = [{"mood": None, **each} for each in said]
    for sample, told in zip(captured.samples, full, strict=True):
        assert sample.answer is not None
        held = sample.answer if place else json.loads(sample.answer)
        assert held == (told["joke"] if place else told)
        assert sample.capture is not None
        assert (sample.capture.grade, dict(sample.capture.doubts)) == ("exact", {})


@tool
def now() -> str:
    """Tell the time."""
    return "It is noon at the lighthouse."
