"""What is asked for a sample, and what is written of it, stand in readable files.

This holds the code against them.

Whoever edits a prompt or a form of evidence changes them on purpose, raises the
metric's version, and writes them anew:

    PYTHONPATH=tests/support uv run tests/judging/test_unchanged.py
    git diff tests/judging/golden/asked
"""

import json
from pathlib import Path
from typing import Any

import pytest
from plausible import plausible_reply

from ragmetrics_core import (
    CitationQuality,
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    Criterion,
    Metric,
    Question,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
)
from ragmetrics_core.data.results import SampleResult
from ragmetrics_core.judging.rendering import render, schema_of
from ragmetrics_core.metrics.answer_relevance import Addresses, AnswerRelevance
from ragmetrics_core.metrics.citation_support import MakesClaim, Supports
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_sufficiency import (
    ContextSufficiency,
    SufficientContexts,
)
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.criterion import Meets
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.fact_matrix import ExtractFacts, FactInContext
from ragmetrics_core.metrics.polls import Adherent, RestsOn
from ragmetrics_core.reporting.jsonl import json_line

LIT = "Anna lit the lamp in 1882."
SAMPLES = [
    {
        "question": "Who lit it?",
        "contexts": [LIT, " ", "Wine.", LIT],
        "answer": "Anna did.",
        "reference": "Anna. 1882.",
    },
    {
        "contexts": ["Ten.", "Eleven rooms."],
        "answer": "Eleven, free.",
        "reference": ["Eleven.", "Ten."],
    },
    {
        "id": "s",
        "question": "And when?",
        "standalone_question": "When did Anna light the lamp?",
        "history": [
            {"role": "user", "content": "Who lit it?"},
            {"role": "assistant", "content": "Anna."},
        ],
        "contexts": [{"text": LIT, "id": "d1", "score": 0.5, "metadata": {"page": 1}}],
        "retrieved": [{"text": "Wine.", "id": "d2"}, {"text": LIT, "id": "d1"}],
        "answer": "In 1882.",
        "facts": [{"text": "It was 1882.", "weight": 2}, "Anna lit it."],
        "metadata": {"conversation_id": "c"},
        "capture": {"grade": "exact", "warnings": ["w"]},
    },
    # Contexts that were never recorded are left out of the line; these were, and there
    # were none.
    {
        "question": "Why?",
        "contexts": [],
        "answer": "I don't know.",
        "reference": "No reason.",
    },
    {
        "question": "Why?",
        "contexts": ["Because."],
        "answer": "So.",
        "reference": "So.",
        "error": "boom",
    },
    {
        "question": "And when?",
        "history": [
            {"role": "user", "content": "Who lit it?"},
            {"role": "assistant", "content": "Anna."},
        ],
        "contexts": ["It was 1882."],
        "answer": "In 1882.",
        "reference": "1882.",
        "ledger": {
            "conversation": "c",
            "turn": 2,
            "calls": [
                {
                    "kind": "retrieval",
                    "turn": 1,
                    "items": [{"text": LIT}, {"text": "Wine."}],
                },
                {
                    "kind": "retrieval",
                    "turn": 2,
                    "step": 1,
                    "items": [{"text": "It was 1882."}],
                },
                {
                    "kind": "tool",
                    "turn": 2,
                    "step": 2,
                    "items": [{"text": "18 degrees"}],
                },
            ],
        },
    },
]
# Of one metric alone, behind those of all.
FURTHER_SAMPLES: dict[str, list[dict[str, Any]]] = {
    "citations": [
        {
            "question": "Who lit it, and when?",
            "contexts": [LIT, "Peter sold boats.", "It was in May."],
            "answer": "Sure. Anna lit it [1][3]. It rained [2, 9]. That was it.",
            "citations": [
                {"start": 6, "end": 25, "contexts": [0], "mark": [18, 21]},
                {"start": 6, "end": 25, "contexts": [2], "mark": [21, 24]},
                {
                    "start": 26,
                    "end": 44,
                    "contexts": [1],
                    "dangling": ["9"],
                    "mark": [36, 42],
                },
            ],
        },
        {
            "question": "Who lit it, and when?",
            "contexts": [LIT, "Peter sold boats.", "It was in May."],
            "answer": "Anna lit it [2]. It was in May. Peter sold boats.",
            "citations": [{"start": 0, "end": 15, "contexts": [1], "mark": [12, 15]}],
        },
    ]
}
METRICS: dict[str, Metric] = {
    "utilization": ContextUtilization(),
    "listwise": ContextUtilization(judging="listwise", k=3),
    "probability": ContextUtilization(relevance="probability"),
    "listwise_probability": ContextUtilization(
        judging="listwise", relevance="probability"
    ),
    "adherence": ContextAdherence(),
    "early": ContextAdherence(early_stop=True, polls=3, language="German"),
    "own": ContextAdherence(
        template='{contexts}\n{answer}\n"reason" "unsupported" "claims"',
        examples="None.",
    ),
    "recall": ContextRecall(),
    "sufficiency": ContextSufficiency(),
    "relevance": AnswerRelevance(),
    "citations": CitationQuality(required=True),
    "accuracy": RetrievalAccuracy(),
    "criterion": Criterion(
        "criterion", "It names a year.", reads=["answer", "contexts", "reference"]
    ),
    "criterion_probability": Criterion(
        "criterion_probability", "It names a year.", method="probability"
    ),
    "per_context": RetrievalAccuracy(calls="per_context", extraction="cot"),
}
ANSWERED = (
    Useful,
    Adherent,
    RestsOn,
    RateRecall,
    ExtractFacts,
    FactInContext,
    SufficientContexts,
    Declined,
    Addresses,
    Supports,
    MakesClaim,
    Meets,
)
GOLDEN = Path(__file__).with_name("golden") / "asked"


