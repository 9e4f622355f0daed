"""Comparing two runs over the same samples.

A comparison says of each metric whether the second run is better, worse or the same, and
where the rows cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from ragmetrics_core.data import (
    Frozen,
    SampleResult,
    SettingError,
    caution_about,
    did_you_mean,
    element,
    import_deferred,
)
from ragmetrics_core.data.display import as_line, judges_in_words
from ragmetrics_core.data.display import table as html_rows
from ragmetrics_core.reporting.metric_change import VERDICTS, MetricChange, value_of
from ragmetrics_core.reporting.pairing import Matched, Pair
from ragmetrics_core.reporting.run_facts import Decision
from ragmetrics_core.statistics.stopping import ROUNDING, Outcome


class Changed(NamedTuple):
    """A sample whose score of one metric changed.

    It holds the difference, second − first, and the sample as both runs saw it.
    """

    difference: float
    metric: str
    first: SampleResult
    second: SampleResult


class Comparison(Frozen):
    """Two runs side by side; "second − first" everywhere."""

    changes: tuple[MetricChange, ...] = Field(
        description="one entry per metric and slice"
    )
    matched: Matched = Field(
        repr=False, description="the rows of both runs, those without a partner apart"
    )
    judges: tuple[str, ...] = Field(
        default=(), repr=False, description="who judged the two runs"
    )
    addresses: dict[str, tuple[str, ...]] = Field(
        default={}, repr=False, description="by judge, the addresses that were asked"
    )
    margin: float = Field(description="a loss up to this does not matter")
    differing: tuple[str, ...] = Field(
        default=(),
        description="in what the runs are not comparable; only with ``anyway``",
    )
    stopped: str = Field(
        default="",
        description=(
            'why either run ended before all its rows were read; "" if neither did'
        ),
    )
    lacking: tuple[str, ...] = Field(
        default=(), description="metrics of the first run that the second run lacks"
    )
    titles: tuple[str, str] = Field(
        default=("first run", "second run"), description="which runs these are"
    )
    added: tuple[str, ...] = Field(
        default=(), description="metrics of the second run that the first run lacks"
    )

    def __getitem__(self, name: str) -> MetricChange:
        """Return the change of a metric.

        It is over all samples, or over one slice for ``"metric [slice]"``.
        """
        change_by_name = {change.name: change for change in self.changes}
        if name not in change_by_name:
            raise SettingError(
                f"no {name!r} in this comparison{did_you_mean(name, change_by_name)}; it has:"
                f" {', '.join(change_by_name)}"
            )
        return change_by_name[name]

    @property
    def over_all_samples(self) -> tuple[MetricChange, ...]:
        """The changes over all samples, without those of slices, the worst first."""
        changes = [change for change in self.changes if change.slice is None]
        changes.sort(key=lambda change: VERDICTS.index(change.verdict))
        return tuple(changes)

    @property
    def metrics_in_order(self) -> tuple[str, ...]:
        """The metrics in the order of their verdicts, losses first."""
        return tuple(change.metric for change in self.over_all_samples)

    @property
    def headline(self) -> str:
        """What follows for the second run, in one sentence."""
        by_verdict: dict[str, list[str]] = {}
        for change in self.over_all_samples:
            by_verdict.setdefault(change.verdict, []).append(change.metric)
        parts = [
            f"{verdict} in {', '.join(by_verdict[verdict])}"
            for verdict in ("worse", "better")
            if verdict in by_verdict
        ]
        if parts:
            return f"The second run is {' and '.join(parts)}."
        if set(by_verdict) == {"identical"}:
            return "Both runs came to the same on every row."
        return "No metric is shown to be better or worse."

    @property
    def moved(self) -> tuple[Changed, ...]:
        """Every row whose score of any metric changed, each once, losses first.

        A row stands with the metric that changed most. Example: changes of +.4, -.2, 0 and
        -.5 in four rows: -.5, -.2, +.4.
        """
        changes = [
            _largest_change(pair, self.metrics_in_order) for pair in self.matched.pairs
        ]
        moved = [change for change in changes if change is not None]
        moved.sort(key=lambda change: (change.difference > 0, -abs(change.difference)))
        return tuple(moved)

    def regression(self, *, strict: bool = False) -> dict[str, Outcome]:
        """Per metric and slice: is the second run worse? See ``regressions``."""
        return {
            decision.metric: decision.outcome
            for decision in self.regressions(strict=strict)
        }

    def regressions(self, *, strict: bool = False) -> tuple[Decision, ...]:
        """Per metric and slice: is the second run worse, and why?

        ``failed`` only where it is worse; ``undecided`` where a run ended early, and for
        a metric that the second run lacks; else ``passed``.

        Args:
            strict: Whether it is undecided, too, where the rows cannot tell.
        """
        decisions = []
        for change in self.changes:
            outcome: Outcome = "failed" if change.verdict == "worse" else "passed"
            if strict and change.verdict == "cannot tell":
                outcome = "undecided"
            sentence = f"{change.name}: {change.verdict}; {change.in_words}"
            if self.stopped:
                outcome = "undecided"
                sentence = f"{change.name} is not held: {self.stopped}"
            decisions.append(
                Decision(metric=change.name, outcome=outcome, sentence=sentence)
            )
        # the sentences on metrics that the second run lacks come first
        for name, sentence in zip(self.lacking, self.not_compared, strict=False):
            decisions.append(
                Decision(metric=name, outcome="undecided", sentence=sentence)
            )
        return tuple(decisions)

    def table(self) -> str:
        """Return the comparison as plain text, without texts of samples.

        There is the headline, then a line for each metric and slice, the worst first.
        """
        width = max((len(change.name) for change in self.changes), default=0)
        lines = [self.headline, *self._caveats(), ""]
        slices = [change for change in self.changes if change.slice is not None]
        for change in (*self.over_all_samples, *slices):
            lines.append(
                f"  {change.name:<{width}}  {change.verdict:<11}  {change.in_words}"
            )
        lines += ["", f"{self.matched} {self.judged}"]
        return "\n".join(map(as_line, lines))

    __str__ = __repr__ = table

    def _caveats(self) -> list[str]:
        """What makes the runs hard to compare, a line each."""
        return [
            *([f"! undecided: {self.stopped}"] if self.stopped else []),
            *(f"! not comparable: {reason}" for reason in self.differing),
            *(f"! {sentence}" for sentence in self.not_compared),
        ]

    @property
    def rule(self) -> str:
        """By which rule the verdicts are given; "" where nothing was tested."""
        if not any(change.p is not None for change in self.changes):
            return ""
        return (
            "Worse: the one-sided 95 % interval of the paired difference lies below"
            f" −{self.margin:g}, or the second run lost more scores than it won"
            " (McNemar); p corrected by Holm is at most 0.05. Better: the same the"
            " other way round. Same: the whole interval lies within the margin, at"
            " least ±0.02. Identical: every row came to the same."
        )

    @property
    def caution(self) -> str:
        """What the verdicts do not cover: mistakes that the judge repeats."""
        is_tested = any(change.p is not None for change in self.changes)
        return caution_about(self.judges, has_range=is_tested)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """The metrics that only one of the runs has, in words.

        Those that the second run lacks come first.
        """
        return (
            *(
                f"{name} is not compared: the second run lacks it"
                for name in self.lacking
            ),
            *(f"{name} is not compared: the first run lacks it" for name in self.added),
        )

    @property
    def judged(self) -> str:
        """Who judged, in words."""
        return f"Judge: {judges_in_words(self.judges, self.addresses) or 'unknown'}."

    def _repr_html_(self) -> str:
        """The comparison as a notebook shows it: the headline, and all changes."""
        rows = [
            (change.name, change.verdict, [change.in_words, *change.details])
            for change in self.changes
        ]
        table = html_rows(rows, ("metric", "second run", "why"))
        notes = [self.headline, *self._caveats(), f"{self.matched} {self.judged}"]
        notes += [note for note in (self.caution, self.rule) if note]
        return f"<div>{element('p', notes)}{table}</div>"

    def to_html(self, path: str | Path) -> None:
        """Write the comparison as one HTML page that opens offline.

        Texts of changed samples are in it.

        Raises:
            MissingDependency: If Jinja2 is not installed.
            InputError: If the file cannot be written.
        """
        import_deferred("write_comparison")(path, self)


def _largest_change(pair: Pair, metrics: Iterable[str]) -> Changed | None:
    """The largest change of a row's scores; None if none changed."""
    before, after = pair
    largest: Changed | None = None
    for metric in metrics:
        score_before = value_of(before.results.get(metric))
        score_after = value_of(after.results.get(metric))
        if score_before is None or score_after is None:
            continue
        change = Changed(score_after - score_before, metric, before, after)
        if largest is None or abs(change.difference) > abs(largest.difference):
            largest = change
    is_moved = largest is not None and abs(largest.difference) > ROUNDING
    return largest if is_moved else None
