"""Engines against the plain function: the same results, and what an engine adds.

    uv run --group ray --group spark --group daft benchmarks/distributed.py

``equal``: sorted rows of Ray, Spark and Daft against those of the plain function,
20,000 with the embedded judge and 2,000 with a model on this machine; the exit status
is 1 if any differs. ``engines``: samples with the embedded judge, by the plain function
in one process and by Ray Data and Spark with 1 and 2 local workers: rows per second,
what an engine adds to each row in microseconds of a worker, and the ratio.
An engine that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet

from ragmetrics_core import LLMJudge, OpenAICompatibleModel, Report
from ragmetrics_core.scale import Scorer

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from loopback import LoopbackServer
from plausible import plausible_reply

BATCH = 1000
# and no copy of the checkout per worker
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}


def table(first: int, count: int) -> pa.Table:
    """Samples with different texts."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "number": list(numbers),
            "question": [f"Which part does thing {number} have?" for number in numbers],
            "contexts": [
                [f"Thing {n} has part {part}, as the manual says." for part in range(5)]
                for n in numbers
            ],
            "answer": [f"Thing {number} has part 3." for number in numbers],
            "reference": [
                f"Thing {number} has parts 0 to 4." if number % 3 else None
                for number in numbers
            ],
            "conversation_id": [f"conversation {number // 4}" for number in numbers],
        }
    )


def written(folder: Path, count: int, part: int = 10_000) -> Path:
    """The samples, as Parquet in several files."""
    folder.mkdir()
    for first in range(0, count, part):
        parquet.write_table(
            table(first, min(part, count - first)), folder / f"{first:09d}.parquet"
        )
    return folder


def scorer_of(judged: str) -> Scorer:
    """What is measured: one metric or all with the embedded judge, or all with the model at an address."""
    if judged.startswith("http"):
        return Scorer(judge=LLMJudge(OpenAICompatibleModel(judged, "m")))
    return Scorer(None if judged == "all" else judged, "lexical")


def plain(samples: Path, out: Path, workers: int, scorer: Scorer) -> Callable[[], None]:
    """The plain function over all files, batch by batch.

    Engines are started before the clock.
    """
    del workers
    scorer(table(0, 1))

    def work() -> None:
        out.mkdir()
        for path in sorted(samples.iterdir()):
            batches = parquet.ParquetFile(path).iter_batches(batch_size=BATCH)
            parquet.write_table(
                pa.concat_tables([scorer(batch) for batch in batches]), out / path.name
            )

    return work


def on_ray(
    samples: Path, out: Path, workers: int, scorer: Scorer
) -> Callable[[], None]:
    """Ray Data with so many workers.

    Two more cores are there for reading and writing.
    """
    os.environ |= QUIET
    import ray

    from ragmetrics_core.scale import score_dataset

    ray.init(
        num_cpus=workers + 2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False

    def work() -> None:
        dataset = ray.data.read_parquet(str(samples))
        score_dataset(dataset, scorer, workers=workers, batch_size=BATCH).write_parquet(
            str(out)
        )

    return work


def on_spark(
    samples: Path, out: Path, workers: int, scorer: Scorer
) -> Callable[[], None]:
    """Spark in local mode with so many cores."""
    from pyspark.sql import SparkSession

    from ragmetrics_core.scale import score_frame

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{workers}]").config(
        "spark.ui.enabled", "false"
    )
    builder = builder.config("spark.driver.host", "127.0.0.1").config(
        "spark.driver.memory", "2g"
    )
    session = builder.config(
        "spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH)
    ).getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def work() -> None:
        score_frame(session.read.parquet(str(samples)), scorer).write.parquet(str(out))

    return work


def on_daft(
    samples: Path, out: Path, workers: int, scorer: Scorer
) -> Callable[[], None]:
    """The recipe of the page on scale."""
    del workers
    os.environ["DO_NOT_TRACK"] = "1"
    page = (Path(__file__).parents[1] / "docs" / "scale.md").read_text("utf-8")
    recipe = page.partition("```python daft\n")[2].partition("```")[0]
    recipe = recipe.replace('"samples/"', repr(str(samples))).replace(
        '"scored/"', repr(str(out))
    )
    lines = [
        line
        for line in recipe.splitlines(keepends=True)
        if not line.startswith("scorer = ")
    ]
    return lambda: exec("".join(lines), {"scorer": scorer})


ENGINES = {"plain": plain, "ray": on_ray, "spark": on_spark, "daft": on_daft}
MODULES = {"ray": "ray", "spark": "pyspark", "daft": "daft"}


def installed(name: str) -> bool:
    """Whether an engine is."""
    return name == "plain" or importlib.util.find_spec(MODULES[name]) is not None


