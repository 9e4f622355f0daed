"""Samples per second and peak memory with the embedded judge, as the number of samples grows.

    uv run benchmarks/scale.py

``iter_results`` over samples made on the fly, each size in a process of its own: time should be linear within
10 %, and memory flat from 10,000 samples on.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Samples with different texts, made as they are read."""
    for number in range(count):
        yield {
            "question": f"Which part does thing {number} have?",
            "contexts": [f"Thing {number} has part {part}, as the manual says." for part in range(5)],
            "answer": f"Thing {number} has part 3.",
            "reference": f"Thing {number} has parts 0 to 4.",
        }


def measure(count: int) -> dict[str, float]:
    """Seconds and peak memory of one size, in this process."""
    from ragmetrics_core import LexicalJudge, iter_results

    judge = LexicalJudge()
    for _ in iter_results(rows(200), judge=judge):
        pass
    started, cpu = time.perf_counter(), time.process_time()
    done = sum(1 for _ in iter_results(rows(count), judge=judge))
    assert done == count
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall": time.perf_counter() - started, "cpu": time.process_time() - cpu, "memory": peak}


def main() -> None:
    """Print one row per size, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    found = {}
    for size in options.sizes:
        command = [sys.executable, __file__, "--measure", str(size)]
        found[size] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        row = found[size]
        print(
            f"scale: {size} samples × 4 metrics: {size / row['wall']:.0f} samples/s, peak {row['memory']:.0f} MB",
            flush=True,
        )
    sizes = [size for size in options.sizes if size >= 10_000] or options.sizes
    small, large = sizes[0], sizes[-1]
    if small != large:
        per = [found[size]["cpu"] / size for size in (small, large)]
        memory = found[large]["memory"] / found[small]["memory"]
        print(
            f"scale: {large} against {small} samples: CPU time per sample × {per[1] / per[0]:.2f} (goal 0.90 to 1.10), "
            f"peak memory × {memory:.2f} (goal: flat)"
        )


if __name__ == "__main__":
    main()
