"""What the provider of a model searched while the model answered. Pure.

A provider may search files or the web inside one call of a model, and the reply names
what was found in a shape of the provider's own. This module reads those shapes from
plain dictionaries: an adapter hands in the mappings of a reply, ``evidence_in_reply``
reads them, and ``add_provider_evidence`` puts what was found below the model's call.
No payload raises: what has no known shape is left out, and a search whose texts are
not there is counted as unread.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from ragmetrics_core.capture.letters import stream
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.tree import CitedSource, Document, Message, Node

# keys under which a reply holds a list of blocks, in LangChain, LlamaIndex, Haystack
# and in the providers' own responses
_BLOCK_KEYS = (
    "content",
    "output",
    "tool_outputs",
    "built_in_tool_calls",
    "raw_content_for_server_tools",
)
_GROUNDING_KEYS = ("grounding_metadata", "groundingMetadata")
_CITATION_KEYS = ("annotations", "citations")

_OWN_TOOL = "or let a tool of the application search, which returns its texts"
FILE_SEARCH_SWITCH = 'include=["file_search_call.results"]'
_OPENAI_FILES = (
    f"OpenAI returns the texts that file_search found with {FILE_SEARCH_SWITCH}"
)
_OPENAI_WEB = (
    "OpenAI names the addresses that web_search found; its results are asked for with"
    f' include=["web_search_call.results"], {_OWN_TOOL}'
)
_ANTHROPIC_WEB = (
    "Anthropic returns the texts that web_search found encrypted, under any setting;"
    " allow its tool web_fetch, whose texts are readable,"
    f" {_OWN_TOOL}"
)
_ANTHROPIC_DOCUMENT = (
    "the answer cites a document whose text does not stand in the prompt, such as a"
    " PDF; hand it in as text"
)
_GEMINI_WEB = (
    "Gemini names the addresses that its search found, under any setting; only"
    f" file search and retrieval return texts, {_OWN_TOOL}"
)
_ANY_PROVIDER = (
    "the provider names sources without their texts; see whether one of its settings"
    f" returns them, {_OWN_TOOL}"
)
_HANDED_ON_NOTHING = (
    "the model could search by {}, and the framework hands on nothing of what it found;"
    " let a tool of the application search, or say where the contexts are by"
    " contexts_from"
)
_OPENAI_CODE = (
    "OpenAI returns what code_interpreter printed with"
    ' include=["code_interpreter_call.outputs"]'
)

# blocks of tools that search for tools, and lists of tools: no evidence
_TOOL_LISTS = ("tool_search", "mcp_list_tools")
_SEARCH_WORDS = ("search", "fetch", "retriev")
# tools of OpenAI that search, as a response lists them
_SEARCHING_TOOLS = ("file_search", "web_search")
_FAILED = ("failed", "error")
# texts of one found item, the fullest first
_TEXT_KEYS = ("text", "content", "page_content", "data")
_QUERY_KEYS = ("query", "queries", "url")
_NAME_KEYS = ("url", "uri", "file_id", "filename", "source", "title", "document_title")
_CITING_FILES = ("container_file_citation", "file_path")  # that the model made itself
_UNNAMED = "provider's tool"
_DEPTH = 6
_LARGEST_SCORE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Annotation:
    """A source that the provider names for a place of the reply.

    Attributes:
        start: Where that place begins in the reply's text; None if it is not told.
        end: Where it ends, behind its last sign.
        names: What the source is called: address, id, file name, title.
        quote: Words of the source; None if none are given.
    """

    start: int | None
    end: int | None
    names: tuple[str, ...] = field(repr=False)
    quote: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One time that a provider searched, or ran another tool of its own.

    Attributes:
        name: The tool's name at the provider.
        searches: Whether it searched; any other tool brings a text.
        query: What it was asked; None if that is not told.
        documents: What it found, with texts; None where no text is known.
        text: What a tool that does not search returned.
        unread: How many sources it named of which the whole text is not known.
        remedy: What makes the provider return these texts, in words.
        error: What it failed with.
        names: What its sources are called.
    """

    name: str
    searches: bool = True
    query: str | None = field(default=None, repr=False)
    documents: tuple[Document, ...] | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    unread: int = 0
    remedy: str = ""
    error: str | None = field(default=None, repr=False)
    names: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class ProviderEvidence:
    """What one reply tells of searches and tools of the provider.

    Attributes:
        calls: The searches and tools, in their order.
        annotations: The sources that are named for places of the reply.
        doubts: What is uncertain, in words: a search that may have been made.
    """

    calls: tuple[ProviderCall, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    doubts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self.calls or self.annotations or self.doubts)

    @property
    def message(self) -> Message | None:
        """What the model was shown of it, as the result of a tool; None for nothing."""
        texts = [
            document.text for call in self.calls for document in call.documents or ()
        ]
        texts += [call.text for call in self.calls if call.text]
        return Message("tool", "\n\n".join(texts)) if texts else None


