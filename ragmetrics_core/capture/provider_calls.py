"""One search or tool of a model's provider, as its reply tells it. Pure.

A provider may search the web or files by itself while its model answers, and name a
source by its address alone. Then the model was shown a text that nobody recorded, and
the source counts as one without a text. A **remedy** is advice to the user that makes
the provider return these texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ragmetrics_core.capture.provider_payloads import (
    DEEPEST,
    Fields,
    as_json,
    as_text,
    finite_score,
    inner_object,
    is_list,
    objects_in,
    words_in,
)
from ragmetrics_core.capture.provider_remedies import (
    ANTHROPIC_FETCH,
    ANTHROPIC_WEB,
    ANY_PROVIDER,
    NO_RESULT,
    SNIPPETS,
)
from ragmetrics_core.capture.tree import Document
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# Keys that hold the text of a found item, the fullest first.
_TEXT_KEYS = ("text", "content", "page_content", "data")
# Keys that hold what a tool was asked; a tool that fetches is asked for an address.
_QUERY_KEYS = ("query", "queries", "url")
# Keys that say what a source is called.
_NAME_KEYS = ("url", "uri", "file_id", "filename", "source", "title", "document_title")
# What OpenAI adds to each address that it cites.
_MARK_OF_OPENAI = lazy_pattern(r"(?<=[?&])utm_source=openai&|[?&]utm_source=openai\b")
_WORDS_OF_SEARCHES = ("search", "fetch", "retriev")


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One time that a provider searched, or ran another tool of its own.

    Attributes:
        name: The tool's name at the provider.
        searches: Whether it searched; any other tool returns a text.
        query: What it was asked; None if that is not told.
        documents: What it found, with texts; () if it found nothing; None where no
            text is known.
        text: What a tool that does not search returned.
        sources_without_text: The names of each source that it named without its whole
            text; () for a source without a name.
        remedy: Advice for the user: how to make the provider return these texts.
        error: What it failed with.
        source_names: What its sources are called.
    """

    name: str
    searches: bool = True
    query: str | None = field(default=None, repr=False)
    documents: tuple[Document, ...] | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    sources_without_text: tuple[tuple[str, ...], ...] = ()
    remedy: str = ""
    error: str | None = field(default=None, repr=False)
    source_names: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(slots=True)
class CallBeingRead:
    """A search or tool of the provider while its reply is read.

    Attributes:
        name: The tool's name.
        remedy: Advice for the user: how to make the provider return whole texts.
        searches: Whether it searches.
        queries: What it was asked.
        documents: What it found, with texts.
        names_without_text: The names of each source without a text, in their order.
        n_nameless: How many sources were told without a text or a name.
        outputs: What a tool that does not search returned.
        is_answered: Whether a result stands in the reply, be it an empty list.
        error: What it failed with; None if it did not.
    """

    name: str
    remedy: str = ANY_PROVIDER
    searches: bool = True
    queries: list[str] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    names_without_text: dict[tuple[str, ...], None] = field(default_factory=dict)
    n_nameless: int = 0
    outputs: list[str] = field(default_factory=list)
    is_answered: bool = False
    error: str | None = None

    @property
    def source_names(self) -> set[str]:
        """What its sources are called: addresses, ids, file names, titles."""
        names = {name for names in self.names_without_text for name in names}
        for document in self.documents:
            names.update(str(value) for value in document.metadata.values())
        return names

    @property
    def query(self) -> str | None:
        """What it was asked; of several texts all as JSON, None if it is not told."""
        queries = list(dict.fromkeys(self.queries))
        if not queries:
            return None
        return queries[0] if len(queries) == 1 else as_json(queries)

    def add_queries(self, fields: Fields) -> None:
        """Add what the call was asked, from the first field that tells it."""
        for key in _QUERY_KEYS:
            value = fields.get(key)
            queries = [value] if isinstance(value, str) else list(words_in(value))
            if queries:
                self.queries += queries
                return

    def add_arguments(self, arguments: Fields) -> None:
        """Add what a tool was asked by its arguments: the query among them.

        Of a tool that does not search, all arguments together without such a query.
        """
        self.add_queries(arguments)
        if not self.searches and not self.queries:
            self.queries.append(as_json(arguments))

    def add_results(self, items: Iterable[object]) -> None:
        """Add the items of a list of results, as documents or as sources without a text."""
        self.is_answered = True
        for item in items:
            self._add_result(item if isinstance(item, Mapping) else {})

    def _add_result(self, item: Fields) -> None:
        """Add an item of a list of results: a document, or a source without its text.

        ``{"url": "https://a.test", "content": "It fell."}`` is a document.
        """
        if "encrypted_content" in item:
            # Anthropic encrypts the pages that its own search found
            self.remedy = ANTHROPIC_WEB
        text = text_of_item(item)
        if text is not None and text.strip():
            self.documents.append(document_of_source(text, item))
        else:
            self._add_result_without_text(item)

    def _add_result_without_text(self, item: Fields) -> None:
        """Add a found source whose whole text the reply does not hold.

        A snippet of the text becomes a document. The ``remedy`` says how the user gets
        the rest of the text.
        """
        if self.name == "web_fetch":
            self.remedy = ANTHROPIC_FETCH
        snippet = item.get("snippet")
        if isinstance(snippet, str) and snippet.strip():
            self.documents.append(document_of_source(snippet, item))
            self.remedy = SNIPPETS
        self.add_source_without_text(names_of_source(item))

    def add_sources_without_text(self, sources: object) -> None:
        """Add the sources of a list that are named without a text."""
        for source in objects_in(sources):
            names = names_of_source(source)
            if names:
                self.add_source_without_text(names)

    def add_source_without_text(self, names: tuple[str, ...]) -> None:
        """Add a source without a text, by its names; () for one that is only told to be there."""
        if names:
            self.names_without_text[names] = None
        else:
            self.n_nameless += 1

    def add_output(self, returned: object) -> None:
        """Add what a tool that does not search returned; None means that it is not told.

        Anthropic encrypts what code printed of the pages that it searched.
        """
        self.is_answered = returned is not None
        if isinstance(returned, Mapping) and "encrypted_stdout" in returned:
            self.remedy = ANTHROPIC_WEB
            self.add_source_without_text(())
            return
        text = as_text(returned)
        if text:
            self.outputs.append(text)

    def frozen(self) -> ProviderCall:
        """Return the call as it was read, as a frozen value."""
        if self.error:
            return ProviderCall(self.name, self.searches, self.query, error=self.error)
        return ProviderCall(
            self.name,
            self.searches,
            self.query,
            documents=self._documents_known(),
            text="\n".join(self.outputs) or None,
            sources_without_text=self._sources_without_text(),
            remedy=self._advice(),
            source_names=frozenset(self.source_names),
        )

    @property
    def _is_result_missing(self) -> bool:
        """Whether the reply holds nothing of what the call found or returned."""
        return not (self.is_answered or self.names_without_text or self.n_nameless)

    def _sources_without_text(self) -> tuple[tuple[str, ...], ...]:
        """List the texts that the model may have been shown, and that are not known.

        A call without any result in the reply counts for one text.
        """
        n_nameless = 1 if self._is_result_missing else self.n_nameless
        return (*self.names_without_text, *((),) * n_nameless)

    def _advice(self) -> str:
        """Advice for the user: of a call without a result, where its result may be."""
        names_sources = self.remedy == ANY_PROVIDER
        return NO_RESULT if self._is_result_missing and names_sources else self.remedy

    def _documents_known(self) -> tuple[Document, ...] | None:
        """Return the documents; () for a search that found nothing, None if unknown."""
        has_found_nothing = self.searches and not self._sources_without_text()
        if self.documents or has_found_nothing:
            return tuple(self.documents)
        return None


