"""Reviews of a set's labels: asked blind and in random order.

They are kept in a file beside the set, one line per decision.
"""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
    as_input_error,
    check_leads_nowhere_else,
    read_own_lines,
    replace_surrogates,
)
from ragmetrics_core.labelling import sets
from ragmetrics_core.reporting.jsonl import validate_data
from ragmetrics_core.statistics.rater_agreement import kappa

_MAGIC = "ragmetrics_reviews"
_VERSION_OF_FORM = 1
Verdict = Literal["positive", "negative", "ambiguous"]
_KEYS: dict[str, Verdict] = {"p": "positive", "n": "negative", "a": "ambiguous"}
# a document must not steer the terminal
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HELP = "p positive, n negative, a ambiguous (left out), q stop; then Enter"


class Review(Frozen):
    """One decision of one person.

    Attributes:
        item: Id of the point, or `document#fact#context` for a cell.
        was: The label by rank, for a cell the label of the model.
        label: The label after review; ambiguous ones are left out of scores.
        reviewer: Who decided.
        reason: Why, in the reviewer's words.
        date: When, ISO 8601 in UTC.
        second: True for the second reviewer, whose labels only measure agreement.
    """

    item: str
    was: sets.Label
    label: Verdict
    reviewer: str
    reason: str = Field(default="", repr=False)
    date: str = ""
    second: bool = False


class Reviews:
    """The reviews of a set, in a file beside it.

    Raises:
        InputError: If the file belongs to another set, or is broken.

    Attributes:
        path: The reviews' file: of ``set.jsonl`` it is ``set.reviews.jsonl``.
        first: The first reviewer's last decision per item.
        second: The second reviewer's.
    """

    def __init__(self, path: str | Path, labelled_set: sets.AnySet) -> None:
        self.path = Path(path).with_suffix(".reviews.jsonl")
        check_leads_nowhere_else(self.path, f"the file of reviews {self.path}")
        self.first: dict[str, Review] = {}
        self.second: dict[str, Review] = {}
        self._digest_of_set = sets.digest_of([sets.to_jsonl(labelled_set)])
        if not self.path.exists():
            return
        lines = read_own_lines(self.path, "the file of reviews")
        for index, (place, row) in enumerate(lines):
            if isinstance(row, CutOffLine):
                break  # the decision on it is asked for again
            if index == 0:  # the header
                is_header = isinstance(row, dict) and _MAGIC in row
                if not is_header or row.get("set") != self._digest_of_set:
                    raise InputError(
                        f"{self.path} holds reviews of another version of the set; move"
                        " it away, or restore the set"
                    )
            else:
                self._remember(validate_data(Review, row, place))

    def _remember(self, review: Review) -> None:
        of_reviewer = self.second if review.second else self.first
        of_reviewer[review.item] = review

    def add(self, review: Review) -> None:
        """Append a decision to the reviews' file; it is on disk when this returns.

        The decision takes the place of an earlier one of the same reviewer on the same
        item. A last line that a crash cut off ('{"item": "7", "la') is removed first. A
        new file gets its header first.

        Raises:
            InputError: If the file cannot be written.
        """
        header = json.dumps({_MAGIC: _VERSION_OF_FORM, "set": self._digest_of_set})
        line = replace_surrogates(json.dumps(review.model_dump(), ensure_ascii=False))
        with (
            as_input_error(f"the review cannot be written to {self.path}"),
            self.path.open("a", encoding="utf-8") as file,
        ):
            content = self.path.read_bytes()
            n_whole_lines = content.count(b"\n")
            end_of_whole_lines = content.rfind(b"\n") + 1
            file.truncate(end_of_whole_lines)
            if n_whole_lines == 0:
                file.write(f"{header}\n")
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        self._remember(review)


class Item(Frozen):
    """One thing to review, without anything that tells its label.

    Attributes:
        id: What a review names it by.
        was: Its label so far; never shown.
        question: The question.
        claim: The golden answer, or one fact.
        texts: The documents, or one context.
    """

    id: str
    was: sets.Label
    question: str = Field(repr=False)
    claim: str = Field(repr=False)
    texts: tuple[str, ...] = Field(repr=False)


def review_items(labelled_set: sets.AnySet) -> list[Item]:
    """List what people decide about in a set, in the order of the set.

    In a continuous set they decide whether a context covers a fact (a cell): 2 facts
    and 3 contexts are 6 items. In a discrete set they decide whether a point's contexts
    hold the golden answer. Points of one id are listed once.
    """
    if isinstance(labelled_set, sets.DiscreteSet):
        point_by_id = {point.id: point for point in labelled_set.points}
        return [
            Item(
                id=point.id,
                was=point.by_rank,
                question=point.sample.question or "",
                claim=point.sample.answer or "",
                # sorted, because the order of the contexts would tell their ranks
                texts=tuple(sorted(each.text for each in point.sample.known_contexts)),
            )
            for point in point_by_id.values()
        ]
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


