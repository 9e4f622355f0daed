"""Builds annotated sets of both published kinds from documents, for judges of retrieval.

The discrete set has golden answers with the first, or the last, documents retrieved: 15
questions give 30 points. The continuous set has combinations of golden contexts and
noise, labelled by their facts. Source: the published retrieval accuracy evaluation for
use without labelled data.
"""

import logging
import random
from collections import Counter
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from hashlib import sha256
from importlib.resources import files
from itertools import chain, combinations, islice, zip_longest
from statistics import fmean
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from ragmetrics_core.data import (
    Context,
    Evidence,
    Failed,
    Frozen,
    Sample,
    Scored,
    SettingError,
    Settings,
    SilentData,
    Undefined,
    Usage,
    as_input_error,
    import_extra,
    import_named_object,
)
from ragmetrics_core.data.asking import Instructions, Part, Question, ask
from ragmetrics_core.data.cells import read_context
from ragmetrics_core.data.errors import InputError, crash_in_words
from ragmetrics_core.engine.progress import Show
from ragmetrics_core.engine.resolve import JudgeLike, resolve_judge
from ragmetrics_core.engine.run import Run, stream
from ragmetrics_core.labelling.documents import (
    CHUNK_SIZE,
    Document,
    Pair,
    check_pairs,
    chunk_document,
    normalise_question,
)
from ragmetrics_core.labelling.sets import (
    CombinationPoint,
    ContinuousSet,
    DiscretePoint,
    DiscreteSet,
    Header,
    Label,
    LabelledDocument,
    digest_of,
)
from ragmetrics_core.lexical.text import content_terms
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.metrics.metric import Outcome, digest_of_prompt, metric
from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy
from ragmetrics_core.models.reply_store import MemoryStore, ReplyStore

T = TypeVar("T")
Asking = TypeVar("Asking", Pair, LabelledDocument)
R = TypeVar("R", bound=BaseModel)
Making = Callable[[Sample], Generator[Any, Any, T | Failed | Undefined]]
"""A plan that ends with what a model made of the sample, or why it made nothing."""

TEMPLATE = (
    files(__package__).joinpath("prompts", "write_question.txt").read_text("utf-8")
)
"""The prompt that has a question and its response written."""

_Stated = Annotated[str, Field(min_length=1)]


class TaggedSentence(SilentData, extra="ignore", str_strip_whitespace=True):
    """One sentence of a golden response.

    Args:
        text: The sentence.
        chunk: Label of the chunk that it was taken from: A, B and so on.
    """

    text: _Stated
    chunk: _Stated


class Written(SilentData, extra="ignore", str_strip_whitespace=True):
    """A question and its golden response.

    Args:
        question: The question.
        sentences: The response, sentence by sentence; every chunk gave at least one.
    """

    question: _Stated
    sentences: tuple[TaggedSentence, ...]

    @field_validator("sentences")
    @classmethod
    def _check_every_chunk(cls, sentences: Any, info: ValidationInfo) -> Any:
        if not isinstance(info.context, Question):
            return sentences
        chunk_labels = info.context.parts["chunks"].labels
        labels_used = {sentence.chunk for sentence in sentences}
        if labels_used != set(chunk_labels):
            raise ValueError(
                "it must have at least one sentence from each chunk"
                f" ({', '.join(chunk_labels)})"
            )
        return sentences

    @property
    def response(self) -> str:
        """The golden response as one text."""
        return " ".join(sentence.text for sentence in self.sentences)


class WriteQuestion(Question[Written]):
    """Which question needs something of each of these chunks, and what is the answer?

    Parts: chunks.
    """

    @classmethod
    def about(cls, chunks: Sequence[str], language: str | None = None) -> Self:
        """Return the question for these chunks, in the order of the document."""
        return cls(
            parts={"chunks": Part("Chunk", tuple(chunks), "letters")},
            instructions=Instructions(TEMPLATE, language=language),
            Reply=Written,
            example=_usual_reply,
        )


def _usual_reply(question: WriteQuestion) -> Written:
    """Return two sentences from each chunk, as long as real ones, for dry runs."""
    chunks = "\0".join(question["chunks"])
    filler = sha256(chunks.encode(errors="replace")).hexdigest()
    sentences = []
    for label in question.parts["chunks"].labels:
        for number in range(2):
            text = f"{filler} {filler} {number}."
            sentences.append(TaggedSentence(text=text, chunk=label))
    return Written(question=f"{filler}?", sentences=tuple(sentences))


