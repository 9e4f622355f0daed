"""What an answer may rest on by its ledger, and what the calls there were good for.

Pure functions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, permutations, product
from math import factorial, prod
from random import Random
from statistics import fmean

from ragmetrics_core.data import (
    CallGain,
    CallTable,
    CallVerdict,
    Context,
    EvidenceCall,
    Sample,
)
from ragmetrics_core.metrics.average_precision import average_precision


@dataclass(frozen=True, slots=True)
class Groups:
    """The texts that an answer may rest on.

    Args:
        evidence: Contexts, then items of the turn's calls that are not known to be
            hidden.
        ranks: The ranks of those contexts, then the numbers behind the last rank.
        earlier: Items of earlier turns' calls, shown or not, that are not among the
            evidence.
        user: What the user said in earlier turns, then the question.
        own: What the assistant said in earlier turns, and what models of the
            application wrote.
        kept: Of the items of earlier turns how many were shown, and of how many that is
            known; None of none.
    """

    evidence: tuple[str, ...]
    ranks: tuple[int, ...]
    earlier: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    kept: tuple[int, int] | None = None

    @property
    def several(self) -> bool:
        """True if a claim may rest on more than this turn's evidence and question."""
        return bool(self.earlier or self.own or len(self.user) > 1)


def groups(sample: Sample) -> Groups:
    """What an answer may rest on.

    Without a ledger the contexts alone, as nothing is known of earlier turns.
    """
    ranked = [
        (rank, context)
        for rank, context in enumerate(sample.contexts, 1)
        if not context.blank
    ]
    if sample.ledger is None:
        return Groups(_texts(sample.contexts), tuple(rank for rank, _ in ranked))
    calls = sample.ledger.calls
    written = [item for call in calls if call.kind == "written" for item in call.items]
    evident = [
        (call, at, item)
        for call in calls
        if call.kind != "written"
        for at, item in enumerate(call.items)
    ]
    brought = [(call, at, item) for call, at, item in evident if not item.blank]
    alone = {item.text for item in written} - {item.text for _, _, item in brought}
    ranked = [(rank, context) for rank, context in ranked if context.text not in alone]
    evidence, earlier, known = (
        [context for _, context in ranked],
        list[Context](),
        dict[str, bool](),
    )
    texts, ids = {one.text for one in evidence}, {one.id for one in evidence} - {None}
    # a text of both belongs to this turn
    for late, group in ((True, evidence), (False, earlier)):
        for call, at, item in brought:
            hidden = call.shown is not None and at not in call.shown
            if (call.turn >= sample.ledger.turn) != late or (late and hidden):
                continue
            if item.text not in texts and item.id not in ids:
                group.append(item)
                texts.add(item.text)
            if not late and call.shown is not None:
                known[item.text] = known.get(item.text, False) or not hidden
    user = tuple(turn.content for turn in sample.history if turn.role == "user")
    behind = range(
        len(sample.contexts) + 1,
        len(sample.contexts) + len(evidence) + len(earlier) + 1,
    )
    return Groups(
        evidence=_texts(evidence),
        ranks=(*(rank for rank, _ in ranked), *behind),
        earlier=_texts(earlier),
        user=(*user, sample.question) if sample.question else user,
        own=(
            *(turn.content for turn in sample.history if turn.role != "user"),
            *_texts(written),
        ),
        kept=(sum(known.values()), len(known)) if known else None,
    )


def _texts(items: Sequence[Context]) -> tuple[str, ...]:
    return tuple(item.text for item in items if not item.blank)


def originals(contexts: Sequence[Context]) -> list[int]:
    """By place, that of the first context with the same text."""
    first: dict[str, int] = {}
    return [
        first.setdefault(context.text, place) for place, context in enumerate(contexts)
    ]


def place_of(item: Context, contexts: Sequence[Context]) -> int | None:
    """Where an item stands among contexts: with its text, else under its id; None if nowhere."""
    same = (
        place
        for place, one in enumerate(contexts)
        if one.text == item.text and not item.blank
    )
    named = (
        place
        for place, one in enumerate(contexts)
        if one.id == item.id and None not in (one.id, item.id)
    )
    return next(same, next(named, None))


