"""What a run would cost, about, without a call.

A dry run is a run whose judges count each question, and answer it with the example reply
that the question names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    Failed,
    NotAnswered,
    Question,
    R,
    Sample,
    SampleResult,
    Undefined,
    Usage,
    Weight,
    verdicts_of,
)
from ragmetrics_core.data.asking import check_template
from ragmetrics_core.data.errors import MetricCrashed, QuestionNotSupported, RowError
from ragmetrics_core.engine.loop import wait_for
from ragmetrics_core.engine.sample_judging import (
    SampleJudging,
    distinct_judges,
    judges_by_metric,
)
from ragmetrics_core.engine.scoring import counts_by_itself, signature_with_judge
from ragmetrics_core.judging.decision_judge import convert_question
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import FunctionMetric, Metric
from ragmetrics_core.models.chat import Capabilities
from ragmetrics_core.models.decision_forms import request_text
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.features import gather_all, no_logprobs
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.openai_form import priced
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.models.threads import await_users_code

_CONCURRENCY = 32
_ROWS_AT_A_TIME = 64
_CHARACTERS_OF_TOKEN = 3.5
_CHARACTERS_OF_TAGS = 45  # around each text of a prompt
_TOKENS_AROUND_PROMPT = 8  # roles, and what separates messages
_TOKENS_OF_REPLY = 100  # of a question that names no example
_ASSUMPTIONS = (
    "About: tokens of 3.5 characters; replies as long as usual; good answers.",
    "Not counted: questions on low scores, repairs, retries, hidden reasoning.",
    "A question that is asked twice counts once; stored replies are not deducted.",
)


class NoExample(QuestionNotSupported):
    """Why a dry run alone cannot answer: a run asks the question all the same."""


class CountingJudge(Judge):
    """Counts the calls and tokens that a judge would take, and replies by example.

    A question that was asked before is not counted again, since a run keeps replies.

    Args:
        judge: The judge that a run would ask.

    Attributes:
        usage: What its questions would take.
    """

    free = True  # what it counts is no spending of the dry run

    def __init__(self, judge: Judge) -> None:
        for model in judge.models:
            wait_for(await_users_code(model, model.prepare))
        self.name = judge.name
        self.usage = Usage()
        self._judge = judge
        self._digests_counted: set[int] = set()

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Count a question, and answer it with the example reply that it names.

        A question that the judge would refuse, or that names no example, is answered
        with an error.
        """
        check_template(question.instructions, tuple(question.parts))
        models = self._judge.models
        wanted = question.wanted_probability
        reply = question.example_reply()
        if models and isinstance(models[0], DecisionModel):
            converted = convert_question(question)
            if isinstance(converted, NotAnswered):  # refused
                return Answer(converted)
            new_questions = [
                typed_json
                for typed_json in converted.typed_by_json
                if self._is_new(converted.state, typed_json)
            ]
            most = models[0].most_questions
            for start in range(0, len(new_questions), most):
                sent = new_questions[start : start + most]
                text = request_text(converted.state, sent)
                request = Usage(calls=1, prompt_tokens=tokens_of(len(text)))
                self.usage += priced(request, models[0].prices())
        elif models:
            lacks_logprobs = all(
                model.capabilities().logprobs is False for model in models
            )
            if lacks_logprobs and wanted is not None and wanted.needs_tokens:
                # the metric then asks in another way
                return Answer(NotAnswered(no_logprobs(self.name)))
            self._count_prompts(question, reply)
        elif not counts_by_itself(self._judge):
            # Nobody knows what a judge of a user's own sends, and nothing is stored.
            self.usage += Usage(calls=1, cost=None)
        if reply is None:
            kind = type(question).__name__
            no_example = NoExample(f"questions of type {kind} name no example reply")
            return Answer(NotAnswered(no_example))
        weights: tuple[Weight, ...] = ()
        if wanted is not None:
            weights = (Weight(1.0),) * len(verdicts_of(reply))
        return Answer(Asked((reply,) * question.polls, weights=weights))

    def _count_prompts(self, question: Question[R], reply: R | None) -> None:
        """Count the calls of chat models: each model is asked every question.

        The characters of a prompt are counted from its parts, because to render
        thousands of prompts would take seconds.
        """
        instructions = question.instructions
        parts = tuple(question.parts.values())
        first_poll = question.first_poll or 0  # a later round asks for new replies
        if not self._is_new(type(question), first_poll, instructions, *parts):
            return
        n_characters = len(instructions.template) + len(instructions.examples)
        for name, part in question.parts.items():
            if f"{{{name}}}" in instructions.template:
                texts = [*part.texts, *(turn.content for turn in part.history)]
                n_characters += sum(map(len, texts)) + _CHARACTERS_OF_TAGS * len(texts)
        tokens_of_prompt = tokens_of(n_characters) + _TOKENS_AROUND_PROMPT
        tokens_of_reply = _TOKENS_OF_REPLY
        if reply is not None:
            tokens_of_reply = tokens_of(
                len(reply.model_dump_json(exclude_defaults=True))
            )
        for model in self._judge.models:
            n_calls, n_replies = _calls_and_replies(question, model.capabilities())
            calls = Usage(
                calls=n_calls,
                prompt_tokens=n_calls * tokens_of_prompt,
                completion_tokens=n_replies * tokens_of_reply,
            )
            self.usage += priced(calls, model.prices())

    def _is_new(self, *parts: object) -> bool:
        """Whether something is counted for the first time."""
        digest = hash(parts)
        is_new = digest not in self._digests_counted
        self._digests_counted.add(digest)
        return is_new


def tokens_of(n_characters: int) -> int:
    """Return about how many tokens a text of so many characters has."""
    return round(n_characters / _CHARACTERS_OF_TOKEN)


