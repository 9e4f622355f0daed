"""Scoring one sample with one metric, behind ``Metric.score`` and ``Metric.ascore``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.endpoints.store import resolve_store
from ragmetrics_core.engine.carrying import RunJudge, carry_out
from ragmetrics_core.engine.loop import run, submit
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.metric import Metric, Outcome

_store = lru_cache(maxsize=8)(resolve_store)  # one for all calls while RAGMETRICS_STORE names the same file
_READ = ("question", "contexts", "retrieved", "answer", "reference", "facts")  # what metrics read


def score_one(metric: Metric, sample: Sample | None, fields: Mapping[str, Any], judge: Judge | str | None) -> Outcome:
    """Score one sample and wait; see ``Metric.score``."""
    return run(_score(metric, _one_sample(sample, fields), judge))


async def ascore_one(
    metric: Metric, sample: Sample | None, fields: Mapping[str, Any], judge: Judge | str | None
) -> Outcome:
    """Score one sample without blocking the caller's loop; see ``Metric.ascore``."""
    return await asyncio.wrap_future(submit(_score(metric, _one_sample(sample, fields), judge)))


async def _score(metric: Metric, sample: Sample, judge: Judge | str | None) -> Outcome:
    if metric.needs_others:
        raise SettingError(
            f"{metric.name} as set here takes contexts of other questions (controls=1), and score() sees one: "
            "give control_contexts=, or use evaluate() with several samples"
        )
    named = os.environ.get("RAGMETRICS_STORE")
    store = _store(named) if named else None
    asked = RunJudge(resolve_judge(judge, metric_model=metric.model).session(concurrency=32, store=store))
    try:
        outcome = await carry_out(metric, sample, asked)
    finally:
        if store is not None:
            await asyncio.to_thread(store.flush)
    if asked.unavailable is not None:
        raise asked.unavailable
    return outcome


def _one_sample(sample: Sample | None, fields: Mapping[str, Any]) -> Sample:
    if sample is not None:
        if fields:
            raise SettingError(f"give a sample or its fields, not both: {', '.join(fields)}")
        return sample
    own = fields.get("metadata") or {}
    if not isinstance(own, Mapping):
        raise SettingError(f"metadata must be a mapping of your own data, got {type(own).__name__}")
    made = Sample.from_row({name: value for name, value in fields.items() if name != "metadata"})
    if made.metadata:
        raise SettingError(
            f"no field of a sample is named {', '.join(made.metadata)}; use question, contexts, answer, reference"
        )
    if unread := [name for name in _READ if name in own and made.missing(name)]:
        raise SettingError(
            f"metadata holds {', '.join(unread)}, but metadata is yours and no metric reads it; "
            f"give {unread[0]}= as an argument of its own"
        )
    return made.model_copy(update={"metadata": {str(name): value for name, value in own.items()}})
