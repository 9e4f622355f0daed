"""Which samples of two runs are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.reporting.comparability import Pair
from ragmetrics_core.statistics.clusters import ClusterBy, key_of


def match(
    first: Sequence[SampleResult], second: Sequence[SampleResult]
) -> tuple[list[Pair], Literal["id", "question"]]:  # fmt: skip
    """Match the samples of two runs by id where every one has its own, else by question in order of occurrence.

    Raises:
        InputError: If nothing matches.
    """
    sides = [[row for row in rows if row.sample is not None] for rows in (first, second)]
    ids = [[row.sample.id for row in side if row.sample] for side in sides]
    by_id = all(None not in own and len(set(own)) == len(own) for own in ids)
    keyed = [_keyed(side, by_id=by_id) for side in sides]
    pairs = [(row, keyed[1][key]) for key, row in keyed[0].items() if key in keyed[1]]
    by: Literal["id", "question"] = "id" if by_id else "question"
    if not pairs:
        raise InputError(f"the two runs have no sample in common (matched by {by}); compare runs over the same samples")
    return pairs, by


def _keyed(rows: Sequence[SampleResult], *, by_id: bool) -> dict[tuple[str, int], SampleResult]:
    found: dict[tuple[str, int], SampleResult] = {}
    seen: dict[str, int] = {}
    for row in rows:
        text = row.sample and (row.sample.id if by_id else row.sample.question)
        if text:
            seen[text] = seen.get(text, -1) + 1
            found[text, seen[text]] = row
    return found


@dataclass(frozen=True, slots=True)
class Part:
    """Pairs of samples, and how many rows of either run have no partner."""

    pairs: Sequence[Pair]
    alone: int


def sliced(pairs: Sequence[Pair], alone: Sequence[SampleResult], slices: ClusterBy) -> dict[str, Part]:
    """The pairs of each slice, by its value as text; rows without a value are in none."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        key = key_of(pair[0].sample, slices) if pair[0].sample else None
        if key is not None:
            found.setdefault(str(key), []).append(pair)
    keys = Counter(str(key_of(row.sample, slices)) for row in alone if row.sample)
    return {key: Part(own, keys[key]) for key, own in sorted(found.items())}
