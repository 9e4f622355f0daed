"""What labels of people make of scores, simulated: calibrated means and certified thresholds.

``simulated_statistics.py`` runs it with the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from simulation import COVERAGE, POWER, TYPE_ONE, Measured, holds

from ragmetrics_core.statistics.certification import certify
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


def certified(
    runs: int, counts: Sequence[int] = (40, 100, 200, 400)
) -> Iterator[Measured]:
    """How often a threshold is certified from which on too few scores are right, and how often a good one is found.

    ``flat``: the precision lies just below the target at every threshold, the worst
    case. ``rising``: it crosses the target at the score .6. ``jagged``: it falls below
    the target at the top, too. ``good``: .99 from .5 on.
    """
    for target in (0.8, 0.9, 0.95):
        for kind in ("flat", "rising", "jagged", "good"):
            for count in counts:
                draw = random.Random(f"{target} {kind} {count}")
                wrong = found = 0
                for _ in range(runs):
                    rows = _population(draw, kind, target)
                    step = certify(
                        draw.sample(rows, count), [score for score, _ in rows], target
                    ).step
                    above = [
                        label
                        for score, label in rows
                        if step is not None and score >= step.threshold
                    ]
                    found += bool(above)
                    wrong += sum(above) < target * len(above)
                name = f"certified, {kind}, {count} labels, precision {target}"
                if kind == "good" and count == max(counts) and target < 0.95:
                    yield Measured(f"{name}: found", found / runs, POWER, runs)
                yield Measured(
                    f"{name}: falsely", wrong / runs, TYPE_ONE, runs, at_least=False
                )


def _population(
    draw: random.Random, kind: str, target: float, size: int = 600
) -> list[tuple[float, bool]]:
    scores = [draw.random() for _ in range(size)]
    # one wrong score in every 1 / (1 − target), and one more at the very top
    if kind == "flat":
        gap = round(1 / (1 - target))
        ordered = sorted(scores, reverse=True)
        return [
            (score, place % gap != 0 and place != 1)
            for place, score in enumerate(ordered)
        ]
    slope = {
        "rising": lambda score: target + (1 - target) * (2 * score - 1.6) / 1.0,
        "jagged": lambda score: target - 0.03 + 0.06 * (0.5 < score < 0.8),
        "good": lambda score: 0.99 if score >= 0.5 else 0.3,
    }[kind]
    return [(score, draw.random() < slope(score)) for score in scores]
