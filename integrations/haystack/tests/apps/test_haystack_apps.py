"""Applications as people write them, each with its exact sample."""

from __future__ import annotations

import haystack_apps_agents
import haystack_apps_pipelines
import pytest
from haystack_apps import APPS, SHORT, TEXTS, Expected
from haystack_integrations.components.evaluators.ragmetrics import capture

from ragmetrics_core.data.sample import Sample

TABLES = (haystack_apps_pipelines, haystack_apps_agents)
KNOWN = {**TEXTS, **SHORT, "gate-1": TEXTS["gate"], "gate-2": TEXTS["gate"]}
NAMED = {*KNOWN, "page"}


@pytest.mark.parametrize("name", APPS)
def test_app(name: str) -> None:
    one = APPS[name]
    with capture(**one.capture) as captured:
        one.play()
    samples = captured.samples
    assert len(samples) == len(one.expected)
    for sample, expected in zip(samples, one.expected, strict=True):
        assert sample.capture is not None
        assert set(sample.capture.doubts) == set(expected.doubts)
        values, right = seen(sample), wanted(expected)
        for field in expected.hedged:
            assert expected.doubts
            assert values.pop(field) != right.pop(field)
        assert values == right
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
    }


def seen(sample: Sample) -> dict[str, object]:
    return {
        "question": sample.question,
        "contexts": [
            (one.id if one.id in NAMED else None, one.text)
            for one in sample.known_contexts
        ],
        "retrieved": None
        if sample.retrieved is None
        else [one.id for one in sample.retrieved],
        "answer": sample.answer,
        "history": [(turn.role, turn.content) for turn in sample.history],
    }