def evidence_in_reply(*places: object) -> ProviderEvidence:
    """Read what a provider found from the mappings of one reply.

    Args:
        *places: The mappings that hold it, as plain data: a message with ``content``,
            its ``additional_kwargs`` and metadata, a provider's response. Anything
            else is passed over.

    Returns:
        The evidence; empty for a reply without any.

    Examples:
        >>> found = {"type": "file_search_call", "queries": ["lamp"],
        ...          "results": [{"filename": "a.txt", "text": "Anna lit the lamp."}]}
        >>> (call,) = evidence_in_reply({"content": [found]}).calls
        >>> call.name, call.query, [document.text for document in call.documents]
        ('file_search', 'lamp', ['Anna lit the lamp.'])
    """
    reading = _Reading()
    for place in places:
        if isinstance(place, Mapping):
            reading.read_place(place)
    return reading.evidence()


def add_provider_evidence(call: Node, evidence: ProviderEvidence) -> None:
    """Put what a provider found below the model's call in which it searched.

    Each search becomes a retriever, each other tool a tool. What they brought stands at
    the end of the call's prompt: the provider showed it to the model. A source of which
    only cited words are known brings these, unless the prompt holds them already: then
    they cite what the application itself showed.

    Args:
        call: The call of the model; it is changed, once.
        evidence: What its reply tells.
    """
    if any(child.by_provider for child in call.children):
        return
    prompt = [stream(message.text) for message in call.prompt]
    calls = _with_quotes(evidence, prompt)
    shown = ProviderEvidence(tuple(calls)).message
    for found in calls:
        call.children.append(_node(found, call))
    if shown is not None:
        call.prompt = (*call.prompt, shown)
    call.remarks = (*call.remarks, *evidence.doubts)
    if call.reply is not None and evidence.annotations:
        sources = tuple(map(_cited_source, evidence.annotations))
        call.reply = replace(call.reply, cited=sources)


def _cited_source(annotation: Annotation) -> CitedSource:
    """A source that the provider says a part of the reply cites."""
    return CitedSource(
        names=annotation.names,
        quote=annotation.quote,
        start=annotation.start,
        end=annotation.end,
    )


def _node(found: ProviderCall, call: Node) -> Node:
    """A search or a tool of the provider as a call below that of the model.

    It counts as ended when the model's call began: what it found was there when the
    model wrote its answer.
    """
    return Node(
        "retriever" if found.searches else "tool",
        found.name,
        call.began,
        call.began,
        query=found.query,
        documents=found.documents if found.searches else None,
        text=found.text,
        error=found.error,
        by_provider=True,
        unread=found.unread,
        remarks=(found.remedy,) if found.unread and found.remedy else (),
    )


def _with_quotes(
    evidence: ProviderEvidence, prompt: Sequence[bytes]
) -> list[ProviderCall]:
    """The calls of a reply, with the cited words of sources whose texts are not known.

    Words that stand in the prompt are left out.
    """
    calls = list(evidence.calls)
    texts = [document.text for call in calls for document in call.documents or ()]
    known = [*prompt, *map(stream, texts)]
    for names, quotes in _unknown_quotes(evidence, known).items():
        part = Document(" … ".join(quotes), metadata=_named(names))
        place = _search_that_names(calls, names)
        if place is None:
            calls.append(
                ProviderCall(
                    "cited sources",
                    documents=(part,),
                    unread=1,
                    remedy=_ANTHROPIC_DOCUMENT,
                )
            )
        else:
            found = calls[place]
            calls[place] = replace(found, documents=(*(found.documents or ()), part))
    return calls


