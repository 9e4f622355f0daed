"""Reviews of a set's labels: asked blind and in random order, kept beside the set, one line per decision."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from ragmetrics_core.data.errors import InputError, SettingError
from ragmetrics_core.data.frozen import Frozen
from ragmetrics_core.datasets.sets import (
    AnySet,
    CombinationPoint,
    ContinuousSet,
    DiscretePoint,
    DiscreteSet,
    Label,
    LabelledDocument,
    digest_of,
    json_object,
    to_jsonl,
)
from ragmetrics_core.statistics.agreement import kappa

_MAGIC = "ragmetrics_reviews"
Verdict = Literal["positive", "negative", "ambiguous"]
_KEYS: dict[str, Verdict] = {"p": "positive", "n": "negative", "a": "ambiguous"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a document must not steer the terminal
_HELP = "p positive, n negative, a ambiguous (left out), s skip for now, b back to the one before, q stop; then Enter"


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
        self._set = digest_of([to_jsonl(given)])
        self._load()

    def _load(self) -> None:
        if not self.path.exists():
            return
        lines = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            row = json_object(line)
            if number == 1:
                if len(lines) == 1:
                    return  # cut off before the first decision
                if row.get("set") != self._set or _MAGIC not in row:
                    raise InputError(
                        f"{self.path} holds reviews of another version of the set; move it away, or restore the set"
                    )
            elif row or number < len(lines):  # a last line that was cut off is asked again
                try:
                    self._keep(Review.model_validate(row))
                except ValidationError:
                    raise InputError(f"{self.path}, line {number}: this is no review; the file was changed") from None

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
        return [_item(point) for point in {point.id: point for point in given.points}.values()]
    return [item for document in given.documents for item in _cells(document)]


def _item(point: DiscretePoint) -> Item:
    texts = tuple(sorted(context.text for context in point.contexts))
    return Item(id=point.id, was=point.by_rank, question=point.question, claim=point.answer, texts=texts)


def _cells(document: LabelledDocument) -> Iterable[Item]:
    for row, (fact, cells) in enumerate(zip(document.facts, document.cells, strict=True)):
        for column, (context, cell) in enumerate(zip(document.contexts, cells, strict=True)):
            was: Label = "positive" if cell.covered else "negative"
            name, texts = f"{document.id}#{row}#{column}", (context.text,)
            yield Item(id=name, was=was, question=document.question, claim=fact.text, texts=texts)


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


def items_to_review(given: AnySet, reviews: Reviews, *, second: bool, share: float) -> list[Item]:
    """The items that one reviewer decides about, in an order that tells nothing.

    The second reviewer gets a share, in (0, 1], of what the first one decided; ``SettingError`` if that is nothing.
    """
    if not 0 < share <= 1:
        raise SettingError(f"the share for the second reviewer lies above 0 and at most 1, got {share}")
    items = review_items(given)
    if second:
        items = [item for item in items if item.id in reviews.first]
        if not items:
            raise SettingError("a second reviewer looks at what the first one decided, and there is nothing yet")
    draw = random.Random(f"{given.header.seed}|{given.header.corpus}|{second}")  # noqa: S311 - an order, no secret
    draw.shuffle(items)
    return items[: max(1, round(share * len(items)))] if second else items


def review(
    items: Sequence[Item],
    reviews: Reviews,
    *,
    reviewer: str,
    second: bool,
    ask: Callable[[str], str],
    show: Callable[[str], None],
) -> bool:
    """Ask a person about every item that has no decision yet; each decision is kept at once.

    Args:
        items: In the order in which they are asked.
        reviews: Where decisions are kept.
        reviewer: Who decides.
        second: Whether it is the second reviewer.
        ask: Shows a prompt and returns what was typed; ``EOFError`` stops the review.
        show: Shows a text.

    Returns:
        True if nothing is left to decide.
    """
    decided, skipped = reviews.second if second else reviews.first, set[str]()
    show(_HELP)
    at, back = 0, False
    while at < len(items):
        item = items[at]
        if not back and (item.id in decided or item.id in skipped):
            at += 1
            continue
        show(_shown(item, len(decided.keys() & {it.id for it in items}), len(items)))
        try:
            key = _key(ask, show)
            if label := _KEYS.get(key):
                why, date = ask("why (Enter for no reason)> ").strip(), datetime.now(UTC).isoformat(timespec="seconds")
                made = Review(item=item.id, was=item.was, label=label, reviewer=reviewer, reason=why, date=date)
                reviews.add(made.model_copy(update={"second": second}))
        except EOFError:
            break
        if key == "q":
            break
        if key == "s":
            skipped.add(item.id)
        back = key == "b"
        at = max(at - 1, 0) if back else at + 1
    return all(item.id in decided for item in items)


def _key(ask: Callable[[str], str], show: Callable[[str], None]) -> str:
    while True:
        key = ask("p/n/a/s/b/q> ").strip().casefold()[:1]
        if key in _KEYS or key in ("s", "b", "q"):
            return key
        show(_HELP)


def _shown(item: Item, done: int, total: int) -> str:
    texts = "\n\n".join(f"--- text {number}\n{text}" for number, text in enumerate(item.texts, start=1))
    shown = (
        f"\n=== {done} of {total} decided\n\n{texts}\n\n--- question\n{item.question}\n\n--- expected\n{item.claim}\n\n"
        "Do the texts hold what is expected?"
    )
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", shown)


def review_summary(given: AnySet, reviews: Reviews) -> list[str]:
    """What the reviews came to, in sentences."""
    items = {item.id: item for item in review_items(given)}
    labels = Counter(review.label for item, review in reviews.first.items() if item in items)
    changed = sum(review.label != review.was for review in reviews.first.values())
    unit, source = ("points", "rank") if isinstance(given, DiscreteSet) else ("cells", "the model")
    lines = [
        f"{sum(labels.values())} of {len(items)} {unit} reviewed: {labels['positive']} positive, "
        f"{labels['negative']} negative, {labels['ambiguous']} ambiguous (left out); "
        f"{changed} differ from the label by {source}."
    ]
    value, count = reviews.agreement
    if count:
        shown = "undefined, both chose one label throughout" if value is None else f"{value:.3f}"
        same = sum(
            item in reviews.first and reviews.first[item].label == it.label for item, it in reviews.second.items()
        )
        lines.append(f"Second reviewer: {count} {unit}, the same label on {same}; kappa {shown}.")
    return lines
