"""Limits per minute that several processes of one machine keep together by a file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragmetrics_core import ContextUtilization, Limits, LLMJudge, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import ForeignFile, LimitReached, SettingError
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)
from ragmetrics_core.models.limits import Budget, RateLimiter
from ragmetrics_core.models.reply_store import SqliteStore

ROW = {"question": "q", "contexts": ["c"], "answer": "a"}


class Clock:
    """A clock that moves only when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waited = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rates.sqlite"


def rate(
    path: Path | str, clock: Clock, model: str = "toy", **per_minute: float
) -> RateLimiter:
    limits = Limits(
        **{f"{unit}_per_minute": limit for unit, limit in per_minute.items()},
        rate_file=path,
    )  # type: ignore[arg-type]
    return RateLimiter(Budget(limits, sleep=clock.sleep), (model, ""), clock)


async def times(limiter: RateLimiter, clock: Clock, calls: int) -> list[float]:
    """When calls left, in seconds since the start."""
    left = []
    for _ in range(calls):
        await limiter.acquire(0.0)
        left.append(round(clock.now - 1000.0, 3))
    return left


@pytest.mark.parametrize(
    ("per_minute", "expected"),
    [
        (60, [0.0, 1.0, 2.0, 3.0]),  # one a second
        (20, [0.0, 3.0, 6.0, 9.0]),
        # a second's worth at once, the rest spread: (120 - 2) / 60 a second
        (120, [0.0, 0.0, 0.0, 0.508]),
    ],
)
def test_calls_are_spread_over_the_minute(
    per_minute: float, expected: list[float], path: Path
) -> None:
    clock = Clock()
    assert (
        asyncio.run(times(rate(path, clock, requests=per_minute), clock, 4)) == expected
    )


def test_two_that_name_one_file_keep_one_rate_for_each_model(path: Path) -> None:
    clock = Clock()
    one, two = rate(path, clock, requests=60), rate(path, clock, requests=60)
    other = rate(path, clock, "another model", requests=60)

    async def run() -> list[float]:
        return [
            *await times(one, clock, 2),
            *await times(two, clock, 2),
            *await times(other, clock, 1),
        ]

    assert asyncio.run(run()) == [0.0, 1.0, 2.0, 3.0, 3.0]


def test_tokens_are_counted_as_the_reply_tells_them(path: Path) -> None:
    """6000 a minute: 100 at once, the rest at 5900 / 60 a second; a reply is first taken to have 100."""
    clock = Clock()
    limiter = rate(path, clock, tokens=6000)

    async def run() -> None:
        ticket = await limiter.acquire(0.0)
        limiter.observe(
            ticket, ChatReply((), Usage(prompt_tokens=4000, completion_tokens=1000))
        )
        assert clock.waited == 0.0
        await limiter.acquire(0.0)

    asyncio.run(run())
    assert clock.waited == pytest.approx((5000 - 100) * 60 / 5900)


def test_a_clock_that_is_set_back_holds_nobody_up(path: Path) -> None:
    clock = Clock()
    limiter = rate(path, clock, requests=60)
    asyncio.run(times(limiter, clock, 3))
    clock.now, clock.waited = -5000.0, 0.0
    asyncio.run(times(limiter, clock, 1))
    assert clock.waited == pytest.approx(1.0)


def test_a_run_that_may_not_call_any_more_waits_no_longer(path: Path) -> None:
    clock = Clock()
    budget = Budget(
        Limits(requests_per_minute=1, deadline=10, rate_file=path), clock, clock.sleep
    )
    limiter = RateLimiter(budget, ("toy", ""), clock)

    async def run() -> list[object]:
        return await asyncio.gather(
            *(limiter.acquire(0.0) for _ in range(3)), return_exceptions=True
        )

    assert [type(found) for found in asyncio.run(run())] == [
        float,
        LimitReached,
        LimitReached,
    ]


def test_the_event_loop_goes_on_while_another_process_holds_the_file(
    path: Path,
) -> None:
    limiter = rate(path, Clock(), requests=60)
    asyncio.run(limiter.acquire(0.0))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    async def run() -> bool:
        waiting = asyncio.create_task(limiter.acquire(0.0))
        for _ in range(1000):
            await asyncio.sleep(0)
        early = waiting.done()
        holder.execute("ROLLBACK")
        await waiting
        return early

    assert asyncio.run(run()) is False
    holder.close()


def test_a_file_that_cannot_be_written_costs_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    limiter = rate("/proc/ragmetrics/rates.sqlite", clock, requests=60)
    assert asyncio.run(times(limiter, clock, 3)) == [0.0, 1.0, 2.0]
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "by this process alone" in warning


# Real processes


