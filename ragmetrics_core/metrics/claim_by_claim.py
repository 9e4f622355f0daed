"""Context adherence over contexts longer than the judge's window: claim by claim, window by window.

The answer is split into claims once. A claim is supported if some window supports it, the answer if all of its claims
are; this for each poll by itself, so that the share of polls keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import zip_longest

from ragmetrics_core.data.errors import ContextWindowExceeded
from ragmetrics_core.data.questions import (
    Adherent,
    Batch,
    ExtractFacts,
    Instructions,
    NotAnswered,
    Poll,
    Polls,
    Replies,
    ask,
)
from ragmetrics_core.data.windows import divided

Found = dict[str, list[Polls]]
"""By claim, the polls of each window that was asked about it."""


def too_long(reply: Polls | NotAnswered) -> bool:
    """True if no poll was answered because the request is longer than the judge's window."""
    if isinstance(reply, NotAnswered):
        return isinstance(reply.error, ContextWindowExceeded)
    return not reply.answers and any(isinstance(error, ContextWindowExceeded) for error in reply.failures)


def by_claims(whole: Adherent, extraction: Instructions) -> Generator[Batch, Replies, Polls | NotAnswered]:
    """Poll about each claim in each window, as far as it is not supported yet.

    Args:
        whole: The question that was too long.
        extraction: How claims are listed.

    Returns:
        As many polls as asked for, each about the whole answer; or why there are none.
    """
    (claims,) = yield from ask([ExtractFacts(instructions=extraction, question=whole.question, reference=whole.answer)])
    if isinstance(claims, NotAnswered):
        return claims
    claims = tuple(dict.fromkeys(claim for claim in claims if claim.strip()))
    if not claims:
        return Polls(1, (Poll("abstains", "The answer makes no claim."),))
    found: Found = {claim: [] for claim in claims}
    windows = (whole.contexts,) if len(whole.answer) > sum(map(len, whole.contexts)) else divided(whole.contexts)
    waiting, judged = [*reversed(windows or (whole.contexts,))], 0
    while waiting and (pending := [claim for claim in claims if not _settled(found[claim])]):
        window = waiting.pop()
        replies = yield from _polled(whole, window, sorted(pending, key=len, reverse=True))
        if isinstance(replies, NotAnswered):
            smaller = divided(window) if too_long(replies) else ()
            if not smaller:
                return replies
            waiting += reversed(smaller)
            continue
        judged += 1
        for claim, polls in replies.items():
            found[claim].append(polls)
    return _combined(found, judged)


def _polled(
    whole: Adherent, window: tuple[str, ...], claims: Sequence[str]
) -> Generator[Batch, Replies, dict[str, Polls] | NotAnswered]:
    """Poll about claims in one window; about the longest first, which shows whether the window is small enough."""
    first, *others = (replace(whole, contexts=window, answer=claim) for claim in claims)
    (reply,) = yield from ask([first])
    if too_long(reply):
        return reply if isinstance(reply, NotAnswered) else NotAnswered(reply.failures[0])
    polled: dict[str, Polls] = {}
    for claim, answer in zip(claims, (reply, *(yield from ask(others))), strict=True):
        if isinstance(answer, NotAnswered):
            return answer
        polled[claim] = answer
    return polled


def _settled(polls: Sequence[Polls]) -> bool:
    """True if each poll found the claim supported by a window asked so far, or to be none."""
    verdicts = _over_windows(polls)
    return bool(verdicts) and all(verdict is not None and verdict.verdict != "no" for verdict in verdicts)


def _over_windows(polls: Sequence[Polls]) -> list[Poll | None]:
    """Per poll, what it says of a claim: yes if it says so in any window, else no; None if that is not known."""
    count = max((reply.asked for reply in polls), default=0)
    return [_any([reply.answers[number : number + 1] for reply in polls]) for number in range(count)]


def _any(windows: Sequence[Sequence[Poll]]) -> Poll | None:
    given = [poll for window in windows for poll in window]
    supported = next((poll for poll in given if poll.verdict == "yes"), None)
    if supported is not None:
        return supported
    complete = given and len(given) == len(windows)
    return max(given, key=lambda poll: (poll.verdict == "no", len(poll.reason))) if complete else None


def _combined(found: Found, windows: int) -> Polls:
    """Polls about the whole answer, each from its verdicts on the claims."""
    columns = [dict(zip(found, row, strict=True)) for row in zip_longest(*map(_over_windows, found.values()))]
    answers = [poll for poll in map(_all, columns) if poll is not None]
    failures = [error for polls in found.values() for reply in polls for error in reply.failures]
    missing = len(columns) - len(answers)
    return Polls(len(columns), tuple(answers), tuple(failures[:missing]), batched=True, windows=windows)


def _all(verdicts: dict[str, Poll | None]) -> Poll | None:
    """One poll's verdict on the answer: yes if each claim is supported; None if that is not known."""
    against = {claim: poll for claim, poll in verdicts.items() if poll is not None and poll.verdict == "no"}
    if against:
        return Poll("no", max((poll.reason for poll in against.values()), key=len), tuple(against))
    if None in verdicts.values():
        return None
    claims = sum(poll is not None and poll.verdict == "yes" for poll in verdicts.values())
    if not claims:
        return Poll("abstains", "The answer makes no claim.")
    return Poll("yes", f"Each of the {claims} claims is supported by some part of the contexts.")
