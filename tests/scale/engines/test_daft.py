"""Daft on this machine: the recipe of the documentation gives what one machine gives, and goes on after a kill."""

import os
import signal
import subprocess
import sys
import time

os.environ["DO_NOT_TRACK"] = "1"  # before it is imported

import pytest
from engine_rows import (
    alone,
    assert_it_runs,
    model,
    ran,
    snippets,
    table_of,
    without_costs,
)
from pyarrow import parquet

from ragmetrics_core.scale import Scorer

pytestmark = pytest.mark.filterwarnings("ignore")  # of Daft itself
RECIPE = dict(snippets("daft"))["scale.md"]


def recipe(scorer: str) -> str:
    """The recipe with another scorer."""
    (line,) = (line for line in RECIPE.splitlines() if line.startswith("scorer = "))
    return RECIPE.replace(line, f"scorer = {scorer}")


def test_it_gives_what_one_machine_gives(tmp_path, monkeypatch):
    assert ran(recipe("Scorer()"), tmp_path, monkeypatch) == alone(
        Scorer(), table_of(100)
    )


def test_it_gives_what_one_machine_gives_with_a_model(
    tmp_path, monkeypatch, loopback_server
):
    server = loopback_server()
    named = f"Scorer(judge='openai-compatible/m', store='{tmp_path}/replies/')"
    monkeypatch.setenv("RAGMETRICS_API_BASE", server.base_url)
    rows, calls = ran(recipe(named), tmp_path, monkeypatch), len(server.requests)
    again = alone(Scorer(judge=model(server)), table_of(100))
    assert len(server.requests) == 2 * calls
    assert [
        row["context_recall"] and row["context_recall"]["value"] for row in rows
    ] == [row["context_recall"] and row["context_recall"]["value"] for row in again]


def test_a_job_that_is_killed_goes_on_where_it_ended(
    tmp_path, monkeypatch, loopback_server
):
    server = loopback_server(latency=0.02)
    monkeypatch.setenv("RAGMETRICS_API_BASE", server.base_url)
    named = (
        f"Scorer('utilization', 'openai-compatible/m', store='{tmp_path}/replies/',"
        " concurrency=4)"
    )
    (tmp_path / "first" / "samples").mkdir(parents=True)
    parquet.write_table(table_of(100), tmp_path / "first" / "samples" / "rows.parquet")
    job = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", recipe(named)], cwd=tmp_path / "first"
    )
    while len(server.requests) < 30:
        time.sleep(0.01)
    job.send_signal(signal.SIGKILL)
    job.wait()
    (tmp_path / "second").mkdir()
    rows, calls = (
        ran(recipe(named), tmp_path / "second", monkeypatch),
        len(server.requests),
    )
    different = {str(request.body["messages"]) for request in server.requests}
    assert 30 < len(different) <= calls <= len(different) + 4
    again = alone(Scorer("utilization", model(server)), table_of(100))
    assert [
        row["context_utilization"] and row["context_utilization"]["value"]
        for row in rows
    ] == [
        row["context_utilization"] and row["context_utilization"]["value"]
        for row in again
    ]
    assert without_costs(rows)[0].keys() == without_costs(again)[0].keys()


@pytest.mark.parametrize(
    ("page", "snippet"), snippets("daft"), ids=lambda it: it if "\n" not in it else ""
)
def test_examples_run(page, snippet, tmp_path, monkeypatch):
    assert_it_runs(snippet, tmp_path, monkeypatch)
