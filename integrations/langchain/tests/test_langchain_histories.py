"""What a run is handed is its history, whatever its steps take away before the model is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

import pytest
from lanes import crossed
from langchain.agents import create_agent
from langchain.agents.middleware import after_agent, after_model, before_model
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_fakes import Shelf, Speaker, calls, document, joined
from langchain_ragmetrics import capture
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

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
    "pairs of turns, as a chain returned them": [(EARLIER, AIMessage(REPLY).text)],
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


@pytest.mark.parametrize(
    ("kept", "is_sure"),
    [
        ("as it was", True),
        ("with another reply", False),
        ("behind another question", True),
        ("of a turn that nobody saw", False),
        ("with other words of the user", False),
        ("with the words in a passage", False),
    ],
)
def test_a_chat_by_hand_that_keeps_its_prompts_has_the_words_of_the_user(
    kept: str, is_sure: bool
) -> None:
    """The captured turn says what the user's words were, where all else is the same."""
    said: list[BaseMessage] = []
    shelf = Shelf(books=[document(FERRY, "ferry")])

    def ask(question: str, messages: list[BaseMessage]) -> None:
        found = joined(shelf.invoke(question))
        messages.append(HumanMessage(f"Context:\n{found}\n\nQuestion: {question}"))
        messages.append(Speaker(lines=TALK[question]).invoke(messages))

    if kept == "of a turn that nobody saw":
        ask(EARLIER, said)
    with capture() as captured:
        if not said:
            ask(EARLIER, said)
        if kept == "with another reply":
            said[-1] = AIMessage("It is not known.")
        if kept == "with other words of the user":
            said[0] = HumanMessage(f"Context:\n{FERRY}\n\nQuestion: How old is it?")
        if kept == "with the words in a passage":
            said[0] = HumanMessage(
                f"FAQ:\n{EARLIER}\n{FERRY}\nQuestion: How old is it?"
            )
        if kept == "behind another question":
            ask("Who owns it?", [])
        ask(QUESTION, said)
    history, doubts = history_of(captured.samples[-1])
    words = EARLIER if is_sure else said[0].text
    assert history == [words, said[1].text]
    assert doubts == ([] if is_sure else ["history_unread"])


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


# Conversations whose application keeps less of the talk than was said, or other words

SHELF = Shelf(
    books=lambda query: [document(f"{TALK[query]} It is said of old.", query)]
)
THREAD: Any = {"configurable": {"thread_id": "t", "session_id": "s"}}
Ask = Callable[[str], Any]


def graph_of(state: Any, *nodes: Any, name: str = "messages") -> Ask:
    """Ask a graph of some nodes, one after the other, with a thread's memory."""
    graph = StateGraph(state)
    graph.add_sequence([(f"node{place}", node) for place, node in enumerate(nodes)])
    graph.add_edge(START, "node0")
    kept = graph.compile(checkpointer=InMemorySaver())
    return lambda question: kept.invoke({name: question}, THREAD)  # type: ignore[call-overload]  # a part of the state


def answered_by(messages: Sequence[BaseMessage], question: str) -> AIMessage:
    found = SystemMessage(joined(SHELF.invoke(question)))
    return Speaker(lines=TALK[question]).invoke([found, *messages])


def keeps(kept: Callable[[list[BaseMessage]], Sequence[BaseMessage]], hook: Any) -> Ask:
    """Ask an agent that keeps some of its messages."""

    @hook  # type: ignore[untyped-decorator]
    def cut(state: Any, runtime: Any) -> dict[str, Any]:
        gone = RemoveMessage(id=REMOVE_ALL_MESSAGES)
        return {"messages": [gone, *kept(state["messages"])]}

    @before_model
    def search(state: Any, runtime: Any) -> None:
        SHELF.invoke(state["messages"][-1].text)

    model = Speaker(lines=[*TALK.values()])
    agent = create_agent(
        model, [], middleware=[cut, search], checkpointer=InMemorySaver()
    )
    return lambda question: agent.invoke({"messages": [("user", question)]}, THREAD)


def since_question(messages: list[BaseMessage]) -> list[BaseMessage]:
    places = [place for place, each in enumerate(messages) if each.type == "human"]
    return messages[places[-1] :]


def answers_alone(state: MessagesState) -> dict[str, Any]:
    """A node that keeps its reply, and deletes what came before it."""
    messages = state["messages"]
    gone = [RemoveMessage(id=str(each.id)) for each in messages]
    return {"messages": [*gone, answered_by(messages, str(messages[-1].text))]}


def supervises(state: MessagesState) -> dict[str, Any]:
    """An agent's report, and a note of the framework, stay in the thread."""
    question = str(state["messages"][-1].text)
    thought = calls("look_up", query=question)
    thought.content = "Thought: I look that up."
    note = calls("transfer_back_to_supervisor")
    note.content = "Transferring back to supervisor"
    report = AIMessage("The books were read.", name="expert")
    reply = answered_by(state["messages"], question)
    return {"messages": [thought, report, note, reply]}


class Kept(TypedDict):
    question: str
    chat_history: Annotated[list[BaseMessage], add_messages]
    answer: str


def adds_both(state: Kept) -> dict[str, Any]:
    """A node that adds question and answer to the history itself."""
    asked = HumanMessage(state["question"])
    earlier = state.get("chat_history") or []
    reply = answered_by([*earlier, asked], state["question"])
    return {"chat_history": [asked, reply], "answer": reply.text}


class Stateless(TypedDict):
    question: str
    answer: str


def answers(state: Stateless) -> dict[str, Any]:
    asked = HumanMessage(state["question"])
    return {"answer": answered_by([asked], state["question"]).text}


