"""The law: of one run an adapter and the reader of its spans make the same sample, wherever the spans hold the data."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
LESS = {  # what samples_from is given tells another story than what happened
    # the application changed what a tracer's run holds, after it was traced
    "shape edited_in_place",
    "shape response mode generation",  # a response lists nodes that no prompt shows
}
# shapes that leave one run or response for samples_from
FEWEST = {"langchain": 40, "llamaindex": 3, "haystack": 0}
# the share that is right; what OpenInference writes as Python does is not read, and
# LlamaIndex and Haystack have no rules of their own
LEAST = {"langchain": 0.89, "llamaindex": 0.4, "haystack": 0.45}


@pytest.mark.nightly
@pytest.mark.parametrize("framework", ["langchain", "llamaindex", "haystack"])
def test_the_reader_makes_the_samples_of_the_adapter(framework, tmp_path, monkeypatch):
    """All shapes of the adapter's tests, each run once, under capture and the instrumentation of OpenInference.

    Where a sample is another one it says so, and its spans lack a text or its kind of
    shape is named in docs/traces.md.
    """
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    table = importlib.import_module("traces")
    found: Counter[str] = Counter()
    silent, unlike = [], []
    for name, one in table.recorded(f"openinference:{framework}", tmp_path).items():
        if one["options"] or name in table.ABOUT_CAPTURING:
            continue
        text = (tmp_path / f"{name}.json").read_text(encoding="utf-8")
        ours = table.read(text, None, shuffle=False) if text.strip() else []
        verdict = table.verdict(ours, list(map(table.held, one["samples"])))
        missing = verdict in ("said", "silent") and table.absent(
            f"openinference:{framework}", text, one["samples"]
        )
        found[verdict if not missing else "absent"] += 1
        silent += [name] if verdict == "silent" else []
        if (
            verdict in ("right", "hedged")
            and one["from_run"] is not None
            and name not in LESS
        ):
            found["from run"] += 1
            unlike += [] if alike(table, ours, one["from_run"]) else [name]
    assert silent == []
    assert unlike == []
    assert found["from run"] >= FEWEST[framework]
    n_right = found["right"] + found["hedged"]
    assert n_right >= LEAST[framework] * (n_right + found["said"])


def alike(table: Any, ours: list[Any], theirs: list[Any]) -> bool:
    """Whether samples are the same.

    A response of LlamaIndex holds no question, and nothing of what was left out.
    """
    nothing: dict[str, Any] = {"question": None, "retrieved": []}
    lacks = {
        name: value
        for name, value in nothing.items()
        if any(one[name] is None for one in theirs)
    }
    held = [{**table.held(one), **lacks} for one in theirs]
    verdict = table.verdict([{**one, **lacks} for one in ours], held)
    return verdict in ("right", "hedged")
