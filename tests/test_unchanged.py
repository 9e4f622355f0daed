"""The law of the ledger: samples without one are asked, scored and written byte for byte as before it came.

The digests are those of the commit before ``Sample.ledger``. Whoever edits a prompt or a form of evidence changes them,
with the metric's version, and says why.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from plausible import plausible_reply

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Metric,
    Question,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
)
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.judging.forms import schema_of
from ragmetrics_core.judging.rendering import render
from ragmetrics_core.metrics.context_adherence import Sufficient
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext
from ragmetrics_core.metrics.polls import Adherent
from ragmetrics_core.reporting.jsonl import json_line

LIT = "Anna lit the lamp in 1882."
SAMPLES = [
    {
        "question": "Who lit it?",
        "contexts": [LIT, " ", "Wine.", LIT],
        "answer": "Anna did.",
        "reference": "Anna. 1882.",
    },
    {"contexts": ["Ten.", "Eleven rooms."], "answer": "Eleven, free.", "reference": ["Eleven.", "Ten."]},
    {
        "id": "s",
        "question": "And when?",
        "standalone_question": "When did Anna light the lamp?",
        "history": [{"role": "user", "content": "Who lit it?"}, {"role": "assistant", "content": "Anna."}],
        "contexts": [{"text": LIT, "id": "d1", "score": 0.5, "metadata": {"page": 1}}],
        "retrieved": [{"text": "Wine.", "id": "d2"}, {"text": LIT, "id": "d1"}],
        "answer": "In 1882.",
        "facts": [{"text": "It was 1882.", "weight": 2}, "Anna lit it."],
        "metadata": {"conversation_id": "c"},
        "capture": {"grade": "exact", "warnings": ["w"]},
    },
    # Contexts that were never recorded are left out of the line; these were, and there were none.
    {"question": "Why?", "contexts": [], "answer": "I don't know.", "reference": "No reason."},
    {"question": "Why?", "contexts": ["Because."], "answer": "So.", "reference": "So.", "error": "boom"},
]
METRICS: dict[str, Metric] = {
    "utilization": ContextUtilization(),
    "listwise": ContextUtilization(judging="listwise", orders=2, k=3),
    "graded": ContextUtilization(relevance="graded", against="reference"),
    "probability": ContextUtilization(relevance="probability"),
    "adherence": ContextAdherence(),
    "early": ContextAdherence(early_stop=True, polls=3, language="German"),
    "own": ContextAdherence(template='{contexts}\n{answer}\n"reason" "verdict" "unsupported"', examples="None."),
    "recall": ContextRecall(),
    "accuracy": RetrievalAccuracy(),
    "per_context": RetrievalAccuracy(calls="per_context", extraction="cot", combination="noisy_or"),
}
BEFORE = {
    "utilization": ("24be19a41ef842be", "f3102866ace4ca7b"),
    "listwise": ("1ab24b6a084d5eac", "c13430c1765c8512"),
    "graded": ("ffd3311e341f55ce", "8154ec4bdf260a7b"),
    "probability": ("ef369ea8c34f1907", "96675498a5c8d025"),
    "adherence": ("c0e1dd89f8a9d1da", "9aa97f32f9312af9"),
    "early": ("f75adb40d81d8fb0", "ca47ce2377ac0868"),
    "own": ("6d9684c6595da503", "dd002dfdb56eadf6"),
    "recall": ("1b0de7015a19182e", "6b9dcf68ba19795a"),
    "accuracy": ("d8580c48a9faa28a", "1aaf1d320844fe69"),
    "per_context": ("fe8b58889e9f6811", "45e9fd66d47ef1a6"),
}


def told(question: Question[Any]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in render(question)]


def reply(question: Question[Any]) -> list[Any]:
    """A plausible reply to each poll, decided by the prompt."""
    first = question.first_poll or 0
    bodies = ({"messages": [*told(question), {"content": str(n)}]} for n in range(first, first + question.polls))
    return [question.read(json.loads(plausible_reply(body))) for body in bodies]


def judge() -> ScriptedJudge:
    return ScriptedJudge(dict.fromkeys((Useful, Adherent, Sufficient, RateRecall, ExtractFacts, FactInContext), reply))


def asked(question: Question[Any]) -> list[Any]:
    """All that a judge is told and told to reply."""
    form = (question.polls, question.first_poll, question.temperature, repr(question.weigh))
    return [type(question).__name__, told(question), schema_of(question.Reply), form]


@pytest.mark.parametrize("name", METRICS)
def test_questions_and_result_lines_are_those_of_before(name: str) -> None:
    scripted, lines = judge(), []
    for place, sample in enumerate(map(Sample.model_validate, SAMPLES)):
        result = METRICS[name].score(sample, judge=scripted)
        line = json_line(SampleResult(index=place, sample=sample, results={name: result}))
        line = line.replace(', "spared": 0, "passed": 0}', "}")  # of cascades, which came later
        lines.append(line.replace('"complete": true}', '"complete": true, "conversation": null}'))  # it is the ledger's
    said = (json.dumps([asked(question) for question in scripted.asked]), "".join(lines))
    assert len(scripted.asked) >= 2
    assert tuple(sha256(one.encode()).hexdigest()[:16] for one in said) == BEFORE[name]
