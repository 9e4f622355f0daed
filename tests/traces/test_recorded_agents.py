"""Agents of other frameworks, as their spans were recorded by ``benchmarks/record_agents.py``.

The frameworks themselves are no dependency of the tests: some of them are larger than
all others together. Where one is installed, the nightly lane records it anew.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ragmetrics_core import Sample
from ragmetrics_core.traces import samples_from_spans

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "traces" / "golden" / "agents"
FOUND = "The gate was built in 1632.\n\nThe mill lies by the river Lahn."
WANTED = [
    ("When was the gate built?", "It was built in 1632."),
    ("Where is the mill?", "It lies by the river Lahn."),
]
# Whether the second of the two turns knows the first one.
EXPECTED = {
    "pydantic_ai": True,
    "openai_agents": True,
    "agent_framework": True,
    "google_adk": True,
    "google_adk_itself": True,
    "strands": True,
    "strands_latest": True,
    "crewai": False,
    "smolagents": False,
}
MODULES = {"google_adk_itself": "google_adk", "strands_latest": "strands"}


def _check(name: str, path: Path) -> None:
    """Hold what the reader makes of a recording against what is expected."""
    knows_the_first = EXPECTED[name]
    read = samples_from_spans(path, context_tools={"search_knowledge"})
    samples = list(read)
    assert [_said(sample) for sample in samples] == WANTED
    assert read.notes.without_sample == []
    assert read.notes.unreadable == []
    for sample in samples:
        assert [context.text for context in sample.known_contexts] == [FOUND]
        # the tool's text is two passages in one, which nothing divides
        assert sample.capture.grade == "inferred"
        assert "undivided" in sample.capture.doubts
        # the tool by which smolagents' model answers brings no evidence
        assert {call.name for call in sample.ledger.calls} == {"search_knowledge"}
        assert sample.ledger.calls[-1].query == "gate and mill"
    history = [turn.content.strip() for turn in samples[1].history]
    notes = samples[1].capture
    assert notes is not None
    if knows_the_first:
        assert history == list(WANTED[0])
    else:  # smolagents writes its calls of tools as texts of the assistant
        assert not history or "history_unread" in notes.doubts


def _said(sample: Sample) -> tuple[str | None, str]:
    return sample.question, (sample.answer or "").strip()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_agent_gives_its_two_turns(name):
    _check(name, RECORDED / f"{name}.jsonl")


@pytest.mark.parametrize("name", EXPECTED)
def test_the_tool_of_a_recorded_agent_is_named_where_the_user_names_none(name):
    """Its text is evidence of the ledger, also without a recorded model, as in CrewAI."""
    read = samples_from_spans(RECORDED / f"{name}.jsonl")
    _check_unnamed(list(read))
    assert read.notes.tools == {"search_knowledge": 2}


def _check_unnamed(samples: list[Sample]) -> None:
    """Hold samples against what is known where the user names no tool."""
    assert [_said(sample) for sample in samples] == WANTED
    for sample in samples:
        assert sample.contexts is None
        assert "undivided" in sample.capture.doubts


def test_the_tool_by_which_a_model_answers_is_named_as_no_evidence():
    """Without its calls of models a trace of smolagents tells question and answer."""
    lines = (RECORDED / "smolagents.jsonl").read_text(encoding="utf-8").splitlines()
    spans = [json.loads(line) for line in lines]
    without_models = [
        span for span in spans if span["attributes"]["openinference.span.kind"] != "LLM"
    ]
    read = samples_from_spans(without_models)
    _check_unnamed(list(read))
    assert read.notes.tools == {"search_knowledge": 2}


def test_each_recording_has_its_line_in_the_tests():
    assert {path.stem for path in RECORDED.iterdir()} == set(EXPECTED)


def _is_installed(name: str) -> bool:
    module = MODULES.get(name, name).replace("google_adk", "google.adk")
    module = module.replace("openai_agents", "agents")
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


INSTALLED = [name for name in EXPECTED if _is_installed(name)]

if INSTALLED:  # a test that had nothing to record would count as skipped

    @pytest.mark.nightly
    @pytest.mark.parametrize("name", INSTALLED)
    def test_an_installed_framework_writes_what_was_recorded(
        name: str, tmp_path: Path
    ) -> None:
        script = ROOT / "benchmarks" / "record_agents.py"
        subprocess.run([sys.executable, str(script), name, str(tmp_path)], check=True)
        _check(name, tmp_path / f"{name}.jsonl")
