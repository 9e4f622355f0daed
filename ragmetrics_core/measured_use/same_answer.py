"""The one question to a judge: do two answers say the same?"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ragmetrics_core.data import Instructions, Part, Question, SilentData
from ragmetrics_core.data.replies import Bit, Comment


class SameReply(SilentData, extra="ignore"):
    """Whether two answers say the same, behind the reason."""

    reason: Comment = ""
    same: Bit


class SameAnswer(Question[SameReply]):
    """Do two answers say the same, as to the question? Parts: question, answer, other."""


@cache
def _instructions() -> Instructions:
    template = files("ragmetrics_core.measured_use").joinpath("same_answer.txt")
    return Instructions(template.read_text(encoding="utf-8"))


def same_answer(question: str | None, answer: str, other: str) -> SameAnswer:
    """Ask whether two answers to a question say the same."""
    return SameAnswer(
        parts={
            "question": Part("Question", question),
            "answer": Part("First answer", answer),
            "other": Part("Second answer", other),
        },
        instructions=_instructions(),
        Reply=SameReply,
        example=SameReply(reason="Both name the year 1874.", same=True),
    )
