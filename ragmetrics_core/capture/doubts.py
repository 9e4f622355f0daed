"""What may be uncertain about a sample: one table of codes, grades and sentences."""

from dataclasses import dataclass
from typing import Literal

Grade = Literal["exact", "inferred", "incomplete"]

_GRADES_FROM_BEST: tuple[Grade, ...] = ("exact", "inferred", "incomplete")

_CONTEXTS_FROM = "name the contexts by contexts_from="
# one code for each thing that a person can do about it
_TABLE: dict[str, tuple[Grade, str]] = {
    # the question and the history
    "question_guessed": (
        "inferred",
        "the user's own words were not found as an input; name their place by"
        " question_from=, or say them by question=",
    ),
    "history_unread": (
        "inferred",
        "an earlier conversation was handed in, and its turns could not be read; hand in"
        " each as a message with a role and the words that were said",
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
    # the contexts
    "further_call": (
        "inferred",
        "which calls of models the answer was written from is not certain: {}; "
        + _CONTEXTS_FROM,
    ),
    "in_part": (
        "inferred",
        "a retrieved text stands in the prompt in parts, shares some words with it, or"
        " is a part of another one there; " + _CONTEXTS_FROM,
    ),
    "short_text": (
        "inferred",
        "the words of a retrieved text may stand in the prompt for another reason: it is"
        " short, like another one, or said in the question, the history or the"
        " instructions; " + _CONTEXTS_FROM,
    ),
    "by_data_flow": (
        "inferred",
        "which texts the model was shown is not certain: {}; " + _CONTEXTS_FROM,
    ),
    "undivided": ("inferred", "{}"),
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
    "no_answer": ("incomplete", "no whole answer was found: {}"),
}


@dataclass(frozen=True)
class Doubt:
    """Something that is uncertain.

    Attributes:
        code: Its code in the table.
        detail: What the sentence says of this run, such as the name of a tool.
    """

    code: str
    detail: str = ""

    @property
    def grade(self) -> Grade:
        """The best grade that it leaves."""
        return _TABLE[self.code][0]

    @property
    def sentence(self) -> str:
        """What it says, and what to do."""
        return _TABLE[self.code][1].format(self.detail)


def worst_grade(doubts: list[Doubt]) -> Grade:
    """Return the grade that some doubts leave; "exact" without any."""
    grades = [doubt.grade for doubt in doubts]
    return max(grades, key=_GRADES_FROM_BEST.index, default="exact")
