"""Texts that models of a run wrote, told from what was found and only quotes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core.capture.authors import name_authors
from ragmetrics_core.capture.tree import Document, Node

REPLY = "Porto lies on the Douro in the north"  # 29 letters of the alphabet
PAGE = "These words stand on that page"  # 26 letters
FOUND = "Evora keeps a Roman temple and a chapel of bones inside its medieval walls"


# Authors of documents, and what tools hand on


def engine(text: str = REPLY, ended: float | None = 3.0, kind: str = "agent") -> Node:
    return Node(kind, "engine", 2.0, ended, query="Which city?", text=text)  # type: ignore[arg-type]


def taken_by(
    *before: Node, documents: tuple[Document, ...], began: float = 4.0
) -> list[Node | None]:
    """Who wrote each document that a step took after some calls."""
    step = Node("step", "synthesizer", began, 9.0, input_documents=documents)
    name_authors(Node("step", "root", 1.0, 10.0, [*before, step]))
    return [document.author for document in step.input_documents]


@pytest.mark.parametrize("kind", ["agent", "step"])
def test_a_document_is_written_by_the_first_call_whose_answer_it_holds(
    kind: str,
) -> None:
    first, again = engine(kind=kind), engine(kind=kind)
    framed = Document(f"Sub question: Which city?\nResponse: {REPLY}", "new")
    assert taken_by(first, again, documents=(framed, Document(FOUND))) == [first, None]


@pytest.mark.parametrize(
    ("ended", "is_written"), [(3.9, True), (4.0, False), (5.0, False), (None, True)]
)
def test_only_an_answer_that_was_there_before_is_handed_on(
    ended: float | None, is_written: bool
) -> None:
    call = engine(ended=ended)
    assert taken_by(call, documents=(Document(REPLY),)) == [
        call if is_written else None
    ]


def test_neither_a_tools_nor_the_outermost_calls_text_is_an_answer() -> None:
    tool = engine(kind="tool")
    step = Node("step", "synthesizer", 4.0, 9.0, input_documents=(Document(REPLY),))
    root = Node("step", "root", 1.0, 3.0, [tool, step], text=REPLY)
    name_authors(root)
    assert step.input_documents[0].author is None


@pytest.mark.parametrize("kind", ["retriever", "reranker"])
def test_what_was_retrieved_is_written_by_nobody(kind: str) -> None:
    by_id, by_text = Document(FOUND, "same"), Document(REPLY, "x")
    search = Node(kind, "search", 1.5, 1.9, documents=(by_id, by_text))  # type: ignore[arg-type]
    later = (Document(REPLY, "same"), Document(REPLY))
    assert taken_by(search, engine(), documents=later) == [None, None]


def test_a_search_without_ids_leaves_the_author_of_another_document_without_one() -> (
    None
):
    search = Node("retriever", "search", 1.5, 1.9, documents=(Document(FOUND),))
    call = engine()
    assert taken_by(search, call, documents=(Document(REPLY),)) == [call]


@pytest.mark.parametrize(("frame", "is_written"), [(31, True), (32, False)])
def test_a_long_frame_around_a_quoted_document_is_a_page(
    frame: int, is_written: bool
) -> None:
    search = Node("retriever", "search", 1.5, 1.9, documents=(Document(FOUND, "f"),))
    call = engine(f"The page says: {FOUND}")
    held = Document(f"Which city?{'x' * frame}{call.text}")
    assert taken_by(search, call, documents=(held,)) == [call if is_written else None]


def test_a_tool_hands_on_the_answers_inside_of_it() -> None:
    inner, other = engine(), engine("It is another text.")
    tool = Node(
        "tool", "ask", 1.5, 5.0, [inner, other], text=f"Done.\n{REPLY}\nThat is all."
    )
    name_authors(Node("step", "root", 1.0, 10.0, [tool]))
    assert [(one.text, one.author) for one in tool.input_documents] == [
        (tool.text, inner)
    ]


# Engines inside a retriever

PAGES = [f"Page {number} tells of another river and its bridge." for number in range(4)]


@given(
    handed_on=st.lists(st.sampled_from(["engine", "framed", *PAGES]), max_size=6),
    depth=st.integers(0, 2),
)
def test_of_what_a_retriever_hands_on_its_engines_wrote_their_answers_alone(
    handed_on: list[str], depth: int
) -> None:
    answering = engine()
    inside = [answering]
    for _ in range(depth):
        inside = [Node("step", "around", 1.9, 3.5, inside)]
    texts = {"engine": REPLY, "framed": f"Query: Which city?\nResponse: {REPLY}"}
    documents = tuple(
        Document(texts.get(name, name), str(number))
        for number, name in enumerate(handed_on)
    )
    retriever = Node("retriever", "search", 1.5, 3.9, inside, documents=documents)
    name_authors(Node("step", "root", 1.0, 10.0, [retriever]))

    authors = [document.author for document in retriever.documents or ()]
    written = [name in texts for name in handed_on]
    assert authors == [answering if is_written else None for is_written in written]
    if not any(written):
        assert retriever.kind == "retriever"
        return
    search, beside = retriever.children
    found = [document.text for document in search.documents or ()]
    assert found == [name for name in handed_on if name not in texts]
    assert (retriever.kind, beside) == ("step", answering)
    assert search.kind == ("retriever" if found else "ignored")
    assert answering not in [*search.walk(), *search.children]


def test_a_document_that_was_found_beside_an_engine_of_the_same_words_is_nobodys() -> (
    None
):
    """The engine answers with a sentence of a store, and the retriever returns that sentence as well."""
    inner = Node("retriever", "store", 1.6, 1.8, documents=(Document(REPLY, "s"),))
    handed_on = (Document(REPLY, "s"), Document(f"Response: {REPLY}", "new"))
    retriever = Node(
        "retriever", "search", 1.5, 3.9, [inner, engine()], documents=handed_on
    )
    name_authors(Node("step", "root", 1.0, 10.0, [retriever]))
    authors = [document.author is not None for document in retriever.documents or ()]
    assert authors == [False, True]
