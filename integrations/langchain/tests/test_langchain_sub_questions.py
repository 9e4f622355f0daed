"""A model splits a question, and an application of plain functions asks a chain each part."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_fakes import Shelf, Speaker, calls, document, rag
from langchain_ragmetrics import capture

from ragmetrics_core.data.sample import Sample

QUESTION = "How do people cross the water at Velm and at Osta?"
FIRST, SECOND = "When was the bridge at Velm opened?", "How often does the ferry go?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
IN_1874 = "It was opened in 1874, by the mayor of the town himself."
HOURLY = "It goes every hour, but only in the summer months."
BOTH = "By a bridge of 1874 at Velm, and by the hourly ferry at Osta."
BOOKS = {FIRST: document(BRIDGE, "b"), SECOND: document(FERRY, "f")}
ANSWERS = {FIRST: IN_1874, SECOND: HOURLY}
Pairs = Sequence[tuple[str, str]]


def shelf() -> Shelf:
    def books(query: str) -> list[Document]:
        return [BOOKS[query].model_copy()]

    return Shelf(books=books)


def answering(messages: Sequence[BaseMessage]) -> str:
    prompt = str(messages[-1].text)
    return ANSWERS[prompt.rsplit("Question: ", 1)[-1]]


def part() -> Any:
    """The chain that is asked one part."""
    return rag(shelf(), Speaker(lines=answering))


def split_by(line: str | AIMessage) -> Any:
    """What a chain says that is asked to split the question."""
    prompt = ChatPromptTemplate.from_template("Split: {question}")
    return (prompt | Speaker(lines=line)).invoke({"question": QUESTION})


def numbered() -> list[str]:
    text = split_by(f"1. {FIRST}\n2. {SECOND}").text
    return [line.split(". ", 1)[1] for line in text.splitlines()]


def introduced() -> list[str]:
    text = split_by(f"Sub-questions:\n\n- {FIRST}\n- {SECOND}").text
    return [line[2:] for line in text.splitlines() if line.startswith("- ")]


def labelled() -> list[str]:
    text = split_by(f"Sub-question 1: {FIRST}\nSub-question 2: {SECOND}").text
    return [line.split(": ", 1)[1] for line in text.splitlines()]


def as_json() -> list[str]:
    return list(json.loads(split_by(json.dumps([FIRST, SECOND])).text))


def structured() -> list[str]:
    return list(
        split_by(calls("Parts", parts=[FIRST, SECOND])).tool_calls[0]["args"]["parts"]
    )


def as_calls_of_a_tool() -> list[str]:
    made = [
        {"name": "ask", "args": {"query": one}, "id": one, "type": "tool_call"}
        for one in (FIRST, SECOND)
    ]
    said = split_by(AIMessage("", tool_calls=made))
    return [call["args"]["query"] for call in said.tool_calls]


WRITERS = [numbered, introduced, labelled, as_json, structured, as_calls_of_a_tool]


def one_by_one(questions: list[str]) -> list[str]:
    return [part().invoke(question) for question in questions]


def from_the_last_on(questions: list[str]) -> list[str]:
    """Of parts that are asked at once any may end first."""
    return one_by_one(questions[::-1])[::-1]


def in_threads(questions: list[str]) -> list[str]:
    return list(part().batch(questions))


def in_tasks(questions: list[str]) -> list[str]:
    async def ask() -> list[str]:
        return list(await asyncio.gather(*map(part().ainvoke, questions)))

    return asyncio.run(ask())


def triples(samples: Sequence[Sample]) -> list[tuple[Any, ...]]:
    return [
        (one.question, {context.text for context in one.contexts}, one.answer)
        for one in samples
    ]


def grades(samples: Sequence[Sample]) -> list[str]:
    return [one.capture.grade for one in samples if one.capture is not None]


@pytest.mark.parametrize("ask", [one_by_one, from_the_last_on, in_threads, in_tasks])
@pytest.mark.parametrize("split", WRITERS)
def test_parts_that_a_model_wrote_and_one_that_answers_from_them_are_one_question(
    split: Callable[[], list[str]], ask: Callable[[list[str]], list[str]]
) -> None:
    with capture() as captured:
        questions = split()
        pairs = zip(questions, ask(questions), strict=True)
        context = "\n".join(
            f"Question: {asked}\nAnswer: {said}" for asked, said in pairs
        )
        prompt = ChatPromptTemplate.from_template("{context}\n\nAnswer: {question}")
        chain = prompt | Speaker(lines=BOTH) | StrOutputParser()
        chain.invoke({"context": context, "question": QUESTION})
    assert triples(captured.samples) == [(QUESTION, {BRIDGE, FERRY}, BOTH)]
    assert grades(captured.samples) == ["exact"]
    assert not captured.problems


@pytest.mark.parametrize("ask", [one_by_one, from_the_last_on, in_threads, in_tasks])
@pytest.mark.parametrize("split", WRITERS)
def test_a_part_that_a_model_wrote_is_in_doubt_where_no_model_answers_from_it(
    split: Callable[[], list[str]], ask: Callable[[list[str]], list[str]]
) -> None:
    with capture() as captured:
        ask(split())
    found = sorted(triples(captured.samples), key=str)
    assert found == sorted(
        [(FIRST, {BRIDGE}, IN_1874), (SECOND, {FERRY}, HOURLY)], key=str
    )
    assert grades(captured.samples) == ["inferred", "inferred"]


def test_each_part_is_told_the_answer_before_it_and_the_last_one_answers() -> None:
    """langchain-ai/rag-from-scratch, rag_from_scratch_5_to_9.ipynb: answer recursively."""
    prompt = ChatPromptTemplate.from_template(
        "Background:\n{pairs}\n\n{context}\n\nQuestion: {question}"
    )
    with capture() as captured:
        pairs = ""
        for question in numbered():
            chain = (
                {
                    "context": lambda given: (
                        shelf().invoke(given["question"])[0].page_content
                    ),
                    "question": lambda given: given["question"],
                    "pairs": lambda given: given["pairs"],
                }
                | prompt
                | Speaker(lines=answering)
                | StrOutputParser()
            )
            said = chain.invoke({"question": question, "pairs": pairs})
            pairs += f"\nQuestion: {question}\nAnswer: {said}"
    assert triples(captured.samples) == [(QUESTION, {BRIDGE, FERRY}, HOURLY)]


def test_a_question_that_the_user_takes_from_suggestions_is_in_doubt() -> None:
    """What the model suggests, and what the application makes of it, looks alike."""
    with capture() as captured:
        Speaker(lines=f"You may ask:\n1. {FIRST}\n2. {SECOND}").invoke("Hello")
        part().invoke(FIRST)
    assert triples(captured.samples) == [(FIRST, {BRIDGE}, IN_1874)]
    assert grades(captured.samples) == ["inferred"]


def test_two_questions_that_are_split_stay_two() -> None:
    other = "Who opened the bridge, and where does the ferry go?"
    with capture() as captured:
        for question, reply in ((QUESTION, BOTH), (other, BOTH[::-1])):
            prompt = ChatPromptTemplate.from_template("Split: {question}")
            writer = prompt | Speaker(lines=f"1. {FIRST}\n2. {SECOND}")
            writer.invoke({"question": question})
            context = "\n".join(one_by_one([FIRST, SECOND]))
            answer = ChatPromptTemplate.from_template("{context}\n\n{question}")
            chain = answer | Speaker(lines=reply)
            chain.invoke({"context": context, "question": question})
    assert triples(captured.samples) == [
        (QUESTION, {BRIDGE, FERRY}, BOTH),
        (other, {BRIDGE, FERRY}, BOTH[::-1]),
    ]


def test_a_part_that_fails_says_so() -> None:
    with capture() as captured:
        numbered()
        broken = rag(Shelf(books=ValueError("no index")), Speaker(lines=IN_1874))
        with pytest.raises(ValueError, match="no index"):
            broken.invoke(FIRST)
    (sample,) = captured.samples
    assert (sample.answer, sample.error) != (IN_1874, None)
    assert grades([sample]) == ["incomplete"]


def test_the_model_that_called_a_chain_for_each_part_reads_what_they_say() -> None:
    """The loop of tool calls is written by hand: nothing is around the calls."""
    made = [
        {"name": "ask", "args": {"query": one}, "id": one, "type": "tool_call"}
        for one in (FIRST, SECOND)
    ]
    messages: list[BaseMessage] = [HumanMessage(QUESTION)]
    with capture() as captured:
        messages.append(Speaker(lines=AIMessage("", tool_calls=made)).invoke(messages))
        for call in made:
            said = part().invoke(call["args"]["query"])
            messages.append(ToolMessage(said, tool_call_id=call["id"]))
        Speaker(lines=BOTH).invoke(messages)
    assert triples(captured.samples) == [(QUESTION, {BRIDGE, FERRY}, BOTH)]
    assert grades(captured.samples) == ["exact"]


@pytest.mark.parametrize(
    "prompt",
    [
        f"Notes:\n{IN_1874}\n{HOURLY}\n\nAnswer this: {QUESTION}",
        f"Question: {FIRST}\nAnswer: {IN_1874}\nQuestion: {SECOND}\nAnswer: {HOURLY}",
    ],
)
def test_a_model_without_a_chain_that_is_shown_what_parts_say_answers_from_them(
    prompt: str,
) -> None:
    with capture() as captured:
        one_by_one(numbered())
        Speaker(lines=BOTH).invoke(prompt)
    assert triples(captured.samples) == [(QUESTION, {BRIDGE, FERRY}, BOTH)]
    assert grades(captured.samples) == ["exact" if QUESTION in prompt else "inferred"]


def test_a_talk_goes_on_after_a_question_that_the_user_took_from_suggestions() -> None:
    with capture() as captured:
        Speaker(lines=f"You may ask:\n1. {FIRST}\n2. {SECOND}").invoke("Hello")
        part().invoke(FIRST)
        Speaker(lines="You are welcome.").invoke(
            [("user", FIRST), ("assistant", IN_1874), ("user", "Thank you!")]
        )
    assert triples(captured.samples) == [(FIRST, {BRIDGE}, IN_1874)]
    assert grades(captured.samples) == ["inferred"]


def test_parts_of_which_each_has_contexts_at_the_named_place_are_in_doubt() -> None:
    def told(question: str) -> dict[str, Any]:
        return {"answer": part().invoke(question), "context": BOOKS[question]}

    with capture(contexts_from="context") as captured:
        pairs = [RunnableLambda(told).invoke(question) for question in numbered()]
        notes = "\n".join(str(pair["answer"]) for pair in pairs)
        Speaker(lines=BOTH).invoke(f"Notes:\n{notes}\n\nAnswer this: {QUESTION}")
    assert set(grades(captured.samples)) <= {"inferred", "incomplete"}
