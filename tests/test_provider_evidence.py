"""What a model's provider found, read from replies as plain dictionaries: documented shapes, and odd ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of
from ragmetrics_core.capture.providers import (
    ProviderEvidence,
    add_provider_evidence,
    evidence_in_reply,
)
from ragmetrics_core.data import Sample

QUESTION = "Who lit the lamp of the lighthouse first?"
FACT = "Anna Berg lit the lamp of the lighthouse for the first time in May 1882."
SIZE = "The lighthouse has eleven rooms; the keeper slept in the one below the lamp."
OIL = "A barrel of oil was carried up the stairs of the lighthouse every week."
ANSWER = "Anna Berg lit it in May 1882."
SWITCH = 'include=["file_search_call.results"]'
ADDRESS = "https://lamp.example/history"


@dataclass(frozen=True)
class Shape:
    """A reply of a provider, and what is expected of it.

    Attributes:
        places: The mappings of the reply.
        texts: The texts of the documents that are found, where it is exact.
        calls: Name and query of each search, where it is exact.
        says: Words of the remedy; empty where none is needed.
        grade: The grade of a sample of it.
    """

    places: Sequence[Mapping[str, Any]]
    texts: Sequence[str] = ()
    calls: Sequence[tuple[str, str | None]] = ()
    says: str = ""
    grade: str = "exact"


def said(text: str = ANSWER, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **fields}


def file_search(results: Any, **fields: Any) -> dict[str, Any]:
    return {
        "type": "file_search_call",
        "id": "fs_1",
        "status": "completed",
        "queries": ["lamp first lit"],
        "results": results,
        **fields,
    }


def found_file(text: str | None, name: str = "a.txt") -> dict[str, Any]:
    return {
        "attributes": {},
        "file_id": f"file-{name}",
        "filename": name,
        "score": 0.9,
        "text": text,
    }


def web_search(**fields: Any) -> dict[str, Any]:
    action = {"type": "search", "query": "lamp lighthouse"}
    call = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    return {**call, "action": action, **fields}


def url_citation(address: str = ADDRESS) -> dict[str, Any]:
    place = {"start_index": 0, "end_index": 9}
    return {"type": "url_citation", "url": address, "title": "The lamp", **place}


def anthropic_search(content: Any) -> list[dict[str, Any]]:
    return [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "lamp lighthouse"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": content,
        },
    ]


def web_result(address: str = ADDRESS) -> dict[str, Any]:
    return {
        "type": "web_search_result",
        "url": address,
        "title": "The lamp",
        "encrypted_content": "EqgfCioIARgB",
        "page_age": "2 May 2025",
    }


def web_location(quote: str = FACT) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "url": ADDRESS,
        "title": "The lamp",
        "encrypted_index": "Eo8BCioIAhgB",
        "cited_text": quote,
    }


def grounding(*chunks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "grounding_metadata": {
            "grounding_chunks": list(chunks),
            "web_search_queries": ["lamp"],
            **fields,
        }
    }


# as ChatBedrockConverse of LangChain hands it on
ASKS_NOVA = {
    "type": "server_tool_use",
    "id": "tooluse_1",
    "name": "nova_grounding",
    "input": {},
}
WEB_CHUNK = {"web": {"uri": ADDRESS, "title": "lamp.example"}}
FETCHED = {
    "type": "web_fetch_tool_result",
    "tool_use_id": "srvtoolu_2",
    "content": {
        "type": "web_fetch_result",
        "url": ADDRESS,
        "retrieved_at": "2025-08-25T10:30:00Z",
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": FACT},
            "title": "The lamp",
            "citations": {"enabled": True},
        },
    },
}
A_FILE = ("file_search", "lamp first lit")
A_WEB = ("web_search", "lamp lighthouse")
V1_CALL = {"type": "server_tool_call", "id": "fs_1", "name": "file_search"}
V1_RESULT = {"type": "server_tool_result", "tool_call_id": "fs_1", "status": "success"}

SHAPES: dict[str, Shape] = {
    "OpenAI: files with their texts": Shape(
        [{"content": [file_search([found_file(FACT)]), said()]}], [FACT], [A_FILE]
    ),
    "OpenAI: several chunks of one file": Shape(
        [{"content": [file_search([found_file(OIL), found_file(FACT)]), said()]}],
        [OIL, FACT],
        [A_FILE],
    ),
    "OpenAI: files without texts": Shape(
        [{"content": [file_search(None), said()]}],
        calls=[A_FILE],
        says=SWITCH,
        grade="incomplete",
    ),
    "OpenAI: of two files one has a text": Shape(
        [{"output": [file_search([found_file(FACT), found_file(None, "b.txt")])]}],
        [FACT],
        [A_FILE],
        says=SWITCH,
        grade="incomplete",
    ),
    "OpenAI: files are cited, no search is told": Shape(
        [
            {
                "annotations": [
                    {
                        "type": "file_citation",
                        "file_id": "file-1",
                        "filename": "a.txt",
                        "index": 29,
                    }
                ]
            }
        ],
        calls=[("file_search", None)],
        says=SWITCH,
        grade="incomplete",
    ),
    "OpenAI: nothing was found": Shape(
        [{"content": [file_search([]), said()]}], calls=[A_FILE]
    ),
    "OpenAI: the search failed": Shape(
        [{"content": [file_search(None, status="failed"), said()]}], calls=[A_FILE]
    ),
    "OpenAI: what LangChain kept beside the content": Shape(
        [
            {"content": [said()]},
            {"tool_outputs": [file_search([found_file(FACT)])]},
        ],
        [FACT],
        [A_FILE],
    ),
    "OpenAI: the same search told twice": Shape(
        [
            {"output": [file_search([found_file(FACT)])]},
            {"built_in_tool_calls": [file_search([found_file(FACT)])]},
        ],
        [FACT],
        [A_FILE],
    ),
    "OpenAI: the end of a streamed search": Shape(
        [
            {
                "built_in_tool_calls": [
                    {
                        "type": "response.file_search_call.completed",
                        "item_id": "fs_1",
                        "output_index": 0,
                    }
                ]
            }
        ],
        calls=[("file_search", None)],
        says=SWITCH,
        grade="incomplete",
    ),
    "OpenAI: the web with its addresses": Shape(
        [{"content": [web_search(), said(annotations=[url_citation()])]}],
        calls=[A_WEB],
        says="web_search_call.results",
        grade="incomplete",
    ),
    "OpenAI: the web without any address": Shape(
        [{"content": [web_search(), said()]}],
        calls=[A_WEB],
        says="web_search_call.results",
        grade="incomplete",
    ),
    "OpenAI: addresses are cited, no search is told": Shape(
        [
            {
                "annotations": [
                    {"type": "url_citation", "url_citation": url_citation()},
                    {"type": "url_citation", "url_citation": url_citation()},
                ]
            }
        ],
        calls=[("web_search", None)],
        says="texts",
        grade="incomplete",
    ),
    "OpenAI: a listed address is cited with its mark": Shape(
        [
            {
                "content": [
                    web_search(
                        action={
                            "type": "search",
                            "query": "lamp lighthouse",
                            "sources": [{"type": "url", "url": ADDRESS}],
                        }
                    ),
                    said(annotations=[url_citation(f"{ADDRESS}?utm_source=openai")]),
                ]
            }
        ],
        calls=[A_WEB],
        says="web_search_call.results",
        grade="incomplete",
    ),
    "OpenRouter: pages are cited with their texts": Shape(
        [
            {
                "choices": [
                    {
                        "message": {
                            "annotations": [
                                {
                                    "type": "url_citation",
                                    "url_citation": {**url_citation(), "content": FACT},
                                },
                                {
                                    "type": "url_citation",
                                    "url_citation": {**url_citation(), "content": FACT},
                                },
                            ]
                        }
                    }
                ]
            }
        ],
        [FACT],
        [("web_search", None)],
        grade="incomplete",
    ),
    "OpenAI: a page that was opened": Shape(
        [{"content": [web_search(action={"type": "open_page", "url": ADDRESS})]}],
        calls=[("web_search", ADDRESS)],
        says="web_search_call.results",
        grade="incomplete",
    ),
    "OpenAI: a calculation": Shape(
        [
            {
                "content": [
                    {
                        "type": "code_interpreter_call",
                        "id": "ci_1",
                        "code": "print(1882 + 1)",
                        "outputs": [{"type": "logs", "logs": "1883"}],
                    },
                    said(),
                ]
            }
        ],
        calls=[("code_interpreter", "print(1882 + 1)")],
        grade="incomplete",
    ),
    "OpenAI: a calculation without its output": Shape(
        [{"content": [{"type": "code_interpreter_call", "id": "ci_1"}, said()]}],
        calls=[("code_interpreter", None)],
        grade="incomplete",
    ),
    "OpenAI: a tool of a remote server": Shape(
        [
            {
                "content": [
                    {
                        "type": "mcp_call",
                        "id": "mcp_1",
                        "name": "look_up",
                        "server_label": "archive",
                        "arguments": '{"query": "lamp"}',
                        "output": FACT,
                    },
                    said(),
                ]
            }
        ],
        calls=[("look_up", '{"query": "lamp"}')],
        grade="incomplete",
    ),
    "OpenAI: its response without the output": Shape(
        [{"object": "response", "tools": [{"type": "file_search"}]}],
        says="file_search",
        grade="inferred",
    ),
    "OpenAI: tools are listed and searched for": Shape(
        [
            {
                "content": [
                    {"type": "mcp_list_tools", "tools": [{"name": "look_up"}]},
                    {"type": "tool_search_call", "id": "t"},
                    said(),
                ]
            }
        ]
    ),
    "Anthropic: the web, with cited words": Shape(
        [
            {
                "content": [
                    *anthropic_search([web_result(), web_result("https://b.example")]),
                    said(citations=[web_location()]),
                ]
            }
        ],
        [FACT],
        [A_WEB],
        says="web_fetch",
        grade="incomplete",
    ),
    "Anthropic: the web, nothing cited": Shape(
        [{"content": [*anthropic_search([web_result()]), said()]}],
        calls=[A_WEB],
        says="encrypted",
        grade="incomplete",
    ),
    "Anthropic: no search was left": Shape(
        [
            {
                "content": [
                    *anthropic_search(
                        {
                            "type": "web_search_tool_result_error",
                            "error_code": "max_uses_exceeded",
                        }
                    ),
                    said(),
                ]
            }
        ],
        calls=[A_WEB],
    ),
    "Anthropic: a page that was fetched": Shape(
        [{"content": [FETCHED, said()]}], [FACT], [("web_fetch", None)]
    ),
    "Anthropic: a fetched PDF": Shape(
        [
            {
                "content": [
                    {
                        "type": "web_fetch_tool_result",
                        "tool_use_id": "srvtoolu_2",
                        "content": {
                            "type": "web_fetch_result",
                            "url": ADDRESS,
                            "content": {
                                "type": "document",
                                "source": {"type": "base64", "data": "JVBERi0xLjQK"},
                            },
                        },
                    },
                    said(),
                ]
            }
        ],
        calls=[("web_fetch", None)],
        grade="incomplete",
    ),
    "Anthropic: a fetched PDF is cited": Shape(
        [
            {
                "content": [
                    {
                        "type": "server_tool_use",
                        "id": "srvtoolu_2",
                        "name": "web_fetch",
                        "input": {"url": ADDRESS},
                    },
                    {
                        "type": "web_fetch_tool_result",
                        "tool_use_id": "srvtoolu_2",
                        "content": {
                            "type": "web_fetch_result",
                            "url": ADDRESS,
                            "content": {
                                "type": "document",
                                "source": {"type": "base64", "data": "JVBERi0xLjQK"},
                            },
                        },
                    },
                    said(
                        citations=[
                            {
                                "type": "page_location",
                                "cited_text": FACT,
                                "document_index": 0,
                                "document_title": None,
                            }
                        ]
                    ),
                ]
            }
        ],
        [FACT],
        [("web_fetch", ADDRESS)],
        grade="incomplete",
    ),
    "Anthropic: a page whose fetching is all that is told": Shape(
        [
            {
                "content": [
                    {
                        "type": "server_tool_use",
                        "id": "srvtoolu_2",
                        "name": "web_fetch",
                        "input": {"url": ADDRESS},
                    },
                    said(),
                ]
            }
        ],
        calls=[("web_fetch", ADDRESS)],
        grade="incomplete",
    ),
    "Anthropic: a page is cited that no search of the reply found": Shape(
        [{"content": [said(citations=[web_location()])]}],
        [FACT],
        [("cited sources", None)],
        grade="incomplete",
    ),
    "Bedrock: a document of the request is cited": Shape(
        [
            {
                "content": [
                    said(
                        citations=[
                            {
                                "title": "Lamps",
                                "source_content": [{"text": FACT}],
                                "location": {"document_page": {"document_index": 0}},
                            }
                        ]
                    )
                ]
            }
        ],
        calls=[("file_search", None)],
        says="texts",
        grade="incomplete",
    ),
    "Anthropic: code that was run": Shape(
        [
            {
                "content": [
                    {
                        "type": "server_tool_use",
                        "id": "srvtoolu_3",
                        "name": "code_execution",
                        "input": {"code": "print(1)"},
                    },
                    {
                        "type": "code_execution_tool_result",
                        "tool_use_id": "srvtoolu_3",
                        "content": {
                            "type": "code_execution_result",
                            "stdout": "1\n",
                            "stderr": "",
                            "return_code": 0,
                        },
                    },
                    said(),
                ]
            }
        ],
        calls=[("code_execution", '{"code": "print(1)"}')],
        grade="incomplete",
    ),
    "Anthropic: code that searched, with an encrypted output": Shape(
        [
            {
                "content": [
                    {
                        "type": "server_tool_use",
                        "id": "srvtoolu_4",
                        "name": "code_execution",
                        "input": {"code": "print(1)"},
                    },
                    {
                        "type": "code_execution_tool_result",
                        "tool_use_id": "srvtoolu_4",
                        "content": {
                            "type": "encrypted_code_execution_result",
                            "encrypted_stdout": "Eo8B",
                            "stderr": "",
                            "return_code": 0,
                            "content": [],
                        },
                    },
                    said(),
                ]
            }
        ],
        calls=[("code_execution", '{"code": "print(1)"}')],
        grade="incomplete",
    ),
    "LangChain: Anthropic's request, as a stream leaves it": Shape(
        [
            {
                "content": [
                    {
                        **anthropic_search(None)[0],
                        "input": {},
                        "partial_json": '{"query": "lamp lighthouse"}',
                    },
                    {**anthropic_search([web_result()])[1]},
                    said(),
                ]
            }
        ],
        calls=[A_WEB],
        says="encrypted",
        grade="incomplete",
    ),
    "Anthropic: a search for tools": Shape(
        [
            {
                "content": [
                    {
                        "type": "server_tool_use",
                        "id": "srvtoolu_4",
                        "name": "tool_search_tool_regex",
                        "input": {"query": "weather"},
                    },
                    {
                        "type": "tool_search_tool_result",
                        "tool_use_id": "srvtoolu_4",
                        "content": {"type": "tool_search_tool_search_result"},
                    },
                    said(),
                ]
            }
        ]
    ),
    "Anthropic: a document that the prompt holds is cited": Shape(
        [
            {
                "content": [
                    said(
                        citations=[
                            {
                                "type": "char_location",
                                "cited_text": QUESTION,
                                "document_index": 0,
                                "document_title": "Questions",
                                "start_char_index": 0,
                                "end_char_index": 40,
                            }
                        ]
                    )
                ]
            }
        ]
    ),
    "Anthropic: a PDF is cited": Shape(
        [
            {
                "content": [
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
                ]
            }
        ],
        [FACT],
        [("cited sources", None)],
        grade="incomplete",
    ),
    "Anthropic: a result in a form that it does not document": Shape(
        [{"content": [*anthropic_search(FACT), said()]}],
        calls=[A_WEB],
        says="web_fetch",
        grade="incomplete",
    ),
    "LangChain v1: a search for tools": Shape(
        [
            {
                "content": [
                    {**V1_CALL, "name": "tool_search_tool_bm25", "args": {}},
                    {**V1_RESULT, "output": {"tool_references": [{"name": "a"}]}},
                    said(),
                ]
            }
        ]
    ),
    "Haystack: Anthropic's blocks, and the citations once more": Shape(
        [
            {
                "raw_content_for_server_tools": [
                    *anthropic_search([web_result()]),
                    said(citations=[web_location()]),
                ],
                "citations": [web_location()],
            },
            {"content": ANSWER},
        ],
        [FACT],
        [A_WEB],
        says="encrypted",
        grade="incomplete",
    ),
    "LangChain v1: files with their texts": Shape(
        [
            {
                "content": [
                    {**V1_CALL, "args": {"queries": ["lamp first lit"]}},
                    {**V1_RESULT, "output": [found_file(FACT)]},
                    said(),
                ]
            }
        ],
        [FACT],
        [A_FILE],
    ),
    "LangChain v1: files without texts": Shape(
        [
            {
                "content": [
                    {**V1_CALL, "args": {"queries": ["lamp first lit"]}},
                    V1_RESULT,
                    said(),
                ]
            }
        ],
        calls=[A_FILE],
        says=SWITCH,
        grade="incomplete",
    ),
    "LangChain v1: the web with its addresses": Shape(
        [
            {
                "content": [
                    {
                        **V1_CALL,
                        "name": "web_search",
                        "args": {"type": "search", "query": "lamp lighthouse"},
                    },
                    {**V1_RESULT, "output": {"sources": [{"url": ADDRESS}]}},
                    said(annotations=[{"type": "citation", "url": ADDRESS}]),
                ]
            }
        ],
        calls=[A_WEB],
        says="texts",
        grade="incomplete",
    ),
    "LangChain v1: a block of a provider as it is": Shape(
        [{"content": [{"type": "non_standard", "value": FETCHED}, said()]}],
        [FACT],
        [("web_fetch", None)],
    ),
    "LangChain v1: the part of the answer stands for Gemini's cited text": Shape(
        [
            {
                "content": [
                    said(
                        annotations=[
                            {
                                "type": "citation",
                                "url": ADDRESS,
                                "start_index": 0,
                                "end_index": 9,
                                "cited_text": ANSWER,
                            }
                        ]
                    )
                ]
            }
        ],
        calls=[("web_search", None)],
        says="texts",
        grade="incomplete",
    ),
    "Gemini: the web": Shape(
        [{"content": ANSWER}, grounding(WEB_CHUNK)],
        calls=[("google_search", "lamp")],
        says="Gemini",
        grade="incomplete",
    ),
    "Gemini: files with their texts": Shape(
        [
            grounding(
                {"retrieved_context": {"title": "a.txt", "uri": None, "text": FACT}}
            )
        ],
        [FACT],
        [("file_search", "lamp")],
    ),
    "Gemini: files with their texts, as JSON names them": Shape(
        [
            {
                "groundingMetadata": {
                    "groundingChunks": [
                        {"retrievedContext": {"title": "a.txt", "text": FACT}}
                    ],
                    "retrievalQueries": ["lamp"],
                }
            }
        ],
        [FACT],
        [("file_search", "lamp")],
    ),
    "Gemini: pages that it was told to read": Shape(
        [
            {
                "grounding_metadata": None,
                "url_context_metadata": {
                    "url_metadata": [
                        {
                            "retrieved_url": ADDRESS,
                            "url_retrieval_status": "URL_RETRIEVAL_STATUS_SUCCESS",
                        },
                        {
                            "retrieved_url": "https://gone.example",
                            "url_retrieval_status": "URL_RETRIEVAL_STATUS_ERROR",
                        },
                    ]
                },
            }
        ],
        calls=[("url_context", None)],
        grade="incomplete",
    ),
    "Gemini: a calculation, as LangChain has it": Shape(
        [
            {
                "content": [
                    {"type": "executable_code", "executable_code": "1882 + 1"},
                    {
                        "type": "code_execution_result",
                        "code_execution_result": "1883\n",
                        "outcome": 1,
                        "tool_call_id": "",
                    },
                    said(),
                ]
            }
        ],
        calls=[("code_execution", "1882 + 1")],
        grade="incomplete",
    ),
    "Gemini: calculations, as its client has them": Shape(
        [
            {
                "content": {
                    "parts": [
                        {"executable_code": {"code": "1882 + 1"}},
                        {"codeExecutionResult": {"output": "1883"}},
                        {"executable_code": {"code": "1 + 1"}, "text": None},
                        {"code_execution_result": {"output": "2"}},
                        {"text": ANSWER},
                    ]
                }
            }
        ],
        calls=[("code_execution", "1882 + 1"), ("code_execution", "1 + 1")],
        grade="incomplete",
    ),
    "Anthropic: a search that is only counted, at the end of a stream": Shape(
        [
            {
                "usage": {
                    "output_tokens": 5,
                    "server_tool_use": {"web_search_requests": 1},
                }
            }
        ],
        calls=[("web_search", None)],
        says="encrypted",
        grade="incomplete",
    ),
    "Anthropic: no search is counted": Shape(
        [{"usage": {"server_tool_use": {"web_search_requests": 0}}}]
    ),
    "Anthropic: a search that is read and counted": Shape(
        [
            {
                "content": [*anthropic_search([]), said()],
                "usage": {"server_tool_use": {"web_search_requests": 1}},
            }
        ],
        calls=[A_WEB],
    ),
    "Gemini: it did not search": Shape(
        [
            {
                "grounding_metadata": {
                    "grounding_chunks": [],
                    "grounding_supports": [],
                    "web_search_queries": [],
                }
            }
        ]
    ),
    "Perplexity: addresses and results": Shape(
        [
            {
                "citations": [ADDRESS, "https://b.example"],
                "search_results": [{"title": "The lamp", "url": ADDRESS}],
            }
        ],
        calls=[("web_search", None)],
        says="texts",
        grade="incomplete",
    ),
    "Groq: a form that is not read": Shape(
        [
            {
                "executed_tools": [
                    {
                        "type": "search",
                        "arguments": '{"query": "lamp"}',
                        "search_results": {
                            "results": [{"title": "t", "url": ADDRESS, "content": FACT}]
                        },
                    }
                ]
            }
        ],
        calls=[("provider's search", None)],
        says="in a form that is not read",
        grade="incomplete",
    ),
    "Amazon Nova: the web": Shape(
        [
            {
                "content": [
                    ASKS_NOVA,
                    said(),
                    said("", citations=[{"location": {"web": {"url": ADDRESS}}}]),
                ]
            }
        ],
        calls=[("nova_grounding", "{}"), ("provider's search", None)],
        says="in a form that is not read",
        grade="incomplete",
    ),
    "Amazon Nova: the web, nothing cited": Shape(
        [{"content": [ASKS_NOVA, said()]}],
        calls=[("nova_grounding", "{}")],
        grade="incomplete",
    ),
    "Mistral: references": Shape(
        [
            {
                "content": [
                    said(),
                    {"type": "tool_reference", "tool": "web_search", "url": ADDRESS},
                ]
            }
        ],
        calls=[("provider's search", None)],
        says="in a form that is not read",
        grade="incomplete",
    ),
    "another provider's search": Shape(
        [{"content": [{"type": "x_search_call", "id": "x", "query": "lamp"}, said()]}],
        calls=[("x_search", "lamp")],
        says="texts",
        grade="incomplete",
    ),
    "a file that the model made is cited": Shape(
        [
            {
                "content": [
                    said(
                        annotations=[
                            {"type": "container_file_citation", "file_id": "f"}
                        ]
                    )
                ]
            }
        ]
    ),
    "no search at all": Shape([{"content": [said()]}, {"annotations": []}]),
}


def call_of_model() -> Node:
    return Node(
        "model",
        "model",
        2,
        3,
        prompt=(Message("user", QUESTION),),
        reply=Message("assistant", ANSWER),
    )


def sample_of(evidence: ProviderEvidence) -> Sample:
    """A sample of an agent whose own tool brought noise and whose model's provider the rest."""
    first = Node(
        "retriever", "own", 1, 1.5, query=QUESTION, documents=(Document(SIZE),)
    )
    model = call_of_model()
    model.prompt = (*model.prompt, Message("tool", SIZE))
    add_provider_evidence(model, evidence)
    root = Node("step", "run", 0, 4, [first, model])
    (sample,) = samples_of(
        Tree(
            root, question=QUESTION, output={"answer": ANSWER}, is_always_a_sample=True
        )
    )
    return sample