class Maker:
    """One model at work on a set; what it does is a run like any other.

    Args:
        judge: A judge, or a name as in ``evaluate``; it must be able to write.
        store: Where replies are kept; None for a store of this session.
        concurrency: Most calls in flight.
        language: Language of questions and responses; None leaves it to the model.
        progress: As in ``evaluate``.

    Attributes:
        name: Name of the model.
        usage: What it cost so far.
        left_out: Per reason, how many candidates gave nothing.
    """

    def __init__(
        self,
        judge: JudgeLike,
        *,
        store: ReplyStore | None = None,
        concurrency: int = 32,
        language: str | None = None,
        progress: Show = False,
    ) -> None:
        self._judge = resolve_judge(judge)
        self._store = MemoryStore() if store is None else store
        self._concurrency = concurrency
        self._progress = progress
        self.name = self._judge.name
        self.language = language
        self.usage = Usage()
        self.left_out = Counter[str]()

    def make(
        self, plan: Making[T], samples: Sequence[Sample]
    ) -> Iterator[T | Failed | Undefined]:
        """Have the model make something of each sample, and yield the products in order.

        A product is what the plan returns, e.g. a question with its answer. It is
        ``Failed`` or ``Undefined`` where the plan made nothing. Example: of 3 chunks
        the model writes 2 questions, and one request fails: two pairs and a ``Failed``.

        Raises:
            JudgeUnavailable: If the model will answer nothing.
            KeyboardInterrupt: If the run was interrupted.
        """

        # The engine carries out metrics, with their limits, store and batches. So the
        # plan becomes a metric: its score says nothing, its evidence is the product.
        @metric
        def making(sample: Sample) -> Generator[Any, Any, Outcome]:
            """Run the plan as a metric; the evidence of its score is the product."""
            product = yield from plan(sample)
            if isinstance(product, (Failed, Undefined)):
                return product
            evidence = Evidence.model_validate({"product": product})
            return Scored(metric="making", value=1, reason="", evidence=evidence)

        run = Run(making, self._judge, self._concurrency, self._store)
        for row in stream(run, samples, progress=self._progress, columns={}):
            self.usage += row.usage
            outcome = row.results.get("making")  # None if the run ended within the row
            if isinstance(outcome, Scored):
                evidence = cast("Any", outcome.evidence)
                yield evidence.product
            elif outcome is not None:
                yield outcome
        run.raise_if_ended_early()

    def until(
        self, count: int, candidates: Iterable[Sample], plan: Making[Asking]
    ) -> list[Asking]:
        """Make as many different products as are wanted, each from one candidate.

        Example: 5 are wanted. The first 5 candidates give 4, so a sixth is tried. A
        product is what the plan makes, e.g. a question with its answer. Where a
        candidate gives none, the reason is counted in ``left_out`` and a further
        candidate is tried. No two products share a question.

        Raises:
            InputError: If no candidate gave a product.
            JudgeUnavailable: If the model will answer nothing.
        """
        product_by_question: dict[str, Asking] = {}
        untried_candidates = iter(candidates)
        while len(product_by_question) < count:
            n_missing = count - len(product_by_question)
            batch = list(islice(untried_candidates, n_missing))
            if not batch:
                break
            for product in self.make(plan, batch):
                if isinstance(product, Failed):
                    self.left_out[product.error.type] += 1
                    continue
                if isinstance(product, Undefined):
                    self.left_out[product.code] += 1
                    continue
                question = normalise_question(product.question)
                if product_by_question.setdefault(question, product) is not product:
                    self.left_out["duplicate question"] += 1
        if not product_by_question:
            counts = [f"{count} {reason}" for reason, count in self.left_out.items()]
            raise InputError(
                f"{self.name} gave nothing that could be used ({', '.join(counts)}); try"
                " another model"
            )
        return list(product_by_question.values())


def ask_one(question: Question[R]) -> Generator[Any, Any, R]:
    """Ask one question within a plan, and return the first reply to it.

    If there is none, the ``JudgeError`` is raised, which ends the plan.
    """
    (answer,) = yield from ask([question])
    return answer.reply


