"""Scores one sample with one metric and one judge.

It is the only place where anything may go wrong. A judge of ours hands the limits of a
run to the session of its model. A judge of a user's own has none, unless it writes a
``session``: so each request to it counts here, as one call or as many as its answers say.
"""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import Callable, Generator, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import lru_cache, partial
from inspect import isawaitable
from typing import Any, TypeGuard, TypeVar, cast

from ragmetrics_core.data import (
    Answer,
    Asked,
    ErrorInfo,
    Failed,
    NotAnswered,
    Sample,
    Scored,
    Signature,
    Undefined,
    Usage,
    Weight,
    verdicts_of,
    weights_by_share,
)
from ragmetrics_core.data.asking import Batch, Question, Replies, check_batch
from ragmetrics_core.data.errors import (
    JudgeCrashed,
    JudgeError,
    JudgeUnavailable,
    LimitReached,
    RagMetricsError,
    SettingError,
    as_setting_error,
    crash_in_words,
    frame_of_users_code,
    is_ours,
)
from ragmetrics_core.data.sample import UNDIVIDED_CODES, sample_from_row
from ragmetrics_core.engine.reasoning import leave_out_reasoning
from ragmetrics_core.engine.resolve import JudgeLike, judge_of_metric
from ragmetrics_core.judging.judge import Judge, check_judge
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan
from ragmetrics_core.models.features import gather_all
from ragmetrics_core.models.judge_work import (
    as_judge_work,
    note_spending,
    spending_here,
)
from ragmetrics_core.models.limits import Budget, RateLimiter
from ragmetrics_core.models.reply_store import ReplyStore, resolve_store
from ragmetrics_core.models.threads import (
    await_users_code,
    call_in_thread,
    compute_beside_loop,
    is_being_cancelled,
)

T = TypeVar("T")

# Seconds that a judge has after the deadline to say what it spent.
_SECONDS_TO_REPORT = 0.1
# One store for all calls while RAGMETRICS_STORE names the same file.
_store_of_path = lru_cache(maxsize=8)(resolve_store)
logger = logging.getLogger("ragmetrics_core")


# The limits of the run in which code of a metric or judge is at work, which may score.
_budget_around: ContextVar[Budget | None] = ContextVar(
    "ragmetrics_budget_around", default=None
)


async def score_one(
    metric: Metric, sample: Sample | None, fields: Mapping[str, Any], judge: JudgeLike
) -> Outcome:
    """Score one sample with one metric; see ``Metric.score``.

    Called by the code of a metric or judge, it spends under the limits of the run
    around it, which counts what it costs.

    Args:
        metric: The metric.
        sample: The sample; None if it is given by its fields.
        fields: The sample's fields by their names; empty if a sample is given.
        judge: The judge, a chat model or its name; None for the metric's own.

    Raises:
        SettingError: If the sample, its fields or the judge are invalid, or the metric
            needs several samples.
        JudgeUnavailable: If the judge will answer nothing.
        LimitReached: If a limit of the run around it is reached.
    """
    if sample is None:
        sample = await compute_beside_loop(partial(_sample_of_fields, fields))
    elif fields:
        raise SettingError(
            f"give a sample or its fields, not both: {', '.join(fields)}"
        )
    if not isinstance(sample, Sample):
        raise SettingError(
            f"score() takes a Sample, and got one {type(sample).__name__}; give the"
            " fields by name: score(question=…, contexts=[…], answer=…), or"
            " several rows to evaluate()"
        )
    sample = leave_out_reasoning(sample)
    if not metric.asks_judge or not isinstance(judge, Judge):
        # A name may stand for a module that takes its time to load.
        judge = await asyncio.to_thread(judge_of_metric, metric, judge)
    store_path = os.environ.get("RAGMETRICS_STORE")
    store = _store_of_path(store_path) if store_path else None
    spent_around = spending_here()
    run_judge = RunJudge(judge, budget=_budget_around.get(), store=store)
    with as_judge_work():  # calls of models in here are no runs of an application
        outcome = await carry_out(metric, sample, run_judge)
    spent_around.append(outcome.usage)
    if run_judge.unavailable is not None:
        raise run_judge.unavailable
    if was_cut_off(outcome):
        raise LimitReached(outcome.reason)
    return outcome