@pytest.mark.parametrize("name", SHAPES)
def test_a_documented_shape_is_read_or_hedged(name: str) -> None:
    shape = SHAPES[name]
    model = call_of_model()
    evidence = evidence_in_reply(*shape.places)
    add_provider_evidence(model, evidence)
    found = [document for node in model.children for document in node.documents or ()]
    sample = sample_of(evidence)
    assert sample.capture is not None
    assert sample.capture.grade == shape.grade
    assert shape.says in " ".join(sample.capture.warnings)
    assert {one.text for one in found} <= {FACT, OIL}
    if shape.grade == "exact":
        assert [one.text for one in found] == list(shape.texts)
        calls = [(node.name, node.query) for node in model.children]
        assert calls == list(shape.calls)
        expected = list(dict.fromkeys([SIZE, *shape.texts]))
        for contexts in (sample.known_contexts, sample.retrieved or ()):
            assert sorted(each.text for each in contexts) == sorted(expected)


def test_the_places_of_sources_are_told_in_characters_of_the_reply() -> None:
    text = "Ströme. " + ANSWER
    start = len("Ströme. ".encode())
    support = {
        "segment": {"start_index": start, "end_index": len(text.encode())},
        "grounding_chunk_indices": [0, 7],
    }
    gemini = evidence_in_reply(
        {"content": text}, grounding(WEB_CHUNK, grounding_supports=[support])
    )
    cited, dangling = gemini.citations
    assert text[cited.start : cited.end] == ANSWER
    assert cited.names == (ADDRESS, "lamp.example")
    assert (dangling.start, dangling.end) == (cited.start, cited.end)
    assert dangling.names == ("grounding chunk 7",)
    blocks = [said("Well. "), said(annotations=[url_citation()])]
    (cited,) = evidence_in_reply({"content": blocks}).citations
    assert (cited.start, cited.end) == (6, 15)


