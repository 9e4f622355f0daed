"""Carrying out one metric's plan on one sample with one judge: the only place where anything may go wrong."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ragmetrics_core.data.errors import ConnectionFailed, JudgeError, JudgeUnavailable, MetricCrashed
from ragmetrics_core.data.questions import Answer, Batch, NotAnswered, Polls, Question
from ragmetrics_core.data.results import ErrorInfo, Failed, Scored, Undefined
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import Metric, Outcome

T = TypeVar("T")

logger = logging.getLogger("ragmetrics_core")


class Room:
    """Lets samples in one after the other while few questions are open.

    An open question holds its prompt and a hundred small objects, which the garbage collector visits again and
    again; opening thousands ahead costs more time than asking them.

    Args:
        places: Open questions from which on no further sample is let in, and the most of one metric and sample.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self._open = 0
        self._door = asyncio.Lock()
        self._free = asyncio.Event()
        self._free.set()

    async def enter(self, work: Callable[[], Iterable[Coroutine[Any, Any, T]]]) -> list[T]:
        """Start work when there is room, and wait for it.

        Args:
            work: Makes the work of one sample; its first questions are counted before the next sample comes in.
        """
        async with self._door:
            await self._free.wait()
            running = asyncio.gather(*work())
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                running.cancel()
                raise
        return await running

    @contextmanager
    def asking(self, count: int) -> Iterator[Callable[[], None]]:
        """Count open questions; gives what is called as each of them is answered."""
        still_open = count

        def answered() -> None:
            nonlocal still_open
            still_open -= 1
            self._change(-1)

        self._change(count)
        try:
            yield answered
        finally:
            self._change(-still_open)

    def _change(self, count: int) -> None:
        self._open += count
        if self._open < self.places:
            self._free.set()
        else:
            self._free.clear()


@dataclass
class Seat:
    """A judge's session in one run, and whether it ever answered.

    Attributes:
        judge: The session.
        room: Where open questions are counted.
        answered: Number of questions it has answered.
        unavailable: Why it answers none; None as long as it does.
        unreachable: The last failure to reach its endpoint at all.
    """

    judge: Judge
    room: Room = field(default_factory=lambda: Room(64))
    answered: int = 0
    unavailable: JudgeUnavailable | None = None
    unreachable: ConnectionFailed | None = None


async def carry_out(metric: Metric, sample: Sample, seat: Seat) -> Outcome:
    """Carry out a metric on a sample.

    Args:
        metric: The metric.
        sample: The sample.
        seat: The judge's session.

    Returns:
        ``Scored``, ``Undefined`` or ``Failed``, complete with judge, signature, sample id and usage. Never
        raises: an unexpected exception of a metric or judge becomes ``Failed`` with ``MetricCrashed``.
    """
    usage: list[Usage] = []
    try:
        outcome = await _conclude(metric, sample, seat, usage)
    except JudgeUnavailable as error:
        if not error.single:
            seat.unavailable = error
        outcome = metric.failed(error)
    except JudgeError as error:
        outcome = metric.failed(error)
    except Exception as error:  # noqa: BLE001  # the failure boundary: the rest of the run goes on
        outcome = _crashed(metric, error)
    asked = bool(usage) or outcome.status == "failed"
    details = "".join(f"|{key}:{value}" for key, value in seat.judge.details.items())
    return outcome.model_copy(
        update={
            "judge": seat.judge.name if asked else "",
            "signature": f"{metric.signature}|judge:{seat.judge.name}{details}",
            "sample_id": sample.id,
            "usage": sum(usage, Usage()),
        }
    )


async def _conclude(metric: Metric, sample: Sample, seat: Seat, usage: list[Usage]) -> Outcome:
    gap = metric.gap(sample)
    if gap is not None:
        return gap
    plan = metric.plan(sample)
    try:
        batch = next(plan)
        while True:
            answers = await _answers(seat, batch, usage)
            batch = plan.send(tuple(answer.reply for answer in answers))
    except StopIteration as stop:
        if not isinstance(stop.value, (Scored, Undefined, Failed)):
            raise TypeError(
                f"a plan must return Scored, Undefined or Failed, got {type(stop.value).__name__}"
            ) from None
        if isinstance(stop.value, Scored) and not 0 <= stop.value.value <= 1:  # copies are not validated
            return metric.scored(stop.value.value, stop.value.reason, stop.value.evidence)
        return stop.value
    finally:
        plan.close()


async def _answers(seat: Seat, batch: Batch, usage: list[Usage]) -> list[Answer[object]]:
    """Ask all questions of a batch, as many at the same time as there is room for; note what each answer cost."""
    answers: dict[int, Answer[object]] = {}
    waiting = enumerate(batch)
    with seat.room.asking(len(batch)) as answered:

        async def work() -> None:
            for number, question in waiting:
                answers[number] = await _answer(seat, question)
                usage.append(answers[number].usage)
                answered()

        if len(batch) == 1:  # the usual case needs no task of its own
            await work()
        else:
            workers = (work() for _ in range(min(len(batch), seat.room.places)))
            for raised in await asyncio.gather(*workers, return_exceptions=True):
                if raised is not None:
                    raise raised
    return [answers[number] for number in range(len(batch))]


async def _answer(seat: Seat, question: Question[object]) -> Answer[object]:
    try:
        answer = await seat.judge.answer(question)
    except (SystemExit, KeyboardInterrupt) as stop:  # they would end the loop that all judges share
        raise RuntimeError(f"the judge raised {type(stop).__name__}") from stop
    error = _unanswered(answer.reply)
    if error is None:
        seat.answered += 1
    elif isinstance(error, ConnectionFailed):
        seat.unreachable = error
    return answer


def _unanswered(reply: object) -> JudgeError | None:
    """Why a question was not answered at all; None if it was."""
    if isinstance(reply, NotAnswered):
        return reply.error
    if isinstance(reply, Polls) and not reply.answers and reply.failures:
        return reply.failures[0]
    return None


def _crashed(metric: Metric, error: Exception) -> Failed:
    """A failure that says where the metric's or judge's code raised; texts stay out of the message."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = f"{type(error).__name__} in {frame.name} ({frame.filename}:{frame.lineno}); see error.raw"
    logger.warning("metric %s crashed: %s in %s", metric.name, type(error).__name__, frame.name)
    failed = metric.failed(MetricCrashed(message))
    raw = "".join(traceback.format_exception(error))
    return failed.model_copy(update={"error": ErrorInfo(type="MetricCrashed", message=message, raw=raw)})
