"""Under which labels a prompt showed each context: titles, file names, ids, numbers. Pure."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragmetrics_core.capture.context_blocks import blocks_in
from ragmetrics_core.capture.fields_of_labels import (
    context_indexes_by_field,
    numbers_that_fields_may_mean,
)
from ragmetrics_core.capture.label_lines import (
    OF_FIELD,
    LabelLine,
)
from ragmetrics_core.capture.lines_around import lines_of_blocks, numbers_of, own_lines
from ragmetrics_core.capture.prompt_numbers import CHUNK
from ragmetrics_core.data.marks import field_label, is_number, plain_label

_PAGE_KEYS = ("page", "page number", "page no", "page_number", "page_label", "seite")


@dataclass(frozen=True, slots=True)
class Labels:
    """What prompts tell of the labels of contexts.

    Args:
        context_indexes_by_label: By a label: the indexes of the contexts under it.
        ambiguous_numbers: Numbers that stand above several contexts: nobody can tell
            which of them an answer means.
        context_indexes_by_numbering: The meanings of numbers where lines number the
            contexts in two ways, as ``[1] Source 3:`` does. By a numbering, such as
            ``source``: the indexes of the contexts by the numbers of it. The numbering
            of a number in brackets is ``IN_BRACKETS``. Empty where there is one
            numbering.
        numberings_of_all_contexts: The numberings in which each context has a number,
            such as ``source`` where each stands under "Source 1:" or the like.
        pages_by_context: By the index of a context the pages that its lines name, as 3
            of "Page: 3".
    """

    context_indexes_by_label: Mapping[str, tuple[int, ...]] = field(
        default_factory=dict
    )
    ambiguous_numbers: frozenset[str] = frozenset()
    context_indexes_by_numbering: Mapping[str, Mapping[str, tuple[int, ...]]] = field(
        default_factory=dict
    )
    numberings_of_all_contexts: frozenset[str] = frozenset()
    pages_by_context: Mapping[int, frozenset[str]] = field(default_factory=dict)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The labels that are numbers: "2", but not "b.pdf"."""
        return tuple(
            label for label in self.context_indexes_by_label if label.isdigit()
        )

    @property
    def numbers_of_any_numbering(self) -> frozenset[str]:
        """All numbers that label texts, as 7 and 2 of "[7] Source 2:"; ambiguous ones, too."""
        of_numberings = itertools.chain(*self.context_indexes_by_numbering.values())
        return self.ambiguous_numbers.union(self.numbers, of_numberings)

    def with_ambiguous(self, numbers: Collection[str]) -> "Labels":
        """Return the labels with some numbers that no longer mean any context."""
        context_indexes_by_label = {
            label: context_indexes
            for label, context_indexes in self.context_indexes_by_label.items()
            if label not in numbers
        }
        return replace(
            self,
            context_indexes_by_label=context_indexes_by_label,
            ambiguous_numbers=self.ambiguous_numbers.union(numbers),
        )

    def with_context_indexes(self, new_context_indexes: Sequence[int]) -> "Labels":
        """Return the labels with other indexes of the same contexts.

        Args:
            new_context_indexes: For each index in these labels, the one to put in its
                place.
        """
        context_indexes_by_numbering = {
            numbering: _with_context_indexes(
                context_indexes_by_number, new_context_indexes
            )
            for numbering, context_indexes_by_number in self.context_indexes_by_numbering.items()
        }
        pages_by_context = {
            new_context_indexes[index]: pages
            for index, pages in self.pages_by_context.items()
        }
        return replace(
            self,
            context_indexes_by_label=_with_context_indexes(
                self.context_indexes_by_label, new_context_indexes
            ),
            context_indexes_by_numbering=context_indexes_by_numbering,
            pages_by_context=pages_by_context,
        )

    def context_indexes_of_number(
        self, number: str, numbering: str
    ) -> tuple[int, ...] | None:
        """Return the contexts that an answer means by "[1]", "[Source 1]" or the like.

        Example: a prompt shows A below "Source 1:" and B after "[1]". Then "[Source 1]"
        means A, and "[1]" means B.

        Args:
            number: The number.
            numbering: ``IN_BRACKETS``, or a word such as ``source``; "" if nobody can
                tell.

        Returns:
            The indexes. () if no line has the number, or if it is one of
            ``ambiguous_numbers``. None if nobody can tell which context is meant: with
            A and B as above "1" alone, without a word, may mean A or B.
        """
        # the indexes by each numbering that has the number: {(0,), (1,)} for A and B
        meanings = self._meanings_of_number(number, numbering)
        if number in self.ambiguous_numbers or not meanings:
            return ()
        if numbering in self.context_indexes_by_numbering:
            context_indexes = self.context_indexes_by_numbering[numbering].get(
                number, ()
            )
            # "[Source 7]" where no source, or more than one, has the number 7: None
            return context_indexes if len(context_indexes) == 1 else None
        # no line has numbers of this numbering: all numberings must mean the same
        # context
        context_indexes_of_label = self.context_indexes_by_label.get(number, ())
        return (
            context_indexes_of_label if meanings == {context_indexes_of_label} else None
        )

    def _meanings_of_number(self, number: str, numbering: str) -> set[tuple[int, ...]]:
        """Return the contexts that a number means in each numbering that has it.

        Two numberings are left out, because nobody cites by a mere 3 of them:

        - chunks, as of ``[1] report.pdf (chunk 3)``
        - fields of another numbering, as ``doc_id: 3`` below a label; but "[Document
        3]" may
          mean this field
        """
        meanings = {self.context_indexes_by_label.get(number, ())}
        for (
            other_numbering,
            context_indexes_by_number,
        ) in self.context_indexes_by_numbering.items():
            is_field = other_numbering.endswith(OF_FIELD)
            is_other_field = is_field and other_numbering != numbering + OF_FIELD
            if other_numbering != CHUNK and not is_other_field:
                meanings.add(context_indexes_by_number.get(number, ()))
        return meanings - {()}


