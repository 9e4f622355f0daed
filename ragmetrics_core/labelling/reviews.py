"""Reviews of a set's labels: asked blind and in random order, kept beside the set, one line per decision."""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from ragmetrics_core.data import (
    CutOffLine,
    Frozen,
    InputError,
    SettingError,
    check_stays,
    clean,
    own_lines,
    told,
)
from ragmetrics_core.labelling import sets
from ragmetrics_core.reporting.jsonl import validated
from ragmetrics_core.statistics.rater_agreement import kappa

_MAGIC = "ragmetrics_reviews"
Verdict = Literal["positive", "negative", "ambiguous"]
_KEYS: dict[str, Verdict] = {"p": "positive", "n": "negative", "a": "ambiguous"}
# a document must not steer the terminal
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HELP = "p positive, n negative, a ambiguous (left out), q stop; then Enter"


class Review(Frozen):
    """One decision of one person."""

    item: str = Field(
        description="id of the point, or `document#fact#context` for a cell"
    )
    was: sets.Label = Field(
        description="the label by rank, for a cell the label of the model"
    )
    label: Verdict = Field(
        description="the label after review; ambiguous ones are left out of scores"
    )
    reviewer: str = Field(description="who decided")
    reason: str = Field(
        default="", repr=False, description="why, in the reviewer's words"
    )
    date: str = Field("", description="when, ISO 8601 in UTC")
    second: bool = Field(
        False,
        description="true for the second reviewer, whose labels only measure agreement",
    )


class Reviews:
    """The reviews of a set, in a file beside it; ``InputError`` if that belongs to another set, or is broken.

    Attributes:
        path: The reviews' file, ``SET.reviews.jsonl``.
        first: The first reviewer's last decision per item.
        second: The second reviewer's.
    """

    def __init__(self, path: str | Path, given: sets.AnySet) -> None:
        self.path = Path(path).with_suffix(".reviews.jsonl")
        check_stays(self.path, f"the file of reviews {self.path}")
        self.first, self.second = dict[str, Review](), dict[str, Review]()
        self._set = sets.digest_of([sets.to_jsonl(given)])
        lines = (
            own_lines(self.path, "the file of reviews") if self.path.exists() else ()
        )
        for number, (place, row) in enumerate(lines):
            if isinstance(row, CutOffLine):
                break  # it is asked again
            if number:
                self._keep(validated(Review, row, place))
            elif (
                not isinstance(row, dict)
                or _MAGIC not in row
                or row.get("set") != self._set
            ):
                raise InputError(
                    f"{self.path} holds reviews of another version of the set; move it"
                    " away, or restore the set"
                )

    def _keep(self, review: Review) -> None:
        (self.second if review.second else self.first)[review.item] = review

    def add(self, review: Review) -> None:
        """Keep a decision; it is on disk when this returns.

        A later one on the same item replaces it.
        """
        with (
            told(f"the review cannot be written to {self.path}"),
            self.path.open("a", encoding="utf-8") as file,
        ):
            written = self.path.read_bytes()
            file.truncate(written.rfind(b"\n") + 1)  # without a line that was cut off
            if b"\n" not in written:
                file.write(json.dumps({_MAGIC: 1, "set": self._set}) + "\n")
            file.write(
                str(clean(json.dumps(review.model_dump(), ensure_ascii=False))) + "\n"
            )
            file.flush()
            os.fsync(file.fileno())
        self._keep(review)


class Item(Frozen):
    """One thing to review, without anything that tells its label."""

    id: str = Field(description="what a review names it by")
    was: sets.Label = Field(description="its label so far; never shown")
    question: str = Field(repr=False, description="the question")
    claim: str = Field(repr=False, description="the golden answer, or one fact")
    texts: tuple[str, ...] = Field(
        repr=False, description="the documents, or one context"
    )


def review_items(given: sets.AnySet) -> list[Item]:
    """Everything of a set that a person can decide, in the order of the set."""
    if isinstance(given, sets.ContinuousSet):
        return [
            Item(
                id=f"{it.id}#{row}#{column}",
                was="positive" if cell.covered else "negative",
                question=it.question,
                claim=fact.text,
                texts=(context.text,),
            )
            for it in given.documents
            for row, (fact, cells) in enumerate(zip(it.facts, it.cells, strict=True))
            for column, (context, cell) in enumerate(
                zip(it.contexts, cells, strict=True)
            )
        ]
    # Equal points, e.g. where fewer documents differ than are retrieved, are decided
    # once.
    return [
        Item(
            id=one.id,
            was=one.by_rank,
            question=one.sample.question or "",
            claim=one.sample.answer or "",
            texts=tuple(sorted(context.text for context in one.sample.contexts)),
        )
        for one in {point.id: point for point in given.points}.values()
    ]


