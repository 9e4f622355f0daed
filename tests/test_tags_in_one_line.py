"""Passages in XML whose tags share lines, such as ``<sources><source id="0">``."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_ragmetrics import capture
from test_planted_losses import QUESTION, Found

from ragmetrics_core import Sample

ENCLOSING = ("sources", "documents", "context", "")
PASSAGES = (
    '<source id="{}">{}</source>',
    '<document index="{}">{}</document>',
    '<doc id="{}"><title>A title</title><text>{}</text></doc>',
    "<doc>\n<id>{}</id>\n<text>{}</text>\n</doc>",
    # langchain-ai/langchain, docs/docs/how_to/qa_citations.ipynb, format_docs_xml
    '    <source id="{}">\n        <title>A title</title>\n'
    "        <article_snippet>{}</article_snippet>\n    </source>",
)


def answered(
    answer: str, passage: str, *, enclosing: str, gap: str, edge: str, first: int
) -> Sample:
    """A chain that writes its passages in tags.

    Args:
        answer: What the model says.
        passage: How a number and a text are written.
        enclosing: The tag around all passages; "" for none.
        gap: What stands between two passages.
        edge: What stands between the enclosing tag and the passages.
        first: The number of the first passage.
    """

    def written(documents: list[Document]) -> str:
        passages = gap.join(
            passage.format(number, document.page_content)
            for number, document in enumerate(documents, first)
        )
        if not enclosing:
            return passages
        return f"<{enclosing}>{edge}{passages}{edge}</{enclosing}>"

    prompt = ChatPromptTemplate.from_template(
        "Cite your sources.\n{context}\nQuestion: {question}"
    )
    chain = (
        {"context": Found() | written, "question": RunnablePassthrough()}
        | prompt
        | FakeListChatModel(responses=[answer])
    )
    with capture() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


@settings(max_examples=examples(30), deadline=None)
@given(
    passage=st.sampled_from(PASSAGES),
    enclosing=st.sampled_from(ENCLOSING),
    gap=st.sampled_from(("", " ", "\n", "\n\n")),
    edge=st.sampled_from(("", "\n")),
    first=st.sampled_from((0, 1)),
)
def test_ids_are_read_wherever_lines_break_between_tags(
    passage: str, enclosing: str, gap: str, edge: str, first: int
) -> None:
    answer = f"The Velm rises in the hills [{first}]. The bridge opened [{first + 2}]."
    sample = answered(
        answer, passage, enclosing=enclosing, gap=gap, edge=edge, first=first
    )
    assert [one.contexts for one in sample.citations or ()] == [(0,), (2,)]


@pytest.mark.parametrize("edge", ["", "\n"])
def test_an_id_beside_a_quote_of_another_source_is_unknown(edge: str) -> None:
    answer = (
        "<cited_answer><answer>It rises in the hills.</answer><citations><citation>"
        "<source_id>1</source_id><quote>it rises in the hills and ends in a wide lake"
        "</quote>"
        "</citation></citations></cited_answer>"
    )
    sample = answered(
        answer, PASSAGES[-1], enclosing="sources", gap="\n", edge=edge, first=0
    )
    assert sample.citations is None
    assert "quotes a passage under the number" in sample.citations_unknown