def _with_context_indexes(
    context_indexes_by_label: Mapping[str, tuple[int, ...]],
    new_context_indexes: Sequence[int],
) -> dict[str, tuple[int, ...]]:
    """Return labels with other indexes of the same contexts."""
    return {
        label: tuple(new_context_indexes[index] for index in context_indexes)
        for label, context_indexes in context_indexes_by_label.items()
    }


def labels_in(prompts: Sequence[str], contexts: Sequence[str]) -> Labels:
    r"""Find the labels under which prompts show contexts: names and numbers.

    Args:
        prompts: The messages that the model was shown.
        contexts: The contexts in their order.

    Returns:
        The labels, each with the indexes of its contexts. There are none where nobody
        can tell which lines belong to which context: in the second example "(a.txt)"
        may label the context above it or the context below. All numbers are ambiguous
        where a context has none, or two contexts have the same. A single number, 3, is
        ambiguous where an answer may also mean a field by it, as "doc_id: 3".

    Examples:
        >>> labels_in(["[a.txt]\nIt is old.\n\n[b.txt]\nIt fell."], ["It is old.", "It fell."]).context_indexes_by_label
        {'a.txt': (0,), 'b.txt': (1,)}
        >>> labels_in(["It is old.\n(a.txt)\n[x]\n\nIt fell."], ["It is old.", "It fell."]).context_indexes_by_label
        {}
    """
    lines_by_context = _lines_by_context(prompts, contexts)
    context_indexes_by_number = _numbering_of(lines_by_context, prompts, contexts)
    if context_indexes_by_number is None:
        return _labels_without_numbering(lines_by_context)
    labels = _labels_with_numbering(lines_by_context, context_indexes_by_number)
    # "Cite the doc_id", and "[1]" above "doc_id: 3": nobody can tell what 3 means
    numbers_of_fields = numbers_that_fields_may_mean(
        lines_by_context,
        context_indexes_by_number,
        without_texts(prompts, contexts, "\n"),
    )
    return labels.with_ambiguous(numbers_of_fields)


