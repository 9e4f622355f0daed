"""What a model's provider searched while LlamaIndex's LLM answered: expectations first, in real responses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from lighthouse_texts import ANSWER, FACT, QUESTION, ROOMS
from llama_index.core import SummaryIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.llms import CompletionResponse, MockLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.evaluation.ragmetrics import capture
from provider_finds import (
    ADDRESS,
    ADDRESS_CITED,
    ASKS_THE_WEB,
    CHUNK_OF_A_FILE,
    FILES,
    OWN,
    WEB_CITED,
    WEB_RESULT,
    WEB_SEARCH,
    check,
    file_search,
    tool_result,
)

from ragmetrics_core.data import Sample

# The framework's own classes set these off.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*asyncio_module:DeprecationWarning"),
]


@dataclass(frozen=True)
class Shape:
    """The last response of an agent's LLM, and what its sample must say.

    Attributes:
        contexts: The texts of the contexts, the agent's own noise first.
        grade: The grade of the sample.
        warned: Words of its warnings.
        calls: Kind and name of each call of the ledger.
        raw: The provider's own response.
        beside: The additional arguments of the response.
        of_message: The additional arguments of its message.
    """

    contexts: Sequence[str]
    grade: str
    warned: str = ""
    calls: Sequence[tuple[str, str]] = ()
    raw: Any = None
    beside: dict[str, Any] = field(default_factory=dict)
    of_message: dict[str, Any] = field(default_factory=dict)


ANTHROPIC_WEB = [
    ASKS_THE_WEB,
    tool_result([WEB_RESULT]),
    {"type": "text", "text": ANSWER, "citations": [WEB_CITED]},
]


SHAPES: dict[str, Shape] = {
    "OpenAI: files with texts": Shape(
        [ROOMS, FACT],
        "exact",
        calls=[OWN, FILES],
        beside={"built_in_tool_calls": [file_search(FACT)]},
    ),
    "OpenAI: a stream that ended": Shape(
        [ROOMS, FACT],
        "exact",
        calls=[OWN, FILES],
        raw={
            "type": "response.completed",
            "response": {"object": "response", "output": [file_search(FACT)]},
        },
        beside={
            "built_in_tool_calls": [
                {"type": "response.file_search_call.completed", "item_id": "fs_1"}
            ]
        },
    ),
    "OpenAI: addresses of the web": Shape(
        [ROOMS],
        "incomplete",
        "web_search",
        [OWN],
        beside={
            "built_in_tool_calls": [WEB_SEARCH],
            "annotations": [ADDRESS_CITED],
        },
    ),
    "Anthropic: the web, with cited words": Shape(
        [ROOMS],
        "incomplete",
        "encrypted",
        [OWN],
        raw={"type": "message", "role": "assistant", "content": ANTHROPIC_WEB},
    ),
    "no search": Shape([ROOMS], "exact", calls=[OWN], raw={"usage": {"total": 3}}),
}


async def look_up(query: str) -> list[NodeWithScore]:
    """Looks something up; here it brings noise."""
    del query
    return [NodeWithScore(node=TextNode(id_="rooms", text=ROOMS), score=0.5)]


def sample_of(kit: ModuleType, responses: Sequence[ChatResponse]) -> Sample:
    """The sample of an agent that calls its tool and whose LLM then gives the responses."""

    class Scripted(kit.ToolLLM):  # type: ignore[name-defined,misc]  # a class of the fixture
        def _reply(self, messages: Any) -> ChatResponse:
            done = sum(message.role == MessageRole.TOOL for message in messages)
            return responses[done]

    agent = FunctionAgent(tools=[look_up], llm=Scripted(), streaming=False)

    async def ask() -> None:
        memory = ChatMemoryBuffer.from_defaults(token_limit=4000)
        await agent.run(user_msg=QUESTION, memory=memory)

    with capture() as captured:
        asyncio.run(ask())
    assert not captured.problems
    (sample,) = captured.samples
    return sample


def wish(**fields: Any) -> ChatResponse:
    made = [{"id": "call0", "name": "look_up", "arguments": '{"query": "lamp"}'}]
    message = ChatMessage(
        role="assistant", content="", additional_kwargs={"tool_calls": made}
    )
    return ChatResponse(message=message, **fields)


def reply(shape: Shape) -> ChatResponse:
    message = ChatMessage(
        role="assistant", content=ANSWER, additional_kwargs=dict(shape.of_message)
    )
    return ChatResponse(
        message=message, raw=shape.raw, additional_kwargs=dict(shape.beside)
    )


@pytest.mark.parametrize("name", SHAPES)
def test_what_a_provider_found_is_evidence(name: str, kit: ModuleType) -> None:
    shape = SHAPES[name]
    check(
        sample_of(kit, [wish(), reply(shape)]),
        contexts=shape.contexts,
        grade=shape.grade,
        warned=shape.warned,
        calls=shape.calls,
    )


# What an engine's LLM hands on as ``raw``

CITED_WORDS = {
    "type": "web_search_result_location",
    "url": ADDRESS,
    "title": "Lamp",
    "cited_text": FACT,
    "encrypted_index": "E",
}
END_OF_STREAM = {
    "type": "message_delta",
    "usage": {"output_tokens": 5, "server_tool_use": {"web_search_requests": 1}},
}


def event(index: int, **delta: Any) -> dict[str, Any]:
    """An event of Anthropic's stream; LlamaIndex hands on no beginning of a block."""
    return {"type": "content_block_delta", "index": index, "delta": delta}


