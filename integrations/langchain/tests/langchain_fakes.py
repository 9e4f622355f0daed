"""Deterministic chat models and retrievers, and the texts that all shapes use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langsmith import Client
from pydantic import Field

QUESTION = "What is the capital of France?"
ANSWER = "Paris is the capital."
PARIS, LYON, ROME = (
    "Paris is the capital of France.",
    "Lyon lies on the Rhône.",
    "Rome is the capital of Italy.",
)


def document(text: str, name: str | None = None, **metadata: Any) -> Document:
    return Document(page_content=text, id=name, metadata=metadata)


def documents() -> list[Document]:
    """New objects on every call: id and score, only a score, nothing."""
    return [
        document(PARIS, "paris", relevance_score=0.9),
        document(LYON, None, score=0.5),
        document(ROME),
    ]


FOUND = [(PARIS, "paris", 0.9), (LYON, None, 0.5), (ROME, None, None)]


class Shelf(BaseRetriever):
    """Returns what it is told to, for any query or per query."""

    books: Any = None
    """Documents, a callable from the query to documents, or an exception."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[Document]:
        if isinstance(self.books, Exception):
            raise self.books
        if callable(self.books):
            return self.books(query)
        return documents() if self.books is None else self.books


Reply = str | AIMessage | Exception | Callable[[Sequence[BaseMessage]], "Reply"]


class Speaker(BaseChatModel):
    """Says its lines in order, the last one for ever; streams word by word."""

    lines: Any = ANSWER
    """One line or a list of lines: texts, messages, exceptions, or callables from the messages to a line."""
    spoken: int = 0
    prompts: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def get_num_tokens(self, text: str) -> int:
        return len(text.split())

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=[getattr(tool, "name", str(tool)) for tool in tools])

    def _line(self, messages: Sequence[BaseMessage]) -> AIMessage:
        lines = self.lines if isinstance(self.lines, list) else [self.lines]
        line = lines[min(self.spoken, len(lines) - 1)]
        self.spoken += 1
        while callable(line) and not isinstance(line, (BaseMessage, Exception)):
            line = line(messages)
        if isinstance(line, Exception):
            raise line
        return line if isinstance(line, AIMessage) else AIMessage(line)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: Any = None,
        run_manager: Any = None,
        **kw: Any,
    ) -> ChatResult:
        self.prompts.append("\n".join(str(message.text) for message in messages))
        return ChatResult(generations=[ChatGeneration(message=self._line(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: Any = None,
        run_manager: Any = None,
        **kw: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self.prompts.append("\n".join(str(message.text) for message in messages))
        line = self._line(messages)
        words = str(line.text).split(" ")
        for place, word in enumerate(words):
            text = word if place == len(words) - 1 else f"{word} "
            chunk = ChatGenerationChunk(
                message=AIMessageChunk(content=text, tool_call_chunks=[])
            )
            if place == 0 and line.tool_calls:
                calls = [
                    {**call, "args": __import__("json").dumps(call["args"]), "index": 0}
                    for call in line.tool_calls
                ]
                chunk = ChatGenerationChunk(
                    message=AIMessageChunk(content=text, tool_call_chunks=calls)
                )
            if run_manager is not None:
                run_manager.on_llm_new_token(text, chunk=chunk)
            yield chunk


def calls(name: str, /, **args: Any) -> AIMessage:
    """A message that calls one tool."""
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": args, "id": f"call_{name}", "type": "tool_call"}
        ],
    )


class Letters(Embeddings):
    """Embeds by counting letters: equal texts are equal, nothing is random."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [
            [float(text.lower().count(chr(code))) + 0.01 for code in range(97, 123)]
            for text in texts
        ]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def store(*texts: str) -> InMemoryVectorStore:
    return InMemoryVectorStore.from_documents(
        [document(text, text[:4]) for text in texts or (PARIS, LYON)], Letters()
    )


def joined(found: Sequence[Document]) -> str:
    return "\n\n".join(one.page_content for one in found)


PROMPT = ChatPromptTemplate.from_template(
    "Use only this:\n{context}\n\nQuestion: {question}"
)


def rag(
    retriever: Runnable[Any, Any] | None = None, model: BaseChatModel | None = None
) -> Runnable[Any, Any]:
    """The chain of the tutorial: a text in, a text out."""
    return (
        {"context": (retriever or Shelf()) | joined, "question": RunnablePassthrough()}
        | PROMPT
        | (model or Speaker())
        | StrOutputParser()
    )


async def drained(stream: Any) -> list[Any]:
    return [part async for part in stream]


def run(work: Any) -> Any:
    return asyncio.run(work)


class OfflineClient(Client):
    """The real client; what it would send goes nowhere."""

    def create_run(self, *args: Any, **kwargs: Any) -> None:
        pass

    def update_run(self, *args: Any, **kwargs: Any) -> None:
        pass

    def request_with_retries(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("nothing may be sent")


def offline_client() -> Client:
    return OfflineClient(
        api_key="none", api_url="http://127.0.0.1:9", auto_batch_tracing=False, info={}
    )
