"""What answers of LlamaIndex applications cite: each has the shape of a public one that cites.

The scripted models are shown the prompts of these applications. What is expected stands
in each row: the part of the answer, the numbers of the texts that it cites, and what
dangles; or words of the reason why nothing can be known.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from llama_index.core import PromptTemplate, get_response_synthesizer
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    RetrieverQueryEngine,
)
from llama_index.core.response_synthesizers import Accumulate, ResponseMode
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool
from llama_index.core.workflow import (
    Context,
    Event,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from llama_index.evaluation.ragmetrics import capture
from pydantic import BaseModel
from velm import ANSWER, MARKS, QUESTION, TEXTS, Expected, check

from ragmetrics_core import Sample

pytestmark = [
    # The framework's workflows look at all members of an agent, deprecated pydantic
    # ones among them.
    pytest.mark.filterwarnings(
        "ignore:The `(__fields|model_):pydantic.warnings.PydanticDeprecatedSince20"
    ),
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_:pydantic.warnings.PydanticDeprecatedSince211"
    ),
    # Its agents ask for a deprecated property.
    pytest.mark.filterwarnings(
        "ignore:is_running called from within a step:DeprecationWarning"
    ),
    # Its contexts cannot write the memory of an agent down with this release of
    # pydantic.
    pytest.mark.filterwarnings(
        "ignore:Skipping serialization of known unserializable key"
    ),
    # Its chat memory never closes its database.
    # its contexts cannot write down the memory of an agent with this release of pydantic
    pytest.mark.filterwarnings(
        "ignore:Skipping serialization of known unserializable key"
    ),
    pytest.mark.filterwarnings("ignore:.*aiosqlite:ResourceWarning"),
    pytest.mark.usefixtures("databases_let_go"),
]

FILES = ("rivers.pdf", "bridges.pdf", "opening.pdf")


def nodes() -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(
                id_=f"node-{place}",
                text=text,
                metadata={"filename": FILES[place], "id": f"S{place}"},
                excluded_llm_metadata_keys=["id"],
            ),
            score=0.9 - place / 10,
        )
        for place, text in enumerate(TEXTS)
    ]


def model(kit: ModuleType, *replies: tuple[str, str], **fields: Any) -> Any:
    """A model that replies by the words that its prompt holds."""
    return kit.ScriptedLLM(script=dict(replies), **fields)


def citation_engine(
    kit: ModuleType, answer: str = ANSWER, **options: Any
) -> CitationQueryEngine:
    return CitationQueryEngine.from_args(
        None,
        retriever=kit.FixedRetriever(nodes()),
        llm=model(kit, ("Source 1", answer)),
        **options,
    )


def plain(kit: ModuleType) -> Any:
    return citation_engine(kit).query(QUESTION)


def own_templates(kit: ModuleType) -> Any:
    """Templates of its own; each prompt holds one source, and later ones refine the answer."""
    ask = PromptTemplate("Sources:\n{context_str}\nQuestion: {query_str}\nAnswer: ")
    refine = PromptTemplate(
        "Existing answer: {existing_answer}\nSources:\n{context_msg}\n"
        "Question: {query_str}\nRefined Answer: "
    )
    replies = [("Source 3", ANSWER), ("Source 2", "Of stone [2]."), ("Source 1", "No.")]
    engine = CitationQueryEngine(
        retriever=kit.FixedRetriever(nodes()),
        llm=model(kit, *replies),
        response_synthesizer=get_response_synthesizer(
            llm=model(kit, *replies),
            response_mode=ResponseMode.REFINE,
            text_qa_template=ask,
            refine_template=refine,
        ),
    )
    return engine.query(QUESTION)


def streamed_and_filtered(kit: ModuleType) -> Any:
    """A filter drops the last passage, so that its number names nothing."""
    engine = CitationQueryEngine.from_args(
        None,
        retriever=kit.FixedRetriever(nodes()),
        llm=model(kit, ("Source 1", "Old [1]. Of stone [2]. It is red [7].")),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.75)],
        streaming=True,
    )
    return "".join(engine.query(QUESTION).response_gen)


def small_sources(kit: ModuleType) -> Any:
    """Passages are cut into sources of a sentence, each with a number of its own."""
    text = " ".join(
        f"Fact {n} of the town is that it has {n} old gates." for n in range(40)
    )
    long = NodeWithScore(node=TextNode(id_="long", text=text), score=0.9)
    splitter = TokenTextSplitter(chunk_size=64, chunk_overlap=0, tokenizer=str.split)
    engine = CitationQueryEngine(
        retriever=kit.FixedRetriever([long]),
        llm=model(kit, ("Source 1", "It has gates [2].")),
        text_splitter=splitter,
    )
    return engine.query(QUESTION)


def one_source(kit: ModuleType) -> Any:
    """The template's own example has two sources: the second may be what is cited."""
    engine = CitationQueryEngine.from_args(
        None,
        retriever=kit.FixedRetriever(nodes()[:1]),
        llm=model(kit, ("Source 1", "It is old [1]. It is red [2].")),
    )
    return engine.query(QUESTION)


