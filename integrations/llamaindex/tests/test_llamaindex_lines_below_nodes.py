"""Prompts with a line of metadata below each node's text, such as ``URL: …``."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture

from ragmetrics_core import Sample

TEXTS = (
    "Dental care is covered up to 1,500 dollars in a calendar year.",
    "Vision exams are free once a year.",
    "Employees may take sixteen weeks of parental leave at full pay.",
)
VALUES = (  # of a key in the metadata of three nodes
    tuple(f"https://hr.example.com/{name}" for name in ("dental", "vision", "leave")),
    tuple(f"handbook/benefits/{name}.md" for name in ("dental", "vision", "leave")),
    ("handbook.pdf",) * 3,
    ("7", "12", "12"),
)


class Finds(BaseRetriever):
    def __init__(self, key: str, values: tuple[str, ...]) -> None:
        self.key = key
        self.values = values
        super().__init__()

    def _retrieve(self, query: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(text=text, metadata={self.key: value}), score=1)
            for text, value in zip(TEXTS, self.values, strict=True)
        ]


class Replies(CustomLLM):
    answer: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return CompletionResponse(text=self.answer)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> Any:
        raise NotImplementedError


class Engine(CustomQueryEngine):
    retriever: Finds
    answer: str
    line: str

    def custom_query(self, query_str: str) -> str:
        shown = "\n\n".join(
            f"[{number}] {found.text}\n"
            + self.line.format(found.metadata[self.retriever.key])
            for number, found in enumerate(self.retriever.retrieve(query_str), start=1)
        )
        prompt = f"Search results:\n\n{shown}\n\nCite by number.\nQuery: {query_str}"
        return str(Replies(answer=self.answer).complete(prompt).text)


def answered(key: str, values: tuple[str, ...], line: str) -> Sample:
    engine = Engine(
        retriever=Finds(key, values),
        answer="Leave is sixteen weeks [3]. Exams are free [2].",
        line=line,
    )
    with capture() as captured:
        engine.query("What is covered?")
    (sample,) = captured.samples
    return sample


@settings(max_examples=examples(12), deadline=None)
@given(
    key=st.sampled_from(("url", "file_name", "source")),
    values=st.sampled_from(VALUES),
    capital=st.booleans(),
)
def test_a_line_below_a_text_is_no_head_of_the_next(
    key: str, values: tuple[str, ...], capital: bool
) -> None:
    written = key.capitalize() if capital else key
    sample = answered(key, values, f"{written}: {{}}")
    assert [context.text for context in sample.known_contexts] == list(TEXTS)
    assert [one.contexts for one in sample.citations or ()] == [(2,), (1,)]
    assert not any("cut" in warning for warning in sample.capture.warnings)
