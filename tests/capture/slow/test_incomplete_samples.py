"""A sample of which a part was not recorded is not judged as a whole one, in each framework."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import langchain_ragmetrics
import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, TextContent, ToolCall
from haystack.tools import create_tool_from_function
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain.agents import create_agent
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage as LlamaIndexMessage
from llama_index.core.base.llms.types import ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation import ragmetrics as llamaindex_ragmetrics

from ragmetrics_core import ScriptedJudge
from ragmetrics_core.metrics.answer_relevance import Addresses
from ragmetrics_core.metrics.declined import Declined

QUESTION = "Who is on this picture?"
TEXT = "The lighthouse of Skarn was built in 1850."
ANSWER = "Ida Holm holds a red umbrella on it."
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)


class Finds(BaseRetriever):
    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[LangChainDocument]:
        return [LangChainDocument(TEXT)]


def langchain(has_image: bool) -> None:
    image = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    model = FakeListChatModel(responses=[ANSWER])

    def answer(question: str) -> str:
        text = f"{Finds().invoke(question)[0].page_content}\n{question}"
        blocks: list[Any] = [{"type": "text", "text": text}, *[image] * has_image]
        return str(model.invoke([HumanMessage(blocks)]).content)

    RunnableLambda(answer).invoke(QUESTION)


class FindsNodes(LlamaIndexRetriever):
    def _retrieve(self, *_: Any, **__: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=TEXT), score=0.9)]


MODEL = MockFunctionCallingLLM(
    response_generator=lambda *_, **__: LlamaIndexMessage(
        role="assistant", blocks=[TextBlock(text=ANSWER)]
    )
)


class Engine(CustomQueryEngine):
    has_image: bool

    def custom_query(self, query_str: str) -> str:
        found = FindsNodes().retrieve(query_str)
        blocks: list[Any] = [TextBlock(text=f"{found[0].text}\n{query_str}")]
        if self.has_image:
            blocks.append(ImageBlock(image=PIXEL.encode(), image_mimetype="image/png"))
        said = MODEL.chat([LlamaIndexMessage(role="user", blocks=blocks)])
        return str(said.message.content)


def llamaindex(has_image: bool) -> None:
    Engine(has_image=has_image).query(QUESTION)


@component
class FindsDocuments:
    @component.output_types(messages=list[ChatMessage])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        parts: list[Any] = [f"{documents[0].content}\n{query}"]
        if self.has_image:
            parts.append(ImageContent(PIXEL, mime_type="image/png", validation=False))
        return {"messages": [ChatMessage.from_user(content_parts=parts)]}

    def __init__(self, has_image: bool) -> None:
        self.has_image = has_image


@component
class Shelf:
    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(content=TEXT)]}


def haystack(has_image: bool) -> None:
    pipeline = Pipeline()
    pipeline.add_component("shelf", Shelf())
    pipeline.add_component("prompt", FindsDocuments(has_image))
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("shelf.documents", "prompt.documents")
    pipeline.connect("prompt.messages", "llm.messages")
    pipeline.run({name: {"query": QUESTION} for name in ("shelf", "prompt")})


@pytest.mark.parametrize(
    ("application", "capture"),
    [
        (langchain, langchain_ragmetrics.capture),
        (llamaindex, llamaindex_ragmetrics.capture),
        (haystack, haystack_ragmetrics.capture),
    ],
    ids=["LangChain", "LlamaIndex", "Haystack"],
)
def test_an_answer_that_may_rest_on_an_image_is_no_fault(application, capture):
    statuses: dict[bool, set[str]] = {}
    for has_image in (False, True):
        with capture() as captured:
            application(has_image)
        report = captured.evaluate(["adherence", "utilization"], judge="lexical")
        (row,) = report
        statuses[has_image] = {each.status for each in row.results.values()}
        if has_image:
            sentence = row.sample.capture.doubts["not_recorded"]
            assert {each.reason for each in row.results.values()} == {sentence}
    assert statuses == {False: {"scored"}, True: {"undefined"}}


# the result of a tool, in which an image stands beside a text


def agent_of_langchain(parts: list[str]) -> None:
    def look() -> list[dict[str, str]]:
        """Looks."""
        image = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
        text = {"type": "text", "text": TEXT}
        return [image if part == "image" else text for part in parts]

    class Asks(GenericFakeChatModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

    asks = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
    model = Asks(messages=iter([asks, AIMessage(ANSWER)]))
    create_agent(model, [look]).invoke({"messages": QUESTION})


def agent_of_llamaindex(parts: list[str]) -> None:
    def look() -> list[Any]:
        """Looks."""
        image = ImageBlock(image=PIXEL.encode(), image_mimetype="image/png")
        return [image if part == "image" else TextBlock(text=TEXT) for part in parts]

    def reply(messages: Any, **_: Any) -> LlamaIndexMessage:
        is_asking = all(message.role.value != "tool" for message in messages)
        call = ToolCallBlock(tool_call_id="1", tool_name="look", tool_kwargs={})
        said = call if is_asking else TextBlock(text=ANSWER)
        return LlamaIndexMessage(role="assistant", blocks=[said])

    model = MockFunctionCallingLLM(response_generator=reply)
    agent = FunctionAgent(tools=[look], llm=model, streaming=False)

    async def run() -> None:
        await agent.run(user_msg=QUESTION)

    asyncio.run(run())


def agent_of_haystack(parts: list[str]) -> None:
    def look() -> list[Any]:
        image = ImageContent(PIXEL, mime_type="image/png", validation=False)
        return [image if part == "image" else TextContent(TEXT) for part in parts]

    tool = create_tool_from_function(
        look, description="Looks.", outputs_to_string={"raw_result": True}
    )
    asks = ChatMessage.from_assistant(tool_calls=[ToolCall("look", {}, id="1")])
    model = MockChatGenerator([asks, ANSWER])
    agent = Agent(chat_generator=model, tools=[tool])
    agent.run(messages=[ChatMessage.from_user(QUESTION)])


@pytest.mark.filterwarnings(
    "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
)
@pytest.mark.filterwarnings(
    "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
)
@pytest.mark.filterwarnings("ignore:.*asyncio_module:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning")
@pytest.mark.parametrize("context_tools", [{"look"}, set(), None], ids=str)
@pytest.mark.parametrize(
    ("agent", "capture", "parts"),
    [
        (agent_of_langchain, langchain_ragmetrics.capture, ["text", "image"]),
        (agent_of_llamaindex, llamaindex_ragmetrics.capture, ["text", "image"]),
        (agent_of_haystack, haystack_ragmetrics.capture, ["text", "image"]),
        (agent_of_haystack, haystack_ragmetrics.capture, ["image"]),
    ],
    ids=["LangChain", "LlamaIndex", "Haystack", "Haystack, alone"],
)
def test_an_image_that_a_tool_returned_was_not_recorded(
    agent, capture, parts, context_tools
):
    with capture(context_tools=context_tools) as captured:
        agent(parts)
    (row,) = captured.evaluate(["adherence"], judge="lexical")
    assert row.sample.answer == ANSWER
    assert row.sample.capture.grade == "incomplete"
    assert "an image" in row.sample.capture.doubts["not_recorded"]
    assert row.results["context_adherence"].status == "undefined"


def test_the_words_of_a_question_are_whole_beside_an_image():
    """Answer Relevance is asked for nothing but question and answer."""
    with langchain_ragmetrics.capture() as captured:
        langchain(True)
    grade = {"grade": 3, "reason": "It says who."}
    judge = ScriptedJudge({Addresses: grade, Declined: {"declined": 0}})
    (row,) = captured.evaluate(["answer_relevance"], judge=judge)
    assert row.results["answer_relevance"].value == 1.0


def test_an_answer_that_broke_off_is_not_judged():
    class Breaks(FakeListChatModel):
        """A model whose stream ends with an error."""

        def _stream(self, *_: Any, **__: Any) -> Any:
            yield ChatGenerationChunk(message=AIMessageChunk("Ida"))
            raise ConnectionError

    def answer(question: str) -> Any:
        text = f"{Finds().invoke(question)[0].page_content}\n{question}"
        yield from Breaks(responses=[ANSWER]).stream(text)

    with langchain_ragmetrics.capture() as captured, suppress(ConnectionError):
        list(RunnableLambda(answer).stream(QUESTION))
    (row,) = captured.evaluate(
        ["answer_relevance", "adherence"], judge=ScriptedJudge({})
    )
    assert {each.status for each in row.results.values()} == {"undefined"}


def test_contexts_that_the_user_named_are_whole():
    with langchain_ragmetrics.capture(contexts_from=lambda run: [TEXT]) as captured:
        langchain(True)
    (value,) = captured.evaluate(["adherence"], judge="lexical").scores(
        "context_adherence"
    )
    assert value < 0.5


@pytest.mark.parametrize(("fact", "status"), [(TEXT, "scored"), (ANSWER, "undefined")])
def test_a_fact_that_was_not_found_may_stand_in_what_was_not_recorded(fact, status):
    with langchain_ragmetrics.capture(reference=fact) as captured:
        langchain(True)
    (row,) = captured.evaluate(["accuracy"], judge="lexical")
    (result,) = row.results.values()
    assert result.status == status, result
