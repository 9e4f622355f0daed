"""Other lists in a prompt, beside the labels of its contexts: of names, of uploads. Pure.

The contexts stand under "[1]" and "[2]". A list "Cite so: [1] b.pdf" may give the same
numbers to other sources, and "Document 2: scan.pdf" names what is no context. Then
nobody knows what "[1]" or "[Document 2]" in an answer means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ragmetrics_core.capture.numbers_beside_names import (
    NamedNumber,
    numbers_beside_names,
    numbers_in_short_lines,
)
from ragmetrics_core.capture.prompt_labels import without_texts
from ragmetrics_core.capture.prompt_numbers import numbers_by_kind_in
from ragmetrics_core.capture.source_names import SourceNames
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import LINE, PARAGRAPH_BREAK

_NO_WORD = "\0"  # stands in place of a context
_WORD_AND_NUMBER = lazy_pattern(r"[\s#>*<\[(\"'-]*[^\W\d_]+[^\w\n]*(?:id)?[^\w\n]*\d")


@dataclass(frozen=True, slots=True)
class OtherNumbers:
    """Numbers that stand beside names of contexts in a prompt, compared with the labels.

    The contexts stand under "[1] a.pdf", "[2] b.pdf" and "[3] c.pdf". A list says
    "Source 1: b.pdf, [3] c.pdf". The 3 agrees with the labels; the 1 does not.

    Args:
        agreeing: The numbers that agree with a label: ``{"1", "2", "3"}``.
        kinds_by_number: The numbers that differ, with the words before them:
            ``{"1": {"source"}}``; the word is "" for "[1] b.pdf".
    """

    agreeing: Collection[str] = frozenset()
    kinds_by_number: Mapping[str, Collection[str]] = field(default_factory=dict)

    def contradict(self, number: str, kinds: frozenset[str] | None) -> bool:
        """Whether another list gives a number to another context, or may do so.

        Where a list gives some number to another context, a number that it may have as
        well counts: "[3] z.pdf" beside "[1] b.pdf".

        Args:
            number: The number that an answer names.
            kinds: Only lists whose numbers stand after one of these words count. None:
                all lists.
        """
        differing = {
            number
            for number, kinds_there in self.kinds_by_number.items()
            if kinds is None or not kinds.isdisjoint(kinds_there)
        }
        return bool(differing) and (number in differing or number not in self.agreeing)


def other_numbers(
    named_numbers: Sequence[NamedNumber],
    indexes_by_number: Mapping[str, frozenset[int]],
) -> OtherNumbers:
    """Compare the numbers beside names in a prompt with the labels of its contexts.

    Args:
        named_numbers: Each with the contexts that have the name beside it.
        indexes_by_number: By each number that labels contexts the indexes of these.
    """
    agreeing: set[str] = set()
    kinds_by_number: dict[str, set[str]] = {}
    for named in named_numbers:
        labelled = indexes_by_number.get(named.number, frozenset())
        if not labelled.isdisjoint(named.indexes):
            agreeing.add(named.number)
        elif labelled:  # a number that labels no context is left out
            kinds_by_number.setdefault(named.number, set()).add(named.kind)
    return OtherNumbers(agreeing, kinds_by_number)


def numbers_beside_names_of_contexts(
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
            if not named.kind:
                yield named
        for paragraph in PARAGRAPH_BREAK.split(words):
            if _NO_WORD not in paragraph:  # lines beside a context are its labels
                yield from _numbers_of_list(paragraph, labels)


def _numbers_of_list(paragraph: str, names: SourceNames) -> list[NamedNumber]:
    """List the numbers of a list such as "b.pdf: 1, a.pdf: 2"; none with one entry."""
    listed = list(numbers_in_short_lines(paragraph, names))
    numbers = {named.number for named in listed}
    meanings = {named.indexes for named in listed}
    return listed if len(numbers) > 1 and len(meanings) > 1 else []


def words_with_numbers(
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
            pairs.update(numbers_by_kind_in(line[0])[:1])
    return pairs
