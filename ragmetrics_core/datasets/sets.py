"""Annotated sets as data, and as JSONL: a header with how the set was made, then one line per item.

A set holds no dates and no paths beyond those that were given, so that the same seed and replies give the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from ragmetrics_core.datasets.chunking import Document
from ragmetrics_core.model.errors import InputError
from ragmetrics_core.model.evidence import Cell, Share
from ragmetrics_core.model.frozen import Frozen, Text
from ragmetrics_core.model.sample import Context, Fact, Sample

FORMAT = 1
_MAGIC = "ragmetrics_dataset"
Label = Literal["positive", "negative"]
M = TypeVar("M", bound=Frozen)


class Header(Frozen):
    """How a set was made.

    Args:
        kind: Which of the two sets.
        source: The files, as they were named.
        corpus: Digest of the documents.
        seed: Seed of every choice.
        parameters: Settings that change the set.
        model: Model that wrote questions and labelled; "" if none was asked.
        prompts: Digest of the prompts; "" if no model was asked.
        left_out: Per reason, how many documents or questions were left out.
    """

    kind: Literal["discrete", "continuous"]
    source: tuple[str, ...] = ()
    corpus: str = ""
    seed: int = 0
    parameters: dict[str, Any] = Field(default_factory=dict)
    model: str = ""
    prompts: str = ""
    left_out: dict[str, int] = Field(default_factory=dict)


class DiscretePoint(Frozen):
    """A golden answer with retrieved documents, labelled by their ranks.

    Args:
        id: Digest of the point, which tells nothing about its label.
        document: What intervals resample: the document that the question is about, else the question.
        question: The question.
        answer: The golden answer.
        contexts: The documents, with the retriever's scores.
        ranks: Their ranks, from 1.
        by_rank: The label that the ranks suggest.
    """

    id: str
    document: str
    question: Text
    answer: Text
    contexts: tuple[Context, ...]
    ranks: tuple[int, ...]
    by_rank: Label

    @property
    def sample(self) -> Sample:
        """The point as a sample: the golden answer is both answer and reference."""
        return Sample(
            id=self.id, question=self.question, contexts=self.contexts, answer=self.answer, reference=self.answer
        )


class Sentence(Frozen):
    """A sentence of a golden response.

    Args:
        text: The sentence.
        context: Index of the golden context that it was taken from.
    """

    text: Text
    context: int


class LabelledDocument(Frozen):
    """A question with golden contexts of one document, noise of others, and the matrix of facts × contexts.

    Args:
        id: The document.
        question: The question that a model wrote.
        sentences: The golden response, each sentence with its chunk.
        contexts: Golden contexts in the order of the document, then the noise.
        golden: How many of them are golden.
        facts: Facts of the golden response.
        cells: One row per fact, one column per context.
        calls: Questions asked for the labels: facts × contexts + 1.
    """

    id: str
    question: Text
    sentences: tuple[Sentence, ...]
    contexts: tuple[Context, ...]
    golden: int
    facts: tuple[Fact, ...]
    cells: tuple[tuple[Cell, ...], ...]
    calls: int

    @property
    def response(self) -> str:
        """The golden response."""
        return " ".join(sentence.text for sentence in self.sentences)

    def sample(self, subset: Iterable[int] | None = None, *, frozen: bool = False) -> Sample:
        """The document as a sample.

        Args:
            subset: Indices of the contexts to keep; None for all.
            frozen: With the set's facts, so that none are extracted.
        """
        kept = self.contexts if subset is None else tuple(self.contexts[index] for index in subset)
        return Sample(
            id=self.id,
            question=self.question,
            contexts=kept,
            answer=self.response,
            reference=self.response,
            facts=self.facts if frozen else None,
        )


class CombinationPoint(Frozen):
    """Some of a document's contexts, and how much of the golden response they cover.

    Args:
        document: The document.
        contexts: Indices of its contexts.
        golden: How many of them are golden.
        label: Mean over the facts of the logical OR over the contexts.
        by_tags: Share of the response's sentences whose chunk is among the contexts: a label without the matrix.
    """

    document: str
    contexts: tuple[int, ...]
    golden: int
    label: Share
    by_tags: Share


class DiscreteSet(Frozen):
    """A discrete annotated set."""

    header: Header
    points: tuple[DiscretePoint, ...]


class ContinuousSet(Frozen):
    """A continuous set."""

    header: Header
    documents: tuple[LabelledDocument, ...]
    points: tuple[CombinationPoint, ...]

    def skew(self) -> dict[int, int]:
        """Number of points by number of golden contexts in them."""
        return dict(sorted(Counter(point.golden for point in self.points).items()))


AnySet = DiscreteSet | ContinuousSet


def digest_of(parts: Iterable[str]) -> str:
    """A short digest of texts, in order."""
    return sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]


def corpus_digest(documents: Iterable[Document]) -> str:
    """Digest of documents, names and texts."""
    return digest_of(part for document in documents for part in (document.id, document.text))


def _lines(given: AnySet) -> Iterator[str]:
    header = given.header.model_dump(mode="json")
    yield json.dumps({_MAGIC: FORMAT, **header}, ensure_ascii=False, sort_keys=True)
    documents = given.documents if isinstance(given, ContinuousSet) else ()
    for name, items in (("document", documents), ("point", given.points)):
        for item in items:
            yield json.dumps({name: item.model_dump(mode="json", exclude_defaults=True)}, ensure_ascii=False)


def to_jsonl(given: AnySet) -> bytes:
    """A set as the bytes of its file."""
    return "".join(f"{line}\n" for line in _lines(given)).encode("utf-8")


def write_set(path: str | Path, given: AnySet) -> None:
    """Write a set.

    Raises:
        InputError: If the file cannot be written.
    """
    try:
        Path(path).write_bytes(to_jsonl(given))
    except OSError as error:
        raise InputError(f"the set cannot be written to {path}: {error.strerror}") from error


def read_set(path: str | Path) -> AnySet:
    """Read a set.

    Raises:
        InputError: If the file cannot be read, is no set, or a line is broken.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"the set {path} cannot be read: {error.strerror}") from error
    first = _object(lines[0])
    if first.pop(_MAGIC, None) != FORMAT:
        raise InputError(f"{path}, line 1: this is no set of ragmetrics; make one with: ragmetrics dataset discrete")
    header = _validated(Header, first, f"{path}, line 1")
    found: dict[str, list[Any]] = {"document": [], "point": []}
    kinds: dict[str, type[Frozen]] = {"document": LabelledDocument}
    kinds["point"] = DiscretePoint if header.kind == "discrete" else CombinationPoint
    for number, line in enumerate(lines[1:], start=2):
        row = _object(line) if line.strip() else {}
        for name, value in row.items() if row or not line.strip() else [("", None)]:
            if name not in found:
                raise InputError(f"{path}, line {number}: this is no line of a set; the file was changed or cut off")
            found[name].append(_validated(kinds[name], value, f"{path}, line {number}"))
    if header.kind == "discrete":
        return DiscreteSet(header=header, points=tuple(found["point"]))
    return ContinuousSet(header=header, documents=tuple(found["document"]), points=tuple(found["point"]))


def _object(line: bytes) -> dict[str, Any]:
    """A line's object; {} if it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _validated(kind: type[M], value: Any, place: str) -> M:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        wrong = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"{place}: the field {wrong!r} is missing or wrong; the file was changed") from None
