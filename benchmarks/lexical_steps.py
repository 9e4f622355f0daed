"""What each step of the embedded judge's reading of answers is worth, on sources left out of the fit.

    python benchmarks/lexical_steps.py DATA

Each step stands alone beside the judge that counts words only, and in the last line all
stand together. Effects are differences of means over sources; intervals are paired: 500
resamples of rows within each source, seed 0. An edit counts as caught if an adherent
answer was accepted before it and is rejected after it.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean

import fit_lexical
from fit_lexical import Item, adherence_item, fit
from labelled import Row, rows_by_source
from perturbations import KINDS, perturbed

from ragmetrics_core.lexical import numerals, text
from ragmetrics_core.lexical.constants import Weights
from ragmetrics_core.statistics.rater_agreement import auroc, balanced_accuracy

DRAWS = 500
EDITS = tuple(kind for kind in KINDS if "two or more" not in kind)
_LONG = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Step:
    """Which steps are taken."""

    numbers: bool = False
    names: bool = False
    negation: bool = False
    ridge: bool = False
    prior: bool = False


STEPS = {
    "numbers in other spellings, single digits": Step(numbers=True),
    "names beside the rest of their sentence": Step(names=True),
    "negations where the contexts have none": Step(negation=True),
    "ridge 1e-2": Step(ridge=True),
    "most answers are adherent: prior 0.6": Step(prior=True),
    "all but the prior": Step(numbers=True, names=True, negation=True, ridge=True),
    "all of them": Step(
        numbers=True, names=True, negation=True, ridge=True, prior=True
    ),
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One answer by one variant of the judge: its probability, that after each edit, and the label."""

    probability: float
    edited: tuple[float | None, ...]
    label: bool


def long_numbers(answer: str, known: frozenset[str]) -> dict[str, None]:
    """The rule before the step: numbers of two or more digits in one spelling."""
    found = _LONG.findall(
        numerals._YEARS.sub(numerals._write_years_out, numerals.strip_marks(answer))  # noqa: SLF001
    )
    return {
        one: None
        for one in found
        if len(re.sub(r"\D", "", one)) > 1
        and numerals.normalise_number(one) not in known
    }


@contextmanager
def plain_numbers() -> Iterator[None]:
    """Numbers as they were read before: digits, and words from ten to ninety."""
    words, rule = (
        dict(text._NUMERALS),  # noqa: SLF001
        fit_lexical.strange,
    )
    tens = [word for word, value in words.items() if len(value) < 2 or word == "tenth"]
    try:
        for word in tens:
            text._NUMERALS.pop(word)  # noqa: SLF001
        fit_lexical.strange = long_numbers
        _forget()
        yield
    finally:
        text._NUMERALS.update(words)  # noqa: SLF001
        fit_lexical.strange = rule
        _forget()


def _forget() -> None:
    for remembered in (text._terms_of_word, text._parse):  # noqa: SLF001
        remembered.cache_clear()


def items_of(rows: Sequence[Row]) -> list[list[Item | None]]:
    """Per row, the item of its answer and of each edited answer."""
    found = []
    for row in rows:
        edits = [perturbed(kind, row) for kind in EDITS]
        found.append(
            [
                adherence_item(row),
                *(None if it is None else adherence_item(row, it) for it in edits),
            ]
        )
    return found


def judged(
    items: Sequence[Sequence[Item | None]], step: Step
) -> dict[str, list[Judged]]:
    """By source, its answers with weights fitted on the other sources."""
    reduced = [
        [None if item is None else _reduced(item, step) for item in own]
        for own in items
    ]
    first = [own[0] for own in reduced if own[0] is not None]
    found: dict[str, list[Judged]] = {}
    for source in dict.fromkeys(item.source for item in first):
        weights = _weights([item for item in first if item.source != source], step)
        own = [
            (item, edits)
            for item, (_, *edits) in zip(first, reduced, strict=True)
            if item.source == source
        ]
        found[source] = [
            Judged(
                item.probability(weights),
                tuple(it and it.probability(weights) for it in edits),
                item.label,
            )
            for item, edits in own
        ]
    return found


