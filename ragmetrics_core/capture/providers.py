"""What the provider of a model searched while the model answered, read from its reply. Pure.

One table says where OpenAI's Responses and Gemini tell what they found, with its texts.
Whatever else tells of a search is not read, Anthropic's encrypted results included: the
sample is incomplete.

Example: ``{"type": "file_search_call", "queries": ["lamp"], "results": [{"filename":
"a.txt", "text": "Anna lit the lamp."}]}`` becomes a retriever below the model's call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.structures import compact, find_instances, parse_json
from ragmetrics_core.capture.tree import CitedSource, Document, Message, Node
from ragmetrics_core.data.scalars import is_number

Fields = Mapping[Any, Any]  # a JSON object, or what looks like one

_NOT_TOLD = (
    "of what the provider's {} found, or they are told in a form that is not read: OpenAI"
    ' returns them with include=["file_search_call.results"], and of the web at most with'
    ' "web_search_call.results"; Anthropic returns those of the web encrypted; Gemini'
    " returns the addresses of the web alone; let a tool of the application search, which"
    " returns its texts, or say where the contexts are by contexts_from"
)
_TOLD = "file_search"  # the name of a search whose texts are told
_UNREAD = "search"  # the name of one of which nothing else is known


@dataclass(frozen=True)
class _Form:
    """Where a reply tells what a search found.

    Attributes:
        queries: The path of what was asked.
        results: The field with what was found.
        text: The path of the text inside one result.
    """

    queries: str
    results: str
    text: str


# by the type of a block, or the name of a field
_FORMS = {
    # OpenAI's Responses
    "file_search_call": _Form("queries", "results", "text"),
    # Gemini
    "grounding_metadata": _Form(
        "web_search_queries", "grounding_chunks", "retrieved_context.text"
    ),
}

# fields that are the application's own, repeat the request, or only count
_FIELDS_PASSED_OVER = (
    *("args", "arguments", "function_call", "tool_calls", "parsed", "input"),
    *("tools", "tool_choice", "usage_metadata", "token_usage", "logprobs"),
)
# types of blocks, and names of fields, that tell of a search
_TELLS_OF_SEARCH = re.compile(
    r"search|fetch|retriev|grounding|reference|citation|execut|interpreter|mcp"
    r"|url_context|annotations|_tool_(?:result|use)\Z",
    re.IGNORECASE,
)
# searches for tools, and files that the model made
_NO_SEARCH = re.compile(
    r"tool_search|mcp_list_tools|container_file_citation|file_path|citation_metadata"
)
_TOOLS_OF_APPLICATION = ("function", "custom")  # of a request to OpenAI
# models that search by themselves, by their names
_SEARCHING_MODEL = re.compile(
    r"-search-(?:preview|api)\b|\bsonar\b|\bcompound(?:-beta)?\b|:online\b"
)
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class ProviderSearch:
    """One time that a provider searched.

    Attributes:
        name: What the provider calls it.
        query: What it was asked; None if that is not told.
        documents: What it found, with texts.
        is_told: Whether these are all that it found.
    """

    name: str
    query: str | None = field(default=None, repr=False)
    documents: tuple[Document, ...] = field(default=(), repr=False)
    is_told: bool = False


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
    evidence = ProviderEvidence()
    for place in places:
        if isinstance(place, Mapping):
            evidence.read(place)
            if place.get("object") == "response" and "output" not in place:
                # of OpenAI's response, where a framework dropped its output
                kinds = [each.get("type") for each in _objects_at(place, "tools")]
                for kind in kinds:
                    if kind and str(kind) not in _TOOLS_OF_APPLICATION:
                        evidence.unread.append(str(kind))
    return evidence


def may_tell_of_search(chunk: object) -> bool:
    """Whether a chunk of a streamed reply tells, or may tell, that the provider searched.

    A piece of a call's arguments (``input_json_delta``) does not say whose tool it is for:
    the provider's own search, or a tool of the application. Chunks are not put together:
    what was found stays unknown, if the last chunk does not hold it.
    """
    evidence = ProviderEvidence()
    evidence.read(chunk)
    kinds = [*_values_at(chunk, "type"), *_values_at(chunk, "delta.type")]
    return "input_json_delta" in kinds or bool(evidence)


@dataclass(slots=True)
class ProviderEvidence:
    """What one reply tells of the searches of the provider, as far as it was read.

    Attributes:
        told: The searches that are told in a form of the table.
        citations: The sources that the provider names for parts of the reply.
        unread: Names of whatever else tells of a search.
    """

    told: list[ProviderSearch] = field(default_factory=list)
    citations: list[CitedSource] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether the reply tells of anything."""
        return bool(self.searches or self.citations)

    @property
    def searches(self) -> list[ProviderSearch]:
        """All searches, those that are told first."""
        # a stream tells once more that a search has ended
        others = [
            ProviderSearch(name)
            for name in dict.fromkeys(self.unread)
            if not any(search.name in name for search in self.told)
        ]
        return [*self.told, *others]

    def read(self, value: object, depth: int = _DEEPEST) -> None:
        """Read any value of a reply, and the blocks inside it."""
        value = _plain(value)
        if isinstance(value, (list, tuple)) and depth:
            for element in value:
                self.read(element, depth - 1)
        elif isinstance(value, Mapping) and depth:
            self._read_block(value, depth)

    def _read_block(self, block: Fields, depth: int) -> None:
        """Read one object: a search, or what holds citations and other blocks."""
        kind = block.get("type")
        kind = kind if isinstance(kind, str) else ""
        if kind in _FORMS:
            self._read_search(_FORMS[kind], block)
        elif _mentions_search(kind):
            self._note_unread(f"{kind} {block.get('name', '')}")
        else:
            for key, value in block.items():
                if key not in _FIELDS_PASSED_OVER:
                    self._read_field(str(key), _plain(value), block, depth)

    def _read_field(self, key: str, value: object, block: Fields, depth: int) -> None:
        """Read a field of an object that is no block of a known kind."""
        if key in ("annotations", "citations"):
            text = block.get("text")
            part = text if isinstance(text, str) else None
            for cited in _values_at(value, ""):
                kind = cited.get("type") if isinstance(cited, Mapping) else ""
                # numbers are a structured reply's own
                if not is_number(cited) and not _NO_SEARCH.search(str(kind)):
                    quote = next(_texts_at(cited, "cited_text"), None)
                    self.citations.append(CitedSource(_names_of(cited), quote, part))
        elif not _mentions_search(key):
            self.read(value, depth - 1)
        elif any(find_instances(value, str, int, float)):  # else it did not search
            if key in _FORMS and isinstance(value, Mapping):
                self._read_search(_FORMS[key], value)
            else:
                self._note_unread(key)

    def _note_unread(self, name: str) -> None:
        """Note that something of this name tells of a search, and is not read."""
        if not _NO_SEARCH.search(name):
            self.unread.append(name.strip())

    def _read_search(self, form: _Form, block: Fields) -> None:
        """Read a search by its row of the table. It may be told twice."""
        results = block.get(form.results)
        is_told = isinstance(results, (list, tuple))
        results = results if isinstance(results, (list, tuple)) else ()
        documents = []
        for result in results:
            text = next(_texts_at(result, form.text), None)
            if text is None:
                is_told = False
            else:
                documents.append(_document(text, result))
        queries = list(dict.fromkeys(_texts_at(block, form.queries)))
        query = compact(queries) if queries[1:] else next(iter(queries), None)
        search = ProviderSearch(_TOLD, query, tuple(documents), is_told)
        if search not in self.told:
            self.told.append(search)
        # which results Gemini names for which parts of the reply
        for support in _objects_at(block, "grounding_supports"):
            part = next(_texts_at(support, "segment.text"), None)
            for index in _values_at(support, "grounding_chunk_indices"):
                is_there = isinstance(index, int) and index in range(len(results))
                result = results[index] if is_there else None
                quote = next(_texts_at(result, form.text), None)
                self.citations.append(CitedSource(_names_of(result), quote, part))


