"""What the provider of a model searched while the model answered, read from its reply. Pure.

A provider may search files or the web inside one call of a model, and the reply names
what was found in a form of the provider's own. OpenAI writes ``{"type":
"file_search_call", "queries": ["lamp"], "results": [{"filename": "a.txt", "text":
"Anna lit the lamp."}]}``. The forms are read from plain dictionaries. No reply raises
an error: a block of an unknown form is left out, and a search without its texts counts
as a source without a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragmetrics_core.capture import provider_remedies as remedies
from ragmetrics_core.capture.plain_values import as_one_line
from ragmetrics_core.capture.provider_calls import (
    CallBeingRead,
    ProviderCall,
    is_name_of_search,
)
from ragmetrics_core.capture.provider_citations import (
    Annotation,
    annotation_of,
    annotations_of_grounding,
    is_of_models_file,
)
from ragmetrics_core.capture.provider_payloads import (
    DEEPEST,
    GROUNDING_KEYS,
    PAGE_KEYS,
    Fields,
    arguments_in,
    as_text,
    field_of,
    inner_object,
    is_list,
    is_place,
    objects_in,
    words_in,
)
from ragmetrics_core.capture.tree import Message
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# Keys under which a reply holds a list of blocks: in LangChain, in LlamaIndex, in
# Haystack, and in the providers' own responses.
_BLOCK_KEYS = (
    "content",  # the first one: it may be a bare text as well
    "output",
    "tool_outputs",
    "built_in_tool_calls",
    "raw_content_for_server_tools",
)
_CITATION_KEYS = ("annotations", "citations")
# Keys beside ``content`` under which a reply may tell what was found.
_TELLING_KEYS = frozenset(
    (
        *_BLOCK_KEYS[1:],
        *GROUNDING_KEYS,
        *PAGE_KEYS,
        *_CITATION_KEYS,
        "choices",
        "documents",
        "search_results",
        "executed_tools",
        "tools",
    )
)
# Where a chunk of Gemini's grounding metadata holds its source.
_SOURCES_OF_CHUNKS = ("retrieved_context", "web", "maps", "image")
# Beginnings of names of blocks and tools that search for tools or list them: what they
# return are tools that the model may call, and no evidence.
_SEARCHES_FOR_TOOLS = ("tool_search", "mcp_list_tools")
# Tools of a response of OpenAI after which the model saw nothing that the provider keeps:
# the application runs them, or they return an image or tools. Any other tool may have
# shown the model a text, be its type unknown here.
_TOOLS_WITHOUT_HIDDEN_TEXTS = (
    *("function", "custom", "namespace"),
    *("computer", "computer_use_preview", "local_shell", "apply_patch"),
    *("image_generation", "tool_search"),
)
# Blocks that hold other blocks: a message of OpenAI, and what LangChain knows no
# standard form of.
_KINDS_OF_HOLDERS = ("message", "non_standard")
# What the user can do if OpenAI does not return the texts that a search found.
_REMEDY_OF_SEARCH = {
    "file_search": remedies.OPENAI_FILES,
    "web_search": remedies.OPENAI_WEB,
}
_FAILED = ("failed", "error")
_UNNAMED = "provider's tool"
_UNREAD = "provider's search"
# How Gemini says that it could not read a page.
_PAGE_NOT_READ = lazy_pattern("ERROR|PAYWALL|UNSAFE")
_CODE_OF_GEMINI = "code_execution"
# Most characters that a framework puts between two blocks of a reply's text.
_LONGEST_BLANK = 8


@dataclass(frozen=True, slots=True)
class ProviderEvidence:
    """What one reply tells of searches and tools of the provider.

    Attributes:
        calls: The searches and tools, in their order.
        annotations: The sources that are named for places of the reply.
        reasons_for_unseen_texts: Why the model may have been shown texts that the reply
            does not tell, in words.
        model: The model that replied, by the word of the provider; None if not told.
        n_listed: How many sources stand in a list beside the reply, which may cite them
            by their numbers.
    """

    calls: tuple[ProviderCall, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    reasons_for_unseen_texts: tuple[str, ...] = ()
    model: str | None = None
    n_listed: int = 0

    def __bool__(self) -> bool:
        """Whether the reply tells of anything."""
        return bool(self.calls or self.annotations or self.reasons_for_unseen_texts)

    @property
    def message(self) -> Message | None:
        """What the model was shown of it, as the result of a tool; None for nothing."""
        return message_of(self.calls)


def message_of(calls: Iterable[ProviderCall]) -> Message | None:
    """Return what a model was shown of a provider's calls, as the result of a tool.

    None if no text is known.
    """
    texts: list[str] = []
    for call in calls:
        texts += [document.text for document in call.documents or ()]
        texts += [call.text] if call.text else []
    return Message("tool", "\n\n".join(texts)) if texts else None


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
    # a plain message is not read further: a conversation holds many
    model = next(filter(None, map(_model_of, mappings)), None)
    if not any(map(may_tell_evidence, mappings)):
        return ProviderEvidence(model=model)
    reply = _ReplyBeingRead()
    for place in mappings:
        reply.read(place)
    return replace(reply.evidence(), model=model)


def _model_of(place: Fields) -> str | None:
    """The name of the model that replied; None if a mapping does not tell it."""
    for key in ("model_name", "model"):
        name = place.get(key)
        if isinstance(name, str) and name:
            return name
    return None


def may_tell_evidence(place: object) -> bool:
    """Whether a mapping of a reply holds more than a bare text.

    Only then can ``evidence_in_reply`` find evidence in it. Any other value tells none.
    """
    if not isinstance(place, Mapping):
        return False
    if not _TELLING_KEYS.isdisjoint(place):
        return True
    # nearly every reply counts its tokens, and hardly any its searches
    if _counts_of_searches(place):
        return True
    content = place.get("content")
    return is_list(content) or isinstance(content, Mapping)


def _counts_of_searches(place: Fields) -> Fields:
    """The searches that Anthropic counts among the tokens of a reply; {} without."""
    return inner_object(inner_object(place, "usage"), "server_tool_use")


@dataclass(slots=True)
class _ReplyBeingRead:
    """What was read of one reply so far.

    Attributes:
        call_by_key: The searches and tools, by the id that the provider gives them.
        annotations: The sources named for places of the reply, in their order.
        placed_sources: Names and quotes of the sources named for a place of the reply.
        reasons_for_unseen_texts: Why the model may have been shown texts that the reply
            does not tell, in words.
        whole_text: The text of the reply, if the provider gives it in one piece.
        text_of_blocks: The text of the blocks that were read so far.
        ids_of_tool_searches: The ids of calls that only searched for tools, and so
            returned no evidence.
        n_listed: How many sources the longest list beside the reply holds.
        names_counted: The names of searches that the provider only counts.
    """

    call_by_key: dict[str, CallBeingRead] = field(default_factory=dict)
    annotations: dict[Annotation, None] = field(default_factory=dict)
    placed_sources: set[tuple[tuple[str, ...], str | None]] = field(default_factory=set)
    reasons_for_unseen_texts: list[str] = field(default_factory=list)
    whole_text: str = ""
    text_of_blocks: str = ""
    ids_of_tool_searches: set[str] = field(default_factory=set)
    n_listed: int = 0
    names_counted: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the reply: the text of its blocks, if it has blocks."""
        return self.text_of_blocks or self.whole_text

    def read(self, place: Fields) -> None:
        """Read what one mapping of a reply tells of searches, found texts and citations.

        It may have the form of any provider.

        In ``{"content": [{"type": "web_search_call"}], "citations": ["https://a.test"]}``
        the search is a block, and the address stands beside the blocks.

        Args:
            place: The message, its metadata, or the provider's whole response.
        """
        if isinstance(place.get("content"), str):
            self.whole_text = place["content"]
        for key in _BLOCK_KEYS:
            for block in objects_in(place.get(key)):
                self.read_block(block)
        for part in objects_in(inner_object(place, "content").get("parts")):
            self.read_part_of_gemini(part)
        for key in GROUNDING_KEYS:  # of Gemini
            self.read_grounding(inner_object(place, key))
        for key in PAGE_KEYS:  # of Gemini
            self.read_pages_of_gemini(inner_object(place, key))
        for key in _CITATION_KEYS:
            self.read_citations(place.get(key), offset=0)
        for choice in objects_in(place.get("choices")):  # of OpenAI's older API
            message = inner_object(choice, "message")
            self.read_citations(message.get("annotations"), offset=0)
            self.note_unread_form(message)
        self.read_listed_results(place)
        self.note_unread_form(place)
        self.read_tools_of_response(place)
        self.read_counts_of_searches(place)

    def read_block(self, block: Fields, depth: int = DEEPEST) -> None:
        """Read one block of a reply with the method for its type.

        ``{"type": "file_search_call", …}`` is read as a search of files, and "message" as
        the blocks inside it, ``depth`` levels deep. Other types are left out.
        """
        kind = block.get("type")
        # "tool_search" returns tools that the model may call, and no evidence
        if not isinstance(kind, str) or kind.startswith(_SEARCHES_FOR_TOOLS):
            return
        read_block_of_kind = _READERS.get(kind) or _reader_by_ending(kind)
        if read_block_of_kind is not None:
            read_block_of_kind(self, block)
        elif kind in _KINDS_OF_HOLDERS and depth:
            # OpenAI: {"type": "message", "content": [block, …]}
            # LangChain: {"type": "non_standard", "value": block}
            inner_blocks = [*objects_in(block.get("content")), block.get("value")]
            for inner_block in inner_blocks:
                if isinstance(inner_block, Mapping):
                    self.read_block(inner_block, depth - 1)

    def call_of(
        self, provider_id: object, name: str, remedy: str = remedies.ANY_PROVIDER
    ) -> CallBeingRead:
        """Get the call of an id, or make it. A call without an id is always new."""
        has_id = isinstance(provider_id, str) and bool(provider_id)
        key = str(provider_id) if has_id else f"{name} {len(self.call_by_key)}"
        return self.call_by_key.setdefault(key, CallBeingRead(name, remedy))

    # Blocks

    def read_text(self, block: Fields) -> None:
        """Read a block of text with the sources that are named for it.

        ``{"text": "It fell.", "citations": [{"url": "https://a.test"}]}`` adds "It fell."
        to the text of the reply, for which it cites https://a.test.
        """
        value = block.get("text")
        text = value if isinstance(value, str) else ""
        start = self._append_text(text)
        for key in _CITATION_KEYS:
            # a place that a citation tells is counted from the start of the block
            self.read_citations(block.get(key), start, (start, start + len(text)))

    def _append_text(self, text: str) -> int:
        """Append the text of a block to that of the reply, and return where it begins."""
        self.text_of_blocks += self._blank_before(text)
        start = len(self.text_of_blocks)
        self.text_of_blocks += text
        return start

    def _blank_before(self, text: str) -> str:
        """The blank that the whole text has before its next block; "" without one.

        Haystack joins the blocks "The lamp" and "was lit." to "The lamp was lit.": the
        second one begins at 9, not at 8.
        """
        start = len(self.text_of_blocks)
        rest = self.whole_text[start : start + _LONGEST_BLANK]
        n_blanks = len(rest) - len(rest.lstrip())
        for n_before in range(n_blanks + 1):
            if self.whole_text.startswith(text, start + n_before):
                return rest[:n_before]
        return ""

    def read_search(self, block: Fields) -> None:
        """Read a search in OpenAI's form: queries, results, addresses, whether it failed.

        ``{"type": "file_search_call", "queries": ["lamp"], "results": [{"text": "It
        fell."}]}`` asked "lamp" and found the document "It fell.". A stream only tells
        that it ended: ``{"type": "response.file_search_call.completed", "item_id": …}``.
        """
        name = str(block.get("type")).removeprefix("response.").partition("_call")[0]
        # advice to the user how to make the provider return the found texts
        remedy = _REMEDY_OF_SEARCH.get(name, remedies.ANY_PROVIDER)
        call = self.call_of(block.get("id", block.get("item_id")), name, remedy)
        if call.is_answered:  # the same block was read in another place
            return
        action = inner_object(block, "action") or block
        call.add_queries(action)
        results = block.get("results")
        if is_list(results):
            call.add_results(results)
        call.add_sources_without_text(action.get("sources"))
        opens_page = action.get("type") in ("open_page", "find_in_page")
        if opens_page:  # its address stands in the action
            call.add_sources_without_text([action])
        if block.get("status") in _FAILED:
            call.error = "the search failed"

    def read_tool(self, block: Fields) -> None:
        """Read a tool that OpenAI ran, other than its searches: code, or a tool of MCP.

        Example: ``{"type": "code_interpreter_call", "code": "1 + 1", "outputs": […]}`` is
        a call of "code_interpreter" with the query "1 + 1".
        """
        is_code = block.get("type") == "code_interpreter_call"
        name = _name_of_tool(block) or ("code_interpreter" if is_code else "mcp")
        # what the user can do if the reply does not hold the tool's output
        remedy = remedies.OPENAI_CODE if is_code else remedies.ANY_PROVIDER
        call = self.call_of(block.get("id"), name, remedy)
        if call.is_answered:  # the same block was read in another place
            return
        call.searches = False
        call.add_queries({"query": block.get("code", block.get("arguments"))})
        call.add_output(block.get("output", block.get("outputs")))
        if block.get("error"):
            call.error = as_text(block["error"]) or "the tool failed"

    def read_tool_request(self, block: Fields) -> None:
        """Read a model's request for a tool of its provider into a call with queries.

        ``{"id": "t1", "name": "web_search", "input": {"query": "lamp"}}`` asks "lamp"; the
        result comes in another block. A search for tools is no evidence: its id is noted,
        so that its result is passed over.
        """
        name = _name_of_tool(block) or _UNNAMED
        if name.startswith(_SEARCHES_FOR_TOOLS):
            self.ids_of_tool_searches.add(str(block.get("id")))
            return
        # advice to the user how to make the provider return the found texts
        remedy = remedies.remedy_of_tool(name, str(block.get("type")))
        call = self.call_of(block.get("id"), name, remedy)
        call.searches = is_name_of_search(name) and not _is_of_remote_server(block)
        arguments = _arguments_of_request(block)
        if arguments is not None:
            call.add_arguments(arguments)

    def read_result(self, block: Fields) -> None:
        """Read what a tool of the provider returned, into the call that it belongs to."""
        call = self._call_waiting_for(block)
        if call is None:
            return
        returned = block.get("output", block.get("content"))
        error = _error_of_result(block, returned)
        if error is not None:
            call.error = error
        elif call.searches:
            self._add_found(call, returned, block)
        else:
            call.add_output(returned)

    def _call_waiting_for(self, block: Fields) -> CallBeingRead | None:
        """Return the call that a result belongs to; a new one if no request was read.

        None for a result that was read in another place, or that only lists tools.
        """
        provider_id = str(block.get("tool_use_id", block.get("tool_call_id")))
        if provider_id in self.ids_of_tool_searches:
            return None
        call = self.call_by_key.get(provider_id) or self._call_of_result(block)
        return None if call.is_answered else call

    def _call_of_result(self, block: Fields) -> CallBeingRead:
        """Make a call of a result whose request is not in the reply.

        Example: a block of the type "web_search_tool_result" becomes a call of
        "web_search".
        """
        kind = str(block.get("type"))
        # LangChain keeps the provider's own kind of block here
        provider_kind = inner_object(block, "extras").get("block_type")
        if isinstance(provider_kind, str):
            kind = provider_kind
        name = kind.removesuffix("_tool_result")
        if kind == "server_tool_result":
            name = _UNNAMED
        provider_id = block.get("tool_use_id", block.get("tool_call_id"))
        call = self.call_of(provider_id, name, remedies.remedy_of_tool(name, kind))
        call.searches = is_name_of_search(name)
        return call

    def _add_found(self, call: CallBeingRead, returned: object, block: Fields) -> None:
        """Add what a search returned, in the forms that it may have.

        Example: ``[{"text": "It fell."}]`` is a list of results, and ``{"sources":
        […]}`` names the addresses alone.
        """
        if isinstance(returned, Mapping):
            sources = returned.get("sources")
            if is_list(sources):
                call.add_sources_without_text(sources)
            else:
                call.add_results([returned])
        elif is_list(returned):
            call.add_results(returned)
        elif isinstance(returned, str) and block.get("type") == "server_tool_result":
            # only LangChain's standard block may hold the bare text
            call.add_results([{"text": returned}])

    def read_unread_form(self, block: Fields) -> None:
        """Note a block that names sources in a form that is not read."""
        del block
        self._add_unread_sources()

    # Beside the blocks

    def read_grounding(self, grounding: Fields) -> None:
        """Read the grounding metadata of Gemini into a search and its citations.

        ``{"web_search_queries": ["lamp"], "grounding_chunks": [{"web": {"uri": …}}]}`` is
        a search for "lamp" that found one address. Nothing is read if both are missing.
        """
        chunks = _chunks_of(grounding)
        queries = [
            *words_in(field_of(grounding, "web_search_queries")),
            *words_in(field_of(grounding, "retrieval_queries")),
        ]
        if not chunks and not queries:
            return
        is_of_files = any(field_of(chunk, "retrieved_context") for chunk in chunks)
        name = "file_search" if is_of_files else "google_search"
        remedy = remedies.ANY_PROVIDER if is_of_files else remedies.GEMINI_WEB
        call = self.call_of("grounding of Gemini", name, remedy)
        if call.is_answered:  # the same metadata was read in another part of the reply
            return
        call.queries += queries
        sources = [_source_of_chunk(chunk) for chunk in chunks]
        if sources:
            call.add_results(sources)
        for annotation in annotations_of_grounding(grounding, sources, self.text):
            self._add_annotation(annotation)

    def read_pages_of_gemini(self, pages: Fields) -> None:
        """Read which pages Gemini was shown by its tool url_context: addresses alone."""
        for page in objects_in(field_of(pages, "url_metadata")):
            address = field_of(page, "retrieved_url")
            status = field_of(page, "url_retrieval_status")
            is_read = _PAGE_NOT_READ.search(str(status)) is None
            if isinstance(address, str) and is_read:
                call = self.call_of("pages of Gemini", "url_context", remedies.PAGES)
                call.add_source_without_text((address,))

    def read_part_of_gemini(self, part: Fields) -> None:
        """Read code that Gemini ran, and what it printed.

        ``{"executable_code": {"code": "1 + 1"}}``, and then ``{"code_execution_result":
        {"output": "2"}}``. In LangChain both are bare texts.
        """
        code = field_of(part, "executable_code")
        if code is not None:
            code = code.get("code") if isinstance(code, Mapping) else code
            self._add_code_of_gemini(code)
        result = field_of(part, "code_execution_result")
        if result is not None:
            result = result.get("output") if isinstance(result, Mapping) else result
            self._add_output_of_gemini(result)

    def _add_code_of_gemini(self, code: object) -> None:
        call = self.call_of(None, _CODE_OF_GEMINI)
        call.searches = False
        call.add_queries({"query": code})

    def _add_output_of_gemini(self, output: object) -> None:
        """Add an output to the last code without one: Gemini gives them no ids."""
        for call in reversed(self.call_by_key.values()):
            if call.name == _CODE_OF_GEMINI and not call.is_answered:
                call.add_output(output)
                return
        self._add_code_of_gemini(None)
        self.call_by_key[next(reversed(self.call_by_key))].add_output(output)

    def read_counts_of_searches(self, place: Fields) -> None:
        """Note the searches that Anthropic counts among the tokens of a reply.

        A stream of LlamaIndex may hand on no more than ``{"usage": {"server_tool_use":
        {"web_search_requests": 1}}}``.
        """
        for key, count in _counts_of_searches(place).items():
            name = str(key).removesuffix("_requests")
            if name != key and is_place(count) and count > 0:
                self.names_counted.append(name)

    def _add_counted_searches(self) -> None:
        """Add the counted searches of which no block was read, each without its texts."""
        names_read = {call.name for call in self.call_by_key.values()}
        for name in dict.fromkeys(self.names_counted):
            if name not in names_read:
                remedy = remedies.remedy_of_tool(name, "server_tool_use")
                self.call_of(None, name, remedy)

    def read_listed_results(self, place: Fields) -> None:
        """Read sources that a provider lists beside its reply, as Perplexity and xAI do.

        Example: ``{"citations": ["https://a.test"]}`` is a search that names this
        address without its text. "It fell [1]." of the reply may mean the first address.
        """
        results = list(objects_in(place.get("search_results")))
        addresses = list(words_in(place.get("citations")))
        if not results and not addresses:
            return
        # The same sources may be listed twice, as results and as mere addresses: "[5]"
        # of the reply means the fifth source of the longest list.
        self.n_listed = max(self.n_listed, len(results), len(addresses))
        call = self.call_of("listed sources", "web_search")
        if results:
            call.add_results(results)
        known_names = call.source_names
        for address in addresses:
            if address not in known_names:
                call.add_source_without_text((address,))

    def note_unread_form(self, place: Fields) -> None:
        """Note tools and documents that stand beside a reply in a form that is not read.

        Example: ``{"executed_tools": [{"type": "search"}]}`` tells that the provider
        searched. What it found counts as a source without a text.
        """
        has_tools = any(objects_in(place.get("executed_tools")))
        is_of_documents = "citations" in place
        has_documents = is_of_documents and any(objects_in(place.get("documents")))
        if has_tools or has_documents:
            self._add_unread_sources()

    def _add_unread_sources(self) -> None:
        """Count sources that are told in a form that is not read, all as one."""
        call = self.call_of("unread form", _UNREAD, remedies.UNREAD_FORM)
        if not call.n_nameless:
            call.add_source_without_text(())

    def read_tools_of_response(self, place: Fields) -> None:
        """Note tools that the provider may have run, where a framework dropped the output.

        Haystack hands on OpenAI's response without it; its list of tools is left.
        """
        if place.get("object") != "response" or "output" in place:
            return
        names = filter(None, map(_name_of_hidden_tool, objects_in(place.get("tools"))))
        distinct_names = list(dict.fromkeys(names))
        if distinct_names:
            self.reasons_for_unseen_texts.append(
                remedies.handed_on_nothing(" and ".join(distinct_names))
            )

    # Sources that are named for places of the reply

    def read_citations(
        self,
        citations: object,
        offset: int,
        block_bounds: tuple[int, int] | None = None,
    ) -> None:
        """Read a citation or a list of them, by the rules of ``annotation_of``.

        One that names its source in another form counts as a source without a text.
        """
        if isinstance(citations, Mapping):
            citations = [citations]
        for citation in objects_in(citations):
            annotation = annotation_of(citation, offset, block_bounds)
            if annotation is not None:
                self._add_annotation(annotation)
            elif citation and not is_of_models_file(citation):
                self._add_unread_sources()

    def _add_annotation(self, annotation: Annotation) -> None:
        """Add a source; not without a place, if it was named for a place before."""
        source = annotation.names, annotation.quote
        if annotation.start is not None:
            self.placed_sources.add(source)
        elif source in self.placed_sources:
            return
        self.annotations[annotation] = None

    def evidence(self) -> ProviderEvidence:
        """Sum up what was read of the whole reply."""
        # searches of which the reply only tells the count, {"web_search_requests": 2}
        self._add_counted_searches()
        # some citations quote the reply itself, which is no evidence
        words_of_reply = as_one_line(self.text)
        annotations = tuple(
            annotation.without_words_of(words_of_reply)
            for annotation in self.annotations
        )
        self._add_cited_sources(annotations)
        calls = tuple(call.frozen() for call in self.call_by_key.values())
        reasons = tuple(dict.fromkeys(self.reasons_for_unseen_texts))
        return ProviderEvidence(calls, annotations, reasons, n_listed=self.n_listed)

    def _add_cited_sources(self, annotations: Sequence[Annotation]) -> None:
        """Count cited sources that no search of the reply names.

        Example: the reply cites https://a.test, and no search lists this address: it
        counts as found without its text. A source that is cited with a quote is left
        out here: the quote tells later whether the prompt already shows the source.
        """
        known_names: set[str] = set()
        for call in self.call_by_key.values():
            known_names |= call.source_names
        for annotation in annotations:
            is_known = not known_names.isdisjoint(annotation.names)
            if is_known or annotation.quote is not None:
                continue
            known_names.update(annotation.names)
            if annotation.text is None:
                self._search_of_cited(annotation).add_source_without_text(
                    annotation.names
                )
            else:
                self._add_cited_page(annotation.names, annotation.text)

    def _add_cited_page(self, names: tuple[str, ...], text: str) -> None:
        """Add a page that is cited with its text, as OpenRouter tells it."""
        call = self.call_of("cited addresses", "web_search")
        call.add_results([{"url": names[0], "title": names[-1], "text": text}])
        self.reasons_for_unseen_texts.append(remedies.CITED_PAGES)

    def _search_of_cited(self, annotation: Annotation) -> CallBeingRead:
        """The search that found a cited source: the last one without texts, else a new one."""
        without_texts = [
            call
            for call in self.call_by_key.values()
            if call.searches and not call.documents and not call.error
        ]
        if without_texts:
            return without_texts[-1]
        if any("://" in name for name in annotation.names):
            return self.call_of("cited addresses", "web_search")
        return self.call_of("cited files", "file_search", remedies.OPENAI_FILES)