def is_name_of_search(tool_name: str) -> bool:
    """Whether a tool of a provider searches, by its name."""
    return any(word in tool_name for word in _WORDS_OF_SEARCHES)


def names_of_source(fields: Fields) -> tuple[str, ...]:
    """What a source is called: its address, id, file name and title; () for no name.

    LangChain keeps some of them under ``extras``, Anthropic the title of a fetched page
    under ``content``. An address that OpenAI marked as its own is a name without this
    mark as well.
    """
    holders = [fields, inner_object(fields, "extras"), inner_object(fields, "content")]
    names: list[str] = []
    for key in _NAME_KEYS:
        for holder in holders:
            name = holder.get(key)
            if isinstance(name, str) and name.strip():
                names += [name, _MARK_OF_OPENAI.sub("", name)]
    return tuple(dict.fromkeys(names))


def document_of_source(text: str, fields: Fields) -> Document:
    """A found item as a document.

    It has no id: the chunks of one file share the id of the file, which stands in the
    metadata.
    """
    all_fields = {**inner_object(fields, "attributes"), **fields}
    metadata = {
        str(key): value
        for key, value in all_fields.items()
        if isinstance(value, (str, int, float))
        and key not in (*_TEXT_KEYS, "snippet", "type")
    }
    return Document(text, None, finite_score(fields.get("score")), metadata)


def text_of_item(item: Fields, depth: int = DEEPEST) -> str | None:
    """Find the text of a found item, also inside a nested document or a list of parts.

    Example: "It fell." in ``{"content": [{"type": "text", "text": "It fell."}]}``. None
    if the item has no text, such as a file in base64. ``depth`` is how many levels of
    nested objects are searched.
    """
    if item.get("type") == "base64":
        return None
    for key in _TEXT_KEYS:
        value = item.get(key)
        if isinstance(value, str):
            return value
        if depth and (isinstance(value, Mapping) or is_list(value)):
            return _text_inside(value, depth - 1)
    # Anthropic keeps the text of a fetched page in its "source"
    source = item.get("source")
    if isinstance(source, Mapping) and depth:
        return text_of_item(source, depth - 1)
    return None


def _text_inside(value: object, depth: int) -> str | None:
    """Find the text of an object, or the texts of a list of objects, joined by lines."""
    if isinstance(value, Mapping):
        return text_of_item(value, depth)
    texts = [text_of_item(part, depth) for part in objects_in(value)]
    return "\n".join(text for text in texts if text) or None
