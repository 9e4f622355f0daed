"""Addresses and ids in an answer that are written like those it cites, and that nobody was shown. Pure.

The prompt shows https://a.test/1, and the answer says "It fell [a](https://a.test/1). It
is old [b](https://b.test)." The second link cites a page that the model made up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragmetrics_core.capture.citing_answer import CitingAnswer
from ragmetrics_core.capture.known_labels import kinds_of_signs, word_before_label
from ragmetrics_core.capture.model_words import without_spans
from ragmetrics_core.capture.source_names import WEB_ADDRESS, page_of, without_scheme
from ragmetrics_core.capture.unknown_meanings import (
    NO_MEANING,
    UnknownMeaning,
    refuse_if_perhaps_shown,
)
from ragmetrics_core.data.answer_parts import without_code
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import Span
from ragmetrics_core.data.marks import Mark, address_behind

_ADDRESS_IN_WORDS = "the answer names a web address that nobody was shown, which may cite it and may not"
_IMAGE = lazy_pattern(r"!\[[^\[\]\n]{0,200}\]\([^()\n]{1,500}\)")
_BEHIND_AN_ADDRESS = ".,;:!?'*`”’。，"


@dataclass(frozen=True, slots=True)
class _AddressesShown:
    """The web addresses in all that a model was shown.

    Attributes:
        of_contexts: The pages that are the sources of contexts.
        of_links: The other pages, to which a prompt or a passage links.
        shown_text: All that was shown, in lower case and without "https://".
    """

    of_contexts: set[str]
    of_links: set[str]
    shown_text: str


def invented_addresses(marks: Sequence[Mark], answer: CitingAnswer) -> set[str]:
    """Return the addresses in an answer that cite a page which nobody was shown.

    Args:
        marks: The marks of the answer.
        answer: The answer, with its prompts, contexts and labels.

    Returns:
        The addresses; none of an answer that does not cite contexts by their addresses.

    Raises:
        UnknownMeaning: If an address may be another form of one that was shown.
    """
    pages_of_contexts: set[str] = set().union(
        *answer.known_labels.web_pages_by_context.values()
    )
    cited_pages: set[str] = set()
    for mark in marks:
        cited_pages.update(map(page_of, _addresses_of(mark, answer)))
    if cited_pages.isdisjoint(pages_of_contexts):
        return set()
    shown = _addresses_shown(pages_of_contexts, answer)
    return {
        address
        for address in _unknown_addresses(marks, answer)
        if _is_invented(address, shown, answer)
    }


def _unknown_addresses(marks: Iterable[Mark], answer: CitingAnswer) -> list[str]:
    """List the addresses in an answer that are no known labels, each once.

    What a mark of known labels links to is left out: it is read with the mark.

    Args:
        marks: The marks of the answer.
        answer: The answer, with its prompts, contexts and labels.
    """
    known_labels = answer.known_labels.context_indexes_by_label
    spans_of_known_marks = [
        _span_with_address(mark, answer.text)
        for mark in marks
        if all(label in known_labels for label in mark.labels)
    ]
    words = _words_that_may_cite(answer, spans_of_known_marks)
    return [
        address
        for address in dict.fromkeys(addresses_in(words))
        if address not in known_labels
    ]


def _addresses_shown(
    pages_of_contexts: set[str], answer: CitingAnswer
) -> _AddressesShown:
    """Return the web addresses in the prompts and the passages."""
    shown_text = "\n".join([*answer.prompts, *answer.context_texts])
    pages = set(map(page_of, addresses_in(shown_text)))
    return _AddressesShown(
        of_contexts=pages_of_contexts,
        of_links=pages - pages_of_contexts,
        shown_text=without_scheme(shown_text.lower()),
    )


def _is_invented(address: str, shown: _AddressesShown, answer: CitingAnswer) -> bool:
    """Whether an address that is no known label was certainly shown to nobody.

    False for a link of a prompt or passage, which the answer may repeat.

    Raises:
        UnknownMeaning: If it may be another form of an address that was shown.
    """
    page = page_of(address)
    if page in shown.of_links:
        return False
    if page in shown.of_contexts or without_scheme(page) in shown.shown_text:
        raise UnknownMeaning(NO_MEANING.format("an address that it names"))
    refuse_if_perhaps_shown(address, answer, answer.labels, answer.prompts)
    return True


def refuse_addresses_in_words(
    addresses: set[str], marks: Iterable[Mark], answer: CitingAnswer
) -> None:
    """Raise if an address that nobody was shown stands outside of marks.

    Args:
        addresses: The addresses that nobody was shown.
        marks: The marks of the answer, those of these addresses among them.
        answer: The answer, with its prompts, contexts and labels.

    Raises:
        UnknownMeaning: If one does: "visit https://b.test" need not cite it.
    """
    spans = [_span_with_address(mark, answer.text) for mark in marks]
    words = _words_that_may_cite(answer, spans)
    if not addresses.isdisjoint(addresses_in(words)):
        raise UnknownMeaning(_ADDRESS_IN_WORDS)


def is_written_like_known(mark: Mark, label: str, answer: CitingAnswer) -> bool:
    """Whether a mark is written like the marks of the answer whose labels are known.

    "[citation:zz9]" is, beside "[citation:e1b6]": it has the same word before its
    label, and its label has a digit and no other kinds of signs.

    Args:
        mark: The mark.
        label: Its label, which no context has.
        answer: The answer, with its prompts, contexts and labels.
    """
    word = word_before_label(label, mark.written)
    if not word or not any(map(str.isdigit, label)):
        return False
    return kinds_of_signs(label) <= answer.known_labels.signs_behind_words.get(
        word, set()
    )


def _addresses_of(mark: Mark, answer: CitingAnswer) -> list[str]:
    """List the known addresses that a mark has as labels, and the one that it links to."""
    addresses = [
        label
        for label in mark.labels
        if label in answer.known_labels.context_indexes_by_label
        and WEB_ADDRESS.fullmatch(label)
    ]
    linked = address_behind(answer.text, mark.end)
    return addresses if linked is None else [*addresses, linked]


def _span_with_address(mark: Mark, text: str) -> Span:
    """Return where a mark stands, with the address that its bracket links to."""
    if address_behind(text, mark.end) is None:
        return (mark.start, mark.end)
    return (mark.start, text.index(")", mark.end) + 1)


def _words_that_may_cite(answer: CitingAnswer, read: Iterable[Span]) -> str:
    """Return the answer without lists of sources, code, images, and what is read."""
    text = without_code(answer.sentences)
    images = [found.span() for found in _IMAGE.finditer(text)]
    return without_spans(text, [*images, *read])


def addresses_in(text: str) -> Iterator[str]:
    """Yield the web addresses in a text, without the signs behind them."""
    for found in WEB_ADDRESS.finditer(text):
        yield found[0].split('"')[0].rstrip(_BEHIND_AN_ADDRESS)
