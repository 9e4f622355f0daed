"""Questions, answers and texts in what LlamaIndex's calls were given and returned. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ragmetrics_core.capture import Message, answer_text
from ragmetrics_core.traces.values import mapping

_QUERY_KEYS = (
    "message",
    "user_msg",
    "query",
    "query_str",
    "query_bundle",
    "str_or_query_bundle",
)
_RESPONSE_KEYS = ("result", "response", "response_txt")
_THOUGHT = "Thought: "  # begins what a model writes for a ReAct agent


def has_any(value: Any, *keys: str) -> bool:
    """Whether a value is a mapping with one of the keys."""
    return any(key in mapping(value) for key in keys)


def query_in(inputs: Any) -> str | None:
    """The question in what an engine, retriever or synthesizer was given."""
    while isinstance(inputs, Mapping):
        inputs = _first_entry(inputs, _QUERY_KEYS)
    return inputs if isinstance(inputs, str) else None


def answer_of(output: Any) -> str | None:
    """The answer in what an engine, synthesizer or workflow returned.

    None if it is not there, or not yet.
    """
    while has_any(output, "response_gen", *_RESPONSE_KEYS):
        output = _first_entry(output, _RESPONSE_KEYS)
    text = answer_text(output)
    if text is None or not text.startswith(_THOUGHT):
        return text
    _, _, answer = text.partition("\nAnswer: ")
    return answer or text


def _first_entry(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first of some entries that is there."""
    for name in names:
        if value.get(name) is not None:
            return value[name]
    return None


def last_text_of_user(messages: Sequence[Message]) -> str | None:
    """The text of the user's last message; None if there is none."""
    for message in reversed(messages):
        if message.role == "user":
            return message.text
    return None


def is_reasoning(message: Message) -> bool:
    """Whether a message is what a ReAct agent wrote: its thoughts, and an answer."""
    return message.role == "assistant" and message.text.startswith(_THOUGHT)
