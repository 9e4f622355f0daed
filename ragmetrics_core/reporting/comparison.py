"""Comparing two runs over the same samples.

A comparison says what changed, by how much, and whether chance could have done it.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from ragmetrics_core.data import (
    Frozen,
    SettingError,
    caution_about,
    did_you_mean,
    element,
    import_deferred,
)
from ragmetrics_core.data.display import as_line, count_in_words, judges_in_words
from ragmetrics_core.data.display import table as html_rows
from ragmetrics_core.reporting.changed_samples import (
    Changed,
    most_changed,
    rank_losses,
)
from ragmetrics_core.reporting.gates import three_way
from ragmetrics_core.reporting.metric_change import (
    MetricChange,
    Verdict,
    VerdictGroup,
)
from ragmetrics_core.reporting.pairing import Matched
from ragmetrics_core.reporting.row_shifts import RowShift, row_shifts
from ragmetrics_core.reporting.run_facts import Decision, SequentialDecision
from ragmetrics_core.statistics.stopping import (
    MIN_SCORED,
    ROUNDING,
    Outcome,
    check_share,
)

_N_ROWS_TO_OPEN = 3
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


class HiddenMoves(NamedTuple):
    """A metric whose mean hides gains and losses, and the rows that lost most."""

    change: MetricChange
    rows: tuple[int, ...]

    @property
    def sentence(self) -> str:
        """How many rows gained and lost how much, in one sentence."""
        change = self.change
        return (
            f"The mean of {change.metric} hides that"
            f" {count_in_words(change.n_gained, 'row')} gained"
            f" ({change.gain:+.3f} on average) and"
            f" {count_in_words(change.n_lost, 'row')} lost"
            f" ({-(change.loss or 0.0):+.3f})."
        )

    def __str__(self) -> str:
        """The same, with the rows to open."""
        rows = ", ".join(map(str, self.rows))
        return f"{self.sentence} Lost most: rows {rows}."


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
        """The samples that lost most: each once, samples of the worst metric first.

        The worst metric is one in which the second run is decided to be worse. Of
        several such metrics, or without any, it is the metric whose mean fell most.
        """
        # False sorts before True, and the largest fall of the mean first
        sort_key_by_metric = {
            change.metric: (change.verdict != "worse", change.difference or 0.0)
            for change in self._over_all_samples
        }
        return rank_losses(self.most_changed, sort_key_by_metric)

    def rows_to_open(self, metric: str) -> tuple[int, ...]:
        """Numbers of the rows that lost most in a metric, at most three, from 1."""
        losses = [
            change
            for change in most_changed(self.matched.pairs, metric)
            if change.difference < 0
        ]
        return tuple(change.second.index + 1 for change in losses[:_N_ROWS_TO_OPEN])

    @property
    def moves_behind_means(self) -> tuple[HiddenMoves, ...]:
        """The metrics whose mean hides that many rows gained and many lost."""
        return tuple(
            HiddenMoves(change, self.rows_to_open(change.metric))
            for change in self._over_all_samples
            if change.hides_moves(self.margin)
        )

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
        """The changes over all samples, without those of slices."""
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
        """Decide by one change whether the second run lost too much, and say why."""
        outcome, why = self._decide_by_loss(change, min_scored)
        sentence = f"{change.name} against a loss of {self.margin:g}; {why}"
        return Decision(metric=change.name, outcome=outcome, sentence=sentence)

    def _decide_by_loss(
        self, change: MetricChange, min_scored: float
    ) -> tuple[Outcome, str]:
        """Decide whether the second run lost more than the margin, and say why.

        Bounds of the difference are compared with minus the margin: the decision is
        "passed" if both are above it, and "failed" if both are below it. Example with a
        margin of .05: bounds -.03 and .02 pass, -.09 and -.06 fail.

        Args:
            change: The change of one metric between the runs.
            min_scored: Share of the rows that must be scored in both runs for a
                decision.

        Returns:
            "passed" if it lost no more than the margin, "failed" if it lost more, or
            "undecided"; and the reason.
        """
        if self.stopped:  # a run ended early
            return "undecided", self.stopped
        if change.verdict == "identical":
            reason = f"all {change.rows} rows and their outcomes are equal in both runs"
            if change.pairs:
                return "passed", reason
            return "undecided", f"{reason}, and none of them was scored"
        n_pairs_needed = min_scored * change.rows - ROUNDING
        if change.one_sided is None or change.pairs < n_pairs_needed:
            return "undecided", _why_few_are_scored(change)
        low, high = change.one_sided
        outcome = three_way(low, high, -self.margin)
        return outcome, f"one-sided bounds {low:+.4f} and {high:+.4f}"

    def table(self) -> str:
        """Return the comparison as plain text, without texts of samples.

        It holds, in this order:

        - how many rows were matched, and the judges;
        - reasons why the runs are not comparable;
        - what a run decided that stopped early;
        - what is not compared;
        - a paragraph for each metric, and a line for each slice;
        - if many differences were tested: why some stay undecided that are significant
          alone. Of 20 tests, about one is significant by chance;
        - the rule by which the verdicts are given.

        Example of a line: "! not comparable: context_adherence: temperature 0 against
        1".
        """
        lines = [str(self.matched), self.judged]
        lines += [f"! not comparable: {reason}" for reason in self.differing]
        lines += map(str, self.decisions)
        lines += [f"! {sentence}" for sentence in self.not_compared]
        for metric in self.metrics_in_order:
            lines += ["", *self[metric].lines(self.margin)]
        changes_of_slices = [
            change for change in self.changes if change.slice is not None
        ]
        if changes_of_slices:
            lines += ["", "By slice:"]
            lines += [f"  {change.line}" for change in changes_of_slices]
        # Some change is undecided only because many were tested at once.
        if any(change.is_chance_of_many for change in self.changes):
            lines += ["", self.why_undecided]
        if self.rule:
            lines += ["", self.rule]
        return "\n".join(map(as_line, lines))

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
        """The comparison as a notebook shows it: notes, and a table of all changes."""
        table_rows = []
        for change in self.changes:
            # the first line says the name and the verdict, which are cells of their own
            _, *lines_of_reasons = change.lines(self.margin)
            table_rows.append((change.name, change.verdict, lines_of_reasons))
        table = html_rows(table_rows, ("metric", "second run", "why"))
        return f"<div>{element('p', self._notes())}{table}</div>"

    def _notes(self) -> list[str]:
        """What stands above the table of changes in a notebook."""
        notes = [str(self.matched), self.judged]
        notes += [f"not comparable: {reason}" for reason in self.differing]
        notes += self.not_compared  # metrics that only one of the runs has
        notes += map(str, self.moves_behind_means)  # gains and losses that cancel
        notes += map(str, self.shifts)  # rows that declined or failed
        # what the verdicts do not cover, and by which rule they are given
        notes += [note for note in (self.caution, self.rule) if note]
        return notes

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
