"""The continuous set: every combination of golden and noise contexts.

All are labelled from one matrix of facts × contexts.

Source: the published retrieval accuracy evaluation: four golden contexts, three of
noise, 120 combinations of 2 to 7.
"""

import random
from collections.abc import Generator, Iterable, Sequence
from itertools import chain, combinations, zip_longest
from statistics import fmean
from typing import Any, Literal, Self, cast

from pydantic import Field

from ragmetrics_core.data import (
    Context,
    Failed,
    InputError,
    Sample,
    Scored,
    SettingError,
    Settings,
    Undefined,
)
from ragmetrics_core.labelling.documents import (
    CHUNK_SIZE,
    Document,
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
from ragmetrics_core.labelling.sets import (
    CombinationPoint,
    ContinuousSet,
    LabelledDocument,
)
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy

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
    chunks_by_document: _ChunksByDocument = {}
    for document in documents:
        chunks_by_document[document.id] = chunk_document(
            document, size=settings.chunk_size
        )
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
    points: list[CombinationPoint] = []
    for labelled_document in labelled_documents:
        points += document_points(labelled_document, settings)
    set_header = make_header(
        "continuous", documents, settings, source, maker, TEMPLATE, *metric.prompts()
    )
    return ContinuousSet(
        header=set_header, documents=tuple(labelled_documents), points=tuple(points)
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

    def question_of(document: LabelledDocument) -> str:
        return normalise_question(document.question)

    return maker.until(settings.documents, samples, label, question_of)


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
    ids_long_enough = []
    for document_id in ids_with_text:
        if len(chunks_by_document[document_id]) >= settings.golden:
            ids_long_enough.append(document_id)
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

    chunks_of_others = []
    for other_id, chunks_of_other in chunks_by_document.items():
        if other_id != document_id and chunks_of_other:
            shuffled_chunks = random_source.sample(
                chunks_of_other, len(chunks_of_other)
            )
            chunks_of_others.append(shuffled_chunks)
    random_source.shuffle(chunks_of_others)
    texts_of_document = {chunk.text for chunk in chunks}
    noise_by_text: dict[str, Context] = {}
    for chunk in chain.from_iterable(zip_longest(*chunks_of_others)):
        if chunk is not None and chunk.text not in texts_of_document:
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
    points = []
    for size in range(settings.smallest, total + 1):
        for subset in combinations(range(total), size):
            points.append(point_of(document, subset))
    return points


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
    n_golden = document.golden
    return CombinationPoint(
        document=document.id,
        contexts=indices,
        golden=len([index for index in indices if index < n_golden]),
        label=fmean(are_facts_covered),
    )