def test_a_search_that_found_nothing_is_a_call_without_items() -> None:
    sample = sample_of(evidence_in_reply({"content": [file_search([]), said()]}))
    assert sample.ledger is not None
    calls = [(call.name, len(call.items)) for call in sample.ledger.calls]
    assert calls == [(None, 1), ("file_search", 0)]


def test_what_was_found_is_put_below_a_call_once() -> None:
    model = call_of_model()
    evidence = evidence_in_reply({"content": [file_search([found_file(FACT)])]})
    add_provider_evidence(model, evidence)
    add_provider_evidence(model, evidence)
    assert len(model.children) == 1
    assert [message.role for message in model.prompt] == ["user", "tool"]


def test_a_second_copy_of_a_reply_names_the_provider_s_sources_too() -> None:
    model = call_of_model()
    citation = {"type": "file_citation", "filename": "a.txt", "index": 3}
    evidence = evidence_in_reply(
        {"content": [file_search([found_file(FACT)])], "annotations": [citation]}
    )
    for _ in range(2):  # LlamaIndex hands on a reply in an event and as a result
        model.reply = Message("assistant", ANSWER)
        add_provider_evidence(model, evidence)
        sources = model.reply.cited_sources or ()
        assert ["a.txt" in source.names for source in sources] == [True]
    assert len(model.children) == 1


