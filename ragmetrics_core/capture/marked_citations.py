"""What an answer cites by marks such as ``[1]``, or by a closing line. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from ragmetrics_core.capture.answer_numbers import lists_other_sources
from ragmetrics_core.capture.citing_answer import CitingAnswer
from ragmetrics_core.capture.closing_sources import (
    ClosingSources,
    closing_sources_in,
    names_in_closing,
)
from ragmetrics_core.capture.copied_marks import clause_of
from ragmetrics_core.capture.files_like_numbers import files_that_a_mark_may_name
from ragmetrics_core.capture.invented_sources import (
    invented_addresses,
    is_written_like_known,
    refuse_addresses_in_words,
)
from ragmetrics_core.capture.label_meanings import (
    by_its_numbering,
    context_indexes_by_list_in_answer,
    context_indexes_of_number,
    context_indexes_of_page,
    refuse_numbers_of_other_lists_in_prompts,
    refuse_other_page,
)
from ragmetrics_core.capture.model_words import has_the_numbers_of
from ragmetrics_core.capture.names_in_words import (
    cites_in_words,
    names_unknown_file,
)
from ragmetrics_core.capture.page_numbers import PAGE
from ragmetrics_core.capture.plain_values import parse_json
from ragmetrics_core.capture.source_names import (
    WEB_ADDRESS,
    is_file,
    is_mark_label,
    page_of,
)
from ragmetrics_core.capture.unknown_meanings import (
    MARKS_CHANGED,
    NO_MEANING,
    SEARCHED_UNSEEN,
    SOURCE_IN_WORDS,
    UnknownByItself,
    UnknownMeaning,
    as_mark,
    refuse_if_perhaps_shown,
)
from ragmetrics_core.data import Citation
from ragmetrics_core.data.answer_parts import without_reasoning
from ragmetrics_core.data.citations import (
    OTHER_TARGET,
    UNREAD_FORM,
    citation_of,
    cites_in_unread_form,
    marks_with_citations,
)
from ragmetrics_core.data.code_brackets import name_before
from ragmetrics_core.data.label_shapes import is_key_with_pages
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import Span
from ragmetrics_core.data.marks import (
    Mark,
    Numbering,
    address_behind,
    contexts_of_label,
    is_like_labels,
    labels_in_words,
    marks_in,
    may_cite,
    may_link_another_source,
)

_FILE_OR_NUMBER = (
    "the answer names {}, which may be a file of this name or a number of the prompt"
)
_READ_IN_REASONING = (
    "the framework reads marks also in the reasoning of the answer, and does not tell"
    " which"
)
_NUMBER_WORD = r"(?:n[or](?:\.|[ \t])|n[°º]|№)"
_WORD_FOR_NUMBER = lazy_pattern(rf"\[{_NUMBER_WORD}[ \t]*\d", re.IGNORECASE)
_BEHIND_A_NUMBER = lazy_pattern(r"(?<=\d)[ \t]*[:|].+")  # ": b.pdf]" of "[1: b.pdf]"
_COPIED = "a context itself has {} after the same word, and the answer may repeat it"
_OF_EARLIER_ANSWER = (
    "an earlier answer has {} behind such words: the mark may mean what the earlier"
    " prompt showed under it"
)
_OF_OTHER_CALL = (
    "the call that wrote {} was not shown this number: only a call whose reply it was"
    " shown knew the number, and did not cite it"
)
_COUNTS_FROM_ZERO = "the answer names [0], and the prompt counts from 1"
_MAY_BE_AN_INDEX = (
    "{} stands behind a name that the question or a passage has before an index: it may"
    " be a part of code"
)
_OTHER_NAME = "the answer names {} together with the name of another source"
_MAY_BE_ANOTHER_NUMBER = (
    "the answer names {}, which may be a number of the prompt or one that stands so in"
    " a text"
)
_OTHER_PAGE = (
    "the answer links the name of a source to another address than that of the source"
)
_LISTS_OTHERS = (
    "the answer's own list of sources names others than its marks cite: what the marks"
    " mean is not known"
)


def by_marks(answer: CitingAnswer) -> tuple[Citation, ...] | None:
    """Return what the marks in an answer cite: "[1]" what the prompt shows under 1.

    run-llama/llama_index, docs/examples/query_engine/citation_query_engine.ipynb: the
    prompt shows "Source 1:" above each text, and the answer says "It fell [1]."

    Returns:
        A citation for each mark. An answer without marks cites the sources that the
        framework names as cited. None if there are no such sources either, if the
        answer is JSON, or if its marks stand only in lists of sources.

    Raises:
        UnknownMeaning: If the application changed the marks, if a mark may mean
            something else that was shown, or if the answer also cites in another form.
    """
    if parse_json(answer.text) is not None:
        return None  # "[1, 2]" of JSON is a list
    marks_and_citations = marks_with_citations(
        answer.text_with_file_marks, answer.known_labels.context_indexes_by_label
    )
    if not marks_and_citations:
        return _by_the_framework(answer)
    first_mark, _ = marks_and_citations[0]
    if _is_in_closing_line(first_mark, answer):
        # "It fell.\nSOURCES: [1], [2]" has marks in its last line alone, which
        # another rule reads: ``by_a_closing_line``
        return None
    if answer.spans_of_the_model is None:  # the application edited the model's words
        raise UnknownMeaning(MARKS_CHANGED)
    meanings = _meanings_outside_of_lists(marks_and_citations, answer)
    if not meanings:
        return None
    _refuse_open_meanings(meanings, answer)
    contexts_named = set(
        chain.from_iterable(meaning.contexts_named for meaning in meanings)
    )
    _refuse_sources_beside_marks(contexts_named, answer)
    return tuple(meaning.citation for meaning in meanings)


def _meanings_outside_of_lists(
    marks_and_citations: list[tuple[Mark, Citation]], answer: CitingAnswer
) -> list[_MeaningOfMark]:
    """Return what the marks cite that the model wrote outside of its lists of sources.

    An answer that cites by links, "It fell [a](https://a.test).", may also have a link
    to a page that the model made up, "[b](https://b.test)". This link is read as a mark
    that cites nothing that was shown.

    Args:
        marks_and_citations: The marks of known labels, each with its citation by the
            first number of each line of the prompt. The link to b.test is not among
            them.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If a mark may mean something else that was shown.
    """
    marks = [mark for mark, _ in marks_and_citations]
    made_up_addresses = invented_addresses(marks, answer)
    if made_up_addresses:
        marks_and_citations = _marks_and_links_to(made_up_addresses, answer)
    return [
        _meaning_of(mark, citation, made_up_addresses, answer)
        for mark, citation in marks_and_citations
        if _may_cite(mark, answer)
    ]


class _MeaningOfMark(NamedTuple):
    """What a mark cites.

    Attributes:
        citation: Its citation; it names no source if the meaning is open.
        contexts_named: The indexes of the contexts that the mark names, such as that of
            source 2 for "[2, p. 99]", also where its meaning is open.
        is_known_by_page: Whether the page in the mark tells which context it cites.
        why_open: Why its meaning is not known, which says nothing of other marks; None
            if it is known. Source 2 may be of page 3, so that page 99 is none of it.
    """

    citation: Citation
    contexts_named: tuple[int, ...]
    is_known_by_page: bool = False
    why_open: UnknownByItself | None = None

    @property
    def sentence(self) -> Span:
        """The part of the answer that the mark cites for."""
        return self.citation.start, self.citation.end


def _meaning_of(
    mark: Mark, citation: Citation, invented: Container[str], answer: CitingAnswer
) -> _MeaningOfMark:
    """Return what a mark cites, or that this is open.

    Args:
        mark: The mark.
        citation: The mark's citation by the first number of each line of the prompt.
        invented: The addresses in the answer that nobody was shown.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If it may mean something else that was shown.
    """
    try:
        clear = _citation_with_clear_meaning(mark, citation, invented, answer)
    except UnknownByItself as reason:
        names_nothing = citation.model_copy(update={"contexts": (), "dangling": ()})
        return _MeaningOfMark(names_nothing, citation.contexts, why_open=reason)
    is_known_by_page = clear.contexts != citation.contexts
    return _MeaningOfMark(clear, clear.contexts, is_known_by_page)


def _refuse_open_meanings(
    meanings: Sequence[_MeaningOfMark], answer: CitingAnswer
) -> None:
    """Raise why the meaning of a mark is open, unless the other marks are known without it.

    "It is old [1]. It fell [2, p. 99].", where source 2 is of page 3, leaves the meaning
    of "[1]" as it is.

    Raises:
        UnknownByItself: If no other mark is known; if a known one stands in the same
            sentence; if another one is known by its page alone, since the answer may
            count pages in another way than the prompt; or if a field beside the answer
            may tell what its marks leave open.
    """
    known = [meaning for meaning in meanings if meaning.why_open is None]
    sentences_of_known = {meaning.sentence for meaning in known}
    is_any_known_by_page = any(meaning.is_known_by_page for meaning in known)
    may_stay_open = answer.sources is None and not is_any_known_by_page
    for meaning in meanings:
        is_alone_in_sentence = meaning.sentence not in sentences_of_known
        may_this_stay_open = may_stay_open and known and is_alone_in_sentence
        if meaning.why_open is not None and not may_this_stay_open:
            raise meaning.why_open


def _is_in_closing_line(mark: Mark, answer: CitingAnswer) -> bool:
    """Whether a mark stands in a last line such as "SOURCES: a.txt, [2]"."""
    closing = closing_sources_in(answer.model_text)
    return closing is not None and closing.start <= mark.start


def _may_cite(mark: Mark, answer: CitingAnswer) -> bool:
    """Whether a mark is the model's, and stands in no list such as "Sources: [1] a.pdf"."""
    is_of_model = any(
        start <= mark.start < end for start, end in answer.spans_of_the_model or ()
    )
    return is_of_model and not answer.lists_in_answer.hold(mark.start)


