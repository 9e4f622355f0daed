"""What the provider of a model searched while the model answered, read from its reply. Pure.

OpenAI's Responses, Anthropic and Gemini may search files or the web inside one call of a
model. One table says where their replies hold query, sources with text, and citations.
Whatever else tells of a search, such as a list of addresses, is not read: it counts as a
source without a text, and the sample is incomplete.

Example: ``{"type": "file_search_call", "queries": ["lamp"], "results": [{"filename":
"a.txt", "text": "Anna lit the lamp."}]}`` becomes a retriever below the model's call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from pydantic import BaseModel

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.tree import CitedSource, Document, Message, Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern

Fields = Mapping[Any, Any]  # a JSON object, or what looks like one

_OWN_TOOL = "let a tool of the application search, which returns its texts"
_ANY_PROVIDER = (
    f"the provider names sources without their texts; see whether one of its settings"
    f" returns them, or {_OWN_TOOL}"
)
_OPENAI_FILES = (
    "OpenAI returns the texts that file_search found with"
    ' include=["file_search_call.results"]'
)
_OPENAI_WEB = (
    "OpenAI tells at most the addresses that web_search found; ask for its results by"
    f' include=["web_search_call.results"], or {_OWN_TOOL}'
)
_ANTHROPIC_WEB = (
    "Anthropic returns the texts that web_search found encrypted, under any setting;"
    f" allow its tool web_fetch, whose texts are readable, or {_OWN_TOOL}"
)
_GEMINI_WEB = (
    "Gemini returns at most the addresses that its search found, under any setting;"
    f" {_OWN_TOOL}"
)
_CITED_UNSEEN = (
    "the answer cites a source whose text does not stand in the prompt; hand it in as"
    f" text, or see whether a setting of the provider returns it: {_OPENAI_FILES}"
)
_UNREAD_FORM = (
    "the reply tells of a search or tool of the provider in a form that is not read;"
    f" {_OWN_TOOL}, or say where the contexts are by contexts_from"
)
_HIDDEN_TOOLS = (
    "the model could use {} of its provider, and the framework hands on nothing of what"
    f" it found; {_OWN_TOOL}, or say where the contexts are by contexts_from"
)
_SEARCHES_BY_ITSELF = (
    "the model {} searches by itself, and its reply tells nothing of what it found;"
    f" {_OWN_TOOL}, or say where the contexts are by contexts_from"
)


@dataclass(frozen=True)
class _Form:
    """Where a block of a reply tells of a search.

    A path such as "action.query" leads through objects; where it meets a list, through
    each of its elements.

    Attributes:
        name: The search; "" for one whose request names it.
        queries: Paths of what was asked.
        results: Paths of what was found, each with its text or without.
        sources: Paths of sources that never have a text.
        remedy: What brings the texts where there are none.
    """

    name: str = ""
    queries: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    remedy: str = _ANY_PROVIDER


_FORMS = {
    # OpenAI's Responses
    "file_search_call": _Form(
        "file_search", ("queries",), ("results",), remedy=_OPENAI_FILES
    ),
    "web_search_call": _Form(
        "web_search",
        ("action.query", "action.queries", "action.url"),
        ("results",),
        ("action.sources", "action"),
        _OPENAI_WEB,
    ),
    # Anthropic: a request, and its result in another block
    "server_tool_use": _Form(queries=("input.query", "input.url")),
    "web_search_tool_result": _Form(
        "web_search", results=("content",), remedy=_ANTHROPIC_WEB
    ),
    "web_fetch_tool_result": _Form("web_fetch", results=("content",)),
    # LangChain's own form of both
    "server_tool_call": _Form(queries=("args.query", "args.queries", "args.url")),
    "server_tool_result": _Form(results=("output",)),
    # Gemini: metadata beside the blocks
    "grounding": _Form(
        "google_search",
        ("web_search_queries", "retrieval_queries"),
        ("grounding_chunks",),
        remedy=_GEMINI_WEB,
    ),
}
_REMEDY_BY_NAME = {"file_search": _OPENAI_FILES, "web_search": _ANTHROPIC_WEB}
_RESULTS_OF_REQUESTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "server_tool_result",
)
# where one result holds its text, its metadata and what it is called
_TEXT_PATHS = ("text", "content", "retrieved_context.text")
_PLACES_OF_NAMES = ("", "extras", "content", "retrieved_context", "web", "maps")
_NAMES = ("url", "uri", "file_id", "filename", "source", "title", "document_title")

# where replies hold blocks: in LangChain, LlamaIndex, Haystack and at the providers
_BLOCKS = (
    *("content", "output", "content.parts"),
    *("tool_outputs", "built_in_tool_calls", "raw_content_for_server_tools"),
)
_GROUNDING = ("grounding_metadata", "groundingMetadata")
_CITATIONS = ("annotations", "citations", "choices.message.annotations")
_COUNTS = (
    "usage.server_tool_use"  # Anthropic's count of searches: all that a stream tells
)
# what tells of a search, and no row of the table reads: keys beside the blocks, kinds of
# blocks or the only fields of those without a kind
_UNREAD_KEYS = (
    *("search_results", "executed_tools", "documents", "references", "citations"),
    *("choices.message.executed_tools", "choices.message.citations"),
    *("url_context_metadata.url_metadata", "urlContextMetadata.urlMetadata"),
)
_KINDS_OF_CHUNKS = ("type", "item.type", "content_block.type", "delta.type")
_KEYS_OF_CHUNKS = (
    "candidates.grounding_metadata",
    "choices.delta.executed_tools",
    "choices.delta.annotations",
    "choices.delta.citations",
)
_UNREAD_KIND = lazy_pattern(
    r"search|fetch|retriev|grounding|reference|citation|execut|interpreter|mcp"
    r"|input_json_delta"
    r"|_tool_(?:result|use)\Z",
    re.IGNORECASE,
)
# blocks of the application's own tools and files, and searches for tools
_NO_SEARCH = lazy_pattern(
    r"tool_search|mcp_list_tools|mcp_approval|container_file_citation|file_path"
    r"|function_call"
)
# tools of OpenAI after which the model saw nothing that the provider keeps
_TOOLS_OF_APPLICATION = (
    *("function", "custom", "namespace", "computer", "computer_use_preview"),
    *("local_shell", "apply_patch", "image_generation", "tool_search"),
)
_SEARCH_NAME = lazy_pattern(r"search|fetch|retriev", re.IGNORECASE)
# models that search by themselves, by their names
_SEARCHING_MODEL = lazy_pattern(
    r"-search-(?:preview|api)\b|\bsonar\b|\bcompound(?:-beta)?\b|:online\b"
)
# what OpenAI adds to each address that it cites
_MARK_OF_OPENAI = lazy_pattern(r"(?<=[?&])utm_source=openai&|[?&]utm_source=openai\b")
_CAPITAL = lazy_pattern(r"[A-Z]")
_DEEPEST = 8
_LARGEST_SCORE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ProviderSearch:
    """One time that a provider searched.

    Attributes:
        name: What the provider calls it.
        query: What it was asked; None if that is not told.
        documents: What it found, with texts; () if it found nothing; None where no text
            is known.
        sources_without_text: The names of each source without its text; () for a source
            without a name.
        remedy: What makes the provider return these texts.
        error: What it failed with.
    """

    name: str
    query: str | None = field(default=None, repr=False)
    documents: tuple[Document, ...] | None = field(default=None, repr=False)
    sources_without_text: tuple[tuple[str, ...], ...] = ()
    remedy: str = ""
    error: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ProviderEvidence:
    """What one reply tells of the searches of the provider.

    Attributes:
        calls: The searches, in their order.
        citations: The sources that the provider names for places of the reply.
        model: The model that replied, by the word of the provider; None if not told.
        hidden_tools: The provider's tools that the model could use, where the framework
            hands on nothing of what they found.
    """

    calls: tuple[ProviderSearch, ...] = ()
    citations: tuple[CitedSource, ...] = ()
    model: str | None = None
    hidden_tools: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether the reply tells of anything."""
        return bool(self.calls or self.citations or self.hidden_tools)

    @property
    def message(self) -> Message | None:
        """What the model was shown of it, as the result of a tool; None for nothing."""
        texts = [
            document.text for call in self.calls for document in call.documents or ()
        ]
        return Message("tool", "\n\n".join(texts)) if texts else None


