"""A model is called once a passage, and its notes of a few words go into the last prompt."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture

from ragmetrics_core import Sample
from ragmetrics_core.capture.passages import has_words, is_an_entry_of
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
    assert sample.capture is not None
    return sample.capture.grade


@pytest.mark.parametrize("form", LABELS)
@pytest.mark.parametrize("notes", [LONG_NOTES, SHORT_NOTES])
def test_a_passage_whose_short_note_is_an_entry_of_the_prompt_is_a_context(
    notes: tuple[str, ...], form: str
) -> None:
    sample, journey = asked(notes, form, "\n")
    assert [context.text for context in sample.contexts] == list(TEXTS)
    assert grade(sample) == "exact"
    assert journey.mend is None


@pytest.mark.parametrize("form", LABELS)
def test_of_verdicts_and_a_note_the_noted_passage_is_the_context(form: str) -> None:
    sample, journey = asked(ONE_NOTE, form, "\n")
    assert [context.text for context in sample.contexts] == [TEXTS[1]]
    not_shown = journey.of("not_shown", "facts")
    assert not_shown is not None
    assert not_shown.lost == 0


@pytest.mark.parametrize("between", ["; ", ", ", " "])
@pytest.mark.parametrize("notes", [LONG_NOTES, SHORT_NOTES, ONE_NOTE])
def test_short_notes_among_other_words_leave_open_what_was_shown(
    notes: tuple[str, ...], between: str
) -> None:
    """The words may stand there by chance: nothing is exact, and nothing is to be mended."""
    sample, journey = asked(notes, "", between)
    is_known = TEXTS[1] in [context.text for context in sample.contexts]
    assert is_known or grade(sample) == "inferred"
    assert journey.mend is None


def test_a_grader_whose_words_do_not_stand_in_the_prompt_leaves_no_doubt() -> None:
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
    assert [context.text for context in sample.contexts] == [TEXTS[0], TEXTS[2]]


@pytest.mark.parametrize(
    ("message", "is_entry"),
    [
        ("[2] Red", True),
        ("  2) Red.", True),
        ("**Source 2**: Red", True),
        ("• Red,", True),
        ("Colour: red\n- Red\n", True),
        ("In 2 Red towers stood.", False),
        ("In spring 1874, Red", False),
        ("[2] Reddish", False),
        ("The towers are Red", False),
        ("Built in 1632. Red", False),
        ("Built in room 16. Red", False),
        ("Answer from source 2: Red", True),
    ],
)
def test_an_entry_fills_its_line_behind_a_label(message: str, is_entry: bool) -> None:
    assert is_an_entry_of("Red", message) == is_entry


@pytest.mark.parametrize(
    ("message", "words", "stand_there"),
    [
        ("Notes: Red; two", "Red", True),
        ("Redder", "Red", False),
        ("hundRed", "Red", False),
        ("Red", "", False),
    ],
)
def test_words_stand_there_as_such(message: str, words: str, stand_there: bool) -> None:
    assert has_words(message, words) == stand_there
