"""What an application did with questions: where its contexts were enough, and where not.

Four cases and two shares, and never one number: an application that declines more is
better in one share and worse in the other.
"""

from collections.abc import Iterable, Sequence
from typing import get_args

from ragmetrics_core.data import (
    Frozen,
    SampleResult,
    Scored,
    SettingError,
    Share,
    element,
)
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.metric_evidence import CASES_IN_WORDS, AnsweringCase, Sufficed
from ragmetrics_core.reporting.groups import Clusters, GroupBy
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.statistics.means import Interval, mean, mean_interval

_HEADINGS = ("contexts", "answered", "declined")
_NOT_WRONG = (
    '"Answered from elsewhere" does not mean wrong: a model may know the answer, and'
    " nothing shown backs it."
)


class AnsweringShare(Frozen):
    """A share of samples, with its 95 % interval.

    Attributes:
        count: Samples that did the right thing.
        total: Samples of which it could be expected.
        share: Count / total; None without samples.
        interval: 95 % interval of the share: Wilson, over clusters t; None without
            samples.
    """

    count: int
    total: int
    share: Share | None
    interval: Interval | None = None

    def __str__(self) -> str:
        """The share in words, e.g. "40 of 50, 0.800 [0.670, 0.888] over 12 clusters"."""
        if self.share is None:
            return "no sample"
        text = f"{self.count:,} of {self.total:,}, {self.share:.3f}"
        if self.interval is None:
            return text
        text += f" [{self.interval.low:.3f}, {self.interval.high:.3f}]"
        if self.interval.clusters is not None:
            text += f" over {count_in_words(self.interval.clusters, 'cluster')}"
        return text


class Answering(Frozen):
    """What an application did with its questions. ``str()`` tells it as text.

    There is no number over all: answering more and declining more trade the two shares
    for each other.

    Attributes:
        metric: Name of the metric of sufficiency.
        cases: Samples by case.
        without_case: Rows of which the case is not known: not scored, or no answer.
        answered: Answered, of the samples whose contexts were enough.
        rightly_declined: Declined, of the samples whose contexts were not enough.
    """

    metric: str
    cases: dict[AnsweringCase, int]
    without_case: int
    answered: AnsweringShare
    rightly_declined: AnsweringShare

    def __str__(self) -> str:
        lines = [
            f"{contexts:<12}{answered:>22}{declined:>22}"
            for contexts, answered, declined in (_HEADINGS, *self.rows_of_table)
        ]
        return "\n".join([*lines, *self.sentences])

    @property
    def rows_of_table(self) -> tuple[tuple[str, str, str], ...]:
        """Rows of a table: the contexts, how many answered, and how many declined."""
        cases = self.cases
        return (
            ("enough", f"{cases['answered']:,}", f"{cases['over_declined']:,}"),
            (
                "not enough",
                f"{cases['unbacked']:,} from elsewhere",
                f"{cases['rightly_declined']:,} rightly",
            ),
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """Write the sentences under the table.

        They are on uncertain samples, on both shares, and on rows without a case. A
        last sentence says that answers without enough contexts need
        not be wrong. Example: "Answered where the contexts were enough: 40 of 50, 0.800
        …".
        """
        n_uncertain = self.cases["uncertain"]
        sentences = [
            f"{CASES_IN_WORDS['uncertain'].capitalize()}: {n_uncertain:,}, in no share.",
            f"Answered where the contexts were enough: {self.answered}.",
            f"Declined where they were not: {self.rightly_declined}.",
        ]
        if self.without_case:
            sentences.append(
                f"{count_in_words(self.without_case, 'row')} without a case."
            )
        if self.cases["unbacked"]:
            sentences.append(_NOT_WRONG)
        return tuple(sentences)

    def _repr_html_(self) -> str:
        return element("pre", [str(self)])


def count_answering(
    results: Iterable[SampleResult], metric: str, cluster: GroupBy = "auto"
) -> Answering:
    """Count the cases of answering over the rows of a report.

    The case of a row says whether its contexts were enough, and whether the application
    answered or declined; "uncertain" where the judge is unsure. Example: 40 rows
    "answered" and 10 "over_declined": the share ``answered`` is 40 of 50.

    Args:
        results: The rows.
        metric: Full name of the metric of sufficiency.
        cluster: Which samples belong together.

    Raises:
        SettingError: If a result of the metric says nothing of sufficiency.
    """
    # by case the number of the cluster of each row
    clusters: dict[AnsweringCase, list[int]] = {
        case: [] for case in get_args(AnsweringCase)
    }
    numbered = Clusters(cluster)
    n_rows = 0
    for row in results:
        n_rows += 1
        cluster_number = numbered.number(row.sample)
        result = row.results.get(metric)
        if not isinstance(result, Scored):
            continue
        if not isinstance(result.evidence, Sufficed):
            raise SettingError(
                f"{metric} does not say whether contexts were enough; give the name of a"
                " ContextSufficiency"
            )
        if result.evidence.case is not None:
            clusters[result.evidence.case].append(cluster_number)
    n_by_case = {case: len(numbers) for case, numbers in clusters.items()}
    return Answering(
        metric=metric,
        cases=n_by_case,
        without_case=n_rows - sum(n_by_case.values()),
        answered=_share(clusters["answered"], clusters["over_declined"]),
        rightly_declined=_share(clusters["rightly_declined"], clusters["unbacked"]),
    )


def _share(held: Sequence[int], others: Sequence[int]) -> AnsweringShare:
    """Compute the share of one case among two, given by the clusters of their rows."""
    values = [1.0] * len(held) + [0.0] * len(others)
    return AnsweringShare(
        count=len(held),
        total=len(values),
        share=mean(values),
        interval=mean_interval(values, [*held, *others]),
    )


def answerings_of(results: Sequence[SampleResult], summary: Summary) -> list[Answering]:
    """Count the cases for each metric of the run that says whether contexts sufficed."""
    names = {
        name
        for row in results
        for name, result in row.results.items()
        if isinstance(result.evidence, Sufficed)
    }
    return [
        count_answering(results, numbers.metric, summary.cluster)
        for numbers in summary.metrics
        if numbers.metric in names
    ]
