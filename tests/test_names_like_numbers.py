"""Names that hold a number, such as ``doc1.pdf``: they are no numbers of the prompt."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture
from test_planted_losses import QUESTION, TEXTS

from ragmetrics_core import Sample
from ragmetrics_core.capture.prompt_labels import labels_in
from ragmetrics_core.data.numberings import numbering_of

FILES = ("doc{n}.pdf", "source{n}.txt", "Document{n}.docx", "doc_{n}.pdf")
FILES_WITH_SPACES = ("doc {n}.pdf", "Document {n}.docx")
LABELS = ("[{n}] {file}\n", "[{n}] ({file}) ", "[{n}]\nfile: {file}\n", "{n}. {file}\n")


def asked(label: str, file: str, answer: str) -> Sample:
    """A sample whose prompt numbers the texts, and whose files are numbered backwards."""
    documents = [Document(text) for text in TEXTS]
    shown = "\n\n".join(
        label.format(n=number, file=file.format(n=4 - number)) + text
        for number, text in enumerate(TEXTS, start=1)
    )
    made = (
        {
            "context": RunnableLambda(lambda _: documents) | (lambda _: shown),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("Sources:\n{context}\n\nAsked: {question}")
        | FakeListChatModel(responses=[answer])
    )
    with capture() as captured:
        made.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("file", [*FILES, *FILES_WITH_SPACES])
@pytest.mark.parametrize("label", LABELS)
def test_a_mark_that_may_be_a_file_or_a_number_is_unknown(
    label: str, file: str
) -> None:
    stem = file.format(n=1).partition(".")[0]
    for mark in (f"[{stem}]", f"[{stem.replace('_', ' ')}]"):
        sample = asked(label, file, f"It was opened in 1874 {mark}.")
        assert sample.citations is None, mark
        assert sample.citations_unknown


@pytest.mark.parametrize("file", FILES[:3])
def test_a_number_or_a_whole_file_keeps_its_meaning(file: str) -> None:
    middle = file.format(n=2).partition(".")[0]
    meanings = {"[1]": 0, f"[{file.format(n=1)}]": 2, f"[{middle}]": 1}
    for mark, place in meanings.items():
        sample = asked(LABELS[0], file, f"It was opened in 1874 {mark}.")
        assert sample.citations is not None, sample.citations_unknown
        assert [one.contexts for one in sample.citations] == [(place,)]


@pytest.mark.parametrize("file", [*FILES, *FILES_WITH_SPACES])
@pytest.mark.parametrize("label", ["{file}\n", "{file}: ", "# {file}\n", "({file}) "])
def test_files_number_nothing(label: str, file: str) -> None:
    sample = asked(label, file, "It was opened in 1874 [1].")
    assert sample.citations is None
    assert "does not tell" in sample.citations_unknown


def test_a_text_that_begins_with_a_file_has_no_number() -> None:
    texts = [
        f"source{number}.txt is the file. {text}" for number, text in enumerate(TEXTS)
    ]
    assert numbering_of(texts) is None
    assert labels_in(texts, texts).context_indexes_by_label == {}
