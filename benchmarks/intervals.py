"""How often the 95 % interval of a mean score holds the true mean, on scores such as metrics give.

Run: ``python benchmarks/intervals.py [--runs 1000]``. The standard error of a coverage of .95 is .031 with the 50
runs of the default (ten seconds), .007 with 1000. Lower coverage means that gates err more often than they state.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable

from ragmetrics_core.reporting.statistics import mean_interval

COUNTS = (5, 20, 50, 200)
MEANS = (0.5, 0.8, 0.95)


def inflated(draw: random.Random, mean: float) -> float:
    """A beta score, with a sixth of the misses at 0 and some hits at exactly 1."""
    zeros = (1 - mean) / 6
    if draw.random() < zeros:
        return 0.0
    centre = mean / (1 - zeros)
    ones = max(0.0, centre - 0.4) * 0.6
    if draw.random() < ones:
        return 1.0
    rest = (centre - ones) / (1 - ones)
    return draw.betavariate(4 * rest, 4 * (1 - rest))


def polls(draw: random.Random, mean: float) -> float:
    """A share of five polls, whose yes-probability differs between samples: many ties at 0 and 1."""
    chance = draw.betavariate(1.5 * mean, 1.5 * (1 - mean))
    return sum(draw.random() < chance for _ in range(5)) / 5


def coverage(
    score: Callable[[random.Random, float], float], count: int, mean: float, runs: int
) -> tuple[float, float, str]:
    """Share of intervals that hold the mean, their average width, and the commonest method."""
    draw = random.Random(count)
    held, width, methods = 0, 0.0, []
    for _ in range(runs):
        interval = mean_interval([score(draw, mean) for _ in range(count)])
        assert interval is not None
        held += interval.low <= mean <= interval.high
        width += interval.high - interval.low
        methods.append(interval.method)
    return held / runs, width / runs, max(set(methods), key=methods.count)


def main() -> None:
    """Print one line per kind of score, mean and number of samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    runs = parser.parse_args().runs
    print("scores    mean     n  coverage  width  commonest method")
    for score in (inflated, polls):
        for mean in MEANS:
            for count in COUNTS:
                held, width, method = coverage(score, count, mean, runs)
                print(f"{score.__name__:8}  {mean:4.2f}  {count:4}  {held:8.3f}  {width:5.3f}  {method}")


if __name__ == "__main__":
    main()
