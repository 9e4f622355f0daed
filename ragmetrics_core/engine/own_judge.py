"""Judges of users' own in a run: asked where they hold up nobody, counted, and checked.

A judge of ours hands the limits of a run to the session of its model, which counts
calls. A judge of a user's own has no such session, unless it writes one. So each
request to it counts as one call here. What cannot be held for it is refused before the
run begins.
"""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
from ragmetrics_core.models.limits import (
    Budget,
    Limits,
    RateLimiter,
    RequestToOwnJudge,
    request_to_own_judge,
)
from ragmetrics_core.models.reply_store import StoreLike
from ragmetrics_core.models.threads import is_being_cancelled

_OUR_MODULES = "ragmetrics_core."

_logger = logging.getLogger("ragmetrics_core")


def is_ours(judge: Judge) -> bool:
    """Whether the class of a judge is one of ragmetrics."""
    return type(judge).__module__.startswith(_OUR_MODULES)


def counts_by_itself(judge: Judge) -> bool:
    """Whether a judge keeps the limits of a run by itself.

    A judge with a session of its own does: the session is handed the limits. A judge
    that is free has nothing to count.
    """
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
    if counts_by_itself(session):
        return session if is_ours(session) else OwnJudge(session, None)
    limits = RequestLimits(session.name, concurrency=concurrency, budget=budget)
    return OwnJudge(session, limits)


class RequestLimits:
    """Keeps the limits of a run for a judge whose calls nobody else counts.

    A request to the judge counts as one call, or as many as its answers say. Where the
    judge's own code calls ``score``, that has already counted its calls in the budget.
    These are not counted again.

    Under a limit on calls or money, a request waits until it is sure to fit beside the
    requests in flight.

    Args:
        judge_name: The judge, whose rate of calls is kept under this name.
        concurrency: Most requests in flight.
        budget: What the run may spend.
    """

    def __init__(self, judge_name: str, *, concurrency: int, budget: Budget) -> None:
        """Begin with no request sent, and with the rate of the budget's limits."""
        self._slots = asyncio.Semaphore(concurrency)
        self._budget = budget
        self._rate: RateLimiter | None = None
        if budget.limits.requests_per_minute is not None:
            self._rate = RateLimiter(budget, ["judge", judge_name])
        self._in_flight: list[RequestToOwnJudge] = []  # sent, and not answered yet
        # US dollars of the dearest request so far; None while no cost is known.
        self._dearest_cost: float | None = None
        # Set when any request ends; then a new event takes its place.
        self._next_end = asyncio.Event()

    async def ask(
        self,
        questions: Sequence[Question[Any]],
        send: Callable[[], Awaitable[list[Answer[Any]]]],
    ) -> list[Answer[Any]]:
        """Send one request as soon as the limits allow it, and count what it cost.

        If a limit of the run is reached before that, nothing is sent, and the answer to
        each question is the limit's error. Example: with ``max_calls=10`` and 10 calls
        sent, 3 questions get three answers with ``LimitReached``.

        Args:
            questions: What the request asks.
            send: Asks the judge, and returns an answer to each question.
        """
        async with self._slots:
            try:
                await self._wait_until_allowed()
            except LimitReached as error:
                not_asked = NotAnswered(error.with_traceback(None))
                return [Answer(not_asked) for _ in questions]
            # Calls that the judge sends through ragmetrics are noted in ``request``.
            with request_to_own_judge(self._budget) as request:
                self._in_flight.append(request)
                usage = Usage(calls=1)  # stays so if ``send`` raises
                try:
                    answers = await send()
                    usage = _usage_of(answers)
                finally:
                    self._end(request, usage)
        return answers

    async def _wait_until_allowed(self) -> None:
        """Wait until the limits allow one more request.

        Raises:
            LimitReached: If a limit of the run is reached before that.
        """
        if self._rate is not None:
            await self._rate.acquire(tokens=0.0)  # only requests are limited
        await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        """Wait until one more request fits the caps beside those in flight.

        Raises:
            LimitReached: If a cap is reached.
        """
        self._budget.check()
        while not self._has_room():
            if self._in_flight:
                await self._next_end.wait()
            else:
                self._budget.end_by_cost()
            self._budget.check()

    def _has_room(self) -> bool:
        """Whether one more request fits under the limits on calls and on money."""
        return self._has_room_for_call() and self._has_room_for_cost()

    def _has_room_for_call(self) -> bool:
        """Whether one more call fits under the limit, if there is any.

        A request in flight counts as one call, until its end shows how many there were.
        """
        max_calls = self._budget.limits.max_calls
        if max_calls is None:
            return True
        # A request with ``calls`` has called ``score``, which has counted them in the
        # budget already.
        n_uncounted = sum(1 for request in self._in_flight if request.calls == 0)
        return self._budget.calls + n_uncounted < max_calls

    def _has_room_for_cost(self) -> bool:
        """Whether the cost of one more request fits under the limit, if there is any.

        What a request costs is known at its end. Until then it counts as much as the
        dearest request so far. Before any cost is known, requests go one by one.
        """
        max_cost = self._budget.limits.max_cost
        if max_cost is None:
            return True
        if self._dearest_cost is None:
            return not self._in_flight
        n_unpaid = len(self._in_flight) + 1  # those in flight, and the one that waits
        return self._budget.spent + n_unpaid * self._dearest_cost <= max_cost

    def _end(self, request: RequestToOwnJudge, usage: Usage) -> None:
        """Count in the budget what a request has cost, and wake those who wait.

        The calls and cost of a ``score`` that the judge itself called are in the budget
        already: the request has noted them, and they are taken off. Example: an answer
        says 3 calls and $0.03. The judge's own ``score`` took 2 calls and $0.02 of
        these: 1 call and $0.01 are counted here.
        """
        self._in_flight.remove(request)
        cost = usage.cost
        if cost is not None:
            self._dearest_cost = max(self._dearest_cost or 0.0, cost)
            cost = max(cost - request.cost, 0.0)
        n_calls = max(usage.calls, 1)
        self._budget.count(max(n_calls - request.calls, 0), cost)
        self._next_end.set()
        self._next_end = asyncio.Event()


