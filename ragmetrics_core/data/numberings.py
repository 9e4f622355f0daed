"""Which context the number of a mark means, where a table says it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragmetrics_core.data.marks import Numbering, is_number, plain_label

# What a chunk begins with where the prompt numbered it: "Source 1:", "[1]".
_NUMBERED = re.compile(
    r"\s*(?:\[(?P<bracket>[0-9]{1,4})\]"
    r"|\[?(?:source|document|doc|passage|context|chunk)\s*[#\[]?(?P<word>[0-9]{1,4})\]?"
    r"[^\S\n]*(?:[:.)(\n]|\Z))",
    re.IGNORECASE,
)
_NUMBER_KEYS = ("citation_number", "source_number")


def numbering_of(texts: Sequence[str]) -> dict[str, int] | None:
    r"""Return the place of each context by the number that its own text begins with.

    ``Source 1:``, ``Document 2``, ``[3]`` and their like are numbers. They count only
    where every context has one and no two share one. Bare brackets count only where
    they run from 0 or 1 in order: a chunk may begin with an entry of a bibliography.

    Args:
        texts: The contexts in their order.

    Returns:
        The numbering; None if the texts do not tell.

    Examples:
        >>> numbering_of(["Source 1:\\nIt is old.", "Source 2:\\nIt fell."])
        {'1': 0, '2': 1}
        >>> numbering_of(["It is old.", "It fell."]) is None
        True
    """
    heads = [_NUMBERED.match(text) for text in texts]
    numbers: list[int] = []
    by_bracket = False
    for head in heads:
        if head is None:
            return None
        by_bracket = by_bracket or head["bracket"] is not None
        numbers.append(int(head["bracket"] or head["word"]))
    if not numbers or len(set(numbers)) < len(numbers):
        return None
    from_zero = list(range(len(numbers)))
    from_one = list(range(1, len(numbers) + 1))
    if by_bracket and numbers not in (from_zero, from_one):
        return None
    return {str(number): place for place, number in enumerate(numbers)}


def numbering_of_metadata(
    metadata: Sequence[Mapping[str, object]],
) -> dict[str, int] | None:
    """Return the place of each context by the number that its metadata hold.

    Args:
        metadata: Those of the contexts in their order. The number stands under
            ``citation_number`` or ``source_number``.

    Returns:
        The numbering; None if a context has no number, or two have the same.
    """
    numbering: dict[str, int] = {}
    for place, metadata_of_context in enumerate(metadata):
        number = None
        for key in _NUMBER_KEYS:
            if key in metadata_of_context:
                number = metadata_of_context[key]
                break
        if isinstance(number, bool) or not isinstance(number, (int, str)):
            return None
        numbering[plain_label(str(number))] = place
    has_repeated_number = len(numbering) < len(metadata)
    if not metadata or has_repeated_number:
        return None
    return numbering


@dataclass(frozen=True, slots=True)
class NumberingRead:
    """What a table tells of the meaning of numbers.

    Args:
        numbering: The place of the context by label; None if that is not known.
        why_unknown: Why a table that tells something does not tell it, in words; "" if
            it does, or tells nothing.
    """

    numbering: Numbering | None = None
    why_unknown: str = ""


def numbering_shown(
    texts: Sequence[str], metadata: Sequence[Mapping[str, object]]
) -> NumberingRead:
    """Return the place of each context by the number that it was shown under.

    Args:
        texts: The contexts in their order.
        metadata: Those of the contexts, in the same order.

    Returns:
        The numbering that the texts begin with, or else that of the metadata. It is not
        known where neither tells, or where they contradict each other.
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
    """Return a numbering without the labels that have no value.

    A numbering says for each label the id or place of a context: ``{"1": "a"}``. A
    table of Parquet has all labels of its rows in each row, and whole numbers may have
    become decimals.

    Returns:
        The numbering; the value as it is if it is none.
    """
    if not isinstance(value, Mapping) or is_numbering(value):
        return value
    context_by_label: dict[object, object] = {}
    for label, context in value.items():
        is_nan = isinstance(context, float) and context != context  # NaN alone
        if context is None or is_nan:
            continue
        is_whole = isinstance(context, float) and context.is_integer()
        context_by_label[label] = int(context) if is_whole else context
    return context_by_label if is_numbering(context_by_label) else value