def _unknown_quotes(
    evidence: ProviderEvidence, known: Sequence[bytes]
) -> dict[tuple[str, ...], list[str]]:
    """The cited words that stand in no known text, by the names of their source."""
    quotes: dict[tuple[str, ...], list[str]] = {}
    for annotation in evidence.annotations:
        letters = stream((annotation.quote or "").strip(" .…"))
        if letters and not any(letters in host for host in known):
            of_source = quotes.setdefault(annotation.names, [])
            if annotation.quote is not None and annotation.quote not in of_source:
                of_source.append(annotation.quote)
    return quotes


def _search_that_names(
    calls: Sequence[ProviderCall], names: Sequence[str]
) -> int | None:
    """The place of the search that names a source and has not all of its text."""
    for place, call in enumerate(calls):
        if call.searches and call.unread and call.names.intersection(names):
            return place
    return None


def _named(names: Sequence[str]) -> dict[str, Any]:
    """Metadata of a source that is known by its names alone."""
    return {"source": names[0]} if names else {}


# Reading


@dataclass(slots=True)
class _Call:
    """A search or tool of the provider while its reply is read.

    Attributes:
        name: The tool's name.
        remedy: What makes the provider return texts.
        searches: Whether it searches.
        queries: What it was asked.
        documents: What it found, with texts.
        addresses: Sources named without a text, each by its names.
        nameless: How many were named without a text or a name.
        texts: What a tool that does not search returned.
        is_answered: Whether a result stands in the reply, be it an empty list.
        error: What it failed with.
    """

    name: str
    remedy: str = _ANY_PROVIDER
    searches: bool = True
    queries: list[str] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    # in the order in which they were named
    addresses: dict[tuple[str, ...], None] = field(default_factory=dict)
    nameless: int = 0
    texts: list[str] = field(default_factory=list)
    is_answered: bool = False
    error: str | None = None

    @property
    def names(self) -> set[str]:
        """What its sources are called."""
        of_documents = [
            str(value)
            for document in self.documents
            for value in document.metadata.values()
        ]
        return {name for names in self.addresses for name in names} | {*of_documents}

    @property
    def query(self) -> str | None:
        """What it was asked; of several texts all as JSON."""
        queries = list(dict.fromkeys(self.queries))
        return (
            queries[0] if len(queries) == 1 else _as_json(queries) if queries else None
        )

    def finished(self) -> ProviderCall:
        """The call as it was read."""
        unread = len(self.addresses) + self.nameless
        if not (self.is_answered or unread or self.error):
            unread = 1
        found_nothing = self.searches and self.is_answered and not unread
        documents = tuple(self.documents) if self.documents or found_nothing else None
        return ProviderCall(
            self.name,
            self.searches,
            self.query,
            None if self.error else documents,
            "\n".join(self.texts) or None,
            0 if self.error else unread,
            self.remedy,
            self.error,
            frozenset(self.names),
        )


