"""Prompts with another list beside the contexts: of uploads, of names, of rules."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture
from test_planted_losses import QUESTION, TEXTS

from ragmetrics_core import Sample

SAID = "It was opened in 1874 "
UPLOADS = "Uploaded:\nDocument 1: c.pdf\nDocument 2: b.pdf\nDocument 3: a.pdf"
NAMES = "Cite with these numbers:\n[1] c.pdf\n[2] b.pdf\n[3] a.pdf"
SAME_NAMES = "Cite with these numbers:\n[1] a.pdf\n[2] b.pdf\n[3] c.pdf"
RULES = "[1] Be short.\n[2] Cite sources by number."
EXAMPLE = "Source 1:\nThe sky is red.\nSource 2:\nWater is wet.\nSay: it is wet [2]."


def asked(label: str, mark: str, before: str = "", behind: str = "") -> Sample:
    """A sample of a chain whose prompt has lists before and behind the contexts."""
    documents = [Document(text) for text in TEXTS]
    shown = "\n\n".join(
        label.format(n=number, file=f"{letter}.pdf", text=text)
        for number, (letter, text) in enumerate(zip("abc", TEXTS, strict=True), start=1)
    )
    template = f"{before}\n\n{{context}}\n\n{behind}\n\nAsked: {{question}}"
    made = (
        {
            "context": RunnableLambda(lambda _: documents) | (lambda _: shown),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template(template)
        | FakeListChatModel(responses=[f"{SAID}{mark}."])
    )
    with capture() as captured:
        made.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("mark", ["[Document 1]", "[Doc 3]", "(Document 1)"])
@pytest.mark.parametrize("label", ["[{n}] {text}", "[{n}]\n{text}", "{n}. {text}"])
def test_a_number_of_a_list_of_uploads_is_unknown(label: str, mark: str) -> None:
    sample = asked(label, mark, before=UPLOADS)
    assert sample.citations is None
    assert "none of the contexts" in sample.citations_unknown


@pytest.mark.parametrize("mark", ["[1]", "[Source 3]"])
@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_list_of_names_that_contradicts_the_labels_makes_numbers_unknown(
    place: str, mark: str
) -> None:
    sample = asked("{n}. ({file}) {text}", mark, **{place: NAMES})
    assert sample.citations is None
    assert "two ways" in sample.citations_unknown


ORDINARY = [
    ("[{n}] {text}", "[2]", UPLOADS),
    ("[{n}] {text}", "[Source 2]", UPLOADS),
    ("Document {n}:\n{text}", "[Document 2]", UPLOADS),
    ("{n}. ({file}) {text}", "[2]", SAME_NAMES),
    ("{n}. ({file}) {text}", "[2]", NAMES),  # b.pdf in both
    ("Source {n}: {text}", "[2]", RULES),
    ("Source {n}: {text}", "[Source 2]", EXAMPLE),
    ("<document id='{n}'>\n{text}\n</document>", "[Document 2]", UPLOADS),
]


@pytest.mark.parametrize(("label", "mark", "before"), ORDINARY)
def test_another_list_leaves_the_numbers_of_the_contexts_known(
    label: str, mark: str, before: str
) -> None:
    sample = asked(label, mark, before=before)
    assert sample.citations is not None, sample.citations_unknown
    assert [citation.contexts for citation in sample.citations] == [(1,)]