_READERS: Mapping[str, Callable[[_ReplyBeingRead, Fields], None]] = {
    "text": _ReplyBeingRead.read_text,
    "output_text": _ReplyBeingRead.read_text,
    "code_interpreter_call": _ReplyBeingRead.read_tool,
    "mcp_call": _ReplyBeingRead.read_tool,
    "server_tool_use": _ReplyBeingRead.read_tool_request,  # of Anthropic
    "server_tool_call": _ReplyBeingRead.read_tool_request,  # of LangChain
    "mcp_tool_use": _ReplyBeingRead.read_tool_request,  # of Anthropic
    "reference": _ReplyBeingRead.read_unread_form,
    "tool_reference": _ReplyBeingRead.read_unread_form,
    "executable_code": _ReplyBeingRead.read_part_of_gemini,
    "code_execution_result": _ReplyBeingRead.read_part_of_gemini,
}


def _reader_by_ending(kind: str) -> Callable[[_ReplyBeingRead, Fields], None] | None:
    """Return the method that reads a kind of block told by its ending; None for any other."""
    # "web_search_tool_result" of Anthropic
    if kind.endswith("_tool_result"):
        return _ReplyBeingRead.read_result
    # of OpenAI: "file_search_call", and "response.file_search_call.completed" in a stream
    if kind.endswith(("_search_call", "_search_call.completed")):
        return _ReplyBeingRead.read_search
    return None