@dataclass(slots=True)
class _Reading:
    """What was read of one reply so far."""

    calls: dict[str, _Call] = field(default_factory=dict)
    annotations: dict[Annotation, None] = field(default_factory=dict)
    # names and quotes of the sources that are named for a place
    placed: set[tuple[tuple[str, ...], str | None]] = field(default_factory=set)
    doubts: list[str] = field(default_factory=list)
    whole_text: str = ""  # of the reply, where it is told as one
    block_text: str = ""  # of the blocks that were read so far
    tool_lists: set[str] = field(default_factory=set)  # ids of searches for tools

    @property
    def text(self) -> str:
        """The text of the reply: that of its blocks, where it has some."""
        return self.block_text or self.whole_text

    def read_place(self, place: Mapping[Any, Any]) -> None:
        """Read one mapping of a reply."""
        if isinstance(place.get("content"), str):
            self.whole_text = place["content"]
        for key in _BLOCK_KEYS:
            for block in _mappings(place.get(key)):
                self.read_block(block)
        for key in _GROUNDING_KEYS:
            if isinstance(place.get(key), Mapping):
                self.read_grounding(place[key])
        for key in _CITATION_KEYS:
            self.read_citations(place.get(key), 0)
        for choice in _mappings(place.get("choices")):
            message = choice.get("message")
            if isinstance(message, Mapping):
                self.read_citations(message.get("annotations"), 0)
        self.read_listed_results(place)
        for tool in _mappings(place.get("executed_tools")):
            self.read_executed_tool(tool)
        self.read_tools_of_response(place)

    # Blocks

    def read_block(self, block: Mapping[Any, Any], depth: int = _DEPTH) -> None:
        """Read one block of a reply."""
        kind = block.get("type")
        inner = block.get("value") if kind == "non_standard" else None
        if isinstance(inner, Mapping) and depth:
            self.read_block(inner, depth - 1)
        elif not isinstance(kind, str):
            return
        elif kind == "message" and depth:
            for part in _mappings(block.get("content")):
                self.read_block(part, depth - 1)
        elif kind in ("text", "output_text"):
            self.read_text(block)
        elif kind.startswith(_TOOL_LISTS):
            return
        elif kind in ("server_tool_use", "server_tool_call", "mcp_tool_use"):
            self.read_wish(block, kind)
        elif kind.endswith("_tool_result") or kind == "server_tool_result":
            self.read_result(block, kind)
        elif kind == "file_search_call":
            self.read_search(block, "file_search", _OPENAI_FILES)
        elif kind == "web_search_call":
            self.read_search(block, "web_search", _OPENAI_WEB)
        elif kind in ("code_interpreter_call", "mcp_call"):
            self.read_tool(block, kind)
        elif kind.startswith("response.") and kind.endswith("_search_call.completed"):
            self.read_event(block, kind)
        elif kind == "tool_reference":  # of Mistral
            _add_addresses(self.call("references", "web_search"), [block])
        elif kind.endswith("_search_call"):
            self.read_search(block, kind.removesuffix("_call"), _ANY_PROVIDER)

    def read_text(self, block: Mapping[Any, Any]) -> None:
        """Read a block of text with the sources that are named for it."""
        start = len(self.block_text)
        text = block.get("text")
        if isinstance(text, str):
            self.block_text += text
        whole = (start, len(self.block_text))
        for key in _CITATION_KEYS:
            self.read_citations(block.get(key), start, whole)

    def read_search(self, block: Mapping[Any, Any], name: str, remedy: str) -> None:
        """Read a search of OpenAI, with its results if the reply has them."""
        call = self.call(block.get("id"), name, remedy)
        if call.is_answered:
            return
        action = block.get("action")
        asked = action if isinstance(action, Mapping) else block
        _add_queries(call, asked)
        if _is_list(block.get("results")):
            _add_found(call, block["results"])
        if _is_list(asked.get("sources")):
            _add_addresses(call, asked["sources"])
        elif asked.get("type") in ("open_page", "find_in_page"):
            _add_addresses(call, [asked])
        if block.get("status") in _FAILED:
            call.error = "the search failed"

    def read_event(self, block: Mapping[Any, Any], kind: str) -> None:
        """Read the end of a search as a stream tells it: without results."""
        name = kind.removeprefix("response.").removesuffix("_call.completed")
        remedy = _OPENAI_FILES if name == "file_search" else _OPENAI_WEB
        self.call(block.get("item_id"), name, remedy)

    def read_tool(self, block: Mapping[Any, Any], kind: str) -> None:
        """Read a tool that OpenAI ran and that does not search for itself."""
        name = _name_of_tool(block) or kind.removesuffix("_call")
        remedy = _ANY_PROVIDER if kind == "mcp_call" else _OPENAI_CODE
        call = self.call(block.get("id"), name, remedy)
        if call.is_answered:
            return
        call.searches = False
        _add_queries(call, {"query": block.get("code", block.get("arguments"))})
        _add_output(call, block.get("output", block.get("outputs")))
        if block.get("error"):
            call.error = _as_text(block["error"]) or "the tool failed"

    def read_wish(self, block: Mapping[Any, Any], kind: str) -> None:
        """Read which tool of the provider the model asked for."""
        name = _name_of_tool(block) or _UNNAMED
        if name.startswith(_TOOL_LISTS):
            self.tool_lists.add(_key(block.get("id")))
            return
        call = self.call(block.get("id"), name, _remedy_of(name, kind))
        is_of_a_server = kind == "mcp_tool_use" or block.get("name") == "remote_mcp"
        call.searches = _is_a_search(name) and not is_of_a_server
        arguments = block.get("input", block.get("args"))
        if isinstance(arguments, Mapping):
            _add_queries(call, arguments)
            if not call.searches and not call.queries:
                call.queries.append(_as_json(arguments))

    def read_result(self, block: Mapping[Any, Any], kind: str) -> None:
        """Read what a tool of the provider returned."""
        key = block.get("tool_use_id", block.get("tool_call_id"))
        extras = block.get("extras")
        # what LangChain made its standard block of
        given_kind = extras.get("block_type") if isinstance(extras, Mapping) else None
        told = given_kind if isinstance(given_kind, str) else kind
        name = told.removesuffix("_tool_result")
        if name == "server":
            name = _UNNAMED
        if _key(key) in self.tool_lists:
            return
        call = self.calls.get(_key(key))
        if call is None:
            call = self.call(key, name, _remedy_of(name, kind))
            call.searches = _is_a_search(name)
        if call.is_answered:
            return
        returned = block.get("output", block.get("content"))
        error = _error_in(returned)
        if error is not None or block.get("status") in _FAILED:
            call.error = error or _as_text(returned) or "the tool failed"
        elif not call.searches:
            _add_output(call, returned)
        elif isinstance(returned, Mapping) and _is_list(returned.get("sources")):
            _add_addresses(call, returned["sources"])
        elif isinstance(returned, Mapping):
            _add_found(call, [returned])
        elif _is_list(returned):
            _add_found(call, returned)
        elif isinstance(returned, str) and kind == "server_tool_result":
            _add_found(call, [{"text": returned}])

    # Whole replies

    def read_grounding(self, grounding: Mapping[Any, Any]) -> None:
        """Read the grounding metadata of Gemini."""
        chunks = [*_mappings(_either(grounding, "grounding_chunks"))]
        queries = [
            query
            for key in ("web_search_queries", "retrieval_queries")
            for query in _texts(_either(grounding, key))
        ]
        if not chunks and not queries:
            return
        retrieved = [_either(chunk, "retrieved_context") for chunk in chunks]
        is_of_files = any(isinstance(one, Mapping) for one in retrieved)
        name = "file_search" if is_of_files else "google_search"
        call = self.call("grounding", name, _GEMINI_WEB)
        if call.is_answered:
            return
        call.queries += queries
        if chunks:
            _add_found(call, [_source_of_chunk(chunk) for chunk in chunks])
        self.read_supports(grounding, chunks)

    def read_supports(
        self, grounding: Mapping[Any, Any], chunks: Sequence[Mapping[Any, Any]]
    ) -> None:
        """Read which chunks Gemini names for which part of the reply.

        The parts are told in bytes of the reply's text.
        """
        letters = self.text.encode(errors="replace")
        for support in _mappings(_either(grounding, "grounding_supports")):
            segment = support.get("segment")
            bounds = segment if isinstance(segment, Mapping) else {}
            start = _characters(letters, _either(bounds, "start_index") or 0)
            end = _characters(letters, _either(bounds, "end_index"))
            places = _either(support, "grounding_chunk_indices")
            for place in places if _is_list(places) else ():
                if not _is_place(place) or place >= len(chunks):
                    continue
                source = _source_of_chunk(chunks[place])
                annotation = Annotation(start, end, _names_of(source))
                if annotation.names:
                    self.add_annotation(annotation)

    def read_listed_results(self, place: Mapping[Any, Any]) -> None:
        """Read addresses that a provider lists beside its reply, as Perplexity and xAI do."""
        results = [*_mappings(place.get("search_results"))]
        addresses = [
            address
            for address in _texts(place.get("citations"))
            if address not in {name for one in results for name in _names_of(one)}
        ]
        if results or addresses:
            call = self.call("listed", "web_search")
            _add_found(call, results)
            call.addresses.update({(address,): None for address in addresses})

    def read_executed_tool(self, tool: Mapping[Any, Any]) -> None:
        """Read a tool that Groq ran."""
        kind = tool.get("type")
        name = kind if isinstance(kind, str) else _UNNAMED
        call = self.call(None, name)
        call.searches = _is_a_search(name)
        _add_queries(call, {"query": tool.get("arguments")})
        results = tool.get("search_results")
        listed = results.get("results") if isinstance(results, Mapping) else None
        if _is_list(listed):
            _add_found(call, listed)
        elif call.searches and isinstance(tool.get("output"), str):
            _add_found(call, [{"text": tool["output"]}])
        else:
            _add_output(call, tool.get("output"))

    def read_tools_of_response(self, place: Mapping[Any, Any]) -> None:
        """Note a search that may have been made where the reply's output was dropped."""
        if place.get("object") != "response" or "output" in place:
            return
        kinds = [tool.get("type") for tool in _mappings(place.get("tools"))]
        names = [
            kind
            for kind in kinds
            if isinstance(kind, str) and kind.startswith(_SEARCHING_TOOLS)
        ]
        if names:
            self.doubts.append(_HANDED_ON_NOTHING.format(" and ".join(names)))

    # Sources named for places of the reply

    def read_citations(
        self, listed: object, offset: int, block: tuple[int, int] | None = None
    ) -> None:
        """Read the sources that are named for a text.

        Args:
            listed: The list of them.
            offset: Where that text begins in the reply's text.
            block: Where it begins and ends; it is cited for as a whole where no place
                is told.
        """
        for citation in _mappings(listed):
            annotation = _annotation(citation, offset, block)
            if annotation is not None:
                self.add_annotation(annotation)

    def add_annotation(self, annotation: Annotation) -> None:
        """Add a source, unless it was named before for a place that is told only there."""
        source = annotation.names, annotation.quote
        if annotation.start is not None:
            self.placed.add(source)
        elif source in self.placed:
            return
        self.annotations[annotation] = None

    def call(self, key: object, name: str, remedy: str = _ANY_PROVIDER) -> _Call:
        """The call of an id; a call without an id is a new one."""
        known = _key(key) or f"{name} {len(self.calls)}"
        return self.calls.setdefault(known, _Call(name, remedy))

    def evidence(self) -> ProviderEvidence:
        """What was read, as a frozen value."""
        own_words = as_one_line(self.text)
        annotations = tuple(
            _without_own_words(annotation, own_words) for annotation in self.annotations
        )
        self._add_cited_sources(annotations)
        calls = tuple(call.finished() for call in self.calls.values())
        return ProviderEvidence(calls, annotations, tuple(dict.fromkeys(self.doubts)))

    def _add_cited_sources(self, annotations: Sequence[Annotation]) -> None:
        """Count cited sources that no search of the reply names.

        Those with words of the source are left to ``add_provider_evidence``, which
        knows the prompt.
        """
        known = {name for call in self.calls.values() for name in call.names}
        for annotation in annotations:
            is_known = bool(known.intersection(annotation.names))
            if is_known or annotation.quote is not None:
                continue
            known.update(annotation.names)
            call = self._search_of_cited(annotation)
            if annotation.names:
                call.addresses[annotation.names] = None
            else:
                call.nameless += 1

    def _search_of_cited(self, annotation: Annotation) -> _Call:
        """The search that a cited source belongs to: the last one without texts."""
        open_calls = [
            call
            for call in self.calls.values()
            if call.searches and not call.documents and not call.error
        ]
        if open_calls:
            return open_calls[-1]
        is_address = any("://" in name for name in annotation.names)
        name = "web_search" if is_address else "file_search"
        return self.call("cited", name, _OPENAI_WEB if is_address else _OPENAI_FILES)


