"""What a model's provider found, put into the tree of calls. Pure.

``provider_replies`` reads it from the reply. Here it becomes calls below that of the
model, so that the stages treat it like everything else that was retrieved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragmetrics_core.capture.letters import letters_of
from ragmetrics_core.capture.provider_calls import ProviderCall
from ragmetrics_core.capture.provider_citations import Annotation
from ragmetrics_core.capture.provider_remedies import (
    UNKNOWN_DOCUMENT,
    searches_by_itself,
)
from ragmetrics_core.capture.provider_replies import ProviderEvidence
from ragmetrics_core.capture.tree import CitedSource, Document, Node

_CITED = "cited sources"
# Models that search for every answer, by their names: of OpenAI, Perplexity, Groq and
# OpenRouter.
_SEARCHING_MODEL = re.compile(
    r"-search-(?:preview|api)\b|\bsonar\b|\bcompound(?:-beta)?\b|:online\b"
)


def add_provider_evidence(call: Node, evidence: ProviderEvidence) -> None:
    """Add to a model's call what the provider searched for while the model answered.

    Each search becomes a retriever below the call, and each other tool a tool. Their
    texts are added to the end of the prompt, since the provider showed them to the
    model. The reply is given the sources that it cites.

    Where the reply tells of nothing, but the model is known to search for every answer,
    the call gets a remark that says so.

    Args:
        call: The call of the model, with its prompt. It is changed once; only the
            sources are given to each new copy of its reply.
        evidence: What its reply tells.
    """
    # a framework may hand on one reply twice, and the second copy replaces the first
    if call.reply is not None and evidence.annotations:
        sources = tuple(map(_cited_source, evidence.annotations))
        call.reply = replace(call.reply, cited_sources=sources)
    if any(child.by_provider for child in call.children):
        return  # it was changed before
    calls = list(_with_cited_words(call, evidence))
    for provider_call in calls:
        call.children.append(_node(provider_call, call))
    shown_message = ProviderEvidence(tuple(calls)).message
    if shown_message is not None:
        call.prompt = (*call.prompt, shown_message)
    remarks = list(evidence.doubts)
    if not evidence:
        for model in (call.model, evidence.model):
            if model and _SEARCHING_MODEL.search(model):
                remarks.append(searches_by_itself(model))
                break
    call.remarks = (*call.remarks, *remarks)


def _cited_source(annotation: Annotation) -> CitedSource:
    """A source that the provider says a part of the reply cites."""
    return CitedSource(
        names=annotation.names,
        quote=annotation.quote,
        start=annotation.start,
        end=annotation.end,
    )


def _node(provider_call: ProviderCall, call: Node) -> Node:
    """A search or tool of the provider as a call below that of the model.

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
    """Yield the provider's calls of a reply, with documents made of quoted passages.

    A source whose text is unknown gets one document, made of the passages that the
    reply quotes from it. The document is added to the search that names the source. Sources
    that no search names become the documents of one further call.

    Args:
        call: The call of the model.
        evidence: What its reply tells.
    """
    quoted_by_index: dict[int, list[Document]] = {}
    quoted_elsewhere: list[Document] = []
    for names, quotes in _new_quotes_by_source(call, evidence).items():
        metadata = {"source": names[0]} if names else {}
        quoted = Document(" … ".join(quotes), metadata=metadata)
        index = _index_of_search_that_names(names, evidence.calls)
        if index is None:
            quoted_elsewhere.append(quoted)
        else:
            quoted_by_index.setdefault(index, []).append(quoted)
    for index, provider_call in enumerate(evidence.calls):
        quoted_documents = quoted_by_index.get(index, [])
        if quoted_documents:
            documents = (*(provider_call.documents or ()), *quoted_documents)
            provider_call = replace(provider_call, documents=documents)
        yield provider_call
    if quoted_elsewhere:
        yield ProviderCall(
            _CITED,
            documents=tuple(quoted_elsewhere),
            # of each source only the quoted passages are known, not the whole text
            n_without_text=len(quoted_elsewhere),
            remedy=UNKNOWN_DOCUMENT,
        )


def _new_quotes_by_source(
    call: Node, evidence: ProviderEvidence
) -> dict[tuple[str, ...], list[str]]:
    """Collect the quotes that stand neither in the prompt nor in what was found.

    A quote from the prompt cites what the application itself showed. Texts are compared
    by their letters alone.

    Returns:
        The quotes by the names of their source, in the order of the citations.
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
    """Find the first search that names a source and has sources without a text.

    None if no search does.
    """
    for index, provider_call in enumerate(calls):
        names_source = not provider_call.source_names.isdisjoint(names)
        if provider_call.searches and provider_call.n_without_text and names_source:
            return index
    return None
