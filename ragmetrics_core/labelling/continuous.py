"""The continuous set: every combination of golden and noise contexts, labelled from one matrix of facts × contexts.

Source: the published retrieval accuracy evaluation: four golden contexts, three of
noise, 120 combinations of 2 to 7.
"""

import random
from collections.abc import Generator, Iterable, Sequence
from itertools import chain, combinations, islice, zip_longest
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
from ragmetrics_core.labelling.documents import CHUNK_SIZE, Document, chunked, plain
from ragmetrics_core.labelling.making import (
    TEMPLATE,
    Maker,
    WriteQuestion,
    answered,
    header,
)
from ragmetrics_core.labelling.sets import (
    CombinationPoint,
    ContinuousSet,
    LabelledDocument,
)
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy


class ContinuousSettings(Settings):
    """What decides a continuous set.

    The command line has an option for each, with the same words.
    """

    chunk_size: int = Field(CHUNK_SIZE, description="most characters of a chunk")
    overlap: int = Field(
        0, description="characters that neighbouring chunks share, at most"
    )
    documents: int = Field(20, description="over how many documents it is repeated")
    golden: int = Field(4, description="consecutive chunks of one document")
    noise: int = Field(3, description="random chunks of other documents")
    smallest: int = Field(
        2, description="fewest contexts of a combination; 1 includes the singles"
    )
    largest: int | None = Field(
        None, ge=1, description="most contexts of a combination; all, if none is given"
    )
    stratify: bool = Field(
        False, description="keep equally many points for each number of golden chunks"
    )
    extraction: Literal["io", "cot"] = Field(
        "io", description="prompt that extracts facts"
    )
    seed: int = Field(0, description="of every random choice")

    def checked(self) -> Self:
        """Itself; ``SettingError`` if the numbers do not fit together."""
        total = self.golden + self.noise
        if min(self.documents, self.golden, self.smallest) < 1 or self.noise < 0:
            raise SettingError(
                "documents, golden contexts and sizes are at least 1, noise contexts at"
                " least 0"
            )
        if not self.smallest <= (self.largest or total) <= total:
            raise SettingError(
                f"combinations of {self.smallest} to {self.largest} do not fit {total}"
                " contexts"
            )
        return self


def build_continuous(
    documents: Sequence[Document],
    settings: ContinuousSettings,
    maker: Maker,
    *,
    source: Sequence[str] = (),
) -> ContinuousSet:
    """Build a continuous set.

    Per document one call writes the question and the golden response, one extracts its
    facts, and one judges each fact in each context. Combinations need no call.

    Args:
        documents: The documents, at least three.
        settings: What decides the set.
        maker: Where the model works.
        source: Names of the files, for the header.

    Raises:
        InputError: If no document has enough consecutive chunks, there are fewer than
            two other documents, or the model gave nothing usable.
        SettingError: If the numbers do not fit together.
        JudgeUnavailable: If the model will answer nothing.
    """
    settings = settings.checked()
    pool = {
        document.id: chunked(
            document, size=settings.chunk_size, overlap=settings.overlap
        )
        for document in documents
    }
    names = _candidates(pool, settings)
    metric = RetrievalAccuracy(extraction=settings.extraction, language=maker.language)

    def plan(
        sample: Sample,
    ) -> Generator[Any, Any, LabelledDocument | Failed | Undefined]:
        document = yield from _written(sample, settings.golden, maker.language)
        return (yield from _with_facts(document, metric))

    samples = (
        Sample(id=name, contexts=_contexts_of(name, pool, settings)) for name in names
    )
    labelled = maker.until(
        settings.documents, samples, plan, lambda document: plain(document.question)
    )
    points: list[CombinationPoint] = []
    for document in labelled:
        points += document_points(document, settings)
    set_header = header(
        "continuous", documents, settings, source, maker, TEMPLATE, *metric.prompts()
    )
    return ContinuousSet(
        header=set_header, documents=tuple(labelled), points=tuple(points)
    )


def _written(
    sample: Sample, golden: int, language: str | None
) -> Generator[Any, Any, LabelledDocument]:
    """Have the question and the golden response written, from the golden contexts."""
    chunks = [context.text for context in sample.contexts[:golden]]
    question = WriteQuestion.about(chunks, language)
    written = yield from answered(question)
    chunk_labels = question.parts["chunks"].labels
    return LabelledDocument(
        id=sample.id or "",
        question=written.question,
        sentences=tuple(sentence.text for sentence in written.sentences),
        tags=tuple(
            chunk_labels.index(sentence.chunk) for sentence in written.sentences
        ),
        contexts=sample.contexts,
        golden=golden,
    )