def _marks_and_links_to(
    addresses: set[str], answer: CitingAnswer
) -> list[tuple[Mark, Citation]]:
    """List the marks of an answer, and its links to some addresses that nobody was shown.

    ``[b](https://b.test)`` is a mark only if the address is a label. Here each of the
    addresses is the label of no context, so that such a link dangles.

    Raises:
        UnknownMeaning: If one of the addresses also stands outside of links.
    """
    labels_of_no_context: Numbering = dict.fromkeys(addresses, ())
    marks_and_citations = marks_with_citations(
        answer.text_with_file_marks,
        {**answer.known_labels.context_indexes_by_label, **labels_of_no_context},
    )
    marks = [mark for mark, _ in marks_and_citations]
    refuse_addresses_in_words(addresses, marks, answer)
    return marks_and_citations


def _refuse_sources_beside_marks(named: set[int], answer: CitingAnswer) -> None:
    """Raise if an answer names sources also in another way than by marks.

    Args:
        named: The indexes of the contexts that its marks name.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If it does: by the address of a page that the model's provider
            may have shown, by "[see 2]", in words, "according to b.pdf", or in a list,
            "Sources: b.pdf".
    """
    if answer.may_provider_have_shown_more and _names_another_page(answer):
        raise UnknownMeaning(SEARCHED_UNSEEN)
    # here "(report.pdf)" is written as a mark, which is read
    text_with_file_marks = answer.model_text_with_file_marks
    if cites_in_unread_form(
        text_with_file_marks, answer.known_labels.context_indexes_by_label
    ):
        raise UnknownMeaning(UNREAD_FORM)
    if _names_uncited_source_in_words(named, answer):
        raise UnknownMeaning(SOURCE_IN_WORDS)
    if lists_other_sources(
        answer.model_text, answer.known_labels.context_indexes_by_name, named
    ):
        raise UnknownMeaning(_LISTS_OTHERS)


