"""Gates: is a run good enough?

The mean decides: a gate is passed or failed, and its sentence says what the rows cannot
tell. It is undecided where the rows say nothing: none was scored, too few were, or most
answers decline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ragmetrics_core.data import (
    SettingError,
    Settings,
    Share,
    did_you_mean,
    find_metric,
)
from ragmetrics_core.data.display import count_in_words, one_line
from ragmetrics_core.data.frozen import check_share
from ragmetrics_core.data.scalars import ROUNDING
from ragmetrics_core.reporting.run_facts import Decision, GateOutcome
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.statistics.means import Interval, mean_interval

if TYPE_CHECKING:
    from ragmetrics_core.reporting.report import Report

MIN_SCORED = 0.95
"""Share of all rows that must be scored for a gate to be decided."""

MIN_ANSWERED = 0.5
"""Share of the answers that must not decline for a gate to be decided."""

ANSWERED = "answered"
"""The name of the gate on the share of answers that do not decline."""

_NOBODY_TELLS = "no metric of the run tells whether answers decline"

_RIGHTLY_UNDEFINED = ("declined", "no_claim")
_MOST_SLICES_EXPLAINED = 10  # of the slices that do not pass
_LONGEST_SLICE = 40  # characters shown of the value that makes a slice
_DECIMALS, _MOST_DECIMALS = 3, 18  # of numbers in sentences; a float has 17 digits
_SHARE_GATE = re.compile(r"share\((?P<metric>[^>]+)>(?P<above>[^)]+)\)")
_FORMS = (
    "a gate is written metric=threshold, e.g. adherence=0.8, adherence=0.8@language,"
    " answered=0.8 or share(adherence>0.5)=0.95"
)

_VERBS: dict[GateOutcome, str] = {
    "passed": "reaches",
    "failed": "misses",
    "undecided": "may or may not reach",
}


class Gate(Settings):
    """What a run is to reach: a mean score, a share of rows, or a share of answers.

    Attributes:
        metric: Name of the metric; ``answered`` for rows that were answered from a
            text.
        at_least: The lowest mean or share that is good enough.
        by: Key of the metadata; the rows with each of its values are to reach it.
        above: Hold the share of rows that score more than this; None: the mean.
    """

    metric: str
    at_least: Share
    by: str | None = None
    above: Share | None = None

    @property
    def name(self) -> str:
        """What is held, e.g. "context_adherence" or "share(context_adherence>0.5)"."""
        if self.above is None:
            return self.metric
        return f"share({self.metric}>{self.above:g})"

    def __str__(self) -> str:
        return f"{self.name}={self.at_least:g}{f'@{self.by}' if self.by else ''}"


def parse_gate(text: str, names: Sequence[str]) -> Gate:
    """Read a gate from text.

    ``adherence=0.8`` is a mean, ``share(adherence>0.5)=0.95`` a share of rows, and
    ``answered=0.8`` the share of rows that were answered. Behind ``@`` may stand a
    key of the metadata: ``adherence=0.8@metadata.language`` is a gate for each
    language.

    Args:
        text: The gate as it was written. The last word of a metric's name is enough.
        names: The full names of the metrics that there are.

    Raises:
        SettingError: If the text has another form, a number is not from 0 to 1, or no
            metric has the name.
    """
    name, equals, rest = (part.strip() for part in text.rpartition("="))
    threshold, at, slice_key = (part.strip() for part in rest.partition("@"))
    lacks_key = bool(at) and not slice_key
    share = _SHARE_GATE.fullmatch(name)
    has_signs = share is None and not set(name).isdisjoint("<>=,!")
    if not equals or not name or lacks_key or has_signs:
        raise SettingError(f"{_FORMS}, each alone; got {text!r}")
    metric = name if share is None else share["metric"].strip()
    if metric != ANSWERED:
        metric = find_metric(metric, names, place="for a gate")
    return Gate(
        metric=metric,
        at_least=_number(threshold, "the threshold of a gate", text),
        by=slice_key.removeprefix("metadata.") or None,
        above=None if share is None else _number(share["above"], "a score", text),
    )


def _number(digits: str, what: str, gate: str) -> float:
    """A number from 0 to 1 of a gate; ``SettingError`` for anything else."""
    try:
        number = float(digits)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise SettingError(
            f"{what} is a number from 0 to 1, e.g. adherence=0.8; got {digits!r} in"
            f" {gate!r}"
        )
    return number


def decide(
    gate: Gate | str,
    measured: Report | Summary,
    *,
    strict: bool = False,
    min_scored: float = MIN_SCORED,
    min_answered: float | None = None,
) -> Decision:
    """Decide whether a run reaches a gate.

    The mean (or the share) decides. A gate per slice, such as one for each language, is
    failed if any slice fails. Example: a mean of .82 passes a gate at .8, also where its
    interval of .75 to .88 reaches below: the sentence says so.

    Args:
        gate: The gate, or its text, such as "adherence=0.8".
        measured: A report or its summary.
        strict: Whether the gate is undecided where the 95 % interval holds the
            threshold.
        min_scored: Share of the rows that must be scored, else the gate is undecided.
            Lost polls count as parts of rows. Answers that decline and those without a claim do not count.
        min_answered: Share above which answers must not decline, else it is undecided, as
            it is where the run does not know that share. None: one half, where it is
            known. The gate on that share takes none.

    Returns:
        The decision, with a sentence that says why.

    Raises:
        SettingError: If a share is not in [0, 1], the metric was not measured, no
            sample has the key of the slices, or the report stands before the gate.
    """
    if not isinstance(gate, (Gate, str)) or not hasattr(measured, "metrics"):
        raise SettingError(
            'decide() takes a gate, then a report: decide("adherence=0.8", report); got'
            f" {type(gate).__name__}, then {type(measured).__name__}"
        )
    check_share("min_scored", min_scored)
    if min_answered is not None:
        check_share("min_answered", min_answered)
    names: Sequence[str]
    if isinstance(measured, Summary):
        names = [numbers.metric for numbers in measured.metrics]
    else:
        names = measured.metrics
    if isinstance(gate, str):
        gate = parse_gate(gate, names)
    elif gate.metric != ANSWERED:
        name = find_metric(gate.metric, names, place="of this run for a gate")
        gate = gate.model_copy(update={"metric": name})
    summary = measured
    if not isinstance(summary, Summary):
        summary = summary.summary(slices=[gate.by] if gate.by else ())
    rule = _Rule(gate, strict, min_scored, min_answered)
    if gate.by is None:
        outcome, reason = rule.decide(summary)
        sentence = f"{gate.name} {reason}"
    else:
        outcome, sentence = _decide_slices(rule, gate.by, summary)
    if outcome == "passed" and not summary.asked:
        sentence += f" {_NOBODY_TELLS.capitalize()}."
    return Decision(
        metric=gate.name, outcome=outcome, sentence=sentence, at_least=gate.at_least
    )


class _Rule(NamedTuple):
    """A gate with what makes it undecided."""

    gate: Gate
    strict: bool
    min_scored: float
    min_answered: float | None

    def decide(self, summary: Summary) -> tuple[GateOutcome, str]:
        """Decide the gate by the rows of one summary, and say why.

        Example: ("failed", "misses 0.8: mean 0.720 of 60 scored rows, …").
        """
        why_undecided = self._why_undecided(summary)
        if why_undecided:
            words = "; ".join((why_undecided, *summary.left_out))
            return "undecided", f"cannot be decided: {words}."
        noun, value, interval = self._measure(summary)
        low, high, n_clusters = interval.low, interval.high, interval.clusters
        threshold = self.gate.at_least
        by_bounds = three_way(low, high, threshold)
        outcome: GateOutcome = "passed"
        if value < threshold - ROUNDING:
            outcome = "failed"
        decider = noun
        if self.strict:
            outcome = by_bounds
            decider = "interval"
        mean_or_share, lowest, highest = (
            number_in_words(number, threshold) for number in (value, low, high)
        )
        over = f" over {count_in_words(n_clusters, 'cluster')}" if n_clusters else ""
        words = (
            f"{_VERBS[outcome]} {threshold:g}: {noun} {mean_or_share} of"
            f" {self.rows_in_words(summary)}, 95 % interval {lowest}–{highest}{over};"
            f" the {decider} decides."
        )
        if by_bounds == "undecided":
            other = "reach" if outcome == "failed" else "miss"
            words += f" A close call: other rows could {other} {threshold:g}."
        return outcome, words

    def _why_undecided(self, summary: Summary) -> str:
        """Why the rows say nothing of the gate, as the end of a sentence; "" if they do."""
        if summary.stopped:
            return f"the results are incomplete: {summary.stopped}"
        if mixed := self.why_mixed(summary):
            return mixed
        if self.gate.metric == ANSWERED and not summary.asked:
            return _NOBODY_TELLS
        if self.gate.metric == ANSWERED:
            if summary.asked >= self.min_scored * summary.rows - ROUNDING:
                return ""
            return (
                f"of {summary.asked:,} of {summary.rows:,} rows it is known whether they"
                f" were answered, and a gate needs {100 * self.min_scored:.0f} %"
            )

        # have enough rows a score?
        numbers = summary[self.gate.metric]
        n_rightly = sum(numbers.undefined.get(code, 0) for code in _RIGHTLY_UNDEFINED)
        n_to_score = summary.rows - n_rightly
        why = self._why_unscored(summary)
        if not numbers.count:
            return f"nothing was scored{f' ({why})' if why else ''}"
        # a lost poll is a part of a row that was not scored
        n_scored = numbers.count - numbers.lost
        if n_scored < self.min_scored * n_to_score - ROUNDING:
            return (
                f"{n_scored:,.4g} of {n_to_score:,} rows were scored, and a gate needs"
                f" {100 * self.min_scored:.0f} %. Not scored: {why}"
            )

        # do enough answers say anything?
        share = summary.answered_share
        if share is None:
            return "" if self.min_answered is None else _NOBODY_TELLS
        least = MIN_ANSWERED if self.min_answered is None else self.min_answered
        if share == 1 or share > least + ROUNDING:
            return ""
        return (
            f"{summary.answered:,} of {count_in_words(summary.asked, 'row')} were"
            f" answered from a text, and a gate needs more than {100 * least:.0f} %"
        )

    def _why_unscored(self, summary: Summary) -> str:
        """Why rows have no score of the gate's metric, with counts; "" if all have one."""
        bad = f"{summary.bad_rows:,} unreadable" if summary.bad_rows else ""
        unscored = ""
        if self.gate.metric != ANSWERED:
            unscored = summary[self.gate.metric].unscored_in_words
        return ", ".join(filter(None, (unscored, bad)))

    def rows_in_words(self, summary: Summary) -> str:
        """On how many rows the gate rests, of how many, and what is left out, why.

        Example: "18 of 20 rows (2 declined; 9 of 29 rows left out, not measured by
        v2)".
        """
        n_rows = summary.asked
        if self.gate.metric != ANSWERED:
            n_rows = summary[self.gate.metric].count
        words = count_in_words(summary.rows, "row")
        reasons = summary.left_out
        if n_rows < summary.rows:
            words = f"{n_rows:,} of {words}"
            reasons = (self._why_unscored(summary), *reasons)
        why = "; ".join(filter(None, reasons))
        return f"{words} ({why})" if why else words

    def why_mixed(self, summary: Summary) -> str:
        """Why the rows are not comparable with each other; "" if they are."""
        mixed = (
            numbers.mixed
            for numbers in summary.metrics
            if self.gate.metric in (ANSWERED, numbers.metric)
        )
        return next(filter(None, mixed), "")

    def _measure(self, summary: Summary) -> tuple[str, float, Interval]:
        """Return "mean" or "share", which it is, and what it may be for samples like these."""
        noun = "share"
        lost = 0.0
        if self.gate.metric == ANSWERED:
            value = summary.answered / summary.asked
            intervals = [summary.answered_interval]
        elif self.gate.above is not None:
            numbers = summary[self.gate.metric]
            above = self.gate.above
            are_above = [score > above for score in numbers.scores]
            value = sum(are_above) / numbers.count
            # rows that failed may have scored 0, and they may have scored 1
            intervals = [
                mean_interval(
                    [*are_above, *[if_failed] * numbers.unknown], numbers.clusters
                )
                for if_failed in (False, True)
            ]
            n_open = sum(low <= above < high for low, high in numbers.bounds)
            lost = n_open / numbers.count
        else:
            noun = "mean"
            numbers = summary[self.gate.metric]
            value = numbers.mean or 0.0
            intervals = [numbers.interval, numbers.worst, numbers.best]
            lost = numbers.lost / numbers.count  # lost polls may have said yes or no
        known = [interval for interval in intervals if interval is not None]
        low = min((interval.low for interval in known), default=value)
        high = max((interval.high for interval in known), default=value)
        clusters = max((interval.clusters or 0 for interval in known), default=0)
        low, high = max(0.0, low - lost), min(1.0, high + lost)
        return noun, value, Interval(low, high, "", clusters)


