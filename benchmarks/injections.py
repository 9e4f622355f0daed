"""Contexts that give the judge orders: how many verdicts flip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from labelled import Row, sample_of

from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.labelling.measured_judges import ORDERS as KINDS
from ragmetrics_core.labelling.measured_judges import add_order
from ragmetrics_core.metrics.context_adherence import ContextAdherence

if TYPE_CHECKING:
    from judge_quality import Bench

FLIPPED = "Verdicts flipped by one more context: "


def flip_rates(bench: Bench, judged: Mapping[str, Sequence[tuple[Row, bool]]]) -> None:
    """Print which share of the verdicts on adherence flips after each kind of context was added.

    Args:
        bench: The judge under test.
        judged: Per source the rows with the judge's verdict on each.
    """
    for kind in KINDS:
        flipped: dict[str, list[bool]] = {}
        for source, pairs in judged.items():
            samples = [
                add_order(kind, sample_of(row), verdict) for row, verdict in pairs
            ]
            for (_, verdict), result in zip(
                pairs, bench.results(ContextAdherence(), samples), strict=True
            ):
                if result.value is not None:
                    flipped.setdefault(source, []).append(
                        is_yes(result.value) != verdict
                    )
        bench.table(f"{FLIPPED}{kind}", flipped, {"share": fmean})
        every = [one for own in flipped.values() for one in own]
        if every:
            bench.say(
                f"  {'of all verdicts':22} n={len(every):<4} share {fmean(every):.3f}"
            )