def _names_uncited_source_in_words(cited: set[int], answer: CitingAnswer) -> bool:
    """Whether the sentences of an answer name a source that its marks do not cite.

    "It is old [1]. According to b.pdf, it fell." does, and so does "(z.pdf)", a file
    that nobody was shown.

    Args:
        cited: The indexes of the contexts that the marks cite.
        answer: The answer, with its prompts, contexts and labels.
    """
    sentences = answer.sentences
    if names_unknown_file(sentences, answer.known_labels.context_indexes_by_name):
        return True
    return cites_in_words(
        sentences,
        answer.known_labels.context_indexes_by_name,
        cited=cited,
        question_and_passages=answer.question_and_passages,
    )


def _names_another_page(answer: CitingAnswer) -> bool:
    """Whether the answer holds a web address that is that of no context."""
    pages: set[str] = set()
    pages.update(*answer.known_labels.web_pages_by_context.values())
    return any(
        page_of(address[0]) not in pages
        for address in WEB_ADDRESS.finditer(answer.model_text)
    )


def _refuse_link_to_another_source(
    mark: Mark, citation: Citation, answer: CitingAnswer
) -> None:
    """Raise if a mark is a link, and the link leads to another source than the mark names.

    "[lamp.org](https://lamp.org/history)" names the home page of lamp.org, and leads to
    another page. Of "[1](#3)" nobody knows whether it cites source 1 or source 3.

    Args:
        mark: The mark, such as "[lamp.org]": the link without its address.
        citation: The contexts that the mark names.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If the model wrote an address that may be another source, as
            "#3", or if all contexts that the mark names have other addresses.
    """
    # ``model_text`` has blanks for what the application wrote: it may have added "(#3)"
    if may_link_another_source(
        answer.model_text, mark, answer.known_labels.context_indexes_by_label
    ):
        raise UnknownMeaning(OTHER_TARGET)
    address = address_behind(answer.text, mark.end)
    # "[1](https://a.test)" means source 1, wherever the link leads
    is_numbered = any(map(is_mark_label, mark.labels))
    if address is None or is_numbered:
        return
    pages_of_contexts: set[str] = set()
    for index in citation.contexts:
        pages_of_contexts |= answer.known_labels.web_pages_by_context.get(index, set())
    if pages_of_contexts and page_of(address) not in pages_of_contexts:
        raise UnknownMeaning(_OTHER_PAGE)


