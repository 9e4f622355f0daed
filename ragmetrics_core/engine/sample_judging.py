"""Judges one sample with all metrics of a run, side by side."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from ragmetrics_core.data import (
    JudgeUnavailable,
    MetricResult,
    RowError,
    Sample,
    SampleResult,
    SettingError,
    Usage,
)
from ragmetrics_core.data.errors import is_ours
from ragmetrics_core.engine.loop import wait_for
from ragmetrics_core.engine.reasoning import leave_out_reasoning
from ragmetrics_core.engine.resolve import JudgeLike, judge_of_metric, resolve_judge
from ragmetrics_core.engine.scoring import RunJudge, carry_out, was_cut_off
from ragmetrics_core.judging.judge import Judge, check_judge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.models.chat import ChatModel, check_prices
from ragmetrics_core.models.judge_work import JudgedRow, judged_row
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import ReplyStore
from ragmetrics_core.models.threads import await_users_code

# At least so many questions may be open beyond the calls in flight. They wait for a
# call to end, for their next attempt, or for their reply to be read.
_MIN_QUESTIONS_AHEAD = 32
# Seconds that what is in flight has to end after an interrupt.
_SECONDS_TO_END = 2.0


def judges_by_metric(metrics: Sequence[Metric], judge: JudgeLike) -> dict[str, Judge]:
    """Return the judge of each metric, by the metric's name.

    Without a judge for all metrics, a metric gets the judge of its own ``model``.
    Metrics that name the same model share one judge. Example: two metrics without a
    model of their own and ``judge="lexical"``: both names stand for one lexical judge.

    Args:
        metrics: The metrics.
        judge: The judge for all of them, or its name; None for each metric's own.

    Raises:
        SettingError: If what is given as a judge is no judge, or a model of a judge
            states invalid prices.
    """
    if judge is not None and any(metric.asks_judge for metric in metrics):
        judge = resolve_judge(judge)  # once, so that all metrics share its session
    judge_by_metric = {
        metric.name: judge_of_metric(metric, judge) for metric in metrics
    }
    for resolved_judge in distinct_judges(judge_by_metric).values():
        check_judge(resolved_judge)
        for chat_model in resolved_judge.models:
            # Our models check their prices themselves, and may have to load a table for
            # them. A user's own may know them only after ``prepare``: it is asked again.
            if not is_ours(type(chat_model)):
                prices = None
                with suppress(Exception):
                    prices = chat_model.prices()
                check_prices(chat_model.name, prices)
    return judge_by_metric


def distinct_judges(judge_by_metric: Mapping[str, Judge]) -> dict[int, Judge]:
    """Return the judges without repeats, by their ``id()``."""
    return {id(judge): judge for judge in judge_by_metric.values()}


def refuse_unknown_prices(models: Sequence[ChatModel]) -> None:
    """Raise ``SettingError`` if a model's price is unknown: a cap on money needs it."""
    for model in models:
        wait_for(await_users_code(model, model.prepare))
        if model.prices() is None:
            raise SettingError(
                f"the price of {model.name} is not known, so max_cost cannot be"
                " held: limit max_calls instead, or evaluate from Python with a"
                " model that is given its prices, e.g. OpenAICompatibleModel(URL,"
                " NAME, prices=(DOLLARS_PER_PROMPT_TOKEN, DOLLARS_PER_REPLY_TOKEN))"
            )


