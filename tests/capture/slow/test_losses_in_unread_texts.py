"""A fact that stands in a text which no metric was asked about is not told as not retrieved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import tool
from langchain_ragmetrics import capture
from langgraph.checkpoint.memory import InMemorySaver
from losses import losses

from ragmetrics_core import Report, Sample, evaluate
from ragmetrics_core.data.sample_parts import CaptureNotes
from ragmetrics_core.reporting.journey import (
    FactOnItsWay,
    journey_of,
    why_texts_are_unread,
)

QUESTION = "When was the Velm bridge opened?"
REFERENCE = "The Velm bridge was opened in May of 1874."
ANSWER = "It was opened in May of 1874."
FACT = (
    "The Velm bridge was opened in May of 1874 by the mayor, after years of quarrels."
)
NOISE = (
    "Bridges are built of stone, of iron or of wood, and some of them carry a railway."
)
UNKNOWN = [FactOnItsWay(1)]
NOT_RETRIEVED = [FactOnItsWay(1, retrieved=False)]


class Says(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


class FindsNoise(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        return [Document(NOISE, id="d1")]


@tool
def search_web(query: str) -> str:
    """Search the web."""
    return (
        FACT
        if "bridge" in query
        else "The Velm is a river of the north that ends in a wide lake."
    )


@tool(response_format="content_and_artifact")
def search_docs(query: str) -> Any:
    """Search the documents."""
    text = FACT if "mayor" in query else NOISE
    return text, [Document(text)]


def judged(sample: Sample) -> Report:
    asked = sample.model_copy(update={"reference": (REFERENCE,)})
    return evaluate([asked], metrics=["accuracy"], judge="lexical")


def facts_and_reason(sample: Sample) -> tuple[list[FactOnItsWay], str]:
    report = judged(sample)
    followed = journey_of(report.results[0])
    facts = list(followed.facts)
    lost = losses(report.journey())
    assert (lost == {"not_retrieved"}) == (facts == NOT_RETRIEVED)
    return facts, followed.unknown.get("facts", "")


def calls(*asked: tuple[str, str]) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            ToolCall(name=name, args={"query": query}, id=f"{name}-{query}")
            for name, query in asked
        ],
    )


def agent_with_two_tools(query: str, **settings: Any) -> Sample:
    messages: Iterator[AIMessage] = iter(
        [calls(("search_docs", "x"), ("search_web", query)), AIMessage(ANSWER)]
    )
    agent = create_agent(Says(messages=messages), [search_docs, search_web])
    with capture(**settings) as captured:
        agent.invoke({"messages": [("user", QUESTION)]})
    (sample,) = captured.samples
    return sample


def second_turn(first_query: str) -> Sample:
    messages: Iterator[AIMessage] = iter(
        [
            calls(("search_docs", first_query)),
            AIMessage("The mayor."),
            calls(("search_docs", "second")),
            AIMessage(ANSWER),
        ]
    )
    agent = create_agent(
        Says(messages=messages), [search_docs], checkpointer=InMemorySaver()
    )
    thread: Any = {"configurable": {"thread_id": "t"}}
    with capture() as captured:
        for question in ("Who opened it?", QUESTION):
            agent.invoke({"messages": [("user", question)]}, thread)
    _, second = captured.samples
    return second


def chain_of(reply: AIMessage) -> Sample:
    chain = (
        {
            "context": FindsNoise() | (lambda found: found[0].page_content),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
        | Says(messages=iter([reply]))
    )
    with capture() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def reply_of_openai(*blocks: Any) -> AIMessage:
    """A reply of the Responses API as LangChain hands it on."""
    return AIMessage(
        [*blocks, {"type": "text", "text": ANSWER}],
        response_metadata={"model_provider": "openai"},
    )


WEB = {
    "type": "web_search_call",
    "id": "w",
    "status": "completed",
    "action": {"type": "search", "query": "bridge"},
}
FILES = {
    "type": "file_search_call",
    "id": "f",
    "status": "completed",
    "queries": ["bridge"],
    "results": None,
}


@pytest.mark.parametrize("query", ["bridge", "other"])
def test_a_fact_that_a_tool_may_have_brought_is_unknown(query):
    facts, reason = facts_and_reason(agent_with_two_tools(query))
    assert facts == UNKNOWN
    assert 'context_tools={"search_web"}' in reason


def test_a_fact_that_an_earlier_turn_may_have_brought_is_unknown():
    facts, reason = facts_and_reason(second_turn("mayor"))
    assert facts == UNKNOWN
    assert "earlier turns" in reason


def test_an_earlier_turn_that_found_the_same_text_leaves_no_doubt():
    assert facts_and_reason(second_turn("first")) == (NOT_RETRIEVED, "")


def test_what_the_models_provider_searched_leaves_a_fact_unknown():
    facts, reason = facts_and_reason(chain_of(reply_of_openai(WEB)))
    assert facts == UNKNOWN
    assert "let a tool of the application search" in reason
    facts, reason = facts_and_reason(chain_of(reply_of_openai(FILES)))
    assert facts == UNKNOWN
    assert "file_search_call.results" in reason


def test_without_a_search_of_the_provider_the_fact_was_not_retrieved():
    assert facts_and_reason(chain_of(reply_of_openai())) == (NOT_RETRIEVED, "")


@pytest.mark.parametrize(
    ("blocks", "is_whole"), [((WEB,), False), ((), True)], ids=["a search", "no search"]
)
def test_a_results_file_keeps_why_texts_are_unread(blocks, is_whole, tmp_path):
    sample = chain_of(reply_of_openai(*blocks))
    path = tmp_path / "results.jsonl"
    report = judged(sample)
    report.to_jsonl(path)
    (result,) = Report.from_jsonl(path).results
    assert result.sample is not None
    assert why_texts_are_unread(result.sample) == why_texts_are_unread(sample)
    assert (why_texts_are_unread(sample) == "") == is_whole
    assert (sample.capture.unread_texts == ()) == is_whole
    # a file that was written before this was noted
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for line in lines:
        line.get("sample", {}).get("capture", {}).pop("unread_texts", None)
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", "utf-8")
    (older,) = Report.from_jsonl(path).results
    assert older.sample.capture.unread_texts is None
    assert (why_texts_are_unread(older.sample) == "") == is_whole


@pytest.mark.parametrize("answer", [None, "It is old."])
def test_a_whole_run_without_an_answer_lacks_no_text(answer):
    """Its capture is incomplete for want of an answer."""
    notes = CaptureNotes(grade="incomplete", complete=True, warnings=("no answer",))
    sample = Sample(question="How old?", answer=answer, capture=notes)
    assert why_texts_are_unread(sample) == ("" if answer is None else "no answer")