def _citation_with_clear_meaning(
    mark: Mark, citation: Citation, invented: Container[str], answer: CitingAnswer
) -> Citation:
    """Return what a mark cites; an address in it that nobody was shown dangles.

    Args:
        mark: The mark.
        citation: The mark's citation by the first number of each line of the prompt.
        invented: The addresses in the answer that nobody was shown.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If another label of it may mean something else that was shown.
    """
    dangling = tuple(label for label in mark.labels if label in invented)
    others = tuple(label for label in mark.labels if label not in invented)
    if others:
        citation = _citation_of_mark(replace(mark, labels=others), citation, answer)
    return citation.model_copy(update={"dangling": citation.dangling + dangling})


def _citation_of_mark(
    mark: Mark, by_first_numbers: Citation, answer: CitingAnswer
) -> Citation:
    """Return what a mark cites, if each of its labels has one clear meaning.

    A line of the prompt may have two numbers. Under "[1] Source 3: IRON" the marks "[1]"
    and "[Source 3]" cite IRON. For "[3]" an error is raised: perhaps it means Source 3.

    Args:
        mark: The mark.
        by_first_numbers: A provisional citation, made as if "[1] Source 3:" had its
            first number alone: "[1]" cites IRON, "[3]" and "[Source 3]" cite nothing.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If a label may mean something else that was shown.
    """
    _refuse_index_of_code(mark, answer)
    _refuse_unknown_labels(mark, answer)
    _refuse_copied_marks(mark, answer)
    _refuse_marks_of_earlier_answers(mark, by_first_numbers, answer)
    _refuse_numbers_of_other_calls(mark, answer)
    _refuse_link_to_another_source(mark, by_first_numbers, answer)
    # now the second numbers count, too: "[Source 3]" cites IRON
    citation = by_its_numbering(mark, by_first_numbers, answer.labels, answer)
    # "[doc1]" is read as the number 1, and the prompt shows a file "doc1.pdf"
    _refuse_other_files(mark, citation, answer)
    _refuse_other_names(mark, citation, answer)
    _refuse_numbers_of_texts(mark, answer)
    # "[Document 2]" may mean an upload, "Document 2: scan.pdf" in the prompt
    numbering = answer.numbering_of_mark(mark, answer.labels)
    refuse_numbers_of_other_lists_in_prompts(mark.labels, numbering, answer)
    return _narrowed_to_page(mark, citation, answer)


def _refuse_unknown_labels(mark: Mark, answer: CitingAnswer) -> None:
    """Raise unless each label of a mark names a context, or was certainly made up.

    Raises:
        UnknownMeaning: If it is not known what a label means.
    """
    known_labels = answer.known_labels.context_indexes_by_label
    numbering = answer.numbering_of_mark(mark, answer.labels)
    for label in mark.labels:
        if context_indexes_by_list_in_answer(label, answer) or label in known_labels:
            continue
        if label == "0" and "1" in known_labels:  # an index, or all marks count from 0
            raise UnknownMeaning(_COUNTS_FROM_ZERO)
        if not context_indexes_of_number(label, numbering, answer.labels):
            _refuse_unless_made_up(label, mark, answer)