def _name_of_hidden_tool(tool: Fields) -> str | None:
    """Name a tool of OpenAI's list whose result only the provider knows; else None.

    Example: ``{"type": "mcp", "server_label": "docs"}`` is "mcp (docs)", and a function
    of the application is None.
    """
    kind = tool.get("type")
    if not isinstance(kind, str) or not kind or kind in _TOOLS_WITHOUT_HIDDEN_TEXTS:
        return None
    # a shell runs in the provider's container or on the application's machine
    if kind == "shell" and inner_object(tool, "environment").get("type") == "local":
        return None
    label = tool.get("server_label")
    return f"{kind} ({label})" if isinstance(label, str) and label else kind


def _chunks_of(grounding: Fields) -> list[Fields]:
    """Return the chunks of Gemini's grounding metadata.

    The reply's parts name a chunk by its index, so that {} stands for a chunk of a wrong
    form.
    """
    chunks = field_of(grounding, "grounding_chunks")
    if not is_list(chunks):
        return []
    return [next(objects_in([chunk]), {}) for chunk in chunks]


def _source_of_chunk(chunk: Fields) -> Fields:
    """What a chunk of Gemini's grounding metadata names; empty for a kind that is not known."""
    for kind in _SOURCES_OF_CHUNKS:
        source = field_of(chunk, kind)
        if isinstance(source, Mapping):
            return source
    return {}


