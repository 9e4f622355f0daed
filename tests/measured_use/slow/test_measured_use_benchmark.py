"""The benchmark of measured use answers each row once, sets effects against labels, and goes on where it ended."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from plausible import plausible_reply

from ragmetrics_core.testing import LoopbackServer

FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    if not FOLDER.is_dir():
        pytest.skip("a checkout without its benchmarks")
    monkeypatch.syspath_prepend(str(FOLDER))
    import importlib

    return importlib.import_module("measured_use")


def reads_lamps(body: dict[str, Any]) -> str:
    """A model that reads what is said of lamps, and judges plausibly."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if "from these passages alone" not in text:
        return plausible_reply(body)
    return "Anna did." if "Anna lit lamp" in text else "Nothing tells."


@pytest.mark.nightly
def test_effects_are_set_against_labels_and_rows_are_measured_once(benchmark, tmp_path):
    rows = [
        {
            "id": f"c{number}",
            "question": f"Who lit lamp {number}?",
            "contexts": [
                {"text": f"Bread number {number} is baked."},
                {"text": f"Anna lit lamp {number} at dusk."},
                {"text": f"Roof number {number} is red."},
            ],
            "answer": "Anna did.",
            "labels": {"relevant": [0, 1, 0]},
            "source": f"source {number % 2}",
        }
        for number in range(4)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "relevance.dev.jsonl").write_text(lines)
    file = tmp_path / "judged.jsonl"
    with LoopbackServer(reads_lamps) as server:
        options = argparse.Namespace(
            address=server.base_url,
            model="m",
            repeats=3,
            longest_answer=20,
            rows=4,
            seed=0,
            half=None,
            longest=1000,
            parts=3,
            tasks=("useful",),
        )
        drawn = benchmark.real_model.drawn(tmp_path, options)["useful"]
        benchmark.measure_all(drawn[:2], options, file)
        n_requests = len(server.requests)
        # answered once, asked thrice without a passage, once without all, thrice again,
        # once more without the one that is used, once without both that are not
        assert n_requests == 2 * (1 + 3 + 1 + 3 + 1 + 1)
        benchmark.measure_all(drawn, options, file)
        assert len(server.requests) == 2 * n_requests
    judged = benchmark.real_model.read(file)
    assert [each.id for each in judged] == [row.sample.id for row in drawn]
    for each in judged:
        assert each.error == ""
        assert each.scores == [
            [0.0, False, False],
            [1.0, True, True],
            [0.0, False, False],
        ]
        assert each.calls == n_requests / 2
    table = benchmark.table(judged)
    assert "| measured | 1.00" in table
    verdicts = benchmark.verdicts(tmp_path / "use.jsonl").splitlines()
    assert verdicts == [
        "not used: 0 of 4 relevant contexts, 8 of 8 others",
        "used: 4 of 4 relevant contexts, 0 of 8 others",
    ]
    uses = (tmp_path / "use.jsonl").read_text().splitlines()
    assert len(uses) == 4
