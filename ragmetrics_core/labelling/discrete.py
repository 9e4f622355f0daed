"""The discrete set: golden answers with the first, or the last, documents retrieved.

Source: the published retrieval accuracy evaluation for use without labelled data: 15
questions give 30 points.
"""

import logging
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from pydantic import Field

from ragmetrics_core.data import (
    Context,
    InputError,
    Sample,
    SettingError,
    Settings,
    as_input_error,
    import_extra,
    import_named_object,
)
from ragmetrics_core.data.cells import read_context
from ragmetrics_core.labelling.documents import (
    CHUNK_SIZE,
    Document,
    Pair,
    check_pairs,
    chunk_document,
    normalise_question,
)
from ragmetrics_core.labelling.making import (
    TEMPLATE,
    Maker,
    WriteQuestion,
    ask_one,
    make_header,
)
from ragmetrics_core.labelling.sets import DiscretePoint, DiscreteSet, Label, digest_of
from ragmetrics_core.lexical.text import content_terms

Retriever = Callable[[str, int], Iterable[Any]]
"""Gets a question and how many documents are wanted; returns these in rank order.

They are texts, ``Context``, mappings, or document objects of LangChain, LlamaIndex and
Haystack.
"""


class DiscreteSettings(Settings):
    """What decides a discrete set.

    The command line has an option for each, with the same words.
    """

    chunk_size: int = Field(
        default=CHUNK_SIZE, description="most characters of a chunk"
    )
    top: int = Field(default=5, description="documents retrieved per question")
    take: int = Field(
        default=2, description="of them a point holds the first, or the last"
    )
    questions: int = Field(
        default=15, description="how many a model writes where no pairs are given"
    )
    retriever: str = Field(
        default="bm25", description="or MODULE:NAME of your callable(question, k)"
    )
    seed: int = Field(default=0, description="of every random choice")


def write_pairs(
    documents: Sequence[Document], settings: DiscreteSettings, maker: Maker
) -> tuple[Pair, ...]:
    """Have a model write questions with golden answers, each from one chunk.

    The documents take turns: 3 questions from documents A and B are from A, B and A
    again. A question that the model wrote before is left out, and another chunk is
    tried.

    Args:
        documents: The documents.
        settings: How many questions are wanted, and how long a chunk is.
        maker: Asks the model.

    Raises:
        InputError: If the model gave no usable question.
        JudgeUnavailable: If the model will answer nothing.
    """
    candidates = _chunks_in_turn(documents, settings)

    def write_pair(sample: Sample) -> Generator[Any, Any, Pair]:
        """Write a pair about the chunk that is the sample's only context."""
        (chunk,) = sample.known_contexts
        question = WriteQuestion.about([chunk.text], maker.language)
        written = yield from ask_one(question)
        return Pair(
            question=written.question,
            answer=written.response,
            document=sample.metadata["document"],
        )

    def question_of(pair: Pair) -> str:
        return normalise_question(pair.question)

    # until there are so many pairs, no two with the same question
    pairs = maker.until(settings.questions, candidates, write_pair, question_of)
    return tuple(pairs)


def _chunks_in_turn(
    documents: Sequence[Document], settings: DiscreteSettings
) -> Iterator[Sample]:
    """Yield samples of one chunk each: one chunk of each document, then another of each.

    Example: A with the chunks a1 and a2, and B with b1: b1, a2, a1. The order of the
    documents and of the chunks in them is random, and the same for each call with the
    same seed. A sample's metadata name its document.
    """
    random_source = random.Random(f"{settings.seed}|questions")  # noqa: S311 - a reproducible choice, no cryptography
    samples_by_document: list[list[Sample]] = []
    for document in documents:
        chunks = chunk_document(document, size=settings.chunk_size)
        metadata = {"document": document.id}
        samples_of_document = []
        for chunk in random_source.sample(chunks, len(chunks)):
            samples_of_document.append(Sample(contexts=(chunk,), metadata=metadata))
        samples_by_document.append(samples_of_document)
    random_source.shuffle(samples_by_document)
    for one_of_each in zip_longest(*samples_by_document):
        for sample in one_of_each:
            if sample is not None:  # None: the document has no more chunks
                yield sample


def build_discrete(
    documents: Sequence[Document],
    pairs: Sequence[Pair],
    settings: DiscreteSettings | None = None,
    *,
    retriever: Retriever | None = None,
    source: Sequence[str] = (),
    maker: Maker | None = None,
) -> DiscreteSet:
    """Build a discrete annotated set, which has two points for each question.

    The positive point holds the documents that a retriever ranks first, the negative
    one the documents that it ranks last: of five retrieved, with ``take=2``, ranks 1
    and 2 against 4 and 5.

    Args:
        documents: The corpus.
        pairs: Questions with golden answers.
        settings: How many documents are retrieved, and how many a point takes.
        retriever: Any callable from question and number to documents in rank order;
            None for BM25 over the chunks.
        source: Names of the files, for the header.
        maker: The model that wrote the pairs; None if the caller gave them.

    Raises:
        InputError: If a golden answer is empty, a question stands there twice, or too
            little is retrieved.
        SettingError: If ``take`` documents from both ends do not fit into ``top``.
        MissingDependency: If BM25 is not installed.
    """
    settings = settings or DiscreteSettings()
    check_corpus(documents, settings, retriever)
    check_pairs(pairs)
    if retriever is None:
        retriever = BM25(_chunks_of(documents, settings))
    elif settings.retriever == "bm25":  # the header must not name what never ran
        settings = settings.model_copy(update={"retriever": "own"})
    points: list[DiscretePoint] = []
    for question_number, pair in enumerate(pairs, start=1):
        contexts = retrieve(retriever, pair.question, settings.top, question_number)
        n_retrieved = len(contexts)
        n_needed = 2 * settings.take  # else both ends of the list share a document
        if n_retrieved < n_needed:
            raise InputError(
                f"the retriever gave {n_retrieved} documents for question"
                f" {question_number}; {n_needed} are needed, better {settings.top}"
            )
        first_ranks = range(1, settings.take + 1)
        last_ranks = range(n_retrieved - settings.take + 1, n_retrieved + 1)
        points.append(_point(pair, contexts, first_ranks, "positive"))
        points.append(_point(pair, contexts, last_ranks, "negative"))
    set_header = make_header(
        "discrete",
        documents,
        settings,
        source,
        maker,
        TEMPLATE,
        origin_of_questions="written" if maker else "given",
    )
    return DiscreteSet(header=set_header, points=tuple(points))


