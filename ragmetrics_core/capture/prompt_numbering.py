"""What labels mean in one answer: those of its prompts, names of documents, counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ragmetrics_core.capture.label_lines import label_line_of
from ragmetrics_core.capture.lines_around import lines_with_words
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.prompt_labels import Labels, labels_in, without_texts
from ragmetrics_core.capture.prompt_numbers import (
    IN_A_LIST,
    labels_differing_in_a_token,
    numbers_in_form,
)
from ragmetrics_core.capture.source_names import KEY_OF_NAME, file_name_of, is_telling
from ragmetrics_core.capture.tree import CitedSource
from ragmetrics_core.data import Context
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_A_CONTEXT = "\0context\0"  # stands in place of its text
_LONGEST_LABEL = 160
_RANK = lazy_pattern(r"(?:rank|position|order|place): (?P<number>\d+)")


def labels_of_turn(
    prompts: Sequence[str],
    context_texts: Sequence[str],
    earlier_texts: Sequence[str],
    earlier_messages: Sequence[str],
    *,
    cites_by_numbers: bool,
) -> Labels:
    """Read from prompts which labels stand above which contexts.

    A prompt shows "[1] IRON" of this turn and "[1] WOOD" of an earlier turn: the
    number 1 is ambiguous, and labels nothing.

    Args:
        prompts: The messages that the model was shown.
        context_texts: The texts of the contexts.
        earlier_texts: Texts of earlier turns that the prompts still show.
        earlier_messages: Results of tools of earlier turns, whose texts are not known
            one by one: nobody captured those turns.
        cites_by_numbers: Whether the answer cites numbers; see ``_labels_of_contexts``.
    """
    labels = _labels_of_contexts(
        prompts, context_texts, cites_by_numbers=cites_by_numbers
    )
    labels_of_earlier = labels_in(prompts, earlier_texts)
    earlier_numbers = labels_of_earlier.numbers_of_any_numbering.union(
        _numbers_of_other_texts(earlier_messages, context_texts)
    )
    return labels.with_ambiguous(labels.numbers_of_any_numbering & earlier_numbers)


def _numbers_of_other_texts(
    messages: Iterable[str], context_texts: Sequence[str]
) -> set[str]:
    r"""Return the numbers that messages have before other texts than the contexts.

    "[1] IRON\n[2] WOOD", where WOOD is a context: {"1"}.
    """
    numbers: set[str] = set()
    for message in messages:
        lines = lines_with_words(without_texts([message], context_texts, _A_CONTEXT))
        for line, line_below in pairwise([*lines, ""]):
            is_label_of_a_context = _A_CONTEXT in line + line_below
            if not is_label_of_a_context:
                numbers.update(_numbers_first_in(line[:_LONGEST_LABEL]))
    return numbers


def _numbers_first_in(line: str) -> set[str]:
    """Return the number that a line gives what follows: 1 of "[1] It fell." and "1. It"."""
    numbers = numbers_in_form(IN_A_LIST, line)
    label_line = label_line_of(line)
    if label_line is not None and label_line.number is not None:
        numbers.add(label_line.number)
    return numbers


def _labels_of_contexts(
    prompts: Sequence[str], context_texts: Sequence[str], *, cites_by_numbers: bool
) -> Labels:
    """Read the labels of the contexts from the lines around them: "[2] b.pdf".

    If these lines hold no number, what alone differs in them may be the labels: the
    "D1" of "D1: IRON", and the 1 of "Kilde 1:" if the answer cites numbers.
    """
    labels = labels_in(prompts, context_texts)
    if labels.numbers or labels.ambiguous_numbers:
        return labels
    context_indexes_by_label: dict[str, tuple[int, ...]] = {
        label: (index,)
        for label, index in labels_differing_in_a_token(prompts, context_texts).items()
    }
    if not context_indexes_by_label:
        context_indexes_by_label = _ranks(labels, len(context_texts))
    if "1" in context_indexes_by_label and not cites_by_numbers:
        return labels
    return replace(
        labels,
        context_indexes_by_label={
            **labels.context_indexes_by_label,
            **context_indexes_by_label,
        },
    )


def _ranks(labels: Labels, n_contexts: int) -> dict[str, tuple[int, ...]]:
    """Return the numbers 1, 2, … that a field "rank: 1" gives the contexts.

    They are in the order of the contexts, so that a mere count of them means the same.
    Empty without such a field.
    """
    context_indexes_by_rank: dict[str, tuple[int, ...]] = {}
    for label, context_indexes in labels.context_indexes_by_label.items():
        rank = _RANK.fullmatch(label)
        if rank is not None:
            context_indexes_by_rank[rank["number"]] = context_indexes
    in_order: dict[str, tuple[int, ...]] = {
        str(index + 1): (index,) for index in range(n_contexts)
    }
    return in_order if context_indexes_by_rank == in_order else {}


def context_indexes_by_document_name(
    contexts: Sequence[Context],
) -> dict[str, tuple[int, ...]]:
    """Return the telling names in the contexts' metadata, each with its contexts' indexes.

    Example: the first and the third context have ``{"source": "docs/b.pdf"}``:
    ``{"docs/b.pdf": (0, 2), "b.pdf": (0, 2)}``. A name that may be a common word is left
    out.
    """
    context_indexes_by_name: dict[str, dict[int, None]] = {}
    for index, context in enumerate(contexts):
        for key, value in context.metadata.items():
            if not isinstance(value, str) or not KEY_OF_NAME.fullmatch(str(key)):
                continue
            for name in (value.strip(), file_name_of(value.strip())):
                if is_telling(name):
                    context_indexes_by_name.setdefault(name, {})[index] = None
    return {
        name: tuple(context_indexes)
        for name, context_indexes in context_indexes_by_name.items()
    }


def context_indexes_by_word_of_metadata(
    contexts: Sequence[Context],
) -> dict[str, tuple[int, ...]]:
    """Return the words in the contexts' metadata, under any key, with their indexes."""
    context_indexes_by_word: dict[str, dict[int, None]] = {}
    for index, context in enumerate(contexts):
        for value in context.metadata.values():
            if isinstance(value, str):
                context_indexes_by_word.setdefault(value.strip(), {})[index] = None
    return {
        word: tuple(context_indexes)
        for word, context_indexes in context_indexes_by_word.items()
    }


