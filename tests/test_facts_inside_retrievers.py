"""Facts of passages that a retriever found inside itself and did not hand on whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline, SuperComponent, component
from haystack.components.builders import PromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.preprocessors import DocumentSplitter
from haystack_integrations.components.evaluators import (
    ragmetrics as haystack_ragmetrics,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
)
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_ragmetrics import capture as capture_langchain
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import get_response_synthesizer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.evaluation.ragmetrics import capture as capture_llamaindex
from test_planted_losses import Says

from ragmetrics_core import Report, Sample, ScriptedJudge, evaluate
from ragmetrics_core.capture import Document, Message, Node, Tree, samples_of
from ragmetrics_core.data import (
    CaptureNotes,
    CutPassage,
    DroppedPassage,
    Fact,
    JudgeError,
    PassageNote,
)
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.reporting.sample_journey import SampleJourney, journey_of

QUESTION = "What is known of the ferry to Halmstad?"
ANSWER = "It leaves at night."
# The judge finds a fact by the place that it names.
PLACES = ("Velm", "Orsa", "Tarn", "Ystad")
TEXTS = tuple(
    f"The office in {place} sells tickets until {9 + number} in the evening."
    for number, place in enumerate(PLACES)
)


def judge_of_places(without_verdict_on: str = "") -> ScriptedJudge:
    """A judge that finds a fact where its place is named, and does not answer on one text."""

    def covers(question: FactInContext) -> Any:
        if question["context"] == without_verdict_on:
            return JudgeError("no verdict")
        named = [place for place in PLACES if place in question["fact"]]
        return {"covered": all(place in question["context"] for place in named)}

    return ScriptedJudge({FactInContext: covers})


def facts_of(*places: str) -> tuple[Fact, ...]:
    return tuple(Fact(text=TEXTS[PLACES.index(place)]) for place in places)


def judged(sample: Sample, *places: str, judge: ScriptedJudge | None = None) -> Report:
    """Ask for a fact of each place, of a judge of places."""
    asked = sample.model_copy(update={"facts": facts_of(*places)})
    return evaluate([asked], metrics=["accuracy"], judge=judge or judge_of_places())


def value_of(report: Report) -> float | None:
    return report.results[0].results["retrieval_accuracy"].value


def journey(report: Report) -> SampleJourney:
    followed = journey_of(report.results[0])
    assert followed is not None
    return followed


def losses(report: Report) -> list[str | None]:
    """Where each fact was lost; "unknown" where that is not known."""
    return [fact.lost if fact.known else "unknown" for fact in journey(report).facts]


# On a neutral tree of calls

DOCUMENTS = tuple(Document(text, f"d{number}") for number, text in enumerate(TEXTS))


def run(retriever: Node, n_shown: int | None = None, *steps: Node) -> Sample:
    """A sample of a prompt that shows the first documents of a retriever, or all.

    Args:
        retriever: The retriever.
        n_shown: How many documents the prompt shows; None for all.
        steps: What works on the documents before the prompt is written.
    """
    found = (retriever.documents or ())[:n_shown]
    prompt = "\n".join([*(document.text for document in found), QUESTION])
    model = Node(
        "model",
        "llm",
        50.0,
        51.0,
        prompt=(Message("user", prompt),),
        reply=Message("assistant", ANSWER),
    )
    root = Node("step", "chain", 0.0, 99.0, children=[retriever, *steps, model])
    root.text = ANSWER
    (sample,) = samples_of(Tree(root, question=QUESTION, question_place="input"))
    return sample


def reranked(
    found: Sequence[Document],
    kept: Sequence[Document],
    n_shown: int | None = None,
    *steps: Node,
) -> Sample:
    """A sample whose retriever "best" found documents inside, and returned some."""
    search = Node("retriever", "sparse", 2.0, 2.5, documents=tuple(found))
    best = Node("retriever", "best", 1.0, 3.0, documents=tuple(kept))
    best.children = [search]
    return run(best, n_shown, *steps)


@given(st.sets(st.integers(0, 3), min_size=1), st.data())
def test_law_a_fact_is_lost_where_its_passage_is(
    found: set[int], data: st.DataObject
) -> None:
    kept = data.draw(st.sets(st.sampled_from(sorted(found)), min_size=1))
    sample = reranked(
        [DOCUMENTS[place] for place in sorted(found)],
        [DOCUMENTS[place] for place in sorted(kept)],
    )
    expected: list[str | None] = []
    for place in range(len(PLACES)):
        if place in kept:
            expected.append(None)
        else:
            expected.append("not_kept" if place in found else "not_retrieved")
    assert losses(judged(sample, *PLACES)) == expected


def test_what_was_dropped_changes_no_score_and_is_asked_for_missed_facts_alone() -> (
    None
):
    judge = judge_of_places()
    report = judged(reranked(DOCUMENTS[:3], DOCUMENTS[:1]), *PLACES, judge=judge)
    assert value_of(report) == 0.25
    asked = [(question["fact"], question["context"]) for question in judge.asked]
    all_facts = [fact.text for fact in facts_of(*PLACES)]
    expected = [(fact, TEXTS[0]) for fact in all_facts]
    expected += [(fact, text) for fact in all_facts[1:] for text in TEXTS[1:3]]
    assert sorted(asked) == sorted(expected)


@pytest.mark.parametrize("blank", ["", " \n", "\ufeff", "\u200b "])
def test_no_judge_is_asked_about_a_dropped_passage_that_shows_nothing(
    blank: str,
) -> None:
    judge = judge_of_places()
    sample = reranked([*DOCUMENTS[:2], Document(blank, "blank")], DOCUMENTS[:1])
    judged(sample, *PLACES[:2], judge=judge)
    assert {question["context"] for question in judge.asked} == set(TEXTS[:2])


def test_a_fact_that_a_kept_passage_holds_as_well_was_not_dropped() -> None:
    both = Document(f"{TEXTS[1]} {TEXTS[2]}", "both")
    sample = reranked([both, *DOCUMENTS[:3]], [both])
    assert losses(judged(sample, "Velm", "Orsa")) == ["not_kept", None]


def test_a_report_that_is_read_again_tells_the_same(tmp_path: Path) -> None:
    report = judged(reranked(DOCUMENTS[:3], DOCUMENTS[:1]), *PLACES)
    report.to_jsonl(tmp_path / "report.jsonl")
    again = Report.from_jsonl(tmp_path / "report.jsonl")
    assert losses(again) == losses(report)
    assert losses(report) == [None, "not_kept", "not_kept", "not_retrieved"]


def test_without_a_verdict_on_a_dropped_passage_a_fact_is_unknown() -> None:
    """Unless another dropped passage is known to hold it."""
    judge = judge_of_places(without_verdict_on=TEXTS[1])
    facts = [Fact(text=f"There is an office in {place}") for place in PLACES]
    sample = reranked(DOCUMENTS[:3], DOCUMENTS[:1])
    asked = sample.model_copy(update={"facts": tuple(facts)})
    report = evaluate([asked], metrics=["accuracy"], judge=judge)
    assert value_of(report) == 0.25
    assert losses(report) == [None, "unknown", "not_kept", "unknown"]
    assert "what searches inside best found" in journey(report).unknown["facts"]


@pytest.mark.parametrize(
    ("dropped", "expected"),
    [
        # nothing was retrieved, and so the metric asks nothing
        (DroppedPassage(dropped_by="best", text=TEXTS[0]), ["not_kept", "unknown"]),
        # a report of before the texts were noted
        (DroppedPassage(dropped_by="best"), ["unknown", "unknown"]),
    ],
)
def test_without_a_verdict_the_words_tell(
    dropped: DroppedPassage, expected: list[str]
) -> None:
    sample = Sample(
        question=QUESTION,
        answer=ANSWER,
        contexts=(),
        retrieved=(),
        facts=(Fact(text=TEXTS[0]), Fact(text=TEXTS[1])),
        capture=CaptureNotes(
            grade="exact",
            evidence_from="none_found",
            dropped_inside={"best": 1},
            passages_dropped_inside=(dropped,),
        ),
    )
    judge = judge_of_places()
    assert losses(evaluate([sample], metrics=["accuracy"], judge=judge)) == expected
    assert judge.asked == []


def test_what_redact_hides_is_not_left_in_the_notes_of_dropped_passages() -> None:
    def redact(sample: Sample) -> Sample:
        return sample.model_copy(update={"contexts": (), "retrieved": None})

    with capture_langchain(redact=redact) as captured:
        run_langchain(compressed(kept=1))
    (sample,) = captured.samples
    assert TEXTS[2] not in sample.model_dump_json()
    assert sample.capture is not None
    assert sample.capture.dropped_inside == {"ContextualCompressionRetriever": 2}


# LangChain


class Finds(BaseRetriever):
    places: tuple[int, ...]

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[LangChainDocument]:
        return [LangChainDocument(TEXTS[at], id=f"d{at}") for at in self.places]


class First(BaseDocumentCompressor):
    n: int

    def compress_documents(
        self, documents: Sequence[Any], query: str, callbacks: Any = None
    ) -> Sequence[Any]:
        return documents[: self.n]


def compressed(*, kept: int) -> BaseRetriever:
    return ContextualCompressionRetriever(
        base_compressor=First(n=kept), base_retriever=Finds(places=(0, 1, 2))
    )


def run_langchain(retriever: Any) -> None:
    def prompt(documents: list[LangChainDocument]) -> str:
        return "\n\n".join(one.page_content for one in documents) + QUESTION

    (retriever | prompt | FakeListChatModel(responses=[ANSWER])).invoke(QUESTION)


def langchain(retriever: Any) -> Sample:
    with capture_langchain() as captured:
        run_langchain(retriever)
    (sample,) = captured.samples
    return sample


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_the_facts_that_a_compression_dropped_are_named(kept: int) -> None:
    report = judged(langchain(compressed(kept=kept)), *PLACES)
    dropped = ["not_kept"] * (3 - kept)
    assert losses(report) == [*[None] * kept, *dropped, "not_retrieved"]
    if kept < 2:
        assert report.journey().mend == "not_kept"


def test_a_compression_of_a_fusion_dropped_the_facts_of_both_searches() -> None:
    fusion = EnsembleRetriever(
        retrievers=[Finds(places=(0, 1)), Finds(places=(2, 0))], weights=[0.5, 0.5]
    )
    compression = ContextualCompressionRetriever(
        base_compressor=First(n=1), base_retriever=fusion
    )
    report = judged(langchain(compression), *PLACES)
    assert losses(report) == [None, "not_kept", "not_kept", "not_retrieved"]


# LlamaIndex


class Nodes(LlamaRetriever):
    def __init__(self, *places: int) -> None:
        self.places = places
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = [
            TextNode(
                id_=f"d{place}",
                text=TEXTS[place],
                metadata={"file_name": f"{place}.txt"},
            )
            for place in self.places
        ]
        return [
            NodeWithScore(node=node, score=0.9 - rank / 3)
            for rank, node in enumerate(nodes)
        ]


def test_the_facts_that_a_fusion_left_out_are_named() -> None:
    fusion = QueryFusionRetriever(
        [Nodes(2, 0), Nodes(2, 1)],
        llm=Says(),
        similarity_top_k=1,
        num_queries=1,
        use_async=False,
    )
    engine = RetrieverQueryEngine(fusion, get_response_synthesizer(llm=Says()))
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    report = judged(sample, *PLACES)
    assert losses(report) == ["not_kept", "not_kept", None, "not_retrieved"]


# A retriever that hands on parts


def divided(pages: Sequence[Sequence[int]], kept: set[int], *, joined: bool) -> Sample:
    """A sample of a retriever that found pages of some texts, and handed on some of these.

    Args:
        pages: For each page the places of its texts.
        kept: The places of the texts that were handed on.
        joined: Whether those of one page are handed on as one document.
    """
    found = []
    parts = []
    for number, places in enumerate(pages):
        found.append(Document(" ".join(TEXTS[at] for at in places), f"page {number}"))
        texts = [TEXTS[at] for at in places if at in kept]
        if joined and texts:
            texts = [" ".join(texts)]
        parts += [Document(text) for text in texts]
    return reranked(found, parts)


@given(
    st.permutations(range(4)),
    st.integers(1, 3),
    st.sets(st.integers(0, 3), min_size=1),
    st.booleans(),
)
def test_law_a_fact_was_cut_where_another_part_of_its_page_was_handed_on(
    order: list[int], n_first: int, kept: set[int], joined: bool
) -> None:
    pages = (order[:n_first], order[n_first:])
    sample = divided(pages, kept, joined=joined)
    expected = {}
    for places in pages:
        for place in places:
            is_page_lost = kept.isdisjoint(places)
            lost = "not_kept" if is_page_lost else "cut"
            expected[place] = None if place in kept else lost
    report = judged(sample, *PLACES)
    assert losses(report) == [expected[place] for place in range(4)]
    for passage in journey(report).passages:
        if passage.rank is None:
            continue
        text = (sample.retrieved or ())[passage.rank - 1].text
        (page,) = [
            places for places in pages if text[:30] in str([TEXTS[at] for at in places])
        ]
        assert passage.shown == ("whole" if kept.issuperset(page) else "cut")
        share = len(kept.intersection(page)) / len(page)
        assert passage.share == pytest.approx(share, abs=0.02)
        assert passage.cut_by == (None if share == 1 else "best")


def test_a_fact_cut_off_a_passage_that_was_not_shown_either_was_not_shown() -> None:
    pages = [
        Document(f"{TEXTS[0]} {TEXTS[1]}", "a"),
        Document(f"{TEXTS[2]} {TEXTS[3]}", "b"),
    ]
    parts = [Document(TEXTS[0]), Document(TEXTS[2])]
    report = judged(reranked(pages, parts, n_shown=1), *PLACES)
    assert losses(report) == [None, "cut", "not_shown", "not_shown"]
    first, second = journey(report).passages
    assert (first.shown, second.shown) == ("cut", "not shown")
    assert (first.kept, second.kept) == (True, True)


def test_a_fact_cut_off_a_passage_that_a_later_reranker_dropped_was_not_kept() -> None:
    pages = [
        Document(f"{TEXTS[0]} {TEXTS[1]}", "a"),
        Document(f"{TEXTS[2]} {TEXTS[3]}", "b"),
    ]
    parts = (Document(TEXTS[0]), Document(TEXTS[2]))
    reranker = Node("reranker", "rank", 4.0, 5.0, documents=parts[:1])
    reranker.input_documents = parts
    report = judged(reranked(pages, parts, 1, reranker), *PLACES)
    assert losses(report) == [None, "cut", "not_kept", "not_kept"]


def test_a_fact_cut_off_a_passage_is_unknown_where_the_part_may_have_been_shown() -> (
    None
):
    sample = divided([(0, 1)], {0}, joined=False)
    assert losses(judged(sample, *PLACES[:2])) == [None, "cut"]
    assert sample.capture is not None
    (note,) = sample.capture.passages or ()
    notes = (note.model_copy(update={"share": None}),)
    capture = sample.capture.model_copy(update={"passages": notes})
    sample = sample.model_copy(update={"capture": capture})
    assert losses(judged(sample, *PLACES[:2])) == ["unknown", "unknown"]


def test_a_fact_cut_off_a_passage_is_unknown_where_no_part_is_named() -> None:
    sample = divided([(0, 1)], {0}, joined=False)
    assert sample.capture is not None
    (cut,) = sample.capture.passages_cut_inside or ()
    cuts = (cut.model_copy(update={"parts": ()}),)
    capture = sample.capture.model_copy(update={"passages_cut_inside": cuts})
    sample = sample.model_copy(update={"capture": capture})
    assert losses(judged(sample, *PLACES[:2])) == [None, "unknown"]


def test_a_fact_that_two_shown_parts_state_word_by_word_was_shown() -> None:
    sample = divided([(0, 1, 2)], {0, 1}, joined=False)
    fact = Fact(text=f"{TEXTS[0]} {TEXTS[1]}")
    asked = sample.model_copy(update={"facts": (fact,)})
    report = evaluate([asked], metrics=["accuracy"], judge=judge_of_places())
    assert losses(report) == [None]


def test_a_retriever_that_also_writes_a_text_tells_of_no_passage_that_it_cut() -> None:
    summary = Document("Rivers rise, and many bridges are of iron.", "new")
    page = Document(f"{TEXTS[0]} {TEXTS[1]}", "a")
    sample = reranked([page, DOCUMENTS[2]], [Document(TEXTS[0]), summary])
    assert losses(judged(sample, *PLACES)) == [None, "unknown", "unknown", "unknown"]
    assert sample.capture is not None
    assert sample.capture.passages_cut_inside is None
    assert "kept" in journey(judged(sample, *PLACES)).unknown


@pytest.mark.parametrize("search_name", ["bm25", ""])
def test_what_a_retriever_dropped_or_cut_has_its_id_and_its_rank_in_the_search(
    search_name: str,
) -> None:
    """A search without a name has none."""
    page = Document(f"{TEXTS[0]} {TEXTS[1]}", "page")
    found = (DOCUMENTS[3], DOCUMENTS[2], page)
    search = Node("retriever", search_name, 2.0, 2.5, documents=found)
    handed_on = (DOCUMENTS[3], Document(TEXTS[0]))
    best = Node("retriever", "best", 1.0, 3.0, documents=handed_on)
    best.children = [search]
    notes = run(best).capture
    assert notes is not None
    (dropped,) = notes.passages_dropped_inside or ()
    name = search_name or None
    assert (dropped.retriever, dropped.id, dropped.rank) == (name, "d2", 2)
    assert dropped.dropped_by == "best"
    (cut,) = notes.passages_cut_inside or ()
    assert (cut.retriever, cut.id, cut.rank) == (name, "page", 3)
    assert (cut.cut_by, cut.parts) == ("best", (1,))


def test_a_part_belongs_to_the_passage_with_its_id() -> None:
    """The first page holds the text as well; it was dropped."""
    pages = [
        Document(f"{TEXTS[0]} {TEXTS[1]}", "a"),
        Document(f"{TEXTS[0]} {TEXTS[2]}", "b"),
    ]
    sample = reranked(pages, [Document(TEXTS[0], "b")])
    assert losses(judged(sample, *PLACES[:3])) == [None, "not_kept", "cut"]


def test_a_fact_of_two_parts_that_were_both_shown_is_not_said_to_be_cut() -> None:
    sample = divided([(0, 1, 2)], {0, 1}, joined=False)
    fact = Fact(text="The offices in Velm and in Orsa sell tickets")
    asked = sample.model_copy(update={"facts": (fact,)})
    report = evaluate([asked], metrics=["accuracy"], judge=judge_of_places())
    assert losses(report) == ["unknown"]
    assert "a part was shown" in journey(report).unknown["facts"]


@pytest.mark.parametrize(("joined", "loss"), [(True, "cut"), (False, "unknown")])
def test_a_fact_that_a_single_part_does_not_hold_was_cut_whatever_words_it_shares(
    joined: bool, loss: str
) -> None:
    """Several parts may say it together: of these each was judged by itself."""
    sample = divided([(0, 1, 2)], {0, 1}, joined=joined)
    fact = Fact(text="The office in Velm, in Orsa and in Tarn sells tickets")
    asked = sample.model_copy(update={"facts": (fact,)})
    report = evaluate([asked], metrics=["accuracy"], judge=judge_of_places())
    assert losses(report) == [loss]


def test_the_parts_of_a_cut_passage_are_no_shorter_where_texts_are_redacted() -> None:
    def redact(sample: Sample) -> Sample:
        return sample.model_copy(update={"answer": "[hidden]"})

    with capture_langchain(redact=redact) as captured:
        run_langchain(
            ContextualCompressionRetriever(
                base_compressor=Extracts(), base_retriever=FindsPages()
            )
        )
    (sample,) = captured.samples
    report = judged(sample, *PLACES)
    assert [(one.shown, one.share) for one in journey(report).passages] == [
        ("cut", None)
    ]
    assert losses(report) == [None, "unknown", "unknown", "unknown"]


class FindsPages(BaseRetriever):
    """Finds the first three texts as one page."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any
    ) -> list[LangChainDocument]:
        return [LangChainDocument(" ".join(TEXTS[:3]), metadata={"source": "a.md"})]