def _annotation(
    citation: Mapping[Any, Any], offset: int, block: tuple[int, int] | None
) -> Annotation | None:
    """A source named for a place of the reply; None for a file that the model made."""
    kind = citation.get("type")
    if kind in _CITING_FILES:
        return None
    # what stands inside: of an older API the citation, of LangChain any other form
    for key in ("url_citation", "file_citation", "value"):
        inner = citation.get(key)
        if isinstance(inner, Mapping):
            citation = inner
    names = _names_of(citation)
    quote = _quote_of(citation)
    if not names and quote is None:
        return None
    start, end = citation.get("start_index"), citation.get("end_index")
    if _is_place(start) and _is_place(end) and start <= end:
        return Annotation(start + offset, end + offset, names, quote)
    first, behind = block or (None, None)
    return Annotation(first, behind, names, quote)


def _quote_of(citation: Mapping[Any, Any]) -> str | None:
    """Words of the cited source; None if none are given."""
    parts = [citation.get("cited_text")]
    parts += [
        part.get("text") for part in _mappings(_either(citation, "source_content"))
    ]
    words = [part for part in parts if isinstance(part, str) and part.strip()]
    return " … ".join(words) or None


def _without_own_words(annotation: Annotation, own_words: str) -> Annotation:
    """An annotation without a quote that is the reply's own text.

    LangChain gives as cited text of Gemini the part of the answer that is cited for.
    """
    quote = as_one_line(annotation.quote)
    if not quote or quote not in own_words:
        return annotation
    return Annotation(annotation.start, annotation.end, annotation.names)


