"""Which files a store opens: its own and new ones; all others stay as they are, byte for byte."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ragmetrics_core import evaluate
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import ForeignFile
from ragmetrics_core.models.chat import Choice
from ragmetrics_core.models.reply_store import (
    APPLICATION_ID,
    TABLE,
    VERSION,
    SqliteStore,
    default_path,
    resolve_store,
)

KEY, OTHER = "ab" * 32, "cd" * 32
ROW = b'{"question": "q", "contexts": ["c"], "answer": "c"}\n'


def made_of(path: Path, *statements: str) -> None:
    """A SQLite file, made by somebody."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def of_version(path: Path, version: int) -> None:
    """A store as another version of ours made it."""
    made_of(
        path,
        TABLE,
        f"PRAGMA application_id={APPLICATION_ID}",
        f"PRAGMA user_version={version}",
    )


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a table of samples": lambda path: path.write_bytes(ROW),
    "a text": lambda path: path.write_text("Dear diary"),
    "a single byte": lambda path: path.write_bytes(b"x"),
    "another program's file": lambda path: made_of(
        path, "CREATE TABLE notes (text)", "INSERT INTO notes VALUES (1)"
    ),
    "another program's file with tables of our names": lambda path: made_of(
        path,
        "CREATE TABLE replies (key, choice)",
        "CREATE TABLE saved (model)",
        "PRAGMA user_version=2",
    ),
    "our table without our number": lambda path: made_of(
        path, TABLE, f"PRAGMA user_version={VERSION}"
    ),
    "our table with another program's number": lambda path: made_of(
        path, TABLE, "PRAGMA application_id=7"
    ),
    "no more than another program's number": lambda path: made_of(
        path, "PRAGMA application_id=7"
    ),
    "the first bytes of a SQLite file": lambda path: path.write_bytes(
        b"SQLite format 3\0" + b"\0" * 4
    ),
    "what remains of a SQLite file": lambda path: path.write_bytes(
        b"SQLite format 3\0" + b"\0" * 84
    ),
    "a store of a newer version": lambda path: of_version(path, VERSION + 1),
    "a store of an older version": lambda path: of_version(path, VERSION - 1),
    "a journal without its file": (
        lambda path: Path(f"{path}-wal").write_bytes(b"the last notes")
    ),
    "a folder": lambda path: path.mkdir(),
}


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Another program's file while it is open, with what was written last in its journal."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE notes (text)")
        assert Path(f"{path}-wal").stat().st_size > 0
        yield


def everything(folder: Path) -> dict[str, tuple[bytes | None, int, int]]:
    """Names, contents, modes and times of all that is in a folder."""
    found = {}
    for place in folder.iterdir():
        state = place.stat()
        found[place.name] = (
            place.read_bytes() if place.is_file() else None,
            state.st_mode,
            state.st_mtime_ns,
        )
    return found


def assert_refused(path: Path, samples: Path) -> None:
    """Hold that every way into a store refuses a file and leaves it as it is."""
    before = everything(path.parent)
    for use in (SqliteStore, resolve_store):
        with pytest.raises(ForeignFile, match="name a"):
            use(path)
    assert (
        main(["evaluate", str(samples), "--judge", "lexical", "--store", str(path)])
        == 2
    )
    if path.exists():
        assert main(["store", "show", "--store", str(path)]) == 2
        assert main(["store", "prune", "--older-than", "0h", "--store", str(path)]) == 2
        assert main(["store", "clear", "--store", str(path)]) == 2
    assert everything(path.parent) == before


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.jsonl"
    path.write_bytes(ROW)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "replies.sqlite"


@pytest.mark.nightly
@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_a_file_that_is_not_ours_is_refused_and_stays_as_it_is(make, path, samples):
    make(path)
    assert_refused(path, samples)


def test_a_file_in_use_and_its_journals_stay_as_they_are(path, samples):
    with in_use(path):
        assert_refused(path, samples)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files on this platform")
def test_what_is_no_file_is_refused(path, samples):
    os.mkfifo(path)
    assert_refused(path, samples)
    with pytest.raises(ForeignFile):
        SqliteStore(os.devnull)


def test_a_link_that_leads_to_itself_is_refused(path, samples, capsys):
    path.symlink_to(path)
    for use in (SqliteStore, resolve_store):
        with pytest.raises(ForeignFile, match=r"cannot be used .*; name another file"):
            use(path)
    assert (
        main(["evaluate", str(samples), "--judge", "lexical", "--store", str(path)])
        == 2
    )
    assert "cannot be used" in capsys.readouterr().err
    assert path.is_symlink()


