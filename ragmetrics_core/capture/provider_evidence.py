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
    """Put what a provider found below the model's call in which it searched.

    Each search becomes a retriever, each other tool a tool. What they brought stands at
    the end of the call's prompt: the provider showed it to the model. A source of which
    only cited words are known brings these, unless the prompt holds them already: then
    they cite what the application itself showed. The reply says which sources it cites.

    Args:
        call: The call of the model, with its prompt; it is changed, once.
        evidence: What its reply tells.
    """
    if any(child.by_provider for child in call.children):
        return
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
    if call.reply is not None and evidence.annotations:
        sources = tuple(map(_cited_source, evidence.annotations))
        call.reply = replace(call.reply, cited_sources=sources)


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
    has_gap = bool(provider_call.n_unread and provider_call.remedy)
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
        n_without_text=provider_call.n_unread,
        remarks=(provider_call.remedy,) if has_gap else (),
    )


def _with_cited_words(call: Node, evidence: ProviderEvidence) -> Iterator[ProviderCall]:
    """Yield the calls of a reply, with the cited words of sources whose texts are not known.

    The words join the search that names their source. Others become a call of their
    own.
    """
    parts_by_place: dict[int, list[Document]] = {}
    parts_of_others: list[Document] = []
    for names, quotes in _new_quotes_by_source(call, evidence).items():
        metadata = {"source": names[0]} if names else {}
        part = Document(" … ".join(quotes), metadata=metadata)
        place = _place_of_search_that_names(names, evidence.calls)
        if place is None:
            parts_of_others.append(part)
        else:
            parts_by_place.setdefault(place, []).append(part)
    for place, provider_call in enumerate(evidence.calls):
        documents = (*(provider_call.documents or ()), *parts_by_place.get(place, ()))
        has_parts = place in parts_by_place
        yield (
            replace(provider_call, documents=documents) if has_parts else provider_call
        )
    if parts_of_others:
        yield ProviderCall(
            _CITED,
            documents=tuple(parts_of_others),
            n_unread=len(parts_of_others),
            remedy=UNKNOWN_DOCUMENT,
        )


def _new_quotes_by_source(
    call: Node, evidence: ProviderEvidence
) -> dict[tuple[str, ...], list[str]]:
    """The cited words that stand neither in the prompt nor in what was found.

    Texts are compared by their letters alone.

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


def _place_of_search_that_names(
    names: Sequence[str], calls: Sequence[ProviderCall]
) -> int | None:
    """The place of the search that names a source and has not all of its text.

    None if no search does.
    """
    for place, provider_call in enumerate(calls):
        names_source = not provider_call.source_names.isdisjoint(names)
        if provider_call.searches and provider_call.n_unread and names_source:
            return place
    return None
