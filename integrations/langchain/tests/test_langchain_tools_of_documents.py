"""Tools whose text is made of documents: a list of them, or blocks of search results."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_ragmetrics import capture
from langchain_ragmetrics.values import documents_in_content

from ragmetrics_core import Sample

QUESTION = "When was the lighthouse opened?"
TEXTS = (
    'The lighthouse is made of riveted iron plates, "Brenner\'s best".\nIt is red.',
    "The lighthouse was opened on 4 May 1874 by the mayor Elias Holm.",
)


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self


def search_results(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "type": "search_result",
            "source": f"f{n}.txt",
            "title": f"Page {n}",
            "content": [{"type": "text", "text": text}],
        }
        for n, text in enumerate(texts)
    ]


def documents(texts: Sequence[str], **metadata: Any) -> list[Document]:
    return [
        Document(text, id=f"d{n}", metadata={"source": f"f{n}.txt", **metadata})
        for n, text in enumerate(texts)
    ]


def asked(returned: object) -> Sample:
    """The sample of an agent whose tool returns something."""

    def search(query: str) -> Any:
        return returned

    tool = StructuredTool.from_function(search, description="Searches.")
    call = {"name": "search", "args": {"query": "opening"}, "id": "1"}
    lines = iter([AIMessage("", tool_calls=[call]), AIMessage("On 4 May 1874.")])
    with capture() as captured:
        create_agent(Scripted(messages=lines), [tool]).invoke(
            {"messages": [("user", QUESTION)]}
        )
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("made", [documents, search_results])
def test_documents_of_which_a_tools_text_is_made_are_contexts(made: Any) -> None:
    sample = asked(made(TEXTS))
    assert sample.capture is not None
    assert sample.capture.grade == "exact", sample.capture.warnings
    assert [context.text for context in sample.known_contexts] == list(TEXTS)
    sources = [context.metadata["source"] for context in sample.known_contexts]
    assert sources == ["f0.txt", "f1.txt"]
    assert sample.ledger is not None
    assert [(call.kind, call.name) for call in sample.ledger.calls] == [
        ("retrieval", "search")
    ]


@pytest.mark.parametrize(
    "returned",
    [
        documents(TEXTS, day=dt.date(1874, 5, 4)),
        f"[Document(page_content='{TEXTS[1]}')",
        f"[Document(page_content='{TEXTS[1]}'), 4]",
        f"[Document(page_content=text), '{TEXTS[1]}']",
        f"[Letter(page_content='{TEXTS[1]}')]",
        TEXTS[1],
    ],
    ids=["a date in metadata", "cut", "a number", "a name", "no document", "text"],
)
def test_a_text_of_which_any_part_is_no_document_stays_the_tools(
    returned: object,
) -> None:
    sample = asked(returned)
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert sample.ledger is not None
    assert [call.kind for call in sample.ledger.calls] == ["tool"]


values = st.none() | st.booleans() | st.integers() | st.text(max_size=9)


@given(
    st.lists(
        st.builds(
            Document,
            st.text(max_size=30),
            id=st.none() | st.text(max_size=5),
            metadata=st.dictionaries(st.text(max_size=5), values, max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_documents_that_python_writes_out_are_read_back(found: list[Document]) -> None:
    message = ToolMessage(str(found), tool_call_id="1")
    read = list(documents_in_content(message))
    assert [document.text for document in read] == [each.page_content for each in found]
    assert [document.id for document in read] == [each.id for each in found]
    assert [document.metadata for document in read] == [each.metadata for each in found]


@given(st.text(max_size=40))
def test_any_text_can_be_read(text: str) -> None:
    message = ToolMessage(f"[Document({text}", tool_call_id="1")
    assert all(isinstance(each.text, str) for each in documents_in_content(message))
