"""What the chunks of a streamed reply tell of the provider's searches. Pure.

A framework may hand on a streamed reply as its last chunk alone, while searches and
sources stand in earlier ones. Here the chunks are put together to what
``provider_replies`` reads from a reply that was not streamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from ragmetrics_core.capture.provider_payloads import (
    GROUNDING_KEYS,
    PAGE_KEYS,
    Fields,
    arguments_in,
    field_of,
    is_list,
    is_place,
)

# What later chunks tell once more, and more fully: the last one counts.
_KEYS_REPEATED_MORE_FULLY = (
    *GROUNDING_KEYS,
    *PAGE_KEYS,
    *("citations", "search_results"),  # of Perplexity and xAI
)
_PARTS_OF_CODE = ("executable_code", "code_execution_result")
# Anthropic's tools that ask for one thing: by the argument, the tool that asks so.
_TOOL_BY_ARGUMENT = {"query": "web_search", "url": "web_fetch"}


@dataclass(slots=True)
class _Block:
    """A block of Anthropic's content, put together from its events.

    Attributes:
        start: The block as the stream announced it; empty if the framework drops that.
        texts: The pieces of its text.
        citations: The sources that are named for it.
        arguments: The pieces of the JSON by which the model asks a tool.
    """

    start: Fields = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    citations: list[Any] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class StreamedReply:
    """The chunks of one streamed reply, in the form of any provider.

    They are events of Anthropic, chunks of OpenAI's chat completions, or responses of
    Gemini. A chunk of any other form tells nothing.

    Attributes:
        _blocks: Anthropic's blocks of content, by their indexes.
        _annotations: The sources that OpenAI names.
        _tools_of_groq: The tools that Groq ran, by their indexes.
        _parts_of_code: What Gemini tells of code that it ran.
        _latest_by_key: For each key of ``_KEYS_REPEATED_MORE_FULLY`` its last value.
        _counts_of_tools: How often Anthropic ran its tools: {"web_search_requests": 2}.
    """

    _blocks: dict[int, _Block] = field(default_factory=dict)
    _annotations: list[Any] = field(default_factory=list)
    _tools_of_groq: dict[Any, dict[Any, Any]] = field(default_factory=dict)
    _parts_of_code: list[Any] = field(default_factory=list)
    _latest_by_key: dict[str, Any] = field(default_factory=dict)
    _counts_of_tools: Fields = field(default_factory=dict)

    def add(self, chunk: object) -> None:
        """Read the next chunk, as a mapping or an object of a provider's client.

        Each provider has its own fields, so that a chunk is read in all of these ways.
        """
        fields = _fields_of(chunk)
        self._add_chunk_of_anthropic(fields)
        self._add_delta_of_openai(fields)
        self._add_code_of_gemini(fields)
        for key in _KEYS_REPEATED_MORE_FULLY:
            if fields.get(key):
                self._latest_by_key[key] = fields[key]

    def _add_chunk_of_anthropic(self, fields: Fields) -> None:
        """Read an event of a block, or the counts of the tools that were run."""
        if fields.get("type") in ("content_block_start", "content_block_delta"):
            self._add_event(fields)
        elif "usage" in fields:
            counts = _fields_of(_fields_of(fields["usage"]).get("server_tool_use"))
            self._counts_of_tools = counts or self._counts_of_tools

    def _add_delta_of_openai(self, fields: Fields) -> None:
        """Read ``{"choices": [{"delta": {"annotations": […]}}]}``, and tools of Groq.

        Groq names a tool when it asks it, and again with what the tool returned.
        """
        for choice in _elements(fields.get("choices")):
            delta = _fields_of(_fields_of(choice).get("delta"))
            self._annotations += _elements(delta.get("annotations"))
            for tool in map(_fields_of, _elements(delta.get("executed_tools"))):
                told = {key: value for key, value in tool.items() if value is not None}
                self._tools_of_groq.setdefault(tool.get("index"), {}).update(told)

    def _add_code_of_gemini(self, fields: Fields) -> None:
        """Read ``{"content": {"parts": [{"executable_code": …}]}}``."""
        for part in _elements(_fields_of(fields.get("content")).get("parts")):
            if any(field_of(_fields_of(part), name) for name in _PARTS_OF_CODE):
                self._parts_of_code.append(part)

    def _add_event(self, event: Fields) -> None:
        """Add an event of Anthropic's stream to the block of the reply that it tells of.

        ``{"index": 0, "content_block": {"type": "text"}}`` begins block 0, and then
        ``{"index": 0, "delta": {"text": "It fell."}}`` adds a piece of its text.
        """
        index = event.get("index")
        if not is_place(index):  # it is no number from 0, so that it names no block
            return
        block = self._blocks.setdefault(index, _Block())
        beginning = _fields_of(event.get("content_block"))
        if beginning:
            block.start = beginning
        delta = _fields_of(event.get("delta"))
        citation = delta.get("citation")
        if citation is not None:
            block.citations.append(citation)
        text = delta.get("text")
        if isinstance(text, str):
            block.texts.append(text)
        piece_of_arguments = delta.get("partial_json")
        if isinstance(piece_of_arguments, str):
            block.arguments.append(piece_of_arguments)

    def reply(self, own_arguments: Sequence[Fields] | None) -> dict[str, Any]:
        """Put together what the chunks told, in the form of a reply that was not streamed.

        Example: the chunks ``{"choices": [{"delta": {"annotations": [a]}}]}`` and
        ``{"choices": [{"delta": {}}]}`` give ``{"annotations": [a]}``.

        Args:
            own_arguments: The arguments of the application's own tools that the reply
                calls. A framework may drop the beginnings of blocks: then any further
                arguments are those of a tool of the provider. None if they are not
                known.

        Returns:
            The fields of a reply, as the chunks hold them; empty if they tell nothing.
        """
        reply = dict(self._latest_by_key)
        blocks = [*self._blocks_begun(), *self._tools_without_begin(own_arguments)]
        if blocks:
            reply["content"] = blocks
        elif self._parts_of_code:
            reply["content"] = {"parts": self._parts_of_code}
        if self._annotations:
            reply["annotations"] = self._annotations
        if self._tools_of_groq:
            reply["executed_tools"] = list(self._tools_of_groq.values())
        return reply

    def _blocks_begun(self) -> Iterator[Fields]:
        """Yield the blocks whose type is known, texts among them."""
        for block in self._blocks.values():
            if block.start:
                yield {**block.start, **_streamed_fields(block)}
            elif block.texts or block.citations:
                yield {"type": "text", **_streamed_fields(block)}

    def _tools_without_begin(
        self, own_arguments: Sequence[Fields] | None
    ) -> list[Fields]:
        """Return the requests without a beginning that are for tools of the provider.

        The beginning would name the tool. Without it, as many requests are for the
        application's own tools as the reply calls: first those with equal arguments.
        Example: of the requests "lamp", "sum" and "tower" one is for an own tool. If it
        was called with "sum", "lamp" and "tower" are for the provider. If the framework
        changed its arguments to "add", nobody knows which it is: the first is left out.

        Args:
            own_arguments: The arguments of the application's own tools that the reply
                calls; None if they are not known, and then no request is returned.
        """
        if own_arguments is None:
            return []
        own_first = sorted(
            self._requests_without_begin(),
            key=lambda request: request["input"] not in own_arguments,
        )
        return own_first[len(own_arguments) :]

    def _requests_without_begin(self) -> Iterator[Fields]:
        """Yield a request for each tool whose beginning was dropped, with its arguments.

        Anthropic streams the arguments ``{"query": "lamp"}`` in pieces, and the framework
        drops the event before them that names the tool.
        """
        for index, block in self._blocks.items():
            if block.arguments and not block.start:
                arguments = _arguments_of(block)
                yield {
                    "type": "server_tool_use",
                    "id": f"block {index}",
                    "name": self._tool_that_asks(arguments),
                    "input": arguments,
                }

    def _tool_that_asks(self, arguments: Fields) -> str | None:
        """Name a counted tool by what it was asked; None if that is not sure."""
        for argument, name in _TOOL_BY_ARGUMENT.items():
            if argument in arguments and self._counts_of_tools.get(f"{name}_requests"):
                return name
        return None


def _streamed_fields(block: _Block) -> dict[str, Any]:
    """Return the fields of a block that came in pieces."""
    fields: dict[str, Any] = {}
    if block.texts:
        fields["text"] = "".join(block.texts)
    if block.citations:
        fields["citations"] = block.citations
    if block.arguments:
        fields["input"] = _arguments_of(block)
    return fields


def _arguments_of(block: _Block) -> Fields:
    """Return the arguments of a block; {} for a stream that broke off inside them."""
    return arguments_in("".join(block.arguments))


def _elements(value: object) -> Sequence[Any]:
    """Return a list as it is; an empty one for anything else."""
    return value if is_list(value) else ()


def _fields_of(value: object) -> Fields:
    """Return the fields of an object; {} for anything else, such as a text."""
    if isinstance(value, BaseModel):
        return dict(value)
    return value if isinstance(value, Mapping) else {}
