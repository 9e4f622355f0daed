"""Graphs and agents after public ones, written anew; see ``test_langchain_apps``."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.tools import create_retriever_tool
from langchain_corpus import (
    ANSWER,
    MEMORY,
    PLAN,
    QUESTION,
    RAG,
    REFLECT,
    TOOLS,
    Chat,
    Expected,
    State,
    app,
    check,
    everything,
    generate,
    grader,
    graph,
    names,
)
from langchain_fakes import Shelf, Speaker, calls
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

# What public applications still use.
pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)

# Graphs


@app(
    Expected(
        ["plan", "reflect"],
        retrieved=["plan", "memory", "tools", "reflect"],
    )
)
def corrective_graph() -> None:
    """langchain-ai/langgraph/examples/rag/langgraph_crag.ipynb: filter, rewrite the question, add a page of the web."""

    def retrieve(state: State) -> State:
        return {
            "documents": Shelf(books=everything()).invoke(state["question"]),
            "question": state["question"],
        }

    def grade_documents(state: State) -> State:
        made = grader("yes", "no", "no")
        kept = [
            one
            for one in state["documents"]
            if made.invoke(
                {"question": state["question"], "document": one.page_content}
            )["binary_score"]
            == "yes"
        ]
        return {"documents": kept, "question": state["question"]}

    def transform_query(state: State) -> State:
        better = (
            Speaker(lines="What are the ways in which agents plan?")
            .invoke(f"Improve: {state['question']}")
            .text
        )
        return {"documents": state["documents"], "question": str(better)}

    def web_search(state: State) -> State:
        page = Document(page_content=REFLECT.page_content)
        return {"documents": [*state["documents"], page]}

    graph(retrieve, grade_documents, transform_query, web_search, generate).invoke(
        {"question": QUESTION}
    )


@app(Expected(["plan", "memory"], standalone="agent planning"))
def agentic_graph() -> None:
    """langchain-ai/langgraph/examples/rag/langgraph_agentic_rag.ipynb: tool call, rewrite as a message, answer."""
    search = create_retriever_tool(Shelf(books=everything()[:2]), "search", "Searches.")

    def agent(state: Chat) -> Chat:
        return {
            "messages": [
                Speaker(lines=calls("search", query="agent planning")).invoke(
                    state["messages"]
                )
            ]
        }

    def retrieve(state: Chat) -> Chat:
        return {"messages": [search.invoke(state["messages"][-1].tool_calls[0])]}  # type: ignore[union-attr]

    def rewrite(state: Chat) -> Chat:
        better = (
            Speaker(lines="In which ways do agents plan what they do?")
            .invoke("Improve the question")
            .text
        )
        return {"messages": [HumanMessage(str(better))]}

    def answer(state: Chat) -> Chat:
        context = str(state["messages"][-2].text)
        made = RAG | Speaker(lines=ANSWER)
        return {
            "messages": [
                made.invoke({"context": context, "question": state["messages"][0].text})
            ]
        }

    graph(agent, retrieve, rewrite, answer, state=Chat).invoke(
        {"messages": [("user", QUESTION)]}
    )


class Research(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    steps: list[str]
    documents: Annotated[list[Document], operator.add]


class Task(TypedDict):
    query: str


@app(Expected(["plan", "memory"]))
def research_agent() -> None:
    """langchain-ai/rag-research-agent-template/src/retrieval_graph/graph.py: route, plan, a sub-graph that fans out."""
    found = {"goals": PLAN, "recall": MEMORY}

    async def one(state: Task) -> Any:
        return {
            "documents": (
                await Shelf(books=[found[state["query"]]]).ainvoke(state["query"])
            )
        }

    class Search(TypedDict, total=False):
        question: str
        queries: list[str]
        documents: Annotated[list[Document], operator.add]

    async def queries(state: Search) -> Search:
        await Speaker(lines=calls("Response", queries=["goals", "recall"])).ainvoke(
            state["question"]
        )
        return {"queries": ["goals", "recall"]}

    inner = StateGraph(Search)
    inner.add_node(queries)
    inner.add_node("one", one)  # type: ignore[arg-type]
    inner.add_edge(START, "queries")
    inner.add_conditional_edges(
        "queries",
        lambda state: [Send("one", {"query": q}) for q in state["queries"]],
        ["one"],
    )
    researcher = inner.compile()

    async def plan(state: Research) -> Research:
        await Speaker(lines=calls("Plan", steps=["look it up"])).ainvoke(
            state["messages"]
        )
        return {"steps": ["look it up"]}

    async def research(state: Research) -> Research:
        result = await researcher.ainvoke({"question": state["steps"][0]})
        return {"documents": result["documents"]}

    async def respond(state: Research) -> Research:
        context = "\n".join(
            f"<document>\n{one.page_content}\n</document>" for one in state["documents"]
        )
        said = await Speaker(lines=ANSWER).ainvoke(
            [("system", f"<documents>\n{context}\n</documents>"), *state["messages"]]
        )
        return {"messages": [said]}

    asyncio.run(
        graph(plan, research, respond, state=Research).ainvoke(
            {"messages": [("user", QUESTION)]}
        )
    )


# Agents


@app(Expected(["plan", "tools"], standalone=None))
def agents_of_an_agent() -> None:
    """langchain-ai/langgraph/examples/multi_agent/hierarchical_agent_teams.ipynb: agents as tools of an agent."""

    def worker(name: str, one: Document, said: str) -> Any:
        shelf = create_retriever_tool(Shelf(books=[one]), "search", "Searches.")
        inner = create_agent(
            Speaker(lines=[calls("search", query=name), said]), [shelf]
        )

        @tool(name)
        def delegate(task: str) -> str:
            """Delegates."""
            return str(
                inner.invoke({"messages": [("user", task)]})["messages"][-1].text
            )

        return delegate

    workers = [
        worker("planner", PLAN, "The planner says that tasks are decomposed first."),
        worker("toolsmith", TOOLS, "The toolsmith says that tools are called then."),
    ]
    lines = [calls("planner", task="plans?"), calls("toolsmith", task="tools?"), ANSWER]
    create_agent(Speaker(lines=lines), workers).invoke(
        {"messages": [("user", QUESTION)]}
    )


@pytest.mark.parametrize("name", names(__name__))
def test_app(name: str) -> None:
    check(name)
