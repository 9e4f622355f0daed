"""Other lists in a prompt, beside the labels of its contexts: of names, of uploads. Pure.

The contexts stand under "[1]" and "[2]". A list "Cite so: [1] b.pdf" may give the same
numbers to other sources, and "Document 2: scan.pdf" names what is no context. Then
nobody knows what "[1]" or "[Document 2]" in an answer means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ragmetrics_core.capture.answer_lists import (
    AROUND_NAME,
    ListEntry,
    entries_of_lines,
)
from ragmetrics_core.capture.known_labels import KnownLabels
from ragmetrics_core.capture.label_lines import IN_BRACKETS, OF_FIELD
from ragmetrics_core.capture.numbers_beside_names import (
    NamedNumber,
    numbers_beside_names,
    numbers_in_short_lines,
)
from ragmetrics_core.capture.prompt_labels import without_texts
from ragmetrics_core.capture.prompt_numbers import (
    lines_by_number_in_brackets,
    numbers_with_numbering_in,
)
from ragmetrics_core.capture.source_names import SourceNames
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LINE, PARAGRAPH_BREAK
from ragmetrics_core.data.source_lists import is_reference

_NO_WORD = "\0"  # stands in place of a context
_WORD_AND_NUMBER = lazy_pattern(r"[\s#>*<\[(\"'-]*[^\W\d_]+[^\w\n]*(?:id)?[^\w\n]*\d")


@dataclass(frozen=True, eq=False)
class OtherListsInPrompts:
    """The lists in prompts that number something else than the labels of contexts do.

    Attributes:
        prompts: The messages that the model was shown.
        context_texts: The texts of the contexts.
        known_labels: The labels and names of the contexts.
    """

    prompts: Sequence[str]
    context_texts: Sequence[str]
    known_labels: KnownLabels

    def give_to_another_context(self, number: str, numbering: str) -> bool:
        """Whether another list gives a number to another context.

        Args:
            number: The number.
            numbering: The word before the number, such as ``document``, or
                ``IN_BRACKETS``.
        """
        # "Document 1: b.pdf" may be an upload, which "[1]" does not mean
        is_numbering_of_labels = (
            numbering == IN_BRACKETS
            and numbering in self.known_labels.in_prompts.numberings_of_all_contexts
        )
        return self._listed_numbers.contradict(
            number, frozenset({"", numbering}) if is_numbering_of_labels else None
        )

    def give_to_no_context(self, number: str, numbering: str) -> bool:
        """Whether "Document 2" or "[2]" in the prompts names what is no context.

        A prompt lists uploads, "Document 2: scan.pdf", beside contexts with the labels
        "[1]" and "[2]": there "Document 2" is an upload. Below "Document 2:" it is a
        context.

        Args:
            number: The number, such as "2".
            numbering: The word before the number, such as ``document``, or
                ``IN_BRACKETS``; for "" False is returned.
        """
        # by these words the prompts number the contexts themselves, "Source 2:"
        # or in a field, "source: 2"
        numberings_of_labels = self.known_labels.in_prompts.numberings_of_all_contexts
        if not numbering or not numberings_of_labels.isdisjoint(
            {numbering, numbering + OF_FIELD}
        ):
            return False
        if numbering == IN_BRACKETS:
            return self._is_in_brackets_before_another_source(number)
        return (numbering, number) in self._words_with_numbers

    def _is_in_brackets_before_another_source(self, number: str) -> bool:
        """Whether a line such as "[2] Title: URL" names a source that is not context 2.

        langchain-ai/open_deep_research: the contexts stand under "SOURCE 1:", and "[1]
        Source Title: URL" is how the model shall list its sources. Without such a list in
        the answer nobody knows whether its "[1]" is the number of that list. A rule such
        as "[2] Be brief." names no source.
        """
        lines = self._lines_by_number_in_brackets.get(number)
        if not lines:
            return False
        names = self._names_of_contexts_under(number)
        return any(
            is_reference(line) and not self._is_about_context(line, number, names)
            for line in lines
        )

    def _names_of_contexts_under(self, number: str) -> list[str]:
        """List the names of the contexts that a number may mean; numbers are no names."""
        context_indexes_of_number = self.known_labels.context_indexes_by_number.get(
            number, frozenset()
        )
        return [
            name
            for name, context_indexes in self.known_labels.context_indexes_by_any_name.items()
            if not name.isdigit()
            and not context_indexes_of_number.isdisjoint(context_indexes)
        ]

    def _is_about_context(self, line: str, number: str, names: Iterable[str]) -> bool:
        """Whether a line behind "[2]" is of the context 2: "b.pdf", or "see source 2".

        Args:
            line: What stands behind the number; a line of a context itself counts, too.
            number: The number, such as "2".
            names: The names of the context 2.
        """
        is_line_of_a_context = any(line in text for text in self.context_texts)
        numbers_behind_words = {other for _, other in numbers_with_numbering_in(line)}
        holds_a_name = any(name in line for name in names)
        return is_line_of_a_context or number in numbers_behind_words or holds_a_name

    @cached_property
    def _lines_by_number_in_brackets(self) -> dict[str, set[str]]:
        """What lines of the prompts say behind a number such as "[2]", by the number."""
        return lines_by_number_in_brackets(self.prompts)

    @cached_property
    def _words_with_numbers(self) -> set[tuple[str, str]]:
        """With which words and numbers lines of the prompts begin: ("document", "2")."""
        return _words_with_numbers(self.prompts, self.context_texts)

    @cached_property
    def _listed_numbers(self) -> _ListedNumbers:
        """The numbers that lists give to names of contexts, compared with the labels.

        The contexts stand under "[1] a.pdf" and "[2] b.pdf", and a list says "Source 1:
        b.pdf": its 1 differs from the labels.
        """
        names_of_labels = SourceNames.of(self._labels_without_letters)
        # a label means what stands under it, whatever document has the same name
        names_of_documents = SourceNames.of(
            {
                name: context_indexes
                for name, context_indexes in self.known_labels.context_indexes_by_document_name.items()
                if name.lower() not in names_of_labels.context_indexes_by_name
            }
        )
        named_numbers = _numbers_beside_names_of_contexts(
            self.prompts, self.context_texts, names_of_labels, names_of_documents
        )
        return _compared_with_labels(
            named_numbers, self.known_labels.context_indexes_by_number
        )

    @cached_property
    def names_with_numbers(self) -> SourceNames:
        """The names in lists of the prompts; their "indexes" are the numbers there.

        HKUDS/LightRAG: the contexts stand under numbers alone, and below them all a list
        says "[1] a.pdf", "[2] b.pdf". Then the name "b.pdf" has the number 2.
        """
        numbers_by_name: dict[str, tuple[int, ...]] = {}
        for entry in self._entries:
            name = entry.text.strip(AROUND_NAME)
            numbers = numbers_by_name.get(name, ())
            numbers_by_name[name] = (*numbers, int(entry.number))
        return SourceNames.of(numbers_by_name)

    @property
    def _entries(self) -> Iterator[ListEntry]:
        """The lines of the prompts, apart from the contexts, that give a name a number."""
        for prompt in self.prompts:
            words = without_texts([prompt], self.context_texts, _NO_WORD)
            for paragraph in PARAGRAPH_BREAK.split(words):
                if _NO_WORD in paragraph:  # lines beside a context are its labels
                    continue
                for entry in entries_of_lines(paragraph):
                    if entry.number.isdigit():
                        yield entry

    @property
    def _labels_without_letters(self) -> dict[str, tuple[int, ...]]:
        """The labels of the prompts, and their contexts, without labels such as "S1"."""
        return {
            label: context_indexes
            for label, context_indexes in self.known_labels.in_prompts.context_indexes_by_label.items()
            if label not in self.known_labels.lettered_labels
        }


@dataclass(frozen=True, slots=True)
class _ListedNumbers:
    """The numbers that lists of a prompt give to names, compared with the labels.

    The contexts stand under "[1] a.pdf", "[2] b.pdf" and "[3] c.pdf". A list says
    "Source 1: b.pdf, [3] c.pdf". The 3 agrees with the labels; the 1 does not.

    Args:
        agreeing: The numbers that agree with a label: ``{"1", "2", "3"}``.
        numberings_by_differing_number: The numbers that differ from the labels, with
            the words before them: ``{"1": {"source"}}``; the word is "" for "[1]
            b.pdf".
    """

    agreeing: Collection[str] = frozenset()
    numberings_by_differing_number: Mapping[str, Collection[str]] = field(
        default_factory=dict
    )

    def contradict(self, number: str, numberings: frozenset[str] | None) -> bool:
        """Whether another list gives a number to another context, or may do so.

        Where a list gives some number to another context, a number that it may have as
        well counts: "[3] z.pdf" beside "[1] b.pdf".

        Args:
            number: The number that an answer names.
            numberings: Only lists whose numbers stand after one of these words count.
                None: all lists.
        """
        differing = {
            number
            for number, numberings_there in self.numberings_by_differing_number.items()
            if numberings is None or not numberings.isdisjoint(numberings_there)
        }
        return bool(differing) and (number in differing or number not in self.agreeing)


def _compared_with_labels(
    named_numbers: Iterable[NamedNumber],
    context_indexes_by_number: Mapping[str, frozenset[int]],
) -> _ListedNumbers:
    """Compare the numbers beside names in a prompt with the labels of its contexts.

    Args:
        named_numbers: Each with the contexts that have the name beside it.
        context_indexes_by_number: By each number that labels contexts the indexes of
            these.
    """
    agreeing: set[str] = set()
    numberings_by_differing_number: dict[str, set[str]] = {}
    for named in named_numbers:
        labelled = context_indexes_by_number.get(named.number, frozenset())
        if not labelled.isdisjoint(named.context_indexes):
            agreeing.add(named.number)
        elif labelled:  # a number that labels no context is left out
            numberings_by_differing_number.setdefault(named.number, set()).add(
                named.numbering
            )
    return _ListedNumbers(agreeing, numberings_by_differing_number)


def _numbers_beside_names_of_contexts(
    prompts: Sequence[str],
    context_texts: Sequence[str],
    labels: SourceNames,
    other_names: SourceNames,
) -> Iterator[NamedNumber]:
    """Yield the numbers of prompts that stand beside a name of a context.

    Beside the label "b.pdf" stand the 1 of "[1] b.pdf", of "1. b.pdf" and of "Source 1:
    b.pdf". If "b.pdf" is no label, but the name of a document, only the 1 of "[1] b.pdf"
    counts: the other two may list what a user uploaded.

    Args:
        prompts: The messages that the model was shown.
        context_texts: The texts of the contexts.
        labels: The names that the prompts show as labels.
        other_names: The names that the contexts' documents have beside these.
    """
    for prompt in prompts:
        words = without_texts([prompt], context_texts, _NO_WORD)
        yield from numbers_beside_names(words, labels)
        for named in numbers_beside_names(words, other_names):
            if not named.numbering:
                yield named
        for paragraph in PARAGRAPH_BREAK.split(words):
            if _NO_WORD not in paragraph:  # lines beside a context are its labels
                yield from _numbers_of_list(paragraph, labels)


def _numbers_of_list(paragraph: str, names: SourceNames) -> list[NamedNumber]:
    """List the numbers of a list such as "b.pdf: 1, a.pdf: 2"; none with one entry."""
    listed = list(numbers_in_short_lines(paragraph, names))
    numbers = {named.number for named in listed}
    meanings = {named.context_indexes for named in listed}
    return listed if len(numbers) > 1 and len(meanings) > 1 else []


def _words_with_numbers(
    prompts: Iterable[str], context_texts: Sequence[str]
) -> set[tuple[str, str]]:
    """Return with which words and numbers lines of prompts begin, as ("document", "2").

    "Document 2: scan.pdf" may name an upload. Lines inside of contexts do not count.

    Args:
        prompts: The messages that the model was shown.
        context_texts: The texts of the contexts.
    """
    pairs: set[tuple[str, str]] = set()
    for line in LINE.finditer(without_texts(prompts, context_texts, "\n")):
        if _WORD_AND_NUMBER.match(line[0]):
            # [("document", "2"), ("page", "7")] of "Document 2: scan.pdf, page 7"
            pairs.update(numbers_with_numbering_in(line[0])[:1])
    return pairs
