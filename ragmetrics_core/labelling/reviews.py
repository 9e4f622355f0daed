"""Reviews of a set's labels: asked blind and in random order, kept beside the set, one line per decision."""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ragmetrics_core.data import (
    CutOffLine,
    Frozen,
    InputError,
    SettingError,
    as_input_error,
    check_leads_nowhere_else,
    read_own_lines,
    replace_surrogates,
)
from ragmetrics_core.labelling import sets
from ragmetrics_core.reporting.jsonl import validate_data
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
    date: str = Field(default="", description="when, ISO 8601 in UTC")
    second: bool = Field(
        default=False,
        description="true for the second reviewer, whose labels only measure agreement",
    )


class Reviews:
    """The reviews of a set, in a file beside it; ``InputError`` if that belongs to another set, or is broken.

    Attributes:
        path: The reviews' file, ``SET.reviews.jsonl``.
        first: The first reviewer's last decision per item.
        second: The second reviewer's.
    """

    def __init__(self, path: str | Path, labelled_set: sets.AnySet) -> None:
        self.path = Path(path).with_suffix(".reviews.jsonl")
        check_leads_nowhere_else(self.path, f"the file of reviews {self.path}")
        self.first: dict[str, Review] = {}
        self.second: dict[str, Review] = {}
        self._digest_of_set = sets.digest_of([sets.to_jsonl(labelled_set)])
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        lines = read_own_lines(self.path, "the file of reviews")
        for index, (place, row) in enumerate(lines):
            if isinstance(row, CutOffLine):
                break  # the decision on it is asked for again
            if index == 0:
                self._check_header(row)
            else:
                self._remember(validate_data(Review, row, place))

    def _check_header(self, row: Any) -> None:
        is_header = isinstance(row, dict) and _MAGIC in row
        if not is_header or row.get("set") != self._digest_of_set:
            raise InputError(
                f"{self.path} holds reviews of another version of the set; move it"
                " away, or restore the set"
            )

    def _remember(self, review: Review) -> None:
        of_reviewer = self.second if review.second else self.first
        of_reviewer[review.item] = review

    def add(self, review: Review) -> None:
        """Add a decision; it is on disk when this returns.

        It replaces an earlier decision of the same reviewer on the same item.
        """
        header = json.dumps({_MAGIC: 1, "set": self._digest_of_set})
        line = replace_surrogates(json.dumps(review.model_dump(), ensure_ascii=False))
        with (
            as_input_error(f"the review cannot be written to {self.path}"),
            self.path.open("a", encoding="utf-8") as file,
        ):
            written = self.path.read_bytes()
            n_whole_lines = written.count(b"\n")
            # A line that a crash cut off has no end: it goes.
            file.truncate(written.rfind(b"\n") + 1)
            if n_whole_lines == 0:
                file.write(f"{header}\n")
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        self._remember(review)


class Item(Frozen):
    """One thing to review, without anything that tells its label."""

    id: str = Field(description="what a review names it by")
    was: sets.Label = Field(description="its label so far; never shown")
    question: str = Field(repr=False, description="the question")
    claim: str = Field(repr=False, description="the golden answer, or one fact")
    texts: tuple[str, ...] = Field(
        repr=False, description="the documents, or one context"
    )


def review_items(labelled_set: sets.AnySet) -> list[Item]:
    """Everything of a set that a person can decide, in the order of the set.

    Of a continuous set these are the cells of its matrices: is the fact covered by the
    context? Of a discrete one they are its points; equal points, e.g. where fewer
    documents differ than are retrieved, are decided once.
    """
    if isinstance(labelled_set, sets.DiscreteSet):
        point_by_id = {point.id: point for point in labelled_set.points}
        return [_item_of(point) for point in point_by_id.values()]
    items: list[Item] = []
    for document in labelled_set.documents:
        for fact_number, fact in enumerate(document.facts):
            for context_number, context in enumerate(document.contexts):
                cell = document.cells[fact_number][context_number]
                item = Item(
                    id=f"{document.id}#{fact_number}#{context_number}",
                    was="positive" if cell.covered else "negative",
                    question=document.question,
                    claim=fact.text,
                    texts=(context.text,),
                )
                items.append(item)
    return items


def _item_of(point: sets.DiscretePoint) -> Item:
    # Sorted, because the order of the contexts would tell their ranks.
    texts = sorted(context.text for context in point.sample.contexts)
    return Item(
        id=point.id,
        was=point.by_rank,
        question=point.sample.question or "",
        claim=point.sample.answer or "",
        texts=tuple(texts),
    )


def labels_of(labelled_set: sets.AnySet, reviews: Reviews | None) -> list[float | None]:
    """The label of each point from 0 to 1, with what people decided.

    A combination of a continuous set is labelled anew from the reviewed cells: its
    label is the share of the facts that one of its contexts covers.

    None where the label is ambiguous, so that the point is left out. A combination is
    ambiguous where an ambiguous cell decides it: none of its other contexts covers the
    fact.
    """
    decisions = reviews.first if reviews is not None else {}
    if isinstance(labelled_set, sets.ContinuousSet) and not decisions:
        return [point.label for point in labelled_set.points]
    verdicts: dict[str, Verdict] = {}
    for item in review_items(labelled_set):
        decision = decisions.get(item.id)
        verdicts[item.id] = item.was if decision is None else decision.label
    if isinstance(labelled_set, sets.DiscreteSet):
        return [_share([{verdicts[point.id]}]) for point in labelled_set.points]
    n_facts = {document.id: len(document.facts) for document in labelled_set.documents}
    labels = []
    for point in labelled_set.points:
        by_fact = _verdicts_by_fact(point, n_facts[point.document], verdicts)
        labels.append(_share(by_fact))
    return labels


