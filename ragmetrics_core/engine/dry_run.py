"""Estimates what a run would cost, without a call.

The metrics' own plans are carried out with a judge that counts instead of calling.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, product
from typing import Any, NamedTuple

from ragmetrics_core.data import (
    Answer,
    Asked,
    Failed,
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
from ragmetrics_core.data.errors import JudgeError, QuestionNotSupported, RowError
from ragmetrics_core.data.higher_rooms import import_deferred
from ragmetrics_core.engine.loop import run
from ragmetrics_core.engine.own_judge import counts_by_itself, parts_of
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.engine.run import POOL
from ragmetrics_core.engine.scoring import prepare_metric, signature_with_judge
from ragmetrics_core.judging.cascade import CascadeJudge
from ragmetrics_core.judging.decision_judge import DecisionJudge, typed_form
from ragmetrics_core.judging.judge import Judge, check_judge
from ragmetrics_core.judging.model_judge import ModelJudge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.models.chat import Capabilities, ChatModel
from ragmetrics_core.models.decision_forms import (
    characters_of_question,
    characters_of_state,
)
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.guard_forms import GuardRequest
from ragmetrics_core.models.guard_model import GuardModel
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
# Characters of the tags around a text.
_TAGS = 45
# Characters in a token: many where the least is counted, few where the most is.
_LONG_TOKEN = 4
_SHORT_TOKEN = 3
# Tokens that an endpoint adds to a prompt: roles, and what separates messages.
_TOKENS_AROUND_PROMPT = 8
# Tokens of a guard's reply.
_TOKENS_OF_WORD = 8
# Tokens of a reply of which the question gives no example.
_SHORT_REPLY = 20
_LONG_REPLY = 200


class Failing(NamedTuple):
    """On how many samples a metric fails, and why."""

    n_samples: int
    reason: str


@dataclass(frozen=True)
class Estimate:
    """What a run over so many samples would cost.

    Attributes:
        samples: How many samples there are.
        low: The least that is usual; its cost is None where a price is unknown.
        high: The most that is usual; equal to ``low`` where the estimate is exact.
        bad_rows: Rows that are no sample.
        left_out: Why a metric that applies to no sample does not, by its name.
        failing: On how many samples a metric fails whatever is replied, and why, by its
            name: the judge cannot be asked what it asks.
        batch_share: Share of the price that is paid where it is asked in batches.
        own_judges: Names of judges of a user's own. Each question to them counts as a
            call, of which nobody knows the tokens and the price.
    """

    samples: int
    low: Usage
    high: Usage
    bad_rows: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict, compare=False)
    failing: Mapping[str, Failing] = field(default_factory=dict, compare=False)
    batch_share: float = 1.0
    own_judges: tuple[str, ...] = ()

    def text(self, unit: str = "samples", live: int | None = None) -> str:
        """The estimate for people, with its assumptions.

        Args:
            unit: What is counted, e.g. ``samples``.
            live: How many requests a run in batches asks live, beside them.
        """
        lines = [
            f"{self.samples} {unit}, {self.bad_rows} bad rows; nothing was called",
            f"calls:             {_range_in_words(self.low.calls, self.high.calls)}",
            f"prompt tokens:     {self._tokens_sent}",
            f"completion tokens: {self._tokens_received}",
            f"price:             {self._price(live or 0)}",
        ]
        for name in self.own_judges:
            lines.append(
                f"questions to the judge {name} count as one call each; what it sends,"
                " and what that costs, is its own affair"
            )
        if self.low.spared + self.low.passed:
            lines.append(self._cascade())
        for name, reason in self.left_out.items():
            lines.append(f"{name} left out: {reason} on every row")
        for name, failing in self.failing.items():
            lines.append(
                f"{name} will fail on {failing.n_samples:,} of {self.samples:,} {unit}:"
                f" {failing.reason}"
            )
        if self.high.prompt_tokens:
            lines += _ASSUMPTIONS
        return "\n".join(lines)

    @property
    def _tokens_sent(self) -> str:
        """Tokens of all prompts, in words; unknown of judges of a user's own."""
        if self.own_judges:
            return "unknown"
        return _range_in_words(self.low.prompt_tokens, self.high.prompt_tokens)

    @property
    def _tokens_received(self) -> str:
        """Tokens of all replies, in words; unknown of judges of a user's own."""
        if self.own_judges:
            return "unknown"
        return _range_in_words(self.low.completion_tokens, self.high.completion_tokens)

    def _cascade(self) -> str:
        """How many questions the free judge of a cascade passes on."""
        n_questions = self.low.spared + self.low.passed
        passed = _range_in_words(self.low.passed, self.high.passed)
        return (
            f"cascade:           the cheap judge, which is free, was asked; {passed} of"
            f" {n_questions:,} questions pass on to the strong one"
        )

    def _price(self, live: int) -> str:
        """The price of all calls, of batches, and of requests asked live."""
        low, high = self.low.cost, self.high.cost
        if low is None or high is None:
            return "unknown"
        price = _range_in_words(f"${low:.4f}", f"${high:.4f}")
        if self.batch_share != 1.0:
            low_in_batches = f"${self.batch_share * low:.4f}"
            high_in_batches = f"${self.batch_share * high:.4f}"
            price += f", in batches {_range_in_words(low_in_batches, high_in_batches)}"
        if live:
            price_live = live * high / max(1, self.high.calls)
            price += f", {live:,} requests live ${price_live:.4f}"
        return price


