"""Comparing two runs over the same samples.

A comparison says what changed, by how much, and whether chance could have done it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from ragmetrics_core.data import (
    Frozen,
    InputError,
    MetricResult,
    SampleResult,
    SettingError,
    caution_about,
    did_you_mean,
    element,
    find_metric,
    import_deferred,
)
from ragmetrics_core.data.display import judges_in_words
from ragmetrics_core.data.display import table as html_rows
from ragmetrics_core.reporting.changed_samples import (
    Changed,
    most_changed,
    rank_losses,
    value_of,
)
from ragmetrics_core.reporting.gates import three_way
from ragmetrics_core.reporting.pairing import (
    GroupBy,
    KeysSought,
    Matched,
    Pair,
    are_identical,
    count_other_questions,
    count_other_slices,
    differences,
    group_pairs,
    judges_elsewhere,
    match,
)
from ragmetrics_core.reporting.row_shifts import RowShift, p_of_shifts, row_shifts
from ragmetrics_core.reporting.run_facts import Decision, SequentialDecision
from ragmetrics_core.statistics import paired
from ragmetrics_core.statistics.means import Interval
from ragmetrics_core.statistics.stopping import (
    MIN_SCORED,
    ROUNDING,
    Outcome,
    check_share,
)

if TYPE_CHECKING:
    from ragmetrics_core.metrics.metric import Metric
    from ragmetrics_core.reporting.report import Report

MARGIN = 0.02
"""Differences up to this do not matter, unless the user says otherwise."""

_ALPHA = 0.05

Bounds = tuple[float, float]
Verdict = Literal["identical", "better", "worse", "same", "undecided", "not tested"]

_VERDICT_WORDS: dict[Verdict, str] = {
    "worse": "The second run is worse in",
    "better": "The second run is better in",
    "identical": "Identical, all rows and their outcomes are equal in both runs:",
    "same": "The same in both:",
    "undecided": "Undecided, neither better nor worse nor the same is shown:",
    "not tested": "Not tested, because a run stopped when its gates were decided:",
}
_NOTHING_CHANGED = (
    "No row scored differently, but the pairs are too few to call both runs the same:"
)


class MetricChange(Frozen):
    """One metric in both runs, over all matched samples or those of one slice."""

    metric: str = Field(description="name of the metric")
    slice: str | None = Field(
        default=None, description="value of the slice; None for all samples"
    )
    rows: int = Field(
        default=0, description="all rows of either run, those without a partner too"
    )
    outcomes: dict[str, int] = Field(
        default={}, description="how often each pair occurs, e.g. scored/failed"
    )
    abstained: float = Field(
        default=1.0, description="McNemar's p-value for abstentions"
    )
    failed: float = Field(default=1.0, description="McNemar's p-value for failures")
    pairs: int = Field(default=0, description="samples scored in both")
    difference: float | None = Field(
        default=None, description="mean of second − first over them, if any"
    )
    interval: Interval | None = Field(default=None, description="its 95 % interval")
    p: float | None = Field(default=None, description="p-value of the permutation test")
    exact: bool = Field(
        default=False, description="true if every pattern of signs was tried"
    )
    detectable: float | None = Field(
        default=None,
        description="smallest true difference that this design finds with 80 %",
    )
    needed: int | None = Field(
        default=None,
        description="pairs needed to find a difference of the margin with 80 %",
    )
    one_sided: Bounds | None = Field(
        default=None,
        description="its one-sided 95 % bounds, failures at the worst and the best",
    )
    bounds: Bounds | None = Field(
        default=None,
        description="the difference with failures at the worst and at the best",
    )
    p_holm: float | None = Field(
        default=None, description="p-value adjusted for everything tested here"
    )
    verdict: Verdict = Field(
        default="undecided", description="what follows for the second run"
    )

    @property
    def name(self) -> str:
        """The metric, with its slice."""
        return self.metric if self.slice is None else f"{self.metric} [{self.slice}]"

    @property
    def line(self) -> str:
        """The change in one line: the verdict, the difference and its interval."""
        words = f"{self.name}: {self.verdict}"
        if not self.outcomes:
            return f"{words}, no row is in both runs"
        if self.difference is None:
            return f"{words}, no row is scored in both runs"
        words += f", {self.difference:+.3f} over {self.pairs} pairs"
        if self.interval is not None:
            low, high = self.interval.low, self.interval.high
            words += f", 95 % interval {low:+.3f} to {high:+.3f}"
        return words

    @property
    def in_numbers(self) -> str:
        """The difference, its interval, and over how many rows; "" without one."""
        if self.difference is None:
            return ""
        words = f"{self.difference:+.3f} over {self.pairs:,} rows scored in both"
        if self.interval is not None:
            low, high = self.interval.low, self.interval.high
            words += f", 95 % interval {low:+.3f} to {high:+.3f}"
        return words

    @property
    def is_chance_of_many(self) -> bool:
        """Whether it is undecided only because much was tested at once."""
        return self.verdict == "undecided" and self.excludes_zero

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        if self.interval is None:
            return False
        return self.interval.low > 0 or self.interval.high < 0

    def lines(self, margin: float) -> list[str]:
        """The change in words, the verdict first."""
        outcomes = ", ".join(f"{count} {kind}" for kind, count in self.outcomes.items())
        lines = [
            f"{self.name}: {self.verdict}",
            f"  outcomes (first/second): {outcomes or 'no row is in both runs'}",
        ]
        if self.verdict == "identical":
            lines.append(
                "  all rows and all outcomes are equal in both runs, so there is"
                " nothing to estimate"
            )
        elif self.difference is None:
            lines.append("  no row is scored in both runs")
        elif self.interval is None or self.bounds is None:
            lines.append(
                f"  mean difference {self.difference:+.4f} over {self.pairs} pairs of a"
                " run until decided"
            )
        else:
            lines += self._lines_of_test(self.difference, self.interval, self.bounds)
            lines.append(self._power_line(margin))
        if self.abstained < 1:
            lines.append(
                f"  declined in one run only: McNemar's p = {self.abstained:.4f}"
            )
        if self.failed < 1:
            lines.append(f"  failed in one run only: McNemar's p = {self.failed:.4f}")
        return lines

    def _lines_of_test(
        self, difference: float, interval: Interval, bounds: Bounds
    ) -> list[str]:
        """The difference, its interval and its test in words."""
        low, high = interval.low, interval.high
        n_patterns = "every pattern" if self.exact else "9,999 random patterns"
        lines = [
            (
                f"  difference {difference:+.4f} over {self.pairs} pairs, 95 % interval"
                f" {low:+.4f} to {high:+.4f}"
            ),
            (
                f"  permutation test ({n_patterns} of signs): p = {self.p:.4f},"
                f" {self.p_holm:.4f} after Holm"
            ),
        ]
        worst, best = bounds
        if worst != difference or best != difference:
            lines.append(
                "  with failures at the worst and the best:"
                f" {worst:+.4f} to {best:+.4f}"
            )
        return lines

    def _power_line(self, margin: float) -> str:
        """What this design can find, in words."""
        line = (
            "  as many pairs would find a true difference of"
            f" {self.detectable:.4f} 4 times in 5"
        )
        if self.needed:
            line += f"; to find one of {margin:g} as often takes {self.needed:,} pairs"
        return line


class VerdictGroup(NamedTuple):
    """The metrics of one verdict, each over all samples, with words that lead to them."""

    verdict: Verdict
    words: str
    changes: tuple[MetricChange, ...]

    def __str__(self) -> str:
        """The group in one sentence."""
        names = []
        for change in self.changes:
            name = change.metric
            if change.difference is not None and self.verdict != "identical":
                name += f" ({change.in_numbers})"
            names.append(name)
        return f"{self.words} {', '.join(names)}."


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
    margin: float = Field(description="differences up to this do not matter")
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
    decisions: tuple[SequentialDecision, ...] = Field(
        default=(), description="made while the second run went on (``until``)"
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
    def most_changed(self) -> tuple[Changed, ...]:
        """Per metric the samples whose score changed most, losses first."""
        names = dict.fromkeys(change.metric for change in self.changes)
        return tuple(
            chain.from_iterable(
                most_changed(self.matched.pairs, name) for name in names
            )
        )

    @property
    def lost_most(self) -> tuple[Changed, ...]:
        """The samples that lost most: each once, those of the worst metric first.

        That is the metric in which the second run is decided to be worse, of several
        and without one that whose mean fell most.
        """
        badness = {
            change.metric: (change.verdict != "worse", change.difference or 0.0)
            for change in self._over_all_samples
        }
        return rank_losses(self.most_changed, badness)

    @property
    def shifts(self) -> tuple[RowShift, ...]:
        """In how many rows of each run the answer declined, or the judge failed."""
        changes = self._over_all_samples
        is_tested = all(change.verdict != "not tested" for change in changes)
        names = [change.metric for change in changes]
        return row_shifts(self.matched.pairs, names, is_tested=is_tested)

    @property
    def metrics_in_order(self) -> tuple[str, ...]:
        """The metrics in the order of their verdicts, losses first."""
        return tuple(
            change.metric for group in self.verdict_groups for change in group.changes
        )

    @property
    def _over_all_samples(self) -> list[MetricChange]:
        return [change for change in self.changes if change.slice is None]

    @property
    def verdict_groups(self) -> tuple[VerdictGroup, ...]:
        """What follows for each metric over all samples, losses first."""
        words = dict(_VERDICT_WORDS)
        if not self.most_changed:
            words["undecided"] = _NOTHING_CHANGED
        groups = []
        for verdict, leading_words in words.items():
            changes = tuple(
                change for change in self._over_all_samples if change.verdict == verdict
            )
            if changes:
                groups.append(VerdictGroup(verdict, leading_words, changes))
        return tuple(groups)

    def regression(self, *, min_scored: float = MIN_SCORED) -> dict[str, Outcome]:
        """Per metric and slice: did the second run lose more than the margin?

        See ``regressions``.
        """
        decisions = self.regressions(min_scored=min_scored)
        return {decision.metric: decision.outcome for decision in decisions}

    def regressions(self, *, min_scored: float = MIN_SCORED) -> tuple[Decision, ...]:
        """Per metric and slice: did the second run lose more than the margin, and why?

        ``passed`` if both runs are identical and anything was scored, or if the
        one-sided 95 % lower bound of the difference, with failures set to the worst,
        lies above −margin; ``failed`` if the upper bound, with failures set to the
        best, lies below; else ``undecided``, as after a run that ended early, where
        less than ``min_scored`` of all rows of either run is scored in both, and for a
        metric that the second run lacks.
        """
        check_share("min_scored", min_scored)
        if self.decisions:
            return self.decisions
        decisions = [self._regression(change, min_scored) for change in self.changes]
        # the sentences on metrics that the second run lacks come first
        for name, sentence in zip(self.lacking, self.not_compared, strict=False):
            decisions.append(
                Decision(metric=name, outcome="undecided", sentence=sentence)
            )
        return tuple(decisions)

    def _regression(self, change: MetricChange, min_scored: float) -> Decision:
        outcome, why = self._loss(change, min_scored)
        sentence = f"{change.name} against a loss of {self.margin:g}; {why}"
        return Decision(metric=change.name, outcome=outcome, sentence=sentence)

    def _loss(self, change: MetricChange, min_scored: float) -> tuple[Outcome, str]:
        """Whether the second run lost more than the margin, and why that is so."""
        if self.stopped:
            return "undecided", self.stopped
        if change.verdict == "identical":
            why = f"all {change.rows} rows and their outcomes are equal in both runs"
            if change.pairs:
                return "passed", why
            return "undecided", f"{why}, and none of them was scored"
        pairs_needed = min_scored * change.rows - ROUNDING
        if change.one_sided is None or change.pairs < pairs_needed:
            return "undecided", _why_few_are_scored(change)
        low, high = change.one_sided
        outcome = three_way(low, high, -self.margin)
        return outcome, f"one-sided bounds {low:+.4f} and {high:+.4f}"

    def table(self) -> str:
        """Return the comparison as plain text, a paragraph per metric, a line per slice.

        It holds no texts of samples.
        """
        lines = [
            str(self.matched),
            self.judged,
            *(f"! not comparable: {reason}" for reason in self.differing),
        ]
        lines += map(str, self.decisions)
        lines += [f"! {sentence}" for sentence in self.not_compared]
        for metric in self.metrics_in_order:
            lines += ["", *self[metric].lines(self.margin)]
        by_slice = [change for change in self.changes if change.slice is not None]
        if by_slice:
            lines += ["", "By slice:"]
        lines += [f"  {change.line}" for change in by_slice]
        if any(change.is_chance_of_many for change in self.changes):
            lines += ["", self.why_undecided]
        if self.rule:
            lines += ["", self.rule]
        return "\n".join(lines)

    __str__ = __repr__ = table

    @property
    def rule(self) -> str:
        """By which rule the verdicts are given; "" where nothing was tested."""
        if not any(change.p is not None for change in self.changes):
            return ""
        return (
            "A metric is better or worse, however little, where the interval leaves out"
            " 0, p corrected by Holm is at most 0.05, and no failed row could turn"
            " the sign. It is the same where p is over 0.05 and all that the difference"
            f" may be lies within ±{self.margin:g}."
        )

    @property
    def caution(self) -> str:
        """What the verdicts do not cover: mistakes that the judge repeats."""
        is_tested = any(change.p is not None for change in self.changes)
        return caution_about(self.judges, has_range=is_tested)

    @property
    def why_undecided(self) -> str:
        """Why a difference may be undecided whose interval leaves 0 out."""
        n_tested = sum(change.p is not None for change in self.changes)
        return (
            f"A difference may be undecided although its interval leaves 0 out:"
            f" {n_tested} were tested at once, and the verdict is corrected for that"
            " (Holm), the interval is not."
        )

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
        notes = [str(self.matched), self.judged]
        notes += [f"not comparable: {reason}" for reason in self.differing]
        notes += self.not_compared
        notes += map(str, self.shifts)
        notes += [note for note in (self.caution, self.rule) if note]
        rows = []
        for change in self.changes:
            _, *why = change.lines(self.margin)
            rows.append((change.name, change.verdict, why))
        table = html_rows(rows, ("metric", "second run", "why"))
        return f"<div>{element('p', notes)}{table}</div>"

    def to_html(self, path: str | Path) -> None:
        """Write the comparison as one HTML page that opens offline.

        Texts of changed samples are in it.

        Raises:
            MissingDependency: If Jinja2 is not installed.
            InputError: If the file cannot be written.
        """
        import_deferred("write_comparison")(path, self)


def _why_few_are_scored(change: MetricChange) -> str:
    """How many rows are scored in both runs, and what became of the others."""
    n_alone = change.rows - sum(change.outcomes.values())
    counts = {**change.outcomes, "without a partner": n_alone}
    reasons = [
        f"{count} {kind}"
        for kind, count in counts.items()
        if count and kind != "scored/scored"
    ]
    return (
        f"{change.pairs} of {change.rows} rows were scored in both runs:"
        f" {', '.join(reasons)}"
    )


def check_margin(margin: float) -> None:
    """Refuse a margin that is no difference of means."""
    if not 0 <= margin <= 1:
        raise SettingError(f"the margin lies between 0 and 1, e.g. 0.02; got {margin}")


def compare(
    before: Report,
    after: Report,
    *,
    metrics: Sequence[str | Metric] | None = None,
    cluster: GroupBy = "auto",
    slices: GroupBy = None,
    margin: float = MARGIN,
    anyway: bool = False,
) -> Comparison:
    """Compare two finished runs over the samples that both hold.

    ``ragmetrics_core.compare_until_decided`` judges rows and compares them, in one.

    Args:
        before: The run to compare with.
        after: The run in question; differences are after − before.
        metrics: Names of metrics, or the metrics; None for all that both runs have.
        cluster: Which samples belong together, as in ``Report.summary``; those that do
            in either run.
        slices: What splits the samples into slices that are tested, too; Holm counts
            all tests. A sample belongs to the slice that the first run names, else to
            that of the second; of a slice that one run lacks it is said.
        margin: Differences up to this do not matter.
        anyway: Compare runs that were not measured in the same way.

    Raises:
        InputError: If no sample is in both runs, or the runs are not comparable.
        SettingError: If a metric is not in both runs, or the second run is none.
    """
    check_margin(margin)
    _check_finished(after)
    names = _names_in_both(before, after, metrics)
    _check_keys(before, after, slices, cluster)
    matched = match(before.results, after.results)
    differing = _differing(before, after, matched, names, slices)
    if not anyway:
        _refuse_differing(differing)
    parts = [(name, part) for part in matched.parts(slices) for name in names]
    if _are_the_same_run(before, after, names, differing):
        changes = [_change_of_identical_runs(name, *part) for name, part in parts]
    elif before.decisions or after.decisions:
        changes = [_change(name, *part, cluster) for name, part in parts]
    else:
        tested = [_test_change(name, *part, cluster, margin) for name, part in parts]
        changes = _with_verdicts(tested, margin)
    judges = tuple(dict.fromkeys((*before.run.judges, *after.run.judges)))
    are_named = metrics is not None
    return Comparison(
        changes=tuple(changes),
        matched=matched,
        judges=judges,
        addresses={judge: _addresses(judge, before, after) for judge in judges},
        margin=margin,
        differing=tuple(differing),
        stopped=_why_stopped(before, after),
        lacking=() if are_named else _lacking(after, before.metrics),
        added=() if are_named else _lacking(before, after.metrics),
    )


def _check_finished(after: object) -> None:
    """Refuse rows where a finished run is needed."""
    if not hasattr(after, "results"):
        raise SettingError(
            "two finished runs are compared; rows are judged and compared by"
            " compare_until_decided(report, rows, judge=...)"
        )


def _refuse_differing(differing: Sequence[str]) -> None:
    """Refuse runs that were not measured in the same way; ``differing`` says in what."""
    if differing:
        raise InputError(
            f"the runs are not comparable: {'; '.join(differing)}. Measure both in the"
            " same way, or compare them anyway (anyway=True, --anyway)"
        )


def _lacking(report: Report, metrics: Sequence[str]) -> tuple[str, ...]:
    """Those of the metrics that a run lacks."""
    return tuple(name for name in metrics if name not in report.metrics)


def _names_in_both(
    before: Report, after: Report, metrics: Sequence[str | Metric] | None
) -> list[str]:
    """Names of the metrics to compare, in the order asked for.

    Raises:
        InputError: If the runs have no metric in common.
        SettingError: If a metric is not in both runs.
    """
    in_both = [name for name in before.metrics if name in after.metrics]
    if not in_both:
        raise InputError("the two runs have no metric in common")
    names: dict[str, None] = {}  # each once
    for metric in metrics or in_both:
        name = metric if isinstance(metric, str) else metric.name
        names[find_metric(name, in_both, place="in both runs")] = None
    return list(names)


def _check_keys(
    before: Report, after: Report, slices: GroupBy, cluster: GroupBy
) -> None:
    """Raise ``SettingError`` for a key of slices or clusters that no sample has."""
    keys = KeysSought([slices] if isinstance(slices, str) else (), cluster)
    for row in (*before.results, *after.results):
        if row.sample is not None:
            keys.look(row.sample)
    keys.check()


def _differing(
    before: Report,
    after: Report,
    matched: Matched,
    names: Sequence[str],
    slices: GroupBy,
) -> list[str]:
    """In what two runs are not comparable, a phrase each, the rows first."""
    n_pairs = len(matched.pairs)
    phrases = []
    # a run until decided has judged no more rows than it needed
    rows_alone = [
        *(() if after.decisions else matched.first_only),
        *matched.second_only,
    ]
    n_alone = sum(row.sample is not None for row in rows_alone)
    if matched.by == "question" and n_alone:
        phrases.append(
            f"{n_alone} rows are in one run only, and without ids nothing else tells"
            " rows apart"
        )
    if n_moved := count_other_slices(matched.pairs, slices):
        phrases.append(
            f"{n_moved} of {n_pairs} samples are in another slice in the second run"
        )
    if n_asked_otherwise := count_other_questions(matched.pairs):
        phrases.append(
            f"{n_asked_otherwise} of {n_pairs} samples of one id have another question"
            " or reference"
        )
    for name in names:
        phrases += differences(matched.pairs, name)
    judges: set[str] = set()
    for pair in matched.pairs:
        for row in pair:
            judges |= _judges_of(row, names)
    elsewhere = judges_elsewhere(before.run.addresses, after.run.addresses)
    phrases += [phrase for judge, phrase in elsewhere.items() if judge in judges]
    return phrases


def _are_the_same_run(
    before: Report, after: Report, names: Sequence[str], differing: Sequence[str]
) -> bool:
    """Whether both runs judged all of the same rows in one way, with equal outcomes."""
    if before.decisions or after.decisions or differing:
        return False
    return are_identical(before.results, after.results, names)


def _why_stopped(before: Report, after: Report) -> str:
    """Why either run ended before all its rows were read; "" if neither did."""
    reasons = []
    for which, report in (("first", before), ("second", after)):
        why = report.run.ended_early
        if not why and report.decisions:
            why = "its gates were decided"
        if why:
            reasons.append(f"the {which} run ended early: {why}")
    return "; ".join(reasons)


def _change_of_identical_runs(
    metric: str, part: str | None, pairs: Sequence[Pair], rows: int
) -> MetricChange:
    """One metric over pairs of two identical runs: counted, not estimated."""
    results = [
        (before.results[metric], after.results[metric]) for before, after in pairs
    ]
    outcomes = Counter(f"{before.status}/{after.status}" for before, after in results)
    n_scored = sum(before.value is not None for before, _ in results)
    return MetricChange(
        metric=metric,
        slice=part,
        rows=rows,
        outcomes=dict(outcomes.most_common()),
        pairs=n_scored,
        difference=0.0 if n_scored else None,
        verdict="identical",
    )


def _judges_of(row: SampleResult, metrics: Sequence[str]) -> set[str]:
    """Who judged a row for any of the metrics."""
    return {row.results[metric].judge for metric in metrics if metric in row.results}


def _addresses(judge: str, *reports: Report) -> tuple[str, ...]:
    """The addresses that a judge was asked at in any of the runs."""
    asked = [
        address for report in reports for address in report.run.addresses.get(judge, ())
    ]
    return tuple(dict.fromkeys(asked))


ResultPair = tuple[MetricResult | None, MetricResult | None]


class Differences(NamedTuple):
    """Second − first of some pairs, and the number of the cluster of each."""

    values: list[float]
    keys: list[int]


def _change(
    metric: str, part: str | None, pairs: Sequence[Pair], rows: int, cluster: GroupBy
) -> MetricChange:
    """One metric where a run stopped when its gates were decided.

    Nothing is tested: such a run would look significant too often.
    """
    results = _results(pairs, metric)
    scored = _differences(results, _cluster_numbers(pairs, cluster))
    change = _change_of_outcomes(metric, part, results, rows)
    if not scored.values:
        return change.model_copy(update=p_of_shifts(results))
    return change.model_copy(
        update={
            "verdict": "not tested",
            "pairs": len(scored.values),
            "difference": fmean(scored.values),
        }
    )


def _test_change(
    metric: str,
    part: str | None,
    pairs: Sequence[Pair],
    rows: int,
    cluster: GroupBy,
    margin: float,
) -> MetricChange:
    """One metric over some pairs, but for what depends on the other tests."""
    results = _results(pairs, metric)
    keys = _cluster_numbers(pairs, cluster)
    scored = _differences(results, keys)
    change = _change_of_outcomes(metric, part, results, rows)
    change = change.model_copy(update=p_of_shifts(results))
    if not scored.values:
        return change
    worst = _differences(results, keys, first_failed=1.0, second_failed=0.0)
    best = _differences(results, keys, first_failed=0.0, second_failed=1.0)
    test = paired.permutation(*scored)
    error = paired.standard_error(*scored)
    n_pairs = len(scored.values)
    n_needed = paired.pairs_needed(error, n_pairs, margin) if margin > 0 else None
    return change.model_copy(
        update={
            "pairs": n_pairs,
            "difference": fmean(scored.values),
            "interval": paired.difference_interval(*scored),
            "p": test.p,
            "exact": test.exact,
            "detectable": paired.detectable(error),
            "needed": n_needed,
            "one_sided": _one_sided_bounds(scored, worst, best),
            "bounds": (fmean(worst.values), fmean(best.values)),
        }
    )


def _one_sided_bounds(
    scored: Differences, worst: Differences, best: Differences
) -> Bounds:
    """One-sided 95 % bounds, with failures at the worst and at the best."""
    low, high = paired.one_sided_bounds(*scored)
    worst_low, _ = paired.one_sided_bounds(*worst)
    _, best_high = paired.one_sided_bounds(*best)
    return min(low, worst_low), max(high, best_high)


def _results(pairs: Sequence[Pair], metric: str) -> list[ResultPair]:
    """What a metric gave in both runs, by pair."""
    return [
        (before.results.get(metric), after.results.get(metric))
        for before, after in pairs
    ]


def _change_of_outcomes(
    metric: str, part: str | None, results: Sequence[ResultPair], rows: int
) -> MetricChange:
    """The change of a metric with the outcomes alone."""
    outcomes = Counter(
        f"{_status(before)}/{_status(after)}" for before, after in results
    )
    return MetricChange(
        metric=metric, slice=part, rows=rows, outcomes=dict(outcomes.most_common())
    )


def _status(result: MetricResult | None) -> str:
    return "not judged" if result is None else result.status


def _cluster_numbers(pairs: Sequence[Pair], cluster: GroupBy) -> list[int]:
    """The number of each pair's cluster, from 0; −1 for a pair that stands alone."""
    names = group_pairs(
        ((before.sample, after.sample) for before, after in pairs), cluster
    )
    numbers: dict[str, int] = {}
    for name in names:
        if name:
            numbers.setdefault(name, len(numbers))
    return [-1 if name is None else numbers[name] for name in names]


