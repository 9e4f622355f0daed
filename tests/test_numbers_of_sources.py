"""An answer cites nothing only if its numbers are those of passages or of the question."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import component
from haystack_pipelines import answered_by_pipeline
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_ragmetrics import capture as capture_langchain
from llama_index.core import PromptTemplate, SummaryIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex

from ragmetrics_core import Sample
from ragmetrics_core.capture.numbers_of_sources import has_number_of_a_source

METADATA = (
    {
        "number": "31234567",
        "section": "4.1",
        "row": "7",
        "time": "00:01:30",
        "by": "Ann Lee",
    },
    {
        "number": "30111222",
        "section": "9.3",
        "row": "14",
        "time": "00:02:30",
        "by": "Bo Ray",
    },
)
TEXTS = (
    "Metformin lowered the weight by 2 kilograms in 2019.",
    "The diet of 14 weeks lowered the weight by four kilograms.",
)
QUESTION = "What lowered the weight in study 12?"


def langchain(label: str, answer: str) -> Sample:
    """A chain whose prompt shows each text under a label."""
    documents = [
        Document(text, metadata=metadata)
        for text, metadata in zip(TEXTS, METADATA, strict=True)
    ]
    shown = "\n\n".join(
        label.format(n=number, **document.metadata) + document.page_content
        for number, document in enumerate(documents, start=1)
    )
    search = RunnableLambda(lambda _: documents) | (lambda _: shown)
    made = (
        {"context": search, "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("Cite.\n{context}\n\nAsked: {question}")
        | FakeListChatModel(responses=[answer])
    )
    with capture_langchain() as captured:
        made.invoke(QUESTION)
    (sample,) = captured.samples
    return sample


@component
class Finds:
    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        documents = [
            HaystackDocument(content=text, meta=dict(metadata))
            for text, metadata in zip(TEXTS, METADATA, strict=True)
        ]
        return {"documents": documents}


def haystack(label: str, answer: str) -> Sample:
    """A pipeline whose template shows each text under a label."""
    fields = {key: "{{ d.meta['" + key + "'] }}" for key in METADATA[0]}
    label = label.format(n="{{ loop.index }}", **fields)
    template = "Cite.\n{% for d in documents %}" + label + "{{ d.content }}\n\n"
    template += "{% endfor %}{{ query }}"
    return answered_by_pipeline(Finds(), template, answer, QUESTION)


NUMBERS_OF_SOURCES = {
    "[{n}] PMID: {number}\n": ("(PMID: 30111222)", "(30111222)", "in PMID 999"),
    "[{n}] Section: {section}\n": ("(Section 9.3)", "(§ 9.3)", "[9.3]", "in 4.1"),
    "[{n}] Row: {row}\n": ("(row 14)", "in rows 7 and 14", "in row 99"),
    "[{n}] Written by {by} on day {row}, as we know:\n": ("as Bo Ray found",),
    "[{n}] [{time}] ": ("at 00:02:30", "at 2:30"),
    "[{n}] ": (
        "[2.5]",
        "(999)",
        "根据文档2",
        "根据文档２",
        "v dokumentu 2",
        "٢",
        "<doc id='9'/>",
    ),
    "<doc id='{n}'>": ("<doc id='2'/>", "<doc id='2'>", "\ue200cite\ue2020\ue201"),
}
CASES = [(label, form) for label, forms in NUMBERS_OF_SOURCES.items() for form in forms]


@pytest.mark.parametrize(("label", "form"), CASES)
def test_a_number_beside_a_passage_may_cite_it(label: str, form: str) -> None:
    sample = langchain(label, f"The diet lowered it {form}.")
    assert sample.citations is None
    assert sample.citations_unknown


@pytest.mark.parametrize(
    ("label", "form"),
    [("[{n}] Row: {row}\n", "(row 14)"), ("[{n}] ", "根据文档2")],
)
def test_a_pipeline_reads_them_alike(label: str, form: str) -> None:
    assert haystack(label, f"The diet lowered it {form}.").citations is None
    assert haystack(label, "The diet of 14 weeks lowered it.").citations == ()


@pytest.mark.parametrize("label", NUMBERS_OF_SOURCES)
@pytest.mark.parametrize(
    "answer",
    [
        "Metformin lowered it by 2 kilograms in 2019.",
        "In study 12 it was the diet of 14 weeks.",
        "It was lowered (by 2 kilograms, 2019).",
        "1. Metformin lowered it.\n2. The diet lowered it.",
        "It was lowered by 5 kilograms in all.",
        "It was lowered: 2 kilograms were lost.",
        "It was lowered on 5 km² of land.",
    ],
)
def test_an_answer_with_numbers_of_the_passages_cites_nothing(
    label: str, answer: str
) -> None:
    sample = langchain(label, answer)
    assert sample.citations == (), sample.citations_unknown


def test_a_name_that_the_prompt_does_not_show_is_no_source() -> None:
    assert langchain("[{n}] ", "It was lowered, as Bo Ray found.").citations == ()


def test_a_number_that_counts_no_items_may_cite() -> None:
    assert langchain("[{n}] ", "2. The diet lowered it.").citations is None


def test_a_word_before_a_single_number_numbers_nothing() -> None:
    prompts = ["Today is 3 May.\n[1] It is old."]
    assert not has_number_of_a_source("It is 25 m long.", ["It is old."], prompts)


class Says(CustomLLM):
    answer: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return CompletionResponse(text=self.answer)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        yield self.complete(prompt)


def llamaindex(answer: str) -> Sample:
    """A query engine, which shows each node with its metadata, as a file's reader gives it."""
    nodes = [
        TextNode(
            text="Children under twelve pay half of the price of adults.",
            metadata={"page_label": "7", "file_name": "prices.pdf", "by": "Ann Lee"},
        ),
        TextNode(
            text="Dogs are admitted free of charge on all weekdays.",
            metadata={"page_label": "12", "file_name": "rules.pdf", "by": "Bo Ray"},
        ),
    ]
    asked = PromptTemplate(
        "{context_str}\nAlways cite the page number and file name.\n{query_str}"
    )
    index = SummaryIndex(nodes=nodes)
    engine = index.as_query_engine(llm=Says(answer=answer), text_qa_template=asked)
    with capture_llamaindex() as captured:
        engine.query("And dogs?")
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize(
    "answer",
    [
        "In rules.pdf it says that dogs are free.",
        "Dogs are free. This is stated in rules.pdf on page 12.",
        "Dogs are free, as stated on page 12.",
        "Dogs are free, as stated on page 99.",
        "Children pay half, and dogs are free (pages 7 and 12).",
        "Dogs are free (page_label: 12).",
        "Bo Ray wrote that dogs are free.",
    ],
)
def test_the_metadata_above_a_node_is_no_part_of_its_passage(answer: str) -> None:
    sample = llamaindex(answer)
    assert sample.citations is None
    assert sample.citations_unknown


def test_a_query_engine_of_files_and_an_answer_that_names_none() -> None:
    assert llamaindex("Dogs are admitted free on weekdays.").citations == ()


NUMBERS = st.integers(min_value=0, max_value=10**9)


@given(st.lists(NUMBERS, min_size=1, max_size=6, unique=True), st.data())
def test_a_label_is_a_source_and_a_word_of_a_passage_is_none(
    numbers: list[int], data: st.DataObject
) -> None:
    """Whatever numbers passages and labels have: the label is found, the passage's own words are not."""
    passages = [f"The bridge has {number} arches." for number in numbers]
    labels = data.draw(st.permutations(numbers))
    prompt = "\n".join(
        f"Row: {label}\n{passage}"
        for label, passage in zip(labels, passages, strict=True)
    )
    number = data.draw(st.sampled_from(numbers))
    says = f"It has {number} arches"
    assert not has_number_of_a_source(says, passages, [prompt])
    assert has_number_of_a_source(f"{says} (row {number}).", passages, [prompt])
