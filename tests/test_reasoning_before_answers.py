"""Answers behind a model's reasoning, as ``<think>…</think>``: its marks cite nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbered_prompts import chain, citation_query_engine, pipeline

from ragmetrics_core import Sample
from ragmetrics_core.data.citations import (
    CitedStatement,
    citations_of_marks,
    cited_statements,
    read_citations,
)

NUMBERING = {"1": 0, "2": 1, "3": 2}
BLOCKS = (
    "<think>{}</think>",
    "<think>\n{}\n</think>\n\n",
    "<THINKING>{}</thinking>",
    "<thought>{}</thought>\n",
    "<reasoning>{}</reasoning>\n",
    "{}</think>\n\n",  # the prompt wrote the opening tag
)
THOUGHTS = (
    "Source [3] is old, so I leave it out. Maybe [2]? No, only [1]",
    "As source 2 says (3), see [see 2]",
    "Sources:\n[1] a.txt\n[2] b.txt\n",
    "",
)
ANSWERS = (
    "The window was raised to 128K tokens [1].",
    "It was raised [1][9]. Training took long. [2]",
    "It was raised.",
    "It was raised [see 2].",
    "- It was raised.\n- It fell [2].",
)
SAID_OF_TAGS = (
    "It prints `</think>` at its end. It fell [1].",
    "It fell [1]. It prints `</think>` at its end.",
    "It prints `<think>` first. It fell [1].",
    "Readers [think] so. It fell [1].",
)
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


def cited_in(sample: Sample) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    answer = sample.answer or ""
    return [
        (answer[one.start : one.end], one.contexts, one.dangling)
        for one in sample.citations or ()
    ]


@given(
    block=st.sampled_from(BLOCKS),
    thoughts=st.sampled_from(THOUGHTS),
    answer=st.sampled_from(ANSWERS),
)
def test_reasoning_before_an_answer_changes_nothing_but_places(
    block: str, thoughts: str, answer: str
) -> None:
    before = block.format(thoughts)
    alone = read_citations(answer, NUMBERING)
    behind = read_citations(before + answer, NUMBERING)
    assert behind.why_unknown == alone.why_unknown
    cited_alone = citations_of_marks(answer, NUMBERING)
    cited_behind = citations_of_marks(before + answer, NUMBERING)
    places = [(one.start, one.end, one.contexts, one.dangling) for one in cited_alone]
    assert [
        (one.start - len(before), one.end - len(before), one.contexts, one.dangling)
        for one in cited_behind
    ] == places
    assert cited_statements(before + answer, cited_behind) == cited_statements(
        answer, cited_alone
    )


@pytest.mark.parametrize("name", RUNS)
def test_marks_of_the_reasoning_are_no_citations_of_a_run(name: str) -> None:
    sample = RUNS[name](REPLY)
    assert cited_in(sample) == CITED
    assert sample.answer == REPLY


@pytest.mark.parametrize("name", RUNS)
def test_an_answer_that_cites_only_in_its_reasoning_cites_nothing(name: str) -> None:
    sample = RUNS[name]("<think>Only [1], not [2].</think>The Velm rises in the hills.")
    assert not sample.citations


def test_reasoning_that_is_never_closed_leaves_its_marks_unread() -> None:
    for answer in ("<think>Maybe [2]", "It is old [1]. <think>Maybe [2]"):
        assert read_citations(answer, NUMBERING).citations is None
        assert chain("[{}] ", answer).citations is None


@pytest.mark.parametrize("answer", SAID_OF_TAGS)
def test_a_tag_that_the_answer_speaks_of_is_no_reasoning_or_a_doubt(
    answer: str,
) -> None:
    read = read_citations(answer, NUMBERING)
    if read.citations is not None:
        assert [one.contexts for one in read.citations] == [(0,)]


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if not block.startswith("{}")]
)
def test_reasoning_between_sentences_cites_nothing(block: str) -> None:
    """Of each block only its own words are reasoning, and no sentence before it."""
    reasoning = block.format(THOUGHTS[0])
    answer = f"It fell [1].\n{reasoning}\nIt rose [3].\n{reasoning}\nIt burnt [1]."
    read = read_citations(answer, NUMBERING)
    assert [one.contexts for one in read.citations or ()] == [(0,), (2,), (0,)]


def test_sentences_of_the_reasoning_are_no_statements() -> None:
    answer = "<think>It is red. Maybe [2]?</think>It is old [1]."
    cited = citations_of_marks(answer, NUMBERING)
    assert cited_statements(answer, cited) == (CitedStatement("It is old.", (0,)),)
