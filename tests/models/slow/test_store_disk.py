"""Runs on a real full disk and in a real read-only folder, in processes of their own: a warning each, and results."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="limits and users of POSIX"
)

NOBODY = 77
RUN = (
    f"NOBODY = {NOBODY}"
    + """
import gc, os, resource, sys
from ragmetrics_core import ContextUtilization, LLMJudge, evaluate
from ragmetrics_core.models.chat import Capabilities, ChatModel, ChatReply, Choice
from ragmetrics_core.data import Usage

class Long(ChatModel):
    name = cache_key = "toy"
    def capabilities(self):
        return Capabilities(logprobs=False)
    async def complete(self, request):
        return ChatReply((Choice('{"useful": 1, "reason": "%s"}' % ("x" * 3000)),), Usage(calls=1))

def run(store, n_rows=100):
    rows = [{"question": f"q {number}", "contexts": ["c"], "answer": "a"} for number in range(n_rows)]
    report = evaluate(rows, [ContextUtilization()], judge=LLMJudge(Long()), store=store, progress=False)
    print(report.summary().judged, report.usage.calls, report.usage.stored)

"""
)


@dataclass
class Ended:
    """How a process ended: judged samples, calls and stored replies of each run, and the lines of its warnings."""

    runs: list[tuple[int, ...]]
    warnings: list[str]


def ended(code: str, *arguments: str) -> Ended:
    command = [sys.executable, "-c", RUN + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if done.returncode == NOBODY:
        pytest.skip("root cannot become another user here")
    assert done.returncode == 0, done.stderr
    return Ended(
        [tuple(map(int, line.split())) for line in done.stdout.splitlines()],
        done.stderr.splitlines(),
    )


PLAIN = "run(sys.argv[1])"
FULL_DISK = """
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, most))
run(sys.argv[1])
"""


@pytest.mark.nightly
def test_a_full_disk_costs_a_warning_and_no_result(tmp_path):
    path = tmp_path / "s.sqlite"
    first = ended(FULL_DISK, str(path))
    assert first.runs == [(100, 100, 0)]
    (warning,) = first.warnings
    assert "new replies are kept in memory only" in warning
    assert "cannot be used (SQLITE_" in warning
    later = ended(PLAIN, str(path))
    ((judged, calls, stored),) = later.runs
    assert (judged, calls + stored, later.warnings) == (100, 100, [])
    assert stored > 0  # what came before the disk was full
    assert ended(PLAIN, str(path)).runs == [(100, 0, 100)]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        for made in (path, *path.iterdir()):
            made.chmod(0o755)


# Root may write everywhere: it becomes somebody else, once all is imported.
READ_ONLY = """
run(sys.argv[2])
if os.geteuid() == 0:
    try:
        os.setuid(65534)
    except OSError:
        sys.exit(NOBODY)
run(sys.argv[1])
"""


@pytest.mark.nightly
def test_a_read_only_folder_costs_a_warning_and_no_result(place):
    folder = place / "sealed"
    folder.mkdir()
    folder.chmod(0o555)
    found = ended(READ_ONLY, str(folder / "s.sqlite"), str(place / "other.sqlite"))
    assert found.runs == [(100, 100, 0)] * 2
    (warning,) = found.warnings
    assert "cannot be used (Permission denied)" in warning
    assert list(folder.iterdir()) == []


SEALED = """
store = sys.argv[1] + "/s.sqlite"
run(store)
gc.collect()  # closes the store, and so its journal ends
os.chmod(store, 0o444)
os.chmod(sys.argv[1], 0o555)
if os.geteuid() == 0:
    try:
        os.setuid(65534)
    except OSError:
        sys.exit(NOBODY)
run(store)
run(store, 110)
"""


@pytest.mark.nightly
def test_a_read_only_store_is_read(place):
    (place / "sealed").mkdir()
    found = ended(SEALED, str(place / "sealed"))
    assert found.runs == [(100, 100, 0), (100, 0, 100), (110, 10, 100)]
    (warning,) = found.warnings
    assert "new replies are kept in memory only" in warning
    assert [file.name for file in (place / "sealed").iterdir()] == ["s.sqlite"]


SOMEBODYS = """
import os, sys
from ragmetrics_core.cli.main import main
main(["store", "--store", sys.argv[1]])  # now all is imported
os.chmod(sys.argv[1], 0 if os.geteuid() else 0o600)
if os.geteuid() == 0:
    os.setuid(65534)
sys.exit(main(["store", "--store", sys.argv[1]]))
"""


def test_a_store_of_somebody_else_is_not_called_damaged(place):
    path = place / "s.sqlite"
    ended(PLAIN, str(path))
    asked = subprocess.run(
        [sys.executable, "-c", SOMEBODYS, str(path)],
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 2
    assert "cannot be read: Permission denied" in asked.stderr
