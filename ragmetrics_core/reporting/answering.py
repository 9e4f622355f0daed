"""What an application did with questions: where its contexts were enough, and where not.

Four cases and two shares, and never one number: an application that declines more is
better in one share and worse in the other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from pydantic import Field

from ragmetrics_core.data import Frozen, SampleResult, Scored, SettingError, Share
from ragmetrics_core.data.metric_evidence import (
    CASES_IN_WORDS,
    AnsweringCase,
    Sufficed,
)
from ragmetrics_core.reporting.pairing import GroupBy, KeysSought, numbering
from ragmetrics_core.reporting.summary import counted
from ragmetrics_core.statistics.means import Interval, mean, mean_interval

_RIGHT = 0.5  # the least Context Recall of an answer that counts as right
_NOT_WRONG = (
    '"Answered from elsewhere" does not mean wrong: a model may know the answer, and'
    " nothing shown backs it."
)


class AnsweringShare(Frozen):
    """A share of samples, with its 95 % interval."""

    count: int = Field(description="samples that did the right thing")
    total: int = Field(description="samples of which it could be expected")
    share: Share | None = Field(description="count / total; None without samples")
    interval: Interval | None = Field(
        description="95 % interval of the share: Wilson, over clusters t"
    )

    def __str__(self) -> str:
        if self.share is None or self.interval is None:
            return "no sample"
        low, high = self.interval.low, self.interval.high
        text = f"{self.count} of {self.total}, {self.share:.3f} [{low:.3f}, {high:.3f}]"
        if self.interval.clusters is not None:
            text += f" over {counted(self.interval.clusters, 'cluster')}"
        return text


class RightAnswers(Frozen):
    """How many answers of one case match the reference."""

    right: int = Field(0, description="answers with a Context Recall of 0.5 or more")
    wrong: int = Field(0, description="answers with a lower one")
    unknown: int = Field(0, description="answers without a score of Context Recall")


class Answering(Frozen):
    """What an application did with its questions. ``str()`` tells it as text.

    There is no number over all: answering more and declining more trade the two shares
    for each other.
    """

    metric: str = Field(description="name of the metric of sufficiency")
    cases: dict[AnsweringCase, int] = Field(description="samples by case")
    without_case: int = Field(
        description="rows of which the case is not known: not scored, or no answer"
    )
    answered: AnsweringShare = Field(
        description="answered, of the samples whose contexts were enough"
    )
    rightly_declined: AnsweringShare = Field(
        description="declined, of the samples whose contexts were not enough"
    )
    right_answers: dict[AnsweringCase, RightAnswers] | None = Field(
        None,
        description=(
            "answers that match the reference, by case; None without Context Recall"
        ),
    )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        """The cases as a table, the shares, and what the words mean."""
        cases = self.cases
        cells = {case: str(count) for case, count in cases.items()}
        yield f"{'contexts':<12}{'answered':>22}{'declined':>22}"
        yield f"{'enough':<12}{cells['answered']:>22}{cells['over_declined']:>22}"
        elsewhere = f"{cells['unbacked']} from elsewhere"
        rightly = f"{cells['rightly_declined']} rightly"
        yield f"{'not enough':<12}{elsewhere:>22}{rightly:>22}"
        yield f"{CASES_IN_WORDS['uncertain']}: {cells['uncertain']}, in no share"
        yield f"Answered where the contexts were enough: {self.answered}."
        yield f"Declined where they were not: {self.rightly_declined}."
        yield from self._lines_on_right_answers()
        if self.without_case:
            yield f"{counted(self.without_case, 'row')} without a case."
        if cases["unbacked"]:
            yield _NOT_WRONG

    def _lines_on_right_answers(self) -> Iterator[str]:
        """How many answers match the reference, for each case with an answer."""
        for case, answers in (self.right_answers or {}).items():
            n_known = answers.right + answers.wrong
            if n_known == 0:
                continue
            yield (
                f"Of those {CASES_IN_WORDS[case]}: {answers.right} of {n_known} match"
                f" the reference (Context Recall of {_RIGHT:g} or more)."
            )

    def _repr_html_(self) -> str:
        from ragmetrics_core.data.display import element

        return element("pre", [str(self)])


def count_answering(
    results: Iterable[SampleResult],
    metric: str,
    *,
    recall: str | None,
    cluster: GroupBy,
) -> Answering:
    """Count the cases of answering over the rows of a report.

    Args:
        results: The rows.
        metric: Full name of the metric of sufficiency.
        recall: Full name of a Context Recall that divides the answered; None for none.
        cluster: Which samples belong together.

    Raises:
        SettingError: If a result of the metric says nothing of sufficiency, or no
            sample has the key of the clusters.
    """
    tally = _Tally()
    right_answers = {"answered": Counter[str](), "unbacked": Counter[str]()}
    keys_sought = KeysSought(cluster=cluster)
    number_of = numbering(cluster)
    for row in results:
        if row.sample is not None:
            keys_sought.look(row.sample)
        case = _case_of(row, metric)
        tally.add(case, number_of(row.sample))
        if recall is not None and case in right_answers:
            right_answers[case][_matches_reference(row, recall)] += 1
    keys_sought.check()
    return Answering(
        metric=metric,
        cases={case: tally.cases[case] for case in get_args(AnsweringCase)},
        without_case=tally.cases[None],
        answered=tally.share("answered", "over_declined"),
        rightly_declined=tally.share("rightly_declined", "unbacked"),
        right_answers=(
            None
            if recall is None
            else {
                case: RightAnswers(**counts) for case, counts in right_answers.items()
            }
        ),
    )


def _case_of(row: SampleResult, metric: str) -> AnsweringCase | None:
    """The case of a row; None where it is not known."""
    result = row.results.get(metric)
    if not isinstance(result, Scored):
        return None
    if not isinstance(result.evidence, Sufficed):
        raise SettingError(
            f"{metric} does not say whether contexts were enough; give the name of a"
            " ContextSufficiency"
        )
    return result.evidence.case


def _matches_reference(row: SampleResult, recall: str) -> str:
    """``right``, ``wrong`` or ``unknown``, by the Context Recall of the answer."""
    result = row.results.get(recall)
    if not isinstance(result, Scored):
        return "unknown"
    return "right" if result.value >= _RIGHT else "wrong"


class _Tally:
    """The cases counted, and the cluster of each sample with a case."""

    def __init__(self) -> None:
        self.cases: Counter[AnsweringCase | None] = Counter()
        self._clusters: dict[AnsweringCase, list[int]] = {}

    def add(self, case: AnsweringCase | None, cluster: int) -> None:
        """Count one row."""
        self.cases[case] += 1
        if case is not None:
            self._clusters.setdefault(case, []).append(cluster)

    def share(self, right: AnsweringCase, other: AnsweringCase) -> AnsweringShare:
        """The share of one case in two, with its interval."""
        clusters_of_right = self._clusters.get(right, [])
        clusters_of_other = self._clusters.get(other, [])
        values = [1.0] * len(clusters_of_right) + [0.0] * len(clusters_of_other)
        return AnsweringShare(
            count=len(clusters_of_right),
            total=len(values),
            share=mean(values),
            interval=mean_interval(values, clusters_of_right + clusters_of_other),
        )
