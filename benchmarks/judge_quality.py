"""How well a judge agrees with people, per source and as the mean over sources, with 95 % bootstrap intervals.

    python benchmarks/judge_quality.py DATA [--judge NAME] [--limit N]

DATA holds the labelled rows by family. Labels are never pooled over sources. An
asterisk marks a set that is easy by construction; the hard ones come first. The metrics
themselves ask the judge, so the figures are theirs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from injections import flip_rates
from labelled import Row, rows_by_source, sample_of, shown
from perturbations import KINDS, perturbed

from ragmetrics_core.data.results import MetricResult
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.engine.evaluation import iter_results
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.context_adherence import (
    AdherenceEvidence,
    ContextAdherence,
)
from ragmetrics_core.metrics.context_recall import ContextRecall
from ragmetrics_core.metrics.context_utilization import (
    ContextUtilization,
    UtilizationEvidence,
)
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.metrics.retrieval_accuracy import RetrievalAccuracy
from ragmetrics_core.metrics.retrieval_ranking import average_precision
from ragmetrics_core.statistics.rater_agreement import (
    auroc,
    balanced_accuracy,
    bootstrap,
    correlation,
    mean_error,
)

Statistic = Callable[[Sequence[Any]], float | None]

SUPPORTED = "ContextAdherence: is the answer supported?"
CAUGHT = "Accepted answers caught after an edit: "
CHUNKS = "ContextUtilization: is the chunk useful? (n = samples)"
UTILIZATION = "ContextUtilization: score against that of the labels"
FACTS = "RetrievalAccuracy: is the fact in the context? (n = samples)"
SHARE_FOUND = "RetrievalAccuracy: share of the reference found"
PREFERENCE = "ContextRecall: prefers the answer that people prefer (decided pairs)"


class Bench:
    """A judge under test: scores samples, counts what went wrong and how long it took.

    Args:
        judge: The judge.
        data: Folder of the labelled rows.
        limit: Most rows per source; None for all.
        draws: Bootstrap resamples.
        say: Where lines go.

    Attributes:
        tables: What each table was made of: by its title, the units of each source.
    """

    def __init__(
        self,
        judge: Judge,
        data: Path,
        limit: int | None,
        draws: int,
        *,
        say: Callable[[str], None] = print,
    ) -> None:
        self.judge, self.data, self.limit, self.draws, self.say = (
            judge,
            data,
            limit,
            draws,
            say,
        )
        self.tables: dict[str, Mapping[str, Sequence[Any]]] = {}
        self.samples, self.seconds = 0, 0.0
        self.statuses: dict[str, int] = {}

    def rows(self, family: str) -> dict[str, list[Row]]:
        """Rows of a family by source."""
        return rows_by_source(self.data, family, self.limit)

    def results(
        self, metric: Metric, samples: Sequence[Sample]
    ) -> Iterator[MetricResult]:
        """One result per sample, in order."""
        started = time.monotonic()
        rows = list(iter_results(samples, [metric], judge=self.judge))
        self.seconds += time.monotonic() - started
        self.samples += len(rows)
        for row in rows:
            result = row.results[metric.name]
            self.statuses[result.status] = self.statuses.get(result.status, 0) + 1
            yield result

    def table(
        self,
        title: str,
        units: Mapping[str, Sequence[Any]],
        statistics: Mapping[str, Statistic],
    ) -> None:
        """Print each statistic per source and as the mean over sources."""
        self.tables[title] = units
        self.say(f"\n{title}")
        for source, own in units.items():
            cells = [
                f"{name}"
                f" {self._cell(compute(own), bootstrap([own], compute, draws=self.draws))}"
                for name, compute in statistics.items()
            ]
            self.say(f"  {shown(source):22} n={len(own):<4} {'  '.join(cells)}")
        cells = []
        for name, compute in statistics.items():
            known = [
                value for value in map(compute, units.values()) if value is not None
            ]
            interval = bootstrap(list(units.values()), compute, draws=self.draws)
            cells.append(
                f"{name} {self._cell(fmean(known) if known else None, interval)}"
            )
        self.say(f"  {'mean over sources':22} {'':6} {'  '.join(cells)}")

    @staticmethod
    def _cell(value: float | None, interval: tuple[float, float] | None) -> str:
        bounds = f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
        return ("undefined" if value is None else f"{value:.3f}") + bounds


def adherence(bench: Bench) -> None:
    """Context Adherence against labels, and what it makes of answers that were made wrong."""
    units: dict[str, list[tuple[float, bool]]] = {}
    accepted: dict[str, list[Row]] = {}
    judged: dict[str, list[tuple[Row, bool]]] = {}
    vetoed: dict[str, list[bool]] = {}
    for source, rows in bench.rows("adherence").items():
        results = bench.results(ContextAdherence(), [sample_of(row) for row in rows])
        for row, result in zip(rows, results, strict=True):
            if result.value is None:
                continue
            label = row["labels"]["adherent"] == 1
            units.setdefault(source, []).append((result.value, label))
            judged.setdefault(source, []).append((row, is_yes(result.value)))
            if label and is_yes(result.value):
                accepted.setdefault(source, []).append(row)
            if label and isinstance(result.evidence, AdherenceEvidence):
                alien = any(sentence.numbers for sentence in result.evidence.sentences)
                vetoed.setdefault(source, []).append(alien)
    verdicts: Statistic = lambda rows: balanced_accuracy(  # noqa: E731
        [(is_yes(score), label) for score, label in rows]
    )
    bench.table(SUPPORTED, units, {"AUROC": auroc, "balanced": verdicts})
    if bench.judge.name == "lexical":
        bench.table(
            "Adherent answers vetoed for a number (false vetoes)",
            vetoed,
            {"share": _share},
        )
    catch_rates(bench, accepted)
    flip_rates(bench, judged)


def catch_rates(bench: Bench, accepted: Mapping[str, Sequence[Row]]) -> None:
    """Share of accepted answers that are rejected after a small edit has made them wrong."""
    for kind in KINDS:
        caught: dict[str, list[bool]] = {}
        for source, rows in accepted.items():
            samples = [
                sample_of(row, answer=answer)
                for row in rows
                if (answer := perturbed(kind, row)) is not None
            ]
            results = bench.results(ContextAdherence(), samples)
            caught[source] = [
                result.value < 0.5 for result in results if result.value is not None
            ]
        units = {source: own for source, own in caught.items() if own}
        bench.table(f"{CAUGHT}{kind}", units, {"share": _share})
        edited = [verdict for own in units.values() for verdict in own]
        if edited:
            bench.say(
                f"  {'of all such answers':22} n={len(edited):<4} share"
                f" {fmean(edited):.3f}"
            )


def _share(verdicts: Sequence[bool]) -> float | None:
    return fmean(verdicts) if verdicts else None


def ranked_chunks(lists: Sequence[Any]) -> float | None:
    """AUROC over the chunks of samples: score, verdict, label."""
    return auroc([(score, label) for own in lists for score, _, label in own])


def ranked_facts(lists: Sequence[Any]) -> float | None:
    """AUROC over the facts of samples: score, label."""
    return auroc([pair for own in lists for pair in own])


def utilization(bench: Bench) -> None:
    """Context Utilization against labels: verdicts per chunk, and the score."""
    chunks: dict[str, list[list[tuple[float, bool, bool]]]] = {}
    scores: dict[str, list[tuple[float, float]]] = {}
    for source, rows in bench.rows("relevance").items():
        results = bench.results(ContextUtilization(), [sample_of(row) for row in rows])
        for row, result in zip(rows, results, strict=True):
            labels = [label == 1 for label in row["labels"]["relevant"]]
            if result.value is None or not isinstance(
                result.evidence, UtilizationEvidence
            ):
                continue
            scores.setdefault(source, []).append(
                (result.value, average_precision(labels))
            )
            verdicts = [
                (
                    (
                        float(bool(chunk.useful))
                        if chunk.probability is None
                        else chunk.probability
                    ),
                    bool(chunk.useful),
                )
                for chunk in result.evidence.chunks
            ]
            paired = [
                (*verdict, label)
                for verdict, label in zip(verdicts, labels, strict=True)
            ]
            chunks.setdefault(source, []).append(paired)
    statistics: dict[str, Statistic] = {
        "AUROC": ranked_chunks,
        "balanced": lambda lists: balanced_accuracy(
            [(useful, label) for own in lists for _, useful, label in own]
        ),
    }
    bench.table(CHUNKS, chunks, statistics)
    against = {"MAE": mean_error, "r": correlation}
    bench.table(UTILIZATION, scores, against)
    clean = {
        source: own for source, own in scores.items() if source != "expertqa_usefulness"
    }
    bench.table(
        "The same without expertqa_usefulness, whose labels are noisy", clean, against
    )


def accuracy(bench: Bench) -> None:
    """Retrieval Accuracy against labels: single facts where people listed them, and the share found."""
    facts: dict[str, list[list[tuple[float, bool]]]] = {}
    scores: dict[str, list[tuple[float, float]]] = {}
    for source, rows in bench.rows("recall").items():
        results = bench.results(RetrievalAccuracy(), [sample_of(row) for row in rows])
        for row, result in zip(rows, results, strict=True):
            if result.value is None or not isinstance(
                result.evidence, AccuracyEvidence
            ):
                continue
            scores.setdefault(source, []).append(
                (result.value, row["labels"]["recall"])
            )
            present = {
                fact["text"]: fact["present"] == 1 for fact in row.get("facts", ())
            }
            if present:
                best = [
                    max(cell.probability or 0.0 for cell in cells)
                    for cells in result.evidence.cells
                ]
                pairs = zip(
                    best,
                    (present[fact.text] for fact in result.evidence.facts),
                    strict=True,
                )
                facts.setdefault(source, []).append(list(pairs))
    statistics: dict[str, Statistic] = {
        "AUROC": ranked_facts,
        "balanced": lambda lists: balanced_accuracy(
            [(score > 0.5, label) for own in lists for score, label in own]
        ),
    }
    bench.table(FACTS, facts, statistics)
    bench.table(SHARE_FOUND, scores, {"MAE": mean_error, "r": correlation})


def recall(bench: Bench) -> None:
    """Context Recall on pairs of answers: does it prefer the one that people prefer?"""
    agreed: dict[str, list[float]] = {}
    for source, rows in bench.rows("reference_pairs").items():
        decided = [row for row in rows if row["labels"]["overall"]]
        sides = []
        for side in (0, 1):
            samples = [
                Sample(
                    question=row["question"],
                    answer=row["answers"][side],
                    reference=row["reference"],
                )
                for row in decided
            ]
            sides.append(
                [result.value for result in bench.results(ContextRecall(), samples)]
            )
        for row, first, second in zip(decided, *sides, strict=True):
            if first is not None and second is not None:
                prefers = (second > first) == (row["labels"]["overall"] > 0)
                agreed.setdefault(source, []).append(
                    0.5 if first == second else float(prefers)
                )
    bench.table(PREFERENCE, agreed, {"share": _share})


def measure(bench: Bench) -> None:
    """Every table."""
    for section in (adherence, utilization, accuracy, recall):
        section(bench)


def judge_named(name: str | None) -> Judge:
    """The judge to test: the embedded one, or a model's name."""
    if name in (None, "lexical"):
        from ragmetrics_core.lexical.lexical_judge import LexicalJudge

        return LexicalJudge()
    from ragmetrics_core.engine.resolve import resolve_judge

    return resolve_judge(name)


def main() -> None:
    """Print every table for one judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the labelled rows")
    parser.add_argument(
        "--judge", help="name of a judge or model; by default the embedded one"
    )
    parser.add_argument("--limit", type=int, help="most rows per source")
    parser.add_argument(
        "--draws", type=int, default=500, help="bootstrap resamples (default 500)"
    )
    options = parser.parse_args()
    bench = Bench(
        judge_named(options.judge), options.data, options.limit, options.draws
    )
    print(
        f"judge {bench.judge.name}; 95 % intervals: {options.draws} resamples of rows,"
        " seed 0; * easy by construction"
    )
    measure(bench)
    print(
        f"\n{bench.samples} samples in {bench.seconds:.1f} s:"
        f" {bench.samples / bench.seconds:.0f} per second",
        end="; ",
    )
    print(
        ", ".join(
            f"{count} {status}" for status, count in sorted(bench.statuses.items())
        )
    )


if __name__ == "__main__":
    main()
