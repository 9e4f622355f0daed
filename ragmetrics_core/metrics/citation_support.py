"""The questions of Citation Quality: what claims anything, and what supports it.

A statement is a sentence of an answer without its marks. The question of the user and
the sentences before it are shown so that its words can be read; they support nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic.json_schema import SkipJsonSchema

from ragmetrics_core.data import (
    Asked,
    Bit,
    Comment,
    Instructions,
    LabelProbability,
    NotAnswered,
    Part,
    Question,
    SilentData,
    Windows,
    ask,
)
from ragmetrics_core.data.asking import Asking, order_of_digest, weights_by_share
from ragmetrics_core.data.replies import EachOnce, Labelled, Mode
from ragmetrics_core.data.scalars import is_yes


class SupportReply(SilentData, extra="ignore"):
    """Whether passages support a statement; the bit's probability is wanted."""

    supported: Bit
    reason: SkipJsonSchema[Comment] = ""


class Supports(Question[SupportReply]):
    """Do these passages together support the whole of the statement?

    Parts: question, before, statement, passages.
    """


class _LabelledClaim(Labelled):
    claims: Bit


class EachSentence(SilentData, extra="ignore"):
    """A verdict on each of several sentences."""

    sentences: EachOnce[_LabelledClaim]


class MakesClaim(Question[EachSentence]):
    """Which of these sentences make a claim?

    Parts: question, sentences.
    """


_SUPPORT_EXAMPLE = SupportReply.model_construct(
    reason="The first passage names the day, and says who lit the lamp.", supported=True
)

_WINDOWS = Windows("passages", "supported")


@dataclass(frozen=True, slots=True)
class Support:
    """Whether texts together support a statement.

    Args:
        p: The probability that they do; above one half they do.
        reason: Why, in the judge's words.
        mode: How the probability was obtained.
        windows: In how many windows a too long text was judged; None: as a whole.
    """

    p: float
    reason: str = ""
    mode: Mode = "verdict"
    windows: int | None = None

    @property
    def holds(self) -> bool:
        """Whether they support it."""
        return is_yes(self.p)


@dataclass(frozen=True, slots=True)
class CitedSupport:
    """What the texts that a statement cites do for it.

    Args:
        supported: Whether all together support it.
        alone: By each text, whether it alone does.
        irrelevant: By each text, whether it alone does not and all others do.
        together: The probability that all together support it; None where that was not
            asked.
    """

    supported: bool
    alone: tuple[Support, ...]
    irrelevant: tuple[bool, ...]
    together: float | None = None


BLANK = Support(0.0, "The context is empty.")
"""What a context without a text does for any statement."""

_NOTHING = Support(0.0, "Nothing that was shown is cited.")


def question_on_support(
    statement: str,
    passages: Sequence[str],
    question: Part,
    instructions: Instructions,
    polls: int,
    *,
    before: str | None = None,
) -> Supports:
    """Return the question whether some window of passages supports a statement.

    Args:
        statement: The statement.
        passages: The passages.
        question: The part that shows the user's question.
        instructions: What the judge is told.
        polls: Judgements where no token gives the probability.
        before: The sentences before the statement; None if none is shown.
    """
    return Supports(
        parts={
            "question": question,
            "before": Part("Before the statement", before),
            "statement": Part("Statement", statement),
            "passages": Part("Passage", tuple(passages), "letters"),
        },
        instructions=instructions,
        Reply=SupportReply,
        wanted_probability=LabelProbability("supported", fallback_polls=polls),
        if_too_long=_WINDOWS,
        example=_SUPPORT_EXAMPLE,
    )


