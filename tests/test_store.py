"""The store in a file: what it keeps, what it survives, who may use it at the same time."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from said import of

from ragmetrics_core import ContextUtilization, RetrievalAccuracy, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.endpoints import sqlite_store, store_care, store_file, store_writer
from ragmetrics_core.endpoints.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Message,
    Origin,
    TokenAlternatives,
)
from ragmetrics_core.endpoints.limited import Limited
from ragmetrics_core.endpoints.sqlite_store import SqliteStore
from ragmetrics_core.endpoints.store import FreshStore, MemoryStore, ReplyStore
from ragmetrics_core.endpoints.store_place import default_path, resolve_store
from ragmetrics_core.endpoints.stored import Stored
from ragmetrics_core.judging.llm import LLMJudge

KEY, OTHER = "ab" * 32, "cd" * 32
USAGE = Usage(calls=1, prompt_tokens=90, completion_tokens=10, cost=0.5)
FULL = Choice(
    'text "quoted" \u2028 \N{GRINNING FACE}',
    "length",
    (TokenAlternatives("1", -0.25, (("1", -0.25), (" 0", -1.5))),),
    Origin("gpt", 5),
)


class Counting(ChatModel):
    """A model that counts its calls."""

    name = "toy"
    calls = 0

    def capabilities(self) -> Capabilities:
        return Capabilities()

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        return ChatReply((Choice('{"facts": ["a"]}'),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "replies.sqlite"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[[], SqliteStore]]:
    """Stores of one file, closed at the end."""
    stores: list[SqliteStore] = []

    def start() -> SqliteStore:
        stores.append(SqliteStore(path))
        return stores[-1]

    yield start
    for store in stores:
        store.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def rows(path: Path, table: str = "replies") -> int:
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    connection.close()
    return int(count)


# What it keeps


def test_a_reply_comes_back_as_it_was(opened: Callable[[], SqliteStore]) -> None:
    store = opened()
    store.put({KEY: FULL}, USAGE)
    assert store.get(KEY) == FULL  # before it is committed, or after
    store.flush()
    assert opened().get(KEY) == store.get(KEY) == FULL
    assert store.get(OTHER) is None


def test_a_rejected_reply_is_kept_for_inspection_only(opened: Callable[[], SqliteStore], path: Path) -> None:
    store = opened()
    store.put({KEY: FULL}, USAGE)
    store.reject(KEY)
    assert store.get(KEY) is None
    store.flush()
    assert store.get(KEY) is None
    assert opened().get(KEY) is None
    assert (rows(path), rows(path, "rejected")) == (0, 1)
    store.put({KEY: Choice("better")}, USAGE)
    store.flush()
    assert opened().get(KEY) == Choice("better")


def test_a_new_folder_and_file_are_for_the_owner_alone_and_named(
    opened: Callable[[], SqliteStore], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="ragmetrics_core"):
        opened().get(KEY)
        opened().get(KEY)
    assert [str(path) in record.getMessage() for record in caplog.records] == [True]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_nothing_is_made_before_it_is_used(path: Path) -> None:
    evaluate([{"question": "q", "contexts": ["c"], "answer": "c"}], judge="lexical", store=path)
    assert not path.parent.exists()


def test_settled_waits_for_the_commit(opened: Callable[[], SqliteStore], path: Path) -> None:
    async def run() -> list[int]:
        store = opened()
        counts = []
        for number in range(5):
            store.put({f"{number:064x}": Choice("x")}, USAGE)
            await store.settled()
            counts.append(rows(path))
        return counts

    assert asyncio.run(run()) == [1, 2, 3, 4, 5]


def test_a_commit_waits_for_no_disk_and_shuts_no_reader_out(path: Path) -> None:
    connection = store_file.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (1,)  # NORMAL
    connection.close()


def test_what_waits_while_a_commit_goes_on_is_committed_together(
    opened: Callable[[], SqliteStore], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    started, go_on = threading.Event(), threading.Event()
    connect = store_file.connect

    def saw(statement: str) -> None:
        if statement.startswith("BEGIN"):
            begun.append(threading.get_ident())
            started.set()
            go_on.wait(20)

    def traced(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_trace_callback(saw)
        return connection

    monkeypatch.setattr(store_file, "connect", traced)
    store = opened()
    store.put({KEY: FULL}, USAGE)
    assert started.wait(20)
    for number in range(500):
        store.put({f"{number:064x}": Choice("x")}, USAGE)
    go_on.set()
    store.flush()
    assert rows(path) == 501
    assert len(begun) == 2
    assert len({*begun, threading.get_ident()}) == 2  # one thread, which is not this one


class Slow(MemoryStore):
    """A store that says how many replies would be lost if the process were killed now."""

    at_risk = 0

    def put(self, choices: Mapping[str, Choice], usage: Usage) -> None:
        self.at_risk += 1
        super().put(choices, usage)

    async def settled(self) -> None:
        await asyncio.sleep(0.001)
        self.at_risk = 0


class Watching(Counting):
    """A model that notes how much of a store is at risk when it is called."""

    def __init__(self, store: Slow) -> None:
        self.seen: list[int] = []
        self._store = store

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.seen.append(self._store.at_risk)
        await asyncio.sleep(0)
        await super().complete(request)
        return ChatReply((Choice('{"useful": 1, "reason": "r"}'),))


def test_a_call_leaves_only_when_earlier_replies_are_kept() -> None:
    """What a killed process loses is then no more than the calls in flight."""
    store = Slow()
    model = Watching(store)
    stored = Stored(Limited(model, 1, None, store.settled), store)

    async def run() -> None:
        requests = [ChatRequest((Message("user", str(number)),)) for number in range(5)]
        await asyncio.gather(*map(stored.complete, requests))

    asyncio.run(run())
    assert model.seen == [0] * 5


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_call_of_a_run_leaves_only_when_earlier_replies_are_kept(concurrency: int) -> None:
    rows = [{"question": f"q {number}", "contexts": ["c"], "answer": "a"} for number in range(20)]
    store = Slow()
    model = Watching(store)
    evaluate(rows, [ContextUtilization()], judge=LLMJudge(model), store=store, concurrency=concurrency)
    assert model.seen == [0] * 20


def test_fresh_asks_once_and_keeps_the_new_replies() -> None:
    inner = MemoryStore()
    inner.put({KEY: Choice("old")}, USAGE)
    fresh = FreshStore(inner)
    assert fresh.get(KEY) is None
    fresh.reject(KEY)
    assert inner.get(KEY) == Choice("old")
    fresh.put({KEY: Choice("new")}, USAGE)
    assert fresh.get(KEY) == inner.get(KEY) == Choice("new")
    fresh.reject(KEY)
    assert inner.get(KEY) is None


# What it survives


def test_a_damaged_file_is_moved_aside(
    opened: Callable[[], SqliteStore], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database" * 999)
    store = opened()
    store.put({KEY: FULL}, USAGE)
    store.flush()
    assert opened().get(KEY) == FULL
    (aside,) = path.parent.glob("replies.sqlite.damaged-*")
    assert aside.read_bytes() == b"no database" * 999
    assert len(warnings(caplog)) == 1


def test_damage_found_later_does_not_end_the_run(
    opened: Callable[[], SqliteStore], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = opened()
    first.put({f"{number:064x}": Choice("x" * 3000) for number in range(200)}, USAGE)
    first.close()
    content = bytearray(path.read_bytes())
    content[4096 * 5 :] = os.urandom(len(content) - 4096 * 5)  # the first pages, the schema among them, are whole
    path.write_bytes(content)
    store = opened()
    assert [store.get(f"{number:064x}") for number in range(200)].count(None) > 0
    store.put({KEY: FULL}, USAGE)
    store.flush()
    assert store.get(KEY) == FULL
    assert warnings(caplog)
    assert opened().get(OTHER) is None  # a new file
    assert list(path.parent.glob("replies.sqlite.damaged-*"))


def test_a_full_disk_costs_a_warning(
    opened: Callable[[], SqliteStore], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connect = store_file.connect

    def small(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA max_page_count=12")  # SQLITE_FULL, as from a full disk
        return connection

    monkeypatch.setattr(store_file, "connect", small)
    store = opened()
    for number in range(100):
        store.put({f"{number:064x}": Choice("x" * 3000)}, USAGE)
        store.flush()
    assert all(store.get(f"{number:064x}") for number in range(100))
    (warning,) = warnings(caplog)
    assert "SQLITE_FULL" in warning


def test_a_folder_that_cannot_be_written_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteStore("/proc/ragmetrics/replies.sqlite")
    store.put({KEY: FULL}, USAGE)
    store.flush()
    assert store.get(KEY) == FULL
    assert len(warnings(caplog)) == 1


def test_a_file_that_cannot_be_written_is_still_read(
    opened: Callable[[], SqliteStore],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = opened()
    first.put({KEY: FULL}, USAGE)
    first.close()

    def refused(path: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(store_file, "connect", refused)
    store = opened()
    assert store.get(KEY) == FULL
    store.put({OTHER: FULL}, USAGE)
    assert store.get(OTHER) == FULL
    assert len(warnings(caplog)) == 1


def no_disk(*arguments: object) -> None:
    raise sqlite3.OperationalError("disk I/O error")


def no_sense(*arguments: object) -> None:
    raise ValueError("unforeseen")


def the_end(*arguments: object) -> None:
    raise SystemExit


@pytest.mark.parametrize("commit", [no_disk, no_sense, the_end])
def test_whatever_ends_the_writer_nobody_waits_for_it(
    commit: Callable[..., None],
    opened: Callable[[], SqliteStore],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(store_writer, "_commit", commit)

    async def run(store: SqliteStore) -> None:
        store.put({KEY: Choice("first")}, USAGE)
        await asyncio.wait_for(asyncio.gather(*(store.settled() for _ in range(3))), 20)
        store.put({OTHER: Choice("second")}, USAGE)
        store.put({KEY: Choice("third")}, USAGE)
        await asyncio.wait_for(store.settled(), 20)

    store = opened()
    asyncio.run(run(store))
    store.flush()
    assert (store.get(KEY), store.get(OTHER)) == (Choice("third"), Choice("second"))
    (warning,) = warnings(caplog)
    assert "kept in memory only" in warning


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_who_waits_is_released_although_the_warning_fails(
    opened: Callable[[], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_writer, "_commit", no_disk)
    monkeypatch.setattr(sqlite_store, "_warn", no_sense)
    store = opened()
    store.put({KEY: FULL}, USAGE)
    store.flush()
    assert store.get(KEY) == FULL


def test_a_reply_that_no_file_can_hold_is_made_harmless(
    opened: Callable[[], SqliteStore], caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    store.put({KEY: Choice("\ud800", origin=Origin("\ud800"))}, USAGE)
    store.flush()
    assert opened().get(KEY) == Choice("\ud800", origin=Origin("\N{REPLACEMENT CHARACTER}"))
    assert warnings(caplog) == []


def test_a_run_with_an_endpoint_that_sends_no_text_comes_to_its_end(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(Counting):
        async def complete(self, request: ChatRequest) -> ChatReply:
            await super().complete(request)
            return ChatReply((Choice('{"useful": 1, "reason": "\ud800\0"}'),), Usage(models=("\ud800",)))

    rows = [{"question": f"q {number}", "contexts": ["c"], "answer": "a"} for number in range(3)]
    model = Odd()
    first = evaluate(rows, [ContextUtilization()], judge=LLMJudge(model), store=path)
    again = evaluate(rows, [ContextUtilization()], judge=LLMJudge(model), store=path)
    assert (model.calls, again.usage.stored) == (3, 3)
    assert first.usage.models == again.usage.models == ("\N{REPLACEMENT CHARACTER}",)
    first.to_jsonl(tmp_path / "results.jsonl")
    assert warnings(caplog) == []


def test_an_older_version_is_brought_up_to_date(opened: Callable[[], SqliteStore], path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as old:
        old.execute(store_file.MIGRATIONS[0][0])
        old.execute("PRAGMA user_version=1")
        old.execute("INSERT INTO replies VALUES (?, ?, 1.0)", (bytes.fromhex(KEY), '["kept","stop",1,[]]'))
    old.close()
    store = opened()
    assert store.get(KEY) == Choice("kept")
    store.put({OTHER: FULL}, USAGE)
    store.flush()
    assert opened().get(OTHER) == FULL


def test_a_newer_version_is_left_alone(
    opened: Callable[[], SqliteStore], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version=999")
    newer.close()
    store = opened()
    store.put({KEY: FULL}, USAGE)
    assert store.get(KEY) == FULL
    assert "newer version" in caplog.text
    with pytest.raises(InputError, match="newer version"):
        store_care.contents(path)


SEVERAL = """
import sys
from ragmetrics_core.endpoints.sqlite_store import SqliteStore
from ragmetrics_core.endpoints.chat import Choice
from ragmetrics_core.data.usage import Usage
store = SqliteStore(sys.argv[1])
for number in range(300):
    store.put({f"{number + 300 * int(sys.argv[2]):064x}": Choice("x")}, Usage(calls=1))
    store.put({"ab" * 32: Choice(str(number))}, Usage(calls=1))