def needed(
    estimate_of_all: Estimate, gates: Iterable[Gate], until: UntilDecided
) -> list[str]:
    """Return lines that say how many samples each gate would need on average.

    Each line supposes that the mean is .02, .05 or .1 away from the gate. It also says
    what these samples would cost.

    Args:
        estimate_of_all: What judging all samples would cost.
        gates: The gates.
        until: How the run stops as soon as they are decided.
    """
    return [
        _samples_line(estimate_of_all, gate, gap, until)
        for gate, gap in product(gates, (0.02, 0.05, 0.1))
    ]


def _samples_line(
    estimate_of_all: Estimate, gate: Gate, gap: float, until: UntilDecided
) -> str:
    """How many samples a gate would need if the mean were so far from it."""
    make_gate = partial(until.gate, gate.at_least, rows=estimate_of_all.samples)
    means_so_far = (gate.at_least - gap, gate.at_least + gap)
    n_samples = max(
        samples_needed(make_gate, mean, estimate_of_all.samples)
        for mean in means_so_far
        if 0 <= mean <= 1
    )
    # of all samples
    share = n_samples / max(1, estimate_of_all.samples)
    low, high = estimate_of_all.low, estimate_of_all.high
    calls = _range_in_words(round(share * low.calls), round(share * high.calls))
    price = "price unknown"
    if low.cost is not None and high.cost is not None:
        price = _range_in_words(f"${share * low.cost:.4f}", f"${share * high.cost:.4f}")
    return (
        f"{gate} until decided, mean {gap:g} away: {n_samples:,.0f} of"
        f" {estimate_of_all.samples:,} samples on average, {calls} calls, {price}"
    )


@dataclass(frozen=True, slots=True)
class _CountedModel:
    """What is counted of a model: what it can do, and its prices per token."""

    capabilities: Capabilities
    prices: tuple[float, float] | None


