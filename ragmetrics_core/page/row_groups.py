"""The groups of a report's rows: each row stands in exactly one, and has a name there.

The groups are tried in the order of ``TITLES``. First come rows of which nothing can be
said. Then come the stages at which a sample probably went wrong, and last the samples
without a loss.
"""

from ragmetrics_core.data import Failed, SampleResult, Scored
from ragmetrics_core.page.diagnosis import HALF, RULES, diagnose
from ragmetrics_core.statistics.stopping import ROUNDING

NOT_JUDGED = {
    "bad_row": "not a sample",
    "application_failed": "the application failed",
    "not_judged": "not judged",
}
"""Groups of rows that no judge has seen."""

LOSSES = {
    **{str(code): rule.title for code, rule in RULES.items()},
    "low": "a low score, cause unclear",
}
"""Groups of samples that went wrong: by the rules, then those of which no rule speaks."""

TITLES = {
    **NOT_JUDGED,
    **LOSSES,
    "judge_failed": "the judge failed",
    "nothing_to_measure": "nothing to measure",
    "no_loss": "no loss found",
}
"""Every group with what is said of it."""


def group_of_row(row: SampleResult) -> str:
    """The group in which a row stands, a key of ``TITLES``."""
    sample = row.sample
    if sample is None or row.problem:
        return "bad_row"
    if sample.error is not None:
        return "application_failed"
    if not row.results:
        return "not_judged"
    diagnosis = diagnose(row)
    if diagnosis is not None:
        return diagnosis.code
    return _group_without_diagnosis(row)


def _group_without_diagnosis(row: SampleResult) -> str:
    """The group of a judged sample of which no rule speaks."""
    results = row.results.values()
    scores = [result.value for result in results if isinstance(result, Scored)]
    if any(score < HALF - ROUNDING for score in scores):
        return "low"
    if any(isinstance(result, Failed) for result in results):
        return "judge_failed"
    return "no_loss" if scores else "nothing_to_measure"
