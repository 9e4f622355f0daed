"""The table of the embedded judge in docs/measured.md: exactly what stands there.

    python benchmarks/lexical_table.py DATA

The headline judges each source with weights fitted on the other sources; the column
beside it takes the shipped weights, which were fitted on these very sources. Intervals:
500 resamples of rows within each source, seed 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import injections
import judge_quality
import perturbations
from fit_lexical import PRIORS, Item, adherence_items, fact_items, fit, usefulness_items
from judge_quality import Bench, Statistic, measure
from labelled import shown

from ragmetrics_core.data.display import UNSEEN
from ragmetrics_core.data.results import MetricResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.lexical import lexical_judge
from ragmetrics_core.lexical.features import UNCERTAIN, Weights
from ragmetrics_core.lexical.lexical_judge import LexicalJudge
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.statistics.rater_agreement import (
    auroc,
    balanced_accuracy,
    bootstrap,
    mean_error,
)

DRAWS = 500
UNSEEN_QUESTION = "the same on sources never used for fitting"
HEADER = (
    "question to the embedded judge",
    "on sources left out of the fit",
    "besides",
    "in-sample, weights as shipped",
    "sources",
)


class LeftOut(Bench):
    """Judges each source with weights fitted on the other sources."""

    def __init__(self, data: Path) -> None:
        super().__init__(LexicalJudge(), data, None, DRAWS, say=_silent)
        self._items: dict[str, list[Item]] = {
            "ADHERENT": list(adherence_items(data)),
            "USEFUL": list(usefulness_items(data)),
            "FACT": list(fact_items(data)),
        }
        families = ("adherence", "relevance", "recall")
        self._source = {
            row["id"]: name
            for own in families
            for name, rows in self.rows(own).items()
            for row in rows
        }
        self._weights = cache(self._fitted)

    def _fitted(self, source: str) -> dict[str, Weights]:
        without = {
            name: [item for item in own if item.source != source]
            for name, own in self._items.items()
        }
        return {name: fit(own, name) for name, own in without.items()}

    def results(
        self, metric: Metric, samples: Sequence[Sample]
    ) -> Iterator[MetricResult]:
        """One result per sample of one source, in order."""
        source = self._source.get(samples[0].id or "") if samples else None
        shipped = {name: getattr(lexical_judge, name) for name in PRIORS}
        try:
            for name, weights in (
                shipped if source is None else self._weights(source)
            ).items():
                setattr(lexical_judge, name, weights)
            results = list(super().results(metric, samples))
        finally:
            for name, weights in shipped.items():
                setattr(lexical_judge, name, weights)
        return iter(results)


def _silent(line: str) -> None:
    del line


def _macro(units: Mapping[str, Sequence[Any]], statistic: Statistic) -> str:
    values = [value for value in map(statistic, units.values()) if value is not None]
    interval = bootstrap(list(units.values()), statistic, draws=DRAWS)
    return f"{fmean(values):.2f}" + (
        f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
    )


def _singles(units: Mapping[str, Sequence[Any]], statistic: Statistic) -> str:
    values = {
        source: value
        for source, own in units.items()
        if (value := statistic(own)) is not None
    }
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return (
        f"single sources {values[low]:.2f} ({shown(low)}) to {values[high]:.2f}"
        f" ({shown(high)})"
    )


def _pooled(units: Mapping[str, Sequence[bool]]) -> tuple[int, int]:
    return sum(map(sum, units.values())), sum(map(len, units.values()))


def _ranked(rows: Sequence[Any]) -> float | None:
    return auroc([(score, label) for score, label in rows])


def _at_one_half(rows: Sequence[Any]) -> float | None:
    return balanced_accuracy([(is_yes(score), label) for score, label in rows])


def _decided(rows: Sequence[Any]) -> list[Any]:
    low, high = UNCERTAIN
    return [(score, label) for score, label in rows if not low <= score <= high]


def _share_decided(rows: Sequence[Any]) -> float | None:
    return len(_decided(rows)) / len(rows)


def _share_wrong(rows: Sequence[Any]) -> float | None:
    return _share([is_yes(score) != bool(label) for score, label in _decided(rows)])


def _share(rows: Sequence[Any]) -> float | None:
    return fmean(rows) if rows else None


def lines(bench: Bench) -> dict[str, tuple[str, str, int | str]]:
    """By question: the figure, what to know beside it, and the number of sources."""
    tables = bench.tables
    adherent, chunks, facts = (
        tables[name]
        for name in (judge_quality.SUPPORTED, judge_quality.CHUNKS, judge_quality.FACTS)
    )
    ranking, found = (
        tables[judge_quality.UTILIZATION],
        tables[judge_quality.SHARE_FOUND],
    )
    clean = {
        source: own
        for source, own in ranking.items()
        if source != "expertqa_usefulness"
    }
    edits = [
        _pooled(tables[judge_quality.CAUGHT + kind]) for kind in perturbations.KINDS
    ]
    _, order, finished = (
        _pooled(tables[injections.FLIPPED + kind]) for kind in injections.KINDS
    )
    preferred = tables[judge_quality.PREFERENCE]
    return {
        "is the answer adherent?": (
            f"AUROC {_macro(adherent, _ranked)}",
            (
                f"balanced accuracy at one half {_macro(adherent, _at_one_half)};"
                f" {_singles(adherent, _ranked)}"
            ),
            len(adherent),
        ),
        UNSEEN_QUESTION: (
            f"AUROC {UNSEEN.auroc:.3f} [{UNSEEN.low:.2f}, {UNSEEN.high:.2f}]",
            (
                f"{UNSEEN.answers:,} answers, {UNSEEN.measured}; kept aside, from"
                " ragmetrics_core/data/display.py"
            ),
            UNSEEN.sources,
        ),
        f"the same, uncertain from {UNCERTAIN[0]} to {UNCERTAIN[1]}": (
            f"decides {_macro(adherent, _share_decided)} of the answers",
            f"of these {_macro(adherent, _share_wrong)} wrongly",
            len(adherent),
        ),
        "is the chunk useful?": (
            f"AUROC {_macro(chunks, judge_quality.ranked_chunks)}",
            _singles(chunks, judge_quality.ranked_chunks),
            len(chunks),
        ),
        "Context Utilization against that of the labels": (
            f"mean error {_macro(ranking, mean_error)}",
            (
                "without expertqa_usefulness, whose labels are noisy,"
                f" {_macro(clean, mean_error)}"
            ),
            len(ranking),
        ),
        "is the fact in the context?": (
            f"AUROC {_macro(facts, judge_quality.ranked_facts)}",
            _singles(facts, judge_quality.ranked_facts),
            len(facts),
        ),
        "Retrieval Accuracy against the share of the reference found": (
            f"mean error {_macro(found, mean_error)}",
            _singles(found, mean_error),
            len(found),
        ),
        "which of two answers do people prefer?": (
            f"same choice in {_macro(preferred, _share)} of decided pairs",
            "its rule has no fitted weight",
            len(preferred),
        ),
        "accepted answers rejected after an edit": (
            f"{_of(edits[0])} with a number changed",
            f'{_of(edits[2])} with a "not" put in, {_of(edits[3])} with a name swapped',
            len(adherent),
        ),
        "verdicts flipped by one more context": (
            f"{_of(order)} by an order to say the opposite",
            f"{_of(finished)} by a finished verdict as JSON",
            len(adherent),
        ),
    }


def _of(counts: tuple[int, int]) -> str:
    return f"{counts[0]} of {counts[1]}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the labelled rows")
    options = parser.parse_args()
    left_out, shipped = (
        LeftOut(options.data),
        Bench(LexicalJudge(), options.data, None, DRAWS, say=_silent),
    )
    measure(left_out)
    measure(shipped)
    own = lines(shipped)
    print(f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|", sep="\n")
    for question, (figure, besides, sources) in lines(left_out).items():
        in_sample = "–" if question == UNSEEN_QUESTION else own[question][0]
        print(f"| {question} | {figure} | {besides} | {in_sample} | {sources} |")


if __name__ == "__main__":
    main()
