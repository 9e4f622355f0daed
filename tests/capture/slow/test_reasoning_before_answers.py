"""Answers of frameworks' runs behind a model's reasoning: its marks cite nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from citing import cited_in
from numbered_prompts import chain, citation_query_engine, pipeline

from ragmetrics_core import Sample

REPLY = (
    "<think>\nSource [3] is old. Maybe [2]? No, only [1] has it.\n</think>\n\n"
    "The Velm rises in the hills [1]. It fell [9]."
)
CITED = [("The Velm rises in the hills [1].", (0,), ()), ("It fell [9].", (), ("9",))]
RUNS: dict[str, Callable[[str], Sample]] = {
    "LangChain": lambda answer: chain("[{}] ", answer),
    "LlamaIndex": citation_query_engine,
    "Haystack": lambda answer: pipeline("[{{ loop.index }}] ", answer),
}


@pytest.mark.parametrize("name", RUNS)
def test_marks_of_the_reasoning_are_no_citations_of_a_run(name):
    sample = RUNS[name](REPLY)
    assert cited_in(sample) == CITED
    assert sample.answer == REPLY


@pytest.mark.parametrize("name", RUNS)
def test_an_answer_that_cites_only_in_its_reasoning_cites_nothing(name):
    sample = RUNS[name]("<think>Only [1], not [2].</think>The Velm rises in the hills.")
    assert not sample.citations
