"""Settings of all tests."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from loopback import LoopbackServer

# Tests call no host, so the frameworks must not either; they read this when they are imported.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["LANGSMITH_TRACING"] = "false"

# Tests start many interpreters; where none keeps its bytecode, as in many containers, each would compile everything.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).with_name("__pycache__"))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What tests share stands in a folder that the processes they start find, too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(Path(__file__).with_name("tests")), os.environ.get("PYTHONPATH")))
)

# Every test has a cache folder of its own; in an empty one matplotlib would look through all fonts again.
os.environ.setdefault("MPLCONFIGDIR", str(Path(tempfile.gettempdir()) / "ragmetrics-tests-matplotlib"))

# Times differ by machine and load: no test may fail for them.
settings.register_profile("any machine", deadline=None, database=None)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's stored replies, nor does a process that it starts."""
    folder: Path = tmp_path_factory.getbasetemp() / "caches" / uuid4().hex
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(folder))
    for name in ("RAGMETRICS_STORE", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def loopback_server() -> Iterator[Callable[..., "LoopbackServer"]]:
    """A factory of running ``LoopbackServer``s, which reply plausibly and stop after the test."""
    with ExitStack() as stack:

        def start(reply: Any = None, **settings: Any) -> "LoopbackServer":
            from loopback import LoopbackServer
            from plausible import plausible_reply  # only tests that use it pay for it

            return stack.enter_context(LoopbackServer(reply or plausible_reply, **settings))

        yield start
