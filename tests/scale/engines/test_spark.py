"""Spark on this machine: what one machine gives, shares of limits, a worker that is killed."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
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
from pyarrow import dataset, parquet
from pyspark.sql import SparkSession

from ragmetrics_core import Limits
from ragmetrics_core.data import SettingError
from ragmetrics_core.scale import Scorer, score_frame

pytestmark = pytest.mark.filterwarnings("ignore")  # of PySpark itself


@pytest.fixture(scope="module", autouse=True)
def _spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "25",
    }
    # two cores, and four tries of a task
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield
    session.stop()


@pytest.fixture
def scored(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    def done(
        table: pa.Table, scorer: Scorer, partitions: int | None = 3
    ) -> list[dict[str, Any]]:
        parquet.write_table(table, tmp_path / "given.parquet")
        frame = SparkSession.active().read.parquet(str(tmp_path / "given.parquet"))
        score_frame(frame, scorer, partitions=partitions).write.mode(
            "overwrite"
        ).parquet(str(tmp_path / "scored"))
        return compared(dataset.dataset(tmp_path / "scored").to_table())

    return done


def test_it_gives_what_one_machine_gives(scored):
    assert scored(table_of(400), Scorer()) == alone(Scorer(), table_of(400))


def test_it_gives_what_one_machine_gives_with_a_model(scored, loopback_server):
    scorer = Scorer(judge=model(loopback_server()))
    assert without_costs(scored(table_of(60), scorer, None)) == without_costs(
        alone(scorer, table_of(60))
    )


def test_every_partition_has_its_share_of_the_limits(scored, loopback_server):
    server = loopback_server()
    scorer = Scorer("utilization", model(server), limits=Limits(max_calls=20))
    rows = scored(table_of(100), scorer, 4)
    assert len(server.requests) == 20
    assert len(rows) == 100
    with pytest.raises(SettingError, match="partitions="):
        scored(table_of(10), scorer, None)


def test_a_worker_that_is_killed_loses_nothing(scored, loopback_server, tmp_path):
    assert_nothing_is_lost(
        scored, loopback_server(latency=0.02), tmp_path, "pyspark.daemon", last=True
    )


@pytest.mark.parametrize(
    ("page", "snippet"), snippets("spark"), ids=lambda it: it if "\n" not in it else ""
)
def test_examples_run(page, snippet, tmp_path, monkeypatch):
    assert_it_runs(snippet, tmp_path, monkeypatch)