class CountingJudge(Judge):
    """Counts the calls and tokens that a judge of chat models would take.

    It stands in for the judge of a run while nothing is called: it answers a question
    with the example reply that the question names, so that a metric goes on as it would
    in a run.

    Args:
        models: The models that the judge asks, each of them every question.
        high: Whether the most that is usual is counted, instead of the least.

    Attributes:
        total: What was counted so far.
    """

    name = "dry run"

    def __init__(self, models: Sequence[ChatModel], *, high: bool) -> None:
        self._total = Usage()
        self._models = [
            _CountedModel(model.capabilities(), model.prices()) for model in models
        ]
        self._high = high
        # Digests of the questions that were counted.
        self._counted: set[int] = set()

    @property
    def total(self) -> Usage:
        """What was counted so far."""
        return self._total

    def carry_out(self, metric: Metric, sample: Sample) -> JudgeError | None:
        """Count what a metric asks of a sample.

        No event loop is used, which would take half of the time.

        Returns:
            Why the metric fails whatever is replied: the judge cannot be asked one of
            its questions. None if nothing of that kind is seen.
        """
        plan = metric.plan(sample)
        refusal: JudgeError | None = None
        try:
            questions = next(plan)
            while True:
                replies = tuple(self.count(question).reply for question in questions)
                refusal = refusal or _refusal_among(replies)
                questions = plan.send(replies)
        except StopIteration as end:
            return refusal if isinstance(end.value, Failed) else None
        except Exception:  # noqa: BLE001  # after an error a run goes on, too
            return None

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Count a question; see ``count``."""
        return self.count(question)

    def count(self, question: Question[R]) -> Answer[R]:
        """Count a question, and answer it by its example.

        What was asked before is not counted again, since a run keeps replies.
        """
        replies = self._example_replies(question)
        self._add_usage_of_new(question, replies)
        if not replies:
            kind = type(question).__name__
            message = f"questions of type {kind} name no example reply"
            return Answer(NotAnswered(_NoExample(message)))
        weights: tuple[Weight, ...] = ()
        if question.weigh is not None:
            weights = (Weight(1.0),) * len(verdicts_of(replies[0]))
        return Answer(Asked(replies, weights=weights))

    def _add_usage_of_new(self, question: Question[R], replies: tuple[R, ...]) -> None:
        """Add what every model would take for a question, if it was not counted before.

        A question that a run has asked before is answered by the store of replies. One
        that is polled in rounds, for several independent replies, is a new question in
        each round.
        """
        if not self._models:
            return
        parts = tuple(question.parts.values())
        number_of_first_poll = question.first_poll or 0
        digest = hash(
            (type(question), number_of_first_poll, question.instructions, *parts)
        )
        if digest in self._counted:
            return
        self._counted.add(digest)
        for model in self._models:
            self._total += self._usage_estimated(question, replies, model)

    def _example_replies(self, question: Question[R]) -> tuple[R, ...]:
        """Return the example replies to a question: the least, or the most.

        Where polls are asked for in rounds and may stop early, those of the most
        disagree, so that none stops. There are none if the question has no example.
        """
        examples = question.examples()
        if examples is None:
            return ()
        least, most = examples
        if not self._high:
            return (least,) * question.polls
        if question.first_poll is None:
            return (most,) * question.polls
        polls = range(question.first_poll, question.first_poll + question.polls)
        return tuple(least if poll % 2 else most for poll in polls)

    def _usage_estimated(
        self, question: Question[R], replies: tuple[R, ...], model: _CountedModel
    ) -> Usage:
        """The calls, tokens and price that one model would take for a question."""
        n_replies, n_calls = self._replies_and_calls(question, model.capabilities)
        characters_per_token = _SHORT_TOKEN if self._high else _LONG_TOKEN
        if replies:
            characters = len(replies[0].model_dump_json(exclude_defaults=True))
            tokens_of_reply = characters // characters_per_token
        else:
            tokens_of_reply = _LONG_REPLY if self._high else _SHORT_REPLY
        tokens_of_prompt = _characters(question) // characters_per_token
        tokens_received = n_replies * tokens_of_reply
        tokens_sent = n_calls * (tokens_of_prompt + _TOKENS_AROUND_PROMPT)
        cost = None
        if model.prices is not None:
            price_sent, price_received = model.prices
            cost = tokens_sent * price_sent + tokens_received * price_received
        return Usage(
            calls=n_calls,
            prompt_tokens=tokens_sent,
            completion_tokens=tokens_received,
            cost=cost,
        )

    def _replies_and_calls(
        self, question: Question[R], can: Capabilities
    ) -> tuple[int, int]:
        """How many replies a question takes, and in how many calls.

        What is not known of a model counts as there for the least, as missing for the
        most.
        """
        gives_several = self._supposed(can.n)
        shares_a_call = gives_several and can.temperature is not False
        if question.weigh is None:
            n_polls = question.polls
            return n_polls, 1 if shares_a_call else n_polls
        n_polls = question.weigh.fallback_polls
        if self._supposed(can.logprobs) or n_polls < 2:
            return 1, 1
        if can.logprobs is None:
            # Log-probabilities are tried with one reply, which is the first poll.
            return n_polls, 2 if shares_a_call else n_polls
        return n_polls, 1 if shares_a_call else n_polls

    def _supposed(self, capability: bool | None) -> bool:
        """Whether a model is counted as able to do something; None: nobody knows."""
        if capability is None:
            return not self._high
        return capability


class _NoExample(QuestionNotSupported):
    """Why a dry run alone cannot answer: a run asks the question all the same."""


def _refusal_among(replies: Iterable[object]) -> JudgeError | None:
    """Why the judge of a run cannot be asked one of several questions."""
    for reply in replies:
        if isinstance(reply, NotAnswered) and not isinstance(reply.error, _NoExample):
            return reply.error
    return None


class CountingCascade(CountingJudge):
    """Counts a cascade whose cheap judge is free.

    That one is asked, as in a run. Only what it passes on is counted.

    Args:
        cascade: The cascade.
        strong: Counts what the strong judge would send and receive.
    """

    def __init__(self, cascade: CascadeJudge, strong: CountingJudge) -> None:
        super().__init__((), high=False)
        self._cascade = cascade.with_parts(
            lambda judge: strong if judge is cascade.strong else judge
        )
        self._strong = strong
        self._decided = Usage()

    @property
    def total(self) -> Usage:
        """What was counted so far, and how many questions each judge was asked."""
        return self._strong.total + self._decided

    def count(self, question: Question[R]) -> Answer[R]:
        """Ask the cheap judge, and count the question where it is unsure."""
        return run(self.answer(question))

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Ask the cheap judge, and count the question where it is unsure."""
        answer = await self._cascade.answer(question)
        self._decided += Usage(spared=answer.usage.spared, passed=answer.usage.passed)
        return answer