def told(question: Question[Any]) -> list[dict[str, str]]:
    return [
        {"role": message.role, "content": message.content}
        for message in render(question)
    ]


def reply(question: Question[Any]) -> list[Any]:
    """A plausible reply to each poll, decided by the prompt."""
    first = question.first_poll or 0
    bodies = (
        {"messages": [*told(question), {"content": str(n)}]}
        for n in range(first, first + question.polls)
    )
    return [question.read(json.loads(plausible_reply(body))) for body in bodies]


def judge() -> ScriptedJudge:
    return ScriptedJudge(dict.fromkeys(ANSWERED, reply))


def asked(question: Question[Any]) -> str:
    """All that a judge is told and told to reply."""
    form = (
        f"polls={question.polls} first_poll={question.first_poll}"
        f" temperature={question.temperature}"
    )
    messages = [
        f"--- {message['role']}\n{message['content']}" for message in told(question)
    ]
    schema = f"--- reply\n{json.dumps(schema_of(question.Reply))}"
    return "\n".join(
        [
            f"=== {type(question).__name__} {form} wanted_probability={question.wanted_probability!r}",
            *messages,
            schema,
        ]
    )


def written(name: str) -> str:
    """The questions that a metric asks of all samples, and the lines of its results, as a person can read them."""
    scripted = judge()
    lines = []
    rows = [*SAMPLES, *FURTHER_SAMPLES.get(name, [])]
    for place, sample in enumerate(map(Sample.model_validate, rows)):
        result = METRICS[name].score(sample, judge=scripted)
        line = json_line(
            SampleResult(index=place, sample=sample, results={name: result})
        )
        lines.append(
            f"=== line {place}\n"
            + json.dumps(json.loads(line), indent=1, ensure_ascii=False)
        )
    return "\n\n".join([*map(asked, scripted.asked), *lines]) + "\n"


@pytest.mark.parametrize("name", METRICS)
def test_questions_and_result_lines_are_those_of_the_golden_files(name):
    assert written(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for each in METRICS:
        (GOLDEN / f"{each}.txt").write_text(
            written(each), encoding="utf-8", newline="\n"
        )
