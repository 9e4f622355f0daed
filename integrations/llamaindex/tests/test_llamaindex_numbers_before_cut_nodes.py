"""Numbers before nodes whose texts a prompt cuts by characters: what a mark means is known."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.evaluation.ragmetrics import capture

TEXTS = (
    "The Skarholm ferry sails from pier 7 behind the fish market. Boarding closes ten"
    " minutes before departure, and cyclists wait in the left lane of the quay.",
    "Skarholm has about four hundred residents in winter and three times as many in"
    " July. Its only shop sells bread, batteries and postcards, and closes at noon.",
    "The ferry Marta was built at a yard in Gdynia and rebuilt twice since then. Two"
    " engines drive her, and the saloon below deck seats eighty people.",
)


class Finds(BaseRetriever):
    def __init__(self, *, has_metadata: bool) -> None:
        super().__init__()
        self._nodes = [
            NodeWithScore(
                node=TextNode(
                    id_=f"n{place}",
                    text=text,
                    metadata={"source": f"{place}.md", "page": place}
                    if has_metadata
                    else {},
                )
            )
            for place, text in enumerate(TEXTS, 1)
        ]

    def _retrieve(self, *_: Any) -> list[NodeWithScore]:
        return self._nodes


class CitesTheFirst(CustomLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted")

    def complete(self, prompt: str, **_: Any) -> CompletionResponse:  # type: ignore[override]  # the rest is the framework's
        return CompletionResponse(text="It sails from pier 7 [1].")

    def stream_complete(self, prompt: str, **_: Any) -> Any:  # type: ignore[override]  # never called
        raise NotImplementedError


class CutsTexts(CustomQueryEngine):
    """As the documentation's ``RAGStringQueryEngine``, with the beginnings of its texts."""

    retriever: BaseRetriever
    llm: Any
    n_characters: int
    separator: str

    def custom_query(self, query_str: str) -> str:
        found = self.retriever.retrieve(query_str)
        context = self.separator.join(
            f"[{number}] {node.node.get_content()[: self.n_characters]}"
            for number, node in enumerate(found, 1)
        )
        prompt = f"Cite sources as in [1].\n{context}\nQuery: {query_str}\nAnswer: "
        return str(self.llm.complete(prompt))


@pytest.mark.parametrize("has_metadata", [True, False])
@pytest.mark.parametrize("n_characters", [60, 95, 120, 140, 145, 150, 999])
@pytest.mark.parametrize("separator", ["\n\n", "\n"])
def test_a_number_before_a_cut_text_means_its_node(
    separator: str, n_characters: int, *, has_metadata: bool
) -> None:
    engine = CutsTexts(
        retriever=Finds(has_metadata=has_metadata),
        llm=CitesTheFirst(),
        n_characters=n_characters,
        separator=separator,
    )
    with capture() as captured:
        engine.query("Where does the ferry sail from?")
    (sample,) = captured.samples
    assert sample.citations is not None, sample.citations_unknown
    assert [citation.contexts for citation in sample.citations] == [(0,)]
    # the "1" of "[1]" is no end of the label "page: 1"
    beginnings = [text[:30] for text in TEXTS]
    assert [context.text[:30] for context in sample.known_contexts] == beginnings
