"""The contract of all adapters, kept by a real chain of langchain-core."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from langchain_fakes import PROMPT, Shelf, Speaker, document, drained, rag
from langchain_ragmetrics import RagMetricsCallback, capture
from langchain_ragmetrics.evaluator import as_evaluation_result

from ragmetrics_core.data.results import MetricResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.testing import AdapterContract
from ragmetrics_core.testing.adapter_contract import GOLDEN_TURNS, GoldenTurn


def application(turn: GoldenTurn, answer: Any = None) -> Any:
    return rag(shelf(turn), Speaker(lines=answer or turn.answer))


def shelf(turn: GoldenTurn) -> Shelf:
    return Shelf(
        books=[
            document(c.text, c.id, relevance_score=c.score, **c.metadata)
            for c in turn.contexts
        ]
    )


class TestContract(AdapterContract):
    module = "langchain_ragmetrics"
    framework = "langchain_core"

    def play(self, turn: GoldenTurn) -> tuple[list[Sample], Any]:
        with capture() as captured:
            answer = application(turn).invoke(turn.question)
        return list(captured.samples), answer

    def play_uncaptured(self, turn: GoldenTurn) -> Any:
        return application(turn).invoke(turn.question)

    def play_streamed(self, turn: GoldenTurn) -> list[Sample]:
        with capture() as captured:
            assert "".join(application(turn).stream(turn.question)) == turn.answer
        return list(captured.samples)

    async def play_async(self, turn: GoldenTurn) -> list[Sample]:
        with capture() as captured:
            assert (
                "".join(await drained(application(turn).astream(turn.question)))
                == turn.answer
            )
        return list(captured.samples)

    def play_unanswered(self, turn: GoldenTurn) -> list[Sample]:
        with capture() as captured, pytest.raises(RuntimeError):
            application(turn, RuntimeError("the model is down")).invoke(turn.question)
        return list(captured.samples)

    def play_prompt(self, turn: GoldenTurn, prompt: str) -> list[Sample]:
        chain = (
            shelf(turn)
            | (lambda found: prompt)
            | Speaker(lines=turn.answer)
            | StrOutputParser()
        )
        with capture() as captured:
            chain.invoke(turn.question)
        return list(captured.samples)

    def play_two(self, one: GoldenTurn, two: GoldenTurn) -> list[Sample]:
        def fetch(question: str) -> str:
            return "\n".join(
                found.page_content
                for turn in (one, two)
                for found in shelf(turn).invoke(question)
            )

        with capture() as captured:
            (
                RunnableLambda(fetch) | Speaker(lines=two.answer) | StrOutputParser()
            ).invoke(two.question)
        return list(captured.samples)

    def play_reranked(self, turn: GoldenTurn) -> list[Sample]:
        chain = (
            shelf(turn)
            | RunnableLambda(lambda found: found[-2::-1], name="rerank")
            | (lambda found: "\n".join(book.page_content for book in found))
            | Speaker(lines=turn.answer)
            | StrOutputParser()
        )
        with capture() as captured:
            chain.invoke(turn.question)
        return list(captured.samples)

    def play_changed(self, turn: GoldenTurn) -> list[Sample]:
        retriever = shelf(turn)
        with capture() as captured:
            rag(retriever, Speaker(lines=turn.answer)).invoke(turn.question)
        for book in retriever.books:
            book.page_content = "changed"
            book.metadata.clear()
        return list(captured.samples)

    def begin(self, turn: GoldenTurn) -> Iterator[object]:
        stream = application(turn).stream(turn.question)
        next(stream)
        return stream

    def to_native_and_back(self, result: MetricResult) -> tuple[float | None, str]:
        found = as_evaluation_result(result)
        score = found.score
        assert score is None or isinstance(score, float)
        return score, found.comment or ""


CALLS: dict[str, Callable[[Any, str, Any], object]] = {
    "invoke": lambda app, question, config: app.invoke(question, config),
    "stream": lambda app, question, config: list(app.stream(question, config)),
    "ainvoke": lambda app, question, config: asyncio.run(app.ainvoke(question, config)),
}


@pytest.mark.parametrize("answer", [None, RuntimeError("the model is down")], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_a_handler_that_is_passed_to_the_chain_gives_the_samples_of_a_block(
    call: str, answer: Any
) -> None:
    for turn in GOLDEN_TURNS:
        handler = RagMetricsCallback(metrics=[])
        with suppress(RuntimeError):
            app = application(turn, answer)
            CALLS[call](app, turn.question, {"callbacks": [handler]})
        with suppress(RuntimeError), capture() as captured:
            CALLS[call](application(turn, answer), turn.question, None)
        assert len(captured.samples) == 1
        assert list(handler.samples) == list(captured.samples)


def test_the_prompt_is_what_counts() -> None:
    """A prompt that quotes the documents as JSON shows them all the same."""
    with capture() as captured:
        found = Shelf().invoke("q")
        (PROMPT | Speaker(lines=AIMessage("x"))).invoke(
            {"context": str([d.page_content for d in found]), "question": "q"}
        )
    assert len(captured.samples[0].known_contexts) == 3
