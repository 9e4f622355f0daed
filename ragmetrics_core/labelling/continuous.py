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
        it.id: chunked(it, size=settings.chunk_size, overlap=settings.overlap)
        for it in documents
    }
    candidates = _candidates(pool, settings)
    metric = RetrievalAccuracy(extraction=settings.extraction, language=maker.language)

    def labelled(
        sample: Sample,
    ) -> Generator[Any, Any, LabelledDocument | Failed | Undefined]:
        question = WriteQuestion.about(
            [it.text for it in sample.contexts[: settings.golden]], maker.language
        )
        written, labels = (
            (yield from answered(question)),
            question.parts["chunks"].labels,
        )
        document = LabelledDocument(
            id=sample.id or "",
            question=written.question,
            sentences=tuple(one.text for one in written.sentences),
            tags=tuple(labels.index(one.chunk) for one in written.sentences),
            contexts=sample.contexts,
            golden=settings.golden,
        )
        outcome = yield from metric.plan(document.sample())
        if not isinstance(outcome, Scored):
            return outcome
        found = cast("AccuracyEvidence", outcome.evidence)
        calls = found.matrix_calls + found.extraction_calls
        return document.model_copy(
            update={"facts": found.facts, "cells": found.cells, "calls": calls}
        )

    samples = (
        Sample(id=name, contexts=_chosen(name, pool, settings)) for name in candidates
    )
    made = maker.until(
        settings.documents, samples, labelled, lambda document: plain(document.question)
    )
    points = tuple(
        point for document in made for point in document_points(document, settings)
    )
    told = header(
        "continuous", documents, settings, source, maker, TEMPLATE, *metric.prompts()
    )
    return ContinuousSet(header=told, documents=tuple(made), points=points)


def _random(*parts: object) -> random.Random:
    return random.Random("|".join(map(str, parts)))  # noqa: S311 - a reproducible choice, no cryptography


def _candidates(
    pool: dict[str, tuple[Context, ...]], settings: ContinuousSettings
) -> list[str]:
    """Documents with enough chunks, in random order."""
    filled = [name for name, chunks in pool.items() if chunks]
    if settings.noise and len(filled) < 3:
        raise InputError(
            "noise comes from at least two other documents, and there are"
            f" {max(len(filled) - 1, 0)}; give more documents, or no noise"
        )
    found = [name for name in filled if len(pool[name]) >= settings.golden]
    if not found:
        longest = max(map(len, pool.values()), default=0)
        raise InputError(
            f"no document has {settings.golden} consecutive chunks: the longest has"
            f" {longest} of at most {settings.chunk_size} characters; give longer"
            " documents, or a smaller chunk size"
        )
    return _random(settings.seed, "documents").sample(found, len(found))


def _chosen(
    name: str, pool: dict[str, tuple[Context, ...]], settings: ContinuousSettings
) -> tuple[Context, ...]:
    """Consecutive chunks of a document, then chunks of other documents, as many different ones as there are."""
    draw = _random(settings.seed, name)
    start = draw.randrange(len(pool[name]) - settings.golden + 1)
    chosen = pool[name][start : start + settings.golden]
    others = [
        draw.sample(chunks, len(chunks))
        for other, chunks in pool.items()
        if other != name and chunks
    ]
    draw.shuffle(others)
    own, noise = {chunk.text for chunk in pool[name]}, dict[str, Context]()
    # a chunk of each document, then the next of each
    for chunk in chain.from_iterable(zip_longest(*others)):
        if chunk is not None and chunk.text not in own:
            noise.setdefault(chunk.text, chunk)
    if len(noise) < settings.noise:
        raise InputError(
            f"the other documents have too few chunks for {settings.noise} contexts of"
            " noise"
        )
    return (*chosen, *islice(noise.values(), settings.noise))


def document_points(
    document: LabelledDocument, settings: ContinuousSettings
) -> list[CombinationPoint]:
    """The points of a document: all combinations, or as many for each number of golden contexts."""
    total = len(document.contexts)
    sizes = range(settings.smallest, (settings.largest or total) + 1)
    points = [
        point_of(document, subset)
        for size in sizes
        for subset in combinations(range(total), size)
    ]
    if not settings.stratify:
        return points
    groups = [
        [point for point in points if point.golden == count]
        for count in range(document.golden + 1)
    ]
    groups = [group for group in groups if group]
    draw, fewest = (
        _random(settings.seed, document.id, "stratify"),
        min(map(len, groups)),
    )
    return [
        point
        for group in groups
        for point in sorted(draw.sample(group, fewest), key=lambda it: it.contexts)
    ]


def point_of(document: LabelledDocument, subset: Iterable[int]) -> CombinationPoint:
    """A combination of contexts, labelled without a call: the mean over facts of the logical OR over contexts."""
    chosen = tuple(sorted(subset))
    facts = [any(row[column].covered for column in chosen) for row in document.cells]
    tagged = [tag in chosen for tag in document.tags]
    return CombinationPoint(
        document=document.id,
        contexts=chosen,
        golden=sum(column < document.golden for column in chosen),
        label=sum(facts) / len(facts),
        by_tags=sum(tagged) / len(tagged),
    )
