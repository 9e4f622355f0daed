"""What the provider of a model searched while the model answered, read from its reply. Pure.

OpenAI's Responses, Anthropic and Gemini may search files or the web inside one call of a
model. One table says where their blocks hold query and sources with text. Whatever else
tells of a search, such as a list of addresses, is not read: the sample is incomplete.

Example: ``{"type": "file_search_call", "queries": ["lamp"], "results": [{"filename":
"a.txt", "text": "Anna lit the lamp."}]}`` becomes a retriever below the model's call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeGuard

from pydantic import BaseModel

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.tree import CitedSource, Document, Message, Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.number_values import is_number

Fields = Mapping[Any, Any]  # a JSON object, or what looks like one

_NOT_TOLD = (
    "of what the provider's {} found, or they are told in a form that is not read: OpenAI"
    ' returns them with include=["file_search_call.results"], and of the web at most with'
    ' "web_search_call.results"; Anthropic returns those of the web encrypted, and'
    " readable by its tool web_fetch alone; Gemini returns the addresses of the web alone;"
    " let a tool of the application search, which returns its texts, or say where the"
    " contexts are by contexts_from"
)
_UNREAD = "search"  # the name of one of which nothing else is known


@dataclass(frozen=True)
class _Form:
    """Where a block of a reply tells of a search.

    Attributes:
        name: The search; "" for one whose block names it.
        queries: Paths of what was asked, such as "action.query".
        results: The field with what was found; "" in the block of a request, whose
            result stands in another block.
        id_fields: The fields that hold the search's id.
    """

    name: str = ""
    queries: tuple[str, ...] = ()
    results: str = ""
    id_fields: tuple[str, ...] = ("id", "item_id")


_OF_REQUEST = ("tool_use_id", "tool_call_id")
_FORMS = {
    # OpenAI's Responses
    "file_search_call": _Form("file_search", ("queries",), "results"),
    "web_search_call": _Form(
        "web_search", ("action.query", "action.queries", "action.url"), "results"
    ),
    # Anthropic: a request, and its result in another block
    "server_tool_use": _Form(queries=("input.query", "input.url")),
    "web_search_tool_result": _Form("web_search", (), "content", _OF_REQUEST),
    "web_fetch_tool_result": _Form("web_fetch", (), "content", _OF_REQUEST),
    # LangChain's own form of both
    "server_tool_call": _Form(queries=("args.query", "args.queries", "args.url")),
    "server_tool_result": _Form("", (), "output", _OF_REQUEST),
    # Gemini: metadata beside the blocks
    "grounding_metadata": _Form(
        "google_search", ("web_search_queries", "retrieval_queries"), "grounding_chunks"
    ),
}
# where one result holds its text, its metadata and what it is called
_TEXT_PATHS = ("text", "content", "retrieved_context.text")
_PLACES_OF_NAMES = ("extras", "content", "retrieved_context", "web", "maps")
_NAMES = ("url", "uri", "file_id", "filename", "source", "title", "document_title")

# what a block of another kind may hold blocks in
_FIELDS_OF_WRAPPER = (
    *("content", "value", "output", "item", "content_block", "delta", "usage"),
)
# what is the application's own, repeats the request, or only counts
_FIELDS_PASSED_OVER = (
    *("args", "arguments", "function_call", "tool_calls", "parsed", "input"),
    *("tools", "tool_choice", "usage_metadata", "token_usage", "logprobs"),
)
# types of blocks, and names of fields, that tell of a search
_TELLS_OF_SEARCH = lazy_pattern(
    r"search|fetch|retriev|grounding|reference|citation|execut|interpreter|mcp"
    r"|url_context|annotations|_tool_(?:result|use)\Z",
    re.IGNORECASE,
)
# searches for tools, and files that the model made
_NO_SEARCH = lazy_pattern(
    r"tool_search|mcp_list_tools|mcp_approval|container_file_citation|file_path"
    r"|function_call|citation_metadata"
)
_SEARCH_NAME = lazy_pattern(r"search|fetch|retriev", re.IGNORECASE)
# tools of OpenAI after which the model saw nothing that the provider keeps
_TOOLS_OF_APPLICATION = (
    *("function", "custom", "namespace", "computer", "computer_use_preview"),
    *("local_shell", "apply_patch", "image_generation", "tool_search"),
)
# models that search by themselves, by their names
_SEARCHING_MODEL = lazy_pattern(
    r"-search-(?:preview|api)\b|\bsonar\b|\bcompound(?:-beta)?\b|:online\b"
)
_DEEPEST = 12


@dataclass(slots=True)
class ProviderSearch:
    """One time that a provider searched.

    Attributes:
        name: What the provider calls it.
        query: What it was asked; None if that is not told.
        documents: What it found, with texts.
        has_result: Whether the reply tells what it found.
        lacks_texts: Whether a source has no text.
        error: What it failed with.
    """

    name: str
    query: str | None = field(default=None, repr=False)
    documents: list[Document] = field(default_factory=list, repr=False)
    has_result: bool = False
    lacks_texts: bool = False
    error: str | None = field(default=None, repr=False)

    @property
    def is_incomplete(self) -> bool:
        """Whether it found texts that the reply does not tell."""
        return self.error is None and (self.lacks_texts or not self.has_result)

    def node(self, call: Node) -> Node:
        """Return it as a call below the call of the model.

        It counts as ended when the model's call began: what it found was there when the
        model wrote its answer.
        """
        is_known = self.error is None and not self.is_incomplete
        not_told = (_NOT_TOLD.format(self.name),) if self.is_incomplete else ()
        return Node(
            "retriever",
            self.name,
            call.began,
            call.began,
            query=self.query,
            documents=tuple(self.documents) if self.documents or is_known else None,
            error=self.error,
            by_provider=True,
            evidence_not_recorded=not_told,
        )


@dataclass(frozen=True, slots=True)
class ProviderEvidence:
    """What one reply tells of the searches of the provider.

    Attributes:
        searches: The searches, in their order.
        citations: The sources that the provider names for places of the reply.
    """

    searches: tuple[ProviderSearch, ...] = ()
    citations: tuple[CitedSource, ...] = ()

    def __bool__(self) -> bool:
        """Whether the reply tells of anything."""
        return bool(self.searches or self.citations)

    @property
    def message(self) -> Message | None:
        """What the model was shown of it, as the result of a tool; None for nothing."""
        texts = [
            document.text for search in self.searches for document in search.documents
        ]
        return Message("tool", "\n\n".join(texts)) if texts else None

    def with_unread_search(self) -> ProviderEvidence:
        """Return it with a search of which nothing else is known, if it tells of none."""
        unread = (ProviderSearch(_UNREAD),)
        return replace(self, searches=self.searches or unread)


def evidence_in_reply(*places: object) -> ProviderEvidence:
    """Read what a provider found from the mappings of one reply.

    Args:
        *places: The mappings that hold it, as plain data: a message with ``content``,
            its additional arguments and metadata, a provider's response. Anything else
            is passed over.

    Returns:
        The evidence; empty for a reply that tells of none.

    Examples:
        >>> found = {"type": "file_search_call", "queries": ["lamp"],
        ...          "results": [{"filename": "a.txt", "text": "Anna lit the lamp."}]}
        >>> (search,) = evidence_in_reply({"content": [found]}).searches
        >>> search.name, search.query, [document.text for document in search.documents]
        ('file_search', 'lamp', ['Anna lit the lamp.'])
    """
    reply = _ReplyBeingRead()
    for place in places:
        if isinstance(place, Mapping):
            if isinstance(place.get("content"), str):
                reply.whole_text = place["content"]
            reply.read(place)
            if place.get("object") == "response" and "output" not in place:
                reply.read_tools(place)
    return reply.evidence()


def chunk_tells_of_search(chunk: object) -> bool:
    """Whether a chunk of a streamed reply tells that the provider searched.

    Chunks are not put together: what was found stays unknown, if the last chunk does not
    hold it.
    """
    reply = _ReplyBeingRead()
    reply.read(chunk)
    kinds = [*_values_at(chunk, "type"), *_values_at(chunk, "delta.type")]
    return "input_json_delta" in kinds or bool(reply.evidence())


@dataclass(slots=True)
class _ReplyBeingRead:
    """What was read of one reply so far.

    Attributes:
        searches: The searches, by the id that the provider gives them.
        citations: The sources that the provider names for places of the reply.
        whole_text: The text of the reply, if the provider gives it in one piece.
        text_of_blocks: The text of the blocks that were read so far.
        is_unread: Whether something tells of a search, and is not read.
    """

    searches: dict[str, ProviderSearch] = field(default_factory=dict)
    citations: dict[CitedSource, None] = field(default_factory=dict)
    whole_text: str = ""
    text_of_blocks: str = ""
    is_unread: bool = False
    is_counted: bool = False

    def read(self, value: object, depth: int = _DEEPEST) -> None:
        """Read any value of a reply, and the blocks inside it."""
        value = _plain(value)
        if isinstance(value, (list, tuple)) and depth:
            for element in value:
                self.read(element, depth - 1)
        elif isinstance(value, Mapping) and depth:
            self._read_fields(value, depth)

    def _read_fields(self, block: Fields, depth: int) -> None:
        """Read one object: a text with citations, a search, or what holds other blocks."""
        kind = block.get("type")
        if not isinstance(kind, str):
            kind = "text" if isinstance(block.get("text"), str) else ""
        # a stream of OpenAI's only tells that a search ended
        kind = kind.removeprefix("response.").removesuffix(".completed")
        if kind in ("text", "output_text"):
            self._read_text(block)
        if kind in _FORMS:
            self._read_search(kind, block)
        elif _mentions_search(kind):
            self.is_unread = self.is_unread or not _NO_SEARCH.search(kind)
        else:
            for key, inner in block.items():
                is_in_wrapper = not kind or key in _FIELDS_OF_WRAPPER
                if is_in_wrapper and key not in _FIELDS_PASSED_OVER:
                    self._read_field(str(key), inner, depth)

    def _read_field(self, key: str, value: object, depth: int) -> None:
        """Read a field of an object that is no block of a known kind."""
        if key in ("annotations", "citations"):
            for citation in _values_at(value, ""):
                self._read_citation(citation, None)
        elif key == "grounding_metadata":
            for grounding in _objects_at(_plain(value), ""):
                self._read_grounding(grounding)
        elif key == "usage":  # Anthropic's count of searches: all that a stream tells
            counts = next(_objects_at(value, "server_tool_use"), {})
            self.is_counted = self.is_counted or any(counts.values())
        elif _mentions_search(key) and not _NO_SEARCH.search(key):
            self.is_unread = self.is_unread or any(_values_at(value, ""))
        else:
            self.read(value, depth - 1)

    def _read_search(self, kind: str, block: Fields) -> None:
        """Read a block by its row of the table, into the search of its id."""
        form = _FORMS[kind]
        ids = [block.get(name) for name in form.id_fields]
        key = next((value for value in ids if _is_text(value)), None)
        search = self._search(key, form.name or _name_of_search(block))
        if search.has_result:  # it is told twice
            return
        if not search.query:
            search.query = _query(form, block)
        if form.results and _SEARCH_NAME.search(search.name):
            _add_results(search, form.results, block)

    def _search(self, key: object, name: str) -> ProviderSearch:
        """Return the search of an id, or make it; one without an id is always new."""
        unnamed = f"{name} {len(self.searches)}"
        return self.searches.setdefault(str(key or unnamed), ProviderSearch(name))

    def _read_text(self, block: Fields) -> None:
        """Read a block of text, with the sources that are named for it."""
        text = block.get("text")
        text = text if isinstance(text, str) else ""
        start: int = len(self.text_of_blocks)
        if self.whole_text:  # frameworks put blanks between blocks
            start = max(start, self.whole_text.find(text, start))
            self.text_of_blocks += self.whole_text[len(self.text_of_blocks) : start]
        self.text_of_blocks += text
        for path in ("annotations", "citations"):
            for citation in _values_at(block, path):
                self._read_citation(citation, (start, start + len(text)))

    def _read_citation(self, cited: object, bounds: tuple[int, int] | None) -> None:
        """Read a source that is named for a place of the reply.

        Args:
            cited: The source, with its place if the provider tells it.
            bounds: Where the block of text with it begins and ends; None without one.
        """
        citation: Fields = cited if isinstance(cited, Mapping) else {}
        for key in ("url_citation", "file_citation", "value"):
            citation = next(_objects_at(citation, key), citation)
        if _NO_SEARCH.search(str(citation.get("type"))):
            return
        names = _names_of(citation)
        quote = citation.get("cited_text")
        quote = quote if _is_text(quote) else None
        if not names and quote is None:
            is_number = isinstance(cited, (int, float))  # a structured reply's own
            self.is_unread = self.is_unread or (bool(cited) and not is_number)
            return
        start, end = bounds or (None, None)
        first, last = citation.get("start_index"), citation.get("end_index")
        point = citation.get("index", citation.get("file_index"))
        if _is_place(point) and "file_id" in citation:  # where the sentence ends
            first = last = point
        if _is_place(first) and _is_place(last) and first <= last:
            offset = bounds[0] if bounds else 0
            start, end = first + offset, last + offset
        self.citations[CitedSource(quote, start, end, names)] = None

    def _read_grounding(self, grounding: Fields) -> None:
        """Read the grounding metadata of Gemini into a search and its citations."""
        form = _FORMS["grounding_metadata"]
        chunks = list(_values_at(grounding, form.results))
        if not chunks and _query(form, grounding) is None:
            return
        is_of_files = any(_values_at(chunks, "retrieved_context"))
        search = self._search("grounding", "file_search" if is_of_files else form.name)
        if search.has_result:  # the same metadata stands in another part of the reply
            return
        search.query = _query(form, grounding)
        _add_results(search, form.results, grounding)
        reply = (self.text_of_blocks or self.whole_text).encode(errors="replace")
        for support in _objects_at(grounding, "grounding_supports"):
            segment = next(_objects_at(support, "segment"), {})
            start = _in_characters(reply, segment.get("start_index") or 0)
            end = _in_characters(reply, segment.get("end_index"))
            for index in _values_at(support, "grounding_chunk_indices"):
                is_there = _is_place(index) and index < len(chunks)
                chunk = _as_fields(chunks[index] if is_there else None)
                names = _names_of(chunk) or (f"grounding chunk {index}",)
                cited = CitedSource(None, start, end, names, _text_of(chunk))
                self.citations[cited] = None

    def read_tools(self, response: Fields) -> None:
        """Read the tools of OpenAI's response, where a framework dropped its output."""
        for tool in _objects_at(response, "tools"):
            kind = str(tool.get("type") or "function")
            is_local = _field_at(tool, "environment.type") == "local"
            if kind not in _TOOLS_OF_APPLICATION and not is_local:
                self._search(kind, kind)

    def evidence(self) -> ProviderEvidence:
        """Sum up what was read of the whole reply."""
        searches = [
            search
            for search in self.searches.values()
            if not _NO_SEARCH.search(search.name)
        ]
        if self.is_counted and not searches:
            searches.append(ProviderSearch("web_search"))
        if self.is_unread:
            searches.append(ProviderSearch(_UNREAD))
        return ProviderEvidence(tuple(searches), tuple(self.citations))


