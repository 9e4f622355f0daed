"""What may be uncertain about a sample: one table of codes, grades and sentences."""

from dataclasses import dataclass
from typing import Literal

Grade = Literal["exact", "inferred", "incomplete"]

_GRADES_FROM_BEST: tuple[Grade, ...] = ("exact", "inferred", "incomplete")

_TABLE: dict[str, tuple[Grade, str]] = {
    # the question and the history
    "question_guessed": (
        "inferred",
        "the user's own words were not found as an input; name their place by"
        " question_from=, or say them by question=",
    ),
    "history_unread": (
        "inferred",
        "an earlier conversation was handed in, and its turns could not be read",
    ),
    "which_turn": (
        "inferred",
        "which runs, and which conversation, belong to this question is not certain:"
        " {}",
    ),
    # the answer
    "answer_guessed": (
        "inferred",
        "the framework does not say which text is the answer; name its place by"
        " answer_from=",
    ),
    "writer_guessed": (
        "inferred",
        "no reply of a model equals the answer: it is taken to rest on what the last"
        " likely call was shown",
    ),
    "short_reply": (
        "inferred",
        "an earlier reply is so short that nobody can tell whether the answer was"
        " written from it; what its call was shown counts",
    ),
    "further_call": (
        "inferred",
        "a call that was shown documents may have written a part of the answer: {}",
    ),
    # the contexts
    "in_part": (
        "inferred",
        "a retrieved text stands in the prompt in parts, or shares some words with it",
    ),
    "short_text": (
        "inferred",
        "a retrieved text is so short, or so like another, that its words may stand in"
        " the prompt by chance",
    ),
    "quoted": (
        "inferred",
        "a retrieved text stands in the question, the history or another text that the"
        " prompt holds anyway",
    ),
    "inside_another": (
        "inferred",
        "a retrieved text stands in the prompt only as a part of another one",
    ),
    "by_data_flow": (
        "inferred",
        "which of the retrieved texts the model was shown is not known; the last list"
        " of documents before the answer stands for the contexts; name them by"
        " contexts_from=",
    ),
    "changed_by_step": (
        "inferred",
        "the step {} returned new documents in the place of some that it was given;"
        " whether it found or wrote them is not known",
    ),
    "undivided": (
        "inferred",
        "the text of tool {} could not be divided into passages: it is one context",
    ),
    "tool_text": (
        "inferred",
        "tool {} returned text without documents; if it searches, name it in"
        " context_tools=; if no tool does, say context_tools=set()",
    ),
    "no_contexts_named": (
        "inferred",
        "contexts_from= led to a place without any text{}",
    ),
    "provider": ("inferred", "{}"),
    # what is missing
    "no_search": (
        "incomplete",
        "no search was seen that found anything. If one ran where the framework reports"
        " nothing, say contexts_from=; if an earlier turn found what counts, name both"
        " turns by conversation=",
    ),
    "not_recorded": (
        "incomplete",
        "texts that the model may have been shown were not recorded: {}",
    ),
    "no_answer": (
        "incomplete",
        "no answer was found: the run only searched, or gave none",
    ),
    "broken": ("incomplete", "the run failed or did not end: its answer is not whole"),
}


@dataclass(frozen=True)
class Doubt:
    """Something that is uncertain.

    Attributes:
        code: Its code in the table.
        names: What the sentence names, such as a tool.
    """

    code: str
    names: str = ""

    @property
    def grade(self) -> Grade:
        """The best grade that it leaves."""
        return _TABLE[self.code][0]

    @property
    def sentence(self) -> str:
        """What it says, and what to do."""
        return _TABLE[self.code][1].format(self.names)


def worst_grade(doubts: list[Doubt]) -> Grade:
    """Return the grade that some doubts leave; "exact" without any."""
    grades = [doubt.grade for doubt in doubts]
    return max(grades, key=_GRADES_FROM_BEST.index, default="exact")
