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
"""Asks questions; adds to the usages what calls cost that gave no answer."""


@dataclass(slots=True, repr=False, eq=False)
class _Waiting:
    """A plan that waits for answers.

    Args:
        questions: What it asks.
        usage: Where its metric notes what was spent.
        answers: Its answers, once they are there.
        round: All plans whose questions are asked with its own, once they are asked;
            the plan itself is among them.
        task: The task that asks them.
    """

    questions: Batch
    usage: list[Usage]
    answers: asyncio.Future[list[Answer[Any]]]
    round: Sequence["_Waiting"] = ()
    task: asyncio.Task[None] | None = field(default=None, init=False)


class Rounds:
    """The rounds of one sample with one judge.

    Args:
        ask: Asks the questions of a round.
    """

    def __init__(self, ask: Ask) -> None:
        self._n_plans = 0  # plans that have not ended
        self._ask = ask
        self._waiting: list[_Waiting] = []

    def join(self, plan: asyncio.Task[Any]) -> None:
        """Wait for a plan in every round until its task ends, however it does.

        All plans of a sample join before the first of them runs.
        """
        self._n_plans += 1
        plan.add_done_callback(self._forget_plan)

    async def ask(self, questions: Batch, usage: list[Usage]) -> list[Answer[Any]]:
        """Ask the questions of a plan, with those of all others; return its answers.

        A plan that stops waiting, e.g. at its deadline, takes back questions that were
        not asked yet. A round for which no plan waits any more is given up.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(questions, usage, loop.create_future())
        self._waiting.append(waiting)
        self._send_if_all_wait()
        try:
            return await waiting.answers
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            somebody_waits = any(not plan.answers.cancelled() for plan in waiting.round)
            if waiting.task is not None and not somebody_waits:
                waiting.task.cancel()

    def _forget_plan(self, plan: asyncio.Task[Any]) -> None:
        """Wait no more for a plan that has ended."""
        del plan  # a callback of a task gets it
        self._n_plans -= 1
        self._send_if_all_wait()

    def _send_if_all_wait(self) -> None:
        """Ask the questions that wait, if no plan is left that may add to them."""
        if not self._waiting or len(self._waiting) < self._n_plans:
            return
        together = self._waiting
        self._waiting = []
        task = asyncio.create_task(self._send(together))
        for waiting in together:
            waiting.round = together
            waiting.task = task

    async def _send(self, together: Sequence[_Waiting]) -> None:
        """Ask the questions of all; each gets its answers, or the error of the round."""
        all_questions: list[Question[Any]] = []
        for waiting in together:
            all_questions += waiting.questions
        try:
            # What failed calls cost is noted once, with the first of the plans.
            answers = await self._ask(tuple(all_questions), together[0].usage)
        except asyncio.CancelledError:
            for waiting in together:
                waiting.answers.cancel()
            raise
        except BaseException as error:  # noqa: BLE001  # each plan says what became of it
            for waiting in together:
                if not waiting.answers.done():
                    waiting.answers.set_exception(error)
            return
        start = 0  # of the plan's own answers among all
        for waiting in together:
            end = start + len(waiting.questions)
            if not waiting.answers.done():  # else it has stopped waiting
                waiting.answers.set_result(answers[start:end])
            start = end