class Extracts(BaseDocumentCompressor):
    """Keeps the first text of each page, as a model that extracts does."""

    def compress_documents(
        self, documents: Sequence[Any], query: str, callbacks: Any = None
    ) -> Sequence[Any]:
        return [
            LangChainDocument(one.page_content[: len(TEXTS[0])], metadata=one.metadata)
            for one in documents
        ]


class NamesPlaces(BaseDocumentCompressor):
    """Keeps texts of one place."""

    kept: tuple[str, ...]

    def compress_documents(
        self, documents: Sequence[Any], query: str, callbacks: Any = None
    ) -> Sequence[Any]:
        return [
            one
            for one in documents
            if any(place in one.page_content for place in self.kept)
        ]


def test_an_extractor_inside_a_retriever_cuts_the_passage() -> None:
    compression = ContextualCompressionRetriever(
        base_compressor=Extracts(), base_retriever=FindsPages()
    )
    report = judged(langchain(compression), *PLACES)
    assert losses(report) == [None, "cut", "cut", "not_retrieved"]
    (passage,) = journey(report).passages
    assert (passage.shown, passage.kept) == ("cut", True)
    assert passage.share == pytest.approx(1 / 3, abs=0.02)
    assert passage.cut_by == "ContextualCompressionRetriever"


