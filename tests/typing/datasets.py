"""The public API of data sets as users write it.

Mypy strict checks this file, nothing runs it.
"""

from collections.abc import Iterable

from ragmetrics_core import ContextAdherence, RetrievalAccuracy
from ragmetrics_core.labelling import (
    ContinuousSettings,
    DiscreteSettings,
    Document,
    Maker,
    Pair,
    Reviews,
    build_continuous,
    build_discrete,
    chunk_document,
    load_documents,
    load_pairs,
    read_set,
    score_set,
    score_table,
    write_pairs,
    write_set,
)
from ragmetrics_core.models.reply_store import MemoryStore


def retrieve(question: str, count: int) -> Iterable[str]:
    """A retriever of the user's own."""
    return [question] * count


def discrete() -> None:
    """From given pairs with an own retriever, and from written ones."""
    documents = load_documents(["docs"])
    pairs = [*load_pairs(["questions.jsonl"]), Pair(question="Who?", answer="Anna.")]
    write_set("own.jsonl", build_discrete(documents, pairs, retriever=retrieve))
    maker, settings = (
        Maker("gpt-4o-mini", store=MemoryStore()),
        DiscreteSettings(questions=3, seed=1),
    )
    made = build_discrete(
        documents, write_pairs(documents, settings, maker), settings, maker=maker
    )
    labels: list[str] = [point.by_rank for point in made.points]
    print(labels, maker.usage.calls)


def continuous() -> None:
    """Built, read again, scored."""
    documents = [Document(id="a", text="A text.")]
    chunks: list[str] = [chunk.text for chunk in chunk_document(documents[0], size=500)]
    made = build_continuous(
        documents, ContinuousSettings(documents=1), Maker("gpt-4o-mini")
    )
    write_set("set.jsonl", made)
    given = read_set("set.jsonl")
    reviews = Reviews("set.jsonl", given)
    scores = [
        score_set(given, reviews, metric, "lexical")
        for metric in (RetrievalAccuracy(), ContextAdherence())
    ]
    error: float | None = scores[0].values["MAE"].value
    print(score_table(given, reviews, scores), error, chunks, made.skew()[0])