def _refuse_unless_made_up(label: str, mark: Mark, answer: CitingAnswer) -> None:
    """Raise unless the model made up a label of a mark, which labels no context.

    It made up "[7]" beside the prompt's "[1]" and "[2]", and "[citation:zz9]" beside
    "[citation:e1b6]". The label of ``(source: town records)`` has no form of a label of
    the prompt: these may be the author's own words.

    Raises:
        UnknownMeaning: If the prompt shows something under the label, or if it has no
            form of a known label.
    """
    refuse_if_perhaps_shown(label, answer, answer.labels, answer.prompts)
    has_form_of_labels = is_like_labels(
        label, answer.known_labels.context_indexes_by_label
    )
    if not has_form_of_labels and not is_written_like_known(mark, label, answer):
        raise UnknownMeaning(NO_MEANING.format("a source that it names"))


def _refuse_copied_marks(mark: Mark, answer: CitingAnswer) -> None:
    """Raise if a context itself has the same mark after the same word.

    A context says "see issue [2]", and the answer, too: it may repeat the context's
    own mark.

    Raises:
        UnknownMeaning: If a context has it.
    """
    if answer.marks_shown.is_in_a_context(mark, answer.text):
        raise UnknownMeaning(_COPIED.format(mark.written))


def _refuse_index_of_code(mark: Mark, answer: CitingAnswer) -> None:
    """Raise if a mark may be an index: "row[1]", where a passage says ``row[0]``.

    Raises:
        UnknownByItself: If it may be one.
    """
    name = name_before(mark.start, answer.text)
    if name is not None and name in answer.indexed_names:
        raise UnknownByItself(_MAY_BE_AN_INDEX.format(mark.written))


def _refuse_marks_of_earlier_answers(
    mark: Mark, citation: Citation, answer: CitingAnswer
) -> None:
    """Raise if the answer repeats what an earlier answer says, together with its mark.

    The number may then be that of the earlier prompt, which showed other passages.

    Raises:
        UnknownMeaning: If an earlier answer in the prompt has the same number, and says
            rather than the number's passage what stands before the mark.
    """
    clause = clause_of(mark, citation, answer.text)
    for label in mark.labels:
        context_indexes = contexts_of_label(
            label, answer.known_labels.context_indexes_by_label
        )
        texts_cited = [answer.context_texts[index] for index in context_indexes]
        if answer.marks_shown.may_be_of_an_earlier_answer(
            label, clause, texts_cited, answer.turn.question or ""
        ):
            raise UnknownMeaning(_OF_EARLIER_ANSWER.format(mark.written))


def _refuse_numbers_of_other_calls(mark: Mark, answer: CitingAnswer) -> None:
    """Raise if only another call was shown what stands under the number of a mark.

    Raises:
        UnknownMeaning: If neither the prompt of the call that wrote the mark nor a reply
            that it was shown has the number, and the answer does not say what it means.
    """
    for label in mark.labels:
        if label not in answer.labels_the_writer_never_saw:
            continue
        if not context_indexes_by_list_in_answer(label, answer):
            raise UnknownMeaning(_OF_OTHER_CALL.format(as_mark(label)))


def _refuse_other_files(mark: Mark, citation: Citation, answer: CitingAnswer) -> None:
    """Raise if a mark such as ``[doc1]`` is read as a number, and ``doc1.pdf`` is shown.

    Args:
        mark: The mark.
        citation: What it cites by its numbers.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If the file is another context, or none that is known.
    """
    for name, context_indexes in files_that_a_mark_may_name(
        mark.written,
        answer.files_with_numbers,
        answer.labels.context_indexes_by_label,
    ):
        if not context_indexes or not set(context_indexes).issubset(citation.contexts):
            raise UnknownMeaning(_FILE_OR_NUMBER.format(as_mark(name)))


def _refuse_other_names(mark: Mark, citation: Citation, answer: CitingAnswer) -> None:
    """Raise if a mark such as "[1: b.pdf]" also has the name of another source.

    Raises:
        UnknownMeaning: If it has, where b.pdf is source 2.
    """
    behind_number = _BEHIND_A_NUMBER.search(mark.written)
    if behind_number is None or not citation.contexts:
        return
    words = PAGE.sub("", behind_number[0])  # "page 20" may be a label of another one
    for _, name in answer.known_labels.source_names.found_in(words):
        if name.context_indexes.isdisjoint(citation.contexts):
            raise UnknownMeaning(_OTHER_NAME.format(as_mark(mark.labels[0])))


