"""Fit the weights of the embedded judge and print how they do on sources left out.

    python benchmarks/fit_lexical.py DATA [--write]

Split: the developer rows of DATA, all of them; a figure of a source comes from weights
fitted on the other sources. No seed: the fit is convex and starts from zero. Only
``--write`` changes a file, ``features.py``.
"""

from __future__ import annotations

import argparse
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean

from labelled import Row, rows_by_source, shown
from perturbations import perturbed

from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.lexical import features
from ragmetrics_core.lexical.features import VETO, Features, Weights
from ragmetrics_core.lexical.numerals import find_unknown_numbers
from ragmetrics_core.lexical.text import Passage, parse
from ragmetrics_core.metrics.retrieval_ranking import average_precision
from ragmetrics_core.statistics.rater_agreement import (
    auroc,
    balanced_accuracy,
    mean_error,
)

PENALTIES = {"ADHERENT": 1e-2, "USEFUL": 1e-3, "FACT": 1e-3}
"""Ridge per question.

Where it is strong, what it shrinks as a whole is undone: it decides how the weights
relate.
"""

PRIORS = {"ADHERENT": 0.6, "USEFUL": 0.5, "FACT": 0.4}
"""Share of positive rows that the fit pretends to have seen: most answers are adherent, and fewer facts are present.

On adherence nothing else decides how many good answers are rejected.
"""


@dataclass(frozen=True, slots=True)
class Item:
    """One labelled verdict.

    Args:
        source: The source of its row.
        sample: The row.
        features: Its features.
        label: What people say.
        vetoed: Whether a number of the answer stands in no context.
        denied: Whether the answer negates where the contexts do not.
        caught: Whether a changed number of the answer is seen; None if it has none.
    """

    source: str
    sample: str
    features: Features
    label: bool
    vetoed: bool = False
    denied: bool = False
    caught: bool | None = None

    def probability(self, weights: Weights) -> float:
        """What the judge makes of it."""
        found = weights.probability(self.features)
        return (
            found * VETO if self.vetoed else min(found, VETO) if self.denied else found
        )


def adherence_items(data: Path) -> Iterator[Item]:
    """One item per answer."""
    for row in chain.from_iterable(rows_by_source(data, "adherence").values()):
        changed = perturbed("any number changed", row)
        item = adherence_item(row)
        yield replace(
            item,
            caught=(
                None if changed is None else adherence_item(row, answer=changed).vetoed
            ),
        )


def adherence_item(row: Row, answer: str | None = None) -> Item:
    """A row, or what its answer was made into."""
    written: str = row["answer"] if answer is None else answer
    passage, contexts = (
        parse(written),
        [parse(context["text"]) for context in row["contexts"]],
    )
    matches = features.align(passage, contexts)
    values = features.adherence(passage, contexts, matches)
    vetoed = bool(
        find_unknown_numbers(
            written, frozenset[str]().union(*(context.numbers for context in contexts))
        )
    )
    denied = any(match.denied_terms for match in matches)
    return Item(
        row["source"], row["id"], values, row["labels"]["adherent"] == 1, vetoed, denied
    )


def usefulness_items(data: Path) -> Iterator[Item]:
    """One item per chunk."""
    for source, rows in rows_by_source(data, "relevance").items():
        for row in rows:
            asked, answer = parse(row["question"]), parse(row["answer"])
            for context, label in zip(
                row["contexts"], row["labels"]["relevant"], strict=True
            ):
                values = features.usefulness(asked, answer, parse(context["text"]))
                yield Item(source, row["id"], values, label == 1)


def fact_items(data: Path) -> Iterator[Item]:
    """One item per fact; the contexts of such a row are one text."""
    for source, rows in rows_by_source(data, "recall").items():
        for row in rows:
            context: Passage = parse(
                "\n".join(context["text"] for context in row["contexts"])
            )
            for fact in row.get("facts", ()):
                yield Item(
                    source,
                    row["id"],
                    features.presence(parse(fact["text"]), context),
                    fact["present"] == 1,
                )


