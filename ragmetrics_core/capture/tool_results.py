"""What the result of a tool is made of: documents that it found, or words that a model wrote. Pure.

A part of stage 3, for ``arrivals``. A tool's text may show the documents of a search
inside the tool: text and search are then one call. Or a model wrote the text, alone or
in a **frame**: words of the application around it, such as "Response:".
"""

from __future__ import annotations

from collections.abc import Iterable

from ragmetrics_core.capture.calls import Reply, is_asked_later, text_of
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH, locate
from ragmetrics_core.capture.plain_values import as_one_line, parse_json, texts_in
from ragmetrics_core.capture.tree import Document, DocumentKey, Node

_MARKS = " .!?\"'`)]}>"


def documents_behind(tool: Node) -> tuple[Document, ...] | None:
    """The documents behind a tool's result; None if nothing was searched.

    They are its own, else those of retrievers inside it, each once.
    """
    if tool.documents is not None:
        return tool.documents
    has_searched = False
    documents: dict[DocumentKey, Document] = {}
    for node in tool.walk():
        if node.kind != "retriever" or node.documents is None:
            continue
        has_searched = True
        for document in node.documents:
            documents[document.key] = document
    return tuple(documents.values()) if has_searched else None


def is_made_of_documents(tool: Node) -> bool:
    """Whether a tool's result is made of the documents behind it: both are one call.

    A tool that failed counts if no model ran inside it. Otherwise its text shows some
    of the documents; or there is no text, or the search found nothing.
    """
    if tool.error:
        return not any(node.kind == "model" for node in tool.walk())
    documents = documents_behind(tool)
    if documents is None or repeated_reply(tool) is not None:
        return False
    text = tool.text or ""
    if not documents or not text.strip():
        return True
    document_texts: list[str] = []
    for document in documents:
        document_texts += document.texts
    places_shown = locate(document_texts, text).shown_in_order
    return bool(places_shown)


def repeated_reply(tool: Node) -> str | None:
    """What a model inside a tool wrote and the tool hands on word for word.

    It may be all of the tool's text, or a text of its JSON. None if the tool hands on
    nothing such.
    """
    text = tool.text or ""
    texts = [text, *texts_in(parse_json(text))]
    lines = {as_one_line(part) for part in texts}
    for reply in reversed(_replies_inside(tool)):
        if as_one_line(reply) in lines:
            return reply
    return None


def is_written_by_model(tool: Node, nodes: Iterable[Node]) -> bool:
    """Whether a tool's text is what a model wrote, perhaps in a frame.

    The model ran inside the tool, or had chosen the tool's arguments.

    Args:
        tool: The tool.
        nodes: The calls of the run.
    """
    if repeated_reply(tool) is not None or _is_reply_in_frame(tool):
        return True
    return _is_argument_in_frame(tool, nodes)


def _replies_inside(tool: Node) -> list[str]:
    """What models and agents inside a tool wrote, in their order.

    A query that a search inside it was asked is left out: what was found may quote it.
    """
    _, *inner_calls = tool.walk()
    replies = []
    for node in inner_calls:
        reply = text_of(node)
        if not reply and node.kind == "agent":
            reply = node.text or ""
        if reply.strip() and not is_asked_later(node, inner_calls):
            replies.append(reply)
    return replies


def _is_reply_in_frame(tool: Node) -> bool:
    """Whether a reply of a model inside a tool makes up the tool's text.

    It is a line of the text, most of the text, or a long passage of it.
    """
    text = tool.text or ""
    text_in_one_line = as_one_line(text)
    lines = {as_one_line(line) for line in text.splitlines()}
    replies = _replies_inside(tool)
    for reply in replies:
        line = as_one_line(reply)
        is_most_of_text = 2 * len(line) > len(text_in_one_line)
        if line in lines or (is_most_of_text and line in text_in_one_line):
            return True
    long_replies = [reply for reply in replies if len(reply) >= DISTINCTIVE_LENGTH]
    if not long_replies:
        return False
    places = locate(long_replies, text).findings
    return any(place.extent == "whole" for place in places)


def _is_argument_in_frame(tool: Node, nodes: Iterable[Node]) -> bool:
    """Whether a tool's text ends with an argument that a model had chosen.

    A frame that is longer than half of the text, or holds a number, tells something by
    itself. An argument that does not end the text is a query that the tool repeats.

    Args:
        tool: The tool.
        nodes: The calls of the run.
    """
    text = as_one_line(tool.text)
    # each argument that stands in the text becomes one mark
    frame = text.rstrip(_MARKS)
    for argument in _arguments_before(tool, nodes):
        if len(argument) >= DISTINCTIVE_LENGTH:
            frame = frame.replace(argument.rstrip(_MARKS), "\0")
    if not frame.endswith("\0"):
        return False
    frame_words = frame.replace("\0", "").lstrip("0123456789 ")
    holds_number = any(map(str.isdigit, frame_words))
    return 2 * len(frame_words) <= len(text) and not holds_number


def _arguments_before(tool: Node, nodes: Iterable[Node]) -> list[str]:
    """Texts that models had given to tools before a tool began, each in one line."""
    arguments: list[str] = []
    for node in nodes:
        if node.began < tool.began:
            texts = Reply(node.reply).arguments
            arguments += [as_one_line(text) for text in texts]
    return arguments
