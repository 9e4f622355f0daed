"""What a model's provider searched while the model answered: payloads as the providers document them, and checks.

The framework's test makes an agent with one tool of its own, ``look_up``, which brings
``ROOMS``; the provider's own search brings ``FACT``.
"""

from collections.abc import Sequence
from typing import Any

from lighthouse_texts import ANSWER, FACT, QUESTION

from ragmetrics_core.data import Sample

ADDRESS = "https://lamp.example/history"

# Kind and name of a call of the ledger
OWN = ("retrieval", "look_up")
FILES = ("retrieval", "file_search")
WEB = ("retrieval", "web_search")


# OpenAI


def file_search(text: str | None) -> dict[str, Any]:
    """A search of files; None: the provider returned no texts with it."""
    result = {"file_id": "file-1", "filename": "a.txt", "score": 0.9, "text": text}
    return {
        "type": "file_search_call",
        "id": "fs_1",
        "status": "completed",
        "queries": ["lamp first lit"],
        "results": None if text is None else [{"attributes": {}, **result}],
    }


WEB_SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "lamp lighthouse"},
}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "code": "print(1882)",
    "outputs": [{"type": "logs", "logs": "1882"}],
}
ADDRESS_CITED = {
    "type": "url_citation",
    "url": ADDRESS,
    "title": "The lamp",
    "start_index": 0,
    "end_index": 9,
}


def response(*output: dict[str, Any]) -> dict[str, Any]:
    """A response that holds these items and then the answer."""
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-test",
        "output": [*output, message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


# Anthropic

ASKS_THE_WEB = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "lamp lighthouse"},
}
WEB_RESULT = {
    "type": "web_search_result",
    "url": ADDRESS,
    "title": "The lamp",
    "encrypted_content": "EqgfCioIARgB",
}
WEB_CITED = {
    "type": "web_search_result_location",
    "url": ADDRESS,
    "title": "The lamp",
    "encrypted_index": "Eo8B",
    "cited_text": FACT,
}


def tool_result(content: Any, tool: str = "web_search") -> dict[str, Any]:
    """What a tool of the provider returned."""
    return {
        "type": f"{tool}_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": content,
    }


# Gemini

CHUNK_OF_A_FILE = {"retrieved_context": {"title": "a.txt", "text": FACT}}


def calls_of(sample: Sample) -> list[tuple[str, str | None]]:
    """Kind and name of each call of the ledger."""
    return [(call.kind, call.name) for call in sample.ledger.calls]


def check(
    sample: Sample,
    *,
    contexts: Sequence[str],
    grade: str,
    warned: str,
    calls: Sequence[tuple[str, str]],
) -> None:
    """Assert what an answered run says of its evidence; ``warned`` are words of its warnings."""
    assert sample.capture is not None
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)
    assert [context.text for context in sample.known_contexts] == list(contexts)
    assert sample.capture.grade == grade
    assert warned in " ".join(sample.capture.warnings)
    assert calls_of(sample) == list(calls)
