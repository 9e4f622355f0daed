"""Of rows whose fault is known: how often the diagnosis names the right stage.

    uv run benchmarks/planted_faults.py

The rows are those of ``tests/reporting/golden/planted_rows.json``,
judged by a judge that is always right and by the embedded one. It prints the table of
``docs/measured.md``.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from planted import RightJudge, planted_rows, sample_of

from ragmetrics_core import evaluate
from ragmetrics_core.judging.judge import Judge


def counts_of(judge: Judge | str, *, has_reference: bool) -> Counter[str]:
    """How many rows get the right stage, no stage, and a wrong one."""
    rows = [
        row for row in planted_rows() if (row["reference"] is not None) == has_reference
    ]
    report = evaluate(map(sample_of, rows), judge=judge, progress=False)
    counts = Counter[str]()
    for row, diagnosis in zip(rows, report.faults, strict=True):
        if diagnosis.stage == row["stage"]:
            counts["right"] += 1
        elif diagnosis.stage is None:
            counts["unknown"] += 1
        else:
            counts["wrong"] += 1
    return counts


def table() -> str:
    """The table in Markdown."""
    lines = [
        "| rows with a known fault | stage right | unknown | wrong |",
        "|---|---|---|---|",
    ]
    judges: dict[str, Judge | str] = {
        "a judge that is always right": RightJudge().judge(),
        "the embedded judge": "lexical",
    }
    for name, judge in judges.items():
        for has_reference in (True, False):
            counts = counts_of(judge, has_reference=has_reference)
            which = "with a reference" if has_reference else "without"
            lines.append(
                f"| {name}, {counts.total()} rows {which} | {counts['right']} |"
                f" {counts['unknown']} | {counts['wrong']} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
