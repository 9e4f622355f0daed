"""Context adherence over contexts longer than the judge's window: claim by claim, window by window.

The answer is split into claims once. A claim is supported if some window supports it, the answer if all of its claims
are; this for each poll by itself, so that the share of polls keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import zip_longest

from ragmetrics_core.data.questions import Batch, Instructions, NotAnswered, Replies, ask
from ragmetrics_core.data.windows import divided
from ragmetrics_core.metrics.fact_extraction import extraction
from ragmetrics_core.metrics.polls import Adherent, Poll, Polls, too_long

Found = dict[str, list[Polls]]
"""By claim, the polls of each window that was asked about it."""

_NO_CLAIM = Poll(verdict="abstains", reason="The answer makes no claim.")


def by_claims(whole: Adherent, listing: Instructions) -> Generator[Batch, Replies, Polls | NotAnswered]:
    """Poll about each claim in each window, as far as it is not supported yet.

    Args:
        whole: The question that was too long.
        listing: How claims are listed.

    Returns:
        As many polls as asked for, each about the whole answer; or why there are none.
    """
    asked = {"question": replace(whole.parts["question"], rewrite=None, history=())}
    (listed,) = yield from ask([extraction(whole["answer"], listing, asked)])
    if isinstance(listed, NotAnswered):
        return listed
    claims = tuple(dict.fromkeys(listed.reply.facts))
    if not claims:
        return Polls(1, (_NO_CLAIM,))
    found: Found = {claim: [] for claim in claims}
    contexts = whole["contexts"]
    windows = (contexts,) if len(whole["answer"]) > sum(map(len, contexts)) else divided(contexts)
    waiting, judged = [*reversed(windows or (contexts,))], 0
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
    first, *others = (_about(whole, window, claim) for claim in claims)
    (reply,) = yield from ask([first])
    if isinstance(reply, NotAnswered):
        return reply
    polled: dict[str, Polls] = {}
    for claim, answer in zip(claims, (reply, *(yield from ask(others))), strict=True):
        if isinstance(answer, NotAnswered):
            return answer
        polled[claim] = Polls.of(answer)
    return polled


def _about(whole: Adherent, window: tuple[str, ...], claim: str) -> Adherent:
    changed = {
        "contexts": replace(whole.parts["contexts"], text=window),
        "answer": replace(whole.parts["answer"], text=claim),
    }
    return replace(whole, parts={**whole.parts, **changed})


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
    return Polls(len(columns), tuple(answers), tuple(failures[:missing]), together=True, windows=windows)


def _all(verdicts: dict[str, Poll | None]) -> Poll | None:
    """One poll's verdict on the answer: yes if each claim is supported; None if that is not known."""
    against = {claim: poll for claim, poll in verdicts.items() if poll is not None and poll.verdict == "no"}
    if against:
        return Poll(
            verdict="no",
            reason=max((poll.reason for poll in against.values()), key=len),
            unsupported=tuple(against),
        )
    if None in verdicts.values():
        return None
    claims = sum(poll is not None and poll.verdict == "yes" for poll in verdicts.values())
    if not claims:
        return _NO_CLAIM
    return Poll(verdict="yes", reason=f"Each of the {claims} claims is supported by some part of the contexts.")