def _refuse_numbers_of_texts(mark: Mark, answer: CitingAnswer) -> None:
    """Raise if "[No. 1]" is read as source 1, and the prompt says "Rule No. 1".

    Raises:
        UnknownMeaning: If a prompt has the number behind the same word.
    """
    word = _WORD_FOR_NUMBER.match(mark.written)
    if word is None:
        return
    for label in filter(str.isdigit, mark.labels):
        in_prompts = rf"(?<!\w){_NUMBER_WORD}[ \t]*0*{label}(?!\d)"
        if any(re.search(in_prompts, prompt, re.I) for prompt in answer.prompts):
            raise UnknownMeaning(_MAY_BE_ANOTHER_NUMBER.format(mark.written))


def _narrowed_to_page(mark: Mark, citation: Citation, answer: CitingAnswer) -> Citation:
    """Return the citation of a mark, narrowed to the page that the mark names.

    Two chunks of report.pdf are of the pages 1 and 2: "[report.pdf, p. 2]" cites the
    second one alone. A mark without a page keeps its citation.

    Raises:
        UnknownMeaning: If the contexts that its labels mean do not have the page.
    """
    page = PAGE.search(mark.written)
    if page is None:
        return citation
    has_shared_label = len(citation.contexts) > len(mark.labels)
    if not has_shared_label:
        _refuse_page_of_another(mark, citation, page[1], answer)
        return citation
    context_indexes = context_indexes_of_page(citation.contexts, page[1], answer)
    return citation.model_copy(update={"contexts": context_indexes})


def _refuse_page_of_another(
    mark: Mark, citation: Citation, page: str, answer: CitingAnswer
) -> None:
    """Raise if a mark with a page does not say clearly which source it means.

    Raises:
        UnknownMeaning: If the only context that the mark names is known to be of another
            page. Also if title and author, as in "[HR Handbook, Okafor, p. 7]", name
            different contexts: such words together name one source.
    """
    n_contexts = len(citation.contexts)
    # the page of "[1, 9, p. 3]" may be one of 9, which nobody was shown
    if n_contexts == 1 and not citation.dangling:
        refuse_other_page(citation.contexts[0], page, answer)
    # "[1, 2, p. 7]" names two sources
    names_sources_one_by_one = any(map(_is_number_or_file, mark.labels))
    if n_contexts > 1 and not names_sources_one_by_one:
        raise UnknownMeaning(NO_MEANING.format("a source that it names"))


def _is_number_or_file(label: str) -> bool:
    """Whether a label is "2", "S2", the name of a file, or a key with its own pages."""
    return is_mark_label(label) or is_file(label) or is_key_with_pages(label)


def _by_the_framework(answer: CitingAnswer) -> tuple[Citation, ...] | None:
    """Return a citation of the whole answer for each source that the framework calls cited.

    Example: the answer says "It fell <2>." Haystack's ``AnswerBuilder`` finds the
    number by the user's ``reference_pattern``, and names a source with the label "2".

    Returns:
        The citations; None if the framework names no source as cited.

    Raises:
        UnknownMeaning: If neither prompt nor framework says what a label means, if the
            application changed the numbers before the framework read them, or if the
            framework may have read them in the model's reasoning.
    """
    sources = answer.found_answer.answer.cited_sources or ()
    labels = [source.label or "" for source in sources if source.is_cited]
    if not labels:
        return None
    if not has_the_numbers_of(answer.reply, answer.text):
        raise UnknownMeaning(MARKS_CHANGED)
    # ``text`` has blanks where ``found_answer.text`` has reasoning
    has_reasoning = answer.text != answer.found_answer.text
    if has_reasoning:
        # of "<think>Perhaps <2>?</think>It fell <1>." the framework also reads the 2
        raise UnknownMeaning(_READ_IN_REASONING)
    citations = []
    for label in labels:
        context_indexes = _context_indexes_of_label_read_by_framework(label, answer)
        citations.append(
            Citation(start=0, end=len(answer.text), contexts=context_indexes)
        )
    return tuple(citations)