def test_a_splitter_and_a_filter_in_a_compression_are_followed() -> None:
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=70, chunk_overlap=0, separators=["The office"]
    )
    compression = ContextualCompressionRetriever(
        base_compressor=DocumentCompressorPipeline(
            transformers=[splitter, NamesPlaces(kept=("Velm", "Tarn"))]
        ),
        base_retriever=FindsPages(),
    )
    report = judged(langchain(compression), *PLACES)
    assert losses(report) == [None, "cut", None, "not_retrieved"]
    assert [one.shown for one in journey(report).passages] == ["cut", "cut"]
    assert "kept" not in journey(report).unknown
    assert "shown" not in journey(report).unknown


def test_a_function_of_a_chain_that_cuts_tells_the_same() -> None:
    def extract(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return list(Extracts().compress_documents(documents, QUESTION))

    report = judged(langchain(FindsPages() | RunnableLambda(extract)), *PLACES)
    assert losses(report) == [None, "cut", "cut", "not_retrieved"]
    (passage,) = journey(report).passages
    assert passage.shown == "cut"
    assert passage.share == pytest.approx(1 / 3, abs=0.02)


class Extracting(LlamaRetriever):
    """A retriever of an application: it searches, and keeps the first text of each page."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        pages = FindsNodes().retrieve(query_bundle)
        extracts = []
        for page in pages:
            text = page.node.get_content()[: len(TEXTS[0])]
            node = TextNode(id_=page.node_id, text=text, metadata=page.metadata)
            extracts.append(NodeWithScore(node=node, score=page.score))
        return extracts


class FindsNodes(LlamaRetriever):
    """Finds the first three texts as one node."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        page = TextNode(
            id_="a", text=" ".join(TEXTS[:3]), metadata={"file_name": "a.md"}
        )
        return [NodeWithScore(node=page, score=0.9)]


