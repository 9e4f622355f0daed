"""A folder of stores: every process writes a file of its own and reads the others'."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from loopback import LoopbackServer

from ragmetrics_core import LLMJudge, OpenAICompatibleModel, evaluate
from ragmetrics_core.models.chat import Choice
from ragmetrics_core.models.reply_store import FolderStore, SqliteStore, resolve_store

KEY, OTHER = "ab" * 32, "cd" * 32
PUT = """
import os, sys
from ragmetrics_core.models.chat import Choice
from ragmetrics_core.models.reply_store import resolve_store
store = resolve_store(sys.argv[1])
for number in range(300):
    store.put({f"{number + 300 * int(sys.argv[2]):064x}": Choice(sys.argv[2])})
store.flush()
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return f"{tmp_path}/replies/"


def ended(code: str, *arguments: object) -> list[tuple[int, str]]:
    """How processes ended that ran at the same time, one per number, and what they complained of."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    started = [
        subprocess.Popen(
            [*command, str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    said = [process.communicate(timeout=100)[1] for process in started]
    return [
        (process.returncode, text) for process, text in zip(started, said, strict=True)
    ]


def test_a_path_that_ends_with_a_slash_is_a_folder(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repr(resolve_store(folder)) == f"FolderStore({folder[:-1]!r})"
    assert isinstance(resolve_store(folder + "file"), SqliteStore)
    monkeypatch.setenv("RAGMETRICS_STORE", folder)
    assert isinstance(resolve_store(None), FolderStore)


def test_processes_write_files_of_their_own_and_find_what_others_wrote(
    folder: str,
) -> None:
    assert ended(PUT, folder) == [(0, "")] * 3
    assert len(list(Path(folder).glob("*.sqlite"))) == 3
    store = FolderStore(folder)
    assert all(
        store.get(f"{number:064x}") == Choice(str(number // 300))
        for number in range(900)
    )
    assert store.get(KEY) is None


def test_what_a_killed_process_kept_is_found(folder: str) -> None:
    killed = ended(PUT + "os.kill(os.getpid(), 9)", folder)
    assert killed == [(-9, "")] * 3
    store = FolderStore(folder)
    assert all(store.get(f"{number:064x}") for number in range(900))
    # no journal that other machines cannot read
    assert {path.suffix for path in Path(folder).iterdir()} == {".sqlite"}


def test_files_that_come_later_are_looked_for_again(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    store, other = FolderStore(folder), FolderStore(folder)
    assert store.get(KEY) is None
    other.put({KEY: Choice("x")})
    other.flush()
    now += 5
    assert store.get(KEY) == Choice("x")


def test_a_forked_process_writes_a_file_of_its_own(folder: str) -> None:
    code = f"""
import warnings
warnings.simplefilter("ignore")
store.put({{"{KEY}": Choice("parent")}})
store.flush()
if not (child := os.fork()):
    assert store.get("{KEY}") == Choice("parent")
    store.put({{"{OTHER}": Choice("child")}})
    store.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    assert ended(PUT + code, folder) == [(0, "")] * 3
    assert len(list(Path(folder).glob("*.sqlite"))) == 6


def test_a_reply_of_another_process_that_cannot_be_used_is_asked_for_again(
    folder: str,
) -> None:
    writer = FolderStore(folder)
    writer.put({KEY: Choice("useless"), OTHER: Choice("useful")})
    writer.flush()
    run = FolderStore(folder)
    assert run.get(KEY) == Choice("useless")
    run.reject(KEY)
    assert run.get(KEY) is None
    run.flush()
    later = FolderStore(folder)
    assert (later.get(KEY), later.get(OTHER)) == (None, Choice("useful"))
    later.put({KEY: Choice("mended")})
    later.flush()
    assert FolderStore(folder).get(KEY) == Choice("mended")


def test_a_run_that_another_process_made_costs_nothing_again(
    folder: str, loopback_server: Callable[..., LoopbackServer]
) -> None:
    server = loopback_server()
    rows = [
        {"question": f"q{n}?", "contexts": [f"c{n}", "other"], "answer": f"a{n}"}
        for n in range(5)
    ]

    def run() -> list[float | None]:
        judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
        return evaluate(rows, ["utilization"], judge=judge, store=folder).scores(
            "context_utilization"
        )

    first, calls = run(), len(server.requests)
    assert run() == first
    assert len(server.requests) == calls > 0


@pytest.mark.parametrize("foreign", ["database", "text", "folder", "loop"])
def test_a_foreign_file_in_the_folder_is_passed_over_and_said(
    foreign: str, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = Path(folder) / "other.sqlite"
    place.parent.mkdir()
    if foreign == "database":
        with closing(sqlite3.connect(place)) as connection:
            connection.execute("CREATE TABLE t (x)")
            connection.commit()
    elif foreign == "text":
        place.write_text("a note")
    elif foreign == "folder":
        place.mkdir()
    else:
        place.symlink_to(place)
    store = FolderStore(folder)
    store.put({KEY: Choice("a reply")})
    store.flush()
    assert store.get(KEY) is not None
    assert store.get(OTHER) is None
    assert [
        record.message
        for record in caplog.records
        if "other.sqlite is passed over" in record.message
    ]