def labels_of(given: sets.AnySet, reviews: Reviews | None) -> list[float | None]:
    """The label of each point from 0 to 1, with what people decided.

    None where it is ambiguous, and so left out.

    Combinations are labelled anew from the reviewed cells. One is ambiguous where an
    ambiguous cell decides it: the fact is covered by none of the other contexts.
    """
    found = reviews.first if reviews is not None else {}
    marks = {
        it.id: found[it.id].label if it.id in found else it.was
        for it in review_items(given)
    }
    if isinstance(given, sets.DiscreteSet):
        return [_share([{marks[point.id]}]) for point in given.points]
    if not found:
        return [point.label for point in given.points]
    facts = {document.id: range(len(document.facts)) for document in given.documents}
    return [
        _share(
            [
                {marks[f"{it.document}#{row}#{column}"] for column in it.contexts}
                for row in facts[it.document]
            ]
        )
        for it in given.points
    ]


def _share(verdicts: Sequence[set[Verdict]]) -> float | None:
    """The share of the facts that one of the contexts covers.

    None if that is ambiguous for any.
    """
    if any("ambiguous" in own and "positive" not in own for own in verdicts):
        return None
    return sum("positive" in own for own in verdicts) / len(verdicts)


def items_to_review(
    given: sets.AnySet, reviews: Reviews, *, second: bool, share: float
) -> list[Item]:
    """The items that one reviewer decides about, in an order that tells nothing.

    The second reviewer gets a share, in (0, 1], of what the first one decided;
    ``SettingError`` if that is nothing.
    """
    if not 0 < share <= 1:
        raise SettingError(
            f"the share for the second reviewer lies above 0 and at most 1, got {share}"
        )
    items = review_items(given)
    if second:
        items = [item for item in items if item.id in reviews.first]
        if not items:
            raise SettingError(
                "a second reviewer looks at what the first one decided, and there is"
                " nothing yet"
            )
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
    """Ask a person about every item that has no decision yet.

    Each decision is kept at once.

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
    decided, wanted = (
        reviews.second if second else reviews.first,
        {item.id for item in items},
    )
    show(_HELP)
    with suppress(EOFError):
        for item in (item for item in items if item.id not in decided):
            show(_shown(item, len(decided.keys() & wanted), len(items)))
            while (key := ask("p/n/a/q> ").strip().casefold()[:1]) not in {*_KEYS, "q"}:
                show(_HELP)
            if key == "q":
                break
            why = ask("why (Enter for no reason)> ").strip()
            date = datetime.now(UTC).isoformat(timespec="seconds")
            own = {
                "label": _KEYS[key],
                "reviewer": reviewer,
                "reason": why,
                "date": date,
                "second": second,
            }
            reviews.add(Review(item=item.id, was=item.was, **own))
    return wanted <= decided.keys()


def _shown(item: Item, done: int, total: int) -> str:
    texts = "\n\n".join(
        f"--- text {number}\n{text}" for number, text in enumerate(item.texts, start=1)
    )
    shown = (
        f"\n=== {done} of {total} decided\n\n{texts}\n\n---"
        f" question\n{item.question}\n\n--- expected\n{item.claim}\n\nDo the texts hold"
        " what is expected?"
    )
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", shown)


def review_summary(given: sets.AnySet, reviews: Reviews) -> list[str]:
    """What the reviews came to, in sentences."""
    count = len(review_items(given))
    labels = Counter(review.label for review in reviews.first.values())
    changed = sum(review.label != review.was for review in reviews.first.values())
    unit, source = (
        ("points", "rank")
        if isinstance(given, sets.DiscreteSet)
        else ("cells", "the model")
    )
    lines = [
        f"{labels.total()} of {count} {unit} reviewed: {labels['positive']} positive, "
        f"{labels['negative']} negative, {labels['ambiguous']} ambiguous (left out); "
        f"{changed} differ from the label by {source}."
    ]
    first = {item: review.label for item, review in reviews.first.items()}
    if both := [
        (first[item], review.label)
        for item, review in reviews.second.items()
        if item in first
    ]:
        # ambiguous is a category, too
        value, same = kappa(both), sum(one == other for one, other in both)
        shown = (
            "undefined, both chose one label throughout"
            if value is None
            else f"{value:.3f}"
        )
        lines.append(
            f"Second reviewer: {len(both)} {unit}, the same label on {same}; kappa"
            f" {shown}."
        )
    return lines
