"""What a prompt costs to render, and that no work of a sample is quadratic in its contexts, facts or their length.

    uv run benchmarks/rendering.py

Plan, prompts and replies of one sample after the other, with a model that replies at
once: CPU time, the best of a few. Ten times the input may take twelve times as long.
The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from goals import Rows, at_most
from instant_models import Instant

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LLMJudge,
    Metric,
    RetrievalAccuracy,
    Sample,
)
from ragmetrics_core.data.asking import Part
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.judging.rendering import render

GROWTH = 12.0
"""What ten times the input may cost at most."""

_REPEATS = 3
_ENOUGH = 2.0

USEFUL = '{"useful": 1, "reason": "It says so."}'
ADHERENT = '{"reason": "It says so.", "supported": 1, "claims": 1, "unsupported": []}'
RATED = '{"reason": "It says so.", "score": 0.5}'


def _listed(name: str, verdict: str, shown: Part) -> str:
    return json.dumps(
        {
            name: [
                {"label": label, verdict: 1, "reason": "It says so."}
                for label in shown.labels
            ]
        }
    )


@dataclass(frozen=True)
class Case:
    """A metric with settings.

    Args:
        name: Name of the row.
        metric: The metric.
        reply: The reply to every question, for a number of contexts and of facts.
        most: Most contexts of a sample; few for the expectation over p(useful), which
            takes n² steps of 0.1 µs.
        by_facts: Whether facts are judged.
        logprobs: Whether the model gives log-probabilities.
    """

    name: str
    metric: Metric
    reply: Callable[[int, int], str]
    most: int = 1000
    by_facts: bool = False
    logprobs: bool = False


CASES = (
    Case("utilization", ContextUtilization(), lambda *_: USEFUL),
    Case(
        "utilization listwise",
        ContextUtilization(judging="listwise"),
        lambda contexts, _: _listed(
            "chunks", "useful", Part("Chunk", ("",) * contexts, "letters")
        ),
    ),
    Case(
        "utilization, probability",
        ContextUtilization(relevance="probability"),
        lambda *_: USEFUL,
        most=100,
    ),
    Case("adherence", ContextAdherence(), lambda *_: ADHERENT),
    Case("recall", ContextRecall(), lambda *_: RATED),
    Case(
        "accuracy per fact",
        RetrievalAccuracy(),
        lambda *_: '{"covered": 1}',
        by_facts=True,
        logprobs=True,  # without them a model is asked per context
    ),
    Case(
        "accuracy per context",
        RetrievalAccuracy(calls="per_context"),
        lambda _, facts: _listed(
            "facts", "covered", Part("Facts", ("",) * facts, "lines")
        ),
        by_facts=True,
    ),
)


def sample(contexts: int = 5, facts: int = 10, length: int = 300) -> Sample:
    """A sample with different contexts of one length."""
    return Sample(
        question="Which parts does the thing have?",
        contexts=[
            f"{number}. {'It has a part. ' * (length // 15 + 1)}"[:length]
            for number in range(contexts)
        ],
        answer="It has parts.",
        reference="It has several parts.",
        facts=[f"It has part {number}." for number in range(facts)],
    )


def best(work: Callable[[], object]) -> float:
    """CPU seconds, the best of a few runs; of one where that takes long."""
    runs: list[float] = []
    while len(runs) < _REPEATS and sum(runs) < _ENOUGH:
        started = time.process_time()
        work()
        runs.append(time.process_time() - started)
    return min(runs)


def whole(case: Case, contexts: int, facts: int = 10) -> float:
    """Seconds for plan, prompts and replies of one sample, question by question."""
    judge, given = (
        LLMJudge(Instant(case.reply(contexts, facts), logprobs=case.logprobs)),
        sample(contexts, facts),
    )
    return best(
        lambda: asyncio.run(
            _carried_out(case.metric, given, judge.session(concurrency=1, store=None))
        )
    )


async def _carried_out(metric: Metric, given: Sample, judge: Judge) -> None:
    plan = metric.plan(given)
    batch = next(plan)
    while True:
        replies = [(await judge.answer(question)).reply for question in batch]
        try:
            batch = plan.send(tuple(replies))
        except StopIteration as stop:
            outcome = stop.value
            break
    assert outcome.status == "scored", outcome.reason


def rendered(metric: Metric, given: Sample, times: int) -> tuple[float, int]:
    """Seconds to render each prompt of a sample's first round so many times, and how many prompts that are."""
    plan = metric.plan(given)
    questions = next(plan)
    plan.close()
    return best(
        lambda: [render(question) for _ in range(times) for question in questions]
    ), times * len(questions)


def growth(
    shown: Rows, name: str, sizes: Sequence[int], measure: Callable[[int], float]
) -> None:
    """Print how time grows from size to size, each ten times the one before."""
    seconds = [measure(size) for size in sizes]
    ratios = [after / before for before, after in pairwise(seconds)]
    times, grown = (
        ", ".join(f"{1000 * one:.3g}" for one in seconds),
        ", ".join(f"× {ratio:.1f}" for ratio in ratios),
    )
    shown.add(
        f"rendering: {name}: {', '.join(map(str, sizes))}: {times} ms, {grown}",
        at_most(max(ratios), GROWTH, " for 10 times as much"),
    )


def main() -> int:
    """Print the rows; 1 if a goal is missed."""
    shown = Rows()
    prompts = {"utilization": ContextUtilization(), "adherence": ContextAdherence()}
    for name, metric in prompts.items():
        seconds, count = rendered(metric, sample(), 200)
        shown.add(
            f"rendering: {name}, 5 contexts of 300 characters:"
            f" {1e6 * seconds / count:.0f} µs per prompt"
        )
    for name, metric in prompts.items():
        growth(
            shown,
            f"prompts of {name}, characters per context",
            (300, 3_000, 30_000),
            lambda length, metric=metric: rendered(metric, sample(length=length), 20)[
                0
            ],
        )
    for case in CASES:
        sizes = [size for size in (10, 100, 1000) if size <= case.most]
        growth(
            shown,
            f"{case.name}, contexts",
            sizes,
            lambda size, case=case: whole(case, size),
        )
        if case.by_facts:
            growth(
                shown,
                f"{case.name}, facts",
                (10, 100),
                lambda size, case=case: whole(case, 10, size),
            )
    return shown.code


if __name__ == "__main__":
    sys.exit(main())
