"""Steps that write documents anew: the journey says that it does not know, and their texts are no further finds.

Nodes of a graph, components and postprocessors translate, shorten or rephrase what was
found. The same passages are then shown in other words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    Runnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_ragmetrics import capture as capture_langchain
from langgraph.graph import END, START, StateGraph
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from test_planted_losses import (
    ANSWER,
    QUESTION,
    TEXTS,
    Finds,
    Found,
    Nodes,
    Says,
    journeys,
)
from test_planted_losses_of_same_ids import PROMPT
from typing_extensions import TypedDict

from ragmetrics_core import Sample
from ragmetrics_core.capture import Document, Message, Node, Tree, rewriting, samples_of
from ragmetrics_core.capture.normalized_text import Text
from ragmetrics_core.capture.rewriting import changes_of
from ragmetrics_core.reporting.journey import Journey

ANEW = {
    "rephrased": (
        "It rises in hills of the north and ends in a lake that is wide: the Velm.",
        "Stone, iron and wood are what bridges are built of; railways cross some.",
        "The mayor opened the Velm bridge at last in 1874; the council had quarrelled.",
    ),
    "translated": (
        "Die Velm entspringt im Norden, in den Bergen, und mündet in einen See.",
        "Brücken baut man aus Stein, Eisen oder Holz; manche tragen eine Eisenbahn.",
        "Nach Jahren des Streits wurde sie 1874 vom Bürgermeister eröffnet.",
    ),
    "loses the fact": (
        "A river of the north, in short.",
        "Of bridges in general, in short.",
        "Of quarrels in a council, in short.",
    ),
}


def anew(text: str, how: str) -> str:
    return ANEW[how][TEXTS.index(text)]


# LangChain and LangGraph


def _rewrites_langchain(
    documents: Sequence[LangChainDocument], how: str, *, keeps_ids: bool
) -> list[LangChainDocument]:
    return [
        LangChainDocument(
            anew(document.page_content, how), id=document.id if keeps_ids else None
        )
        for document in documents
    ]


def written(documents: list[LangChainDocument]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def chain_of(found: Runnable[str, Any]) -> Sample:
    """A chain whose prompt shows what a chain of a retriever and its steps returns."""
    inputs = {"context": found, "question": RunnablePassthrough()}
    with capture_langchain() as captured:
        (inputs | PROMPT | FakeListChatModel(responses=[ANSWER])).invoke(QUESTION)
    (sample,) = captured.samples
    return sample


def chain(how: str, *, keeps_ids: bool) -> list[Sample]:
    def rewrite(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return _rewrites_langchain(documents, how, keeps_ids=keeps_ids)

    return [chain_of(Found() | RunnableLambda(rewrite) | written)]


class State(TypedDict, total=False):
    question: str
    documents: list[LangChainDocument]
    summary: str
    route: str
    answer: str


class FindsTexts(Found):
    """Finds texts that the test names."""

    found_texts: Sequence[str]

    def _get_relevant_documents(self, *_: Any, **__: Any) -> list[LangChainDocument]:
        return [
            LangChainDocument(text, id=f"d{place}")
            for place, text in enumerate(self.found_texts)
        ]


def graph(how: str, *, keeps_ids: bool) -> list[Sample]:
    def rewrite(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return _rewrites_langchain(documents, how, keeps_ids=keeps_ids)

    return graph_with(rewrite)


def graph_with(
    change: Callable[[list[LangChainDocument]], list[LangChainDocument]],
) -> list[Sample]:
    """A graph that searches, changes the documents in a node, and answers."""

    def rewrite(state: State) -> State:
        return {"documents": change(state["documents"])}

    return graph_of(rewrite)


def graph_of(
    *nodes: Callable[[State], State], found: Sequence[str] = TEXTS
) -> list[Sample]:
    """A graph that finds some texts, goes through some nodes, and answers.

    The prompt shows the summary, if a node wrote one, else the documents.
    """
    model = FakeListChatModel(responses=[ANSWER])

    def search(state: State) -> State:
        return {"documents": FindsTexts(found_texts=found).invoke(state["question"])}

    def generate(state: State) -> State:
        texts = [document.page_content for document in state["documents"]]
        context = state.get("summary") or "\n\n".join(texts)
        asked = {"context": context, "question": state["question"]}
        return {"answer": str(model.invoke(PROMPT.invoke(asked)).content)}

    builder = StateGraph(State)
    last = START
    for node in (search, *nodes, generate):
        builder.add_node(node.__name__, node)
        builder.add_edge(last, node.__name__)
        last = node.__name__
    builder.add_edge("generate", END)
    with capture_langchain() as captured:
        builder.compile().invoke({"question": QUESTION})
    return list(captured.samples)


def as_new(
    document: LangChainDocument, metadata: Mapping[str, Any], *, keeps_id: bool
) -> LangChainDocument:
    """A new document with the text of another one, and perhaps its id."""
    text, new_id = document.page_content, document.id if keeps_id else None
    return LangChainDocument(text, id=new_id, metadata=dict(metadata))


@pytest.mark.parametrize("keeps_id", [True, False])
@pytest.mark.parametrize(
    "metadata", [{}, {"score": 0.3}, {"relevance_score": 0.3}, {"rank": "a"}], ids=str
)
@pytest.mark.parametrize("n_new", [1, 2])
def test_a_node_that_hands_on_new_documents_dropped_the_others(
    metadata: Mapping[str, Any], n_new: int, *, keeps_id: bool
) -> None:
    """A reranker of one's own hands on copies of the best, often with a score."""

    def rerank(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        first, second, _ = documents
        new = [
            as_new(document, metadata, keeps_id=keeps_id)
            for document in (second, first)[:n_new]
        ]
        return new if n_new == 2 else [*new, first]

    (sample,) = graph_with(rerank)
    assert sample.capture is not None
    assert sample.capture.grade == "exact"
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes] == [True, True, False]
    assert [note.dropped_by for note in notes] == [None, None, "rewrite"]
    # nobody recorded in which order old and new documents stood
    has_new_and_old = n_new == 1 and (not keeps_id or "score" in str(metadata))
    ranks = [note.rank_kept for note in notes]
    assert ranks == ([None] * 3 if has_new_and_old else [2, 1, None])
    judged, unjudged = journeys(sample)
    assert (judged.mend, unjudged.mend) == ("not_kept", "not_kept")