CALLS = """
import asyncio, os, sys, time
from ragmetrics_core.models.limits import Budget, Limits, RateLimiter

counted = []

def clock():
    counted.append(time.time())
    return counted[-1]

budget = Budget(Limits(requests_per_minute=float(sys.argv[2]), rate_file=sys.argv[1]))
limiter = RateLimiter(budget, ("toy", ""), clock)

async def call():
    await limiter.acquire(0.0)
    print(repr(counted[-1]), flush=True)

async def calls(number):
    await asyncio.gather(*(call() for _ in range(number)))
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CALLS + code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.nightly
def test_four_processes_do_not_multiply_a_quota(path: Path) -> None:
    """6000 a minute: in any time no more than 100 and (6000 - 100) / 60 a second."""
    processes = [start("asyncio.run(calls(75))", path, 6000) for _ in range(4)]
    said = [process.communicate(timeout=100) for process in processes]
    assert [complaint for _, complaint in said] == [""] * 4
    left = sorted(float(line) for lines, _ in said for line in lines.split())
    assert len(left) == 300
    for first in range(len(left)):
        for last in range(first, len(left)):
            assert last - first <= 100 + 5900 / 60 * (left[last] - left[first]) + 1e-3


DEATHS = {
    "while calls wait": (
        """
try:
    asyncio.run(asyncio.wait_for(calls(50), 0.2))
except TimeoutError:
    os.kill(os.getpid(), 9)
"""
    ),
    "while it counts a call": (
        """
def clock():
    os.kill(os.getpid(), 9)
limiter = RateLimiter(budget, ("toy", ""), clock)
asyncio.run(calls(1))
"""
    ),
}


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
def test_a_process_that_dies_holds_nothing(death: str, path: Path) -> None:
    process = start(death, path, 1)
    process.communicate(timeout=100)
    assert process.returncode == -9
    clock = Clock()
    clock.now = 1e10  # long after
    asyncio.run(times(rate(path, clock, requests=1), clock, 1))
    assert clock.waited == 0.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_child_keeps_the_rate_with_its_parent(path: Path) -> None:
    code = """
asyncio.run(calls(1))
if not (child := os.fork()):
    asyncio.run(calls(1))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(calls(1))
"""
    process = start(
        "import warnings\nwarnings.simplefilter('ignore')" + code, path, 119
    )
    said, complaint = process.communicate(timeout=100)
    first, second, third = map(float, said.split())
    assert (process.returncode, complaint) == (0, "")
    assert min(second - first, third - second) >= 0.999 * 60 / 119


# How it is asked for


class Toy(ChatModel):
    name = "toy"

    def capabilities(self) -> Capabilities:
        return Capabilities(n=True, logprobs=False, json_schema=True, temperature=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply(
            (Choice('{"useful": 1, "reason": "r"}'),), Usage(calls=1, prompt_tokens=10)
        )


def test_a_run_keeps_its_rate_in_the_file(path: Path) -> None:
    limits = Limits(
        requests_per_minute=60_000, tokens_per_minute=10_000_000, rate_file=path
    )
    report = evaluate(
        [ROW] * 3, [ContextUtilization()], judge=LLMJudge(Toy()), limits=limits
    )
    assert report.summary().judged == 3
    with sqlite3.connect(path) as connection:
        units = connection.execute("SELECT unit FROM rates").fetchall()
    connection.close()
    assert units == [("requests",), ("tokens",)]


def test_a_file_of_rates_without_a_rate_is_explained(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        SettingError, match="rate_file needs requests_per_minute or tokens_per_minute"
    ):
        Limits(max_calls=3, rate_file=path)


@pytest.mark.parametrize("kind", ["a table of samples", "a store of replies"])
def test_a_file_that_is_not_ours_is_refused_and_stays_as_it_is(
    kind: str, tmp_path: Path
) -> None:
    samples, path = tmp_path / "samples.jsonl", tmp_path / "samples.jsonl"
    samples.write_text('{"question": "q", "contexts": ["c"], "answer": "c"}\n')
    if kind == "a store of replies":
        path = tmp_path / "replies.sqlite"
        store = SqliteStore(path)
        store.put({"ab" * 32: Choice("x")})
        store.close()
    before = path.read_bytes()
    with pytest.raises(ForeignFile, match="is no file of ragmetrics' rates"):
        Limits(requests_per_minute=10, rate_file=path)
    options: Mapping[str, str] = {
        "--judge": "lexical",
        "--rate-file": str(path),
        "--requests-per-minute": "10",
    }
    assert (
        main(
            [
                "evaluate",
                str(samples),
                *(part for option in options.items() for part in option),
            ]
        )
        == 2
    )
    assert path.read_bytes() == before
