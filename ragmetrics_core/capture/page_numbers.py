"""The pages of documents that contexts are of, as prompts and metadata tell them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragmetrics_core.capture.prompt_labels import Labels
from ragmetrics_core.data import Context
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.mark_patterns import PAGE_WORD

PAGE = lazy_pattern(rf"\b{PAGE_WORD}\s*[:=]?\s*([0-9]{{1,5}})\b", re.IGNORECASE)
"""The page that a mark or a label names beside the source: "p. 3", "#page=3"."""


def page_numbers_by_context(
    contexts: Sequence[Context], labels: Labels
) -> dict[int, frozenset[str]]:
    """Return the pages that each context may be of, by its index; none if nobody tells.

    A context that the prompt labels with "a.pdf, page 3" is of page 3. Without such a
    label, a context may be of the page of a line "Page: 3". With ``{"page": 2}`` it may
    be of page 2, or of page 3 where a loader counts pages from 0.

    Args:
        contexts: The contexts.
        labels: What the prompt tells of their labels.
    """
    pages_by_context: dict[int, set[str]] = {}
    for label, context_indexes in labels.context_indexes_by_label.items():
        page = PAGE.search(label)
        if page is not None:
            for index in context_indexes:
                pages_by_context.setdefault(index, set()).add(page[1])
    for index, context in enumerate(contexts):
        if index not in pages_by_context:
            pages = set(pages_in_metadata(context).values())
            next_pages = {str(int(page) + 1) for page in pages}
            in_lines = labels.pages_by_context.get(index, frozenset())
            pages_by_context[index] = pages | next_pages | in_lines
    return {index: frozenset(pages) for index, pages in pages_by_context.items()}


def pages_in_metadata(context: Context) -> dict[str, str]:
    """The page of a context by the fields of its metadata that name it, as written.

    {"page": 2, "page_label": "3", "total_pages": 12} gives page and page_label: how
    many pages a file has is no page.
    """
    pages: dict[str, str] = {}
    for key, value in context.metadata.items():
        field = str(key).lower()
        is_count = "pages" in field or "count" in field or "total" in field
        if "page" in field and not is_count and str(value).isdecimal():
            pages[str(key)] = str(value)
    return pages
