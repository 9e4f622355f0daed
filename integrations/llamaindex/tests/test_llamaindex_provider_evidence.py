"""What a model's provider searched while LlamaIndex's LLM answered: expectations first, in real responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from lighthouse import ANSWER, FACT, QUESTION, ROOMS
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
    CHUNK_OF_THE_WEB,
    CODE,
    FILES,
    JSON,
    OWN,
    SWITCH,
    WEB_CITED,
    WEB_RESULT,
    WEB_SEARCH,
    check,
    check_odd_payload,
    file_search,
    response,
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

GROQ = {
    "index": 0,
    "type": "search",
    "arguments": '{"query": "lamp"}',
    "output": f"Title: The lamp\nURL: {ADDRESS}\nContent: {FACT}",
    "search_results": {"results": [{"title": "The lamp", "content": FACT}]},
}

SHAPES: dict[str, Shape] = {
    "OpenAI: files with texts": Shape(
        [ROOMS, FACT],
        "exact",
        calls=[OWN, FILES],
        beside={"built_in_tool_calls": [file_search(FACT)]},
    ),
    "OpenAI: files with texts, told by the raw response as well": Shape(
        [ROOMS, FACT],
        "exact",
        calls=[OWN, FILES],
        raw={"object": "response", "output": [file_search(FACT)]},
        beside={"built_in_tool_calls": [file_search(FACT)]},
    ),
    "OpenAI: files without texts": Shape(
        [ROOMS],
        "incomplete",
        SWITCH,
        [OWN],
        beside={"built_in_tool_calls": [file_search(None)]},
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
    "OpenAI: a stream without its last event": Shape(
        [ROOMS],
        "incomplete",
        SWITCH,
        [OWN],
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
    "OpenAI: cited addresses of a chat completion": Shape(
        [ROOMS],
        "incomplete",
        "hand it in as text",
        [OWN],
        raw={
            "object": "chat.completion",
            "choices": [
                {
                    "message": {
                        "content": ANSWER,
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url_citation": {"url": ADDRESS, "title": "The lamp"},
                            }
                        ],
                    }
                }
            ],
        },
    ),
    "Groq: a form that is not read": Shape(
        [ROOMS],
        "incomplete",
        "in a form that is not read",
        [OWN],
        raw={
            "object": "chat.completion",
            "model": "groq/compound",
            "choices": [{"message": {"content": ANSWER, "executed_tools": [GROQ]}}],
        },
    ),
    "OpenAI: a calculation": Shape(
        [ROOMS],
        "incomplete",
        "in a form that is not read",
        [OWN],
        beside={"built_in_tool_calls": [CODE]},
    ),
    "Anthropic: the web, with cited words": Shape(
        [ROOMS],
        "incomplete",
        "encrypted",
        [OWN],
        raw={"type": "message", "role": "assistant", "content": ANTHROPIC_WEB},
    ),
    "Gemini: addresses of the web": Shape(
        [ROOMS],
        "incomplete",
        "Gemini",
        [OWN],
        raw={
            "content": {"parts": [{"text": ANSWER}], "role": "model"},
            "grounding_metadata": {
                "grounding_chunks": [CHUNK_OF_THE_WEB],
                "web_search_queries": ["lamp"],
            },
        },
    ),
    "Gemini: texts of files": Shape(
        [ROOMS, FACT],
        "exact",
        calls=[OWN, FILES],
        raw={
            "grounding_metadata": {
                "grounding_chunks": [CHUNK_OF_A_FILE],
                "web_search_queries": None,
            }
        },
    ),
    "Perplexity: addresses": Shape(
        [ROOMS],
        "incomplete",
        "text",
        [OWN],
        raw={"object": "chat.completion", "citations": [ADDRESS]},
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


def test_what_was_found_while_the_model_chose_a_tool_may_be_shown_again(
    kit: ModuleType,
) -> None:
    first = wish(additional_kwargs={"built_in_tool_calls": [file_search(FACT)]})
    last = ChatResponse(message=ChatMessage(role="assistant", content=ANSWER))
    sample = sample_of(kit, [first, last])
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert "file_search" in " ".join(sample.capture.warnings)


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


def test_pages_that_gemini_was_told_to_read_leave_an_engine_incomplete() -> None:
    page = {"retrieved_url": ADDRESS, "url_retrieval_status": "SUCCESS"}
    raw = {"url_context_metadata": {"url_metadata": [page]}, "grounding_metadata": None}

    class Reading(MockLLM):
        def complete(
            self, prompt: str, formatted: bool = False, **settings: Any
        ) -> CompletionResponse:
            return CompletionResponse(text=ANSWER, raw=raw)

    engine = SummaryIndex(nodes=[TextNode(text=ROOMS)]).as_query_engine(llm=Reading())
    with capture() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"
    assert "not_recorded" in sample.capture.doubts


def event(index: int, **delta: Any) -> dict[str, Any]:
    """An event of Anthropic's stream; LlamaIndex hands on no beginning of a block."""
    return {"type": "content_block_delta", "index": index, "delta": delta}


ASKED = event(0, type="input_json_delta", partial_json='{"query": "lamp"}')
CITED = event(2, type="citations_delta", citation=CITED_WORDS)
SPOKEN = event(2, type="text_delta", text=ANSWER)
CODE_OF_GEMINI = [
    {"content": {"parts": [{"executable_code": {"code": "1"}, "text": None}]}},
    {"content": {"parts": [{"code_execution_result": {"output": FACT}}]}},
    {"content": {"parts": [{"text": ANSWER}]}, "grounding_metadata": None},
]
CHUNK_WITH_SOURCES = {
    "choices": [
        {
            "delta": {
                "annotations": [
                    {"type": "url_citation", "url_citation": {"url": ADDRESS}}
                ]
            }
        }
    ]
}


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


