"""The time of one metric beside a bare loop and ragas, for the same number of calls.

    uv run benchmarks/beside_ragas.py

Samples × 5 chunks against an endpoint of 200 ms latency in a process of its own, 32
calls in flight. Ours is Context Utilization, ragas' is
``LLMContextPrecisionWithoutReference``, which has the same formula and asks once per
chunk, too. ragas runs in an environment of its own, which ``uv`` makes. The clock
starts after imports and a first call. It prints the table of ``docs/measured.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LATENCY = 0.2
IN_FLIGHT = 32
CHUNKS = 5
RAGAS = ("ragas==0.4.3", "langchain-community<0.4", "langchain-openai")
REPLIES = {  # by the name of the model that is asked
    "for-ragas": '{"reason": "It is used.", "verdict": 1}',
    "for-us": '{"reason": "It is used.", "useful": 1}',
}


def rows(samples: int) -> list[dict[str, Any]]:
    """The samples, under the names that both libraries read."""
    return [
        {
            "user_input": f"Who lit lamp {number}?",
            "retrieved_contexts": [
                f"Keeper {chunk} lit lamp {number}." for chunk in range(CHUNKS)
            ],
            "response": f"Keeper 0 lit lamp {number}.",
        }
        for number in range(samples)
    ]


def serve() -> None:
    """Serve an endpoint until killed; it prints its address first."""
    from aiohttp import web

    async def chat(request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        await asyncio.sleep(LATENCY)
        message = {"role": "assistant", "content": REPLIES[body["model"]]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return web.json_response(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [choice],
                "usage": usage,
            }
        )

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


def bare_loop(url: str, samples: int) -> None:
    """A loop of posts with a semaphore."""
    import aiohttp

    async def run() -> None:
        slots = asyncio.Semaphore(IN_FLIGHT)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def post(text: str) -> None:
                body = {
                    "model": "for-us",
                    "messages": [{"role": "user", "content": text}],
                }
                async with (
                    slots,
                    session.post(f"{url}/chat/completions", json=body) as reply,
                ):
                    assert json.loads(await reply.read())["choices"]

            await post("first")
            start_clock("a bare loop of posts")
            texts = [str(row) for row in rows(samples) for _ in range(CHUNKS)]
            await asyncio.gather(*map(post, texts))

    asyncio.run(run())


def ours(url: str, samples: int) -> None:
    """Context Utilization of this library."""
    from ragmetrics_core import LLMJudge, OpenAICompatibleModel, evaluate

    model = OpenAICompatibleModel(url, "for-us", api_key="k")
    judge = LLMJudge(model)
    settings = {"judge": judge, "concurrency": IN_FLIGHT, "progress": False}
    evaluate(rows(1), ["utilization"], **settings)
    start_clock("ragmetrics")
    report = evaluate(rows(samples + 1)[1:], ["utilization"], **settings)
    assert report.scores("context_utilization") == [1.0] * samples


def ragas(url: str, samples: int) -> None:
    """The same formula in ragas."""
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    from langchain_openai import ChatOpenAI
    from ragas import EvaluationDataset, RunConfig, evaluate
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import LLMContextPrecisionWithoutReference

    model = ChatOpenAI(base_url=url, api_key="k", model="for-ragas")
    settings = {
        "metrics": [LLMContextPrecisionWithoutReference()],
        "llm": LangchainLLMWrapper(model),
        "run_config": RunConfig(max_workers=IN_FLIGHT),
        "show_progress": False,
    }
    evaluate(EvaluationDataset.from_list(rows(1)), **settings)
    start_clock("ragas 0.4.3")
    result = evaluate(EvaluationDataset.from_list(rows(samples + 1)[1:]), **settings)
    scores = result["llm_context_precision_without_reference"]
    assert all(abs(score - 1) < 1e-6 for score in scores), scores[:5]


STARTED: dict[str, tuple[float, float]] = {}
"""The name of the library that is measured, and when its clocks started."""


def processor_seconds() -> float:
    """The seconds of a processor that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def start_clock(name: str) -> None:
    """Start the clocks of a library, after its imports and a first call."""
    STARTED[name] = time.perf_counter(), processor_seconds()


LIBRARIES = {"bare": bare_loop, "ours": ours, "ragas": ragas}


def measure(library: str, url: str, samples: int) -> None:
    """Run one library and print its row."""
    LIBRARIES[library](url, samples)
    [(name, (clock, processor))] = STARTED.items()
    seconds = time.perf_counter() - clock
    calls = samples * CHUNKS
    used = (processor_seconds() - processor) / calls * 1000
    ideal = calls / IN_FLIGHT * LATENCY
    print(f"| {name} | {seconds:.1f} s | {seconds / ideal:.2f} | {used:.1f} ms |")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--library", choices=sorted(LIBRARIES))
    parser.add_argument("--url")
    options = parser.parse_args()
    if options.serve:
        serve()
    if options.library:
        measure(options.library, options.url, options.samples)
        return 0
    script = [str(Path(__file__))]
    server = subprocess.Popen(
        [sys.executable, *script, "--serve"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    print(f"| {options.samples} samples | time | ÷ ideal | processor a call |")
    print("|---|---|---|---|", flush=True)
    try:
        for library in LIBRARIES:
            python = [sys.executable]
            if library == "ragas":
                wanted = [word for name in RAGAS for word in ("--with", name)]
                python = ["uv", "run", "--isolated", "--no-project", *wanted, "python"]
            arguments = ["--library", library, "--url", url]
            size = ["--samples", str(options.samples)]
            subprocess.run([*python, *script, *arguments, *size], check=True)
    finally:
        server.kill()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
