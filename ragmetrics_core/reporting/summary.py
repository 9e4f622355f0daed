"""What a run measured, metric by metric."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from ragmetrics_core.data import (
    EMBEDDED,
    Frozen,
    Grade,
    Usage,
    find_metric,
    has_answer_without_context,
)
from ragmetrics_core.data.display import count_in_words, one_line
from ragmetrics_core.data.results import (
    Failed,
    MetricResult,
    SampleResult,
    Scored,
    Signature,
    Undefined,
    models_of,
    signature_part,
    signatures_with_models,
)
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.reporting.diagnosis import is_declined, lacks_wanted_answer
from ragmetrics_core.reporting.groups import Clusters, GroupBy, KeysSought, group_of
from ragmetrics_core.reporting.run_facts import RunFacts
from ragmetrics_core.statistics.means import (
    FEWEST_CLUSTERS,
    Interval,
    mean,
    mean_interval,
    median,
    quartiles,
    sd,
    share_clusters,
)

if TYPE_CHECKING:
    from ragmetrics_core.metrics.registry import MetricLike

Name = TypeVar("Name", bound=str)
_BINS = 10
# Rows so many times the width of the middle half below it are its long tail (Tukey 1977).
_FENCE = 1.5

CAPTION = (
    "mean score of this judge on rows like these; poll noise included, judge bias not"
)
"""What an interval means; it stands beside every interval."""

# Why a metric has no meaning for rows, by the code of the result; a count comes before.
_WHY_UNDEFINED = {
    "missing": "without an input that it needs",
    "declined": "declined",
    "no_facts": "without a fact in the reference",
    "no_claim": "without a claim",
    "no_citations": "without citations",
    "undivided": "with an undivided text",
    "language": "in a language that the judge was not measured on",
    "other": "undefined, as each row says",
}


class MetricSummary(Frozen):
    """One metric over all rows.

    A number that does not exist, as without a scored row, is None, never NaN.

    Attributes:
        metric: Name of the metric.
        count: Rows scored.
        uncertain: Rows scored of which the judge says that it is uncertain.
        mean: Mean score in [0, 1]; higher is better.
        median: Median score.
        sd: Standard deviation (divisor n − 1); None below two scores.
        min: Lowest score.
        max: Highest score.
        interval: 95 % interval of the mean, with its method.
        unknown: Rows whose score is not known: failed or not judged, bad rows included.
        worst: The interval if each of them had scored 0.
        best: The interval if each of them had scored 1.
        undefined: Rows without a meaning for the metric, by code.
        failed: Rows without a score, by type of error.
        failure: Why the first of them failed.
        not_judged: Rows that are samples but have no result of this metric.
        signatures: Judged rows by the signature of their result, the most frequent
            first; with the models where several replied under one signature.
        scores: Every score, the lowest first.
        clusters: The number of each score's cluster, then of each row of unknown score;
            () if none share one.
        bounds: Of each row that lost polls, the scores that they could lead to.
    """

    metric: str
    count: int = 0
    uncertain: int = 0
    mean: float | None = None
    median: float | None = None
    sd: float | None = None
    min: float | None = None
    max: float | None = None
    interval: Interval | None = None
    unknown: int = 0
    worst: Interval | None = None
    best: Interval | None = None
    undefined: dict[str, int] = Field(default={})
    failed: dict[str, int] = Field(default={})
    failure: str = Field(default="", repr=False)
    not_judged: int = 0
    signatures: dict[str, int] = Field(default={}, repr=False)
    scores: tuple[float, ...] = Field(default=(), repr=False, exclude=True)
    clusters: tuple[int, ...] = Field(default=(), repr=False, exclude=True)
    bounds: tuple[tuple[float, float], ...] = Field(
        default=(), repr=False, exclude=True
    )

    @property
    def mixed(self) -> str:
        """Why its rows are not comparable with each other, in words; "" if they are.

        Example: "its rows were measured in 2 ways: 40 by model:a, 40 by model:b; judge
        all by one (--fresh, or another --store), or choose one, e.g. by report
        --signature model:a, in Python by report.with_signature".
        """
        if len(self.signatures) < 2:
            return ""
        parts_by_way = [
            dict(Signature.model_validate(line).parts()) for line in self.signatures
        ]
        names = dict.fromkeys(name for parts in parts_by_way for name in parts)
        differing = [
            name
            for name in names
            if len({parts.get(name) for parts in parts_by_way}) > 1
        ]
        words_by_way = [
            [signature_part(name, parts[name]) for name in differing if name in parts]
            for parts in parts_by_way
        ]
        counted = ", ".join(
            f"{count:,} by {one_line(' '.join(words) or 'neither')}"
            for words, count in zip(words_by_way, self.signatures.values(), strict=True)
        )
        example = next(word for words in words_by_way for word in words)
        # the store holds replies of a model that answers no more
        anew = ""
        if "model" in differing:
            anew = "judge all by one (--fresh, or another --store), or "
        return (
            f"its rows were measured in {len(self.signatures)} ways: {counted};"
            f" {anew}choose one, e.g. by report --signature {quote(one_line(example))},"
            " in Python by report.with_signature"
        )

    @property
    def lost(self) -> float:
        """How many rows' scores lost polls could make up, e.g. .4 for 2 of 5."""
        return fsum(high - low for low, high in self.bounds)

    @property
    def n_yes(self) -> int:
        """Rows that score above one half."""
        return sum(map(is_yes, self.scores))

    @property
    def quartiles(self) -> tuple[float, float, float] | None:
        """The ends of the middle half of the scores, with the median between them."""
        return quartiles(self.scores)

    @property
    def risk(self) -> str:
        """The signs of high risk, in words; "" for none.

        There are two: mean and median are low, and a long lower tail, that is rows with
        a low score far below the middle half. Example: "mean 0.31 and median 0.25 are
        low" or "a long lower tail: 2 of 20 rows, down to 0.00".
        """
        box = self.quartiles
        if self.mean is None or box is None:
            return ""
        lower, middle, upper = box
        signs = []
        if not is_yes(self.mean) and not is_yes(middle):
            signs.append(f"mean {self.mean:.2f} and median {middle:.2f} are low")
        fence = lower - _FENCE * (upper - lower)
        tail = [score for score in self.scores if score < fence and not is_yes(score)]
        if tail:
            rows = f"{len(tail):,} of {self.count:,} rows, down to {tail[0]:.2f}"
            signs.append(f"a long lower tail: {rows}")
        return "; ".join(signs)

    @property
    def histogram(self) -> tuple[int, ...]:
        """How many scores lie in each tenth of [0, 1]; 1 lies in the last."""
        counts = [0] * _BINS
        for score in self.scores:
            counts[min(_BINS - 1, int(round(score * _BINS, 6)))] += 1
        return tuple(counts)

    @property
    def unscored_in_words(self) -> str:
        """Why rows have no score of this metric, with counts; "" if all have one."""
        parts = [
            f"{count:,} {_WHY_UNDEFINED.get(code, code)}"
            for code, count in self.undefined.items()
        ]
        parts += [f"{count:,} failed ({kind})" for kind, count in self.failed.items()]
        if self.not_judged:
            parts.append(f"{self.not_judged:,} without a result")
        if self.lost:
            parts.append(f"lost polls worth {self.lost:,.1f} rows")
        return ", ".join(parts)


