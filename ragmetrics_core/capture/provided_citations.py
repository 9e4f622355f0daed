"""What an answer cites by the sources that its model's provider attached to the reply. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from ragmetrics_core.capture.cited_sources import QuotedContexts, contexts_of_quotes
from ragmetrics_core.capture.citing_answer import CitingAnswer
from ragmetrics_core.capture.label_meanings import (
    by_its_numbering,
    context_indexes_by_metadata,
)
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.prompt_labels import Labels, labels_in
from ragmetrics_core.capture.tree import CitedSource, Node
from ragmetrics_core.capture.unknown_meanings import (
    NOT_RETURNED,
    UnknownMeaning,
    as_mark,
)
from ragmetrics_core.data import Citation
from ragmetrics_core.data.citations import Statement, marks_with_citations, statements
from ragmetrics_core.data.marks import marks_in

_OF_THE_PROVIDER = (
    "the model's provider numbers its own sources, and {} may mean one of these"
)
_PERHAPS_OF_THE_PROVIDER = (
    "the model's provider may have searched, and may number what it found: {} may mean"
    " one of these sources, which nobody recorded"
)
_AT_NO_END = "the model's provider names a source for a point of the answer where no sentence ends"
_QUOTED_FROM_ELSEWHERE = (
    "the model's provider quotes a text for the answer that none of the contexts holds"
)


def by_the_provider(answer: CitingAnswer) -> tuple[Citation, ...] | None:
    """Read the sources that the model's provider attached to the reply.

    Example: OpenAI attaches ``{"url": "https://x.org/a", "start_index": 0, "end_index":
    8}``. The contexts with this address are cited for the first 8 characters, "It fell."

    Returns:
        The citations by sources, and those by numbers of the prompt such as "[2]". None
        without attached sources: an empty list counts as none, since providers send one
        with every answer.

    Raises:
        UnknownMeaning: If nobody can tell which contexts a source, or a number of the
            answer, means.
    """
    call = answer.found_answer.writing_call
    if call is None or call.reply is None:
        return None
    sources = call.reply.cited_sources
    if not sources:
        _refuse_numbers_perhaps_of_the_provider(call, answer)
        return None
    _refuse_numbers_of_the_provider(sources, answer)
    cited_sources = [source for source in sources if source.is_cited]
    if not cited_sources:
        return None
    citations = _citations_of_sources(cited_sources, call.reply.text, answer)
    return _with_marks_of_the_prompt(citations, answer)


def _citations_of_sources(
    sources: Sequence[CitedSource], reply: str, answer: CitingAnswer
) -> list[Citation]:
    """Return what each source cites: a part of the answer, and contexts; each once.

    Args:
        sources: The sources that the provider attached to the reply.
        reply: The reply. The answer may have more words than the reply.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If no context holds the quote of a source, or has the name of a
            source without a quote.
    """
    quotes = [source.quote for source in sources]
    contexts_by_source = contexts_of_quotes(quotes, answer.contexts)
    sentences = statements(reply)
    citations = []
    for source, quoted_contexts in zip(sources, contexts_by_source, strict=True):
        start, end = _span_in_answer(source, reply, sentences, answer.text)
        context_indexes = _context_indexes_of_provided_source(
            source, quoted_contexts, answer
        )
        citations.append(Citation(start=start, end=end, contexts=context_indexes))
    return list(dict.fromkeys(citations))


def _refuse_numbers_of_the_provider(
    sources: Iterable[CitedSource], answer: CitingAnswer
) -> None:
    """Raise if a mark may mean a source that the provider numbers.

    Perplexity lists the pages that it found, and "[1]" of its reply means the first of
    them; in a prompt with "[1] It fell." nobody knows which of the two is meant.
    """
    numbers = {source.label for source in sources if not source.is_cited}
    if not numbers:
        return
    for mark in marks_in(answer.text):
        for label in mark.labels:
            if label in numbers:
                raise UnknownMeaning(_OF_THE_PROVIDER.format(as_mark(label)))


def _refuse_numbers_perhaps_of_the_provider(call: Node, answer: CitingAnswer) -> None:
    """Raise if a mark may mean a source that the provider found, and that nobody recorded.

    Perplexity's sonar is shown "[1] It fell." by the application, and numbers the pages
    that it found from 1, too. Of its reply OpenAI's client keeps the text alone.

    Args:
        call: The call that wrote the answer; its reply names no sources.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If the answer has a number, and the model searched and numbers
            what it finds.
    """
    if not call.numbers_unseen_sources:
        return
    for mark in marks_in(answer.text):
        for label in mark.labels:
            if label.isdigit():
                raise UnknownMeaning(_PERHAPS_OF_THE_PROVIDER.format(as_mark(label)))


def _with_marks_of_the_prompt(
    citations: Sequence[Citation], answer: CitingAnswer
) -> tuple[Citation, ...]:
    """Return the provider's citations, and the citations by marks such as "[2]".

    The prompt shows "[2] It fell.", and the provider searched the web: the answer "It
    fell [2]." cites this context beside a web page that the provider attached.

    Args:
        citations: The provider's citations.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If a number may mean one context or another.
    """
    labels = _labels_of_applications_contexts(answer)
    # the first number of each line of the prompt: ``{"1": (0,)}`` of "[1] Source 3: IRON"
    context_indexes_by_number = {
        number: labels.context_indexes_by_label[number] for number in labels.numbers
    }
    if not context_indexes_by_number:
        return tuple(citations)
    citations_of_numbers = []
    for mark, citation in marks_with_citations(answer.text, context_indexes_by_number):
        if answer.lists_in_answer.hold(mark.start):
            continue  # "[2] b.pdf" in the answer's own list of sources
        # so far "[1]" cites IRON, and "[Source 3]" nothing; now this cites IRON, too
        citation = by_its_numbering(mark, citation, labels, answer)
        if citation.contexts:
            citations_of_numbers.append(citation)
    return tuple(dict.fromkeys([*citations, *citations_of_numbers]))


def _labels_of_applications_contexts(answer: CitingAnswer) -> Labels:
    """Read the labels of the contexts that the application itself put into the prompt.

    The contexts that the model's provider found are left out. The indexes count all
    contexts: of [a page of the provider, IRON] the label "[1]" of IRON has the index 1.
    """
    provided_texts: set[str] = set()
    for node in answer.calls.nodes:
        if node.by_provider:
            provided_texts.update(document.text for document in node.documents or ())
    own_texts = []
    context_indexes_of_texts = []  # of these texts among all contexts
    for context_index, text in enumerate(answer.context_texts):
        if text not in provided_texts:
            own_texts.append(text)
            context_indexes_of_texts.append(context_index)
    return labels_in(answer.prompts, own_texts).with_context_indexes(
        context_indexes_of_texts
    )


def _context_indexes_of_provided_source(
    source: CitedSource, quoted: QuotedContexts, answer: CitingAnswer
) -> tuple[int, ...]:
    """Find the contexts that a provider means by a source.

    Its quote decides. Its name only chooses between contexts that hold the quote: texts
    of an earlier turn may have the same name. If several are left, as neighbouring chunks
    of one file, the text that the provider says is meant chooses; without one they are
    all cited.

    Args:
        source: The source.
        quoted: The contexts that its quote comes from.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If no context holds its quote or, without a quote, has its name.
    """
    named_context_indexes = _context_indexes_by_names(source.names, answer)
    if source.quote is None:
        context_indexes = named_context_indexes
        if not context_indexes:
            raise UnknownMeaning(NOT_RETURNED)
    else:
        context_indexes = quoted.among(named_context_indexes).cited or quoted.cited
        if not context_indexes:
            raise UnknownMeaning(_QUOTED_FROM_ELSEWHERE)
        if context_indexes == quoted.making_up:
            return context_indexes  # its parts stand in several texts
    return (
        _context_indexes_with_text(source.text, context_indexes, answer)
        or context_indexes
    )


def _context_indexes_with_text(
    text: str | None, context_indexes: Sequence[int], answer: CitingAnswer
) -> tuple[int, ...]:
    """Choose the contexts that are a text, else those that it holds or that hold it."""
    normalized = normalize_text(text or "")
    if not normalized or len(context_indexes) < 2:
        return ()
    equal = [
        index
        for index in context_indexes
        if answer.normalized_contexts[index] == normalized
    ]
    if equal:
        return tuple(equal)
    return tuple(
        index
        for index in context_indexes
        if normalized in answer.normalized_contexts[index]
        or answer.normalized_contexts[index] in normalized
    )


def _context_indexes_by_names(
    names: Iterable[str], answer: CitingAnswer
) -> tuple[int, ...]:
    """Find the contexts that have the first of some names that any context has.

    Empty if no context has one of the names.
    """
    for name in names:
        context_indexes = context_indexes_by_metadata(name, answer)
        if context_indexes:
            return context_indexes
    return ()


def _span_in_answer(
    source: CitedSource, reply: str, sentences: Sequence[Statement], answer: str
) -> tuple[int, int]:
    """Return start and end of the part of the answer that a source is cited for.

    The reply is "It fell.", and the provider cites a source for its offsets 0 to 8; the
    application answers "Answer: It fell.": the part stands at 8 to 16. It is the whole
    answer where the source has no offsets, or their part is not in the answer.

    Args:
        source: The source.
        reply: The reply.
        sentences: The sentences of the reply.
        answer: The answer.

    Raises:
        UnknownMeaning: If the source has a point where no sentence of the reply ends.
    """
    whole_answer = 0, len(answer)
    if source.start is None or source.end is None:
        return whole_answer
    start, end = source.start, source.end
    if start == end:
        start, end = _sentence_ending_at(end, reply, sentences)
    cited_part = reply[start:end]
    if not cited_part or len(cited_part) < end - start:
        return whole_answer  # the offsets lie outside of this reply
    if reply != answer:
        start = answer.find(cited_part)
    if start < 0:
        return whole_answer
    return start, start + len(cited_part)


def _sentence_ending_at(
    point: int, reply: str, sentences: Sequence[Statement]
) -> tuple[int, int]:
    """Return start and end of the sentence of a reply that ends at a point.

    Only signs and blanks may stand between its end and the point: the sentence of "It
    fell. Why?" that ends at 7, 8 or 9 is "It fell.".

    Raises:
        UnknownMeaning: If no sentence ends there. Some count a list of files instead.
    """
    n_begun = bisect_left(sentences, point, key=lambda sentence: sentence.start)
    if n_begun:
        sentence = sentences[n_begun - 1]
        first, last = sorted((point, sentence.end))
        if last <= len(reply) and not any(map(str.isalnum, reply[first:last])):
            return sentence.start, sentence.end
    raise UnknownMeaning(_AT_NO_END)
