"""Tells by a request what its model was shown that stands in no recorded text. Pure.

A request is any provider's: its parameters by their names, and the blocks of its
messages. A name or a type that is not known here says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern
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
_SEARCHED_BY_PROVIDER = "data_sources"  # of Azure OpenAI: it searches them each time
_STORED_PROMPT = "prompt"  # OpenAI's; elsewhere a parameter of this name is a text
# of OpenAI's client: parameters that it does not know
_FURTHER_PARAMETERS = "extra_body"
# Gemini's tool that reads pages, in its two spellings
_PAGE_READERS = ("url_context", "urlContext")
# what a block shows that is no text, by its type or, without a type, by its one field
_MEDIUM = lazy_pattern(
    r"(?P<media>(?:input_|base64_)?(?:image|audio|video)(?:_url)?)"
    r"|(?P<file>(?:input_)?file(?:_?data)?|document(?:_url)?|container_upload"
    r"|inline_?data|base64_data|media|blob|uri|binary)",
    re.IGNORECASE,
)
_KINDS_OF_DOCUMENTS = ("text_plain", "search_result")
# a field that tells the medium of a file, such as "image/png"
_FIELDS_OF_MEDIUM = ("modality", "mime_type", "mimeType", "media_type")
_READ_AS_TEXT = ("text", "content")  # types of sources of Anthropic's documents
_MEDIA_OF_LANGFUSE = lazy_pattern(r"@@@langfuseMedia:type=([^|@]*)\|")
_DEEPEST = 6

Fields = Mapping[Any, Any]

_KEPT_BY_PROVIDER = (
    "the request names what the model's provider keeps ({}), and nobody recorded what the"
    " model was shown of it; send these texts in the messages"
)
_FILES_SHOWN = (
    "the model was shown a file, such as a PDF, and nobody recorded its text; send the"
    " text in a message, or let a retriever read the file"
)
_PAGES_READ = (
    "the request lets Gemini read pages by its tool url_context, and nobody recorded"
    " their texts; let a tool of the application read them, which returns its texts"
)
_MEDIA_SHOWN = (
    "the model was shown an image, sound or video, and nobody recorded what stands or is"
    " said in it; send the words in a message"
)


@dataclass(frozen=True)
class UnreadRequest:
    """What a request showed to a model, but no recorded text holds.

    Attributes:
        evidence: Why evidence was not recorded, in words, with the remedy: files, and
            what the provider keeps.
        remarks: The same of images and sounds, which may be a part of the question.
        documents: The texts of documents in blocks of their own.
        lets_provider_search: Whether it lets the provider search or read pages before
            the model answers, as by Gemini's ``url_context``.
    """

    evidence: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    lets_provider_search: bool = False

    def add_to(self, call: Node) -> None:
        """Note on the call of a model what it was shown and nobody recorded."""
        call.evidence_not_recorded += self.evidence
        call.remarks += self.remarks
        call.texts_handed_in += self.documents
        if self.lets_provider_search:
            call.may_have_searched = True


def unread_request(parameters: object, contents: object) -> UnreadRequest:
    """Find what a request showed to its model although no recorded text holds it.

    Example: a block ``{"type": "input_file", …}`` shows a PDF, and the parameter
    ``previous_response_id`` lets the provider insert earlier turns. Both are evidence
    that was not recorded. An image or a sound may be a part of the question: it gives
    only a remark.

    Args:
        parameters: The parameters of the request by their names. Anything but a mapping
            holds none.
        contents: The contents of its messages: texts, or lists of blocks.
    """
    names_of_kept_texts = dict.fromkeys(_names_of_kept(parameters))
    shown = list(_media_in(contents))
    media = {medium for medium, _ in shown}
    documents = [text for medium, text in shown if medium == "document" and text]
    lets_read_pages = _lets_read_pages(parameters)
    evidence = [_KEPT_BY_PROVIDER.format(name) for name in names_of_kept_texts]
    evidence += [_FILES_SHOWN] if "file" in media else []
    evidence += [_PAGES_READ] if lets_read_pages else []
    remarks = [_MEDIA_SHOWN] if "media" in media else []
    lets_search = lets_read_pages or _SEARCHED_BY_PROVIDER in names_of_kept_texts
    return UnreadRequest(
        tuple(evidence), tuple(remarks), tuple(dict.fromkeys(documents)), lets_search
    )


def parameters_in_reply(fields: object) -> dict[str, object]:
    """Return the parameters that a reply of OpenAI repeats; empty for any other value.

    Example: ``{"object": "response", "previous_response_id": "resp_1", "prompt": None}``
    gives ``{"previous_response_id": "resp_1"}``.
    """
    if not isinstance(fields, Mapping) or fields.get("object") != "response":
        return {}
    names = (*_NAMES_OF_KEPT, _STORED_PROMPT)
    return {name: fields[name] for name in names if fields.get(name)}


def _names_of_kept(parameters: object) -> Iterator[str]:
    """Yield the names of parameters that name what a provider keeps.

    Example: "previous_response_id" of ``{"previous_response_id": "r1", "top_p": 1}``.
    """
    if not isinstance(parameters, Mapping):
        return
    for name in _NAMES_OF_KEPT:
        if parameters.get(name):
            yield name
    prompt = parameters.get(_STORED_PROMPT)
    if isinstance(prompt, Mapping) and prompt.get("id"):
        yield _STORED_PROMPT
    further = parameters.get(_FURTHER_PARAMETERS)
    if isinstance(further, Mapping) and _FURTHER_PARAMETERS not in further:
        yield from _names_of_kept(further)


def _lets_read_pages(parameters: object) -> bool:
    """Whether a request has Gemini's tool that reads pages.

    Example: ``{"tools": [{"url_context": {}, "google_search": None}]}``. LangChain's
    integration drops what the reply tells of the pages, so that the request alone tells
    of them. A tool that is None is not used.
    """
    if not isinstance(parameters, Mapping):
        return False
    tools = parameters.get("tools")
    for tool in tools if isinstance(tools, (list, tuple)) else ():
        names = _PAGE_READERS if isinstance(tool, Mapping) else ()
        if any(tool.get(name) is not None for name in names):
            return True
    return False


def _media_in(content: object, depth: int = _DEEPEST) -> Iterator[tuple[str, str]]:
    """Yield what the blocks of a message show: "document", "file", or "media": an image or sound.

    Beside it stands the text of a document, else "".

    Example: ``[{"type": "text", "text": "Hi"}, {"type": "input_file", …}]`` yields
    "file", and so does such a block inside a tool's result. Langfuse writes a mark in
    the place of a file: "@@@langfuseMedia:type=image/png|…" yields "media".

    Args:
        content: A text, a block, or a list of blocks.
        depth: How many lists and objects may stand inside each other.
    """
    if isinstance(content, str):
        for name in _MEDIA_OF_LANGFUSE.findall(content):
            yield _medium_of(name), ""
    elif isinstance(content, (list, tuple)) and depth:
        for element in content:
            yield from _media_in(element, depth - 1)
    elif isinstance(content, Mapping) and depth:
        medium = _medium_of_block(content)
        if medium is not None:
            is_document = medium == "document"
            yield medium, text_of_content([content]).strip() if is_document else ""
        else:
            for inner in content.values():
                yield from _media_in(inner, depth - 1)


def _medium_of_block(block: Fields) -> str | None:
    """Return what a block shows; None for a text, or what holds other blocks."""
    kind = block.get("type", block.get("block_type"))
    fields = block
    if not isinstance(kind, str):  # {"inline_data": {"mime_type": "image/png"}}
        kind = next((str(name) for name in block if _MEDIUM.fullmatch(str(name))), "")
        value = block.get(kind)
        if isinstance(value, Mapping):
            fields = value
        elif not kind.startswith("base64"):
            return None
    kind = kind.replace("-", "_")
    medium = _MEDIUM.fullmatch(kind)
    if kind in _KINDS_OF_DOCUMENTS or (medium is not None and _holds_text(fields)):
        return "document"
    if medium is None:
        return None
    for name in _FIELDS_OF_MEDIUM:
        if isinstance(fields.get(name), str):
            return _medium_of(fields[name])
    return medium.lastgroup


def _medium_of(name: str) -> str:
    """Return the medium of a MIME type or its first part: of "image/png" it is "media"."""
    first, _, _ = name.lower().partition("/")
    return "media" if first in ("image", "audio", "video") else "file"


def _holds_text(document: Fields) -> bool:
    """Whether a block is a document with its text, as Anthropic or Bedrock take it."""
    inner = document.get("document")
    source = (inner if isinstance(inner, Mapping) else document).get("source")
    if not isinstance(source, Mapping):
        return False
    if "type" in source:
        return source["type"] in _READ_AS_TEXT
    return isinstance(source.get("text"), str) or isinstance(
        source.get("content"), list
    )
