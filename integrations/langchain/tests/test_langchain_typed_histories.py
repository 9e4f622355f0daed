"""Earlier turns that plain functions put into the prompt as messages are the history, however short the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_fakes import Shelf, Speaker, document, rag
from langchain_ragmetrics import capture

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
QUESTIONS = ["When was the bridge opened?", "Who opened it?", "And the ferry?"]
SHORT = ["In 1874.", "Anna Brandt.", "Hourly."]
LONG = [
    "The bridge was opened in the year 1874.",
    "The mayor of the town opened it.",
    "It crosses the lake once an hour.",
]

Messages = list[BaseMessage]


def in_the_system(pages: str, question: str, said: Messages) -> Messages:
    return [SystemMessage(f"Pages: {pages}"), *said, HumanMessage(question)]


def in_the_question(pages: str, question: str, said: Messages) -> Messages:
    asked = HumanMessage(f"Pages: {pages}\nQuestion: {question}")
    return [SystemMessage("Be brief."), *said, asked]


def behind_the_question(pages: str, question: str, said: Messages) -> Messages:
    return [*said, HumanMessage(question), HumanMessage(f"Pages: {pages}")]


def before_the_question(pages: str, question: str, said: Messages) -> Messages:
    return [*said, HumanMessage(f"Pages: {pages}"), HumanMessage(question)]


WAYS = [in_the_system, in_the_question, behind_the_question, before_the_question]
Ask = Callable[[str, Messages], str]


def asking(way: Any, answers: list[str]) -> Ask:
    shelf = Shelf(books=[document(BRIDGE, "bridge"), document(FERRY, "ferry")])
    model = Speaker(lines=answers)

    def ask(question: str, said: Messages) -> str:
        pages = "\n".join(found.page_content for found in shelf.invoke(question))
        return str(model.invoke(way(pages, question, said)).content)

    return ask


def talk(ask: Ask) -> None:
    said: Messages = []
    for question in QUESTIONS:
        answer = ask(question, said)
        said += [HumanMessage(question), AIMessage(answer)]


@pytest.mark.parametrize("answers", [SHORT, LONG])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_chain", [False, True])
def test_typed_messages_of_earlier_turns_are_the_history(
    way: Any, answers: list[str], is_chain: bool
) -> None:
    ask = asking(way, answers)
    chain = RunnableLambda(lambda given: ask(given["question"], given["past"]))

    def ask_chain(question: str, said: Messages) -> str:
        return str(chain.invoke({"question": question, "past": said}))

    with capture() as captured:
        talk(ask_chain if is_chain else ask)
    assert not captured.problems
    samples = captured.samples
    assert [sample.question for sample in samples] == QUESTIONS
    assert [sample.answer for sample in samples] == answers
    said: list[tuple[str, str]] = []
    for number, sample in enumerate(samples):
        assert sample.ledger is not None
        assert sample.ledger.turn == number + 1
        assert sample.ledger.conversation == samples[0].ledger.conversation  # type: ignore[union-attr]  # each sample has one
        assert [(turn.role, turn.content) for turn in sample.history] == said
        said += [("user", QUESTIONS[number]), ("assistant", answers[number])]
        assert len(sample.contexts) == 2
        assert sample.capture is not None
        # words tell the conversation, so that nothing is exact
        assert sample.capture.grade == ("inferred" if number else "exact")


def test_typed_messages_that_were_never_captured_may_be_examples() -> None:
    ask = asking(in_the_question, LONG)
    examples = [HumanMessage("What is the mill?"), AIMessage("A house of the town.")]
    with capture() as captured:
        ask(QUESTIONS[0], examples)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert any("may be examples" in warning for warning in sample.capture.warnings)


def test_thoughts_behind_the_question_are_no_history() -> None:
    """An agent by hand, which is shown what it found as messages."""
    shelf = Shelf(books=[document(BRIDGE, "bridge")])
    model = Speaker(lines=["Thought: I search for the bridge.", LONG[0]])
    with capture() as captured:
        said: Messages = [SystemMessage("Think."), HumanMessage(QUESTIONS[0])]
        thought = model.invoke(said)
        (found,) = shelf.invoke(QUESTIONS[0])
        said += [thought, HumanMessage(f"Observation: {found.page_content}")]
        model.invoke(said)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTIONS[0], LONG[0])
    assert sample.history == ()
    assert sample.ledger is not None
    assert sample.ledger.turn == 1


@pytest.mark.parametrize("is_chain", [False, True])
def test_a_history_ends_at_the_question_and_not_at_a_thought_behind_it(
    is_chain: bool,
) -> None:
    shelf = Shelf(books=[document(BRIDGE, "bridge")])
    model = Speaker(lines=LONG)

    def ask(question: str, said: Messages) -> str:
        (found,) = shelf.invoke(question)
        thought = AIMessage("I look at what was found.")
        observed = HumanMessage(f"Observation: {found.page_content}")
        messages = [*said, HumanMessage(question), thought, observed]
        return str(model.invoke(messages).content)

    chain = RunnableLambda(lambda given: ask(given["question"], given["past"]))

    def ask_chain(question: str, said: Messages) -> str:
        return str(chain.invoke({"question": question, "past": said}))

    with capture() as captured:
        talk(ask_chain if is_chain else ask)
    assert [sample.question for sample in captured.samples] == QUESTIONS
    turns = [text for pair in zip(QUESTIONS, LONG, strict=True) for text in pair]
    for number, sample in enumerate(captured.samples):
        assert [turn.content for turn in sample.history] == turns[: 2 * number]


def test_lists_of_documents_of_a_parallel_step_wait_for_the_model_that_reads_them() -> (
    None
):
    shelf = Shelf(books=[document(BRIDGE, "bridge")])
    other = Shelf(books=[document(FERRY, "ferry")])
    with capture() as captured:
        found = RunnableParallel(pages=shelf, more=other).invoke(QUESTIONS[0])
        pages = [one.page_content for listed in found.values() for one in listed]
        prompt = "\n".join([*pages, f"Question: {QUESTIONS[0]}"])
        Speaker(lines=["In 1874."]).invoke(prompt)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTIONS[0], "In 1874.")
    assert [context.id for context in sample.contexts] == ["bridge", "ferry"]
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


class Imagines(Shelf):
    """Hands on what a model wrote, before what was found."""

    model: Any = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
        config = {"callbacks": run_manager.get_child()}
        written = self.model.invoke(f"Imagine a page on {query}", config)
        return [document(written.content, "imagined"), document(BRIDGE, "bridge")]


def test_a_document_that_a_model_in_a_retriever_wrote_is_not_exact() -> None:
    page = "Bridges of this kind were often opened by the mayors of their towns."
    shelf = Imagines(model=Speaker(lines=[page]))
    with capture() as captured:
        rag(shelf).invoke(QUESTIONS[0])
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert any("a model inside" in warning for warning in sample.capture.warnings)
