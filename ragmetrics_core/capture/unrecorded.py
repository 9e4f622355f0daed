"""Tells by a request what its model was shown that stands in no recorded text. Pure.

A request is any provider's: its parameters by their names, and the blocks of its
messages. A name or a type that is not known here says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ragmetrics_core.capture.tree import Message, Node
from ragmetrics_core.data.cells import read_context
from ragmetrics_core.data.errors import RowError
from ragmetrics_core.data.messages import text_of_content

# parameters that name what a provider keeps: earlier turns, or texts that it inserts
_NAMES_OF_KEPT = (
    "previous_response_id",
    "conversation",
    "conversation_id",
    "cached_content",
    "data_sources",
    "file_ids",
)
_DATA_SOURCES = "data_sources"  # of Azure OpenAI: it searches them each time
_DOCUMENTS = "documents"  # of Cohere and vLLM, which write them into the prompt
_STORED_PROMPT = "prompt"  # OpenAI's; elsewhere a parameter of this name is a text
# of OpenAI's client: parameters that it does not know
_FURTHER_PARAMETERS = "extra_body"
# Gemini's tool that reads pages, in its two spellings
_PAGE_READERS = ("url_context", "urlContext")
# an attachment, which shows no plain text: by its type or, without a type, by its field
_ATTACHMENT = re.compile(
    r"(?:input_|base64_)?(?:image|audio|video)(?:_url)?|(?:input_)?file(?:_?data)?"
    r"|document(?:_url)?|container_upload|inline_?data|base64_data|media|blob|uri|binary"
    r"|text_plain|search_result",
    re.IGNORECASE,
)
_MARK_OF_LANGFUSE = "@@@langfuseMedia:"  # in the place of a file
_DEEPEST = 6

Fields = Mapping[Any, Any]

_KEPT_BY_PROVIDER = (
    "the request names what the model's provider keeps or reads ({}), and nobody recorded"
    " what the model was shown of it; send these texts in the messages"
)
_NOT_A_TEXT = (
    "the model was shown something that is no text, such as an image or a PDF, and nobody"
    " recorded its words; send the words in a message, or let a retriever read the file"
)


@dataclass(frozen=True)
class UnrecordedEvidence:
    """What a request showed to a model, but no text of its messages holds.

    Attributes:
        reasons: Why evidence was not recorded, in words, with the remedy.
        documents: The texts of documents in blocks of their own.
        documents_beside: The texts of documents that stand beside the messages.
        lets_provider_search: Whether it lets the provider search or read pages before
            the model answers, as by Gemini's ``url_context``.
    """

    reasons: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    documents_beside: tuple[str, ...] = ()
    lets_provider_search: bool = False

    def add_to(self, call: Node) -> None:
        """Note on the call of a model what it was shown and nobody recorded."""
        call.evidence_not_recorded += self.reasons
        call.texts_handed_in += self.documents
        beside = [Message("system", text) for text in self.documents_beside]
        call.prompt = (*beside, *call.prompt)
        if self.lets_provider_search:
            call.may_have_searched = True


def unrecorded_evidence(parameters: object, contents: object) -> UnrecordedEvidence:
    """Find what a request showed to its model although no text of its messages holds it.

    Example: a block ``{"type": "input_file", …}`` shows a PDF, and the parameter
    ``previous_response_id`` lets the provider insert earlier turns. Both are evidence
    that was not recorded.

    Args:
        parameters: The parameters of the request by their names. Anything but a mapping
            holds none.
        contents: The contents of its messages: texts, or lists of blocks.
    """
    levels = _levels_of(parameters)
    names = tuple(dict.fromkeys(chain.from_iterable(map(_names_of_kept, levels))))
    beside: list[str] = []
    for level in levels:
        documents = level.get(_DOCUMENTS)
        for document in documents if isinstance(documents, (list, tuple)) else ():
            with suppress(RowError):
                beside.append(read_context(document, _DOCUMENTS, 1)["text"])
    texts = dict.fromkeys(_texts_of_attachments(contents))  # "" for one without a text
    reasons = [_KEPT_BY_PROVIDER.format(name) for name in names]
    reasons += [_NOT_A_TEXT] if "" in texts else []
    lets_search = not {_DATA_SOURCES, *_PAGE_READERS}.isdisjoint(names)
    return UnrecordedEvidence(
        tuple(reasons),
        tuple(filter(None, texts)),
        tuple(beside),
        lets_search,
    )


def _levels_of(parameters: object) -> list[Fields]:
    """Return the parameters, and those in them that a client hands on unread."""
    if not isinstance(parameters, Mapping):
        return []
    further = parameters.get(_FURTHER_PARAMETERS)
    if isinstance(further, Mapping) and _FURTHER_PARAMETERS not in further:
        return [parameters, further]
    return [parameters]


def _names_of_kept(parameters: Fields) -> Iterator[str]:
    """Yield the names of parameters that name what a provider keeps or reads.

    Example: "previous_response_id" of ``{"previous_response_id": "r1", "top_p": 1}``. A
    response of OpenAI's repeats them.
    """
    for name in _NAMES_OF_KEPT:
        if parameters.get(name):
            yield name
    prompt = parameters.get(_STORED_PROMPT)
    if isinstance(prompt, Mapping) and prompt.get("id"):
        yield _STORED_PROMPT
    tools = parameters.get("tools")
    for tool in tools if isinstance(tools, (list, tuple)) else ():
        names = _PAGE_READERS if isinstance(tool, Mapping) else ()
        yield from (name for name in names if tool.get(name) is not None)


def _texts_of_attachments(content: object, depth: int = _DEEPEST) -> Iterator[str]:
    """Yield the text of each attachment among some blocks; "" for one without a text.

    Example: ``[{"type": "text", "text": "Hi"}, {"type": "input_file", …}]`` yields "",
    and so does an attachment inside a tool's result.

    Args:
        content: A text, a block, or a list of blocks.
        depth: How many lists and objects may stand inside each other.
    """
    if isinstance(content, str):
        if _MARK_OF_LANGFUSE in content:
            yield ""
    elif isinstance(content, (list, tuple)) and depth:
        for element in content:
            yield from _texts_of_attachments(element, depth - 1)
    elif isinstance(content, Mapping) and depth:
        if _is_attachment(content):
            yield text_of_content([content]).strip()
        else:
            for inner in content.values():
                yield from _texts_of_attachments(inner, depth - 1)


def _is_attachment(block: Fields) -> bool:
    """Whether a block shows what is no plain text, such as an image or a document."""
    names = [block.get("type", block.get("block_type"))]
    if not isinstance(names[0], str):  # {"inline_data": {"mime_type": "image/png"}}
        names = [
            name
            for name, value in block.items()
            if isinstance(value, Mapping) or str(name).startswith("base64")
        ]
    return any(_ATTACHMENT.fullmatch(str(name).replace("-", "_")) for name in names)
