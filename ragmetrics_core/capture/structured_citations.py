"""What a structured reply cites: the sources that it names by number, id or quote. Pure.

Its answer may have marks of its own. ``{"answer": "It fell [2].", "sources": [1]}``
contradicts itself: what it cites is unknown, whether it is handed on as text or parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragmetrics_core.capture.calls import texts_not_of_models
from ragmetrics_core.capture.cited_sources import (
    QuotedContexts,
    contexts_of_quotes,
    span_of_source,
)
from ragmetrics_core.capture.citing_answer import CitingAnswer, numbering_of_name
from ragmetrics_core.capture.json_places import with_places_in_json
from ragmetrics_core.capture.label_meanings import (
    context_indexes_by_list_in_answer,
    context_indexes_by_metadata,
    context_indexes_of_number,
    context_indexes_of_page,
    refuse_numbers_of_other_lists_in_prompts,
    refuse_other_page,
)
from ragmetrics_core.capture.marked_citations import by_marks
from ragmetrics_core.capture.plain_values import answer_in, parse_json
from ragmetrics_core.capture.prompt_labels import Labels
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.capture.unknown_meanings import (
    LONGEST_LABEL,
    UnknownMeaning,
    refuse_if_perhaps_shown,
)
from ragmetrics_core.data import Citation
from ragmetrics_core.data.marks import contexts_of_label, marks_in, plain_label

_MARKS_AND_FIELD_DIFFER = (
    "the marks in the structured answer cite other sources than its own list of sources"
)
_QUOTE_AND_ID_DIFFER = (
    "the structured answer quotes a passage under the number or id of another"
)


def by_marks_and_a_field(answer: CitingAnswer) -> tuple[Citation, ...] | None:
    """Read a structured reply that cites twice: by marks, and in a field of its own.

    ``{"answer": "It fell [2].", "sources": [2]}`` cites the context that the prompt shows
    as "[2]". With ``"sources": [1]`` it contradicts itself.

    Returns:
        The citations of the marks, with their places in the answer. None unless both are
        there.

    Raises:
        UnknownMeaning: If marks and field differ, or if it is not known what they name.
    """
    if answer.annotator is not None or answer.sources is None:
        return None
    marked_part = _marked_part_of(answer)
    if marked_part is None:
        return None
    of_marks = _citations_of_marks(marked_part)
    if not of_marks:
        return None
    of_field = by_a_structured_reply(answer) or ()
    if not _cite_the_same(of_marks, of_field):
        raise UnknownMeaning(_MARKS_AND_FIELD_DIFFER)
    if marked_part is answer:
        return of_marks
    text = marked_part.found_answer.text or ""
    return with_places_in_json(of_marks, text, answer.text)


def _marked_part_of(answer: CitingAnswer) -> CitingAnswer | None:
    """Return the part of an answer with marks: itself, or a text in a JSON answer.

    None if a JSON answer has no such field. Also None if the answer is the reply's whole
    text, and the reply calls tools: their arguments are no fields beside the answer.
    """
    value = parse_json(answer.text)
    if value is None:
        return None if _is_plain_reply_with_tools(answer) else answer
    if not isinstance(value, Mapping):
        return None
    text, _ = answer_in(value)
    return None if text is None else answer.with_text(text)


def _is_plain_reply_with_tools(answer: CitingAnswer) -> bool:
    """Whether the answer is the reply's text, and the reply also calls tools."""
    reply = answer.reply
    if reply is None or not reply.tool_calls:
        return False
    return reply.text.strip() == answer.text.strip()


def _citations_of_marks(answer: CitingAnswer) -> tuple[Citation, ...]:
    """Return what the marks of an answer cite; () without marks.

    Raises:
        UnknownMeaning: If a mark has no known meaning. The field beside it does not tell
            for which sentence it names a source, nor that a mark names none of them.
    """
    try:
        citations = by_marks(answer) or ()
    except UnknownMeaning:
        if marks_in(answer.text):
            raise
        return ()
    return tuple(citation for citation in citations if citation.mark is not None)


def _cite_the_same(of_marks: Sequence[Citation], of_field: Sequence[Citation]) -> bool:
    """Whether the marks of an answer and its field cite the same.

    A file that the field names is the same as any of its contexts: "a.pdf" of two
    contexts, and the mark of one of them.
    """
    cited = _contexts_of(of_marks)
    names_another = any(
        citation.contexts and cited.isdisjoint(citation.contexts)
        for citation in of_field
    )
    lists_all = cited <= _contexts_of(of_field)
    same_dangle = _dangling_labels(of_marks) == _dangling_labels(of_field)
    return lists_all and same_dangle and not names_another


def _contexts_of(citations: Iterable[Citation]) -> set[int]:
    """Return the indexes of the contexts that any of some citations cites."""
    context_indexes: set[int] = set()
    for citation in citations:
        context_indexes.update(citation.contexts)
    return context_indexes


def _dangling_labels(citations: Iterable[Citation]) -> set[str]:
    """Return what some citations name that nobody was shown: "7" for "[7]"."""
    labels: set[str] = set()
    for citation in citations:
        labels.update(map(plain_label, citation.dangling))
    return labels