def _with_facts(
    document: LabelledDocument, metric: RetrievalAccuracy
) -> Generator[Any, Any, LabelledDocument | Failed | Undefined]:
    """The document with the facts of its response, each judged in each context."""
    outcome = yield from metric.plan(document.sample())
    if not isinstance(outcome, Scored):
        return outcome
    evidence = cast("AccuracyEvidence", outcome.evidence)
    calls = evidence.matrix_calls + evidence.extraction_calls
    return document.model_copy(
        update={"facts": evidence.facts, "cells": evidence.cells, "calls": calls}
    )


def _random(*parts: object) -> random.Random:
    return random.Random("|".join(map(str, parts)))  # noqa: S311 - a reproducible choice, no cryptography


def _candidates(
    pool: dict[str, tuple[Context, ...]], settings: ContinuousSettings
) -> list[str]:
    """Documents with enough chunks to take the golden contexts from, in random order.

    ``pool`` holds the chunks of each document. ``InputError`` if no document has
    enough, or none others are left to take noise from.
    """
    with_text = [name for name, chunks in pool.items() if chunks]
    if settings.noise and len(with_text) < 3:
        raise InputError(
            "noise comes from at least two other documents, and there are"
            f" {max(len(with_text) - 1, 0)}; give more documents, or no noise"
        )
    long_enough = [name for name in with_text if len(pool[name]) >= settings.golden]
    if not long_enough:
        longest = max(map(len, pool.values()), default=0)
        raise InputError(
            f"no document has {settings.golden} consecutive chunks: the longest has"
            f" {longest} of at most {settings.chunk_size} characters; give longer"
            " documents, or a smaller chunk size"
        )
    draw = _random(settings.seed, "documents")
    return draw.sample(long_enough, len(long_enough))


def _contexts_of(
    name: str, pool: dict[str, tuple[Context, ...]], settings: ContinuousSettings
) -> tuple[Context, ...]:
    """Consecutive chunks of a document, the golden contexts, then noise of others.

    Noise comes from as many different documents as there are.
    """
    draw = _random(settings.seed, name)
    start = draw.randrange(len(pool[name]) - settings.golden + 1)
    golden = pool[name][start : start + settings.golden]
    chunks_of_others = [
        draw.sample(chunks, len(chunks))
        for other_name, chunks in pool.items()
        if other_name != name and chunks
    ]
    draw.shuffle(chunks_of_others)
    own_texts = {chunk.text for chunk in pool[name]}
    noise_by_text: dict[str, Context] = {}
    # A chunk of each document, then the next chunk of each.
    for chunk in chain.from_iterable(zip_longest(*chunks_of_others)):
        if chunk is not None and chunk.text not in own_texts:
            noise_by_text.setdefault(chunk.text, chunk)
    if len(noise_by_text) < settings.noise:
        raise InputError(
            f"the other documents have too few chunks for {settings.noise} contexts of"
            " noise"
        )
    noise = islice(noise_by_text.values(), settings.noise)
    return (*golden, *noise)


def document_points(
    document: LabelledDocument, settings: ContinuousSettings
) -> list[CombinationPoint]:
    """The points of a document, one for each combination of its contexts.

    Where the settings say ``stratify``, equally many are drawn for each number of
    golden contexts.
    """
    total = len(document.contexts)
    points = []
    for size in range(settings.smallest, (settings.largest or total) + 1):
        for subset in combinations(range(total), size):
            points.append(point_of(document, subset))
    if settings.stratify:
        return _stratified(document, points, settings)
    return points


def _stratified(
    document: LabelledDocument,
    points: Sequence[CombinationPoint],
    settings: ContinuousSettings,
) -> list[CombinationPoint]:
    """As many points with no golden context as with one, with two, and so on."""
    points_by_golden: dict[int, list[CombinationPoint]] = {}
    for point in points:
        points_by_golden.setdefault(point.golden, []).append(point)
    fewest = min(map(len, points_by_golden.values()))
    draw = _random(settings.seed, document.id, "stratify")
    drawn = []
    for _, group in sorted(points_by_golden.items()):
        sample = draw.sample(group, fewest)
        drawn += sorted(sample, key=lambda point: point.contexts)
    return drawn


def point_of(document: LabelledDocument, subset: Iterable[int]) -> CombinationPoint:
    """A combination of a document's contexts, labelled without a call.

    Its label is the share of the facts that at least one of the contexts covers.
    """
    contexts = tuple(sorted(subset))
    is_covered = [
        any(row[column].covered for column in contexts) for row in document.cells
    ]
    is_tagged = [tag in contexts for tag in document.tags]
    return CombinationPoint(
        document=document.id,
        contexts=contexts,
        golden=sum(column < document.golden for column in contexts),
        label=sum(is_covered) / len(is_covered),
        by_tags=sum(is_tagged) / len(is_tagged),
    )