UNREAD_SEARCH = ProviderSearch(
    "provider's search", sources_without_text=((),), remedy=_UNREAD_FORM
)
"""A search that is told in a form that is not read."""


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
        >>> (call,) = evidence_in_reply({"content": [found]}).calls
        >>> call.name, call.query, [document.text for document in call.documents]
        ('file_search', 'lamp', ['Anna lit the lamp.'])
    """
    mappings = [place for place in places if isinstance(place, Mapping) and place]
    names = [place.get(key) for place in mappings for key in ("model_name", "model")]
    model = next((name for name in names if name and isinstance(name, str)), None)
    # a plain message is not read further: a conversation holds many
    if not any(map(may_tell_evidence, mappings)):
        return ProviderEvidence(model=model)
    reply = _ReplyBeingRead()
    for place in mappings:
        reply.read(place)
    return replace(reply.evidence(), model=model)


def may_tell_evidence(place: object) -> bool:
    """Whether a mapping of a reply holds more than a bare text.

    Only then can ``evidence_in_reply`` find evidence in it. Any other value tells none.
    """
    if not isinstance(place, Mapping):
        return False
    if not isinstance(place.get("content"), (str, type(None))):
        return True
    paths = (*_BLOCKS[1:], *_GROUNDING, *_CITATIONS, *_UNREAD_KEYS, _COUNTS)
    is_response = place.get("object") == "response"
    return is_response or any(any(_values_at(place, path)) for path in paths)


def chunk_tells_of_search(chunk: object) -> bool:
    """Whether a chunk of a streamed reply tells that the provider searched.

    Chunks are not put together: what was found stays unknown, if the last chunk does not
    hold it.
    """
    fields = next(_objects_at(chunk, ""), {})
    kinds = [
        str(kind) for path in _KINDS_OF_CHUNKS for kind in _values_at(fields, path)
    ]
    tells_of_search = any(
        _UNREAD_KIND.search(kind) and not _NO_SEARCH.search(kind) for kind in kinds
    )
    parts = _objects_at(fields, "content.parts")
    runs_code = any(
        value for part in parts for name, value in part.items() if name != "text"
    )
    keys = (*_GROUNDING, *_CITATIONS, *_UNREAD_KEYS, *_KEYS_OF_CHUNKS)
    has_key = any(any(_values_at(fields, key)) for key in keys)
    return tells_of_search or runs_code or has_key


@dataclass(slots=True)
class _Search:
    """A search while its reply is read."""

    name: str
    remedy: str
    queries: list[str] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    names_without_text: dict[tuple[str, ...], None] = field(default_factory=dict)
    has_result: bool = False
    error: str | None = None

    @property
    def is_for_tools(self) -> bool:
        """Whether it looks for tools that the model may call, which is no evidence."""
        return _NO_SEARCH.search(self.name) is not None

    def add(self, form: _Form, block: Fields) -> None:
        """Add what a block tells, by the row of the table for its kind."""
        for path in form.queries:
            texts = [text for text in _values_at(block, path) if _is_text(text)]
            self.queries += texts if not self.queries else []
        for path in form.results:
            has_field = isinstance(_field_at(block, path), (list, tuple, Mapping))
            self.has_result = self.has_result or has_field
            for result in _values_at(block, path):
                # only LangChain's own form may hold the bare text
                is_bare = isinstance(result, str) and result is block.get(path)
                is_text = is_bare and path == "output"
                self._add_result({"text": result} if is_text else result)
        for path in form.sources:
            for source in _values_at(block, path):
                names = _names_of(source) if isinstance(source, Mapping) else ()
                if names:
                    self.names_without_text[names] = None
        self.error = self.error or _error_of(block, form)

    def _add_result(self, result: object) -> None:
        """Add a result: a document, or a source without its text."""
        fields = result if isinstance(result, Mapping) else {}
        if "encrypted_content" in fields:
            self.remedy = _ANTHROPIC_WEB
        text = _text_of(fields)
        if text is None:
            self.names_without_text[_names_of(fields)] = None
        else:
            self.documents.append(_document(text, fields))

    def frozen(self) -> ProviderSearch:
        """Return it as it was read, as a frozen value."""
        queries = list(dict.fromkeys(self.queries))
        query = json.dumps(queries, ensure_ascii=False) if queries[1:] else None
        query = query or next(iter(queries), None)
        if self.error:
            return ProviderSearch(self.name, query, error=self.error)
        without_text = tuple(self.names_without_text)
        if not self.has_result and not without_text:
            without_text = ((),)
        has_found_nothing = not self.documents and not without_text
        documents = tuple(self.documents) or (() if has_found_nothing else None)
        return ProviderSearch(self.name, query, documents, without_text, self.remedy)


@dataclass(slots=True)
class _ReplyBeingRead:
    """What was read of one reply so far.

    Attributes:
        searches: The searches, by the id that the provider gives them.
        citations: The sources that the provider names for places of the reply.
        whole_text: The text of the reply, if the provider gives it in one piece.
        text_of_blocks: The text of the blocks that were read so far.
        hidden_tools: See ``ProviderEvidence``.
        is_unread: Whether something tells of a search, and is not read.
    """

    searches: dict[str, _Search] = field(default_factory=dict)
    citations: dict[CitedSource, None] = field(default_factory=dict)
    whole_text: str = ""
    text_of_blocks: str = ""
    hidden_tools: list[str] = field(default_factory=list)
    is_unread: bool = False
    counts: dict[str, None] = field(default_factory=dict)

    def read(self, place: Fields) -> None:
        """Read one mapping of a reply: the message, its metadata, or the whole response."""
        if isinstance(place.get("content"), str):
            self.whole_text = place["content"]
        for path in _BLOCKS:
            blocks = _field_at(place, path)
            if isinstance(blocks, (list, tuple)):
                for block in _objects_at(blocks, ""):
                    self._read_block(block)
        for key in _GROUNDING:
            for grounding in _objects_at(place, key):
                self._read_grounding(_in_snake_case(grounding))
        for path in _CITATIONS:
            for citation in _objects_at(place, path):
                self._read_citation(citation, None)
        for path in _UNREAD_KEYS:
            values = list(_values_at(place, path))
            is_of_citations = path.endswith("citations")
            if path == "documents":  # Cohere lists them beside its citations
                values = values if "citations" in place else []
            elif is_of_citations:  # a bare address; objects are read above
                values = [value for value in values if isinstance(value, str)]
            self.is_unread = self.is_unread or bool(values)
        for key, count in dict(next(_objects_at(place, _COUNTS), {})).items():
            if _is_place(count) and count:
                self.counts[str(key).removesuffix("_requests")] = None
        if place.get("object") == "response" and "output" not in place:
            self._note_hidden_tools(place)

    def _read_block(self, block: Fields, depth: int = _DEEPEST) -> None:
        """Read one block: a text with citations, a search, or what holds other blocks."""
        kind = str(block.get("type") or " ".join(map(str, block)))
        # a stream of OpenAI's only tells that a search ended
        kind = kind.removeprefix("response.").removesuffix(".completed")
        if kind in ("text", "output_text"):
            self._read_text(block)
        elif kind in ("message", "non_standard") and depth:
            for path in ("content", "value"):
                for inner in _objects_at(block, path):
                    self._read_block(inner, depth - 1)
        elif kind in _FORMS:
            self._read_search(kind, block)
        elif _UNREAD_KIND.search(kind) and not _NO_SEARCH.search(kind):
            asked = self.searches.get(str(block.get("tool_use_id")))
            is_for_tools = asked is not None and asked.is_for_tools
            self.is_unread = self.is_unread or not is_for_tools

    def _read_search(self, kind: str, block: Fields) -> None:
        """Read a block by its row of the table, into the search of its id."""
        form = _FORMS[kind]
        is_result = kind in _RESULTS_OF_REQUESTS
        names_of_id = (
            ("tool_use_id", "tool_call_id") if is_result else ("id", "item_id")
        )
        ids = [block.get(name) for name in names_of_id]
        key = next((value for value in ids if _is_text(value)), None)
        search = self._search(key, _name_of_search(form, block), form.remedy)
        is_unread = is_result and not _SEARCH_NAME.search(search.name)
        if not search.is_for_tools and not search.has_result and not is_unread:
            search.add(form, block)

    def _search(self, key: object, name: str, remedy: str) -> _Search:
        """Return the search of an id, or make it; one without an id is always new."""
        if remedy == _ANY_PROVIDER:
            remedy = _REMEDY_BY_NAME.get(name, remedy)
        unnamed = f"{name} {len(self.searches)}"
        return self.searches.setdefault(str(key or unnamed), _Search(name, remedy))

    def _read_text(self, block: Fields) -> None:
        """Read a block of text, with the sources that are named for it."""
        text = block.get("text")
        text = text if isinstance(text, str) else ""
        start: int = len(self.text_of_blocks)
        if self.whole_text:  # frameworks put blanks between blocks
            start = max(start, self.whole_text.find(text, start))
            self.text_of_blocks += self.whole_text[len(self.text_of_blocks) : start]
        self.text_of_blocks += text
        for path in _CITATIONS[:2]:
            for citation in _objects_at(block, path):
                self._read_citation(citation, (start, start + len(text)))

    def _read_citation(self, citation: Fields, bounds: tuple[int, int] | None) -> None:
        """Read a source that is named for a place of the reply.

        Args:
            citation: The source, with its place if the provider tells it.
            bounds: Where the block of text with it begins and ends; None without one.
        """
        for key in ("url_citation", "file_citation", "value"):
            citation = next(_objects_at(citation, key), citation)
        if _NO_SEARCH.search(str(citation.get("type"))):
            return
        names = _names_of(citation)
        quote = citation.get("cited_text")
        quote = quote if _is_text(quote) else None
        if not names and quote is None:
            self.is_unread = self.is_unread or bool(citation)
            return
        start, end = bounds or (None, None)
        first, last = citation.get("start_index"), citation.get("end_index")
        point = citation.get("index", citation.get("file_index"))
        if _is_place(point) and "file_id" in citation:  # where the sentence ends
            first = last = point
        if _is_place(first) and _is_place(last) and first <= last:
            offset = bounds[0] if bounds else 0
            start, end = first + offset, last + offset
        self._add_citation(CitedSource(names=names, quote=quote, start=start, end=end))

    def _add_citation(self, cited: CitedSource) -> None:
        """Add a source; not without a place, if it was named for a place before."""
        is_placed = any(
            (other.names, other.quote) == (cited.names, cited.quote)
            for other in self.citations
            if other.start is not None
        )
        if cited.start is not None or not is_placed:
            self.citations[cited] = None

    def _read_grounding(self, grounding: Fields) -> None:
        """Read the grounding metadata of Gemini into a search and its citations."""
        form = _FORMS["grounding"]
        chunks = list(_values_at(grounding, "grounding_chunks"))
        queries = [
            text for path in form.queries for text in _values_at(grounding, path)
        ]
        if not chunks and not queries:
            return
        is_of_files = any(
            True for _ in _objects_at(grounding, "grounding_chunks.retrieved_context")
        )
        name = "file_search" if is_of_files else form.name
        remedy = _ANY_PROVIDER if is_of_files else form.remedy
        search = self.searches.setdefault("grounding", _Search(name, remedy))
        if search.has_result:  # the same metadata stands in another part of the reply
            return
        search.add(form, grounding)
        self._read_supports(grounding, chunks)

    def _read_supports(self, grounding: Fields, chunks: Sequence[object]) -> None:
        """Read which chunks Gemini names for which bytes of its reply."""
        reply = (self.text_of_blocks or self.whole_text).encode(errors="replace")
        for support in _objects_at(grounding, "grounding_supports"):
            segment = next(_objects_at(support, "segment"), {})
            start = _in_characters(reply, segment.get("start_index") or 0)
            end = _in_characters(reply, segment.get("end_index"))
            for index in _values_at(support, "grounding_chunk_indices"):
                chunk = (
                    chunks[index] if _is_place(index) and index < len(chunks) else {}
                )
                chunk = chunk if isinstance(chunk, Mapping) else {}
                names = _names_of(chunk) or (f"grounding chunk {index}",)
                text = _text_of(chunk)
                self._add_citation(
                    CitedSource(names=names, start=start, end=end, text=text)
                )

    def _note_hidden_tools(self, place: Fields) -> None:
        """Note tools of OpenAI's response where a framework dropped its output."""
        for tool in _objects_at(place, "tools"):
            kind = str(tool.get("type") or "function")
            is_local = _field_at(tool, "environment.type") == "local"
            if kind not in _TOOLS_OF_APPLICATION and not is_local:
                label = tool.get("server_label")
                self.hidden_tools.append(f"{kind} ({label})" if label else kind)

    def evidence(self) -> ProviderEvidence:
        """Sum up what was read of the whole reply."""
        searches = [
            search for search in self.searches.values() if not search.is_for_tools
        ]
        names_read = {search.name for search in searches}
        for name in self.counts:
            if name not in names_read:
                remedy = _REMEDY_BY_NAME.get(name, _ANY_PROVIDER)
                searches.append(_Search(name, remedy))
        calls = [search.frozen() for search in searches]
        if self.is_unread:
            calls.append(UNREAD_SEARCH)
        hidden = tuple(dict.fromkeys(self.hidden_tools))
        return ProviderEvidence(tuple(calls), tuple(self.citations), None, hidden)


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
    shown = evidence.message
    known_texts = [message.text for message in (*call.prompt, *filter(None, [shown]))]
    calls = [*evidence.calls, *_cited_unseen(evidence, known_texts)]
    call.children += [_node(search, call) for search in calls]
    if shown is not None:
        call.prompt = (*call.prompt, shown)
    remarks = [_HIDDEN_TOOLS.format(name) for name in evidence.hidden_tools]
    if not evidence:
        models = [model for model in (call.model, evidence.model) if model]
        searching = [model for model in models if _SEARCHING_MODEL.search(model)]
        remarks = [_SEARCHES_BY_ITSELF.format(model) for model in searching[:1]]
    is_unread = any(search.remedy == _UNREAD_FORM for search in calls)
    if remarks or is_unread:
        call.may_have_searched = True
        call.remarks = (*call.remarks, *remarks)


