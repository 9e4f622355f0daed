"""Calls and tokens per sample for each metric and mode, and what prompts of one sample have in common.

    uv run benchmarks/cost.py

A sample with 5 chunks of 300 characters. Tokens are estimated at four characters each.
The common prefix of a call is the longest one that another call of the sample has as
well. Of it a provider's prompt cache, empty at first, can serve what an earlier call
had. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from goals import Goal, Rows, at_least, at_most
from instant_models import Recording, RecordingDecisions

from ragmetrics_core import (
    Context,
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Fact,
    LLMJudge,
    Metric,
    RetrievalAccuracy,
    Sample,
    evaluate,
)
from ragmetrics_core.data.citations import citations_of_marks
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.metrics.answer_relevance import AnswerRelevance
from ragmetrics_core.metrics.citation_quality import CitationQuality
from ragmetrics_core.metrics.context_sufficiency import ContextSufficiency

_WORDS = (
    "The harbour office of the old town keeps a ledger of every ship that came in, of"
    " its cargo and of its master, and of the dues that were paid for the berth. Each"
    " entry was signed by two clerks, one of whom was sworn in by the council; copies"
    " went to the customs house on the first day of each month, bound in grey. "
)
SAMPLE = Sample.from_row(
    {
        "question": (
            "Who signed the entries of the ledger, and where did the copies go?"
        ),
        "contexts": [f"{number}. {_WORDS}"[:300] for number in range(5)],
        "answer": (
            "Each entry was signed by two clerks. Copies went to the customs house each"
            " month."
        ),
        "reference": (
            "Two clerks signed each entry. One of them was sworn in by the council. "
            "Copies went to the customs house every month."
        ),
    }
)


OTHER_CONTEXTS = SAMPLE.model_copy(
    update={
        "contexts": tuple(
            Context(text=f"{number}. {_WORDS}"[:300]) for number in range(5, 10)
        )
    }
)
FACTS = SAMPLE.model_copy(
    update={
        "facts": tuple(
            Fact(text=f"{text}.") for text in SAMPLE.reference[0].split(". ")
        )
    }
)
REFERENCES = SAMPLE.model_copy(
    update={"reference": (*SAMPLE.reference, "Two clerks.", "Customs got copies.")}
)


def citing(answer: str) -> Sample:
    """The sample with an answer that cites its contexts by their numbers."""
    numbering = {str(place): place for place in range(5)}
    return SAMPLE.model_copy(
        update={"answer": answer, "citations": citations_of_marks(answer, numbering)}
    )


CITING = citing(
    "Each entry was signed by two clerks [0]. Copies went to the customs house each"
    " month [1]."
)
CITING_TWICE = citing(
    "Each entry was signed by two clerks [0][2]. Copies went to the customs house each"
    " month [1][3]. They were bound in grey."
)
UNCITED = citing(SAMPLE.answer or "")


@dataclass(frozen=True)
class Mode:
    """A metric with settings, and what it may cost.

    Args:
        name: Name of the row.
        metric: The metric.
        sample: What is judged.
        model: What the model can do, and says of adherence.
        tokens: Most prompt tokens, where that is a goal.
        prefix: Least share of the prompts that is a common prefix, where that is a
            goal.
    """

    name: str
    metric: Metric
    sample: Sample = SAMPLE
    model: Mapping[str, Any] = field(default_factory=dict)
    prefix: float | None = None

    def goals(self, prompts: Sequence[str]) -> Iterator[Goal]:
        """The goals of this mode, for what was recorded."""
        if self.prefix is not None:
            yield at_least(100 * common(prompts), 100 * self.prefix, " % common prefix")


ALONE, WEIGHED, LOW = (
    {"together": False},
    {"logprobs": True},
    {"verdict": "no"},
)
MODES = (
    Mode(
        "utilization pointwise",
        ContextUtilization(),
    ),
    Mode(
        "utilization listwise",
        ContextUtilization(judging="listwise"),
    ),
    Mode(
        "utilization, probability from log-probabilities",
        ContextUtilization(relevance="probability"),
        model=WEIGHED,
    ),
    Mode(
        "utilization, probability from 5 polls",
        ContextUtilization(relevance="probability"),
    ),
    Mode(
        "utilization, probability from 5 polls without n",
        ContextUtilization(relevance="probability"),
        model=ALONE,
    ),
    Mode("utilization against the reference", ContextUtilization(against="reference")),
    Mode("adherence, 5 polls", ContextAdherence()),
    Mode("adherence, 5 polls without n", ContextAdherence(), model=ALONE, prefix=0.75),
    Mode(
        "adherence, early_stop without n",
        ContextAdherence(early_stop=True),
        model=ALONE,
    ),
    Mode("adherence, low score with its cause", ContextAdherence(), model=LOW),
    Mode(
        "adherence, low score without cause", ContextAdherence(cause=False), model=LOW
    ),
    Mode("recall", ContextRecall()),
    Mode("recall, 3 references", ContextRecall(), REFERENCES),
    Mode(
        "accuracy per fact, log-probabilities",
        RetrievalAccuracy(),
        model=WEIGHED,
        prefix=0.75,
    ),
    Mode(
        "accuracy, a model without log-probabilities: per context",
        RetrievalAccuracy(),
    ),
    Mode(
        "accuracy per fact, facts given by the sample",
        RetrievalAccuracy(),
        FACTS,
        WEIGHED,
        prefix=0.75,
    ),
    Mode(
        "accuracy per fact, extraction cot",
        RetrievalAccuracy(extraction="cot"),
        model=WEIGHED,
        prefix=0.75,
    ),
    Mode("accuracy per context", RetrievalAccuracy(calls="per_context"), model=WEIGHED),
    Mode(
        "sufficiency, log-probabilities",
        ContextSufficiency(),
        model=WEIGHED,
    ),
    Mode("sufficiency, 5 polls", ContextSufficiency()),
    Mode("sufficiency, 5 polls without n", ContextSufficiency(), model=ALONE),
    Mode(
        "sufficiency without asking whether the answer declines",
        ContextSufficiency(declining=False),
        model=WEIGHED,
    ),
    Mode(
        "relevance",
        AnswerRelevance(),
    ),
    Mode(
        "citations, one for each of 2 sentences",
        CitationQuality(),
        CITING,
        WEIGHED,
    ),
    Mode(
        "citations, two for each of 2 sentences and one sentence without",
        CitationQuality(),
        CITING_TWICE,
        WEIGHED,
    ),
    Mode(
        "citations, none where the prompt numbered its sources",
        CitationQuality(),
        UNCITED,
    ),
)


def _prefix(one: str, other: str) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def common(prompts: Sequence[str]) -> float:
    """Share of the prompts' characters that is a prefix of another prompt of the sample."""
    shared = sum(
        max(
            (
                _prefix(prompt, other)
                for at, other in enumerate(prompts)
                if at != number
            ),
            default=0,
        )
        for number, prompt in enumerate(prompts)
    )
    return shared / sum(map(len, prompts))


