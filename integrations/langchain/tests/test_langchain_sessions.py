"""Sessions of ``RunnableWithMessageHistory`` are conversations, whatever it keeps of the user's words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.chat_history import (
    BaseChatMessageHistory,
    InMemoryChatMessageHistory,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import (
    ConfigurableFieldSpec,
    RunnableLambda,
    RunnablePassthrough,
)
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_fakes import Shelf, Speaker, document, joined
from langchain_ragmetrics import RagMetricsCallback, capture

# what LangChain deprecates and applications still hold
pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainDeprecationWarning"
)
FERRY = "The Osta ferry crosses the lake every hour in summer."
QUESTIONS = ["When was the Osta LH built?", "And who kept the LH?", "Is it open?"]
ANSWERS = ["In 1874.", "Anna Brandt.", "In 1874."]


def application(
    kept: dict[Any, BaseChatMessageHistory], *, keys: tuple[str, ...] = ("session_id",)
) -> Any:
    """A chain with a session that replaces a word of the question before the history is loaded."""

    def history_of(**said: str) -> BaseChatMessageHistory:
        return kept.setdefault(tuple(said.values()), InMemoryChatMessageHistory())

    shelf = Shelf(books=[document(FERRY, "ferry")])
    prompt = ChatPromptTemplate.from_messages(
        [("system", "{context}"), MessagesPlaceholder("past"), ("human", "{input}")]
    )
    answers = dict(zip(QUESTIONS, ANSWERS, strict=True))

    def answer(messages: Any) -> str:
        asked = messages.messages[-1].text.replace("lighthouse", "LH")
        return str(Speaker(lines=answers[asked]).invoke(messages).text)

    inner = (
        RunnablePassthrough.assign(
            context=lambda given: joined(shelf.invoke(given["input"]))
        )
        | prompt
        | RunnableLambda(answer)
    )
    fields = [
        ConfigurableFieldSpec(id=key, annotation=str, name=key, is_shared=True)
        for key in keys
    ]
    single = len(keys) == 1
    wrapped = RunnableWithMessageHistory(
        inner,
        (lambda session_id: history_of(id=session_id))
        if single
        else _of_two(history_of),
        input_messages_key="input",
        history_messages_key="past",
        history_factory_config=fields,
    )
    normalised = RunnableLambda(
        lambda given: {"input": given["input"].replace("LH", "lighthouse")}
    )
    return normalised | wrapped


def _of_two(history_of: Any) -> Any:
    def history(user_id: str, conversation_id: str) -> BaseChatMessageHistory:
        made: BaseChatMessageHistory = history_of(a=user_id, b=conversation_id)
        return made

    return history


def ask(made: Any, question: str, **said: str) -> None:
    made.invoke({"input": question}, config={"configurable": said})


def test_a_session_is_a_conversation_though_its_history_has_other_words() -> None:
    made = application({})
    with capture() as captured:
        for question in QUESTIONS:
            ask(made, question, session_id="anna", tenant="town")
    assert [sample.question for sample in captured.samples] == QUESTIONS
    for place, sample in enumerate(captured.samples):
        assert sample.ledger.conversation == "anna"
        assert sample.ledger.turn == place + 1
        assert len(sample.history) == 2 * place
        assert [call.turn for call in sample.ledger.calls] == [*range(1, place + 2)]
        assert sample.capture.grade == "exact"


@pytest.mark.parametrize("is_streamed", [True, False])
def test_sessions_beside_each_other_stay_apart(is_streamed: bool) -> None:
    made = application({})

    async def turn(session: str, question: str) -> None:
        config = {"configurable": {"session_id": session}}
        if is_streamed:
            async for _ in made.astream({"input": question}, config=config):
                pass
        else:
            await made.ainvoke({"input": question}, config=config)

    async def run() -> None:
        for question in QUESTIONS:
            await asyncio.gather(*(turn(name, question) for name in ("anna", "ben")))

    with capture() as captured:
        asyncio.run(run())
    turns = {(one.ledger.conversation, one.ledger.turn) for one in captured.samples}
    assert turns == {(name, turn) for name in ("anna", "ben") for turn in (1, 2, 3)}
    for sample in captured.samples:
        assert len(sample.ledger.calls) == sample.ledger.turn
        assert sample.capture.grade == "exact"


def test_several_fields_name_a_session_together() -> None:
    made = application({}, keys=("user_id", "conversation_id"))
    with capture() as captured:
        ask(made, QUESTIONS[0], user_id="anna", conversation_id="7")
        ask(made, QUESTIONS[1], user_id="anna", conversation_id="8")
        ask(made, QUESTIONS[1], user_id="anna", conversation_id="7")
    said = [(one.ledger.conversation, one.ledger.turn) for one in captured.samples]
    assert said == [("7/anna", 1), ("8/anna", 1), ("7/anna", 2)]


def test_a_session_whose_messages_were_cleared_begins_anew() -> None:
    kept: dict[Any, BaseChatMessageHistory] = {}
    made = application(kept)
    with capture() as captured:
        ask(made, QUESTIONS[0], session_id="anna")
        kept.clear()
        ask(made, QUESTIONS[1], session_id="anna")
        ask(made, QUESTIONS[2], session_id="anna")
    first, second, third = captured.samples
    assert [one.ledger.turn for one in captured.samples] == [1, 1, 2]
    assert first.history == second.history == ()
    assert [call.turn for call in second.ledger.calls] == [1]
    assert [item.text for call in third.ledger.calls for item in call.items] == [
        FERRY,
        FERRY,
    ]


def test_a_callback_continues_the_session_that_a_block_captured() -> None:
    app = application({})
    session = {"configurable": {"session_id": "anna"}}
    with capture() as captured:  # a question whose words the session keeps as they are
        app.invoke({"input": QUESTIONS[2]}, config=session)
    assert len(captured.samples) == 1
    callback = RagMetricsCallback(metrics=[])
    app.invoke({"input": QUESTIONS[1]}, config={**session, "callbacks": [callback]})
    (sample,) = callback.samples
    assert [call.turn for call in sample.ledger.calls] == [1, 2]


def test_the_name_of_a_block_goes_before_that_of_a_session() -> None:
    made = application({})
    with capture(conversation="mine") as captured:
        for question in QUESTIONS[:2]:
            ask(made, question, session_id="anna")
    said = [(one.ledger.conversation, one.ledger.turn) for one in captured.samples]
    assert said == [("mine", 1), ("mine", 2)]
