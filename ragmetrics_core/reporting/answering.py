"""What an application did with questions: where its contexts were enough, and where not.

Four cases and two shares, and never one number: an application that declines more is
better in one share and worse in the other.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from pydantic import Field

from ragmetrics_core.data import (
    Frozen,
    SampleResult,
    Scored,
    SettingError,
    Share,
    element,
)
from ragmetrics_core.data.display import count_in_words
from ragmetrics_core.data.metric_evidence import (
    CASES_IN_WORDS,
    AnsweringCase,
    Sufficed,
)
from ragmetrics_core.data.one_half import is_yes
from ragmetrics_core.reporting.groups import GroupBy, KeysSought, numbering
from ragmetrics_core.reporting.summary import Summary
from ragmetrics_core.statistics.means import (
    FEWEST_CLUSTERS,
    Interval,
    mean,
    mean_interval,
)

_WITH_ANSWER: tuple[AnsweringCase, ...] = ("answered", "unbacked")
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
        default=None,
        description=(
            "95 % interval of the share: Wilson, over clusters t; None without samples,"
            " and of a run until decided"
        ),
    )

    def __str__(self) -> str:
        """The share in words, e.g. "40 of 50, 0.800 [0.670, 0.888] over 12 clusters"."""
        if self.share is None:
            return "no sample"
        text = f"{self.count:,} of {self.total:,}, {self.share:.3f}"
        if self.interval is None:
            return text
        text += f" [{self.interval.low:.3f}, {self.interval.high:.3f}]"
        n_clusters = self.interval.clusters
        if n_clusters is not None:
            text += f" over {count_in_words(n_clusters, 'cluster')}"
            if n_clusters < FEWEST_CLUSTERS:
                text += ", which are few: a rough guide"
        return text


class RightAnswers(Frozen):
    """How many answers of one case match the reference."""

    right: int = Field(default=0, description="answers with a Context Recall above 0.5")
    wrong: int = Field(default=0, description="answers with a lower one")
    unknown: int = Field(
        default=0, description="answers without a score of Context Recall"
    )


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
        default=None,
        description=(
            "answers that match the reference, by case; None where no answer has a"
            " score of Context Recall"
        ),
    )

    def __str__(self) -> str:
        return "\n".join([*self._table(), *self.sentences])

    def _table(self) -> Iterator[str]:
        """The four cases, in lines of equal columns."""
        rows = (("contexts", "answered", "declined"), *self.rows)
        for contexts, answered, declined in rows:
            yield f"{contexts:<12}{answered:>22}{declined:>22}"

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
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

        They are on uncertain samples, on both shares, on right answers, and on rows
        without a case. A last sentence says that answers without enough contexts need
        not be wrong. Example: "Answered where the contexts were enough: 40 of 50, 0.800
        …".
        """
        n_uncertain = self.cases["uncertain"]
        sentences = [
            f"{CASES_IN_WORDS['uncertain'].capitalize()}: {n_uncertain:,}, in no share.",
            f"Answered where the contexts were enough: {self.answered}.",
            f"Declined where they were not: {self.rightly_declined}.",
            *self._sentences_on_right_answers(),
        ]
        if self.without_case:
            sentences.append(
                f"{count_in_words(self.without_case, 'row')} without a case."
            )
        if self.cases["unbacked"]:
            sentences.append(_NOT_WRONG)
        return tuple(sentences)

    def _sentences_on_right_answers(self) -> Iterator[str]:
        """How many answers match the reference, for each case with an answer."""
        for case, answers in (self.right_answers or {}).items():
            n_known = answers.right + answers.wrong
            if n_known == 0:
                continue
            yield (
                f"Of those {CASES_IN_WORDS[case]}: {answers.right:,} of {n_known:,}"
                f" match the reference (Context Recall above 0.5)."
            )

    def _repr_html_(self) -> str:
        return element("pre", [str(self)])