@pytest.mark.parametrize(
    "source",
    [{}, {"title": "Another title"}, {"url": "https://b.example/other"}],
)
def test_a_page_that_one_reply_found_and_the_next_one_cites_was_not_recorded(
    source: dict[str, str],
) -> None:
    first, second = call_of_model(), call_of_model()
    first.began, first.ended = 1, 1.5
    first.reply = Message("assistant", "I look at the years.")
    searched = [*anthropic_search([web_result()]), said("I look at the years.")]
    cited = said(citations=[{**web_location(), **source}])
    add_provider_evidence(first, evidence_in_reply({"content": searched}))
    add_provider_evidence(second, evidence_in_reply({"content": [cited]}))
    own = Node("retriever", "own", 1.6, 1.7, documents=(Document(SIZE),))
    root = Node("step", "run", 0, 4, [first, own, second])
    (sample,) = samples_of(
        Tree(
            root, question=QUESTION, output={"answer": ANSWER}, is_always_a_sample=True
        )
    )
    assert sample.capture is not None
    assert "not_recorded" in sample.capture.doubts
    assert "PDF" not in sample.capture.doubts["not_recorded"]


def test_what_an_earlier_call_found_may_have_been_shown_again() -> None:
    evidence = evidence_in_reply({"content": [file_search([found_file(FACT)])]})
    first, second = call_of_model(), call_of_model()
    first.began, first.ended = 1, 1.5
    first.reply = Message("assistant", "I look it up.")
    add_provider_evidence(first, evidence)
    own = Node("retriever", "own", 1.6, 1.7, documents=(Document(SIZE),))
    second.prompt = (Message("user", QUESTION), Message("tool", SIZE))
    root = Node("step", "run", 0, 4, [first, own, second])
    (sample,) = samples_of(
        Tree(
            root, question=QUESTION, output={"answer": ANSWER}, is_always_a_sample=True
        )
    )
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert "file_search" in " ".join(sample.capture.warnings)


