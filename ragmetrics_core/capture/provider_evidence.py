"""What a model's provider found, put into the tree of calls. Pure.

``provider_replies`` reads it from the reply. Here it becomes calls below that of the
model, so that the stages treat it like everything else that was retrieved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.provider_calls import ProviderCall
from ragmetrics_core.capture.provider_citations import (
    Annotation,
    holds_place,
    text_at_place,
)
from ragmetrics_core.capture.provider_remedies import (
    QUOTES,
    UNKNOWN_DOCUMENT,
    searches_by_itself,
)
from ragmetrics_core.capture.provider_replies import ProviderEvidence, message_of
from ragmetrics_core.capture.tree import CitedSource, Document, Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_CITED = "cited sources"
# Models that search by themselves, by their names: of OpenAI, Perplexity, Groq and
# OpenRouter.
_SEARCHING_MODEL = lazy_pattern(
    r"-search-(?:preview|api)\b|\bsonar\b|\bcompound(?:-beta)?\b|:online\b"
)


def add_provider_evidence(call: Node, evidence: ProviderEvidence) -> None:
    """Add to a model's call what the provider searched for while the model answered.

    OpenAI's file_search found "It fell.": a retriever with this document is added below
    the call, and its text at the end of the prompt. Other tools become tools. When a
    framework hands on a reply for the second time, only the cited sources are replaced.

    Args:
        call: The call of the model, with its prompt. It is changed.
        evidence: What its reply tells.
    """
    _note_cited_sources(call, evidence)
    was_added_before = any(child.by_provider for child in call.children)
    if was_added_before:
        return
    if evidence:  # most replies tell of no search
        _add_calls(call, evidence)
    _note_unseen_texts(call, evidence)


def _add_calls(call: Node, evidence: ProviderEvidence) -> None:
    """Add the searches and tools of the provider below a model's call.

    The passages that the reply quotes are documents of the searches. What the model was
    shown of it all becomes the last message of its prompt.
    """
    quoted_sources = _quoted_sources(call, evidence)
    calls = [
        *_searches_with_quotes(evidence.calls, quoted_sources),
        *_calls_of_other_sources(quoted_sources),
    ]
    call.children += [_node(provider_call, call) for provider_call in calls]
    shown_message = message_of(calls)
    if shown_message is not None:
        call.prompt = (*call.prompt, shown_message)


def _note_unseen_texts(call: Node, evidence: ProviderEvidence) -> None:
    """Note on a model's call that its provider may have shown it texts nobody recorded.

    Example: the model "gpt-4o-search-preview" searches by itself, and the reply names no
    page. The call is marked with ``may_have_searched``, and gets the remark that "its
    reply tells nothing of what it found; let a tool of the application search".
    """
    reasons = _reasons_for_unseen_texts(call, evidence)
    if reasons:
        call.may_have_searched = True
        call.remarks = (*call.remarks, *reasons)


def _note_cited_sources(call: Node, evidence: ProviderEvidence) -> None:
    """Put the sources that a reply cites or lists into the reply of a model's call."""
    sources = (
        *_cited_sources(evidence.annotations, call),
        *_numbered_sources(evidence),
    )
    if call.reply is not None and sources:
        call.reply = replace(call.reply, cited_sources=sources)


def _reasons_for_unseen_texts(call: Node, evidence: ProviderEvidence) -> Sequence[str]:
    """Say why a model may have been shown texts that its reply does not tell; often ().

    One reason is a model that searches by itself, and tells of no search.
    """
    if not evidence:
        for model in (call.model, evidence.model):
            if model and _SEARCHING_MODEL.search(model):
                return [searches_by_itself(model)]
    return evidence.reasons_for_unseen_texts


def _cited_sources(
    annotations: Sequence[Annotation], call: Node
) -> Iterator[CitedSource]:
    """Yield the sources that the provider says the reply of a call cites."""
    for annotation in annotations:
        yield _cited_source(annotation, call)


def _cited_source(annotation: Annotation, call: Node) -> CitedSource:
    """A source that the provider says a part of the reply of a call cites."""
    text_in_request = text_at_place(annotation.place_in_request, call.request_blocks)
    return CitedSource(
        names=annotation.names,
        quote=annotation.quote,
        start=annotation.start,
        end=annotation.end,
        text=annotation.text or text_in_request,
    )


def _numbered_sources(evidence: ProviderEvidence) -> Iterator[CitedSource]:
    """Yield the sources of a list by whose numbers the reply may cite, none as cited.

    Perplexity lists ``["https://a.test"]``: "[1]" of its reply means this address.
    """
    for number in range(1, evidence.n_listed + 1):
        yield CitedSource(label=str(number), is_cited=False)


def _node(provider_call: ProviderCall, call: Node) -> Node:
    """A search or tool of the provider as a call below the call of the model.

    It counts as ended when the model's call began: what it found was there when the
    model wrote its answer.
    """
    has_advice = bool(provider_call.sources_without_text and provider_call.remedy)
    return Node(
        "retriever" if provider_call.searches else "tool",
        provider_call.name,
        call.began,
        call.began,
        query=provider_call.query,
        documents=provider_call.documents,
        text=provider_call.text,
        error=provider_call.error,
        by_provider=True,
        sources_without_text=provider_call.sources_without_text,
        remarks=(provider_call.remedy,) if has_advice else (),
    )


