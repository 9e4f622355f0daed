"""What the result of a tool is made of: documents that it found, or words that a model wrote. Pure.

A part of stage 3, for ``call_results``. A tool's text may show the documents of a search
inside the tool: text and search are then one call. Or a model wrote the text, alone or
in a **frame**: fixed words of the application around it. In "Response: It fell in
1874." the frame is "Response:".
"""

from __future__ import annotations

from collections.abc import Iterable

from ragmetrics_core.capture.calls import Reply, is_asked_later, text_of
from ragmetrics_core.capture.locating import DISTINCTIVE_LENGTH, locate
from ragmetrics_core.capture.plain_values import as_one_line, parse_json, texts_in
from ragmetrics_core.capture.tree import Document, DocumentKey, Node

_ENDING_SIGNS = " .!?\"'`)]}>"  # that may stand after an argument in a tool's text
_ARGUMENT_SIGN = "\0"  # stands for an argument; no text holds it


def documents_behind(tool: Node) -> tuple[Document, ...] | None:
    """List the documents that a tool's result may show; None if nothing was searched.

    These are the tool's own documents, else what retrievers inside it found, each once.
    Example: a tool returned a text, and two retrievers inside it found [A] and [A, B]:
    (A, B).
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
    """Whether a tool's result only presents the documents that were found inside it.

    Example: the tool's text is "1. It is old. 2. It fell.", and a retriever inside it
    found both. The tool and the search inside it then count as one call. So do a tool
    that failed and its search, unless a model ran inside the tool.
    """
    if tool.error:
        return not any(node.kind == "model" for node in tool.walk())
    documents = documents_behind(tool)
    if documents is None or repeated_reply(tool) is not None:
        return False
    text = tool.text or ""
    if not documents or not text.strip():
        return True  # "Nothing was found.", or documents without any text beside them
    return _shows_any(text, documents)


def _shows_any(text: str, documents: Iterable[Document]) -> bool:
    """Whether a text shows any of the documents."""
    document_texts: list[str] = []
    for document in documents:
        document_texts += document.texts
    return bool(locate(document_texts, text).shown_in_order)


def repeated_reply(tool: Node) -> str | None:
    """Find the reply of a model inside a tool that the tool returns word for word.

    The reply may be all of the tool's text, or a text of its JSON. None if the tool
    returns no such reply.
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
    """List what models and agents inside a tool wrote, in their order.

    A query that was searched for inside the tool is left out, since documents may
    repeat it. Example: a model wrote "ferry times", a search asked this, and a model
    wrote "It runs hourly.": ["It runs hourly."].
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
    """Whether a tool returns the reply of a model inside it, with fixed words around it.

    Example: the tool returns "Result: It fell in 1874.", and a model inside it wrote
    "It fell in 1874.".
    """
    text = tool.text or ""
    replies = _replies_inside(tool)
    if any(_is_line_or_most_of(reply, text) for reply in replies):
        return True
    # a long reply does not stand in a text by chance
    long_replies = [reply for reply in replies if len(reply) >= DISTINCTIVE_LENGTH]
    findings = locate(long_replies, text).findings
    return any(finding.extent == "whole" for finding in findings)


def _is_line_or_most_of(reply: str, text: str) -> bool:
    """Whether a reply is a line of a text, or more than half of the text."""
    reply = as_one_line(reply)
    if reply in {as_one_line(line) for line in text.splitlines()}:
        return True
    text_in_one_line = as_one_line(text)
    return reply in text_in_one_line and 2 * len(reply) > len(text_in_one_line)


def _is_argument_in_frame(tool: Node, nodes: Iterable[Node]) -> bool:
    """Whether a tool's text is a model's argument after a few fixed words.

    Examples are "Reflection recorded: I should search for the bridge." and "3 notes
    recorded: …". A number between the fixed words is information of the tool's own.
    """
    text = as_one_line(tool.text)
    text_with_signs = _with_signs_for_arguments(text, _arguments_before(tool, nodes))
    if not text_with_signs.endswith(_ARGUMENT_SIGN):
        # 'Results for "bridge": It fell …' repeats a query, and then tells something
        return False
    fixed_words = text_with_signs.replace(_ARGUMENT_SIGN, "").lstrip("0123456789 ")
    holds_number = any(map(str.isdigit, fixed_words))
    return 2 * len(fixed_words) <= len(text) and not holds_number


def _with_signs_for_arguments(text: str, arguments: Iterable[str]) -> str:
    """Put ``_ARGUMENT_SIGN`` in the place of each long argument in a text.

    Full stops and quotes at the end of the text are left out.
    """
    text = text.rstrip(_ENDING_SIGNS)
    for argument in arguments:
        if len(argument) >= DISTINCTIVE_LENGTH:
            text = text.replace(argument.rstrip(_ENDING_SIGNS), _ARGUMENT_SIGN)
    return text


def _arguments_before(tool: Node, nodes: Iterable[Node]) -> list[str]:
    """List the arguments that models gave to tools before a tool began, each in one line."""
    arguments: list[str] = []
    for node in nodes:
        if node.began < tool.began:
            texts = Reply(node.reply).arguments
            arguments += [as_one_line(text) for text in texts]
    return arguments
