"""What an agent says last is its answer, however short, and whatever it said beside its calls of tools."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import create_retriever_tool
from langchain_fakes import Shelf, Speaker, calls, document
from langchain_ragmetrics import capture

QUESTION = "When was the bridge of Velm opened?"
BRIDGE = "The Velm bridge was opened in 1874 by the mayor of the town."
ANSWERS = [
    "1874.",
    "412",
    "Yes.",
    "True",
    "Which one?\nWhich year?",
]


STRUCTURES = ['{"year": 1874}', '{"binary_score": "yes"}']


@pytest.mark.parametrize("answer", [*ANSWERS, *STRUCTURES])
@pytest.mark.parametrize(
    "preamble", ["", "Let me look that up in the archive of the town."]
)
def test_what_an_agent_says_last_is_its_answer(answer: str, preamble: str) -> None:
    tool = create_retriever_tool(
        Shelf(books=[document(BRIDGE, "bridge")]), "search", "Searches."
    )
    search = AIMessage(preamble, tool_calls=calls("search", query="bridge").tool_calls)
    with capture() as captured:
        create_agent(Speaker(lines=[search, answer]), [tool]).invoke(
            {"messages": [("user", QUESTION)]}
        )
    (sample,) = captured.samples
    assert sample.answer == answer
    assert [context.text for context in sample.known_contexts] == [BRIDGE]
    assert sample.capture is not None
    assert sample.capture.evidence_from == "prompt"
    doubts = ["answer_guessed"] if answer in STRUCTURES else []
    assert list(sample.capture.doubts or ()) == doubts