# Into the tree


def add_provider_evidence(
    call: Node, *places: object, has_searched_unread: bool = False
) -> None:
    """Add to a model's call what its provider searched for while the model answered.

    OpenAI's file_search found "It fell.": a retriever with this document is added below
    the call, and its text at the end of the prompt. When a framework hands on a reply
    for the second time, only the cited sources are replaced.

    Args:
        call: The call of the model, with its prompt. It is changed.
        *places: What its reply tells, as for ``evidence_in_reply``.
        has_searched_unread: Whether the provider is known to have searched, also where
            these places tell of no search.
    """
    # a structured reply may have fields that are named like those of providers
    own = None if call.reply is None else parse_json(call.reply.text)
    evidence = evidence_in_reply(*(place for place in places if place != own))
    if call.reply is not None and evidence.citations:
        call.reply = replace(call.reply, cited_sources=tuple(evidence.citations))
    if any(child.by_provider for child in call.children):
        return
    searches = evidence.searches
    # what the model was shown of it, as the result of a tool
    texts = [document.text for search in searches for document in search.documents]
    if texts:
        call.prompt = (*call.prompt, Message("tool", "\n\n".join(texts)))
    if not evidence and _SEARCHING_MODEL.search(call.model or ""):
        has_searched_unread = True
    if has_searched_unread and not searches:
        searches = [ProviderSearch(_UNREAD)]
    is_told = all(search.is_told for search in searches)
    if is_told and _cites_unseen(evidence, call.prompt):
        searches.append(ProviderSearch("cited sources"))
    for search in searches:
        # It counts as ended when the model's call began: what it found was there when the
        # model wrote its answer.
        node = Node(
            "retriever", search.name, call.began, call.began, query=search.query
        )
        node.by_provider = True
        node.documents = search.documents or (() if search.is_told else None)
        if not search.is_told:
            node.evidence_not_recorded = (_NOT_TOLD.format(search.name),)
        call.children.append(node)
    if not is_told:
        call.may_have_searched = True