def number_in_words(value: float, threshold: float) -> str:
    """Write a value with three decimals, or more where three would mislead.

    With three decimals 0.79996 would be 0.800, and seem to reach a threshold of 0.8.
    """
    reaches = value >= threshold - ROUNDING
    text = ""
    for n_decimals in range(_DECIMALS, _MOST_DECIMALS):
        text = f"{value:.{n_decimals}f}"
        if (float(text) >= threshold - ROUNDING) == reaches:
            break
    return text


def three_way(low: float, high: float, threshold: float) -> GateOutcome:
    """Return whether bounds pass what is wanted, fail it, or leave it undecided.

    It is passed if the lower bound reaches what is wanted. It is failed if the upper
    bound misses it.
    """
    threshold -= ROUNDING
    if low >= threshold:
        return "passed"
    return "failed" if high < threshold else "undecided"


def _decide_slices(rule: _Rule, key: str, summary: Summary) -> tuple[GateOutcome, str]:
    """Decide a gate for each slice by a key; return the outcome and a sentence.

    Example: "context_adherence by language: 2 of 3 slices reach 0.8. "de": misses 0.8 …".

    Raises:
        SettingError: If the summary was made without slices by this key.
    """
    if key not in summary.slices:
        near = did_you_mean(key, summary.slices)
        raise SettingError(
            f"the summary has no slices by {key!r}{near}; make it with slices=[{key!r}]"
        )
    decided = [
        (slice_value, *rule.decide(summary_of_slice))
        for slice_value, summary_of_slice in sorted(summary.slices[key].items())
    ]
    others = [
        f' "{one_line(slice_value, _LONGEST_SLICE)}": {reason}'
        for slice_value, outcome, reason in decided
        if outcome != "passed"
    ]
    sentence = (
        f"{rule.gate.name} by {key}: {len(decided) - len(others)} of {len(decided)}"
        f" slices reach {rule.gate.at_least:g}, over {rule.rows_in_words(summary)}."
    )
    sentence += "".join(others[:_MOST_SLICES_EXPLAINED])
    if len(others) > _MOST_SLICES_EXPLAINED:
        sentence += f" And {len(others) - _MOST_SLICES_EXPLAINED} more."
    if summary.bad_rows:  # they may be all rows of a further slice
        unread = count_in_words(summary.bad_rows, "row")
        sentence += f" {unread} could not be read: of which slice, nobody knows."
    outcomes = {outcome for _, outcome, _ in decided}
    if "failed" in outcomes:
        return "failed", sentence
    if outcomes != {"passed"}:
        return "undecided", sentence
    if mixed := rule.why_mixed(summary):  # each slice may be measured in its own way
        return "undecided", f"{sentence} It cannot be decided: {mixed}."
    return "passed", sentence


def all_in_words(decisions: Sequence[Decision], exit_code: int | None = None) -> str:
    """Sum up in one line how many gates passed, failed or are undecided.

    "" without gates, and for a single gate outside a command: its own sentence says the
    same.

    Args:
        decisions: What was decided of each gate.
        exit_code: The exit code of the command that held the gates, which the line
            explains; None outside a command.
    """
    if not decisions or (len(decisions) == 1 and exit_code is None):
        return ""
    if len(decisions) == 1:
        outcome = decisions[0].outcome
        words = f"The gate {'is ' if outcome == 'undecided' else ''}{outcome}"
    else:
        n_by_outcome = Counter(decision.outcome for decision in decisions)
        words = f"{n_by_outcome['passed']} of {len(decisions)} gates passed"
        for outcome in ("failed", "undecided"):
            if n_by_outcome[outcome]:
                words += f", {n_by_outcome[outcome]} {outcome}"
    if exit_code is None:
        return f"{words}."
    effect = "stops" if exit_code else "goes on"
    return f"{words}: exit {exit_code}, at which a CI job {effect}."
