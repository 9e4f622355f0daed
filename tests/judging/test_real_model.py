"""The benchmark of a real model counts at its proxies, goes on where it ended, and compares the same rows."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from plausible import plausible_reply

from ragmetrics_core.testing import LoopbackServer

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def real_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    if not FOLDER.is_dir():
        pytest.skip("a checkout without its benchmarks")
    monkeypatch.syspath_prepend(str(FOLDER))
    import real_model

    return real_model


def labelled(folder: Path) -> Path:
    """Eight answers of two sources, and four rows of five chunks."""
    answers = [
        {
            "id": f"a{number}",
            "question": f"Who lit lamp {number}?",
            "contexts": [{"text": f"Anna lit lamp {number}."}],
            "answer": f"Anna lit lamp {number}." if number % 4 < 2 else "Nobody did.",
            "labels": {"adherent": int(number % 4 < 2)},
            "source": f"source {number % 2}",
        }
        for number in range(8)
    ]
    chunks = [
        {
            **answers[number],
            "id": f"c{number}",
            "contexts": [{"text": f"Lamp {number}, {place}."} for place in range(5)],
            "labels": {"relevant": [0, 0, 0, 1, 1]},
        }
        for number in range(4)
    ]
    for name, rows in (("adherence", answers), ("relevance", chunks)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.dev.jsonl").write_text(text)
    return folder


def options(server: LoopbackServer, **more: Any) -> argparse.Namespace:
    usual = {
        "address": server.base_url,
        "model": "m",
        "rows": 3,
        "seed": 0,
        "half": None,
        "longest": 1000,
        "parts": 3,
        "tools": ("lexical", "probability", "ours"),
        "tasks": ("adherence", "useful"),
    }
    return argparse.Namespace(**{**usual, **more})


def test_each_tool_judges_the_same_rows_once_and_its_traffic_is_counted(
    real_model, tmp_path
):
    file = tmp_path / "judged.jsonl"
    with LoopbackServer(plausible_reply) as server:
        for n_rows in (2, 3):
            chosen = options(server, rows=n_rows)
            rows = real_model.drawn(labelled(tmp_path), chosen)
            real_model.judge_all(rows, chosen, file)
        judged = real_model.read(file)
        n_requests = len(server.requests)
    by_tool: dict[str, list[Any]] = {}
    for each in judged:
        by_tool.setdefault(each.tool, []).append((each.task, each.id))
    assert by_tool["lexical"] == by_tool["ours"]
    assert len(by_tool["ours"]) == 6
    assert len(by_tool["probability"]) == 3
    assert sum(each.calls for each in judged) == n_requests > 0
    assert not any(each.calls for each in judged if each.tool == "lexical")
    spent = [each for each in judged if each.tool == "ours"]
    assert all(each.prompt_tokens and not each.error for each in spent)
    # sources take turns, and a row keeps labels of both kinds
    assert [row.source for row in rows["adherence"]] == [
        "source 0",
        "source 1",
        "source 0",
    ]
    assert {row.labels for row in rows["useful"]} == {(False, True, True)}


def test_the_tables_compare_rows_that_all_tools_judged(real_model):
    def judged(tool: str, row: str, score: float, label: bool, **more: Any) -> Any:
        scores = [] if more else [(score, score > 0.5, label)]
        return real_model.Judged("adherence", row, "s", tool, scores, **more)

    lines = [
        judged(tool, f"r{number}", score, number % 2 == 0)
        for tool, scores in (
            ("ours", (0.9, 0.1, 0.8, 0.2, 0.9)),
            ("ragas", (0.5, 0.5, 0.5, 0.5)),  # the last row was not reached
        )
        for number, score in enumerate(scores)
    ]
    text = real_model.tables(lines)
    assert "adherence: 4 rows that all tools judged" in text
    assert "| ours | 1.00 | 1.00 | 4 of 4 |" in text
    assert "| ragas | 0.50 | 0.50 | 4 of 4 |" in text
    assert "ours − ragas, 4 rows: 0.50" in text
    lines[-1] = judged("ragas", "r3", 0, False, error="no JSON")
    assert "| ragas | 0.50 | 0.50 | 3 of 4 |" in real_model.tables(lines)