def reretrieved(kit: ModuleType) -> Any:
    """Nothing is found with a filter, so that it is asked again without."""
    asked = citation_engine(kit)
    asked.retriever._nodes = []
    if not asked.query(QUESTION).source_nodes:
        return citation_engine(kit).query(QUESTION)
    return None


class NodeCitations(BaseNodePostprocessor):
    """The node's id goes into its metadata, and so into the prompt."""

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,
    ) -> list[NodeWithScore]:
        for scored in nodes:
            scored.node.metadata["citation_id"] = scored.node.node_id
        return nodes


CITATION_PROMPT = PromptTemplate(
    "Context information is below.\n------------------\n{context_str}\n"
    "------------------\nCite as [citation:id].\nQuery: {query_str}\nAnswer: "
)


def engine_with_ids(kit: ModuleType, answer: str, mode: str = "one prompt") -> Any:
    writer = model(kit, ("Context information", answer))
    synthesizer: Any = get_response_synthesizer(
        llm=writer, text_qa_template=CITATION_PROMPT
    )
    if mode == "a prompt a node":
        synthesizer = Accumulate(llm=writer, text_qa_template=CITATION_PROMPT)
    return RetrieverQueryEngine(
        kit.FixedRetriever(nodes()),
        synthesizer,
        node_postprocessors=[NodeCitations()],
    )


def ids_of_nodes(kit: ModuleType) -> Any:
    answer = "Opened in 1874 [citation:node-2]. Old [citation:node-7]."
    return engine_with_ids(kit, answer).query(QUESTION)


def agent_with_ids(kit: ModuleType) -> Any:
    engine = engine_with_ids(kit, "Opened in 1874 [citation:node-2].")
    tool = QueryEngineTool.from_defaults(engine, name="query_tool")
    caller = kit.ToolLLM(
        calls=[("query_tool", {"input": "opening of the Velm bridge"})],
        last="The bridge was opened in 1874 [citation:node-2].",
    )
    made = FunctionAgent(tools=[tool], llm=caller, system_prompt="Respect citation_id.")

    async def ask() -> str:
        return str(await made.run(user_msg=QUESTION))

    return asyncio.run(ask())


class Retrieved(Event):
    nodes: list[NodeWithScore]


class Sourced(Event):
    nodes: list[NodeWithScore]


class CitationWorkflow(Workflow):
    """Retrieve, number the sources, synthesize."""

    def __init__(self, kit: ModuleType) -> None:
        super().__init__(timeout=20)
        self.kit = kit

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> Retrieved:
        await ctx.store.set("query", ev.query)
        return Retrieved(
            nodes=await self.kit.FixedRetriever(nodes()).aretrieve(ev.query)
        )

    @step
    async def number(self, ev: Retrieved) -> Sourced:
        sources = [
            NodeWithScore(
                node=TextNode(text=f"Source {n}:\n{one.node.get_content()}\n"),
                score=one.score,
            )
            for n, one in enumerate(ev.nodes, start=1)
        ]
        return Sourced(nodes=sources)

    @step
    async def synthesize(self, ctx: Context, ev: Sourced) -> StopEvent:
        synthesizer = get_response_synthesizer(
            llm=model(self.kit, ("Source 1", ANSWER)), use_async=True
        )
        query = await ctx.store.get("query")
        return StopEvent(result=await synthesizer.asynthesize(query, nodes=ev.nodes))


def workflow(kit: ModuleType) -> Any:
    async def ask() -> Any:
        return await CitationWorkflow(kit).run(query=QUESTION)

    return asyncio.run(ask())


