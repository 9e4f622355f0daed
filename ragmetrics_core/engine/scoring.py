"""Scores one sample with one metric and one judge.

It is the only place where anything may go wrong.
"""

import asyncio
import logging
import os
import traceback
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeGuard, TypeVar, cast

from ragmetrics_core.data import (
    Answer,
    ErrorInfo,
    Failed,
    NotAnswered,
    Sample,
    Signature,
    Undefined,
    Usage,
    errors,
)
from ragmetrics_core.data.asking import Batch, Question, Replies, check_batch
from ragmetrics_core.data.crashes import frame_of_users_code, reason_of_crash
from ragmetrics_core.engine.own_judge import judge_in_run
from ragmetrics_core.engine.resolve import judge_of_metric
from ragmetrics_core.engine.rounds import Rounds
from ragmetrics_core.judging.judge import Judge, check_answer, check_judge
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan, checked_outcome
from ragmetrics_core.models.features import gather_all
from ragmetrics_core.models.limits import Budget
from ragmetrics_core.models.reply_store import ReplyStore, resolve_store
from ragmetrics_core.models.spending import note_spending
from ragmetrics_core.models.threads import (
    call_in_thread,
    compute_beside_loop,
    is_being_cancelled,
)

T = TypeVar("T")

# Our own modules: what stands there computes in proportion to the texts, and waits for
# nothing.
_OUR_MODULES = "ragmetrics_core."
# Seconds that a judge has after the deadline to say what it spent.
_SECONDS_TO_REPORT = 0.1
# One store for all calls while RAGMETRICS_STORE names the same file.
_store_of_path = lru_cache(maxsize=8)(resolve_store)
_FIELDS_OF_METRICS = (
    "question",
    "contexts",
    "retrieved",
    "answer",
    "reference",
    "facts",
    "expected_ids",
    "expected_contexts",
)

logger = logging.getLogger("ragmetrics_core")


@dataclass(frozen=True)
class _OuterRun:
    """The run in which a metric or judge is at work whose own code may call ``score``.

    Attributes:
        budget: The limits of the run. The scores that the code asks for count against
            them.
        usages_of_nested_scores: What these scores cost.
    """

    budget: Budget
    usages_of_nested_scores: list[Usage] = field(default_factory=list)


# Set while code of a metric or judge runs, which may call ``score`` itself; None
# outside of any run.
_outer_run_of_nested_score: ContextVar[_OuterRun | None] = ContextVar(
    "ragmetrics_outer_run_of_nested_score", default=None
)


async def score_one(
    metric: Metric,
    sample: Sample | None,
    fields: Mapping[str, Any],
    judge: Judge | str | None,
) -> Outcome:
    """Score one sample with one metric; see ``Metric.score``.

    The code of a metric or judge may call ``score`` in the middle of a run. Such a
    nested call shares the limits of that run, and the run counts what the call costs.
    Example: ``max_calls=10`` in the run, 9 sent: the nested call may send one.

    Args:
        metric: The metric.
        sample: The sample; None if it is given by its fields.
        fields: The sample's fields by their names; empty if a sample is given.
        judge: The judge or its name; None for the metric's own.

    Raises:
        SettingError: If the sample, its fields or the judge are invalid, or the metric
            needs several samples.
        JudgeUnavailable: If the judge will answer nothing.
        LimitReached: If the run around a nested call has reached a limit.
    """
    sample = await compute_beside_loop(partial(_sample_of_arguments, sample, fields))
    _refuse_need_of_others(metric)
    if not metric.asks_judge or not isinstance(judge, Judge):
        # A name may stand for a module that takes its time to load.
        judge = await asyncio.to_thread(judge_of_metric, metric, judge)
    store_path = os.environ.get("RAGMETRICS_STORE")
    store = _store_of_path(store_path) if store_path else None
    # None unless a metric's or judge's code calls ``score`` in the middle of a run.
    outer_run = _outer_run_of_nested_score.get()
    # ``Budget()`` has no limits
    budget = Budget() if outer_run is None else outer_run.budget
    run_judge = _judge_of_one_score(judge, store, budget)
    try:
        outcome = await carry_out(metric, sample, run_judge)
        if outer_run is not None:
            outer_run.usages_of_nested_scores.append(outcome.usage)
    finally:
        if store is not None:
            await asyncio.to_thread(store.flush)
    if run_judge.unavailable is not None:
        raise run_judge.unavailable
    if outer_run is not None and was_cut_off(outcome):
        raise _limit_that_ended(outcome, outer_run.budget)
    return outcome