def _usage_of(answers: Iterable[Answer[Any]]) -> Usage:
    """Return what several answers cost.

    The cost is unknown (None) if no answer says anything of its usage.
    """
    total = Usage()
    for answer in answers:
        total += answer.usage
    return Usage(cost=None) if total == Usage() else total


class OwnJudge(Judge):
    """A judge of a user's own in one run: asked on its own loop, checked and counted.

    It also wraps a judge of ours that calls no model, such as the scripted judge.

    Args:
        judge: The session that the judge opened for the run.
        limits: Keeps the limits of the run; None for a judge that does so by itself.
    """

    def __init__(self, judge: Judge, limits: RequestLimits | None) -> None:
        self._judge = judge
        self._limits = limits
        self.name = judge.name
        self.models = judge.models
        self.free = judge.free
        self.asks_together = judge.asks_together
        self.takes_correction = judge.takes_correction

    @property
    def details(self) -> dict[str, str]:
        """The details of the wrapped judge."""
        return self._judge.details

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        """Answer as the judge does.

        Raises:
            JudgeError: If the judge raised it, or crashed, or gave no answer.
        """

        async def send() -> list[Answer[Any]]:
            answer = await self._carry_out(lambda: self._judge.answer(question))
            return [self._checked(answer, question)]

        if self._limits is None:
            return (await send())[0]
        return (await self._limits.ask([question], send))[0]

    async def answer_all(self, questions: Sequence[Question[Any]]) -> list[Answer[Any]]:
        """Answer as the judge does: all in one request if it can, else one by one.

        Example: 5 questions are one request if the judge's ``asks_together`` is true,
        else five.

        Raises:
            JudgeError: If the judge raised it, or crashed, or gave no answers.
        """
        if not self.asks_together:
            return await gather_all(self.answer(question) for question in questions)

        async def send() -> list[Answer[Any]]:
            answers = await self._carry_out(lambda: self._judge.answer_all(questions))
            self._check_number(answers, len(questions))
            return [
                self._checked(answer, question)
                for question, answer in zip(questions, answers, strict=True)
            ]

        if self._limits is None:  # the judge keeps the limits of the run by itself
            return await send()
        return await self._limits.ask(questions, send)

    def _checked(self, answer: Any, question: Question[Any]) -> Answer[Any]:
        """Return an answer of the judge, checked.

        Where the question wants probabilities and the judge of a user's own gives
        verdicts alone, the probability is the share of replies that say yes. Example: 3
        of 4 replies say yes: the probability is .75.

        Raises:
            JudgeError: If it is no answer to the question.
        """
        check_answer(self._judge, answer, question)
        reply = answer.reply
        if not isinstance(reply, Asked) or question.wanted_probability is None:
            return cast("Answer[Any]", answer)
        if reply.weights or is_ours(self._judge):
            return cast("Answer[Any]", answer)
        weights = weights_by_share(reply.replies, question.wanted_probability)
        return replace(answer, reply=replace(reply, weights=weights))

    def _check_number(self, answers: object, n_questions: int) -> None:
        """Raise ``JudgeError`` unless a list has one answer for each question."""
        is_list = isinstance(answers, (list, tuple))
        if is_list and len(cast("list[object]", answers)) == n_questions:
            return
        kind = type(self._judge).__name__
        raise JudgeError(
            f"the judge {self.name} gave no answers: {kind}.answer_all must return a"
            f" list with one Answer for each of {n_questions} questions; got"
            f" {_kind_and_length(answers)}"
        )

    async def _carry_out(self, call: Callable[[], object]) -> Any:
        """Call a method of the judge on an event loop where it holds up nobody.

        Example: the judge's code raises ``KeyError``: here that becomes
        ``JudgeCrashed``.

        Args:
            call: Calls the method, and returns its coroutine.

        Raises:
            JudgeError: What the judge raised; ``JudgeCrashed`` if that is no
                ``JudgeError``.
            SettingError: If a judge of ours raises it, e.g. for a question that it
                cannot answer.
        """
        try:
            # Code that a user wrote may block: it runs on an event loop of its own.
            if self._may_hold_up_others():
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

    def _may_hold_up_others(self) -> bool:
        """Whether the judge may compute for long, e.g. with torch.

        A judge of ours does not, nor one that calls models: it names them, or has a
        session of its own.
        """
        has_session = type(self._judge).session is not Judge.session
        calls_models = bool(self.models) or has_session
        return not is_ours(self._judge) and not calls_models

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


