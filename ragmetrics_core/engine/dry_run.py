"""Estimates what a run would cost.

The metrics' own plans are carried out with a judge that counts instead of calling.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, product
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    NotAnswered,
    Question,
    R,
    Sample,
    Undefined,
    Usage,
    Weight,
    verdicts_of,
)
from ragmetrics_core.data.asking import check_template
from ragmetrics_core.data.errors import QuestionNotSupported, RowError
from ragmetrics_core.engine.loop import run
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.engine.run import POOL
from ragmetrics_core.engine.scoring import prepared, signature_by
from ragmetrics_core.judging.cascade import CascadeJudge
from ragmetrics_core.judging.judge import Judge, check_judge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.models.chat import Capabilities, ChatModel
from ragmetrics_core.reporting.gates import Gate, UntilDecided
from ragmetrics_core.statistics.stopping import samples_needed

_ASSUMPTIONS = (
    "Tokens: 3 to 4 characters each; replies as long as usual for their form.",
    (
        "Facts: one to three per sentence of a reference. Low adherence, which asks for"
        " a cause: on no sample to all."
    ),
    (
        "Not counted: repairs of unusable replies, retries, hidden reasoning. Counted"
        " once: what is asked twice."
    ),
    "Not deducted: replies that the store holds already, which cost nothing.",
)
_AROUND = 40  # characters of the fence and the label of a text
_UNKNOWN = (20, 200)  # tokens of a reply of which the question gives no example


@dataclass(frozen=True)
class Estimate:
    """What a run over so many samples would cost.

    ``low`` is the least and ``high`` the most that is usual. They are equal where the
    estimate is exact.

    A cost is None where a price is unknown; ``bad_rows`` are those that are no sample;
    ``left_out`` says of a metric that applies to no sample why.
    """

    samples: int
    low: Usage
    high: Usage
    bad_rows: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict, compare=False)
    batch_share: float = 1.0  # of the price, where it is asked in batches

    def text(self, unit: str = "samples", live: int | None = None) -> str:
        """The estimate for people, with its assumptions.

        Of ``unit``, and ``live`` requests asked beside batches.
        """
        low, high = self.low, self.high
        known = low.cost is not None and high.cost is not None
        shares = dict.fromkeys((1.0, self.batch_share))
        prices = [
            _range(*(f"${share * (usage.cost or 0.0):.4f}" for usage in (low, high)))
            for share in shares
        ]
        more = (
            f", {live:,} requests live"
            f" ${live * (high.cost or 0.0) / max(1, high.calls):.4f}"
            if live
            else ""
        )
        lines = [
            f"{self.samples} {unit}, {self.bad_rows} bad rows; nothing was called",
            f"calls:             {_range(low.calls, high.calls)}",
            f"prompt tokens:     {_range(low.prompt_tokens, high.prompt_tokens)}",
            (
                "completion tokens:"
                f" {_range(low.completion_tokens, high.completion_tokens)}"
            ),
            (
                "price:            "
                f" {', in batches '.join(prices) + more if known else 'unknown'}"
            ),
        ]
        lines += [
            f"{name} left out: {why} on every row"
            for name, why in self.left_out.items()
        ]
        return "\n".join([*lines, *_ASSUMPTIONS] if high.calls else lines)


def needed(found: Estimate, gates: Iterable[Gate], until: UntilDecided) -> list[str]:
    """Return lines that say how many samples each gate would need on average.

    Each line supposes that the mean is .02, .05 or .1 away from the gate. It also says
    what these samples would cost.
    """
    lines = []
    for gate, gap in product(gates, (0.02, 0.05, 0.1)):
        means = [
            mean
            for mean in (gate.at_least - gap, gate.at_least + gap)
            if 0 <= mean <= 1
        ]
        made = partial(until.gate, gate.at_least, rows=found.samples)
        share = max(samples_needed(made, mean, found.samples) for mean in means) / max(
            1, found.samples
        )
        low, high = (round(share * usage.calls) for usage in (found.low, found.high))
        costs = [
            f"${share * usage.cost:.4f}"
            for usage in (found.low, found.high)
            if usage.cost is not None
        ]
        lines.append(
            f"{gate} until decided, mean {gap:g} away: {share * found.samples:,.0f} of"
            f" {found.samples:,} samples on average, {_range(low, high)} calls,"
            f" {_range(costs[0], costs[-1]) if costs else 'price unknown'}"
        )
    return lines


class CountingJudge(Judge):
    """Counts what an LLM judge would send and receive.

    It replies as the example of the question says.

    Each question is one to every one of ``models``, if there are any; ``high`` counts
    the most that is usual instead of the least.
    """

    name = "dry run"

    def __init__(self, models: Sequence[ChatModel], *, high: bool) -> None:
        self._models = [(model.capabilities(), model.prices()) for model in models]
        self._high, self._asked = high, set[int]()
        self.total = Usage()  # what was counted so far

    def carry_out(self, metric: Metric, sample: Sample) -> None:
        """Count what a metric asks of a sample.

        Without an event loop, which would take half of the time.
        """
        plan = metric.plan(sample)
        try:
            step = next(plan)
            while True:
                step = plan.send(tuple(self.count(question).reply for question in step))
        except Exception:  # noqa: BLE001  # its end; after an error a run goes on, too, and says which metric it was
            return

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Count a question; see ``count``."""
        return self.count(question)

    def count(self, question: Question[R]) -> Answer[R]:
        """Count a question, unless the same was asked before: a run keeps replies."""
        replies = self._replies(question)
        if self._models:
            key = hash(
                (
                    type(question),
                    question.first_poll or 0,
                    question.instructions,
                    *question.parts.values(),
                )
            )
            new = self._models if key not in self._asked else ()
            self._asked.add(key)
            self.total = sum(
                (self._spent(question, replies, *model) for model in new), self.total
            )
        if not replies:
            said = f"questions of type {type(question).__name__} name no example reply"
            return Answer(NotAnswered(QuestionNotSupported(said)))
        return Answer(
            Asked(
                replies,
                weights=(
                    (Weight(1.0),) * len(verdicts_of(replies[0]))
                    if question.weigh
                    else ()
                ),
            )
        )

    def _replies(self, question: Question[R]) -> tuple[R, ...]:
        """Return the example replies to a question: the least, or the most.

        Where polls are asked for in rounds and may stop early, those of the most
        disagree, so that none stops. There are none if the question has no example.
        """
        examples, first = question.examples(), question.first_poll or 0
        if examples is None:
            return ()
        rounds = question.first_poll is not None
        agreed = (
            self._high and not (rounds and poll % 2)
            for poll in range(first, first + question.polls)
        )
        return tuple(examples[high] for high in agreed)

    def _spent(
        self,
        question: Question[R],
        replies: tuple[R, ...],
        can: Capabilities,
        prices: tuple[float, float] | None,
    ) -> Usage:
        """What a model takes to answer a question."""
        polls, calls = self._volume(question, can)
        per_token, said = 3 if self._high else 4, _UNKNOWN[self._high]
        if replies:
            said = len(replies[0].model_dump_json(exclude_defaults=True)) // per_token
        sent, received = calls * (_characters(question) // per_token + 8), polls * said
        cost = None if prices is None else sent * prices[0] + received * prices[1]
        return Usage(
            calls=calls, prompt_tokens=sent, completion_tokens=received, cost=cost
        )

    def _volume(self, question: Question[R], can: Capabilities) -> tuple[int, int]:
        """Replies and calls of a question."""
        together = (
            not self._high if can.n is None else can.n
        ) and can.temperature is not False
        polls = (
            question.polls if question.weigh is None else question.weigh.fallback_polls
        )
        if question.weigh is not None:
            if can.logprobs or (can.logprobs is None and not self._high) or polls < 2:
                return 1, 1
            # tried with one reply, which counts as the first poll
            if can.logprobs is None:
                return polls, 2 if together else polls
        return polls, 1 if together else polls


def _characters(question: Question[Any]) -> int:
    """How long a prompt is, nearly; rendering thousands of them would take seconds."""
    told = question.instructions
    check_template(told, tuple(question.parts))
    shown = [
        part for name, part in question.parts.items() if f"{{{name}}}" in told.template
    ]
    texts = [
        text
        for part in shown
        for text in (*part.texts, *(turn.content for turn in part.history))
    ]
    return (
        len(told.template)
        + len(told.examples)
        + sum(len(text) + _AROUND for text in texts)
    )


def estimate(
    samples: Iterable[Sample | RowError], metrics: Sequence[Metric], judge: Judge | None
) -> Estimate:
    """Count calls and tokens of a run without making a call.

    Arguments are those of ``evaluate``.

    Raises:
        SettingError: If a metric or judge is one that a run refuses.
    """
    resolved = {
        metric.name: resolve_judge(judge, metric_model=metric.model)
        for metric in metrics
    }
    for own_judge in resolved.values():
        check_judge(own_judge)
    counters = {name: counting_judges(own) for name, own in resolved.items()}
    iterator = iter(samples)
    pool = list(islice(iterator, POOL))
    others = [sample for sample in pool if isinstance(sample, Sample)]
    metrics = [prepared(metric, others) for metric in metrics]
    for metric in metrics:
        signature_by(metric, resolved[metric.name])  # refuses what a run refuses
    gaps: dict[str, str] = {}
    applied: set[str] = set()
    count = bad = 0
    for item in chain(pool, iterator):
        if not isinstance(item, Sample):
            bad += 1
            continue
        count += 1
        for metric in metrics:
            if (gap := _gap(metric, item)) is not None:
                gaps.setdefault(metric.name, gap.reason)
                continue
            applied.add(metric.name)
            # What runs in a thread is a function of the sample, which asks nothing and
            # is not called here.
            for counter in () if metric.in_thread else counters[metric.name]:
                counter.carry_out(metric, item)
    low, high = (
        sum((pair[side].total for pair in counters.values()), Usage())
        for side in (0, 1)
    )
    idle = {name: why for name, why in gaps.items() if name not in applied}
    shares = [
        getattr(model, "batch_share", 1.0)
        for own in resolved.values()
        for model in own.models
    ]
    return Estimate(count, low, high, bad, idle, max(shares, default=1.0))


def _gap(metric: Metric, sample: Sample) -> Undefined | None:
    """Why a metric is undefined for a sample.

    None also where its own code fails, as a run goes on then.
    """
    try:
        gap: object = metric.gap(sample)
    except Exception:  # noqa: BLE001  # the run says which metric it was
        return None
    return gap if isinstance(gap, Undefined) else None


def counting_judges(resolved: Judge) -> tuple[CountingJudge, CountingJudge]:
    """Return two judges that count what a judge would send.

    The first counts the least, the second the most that is usual.
    """
    for model in resolved.models:
        run(model.prepare())
    first = resolved
    # at the least its cheap judge decides everything
    while isinstance(first, CascadeJudge):
        first = first.cheap
    return CountingJudge(first.models, high=False), CountingJudge(
        resolved.models, high=True
    )


def _range(low: int | str, high: int | str) -> str:
    told = [own if isinstance(own, str) else f"{own:,}" for own in (low, high)]
    return told[0] if low == high else " to ".join(told)