def support_of_cited(
    question: Supports, texts: Sequence[str]
) -> Asking[CitedSupport | NotAnswered]:
    """Ask the judge what the cited texts do for a statement, in 1 to 3 steps.

    1. It asks about each text alone. If a text supports the statement, the texts
       that do not are irrelevant.
    2. Else it asks about all texts together.
    3. If all together support the statement, it asks once for each text about all
       the others. If they support it without the text, the text is irrelevant.

    Example: A and B support the statement only together, and C says nothing of it:
    supported, and C is irrelevant. If there is only one text, and it does not
    support the statement in step 1, the statement is not supported.

    Args:
        question: The question on the statement, whose passages the texts replace.
        texts: The texts.

    Returns:
        The verdicts; ``NotAnswered`` if the judge did not answer one of the
        questions.
    """
    # What is known by now; equal groups of texts are asked about once.
    known: dict[tuple[str, ...], Support] = {(): _NOTHING}
    alone = yield from _support_of_groups(question, [(text,) for text in texts], known)
    if isinstance(alone, NotAnswered):
        return alone
    if any(support.holds for support in alone):
        irrelevant = tuple(not support.holds for support in alone)
        return CitedSupport(supported=True, alone=tuple(alone), irrelevant=irrelevant)
    # The support by a group that was asked about before is remembered: of a single
    # text this is the "no" of step 1.
    joint = yield from _support_of_groups(question, [texts], known)
    if isinstance(joint, NotAnswered):
        return joint
    (together,) = joint
    cited = CitedSupport(
        supported=together.holds,
        alone=tuple(alone),
        irrelevant=(False,) * len(texts),
        # of a single text the probability stands in ``alone`` already
        together=together.p if len(texts) > 1 else None,
    )
    if not together.holds:
        return cited
    # of A, B and C: B and C, then A and C, then A and B
    others = [(*texts[:index], *texts[index + 1 :]) for index in range(len(texts))]
    without_each = yield from _support_of_groups(question, others, known)
    if isinstance(without_each, NotAnswered):
        return without_each
    irrelevant = tuple(support.holds for support in without_each)
    return replace(cited, irrelevant=irrelevant)


def _support_of_groups(
    question: Supports,
    groups: Sequence[Sequence[str]],
    known: dict[tuple[str, ...], Support],
) -> Asking[list[Support] | NotAnswered]:
    """Ask for each group of texts whether they together support the statement.

    Example: ``[("A",), ("B",), ("A", "B")]`` are three questions. A group that is known
    is not asked about again.

    Returns:
        The support by each group, in order; ``NotAnswered`` if the judge did not
        answer one of the questions.
    """
    # in an order that does not depend on ranks: judges may favour the first text
    passages_of_groups = [
        order_of_digest(question["statement"], texts) for texts in groups
    ]
    unknown_groups = [
        passages
        for passages in dict.fromkeys(passages_of_groups)
        if passages not in known
    ]
    questions = []
    for passages in unknown_groups:
        parts = {**question.parts, "passages": Part("Passage", passages, "letters")}
        # What passages say together, no part of them says alone.
        windows = _WINDOWS if len(passages) == 1 else None
        questions.append(replace(question, parts=parts, if_too_long=windows))
    replies = yield from ask(questions)
    for passages, reply in zip(unknown_groups, replies, strict=True):
        if isinstance(reply, NotAnswered):
            return reply
        known[passages] = support_in_replies(reply)
    return [known[passages] for passages in passages_of_groups]


def support_in_replies(judge_reply: Asked[SupportReply]) -> Support:
    """Turn the judge's replies to one question into a verdict with a probability.

    The reason is taken from the first reply that agrees with the verdict.
    """
    # how probable it is that the texts support the statement
    supported = LabelProbability("supported")
    (weight,) = judge_reply.weights or weights_by_share(judge_reply.replies, supported)
    holds = is_yes(weight.p)
    reasons = [
        reply.reason for reply in judge_reply.replies if reply.supported == holds
    ]
    n_windows = judge_reply.windows[0] if judge_reply.windows else 1
    return Support(
        p=weight.p,
        reason=reasons[0] if reasons else judge_reply.reply.reason,
        mode=weight.mode,
        windows=n_windows if n_windows > 1 else None,
    )
