"""The lanes of the tests: which are fast, and which run only at night; CONTRIBUTING.md explains them.

A test is *fast* unless it stands in a slow folder. A test is *nightly* where its own decorator says so.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from hypothesis import settings

_ROOT = Path(__file__).parents[2]

# Modules that load a framework, start a browser or many processes, or take seconds
# stand in a folder ``slow``; the last two hold tests with dependencies of their own.
_SLOW_FOLDERS = {"integrations", "slow", "encoders", "engines"}

# What no fast test may load: it takes seconds, or starts a browser or a terminal.
SLOW_IMPORTS = frozenset(
    {
        "haystack",
        "haystack_integrations",
        "langchain",
        "langchain_classic",
        "langchain_core",
        "langchain_ragmetrics",
        "langgraph",
        "litellm",
        "llama_index",
        "mlflow",
        "openinference",
        "phoenix",
        "pty",
        "selenium",
        "workflows",
    }
)

# After so many seconds a nightly test counts as one that hangs; the others have those
# in pyproject.toml.
NIGHTLY_SECONDS = 1800

# So many examples of a law are tried where it does not say how many.
LAW_EXAMPLES = 50


def examples(count: int) -> int:
    """How many examples of a law are tried: ``count`` of them, or more where the run chose a deeper profile."""
    return count * settings().max_examples // LAW_EXAMPLES


def is_fast(path: Path) -> bool:
    """Whether a module of tests, or a folder of them, stands in no slow folder."""
    return _SLOW_FOLDERS.isdisjoint(path.relative_to(_ROOT).parent.parts)


def crossed(*axes: Sequence[Any]) -> list[Any]:
    """All combinations of some axes: by day those in which each value meets each, all others by night.

    Of three axes or more each two values of two axes stand together in some combination
    of the day; of two axes each value stands in one.
    """
    size = 2 if len(axes) > 2 else 1
    rows = list(product(*map(range, map(len, axes))))
    unmet = {met for row in rows for met in combinations(enumerate(row), size)}
    by_day = set()
    while unmet:
        best = max(rows, key=lambda row: len(unmet & _met(row, size)))
        by_day.add(best)
        unmet -= _met(best, size)
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(axes, row, strict=True)),
            marks=() if row in by_day else pytest.mark.nightly,
        )
        for row in rows
    ]


def _met(row: tuple[int, ...], size: int) -> set[tuple[tuple[int, int], ...]]:
    return set(combinations(enumerate(row), size))


def rest_at_night(n_by_day: int, values: Iterable[Any]) -> list[Any]:
    """Values for ``parametrize``: by day only the first ones."""
    return [
        value
        if place < n_by_day
        else pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=pytest.mark.nightly,
        )
        for place, value in enumerate(values)
    ]


def few_by_day(test: Callable[..., None]) -> Callable[..., None]:
    """The same parametrised test of a contract, of whose rows one of five runs by day, the others by night."""
    assert isinstance(test, FunctionType)
    copied = FunctionType(
        test.__code__, test.__globals__, test.__name__, test.__defaults__
    )
    (mark,) = test.pytestmark  # type: ignore[attr-defined]  # of pytest
    names, rows = mark.args
    by_night = [
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)),
            marks=() if place % 5 == 0 else pytest.mark.nightly,
        )
        for place, row in enumerate(rows)
    ]
    return pytest.mark.parametrize(names, by_night)(copied)