# Into the tree


def add_provider_evidence(call: Node, evidence: ProviderEvidence) -> None:
    """Add to a model's call what its provider searched for while the model answered.

    OpenAI's file_search found "It fell.": a retriever with this document is added below
    the call, and its text at the end of the prompt. When a framework hands on a reply
    for the second time, only the cited sources are replaced.

    Args:
        call: The call of the model, with its prompt. It is changed.
        evidence: What its reply tells.
    """
    if call.reply is not None and evidence.citations:
        call.reply = replace(call.reply, cited_sources=evidence.citations)
    if any(child.by_provider for child in call.children):
        return
    if not evidence and _SEARCHING_MODEL.search(call.model or ""):
        evidence = evidence.with_unread_search()
    shown = evidence.message
    known_texts = [message.text for message in (*call.prompt, *filter(None, [shown]))]
    searches = list(evidence.searches)
    is_told = any(search.is_incomplete for search in searches)
    if not is_told and _cites_unseen(evidence, known_texts):
        searches.append(ProviderSearch("cited sources"))
    call.children += [search.node(call) for search in searches]
    if shown is not None:
        call.prompt = (*call.prompt, shown)
    if any(search.name == _UNREAD for search in searches):
        call.may_have_searched = True


def _cites_unseen(evidence: ProviderEvidence, known_texts: Sequence[str]) -> bool:
    """Whether the reply cites a source that neither a search nor the prompt tells."""
    known_names: set[str] = set()
    for search in evidence.searches:
        for document in search.documents:
            known_names.update(map(str, document.metadata.values()))
    for cited in evidence.citations:
        quote = letters_of(cited.quote)
        is_quoted = bool(quote) and any(
            quote in letters_of(text) for text in known_texts
        )
        is_known = is_quoted or not known_names.isdisjoint(cited.names)
        if not is_known and cited.text is None:
            return True
    return False