def references_behind(kit: ModuleType) -> Any:
    """An engine around another one writes the ids of all nodes behind its answer."""
    inner = RetrieverQueryEngine(
        kit.FixedRetriever(nodes()),
        get_response_synthesizer(llm=model(kit, ("1874", "It was opened in 1874."))),
    )

    class WithReferences(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            response = inner.query(query_str)
            ids = sorted(one.node.metadata["id"] for one in response.source_nodes)
            return f"{response}\n\nReferences: {', '.join(ids)}"

    return WithReferences().query(QUESTION)


def by_hand(label: str, answer: str) -> Callable[[ModuleType], Any]:
    """Retrieval and model are called by plain code that writes the prompt."""

    def run(kit: ModuleType) -> Any:
        found = kit.FixedRetriever(nodes()).retrieve(QUESTION)
        context = "\n\n".join(
            label.format(n=n, file=one.node.metadata["filename"], text=one.node.text)
            for n, one in enumerate(found, start=1)
        )
        prompt = f"Cite your sources.\n\n{context}\n\nQuestion: {QUESTION}\nAnswer:"
        return model(kit, ("Cite", answer)).complete(prompt)

    return run


def cut_off(reply: str) -> Callable[[ModuleType], Any]:
    """A query engine of the user's own takes the answer out of an element of the reply."""

    class Engine(CustomQueryEngine):
        llm: Any
        retriever: Any

        def custom_query(self, query_str: str) -> str:
            found = self.retriever.retrieve(query_str)
            context = "\n".join(
                f"Document {n}: {one.node.text}" for n, one in enumerate(found, start=1)
            )
            text = self.llm.complete(f"Cite.\n{context}\nQuestion: {query_str}").text
            return text.partition("<answer>")[2].partition("</answer>")[0]

    return lambda kit: Engine(
        llm=model(kit, ("Cite", reply)), retriever=kit.FixedRetriever(nodes())
    ).query(QUESTION)


class Chunks(BaseModel):
    answer: str
    used_chunks: list[int]


class Fact(BaseModel):
    fact: str
    substring_quote: list[str]


class Facts(BaseModel):
    answer: list[Fact]


class Statement(BaseModel):
    text: str
    citations: list[int]


class Statements(BaseModel):
    statements: list[Statement]


def structured(schema: type[BaseModel], value: Any, label: str) -> Callable[..., Any]:
    """An engine with ``output_cls`` whose prompt numbers the chunks."""

    def run(kit: ModuleType) -> Any:
        class Numbering(BaseNodePostprocessor):
            def _postprocess_nodes(
                self,
                nodes: list[NodeWithScore],
                query_bundle: QueryBundle | None = None,
            ) -> list[NodeWithScore]:
                return [
                    NodeWithScore(
                        node=TextNode(
                            id_=one.node.node_id,
                            text=label.format(n=n, text=one.node.get_content()),
                        ),
                        score=one.score,
                    )
                    for n, one in enumerate(nodes)
                ]

        engine = RetrieverQueryEngine(
            kit.FixedRetriever(nodes()),
            get_response_synthesizer(
                llm=model(kit, ("Velm", json.dumps(value))), output_cls=schema
            ),
            node_postprocessors=[Numbering()] if label else [],
        )
        return engine.query(QUESTION)

    return run


def two_engines(kit: ModuleType) -> Any:
    """Two engines number their own sources, and a last call writes one answer of both."""
    firsts, others = nodes()[:2], nodes()[2:]
    texts = []
    for group in (firsts, others):
        engine = CitationQueryEngine.from_args(
            None,
            retriever=kit.FixedRetriever(group),
            llm=model(kit, ("Source 1", f"It says so {len(group)} times there [1].")),
        )
        texts.append(str(engine.query(QUESTION)))
    prompt = f"Join for {QUESTION}\nFirst: {texts[0]}\nSecond: {texts[1]}"
    return model(kit, ("Join", "Both say it [1].")).complete(prompt)


class Provided(Workflow):
    """The prompt shows what was found; the provider names a source in a block of its own."""

    def __init__(self, kit: ModuleType, blocks: Sequence[Any]) -> None:
        super().__init__(timeout=20)
        self.kit = kit
        self.blocks = blocks

    @step
    async def answer(self, ev: StartEvent) -> StopEvent:
        found = await self.kit.FixedRetriever(nodes()).aretrieve(ev.query)
        shown = "\n\n".join(one.node.text for one in found)
        reply = ChatMessage(role="assistant", blocks=list(self.blocks))

        class Scripted(self.kit.ToolLLM):  # type: ignore[name-defined,misc]  # a class of the fixture
            def _reply(self, messages: Any) -> ChatResponse:
                return ChatResponse(message=reply)

        asked = ChatMessage(role="user", content=f"{shown}\n\n{ev.query}")
        response = await Scripted().achat_with_tools([], chat_history=[asked])
        return StopEvent(result=response.message.content)


def citation_block(quote: str) -> Callable[[ModuleType], Any]:
    def run(kit: ModuleType) -> Any:
        if not hasattr(types, "CitationBlock"):
            pytest.skip("this LlamaIndex has no such blocks")
        cited = types.CitationBlock(
            cited_content=quote,
            source="opening",
            title="a document",
            additional_location_info={},
        )
        text = types.TextBlock(text="It was opened in 1874.")

        async def ask() -> Any:
            return await Provided(kit, [text, cited]).run(query=QUESTION)

        return asyncio.run(ask())

    return run


@dataclass(frozen=True)
class App:
    """How the shape of a public application is run, and what its last answer cites."""

    run: Callable[[ModuleType], Any]
    expected: Expected


NO_NUMBERING = "does not number each context"
OTHER_NOTATION = "another notation"
SEVERAL = "several contexts, or none"
NOTHING = "nothing in the answer"
RENUMBERED = "In 1874 [1].\n\n### References\n\n- [1] opening-day.pdf"


APPS: dict[str, App] = {
    # the framework's own numbering
    "verified answers": App(plain, MARKS),
    "templates of its own, refined": App(own_templates, MARKS),
    "streamed, with a filter": App(
        streamed_and_filtered,
        [
            ("Old [1].", (0,), ()),
            ("Of stone [2].", (1,), ()),
            ("It is red [7].", (), ("7",)),
        ],
    ),
    "one source, two in the example": App(one_source, NO_NUMBERING),
    "asked again without a filter": App(reretrieved, MARKS),
    "a workflow": App(workflow, MARKS),
    "two engines and a last call": App(two_engines, NO_NUMBERING),
    # numbers of the application's prompt
    "sections beside numbers": App(
        by_hand("[{n}] ({file}) {text}", "In 1874 [3]."), [("In 1874 [3].", (2,), ())]
    ),
    "an answer that lists its sources anew": App(
        by_hand("[{n}] {text}", RENUMBERED), OTHER_NOTATION
    ),
    # other notations
    "ids of nodes": App(ids_of_nodes, OTHER_NOTATION),
    "an agent and ids": App(agent_with_ids, OTHER_NOTATION),
    "references behind the answer": App(references_behind, OTHER_NOTATION),
    "names of files": App(
        by_hand("[Source: {file}]\n{text}", "In 1874 [Source: opening.pdf]."),
        OTHER_NOTATION,
    ),
    "a thought that is cut off": App(
        cut_off("I know it now.\n<answer>In 1874.</answer>"), NOTHING
    ),
    # structured replies
    "marks and a field of the same": App(
        structured(
            Chunks, {"answer": "In 1874 [2].", "used_chunks": [2]}, "[{n}] {text}"
        ),
        [(None, (2,), ())],
    ),
    "marks and a field of another, parsed": App(
        structured(
            Chunks, {"answer": "In 1874 [2].", "used_chunks": [1]}, "[{n}] {text}"
        ),
        SEVERAL,
    ),
    "marks and a field of another, as text": App(
        by_hand(
            "[{n}] {text}", json.dumps({"answer": "In 1874 [3].", "used_chunks": [1]})
        ),
        SEVERAL,
    ),
    "facts with quotes": App(
        structured(
            Facts,
            {
                "answer": [
                    {
                        "fact": "It was opened in 1874.",
                        "substring_quote": ["opened at last in 1874", "nobody said it"],
                    }
                ]
            },
            "{text}",
        ),
        OTHER_NOTATION,
    ),
    "statements": App(
        structured(
            Statements,
            {"statements": [{"text": "It was opened in 1874.", "citations": [2]}]},
            "Source {n}:\n{text}",
        ),
        OTHER_NOTATION,
    ),
    # what a provider says
    "a block that cites": App(
        citation_block("the Velm bridge was opened at last in 1874"), [(None, (2,), ())]
    ),
}


def last_sample(run: Callable[[ModuleType], Any], kit: ModuleType) -> Sample:
    with capture() as runs:
        run(kit)
    return runs.samples[-1]


@pytest.mark.parametrize("name", APPS)
def test_every_citation_is_right_or_unknown_with_its_reason(
    name: str, kit: ModuleType
) -> None:
    app = APPS[name]
    sample = last_sample(app.run, kit)
    check(sample, app.expected)


def test_a_source_cut_from_a_passage_is_that_passage_as_it_was_numbered(
    kit: ModuleType,
) -> None:
    sample = last_sample(small_sources, kit)
    assert sample.citations is not None, sample.citations_unknown
    (citation,) = sample.citations
    (place,) = citation.contexts
    assert sample.contexts[place].text.startswith("Source 2:")