class CountingDecisions(CountingJudge):
    """Counts what a judge of typed questions would send.

    At the least, questions about equal texts share a request. At the most, each
    question has its own: what is asked after the first replies shares nothing, and some
    services count the texts for each.

    Args:
        model: The model.
        high: Whether the most that is usual is counted, instead of the least.
    """

    def __init__(self, model: DecisionModel, *, high: bool) -> None:
        super().__init__((), high=high)
        self._model = model
        self._characters_per_token = _SHORT_TOKEN if high else _LONG_TOKEN
        # Of each request by what it is about: digests of its questions.
        self._questions_of: dict[int, set[int]] = {}

    def count(self, question: Question[R]) -> Answer[R]:
        """Count a question, and answer it by its example."""
        form = typed_form(question)
        if form.reply is not None:
            return Answer(form.reply)
        about = (form.state, form.texts) if self._high else form.state
        for text in form.typed:
            self._add(hash(about), form.state, text)
        replies = self._example_replies(question)[:1]
        weights: tuple[Weight, ...] = ()
        if replies and question.weigh is not None:
            weights = (Weight(1.0, "decision"),) * len(verdicts_of(replies[0]))
        if not replies:
            return super().count(question)  # which says that there is no example
        return Answer(Asked(replies, weights=weights))

    def _add(self, about: int, state: str, text: str) -> None:
        """Count a typed question, and a request where those before it are full."""
        asked = self._questions_of.setdefault(about, set())
        if hash(text) in asked:
            return
        is_new_request = len(asked) % self._model.most_questions == 0
        asked.add(hash(text))
        n_characters = characters_of_question(text, most=self._high)
        tokens = n_characters // self._characters_per_token
        if is_new_request:
            n_characters = characters_of_state(state, most=self._high)
            tokens += n_characters // self._characters_per_token
        prices = self._model.prices()
        self._total += Usage(
            calls=int(is_new_request),
            prompt_tokens=tokens,
            cost=None if prices is None else tokens * prices[0],
        )


