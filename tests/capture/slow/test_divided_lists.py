"""Steps that divide their documents into several lists: what leads nowhere was not kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.routers import MetadataRouter
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from langgraph.graph import END, START, StateGraph

from ragmetrics_core import Sample

QUESTION = "What does a bicycle cost on the ferry?"
ANSWER = "The ferry sails from pier 7."
TEXTS = (
    "The ferry sails from pier 7, behind the fish market.",
    "The only shop of the island sells bread and postcards.",
    "For residents a bicycle is free of charge on board.",
)
Fates = list[tuple[bool | None, str | None]]


def fates(sample: Sample) -> Fates:
    """Of each passage whether it was kept, and what dropped it."""
    return [(note.kept, note.dropped_by) for note in sample.capture.passages]


def are_right_or_unknown(found: Fates, expected: Fates) -> bool:
    """Whether each passage has its fate, or none is told."""
    pairs = zip(found, expected, strict=True)
    return all(fate in (right, (None, None)) for fate, right in pairs)


def dropped_by(name: str) -> Fates:
    return [(True, None), (True, None), (False, name)]


KEPT_ALL: Fates = [(True, None)] * 3

# Haystack


@component
class Finds:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        statuses = ("current", "current", "archived")
        return {
            "documents": [
                HaystackDocument(content=text, meta={"status": status})
                for text, status in zip(TEXTS, statuses, strict=True)
            ]
        }


@component
class Divides:
    @component.output_types(
        current=list[HaystackDocument], unmatched=list[HaystackDocument]
    )
    def run(self, documents: list[HaystackDocument]) -> dict[str, Any]:
        return {"current": documents[:2], "unmatched": documents[2:]}


@component
class Counts:
    @component.output_types(number=int)
    def run(self, documents: list[HaystackDocument]) -> dict[str, Any]:
        return {"number": len(documents)}


def router() -> MetadataRouter:
    rule = {"field": "meta.status", "operator": "==", "value": "current"}
    return MetadataRouter(rules={"current": rule})


ALL = "{% for d in documents %}{{ d.content }}\n{% endfor %}"


def pipeline(
    dividing: Any, *connections: tuple[str, str], template: str = ALL, **further: Any
) -> Sample:
    built = Pipeline()
    template = f"{template}Asked: {{{{ query }}}}"
    components = {
        "search": Finds(),
        "divide": dividing,
        "prompt": PromptBuilder(template, required_variables="*"),
        "llm": MockChatGenerator(ANSWER),
        **further,
    }
    for name, instance in components.items():
        built.add_component(name, instance)
    built.connect("search.documents", "divide.documents")
    for sender, receiver in connections:
        built.connect(sender, receiver)
    built.connect("prompt", "llm")
    asked = {name: {"query": QUESTION} for name in ("search", "prompt")}
    with haystack_ragmetrics.capture() as captured:
        built.run(asked)
    (sample,) = captured.samples
    return sample


TO_PROMPT = ("divide.current", "prompt.documents")
JOINED = (
    ("divide.current", "join.documents"),
    ("divide.unmatched", "join.documents"),
    ("join.documents", "prompt.documents"),
)
PIPELINES: dict[str, tuple[Callable[[], Sample], Fates]] = {
    "two outputs": (lambda: pipeline(Divides(), TO_PROMPT), dropped_by("divide")),
    "router": (lambda: pipeline(router(), TO_PROMPT), dropped_by("divide")),
    "router, the rest counted": (
        lambda: pipeline(
            router(), TO_PROMPT, ("divide.unmatched", "log.documents"), log=Counts()
        ),
        dropped_by("divide"),
    ),
    "both joined": (
        lambda: pipeline(router(), *JOINED, join=DocumentJoiner()),
        KEPT_ALL,
    ),
    "both joined, and cut": (
        lambda: pipeline(Divides(), *JOINED, join=DocumentJoiner(top_k=2)),
        dropped_by("join"),
    ),
    # the template is given both, and forgets one
    "both in the template": (
        lambda: pipeline(
            Divides(),
            TO_PROMPT,
            ("divide.unmatched", "prompt.others"),
            template=f"{ALL}{{% if others|length > 5 %}}{{{{ others }}}}{{% endif %}}",
        ),
        KEPT_ALL,
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_an_output_that_leads_nowhere_was_dropped_by_its_component(name):
    run, expected = PIPELINES[name]
    assert are_right_or_unknown(fates(run()), expected)


# LangChain


class Shelf(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[LangChainDocument]:
        return [LangChainDocument(text) for text in TEXTS]


class State(TypedDict, total=False):
    question: str
    documents: list[LangChainDocument]
    rejected: list[LangChainDocument]
    answer: str


PROMPT = ChatPromptTemplate.from_template("{context}\nAsked: {question}")
MODEL = FakeListChatModel(responses=[ANSWER])


def write(documents: list[LangChainDocument]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def retrieve(state: State) -> Any:
    return {"documents": Shelf().invoke(state["question"])}


def grade(state: State) -> Any:
    return {"documents": state["documents"][:2], "rejected": state["documents"][2:]}


def generate(state: State) -> Any:
    inputs = {"context": write(state["documents"]), "question": state["question"]}
    return {"answer": MODEL.invoke(PROMPT.invoke(inputs)).content}


def generate_of_all(state: State) -> Any:
    return generate({**state, "documents": state["documents"] + state["rejected"]})


def graph(generating: Callable[[State], Any]) -> Sample:
    built = StateGraph(State)
    built.add_node("retrieve", retrieve)
    built.add_node("grade", grade)
    built.add_node("generate", generating)
    built.add_edge(START, "retrieve")
    built.add_edge("retrieve", "grade")
    built.add_edge("grade", "generate")
    built.add_edge("generate", END)
    with capture_langchain() as captured:
        built.compile().invoke({"question": QUESTION})
    (sample,) = captured.samples
    return sample


def divide(inputs: dict[str, Any]) -> dict[str, Any]:
    return {**inputs, "docs": inputs["docs"][:2], "rejected": inputs["docs"][2:]}


def chain(*ways: Any) -> Sample:
    found: Any = {"docs": Shelf(), "question": RunnablePassthrough()}
    run: Any = found
    for way in ways:
        run = run | way
    with capture_langchain() as captured:
        (run | PROMPT | MODEL).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


WRITING: Any = RunnablePassthrough.assign(context=lambda inputs: write(inputs["docs"]))


def test_what_a_node_puts_under_another_key_was_dropped_by_it():
    assert are_right_or_unknown(fates(graph(generate)), dropped_by("grade"))
    assert not any(kept is False for kept, _ in fates(graph(generate_of_all)))


def test_what_a_function_of_a_chain_puts_under_another_key_was_dropped_by_it():
    run = chain(RunnableLambda(divide), WRITING)
    assert are_right_or_unknown(fates(run), dropped_by("divide"))
