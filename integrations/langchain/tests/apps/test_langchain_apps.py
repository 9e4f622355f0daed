"""Small applications after public ones, written anew: each gives exactly the sample that a reader of its code expects.

The first line of each names the repository and file whose shape it has.
"""

from __future__ import annotations

import pytest
from langchain_classic.chains import ConversationalRetrievalChain
from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_corpus import (
    ANSWER,
    MEMORY,
    PLAN,
    QUESTION,
    TOOLS,
    Expected,
    app,
    check,
    everything,
    names,
    rag,
)
from langchain_fakes import Shelf, Speaker, joined
from langchain_ragmetrics import capture

# What public applications still use.
pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)

# Chains


@app(Expected(["memory", "plan", "tools"], retrieved=["plan", "memory", "tools"]))
def unique_union() -> None:
    """langchain-ai/rag-from-scratch/rag_from_scratch_5_to_9.ipynb, part 5: several queries, what they find once."""
    found = {"goals": [PLAN, MEMORY], "recall": [MEMORY, TOOLS]}
    shelf = Shelf(
        books=lambda query: [one.model_copy(deep=True) for one in found[query]]
    )

    def union(lists: list[list[Document]]) -> list[Document]:
        once = {dumps(one): one for some in lists for one in some}
        return sorted(once.values(), key=lambda one: str(one.id))

    perspectives = ChatPromptTemplate.from_template("Two versions of {question}")
    queries = (
        perspectives
        | Speaker(lines="goals\nrecall")
        | StrOutputParser()
        | (lambda text: text.split("\n"))
    )
    union_chain = (
        RunnableLambda(lambda question: {"question": question})
        | queries
        | shelf.map()
        | union
    )
    # two at once begin in either order
    rag(union_chain).invoke(QUESTION, {"max_concurrency": 1})


@app(Expected([("memory", 0.5), ("plan", 0.25)], retrieved=["plan", "memory"]))
def fusion_with_scores() -> None:
    """langchain-ai/rag-from-scratch/rag_from_scratch_5_to_9.ipynb, part 6: (document, score) of fused ranks."""
    shelf = Shelf(books=lambda query: [PLAN, MEMORY] if query == "one" else [MEMORY])

    def fused(lists: list[list[Document]]) -> list[tuple[Document, float]]:
        return [(MEMORY.model_copy(), 0.5), (PLAN.model_copy(), 0.25)]

    chain = RunnableLambda(lambda question: ["one", "two"]) | shelf.map() | fused
    # two at once begin in either order
    rag(chain).invoke(QUESTION, {"max_concurrency": 1})


@app(
    Expected(
        ["plan"],
        question="And how?",
        standalone=QUESTION,
        history=["What do agents do?", "They plan their work."],
    )
)
def history_as_pairs() -> None:
    """Prany25/Conversational-RAG-with-PDFuploads/app.py, its history kept as (human, ai) pairs."""
    made = ConversationalRetrievalChain.from_llm(
        Speaker(lines=[QUESTION, ANSWER]), Shelf(books=[PLAN])
    )
    made.invoke(
        {
            "question": "And how?",
            "chat_history": [("What do agents do?", "They plan their work.")],
        }
    )


@app(
    Expected(
        ["plan"],
        answer=None,
        error="the stream was abandoned before its end",
        doubts=["no_answer"],
    )
)
def left_while_streaming() -> None:
    """minhbtrc/langchain-chatbot/app.py: the reader closes the page before the answer is there."""
    for _ in rag(Shelf(books=[PLAN]) | joined).stream(QUESTION):
        break


@app(Expected(["plan", "memory"]))
def documents_as_content_blocks() -> None:
    """langchain-ai/langchain/docs/docs/how_to/qa_citations.ipynb: documents and answer are blocks of messages."""
    found = Shelf(books=everything()[:2]).invoke(QUESTION)
    blocks = [
        {"type": "document", "source": {"type": "text", "data": one.page_content}}
        for one in found
    ]
    said = AIMessage([{"type": "text", "text": ANSWER, "citations": []}])
    Speaker(lines=said).invoke(
        [HumanMessage([*blocks, {"type": "text", "text": QUESTION}])]
    )


@app(Expected(["plan", "memory"]))
def documents_beside_the_messages() -> None:
    """Cohere's way, and vLLM's: docs.cohere.com/docs/rag-with-chat."""

    def answer(question: str) -> str:
        found = Shelf(books=everything()[:2]).invoke(question)
        documents = [
            {"id": one.id, "data": {"text": one.page_content}} for one in found
        ]
        asked = [HumanMessage(question)]
        return str(Speaker(lines=ANSWER).invoke(asked, documents=documents).content)

    RunnableLambda(answer).invoke(QUESTION)


# Plain functions, no chain around them


@app(
    Expected(
        ["plan", "memory"],
        question="And how do they?",
        standalone=QUESTION,
        history=["What are agents?", "Programs that act."],
    )
)
def condensed_by_hand() -> None:
    """bot-remains/hydraiq/chatbot/chains.py, its chains called one after the other, the answer streamed."""
    prompt = ChatPromptTemplate.from_template("{chat_history} Alone: {question}")
    asked = (prompt | Speaker(lines=QUESTION) | StrOutputParser()).invoke(
        {
            "question": "And how do they?",
            "chat_history": [
                ("human", "What are agents?"),
                ("ai", "Programs that act."),
            ],
        }
    )
    found = Shelf(books=everything()[:2]).invoke(asked)
    list(Speaker(lines=ANSWER).stream(f"{joined(found)}\n{asked}"))


@app(
    Expected(["plan"]),
    Expected(
        ["memory"],
        question="What is memory?",
        answer="What an agent keeps, for now or for long.",
    ),
)
def two_questions() -> None:
    """DanielPopoola/adaptive-rag/src/cli/main.py: a loop over questions, here without a chain."""
    for question, one, answer in (
        (QUESTION, PLAN, ANSWER),
        ("What is memory?", MEMORY, "What an agent keeps, for now or for long."),
    ):
        found = Shelf(books=[one]).invoke(question)
        Speaker(lines=answer).invoke(f"Context: {joined(found)}\nQuestion: {question}")


@app(Expected(["plan", "memory"]))
def answer_printed_not_returned() -> None:
    """thaiphanthanhIT/RAG-langchain/cgraph/generate.py, as a function that prints and returns nothing."""
    written: list[str] = []

    def reply(question: str) -> None:
        found = Shelf(books=everything()[:2]).invoke(question)
        written.append(
            str(Speaker(lines=ANSWER).invoke(f"{joined(found)}\n{question}").text)
        )

    RunnableLambda(reply).invoke(QUESTION)


@pytest.mark.parametrize("name", names(__name__))
def test_app(name: str) -> None:
    check(name)


def test_the_hint_names_what_to_say() -> None:
    """No retrieval is seen: the hint says by which arguments to help, and nothing of prompts is claimed."""
    with capture() as captured:
        AIMessage("x")
        Speaker(lines=ANSWER).invoke(QUESTION)
    assert captured.samples == ()
    (said,) = captured.problems.counts
    assert "context_tools=" in said
    assert "contexts_from=" in said