def text_without_metadata(context: Context) -> str:
    r"""Return the text of a context without the lines that are a field of its metadata.

    Example: "file_name: a.pdf\n\nIt is old." with ``{"file_name": "a.pdf"}`` gives
    "\n\nIt is old." LlamaIndex shows texts so.
    """
    normalized_metadata = {
        normalize_text(f"{key}{value}") for key, value in context.metadata.items()
    }
    lines = context.text.split("\n")
    return "\n".join(
        line
        for line in lines
        if not line.strip() or normalize_text(line) not in normalized_metadata
    )


def numbering_of_framework(
    sources: Iterable[CitedSource], contexts: Sequence[Context]
) -> dict[str, tuple[int, ...]]:
    """The context index of each number, as a framework counts its documents.

    deepset-ai/haystack, haystack/components/builders/answer_builder.py:
    ``reference_pattern`` reads "[2]" as the second document that the builder was
    given: {"2": (1,)}. Empty if a cited document is not the context with its number.
    """
    ids: list[str | int | None] = [context.id for context in contexts]
    numbering: dict[str, tuple[int, ...]] = {}
    for source in sources:
        if source.label is None or ids.count(source.id) != 1:
            return {}
        index = ids.index(source.id)
        if index != int(source.label) - 1:
            return {}  # "[2]" is not the second context: others were shown
        numbering[source.label] = (index,)
    return numbering