store.close()
"""


def test_several_processes_use_one_file(path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", SEVERAL, str(path), str(number)], stderr=subprocess.PIPE)
        for number in range(4)
    ]
    said = [process.communicate()[1] for process in processes]
    assert said == [b""] * 4
    assert rows(path) == 1201


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_process_opens_the_file_anew(path: Path) -> None:
    code = (
        "import os, sys, warnings\nwarnings.simplefilter('ignore')\n"
        "from ragmetrics_core.endpoints.sqlite_store import SqliteStore\n"
        "from ragmetrics_core.endpoints.chat import Choice\nfrom ragmetrics_core.data.usage import Usage\n"
        "store = SqliteStore(sys.argv[1])\nstore.put({'ab' * 32: Choice('x')}, Usage())\nstore.flush()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    assert store.get('ab' * 32)\n    store.put({'cd' * 32: Choice('y')}, Usage())\n    store.flush()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\nassert store.get('cd' * 32)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_process_that_ends_without_closing_keeps_its_replies(path: Path) -> None:
    code = SEVERAL.replace("store.close()", "")
    subprocess.run([sys.executable, "-c", code, str(path), "0"], check=True)
    assert rows(path) == 301


# Which store


def test_which_store_is_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(resolve_store(None), MemoryStore)
    assert isinstance(resolve_store(False), MemoryStore)
    own = MemoryStore()
    assert resolve_store(own) is own
    named = resolve_store(str(path))
    assert isinstance(named, SqliteStore)
    assert named.path == path
    cached = resolve_store(True)
    assert isinstance(cached, SqliteStore)
    assert cached.path == default_path()
    assert Path(os.environ["XDG_CACHE_HOME"]) in cached.path.parents
    monkeypatch.setenv("RAGMETRICS_STORE", str(path))
    from_environment = resolve_store(None)
    assert isinstance(from_environment, SqliteStore)
    assert from_environment.path == path
    assert isinstance(resolve_store(False), MemoryStore)


def test_what_is_no_store_is_explained(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is a folder"):
        resolve_store(tmp_path)
    with pytest.raises(SettingError, match="store is a int"):
        resolve_store(7)  # type: ignore[arg-type]


# The command


def test_the_command_says_where_prices_are_unknown(
    opened: Callable[[], SqliteStore], path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = opened()
    store.put({KEY: FULL}, replace(USAGE, cost=None))
    store.flush()
    assert store.get(KEY)
    store.flush()
    assert main(["store", "--store", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "gpt: 1 replies (price unknown)" in shown
    assert "reused 1 times (1 of them without known price): 100 tokens saved" in shown
    assert "$" not in shown


def test_the_command_shows_prunes_and_clears(
    opened: Callable[[], SqliteStore], path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = ["--store", str(path)]
    assert main(["store", *name]) == 0
    assert "no replies" in capsys.readouterr().out
    store = opened()
    store.put({KEY: FULL, OTHER: FULL}, USAGE)
    store.flush()
    assert store.get(KEY)
    assert store.get(KEY)
    store.reject(OTHER)
    store.flush()
    assert main(["store", "show", *name]) == 0
    shown = capsys.readouterr().out
    assert "gpt: 1 replies ($0.2500), 1 unusable" in shown
    assert "reused 2 times: 100 tokens and $0.5000 saved" in shown
    store.close()
    assert main(["store", "prune", "--older-than", "1d", *name]) == 0
    assert "0 replies removed" in capsys.readouterr().out
    assert main(["store", "prune", "--older-than", "0h", *name]) == 0
    assert "2 replies removed" in capsys.readouterr().out
    store.put({KEY: FULL}, USAGE)
    store.close()
    assert main(["store", "clear", *name]) == 0
    assert (rows(path), rows(path, "saved")) == (0, 0)


class Priced(Counting):
    """A model with a price, whose first reply to a question is malformed if the question says so."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        await super().complete(request)
        malformed = len(request.messages) == 2 and "malformed" in request.messages[-1].content
        text = "what?" if malformed else '{"useful": 1, "reason": "r"}'
        tokens = 1000 * len(request.messages)
        usage = Usage(prompt_tokens=tokens - 100, completion_tokens=100, cost=tokens / 1000, models=("gpt",))
        return ChatReply((Choice(text),), usage)


