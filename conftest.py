"""Settings of all tests."""

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from lanes import LAW_EXAMPLES, NIGHTLY_SECONDS, SLOW_IMPORTS, is_fast

if TYPE_CHECKING:
    from loopback import LoopbackServer

# Tests call no host, so the frameworks must not either; they read this when they are
# imported.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["LANGSMITH_TRACING"] = "false"

# Tests start many interpreters; where none keeps its bytecode, as in many containers,
# each would compile everything.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(
        Path(__file__).with_name("__pycache__")
    )
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What tests share stands in a folder that the processes they start find, too.
_SUPPORT = Path(__file__).parent / "tests" / "support"
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(_SUPPORT), os.environ.get("PYTHONPATH")))
)

# What Hypothesis has read of the modules is kept beside their bytecode.
set_hypothesis_home_dir(Path(__file__).with_name("__pycache__") / "hypothesis")
# Times differ by machine and load: no test may fail for them, nor for the examples that
# chance drew: what passes passes again.
settings.register_profile(
    "any machine",
    deadline=None,
    database=None,
    derandomize=True,
    max_examples=LAW_EXAMPLES,
)
# --hypothesis-profile=deep: .ci/nightly holds the same laws to ten times as many
# examples, other ones each night.
settings.register_profile(
    "deep",
    settings.get_profile("any machine"),
    derandomize=False,
    max_examples=10 * LAW_EXAMPLES,
)
settings.load_profile("any machine")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker more than there are cores: many tests wait for a server, a process or a clock.

    The fast lane has two a core. A worker of it is light, because it loads no framework.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist reads it
    cores = os.cpu_count() or 1
    return 2 * cores if config.option.markexpr == "fast" else cores + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The fast lane does not even import the other modules: the frameworks alone take longer to load than it may."""
    if config.option.markexpr != "fast":
        return None
    return None if is_fast(collection_path) else True


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The marker ``fast`` is given to all tests that stand in no slow folder, but to the nightly ones.

    A nightly test takes up to 85 seconds on an idle machine: on a busy one it may take
    longer than the others.
    """
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.timeout(NIGHTLY_SECONDS))
        elif is_fast(item.path):
            item.add_marker("fast")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that is imported for the tests is ever freed: garbage is looked for in what tests make alone.

    To look through all modules again and again took a fifth of the collection's time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _the_fast_lane_loads_nothing_slow(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the fast lane loads obeys its rule, too."""
    yield
    loaded = SLOW_IMPORTS & sys.modules.keys()
    if loaded and request.config.option.markexpr == "fast":
        names = ", ".join(sorted(loaded))
        pytest.fail(
            f"a fast test loaded {names}: move its module into the folder slow beside it"
        )


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_in_the_checkout(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Tests work elsewhere: the runs that they keep would push out a developer's own."""
    with chdir(tmp_path_factory.mktemp("work")):
        yield


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test reads or writes the user's stored replies and trusted files, nor does a process that it starts."""
    folder: Path = tmp_path_factory.getbasetemp() / "caches" / uuid4().hex
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(folder))
    for name in ("RAGMETRICS_STORE", "RAGMETRICS_TRUST", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def loopback_server() -> Iterator[Callable[..., "LoopbackServer"]]:
    """A factory of running ``LoopbackServer``s, which reply plausibly and stop after the test."""
    with ExitStack() as stack:

        def start(reply: Any = None, **settings: Any) -> "LoopbackServer":
            from loopback import LoopbackServer
            from plausible import plausible_reply  # only tests that use it pay for it

            return stack.enter_context(
                LoopbackServer(reply or plausible_reply, **settings)
            )

        yield start
