"""One event loop for all tests of a module."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class OneLoop:
    """Runs coroutines in one loop, until it is closed, and then in a new one.

    The tests of a module may be divided: a worker that has run some of them, and has
    closed the module's fixtures, may be given others later.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work)

    def close(self) -> None:
        """Close the loop, if there is one, and the connections that LiteLLM keeps in it."""
        if litellm := sys.modules.get("litellm"):
            self.run(litellm.close_litellm_async_clients())
            litellm.in_memory_llm_clients_cache.flush_cache()
        if self._runner is not None:
            self._runner.close()
        self._runner = None
