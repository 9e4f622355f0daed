"""Applications drawn by a rule: what searches for chat with documents, graphs and endpoints showed first, not looked at
before. What each must give was written down before it ran.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_classic.chains import RetrievalQA
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import create_retriever_tool, tool
from langchain_corpus import (
    ALL,
    ANSWER,
    MEMORY,
    PLAN,
    QUESTION,
    RAG,
    TOOLS,
    Chat,
    Expected,
    app,
    check,
    everything,
    grader,
    graph,
    names,
)
from langchain_fakes import Shelf, Speaker, calls, joined
from langgraph.graph import StateGraph
from pydantic import BaseModel

pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)


@app(Expected(["plan", "memory", "tools"]))
def question_as_text() -> None:
    """co-codin/langchain-text-file-reading/prompt.py: a chain of old is handed the question as it is."""
    RetrievalQA.from_chain_type(
        Speaker(lines=ANSWER), retriever=Shelf(books=everything())
    ).invoke(QUESTION)


@app(
    Expected(
        ["plan", "memory", "tools"],
        retrieved=["memory", "plan", "tools"],
        history=["Hello", "Hi there"],
    )
)
def standalone_question_queries_and_fusion() -> None:
    """bot-remains/hydraiq/chatbot/chains.py: a standalone question, queries made of it, ranks fused, a history."""
    found = {"one": [MEMORY, PLAN], "two": [PLAN, TOOLS]}
    shelf = Shelf(books=lambda query: [one.model_copy() for one in found[query]])
    # else either may begin first, and come first
    searches = shelf.map().with_config(max_concurrency=1)
    prompt, asked = ChatPromptTemplate.from_template, operator.itemgetter("question")
    standalone = (
        prompt("Alone: {question}")
        | Speaker(lines="How do autonomous agents plan?")
        | StrOutputParser()
    )
    queries = (
        prompt("{question} {standalone_question}")
        | Speaker(lines="one\ntwo")
        | StrOutputParser()
    )
    both: Any = {"question": asked, "standalone_question": asked | standalone}
    fused = (
        both
        | queries
        | str.splitlines
        | searches
        | (lambda lists: [lists[1][0], lists[0][0], lists[1][1]])
    )
    inputs: Any = {
        "question": asked,
        "context": fused | joined,
        "chat_history": operator.itemgetter("chat_history"),
    }
    chain = (
        inputs
        | prompt("{chat_history}\n{context}\n{question}")
        | Speaker(lines=ANSWER)
        | StrOutputParser()
    )
    chain.invoke(
        {
            "question": QUESTION,
            "chat_history": [HumanMessage("Hello"), AIMessage("Hi there")],
        }
    )


class Kept(TypedDict, total=False):
    question: str
    documents: list[Any]
    generation: str


@app(Expected(["plan", "memory", "tools"]))
def graded_documents_kept_as_dicts() -> None:
    """longdnk/ta-backend-chatbot-api/graph/grade_node.py: each document in a dict with its grade, shown as it is."""

    def retrieve(state: Kept) -> Kept:
        return {"documents": Shelf(books=everything()).invoke(state["question"])}

    def grade(state: Kept) -> Kept:
        made = grader("yes", "no", "yes")
        graded = [
            {
                "document": one,
                "grade": made.invoke(
                    {"question": QUESTION, "document": one.page_content}
                ),
            }
            for one in state["documents"]
        ]
        return {"documents": graded}

    def generate(state: Kept) -> Kept:
        made = RAG | Speaker(lines=ANSWER) | StrOutputParser()
        return {
            "generation": made.invoke(
                {"context": state["documents"], "question": state["question"]}
            )
        }

    graph(retrieve, grade, generate, state=Kept).invoke({"question": QUESTION})


@app(
    Expected(
        ["plan", "memory"],
        answer="Directly: " + joined(ALL[:2]),
        standalone="plans",
        doubts=["by_data_flow"],
    ),
)
def tool_text_is_the_answer() -> None:
    """samwiserr/volverag/advanced_rag/src/graph/generation/answer.py: what a tool found is answered without a model."""
    search = create_retriever_tool(Shelf(books=everything()[:2]), "search", "Searches.")

    def agent(state: Chat) -> Chat:
        return {
            "messages": [
                Speaker(lines=calls("search", query="plans")).invoke(state["messages"])
            ]
        }

    def retrieve(state: Chat) -> Chat:
        return {"messages": [search.invoke(state["messages"][-1].tool_calls[0])]}  # type: ignore[union-attr]

    def answer(state: Chat) -> Chat:
        return {"messages": [AIMessage(f"Directly: {state['messages'][-1].text}")]}

    graph(agent, retrieve, answer, state=Chat).invoke(
        {"messages": [("user", QUESTION)]}
    )


class Mail(BaseModel):
    body: str
    reply: str = ""


class Mails(BaseModel):
    unread: list[Mail] = []
    done: list[Mail] = []
    context: str = ""
    draft: str = ""


@app(Expected(["plan"], question=f"Email: {QUESTION}", doubts=["question_guessed"]))
def mail_is_answered_and_checked() -> None:
    """lancedb/blog-lancedb/content/blog/agentic-rag-using-langgraph-building-a-simple-customer-support-autonomous-agent.md.

    A yes before, a yes after, and the answer deep in the state.
    """

    def read(state: Mails) -> Mails:
        if (
            Speaker(lines="Yes")
            .invoke(f"Does this need a policy? {state.unread[0].body}")
            .text
            == "Yes"
        ):
            state.context = "Policy:" + joined(
                Shelf(books=[PLAN]).invoke(f"Email: {state.unread[0].body}")
            )
        return state

    def draft(state: Mails) -> Mails:
        state.draft = str(
            Speaker(lines=ANSWER)
            .invoke(f"{state.context}\n{state.unread[0].body}")
            .text
        )
        return state

    def proofread(state: Mails) -> Mails:
        Speaker(lines="Yes").invoke(f"Ready to be sent? {state.draft}")
        return state

    def send(state: Mails) -> Mails:
        state.unread[0].reply, state.draft = state.draft, ""
        state.done.append(state.unread.pop(0))
        return state

    graph(read, draft, proofread, send, state=Mails).invoke(
        {"unread": [Mail(body=QUESTION)]}
    )


class Several(TypedDict, total=False):
    question: str
    generation: Annotated[list[str], operator.add]


@app(Expected(["plan", "memory", "tools"]))
def answers_in_a_list() -> None:
    """lalashiwoya/Chatbot_Design_with_LangGraph/api/nodes/retrieve.py: the state keeps a list of generations."""

    def node(state: Several) -> Several:
        found = Shelf(books=everything()).invoke(state["question"])
        made = RAG | Speaker(lines=ANSWER) | StrOutputParser()
        return {
            "generation": [
                made.invoke({"context": found, "question": state["question"]})
            ]
        }

    graph(node, state=Several).invoke({"question": QUESTION})


class Routed(TypedDict, total=False):
    query: str
    documents: Any
    llm_generated_response: str


@app(Expected([joined(ALL[:2]).replace("\n\n", "\n")]))
def web_page_of_several_results() -> None:
    """swati-git/QueryAnalyzer/src/graph_nodes/web_search.py: routed to the web, results joined in one document."""

    @tool
    def web(query: str) -> dict[str, Any]:
        """Searches the web."""
        return {
            "results": [{"content": one.page_content, "url": one.id} for one in ALL[:2]]
        }

    def route(state: Routed) -> str:
        return (
            "search"
            if Speaker(lines=calls("Route", datasource="WEB"))
            .invoke(state["query"])
            .tool_calls
            else "end"
        )

    def search(state: Routed) -> Routed:
        results = web.invoke({"query": state["query"]})["results"]
        return {
            "documents": Document(
                page_content="\n".join(one["content"] for one in results)
            )
        }

    def answer(state: Routed) -> Routed:
        made = RAG | Speaker(lines=ANSWER) | StrOutputParser()
        found = made.invoke({"question": state["query"], "context": state["documents"]})
        return {"llm_generated_response": found}

    built = StateGraph(Routed)
    built.add_node(search)
    built.add_node(answer)
    built.add_edge("search", "answer")
    built.set_conditional_entry_point(route, {"search": "search", "end": "__end__"})
    list(built.compile().stream({"query": QUESTION}))


@app(
    Expected(
        ["plan", "memory"],
        question="How do they plan?",
        standalone=None,
        history=[QUESTION, ANSWER],
    )
)
def chat_page_that_keeps_its_own_history() -> None:
    """ritam3/RAG-PDF-HuggingFace-Groq/llm.py, asked a second time with the page's own history handed in."""
    context = RunnableLambda(
        lambda asked: joined(Shelf(books=everything()[:2]).invoke(asked["question"]))
    )
    prompt = ChatPromptTemplate.from_template("{history}\n{context}\n{question}")
    inputs: Any = {
        "context": context,
        "history": operator.itemgetter("history"),
        "question": operator.itemgetter("question"),
    }
    (inputs | prompt | Speaker(lines=ANSWER) | StrOutputParser()).invoke(
        {
            "question": "How do they plan?",
            "history": [
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": ANSWER},
            ],
        }
    )


@pytest.mark.parametrize("name", names(__name__))
def test_app(name: str) -> None:
    check(name)