CLEANINGS: dict[str, Callable[[str], str]] = {
    "white space": lambda text: "  ".join(text.split()),
    "lower case": str.lower,
    "a heading": lambda text: f"Source: shelf\n{text}",
    "capitals": str.upper,
}


@given(
    st.sampled_from(sorted(CLEANINGS)),
    st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=2, unique=True),
    st.booleans(),
)
def test_a_node_that_cleans_what_it_keeps_dropped_the_others(
    name: str, kept: list[int], keeps_ids: bool
) -> None:
    """Other white space or case, or a heading before each text, are no new texts."""

    def clean(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return [
            LangChainDocument(
                CLEANINGS[name](documents[index].page_content),
                id=documents[index].id if keeps_ids else None,
            )
            for index in kept
        ]

    (sample,) = graph_with(clean)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes] == [index in kept for index in range(3)]
    assert {note.dropped_by for note in notes} == {None, "rewrite"}


def test_a_node_that_returns_an_empty_list_dropped_all_documents() -> None:
    """A grader finds none of them relevant; a later search may bring others."""
    (sample,) = graph_with(lambda _: [])
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes] == [False] * 3
    assert {note.dropped_by for note in notes} == {"rewrite"}
    judged, _ = journeys(sample)
    assert judged.mend == "not_kept"


def test_a_step_of_a_chain_that_returns_an_empty_list_dropped_all_documents() -> None:
    def none_of(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return documents[:0]

    sample = chain_of(Found() | RunnableLambda(none_of) | written)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.dropped_by for note in notes] == ["none_of"] * 3


SUMMARY = (
    "Of a river in the north, of bridges in general, and of a quarrel of a council."
)


