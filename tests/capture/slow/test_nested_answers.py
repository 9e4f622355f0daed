"""Structured answers of lists in objects in lists: no part of them is left out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core.llms import CompletionResponse, MockLLM
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from planted_pipelines import QUESTION, Found, Nodes
from pydantic import BaseModel

from ragmetrics_core import Sample


class Fact(BaseModel):
    fact: str
    quotes: list[str]


class Part(BaseModel):
    title: str
    facts: list[Fact]


class Report(BaseModel):
    """A list of quotes within a list of facts within a list of parts."""

    parts: list[Part]
    above: Any = None


REPORT = Report(
    parts=[
        Part(title="Bridge", facts=[Fact(fact="It opened.", quotes=["in 1874", "x"])]),
        Part(title="River", facts=[Fact(fact="It rises.", quotes=["in the hills"])]),
    ]
)
REPLY = REPORT.model_dump_json()


def langchain(parse: Callable[[str], Any] = Report.model_validate_json) -> Sample:
    prompt = RunnableLambda(lambda found: "\n".join(one.page_content for one in found))
    model = FakeListChatModel(responses=[REPLY])
    made = Found() | prompt | model | RunnableLambda(lambda reply: parse(reply.content))
    with capture_langchain() as captured:
        made.invoke(QUESTION)
    return captured.samples[0]


class Replies(MockLLM):
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return CompletionResponse(text=REPLY)


def llamaindex() -> Sample:
    class Reporting(Workflow):
        @step
        async def report(self, event: StartEvent) -> StopEvent:
            nodes = Nodes().retrieve(QUESTION)
            reply = Replies().complete("\n".join(node.text for node in nodes))
            return StopEvent(result=Report.model_validate_json(reply.text))

    async def run() -> None:
        await Reporting().run(query=QUESTION)

    with capture_llamaindex() as captured:
        asyncio.run(run())
    return captured.samples[0]


RUNS: dict[str, Callable[[], Sample]] = {
    "LangChain": langchain,
    "LlamaIndex": llamaindex,
}


@pytest.mark.parametrize("name", RUNS)
def test_an_answer_of_nested_lists_is_whole(name):
    answer = RUNS[name]().answer or ""
    assert [word in answer for word in ("in 1874", "in the hills", "It rises.")] == [
        True
    ] * 3


def test_an_object_that_holds_itself_is_read_once():
    def around_itself(reply: str) -> Report:
        report = Report.model_validate_json(reply)
        report.above = {"report": report}
        return report

    answer = json.loads(langchain(around_itself).answer or "")
    again = {**REPORT.model_dump(), "above": {}}
    assert answer == {**REPORT.model_dump(), "above": {"report": again}}
