"""What it costs to keep every reply in a file: per reply, and of a whole run's time.

    uv run benchmarks/store.py

A store that commits each reply is compared with a bare loop of commits; and runs at
256 in flight with a file with such without.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from endpoint import endpoint
from throughput import LATENCY, ours

from ragmetrics_core import OpenAICompatibleModel
from ragmetrics_core.models.chat import Capabilities, Choice, Origin
from ragmetrics_core.models.reply_store import SqliteStore, connect

_CAN = Capabilities(
    n=True, logprobs=False, json_schema=True, temperature=True, reasoning=False
)
_REPLY = Choice(
    '{"useful": 1, "reason": "'
    + "The chunk names the part that is asked for. " * 4
    + '"}',
    origin=Origin("test"),
)


def bare(path: Path, replies: int) -> float:
    """Seconds per reply of a loop that commits one at a time."""
    connection = connect(path)
    started = time.perf_counter()
    for number in range(replies):
        connection.execute("BEGIN IMMEDIATE")
        row = (number.to_bytes(32), _REPLY.text, 0.0, "test")
        connection.execute(
            "INSERT OR REPLACE INTO replies (key, choice, created, model) VALUES (?, ?,"
            " ?, ?)",
            row,
        )
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return seconds / replies


def kept(path: Path, replies: int) -> float:
    """Seconds per reply of a store."""
    store = SqliteStore(path)
    store.put({f"{replies:064x}": _REPLY})  # opens the file
    started = time.perf_counter()
    for number in range(replies):
        store.put({f"{number:064x}": _REPLY})
    seconds = time.perf_counter() - started
    store.close()
    return seconds / replies


def commit_row(folder: Path, replies: int, repeats: int) -> str:
    """The store against a bare loop of commits."""
    files = (folder / f"{number}.sqlite" for number in itertools.count())
    alone = min(bare(next(files), replies) for _ in range(repeats))
    each = min(kept(next(files), replies) for _ in range(repeats))
    return (
        f"store: {each * 1000:.3f} ms per reply, {each / alone:.2f} × a bare loop of"
        f" single commits ({alone * 1000:.3f} ms)"
    )


def run_row(folder: Path, samples: int, in_flight: int, repeats: int) -> str:
    """A run with a file against one without."""
    pairs = []
    with endpoint(LATENCY) as server:
        model = OpenAICompatibleModel(server.base_url, "test", capabilities=_CAN)
        for number in range(repeats):
            without, calls_without = ours(model, samples, in_flight)
            seconds, calls = ours(
                model, samples, in_flight, store=str(folder / f"run-{number}.sqlite")
            )
            assert calls == calls_without
            pairs.append((seconds, without))
    ratio = min(seconds for seconds, _ in pairs) / min(without for _, without in pairs)
    return (
        f"store: {in_flight} in flight, {LATENCY * 1000:.0f} ms latency: a run with a"
        f" file {ratio:.3f} × one without"
    )


def main() -> None:
    """Print one row per figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replies", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print(commit_row(Path(name), options.replies, options.repeats), flush=True)
        print(run_row(Path(name), options.samples, 256, options.repeats), flush=True)


if __name__ == "__main__":
    main()
