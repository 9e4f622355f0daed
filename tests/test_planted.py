"""The stage of a fault is right or unknown, never wrong: on rows whose faults are known."""

from __future__ import annotations

import json
from collections import Counter

from planted import ROWS, RightJudge, planted_rows, sample_of

from ragmetrics_core import evaluate


def test_the_frozen_rows_are_those_that_the_module_makes() -> None:
    lines = ROWS.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == planted_rows()


def test_every_stage_is_right_or_unknown() -> None:
    rows = planted_rows()
    report = evaluate(
        [sample_of(row) for row in rows], judge=RightJudge().judge(), progress=False
    )
    counts: Counter[tuple[str, bool]] = Counter()
    wrong = []
    for row, diagnosis in zip(rows, report.faults, strict=True):
        has_reference = row["reference"] is not None
        if diagnosis.stage == row["stage"]:
            counts["right", has_reference] += 1
        elif diagnosis.stage is None:
            counts["unknown", has_reference] += 1
        else:
            wrong.append((row["id"], row["fault"], diagnosis))
    assert not wrong
    assert counts["unknown", True] <= 0.1 * counts["right", True]
    assert counts["right", False] > counts["unknown", False]