def _kind_and_length(value: object) -> str:
    """Name the kind of a value, and its length if it is a list; for a message."""
    kind = type(value).__name__
    return f"{kind} of {len(value)}" if isinstance(value, (list, tuple)) else kind


def refuse_limits_that_do_not_hold(
    judges: Iterable[Judge], limits: Limits, store: StoreLike
) -> None:
    """Refuse a limit on tokens, or a store, that has no effect on a user's own judge.

    Such a judge asks no model of ragmetrics: nobody counts its tokens, and nobody
    stores its replies. A judge that has a ``session`` method does both by itself.

    Args:
        judges: The judges of the run.
        limits: The run's limits.
        store: The ``store`` argument of the run.

    Raises:
        SettingError: If tokens are limited, or a store is named for the run.
    """
    for judge in judges:
        uncounted_parts = [
            part for part in parts_of(judge) if not counts_by_itself(part)
        ]
        if not uncounted_parts:
            continue
        name = uncounted_parts[0].name
        if limits.tokens_per_minute is not None:
            raise SettingError(
                f"tokens_per_minute cannot be held for the judge {name}, whose tokens"
                " nobody counts: take requests_per_minute, where each question is one"
                " request, or give the judge a session() that keeps it"
            )
        if not _has_session(judge):
            _refuse_store_without_use(name, store)


def _has_session(judge: Judge) -> bool:
    """Whether a judge, or a judge of a cascade, stores replies in its own session."""
    return any(type(part).session is not Judge.session for part in parts_of(judge))


def _refuse_store_without_use(judge_name: str, store: StoreLike) -> None:
    """Refuse the store of a run whose judge has no replies to store.

    A store that was perhaps made for all runs is only warned of: an object, or the file
    that RAGMETRICS_STORE names.

    Raises:
        SettingError: If the store is named for this run, by a path or True.
    """
    keeps_nothing = (
        f"keeps nothing of the judge {judge_name}, which asks no model of ragmetrics:"
        " it is asked anew in each run"
    )
    if store is True or isinstance(store, (str, os.PathLike)):
        raise SettingError(
            f"store= {keeps_nothing}; leave store= out, or give the judge a session()"
            " that keeps its replies"
        )
    if store is None:
        has_store = "RAGMETRICS_STORE" in os.environ
    else:
        has_store = store is not False
    if has_store:
        _logger.warning("the store %s", keeps_nothing)
