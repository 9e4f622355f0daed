"""Law: documents in any rendering, order and number give the sample that the generator of the run knows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_fakes import Shelf, Speaker, document
from langchain_ragmetrics import capture
from rendered_runs import ANSWER, QUESTION, RENDERINGS, check, generated


@pytest.mark.parametrize("rendering", RENDERINGS)
@settings(max_examples=examples(5), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_law_of_renderings(rendering: str, seed: int) -> None:
    run = generated(seed, rendering)
    shelf = Shelf(books=[document(text, f"d{n}") for n, text in enumerate(run.texts)])

    def ask(question: str) -> list[BaseMessage]:
        shelf.invoke(question)
        return [
            HumanMessage(text) if role == "user" else AIMessage(text)
            for role, text in run.messages
        ]

    with capture() as captured:
        (RunnableLambda(ask) | Speaker(lines=ANSWER)).invoke(QUESTION)
    (sample,) = captured.samples
    check(sample, run)
