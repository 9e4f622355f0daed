"""Labels of people beside the scores of a run: read, matched, measured per source, never pooled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from ragmetrics_core.data.errors import InputError, RowError
from ragmetrics_core.data.files import read_text
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.agreement import (
    Interval,
    auroc,
    balanced_accuracy,
    bootstrap,
    kappa,
    macro_bootstrap,
)
from ragmetrics_core.statistics.calibration import calibration_error, slope_and_intercept
from ragmetrics_core.statistics.raters import brier, gwet, krippendorff, matthews

Statistic = Callable[[Sequence["Labelled"]], float | None]

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Label:
    """What people said of one sample.

    Args:
        id: The sample's id.
        votes: One vote per annotator; a graded label from 0.5 on is a yes. Empty if it was drawn and not labelled.
        source: Where the sample comes from.
        probability: Probability with which it was drawn; None if no draw recorded one.
    """

    id: str
    votes: tuple[bool, ...]
    source: str
    probability: float | None = None

    @property
    def yes(self) -> bool:
        """The majority's vote; a tie is a no."""
        return 2 * sum(self.votes) > len(self.votes)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A score with the label of people; with ``rival``, the score of another judge."""

    score: float
    label: Label
    rival: float | None = None


def read_labels(path: Path, *, column: str = "label") -> list[Label]:
    """Read labels, one JSON object per line: ``{"id": "s1", "label": 1, "source": "faq"}``.

    Args:
        path: The file.
        column: Name or dotted path of the label: 0/1, true/false, a number from 0 to 1, or a list of these, one
            per annotator. ``source`` is optional.

    Raises:
        InputError: If the file cannot be read or has no label.
        RowError: If a line is broken; the message names it.
    """
    lines = read_text(path).split("\n")
    found = [_label(line, f"{path}, line {n}", column) for n, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise InputError(f"{path} has no labels")
    return found


def _label(line: str, place: str, column: str) -> Label:
    try:
        row: Any = json.loads(line)
    except ValueError as error:
        raise RowError(f"{place}: not JSON") from error
    if not isinstance(row, Mapping) or row.get("id") is None:
        raise RowError(f'{place}: needs an object with "id" and the label')
    value: Any = row
    for name in column.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    given: Any = row.get("probability")
    probability = float(given) if isinstance(given, (int, float)) and 0 < given <= 1 else None
    drawn = probability is not None
    votes = value if isinstance(value, list) else [] if drawn and value is None else [value]
    if not (votes or (drawn and value is None)) or not all(
        isinstance(vote, (bool, int, float)) and 0 <= vote <= 1 for vote in votes
    ):
        raise RowError(f"{place}: {column!r} must be a number from 0 to 1, true or false, or a list of these")
    yes = tuple(float(vote) >= _HALF for vote in votes)
    return Label(str(row["id"]), yes, str(row.get("source") or "all"), probability)


def matched(report: Report, metric: str, labels: Sequence[Label], rival: Report | None = None) -> list[Labelled]:
    """Scores with their labels, matched by id; samples without a score are left out.

    Raises:
        InputError: If nothing matches.
        SettingError: If a report has no such metric.
    """
    scores, others = (_scores(own, metric) if own else {} for own in (report, rival))
    found = [
        Labelled(scores[label.id], label, others.get(label.id))
        for label in labels
        if label.votes and label.id in scores and (rival is None or label.id in others)
    ]
    if not found:
        raise InputError(f"no scored sample of {metric} has a label; labels and samples are matched by id")
    return found


def _scores(report: Report, metric: str) -> dict[str, float]:
    pairs = zip(report.results, report.scores(metric), strict=True)
    return {row.sample.id: score for row, score in pairs if score is not None and row.sample and row.sample.id}


def measures(threshold: float) -> dict[str, Statistic]:
    """The measures of agreement by name; verdicts are scores from the threshold on."""

    def verdicts(rows: Sequence[Labelled]) -> list[tuple[bool, bool]]:
        return [(row.score >= threshold, row.label.yes) for row in rows]

    def scores(rows: Sequence[Labelled]) -> list[tuple[float, bool]]:
        return [(row.score, row.label.yes) for row in rows]

    def calibrated(place: int) -> Statistic:
        return lambda rows: None if (found := slope_and_intercept(scores(rows))) is None else found[place]

    return {
        "AUROC": lambda rows: auroc(scores(rows)),
        "balanced accuracy": lambda rows: balanced_accuracy(verdicts(rows)),
        "MCC": lambda rows: matthews(verdicts(rows)),
        "kappa": lambda rows: kappa(verdicts(rows)),
        "Gwet's AC1": lambda rows: gwet(verdicts(rows)),
        "prevalence": lambda rows: fmean(row.label.yes for row in rows),
        "Brier": lambda rows: brier(scores(rows)),
        "slope": calibrated(0),
        "intercept": calibrated(1),
        "calibration error": lambda rows: calibration_error(scores(rows)),
        "human kappa": human_kappa,
        "human alpha": lambda rows: krippendorff([row.label.votes for row in rows]),
    }


def human_kappa(rows: Sequence[Labelled]) -> float | None:
    """Mean kappa over pairs of annotators, in the order of the votes: the ceiling; None with one annotator."""
    most = max(len(row.label.votes) for row in rows)
    pairs = (
        [(row.label.votes[a], row.label.votes[b]) for row in rows if len(row.label.votes) > b]
        for a, b in combinations(range(most), 2)
    )
    known = [value for value in map(kappa, pairs) if value is not None]
    return fmean(known) if known else None


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure over one source, or the mean over sources (source None); None where undefined."""

    measure: str
    source: str | None
    count: int
    value: float | None
    interval: Interval | None


def measure_all(rows: Sequence[Labelled], statistics: Mapping[str, Statistic], *, draws: int = 500) -> list[Measured]:
    """Every measure per source, and its mean over sources, with 95 % bootstrap intervals; nothing is pooled.

    Args:
        rows: Scores with labels.
        statistics: The measures.
        draws: Resamples of rows within each source.
    """
    sources: dict[str, list[Labelled]] = {}
    for row in rows:
        sources.setdefault(row.label.source, []).append(row)
    found = []
    for name, compute in statistics.items():
        values = {source: compute(own) for source, own in sources.items()}
        known = {source: value for source, value in values.items() if value is not None}
        for source, own in sources.items():
            interval = bootstrap(own, compute, draws=draws) if source in known else None
            found.append(Measured(name, source, len(own), values[source], interval))
        interval = macro_bootstrap([sources[s] for s in known], compute, draws=draws) if known else None
        found.append(Measured(name, None, len(known), fmean(known.values()) if known else None, interval))
    return found


def rival_measures(threshold: float) -> dict[str, Statistic]:
    """Differences between the judge and its rival on the same rows: judge − rival."""
    plain = {name: own for name, own in measures(threshold).items() if name in ("AUROC", "balanced accuracy", "Brier")}

    def difference(compute: Statistic) -> Statistic:
        def of(rows: Sequence[Labelled]) -> float | None:
            other = compute([Labelled(row.rival, row.label) for row in rows if row.rival is not None])
            own = compute(rows)
            return None if own is None or other is None else own - other

        return of

    return {f"{name}, difference": difference(compute) for name, compute in plain.items()}
