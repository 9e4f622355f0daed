"""A memory sums up what tools found: nobody knows what its summary keeps of a passage."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.documents import Document
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_ragmetrics import capture

from ragmetrics_core.data.sample import Sample

FERRY = "The night ferry to Halmstad leaves the east quay at 22:40, except on Sundays."
FARES = "A seat on the night ferry costs 38 euros, and a cabin for two costs 96 euros."
IN_OTHER_WORDS = "Ferry to Halmstad: 22:40 from the east quay, never on a Sunday."


class Scripted(BaseChatModel):
    replies: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Scripted:
        return self

    def _generate(
        self, messages: list[BaseMessage], *_: Any, **options: Any
    ) -> ChatResult:
        reply = self.replies.pop(0)
        return ChatResult(generations=[ChatGeneration(message=reply)])


class Finds(BaseRetriever):
    texts: list[str]

    def _get_relevant_documents(self, query: str, *_: Any, **__: Any) -> list[Document]:
        return [Document(text) for text in self.texts]


def agent_run(summary: str) -> Sample:
    """The agent finds both texts; what stands before the second one is summed up."""

    @tool
    def search(place: str) -> str:
        """Search."""
        found = Finds(texts=[FERRY if place == "timetable" else FARES]).invoke(place)
        return "\n".join(document.page_content for document in found)

    def wants(place: str) -> AIMessage:
        call = {"name": "search", "args": {"place": place}, "id": place}
        return AIMessage(content="", tool_calls=[call])

    answer = AIMessage(content="It leaves at 22:40, and a cabin costs 96 euros.")
    model = Scripted(replies=[wants("timetable"), wants("fares"), answer])
    notes = Scripted(replies=[AIMessage(content=summary)])
    shorten = SummarizationMiddleware(
        notes, trigger=("messages", 4), keep=("messages", 1)
    )
    agent = create_agent(model, [search], middleware=[shorten])
    question = "When does it leave, and what does a cabin cost?"
    with capture() as captured:
        agent.invoke({"messages": [("human", question)]})
    (sample,) = captured.samples
    return sample


@pytest.mark.skipif(
    version("langchain").startswith("1.0."),
    reason="its summaries are asked for in another way",
)
@pytest.mark.parametrize(
    ("summary", "share"),
    [(IN_OTHER_WORDS, None), (FERRY, 1.0), (f"I know: {FERRY}", 1)],
)
def test_a_passage_that_a_memory_summed_up_is_never_said_to_be_hidden(
    summary: str, share: float | None
) -> None:
    sample = agent_run(summary)
    assert sample.capture is not None
    ferry, fares = sample.capture.passages or ()
    assert (ferry.share, fares.share) == (share, 1.0)
    assert list(sample.capture.doubts) == (["in_part"] if share is None else [])