def check_corpus(
    documents: Sequence[Document],
    settings: DiscreteSettings,
    retriever: Retriever | None,
) -> None:
    """Refuse settings and documents of which no set can be made, before a model writes.

    How much a retriever of one's own finds is only seen when it is asked.

    Raises:
        InputError: If the documents have fewer chunks than BM25 is to retrieve.
        SettingError: If ``take`` documents from both ends do not fit into ``top``.
        MissingDependency: If BM25 is not installed.
    """
    if settings.take < 1 or settings.top < 2 * settings.take:  # the ends overlap
        raise SettingError(
            f"{settings.take} first and {settings.take} last documents do not fit into"
            f" {settings.top}"
        )
    if retriever is not None:
        return
    import_extra("bm25s", "datasets", "BM25")
    n_chunks = len(_chunks_of(documents, settings))
    if n_chunks < settings.top:
        raise InputError(
            f"the corpus has {n_chunks} chunks and {settings.top} are to be"
            " retrieved; give more or longer documents, or a smaller chunk size"
        )


def _chunks_of(
    documents: Sequence[Document], settings: DiscreteSettings
) -> list[Context]:
    """Return the chunks of all documents, in their order."""
    chunks: list[Context] = []
    for document in documents:
        chunks += chunk_document(document, size=settings.chunk_size)
    return chunks


def _point(
    pair: Pair, contexts: Sequence[Context], ranks: Sequence[int], label: Label
) -> DiscretePoint:
    """Make a point: a question with its golden answer and contexts of some ranks.

    Its id is a digest of the texts, so that it does not give the label away.

    Args:
        pair: The question and its golden answer.
        contexts: All contexts that were retrieved for the question.
        ranks: Which of them the point holds, from 1.
        label: Whether these are contexts that answer the question, as by their ranks.
    """
    point_contexts = tuple(contexts[rank - 1] for rank in ranks)
    texts = [context.text for context in point_contexts]
    sample = Sample(
        id=digest_of([pair.question, pair.answer, *texts]),
        question=pair.question,
        contexts=point_contexts,
        answer=pair.answer,
        reference=pair.answer,
    )
    # Intervals resample documents: where the document is not known, each question counts
    # as one of its own.
    return DiscretePoint(
        document=pair.document or digest_of([pair.question]),
        sample=sample,
        ranks=tuple(ranks),
        by_rank=label,
    )


class BM25:
    """Ranks the chunks of a corpus by BM25 over their content words.

    Raises:
        MissingDependency: If bm25s is not installed.

    Source:
        bm25s (Lù 2024, arXiv 2407.03618), method "lucene", k1 = 1.5, b = 0.75. Equal
        scores keep the corpus' order.
    """

    def __init__(self, chunks: Sequence[Context]) -> None:
        """Index the words of the chunks that are searched, such as "lit" and "lamp"."""
        bm25s = import_extra("bm25s", "datasets", "BM25")
        # bm25s would log each index that it makes.
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        self._chunks = chunks
        # the values that Lucene searches with
        self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        words_by_chunk = [list(content_terms(chunk.text)) for chunk in chunks]
        self._vocabulary: set[str] = set()  # all words of the chunks
        for words in words_by_chunk:
            self._vocabulary.update(words)
        if self._vocabulary:  # bm25s cannot index texts without any word
            self._index.index(words_by_chunk, show_progress=False)

    def __call__(self, question: str, count: int) -> list[Context]:
        """Return the ``count`` best chunks for a question, best first, with scores.

        Example: for "When did the bridge open?" the chunks that say most of "bridge"
        and "open". If no chunk shares a word with the question, every score is 0.
        """
        known_words = []
        for word in content_terms(question):
            if word in self._vocabulary:
                known_words.append(word)
        scores = [0.0] * len(self._chunks)
        if known_words:
            scores = self._index.get_scores(known_words).tolist()
        # sorted() keeps the corpus' order of equal scores, also in reverse
        best_first = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        contexts = []
        for index in best_first[:count]:
            score = round(scores[index], 6)
            contexts.append(self._chunks[index].model_copy(update={"score": score}))
        return contexts


def retrieve(
    retriever: Retriever, question: str, count: int, number: int
) -> list[Context]:
    """Return the contexts that a retriever returns for the question of this number.

    Raises ``InputError`` if one has no text.
    """
    contexts = []
    for rank, document in enumerate(retriever(question, count), start=1):
        with as_input_error(f"what the retriever returned for question {number}"):
            fields = read_context(document, "documents", rank)
            contexts.append(Context.model_validate(fields))
    return contexts[:count]


def import_retriever(place: str) -> Retriever:
    """Import ``module:name``, a callable that gets a question and a number.

    Raises:
        SettingError: If it cannot be called.
    """
    retriever: Retriever = import_named_object(place)
    if not callable(retriever):
        raise SettingError(
            "a retriever is given as module:name of a callable(question, number); got"
            f" {place!r}"
        )
    return retriever
