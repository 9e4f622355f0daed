"""Drawing samples for people to label, at random with known probabilities, so that means can be calibrated."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import Any, Literal

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.reporting.labels import Label
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.calibrated import Calibrated, Scores, calibrated_mean
from ragmetrics_core.statistics.clusters import ClusterBy, key_of
from ragmetrics_core.statistics.rogan_gladen import corrected_mean

Correction = Literal["ppi", "rogan-gladen"]
"""How labels correct a mean: the scores themselves (PPI++), or verdicts from a threshold on (Rogan–Gladen)."""


def draw(report: Report, metric: str, count: int, *, seed: int, by_score: bool = False) -> list[dict[str, Any]]:
    """Draw scored samples at random, each with the same known probability.

    Args:
        report: A run; its samples need ids of their own.
        metric: Name of the metric whose mean is to be calibrated.
        count: How many to draw.
        seed: Of the draw.
        by_score: Draw evenly over the range of scores: systematically from the samples in order of their score,
            ties in random order. Every sample keeps the same probability.

    Returns:
        One row per drawn sample, in random order: id, empty ``label``, probability and seed, and what a person
        needs to judge it; no score, which would sway the person.

    Raises:
        InputError: If samples have no ids of their own.
        SettingError: If fewer samples are scored than are to be drawn, or none is to be drawn.
    """
    scored = scored_samples(report, metric)
    if not 1 <= count <= len(scored):
        raise SettingError(f"{len(scored)} samples are scored, so 1 to {len(scored)} can be drawn; asked for {count}")
    chance = random.Random(seed)  # noqa: S311 - sampling is no cryptography
    order = list(scored)
    chance.shuffle(order)
    if by_score:
        order.sort(key=lambda pair: pair[1])  # stable: ties stay in random order
        step, start = len(order) / count, chance.random()
        order = [order[int((start + place) * step)] for place in range(count)]
        chance.shuffle(order)
    return [_row(sample, count / len(scored), seed) for sample, _ in order[:count]]


def calibrate(
    report: Report, metric: str, labels: Sequence[Label], *, cluster: ClusterBy = "auto", assume_random: bool = False,
    method: Correction = "ppi", threshold: float = 0.5,
) -> Calibrated:  # fmt: skip
    """The mean label over all scored samples of a run, from labels that were drawn at random.

    Args:
        report: The run.
        metric: Name of the metric.
        labels: Labels, as ``draw`` drew them and people filled them in.
        cluster: Which samples belong together.
        assume_random: Take labels that no draw recorded, or that were filled in partly, for a random sample.
        method: ``"ppi"`` or ``"rogan-gladen"``.
        threshold: For Rogan–Gladen: scores from it on are a yes; fixed on other data.

    Raises:
        InputError: If the labels are no random sample by their own record, or none belongs to a scored sample; a
            ``NotCorrectable`` if Rogan–Gladen is undefined.
    """
    if not assume_random:
        check_random(labels)
    known = {label.id: label.yes for label in labels if label.votes}
    numbers: dict[Hashable, int] = {}
    sides: tuple[list[tuple[float, int]], list[tuple[float, int]]] = ([], [])
    truth: list[bool] = []
    for sample, score in scored_samples(report, metric):
        key = key_of(sample, cluster)
        number = -1 if key is None else numbers.setdefault(key, len(numbers))
        sides[sample.id not in known].append((score, number))
        if sample.id in known:
            truth.append(known[sample.id])
    own, others = (Scores([score for score, _ in side], [number for _, number in side]) for side in sides)
    if method == "rogan-gladen":
        return corrected_mean(truth, own, others, threshold=threshold)
    return calibrated_mean(truth, own, others)


def check_random(labels: Sequence[Label]) -> None:
    """Raise unless the labels are, by their own record, all that one draw drew."""
    empty = sum(not label.votes for label in labels)
    if empty:
        raise InputError(f"{empty} of {len(labels)} drawn samples have no label, and those may be the hard ones")
    if len({label.probability for label in labels}) != 1 or labels[0].probability is None:
        raise InputError(
            "a calibrated mean needs labels drawn at random: draw them with `ragmetrics label draw`, or say that "
            "they are a random sample (assume_random=True, --assume-random)"
        )


def scored_samples(report: Report, metric: str) -> list[tuple[Sample, float]]:
    """The scored samples of a run with their scores; each needs an id of its own."""
    pairs = zip(report.results, report.scores(metric), strict=True)
    found = [(row.sample, score) for row, score in pairs if row.sample is not None and score is not None]
    ids = [sample.id for sample, _ in found]
    if None in ids or len(set(ids)) < len(ids):
        raise InputError("every sample needs an id of its own to be labelled")
    return found


def _row(sample: Sample, probability: float, seed: int) -> dict[str, Any]:
    return {
        "id": sample.id,
        "label": None,
        "probability": probability,
        "seed": seed,
        "question": sample.question,
        "answer": sample.answer,
        "contexts": [context.text for context in sample.contexts],
        "reference": list(sample.reference),
    }
