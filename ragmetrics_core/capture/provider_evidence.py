"""What a model's provider found, put into the tree of calls. Pure.

``provider_replies`` reads it from the reply. Here it becomes calls below that of the
model, so that the stages treat it like everything else that was retrieved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.provider_calls import ProviderCall
from ragmetrics_core.capture.provider_citations import Annotation, text_at_place
from ragmetrics_core.capture.provider_remedies import (
    UNKNOWN_DOCUMENT,
    searches_by_itself,
)
from ragmetrics_core.capture.provider_replies import ProviderEvidence, message_of
from ragmetrics_core.capture.tree import CitedSource, Document, Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_CITED = "cited sources"
# Models that search for every answer, by their names: of OpenAI, Perplexity, Groq and
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
    sources = (
        *(_cited_source(annotation, call) for annotation in evidence.annotations),
        *_numbered_sources(evidence),
    )
    if call.reply is not None and sources:
        call.reply = replace(call.reply, cited_sources=sources)
    was_changed_before = any(child.by_provider for child in call.children)
    if was_changed_before:
        return
    # searches and tools of the provider, with the passages that the reply quotes
    calls = list(_with_cited_words(call, evidence))
    call.children += [_node(provider_call, call) for provider_call in calls]
    shown_message = message_of(calls)
    if shown_message is not None:
        call.prompt = (*call.prompt, shown_message)
    remarks = _remarks_on(call, evidence)
    call.may_have_searched = bool(remarks)
    call.remarks = (*call.remarks, *remarks)


def _remarks_on(call: Node, evidence: ProviderEvidence) -> list[str]:
    """List what is uncertain about a reply, in words.

    A reply that tells of no search gets a remark if its model searches for every answer.
    """
    remarks = list(evidence.doubts)
    if not evidence:
        for model in (call.model, evidence.model):
            if model and _SEARCHING_MODEL.search(model):
                return [searches_by_itself(model)]
    return remarks


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
    has_advice = bool(provider_call.n_without_text and provider_call.remedy)
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
        n_without_text=provider_call.n_without_text,
        remarks=(provider_call.remedy,) if has_advice else (),
    )


def _with_cited_words(call: Node, evidence: ProviderEvidence) -> Iterator[ProviderCall]:
    """Yield the provider's searches and tools, with quoted passages as documents.

    A search named https://a.test without its text, and the reply quotes "It fell." from
    it: "It fell." becomes a document of the search. Quotes from sources that no search
    names become the documents of one further call. The full texts of these sources are
    unknown, so the call has a ``remedy``: advice for the user.
    """
    quoted_by_index = _quoted_documents(call, evidence)
    for index, provider_call in enumerate(evidence.calls):
        quoted_documents = quoted_by_index.get(index, [])
        if quoted_documents:
            documents = (*(provider_call.documents or ()), *quoted_documents)
            provider_call = replace(provider_call, documents=documents)
        yield provider_call
    quoted_from_elsewhere = quoted_by_index.get(None, [])
    if quoted_from_elsewhere:
        yield ProviderCall(
            _CITED,
            documents=tuple(quoted_from_elsewhere),
            # documents without their full text, since only quotes are known
            n_without_text=len(quoted_from_elsewhere),
            remedy=UNKNOWN_DOCUMENT,
        )


def _quoted_documents(
    call: Node, evidence: ProviderEvidence
) -> dict[int | None, list[Document]]:
    """Join the passages that a reply quotes from each source into a document.

    The quotes "It fell." and "In May." from https://a.test give the document "It fell. …
    In May." Passages known from the prompt or from a search are left out.

    Returns:
        The documents by the index of the search that names their source; under None the
        documents from sources that no search names.
    """
    quoted_by_index: dict[int | None, list[Document]] = {}
    for names, quotes in _new_quotes_by_source(call, evidence).items():
        metadata = {"source": names[0]} if names else {}
        document = Document(" … ".join(quotes), metadata=metadata)
        # None if no search names this source
        index = _index_of_search_that_names(names, evidence.calls)
        quoted_by_index.setdefault(index, []).append(document)
    return quoted_by_index


def _new_quotes_by_source(
    call: Node, evidence: ProviderEvidence
) -> dict[tuple[str, ...], list[str]]:
    """Group a reply's quotes by their source, without quotes from known texts.

    ``{("https://a.test", "Iron"): ["It fell."]}`` for a source with an address and a
    title. Known texts are the prompt, which the application wrote, and the documents
    that the provider found.
    """
    known_letters = [letters_of(message.text) for message in call.prompt]
    for provider_call in evidence.calls:
        documents = provider_call.documents or ()
        known_letters += [letters_of(document.text) for document in documents]
    quotes_by_source: dict[tuple[str, ...], list[str]] = {}
    for annotation in evidence.annotations:
        quote = annotation.quote
        if quote is None or _is_known(annotation, known_letters):
            continue
        quotes = quotes_by_source.setdefault(annotation.names, [])
        if quote not in quotes:
            quotes.append(quote)
    return quotes_by_source


def _is_known(annotation: Annotation, known_letters: Sequence[bytes]) -> bool:
    """Whether the words that an annotation cites stand in a known text, perhaps cut."""
    letters = letters_of((annotation.quote or "").strip(" .…"))
    return any(letters in text_letters for text_letters in known_letters)


def _index_of_search_that_names(
    names: Sequence[str], calls: Sequence[ProviderCall]
) -> int | None:
    """Find the first search that names a source; None if no search does."""
    for index, provider_call in enumerate(calls):
        if not provider_call.source_names.isdisjoint(names):
            return index
    return None