def _cited_unseen(
    evidence: ProviderEvidence, known_texts: Sequence[str]
) -> Iterator[ProviderSearch]:
    """Yield a search for the cited sources that neither a search nor the prompt tells."""
    known_names: set[str] = set()
    for call in evidence.calls:
        known_names.update(*call.sources_without_text)
        for document in call.documents or ():
            known_names.update(map(str, document.metadata.values()))
    known_letters = [letters_of(text) for text in known_texts]
    names_unseen: dict[tuple[str, ...], None] = {}
    for cited in evidence.citations:
        quote = letters_of(cited.quote)
        is_quoted = bool(quote) and any(quote in each for each in known_letters)
        is_known = is_quoted or not known_names.isdisjoint(cited.names)
        if not is_known and cited.text is None:
            names_unseen[cited.names] = None
    is_told = any(call.sources_without_text for call in evidence.calls)
    if names_unseen and not is_told:
        yield ProviderSearch(
            "cited sources",
            sources_without_text=tuple(names_unseen),
            remedy=_CITED_UNSEEN,
        )


def _node(search: ProviderSearch, call: Node) -> Node:
    """A search of the provider as a call below the call of the model.

    It counts as ended when the model's call began: what it found was there when the
    model wrote its answer.
    """
    return Node(
        "retriever",
        search.name,
        call.began,
        call.began,
        query=search.query,
        documents=search.documents,
        error=search.error,
        by_provider=True,
        sources_without_text=search.sources_without_text,
        remarks=(search.remedy,) if search.sources_without_text else (),
    )


