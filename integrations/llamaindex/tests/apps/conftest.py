"""What the applications run on: a model and embeddings that are fakes, four pages, and how a sample is read."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.schema import TextNode
from pydantic import Field

from ragmetrics_core import Sample

PAGES = {
    "paris": "Paris is the capital of France and lies on the river Seine.",
    "wine": "France is renowned for its wine, above all that of Bordeaux.",
    "lyon": "Lyon lies in the south-east, where Rhone and Saone flow together.",
    "nice": "Nice is a city on the Mediterranean coast, close to Italy.",
}
# what a query that holds the word finds first
_FIRST = {"drunk": "wine", "rivers": "lyon", "coast": "nice"}

Reply = str | list[tuple[str, dict[str, Any]]]


class Model(FunctionCallingLLM):
    """Replies by the first pattern that its messages hold: with a text, or with calls of tools."""

    script: list[tuple[str, Reply]] = Field(default_factory=list)
    answer: str = "The answer of the model."
    window: int = 4_096
    nameless: bool = False  # calls of tools have no ids but the tools' names
    asked: list[str] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="fake",
            is_chat_model=True,
            is_function_calling_model=True,
            context_window=self.window,
        )

    def _reply(self, prompt: str) -> ChatResponse:
        self.asked.append(prompt)
        reply = next(
            (reply for pattern, reply in self.script if pattern in prompt), self.answer
        )
        if isinstance(reply, str):
            return ChatResponse(
                message=ChatMessage(role=MessageRole.ASSISTANT, content=reply)
            )
        made = enumerate(reply)  # ids are never the same twice
        calls = [
            {
                "id": name if self.nameless else f"call-{len(self.asked)}-{place}",
                "name": name,
                "arguments": json.dumps(given),
            }
            for place, (name, given) in made
        ]
        message = ChatMessage(
            role=MessageRole.ASSISTANT,
            content="",
            additional_kwargs={"tool_calls": calls},
        )
        return ChatResponse(message=message)

    def _told(self, messages: Any) -> ChatResponse:
        return self._reply(
            "\n".join(
                f"{message.role.value}: {message.content}" for message in messages
            )
        )

    def _pieces(self, reply: ChatResponse) -> Iterator[ChatResponse]:
        said = ""
        for number, word in enumerate((reply.message.content or "").split(" ")):
            delta = word if not number else f" {word}"
            said += delta
            message = ChatMessage(
                role=MessageRole.ASSISTANT,
                content=said,
                additional_kwargs=reply.message.additional_kwargs,
            )
            yield ChatResponse(message=message, delta=delta)

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any
    ) -> dict[str, Any]:
        user = (
            [ChatMessage(role=MessageRole.USER, content=user_msg)]
            if isinstance(user_msg, str)
            else []
        )
        own = [user_msg] if isinstance(user_msg, ChatMessage) else user
        return {"messages": [*(chat_history or []), *own]}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        made = response.message.additional_kwargs.get("tool_calls", [])
        return [
            ToolSelection(
                tool_id=call["id"],
                tool_name=call["name"],
                tool_kwargs=json.loads(call["arguments"]),
            )
            for call in made
        ]

    @llm_chat_callback()
    def chat(self, messages: Any, **_: Any) -> ChatResponse:
        return self._told(messages)

    @llm_chat_callback()
    async def achat(self, messages: Any, **_: Any) -> ChatResponse:
        return self._told(messages)

    @llm_chat_callback()
    def stream_chat(self, messages: Any, **_: Any) -> Any:
        return (piece for piece in self._pieces(self._told(messages)))

    @llm_chat_callback()
    async def astream_chat(self, messages: Any, **_: Any) -> Any:
        async def stream() -> AsyncIterator[ChatResponse]:
            for piece in self._pieces(self._told(messages)):
                yield piece

        return stream()

    @llm_completion_callback()
    def complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponse:
        return CompletionResponse(text=self._reply(prompt).message.content or "")

    @llm_completion_callback()
    async def acomplete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponse:
        return CompletionResponse(text=self._reply(prompt).message.content or "")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        pieces = self._pieces(self._reply(prompt))
        return (
            CompletionResponse(text=piece.message.content or "", delta=piece.delta)
            for piece in pieces
        )

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> Any:
        async def stream() -> AsyncIterator[CompletionResponse]:
            for piece in self._pieces(self._reply(prompt)):
                yield CompletionResponse(
                    text=piece.message.content or "", delta=piece.delta
                )

        return stream()


class Places(BaseEmbedding):
    """Puts the pages in their order for each query, and the one that the query's word names first."""

    def _get_text_embedding(self, text: str) -> list[float]:
        vector = [0.0] * (len(PAGES) + 1)
        vector[
            next(
                (place for place, page in enumerate(PAGES.values()) if page in text),
                len(PAGES),
            )
        ] = 1.0
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        first = next((name for word, name in _FIRST.items() if word in query), "paris")
        return [
            9.0 if name == first else 5.0 - place for place, name in enumerate(PAGES)
        ] + [0.5]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def pages(*names: str) -> list[TextNode]:
    """The pages of these names as nodes, or all."""
    return [TextNode(id_=name, text=PAGES[name]) for name in names or PAGES]


def read(sample: Sample) -> dict[str, Any]:
    """What is held against the expected sample.

    Contexts and retrieved as (id, text).
    """
    notes = sample.capture
    assert notes is not None

    def listed(contexts: Any) -> list[tuple[str | None, str]]:
        return [(context.id, context.text) for context in contexts]

    return {
        "question": sample.question,
        "standalone": sample.standalone_question,
        "contexts": listed(sample.contexts),
        "retrieved": None if sample.retrieved is None else listed(sample.retrieved),
        "answer": sample.answer,
        "history": [(turn.role, turn.content) for turn in sample.history],
        "doubts": sorted(notes.doubts),
    }


@pytest.fixture(scope="session")
def parts() -> ModuleType:
    """This module, for the applications."""
    return sys.modules[__name__]


@pytest.fixture(autouse=True)
def _fakes(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The applications' default model and embeddings."""
    monkeypatch.setattr(Settings, "_llm", Model())
    monkeypatch.setattr(Settings, "_embed_model", Places())
    return lambda: None