def _differences(
    results: Sequence[ResultPair],
    keys: Sequence[int],
    *,
    first_failed: float | None = None,
    second_failed: float | None = None,
) -> Differences:
    """Second − first of the pairs with two scores.

    What failed or was not judged counts as the score that is given for its run; without
    one its pair is left out.
    """
    differences = Differences([], [])
    for (before, after), key in zip(results, keys, strict=True):
        score_before = value_of(before, first_failed)
        score_after = value_of(after, second_failed)
        if score_before is not None and score_after is not None:
            differences.values.append(score_after - score_before)
            differences.keys.append(key)
    return differences


def _with_verdicts(
    changes: Sequence[MetricChange], margin: float
) -> list[MetricChange]:
    """The changes with p-values adjusted for each other, and what follows from them."""
    p_values = [change.p for change in changes if change.p is not None]
    adjusted = iter(paired.holm(p_values))
    return [
        change if change.p is None else _judge_change(change, next(adjusted), margin)
        for change in changes
    ]


def _judge_change(change: MetricChange, p: float, margin: float) -> MetricChange:
    """The change with its adjusted p-value, and what follows from it."""
    if change.difference is None or change.interval is None or change.bounds is None:
        return change
    worst, best = change.bounds
    sign_is_sure = worst >= -ROUNDING or best <= ROUNDING
    largest = max(
        abs(worst), abs(best), abs(change.interval.low), abs(change.interval.high)
    )
    verdict: Verdict = "undecided"
    # no run is called better where its own interval leaves that open
    if p <= _ALPHA and sign_is_sure and change.excludes_zero:
        verdict = "better" if change.difference > 0 else "worse"
    elif p > _ALPHA and largest <= margin:
        verdict = "same"
    return change.model_copy(update={"p_holm": p, "verdict": verdict})