class CaptureDoubt(Frozen):
    """What capturing was not sure of in some samples, by the code of the doubt.

    Attributes:
        code: Which doubt it is.
        text: What it is, as the first sample says it.
        samples: How many samples bear it.
        index: Place of the first of them in the input, from 0.
    """

    code: str
    text: str
    samples: int = 0
    index: int

    def __str__(self) -> str:
        """The doubt in a line."""
        samples = count_in_words(self.samples, "sample")
        return f"{self.text} ({samples}; the first is row {self.index + 1})"


class Summary(Frozen):
    """A whole run in numbers. ``rows`` = ``judged`` + ``not_judged`` + ``bad_rows``.

    Attributes:
        rows: Rows of the input.
        cluster: Which samples belong together in intervals.
        judged: Samples with at least one result.
        not_judged: Samples without a result: the run ended before, or the application
            failed.
        bad_rows: Rows that are no sample, not evaluated.
        without_context: Answers given without any context, as far as contexts were
            recorded.
        declined: Judged samples whose answer was found to decline.
        without_answer: Samples without a wanted answer, or whose answer rests on
            nothing.
        asked: Judged samples of which it is known whether they were answered.
        answered_interval: 95 % interval of the share of them that were.
        application_errors: Samples whose application run went wrong.
        grades: Captured samples by grade, see ``CaptureNotes``.
        doubts: What capturing was not sure of, the most frequent first.
        metrics: One summary per metric.
        usage: What everything cost together, unfinished metrics included.
        judges: Who judged.
        stopped: Why the run ended before all rows of its input were read; "" if it did
            not.
        left_out: Which rows were left out, and why, in words.
        caption: What the intervals mean.
        slices: By key and value, where asked for.
    """

    rows: int = 0
    cluster: GroupBy = "auto"
    judged: int = 0
    not_judged: int = 0
    bad_rows: int = 0
    without_context: int = 0
    declined: int = 0
    without_answer: int = 0
    asked: int = 0
    answered_interval: Interval | None = None
    application_errors: int = 0
    grades: dict[Grade, int] = Field(default={})
    doubts: tuple[CaptureDoubt, ...] = ()
    metrics: tuple[MetricSummary, ...]
    usage: Usage
    judges: tuple[str, ...] = Field(default=(), repr=False)
    stopped: str = ""
    left_out: tuple[str, ...] = ()
    caption: str = CAPTION
    slices: dict[str, dict[str, "Summary"]] = Field(default={}, repr=False)

    def __getitem__(self, metric: "MetricLike") -> MetricSummary:
        """Summary of one metric by name.

        Raises ``SettingError`` if it was not measured.
        """
        numbers_by_metric = {numbers.metric: numbers for numbers in self.metrics}
        return numbers_by_metric[
            find_metric(metric, list(numbers_by_metric), place="in this report")
        ]

    @property
    def shown(self) -> tuple[MetricSummary, ...]:
        """The metrics as screens show them: of a judge of words without an interval."""
        if set(self.judges) != {EMBEDDED}:
            return self.metrics
        return tuple(
            numbers.model_copy(update={"interval": None})
            if any(f"|judge:{EMBEDDED}" in line for line in numbers.signatures)
            else numbers
            for numbers in self.metrics
        )

    @property
    def answered_share(self) -> float | None:
        """Share of ``asked`` that were answered; None if ``asked`` is 0.

        A sample without an answer counts in ``asked``, though no judge was asked.
        """
        return self.answered / self.asked if self.asked else None

    @property
    def answered(self) -> int:
        """Judged samples with an answer that does not decline and may rest on a text.

        An answer for which it is known that nothing was found is none.
        """
        return self.asked - self.declined - self.without_answer

    @property
    def risks(self) -> tuple[str, ...]:
        """The signs of high risk of each metric that has any, a sentence each.

        None of a judge of words: its scores compare with each other, not with one half.
        """
        if EMBEDDED in self.judges:
            return ()
        return tuple(
            f"{numbers.metric}: {numbers.risk}."
            for numbers in self.metrics
            if numbers.risk
        )

    @property
    def other_models(self) -> str:
        """What the endpoint called its models, in a sentence; "" if as they were asked.

        A deployment or an alias may be the same model under another name.
        """
        asked = {judge.rpartition("/")[2] for judge in self.judges}
        others = [
            one_line(name)
            for name in self.usage.models
            if name.rpartition("/")[2] not in asked
        ]
        return f"The endpoint called its model {', '.join(others)}." if others else ""

    @property
    def signs(self) -> tuple[str, ...]:
        """What makes the numbers speak for less, a sentence each.

        Example: "answered without any context: 3 of 20 rows."
        """
        n_samples = self.judged + self.not_judged
        sentences = [
            f"{numbers.metric}: {numbers.mixed}."
            for numbers in self.metrics
            if numbers.mixed
        ]
        if self.without_context:
            sentences.append(
                f"answered without any context: {self.without_context} of"
                f" {n_samples} rows."
            )
        if self.application_errors:
            sentences.append(
                f"the application itself failed: {self.application_errors} of"
                f" {n_samples} rows."
            )
        for numbers in self.metrics:
            n_clusters = numbers.interval.clusters if numbers.interval else None
            if n_clusters and n_clusters < FEWEST_CLUSTERS:
                sentences.append(
                    f"{numbers.metric}: few clusters: {n_clusters}, under"
                    f" {FEWEST_CLUSTERS}; the interval is a rough guide."
                )
        return tuple(sentences)