# Values of a reply: any JSON; nothing is taken for granted


def _as_fields(value: object) -> Fields:
    return value if isinstance(value, Mapping) else {}


def _field_at(fields: Fields, path: str) -> Any:
    """Return the field at a path through objects; None if there is none."""
    value: Any = fields
    for key in path.split("."):
        value = _as_fields(value).get(key)
    return value


def _values_at(value: Any, path: str) -> Iterator[Any]:
    """Yield the values at a path, of a list each element; none for None and ""."""
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from _values_at(element, path)
    elif not path:
        if value not in (None, "", {}):
            yield value
    elif isinstance(value, Mapping):
        key, _, rest = path.partition(".")
        yield from _values_at(value.get(key), rest)


def _objects_at(value: Any, path: str) -> Iterator[Fields]:
    """Yield the JSON objects at a path, of a list each element."""
    return (each for each in _values_at(value, path) if isinstance(each, Mapping))


@lru_cache(maxsize=1024)  # replies repeat their few names, and agents their replies
def _mentions_search(name: str) -> bool:
    """Whether the name of a field, or the type of a block, is one of a search."""
    return _TELLS_OF_SEARCH.search(name) is not None


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_place(value: object) -> TypeGuard[int]:
    """Whether a value is a place in a text or a list, counted from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _in_characters(text_as_bytes: bytes, place: object) -> int | None:
    """Convert a place counted in bytes into one in characters; None for no place."""
    if not _is_place(place):
        return None
    return len(text_as_bytes[:place].decode(errors="ignore"))


def _query(form: _Form, block: Fields) -> str | None:
    """Return what a search was asked, several queries as JSON; None if it is not told."""
    for path in form.queries:
        queries = list(dict.fromkeys(filter(_is_text, _values_at(block, path))))
        if queries[1:]:
            return json.dumps(queries, ensure_ascii=False)
        if queries:
            return str(queries[0])
    return None


def _add_results(search: ProviderSearch, name: str, block: Fields) -> None:
    """Add what a block says that a search found: documents, and sources without texts."""
    returned = block.get(name)
    search.error = search.error or _error_of(block, returned)
    search.has_result = isinstance(returned, (list, tuple, Mapping))
    if name == "output" and _is_text(returned):  # LangChain's form
        returned, search.has_result = {"text": returned}, True
    for result in _values_at(returned, ""):
        text = _text_of(_as_fields(result))
        if text is None:
            search.lacks_texts = True
        else:
            search.documents.append(_document(text, result))


def _error_of(block: Fields, returned: object) -> str | None:
    """Return what a search failed with, as its block or its result tells; None without."""
    fields = _as_fields(returned)
    if isinstance(fields.get("error_code"), str):
        return str(fields["error_code"])
    is_failed = block.get("status") in ("failed", "error")
    is_failed = is_failed or str(fields.get("type")).endswith("_error")
    return "the search failed" if is_failed else None


def _text_of(result: Fields) -> str | None:
    """Return the text of a result; None if it has none, such as a PDF.

    Anthropic keeps the text of a fetched page in "content.source.data".
    """
    for path in _TEXT_PATHS:
        value = _field_at(result, path)
        if isinstance(value, (list, tuple)):  # blocks of text
            value = "\n".join(filter(_is_text, _values_at(value, "text")))
        if isinstance(value, str) and value.strip():
            return value
    if _field_at(result, "content.source.type") == "text":
        data = _field_at(result, "content.source.data")
        return data if isinstance(data, str) and data.strip() else None
    return None


def _names_of(source: Fields) -> tuple[str, ...]:
    """What a source is called: its address, id, file name and title; () for no name."""
    names: list[str] = []
    holders = [source]
    for place in _PLACES_OF_NAMES:
        holders += _objects_at(source, place)
    for key in _NAMES:
        for holder in holders:
            name = holder.get(key)
            if isinstance(name, str) and name.strip():
                names.append(name)
    return tuple(dict.fromkeys(names))


def _document(text: str, fields: Fields) -> Document:
    """A result as a document, without an id: the chunks of one file share that of the file."""
    metadata: dict[str, Any] = {}
    for place in ("attributes", "retrieved_context", "content", ""):
        for holder in _objects_at(fields, place):
            for key, value in holder.items():
                is_plain = isinstance(value, (str, int, float))
                if is_plain and value != text and key not in ("type", "snippet"):
                    metadata[str(key)] = value
    score = fields.get("score")
    is_finite = is_number(score) and math.isfinite(score)
    return Document(text, None, score if is_finite else None, metadata)


def _name_of_search(block: Fields) -> str:
    """Return the name of a search, as its block tells it."""
    kind = _field_at(block, "extras.block_type")  # where LangChain keeps Anthropic's
    for name in (block.get("name"), str(kind or "").partition("_tool_")[0]):
        if _is_text(name):
            return str(name)
    return "provider's tool"
