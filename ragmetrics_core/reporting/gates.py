"""Gates: is a mean score high enough?

Three outcomes, because samples may be too few to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from ragmetrics_core.data import (
    Frozen,
    SettingError,
    Settings,
    Share,
    did_you_mean,
    find_metric,
)
from ragmetrics_core.data.display import count_in_words, one_line
from ragmetrics_core.reporting.pairing import GroupBy
from ragmetrics_core.reporting.run_facts import Decision
from ragmetrics_core.reporting.summary import MetricSummary, Summary
from ragmetrics_core.statistics.means import Interval
from ragmetrics_core.statistics.stopping import (
    MIN_SCORED,
    ROUNDING,
    On,
    Outcome,
    SequentialGate,
    check_share,
)

if TYPE_CHECKING:
    from ragmetrics_core.reporting.report import Report


_NEAREST = 0.001  # a mean nearer to the threshold would take too many rows to decide
_MOST_SLICES_EXPLAINED = 10  # of the slices that do not pass
_LONGEST_SLICE = 40  # characters shown of the value that makes a slice
_DECIMALS, _MOST_DECIMALS = 3, 18  # of numbers in sentences; a float has 17 digits

VERBS: dict[Outcome, str] = {
    "passed": "reaches",
    "failed": "misses",
    "undecided": "may or may not reach",
}

_SAID_OF_ONE: dict[Outcome, str] = {
    "passed": "passed",
    "failed": "failed",
    "undecided": "is undecided",
}


class Gate(Frozen):
    """A mean score to reach."""

    metric: str = Field(description="name of the metric")
    at_least: Share = Field(description="the lowest mean that is good enough")
    by: str | None = Field(
        default=None,
        description=(
            "key of the metadata; the mean of each of its values is to reach it"
        ),
    )

    def __str__(self) -> str:
        return f"{self.metric}={self.at_least:g}{f'@{self.by}' if self.by else ''}"


class UntilDecided(Settings):
    """How a run stops as soon as its gates are decided."""

    on: On = Field(
        default="interval",
        description=(
            "the gates speak of samples like these; or ``point``: of these rows"
        ),
    )
    alpha: float = Field(default=0.05, description="risk of a wrong decision")
    margin: Share = Field(
        default=0.0,
        description=(
            "a mean so far below its threshold may pass; with ``against``, so much"
            " worse than before"
        ),
    )
    min_samples: int = Field(default=10, description="samples scored before a decision")
    max_samples: int | None = Field(
        default=None, ge=1, description="end undecided after so many rows"
    )
    min_scored: Share = Field(
        default=MIN_SCORED,
        description="share of the rows looked at that must be scored",
    )
    seed: int = Field(
        default=0,
        description="of the order in which rows are taken; another one is another look",
    )
    against: Any = Field(
        default=None,
        repr=False,
        description="a finished run, or its file, to be no worse than",
    )
    cluster: GroupBy = Field(
        default="auto",
        repr=False,
        description="which samples belong together; with ``point`` each stands alone",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.gate(None)
        return self

    def gate(
        self,
        at_least: float | None,
        *,
        rows: int = 1,
        gates: int = 1,
        largest_cluster: int = 1,
    ) -> SequentialGate:
        """Make the test of one gate.

        Args:
            at_least: The mean to reach; None for the mean of the earlier run less the
                margin.
            rows: Rows of the run.
            gates: How many gates decide the run together.
            largest_cluster: Rows of the largest cluster.
        """
        return SequentialGate(
            (1 - self.margin) / 2 if at_least is None else at_least,
            margin=0.0 if at_least is None or self.against is not None else self.margin,
            alpha=self.alpha,
            population=rows if self.on == "point" else None,
            largest_cluster=largest_cluster,
            gates=gates,
            min_samples=self.min_samples,
            min_scored=self.min_scored,
        )


Until = UntilDecided | Literal["decided"] | None
"""Whether a run stops as soon as its gates are decided, and how; None judges all."""


def parse_gate(text: str, names: Sequence[str]) -> Gate:
    """Read a gate from text: a mean score that a metric is to reach.

    A gate is written ``metric=threshold`` or ``metric=threshold@key``:
    ``adherence=0.8@metadata.language`` is a gate for each language. Example:
    "adherence=0.8" gives ``Gate(metric="context_adherence", at_least=0.8)``.

    Args:
        text: The gate as it was written. The last word of a metric's name is enough.
        names: The full names of the metrics that there are.

    Raises:
        SettingError: If the text has another form, the threshold is no number from 0 to
            1, or no metric has the name.
    """
    name, equals, rest = (part.strip() for part in text.partition("="))
    threshold, at, slice_key = (part.strip() for part in rest.partition("@"))
    lacks_key = bool(at) and not slice_key
    if not equals or not name or lacks_key:
        raise SettingError(
            "a gate is written metric=threshold, e.g. adherence=0.8, or =0.8@language;"
            f" got {text!r}"
        )
    full_name = find_metric(name, names, place="for a gate")
    try:
        return Gate(
            metric=full_name,
            at_least=float(threshold),
            by=slice_key.removeprefix("metadata.") or None,
        )
    except ValueError:  # of float(), or of pydantic for a number outside of 0 to 1
        message = (
            f"the threshold of a gate is a number from 0 to 1, e.g. {name}=0.8; got"
            f" {threshold!r}"
        )
        raise SettingError(message) from None


def decide(
    gate: Gate,
    measured: Report | Summary,
    *,
    on: On = "interval",
    min_scored: float = MIN_SCORED,
) -> Decision:
    """Decide whether a run reaches a gate, the lowest mean that is good enough.

    It is passed if the whole interval reaches the threshold, failed if the whole
    interval misses it. A gate per slice, such as one for each language, is failed if
    any slice fails. Example: an interval of .82 to .90 passes a gate at .8; .75 to .79
    fails it; .79 to .90 is undecided.

    Args:
        gate: The gate.
        measured: A report or its summary.
        on: What is held against the threshold: the 95 % ``interval`` of the mean, or
            the mean (``point``).
        min_scored: Share of all rows that must be scored, else the gate is undecided.

    Returns:
        The decision, with a sentence that says why.

    Raises:
        SettingError: If ``min_scored`` is not in [0, 1], the metric was not measured,
            or no sample has the key of the slices.
    """
    check_share("min_scored", min_scored)
    summary = _as_summary(measured, gate)
    names = [numbers.metric for numbers in summary.metrics]
    name = find_metric(gate.metric, names, place="of this run for a gate")
    gate = gate.model_copy(update={"metric": name})
    if gate.by is None:
        outcome, reason = _decide(gate, summary, on, min_scored)
        sentence = f"{name}{reason}"
    else:
        outcome, sentence = _decide_slices(gate, gate.by, summary, on, min_scored)
    return Decision(
        metric=name, outcome=outcome, sentence=sentence, at_least=gate.at_least
    )


def _as_summary(measured: Report | Summary, gate: Gate) -> Summary:
    """The summary of a run, with the slices for which the gate holds."""
    if isinstance(measured, Summary):
        return measured
    return measured.summary(slices=[gate.by] if gate.by else ())


def _decide_slices(
    gate: Gate, key: str, summary: Summary, on: On, min_scored: float
) -> tuple[Outcome, str]:
    """Decide a gate for each slice by a key; return the outcome and a sentence."""
    decided_by_slice = {
        slice_value: _decide(gate, summary_of_slice, on, min_scored)
        for slice_value, summary_of_slice in _summaries_of_slices(summary, key)
    }
    outcomes = [outcome for outcome, _ in decided_by_slice.values()]
    return _outcome_of_slices(outcomes), _sentence_on_slices(gate, decided_by_slice)


def _summaries_of_slices(measured: Summary, key: str) -> list[tuple[str, Summary]]:
    """Return the summary of each slice by a key, in the order of the slices' values.

    Raises:
        SettingError: If the summary was made without slices by this key.
    """
    if key not in measured.slices:
        near = did_you_mean(key, measured.slices)
        raise SettingError(
            f"the summary has no slices by {key!r}{near}; make it with slices=[{key!r}]"
        )
    return sorted(measured.slices[key].items())


def all_in_words(decisions: Sequence[Decision], exit_code: int | None = None) -> str:
    """Sum up in one line how many gates passed, failed or are undecided.

    "" without gates, and for a single gate outside a command: its own sentence says the
    same.

    Args:
        decisions: What was decided of each gate.
        exit_code: The exit code of the command that held the gates, which the line
            explains; None outside a command.
    """
    if not decisions:
        return ""
    if exit_code is None:
        return "" if len(decisions) == 1 else f"{_outcomes_in_words(decisions)}."
    effect = "stops" if exit_code else "goes on"
    outcomes = _outcomes_in_words(decisions)
    return f"{outcomes}: exit {exit_code}, at which a CI job {effect}."


def _outcomes_in_words(decisions: Sequence[Decision]) -> str:
    """For example "2 of 3 gates passed, 1 failed"."""
    if len(decisions) == 1:
        return f"The gate {_SAID_OF_ONE[decisions[0].outcome]}"
    n_by_outcome = Counter(decision.outcome for decision in decisions)
    words = f"{n_by_outcome['passed']} of {len(decisions)} gates passed"
    if n_by_outcome["failed"]:
        words += f", {n_by_outcome['failed']} failed"
    if n_by_outcome["undecided"]:
        words += f", {n_by_outcome['undecided']} undecided"
    return words


def _outcome_of_slices(outcomes: Sequence[Outcome]) -> Outcome:
    """Passed if each slice passes; failed if any fails, or if there is none."""
    if not outcomes or "failed" in outcomes:
        return "failed"
    return "undecided" if "undecided" in outcomes else "passed"


def _sentence_on_slices(
    gate: Gate, decided_by_slice: Mapping[str, tuple[Outcome, str]]
) -> str:
    """Say how many slices reach the threshold, and why the first ten others do not.

    Example: "context_adherence by language: 2 of 3 slices reach 0.8. de: misses 0.8 …".

    Args:
        gate: The gate, which is held for each slice: the rows of one value of a key.
        decided_by_slice: The outcome and the reason, by the value of the slice.
    """
    reasons_of_others = [
        _reason_of_slice(slice_value, reason)
        for slice_value, (outcome, reason) in decided_by_slice.items()
        if outcome != "passed"
    ]
    n_slices = len(decided_by_slice)
    n_others = len(reasons_of_others)
    sentence = (
        f"{gate.metric} by {gate.by}: {n_slices - n_others} of {n_slices} slices reach"
        f" {gate.at_least:g}."
    )
    sentence += "".join(reasons_of_others[:_MOST_SLICES_EXPLAINED])
    if n_others > _MOST_SLICES_EXPLAINED:
        sentence += f" And {n_others - _MOST_SLICES_EXPLAINED} more."
    return sentence


def _reason_of_slice(slice_value: str, reason: str) -> str:
    """For example ' "en": misses 0.8', of a reason that begins with " " or ": "."""
    return f' "{one_line(slice_value, _LONGEST_SLICE)}": {reason.lstrip(": ")}'


def _decide(
    gate: Gate, summary: Summary, on: On, min_scored: float
) -> tuple[Outcome, str]:
    """Decide a gate by one summary, and say why: the rest of a sentence.

    Example: ("failed", " cannot reach 0.8, since nothing was scored.").

    Args:
        gate: The mean that a metric is to reach.
        summary: What was measured, on all rows or on those of a slice.
        on: Whether the interval of the mean or the mean itself is compared with the
            gate's threshold.
        min_scored: Share of the rows that must be scored.
    """
    numbers = summary[gate.metric]
    if numbers.mean is None:
        reason = f" cannot reach {gate.at_least:g}, since nothing was scored"
        why_unscored = _missing(numbers, summary)
        if why_unscored:
            reason += f": {why_unscored}"
        return "failed", f"{reason}."
    why_undecided = _why_mean_decides_nothing(numbers, summary, on, min_scored)
    if why_undecided:
        return "undecided", f" is not held against {gate.at_least:g}: {why_undecided}"
    return _decide_by_mean(gate, summary, numbers.mean, on)


def _decide_by_mean(
    gate: Gate, summary: Summary, mean: float, on: On
) -> tuple[Outcome, str]:
    """Decide a gate by the mean of its scores, and say why.

    Example: a mean of .85 with an interval of .79 to .90 is undecided for a gate at .8.
    Without an interval, the mean itself is compared: .85 passes.

    Args:
        gate: The gate, such as "adherence at least .8".
        summary: The numbers of the run.
        mean: The mean of enough rows.
        on: What is compared with the gate: "interval", or "point" for the mean itself.

    Returns:
        The outcome, and the end of a sentence that begins with the gate.
    """
    numbers = summary[gate.metric]
    # a run that stopped early is always decided by an interval, never by the mean
    interval = _interval_to_compare(numbers, summary, on)
    # where the mean may lie: within the interval, or without one at the mean itself;
    # farther out if rows failed, as nobody knows their scores
    low, high = _bounds(numbers, mean, interval)
    outcome = three_way(low, high, gate.at_least)
    words = [
        f" {_claim(outcome, mean, interval, gate.at_least)}:",
        f" mean {_number_in_words(mean, gate.at_least)} of",
        f" {count_in_words(numbers.count, 'scored row')}",
    ]
    if interval is not None:
        has_stopped_early = bool(summary.decisions)
        # bounds hold at whatever row a run stops; a 95 % interval does not
        kind = "bounds" if has_stopped_early else "95 % interval"
        ends = _range(interval.low, interval.high, gate.at_least)
        words.append(f", {kind} {ends}")
    words.append(".")
    why_unscored = _missing(numbers, summary)
    words.append(_on_rows_without_a_score(gate, numbers, why_unscored, (low, high)))
    words.append(_hint(outcome, numbers, interval, gate.at_least))
    return outcome, "".join(words)


def _interval_to_compare(
    numbers: MetricSummary, summary: Summary, on: On
) -> Interval | None:
    """The interval that is held against a gate; None for the mean itself.

    A run that stopped when its gates were decided always gives its interval.
    """
    has_stopped_early = bool(summary.decisions)
    return numbers.interval if on == "interval" or has_stopped_early else None


def _on_rows_without_a_score(
    gate: Gate, numbers: MetricSummary, missing: str, bounds: tuple[float, float]
) -> str:
    """Why rows have no score, and what they do to the bounds; "" if all have one."""
    if not missing:
        return ""
    if_known = _if_they_were(numbers.unknown, _range(*bounds, gate.at_least))
    return f" Not scored: {missing}{if_known}"


def _claim(
    outcome: Outcome, mean: float, interval: Interval | None, threshold: float
) -> str:
    """Word what follows from a mean, such as "reaches 0.8".

    If the gate is undecided, the words say on which side of the threshold the mean
    lies, and whether chance or rows of unknown score could have put it there.
    """
    if outcome != "undecided":
        return f"{VERBS[outcome]} {threshold:g}"
    verb = "reaches" if mean >= threshold - ROUNDING else "is below"
    is_by_chance = (
        interval is not None
        and three_way(interval.low, interval.high, threshold) == "undecided"
    )
    why = "rows without a score could change that"
    if is_by_chance:
        why = "chance could explain it"
    return f"{verb} {threshold:g}, but {why}"


def _if_they_were(n_unknown: int, bounds: str) -> str:
    """Word the end of the sentence on rows without a score.

    It says what the bounds are if rows that failed scored 0 and if they scored 1.
    """
    if not n_unknown:
        return "."
    verb = "was" if n_unknown == 1 else "were"
    return (
        f"; with the {n_unknown:,} that failed or {verb} not judged at 0 and at 1 the"
        f" bounds are {bounds}."
    )


def _range(low: float, high: float, threshold: float) -> str:
    """Two bounds as a reader sees them."""
    return f"{_number_in_words(low, threshold)}–{_number_in_words(high, threshold)}"


def _number_in_words(value: float, threshold: float) -> str:
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


def _hint(
    outcome: Outcome,
    numbers: MetricSummary,
    interval: Interval | None,
    threshold: float,
) -> str:
    """Say how many rows would decide a gate that is undecided, as a sentence.

    Example: " To decide it takes about 160 rows in all (120 more) with such scores, …".
    "" if the gate is decided, or if rows failed, whose scores no further row replaces.

    Args:
        outcome: What was decided of the gate.
        numbers: What was measured of its metric.
        interval: The interval of the mean; None if the mean itself was compared with
            the threshold.
        threshold: The mean that is to be reached.
    """
    if outcome != "undecided" or numbers.unknown > 0:
        return ""
    if interval is None or numbers.mean is None:
        return ""
    distance_to_threshold = abs(numbers.mean - threshold)
    if distance_to_threshold < _NEAREST:
        return (
            " The mean lies at the threshold, so that hardly any number would decide."
        )
    # the end of the interval on the other side of the threshold
    end_beyond = interval.high if numbers.mean < threshold else interval.low
    times_too_wide = abs(end_beyond - numbers.mean) / distance_to_threshold
    n_needed = _n_rows_to_narrow(numbers.count, times_too_wide)
    return (
        f" To decide it takes about {n_needed:,} rows in all"
        f" ({n_needed - numbers.count:,} more) with such scores, or still more."
    )


def _n_rows_to_narrow(n_rows: int, times_too_wide: float) -> int:
    """At how many rows an interval is narrow enough; at least one more than now.

    An interval gets narrower with the root of the number of rows.
    """
    return max(ceil(n_rows * times_too_wide**2), n_rows + 1)


def _why_mean_decides_nothing(
    numbers: MetricSummary, summary: Summary, on: On, min_scored: float
) -> str:
    """Say why a gate stays undecided, whatever the mean is; "" if the mean decides it.

    Args:
        numbers: The metric that the gate is about.
        summary: The whole run.
        on: What is held against the threshold: the interval of the mean, or the mean.
        min_scored: Share of the rows that must be scored.
    """
    if summary.stopped:
        return f"the run ended early: {summary.stopped}."
    if numbers.count < min_scored * summary.rows - ROUNDING:
        return (
            f"{numbers.count} of {summary.rows} rows were scored (mean"
            f" {numbers.mean:.3f}), and a gate needs {100 * min_scored:.0f} %. Not"
            f" scored: {_missing(numbers, summary)}."
        )
    if _lacks_bounds(numbers, summary, on):
        return (
            "this run stopped when its gates were decided, and has no bounds that"
            " answer this."
        )
    return ""


def _lacks_bounds(numbers: MetricSummary, summary: Summary, on: On) -> bool:
    """Whether a run that stopped early has no bounds of what this gate asks for.

    It has bounds only for the metrics of its own gates, and all of these are on the
    interval or all on the mean.
    """
    if not summary.decisions:
        return False
    return numbers.interval is None or on != summary.decisions[0].on


def _bounds(
    numbers: MetricSummary, mean: float, interval: Interval | None
) -> tuple[float, float]:
    """Return the lowest and the highest that the mean may be, with all rows scored.

    Rows of unknown score, which failed, would each score 0 in the worst case, and 1 in
    the best case. Example: 8 scores with a mean of .9, and 2 failed rows: .72 to .92.

    Args:
        numbers: What was measured of the metric. ``worst`` is the interval of the mean
            with all failed rows scored 0, ``best`` the interval with them scored 1.
        mean: The mean of the known scores.
        interval: Its interval; None if the mean itself is compared with the threshold.
    """
    if interval is not None and numbers.worst is not None and numbers.best is not None:
        low = min(interval.low, numbers.worst.low)
        high = max(interval.high, numbers.best.high)
        return low, high
    # There is no interval: the worst and the best mean themselves are compared.
    sum_of_scores = numbers.count * mean
    n_rows = numbers.count + numbers.unknown
    worst_mean = sum_of_scores / n_rows
    best_mean = (sum_of_scores + numbers.unknown) / n_rows
    return worst_mean, best_mean


def three_way(low: float, high: float, threshold: float) -> Outcome:
    """Return whether bounds pass what is wanted, fail it, or leave it undecided.

    It is passed if the lower bound reaches what is wanted. It is failed if the upper
    bound misses it.
    """
    threshold -= ROUNDING
    if low >= threshold:
        return "passed"
    return "failed" if high < threshold else "undecided"


def _missing(numbers: MetricSummary, summary: Summary) -> str:
    """Why rows have no score, with counts."""
    bad = f"{summary.bad_rows} unreadable" if summary.bad_rows else ""
    return ", ".join(filter(None, (numbers.unscored_in_words, bad)))