def cached(prompts: Sequence[str]) -> float:
    """Share of the prompts' characters that is a prefix of an earlier prompt of the sample."""
    shared = sum(
        max(_prefix(prompts[at], earlier) for earlier in prompts[:at])
        for at in range(1, len(prompts))
    )
    return shared / sum(map(len, prompts))


def recorded(
    metric: Metric, sample: Sample = SAMPLE, **model: Any
) -> tuple[Usage, list[str]]:
    """What one sample costs, and its prompts."""
    recording = Recording(**model)
    result = metric.score(sample, judge=LLMJudge(recording))
    assert result.status == "scored", result.reason
    return result.usage, recording.prompts


def spent(
    samples: Sequence[Sample], metrics: Sequence[Metric], store: Path | None = None
) -> Usage:
    """What a run costs."""
    report = evaluate(
        samples,
        metrics,
        judge=LLMJudge(Recording()),
        store=store or False,
        progress=False,
    )
    assert report.summary().judged == len(samples)
    return report.usage


def saved(shown: Rows) -> None:
    """Print what is not paid twice: facts of one reference, equal samples, a run that was made before."""
    accuracy = [RetrievalAccuracy()]
    one, other = (
        spent([SAMPLE], accuracy).calls,
        spent([OTHER_CONTEXTS], accuracy).calls,
    )
    both = spent([SAMPLE, OTHER_CONTEXTS], accuracy).calls
    once, twice = spent([SAMPLE], METRICS).calls, spent([SAMPLE, SAMPLE], METRICS).calls
    with TemporaryDirectory() as folder:
        first, second = (
            spent([SAMPLE], METRICS, Path(folder, "replies.sqlite")) for _ in range(2)
        )
    shown.add(
        "cost: accuracy of two samples with one reference, whose facts are reused:"
        f" {both} calls, {one + other} apart",
        at_most(both, one + other - 1, " calls"),
    )
    shown.add(
        f"cost: an equal sample in the same run, 4 metrics: {twice - once} calls more"
        f" than {once}",
        at_most(twice - once, 0, " calls"),
    )
    shown.add(
        f"cost: a second run with a store, 4 metrics: {second.calls} calls after"
        f" {first.calls}, {second.stored} stored",
        at_most(second.calls, 0, " calls"),
    )


