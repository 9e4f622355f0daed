"""Metadata that a framework writes before a text change nothing of what became of it."""

from __future__ import annotations

from types import ModuleType

from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import AutoMergingRetriever, BaseRetriever
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core.data.sample import PassageNote, Sample

QUESTION = "What does a cabin cost?"
SENTENCES = (
    "A seat on the night ferry costs 38 euros.",
    "Pay at the counter or in the mobile app.",
    "A cabin for two costs 96 euros, with breakfast.",
)
HEADINGS = st.dictionaries(
    st.sampled_from(["file_name", "page", "title"]),
    st.sampled_from(["fares.md", "12", "What tickets cost", "Fährpreise 2024"]),
)


def asked(retriever: BaseRetriever, *, window: bool = False) -> Sample:
    steps = [MetadataReplacementPostProcessor("window")] if window else []
    engine = RetrieverQueryEngine.from_args(
        retriever, llm=MockLLM(), node_postprocessors=steps
    )
    with capture() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    return sample


def with_its_window(kit: ModuleType, heading: dict[str, str]) -> Sample:
    """A sentence was found, and a step put the sentences around it in its place."""
    node = TextNode(
        text=SENTENCES[1],
        metadata={**heading, "window": " ".join(SENTENCES)},
        excluded_llm_metadata_keys=["window"],
        excluded_embed_metadata_keys=["window"],
    )
    found = kit.FixedRetriever(lambda query: [NodeWithScore(node=node)])
    return asked(found, window=True)


def merged(heading: dict[str, str]) -> Sample:
    """All leaves of a parent were found, and the retriever put it in their place."""
    parent = TextNode(text=" ".join(SENTENCES), id_="parent", metadata=heading)
    leaves = [TextNode(text=text, metadata=heading) for text in SENTENCES]
    for leaf in leaves:
        leaf.relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id="parent")
    parent.relationships[NodeRelationship.CHILD] = [
        RelatedNodeInfo(node_id=leaf.node_id) for leaf in leaves
    ]
    stored = StorageContext.from_defaults()
    stored.docstore.add_documents([parent, *leaves])
    index = VectorStoreIndex(
        nodes=leaves, storage_context=stored, embed_model=MockEmbedding(3)
    )
    return asked(AutoMergingRetriever(index.as_retriever(similarity_top_k=3), stored))


def notes_of(sample: Sample) -> list[PassageNote]:
    assert sample.capture is not None
    return list(sample.capture.passages or ())


@settings(max_examples=examples(10), deadline=None)
@example(heading={"file_name": "fares.md"})
@given(heading=HEADINGS)
def test_law_a_sentence_has_its_window_with_any_metadata(
    kit: ModuleType, heading: dict[str, str]
) -> None:
    sample = with_its_window(kit, heading)
    (found,) = sample.retrieved or ()
    assert found.text.endswith(SENTENCES[1])
    assert SENTENCES[0] not in found.text
    assert " ".join(SENTENCES) in sample.known_contexts[0].text
    assert [note.share for note in notes_of(sample)] == [1.0]


@settings(max_examples=examples(10), deadline=None)
@example(heading={"file_name": "fares.md"})
@given(heading=HEADINGS)
def test_law_no_leaf_of_a_merged_parent_is_dropped_with_any_metadata(
    heading: dict[str, str],
) -> None:
    sample = merged(heading)
    assert sample.capture is not None
    assert not sample.capture.dropped_inside
    assert notes_of(sample) == notes_of(merged({}))
    assert [note.share for note in notes_of(sample)] == [1.0]
    assert [note.written_anew_by for note in notes_of(sample)] == [None]