def _refuse_need_of_others(metric: Metric) -> None:
    """Raise ``SettingError`` if a metric needs more samples than the one to score."""
    if metric.needs_others:
        raise errors.SettingError(
            # e.g. a metric with ``controls=1``; a single sample has no others
            f"{metric.name} as set here takes contexts of other questions (controls=1),"
            " and score() sees one: give control_contexts=, or use evaluate() with"
            " several samples"
        )


def _limit_that_ended(outcome: Failed, outer_budget: Budget) -> errors.LimitReached:
    """Return the limit of the outer run that ended a nested call of ``score``.

    Raised, it ends the calling metric as well, which then has no score.
    """
    limit = outer_budget.reached or errors.LimitReached(outcome.reason)
    # The error of the budget may be raised many times: each time a traceback would
    # grow, and keep the texts of its frames in memory.
    return limit.with_traceback(None)


def was_cut_off(outcome: Outcome) -> TypeGuard[Failed]:
    """Whether a limit of the run ended the metric before it had a result.

    Such a metric is reported as not judged.
    """
    return (
        outcome.status == "failed"
        and outcome.error.type == errors.LimitReached.__name__
    )


def _sample_of_arguments(sample: Sample | None, fields: Mapping[str, Any]) -> Sample:
    """Return the sample that ``score`` is about; it may be given by its fields.

    Raises:
        SettingError: If both a sample and fields were given, something else than a
            sample, or a field that no metric would read.
    """
    if sample is None:
        return _sample_of_fields(fields)
    if fields:
        raise errors.SettingError(
            f"give a sample or its fields, not both: {', '.join(fields)}"
        )
    if not isinstance(sample, Sample):
        raise errors.SettingError(
            f"score() takes a Sample, and got one {type(sample).__name__}; give the"
            " fields by name: score(question=…, contexts=[…], answer=…), or"
            " several rows to evaluate()"
        )
    return sample


def _sample_of_fields(fields: Mapping[str, Any]) -> Sample:
    """Make the sample of the fields that ``score`` was called with.

    Example: ``{"question": "Who?", "answer": "Ada"}`` makes a sample;
    ``{"anser": "Ada"}`` is refused: "no field of a sample is named anser".

    Raises:
        SettingError: If a field has a wrong name or type, or stands in ``metadata``.
    """
    metadata = fields.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise errors.SettingError(
            "metadata must be a mapping of your own data, got"
            f" {type(metadata).__name__}"
        )
    row = {name: value for name, value in fields.items() if name != "metadata"}
    # who names contexts has said that a text with "|" in it is one context
    sample = Sample.from_row(row, contexts="contexts" if "contexts" in row else None)
    # what it does not know, such as "anser", it has put into the sample's metadata
    unknown_fields = sample.metadata
    _refuse_unknown_fields(unknown_fields)
    _refuse_fields_in_metadata(metadata, sample)
    named_metadata = {str(name): value for name, value in metadata.items()}
    return sample.model_copy(update={"metadata": named_metadata})


def _refuse_unknown_fields(unknown_fields: Mapping[str, Any]) -> None:
    """Raise ``SettingError`` if ``Sample.from_row`` made no field of an argument.

    Args:
        unknown_fields: What it has put into the metadata instead: each name that is no
            field of a sample, and a history that is a single text.
    """
    if "history" in unknown_fields:
        raise errors.SettingError(
            "history= takes a list of texts or of messages; a single text is no history"
        )
    if unknown_fields:
        raise errors.SettingError(
            f"no field of a sample is named {', '.join(unknown_fields)}; use question,"
            " contexts, answer, reference"
        )


def _refuse_fields_in_metadata(metadata: Mapping[Any, Any], sample: Sample) -> None:
    """Raise ``SettingError`` for an answer, say, that was given in the metadata alone.

    Metrics read the sample's fields, and never its metadata.
    """
    names = [
        name for name in _FIELDS_OF_METRICS if name in metadata and sample.missing(name)
    ]
    if names:
        raise errors.SettingError(
            f"metadata holds {', '.join(names)}, but metadata is yours and no metric"
            f" reads it; give {names[0]}= as an argument of its own"
        )


