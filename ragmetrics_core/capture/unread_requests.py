"""Tells by a request what its model was shown that stands in no recorded text. Pure.

A request is any provider's: its parameters by their names, and the blocks of its
messages. A name or a type that is not known here says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ragmetrics_core.capture.provider_payloads import (
    DEEPEST,
    Fields,
    inner_object,
    is_list,
)
from ragmetrics_core.capture.tree import Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# Parameters that name what a provider keeps: earlier turns, or texts that it inserts.
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
# Gemini's tool that reads pages. Its clients spell it so as the name of a field.
_PAGE_READERS = ("url_context", "urlContext")
# Kinds of blocks, by the types that providers and frameworks give them. Some have no
# type, and name their kind as a field: {"image": {…}}.
_FILES = frozenset(
    ("file", "input_file", "document", "document_url", "media", "container_upload")
)
_IMAGES = frozenset(("image", "image_url", "input_image"))
_SOUNDS = frozenset(("audio", "input_audio", "audio_url", "video", "video_url"))
# Blocks of any medium: a MIME type beside them tells which, as "image/png" does.
_OF_ANY_MEDIUM = frozenset(
    ("file", "blob", "uri", "binary", "inline_data", "file_data")
)
_FIELDS_OF_MEDIUM = (
    "modality",
    "mime_type",
    "mimeType",
    "media_type",
)
# What tells an untyped block: Amazon Bedrock, Gemini, Haystack.
_KIND_BY_FIELD = {
    **{name: name for name in ("image", "document", "file", "audio", "video")},
    "inline_data": "inline_data",
    "inlineData": "inline_data",
    "file_data": "file_data",
    "fileData": "file_data",
    "base64_image": "image",
    "base64_data": "binary",
}
_FIELDS_OF_BASE64 = ("base64_image", "base64_data")  # Haystack's own objects
# Blocks that hold further blocks, and the field in which these stand.
_FIELD_OF_INNER_BLOCKS = {
    "tool_result": "content",
    "tool_call_response": "response",
    "citable": "content",
}
_FIELDS_OF_UNTYPED_RESULTS = ("toolResult", "tool_call_result")
# OpenInference wraps each block: {"message_content": {"type": …}}
_WRAPPER = "message_content"
_READ_AS_TEXT = ("text", "content")  # types of sources of Anthropic's documents
_MEDIA_OF_LANGFUSE = lazy_pattern(r"@@@langfuseMedia:type=([^|@]*)\|")

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
_IMAGES_SHOWN = (
    "the model was shown an image, and nobody recorded what stands in it; send the text"
    " of a page in a message"
)
_SOUNDS_SHOWN = (
    "the model was shown sound or video, and nobody recorded what is said in it; send the"
    " words in a message"
)


@dataclass(frozen=True)
class UnreadRequest:
    """What a request showed to a model, but no recorded text holds.

    Attributes:
        evidence: Why evidence was not recorded, in words, with the remedy: files, and
            what the provider keeps.
        remarks: The same of images and sounds, which may be a part of the question.
        lets_provider_search: Whether it lets the provider search or read pages before
            the model answers, as by Gemini's ``url_context``.
        lets_provider_cite: Whether it lets the provider cite documents that it hands in.
    """

    evidence: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    lets_provider_search: bool = False
    lets_provider_cite: bool = False

    def add_to(self, call: Node) -> None:
        """Note on the call of a model what it was shown and nobody recorded."""
        call.evidence_not_recorded += self.evidence
        call.remarks += self.remarks
        if self.lets_provider_search:
            call.may_have_searched = True
        if self.lets_provider_cite:
            call.lets_provider_cite = True


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
    # parameters such as "previous_response_id", each once
    names_of_kept_texts = dict.fromkeys(_names_of_kept(parameters))
    kinds_of_blocks = set(_kinds_of_blocks(contents))
    lets_read_pages = _lets_read_pages(parameters)
    evidence = [_KEPT_BY_PROVIDER.format(name) for name in names_of_kept_texts]
    if not kinds_of_blocks.isdisjoint(_FILES):
        evidence.append(_FILES_SHOWN)
    if lets_read_pages:
        evidence.append(_PAGES_READ)
    # Azure OpenAI searches what the parameter "data_sources" names, each time
    lets_search = _SEARCHED_BY_PROVIDER in names_of_kept_texts
    return UnreadRequest(
        tuple(evidence),
        remarks=tuple(_remarks_on_media(kinds_of_blocks)),
        lets_provider_search=lets_search or lets_read_pages,
        # {"type": "search_result", "citations": {"enabled": true}, …} of Anthropic
        lets_provider_cite=_lets_cite(contents),
    )


def _remarks_on_media(kinds_of_blocks: set[str]) -> Iterator[str]:
    """Yield what to say of images and sounds among the blocks of a request."""
    if not kinds_of_blocks.isdisjoint(_IMAGES):
        yield _IMAGES_SHOWN
    if not kinds_of_blocks.isdisjoint(_SOUNDS):
        yield _SOUNDS_SHOWN


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
    if not is_list(tools):
        return False
    mappings = [tool for tool in tools if isinstance(tool, Mapping)]
    return any(
        tool.get(name) is not None for tool in mappings for name in _PAGE_READERS
    )


def _lets_cite(content: object, depth: int = DEEPEST) -> bool:
    """Whether a block of a message may be cited, by the word of the request.

    Anthropic and Bedrock write ``{"type": "search_result", "citations": {"enabled":
    true}, …}``. ``depth`` is how many lists may stand inside each other.
    """
    if is_list(content) and depth:
        return any(_lets_cite(block, depth - 1) for block in content)
    if not isinstance(content, Mapping):
        return False
    inner_blocks = _inner_blocks(content)
    if inner_blocks is not None and depth:
        return _lets_cite(inner_blocks, depth - 1)
    document = inner_object(content, "document") or content
    return inner_object(document, "citations").get("enabled") is True


def _kinds_of_blocks(content: object, depth: int = DEEPEST) -> Iterator[str]:
    """Yield the kind of each block of a message.

    Example: ``[{"type": "text", "text": "Hi"}, {"type": "input_file", …}]`` yields
    "text" and "input_file". A tool's result yields the kinds of the blocks inside it. A
    bare text yields nothing, but for the marks that Langfuse writes in place of files:
    "@@@langfuseMedia:type=image/png|…" yields "image".

    Args:
        content: A text, a block, or a list of blocks.
        depth: How many lists may stand inside each other.
    """
    if isinstance(content, str):
        for medium in _MEDIA_OF_LANGFUSE.findall(content):
            yield _kind_by_medium(medium)
    elif is_list(content) and depth:
        for block in content:
            yield from _kinds_of_blocks(block, depth - 1)
    elif isinstance(content, Mapping):
        inner_blocks = _inner_blocks(content)
        if inner_blocks is not None:
            yield from _kinds_of_blocks(inner_blocks, depth)
        elif not _holds_text(content):  # the text of a document is recorded
            yield _kind_of(content)


def _inner_blocks(block: Fields) -> object:
    """Return what stands inside a block that holds others, such as a tool's result.

    None for any other block.
    """
    if _WRAPPER in block:
        return block[_WRAPPER]
    for name in _FIELDS_OF_UNTYPED_RESULTS:
        result = block.get(name)
        if isinstance(result, Mapping):
            return result.get("content", result.get("result"))
    field_name = _FIELD_OF_INNER_BLOCKS.get(_type_of(block))
    return None if field_name is None else block.get(field_name)


def _type_of(block: Fields) -> str:
    """Return the type that a block names, with underscores; "" if it names none.

    LlamaIndex calls it ``block_type``. Pydantic AI writes "image-url".
    """
    name = block.get("type", block.get("block_type"))
    return name.replace("-", "_") if isinstance(name, str) else ""


def _kind_of(block: Fields) -> str:
    """Return the kind of a block, such as "text" or "image"; "" if nothing tells it.

    Example: ``{"type": "blob", "mime_type": "image/png"}`` is an "image". A block of
    the type "blob" or "file" may hold any medium, and its MIME type tells which.
    Without a MIME type it is a "file".
    """
    typed_block = _with_type(block)
    kind = _type_of(typed_block)
    if kind not in _OF_ANY_MEDIUM:
        return kind
    for name in _FIELDS_OF_MEDIUM:
        medium = typed_block.get(name)
        if isinstance(medium, str):
            return _kind_by_medium(medium)
    return "file"


def _with_type(block: Fields) -> Fields:
    """Return a block with a field "type", which some providers leave out.

    Gemini writes ``{"inline_data": {"mime_type": "image/png"}}``: this becomes
    ``{"type": "inline_data", "mime_type": "image/png"}``. Haystack's ``{"base64_image":
    "iVBO…"}`` gets the type "image". Any other block stays as it is.
    """
    if _type_of(block):
        return block
    for name, kind in _KIND_BY_FIELD.items():
        value = block.get(name)
        if isinstance(value, Mapping):
            return {**value, "type": kind}
        if isinstance(value, str) and name in _FIELDS_OF_BASE64:
            return {**block, "type": kind}
    return block


def _kind_by_medium(medium: str) -> str:
    """Return the kind of a block whose medium is known: "image", "audio" or "file".

    Example: "image/png" and "image" are media of an image, "application/pdf" is the
    medium of a file.
    """
    name, _, _ = medium.lower().partition("/")
    if name == "image":
        return "image"
    return "audio" if name in ("audio", "video") else "file"


def _holds_text(block: Fields) -> bool:
    """Whether a block is a document with its text, as Anthropic or Bedrock take it.

    Bedrock's ``{"document": {"source": {"text": "It fell."}}}`` is one; with "bytes" in
    place of "text" it is a file.
    """
    document = inner_object(block, "document") or block
    source = inner_object(document, "source")
    if "type" in source:
        return source["type"] in _READ_AS_TEXT
    return isinstance(source.get("text"), str) or is_list(source.get("content"))