def _context_indexes_of_label_read_by_framework(
    label: str, answer: CitingAnswer
) -> tuple[int, ...]:
    """Find the contexts that a label means: by the prompt, else by the framework's count.

    Raises:
        UnknownMeaning: If neither says what it means, or if the prompt numbers the
            contexts twice, and "2" may be the 2 of "[2]" or of "Source 2".
    """
    # the framework does not say whether it read "[2]" or "Source 2"
    numbering_not_known = ""
    context_indexes = (
        context_indexes_of_number(label, numbering_not_known, answer.labels)
        or contexts_of_label(label, answer.labels.context_indexes_by_label)
        or contexts_of_label(label, answer.known_labels.framework_numbering)
    )
    if not context_indexes:
        raise UnknownMeaning(NO_MEANING.format(f"[{label}]"))
    return context_indexes


def by_a_closing_line(answer: CitingAnswer) -> tuple[Citation, ...] | None:
    r"""Return what the last line of an answer cites, such as "Sources: b.pdf, c.pdf".

    Example: "It fell.\n\nSources: b.pdf, c.pdf" gives two citations of "It fell."

    Returns:
        A citation for each source, for all of the answer before the line. None without
        such a line, or if the answer before it may cite by itself.

    Raises:
        UnknownMeaning: If the line names something that is no label of the prompt, or if
            a number may mean one context or another.
    """
    # ``model_text`` has blanks for what the application added, such as a list of links
    closing = closing_sources_in(answer.model_text)
    if closing is None:
        return _by_a_closing_line_cut_off(answer)
    return _citations_of_closing_line(closing, answer)


def _citations_of_closing_line(
    closing: ClosingSources, answer: CitingAnswer
) -> tuple[Citation, ...] | None:
    """Return a citation for each name in the last line of an answer.

    None if the answer before the line may cite by itself, as "It fell [1]." does.

    Raises:
        UnknownMeaning: As in ``by_a_closing_line``.
    """
    text_before = answer.model_text[: closing.start].rstrip()
    known_labels = answer.known_labels.context_indexes_by_label
    if may_cite(text_before) or marks_in(text_before, known_labels):
        return None
    names = names_in_closing(closing, answer.model_text)
    if len(names) == 1 and names[0].isdecimal():  # "Sources: 3" may be how many
        raise UnknownMeaning(UNREAD_FORM)
    citations = [_citation_of_name(name, closing, answer) for name in names]
    # each name cites for all of the answer before the line
    place = {"start": 0, "end": len(text_before), "mark": (closing.start, closing.end)}
    return tuple(citation.model_copy(update=place) for citation in citations) or None


def _by_a_closing_line_cut_off(answer: CitingAnswer) -> tuple[Citation, ...] | None:
    r"""Return what the last line of the model's reply cites, if the answer lacks this line.

    langchain-ai/langchain, ``RetrievalQAWithSourcesChain``: the model replies "It
    fell.\nSOURCES: b.pdf", and the chain cuts the line off: the answer is "It fell."

    Returns:
        The citations, for the whole answer; None if nothing, or something else than
        such a line, was cut off.

    Raises:
        UnknownMeaning: If the line names something that is no label of the prompt.
    """
    if answer.reply is None:
        return None
    reply_text = without_reasoning(answer.reply.text)
    closing = closing_sources_in(reply_text)
    if closing is None:
        return None
    is_line_cut_off = reply_text[: closing.start].strip() == answer.text.strip()
    if not is_line_cut_off:
        return None
    # read as if the application had handed on the whole reply
    citations = by_a_closing_line(answer.with_text(reply_text)) or ()
    # in the answer itself the line has no place, so that there is no mark
    place = {"start": 0, "end": len(answer.text.rstrip()), "mark": None}
    return tuple(citation.model_copy(update=place) for citation in citations) or None


def _citation_of_name(
    name: str, closing: ClosingSources, answer: CitingAnswer
) -> Citation:
    """Return what a name in a closing line cites: it is read like a mark in brackets.

    Args:
        name: The name, as written: "a.pdf, p. 3".
        closing: The line.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If it may be something else than a label of the prompt, or than
            a name that nobody was shown.
    """
    labels = labels_in_words(
        name.strip("()"), answer.known_labels.context_indexes_by_label
    )
    mark = Mark(closing.start_of_names, closing.end, labels, name)
    citation = citation_of(mark, (0, 0), answer.known_labels.context_indexes_by_label)
    is_other_number = name.isdecimal() and bool(citation.dangling)  # "a.pdf, 2022"
    if not labels or is_other_number:
        raise UnknownMeaning(UNREAD_FORM)
    return _citation_of_mark(mark, citation, answer)
