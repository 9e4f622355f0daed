"""Which contexts an answer cites where a provider names its own sources beside those of the application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture

from ragmetrics_core.data import Sample

QUESTION = "Who lit the lamp?"
ROOMS = Document("It has eleven rooms.", metadata={"source": "rooms.txt"})
HORN = Document("Fog horn: 1911.", metadata={"source": "fog.txt"})
PAGE = "https://lamp.org/first"
LINK = f"[lamp.org]({PAGE})"  # how OpenAI's web_search writes a source

Shown = Callable[[Sequence[Document]], str]


def with_files(found: Sequence[Document]) -> str:
    return "\n".join(f"Source: {d.metadata['source']}\n{d.page_content}" for d in found)


def with_numbers(found: Sequence[Document]) -> str:
    return "\n".join(f"[{n}] {d.page_content}" for n, d in enumerate(found, 1))


def bare(found: Sequence[Document]) -> str:
    return "\n\n".join(d.page_content for d in found)


def sample_of(
    reply: AIMessage,
    documents: Sequence[Document] = (ROOMS, HORN),
    shown: Shown = with_files,
    ask: Callable[[Any], Any] | None = None,
) -> Sample:
    """What is captured of a chain that finds documents, shows them and answers."""
    model = GenericFakeChatModel(messages=iter([reply]))
    found: Runnable[Any, Any] = RunnableLambda(lambda question: list(documents))
    prompt: Runnable[Any, Any] = ChatPromptTemplate.from_template("{c}\n{q}")
    if ask is None:
        found = found | shown
    else:
        prompt = RunnableLambda(ask)
    with capture() as captured:
        ({"c": found, "q": RunnablePassthrough()} | prompt | model).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def cited(sample: Sample) -> list[tuple[tuple[int, ...], tuple[str, ...]]] | None:
    """The contexts that each citation names, and what dangles; None if unknown."""
    if sample.citations is None:
        return None
    return [(citation.contexts, citation.dangling) for citation in sample.citations]


def searched(text: str) -> AIMessage:
    """A reply of OpenAI that searched the web, and that annotates its link."""
    start = text.index(LINK) - 1
    note = {"type": "url_citation", "url": PAGE, "title": "First lamp"}
    place = {"start_index": start, "end_index": start + len(LINK) + 2}
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "lamp"},
    }
    block = {"type": "text", "text": text, "annotations": [{**note, **place}]}
    return AIMessage([search, block])


@pytest.mark.parametrize("shown", [with_files, with_numbers, bare])
@pytest.mark.parametrize("before", ["", "It has eleven rooms [1]. "])
def test_a_page_of_the_provider_s_search_leaves_the_citations_open(
    shown: Shown, before: str
) -> None:
    sample = sample_of(searched(f"{before}Anna Berg ({LINK})."), shown=shown)
    assert sample.citations is None
    assert "provider names a source" in sample.citations_unknown


@pytest.mark.parametrize(
    "beside", [{"citations": [PAGE]}, {"search_results": [{"url": PAGE}]}]
)
def test_a_number_of_the_provider_s_own_list_is_no_number_of_the_prompt(
    beside: dict[str, Any],
) -> None:
    """Perplexity numbers the pages that it found: "[1]" means the first of them."""
    reply = AIMessage("Anna Berg did [1].", additional_kwargs=beside)
    sample = sample_of(reply, shown=with_numbers)
    assert sample.citations is None
    assert "provider" in sample.citations_unknown
    reply = AIMessage("The horn came in 1911 [2].", additional_kwargs=beside)
    assert cited(sample_of(reply, shown=with_numbers)) == [((1,), ())]


HOME = Document("Welcome.", metadata={"source": "https://lamp.org"})
SUBPAGE = Document("Eleven rooms.", metadata={"source": "https://lamp.org/rooms"})


def with_addresses(found: Sequence[Document]) -> str:
    return "\n\n".join(f"URL: {d.metadata['source']}\n{d.page_content}" for d in found)


@pytest.mark.parametrize("shown", [with_addresses, bare])
@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://lamp.org", [((0,), ())]),
        ("https://lamp.org/rooms", [((1,), ())]),
        ("https://lamp.org/history", None),  # a page that nobody was shown
    ],
)
def test_the_address_of_a_link_decides_and_not_its_words(
    shown: Shown, address: str, expected: Any
) -> None:
    reply = AIMessage(f"Anna Berg lit it ([lamp.org]({address})).")
    assert cited(sample_of(reply, [HOME, SUBPAGE], shown)) == expected
