"""Answers without marks: what they name in words may cite, and what they speak of does not."""

from __future__ import annotations

import json

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture
from test_planted_losses import QUESTION, TEXTS

from ragmetrics_core import Sample

TITLES = ("Rivers and hills", "The Annals", "Opening day")
SAID = "It was opened on 4 May"
BY_FILE = "[{n}] f{n}.txt\n{text}"
BY_TITLE = "[{n}] {title}\n{text}"
BY_REPORT = "Source {n}: Report {n}\n{text}"


def asked(label: str, answer: str) -> Sample:
    """A sample of a chain whose prompt shows each text under a number and a name."""
    documents = [Document(text) for text in TEXTS]
    shown = "\n\n".join(
        label.format(n=number, title=title, text=text)
        for number, (text, title) in enumerate(zip(TEXTS, TITLES, strict=True), start=1)
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


NAMED_IN_WORDS = {
    BY_FILE: (
        "According to f2.txt, {}.",
        "see f2.txt: {}",
        "{} `f2.txt`",
        "{} — f2.txt",
        "{} (f2).",
        "{}.\n\nf2.txt",
        "{} #2",
        "{} ^2^",
        "{} /2/.",
        "{} |2|",
        "{} (Q2)",
    ),
    BY_TITLE: (
        "{} *Opening day*",
        'According to "Opening day", {}',
        "{} — Opening day",
        "As *Opening day* says, {}",
        "{}, see The Annals.",
        "{} (Opening day, the last page)",
    ),
    BY_REPORT: ("{} (Report 2).", "Report 2 says {}", "{} per Report 2"),
}
CASES = [(label, form) for label, forms in NAMED_IN_WORDS.items() for form in forms]


@pytest.mark.parametrize(("label", "form"), CASES)
def test_an_answer_that_names_a_source_is_not_known_to_cite_nothing(
    label: str, form: str
) -> None:
    sample = asked(label, form.format(SAID))
    assert sample.citations is None
    assert "nam" in sample.citations_unknown


@pytest.mark.parametrize("label", NAMED_IN_WORDS)
@pytest.mark.parametrize(
    "answer",
    [
        SAID,
        "It was ranked second, as item #9.",
        "On the opening day there was rain.",
        "The Velm bridge, of rivers and of hills, is x^9 wide (in May).",
        "| Year | n |\n|---|---|\n| 1874 |9|",
        "**The Velm** rises in the hills.",
    ],
)
def test_an_answer_that_speaks_of_its_subject_cites_nothing(
    label: str, answer: str
) -> None:
    sample = asked(label, answer)
    assert sample.citations == (), sample.citations_unknown


@pytest.mark.parametrize("answer", ["The Velm is high.", "Velm", "- The Velm\n- Osta"])
def test_a_title_that_the_texts_speak_of_is_the_subject(answer: str) -> None:
    sample = asked("[{n}] The Velm\n{text}", answer)
    assert sample.citations == (), sample.citations_unknown


def test_an_empty_list_beside_a_name_in_words_is_not_known_to_cite_nothing() -> None:
    reply = {"answer": f"According to f2.txt, {SAID}.", "citations": []}
    assert asked(BY_FILE, json.dumps(reply)).citations is None
    reply = {"answer": SAID, "citations": []}
    assert asked(BY_FILE, json.dumps(reply)).citations == ()


@pytest.mark.parametrize(
    "answer",
    [
        "According to The Velm, it is old.",
        "The Velm says it is old.",
        "It is old — The Velm.",
        "It is old (The Velm).",
        "It is old, see *The Velm*.",
    ],
)
def test_a_title_where_sources_are_named_may_cite(answer: str) -> None:
    sample = asked("[{n}] The Velm\n{text}", answer)
    assert sample.citations is None
    assert sample.citations_unknown