# What was found


def _add_found(call: _Call, items: Sequence[object]) -> None:
    """Add the items of a list of results: documents, or addresses without a text."""
    call.is_answered = True
    for item in items:
        fields = item if isinstance(item, Mapping) else {}
        text = _text_of_item(fields)
        names = _names_of(fields)
        if "encrypted_content" in fields:
            call.remedy = _ANTHROPIC_WEB
        if text is not None and text.strip():
            call.documents.append(_document(text, fields))
        elif names:
            _add_address(call, names)
        else:
            call.nameless += 1


def _add_addresses(call: _Call, sources: Sequence[object]) -> None:
    """Add sources that are named without a text."""
    for source in _mappings(sources):
        _add_address(call, _names_of(source))


def _add_address(call: _Call, names: tuple[str, ...]) -> None:
    if names:
        call.addresses[names] = None


def _document(text: str, fields: Mapping[Any, Any]) -> Document:
    """A found item as a document.

    It has no id: the chunks of one file share that of the file, which its metadata
    keeps.
    """
    inner = fields.get("attributes")
    attributes = inner if isinstance(inner, Mapping) else {}
    metadata = {
        str(key): value
        for key, value in {**attributes, **fields}.items()
        if isinstance(value, (str, int, float)) and key not in (*_TEXT_KEYS, "type")
    }
    return Document(text, None, _score(fields.get("score")), metadata)


