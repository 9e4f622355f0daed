"""What stands in for a vector store and a chat model in the examples of LangChain.

Without key and network.
"""

import re
from typing import Any

import own_docs
from langchain_core.callbacks import (
    CallbackManagerForLLMRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable


class PagesRetriever(BaseRetriever):
    """Finds the paragraphs of our documentation that share most words with a query."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        del run_manager  # nothing is called from here
        found = own_docs.retrieve(query, own_docs.corpus())
        return [
            Document(page_content=one.text, id=one.id, metadata={"score": one.score})
            for one in found
        ]


class QuotingModel(BaseChatModel):
    """A chat model without a model: it quotes the sentence of its prompt that shares most words with the question.

    With tools it calls the first one with the question, and then quotes from what the
    tool returned.
    """

    @property
    def _llm_type(self) -> str:
        return "quoting"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Remember the names of the tools."""
        return self.bind(tool_names=[tool.name for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager  # neither cut off nor streamed
        message = self._reply(messages, kwargs.get("tool_names") or [])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _reply(self, messages: list[BaseMessage], tools: list[str]) -> AIMessage:
        asked = next(
            str(one.text) for one in reversed(messages) if isinstance(one, HumanMessage)
        )
        question = asked.rpartition("Question: ")[2]
        if tools and not isinstance(messages[-1], ToolMessage):
            call = {
                "name": tools[0],
                "args": {"query": question},
                "id": "call-1",
                "type": "tool_call",
            }
            return AIMessage("", tool_calls=[call])
        pages = re.split(
            r"\n\n+",
            str(messages[-1].text).rpartition("Question: ")[0]
            or str(messages[-1].text),
        )
        return AIMessage(
            own_docs.answer(
                question, [page for page in pages if not page.startswith("Answer from")]
            )
        )
