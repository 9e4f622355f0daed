"""The rounds in which the metrics of one sample ask one judge.

A judge of typed questions answers those about equal texts in one request. So the
questions of all metrics of a sample are handed to it together: a round is asked when
every plan that has not ended waits for answers. Which questions share a round so
depends on the metrics alone, never on how fast one of them computes.

A plan is the generator of a metric for one sample: it yields questions and is sent
answers. An asyncio task runs it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragmetrics_core.data import Answer, Usage
from ragmetrics_core.data.asking import Batch, Question

Ask = Callable[[Batch, list[Usage]], Awaitable[list[Answer[Any]]]]
"""Asks questions, and returns their answers, which hold what they cost.

Where it raises instead, it adds to the usages what its calls have cost until then.
"""


@dataclass(slots=True, repr=False, eq=False)
class _WaitingPlan:
    """A plan that waits for answers.

    Args:
        questions: What it asks.
        usage: Where its metric notes what was spent.
        answers: Its answers, once they are there.
        round: The plans whose questions are asked in one request, this plan among
            them; empty until they are asked.
        task: The task that asks them; None until then.
    """

    questions: Batch
    usage: list[Usage]
    answers: asyncio.Future[list[Answer[Any]]]
    round: Sequence["_WaitingPlan"] = ()
    task: asyncio.Task[None] | None = field(default=None, init=False)


class Rounds:
    """The rounds of one sample with one judge.

    Args:
        ask: Asks the questions of a round.
    """

    def __init__(self, ask: Ask) -> None:
        self._n_plans = 0  # plans that have not ended
        self._ask = ask
        # plans that have asked in this round, and wait for the other plans
        self._waiting_plans: list[_WaitingPlan] = []

    def join(self, plan: asyncio.Task[Any]) -> None:
        """Wait for a plan in every round until its task ends, however it does.

        All plans of a sample join before the first of them runs.
        """
        self._n_plans += 1
        plan.add_done_callback(self._forget_plan)

    async def ask(self, questions: Batch, usage: list[Usage]) -> list[Answer[Any]]:
        """Ask the questions of a plan in one request with those of all other plans.

        This waits until every plan of the sample asks or has ended. It returns the
        answers to the plan's own questions.

        Args:
            questions: What the plan asks.
            usage: Gets what the calls of a failed request have cost. The cost of an
                answer is in the answer.
        """
        loop = asyncio.get_running_loop()
        plan = _WaitingPlan(questions, usage, loop.create_future())
        self._waiting_plans.append(plan)
        self._send_if_all_wait()
        try:
            return await plan.answers
        finally:
            self._end_waiting(plan)

    def _end_waiting(self, plan: _WaitingPlan) -> None:
        """Take back the questions of a plan that were not asked, as at its deadline.

        If they were asked and no plan of the round waits any more, the request is given
        up.
        """
        if plan in self._waiting_plans:
            self._waiting_plans.remove(plan)
        elif plan.task is not None and all(
            plan_of_round.answers.cancelled() for plan_of_round in plan.round
        ):
            plan.task.cancel()

    def _forget_plan(self, plan: asyncio.Task[Any]) -> None:
        """Wait no more for a plan that has ended."""
        del plan  # a callback of a task gets it
        self._n_plans -= 1
        self._send_if_all_wait()

    def _send_if_all_wait(self) -> None:
        """Send the questions that wait, unless a running plan may still add some."""
        if not self._waiting_plans or len(self._waiting_plans) < self._n_plans:
            return
        plans = self._waiting_plans
        self._waiting_plans = []
        task = asyncio.create_task(self._send(plans))
        for plan in plans:
            plan.round = plans
            plan.task = task

    async def _send(self, plans: Sequence[_WaitingPlan]) -> None:
        """Ask the questions of several plans in one request.

        Each plan gets its own answers, or the error that ended the request. A plan that
        has stopped waiting gets nothing. Example: plans with 2 and 3 questions: one
        request of 5; the first plan gets the answers 0 and 1, the second the answers 2
        to 4.
        """
        all_questions: list[Question[Any]] = []
        for plan in plans:
            all_questions += plan.questions
        try:
            # The cost of a failed request is noted once, for the first of the plans.
            answers = await self._ask(tuple(all_questions), plans[0].usage)
        except asyncio.CancelledError:
            for plan in plans:
                plan.answers.cancel()
            raise
        except BaseException as error:  # noqa: BLE001  # each plan gets it as its own error
            for plan in plans:
                if not plan.answers.done():
                    plan.answers.set_exception(error)
            return
        start = 0  # index of the plan's first answer among the answers to all
        for plan in plans:
            end = start + len(plan.questions)
            if not plan.answers.done():
                plan.answers.set_result(answers[start:end])
            start = end