def engine(name: str, samples: Path, out: Path, workers: int, judged: str) -> None:
    """One measurement, in this process."""
    work = ENGINES[name](samples, out, workers, scorer_of(judged))
    started, cpu = time.perf_counter(), time.process_time()
    work()
    print(
        json.dumps(
            {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}
        )
    )


def called(*arguments: str) -> dict[str, Any]:
    """What a measurement in a process of its own says in its last line."""
    command = [sys.executable, "-W", "ignore", __file__, *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(said.splitlines()[-1]))


def engines(count: int, folder: Path) -> None:
    """The table of engines."""
    samples = written(folder / "samples", count)
    print(
        f"\n{count:,} samples, embedded judge, utilization; MEASURED, engines started"
        " before the clock\n"
    )
    print(
        "| engine | workers | rows/s | per row of a worker | added to each row | of the"
        " plain function |"
    )
    print("|---|---|---|---|---|---|")
    alone = 0.0
    for name, workers in (
        ("plain", 1),
        ("ray", 1),
        ("ray", 2),
        ("spark", 1),
        ("spark", 2),
    ):
        if not installed(name):
            print(f"| {name} | {workers} | not installed | | | |")
            continue
        out = folder / f"{name}-{workers}"
        seconds = called(
            "--engine", name, str(samples), str(out), str(workers), "utilization"
        )["seconds"]
        assert len(Report.from_parquet(out).results) == count
        each = seconds * workers / count * 1e6
        alone = alone or each
        print(
            f"| {name} | {workers} | {count / seconds:,.0f} | {each:,.0f} µs |"
            f" {each - alone:+,.0f} µs | {alone / each:.2f} |",
            flush=True,
        )


def alone(count: int, folder: Path) -> None:
    """What a sample costs of a processor, in the plain function."""
    samples = written(folder / "few-samples", count)
    print()
    with LoopbackServer(plausible_reply) as server:
        for judge, judged in (
            ("embedded judge", "all"),
            ("model on this machine", server.base_url),
        ):
            cpu = called(
                "--engine",
                "plain",
                str(samples),
                str(folder / f"few {judge}"),
                "1",
                judged,
            )["cpu"]
            calls = len(server.requests) / count
            print(
                f"{judge}, 4 metrics, {calls:.0f} calls: {cpu / count * 1e3:.1f} ms of"
                " a processor, MEASURED"
            )


def rows(out: Path, *, costs: bool) -> list[dict[str, Any]]:
    """All that an engine wrote, in the order of the numbers.

    Of equal questions in flight only the first costs.
    """
    found = sorted(
        dataset.dataset(out).to_table().to_pylist(), key=lambda row: row["number"]
    )
    for row in found:
        for cell in row.values():
            if isinstance(cell, dict) and "result" in cell:
                cell["result"] = json.loads(cell["result"])
                if not costs:
                    del cell["result"]["usage"]
    return found


def equal(most: int, folder: Path) -> int:
    """The table of engines that give what the plain function gives; how many do not."""
    print(
        "\nequal to the plain function, row by row; MEASURED\n\n| judge | samples |"
        " engine | rows that differ |"
    )
    print("|---|---|---|---|")
    wrong = 0
    with LoopbackServer(plausible_reply) as server:
        for judge, judged, count in (
            ("embedded", "all", most),
            ("model", server.base_url, most // 10),
        ):
            samples = written(folder / f"{judge}-samples", count)
            wanted: list[dict[str, Any]] = []
            for name in ENGINES:
                if not installed(name):
                    print(f"| {judge} | {count:,} | {name} | not installed |")
                    continue
                out = folder / f"{judge}-{name}"
                called("--engine", name, str(samples), str(out), "2", judged)
                found = rows(out, costs=judge == "embedded")
                wanted = wanted or found
                differ = abs(len(found) - count) + sum(
                    one != other for one, other in zip(found, wanted, strict=False)
                )
                wrong += differ
                if name != "plain":
                    print(f"| {judge} | {count:,} | {name} | {differ} |", flush=True)
    return wrong


def parsed() -> Iterator[argparse.Namespace]:
    """The options, with a folder that is removed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("equal", "engines"))
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--engine", nargs=5, help=argparse.SUPPRESS)
    folder = Path(tempfile.mkdtemp())
    try:
        yield argparse.Namespace(**vars(parser.parse_args()), folder=folder)
    finally:
        shutil.rmtree(folder)


def main() -> int:
    """All that is asked for; 1 if rows differ."""
    wrong = 0
    for options in parsed():
        if options.engine:
            name, samples, out, workers, judged = options.engine
            engine(name, Path(samples), Path(out), int(workers), judged)
        else:
            if options.only in (None, "equal"):
                wrong = equal(options.samples // 5, options.folder)
            if options.only in (None, "engines"):
                engines(options.samples, options.folder)
                alone(options.samples // 50, options.folder)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
