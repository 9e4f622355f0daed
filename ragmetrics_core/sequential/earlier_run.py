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


@dataclass(frozen=True)
class Partners:
    """Rows of the earlier run that belong to rows of this one.

    Attributes:
        by_place: The partner of each row of this run that has one, by the row's index.
        n_without: Rows of the earlier run that belong to none of this one.
    """

    by_place: dict[int, SampleResult] = field(default_factory=dict)
    n_without: int = 0  # rows of the earlier run that belong to none


def load_earlier_run(
    against: Report | Path | str | None,
    metrics: Sequence[Metric],
    judges: Mapping[str, Sequence[str]],
) -> Report | None:
    """Return the earlier run.

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
    """What was measured in another way, in words."""
    signatures = {metric.name: metric.signature for metric in metrics}
    differing = []
    for name, earlier_signature in earlier.run.metrics.items():
        # a metric of the earlier run that this one lacks is not compared
        signature = signatures.get(name, earlier_signature)
        if signature != earlier_signature:
            differing.append(f"{signature} against {earlier_signature}")
    earlier_judges = earlier.run.judges
    if not set(judges) <= set(earlier_judges):
        names = ", ".join(judges)
        earlier_names = ", ".join(earlier_judges)
        differing.append(f"judge {names} against {earlier_names}")
    differing += judges_elsewhere(judges, earlier.run.addresses).values()
    return differing


def partners_of(
    samples: Sequence[Sample | None], earlier: Report, *, min_scored: float
) -> Partners:
    """Find the rows of the earlier run that belong to the rows of this one.

    Args:
        samples: The rows of this run; None for a row that is no sample.
        earlier: The earlier run.
        min_scored: Share of the rows of either run that need a partner.

    Raises:
        InputError: If rows cannot be told apart, are asked something else than
            before, or too few have a partner.
    """
    rows = []
    for place, sample in enumerate(samples):
        rows.append(SampleResult(index=place, sample=sample))
    matched = match(earlier.results, rows)
    _refuse_rows_that_look_alike(matched)
    n_asked_otherwise = count_other_questions(matched.pairs)
    if n_asked_otherwise:
        raise InputError(
            f"{n_asked_otherwise:,} of {len(matched.pairs):,} rows have the id of an"
            " earlier row with another question or reference; give the ids that the"
            " same samples had in the earlier run"
        )
    _refuse_few_pairs(matched, len(samples), min_scored)
    by_place = {row.index: earlier_row for earlier_row, row in matched.pairs}
    # bad rows too: comparing two finished runs counts them as well
    return Partners(by_place, n_without=len(matched.first_only))


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
    """Raise ``InputError`` if fewer rows have a partner than need a score."""
    n_pairs = len(matched.pairs)
    n_all_rows = n_rows + len(matched.first_only)
    n_needed = min_scored * n_all_rows
    if n_pairs >= n_needed - 1e-9:
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