def _calls_and_replies(question: Question[Any], can: Capabilities) -> tuple[int, int]:
    """How many calls a question takes, and how many replies they bring.

    What is not known of a model is supposed to work, since a run tries it first.
    """
    n_replies = question.polls
    wanted = question.wanted_probability
    if wanted is not None:
        # one reply with log-probabilities gives what several replies give without
        if can.logprobs is not False or wanted.needs_tokens:
            return 1, 1
        n_replies = wanted.fallback_polls
    if can.n is False or can.temperature is False:
        return n_replies, n_replies
    return 1, n_replies


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


@dataclass
class Estimate:
    """What a run over so many samples would cost, about.

    Attributes:
        samples: How many samples there are.
        usage: Its calls and tokens, and their cost; None where a price is unknown.
        bad_rows: Rows that are no sample.
        left_out: Why a metric that applies to no sample does not, by its name.
        failing: On how many samples a metric fails in any case, and why, by its name:
            the judge does not support a question of the metric, or it crashes.
        batch_share: Share of the price that is paid where it is asked in batches; of
            several models the highest.
        own_judges: Names of judges of a user's own. Each question to them counts as a
            call; nobody knows its tokens and its price.
        assumptions: What the estimate rests on, and what it leaves out, in words.
    """

    samples: int = 0
    usage: Usage = field(default_factory=Usage)
    bad_rows: int = 0
    left_out: dict[str, str] = field(default_factory=dict, compare=False)
    failing: dict[str, Failing] = field(default_factory=dict, compare=False)
    batch_share: float = 1.0
    own_judges: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = _ASSUMPTIONS

    def text(self, unit: str = "samples") -> str:
        """Return the estimate in lines for people, with its assumptions.

        Example: "50 samples, 0 bad rows; nothing was called", "calls: about 50", ….

        Args:
            unit: What is counted, e.g. ``samples``.
        """
        usage = self.usage
        sent, received = _about(usage.prompt_tokens), _about(usage.completion_tokens)
        if self.own_judges:
            sent = received = "unknown"
        price = "unknown; cap the run by --max-calls"
        if usage.cost is not None:
            price = f"{'about ' if usage.cost else ''}${usage.cost:.4f}"
            if self.batch_share != 1.0:
                price += f", in batches ${self.batch_share * usage.cost:.4f}"
        lines = [
            f"{self.samples} {unit}, {self.bad_rows} bad rows; nothing was called",
            f"calls:             {_about(usage.calls)}",
            f"prompt tokens:     {sent}",
            f"completion tokens: {received}",
            f"price:             {price}",
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
        if usage.prompt_tokens:
            lines += self.assumptions
        return "\n".join(lines)


def _about(count: int) -> str:
    """A count in words; none at all is exact."""
    return f"about {count:,}" if count else "0"


def estimate(
    samples: Iterable[Sample | RowError], metrics: Sequence[Metric], judge: Judge | None
) -> Estimate:
    """Estimate calls, tokens and price of a run without making a call.

    Example: 2 samples with one metric of one call: ``usage.calls`` is 2.

    Args:
        samples: The samples, and errors for rows that are no samples.
        metrics: The metrics of the run.
        judge: The judge for all metrics; None for each metric's own.

    Raises:
        SettingError: If a metric or judge is one that a run refuses.
    """
    judge_by_metric = judges_by_metric(metrics, judge)
    for metric in metrics:
        signature_with_judge(metric, judge_by_metric[metric.name])
    judges = distinct_judges(judge_by_metric)
    # metrics of one judge share what is counted, as they share replies in a run
    counting = {identity: CountingJudge(judge) for identity, judge in judges.items()}
    judging = SampleJudging(
        {name: counting[id(judge)] for name, judge in judge_by_metric.items()},
        concurrency=_CONCURRENCY,
        store=MemoryStore(),
        budget=Budget(),
    )
    # a function without ``yield`` asks no judge, and may compute for long
    asking = [
        metric
        for metric in metrics
        if not (isinstance(metric, FunctionMetric) and metric.in_thread)
    ]

    estimated = Estimate()
    names_applied: set[str] = set()
    iterator = iter(samples)
    while rows := list(islice(iterator, _ROWS_AT_A_TIME)):
        results = gather_all(judging.judge(0, row, asking) for row in rows)
        for result in wait_for(results):
            _add_row(estimated, result, names_applied)
    for name in names_applied & estimated.left_out.keys():
        del estimated.left_out[name]
    for counting_judge in counting.values():
        estimated.usage += counting_judge.usage
    shares: list[float] = []
    for asked_judge in judges.values():
        shares += [getattr(model, "batch_share", 1.0) for model in asked_judge.models]
        if not asked_judge.models and not counts_by_itself(asked_judge):
            estimated.own_judges += (asked_judge.name,)
    estimated.batch_share = max(shares, default=1.0)
    return estimated


def _add_row(
    estimated: Estimate, result: SampleResult, names_applied: set[str]
) -> None:
    """Count a row; why a metric did not apply, or failed, is noted the first time."""
    if result.sample is None:
        estimated.bad_rows += 1
        return
    estimated.samples += 1
    for name, outcome in result.results.items():
        # a metric that asked nothing names no judge
        if isinstance(outcome, Undefined) and not outcome.judge:
            estimated.left_out.setdefault(name, outcome.reason)
            continue
        names_applied.add(name)
        # in a run a question without an example has a reply
        if not isinstance(outcome, Failed) or outcome.error.type == NoExample.__name__:
            continue
        reason = outcome.error.message.removeprefix(f"{name}: ")
        reason = reason.removesuffix("; see error.raw")
        failure = estimated.failing.setdefault(name, Failing(reason))
        failure.n_samples += 1
        failure.is_crash |= outcome.error.type == MetricCrashed.__name__