ASKS_OF_GROQ = {**GROQ, "output": None, "search_results": None}


def chunk_of_groq(*tools: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"executed_tools": list(tools)}}]}


STREAMS: dict[str, Streamed] = {
    "Groq: a search, asked in one chunk and answered in another": Streamed(
        [chunk_of_groq(ASKS_OF_GROQ), chunk_of_groq(GROQ), chunk_of_groq()],
        [ROOMS],
        "incomplete",
        "in a form that is not read",
    ),
    "Anthropic: a search that is only counted": Streamed(
        [SPOKEN, END_OF_STREAM], [ROOMS], "incomplete", "web_search"
    ),
    "Anthropic: a search with cited words": Streamed(
        [ASKED, CITED, SPOKEN, END_OF_STREAM],
        [ROOMS],
        "incomplete",
        "web_search",
    ),
    "Anthropic: another tool": Streamed(
        [ASKED, SPOKEN, {"type": "message_delta"}], [ROOMS], "incomplete", "texts"
    ),
    "Gemini: a calculation": Streamed(
        CODE_OF_GEMINI, [ROOMS], "incomplete", "in a form that is not read"
    ),
    "Gemini: files, then an empty chunk": Streamed(
        [
            {"grounding_metadata": {"grounding_chunks": [CHUNK_OF_A_FILE]}},
            {"content": {"parts": [{"text": ""}]}, "grounding_metadata": None},
        ],
        [ROOMS],
        "incomplete",
    ),
    "a chat completion: sources before the last chunk": Streamed(
        [CHUNK_WITH_SOURCES, {"choices": [{"delta": {}}]}],
        [ROOMS],
        "incomplete",
        "texts",
    ),
    "no search": Streamed([SPOKEN, {"type": "message_delta"}], [ROOMS], "exact"),
}


def test_a_bare_chat_that_searched_is_a_sample() -> None:
    class Compound(MockLLM):
        @llm_chat_callback()
        def chat(self, messages: Any, **settings: Any) -> ChatResponse:
            return reply(SHAPES["Groq: a form that is not read"])

    with capture() as captured:
        Compound().chat([ChatMessage(role="user", content=QUESTION)])
    (sample,) = captured.samples
    assert sample.question == QUESTION
    assert sample.contexts is None
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"


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


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("text", "contexts", "grade"), [(FACT, [FACT], "exact"), (None, [], "incomplete")]
)
def test_the_llm_of_openai(
    is_streamed: bool, text: str | None, contexts: list[str], grade: str
) -> None:
    openai = pytest.importorskip("llama_index.llms.openai")
    httpx = pytest.importorskip("httpx")
    whole = response(file_search(text))
    for block in whole["output"]:
        for part in block.get("content") or ():
            part["annotations"] = [
                {
                    "type": "file_citation",
                    "index": len(ANSWER),
                    "file_id": "file-1",
                    "filename": "a.txt",
                }
            ]

    def answer(request: Any) -> Any:
        if b'"stream":true' not in request.content.replace(b" ", b""):
            return httpx.Response(200, json=whole)
        events = [
            {
                "type": "response.output_text.delta",
                "item_id": "msg_1",
                "output_index": 1,
                "content_index": 0,
                "delta": ANSWER,
                "logprobs": [],
                "sequence_number": 1,
            },
            {
                "type": "response.file_search_call.completed",
                "item_id": "fs_1",
                "output_index": 0,
                "sequence_number": 2,
            },
            {"type": "response.completed", "response": whole, "sequence_number": 3},
        ]
        lines = [
            f"event: {one['type']}\ndata: {httpx.Response(200, json=one).text}\n\n"
            for one in events
        ]
        return httpx.Response(
            200,
            content="".join(lines).encode(),
            headers={"content-type": "text/event-stream"},
        )

    llm = openai.OpenAIResponses(
        model="gpt-4o",
        api_key="none",
        http_client=httpx.Client(transport=httpx.MockTransport(answer)),
    )
    asked = [ChatMessage(role="user", content=QUESTION)]

    class Asking(Workflow):
        @step
        async def answer(self, started: StartEvent) -> StopEvent:
            if not is_streamed:
                return StopEvent(result=llm.chat(asked).message.content)
            *_, last = llm.stream_chat(asked)
            return StopEvent(result=last.message.content)

    with capture() as captured:
        asyncio.run(_run(Asking()))
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == grade
    assert [context.text for context in sample.known_contexts] == contexts
    assert text is not None or SWITCH in " ".join(sample.capture.warnings)
    if text is not None:  # the reply comes twice, in an event and as the span's result
        assert [one.contexts for one in sample.citations or ()] == [(0,)]
    else:
        assert sample.citations is None


# Law: whatever stands in these places, the run is recorded as without it or hedged

PLACES: dict[str, Callable[[Any], Shape]] = {
    "raw": lambda odd: Shape([], "", raw={"output": odd, "grounding_metadata": odd}),
    "calls": lambda odd: Shape([], "", beside={"built_in_tool_calls": odd}),
    "results": lambda odd: Shape(
        [], "", beside={"built_in_tool_calls": [{**file_search(None), "results": odd}]}
    ),
    "annotations": lambda odd: Shape([], "", of_message={"annotations": odd}),
}


@pytest.mark.parametrize("place", PLACES)
@hypothesis_settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(odd=JSON)
def test_odd_payloads_are_no_evidence(place: str, odd: Any, kit: ModuleType) -> None:
    sample = sample_of(kit, [wish(), reply(PLACES[place](odd))])
    check_odd_payload(sample, ROOMS)
