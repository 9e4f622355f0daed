"""The deadline ends any judge and any metric, and what computes for long does so beside the loop of all judges."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Iterator
from itertools import count
from typing import Any

import pytest
from chat_models import PolledModel
from pydantic import BaseModel, field_validator

from ragmetrics_core import (
    ContextUtilization,
    LexicalJudge,
    Limits,
    LLMJudge,
    Metric,
    Question,
    Report,
    Sample,
    ScriptedJudge,
    ask,
    evaluate,
    metric,
)
from ragmetrics_core.data.asking import Instructions, Part
from ragmetrics_core.data.errors import UnusableReply
from ragmetrics_core.data.replies import Answer, NotAnswered, Usage
from ragmetrics_core.engine.scoring import RunJudge, carry_out
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.models.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.threads import Lane, compute_beside_loop

SAYS_YES = ScriptedJudge({Useful: {"useful": True}})
LANES: tuple[Lane, ...] = ("calls", "judge")
LONG = "Paris is the capital of France. " * 2_000
VERDICT = '{"useful": 1, "reason": "r"}'


def endless(**fields: Any) -> Iterator[dict[str, Any]]:
    """Rows without end: only the deadline ends a run over them."""
    for number in count():
        yield {
            "question": "q",
            "contexts": ["Paris."],
            "answer": f"Paris {number}.",
            **fields,
        }


class Waiting(Judge):
    """Never answers."""

    name = "waiting"

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        await asyncio.Event().wait()
        raise AssertionError


@metric
def plain(sample: Sample) -> float:
    threading.Event().wait()
    return 1.0


class Planned(Metric):
    """Waits for ever between two questions."""

    name: str = "planned"

    def plan(self, sample: Sample) -> Any:
        yield from ask([question("Paris.")])
        threading.Event().wait()
        return self.scored(1.0, "")


class Elsewhere(Metric):
    """Waits for ever where a metric is not carried out step by step."""

    name: str = "elsewhere"
    where: str

    def _wait_at(self, where: str) -> None:
        if where == self.where:
            threading.Event().wait()

    @property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        self._wait_at("needs")
        return super().needs

    def gap(self, sample: Sample) -> Any:
        self._wait_at("gap")
        return super().gap(sample)

    def plan(self, sample: Sample) -> Any:
        self._wait_at("plan")
        return self._plan()

    def _plan(self) -> Any:
        try:
            yield from ask([question("Paris.")])
        finally:
            self._wait_at("finally")
        return self.scored(1.0, "")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("metrics", "judge", "never_ends"),
    [
        ("adherence", "lexical", False),
        ("utilization", Waiting(), True),
        ("utilization", SAYS_YES, False),
        (plain, SAYS_YES, True),
        (Planned(), SAYS_YES, True),
        ("recall", SAYS_YES, False),  # undefined on every row
        (Elsewhere(where="needs"), SAYS_YES, True),
        (Elsewhere(where="gap"), SAYS_YES, True),
        (Elsewhere(where="plan"), SAYS_YES, True),
        (Elsewhere(where="finally"), Waiting(), True),
    ],
    ids=[
        "embedded",
        "waits",
        "quick",
        "function",
        "plan",
        "undefined",
        "needs",
        "gap",
        "begins",
        "finally",
    ],
)
def test_the_deadline_ends_any_judge_and_any_metric(metrics, judge, never_ends):
    report = evaluate(
        endless(), metrics, judge=judge, limits=Limits(deadline=0.2), concurrency=2
    )
    assert report.run.stopped.startswith("the deadline of 0.2 s was reached")
    assert [row.index for row in report.results] == list(range(len(report.results)))
    outcomes = [outcome for row in report.results for outcome in row.results.values()]
    assert {outcome.status for outcome in outcomes} <= {"scored", "undefined"}
    assert not (never_ends and outcomes)
    # on a busy machine the deadline may come before the first row, or between rows
    if never_ends and report.results:
        assert report.summary().not_judged > 0


class BlockingJudge(Judge):
    """Blocks the event loop that awaits it until it is released."""

    name = "blocking judge"

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    async def answer(self, question: Question[Any]) -> Answer[Any]:
        self._released.wait(20)
        return Answer(NotAnswered(UnusableReply("it blocked")))


class BlockingModel(ChatModel):
    """Blocks the event loop that awaits it until it is released."""

    name = "blocking model"

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    async def prepare(self) -> None:
        self._released.wait(20)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self._released.wait(20)
        return ChatReply((Choice(VERDICT),))


@pytest.mark.parametrize("kind", [BlockingJudge, BlockingModel])
def test_a_judge_that_blocks_holds_up_neither_the_deadline_nor_other_runs(kind):
    released = threading.Event()
    began_at = time.monotonic()
    try:
        report = evaluate(
            endless(), "utilization", judge=kind(released), limits=Limits(deadline=0.2)
        )
        row = next(endless())
        other = evaluate([row], "utilization", judge=SAYS_YES)
    finally:
        released.set()
    assert report.run.stopped.startswith("the deadline of 0.2 s was reached")
    assert other.scores("utilization") == [1.0]
    assert time.monotonic() - began_at < 10


def test_the_deadline_ends_a_run_over_rows_that_are_none():
    report = evaluate(
        count(),
        "adherence",
        judge="lexical",
        limits=Limits(deadline=0.5),
        concurrency=2,
    )
    assert report.run.stopped.startswith("the deadline of 0.5 s was reached")
    # none where the machine is busy
    assert report.summary().bad_rows == len(report.results)


def test_what_an_unfinished_worker_brings_is_dropped():
    begun, released, finished = threading.Event(), threading.Event(), threading.Event()

    @metric
    def late(sample: Sample) -> float:
        begun.set()
        released.wait()
        finished.set()
        return 1.0

    report = evaluate(
        [{"answer": "a"}], [late], judge="lexical", limits=Limits(deadline=0.5)
    )
    released.set()
    # on a busy machine the deadline may come before the first row, or before it begins
    if report.results:
        assert finished.wait(20) or not begun.is_set()
        assert report.results[0].results == {}
        assert report.summary().not_judged == 1


def test_a_run_that_ends_before_its_deadline_says_nothing_of_it():
    report = evaluate(
        [{"answer": "a", "contexts": ["a"]}],
        "adherence",
        judge="lexical",
        limits=Limits(deadline=600),
    )
    assert (report.run.stopped, report.summary().judged) == ("", 1)


# What computes for long


class Replying(PolledModel):
    """Gives one reply to every request, and counts them."""

    name = "replying"

    def __init__(self, text: str) -> None:
        self.text, self.calls = text, 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        return ChatReply((Choice(self.text),), Usage(calls=1))


def question(text: str) -> Useful:
    sample = Sample(question="What is it?", contexts=["Paris."], answer=text)
    return next(ContextUtilization().plan(sample))[0]


def embedded() -> Awaitable[object]:
    return LexicalJudge().answer(question("Paris."))


def rendering() -> Awaitable[object]:
    return LLMJudge(Replying(VERDICT)).answer(question(LONG))


def reading() -> Awaitable[object]:
    return LLMJudge(Replying(" " * 100_000 + VERDICT)).answer(question("Paris."))


def planning() -> Awaitable[object]:
    sample = Sample(question="q", contexts=[LONG], answer="Paris.")
    return carry_out(ContextUtilization(), sample, RunJudge(SAYS_YES))


@pytest.mark.parametrize("work", [embedded, rendering, reading, planning])
def test_what_computes_for_long_does_so_beside_the_loop(work):
    """While the thread that computes is busy, none of these ends, and the loop goes on."""

    async def run() -> bool:
        free = threading.Event()
        busy = [
            asyncio.ensure_future(compute_beside_loop(free.wait, lane=lane))
            for lane in LANES
        ]
        try:
            working = asyncio.ensure_future(work())
            for _ in range(200):
                await asyncio.sleep(0)
            waited = not working.done()
        finally:
            free.set()
        await asyncio.gather(*busy, working)
        return waited

    assert asyncio.run(run())


@pytest.mark.parametrize("work", [rendering, reading, planning])
def test_what_calls_need_does_not_wait_for_the_embedded_judge(work):
    async def run() -> None:
        free = threading.Event()
        busy = asyncio.ensure_future(compute_beside_loop(free.wait, lane="judge"))
        try:
            await asyncio.wait_for(work(), timeout=30)
            assert not busy.done()
        finally:
            free.set()
        await busy

    asyncio.run(run())


def test_a_reader_of_ones_own_holds_up_nobody():
    """Nobody knows how long the validators of a user's reply take."""
    released = threading.Event()

    class Slow(BaseModel):
        useful: int

        @field_validator("useful")
        @classmethod
        def _waits(cls, useful: int) -> int:
            released.wait()
            return useful

    class Asking(Metric):
        name: str = "asking"

        def gap(self, sample: Sample) -> Any:
            if sample.answer == "waits":
                released.wait()
            return super().gap(sample)

        def plan(self, sample: Sample) -> Any:
            told = Instructions(template="Is it useful?\n{answer}")
            parts = {"answer": Part("Answer", sample.answer)}
            yield from ask([Question(parts=parts, instructions=told, Reply=Slow)])
            return self.scored(1.0, "")

    for answer in ("reads", "waits"):
        judge = LLMJudge(Replying(VERDICT))
        report = evaluate(
            [{"answer": answer}], Asking(), judge=judge, limits=Limits(deadline=0.2)
        )
        assert report.run.stopped.startswith("the deadline of 0.2 s was reached")
    assert (
        evaluate([{"answer": "a", "contexts": ["a"]}], "adherence", judge="lexical")
        .summary()
        .judged
        == 1
    )
    released.set()