@pytest.mark.parametrize("of_each", [False, True])
def test_what_a_model_summarised_before_the_answer_is_not_told_as_shown(
    *, of_each: bool
) -> None:
    """The answering call was shown what the node's model wrote, and no document."""
    notes_on_each = [
        f"Passage {number} tells of things of the north and of the people who live there."
        for number in ("one", "two", "three")
    ]
    replies = notes_on_each if of_each else [SUMMARY]
    writer = FakeListChatModel(responses=replies)

    def summarise(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        texts = [document.page_content for document in documents]
        asked = texts if of_each else ["\n\n".join(texts)]
        return [
            LangChainDocument(str(writer.invoke(f"Summarise: {text}").content))
            for text in asked
        ]

    (sample,) = graph_with(summarise)
    check_shown_anew(sample, "rewrite")


CONDENSE = {
    "documents": "Summarise:\n{documents}",
    "documents for the question": "Summarise for {question}:\n{documents}",
}


@pytest.mark.parametrize("template", CONDENSE.values(), ids=CONDENSE)
@pytest.mark.parametrize("found", [TEXTS, TEXTS[1:]], ids=len)
def test_what_a_chain_condenses_before_the_answer_is_not_told_as_shown(
    template: str, found: Sequence[str]
) -> None:
    """A model sums up the documents, and the answering prompt shows the summary alone."""
    condense = (
        ChatPromptTemplate.from_template(template)
        | FakeListChatModel(responses=[SUMMARY], name="condense")
        | StrOutputParser()
    )
    asked = {
        "documents": FindsTexts(found_texts=found) | written,
        "question": RunnablePassthrough(),
    }
    sample = chain_of(RunnableParallel(asked) | condense)
    check_shown_anew(sample, "condense")


def check_shown_anew(sample: Sample, step: str) -> None:
    """Check that a step wrote all passages anew, and that no fact counts as lost."""
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert {note.written_anew_by for note in notes} == {step}
    assert {note.share for note in notes} == {None}
    assert any("was shown what" in words for words in sample.capture.warnings)
    judged, _ = journeys(sample)
    for loss in ("not_retrieved", "not_kept", "not_shown", "cut", "not_useful"):
        stage = judged.of(loss, "facts")
        assert stage is None or not stage.lost
    assert step in judged_reason(judged)


def judged_reason(journey: Journey) -> str:
    """Why the journey does not know which facts were shown."""
    return dict(journey.unknown.keys())["facts"]


def test_a_summary_beside_an_empty_list_may_hold_what_the_documents_said() -> None:
    def summarise(_: State) -> State:
        return {"summary": ANEW["rephrased"][2], "documents": []}

    (sample,) = graph_of(summarise)
    assert sample.capture is not None
    assert sample.capture.grade == "inferred"
    assert not any(note.dropped_by for note in sample.capture.passages or ())
    judged, _ = journeys(sample)
    assert judged.mend is None


def test_a_word_beside_an_empty_list_tells_nothing_of_the_documents() -> None:
    def grade(_: State) -> State:
        return {"documents": [], "route": "web search"}

    (sample,) = graph_of(grade)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert {note.dropped_by for note in notes} == {"grade"}


NEAR_COPIES = {
    "white space": (f"{TEXTS[2]} ", TEXTS[2]),
    "a longer chunk": (f"{TEXTS[2]} A band played.", TEXTS[2]),
    "a shorter chunk": (TEXTS[2][40:], TEXTS[2]),
}


def keeps_the_first(documents: list[LangChainDocument]) -> list[LangChainDocument]:
    """Leaves out the last document, a near copy of the first one."""
    return documents[:-1]


def drops_the_first(documents: list[LangChainDocument]) -> list[LangChainDocument]:
    return documents[1:]


@pytest.mark.parametrize("copies", NEAR_COPIES.values(), ids=NEAR_COPIES)
@pytest.mark.parametrize("kind", ["graph", "chain"])
def test_a_near_copy_that_is_left_out_is_lost_where_a_reranker_drops_the_other(
    kind: str, copies: tuple[str, str]
) -> None:
    found = (copies[0], TEXTS[0], TEXTS[1], copies[1])

    def dedupe(state: State) -> State:
        return {"documents": keeps_the_first(state["documents"])}

    def rerank(state: State) -> State:
        return {"documents": drops_the_first(state["documents"])}

    if kind == "graph":
        (sample,) = graph_of(dedupe, rerank, found=found)
    else:
        steps = RunnableLambda(keeps_the_first) | drops_the_first | written
        sample = chain_of(FindsTexts(found_texts=found) | steps)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes] == [False, True, True, False]
    judged, _ = journeys(sample)
    assert judged.mend == "not_kept"


