"""Runs that are killed at random instants: how many calls are repeated, and whether the results are the same.

    uv run benchmarks/killed.py --samples 2000 --kills 5

A run in a process of its own is killed (SIGKILL) and started again with the same
arguments, until it ends. The endpoint counts calls: there may be at most kills ×
concurrency more than in an undisturbed run.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from endpoint import Endpoint, endpoint
from goals import Goal, Rows, at_most

CONCURRENCY = 32


@dataclass(frozen=True)
class Outcome:
    """What became of the killed run.

    Args:
        undisturbed: Calls of an undisturbed run.
        calls: Calls of the killed run, all its starts together.
        kills: How often it was killed.
        same: True if it has the same results.
    """

    undisturbed: int
    calls: int
    kills: int
    same: bool

    @property
    def repeated(self) -> int:
        """Calls more than in an undisturbed run."""
        return self.calls - self.undisturbed


def rows(count: int, contexts: int) -> list[dict[str, Any]]:
    """Samples with different texts."""
    return [
        {
            "question": f"What is thing {number}?",
            "contexts": [
                f"Thing {number} has part {part}." for part in range(contexts)
            ],
            "answer": f"It is thing {number}.",
        }
        for number in range(count)
    ]


def measure(
    samples: int, contexts: int, kills: int, latency: float, seed: int | None = None
) -> Outcome:
    """Run once undisturbed, then killed."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, endpoint(latency) as server:
        undisturbed = _finished(
            _start(Path(folder), "plain", server.base_url, samples, contexts)
        )
        base = server.calls()
        left = kills
        while True:
            process = _start(Path(folder), "killed", server.base_url, samples, contexts)
            if not left:
                break
            done = server.calls() - base
            _wait_for(
                process,
                server,
                base + done + chance.uniform(0.1, 1.5) * (base - done) / (left + 1),
            )
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                left -= 1
            process.wait()
        same = _finished(process) == undisturbed
        return Outcome(base, server.calls() - base, kills, same)


def _wait_for(process: subprocess.Popen[str], server: Endpoint, calls: float) -> None:
    """Wait until the endpoint has got so many calls, or the run has ended."""
    while server.calls() < calls and process.poll() is None:
        time.sleep(0.003)


def _start(
    folder: Path, name: str, base_url: str, samples: int, contexts: int
) -> subprocess.Popen[str]:
    arguments = [str(folder / f"{name}.sqlite"), base_url, str(samples), str(contexts)]
    command = [sys.executable, __file__, "--run", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _finished(process: subprocess.Popen[str]) -> Any:
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"the run ended with code {process.returncode}")
    return json.loads(said)


def run(store: str, base_url: str, samples: str, contexts: str) -> None:
    """One run, to its end; prints the results without what they cost."""
    from ragmetrics_core import (
        ContextAdherence,
        ContextUtilization,
        OpenAICompatibleModel,
        evaluate,
    )
    from ragmetrics_core.models.chat import Capabilities

    model = OpenAICompatibleModel(
        base_url, "test", capabilities=Capabilities(logprobs=False)
    )
    metrics = [ContextUtilization(), ContextAdherence(polls=3, early_stop=True)]
    data = rows(int(samples), int(contexts))
    report = evaluate(
        data, metrics, judge=model, store=store, concurrency=CONCURRENCY, progress=False
    )
    assert report.summary().judged == len(data)
    results = [
        [
            found.model_dump(mode="json", exclude={"usage"})
            for found in row.results.values()
        ]
        for row in report.results
    ]
    print(json.dumps(results))


def main() -> int:
    """Print the figures; 1 if too many calls were repeated or the results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--contexts", type=int, default=5)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--latency", type=float, default=0.02)
    options = parser.parse_args()
    found = measure(options.samples, options.contexts, options.kills, options.latency)
    most = found.kills * CONCURRENCY
    shown = Rows()
    shown.add(
        f"killed: {options.samples} samples × {options.contexts} contexts,"
        f" {found.undisturbed} calls undisturbed; killed {found.kills} times:"
        f" {found.repeated} calls repeated, results"
        f" {'identical' if found.same else 'DIFFERENT'}",
        at_most(found.repeated, most),
        Goal("identical", found.same),
    )
    return shown.code


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(*sys.argv[2:])
    else:
        sys.exit(main())