def fit(
    items: Sequence[Item],
    name: str,
    *,
    penalty: float | None = None,
    prior: float | None = None,
) -> Weights:
    """Logistic regression with slopes >= 0 and a ridge.

    After a strong one the log-odds are fitted again without any.

    Args:
        items: Rows; each source weighs the same, and within it positives weigh the
            prior.
        name: The question, e.g. ``ADHERENT``.
        penalty: Another ridge than that of the question.
        prior: Another prior than that of the question.
    """
    ridge = PENALTIES[name] if penalty is None else penalty
    masses = masses_of(items, PRIORS[name] if prior is None else prior)
    labels = [item.label for item in items]
    columns = [
        list(column) for column in zip(*(item.features for item in items), strict=True)
    ]
    first, *slopes = fitted(columns, labels, masses, ridge)
    logits = [first + sum(map(operator.mul, slopes, item.features)) for item in items]
    again, scale = fitted([logits], labels, masses, 0.0) if ridge > 1e-3 else (0.0, 1.0)
    return Weights(
        round(again + scale * first, 4),
        tuple(round(scale * slope, 4) for slope in slopes),
    )


def masses_of(items: Sequence[Item], prior: float) -> list[float]:
    """Weight of each row: sources weigh the same, and within one positives weigh the prior."""
    counts = Counter((item.source, item.label) for item in items)
    sources = len({item.source for item in items})
    return [
        (prior if item.label else 1 - prior) / counts[item.source, item.label] / sources
        for item in items
    ]


def fitted(
    features: Sequence[Sequence[float]],
    labels: Sequence[bool],
    masses: Sequence[float],
    ridge: float,
) -> list[float]:
    """Intercept and slopes >= 0, by coordinate-wise Newton steps."""
    columns = [[1.0] * len(labels), *features]
    weights, logits = [0.0] * len(columns), [0.0] * len(labels)
    for _ in range(500):
        largest = 0.0
        for place, column in enumerate(columns):
            step = _step(
                labels,
                masses,
                column,
                logits,
                weights[place],
                ridge=ridge if place else 0.0,
            )
            step = step if place == 0 else max(step, -weights[place])
            weights[place] += step
            logits = [
                logit + step * value
                for logit, value in zip(logits, column, strict=True)
            ]
            largest = max(largest, abs(step))
        if largest < 1e-6:
            break
    return weights


def _step(
    labels: Sequence[bool],
    masses: Sequence[float],
    column: Sequence[float],
    logits: Sequence[float],
    weight: float,
    *,
    ridge: float,
) -> float:
    """Newton's step for one weight, shortened where the curve is flat."""
    slope, curve = 2 * ridge * weight, 2 * ridge + 1e-9
    for label, mass, value, logit in zip(labels, masses, column, logits, strict=True):
        guess = 1 / (1 + math.exp(-logit))
        slope += mass * value * (guess - label)
        curve += mass * value * value * guess * (1 - guess)
    return max(-2.0, min(2.0, -slope / curve))


def left_out(
    items: Sequence[Item], name: str
) -> Iterator[tuple[str, list[tuple[Item, float]]]]:
    """For each source its items with probabilities from weights fitted on the others."""
    for source in dict.fromkeys(item.source for item in items):
        weights = fit([item for item in items if item.source != source], name)
        yield (
            source,
            [
                (item, item.probability(weights))
                for item in items
                if item.source == source
            ],
        )


def ranking_error(judged: Iterable[tuple[Item, float]]) -> float:
    """Mean absolute difference between the average precision of verdicts and that of labels."""
    lists: dict[str, list[tuple[bool, bool]]] = {}
    for item, probability in judged:
        lists.setdefault(item.sample, []).append((is_yes(probability), item.label))
    pairs = [
        tuple(average_precision(side) for side in zip(*verdicts, strict=True))
        for verdicts in lists.values()
    ]
    return mean_error([(left, right) for left, right in pairs]) or 0.0


def share_error(judged: Iterable[tuple[Item, float]]) -> float:
    """Mean absolute difference between the share of facts found and the share labelled present."""
    lists: dict[str, list[tuple[bool, bool]]] = {}
    for item, probability in judged:
        lists.setdefault(item.sample, []).append((probability > 0.5, item.label))
    return (
        mean_error(
            [
                (fmean(v for v, _ in pairs), fmean(y for _, y in pairs))
                for pairs in lists.values()
            ]
        )
        or 0.0
    )


