"""What docs/measured.md says of requests and tokens is what the command prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRINTED = re.compile(
    r"^cost: (?P<name>.+): (?P<requests>\d+) (?:calls|requests),"
    r" (?P<tokens>\d+) prompt tokens",
    re.MULTILINE,
)


def test_the_costs_of_a_sample_are_those_that_the_command_prints() -> None:
    printed = subprocess.run(  # our own interpreter, a fixed program
        [sys.executable, str(ROOT / "benchmarks" / "cost.py")],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    cost_by_name = {
        found["name"]: f"{found['requests']}, {int(found['tokens']):,}"
        for found in PRINTED.finditer(printed)
    }
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    table = page.partition("| cost | requests, prompt tokens | before |")[2]
    rows = [line.split(" | ") for line in table.partition("\n\n")[0].splitlines()[2:]]
    assert len(rows) >= 10
    for name, cost, _ in rows:
        assert cost_by_name[name.removeprefix("| ")] == cost
