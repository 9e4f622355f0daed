"""Which context the number of a mark means, where a table says it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.marks import Numbering, is_number, plain_label

# What a chunk begins with where the prompt numbered it: "Source 1:", "[1]".
_NUMBERED = lazy_pattern(
    r"\s*(?:\[(?P<bracket>[0-9]{1,4})\]"
    r"|\[?(?:source|document|doc|passage|context|chunk)\s*[#\[]?(?P<word>[0-9]{1,4})\]?"
    r"[^\S\n]*(?:[:)(\n]|\.(?!\w)|\Z))",  # "doc1.pdf" is a file
    re.IGNORECASE,
)
_NUMBER_KEYS = ("citation_number", "source_number")


def numbering_of(texts: Sequence[str]) -> dict[str, int] | None:
    r"""Number the contexts by what their own texts begin with, such as ``Source 1:``.

    Every context must begin with such a number, and no two may share one. Numbers in
    bare brackets (``[1]``) must also run from 0 or 1 in order: a chunk may begin with an
    entry of a bibliography.

    Args:
        texts: The contexts in their order.

    Returns:
        The index of the context by its number; None if the texts have no such numbers.

    Examples:
        >>> numbering_of(["Source 1:\\nIt is old.", "Source 2:\\nIt fell."])
        {'1': 0, '2': 1}
        >>> numbering_of(["It is old.", "It fell."]) is None
        True
    """
    heads = [_NUMBERED.match(text) for text in texts]
    numbers: list[int] = []
    has_brackets = False
    for head in heads:
        if head is None:
            return None
        has_brackets = has_brackets or head["bracket"] is not None
        numbers.append(int(head["bracket"] or head["word"]))
    if not numbers or len(set(numbers)) < len(numbers):
        return None
    from_zero = list(range(len(numbers)))
    from_one = list(range(1, len(numbers) + 1))
    if has_brackets and numbers not in (from_zero, from_one):
        return None
    return {str(number): index for index, number in enumerate(numbers)}


def numbering_of_metadata(
    metadata: Sequence[Mapping[str, object]],
) -> dict[str, int] | None:
    """Number the contexts by ``citation_number`` or the like in their metadata.

    ``[{"citation_number": 2}, {"citation_number": 1}]`` gives ``{"2": 0, "1": 1}``.

    Args:
        metadata: The metadata of each context, in the contexts' order.

    Returns:
        The index of the context by its number; None if a context has no number, or two
        have the same.
    """
    numbering: dict[str, int] = {}
    for index, metadata_of_context in enumerate(metadata):
        number = None
        for key in _NUMBER_KEYS:
            if key in metadata_of_context:
                number = metadata_of_context[key]
                break
        if isinstance(number, bool) or not isinstance(number, (int, str)):
            return None
        numbering[plain_label(str(number))] = index
    has_repeated_number = len(numbering) < len(metadata)
    if not metadata or has_repeated_number:
        return None
    return numbering


@dataclass(frozen=True, slots=True)
class NumberingRead:
    """Which context each number means, as read from a table.

    Args:
        numbering: The index of the context for each label; None if not known.
        why_unknown: What is wrong with what the table says of numbers, in words; "" if
            the numbering is known, or if the table says nothing of numbers.
    """

    numbering: Numbering | None = None
    why_unknown: str = ""


def numbering_shown(
    texts: Sequence[str], metadata: Sequence[Mapping[str, object]]
) -> NumberingRead:
    """Number the contexts by their texts, else by their metadata.

    The numbering is unknown if neither has numbers, or if the two contradict each other.

    Args:
        texts: The contexts in their order.
        metadata: The metadata of each context, in the same order.
    """
    of_texts = numbering_of(texts)
    of_metadata = numbering_of_metadata(metadata)
    if of_texts and of_metadata and of_texts != of_metadata:
        return NumberingRead(
            why_unknown="the texts of the contexts and their metadata number them"
            " differently"
        )
    return NumberingRead(of_texts or of_metadata)


def without_missing_labels(value: object) -> object:
    """Drop from a numbering the labels that have no context.

    A numbering maps each label to its context. A Parquet table gives each row the
    labels of all rows, and makes whole numbers decimals: ``{"1": 0.0, "2": None}``
    becomes ``{"1": 0}``. What is no numbering stays as it is.
    """
    if not isinstance(value, Mapping) or is_numbering(value):  # nothing to drop
        return value
    context_by_label: dict[object, object] = {}
    for label, context in value.items():
        is_nan = isinstance(context, float) and math.isnan(context)
        if context is None or is_nan:
            continue
        is_whole = isinstance(context, float) and context.is_integer()
        context_by_label[label] = int(context) if is_whole else context
    return context_by_label if is_numbering(context_by_label) else value


def is_numbering(value: object) -> bool:
    """Tell whether a value maps numbers to ids or indices of contexts.

    ``{"1": "a", "2": "b"}`` and ``{"[1]": 0}`` do.
    """
    if not isinstance(value, Mapping) or not value:
        return False
    return all(
        is_number(plain_label(str(label)))
        and isinstance(id_or_index, (str, int))
        and not isinstance(id_or_index, bool)
        for label, id_or_index in value.items()
    )


def numbering_of_column(
    context_by_label: Mapping[Any, str | int], ids: Sequence[str | None]
) -> NumberingRead:
    """Read from a table's column which context each label means.

    ``{"1": "doc-a"}``: label 1 means the context with the id "doc-a". ``{"1": 0}``: the
    first context, if no number of the column is an id of a context.

    Args:
        context_by_label: For each label the id or the index of a context.
        ids: The ids of the contexts in their order.

    Returns:
        The numbering; unknown if a number has two values, as in ``{"1": "a", "[1]":
        "b"}``, or a value may mean two contexts.
    """
    context_by_number: dict[str, str | int] = {}
    for label, context in context_by_label.items():
        number = plain_label(str(label))
        has_other_value = context_by_number.setdefault(number, context) != context
        if has_other_value:
            return NumberingRead(
                why_unknown=f"the column citations says two things of number {number}"
            )
    contexts = context_by_number.values()
    are_numbers = all(isinstance(context, int) for context in contexts)
    is_any_an_id = any(str(context) in ids for context in contexts)
    if are_numbers and not is_any_an_id:
        return _numbering_of_indices(context_by_number, len(ids))
    return _numbering_of_ids(context_by_number, ids, are_numbers=are_numbers)


def _numbering_of_indices(
    index_by_label: Mapping[str, str | int], n_contexts: int
) -> NumberingRead:
    """Read labels that name contexts by their index, counted from 0.

    The numbering is unknown if an index is too high, or if every label equals its index
    and none is 0, as in ``{"1": 1, "2": 2}``: then the indices may count from 1.
    """
    numbering: dict[str, int] = {}
    for label, index in index_by_label.items():
        numbering[label] = int(index)
    if not all(0 <= index < n_contexts for index in numbering.values()):
        return NumberingRead(
            why_unknown="the column citations has numbers that are neither ids nor"
            " places of the contexts; places count from 0"
        )
    repeats_labels = all(str(index) == label for label, index in numbering.items())
    may_count_from_one = 0 not in numbering.values()
    if repeats_labels and may_count_from_one:
        return NumberingRead(
            why_unknown="the column citations names each number by itself, which may be"
            " a place from 0 or from 1; give the ids of the contexts"
        )
    return NumberingRead(numbering)


def _numbering_of_ids(
    id_by_label: Mapping[str, str | int],
    ids: Sequence[str | None],
    *,
    are_numbers: bool,
) -> NumberingRead:
    """Read labels that name contexts by their id.

    Example: {"1": "doc-b"} and contexts with the ids "doc-a" and "doc-b": {"1": 1}. A
    label whose id no context has is left out. If that id may mean a context after all,
    or if several contexts have one id, the numbering is unknown: in {"1": 7, "2": 1},
    where only "7" is an id, the 1 may mean the second context.

    Args:
        id_by_label: The id that each label names.
        ids: The id of each context, None for none.
        are_numbers: Whether the labels name numbers only, such as 2. A number that is
            no id may be a context's index.
    """
    numbering: dict[str, int] = {}
    for label, named_id in id_by_label.items():
        indices = [
            index for index, context_id in enumerate(ids) if context_id == str(named_id)
        ]
        if len(indices) > 1:
            return NumberingRead(
                why_unknown="the column citations has an id that several contexts share"
            )
        if indices:
            numbering[label] = indices[0]
        elif None in ids:  # it may be the id of a context without one
            return NumberingRead(
                why_unknown="the column citations has an id that no context has, and"
                " not all contexts have ids"
            )
        elif are_numbers:  # "1" is an id, and 2 is none: perhaps an index
            return NumberingRead(
                why_unknown="the column citations has numbers of which some are ids of"
                " the contexts and some are not"
            )
    return NumberingRead(numbering)
