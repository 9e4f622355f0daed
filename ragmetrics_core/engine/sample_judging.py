"""Judges one sample with all metrics of a run; the metrics of one sample go on side by side."""

import asyncio
from collections.abc import Mapping, Sequence

from ragmetrics_core.data import (
    JudgeUnavailable,
    LimitReached,
    MetricResult,
    RowError,
    Sample,
    SampleResult,
    SettingError,
    Usage,
)
from ragmetrics_core.engine.loop import run as wait_for
from ragmetrics_core.engine.resolve import JudgeLike, resolve_judge
from ragmetrics_core.engine.scoring import (
    RunJudge,
    carry_out,
    rounds_of,
    was_cut_off,
)
from ragmetrics_core.judging.judge import Judge, check_judge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.models.chat import ChatModel, check_prices
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import ReplyStore

# Questions beyond those in flight that may be open: they wait for a slot, between two
# attempts, or for their reply to be read.
_MIN_QUESTIONS_AHEAD = 32


def judges_by_metric(metrics: Sequence[Metric], judge: JudgeLike) -> dict[str, Judge]:
    """The judge of each metric, by the metric's name.

    It is the judge that is given for all; if none is given, that of the metric's own
    ``model``. Metrics that name the same model share one judge.
    """
    judge_by_model: dict[str | None, Judge] = {}
    judges: dict[str, Judge] = {}
    for metric in metrics:
        model = metric.model if judge is None else None
        if model not in judge_by_model:
            judge_by_model[model] = resolve_judge(judge, metric_model=model)
        judges[metric.name] = judge_by_model[model]
    for resolved_judge in judge_by_model.values():
        check_judge(resolved_judge)
        for chat_model in resolved_judge.models:
            _check_prices_stated(chat_model)
    return judges


def refuse_unknown_prices(models: Sequence[ChatModel]) -> None:
    """Refuse, by ``SettingError``, a cap on money where nobody knows what a call costs."""
    for model in models:
        wait_for(model.prepare())
        if model.prices() is None:
            raise SettingError(
                f"the price of {model.name} is not known, so max_cost cannot be"
                " held: limit max_calls instead, or evaluate from Python with a"
                " model that is given prices="
            )


class SampleJudging:
    """The judges' sessions of one run, and what judges a sample with them.

    Args:
        judges: The judge of each metric, by the metric's name.
        concurrency: Most calls in flight.
        store: Where replies are kept.
        budget: What the run may spend.

    Attributes:
        models: The names of models that replied, as they named themselves.
    """

    def __init__(
        self,
        judges: Mapping[str, Judge],
        *,
        concurrency: int,
        store: ReplyStore,
        budget: Budget,
    ) -> None:
        self.models: set[str] = set()
        self._budget = budget
        n_ahead = max(_MIN_QUESTIONS_AHEAD, concurrency // 8)
        self._slots = asyncio.Semaphore(concurrency + n_ahead)
        # Samples come in one after the other.
        self._door = asyncio.Lock()
        judge_of_run: dict[int, RunJudge] = {}
        self._judges: dict[str, RunJudge] = {}
        for metric_name, judge in judges.items():
            if id(judge) not in judge_of_run:
                session = judge.session(
                    concurrency=concurrency, store=store, budget=budget
                )
                check_judge(session)
                judge_of_run[id(judge)] = RunJudge(session, self._slots, budget)
            self._judges[metric_name] = judge_of_run[id(judge)]
        self.sessions: list[Judge] = [judge.session for judge in judge_of_run.values()]

    def check_signatures(self, metrics: Sequence[Metric]) -> None:
        """Check that every metric and judge can say what its settings are.

        If one cannot, the run ends before anything is paid.
        """
        for metric in metrics:
            self._judges[metric.name].signature_of(metric)

    async def judge(
        self, index: int, row: Sample | RowError, metrics: Sequence[Metric]
    ) -> SampleResult:
        """Judge one row with these metrics; a row that is no sample has its error said."""
        if isinstance(row, RowError):
            return SampleResult(index=index, sample=None, problem=str(row))
        rounds = rounds_of(metrics, self._judges)
        # Samples come in one after the other, while no question waits for a slot.
        async with asyncio.TaskGroup() as group, self._door:
            async with self._slots:
                tasks = {
                    metric.name: group.create_task(
                        carry_out(
                            metric,
                            row,
                            self._judges[metric.name],
                            rounds.get(metric.name),
                        )
                    )
                    for metric in metrics
                }
                for name, shared in rounds.items():
                    shared.join(tasks[name])
            await asyncio.sleep(0)  # their first questions stand before the next sample
        results: dict[str, MetricResult] = {}
        unfinished = Usage()
        for name, task in tasks.items():
            outcome = task.result()
            self.models.update(outcome.usage.models)
            if was_cut_off(outcome):
                unfinished += outcome.usage
            else:
                results[name] = outcome
        return SampleResult(
            index=index,
            sample=row,
            results=results,
            unfinished=unfinished if unfinished != Usage() else None,
        )

    def interrupt(self) -> None:
        """End what is in flight; call it on the judges' loop."""
        self._budget.interrupt()

    @property
    def was_paid(self) -> bool:
        """True if any call of the run was paid."""
        return any(judge.paid for judge in self._judges.values())

    @property
    def unavailable(self) -> JudgeUnavailable | None:
        """Why a judge of the run will answer no more; None if all go on."""
        for judge in self._judges.values():
            if judge.unavailable is not None:
                return judge.unavailable
        return None

    @property
    def refused(self) -> JudgeUnavailable | None:
        """Why a judge that never answered says that it never will.

        None if there is no such judge.
        """
        for judge in self._judges.values():
            error = judge.unavailable
            is_refusal = error is not None and not isinstance(error, LimitReached)
            if is_refusal and not judge.answered:
                return error
        return None


def addresses_of(judge: Judge) -> tuple[str, ...]:
    """The addresses that a judge's models ask, in order, as far as they are known."""
    return tuple(
        dict.fromkeys(model.address for model in judge.models if model.address)
    )


def _check_prices_stated(model: ChatModel) -> None:
    """Refuse prices of a user's own model that are none.

    Ours check theirs, and may have to load a table for them.
    """
    if type(model).__module__.startswith("ragmetrics_core."):
        return
    try:
        prices = model.prices()
    except Exception:  # noqa: BLE001  # it may know them only after prepare, and is asked again then
        return
    check_prices(model.name, prices)