def report(name: str, items: Sequence[Item]) -> dict[str, dict[str, float]]:
    """Print and return the figures of each source left out."""
    print(f"\n{name}: leave-one-source-out on {len(items)} labels")
    figures: dict[str, dict[str, float]] = {}
    for source, judged in left_out(items, name):
        own = {
            "auroc": (
                auroc([(probability, item.label) for item, probability in judged])
                or math.nan
            ),
            "balanced": (
                balanced_accuracy(
                    [(is_yes(probability), item.label) for item, probability in judged]
                )
                or math.nan
            ),
        }
        if name == "ADHERENT":
            own["veto"] = fmean(item.vetoed for item, _ in judged if item.label)
            own["denied"] = fmean(item.denied for item, _ in judged if item.label)
            accepted = [
                item.caught
                for item, probability in judged
                if item.label and is_yes(probability)
            ]
            own["caught"] = fmean(caught for caught in accepted if caught is not None)
        else:
            own["mae"] = (
                ranking_error(judged) if name == "USEFUL" else share_error(judged)
            )
        figures[source] = own
        print(
            f"  {shown(source):22}",
            *(f"{key} {value:.3f}" for key, value in own.items()),
        )
    print(f"  {'macro':22}", *(f"{key} {macro(figures, key):.3f}" for key in own))
    return figures


def macro(
    figures: dict[str, dict[str, float]], key: str, *, without: str = ""
) -> float:
    """Mean of a figure over sources, one of them left out if named."""
    return fmean(own[key] for source, own in figures.items() if source != without)


def floor(what: str, value: float, bound: float, *, most: bool = False) -> None:
    """Print whether a figure keeps its floor (or, with ``most``, its ceiling)."""
    kept = value <= bound if most else value >= bound
    print(
        f"{'PASS' if kept else 'FAIL'}  {what}: {value:.3f}"
        f" ({'at most' if most else 'at least'} {bound})"
    )


def written(fitted: dict[str, Weights]) -> str:
    """The fitted weights as lines of ``features.py``."""
    return "\n".join(f"{name} = {weights!r}" for name, weights in fitted.items())


def main() -> None:
    """Fit, print, and with ``--write`` update the constants."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the labelled rows")
    parser.add_argument("--write", action="store_true", help="update features.py")
    options = parser.parse_args()
    makers = {
        "ADHERENT": adherence_items,
        "USEFUL": usefulness_items,
        "FACT": fact_items,
    }
    items = {name: list(make(options.data)) for name, make in makers.items()}
    figures = {name: report(name, own) for name, own in items.items() if own}
    print()
    floor("adherence, macro AUROC", macro(figures["ADHERENT"], "auroc"), 0.76)
    floor("usefulness, macro AUROC", macro(figures["USEFUL"], "auroc"), 0.87)
    error = macro(figures["USEFUL"], "mae", without="expertqa_usefulness")
    floor(
        "ContextUtilization, macro MAE without expertqa_usefulness",
        error,
        0.08,
        most=True,
    )
    print(
        "NOTE  the same with expertqa_usefulness, whose labels are noisy:"
        f" {macro(figures['USEFUL'], 'mae'):.3f}"
    )
    floor("facts, macro AUROC", macro(figures["FACT"], "auroc"), 0.83)
    floor(
        "adherent rows vetoed for a number, macro",
        macro(figures["ADHERENT"], "veto"),
        0.05,
        most=True,
    )
    floor(
        "changed numbers caught by the rule among accepted rows, macro",
        macro(figures["ADHERENT"], "caught"),
        0.6,
    )
    print()
    lines = written(
        {
            name: fit(own, name) if own else getattr(features, name)
            for name, own in items.items()
        }
    )
    print(lines)
    if options.write:
        path = Path(features.__file__)
        source = path.read_text(encoding="utf-8")
        path.write_text(
            re.sub(
                r"(?s)(# fitted: begin\n).*(# fitted: end)",
                rf"\g<1>{lines}\n\g<2>",
                source,
            ),
            "utf-8",
        )


if __name__ == "__main__":
    main()
