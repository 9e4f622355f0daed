"""What a model's provider searched while LangChain's model answered: expectations first, in real messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_ragmetrics import capture
from lighthouse import ANSWER, FACT, QUESTION, ROOMS
from provider_finds import (
    ADDRESS,
    ADDRESS_CITED,
    ASKS_THE_WEB,
    CHUNK_OF_A_FILE,
    CHUNK_OF_THE_WEB,
    CODE,
    FETCHED,
    FILES,
    JSON,
    NO_SEARCH_LEFT,
    OWN,
    SWITCH,
    WEB,
    WEB_CITED,
    WEB_RESULT,
    WEB_SEARCH,
    calls_of,
    check,
    check_odd_payload,
    file_search,
    response,
    tool_result,
)
from pydantic import BaseModel

from ragmetrics_core.data import Sample


class Scripted(GenericFakeChatModel):
    """Says its lines one after the other."""

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self


@tool(response_format="content_and_artifact")
def look_up(query: str) -> tuple[str, list[Document]]:
    """Looks something up; here it brings noise."""
    return ROOMS, [Document(ROOMS)]


@dataclass(frozen=True)
class Shape:
    """The last message of an agent, and what its sample must say.

    Attributes:
        content: The content of the message.
        contexts: The texts of the contexts, the agent's own noise first.
        grade: The grade of the sample.
        warned: Words of its warnings.
        calls: Kind and name of each call of the ledger.
        beside: The additional arguments of the message.
        metadata: The metadata of the response.
        own_tool: Whether the agent's own tool was called first.
        context_tools: The tools that the user names.
    """

    content: Any
    contexts: Sequence[str]
    grade: str
    warned: str = ""
    calls: Sequence[tuple[str, str]] = ()
    beside: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    own_tool: bool = True
    context_tools: frozenset[str] = frozenset()


def said(**fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": ANSWER, **fields}


FILE_CITED = said(
    annotations=[
        {
            "type": "file_citation",
            "file_id": "file-1",
            "filename": "a.txt",
            "file_index": 29,
        }
    ]
)
URL_CITED = said(annotations=[ADDRESS_CITED])


MCP = {
    "type": "mcp_call",
    "id": "mcp_1",
    "name": "search_archive",
    "server_label": "archive",
    "arguments": '{"query": "lamp"}',
    "output": FACT,
}

FETCHED_PDF = {
    "type": "web_fetch_result",
    "url": ADDRESS,
    "content": {
        "type": "document",
        "source": {
            "type": "base64",
            "media_type": "application/pdf",
            "data": "JVBERi0xLjQK",
        },
    },
}
COHERE_CITATION: dict[str, Any] = {
    "start": 0,
    "end": 9,
    "text": "x",
    "sources": [
        {"type": "document", "id": "d:0", "document": {"id": "d:0", "snippet": FACT}}
    ],
}


class CitationOfClient(BaseModel):
    """A citation as the client of Cohere hands it on."""

    start: int
    end: int
    text: str
    sources: list[dict[str, Any]]


SHAPES: dict[str, Shape] = {
    "OpenAI: files with texts": Shape(
        [file_search(FACT), FILE_CITED], [ROOMS, FACT], "exact", calls=[OWN, FILES]
    ),
    "OpenAI: files with texts, and no tool of the application": Shape(
        [file_search(FACT), FILE_CITED], [FACT], "exact", calls=[FILES], own_tool=False
    ),
    "OpenAI: files without texts": Shape(
        [file_search(None), FILE_CITED], [ROOMS], "incomplete", SWITCH, [OWN]
    ),
    "OpenAI: files, kept beside the content": Shape(
        [FILE_CITED],
        [ROOMS, FACT],
        "exact",
        calls=[OWN, FILES],
        beside={"tool_outputs": [file_search(FACT)]},
    ),
    "OpenAI: addresses of the web": Shape(
        [WEB_SEARCH, URL_CITED], [ROOMS], "incomplete", "web_search", [OWN]
    ),
    "OpenAI: addresses of the web, and no tool of the application": Shape(
        [WEB_SEARCH, URL_CITED], [], "incomplete", "web_search", own_tool=False
    ),
    "OpenAI: cited addresses alone": Shape(
        [URL_CITED], [ROOMS], "incomplete", "hand it in as text", [OWN]
    ),
    "OpenAI: a remote tool's text": Shape(
        [MCP, said()], [ROOMS], "incomplete", "in a form that is not read", [OWN]
    ),
    "OpenAI: a calculation": Shape(
        [CODE, said()], [ROOMS], "incomplete", "in a form that is not read", [OWN]
    ),
    "Anthropic: the web, with cited words": Shape(
        [ASKS_THE_WEB, tool_result([WEB_RESULT]), said(citations=[WEB_CITED])],
        [ROOMS],
        "incomplete",
        "encrypted",
        [OWN],
    ),
    "Anthropic: no search was left": Shape(
        [
            ASKS_THE_WEB,
            tool_result(NO_SEARCH_LEFT),
            said(),
        ],
        [ROOMS],
        "exact",
        calls=[OWN, WEB],
    ),
    "Anthropic: a page that was fetched": Shape(
        [tool_result(FETCHED, "web_fetch"), said()],
        [ROOMS, FACT],
        "exact",
        calls=[OWN, ("retrieval", "web_fetch")],
    ),
    "Anthropic: the tool's own text is cited": Shape(
        [
            said(
                citations=[
                    {
                        "type": "search_result_location",
                        "cited_text": ROOMS,
                        "source": ADDRESS,
                        "title": "The lamp",
                        "search_result_index": 0,
                        "start_block_index": 0,
                        "end_block_index": 1,
                    }
                ]
            )
        ],
        [ROOMS],
        "exact",
        calls=[OWN],
    ),
    "Anthropic: a PDF that nobody read is cited": Shape(
        [
            said(
                citations=[
                    {
                        "type": "page_location",
                        "cited_text": FACT,
                        "document_index": 0,
                        "document_title": "Lamps",
                        "start_page_number": 1,
                        "end_page_number": 2,
                    }
                ]
            )
        ],
        [ROOMS],
        "incomplete",
        "hand it in as text",
        [OWN],
    ),
    "Gemini: addresses of the web": Shape(
        ANSWER,
        [ROOMS],
        "incomplete",
        "Gemini",
        [OWN],
        metadata={
            "grounding_metadata": {
                "grounding_chunks": [CHUNK_OF_THE_WEB],
                "grounding_supports": [
                    {
                        "segment": {
                            "start_index": 0,
                            "end_index": 29,
                            "text": ANSWER,
                        },
                        "grounding_chunk_indices": [0],
                    }
                ],
                "web_search_queries": ["lamp"],
            }
        },
    ),
    "Gemini: texts of files": Shape(
        ANSWER,
        [ROOMS, FACT],
        "exact",
        calls=[OWN, FILES],
        metadata={
            "grounding_metadata": {
                "grounding_chunks": [CHUNK_OF_A_FILE],
                "web_search_queries": [],
            }
        },
    ),
    "Perplexity: addresses": Shape(
        ANSWER,
        [ROOMS],
        "incomplete",
        "texts",
        [OWN],
        beside={"citations": [ADDRESS]},
    ),
    "Perplexity: snippets": Shape(
        ANSWER,
        [ROOMS],
        "incomplete",
        "in a form that is not read",
        [OWN],
        beside={"search_results": [{"url": ADDRESS, "title": "t", "snippet": FACT}]},
    ),
    "Anthropic: a PDF that was fetched": Shape(
        [tool_result(FETCHED_PDF, "web_fetch"), said()],
        [ROOMS],
        "incomplete",
        "without their texts",
        [OWN],
    ),
    "Cohere: documents and citations, first interface": Shape(
        ANSWER,
        [ROOMS],
        "incomplete",
        "in a form that is not read",
        [OWN],
        beside={
            "documents": [{"id": "doc_0", "title": "Lamps", "snippet": FACT}],
            "citations": [
                {"start": 0, "end": 9, "text": "x", "document_ids": ["doc_0"]}
            ],
            "search_results": [{"document_ids": ["doc_0"]}],
        },
    ),
    "Cohere: documents in citations, second interface": Shape(
        ANSWER,
        [ROOMS],
        "incomplete",
        "in a form that is not read",
        [OWN],
        beside={"citations": [COHERE_CITATION]},
    ),
    "Cohere: objects of its client": Shape(
        ANSWER,
        [ROOMS],
        "incomplete",
        "in a form that is not read",
        [OWN],
        beside={"citations": [CitationOfClient(**COHERE_CITATION)]},
    ),
    "Cohere: the output of the application's own tool": Shape(
        ANSWER,
        [ROOMS],
        "incomplete",
        "in a form that is not read",
        [OWN],
        beside={
            "citations": [
                {
                    "start": 0,
                    "end": 9,
                    "text": "x",
                    "sources": [
                        {"type": "tool", "id": "t:0", "tool_output": {"a": ROOMS}}
                    ],
                }
            ]
        },
    ),
    "OpenAI: a model that searches, told by the reply": Shape(
        ANSWER,
        [ROOMS],
        "inferred",
        "searches by itself",
        [OWN],
        beside={"refusal": None},
        metadata={"model_name": "gpt-4o-search-preview-2025-03-11"},
    ),
    "OpenRouter: a model that searches": Shape(
        ANSWER,
        [ROOMS],
        "inferred",
        "searches by itself",
        [OWN],
        beside={"refusal": None},
        metadata={"model_name": "openai/gpt-4o:online"},
    ),
    "another provider's search": Shape(
        [{"type": "x_search_call", "id": "x_1"}, said()],
        [ROOMS],
        "incomplete",
        "texts",
        [OWN],
    ),
}
WISH = {"name": "look_up", "args": {"query": "lamp"}, "id": "call_1"}


def lines_of(shape: Shape) -> Iterator[AIMessage]:
    if shape.own_tool:
        yield AIMessage("", tool_calls=[WISH])
    yield AIMessage(
        shape.content,
        additional_kwargs=dict(shape.beside),
        response_metadata=dict(shape.metadata),
    )


def sample_of(lines: Iterator[AIMessage], context_tools: Any = None) -> Sample:
    agent = create_agent(Scripted(messages=lines), [look_up])
    with capture(context_tools=context_tools or None) as captured:
        agent.invoke({"messages": [("user", QUESTION)]})
    assert not captured.problems
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("name", SHAPES)
def test_what_a_provider_found_is_evidence(name: str) -> None:
    shape = SHAPES[name]
    check(
        sample_of(lines_of(shape), shape.context_tools),
        contexts=shape.contexts,
        grade=shape.grade,
        warned=shape.warned,
        calls=shape.calls,
    )


STANDARD = [name for name in SHAPES if not SHAPES[name].beside]


@pytest.mark.parametrize("name", STANDARD)
def test_langchains_own_form_of_a_message_says_the_same(name: str) -> None:
    """``content_blocks`` is what ``output_version="v1"`` puts into the content."""
    shape = SHAPES[name]
    provider = {"OpenAI": "openai", "Anthropic": "anthropic", "Gemini": "google_genai"}
    model_provider = provider.get(name.partition(":")[0])
    lines = list(lines_of(shape))
    lines[-1].response_metadata["model_provider"] = model_provider
    if not hasattr(lines[-1], "content_blocks"):
        pytest.skip("this LangChain has no content blocks")
    blocks = [dict(block) for block in lines[-1].content_blocks]
    again = AIMessage(blocks, response_metadata={"output_version": "v1"})
    sample = sample_of(iter([*lines[:-1], again]), shape.context_tools)
    assert sample.capture is not None
    if name == "Gemini: texts of files":
        # the form has no place for the texts of files
        assert [context.text for context in sample.known_contexts] == [ROOMS]
        return
    assert sample.capture.grade == shape.grade
    assert [context.text for context in sample.known_contexts] == list(shape.contexts)
    assert calls_of(sample) == list(shape.calls)


def test_what_was_found_while_the_model_chose_a_tool_stays_shown() -> None:
    choosing = AIMessage([file_search(FACT), said()], tool_calls=[WISH])
    sample = sample_of(iter([choosing, AIMessage(ANSWER)]))
    assert sample.capture is not None
    assert list(sample.capture.doubts) == ["further_call"]
    assert {context.text for context in sample.known_contexts} == {FACT, ROOMS}
    assert calls_of(sample) == [FILES, OWN]


def test_a_model_without_an_agent() -> None:
    model = Scripted(messages=iter([AIMessage([file_search(FACT), FILE_CITED])]))
    with capture() as captured:
        model.invoke([HumanMessage(QUESTION)])
    (sample,) = captured.samples
    assert sample.capture is not None
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert sample.capture.grade == "exact"
    assert [context.text for context in sample.known_contexts] == [FACT]


def test_a_model_that_searches_still_answers_from_what_the_application_found() -> None:
    """A retriever and a model without a chain around them are one turn."""

    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [Document(ROOMS)]

    model = Scripted(messages=iter([AIMessage([file_search(FACT), FILE_CITED])]))
    with capture() as captured:
        (found,) = Shelf().invoke(QUESTION)
        model.invoke(f"Use this: {found.page_content}\n\nQuestion: {QUESTION}")
    (sample,) = captured.samples
    assert sample.capture is not None
    assert [context.text for context in sample.known_contexts] == [ROOMS, FACT]
    assert sample.answer == ANSWER


# The model of OpenAI itself, over a transport without a network


@pytest.mark.parametrize("version", ["v0", "responses/v1", "v1"])
@pytest.mark.parametrize(
    ("text", "contexts", "grade"), [(FACT, [FACT], "exact"), (None, [], "incomplete")]
)
def test_the_model_of_openai(
    version: str, text: str | None, contexts: list[str], grade: str
) -> None:
    openai = pytest.importorskip("langchain_openai")
    httpx = pytest.importorskip("httpx")

    def answer(request: Any) -> Any:
        del request
        return httpx.Response(200, json=response(file_search(text)))

    try:
        model = openai.ChatOpenAI(
            model="gpt-test",
            api_key="none",
            use_responses_api=True,
            output_version=version,
            http_client=httpx.Client(transport=httpx.MockTransport(answer)),
        )
    except ValueError:
        pytest.skip("this LangChain has no such form")
    with capture() as captured:
        model.invoke(QUESTION)
    (sample,) = captured.samples
    assert sample.capture is not None
    assert sample.capture.grade == grade
    assert [context.text for context in sample.known_contexts] == contexts
    assert text is not None or SWITCH in " ".join(sample.capture.warnings)


# Law: whatever stands in these places, the run is recorded as without it or hedged

PLACES: dict[str, Callable[[Any], AIMessage]] = {
    "results": lambda odd: AIMessage([{**file_search(None), "results": odd}, said()]),
    "action": lambda odd: AIMessage([{**WEB_SEARCH, "action": odd}, said()]),
    "returned": lambda odd: AIMessage([ASKS_THE_WEB, tool_result(odd), said()]),
    "cited": lambda odd: AIMessage([said(citations=[odd], annotations=odd)]),
    "outputs": lambda odd: AIMessage(
        [said()], additional_kwargs={"tool_outputs": odd, "citations": odd}
    ),
    "grounding": lambda odd: AIMessage(
        ANSWER, response_metadata={"grounding_metadata": odd}
    ),
}


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=15, deadline=None)
@given(odd=JSON)
def test_odd_payloads_change_nothing_and_are_no_evidence(place: str, odd: Any) -> None:
    message = PLACES[place](odd).model_copy(update={"id": "message-1"})
    before = json.dumps(message.model_dump(), default=str)
    sample = sample_of(iter([AIMessage("", tool_calls=[WISH]), message]))
    assert json.dumps(message.model_dump(), default=str) == before
    check_odd_payload(sample, ROOMS)


@pytest.mark.parametrize("name", ["gpt-4o-search-preview-2025-03-11", "sonar-pro"])
def test_an_answer_of_a_model_that_always_searches_is_a_sample(name: str) -> None:
    """The chain retrieves nothing: the model does, and its reply tells nothing of it."""
    reply = AIMessage(ANSWER, response_metadata={"model_name": name})
    model = GenericFakeChatModel(messages=iter([reply]))
    chain = ChatPromptTemplate.from_template("{question}") | model | StrOutputParser()
    with capture() as captured:
        chain.invoke({"question": QUESTION})
    assert not captured.problems
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert sample.contexts is None
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"
    assert f"the model {name} searches by itself" in sample.capture.warnings[0]


def test_a_model_that_always_searches_is_asked_without_a_chain() -> None:
    reply = AIMessage(ANSWER, response_metadata={"model_name": "sonar-pro"})
    with capture() as captured:
        GenericFakeChatModel(messages=iter([reply])).invoke(QUESTION)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)


@pytest.mark.parametrize(
    "request_fields",
    [
        {"tools": [{"url_context": {}}]},
        {"extra_body": {"data_sources": [{"type": "azure_search"}]}},
    ],
    ids=str,
)
def test_a_request_that_lets_the_provider_search_makes_an_incomplete_sample(
    request_fields: dict[str, Any],
) -> None:
    """Nothing is retrieved, and the reply tells nothing of what the provider found."""
    model = GenericFakeChatModel(messages=iter([AIMessage(ANSWER)]))
    chain = model.bind(**request_fields) | StrOutputParser()
    with capture() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"
    assert sample.citations is None


@pytest.mark.parametrize(
    ("model_name", "is_known"), [("sonar-pro", False), ("gpt-4o-2024-08-06", True)]
)
def test_a_number_may_be_that_of_a_source_which_a_searching_model_found(
    model_name: str, is_known: bool
) -> None:
    reply = AIMessage(f"{ANSWER} [1].", response_metadata={"model_name": model_name})
    model = GenericFakeChatModel(messages=iter([reply]))

    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [Document(FACT)]

    def prompt(found: list[Document]) -> str:
        return f"[1] {found[0].page_content}\n\nQuestion: {QUESTION}"

    with capture() as captured:
        (Shelf() | prompt | model).invoke(QUESTION)
    (sample,) = captured.samples
    if is_known:
        assert [citation.contexts for citation in sample.citations or ()] == [(0,)]
    else:
        assert sample.citations is None
        assert "another notation" in sample.citations_unknown


def test_an_answer_of_a_model_that_does_not_search_is_no_sample() -> None:
    reply = AIMessage(ANSWER, response_metadata={"model_name": "gpt-4o-2024-08-06"})
    model = GenericFakeChatModel(messages=iter([reply]))
    with capture() as captured:
        (ChatPromptTemplate.from_template("{question}") | model).invoke(
            {"question": QUESTION}
        )
    assert not captured.samples
    assert captured.problems
