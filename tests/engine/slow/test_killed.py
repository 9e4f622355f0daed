"""A run that is killed at random instants repeats no call that was answered, and ends with the same results."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "killed.py"


@pytest.mark.nightly
def test_a_killed_run_goes_on_where_it_ended():
    arguments = [
        "--samples",
        "60",
        "--contexts",
        "4",
        "--kills",
        "2",
        "--latency",
        "0.01",
    ]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "killed 2 times" in done.stdout
    assert "results identical" in done.stdout
