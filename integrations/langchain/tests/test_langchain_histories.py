"""What a run is handed is its history, whatever its steps take away before the model is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    trim_messages,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_fakes import Shelf, Speaker, document, joined
from langchain_ragmetrics import capture
from langgraph.graph import START, MessagesState, StateGraph

FERRY = "The Osta ferry crosses the lake every hour in summer."
QUESTION = "And how often does the ferry go?"
BEFORE = [HumanMessage("When was the bridge opened?"), AIMessage("In 1874.")]
SAID = ["When was the bridge opened?", "In 1874."]


def trimmer(**settings: Any) -> Any:
    return trim_messages(
        max_tokens=1, strategy="last", token_counter=len, start_on="human", **settings
    )


def answer(messages: list[BaseMessage]) -> Any:
    found = joined(
        Shelf(books=[document(FERRY, "ferry")]).invoke(str(messages[-1].text))
    )
    return Speaker(lines="Every hour.").invoke(
        [SystemMessage(f"Use only this: {found}"), *messages]
    )


def in_a_chain() -> None:
    (trimmer() | answer).invoke([*BEFORE, HumanMessage(QUESTION)])


def in_a_chain_with_named_inputs() -> None:
    """LangChain's how-to on trimming, and its chatbot tutorial."""
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Use: {context}"), MessagesPlaceholder("messages")]
    )
    shelf = Shelf(books=[document(FERRY, "ferry")])
    chain = (
        RunnablePassthrough.assign(
            messages=lambda state: trimmer().invoke(state["messages"])
        )
        | RunnablePassthrough.assign(
            context=lambda state: joined(shelf.invoke(str(state["messages"][-1].text)))
        )
        | prompt
        | Speaker(lines="Every hour.")
        | StrOutputParser()
    )
    chain.invoke({"messages": [*BEFORE, HumanMessage(QUESTION)]})


def in_a_graph() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node(
        "answer",
        lambda state: {"messages": [answer(trimmer().invoke(state["messages"]))]},
    )
    graph.add_edge(START, "answer")
    graph.compile().invoke({"messages": [*BEFORE, HumanMessage(QUESTION)]})


def with_a_history_beside_the_question() -> None:
    def run(state: dict[str, Any]) -> str:
        return str(
            answer(
                [*trimmer().invoke(state["chat_history"]), HumanMessage(state["input"])]
            ).text
        )

    RunnableLambda(run).invoke({"input": QUESTION, "chat_history": BEFORE})


def from_plain_dictionaries() -> None:
    (trimmer() | answer).invoke(
        [
            {"role": "user", "content": "When was the bridge opened?"},
            {"role": "assistant", "content": "In 1874."},
            {"role": "user", "content": QUESTION},
        ]
    )


APPLICATIONS = [
    in_a_chain,
    in_a_chain_with_named_inputs,
    in_a_graph,
    with_a_history_beside_the_question,
    from_plain_dictionaries,
]


@pytest.mark.parametrize("application", APPLICATIONS)
def test_a_trimmed_history_is_the_history_handed_in(
    application: Callable[[], None],
) -> None:
    with capture() as captured:
        application()
    (sample,) = captured.samples
    assert sample.question == QUESTION
    assert [turn.content for turn in sample.history] == SAID
    assert [turn.role for turn in sample.history] == ["user", "assistant"]
    assert sample.ledger is not None
    assert sample.ledger.turn == 2
    assert [context.text for context in sample.contexts] == [FERRY]
