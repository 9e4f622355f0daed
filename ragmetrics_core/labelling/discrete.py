"""The discrete annotated set: golden answers with the first and with the last retrieved documents.

Source: the published retrieval accuracy evaluation for use without labelled data: 15
questions give 30 points.
"""

import logging
import random
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import is_dataclass
from itertools import zip_longest
from typing import Any

from pydantic import BaseModel, Field

from ragmetrics_core.data import (
    Context,
    InputError,
    Sample,
    SettingError,
    Settings,
    extra,
    own,
    told,
)
from ragmetrics_core.data.cells import context
from ragmetrics_core.labelling.documents import (
    CHUNK_SIZE,
    Document,
    Pair,
    check_pairs,
    chunked,
    plain,
)
from ragmetrics_core.labelling.making import (
    TEMPLATE,
    Maker,
    WriteQuestion,
    answered,
    header,
)
from ragmetrics_core.labelling.sets import DiscretePoint, DiscreteSet, Label, digest_of
from ragmetrics_core.lexical.text import content

_LABELS: tuple[Label, ...] = ("positive", "negative")
Retriever = Callable[[str, int], Iterable[Any]]
"""From a question and the number wanted to documents in the order of their rank: texts, ``Context``, mappings, or
document objects of LangChain, LlamaIndex and Haystack.
"""


class DiscreteSettings(Settings):
    """What decides a discrete set.

    The command line has an option for each, with the same words.
    """

    chunk_size: int = Field(CHUNK_SIZE, description="most characters of a chunk")
    overlap: int = Field(
        0, description="characters that neighbouring chunks share, at most"
    )
    top: int = Field(5, description="documents retrieved per question")
    take: int = Field(2, description="of them a point holds the first, or the last")
    questions: int = Field(
        15, description="how many a model writes where no pairs are given"
    )
    retriever: str = Field(
        "bm25", description="or MODULE:NAME of your callable(question, k)"
    )
    seed: int = Field(0, description="of every random choice")


def write_pairs(
    documents: Sequence[Document], settings: DiscreteSettings, maker: Maker
) -> tuple[Pair, ...]:
    """Have a model write questions with golden answers, each from one chunk.

    Documents take turns.

    ``InputError`` if it gave nothing usable, ``JudgeUnavailable`` if it will answer
    nothing.
    """
    draw = random.Random(f"{settings.seed}|questions")  # noqa: S311 - a reproducible choice, no cryptography
    pools = [
        (it.id, chunked(it, size=settings.chunk_size, overlap=settings.overlap))
        for it in documents
    ]
    shuffled = [
        [(name, chunk) for chunk in draw.sample(chunks, len(chunks))]
        for name, chunks in pools
    ]
    draw.shuffle(shuffled)
    turns = (one for turn in zip_longest(*shuffled) for one in turn if one is not None)
    samples = (
        Sample(contexts=(chunk,), metadata={"document": name}) for name, chunk in turns
    )

    def pair(sample: Sample) -> Generator[Any, Any, Pair]:
        written = yield from answered(
            WriteQuestion.about([sample.contexts[0].text], maker.language)
        )
        return Pair(
            question=written.question,
            answer=written.response,
            document=sample.metadata["document"],
        )

    return tuple(
        maker.until(
            settings.questions, samples, pair, lambda pair: plain(pair.question)
        )
    )


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
        retriever: Any callable from question and number to documents in rank order;
            None for BM25 over the chunks.
        source: Names of the files, for the header.
        maker: Where a model wrote the pairs; None if they were given.

    Raises:
        InputError: If a golden answer is empty, a question stands there twice, or too
            little is retrieved.
        SettingError: If ``take`` documents from both ends do not fit into ``top``.
        MissingDependency: If BM25 is not installed.
    """
    settings = settings or DiscreteSettings()
    if settings.take < 1 or settings.top < 2 * settings.take:
        raise SettingError(
            f"{settings.take} first and {settings.take} last documents do not fit into"
            f" {settings.top}"
        )
    check_pairs(pairs)
    if retriever is None:
        size, overlap = settings.chunk_size, settings.overlap
        chunks = [
            chunk
            for document in documents
            for chunk in chunked(document, size=size, overlap=overlap)
        ]
        if len(chunks) < settings.top:
            raise InputError(
                f"the corpus has {len(chunks)} chunks and {settings.top} are to be"
                " retrieved; give more or longer documents, or a smaller chunk size"
            )
        retriever = BM25(chunks)
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
        points += [_point(pair, contexts, settings.take, label) for label in _LABELS]
    told = header(
        "discrete",
        documents,
        settings,
        source,
        maker,
        TEMPLATE,
        pairs="written" if maker else "given",
    )
    return DiscreteSet(header=told, points=tuple(points))


def _point(
    pair: Pair, contexts: Sequence[Context], take: int, label: Label
) -> DiscretePoint:
    end = slice(take) if label == "positive" else slice(-take, None)
    shown, asked, answer = tuple(contexts[end]), pair.question, pair.answer
    name = digest_of([asked, answer, *(context.text for context in shown)])
    return DiscretePoint(
        document=pair.document or digest_of([asked]),
        sample=Sample(
            id=name, question=asked, contexts=shown, answer=answer, reference=answer
        ),
        ranks=tuple(range(1, len(contexts) + 1)[end]),
        by_rank=label,
    )


class BM25:
    """Ranks the chunks of a corpus by BM25 over their content words; ``MissingDependency`` without bm25s.

    Source:
        bm25s (Lù 2024, arXiv 2407.03618), method "lucene", k1 = 1.5, b = 0.75. Equal
        scores keep the corpus' order.
    """

    def __init__(self, chunks: Sequence[Context]) -> None:
        bm25s = extra("bm25s", "datasets", "BM25")
        # it reports each index otherwise
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        self._chunks = chunks
        self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        tokens = [list(content(chunk.text)) for chunk in chunks]
        self._known = {token for own in tokens for token in own}
        if self._known:
            self._index.index(tokens, show_progress=False)

    def __call__(self, question: str, count: int) -> list[Context]:
        """The best chunks for a question, with their scores."""
        asked = [token for token in content(question) if token in self._known]
        scores = (
            self._index.get_scores(asked).tolist()
            if asked
            else [0.0] * len(self._chunks)
        )
        order = sorted(range(len(scores)), key=lambda index: -scores[index])[:count]
        return [
            self._chunks[index].model_copy(update={"score": round(scores[index], 6)})
            for index in order
        ]


def retrieved(
    retriever: Retriever, question: str, count: int, number: int
) -> list[Context]:
    """The contexts that a retriever returns for the question of this number; ``InputError`` if one has no text."""
    found = []
    for rank, item in enumerate(retriever(question, count), start=1):
        data = (
            item.model_dump()
            if isinstance(item, BaseModel)
            else vars(item)
            if is_dataclass(item)
            else item
        )
        with told(f"what the retriever returned for question {number}"):
            found.append(Context(**context(data, "documents", rank)))
    return found[:count]


def named_retriever(place: str) -> Retriever:
    """Import ``module:name``, a callable that gets a question and a number; ``SettingError`` if it is none."""
    retriever: Retriever = own(place)
    if not callable(retriever):
        raise SettingError(
            "a retriever is given as module:name of a callable(question, number); got"
            f" {place!r}"
        )
    return retriever
