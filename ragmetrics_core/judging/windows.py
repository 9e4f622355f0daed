"""Texts longer than the model's context window: judged in overlapping windows, where any window decides.

A chunk is useful if some part of it is, and a fact is in a context if it is in some part of it; a list of chunks is
judged as two shorter lists. Other questions need all of a text at once and fail; how the adherence of an answer is
found window by window is the metric's business. What was judged in windows says so in its verdict, and among the
fallbacks of its usage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragmetrics_core.data.errors import ContextWindowExceeded
from ragmetrics_core.data.questions import Answer, FactInContext, NotAnswered, Question, Useful
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.data.windows import divided, halves

_MARK = "windows"


def parts(question: Question[Any], answer: Answer[Any]) -> tuple[Question[Any], ...]:
    """The questions about each half of the text or of the list, if an answer failed for its length; else none.

    None either if the text is shorter than what it is judged against, which is then what is too long.

    Args:
        question: The question.
        answer: What came of it.
    """
    failed = isinstance(answer.reply, NotAnswered) and isinstance(answer.reply.error, ContextWindowExceeded)
    if not failed:
        return ()
    if isinstance(question, Useful) and len(question.answer) < sum(map(len, question.chunks)):
        return tuple(replace(question, chunks=chunks) for chunks in divided(question.chunks))
    if isinstance(question, FactInContext) and sum(map(len, question.facts)) < len(question.context):
        return tuple(replace(question, context=half) for half in halves(question.context))
    return ()


def joined(question: Question[Any], failed: Answer[Any], answers: Sequence[Answer[Any]]) -> Answer[Any]:
    """The verdicts about the whole, from those about its parts.

    Args:
        question: The question about the whole.
        failed: The answer to it, which was too long.
        answers: The answers to its parts.
    """
    usage = sum((answer.usage for answer in answers), failed.usage) + Usage(fallbacks=(_MARK,))
    replies = [answer.reply for answer in answers if not isinstance(answer.reply, NotAnswered)]
    missing = next((answer.reply for answer in answers if isinstance(answer.reply, NotAnswered)), None)
    if isinstance(question, Useful) and len(question.chunks) > 1:  # each chunk is in one part
        return Answer(sum(replies, ()) if missing is None else missing, usage)
    best = tuple(map(_clearest, zip(*replies, strict=True)))
    if missing is not None and not (best and all(_strength(verdict)[0] for verdict in best)):
        return Answer(missing, usage)
    return Answer(best, usage)


def _clearest(verdicts: Sequence[Any]) -> Any:
    """The verdict of the window that says yes most clearly, with the number of windows."""
    return replace(max(verdicts, key=_strength), windows=sum(verdict.windows or 1 for verdict in verdicts))


def _strength(verdict: Any) -> tuple[bool, float]:
    """Whether a verdict says yes, and how clearly."""
    probability = verdict.probability if verdict.probability is not None else float(verdict.useful)
    grade = getattr(verdict, "grade", None)
    yes = verdict.useful if hasattr(verdict, "useful") else probability > 0.5
    return bool(yes), probability if grade is None else grade