def adds(documents: list[LangChainDocument]) -> list[LangChainDocument]:
    """Drops the last document, and adds one that comes from nowhere."""
    return [*documents[:2], LangChainDocument("The weather is fine this week.")]


def test_a_dropped_document_may_be_an_added_one_in_other_words() -> None:
    (sample,) = graph_with(adds)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.share for note in notes] == [1.0, 1.0, None, 1.0]
    assert notes[2].written_anew_by == "rewrite"
    judged, _ = journeys(sample)
    for loss in ("not_kept", "not_shown", "not_retrieved"):
        stage = judged.of(loss, "facts")
        assert stage is None or not stage.lost


def test_a_node_that_searches_for_what_it_adds_dropped_the_others() -> None:
    """The search that was recorded inside it tells where the added document comes from."""

    class FindsWeather(Found):
        def _get_relevant_documents(self, *_: Any, **__: Any) -> Any:
            return adds([])

    def grade(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return [*documents[:2], *FindsWeather().invoke("weather")]

    (sample,) = graph_with(grade)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.kept for note in notes[:3]] == [True, True, False]
    assert notes[2].dropped_by == "rewrite"
    judged, _ = journeys(sample)
    assert judged.mend == "not_kept"


def test_a_node_that_counts_its_documents_anew_shows_no_other_text() -> None:
    """The id of the dropped document now stands beside another document's text."""

    def rerank(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        ids = [document.id for document in documents]
        kept = documents[:2]
        return [
            LangChainDocument(document.page_content, id=id_of_another)
            for document, id_of_another in zip(kept, reversed(ids), strict=False)
        ]

    (sample,) = graph_with(rerank)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.share for note in notes] == [1.0, 1.0, 0.0]
    assert [note.kept for note in notes] == [True, True, False]
    judged, _ = journeys(sample)
    assert judged.mend == "not_kept"


