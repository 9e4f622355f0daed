"""What a model was shown is what the call inside of it was shown, in each framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import langchain_ragmetrics
import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, ToolCall
from haystack.tools import create_tool_from_function
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from lanes import crossed
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.llms.generic_utils import (
    astream_chat_response_to_completion_response,
    chat_response_to_completion_response,
    stream_chat_response_to_completion_response,
)
from llama_index.core.base.llms.types import ChatMessage as LlamaIndexMessage
from llama_index.core.base.llms.types import (
    CompletionResponse,
    ImageBlock,
    TextBlock,
)
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import ImageNode, NodeWithScore, TextNode
from llama_index.evaluation import ragmetrics as llamaindex_ragmetrics

from ragmetrics_core import Sample

QUESTION = "What does the lighthouse of Skarn look like?"
STONE = "The lighthouse of Skarn was built of grey stone in 1850."
LAMP = "Its lamp was moved to the harbour museum of Vik."
ANSWER = "It is a grey tower without a lamp."
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
# what a model that wraps another one does to the text of the prompt
Change = Callable[[str], str]
CHANGES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "as it is": (lambda text: text, (STONE, LAMP)),
    "behind a label": (lambda text: f"user: {text}\nassistant: ", (STONE, LAMP)),
    "with instructions": (lambda text: f"Be short and kind.\n{text}", (STONE, LAMP)),
    "one passage less": (lambda text: text.replace(f"{LAMP}\n", ""), (STONE,)),
}


def prompt_of(texts: list[str]) -> str:
    return "\n".join([*texts, QUESTION])


# LlamaIndex


class Shelf(LlamaIndexRetriever):
    def _retrieve(self, *_: Any, **__: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text)) for text in (STONE, LAMP)]


class Says(MockFunctionCallingLLM):
    """Replies always the same."""

    def __init__(self, **settings: Any) -> None:
        said = LlamaIndexMessage(role="assistant", blocks=[TextBlock(text=ANSWER)])
        super().__init__(response_generator=lambda *_, **__: said, **settings)


def _blocks(pictures: Any) -> list[Any]:
    image = ImageBlock(image=PIXEL.encode(), image_mimetype="image/png")
    return [image for _ in pictures or ()]


class SeesPictures(Says):
    """A model of messages whose completions call it, as OpenAI's of LlamaIndex does."""

    def _messages(self, prompt: str, pictures: Any) -> list[LlamaIndexMessage]:
        blocks: list[Any] = [TextBlock(text=prompt), *_blocks(pictures)]
        return [LlamaIndexMessage(role="user", blocks=blocks)]

    def complete(self, prompt: str, image_documents: Any = None, **_: Any) -> Any:
        said = self.chat(self._messages(prompt, image_documents))
        return chat_response_to_completion_response(said)

    def stream_complete(
        self, prompt: str, image_documents: Any = None, **_: Any
    ) -> Any:
        said = self.stream_chat(self._messages(prompt, image_documents))
        return stream_chat_response_to_completion_response(said)

    async def acomplete(
        self, prompt: str, image_documents: Any = None, **_: Any
    ) -> Any:
        said = await self.achat(self._messages(prompt, image_documents))
        return chat_response_to_completion_response(said)

    async def astream_complete(
        self, prompt: str, image_documents: Any = None, **_: Any
    ) -> Any:
        said = await self.astream_chat(self._messages(prompt, image_documents))
        return astream_chat_response_to_completion_response(said)


class SeesPicturesItself(Says):
    """A model that sends pictures by itself."""

    def complete(self, prompt: str, image_documents: Any = None, **_: Any) -> Any:
        return CompletionResponse(text=ANSWER)

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, image_documents: Any = None, **_: Any
    ) -> Any:
        return (CompletionResponse(text=ANSWER, delta=each) for each in [ANSWER])

    async def acomplete(
        self, prompt: str, image_documents: Any = None, **_: Any
    ) -> Any:
        return CompletionResponse(text=ANSWER)

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, image_documents: Any = None, **_: Any
    ) -> Any:
        async def stream() -> AsyncIterator[CompletionResponse]:
            yield CompletionResponse(text=ANSWER, delta=ANSWER)

        return stream()


async def _said(stream: AsyncIterator[Any]) -> str:
    return "".join([chunk.delta async for chunk in stream])


