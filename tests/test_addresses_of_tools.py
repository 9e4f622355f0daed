"""Web addresses and ids in tools' texts: an answer names a part of a text, or a whole text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragmetrics_core import Sample
from ragmetrics_core.capture import (
    Document,
    Message,
    Node,
    Overrides,
    Tree,
    samples_of,
)

QUESTION = "How often is the Aurora X2 descaled?"
MANUAL = "https://aurora.example/manual"
TERMS = "https://aurora.example/terms"
HEAD = f"1. Manual - {MANUAL}\nHow to care."
LIST = f"{HEAD}\n2. Terms - {TERMS}\nWhat we pay."
PAGE = "Descale the Aurora X2 every 200 cycles."
PAGE_WITH_LINK = f"Source: {TERMS}\nThe warranty excludes lime. See also {MANUAL}."
ANSWER = f"Every 200 cycles ([manual]({MANUAL}))."
ABOUT_LIME = f"Lime is excluded ([terms]({TERMS}))."
UNDIVIDED = "a tool returned one text, which nobody divided into passages"
READ_AND_SHOWN = "an address that a tool was called with and that other texts show"
UNREAD = "the answer may cite in a form that is not read"

LISTED = Node("tool", "search", 1.0, 1.5, query="care", text=LIST)
LISTED_ALONE = Node("tool", "search", 1.0, 1.5, query="care", text=HEAD)


def read(query: str | None, text: str, *, at: float = 2.0) -> Node:
    """A call of the tool that reads a page."""
    return Node("tool", "read_page", at, at + 0.5, query=query, text=text)


def found(*documents: Document) -> Node:
    """A search that found some documents."""
    return Node("retriever", "finder", 1.0, 1.5, query=QUESTION, documents=documents)


def sample_of(
    calls: Sequence[Node], answer: str, shown: Sequence[str] | None = None
) -> Sample:
    """The sample of a run whose model was shown the texts of the calls, in their order.

    Args:
        calls: The calls of tools and retrievers.
        answer: The reply of the model.
        shown: The texts that the model was shown in place of those of the calls.
    """
    texts: list[str] = []
    for call in calls:
        texts += [document.text for document in call.documents or ()] or [
            call.text or ""
        ]
    messages = [Message("tool", text) for text in shown or texts]
    model = Node(
        "model",
        "llm",
        9.0,
        9.5,
        prompt=(Message("user", QUESTION), *messages),
        reply=Message("assistant", answer),
    )
    root = Node("step", "chain", 0.0, 99.0, children=[*calls, model])
    tree = Tree(root, question=QUESTION, question_place="input")
    tools = Overrides(context_tools={"search", "read_page"})
    (sample,) = samples_of(tree, tools)
    return sample


def cited(sample: Sample) -> list[tuple[int, ...]]:
    """The contexts of each citation."""
    assert sample.citations is not None, sample.citations_unknown
    return [citation.contexts for citation in sample.citations]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        pytest.param(TERMS, PAGE_WITH_LINK, id="the address"),
        pytest.param(f" {TERMS}\n", PAGE_WITH_LINK, id="with blanks"),
        pytest.param(f"{TERMS}/#lime", PAGE_WITH_LINK, id="a place in the page"),
        pytest.param(f"{TERMS}#what we pay", PAGE_WITH_LINK, id="a place of words"),
        pytest.param(
            f'{{"url": "{TERMS}", "mode": "text"}}', PAGE_WITH_LINK, id="an argument"
        ),
    ],
)
def test_an_address_that_a_tool_was_called_with_names_the_whole_text(
    query: str, text: str
) -> None:
    assert cited(sample_of([read(query, text)], ABOUT_LIME)) == [(0,)]


@pytest.mark.parametrize("query", [None, "terms", f"Is {TERMS} up?"])
def test_an_address_beside_others_names_a_part_where_no_tool_was_called_with_it(
    query: str | None,
) -> None:
    sample = sample_of([read(query, PAGE_WITH_LINK)], ABOUT_LIME)
    assert sample.citations is None
    assert sample.citations_unknown == UNDIVIDED


def test_an_address_that_was_read_twice_names_both_texts() -> None:
    second_half = f"Source: {TERMS}\nScale is excluded, too. Back to {MANUAL}."
    calls = [read(TERMS, PAGE_WITH_LINK), read(TERMS, second_half, at=3.0)]
    assert cited(sample_of(calls, ABOUT_LIME)) == [(0, 1)]


def test_an_address_that_the_answer_does_not_name_leaves_its_citations_known() -> None:
    calls = [LISTED_ALONE, read(MANUAL, PAGE), read(TERMS, PAGE_WITH_LINK, at=3.0)]
    assert cited(sample_of(calls, ABOUT_LIME)) == [(2,)]


def test_a_page_that_another_tool_read_is_no_text_of_a_named_one() -> None:
    other = Node("tool", "ping", 2.0, 2.5, query=MANUAL, text="The page is up: 200 OK.")
    assert cited(sample_of([LISTED_ALONE, other], ANSWER)) == [(0,)]


@pytest.mark.parametrize(
    ("calls", "answer", "reason"),
    [
        pytest.param(
            [LISTED],
            f'{{"answer": "Every 200 cycles.", "sources": ["{MANUAL}"]}}',
            UNDIVIDED,
            id="a structured source",
        ),
        pytest.param(
            [LISTED],
            f"Every 200 cycles ([sheet]({MANUAL}/#lime)).",
            UNDIVIDED,
            id="a place in a page of a list",
        ),
        pytest.param(
            [LISTED_ALONE, read(MANUAL, PAGE)],
            f"Every 200 cycles ([sheet]({MANUAL}/#lime)).",
            READ_AND_SHOWN,
            id="a place in a page that was read",
        ),
        pytest.param(
            [found(Document("Lime is excluded.", "e")), LISTED],
            ANSWER,
            UNDIVIDED,
            id="a list beside a document",
        ),
    ],
)
def test_an_address_that_may_mean_several_texts_makes_the_citations_unknown(
    calls: Sequence[Node], answer: str, reason: str
) -> None:
    sample = sample_of(calls, answer)
    assert sample.citations is None
    assert reason in sample.citations_unknown


def test_a_list_of_addresses_that_the_prompt_shows_in_part_stays_undivided() -> None:
    sample = sample_of([LISTED], ANSWER, shown=[LIST[:-8]])
    assert sample.citations is None
    assert sample.citations_unknown == UNDIVIDED


LINKED = Document(
    f"Every 200 cycles, see {MANUAL} or {TERMS}.", "d", metadata={"source": MANUAL}
)


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([found(LINKED)], id="a search"),
        pytest.param(
            [found(LINKED), read("faq", "Nothing about this.")],
            id="a search, and a tool without addresses",
        ),
        pytest.param(
            [
                Node(
                    "tool",
                    "look_up",
                    1.0,
                    1.5,
                    query="care",
                    text=LINKED.text,
                    documents=(LINKED,),
                )
            ],
            id="a tool that returns documents",
        ),
        pytest.param(
            [
                Node("tool", "look_up", 1.0, 1.5, [found(LINKED)], text=LINKED.text),
                read("faq", "Nothing about this."),
            ],
            id="a tool that searches, and one without addresses",
        ),
    ],
)
def test_the_address_of_a_document_with_links_in_its_text_names_the_document(
    calls: Sequence[Node],
) -> None:
    sample = sample_of(calls, ANSWER)
    (indexes,) = cited(sample)
    assert [sample.contexts[index].text for index in indexes] == [LINKED.text]


@pytest.mark.parametrize(
    "answer",
    [f"Run `curl {MANUAL}` every day.", f"Every day:\n```\ncurl {MANUAL}\n```\n"],
)
def test_an_address_in_code_names_no_part_of_a_text(answer: str) -> None:
    sample = sample_of([LISTED], answer)
    assert UNDIVIDED not in sample.citations_unknown


TITLE = "The manual of the Aurora X2 with every part named and drawn"
LONGER_THAN_TITLES = f"{TITLE}, how to clean it, and what to do when it fails"


@pytest.mark.parametrize(
    ("text", "answer", "reason"),
    [
        pytest.param("[kb-101] It is old.", "It is old [kb-101].", "", id="an id"),
        pytest.param(f"See {MANUAL}.", f"See {MANUAL}.", UNDIVIDED, id="an address"),
        pytest.param(f"{TITLE}: old.", f"Old [{TITLE}].", UNDIVIDED, id="a title"),
        pytest.param("ab x: old.", "Old [ab].", UNDIVIDED, id="two letters"),
        pytest.param(
            f"{LONGER_THAN_TITLES}: old.",
            f"Old [{LONGER_THAN_TITLES}].",
            UNREAD,
            id="a sentence",
        ),
        pytest.param("kb\n101: old.", "Old [kb\n101].", UNREAD, id="two lines"),
        pytest.param("id: kb-1", "Old (source) `[kb-1]`.", UNREAD, id="code"),
        pytest.param("id: kb-1", "Old [zz-9].", UNREAD, id="of no text"),
    ],
)
def test_a_name_in_brackets_that_stands_in_a_tools_text_names_a_part_of_it(
    text: str, answer: str, reason: str
) -> None:
    search = Node("tool", "search", 1.0, 1.5, query="care", text=text)
    sample = sample_of([search], answer)
    assert (sample.citations is None) is bool(reason)
    assert sample.citations_unknown == reason
