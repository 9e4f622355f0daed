"""Polls whether an answer rests on its contexts, also on contexts that are too long.

For contexts that are too long, the answer is split into claims once. A claim is
supported if some window of the contexts supports it. The answer is supported if all of
its claims are. This holds for each poll by itself, so that the share of polls keeps its
meaning.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Literal, Self

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from ragmetrics_core.data import (
    Asked,
    Claim,
    Comment,
    ContextWindowExceeded,
    JudgeError,
    NotAnswered,
    Share,
    SilentData,
    TooFewPolls,
)
from ragmetrics_core.data.asking import (
    Batch,
    Instructions,
    Part,
    Question,
    Replies,
    ask,
    divide_texts,
)
from ragmetrics_core.data.replies import Bit, Texts, plain_label
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, question_for_facts
from ragmetrics_core.metrics.ledger_calls import Groups
from ragmetrics_core.metrics.metric import error_of_unanswered
from ragmetrics_core.metrics.templates import instructions_for_judge

PollVerdict = Literal["yes", "no", "abstains"]
_UNSUPPORTED_NEEDS = {"own", "none"}
_SUPPORTED_NEEDS = {"evidence", "earlier"}


class SentenceSupport(SilentData, extra="ignore"):
    """How far one sentence of the answer is found in the contexts, by word overlap."""

    sentence: str = Field(description="The answer's sentence.")
    rank: int | None = Field(
        description=(
            "Rank of the best matching context, behind the last one of further"
            " evidence; None: nothing matches."
        )
    )
    evidence: str = Field(description="The best matching sentence of that context.")
    coverage: Share = Field(
        description="Share of the sentence's content terms found in the contexts."
    )
    uncovered: tuple[str, ...] = Field(
        default=(), description="Content terms found nowhere."
    )
    numbers: tuple[str, ...] = Field(default=(), description="Numbers found nowhere.")


class ClaimSupport(SilentData, extra="ignore"):
    """One part of an answer, as it was judged by itself."""

    text: str = Field(description="The claim, or what claims nothing.")
    probability: Share | None = Field(
        default=None,
        description="Probability that the contexts support it; None: it claims nothing.",
    )


class AdherenceReply(SilentData, extra="ignore"):
    """What a judge says of an answer: the claims that no context supports.

    The verdict is computed from that, never read: an answer that claims something is
    adherent if the list is empty.
    """

    reason: Comment = ""
    unsupported: Texts
    claims: Bit
    sentences: SkipJsonSchema[tuple[SentenceSupport, ...]] = ()
    encoder_claims: SkipJsonSchema[tuple[ClaimSupport, ...]] = ()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.unsupported and not self.claims:
            raise ValueError(
                "it lists unsupported claims, and says that the answer claims nothing"
            )
        return self

    @property
    def verdict(self) -> PollVerdict:
        """Abstains of an answer that claims nothing; yes where all claims are supported."""
        if not self.claims:
            return "abstains"
        return "no" if self.unsupported else "yes"

    @property
    def poll(self) -> "Poll":
        """The same with its verdict written out."""
        return Poll(
            reason=self.reason,
            verdict=self.verdict,
            unsupported=self.unsupported,
            sentences=self.sentences,
            encoder_claims=self.encoder_claims,
        )


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
    claims = [text for text in unsupported if _can_be_listed(text)]
    return AdherenceReply(
        reason=reason,
        unsupported=(claims or [reason]) if verdict == "no" else [],
        claims=verdict != "abstains",
        **evidence,
    )


def _can_be_listed(text: str) -> bool:
    """Tell whether a claim is a text in a list: "?!" and "None" are not."""
    has_words = any(character.isalnum() for character in text)
    return has_words and plain_label(text) != "none"


class Poll(SilentData, extra="ignore"):
    """One judgement whether the answer is based purely on the contexts.

    It ``abstains`` where the answer makes no claim.
    ``unsupported`` are claims that no context supports. ``sentences`` are the evidence
    of a lexical judge, per sentence of the answer; ``encoder_claims`` that of an
    encoder, per claim, behind which stands what claims nothing, or that of a judge of
    typed questions, per sentence.
    """

    reason: Comment = ""
    verdict: PollVerdict
    unsupported: tuple[str, ...] = ()
    sentences: SkipJsonSchema[tuple[SentenceSupport, ...]] = ()
    encoder_claims: SkipJsonSchema[tuple[ClaimSupport, ...]] = ()


def polls_of(asked: Asked[Any]) -> Asked[Poll]:
    """Return polls with their verdicts written out, whatever form the replies have."""
    polls = tuple(
        reply if isinstance(reply, Poll) else reply.poll for reply in asked.replies
    )
    return replace(asked, replies=polls)


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
        return Poll(reason=self.reason, verdict=self.verdict, unsupported=unsupported)


class RestsOn(Question[LabelledPoll]):
    """What does each claim of the answer rest on?

    Parts: contexts, earlier, user, own, answer.
    """


EXAMPLES = (
    AdherenceReply.model_construct(
        reason="The claim stands in context 1. " * 6, unsupported=(), claims=True
    ),
    AdherenceReply.model_construct(
        reason="No context says that. " * 50,
        unsupported=("A claim.",) * 3,
        claims=True,
    ),
)
_LABELLED_EXAMPLES = (
    LabelledPoll(
        reason="It stands there. " * 9,
        claims=(Claim(claim="A claim.", needs="evidence"),) * 3,
    ),
    LabelledPoll(
        reason="It stands there. " * 42,
        claims=(Claim(claim="A claim.", needs="none"),) * 3,
    ),
)
_NO_CLAIM = Poll.model_construct(
    verdict="abstains", reason="The answer makes no claim."
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
        example=_LABELLED_EXAMPLES,
    )


def was_too_long(reply: Asked[Any] | NotAnswered) -> bool:
    """Tell whether the request was longer than the judge's window.

    No poll was answered for that reason.
    """
    return isinstance(reply, NotAnswered) and isinstance(
        reply.error, ContextWindowExceeded
    )


def poll_by_claims(
    question_about_answer: Adherent, listing: Instructions
) -> Generator[Batch, Replies, Asked[Poll] | NotAnswered]:
    """Judge an answer claim by claim, where the contexts are too long for the judge.

    The contexts are divided into windows, and each claim is looked for in one window
    after the other. Example: window 1 supports claim A, so window 2 is asked about claim
    B only. It does not support B, so the answer is not adherent.

    A poll is one reply of the judge: yes or no, with a reason. Where the answer was to
    be polled 5 times, each claim is. The first poll on the answer says yes if the first
    poll on each claim does, and so on.

    Args:
        question_about_answer: The question that was too long.
        listing: The instructions for the judge to list the claims of the answer.

    Returns:
        The polls on the answer. ``NotAnswered`` if the claims could not be listed, or if
        the judge did not answer for another reason than the length of a window.
    """
    (listed,) = yield from ask([_question_for_claims(question_about_answer, listing)])
    if isinstance(listed, NotAnswered):
        return listed
    # by claim, for each poll what it says over the windows so far; None if not known
    polls_by_claim: dict[str, list[Poll | None]] = {
        claim: [] for claim in listed.reply.facts
    }
    failures: list[JudgeError] = []
    waiting_windows = _first_windows(question_about_answer)
    n_windows = 0
    while waiting_windows and _open_claims(polls_by_claim):
        window = waiting_windows.pop(0)
        open_claims = _open_claims(polls_by_claim)
        replies = yield from ask(
            [
                _question_about_claim(question_about_answer, window, claim)
                for claim in open_claims
            ]
        )
        error = error_of_unanswered(replies)
        # still too long for the judge: shorter pieces of it are asked about next
        is_too_long = isinstance(error, ContextWindowExceeded)
        shorter_windows = divide_texts(window) if is_too_long else ()
        if error is not None and not shorter_windows:
            return NotAnswered(error)
        waiting_windows = [*shorter_windows, *waiting_windows]
        if shorter_windows:
            continue
        n_windows += 1
        for claim, reply in zip(open_claims, replies, strict=True):
            if isinstance(reply, Asked):
                failures += reply.failures
                polls_by_claim[claim] = _with_window(polls_by_claim[claim], reply)
    polls = _polls_on_answer(polls_by_claim)
    answered = tuple(poll for poll in polls if poll is not None)
    failure = failures[0] if failures else TooFewPolls("a claim lacks a poll")
    return Asked(
        replies=answered,
        failures=(failure,) * (len(polls) - len(answered)),
        windows=(n_windows,) if n_windows else (),
        together=True,  # all polls were asked: none is saved by stopping early
    )


def _question_for_claims(
    question_about_answer: Adherent, listing: Instructions
) -> ExtractFacts:
    """Return the question which claims the answer makes."""
    question = {"question": question_about_answer.parts["question"]}
    return question_for_facts(question_about_answer["answer"], listing, question)


def _open_claims(polls_by_claim: Mapping[str, Sequence[Poll | None]]) -> list[str]:
    """Return the claims that no window has settled so far.

    A claim is settled where each poll found it supported, or found it to be no claim.
    """
    open_claims: list[str] = []
    for claim, polls in polls_by_claim.items():
        is_any_open = any(poll is None or poll.verdict == "no" for poll in polls)
        if is_any_open or not polls:
            open_claims.append(claim)
    return open_claims


def _first_windows(question_about_answer: Adherent) -> list[tuple[str, ...]]:
    """Return the windows of the contexts to begin with: two halves.

    Where the answer is longer than the contexts, the answer may be what is too long:
    then all contexts are one window. So they are where they cannot be divided.
    """
    contexts: tuple[str, ...] = question_about_answer["contexts"]
    if len(question_about_answer["answer"]) > sum(len(text) for text in contexts):
        return [contexts]
    return list(divide_texts(contexts)) or [contexts]


def _question_about_claim(
    question_about_answer: Adherent, window: tuple[str, ...], claim: str
) -> Adherent:
    """Return the question whether a window of the contexts supports a claim."""
    parts = {
        **question_about_answer.parts,
        "contexts": replace(question_about_answer.parts["contexts"], text=window),
        "answer": replace(question_about_answer.parts["answer"], text=claim),
    }
    return replace(question_about_answer, parts=parts)


def _with_window(
    polls_before: Sequence[Poll | None], reply: Asked[Any]
) -> list[Poll | None]:
    """Return what each poll says of a claim, with one more window.

    The first poll of each window is taken for the same poll, and so on.
    """
    missing = [None] * len(reply.failures)
    polls: list[Poll | None] = [*polls_of(reply).replies, *missing]
    return [
        _over_both_windows(before, poll)
        for before, poll in zip_longest(polls_before or polls, polls)
    ]


def _over_both_windows(first: Poll | None, second: Poll | None) -> Poll | None:
    """Return what one poll says of a claim: yes if it says so in any window, else no.

    None if it says yes in none and was not answered in all.
    """
    for poll in (first, second):
        if poll is not None and poll.verdict == "yes":
            return poll
    if first is None or second is None:
        return None
    return max(first, second, key=lambda poll: (poll.verdict == "no", len(poll.reason)))


def _polls_on_answer(
    polls_by_claim: Mapping[str, Sequence[Poll | None]],
) -> list[Poll | None]:
    """Make polls about the whole answer out of the polls about its claims.

    Claim A got yes and yes, claim B yes and no: the answer gets yes and no. An answer
    without claims gets one poll that abstains.
    """
    if not polls_by_claim:
        return [_NO_CLAIM]
    return [
        _poll_on_answer(dict(zip(polls_by_claim, polls, strict=True)))
        for polls in zip_longest(*polls_by_claim.values())
    ]


def _poll_on_answer(poll_by_claim: Mapping[str, Poll | None]) -> Poll | None:
    """Combine one poll's verdicts on the claims into a verdict on the answer.

    It is "no" if any claim is not supported: claim A got yes and B no, so "no". Else it
    is "yes" if a claim is supported, and "abstains" if none is. None if no claim is
    unsupported, but the verdict on a claim is missing: it might be a no.
    """
    answered = {
        claim: poll for claim, poll in poll_by_claim.items() if poll is not None
    }
    unsupported = {
        claim: poll.reason for claim, poll in answered.items() if poll.verdict == "no"
    }
    if unsupported:
        reason = max(unsupported.values(), key=len)
        return Poll(verdict="no", reason=reason, unsupported=tuple(unsupported))
    if len(answered) < len(poll_by_claim):
        return None
    n_supported = sum(poll.verdict == "yes" for poll in answered.values())
    if n_supported == 0:
        return _NO_CLAIM
    reason = (
        f"Each of the {n_supported} claims is supported by some part of the contexts."
    )
    return Poll(verdict="yes", reason=reason)
