"""A judge of a user's own in a run: asked where it holds up nobody, counted, checked.

A judge of ours hands the limits of a run to the session of its model. A judge of a
user's own has none, unless it writes a ``session``: so each request to it counts here,
as one call or as many as its answers say.
"""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
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
from ragmetrics_core.data.crashes import crash_in_words
from ragmetrics_core.data.errors import (
    JudgeCrashed,
    JudgeError,
    LimitReached,
    RagMetricsError,
    SettingError,
)
from ragmetrics_core.engine.loop import submit_users_code
from ragmetrics_core.judging.cascade import CascadeJudge
from ragmetrics_core.judging.judge import Judge, check_answer
from ragmetrics_core.models.features import gather_all
from ragmetrics_core.models.limits import Budget, RateLimiter
from ragmetrics_core.models.reply_store import StoreLike
from ragmetrics_core.models.threads import is_being_cancelled

_OUR_MODULES = "ragmetrics_core."

_logger = logging.getLogger("ragmetrics_core")


def is_ours(judge: Judge) -> bool:
    """Whether the class of a judge is one of ragmetrics."""
    return type(judge).__module__.startswith(_OUR_MODULES)


def counts_by_itself(judge: Judge) -> bool:
    """Whether a judge keeps the limits of a run: in a session of its own, or it is free."""
    return judge.free or type(judge).session is not Judge.session


def parts_of(judge: Judge) -> list[Judge]:
    """Return the judges that are asked: both of a cascade, else just the judge."""
    if isinstance(judge, CascadeJudge):
        return [*parts_of(judge.cheap), *parts_of(judge.strong)]
    return [judge]


def judge_in_run(session: Judge, *, concurrency: int, budget: Budget) -> Judge:
    """Wrap each judge of a user's own in a session, so that its requests are counted.

    Args:
        session: The session that a judge opened for the run.
        concurrency: Most requests to a judge of a user's own in flight.
        budget: What the run may spend.
    """
    if isinstance(session, CascadeJudge):
        return session.with_parts(
            lambda part: judge_in_run(part, concurrency=concurrency, budget=budget)
        )
    if not counts_by_itself(session):
        return OwnJudge(session, concurrency, budget)
    return session if is_ours(session) else OwnJudge(session, concurrency, None)