@dataclass
class RunJudge:
    """A judge's session in one run, and what became of its questions so far."""

    session: Judge
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(64))
    """One for each question that may be open at a time, in the whole run.

    An open question holds its prompt and a hundred small objects, which the garbage
    collector visits again and again. Opening thousands ahead takes longer than asking
    them.
    """
    budget: Budget = field(default_factory=Budget)
    """The limits of the run, and what was spent of them."""
    concurrency: int = 64
    """Most requests to a judge of a user's own in flight."""
    answered: int = 0
    """How many questions it answered."""
    paid: bool = False
    """Whether any call of it was paid."""
    unavailable: errors.JudgeUnavailable | None = None
    """Why it answers no question; None if nothing is known against it."""
    # By the metric's name: the metric, and its signature by this judge.
    _signatures: dict[str, tuple[Metric, Signature]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Wrap a judge of a user's own, so that it holds up nobody and is counted."""
        self.session = judge_in_run(
            self.session, concurrency=self.concurrency, budget=self.budget
        )

    def signature_of(self, metric: Metric) -> Signature:
        """Return the signature of a metric by this judge, made once for all samples.

        Raises:
            SettingError: If the metric or the judge cannot say what its settings are.
        """
        earlier_metric, signature = self._signatures.get(metric.name, (None, None))
        if signature is None or earlier_metric is not metric:
            signature = signature_with_judge(metric, self.session)
            self._signatures[metric.name] = (metric, signature)
        return signature

    def note(self, error: errors.JudgeError) -> None:
        """Remember an error that says that the judge answers no further question.

        A cap of the run, which is no fault of the judge, never takes the place of an
        earlier error.
        """
        if not isinstance(error, errors.JudgeUnavailable):
            return
        if error.single:  # this question only was refused
            return
        if self.unavailable is None or not isinstance(error, errors.LimitReached):
            self.unavailable = error

    def check_time(self) -> None:
        """Raise ``LimitReached`` if the run was interrupted or its deadline passed."""
        if self.budget.interrupted:
            self.budget.check()
        if self.budget.remaining == 0.0:
            raise self.budget.expire().with_traceback(None)

    async def in_time(self, work: Awaitable[T], *, grace: float = 0.0) -> T:
        """Return the result of some work that must not outlive the run.

        If the run ends before the work does, the work is cancelled ``grace`` seconds
        later, and ``LimitReached`` is raised.
        """
        async with self.budget.in_time(grace=grace):
            return await work


def _judge_of_one_score(
    judge: Judge, store: ReplyStore | None, budget: Budget
) -> RunJudge:
    """Open a judge's session for one score: it asks under a budget, and keeps replies.

    Args:
        judge: The judge.
        store: Where its replies are kept; None for nowhere.
        budget: The limits of calls and costs.
    """
    session = judge.session(concurrency=32, store=store, budget=budget)
    check_judge(session)
    return RunJudge(session, budget=budget)


def prepare_metric(metric: Metric, others: Sequence[Sample]) -> Metric:
    """Return the metric with what it takes from other samples.

    Raises:
        SettingError: If ``prepare`` raises, or gives no metric with the same name.
    """
    with errors.as_setting_error(
        f"the metric {metric.name} cannot be used: its prepare"
    ):
        ready: object = metric.prepare(others)
    if not isinstance(ready, Metric) or ready.name != metric.name:
        raise errors.SettingError(
            f"the metric {metric.name} cannot be used: its prepare must return the"
            f" metric, or a copy with the same name; got {type(ready).__name__}"
        )
    return ready


def make_rounds(
    metrics: Sequence[Metric], run_judge_by_metric: Mapping[str, RunJudge]
) -> dict[str, Rounds]:
    """Return the rounds of each metric that may ask its judge together with others.

    In a round the questions of several metrics go to one judge in one request. The
    judge must take several questions together. A user's own metric has no rounds: it
    may compute for long, and the others would wait for it. Example: adherence and
    recall with one judge share one ``Rounds``; a third metric with another judge has
    its own.

    Args:
        metrics: The metrics of one sample.
        run_judge_by_metric: The judge of each metric, by the metric's name.

    Returns:
        The rounds, by the metric's name; metrics with the same judge share theirs.
    """
    names_by_judge: dict[int, list[str]] = {}
    for metric in metrics:
        judge = run_judge_by_metric[metric.name]
        if judge.session.asks_together and not _may_take_long(metric):
            names_by_judge.setdefault(id(judge), []).append(metric.name)
    rounds_by_metric: dict[str, Rounds] = {}
    for names in names_by_judge.values():
        judge = run_judge_by_metric[names[0]]
        shared_rounds = Rounds(partial(_ask_together, judge))
        for name in names:
            rounds_by_metric[name] = shared_rounds
    return rounds_by_metric


async def carry_out(
    metric: Metric, sample: Sample, judge: RunJudge, rounds: Rounds | None = None
) -> Outcome:
    """Carry out a metric on a sample, and return its outcome.

    The outcome is complete with judge, signature, sample id and usage.

    It raises nothing but a cancellation: an unexpected exception of a metric or judge
    becomes ``Failed`` with ``MetricCrashed``. Example: the judge fails after two calls:
    a ``Failed`` outcome with the judge's name, whose ``usage.calls`` is 2.

    Args:
        metric: The metric.
        sample: The sample.
        judge: The judge as this run asks it.
        rounds: Shared with other metrics of the sample, so that the questions of all
            go to the judge in one request; None if the metric asks alone.
    """
    # Each answer of the judge to the metric adds here what it cost.
    usages_of_answers: list[Usage] = []
    # The metric's own code may call ``score``: each such call adds there what it cost.
    outer_run = _OuterRun(judge.budget)
    token = _outer_run_of_nested_score.set(outer_run)
    signature = Signature(metric=metric.name, version=metric.version)
    # Caught in this very function: it is a task's own. Had it called another coroutine
    # to catch them, Python would close that one on a ``GeneratorExit``.
    try:
        signature = judge.signature_of(metric)
        outcome = await _carry_out_plan(
            metric, sample, judge, usages_of_answers, rounds
        )
    except errors.JudgeError as error:
        judge.note(error)
        outcome = metric.failed(error)
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        # nobody cancels this task: the metric's code raised it by itself
        outcome = _failure_of_crash(metric, error)
    except (
        Exception,  # noqa: BLE001
        SystemExit,
        KeyboardInterrupt,
        GeneratorExit,
    ) as error:  # whatever the code raises, the other metrics go on
        outcome = _failure_of_crash(metric, error)
    finally:
        _outer_run_of_nested_score.reset(token)
    outcome = _with_judge_and_usage(outcome, judge, usages_of_answers, outer_run)
    return outcome.model_copy(update={"signature": signature, "sample_id": sample.id})


def _with_judge_and_usage(
    outcome: Outcome,
    judge: RunJudge,
    usages_of_answers: Sequence[Usage],
    outer: _OuterRun,
) -> Outcome:
    """Return an outcome with the name of the judge, and with what was spent.

    The judge is named if it was asked. A metric that asked nothing, e.g. because it is
    undefined, names none. Any failure names the judge as well: it may have come from
    there.

    Args:
        outcome: The outcome.
        judge: The judge as this run asks it.
        usages_of_answers: What each answer of the judge cost.
        outer: Has what the metric's own code spent by calling ``score``.
    """
    names_judge = bool(usages_of_answers) or outcome.status == "failed"
    total_usage = Usage()
    for usage in (*usages_of_answers, *outer.usages_of_nested_scores):
        total_usage += usage
    judge_name = judge.session.name if names_judge else ""
    return outcome.model_copy(update={"judge": judge_name, "usage": total_usage})


def signature_with_judge(metric: Metric, judge: Judge) -> Signature:
    """Return the signature of a metric and judge: all settings that may change a score.

    Scores with equal signatures can be compared. Example: the same metric with the
    judge's temperature 0 and 1 has two signatures.

    Raises:
        SettingError: If the metric or the judge cannot say what its settings are.
    """
    with errors.as_setting_error(
        f"the metric {metric.name} cannot say what its settings are, because"
        " settings(), prompts() or instructions()",
        "; all three give texts",
    ):
        signature = metric.signature
    with errors.as_setting_error(
        f"the judge {judge.name} cannot say what its settings are: details"
    ):
        details = dict(judge.details)
    if not all(isinstance(word, str) for word in (*details, *details.values())):
        raise errors.SettingError(
            f"the details of the judge {judge.name} must be texts by name, e.g. {{'T':"
            " '1.0'}"
        )
    return signature.with_judge(judge.name, details)


async def _carry_out_plan(
    metric: Metric,
    sample: Sample,
    judge: RunJudge,
    usages: list[Usage],
    rounds: Rounds | None,
) -> Outcome:
    """Carry out the plan of a metric step by step, and return its outcome.

    A plan is the metric's generator: a step yields questions, and is sent the replies;
    the last step raises ``StopIteration`` with the outcome. A step that still computes
    at the deadline of the run is abandoned in its thread. Example: a plan that first
    asks for the facts of an answer, and then which context holds each fact: three
    steps; the last one returns the score.

    Args:
        metric: The metric.
        sample: The sample.
        judge: The judge's session in this run.
        usages: Gets what each answer cost.
        rounds: Shared with other metrics of the sample, so that they ask together; None
            if the metric asks alone.

    Raises:
        LimitReached: If the plan came to no end before the deadline.
        SettingError: If the plan returns no outcome.
    """
    judge.check_time()  # raises once the deadline has passed
    begin = partial(_begin_plan, metric, sample)
    begun = await judge.in_time(_compute_beside_loop(metric, sample, begin))
    if isinstance(begun, Undefined):
        return begun
    # The plan's next questions, or the ``StopIteration`` that ended it.
    plan, questions_or_end = begun
    try:
        while not isinstance(questions_or_end, StopIteration):
            judge.check_time()
            answers = await _ask_questions(judge, questions_or_end, usages, rounds)
            judge.check_time()  # the deadline may have passed while the judge answered
            replies = tuple(answer.reply for answer in answers)
            take_step = partial(_take_step, plan, replies)
            questions_or_end = await judge.in_time(
                _compute_beside_loop(metric, sample, take_step)
            )
    finally:
        if not isinstance(questions_or_end, StopIteration):
            _end_early(metric, plan)
    return checked_outcome(metric, questions_or_end.value)


async def _compute_beside_loop(
    metric: Metric, sample: Sample, work: Callable[[], T]
) -> T:
    """Run a step of a metric in a thread, so that it does not hold up the loop.

    The steps of our own metrics share one thread. A step of a user's metric gets a
    thread for itself, because nobody knows how long it computes or waits.
    """
    if not _may_take_long(metric):
        return await compute_beside_loop(work, size=_number_of_characters(sample))
    future = call_in_thread(work, context=copy_context(), name=_thread_name(metric))
    return await asyncio.wrap_future(future)


def _may_take_long(metric: Metric) -> bool:
    """Whether a metric is a user's own, which may compute or wait for any time."""
    return metric.in_thread or not type(metric).__module__.startswith(_OUR_MODULES)


def _thread_name(metric: Metric) -> str:
    return f"ragmetrics {metric.name}"


def _end_early(metric: Metric, plan: Plan) -> None:
    """Close the generator of a plan that has not ended by itself.

    The plan of a user's metric is closed in a thread, since its ``finally`` blocks may
    take long.
    """
    if _may_take_long(metric):
        call_in_thread(plan.close, context=copy_context(), name=_thread_name(metric))
    else:
        # ValueError: a step that was given up still runs in its thread
        with suppress(ValueError):
            plan.close()


def _begin_plan(
    metric: Metric, sample: Sample
) -> Undefined | tuple[Plan, Batch | StopIteration]:
    """Begin the plan of a metric: the generator that yields its questions.

    Example: a sample without an answer: ``Undefined`` with the reason "no answer".

    Returns:
        Why the metric is undefined for the sample; else the plan, with its first
        questions, or with the ``StopIteration`` that ended it.

    Raises:
        SettingError: If ``gap`` or ``plan`` of the metric gives something else.
    """
    gap = metric.gap(sample)
    if isinstance(gap, Undefined):
        return gap
    if gap is not None:
        raise errors.SettingError(
            f"gap must return self.undefined(...) or None, got {type(gap).__name__}"
        )
    plan: object = metric.plan(sample)
    if not isinstance(plan, Generator):
        raise errors.SettingError(
            "plan must be a generator, which asks by 'replies = yield from"
            " ask([question])' and returns the outcome; where it asks nothing write"
            f" 'yield from ask([])'. It returned {type(plan).__name__}"
        )
    return plan, _take_step(plan, None)  # a generator is begun by None


def _number_of_characters(sample: Sample) -> int:
    """Count the characters of a sample's texts, to estimate a metric's work on it.

    Example: contexts of 500 and 300 characters, and an answer of 100: 900. The question
    is not counted.
    """
    texts = [context.text for context in sample.known_contexts]
    texts += [context.text for context in sample.retrieved or ()]
    texts += list(sample.reference)  # one or several
    texts += [fact.text for fact in sample.facts or ()]
    # The ledger holds what the application's calls returned, e.g. the texts of tools.
    if sample.ledger is not None:
        for call in sample.ledger.calls:
            texts += [item.text for item in call.items]
    n_characters = sum(len(text) for text in texts)
    return n_characters + len(sample.answer or "")


def _take_step(plan: Plan, replies: Replies | None) -> Batch | StopIteration:
    """Send a plan its replies, and return its next questions.

    Returns the ``StopIteration`` where the plan has ended: a coroutine cannot raise it.

    Args:
        plan: The generator of a metric.
        replies: What was replied to its last questions; None to begin it.
    """
    try:
        return check_batch(plan.send(cast("Replies", replies)))
    except StopIteration as stop:
        return stop


async def _ask_questions(
    judge: RunJudge, questions: Batch, usages: list[Usage], rounds: Rounds | None
) -> list[Answer[Any]]:
    """Ask the judge a metric's questions, and return the answers in their order.

    Most judges get each question by itself. Some take several questions in one request:
    such a judge gets all questions of the metric together. With ``rounds`` the request
    also holds the questions of the sample's other metrics. Example: 3 questions to a
    judge that takes several: one request, 3 answers.

    Args:
        judge: The judge's session in this run.
        questions: The questions.
        usages: Gets what each answer cost. If the judge raises instead of answering,
            gets what its calls cost until then.
        rounds: Shared with the sample's other metrics, so that all ask in one request;
            None if the metric asks alone.

    Raises:
        JudgeUnavailable: If no question will be answered.
    """
    if not questions or not judge.session.asks_together:
        return await gather_all(
            _ask_question(judge, question, usages) for question in questions
        )
    # ``rounds.ask`` and ``_ask_together`` note costs only if they raise. The costs of
    # the answers that they return are noted below, so nothing is counted twice.
    if rounds is not None:
        answers = await rounds.ask(questions, usages)
    else:
        answers = await _ask_together(judge, questions, usages)
    # The costs of all answers are noted before one of them may raise.
    for answer in answers:
        _note_answer(judge, answer, usages)
    for answer in answers:
        _raise_if_unavailable(answer)
    return answers


async def _ask_question(
    judge: RunJudge, question: Question[Any], usages: list[Usage]
) -> Answer[Any]:
    """Ask a question as soon as there is a slot, and note what the answer cost.

    Args:
        judge: The judge's session in this run.
        question: The question.
        usages: Gets what the answer cost, or the judge's calls if it raises.

    Raises:
        JudgeUnavailable: If no question will be answered.
    """

    async def send() -> list[Answer[Any]]:
        return [await judge.session.answer(question)]

    (answer,) = await _ask_in_slot(judge, [question], usages, send)
    _note_answer(judge, answer, usages)
    _raise_if_unavailable(answer)
    return answer


async def _ask_together(
    judge: RunJudge, questions: Batch, usages: list[Usage]
) -> list[Answer[Any]]:
    """Ask several questions in one request, as soon as there is a slot for it.

    Args:
        judge: The judge's session in this run.
        questions: The questions.
        usages: Gets what the judge's calls cost if it raises instead of answering.
    """

    async def send() -> list[Answer[Any]]:
        return await judge.session.answer_all(questions)

    return await _ask_in_slot(judge, questions, usages, send)


async def _ask_in_slot(
    judge: RunJudge,
    questions: Sequence[Question[Any]],
    usages: list[Usage],
    send: Callable[[], Awaitable[list[Answer[Any]]]],
) -> list[Answer[Any]]:
    """Ask the judge as soon as there is a slot, and check its answers.

    Example: the judge sends 2 calls and then crashes: ``usages`` gets those 2 calls.

    Args:
        judge: The judge's session in this run.
        questions: What is asked.
        usages: Gets what the judge's calls cost if the judge raises. If it answers, the
            caller notes the cost that stands in the answer.
        send: Asks the judge, and returns its answer to each question.

    Raises:
        RuntimeError: In place of ``SystemExit``, ``KeyboardInterrupt`` or
            ``CancelledError`` that the judge raised.
        LimitReached: If the run ended meanwhile.
    """
    async with judge.slots:
        judge.check_time()
        # Read below only if the judge raises; its answers hold their costs.
        with note_spending() as calls_made:
            try:
                return await _checked_answers(judge, questions, send)
            except BaseException:
                if calls_made.usage != Usage():
                    usages.append(calls_made.usage)
                    judge.paid = judge.paid or _took_tokens(calls_made.usage)
                raise


async def _checked_answers(
    judge: RunJudge,
    questions: Sequence[Question[Any]],
    send: Callable[[], Awaitable[list[Answer[Any]]]],
) -> list[Answer[Any]]:
    """Ask the judge in the time that the run has left, and check each answer.

    The errors are those of ``_ask_in_slot``. Example: a judge that raises
    ``SystemExit`` gives a ``RuntimeError``, "the judge raised SystemExit".
    """
    # A judge that a user wrote may call ``score`` itself. Such nested calls count
    # against the budget of this run. Their cost is read from the judge's answers, so
    # what this ``_OuterRun`` notes of it is not used.
    token = _outer_run_of_nested_score.set(_OuterRun(judge.budget))
    try:
        # ``grace`` is the time behind the run's deadline in which a judge that ends by
        # itself may still report what it spent.
        answers = await judge.in_time(send(), grace=_SECONDS_TO_REPORT)
        for question, answer in zip(questions, answers, strict=True):
            check_answer(judge.session, answer, question)
    except asyncio.CancelledError as stop:
        if is_being_cancelled():
            raise
        raise RuntimeError("the judge raised CancelledError") from stop
    except (SystemExit, KeyboardInterrupt) as stop:
        # it would end the loop that all judges share
        raise RuntimeError(f"the judge raised {type(stop).__name__}") from stop
    finally:
        _outer_run_of_nested_score.reset(token)
    return answers


def _note_answer(judge: RunJudge, answer: Answer[Any], usages: list[Usage]) -> None:
    """Note what an answer cost, and that the judge answers."""
    usages.append(answer.usage)
    judge.paid = judge.paid or _was_paid(answer)
    if not isinstance(answer.reply, NotAnswered):
        judge.answered += 1


def _raise_if_unavailable(answer: Answer[Any]) -> None:
    """Raise the error of an answer if it means that no question will be answered.

    A limit of the run is not raised: the metric gets it as a reply, and may still make
    a result of the replies it has.
    """
    if not isinstance(answer.reply, NotAnswered):
        return
    error = answer.reply.error
    is_limit = isinstance(error, errors.LimitReached)
    if isinstance(error, errors.JudgeUnavailable) and not is_limit:
        raise error.with_traceback(None)


def _was_paid(answer: Answer[Any]) -> bool:
    """Whether a call was paid for this answer."""
    reply = answer.reply
    if isinstance(reply, NotAnswered) and isinstance(
        reply.error, errors.JudgeUnavailable
    ):
        # A call that the endpoint refused counts as a call, but takes no tokens.
        return _took_tokens(answer.usage)
    return answer.usage.calls > 0


def _took_tokens(usage: Usage) -> bool:
    return bool(usage.prompt_tokens or usage.completion_tokens or usage.cost)


def _failure_of_crash(metric: Metric, error: BaseException) -> Failed:
    """Return the failure of a metric whose own code, or whose judge's code, raised.

    The message says where it was raised. The message and the log hold no text of a
    sample. The whole traceback, which may hold some, is in the error's ``raw``.
    Example: a metric "tone" raises ``KeyError``: "tone: KeyError …; see error.raw".
    """
    message = f"{metric.name}: {reason_of_crash(error)}"
    if not isinstance(error, errors.RagMetricsError):
        message += "; see error.raw"
    logger.warning(
        "metric %s crashed: %s in %s",
        metric.name,
        type(error).__name__,
        frame_of_users_code(error).name,
    )
    failed = metric.failed(errors.MetricCrashed(message))
    raw = "".join(traceback.format_exception(error))
    return failed.model_copy(
        update={"error": ErrorInfo(type="MetricCrashed", message=message, raw=raw)}
    )
