"""Estimates what a run would cost, without a call.

It is a run with a judge that counts instead of calling.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from ragmetrics_core.data import (
    ErrorInfo,
    Failed,
    Sample,
    SampleResult,
    Undefined,
    Usage,
)
from ragmetrics_core.data.errors import MetricCrashed, RowError
from ragmetrics_core.engine.counting_judge import Counted, NoExample
from ragmetrics_core.engine.loop import run
from ragmetrics_core.engine.own_judge import counts_by_itself
from ragmetrics_core.engine.sample_judging import (
    SampleJudging,
    distinct_judges,
    judges_by_metric,
)
from ragmetrics_core.engine.scoring import signature_with_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import FunctionMetric, Metric
from ragmetrics_core.models.features import gather_all
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import MemoryStore

_CONCURRENCY = 32
_MOST_ROWS_AT_A_TIME = 64
_ASSUMPTIONS = (
    "Tokens: 3 to 4 characters each; replies as long as usual for their form.",
    "Not counted: repairs of unusable replies, retries, hidden reasoning.",
    "A question that is asked twice counts once.",
    "Not deducted: replies that the store holds already, which cost nothing.",
)


@dataclass
class Failing:
    """On how many samples a metric fails, and why.

    Attributes:
        reason: Why it fails on the first of them.
        is_crash: Whether its own code, or a question that it makes, is at fault.
        n_samples: How many samples.
    """

    reason: str
    is_crash: bool = False
    n_samples: int = 0


@dataclass(frozen=True)
class Estimate:
    """What a run over so many samples would cost.

    Attributes:
        samples: How many samples there are.
        low: Lower bound of what is usual; its cost is None where a price is unknown.
        high: Upper bound of what is usual; equal to ``low`` where the estimate is
            exact.
        bad_rows: Rows that are no sample.
        left_out: Why a metric that applies to no sample does not, by its name.
        failing: On how many samples a metric fails in any case, and why, by its name:
            the judge does not support a question of the metric, or it crashes.
        batch_share: Share of the price that is paid where it is asked in batches.
        own_judges: Names of judges of a user's own. Each question to them counts as a
            call; nobody knows its tokens and its price.
    """

    samples: int
    low: Usage
    high: Usage
    bad_rows: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict, compare=False)
    failing: Mapping[str, Failing] = field(default_factory=dict, compare=False)
    batch_share: float = 1.0
    own_judges: tuple[str, ...] = ()

    def text(self, unit: str = "samples") -> str:
        """Return the estimate in lines for people, with its assumptions.

        Example: "50 samples, 0 bad rows; nothing was called", "calls: 50 to 150", ….

        Args:
            unit: What is counted, e.g. ``samples``.
        """
        lines = [
            f"{self.samples} {unit}, {self.bad_rows} bad rows; nothing was called",
            f"calls:             {self._range('calls')}",
            f"prompt tokens:     {self._tokens('prompt_tokens')}",
            f"completion tokens: {self._tokens('completion_tokens')}",
            f"price:             {self._price}",
        ]
        for name in self.own_judges:
            lines.append(
                f"questions to the judge {name} count as one call each; what it sends,"
                " and what that costs, is its own affair"
            )
        for name, reason in self.left_out.items():
            lines.append(f"{name} left out: {reason} on every row")
        for name, failure in self.failing.items():
            verb = "crashes" if failure.is_crash else "will fail"
            lines.append(
                f"{name} {verb} on {failure.n_samples:,} of {self.samples:,} {unit}:"
                f" {failure.reason}"
            )
        if self.low.calls < self.high.calls:
            lines.append("Calls: fewest where replies lead to no further question.")
        if self.high.prompt_tokens:
            lines += _ASSUMPTIONS
        return "\n".join(lines)

    def _range(self, count: str) -> str:
        """The bounds of a count of the usage, e.g. of its calls, in words."""
        low, high = getattr(self.low, count), getattr(self.high, count)
        return _range_in_words(f"{low:,}", f"{high:,}")

    def _tokens(self, kind: Literal["prompt_tokens", "completion_tokens"]) -> str:
        """Tokens of a kind, in words; unknown of judges of a user's own."""
        return "unknown" if self.own_judges else self._range(kind)

    @property
    def _price(self) -> str:
        """Say the price of a run, in calls and in batches.

        Example: "$0.1000 to $0.2000, in batches $0.0500 to $0.1000". Where a model has
        no known price, what caps the run instead.
        """
        low, high = self.low.cost, self.high.cost
        if low is None or high is None:
            return "unknown; cap the run by --max-calls"
        price = _range_in_words(f"${low:.4f}", f"${high:.4f}")
        # ``batch_share`` is the price in a batch, as a share of the usual price
        if self.batch_share != 1.0:
            low_in_batches = f"${self.batch_share * low:.4f}"
            high_in_batches = f"${self.batch_share * high:.4f}"
            price += f", in batches {_range_in_words(low_in_batches, high_in_batches)}"
        return price