def arrivals(
    sample: Sample, contexts: Sequence[Context]
) -> list[tuple[int, EvidenceCall, tuple[int, ...]]]:
    """List the calls that retrieved in this turn or brought one of the contexts.

    Each entry is the call's place in the ledger, the call, and the places of its
    contexts. Calls of kind ``written`` are left out.
    """
    found = []
    for number, call in enumerate(sample.ledger.calls if sample.ledger else ()):
        places = (place_of(item, contexts) for item in call.items)
        brought = tuple(dict.fromkeys(place for place in places if place is not None))
        now = (
            sample.ledger is not None
            and call.kind == "retrieval"
            and call.turn == sample.ledger.turn
        )
        if call.kind != "written" and (brought or now):
            found.append((number, call, brought))
    return found


def call_table(
    sample: Sample,
    contexts: Sequence[Context],
    useful: Sequence[bool],
    score: Callable[[Sequence[int]], float],
) -> CallTable | None:
    """Return the table of calls; None if no call retrieved or brought a context.

    ``useful`` is the verdict on each context, ``score`` the score of their places in
    another order.
    """
    lines, inside, again = list[CallVerdict](), list[float](), list[bool]()
    seen, arrived, steps = (
        set[int](),
        set[str](),
        dict[tuple[int, int], set[tuple[int, ...]]](),
    )
    for number, call, block in arrivals(sample, contexts):
        good = {place for place in block if useful[place]}
        nothing = (
            "failed" if call.error is not None else "unread" if call.items else "empty"
        )
        verdict = (
            "useful"
            if good - seen
            else "repeated"
            if good
            else "noise"
            if block
            else nothing
        )
        lines.append(
            CallVerdict(
                call=number, verdict=verdict, ranks=tuple(place + 1 for place in block)
            )
        )
        inside += (
            [average_precision([useful[place] for place in block])] if good else []
        )
        again += [item.text in arrived for item in call.items]
        seen.update(block)
        arrived.update(item.text for item in call.items)
        if block:
            steps.setdefault((call.turn, call.step), set()).add(tuple(sorted(block)))
    if not lines:
        return None
    gained = [
        number for number, line in enumerate(lines, 1) if line.verdict == "useful"
    ]
    scores = [
        score(order)
        for order in (range(len(contexts)), *_orders(steps.values(), len(contexts)))
    ]
    return CallTable(
        calls=tuple(lines),
        wasted=1 - len(gained) / len(lines),
        repeats=fmean(again) if again else None,
        first_useful=gained[0] if gained else None,
        last_useful=gained[-1] if gained else None,
        call_ap=fmean(inside) if inside else None,
        order_range=(min(scores), max(scores)) if len(scores) > 2 else None,
    )


def _orders(steps: Iterable[set[tuple[int, ...]]], count: int) -> Iterator[list[int]]:
    """Yield orders of the contexts if calls of one step had come in another order.

    They are 120 at most. Contexts take the places that those of their step have. They
    stand in the order of the calls, each with the first call that brings it. Inside a
    call, and for all other contexts, the order stays.
    """
    parallel, chance = [sorted(blocks) for blocks in steps], Random(0)  # noqa: S311  # no secret
    few = prod(factorial(len(blocks)) for blocks in parallel) <= 120
    some = (
        tuple(tuple(chance.sample(blocks, len(blocks))) for blocks in parallel)
        for _ in range(120)
    )
    for order in product(*map(permutations, parallel)) if few else some:
        places, seen = list(range(count)), set[int]()
        for blocks in order:
            new = [
                place for place in dict.fromkeys(chain(*blocks)) if place not in seen
            ]
            for place, context in zip(sorted(new), new, strict=True):
                places[place] = context
            seen.update(new)
        yield places


def curve(
    sample: Sample, contexts: Sequence[Context], value: Callable[[set[int]], float]
) -> tuple[CallGain, ...]:
    """The value of the contexts by call.

    A context that no call brought counts from the start.
    """
    found = arrivals(sample, contexts)
    known, gains = (
        set(originals(contexts)).difference(*(block for _, _, block in found)),
        list[CallGain](),
    )
    for number, _, block in found:
        before, known = value(known), known.union(block)
        total = value(known)
        gains.append(
            CallGain(
                call=number, alone=value(set(block)), gain=total - before, total=total
            )
        )
    return tuple(gains)