def make_header(
    kind: Literal["discrete", "continuous"],
    documents: Iterable[Document],
    settings: Frozen,
    source: Iterable[str],
    maker: Maker | None,
    *prompts: str,
) -> Header:
    """Return the header of a labelled set, which records how the set was made.

    Example: kind "discrete", source ``("faq.md",)``, seed 0, parameters ``{"top": 5,
    "take": 2, …}``, and the model that wrote the questions, if one did.

    Args:
        kind: "discrete" if a label is yes or no, "continuous" if a label is a share.
        documents: The corpus. The header of the set has its digest.
        settings: The settings that the set was made with.
        source: Names of the files.
        maker: The model that wrote texts and labels; None if no model was asked.
        prompts: The prompts. The header of the set has their digest.
    """
    parameters = settings.model_dump()
    seed = parameters.pop("seed")
    if kind == "discrete":  # who made its pairs of a question and an answer
        parameters["pairs"] = "written" if maker else "given"
    of_model: dict[str, Any] = {}
    if maker is not None:
        of_model = {
            "model": maker.name,
            "prompts": digest_of_prompt(*prompts, maker.language or ""),
            # how many texts the model made nothing of, by the reason
            "left_out": dict(sorted(maker.left_out.items())),
        }
    ids_and_texts = ((document.id, document.text) for document in documents)
    return Header(
        kind=kind,
        source=tuple(source),
        corpus=digest_of(chain.from_iterable(ids_and_texts)),
        seed=seed,
        parameters=parameters,
        **of_model,
    )


# The discrete set

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

    def write_pair(sample: Sample) -> Generator[Any, Any, Pair]:
        (chunk,) = sample.known_contexts
        question = WriteQuestion.about([chunk.text], maker.language)
        written = yield from ask_one(question)
        return Pair(
            question=written.question,
            answer=written.response,
            document=sample.metadata["document"],
        )

    candidates = _chunks_in_turn(documents, settings)
    return tuple(maker.until(settings.questions, candidates, write_pair))


def _chunks_in_turn(
    documents: Sequence[Document], settings: DiscreteSettings
) -> Iterator[Sample]:
    """Yield samples of one chunk each: one chunk of each document, then another of each.

    The order is the same for each call with the same seed. A sample's metadata name its
    document.
    """
    samples_by_document = []
    for document in documents:
        metadata = {"document": document.id}
        chunks = chunk_document(document, size=settings.chunk_size)
        samples_by_document.append(
            [Sample(contexts=(chunk,), metadata=metadata) for chunk in chunks]
        )
    return _in_turn(samples_by_document, _random_of_parts(settings.seed, "questions"))


def _in_turn(lists: Iterable[Sequence[T]], random_source: random.Random) -> Iterator[T]:
    """Yield an element of each list, then another of each, until all were yielded.

    Example: of [a1, a2] and [b1]: b1, a2, a1. The order of the lists and of their
    elements is random.
    """
    shuffled = [random_source.sample(elements, len(elements)) for elements in lists]
    random_source.shuffle(shuffled)
    for one_of_each in zip_longest(*shuffled):
        yield from (element for element in one_of_each if element is not None)


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
    set_header = make_header("discrete", documents, settings, source, maker, TEMPLATE)
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
    size = settings.chunk_size
    chunks = (chunk_document(document, size=size) for document in documents)
    return list(chain.from_iterable(chunks))