def test_the_command_shows_what_a_run_cost_and_the_next_one_saved(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call costs $2, a repair $4: what is reused saves the call that gave it."""
    questions = ["first", "second", "malformed"]
    rows = [{"question": question, "contexts": ["c"], "answer": "a"} for question in questions]

    def run() -> Usage:
        return evaluate(rows, [ContextUtilization()], judge=LLMJudge(Priced()), store=path).usage

    def shown() -> list[str]:
        assert main(["store", "--store", str(path)]) == 0
        return capsys.readouterr().out.splitlines()[1:]

    first = run()
    assert (first.calls, first.repairs, first.cost) == (4, 1, 10.0)
    held = "gpt: 3 replies ($8.0000), 1 unusable ones kept for inspection"
    assert shown() == [held, "  reused 0 times: 0 tokens and $0.0000 saved"]
    again = run()
    assert (again.calls, again.stored, again.cost) == (0, 3, 0.0)
    assert shown() == [held, "  reused 3 times: 8000 tokens and $8.0000 saved"]
    run()
    assert shown() == [held, "  reused 6 times: 16000 tokens and $16.0000 saved"]


def test_the_command_shows_the_size_of_the_file_with_its_journal(
    opened: Callable[[], SqliteStore], path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = opened()
    store.put({KEY: Choice("x" * 1_500_000)}, USAGE)
    store.flush()
    assert path.stat().st_size < 100_000  # the reply is in the journal
    assert main(["store", "--store", str(path)]) == 0
    store.close()
    assert path.stat().st_size > 1_500_000
    assert main(["store", "--store", str(path)]) == 0
    sizes = [line for line in capsys.readouterr().out.splitlines() if line.startswith(str(path))]
    assert sizes == [f"{path}: 1.5 MB"] * 2


def test_a_repair_that_is_adopted_twice_stays_and_costs_once(opened: Callable[[], SqliteStore], path: Path) -> None:
    store = opened()
    store.put({KEY: Choice("what?", origin=Origin("gpt"))}, USAGE)
    store.put({OTHER: FULL}, USAGE)
    for _ in range(2):
        store.adopt(KEY, OTHER, FULL)
        assert (store.get(KEY), store.get(OTHER)) == (FULL, None)
        store.flush()
        assert (store.get(KEY), store.get(OTHER)) == (FULL, None)
    (held,) = store_care.contents(path).holdings
    assert (held.replies, held.rejected, held.spent) == (1, 1, 0.5)


def test_a_repaired_reply_of_a_fresh_run_is_kept() -> None:
    inner = MemoryStore()
    inner.put({KEY: Choice("old"), OTHER: Choice("old")}, USAGE)
    fresh = FreshStore(inner)
    fresh.put({KEY: Choice("what?")}, USAGE)
    fresh.put({OTHER: Choice("repaired")}, USAGE)
    fresh.adopt(KEY, OTHER, Choice("repaired"))
    assert (fresh.get(KEY), fresh.get(OTHER)) == (Choice("repaired"), None)
    assert inner.get(KEY) == Choice("repaired")


def test_a_store_of_ones_own_keeps_repaired_replies() -> None:
    class Own(ReplyStore):
        def __init__(self) -> None:
            self.kept: dict[str, Choice] = {}

        def get(self, key: str) -> Choice | None:
            return self.kept.get(key)

        def put(self, choices: Mapping[str, Choice], usage: Usage) -> None:
            self.kept.update(choices)

        def reject(self, key: str) -> None:
            del self.kept[key]

    rows = [{"question": "malformed", "contexts": ["c"], "answer": "a"}]
    store, model = Own(), Priced()
    for _ in range(2):
        assert evaluate(rows, [ContextUtilization()], judge=LLMJudge(model), store=store).usage.models == ("gpt",)
    assert model.calls == 2


@pytest.mark.parametrize("arguments", [["prune"], ["prune", "--older-than", "soon"], ["clear", "--older-than", "1d"]])
def test_a_command_that_is_not_understood_removes_nothing(
    arguments: list[str], path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", *arguments, "--store", str(path)]) == 2
    assert "older-than" in capsys.readouterr().err


def test_independent_repetitions_have_replies_of_their_own() -> None:
    question = of(RetrievalAccuracy(), "{reference}", reference="r", contexts=["c"])
    model, store = Counting(), MemoryStore()
    for replicate in (0, 1, 0, 1):
        session = LLMJudge(model, replicate=replicate).session(concurrency=1, store=store)
        asyncio.run(session.answer(question))
    assert model.calls == 2
