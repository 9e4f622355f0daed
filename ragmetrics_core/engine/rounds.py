"""The rounds in which the metrics of one sample ask one judge.

A judge of typed questions answers those about equal texts in one request. So the
questions of all metrics of a sample are handed to it together: a round is asked when
every plan that has not ended waits for answers. Which questions share a round so
depends on the metrics alone, never on how fast one of them computes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragmetrics_core.data import Answer, Usage
from ragmetrics_core.data.asking import Batch

Ask = Callable[[Batch, list[Usage]], Awaitable[list[Answer[Any]]]]
"""Asks questions; adds to the usages what calls cost that gave no answer."""


@dataclass(slots=True, repr=False, eq=False)
class _Waiting:
    """A plan that waits for answers.

    Args:
        questions: What it asks.
        usage: Where its metric notes what was spent.
        answers: Its answers, once they are there.
        round: All that are asked with it, once they are.
        task: What asks them.
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
        self._n_live = 0
        self._ask = ask
        self._waiting: list[_Waiting] = []

    def join(self, plan: asyncio.Task[Any]) -> None:
        """Wait for a plan in every round until its task ends, however it does.

        All plans of a sample join before the first of them runs.
        """
        self._n_live += 1
        plan.add_done_callback(self._leave)

    async def ask(self, questions: Batch, usage: list[Usage]) -> list[Answer[Any]]:
        """Ask the questions of a plan, with those of all others; return its answers.

        Who gives up waiting takes its questions back; a round for which nobody waits
        any more is given up.
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
            is_wanted = any(not other.answers.cancelled() for other in waiting.round)
            if waiting.task is not None and not is_wanted:
                waiting.task.cancel()

    def _leave(self, plan: asyncio.Task[Any]) -> None:
        """A plan has ended: the others wait for it no more."""
        del plan  # as a callback gets it
        self._n_live -= 1
        self._send_if_all_wait()

    def _send_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self._n_live:
            return
        together, self._waiting = self._waiting, []
        task = asyncio.create_task(self._send(together))
        for waiting in together:
            waiting.round = together
            waiting.task = task

    async def _send(self, together: Sequence[_Waiting]) -> None:
        """Ask the questions of all; each gets its answers, or the error of the round."""
        questions = tuple(
            question for waiting in together for question in waiting.questions
        )
        try:
            answers = await self._ask(questions, together[0].usage)
        except asyncio.CancelledError:
            for waiting in together:
                waiting.answers.cancel()
            raise
        except BaseException as error:  # noqa: BLE001  # each plan says what became of it
            for waiting in together:
                if not waiting.answers.done():
                    waiting.answers.set_exception(error)
            return
        start = 0
        for waiting in together:
            end = start + len(waiting.questions)
            if not waiting.answers.done():
                waiting.answers.set_result(answers[start:end])
            start = end
