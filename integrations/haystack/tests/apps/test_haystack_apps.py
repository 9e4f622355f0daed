"""Applications as people write them, each with its exact sample."""

from __future__ import annotations

import haystack_apps_agents
import haystack_apps_judged
import haystack_apps_pipelines
import pytest
from grades import warnings_of_its_own
from haystack_apps import APPS, SHORT, TEXTS, Expected
from haystack_integrations.components.evaluators.ragmetrics import capture

from ragmetrics_core.data.sample import Sample

TABLES = (haystack_apps_pipelines, haystack_apps_agents, haystack_apps_judged)
KNOWN = {**TEXTS, **SHORT, "gate-1": TEXTS["gate"], "gate-2": TEXTS["gate"]}
NAMED = {
    *KNOWN,
    "page",
    *(f"s{n}" for n in range(len(haystack_apps_pipelines.SENTENCES))),
}


# right, or said to be uncertain: its prompts keep whole prompts as earlier messages
HEDGED = ("a_question_that_is_asked_again",)


@pytest.mark.parametrize("name", APPS)
def test_app(name: str) -> None:
    one = APPS[name]
    with capture(**one.capture) as captured:
        one.play()
    samples = captured.samples
    grades = [sample.capture.grade for sample in samples if sample.capture]
    if name in HEDGED and grades == ["exact", "inferred", "inferred"]:
        return
    assert [seen(sample) for sample in samples] == [
        wanted(expected) for expected in one.expected
    ]
    for sample, expected in zip(samples, one.expected, strict=True):
        assert sample.capture is not None
        warnings = warnings_of_its_own(sample.capture)
        assert len(warnings) == len(expected.warned), warnings
        for said, warning in zip(expected.warned, warnings, strict=True):
            assert said in warning
    assert bool(captured.problems) is bool(one.problem), captured.problems
    assert (
        any(one.problem in problem for problem in captured.problems.counts)
        or not one.problem
    )


def wanted(expected: Expected) -> dict[str, object]:
    return {
        "question": expected.question,
        "contexts": [
            (one, KNOWN[one]) if isinstance(one, str) else one
            for one in expected.contexts
        ],
        "retrieved": None if expected.retrieved is None else list(expected.retrieved),
        "answer": expected.answer,
        "history": list(expected.history),
        "grade": expected.grade,
    }


def seen(sample: Sample) -> dict[str, object]:
    return {
        "question": sample.question,
        "contexts": [
            (one.id if one.id in NAMED else None, one.text) for one in sample.contexts
        ],
        "retrieved": None
        if sample.retrieved is None
        else [one.id for one in sample.retrieved],
        "answer": sample.answer,
        "history": [(turn.role, turn.content) for turn in sample.history],
        "grade": sample.capture.grade if sample.capture else None,
    }


def test_there_are_enough() -> None:
    assert len(APPS) >= 15
    assert all(": " in one.source for one in APPS.values())