def _labels_without_numbering(
    lines_by_context: Mapping[int, Sequence[LabelLine]],
) -> Labels:
    """Return the labels of lines whose numbers do not tell the contexts apart."""
    all_numbers = set().union(*map(numbers_of, lines_by_context.values()))
    return Labels(
        {
            **_context_indexes_by_field_label(lines_by_context),
            **_context_indexes_by_name(lines_by_context),
        },
        ambiguous_numbers=frozenset(all_numbers),
        pages_by_context=_pages_by_context(lines_by_context),
    )


def _labels_with_numbering(
    lines_by_context: Mapping[int, Sequence[LabelLine]],
    context_indexes_by_number: Mapping[str, tuple[int, ...]],
) -> Labels:
    """Return the labels of lines that give each context a number.

    "[1] Source 7:" above each context has two numberings: those in brackets, which come
    first, and those of the numbering "source". "[1] Source 1:" has one.

    Args:
        lines_by_context: The lines that label each context.
        context_indexes_by_number: The context indexes by the first number of each line.
    """
    context_indexes_by_numbering = _context_indexes_by_numbering(
        lines_by_context, context_indexes_by_number
    )
    has_second_numbering = any(
        _differs(context_indexes_by_its_number, context_indexes_by_number)
        for context_indexes_by_its_number in context_indexes_by_numbering.values()
    )
    return Labels(
        {
            **_context_indexes_by_field_label(lines_by_context),
            **_context_indexes_by_name(lines_by_context),
            **context_indexes_by_number,
        },
        context_indexes_by_numbering=context_indexes_by_numbering
        if has_second_numbering
        else {},
        numberings_of_all_contexts=frozenset(context_indexes_by_numbering),
        pages_by_context=_pages_by_context(lines_by_context),
    )


def _numbering_of(
    lines_by_context: Mapping[int, Sequence[LabelLine]],
    prompts: Sequence[str],
    contexts: Sequence[str],
) -> dict[str, tuple[int, ...]] | None:
    """Return the indexes of the contexts by their numbers; None if nobody can tell them.

    Two contexts have different numbers. In a single prompt, the chunks of one file may
    have the same one: ``<source id="1" name="a.pdf">`` above each.
    """
    numbers_by_context = {
        index: numbers_of(lines) for index, lines in lines_by_context.items()
    }
    if not all(numbers_by_context.values()):
        return None  # some context has no number
    context_indexes_by_number = _context_indexes_by_number(numbers_by_context, {})
    if context_indexes_by_number is not None or not _are_in_one_prompt(
        prompts, contexts
    ):
        return context_indexes_by_number
    names_by_context = {
        index: {name for line in lines for name in line.names}
        for index, lines in lines_by_context.items()
    }
    return _context_indexes_by_number(numbers_by_context, names_by_context)


def _pages_by_context(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
) -> dict[int, frozenset[str]]:
    """Return the pages that the lines of each context name: 3 of "Page: 3" or "p. 3"."""
    return {
        index: frozenset(
            number for line in lines for key, number in line.fields if key in _PAGE_KEYS
        )
        for index, lines in lines_by_context.items()
    }


def without_texts(
    prompts: Iterable[str], texts: Iterable[str], put_instead: str
) -> str:
    """Return what prompts say around some texts, such as their instructions."""
    words_around = "\n".join(prompts)
    for text in texts:
        if text.strip():
            words_around = words_around.replace(text.strip(), put_instead)
    return words_around


def _lines_by_context(
    prompts: Iterable[str], contexts: Sequence[str]
) -> dict[int, list[LabelLine]]:
    r"""Return the lines that label each context, by the index of the context.

    The prompt "[a.txt]\nTitle: Iron\nIt is old." shows the context "Title: Iron\nIt is
    old." with two such lines: "[a.txt]" around it, and "Title: Iron" at its beginning.

    A context has one number, that of the first line with a number. A field's number, as
    in "Page: 7", counts only if no other line has one.
    """
    lines_by_context: dict[int, list[LabelLine]] = {
        index: [] for index in range(len(contexts))
    }
    for prompt in prompts:
        blocks = blocks_in(prompt, contexts)  # where the contexts stand
        lines_by_block = lines_of_blocks(blocks, prompt)
        for block, lines_around in zip(blocks, lines_by_block, strict=True):
            # such as "[a.txt]" above, and "Title: Iron" in its first line
            first_lines = own_lines(contexts[block.context_index])
            lines = _with_one_number([*lines_around, *first_lines])
            lines_by_context[block.context_index] += lines
    return lines_by_context


