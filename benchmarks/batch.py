"""Runs that ask in batches: rounds, price beside that of a live run, and what is asked twice after kills.

    uv run benchmarks/batch.py --samples 1000 --kills 10

The service on this machine speaks the protocol of OpenAI's files and batches; prices
are those of OpenAI's table for gpt-4o-mini. A run in a process of its own is killed
(SIGKILL) before or after one of its calls to the service, and started again, as often
as asked: no request may be executed twice, and scores must be those of a live run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from batch_service import BatchService
from goals import Goal, Rows, between
from plausible import plausible_reply

METRICS = ["utilization", "adherence", "recall", "retrieval_accuracy"]


def rows(count: int, contexts: int) -> list[dict[str, Any]]:
    """Samples with different texts, each with a reference of two facts."""
    return [
        {
            "question": f"What is thing {number}?",
            "contexts": [
                f"Thing {number} has part {part}. {'It is blue. ' * 20}"
                for part in range(contexts)
            ],
            "answer": f"It is thing {number}, and it has part 0.",
            "reference": f"Thing {number} has parts. It is blue.",
        }
        for number in range(count)
    ]


def run(how: str, url: str, store: str, samples: str, contexts: str) -> None:
    """One run, to its end; prints scores and price."""
    from ragmetrics_core import OpenAICompatibleModel, evaluate
    from ragmetrics_core.data import Usage
    from ragmetrics_core.scale import batches

    vars(batches).update(SETTLED_SECONDS=0.0, LOOK_SECONDS=0.1)
    judge = OpenAICompatibleModel.named(
        "gpt-4o-mini", api_base=url, api_key=str(os.getpid())
    )
    given: Any = {
        "judge": judge,
        "store": store,
        "batch": "wait" if how == "batch" else False,
        "progress": False,
    }
    report = evaluate(rows(int(samples), int(contexts)), METRICS, **given)
    spent = sum((row.usage for row in report.results), Usage())
    values = [
        [outcome.value for outcome in row.results.values()] for row in report.results
    ]
    print(json.dumps({"values": values, "cost": spent.cost, "calls": spent.calls}))


def started(*given: object) -> dict[str, Any]:
    """What a run says; nothing if it was killed."""
    command = [sys.executable, __file__, "--run", *map(str, given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"the run ended with code {done.returncode}")
    return json.loads(done.stdout) if done.returncode == 0 else {}


def main() -> int:
    """Print the figures; 1 if anything was asked twice, scores differ, or the price is not half."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--contexts", type=int, default=5)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    killed: set[tuple[int, str, str]] = set()

    def kill(call: str, key: str, when: str) -> None:
        place = (len(service.batches), call, when)
        if len(killed) < options.kills and place not in killed:
            killed.add(place)
            with suppress(ProcessLookupError):
                os.kill(int(key), signal.SIGKILL)

    size = (options.samples, options.contexts)
    with (
        tempfile.TemporaryDirectory() as folder,
        BatchService(plausible_reply, steps=2) as service,
    ):
        live = started("live", service.base_url, f"{folder}/live.sqlite", *size)
        begun = time.monotonic()
        plain = started("batch", service.base_url, f"{folder}/plain.sqlite", *size)
        seconds, rounds = time.monotonic() - begun, len(service.batches)
        service.executed.clear()
        service.around = kill
        while not (
            found := started(
                "batch", service.base_url, f"{folder}/killed.sqlite", *size
            )
        ):
            pass
    share, twice = (
        plain["cost"] / live["cost"],
        sum(service.executed.values()) - len(service.executed),
    )
    shown = Rows()
    shown.add(
        f"batch: {options.samples} samples × {options.contexts} contexts, four metrics:"
        f" {plain['calls']:,} requests in {rounds} batches, ${plain['cost']:.2f}"
        f" against ${live['cost']:.2f} live, {seconds:.0f} s",
        between(share, 0.499, 0.501),
        Goal("scores of the live run", plain["values"] == live["values"]),
    )
    shown.add(
        f"batch, killed {len(killed)} times: {len(service.executed):,} requests"
        f" executed, {twice} of them twice",
        Goal("none twice", not twice),
        Goal("scores of the live run", found["values"] == live["values"]),
    )
    return shown.code


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(*sys.argv[2:])
    else:
        sys.exit(main())