def _score(value: object) -> float | None:
    """A score that is a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    is_huge = isinstance(value, int) and abs(value) > _LARGEST_SCORE
    return None if is_huge or not math.isfinite(value) else float(value)


def _text_of_item(item: Mapping[Any, Any], depth: int = _DEPTH) -> str | None:
    """The text of a found item, also where documents stand inside each other."""
    if item.get("type") == "base64":
        return None
    for key in _TEXT_KEYS:
        value = item.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, Mapping) and depth:
            return _text_of_item(value, depth - 1)
        if _is_list(value) and depth:
            parts = [_text_of_item(part, depth - 1) for part in _mappings(value)]
            return "\n".join(part for part in parts if part) or None
    source = item.get("source")
    if isinstance(source, Mapping) and depth:
        return _text_of_item(source, depth - 1)
    return None


def _names_of(fields: Mapping[Any, Any]) -> tuple[str, ...]:
    """What a source is called: its address, id, file name and title."""
    extras = fields.get("extras")
    holders = [fields, extras] if isinstance(extras, Mapping) else [fields]
    names = [
        holder[key]
        for key in _NAME_KEYS
        for holder in holders
        if isinstance(holder.get(key), str) and holder[key].strip()
    ]
    return tuple(dict.fromkeys(names))


def _source_of_chunk(chunk: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """What a chunk of Gemini's grounding metadata holds, of the kinds it may be of."""
    for kind in ("retrieved_context", "web", "maps", "image"):
        source = _either(chunk, kind)
        if isinstance(source, Mapping):
            return source
    return {}


