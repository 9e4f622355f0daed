"""The shapes in which frameworks and tables write documents, facts and earlier turns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ragmetrics_core.data.cells import first, number_as_text, plain_data, present, structured
from ragmetrics_core.data.errors import RowError
from ragmetrics_core.data.sample import Context, Fact, Turn

# LangChain (page_content, under kwargs if serialised), Haystack (content), LlamaIndex (node), Phoenix (document.).
_TEXT_KEYS = (
    *("text", "page_content", "content", "chunk", "passage", "passage_text", "context", "document", "node.text"),
    *("node.text_resource.text", "text_resource.text", "document.content", "kwargs.page_content"),
)
_ID_KEYS = (
    *("id", "id_", "node_id", "doc_id", "document_id", "chunk_id", "passage_id"),
    *("node.id_", "document.id", "kwargs.id"),
)
_SCORE_KEYS = ("score", "relevance_score", "similarity", "document.score")
_METADATA_KEYS = ("metadata", "meta", "node.metadata", "document.metadata", "kwargs.metadata")
_SPEAKERS = {"human": "user", "ai": "assistant"}


def items(value: Any) -> list[Any]:
    """Several things as a list; a single one as a list of one.

    A text stays a text if what it holds as JSON or Python is no list of texts or objects: ``[1]`` is a text.
    """
    data = structured(value)
    if isinstance(value, str) and not isinstance(data, str):
        kinds = data if isinstance(data, (list, tuple)) else [data]
        usable = [isinstance(item, str) or (isinstance(item, Mapping) and _has_text(item)) for item in kinds]
        data = data if any(usable) or data in ([], ()) else value
    if isinstance(data, Mapping):
        return _rows(data)
    return list(data) if isinstance(data, (list, tuple)) else [data]


def _has_text(item: Mapping[str, Any]) -> bool:
    text = first(item, _TEXT_KEYS)
    return isinstance(text, (str, list))


def _rows(data: Mapping[str, Any]) -> list[Any]:
    """One object, or where its text is a list, as Hugging Face writes lists of objects, one object per text."""
    columns = {name: plain_data(value) for name, value in data.items()}
    texts = first(columns, _TEXT_KEYS)
    if not isinstance(texts, list):
        return [data]
    lists = {name: value for name, value in columns.items() if isinstance(value, list) and len(value) == len(texts)}
    return [{name: value[index] for name, value in lists.items()} for index in range(len(texts))]


def context(item: Any, field: str, rank: int) -> Any:
    """A context from a text or from the usual shapes of documents, nodes and passages.

    Raises:
        RowError: If there is no text.
    """
    if isinstance(item, (str, Context)):
        return {"text": item} if isinstance(item, str) else item
    if not isinstance(item, Mapping):
        raise RowError(f"{field}: number {rank} must be a text or an object with a text, found {type(item).__name__}")
    text = first(item, _TEXT_KEYS)
    if not isinstance(text, str):
        keys = ", ".join(map(str, item)) or "nothing"
        raise RowError(f"{field}: number {rank} is an object without a text (one of {', '.join(_TEXT_KEYS)}): {keys}")
    name = first(item, _ID_KEYS)
    metadata = structured(first(item, _METADATA_KEYS)) or {}
    if not isinstance(metadata, Mapping):
        metadata = {"metadata": metadata}
    return {
        "text": text,
        "id": None if isinstance(name, (Mapping, list, tuple)) or not present(name) else str(number_as_text(name)),
        "score": _score(plain_data(first(item, _SCORE_KEYS))),
        "metadata": {str(key): value for key, value in metadata.items()},
    }


def _score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def fact(item: Any) -> Any:
    """A fact from a text, or from an object with ``text`` and perhaps ``weight`` and ``vital``."""
    if isinstance(item, Mapping):
        return {key: item[key] for key in ("text", "weight", "vital") if item.get(key) is not None}
    return item if isinstance(item, Fact) else {"text": item}


def turns(value: Any) -> list[Any]:
    """Earlier turns from messages, from pairs of question and answer, or from texts that take turns."""
    listed = items(value)
    pairs = [tuple(turn) for turn in listed if isinstance(turn, (list, tuple)) and len(turn) == 2]
    if pairs and len(pairs) == len(listed):
        listed = [text for pair in pairs for text in pair]
    return [_turn(number, turn) for number, turn in enumerate(listed)]


def _turn(number: int, turn: Any) -> Any:
    if isinstance(turn, Mapping):
        speaker = str(first(turn, ("role", "speaker", "type")) or "user")
        return {"role": _SPEAKERS.get(speaker, speaker), "content": first(turn, ("content", "text", "message"))}
    return turn if isinstance(turn, Turn) else {"role": ("user", "assistant")[number % 2], "content": turn}
