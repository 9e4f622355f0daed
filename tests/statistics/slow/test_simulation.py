"""The benchmark of the statistics in small: bounds kept, a planted difference found, a broken bound noticed."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.nightly  # thousands of samples for each test

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "simulated_statistics.py"


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    if not SCRIPT.is_file():
        pytest.skip("a checkout without its benchmarks")
    spec = importlib.util.spec_from_file_location("simulated_statistics", SCRIPT)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        yield module


def test_intervals_keep_their_bound(bench):
    found = [*bench.means(25, counts=(20, 50)), *bench.clustered(25, counts=(10,))]
    assert len(found) == 4 * 4 * 2 + 6
    assert [str(one) for one in found if not one.kept] == []


def test_paired_differences_and_false_alarms(bench):
    found = [*bench.paired(25, counts=(20,)), *bench.clustered_test(15)]
    assert [str(one) for one in found if not one.kept] == []
    assert sum("false alarms" in one.name for one in found) == 5


def test_a_planted_difference_is_found(bench):
    assert [str(one) for one in bench.planted(20) if not one.kept] == []


def test_calibrated_means_keep_their_bound(bench):
    assert [
        str(one) for one in bench.calibrated(10, counts=(30, 100)) if not one.kept
    ] == []


def test_a_broken_bound_is_noticed(bench):
    assert not bench.Measured("coverage", 0.81, 0.92, 300).kept
    assert not bench.Measured("false alarms", 0.12, 0.05, 300, at_least=False).kept
    assert "BROKEN" in str(bench.Measured("coverage", 0.81, 0.92, 300))