LISTWISE = ContextUtilization(judging="listwise")
TYPED: Mapping[str, tuple[Metric, ...]] = {
    "utilization listwise": (LISTWISE,),
    "utilization pointwise": (ContextUtilization(),),
    "adherence": (ContextAdherence(),),
    "utilization listwise and adherence": (LISTWISE, ContextAdherence()),
    "recall": (ContextRecall(),),
    "accuracy per context": (RetrievalAccuracy(calls="per_context"),),
    "accuracy per fact": (RetrievalAccuracy(),),
    "sufficiency": (ContextSufficiency(),),
    "relevance": (AnswerRelevance(),),
    "sufficiency and relevance": (ContextSufficiency(), AnswerRelevance()),
    "citations, one for each of 2 sentences": (CitationQuality(),),
    "four metrics": (
        LISTWISE,
        ContextAdherence(),
        ContextRecall(),
        RetrievalAccuracy(calls="per_context"),
    ),
}


def decided(shown: Rows) -> None:
    """Print what typed questions cost, with facts given by the sample."""
    for name, metrics in TYPED.items():
        model = RecordingDecisions()
        sample = CITING if name.startswith("citations") else FACTS
        report = evaluate(
            [sample], metrics, judge=DecisionJudge(model), store=False, progress=False
        )
        usage = report.usage
        goals = []
        if name == "four metrics":
            goals = [
                at_most(usage.calls, 8, " requests"),
                at_most(usage.prompt_tokens, 4_700, " tokens"),
            ]
        shown.add(
            f"cost: typed questions, {name}: {usage.calls} requests,"
            f" {usage.prompt_tokens} tokens, ${usage.cost:.6f}",
            *goals,
        )


METRICS = (
    ContextUtilization(),
    ContextAdherence(),
    ContextRecall(),
    RetrievalAccuracy(),
)


def plain(shown: Rows) -> None:
    """Print what four metrics cost at an endpoint without n and log-probabilities."""
    recording = Recording(**ALONE)
    report = evaluate(
        [SAMPLE], METRICS, judge=LLMJudge(recording), store=False, progress=False
    )
    usage = report.usage
    shown.add(
        "cost: four metrics, an endpoint without n and log-probabilities:"
        f" {usage.calls} requests, {usage.prompt_tokens} prompt tokens,"
        f" {usage.completion_tokens} completion tokens",
        at_most(usage.calls, 17, " requests"),
    )


def main() -> int:
    """Print one row per metric and mode, and what is saved; 1 if a goal is missed."""
    shown = Rows()
    for mode in MODES:
        usage, prompts = recorded(mode.metric, mode.sample, **mode.model)
        shown.add(
            f"cost: {mode.name}: {usage.calls} calls, {usage.prompt_tokens} prompt"
            f" tokens, {usage.completion_tokens} completion tokens{_prefixes(prompts)}",
            *mode.goals(prompts),
        )
    plain(shown)
    saved(shown)
    decided(shown)
    return shown.code


def _prefixes(prompts: Sequence[str]) -> str:
    if len(prompts) < 2:
        return ""
    return (
        f", common prefix {common(prompts):.0%}, {cached(prompts):.0%} from an earlier"
        " call"
    )


if __name__ == "__main__":
    sys.exit(main())