ASKED = event(0, type="input_json_delta", partial_json='{"query": "lamp"}')
CITED = event(2, type="citations_delta", citation=CITED_WORDS)
SPOKEN = event(2, type="text_delta", text=ANSWER)


@dataclass(frozen=True)
class Streamed:
    """The chunks of an LLM's stream, and what the sample must say.

    Attributes:
        chunks: What each chunk keeps of the provider's own.
        contexts: The texts of the contexts.
        grade: The grade of the sample.
        warned: Words of its warnings.
    """

    chunks: Sequence[Any]
    contexts: Sequence[str]
    grade: str
    warned: str = ""


STREAMS: dict[str, Streamed] = {
    "Anthropic: a search with cited words": Streamed(
        [ASKED, CITED, SPOKEN, END_OF_STREAM],
        [ROOMS],
        "incomplete",
        "web_search",
    ),
    "Gemini: files, then an empty chunk": Streamed(
        [
            {"grounding_metadata": {"grounding_chunks": [CHUNK_OF_A_FILE]}},
            {"content": {"parts": [{"text": ""}]}, "grounding_metadata": None},
        ],
        [ROOMS],
        "incomplete",
    ),
    "no search": Streamed([SPOKEN, {"type": "message_delta"}], [ROOMS], "exact"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_what_any_chunk_tells_is_evidence(name: str) -> None:
    shape = STREAMS[name]

    class Streaming(MockLLM):
        @llm_completion_callback()
        def stream_complete(
            self, prompt: str, formatted: bool = False, **settings: Any
        ) -> Any:
            yield CompletionResponse(text=ANSWER, delta=ANSWER, raw=None)
            for raw in shape.chunks:
                yield CompletionResponse(text=ANSWER, delta="", raw=raw)

    index = SummaryIndex(nodes=[TextNode(text=ROOMS)])
    engine = index.as_query_engine(streaming=True, llm=Streaming())
    with capture() as captured:
        answer = "".join(engine.query(QUESTION).response_gen)
    (sample,) = captured.samples
    assert answer == ANSWER
    assert sample.capture is not None
    assert sample.ledger is not None
    assert [context.text for context in sample.known_contexts] == list(shape.contexts)
    assert sample.capture.grade == shape.grade
    assert shape.warned in " ".join(sample.capture.warnings)


def test_an_agent_s_own_tool_calls_are_none_of_the_provider_in_a_stream(
    kit: ModuleType,
) -> None:
    """The arguments of both come in the same events."""
    if not hasattr(types, "ToolCallBlock"):
        pytest.skip("this LlamaIndex has no such blocks")
    first = wish(
        raw=event(0, type="input_json_delta", partial_json='{"query": "lamp"}')
    )
    first.message.blocks = [
        types.ToolCallBlock(
            tool_call_id="call0", tool_name="look_up", tool_kwargs={"query": "lamp"}
        )
    ]
    responses = [first, reply(Shape([], "", raw=SPOKEN))]

    class Scripted(kit.ToolLLM):  # type: ignore[name-defined,misc]  # a class of the fixture
        @llm_chat_callback()
        async def astream_chat(self, messages: Any, **settings: Any) -> Any:
            done = sum(message.role == MessageRole.TOOL for message in messages)

            async def chunks() -> Any:
                yield responses[done]

            return chunks()

    agent = FunctionAgent(tools=[look_up], llm=Scripted(), streaming=True)

    async def ask() -> None:
        await agent.run(user_msg=QUESTION)

    with capture() as captured:
        asyncio.run(ask())
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "exact"


# Documents that a provider may cite stand in blocks of their own


class Citing(Workflow):
    """Hands what it retrieved to an LLM as blocks that can be cited."""

    def __init__(self, retriever: Any, llm: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.retriever, self.llm = retriever, llm

    @step
    async def answer(self, started: StartEvent) -> StopEvent:
        found = await self.retriever.aretrieve(started.query)
        blocks = [
            types.CitableBlock(
                title=str(scored.node.node_id), source=ADDRESS, content=scored.text
            )
            for scored in found
        ]
        asked = types.TextBlock(text=started.query)
        response = await self.llm.achat_with_tools(
            [], chat_history=[ChatMessage(role="user", blocks=[*blocks, asked])]
        )
        return StopEvent(result=response.message.content)


@pytest.mark.parametrize(
    ("quote", "contexts", "grade"),
    [(FACT, [ROOMS, FACT], "exact"), ("A ship sank.", None, "incomplete")],
)
def test_blocks_that_can_be_cited(
    quote: str, contexts: list[str] | None, grade: str, kit: ModuleType
) -> None:
    if not hasattr(types, "CitableBlock"):
        pytest.skip("this LlamaIndex has no such blocks")
    cited = types.CitationBlock(
        cited_content=quote, source=ADDRESS, title="a", additional_location_info={}
    )
    message = ChatMessage(
        role="assistant", blocks=[types.TextBlock(text=ANSWER), cited]
    )

    class Scripted(kit.ToolLLM):  # type: ignore[name-defined,misc]  # a class of the fixture
        def _reply(self, messages: Any) -> ChatResponse:
            return ChatResponse(message=message)

    retriever = kit.FixedRetriever(
        [kit.node("a", ROOMS, 0.9), kit.node("b", FACT, 0.8)]
    )
    with capture() as captured:
        asyncio.run(_run(Citing(retriever, Scripted())))
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == grade
    if contexts is not None:
        assert [context.text for context in sample.known_contexts] == contexts


async def _run(workflow: Workflow) -> None:
    await workflow.run(query=QUESTION)


# The LLM of OpenAI itself, over a transport without a network


# Law: whatever stands in these places, the run is recorded as without it or hedged