class CountingQuestions(CountingJudge):
    """Counts the questions to a judge of a user's own; their price nobody knows."""

    def __init__(self) -> None:
        super().__init__((), high=False)

    def _add_usage_of_new(self, question: Question[R], replies: tuple[R, ...]) -> None:
        """Count a question as one call; it is asked anew each time, as nothing is kept."""
        del question, replies  # no example tells what such a judge sends
        self._total += Usage(calls=1, cost=None)


class CountingGuards(CountingJudge):
    """Counts what a guard would be sent: a request for each claim, fact or chunk.

    At the most the endpoint rejects log-probabilities, which nobody knows before. All
    that is asked until then is asked twice: the control, or anything where there is
    none. What is rejected costs a call, and no token.

    Args:
        judge: The judge that asks the guard.
        high: Whether the most that is usual is counted, instead of the least.
    """

    def __init__(self, judge: Judge, *, high: bool) -> None:
        super().__init__((), high=high)
        guard: Any = judge  # a GuardJudge, whose room may be left out
        self._model: GuardModel = guard.model
        self._requests: set[GuardRequest] = set()
        is_unknown = guard.model.capabilities().logprobs is None
        self._may_be_rejected = high and is_unknown and guard.top_logprobs > 0
        if guard.control:
            for request in import_deferred("control_requests")():
                self._add(request)
            self._may_be_rejected = False  # the control has found out

    def count(self, question: Question[R]) -> Answer[R]:
        """Count a question, and answer it as a guard to which everything holds."""
        try:
            asked = import_deferred("guard_questions")(self._model.form, question)
        except JudgeError as error:
            return Answer(NotAnswered(error))
        for request in asked.requests:
            self._add(request)
        verdict = import_deferred("GuardVerdict")(True, 1.0)
        return Answer(asked.reads([verdict] * len(asked.requests)))

    def _add(self, request: GuardRequest) -> None:
        """Count a request that was not counted before."""
        if request in self._requests:
            return
        self._requests.add(request)
        characters_per_token = _SHORT_TOKEN if self._high else _LONG_TOKEN
        sent = len(json.dumps(self._model.form.fields(request))) // characters_per_token
        prices = self._model.prices()
        cost = None
        if prices is not None:
            price_sent, price_received = prices
            cost = sent * price_sent + _TOKENS_OF_WORD * price_received
        self._total += Usage(
            calls=2 if self._may_be_rejected else 1,
            prompt_tokens=sent,
            completion_tokens=_TOKENS_OF_WORD,
            cost=cost,
        )


class CountingBoth(CountingJudge):
    """Counts a cascade at its most: both judges are asked every question."""

    def __init__(self, cheap: CountingJudge, strong: CountingJudge) -> None:
        super().__init__((), high=True)
        self._cheap = cheap
        self._strong = strong

    @property
    def total(self) -> Usage:
        """What was counted so far of both."""
        return self._cheap.total + self._strong.total

    def count(self, question: Question[R]) -> Answer[R]:
        """Count a question for both judges, and answer as the strong one does."""
        self._cheap.count(question)
        return self._strong.count(question)


