"""A judge of a user's own in a run: counted, and its answers checked.

A judge of ours hands the limits of a run to the session of its model. A judge of a
user's own has none, unless it writes a ``session``: so each request to it counts here,
as one call or as many as its answers say.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from dataclasses import replace
from inspect import isawaitable
from typing import Any, cast

from ragmetrics_core.data import (
    Answer,
    Asked,
    NotAnswered,
    Question,
    Usage,
    weights_by_share,
)
from ragmetrics_core.data.errors import (
    JudgeCrashed,
    JudgeError,
    LimitReached,
    RagMetricsError,
    crash_in_words,
    is_ours,
)
from ragmetrics_core.judging.judge import Judge, check_answer
from ragmetrics_core.models.limits import Budget, RateLimiter
from ragmetrics_core.models.threads import await_users_code, is_being_cancelled

_logger = logging.getLogger("ragmetrics_core")


def counts_by_itself(judge: Judge) -> bool:
    """Whether a judge keeps the limits of a run: in a session of its own, or it is free."""
    return judge.free or type(judge).session is not Judge.session


def judge_in_run(session: Judge, *, concurrency: int, budget: Budget) -> Judge:
    """Wrap a judge of a user's own in a session, so that its requests are counted.

    Args:
        session: The session that a judge opened for the run.
        concurrency: Most requests to a judge of a user's own in flight.
        budget: What the run may spend.
    """
    if not counts_by_itself(session):
        return UserJudge(session, concurrency, budget)
    return session if is_ours(type(session)) else UserJudge(session, concurrency, None)


class UserJudge(Judge):
    """A judge of a user's own in one run: counted, and its answers checked.

    It is awaited beside the event loop of all judges, unless it has a session of its
    own. It also wraps a judge of ours that
    calls no model, such as the scripted judge.

    Args:
        judge: The session that the judge opened for the run.
        concurrency: Most requests in flight.
        budget: What the run may spend; None for a judge that keeps to it by itself.
    """

    def __init__(self, judge: Judge, concurrency: int, budget: Budget | None) -> None:
        self._judge = judge
        self._slots = asyncio.Semaphore(concurrency)
        self._budget = budget
        self._rate = RateLimiter(budget or Budget())
        self.name = judge.name
        self.models = judge.models
        self.free = judge.free

    @property
    def details(self) -> dict[str, str]:
        """The details of the wrapped judge."""
        return self._judge.details

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        """Answer as the judge does, as soon as the limits of the run allow it.

        What it cost is counted. If a limit is reached before, nothing is sent, and the
        answer is that error.

        Raises:
            JudgeError: If the judge raised it, or crashed, or gave no answer.
        """
        budget = self._budget
        if budget is None:
            return await self._ask(question)
        async with self._slots:
            try:
                await self._rate.acquire()
                number = await budget.acquire()
            except LimitReached as error:
                return Answer(NotAnswered(error.with_traceback(None)))
            usage: Usage | None = None  # of a question that fails or is given up
            try:
                answer = await self._ask(question)
                # an answer that says nothing of its usage leaves its cost unknown
                is_told = answer.usage != Usage()
                usage = answer.usage if is_told else Usage(cost=None)
                budget.calls += max(usage.calls - 1, 0)  # one call is counted
            finally:
                budget.observe(number, usage)
        return answer

    async def _ask(self, question: Question[Any]) -> Answer[Any]:
        """Ask the judge, and check its answer.

        Raises:
            JudgeError: What the judge raised, or an answer that is none;
                ``JudgeCrashed`` for anything else that it raised.
        """
        try:
            answer = await self._call(question)
        except JudgeError:
            raise
        except (
            Exception,
            SystemExit,
            KeyboardInterrupt,
            asyncio.CancelledError,
        ) as error:  # code of a user's own may raise anything
            if is_being_cancelled():
                raise
            if is_ours(type(self._judge)) and isinstance(error, RagMetricsError):
                raise  # the error already names the cause
            raise self._crash(error) from error
        check_answer(self._judge, answer, question)
        # Where a question wants a probability, and a judge of a user's own gives verdicts
        # alone, it is the share of replies that say yes.
        reply = answer.reply
        wanted = question.wanted_probability
        if wanted is None or is_ours(type(self._judge)):
            return answer
        if not isinstance(reply, Asked) or reply.weights:
            return answer
        weights = weights_by_share(reply.replies, wanted)
        return replace(answer, reply=replace(reply, weights=weights))

    async def _call(self, question: Question[Any]) -> Answer[Any]:
        """Call the judge; ``JudgeError`` where its method is no ``async def``."""

        async def call() -> Answer[Any]:
            answer: object = self._judge.answer(question)
            if not isawaitable(answer):
                raise JudgeError(
                    f"the judge {self.name} gave no answer: its answer must be an"
                    " 'async def'"
                )
            return cast("Answer[Any]", await answer)

        # A judge with a session of its own shares the run's limits, on this loop.
        has_own_session = type(self._judge).session is not Judge.session
        if has_own_session:
            return await call()
        return await await_users_code(self._judge, call)

    def _crash(self, error: BaseException) -> JudgeCrashed:
        """Return the error of a judge whose code raised; its message holds no texts."""
        kind = type(self._judge).__name__
        crash = crash_in_words(error)
        if isinstance(error, RagMetricsError):  # our own words, which hold no text
            crash = f"{type(error).__name__}, {error}"
        _logger.warning("the judge %s (%s) crashed: %s", self.name, kind, crash)
        return JudgeCrashed(
            f"the judge {self.name} ({kind}) crashed: {crash}; what it cannot answer it"
            " answers with NotAnswered and a JudgeError; see error.raw",
            raw="".join(traceback.format_exception(error)),
        )