@dataclass
class _RowsCounted:
    """The rows that a dry run has gone through, and what became of each metric.

    Attributes:
        usage: What they would cost.
        n_samples: How many rows are samples.
        n_bad_rows: How many rows are none.
        reasons: Why a metric is undefined on the first row where it is, by its name.
        applied: Names of the metrics that apply to at least one row.
        failing: On how many rows a metric fails in any case, because the judge does not
            support one of its questions or it crashes, and why; by its name.
    """

    usage: Usage = field(default_factory=Usage)
    n_samples: int = 0
    n_bad_rows: int = 0
    reasons: dict[str, str] = field(default_factory=dict)
    applied: set[str] = field(default_factory=set)
    failing: dict[str, Failing] = field(default_factory=dict)

    @property
    def left_out(self) -> dict[str, str]:
        """Why each metric that applies to no row does not, by its name."""
        return {
            name: reason
            for name, reason in self.reasons.items()
            if name not in self.applied
        }

    def add(self, result: SampleResult) -> None:
        """Count one more row; the first reason of each kind is kept."""
        self.usage += result.usage
        if result.sample is None:
            self.n_bad_rows += 1
            return
        self.n_samples += 1
        for name, outcome in result.results.items():
            # A metric that asked nothing names no judge.
            if isinstance(outcome, Undefined) and not outcome.judge:
                self.reasons.setdefault(name, outcome.reason)
                continue
            self.applied.add(name)
            if isinstance(outcome, Failed):
                self._add_failure(name, outcome.error)

    def _add_failure(self, name: str, error: ErrorInfo) -> None:
        if error.type == NoExample.__name__:
            return  # in a run the question has a reply
        reason = error.message.removeprefix(f"{name}: ").removesuffix("; see error.raw")
        failure = self.failing.setdefault(name, Failing(reason))
        failure.n_samples += 1
        if error.type == MetricCrashed.__name__:
            failure.is_crash = True


def _asks_nothing(metric: Metric) -> bool:
    """Whether a metric is a function without ``yield``, which asks no judge.

    It may compute for long, so a dry run does not call it.
    """
    return isinstance(metric, FunctionMetric) and metric.in_thread


def estimate(
    samples: Iterable[Sample | RowError], metrics: Sequence[Metric], judge: Judge | None
) -> Estimate:
    """Estimate calls, tokens and price of a run without making a call.

    It is a run whose judges count instead of asking, once for the lower and once for
    the upper bound. Example: 2 samples with one metric of one to three calls:
    ``low.calls`` is 2, ``high.calls`` is 6.

    Args:
        samples: The samples, and errors for rows that are no samples.
        metrics: The metrics of the run.
        judge: The judge for all metrics; None for each metric's own.

    Raises:
        SettingError: If a metric or judge is one that a run refuses.
    """
    judge_by_metric = judges_by_metric(metrics, judge)
    judging_low = _judging(Counted(high=False), judge_by_metric)
    judging_high = _judging(Counted(high=True), judge_by_metric)
    rows = iter(samples)
    for metric in metrics:
        signature_with_judge(metric, judge_by_metric[metric.name])
    asking_metrics = [metric for metric in metrics if not _asks_nothing(metric)]
    low, high = _RowsCounted(), _RowsCounted()
    while rows_in_hand := list(islice(rows, _MOST_ROWS_AT_A_TIME)):
        for result in run(_judge(judging_low, rows_in_hand, asking_metrics)):
            low.add(result)
        for result in run(_judge(judging_high, rows_in_hand, asking_metrics)):
            high.add(result)
    judges = list(judge_by_metric.values())
    return Estimate(
        samples=high.n_samples,
        low=low.usage,
        high=high.usage,
        bad_rows=high.n_bad_rows,
        left_out=high.left_out,
        failing=high.failing,
        batch_share=_batch_share(judges),
        own_judges=_names_of_own_judges(judges),
    )


def _judging(counted: Counted, judge_by_metric: Mapping[str, Judge]) -> SampleJudging:
    """Return what judges samples with judges that count.

    Metrics of one judge share what is counted, as they share replies in a run.
    """
    judge_by_identity = {
        identity: counted.judge(judge)
        for identity, judge in distinct_judges(judge_by_metric).items()
    }
    counting_judges = {
        name: judge_by_identity[id(judge)] for name, judge in judge_by_metric.items()
    }
    return SampleJudging(
        counting_judges,
        concurrency=_CONCURRENCY,
        store=MemoryStore(),
        budget=Budget(),
    )


async def _judge(
    judging: SampleJudging,
    rows: Sequence[Sample | RowError],
    metrics: Sequence[Metric],
) -> list[SampleResult]:
    """Judge rows with example replies; what a run would ask for is counted."""
    return await gather_all(judging.judge(0, row, metrics) for row in rows)


def _batch_share(judges: Iterable[Judge]) -> float:
    """Return the price of a request in a batch, as a share of the price of a call.

    Where several models differ, the highest share.
    """
    shares: list[float] = []
    for judge in judges:
        shares += [getattr(model, "batch_share", 1.0) for model in judge.models]
    return max(shares, default=1.0)


def _names_of_own_judges(judges: Iterable[Judge]) -> tuple[str, ...]:
    """Return the names, without repeats, of judges whose questions alone are counted.

    These are judges of a user's own: nobody knows what they send.
    """
    names: dict[str, None] = {}
    for judge in judges:
        if not judge.models and not counts_by_itself(judge):
            names[judge.name] = None
    return tuple(names)


def _range_in_words(low: str, high: str) -> str:
    """Return two numbers as a range in words; one number if they are equal."""
    return low if low == high else f"{low} to {high}"
