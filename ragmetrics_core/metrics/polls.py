"""Polls whether an answer rests on its contexts, also on contexts that are too long.

For contexts that are too long, the answer is split into claims once. A claim is
supported if some window of the contexts supports it. The answer is supported if all of
its claims are. This holds for each poll by itself, so that the share of polls keeps its
meaning.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from ragmetrics_core.data import (
    Asked,
    Claim,
    Comment,
    ContextWindowExceeded,
    NotAnswered,
    Share,
    Silent,
    TooFewPolls,
)
from ragmetrics_core.data.asking import (
    Batch,
    Instructions,
    Part,
    Question,
    Replies,
    ask,
    divided,
)
from ragmetrics_core.metrics.fact_matrix import distinct, extraction
from ragmetrics_core.metrics.ledger_calls import Groups
from ragmetrics_core.metrics.templates import prompt

PollVerdict = Literal["yes", "no", "abstains"]
_UNHELD = {"own", "none"}


class SentenceSupport(Silent, extra="ignore"):
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
    uncovered: tuple[str, ...] = Field((), description="Content terms found nowhere.")
    numbers: tuple[str, ...] = Field((), description="Numbers found nowhere.")


class Poll(Silent, extra="ignore"):
    """One judgement whether the answer is based purely on the contexts.

    It is explained before its verdict. It ``abstains`` where the answer makes no claim.
    ``unsupported`` are claims that no context supports. ``sentences`` are the evidence
    of a lexical judge, per sentence of the answer.
    """

    reason: Comment = ""
    verdict: Annotated[
        PollVerdict,
        BeforeValidator(lambda it: it.strip().lower() if isinstance(it, str) else it),
    ]
    unsupported: Annotated[
        tuple[str, ...], BeforeValidator(lambda it: () if it is None else distinct(it))
    ] = ()
    sentences: SkipJsonSchema[tuple[SentenceSupport, ...]] = ()


class Adherent(Question[Poll]):
    """Is the answer based purely on the contexts? Parts: contexts, question, answer."""


class LabelledPoll(Silent, extra="ignore"):
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
        return (
            "no"
            if needs & _UNHELD
            else "yes"
            if needs & {"evidence", "earlier"}
            else "abstains"
        )

    @property
    def poll(self) -> Poll:
        """The same without labels."""
        unheld = tuple(claim.claim for claim in self.claims if claim.needs in _UNHELD)
        return Poll(reason=self.reason, verdict=self.verdict, unsupported=unheld)


class RestsOn(Question[LabelledPoll]):
    """What does each claim of the answer rest on?

    Parts: contexts, earlier, user, own, answer.
    """


EXAMPLES = (
    Poll.model_construct(verdict="yes", reason="The claim stands in context 1. " * 6),
    Poll.model_construct(
        verdict="no",
        reason="No context says that. " * 50,
        unsupported=("A claim.",) * 3,
    ),
)
_NO_CLAIM = Poll.model_construct(
    verdict="abstains", reason="The answer makes no claim."
)


def rests_on(found: Groups, whole: Adherent, language: str | None) -> RestsOn:
    """Return the question what claims rest on.

    It is asked as often as the question about the whole answer.
    """
    said = (
        {
            "reason": "It stands there. " * n,
            "claims": [{"claim": "A claim.", "needs": needs}] * 3,
        }
        for n, needs in ((9, "evidence"), (42, "none"))
    )
    short, long = map(LabelledPoll.model_validate, said)
    parts = {
        "contexts": Part("Context", found.evidence),
        "earlier": Part("Earlier context", found.earlier),
    }
    parts |= {
        "user": Part("User", found.user),
        "own": Part("Assistant", found.assistant),
    }
    return RestsOn(
        parts={**parts, "answer": whole.parts["answer"]},
        instructions=prompt(
            "adherent_labelled",
            None,
            "contexts earlier user own answer",
            language=language,
        ),
        Reply=LabelledPoll,
        polls=whole.polls,
        temperature=whole.temperature,
        example=(short, long),
    )


def too_long(reply: Asked[Any] | NotAnswered) -> bool:
    """True if the request was longer than the judge's window.

    No poll was answered for that reason.
    """
    return isinstance(reply, NotAnswered) and isinstance(
        reply.error, ContextWindowExceeded
    )


def by_claims(
    whole: Adherent, listing: Instructions
) -> Generator[Batch, Replies, Asked[Poll] | NotAnswered]:
    """Polls about the answer, as many as asked for, made of polls about its claims.

    Or why there are none.
    """
    question = {"question": replace(whole.parts["question"], rewrite=None, history=())}
    (listed,) = yield from ask([extraction(whole["answer"], listing, question)])
    if isinstance(listed, NotAnswered):
        return listed
    found: dict[str, list[Asked[Poll]]] = {claim: [] for claim in listed.reply.facts}
    if not found:
        return Asked((_NO_CLAIM,))
    contexts = whole["contexts"]
    windows = (
        (contexts,)
        if len(whole["answer"]) > sum(map(len, contexts))
        else divided(contexts)
    )
    waiting, judged = [*reversed(windows or (contexts,))], 0
    while waiting and (
        pending := sorted(
            filter(lambda claim: not _settled(found[claim]), found), key=len
        )
    ):
        # the longest shows whether the window is small enough
        window, first = waiting.pop(), pending.pop()
        replies: tuple[Any, ...] = yield from ask([_about(whole, window, first)])
        if isinstance(replies[0], Asked):
            replies += yield from ask(
                [_about(whole, window, claim) for claim in pending]
            )
        failed = next(
            (reply for reply in replies if isinstance(reply, NotAnswered)), None
        )
        if failed is None:
            judged += 1
            for claim, polls in zip((first, *pending), replies, strict=True):
                found[claim].append(polls)
        elif too_long(failed) and (smaller := divided(window)):
            waiting += reversed(smaller)
        else:
            return failed
    return _combined(found, judged)


def _about(whole: Adherent, window: tuple[str, ...], claim: str) -> Adherent:
    contexts, answer = (
        replace(whole.parts["contexts"], text=window),
        replace(whole.parts["answer"], text=claim),
    )
    return replace(whole, parts={**whole.parts, "contexts": contexts, "answer": answer})


def _settled(windows: Sequence[Asked[Poll]]) -> bool:
    """True if each poll settled the claim in the windows asked so far.

    A poll has settled it if it found the claim supported by a window, or found it to be
    no claim.
    """
    verdicts = _over_windows(windows)
    return bool(verdicts) and all(
        verdict is not None and verdict.verdict != "no" for verdict in verdicts
    )


def _over_windows(windows: Sequence[Asked[Poll]]) -> list[Poll | None]:
    """Per poll, what it says of a claim: yes if it says so in any window, else no; None if that is not known."""
    columns = zip_longest(
        *((*polls.replies, *(None,) * len(polls.failures)) for polls in windows)
    )
    return list(map(_any, columns))


def _any(windows: Sequence[Poll | None]) -> Poll | None:
    given = [poll for poll in windows if poll is not None]
    supported = next((poll for poll in given if poll.verdict == "yes"), None)
    if supported is not None or len(given) < len(windows):
        return supported
    return max(given, key=lambda poll: (poll.verdict == "no", len(poll.reason)))


def _combined(found: Mapping[str, Sequence[Asked[Poll]]], windows: int) -> Asked[Poll]:
    """Polls about the whole answer, each from its verdicts on the claims."""
    columns = list(zip_longest(*map(_over_windows, found.values())))
    answers = [
        poll
        for poll in (_all(dict(zip(found, column, strict=True))) for column in columns)
        if poll is not None
    ]
    failures = [
        error for polls in found.values() for reply in polls for error in reply.failures
    ]
    missing = len(columns) - len(answers)
    failures += [TooFewPolls("a claim was polled less often than others")] * missing
    return Asked(
        tuple(answers), tuple(failures[:missing]), (), (windows,), together=True
    )


def _all(verdicts: Mapping[str, Poll | None]) -> Poll | None:
    """One poll's verdict on the answer: yes if each claim is supported; None if that is not known."""
    against = {
        claim: poll
        for claim, poll in verdicts.items()
        if poll is not None and poll.verdict == "no"
    }
    if against:
        reason = max((poll.reason for poll in against.values()), key=len)
        return Poll(verdict="no", reason=reason, unsupported=tuple(against))
    if None in verdicts.values():
        return None
    claims = sum(
        poll is not None and poll.verdict == "yes" for poll in verdicts.values()
    )
    reason = f"Each of the {claims} claims is supported by some part of the contexts."
    return Poll(verdict="yes", reason=reason) if claims else _NO_CLAIM
