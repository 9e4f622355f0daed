"""The groups of a report's rows: each row stands in exactly one, and has a name there.

``TITLES`` has them in the order in which they are shown. First come rows that no judge
has seen. Then come the stages at which a row probably went wrong, the rows whose scores
say nothing, and last those without a loss.
"""

from typing import NamedTuple

from ragmetrics_core.data import Failed, SampleResult, Scored, Undefined
from ragmetrics_core.data.errors import MetricCrashed, ScoreOutOfRange
from ragmetrics_core.page.diagnosis import HALF, RULES, diagnose
from ragmetrics_core.page.stage_losses import STAGE_ADVICE
from ragmetrics_core.statistics.stopping import ROUNDING

NOT_JUDGED = {
    "bad_row": "unreadable",
    "application_failed": "the application failed on",
    "not_judged": "without a result",
}
"""Groups of rows that no judge has seen."""

LOSSES = {
    **{str(code): rule.title for code, rule in RULES.items()},
    "low": "a low score, cause unclear",
}
"""Groups of rows that went wrong: first those of the rules, then all other rows."""

JUDGE_FAILED = "judge_failed"
METRIC_FAILED = "metric_failed"
FAILED_GROUPS = (JUDGE_FAILED, METRIC_FAILED)
"""Groups of rows that may have a fault or not: a score was to be expected, and failed."""

NOT_SCORED = {
    JUDGE_FAILED: "the judge failed on",
    METRIC_FAILED: "a metric's own code failed on",
    "abstained": "declined",
    "missing": "without context or another input",
    "undefined": "for which no metric has a meaning",
}
"""Groups of judged rows whose outcomes do not say whether anything was lost."""

_ERRORS_OF_METRICS = {MetricCrashed.__name__, ScoreOutOfRange.__name__}

TITLES = {**NOT_JUDGED, **LOSSES, **NOT_SCORED, "no_loss": "no fault found"}
"""Every group with what is said of it."""


class Mending(NamedTuple):
    """What to mend where many rows stand in a group, and how."""

    stage: str
    remedy: str


MENDINGS = {
    "application_failed": Mending(
        "the application",
        "Its run ended in an error; the opened row shows which.",
    ),
    JUDGE_FAILED: Mending(
        "the judge",
        "Why it failed stands above; check its model, key, address and limits, and"
        " run again. A metric whose question it does not answer needs another judge.",
    ),
    METRIC_FAILED: Mending(
        "the metric",
        "Its code raised an error, or gave a score out of range; the opened row shows"
        " which.",
    ),
    "abstained": Mending(
        "what makes the application decline",
        "Open the rows: does the retrieved text hold the answer? Add"
        " context_utilization: at 0 no retrieved text was of use.",
    ),
    "missing": Mending(
        "the table",
        "Name the columns of what the metrics need; the opened row says what is"
        " missing.",
    ),
    **{str(code): Mending(rule.stage, rule.remedy) for code, rule in RULES.items()},
    **{code: Mending(of.stage, of.remedy) for code, of in STAGE_ADVICE.items()},
}
"""Of the groups, and of the stages of the journey, that name what to mend."""


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
    """Return the code of the group of a judged sample to which no diagnosis applies.

    The first group that fits is taken: some score is low, the judge failed, a metric's
    own code failed, all scores are good, the answer declined, an input is missing, or
    the metrics are undefined for another reason. Example: scores .9 and .3: "low"; .9
    and an undefined metric: "no_loss".
    """
    results = row.results.values()
    scores = [result.value for result in results if isinstance(result, Scored)]
    if any(score < HALF - ROUNDING for score in scores):
        return "low"
    errors = {result.error.type for result in results if isinstance(result, Failed)}
    if errors - _ERRORS_OF_METRICS:
        return JUDGE_FAILED
    if errors:
        return METRIC_FAILED
    if scores:
        return "no_loss"
    codes = {result.code for result in results if isinstance(result, Undefined)}
    if codes & {"abstained", "declined"}:
        return "abstained"
    return "missing" if "missing" in codes else "undefined"
