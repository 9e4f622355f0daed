"""Samples drawn one by one: in which order, and how many a gate will need."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256

from ragmetrics_core.statistics.sequential import SequentialGate


def drawn_order(contents: Sequence[str], *, seed: int = 0, clusters: Sequence[str | None] = ()) -> list[list[int]]:
    """A random order of rows that does not depend on their order in the file.

    It depends on what rows say, and on the ``seed``; ``clusters`` are keys of rows that belong together, None for a row
    of its own. Given are units, each the places of its rows. Equal rows are told apart by a count, else they would be
    neighbours; which of them comes first makes no difference to what is read.
    """
    units: dict[bytes, list[int]] = {}
    seen: Counter[str] = Counter()
    for place, (content, key) in enumerate(zip(contents, clusters or [None] * len(contents), strict=True)):
        name = f"row {seen[content]}\0{content}" if key is None else f"cluster\0{key}"
        seen[content] += key is None
        units.setdefault(sha256(f"{seed}\0{name}".encode(errors="surrogatepass")).digest(), []).append(place)
    return [units[digest] for digest in sorted(units)]


def samples_needed(gate: Callable[[], SequentialGate], mean: float, rows: int, *, runs: int = 30) -> float:
    """How many samples a gate will look at on average if the mean is this, simulated with scores of 0 and 1.

    Of all scores with one mean these let evidence grow most slowly (Jensen's inequality), so that graded scores need
    fewer. The average, over so many simulated ``runs`` of so many rows, errs by about a seventh.
    """
    draw = random.Random(0)  # noqa: S311  # a simulation is no cryptography
    taken = 0
    for _ in range(runs):
        own, ones = gate(), round(mean * rows)
        for left in range(rows, 0, -1):
            score = draw.random() < (ones / left if own.population else mean)
            ones, taken = ones - score, taken + 1
            if own.update(float(score)) != "undecided":
                break
    return taken / runs
