"""Rows that every engine scores, and what one machine makes of them."""

import contextlib
import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from loopback import LoopbackServer
from pyarrow import dataset, parquet

from ragmetrics_core import LLMJudge, OpenAICompatibleModel, Report
from ragmetrics_core.scale import Scorer

_WORDS = (
    "river",
    "stone",
    "light",
    "paris",
    "capital",
    "france",
    "tower",
    "bridge",
    "seine",
    "museum",
    "garden",
)


def rows_of(count: int) -> list[dict[str, Any]]:
    """Different samples, some of them bad, some without what a metric needs, and a column that is nobody's."""
    draw = random.Random(7)

    def text(length: int) -> str:
        return f"There is the {' and the '.join(draw.choices(_WORDS, k=length))}."

    return [
        {
            "number": number,
            "question": f"{number}: {text(5)}",
            "contexts": [text(12) for _ in range(number % 4)],
            "answer": text(8),
            "ground_truth": text(6) if number % 3 else None,
            "conversation_id": f"c{number // 5}",
            "facts": (
                [{"text": "A fact.", "weight": -1.0 if number % 50 == 7 else 1.0}]
                if number % 50 > 6
                else None
            ),
        }
        for number in range(count)
    ]


def table_of(count: int) -> pa.Table:
    return pa.Table.from_pylist(rows_of(count))


def compared(table: pa.Table) -> list[dict[str, Any]]:
    """Every column of every row, in the order of the rows' numbers."""
    return sorted(table.to_pylist(), key=lambda row: row["number"])


def alone(scorer: Scorer, table: pa.Table) -> list[dict[str, Any]]:
    """What one machine makes of the table, by the plain function."""
    found = compared(scorer(table))
    assert sum(row["sample"]["problem"] is not None for row in found) > 0
    return found


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def snippets(engine: str) -> list[tuple[str, str]]:
    """The examples for an engine in the documentation, each with the name of its page."""
    fence = re.compile(rf"^```python {engine}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = [
        (page.name, block[1])
        for page in PAGES
        for block in fence.finditer(page.read_text("utf-8"))
    ]
    assert found
    return found


def ran(
    snippet: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """What an example writes into ``scored/``, of a hundred rows in ``samples/``."""
    (folder / "samples").mkdir()
    parquet.write_table(table_of(100), folder / "samples" / "rows.parquet")
    monkeypatch.chdir(folder)
    # an engine's processes stand elsewhere
    snippet = re.sub(r'"(samples|scored)/"', rf'"{folder}/\1/"', snippet)
    exec(compile(snippet, "docs", "exec", dont_inherit=True), {"__name__": "docs"})
    report = Report.from_parquet("scored/")
    assert any(numbers.interval for numbers in report.summary().metrics)
    return compared(dataset.dataset("scored/").to_table())


def assert_it_runs(snippet: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example scores every row."""
    rows = ran(snippet, folder, monkeypatch)
    assert len(rows) == 100
    assert any(
        row["context_adherence"]["value"] for row in rows if row["context_adherence"]
    )


def model(server: LoopbackServer) -> LLMJudge:
    return LLMJudge(OpenAICompatibleModel(server.base_url, "m", prices=(1e-6, 1e-6)))


def descendants(command: str) -> list[int]:
    """Processes that this one started, or those that it started, whose command holds these words; oldest first."""
    parents, commands = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(place.name)] = int(
                (place / "stat").read_text().rpartition(")")[2].split()[1]
            )
            commands[int(place.name)] = (
                (place / "cmdline").read_bytes().decode(errors="replace")
            )

    def ours(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return sorted(
        process
        for process in parents
        if command in commands.get(process, "") and ours(process)
    )


def without_costs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without what was paid for them: of equal questions in flight only the first costs."""
    return [{name: _without_usage(cell) for name, cell in row.items()} for row in rows]


def _without_usage(cell: Any) -> Any:
    if not isinstance(cell, dict) or "result" not in cell:
        return cell
    return {**cell, "result": {**json.loads(cell["result"]), "usage": None}}


def killed_soon(
    server: LoopbackServer, calls: int, command: str, last: bool = False
) -> Future[int]:
    """Kill a worker with SIGKILL as soon as the server has got so many calls.

    Gives the process.
    """

    def work() -> int:
        while len(server.requests) < calls:
            time.sleep(0.01)
        process = descendants(command)[-1 if last else 0]
        os.kill(process, signal.SIGKILL)
        return process

    return ThreadPoolExecutor(1).submit(work)


def assert_nothing_is_lost(
    scored: Callable[..., list[dict[str, Any]]],
    server: LoopbackServer,
    folder: Path,
    command: str,
    last: bool = False,
) -> None:
    """What an engine scores, a worker of which is killed, is whole, and no call is paid twice but those in flight."""
    scorer = Scorer(
        "utilization", model(server), store=f"{folder}/replies.sqlite", concurrency=4
    )
    killed = killed_soon(server, 30, command, last)
    rows = scored(table_of(120), scorer)
    assert killed.result(1) > 0
    calls = len(server.requests)
    assert without_costs(rows) == without_costs(alone(scorer, table_of(120)))
    assert len(server.requests) == calls  # all of it is in the store
    different = {str(request.body["messages"]) for request in server.requests}
    assert len(different) <= calls <= len(different) + 4