class OwnJudge(Judge):
    """A judge of a user's own in one run: asked on its own loop, checked and counted.

    It also wraps a judge of ours that calls no model, such as the scripted judge. Under
    a limit on money its requests go one by one, because their cost is known at their
    end. Where its own code calls ``score``, these calls count beside its requests.

    Args:
        judge: The session that the judge opened for the run.
        concurrency: Most requests in flight.
        budget: What the run may spend; None for a judge that keeps to it by itself.
    """

    def __init__(self, judge: Judge, concurrency: int, budget: Budget | None) -> None:
        self._judge = judge
        has_max_cost = budget is not None and budget.limits.max_cost is not None
        self._slots = asyncio.Semaphore(1 if has_max_cost else concurrency)
        self._budget = budget
        self._rate: RateLimiter | None = None
        if budget is not None and budget.limits.requests_per_minute is not None:
            self._rate = RateLimiter(budget, budget.limits.requests_per_minute)
        self.name = judge.name
        self.models = judge.models
        self.free = judge.free
        self.asks_together = judge.asks_together

    @property
    def details(self) -> dict[str, str]:
        """The details of the wrapped judge."""
        return self._judge.details

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        """Answer as the judge does.

        Raises:
            JudgeError: If the judge raised it, or crashed, or gave no answer.
        """

        async def ask() -> list[Any]:
            return [await self._carry_out(lambda: self._judge.answer(question))]

        return (await self._within_limits([question], ask))[0]

    async def answer_all(self, questions: Sequence[Question[Any]]) -> list[Answer[Any]]:
        """Answer as the judge does: all in one request if it can, else one by one.

        Raises:
            JudgeError: If the judge raised it, or crashed, or gave no answers.
        """
        if not self.asks_together:
            return await gather_all(self.answer(question) for question in questions)

        async def ask() -> list[Any]:
            answers = await self._carry_out(lambda: self._judge.answer_all(questions))
            is_list = isinstance(answers, (list, tuple))
            if is_list and len(answers) == len(questions):
                return list(answers)
            raise JudgeError(
                f"the judge {self.name} gave no answers:"
                f" {type(self._judge).__name__}.answer_all must return a list with one"
                f" Answer for each of {len(questions)} questions; got"
                f" {_kind_and_length(answers)}"
            )

        return await self._within_limits(questions, ask)

    async def _within_limits(
        self, questions: Sequence[Question[Any]], ask: Callable[[], Any]
    ) -> list[Answer[Any]]:
        """Ask as soon as the limits of the run allow it, and count what that cost.

        If a limit is reached before, nothing is sent, and each answer is that error.
        """
        budget = self._budget
        if budget is None:
            return self._checked(questions, await ask())
        async with self._slots:
            try:
                if self._rate is not None:
                    await self._rate.acquire()
                await budget.wait_for_room()
            except LimitReached as error:
                not_asked = NotAnswered(error.with_traceback(None))
                return [Answer(not_asked) for _ in questions]
            budget.calls += 1
            answers = self._checked(questions, await ask())
            usage = _usage_of(answers)
            budget.count(max(usage.calls - 1, 0), usage.cost)  # one call is counted
        return answers

    def _checked(
        self, questions: Sequence[Question[Any]], answers: Sequence[Any]
    ) -> list[Answer[Any]]:
        """Return the judge's answers, checked; ``JudgeError`` for one that is none.

        Where the question wants probabilities and the judge of a user's own gives
        verdicts alone, the probability is the share of replies that say yes.
        """
        checked: list[Answer[Any]] = []
        for question, answer in zip(questions, answers, strict=True):
            check_answer(self._judge, answer, question)
            reply = answer.reply
            wanted = None if is_ours(self._judge) else question.wanted_probability
            if wanted and isinstance(reply, Asked) and not reply.weights:
                weights = weights_by_share(reply.replies, wanted)
                answer = replace(answer, reply=replace(reply, weights=weights))
            checked.append(cast("Answer[Any]", answer))
        return checked

    async def _carry_out(self, call: Callable[[], object]) -> Any:
        """Call a method of the judge on an event loop where it holds up nobody.

        Raises:
            JudgeError: What the judge raised; ``JudgeCrashed`` if that is no
                ``JudgeError``.
            SettingError: If a judge of ours raises it, e.g. for a question that it
                cannot answer.
        """
        # A judge of ours computes briefly, and so does one that calls models.
        calls_models = self.models or type(self._judge).session is not Judge.session
        may_block = not is_ours(self._judge) and not calls_models
        try:
            if may_block:
                return await asyncio.wrap_future(submit_users_code(self._await(call)))
            return await self._await(call)
        except JudgeError:
            raise
        except RagMetricsError as error:
            if is_ours(self._judge):  # the error already names the cause
                raise
            raise self._crash(error) from error
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            # nobody cancels this task: the judge's code raised it by itself
            raise self._crash(error) from error
        except (
            Exception,
            SystemExit,
            KeyboardInterrupt,
        ) as error:  # code of a user's own may raise anything
            raise self._crash(error) from error

    async def _await(self, call: Callable[[], object]) -> Any:
        answer = call()
        if not isawaitable(answer):
            raise JudgeError(
                f"the judge {self.name} gave no answer: its answer must be an 'async"
                " def'"
            )
        return await answer

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


def _usage_of(answers: Iterable[Answer[Any]]) -> Usage:
    """Return what several answers cost.

    The cost is unknown (None) if no answer says anything of its usage.
    """
    total = Usage()
    for answer in answers:
        total += answer.usage
    return Usage(cost=None) if total == Usage() else total


def _kind_and_length(value: object) -> str:
    """Name the kind of a value, and its length if it is a list; for a message."""
    kind = type(value).__name__
    return f"{kind} of {len(value)}" if isinstance(value, (list, tuple)) else kind


def refuse_store_without_effect(judges: Iterable[Judge], store: StoreLike) -> None:
    """Refuse a named store without effect on a user's own judge.

    Nobody stores its replies, unless it has a ``session``.

    Raises:
        SettingError: If a store is named for the run.
    """
    is_store_named = store is True or isinstance(store, (str, os.PathLike))
    for judge in judges:
        parts = parts_of(judge)
        uncounted = [part.name for part in parts if not counts_by_itself(part)]
        if not uncounted:
            continue
        has_session = any(type(part).session is not Judge.session for part in parts)
        if is_store_named and not has_session:
            raise SettingError(
                f"store= keeps nothing of the judge {uncounted[0]}, which asks no model"
                " of ragmetrics: it is asked anew in each run; leave store= out, or give"
                " the judge a session() that keeps its replies"
            )
