"""The store in a file: what it keeps, what it survives, who may use it at the same time."""

import logging
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ragmetrics_core import ContextUtilization, evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.judging.llm import LLMJudge
from ragmetrics_core.models import reply_store
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
    Origin,
    TokenAlternatives,
)
from ragmetrics_core.models.reply_store import (
    MemoryStore,
    ReplyStore,
    SqliteStore,
    default_path,
    resolve_store,
)

KEY, OTHER = "ab" * 32, "cd" * 32
FULL = Choice(
    'text "quoted" \u2028 \N{GRINNING FACE}',
    "length",
    (TokenAlternatives("1", -0.25, (("1", -0.25), (" 0", -1.5))),),
    Origin("gpt", 5),
)


class Counting(ChatModel):
    """A model that counts its calls."""

    name = cache_key = "toy"
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
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING
    ]


def rows(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM replies").fetchone()
    connection.close()
    return int(count)


# What it keeps


def test_a_reply_comes_back_as_it_was(opened):
    store = opened()
    store.put({KEY: FULL})
    assert store.get(KEY) == FULL  # before it is committed, or after
    assert opened().get(KEY) == store.get(KEY) == FULL
    assert store.get(OTHER) is None


def test_a_rejected_reply_is_not_kept(opened):
    store = opened()
    store.put({KEY: FULL})
    store.reject(KEY)
    assert store.get(KEY) is None
    assert store.get(KEY) is None
    assert opened().get(KEY) is None
    store.put({KEY: Choice("better")})
    assert opened().get(KEY) == Choice("better")


def test_a_new_folder_and_file_are_for_the_owner_alone_and_named(opened, path, caplog):
    with caplog.at_level(logging.INFO, logger="ragmetrics_core"):
        opened().get(KEY)
        opened().get(KEY)
    assert [str(path) in record.getMessage() for record in caplog.records] == [True]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {
        0o600
    }


def test_nothing_is_made_before_it_is_used(path):
    evaluate(
        [{"question": "q", "contexts": ["c"], "answer": "c"}],
        judge="lexical",
        store=path,
    )
    assert not path.parent.exists()


class Watching(Counting):
    """A model that notes how many replies are in a file when it is called."""

    def __init__(self, path: Path) -> None:
        self.kept: list[int] = []
        self._path = path

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.kept.append(rows(self._path) if self._path.exists() else 0)
        return ChatReply((Choice('{"useful": 1, "reason": "r"}'),))


def test_a_reply_is_in_the_file_before_the_next_call_leaves(path):
    """What a killed process loses is then no more than the calls in flight."""
    samples = [
        {"question": f"q {number}", "contexts": ["c"], "answer": "a"}
        for number in range(5)
    ]
    model = Watching(path)
    evaluate(
        samples,
        [ContextUtilization()],
        judge=LLMJudge(model),
        store=path,
        concurrency=1,
    )
    assert model.kept == [0, 1, 2, 3, 4]


def test_a_fresh_run_asks_everything_anew_and_keeps_the_new_replies(opened, path):
    first = opened()
    first.put({KEY: Choice("old"), OTHER: Choice("old")})
    first.close()
    fresh = SqliteStore(path, fresh=True)
    assert fresh.get(KEY) is None
    fresh.put({KEY: Choice("what?")})
    fresh.put({KEY: Choice("repaired")})
    assert (fresh.get(KEY), fresh.get(OTHER)) == (Choice("repaired"), None)
    fresh.close()
    assert (opened().get(KEY), opened().get(OTHER)) == (
        Choice("repaired"),
        Choice("old"),
    )


# What it survives


def damaged(path: Path) -> SqliteStore:
    """A store whose first pages, the schema among them, are whole."""
    first = SqliteStore(path)
    first.put({f"{number:064x}": Choice("x" * 3000) for number in range(200)})
    first.close()
    content = bytearray(path.read_bytes())
    content[4096 * 5 :] = os.urandom(len(content) - 4096 * 5)
    path.write_bytes(content)
    store = SqliteStore(path)
    assert [store.get(f"{number:064x}") for number in range(200)].count(None) > 0
    return store


def on_full_disk(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    # SQLITE_FULL, as from a full disk
    store.write(lambda connection: connection.execute("PRAGMA max_page_count=12"))
    return store


def failing(path: Path) -> SqliteStore:
    def fail(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("no such thing")

    store = SqliteStore(path)
    store.write(fail)
    return store


def test_a_change_is_made_whole_or_not_at_all(opened, path):
    def half(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM replies")
        raise sqlite3.OperationalError("no such thing")

    store = opened()
    store.put({KEY: FULL, OTHER: FULL})
    store.write(half)
    assert rows(path) == 2


@pytest.mark.parametrize("n_pages", [1, 2, 50])
def test_a_store_whose_last_merge_was_cut_keeps_all_its_replies(n_pages, path, caplog):
    """As a full disk or a killed process leaves it: some pages are merged, the journal holds all."""
    keys = [f"{number:064x}" for number in range(200)]
    store = SqliteStore(path)
    store.put({key: Choice("x" * 3000) for key in keys})
    cut = path.parent.parent / "cut"
    shutil.copytree(path.parent, cut)
    store.close()
    with (cut / path.name).open("r+b") as file:
        file.write(path.read_bytes()[: 4096 * n_pages])
    store = SqliteStore(cut / path.name)
    assert all(store.get(key) for key in keys)
    store.put({KEY: FULL})
    store.close()
    assert rows(cut / path.name) == 201
    assert warnings(caplog) == []


def test_a_store_that_cannot_be_written_any_more_is_still_read(opened, path, caplog):
    first = opened()
    first.put({KEY: FULL, OTHER: FULL})
    first.close()
    store = on_full_disk(path)
    for number in range(100):
        store.put({f"{number:064x}": Choice("y" * 3000)})
    assert "kept in memory only" in warnings(caplog)[0]
    assert store.get(KEY) == FULL
    store.reject(OTHER)
    assert store.get(OTHER) is None
    store.close()
    assert len(warnings(caplog)) == 1


TROUBLES: dict[str, tuple[Callable[[Path], SqliteStore], str]] = {
    "damage found later": (damaged, "SQLITE_"),
    "a full disk": (on_full_disk, "SQLITE_FULL"),
    "a folder that cannot be written": (
        lambda _: SqliteStore("/proc/ragmetrics/replies.sqlite"),
        "No such file",
    ),
    "a change that fails": (failing, "OperationalError"),
}


@pytest.mark.parametrize(("make", "words"), TROUBLES.values(), ids=TROUBLES)
def test_a_file_that_cannot_be_used_costs_a_warning_and_no_reply(
    make, words, path, caplog
):
    store = make(path)
    for number in range(100):
        store.put({f"{number:064x}": Choice("y" * 3000)})
    assert all(store.get(f"{number:064x}") for number in range(100))
    store.reject(f"{99:064x}")
    assert store.get(f"{99:064x}") is None
    (warning,) = warnings(caplog)
    assert "kept in memory only" in warning
    assert words in warning
    if path.exists():  # nobody is kept from using it
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.close()


def test_a_file_that_others_hold_is_waited_for(opened, path, caplog):
    store = opened()
    store.put({KEY: FULL})
    store.close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    # as another process leaves it that has just made it
    other.execute("PRAGMA journal_mode=DELETE")
    other.execute("BEGIN IMMEDIATE")
    leaving = threading.Timer(0.1, other.close)
    leaving.start()
    assert opened().get(KEY) == FULL
    leaving.join()
    assert warnings(caplog) == []


def test_a_file_that_another_process_is_making_is_waited_for(opened, path):
    store = opened()
    store.put({KEY: FULL})
    store.close()
    whole = path.read_bytes()
    path.write_bytes(bytes(len(whole)))  # its header is not there yet
    made = threading.Timer(0.1, path.write_bytes, [whole])
    made.start()
    assert opened().get(KEY) == FULL
    made.join()


def test_what_comes_while_others_hold_the_file_is_written_once_it_is_free(
    opened, path, caplog, monkeypatch
):
    monkeypatch.setattr(reply_store, "_BUSY_SECONDS", 0.01)
    store = opened()
    store.put({KEY: FULL})
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.put({OTHER: FULL})
    store.put({OTHER[::-1]: FULL})  # not even tried
    store.reject(KEY)
    assert [store.get(key) for key in (KEY, OTHER)] == [None, FULL]
    (warning,) = warnings(caplog)
    assert "another process holds" in warning
    other.close()
    store.close()
    assert [opened().get(key) for key in (OTHER, OTHER[::-1])] == [FULL] * 2


BAD_ROWS: dict[str, tuple[str | bytes, str | bytes]] = {
    "no JSON": ("nothing", "gpt"),
    "no list": ("7", "gpt"),
    "an object": ('{"a": 1, "b": 2, "c": 3, "d": 4}', "gpt"),
    "too short": ('["text","stop"]', "gpt"),
    "a text that is a number": ('[7,"stop",1,[]]', "gpt"),
    "an end that there is not": ('["text","asleep",1,[]]', "gpt"),
    "tokens that are none": ('["text","stop",1,[["a","b",[]]]]', "gpt"),
    "as deep as a well": ("[" * 100_000, "gpt"),
    "bytes that are no text": (b'["\xff\xfe","stop",1,[]]', "gpt"),
    "a model that is a number": ('["text","stop",1,[]]', b"\xff"),
}


@pytest.mark.parametrize("row", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_row_that_does_not_parse_is_a_miss(row, opened, path, caplog):
    store = opened()
    store.put({OTHER: FULL})
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO replies (key, created, choice, model) VALUES (?, 1, CAST(? AS"
            " TEXT), ?)",
            (bytes.fromhex(KEY), *row),
        )
    connection.close()
    store = opened()
    assert (store.get(KEY), store.get(OTHER)) == (None, FULL)
    store.put({KEY: FULL})
    assert opened().get(KEY) == FULL
    assert warnings(caplog) == []


def test_texts_that_no_file_can_hold_are_made_harmless(path, tmp_path, caplog):
    class Odd(Counting):
        async def complete(self, request: ChatRequest) -> ChatReply:
            await super().complete(request)
            return ChatReply(
                (Choice('{"useful": 1, "reason": "\ud800\0"}'),),
                Usage(models=("\ud800",)),
            )

    rows = [{"question": "q", "contexts": ["c"], "answer": "a"}]
    model = Odd()
    first = evaluate(rows, [ContextUtilization()], judge=LLMJudge(model), store=path)
    again = evaluate(rows, [ContextUtilization()], judge=LLMJudge(model), store=path)
    assert (model.calls, again.usage.stored) == (1, 1)
    assert first.usage.models == again.usage.models == ("\N{REPLACEMENT CHARACTER}",)
    first.to_jsonl(tmp_path / "results.jsonl")
    (without_logprobs,) = warnings(caplog)
    assert "does not take logprobs" in without_logprobs


# Which store


def test_which_store_is_used(path, monkeypatch):
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


def test_what_is_no_store_is_explained():
    with pytest.raises(SettingError, match="store is a int"):
        resolve_store(7)  # type: ignore[arg-type]
    for no_file in (":memory:", "file:replies?mode=memory"):
        with pytest.raises(
            SettingError, match=r"store=False\) keeps replies in memory"
        ):
            resolve_store(no_file)


# The command


def test_the_command_shows_prunes_and_clears(opened, path, capsys):
    name = ["--store", str(path)]
    assert main(["store", *name]) == 0
    assert "no replies" in capsys.readouterr().out
    store = opened()
    store.put({KEY: FULL, OTHER: FULL})
    assert main(["store", "show", *name]) == 0
    shown = capsys.readouterr().out
    assert f"gpt: 2 replies of {time.strftime('%Y-%m-%d')}" in shown
    store.close()
    assert main(["store", "prune", "--older-than", "1d", *name]) == 0
    assert "0 replies removed" in capsys.readouterr().out
    assert main(["store", "prune", "--older-than", "0h", *name]) == 0
    assert "2 replies removed" in capsys.readouterr().out
    store.put({KEY: FULL})
    store.close()
    assert main(["store", "clear", *name]) == 0
    assert rows(path) == 0


class Priced(Counting):
    """A model with a price, whose first reply to a question is malformed if the question says so."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        await super().complete(request)
        malformed = (
            len(request.messages) == 2 and "malformed" in request.messages[-1].content
        )
        text = "what?" if malformed else '{"useful": 1, "reason": "r"}'
        tokens = 1000 * len(request.messages)
        usage = Usage(
            prompt_tokens=tokens - 100,
            completion_tokens=100,
            cost=tokens / 1000,
            models=("gpt",),
        )
        return ChatReply((Choice(text),), usage)


def test_the_command_shows_the_size_of_the_file_with_its_journal(opened, path, capsys):
    store = opened()
    store.put({KEY: Choice("x" * 1_500_000)})
    assert path.stat().st_size < 100_000  # the reply is in the journal
    assert main(["store", "--store", str(path)]) == 0
    store.close()
    assert path.stat().st_size > 1_500_000
    assert main(["store", "--store", str(path)]) == 0
    sizes = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(str(path))
    ]
    assert sizes == [f"{path}: 1.5 MB"] * 2


def test_a_store_of_ones_own_keeps_repaired_replies():
    class Own(ReplyStore):
        def __init__(self) -> None:
            self.kept: dict[str, Choice] = {}

        def get(self, key: str) -> Choice | None:
            return self.kept.get(key)

        def put(self, choices: Mapping[str, Choice]) -> None:
            self.kept.update(choices)

        def reject(self, key: str) -> None:
            del self.kept[key]

    rows = [{"question": "malformed", "contexts": ["c"], "answer": "a"}]
    store, model = Own(), Priced()
    for _ in range(2):
        assert evaluate(
            rows, [ContextUtilization()], judge=LLMJudge(model), store=store
        ).usage.models == ("gpt",)
    assert model.calls == 2


@pytest.mark.parametrize(
    "arguments",
    [["prune"], ["prune", "--older-than", "soon"], ["clear", "--older-than", "1d"]],
)
def test_a_command_that_is_not_understood_removes_nothing(arguments, path, capsys):
    assert main(["store", *arguments, "--store", str(path)]) == 2
    assert "older-than" in capsys.readouterr().err