def was_cut_off(outcome: Outcome) -> TypeGuard[Failed]:
    """Whether a limit of the run ended the metric before it had a result.

    Such a metric is reported as not judged.
    """
    return outcome.status == "failed" and outcome.error.type == LimitReached.__name__


def _sample_of_fields(fields: Mapping[str, Any]) -> Sample:
    """Make the sample of the fields that ``score`` was called with.

    Example: ``{"question": "Who?", "answer": "Ada"}`` makes a sample;
    ``{"anser": "Ada"}`` is refused: "no field of a sample is named anser".

    Raises:
        SettingError: If a field has a wrong name or type, or stands in ``metadata``.
    """
    metadata = fields.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise SettingError(
            "metadata must be a mapping of your own data, got"
            f" {type(metadata).__name__}"
        )
    row = {name: value for name, value in fields.items() if name != "metadata"}
    # an argument is named: one text of contexts is one context, and an address a text
    fields_with_doubts = (*UNDIVIDED_CODES, "answer", "reference")
    named = {field: field for field in fields_with_doubts if field in row}
    sample = sample_from_row(row, named)
    # What it does not know, it has put into the sample's metadata: each name that is no
    # field of a sample, such as "anser", and a history that is a number.
    unknown_fields = sample.metadata
    if "history" in unknown_fields:
        raise SettingError("history= takes a list of texts or of messages")
    if unknown_fields:
        raise SettingError(
            f"no field of a sample is named {', '.join(unknown_fields)}; use question,"
            " contexts, answer, reference"
        )
    named_metadata = {str(name): value for name, value in metadata.items()}
    return sample.model_copy(update={"metadata": named_metadata})


