"""What people say about a set's labels: kept beside the set, one line per decision, so that no work is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.datasets.set_files import to_jsonl
from ragmetrics_core.datasets.sets import (
    AnySet,
    CombinationPoint,
    ContinuousSet,
    DiscretePoint,
    DiscreteSet,
    Label,
    LabelledDocument,
    digest_of,
)
from ragmetrics_core.statistics.agreement import kappa

_MAGIC = "ragmetrics_reviews"
Verdict = Literal["positive", "negative", "ambiguous"]


class Review(Frozen):
    """One decision of one person.

    Args:
        item: Id of the point, or ``document#fact#context`` for a cell.
        was: The label by rank, for a cell the label of the model.
        label: The label after review; ambiguous ones are left out of scores.
        reviewer: Who decided.
        reason: Why, in the reviewer's words.
        date: When, ISO 8601 in UTC.
        second: True for the second reviewer, whose labels only measure agreement.
    """

    item: str
    was: Label
    label: Verdict
    reviewer: str
    reason: str = Field(default="", repr=False)
    date: str = ""
    second: bool = False


class Reviews:
    """The reviews of a set, in a file beside it.

    Args:
        path: The set's file.
        given: The set.

    Attributes:
        path: The reviews' file, ``SET.reviews.jsonl``.
        first: The first reviewer's last decision per item.
        second: The second reviewer's.

    Raises:
        InputError: If the file belongs to another set, or is broken.
    """

    def __init__(self, path: str | Path, given: AnySet) -> None:
        self.path = Path(path).with_suffix(".reviews.jsonl")
        self.first: dict[str, Review] = {}
        self.second: dict[str, Review] = {}
        self._set = digest_of([to_jsonl(given).decode("utf-8")])
        self._load()

    def _load(self) -> None:
        if not self.path.exists():
            return
        lines = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            row = _object(line)
            if number == 1:
                if len(lines) == 1:
                    return  # cut off before the first decision
                if row.get("set") != self._set or _MAGIC not in row:
                    raise InputError(
                        f"{self.path} holds reviews of another version of the set; move it away, or restore the set"
                    )
            elif row or number < len(lines):  # a last line that was cut off is asked again
                self._keep(_review(row, f"{self.path}, line {number}"))

    def _keep(self, review: Review) -> None:
        (self.second if review.second else self.first)[review.item] = review

    def add(self, review: Review) -> None:
        """Keep a decision; it is on disk when this returns. A later one on the same item replaces it.

        Raises:
            InputError: If it cannot be written.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                written = self.path.read_bytes()
                file.truncate(written.rfind(b"\n") + 1)  # without a line that was cut off
                if b"\n" not in written:
                    file.write(json.dumps({_MAGIC: 1, "set": self._set}) + "\n")
                file.write(json.dumps(review.model_dump(), ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"the review cannot be written to {self.path}: {error.strerror}") from error
        self._keep(review)

    @property
    def agreement(self) -> tuple[float | None, int]:
        """Cohen's kappa of the two reviewers, and on how many items; ambiguous is a category of its own."""
        both = [(self.first[item].label, review.label) for item, review in self.second.items() if item in self.first]
        return kappa(both), len(both)


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _review(row: Mapping[str, Any], place: str) -> Review:
    try:
        return Review.model_validate(row)
    except ValidationError:
        raise InputError(f"{place}: this is no review; the file was changed") from None


class Item(Frozen):
    """One thing to review, without anything that tells its label.

    Args:
        id: What a review names it by.
        was: Its label so far; never shown.
        question: The question.
        claim: The golden answer, or one fact.
        texts: The documents, or one context.
    """

    id: str
    was: Label
    question: str = Field(repr=False)
    claim: str = Field(repr=False)
    texts: tuple[str, ...] = Field(repr=False)


def review_items(given: AnySet) -> list[Item]:
    """Everything of a set that a person can decide, in the order of the set."""
    if isinstance(given, DiscreteSet):
        # Equal points, e.g. where fewer documents differ than are retrieved, are decided once.
        points = {point.id: point for point in given.points}.values()
        return [
            Item(
                id=point.id,
                was=point.by_rank,
                question=point.question,
                claim=point.answer,
                texts=tuple(sorted(context.text for context in point.contexts)),
            )
            for point in points
        ]
    return [item for document in given.documents for item in _cells(document)]


def _cells(document: LabelledDocument) -> Iterable[Item]:
    for row, (fact, cells) in enumerate(zip(document.facts, document.cells, strict=True)):
        for column, (context, cell) in enumerate(zip(document.contexts, cells, strict=True)):
            yield Item(
                id=f"{document.id}#{row}#{column}",
                was="positive" if cell.covered else "negative",
                question=document.question,
                claim=fact.text,
                texts=(context.text,),
            )


def labelled_points(given: DiscreteSet, reviews: Reviews | None) -> list[tuple[DiscretePoint, bool]]:
    """Points with their labels: those of the review where there is one, else by rank; ambiguous ones are left out."""
    found = reviews.first if reviews is not None else {}
    labels = [found[point.id].label if point.id in found else point.by_rank for point in given.points]
    return [
        (point, label == "positive") for point, label in zip(given.points, labels, strict=True) if label != "ambiguous"
    ]


def labelled_combinations(given: ContinuousSet, reviews: Reviews | None) -> list[tuple[CombinationPoint, float]]:
    """Combinations with their labels, made anew from the reviewed cells.

    A combination is left out where an ambiguous cell decides it: the fact is covered by none of the other contexts.
    """
    if reviews is None or not reviews.first:
        return [(point, point.label) for point in given.points]
    marks = {document.id: _marks(document, reviews.first) for document in given.documents}
    labels = [(point, _label(marks[point.document], point.contexts)) for point in given.points]
    return [(point, label) for point, label in labels if label is not None]


def _marks(document: LabelledDocument, found: Mapping[str, Review]) -> list[list[Verdict]]:
    items = [found[item.id].label if item.id in found else item.was for item in _cells(document)]
    width = len(document.contexts)
    return [list(items[start : start + width]) for start in range(0, len(items), width)]


def _label(marks: Sequence[Sequence[Verdict]], chosen: Sequence[int]) -> float | None:
    covered = 0
    for row in marks:
        verdicts = {row[column] for column in chosen}
        if "positive" in verdicts:
            covered += 1
        elif "ambiguous" in verdicts:
            return None
    return covered / len(marks)
