"""Ray Data: an actor pool with one scorer per worker, and the limits of the whole job in an actor of its own."""

import asyncio
from copy import copy
from functools import partial
from typing import Any
from uuid import uuid4

from ragmetrics_core.data import JudgeError, LimitReached, Usage, import_extra
from ragmetrics_core.models.chat import ChatReply
from ragmetrics_core.models.limits import Budget, Limits, RateLimiter
from ragmetrics_core.scale.scorer import Scorer

# seconds after which a call whose worker is gone is taken for paid; a judge waits 300
# for a reply
_LOST_AFTER = 600.0
# calls that may wait in the actor; those that tell how calls ended must never wait
# behind them
_AT_ONCE = 1_000_000


def score_dataset(
    dataset: Any,
    scorer: Scorer,
    *,
    workers: int = 1,
    batch_size: int = 256,
    job: str | None = None,
) -> Any:
    """Score a Ray dataset, with so many workers of one core each.

    Args:
        dataset: The dataset, one sample in each row.
        scorer: What to do with it. Its limits hold for all workers together; limits per
            minute are those of all models together.
        workers: Processes, each with a judge of its own; leave a core for reading, or
            nothing is ever read.
        batch_size: Rows that a worker is given at a time; many times ``concurrency``,
            as it waits for the last of them.
        job: A name by which datasets share the limits given first, for as long as one
            of them is held.

    Returns:
        The dataset with the columns of ``Scorer.__call__``, not yet computed. A worker
        that dies is replaced, and its batch is scored again: with a store that outlives
        it, only calls that were in flight are paid again.

    Raises:
        MissingDependency: If the extra ``ray`` is not installed.
    """
    data = import_extra("ray.data", "ray", "scoring a Ray dataset")
    if scorer.limits is not None:
        ray = import_extra("ray", "ray", "scoring a Ray dataset")
        named = {"name": job or f"ragmetrics-{uuid4().hex}", "get_if_exists": True}
        settings = {**named, "num_cpus": 0, "max_concurrency": _AT_ONCE}
        keeper = ray.remote(JobLimits).options(**settings).remote(scorer.limits)
        scorer = copy(scorer)
        scorer.budget = partial(_JobBudget, keeper)
    return dataset.map_batches(
        _Worker,
        fn_constructor_args=(scorer,),
        batch_format="pyarrow",
        batch_size=batch_size,
        num_cpus=1,
        compute=data.ActorPoolStrategy(size=workers),
    )


class _Worker:
    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def __call__(self, table: Any) -> Any:
        return self.scorer(table)


class JobLimits:
    """The limits of a job, kept in one place: every call of every worker asks here before it leaves.

    A call whose end nobody tells, because its worker died, counts as dear as the
    dearest after ten minutes.
    """

    def __init__(self, limits: Limits) -> None:
        self._budget = Budget(limits)
        self._rate = RateLimiter(self._budget, ("job",)) if limits.per_minute else None
        self._held: dict[int, tuple[float, asyncio.TimerHandle]] = {}
        self._dearest = 0.0

    async def remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return self._budget.remaining

    async def acquire(self, tokens: float) -> int | str:
        """Wait until a call of so many tokens may leave.

        Gives its number, or why none may leave any more.
        """
        try:
            counted = 0.0 if self._rate is None else await self._rate.acquire(tokens)
            await self._budget.acquire(tokens)
        except LimitReached as reached:
            return str(reached)
        number, loop = self._budget.calls, asyncio.get_running_loop()
        self._held[number] = (
            counted,
            loop.call_later(
                _LOST_AFTER, self._ended, number, Usage(cost=self._dearest)
            ),
        )
        return number

    async def observe(self, number: int, usage: Usage | None) -> None:
        """Learn what a call cost; None for one that failed."""
        self._ended(number, usage)

    def _ended(self, number: int, usage: Usage | None) -> None:
        counted, timer = self._held.pop(number, (0.0, None))
        if timer is None:
            return
        timer.cancel()
        reply = None if usage is None else ChatReply((), usage)
        self._dearest = max(self._dearest, (usage and usage.cost) or 0.0)
        if self._rate is not None:
            self._rate.observe(counted, reply)
        self._budget.observe(None, reply)


class _JobBudget(Budget):
    """What a worker may spend: what the job's limits leave."""

    def __init__(self, keeper: Any) -> None:
        self._ray, self._keeper = (
            import_extra("ray", "ray", "scoring a Ray dataset"),
            keeper,
        )
        left = self._ray.get(keeper.remaining.remote())
        super().__init__(Limits(deadline=left and max(left, 1e-9)))

    async def acquire(self, tokens: float) -> int:
        """Ask for a call."""
        self.check()
        try:
            told = await self._keeper.acquire.remote(tokens)
        except self._ray.exceptions.RayError:
            told = "the actor that keeps the limits of the job is gone"
        if isinstance(told, str):
            self.reached = LimitReached(told)
            self.check()
        return int(told)

    def observe(self, ticket: int, outcome: ChatReply | JudgeError | None) -> None:
        """Tell how a call ended."""
        self._keeper.observe.remote(
            ticket, outcome.usage if isinstance(outcome, ChatReply) else None
        )