def is_numbering(value: object) -> bool:
    """Whether a value says the id or place of a context for each number.

    A table writes it so, e.g. ``{"1": "a", "2": "b"}`` or ``{"[1]": 0}``.
    """
    if not isinstance(value, Mapping) or not value:
        return False
    return all(
        is_number(_number_in(label))
        and isinstance(named, (str, int))
        and not isinstance(named, bool)
        for label, named in value.items()
    )


def numbering_of_column(
    named_by_label: Mapping[Any, str | int], ids: Sequence[str | None]
) -> NumberingRead:
    """Return the place of each context by its label, as a column of a table says it.

    The column has ids of contexts, or places of contexts, which count from 0. Numbers
    are places unless a context has one of them as its id. A label whose id no context
    has is left out: a mark with this label points to nothing.

    Args:
        named_by_label: By label the id or the place of a context.
        ids: The ids of the contexts in their order.

    Returns:
        The numbering, or why it is not known: a label stands there with two values; an
        id is that of several contexts, or may be that of a context without an id; or
        nobody can say whether a number is an id or a place, or whether places count
        from 0.
    """
    named: dict[str, str | int] = {}
    for label, value in named_by_label.items():
        number = _number_in(label)
        is_said_otherwise = named.setdefault(number, value) != value
        if is_said_otherwise:
            return NumberingRead(
                why_unknown=f"the column citations says two things of number {number}"
            )
    are_numbers = all(isinstance(value, int) for value in named.values())
    if are_numbers and not any(str(value) in ids for value in named.values()):
        return _numbering_of_places(named, len(ids))
    return _numbering_of_ids(named, ids, are_numbers=are_numbers)


def _numbering_of_places(
    place_by_label: Mapping[str, str | int], n_contexts: int
) -> NumberingRead:
    """The numbering of places that count from 0.

    The numbering is not known where the places may as well count from 1. That is so
    where a place is none of the contexts, and where each label has its own number as
    its place.
    """
    numbering: dict[str, int] = {}
    for label, place in place_by_label.items():
        numbering[label] = int(place)
    if not all(0 <= place < n_contexts for place in numbering.values()):
        return NumberingRead(
            why_unknown="the column citations has numbers that are neither ids nor"
            " places of the contexts; places count from 0"
        )
    repeats_labels = all(str(place) == label for label, place in numbering.items())
    # with a place 0 they cannot count from 1
    if repeats_labels and 0 not in numbering.values():
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
    """The numbering of ids, or why it is not known.

    It is known only where each id is that of one context, or certainly of none.

    Args:
        id_by_label: The id of a context by label.
        ids: The ids of the contexts in their order.
        are_numbers: Whether the ids were written as numbers, as places are.
    """
    numbering: dict[str, int] = {}
    for label, named in id_by_label.items():
        places = [
            place for place, context_id in enumerate(ids) if context_id == str(named)
        ]
        if len(places) > 1:
            return NumberingRead(
                why_unknown="the column citations has an id that several contexts share"
            )
        if places:
            numbering[label] = places[0]
        elif None in ids:
            return NumberingRead(
                why_unknown="the column citations has an id that no context has, and"
                " not all contexts have ids"
            )
        elif are_numbers:
            return NumberingRead(
                why_unknown="the column citations has numbers of which some are ids of"
                " the contexts and some are not"
            )
    return NumberingRead(numbering)


def _number_in(label: object) -> str:
    """The number in a label, which may stand in brackets."""
    return plain_label(str(label).strip(" []【】"))