class AnsweringTally:
    """Counts the cases of answering over rows that come one by one.

    The case of a row says whether its contexts were enough, and whether the application
    answered or declined.

    Args:
        metric: Full name of the metric of sufficiency.
        recall: Full name of the Context Recall that divides the answered.
    """

    def __init__(self, metric: str, recall: str) -> None:
        self._metric = metric
        self._recall = recall
        # the number of the cluster of each sample, by the sample's case
        self._cluster_numbers_by_case: dict[AnsweringCase, array[int]] = {
            case: array("q") for case in get_args(AnsweringCase)
        }
        # how many answers are "right", "wrong" or "unknown", for cases with an answer
        self._counts_of_answers_by_case: dict[AnsweringCase, Counter[str]] = {
            case: Counter() for case in _WITH_ANSWER
        }

    def add(self, row: SampleResult, cluster: int) -> None:
        """Count one row; one whose case is not known is left out.

        Args:
            row: The row.
            cluster: Number of its cluster, negative for one of its own.

        Raises:
            SettingError: If the metric's result says nothing of sufficiency.
        """
        case = _case_of(row, self._metric)
        if case is None:
            return
        self._cluster_numbers_by_case[case].append(cluster)
        if case in self._counts_of_answers_by_case:
            match_with_reference = _match_with_reference(row, self._recall)
            self._counts_of_answers_by_case[case][match_with_reference] += 1

    def answering(self, n_rows: int, *, has_intervals: bool = True) -> Answering:
        """Sum up the rows counted so far: how many are in each case, and two shares.

        There are four cases, and "uncertain" for rows where the judge is unsure:

        - "answered": answered from contexts that were enough;
        - "over_declined": declined although they were enough;
        - "unbacked": answered although they were not enough;
        - "rightly_declined": declined because they were not enough.

        Example: 40 "answered" and 10 "over_declined": the share ``answered`` is 40 of
        50.

        Args:
            n_rows: How many rows there are, those without a case among them.
            has_intervals: False for a run that stopped early because of its scores. Its
                rows are no random sample, so the shares get no interval.

        Returns:
            The counts and shares. Their ``right_answers`` are None where no row has a
            score of Context Recall, which says whether an answer matches the reference.
        """
        n_by_case = {}
        for case, cluster_numbers in self._cluster_numbers_by_case.items():
            n_by_case[case] = len(cluster_numbers)  # one cluster number for each row
        return Answering(
            metric=self._metric,
            cases=n_by_case,
            without_case=n_rows - sum(n_by_case.values()),
            answered=self._share(
                "answered",
                among=("answered", "over_declined"),
                has_interval=has_intervals,
            ),
            rightly_declined=self._share(
                "rightly_declined",
                among=("rightly_declined", "unbacked"),
                has_interval=has_intervals,
            ),
            right_answers=self._right_answers(),
        )

    def _right_answers(self) -> dict[AnsweringCase, RightAnswers] | None:
        """How many answers match the reference, by case; None if it is known of none."""
        right_answers_by_case = {
            case: RightAnswers(**counts)
            for case, counts in self._counts_of_answers_by_case.items()
        }
        has_recall = any(
            answers.right or answers.wrong for answers in right_answers_by_case.values()
        )
        return right_answers_by_case if has_recall else None

    def _share(
        self,
        case: AnsweringCase,
        *,
        among: Iterable[AnsweringCase],
        has_interval: bool,
    ) -> AnsweringShare:
        """Compute the share of the rows of one case among the rows of several.

        The interval takes account of clusters, which are rows that are not independent.
        Example: 40 rows "answered" and 10 "over_declined": the share of "answered" among
        both is 40 of 50, .8.
        """
        values = array("d")  # 1 for a row of the case, 0 for a row of another
        cluster_numbers = array("q")
        for other_case in among:
            clusters_of_case = self._cluster_numbers_by_case[other_case]
            value = 1.0 if other_case == case else 0.0
            values += array("d", [value]) * len(clusters_of_case)
            cluster_numbers += clusters_of_case
        return AnsweringShare(
            count=len(self._cluster_numbers_by_case[case]),
            total=len(values),
            share=mean(values),
            interval=mean_interval(values, cluster_numbers) if has_interval else None,
        )


def count_answering(
    results: Iterable[SampleResult],
    metric: str,
    *,
    recall: str,
    cluster: GroupBy,
    has_intervals: bool = True,
) -> Answering:
    """Count the cases of answering over the rows of a report.

    Example: 3 rows, "answered", "unbacked" and one without a verdict: ``cases`` counts
    the first two, and ``without_case`` is 1.

    Args:
        results: The rows.
        metric: Full name of the metric of sufficiency.
        recall: Full name of the Context Recall that divides the answered.
        cluster: Which samples belong together.
        has_intervals: False for a run that stopped early because of its scores.

    Raises:
        SettingError: If a result of the metric says nothing of sufficiency, or no
            sample has the key of the clusters.
    """
    tally = AnsweringTally(metric, recall)
    keys_sought = KeysSought(cluster=cluster)
    number_of = numbering(cluster)
    n_rows = 0
    for row in results:
        n_rows += 1
        if row.sample is not None:
            keys_sought.look_in(row.sample)
        tally.add(row, number_of(row.sample))
    keys_sought.check()
    return tally.answering(n_rows, has_intervals=has_intervals)


def answerings_of(results: Sequence[SampleResult], summary: Summary) -> list[Answering]:
    """Count the cases for each metric of the run that says whether contexts sufficed."""
    names = {
        name
        for row in results
        for name, result in row.results.items()
        if isinstance(result.evidence, Sufficed)
    }
    return [
        count_answering(
            results,
            numbers.metric,
            recall="context_recall",
            cluster="auto",
            has_intervals=not summary.decisions,
        )
        for numbers in summary.metrics
        if numbers.metric in names
    ]


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


def _match_with_reference(row: SampleResult, recall: str) -> str:
    """``right``, ``wrong`` or ``unknown``, by the Context Recall of the answer."""
    result = row.results.get(recall)
    if not isinstance(result, Scored):
        return "unknown"
    return "right" if is_yes(result.value) else "wrong"
