"""Polls whether an answer rests on its contexts, and what each of its claims rests on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic.json_schema import SkipJsonSchema

from ragmetrics_core.data import Asked, Claim, Comment, Share, SilentData
from ragmetrics_core.data.asking import Part, Question
from ragmetrics_core.data.replies import (
    Bit,
    Findings,
    Overall,
    Texts,
    WordsOf,
    states_something,
)
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.metrics.ledger_calls import Groups
from ragmetrics_core.metrics.metric import instructions_for_judge

PollVerdict = Literal["yes", "no", "abstains"]
_UNSUPPORTED_NEEDS = {"own", "none"}
_SUPPORTED_NEEDS = {"evidence", "earlier"}


class SentenceSupport(SilentData, extra="ignore"):
    """How far one sentence of the answer is found in the contexts, by word overlap.

    Attributes:
        sentence: The answer's sentence.
        rank: Rank of the best matching context, behind the last one of further
            evidence; None: nothing matches.
        evidence: The best matching sentence of that context.
        coverage: Share of the sentence's content terms found in the contexts.
        uncovered: Content terms found nowhere.
        numbers: Numbers found nowhere.
    """

    sentence: str
    rank: int | None
    evidence: str
    coverage: Share
    uncovered: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


class ClaimSupport(SilentData, extra="ignore"):
    """One part of an answer, as it was judged by itself.

    Attributes:
        text: The claim, or what claims nothing.
        probability: Probability that the contexts support it; None: it claims nothing.
    """

    text: str
    probability: Share | None = None


class AdherenceReply(SilentData, extra="ignore"):
    """What a judge says of an answer: whether the contexts support all that it claims.

    The reasoning stands before the verdict, and behind it the claims that no context
    supports. A judge that computes verdicts gives these claims alone: then an answer
    that claims something is adherent if there are none.
    """

    reason: Comment = ""
    supported: Overall = None
    claims: Bit
    unsupported: Annotated[Texts, Findings("answer"), WordsOf(("answer",))]
    sentences: SkipJsonSchema[tuple[SentenceSupport, ...]] = ()
    encoder_claims: SkipJsonSchema[tuple[ClaimSupport, ...]] = ()

    @property
    def verdict(self) -> PollVerdict:
        """Abstains of an answer that claims nothing; yes where all claims are supported."""
        if self.unsupported:  # also where it says that the answer claims nothing
            return "no"
        if not self.claims:
            return "abstains"
        return "no" if self.supported is False else "yes"

    @property
    def poll(self) -> "Poll":
        """The same with its verdict written out."""
        return Poll(
            reason=self.reason,
            verdict=self.verdict,
            unsupported=self.unsupported,
            finds_claims=self.claims,
            sentences=self.sentences,
            encoder_claims=self.encoder_claims,
        )


class AdherenceAlone(AdherenceReply):
    """The same with the verdict first: its token's probability is wanted."""

    reason: SkipJsonSchema[Comment] = ""
    supported: Bit
    unsupported: SkipJsonSchema[Annotated[Texts, Findings("answer")]] = ()


def adherence_reply(
    verdict: PollVerdict, reason: str, unsupported: Sequence[str] = (), **evidence: Any
) -> AdherenceReply:
    """Return the reply of a judge that computes verdicts, such as the embedded one.

    Args:
        verdict: The verdict.
        reason: Why, in words.
        unsupported: What no context supports; named of a "no" alone. Where it is "?!"
            or "None", the reason stands for it.
        **evidence: ``sentences`` of the embedded judge, or ``encoder_claims``.
    """
    claims = list(filter(states_something, unsupported))
    return AdherenceReply(
        reason=reason,
        unsupported=(claims or [reason]) if verdict == "no" else [],
        claims=verdict != "abstains",
        **evidence,
    )


class Poll(SilentData, extra="ignore"):
    """One judgement whether the answer is based purely on the contexts.

    It ``abstains`` where the answer makes no claim.
    ``unsupported`` are claims that no context supports. ``finds_claims`` is False where
    the judge says that the answer claims nothing, be it beside such a list.
    ``sentences`` are the evidence of a lexical judge, per sentence of the answer;
    ``encoder_claims`` that of an encoder, per claim, behind which stands what claims
    nothing.
    """

    reason: Comment = ""
    verdict: PollVerdict
    unsupported: tuple[str, ...] = ()
    finds_claims: SkipJsonSchema[bool] = True
    sentences: SkipJsonSchema[tuple[SentenceSupport, ...]] = ()
    encoder_claims: SkipJsonSchema[tuple[ClaimSupport, ...]] = ()


def polls_of(asked: Asked[Any]) -> Asked[Poll]:
    """Return polls with their verdicts written out, whatever form the replies have.

    The probability of a verdict's token decides the verdict.
    """
    polls = [reply.poll for reply in asked.replies]
    weight = asked.weights[0] if asked.weights else None
    if (
        weight is not None
        and weight.mode == "logprobs"
        and polls[0].verdict != "abstains"
    ):
        verdict = "yes" if is_yes(weight.p) else "no"
        polls[0] = polls[0].model_copy(update={"verdict": verdict})
    return replace(asked, replies=tuple(polls))


class Adherent(Question[AdherenceReply]):
    """Is the answer based purely on the contexts? Parts: contexts, question, answer."""


class LabelledPoll(SilentData, extra="ignore"):
    """One judgement what each claim of the answer rests on.

    Its verdict is computed from the labels, never read.
    """

    reason: Comment = ""
    claims: tuple[Claim, ...]

    @property
    def verdict(self) -> PollVerdict:
        """Return the verdict that the labels of the claims make.

        It is "no" if a claim rests on the assistant's own words or on nothing. Else it
        is "yes" if a claim rests on evidence of this turn or an earlier one. Else the
        poll abstains.
        """
        needs = {claim.needs for claim in self.claims}
        if needs & _UNSUPPORTED_NEEDS:
            return "no"
        if needs & _SUPPORTED_NEEDS:
            return "yes"
        return "abstains"

    @property
    def poll(self) -> Poll:
        """The same without labels."""
        unsupported = tuple(
            claim.claim for claim in self.claims if claim.needs in _UNSUPPORTED_NEEDS
        )
        return Poll(
            reason=self.reason,
            verdict=self.verdict,
            unsupported=unsupported,
            finds_claims=bool(self.claims),
        )


class RestsOn(Question[LabelledPoll]):
    """What does each claim of the answer rest on?

    Parts: contexts, earlier, user, own, answer.
    """


EXAMPLE = AdherenceReply.model_construct(
    reason="The claim stands in context 1. " * 15,
    supported=True,
    claims=True,
    unsupported=(),
)
_LABELLED_EXAMPLE = LabelledPoll(
    reason="It stands there. " * 20,
    claims=(Claim(claim="A claim.", needs="evidence"),) * 3,
)


def question_what_claims_rest_on(
    groups: Groups, question_about_answer: Adherent, language: str | None
) -> RestsOn:
    """Return the question what claims rest on.

    It is asked as often as the question about the whole answer.
    """
    return RestsOn(
        parts={
            "contexts": Part("Context", groups.evidence),
            "earlier": Part("Earlier context", groups.earlier),
            "user": Part("User", groups.user),
            "own": Part("Assistant", groups.assistant),
            "answer": question_about_answer.parts["answer"],
        },
        instructions=instructions_for_judge(
            "adherent_labelled",
            None,
            "contexts earlier user own answer",
            language=language,
        ),
        Reply=LabelledPoll,
        polls=question_about_answer.polls,
        temperature=question_about_answer.temperature,
        example=_LABELLED_EXAMPLE,
    )
