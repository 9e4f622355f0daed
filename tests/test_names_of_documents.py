"""What a name of a document cites in an answer: in brackets, beside the numbers of a prompt."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture
from test_planted_losses import QUESTION, TEXTS

from ragmetrics_core import Sample

TITLES = ("Source of the Velm", "The Bridge Book", "Paint")
NUMBERED = "[{number}] (source: {file}, page {number})\n{text}"
TITLED = "[{number}] Title: {title}\n{text}"
NUMBERS_ALONE = "[{number}] {text}"
FILES_ALONE = "Source: {file}\n{text}"


def asked(label: str, answer: str) -> Sample:
    """A sample of a chain whose prompt shows each text under a label."""
    documents = [
        Document(text, metadata={"source": f"docs/f{place}.pdf", "title": title})
        for place, (text, title) in enumerate(zip(TEXTS, TITLES, strict=True))
    ]
    shown = "\n\n".join(
        label.format(
            number=number,
            file=document.metadata["source"].rpartition("/")[2],
            title=document.metadata["title"],
            text=document.page_content,
        )
        for number, document in enumerate(documents, start=1)
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


WORDS_OF_THE_AUTHOR = (
    "(source: town records)",
    "(context: the opening)",
    "(document: unknown)",
    "(reference: see manual)",
    "(Source: ibid)",
    "[Source: general knowledge]",
    "[Source: f1]",
)


@pytest.mark.parametrize("words", WORDS_OF_THE_AUTHOR)
@pytest.mark.parametrize("mark", ["", "[2] "])
def test_words_about_a_source_are_no_source_that_was_not_shown(
    mark: str, words: str
) -> None:
    sample = asked(NUMBERED, f"It was opened in 1874 {mark}{words}.")
    assert sample.citations is None
    assert sample.citations_unknown


FILES = ("(f1.pdf)", "(see f1.pdf)", "(Source: f1.pdf)", "[source: f1.pdf]")
NAMED = [
    (label, file) for label in (NUMBERED, NUMBERS_ALONE, FILES_ALONE) for file in FILES
]
NAMED += [(NUMBERED, "(f1.pdf, page 2)"), (NUMBERS_ALONE, "[docs/f1.pdf]")]


@pytest.mark.parametrize(("label", "name"), NAMED)
def test_a_file_in_brackets_cites_the_context_of_this_file(
    label: str, name: str
) -> None:
    sample = asked(label, f"It was opened in 1874 {name}.")
    assert sample.citations is not None, sample.citations_unknown
    (citation,) = sample.citations
    assert citation.contexts == (1,)
    assert citation.dangling == ()
    assert citation.mark is not None
    start, end = citation.mark
    assert (sample.answer or "")[start:end] == name


@pytest.mark.parametrize(
    "name", ["(The Bridge Book)", "(Title: Paint)", '(see "Paint")', "(f9.pdf)"]
)
@pytest.mark.parametrize("mark", ["", " [1]"])
def test_a_title_in_round_brackets_is_not_taken_for_no_citation(
    mark: str, name: str
) -> None:
    label = NUMBERED if name == "(f9.pdf)" else TITLED
    sample = asked(label, f"It rises{mark}. It was opened in 1874 {name}.")
    assert sample.citations is None
    assert "may cite" in sample.citations_unknown


@pytest.mark.parametrize(
    "words",
    [
        "[2] (The Bridge Book)",
        "(The Bridge Book) [2]",
        "[2] (in May 1874)",
        "[2] (Paint)",
        "(The Book of the Bridge) [2]",
        "(iron) [2]",
    ],
)
def test_round_brackets_that_say_nothing_new_leave_the_marks_known(words: str) -> None:
    sample = asked(TITLED, f"It was opened in 1874 {words}.")
    assert [one.contexts for one in sample.citations or ()] == [(1,)]


def test_a_number_whose_link_goes_to_another_source_is_unknown() -> None:
    sample = asked(NUMBERED, "It was opened in 1874 [2](f0.pdf).")
    assert sample.citations is None
    sample = asked(NUMBERED, "It was opened in 1874 [2](f1.pdf).")
    assert [one.contexts for one in sample.citations or ()] == [(1,)]
