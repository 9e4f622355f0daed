"""Annotated sets: how a set was made, its points and their labels, as data and as JSONL.

A file is a header, then one line per document and point. It holds no dates and no paths
beyond those that were given, so that the same seed and replies give the same bytes.
"""

import json
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ragmetrics_core.data import (
    Cell,
    Context,
    Fact,
    Frozen,
    InputError,
    Sample,
    Share,
    Text,
    read_own_lines,
    write_text,
)
from ragmetrics_core.reporting.jsonl import validate_data

FORMAT = 1
_MAGIC = "ragmetrics_dataset"
Label = Literal["positive", "negative"]


class Header(Frozen):
    """How a set was made.

    Attributes:
        kind: Which of the two sets.
        source: The files, as they were named.
        corpus: Digest of the documents.
        seed: Seed of every choice.
        parameters: Settings that change the set.
        model: Model that wrote questions and labelled; "" if none was asked.
        prompts: Digest of the prompts; "" if no model was asked.
        left_out: How many were left out, per reason.
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

    Attributes:
        document: What intervals resample: the question's document, else the question.
        sample: Answer and reference are the golden answer; its id tells nothing of the
            label.
        ranks: The documents' ranks, from 1.
        by_rank: The label that the ranks suggest.
    """

    document: str
    sample: Sample
    ranks: tuple[int, ...]
    by_rank: Label

    @property
    def id(self) -> str:
        """The id of the sample."""
        return self.sample.id or ""


class LabelledDocument(Frozen):
    """A question with golden contexts of one document, and noise contexts of others.

    It has the matrix that says which fact stands in which context.

    Attributes:
        id: The document.
        question: The question that a model wrote.
        sentences: The golden response, sentence by sentence.
        tags: For each sentence, the index of the golden context it was taken from.
        contexts: Golden contexts in the order of the document, then the noise.
        golden: How many of them are golden.
        facts: Facts of the golden response.
        cells: One row per fact, one column per context.
        calls: Questions asked for the labels: facts × contexts + 1.
    """

    id: str
    question: Text = Field(repr=False)
    sentences: tuple[Text, ...] = Field(repr=False)
    tags: tuple[int, ...]
    contexts: tuple[Context, ...]
    golden: int
    facts: tuple[Fact, ...] = ()
    cells: tuple[tuple[Cell, ...], ...] = ()
    calls: int = 0

    def sample(self, subset: Iterable[int] | None = None) -> Sample:
        """Return the document as a sample, with all contexts or some, by index."""
        contexts = self.contexts
        if subset is not None:
            contexts = tuple(self.contexts[index] for index in subset)
        response = " ".join(self.sentences)
        return Sample(
            id=self.id,
            question=self.question,
            contexts=contexts,
            answer=response,
            reference=response,
        )


class CombinationPoint(Frozen):
    """Some of a document's contexts, and how much of the golden response they cover.

    Attributes:
        document: The document.
        contexts: Indices of its contexts.
        golden: How many of them are golden.
        label: Mean over the facts of the logical OR over the contexts.
    """

    document: str
    contexts: tuple[int, ...]
    golden: int
    label: Share


class DiscreteSet(Frozen):
    """A discrete annotated set: each point has the label "positive" or "negative"."""

    header: Header
    points: tuple[DiscretePoint, ...]


class ContinuousSet(Frozen):
    """A continuous set: the label of each point is a share from 0 to 1."""

    header: Header
    documents: tuple[LabelledDocument, ...]
    points: tuple[CombinationPoint, ...]

    def skew(self) -> dict[int, int]:
        """Number of points by number of golden contexts in them."""
        n_points = Counter(point.golden for point in self.points)
        return dict(sorted(n_points.items()))


AnySet = DiscreteSet | ContinuousSet


def digest_of(parts: Iterable[str]) -> str:
    """Return a short digest of texts, in order."""
    joined = "\0".join(parts)
    return sha256(joined.encode(errors="replace")).hexdigest()[:16]


def to_jsonl(labelled_set: AnySet) -> str:
    """Return a set as the text of its file."""
    header = labelled_set.header.model_dump(mode="json")
    rows: list[dict[str, Any]] = [{_MAGIC: FORMAT, **header}]
    if isinstance(labelled_set, ContinuousSet):
        rows += [_line("document", document) for document in labelled_set.documents]
    rows += [_line("point", point) for point in labelled_set.points]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _line(kind: str, value: Frozen) -> dict[str, Any]:
    return {kind: value.model_dump(mode="json", exclude_defaults=True)}


def write_set(path: str | Path, labelled_set: AnySet) -> None:
    """Write a set; ``InputError`` if the file cannot be written."""
    write_text(path, to_jsonl(labelled_set), "the set")


def read_set(path: str | Path) -> AnySet:
    """Read a set from a file, which ``write_set`` wrote.

    The first line is the header. Each further line holds documents, points or both. A
    point is labelled. In a discrete set (labels "positive" and "negative") a point holds
    its own texts, and there are no documents. In a continuous set (labels from 0 to 1)
    a point names contexts of a document: ``{"point": {"contexts": [0, 2], …}}``.

    Raises:
        InputError: If the file cannot be read, holds no set, or a line is broken.
    """
    lines = read_own_lines(path, "the set")
    place, header_row = next(lines, (f"{path}, line 1", None))
    if not isinstance(header_row, dict) or header_row.pop(_MAGIC, None) != FORMAT:
        raise InputError(
            f"{place}: this is no set of ragmetrics; make one with: ragmetrics dataset"
            " discrete"
        )
    header = validate_data(Header, header_row, place)
    is_discrete = header.kind == "discrete"
    class_by_key: dict[str, type[Frozen]] = {
        "document": LabelledDocument,
        "point": DiscretePoint if is_discrete else CombinationPoint,
    }
    values_by_key: dict[str, list[Any]] = {"document": [], "point": []}
    for place, row in lines:
        if not (isinstance(row, dict) and row and row.keys() <= class_by_key.keys()):
            raise InputError(
                f"{place}: this is no line of a set; the file was changed or cut off"
            )
        for key, fields in row.items():
            value = validate_data(class_by_key[key], fields, place)
            values_by_key[key].append(value)
    points = tuple(values_by_key["point"])
    if is_discrete:
        return DiscreteSet(header=header, points=points)
    documents = tuple(values_by_key["document"])
    n_contexts = {document.id: len(document.contexts) for document in documents}
    for point in points:
        highest_index = max(point.contexts, default=0)
        if highest_index >= n_contexts.get(point.document, 0):
            raise InputError(
                f"{path}: a point names a document or context that is not there; the"
                " file was changed"
            )
    return ContinuousSet(header=header, documents=documents, points=points)
