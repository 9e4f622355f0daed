"""Law: documents in any rendering, order and number give the sample that the generator of the run knows."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from llama_index.core.llms import ChatMessage
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.evaluation.ragmetrics import capture
from rendered_runs import ANSWER, QUESTION, RENDERINGS, Run, check, generated


class Engine(CustomQueryEngine):
    retriever: Any
    model: Any
    run: Any

    def custom_query(self, query_str: str) -> str:
        self.retriever.retrieve(query_str)
        messages = [
            ChatMessage(role=role, content=text) for role, text in self.run.messages
        ]
        return str(self.model.chat(messages).message.content)


@pytest.mark.parametrize("rendering", RENDERINGS)
@settings(max_examples=examples(5), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_law_of_renderings(kit: ModuleType, rendering: str, seed: int) -> None:
    run: Run = generated(seed, rendering)
    nodes = [kit.node(f"d{n}", text, 0.5) for n, text in enumerate(run.texts)]
    engine = Engine(
        retriever=kit.FixedRetriever(nodes),
        model=kit.ScriptedLLM(script={"": ANSWER}),
        run=run,
    )
    with capture() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    check(sample, run)
