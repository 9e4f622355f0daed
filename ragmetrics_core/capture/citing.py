"""What a captured answer cites: the last part of stage 3. Pure.

Three things say so, and the first that says anything decides: the model's provider, the
marks in the answer (without marks: the framework), and the sources that a structured
reply names. A mark or a number means what the prompt showed
under it. If that cannot be known, the citations are unknown, with a reason.

The prompt shows "[1] It is old. [2] It fell." The answer "It fell [2]." then cites the
context with the index 1. "It fell [3]." **dangles**: it names a source that was shown
to nobody. Had the prompt shown no numbers, the citations would be unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.answer import FoundAnswer
from ragmetrics_core.capture.calls import texts_not_of_models
from ragmetrics_core.capture.citation_search import (
    CitationSearch,
    kind_of_number,
)
from ragmetrics_core.capture.cited_sources import (
    QuotedContexts,
    contexts_of_quotes,
    span_of_source,
)
from ragmetrics_core.capture.closing_sources import closing_sources_in
from ragmetrics_core.capture.evidence import AnswerEvidence
from ragmetrics_core.capture.plain_values import parse_json
from ragmetrics_core.capture.prompt_labels import Labels, labels_in
from ragmetrics_core.capture.question import Turn
from ragmetrics_core.capture.source_names import file_name_of, is_mark_label
from ragmetrics_core.capture.structured_sources import has_unread_lists
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.capture.unknown_meanings import (
    LONGEST_LABEL,
    NO_MEANING,
    SEVERAL,
    SHOWN_ELSEWHERE,
    UnknownMeaning,
    as_mark,
    refuse_if_perhaps_shown,
)
from ragmetrics_core.data import Citation
from ragmetrics_core.data.citations import (
    UNREAD_FORM,
    citations_of_marks,
    cites_in_unread_form,
    places_of,
)
from ragmetrics_core.data.marks import (
    Mark,
    is_like_labels,
    marks_in,
    may_cite,
    plain_label,
)

# the page that a mark names beside the source
_PAGE = re.compile(r"\b(?:pp?\.?|pages?:?|s\.|seite:?)\s*([0-9]{1,5})\b", re.IGNORECASE)
_TWO_NUMBERINGS = (
    "the prompt numbers its passages in two ways, and which of them {} means is not"
    " known"
)
_NUMBERED_ANEW = (
    "the answer itself, as in its own list of sources, gives {} another meaning than the"
    " prompt, and which context it means is not known"
)
_FILE_OR_NUMBER = (
    "the answer names {}, which may be a file of this name or a number of the prompt"
)
_NAMED_IN_WORDS = (
    "the answer names a document in round brackets, which may cite it and may not"
)
_SOURCE_IN_WORDS = (
    "the answer names a source in its own words, which may cite it and may not"
)
_LISTS_OTHERS = (
    "the answer's own list of sources names others than its marks cite: what the marks"
    " mean is not known"
)
_CHANGED = (
    "the application changed the marks that the model wrote: what they mean now is not"
    " recorded"
)
_NOT_RETURNED = (
    "the model's provider names a source whose text it does not return, or that none of"
    " the contexts is called"
)
_QUOTED_FROM_ELSEWHERE = (
    "the model's provider quotes a text for the answer that none of the contexts holds"
)
_UNREAD_FIELDS = "the structured answer has lists that may name sources"


@dataclass(frozen=True, slots=True)
class CitationsFound:
    """What is known of the citations of one answer.

    Args:
        citations: What it cites; () if it cites nothing; None if that is not known.
        why_unknown: Why it is not known, in words; "" if it is, or if nothing more can
            be said than that no prompt numbered the contexts.
    """

    citations: tuple[Citation, ...] | None = None
    why_unknown: str = ""


def cited_by(
    turn: Turn, found_answer: FoundAnswer, answer_evidence: AnswerEvidence
) -> CitationsFound:
    """Find out which contexts an answer cites, by the first rule that finds citations.

    The prompt shows "[1] It is old. [2] It fell.": the answer "It fell [2]." cites the
    second context. There are three outcomes:

    - ``citations`` holds citations: a rule found them.
    - ``citations`` is (): the answer cites nothing, as by an empty list of sources, and
      names no source in words.
    - ``citations`` is None: nobody knows, as of a mark "[3]" of unknown meaning.
      ``why_unknown`` is the first reason that a rule gave.

    Where no rule applies, ``_without_marks`` says (), or None with a reason.

    Args:
        turn: The question, and the calls that were made for it.
        found_answer: The answer, and the call that wrote it.
        answer_evidence: What the answer could rest on.
    """
    if found_answer.text is None:
        return CitationsFound(citations=None)
    search = CitationSearch(turn, found_answer, answer_evidence)
    why_unknown = ""
    for rule in _RULES:
        try:
            # None where the rule does not apply; () where the answer cites nothing
            citations = rule(search)
        except UnknownMeaning as reason:
            # a later rule may still tell; if none does, the first reason is given
            why_unknown = why_unknown or str(reason)
            continue
        if citations:
            return CitationsFound(citations)
        cites_nothing = citations is not None
        # after a mark of unknown meaning an empty list of sources is not believed
        if cites_nothing and not why_unknown:
            return _citing_nothing(search)
    if why_unknown:
        return CitationsFound(None, why_unknown)
    return _without_marks(search)


def _without_marks(search: CitationSearch) -> CitationsFound:
    """Say what an answer cites that has no mark and names no source.

    It cites nothing if the prompt numbered the contexts as sources. Otherwise it is not
    known.
    """
    reply = search.reply
    if search.has_lost_its_marks:
        return CitationsFound(None, _CHANGED)
    if search.has_names_in_words:
        return CitationsFound(None, _NAMED_IN_WORDS)
    if may_cite(search.text):
        return CitationsFound(None, "" if marks_in(search.text) else UNREAD_FORM)
    if reply is not None and any(map(has_unread_lists, reply.values)):
        return CitationsFound(None, _UNREAD_FIELDS)
    return _citing_nothing(search) if search.is_numbered else CitationsFound(None)


def _citing_nothing(search: CitationSearch) -> CitationsFound:
    """Say that an answer cites nothing, unless its own words name a source."""
    if search.names_a_source_in_words:
        return CitationsFound(None, _SOURCE_IN_WORDS)
    return CitationsFound(citations=())


# The rules. Each returns
# - the citations that it found,
# - () where the answer says that it cites nothing, as by an empty list of sources,
# - None where the rule does not apply.
# It raises UnknownMeaning where the answer names something whose meaning is not known.


def _by_the_provider(search: CitationSearch) -> tuple[Citation, ...] | None:
    """Read the sources that the model's provider attached to the reply.

    OpenAI, annotations of a message: each names an address or a file, and the part of
    the text that it is cited for.

    ``{"url": "https://x.org/a", "start_index": 0, "end_index": 8}`` cites the contexts
    with this address for "It fell."; a source with a quote cites the context that holds
    the quote.

    Returns:
        The citations, with those by numbers of the prompt such as "[2]". None without
        attached sources: an empty list counts as none, since providers send one with
        every answer.

    Raises:
        UnknownMeaning: If no context holds a source's quote, or has the name of a source
            without one, or if the answer also has marks whose numbers may mean one
            context or another.
    """
    call = search.found_answer.writing_call
    reply = None if call is None else call.reply
    sources = None if reply is None else reply.cited_sources
    if not sources or reply is None:
        return None
    contexts = search.answer_evidence.contexts.items
    quotes = [source.quote for source in sources]
    # for each quote the contexts that it comes from
    quoted_contexts = contexts_of_quotes(quotes, contexts)
    citations = []
    for source, quoted in zip(sources, quoted_contexts, strict=True):
        start, end = _span_in_answer(source, reply.text, search.text)
        indexes = _indexes_of_provided_source(source, quoted, search)
        citations.append(Citation(start=start, end=end, contexts=indexes))
    return _with_marks_of_the_prompt(tuple(dict.fromkeys(citations)), search)


def _with_marks_of_the_prompt(
    citations: Sequence[Citation], search: CitationSearch
) -> tuple[Citation, ...]:
    """Return the provider's citations, and the citations by marks such as "[2]".

    The prompt shows "[2] It fell.", and the provider searched the web: the answer "It
    fell [2]." cites this context beside a web page that the provider attached.

    Args:
        citations: The provider's citations.
        search: What the rules look at.

    Raises:
        UnknownMeaning: If a number may mean one context or another.
    """
    labels = _labels_of_applications_contexts(search)
    # the numbers among these labels, each with the indexes of its contexts
    numbering = {
        label: indexes
        for label, indexes in labels.indexes_by_label.items()
        if label.isdigit()
    }
    if not numbering:
        return tuple(citations)
    marks = marks_in(search.text, numbering)
    citations_of_numbers = []
    for mark, citation in zip(
        marks, citations_of_marks(search.text, numbering), strict=True
    ):
        if search.is_in_own_list(mark.start):
            continue  # "[2] b.pdf" in the answer's own list of sources
        # Under "[1] Source 3: IRON" the mark "[Source 3]" cites IRON, and "[3]" does
        # not: the word before a number decides.
        citation = _by_kinds_of_numbers(mark, citation, labels, search)
        if citation.contexts:
            citations_of_numbers.append(citation)
    return tuple(dict.fromkeys([*citations, *citations_of_numbers]))


def _labels_of_applications_contexts(search: CitationSearch) -> Labels:
    """Read the labels of the contexts that the application itself put into the prompt.

    The contexts that the model's provider found are left out. The indexes count all
    contexts: of [a page of the provider, IRON] the label "[1]" of IRON has the index 1.
    """
    provided_texts: set[str] = set()
    for node in search.calls.nodes:
        if node.by_provider:
            provided_texts.update(document.text for document in node.documents or ())
    own_texts = []
    own_indexes = []  # of these texts among all contexts
    for context_index, text in enumerate(search.context_texts):
        if text not in provided_texts:
            own_texts.append(text)
            own_indexes.append(context_index)
    return labels_in(search.prompts, own_texts).with_indexes(own_indexes)


def _indexes_of_provided_source(
    source: CitedSource, quoted: QuotedContexts, search: CitationSearch
) -> tuple[int, ...]:
    """Find the contexts that a provider means by a source.

    Its quote decides. Its name only chooses between contexts that hold the quote: texts
    of an earlier turn may have the same name.

    Args:
        source: The source.
        quoted: The contexts that its quote comes from.
        search: What the rules look at.

    Raises:
        UnknownMeaning: If no context holds its quote or, without a quote, has its name.
    """
    named_indexes = _indexes_by_names(source.names, search)
    if source.quote is None:
        if not named_indexes:
            raise UnknownMeaning(_NOT_RETURNED)
        return named_indexes
    if not quoted.cited:
        raise UnknownMeaning(_QUOTED_FROM_ELSEWHERE)
    return quoted.among(named_indexes).cited or quoted.cited


def _indexes_by_names(names: Iterable[str], search: CitationSearch) -> tuple[int, ...]:
    """Find the contexts that have the first of some names that any context has.

    Empty if no context has one of the names.
    """
    for name in names:
        indexes = _indexes_by_metadata(name, search)
        if indexes:
            return indexes
    return ()


def _span_in_answer(source: CitedSource, reply: str, answer: str) -> tuple[int, int]:
    """Return start and end of the part of the answer that a source is cited for.

    The reply is "It fell.", and the provider cites a source for its offsets 0 to 8; the
    application answers "Answer: It fell.": the part stands at 8 to 16. It is the whole
    answer where the source has no offsets, or their part is not in the answer.
    """
    whole_answer = 0, len(answer)
    if source.start is None or source.end is None:
        return whole_answer
    cited_part = reply[source.start : source.end]
    if not cited_part or len(cited_part) < source.end - source.start:
        return whole_answer  # the offsets lie outside of this reply
    start = source.start if reply == answer else answer.find(cited_part)
    if start < 0:
        return whole_answer
    return start, start + len(cited_part)


def _by_marks(search: CitationSearch) -> tuple[Citation, ...] | None:
    """Read the marks in the answer, by the labels of the prompt.

    run-llama/llama_index, docs/examples/query_engine/citation_query_engine.ipynb: the
    prompt shows "Source 1:" above each text, and the answer says "[1]".

    Returns:
        The citations of the marks. For an answer without marks, the sources that the
        framework names as cited. None if there are no such sources either, if the
        answer is JSON, or if its marks stand only in lists of sources.

    Raises:
        UnknownMeaning: If the application changed the marks, if a mark may mean
            something else that was shown, or if the answer also cites in another form.
    """
    if parse_json(search.text) is not None:
        return None  # "[1, 2]" of JSON is a list
    numbering = search.numbering
    # the answer, with "(report.pdf)" written as "[report.pdf]", which is a mark
    text = search.text_with_file_marks
    marks = marks_in(text, numbering)
    if not marks:
        return _by_the_framework(search)
    # where the model's own words stand in the answer
    spans_of_model = search.spans_of_the_model
    if spans_of_model is None:  # the application edited these words
        raise UnknownMeaning(_CHANGED)
    citations = []
    for mark, citation in zip(marks, citations_of_marks(text, numbering), strict=True):
        # marks in "Sources: [1] a.pdf [2] b.pdf", a list that the application or the
        # model added, cite nothing
        is_of_model = any(start <= mark.start < end for start, end in spans_of_model)
        if is_of_model and not search.is_in_own_list(mark.start):
            citations.append(_citation_of_mark(mark, citation, search))
    if not citations:
        return None
    _refuse_sources_beside_marks(citations, search)
    return tuple(citations)


def _refuse_sources_beside_marks(
    citations: Iterable[Citation], search: CitationSearch
) -> None:
    """Raise if an answer also cites, or lists, sources that its marks do not cite.

    Raises:
        UnknownMeaning: If it does, by "[see 2]", "(Bridge book)", "according to b.pdf"
            or "Sources: b.pdf".
    """
    if cites_in_unread_form(search.model_text_with_file_marks, search.numbering):
        raise UnknownMeaning(UNREAD_FORM)
    if search.has_names_in_words:
        raise UnknownMeaning(_NAMED_IN_WORDS)
    cited: set[int] = set()
    for citation in citations:
        cited.update(citation.contexts)
    if search.names_others_in_words(cited):
        raise UnknownMeaning(_SOURCE_IN_WORDS)
    if search.lists_other_sources(cited):
        raise UnknownMeaning(_LISTS_OTHERS)


def _citation_of_mark(
    mark: Mark, citation: Citation, search: CitationSearch
) -> Citation:
    """Return what a mark cites, if each of its labels has one clear meaning.

    Example: under "[1] Source 3: IRON" the marks "[Source 3]" and "[1]" cite IRON. For
    "[3]" an error is raised: perhaps it means Source 3.

    Args:
        mark: The mark.
        citation: The mark's citation by the first number of each line of the prompt.
        search: What the rules look at.

    Raises:
        UnknownMeaning: If a label may mean something else that was shown.
    """
    _refuse_unknown_labels(mark, search)
    citation = _by_kinds_of_numbers(mark, citation, search.labels, search)
    # "[doc1]" is read as the number 1, and the prompt shows a file "doc1.pdf"
    _refuse_other_files(mark, citation, search)
    # "[Document 2]" may mean an upload, "Document 2: scan.pdf" in the prompt
    kind = search.kind_of_mark(mark, search.labels)
    _refuse_numbers_of_other_lists(mark.labels, kind, search)
    return _narrowed_to_page(mark, citation, search)


def _refuse_unknown_labels(mark: Mark, search: CitationSearch) -> None:
    """Raise unless each label of a mark names a context, or was certainly made up.

    Raises:
        UnknownMeaning: If it is not known what a label means. The label of
            ``(source: town records)`` is of no form that the prompt uses: these may be
            the author's own words.
    """
    numbering = search.numbering
    kind = search.kind_of_mark(mark, search.labels)
    for label in mark.labels:
        if _indexes_by_own_list(label, search) or label in numbering:
            continue
        if _indexes_of_number(label, kind, search.labels):
            continue
        refuse_if_perhaps_shown(label, search, search.labels, search.prompts)
        if not is_like_labels(label, numbering):
            raise UnknownMeaning(NO_MEANING.format("a source that it names"))


def _refuse_numbers_of_other_lists(
    labels: Iterable[str], kind: str, search: CitationSearch
) -> None:
    """Raise if a number may belong to another list in the prompt.

    Args:
        labels: What the answer names, such as "2".
        kind: The kind of the numbers, such as ``source``.
        search: What the rules look at.

    Raises:
        UnknownMeaning: If it may.
    """
    for label in labels:
        if label in search.own_numbers.as_in_prompt or not is_mark_label(label):
            continue  # the answer itself says what it means
        if search.is_under_another_name(label, kind):
            raise UnknownMeaning(_TWO_NUMBERINGS.format(as_mark(label)))
        if search.is_of_another_list(label, kind):
            raise UnknownMeaning(SHOWN_ELSEWHERE.format(as_mark(label)))


def _refuse_other_files(mark: Mark, citation: Citation, search: CitationSearch) -> None:
    """Raise if a mark such as ``[doc1]`` is read as a number, and ``doc1.pdf`` is shown.

    Args:
        mark: The mark.
        citation: What it cites by its numbers.
        search: What the rules look at.

    Raises:
        UnknownMeaning: If the file is another context, or none that is known.
    """
    for name in search.names_read_as_numbers(mark):
        for indexes_of_file in search.contexts_of_files_called(name):
            if not indexes_of_file or not set(indexes_of_file).issubset(
                citation.contexts
            ):
                raise UnknownMeaning(_FILE_OR_NUMBER.format(as_mark(name)))


def _by_kinds_of_numbers(
    mark: Mark, citation: Citation, labels: Labels, search: CitationSearch
) -> Citation:
    """Return a mark's citation where prompt or answer number the contexts in two ways.

    Under "[1] Source 3: IRON" and "[3] Source 1: WOOD", the mark "[Source 1]" cites
    WOOD, and "[1]" cites IRON. With one numbering the citation is returned unchanged.

    What a label of the mark means is looked up in this order:

    1. in the answer's own list of sources, "Sources: [1] b.pdf", if the list gives
       some number another meaning than the prompt does
    2. among the prompt's numbers of the same kind, as "Source"
    3. among the prompt's first numbers, those in brackets above

    Args:
        mark: The mark.
        citation: The mark's citation by the first number of each line of the prompt.
        labels: The labels of the prompt.
        search: What the rules look at.

    Raises:
        UnknownMeaning: If a number may mean one context or another.
    """
    # are_new: the answer's list gives a number another meaning than the prompt does
    if not labels.indexes_by_kind and not search.own_numbers.are_new:
        return citation
    # the kind of a number is the word before it: "source" of "[Source 1]"
    kind = search.kind_of_mark(mark, labels)
    indexes: list[int] = []
    dangling: list[str] = []
    for label in mark.labels:
        indexes_of_label = _indexes_by_own_list(label, search)
        if not indexes_of_label:
            indexes_of_label = _indexes_of_number(label, kind, labels)
        if not indexes_of_label and label in citation.dangling:
            dangling.append(label)  # "[9]" names nothing that was shown
        # "b.pdf" is no number: the prompt's labels alone say what it means. A label
        # that dangles has no index there either.
        indexes += indexes_of_label or places_of(label, search.numbering)
    return citation.model_copy(
        update={
            "contexts": tuple(dict.fromkeys(indexes)),
            "dangling": tuple(dangling),
        }
    )


def _indexes_by_own_list(label: str, search: CitationSearch) -> tuple[int, ...]:
    """Find the context that a number means by the answer's own list of sources.

    Example: the prompt shows "[1] a.pdf [2] b.pdf", and the answer ends in "Sources:
    [1] b.pdf": 1 means the second context, (1,). () if no such list gives the number
    another meaning than the prompt.

    Raises:
        UnknownMeaning: If the answer numbers its sources anew, and does not say
            clearly which context the number means.
    """
    own_numbers = search.own_numbers
    index_by_number = own_numbers.index_by_number or {}
    is_as_in_prompt = not own_numbers.are_new or label in own_numbers.as_in_prompt
    if is_as_in_prompt or not is_mark_label(label):
        return ()
    if label in own_numbers.unclear or label not in index_by_number:
        raise UnknownMeaning(_NUMBERED_ANEW.format(as_mark(label)))
    return (index_by_number[label],)


def _indexes_of_number(label: str, kind: str, labels: Labels) -> tuple[int, ...]:
    """Find the contexts that a number means under a prompt's two numberings.

    Args:
        label: The label; () is returned unless it is a number.
        kind: Its kind, such as ``source``.
        labels: The labels of the prompt; () is returned if they have one numbering.

    Raises:
        UnknownMeaning: If it may mean one context or another.
    """
    if not label.isdigit() or not labels.indexes_by_kind:
        return ()
    indexes = labels.indexes_of_number(label, kind)
    if indexes is None:
        raise UnknownMeaning(_TWO_NUMBERINGS.format(as_mark(label)))
    return indexes


def _narrowed_to_page(
    mark: Mark, citation: Citation, search: CitationSearch
) -> Citation:
    """Return the citation of a mark, narrowed to the page that the mark names.

    "[report.pdf, p. 2]" may name several contexts of one file: those of page 2 are
    meant. A mark without a page keeps its citation.

    Raises:
        UnknownMeaning: If none of these contexts is known to be of the page.
    """
    page = _PAGE.search(search.text[mark.start : mark.end])
    if page is None or len(citation.contexts) <= len(mark.labels):
        return citation
    indexes = _indexes_of_page(citation.contexts, page[1], search)
    return citation.model_copy(update={"contexts": indexes})


def _by_the_framework(search: CitationSearch) -> tuple[Citation, ...] | None:
    """Cite the sources that the framework names as cited, each for the whole answer.

    Example: the answer says "It fell <2>." Haystack's ``AnswerBuilder`` finds the
    number by the user's ``reference_pattern``, and names a source with the label "2".
    The citation means the context that the prompt shows as 2; if the prompt has no such
    label, the one that the framework counts as 2.

    Returns:
        The citations; None if the framework names no source as cited.

    Raises:
        UnknownMeaning: If neither prompt nor framework says what a label means.
    """
    sources = search.found_answer.answer.cited_sources or ()
    cited_sources = [source for source in sources if source.is_cited]
    if not cited_sources:
        return None
    # where both have a label, the prompt's meaning replaces the framework's
    numbering = {**search.framework_numbering, **search.labels.indexes_by_label}
    citations = []
    for source in cited_sources:
        label = source.label or ""
        # First the numbers of a prompt that numbers contexts twice, "[2] Source 3:".
        # The kind "" means any of the two numberings: the framework does not say
        # whether it read "[2]" or "Source 2".
        indexes = _indexes_of_number(label, "", search.labels)
        # else the one numbering of the prompt, or the framework's
        indexes = indexes or places_of(label, numbering)
        if not indexes:
            raise UnknownMeaning(NO_MEANING.format(f"[{source.label}]"))
        citations.append(Citation(start=0, end=len(search.text), contexts=indexes))
    return tuple(citations)


def _by_a_structured_reply(search: CitationSearch) -> tuple[Citation, ...] | None:
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


def _by_a_closing_line(search: CitationSearch) -> tuple[Citation, ...] | None:
    r"""Read the sources that an answer without marks names in its last line.

    Example: "It fell.\n\nSources: b.pdf, c.pdf" gives two citations of "It fell."

    Returns:
        A citation for each source, for all of the answer before the line. None without
        such a line, if the answer before it may cite by itself, or if the line names
        something that is no label of the prompt.

    Raises:
        UnknownMeaning: If a number may mean one context or another.
    """
    # the answer with blanks in place of what the application added, as a list of links
    text = search.only_of_the_model(search.text)
    closing = closing_sources_in(text)
    if closing is None:
        return None
    is_count = len(closing.names) == 1 and closing.names[0].isdecimal()
    if is_count:  # "Sources: 3" may say that there are three
        return None
    body = text[: closing.start].rstrip()
    # "It fell [1].": the answer before the line may have citations of its own
    if may_cite(body) or marks_in(body, search.numbering):
        return None
    citations = []
    for name in closing.names:
        indexes = _indexes_of_label(name, search)
        if not indexes:
            return None
        citations.append(
            Citation(
                start=0,
                end=len(body),
                contexts=indexes,
                mark=(closing.start, closing.end),
            )
        )
    return tuple(citations) or None


def _indexes_of_label(name: str, search: CitationSearch) -> tuple[int, ...]:
    """Find the contexts of a label of the prompt, such as "[2]" or "a.txt"; () for others.

    Raises:
        UnknownMeaning: If a number may mean one context or another.
    """
    label = plain_label(name.strip("[]【】()"))
    indexes = _indexes_of_number(label, kind_of_number(name), search.labels)
    return indexes or places_of(label, search.numbering)


_RULES = (_by_the_provider, _by_marks, _by_a_structured_reply, _by_a_closing_line)


# What a source means


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
    contexts = search.answer_evidence.contexts.items
    quotes = [source.quote for source in sources]
    quoted_contexts = contexts_of_quotes(quotes, contexts)
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
        return _indexes_of_page(indexes, source.page, search)
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
    numbered = _indexes_by_own_list(plain_name, search)  # 1 of the order above
    if not numbered:
        # 2; an id that may number another list of the prompt raises before
        _refuse_numbers_of_other_lists([plain_name], kind_of_number(name), search)
        numbered = _indexes_of_number(plain_name, kind_of_number(name), labels)
    if numbered:
        return numbered
    for label in (name, plain_name):  # 3
        indexes = places_of(label, labels.indexes_by_label)
        if indexes:
            return indexes
    if plain_name.isdigit():
        return ()  # a number without a label may count anything
    return _indexes_by_metadata(name, search)  # 4


def _indexes_by_metadata(name: str, search: CitationSearch) -> tuple[int, ...]:
    """Find the contexts that have a name as id, or as a value of their metadata.

    "b.pdf" finds the contexts with the id "b.pdf" or ``{"source": "docs/b.pdf"}``.

    Raises:
        UnknownMeaning: If several texts have the id, as where two stores count from 0.
    """
    indexes = []
    texts_of_id = set()
    for index, context in enumerate(search.answer_evidence.contexts.items):
        has_id = context.id == name
        if has_id:
            texts_of_id.add(context.text)
        if has_id or any(_is_name(value, name) for value in context.metadata.values()):
            indexes.append(index)
    if len(texts_of_id) > 1:  # nobody knows which of these texts the id means
        raise UnknownMeaning(SEVERAL.format("an id that it names"))
    return tuple(indexes)


def _is_name(value: object, name: str) -> bool:
    """Whether a value of metadata is a name, or a path or address that ends in it."""
    if not isinstance(value, str):
        return False
    return name in (value, file_name_of(value))


def _indexes_of_page(
    indexes: Sequence[int], page: str, search: CitationSearch
) -> tuple[int, ...]:
    """Choose from some contexts the contexts of a page, by their metadata.

    The page "2" chooses the contexts with ``{"page": 2}`` or ``{"page_label": "2"}``.

    Args:
        indexes: The indexes of the contexts to choose from.
        page: The page that the answer names.
        search: What the rules look at.

    Raises:
        UnknownMeaning: If no context has the page: a loader may count pages from 0.
    """
    contexts = search.answer_evidence.contexts.items
    indexes_of_page = []
    for index in indexes:
        for key, value in contexts[index].metadata.items():
            if "page" in str(key).lower() and str(value) == page:
                indexes_of_page.append(index)
                break
    if not indexes_of_page:
        raise UnknownMeaning(NO_MEANING.format(f"page {page}"))
    return tuple(indexes_of_page)
