"""Ray Data: an actor pool with one scorer per worker.

The limits of the whole job are kept by an actor of their own.
"""

import asyncio
from copy import copy
from functools import partial
from typing import Any
from uuid import uuid4

from ragmetrics_core.data import LimitReached, Usage, import_extra
from ragmetrics_core.models.limits import Budget, Limits, RateLimiter
from ragmetrics_core.scale.scorer import Scorer

# Seconds after which a call whose worker is gone is taken for paid; a judge waits 300
# for a reply.
_LOST_AFTER = 600.0
# Calls that may wait in the actor. Those that tell how a call ended must never wait
# behind them.
_MOST_WAITING_CALLS = 1_000_000


def score_dataset(
    dataset: Any,
    scorer: Scorer,
    *,
    workers: int = 1,
    batch_size: int = 256,
    job: str | None = None,
) -> Any:
    """Score a Ray dataset in worker processes; each process uses one core.

    A worker that dies is replaced, and its batch is scored again. With a store that
    outlives it, only calls that were in flight are paid again.

    Args:
        dataset: The dataset, one sample in each row.
        scorer: Scores the rows. Its limits hold for all workers together, and a limit
            per minute for the calls to all models together.
        workers: How many processes. Leave a core for reading the dataset: Ray waits for
            ever where none is free.
        batch_size: Rows that a worker is given at a time. It should be many times
            ``concurrency``, since a worker waits for the last row of each batch.
        job: Datasets that are scored under one job name share the limits of the first.
            None gives each its own limits.

    Returns:
        The dataset with the columns of ``Scorer.__call__``, not yet computed.

    Raises:
        MissingDependency: If the extra ``ray`` is not installed.
    """
    data = import_extra("ray.data", "ray", "scoring a Ray dataset")
    if scorer.limits is not None:
        # a copy asks a process of Ray what the job may spend
        ray = import_extra("ray", "ray", "scoring a Ray dataset")
        actor_class = ray.remote(JobLimits).options(
            name=job or f"ragmetrics-{uuid4().hex}",
            get_if_exists=True,
            num_cpus=0,
            max_concurrency=_MOST_WAITING_CALLS,
        )
        keeper = actor_class.remote(scorer.limits)
        scorer = copy(scorer)
        scorer.open_job_budget = partial(_JobBudget, keeper)
    return dataset.map_batches(
        _Worker,
        fn_constructor_args=(scorer,),
        batch_format="pyarrow",
        batch_size=batch_size,
        num_cpus=1,
        compute=data.ActorPoolStrategy(size=workers),
    )


class _Worker:
    """What Ray makes once in each worker process, and calls with each batch of rows."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def __call__(self, table: Any) -> Any:
        return self.scorer(table)


class JobLimits:
    """The limits of a job, kept in one place: each call of each worker asks here first.

    A call whose end nobody tells, because its worker died, counts as dear as the
    dearest after ten minutes.
    """

    def __init__(self, limits: Limits) -> None:
        self._budget = Budget(limits)
        self._rate = RateLimiter(self._budget)
        # By number of the call: a timer that takes the call for lost.
        self._calls_in_flight: dict[int, asyncio.TimerHandle] = {}
        self._dearest = 0.0  # US dollars of the dearest call so far

    async def remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return self._budget.remaining

    async def acquire(self) -> int | str:
        """Wait until a call may be sent, and count it.

        If its end is not reported for a long time, a timer counts the call as ended, at
        the cost of the dearest call so far. Example: the calls of all workers are
        numbered 1, 2, 3; with ``max_calls=3`` the fourth gets the reason instead.

        Returns:
            The number of the call; or, once a limit is reached, the reason why no more
            calls may be sent.
        """
        try:
            await self._rate.acquire()
            number = await self._budget.acquire()
        except LimitReached as reached:
            return str(reached)
        dearest = Usage(cost=self._dearest)
        self._calls_in_flight[number] = asyncio.get_running_loop().call_later(
            _LOST_AFTER, self._note_end, number, dearest
        )
        return number

    async def observe(self, number: int, usage: Usage | None) -> None:
        """Learn what a call cost; None for one that failed."""
        self._note_end(number, usage)

    def _note_end(self, number: int, usage: Usage | None) -> None:
        """Count a call as ended, unless that was done already.

        Example: the timer ends call 7; its worker reports it later: nothing more is
        counted.

        Args:
            number: The call's number.
            usage: What the call used, as its worker reports it, or the estimate of the
                timer if no worker does. None if nothing is known.
        """
        if number not in self._calls_in_flight:
            return
        self._calls_in_flight.pop(number).cancel()
        if usage is not None:
            self._dearest = max(self._dearest, usage.cost or 0.0)
        self._budget.observe(number, usage)


class _JobBudget(Budget):
    """What a worker may spend: what the job's limits leave."""

    def __init__(self, keeper: Any) -> None:
        self._ray = import_extra("ray", "ray", "scoring a Ray dataset")
        self._keeper = keeper
        deadline = self._ray.get(keeper.remaining.remote())
        if deadline:
            deadline = max(deadline, 1e-9)
        super().__init__(Limits(deadline=deadline))

    async def acquire(self) -> int:
        """Ask for a call."""
        self.check()
        try:
            number_or_reason = await self._keeper.acquire.remote()
        except self._ray.exceptions.RayError:
            number_or_reason = "the actor that keeps the limits of the job is gone"
        if isinstance(number_or_reason, str):
            self.reached = LimitReached(number_or_reason)
            self.check()  # raises it
        return int(number_or_reason)

    def observe(self, number: int, usage: Usage | None) -> None:
        """Tell how a call ended."""
        self._keeper.observe.remote(number, usage)
