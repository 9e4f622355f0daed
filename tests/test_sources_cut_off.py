"""Sources that a model names in a part of its reply that the application cuts off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_two_numberings import TEXTS, sample_of

ANSWER = "It lies in the south."
PROMPT = "Say which documents you cite.\n\n" + "\n\n".join(
    f"Document {number}: (file{number}.pdf) {text}"
    for number, text in enumerate(TEXTS, start=1)
)
NAMING = {
    "elements": "<answer>{answer}</answer>\n<sources>{source}</sources>",
    "lines before the answer": "Cited Documents: {source}\nAnswer: {answer}",
    "a line of other words": "{answer}\nDocument IDs: {source}",
    "words": "{answer}\nI took this from {source}.",
    "marks": "{answer}\n\n(see [{source}])",
}


@given(
    form=st.sampled_from(sorted(NAMING)),
    source=st.sampled_from(["2", "0,1", "Document 2", "file3.pdf"]),
)
def test_an_answer_never_cites_nothing_where_its_sources_were_cut_off(
    form: str, source: str
) -> None:
    reply = NAMING[form].format(answer=ANSWER, source=source)
    sample = sample_of(PROMPT, reply, ANSWER)
    assert sample.citations != ()
    assert sample.citations or sample.citations_unknown


@pytest.mark.parametrize("form", ["elements", "a line of other words"])
def test_the_reason_says_that_something_was_cut_off(form: str) -> None:
    reply = NAMING[form].format(answer=ANSWER, source="2")
    sample = sample_of(PROMPT, reply, ANSWER)
    assert "what the application cut off may name sources" in sample.citations_unknown


@pytest.mark.parametrize("cut_off", ["³", " (Sousa, 2019)"])
def test_what_was_cut_off_may_cite_in_any_form(cut_off: str) -> None:
    sample = sample_of(PROMPT, ANSWER + cut_off, ANSWER)
    assert sample.citations is None
    assert "what the application cut off may name sources" in sample.citations_unknown


CITING_NOTHING = {
    "an element": f"<answer>{ANSWER}</answer>",
    "a thought": f"Thought: I know the answer now.\nFinal Answer: {ANSWER}",
    "reasoning": f"<think>Document 2 says so [2].</think>{ANSWER}",
    "words of the question": f"You asked where Faro lies. {ANSWER}",
    "items": f"1. {ANSWER}\n2. Ask me more.",
    "blanks": f"\n  {ANSWER} \n",
}


@pytest.mark.parametrize("name", CITING_NOTHING)
def test_an_answer_cites_nothing_where_nothing_cut_off_may_name_a_source(
    name: str,
) -> None:
    sample = sample_of(PROMPT, CITING_NOTHING[name], ANSWER)
    assert sample.citations == (), sample.citations_unknown


def test_a_closing_line_that_was_cut_off_is_still_read() -> None:
    sample = sample_of(PROMPT, f"{ANSWER}\nSources: file2.pdf", ANSWER)
    assert [one.contexts for one in sample.citations or ()] == [(1,)]