def _with_one_number(lines: Sequence[LabelLine]) -> list[LabelLine]:
    """Return the label lines of one text, changed so that they give it one number.

    The lines "Source 1:" and "Source 7: see chunk 2" both have a ``number``: the second
    line loses its 7. Its ``numbers_with_numbering`` are ("source", "7") and ("chunk",
    "2"): only the chunk is left, since the first line has a number of a source, too.
    """
    numbered_line = _line_with_the_number(lines)
    changed_lines: list[LabelLine] = []
    numberings_above: set[str] = set()
    for line in lines:
        numbers_of_new_numberings = [
            (numbering, number)
            for numbering, number in line.numbers_with_numbering
            if numbering not in numberings_above
        ]
        numberings_above.update(
            numbering for numbering, _ in line.numbers_with_numbering
        )
        changed_lines.append(
            replace(
                line,
                number=line.number if line == numbered_line else None,
                numbers_with_numbering=tuple(numbers_of_new_numberings),
            )
        )
    return changed_lines


def _line_with_the_number(lines: Iterable[LabelLine]) -> LabelLine | None:
    """Return the line that numbers a text: the first with a number; None without.

    A field counts only if no other line has a number: "[2]" goes before "Page: 7".
    """
    numbered_lines = [line for line in lines if line.number is not None]
    lines_without_fields = [line for line in numbered_lines if not line.is_field]
    return next(iter([*lines_without_fields, *numbered_lines]), None)


