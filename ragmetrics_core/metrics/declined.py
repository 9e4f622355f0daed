"""The question whether an answer declines, which metrics ask in the same words.

It is asked once for a row: equal questions of several metrics share one reply.

The module also makes the part of a prompt that shows the user's question so that it can
be read alone.
"""

from typing import Literal

from ragmetrics_core.data import (
    Asked,
    Bit,
    Instructions,
    Part,
    Question,
    Sample,
    SilentData,
)
from ragmetrics_core.data.asking import Asking, ask
from ragmetrics_core.data.errors import QuestionNotSupported
from ragmetrics_core.data.metric_evidence import DECLINED, NO_FACTS
from ragmetrics_core.data.results import Failed, Scored, Undefined, without_score
from ragmetrics_core.data.sample_parts import turns_without_answer
from ragmetrics_core.metrics.metric import instructions_for_judge


class DeclinedJudgement(SilentData, extra="ignore"):
    """Whether an answer declines: the bit alone.

    A small model that explains itself first says of half of all answers that they decline.
    """

    declined: Bit


class Declined(Question[DeclinedJudgement]):
    """Does the answer decline to answer the question, or claim nothing?

    It does if it makes no claim that answers the question, and says so, or if it only
    greets, thanks or asks back. A partial answer with a caveat is an answer.

    Parts: question, answer.
    """


_EXAMPLE = DeclinedJudgement(declined=False)


def standalone_question_part(sample: Sample) -> Part:
    """Return the question of a sample as one that can be read alone.

    It is the application's stand-alone question where there is one. Else it is the
    user's, with the earlier turns without which nobody could read it. Turns that say
    the answer are not among them, because a judge of the contexts must not see it.
    """
    if sample.standalone_question is not None:
        return Part("Question", sample.standalone_question)
    history = turns_without_answer(
        sample.history, sample.question or "", sample.answer or ""
    )
    return Part("Question", sample.question, history=history)


def instructions_on_declining() -> Instructions:
    """Return what a judge is told that is asked whether an answer declines."""
    return instructions_for_judge("declined", None, "question answer")


def question_on_declining(
    sample: Sample, whose: Literal["answer", "reference"] = "answer"
) -> Declined:
    """Return the question whether the answer of a sample, or its reference, declines."""
    text = sample.answer or ""
    if whose == "reference":
        text = "\n".join(sample.reference)
    return Declined(
        parts={
            "question": standalone_question_part(sample),
            "answer": Part("Answer", text),
        },
        instructions=instructions_on_declining(),
        Reply=DeclinedJudgement,
        example=_EXAMPLE,
    )


def undefined_if_declined(
    outcome: Scored | Undefined | Failed,
    sample: Sample,
    whose: Literal["answer", "reference"] = "answer",
) -> Asking[Scored | Undefined | Failed]:
    """Ask whether the answer of a sample declines; if so, its metric is undefined.

    It is asked where an outcome says that an answer rests on nothing, or claims nothing.

    Args:
        outcome: The outcome if the answer does not decline, or the judge cannot tell.
        sample: The sample.
        whose: The reference, for a metric that reads it in place of the answer.
    """
    if sample.missing("question") or not isinstance(outcome, (Scored, Undefined)):
        return outcome
    (reply,) = yield from ask([question_on_declining(sample, whose)])
    if isinstance(reply, Asked):
        is_declined = reply.reply.declined
    elif isinstance(reply.error, QuestionNotSupported):
        return outcome
    else:
        return without_score(outcome.metric, reply.error)
    if not is_declined:
        return outcome
    # a reference that declines says nothing of what the application answered
    return Undefined(
        metric=outcome.metric,
        reason=DECLINED if whose == "answer" else NO_FACTS,
        code="declined" if whose == "answer" else "no_facts",
        evidence=outcome.evidence,
    )
