"""Public applications of plain functions: no run of the framework is around their searches and calls of models.

What each must give is what its user reads and what its prompts held.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from langchain_classic.chains import RetrievalQA
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnableLambda
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
from langchain_fakes import Shelf, Speaker, calls

pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)
SHELF = [PLAN, MEMORY]


def told(template: str, *replies: Any) -> Any:
    """A chain of a template and a model that calls one tool, as structured outputs do."""
    structured = RunnableLambda(lambda message: message.tool_calls[0]["args"])
    return (
        PromptTemplate.from_template(template) | Speaker(lines=[*replies]) | structured
    )


@app(
    Expected(["plan"], retrieved=["plan", "memory"], doubts=["answer_guessed"]),
    is_hedged=True,
)
def knowledge_of_the_best_document() -> None:
    """NirDiamant/RAG_Techniques, all_rag_techniques/crag.ipynb: each document is graded, the best one is refined."""
    found = Shelf(books=SHELF).invoke(QUESTION)
    grade = told(
        "How relevant is the document? Query: {query}\nDocument: {document}",
        calls("Score", relevance_score=0.5),
        calls("Score", relevance_score=0.1),
    )
    for one in found:
        grade.invoke({"query": QUESTION, "document": one.page_content})
    refine = told(
        "Extract the key information:\n{document}\nKey points:",
        calls("Points", key_points="- an agent makes subgoals of a task"),
    )
    knowledge = refine.invoke({"document": found[0].page_content})["key_points"]
    answer = PromptTemplate.from_template(
        "Answer the query.\nQuery: {query}\nKnowledge: {knowledge}\nAnswer:"
    )
    (answer | Speaker(lines=ANSWER)).invoke({"query": QUESTION, "knowledge": knowledge})


def self_rag(*replies: str) -> None:
    """NirDiamant/RAG_Techniques, all_rag_techniques/self_rag.ipynb: an answer for each document that is relevant."""
    found = Shelf(books=SHELF).invoke(QUESTION)
    said = [
        calls("Relevance" if "elevant" in reply else "Generation", response=reply)
        for reply in replies
    ]
    model = Speaker(lines=said)
    structured = RunnableLambda(lambda message: message.tool_calls[0]["args"])
    grade = (
        PromptTemplate.from_template(
            "Given the query '{query}' and the context '{context}', is it relevant?"
        )
        | model
        | structured
    )
    write = (
        PromptTemplate.from_template(
            "Given the query '{query}' and the context '{context}', generate a response."
        )
        | model
        | structured
    )
    texts = [one.page_content for one in found]
    relevant = [
        text
        for text in texts
        if grade.invoke({"query": QUESTION, "context": text})["response"] == "Relevant"
    ]
    for text in relevant or ["No relevant context found."]:
        write.invoke({"query": QUESTION, "context": text})


@app(
    Expected(
        ["memory"],
        retrieved=["plan", "memory"],
        answer="The texts do not say.",
        doubts=["further_call"],
    )
)
def one_structured_answer_for_each_document() -> None:
    """NirDiamant/RAG_Techniques, all_rag_techniques/self_rag.ipynb: the best of several answers is taken."""
    self_rag("Relevant", "Relevant", ANSWER, "The texts do not say.")


@app(
    Expected(
        [],
        retrieved=["plan", "memory"],
        answer="I do not know.",
        doubts=["answer_guessed"],
    ),
    is_hedged=True,
)
def no_document_is_relevant() -> None:
    """NirDiamant/RAG_Techniques, all_rag_techniques/self_rag.ipynb: the model is told that nothing was found."""
    self_rag("Irrelevant", "Irrelevant", "I do not know.")


@app(Expected(["plan", "memory"]))
def sub_questions_by_a_model() -> None:
    """NirDiamant/RAG_Techniques, all_rag_techniques/adaptive_retrieval.ipynb: a list of queries is no conversation."""
    queries = ["What is task decomposition?", "What is short-term memory?"]
    category = told(
        "Classify the following query.\nQuery: {query}\nCategory:",
        calls("Category", category="Analytical"),
    )
    category.invoke(QUESTION)
    plan = told(
        "Generate {k} sub-questions for: {query}",
        calls("SubQueries", sub_queries=queries),
    )
    documents = []
    for place, query in enumerate(
        plan.invoke({"query": QUESTION, "k": 2})["sub_queries"]
    ):
        documents += Shelf(books=SHELF[place : place + 1]).invoke(query)
    answer = PromptTemplate.from_template("{context}\n\nQuestion: {question}\nAnswer:")
    (answer | Speaker(lines=ANSWER)).invoke(
        {
            "context": "\n".join(one.page_content for one in documents),
            "question": QUESTION,
        }
    )


@app(
    Expected(["plan", "memory"]),
    Expected(
        ["memory"],
        retrieved=["plan", "memory"],
        answer="Yes",
        doubts=["answer_guessed"],
    ),
)
def documents_graded_after_the_answer() -> None:
    """NirDiamant/RAG_Techniques, all_rag_techniques/retrieval_with_feedback_loop.ipynb: feedback on each document."""
    shelf = Shelf(books=SHELF)
    RetrievalQA.from_chain_type(Speaker(lines=ANSWER), retriever=shelf).invoke(QUESTION)
    relevance = told(
        "Is the feedback relevant?\nCurrent query: {query}\nDocument: {document}",
        calls("Response", answer="Yes"),
    )
    for one in shelf.invoke(QUESTION):
        relevance.invoke({"query": QUESTION, "document": one.page_content})


def refined(*lines: str) -> None:
    shelf = Shelf(books=SHELF)
    model = Speaker(lines=[*lines])
    RetrievalQA.from_chain_type(model, chain_type="refine", retriever=shelf).invoke(
        QUESTION
    )


@app(Expected(["plan", "memory"], answer="By prompting, in steps."))
def a_short_answer_that_is_refined() -> None:
    """langchain-ai/langchain, libs/langchain/langchain/chains/combine_documents/refine.py: an answer of three words."""
    refined("They are prompted.", "By prompting, in steps.")


@app(Expected(["plan", "memory"], answer="They are prompted."))
def a_short_answer_that_stays() -> None:
    """langchain-ai/langchain, libs/langchain/langchain/chains/combine_documents/refine.py: nothing is to refine."""
    refined("They are prompted.", "They are prompted.")


@app(Expected(["plan", "memory"], answer="In 1882."))
def a_date_that_stays() -> None:
    """langchain-ai/langchain, libs/langchain/langchain/chains/combine_documents/refine.py: an answer of two words."""
    refined("In 1882.", "In 1882.")


def fusion(search: Any) -> None:
    """samcyang/RAG-Learning/RAG-Fusion-LangChain.ipynb, step_by_step_fusion: no chain is around the steps."""
    template = PromptTemplate.from_template("Generate multiple queries: {question}")
    queries = Speaker(lines="What is a subgoal?\nWhat is memory?").invoke(
        template.invoke({"question": QUESTION})
    )
    books = {"What is a subgoal?": [PLAN], "What is memory?": [MEMORY]}
    shelf = Shelf(books=lambda query: [one.model_copy() for one in books[query]])
    found = search(shelf, str(queries.text).split("\n"))
    prompt = PromptTemplate.from_template("{context}\n\nQuestion: {question}")
    context = "\n".join(one.page_content for some in found for one in some)
    Speaker(lines=ANSWER).invoke(
        prompt.invoke({"context": context, "question": QUESTION})
    )


FUSED = Expected(
    ["plan", "memory"], question="What is a subgoal?", doubts=["question_guessed"]
)


@app(FUSED)
def queries_searched_one_by_one() -> None:
    """samcyang/RAG-Learning/RAG-Fusion-LangChain.ipynb, step_by_step_fusion."""
    fusion(lambda shelf, queries: [shelf.invoke(query) for query in queries])


@app(FUSED)
def queries_searched_by_map() -> None:
    """samcyang/RAG-Learning/RAG-Fusion-LangChain.ipynb, step_by_step_fusion: searches in threads."""
    fusion(
        lambda shelf, queries: (
            shelf.map().with_config(max_concurrency=1).invoke(queries)
        )
    )


@app(replace(FUSED, doubts=["question_guessed", "which_turn"]))
def queries_searched_by_batch() -> None:
    """samcyang/RAG-Learning/RAG-Fusion-LangChain.ipynb, step_by_step_fusion: searches in threads of their own."""
    fusion(lambda shelf, queries: shelf.batch(queries, {"max_concurrency": 1}))


@pytest.mark.parametrize("name", names(__name__))
def test_app(name: str) -> None:
    check(name)
