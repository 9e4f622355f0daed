"""Ctrl-C within a test."""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C counts, also where the tests run below a shell in the background.

    Not in the middle of a collection of garbage: what Hypothesis does there loses it.
    """
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, previous)