def test_a_users_plan_has_a_thread_of_its_own():
    """Nobody knows whether it computes or waits."""
    threads: list[str] = []

    class Own(Metric):
        name: str = "own"

        def plan(self, sample: Sample) -> Any:
            threads.append(threading.current_thread().name)
            yield from ask([question("Paris.")])
            threads.append(threading.current_thread().name)
            return self.scored(1.0, "")

    assert Own().score(answer="a", judge=SAYS_YES).value == 1.0
    assert threads == ["ragmetrics own"] * 2


def test_what_is_given_up_before_its_turn_is_not_computed():
    made: list[int] = []

    async def run() -> None:
        free = threading.Event()
        busy = asyncio.ensure_future(compute_beside_loop(free.wait))
        second = asyncio.ensure_future(compute_beside_loop(lambda: made.append(2)))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        free.set()
        await busy
        await compute_beside_loop(lambda: made.append(3))

    asyncio.run(run())
    assert made == [3]


def test_no_sync_call_waits_on_the_thread_that_computes():
    async def run() -> Report:
        return await compute_beside_loop(
            lambda: evaluate([{"answer": "a", "contexts": ["a"]}], judge="lexical")
        )

    with pytest.raises(Exception, match="cannot call score or evaluate"):
        asyncio.run(run())