def _searches_with_quotes(
    searches: Sequence[ProviderCall], quoted_sources: Sequence[_QuotedSource]
) -> Iterator[ProviderCall]:
    """Yield a provider's searches and tools, with quoted passages as documents.

    A search named https://a.test without its text, and the reply quotes "It fell." from
    it: "It fell." becomes a document of the search.
    """
    for index, provider_call in enumerate(searches):
        quoted_documents = [
            source.document for source in quoted_sources if source.search_index == index
        ]
        if quoted_documents:
            documents = (*(provider_call.documents or ()), *quoted_documents)
            provider_call = replace(provider_call, documents=documents)
        yield provider_call


def _calls_of_other_sources(
    quoted_sources: Iterable[_QuotedSource],
) -> Iterator[ProviderCall]:
    """Yield calls with the passages from sources that no search of the reply found.

    Such a source is a document of the request without a known text, as a PDF, or was
    found by a search of an earlier reply. Each kind has its own advice for the user.
    """
    in_request: list[_QuotedSource] = []
    found_earlier: list[_QuotedSource] = []
    for quoted in quoted_sources:
        if quoted.search_index is None:
            is_in_request = quoted.source.place_in_request is not None
            (in_request if is_in_request else found_earlier).append(quoted)
    if in_request:
        yield _call_with_quotes(in_request, UNKNOWN_DOCUMENT)
    if found_earlier:
        yield _call_with_quotes(found_earlier, QUOTES)


def _call_with_quotes(sources: Sequence[_QuotedSource], remedy: str) -> ProviderCall:
    """Make a call that found the quotes of some sources; their whole texts are unknown."""
    return ProviderCall(
        _CITED,
        documents=tuple(quoted.document for quoted in sources),
        sources_without_text=tuple(quoted.source.names for quoted in sources),
        remedy=remedy,
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """What tells the sources of a reply from each other.

    Attributes:
        names: What the source is called.
        place_in_request: Where the request holds it, as ("document_index", 1); None if
            the provider does not say.
    """

    names: tuple[str, ...]
    place_in_request: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class _QuotedSource:
    """A source from which a reply quotes, with the quotes that no known text holds.

    Attributes:
        source: The source.
        quotes: The passages, each once.
        search_index: Which search of the reply found it, from 0; None if none did.
    """

    source: _Source
    quotes: tuple[str, ...]
    search_index: int | None

    @property
    def document(self) -> Document:
        """The passages "It fell." and "In May." as the document "It fell. … In May."."""
        names = self.source.names
        metadata = {"source": names[0]} if names else {}
        return Document(" … ".join(self.quotes), metadata=metadata)


def _quoted_sources(call: Node, evidence: ProviderEvidence) -> list[_QuotedSource]:
    """List the sources from which a reply quotes, each with its quotes and its search.

    Example: the reply cites "It fell." from https://a.test, and its first search names
    this address: the source https://a.test with the quote "It fell." and the search 0.

    A quote that stands in the prompt, or in a document that the provider returned, is
    left out: this text is known as a whole.
    """
    normalized_known_texts = _normalized_known_texts(call, evidence)
    # the quotes are keys of dictionaries, so that each is kept once, in their order
    quotes_by_source: dict[_Source, dict[str, None]] = {}
    for annotation in evidence.annotations:
        quote = annotation.quote
        if quote is not None and not _is_known(quote, normalized_known_texts):
            source = _Source(annotation.names, annotation.place_in_request)
            quotes_by_source.setdefault(source, {})[quote] = None
    return [
        _QuotedSource(source, tuple(quotes), _search_that_found(source, call, evidence))
        for source, quotes in quotes_by_source.items()
    ]


def _normalized_known_texts(call: Node, evidence: ProviderEvidence) -> list[bytes]:
    """List the prompt's messages and the documents with known texts, normalized."""
    normalized_known_texts = [normalize_text(message.text) for message in call.prompt]
    for provider_call in evidence.calls:
        documents = provider_call.documents or ()
        normalized_known_texts += [
            normalize_text(document.text) for document in documents
        ]
    return normalized_known_texts


def _is_known(quote: str, normalized_known_texts: Sequence[bytes]) -> bool:
    """Whether a quote, which may be cut as in "It fell …", stands in a known text."""
    normalized_quote = normalize_text(quote.strip(" .…"))
    return any(normalized_quote in text for text in normalized_known_texts)


def _search_that_found(
    source: _Source, call: Node, evidence: ProviderEvidence
) -> int | None:
    """Return the index of the provider's search that found a source which a reply quotes.

    Example: the provider made two searches, and the second names https://a.test: for
    this source 1. If no search names the source, it is the last search that may have
    found it. None if there is none, or if the request itself held the source.
    """
    for index, provider_call in enumerate(evidence.calls):
        if not provider_call.source_names.isdisjoint(source.names):
            return index
    if _is_in_request(source, call):
        return None
    last_index = len(evidence.calls) - 1
    for index in range(last_index, -1, -1):
        if _may_have_found_unnamed(source, evidence.calls[index]):
            return index
    return None


def _is_in_request(source: _Source, call: Node) -> bool:
    """Whether the application handed a source in with its request, such as a PDF."""
    place = source.place_in_request
    return place is not None and holds_place(place, call.request_blocks)


def _may_have_found_unnamed(source: _Source, provider_call: ProviderCall) -> bool:
    """Whether a provider's search may have found a source that it does not name.

    A search whose texts are all known found nothing else.

    Args:
        source: A source that the reply quotes. The request does not hold it.
        provider_call: The search, or a tool that does not search.
    """
    if not provider_call.searches or not provider_call.sources_without_text:
        return False
    if source.place_in_request is None:
        return True
    # The reply numbers the source as a document. Only Anthropic's web_fetch finds such
    # sources: if the request has 2 documents, its first page is ("document_index", 2).
    return provider_call.name == "web_fetch"
