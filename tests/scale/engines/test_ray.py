"""Ray Data on this machine: what one machine gives, limits of the whole job, a worker that is killed."""

import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before it is imported
# else it copies the checkout, and each worker installs all of it
os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"

import pyarrow as pa
import pytest
import ray
from engine_rows import (
    alone,
    assert_it_runs,
    assert_nothing_is_lost,
    compared,
    model,
    snippets,
    table_of,
    without_costs,
)

from ragmetrics_core import Limits
from ragmetrics_core.scale import Scorer, score_dataset

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray itself


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    quiet: Any = {
        "include_dashboard": False,
        "logging_level": "ERROR",
        "log_to_driver": False,
    }
    # short: sockets stand in it
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(num_cpus=4, object_store_memory=200_000_000, _temp_dir=folder, **quiet)
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield
        ray.shutdown()


def scored(table: pa.Table, scorer: Scorer, **settings: Any) -> list[dict[str, Any]]:
    dataset = ray.data.from_arrow([table.slice(0, 50), table.slice(50)])
    done = score_dataset(dataset, scorer, workers=2, batch_size=25, **settings)
    return compared(pa.concat_tables(ray.get(done.to_arrow_refs())))


def test_it_gives_what_one_machine_gives():
    assert scored(table_of(400), Scorer()) == alone(Scorer(), table_of(400))


def test_it_gives_what_one_machine_gives_with_a_model(loopback_server):
    scorer = Scorer(judge=model(loopback_server()))
    assert without_costs(scored(table_of(60), scorer)) == without_costs(
        alone(scorer, table_of(60))
    )


def test_limits_hold_for_the_job(loopback_server):
    server = loopback_server()
    scorer = Scorer(
        "utilization",
        model(server),
        limits=Limits(max_calls=20, requests_per_minute=6000),
    )
    held = score_dataset(
        ray.data.from_arrow(table_of(100)), scorer, job="test of limits"
    )
    rows = scored(table_of(100), scorer, job="test of limits")
    assert len(server.requests) == 20
    assert len(rows) == 100
    assert (
        0
        < sum(
            row["context_utilization"] is None and not row["sample"]["problem"]
            for row in rows
        )
        < 100
    )
    assert held.count() == 100  # another dataset of the same job
    assert len(server.requests) == 20


def test_a_worker_that_is_killed_loses_nothing(loopback_server, tmp_path):
    assert_nothing_is_lost(
        scored, loopback_server(latency=0.02), tmp_path, "MapBatches"
    )


@pytest.mark.parametrize(
    ("page", "snippet"), snippets("ray"), ids=lambda it: it if "\n" not in it else ""
)
def test_examples_run(page, snippet, tmp_path, monkeypatch):
    assert_it_runs(snippet, tmp_path, monkeypatch)
