"""A step asks a database, and its text stands beside the passages: a fact may stand in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack_integrations.components.evaluators import ragmetrics as for_haystack
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from test_rewriting import FindsTexts

from ragmetrics_core import Sample, evaluate
from ragmetrics_core.data import Fact
from ragmetrics_core.reporting.sample_journey import SampleJourney, journey_of

QUESTION = "What does a cabin cost?"
FERRY = "The night ferry to Halmstad leaves the east quay at 22:40, except on Sundays."
ROWS = "A cabin for two costs 96 euros. A seat on the night ferry costs 38 euros."
NOTHING_FOUND = "Nothing about this was found in the handbook of the harbour."
ANSWER = "96 euros."
FACT = Fact(text="A cabin for two costs 96 euros.")
TEMPLATE = "Handbook:\n{context}\n\nPrice list:\n{prices}\n\nQuestion: {question}"


def followed(sample: Sample) -> SampleJourney:
    asked = sample.model_copy(update={"facts": (FACT,)})
    report = evaluate([asked], metrics=["accuracy"], judge="lexical")
    journey = journey_of(report.results[0])
    assert journey is not None
    return journey


def joined(documents: list[Document]) -> str:
    texts = [document.page_content for document in documents]
    return "\n".join(texts) or NOTHING_FOUND


def chain_with(prices: Callable[[str], Any], texts: list[str]) -> Sample:
    chain = (
        {
            "context": FindsTexts(found_texts=texts) | joined,
            "prices": RunnableLambda(prices, name="prices"),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template(TEMPLATE)
        | FakeListChatModel(responses=[ANSWER])
    )
    with capture_langchain() as captured:
        chain.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


reads_prices = RunnableLambda(lambda _: ROWS, name="reads_prices")


@component
class FindsFerry:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [HaystackDocument(content=FERRY)]}


@component
class ReadsPrices:
    @component.output_types(text=str)
    def run(self, query: str) -> dict[str, Any]:
        return {"text": ROWS}


def pipeline_with_prices() -> Sample:
    pipeline = Pipeline()
    template = "{{ documents[0].content }}\nPrices: {{ prices }}\nQ: {{ query }}"
    pipeline.add_component("search", FindsFerry())
    pipeline.add_component("prices", ReadsPrices())
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("search.documents", "prompt.documents")
    pipeline.connect("prices.text", "prompt.prices")
    pipeline.connect("prompt", "llm")
    queries = {name: {"query": QUESTION} for name in ("search", "prices", "prompt")}
    with for_haystack.capture() as captured:
        pipeline.run(queries)
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize(
    "run", [lambda: chain_with(lambda _: ROWS, [FERRY]), pipeline_with_prices]
)
def test_a_fact_is_unknown_where_a_step_wrote_a_text_into_the_prompt(
    run: Callable[[], Sample],
) -> None:
    journey = followed(run())
    assert not journey.facts[0].known
    assert "the step prices returned a text" in journey.unknown["facts"]
    assert journey.unknown["facts"].count("returned a text") == 1


@pytest.mark.parametrize(
    ("prices", "texts"),
    [
        pytest.param(lambda _: "none", [FERRY], id="a word"),
        pytest.param(lambda _: f"See: {FERRY}", [FERRY], id="a passage"),
        pytest.param(lambda question: f"For {question}", [FERRY], id="the question"),
        pytest.param(lambda _: "none", [], id="what is said of no documents"),
        pytest.param(
            lambda question: reads_prices.invoke(question)[:4],
            [FERRY],
            id="a text that is not shown",
        ),
    ],
)
def test_a_fact_is_not_retrieved_where_steps_wrote_only_what_is_known(
    prices: Callable[[str], str], texts: list[str]
) -> None:
    journey = followed(chain_with(prices, texts))
    assert [fact.lost for fact in journey.facts] in ([], ["not_retrieved"])
    assert "returned a text" not in journey.unknown.get("facts", "")
