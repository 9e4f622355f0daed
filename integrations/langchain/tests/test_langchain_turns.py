"""Runs that belong together: a table of programs without a chain, and the samples that each must give."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_fakes import Shelf, Speaker, calls, document, joined
from langchain_ragmetrics import RagMetricsCallback, capture, watch

from ragmetrics_core.data.sample import Sample

BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
FIRST, SECOND = "When was the bridge opened?", "How often does the ferry go?"
IN_1874 = "It was opened in 1874, by the mayor of the town himself."
HOURLY = "It goes every hour, but only in the summer months."


@dataclass(frozen=True)
class Turn:
    """A sample that a program must give; where it is hedged, one that is not exact will do."""

    question: str | None
    contexts: tuple[str, ...]
    answer: str | None
    is_hedged: bool = False


Play = Callable[[], Any]
PLAYS: dict[str, tuple[Play, tuple[Turn, ...]]] = {}


def gives(*turns: Turn) -> Callable[[Play], Play]:
    def add(play: Play) -> Play:
        PLAYS[play.__name__] = (play, turns)
        return play

    return add


def search(question: str, text: str) -> str:
    return joined(Shelf(books=[document(text)]).invoke(question))


def answer(question: str, found: str, reply: str, before: str = "") -> None:
    Speaker(lines=reply).invoke(f"{before}Use this:\n{found}\n\nQuestion: {question}")


OF_BRIDGE = Turn(FIRST, (BRIDGE,), IN_1874)
OF_FERRY = Turn(SECOND, (FERRY,), HOURLY)


@gives(OF_BRIDGE)
def a_search_and_a_model() -> None:
    answer(FIRST, search(FIRST, BRIDGE), IN_1874)


@gives(OF_BRIDGE, OF_FERRY)
def two_questions_one_after_the_other() -> None:
    answer(FIRST, search(FIRST, BRIDGE), IN_1874)
    answer(SECOND, search(SECOND, FERRY), HOURLY)


@gives(Turn(FIRST, (BRIDGE,), None, is_hedged=True))
def a_search_that_nobody_reads() -> None:
    search(FIRST, BRIDGE)
    Speaker(lines="Hello!").invoke("Say hello.")


@gives()
def a_model_alone() -> None:
    Speaker(lines="Hello!").invoke("Say hello.")


@gives(OF_BRIDGE)
def a_chain_that_is_handed_what_was_found() -> None:
    found = search(FIRST, BRIDGE)
    prompt = ChatPromptTemplate.from_template("{context}\nQuestion: {question}")
    chain = prompt | Speaker(lines=IN_1874) | StrOutputParser()
    chain.invoke({"context": found, "question": FIRST})


@gives(Turn(FIRST, (BRIDGE,), IN_1874, is_hedged=True))
def a_model_that_writes_what_is_searched_for() -> None:
    Speaker(lines="opening of the bridge").invoke(f"Write a query for: {FIRST}")
    answer(FIRST, search("opening of the bridge", BRIDGE), IN_1874)


@gives(Turn(FIRST, (BRIDGE,), IN_1874))
def a_tool_that_the_application_calls_for_the_model() -> None:
    @tool(response_format="content_and_artifact")
    def look_up(query: str) -> tuple[str, list[Any]]:
        """Look something up."""
        return BRIDGE, [document(BRIDGE)]

    model = Speaker(lines=[calls("look_up", query="bridge"), IN_1874]).bind_tools(
        [look_up]
    )
    asked: list[Any] = [("user", FIRST)]
    reply = model.invoke(asked)
    asked += [reply, look_up.invoke(reply.tool_calls[0])]
    model.invoke(asked)


@gives(Turn(FIRST, (BRIDGE,), IN_1874, is_hedged=True))
def an_answer_that_is_made_friendlier() -> None:
    answer(FIRST, search(FIRST, BRIDGE), IN_1874)
    Speaker(lines="Dear guest: in 1874!").invoke(f"Make it friendlier: {IN_1874}")


@gives(Turn(FIRST, (BRIDGE,), IN_1874), OF_FERRY)
def a_conversation_in_messages() -> None:
    model = Speaker(lines=[IN_1874, HOURLY])
    talk: list[Any] = []
    for question, page in ((FIRST, BRIDGE), (SECOND, FERRY)):
        found = search(question, page)
        asked = [*talk, ("system", f"Use this: {found}"), ("user", question)]
        talk += [("user", question), ("assistant", model.invoke(asked).text)]


@gives(Turn(FIRST, (BRIDGE,), IN_1874))
def a_later_turn_that_searches_nothing() -> None:
    answer(FIRST, search(FIRST, BRIDGE), IN_1874)
    talk = [("user", f"{BRIDGE} {FIRST}"), ("assistant", IN_1874), ("user", "Thanks!")]
    Speaker(lines="You are welcome.").invoke(talk)


@gives(Turn(FIRST, (BRIDGE,), IN_1874, is_hedged=True))
def a_search_in_a_task_of_its_own() -> None:
    async def ask() -> None:
        shelf = Shelf(books=[document(BRIDGE)])
        (found,) = await asyncio.gather(shelf.ainvoke(FIRST))
        prompt = f"Use this:\n{joined(found)}\n\nQuestion: {FIRST}"
        await Speaker(lines=IN_1874).ainvoke(prompt)

    asyncio.run(ask())


def check(samples: tuple[Sample, ...], turns: tuple[Turn, ...]) -> None:
    assert len(samples) == len(turns)
    for sample, turn in zip(samples, turns, strict=True):
        assert sample.capture is not None
        contexts = tuple(context.text for context in sample.known_contexts or ())
        told = Turn(sample.question, contexts, sample.answer, turn.is_hedged)
        is_sure = sample.capture.grade == "exact"
        assert told == turn or (turn.is_hedged and not is_sure)


@pytest.mark.parametrize("name", PLAYS)
def test_a_block_gives_the_turns_of_a_program(name: str) -> None:
    play, turns = PLAYS[name]
    with capture() as captured:
        play()
    check(captured.samples, turns)
    check(captured.samples, turns)  # reading changes nothing


@pytest.mark.parametrize("name", PLAYS)
def test_a_watch_gives_the_same_turns(name: str) -> None:
    play, turns = PLAYS[name]
    with watch([]) as watching:
        play()
        check(watching.samples, turns)


def test_all_of_a_block_around_a_question_is_one_turn() -> None:
    with capture(question=FIRST) as captured:
        first = search("bridge", BRIDGE)
        second = search("opening", FERRY)
        answer("In a word?", f"{first}\n{second}", IN_1874)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (FIRST, IN_1874)
    assert [context.text for context in sample.known_contexts or ()] == [BRIDGE, FERRY]


def test_a_block_around_a_question_without_a_search_is_a_sample_that_says_so() -> None:
    with capture(question=FIRST) as captured:
        Speaker(lines=IN_1874).invoke(FIRST)
    (sample,) = captured.samples
    assert (sample.answer, not sample.contexts) == (IN_1874, True)
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"


def test_an_agent_that_should_have_searched_is_a_sample() -> None:
    @tool
    def look_up(query: str) -> str:
        """Look something up."""
        return BRIDGE

    made = create_agent(Speaker(lines=IN_1874), [look_up])
    with capture(context_tools={"look_up"}) as captured:
        made.invoke({"messages": [("user", FIRST)]})
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (FIRST, IN_1874)
    assert not sample.contexts
    assert sample.capture is not None
    assert list(sample.capture.doubts) == ["no_search"]
    with capture() as unnamed:
        made.invoke({"messages": [("user", FIRST)]})
    assert not unnamed.samples


def test_a_callback_gives_the_turns_of_a_program() -> None:
    evaluator = RagMetricsCallback([])
    config: Any = {"callbacks": [evaluator]}
    found = joined(Shelf(books=[document(BRIDGE)]).invoke(FIRST, config))
    prompt = f"Use this:\n{found}\n\nQuestion: {FIRST}"
    Speaker(lines=IN_1874).invoke(prompt, config)
    evaluator.flush()
    check(evaluator.samples, (OF_BRIDGE,))
