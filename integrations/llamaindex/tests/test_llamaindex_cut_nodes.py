"""A node may be shown with its metadata or without; how much of it is shown is told alike."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples
from llama_index.core.llms import (
    CompletionResponse,
    CustomLLM,
    LLMMetadata,
    MockLLM,
)
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core.data.sample import Sample

QUESTION = "What does my dog cost?"
TEXT = (
    "Dogs and cats travel in the pet lounge on deck 5. Owners must show a valid"
    " vaccination card at check-in, and animals stay on a leash until the ramp is"
    " closed. Since March 2021 a fee of 15 euros applies for each animal."
)
METADATA = {"file_name": "pets.md"}


def sample_of_prompt(kit: ModuleType, node: TextNode, shown: str) -> Sample:
    """A run that retrieves a node, and shows a text of its own making to the model."""
    retriever = kit.FixedRetriever(lambda query: [NodeWithScore(node=node)])
    with capture() as captured:
        retriever.retrieve(QUESTION)
        MockLLM().complete(f"Context:\n{shown}\nQuestion: {QUESTION}")
    (sample,) = captured.samples
    return sample


def shares(sample: Sample) -> list[float | None]:
    assert sample.capture is not None
    return [passage.share for passage in sample.capture.passages]


@settings(max_examples=examples(10), deadline=None)
@example(start=0, length=110)
@example(start=0, length=200)
@given(
    start=st.integers(0, len(TEXT) // 2),
    length=st.integers(60, len(TEXT)),
)
def test_a_part_of_a_node_is_the_same_share_with_metadata_and_without(
    kit: ModuleType, start: int, length: int
) -> None:
    part = TEXT[start : start + length]
    plain = sample_of_prompt(kit, TextNode(text=TEXT), part)
    described = sample_of_prompt(kit, TextNode(text=TEXT, metadata=METADATA), part)
    assert shares(described) == shares(plain)
    if start == 0 and length >= 110:
        assert shares(plain) != [None]


def test_a_node_that_is_cut_behind_its_metadata_is_cut(kit: ModuleType) -> None:
    node = TextNode(text=TEXT, metadata=METADATA)
    shown = node.get_content(MetadataMode.LLM)[:130]
    (share,) = shares(sample_of_prompt(kit, node, shown))
    assert share is not None
    assert 0.4 < share < 0.6


class Drafts(CustomLLM):
    """It writes a draft, and then the answer."""

    replies: list[str]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt: str, *_: Any, **__: Any) -> CompletionResponse:
        return CompletionResponse(text=self.replies.pop(0))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


class DividesNodes(CustomQueryEngine):
    """It asks about the beginning of a node first, and then about the rest of it."""

    retriever: Any
    place: int

    def custom_query(self, query_str: str) -> str:
        (scored_node,) = self.retriever.retrieve(query_str)
        text = scored_node.node.get_content(MetadataMode.LLM)
        llm = Drafts(replies=["The draft says that pets have a lounge.", "15 euros."])
        draft = llm.complete(f"Read: {text[: self.place]}\nQuestion: {query_str}").text
        rest = text[self.place :]
        return llm.complete(f"{draft}\nAlso read: {rest}\nQuestion: {query_str}").text


@settings(max_examples=examples(20), deadline=None)
@example(place=150, metadata=METADATA)
@given(place=st.integers(60, len(TEXT) - 60), metadata=st.sampled_from([{}, METADATA]))
def test_law_the_prompts_that_share_a_node_out_show_it_whole(
    kit: ModuleType, place: int, metadata: dict[str, str]
) -> None:
    node = TextNode(text=TEXT, metadata=metadata)
    place = node.get_content(MetadataMode.LLM).find(" ", place)  # between two words
    found = kit.FixedRetriever(lambda query: [NodeWithScore(node=node)])
    with capture() as captured:
        DividesNodes(retriever=found, place=place).query(QUESTION)
    (sample,) = captured.samples
    assert shares(sample) == [1.0]
    assert TEXT in sample.known_contexts[0].text
