"""Public graphs that send each part of a question to an agent of its own, and put their answers together."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_corpus import (
    ANSWER,
    MEMORY,
    PLAN,
    QUESTION,
    Expected,
    app,
    check,
    names,
)
from langchain_fakes import Letters, Speaker, calls
from langchain_ragmetrics import observe
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send

PARTS = ["How do agents decompose tasks?", "What do agents keep in memory?"]
FOUND = dict(zip(PARTS, (PLAN, MEMORY), strict=True))
SAID = {
    PARTS[0]: "A large task is broken down by prompting, into subgoals.",
    PARTS[1]: "They keep what is in context, and have a store outside of it.",
}
SUMMARY = {
    PARTS[0]: "Findings so far: tasks become subgoals, which is done by prompting.",
    PARTS[1]: "Findings so far: short-term memory is in context, the rest is outside.",
}


class Whole(MessagesState, total=False):
    original: str
    parts: list[str]
    answers: Annotated[list[dict[str, Any]], operator.add]


class Part(MessagesState, total=False):
    question: str
    index: int
    summary: str
    answers: list[dict[str, Any]]


class Sent(TypedDict):
    question: str
    index: int
    messages: list[AnyMessage]


def researcher(*, compresses: bool, gives_up: bool) -> Any:
    """The agent of one part: it searches, perhaps compresses what it found, and answers."""

    @tool
    def search_child_chunks(query: str) -> str:
        """Searches for excerpts."""
        store = InMemoryVectorStore.from_documents([FOUND[query]], Letters())
        found = observe(store).similarity_search(query, k=1)
        return "\n\n".join(
            f"Parent ID: 1\nFile Name: a.pdf\nContent: {one.page_content}"
            for one in found
        )

    def orchestrator(state: Part) -> Any:
        question = state["question"]
        system = SystemMessage("Search first, then answer.")
        if not state.get("messages"):
            asked = HumanMessage(question)
            said = Speaker(lines=calls("search_child_chunks", query=question)).invoke(
                [system, asked, HumanMessage("You must search first.")]
            )
            return {"messages": [asked, said]}
        known = state.get("summary", "")
        before = [HumanMessage(f"[COMPRESSED CONTEXT]\n\n{known}")] if known else []
        prompt = [system, *before, *state["messages"]]
        return {"messages": [Speaker(lines=SAID[question]).invoke(prompt)]}

    def compress(state: Part) -> Any:
        question = state["question"]
        told = "\n".join(f"[{one.type}]\n{one.text}" for one in state["messages"][1:])
        said = Speaker(lines=SUMMARY[question]).invoke(
            [
                SystemMessage("Compress."),
                HumanMessage(f"USER QUESTION:\n{question}\n\n{told}"),
            ]
        )
        removed = [RemoveMessage(id=str(one.id)) for one in state["messages"][1:]]
        return {"summary": str(said.text), "messages": removed}

    def fallback(state: Part) -> Any:
        found = [
            str(one.text) for one in state["messages"] if isinstance(one, ToolMessage)
        ]
        prompt = f"USER QUERY: {state['question']}\n\n--- DATA SOURCE 1 ---\n{found[0]}"
        return {"messages": [Speaker(lines=SAID[state["question"]]).invoke(prompt)]}

    def collect(state: Part) -> Any:
        answer = str(state["messages"][-1].text)
        return {"answers": [{"index": state["index"], "answer": answer}]}

    def after_search(state: Part) -> str:
        del state
        if gives_up:
            return "fallback"
        return "compress" if compresses else "orchestrator"

    made = StateGraph(Part)
    for node in (orchestrator, compress, fallback, collect):
        made.add_node(node)
    made.add_node("tools", ToolNode([search_child_chunks]))
    made.add_edge(START, "orchestrator")
    made.add_conditional_edges(
        "orchestrator",
        lambda state: "tools" if state["messages"][-1].tool_calls else "collect",
        ["tools", "collect"],
    )
    made.add_conditional_edges(
        "tools", after_search, ["fallback", "compress", "orchestrator"]
    )
    made.add_edge("compress", "orchestrator")
    made.add_edge("fallback", "collect")
    made.add_edge("collect", END)
    return made.compile()


def assistant(**ways: bool) -> Any:
    """The graph around them: it rewrites the question into parts, and puts the answers together."""

    def rewrite(state: Whole) -> Any:
        question = str(state["messages"][-1].text)
        Speaker(lines=calls("QueryAnalysis", is_clear=True, questions=PARTS)).invoke(
            [SystemMessage("Analyse."), HumanMessage(f"User Query:\n{question}\n")]
        )
        removed = [RemoveMessage(id=str(one.id)) for one in state["messages"]]
        return {"original": question, "parts": PARTS, "messages": removed}

    def send(state: Whole) -> list[Send]:
        return [
            Send("agent", Sent(question=part, index=index, messages=[]))
            for index, part in enumerate(state["parts"])
        ]

    def aggregate(state: Whole) -> Any:
        said = sorted(state["answers"], key=lambda one: one["index"])
        answers = "".join(
            f"\nAnswer {number}:\n{one['answer']}\n"
            for number, one in enumerate(said, start=1)
        )
        message = f"Original user question: {state['original']}\nRetrieved:{answers}"
        put_together = Speaker(lines=ANSWER).invoke(
            [SystemMessage("Combine."), HumanMessage(message)]
        )
        return {"messages": [AIMessage(str(put_together.text))]}

    made = StateGraph(Whole)
    made.add_node(rewrite)
    made.add_node("agent", researcher(**ways))
    made.add_node(aggregate)
    made.add_edge(START, "rewrite")
    made.add_conditional_edges("rewrite", send, ["agent"])
    made.add_edge("agent", "aggregate")
    made.add_edge("aggregate", END)
    return made.compile(checkpointer=InMemorySaver())


def ask(**ways: bool) -> None:
    config = {"configurable": {"thread_id": "one"}, "max_concurrency": 1}
    assistant(**ways).invoke({"messages": [("user", QUESTION)]}, config)


@app(Expected(["plan", "memory"]))
def agents_for_parts_of_a_question() -> None:
    """GiovanniPasq/agentic-rag-for-dummies, project/rag_agent/graph.py: an agent for each part, sent at once."""
    ask(compresses=False, gives_up=False)


@app(Expected(["plan", "memory"]))
def agents_that_compress_what_they_found() -> None:
    """GiovanniPasq/agentic-rag-for-dummies, project/rag_agent/nodes.py: results of tools become a summary."""
    ask(compresses=True, gives_up=False)


@app(Expected(["plan", "memory"]))
def agents_that_reach_their_limit() -> None:
    """GiovanniPasq/agentic-rag-for-dummies, project/rag_agent/nodes.py: results of tools become data sources."""
    ask(compresses=False, gives_up=True)


@pytest.mark.parametrize("name", names(__name__))
def test_app(name: str) -> None:
    check(name)