def with_message_history() -> Ask:
    """The chain shows its model the last message of the history alone."""
    kept = InMemoryChatMessageHistory()
    chain = RunnableLambda(
        lambda given: answered_by(
            [*given["history"][-1:], HumanMessage(given["question"])], given["question"]
        )
    )
    remembers = RunnableWithMessageHistory(
        chain,
        lambda session_id: kept,
        input_messages_key="question",
        history_messages_key="history",
    )
    return lambda question: remembers.invoke({"question": question}, THREAD)


CUT: dict[str, Callable[[], Ask]] = {
    "after_model that deletes the first": lambda: keeps(
        lambda all_: all_[1:], after_model
    ),
    "before_model that trims": lambda: keeps(since_question, before_model),
    "after_agent that keeps nothing": lambda: keeps(lambda all_: [], after_agent),
    "a node that keeps its reply": lambda: graph_of(MessagesState, answers_alone),
    "a supervisor's thread": lambda: graph_of(MessagesState, supervises),
    "a node that adds both": lambda: graph_of(Kept, adds_both, name="question"),
    "a state without messages": lambda: graph_of(Stateless, answers, name="question"),
    "RunnableWithMessageHistory": with_message_history,
}
# the state in which a later turn begins still holds the whole talk
KEPT_UNTIL_READ = {
    "before_model that trims",
    "a supervisor's thread",
    "a node that adds both",
    "RunnableWithMessageHistory",
}
deprecated = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.LangChainDeprecationWarning"
)


def assert_told(samples: Sequence[Sample], n_before: int) -> None:
    said = [text for pair in TALK.items() for text in pair]
    for place, sample in enumerate(samples, n_before):
        assert sample.question == said[2 * place]
        assert history_of(sample) == (said[: 2 * place], [])
        assert sample.ledger is not None
        assert sample.ledger.turn == place + 1


@deprecated
@pytest.mark.parametrize("way", CUT)
def test_what_an_application_cuts_or_adds_changes_no_history(way: str) -> None:
    ask = CUT[way]()
    with capture() as captured:
        for question in TALK:
            ask(question)
    assert len(captured.samples) == len(TALK)
    assert_told(captured.samples, 0)


@deprecated
@pytest.mark.parametrize("way", sorted(KEPT_UNTIL_READ))
def test_a_thread_that_began_unseen_is_read_before_its_steps_cut_it(way: str) -> None:
    ask = CUT[way]()
    first, *later = TALK
    ask(first)
    with capture() as captured:
        ask(later[0])
    assert_told(captured.samples, 1)


def test_a_thread_with_more_words_of_the_user_than_were_asked_is_hedged() -> None:
    """An agent that thinks in texts writes what it observed as the user's words."""

    def thinks(state: MessagesState) -> dict[str, Any]:
        question = str(state["messages"][-1].text)
        seen = HumanMessage("Observation: it stands in the books.")
        reply = answered_by(state["messages"], question)
        return {"messages": [AIMessage("Action: search"), seen, reply]}

    ask = graph_of(MessagesState, thinks)
    with capture() as captured:
        for question in TALK:
            ask(question)
    codes = [history_of(sample)[1] for sample in captured.samples]
    assert codes == [[], ["history_unread"], ["history_unread"]]


@pytest.mark.parametrize(
    ("name", "way"),
    crossed(["chat_history", "history", "memory", "conversation"], [*READ, *HEDGED]),
)
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


# Runs of plain functions after an answer

LIT, LAMP = "Who lit the lamp?", "Anna Berg lit the lamp of Osta in 1882."
ANSWERED, NEXT = "It was Anna Berg who did so.", "And how often does the ferry go?"
LAMP_SHELF, FERRY_SHELF = (
    Shelf(books=[document(text, name)]) for text, name in ((LAMP, "a"), (FERRY, "b"))
)


def answered_by_functions() -> str:
    prompt = f"Use {joined(LAMP_SHELF.invoke(LIT))}\nQuestion: {LIT}"
    return str(Speaker(lines=ANSWERED).invoke(prompt).text)


def answered_by_a_chain() -> str:
    chain = (
        {"found": LAMP_SHELF | joined, "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{found}\nQuestion: {question}")
        | Speaker(lines=ANSWERED)
        | StrOutputParser()
    )
    return str(chain.invoke(LIT))


@pytest.mark.parametrize(
    ("answers", "graded"),
    [
        (answered_by_functions, {"inferred": 1}),
        (answered_by_a_chain, {"exact": 1, "inferred": 1}),
    ],
)
def test_what_is_suggested_from_a_search_for_the_answer_is_no_sure_answer(
    answers: Callable[[], str], graded: dict[str, int]
) -> None:
    with capture() as captured:
        answer = answers()
        found = joined(FERRY_SHELF.invoke(answer))
        prompt = f"Suggest a question on {found}\n{LIT}\nAnswer: {answer}"
        Speaker(lines=NEXT).invoke(prompt)
    grades = [sample.capture.grade for sample in captured.samples if sample.capture]
    assert {grade: grades.count(grade) for grade in grades} == graded


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_memory_of_the_talk_that_a_store_gives_back_is_in_doubt(
    is_kept: bool,
) -> None:
    kept: list[Any] = []
    memory = Shelf(books=lambda query: [*kept, document(FERRY, "ferry")])
    chain = (
        {"found": memory | joined, "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{found}\nQuestion: {question}")
        | Speaker(lines=[ANSWERED, "Every hour."])
    )
    with capture() as captured:
        chain.invoke(LIT)
        if is_kept:
            kept.append(document(f"input: {LIT}\noutput: {ANSWERED}"))
        chain.invoke(QUESTION)
    first, second = captured.samples
    assert first.capture is not None
    assert first.capture.grade == "exact"
    assert second.capture is not None
    assert [*second.capture.doubts] == ["by_data_flow"] * is_kept
