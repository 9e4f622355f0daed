"""Texts longer than the model's context window: judged in overlapping windows, where any window decides.

A chunk is useful if some part of it is, and a fact is in a context if it is in some part of it. Other questions
need all of a text at once and fail. What was judged in windows says so among the fallbacks of its usage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core.model.errors import ContextWindowExceeded
from ragmetrics_core.model.questions import Answer, FactInContext, NotAnswered, Question, Usage, Useful

MARK = "windows"
_SHORTEST = 1_000
_OVERLAP = 200


def parts(question: Question[Any], answer: Answer[Any]) -> tuple[Question[Any], ...]:
    """The questions about each half of the text, if an answer failed for its length; else none.

    Args:
        question: The question.
        answer: What came of it.
    """
    failed = isinstance(answer.reply, NotAnswered) and isinstance(answer.reply.error, ContextWindowExceeded)
    if not failed:
        return ()
    if isinstance(question, Useful) and len(question.chunks) == 1:
        return tuple(replace(question, chunks=(half,)) for half in _halves(question.chunks[0]))
    if isinstance(question, FactInContext):
        return tuple(replace(question, context=half) for half in _halves(question.context))
    return ()


def joined(failed: Answer[Any], answers: Sequence[Answer[Any]]) -> Answer[Any]:
    """The verdict of the window that says yes most clearly; unanswered if none says yes and one did not answer.

    Args:
        failed: The answer to the whole, which was too long.
        answers: The answers to its windows.
    """
    usage = sum((answer.usage for answer in answers), failed.usage) + Usage(fallbacks=(MARK,))
    replies = [answer.reply for answer in answers if not isinstance(answer.reply, NotAnswered)]
    missing = next((answer.reply for answer in answers if isinstance(answer.reply, NotAnswered)), None)
    best = tuple(max(verdicts, key=_strength) for verdicts in zip(*replies, strict=True))
    if missing is not None and not (best and all(_strength(verdict)[0] for verdict in best)):
        return Answer(missing, usage)
    return Answer(best, usage)


def _strength(verdict: Any) -> tuple[bool, float]:
    """Whether a verdict says yes, and how clearly."""
    probability = verdict.probability if verdict.probability is not None else float(verdict.useful)
    grade = getattr(verdict, "grade", None)
    yes = verdict.useful if hasattr(verdict, "useful") else probability > 0.5
    return bool(yes), probability if grade is None else grade


def _halves(text: str) -> tuple[str, ...]:
    """Two windows that overlap, cut at spaces where there are any; none if the text is too short to be at fault."""
    if len(text) < _SHORTEST:
        return ()
    middle = len(text) // 2
    start, end = middle - _OVERLAP // 2, middle + _OVERLAP // 2
    first, second = text.find(" ", end, end + 80), text.rfind(" ", start - 80, start)
    return text[: first if first >= 0 else end], text[second + 1 if second >= 0 else start :]
