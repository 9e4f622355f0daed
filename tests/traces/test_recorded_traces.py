"""Spans that real instrumentations wrote of the shapes of the adapters' tests, read back.

The files hold for each shape the spans, what the adapter made of the same run, and
whether the reader found the same ("right"), found it and doubted it ("hedged"), or told
that it found other ("said"). ``benchmarks/traces.py --keep`` writes them.
"""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trace_verdicts import Told, held, verdict

from ragmetrics_core.traces import samples_from_spans

FILES = sorted(Path(__file__).with_name("golden").glob("*.jsonl.gz"))
# the share of shapes that are right and sure, of those that once were
LEAST_SURE = 0.85


def verdicts(path: Path) -> dict[str, tuple[str, str]]:
    """The verdict once recorded of each shape, and the one of today.

    The spans come in any order.
    """
    found = {}
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        shape: Told = json.loads(line)
        values = list(shape["spans"])
        random.Random(7).shuffle(values)
        samples = samples_from_spans(values)
        ours = [held(one.model_dump(mode="json")) for one in samples]
        found[shape["name"]] = (shape["verdict"], verdict(ours, shape["samples"]))
    return found


def runs() -> Iterator[Any]:
    """By day the smallest file of each tracer, the others by night."""
    known: set[str] = set()
    for path in sorted(FILES, key=lambda path: path.stat().st_size):
        name = path.name.partition(".")[0]
        tracer = name.partition("_")[0]
        marks = pytest.mark.nightly if tracer in known else ()
        known.add(tracer)
        yield pytest.param(path, marks=marks, id=name)


@pytest.mark.nightly
@pytest.mark.parametrize("path", list(runs()))
def test_a_recorded_run_is_right_hedged_or_told(path):
    found = verdicts(path)
    assert len(found) > 10
    assert {name for name, (_, now) in found.items() if now == "silent"} == set()
    worse: Any = {
        name: pair
        for name, pair in found.items()
        if pair[0] in ("right", "hedged") and pair[1] == "said"
    }
    assert worse == {}
    once_sure = [now for before, now in found.values() if before == "right"]
    assert once_sure.count("right") >= LEAST_SURE * len(once_sure)