def test_a_retriever_of_llamaindex_that_extracts_cuts_the_passage() -> None:
    engine = RetrieverQueryEngine(Extracting(), get_response_synthesizer(llm=Says()))
    with capture_llamaindex() as captured:
        engine.query(QUESTION)
    (sample,) = captured.samples
    report = judged(sample, *PLACES)
    assert losses(report) == [None, "cut", "cut", "not_retrieved"]
    assert [one.shown for one in journey(report).passages] == ["cut"]


# Haystack


@component
class FindsHaystackPages:
    """A retriever that finds the first three texts as one page."""

    @component.output_types(documents=list[HaystackDocument])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [HaystackDocument(content=" ".join(TEXTS[:3]))]}


@component
class KeepsPlaces:
    """A ranker that keeps texts of some places."""

    def __init__(self, kept: tuple[str, ...]) -> None:
        self.kept = kept

    @component.output_types(documents=list[HaystackDocument])
    def run(self, documents: list[HaystackDocument]) -> dict[str, Any]:
        kept = [
            document
            for document in documents
            if any(place in (document.content or "") for place in self.kept)
        ]
        return {"documents": kept}


def test_a_splitter_and_a_filter_in_a_wrapped_search_of_haystack_are_followed() -> None:
    inner = Pipeline()
    inner.add_component("search", FindsHaystackPages())
    inner.add_component("split", DocumentSplitter("period", 1))
    inner.add_component("keep", KeepsPlaces(("Velm",)))
    inner.connect("search", "split")
    inner.connect("split", "keep")
    wrapped = SuperComponent(
        inner,
        input_mapping={"query": ["search.query"]},
        output_mapping={"keep.documents": "documents"},
    )
    pipeline = Pipeline()
    pipeline.add_component("wrapped", wrapped)
    template = "{% for d in documents %}{{ d.content }}\n{% endfor %}{{ query }}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.add_component("llm", MockChatGenerator(ANSWER))
    pipeline.connect("wrapped.documents", "prompt.documents")
    pipeline.connect("prompt", "llm")
    with haystack_ragmetrics.capture() as captured:
        pipeline.run({"wrapped": {"query": QUESTION}, "prompt": {"query": QUESTION}})
    (sample,) = captured.samples
    report = judged(sample, *PLACES)
    assert losses(report) == [None, "cut", "cut", "not_retrieved"]
    assert [one.shown for one in journey(report).passages] == ["cut"]