class Engine(CustomQueryEngine):
    """Calls a model by one of its methods."""

    model: Any
    method: str
    pictures: list[Any]

    def _given(self) -> tuple[Any, dict[str, Any]]:
        found = Shelf().retrieve(QUESTION)
        further = {"image_documents": self.pictures} if self.pictures else {}
        prompt: Any = prompt_of([node.text for node in found])
        if "chat" in self.method:
            prompt = [LlamaIndexMessage(role="user", content=prompt)]
        return prompt, further

    def custom_query(self, query_str: str) -> str:
        prompt, further = self._given()
        said = getattr(self.model, self.method)(prompt, **further)
        if isinstance(said, Iterator):
            return "".join(chunk.delta for chunk in said)
        return str(getattr(said, "text", None) or said.message.content)

    async def acustom_query(self, query_str: str) -> str:
        prompt, further = self._given()
        said = await getattr(self.model, self.method)(prompt, **further)
        if isinstance(said, AsyncIterator):
            return await _said(said)
        return str(getattr(said, "text", None) or said.message.content)


def sample_of_engine(model: Any, method: str, *pictures: Any) -> Sample:
    engine = Engine(model=model, method=method, pictures=list(pictures))
    with llamaindex_ragmetrics.capture() as captured:
        if method.startswith("a"):
            asyncio.run(engine.aquery(QUESTION))
        else:
            engine.query(QUESTION)
    (sample,) = captured.samples
    assert sample.answer == ANSWER
    return sample


COMPLETIONS = ("complete", "acomplete", "stream_complete", "astream_complete")
CHATS = ("chat", "achat", "stream_chat", "astream_chat")


@pytest.mark.parametrize(
    ("picture", "model", "method"),
    crossed(
        [
            ImageNode(image=PIXEL),
            ImageBlock(image=PIXEL.encode(), image_mimetype="image/png"),
        ],
        [SeesPictures, SeesPicturesItself],
        COMPLETIONS,
    ),
)
def test_a_picture_beside_the_prompt_of_a_completion_was_not_recorded(
    picture, model, method
):
    sample = sample_of_engine(model(), method, picture)
    assert sample.capture.grade == "incomplete"
    assert "an image" in sample.capture.doubts["not_recorded"]


@pytest.mark.parametrize("method", COMPLETIONS)
@pytest.mark.parametrize("model", [SeesPictures, SeesPicturesItself])
def test_a_completion_without_a_picture_is_exact(model, method):
    sample = sample_of_engine(model(), method)
    assert sample.capture.grade == "exact"
    assert [context.text for context in sample.known_contexts] == [STONE, LAMP]


class Wraps(Says):
    """A model around another one, whose prompt it changes."""

    change: Any

    def _changed(self, messages: Any) -> list[LlamaIndexMessage]:
        text = self.change(messages[0].content)
        return [LlamaIndexMessage(role="user", content=text)]

    def chat(self, messages: Any, **_: Any) -> Any:
        return Says().chat(self._changed(messages))

    async def achat(self, messages: Any, **_: Any) -> Any:
        return await Says().achat(self._changed(messages))

    def stream_chat(self, messages: Any, **_: Any) -> Any:
        return Says().stream_chat(self._changed(messages))

    async def astream_chat(self, messages: Any, **_: Any) -> Any:
        return await Says().astream_chat(self._changed(messages))


@pytest.mark.parametrize(("change", "method"), crossed([*CHANGES], CHATS))
def test_what_a_model_of_llamaindex_hands_to_another_one_counts(change, method):
    changed, passages = CHANGES[change]
    sample = sample_of_engine(Wraps(change=changed), method)
    assert sample.capture.grade == "exact"
    assert [context.text for context in sample.known_contexts] == list(passages)


# LangChain


class Finds(BaseRetriever):
    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[LangChainDocument]:
        return [LangChainDocument(STONE), LangChainDocument(LAMP)]


IMAGE = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}


