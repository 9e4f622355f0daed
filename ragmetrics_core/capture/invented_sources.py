"""Addresses and ids in an answer that are written like those it cites, and that nobody was shown. Pure.

The prompt shows https://a.test/1, and the answer says "It fell [a](https://a.test/1). It
is old [b](https://b.test)." The second link cites a page that the model made up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragmetrics_core.capture.citation_search import (
    CitationSearch,
    kinds_of_signs,
    word_before_label,
)
from ragmetrics_core.capture.model_words import without_spans
from ragmetrics_core.capture.source_names import WEB_ADDRESS, page_of, without_scheme
from ragmetrics_core.capture.unknown_meanings import (
    NO_MEANING,
    UnknownMeaning,
    refuse_if_perhaps_shown,
)
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import Span
from ragmetrics_core.data.marks import Mark, address_behind, without_code

_ADDRESS_IN_WORDS = "the answer names a web address that nobody was shown, which may cite it and may not"
_IMAGE = lazy_pattern(r"!\[[^\[\]\n]{0,200}\]\([^()\n]{1,500}\)")
_BEHIND_AN_ADDRESS = ".,;:!?'*`”’。，"


def invented_addresses(marks: Sequence[Mark], search: CitationSearch) -> set[str]:
    """Return the addresses in an answer that may cite, and that nobody was shown.

    An address that the prompt shows is none of them, whatever it stands for there: the
    answer may repeat a link of a passage.

    Args:
        marks: The marks of the answer, by the labels that are known.
        search: What the rules look at.

    Returns:
        The addresses; none of an answer that does not cite by addresses.

    Raises:
        UnknownMeaning: If an address may be another form of one that was shown.
    """
    pages_of_contexts: set[str] = set().union(*search.pages_by_index.values())
    cited_pages = {
        page_of(address) for mark in marks for address in _addresses_of(mark, search)
    }
    if pages_of_contexts.isdisjoint(cited_pages):
        return set()

    # what a mark of a known label links to is the business of that mark
    spans_of_known = [
        _span_with_address(mark, search.text)
        for mark in marks
        if all(label in search.indexes_by_known_label for label in mark.labels)
    ]
    shown = "\n".join([*search.prompts, *search.context_texts])
    shown_pages = {page_of(address) for address in _addresses_in(shown)}
    shown_in_any_form = without_scheme(shown.lower())
    invented: set[str] = set()
    for address in _addresses_in(_words_that_may_cite(search, spans_of_known)):
        page = page_of(address)
        if address in search.indexes_by_known_label or address in invented:
            continue
        if page in shown_pages - pages_of_contexts:  # a link of a passage
            continue
        if page in pages_of_contexts or without_scheme(page) in shown_in_any_form:
            raise UnknownMeaning(NO_MEANING.format("an address that it names"))
        refuse_if_perhaps_shown(address, search, search.labels, search.prompts)
        invented.add(address)
    return invented


def refuse_addresses_in_words(
    addresses: set[str], marks: Iterable[Mark], search: CitationSearch
) -> None:
    """Raise if an address that nobody was shown stands outside of marks.

    Args:
        addresses: The addresses that nobody was shown.
        marks: The marks of the answer, those of these addresses among them.
        search: What the rules look at.

    Raises:
        UnknownMeaning: If one does: "visit https://b.test" need not cite it.
    """
    spans = [_span_with_address(mark, search.text) for mark in marks]
    words = _words_that_may_cite(search, spans)
    if not addresses.isdisjoint(_addresses_in(words)):
        raise UnknownMeaning(_ADDRESS_IN_WORDS)


def is_written_like_known(mark: Mark, label: str, search: CitationSearch) -> bool:
    """Whether a mark is written like the marks of the answer whose labels are known.

    "[citation:zz9]" is, beside "[citation:e1b6]": it has the same word before its
    label, and its label has a digit and no other kinds of signs.

    Args:
        mark: The mark.
        label: Its label, which no context has.
        search: What the rules look at.
    """
    word = word_before_label(label, mark.written)
    if not word or not any(map(str.isdigit, label)):
        return False
    return kinds_of_signs(label) <= search.signs_behind_words.get(word, set())


def _addresses_of(mark: Mark, search: CitationSearch) -> list[str]:
    """List the known addresses that a mark has as labels, and the one that it links to."""
    addresses = [
        label
        for label in mark.labels
        if label in search.indexes_by_known_label and WEB_ADDRESS.fullmatch(label)
    ]
    linked = address_behind(search.text, mark.end)
    return addresses if linked is None else [*addresses, linked]


def _span_with_address(mark: Mark, text: str) -> Span:
    """Return where a mark stands, with the address that its bracket links to."""
    if address_behind(text, mark.end) is None:
        return (mark.start, mark.end)
    return (mark.start, text.index(")", mark.end) + 1)


def _words_that_may_cite(search: CitationSearch, read: Iterable[Span]) -> str:
    """Return the answer without lists of sources, code, images, and what is read."""
    text = without_code(search.sentences)
    images = [found.span() for found in _IMAGE.finditer(text)]
    return without_spans(text, [*images, *read])


def _addresses_in(text: str) -> Iterator[str]:
    """Yield the web addresses in a text, without the signs behind them."""
    for found in WEB_ADDRESS.finditer(text):
        yield found[0].split('"')[0].rstrip(_BEHIND_AN_ADDRESS)