def _characters(question: Question[Any]) -> int:
    """How long a prompt is, nearly; rendering thousands of them would take seconds."""
    instructions = question.instructions
    check_template(instructions, tuple(question.parts))
    shown_parts = [
        part
        for name, part in question.parts.items()
        if f"{{{name}}}" in instructions.template
    ]
    total = len(instructions.template) + len(instructions.examples)
    for example in instructions.quoted:
        total += len(example.text) + len(example.judgement)
    for part in shown_parts:
        total += sum(len(text) + _TAGS for text in part.texts)
        total += sum(len(turn.content) + _TAGS for turn in part.history)
    return total


@dataclass
class _RowsCounted:
    """The rows that were looked at, and which metrics apply to any.

    Attributes:
        reasons: Why a metric is undefined on the first row where it is, by its name.
        applied: Names of the metrics that apply to a row.
        failing: On how many rows a metric fails whatever is replied, by its name.
    """

    n_samples: int = 0
    n_bad_rows: int = 0
    reasons: dict[str, str] = field(default_factory=dict)
    applied: set[str] = field(default_factory=set)
    failing: dict[str, Failing] = field(default_factory=dict)

    @property
    def left_out(self) -> dict[str, str]:
        """The metrics that apply to no row, with the reason."""
        return {
            name: reason
            for name, reason in self.reasons.items()
            if name not in self.applied
        }

    def add(
        self,
        row: Sample | RowError,
        metrics: Sequence[Metric],
        counters: Mapping[str, Sequence[CountingJudge]],
    ) -> None:
        """Count a row, and have each metric ask its judges' counters about it."""
        if not isinstance(row, Sample):
            self.n_bad_rows += 1
            return
        self.n_samples += 1
        for metric in metrics:
            gap = _why_undefined(metric, row)
            if gap is not None:
                self.reasons.setdefault(metric.name, gap.reason)
                continue
            self.applied.add(metric.name)
            if metric.in_thread:
                # A function of the sample asks nothing, and is not called here.
                continue
            refusals = [
                counter.carry_out(metric, row) for counter in counters[metric.name]
            ]
            # at the most, both judges of a cascade are asked
            refusal = refusals[-1]
            if refusal is not None:
                known = self.failing.get(metric.name, Failing(0, str(refusal)))
                self.failing[metric.name] = known._replace(
                    n_samples=known.n_samples + 1
                )


def estimate(
    samples: Iterable[Sample | RowError], metrics: Sequence[Metric], judge: Judge | None
) -> Estimate:
    """Count calls and tokens of a run without making a call.

    Arguments are those of ``evaluate``.

    Raises:
        SettingError: If a metric or judge is one that a run refuses.
    """
    judge_by_metric = _judge_by_metric(judge, metrics)
    judges = list(judge_by_metric.values())
    # Metrics of one judge share its counters, as they share its replies in a run.
    counters_by_judge = {
        id(metric_judge): counting_judges(metric_judge) for metric_judge in judges
    }
    counters_by_metric = {
        name: counters_by_judge[id(metric_judge)]
        for name, metric_judge in judge_by_metric.items()
    }
    rows = iter(samples)
    first_rows = list(islice(rows, POOL))
    ready_metrics = _prepare_metrics(metrics, judge_by_metric, first_rows)
    rows_counted = _RowsCounted()
    for row in chain(first_rows, rows):
        rows_counted.add(row, ready_metrics, counters_by_metric)
    return Estimate(
        samples=rows_counted.n_samples,
        low=_sum_of(lower.total for lower, _ in counters_by_judge.values()),
        high=_sum_of(upper.total for _, upper in counters_by_judge.values()),
        bad_rows=rows_counted.n_bad_rows,
        left_out=rows_counted.left_out,
        failing=rows_counted.failing,
        batch_share=_batch_share(judges),
        own_judges=_names_of_own_judges(judges),
    )


