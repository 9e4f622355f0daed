"""The contract of all adapters, with a real query engine."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from llama_index.core.evaluation.dataset_generation import DatasetGenerator
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from llama_index.evaluation.ragmetrics import capture
from llama_index.evaluation.ragmetrics.evaluators import as_evaluation_result

from ragmetrics_core import Sample
from ragmetrics_core.data.results import MetricResult
from ragmetrics_core.testing import AdapterContract
from ragmetrics_core.testing.adapter_contract import GoldenTurn


class Always(CompactAndRefine):
    """Asks the model also where nothing was retrieved."""

    def synthesize(self, query: Any, nodes: Any, *_: Any, **__: Any) -> Any:
        said = self.get_response(
            query.query_str,
            [n.get_content(metadata_mode=MetadataMode.LLM) for n in nodes] or [""],
        )
        return self._prepare_response_output(said, nodes)

    async def asynthesize(self, query: Any, nodes: Any, *_: Any, **__: Any) -> Any:
        texts = [n.get_content(metadata_mode=MetadataMode.LLM) for n in nodes] or [""]
        return self._prepare_response_output(
            await self.aget_response(query.query_str, texts), nodes
        )


class Turning(BaseNodePostprocessor):
    """A reranker: the last node goes, and the others change places."""

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
        return nodes[-2::-1]


class TestContract(AdapterContract):
    module = "llama_index.evaluation.ragmetrics"
    framework = "llama_index"
    kit: ModuleType

    @pytest.fixture(autouse=True)
    def _with_kit(self, kit: ModuleType) -> None:
        type(self).kit = kit

    def engine(
        self, turn: GoldenTurn, *, streaming: bool = False, fails: bool = False
    ) -> RetrieverQueryEngine:
        nodes = [
            NodeWithScore(
                node=TextNode(
                    id_=context.id,
                    text=context.text,
                    metadata=context.metadata,
                    excluded_llm_metadata_keys=list(context.metadata),
                ),
                score=context.score,
            )
            for context in turn.contexts
        ]
        llm = self.kit.ScriptedLLM(script={"": turn.answer}, fails=fails)
        # The framework's usual synthesizers answer nothing of their own without
        # contexts.
        synthesizer = Always(llm=llm, streaming=streaming)
        return RetrieverQueryEngine(
            self.kit.FixedRetriever(nodes), response_synthesizer=synthesizer
        )

    def play(self, turn: GoldenTurn) -> tuple[list[Sample], Any]:
        with capture() as captured:
            response = self.engine(turn).query(turn.question)
        assert not captured.problems
        return list(captured.samples), self.seen(response)

    def play_uncaptured(self, turn: GoldenTurn) -> Any:
        return self.seen(self.engine(turn).query(turn.question))

    def seen(self, response: Any) -> Any:
        nodes = [
            (n.node_id, n.score, n.text, n.metadata) for n in response.source_nodes
        ]
        return type(response), response.response, nodes, response.metadata

    def play_streamed(self, turn: GoldenTurn) -> list[Sample]:
        with capture() as captured:
            response = self.engine(turn, streaming=True).query(turn.question)
            assert not captured.samples, "nothing is read before the application reads"
            assert "".join(response.response_gen) == turn.answer
        return list(captured.samples)

    async def play_async(self, turn: GoldenTurn) -> list[Sample]:
        with capture() as captured:
            await self.engine(turn).aquery(turn.question)
        return list(captured.samples)

    def play_unanswered(self, turn: GoldenTurn) -> list[Sample]:
        with capture() as captured, pytest.raises(self.kit.Broken):
            self.engine(turn, fails=True).query(turn.question)
        return list(captured.samples)

    def retriever(self, turn: GoldenTurn) -> Any:
        nodes = [
            NodeWithScore(node=TextNode(id_=one.id, text=one.text), score=one.score)
            for one in turn.contexts
        ]
        return self.kit.FixedRetriever(nodes)

    def play_prompt(self, turn: GoldenTurn, prompt: str) -> list[Sample]:
        retriever, llm = (
            self.retriever(turn),
            self.kit.ScriptedLLM(script={"": turn.answer}),
        )

        class Handing(CustomQueryEngine):
            """Hands its model a prompt that was written before."""

            def custom_query(self, query_str: str) -> str:
                retriever.retrieve(query_str)
                return str(llm.complete(prompt))

        with capture() as captured:
            Handing().query(turn.question)
        assert not captured.problems
        return list(captured.samples)

    def play_two(self, one: GoldenTurn, two: GoldenTurn) -> list[Sample]:
        llm, retrievers = (
            self.kit.ScriptedLLM(script={"": two.answer}),
            [self.retriever(turn) for turn in (one, two)],
        )

        class Twice(CustomQueryEngine):
            """Retrieves twice before it asks its model."""

            def custom_query(self, query_str: str) -> str:
                found = [
                    node.text
                    for retriever in retrievers
                    for node in retriever.retrieve(query_str)
                ]
                return str(llm.complete("\n".join([*found, query_str])))

        with capture() as captured:
            Twice().query(two.question)
        assert not captured.problems
        return list(captured.samples)

    def play_reranked(self, turn: GoldenTurn) -> list[Sample]:
        llm = self.kit.ScriptedLLM(script={"": turn.answer})
        engine = RetrieverQueryEngine(
            self.retriever(turn),
            response_synthesizer=Always(llm=llm),
            node_postprocessors=[Turning()],
        )
        with capture() as captured:
            engine.query(turn.question)
        assert not captured.problems
        return list(captured.samples)

    def play_changed(self, turn: GoldenTurn) -> list[Sample]:
        with capture() as captured:
            response = self.engine(turn).query(turn.question)
        for found in response.source_nodes:
            found.score = None
            found.node.set_content("changed")
            found.node.metadata.clear()
        return list(captured.samples)

    def begin(self, turn: GoldenTurn) -> Iterator[object]:
        response = self.engine(turn, streaming=True).query(turn.question)
        pieces = iter(response.response_gen)
        next(pieces)
        return pieces

    def hooks(self) -> object:
        # what is replaced while somebody listens; the root dispatcher keeps its handlers
        return VectorStoreQueryResult.__init__, DatasetGenerator._agenerate_dataset

    def to_native_and_back(self, result: MetricResult) -> tuple[float | None, str]:
        made = as_evaluation_result(result, Sample())
        assert made.invalid_result == (result.value is None)
        assert made.metric_result == result
        return made.score, made.feedback
