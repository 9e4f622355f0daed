"""Applications of plain functions that search several times for one question, and may rerank what they found."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tree_rules import Clock, alone, model, retriever

from ragmetrics_core.capture import Document, Node, Overrides, Tree, Turns
from ragmetrics_core.data.sample import Sample

DOCUMENTS = [
    Document(f"The {name} of the town was built in {year} by its own guild.", name)
    for name, year in [
        ("bridge", 1874),
        ("ferry", 1903),
        ("mill", 1652),
        ("tower", 1711),
        ("pier", 1820),
    ]
]
QUESTIONS = [
    "Who built the bridge of the town?",
    "When does the ferry begin to run?",
    "How old may the mill be by now?",
]
EXPANDED = ["guild works", "town history", "year of building"]
ANSWERS = ["It was built by the guild of the town.", "In 1874."]


@dataclass(frozen=True)
class Asked:
    """One question: what was searched for, what each search found, and how it was answered."""

    question: str
    expanded: tuple[str, ...]  # further queries, of the application's own
    place: int  # of the question among the queries
    found: tuple[tuple[Document, ...], ...]  # by each search
    reranker: str  # "none", "asked" the question, or "silent"
    answer: str

    @property
    def queries(self) -> list[str]:
        queries = [*self.expanded]
        queries.insert(self.place, self.question)
        return queries

    @property
    def documents(self) -> list[Document]:
        """Each document once, in the order in which it was found."""
        documents = {one.id: one for found in self.found for one in found}
        return list(documents.values())


@st.composite
def asking(draw: st.DrawFn, question: str) -> Asked:
    expanded = draw(st.lists(st.sampled_from(EXPANDED), max_size=3, unique=True))
    found = st.lists(
        st.sampled_from(DOCUMENTS), min_size=1, max_size=3, unique_by=lambda one: one.id
    )
    return Asked(
        question,
        tuple(expanded),
        draw(st.integers(0, len(expanded))),
        tuple(tuple(draw(found)) for _ in range(len(expanded) + 1)),
        draw(st.sampled_from(["none", "asked", "silent"])),
        draw(st.sampled_from(ANSWERS)),
    )


def reranked(clock: Clock, asked: Asked) -> Tree:
    documents = tuple(asked.documents)
    query = asked.question if asked.reranker == "asked" else None
    node: Node = clock.node(
        "reranker", query=query, input_documents=documents, documents=documents[::-1]
    )
    return Tree(node, gives_only_documents=True)


def runs(clock: Clock, asked: Asked) -> list[Tree]:
    """What the application calls for one question, in its order."""
    made = [
        alone(retriever(clock, *documents, query=query))
        for query, documents in zip(asked.queries, asked.found, strict=True)
    ]
    shown = asked.documents
    if asked.reranker != "none":
        made.append(reranked(clock, asked))
        shown = shown[::-1]
    pages = "\n".join(document.text for document in shown)
    prompt = f"Use only this:\n{pages}\n\nQuestion: {asked.question}"
    return [*made, alone(model(clock, prompt, asked.answer))]


def samples_of(turns_asked: list[Asked]) -> list[Sample]:
    clock = Clock()
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    samples = [
        sample
        for asked in turns_asked
        for run in runs(clock, asked)
        for sample in turns.add(run)
    ]
    return [*samples, *turns.finish()]


def ids(documents: list[Document] | tuple[Document, ...]) -> list[str | None]:
    return [document.id for document in documents]


TURNS = st.tuples(*map(asking, QUESTIONS)).map(list)


@given(TURNS)
def test_all_searches_for_one_question_are_of_its_sample_and_of_no_other(
    turns_asked: list[Asked],
) -> None:
    """A search right before that of the question may be a question of its own: then the sample is in doubt."""
    by_question = {sample.question: sample for sample in samples_of(turns_asked)}
    for asked in turns_asked:
        sample = by_question.pop(asked.question)
        assert sample.capture is not None
        assert sample.ledger is not None
        assert sample.answer == asked.answer
        assert {context.id for context in sample.contexts} == set(ids(asked.documents))
        if sample.capture.grade == "inferred":
            assert asked.place > 0
            (warning,) = sample.capture.warnings
            assert "a search just before" in warning
            continue
        assert sample.capture.grade == "exact"
        calls = [
            (call.query, [item.id for item in call.items])
            for call in sample.ledger.calls
        ]
        found = map(ids, asked.found)
        assert calls == list(zip(asked.queries, found, strict=True))
        retrieved = [context.id for context in sample.retrieved or ()]
        assert retrieved == ids(asked.documents)
    # each of the others may be a question of its own
    assert len(by_question) <= sum(asked.place for asked in turns_asked)


def test_searches_that_are_all_made_before_the_answers_stay_with_their_questions() -> (
    None
):
    """A batch: the application searches for every question, then asks the model each."""
    clock = Clock()
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    found = [DOCUMENTS[:2], DOCUMENTS[:1], DOCUMENTS[1:3]]
    for question, documents in zip(QUESTIONS, found, strict=True):
        turns.add(alone(retriever(clock, *documents, query=question)))
    for question, documents in zip(QUESTIONS, found, strict=True):
        pages = "\n".join(document.text for document in documents)
        turns.add(alone(model(clock, f"{pages}\nQuestion: {question}", ANSWERS[0])))
    samples = turns.finish()
    assert [sample.question for sample in samples] == QUESTIONS
    for sample, documents in zip(samples, found, strict=True):
        assert [context.id for context in sample.retrieved or ()] == ids(documents)
        assert sample.ledger is not None
        assert [call.query for call in sample.ledger.calls] == [sample.question]


ASKED = "bridge of the town and mill of the town"
KEYWORDS = ["bridge of the town", "mill of the town"]


@pytest.mark.parametrize(
    ("queries", "question", "grade"),
    [
        (KEYWORDS, KEYWORDS[0], "inferred"),
        ([*KEYWORDS, ASKED], ASKED, "exact"),
        ([ASKED, *KEYWORDS], ASKED, "exact"),
    ],
)
def test_of_several_queries_that_a_prompt_shows_the_one_that_stands_apart_is_the_question(
    queries: list[str], question: str, grade: str
) -> None:
    """An application takes key words out of a question and searches for each."""
    clock = Clock()
    turns: Turns[Tree] = Turns(lambda run: [run], Overrides())
    documents = DOCUMENTS[: len(queries)]
    for query, document in zip(queries, documents, strict=True):
        turns.add(alone(retriever(clock, document, query=query)))
    pages = "\n".join(document.text for document in documents)
    turns.add(alone(model(clock, f"{pages}\nQuestion: {ASKED}", ANSWERS[0])))
    (sample,) = turns.finish()
    assert sample.capture is not None
    assert (sample.question, sample.capture.grade) == (question, grade)
