"""One store and several processes: at the same time, forked, and killed."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import os, sqlite3, sys, threading, time, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of every fork of a process with threads
from ragmetrics_core.models import reply_store
from ragmetrics_core.models.chat import Choice
from ragmetrics_core.models.reply_store import SqliteStore
KEY, OTHER = "ab" * 32, "cd" * 32

def fork(work):
    child = os.fork()
    if not child:
        work()
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

store = SqliteStore(sys.argv[1])
"""
SEVERAL = """
for number in range(300):
    store.put({f"{number + 300 * int(sys.argv[2]):064x}": Choice("x")})
    store.put({KEY: Choice(str(number))})
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BEGIN + code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(code: str, *arguments: object) -> str:
    """What a process prints that ends well and complains of nothing."""
    process = start(code, *arguments)
    said, complained = process.communicate(timeout=100)
    assert (process.returncode, complained) == (0, "")
    return said


def rows(path: Path) -> int:
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM replies").fetchone()
    connection.close()
    return int(count)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "replies.sqlite"


@pytest.mark.nightly
def test_several_processes_use_one_file(path):
    processes = [start(SEVERAL + "store.close()", path, number) for number in range(4)]
    assert [process.communicate(timeout=100) for process in processes] == [("", "")] * 4
    assert rows(path) == 1201


def test_a_process_that_ends_without_closing_keeps_its_replies(path):
    run(SEVERAL, path, 0)
    assert rows(path) == 301
    # all of it is in the file itself
    assert [place.name for place in path.parent.iterdir()] == [path.name]


def test_to_look_whose_a_file_is_gives_up_no_lock_on_it(path):
    """POSIX takes a process's locks on a file back when it closes any descriptor of it."""
    code = """
import subprocess
store.put({KEY: Choice("x")})
SqliteStore(sys.argv[1])  # looks whose it is
other = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM replies').fetchone())"
subprocess.run([sys.executable, "-c", other, sys.argv[1]], check=True, stdout=subprocess.DEVNULL)
print(os.path.exists(sys.argv[1] + "-wal"))  # the last to close a file removes it, and there is another
"""
    assert run(code, path) == "True\n"


@pytest.mark.nightly
def test_a_process_ends_although_a_thread_never_stops_writing(path):
    code = """
import atexit
atexit.register(lambda: (store.put({KEY: Choice("late")}), print(store.get(KEY).text)))

def forever():
    for number in range(sys.maxsize):
        store.put({f"{number:064x}": Choice("x")})
        started.set()

started = threading.Event()
threading.Thread(target=forever, daemon=True).start()
started.wait()
"""
    assert run(code, path) == "late\n"
    assert run("print(store.get(KEY).text)", path) == "late\n"


@pytest.mark.nightly
def test_a_process_that_is_killed_keeps_what_was_committed(path):
    process = start(SEVERAL + "os.kill(os.getpid(), 9)", path, 0)
    process.communicate(timeout=100)
    assert process.returncode == -9
    assert run("print(store.get(KEY).text)", path) == "299\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
class TestFork:
    """A process with an open store forks."""

    def test_a_forked_process_opens_the_file_anew(self, path):
        code = """
store.put({KEY: Choice("parent")})
def child():
    assert store.get(KEY)
    store.put({OTHER: Choice("child")})
fork(child)
print(store.get(OTHER).text)
store.put({KEY: Choice("later")})
print(store.get(KEY).text)
"""
        assert run(code, path) == "child\nlater\n"

    def test_a_child_that_uses_nothing_ends_in_its_own_way(self, path):
        """The usual end runs what was registered for it, the parent's cleaning up included."""
        code = """
for number in range(100):
    store.put({f"{number:064x}": Choice("x" * 1000)})
if not (child := os.fork()):
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
for number in range(100):
    assert store.get(f"{number:064x}")
store.put({KEY: Choice("after")})
print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM replies").fetchone()[0])
"""
        assert run(code, path) == "101\n"

    def test_a_child_inherits_no_open_file(self, path):
        if not Path("/proc/self/fd").exists():
            pytest.skip("needs /proc")
        code = """
def held():
    return [place for place in map("/proc/self/fd/".__add__, os.listdir("/proc/self/fd"))
            if os.path.exists(place) and sys.argv[1] in os.readlink(place)]
store.put({KEY: Choice("parent")})
assert held()
fork(lambda: print(len(held())))
print(store.get(KEY).text)
"""
        assert run(code, path) == "0\nparent\n"

    def test_a_process_that_is_killed_while_it_makes_the_file_leaves_one_that_can_be_used(
        self, path
    ):
        """Killed before each of the statements that make a file, in turn."""
        code = """
class Killed(sqlite3.Connection):
    left = 0
    def execute(self, *arguments):
        Killed.left -= 1
        if Killed.left < 0:
            os.kill(os.getpid(), 9)
        return super().execute(*arguments)

def make():
    sqlite3.connect = lambda *arguments, **named: connect(*arguments, **named, factory=Killed)
    SqliteStore(place).get(KEY)
    os._exit(0)

def use():
    store = SqliteStore(place)
    store.put({KEY: Choice("x")})
    store.close()
    assert store.get(KEY)
    assert len(os.listdir(os.path.dirname(place))) == 1 or os.path.exists(place + "-wal")

connect, ended = sqlite3.connect, 9
while ended == 9:
    place = f"{sys.argv[1]}-{Killed.left}/replies.sqlite"
    if not (child := os.fork()):
        make()
    ended = os.waitpid(child, 0)[1]
    fork(use)
    Killed.left += 1
print(ended, Killed.left > 10)
"""
        assert run(code, path) == "0 True\n"
