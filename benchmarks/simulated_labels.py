"""What labels of people make of scores, simulated: calibrated means.

``simulated_statistics.py`` runs it with the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from simulation import COVERAGE, Measured, holds

from ragmetrics_core.statistics.corrected_means import (
    Scores,
    ppi,
)


def calibrated(
    runs: int, counts: Sequence[int] = (30, 50, 100, 200)
) -> Iterator[Measured]:
    """Coverage of calibrated means: good, bad and constant judges, alone and in clusters of two."""
    for size in (1, 2):
        for judge in ("good", "bad", "constant"):
            for mean in (0.5, 0.8, 0.9, 0.95):
                for count in counts:
                    draw = random.Random(f"{size} {judge} {mean} {count}")
                    held = sum(
                        _calibration(draw, judge, mean, count, size)
                        for _ in range(runs)
                    )
                    name = (
                        f"calibrated, {judge} judge, {count} labels, true mean {mean},"
                        f" clusters of {size}"
                    )
                    yield Measured(name, held / runs, COVERAGE, runs)


def _calibration(
    draw: random.Random, judge: str, mean: float, count: int, size: int
) -> bool:
    labels, scores, keys = [], [], []
    for key in range((count + 500) // size):
        chance = draw.betavariate(4 * mean, 4 * (1 - mean))
        for _ in range(size):
            label = draw.random() < chance
            good = min(1.0, max(0.0, 0.8 * label + 0.1 + draw.gauss(0, 0.1)))
            scores.append({"good": good, "bad": draw.random(), "constant": 0.7}[judge])
            labels.append(label)
            keys.append(key if size > 1 else -1)
    own, rest = (
        Scores(scores[:count], keys[:count]),
        Scores(scores[count:], keys[count:]),
    )
    return holds(ppi(labels[:count], own, rest).interval, mean)
