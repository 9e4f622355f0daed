"""A model is called once a passage, and its notes of a few words go into the last prompt."""

from __future__ import annotations

from typing import Any

import pytest
from lanes import crossed
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture
from losses import losses

from ragmetrics_core import Sample
from ragmetrics_core.reporting.journey import Journey

TEXTS = (
    "The Harlow bridge spans the river Aln with two lanes of traffic.",
    "The bridge was opened on 4 May 1874 by the mayor of Harlow.",
    "The towers are painted red each spring by a crew of twelve.",
)
QUESTION = "When was the bridge opened?"
LONG_NOTES = (
    "It spans the river Aln with two lanes.",
    "4 May 1874",
    "The towers are painted red each spring.",
)
SHORT_NOTES = ("Two lanes.", "4 May 1874", "Red towers")
# where only the second call found something
ONE_NOTE = ("NOT RELEVANT", "Opened on 4 May 1874.", "NOT RELEVANT")
LABELS = ("[{}] ", "{}. ", "({}) ", "- ", "Document {}: ", "Note on page {} – ", "")


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
        return [Document(text) for text in TEXTS]


def asked(notes: tuple[str, ...], form: str, between: str) -> tuple[Sample, Journey]:
    """The sample and journey of a run whose last prompt holds these notes.

    Args:
        notes: What the model writes of each passage.
        form: What stands before each note, with {} for its number.
        between: What stands between two notes.
    """
    shelf = Shelf()
    model = FakeListChatModel(responses=[*notes, "It opened in 1874."])

    def answer(question: str) -> str:
        written = []
        for number, document in enumerate(shelf.invoke(question), start=1):
            prompt = f"What of this answers the question? {document.page_content}"
            written.append(form.format(number) + str(model.invoke(prompt).content))
        prompt = f"Notes:\n{between.join(written)}\nQuestion: {question}"
        return str(model.invoke(prompt).content)

    with capture(reference=TEXTS[1]) as captured:
        RunnableLambda(answer).invoke(QUESTION)
    (sample,) = captured.samples
    return sample, captured.evaluate(["accuracy"], judge="lexical").journey()


def grade(sample: Sample) -> str | None:
    return sample.capture.grade


@pytest.mark.parametrize(
    ("notes", "between", "form"),
    crossed([LONG_NOTES, SHORT_NOTES, ONE_NOTE], ["\n", "; ", " "], LABELS),
)
def test_passages_with_short_notes_are_contexts_or_in_doubt(notes, between, form):
    """The words of a note may stand there by chance: nothing is said to be lost."""
    sample, journey = asked(notes, form, between)
    noted = [TEXTS[1]] if notes is ONE_NOTE else list(TEXTS)
    is_right = [context.text for context in sample.known_contexts] == noted
    assert is_right or grade(sample) == "inferred"
    assert not losses(journey)


def test_a_grader_whose_words_do_not_stand_in_the_prompt_leaves_no_doubt():
    """Of three passages the model approves of two; the application leaves one out."""
    shelf = Shelf()
    verdicts = ["yes", "no", "yes"]
    model = FakeListChatModel(responses=[*verdicts, "It has two lanes."])

    def answer(question: str) -> str:
        good = []
        for document in shelf.invoke(question):
            prompt = f"Is this relevant? {document.page_content}"
            if model.invoke(prompt).content == "yes":
                good.append(document.page_content)
        shown = "\n".join(good)
        prompt = f"Answer yes or no, or in a sentence.\n{shown}\n{question}"
        return str(model.invoke(prompt).content)

    with capture() as captured:
        RunnableLambda(answer).invoke("How many lanes has the bridge?")
    (sample,) = captured.samples
    assert grade(sample) == "exact"
    assert [context.text for context in sample.known_contexts] == [TEXTS[0], TEXTS[2]]
