"""Fixtures that pytest finds as soon as ragmetrics-core is installed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ragmetrics_core.testing.server import LoopbackServer


@pytest.fixture
def loopback_server() -> Iterator[Callable[..., "LoopbackServer"]]:
    """A factory of running ``LoopbackServer``s; it takes their arguments and stops them after the test."""
    with ExitStack() as stack:

        def start(*args: Any, **kwargs: Any) -> "LoopbackServer":
            from ragmetrics_core.testing.server import LoopbackServer  # only tests that use it pay for it

            return stack.enter_context(LoopbackServer(*args, **kwargs))

        yield start
