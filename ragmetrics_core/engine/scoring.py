"""Scoring one sample with one metric and one judge: the only place where anything may go wrong."""

import asyncio
import logging
import os
import sysconfig
import traceback
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

from ragmetrics_core.data import Answer, ErrorInfo, Failed, NotAnswered, Sample, Scored, Undefined, Usage, errors
from ragmetrics_core.data.questions import Batch, Question, Replies
from ragmetrics_core.endpoints.fitting import gathered
from ragmetrics_core.endpoints.store import resolve_store
from ragmetrics_core.endpoints.threads import in_thread
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan

_NOT_THEIRS = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"))  # where no metric of a user's own stands

_store = lru_cache(maxsize=8)(resolve_store)  # one for all calls while RAGMETRICS_STORE names the same file
_READ = ("question", "contexts", "retrieved", "answer", "reference", "facts")  # what metrics read

logger = logging.getLogger("ragmetrics_core")


async def score_one(
    metric: Metric, sample: Sample | None, fields: Mapping[str, Any], judge: Judge | str | None
) -> Outcome:
    """Score one sample, on the judges' loop; see ``Metric.score``."""
    sample = _one_sample(sample, fields)
    if metric.needs_others:
        raise errors.SettingError(
            f"{metric.name} as set here takes contexts of other questions (controls=1), and score() sees one: "
            "give control_contexts=, or use evaluate() with several samples"
        )
    named = os.environ.get("RAGMETRICS_STORE")
    store = _store(named) if named else None
    asked = RunJudge(resolve_judge(judge, metric_model=metric.model).session(concurrency=32, store=store))
    try:
        outcome = await carry_out(metric, sample, asked)
    finally:
        if store is not None:
            await asyncio.to_thread(store.flush)
    if asked.unavailable is not None:
        raise asked.unavailable
    return outcome


def _one_sample(sample: Sample | None, fields: Mapping[str, Any]) -> Sample:
    if sample is not None:
        if fields:
            raise errors.SettingError(f"give a sample or its fields, not both: {', '.join(fields)}")
        return sample
    own = fields.get("metadata") or {}
    if not isinstance(own, Mapping):
        raise errors.SettingError(f"metadata must be a mapping of your own data, got {type(own).__name__}")
    made = Sample.from_row({name: value for name, value in fields.items() if name != "metadata"})
    if made.metadata:
        raise errors.SettingError(
            f"no field of a sample is named {', '.join(made.metadata)}; use question, contexts, answer, reference"
        )
    if unread := [name for name in _READ if name in own and made.missing(name)]:
        raise errors.SettingError(
            f"metadata holds {', '.join(unread)}, but metadata is yours and no metric reads it; "
            f"give {unread[0]}= as an argument of its own"
        )
    return made.model_copy(update={"metadata": {str(name): value for name, value in own.items()}})


@dataclass
class RunJudge:
    """A judge's session in one run, and whether it ever answered."""

    session: Judge
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(64))  # for open questions
    answered: int = 0  # questions
    unavailable: errors.JudgeUnavailable | None = None  # why it answers none


async def carry_out(metric: Metric, sample: Sample, judge: RunJudge) -> Outcome:
    """Carry out a metric on a sample: an outcome complete with judge, signature, sample id and usage.

    Never raises: an unexpected exception of a metric or judge becomes ``Failed`` with ``MetricCrashed``.
    """
    usage: list[Usage] = []
    try:
        outcome = await _conclude(metric, sample, judge, usage)
    except errors.JudgeError as error:
        if isinstance(error, errors.JudgeUnavailable) and not error.single:
            judge.unavailable = error
        outcome = metric.failed(error)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  # the rest of the run goes on
        outcome = _crashed(metric, error)
    asked = bool(usage) or outcome.status == "failed"
    return outcome.model_copy(
        update={
            "judge": judge.session.name if asked else "",
            "signature": metric.signature.by(judge.session.name, judge.session.details),
            "sample_id": sample.id,
            "usage": sum(usage, Usage()),
        }
    )


async def _conclude(metric: Metric, sample: Sample, judge: RunJudge, usage: list[Usage]) -> Outcome:
    gap = metric.gap(sample)
    if gap is not None:
        return gap
    plan = metric.plan(sample)
    try:
        if metric.in_thread:  # it computes or waits
            first = partial(_step, plan, None)
            begun = in_thread(first, context=copy_context(), name=f"ragmetrics {metric.name}")
            step = await asyncio.wrap_future(begun)
        else:
            step = _step(plan, None)
        while not isinstance(step, StopIteration):
            answers = await gathered(_answer(judge, question, usage) for question in step)
            step = _step(plan, tuple(answer.reply for answer in answers))
        if not isinstance(step.value, (Scored, Undefined, Failed)):
            raise TypeError(f"a plan must return Scored, Undefined or Failed, got {type(step.value).__name__}")
        if isinstance(step.value, Scored) and not 0 <= step.value.value <= 1:  # copies are not validated
            return metric.scored(step.value.value, step.value.reason, step.value.evidence)
        return step.value
    finally:
        plan.close()


def _step(plan: Plan, replies: Replies | None) -> Batch | StopIteration:
    """The next questions of a plan, or how it ended, which no coroutine hands on as an exception."""
    try:
        return plan.send(cast("Replies", replies))
    except StopIteration as stop:
        return stop


async def _answer(judge: RunJudge, question: Question[Any], usage: list[Usage]) -> Answer[Any]:
    """Ask a question as soon as there is a slot for it, and note what the answer cost.

    An open question holds its prompt and a hundred small objects, which the garbage collector visits again and
    again; opening thousands ahead costs more time than asking them.
    """
    async with judge.slots:
        try:
            answer = await judge.session.answer(question)
        except (SystemExit, KeyboardInterrupt) as stop:  # they would end the loop that all judges share
            raise RuntimeError(f"the judge raised {type(stop).__name__}") from stop
    usage.append(answer.usage)
    if not isinstance(answer.reply, NotAnswered):
        judge.answered += 1
        return answer
    error = answer.reply.error
    if isinstance(error, errors.JudgeUnavailable) and not isinstance(error, errors.LimitReached):
        raise error.with_traceback(None)
    return answer


def _crashed(metric: Metric, error: BaseException) -> Failed:
    """A failure that says where the metric's or judge's code raised; texts stay out of the message."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [it for it in frames if not it.filename.startswith(_NOT_THEIRS) and "site-packages" not in it.filename]
    frame = (theirs or frames)[-1]
    message = f"{metric.name}: {type(error).__name__} in {frame.name} ({frame.filename}:{frame.lineno}); see error.raw"
    if isinstance(error, errors.RagMetricsError):  # it says what to do, and holds no text
        message = f"{metric.name}: {error}"
    logger.warning("metric %s crashed: %s in %s", metric.name, type(error).__name__, frame.name)
    failed = metric.failed(errors.MetricCrashed(message))
    raw = "".join(traceback.format_exception(error))
    return failed.model_copy(update={"error": ErrorInfo(type="MetricCrashed", message=message, raw=raw)})
