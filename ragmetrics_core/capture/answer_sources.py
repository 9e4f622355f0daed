"""The lists in which an answer says itself what its numbers mean. Pure.

They stand below the answer, "Sources: [1] a.pdf", or in a field of a structured reply,
``{"sources": [{"id": 1, "name": "a.pdf"}]}``. ``answer_lists`` finds the lists
below the answer, and ``answer_numbers`` tells what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragmetrics_core.capture.answer_lists import (
    ListEntry,
    entries_of_lists_in_answer,
    with_plain_lists,
)
from ragmetrics_core.capture.answer_numbers import (
    NumbersListedInAnswer,
    ShownInPrompts,
    numbers_listed_in_answer,
    numbers_named_in_sentences,
)
from ragmetrics_core.capture.known_labels import KnownLabels
from ragmetrics_core.capture.numbers_beside_names import NamedNumber
from ragmetrics_core.capture.other_lists import OtherListsInPrompts
from ragmetrics_core.capture.source_names import is_mark_label, with_addresses
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.data import Context
from ragmetrics_core.data.mark_patterns import Span
from ragmetrics_core.data.marks import Mark, marks_in, plain_label


@dataclass(frozen=True, eq=False)
class ListsInAnswer:
    """The lists of sources that an answer gives itself.

    Attributes:
        answer: The answer, with blanks for what its model did not write.
        sources: The sources that the structured reply names beside the answer.
        contexts: The contexts.
        known_labels: The labels and names of the contexts.
        prompt_lists: The lists in the prompts beside the labels of the contexts.
        may_count_sources: Whether marks may count these sources: the call that wrote the
            answer names them, too, and its prompt numbers nothing.
    """

    answer: str
    sources: Sequence[CitedSource]
    contexts: Sequence[Context]
    known_labels: KnownLabels
    prompt_lists: OtherListsInPrompts
    may_count_sources: bool

    @cached_property
    def spans(self) -> list[Span]:
        """Where the entries below the answer stand in it; a mark there cites nothing."""
        return sorted(
            {
                (list_entry.start, list_entry.end)
                for list_entry in self._entries_in_answer
            }
        )

    def hold(self, place: int) -> bool:
        """Whether a place of the answer is in one of these lists."""
        return bool(self._is_in_list_by_place[place])

    @cached_property
    def numbers(self) -> NumbersListedInAnswer:
        """What the answer's numbers mean by these lists.

        The prompt shows "[1] a.pdf [2] b.pdf", and the answer ends in "Sources: [1]
        b.pdf": its number 1 means b.pdf, another context than in the prompt.
        """
        list_entries = [
            list_entry
            for list_entry in [
                *self._entries_in_answer,
                *self._entries_in_field,
                *self._entries_by_place,
            ]
            if self._may_explain_a_mark(list_entry)
        ]
        numbers = numbers_listed_in_answer(
            list_entries, self._cited_numbers_with_names(), self._shown_in_prompts
        )
        if self._entries_by_place and _may_count_the_passages(numbers):
            return replace(
                numbers, unclear=frozenset(numbers.context_indexes_by_number or ())
            )
        return numbers

    def _may_explain_a_mark(self, list_entry: ListEntry) -> bool:
        """Whether the number of an entry may be that of a mark.

        "[1] a.pdf" always may; "1. a.pdf" only if the answer cites a 1.
        """
        return list_entry.number in self._cited_labels or not list_entry.has_item_number

    @cached_property
    def _shown_in_prompts(self) -> ShownInPrompts:
        """What the prompt showed."""
        return ShownInPrompts(
            self.contexts,
            with_addresses(self.known_labels.context_indexes_by_name),
            self.known_labels.context_indexes_by_number,
            self.known_labels.page_numbers_by_context,
            self.known_labels.in_prompts.pages_by_context,
            self.prompt_lists,
        )

    @cached_property
    def _entries_in_answer(self) -> list[ListEntry]:
        """The entries below the answer, as "[1] a.pdf"."""
        return entries_of_lists_in_answer(
            self.answer, self.known_labels.lettered_labels
        )

    @cached_property
    def _entries_in_field(self) -> list[ListEntry]:
        """The names and quotes that a field of the structured reply gives to numbers.

        ``{"sources": [{"id": 1, "name": "a.pdf"}]}`` gives the name "a.pdf" to 1.
        """
        list_entries: list[ListEntry] = []
        for source in self.sources:
            number = plain_label(str(source.id))
            if not number.isdigit():
                continue
            list_entries += [ListEntry(number, name) for name in source.names]
            # a name may give a number of the prompt another meaning; a quote may not: it
            # is compared later with the text that the prompt shows under the number
            is_of_prompt = number in self.known_labels.context_indexes_by_number
            if source.quote is not None and not is_of_prompt:
                list_entries.append(ListEntry(number, source.quote))
        return list_entries

    @cached_property
    def _entries_by_place(self) -> list[ListEntry]:
        """The sources of a field without numbers, counted from 1.

        ``{"answer": "It fell [2].", "cited_urls": ["a.test", "b.test"]}``: "[2]" means the
        second. Empty if marks may count something else, or if a list has numbers.
        """
        if not self.may_count_sources or self._entries_in_answer:
            return []
        list_entries: list[ListEntry] = []
        for place, source in enumerate(self.sources, start=1):
            name = str(source.id or source.quote)
            if source.statement is not None or is_mark_label(plain_label(name)):
                return []
            list_entries.append(ListEntry(str(place), name, has_item_number=True))
        return list_entries

    @cached_property
    def _is_in_list_by_place(self) -> bytearray:
        """For each place of the answer 1 if it is in one of the lists, else 0."""
        flags = bytearray(len(self.answer) + 1)
        for start, end in self.spans:
            flags[start:end] = b"\1" * (end - start)
        return flags

    @cached_property
    def _marks_outside_of_lists(self) -> list[Mark]:
        """The marks of the answer but those of the lists."""
        marks = marks_in(
            with_plain_lists(self.answer), self.known_labels.context_indexes_by_label
        )
        return [mark for mark in marks if not self.hold(mark.start)]

    @cached_property
    def _cited_labels(self) -> set[str]:
        """The labels that marks of the answer, or a field of the reply, cite."""
        labels = {plain_label(str(source.id)) for source in self.sources}
        for mark in self._marks_outside_of_lists:
            labels.update(mark.labels)
        return labels

    def _cited_numbers_with_names(self) -> list[NamedNumber]:
        """List the cited numbers to which a sentence gives a name: "where [1] is b.pdf"."""
        ends_of_marks = [mark.end for mark in self._marks_outside_of_lists]
        numbers = numbers_named_in_sentences(
            self.answer, self._shown_in_prompts.names, max(ends_of_marks, default=0)
        )
        return [
            named
            for named in numbers
            if named.number in self._cited_labels and not self.hold(named.start)
        ]


def _may_count_the_passages(numbers: NumbersListedInAnswer) -> bool:
    """Whether marks that seem to count a list may count the passages as they were shown.

    The prompt shows a.txt and b.txt, and the answer lists b.txt and a.txt: "[1]" may mean
    the first of the list, or the first passage. If it lists c.txt and b.txt, "[1]" means
    the first of the list: the first passage is not listed.
    """
    context_indexes_listed: set[int] = set()
    context_indexes_counted: set[int] = set()
    is_order_the_same = True
    for number, context_indexes in (numbers.context_indexes_by_number or {}).items():
        index_counted = int(number) - 1
        context_indexes_listed.update(context_indexes)
        context_indexes_counted.add(index_counted)
        is_order_the_same &= index_counted in context_indexes
    return context_indexes_listed == context_indexes_counted and not is_order_the_same
