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

_ENDING_SIGNS = " .!?\"'`)]}>"  # that may stand behind an argument in a tool's text


def documents_behind(tool: Node) -> tuple[Document, ...] | None:
    """List the documents that a tool's result may show; None if nothing was searched.

    These are the tool's own documents, else those of retrievers inside it, each once.
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

    The tool and the search inside it then count as one call.
    """
    if tool.error:
        # a tool that failed presents nothing; with a model inside, it is a sub-agent
        return not any(node.kind == "model" for node in tool.walk())
    documents = documents_behind(tool)
    if documents is None:
        return False
    if repeated_reply(tool) is not None:
        return False  # a model inside the tool answered from the documents
    text = tool.text or ""
    if not documents or not text.strip():
        return True  # "Nothing was found.", or documents without any text beside them
    document_texts: list[str] = []
    for document in documents:
        document_texts += document.texts
    documents_in_text = locate(document_texts, text).shown_in_order
    return bool(documents_in_text)


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

    A query that was searched for inside the tool is left out: documents that were found
    may repeat it.
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
    """Whether a tool's text is a reply of a model inside the tool, in a frame.

    The reply is a line of the text, more than half of the text, or so long that it does
    not stand in the text by chance.
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
    findings = locate(long_replies, text).findings
    return any(finding.extent == "whole" for finding in findings)


def _is_argument_in_frame(tool: Node, nodes: Iterable[Node]) -> bool:
    """Whether a tool's text is few fixed words that end with an argument chosen by a model.

    An example is "Reflection recorded: I should search for the bridge." The fixed words
    may take up half of the text. A number at their beginning is allowed, as a count;
    with a number anywhere else they tell something.

    Args:
        tool: The tool.
        nodes: The calls of the run.
    """
    text = as_one_line(tool.text)
    # each argument in the text is replaced by this sign, which no text holds
    argument_sign = "\0"
    text_without_arguments = text.rstrip(_ENDING_SIGNS)
    for argument in _arguments_before(tool, nodes):
        if len(argument) >= DISTINCTIVE_LENGTH:
            text_without_arguments = text_without_arguments.replace(
                argument.rstrip(_ENDING_SIGNS), argument_sign
            )
    if not text_without_arguments.endswith(argument_sign):
        # 'Results for "bridge": It fell …' repeats a query, and then tells something
        return False
    frame = text_without_arguments.replace(argument_sign, "")
    # "3 notes recorded: …" begins with a count
    frame = frame.lstrip("0123456789 ")
    holds_number = any(map(str.isdigit, frame))
    return 2 * len(frame) <= len(text) and not holds_number


def _arguments_before(tool: Node, nodes: Iterable[Node]) -> list[str]:
    """List the arguments that models gave to tools before a tool began, each in one line."""
    arguments: list[str] = []
    for node in nodes:
        if node.began < tool.began:
            texts = Reply(node.reply).arguments
            arguments += [as_one_line(text) for text in texts]
    return arguments
