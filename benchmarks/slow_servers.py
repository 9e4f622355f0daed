"""A run at a server of this machine that works on few calls at once, beside a bare loop and the ideal.

    uv run benchmarks/slow_servers.py

Every setting is the default, but for the time of a call, which stands in the same ratio
to that of the server as 60 s to 7.5 s. The bare loop of posts knows how many calls the
server works on, and sends so many. The ideal is a server that never waits for a call.
The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from faults import bare
from goals import Goal, Rows, at_most
from killed import rows
from slow_server import SlowServer

from ragmetrics_core import (
    ContextUtilization,
    LLMJudge,
    OpenAICompatibleModel,
    evaluate,
)

# Seconds of a call, by width: the shorter the run, the more its own work would count.
SECONDS = {1: 0.1, 4: 0.3, 16: 1.0}


def main() -> int:
    """Print a row for each width and kind of server; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=400)
    options = parser.parse_args()
    shown = Rows()
    for width, seconds_of_call in SECONDS.items():
        for drops in (True, False):
            server = SlowServer(
                width=width,
                seconds=seconds_of_call,
                drops=drops,
                reply=lambda _: '{"useful": 1, "reason": "r"}',
            )
            with server:
                model = OpenAICompatibleModel(
                    server.base_url, "m", timeout=8 * seconds_of_call
                )
                began_at = time.perf_counter()
                report = evaluate(
                    rows(options.calls // 5, 5),
                    [ContextUtilization()],
                    judge=LLMJudge(model),
                    progress=False,
                    store=False,
                )
                seconds = time.perf_counter() - began_at
                n_requests = server.n_received
                bodies = [
                    json.dumps(recorded.body).encode()
                    for recorded in server.requests[: options.calls]
                ]
                seconds_bare = bare(
                    server, bodies, concurrency=width, timeout=8 * seconds_of_call
                )
            outcomes = [row.results["context_utilization"] for row in report.results]
            n_scored = sum(outcome.status == "scored" for outcome in outcomes)
            ideal = options.calls * seconds_of_call / width
            kind = "forgets" if drops else "works on"
            shown.add(
                f"slow servers: {width} at once, {kind} what was given up:"
                f" {options.calls} calls: {seconds:.1f} s, {seconds / ideal:.2f} × ideal,"
                f" {seconds / seconds_bare:.2f} × a bare loop of {width}"
                f" ({seconds_bare:.1f} s), {n_requests} requests, {n_scored} of {len(outcomes)} scored",
                Goal("every row scored", n_scored == len(outcomes)),
                at_most(seconds / ideal, 1.1),
                at_most(n_requests / options.calls, 1.05),
            )
    return shown.code


if __name__ == "__main__":
    sys.exit(main())
