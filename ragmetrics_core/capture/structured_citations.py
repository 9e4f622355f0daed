"""What a structured reply cites: the sources that it names by number, id or quote. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ragmetrics_core.capture.calls import texts_not_of_models
from ragmetrics_core.capture.citation_search import CitationSearch, kind_of_number
from ragmetrics_core.capture.cited_sources import (
    QuotedContexts,
    contexts_of_quotes,
    span_of_source,
)
from ragmetrics_core.capture.label_meanings import (
    indexes_by_metadata,
    indexes_by_own_list,
    indexes_of_number,
    indexes_of_page,
    refuse_numbers_of_other_lists,
)
from ragmetrics_core.capture.prompt_labels import Labels
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.capture.unknown_meanings import (
    LONGEST_LABEL,
    refuse_if_perhaps_shown,
)
from ragmetrics_core.data import Citation
from ragmetrics_core.data.marks import places_of, plain_label


def by_a_structured_reply(search: CitationSearch) -> tuple[Citation, ...] | None:
    """Read the sources that a structured reply names by number, id or quote.

    langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: ``CitedAnswer`` and
    ``QuotedAnswer``.
    """
    sources = search.sources
    if sources is None:
        return None
    labels, prompts = search.labels, search.prompts
    if search.annotator is not None:
        prompts = [*prompts, *texts_not_of_models(search.annotator)]
        labels = search.labels_of(prompts)
    return _citations_of(search, sources, labels, prompts)


def _citations_of(
    search: CitationSearch,
    sources: Sequence[CitedSource],
    labels: Labels,
    prompts: Sequence[str],
) -> tuple[Citation, ...]:
    """Make a citation of each source that a structured answer names beside its text.

    ``{"answer": "It fell.", "citations": [2, "z"]}``: 2 cites the context that the
    prompt shows as "[2]"; "z", shown nowhere, dangles: it cites no context.

    Args:
        search: What the rules look at.
        sources: The sources.
        labels: The labels of the contexts in the prompts.
        prompts: What the model was shown.

    Raises:
        UnknownMeaning: If a source is none of the contexts, but may be something else
            that the model was shown.
    """
    quotes = [source.quote for source in sources]
    quoted_contexts = contexts_of_quotes(quotes, search.contexts)
    citations = []
    for source, quoted in zip(sources, quoted_contexts, strict=True):
        indexes = _indexes_of_source(source, quoted, search, labels)
        dangling: tuple[str, ...] = ()
        if not indexes:
            name = str(source.id) if source.id is not None else source.quote or ""
            refuse_if_perhaps_shown(name, search, labels, prompts)
            dangling = (name[:LONGEST_LABEL],)
        start, end = span_of_source(source, search.text)
        citations.append(
            Citation(start=start, end=end, contexts=indexes, dangling=dangling)
        )
    return tuple(citations)


def _indexes_of_source(
    source: CitedSource,
    quoted: QuotedContexts,
    search: CitationSearch,
    labels: Labels,
) -> tuple[int, ...]:
    """Find the contexts that a source names; () if it names none that was shown.

    Example: both contexts are chunks of "a.pdf". A source with the id "a.pdf" names
    both, (0, 1); with a quote that stands only in the second, it names (1,).

    Args:
        source: The source.
        quoted: The contexts that its quote comes from.
        search: What the rules look at.
        labels: The labels of the contexts in the prompts.
    """
    if source.id is None:
        return quoted.cited
    indexes = _indexes_by_id(str(source.id), search, labels)
    if not indexes:
        return quoted.cited
    if len(indexes) == 1:
        return indexes
    # several contexts have the id, as chunks of one file: quote or page tell which
    quoted_of_id = quoted.among(indexes).cited
    if quoted_of_id:
        return quoted_of_id
    if source.page is not None:
        return indexes_of_page(indexes, source.page, search)
    return indexes


def _indexes_by_id(
    source_id: str, search: CitationSearch, labels: Labels
) -> tuple[int, ...]:
    """Find the contexts that a source's id means; () if it means none.

    The id is looked up in this order, and the first meaning counts:

    1. a number in the answer's own list of sources, "Sources: [2] b.pdf"
    2. a number of a prompt that numbers each context twice: the ids "[2]" and
       "Source 3" both mean the context shown as "[2] Source 3: IRON"
    3. a label in the prompt: 2 means the context that is shown as "[2]"
    4. an id or metadata of a context: "b.pdf" means those with ``{"source": "b.pdf"}``

    Raises:
        UnknownMeaning: If the prompt has two numberings, and a number may mean one
            context or another.
    """
    name = source_id.strip()
    plain_name = plain_label(source_id)  # "[2]" and "Source 2" are 2
    numbered = indexes_by_own_list(plain_name, search)  # 1 of the order above
    if not numbered:
        # 2; an id that may number another list of the prompt raises before
        refuse_numbers_of_other_lists([plain_name], kind_of_number(name), search)
        numbered = indexes_of_number(plain_name, kind_of_number(name), labels)
    if numbered:
        return numbered
    for label in (name, plain_name):  # 3
        indexes = places_of(label, labels.indexes_by_label)
        if indexes:
            return indexes
    if plain_name.isdigit():
        return ()  # a number without a label may count anything
    return indexes_by_metadata(name, search)  # 4
