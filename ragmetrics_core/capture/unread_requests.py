"""Tells by a request what its model was shown that stands in no recorded text. Pure.

A request is any provider's: its parameters by their names, and the blocks of its
messages. A name or a type that is not known here says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ragmetrics_core.capture.provider_payloads import DEEPEST, Fields, is_list
from ragmetrics_core.capture.tree import Node

# Parameters that name what a provider keeps: earlier turns, or texts that it inserts.
_NAMES_OF_KEPT = (
    "previous_response_id",
    "conversation",
    "conversation_id",
    "cached_content",
    "data_sources",
    "file_ids",
)
_STORED_PROMPT = "prompt"  # OpenAI's; elsewhere a parameter of this name is a text
_FURTHER_PARAMETERS = (
    "extra_body"  # of OpenAI's client: parameters that it does not know
)
# types of blocks
_FILES = frozenset(("file", "input_file", "document", "media", "container_upload"))
_IMAGES = frozenset(("image", "image_url", "input_image"))
_SOUNDS = frozenset(("audio", "input_audio", "video"))
_READ_AS_TEXT = ("text", "content")  # types of sources of Anthropic's documents

_KEPT_BY_PROVIDER = (
    "the request names what the model's provider keeps ({}), and nobody recorded what the"
    " model was shown of it; send these texts in the messages"
)
_FILES_SHOWN = (
    "the model was shown a file, such as a PDF, and nobody recorded its text; send the"
    " text in a message, or let a retriever read the file"
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
    """What a model was shown by a request, and no recorded text holds.

    Attributes:
        evidence: Why evidence was not recorded, in words, with the remedy: files, and
            what the provider keeps.
        remarks: The same of images and sounds, which may be a part of the question.
    """

    evidence: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def add_to(self, call: Node) -> None:
        """Note on the call of a model what it was shown and nobody recorded."""
        call.evidence_not_recorded += self.evidence
        call.remarks += self.remarks


def unread_request(parameters: object, contents: object) -> UnreadRequest:
    """Find out what a request showed to its model, and no recorded text holds.

    Example: a block ``{"type": "input_file", …}`` shows a PDF, and the parameter
    ``previous_response_id`` lets the provider insert earlier turns.

    Args:
        parameters: The parameters of the request by their names. Anything but a mapping
            holds none.
        contents: The contents of its messages: texts, or lists of blocks.
    """
    # parameters that name texts which the provider keeps, each once
    names = dict.fromkeys(_names_of_kept(parameters))
    kinds = set(_kinds_of_blocks(contents))
    evidence = [_KEPT_BY_PROVIDER.format(name) for name in names]
    if not kinds.isdisjoint(_FILES):
        evidence.append(_FILES_SHOWN)
    remarks = []
    if not kinds.isdisjoint(_IMAGES):
        remarks.append(_IMAGES_SHOWN)
    if not kinds.isdisjoint(_SOUNDS):
        remarks.append(_SOUNDS_SHOWN)
    return UnreadRequest(tuple(evidence), tuple(remarks))


def _names_of_kept(parameters: object) -> Iterator[str]:
    """Yield the names of parameters that name what a provider keeps."""
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


def _kinds_of_blocks(content: object, depth: int = DEEPEST) -> Iterator[str]:
    """Yield the types of blocks, but for documents whose text stands in the request.

    Results of tools hold further blocks.
    """
    if is_list(content) and depth:
        for block in content:
            yield from _kinds_of_blocks(block, depth - 1)
    if not isinstance(content, Mapping):
        return
    kind = content.get("type")
    if kind == "tool_result":
        yield from _kinds_of_blocks(content.get("content"), depth)
    elif isinstance(kind, str) and not _holds_text(content):
        yield kind


def _holds_text(block: Fields) -> bool:
    """Whether a block is a document with its text, as Anthropic takes it."""
    source = block.get("source")
    return isinstance(source, Mapping) and source.get("type") in _READ_AS_TEXT
