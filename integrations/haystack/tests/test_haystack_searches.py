"""A search that finds nothing is a search.

A pipeline behind a tool shows its documents to its own model only.
"""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import PipelineTool, Tool
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_rows import connected

from ragmetrics_core.data.sample import Sample

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
FERRY = "The Osta ferry crosses the lake every hour in summer."
GUIDE = "It dates from the year 1874, says the guide."
ASKING = (
    "Use only this:\n{% for one in documents %}{{ one.content }}\n{% endfor"
    " %}\nQuestion: {{ query }}"
)

STORE = InMemoryDocumentStore()
STORE.write_documents(
    [Document(id="bridge", content=BRIDGE), Document(id="ferry", content=FERRY)]
)


def asked(tool: Tool, *queries: str, answer: str) -> Sample:
    def reply(messages: list[ChatMessage]) -> ChatMessage:
        done = sum(len(one.tool_call_results) for one in messages)
        if done < len(queries):
            return ChatMessage.from_assistant(
                tool_calls=[ToolCall(tool.name, {"query": queries[done]})]
            )
        return ChatMessage.from_assistant(answer)

    agent = Agent(chat_generator=MockChatGenerator(response_fn=reply), tools=[tool])
    with capture() as captured:
        agent.run(messages=[ChatMessage.from_user(QUESTION)])
    (sample,) = captured.samples
    return sample


def speaking(text: str) -> MockChatGenerator:
    return MockChatGenerator(response_fn=lambda messages: text)


def answering_pipeline(**tool: Any) -> Tool:
    pipeline = connected(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "guide.messages"),
        retriever=InMemoryBM25Retriever(STORE, top_k=1),
        prompt=ChatPromptBuilder(
            [ChatMessage.from_user(ASKING)], required_variables="*"
        ),
        guide=speaking(GUIDE),
    )
    inputs = {"query": ["retriever.query", "prompt.query"]}
    return PipelineTool(
        pipeline=pipeline,
        input_mapping=inputs,
        output_mapping={"guide.replies": "replies"},
        name="ask",
        **tool,
    )


def test_what_the_model_of_a_tool_was_shown_is_a_context() -> None:
    sample = asked(
        answering_pipeline(description="Asks the guide."),
        "Velm bridge",
        answer="It is of 1874.",
    )
    assert sample.answer == "It is of 1874."
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    assert sample.ledger is not None
    assert [call.kind for call in sample.ledger.calls] == ["written", "retrieval"]


@pytest.mark.parametrize(
    "answer", ["1874.", "412", "Yes.", "No", "True", "It is of 1874."]
)
def test_what_an_agent_says_last_is_its_answer_however_short(answer: str) -> None:
    """A number or a word that could be a verdict, after a pipeline behind a tool wrote a sentence."""
    sample = asked(
        answering_pipeline(description="Asks the guide."), "Velm bridge", answer=answer
    )
    assert sample.answer == answer
