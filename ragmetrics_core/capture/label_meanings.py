"""What a label means that an answer names: which contexts, or nobody knows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragmetrics_core.capture.citing_answer import CitingAnswer
from ragmetrics_core.capture.page_numbers import pages_in_metadata
from ragmetrics_core.capture.prompt_labels import Labels
from ragmetrics_core.capture.source_names import file_name_of, is_mark_label
from ragmetrics_core.capture.unknown_meanings import (
    NO_MEANING,
    SEVERAL,
    SHOWN_ELSEWHERE,
    UnknownByItself,
    UnknownMeaning,
    as_mark,
)
from ragmetrics_core.data import Citation
from ragmetrics_core.data.marks import Mark, contexts_of_label

_TWO_NUMBERINGS = (
    "the prompt numbers its passages in two ways, and which of them {} means is not"
    " known"
)
_NUMBERED_ANEW = (
    "the answer itself, as in its own list of sources, gives {} another meaning than the"
    " prompt, and which context it means is not known"
)


def by_its_numbering(
    mark: Mark, citation: Citation, labels: Labels, answer: CitingAnswer
) -> Citation:
    """Return a mark's citation where prompt or answer number the contexts in two ways.

    - The prompt does under "[1] Source 3: IRON" and "[3] Source 1: WOOD": the mark
      "[Source 1]" cites WOOD, and "[1]" cites IRON.
    - The answer does if its own list, "Sources: [1] WOOD", gives the number 1 another
      meaning than the prompt: then "[1]" cites WOOD.

    Otherwise the citation is returned unchanged.

    Args:
        mark: The mark.
        citation: The mark's citation by the first number of each line of the prompt.
        labels: The labels of the prompt.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If a number may mean one context or another.
    """
    has_prompt_two_numberings = bool(labels.context_indexes_by_numbering)
    has_answer_its_own = answer.lists_in_answer.numbers.differ_from_prompt
    if not has_prompt_two_numberings and not has_answer_its_own:
        return citation
    # the word before the numbers of the mark: "source" of "[Source 1]"
    numbering = answer.numbering_of_mark(mark, labels)
    contexts_cited: list[int] = []
    dangling: list[str] = []
    for label in mark.labels:
        contexts_of_this_label = _context_indexes_of_label(
            label, numbering, labels, answer
        )
        contexts_cited += contexts_of_this_label
        # "[9]", which the prompt does not show; a label that it shows never dangles
        if not contexts_of_this_label and label in citation.dangling:
            dangling.append(label)
    without_repeats = tuple(dict.fromkeys(contexts_cited))
    return citation.model_copy(
        update={"contexts": without_repeats, "dangling": tuple(dangling)}
    )


def _context_indexes_of_label(
    label: str, numbering: str, labels: Labels, answer: CitingAnswer
) -> tuple[int, ...]:
    """Find the contexts that a label means; () if it means none.

    Args:
        label: The label, such as "1".
        numbering: The word before it in the answer, such as ``source``.
        labels: The labels of the prompt.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If it may mean one context or another.
    """
    return (
        # "Sources: [1] b.pdf" below the answer gives 1 another meaning than the prompt
        context_indexes_by_list_in_answer(label, answer)
        # the number in this numbering, as in "Source 1:"
        or context_indexes_of_number(label, numbering, labels)
        # any other label of the prompt
        or contexts_of_label(label, answer.known_labels.context_indexes_by_label)
    )


def context_indexes_by_list_in_answer(
    label: str, answer: CitingAnswer
) -> tuple[int, ...]:
    """Find the contexts that a number means by the answer's own list of sources.

    Example: the prompt shows "[1] a.pdf [2] b.pdf", and the answer ends in "Sources:
    [1] b.pdf": 1 means the second context, (1,). () if no such list gives the number
    another meaning than the prompt.

    Raises:
        UnknownMeaning: If the answer numbers its sources anew, and does not say
            clearly which context the number means.
    """
    numbers_listed_in_answer = answer.lists_in_answer.numbers
    context_indexes_by_number = numbers_listed_in_answer.context_indexes_by_number or {}
    is_as_in_prompt = (
        not numbers_listed_in_answer.differ_from_prompt
        or label in numbers_listed_in_answer.as_in_prompt
    )
    if is_as_in_prompt or not is_mark_label(label):
        return ()
    if (
        label in numbers_listed_in_answer.unclear
        or label not in context_indexes_by_number
    ):
        raise UnknownMeaning(_NUMBERED_ANEW.format(as_mark(label)))
    return context_indexes_by_number[label]


def context_indexes_of_number(
    label: str, numbering: str, labels: Labels
) -> tuple[int, ...]:
    """Find the contexts that a number means under a prompt's two numberings.

    Args:
        label: The label; () is returned unless it is a number.
        numbering: The numbering it belongs to, such as ``source``.
        labels: The labels of the prompt; () is returned if they have one numbering.

    Raises:
        UnknownMeaning: If it may mean one context or another.
    """
    if not label.isdigit() or not labels.context_indexes_by_numbering:
        return ()
    context_indexes = labels.context_indexes_of_number(label, numbering)
    if context_indexes is None:
        raise UnknownMeaning(_TWO_NUMBERINGS.format(as_mark(label)))
    return context_indexes


def refuse_numbers_of_other_lists_in_prompts(
    labels: Iterable[str], numbering: str, answer: CitingAnswer
) -> None:
    """Raise if a number may belong to another list in the prompt.

    Args:
        labels: What the answer names, such as "2".
        numbering: The numbering they belong to, such as ``source``.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If it may.
    """
    for label in labels:
        if label in answer.lists_in_answer.numbers.as_in_prompt or not is_mark_label(
            label
        ):
            continue  # the answer itself says what it means
        if context_indexes_by_list_in_answer(label, answer):
            continue
        if answer.other_lists_in_prompts.give_to_another_context(label, numbering):
            raise UnknownMeaning(_TWO_NUMBERINGS.format(as_mark(label)))
        if answer.other_lists_in_prompts.give_to_no_context(label, numbering):
            raise UnknownMeaning(SHOWN_ELSEWHERE.format(as_mark(label)))


def context_indexes_by_metadata(name: str, answer: CitingAnswer) -> tuple[int, ...]:
    """Find the contexts that have a name as id, or as a value of their metadata.

    "b.pdf" finds the contexts with the id "b.pdf" or ``{"source": "docs/b.pdf"}``.

    Raises:
        UnknownMeaning: If several texts have the id, as where two stores count from 0.
    """
    context_indexes = []
    texts_of_id = set()
    for index, context in enumerate(answer.contexts):
        has_id = context.id == name
        if has_id:
            texts_of_id.add(context.text)
        if has_id or any(_is_name(value, name) for value in context.metadata.values()):
            context_indexes.append(index)
    if len(texts_of_id) > 1:  # nobody knows which of these texts the id means
        raise UnknownMeaning(SEVERAL.format("an id that it names"))
    return tuple(context_indexes)


def _is_name(value: object, name: str) -> bool:
    """Whether a value of metadata is a name, or a path or address that ends in it."""
    if not isinstance(value, str):
        return False
    return name in (value, file_name_of(value))


def context_indexes_of_page(
    context_indexes: Sequence[int], page: str, answer: CitingAnswer
) -> tuple[int, ...]:
    """Choose from some contexts the contexts of a page, by their metadata.

    The page "2" chooses the contexts with ``{"page": 2}`` or ``{"page_label": "2"}``.

    Args:
        context_indexes: The indexes of the contexts to choose from.
        page: The page that the answer names.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownByItself: If no context has the page: a loader may count pages from 0. Or
            if two fields choose different contexts, as where ``page`` counts from 0 and
            ``page_label`` from 1.
    """
    context_indexes_by_field: dict[str, list[int]] = {}
    for index in context_indexes:
        for field, value in pages_in_metadata(answer.contexts[index]).items():
            if value == page:
                context_indexes_by_field.setdefault(field, []).append(index)
    choices = {tuple(chosen) for chosen in context_indexes_by_field.values()}
    if len(choices) != 1:
        raise UnknownByItself(NO_MEANING.format(f"page {page}"))
    return choices.pop()


def refuse_other_page(index: int, page: str, answer: CitingAnswer) -> None:
    """Raise if a context is known to be of another page than the answer names.

    Raises:
        UnknownByItself: If it has pages, and none of them may be the page.
    """
    pages = answer.known_labels.page_numbers_by_context[index]
    if pages and page not in pages:
        raise UnknownByItself(NO_MEANING.format(f"page {page}"))
