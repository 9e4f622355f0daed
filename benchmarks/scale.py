"""Samples per second and peak memory, with the embedded judge and a model without latency, as samples grow in number.

    uv run benchmarks/scale.py

``iter_results`` over samples made on the fly, each size in a process of its own: time
is to be linear within 10 %, and memory flat, which is within 10 %, from 10,000 samples
on; then the same through the command line, from a file of rows to a file of results,
with a model on this machine. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from goals import Rows, at_most, between
from instant_models import Instant

from ragmetrics_core import LexicalJudge, LLMJudge, iter_results
from ragmetrics_core.cli.main import main as command_line
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.registry import METRICS

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from loopback import LoopbackServer
from plausible import plausible_reply


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Samples with different texts, made as they are read."""
    for number in range(count):
        yield {
            "question": f"Which part does thing {number} have?",
            "contexts": [
                f"Thing {number} has part {part}, as the manual says."
                for part in range(5)
            ],
            "answer": f"Thing {number} has part 3.",
            "reference": f"Thing {number} has parts 0 to 4.",
        }


USEFUL = '{"useful": 1, "reason": "It says so."}'
JUDGES: dict[str, tuple[Callable[[], Judge], tuple[str, ...]]] = {
    "embedded judge, 4 metrics": (LexicalJudge, tuple(METRICS)),
    "model without latency, utilization": (
        lambda: LLMJudge(Instant(USEFUL)),
        ("context_utilization",),
    ),
}

COMMAND = "command line, model on this machine, adherence"

FLAT_FROM = 10_000
"""Samples from which on memory is to be flat."""


def measure(name: str, count: int) -> dict[str, float]:
    """Seconds and peak memory of one size, in this process."""
    if name == COMMAND:
        started, cpu = time.perf_counter(), time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            given, out, store = (
                str(Path(folder) / part)
                for part in ("rows.jsonl", "results.jsonl", "replies.sqlite")
            )
            with open(given, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows(count))
            settings = (
                "--metrics",
                "adherence",
                "--judge",
                "openai-compatible/m",
                "--store",
                store,
                "--quiet",
                "--no-files",  # a page keeps all rows in memory
            )
            with (
                open(os.devnull, "w", encoding="utf-8") as nowhere,
                contextlib.redirect_stdout(nowhere),
            ):
                assert command_line(["evaluate", given, "--out", out, *settings]) == 0
        return told(started, cpu)
    make, metrics = JUDGES[name]
    judge = make()
    for _ in iter_results(rows(200), metrics, judge=judge, store=False):
        pass
    started, cpu = time.perf_counter(), time.process_time()
    done = sum(1 for _ in iter_results(rows(count), metrics, judge=judge, store=False))
    assert done == count
    return told(started, cpu)


def told(started: float, cpu: float) -> dict[str, float]:
    """Seconds since then, and the peak memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "wall": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "memory": peak,
    }


def compare(shown: Rows, name: str, sizes: list[int]) -> None:
    """Print one row per size, and the ratios."""
    found = {}
    for size in sizes:
        command = [sys.executable, __file__, "--measure", name, "--sizes", str(size)]
        row = json.loads(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
        )
        found[size] = row
        shown.add(
            f"scale: {name}: {size} samples: {size / row['wall']:.0f} samples/s, peak"
            f" {row['memory']:.0f} MB"
        )
    large, pairs = sizes[-1], [sizes[0], *(size for size in sizes if size >= FLAT_FROM)]
    for small in dict.fromkeys(pairs):
        if small == large:
            continue
        time_, memory = (
            found[large][what] / found[small][what] for what in ("cpu", "memory")
        )
        linear = between(time_ * small / large, 0.90, 1.10)
        shown.add(
            f"scale: {name}: {large} against {small} samples: CPU time per sample ×"
            f" {time_ * small / large:.2f}, peak memory × {memory:.2f}",
            linear,
            *([at_most(memory, 1.10)] if small >= FLAT_FROM else []),
        )


RECORDED: list[list[Any]] = []


def answered(body: dict[str, Any]) -> str:
    """A plausible reply; what the server recorded is dropped, since only the client is measured."""
    for requests in RECORDED:
        requests.clear()
    return plausible_reply(body)


def main() -> int:
    """Compare sizes with each judge; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000]
    )
    parser.add_argument("--only", choices=[*JUDGES, COMMAND], help="one of the rows")
    parser.add_argument("--measure", choices=[*JUDGES, COMMAND], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, *options.sizes)))
        return 0
    shown = Rows()
    with LoopbackServer(answered) as server:
        os.environ["RAGMETRICS_API_BASE"] = server.base_url
        RECORDED.append(server.requests)
        for name in [options.only] if options.only else [*JUDGES, COMMAND]:
            compare(shown, name, sorted(options.sizes))
    return shown.code


if __name__ == "__main__":
    sys.exit(main())
