"""What the pages say of requests, tokens and dollars is what the command prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRINTED = re.compile(
    r"^cost: (?P<name>.+): (?P<requests>\d+) (?:calls|requests),"
    r" (?P<tokens>\d+) prompt tokens",
    re.MULTILINE,
)
DAY = re.compile(
    r"^day: (?P<samples>.+) samples, (?P<metrics>.+): (?P<calls>\S+) calls per second,"
    r" (?P<api>\S+) an API, (?P<batches>\S+) its batches, (?P<own>\S+) a model",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def printed() -> str:
    """What the command prints, in a process of its own."""
    return subprocess.run(  # our own interpreter, a fixed program
        [sys.executable, str(ROOT / "benchmarks" / "cost.py")],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout


def test_the_days_of_the_page_on_scale_are_those_that_the_command_prints(
    printed: str,
) -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    rows = [f"| {' | '.join(found.groups())} |" for found in DAY.finditer(printed)]
    assert len(rows) == 4
    assert [row for row in rows if row not in page] == []


def test_the_costs_of_a_sample_are_those_that_the_command_prints(printed: str) -> None:
    cost_by_name = {
        found["name"]: f"{found['requests']}, {int(found['tokens']):,}"
        for found in PRINTED.finditer(printed)
    }
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    table = page.partition("| cost | requests, prompt tokens |")[2]
    rows = [line.split(" | ") for line in table.partition("\n\n")[0].splitlines()[2:]]
    assert len(rows) >= 10
    for name, cost in rows:
        assert cost_by_name[name.removeprefix("| ")] == cost.removesuffix(" |")
