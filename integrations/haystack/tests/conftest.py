"""Settings of the framework under test.

Lets the test files of this folder import what they share.
"""

import sys
from pathlib import Path

from haystack.document_stores.in_memory import InMemoryDocumentStore

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "apps")]


def _shut_down_without_waiting(store: InMemoryDocumentStore) -> None:
    if getattr(store, "_owns_executor", False) and hasattr(store, "executor"):
        store.executor.shutdown(wait=False)


# A store joins its threads when it is collected. Collected while another thread starts,
# CPython 3.11 then waits for itself; tests make and drop so many stores and threads
# that it happens.
InMemoryDocumentStore.__del__ = _shut_down_without_waiting  # type: ignore[method-assign]  # see above
