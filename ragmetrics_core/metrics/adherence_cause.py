"""The likely cause of a low Context Adherence, and its remedy.

Two questions of other metrics are asked for it: do the contexts hold what the question
asks, and does the answer address it?
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal

from ragmetrics_core.data import NotAnswered, Sample
from ragmetrics_core.data.asking import Batch, Instructions, Question, Replies, ask
from ragmetrics_core.metrics.answer_relevance import question_on_answer
from ragmetrics_core.metrics.context_sufficiency import question_on_contexts

Cause = Literal["insufficient_context", "reasoning_error", "misread_question"]

_REMEDIES: dict[Cause, str] = {
    "insufficient_context": (
        "Complete the context store, or retrieve more: the contexts do not hold what is"
        " asked."
    ),
    "reasoning_error": (
        "The contexts hold what is needed: tell the prompt to stick to the contexts, or"
        " use a stronger model to write answers."
    ),
    "misread_question": (
        "The answer is about something else: check how the question reaches the prompt,"
        " and keep irrelevant chunks out of it."
    ),
}
# The lowest grade of an answer that addresses a part of its question.
_ADDRESSES_A_PART = 2


def find_cause(
    sample: Sample,
    texts: Sequence[str],
    on_contexts: Instructions,
    on_answer: Instructions,
    *,
    are_texts_too_long: bool,
) -> Generator[Batch, Replies, dict[str, object]]:
    """Ask for the likely cause of a low score, by two more questions.

    Example: the contexts do not hold what is asked, so the retrieval is the likely
    cause.

    Args:
        sample: The sample.
        texts: What the answer may rest on.
        on_contexts: The instructions whether contexts suffice.
        on_answer: The instructions whether an answer addresses its question.
        are_texts_too_long: Whether the texts are too long for the judge, so that it is
            not asked.

    Returns:
        Fields of the evidence: the cause, a remedy and the judge's reason; or only
        a note why no cause was determined.
    """
    if sample.missing("question"):
        return {"cause_note": "no cause could be looked for without the question"}
    if are_texts_too_long:
        return {
            "cause_note": (
                "no cause was looked for: the contexts are longer than the judge's"
                " window"
            )
        }
    questions: list[Question[Any]] = [
        question_on_contexts(sample, texts, on_contexts),
        question_on_answer(sample, on_answer),
    ]
    replies = yield from ask(questions)
    for reply in replies:
        if isinstance(reply, NotAnswered):
            return {"cause_note": f"no cause was determined: {reply.error}"}
    sufficiency, relevance = (reply.reply for reply in replies)
    cause: Cause = "insufficient_context"
    note = sufficiency.reason or "; ".join(sufficiency.missing)
    if relevance.grade < _ADDRESSES_A_PART:
        cause = "misread_question"
        note = relevance.reason
    elif sufficiency.is_sufficient:
        cause = "reasoning_error"
        note = sufficiency.reason
    return {"cause": cause, "remedy": _REMEDIES[cause], "cause_note": note}