class Tally:
    """A summary that grows row by row.

    It keeps numbers of each score and row, and the bounds of rows that lost polls, not
    the results.

    Args:
        metrics: Names of the metrics, in the order to show them.
        cluster: Which samples belong together.
        slices: Keys of the metadata; the rows with one value of a key are a slice, and
            have a summary of their own.
        is_slice: Whether this is the tally of a slice. Then nobody checks that samples
            have the keys.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        *,
        cluster: GroupBy = "auto",
        slices: Iterable[str] = (),
        is_slice: bool = False,
    ) -> None:
        self.metrics = {name: MetricTally() for name in metrics}
        # The number of rows with a trait, e.g. {"rows": 9, "judged": 7, "bad_rows": 1}:
        # the traits are fields of ``Summary``.
        self.row_counts: Counter[str] = Counter()
        # of each row of which it is known: 1 if it was answered, and its cluster
        self._answered = array("d")
        self._clusters_of_asked = array("q")
        self._n_asked_whether_declined = 0
        self._n_lacking_wanted_answer = 0
        self._cluster = cluster
        self._clusters = Clusters(cluster)
        # for the key "language" the tally of "en", that of "de" and so on
        slices = (slices,) if isinstance(slices, str) else slices
        self._slices_by_key: dict[str, dict[str, Tally]] = {key: {} for key in slices}
        self._bad_rows: list[SampleResult] = []
        # A key that no sample has was mistyped; looked for in the samples of the whole.
        self._keys_to_find = KeysSought(
            self._slices_by_key, None if is_slice else cluster
        )
        self.grades = Counter[Grade]()  # how surely the samples' contexts are known
        self._n_doubted: Counter[str] = Counter()  # samples, by the code of the doubt
        # by its code the earliest row that bears it, with its words there
        self._first_doubts: dict[str, tuple[int, str]] = {}
        self.usage = Usage()

    def add(self, result: SampleResult) -> None:
        """Count one row: its usage, its result of each metric, and its sample's traits.

        Example: a row in English counts in the whole, and in the slice "en" of
        "language". A bad row (no sample, or with a problem) counts in every slice.
        """
        self.usage += result.usage
        sample = result.sample
        if sample is not None:
            # A metadata key for slices or clusters that no sample has was mistyped.
            self._keys_to_find.look_in(sample)
        self.row_counts["rows"] += 1
        self._add_to_slices(result)
        if sample is None or result.problem:
            self.row_counts["bad_rows"] += 1
            for metric in self.metrics.values():
                metric.clusters_of_unknown.append(-1)  # it stands in no cluster
            return
        is_judged = bool(result.results)
        self.row_counts["judged" if is_judged else "not_judged"] += 1
        cluster_number = self._clusters.number(sample)
        for name, metric_tally in self.metrics.items():
            metric_tally.add(result.results.get(name), cluster_number)
        # what is known of a sample without any metric
        is_without_context = has_answer_without_context(sample)
        self.row_counts["without_context"] += is_without_context
        self.row_counts["application_errors"] += sample.error is not None
        if sample.capture is not None and sample.capture.grade is not None:
            self.grades[sample.capture.grade] += 1
        declined = is_declined(result)
        lacks_answer = lacks_wanted_answer(sample, result)
        # what rests on nothing found is no answer
        unanswered = not declined and (lacks_answer or is_without_context)
        self.row_counts["declined"] += declined is True
        self.row_counts["without_answer"] += unanswered
        if unanswered or declined is not None:
            self.row_counts["asked"] += 1
            self._answered.append(not (unanswered or declined))
            self._clusters_of_asked.append(cluster_number)
        self._n_asked_whether_declined += declined is not None
        self._n_lacking_wanted_answer += lacks_answer
        if sample.capture is None:
            return
        for code, text in sample.capture.doubts.items():
            self._n_doubted[code] += 1
            index, _ = self._first_doubts.setdefault(code, (result.index, text))
            if result.index < index:
                self._first_doubts[code] = result.index, text

    def _add_to_slices(self, result: SampleResult) -> None:
        """Count a row in the slice of each key to which its sample belongs.

        A bad row may belong to any slice, and so counts in each.
        """
        if not self._slices_by_key:
            return
        is_bad = result.sample is None or bool(result.problem)
        if is_bad:
            self._bad_rows.append(result)
        for key, slices in self._slices_by_key.items():
            if is_bad:
                for tally in slices.values():
                    tally.add(result)
                continue
            value = group_of(result.sample, key)
            name = f"without {key}" if value is None else value
            if name not in slices:  # it begins with the bad rows so far
                metrics = list(self.metrics)
                slices[name] = Tally(metrics, cluster=self._cluster, is_slice=True)
                for bad_row in self._bad_rows:
                    slices[name].add(bad_row)
            slices[name].add(result)

    def summary(self, *, run: RunFacts | None = None) -> Summary:
        """Sum up everything counted so far, as ``Report.summary`` does.

        Example: 10 rows with one metric and slices "en" and "de": the numbers of the
        metric over 10 rows, and a summary of each slice.

        Args:
            run: Facts of the run: who judged, and why it is incomplete.

        Raises:
            SettingError: If no sample has the key of the slices or the clusters.
        """
        self._keys_to_find.check()
        run = run or RunFacts()
        run_of_slices = run.model_copy(update={"left_out": ()})  # of which, none knows
        row_counts = Counter(self.row_counts)
        answered_interval = mean_interval(self._answered, self._clusters_of_asked)
        if not self._n_asked_whether_declined and (
            self._n_lacking_wanted_answer < row_counts["judged"]
        ):
            # a share of the rows that nobody needs to ask about is no share of all
            row_counts["asked"] = row_counts["without_answer"] = 0
            answered_interval = None
        doubts = [
            CaptureDoubt(
                code=code, text=text, samples=self._n_doubted[code], index=index
            )
            for code, (index, text) in self._first_doubts.items()
        ]
        # of equally frequent ones the earlier row first
        doubts.sort(key=lambda one: (-one.samples, one.index))
        return Summary(
            **row_counts,  # such as rows=9, judged=7, bad_rows=1
            cluster=self._cluster,
            grades=_counts(self.grades),
            doubts=tuple(doubts),
            metrics=tuple(tally.summary(name) for name, tally in self.metrics.items()),
            answered_interval=answered_interval,
            usage=self.usage,
            stopped=run.ended_early,
            left_out=run.left_out,
            judges=run.judges,
            slices={
                key: {
                    name: tally.summary(run=run_of_slices)
                    for name, tally in slices.items()
                }
                for key, slices in self._slices_by_key.items()
            },
        )


class MetricTally:
    """One metric's part of a tally.

    Attributes:
        scores: The scores.
        clusters_of_scored: For each score, the number of the sample's cluster.
        clusters_of_unknown: The same of rows whose score is not known: they failed,
            were not judged, or are no sample.
        n_undefined_by_code: Rows for which the metric has no meaning.
        n_failed_by_type: Rows on which the judge failed, by type of error.
        first_failure: Why the first row failed; "" if none did.
        first_undefined_reason: Why the first row is undefined; "" if none is.
        n_not_judged: Samples without a result of this metric.
        n_uncertain: Scores that the judge calls uncertain.
        bounds: Of each row that lost polls, the scores that they could lead to.
        n_by_way: Rows that were judged, by what makes them comparable: the line of the
            signature, and the models that replied.
    """

    def __init__(self) -> None:
        self.scores = array("d")
        self.clusters_of_scored = array("q")
        self.clusters_of_unknown = array("q")
        self.n_undefined_by_code = Counter[str]()
        self.n_failed_by_type = Counter[str]()
        self.first_failure = ""
        self.first_undefined_reason = ""
        self.n_not_judged = 0
        self.n_uncertain = 0
        self.bounds: list[tuple[float, float]] = []
        self.n_by_way = Counter[tuple[str, str]]()

    def add(self, result: MetricResult | None, cluster_number: int) -> None:
        """Count one sample's result of this metric.

        A row that failed or was not judged (None) has an unknown score: intervals may
        count it as 0 or as 1.
        """
        if result is None:
            self.n_not_judged += 1
            self.clusters_of_unknown.append(cluster_number)
            return
        # A judge that was not asked, or failed, has no part in the numbers.
        is_judged = isinstance(result, Scored) or (
            isinstance(result, Undefined) and bool(result.judge)
        )
        signature = str(result.signature)  # "" where it is not known
        if is_judged and signature:
            self.n_by_way[signature, models_of(result)] += 1
        if isinstance(result, Undefined):
            self.n_undefined_by_code[result.code] += 1
            self.first_undefined_reason = self.first_undefined_reason or result.reason
        elif isinstance(result, Failed):
            self.n_failed_by_type[result.error.type] += 1
            self.clusters_of_unknown.append(cluster_number)
            self.first_failure = self.first_failure or result.reason
        else:
            self.scores.append(result.value)
            self.clusters_of_scored.append(cluster_number)
            self.n_uncertain += result.uncertain
            if result.bounds is not None:
                self.bounds.append(result.bounds)

    def summary(self, name: str) -> MetricSummary:
        """Sum up what was counted of the metric of this name.

        Example: scores .5 and 1.0 and one failure: count 2, mean .75, unknown 1.
        """
        scores = self.scores
        clusters: tuple[int, ...] = ()
        if share_clusters(self.clusters_of_scored + self.clusters_of_unknown):
            pairs = sorted(zip(scores, self.clusters_of_scored, strict=True))
            clusters = (*(number for _, number in pairs), *self.clusters_of_unknown)
        return MetricSummary(
            metric=name,
            scores=tuple(sorted(scores)),
            clusters=clusters,
            bounds=tuple(self.bounds),
            count=len(scores),
            uncertain=self.n_uncertain,
            mean=mean(scores),
            median=median(scores),
            sd=sd(scores),
            min=min(scores, default=None),
            max=max(scores, default=None),
            interval=mean_interval(scores, self.clusters_of_scored),
            unknown=len(self.clusters_of_unknown),  # it has an entry for each such row
            worst=self._interval_if_unknown_scored(0.0),
            best=self._interval_if_unknown_scored(1.0),
            undefined=_counts(self.n_undefined_by_code),
            failed=_counts(self.n_failed_by_type),
            failure=self.first_failure,
            not_judged=self.n_not_judged,
            signatures=_counts(signatures_with_models(self.n_by_way)),
        )

    def _interval_if_unknown_scored(self, score: float) -> Interval | None:
        """The t interval of the mean if each row of unknown score had this one.

        None without any known score.
        """
        if not self.scores:
            return None
        n_unknown = len(self.clusters_of_unknown)
        scores = self.scores + array("d", [score]) * n_unknown
        cluster_numbers = self.clusters_of_scored + self.clusters_of_unknown
        return mean_interval(scores, cluster_numbers)


def _counts(counter: Mapping[Name, int]) -> dict[Name, int]:
    """How often each name occurs, the most frequent first, then by name."""
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
