"""The walk through a set's items with a person: shuffled, blind to rank, score, label and judge, resumable."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from ragmetrics_core.data.errors import SettingError
from ragmetrics_core.datasets.reviews import Item, Review, Reviews, Verdict, review_items
from ragmetrics_core.datasets.sets import AnySet, DiscreteSet

_KEYS: dict[str, Verdict] = {"p": "positive", "n": "negative", "a": "ambiguous"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a document must not steer the terminal
_HELP = "p positive, n negative, a ambiguous (left out), s skip for now, b back to the one before, q stop; then Enter"


def items_to_walk(given: AnySet, reviews: Reviews, *, second: bool, share: float) -> list[Item]:
    """The items that one reviewer walks through, in an order that tells nothing.

    Args:
        given: The set.
        reviews: What was decided before.
        second: Whether it is the second reviewer, who gets a part of what the first one decided.
        share: That part, in (0, 1].

    Raises:
        SettingError: If the share is not in this range, or there is nothing for a second reviewer yet.
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


def walk(
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
        items: In the order of the walk.
        reviews: Where decisions are kept.
        reviewer: Who decides.
        second: Whether it is the second reviewer.
        ask: Shows a prompt and returns what was typed; ``EOFError`` stops the walk.
        show: Shows a text.

    Returns:
        True if nothing is left to decide.
    """
    decided = reviews.second if second else reviews.first
    show(_HELP)
    at, skipped, back = 0, set[str](), False
    while at < len(items):
        item = items[at]
        if not back and (item.id in decided or item.id in skipped):
            at += 1
            continue
        back = False
        show(_shown(item, len(decided.keys() & {it.id for it in items}), len(items)))
        try:
            key = _key(ask, show)
            if key in _KEYS:
                reason = ask("why (Enter for no reason)> ").strip()
                reviews.add(_review(item, _KEYS[key], reviewer, reason, second=second))
        except EOFError:
            break
        if key == "q":
            break
        if key == "s":
            skipped.add(item.id)
        back = key == "b"
        at = max(at - 1, 0) if back else at + 1
    return all(item.id in decided for item in items)


def _review(item: Item, label: Verdict, reviewer: str, reason: str, *, second: bool) -> Review:
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Review(item=item.id, was=item.was, label=label, reviewer=reviewer, reason=reason, date=date, second=second)


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
            reviews.first[item].label == own.label for item, own in reviews.second.items() if item in reviews.first
        )
        lines.append(f"Second reviewer: {count} {unit}, the same label on {same}; kappa {shown}.")
    return lines
