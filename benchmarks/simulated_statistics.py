"""Coverage of every interval and error rates of every test, simulated on scores such as metrics give.

    python benchmarks/simulated_statistics.py [--runs 300]

Ties, zero inflation, means near the ends, clusters. Each line ends with the bound that
it must keep, less twice the standard error of the simulation; the exit code is 1 if one
is broken. (A file named statistics.py here would stand in for the standard library's
module in every script of this folder.)
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from math import sqrt

from simulated_labels import calibrated
from simulation import COVERAGE, POWER, TYPE_ONE, Measured, holds

from ragmetrics_core.statistics.means import (
    detectable,
    difference_interval,
    mean_interval,
    permutation,
)

Score = Callable[[random.Random, float], float]


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


def all_or_nothing(draw: random.Random, mean: float) -> float:
    """Near the top, but seven tenths of what is missing comes from zeros: the hardest case for a bootstrap."""
    zeros = (1 - mean) * 0.7
    rest = mean / (1 - zeros)
    return (
        0.0 if draw.random() < zeros else draw.betavariate(20 * rest, 20 * (1 - rest))
    )


def polls(draw: random.Random, mean: float) -> float:
    """A share of five polls, whose yes-probability differs between samples: many ties at 0 and 1."""
    return (
        sum(
            draw.random() < draw.betavariate(1.5 * mean, 1.5 * (1 - mean))
            for _ in range(5)
        )
        / 5
    )


def verdicts(draw: random.Random, mean: float) -> float:
    """A verdict, 0 or 1."""
    return float(draw.random() < mean)


def means(
    runs: int, counts: Sequence[int] = (5, 20, 50, 200, 400)
) -> Iterator[Measured]:
    """Coverage of the interval of a mean."""
    for score in (inflated, all_or_nothing, polls, verdicts):
        for mean in (0.5, 0.8, 0.95, 0.98):
            for count in counts:
                draw = random.Random(f"{score.__name__} {mean} {count}")
                held = sum(
                    holds(
                        mean_interval([score(draw, mean) for _ in range(count)]), mean
                    )
                    for _ in range(runs)
                )
                yield Measured(
                    f"mean of {count} {score.__name__}, true mean {mean}",
                    held / runs,
                    COVERAGE,
                    runs,
                )


def clustered(
    runs: int, counts: Sequence[int] = (5, 10, 20, 50, 200)
) -> Iterator[Measured]:
    """Coverage over clusters of one to seven samples that share their chance of a yes."""
    for mean in (0.5, 0.8, 0.95):
        for spread in (1.0, 5.0):
            for count in counts:
                draw = random.Random(f"{mean} {spread} {count}")
                held = 0
                for _ in range(runs):
                    values, keys = _clusters(draw, count, mean, spread)
                    held += holds(mean_interval(values, keys), mean)
                name = (
                    f"mean over {count} clusters, true mean {mean}, concentration"
                    f" {spread:g}"
                )
                yield Measured(name, held / runs, COVERAGE, runs)


def _clusters(
    draw: random.Random, count: int, mean: float, spread: float
) -> tuple[list[float], list[int]]:
    values, keys = [], []
    for key in range(count):
        chance = draw.betavariate(spread * mean, spread * (1 - mean))
        for _ in range(draw.randint(1, 7)):
            values.append(sum(draw.random() < chance for _ in range(5)) / 5)
            keys.append(key)
    return values, keys


_CHANGES = {
    "symmetric": (
        (-1.0, -0.4, -0.2, 0.2, 0.4, 1.0),
        (0.1, 0.15, 0.25, 0.25, 0.15, 0.1),
    ),
    "one-sided": ((-0.2, 0.2, 0.4, 1.0), (0.2, 0.3, 0.2, 0.3)),
}


def paired(runs: int, counts: Sequence[int] = (20, 50, 100, 400)) -> Iterator[Measured]:
    """Coverage of paired differences, most of them ties, and the permutation test's type-I error."""
    for kind, (steps, weights) in _CHANGES.items():
        for share in (0.05, 0.3, 0.9):
            truth = share * sum(
                step * weight for step, weight in zip(steps, weights, strict=True)
            )
            for count in counts:
                draw = random.Random(f"{kind} {share} {count}")
                held = rejected = 0
                for _ in range(runs):
                    changes = draw.choices(steps, weights, k=count)
                    values = [
                        step if draw.random() < share else 0.0 for step in changes
                    ]
                    held += holds(difference_interval(values), truth)
                    rejected += (
                        kind == "symmetric"
                        and permutation(values, [-1] * count).p <= TYPE_ONE
                    )
                name = f"{count} pairs, {share:.0%} changed, {kind}"
                yield Measured(f"difference: {name}", held / runs, COVERAGE, runs)
                if kind == "symmetric":
                    yield Measured(
                        f"false alarms: {name}",
                        rejected / runs,
                        TYPE_ONE,
                        runs,
                        at_least=False,
                    )


def clustered_test(runs: int) -> Iterator[Measured]:
    """Type-I error of the permutation test where whole clusters change together."""
    for count in (12, 40):
        draw = random.Random(count)
        rejected = 0
        for _ in range(runs):
            values, keys = [], []
            for key in range(count):
                shift = draw.gauss(0, 0.2)
                for _ in range(draw.randint(1, 7)):
                    values.append(max(-1.0, min(1.0, shift + draw.gauss(0, 0.1))))
                    keys.append(key)
            rejected += permutation(values, keys).p <= TYPE_ONE
        yield Measured(
            f"false alarms: {count} clusters that change together",
            rejected / runs,
            TYPE_ONE,
            runs,
            False,
        )


def planted(runs: int) -> Iterator[Measured]:
    """How often a planted difference of the size called detectable is found."""
    for count in (50, 200):
        draw = random.Random(count)
        spread = 0.2
        shift = detectable(spread / sqrt(count))
        found = 0
        for _ in range(runs):
            values = [
                max(-1.0, min(1.0, draw.gauss(shift, spread))) for _ in range(count)
            ]
            found += permutation(values, [-1] * count).p <= TYPE_ONE
        yield Measured(
            f"planted difference of {shift:.3f} found, {count} pairs",
            found / runs,
            POWER - 0.03,
            runs,
        )


def main() -> int:
    """Print one line per setting; 1 if a bound is broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=300, help="simulated data sets per setting (300)"
    )
    runs = parser.parse_args().runs
    broken = 0
    for section in (
        means,
        clustered,
        paired,
        clustered_test,
        planted,
        calibrated,
    ):
        for measured in section(runs):
            print(measured, flush=True)
            broken += not measured.kept
    print(f"{broken} bounds broken")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