# Values of a reply: any JSON; nothing is taken for granted


def _field_at(fields: Fields, path: str) -> Any:
    """Return the field at a path through objects; None if there is none."""
    value: Any = fields
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _values_at(value: Any, path: str) -> Iterator[Any]:
    """Yield the values at a path, of a list each element; none for None and ""."""
    if isinstance(value, (list, tuple)):
        for element in value:
            yield from _values_at(element, path)
        return
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if not path:
        if value not in (None, ""):
            yield value
    elif isinstance(value, Mapping):
        key, _, rest = path.partition(".")
        yield from _values_at(value.get(key), rest)


def _objects_at(value: Any, path: str) -> Iterator[Fields]:
    """Yield the JSON objects at a path, of a list each element."""
    return (each for each in _values_at(value, path) if isinstance(each, Mapping))


def _in_snake_case(value: Any, depth: int = _DEEPEST) -> Any:
    """Return JSON of Google's with the names that its client in Python has."""
    if isinstance(value, (list, tuple)) and depth:
        return [_in_snake_case(element, depth - 1) for element in value]
    if not isinstance(value, Mapping) or not depth:
        return value
    return {
        _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", str(key)): (
            _in_snake_case(inner, depth - 1)
        )
        for key, inner in value.items()
    }


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


def _text_of(result: Fields) -> str | None:
    """Return the text of a result; None if it has none, such as a PDF.

    Anthropic keeps the text of a fetched page in "content.source.data".
    """
    for path in _TEXT_PATHS:
        value = _field_at(result, path)
        if isinstance(value, (list, tuple)):  # blocks of text
            texts = [text for text in _values_at(value, "text") if _is_text(text)]
            value = "\n".join(texts)
        if isinstance(value, str) and value.strip():
            return value
    if _field_at(result, "content.source.type") == "text":
        data = _field_at(result, "content.source.data")
        return data if isinstance(data, str) and data.strip() else None
    return None