class RunJudge:
    """A judge in one run: its session, and what became of its questions so far.

    Args:
        judge: The judge.
        budget: The limits of the run, and what was spent of them; None for no limit.
        store: Where replies are kept; None for memory.
        concurrency: Most calls in flight.
        slots: One for each question that may be open at a time, in the whole run. An
            open question holds its prompt and a hundred small objects, which the
            garbage collector visits again and again. Opening thousands ahead takes
            longer than asking them.

    Attributes:
        session: The judge as it is asked. One of a user's own is wrapped, so that it
            holds up nobody and is counted.
        answered: How many questions it answered.
        paid: Whether any call of it was paid.
        unavailable: Why it answers no question; None if nothing is known against it.
        ends_run: Whether the run ends once it answers no question, as by a limit.

    Raises:
        SettingError: If the judge's session is no judge.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        budget: Budget | None = None,
        store: ReplyStore | None = None,
        concurrency: int = 32,
        slots: asyncio.Semaphore | None = None,
    ) -> None:
        self.budget = budget or Budget()
        self.slots = slots or asyncio.Semaphore(2 * concurrency)
        session = judge.session(
            concurrency=concurrency, store=store, budget=self.budget
        )
        check_judge(session)
        if not counts_by_itself(session):
            session = UserJudge(session, concurrency, self.budget)
        elif not is_ours(type(session)):  # it keeps to the budget by itself
            session = UserJudge(session, concurrency, None)
        self.session = session
        self.answered = 0
        self.paid = False
        self.unavailable: JudgeUnavailable | None = None
        self.ends_run = False
        # By the metric's name, of which a run has each once.
        self._signatures: dict[str, Signature] = {}

    def signature_of(self, metric: Metric) -> Signature:
        """Return the signature of a metric by this judge, made once for all samples.

        Raises:
            SettingError: If the metric or the judge cannot say what its settings are.
        """
        if metric.name not in self._signatures:
            signature = signature_with_judge(metric, self.session)
            self._signatures[metric.name] = signature
        return self._signatures[metric.name]

    def note(self, error: JudgeError) -> JudgeError:
        """Remember an error that says that the judge answers no further question.

        Returns:
            The error of the metric that asked: where the run ends, it is cut off.
        """
        # a cap of the run is no fault of the judge; single: one question was refused
        if isinstance(error, LimitReached) or not isinstance(error, JudgeUnavailable):
            return error
        if error.single:
            return error
        self.unavailable = error
        return LimitReached(str(error)) if self.ends_run else error


async def carry_out(metric: Metric, sample: Sample, judge: RunJudge) -> Outcome:
    """Carry out a metric on a sample, and return its outcome.

    The outcome is complete with judge, signature, sample id and usage.

    It raises nothing but a cancellation: an unexpected exception of a metric or judge
    becomes ``Failed`` with ``MetricCrashed``. Example: the judge fails after two calls:
    a ``Failed`` outcome with the judge's name, whose ``usage.calls`` is 2.

    Args:
        metric: The metric.
        sample: The sample.
        judge: The judge as this run asks it.
    """
    # Each answer of the judge to the metric adds here what it cost.
    usages: list[Usage] = []
    _budget_around.set(judge.budget)  # in this task alone
    # what the metric's code scores itself
    spent_inside: list[Usage] = []
    signature = Signature(metric=metric.name, version=metric.version)
    # Caught in this very function: it is a task's own. Had it called another coroutine
    # to catch them, Python would close that one on a ``GeneratorExit``.
    try:
        signature = judge.signature_of(metric)
        with note_spending() as spent_inside:
            outcome = await _carry_out_plan(metric, sample, judge, usages)
    except JudgeError as error:
        outcome = metric.failed(judge.note(error))
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
    # A metric that asked nothing, e.g. because it is undefined, names no judge. A failure
    # names it: it may have come from there.
    names_judge = bool(usages) or outcome.status == "failed"
    return outcome.model_copy(
        update={
            "judge": judge.session.name if names_judge else "",
            "usage": sum([*spent_inside, *usages], Usage()),
            "signature": signature,
            "sample_id": sample.id,
        }
    )


def signature_with_judge(metric: Metric, judge: Judge) -> Signature:
    """Return the signature of a metric and judge: all settings that may change a score.

    Scores with equal signatures can be compared. Example: the same metric with the
    judge's temperature 0 and 1 has two signatures.

    Raises:
        SettingError: If the metric or the judge cannot say what its settings are.
    """
    with as_setting_error(
        f"the metric {metric.name} cannot say what its settings are, because"
        " settings(), prompts() or instructions()",
        "; all three give texts",
    ):
        signature = metric.signature
    with as_setting_error(
        f"the judge {judge.name} cannot say what its settings are: details"
    ):
        details = dict(judge.details)
    if not all(isinstance(word, str) for word in (*details, *details.values())):
        raise SettingError(
            f"the details of the judge {judge.name} must be texts by name, e.g. {{'T':"
            " '1.0'}"
        )
    return signature.with_judge(judge.name, details)


async def _carry_out_plan(
    metric: Metric, sample: Sample, judge: RunJudge, usages: list[Usage]
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
        usages: Gets what each answer cost. If the judge raises instead of answering,
            gets what its calls cost until then.

    Raises:
        LimitReached: If the plan came to no end before the deadline.
        SettingError: If the plan returns no outcome.
    """
    size = _number_of_characters(sample)
    begin = partial(_begin_plan, metric, sample)
    async with judge.budget.in_time():
        begun = await _compute_beside_loop(metric, size, begin)
    if isinstance(begun, Undefined):
        return begun
    # The plan's next questions, or the ``StopIteration`` that ended it.
    plan, questions_or_end = begun
    try:
        while not isinstance(questions_or_end, StopIteration):
            answers = await gather_all(
                _ask_in_slot(judge, question, usages) for question in questions_or_end
            )
            # Where no question will be answered any more, the plan may still make a
            # result of the replies it has.
            replies = tuple(_noted(judge, answer.reply) for answer in answers)
            take_step = partial(_take_step, plan, replies)
            async with judge.budget.in_time():
                questions_or_end = await _compute_beside_loop(metric, size, take_step)
    finally:
        # A plan that has not ended by itself is closed in a thread: the ``finally``
        # blocks of a user's metric may take long.
        if not isinstance(questions_or_end, StopIteration) and _may_take_long(metric):
            name = f"ragmetrics {metric.name}"
            call_in_thread(plan.close, context=copy_context(), name=name)
    outcome = questions_or_end.value
    if not isinstance(outcome, (Scored, Undefined, Failed)):
        raise SettingError(
            "a plan must return what self.scored(...), self.undefined(...) or"
            f" self.failed(...) give, got {type(outcome).__name__}"
        )
    if isinstance(outcome, Scored) and not 0 <= outcome.value <= 1:
        # The plan changed a score by ``model_copy``, which validates nothing. When the
        # score is made again, its value is checked: it becomes a failure.
        return metric.scored(outcome.value, outcome.reason, outcome.evidence)
    return outcome


