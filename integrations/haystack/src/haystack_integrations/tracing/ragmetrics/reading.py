"""Reading copied values: the texts, documents, messages and answers in them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from haystack_integrations.tracing.ragmetrics.nodes import Doc, Message, Reply, strings


@lru_cache(maxsize=512)
def normal(text: str) -> str:
    """A text with each run of whitespace as one space."""
    return " ".join(text.split())


def documents(value: object) -> Iterator[Doc]:
    """All documents in a copied value, in order; those that an answer carries are not among them."""
    if isinstance(value, Doc):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from documents(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from documents(item)


def messages(value: object) -> Iterator[Message]:
    """All messages in a copied value, in order."""
    if isinstance(value, Message):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from messages(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from messages(item)


def answers(value: object) -> Iterator[Reply]:
    """All answers in a copied value, in order."""
    if isinstance(value, Reply):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from answers(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from answers(item)


def texts(value: object) -> tuple[str, ...]:
    """All texts in a copied value that say something: plain ones, those of messages, tool results and answers."""
    said = [message.text or "" for message in messages(value)]
    shown = [result.text for message in messages(value) for result in message.results]
    answered = [answer.text or "" for answer in answers(value)]
    return tuple(text for text in (*strings(value), *said, *shown, *answered) if text.strip())