def _error_in(returned: object) -> str | None:
    """The error in what a tool of Anthropic returned; None for a result."""
    if not isinstance(returned, Mapping):
        return None
    code, kind = returned.get("error_code"), returned.get("type")
    if isinstance(code, str):
        return code
    return kind if isinstance(kind, str) and kind.endswith("_error") else None


def _error_of_result(block: Fields, returned: object) -> str | None:
    """The error of a tool, as its result or the status of its block tells; None without."""
    error = _error_in(returned)
    if error is None and block.get("status") in _FAILED:
        return as_text(returned) or "the tool failed"
    return error


def _arguments_of_request(block: Fields) -> Fields | None:
    """Return what a request asks its tool, as {"query": "lamp"}; None if it is not told.

    Of a streamed reply LangChain may leave ``input`` empty, and keeps the JSON of the
    arguments as a text: ``{"input": {}, "partial_json": '{"query": "lamp"}'}``.
    """
    arguments = block.get("input", block.get("args"))
    if not arguments:
        streamed_arguments = arguments_in(block.get("partial_json"))
        if streamed_arguments:
            return streamed_arguments
    return arguments if isinstance(arguments, Mapping) else None


def _is_of_remote_server(block: Fields) -> bool:
    """Whether a tool is one of a remote server: it returns a text, also if named "search"."""
    return block.get("type") == "mcp_tool_use" or block.get("name") == "remote_mcp"


def _name_of_tool(block: Fields) -> str | None:
    """The name of the tool that a block calls; None if it has none.

    Of a tool of a remote server LangChain keeps the name under ``extras``.
    """
    for name in (inner_object(block, "extras").get("tool_name"), block.get("name")):
        if isinstance(name, str) and name:
            return name
    return None