def _reduced(item: Item, step: Step) -> Item:
    values = item.features if step.names else item.features[:3]
    return replace(item, features=values, denied=item.denied and step.negation)


def _weights(items: Sequence[Item], step: Step) -> Weights:
    return fit(
        items,
        "ADHERENT",
        penalty=None if step.ridge else 1e-3,
        prior=None if step.prior else 0.5,
    )


Pairs = Sequence[tuple[Judged, Judged]]


def _difference(
    statistic: Callable[[Sequence[Judged]], float | None],
) -> Callable[[Pairs], float | None]:
    def of(pairs: Pairs) -> float | None:
        before, after = (statistic([pair[side] for pair in pairs]) for side in (0, 1))
        return None if before is None or after is None else after - before

    return of


def _ranked(rows: Sequence[Judged]) -> float | None:
    return auroc([(row.probability, row.label) for row in rows])


def _at_one_half(rows: Sequence[Judged]) -> float | None:
    return balanced_accuracy([(row.probability >= 0.5, row.label) for row in rows])


def _effect(
    units: Mapping[str, Pairs], statistic: Callable[[Sequence[Judged]], float | None]
) -> str:
    of = _difference(statistic)
    known = [value for value in map(of, units.values()) if value is not None]
    draw = random.Random(0)
    means = []
    for _ in range(DRAWS):
        values = [of(draw.choices(pairs, k=len(pairs))) for pairs in units.values()]
        means.append(fmean(value for value in values if value is not None))
    low, high = (sorted(means)[round(share * (DRAWS - 1))] for share in (0.025, 0.975))
    return f"{fmean(known):+.3f} [{low:+.3f}, {high:+.3f}]"


def caught(rows: Sequence[Judged], place: int) -> tuple[int, int]:
    """How many accepted adherent answers are rejected after an edit, and of how many."""
    after = [row.edited[place] for row in rows if row.label and row.probability >= 0.5]
    known = [value for value in after if value is not None]
    return sum(value < 0.5 for value in known), len(known)


def lines(data: Path) -> Iterator[str]:
    """A line per step; its effect is the difference from the first line."""
    rows = list(chain.from_iterable(rows_by_source(data, "adherence").values()))
    with plain_numbers():
        plain = items_of(rows)
    read = items_of(rows)
    base = judged(plain, Step())
    macro = fmean(value for value in map(_ranked, base.values()) if value is not None)
    flat = list(chain.from_iterable(base.values()))
    yield f"  words only: AUROC {macro:.3f}; {_catches(flat)}"
    for name, step in STEPS.items():
        yield _line(name, base, judged(read if step.numbers else plain, step))


def _edited(row: Row) -> list[Row]:
    return [row, *({**row, "answer": perturbed(kind, row)} for kind in EDITS)]


def _line(
    name: str, base: Mapping[str, Sequence[Judged]], now: Mapping[str, Sequence[Judged]]
) -> str:
    units = {
        source: list(zip(base[source], now[source], strict=True)) for source in base
    }
    pairs = list(chain.from_iterable(units.values()))
    rejected = fmean(
        old.probability >= 0.5 > new.probability for old, new in pairs if old.label
    )
    accepted = fmean(
        old.probability < 0.5 <= new.probability for old, new in pairs if old.label
    )
    return (
        f"  {name}: AUROC {_effect(units, _ranked)}; balanced"
        f" {_effect(units, _at_one_half)}; {_catches([new for _, new in pairs])};"
        f" adherent newly rejected {rejected:.3f}, accepted {accepted:.3f}"
    )


def _catches(rows: Sequence[Judged]) -> str:
    counts = [caught(rows, place) for place in range(len(EDITS))]
    return "; ".join(
        f"{kind} {hit}/{of}" for kind, (hit, of) in zip(EDITS, counts, strict=True)
    )


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the labelled rows")
    print(*lines(parser.parse_args().data), sep="\n")


if __name__ == "__main__":
    main()
