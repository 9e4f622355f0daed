"""Whoever leaves a run early leaves no call behind, and nothing on stderr."""

import subprocess
import sys
from textwrap import dedent

import pytest

COMMON = """
import asyncio, gc, os, signal, threading, time
from contextlib import ExitStack
from ragmetrics_core import LLMJudge, ContextUtilization, OpenAICompatibleModel, aevaluate, evaluate, iter_results
from loopback import LoopbackServer

signal.signal(signal.SIGINT, signal.default_int_handler)  # else it is ignored below a shell in the background
rows = [{"question": f"q{n}", "contexts": [f"text {n} {k}" for k in range(5)], "answer": "a", "reference": f"r{n}"}
        for n in range(60)]
metric = ContextUtilization()
servers, left = [], []

def reply(body):
    return '{"reason": "", "useful": 1}'

def interrupt():
    server = servers[-1]
    def wait():
        while len(server.requests) < 8:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=wait).start()

async def soon():
    while len(servers[-1].requests) < 8:
        await asyncio.sleep(0.01)

with ExitStack() as running:
    for body in BODIES:
        servers.append(running.enter_context(LoopbackServer(reply, latency=0.1)))
        judge = LLMJudge(OpenAICompatibleModel(servers[-1].base_url, "test", api_key="k"))
        exec(body, {**globals(), "server": servers[-1], "judge": judge})
        time.sleep(0.5)  # what was on its way arrives
        left.append(len(servers[-1].requests))
    time.sleep(0.5)
    gc.collect()
    for before, server in zip(left, servers):
        print(before, len(server.requests))
"""
BODIES = {
    "Ctrl-C in score": (
        """
    many = [f"c{k}" for k in range(500)]
    interrupt()
    try:
        metric.score(question="q", contexts=many, answer="a", judge=judge)
    except KeyboardInterrupt:
        pass
    """
    ),
    "Ctrl-C in evaluate": (
        """
    interrupt()
    evaluate(rows, metric, judge=judge, progress=False, concurrency=4)
    """
    ),
    "an early end of iter_results": (
        """
    for result in iter_results(rows, metric, judge=judge, concurrency=4):
        break
    """
    ),
    "an exception while results are consumed": (
        """
    try:
        for result in iter_results(rows, metric, judge=judge, concurrency=4):
            raise ValueError
    except ValueError:
        pass
    """
    ),
    "a cancelled aevaluate": (
        """
    async def cancelled():
        task = asyncio.ensure_future(aevaluate(rows, metric, judge=judge, concurrency=4))
        await soon()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    asyncio.run(cancelled())
    """
    ),
    "a cancelled ascore": (
        """
    async def cancelled():
        many = [f"c{k}" for k in range(500)]
        task = asyncio.ensure_future(metric.ascore(question="q", contexts=many, answer="a", judge=judge))
        await soon()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    asyncio.run(cancelled())
    """
    ),
    "Ctrl-C in write_pairs": (
        """
    from ragmetrics_core.labelling import DiscreteSettings, Document, Maker, write_pairs
    documents = [Document(id=f"d{n}", text=f"Gate {n} was built in {1500 + n}. " * 30) for n in range(60)]
    interrupt()
    try:
        write_pairs(documents, DiscreteSettings(questions=60), Maker(judge, concurrency=2))
    except KeyboardInterrupt:
        pass
    """
    ),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """What a process says that is left in every way, one after the other, each with an endpoint of its own."""
    script = tmp_path_factory.mktemp("leaving") / "script.py"
    script.write_text(
        COMMON.replace("BODIES", repr([dedent(body) for body in BODIES.values()]))
    )
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60
    )


@pytest.mark.nightly
@pytest.mark.parametrize("how", BODIES)
def test_whoever_leaves_leaves_no_call_behind(how, said):
    assert (said.returncode, said.stderr) == (0, "")
    calls = dict(zip(BODIES, said.stdout.splitlines(), strict=True))
    soon_after, at_the_end = calls[how].split()
    assert int(soon_after) > 0, "no call was ever made"
    assert at_the_end == soon_after