def _names_of(source: Fields) -> tuple[str, ...]:
    """What a source is called: its address, id, file name and title; () for no name.

    An address that OpenAI marked as its own is a name without this mark as well.
    """
    names: list[str] = []
    holders = [source]
    for place in _PLACES_OF_NAMES[1:]:
        holders += _objects_at(source, place)
    for key in _NAMES:
        for holder in holders:
            name = holder.get(key)
            if isinstance(name, str) and name.strip():
                names += [name, _MARK_OF_OPENAI.sub("", name)]
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
    return Document(text, None, _finite(fields.get("score")), metadata)


def _finite(score: object) -> float | None:
    """A score that is a finite number; None for anything else."""
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return None
    # an integer of JSON may be larger than any float
    is_finite = abs(score) < _LARGEST_SCORE and math.isfinite(score)
    return float(score) if is_finite else None


def _name_of_search(form: _Form, block: Fields) -> str:
    """Return the name of a search, as its row or its block tells it."""
    kind = _field_at(block, "extras.block_type")  # where LangChain keeps Anthropic's
    for name in (form.name, block.get("name"), str(kind or "").partition("_tool_")[0]):
        if _is_text(name):
            return str(name)
    return "provider's tool"


def _error_of(block: Fields, form: _Form) -> str | None:
    """Return what a search failed with, as its block or its result tells; None without."""
    for path in form.results:
        returned = _field_at(block, path)
        if isinstance(returned, Mapping):
            code = returned.get("error_code")
            if isinstance(code, str):
                return code
            if str(returned.get("type")).endswith("_error"):
                return str(returned["type"])
    is_failed = block.get("status") in ("failed", "error")
    return "the search failed" if is_failed else None
