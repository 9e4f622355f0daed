"""What a run would cost: the metrics' own plans are carried out with a judge that counts instead of calling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice
from typing import Any

from ragmetrics_core.data.errors import RowError
from ragmetrics_core.data.questions import (
    Adherent,
    Answer,
    ChunkVerdict,
    ExtractFacts,
    FactInContext,
    FactVerdict,
    Poll,
    Polls,
    Question,
    R,
    RateRecall,
    RecallRating,
    Sufficiency,
    Sufficient,
    Useful,
)
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.data.writing import TaggedSentence, WriteQuestion, Written
from ragmetrics_core.endpoints.chat import Capabilities
from ragmetrics_core.engine.carrying import Seat, carry_out
from ragmetrics_core.engine.loop import submit
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.judging.rendering import render
from ragmetrics_core.metrics.context_adherence import ContextAdherence
from ragmetrics_core.metrics.metric import Metric

_ASSUMPTIONS = (
    "Tokens: 3 to 4 characters each; replies as long as usual for their form.",
    "Facts: one to three per sentence of a reference. Low adherence, which asks for a cause: on no sample to all.",
    "Not counted: repairs of unusable replies, retries, hidden reasoning. Counted once: what is asked twice.",
    "Not deducted: replies that the store holds already, which cost nothing.",
)
_POOL = 64  # as many samples as a run shows to metrics beforehand
_REPLY_TOKENS: dict[str, tuple[int, int]] = {
    "useful": (12, 40),
    "adherent": (60, 400),
    "rate_recall": (30, 120),
    "fact_in_context": (6, 12),
    "sufficient": (50, 250),
    "write_question": (80, 600),
}


@dataclass(frozen=True)
class Estimate:
    """What a run would cost, as lower and upper values; equal where the number is exact.

    Attributes:
        samples: Samples read.
        bad_rows: Rows that are no sample.
        calls: Requests to models.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens received.
        cost: US dollars; None where a price is unknown.
    """

    samples: int
    bad_rows: int
    calls: tuple[int, int]
    prompt_tokens: tuple[int, int]
    completion_tokens: tuple[int, int]
    cost: tuple[float, float] | None

    @classmethod
    def of(cls, samples: int, low: Usage, high: Usage, *, bad_rows: int = 0) -> Estimate:
        """From what counting judges counted."""
        calls, cost = (low.calls, high.calls), (low.cost, high.cost)
        prompt, completion = (low.prompt_tokens, high.prompt_tokens), (low.completion_tokens, high.completion_tokens)
        known = None if cost[0] is None or cost[1] is None else (cost[0], cost[1])
        return cls(samples, bad_rows, calls, prompt, completion, known)

    def text(self, unit: str = "samples") -> str:
        """The estimate for people, with its assumptions; ``unit`` says what ``samples`` counts."""
        price = "unknown" if self.cost is None else _range(*(f"${value:.4f}" for value in self.cost))
        lines = [
            f"{self.samples} {unit}, {self.bad_rows} bad rows; nothing was called",
            f"calls:             {_range(*self.calls)}",
            f"prompt tokens:     {_range(*self.prompt_tokens)}",
            f"completion tokens: {_range(*self.completion_tokens)}",
            f"price:             {price}",
        ]
        return "\n".join([*lines, *_ASSUMPTIONS] if self.calls[1] else lines)


def estimate(samples: Iterable[Sample | RowError], metrics: Sequence[Metric], judge: Judge | None) -> Estimate:
    """Count calls and tokens of a run without making a call.

    Args:
        samples: Samples, and errors of rows that are none.
        metrics: The metrics.
        judge: The judge; None as in ``evaluate``.
    """
    counters = {metric.name: _counters(metric, judge) for metric in metrics}
    iterator = iter(samples)
    pool = list(islice(iterator, _POOL))
    metrics = [metric.prepare([sample for sample in pool if isinstance(sample, Sample)]) for metric in metrics]
    count = bad = 0
    for sample in chain(pool, iterator):
        if isinstance(sample, RowError):
            bad += 1
            continue
        count += 1
        for metric in metrics:
            for counter in counters[metric.name]:
                submit(carry_out(metric, sample, Seat(counter))).result()
    low, high = (sum((pair[side].total for pair in counters.values()), Usage()) for side in (0, 1))
    return Estimate.of(count, low, high, bad_rows=bad)


def _counters(metric: Metric, judge: Judge | None) -> tuple[CountingJudge, CountingJudge]:
    split = isinstance(metric, ContextAdherence) and metric.early_stop
    return counting_judges(resolve_judge(judge, metric_model=metric.model), split=split)


def counting_judges(resolved: Judge, *, split: bool = False) -> tuple[CountingJudge, CountingJudge]:
    """Judges that count what a judge would send: the least and the most that is usual.

    Args:
        resolved: The judge.
        split: Let polls disagree.
    """
    if not isinstance(resolved, LLMJudge):
        return CountingJudge(None, None, high=False), CountingJudge(None, None, high=True)
    submit(resolved.model.prepare()).result()
    can, prices = resolved.model.capabilities(), resolved.model.prices()
    return CountingJudge(can, prices, high=False), CountingJudge(can, prices, high=True, split=split)


class CountingJudge(Judge):
    """Counts what an LLM judge would send and receive, and replies something plausible.

    Args:
        capabilities: What the model can do; None for judges that make no calls.
        prices: US dollars per prompt and completion token; None if unknown.
        high: Count the most that is usual instead of the least.
        split: Let polls disagree.
    """

    name = "dry run"

    def __init__(
        self,
        capabilities: Capabilities | None,
        prices: tuple[float, float] | None,
        *,
        high: bool,
        split: bool = False,
    ) -> None:
        self.total = Usage()
        self._capabilities, self._prices = capabilities, prices
        self._high, self._split = high, split
        self._asked: set[bytes] = set()

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Count a question, unless the same was asked before: a run keeps replies."""
        if self._capabilities is not None:
            contents = [message.content for message in render(question)]
            first = question.first_poll if isinstance(question, Adherent) else 0
            key = sha256("\0".join([question.kind, str(first), *contents]).encode()).digest()
            if key not in self._asked:
                self._asked.add(key)
                self.total += self._usage(question, sum(map(len, contents)))
        return Answer(self._reply(question))

    def _usage(self, question: Question[Any], characters: int) -> Usage:
        replies, calls = self._volume(question)
        prompt = calls * (characters // (3 if self._high else 4) + 8)
        if isinstance(question, ExtractFacts):
            completion = len(question.reference) // (2 if self._high else 4) + 20
        else:
            low, high = _REPLY_TOKENS.get(question.kind, (20, 200))
            completion = replies * _parts(question) * (high if self._high else low)
        cost = None
        if self._prices is not None:
            cost = prompt * self._prices[0] + completion * self._prices[1]
        return Usage(calls=calls, prompt_tokens=prompt, completion_tokens=completion, cost=cost)

    def _volume(self, question: Question[Any]) -> tuple[int, int]:
        """Replies and calls of a question."""
        can = self._capabilities or Capabilities()
        together = (not self._high if can.n is None else can.n) and can.temperature is not False
        polls = question.polls if isinstance(question, (Adherent, FactInContext, Useful)) else 1
        if isinstance(question, Adherent):
            return polls, 1 if together else polls
        weighed = isinstance(question, FactInContext) and not question.together
        weighed = weighed or (isinstance(question, Useful) and question.probabilities and question.scale != "graded")
        if not weighed or can.logprobs or (can.logprobs is None and not self._high) or polls < 2:
            return 1, 1
        if can.logprobs is None:  # tried with one reply, which counts as the first poll
            return polls, 1 + (1 if together else polls - 1)
        return polls, 1 if together else polls

    def _reply(self, question: Question[Any]) -> Any:
        if isinstance(question, Useful):
            return (ChunkVerdict(useful=True, probability=1.0, grade=3),) * len(question.chunks)
        if isinstance(question, Adherent):
            return Polls(question.polls, tuple(self._poll(question, number) for number in range(question.polls)))
        if isinstance(question, RateRecall):
            return RecallRating(1.0)
        if isinstance(question, ExtractFacts):
            sentences = max(1, sum(question.reference.count(end) for end in ".!?。"))
            own = sha256(question.reference.encode(errors="replace")).hexdigest()[:32]  # as long as facts often are
            return tuple(f"{number} {own}" for number in range(sentences * (3 if self._high else 1)))
        if isinstance(question, FactInContext):
            return (FactVerdict(1.0),) * len(question.facts)
        if isinstance(question, Sufficient):
            return Sufficiency(sufficient=True, on_question=True)
        if isinstance(question, WriteQuestion):
            return self._written(question)
        return None

    def _written(self, question: WriteQuestion) -> Written:
        """Low: one sentence from each chunk. High: three from each. Different for different chunks."""
        own = sha256("\0".join(question.chunks).encode(errors="replace")).hexdigest()
        sentences = [
            TaggedSentence(f"{own} {number}.", chunk)
            for chunk in range(len(question.chunks))
            for number in range(3 if self._high else 1)
        ]
        return Written(f"{own}?", tuple(sentences))

    def _poll(self, question: Adherent, number: int) -> Poll:
        """Low: yes. High: no, so that a cause is asked for; split where polls stop early, so that none stops."""
        split = self._split and (question.first_poll + number) % 2 == 1
        return Poll("no" if self._high and not split else "yes")


def _parts(question: Question[Any]) -> int:
    """How many verdicts one reply holds."""
    if isinstance(question, Useful):
        return len(question.chunks)
    return len(question.facts) if isinstance(question, FactInContext) else 1


def _range(low: object, high: object) -> str:
    return str(low) if low == high else f"{low} to {high}"