class WrapsChat(BaseChatModel):
    """A model around another one, whose prompt it changes."""

    change: Any
    has_picture: bool = False

    @property
    def _llm_type(self) -> str:
        return "wraps"

    def _changed(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        text = self.change(str(messages[0].content))
        blocks: list[Any] = [{"type": "text", "text": text}]
        return [HumanMessage([*blocks, *[IMAGE] * self.has_picture])]

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        said = FakeListChatModel(responses=[ANSWER]).invoke(self._changed(messages))
        return ChatResult(generations=[ChatGeneration(message=said)])

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Any:
        model = FakeListChatModel(responses=[ANSWER])
        for chunk in model.stream(self._changed(messages)):
            yield ChatGenerationChunk(message=chunk)


def sample_of_langchain(method: str, **settings: Any) -> Sample:
    model = WrapsChat(**settings)

    def answer(question: str) -> Any:
        texts = [document.page_content for document in Finds().invoke(question)]
        if method == "invoke":
            return model.invoke(prompt_of(texts)).text
        return "".join(chunk.text for chunk in model.stream(prompt_of(texts)))

    with langchain_ragmetrics.capture() as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("method", ["invoke", "stream"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_model_of_langchain_hands_to_another_one_counts(change, method):
    changed, passages = CHANGES[change]
    sample = sample_of_langchain(method, change=changed)
    assert sample.answer == ANSWER
    assert sample.capture.grade == "exact"
    assert [context.text for context in sample.known_contexts] == list(passages)


@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_a_picture_that_a_model_of_langchain_adds_was_not_recorded(method):
    sample = sample_of_langchain(method, change=str, has_picture=True)
    assert "an image" in sample.capture.doubts["not_recorded"]


# Haystack


@component
class Finder:
    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(content=STONE), Document(content=LAMP)]}


@component
class Prompts:
    @component.output_types(messages=list[ChatMessage])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        texts = [document.content or "" for document in documents]
        return {"messages": [ChatMessage.from_user(prompt_of(texts))]}


@component
class WrapsGenerator:
    """A generator around another one, whose prompt it changes."""

    def __init__(
        self, change: Change, *replies: ChatMessage, has_picture: bool = False
    ) -> None:
        self.change = change
        self.generator = MockChatGenerator([*replies, ANSWER])
        self.has_picture = has_picture

    @component.output_types(replies=list[ChatMessage])
    def run(
        self, messages: list[ChatMessage], tools: Any = None, **_: Any
    ) -> dict[str, Any]:
        parts: list[Any] = [self.change(messages[0].text or "")]
        if self.has_picture:
            parts.append(ImageContent(PIXEL, mime_type="image/png", validation=False))
        changed = ChatMessage.from_user(content_parts=parts)
        return dict(self.generator.run(messages=[changed, *messages[1:]]))


def sample_of_haystack(generator: WrapsGenerator) -> Sample:
    pipeline = Pipeline()
    pipeline.add_component("finder", Finder())
    pipeline.add_component("prompts", Prompts())
    pipeline.add_component("llm", generator)
    pipeline.connect("finder.documents", "prompts.documents")
    pipeline.connect("prompts.messages", "llm.messages")
    with haystack_ragmetrics.capture() as captured:
        pipeline.run({name: {"query": QUESTION} for name in ("finder", "prompts")})
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_generator_of_haystack_hands_to_another_one_counts(change):
    changed, passages = CHANGES[change]
    sample = sample_of_haystack(WrapsGenerator(changed))
    assert sample.answer == ANSWER
    assert sample.capture.grade == "exact"
    assert [context.text for context in sample.known_contexts] == list(passages)


def test_a_picture_that_a_generator_of_haystack_adds_was_not_recorded():
    sample = sample_of_haystack(WrapsGenerator(str, has_picture=True))
    assert "an image" in sample.capture.doubts["not_recorded"]


@pytest.mark.parametrize("has_picture", [False, True])
def test_what_the_generator_of_an_agent_hands_to_another_one_counts(has_picture):
    def look() -> list[Document]:
        return [Document(content=STONE)]

    asks = ChatMessage.from_assistant(tool_calls=[ToolCall("look", {}, id="1")])
    wrapping = WrapsGenerator(str, asks, has_picture=has_picture)
    tool = create_tool_from_function(look, description="Looks.")
    samples = []
    for generator in (MockChatGenerator([asks, ANSWER]), wrapping):
        agent = Agent(chat_generator=generator, tools=[tool])
        with haystack_ragmetrics.capture(context_tools={"look"}) as captured:
            agent.run(messages=[ChatMessage.from_user(QUESTION)])
        samples += captured.samples
    plain, wrapped = samples
    assert wrapped.known_contexts == plain.known_contexts
    assert wrapped.ledger == plain.ledger
    assert ("not_recorded" in wrapped.capture.doubts) == has_picture
    assert (wrapped.capture.grade == "exact") != has_picture
