"""Steps of a work, counted: they show how its cost grows, however busy a machine is."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def assert_steps_grow_as_the_size(work: Callable[[int], object], size: int) -> None:
    """Assert that four times the size takes no more than five times the steps.

    Quadratic work takes sixteen times the steps.

    Args:
        work: Does the work for a size.
        size: The smaller of the two sizes.
    """
    work(size)  # what is kept for the next time is there from now on
    n_small = count_steps(lambda: work(size))
    assert 0 < count_steps(lambda: work(4 * size)) <= 5 * n_small


def count_steps(work: Callable[[], object], room: str = "ragmetrics_core") -> int:
    """Count the lines of the package that some work runs, once for each time.

    Only those of files whose path has ``room`` count. What one pattern does inside a
    text is one step, however long it takes.
    """
    n_steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal n_steps
        if room not in frame.f_code.co_filename:
            return None
        n_steps += event == "line"
        return trace

    tracer_before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(tracer_before)
    return n_steps
