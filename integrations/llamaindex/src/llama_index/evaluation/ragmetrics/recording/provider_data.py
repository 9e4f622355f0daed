"""What the provider of a model found, as a LlamaIndex response tells it."""

from collections.abc import Mapping
from typing import Any

from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
)
from pydantic import BaseModel

from ragmetrics_core.capture import ProviderEvidence, evidence_in_reply

_DEPTH = 10  # levels of containers: as deep as evidence lies


def provider_evidence_of(response: object) -> ProviderEvidence:
    """Read what a model's provider searched and found while the model answered.

    Example: OpenAI searched the web and cites two pages: they are the evidence. It is
    empty for an object that is no response.

    Args:
        response: The response; of a stream only the last chunk.
    """
    match response:
        case CompletionResponse():
            text = response.text
            data = [
                *_data_of_raw(response.raw),
                plain_data(response.additional_kwargs),
            ]
        case ChatResponse():
            text = response.message.content or ""
            data = [
                *_data_of_raw(response.raw),
                *_data_of_message(response.message),
                plain_data(response.additional_kwargs),
            ]
        case AgentOutput():
            text = response.response.content or ""
            data = [
                *_data_of_raw(response.raw),
                *_data_of_message(response.response),
            ]
        case _:
            return ProviderEvidence()
    return evidence_in_reply({"content": text}, *data)


def _data_of_raw(raw: object) -> list[Any]:
    """The provider's response as plain data: integrations put it in one of two places."""
    data = plain_data(raw)
    fields = data if isinstance(data, dict) else {}
    return [fields.get("response"), fields]


def _data_of_message(message: ChatMessage) -> list[Any]:
    """What a model's message holds beside its text, as plain data."""
    return [plain_data(message.additional_kwargs), _citations_of(message)]


def _citations_of(message: ChatMessage) -> dict[str, Any]:
    """The blocks of a reply that quote a source, in the form in which providers cite."""
    citations = [
        {
            "cited_text": getattr(block.cited_content, "text", None),
            "source": block.source,
            "title": block.title,
            "extras": plain_data(block.additional_location_info),
        }
        for block in message.blocks
        if block.block_type == "citation"  # older releases have no class for it
    ]
    return {"citations": citations}


def plain_data(value: object, depth: int = _DEPTH) -> Any:
    """Turn a provider's objects into plain data: dicts, lists, texts and numbers.

    Example: an object with the field ``output``, a list of objects, becomes
    {"output": [{…}, {…}]}.

    Args:
        value: An object of the provider's client, or data.
        depth: How many containers inside of each other are read: as deep as evidence
            lies. Anything deeper, and what is no data, becomes None.
    """
    if isinstance(value, BaseModel):
        value = dict(value)
    if isinstance(value, Mapping) and depth > 0:
        return {str(key): plain_data(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)) and depth > 0:
        return [plain_data(element, depth - 1) for element in value]
    return value if isinstance(value, (str, int, float)) else None
