"""What a run is handed is its history, whatever its steps take away before the model is called."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_fakes import Shelf, Speaker, document, joined
from langchain_ragmetrics import capture
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from ragmetrics_core.data.sample import Sample

FERRY = "The Osta ferry crosses the lake every hour in summer."
QUESTION = "And how often does the ferry go?"


def answer(messages: list[BaseMessage]) -> Any:
    found = joined(
        Shelf(books=[document(FERRY, "ferry")]).invoke(str(messages[-1].text))
    )
    return Speaker(lines="Every hour.").invoke(
        [SystemMessage(f"Use only this: {found}"), *messages]
    )


# Histories as applications hand them in or print them: right, or hedged

EARLIER, REPLY = "When was the bridge opened?", "In 1874, by the mayor."
TALK = {
    EARLIER: "In 1874.\nAnswer: the ferry is older.",
    QUESTION: "Every hour, in summer.",
    "Who owns it?": "The town of Osta.",
}
ROLES = [
    {"role": "user", "content": EARLIER},
    {"role": "assistant", "content": REPLY},
]
MESSAGES = [HumanMessage(EARLIER), AIMessage(REPLY)]
# ways to write the talk so far, and the code of what is uncertain of it
READ = {
    "messages": MESSAGES,
    "roles": ROLES,
    "pairs of role and text": [("human", EARLIER), ("ai", REPLY)],
    "pairs of turns": [(EARLIER, REPLY)],
    "question and answer": [{"question": EARLIER, "answer": REPLY}],
}
HEDGED = {
    "a bare reply": [HumanMessage(EARLIER), REPLY],
    "user and bot": [{"user": EARLIER}, {"bot": REPLY}],
    "texts with speakers": [f"User: {EARLIER}", f"Assistant: {REPLY}"],
    "texts": [EARLIER, REPLY],
    "one text with speakers": f"User: {EARLIER}\nAssistant: {REPLY}",
    "one text": f"{EARLIER}\n{REPLY}",
    "a list as text": str(ROLES),
    "messages as text": str(MESSAGES),
    "another language": f"Usuario: {EARLIER}\nAsistente: {REPLY}",
}
PRINTED = [
    *("messages", "roles", "pairs of role and text", "a bare reply", "user and bot"),
    *("texts with speakers", "one text with speakers", "a list as text"),
    "messages as text",
]


def asked_with(**given: Any) -> Sample:
    """The sample of a chain whose prompt prints what it is handed beside the question."""
    shelf = Shelf(books=[document(FERRY, "ferry")])
    names = "".join(f"{{{name}}}\n" for name in given)
    chain = (
        RunnablePassthrough.assign(
            context=lambda values: joined(shelf.invoke(values["input"]))
        )
        | ChatPromptTemplate.from_template(f"{names}{{context}}\nQ: {{input}}")
        | Speaker(lines="Every hour.")
        | StrOutputParser()
    )
    with capture() as captured:
        chain.invoke({"input": QUESTION, **given})
    (sample,) = captured.samples
    return sample


def history_of(sample: Sample) -> tuple[list[str], list[str]]:
    """What was said before, and the codes of what is uncertain of it."""
    assert sample.capture is not None
    codes = {"history_unread", "which_turn"} & set(sample.capture.doubts)
    return [turn.content for turn in sample.history], sorted(codes)


@pytest.mark.parametrize("name", ["chat_history", "history"])
@pytest.mark.parametrize("way", READ)
def test_a_history_that_says_who_speaks_is_read(name: str, way: str) -> None:
    sample = asked_with(**{name: READ[way]})
    assert history_of(sample) == ([EARLIER, REPLY], [])
    assert [turn.role for turn in sample.history] == ["user", "assistant"]
    assert sample.ledger is not None
    assert sample.ledger.turn == 2


@pytest.mark.parametrize("is_of_system", [True, False])
@pytest.mark.parametrize("way", PRINTED)
def test_a_talk_that_a_function_prints_is_never_told_as_none(
    way: str, is_of_system: bool
) -> None:
    shelf = Shelf(books=[document(FERRY, "ferry")])
    before = str({**READ, **HEDGED}[way])

    def prompt(question: str) -> list[BaseMessage]:
        head = f"Before:\n{before}\nUse: {joined(shelf.invoke(question))}"
        if is_of_system:
            return [SystemMessage(head), HumanMessage(question)]
        return [HumanMessage(f"{head}\nQuestion: {question}")]

    with capture() as captured:
        (RunnableLambda(prompt) | Speaker(lines="Every hour.")).invoke(QUESTION)
    (sample,) = captured.samples
    assert history_of(sample) == ([], ["history_unread"])
    assert [context.text for context in sample.known_contexts] == [FERRY]


def test_a_talk_with_which_a_step_fills_a_prompt_is_never_told_as_none() -> None:
    shelf = Shelf(books=[document(FERRY, "ferry")])
    fill = RunnableLambda(
        lambda question: {
            "chat_history": f"{EARLIER}\n{REPLY}",
            "context": joined(shelf.invoke(question)),
            "question": question,
        }
    )
    prompt = ChatPromptTemplate.from_template("{chat_history}\n{context}\n{question}")
    with capture() as captured:
        (fill | prompt | Speaker(lines="Every hour.")).invoke(QUESTION)
    (sample,) = captured.samples
    assert history_of(sample) == ([], ["history_unread"])


@pytest.mark.parametrize("empty", ["", [], None])
def test_an_empty_history_is_none_for_sure(empty: Any) -> None:
    assert history_of(asked_with(chat_history=empty)) == ([], [])


@pytest.mark.parametrize("with_sub_agent", [True, False])
def test_a_thread_that_keeps_the_whole_prompts_has_a_turn_for_each_question(
    with_sub_agent: bool,
) -> None:
    """A node asks with what was found, and its messages stay in the thread beside the user's."""
    shelves = {
        question: Shelf(books=[document(f"{answered} It is said of old.", question)])
        for question, answered in TALK.items()
    }

    class State(MessagesState):
        found: str

    def search(state: State) -> dict[str, Any]:
        question = str(state["messages"][-1].text)
        return {"found": joined(shelves[question].invoke(question))}

    def answered(state: State) -> dict[str, Any]:
        question = str(state["messages"][-1].text)
        whole = HumanMessage(f"CONTEXT:\n{state['found']}\nQUESTION:\n{question}")
        model = Speaker(lines=TALK[question])
        messages = [*state["messages"][:-1], whole]
        if with_sub_agent:
            return dict(create_agent(model, []).invoke({"messages": messages}))
        return {"messages": [whole, model.invoke(messages)]}

    graph = StateGraph(State)
    graph.add_node("search", search)
    graph.add_node("answer", answered)
    graph.add_edge(START, "search")
    graph.add_edge("search", "answer")
    thread: Any = {"configurable": {"thread_id": "t"}}
    with capture() as captured:
        kept = graph.compile(checkpointer=InMemorySaver())
        for question in TALK:
            kept.invoke({"messages": [HumanMessage(question)]}, thread)  # type: ignore[call-overload]  # a part of the state
    talk = [text for pair in TALK.items() for text in pair]
    for place, sample in enumerate(captured.samples):
        assert sample.ledger is not None
        assert sample.ledger.turn == place + 1
        assert [turn.content for turn in sample.history] == talk[: 2 * place]
        # each prompt holds what was found for the earlier questions as well
        assert [call.shown for call in sample.ledger.calls] == [(0,)] * (place + 1)
        assert [context.id for context in sample.known_contexts] == [talk[2 * place]]


@pytest.mark.parametrize("name", ["chat_history", "history", "memory", "conversation"])
@pytest.mark.parametrize("way", [*READ, *HEDGED])
def test_a_history_is_right_or_hedged(name: str, way: str) -> None:
    turns, codes = history_of(asked_with(**{name: {**READ, **HEDGED}[way]}))
    assert codes or turns == [EARLIER, REPLY]
    assert bool(turns) or codes == ["history_unread"]


@pytest.mark.parametrize("name", ["chat_history", "memory"])
@pytest.mark.parametrize(
    "quote", [FERRY, FERRY.rstrip("."), f"It is said that {FERRY[:-1].lower()} indeed."]
)
@pytest.mark.parametrize("is_one_text", [True, False])
def test_what_a_history_quotes_of_a_document_is_no_second_context(
    name: str, quote: str, is_one_text: bool
) -> None:
    texts = ["Is there a ferry?", quote]
    sample = asked_with(**{name: "\n".join(texts) if is_one_text else texts})
    assert [context.text for context in sample.known_contexts] == [FERRY]
    assert history_of(sample)[1]
