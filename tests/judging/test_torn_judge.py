"""A judge that is torn: each metric that claims a probability gives that of the judge.

The model draws each verdict anew, yes with the probability p. The mean of the scores of
200 samples has to be p, and a score between 0 and 1 tells that the judge is torn.
"""

import json
import random
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest
from chat_models import weighed_tokens
from lanes import crossed

from ragmetrics_core import (
    CitationQuality,
    ContextAdherence,
    ContextSufficiency,
    ContextUtilization,
    LLMJudge,
    Metric,
    RetrievalAccuracy,
    evaluate,
)
from ragmetrics_core.data import Usage
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.models.chat import (
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    Choice,
)

ROWS = [
    {
        "id": str(number),
        "question": f"Who lit lamp {number}?",
        "contexts": [f"Anna came to lamp {number}."],
        "answer": f"Anna lit lamp {number} [1].",
        "reference": f"Anna lit lamp {number}.",
        "facts": [f"Anna lit lamp {number}."],
    }
    for number in range(200)
]
# A field that a prompt names, and the fields of a yes and of a no.
VERDICTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "declined": ({"declined": 0}, {"declined": 0}),
    "unsupported": (
        {"reason": "r", "supported": 1, "claims": 1, "unsupported": []},
        {"reason": "r", "supported": 0, "claims": 1, "unsupported": ["Anna lit"]},
    ),
    "missing": (
        {"reason": "r", "sufficient": 1, "missing": []},
        {"reason": "r", "sufficient": 0, "missing": ["Who lit it"]},
    ),
    "useful": ({"useful": 1}, {"useful": 0}),
    "facts": (
        {"facts": [{"label": "F1", "covered": 1}]},
        {"facts": [{"label": "F1", "covered": 0}]},
    ),
    "covered": ({"covered": 1}, {"covered": 0}),
    "supported": ({"supported": 1}, {"supported": 0}),
}


class Torn(ChatModel):
    """Says yes with a probability, which its tokens tell if it has log-probabilities."""

    name = "torn"
    cache_key = None

    def __init__(self, chance: float, *, logprobs: bool) -> None:
        self._chance, self._logprobs = chance, logprobs
        self._random = random.Random(7)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            n=True, logprobs=self._logprobs, json_schema=True, temperature=True
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        system = request.messages[0].content
        field = next(name for name in VERDICTS if f'"{name}"' in system)
        choices = []
        for _ in range(request.n):
            says_yes = self._random.random() < self._chance
            text = json.dumps(VERDICTS[field][0 if says_yes else 1])
            listed = weighed_tokens(text, self._chance) if self._logprobs else ()
            choices.append(Choice(text, tokens=listed))
        return ChatReply(tuple(choices), Usage(calls=1))


def of_citation(result: Any) -> float:
    ((citation,),) = [one.citations for one in result.evidence.statements]
    assert citation.mode != "verdict"
    return float(citation.probability)


def value(result: Any) -> float:
    return float(result.value)


CLAIMING: dict[str, tuple[Metric, bool, Callable[[Any], float]]] = {
    "adherence": (ContextAdherence(cause=False), False, value),
    "sufficiency": (ContextSufficiency(declining=False), False, value),
    "citations": (CitationQuality(numbered_from=1), False, of_citation),
    "citations, tokens": (CitationQuality(numbered_from=1), True, of_citation),
    "utilization, tokens": (
        ContextUtilization(relevance="probability"),
        True,
        lambda result: float(result.evidence.chunks[0].probability),
    ),
    "utilization": (
        ContextUtilization(relevance="probability"),
        False,
        lambda result: float(result.evidence.chunks[0].probability),
    ),
    "accuracy, tokens": (
        RetrievalAccuracy(),
        True,
        lambda result: float(result.evidence.soft),
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "chance"), crossed(list(CLAIMING), [0.3, 0.5, 0.7]))
def test_the_mean_score_of_a_torn_judge_is_its_probability(name, chance):
    metric, logprobs, probability_of = CLAIMING[name]
    judge = LLMJudge(Torn(chance, logprobs=logprobs))
    report = evaluate(ROWS, [metric], judge=judge)
    probabilities = [probability_of(row.results[metric.name]) for row in report.results]
    assert fmean(probabilities) == pytest.approx(chance, abs=0.05)
    n_torn = sum(0 < one < 1 for one in probabilities)
    assert n_torn / len(probabilities) >= 0.5


def modes_of(evidence: Any) -> set[str]:
    """How each probability was obtained, of citations or of facts in contexts."""
    if isinstance(evidence, AccuracyEvidence):
        return {cell.mode for row in evidence.cells for cell in row}
    return {one.mode for each in evidence.statements for one in each.citations}


@pytest.mark.parametrize(
    "metric", [CitationQuality(numbered_from=1, polls=1), RetrievalAccuracy()]
)
def test_a_single_verdict_claims_no_probability(metric):
    judge = LLMJudge(Torn(0.5, logprobs=False))
    report = evaluate(ROWS[:5], [metric], judge=judge)
    for row in report.results:
        evidence: Any = row.results[metric.name].evidence
        assert modes_of(evidence) == {"verdict"}