# Laws

WORDS = st.sampled_from([ANSWER, FACT, ADDRESS, "", "lamp", "\ud800", "search"])
KEYS = st.sampled_from(
    [
        *("type", "id", "content", "output", "text", "results", "name", "input"),
        *("annotations", "citations", "cited_text", "url", "title", "source"),
        *("tool_use_id", "tool_call_id", "status", "action", "sources", "queries"),
        *("grounding_metadata", "grounding_chunks", "retrieved_context", "web"),
        *("grounding_supports", "segment", "start_index", "grounding_chunk_indices"),
        *("tool_outputs", "built_in_tool_calls", "search_results", "value", "score"),
        *("extras", "args", "query", "error", "outputs", "choices", "message", "tools"),
    ]
)
TYPES = st.sampled_from(
    [
        *("file_search_call", "web_search_call", "server_tool_use", "text", "citation"),
        *("server_tool_call", "server_tool_result", "web_search_tool_result"),
        *("web_fetch_tool_result", "mcp_call", "code_interpreter_call", "message"),
        *("non_standard", "url_citation", "file_citation", "failed", "document"),
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    WORDS,
    TYPES,
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(KEYS, st.text(max_size=3)), inner, max_size=6),
        st.dictionaries(KEYS, inner, max_size=4).flatmap(
            lambda fields: TYPES.map(lambda kind: {**fields, "type": kind})
        ),
    ),
    max_leaves=25,
)


def texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_of(inner)


@given(st.lists(JSON, max_size=3))
def test_no_payload_raises_and_no_text_is_made_up(places: list[Any]) -> None:
    evidence = evidence_in_reply(*places)
    texts = list(texts_of(places))
    for call in evidence.calls:
        for one in call.documents or ():
            parts = one.text.split("\n")
            assert all(any(part in text for text in texts) for part in parts)
    sample = sample_of(evidence)
    assert sample.contexts[0].text == SIZE


@given(
    st.lists(st.dictionaries(st.one_of(KEYS, st.text(max_size=3)), JSON), max_size=3)
)
def test_a_search_without_its_texts_is_never_exact(places: list[Any]) -> None:
    evidence = evidence_in_reply({"content": [file_search(None)]}, *places)
    sample = sample_of(evidence)
    assert sample.capture is not None
    assert sample.capture.grade == "incomplete"


def test_deep_payloads_end() -> None:
    deep: Any = "text"
    for _ in range(5000):
        deep = {"content": [deep], "value": deep, "type": "non_standard"}
    assert evidence_in_reply({"content": [deep], "citations": [deep]}) is not None


def test_a_model_that_always_searches_leaves_a_doubt_where_nothing_is_told() -> None:
    named = call_of_model()
    named.model = "gpt-4o-search-preview-2025-03-11"
    add_provider_evidence(named, evidence_in_reply({"content": ANSWER}))
    assert "gpt-4o-search-preview" in " ".join(named.remarks)
    other = call_of_model()
    other.model = "gpt-4o"
    add_provider_evidence(other, evidence_in_reply({"content": ANSWER}))
    assert not other.remarks