def labels_of(labelled_set: sets.AnySet, reviews: Reviews | None) -> list[float | None]:
    """Return the label of each point after people's review, in the order of the set.

    The label of a point in a discrete set is 1.0 (positive), 0.0 (negative) or None
    (ambiguous). In a continuous set it is the share of facts that the point's contexts
    cover: .75 for 3 of 4; None if a fact is called ambiguous and no context covers it.
    """
    # the first reviewer decides; the second one only shows how far people agree
    decisions = reviews.first if reviews is not None else {}
    if isinstance(labelled_set, sets.ContinuousSet) and not decisions:
        return [point.label for point in labelled_set.points]
    verdict_by_item: dict[str, Verdict] = {
        item.id: item.was for item in review_items(labelled_set)
    }
    for item_id in verdict_by_item.keys() & decisions.keys():
        verdict_by_item[item_id] = decisions[item_id].label
    if isinstance(labelled_set, sets.DiscreteSet):
        return [_LABELS[verdict_by_item[point.id]] for point in labelled_set.points]
    n_facts_by_document = {
        document.id: len(document.facts) for document in labelled_set.documents
    }
    labels: list[float | None] = []
    for point in labelled_set.points:
        n_facts = n_facts_by_document[point.document]
        n_covered = 0
        has_ambiguous_fact = False
        for fact_index in range(n_facts):
            # on whether the point's contexts cover the fact
            verdicts = {
                verdict_by_item[f"{point.document}#{fact_index}#{context_index}"]
                for context_index in point.contexts
            }
            if "positive" in verdicts:
                n_covered += 1
            elif "ambiguous" in verdicts:
                has_ambiguous_fact = True
        labels.append(None if has_ambiguous_fact else n_covered / n_facts)
    return labels


_LABELS: Mapping[Verdict, float | None] = {
    "positive": 1.0,
    "negative": 0.0,
    "ambiguous": None,
}


def items_to_review(
    labelled_set: sets.AnySet, reviews: Reviews, *, second: bool
) -> list[Item]:
    """Return the items that one reviewer is asked about, in random order.

    The order is the same at every call, so that a review can be taken up again. The
    second reviewer is asked about what the first one decided, in an order of its own:
    whoever stops early has decided about a random part.

    Args:
        labelled_set: The set.
        reviews: What was decided so far.
        second: Whether the items are for the second reviewer.

    Raises:
        SettingError: If the second reviewer comes before the first one has decided
            anything.
    """
    items = review_items(labelled_set)
    if second:
        items = [item for item in items if item.id in reviews.first]
        if not items:
            raise SettingError(
                "a second reviewer looks at what the first one decided, and there is"
                " nothing yet"
            )
    header = labelled_set.header
    random_source = random.Random(f"{header.seed}|{header.corpus}|{second}")  # noqa: S311 - an order, no secret
    random_source.shuffle(items)
    return items


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

    Each decision is kept at once, so that the person may stop at any time. Example: of
    three items the first has a decision: the person is asked about the other two.

    Args:
        items: The items, in the order in which they are asked.
        reviews: Where decisions are kept.
        reviewer: Who decides.
        second: Whether it is the second reviewer.
        ask: Shows a prompt and returns what was typed; ``EOFError`` stops the review.
        show: Shows a text.

    Returns True if nothing is left to decide.
    """
    decision_by_item = reviews.second if second else reviews.first
    show(_HELP)
    with suppress(EOFError):
        for item in items:
            if item.id in decision_by_item:
                continue
            n_decided = sum(other.id in decision_by_item for other in items)
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
    return all(item.id in decision_by_item for item in items)


def _ask_verdict(
    ask: Callable[[str], str], show: Callable[[str], None]
) -> Verdict | None:
    """Ask until a key is typed that means something; None means to stop."""
    while True:
        key = ask("p/n/a/q> ").strip().casefold()[:1]
        if key in _KEYS:
            return _KEYS[key]
        if key == "q":
            return None
        show(_HELP)


def _page_of(item: Item, n_decided: int, total: int) -> str:
    """Return an item as a person sees it."""
    parts = [
        f"\n=== {n_decided} of {total} decided",
        *(f"--- text {n}\n{text}" for n, text in enumerate(item.texts, start=1)),
        f"--- question\n{item.question}",
        f"--- expected\n{item.claim}",
        "Do the texts hold what is expected?",
    ]
    page = "\n\n".join(parts)
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", page)


def review_summary(labelled_set: sets.AnySet, reviews: Reviews) -> list[str]:
    """Sum up what the first reviewer decided and how well the second agrees.

    The first sentence begins like "8 of 10 points reviewed: 5 positive, …". The second
    sentence is left out if no item was reviewed by both.
    """
    unit, labeller = "cells", "the model"  # a cell is a context and a fact
    if isinstance(labelled_set, sets.DiscreteSet):
        unit, labeller = "points", "rank"
    n_items = len(review_items(labelled_set))
    first_reviews = reviews.first.values()
    n_by_label = Counter(review.label for review in first_reviews)
    n_changed = sum(review.label != review.was for review in first_reviews)
    sentences = [
        f"{n_by_label.total()} of {n_items} {unit} reviewed:"
        f" {n_by_label['positive']} positive, {n_by_label['negative']} negative,"
        f" {n_by_label['ambiguous']} ambiguous (left out);"
        f" {n_changed} differ from the label by {labeller}."
    ]
    label_pairs = [
        (reviews.first[item_id].label, second_review.label)
        for item_id, second_review in reviews.second.items()
        if item_id in reviews.first
    ]
    if label_pairs:  # "ambiguous" is a label like the others
        n_same = sum(of_first == of_second for of_first, of_second in label_pairs)
        value = kappa(label_pairs)
        kappa_text = "undefined, both chose one label throughout"
        if value is not None:
            kappa_text = f"{value:.3f}"
        sentences.append(
            f"Second reviewer: {len(label_pairs)} {unit}, the same label on {n_same};"
            f" kappa {kappa_text}."
        )
    return sentences