def by_a_structured_reply(answer: CitingAnswer) -> tuple[Citation, ...] | None:
    """Read the sources that a structured reply names by number, id or quote.

    langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb: ``CitedAnswer`` and
    ``QuotedAnswer``.
    """
    sources = answer.sources
    if sources is None:
        return None
    labels, prompts = answer.labels, answer.prompts
    if answer.annotator is not None:
        prompts = [*prompts, *texts_not_of_models(answer.annotator)]
        labels = answer.labels_of(prompts)
    return _citations_of(answer, sources, labels, prompts)


def _citations_of(
    answer: CitingAnswer,
    sources: Sequence[CitedSource],
    labels: Labels,
    prompts: Sequence[str],
) -> tuple[Citation, ...]:
    """Make a citation of each source that a structured answer names beside its text.

    ``{"answer": "It fell.", "citations": [2, "z"]}``: 2 cites the context that the
    prompt shows as "[2]"; "z", shown nowhere, dangles: it cites no context.

    Args:
        answer: The answer, with its prompts, contexts and labels.
        sources: The sources.
        labels: The labels of the contexts in the prompts.
        prompts: What the model was shown.

    Raises:
        UnknownMeaning: If a source is none of the contexts, but may be something else
            that the model was shown.
    """
    quotes = [source.quote for source in sources]
    quoted_contexts = contexts_of_quotes(quotes, answer.contexts)
    citations = []
    for source, quoted in zip(sources, quoted_contexts, strict=True):
        context_indexes = _context_indexes_of_source(source, quoted, answer, labels)
        dangling: tuple[str, ...] = ()
        if not context_indexes:
            name = str(source.id) if source.id is not None else source.quote or ""
            refuse_if_perhaps_shown(plain_label(name), answer, labels, prompts)
            dangling = (name[:LONGEST_LABEL],)
        start, end = span_of_source(source, answer.text)
        citations.append(
            Citation(start=start, end=end, contexts=context_indexes, dangling=dangling)
        )
    return tuple(citations)


def _context_indexes_of_source(
    source: CitedSource,
    quoted: QuotedContexts,
    answer: CitingAnswer,
    labels: Labels,
) -> tuple[int, ...]:
    """Find the contexts that a source names; () if it names none that was shown.

    Example: both contexts are chunks of "a.pdf". A source with the id "a.pdf" names
    both, (0, 1); with a quote that stands only in the second, it names (1,).

    Args:
        source: The source.
        quoted: The contexts that its quote comes from.
        answer: The answer, with its prompts, contexts and labels.
        labels: The labels of the contexts in the prompts.

    Raises:
        UnknownMeaning: If its id has no clear meaning, or if its quote stands in another
            context than the one that its id means.
    """
    if source.id is None:
        return quoted.cited
    context_indexes = _context_indexes_by_id(str(source.id), answer, labels)
    _refuse_quote_of_another(source, quoted, context_indexes, answer)
    if not context_indexes:
        return quoted.cited
    if len(context_indexes) == 1:
        if source.page is not None and source.page.isdecimal():
            refuse_other_page(context_indexes[0], source.page, answer)
        return context_indexes
    # several contexts have the id, as chunks of one file: quote or page tell which
    quoted_of_id = quoted.among(context_indexes).cited
    if quoted_of_id:
        return quoted_of_id
    if source.page is not None:
        return context_indexes_of_page(context_indexes, source.page, answer)
    return context_indexes


def _refuse_quote_of_another(
    source: CitedSource,
    quoted: QuotedContexts,
    context_indexes: Sequence[int],
    answer: CitingAnswer,
) -> None:
    """Raise if a source quotes another context than the one that its id means.

    ``{"id": 1, "quote": "It fell."}``, and "It fell." stands under "[2]": the model may
    have miscounted, or numbered anew. A quote that stands in no context contradicts
    nothing.

    Args:
        source: The source.
        quoted: The contexts that its quote comes from.
        context_indexes: The contexts that its id means.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If it does.
    """
    # the id of a short bare text is that text itself, and is no quote
    if source.quote is None or source.quote == source.id or not quoted.cited:
        return
    if not context_indexes or not set(context_indexes).isdisjoint(quoted.cited):
        return
    # of texts that are nearly alike, the quote may be found in one alone
    contexts_meant = [answer.contexts[index] for index in context_indexes]
    (quoted_in_meant,) = contexts_of_quotes([source.quote], contexts_meant)
    if not quoted_in_meant.cited:
        raise UnknownMeaning(_QUOTE_AND_ID_DIFFER)


def _context_indexes_by_id(
    source_id: str, answer: CitingAnswer, labels: Labels
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
    numbered = context_indexes_by_list_in_answer(
        plain_name, answer
    )  # 1 of the order above
    if not numbered:
        # 2; an id that may number another list of the prompt raises before
        refuse_numbers_of_other_lists_in_prompts(
            [plain_name], numbering_of_name(name), answer
        )
        numbered = context_indexes_of_number(
            plain_name, numbering_of_name(name), labels
        )
    if numbered:
        return numbered
    for label in (name, plain_name):  # 3
        context_indexes = contexts_of_label(label, labels.context_indexes_by_label)
        if context_indexes:
            return context_indexes
    if plain_name.isdigit():
        return ()  # a number without a label may count anything
    return context_indexes_by_metadata(name, answer)  # 4
