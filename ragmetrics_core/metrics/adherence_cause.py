"""The likely cause of a low Context Adherence, and its remedy.

One more question is asked for it: do the contexts hold what the question asks, and does
the answer address it?
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Literal

from ragmetrics_core.data import Asked, Bit, Comment, NotAnswered, Part, SilentData
from ragmetrics_core.data.asking import Batch, Instructions, Question, Replies, ask
from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.data.typed import Chances, State, TypedForm, TypedQuestion
from ragmetrics_core.metrics.typed_states import state_of_answer

Cause = Literal["insufficient_context", "reasoning_error", "misread_question"]


class Sufficiency(SilentData, extra="ignore"):
    """A judgement whether the question could have been answered.

    Do the contexts hold what it asks, and is the answer one to it?
    """

    reason: Comment = ""
    sufficient: Bit
    on_question: Bit


class Sufficient(Question[Sufficiency]):
    """Can the question be answered from these contexts, and does the answer address it?

    Parts: as ``Adherent``.
    """


def _state_of_cause(question: Sufficient) -> State:
    """What a judge of typed questions sees: the question, the chunks and the answer."""
    return state_of_answer(question, question["contexts"])


def _typed_questions_on_cause(question: Sufficient) -> list[TypedQuestion]:
    """Two predicates: the chunks suffice, and the answer addresses the question."""
    # the predicates of two other metrics, which most runs do not measure
    from ragmetrics_core.metrics.answer_relevance import ANSWER_ADDRESSES_QUESTION
    from ragmetrics_core.metrics.context_sufficiency import CHUNKS_SUFFICE

    del question  # the same for all
    return [CHUNKS_SUFFICE, ANSWER_ADDRESSES_QUESTION]


def _judgement_of_probabilities(
    question: Sufficient, answers: Sequence[Chances]
) -> Asked[Sufficiency]:
    """Return the judgement of two probabilities, each a yes above one half."""
    (sufficient,), (on_question,) = answers
    judgement = {
        "sufficient": int(is_yes(sufficient)),
        "on_question": int(is_yes(on_question)),
        "reason": (
            f"p(sufficient) = {sufficient:.2f}, p(on the question) = {on_question:.2f}"
        ),
    }
    return Asked((question.read(judgement),))


_TYPED_FORM: TypedForm[Sufficiency] = TypedForm(
    _state_of_cause, _typed_questions_on_cause, _judgement_of_probabilities
)
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


_SUFFICIENCY_EXAMPLES = (
    Sufficiency.model_construct(
        reason="The contexts hold it all. " * 6, sufficient=True, on_question=True
    ),
    Sufficiency.model_construct(
        reason="The contexts hold it all. " * 26, sufficient=True, on_question=True
    ),
)


def find_cause(
    parts: Mapping[str, Part],
    instructions: Instructions,
    *,
    are_contexts_too_long: bool,
) -> Generator[Batch, Replies, dict[str, object]]:
    """Ask for the likely cause of a low score, by one more question.

    The judge is asked whether the contexts suffice to answer the question, and
    whether the answer addresses it. Example: the contexts do not suffice, so the
    retrieval is the likely cause.

    Args:
        parts: What the judge is shown.
        instructions: What the judge is told.
        are_contexts_too_long: Whether the contexts are too long for the judge, so
            that it is not asked.

    Returns:
        Fields of the evidence: the cause, a remedy and the judge's reason; or only
        a note why no cause was determined.
    """
    if parts["question"].text is None:
        return {"cause_note": "no cause could be looked for without the question"}
    if are_contexts_too_long:
        return {
            "cause_note": (
                "no cause was looked for: the contexts are longer than the judge's"
                " window"
            )
        }
    question_on_cause = Sufficient(
        parts=parts,
        instructions=instructions,
        Reply=Sufficiency,
        typed_form=_TYPED_FORM,  # how judges are asked that read no prompts
        example=_SUFFICIENCY_EXAMPLES,
    )
    (answer,) = yield from ask([question_on_cause])
    if isinstance(answer, NotAnswered):
        return {"cause_note": f"no cause was determined: {answer.error}"}
    judgement = answer.reply
    cause = _likely_cause(judgement)
    return {
        "cause": cause,
        "remedy": _REMEDIES[cause],
        "cause_note": judgement.reason,
    }


def _likely_cause(judgement: Sufficiency) -> Cause:
    """Return the cause of a low score that a judgement points to."""
    if not judgement.on_question:
        return "misread_question"
    if judgement.sufficient:
        return "reasoning_error"
    return "insufficient_context"
