"""What a run makes of an endpoint that fails: wall-clock time against a bare client, and what became of the samples.

    uv run benchmarks/faults.py

The first row is held against a bare client loop that repeats each request until it is
answered, under the same faults, with the same timeout and as many in flight. The exit
status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests"))
import aiohttp
from goals import Goal, Rows, at_most
from killed import rows
from loopback import Fault, LoopbackServer

from ragmetrics_core import (
    ContextUtilization,
    LLMJudge,
    OpenAICompatibleModel,
    evaluate,
)
from ragmetrics_core.models.chat import Capabilities

CONCURRENCY = 32
LATENCY = 0.1
TIMEOUT = 2.0
_CAN = Capabilities(
    n=True, logprobs=False, json_schema=True, temperature=True, reasoning=False
)
Faults = Callable[[int], Fault | None]


def mixed(number: int) -> Fault | None:
    """10 % asked to slow down for a second, 5 % errors of the server, 2 % cut off in the middle."""
    drawn = random.Random(number).random()
    if drawn < 0.10:
        return Fault(429, {"Retry-After": "1"})
    if drawn < 0.15:
        return Fault(500)
    return Fault(200, body=_cut_off()) if drawn < 0.17 else None


def resets(number: int) -> Fault | None:
    """5 % connections that break."""
    return Fault(reset=True) if random.Random(number).random() < 0.05 else None


def hangs(number: int) -> Fault | None:
    """2 % requests that are never answered."""
    return Fault(hang=True) if random.Random(number).random() < 0.02 else None


def _cut_off() -> str:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": '{"useful": 1, "rea'},
        "finish_reason": "length",
    }
    return json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [choice],
        }
    )


def useful(body: dict[str, Any]) -> str:
    """Every chunk is useful: any score but 1 is wrong."""
    del body
    return '{"useful": 1, "reason": "r"}'


def ours(server: LoopbackServer, samples: int) -> tuple[float, dict[str, int]]:
    """Seconds of a run, and how many samples were scored, failed, and scored with another value than they have."""
    judge = LLMJudge(
        OpenAICompatibleModel(server.base_url, "m", timeout=TIMEOUT, capabilities=_CAN)
    )
    started = time.perf_counter()
    report = evaluate(
        rows(samples, 5),
        [ContextUtilization()],
        judge=judge,
        concurrency=CONCURRENCY,
        progress=False,
        store=False,
    )
    seconds = time.perf_counter() - started
    outcomes = [result.results["context_utilization"] for result in report.results]
    scored = [outcome.value for outcome in outcomes if outcome.status == "scored"]
    wrong = sum(value != 1.0 for value in scored)
    return seconds, {
        "scored": len(scored),
        "failed": samples - len(scored),
        "silently wrong": wrong,
    }


def bare(server: LoopbackServer, bodies: list[bytes]) -> float:
    """Seconds of a loop of posts that repeats each until it is answered in full."""

    async def run() -> float:
        slots = asyncio.Semaphore(CONCURRENCY)
        limit = aiohttp.ClientTimeout(total=TIMEOUT)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=limit
        ) as session:

            async def answered(body: bytes) -> bool:
                try:
                    async with session.post(
                        f"{server.base_url}/chat/completions", data=body
                    ) as reply:
                        if reply.status == 429:
                            wait = float(reply.headers["Retry-After"])
                        elif reply.status == 200:
                            return bool(
                                json.loads(await reply.read())["choices"][0][
                                    "finish_reason"
                                ]
                                == "stop"
                            )
                        else:
                            wait = 0.25
                except (aiohttp.ClientError, TimeoutError):
                    wait = 0.25
                await asyncio.sleep(wait)
                return False

            async def one(body: bytes) -> None:
                async with slots:
                    while not await answered(body):
                        pass

            started = time.perf_counter()
            await asyncio.gather(*map(one, bodies))
            return time.perf_counter() - started

    return asyncio.run(run())


def served(faults: Faults) -> LoopbackServer:
    """An endpoint that fails as told."""
    return LoopbackServer(useful, latency=LATENCY, faults=faults)


def main() -> int:
    """Print one row per kind of fault; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100)
    options = parser.parse_args()
    shown = Rows()
    calls = options.samples * 5
    named: tuple[tuple[str, Faults], ...] = (
        ("10 % 429 (Retry-After: 1), 5 % 500, 2 % cut off", mixed),
        ("5 % connections reset", resets),
        (f"2 % never answered, timeout {TIMEOUT:g} s", hangs),
    )
    for name, faults in named:
        with served(faults) as server:
            seconds, counts = ours(server, options.samples)
            bodies = [
                json.dumps(recorded.body).encode()
                for recorded in server.requests[:calls]
            ]
        with served(faults) as server:
            other = bare(server, bodies)
        told = ", ".join(f"{count} {what}" for what, count in counts.items())
        lost = Goal(
            "nothing lost, nothing wrong",
            counts["scored"] == options.samples and not counts["silently wrong"],
        )
        shown.add(
            f"faults: {name}: {options.samples} samples, {calls} questions:"
            f" {seconds:.1f} s, {seconds / other:.2f} × a bare client loop ({other:.1f}"
            f" s); {told}",
            lost,
            *([at_most(seconds / other, 1.5)] if faults is mixed else []),
        )
    return shown.code


if __name__ == "__main__":
    sys.exit(main())