def _add_queries(call: _Call, fields: Mapping[Any, Any]) -> None:
    """Add what a call was asked."""
    for key in _QUERY_KEYS:
        value = fields.get(key)
        queries = [value] if isinstance(value, str) else [*_texts(value)]
        if queries:
            call.queries += queries
            return


def _add_output(call: _Call, returned: object) -> None:
    """Add what a tool that does not search returned, as text."""
    call.is_answered = returned is not None
    text = _as_text(returned)
    if text:
        call.texts.append(text)


def _as_text(returned: object, depth: int = _DEPTH) -> str:
    """What a tool returned, as text: logs, blocks of text, else JSON."""
    if isinstance(returned, str):
        return returned
    if isinstance(returned, Mapping):
        for key in ("text", "logs", "stdout", "message", "content"):
            value = returned.get(key)
            if isinstance(value, str):
                return value
            if _is_list(value) and value and depth:
                return _as_text(value, depth - 1)
    elif _is_list(returned) and depth:
        parts = [_as_text(part, depth - 1) for part in returned]
        return "\n".join(part for part in parts if part)
    return "" if returned is None else _as_json(returned)


def _as_json(value: object) -> str:
    """A value as JSON; empty for one that is none."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return ""


def _error_in(returned: object) -> str | None:
    """The error in what a tool of Anthropic returned; None for a result."""
    if not isinstance(returned, Mapping):
        return None
    code = returned.get("error_code")
    kind = returned.get("type")
    if isinstance(code, str):
        return code
    is_error = isinstance(kind, str) and kind.endswith("_error")
    return str(kind) if is_error else None


def _name_of_tool(block: Mapping[Any, Any]) -> str | None:
    """The name of the tool that a block calls; of a remote server's the tool's own."""
    extras = block.get("extras")
    names = [extras.get("tool_name")] if isinstance(extras, Mapping) else []
    names.append(block.get("name"))
    return next((name for name in names if isinstance(name, str) and name), None)


def _is_a_search(name: str) -> bool:
    """Whether a tool of a provider searches, by its name."""
    return any(word in name for word in _SEARCH_WORDS)


def _remedy_of(name: str, kind: str) -> str:
    """What makes a provider return the texts that a tool found."""
    if name == "file_search":
        return _OPENAI_FILES
    if kind in ("server_tool_use", "web_search_tool_result"):
        return _ANTHROPIC_WEB
    return _ANY_PROVIDER


# Values of any kind


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list or a tuple."""
    return isinstance(value, (list, tuple))


def _is_place(value: object) -> TypeGuard[int]:
    """Whether a value is a place in a text or a list, counted from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _mappings(value: object) -> Iterator[Mapping[Any, Any]]:
    """The mappings of a list; none for anything else."""
    if isinstance(value, (list, tuple)):
        yield from (element for element in value if isinstance(element, Mapping))


def _texts(value: object) -> Iterator[str]:
    """The texts of a list that are not blank; none for anything else."""
    if isinstance(value, (list, tuple)):
        for element in value:
            if isinstance(element, str) and element.strip():
                yield element


def _either(fields: Mapping[Any, Any], name: str) -> Any:
    """A field by its name in Python, else by the name that it has in JSON."""
    first, *others = name.split("_")
    in_json = first + "".join(word.capitalize() for word in others)
    return fields.get(name, fields.get(in_json))


def _key(value: object) -> str:
    """The id of a call; empty for none."""
    return value if isinstance(value, str) else ""


def _characters(letters: bytes, place: object) -> int | None:
    """A place told in bytes of a text, as one in its characters; None for no place."""
    if not _is_place(place):
        return None
    return len(letters[:place].decode(errors="ignore"))