def _verdicts_by_fact(
    point: sets.CombinationPoint, n_facts: int, verdicts: Mapping[str, Verdict]
) -> list[set[Verdict]]:
    """For each fact, what its cells say in the contexts of a combination."""
    by_fact = []
    for fact_number in range(n_facts):
        row = f"{point.document}#{fact_number}"
        cells = [f"{row}#{context_number}" for context_number in point.contexts]
        by_fact.append({verdicts[cell] for cell in cells})
    return by_fact


def _share(verdicts_by_fact: Sequence[set[Verdict]]) -> float | None:
    """The share of the facts that a context covers; None if that is open for any fact."""
    n_covered = 0
    for verdicts in verdicts_by_fact:
        if "positive" in verdicts:
            n_covered += 1
        elif "ambiguous" in verdicts:
            return None
    return n_covered / len(verdicts_by_fact)


def items_to_review(
    labelled_set: sets.AnySet, reviews: Reviews, *, second: bool, share: float
) -> list[Item]:
    """The items that one reviewer decides about, in an order that tells nothing.

    Args:
        labelled_set: The set.
        reviews: What was decided so far.
        second: Whether it is the second reviewer, whose labels only measure agreement.
        share: How much of what the first reviewer decided the second one gets, above 0
            and at most 1.

    Raises:
        SettingError: If the share lies elsewhere, or the first reviewer has decided
            nothing yet.
    """
    if not 0 < share <= 1:
        raise SettingError(
            f"the share for the second reviewer lies above 0 and at most 1, got {share}"
        )
    items = review_items(labelled_set)
    if second:
        items = [item for item in items if item.id in reviews.first]
        if not items:
            raise SettingError(
                "a second reviewer looks at what the first one decided, and there is"
                " nothing yet"
            )
    header = labelled_set.header
    draw = random.Random(f"{header.seed}|{header.corpus}|{second}")  # noqa: S311 - an order, no secret
    draw.shuffle(items)
    if not second:
        return items
    count = max(1, round(share * len(items)))
    return items[:count]


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
    decided = reviews.second if second else reviews.first
    show(_HELP)
    with suppress(EOFError):
        for item in items:
            if item.id in decided:
                continue
            n_decided = sum(other.id in decided for other in items)
            show(_page_of(item, n_decided, len(items)))
            verdict = _ask_verdict(ask, show)
            if verdict is None:
                break
            reason = ask("why (Enter for no reason)> ").strip()
            decision = Review(
                item=item.id,
                was=item.was,
                label=verdict,
                reviewer=reviewer,
                reason=reason,
                date=datetime.now(UTC).isoformat(timespec="seconds"),
                second=second,
            )
            reviews.add(decision)
    return all(item.id in decided for item in items)


def _ask_verdict(
    ask: Callable[[str], str], show: Callable[[str], None]
) -> Verdict | None:
    """Ask until a key is typed that means something; None means to stop."""
    while True:
        typed = ask("p/n/a/q> ").strip().casefold()
        key = typed[:1]
        if key in _KEYS:
            return _KEYS[key]
        if key == "q":
            return None
        show(_HELP)


def _page_of(item: Item, n_decided: int, total: int) -> str:
    """An item as a person sees it."""
    texts = []
    for number, text in enumerate(item.texts, start=1):
        texts.append(f"--- text {number}\n{text}")
    parts = [
        f"\n=== {n_decided} of {total} decided",
        *texts,
        f"--- question\n{item.question}",
        f"--- expected\n{item.claim}",
        "Do the texts hold what is expected?",
    ]
    page = "\n\n".join(parts)
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", page)


def review_summary(labelled_set: sets.AnySet, reviews: Reviews) -> list[str]:
    """What the reviews came to, in sentences."""
    if isinstance(labelled_set, sets.DiscreteSet):
        unit = "points"
        labeller = "rank"
    else:
        unit = "cells"
        labeller = "the model"
    n_items = len(review_items(labelled_set))
    first_reviews = reviews.first.values()
    counts = Counter(review.label for review in first_reviews)
    n_changed = sum(review.label != review.was for review in first_reviews)
    lines = [
        f"{counts.total()} of {n_items} {unit} reviewed: {counts['positive']} positive,"
        f" {counts['negative']} negative, {counts['ambiguous']} ambiguous (left out);"
        f" {n_changed} differ from the label by {labeller}."
    ]
    pairs = []
    for name, second_review in reviews.second.items():
        if name in reviews.first:
            pairs.append((reviews.first[name].label, second_review.label))
    if pairs:
        lines.append(_agreement(pairs, unit))
    return lines


def _agreement(pairs: Sequence[tuple[Verdict, Verdict]], unit: str) -> str:
    """How well two reviewers agree; "ambiguous" is a label like the others."""
    n_same = sum(of_first == of_second for of_first, of_second in pairs)
    value = kappa(pairs)
    if value is None:
        kappa_text = "undefined, both chose one label throughout"
    else:
        kappa_text = f"{value:.3f}"
    return (
        f"Second reviewer: {len(pairs)} {unit}, the same label on {n_same}; kappa"
        f" {kappa_text}."
    )
