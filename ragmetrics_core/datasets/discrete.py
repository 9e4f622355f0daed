"""The discrete annotated set: golden answers with the first and with the last retrieved documents.

Source: the published retrieval accuracy evaluation for use without labelled data: 15 questions give 30 points.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.data.sample import Context
from ragmetrics_core.datasets.chunking import CHUNK_SIZE, Chunk, Document, all_chunks
from ragmetrics_core.datasets.loading import Pair, check_pairs, plain
from ragmetrics_core.datasets.making import Maker, header
from ragmetrics_core.datasets.retrieving import BM25, Retriever, retrieved
from ragmetrics_core.datasets.sets import DiscretePoint, DiscreteSet, Label, digest_of
from ragmetrics_core.datasets.writing import template
from ragmetrics_core.engine.loop import run


class DiscreteSettings(Frozen):
    """What decides a discrete set.

    Args:
        chunk_size: Most characters of a chunk.
        overlap: Characters that neighbouring chunks share, at most.
        top: How many documents are retrieved per question.
        take: How many of them a point holds: the first for a positive, the last for a negative.
        questions: How many questions a model writes where no pairs are given.
        retriever: Name of the retriever, for the header.
        seed: Seed of the choice of chunks to write questions about.
    """

    chunk_size: int = CHUNK_SIZE
    overlap: int = 0
    top: int = 5
    take: int = 2
    questions: int = 15
    retriever: str = "bm25"
    seed: int = 0


def write_pairs(documents: Sequence[Document], settings: DiscreteSettings, maker: Maker) -> tuple[Pair, ...]:
    """Have a model write questions with golden answers, each from one chunk; documents take turns.

    Args:
        documents: The corpus.
        settings: How many, and the seed.
        maker: Where the model works.

    Raises:
        InputError: If the model gave nothing usable.
        JudgeUnavailable: If it will answer nothing.
    """
    chunks = all_chunks(documents, size=settings.chunk_size, overlap=settings.overlap)

    async def make(chunk: Chunk) -> Pair:
        written = await maker.write([chunk.text])
        return Pair(question=written.question, answer=written.response, document=chunk.document)

    made = maker.until(settings.questions, _turns(chunks, settings.seed), make, lambda pair: plain(pair.question))
    return tuple(run(made))


def _turns(chunks: Sequence[Chunk], seed: int) -> list[Chunk]:
    """Chunks in random order, but none of a document before every other document had as many."""
    shuffled = random.Random(f"{seed}|questions").sample(chunks, len(chunks))  # noqa: S311 - no cryptography
    earlier: Counter[str] = Counter()
    turns = []
    for chunk in shuffled:
        turns.append((earlier[chunk.document], chunk))
        earlier[chunk.document] += 1
    return [chunk for _, chunk in sorted(turns, key=lambda turn: turn[0])]


def build_discrete(
    documents: Sequence[Document],
    pairs: Sequence[Pair],
    settings: DiscreteSettings | None = None,
    *,
    retriever: Retriever | None = None,
    source: Sequence[str] = (),
    maker: Maker | None = None,
) -> DiscreteSet:
    """Build a discrete annotated set; two points per question.

    Args:
        documents: The corpus.
        pairs: Questions with golden answers.
        settings: What decides the set.
        retriever: Any callable from question and number to documents in rank order; None for BM25 over the chunks.
        source: Names of the files, for the header.
        maker: Where a model wrote the pairs; None if they were given.

    Raises:
        InputError: If a golden answer is empty, a question stands there twice, or too little is retrieved.
        SettingError: If ``take`` documents from both ends do not fit into ``top``.
        MissingDependency: If BM25 is not installed.
    """
    settings = settings or DiscreteSettings()
    if settings.take < 1 or settings.top < 2 * settings.take:
        raise SettingError(f"{settings.take} first and {settings.take} last documents do not fit into {settings.top}")
    check_pairs(pairs)
    if retriever is None:
        retriever = _bm25(documents, settings)
    elif settings.retriever == "bm25":
        settings = settings.model_copy(update={"retriever": "own"})
    points: list[DiscretePoint] = []
    for number, pair in enumerate(pairs, start=1):
        contexts = retrieved(retriever, pair.question, settings.top, number)
        if len(contexts) < 2 * settings.take:
            raise InputError(
                f"the retriever gave {len(contexts)} documents for question {number}; "
                f"{2 * settings.take} are needed, better {settings.top}"
            )
        points += _points(pair, contexts, settings.take)
    told = header("discrete", documents, settings, source, maker, template(), pairs="written" if maker else "given")
    return DiscreteSet(header=told, points=tuple(points))


def _bm25(documents: Sequence[Document], settings: DiscreteSettings) -> BM25:
    chunks = all_chunks(documents, size=settings.chunk_size, overlap=settings.overlap)
    if len(chunks) < settings.top:
        raise InputError(
            f"the corpus has {len(chunks)} chunks and {settings.top} are to be retrieved; "
            "give more or longer documents, or a smaller chunk size"
        )
    return BM25(chunks)


def _points(pair: Pair, contexts: Sequence[Context], take: int) -> list[DiscretePoint]:
    ranks = range(1, len(contexts) + 1)
    ends: tuple[tuple[Label, slice], ...] = (("positive", slice(take)), ("negative", slice(-take, None)))
    return [
        DiscretePoint(
            id=digest_of([pair.question, pair.answer, *(context.text for context in contexts[end])]),
            document=pair.document or digest_of([pair.question]),
            question=pair.question,
            answer=pair.answer,
            contexts=tuple(contexts[end]),
            ranks=tuple(ranks[end]),
            by_rank=label,
        )
        for label, end in ends
    ]