@pytest.mark.parametrize(("results", "documents"), [([], ()), (None, None)])
def test_an_empty_list_was_found_and_a_missing_one_is_unknown(
    results: list[object] | None, documents: tuple[object, ...] | None
) -> None:
    search = {"type": "file_search_call", "id": "1", "results": results}
    (call,) = evidence_in_reply({"content": [search]}).calls
    assert call.documents == documents


@pytest.mark.parametrize(
    ("reply", "is_known"),
    [
        ({"content": [said("She lit it [1].")]}, False),
        # the model tells that it searched, and that it found nothing
        ({"content": [file_search([]), said("She lit it [1].")]}, True),
    ],
    ids=["no word of a search", "it found nothing"],
)
def test_a_number_may_mean_what_a_model_found_unless_its_reply_tells_all(
    reply: dict[str, Any], is_known: bool
) -> None:
    """Perplexity's sonar numbers what it finds, and the prompt has a number 1, too."""
    search = Node("retriever", "own", 1, 1.5, query=QUESTION)
    search.documents = (Document(FACT),)
    model = Node("model", "model", 2, 3, model="sonar-pro")
    model.prompt = (Message("user", f"[1] {FACT}\n\nQuestion: {QUESTION}"),)
    model.reply = Message("assistant", "She lit it [1].")
    add_provider_evidence(model, evidence_in_reply(reply))
    root = Node("step", "run", 0, 4, [search, model])
    (sample,) = samples_of(
        Tree(root, question=QUESTION, output={"answer": "She lit it [1]."})
    )
    if is_known:
        assert [citation.contexts for citation in sample.citations or ()] == [(0,)]
    else:
        assert sample.citations is None
        assert "in another notation" in (sample.citations_unknown or "")