def test_a_node_that_copies_one_document_beside_all_of_them_drops_none() -> None:
    def mark_best(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return [as_new(documents[0], {"score": 1.0}, keeps_id=False), *documents]

    (sample,) = graph_with(mark_best)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert not any(note.dropped_by for note in notes)


# LlamaIndex


class Rewriter(BaseNodePostprocessor):
    how: str
    keeps_ids: bool

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        rewritten = []
        for node in nodes:
            new = TextNode(text=anew(node.text, self.how))
            if self.keeps_ids:
                new = TextNode(text=new.text, id_=node.node.node_id)
            rewritten.append(NodeWithScore(node=new, score=node.score))
        return rewritten


def query_engine(how: str, *, keeps_ids: bool) -> list[Sample]:
    engine = RetrieverQueryEngine.from_args(
        Nodes(),
        llm=Says(),
        node_postprocessors=[Rewriter(how=how, keeps_ids=keeps_ids)],
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    return list(captured.samples)


def citation_engine(how: str, *, keeps_ids: bool) -> list[Sample]:
    engine = CitationQueryEngine(
        retriever=Nodes(),
        llm=Says(),
        node_postprocessors=[Rewriter(how=how, keeps_ids=keeps_ids)],
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    return list(captured.samples)


# Haystack


@component
class Rewrites:
    """A component that gives a new text for each document."""

    def __init__(self, how: str, keeps_ids: bool) -> None:
        self.how = how
        self.keeps_ids = keeps_ids

    @component.output_types(documents=list[HaystackDocument])
    def run(self, documents: list[HaystackDocument]) -> dict[str, Any]:
        rewritten = []
        for document in documents:
            content = anew(document.content or "", self.how)
            new_id = document.id if self.keeps_ids else ""
            rewritten.append(HaystackDocument(id=new_id, content=content))
        return {"documents": rewritten}


def pipeline(how: str, *, keeps_ids: bool) -> list[Sample]:
    loop = "{% for d in documents %}{{ d.content }}\n\n{% endfor %}"
    built = Pipeline()
    built.add_component("search", Finds((0, 1, 2)))
    built.add_component("rewrite", Rewrites(how, keeps_ids))
    built.add_component(
        "prompt",
        PromptBuilder(
            f"Use only:\n{loop}Asked: {{{{ query }}}}",
            required_variables=["documents", "query"],
        ),
    )
    built.add_component("llm", MockChatGenerator(ANSWER))
    built.connect("search.documents", "rewrite.documents")
    built.connect("rewrite.documents", "prompt.documents")
    built.connect("prompt", "llm")
    asked = {name: {"query": QUESTION} for name in ("search", "prompt")}
    with haystack_ragmetrics.capture() as captured:
        built.run(asked)
    return list(captured.samples)


PIPELINES: dict[str, tuple[Callable[..., list[Sample]], str]] = {
    "chain": (chain, "rewrite"),
    "graph": (graph, "rewrite"),
    "query engine": (query_engine, "Rewriter"),
    "citation engine": (citation_engine, "Rewriter"),
    "pipeline": (pipeline, "rewrite"),
}


@pytest.mark.parametrize("keeps_ids", [False, True], ids=["new ids", "ids kept"])
@pytest.mark.parametrize("how", ANEW)
@pytest.mark.parametrize("name", PIPELINES)
def test_what_became_of_a_passage_is_not_told_where_a_step_wrote_anew(
    name: str, how: str, keeps_ids: bool
) -> None:
    build, writer = PIPELINES[name]
    (sample,) = build(how, keeps_ids=keeps_ids)
    assert [document.text for document in sample.retrieved or ()] == list(TEXTS)
    shown = "\n".join(context.text for context in sample.contexts)
    assert all(text in shown for text in ANEW[how])
    judged, unjudged = journeys(sample)
    for journey in (judged, unjudged):
        assert journey.mend not in ("not_retrieved", "not_kept", "not_shown", "cut")
        for loss in ("not_kept", "not_shown", "cut"):
            stage = journey.of(loss)
            assert stage is None or stage.lost == 0
    reasons = dict(judged.unknown.keys())
    assert writer in reasons["shown"]
    assert writer in reasons["facts"]
    assert sample.capture is not None
    assert any("wrote documents anew" in words for words in sample.capture.warnings)


class Summing(BaseDocumentCompressor):
    how: str

    def compress_documents(
        self,
        documents: Sequence[LangChainDocument],
        query: str,
        callbacks: Any = None,
    ) -> Sequence[LangChainDocument]:
        return _rewrites_langchain(documents, self.how, keeps_ids=False)[:2]


class Shortening(BaseDocumentCompressor):
    """Returns the first words of each text, or the text in pieces."""

    in_pieces: bool

    def compress_documents(
        self,
        documents: Sequence[LangChainDocument],
        query: str,
        callbacks: Any = None,
    ) -> Sequence[LangChainDocument]:
        cut = []
        for document in documents:
            text = document.page_content
            middle = text.rindex(" ", 0, len(text) * 2 // 3)
            pieces = [text[:middle], text[middle:]]
            cut += pieces if self.in_pieces else pieces[:1]
        return [LangChainDocument(piece) for piece in cut]


@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_fact_in_what_a_retriever_cut_off_is_not_told_as_never_retrieved(
    *, in_pieces: bool
) -> None:
    """The search inside it found the whole texts."""
    retriever = ContextualCompressionRetriever(
        base_compressor=Shortening(in_pieces=in_pieces), base_retriever=Found()
    )
    sample = chain_of(retriever)
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert {note.written_anew_by for note in notes} == {None}
    cut_passages = sample.capture.passages_cut_inside or ()
    expected = set() if in_pieces else {"ContextualCompressionRetriever"}
    assert {passage.cut_by for passage in cut_passages} == expected
    judged, _ = journeys(sample)
    stage = judged.of("not_retrieved", "facts")
    if not in_pieces:
        assert stage is not None
        assert not stage.lost
        assert judged.mend == "cut"


@pytest.mark.parametrize("how", ["translated", "loses the fact"])
def test_what_a_retriever_dropped_is_not_counted_where_it_wrote_anew(how: str) -> None:
    retriever = ContextualCompressionRetriever(
        base_compressor=Summing(how=how), base_retriever=Found()
    )
    sample = chain_of(retriever)
    assert [document.text for document in sample.retrieved or ()] == list(ANEW[how][:2])
    judged, _ = journeys(sample)
    assert judged.of("not_kept") is None
    assert judged.of("not_retrieved", "facts") is None
    reasons = dict(judged.unknown.keys())
    assert "ContextualCompressionRetriever" in reasons["facts"]
    assert "ContextualCompressionRetriever" in reasons["kept"]


def test_what_a_filter_dropped_before_is_still_named() -> None:
    steps = [
        SimilarityPostprocessor(similarity_cutoff=0.5),
        Rewriter(how="translated", keeps_ids=False),
    ]
    engine = RetrieverQueryEngine.from_args(
        Nodes(), llm=Says(), node_postprocessors=steps
    )
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    judged, unjudged = journeys(sample)
    # without facts: one passage was dropped, and two have an unknown end
    assert (judged.mend, unjudged.mend) == ("not_kept", None)
    assert "of 2 of 3 passages it is not known whether" in unjudged.sentence
    kept = unjudged.of("not_kept")
    assert kept is not None
    assert dict(kept.by) == {"SimilarityPostprocessor": 1}


# On a neutral tree

PAGES = (
    "The tram of Porto crosses the upper deck of the bridge since the year 1905.",
    "A festival of light is held each spring, when the lamps of the quay are lit.",
    "Wine is stored in Gaia, on the southern bank, where the cellars are cool.",
)
WEB = "According to the news of today, visitors pay three euros at the northern gate."


def run(step: Node, shown: Sequence[str], found: Sequence[Document]) -> Sample:
    search = Node(
        "retriever", "search", 1.0, 2.0, query=QUESTION, documents=tuple(found)
    )
    model = Node(
        "model",
        "llm",
        5.0,
        6.0,
        prompt=(Message("user", "\n\n".join([*shown, QUESTION])),),
        reply=Message("assistant", "That is told in the texts that were shown to me."),
    )
    root = Node("step", "chain", 0.0, 9.0, children=[search, step, model])
    (sample,) = samples_of(Tree(root, question=QUESTION, question_place="input"))
    return sample


def step(handed: Sequence[Document], gave: Sequence[Document], **fields: Any) -> Node:
    documents, taken = tuple(gave), tuple(handed)
    return Node(
        "step",
        "node",
        3.0,
        4.0,
        documents_among_inputs=taken,
        documents=documents,
        **fields,
    )


FOUND = [Document(text, str(place)) for place, text in enumerate(PAGES)]
WRITTEN = st.lists(
    st.text("abcdefghij klmnopqrstuvwxyz", min_size=60, max_size=90),
    min_size=3,
    max_size=3,
    unique=True,
)


@given(WRITTEN, st.booleans())
def test_what_replaces_each_document_is_no_find(
    texts: list[str], keeps_ids: bool
) -> None:
    gave = [
        Document(text, str(place) if keeps_ids else None)
        for place, text in enumerate(texts)
    ]
    sample = run(step(FOUND, gave), texts, FOUND)
    assert [document.text for document in sample.retrieved or ()] == list(PAGES)
    assert sample.capture is not None
    for note in sample.capture.passages or ():
        assert note.share is None
        assert note.kept is None


def test_a_search_in_a_step_that_drops_nothing_adds_what_it_found() -> None:
    node = step(FOUND, [Document(WEB)], documents_passed_on=tuple(FOUND))
    sample = run(node, [*PAGES, WEB], FOUND)
    assert [document.text for document in sample.retrieved or ()] == [*PAGES, WEB]


def test_a_search_that_adds_to_a_state_adds_what_it_found() -> None:
    """A reducer of the state keeps what stands there; the node returns its own finds alone."""
    web = [Document(WEB), Document(WEB.replace("gate", "entrance of the town"))]
    reader = Node("step", "later", 4.5, 4.6, documents_among_inputs=(*FOUND[:2], *web))
    reader.documents, reader.input_documents = None, reader.documents_among_inputs
    search = Node(
        "retriever", "search", 1.0, 2.0, query=QUESTION, documents=tuple(FOUND[:2])
    )
    shown = [*PAGES[:2], *(document.text for document in web)]
    model = Node(
        "model",
        "llm",
        5.0,
        6.0,
        prompt=(Message("user", "\n\n".join([*shown, QUESTION])),),
        reply=Message("assistant", "That is told in the texts that were shown to me."),
    )
    children = [search, step(FOUND[:2], web), reader, model]
    root = Node("step", "chain", 0.0, 9.0, children=children)
    (sample,) = samples_of(Tree(root, question=QUESTION, question_place="input"))
    assert [document.text for document in sample.retrieved or ()] == shown


def test_one_document_replaced_by_an_unlike_one_was_searched_for() -> None:
    sample = run(step(FOUND[:1], [Document(WEB)]), [WEB], FOUND[:1])
    assert [document.text for document in sample.retrieved or ()] == [PAGES[0], WEB]


def test_passages_of_one_page_are_not_known_by_their_metadata() -> None:
    found = [Document(text, metadata={"source": "a.pdf"}) for text in PAGES[:2]]
    hit = Document(WEB, metadata={"source": "a.pdf"})
    sample = run(step(found, [hit]), [WEB], found)
    assert [document.text for document in sample.retrieved or ()] == [*PAGES[:2], WEB]


def test_a_step_that_translates_given_documents_is_no_search() -> None:
    german = "Die Straßenbahn von Porto fährt seit 1905 über die Brücke, auf deren oberer Ebene."
    given_documents = tuple(
        Document(text, metadata={"page": page}) for page, text in enumerate(PAGES)
    )
    translating = step(given_documents, [Document(german, metadata={"page": 0})])
    answering = Node(
        "model",
        "llm",
        5.0,
        6.0,
        prompt=(Message("user", f"{german}\n\n{QUESTION}"),),
        reply=Message("assistant", "That is told in the texts that were shown to me."),
    )
    root = Node(
        "step",
        "chain",
        0.0,
        9.0,
        children=[translating, answering],
        input_documents=given_documents,
    )
    (sample,) = samples_of(Tree(root, question=QUESTION, question_place="input"))
    assert sample.ledger is not None
    assert [call.kind for call in sample.ledger.calls] == ["given"]


def test_a_step_that_searches_and_keeps_a_models_notes_adds_only_what_it_found() -> (
    None
):
    notes = "Trams go over it. Many have asked who paid for the rails, and nobody could say."
    writer = Node(
        "model",
        "notes",
        2.2,
        2.6,
        prompt=(Message("user", "\n\n".join([PAGES[0], "Take notes."])),),
        reply=Message("assistant", notes),
    )
    search = Node(
        "retriever", "search", 1.0, 2.0, query=QUESTION, documents=(FOUND[0],)
    )
    found_unseen = step(FOUND[:1], [Document(notes), Document(WEB, "web")])
    answering = Node(
        "model",
        "llm",
        5.0,
        6.0,
        prompt=(Message("user", "\n\n".join([PAGES[0], notes, WEB, QUESTION])),),
        reply=Message("assistant", "That is told in the texts that were shown to me."),
    )
    children = [search, writer, found_unseen, answering]
    root = Node("step", "chain", 0.0, 9.0, children=children)
    (sample,) = samples_of(Tree(root, question=QUESTION, question_place="input"))
    assert [document.text for document in sample.retrieved or ()] == [PAGES[0], WEB]


def test_what_a_grader_picked_is_compared_once_for_all_of_its_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A graph calls the grader for each document: twice as many take twice the work."""
    texts_read: list[str] = []

    def counted(raw: str) -> Text:
        texts_read.append(raw)
        return Text(raw)

    monkeypatch.setattr(rewriting, "Text", counted)
    counts = []
    for n_documents in (20, 40):
        documents = [
            Document(f"Page {number} of the bridge.", f"d{number}")
            for number in range(n_documents)
        ]
        grades = [
            Node(
                "step",
                "grade",
                number,
                number + 0.5,
                input_documents=(document,),
                documents=(document,) if number % 2 else (),
            )
            for number, document in enumerate(documents)
        ]
        prompt = Node("step", "prompt", 90, 91, input_documents=tuple(documents[1::2]))
        root = Node("step", "graph", 0, 99, [*grades, prompt])
        texts_read.clear()
        changes = changes_of(list(root.walk()))
        assert [change.is_filter for change in changes] == [True] * n_documents
        counts.append(len(texts_read))
    assert 0 < counts[1] <= 2.2 * counts[0]
