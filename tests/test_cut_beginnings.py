"""A document of which a prompt shows a few first words: too few to be located, and not "not shown"."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture

from ragmetrics_core import Sample
from ragmetrics_core.capture.cut_beginnings import begins_with_any, short_lines
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.reporting.journey import Journey

TEXTS = (
    "The Harlow bridge spans the river Aln with two lanes of traffic and a footpath.",
    "The bridge was opened on 4 May 1874 by the mayor of Harlow in the rain.",
    "The towers are painted red each spring by a crew of twelve men.",
)
BEGINNING = "The bridge was opened on 4 May 1874"
PROMPT = ChatPromptTemplate.from_template("Context:\n{context}\nQuestion: {question}")


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
        return [Document(text) for text in TEXTS]


def asked(context: str, question: str) -> tuple[Sample, Journey]:
    """The sample and journey of a chain whose prompt shows this of what was found."""
    inputs = {
        "context": Shelf() | RunnableLambda(lambda _: context),
        "question": RunnablePassthrough(),
    }
    model = FakeListChatModel(responses=["It was opened on 4 May 1874."])
    with capture(reference=TEXTS[1]) as captured:
        (inputs | PROMPT | model).invoke(question)
    (sample,) = captured.samples
    return sample, captured.evaluate(["accuracy"], judge="lexical").journey()


def grade(sample: Sample) -> str | None:
    assert sample.capture is not None
    return sample.capture.grade


@pytest.mark.parametrize("label", ["- ", "[2] ", "2. ", "Document 2: ", ""])
@pytest.mark.parametrize("end", ["", "…", "..."])
def test_a_line_that_begins_a_document_leaves_open_whether_it_was_shown(
    label: str, end: str
) -> None:
    lines = [f"{label}{TEXTS[0]}", f"{label}{BEGINNING}{end}", f"{label}{TEXTS[2]}"]
    sample, journey = asked("\n".join(lines), "When was the bridge opened?")
    assert grade(sample) == "inferred"
    assert "the first few words of 1 more documents" in str(sample.capture)
    assert journey.mend is None
    assert journey.of("not_shown", "facts") is None


def test_a_document_of_which_no_line_tells_was_not_shown() -> None:
    sample, journey = asked(f"{TEXTS[0]}\n{TEXTS[2]}", "When was the bridge opened?")
    assert grade(sample) == "exact"
    assert journey.mend == "not_shown"


def test_a_line_that_begins_what_is_shown_says_nothing_of_another_document() -> None:
    """Two pages begin with one title, and the title stands above the page that is shown."""
    title = "The Harlow bridge and"
    texts = [f"{title} its towers are of iron.", f"{title} its builders were poor men."]
    lines = short_lines([f"{title}\n{texts[0]}"], {normalize_text(texts[0])})
    assert not begins_with_any(normalize_text(texts[1]), lines)


def test_the_question_is_no_beginning_of_a_document() -> None:
    question = "When was the bridge opened?"
    lines = short_lines([question], {normalize_text(question)})
    assert not begins_with_any(normalize_text(f"{question} On 4 May."), lines)


@given(st.text(alphabet="abcdefgh ", max_size=60), st.integers(0, 60))
def test_a_beginning_is_found_from_sixteen_to_thirty_one_letters(
    text: str, length: int
) -> None:
    normalized = normalize_text(text)
    lines = short_lines([f"- {normalized[:length].decode()}"], ())
    n_letters = min(length, len(normalized))
    is_short_beginning = 16 <= n_letters < 32 and n_letters < len(normalized)
    assert begins_with_any(normalized, lines) == is_short_beginning