def _judge_by_metric(
    judge: Judge | None, metrics: Sequence[Metric]
) -> dict[str, Judge]:
    """The judge of each metric by the metric's name; ``SettingError`` if it is none."""
    judge_by_metric: dict[str, Judge] = {}
    for metric in metrics:
        metric_judge = resolve_judge(judge, metric_model=metric.model)
        check_judge(metric_judge)
        judge_by_metric[metric.name] = metric_judge
    return judge_by_metric


def _prepare_metrics(
    metrics: Sequence[Metric],
    judge_by_metric: Mapping[str, Judge],
    first_rows: Sequence[Sample | RowError],
) -> list[Metric]:
    """The metrics, ready for a run, which looks at its first samples for some of them.

    ``SettingError`` for a metric or judge that a run refuses.
    """
    first_samples = [row for row in first_rows if isinstance(row, Sample)]
    ready_metrics = [prepare_metric(metric, first_samples) for metric in metrics]
    for metric in ready_metrics:
        signature_with_judge(metric, judge_by_metric[metric.name])
    return ready_metrics


def _sum_of(usages: Iterable[Usage]) -> Usage:
    total = Usage()
    for usage in usages:
        total += usage
    return total


def _batch_share(judges: Iterable[Judge]) -> float:
    """The highest share of the price that any model takes for a request in a batch."""
    shares: list[float] = []
    for judge in judges:
        shares += [getattr(model, "batch_share", 1.0) for model in judge.models]
    return max(shares, default=1.0)


def _names_of_own_judges(judges: Iterable[Judge]) -> tuple[str, ...]:
    """The names of judges whose questions are all that can be counted, each once."""
    names: dict[str, None] = {}
    for judge in judges:
        for part in parts_of(judge):
            if not part.models and not counts_by_itself(part):
                names[part.name] = None
    return tuple(names)


def _why_undefined(metric: Metric, sample: Sample) -> Undefined | None:
    """Why a metric is undefined for a sample.

    None also where its own code fails, as a run goes on then.
    """
    try:
        gap: object = metric.gap(sample)
    except Exception:  # noqa: BLE001  # the run says which metric it was
        return None
    return gap if isinstance(gap, Undefined) else None


def counting_judges(judge: Judge) -> tuple[CountingJudge, CountingJudge]:
    """Return two judges that count what a judge would send.

    The first counts the least, the second the most that is usual.
    """
    for model in judge.models:
        run(model.prepare())
    return _counting_judge(judge, high=False), _counting_judge(judge, high=True)


def _counting_judge(judge: Judge, *, high: bool) -> CountingJudge:
    """A judge that counts what another one would send, at the least or at the most.

    Of a cascade the least is what its cheap judge takes, the most what both take. Where
    the cheap judge is free, it is asked, and what it passes on is counted.
    """
    if isinstance(judge, CascadeJudge) and judge.cheap.free:
        return CountingCascade(judge, _counting_judge(judge.strong, high=high))
    if isinstance(judge, CascadeJudge) and not high:
        # At the least its cheap judge decides everything.
        return _counting_judge(judge.cheap, high=False)
    if isinstance(judge, CascadeJudge):
        return CountingBoth(
            _counting_judge(judge.cheap, high=True),
            _counting_judge(judge.strong, high=True),
        )
    if isinstance(judge, DecisionJudge):
        return CountingDecisions(judge.model, high=high)
    if isinstance(judge, ModelJudge) and isinstance(judge.model, GuardModel):
        return CountingGuards(judge, high=high)
    if not judge.models and not counts_by_itself(judge):
        return CountingQuestions()
    return CountingJudge(judge.models, high=high)


def _range_in_words(low: int | str, high: int | str) -> str:
    """Two numbers as a range; one number where they are equal."""
    if low == high:
        return _in_words(low)
    return f"{_in_words(low)} to {_in_words(high)}"


def _in_words(number: int | str) -> str:
    return number if isinstance(number, str) else f"{number:,}"