@pytest.mark.parametrize(
    ("dropped_text", "cut_text", "expected"),
    [
        (TEXTS[3], f"{TEXTS[0]} {TEXTS[1]}", "cut"),
        (
            None,
            f"{TEXTS[0]} {TEXTS[1]}",
            "unknown",
        ),  # the dropped one may hold it whole
        (TEXTS[1], TEXTS[0], "not_kept"),
        (TEXTS[1], None, "unknown"),  # the cut one came farther, and may hold it
    ],
)
def test_a_passage_without_a_text_leaves_unknown_how_far_a_fact_came(
    dropped_text: str | None, cut_text: str | None, expected: str
) -> None:
    sample = Sample(
        question=QUESTION,
        answer=ANSWER,
        contexts=(TEXTS[0],),
        retrieved=(TEXTS[0],),
        facts=(Fact(text=f"There is an office in {PLACES[1]}"),),
        capture=CaptureNotes(
            grade="exact",
            evidence_from="prompt",
            passages=(PassageNote(context=0, share=1.0),),
            dropped_inside={"best": 1},
            passages_dropped_inside=(
                DroppedPassage(dropped_by="best", text=dropped_text),
            ),
            passages_cut_inside=(
                CutPassage(cut_by="extract", text=cut_text, parts=(0,)),
            ),
        ),
    )
    report = evaluate([sample], metrics=["accuracy"], judge=judge_of_places())
    assert losses(report) == [expected]
