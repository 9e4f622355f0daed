"""Web addresses and ids of which nobody knows what text an answer means by them. Pure.

A tool lists addresses in one text, and another tool fetches one of these pages. Then an
address in the answer may mean its line in the list, or the page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from ragmetrics_core.capture.citing_answer import CitingAnswer
from ragmetrics_core.capture.invented_sources import addresses_in
from ragmetrics_core.capture.plain_values import parse_json, texts_in
from ragmetrics_core.capture.source_names import page_of
from ragmetrics_core.capture.unknown_meanings import UNDIVIDED, UnknownMeaning
from ragmetrics_core.data import Citation
from ragmetrics_core.data.answer_parts import without_code
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_IN_BRACKETS = lazy_pattern(r"\[([^\[\]\n]{2,80})\]")
_READ_AND_SHOWN = (
    "the answer names an address that a tool was called with and that other texts show,"
    " too: which of them it cites is not known"
)


def refuse_unclear_addresses(answer: CitingAnswer) -> tuple[Citation, ...] | None:
    r"""Raise if an answer names a web address that may mean one text or another.

    Example: the tool "search" returns "1. Manual - https://a.test/manual\n2. Terms -
    https://a.test/terms", and "read_page" is called with https://a.test/manual. The
    answer "It fell ([manual](https://a.test/manual))" may cite the list or the page.

    Returns:
        None: it is left to other rules what the answer cites.

    Raises:
        UnknownMeaning: If a tool's text lists an address of the answer among others. Or
            if a tool was called with an address of the answer, and a text that this
            tool did not return is known by the same address.
    """
    pages_in_answer = set(_pages_in_answer(answer))
    if not pages_in_answer:
        return None
    texts_by_page_read = _texts_by_page_read(answer)
    for text in _undivided_texts(answer):
        listed_pages = _pages_listed_in(text, texts_by_page_read)
        if listed_pages & pages_in_answer:
            raise UnknownMeaning(UNDIVIDED)
    for page in pages_in_answer & texts_by_page_read.keys():
        if _texts_known_as(page, answer) - texts_by_page_read[page]:
            raise UnknownMeaning(_READ_AND_SHOWN)
    return None


def _pages_listed_in(
    text: str, texts_by_page_read: Mapping[str, Collection[str]]
) -> set[str]:
    r"""Return the web pages that a tool's text lists, each with a part of it; often none.

    Example: "1. Manual - https://a.test/manual\n2. Terms - https://a.test/terms" lists
    both pages. A text with the address of only one page is about this page, and lists
    none. Nor is the page listed from which a tool read the whole text.

    Args:
        text: The text that the tool returned.
        texts_by_page_read: What tools returned when they were called with the address
            of a page.
    """
    pages_in_text = set(map(page_of, addresses_in(text)))
    if len(pages_in_text) < 2:
        return set()
    return {
        page for page in pages_in_text if text not in texts_by_page_read.get(page, ())
    }


def names_a_part_of_undivided_text(answer: CitingAnswer) -> bool:
    """Whether an answer names in brackets, or links, what stands in a tool's undivided text.

    Example: ``[{"id": "kb-101", "text": "It fell."}]`` is one text of a tool, and the
    answer is "It fell [kb-101]."
    """
    text = without_code(answer.model_text)
    names = [*_IN_BRACKETS.findall(text), *addresses_in(text)]
    return any(
        name in undivided_text
        for undivided_text in _undivided_texts(answer)
        for name in dict.fromkeys(names)
    )


def _pages_in_answer(answer: CitingAnswer) -> Iterator[str]:
    """Yield the pages whose addresses stand in an answer, or are its structured sources."""
    ids = [str(source.id) for source in answer.sources or ()]
    for text in (without_code(answer.model_text), *ids):
        yield from map(page_of, addresses_in(text))


def _undivided_texts(answer: CitingAnswer) -> list[str]:
    """List the contexts that are the whole texts of tools that ``context_tools`` names."""
    if answer.answer_evidence.contexts.evidence_from == "undivided":
        return answer.context_texts
    texts_of_tools = {node.text for node in answer.calls.context_tool_calls}
    return [text for text in answer.context_texts if text in texts_of_tools]


def _texts_by_page_read(answer: CitingAnswer) -> dict[str, set[str]]:
    """Return what tools returned, by each of their arguments, which may be addresses.

    An address counts if it is a whole argument: "https://a.test" of ``{"url":
    "https://a.test", "length": 500}``; not that in the query "Is https://a.test up?".
    The keys hold other arguments, too: they equal the page of no address.
    """
    texts_by_page: dict[str, set[str]] = {}
    for node in answer.calls.context_tool_calls:
        query = node.query or ""
        arguments = chain([query], texts_in(parse_json(query)))
        for argument in map(str.strip, arguments):
            texts_by_page.setdefault(page_of(argument), set()).add(node.text or "")
    return texts_by_page


def _texts_known_as(page: str, answer: CitingAnswer) -> set[str]:
    """Return the contexts that metadata or labels call by the address of a page."""
    return {
        answer.context_texts[index]
        for index, pages in answer.known_labels.web_pages_by_context.items()
        if page in pages
    }
