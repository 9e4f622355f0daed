"""What a run makes of an endpoint that fails: wall-clock time against a bare client, and what became of the samples.

    uv run benchmarks/faults.py

The rows of mixed faults are held against a bare client loop that repeats each request
until it is answered, under the same faults, with the same timeout and as many in flight.
Runs and bare loops of typed questions take turns, and the medians are compared. The exit
status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
import aiohttp
from decision_loopback import Chance, DecisionServer
from goals import Goal, Rows, at_most
from killed import rows
from loopback import Fault, LoopbackServer

from ragmetrics_core import (
    ContextUtilization,
    LLMJudge,
    OpenAICompatibleModel,
    evaluate,
)
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.models.chat import Capabilities
from ragmetrics_core.models.decision_model import (
    OpenAIDecisionModel,
    ServedDecisionModel,
    SystemOneModel,
)

CONCURRENCY = 32
LATENCY = 0.1
TIMEOUT = 2.0
_CAN = Capabilities(
    n=True, logprobs=False, json_schema=True, temperature=True, reasoning=False
)
Faults = Callable[[int], Fault | None]
Body = dict[str, Any]
_TYPED: dict[str, tuple[type[ServedDecisionModel], str]] = {
    "decisions": (OpenAIDecisionModel, "ContentRefused"),
    "systemone": (SystemOneModel, "UnusableReply"),  # it has no word for a refusal
}
_REFUSED_EVERY = 25  # samples, of which the service declines to judge one
_TURNS = 3
CUT_BODY = '{"id": "x", "object": "chat.completion", "choices": [{"index": 0, "mess'


def mixed(number: int) -> Fault | None:
    """10 % asked to slow down for a second, 5 % errors of the server, 2 % bodies that are cut."""
    drawn = random.Random(number).random()
    if drawn < 0.10:
        return Fault(429, {"Retry-After": "1"})
    if drawn < 0.15:
        return Fault(500)
    return Fault(200, body=CUT_BODY) if drawn < 0.17 else None


def resets(number: int) -> Fault | None:
    """5 % connections that break."""
    return Fault(reset=True) if random.Random(number).random() < 0.05 else None


def hangs(number: int) -> Fault | None:
    """2 % requests that are never answered."""
    return Fault(hang=True) if random.Random(number).random() < 0.02 else None


def useful(body: dict[str, Any]) -> str:
    """Every chunk is useful: any score but 1 is wrong."""
    del body
    return '{"useful": 1, "reason": "r"}'


def typed_faults(number: int) -> Fault | None:
    """The mixed faults, with bodies that are cut off in the middle."""
    fault = mixed(number)
    if fault is None or fault.status != 200:
        return fault
    return Fault(200, body='{"model": "m", "answers": [{"ty')


def useful_or_refused(state: Body, question: Body) -> Chance:
    """Every chunk is useful; of some samples the service judges none."""
    del question
    number = int(state["question"].rpartition(" ")[2].strip("?"))
    return None if number % _REFUSED_EVERY == 0 else 0.9


def ours(
    judge: Judge, samples: int, metric: ContextUtilization
) -> tuple[float, list[Any]]:
    """Seconds of a run, and the outcome of each sample."""
    started = time.perf_counter()
    report = evaluate(
        rows(samples, 5),
        [metric],
        judge=judge,
        concurrency=CONCURRENCY,
        progress=False,
        store=False,
    )
    seconds = time.perf_counter() - started
    return seconds, [result.results[metric.name] for result in report.results]


def is_whole_chat(body: Body) -> bool:
    """Whether a reply of a chat endpoint was not cut off."""
    return bool(body["choices"][0]["finish_reason"] == "stop")


def bare(
    server: LoopbackServer,
    bodies: Sequence[bytes],
    path: str = "chat/completions",
    is_whole: Callable[[Body], bool] = is_whole_chat,
    *,
    concurrency: int = CONCURRENCY,
    timeout: float = TIMEOUT,
) -> float:
    """Seconds of a loop of posts that repeats each until it is answered in full."""

    async def run() -> float:
        slots = asyncio.Semaphore(concurrency)
        limit = aiohttp.ClientTimeout(total=timeout)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=limit
        ) as session:

            async def answered(body: bytes) -> bool:
                try:
                    async with session.post(
                        f"{server.base_url}/{path}", data=body
                    ) as reply:
                        if reply.status == 429:
                            wait = float(reply.headers["Retry-After"])
                        elif reply.status == 200:
                            return is_whole(json.loads(await reply.read()))
                        else:
                            wait = 0.25
                except (aiohttp.ClientError, TimeoutError, ValueError):
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


def chat_row(shown: Rows, name: str, faults: Faults, samples: int) -> None:
    """Add the row of a chat judge, which asks about five chunks of each sample."""
    calls = samples * 5
    with served(faults) as server:
        model = OpenAICompatibleModel(
            server.base_url, "m", timeout=TIMEOUT, capabilities=_CAN
        )
        seconds, outcomes = ours(LLMJudge(model), samples, ContextUtilization())
        bodies = [
            json.dumps(recorded.body).encode() for recorded in server.requests[:calls]
        ]
    with served(faults) as server:
        other = bare(server, bodies)
    scored = [outcome.value for outcome in outcomes if outcome.status == "scored"]
    wrong = sum(value != 1.0 for value in scored)
    shown.add(
        f"faults: {name}: {samples} samples, {calls} questions: {seconds:.1f} s,"
        f" {seconds / other:.2f} × a bare client loop ({other:.1f} s); {len(scored)}"
        f" scored, {samples - len(scored)} failed, {wrong} silently wrong",
        Goal("nothing lost, nothing wrong", len(scored) == samples and not wrong),
        *([at_most(seconds / other, 1.1)] if faults is mixed else []),
    )


def typed_row(shown: Rows, form: str, samples: int) -> None:
    """Add the row of a decision judge, which asks about a sample's chunks together."""
    model_class, refusal = _TYPED[form]
    metric = ContextUtilization(judging="listwise")
    runs: list[float] = []
    loops: list[float] = []
    right = refused = 0
    for _ in range(_TURNS):
        with DecisionServer(
            useful_or_refused, latency=LATENCY, faults=typed_faults
        ) as server:
            model = model_class("m", api_base=server.base_url, timeout=TIMEOUT)
            seconds, outcomes = ours(DecisionJudge(model), samples, metric)
            runs.append(seconds)
            by_text = {json.dumps(sent.body): None for sent in server.requests}
            bodies = [text.encode() for text in by_text]
        with DecisionServer(
            useful_or_refused, latency=LATENCY, faults=typed_faults
        ) as server:
            loops.append(bare(server, bodies, form, lambda body: "answers" in body))
        right += sum(outcome.value == 1.0 for outcome in outcomes)
        refused += sum(
            outcome.status == "failed" and outcome.error.type == refusal
            for outcome in outcomes
        )
    n_refused = _TURNS * len(range(0, samples, _REFUSED_EVERY))
    ratio = median(runs) / median(loops)
    shown.add(
        f"faults: {form}/…: 10 % 429, 5 % 500, 2 % cut off, 4 % of the samples refused:"
        f" {_TURNS} × {samples} samples: {median(runs):.1f} s, {ratio:.2f} × a bare"
        f" client loop ({median(loops):.1f} s); {right} scored as they are, {refused}"
        f" refused, typed",
        Goal(
            "nothing lost, nothing silent",
            refused == n_refused and right + refused == _TURNS * samples,
        ),
        at_most(ratio, 1.1),
    )


def main() -> int:
    """Print one row per kind of fault; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    # A short run would measure how a run starts, not what faults cost.
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--typed", type=int, default=1_000, help="0 leaves them out")
    options = parser.parse_args()
    shown = Rows()
    named: tuple[tuple[str, Faults], ...] = (
        ("10 % 429 (Retry-After: 1), 5 % 500, 2 % cut bodies", mixed),
        ("5 % connections reset", resets),
        (f"2 % never answered, timeout {TIMEOUT:g} s", hangs),
    )
    if options.samples:
        for name, faults in named:
            chat_row(shown, name, faults, options.samples)
    if options.typed:
        for form in _TYPED:
            typed_row(shown, form, options.typed)
    return shown.code


if __name__ == "__main__":
    sys.exit(main())
