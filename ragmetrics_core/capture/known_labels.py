"""The labels and names that an answer may name, and the contexts that they mean. Pure.

They come from the prompts, "[1]" or "b.pdf" above a text; from the framework, which may
count its documents; and from the contexts' metadata, ``{"source": "docs/b.pdf"}``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ragmetrics_core.capture.page_numbers import page_numbers_by_context
from ragmetrics_core.capture.prompt_labels import Labels
from ragmetrics_core.capture.prompt_numbering import (
    context_indexes_by_document_name,
    context_indexes_by_word_of_metadata,
    numbering_of_framework,
)
from ragmetrics_core.capture.source_names import (
    WEB_ADDRESS,
    SourceNames,
    add_context_indexes,
    is_mark_label,
    page_of,
    with_addresses,
)
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.data import Context
from ragmetrics_core.data.label_shapes import shape_of_label
from ragmetrics_core.data.marks import marks_in


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """The labels and names of the contexts, from whatever says them.

    Attributes:
        in_prompts: The labels of the contexts in the prompts.
        prompts: The messages that the model was shown.
        contexts: The contexts.
        answer: The answer.
        framework_sources: The sources that the framework names beside the answer.
    """

    in_prompts: Labels
    prompts: Sequence[str]
    contexts: Sequence[Context]
    answer: str
    framework_sources: Sequence[CitedSource]

    @cached_property
    def context_indexes_by_label(self) -> dict[str, tuple[int, ...]]:
        """By each label that the answer may name the indexes of its contexts.

        The labels of the prompt go first, then the framework's numbers, then the names
        of documents that the answer says.
        """
        names = {
            name: context_indexes
            for name, context_indexes in self.context_indexes_by_document_name.items()
            if name in self.answer
        }
        return {
            **names,
            **self.framework_numbering,
            **self.in_prompts.context_indexes_by_label,
        }

    @cached_property
    def context_indexes_by_document_name(self) -> dict[str, tuple[int, ...]]:
        """The telling names in the contexts' metadata, each with its contexts' indexes."""
        return context_indexes_by_document_name(self.contexts)

    @cached_property
    def context_indexes_by_any_name(self) -> dict[str, tuple[int, ...]]:
        """The telling names in the contexts' metadata, and the labels of marks."""
        return {
            **self.context_indexes_by_document_name,
            **self.context_indexes_by_label,
        }

    @cached_property
    def framework_numbering(self) -> dict[str, tuple[int, ...]]:
        """The framework's numbers; empty if the prompt itself gives numbers."""
        if self.in_prompts.numbers or self.in_prompts.ambiguous_numbers:
            return {}
        return numbering_of_framework(self.framework_sources, self.contexts)

    @cached_property
    def context_indexes_by_name(self) -> dict[str, tuple[int, ...]]:
        """By each label that no mark names as a number, as "b.pdf": the contexts' indexes."""
        return {
            label: context_indexes
            for label, context_indexes in self.context_indexes_by_label.items()
            if not label.isdigit() and label not in self.lettered_labels
        }

    @cached_property
    def source_names(self) -> SourceNames:
        """The same as names that are found in a text, with the short forms of files."""
        return SourceNames.of(self.context_indexes_by_name)

    @cached_property
    def context_indexes_by_shown_name(self) -> dict[str, tuple[int, ...]]:
        """By each name that the prompts may show beside a context: the contexts' indexes.

        Beside ``context_indexes_by_name`` these are all words of the contexts'
        metadata.
        """
        shown = "\n".join(self.prompts)
        context_indexes_by_value = {
            value: context_indexes
            for value, context_indexes in context_indexes_by_word_of_metadata(
                self.contexts
            ).items()
            if value in self.answer and value in shown
        }
        return {**context_indexes_by_value, **self.context_indexes_by_name}

    @cached_property
    def web_pages_by_context(self) -> dict[int, set[str]]:
        """The web addresses of each context: from its metadata, and its labels."""
        context_indexes_by_name = with_addresses(self.context_indexes_by_any_name)
        pages_by_context: dict[int, set[str]] = {}
        for name, context_indexes in context_indexes_by_name.items():
            if WEB_ADDRESS.fullmatch(name):
                for index in context_indexes:
                    pages_by_context.setdefault(index, set()).add(page_of(name))
        return pages_by_context

    @cached_property
    def page_numbers_by_context(self) -> dict[int, frozenset[str]]:
        """The pages of a document that each context may be of; none if nobody tells."""
        return page_numbers_by_context(self.contexts, self.in_prompts)

    @cached_property
    def lettered_labels(self) -> set[str]:
        """The labels like those that marks name with letters: "S1" and "S2" for "[S1]".

        Empty where the prompt gives its contexts numbers: "kb-7" is then a name.
        """
        if self.in_prompts.numbers:
            return set()
        shapes: set[str | None] = set()
        for mark in marks_in(self.answer, self.context_indexes_by_label):
            shapes.update(shape_of_label(label) for label in mark.labels)
        return {
            label
            for label in self.context_indexes_by_label
            if not label.isdigit()
            and is_mark_label(label)
            and shape_of_label(label) in shapes
        }

    @cached_property
    def signs_behind_words(self) -> dict[str, set[str]]:
        """By what the answer's marks have before a known label: the signs of these labels.

        {"citation:": {"a", "0"}} for "[citation:e1b6]", see ``kinds_of_signs``.
        """
        signs_behind_words: dict[str, set[str]] = {}
        for mark in marks_in(self.answer, self.context_indexes_by_label):
            for label in mark.labels:
                word = word_before_label(label, mark.written)
                if word and self.context_indexes_by_label.get(label):
                    signs = signs_behind_words.setdefault(word, set())
                    signs |= kinds_of_signs(label)
        return signs_behind_words

    @cached_property
    def context_indexes_by_number(self) -> dict[str, frozenset[int]]:
        """All contexts that each number may mean in the prompt.

        "[1] Source 3:" above the first context has two numberings.
        """
        context_indexes_by_number: dict[str, frozenset[int]] = {}
        for numbering in (
            self.context_indexes_by_label,
            *self.in_prompts.context_indexes_by_numbering.values(),
        ):
            for label, context_indexes in numbering.items():
                add_context_indexes(context_indexes_by_number, label, context_indexes)
        return context_indexes_by_number


def word_before_label(label: str, mark: str) -> str:
    """Return what a mark has before its label: "citation:" of "[citation:e1b6]"."""
    before, found, _ = mark[1:].partition(label)
    return before.strip().lower() if found else ""


def kinds_of_signs(label: str) -> set[str]:
    """Return the signs of a label, with "0" for any digit and "a" for any letter."""
    digits_as_zero = re.sub(r"\d", "0", label)
    return set(re.sub(r"[^\W\d_]", "a", digits_as_zero))