def _context_indexes_by_numbering(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
    context_indexes_by_number: Mapping[str, tuple[int, ...]],
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the numberings in which each context has a number.

    The labels "[1] Source 7:" and "[2] Source 8:" number the contexts after "[", and
    after "Source":
    ``{"[]": {"1": (0,), "2": (1,)}, "source": {"7": (0,), "8": (1,)}}``.

    Args:
        lines_by_context: The lines that label each context.
        context_indexes_by_number: The context indexes by the first number of each line.
    """
    numbered_contexts = set(itertools.chain(*context_indexes_by_number.values()))
    return {
        numbering: context_indexes_by_its_number
        for numbering, context_indexes_by_its_number in _all_context_indexes_by_numbering(
            lines_by_context
        ).items()
        if _numbers_each(numbered_contexts, context_indexes_by_its_number)
    }


def _numbers_each(
    context_indexes: Collection[int],
    context_indexes_by_number: Mapping[str, Iterable[int]],
) -> bool:
    """Whether each of some contexts has a number.

    If not, the numbers belong to titles: the 2 in "[1] Comments on Document 2" does.
    """
    numbered = set(itertools.chain(*context_indexes_by_number.values()))
    return numbered.issuperset(context_indexes)


def _differs(
    numbering: Mapping[str, tuple[int, ...]], other: Mapping[str, tuple[int, ...]]
) -> bool:
    """Whether a number of one numbering means other contexts in another numbering."""
    return any(
        other.get(number) != context_indexes
        for number, context_indexes in numbering.items()
    )


def _all_context_indexes_by_numbering(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Group the indexes of the contexts by numbering, and then by number.

    The label "[1] Source 7:" of the first context gives
    ``{"[]": {"1": (0,)}, "source": {"7": (0,)}}``.
    """
    context_indexes_by_numbering: dict[str, dict[str, set[int]]] = {}
    for context_index, lines in lines_by_context.items():
        for line in lines:
            for numbering, number in line.numbers_with_numbering:
                context_indexes_by_number = context_indexes_by_numbering.setdefault(
                    numbering, {}
                )
                context_indexes_by_number.setdefault(number, set()).add(context_index)
    return {
        numbering: _sorted_values(context_indexes_by_number)
        for numbering, context_indexes_by_number in context_indexes_by_numbering.items()
    }


def _sorted_values(
    context_indexes_by_label: Mapping[str, Iterable[int]],
) -> dict[str, tuple[int, ...]]:
    """Return the indexes under each label in order."""
    return {
        label: tuple(sorted(context_indexes))
        for label, context_indexes in context_indexes_by_label.items()
    }


def _context_indexes_by_name(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
) -> dict[str, tuple[int, ...]]:
    """Return the indexes of the contexts by the names that lines give them.

    Example: ``{"a.pdf": (0, 2), "b.pdf": (1,)}`` for three contexts, two of them of one
    file.
    """
    context_indexes_by_name: dict[str, set[int]] = {}
    for index, lines in lines_by_context.items():
        for line in lines:
            for name in line.names:
                context_indexes_by_name.setdefault(name, set()).add(index)
    return _sorted_values(context_indexes_by_name)


def _context_indexes_by_field_label(
    lines_by_context: Mapping[int, Sequence[LabelLine]],
) -> dict[str, tuple[int, ...]]:
    """Return the index of the context that each field labels: {"chunk_id: 7": (0,)}.

    A field such as "chunk_id" labels the contexts if each of them has one, and no two
    the same number. A page labels none: "page: 7" may be that of several files.

    Args:
        lines_by_context: The lines that label each context, by the context's index.
    """
    context_indexes_by_label: dict[str, tuple[int, ...]] = {}
    for key, context_indexes_by_number in context_indexes_by_field(
        lines_by_context
    ).items():
        if key in _PAGE_KEYS or _is_word_for_source(key):
            continue
        if not _has_each_its_own_number(lines_by_context, context_indexes_by_number):
            continue
        for number, context_indexes in context_indexes_by_number.items():
            label = field_label(key, number)
            context_indexes_by_label[label] = tuple(context_indexes)
    return context_indexes_by_label


def _is_word_for_source(key: str) -> bool:
    """Whether a key is a word for a source: "document: 1" is read as the label 1."""
    return is_number(plain_label(f"{key}: 1"))


def _has_each_its_own_number(
    context_indexes: Iterable[int], context_indexes_by_number: Mapping[str, set[int]]
) -> bool:
    """Whether each of some contexts has one number, and no two have the same.

    True for the contexts 0 and 1 and ``{"7": {0}, "8": {1}}``. False for ``{"7": {0,
    1}}``, and for ``{"7": {0}}``, where 1 has none.
    """
    numbered_contexts = list(itertools.chain(*context_indexes_by_number.values()))
    is_any_number_shared = len(numbered_contexts) > len(context_indexes_by_number)
    has_each_one_number = sorted(numbered_contexts) == sorted(context_indexes)
    return has_each_one_number and not is_any_number_shared


def _context_indexes_by_number(
    numbers_by_context: Mapping[int, set[str]],
    names_by_context: Mapping[int, set[str]],
) -> dict[str, tuple[int, ...]] | None:
    """Return the indexes of the contexts by their numbers.

    Example: ``{0: {"1"}, 1: {"2", "5"}}`` gives ``{"1": (0,), "2": (1,), "5": (1,)}``:
    a context that stands in the prompt twice may have two numbers. Open WebUI gives the
    chunks of one file one number, ``<source id="1" name="a.pdf">``: it means them all.

    None where two contexts have the same number and not the same names: nobody can tell
    what a number means.

    Args:
        numbers_by_context: The numbers in the label lines of each context; each has one.
        names_by_context: The names in these lines; empty if no number may be shared.
    """
    context_indexes_by_number: dict[str, tuple[int, ...]] = {}
    for index, numbers in numbers_by_context.items():
        for number in sorted(numbers):
            others = context_indexes_by_number.get(number, ())
            names = names_by_context.get(index)
            if others and (not names or names != names_by_context[others[0]]):
                return None
            context_indexes_by_number[number] = (*others, index)
    return context_indexes_by_number


def _are_in_one_prompt(prompts: Iterable[str], contexts: Sequence[str]) -> bool:
    """Whether one message shows all contexts: two calls may both count from 1."""
    return sum(bool(blocks_in(prompt, contexts)) for prompt in prompts) == 1