def _point(
    pair: Pair, contexts: Sequence[Context], ranks: Sequence[int], label: Label
) -> DiscretePoint:
    """Make a point: a question with its golden answer and contexts of some ranks.

    Its id is a digest of the texts, so that it does not give the label away.
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
        self._vocabulary = set(chain.from_iterable(words_by_chunk))
        if self._vocabulary:  # bm25s cannot index texts without any word
            self._index.index(words_by_chunk, show_progress=False)

    def __call__(self, question: str, count: int) -> list[Context]:
        """Return the ``count`` best chunks for a question, best first, with scores.

        Example: for "When did the bridge open?" the chunks that say most of "bridge"
        and "open". If no chunk shares a word with the question, every score is 0.
        """
        known_words = [
            word for word in content_terms(question) if word in self._vocabulary
        ]
        scores = [0.0] * len(self._chunks)
        if known_words:
            scores = self._index.get_scores(known_words).tolist()
        # sorted() keeps the corpus' order of equal scores, also in reverse
        best_first = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        return [
            self._chunks[index].model_copy(update={"score": round(scores[index], 6)})
            for index in best_first[:count]
        ]


def retrieve(
    retriever: Retriever, question: str, count: int, number: int
) -> list[Context]:
    """Return the contexts that a retriever returns for the question of this number.

    Raises ``InputError`` if it raises, returns no list, or one has no text.
    """
    what = f"what the retriever returned for question {number}"
    try:
        documents: object = retriever(question, count)
    except Exception as error:  # it is the user's
        raise InputError(
            f"the retriever raised {crash_in_words(error)} for question {number}: it is"
            " called with a question and a number, and returns a list of documents"
        ) from error
    if not isinstance(documents, Iterable) or isinstance(documents, (str, Mapping)):
        raise InputError(f"{what} is no list of documents: {type(documents).__name__}")
    contexts = []
    for rank, document in enumerate(documents, start=1):
        with as_input_error(what):
            fields = read_context(document, "documents", rank)
            contexts.append(Context.model_validate(fields))
    with as_input_error(what):  # ids in the place of texts
        Sample.from_row({"question": question, "contexts": contexts})
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


# The continuous set

_ChunksByDocument = dict[str, tuple[Context, ...]]
"""The chunks of each document, by its id."""


class ContinuousSettings(Settings):
    """What decides a continuous set.

    The command line has an option for each, with the same words.
    """

    chunk_size: int = Field(
        default=CHUNK_SIZE, description="most characters of a chunk"
    )
    documents: int = Field(
        default=20, description="over how many documents it is repeated"
    )
    golden: int = Field(default=4, description="consecutive chunks of one document")
    noise: int = Field(default=3, description="random chunks of other documents")
    smallest: int = Field(
        default=2,
        description="fewest contexts of a combination; 1 includes the singles",
    )
    extraction: Literal["io", "cot"] = Field(
        default="io", description="prompt that extracts facts"
    )
    seed: int = Field(default=0, description="of every random choice")

    def refuse_misfits(self) -> Self:
        """Itself; ``SettingError`` if the numbers do not fit together."""
        least_of_one = min(self.documents, self.golden, self.smallest)
        if least_of_one < 1 or self.noise < 0:
            raise SettingError(
                "documents, golden contexts and sizes are at least 1, noise contexts at"
                " least 0"
            )
        total = self.golden + self.noise
        if self.smallest > total:
            raise SettingError(
                f"combinations of at least {self.smallest} do not fit {total} contexts"
            )
        return self


def build_continuous(
    documents: Sequence[Document],
    settings: ContinuousSettings,
    maker: Maker,
    *,
    source: Sequence[str] = (),
) -> ContinuousSet:
    """Build a continuous set: its labels are shares from 0 to 1.

    For each document the model writes a question and its answer from some chunks, the
    golden contexts. Chunks of other documents are added as noise. Each combination of
    the contexts, such as the first and the third, is a point of the set. Its label is
    the share of the answer's facts that these contexts cover: .75 for 3 of 4.

    Args:
        documents: The documents, at least three.
        settings: How many contexts, documents and points; which prompt; the seed.
        maker: Asks the model that writes and labels.
        source: Names of the files, for the header.

    Raises:
        InputError: If no document has enough consecutive chunks, there are fewer than
            two other documents, or the model gave nothing usable.
        SettingError: If the numbers do not fit together.
        JudgeUnavailable: If the model will answer nothing.
    """
    settings = settings.refuse_misfits()
    chunks_by_document = {
        document.id: chunk_document(document, size=settings.chunk_size)
        for document in documents
    }
    # Each is a document with its contexts. The model may give no usable question for it,
    # so there are more than are labelled.
    candidates = (
        Sample(
            id=document_id,
            contexts=_choose_contexts(document_id, chunks_by_document, settings),
        )
        for document_id in _draw_candidates(chunks_by_document, settings)
    )
    metric = RetrievalAccuracy(extraction=settings.extraction, language=maker.language)
    labelled_documents = _label_documents(candidates, settings, maker, metric)
    points = (document_points(document, settings) for document in labelled_documents)
    set_header = make_header(
        "continuous", documents, settings, source, maker, TEMPLATE, *metric.prompts()
    )
    return ContinuousSet(
        header=set_header,
        documents=tuple(labelled_documents),
        points=tuple(chain.from_iterable(points)),
    )


def _label_documents(
    samples: Iterable[Sample],
    settings: ContinuousSettings,
    maker: Maker,
    metric: RetrievalAccuracy,
) -> list[LabelledDocument]:
    """Have questions written and facts judged until there are enough documents."""

    def label(
        sample: Sample,
    ) -> Generator[Any, Any, LabelledDocument | Failed | Undefined]:
        # a model writes a question and its answer from the golden contexts; the others
        # are noise
        golden_texts = [each.text for each in sample.known_contexts[: settings.golden]]
        question = WriteQuestion.about(golden_texts, maker.language)
        written = yield from ask_one(question)
        # the prompt calls the texts "Chunk A", "Chunk B"; the reply names those letters
        letters = question.parts["chunks"].labels
        document = LabelledDocument(
            id=sample.id or "",
            question=written.question,
            sentences=tuple(sentence.text for sentence in written.sentences),
            tags=tuple(letters.index(sentence.chunk) for sentence in written.sentences),
            contexts=sample.contexts,
            golden=settings.golden,
        )
        # the facts of its response, each judged in each context
        outcome = yield from metric.plan(document.sample())
        if not isinstance(outcome, Scored):
            return outcome
        evidence = cast("AccuracyEvidence", outcome.evidence)
        calls = evidence.matrix_calls + evidence.extraction_calls
        return document.model_copy(
            update={"facts": evidence.facts, "cells": evidence.cells, "calls": calls}
        )

    return maker.until(settings.documents, samples, label)


def _random_of_parts(*parts: object) -> random.Random:
    seed = "|".join(map(str, parts))
    return random.Random(seed)  # noqa: S311 - a reproducible choice, no cryptography


def _draw_candidates(
    chunks_by_document: _ChunksByDocument, settings: ContinuousSettings
) -> list[str]:
    """Return the ids of the documents with enough chunks, in random order.

    A question is written from ``settings.golden`` chunks of a document (its golden
    contexts), such as 3: a document with 2 chunks is left out.

    Raises:
        InputError: If no document has enough chunks, or if the settings want noise from
            other documents, and there are fewer than two others.
    """
    ids_with_text = [name for name, chunks in chunks_by_document.items() if chunks]
    n_others = max(len(ids_with_text) - 1, 0)
    if settings.noise and n_others < 2:
        raise InputError(
            "noise comes from at least two other documents, and there are"
            f" {n_others}; give more documents, or no noise"
        )
    ids_long_enough = [
        name
        for name in ids_with_text
        if len(chunks_by_document[name]) >= settings.golden
    ]
    if not ids_long_enough:
        most_chunks = max(map(len, chunks_by_document.values()), default=0)
        raise InputError(
            f"no document has {settings.golden} consecutive chunks: the longest has"
            f" {most_chunks} of at most {settings.chunk_size} characters; give longer"
            " documents, or a smaller chunk size"
        )
    random_source = _random_of_parts(settings.seed, "documents")
    return random_source.sample(ids_long_enough, len(ids_long_enough))


def _choose_contexts(
    document_id: str,
    chunks_by_document: _ChunksByDocument,
    settings: ContinuousSettings,
) -> tuple[Context, ...]:
    """Choose consecutive chunks of a document, the golden contexts, then noise of others.

    The other documents take turns: three chunks from documents A and B may be of A, B
    and A. No text is chosen twice, and none that the document itself has.

    Raises:
        InputError: If the other documents have fewer such chunks than are wanted.
    """
    random_source = _random_of_parts(settings.seed, document_id)
    chunks = chunks_by_document[document_id]
    last_start = len(chunks) - settings.golden
    start = random_source.randrange(last_start + 1)
    golden_chunks = chunks[start : start + settings.golden]

    chunks_of_others = [
        chunks_of_other
        for other_id, chunks_of_other in chunks_by_document.items()
        if other_id != document_id and chunks_of_other
    ]
    texts_of_document = {chunk.text for chunk in chunks}
    noise_by_text: dict[str, Context] = {}
    for chunk in _in_turn(chunks_of_others, random_source):
        if chunk.text not in texts_of_document:
            noise_by_text.setdefault(chunk.text, chunk)
    if len(noise_by_text) < settings.noise:
        raise InputError(
            f"the other documents have too few chunks for {settings.noise} contexts of"
            " noise"
        )
    noise = list(noise_by_text.values())[: settings.noise]
    return (*golden_chunks, *noise)


def document_points(
    document: LabelledDocument, settings: ContinuousSettings
) -> list[CombinationPoint]:
    """Return the points of a document, one for each combination of its contexts."""
    total = len(document.contexts)
    sizes = range(settings.smallest, total + 1)
    subsets = chain.from_iterable(combinations(range(total), size) for size in sizes)
    return [point_of(document, subset) for subset in subsets]


def point_of(document: LabelledDocument, subset: Iterable[int]) -> CombinationPoint:
    """Label a combination of a document's contexts from what was judged before.

    Its label is the share of the answer's facts that at least one of its contexts
    covers: 3 of 4 facts give .75.

    Args:
        document: A document whose ``cells`` say of each fact, context by context,
            whether the context covers it. Its golden contexts come first.
        subset: Indices of the contexts in the combination.
    """
    indices = tuple(sorted(subset))
    are_facts_covered = []
    for cells_of_fact in document.cells:
        is_covered = any(cells_of_fact[index].covered for index in indices)
        are_facts_covered.append(is_covered)
    return CombinationPoint(
        document=document.id,
        contexts=indices,
        golden=sum(index < document.golden for index in indices),
        label=fmean(are_facts_covered),
    )