def _noted(
    judge: RunJudge, reply: Asked[Any] | NotAnswered
) -> Asked[Any] | NotAnswered:
    """Have the judge remember an error that no question will be answered after."""
    if isinstance(reply, NotAnswered):
        return NotAnswered(judge.note(reply.error))
    return reply


async def _compute_beside_loop(metric: Metric, size: int, work: Callable[[], T]) -> T:
    """Run a step of a metric in a thread, so that it does not hold up the loop.

    A step on few characters (``size``) runs at once. The steps of our own metrics share
    one thread. A step of a user's metric gets a thread for itself, because nobody knows
    how long it computes or waits.
    """
    if not _may_take_long(metric):
        return await compute_beside_loop(work, size=size)
    name = f"ragmetrics {metric.name}"
    future = call_in_thread(work, context=copy_context(), name=name)
    return await asyncio.wrap_future(future)


def _may_take_long(metric: Metric) -> bool:
    """Whether a metric is a user's own, which may compute or wait for any time."""
    return metric.in_thread or not is_ours(type(metric))


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
        raise SettingError(
            f"gap must return self.undefined(...) or None, got {type(gap).__name__}"
        )
    plan: object = metric.plan(sample)
    if not isinstance(plan, Generator):
        raise SettingError(
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
    texts = [sample.answer or "", *sample.reference]
    texts += [context.text for context in sample.known_contexts]
    texts += [context.text for context in sample.retrieved or ()]
    texts += [fact.text for fact in sample.facts or ()]
    # The ledger holds what the application's calls returned, e.g. the texts of tools.
    if sample.ledger is not None:
        for call in sample.ledger.calls:
            texts += [item.text for item in call.items]
    return sum(map(len, texts))


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


async def _ask_in_slot(
    judge: RunJudge, question: Question[Any], usages: list[Usage]
) -> Answer[Any]:
    """Ask the judge as soon as there is a slot, and note what the answer cost.

    A judge that raises its error, or that the run's end cuts off, has not answered.
    Example: the judge sends 2 calls and then crashes: ``usages`` gets those 2 calls.
    """
    async with judge.slots:
        # Read only if the judge raises; its answer says what it cost, also of what it
        # scores inside.
        with note_spending() as calls_made:
            try:
                # After the deadline a judge has a moment to say what it spent.
                async with judge.budget.in_time(grace=_SECONDS_TO_REPORT):
                    answer = await judge.session.answer(question)
            except BaseException as error:
                usage = sum(calls_made, Usage())
                if usage != Usage():
                    usages.append(usage)
                    judge.paid = judge.paid or _took_tokens(usage)
                if not isinstance(error, JudgeError):
                    raise
                # as if the judge had handed it back: the plan may do without an answer
                return Answer(NotAnswered(error.with_traceback(None)))
    usages.append(answer.usage)
    is_answered = not isinstance(answer.reply, NotAnswered)
    judge.answered += is_answered
    # A call that the endpoint refused counts as a call, but takes no tokens.
    is_paid = is_answered and answer.usage.calls > 0
    judge.paid = judge.paid or is_paid or _took_tokens(answer.usage)
    return answer


def _took_tokens(usage: Usage) -> bool:
    return bool(usage.prompt_tokens or usage.cost)


def _failure_of_crash(metric: Metric, error: BaseException) -> Failed:
    """Return the failure of a metric whose own code, or whose judge's code, raised.

    The message says where it was raised. The message and the log hold no text of a
    sample. The whole traceback, which may hold some, is in the error's ``raw``.
    Example: a metric "tone" raises ``KeyError``: "tone: KeyError …; see error.raw".
    """
    if isinstance(error, RagMetricsError):
        message = f"{metric.name}: {error}"  # it holds no text of a sample
    else:
        message = f"{metric.name}: {crash_in_words(error)}; see error.raw"
    logger.warning(
        "metric %s crashed: %s in %s",
        metric.name,
        type(error).__name__,
        frame_of_users_code(error).name,
    )
    raw = "".join(traceback.format_exception(error))
    crash = ErrorInfo(type="MetricCrashed", message=message, raw=raw)
    return Failed(metric=metric.name, reason=message, error=crash)


def counts_by_itself(judge: Judge) -> bool:
    """Whether a judge keeps the limits of a run: in a session of its own, or it is free."""
    return judge.free or type(judge).session is not Judge.session


class UserJudge(Judge):
    """A judge of a user's own in one run: counted, and its answers checked.

    It is awaited beside the event loop of all judges, unless it has a session of its
    own. It also wraps a judge of ours that
    calls no model, such as the scripted judge.

    Args:
        judge: The session that the judge opened for the run.
        concurrency: Most requests in flight.
        budget: What the run may spend; None for a judge that keeps to it by itself.
    """

    def __init__(self, judge: Judge, concurrency: int, budget: Budget | None) -> None:
        self._judge = judge
        self._slots = asyncio.Semaphore(concurrency)
        self._budget = budget
        self._rate = RateLimiter(budget or Budget())
        self.name = judge.name
        self.models = judge.models
        self.free = judge.free

    @property
    def details(self) -> dict[str, str]:
        """The details of the wrapped judge."""
        return self._judge.details

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        """Answer as the judge does, as soon as the limits of the run allow it.

        What it cost is counted. If a limit is reached before, nothing is sent, and the
        answer is that error.

        Raises:
            JudgeError: If the judge raised it, or crashed, or gave no answer.
        """
        budget = self._budget
        if budget is None:
            return await self._ask(question)
        async with self._slots:
            try:
                await self._rate.acquire()
                number = await budget.acquire()
            except LimitReached as error:
                return Answer(NotAnswered(error.with_traceback(None)))
            usage: Usage | None = None  # of a question that fails or is given up
            try:
                answer = await self._ask(question)
                # an answer that says nothing of its usage leaves its cost unknown
                is_told = answer.usage != Usage()
                usage = answer.usage if is_told else Usage(cost=None)
                budget.calls += max(usage.calls - 1, 0)  # one call is counted
            finally:
                budget.observe(number, usage)
        return answer

    async def _ask(self, question: Question[Any]) -> Answer[Any]:
        """Ask the judge, and check its answer.

        Raises:
            JudgeError: What the judge raised, or an answer that is none;
                ``JudgeCrashed`` for anything else that it raised.
        """
        try:
            answer = await self._call(question)
        except JudgeError:
            raise
        except (
            Exception,
            SystemExit,
            KeyboardInterrupt,
            asyncio.CancelledError,
        ) as error:  # code of a user's own may raise anything
            if is_being_cancelled():
                raise
            if is_ours(type(self._judge)) and isinstance(error, RagMetricsError):
                raise  # the error already names the cause
            raise self._crash(error) from error
        _check_answer(self._judge, answer, question)
        # Where a question wants a probability, and a judge of a user's own gives verdicts
        # alone, it is the share of replies that say yes.
        reply = answer.reply
        wanted = question.wanted_probability
        if wanted is None or is_ours(type(self._judge)):
            return answer
        if not isinstance(reply, Asked) or reply.weights:
            return answer
        weights = weights_by_share(reply.replies, wanted)
        return replace(answer, reply=replace(reply, weights=weights))

    async def _call(self, question: Question[Any]) -> Answer[Any]:
        """Call the judge; ``JudgeError`` where its method is no ``async def``."""

        async def call() -> Answer[Any]:
            answer: object = self._judge.answer(question)
            if not isawaitable(answer):
                raise JudgeError(
                    f"the judge {self.name} gave no answer: its answer must be an"
                    " 'async def'"
                )
            return cast("Answer[Any]", await answer)

        # A judge with a session of its own shares the run's limits, on this loop.
        has_own_session = type(self._judge).session is not Judge.session
        if has_own_session:
            return await call()
        return await await_users_code(self._judge, call)

    def _crash(self, error: BaseException) -> JudgeCrashed:
        """Return the error of a judge whose code raised; its message holds no texts."""
        kind = type(self._judge).__name__
        crash = crash_in_words(error)
        if isinstance(error, RagMetricsError):  # our own words, which hold no text
            crash = f"{type(error).__name__}, {error}"
        logger.warning("the judge %s (%s) crashed: %s", self.name, kind, crash)
        crashed = JudgeCrashed(
            f"the judge {self.name} ({kind}) crashed: {crash}; what it cannot answer it"
            " answers with NotAnswered and a JudgeError; see error.raw"
        )
        crashed.raw = "".join(traceback.format_exception(error))
        return crashed


def _check_answer(judge: Judge, answer: object, question: Question[Any]) -> None:
    """Refuse, by ``JudgeError``, what somebody's judge must not return."""
    if isinstance(answer, Answer):
        problem = _problem_of_reply(answer.reply, question)
        is_a_count = isinstance(answer.usage, Usage) and answer.usage.is_a_count
        if not problem and not is_a_count:
            problem = (
                "its usage must be a Usage whose numbers are finite and at least 0"
            )
    else:
        kind = type(answer).__name__
        problem = f"answer must return an Answer, from an 'async def'; got {kind}"
    if problem:
        raise JudgeError(
            f"the judge {judge.name} ({type(judge).__name__}) gave no answer: {problem}"
        )


def _problem_of_reply(reply: object, question: Question[Any]) -> str:
    """Say what is wrong with a reply to a question; "" if nothing is.

    Example: a user's judge returned True: "an Answer holds Asked replies or
    NotAnswered; got bool".

    Args:
        reply: What a function of a user returned: a judge, or the typed form of a
            question. It should be ``Asked``, with one reply for each poll, or
            ``NotAnswered``, with a judge error.
        question: The question, whose ``Reply`` is the class of the replies.
    """
    if isinstance(reply, NotAnswered):
        if isinstance(reply.error, JudgeError):
            return ""
        name_of_class = type(reply.error).__name__
        return (
            "NotAnswered holds an error, e.g. NotAnswered(UnusableReply('no verdict'))"
            f" of ragmetrics_core.data.errors; got {name_of_class}"
        )
    if not isinstance(reply, Asked):
        name_of_class = type(reply).__name__
        return f"an Answer holds Asked replies or NotAnswered; got {name_of_class}"
    if not reply.replies:
        return (
            "Asked holds at least one reply; where there is none answer with"
            " NotAnswered and why"
        )
    wrong_classes = {
        type(single_reply).__name__
        for single_reply in reply.replies
        if not isinstance(single_reply, question.Reply)
    }
    if wrong_classes:
        return (
            f"replies are objects of question.Reply, {question.Reply.__name__};"
            f" got {', '.join(sorted(wrong_classes))}; question.read(fields) makes one"
        )
    # a reply has no weights, or one for each of its verdicts
    if not all(isinstance(weight, Weight) for weight in reply.weights):
        return (
            "its weights are Weight objects of ragmetrics_core.data, e.g. Weight(0.9)"
        )
    n_verdicts = len(verdicts_of(reply.replies[0]))
    if question.wanted_probability is None or len(reply.weights) in {0, n_verdicts}:
        return ""
    verdicts_in_words = (
        "the one verdict" if n_verdicts == 1 else f"each of {n_verdicts} verdicts"
    )
    return (
        f"this question wants the probability of {question.wanted_probability.field!r}:"
        f" give Asked weights=, a Weight for {verdicts_in_words}, e.g."
        f" weights=(Weight(0.9),); got {len(reply.weights)}"
    )
