"""Agents whose tools list web addresses in one text, and fetch one of the pages."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_ragmetrics import capture
from test_langchain_text_tools import Scripted

from ragmetrics_core import Sample

MANUAL = "https://aurora.example/manual"
TERMS = "https://aurora.example/terms"
HEAD = f"1. Manual - {MANUAL}\nHow to care."
LIST = f"{HEAD}\n2. Terms - {TERMS}\nWhat we pay."
PAGES = {
    MANUAL: "Descale the Aurora X2 every 200 cycles.",
    TERMS: f"Source: {TERMS}\nThe warranty excludes lime. See also {MANUAL}.",
}
ANSWER = f"Every 200 cycles ([manual]({MANUAL}))."
UNDIVIDED = "a tool returned one text, which nobody divided into passages"


def sample_of(results: str, pages_read: Sequence[str], answer: str) -> Sample:
    """The sample of an agent that searched, read some pages, and answered."""

    @tool
    def search(query: str) -> str:
        """Lists addresses."""
        return results

    @tool
    def read_page(url: str, length: int = 500) -> str:
        """Reads a page."""
        return PAGES[url]

    calls = [("search", {"query": "care"})] if results else []
    calls += [("read_page", {"url": url, "length": 500}) for url in pages_read]
    lines = [
        AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": str(n)}])
        for n, (name, arguments) in enumerate(calls)
    ]
    model: GenericFakeChatModel = Scripted(messages=iter([*lines, AIMessage(answer)]))
    with capture(context_tools={"search", "read_page"}) as captured:
        create_agent(model, [search, read_page]).invoke(
            {"messages": [("user", "How?")]}
        )
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize(
    ("results", "pages_read", "answer"),
    [
        (LIST, [], ANSWER),
        (LIST, [MANUAL], ANSWER),
        (LIST, [MANUAL, TERMS], f"{ANSWER} Lime is excluded ([terms]({TERMS}))."),
        (LIST, [MANUAL], f"Every 200 cycles [1].\n\nReferences:\n[1] {MANUAL}"),
        (LIST, [MANUAL], f"Every 200 cycles.\n\nSources: {MANUAL}"),
        ("", [TERMS], ANSWER),  # a link of the page that was read
    ],
)
def test_an_address_in_a_text_with_others_names_a_part_that_nobody_divided(
    results: str, pages_read: list[str], answer: str
) -> None:
    sample = sample_of(results, pages_read, answer)
    assert sample.citations is None
    assert sample.citations_unknown == UNDIVIDED


def test_an_address_of_one_text_with_which_another_was_read_means_either() -> None:
    sample = sample_of(HEAD, [MANUAL], ANSWER)
    assert sample.citations is None
    assert "a tool was called with" in sample.citations_unknown


@pytest.mark.parametrize(
    ("results", "pages_read", "address"), [(HEAD, [], MANUAL), ("", [TERMS], TERMS)]
)
def test_an_address_above_the_one_text_of_its_page_names_this_text(
    results: str, pages_read: list[str], address: str
) -> None:
    sample = sample_of(results, pages_read, f"It is so ([page]({address})).")
    assert sample.citations is not None
    assert [citation.contexts for citation in sample.citations] == [(0,)]


def test_numbers_say_what_they_mean_beside_a_list_without_addresses_in_the_answer() -> (
    None
):
    sample = sample_of("[1] It is old.", [], "It is old [1].")
    assert sample.citations is not None
    assert [citation.contexts for citation in sample.citations] == [(0,)]


@pytest.mark.parametrize(
    ("results", "answer"),
    [
        ('[{"id": "kb-101", "text": "It is old."}]', "It is old [kb-101]."),
        (f"How to care, see {MANUAL} there.", ANSWER),
    ],
)
def test_a_name_inside_of_a_tools_text_is_unknown_since_nobody_divided_it(
    results: str, answer: str
) -> None:
    sample = sample_of(results, [], answer)
    assert sample.citations is None
    assert sample.citations_unknown == UNDIVIDED
