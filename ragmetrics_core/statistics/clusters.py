"""Samples that belong together, such as the turns of one conversation, and intervals that know it."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.statistics.statistics import Interval, sd, t_quantile

ClusterBy = str | Callable[[Sample], object] | None
"""What tells which samples belong together: a name or dotted path of the sample or its metadata, a callable that
gets the sample, ``"auto"``, or None for samples that are independent."""

CAPTURED = (
    *("conversation_id", "conversation", "session_id", "thread_id", "chat_id"),
    *("document_id", "source_document"),
)
"""Keys of a sample's metadata that ``"auto"`` looks for, the first that is there."""

FEWEST = 20
"""Under so many clusters an interval is a rough guide, and the report says so."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """An interval over clusters.

    Args:
        interval: The interval.
        clusters: Number of clusters.
        design_effect: Variance of the mean with clusters over that without; None if the scores do not vary.
        error: Standard error of the mean with clusters, nothing added.
    """

    interval: Interval
    clusters: int
    design_effect: float | None
    error: float


def key_of(sample: Sample, by: ClusterBy) -> Hashable | None:
    """What a sample is grouped by.

    Args:
        sample: The sample.
        by: A name or dotted path (``"conversation_id"``, ``"metadata.user.id"``), a callable, ``"auto"`` or None.

    Returns:
        The key; None for a sample without one, which then stands alone.
    """
    if by is None:
        return None
    if callable(by):
        return _hashable(by(sample))
    if by == "auto":
        names = (name for name in CAPTURED if sample.metadata.get(name) is not None)
        return next((f"{name}={_hashable(sample.metadata[name])}" for name in names), None)
    if not by:
        raise SettingError('cluster= takes a name, a path, a callable, "auto" or None; got ""')
    found = _at(sample.metadata, by.removeprefix("metadata.").split("."))
    if found is None and by in Sample.model_fields:
        found = getattr(sample, by)
    return _hashable(found)


def _at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _hashable(value: object) -> Hashable | None:
    if value is None or isinstance(value, Hashable):
        return value
    return json.dumps(value, sort_keys=True, default=str)


def cluster_interval(
    values: Sequence[float], keys: Sequence[int], *, level: float = 0.95, ends: tuple[float, float] = (0.0, 1.0),
    added: int = 2,
) -> Clustered:  # fmt: skip
    """Interval of a mean whose values come in clusters: t over clusters, after adding some at both ends.

    Args:
        values: Values between the ends.
        keys: Per value the number of its cluster; a negative number makes a cluster of its own.
        level: Confidence level.
        ends: Lowest and highest possible value.
        added: Clusters of average size added at each end, so that near an end and with few clusters the interval
            still covers. Resampling clusters covers .66 of the means with 10 clusters and .89 with 50 at mean
            .95; this covers at least .92 everywhere (``benchmarks/statistics.py``).

    Returns:
        The interval, cut to the ends, with the number of clusters and the design effect.

    Source:
        Linearised variance of a ratio mean: Cochran (1977), Sampling Techniques, 3rd ed., section 9A.2.
    """
    centre, error, _ = ratio_mean(values, keys)
    count = len(grouped(values, keys)[0])
    middle, wide, freedom = ratio_mean(values, keys, added=[end for end in ends for _ in range(added)])
    half = t_quantile(0.5 + level / 2, freedom) * wide
    alone = (sd(values) or 0.0) / sqrt(len(values))
    name = f"t over {count} clusters, {added} added at {ends[0]:g} and {added} at {ends[1]:g}"
    interval = Interval(
        max(ends[0], min(centre, middle - half)), min(ends[1], max(centre, middle + half)), name
    )  # fmt: skip
    return Clustered(interval, count, (error / alone) ** 2 if alone > 0 else None, error)


def grouped(values: Sequence[float], keys: Sequence[int]) -> tuple[list[float], list[float]]:
    """Sum and size of each cluster; a value with a negative key is a cluster of its own."""
    found: dict[int, list[float]] = {}
    for place, (value, key) in enumerate(zip(values, keys, strict=True)):
        found.setdefault(key if key >= 0 else -1 - place, []).append(value)
    return [fsum(own) for own in found.values()], [float(len(own)) for own in found.values()]


def ratio_mean(
    values: Sequence[float], keys: Sequence[int], *, added: Sequence[float] = ()
) -> tuple[float, float, int]:  # fmt: skip
    """Mean over all values, its standard error over clusters (0 for one cluster), degrees of freedom.

    Args:
        values: The values.
        keys: Number of each value's cluster, negative for one of its own.
        added: Values of clusters to add, each of average size.
    """
    sums, sizes = grouped(values, keys)
    typical = len(values) / len(sizes)
    sums, sizes = [*sums, *(value * typical for value in added)], [*sizes, *[typical] * len(added)]
    count, total = len(sums), fsum(sizes)
    centre = fsum(sums) / total
    squares = fsum((own - centre * size) ** 2 for own, size in zip(sums, sizes, strict=True))
    error = sqrt(squares * count / (count - 1)) / total if count > 1 else 0.0
    return centre, error, max(1, count - 1)
