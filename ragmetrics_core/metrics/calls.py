"""What calls of the ledger were good for, from verdicts on the contexts that they brought; pure functions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, permutations, product
from math import factorial, prod
from random import Random
from statistics import fmean

from ragmetrics_core.data.evidence import CallGain, CallTable, CallVerdict
from ragmetrics_core.data.grounds import arrivals
from ragmetrics_core.data.sample import Context, Sample
from ragmetrics_core.metrics.average_precision import average_precision


def call_table(
    sample: Sample, contexts: Sequence[Context], useful: Sequence[bool], score: Callable[[Sequence[int]], float]
) -> CallTable | None:
    """The table of calls, from the verdict on each context and the score of their places in another order."""
    lines, inside, again = list[CallVerdict](), list[float](), list[bool]()
    seen, arrived, steps = set[int](), set[str](), dict[tuple[int, int], set[tuple[int, ...]]]()
    for number, call, block in arrivals(sample, contexts):
        good = {place for place in block if useful[place]}
        nothing = "failed" if call.error is not None else "unread" if call.items else "empty"
        verdict = "useful" if good - seen else "repeated" if good else "noise" if block else nothing
        lines.append(CallVerdict(call=number, verdict=verdict, ranks=tuple(place + 1 for place in block)))
        inside += [average_precision([useful[place] for place in block])] if good else []
        again += [item.text in arrived for item in call.items]
        seen.update(block)
        arrived.update(item.text for item in call.items)
        if block:
            steps.setdefault((call.turn, call.step), set()).add(tuple(sorted(block)))
    if not lines:
        return None
    gained = [number for number, line in enumerate(lines, 1) if line.verdict == "useful"]
    scores = [score(order) for order in (range(len(contexts)), *_orders(steps.values(), len(contexts)))]
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
    """Orders of the contexts, 120 at most, if calls of one step had come in another order.

    Contexts take the places that those of their step have, in the order of calls and each with the first that brings
    it; inside a call, and for all others, the order stays.
    """
    parallel, chance = [sorted(blocks) for blocks in steps], Random(0)  # noqa: S311  # no secret
    few = prod(factorial(len(blocks)) for blocks in parallel) <= 120
    some = (tuple(tuple(chance.sample(blocks, len(blocks))) for blocks in parallel) for _ in range(120))
    for order in product(*map(permutations, parallel)) if few else some:
        places, seen = list(range(count)), set[int]()
        for blocks in order:
            new = [place for place in dict.fromkeys(chain(*blocks)) if place not in seen]
            for place, context in zip(sorted(new), new, strict=True):
                places[place] = context
            seen.update(new)
        yield places


def curve(sample: Sample, contexts: Sequence[Context], value: Callable[[set[int]], float]) -> tuple[CallGain, ...]:
    """The value of the contexts by call; a context that no call brought counts from the start."""
    found = arrivals(sample, contexts)
    originals = set({context.text: place for place, context in reversed([*enumerate(contexts)])}.values())
    known, gains = originals.difference(*(block for _, _, block in found)), list[CallGain]()
    for number, _, block in found:
        before, known = value(known), known.union(block)
        total = value(known)
        gains.append(CallGain(call=number, alone=value(set(block)), gain=total - before, total=total))
    return tuple(gains)