def test_the_input_and_links_to_it_are_refused(samples, capsys):
    link = samples.with_name("link.sqlite")
    link.symlink_to(samples)
    for path in (samples, link):
        assert (
            main(
                [
                    "evaluate",
                    str(samples),
                    "--judge",
                    "gpt-4o-mini",
                    "--store",
                    str(path),
                ]
            )
            == 2
        )
        (sentence,) = capsys.readouterr().err.splitlines()
        assert f"{samples} is no file of ragmetrics' replies" in sentence
        assert "it is left as it is" in sentence
    assert sorted(place.name for place in samples.parent.iterdir()) == [
        "link.sqlite",
        "samples.jsonl",
    ]
    assert samples.read_bytes() == ROW


def test_the_environment_names_no_foreign_file(samples, monkeypatch):
    monkeypatch.setenv("RAGMETRICS_STORE", str(samples))
    with pytest.raises(ForeignFile):
        evaluate([{"question": "q", "contexts": ["c"], "answer": "c"}], judge="lexical")


def no_folder(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """The cache folder is a file."""
    path.write_bytes(ROW)
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))


def foreign_file(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """The usual file is somebody else's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(path.parent))
    default_path().parent.mkdir()
    default_path().write_bytes(ROW)


def no_home(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """The user has no home."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.mark.parametrize("fault", [no_folder, foreign_file, no_home])
def test_a_run_goes_on_without_the_usual_file(
    fault, path, samples, monkeypatch, caplog
):
    fault(monkeypatch, path)
    usual = str(default_path())
    assert main(["evaluate", str(samples), "--judge", "lexical", "--no-files"]) == 0
    store = SqliteStore(usual)
    store.put({KEY: Choice("kept")})
    assert store.get(KEY) == Choice("kept")
    (warning,) = (record.getMessage() for record in caplog.records)
    assert warning.startswith(f"new replies are kept in memory only: {usual} ")
    assert warning.count("name a") == 1  # what to do, once


def test_a_foreign_file_that_comes_later_is_left_alone(path, caplog):
    store = SqliteStore(path)
    path.write_bytes(ROW)
    store.put({KEY: Choice("kept")})
    assert store.get(KEY) == Choice("kept")
    assert path.read_bytes() == ROW
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "kept in memory only" in warning
    assert [place.name for place in path.parent.iterdir()] == [path.name]


def test_a_new_store_says_whose_it_is_before_anything_is_in_it(path):
    store = SqliteStore(path)
    assert store.get(KEY) is None
    assert path.read_bytes()[68:72] == APPLICATION_ID.to_bytes(4, "big")
    store.close()


def test_a_link_to_nothing_out_of_its_folder_makes_no_file(
    path, samples, capsys, tmp_path_factory
):
    outside = tmp_path_factory.mktemp("home") / "place.sqlite"
    path.symlink_to(outside)
    with pytest.raises(ForeignFile, match="is a link out of its folder"):
        SqliteStore(path)
    options = ["--judge", "lexical", "--store", str(path)]
    assert main(["evaluate", str(samples), *options]) == 2
    assert "is a link out of its folder" in capsys.readouterr().err
    assert not outside.exists()


@pytest.mark.parametrize("there", ["an empty file", "a link to nothing"])
def test_a_new_file_is_for_the_owner_alone(there, path):
    if there == "an empty file":
        path.touch(0o644)
    else:
        path.symlink_to(path.with_name("place.sqlite"))
    store = SqliteStore(path)
    store.put({KEY: Choice("a quoted text")})
    modes = {
        place.name: stat.S_IMODE(place.stat().st_mode)
        for place in path.parent.iterdir()
    }
    store.close()
    assert set(modes.values()) == {0o600}
    assert any(name.endswith("-wal") for name in modes)


def test_a_file_that_was_found_damaged_is_not_read_again(path, caplog):
    """Somebody overwrites it, and copies the old file back: it stays out of the run."""
    store = SqliteStore(path)
    store.put({KEY: Choice("kept")})
    store.close()
    whole = path.read_bytes()
    store = SqliteStore(path)
    path.write_bytes(ROW)
    assert store.get(KEY) is None
    path.write_bytes(whole)
    assert store.get(KEY) is None
    warnings = [record.getMessage() for record in caplog.records]
    assert sum("kept in memory only" in warning for warning in warnings) == 1
    assert path.read_bytes() == whole


def test_a_damaged_file_is_called_so(path, caplog):
    """No room is missing."""
    store = SqliteStore(path)
    for number in range(200):
        store.put({f"{number}{KEY}"[: len(KEY)]: Choice("kept" * 200)})
    store.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"x" * (len(content) - 4096))
    store = SqliteStore(path)
    assert store.get(KEY) is None
    store.put({KEY: Choice("new")})
    assert store.get(KEY) == Choice("new")
    store.close()
    (warning,) = [
        record.getMessage()
        for record in caplog.records
        if record.levelname == "WARNING"
    ]
    assert "it is damaged: move it away, and a new one is begun" in warning
