"""The finished run that a run until decided is compared with.

Its rows are found that belong to rows of this run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragmetrics_core.data import InputError, Sample, SampleResult
from ragmetrics_core.metrics.metric import Metric
from ragmetrics_core.reporting.pairing import (
    Matched,
    count_other_questions,
    judges_elsewhere,
    match,
)
from ragmetrics_core.reporting.report import Report

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Partners:
    """Rows of the earlier run that belong to rows of this one.

    Attributes:
        by_index: The partner of each row of this run that has one, by the row's index.
        n_without: Rows of the earlier run that belong to none of this one.
    """

    by_index: dict[int, SampleResult] = field(default_factory=dict)
    n_without: int = 0  # rows of the earlier run that belong to none


def load_earlier_run(
    against: Report | Path | str | None,
    metrics: Sequence[Metric],
    judges: Mapping[str, Sequence[str]],
) -> Report | None:
    """Return the earlier run, after a check that it can be compared with this run.

    Example: "before.jsonl" is read; a run with another judge is refused.

    Args:
        against: The run, or its file; None if there is none.
        metrics: The metrics of this run.
        judges: Names of this run's judges, with the addresses that they ask.

    Raises:
        InputError: If the run cannot be read, was not judged to its end, or was
            measured by other judges or with other settings.
    """
    if against is None:
        return None
    earlier = against
    if isinstance(earlier, (str, Path)):
        earlier = Report.from_jsonl(earlier)
    _refuse_unfinished_run(earlier)
    differing = _differing_settings(earlier, metrics, judges)
    if differing:
        raise InputError(
            f"the runs are not comparable: {'; '.join(differing)}; measure both in the"
            " same way"
        )
    return earlier


def _refuse_unfinished_run(earlier: Report) -> None:
    """Raise ``InputError`` if the earlier run was not judged to its end."""
    reason = earlier.run.ended_early
    if not reason and earlier.decisions:
        reason = "its gates were decided"
    if reason:
        raise InputError(
            f"the earlier run was not judged to its end: {reason}; judge all of its"
            " rows"
        )


def _differing_settings(
    earlier: Report,
    metrics: Sequence[Metric],
    judges: Mapping[str, Sequence[str]],
) -> list[str]:
    """Say in words what the earlier run measured in another way than this one.

    Example: "context_recall|v2|polls:5 against context_recall|v2|polls:3". Empty if the
    runs can be compared.

    Args:
        earlier: The earlier run.
        metrics: The metrics of this run.
        judges: Names of this run's judges, with the addresses that they ask.
    """
    signature_by_name = {metric.name: metric.signature for metric in metrics}
    differences = []
    for name, earlier_signature in earlier.run.metrics.items():
        # a metric of the earlier run that this one lacks is not compared
        signature = signature_by_name.get(name, earlier_signature)
        if signature != earlier_signature:
            differences.append(f"{signature} against {earlier_signature}")
    earlier_judges = earlier.run.judges
    has_new_judge = not set(judges) <= set(earlier_judges)
    if has_new_judge:
        judge_names = ", ".join(judges)
        earlier_names = ", ".join(earlier_judges)
        differences.append(f"judge {judge_names} against {earlier_names}")
    differences += judges_elsewhere(judges, earlier.run.addresses).values()
    return differences


def partners_of(
    samples: Sequence[Sample | None], earlier: Report, *, min_scored: float
) -> Partners:
    """Find for each row of this run its partner: the same row in the earlier run.

    Example: the row "q7" is the third row now and was the fifth: its partner is found
    under the index 2.

    Args:
        samples: The rows of this run; None for a row that is no sample.
        earlier: The earlier run.
        min_scored: Share of all rows of the two runs that must have a partner.

    Raises:
        InputError: If rows cannot be told apart, are asked something else than
            before, or too few have a partner.
    """
    rows = [
        SampleResult(index=index, sample=sample) for index, sample in enumerate(samples)
    ]
    matched = match(earlier.results, rows)
    _refuse_rows_that_look_alike(matched)
    _refuse_other_questions(matched)
    _refuse_few_pairs(matched, len(samples), min_scored)
    partner_by_index = {row.index: earlier_row for earlier_row, row in matched.pairs}
    return Partners(partner_by_index, n_without=len(matched.first_only))


def _refuse_other_questions(matched: Matched) -> None:
    """Raise ``InputError`` if rows have the id of an earlier row that asked otherwise."""
    n_other_questions = count_other_questions(matched.pairs)
    if n_other_questions:
        raise InputError(
            f"{n_other_questions:,} of {len(matched.pairs):,} rows have the id of an"
            " earlier row with another question or reference; give the ids that the"
            " same samples had in the earlier run"
        )


def _refuse_rows_that_look_alike(matched: Matched) -> None:
    """Raise ``InputError`` if rows are matched by questions that look alike."""
    if matched.by != "question":
        return
    unmatched = [*matched.first_only, *matched.second_only]
    has_strangers = any(row.sample is not None for row in unmatched)
    questions = {row.sample.question for _, row in matched.pairs if row.sample}
    has_repeats = len(questions) < len(matched.pairs)
    if has_strangers or has_repeats:
        raise InputError(
            "rows cannot be told apart: both runs must hold the same questions, none"
            " of them twice, or each sample an id of its own"
        )


def _refuse_few_pairs(matched: Matched, n_rows: int, min_scored: float) -> None:
    """Raise ``InputError`` if too few of all rows stand in both runs.

    Only a pair of rows can have a score in a comparison. Example: 90 of 100 rows have a
    partner, and the least share is .95: refused.

    Args:
        matched: The pairs of rows, and the rows of the earlier run without a partner.
        n_rows: How many rows this run has.
        min_scored: The least share of all rows of the two runs.
    """
    n_pairs = len(matched.pairs)
    n_all_rows = n_rows + len(matched.first_only)
    n_needed = min_scored * n_all_rows
    if n_pairs >= n_needed - _ROUNDING:
        return
    advice = "compare runs of the same rows"
    n_bad_rows = sum(row.sample is None for row in matched.first_only)
    if n_bad_rows:
        advice = (
            f"{n_bad_rows:,} rows of the earlier run are no samples; mend them, or"
            f" {advice}"
        )
    raise InputError(
        f"only {n_pairs:,} of the {n_all_rows:,} rows of either run have a"
        f" partner, fewer than {100 * min_scored:g} %: {advice}"
    )
