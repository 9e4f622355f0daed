"""Scoring one sample with one metric, behind ``Metric.score`` and ``Metric.ascore``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.engine.carrying import Seat, carry_out
from ragmetrics_core.engine.loop import submit
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import Metric, Outcome

_CONCURRENCY = 32


def score_one(metric: Metric, sample: Sample | None, fields: Mapping[str, Any], judge: Judge | str | None) -> Outcome:
    """Score one sample and wait; see ``Metric.score``."""
    return submit(_score(metric, _one_sample(sample, fields), judge)).result()


async def ascore_one(
    metric: Metric, sample: Sample | None, fields: Mapping[str, Any], judge: Judge | str | None
) -> Outcome:
    """Score one sample without blocking the caller's loop; see ``Metric.ascore``."""
    return await asyncio.wrap_future(submit(_score(metric, _one_sample(sample, fields), judge)))


async def _score(metric: Metric, sample: Sample, judge: Judge | str | None) -> Outcome:
    session = resolve_judge(judge, metric_model=metric.model).session(concurrency=_CONCURRENCY, store=None)
    seat = Seat(session)
    outcome = await carry_out(metric.prepare([sample]), sample, seat)
    if seat.unavailable is not None:
        raise seat.unavailable
    return outcome


def _one_sample(sample: Sample | None, fields: Mapping[str, Any]) -> Sample:
    if sample is not None:
        if fields:
            raise SettingError(f"give a sample or its fields, not both: {', '.join(fields)}")
        return sample
    made = Sample.from_row(fields)
    unknown = [name for name in made.metadata if name in fields]
    if unknown:
        raise SettingError(
            f"no field of a sample is named {', '.join(unknown)}; use question, contexts, answer, reference"
        )
    return made
