"""Which documents a chat's memory summed up for the answering call. Pure.

A memory may have a model sum up earlier messages, results of tools among them, and put
the summary in their place. Nobody knows what the summary keeps of each document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ragmetrics_core.capture.calls import Calls
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import DocumentKey, Node


def keys_summed_up(readers: Iterable[Node], calls: Calls) -> set[DocumentKey]:
    """Return the keys of documents that a memory summed up for some calls of models.

    Example: a memory gave a model the text of A, and put its reply, "Summary: it fell.",
    into the prompt of the answering call: {the key of A}.

    Args:
        readers: The answering call, and the calls whose replies it was shown.
        calls: The calls of the turn.
    """
    summaries = [
        as_one_line(message.text)
        for reader in readers
        for message in reader.prompt
        if message.role == "summary"
    ]
    if not summaries:
        return set()
    keys: set[DocumentKey] = set()
    for memory_call in _calls_of_memories(calls.tree.root):
        reply = as_one_line(memory_call.reply.text) if memory_call.reply else ""
        if reply and any(reply in summary for summary in summaries):
            keys |= _keys_in_prompt(memory_call, calls)
    return keys


def _calls_of_memories(node: Node) -> Iterator[Node]:
    """Yield the calls of models, below a call, that shortened a conversation.

    They answer nothing: an adapter marks them as ignored, so that ``Calls`` has none.
    """
    for child in node.children:
        if child.kind == "ignored" and child.reply is not None:
            yield child
        else:
            yield from _calls_of_memories(child)


def _keys_in_prompt(memory_call: Node, calls: Calls) -> set[DocumentKey]:
    """Return the keys of the documents that the prompt of a memory's call shows."""
    found_before = calls.lists(memory_call.began)
    document_by_key = {document.key: document for document in chain(*found_before)}
    documents = list(document_by_key.values())
    messages = [message.text for message in memory_call.prompt]
    findings = locate([document.text for document in documents], messages).findings
    return {
        document.key
        for document, finding in zip(documents, findings, strict=True)
        if finding.outcome == "shown"
    }
