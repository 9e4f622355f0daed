"""Wall-clock time of a run against the ideal, which is calls ÷ concurrency × latency.

    uv run benchmarks/throughput.py

Samples × 5 contexts against an endpoint of 200 ms latency in a process of its own. The
clock starts after imports and a first call. LiteLLM is compared with a bare loop around
``litellm.acompletion`` in the same process. The exit status is 1 if a goal is missed;
goals are for 1,000 samples, since fewer are mostly start and end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import aiohttp
from endpoint import Endpoint, endpoint
from goals import Goal, Rows, at_most
from killed import rows

from ragmetrics_core import (
    ContextUtilization,
    LiteLLMModel,
    LLMJudge,
    OpenAICompatibleModel,
    evaluate,
)
from ragmetrics_core.engine.loop import submit
from ragmetrics_core.judging.rendering import render
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.models.chat import Capabilities, ChatModel, ChatRequest
from ragmetrics_core.models.openai_form import request_body

LATENCY = 0.2
FULL = 1000
_CAN = Capabilities(
    n=True, logprobs=False, json_schema=True, temperature=True, reasoning=False
)


def ours(
    model: ChatModel, samples: int, concurrency: int, store: str | None = None
) -> tuple[float, int]:
    """Seconds and calls of a run."""
    warm_up = rows(1, 2)
    judge = LLMJudge(model)
    evaluate(warm_up, [ContextUtilization()], judge=judge, progress=False)
    data = rows(samples + 1, 5)[1:]
    started = time.perf_counter()
    report = evaluate(
        data,
        [ContextUtilization()],
        judge=judge,
        concurrency=concurrency,
        progress=False,
        store=store or False,
    )
    seconds = time.perf_counter() - started
    assert report.summary().judged == samples
    return seconds, report.usage.calls


def prompts(samples: int) -> list[ChatRequest]:
    """The requests that a run would send."""
    from ragmetrics_core.data.sample import Sample

    requests = []
    for row in rows(samples + 1, 5)[1:]:
        plan = ContextUtilization().plan(Sample.from_row(row))
        requests += [
            ChatRequest(render(question), max_tokens=1024)
            for question in next(plan)
            if isinstance(question, Useful)
        ]
        plan.close()
    return requests


def bare(base_url: str, samples: int, concurrency: int) -> float:
    """Seconds of a loop of ``litellm.acompletion`` with a semaphore, for the same prompts."""
    import litellm

    requests = prompts(samples)

    async def run() -> float:
        slots = asyncio.Semaphore(concurrency)
        common = {
            "model": "openai/test",
            "api_base": base_url,
            "api_key": "k",
            "num_retries": 0,
            "max_retries": 0,
        }

        async def one(request: ChatRequest) -> None:
            async with slots:
                reply = await litellm.acompletion(**common, **request_body(request))
                assert reply.choices

        await one(requests[0])
        started = time.perf_counter()
        await asyncio.gather(*map(one, requests))
        return time.perf_counter() - started

    return submit(run()).result()


def bare_post(base_url: str, samples: int, concurrency: int) -> float:
    """Seconds of a loop of aiohttp posts with a semaphore, for the same prompts."""
    bodies = [
        json.dumps({"model": "test", **request_body(request)}).encode()
        for request in prompts(samples)
    ]

    async def run() -> float:
        slots = asyncio.Semaphore(concurrency)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0)
        ) as session:

            async def one(body: bytes) -> None:
                async with (
                    slots,
                    session.post(f"{base_url}/chat/completions", data=body) as reply,
                ):
                    assert json.loads(await reply.read())["choices"]

            await one(bodies[0])
            started = time.perf_counter()
            await asyncio.gather(*map(one, bodies))
            return time.perf_counter() - started

    return submit(run()).result()


def compatible_row(
    shown: Rows,
    server: Endpoint,
    samples: int,
    concurrency: int,
    repeats: int,
    goal: float,
) -> None:
    """OpenAICompatibleModel against the ideal."""
    model = OpenAICompatibleModel(server.base_url, "test", capabilities=_CAN)
    ratios, others, busy = [], [], []
    for _ in range(repeats):
        others.append(
            bare_post(server.base_url, samples, concurrency)
            / (samples * 5 / concurrency * LATENCY)
        )
        cpu = time.process_time()
        seconds, calls = ours(model, samples, concurrency)
        busy.append((time.process_time() - cpu) / calls * 1000)
        ratios.append(seconds / (calls / concurrency * LATENCY))
    shown.add(
        f"throughput: openai-compatible, {concurrency} in flight: {min(ratios):.3f} ×"
        f" the ideal (best of {len(ratios)}), {min(busy):.2f} ms CPU per call; a bare"
        f" loop of aiohttp posts in the same run: {min(others):.3f}",
        *_goals(min(ratios), goal, samples),
    )


def litellm_row(
    shown: Rows, server: Endpoint, samples: int, concurrency: int, repeats: int
) -> None:
    """LiteLLMModel against a bare loop around LiteLLM."""
    model = LiteLLMModel(
        "openai/test", api_base=server.base_url, api_key="k", capabilities=_CAN
    )
    pairs = []
    for _ in range(repeats):
        seconds, _ = ours(model, samples, concurrency)
        pairs.append((seconds, bare(server.base_url, samples, concurrency)))
    ratio = min(own for own, _ in pairs) / min(other for _, other in pairs)
    ideal = min(own for own, _ in pairs) / (samples * 5 / concurrency * LATENCY)
    shown.add(
        f"throughput: litellm, {concurrency} in flight: {ratio:.3f} × a bare"
        f" litellm.acompletion loop, {ideal:.2f} × the ideal",
        *_goals(ratio, 1.05, samples),
    )


def _goals(ratio: float, bound: float, samples: int) -> list[Goal]:
    return [at_most(ratio, bound)] if samples >= FULL else []


def main() -> int:
    """Print one row per model and concurrency; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=FULL)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--without-litellm", action="store_true")
    parser.add_argument("--only-litellm", action="store_true")
    options = parser.parse_args()
    shown = Rows()
    with endpoint(LATENCY) as server:
        for concurrency, goal in (
            ((32, 1.05), (256, 1.15)) if not options.only_litellm else ()
        ):
            compatible_row(
                shown, server, options.samples, concurrency, options.repeats, goal
            )
        if not options.without_litellm:
            litellm_row(shown, server, options.samples, 32, options.repeats)
    return shown.code


if __name__ == "__main__":
    sys.exit(main())