def _cites_unseen(evidence: ProviderEvidence, prompt: Sequence[Message]) -> bool:
    """Whether the reply cites a source that neither a search nor the prompt tells."""
    known_names: set[str] = set()
    for search in evidence.searches:
        for document in search.documents:
            known_names.update(map(str, document.metadata.values()))
    for cited in evidence.citations:
        quote = letters_of(cited.quote)
        is_quoted = bool(quote) and any(
            quote in letters_of(message.text) for message in prompt
        )
        if not is_quoted and known_names.isdisjoint(cited.names):
            return True
    return False


# Values of a reply: any JSON; nothing is taken for granted


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


def _texts_at(value: Any, path: str) -> Iterator[str]:
    """Yield the texts at a path that are not blank, of a list each element."""
    texts = (each for each in _values_at(value, path) if isinstance(each, str))
    return (text for text in texts if text.strip())


@lru_cache(maxsize=1024)  # replies repeat their few names, and agents their replies
def _mentions_search(name: str) -> bool:
    """Whether the name of a field, or the type of a block, is one of a search."""
    return _TELLS_OF_SEARCH.search(name) is not None


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else value


def _names_of(source: object) -> tuple[str, ...]:
    """What a source may be called: its address, id, file name or title; any text in it."""
    return tuple(find_instances(_plain(source), str))


def _document(text: str, result: Fields) -> Document:
    """A result as a document, without an id: the chunks of one file share that of the file."""
    metadata: dict[str, Any] = {}
    for fields in (*_objects_at([*result.values()], ""), result):
        for key, value in fields.items():
            if isinstance(value, (str, int, float)) and value != text:
                metadata[str(key)] = value
    score = result.get("score")
    is_finite = is_number(score) and math.isfinite(score)
    return Document(text, None, score if is_finite else None, metadata)
