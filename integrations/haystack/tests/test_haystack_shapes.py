"""Every shape of a Haystack application that capturing knows, once each: exact question, contexts and answer.

Real pipelines, offline: in-memory store with BM25, deterministic generators. Each row
runs through ``run`` and, where the shape allows it, through ``run_async``.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.agents import Agent
from haystack.core.errors import PipelineRuntimeError
from haystack_agent_rows import ROWS as AGENTS
from haystack_branch_rows import ROWS as BRANCHES
from haystack_ending_rows import ROWS as ENDINGS
from haystack_integrations.components.evaluators.ragmetrics import capture
from haystack_nested_rows import ROWS as NESTED
from haystack_query_rows import ROWS as QUERIES
from haystack_retrieval_rows import ROWS as RETRIEVAL
from haystack_rows import DOCUMENTS, Build, Row
from haystack_straight_rows import ROWS as STRAIGHT

from ragmetrics_core.data.sample import Sample

TABLES = (STRAIGHT, RETRIEVAL, QUERIES, BRANCHES, NESTED, AGENTS, ENDINGS)
ROWS: dict[str, Build] = {
    name: build for table in TABLES for name, build in table.items()
}


async def _abandon(app: Pipeline, inputs: dict[str, Any]) -> None:
    partial = app.run_async_generator(
        inputs, include_outputs_from={"retriever", "prompt"}
    )
    async for output in partial:
        if "prompt" in output:
            break
    await partial.aclose()


def play(one: Row, mode: str) -> list[Sample]:
    with capture(**one.capture) as captured:
        try:
            if isinstance(one.app, Agent):
                (
                    one.app.run(**one.inputs)
                    if mode == "run"
                    else asyncio.run(one.app.run_async(**one.inputs))
                )
            elif mode == "run":
                one.app.run(one.inputs)
            elif mode == "abandoned":
                asyncio.run(_abandon(one.app, one.inputs))
            else:
                asyncio.run(one.app.run_async(one.inputs))
        except PipelineRuntimeError:
            assert any(expected.error for expected in one.expected)
    assert not captured.problems, captured.problems
    return list(captured.samples)


def shown(
    documents: list[Document],
) -> list[tuple[str | None, str | None, float | None]]:
    """What must agree; documents without a store of their own, i.e. texts of tools, have no id."""
    known = {document.id for document in DOCUMENTS}
    return [(d.content, d.id if d.id in known else None, d.score) for d in documents]


CASES = [(name, mode) for name, build in ROWS.items() for mode in build().modes]


def is_of_day(name: str, mode: str) -> bool:
    """By day each shape is run in one of its ways, sync and async in turn."""
    modes = ROWS[name]().modes
    return modes[list(ROWS).index(name) % len(modes)] == mode


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param(*case, marks=() if is_of_day(*case) else pytest.mark.nightly)
        for case in CASES
    ],
)
def test_shape(name: str, mode: str) -> None:
    one = ROWS[name]()
    samples = play(one, mode)
    answers = [expected.answer for expected in one.expected]
    if mode == "run_async" and one.runs_models_beside_each_other:
        samples = sorted(samples, key=lambda sample: sample.answer or "")
        answers.sort(key=lambda answer: answer or "")
        one.expected.sort(key=lambda expected: expected.answer or "")
    assert [sample.answer for sample in samples] == answers
    for sample, expected in zip(samples, one.expected, strict=True):
        notes = sample.capture
        assert notes is not None
        assert not any("leads to nothing" in each for each in notes.warnings)
        assert sample.question == expected.question
        assert [(c.text, c.id, c.score) for c in sample.known_contexts] == shown(
            expected.contexts
        )
        assert [c.metadata.get("year") for c in sample.known_contexts] == [
            d.meta.get("year") for d in expected.contexts
        ]
        if expected.retrieved is not None:
            assert sample.retrieved is not None
            assert {c.id for c in sample.retrieved} == {
                d.id for d in expected.retrieved
            }
        assert sample.standalone_question == expected.standalone
        assert len(sample.history) == expected.history
        assert notes.complete is expected.complete
        assert bool(sample.error) is expected.error
        if not (mode == "run_async" and one.runs_models_beside_each_other):
            assert set(notes.doubts) == set(expected.doubts)
