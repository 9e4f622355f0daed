"""Comparing two runs over the same samples.

A comparison says of each metric whether the second run is better, worse or the same, and
where the rows cannot tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from ragmetrics_core.data import (
    EMBEDDED,
    Frozen,
    InputError,
    SampleResult,
    SettingError,
    caution_about,
    element,
    find_metric,
    import_deferred,
)
from ragmetrics_core.data.display import as_line, count_in_words, judges_in_words
from ragmetrics_core.data.display import table as html_rows
from ragmetrics_core.data.frozen import check_share
from ragmetrics_core.data.scalars import ROUNDING
from ragmetrics_core.reporting.diagnosis import STAGES, Stage, diagnose
from ragmetrics_core.reporting.gates import MIN_SCORED
from ragmetrics_core.reporting.groups import GroupBy, check_keys
from ragmetrics_core.reporting.metric_change import VERDICTS, MetricChange, changes_of
from ragmetrics_core.reporting.pairing import (
    Matched,
    count_moved_questions,
    count_other_questions,
    differences,
    match,
)
from ragmetrics_core.reporting.run_facts import Decision, GateOutcome

if TYPE_CHECKING:
    from ragmetrics_core.metrics.registry import MetricLike
    from ragmetrics_core.reporting.report import Report

MARGIN = 0.0
"""A loss up to this does not matter; any counts unless the user says otherwise."""


class Changed(NamedTuple):
    """A sample whose score of one metric changed.

    It holds the difference, second − first, and the sample as both runs saw it.
    """

    difference: float
    metric: str
    first: SampleResult
    second: SampleResult


class Comparison(Frozen):
    """Two runs side by side; "second − first" everywhere.

    Attributes:
        changes: One entry per metric and slice.
        matched: The rows of both runs, those without a partner apart.
        judges: Who judged the two runs.
        addresses: By judge, the addresses that were asked.
        margin: A loss up to this does not matter.
        differing: In what the runs are not comparable; only with ``anyway``.
        stopped: Why either run ended before all its rows were read; "" if neither did.
        lacking: Metrics of the first run that the second run lacks.
        titles: Which runs these are.
        added: Metrics of the second run that the first run lacks.
    """

    changes: tuple[MetricChange, ...]
    matched: Matched = Field(repr=False)
    judges: tuple[str, ...] = Field(default=(), repr=False)
    addresses: dict[str, tuple[str, ...]] = Field(default={}, repr=False)
    margin: float
    differing: tuple[str, ...] = ()
    stopped: str = ""
    lacking: tuple[str, ...] = ()
    titles: tuple[str, str] = ("first run", "second run")
    added: tuple[str, ...] = ()

    def __getitem__(self, metric: MetricLike) -> MetricChange:
        """Return the change of a metric.

        It is over all samples, or over one slice for ``"metric [slice]"``.
        """
        change_by_name = {change.name: change for change in self.changes}
        names = list(change_by_name)
        return change_by_name[find_metric(metric, names, place="in this comparison")]

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
        """What follows for the second run, and how many rows have a fault at each stage.

        Example: "The second run is worse. Faults in 200 rows: search 17 → 17, prompt 0 →
        0, answer 24 → 67."
        """
        verdicts = [change.verdict for change in self.over_all_samples]
        if set(verdicts) == {"identical"}:
            return "Both runs came to the same on every row."
        n_worse, n_better = verdicts.count("worse"), verdicts.count("better")
        if n_worse and n_better:
            sentence = (
                f"The second run is worse in {count_in_words(n_worse, 'metric')} and"
                f" better in {n_better:,}."
            )
        elif n_worse or n_better:
            sentence = f"The second run is {'worse' if n_worse else 'better'}."
        else:
            sentence = "No metric is shown to be better or worse."
        if not n_worse and any(change.verdict == "worse" for change in self.changes):
            sentence = f"{sentence[:-1]}, but a slice is worse."
        if set(self.judges) == {EMBEDDED}:
            sentence = f"By words alone, {sentence[0].lower()}{sentence[1:]}"

        # of how many matched rows a rule finds a fault of a known stage
        n_before, n_after = Counter[Stage](), Counter[Stage]()
        for first, second in self.matched.pairs:
            for row, counts in ((first, n_before), (second, n_after)):
                diagnosis = diagnose(row)
                if diagnosis.kind == "fault" and diagnosis.stage is not None:
                    counts[diagnosis.stage] += 1
        if not n_before and not n_after:
            return sentence
        counted = ", ".join(
            f"{stage} {n_before[stage]:,} → {n_after[stage]:,}" for stage in STAGES
        )
        rows = count_in_words(len(self.matched.pairs), "row")
        return f"{sentence} Faults in {rows}: {counted}."

    @property
    def moved(self) -> tuple[Changed, ...]:
        """Every row whose score of any metric changed, each once, losses first.

        A row stands with the metric that changed most. Example: changes of +.4, -.2, 0 and
        -.5 in four rows: -.5, -.2, +.4. Of equal changes it is the last metric's:
        usefulness, which comes first, is judged against the answer, and falls with it.
        """
        moved: list[Changed] = []
        for before, after in self.matched.pairs:
            largest: Changed | None = None
            for metric in self.metrics_in_order:
                score_before = before.score_of(metric)
                score_after = after.score_of(metric)
                if score_before is None or score_after is None:
                    continue
                change = Changed(score_after - score_before, metric, before, after)
                if largest is None or abs(change.difference) >= abs(largest.difference):
                    largest = change
            if largest is not None and abs(largest.difference) > ROUNDING:
                moved.append(largest)
        moved.sort(key=lambda change: (change.difference > 0, -abs(change.difference)))
        return tuple(moved)

    def regressions(self, *, strict: bool = False) -> tuple[Decision, ...]:
        """Per metric and slice: is the second run worse, and why?

        ``failed`` only where it is worse; ``undecided`` where a run is incomplete, more
        than 5 % of the rows failed in one, and for a metric that the second run lacks;
        else ``passed``.

        Args:
            strict: Whether it is undecided, too, where the rows cannot tell.
        """
        decisions = []
        for change in self.changes:
            outcome: GateOutcome = "failed" if change.verdict == "worse" else "passed"
            if strict and change.verdict == "cannot tell":
                outcome = "undecided"
            sentence = f"{change.name}: {change.verdict}; {change.in_words}"
            has_too_few = change.n_unknown > (1 - MIN_SCORED) * change.rows
            if outcome == "passed" and has_too_few:
                outcome = "undecided"
            if self.stopped:
                outcome = "undecided"
                sentence = f"{change.name} cannot be decided: {self.stopped}"
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
        width = max(len(change.name) for change in self.changes)
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
        return caution_about(self.judges, has_range=bool(self.rule))

    @property
    def not_compared(self) -> tuple[str, ...]:
        """The metrics that only one of the runs has, in words.

        Those that the second run lacks come first.
        """
        names_and_runs = [(name, "second") for name in self.lacking]
        names_and_runs += [(name, "first") for name in self.added]
        return tuple(
            f"{name} is not compared: the {run} run lacks it"
            for name, run in names_and_runs
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
        write_comparison = import_deferred(
            "page.comparison_page:write_comparison", "a page of a comparison"
        )
        write_comparison(path, self)


def compare(
    before: Report,
    after: Report,
    *,
    metrics: Sequence[MetricLike] | MetricLike | None = None,
    cluster: GroupBy = "auto",
    slices: GroupBy = None,
    margin: float = MARGIN,
    anyway: bool = False,
) -> Comparison:
    """Compare two finished runs over the samples that both hold.

    Example: scores .5 and .7 before, .6 and .9 after: the difference is +.15, tested
    over the pairs.

    Args:
        before: The run to compare with.
        after: The run in question; differences are after − before.
        metrics: One or several metrics, their classes or names; None for all that both
            runs have.
        cluster: Which samples belong together, as in ``Report.summary``: by
            the first run, else by the second.
        slices: What splits the samples into slices, which are tested, too. P-values of
            metrics are adjusted together (Holm), and those of slices together. A sample
            belongs to the slice that the first run names, else to that of the second.
        margin: A loss up to this does not matter.
        anyway: Compare runs although they were not measured in the same way.

    Raises:
        InputError: If no sample is in both runs, or the runs are not comparable.
        SettingError: If a metric is not in both runs, or ``after`` is not a finished
            run.
    """
    check_share("the margin", margin)
    if not hasattr(after, "results"):
        raise SettingError(
            "two finished runs are compared: read results by Report.from_jsonl(…), or"
            " judge rows by evaluate(…)"
        )
    names = _names_in_both(before, after, metrics)
    keys_of_slices = () if slices is None else (slices,)
    rows = (*before.results, *after.results)
    check_keys(rows, slices=keys_of_slices, cluster=cluster)

    matched = match(before.results, after.results)
    n_moved = count_moved_questions(matched)
    if n_moved and not anyway:
        raise InputError(
            f"{n_moved:,} of {count_in_words(len(matched.pairs), 'question')} of the first"
            " run stand at another id in the second; if ids are the places of rows,"
            " evaluate without them (stored replies cost nothing): rows are then matched"
            " by question"
        )
    differing = _why_not_comparable(before, after, matched, names)
    if differing and not anyway:
        raise InputError(
            f"the runs are not comparable: {'; '.join(differing)}. Measure both in the"
            " same way, or compare them anyway (anyway=True, --anyway)"
        )
    changes = changes_of(matched.parts(slices), names, cluster, margin)
    judges = tuple(dict.fromkeys((*before.run.judges, *after.run.judges)))
    addresses_by_judge = {}
    for judge in judges:
        asked = [report.run.addresses.get(judge, ()) for report in (before, after)]
        addresses_by_judge[judge] = tuple(dict.fromkeys(chain.from_iterable(asked)))
    lacking = [name for name in before.metrics if name not in after.metrics]
    added = [name for name in after.metrics if name not in before.metrics]
    return Comparison(
        changes=tuple(changes),
        matched=matched,
        judges=judges,
        addresses=addresses_by_judge,
        margin=margin,
        differing=tuple(differing),
        stopped=_why_rows_are_missing(before, after, matched),
        # named where all metrics are compared
        lacking=tuple(lacking) if metrics is None else (),
        added=tuple(added) if metrics is None else (),
    )


def _names_in_both(
    before: Report, after: Report, metrics: Sequence[MetricLike] | MetricLike | None
) -> list[str]:
    """Return the full names of the metrics to compare, in the order asked for.

    Example: ["adherence"] gives ["context_adherence"].

    Raises:
        InputError: If the runs have no metric in common.
        SettingError: If a metric is not in both runs.
    """
    in_both = [name for name in before.metrics if name in after.metrics]
    if not in_both:
        raise InputError("the two runs have no metric in common")
    if isinstance(metrics, str) or not isinstance(metrics, Collection | None):
        metrics = [metrics]
    full_names = [
        find_metric(metric, in_both, place="in both runs")
        for metric in metrics or in_both
    ]
    return list(dict.fromkeys(full_names))


def _why_not_comparable(
    before: Report, after: Report, matched: Matched, names: Sequence[str]
) -> list[str]:
    """Say why two runs are not comparable, a phrase for each reason; empty if they are.

    Example: "judge gpt at http://a against http://b", "3 of 40 samples of one id have
    another question or reference".
    """
    phrases = []

    # With ids a row keeps its partner. Without them an edited question leaves a row
    # alone in each run; rows that were only added, or only lost, leave none in the other.
    if matched.by != "id":
        first = _questions_of(matched.first_only)
        second = _questions_of(matched.second_only)
        n_edited = min(len(first - second), len(second - first))
        if n_edited:
            phrases.append(
                f"{count_in_words(n_edited, 'question')} of the first run may stand in"
                " the second in other words; give each row an id"
            )
    n_other_questions = count_other_questions(matched.pairs)
    if n_other_questions:
        phrases.append(
            f"{n_other_questions} of {len(matched.pairs)} samples of one {matched.by}"
            " have another question or reference"
        )

    for name in names:
        phrases += differences(matched.pairs, name)  # of the metric's settings

    for judge, addresses in before.run.addresses.items():
        if before.run.has_other_endpoints(judge, after.run.endpoints(judge)):
            phrases.append(
                f"judge {judge} at {', '.join(addresses)} against"
                f" {', '.join(after.run.addresses[judge])}"
            )
    return phrases


def _questions_of(rows: Iterable[SampleResult]) -> set[str | None]:
    """The questions of rows that could be read."""
    return {row.sample.question for row in rows if row.sample is not None}


def _why_rows_are_missing(before: Report, after: Report, matched: Matched) -> str:
    """Why a run has too few rows to decide on; "" if both have enough.

    Either ended before all its rows were read, or the second lost rows of the first.
    """
    reasons = []
    for which, report in (("first", before), ("second", after)):
        why = report.run.ended_early
        if why:
            reasons.append(f"the {which} run is incomplete: {why}")
    n_lost = sum(row.sample is not None for row in matched.first_only)
    n_rows = len(matched.pairs) + n_lost
    if not reasons and len(matched.pairs) < MIN_SCORED * n_rows:
        reasons.append(
            f"the second run has {len(matched.pairs):,} of the first one's {n_rows:,}"
            f" rows, and a gate needs {100 * MIN_SCORED:.0f} %"
        )
    return "; ".join(reasons)