class SampleJudging:
    """Judges samples with the metrics of one run; holds the judges' sessions.

    Attributes:
        models: The names of models that replied, as they named themselves.
        judges: The judges of this run, without repeats.
        most_rows: Most rows that are judged at a time: enough to use every call slot.
        opened_at: When the sessions were opened, by the monotonic clock.
    """

    def __init__(
        self,
        judge_by_metric: Mapping[str, Judge],
        *,
        concurrency: int,
        store: ReplyStore,
        budget: Budget,
    ) -> None:
        """Make a session of each judge for this run.

        Example: with 100 calls in flight up to 132 questions may be open: 100 are
        asked, and 32 wait, so that a free place is taken at once.

        Args:
            judge_by_metric: The judge of each metric, by the metric's name. One judge
                may stand for several metrics; it gets one session.
            concurrency: Most calls in flight.
            store: Where replies are kept.
            budget: What the run may spend.
        """
        self.models: set[str] = set()
        self.most_rows = 2 * concurrency
        self._budget = budget
        self._row_slots = asyncio.Semaphore(self.most_rows)
        n_questions_ahead = max(_MIN_QUESTIONS_AHEAD, concurrency // 8)
        # Each open question of the run holds one slot. Their number is bounded, since
        # a question that waits takes memory.
        self._question_slots = asyncio.Semaphore(concurrency + n_questions_ahead)
        # Held while the metrics of a sample start, so that samples start one by one.
        self._start_of_sample = asyncio.Lock()
        self._judges_given = judge_by_metric
        self._new_run_judge = partial(
            RunJudge,
            budget=budget,
            store=store,
            concurrency=concurrency,
            slots=self._question_slots,
        )
        self.open_sessions()

    def open_sessions(self) -> None:
        """Open a new session of each judge, against which nothing is known yet."""
        self.opened_at = time.monotonic()
        # By the ``id()`` of a judge: the judge with its session and the run's limits.
        judge_by_identity = {
            identity: self._new_run_judge(judge)
            for identity, judge in distinct_judges(self._judges_given).items()
        }
        self.judges = list(judge_by_identity.values())
        # The judge of each metric in this run, by the metric's name.
        self._judge_by_metric = {
            name: judge_by_identity[id(judge)]
            for name, judge in self._judges_given.items()
        }

    def check_signatures(self, metrics: Sequence[Metric]) -> None:
        """Check that every metric and judge can say what its settings are.

        If one cannot, the run ends before anything is paid.
        """
        for metric in metrics:
            self._judge_by_metric[metric.name].signature_of(metric)

    async def judge(
        self, index: int, row: Sample | RowError, metrics: Sequence[Metric]
    ) -> SampleResult:
        """Judge one row with all metrics at the same time.

        The result of a bad row says what is wrong with it. Metrics that an interrupt or
        a limit cut off have no result; ``unfinished`` says what they spent. Example: a
        sample and two metrics: ``results`` has two outcomes by name.

        Args:
            index: The row's place in the input.
            row: The sample, or the error of a row that is no sample.
            metrics: The metrics.
        """
        if isinstance(row, RowError):
            return SampleResult(index=index, sample=None, problem=str(row))
        row = leave_out_reasoning(row)
        judged_row.set(JudgedRow())  # in this task alone
        # ``_start_of_sample`` is a lock: samples start one after the other.
        async with self._row_slots, asyncio.TaskGroup() as group, self._start_of_sample:
            tasks: dict[str, asyncio.Task[MetricResult]] = {}
            # Wait for a free slot, so that a sample does not start before one of its
            # questions can be asked. The slot is given back when the tasks are started;
            # each question then takes a slot of its own.
            async with self._question_slots:
                for metric in metrics:
                    judge = self._judge_by_metric[metric.name]
                    judging = carry_out(metric, row, judge)
                    tasks[metric.name] = group.create_task(judging)
            # The tasks take the free slots before the next sample starts.
            await asyncio.sleep(0)
        results: dict[str, MetricResult] = {}
        spent_unfinished: Usage | None = None
        for name, task in tasks.items():
            outcome = task.result()
            self.models.update(outcome.usage.models)  # which models answered
            if was_cut_off(outcome):
                spent_unfinished = (spent_unfinished or Usage()) + outcome.usage
            else:
                results[name] = outcome
        return SampleResult(
            index=index, sample=row, results=results, unfinished=spent_unfinished
        )

    async def wait_for_room(self) -> None:
        """Wait until one more row may be judged."""
        async with self._row_slots:
            return

    async def cut_off(self) -> None:
        """Cut all rows off."""
        self._budget.interrupt()

    async def interrupt(self) -> None:
        """Cut all rows off, and wait a few seconds until they have ended."""
        await self.cut_off()
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_END):
                for _ in range(self.most_rows):
                    await self._row_slots.acquire()

    @property
    def unavailable(self) -> JudgeUnavailable | None:
        """Why a judge of the run will answer no more; None if all judges go on."""
        return next(filter(None, (judge.unavailable for judge in self.judges)), None)

    @property
    def refused(self) -> JudgeUnavailable | None:
        """Why a judge that never answered says that it never will.

        None if there is no such judge.
        """
        refusals = (judge.unavailable for judge in self.judges if not judge.answered)
        return next(filter(None, refusals), None)
