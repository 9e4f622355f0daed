"""A step divides passages into chunks: what all of them show together counts.

A splitter behind a search does so, perhaps before a reranker of the chunks.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.documents import Document as LangChainDocument
from langchain_core.runnables import RunnableLambda
from langchain_text_splitters import RecursiveCharacterTextSplitter
from test_planted_losses import JUDGE, TEXTS, journeys
from test_rewriting import FindsTexts, chain_of, written

from ragmetrics_core import evaluate
from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.passages import share_held
from ragmetrics_core.data import Fact
from ragmetrics_core.reporting.sample_journey import journey_of


@example(94, 8, False)  # "… at last in 1874," and "1874, by the mayor."
@given(st.integers(40, 130), st.integers(0, 39), st.booleans())
def test_law_a_passage_that_a_splitter_divides_is_shown_whole_by_all_its_chunks(
    size: int, overlap: int, in_one: bool
) -> None:
    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap)
    found = [" ".join(TEXTS)] if in_one else TEXTS
    sample = chain_of(
        FindsTexts(found_texts=found)
        | RunnableLambda(splitter.split_documents)
        | written
    )
    assert sample.capture is not None
    notes = sample.capture.passages or ()
    assert [note.share for note in notes] == [1.0] * len(found)
    judged, _ = journeys(sample)
    cut = judged.of("cut", "facts")
    assert cut is not None
    assert cut.lost == 0


@pytest.mark.parametrize(
    ("kept", "is_fact_shown"), [((0, 2), False), ((0, 1), True), ((2, 1), True)]
)
def test_a_passage_that_lost_a_chunk_is_cut_and_shows_the_facts_of_the_others(
    kept: tuple[int, ...], *, is_fact_shown: bool
) -> None:
    chunks = [TEXTS[0], f"{TEXTS[2]} A band played.", TEXTS[1]]

    def divide(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        (document,) = documents
        return [as_new_text(document, chunks[index]) for index in kept]

    def as_new_text(document: LangChainDocument, text: str) -> LangChainDocument:
        assert text in document.page_content
        return LangChainDocument(text)

    whole = " ".join(chunks)
    sample = chain_of(
        FindsTexts(found_texts=[whole]) | RunnableLambda(divide) | written
    )
    assert sample.capture is not None
    (note,) = sample.capture.passages or ()
    assert note.share is not None
    assert 0 < note.share < 1
    fact = Fact(text="the Velm bridge was opened at last in 1874, by the mayor")
    asked = sample.model_copy(update={"facts": (fact,)})
    report = evaluate([asked], metrics=["accuracy"], judge=JUDGE)
    followed = journey_of(report.results[0])
    assert followed is not None
    assert [passage.shown for passage in followed.passages] == ["cut"]
    assert followed.facts[0].lost == (None if is_fact_shown else "cut")


@given(st.permutations(range(4)), st.integers(0, 12))
def test_law_overlapping_pieces_in_any_order_hold_the_text(
    order: list[int], overlap: int
) -> None:
    normalized = normalize_text(TEXTS[2])
    length = len(normalized) // 4 + 1
    pieces = [
        normalized[max(0, place * length - overlap) : (place + 1) * length]
        for place in range(4)
    ]
    assert share_held(normalized, [pieces[place] for place in order]) == 1
    three = [pieces[place] for place in order[:3]]
    assert 0.5 < share_held(normalized, three) < 1
    assert share_held(normalized, [b"", b"another"]) == 0


HEADING = (
    "Handbook of the harbour, chapter four: bridges and ferries, from 1870 to 1890"
)


@given(st.integers(0, len(HEADING)), st.integers(45, len(TEXTS[2]) - 12))
def test_law_a_heading_that_a_step_adds_shows_nothing_of_a_passage(
    n_of_heading: int, n_kept: int
) -> None:
    """How long the new text is says nothing: the passage is what stands in it."""
    heading = HEADING[:n_of_heading]

    def preview(documents: list[LangChainDocument]) -> list[LangChainDocument]:
        return [
            LangChainDocument(
                f"{heading}\n{document.page_content[:n_kept]}", id=document.id
            )
            for document in documents
        ]

    sample = chain_of(FindsTexts(found_texts=TEXTS) | RunnableLambda(preview) | written)
    assert sample.capture is not None
    for text, note in zip(TEXTS, sample.capture.passages or (), strict=True):
        share_kept = len(normalize_text(text[:n_kept])) / len(normalize_text(text))
        assert note.share is None or note.share == pytest.approx(share_kept, abs=0.1)
        assert note.share != 1 or share_kept > 0.9


@example(121)  # half of the second passage, which ends inside of a word
@given(st.integers(60, len(" ".join(TEXTS))))
def test_law_passages_joined_into_one_new_document_are_shown_as_far_as_it_goes(
    n_kept: int,
) -> None:
    joined = "\n".join(TEXTS)[:n_kept]
    sample = chain_of(
        FindsTexts(found_texts=TEXTS)
        | RunnableLambda(lambda documents: [LangChainDocument(joined)])
        | written
    )
    assert sample.capture is not None
    begin = 0
    for text, note in zip(TEXTS, sample.capture.passages or (), strict=True):
        kept = joined[begin : begin + len(text)]
        begin += len(text) + 1
        share_kept = len(normalize_text(kept)) / len(normalize_text(text))
        if note.share:  # a few words alone count as none, or it is unknown
            assert note.share == pytest.approx(share_kept, abs=0.2)
        # half of a passage is shown; the half of a word at its end counts as nothing
        assert note.share != 0 or share_kept < 0.55
